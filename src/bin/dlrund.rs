//! The node daemon, `dlrund`.

use std::process::ExitCode;

fn main() -> ExitCode {
    ExitCode::from(dlrun::node::daemon::start(std::env::args_os().skip(1)))
}
