//! Clocks: this machine's against the scheduler's and the file server's.

use std::time::{Duration, SystemTime, UNIX_EPOCH};

use super::{Finding, Level};
use crate::app::error::Error;
use crate::app::session::Session;
use crate::job::SchedulerKind;
use crate::record::rundir::file_time;

const CHECK: &str = "clock";
/// Nobody notices less.
const NOTED: Duration = Duration::from_secs(5);
/// From here on a run may be taken for another one: jobs are distinguished by their time of submission.
const TOO_MUCH: Duration = Duration::from_secs(120);
const ADVICE: &str =
    "have all machines take their time from one source (`timedatectl`, `chronyc tracking`)";

pub(super) fn findings(session: &Session, cluster: Option<SchedulerKind>) -> Vec<Finding> {
    let mut findings = Vec::new();
    // An error was reported with the queues already.
    let seconds = |kind| session.scheduler(kind).ok()?.time();
    if let Some((kind, seconds)) = cluster.and_then(|kind| Some((kind, seconds(kind)?))) {
        let time = UNIX_EPOCH + Duration::from_secs(seconds);
        findings.push(clock_finding(time, &format!("{kind}'s controller")));
    }
    match file_time(session.settings.state_dir()) {
        Ok(time) => findings.push(clock_finding(
            time,
            "the file system of the state directory",
        )),
        Err(error) if error.is_missing() => {}
        Err(error) => findings.push(Finding::failure(Level::Problem, CHECK, &Error::from(error))),
    }
    findings
}

fn clock_finding(theirs: SystemTime, whose: &str) -> Finding {
    finding(skew(theirs, SystemTime::now()), whose)
}

fn skew(theirs: SystemTime, ours: SystemTime) -> (Duration, &'static str) {
    match ours.duration_since(theirs) {
        Ok(ahead) => (ahead, "ahead of"),
        Err(behind) => (behind.duration(), "behind"),
    }
}

fn finding((by, which): (Duration, &str), whose: &str) -> Finding {
    let text = format!("this machine's clock is {} s {which} {whose}", by.as_secs());
    match by {
        _ if by < NOTED => Finding::ok(CHECK, format!("that of this machine agrees with {whose}")),
        _ if by < TOO_MUCH => Finding::warning(CHECK, text, ADVICE),
        _ => Finding::problem(
            CHECK,
            format!("{text}: runs may be taken for others"),
            ADVICE,
        ),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn small_differences_are_none_and_large_ones_are_named() {
        let now = UNIX_EPOCH + Duration::from_secs(1_000_000);
        let at = |seconds: u64, later: bool| {
            let by = Duration::from_secs(seconds);
            finding(
                skew(if later { now + by } else { now - by }, now),
                "the server",
            )
        };
        assert_eq!(
            (at(4, true).level, at(4, false).level),
            (Level::Ok, Level::Ok)
        );
        assert_eq!(
            (at(60, false).level, at(300, true).level),
            (Level::Warning, Level::Problem)
        );
        assert!(
            at(60, false).text.contains("60 s ahead of the server"),
            "{:?}",
            at(60, false)
        );
        assert!(
            at(300, true).text.contains("300 s behind the server"),
            "{:?}",
            at(300, true)
        );
    }
}
