//! Records of PBS's accounting log, and `tracejob`.

use super::field::{leading_number, moment};
use super::pbs::{duration, ended, host_count, signal};
use super::{JobSeen, Printed, Seen, state_word};
use crate::job::JobState;
use crate::scheduler::pbs::ends::Pbs;

/// `DATE TIME;E;ID;key=value key=value ..`, one job a line and event. The last event of a job is how it stands.
pub(super) fn accounting(text: &str) -> Option<Seen> {
    let mut jobs: Vec<JobSeen> = Vec::new();
    for line in text.lines().filter(|line| !line.trim().is_empty()) {
        let parts: Vec<&str> = line.splitn(4, ';').collect();
        let [moment, event, id, rest] = parts[..] else {
            return None;
        };
        let is_date = moment.len() == 19
            && moment.matches('/').count() == 2
            && moment.matches(':').count() == 2;
        if !is_date || event.len() != 1 {
            return None;
        }
        let Some(job) = event_of(event, id, rest) else {
            continue;
        };
        match jobs.iter_mut().find(|known| known.job_id == job.job_id) {
            Some(known) => *known = job,
            None => jobs.push(job),
        }
    }
    (!jobs.is_empty()).then_some(Seen {
        form: "accounting",
        scheduler: "pbs",
        jobs,
        ..Seen::default()
    })
}

/// `Q` queued, `S` started, `E` ended, `D` deleted, `A` aborted, `R` waits anew (`pbs_server(8B)`, "Accounting").
fn event_of(event: &str, id: &str, rest: &str) -> Option<JobSeen> {
    let get = |key: &str| {
        let pair = rest
            .split_whitespace()
            .find_map(|pair| pair.strip_prefix(key)?.strip_prefix('='));
        pair.filter(|value| !value.is_empty())
    };
    let exit_code = get("Exit_status").and_then(|code| code.parse::<i64>().ok());
    let mut guess = None;
    let state = match (event, exit_code) {
        ("Q" | "R", _) => JobState::Pending,
        ("S" | "T" | "C", _) => JobState::Running,
        ("D", _) => JobState::Cancelled,
        ("A", _) => JobState::Failed,
        ("E", Some(code)) => {
            let (state, nearest) = ended(which(rest), code);
            guess = nearest;
            state
        }
        ("E", None) => JobState::Unknown,
        _ => return None,
    };
    let hosts = get("exec_vnode").or_else(|| get("exec_host"));
    Some(JobSeen {
        job_id: Some(id.to_owned()),
        guess: guess.map(|state| state.as_str().to_owned()),
        restarts: get("run_count")
            .and_then(leading_number)
            .map(|starts| starts.saturating_sub(1)),
        name: get("jobname").map(str::to_owned),
        state: state_word(state, false),
        raw_state: event.to_owned(),
        exit_code,
        signal: exit_code.and_then(signal),
        start: get("start").and_then(moment),
        end: get("end").and_then(moment),
        elapsed_s: get("resources_used.walltime").and_then(duration),
        nodes: get("Resource_List.nodect")
            .and_then(leading_number)
            .or_else(|| hosts.map(host_count)),
        node_list: get("exec_host").or(hosts).map(str::to_owned),
        gpus: get("Resource_List.ngpus").and_then(leading_number),
        time_limit_s: get("Resource_List.walltime").and_then(duration),
        ..JobSeen::default()
    })
}

/// Which PBS wrote a record, where that shows.
fn which(record: &str) -> Option<Pbs> {
    let has = |words: &[&str]| words.iter().any(|word| record.contains(word));
    if has(&[
        "exec_vnode=",
        "run_count=",
        "Resource_List.select=",
        "Resource_List.place=",
        "cpupercent=",
        "project=",
    ]) {
        return Some(Pbs::OpenPbs);
    }
    has(&[
        "owner=",
        "Resource_List.neednodes=",
        "total_execution_slots=",
        "unique_node_count=",
    ])
    .then_some(Pbs::Torque)
}

/// When, which daemon, what.
type Event<'a> = (String, &'a str, String);

/// The lines of `tracejob`. A text that goes on is indented.
fn traced(text: &str) -> Vec<Event<'_>> {
    let mut events: Vec<Event<'_>> = Vec::new();
    for line in text.lines() {
        let head = line
            .get(..19)
            .and_then(iso)
            .zip(line.get(19..))
            .map(|(when, said)| (when, said.trim_start()));
        match (head, events.last_mut()) {
            (Some((when, said)), _) => {
                let (daemon, said) = said.split_once(char::is_whitespace).unwrap_or((said, ""));
                events.push((
                    when,
                    daemon,
                    said.split_whitespace().collect::<Vec<_>>().join(" "),
                ));
            }
            (None, Some((.., said))) if line.starts_with(char::is_whitespace) => {
                said.push(' ');
                said.push_str(
                    line.split_whitespace()
                        .collect::<Vec<_>>()
                        .join(" ")
                        .as_str(),
                );
            }
            _ => {}
        }
    }
    events
}

/// `Job: ID`, then what the daemons' logs and the accounting (`A`) say of it.
pub(super) fn tracejob(text: &str) -> Option<Seen> {
    let head = text
        .lines()
        .find_map(|line| line.trim().strip_prefix("Job: "))?
        .trim();
    leading_number(head)?;
    let jobs = vec![followed(head, &traced(text))];
    Some(Seen {
        form: "tracejob",
        scheduler: "pbs",
        jobs,
        ..Seen::default()
    })
}

