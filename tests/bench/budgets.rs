//! What dlrun may cost, measured against a floor in the same run.
//!
//! ```text
//! cargo bench                     every row
//! cargo bench -- submit list      some of them: help render submit exec watch container list learn arrays catalogue plan show report
//!                                 store daemon lasting clients timings export package model
//! cargo bench -- --long           more repetitions, longer trainings
//! cargo bench -- --json           one JSON object instead of the table
//! ```
//!
//! A figure is a ratio or a difference between medians of runs that took turns, so that a slow or busy machine slows
//! both sides. Nothing fails here: the program says which budgets are met and exits with 0.

mod arrays;
mod busy;
mod catalogue;
mod container;
mod daemon;
mod dlrund;
mod enclosure;
mod export;
mod family;
mod floor;
mod list;
mod measure;
mod model;
#[path = "../it/support/noisy.rs"]
mod noisy;
#[path = "../it/support/nvml.rs"]
#[expect(dead_code, reason = "the tests use more of it")]
mod nvml;
mod observations;
mod package;
mod page;
mod plan;
mod report;
mod show;
mod site;
mod start;
mod store;
mod timings;
#[path = "../it/support/trained.rs"]
#[allow(dead_code, reason = "the tests use more of it")]
mod trained;
mod watch;

use std::error::Error;
use std::io::Write;
use std::process::ExitCode;

use report::{Report, Row};

/// The program under test, as this very `cargo bench` built it.
pub(crate) const DLRUN: &str = env!("CARGO_BIN_EXE_dlrun");

/// How much to measure.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Effort {
    pub(crate) long: bool,
}

impl Effort {
    /// A number of repetitions, short or long.
    pub(crate) fn of(self, short: usize, long: usize) -> usize {
        if self.long { long } else { short }
    }
}

/// Measures one topic.
type Topic = fn(Effort) -> Result<Vec<Row>, Box<dyn Error>>;

const TOPICS: [(&str, Topic); 21] = [
    ("help", start::help),
    ("render", start::render),
    ("submit", start::submit),
    ("exec", start::exec),
    ("watch", watch::rows),
    ("container", container::rows),
    ("list", list::rows),
    ("learn", observations::rows),
    ("arrays", arrays::rows),
    ("catalogue", catalogue::rows),
    ("plan", plan::rows),
    ("show", show::rows),
    ("report", page::rows),
    ("store", store::rows),
    ("daemon", daemon::cpu),
    ("lasting", daemon::lasting),
    ("clients", daemon::clients),
    ("timings", timings::rows),
    ("export", export::rows),
    ("package", package::rows),
    ("model", model::rows),
];

fn main() -> ExitCode {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    match arguments.first().map(String::as_str) {
        Some(busy::VERB) => return busy::run(&arguments[1..]),
        Some(model::VERB) => return model::run_verb(&arguments[1..]),
        Some(floor::VERB) => return floor::run(&arguments[1..]),
        Some(verb) if family::VERBS.contains(&verb) => return family::run(verb, &arguments[1..]),
        _ => {}
    }
    let asked = |flag: &str| arguments.iter().any(|argument| argument == flag);
    let effort = Effort {
        long: asked("--long"),
    };
    // Cargo adds `--bench`.
    let names: Vec<&String> = arguments
        .iter()
        .filter(|argument| !argument.starts_with('-'))
        .collect();
    if let Some(unknown) = names
        .iter()
        .find(|name| TOPICS.iter().all(|(known, _)| known != **name))
    {
        let known: Vec<&str> = TOPICS.iter().map(|(name, _)| *name).collect();
        let _ = writeln!(
            std::io::stderr(),
            "no row is called `{unknown}`; there are {}",
            known.join(" ")
        );
        return ExitCode::from(2);
    }
    let mut report = Report::begin();
    for (name, topic) in TOPICS {
        if names.is_empty() || names.iter().any(|asked| *asked == name) {
            let _ = writeln!(std::io::stderr(), "measuring {name} ...");
            report
                .rows
                .extend(topic(effort).unwrap_or_else(|error| vec![Row::failed(name, &*error)]));
        }
    }
    let text = if asked("--json") {
        format!("{}\n", report.to_json())
    } else {
        report.to_text()
    };
    // A reader that went away is no failure.
    let _ = std::io::stdout().write_all(text.as_bytes());
    ExitCode::SUCCESS
}
