//! What schedulers and people reported of a run's end: verdicts, and requests to cancel.

use serde::{Deserialize, Serialize};

use super::run::RunDir;
use crate::foundation::private::{FileError, PrivateDir};
use crate::job::ArraySpec;
use crate::record::{AttemptRecord, Outcome, QueueEntry, cover};

/// The scheduler's last word on the run's end.
const VERDICT_FILE: &str = "verdict.json";
/// Its last words on elements of the run's array.
const VERDICTS_FILE: &str = "verdicts.json";
/// When `dlrun cancel` was asked, in Unix milliseconds UTC.
const CANCEL_FILE: &str = "cancel.json";
/// When it was asked for some elements.
const CANCELS_FILE: &str = "cancels.json";
/// The number of nodes that `dlrun scale` asked for.
const SCALE_FILE: &str = "scale.json";
/// When the run was asked to end by itself, in Unix milliseconds UTC.
const STOP_FILE: &str = "stop.json";
/// The largest of these files that is read, in bytes: 10,000 elements, each with its own entry.
const MAX_VERDICTS: usize = 4 << 20;

/// A request to cancel some elements of an array.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
struct Cancel {
    asked_at_ms: u64,
    elements: ArraySpec,
}

/// A request for another number of nodes.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct Scale {
    /// How many.
    pub nodes: u32,
    /// When, in Unix milliseconds UTC.
    pub asked_at_ms: u64,
}

/// All verdicts and requests of a run.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Verdicts {
    verdict: Option<QueueEntry>,
    verdicts: Vec<QueueEntry>,
    cancel_asked_at_ms: Option<u64>,
    cancels: Vec<Cancel>,
}

impl Verdicts {
    /// Reads them; what is missing or cannot be read does not count.
    pub(super) fn read(dir: &PrivateDir) -> Self {
        Self {
            verdict: read(dir, VERDICT_FILE),
            verdicts: read(dir, VERDICTS_FILE).unwrap_or_default(),
            cancel_asked_at_ms: read(dir, CANCEL_FILE),
            cancels: read(dir, CANCELS_FILE).unwrap_or_default(),
        }
    }

    /// Adds to an outcome of the whole run what was reported of it.
    pub fn add_to(&self, outcome: &mut Outcome) {
        outcome.verdict.clone_from(&self.verdict);
        outcome.cancel_asked_at_ms = self.cancel_asked_at_ms;
    }

    /// Adds to an element's outcome what was reported of it. `verdicts` are [`Verdicts::elements`] by element.
    pub fn add_to_element(
        &self,
        element: u32,
        verdict: Option<&QueueEntry>,
        outcome: &mut Outcome,
    ) {
        outcome.verdict = verdict.cloned();
        let own = self
            .cancels
            .iter()
            .filter(|cancel| cancel.elements.contains(element));
        outcome.cancel_asked_at_ms = own
            .map(|cancel| cancel.asked_at_ms)
            .chain(self.cancel_asked_at_ms)
            .max();
    }

    /// The scheduler's last words on elements.
    #[must_use]
    pub fn elements(&self) -> &[QueueEntry] {
        &self.verdicts
    }
}

impl RunDir {
    /// What schedulers and people reported of the run.
    #[must_use]
    pub fn verdicts(&self) -> Verdicts {
        Verdicts::read(&self.dir)
    }

    /// Keeps what a scheduler reported of the end of the run, or of elements of its `array`, before it forgets.
    ///
    /// # Errors
    /// `Write`.
    pub fn write_verdicts(
        &self,
        array: Option<&ArraySpec>,
        entries: &[QueueEntry],
    ) -> Result<(), FileError> {
        let dir = &self.dir;
        let Some(array) = array else {
            let Some(verdict) = entries
                .first()
                .filter(|entry| read::<QueueEntry>(dir, VERDICT_FILE).as_ref() != Some(*entry))
            else {
                return Ok(());
            };
            return dir.replace(VERDICT_FILE, &json(verdict));
        };
        let before: Vec<QueueEntry> = read(dir, VERDICTS_FILE).unwrap_or_default();
        let mut all: Vec<QueueEntry> = entries
            .iter()
            .filter(|entry| !before.contains(entry))
            .cloned()
            .collect();
        if all.is_empty() {
            return Ok(());
        }
        // Of an element that was requeued the new word counts.
        let new: Vec<u32> = cover(array, &all).into_keys().collect();
        all.extend(before.into_iter().filter(|before| {
            let still = |elements: &ArraySpec| {
                elements
                    .indexes()
                    .any(|index| new.binary_search(&index).is_err())
            };
            before.elements.as_ref().is_none_or(still)
        }));
        dir.replace(VERDICTS_FILE, &json(&all))
    }

    /// Asks the program to end by itself: the watchers on its nodes pass it on.
    ///
    /// # Errors
    /// `Write`.
    pub fn write_stop(&self, asked_at_ms: u64) -> Result<(), FileError> {
        self.dir.replace(STOP_FILE, &json(&asked_at_ms))
    }

