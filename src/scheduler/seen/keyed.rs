//! Outputs of lines `Key: value`: `seff`, and the mails of PBS. And what schedulers write into a job's own output.

use super::field::{leading_number, said};
use super::pbs::{duration, ended, host_count};
use super::{JobSeen, Seen, state_word};
use crate::job::JobState;
use crate::record::{CauseKind, notices};
use crate::scheduler::slurm;

/// A text at the lines that begin with a key.
fn records<'a>(text: &'a str, first: &str) -> Vec<Vec<&'a str>> {
    let mut records: Vec<Vec<&str>> = Vec::new();
    for line in text.lines().map(str::trim) {
        match records.last_mut() {
            _ if line.starts_with(first) => records.push(vec![line]),
            Some(record) => record.push(line),
            None => {}
        }
    }
    records
}

fn value<'a>(record: &[&'a str], key: &str) -> Option<&'a str> {
    record.iter().find_map(|line| {
        said(
            line.strip_prefix(key)?
                .trim_start()
                .strip_prefix([':', '='])?,
        )
    })
}

/// `seff ID`, also in a site's own dress.
pub(super) fn seff(text: &str) -> Option<Seen> {
    let job = |record: &Vec<&str>| {
        let get = |key: &str| value(record, key);
        let state = get("State")?;
        let (raw_state, exit) = state.split_once(" (exit code ").unwrap_or((state, ""));
        let known = slurm::job_state(raw_state);
        let array = get("Array Job ID").and_then(|id| Some((id, id.split_once('_')?.0)));
        let elapsed = get("Job Wall-clock time").or_else(|| get("Wall-clock time"));
        let is_usage = |line: &&&str| {
            ["CPU ", "Memory ", "GPU "]
                .iter()
                .any(|key| line.starts_with(key))
        };
        Some(JobSeen {
            job_id: Some(array.map_or(get("Job ID")?, |(id, _)| id).to_owned()),
            array_id: array.map(|(_, array)| array.to_owned()),
            state: state_word(known, false),
            raw_state: raw_state.to_owned(),
            exit_code: exit.trim_end_matches(')').parse().ok(),
            elapsed_s: elapsed.and_then(slurm::seconds),
            nodes: get("Nodes").and_then(leading_number),
            usage: record
                .iter()
                .filter(is_usage)
                .map(|line| (*line).to_owned())
                .collect(),
            ..JobSeen::default()
        })
    };
    let jobs: Vec<_> = records(text, "Job ID:").iter().filter_map(job).collect();
    (!jobs.is_empty()).then_some(Seen {
        form: "seff",
        scheduler: "slurm",
        jobs,
        ..Seen::default()
    })
}

/// What a mail of PBS says of an end that its exit status does not, in small letters; the first that is found counts.
const MAIL: [(&str, JobState); 5] = [
    ("exceeded its walltime limit", JobState::Timeout),
    ("exceeded wallclock limit", JobState::Timeout),
    ("job deleted", JobState::Cancelled),
    ("aborted by pbs", JobState::Failed),
    ("begun execution", JobState::Running),
];

/// The mails that PBS sends when a job begins and ends.
pub(super) fn pbs_mail(text: &str) -> Option<Seen> {
    let job = |record: &Vec<&str>| {
        let get = |key: &str| value(record, key);
        let exit_code = get("Exit_status").and_then(|code| code.parse::<i64>().ok());
        let phrase = MAIL.iter().find_map(|(words, state)| {
            Some((
                *record
                    .iter()
                    .find(|line| line.to_lowercase().contains(words))?,
                *state,
            ))
        });
        let (state, guess) = match (phrase, exit_code) {
            (Some((_, state)), None) | (Some((_, state @ JobState::Timeout)), _) => (state, None),
            (_, Some(code)) => ended(None, code),
            (None, None) => (JobState::Unknown, None),
        };
        let hosts = get("Exec host");
        Some(JobSeen {
            job_id: Some(get("PBS Job Id")?.to_owned()),
            name: get("Job Name").map(str::to_owned),
            state: state_word(state, false),
            guess: guess.map(|state| state_word(state, false)),
            reason: phrase
                .filter(|_| state.is_final())
                .map(|(line, _)| line.to_owned()),
            exit_code,
            elapsed_s: get("resources_used.walltime").and_then(duration),
            nodes: hosts.map(host_count),
            node_list: hosts.map(str::to_owned),
            ..JobSeen::default()
        })
    };
    let jobs: Vec<_> = records(text, "PBS Job Id:")
        .iter()
        .filter_map(job)
        .collect();
    (!jobs.is_empty()).then_some(Seen {
        form: "mail",
        scheduler: "pbs",
        jobs,
        ..Seen::default()
    })
}

