//! `scontrol -o show job ID`, asked by the job itself: when its time is up, whether Slurm starts it again; and
//! `scontrol requeue ID`.

use super::{Commands, scontrol_pairs, seconds};
use crate::scheduler::{SchedulerError, Standing};

/// How a job stands; `None`: Slurm gave no answer.
pub(super) fn standing(slurm: &Commands, job: &str) -> Option<Standing> {
    read(&shown(slurm, ["job", job])?)
}

/// Puts the job back into the queue. Slurm ends what is left of it at once.
pub(super) fn requeue(slurm: &Commands, job: &str) -> Result<(), SchedulerError> {
    scontrol(slurm, &["requeue", job], &format!("requeue job {job}"))
}

/// Changes a number of a job; `what` that is, for its failure.
pub(super) fn update(
    slurm: &Commands,
    job: &str,
    (key, value): (&str, u32),
    what: &str,
) -> Result<(), SchedulerError> {
    let (job, value) = (format!("JobId={job}"), format!("{key}={value}"));
    scontrol(slurm, &["update", &job, &value], what)
}

/// Lets so many elements of an array run at a time.
pub(super) fn throttle(slurm: &Commands, array: &str, elements: u32) -> Result<(), SchedulerError> {
    let what = format!("let {elements} elements of job {array} run at a time");
    let (key, value) = ("ArrayTaskThrottle", elements.to_string());
    update(slurm, array, (key, elements), &what).or_else(|error| {
        // With elements that have ended it fails for those, and does it for the others (22.05).
        let record = shown(slurm, ["job", array]).unwrap_or_default();
        let pairs = scontrol_pairs(&record);
        match pairs.contains(&(key, &*value)) {
            true => Ok(()),
            false => Err(error),
        }
    })
}

/// What dlrun's comments begin with.
const OURS: &str = "dlrun: ";

/// Writes the job's comment, unless it has one that is not dlrun's.
pub(super) fn annotate(slurm: &Commands, job: &str, text: &str) -> Result<bool, SchedulerError> {
    let what = format!("show job {job}");
    let record = slurm.printed("scontrol", &["-o", "show", "job", job], &[], &what)?;
    if !is_free(&record) {
        return Ok(false);
    }
    let (job, comment) = (format!("JobId={job}"), format!("Comment={text}"));
    let what = "write the comment of the job";
    scontrol(slurm, &["update", &job, &comment], what).map(|()| true)
}

/// Slurm leaves the key out where there is no comment.
fn is_free(record: &str) -> bool {
    let pairs = scontrol_pairs(record);
    let comment = pairs.iter().find(|(key, _)| *key == "Comment");
    comment.is_none_or(|(_, text)| {
        text.is_empty() || *text == "(null)" || format!("{text} ").starts_with(OURS)
    })
}

/// What `scontrol` prints of something; `None`: it gives no answer.
pub(super) fn shown(slurm: &Commands, words: [&str; 2]) -> Option<String> {
    let ran = slurm
        .tool("scontrol")
        .args(["-o", "show"])
        .args(words)
        .run();
    Some(ran.ok()?.require_success("scontrol").ok()?.stdout)
}

/// Changes something by `scontrol`; `what` it is, for its failure.
pub(super) fn scontrol(slurm: &Commands, words: &[&str], what: &str) -> Result<(), SchedulerError> {
    let ran = slurm.tool("scontrol").args(words).run();
    let is_silent = ran
        .as_ref()
        .is_ok_and(|output| slurm.words.is_silent(output));
    let done = ran.and_then(|output| output.require_success("scontrol"));
    done.map(drop).map_err(|source| match source {
        // Reached or not, it may have done it.
        source if is_silent => SchedulerError::Unreachable {
            scheduler: slurm.words.scheduler,
            source,
        },
        source => slurm.failed(what, source),
    })
}

/// `PreemptTime` is there once Slurm has chosen the job to make room, also while its grace time runs. The time that is left is
/// counted by Slurm's clock alone.
fn read(record: &str) -> Option<Standing> {
    let pairs = scontrol_pairs(record);
    let value = |key: &str| {
        pairs
            .iter()
            .find(|(known, _)| *known == key)
            .map(|(_, value)| *value)
    };
    let number = |key| value(key)?.parse::<u64>().ok();
    let requeues = number("Restarts")?;
    let time = |key| value(key).and_then(seconds);
    Some(Standing {
        left_seconds: time("TimeLimit")
            .map(|limit| limit.saturating_sub(time("RunTime").unwrap_or(0))),
        requeues: u32::try_from(requeues).unwrap_or(u32::MAX),
        is_preempted: number("PreemptTime").is_some(),
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn comment_of_the_user_is_not_free_and_dlruns_own_is() {
        let record = |comment: &str| format!("JobId=7 JobName=a {comment} Power=");
        for free in [
            "",
            "Comment=",
            "Comment=(null)",
            "Comment=dlrun: training, 3 of 9 epochs",
        ] {
            assert!(is_free(&record(free)), "{free}");
        }
        for own in ["Comment=paper", "Comment=my dlrun: x", "Comment=dlrunner"] {
            assert!(!is_free(&record(own)), "{own}");
        }
    }

    #[test]
    fn a_job_that_makes_room_is_seen() {
        // Of Slurm 22.05.8, with SLURM_TIME_FORMAT=%s.
        let running = "JobId=7 JobState=RUNNING Requeue=1 Restarts=0 RunTime=00:00:20 TimeLimit=00:10:00 PreemptTime=None Partition=scavenge";
        let expected = Standing {
            left_seconds: Some(580),
            ..Standing::default()
        };
        assert_eq!(read(running), Some(expected));
        let preempted = running.replace("PreemptTime=None", "PreemptTime=1795763000");
        assert!(read(&preempted).expect("a job").is_preempted);
        let requeued = running.replace("Restarts=0", "Restarts=1");
        assert_eq!(read(&requeued).expect("a job").requeues, 1);
        let unlimited = running.replace("00:10:00", "UNLIMITED");
        assert_eq!(read(&unlimited).expect("a job").left_seconds, None);
        assert_eq!(
            read("slurm_load_jobs error: Invalid job id specified"),
            None
        );
    }
}
