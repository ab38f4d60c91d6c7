//! `dlrun list`: runs, newest first.

use serde::Serialize;

use crate::app::error::Error;
use crate::app::runs::{Filter, Listed, list_runs, list_store};
use crate::app::session::Session;
use crate::app::times::{ago, seconds_between};
use crate::cli::args::List;
use crate::cli::run_progress;
use crate::cli::summary::{Runs, reason_text};
use crate::cli::table::{fitted, or_dash, table};
use crate::foundation::clock::now_ms;
use crate::foundation::units::display_seconds;
use crate::job::{JobId, JobState, RunId, SchedulerKind};
use crate::record::{
    AllStarts, Cause, CauseKind, ElementCounts, ExitStatus, NOT_AGAIN, RunProgress, Status,
};

/// A run of the list.
#[derive(Serialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
pub(crate) struct ListedRun<'a> {
    run_id: &'a RunId,
    /// The shortest beginning of its id that means no other.
    prefix: &'a str,
    name: &'a str,
    state: JobState,
    raw_state: Option<&'a str>,
    reason: Option<&'a str>,
    exit: Option<ExitStatus>,
    scheduler: SchedulerKind,
    job_id: Option<&'a JobId>,
    user: &'a str,
    submitted_at_ms: u64,
    started_at_ms: Option<u64>,
    ended_at_ms: Option<u64>,
    output: Option<&'a str>,
    stuck: bool,
    elements: Option<&'a ElementCounts>,
    cause: Option<&'a Cause>,
    /// All starts of a run that continued.
    #[serde(skip_serializing_if = "Option::is_none")]
    all_starts: Option<&'a AllStarts>,
    /// How far it is while it runs.
    #[serde(skip_serializing_if = "Option::is_none")]
    progress: Option<&'a RunProgress>,
    /// Time without work of its GPUs, added up over GPUs, in seconds; with `--idle`.
    #[serde(skip_serializing_if = "Option::is_none")]
    held_gpu_seconds: Option<f64>,
    /// Time in which nothing of a node worked, added up over nodes, in seconds; with `--idle`.
    #[serde(skip_serializing_if = "Option::is_none")]
    held_node_seconds: Option<f64>,
}

