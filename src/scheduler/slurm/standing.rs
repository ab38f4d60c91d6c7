//! `scontrol -o show job ID`, asked by the job itself: when its time is up, whether Slurm starts it again; and
//! `scontrol requeue ID`.

use super::{Commands, scontrol_pairs};
use crate::scheduler::{SchedulerError, Standing};

/// How a job stands; `None`: Slurm gave no answer.
pub(super) fn standing(slurm: &Commands, job: &str) -> Option<Standing> {
    read(&shown(slurm, &["job", job])?, |partition| {
        let partition = shown(slurm, &["partition", partition])?;
        value(&partition, "PreemptMode").map(str::to_owned)
    })
}

/// Puts the job back into the queue. Slurm ends what is left of it at once.
pub(super) fn requeue(slurm: &Commands, job: &str) -> Result<(), SchedulerError> {
    scontrol(slurm, &["requeue", job], &format!("requeue job {job}"))
}

/// Gives a waiting job so many nodes.
pub(super) fn resize(slurm: &Commands, job: &str, nodes: u32) -> Result<(), SchedulerError> {
    let words = [
        "update".to_owned(),
        format!("JobId={job}"),
        format!("NumNodes={nodes}"),
    ];
    let words = words.each_ref().map(String::as_str);
    scontrol(slurm, &words, &format!("give job {job} {nodes} nodes"))
}

fn scontrol(slurm: &Commands, words: &[&str], what: &str) -> Result<(), SchedulerError> {
    let ran = slurm.tool("scontrol").args(words).run();
    let done = ran.and_then(|output| output.require_success("scontrol"));
    done.map(drop).map_err(|source| slurm.failed(what, source))
}

fn shown(slurm: &Commands, what: &[&str]) -> Option<String> {
    let ran = slurm
        .tool("scontrol")
        .args(["-o", "show"])
        .args(what)
        .run()
        .ok()?;
    ran.require_success("scontrol")
        .ok()
        .map(|output| output.stdout)
}

fn value<'a>(record: &'a str, key: &str) -> Option<&'a str> {
    let mut pairs = scontrol_pairs(record).into_iter();
    pairs
        .find(|(known, _)| *known == key)
        .map(|(_, value)| value)
}

/// `PreemptTime` is there once Slurm has chosen the job to make room, also while its grace time runs.
fn read(record: &str, preempt_mode: impl Fn(&str) -> Option<String>) -> Option<Standing> {
    let number = |key| value(record, key)?.parse::<u64>().ok();
    let requeues = number("Restarts")?;
    let is_preempted = number("PreemptTime").is_some();
    let mode = value(record, "Partition")
        .filter(|_| is_preempted)
        .and_then(preempt_mode);
    Some(Standing {
        ends_at_ms: number("EndTime").map(|end| end * 1000),
        requeues: u32::try_from(requeues).unwrap_or(u32::MAX),
        is_preempted,
        comes_back: mode.is_some_and(|mode| mode.contains("REQUEUE")),
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_job_that_makes_room_is_seen() {
        // Of Slurm 22.05.8, with SLURM_TIME_FORMAT=%s.
        let running = "JobId=7 JobState=RUNNING Requeue=1 Restarts=0 RunTime=00:00:00 EndTime=1795763251 PreemptTime=None Partition=scavenge";
        let mode = |name: &str| (name == "scavenge").then(|| "REQUEUE".to_owned());
        let expected = Standing {
            ends_at_ms: Some(1_795_763_251_000),
            ..Standing::default()
        };
        assert_eq!(read(running, mode), Some(expected));
        let preempted = running.replace("PreemptTime=None", "PreemptTime=1795763000");
        let seen = read(&preempted, mode).expect("a job");
        assert!(seen.is_preempted && seen.comes_back);
        assert!(
            !read(&preempted, |_| Some("CANCEL".to_owned()))
                .expect("a job")
                .comes_back
        );
        let requeued = running.replace("Restarts=0", "Restarts=1");
        assert_eq!(read(&requeued, mode).expect("a job").requeues, 1);
        assert_eq!(
            read("slurm_load_jobs error: Invalid job id specified", mode),
            None
        );
    }
}
