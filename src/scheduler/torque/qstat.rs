//! `qstat -x -t ID...`: one question for any number of jobs.
//!
//! Without `-t` the id of an array brings every job of the server (6.1.3). Of several ids the known ones are answered, each
//! in an XML document of its own, and the exit code is 153 if one is unknown. Jobs that ended stay known for the server's
//! `keep_completed` seconds.

use crate::foundation::command::Output;
use crate::job::SchedulerKind;
use crate::record::QueueEntry;
use crate::scheduler::SchedulerError;
use crate::scheduler::commands::Commands;
use crate::scheduler::pbs::answer::{Thing, read_text, read_xml};
use crate::scheduler::pbs::job;
use crate::scheduler::pbs::values::whole_jobs;

/// `PBSE_UNKJOBID`, 15001, modulo 256.
const UNKNOWN_ID: i32 = 153;

pub(super) fn entries(torque: &Commands, ids: &[&str]) -> Result<Vec<QueueEntry>, SchedulerError> {
    let entry = |job: &Thing| job::entry(SchedulerKind::Torque, job);
    Ok(things(torque, ids)?.iter().filter_map(entry).collect())
}

/// XML, and from a `qstat` that has none text.
fn things(torque: &Commands, ids: &[&str]) -> Result<Vec<Thing>, SchedulerError> {
    let output = ask(torque, &["-x", "-t"], ids)?;
    if says_usage(&output) {
        let output = ask(torque, &["-f", "-t"], ids)?;
        return Ok(read_text(whole_jobs(&understood(torque, output)?)));
    }
    Ok(read_xml(&understood(torque, output)?))
}

fn ask(torque: &Commands, options: &[&str], ids: &[&str]) -> Result<Output, SchedulerError> {
    torque.ask(&torque.tool("qstat").args(options).args(ids), "list jobs")
}

fn says_usage(output: &Output) -> bool {
    !output.status.success() && output.stdout.is_empty() && output.stderr.contains("usage:")
}

/// The answer, where there is one. An unknown id is one.
fn understood(torque: &Commands, output: Output) -> Result<String, SchedulerError> {
    let answer = torque.answer("qstat", output, &[UNKNOWN_ID], "list jobs");
    answer.map(|output| output.stdout)
}
