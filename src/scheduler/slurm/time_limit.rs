//! The time limit of a running job, and the longest that its partition and its qualities of service allow: `scontrol -o show`,
//! `sacctmgr -nP show qos`. An operator may set a longer one, so Slurm itself does not hold dlrun to them.

use super::{Commands, scontrol_pairs, seconds};
use crate::scheduler::{SchedulerError, TimeLimit};

/// The limit of a job; `None`: it has none, or Slurm does not say how long it has run.
pub(super) fn time_limit(slurm: &Commands, job: &str) -> Result<Option<TimeLimit>, SchedulerError> {
    let record = show(slurm, "job", job)?;
    let times = time(&record, "TimeLimit").zip(time(&record, "RunTime"));
    Ok(times.map(|(limit, ran)| TimeLimit { limit, ran }))
}

/// The longest limit that a job may have, in seconds; `None`: any.
pub(super) fn longest(slurm: &Commands, job: &str) -> Result<Option<u64>, SchedulerError> {
    let job = show(slurm, "job", job)?;
    let mut qualities = vec![word(&job, "QOS")];
    let mut limits = Vec::new();
    if let Some(name) = word(&job, "Partition") {
        let partition = show(slurm, "partition", name)?;
        limits.extend(time(&partition, "MaxTime"));
        qualities.push(word(&partition, "QoS"));
        for name in qualities.into_iter().flatten() {
            let question = ["-nP", "show", "qos", name, "format=MaxWall"];
            let what = format!("show the quality of service {name}");
            let printed = slurm.printed("sacctmgr", &question, &[], &what)?;
            limits.extend(printed.lines().filter_map(|line| seconds(line.trim())));
        }
    }
    Ok(limits.into_iter().min())
}

fn show(slurm: &Commands, what: &str, name: &str) -> Result<String, SchedulerError> {
    let failed = format!("show {what} {name}");
    slurm.printed("scontrol", &["-o", "show", what, name], &[], &failed)
}

/// A value; Slurm writes `(null)` and `N/A` where there is none.
fn word<'r>(record: &'r str, key: &str) -> Option<&'r str> {
    let pairs = scontrol_pairs(record);
    let found = pairs.iter().find(|(known, _)| *known == key);
    let value = found.map(|(_, value)| *value);
    value.filter(|value| !["", "(null)", "N/A"].contains(value))
}

fn time(record: &str, key: &str) -> Option<u64> {
    seconds(word(record, key)?)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn times_and_names_are_read_and_may_be_missing() {
        // Of Slurm 22.05.8, without accounting.
        let job =
            "JobId=7 QOS=(null) RunTime=00:01:00 TimeLimit=00:03:00 TimeMin=N/A Partition=batch";
        let times = ["TimeLimit", "RunTime", "TimeMin"].map(|key| time(job, key));
        assert_eq!(times, [Some(180), Some(60), None]);
        assert_eq!(
            (word(job, "QOS"), word(job, "Partition")),
            (None, Some("batch"))
        );
        let partition =
            "PartitionName=batch AllowQos=ALL QoS=N/A MaxNodes=UNLIMITED MaxTime=UNLIMITED";
        assert_eq!(
            (word(partition, "QoS"), time(partition, "MaxTime")),
            (None, None)
        );
    }
}