/// Lines in a job's output by which the scheduler says why it ended the job: those that dlrun knows of its own jobs.
pub(super) fn job_output(text: &str) -> Option<Seen> {
    let mut jobs: Vec<(u8, JobSeen)> = Vec::new();
    for notice in notices(text) {
        let state = match notice.kind {
            CauseKind::TimeLimit => JobState::Timeout,
            CauseKind::Memory => JobState::OutOfMemory,
            CauseKind::Preemption => JobState::Preempted,
            CauseKind::Node => JobState::NodeFail,
            CauseKind::Cancel => JobState::Cancelled,
            _ => JobState::Unknown,
        };
        let weight = notice.weight();
        let job = JobSeen {
            job_id: notice.job,
            state: state_word(state, false),
            reason: Some(notice.line),
            ..JobSeen::default()
        };
        match jobs
            .iter_mut()
            .find(|(_, known)| known.job_id == job.job_id)
        {
            Some(known) if known.0 > weight => {}
            Some(known) => *known = (weight, job),
            None => jobs.push((weight, job)),
        }
    }
    let jobs: Vec<_> = jobs.into_iter().map(|(_, job)| job).collect();
    let scheduler = if jobs.first()?.job_id.is_some() {
        "slurm"
    } else {
        "pbs"
    };
    Some(Seen {
        form: "output of a job",
        scheduler,
        jobs,
        ..Seen::default()
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn job_output_names_the_cause_of_the_end() {
        let text = "epoch 1\nslurmstepd: error: Detected 1 oom-kill event(s) in step 7.0 cgroup. Some of your processes may have been killed\nsrun: error: n1: task 4: Out Of Memory\nslurmstepd: error: *** JOB 8 ON n1 CANCELLED AT 2024-04-20T09:09:37 DUE TO TIME LIMIT ***\n=>> PBS: job killed: walltime 3630 exceeded limit 3600\n";
        let jobs = job_output(text).expect("three jobs").jobs;
        let said: Vec<_> = jobs
            .iter()
            .map(|job| (job.job_id.as_deref(), job.state.as_str()))
            .collect();
        assert_eq!(
            said,
            [
                (Some("7"), "out_of_memory"),
                (Some("8"), "timeout"),
                (None, "timeout")
            ]
        );
    }

    #[test]
    fn mail_says_why_a_job_was_deleted() {
        let mail = |end: &str| {
            let text = format!("PBS Job Id: 7.srv\nJob Name:   a\nExec host:  n1/0+n2/0\n{end}\n");
            let job = pbs_mail(&text).expect("a job").jobs.remove(0);
            (job.state, job.nodes)
        };
        let of = |state: &str| (state.to_owned(), Some(2));
        assert_eq!(mail("Begun execution"), of("running"));
        assert_eq!(mail("Execution terminated\nExit_status=0"), of("completed"));
        assert_eq!(mail("Execution terminated\nExit_status=3"), of("failed"));
        assert_eq!(
            mail("job deleted\nJob deleted at request of root@srv"),
            of("cancelled")
        );
        assert_eq!(
            mail("job deleted\nMOAB_INFO:  job exceeded wallclock limit"),
            of("timeout")
        );
    }

    #[test]
    fn seff_gives_state_times_and_use() {
        let text = "Job ID: 9\nArray Job ID: 7_2\nState: FAILED (exit code 3)\nNodes: 2\nCPU Utilized: 1-00:00:01\nJob Wall-clock time: 1-00:00:00\nMemory Utilized: 7 GB\n";
        let job = seff(text).expect("a job").jobs.remove(0);
        assert_eq!(
            (job.job_id.as_deref(), job.state.as_str(), job.exit_code),
            (Some("7_2"), "failed", Some(3))
        );
        assert_eq!(
            (job.elapsed_s, job.nodes, job.usage.len()),
            (Some(86400), Some(2), 2)
        );
    }
}
