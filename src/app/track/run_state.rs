//! The state of a run, from its files and the answer of its scheduler; as few files are read as decide it.

use std::collections::BTreeMap;

use super::Tracked;
use super::ask::{Answer, NO_ANSWER};
use super::evidence::{Witness, is_decided};
use crate::foundation::private::FileError;
use crate::job::{ArraySpec, JobState};
use crate::record::rundir::{Attempt, Reading, RunDir};
use crate::record::{
    Element, ExitStatus, Outcome, QueueEntry, RunRecord, Sentinel, Status, cover, merge_elements,
    resolve,
};

/// The state of a run. All that its newest attempt left is read if `wanted`. Of an array only the elements are read that ended since
/// the index noted those `known`; with them the elements that the index does not have yet.
pub(super) fn run_state(
    run: &RunDir,
    record: RunRecord,
    answer: &Answer,
    known: Vec<Element>,
    wanted: bool,
) -> Result<(Tracked, Vec<Element>), FileError> {
    if let Some(array) = record.array.clone() {
        return element_states(run, record, &array, answer, known);
    }
    let entry = answer.entries.first();
    let enough = !wanted && entry.is_some_and(is_decided);
    let mut reading = if enough {
        run.newest_marks(0)?
    } else {
        run.newest_outcome(0)?
    };
    if enough && may_be_a_code(&reading) {
        reading = run.newest_outcome(0)?;
    }
    let witness = Witness {
        run,
        record: &record,
        element: None,
    };
    let tracked = Tracked {
        status: witness.status(&mut reading, entry),
        reading,
        elements: Vec::new(),
        all_starts: None,
        record,
    };
    Ok((tracked, Vec::new()))
}

/// Whether an end that the shell reports like a signal's may be a code of the command's own: its node knows.
fn may_be_a_code(reading: &Reading) -> bool {
    matches!(
        reading.outcome.end.as_ref().and_then(Sentinel::exit),
        Some(ExitStatus::Signal(_))
    )
}

fn element_states(
    run: &RunDir,
    record: RunRecord,
    array: &ArraySpec,
    answer: &Answer,
    known: Vec<Element>,
) -> Result<(Tracked, Vec<Element>), FileError> {
    let covered = cover(array, &answer.entries);
    let newest = run.newest_attempts()?;
    let kept = run.verdicts();
    let verdicts = cover(array, kept.elements());
    let mut known: BTreeMap<u32, Element> = known
        .into_iter()
        .map(|known| (known.element, known))
        .collect();
    let mut elements = Vec::new();
    let mut changed = Vec::new();
    for index in array.indexes() {
        let entry = covered.get(&index).copied();
        let attempt = newest.get(&index).copied();
        let before = known.remove(&index);
        if let Some(same) = before
            .as_ref()
            .filter(|before| answer.silent || holds(before, attempt, entry))
        {
            elements.push(same.clone());
            continue;
        }
        let status = if answer.silent {
            Status {
                reason: Some(NO_ANSWER.to_owned()),
                ..Status::of(JobState::Pending)
            }
        } else if entry.is_some_and(QueueEntry::goes_on) {
            // The marks of an element that its scheduler still has decide nothing.
            resolve(&Outcome::default(), entry)
        } else {
            let attempt = attempt.map(|attempt| Attempt {
                element: index,
                attempt,
            });
            let witness = Witness {
                run,
                record: &record,
                element: Some(index),
            };
            let mut reading =
                attempt.map_or_else(Reading::default, |attempt| witness.read(attempt, entry));
            kept.add_to_element(index, verdicts.get(&index).copied(), &mut reading.outcome);
            witness.status(&mut reading, entry)
        };
        let element = Element {
            element: index,
            attempt,
            status,
        };
        let is_noted = before.is_some();
        if before.is_none_or(|before| differs(&before, &element))
            && (is_noted || is_notable(&element))
        {
            changed.push(element.clone());
        }
        elements.push(element);
    }
    let mut status = merge_elements(&elements);
    if answer.silent && !status.state.is_final() {
        status.reason = Some(NO_ANSWER.to_owned());
    }
    let tracked = Tracked {
        record,
        status,
        reading: Reading::default(),
        elements,
        all_starts: None,
    };
    Ok((tracked, changed))
}

/// Says whether an element that was over is so still: nothing started since, and its scheduler does not know better.
fn holds(known: &Element, attempt: Option<u32>, entry: Option<&QueueEntry>) -> bool {
    let state = known.status.state;
    let agrees = |entry: &QueueEntry| {
        !entry.goes_on() && (!entry.explains_the_end() || entry.state == state)
    };
    state.is_final() && known.attempt == attempt && entry.is_none_or(agrees)
}

