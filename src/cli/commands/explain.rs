//! `dlrun explain`: what a scheduler printed, in dlrun's words.

use crate::app::error::Error;
use crate::app::explain::{JobSeen, NodeSeen, Printed, Seen, explain, slurm_reason_meaning};
use crate::app::output::Output;
use crate::cli::args::Explain;
use crate::cli::table::{rendered, table};
use crate::foundation::units::display_seconds;

/// Runs the verb. It knows no state directory and asks no scheduler.
pub(crate) fn run(output: Output, args: &Explain) -> Result<u8, Error> {
    let seen = explain(&args.file, &args.columns, &args.separator)?;
    output.result(&seen, &to_text(&seen))
}

fn to_text(seen: &Seen) -> String {
    let mut text = format!("{} of {}\n", seen.form, seen.scheduler);
    if let Some(submitted) = &seen.submitted {
        text.push_str(&format!(
            "the job was taken: its id is {}\n",
            submitted.job_id
        ));
    }
    if let Some(error) = &seen.error {
        let later = if error.transient {
            " (it may succeed a little later)"
        } else {
            ""
        };
        text.push_str(&format!(
            "{}{later}: {}\n  {}\n",
            error.error_class, error.words, error.meaning
        ));
    }
    if !seen.jobs.is_empty() {
        text.push_str(&jobs(&seen.jobs, seen.scheduler == "slurm"));
    }
    if !seen.nodes.is_empty() {
        text.push_str(&nodes(&seen.nodes));
    }
    text.extend(
        seen.jobs
            .iter()
            .flat_map(|job| &job.usage)
            .map(|line| format!("  {line}\n")),
    );
    text.extend(
        seen.also
            .iter()
            .map(|other| format!("\n{}", to_text(other))),
    );
    text.extend(
        seen.unread
            .iter()
            .map(|command| format!("\nnot recognised: the output of `{command}`\n")),
    );
    text
}

fn jobs(jobs: &[JobSeen], is_slurm: bool) -> String {
    let mut table = table();
    table.set_header([
        "JOB", "NAME", "STATE", "SAID", "EXIT", "STARTED", "RAN", "NODES", "GPUS", "REASON",
    ]);
    for job in jobs {
        let number = |number: Option<u64>| {
            number.map_or_else(|| "-".to_owned(), |number| number.to_string())
        };
        table.add_row([
            job.job_id.clone().unwrap_or_else(|| "-".to_owned()),
            job.name.clone().unwrap_or_else(|| "-".to_owned()),
            match &job.guess {
                Some(guess) => format!("{} (perhaps {guess})", job.state),
                None => job.state.clone(),
            },
            job.raw_state.clone(),
            exit(job),
            job.start.as_ref().map_or_else(|| "-".to_owned(), printed),
            job.elapsed_s.map_or_else(|| "-".to_owned(), seconds),
            number(job.nodes),
            number(job.gpus),
            reason(job, is_slurm),
        ]);
    }
    rendered(table)
}

/// The reason, and what Slurm means by it.
fn reason(job: &JobSeen, is_slurm: bool) -> String {
    let said = job.reason.clone().unwrap_or_default();
    let meaning = slurm_reason_meaning(&said).filter(|_| is_slurm && job.state == "pending");
    let start = job
        .expected_start
        .as_ref()
        .map(|start| format!("expected to start {}", printed(start)));
    let known = [meaning.map(str::to_owned), start]
        .into_iter()
        .flatten()
        .collect::<Vec<_>>()
        .join("; ");
    match (said.as_str(), known.as_str()) {
        (_, "") => said,
        ("", _) => known,
        _ => format!("{said}: {known}"),
    }
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

fn nodes(nodes: &[NodeSeen]) -> String {
    let mut table = table();
    table.set_header(["NODE", "STATE", "SAID", "CPUS", "GPUS", "IN USE", "REASON"]);
    for node in nodes {
        let number = |number: Option<u64>| {
            number.map_or_else(|| "-".to_owned(), |number| number.to_string())
        };
        table.add_row([
            node.name.clone(),
            node.state.clone(),
            node.raw_state.clone(),
            number(node.cpus),
            number(node.gpus_total),
            number(node.gpus_used),
            node.reason.clone().unwrap_or_default(),
        ]);
    }
    rendered(table)
}
