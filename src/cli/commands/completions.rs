//! `dlrun completions`: the completion script of a shell.

use clap::{Command, CommandFactory};
use serde_json::json;

use crate::cli::args::{Cli, Completions};
use crate::cli::error::Error;
use crate::cli::output::Output;

/// Runs the verb.
pub(crate) fn run(output: Output, args: &Completions) -> Result<u8, Error> {
    let mut script = Vec::new();
    clap_complete::generate(args.shell, &mut offered(), "dlrun", &mut script);
    let script = String::from_utf8_lossy(&script).into_owned();
    let value = json!({ "shell": args.shell.to_string(), "script": script });
    output.document("completions", &value, &script)?;
    Ok(0)
}

/// The command without its inner verbs: the generators would offer hidden ones too.
fn offered() -> Command {
    let root = Cli::command();
    let verbs = root.get_subcommands().filter(|verb| !verb.is_hide_set()).cloned();
    let bare = Command::new("dlrun").version(env!("CARGO_PKG_VERSION")).disable_help_subcommand(true);
    bare.args(root.get_arguments().cloned()).subcommands(verbs.collect::<Vec<_>>())
}
