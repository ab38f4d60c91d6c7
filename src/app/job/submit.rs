//! Hands a job over to its scheduler: environment, run directory, script, index.

use std::fs;
use std::path::{Path, PathBuf};

use super::commit::revision;
use super::followed::followed;
use super::load::Job;
use super::refusal::explained;
use crate::app::error::{Error, Kind, failure};
use crate::app::progress::Display;
use crate::app::session::{Session, user_name};
use crate::foundation::clock::now_ms;
use crate::foundation::diagnostic::chain;
use crate::foundation::private::kernel_uid;
use crate::image::python;
use crate::job::{JobState, RunId};
use crate::plan::Plan;
use crate::record::rundir::{RunDir, StateDir};
use crate::record::store::{Store, StoreError};
use crate::record::{Identity, RunRecord, Status};
use crate::scheduler::script::{self, quoted};
use crate::scheduler::{Submission, adapter_for};

/// An id that no run has, of the own user.
pub(crate) fn new_run_id() -> Result<RunId, Error> {
    let mut bits = [0; 10];
    getrandom::fill(&mut bits).map_err(|error| Error::new(Kind::Internal, error))?;
    Ok(RunId::of_owner(bits, kernel_uid()))
}

/// Submits a job under an id that the caller has made, and takes it into the index. `advised`: whether to look for advice on the run
/// before that it follows, which reads that run's samples.
pub(crate) fn submit(
    session: &Session,
    job: &Job,
    run_id: RunId,
    advised: bool,
) -> Result<(RunRecord, RunDir), Error> {
    let script = script::render_for_run(&job.plan, &run_id);
    let state = session.state()?;
    let (record, run) = hand_over(session, &state, job, &script, run_id, advised)?;
    add_to_index(session, &state, &record);
    Ok((record, run))
}

/// The choices that a user must not miss, before anything is queued.
pub(crate) fn show_choices(session: &Session, plan: &Plan) {
    let shown = ["scheduler", "environment", "compiler", "forecast"];
    for decision in plan
        .decisions
        .iter()
        .filter(|decision| shown.contains(&&*decision.what))
    {
        session.note(&format!(
            "{}: {} ({})",
            decision.what, decision.value, decision.why
        ));
    }
    for warning in &plan.warnings {
        session.warning(warning);
    }
}

/// Makes the job's Python environment where it is missing.
pub(crate) fn prepare(session: &Session, job: &Job) -> Result<(), Error> {
    let Some(python) = job.python.as_ref().filter(|python| !python.ready) else {
        return Ok(());
    };
    let mut display = Display::new(session.output);
    python::prepare(python, &mut |progress| display.environment(&progress))?;
    Ok(())
}

/// Writes the run down, hands it over, writes the answer down. In this order a client that is killed anywhere loses
/// nothing: a run without a job id is found in the queue, and by the marks of its job.
fn hand_over(
    session: &Session,
    state: &StateDir,
    job: &Job,
    script: &str,
    run_id: RunId,
    advised: bool,
) -> Result<(RunRecord, RunDir), Error> {
    let plan = &job.plan;
    let scheduler = session.scheduler(plan.scheduler)?;
    make_output_dir(plan)?;
    let mut record = plan.new_run(run_id, now_ms(), user_name(), session.host.clone());
    if let Some(identity) = &mut record.identity {
        identity.git = revision(code_dir(identity, &record.workdir));
    }
    let followed = advised.then(|| followed(session, &record, plan)).flatten();
    if let Some(identity) = &mut record.identity {
        identity.followed = followed;
    }
    let run = state.create_run(&record, script, &plan.to_json())?;
    let script = run.path().join("job.sh");
    let submission = Submission {
        run_id: &record.run_id,
        plan,
        script: &script,
        run_dir: run.path(),
    };
    let submitted = scheduler.submit(&submission);
    let submitted = match submitted {
        Ok(submitted) => submitted,
        Err(error) => {
            if !error.may_be_queued() {
                // Nothing is queued, so nothing is left behind.
                let _ = state.remove_run(&record.run_id);
            }
            return Err(explained(scheduler.as_ref(), plan, error));
        }
    };
    record.job_id = Some(submitted.job_id);
    record.output = Some(submitted.output.to_string_lossy().into_owned());
    if let Err(error) = run.write_run(&record) {
        let id = record.job_id.as_ref().map_or("", |job| &job.0);
        let why = chain(&error).join(": ");
        session.warning(&format!(
            "queued as {id}, but that could not be written down: {why}"
        ));
    }
    Ok((record, run))
}