/// Runs the verb.
pub(crate) fn run(session: &Session, args: &List) -> Result<u8, Error> {
    let state = args.state.as_deref().and_then(JobState::from_word);
    let filter = Filter {
        name: args.name.clone(),
        states: state.into_iter().collect(),
        held: args.idle,
    };
    // One more than is shown, to know whether there are more.
    let limit = args.limit.saturating_add(1);
    let rows = match &args.store {
        Some(path) => list_store(path, &filter, limit)?,
        None => list_runs(session, &filter, limit, args.reindex, args.history)?,
    };
    // Nothing was submitted yet: that is an answer, not a failure.
    let Some(mut rows) = rows else {
        let place = session.settings.state_dir().display();
        let text = format!("no runs in {place}; `dlrun submit JOB_FILE` makes one\n");
        return session.answer(&Runs::<ListedRun<'_>> { runs: Vec::new() }, &text);
    };
    let has_more = rows.len() > args.limit;
    rows.truncate(args.limit);
    let runs = rows.iter().map(ListedRun::new).collect();
    let text = match args.idle {
        true => idle_text(&rows),
        false => to_text(&rows),
    };
    let code = session.answer(&Runs { runs }, &text)?;
    if has_more && !session.output.json {
        session.note("there are more runs; `--limit N` shows more of them");
    }
    Ok(code)
}

impl<'a> ListedRun<'a> {
    fn new(listed: &'a Listed) -> Self {
        let (record, status) = (&listed.row.record, &listed.row.status);
        Self {
            run_id: &record.run_id,
            prefix: &listed.prefix,
            name: &record.name,
            state: status.state,
            raw_state: status.raw_state.as_deref(),
            reason: status.reason.as_deref(),
            exit: status.exit,
            scheduler: record.scheduler,
            job_id: record.job_id.as_ref(),
            user: &record.user,
            submitted_at_ms: record.submitted_at_ms,
            started_at_ms: status.started_at_ms,
            ended_at_ms: status.ended_at_ms,
            output: record.output.as_deref(),
            stuck: status.stuck,
            elements: status.elements.as_ref(),
            cause: status.cause.as_ref(),
            all_starts: listed.all_starts.as_ref(),
            progress: listed.progress.as_ref(),
            held_gpu_seconds: listed.held.map(|held| held.0),
            held_node_seconds: listed.held.map(|held| held.1),
        }
    }
}

fn to_text(rows: &[Listed]) -> String {
    if rows.is_empty() {
        return "no run matches\n".to_owned();
    }
    let mut table = table();
    let has_arrays = rows
        .iter()
        .any(|listed| listed.row.status.elements.is_some());
    let has_progress = rows.iter().any(|listed| listed.progress.is_some());
    let elements = has_arrays.then_some("ELEMENTS");
    let header = ["RUN", "NAME", "STATE"].into_iter().chain(elements);
    let header = header.chain(["JOB", "SUBMITTED", "RAN"]);
    let progress = has_progress.then_some(["EPOCHS", "LEFT"]);
    table.set_header(
        header
            .chain(progress.into_iter().flatten())
            .chain(["REASON"]),
    );
    for listed in rows {
        let (record, status) = (&listed.row.record, &listed.row.status);
        let progress = listed.progress.as_ref();
        let job = record.job_id.as_ref().map_or("-", |job| &job.0);
        let running = (status.state == JobState::Running).then(now_ms);
        let ended = status.ended_at_ms.or(running);
        let ran = status.started_at_ms.zip(ended);
        let ran = ran.map(|(from, to)| seconds_between(from, to));
        let ran = listed.all_starts.map(|all| all.ran_seconds).or(ran);
        let counts = status.elements.as_ref();
        let over = counts.map(|counts| format!("{}/{}", counts.over(), counts.total));
        let first = [
            listed.prefix.clone(),
            record.name.clone(),
            status.state.to_string(),
        ];
        let rest = [
            format!("{} {job}", record.scheduler.as_str()),
            ago(record.submitted_at_ms),
            or_dash(ran.map(display_seconds)),
        ];
        let elements = has_arrays.then(|| or_dash(over));
        let row = first.into_iter().chain(elements).chain(rest);
        let shown = has_progress.then(|| {
            let (epochs, left) = (run_progress::epochs, run_progress::left);
            [
                or_dash(progress.and_then(epochs)),
                or_dash(progress.and_then(left)),
            ]
        });
        let trouble = progress.and_then(run_progress::trouble);
        let trouble = trouble.or_else(|| progress.and_then(|progress| progress.warning.clone()));
        let reason = trouble.or_else(|| progress.and_then(run_progress::next_size));
        let reason = reason.unwrap_or_else(|| why(status));
        table.add_row(row.chain(shown.into_iter().flatten()).chain([reason]));
    }
    fitted(table)
}

/// Who held what without work, the longest first.
fn idle_text(rows: &[Listed]) -> String {
    if rows.is_empty() {
        return "no run held anything without work\n".to_owned();
    }
    let mut table = table();
    table.set_header(["RUN", "USER", "NAME", "STATE", "GPU HOURS", "NODE HOURS"]);
    let hours = |seconds: f64| format!("{:.2}", seconds / 3600.0);
    let mut all = (0.0, 0.0);
    for listed in rows {
        let (record, (gpus, nodes)) = (&listed.row.record, listed.held.unwrap_or_default());
        all = (all.0 + gpus, all.1 + nodes);
        table.add_row([
            listed.prefix.clone(),
            record.user.clone(),
            record.name.clone(),
            listed.row.status.state.to_string(),
            hours(gpus),
            hours(nodes),
        ]);
    }
    let (gpus, nodes) = (hours(all.0), hours(all.1));
    let runs = match rows.len() {
        1 => "this run".to_owned(),
        many => format!("these {many} runs"),
    };
    format!(
        "{}{runs}: {gpus} GPU hours and {nodes} node hours without work\n",
        fitted(table)
    )
}

/// How the program ended or why it did not start, else the scheduler's reason (Slurm's `NonZeroExitCode` says less): other
/// causes follow from the state.
fn why(status: &Status) -> String {
    use CauseKind::{Container, Dependency, Idle, Program, Setup};
    let says_more = |cause: &&Cause| {
        // Why a run that may continue does not is in no state.
        matches!(cause.kind, Program | Container | Setup | Dependency | Idle)
            || cause.text.contains(NOT_AGAIN)
    };
    let cause = status.cause.as_ref().filter(says_more);
    let cause = cause.map(|cause| cause.text.clone());
    cause.or_else(|| reason_text(status)).unwrap_or_default()
}