    /// Whether the program was asked to end by itself.
    #[must_use]
    pub fn is_asked_to_stop(&self) -> bool {
        read::<u64>(&self.dir, STOP_FILE).is_some()
    }

    /// Notes that the run is to continue on so many nodes.
    ///
    /// # Errors
    /// `Write`.
    pub fn write_scale(&self, scale: &Scale) -> Result<(), FileError> {
        self.dir.replace(SCALE_FILE, &json(scale))
    }

    /// The number of nodes that was asked for last.
    #[must_use]
    pub fn scale(&self) -> Option<Scale> {
        read(&self.dir, SCALE_FILE)
    }

    /// The number of nodes that was asked for since a start began.
    #[must_use]
    pub fn scale_since(&self, start: Option<&AttemptRecord>) -> Option<u32> {
        let known = start.and_then(|start| start.scale_asked_at_ms);
        let new = self
            .scale()
            .filter(|scale| Some(scale.asked_at_ms) != known);
        new.map(|scale| scale.nodes)
    }

    /// Notes that the end of the run, or of some of its elements, was asked for.
    ///
    /// # Errors
    /// `Write`.
    pub fn write_cancel(
        &self,
        asked_at_ms: u64,
        elements: Option<&ArraySpec>,
    ) -> Result<(), FileError> {
        let dir = &self.dir;
        let Some(elements) = elements else {
            return dir.replace(CANCEL_FILE, asked_at_ms.to_string().as_bytes());
        };
        let mut cancels: Vec<Cancel> = read(dir, CANCELS_FILE).unwrap_or_default();
        cancels.retain(|before| before.elements != *elements);
        cancels.push(Cancel {
            asked_at_ms,
            elements: elements.clone(),
        });
        dir.replace(CANCELS_FILE, &json(&cancels))
    }
}

fn read<T: serde::de::DeserializeOwned>(dir: &PrivateDir, name: &str) -> Option<T> {
    dir.read_json(name, MAX_VERDICTS).ok()
}

fn json(value: &impl Serialize) -> Vec<u8> {
    serde_json::to_vec(value).expect("plain data with text keys")
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::job::{JobId, JobState, RunId};
    use crate::record::rundir::{RunDir, StateDir};

    fn run() -> (tempfile::TempDir, RunDir) {
        let tmp = tempfile::tempdir().expect("a directory");
        let state = StateDir::create(&tmp.path().join("state")).expect("created");
        let run = state
            .ensure_run(&RunId::from_random([7; 10]))
            .expect("created");
        (tmp, run)
    }

    fn array(text: &str) -> ArraySpec {
        ArraySpec::parse(text).expect("an array")
    }

    fn verdict(state: JobState, elements: Option<&str>) -> QueueEntry {
        QueueEntry {
            expected_start_ms: None,
            job_id: JobId("95".into()),
            state,
            raw_state: "RAW".into(),
            reason: None,
            submitted_at_ms: None,
            started_at_ms: None,
            ended_at_ms: Some(9_000),
            exit: None,
            nodes: None,
            elements: elements.map(array),
            stuck: false,
        }
    }

    fn states(run: &RunDir, of: &ArraySpec) -> Vec<Option<JobState>> {
        let verdicts = run.verdicts();
        let covered = cover(of, verdicts.elements());
        of.indexes()
            .map(|index| covered.get(&index).map(|entry| entry.state))
            .collect()
    }

    #[test]
    fn words_on_elements_gather_and_the_newest_counts() {
        let (_tmp, run) = run();
        let of = array("0-3");
        let write = |said: &[QueueEntry]| run.write_verdicts(Some(&of), said).expect("written");
        write(&[
            verdict(JobState::Timeout, Some("0")),
            verdict(JobState::Cancelled, Some("2-3")),
        ]);
        write(&[verdict(JobState::Preempted, Some("0"))]);
        let (preempted, cancelled) = (Some(JobState::Preempted), Some(JobState::Cancelled));
        assert_eq!(states(&run, &of), [preempted, None, cancelled, cancelled]);
        assert_eq!(run.verdicts().elements().len(), 2);
    }

    #[test]
    fn a_cancel_of_elements_is_not_one_of_the_run() {
        let (_tmp, run) = run();
        run.write_cancel(1_000, Some(&array("1,3")))
            .expect("written");
        run.write_cancel(2_000, Some(&array("3"))).expect("written");
        let asked = |element| {
            let mut outcome = Outcome::default();
            run.verdicts().add_to_element(element, None, &mut outcome);
            outcome.cancel_asked_at_ms
        };
        assert_eq!(
            [asked(0), asked(1), asked(3)],
            [None, Some(1_000), Some(2_000)]
        );
        let mut whole = Outcome::default();
        run.verdicts().add_to(&mut whole);
        assert_eq!(whole.cancel_asked_at_ms, None);
        run.write_cancel(3_000, None).expect("written");
        assert_eq!([asked(0), asked(3)], [Some(3_000), Some(3_000)]);
    }
}
