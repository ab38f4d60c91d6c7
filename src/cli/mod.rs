//! The `dlrun` command: arguments in, text or JSON and an exit code out. One file per verb in `commands`.

mod activity;
mod args;
mod commands;
mod elements;
mod forecast;
mod insight;
mod measured_rows;
mod run_progress;
mod summary;
mod table;
mod top;

#[cfg(test)]
mod tests_answers;

use std::ffi::OsString;
use std::mem::ManuallyDrop;

use clap::{ArgMatches, CommandFactory, FromArgMatches};

use crate::app::annotate::annotate;
use crate::app::error::{Error, Kind};
use crate::app::exec;
use crate::app::more_time::more_time;
use crate::app::output::Output;
use crate::app::resume;
use crate::app::session::Session;
use args::{Cli, ConfigVerb, Verb, pages};

/// Runs one command line; returns the exit code.
#[must_use]
pub fn run(arguments: impl Iterator<Item = OsString>) -> u8 {
    let arguments: Vec<OsString> = arguments.collect();
    // It is not taken apart: every command would wait for that.
    let parsed = ManuallyDrop::new(Cli::command())
        .try_get_matches_from_mut(&arguments)
        .and_then(|matches| Ok((Cli::from_arg_matches(&matches)?, operation(&matches))));
    let (cli, operation) = match parsed {
        Ok(parsed) => parsed,
        Err(error) => {
            let json = arguments.iter().any(|argument| argument == "--json");
            return not_parsed(&error, json);
        }
    };
    crate::foundation::logging::start(cli.global.verbose);
    let output = Output::new(cli.global.json, operation.leak());
    match dispatch(&cli, output) {
        Ok(code) => code,
        Err(error) => {
            output.failure(&error);
            error.kind.code()
        }
    }
}

/// The verb as it is typed, for the JSON envelope: `submit`, `image build`.
fn operation(matches: &ArgMatches) -> String {
    match matches.subcommand() {
        Some((verb @ ("image" | "model" | "bench" | "sweep"), inner)) => {
            format!("{verb} {}", inner.subcommand_name().unwrap_or_default())
        }
        Some(("enter" | "exec-watch" | "ranks", _)) => "exec".to_owned(),
        Some((verb, _)) => verb.to_owned(),
        None => "dlrun".to_owned(),
    }
}

/// Help and version are results; anything else is a usage error, for programs too.
fn not_parsed(error: &clap::Error, json: bool) -> u8 {
    if !error.use_stderr() {
        let _ = error.print();
        return 0;
    }
    if json {
        let text = error.render().to_string();
        // The error alone: what follows a blank line is usage.
        let lines = text.lines().take_while(|line| !line.is_empty());
        let message = lines.map(str::trim).collect::<Vec<_>>().join(" ");
        let message = message.trim_start_matches("error: ").to_owned();
        let usage =
            Error::new(Kind::Usage, message).hinted("`dlrun --help` lists the verbs and options");
        Output::new(true, "dlrun").failure(&usage);
    } else {
        let _ = error.print();
    }
    Kind::Usage.code()
}

fn dispatch(cli: &Cli, output: Output) -> Result<u8, Error> {
    let session =
        |scheduler: Option<&str>| Session::open(output, cli.global.state_dir.as_deref(), scheduler);
    match &cli.verb {
        Verb::Submit(args) => {
            commands::submit::run(&session(args.job.options.scheduler.as_deref())?, args)
        }
        Verb::Check(args) if args.schema => commands::check::schema(output),
        Verb::Check(args) => commands::check::run(
            &session(args.options.scheduler.as_deref())?,
            &args.request(),
            args.run,
        ),
        Verb::Plan(args) => commands::plan::run(&session(args.options.scheduler.as_deref())?, args),
        Verb::Render(args) => {
            commands::render::run(&session(args.job.options.scheduler.as_deref())?, args)
        }
        Verb::Convert(args) => commands::convert::run(output, args),
        Verb::List(args) => commands::list::run(&session(None)?, args),
        Verb::Show(args) => commands::show::run(&session(None)?, args),
        Verb::Report(args) => commands::report::run(&session(None)?, args),
        Verb::Top(args) => commands::top::run(&session(None)?, args),
        Verb::Logs(args) => commands::logs::run(&session(None)?, args),
        Verb::Wait(args) => commands::wait::run(&session(None)?, args),
        Verb::Scale(args) => commands::scale::run(&session(None)?, args),
        Verb::Cancel(args) => commands::cancel::run(&session(None)?, args),
        Verb::Prune(args) => commands::prune::run(&session(None)?, args),
        Verb::Doctor => commands::doctor::run(&session(None)?),
        Verb::Timings(args) => commands::timings::run(output, args),
        Verb::Explain(args) => commands::explain::run(output, args),
        Verb::Export(args) => commands::rows::export(&session(None)?, args),
        Verb::Config(args) => match args.verb {
            ConfigVerb::Show => commands::config::run(&session(None)?),
            ConfigVerb::EventsModule => commands::config::events_module(output),
        },
        Verb::Import(args) => commands::rows::import(&session(None)?, args),
        Verb::Image(args) => commands::image::run(&session(None)?, args),
        Verb::Model(args) => commands::model::run(session(args.verb.scheduler())?, args),
        Verb::Bench(args) => commands::bench::run(&session(args.verb.scheduler())?, args),
        Verb::Sweep(args) => commands::sweep::run(&session(args.verb.scheduler())?, args),
        Verb::Tune(args) => {
            commands::sweep::run::tune(&session(args.how.scheduler.as_deref())?, args)
        }
        Verb::Completions(args) => commands::completions::run(output, args),
        Verb::Words(args) => {
            session(None).map_or(Ok(0), |session| commands::shell_words::run(&session, args))
        }
        Verb::Man(args) => commands::man::run(output, args),
        Verb::Exec(args) if args.mint => exec::mint(output),
        Verb::Exec(args) if args.resume => resume::begin(&session(None)?),
        Verb::Exec(args) if args.again.is_some() => resume::again(
            &session(None)?,
            args.again.unwrap_or_default(),
            &args.signals,
        ),
        Verb::Exec(args) if args.comment.is_some() => {
            annotate(&session(None)?, args.comment.as_deref().unwrap_or_default())
        }
        Verb::Exec(args) if !args.more_time.is_empty() => {
            more_time(&session(None)?, &args.more_time)
        }
        Verb::Exec(args) if args.check_node => exec::check_node(output),
        Verb::Exec(args) if args.refused.is_some() => {
            exec::refused(output, args.refused.as_deref().unwrap_or_default())
        }
        Verb::Exec(args) => exec::run(output, &args.command, args.in_image),
        Verb::Ranks(args) => exec::ranks(output, &args.command),
        Verb::Enter(args) => exec::enter(output, &args.image, &args.command, args.bare),
        Verb::ExecWatch => exec::watch(),
        Verb::LocalRun { run_dir } => exec::local_run(run_dir),
    }
}

/// The help of every verb as one Markdown page: `docs/cli.md`.
#[must_use]
pub fn reference() -> String {
    let mut page =
        String::from("# Command-line reference\n\nMade from `--help`; a test keeps it so.\n");
    for mut command in pages() {
        let title = command.get_bin_name().unwrap_or("dlrun").to_owned();
        let help = command.render_long_help().to_string();
        let help: Vec<&str> = help.lines().map(str::trim_end).collect();
        page.push_str(&format!(
            "\n## {title}\n\n```text\n{}\n```\n",
            help.join("\n").trim_end()
        ));
    }
    page
}