/// Says whether the index would tell two apart: it keeps no words of schedulers on elements.
fn differs(a: &Element, b: &Element) -> bool {
    let kept = |element: &Element| {
        let Status {
            state,
            exit,
            started_at_ms,
            ended_at_ms,
            ..
        } = element.status;
        (element.attempt, state, exit, started_at_ms, ended_at_ms)
    };
    kept(a) != kept(b)
}

/// Elements that only wait are not worth a row each.
fn is_notable(element: &Element) -> bool {
    match element.status.state {
        JobState::Pending => false,
        JobState::Unknown => element.attempt.is_some(),
        _ => true,
    }
}

/// Keeps a scheduler's last words before it forgets them, but not that jobs completed where their marks say so; of an array there may
/// be ten thousand.
pub(super) fn keep_verdicts(run: &RunDir, tracked: &Tracked, entries: &[QueueEntry]) {
    let array = tracked.record.array.as_ref();
    let has_mark = array.is_some() || tracked.reading.outcome.end.is_some();
    let is_known = |entry: &QueueEntry| has_mark && entry.state == JobState::Completed;
    let is_end = |entry: &&QueueEntry| {
        entry.state.is_final() && entry.ended_at_ms.is_some() && !is_known(entry)
    };
    let ends: Vec<QueueEntry> = entries.iter().filter(is_end).cloned().collect();
    if !ends.is_empty() {
        let _ = run.write_verdicts(array, &ends);
    }
}

#[cfg(test)]
mod tests {
    use std::fs;

    use super::*;
    use crate::job::{JobId, RunId, SchedulerKind, Workload};
    use crate::record::rundir::StateDir;

    fn record(array: Option<&str>) -> RunRecord {
        RunRecord {
            format: RunRecord::FORMAT,
            run_id: RunId::from_random([7; 10]),
            name: "job".into(),
            submitted_at_ms: 1_000,
            user: "u".into(),
            submit_host: "h".into(),
            scheduler: SchedulerKind::Slurm,
            job_id: Some(JobId("7".into())),
            output: None,
            workdir: "/".into(),
            job_file: None,
            nodes: 1,
            array: array.map(|text| ArraySpec::parse(text).expect("an array")),
            parts: Vec::new(),
            framework: Default::default(),
            storage: None,
            image: None,
            workload: Workload::default(),
            tasks_per_node: None,
            queue: None,
            identity: None,
            forecast: None,
            dlrun_version: "0".into(),
        }
    }

    fn new_run() -> (tempfile::TempDir, RunDir) {
        let tmp = tempfile::tempdir().expect("a directory");
        let state = StateDir::create(&tmp.path().join("state")).expect("created");
        let run = state
            .ensure_run(&RunId::from_random([7; 10]))
            .expect("created");
        (tmp, run)
    }

    fn mark(run: &RunDir, attempt: &str, name: &str, exit_code: &str) {
        let dir = run.path().join(attempt);
        fs::create_dir_all(&dir).expect("created");
        let mark = format!(
            r#"{{"format":1,"at_ms":5000,"node":"n1","job_id":"7","exit_code":{exit_code}}}"#
        );
        fs::write(dir.join(name), mark).expect("written");
    }

    fn run_with(files: &[(&str, &str)]) -> (tempfile::TempDir, RunDir) {
        let (tmp, run) = new_run();
        fs::create_dir(run.path().join("0.0")).expect("created");
        for (name, exit_code) in files {
            mark(&run, "0.0", name, exit_code);
        }
        (tmp, run)
    }

    fn entry(state: JobState, elements: Option<&str>) -> QueueEntry {
        QueueEntry {
            expected_start_ms: None,
            job_id: JobId("7".into()),
            state,
            raw_state: "RAW".into(),
            reason: None,
            submitted_at_ms: None,
            started_at_ms: None,
            ended_at_ms: Some(9_000).filter(|_| state.is_final()),
            exit: None,
            nodes: None,
            elements: elements.map(|text| ArraySpec::parse(text).expect("an array")),
            stuck: false,
        }
    }

    fn answer(entries: &[QueueEntry]) -> Answer {
        Answer {
            entries: entries.to_vec(),
            silent: false,
        }
    }

    /// What a glance says is what all files say.
    fn glanced(run: &RunDir, entries: &[QueueEntry]) -> Status {
        let of = |wanted| {
            let looked = run_state(run, record(None), &answer(entries), Vec::new(), wanted);
            looked.expect("listed").0.status
        };
        assert_eq!(of(false), of(true));
        of(false)
    }

