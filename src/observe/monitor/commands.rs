//! The processes of a run, one by one.

use std::cmp::Reverse;

use super::process::{Io, Stat, Units};
use crate::record::ProcessReading;

/// Processes in a sample at most.
const COMMANDS_MAX: usize = 64;

/// Those that used most CPU time, in order of their start.
pub(super) fn busiest<'a>(
    processes: impl Iterator<Item = (&'a Stat, Option<Io>)>,
    units: Units,
) -> Vec<ProcessReading> {
    let ticks = |stat: &Stat| {
        let times = stat.times_with_children();
        times.user.saturating_add(times.system)
    };
    let mut processes: Vec<_> = processes.collect();
    processes
        .sort_unstable_by_key(|(stat, _)| (Reverse(ticks(stat)), stat.start_time_ticks, stat.pid));
    processes.truncate(COMMANDS_MAX);
    processes.sort_unstable_by_key(|(stat, _)| (stat.start_time_ticks, stat.pid));
    let reading = |(stat, io): (&Stat, Option<Io>)| ProcessReading {
        pid: stat.pid,
        start_time_ticks: stat.start_time_ticks,
        name: stat.name.to_text().into(),
        cpu_us: Some(units.us(ticks(stat))),
        mem_rss_bytes: Some(units.bytes(stat.rss_pages)),
        io_read_bytes: io.map(|io| io.read_bytes),
        io_write_bytes: io.map(|io| io.write_bytes),
    };
    processes.into_iter().map(reading).collect()
}
