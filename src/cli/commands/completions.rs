//! `dlrun completions`: the completion script of a shell.

use clap::CommandFactory;
use serde_json::json;

use crate::cli::args::{Cli, Completions};
use crate::cli::error::Error;
use crate::cli::output::Output;

/// Runs the verb.
pub(crate) fn run(output: Output, args: &Completions) -> Result<u8, Error> {
    let mut script = Vec::new();
    clap_complete::generate(args.shell, &mut Cli::command(), "dlrun", &mut script);
    let script = String::from_utf8_lossy(&script).into_owned();
    let value = json!({ "shell": args.shell.to_string(), "script": script });
    output.result("completions", &value, &script)?;
    Ok(0)
}
