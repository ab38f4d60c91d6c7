//! `dlrun explain`: what a scheduler printed, in dlrun's words.

use crate::app::error::Error;
use crate::app::explain::{JobSeen, Printed, Seen, explain, slurm_reason_meaning};
use crate::app::output::Output;
use crate::cli::args::Explain;
use crate::cli::table::{headed, or_dash};
use crate::foundation::units::display_seconds;

/// Runs the verb. It knows no state directory and asks no scheduler.
pub(crate) fn run(output: Output, args: &Explain) -> Result<u8, Error> {
    let seen = explain(&args.file)?;
    output.result(&seen, &to_text(&seen))
}

fn to_text(seen: &Seen) -> String {
    let mut text = format!("{} of {}\n", seen.form, seen.scheduler);
    if let Some(error) = &seen.error {
        let later = match error.transient {
            true => " (it may succeed a little later)",
            false => "",
        };
        let (class, words, meaning) = (&error.error_class, &error.words, &error.meaning);
        text.push_str(&format!("{class}{later}: {words}\n  {meaning}\n"));
    }
    let heads = [
        "JOB", "NAME", "STATE", "SAID", "EXIT", "STARTED", "RAN", "NODES", "REASON",
    ];
    let row = |job: &JobSeen| {
        [
            or_dash(job.job_id.as_ref()),
            or_dash(job.name.as_ref()),
            job.state.clone(),
            job.raw_state.clone(),
            exit(job),
            or_dash(job.start.as_ref().map(printed)),
            or_dash(job.elapsed_s.map(seconds)),
            or_dash(job.nodes),
            reason(job, seen.scheduler == "slurm"),
        ]
    };
    text + &headed(heads, seen.jobs.iter().map(row))
}

/// The reason, and what Slurm means by it.
fn reason(job: &JobSeen, is_slurm: bool) -> String {
    let words = job.reason.as_deref().unwrap_or_default();
    let meaning = slurm_reason_meaning(words).filter(|_| is_slurm && job.state == "pending");
    let start = job.expected_start.as_ref();
    let start = start.map(|start| format!("expected to start {}", printed(start)));
    let mut known = vec![
        words,
        meaning.unwrap_or_default(),
        start.as_deref().unwrap_or_default(),
    ];
    known.retain(|part| !part.is_empty());
    known.join("; ")
}

fn exit(job: &JobSeen) -> String {
    // Slurm's mark of a step that was killed for memory is no signal (`slurmstepd`).
    if job.signal == Some(125) && job.state == "out_of_memory" {
        return "-".to_owned();
    }
    match (job.exit_code, job.signal.filter(|signal| *signal != 0)) {
        (_, Some(signal)) => format!("signal {signal}"),
        (Some(code), None) => code.to_string(),
        (None, None) => "-".to_owned(),
    }
}

fn printed(moment: &Printed) -> String {
    match moment {
        Printed::Seconds(seconds) => seconds.to_string(),
        Printed::Text(text) => text.clone(),
    }
}

#[allow(clippy::cast_precision_loss)] // A run time of 285 million years is the first that would lose one.
fn seconds(seconds: u64) -> String {
    display_seconds(seconds as f64)
}
