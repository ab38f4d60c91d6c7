//! A matrix or a sweep that a small job conducts, so that nobody has to stay logged in.

use std::ffi::OsString;

use super::conduct::Source;
use super::dir::{Kept, StudyDir};
use crate::app::error::{Error, failure};
use crate::app::job::load::{Against, Job, JobRequest};
use crate::app::job::submit::{new_run_id, submit};
use crate::app::session::Session;
use crate::job::SchedulerKind;
use crate::learn::bench::{ConductorJob, PackedResources};
use crate::record::RunRecord;
use crate::record::rundir::RunDir;

/// Its job file, beside the journal.
const FILE: &str = "conductor.toml";

/// Refuses a scheduler that has no other machine for the job, before anything is begun.
pub(crate) fn may_detach(kind: SchedulerKind) -> Result<(), Error> {
    if !kind.is_local() {
        return Ok(());
    }
    let error = failure!(Usage, "`--detach` needs a scheduler that has several nodes");
    let hint = "on this machine alone let the shell do it: nohup dlrun ... &, without --detach";
    Err(error.hinted(hint))
}

/// Submits the job that conducts what `dir` keeps: this command without `--detach` and `--restart`. `walltime`: its time limit, after which
/// it continues by itself. `packed`: what the trials need that run within it.
pub(crate) fn detach<J: Kept>(
    session: &Session,
    dir: StudyDir<J>,
    source: &Source,
    (walltime, packed): (&str, Option<&PackedResources>),
) -> Result<(RunRecord, RunDir), Error> {
    // That of packed trials is the job itself.
    let scheduler = Some(dir.header.scheduler).filter(|_| packed.is_none());
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
    let words: Vec<String> = words.into_iter().map(text).collect::<Result<_, Error>>()?;
    let name: String = dir.header.name.chars().take(80).collect();
    let name = format!("{name}-conductor");
    let here = text(std::env::current_dir()?.into_os_string())?;
    let journal = dir.journal_path();
    let conductor = ConductorJob {
        name: &name,
        words,
        here: &here,
        journal: &journal,
        walltime,
        scheduler,
        text: &source.text,
        packed,
    };
    let file = dir.keep(FILE, &conductor.file())?;
    // The job is to have the right to write the journal.
    drop(dir);
    let request = JobRequest {
        file,
        no_check: source.no_check,
        ..JobRequest::default()
    };
    let job = Job::load(session, &request, Against::Site)
        .map_err(|error| error.hinted("--detach=8h gives it another time limit"))?;
    submit(session, &job, new_run_id()?, false)
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