    #[test]
    fn a_glance_is_enough() {
        let one = |state| [entry(state, None)];
        let (_tmp, ended) = run_with(&[("start.json", "null"), ("end.json", "3")]);
        assert_eq!(glanced(&ended, &[]).state, JobState::Failed);
        assert_eq!(
            glanced(&ended, &one(JobState::Running)).state,
            JobState::Running
        );
        assert_eq!(
            glanced(&ended, &one(JobState::Timeout)).state,
            JobState::Timeout
        );
        // Requeued: the end mark is of the earlier start.
        assert_eq!(
            glanced(&ended, &one(JobState::Pending)).state,
            JobState::Pending
        );
        let (_tmp, started) = run_with(&[("start.json", "null")]);
        assert_eq!(
            glanced(&started, &one(JobState::Running)).started_at_ms,
            Some(5000)
        );
        assert_eq!(glanced(&started, &[]).state, JobState::Unknown);
    }

    struct Looked {
        tracked: Tracked,
        changed: Vec<Element>,
    }

    fn elements(run: &RunDir, entries: &[QueueEntry], known: Vec<Element>) -> Looked {
        of_elements(run, "0-3", &answer(entries), known)
    }

    fn of_elements(run: &RunDir, array: &str, answer: &Answer, known: Vec<Element>) -> Looked {
        let looked = run_state(run, record(Some(array)), answer, known, false);
        let (tracked, changed) = looked.expect("listed");
        Looked { tracked, changed }
    }

    fn states(looked: &Looked) -> Vec<JobState> {
        let elements = looked.tracked.elements.iter();
        elements.map(|element| element.status.state).collect()
    }

    #[test]
    fn elements_are_told_by_their_marks_and_entries() {
        use JobState::{Completed, Failed, Pending, Running, Unknown};
        let (_tmp, run) = new_run();
        mark(&run, "0.0", "end.json", "0");
        mark(&run, "1.0", "end.json", "143");
        mark(&run, "1.1", "end.json", "3");
        let seen = elements(
            &run,
            &[entry(Running, Some("2")), entry(Pending, Some("3"))],
            Vec::new(),
        );
        assert_eq!(
            (states(&seen), seen.tracked.status.state),
            (vec![Completed, Failed, Running, Pending], Running)
        );
        assert_eq!(seen.changed.len(), 3, "the waiting one is not noted");
        let empty = elements(&run, &[], Vec::new());
        assert_eq!(
            (states(&empty), empty.tracked.status.state),
            (vec![Completed, Failed, Unknown, Unknown], Unknown)
        );
    }

    #[test]
    fn what_is_over_is_not_read_again_unless_something_happened() {
        use JobState::{Cancelled, Completed, Pending, Running};
        let (_tmp, run) = new_run();
        mark(&run, "0.0", "end.json", "0");
        let all = [entry(Cancelled, Some("1-3"))];
        let first = elements(&run, &all, Vec::new());
        assert_eq!(first.changed.len(), 4);
        fs::write(run.path().join("0.0/end.json"), "no longer read").expect("written");
        let again = elements(&run, &[], first.changed.clone());
        assert_eq!((states(&again), again.changed.len()), (states(&first), 0));
        assert_eq!(again.tracked.status.state, Cancelled);
        // Requeued, with and without the scheduler's entry.
        let requeued = elements(&run, &[entry(Pending, Some("0"))], first.changed.clone());
        assert_eq!((states(&requeued)[0], requeued.changed.len()), (Pending, 1));
        mark(&run, "0.1", "end.json", "0");
        let anew = elements(&run, &[], first.changed.clone());
        assert_eq!(
            (states(&anew)[0], anew.changed[0].attempt),
            (Completed, Some(1))
        );
        let silent = Answer {
            entries: Vec::new(),
            silent: true,
        };
        let silent = of_elements(&run, "0-4", &silent, first.changed);
        assert_eq!(
            (
                states(&silent)[4],
                silent.changed.len(),
                silent.tracked.status.state
            ),
            (Pending, 0, Pending)
        );
        assert_ne!(silent.tracked.status.state, Running);
    }

    #[test]
    fn verdicts_on_elements_outlive_the_schedulers_memory() {
        let (_tmp, run) = new_run();
        mark(&run, "0.0", "start.json", "null");
        mark(&run, "0.0", "end.json", "143");
        let ends = [
            entry(JobState::Timeout, Some("0")),
            entry(JobState::Cancelled, Some("1-3")),
        ];
        let looked = elements(&run, &[], Vec::new());
        keep_verdicts(&run, &looked.tracked, &ends);
        let cancelled = JobState::Cancelled;
        let seen = elements(&run, &[], Vec::new());
        assert_eq!(
            states(&seen),
            [JobState::Timeout, cancelled, cancelled, cancelled]
        );
    }
}