/// The log of `pbs_server`: `DATE TIME;event;daemon;Job;ID;text`.
pub(super) fn server_log(text: &str) -> Option<Seen> {
    let mut jobs: Vec<(&str, Vec<Event<'_>>)> = Vec::new();
    for line in text.lines().filter(|line| !line.trim().is_empty()) {
        let parts: Vec<&str> = line.splitn(6, ';').collect();
        let when = iso(parts[0].split('.').next()?)?;
        let [_, _, _, "Job", id, words] = parts[..] else {
            continue;
        };
        // `req_commit` is a request of the server.
        if leading_number(id).is_none() {
            continue;
        }
        let event = (when, "S", words.trim().to_owned());
        match jobs.iter_mut().find(|(known, _)| *known == id) {
            Some((_, events)) => events.push(event),
            None => jobs.push((id, vec![event])),
        }
    }
    let jobs: Vec<_> = jobs
        .iter()
        .map(|(id, events)| followed(id, events))
        .collect();
    let is_told = jobs.iter().any(|job| !job.raw_state.is_empty());
    is_told.then_some(Seen {
        form: "server log",
        scheduler: "pbs",
        jobs,
        ..Seen::default()
    })
}

/// How a job stands after some events.
fn followed(head: &str, events: &[Event<'_>]) -> JobSeen {
    let whole = events
        .iter()
        .map(|(.., said)| said.as_str())
        .collect::<Vec<_>>()
        .join(" ");
    let mut job = JobSeen {
        job_id: Some(head.to_owned()),
        state: state_word(JobState::Unknown, false),
        ..JobSeen::default()
    };
    for (when, daemon, words) in events {
        if words.starts_with("Job Queued") || words.starts_with("enqueuing into") {
            job.state = state_word(JobState::Pending, false);
            "Queued".clone_into(&mut job.raw_state);
        }
        // What the accounting has of it: name, places, limits.
        let told =
            event_of("S", head, words).filter(|_| *daemon == "A" && words.contains("jobname="));
        if let Some(told) = told {
            let JobSeen {
                name,
                nodes,
                node_list,
                gpus,
                time_limit_s,
                elapsed_s,
                restarts,
                ..
            } = told;
            job = JobSeen {
                name,
                nodes,
                node_list,
                gpus,
                time_limit_s,
                elapsed_s,
                restarts,
                ..job
            };
        }
        if let Some((_, name)) = words.split_once("job name = ") {
            job.name
                .get_or_insert(name.split(',').next().unwrap_or_default().to_owned());
        }
        if words.starts_with("Job Run") {
            job.state = state_word(JobState::Running, false);
            "Run".clone_into(&mut job.raw_state);
            job.start = Some(Printed::Text(when.clone()));
            if let Some((_, hosts)) = words.split_once(" on exec_vnode ") {
                (job.nodes, job.node_list) = (Some(host_count(hosts)), Some(hosts.to_owned()));
            }
        }
        if words.starts_with("Job requeued") || words.starts_with("Job Rerun") {
            job.state = state_word(JobState::Pending, false);
            "Requeued".clone_into(&mut job.raw_state);
        }
        if let Some(code) = exit_status(words) {
            let (state, guess) = ended(which(&whole), code);
            (job.state, job.exit_code) = (state_word(state, false), Some(code));
            job.guess = guess.map(|state| state.as_str().to_owned());
            job.signal = signal(code);
            "Exit".clone_into(&mut job.raw_state);
            job.end.get_or_insert(Printed::Text(when.clone()));
            let used = words
                .split_whitespace()
                .find_map(|pair| pair.strip_prefix("resources_used.walltime="));
            job.elapsed_s = used.and_then(duration).or(job.elapsed_s);
        } else if words.starts_with("dequeuing from")
            && ["COMPLETE", "EXITING"]
                .iter()
                .any(|state| words.ends_with(state))
            && job.raw_state == "Run"
        {
            // It is over, and nothing says how.
            job.state = state_word(JobState::Unknown, false);
            "Dequeued".clone_into(&mut job.raw_state);
            job.end = Some(Printed::Text(when.clone()));
        } else if words.starts_with("Job deleted") && job.exit_code.is_none() {
            job.state = state_word(JobState::Cancelled, false);
            "Deleted".clone_into(&mut job.raw_state);
            job.end = Some(Printed::Text(when.clone()));
        }
    }
    job
}

fn exit_status(words: &str) -> Option<i64> {
    let rest = words.split("Exit_status=").nth(1)?;
    rest.split_whitespace().next()?.parse().ok()
}

/// `11/10/2013 12:52:40` as `2013-11-10T12:52:40`.
fn iso(text: &str) -> Option<String> {
    let (date, time) = text.split_once(' ')?;
    let parts: Vec<&str> = date.split('/').collect();
    let [month, day, year] = parts[..] else {
        return None;
    };
    let digits = |text: &str| text.bytes().all(|b| b.is_ascii_digit());
    (digits(month) && digits(day) && digits(year))
        .then(|| format!("{year}-{month}-{day}T{}", time.trim()))
}
