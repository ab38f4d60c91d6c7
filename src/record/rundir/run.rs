//! The directory of one run.

use std::collections::BTreeMap;
use std::path::Path;

use super::attempt::Attempt;
use super::failure::RunDirError;
use super::node::NodeDir;
use super::reading::Reading;
use super::verdicts::{self, Verdicts};
use super::versioned::read_versioned;
use crate::foundation::private::PrivateDir;
use crate::job::{ArraySpec, RunId};
use crate::record::{MeasureKey, QueueEntry, RunRecord};

const RUN_FILE: &str = "run.json";
/// The largest `run.json`, `plan.json` or `job.sh` that is read, in bytes.
pub const MAX_RUN_FILE: usize = 1 << 20;

/// The open directory of one run.
#[derive(Debug)]
pub struct RunDir {
    run_id: RunId,
    dir: PrivateDir,
}

impl RunDir {
    pub(super) fn new(run_id: RunId, dir: PrivateDir) -> Self {
        Self { run_id, dir }
    }

    /// The run.
    #[must_use]
    pub fn run_id(&self) -> &RunId {
        &self.run_id
    }

    /// Where it is.
    #[must_use]
    pub fn path(&self) -> &Path {
        self.dir.path()
    }

    /// Puts `run.json` in its place. After a power loss the former content may be there again: the job id that it then
    /// lacks is in the marks of its job.
    ///
    /// # Errors
    /// `Write`; the former content is kept.
    pub fn write_run(&self, record: &RunRecord) -> Result<(), RunDirError> {
        let bytes = serde_json::to_vec_pretty(record).expect("a run record has no keys but text");
        Ok(self.dir.replace(RUN_FILE, &bytes)?)
    }

    pub(super) fn sync(&self) -> Result<(), RunDirError> {
        Ok(self.dir.sync()?)
    }

    /// Reads `run.json`.
    ///
    /// # Errors
    /// With [`RunDirError::is_missing`] where it was never written; [`RunDirError::Damaged`],
    /// [`RunDirError::NewerFormat`], [`RunDirError::Misplaced`], `TooLarge`.
    pub fn read_run(&self) -> Result<RunRecord, RunDirError> {
        let bytes = self.dir.read(RUN_FILE, MAX_RUN_FILE)?;
        let path = self.dir.path().join(RUN_FILE);
        let record: RunRecord = read_versioned(&bytes, &path, RunRecord::FORMAT)?;
        if record.run_id == self.run_id {
            Ok(record)
        } else {
            Err(RunDirError::Misplaced {
                path,
                belongs_to: format!("run `{}`", record.run_id),
            })
        }
    }

    /// Reads the plan, JSON text.
    ///
    /// # Errors
    /// As [`RunDir::read_run`].
    pub fn read_plan(&self) -> Result<String, RunDirError> {
        Ok(String::from_utf8_lossy(&self.dir.read("plan.json", MAX_RUN_FILE)?).into_owned())
    }

    /// The attempts that left a directory, by element and then attempt.
    ///
    /// # Errors
    /// `List`.
    pub fn attempts(&self) -> Result<Vec<Attempt>, RunDirError> {
        let mut attempts: Vec<Attempt> = self
            .dir
            .names()?
            .iter()
            .filter_map(|name| Attempt::from_dir_name(name))
            .collect();
        attempts.sort_unstable();
        Ok(attempts)
    }

    /// Reads what an attempt left. What cannot be read is left out and noted, so that one bad file never hides a run.
    #[must_use]
    pub fn outcome(&self, attempt: Attempt) -> Reading {
        match self.dir.open_dir(&attempt.dir_name()) {
            Ok(dir) => Reading::of(&dir, &self.run_id, attempt),
            Err(error) => Reading::unreadable(attempt, &error),
        }
    }

    /// Reads what the newest attempt of an array element left; nothing where there was none.
    ///
    /// # Errors
    /// `List`.
    pub fn newest_outcome(&self, element: u32) -> Result<Reading, RunDirError> {
        let newest = self.newest_attempt(element)?;
        let mut reading = newest.map_or_else(Reading::default, |attempt| self.outcome(attempt));
        self.verdicts().add_to(&mut reading.outcome);
        Ok(reading)
    }

    /// What was said of the run from outside.
    #[must_use]
    pub fn verdicts(&self) -> Verdicts {
        Verdicts::read(&self.dir)
    }

    /// Keeps what a scheduler said of the end of the run, or of elements of its `array`, before it forgets.
    ///
    /// # Errors
    /// `Write`.
    pub fn write_verdicts(
        &self,
        array: Option<&ArraySpec>,
        said: &[QueueEntry],
    ) -> Result<(), RunDirError> {
        verdicts::write_verdicts(&self.dir, array, said)
    }

    /// Notes that the end of the run, or of some of its elements, was asked for.
    ///
    /// # Errors
    /// `Write`.
    pub fn write_cancel(
        &self,
        asked_at_ms: u64,
        elements: Option<&ArraySpec>,
    ) -> Result<(), RunDirError> {
        verdicts::write_cancel(&self.dir, asked_at_ms, elements)
    }

    /// As [`RunDir::newest_outcome`] without the nodes' records: how the run stands, for those who ask about a thousand.
    ///
    /// # Errors
    /// `List`.
    pub fn newest_marks(&self, element: u32) -> Result<Reading, RunDirError> {
        Ok(self
            .newest_attempt(element)?
            .map_or_else(Reading::default, |attempt| self.marks(attempt)))
    }

    /// The marks of an attempt.
    #[must_use]
    pub fn marks(&self, attempt: Attempt) -> Reading {
        match self.dir.open_dir(&attempt.dir_name()) {
            Ok(dir) => Reading::marks(&dir, attempt),
            Err(error) => Reading::unreadable(attempt, &error),
        }
    }

    /// The newest attempt of each element that left a directory.
    ///
    /// # Errors
    /// `List`.
    pub fn newest_attempts(&self) -> Result<BTreeMap<u32, u32>, RunDirError> {
        // They come in rising order.
        Ok(self
            .attempts()?
            .into_iter()
            .map(|attempt| (attempt.element, attempt.attempt))
            .collect())
    }

    fn newest_attempt(&self, element: u32) -> Result<Option<Attempt>, RunDirError> {
        Ok(self
            .attempts()?
            .into_iter()
            .rfind(|attempt| attempt.element == element))
    }

    /// Opens the directory of a measurement of this run.
    ///
    /// # Errors
    /// [`RunDirError::NodeName`], `Open`.
    pub fn node_dir(&self, key: &MeasureKey) -> Result<NodeDir, RunDirError> {
        let attempt = Attempt {
            element: key.element,
            attempt: key.attempt,
        };
        NodeDir::open(&self.dir.open_dir(&attempt.dir_name())?, key)
    }

    /// Creates the directory of the next `dlrun exec` of an attempt on a node. Its step is in the key: the first number
    /// that nobody else has.
    ///
    /// # Errors
    /// [`RunDirError::NodeName`], `Create`, `Open`.
    pub fn open_node_step(&self, attempt: Attempt, node: &str) -> Result<NodeDir, RunDirError> {
        NodeDir::win(
            &self.dir.ensure_dir(&attempt.dir_name())?,
            &self.run_id,
            attempt,
            node,
        )
    }
}
