//! A matrix or a sweep that a small job conducts, so that nobody has to stay logged in.

use std::ffi::OsString;
use std::fs;
use std::path::Path;

use super::conduct::Source;
use super::dir::{Kept, StudyDir};
use crate::app::error::{Error, failure};
use crate::app::job::load::{Against, Job, JobRequest};
use crate::app::job::source;
use crate::app::job::submit::{new_run_id, submit};
use crate::app::session::Session;
use crate::app::track::{Tracked, Tracker};
use crate::foundation::private::if_there;
use crate::job::{JobState, RunId, SchedulerKind};
use crate::learn::bench::{ConductorJob, PackedResources};
use crate::record::RunRecord;
use crate::record::rundir::RunDir;

/// Its job file, beside the journal.
const FILE: &str = "conductor.toml";
/// The run that it became.
const RUN: &str = "conductor.run";

/// Refuses a scheduler that has no other machine for the job, before anything is begun.
pub(crate) fn may_detach(kind: SchedulerKind) -> Result<(), Error> {
    if !kind.is_local() {
        return Ok(());
    }
    let error = failure!(Usage, "`--detach` needs a scheduler that has several nodes");
    let hint = "on this machine alone let the shell do it: nohup dlrun ... &, without --detach";
    Err(error.hinted(hint))
}

/// The job that conducts a matrix or a sweep.
pub(crate) struct Detached<'a> {
    /// Its time limit, after which it continues by itself.
    pub(crate) walltime: &'a str,
    /// Who takes it.
    pub(crate) scheduler: SchedulerKind,
    /// What the trials need that run within it.
    pub(crate) packed: Option<PackedResources>,
}

impl Detached<'_> {
    /// Checks the job before anything is begun.
    pub(crate) fn check<J: Kept>(
        &self,
        session: &Session,
        name: &str,
        source: &Source,
    ) -> Result<(), Error> {
        let state = session.state()?;
        // That of a sweep; a matrix has a hash in its name, and is looked at when it is begun.
        let kept = state.path().join(J::ALL).join(name).join(RUN);
        refuse_second(session, fs::read_to_string(kept).ok())?;
        let file = state.path().join(FILE);
        let text = self.text(session, name, &file, source)?;
        self.load(session, &file, text, source).map(drop)
    }

    /// Submits it: this command without `--detach` and `--restart`, for what `dir` keeps.
    pub(crate) fn submit<J: Kept>(
        &self,
        session: &Session,
        dir: StudyDir<J>,
        source: &Source,
    ) -> Result<(RunRecord, RunDir), Error> {
        refuse_second(session, dir.kept(RUN)?)?;
        let (name, journal) = (&dir.header.name, dir.journal_path());
        let text = self.text(session, name, &journal, source)?;
        let file = dir.keep(FILE, &text)?;
        let job = self.load(session, &file, text, source)?;
        let run_id = new_run_id()?;
        dir.keep(RUN, run_id.as_str())?;
        // The job is to have the right to write the journal.
        drop(dir);
        submit(session, &job, run_id, false)
    }

    fn load(
        &self,
        session: &Session,
        file: &Path,
        text: String,
        source: &Source,
    ) -> Result<Job, Error> {
        let read = source::Source::of_text(file, text);
        let request = JobRequest {
            file: file.to_owned(),
            no_check: source.no_check,
            ..JobRequest::default()
        };
        let of_time = |error: Error| {
            match self.packed {
            Some(_) => error.hinted("it is the job in which the trials are packed; --detach=8h gives it another time limit"),
            None => error.hinted("--detach=8h gives it another time limit"),
        }
        };
        Job::of_source(session, &read, &request, Against::Site).map_err(of_time)
    }

    fn text(
        &self,
        session: &Session,
        name: &str,
        journal: &Path,
        source: &Source,
    ) -> Result<String, Error> {
        let mut words = words(std::env::args_os().skip(1));
        let names_state = |word: &OsString| word.to_string_lossy().starts_with("--state-dir");
        if !words.iter().any(names_state) {
            let state = session.state()?.path().into();
            words.splice(0..0, ["--state-dir".into(), state]);
        }
        words.insert(0, std::env::current_exe()?.into_os_string());
        let text = |word: OsString| {
            let refused =
                |word: OsString| failure!(Usage, "`{}` is not UTF-8 text", word.to_string_lossy());
            word.into_string().map_err(refused)
        };
        let name: String = name.chars().take(80).collect();
        let conductor = ConductorJob {
            name: &format!("{name}-conductor"),
            words: words.into_iter().map(text).collect::<Result<_, Error>>()?,
            here: &text(std::env::current_dir()?.into_os_string())?,
            journal,
            continues: fs::metadata(journal).is_ok_and(|file| file.len() > 0),
            walltime: self.walltime,
            scheduler: self.scheduler,
            text: &source.text,
            packed: self.packed.as_ref(),
        };
        Ok(conductor.file())
    }
}

/// One at a time: another would find the journal locked, and fail. `kept`: the id of the one before.
fn refuse_second(session: &Session, kept: Option<String>) -> Result<(), Error> {
    let run_id = kept.and_then(|text| RunId::try_from(text.trim().to_owned()).ok());
    let Some(run_id) = &run_id else {
        return Ok(());
    };
    let mut tracker = Tracker::open(session)?;
    // One that was never queued left nothing.
    if if_there(tracker.state.run(run_id))?.is_none() {
        return Ok(());
    }
    let seen = tracker.refresh(std::slice::from_ref(run_id), false)?;
    let is_open = |its: &&Tracked| {
        let state = its.status.state;
        !state.is_final() && state != JobState::Unknown
    };
    let Some(open) = seen.iter().find(is_open) else {
        return Ok(());
    };
    let (short, state) = (&run_id.as_str()[..6], open.status.state.as_str());
    let error = failure!(
        TryAgain,
        "run {short}, which is {state}, conducts it already"
    );
    Err(error.hinted(format!(
        "`dlrun wait {short}` waits for it, `dlrun cancel {short}` ends it"
    )))
}

/// The words of the command that the job runs.
fn words(given: impl Iterator<Item = OsString>) -> Vec<OsString> {
    let is_own = |word: &OsString| {
        let word = word.to_string_lossy();
        word == "--detach" || word == "--restart" || word.starts_with("--detach=")
    };
    given.filter(|word| !is_own(word)).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_job_runs_the_same_command() {
        let given = [
            "sweep",
            "run",
            "--restart",
            "a.toml",
            "--detach=8h",
            "--max-jobs",
            "4",
        ];
        let words = words(given.into_iter().map(OsString::from));
        assert_eq!(words, ["sweep", "run", "a.toml", "--max-jobs", "4"]);
    }
}