/// Where the run's code lies: around its script, else in its working directory.
fn code_dir<'a>(identity: &'a Identity, workdir: &'a str) -> &'a Path {
    let script = identity
        .script
        .as_deref()
        .map(Path::new)
        .filter(|script| script.is_absolute());
    script.and_then(Path::parent).unwrap_or(Path::new(workdir))
}

/// Makes the directory of `run.output`: a job whose output has none fails at its start, and Slurm says nothing.
fn make_output_dir(plan: &Plan) -> Result<(), Error> {
    let Some(dir) = output_dir(plan) else {
        return Ok(());
    };
    fs::create_dir_all(&dir).map_err(|error| {
        failure!(
            CannotWrite,
            "cannot create `{}`, where the output goes: {error}",
            dir.display()
        )
        .hinted("name another place in `run.output`")
    })
}

/// The directory of `run.output`, where the job file has one and it does not exist.
pub(crate) fn output_dir(plan: &Plan) -> Option<PathBuf> {
    plan.output.as_ref()?;
    plan.output_of("")
        .parent()
        .filter(|dir| !dir.is_dir())
        .map(Path::to_owned)
}

/// Takes the run into the index. The files are the truth, so that it could not be done is worth a warning only.
fn add_to_index(session: &Session, state: &StateDir, record: &RunRecord) {
    let written = state
        .index_path()
        .map_err(|error| error.to_string())
        .and_then(|path| {
            let why = |error: &StoreError| chain(error).join(": ");
            let mut store = Store::open(&path).map_err(|error| why(&error))?;
            let write = store.write(|writer| {
                writer.upsert_run(record)?;
                writer.set_status(&record.run_id, &Status::of(JobState::Pending))?;
                Ok::<(), StoreError>(())
            });
            write.map_err(|error| why(&error))
        });
    if let Err(why) = written {
        session.warning(&format!("the index was not brought up to date: {why}"));
    }
}

/// The command line that hands a job over, and the same as a shell takes it.
pub(crate) fn submit_command(session: &Session, job: &Job) -> Result<(Vec<String>, String), Error> {
    // The id and the script's place are made at submission; here they stand for themselves.
    let run_id = RunId::from_random([0; 10]);
    let script = Path::new(&job.plan.state_dir).join("runs/RUN/job.sh");
    let submission = Submission {
        run_id: &run_id,
        plan: &job.plan,
        script: &script,
        run_dir: Path::new(&job.plan.state_dir),
    };
    let argv = session
        .scheduler(job.plan.scheduler)?
        .command_line(&submission);
    let argv: Vec<String> = argv
        .iter()
        .map(|word| word.replace(run_id.as_str(), "RUN"))
        .collect();
    let mut shown: Vec<String> = argv.iter().map(|word| shell_word(word)).collect();
    if adapter_for(job.plan.scheduler).reads_script_from_input() {
        shown.push(format!("< {}", shell_word(&script.to_string_lossy())));
    }
    Ok((argv, shown.join(" ")))
}

fn shell_word(word: &str) -> String {
    let plain = word
        .chars()
        .all(|c| c.is_alphanumeric() || "-_./=:,+@%".contains(c));
    if plain && !word.is_empty() {
        word.to_owned()
    } else {
        quoted(word)
    }
}
