//! `scontrol show config`: what time it is on the controller.
//!
//! The first line is `Configuration data as of 1795208408`: the controller fills in its own time as it answers.

use super::{Slurm, failed};
use crate::scheduler::SchedulerError;

/// Unix seconds; `None` where the answer has none.
pub(super) fn controller(slurm: &Slurm) -> Result<Option<u64>, SchedulerError> {
    let output = slurm.tool("scontrol").args(["show", "config"]).run();
    let output = output.and_then(|output| output.require_success("scontrol"));
    let output = output.map_err(failed("tell its time".to_owned()))?;
    Ok(read(&output.stdout))
}

fn read(said: &str) -> Option<u64> {
    said.lines().find_map(|line| {
        line.strip_prefix("Configuration data as of ")?
            .trim()
            .parse()
            .ok()
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_first_line_has_the_time() {
        assert_eq!(
            read("Configuration data as of 1795208408\nAccountingStorageHost = x\n"),
            Some(1_795_208_408)
        );
        assert_eq!(read("Configuration data as of 2026-11-20T12:00:00\n"), None);
        assert_eq!(read(""), None);
    }
}
