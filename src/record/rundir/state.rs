//! The state directory as a whole: which runs there are.

use std::fs;
use std::path::{Path, PathBuf};

use super::index_place::index_path;
use super::run::RunDir;
use crate::foundation::private::{FileError, PrivateDir};
use crate::job::RunId;
use crate::record::RunRecord;

const RUNS: &str = "runs";

/// An open state directory: the caller's own, closed to others.
#[derive(Debug)]
pub struct StateDir {
    pub(super) state: PrivateDir,
    runs: PrivateDir,
}

impl StateDir {
    /// Opens a state directory and creates nothing.
    ///
    /// # Errors
    /// [`FileError::is_missing`] where there is none yet; `ForeignOwner` and `Exposed`
    /// where others could have written it; `Open` for the rest.
    pub fn open(path: &Path) -> Result<Self, FileError> {
        let state = PrivateDir::open(path)?;
        let runs = state.open_dir(RUNS)?;
        Ok(Self { state, runs })
    }

    /// Opens a state directory, creating what is missing of it with mode 0700.
    ///
    /// # Errors
    /// As [`StateDir::open`], and `Create`.
    pub fn create(path: &Path) -> Result<Self, FileError> {
        let state = PrivateDir::create(path)?;
        let runs = state.ensure_dir(RUNS)?;
        Ok(Self { state, runs })
    }

    /// Where it is.
    #[must_use]
    pub fn path(&self) -> &Path {
        self.state.path()
    }

    /// Where the index belongs: `dlrun.db` beside the runs where a database can lie, else a file of this state
    /// directory's own in `/var/tmp/dlrun-UID/`, which is created.
    ///
    /// # Errors
    /// When the file system cannot be asked, or `/var/tmp/dlrun-UID` is not safely the caller's own.
    pub fn index_path(&self) -> Result<PathBuf, FileError> {
        index_path(&self.state, Path::new("/var/tmp"))
    }

    /// The runs that have a directory, in no order. Other names are passed over.
    ///
    /// # Errors
    /// `List`.
    pub fn runs(&self) -> Result<impl Iterator<Item = RunId> + use<>, FileError> {
        Ok(self
            .runs
            .names()?
            .into_iter()
            .filter_map(|name| name.parse().ok()))
    }

    /// Opens the directory of a run.
    ///
    /// # Errors
    /// `Open`, with [`FileError::is_missing`] where there is no such run.
    pub fn run(&self, run_id: &RunId) -> Result<RunDir, FileError> {
        Ok(RunDir::new(
            run_id.clone(),
            self.runs.open_dir(run_id.as_str())?,
        ))
    }

    /// Opens the directory of a run, creating an empty one where it is missing: a job's first sign of life may come from
    /// its batch shell or from any of its nodes.
    ///
    /// # Errors
    /// `Open` and `Create`.
    pub fn ensure_run(&self, run_id: &RunId) -> Result<RunDir, FileError> {
        Ok(RunDir::new(
            run_id.clone(),
            self.runs.ensure_dir(run_id.as_str())?,
        ))
    }

    /// Creates the directory of a new run with its script, its plan and, last, its `run.json`.
    ///
    /// Only the record is made to last through a power failure at once: the scheduler keeps the script, which carries
    /// the plan, and waiting for the disk twice more would triple what this takes.
    ///
    /// # Errors
    /// `Create` when the run exists, `Write`.
    pub fn create_run(
        &self,
        record: &RunRecord,
        script: &str,
        plan_json: &str,
    ) -> Result<RunDir, FileError> {
        let Some(dir) = self.runs.win_dir(record.run_id.as_str())? else {
            let path = self.runs.path().join(record.run_id.as_str());
            let exists = std::io::ErrorKind::AlreadyExists;
            return Err(FileError::cannot("create", path, exists));
        };
        dir.write_new("job.sh", script.as_bytes())?;
        dir.write_new("plan.json", plan_json.as_bytes())?;
        let run = RunDir::new(record.run_id.clone(), dir);
        run.write_run(record)?;
        run.dir.sync()?;
        Ok(run)
    }

    /// Removes a run and all that was measured of it. One that was removed in part is still listed, so that it can be
    /// removed again.
    ///
    /// # Errors
    /// The files that are left.
    pub fn remove_run(&self, run_id: &RunId) -> Result<(), FileError> {
        let path = self.runs.path().join(run_id.as_str());
        fs::remove_dir_all(&path).map_err(|source| FileError::cannot("remove", path, source))
    }
}
