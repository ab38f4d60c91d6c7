//! The directory of one run.

use std::collections::BTreeMap;
use std::path::Path;

use super::attempt::Attempt;
use super::node::{NodeDir, misplaced};
use super::reading::{ATTEMPT_FILE, Reading};
use crate::foundation::private::{FileError, PrivateDir};
use crate::job::RunId;
use crate::record::{AttemptRecord, MeasureKey, RunRecord};

const RUN_FILE: &str = "run.json";
/// The largest `run.json`, `plan.json` or `job.sh` that is read, in bytes.
pub const MAX_RUN_FILE: usize = 1 << 20;

/// The open directory of one run.
#[derive(Debug)]
pub struct RunDir {
    run_id: RunId,
    pub(super) dir: PrivateDir,
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
    pub fn write_run(&self, record: &RunRecord) -> Result<(), FileError> {
        self.dir.write_json(RUN_FILE, record)
    }

    /// Puts the script of a job that continues the run beside the first one.
    ///
    /// # Errors
    /// `Write`.
    pub fn write_script(&self, name: &str, text: &str) -> Result<(), FileError> {
        self.dir.replace(name, text.as_bytes())
    }

    /// Reads `run.json`.
    ///
    /// # Errors
    /// With [`FileError::is_missing`] where it was never written; of the faults `Damaged`, `Newer`,
    /// `Misplaced`, `TooLarge`.
    pub fn read_run(&self) -> Result<RunRecord, FileError> {
        let format = RunRecord::FORMAT;
        let record: RunRecord = self.dir.read_versioned(RUN_FILE, MAX_RUN_FILE, format)?;
        if record.run_id == self.run_id {
            Ok(record)
        } else {
            let path = self.dir.path().join(RUN_FILE);
            Err(misplaced(&path, &format!("run `{}`", record.run_id)))
        }
    }

    /// Reads the plan, JSON text.
    ///
    /// # Errors
    /// As [`RunDir::read_run`].
    pub fn read_plan(&self) -> Result<String, FileError> {
        Ok(String::from_utf8_lossy(&self.dir.read("plan.json", MAX_RUN_FILE)?).into_owned())
    }

    /// The attempts that left a directory, by element and then attempt.
    ///
    /// # Errors
    /// `List`.
    pub fn attempts(&self) -> Result<Vec<Attempt>, FileError> {
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
            Ok(dir) => Reading::read(&dir, &self.run_id, attempt),
            Err(error) => Reading::unreadable(attempt, &error),
        }
    }

    /// Reads what the newest attempt of an array element left; nothing where there was none.
    ///
    /// # Errors
    /// `List`.
    pub fn newest_outcome(&self, element: u32) -> Result<Reading, FileError> {
        let newest = self.newest_attempt(element)?;
        let mut reading = newest.map_or_else(Reading::default, |attempt| self.outcome(attempt));
        self.verdicts().add_to(&mut reading.outcome);
        let begun = reading.outcome.attempt.as_ref();
        reading.outcome.nodes_asked = begun.and_then(|begun| self.scale_since(Some(begun)));
        Ok(reading)
    }

    /// As [`RunDir::newest_outcome`] without the nodes' records: the state of the run, for callers that read a thousand.
    ///
    /// # Errors
    /// `List`.
    pub fn newest_marks(&self, element: u32) -> Result<Reading, FileError> {
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

    /// Notes what the job knows of one of its starts.
    ///
    /// # Errors
    /// `Write`, and those of [`PrivateDir::ensure_dir`].
    pub fn write_attempt(&self, attempt: Attempt, record: &AttemptRecord) -> Result<(), FileError> {
        let dir = self.dir.ensure_dir(&attempt.dir_name())?;
        dir.write_json(ATTEMPT_FILE, record)
    }

    /// The newest attempt of each element that left a directory.
    ///
    /// # Errors
    /// `List`.
    pub fn newest_attempts(&self) -> Result<BTreeMap<u32, u32>, FileError> {
        // They come in rising order.
        Ok(self
            .attempts()?
            .into_iter()
            .map(|attempt| (attempt.element, attempt.attempt))
            .collect())
    }

    fn newest_attempt(&self, element: u32) -> Result<Option<Attempt>, FileError> {
        Ok(self
            .attempts()?
            .into_iter()
            .rfind(|attempt| attempt.element == element))
    }

    /// Opens the directory of a measurement of this run.
    ///
    /// # Errors
    /// Of the fault `Name`, and those of [`PrivateDir::open_dir`].
    pub fn node_dir(&self, key: &MeasureKey) -> Result<NodeDir, FileError> {
        NodeDir::open(&self.dir.open_dir(&Attempt::from_key(key).dir_name())?, key)
    }

    /// Creates the directory of the next `dlrun exec` of an attempt on a node. Its step is in the key: the first number
    /// that nobody else has.
    ///
    /// # Errors
    /// Of the fault `Name`, and those of [`PrivateDir::ensure_dir`].
    pub fn open_node_step(&self, attempt: Attempt, node: &str) -> Result<NodeDir, FileError> {
        NodeDir::win(
            &self.dir.ensure_dir(&attempt.dir_name())?,
            &self.run_id,
            attempt,
            node,
        )
    }
}
