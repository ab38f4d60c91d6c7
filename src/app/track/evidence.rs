//! What else shows how a job ended: the nodes' records and the end of its output.

use std::io;
use std::path::{Path, PathBuf};

use crate::app::tail::tail;
use crate::record::rundir::{Attempt, Reading, RunDir};
use crate::record::{
    ExitStatus, Missing, NOTICE_TAIL_BYTES, QueueEntry, RunRecord, Sentinel, Status, find_notice,
    resolve,
};

/// Says whether an entry leaves no question that more than the marks could answer.
pub(super) fn is_decided(entry: &QueueEntry) -> bool {
    entry.goes_on() || entry.explains_the_end() || entry.state == crate::job::JobState::Completed
}

/// A run, or an element of its array, whose end is in question.
pub(super) struct Witness<'a> {
    pub(super) run: &'a RunDir,
    pub(super) record: &'a RunRecord,
    pub(super) element: Option<u32>,
}

/// How a start of a run, or of an element, ended by its files and the end of its output, where no scheduler is asked.
pub(crate) fn status_by_files(
    run: &RunDir,
    record: &RunRecord,
    element: Option<u32>,
    reading: &mut Reading,
) -> Status {
    match element {
        None => run.verdicts().add_to(&mut reading.outcome),
        Some(element) => run
            .verdicts()
            .add_to_element(element, None, &mut reading.outcome),
    }
    Witness {
        run,
        record,
        element,
    }
    .status(reading, None)
}

impl Witness<'_> {
    /// What an attempt left: the marks, and the nodes' records where the marks leave a question.
    pub(super) fn read(&self, attempt: Attempt, entry: Option<&QueueEntry>) -> Reading {
        let marks = self.run.marks(attempt);
        let went_well = exit(&marks).is_some_and(ExitStatus::is_success);
        if went_well || entry.is_some_and(is_decided) {
            marks
        } else {
            self.run.outcome(attempt)
        }
    }

    /// The state by what an attempt left, with the end and the notice that only the job's output has.
    pub(super) fn status(&self, reading: &mut Reading, entry: Option<&QueueEntry>) -> Status {
        self.add_end(reading, entry);
        self.add_notice(reading, entry);
        resolve(&reading.outcome, entry)
    }

    /// Takes the end mark from the job's output, where the batch script left it since the state directory did not take it.
    fn add_end(&self, reading: &mut Reading, entry: Option<&QueueEntry>) {
        let (Some(attempt), None) = (reading.attempt, &reading.outcome.end) else {
            return;
        };
        if entry.is_some_and(QueueEntry::goes_on) {
            return;
        }
        let Some(end) = output_path(self.record, self.element).and_then(|path| end_of(&path).ok())
        else {
            return;
        };
        let who = format!("{} {}", self.record.run_id, attempt.dir_name());
        if let Some((mark, why)) = unmarked_end(&String::from_utf8_lossy(&end), &who) {
            reading.outcome.end = Some(mark);
            let why = format!("it could not be written ({why}); the job's output has it");
            reading.notes.push(Missing {
                what: "the end mark".to_owned(),
                why,
            });
        }
    }

    /// Looks for the scheduler's notice in the job's output, where neither it nor the marks explain the end.
    fn add_notice(&self, reading: &mut Reading, entry: Option<&QueueEntry>) {
        let Some(attempt) = reading.attempt else {
            return;
        };
        let exit = exit(reading);
        let known = match (entry, exit) {
            (Some(entry), _) if is_decided(entry) => true,
            (Some(_), Some(exit)) => exit.is_success(),
            // All attempts write to one file: the notice may be on an earlier one, and this one ended by itself.
            (None, Some(ExitStatus::Code(_))) => attempt.attempt > 0,
            _ => false,
        };
        if known || self.record.scheduler.is_local() {
            return;
        }
        let outcome = &reading.outcome;
        let marks = outcome
            .start
            .iter()
            .chain(&outcome.end)
            .filter_map(|mark| mark.job_id.as_ref());
        let ids: Vec<&str> = marks
            .chain(&self.record.job_id)
            .map(|job_id| &*job_id.0)
            .collect();
        // Slurm names an element by its own number or by its array's.
        let elements = self
            .element
            .map(|element| ids.iter().map(move |id| format!("{id}_{element}")));
        let of_element: Vec<String> = elements.into_iter().flatten().collect();
        let jobs: Vec<&str> = ids
            .iter()
            .copied()
            .chain(of_element.iter().map(String::as_str))
            .collect();
        let output = output_path(self.record, self.element);
        let of_scheduler = scheduler_outputs(self.element)
            .into_iter()
            .map(|name| self.run.path().join(name));
        let ends = output
            .into_iter()
            .chain(of_scheduler)
            .filter_map(|path| end_of(&path).ok());
        let notice = ends.filter_map(|end| find_notice(&end, &jobs)).next();
        reading.outcome.notice = notice;
    }
}

