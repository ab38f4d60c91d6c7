//! `qstat -x -t ID...`: one question for any number of jobs.
//!
//! Without `-t` the id of an array brings every job of the server (6.1.3). Of several ids the known ones are answered, each
//! in an XML document of its own, and the exit code is 153 if one is unknown. Jobs that ended stay known for the server's
//! `keep_completed` seconds.

use crate::job::SchedulerKind;
use crate::record::QueueEntry;
use crate::scheduler::SchedulerError;
use crate::scheduler::commands::Commands;
use crate::scheduler::pbs::answer::{Thing, read_xml};
use crate::scheduler::pbs::job;

/// `PBSE_UNKJOBID`, 15001, modulo 256.
const UNKNOWN_ID: i32 = 153;

/// What the server says of jobs; an unknown id is an answer too.
pub(super) fn entries(torque: &Commands, ids: &[&str]) -> Result<Vec<QueueEntry>, SchedulerError> {
    let entry = |job| job::entry(SchedulerKind::Torque, job);
    Ok(things(torque, ids)?.iter().filter_map(entry).collect())
}

/// Jobs as they are printed; without ids all.
pub(super) fn things(torque: &Commands, ids: &[&str]) -> Result<Vec<Thing>, SchedulerError> {
    let options = [&["-x", "-t"], ids].concat();
    let printed = torque.printed("qstat", &options, &[UNKNOWN_ID], "list jobs")?;
    Ok(read_xml(&printed))
}
