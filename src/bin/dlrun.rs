//! The `dlrun` command.

use std::process::ExitCode;

fn main() -> ExitCode {
    ExitCode::from(dlrun::cli::run(std::env::args_os()))
}