/// The end that the batch script of `who` reported in its output, and why it is there:
/// `dlrun: the job ended with exit code 3; that cannot be recorded: WHY [RUN 0.0 AT_MS UPTIME_MS 3 NODE]`.
fn unmarked_end(text: &str, who: &str) -> Option<(Sentinel, String)> {
    text.lines().rev().find_map(|line| {
        let report = line.strip_prefix("dlrun: the job ended with exit code ")?;
        let (report, mark) = report.strip_suffix(']')?.rsplit_once(" [")?;
        let mut words = mark
            .strip_prefix(who)?
            .strip_prefix(' ')?
            .split_whitespace();
        let (at_ms, uptime_ms) = (words.next()?.parse().ok()?, words.next()?.parse().ok());
        let (exit_code, node) = (words.next()?.parse().ok()?, words.next()?.to_owned());
        let why = report.split_once("recorded: ")?.1.to_owned();
        let exit_code = Some(exit_code);
        let mark = Sentinel {
            format: 1,
            at_ms,
            uptime_ms,
            node,
            job_id: None,
            exit_code,
            refused: None,
        };
        Some((mark, why))
    })
}

/// What a scheduler of the PBS family writes itself, in a run's directory: of an element Torque adds the index behind the
/// name, and OpenPBS puts it where it is told to.
fn scheduler_outputs(element: Option<u32>) -> Vec<String> {
    match element {
        None => vec!["scheduler.out".to_owned()],
        Some(element) => vec![
            format!("scheduler.out-{element}"),
            format!("scheduler.{element}.out"),
        ],
    }
}

fn exit(reading: &Reading) -> Option<ExitStatus> {
    reading.outcome.end.as_ref().and_then(Sentinel::exit)
}

/// The end of a file. What is no file (the output may be a terminal or a pipe) is not waited for.
fn end_of(path: &Path) -> io::Result<Vec<u8>> {
    if !path.metadata()?.is_file() {
        return Err(io::ErrorKind::InvalidInput.into());
    }
    tail(path, None, NOTICE_TAIL_BYTES)
}

/// The output file of a run or of an element of its array: `%a` stands for the index, which restarts in each job of an
/// array that was split.
pub(crate) fn output_path(record: &RunRecord, element: Option<u32>) -> Option<PathBuf> {
    let output = record.output.as_ref()?;
    let Some(element) = element else {
        return Some(PathBuf::from(output));
    };
    let part = record
        .parts
        .iter()
        .filter(|part| part.offset <= element)
        .max_by_key(|part| part.offset);
    let index = element - part.map_or(0, |part| part.offset);
    let (dir, name) = output.rsplit_once('/').unwrap_or(("", output));
    let name = match (part, &record.job_id) {
        (Some(part), Some(first)) => name.replace(&first.0, &part.job_id.0),
        _ => name.to_owned(),
    };
    Some(Path::new(dir).join(name.replace("%a", &index.to_string())))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::job::{JobId, RunId, SchedulerKind, Workload};
    use crate::record::ArrayPart;

    #[test]
    fn end_that_no_mark_holds_is_read_from_the_output_of_its_own_attempt() {
        let line = "dlrun: the job ended with exit code 3; that cannot be recorded: No space left on device [r1 0.1 70 5 3 n1]";
        let text = format!("epoch 1\n{line}\nmore\n");
        let (mark, why) = unmarked_end(&text, "r1 0.1").expect("an end");
        assert_eq!(
            (mark.at_ms, mark.uptime_ms, mark.exit_code, &*mark.node),
            (70, Some(5), Some(3), "n1")
        );
        assert_eq!(why, "No space left on device");
        for (text, who) in [
            (&*text, "r1 0.0"),
            (&text, "r2 0.1"),
            (&line[..line.len() - 9], "r1 0.1"),
            (&text, "r1 0"),
        ] {
            assert_eq!(unmarked_end(text, who), None, "{text}");
        }
    }

    #[test]
    fn outputs_of_elements_are_found_in_split_arrays_too() {
        let part = |job: &str, offset| ArrayPart {
            job_id: JobId(job.into()),
            offset,
        };
        let record = RunRecord {
            format: RunRecord::FORMAT,
            run_id: RunId::from_random([7; 10]),
            name: "job".into(),
            submitted_at_ms: 1_000,
            user: "u".into(),
            submit_host: "h".into(),
            scheduler: SchedulerKind::Slurm,
            job_id: Some(JobId("95".into())),
            output: Some("/w 95/job-95_%a.out".into()),
            workdir: "/".into(),
            job_file: None,
            nodes: 1,
            array: None,
            parts: vec![part("96", 1000), part("97", 2000)],
            framework: Default::default(),
            storage: None,
            image: None,
            workload: Workload::default(),
            tasks_per_node: None,
            queue: None,
            identity: None,
            forecast: None,
            dlrun_version: "0".into(),
        };
        let of = |element| {
            output_path(&record, Some(element))
                .expect("a path")
                .display()
                .to_string()
        };
        assert_eq!(of(7), "/w 95/job-95_7.out");
        assert_eq!(
            [of(1000), of(2007)],
            ["/w 95/job-96_0.out", "/w 95/job-97_7.out"]
        );
        assert_eq!(
            output_path(&record, None),
            record.output.as_ref().map(PathBuf::from)
        );
    }
}
