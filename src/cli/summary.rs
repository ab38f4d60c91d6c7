//! What is known of a run, for people and for programs.

use std::borrow::Cow;
use std::path::Path;

use serde::Serialize;

use crate::app::insight;
use crate::app::runs::Shown;
use crate::app::times::{ago, local_time, seconds_between};
use crate::app::track::Tracked;
use crate::cli::elements::{self, exit_text};
use crate::cli::insight as text;
use crate::cli::table::Rows;
use crate::cli::{activity, forecast, measured_rows, run_progress};
use crate::foundation::clock::now_ms;
use crate::foundation::units::{Bytes, counted, display_seconds};
use crate::job::JobState;
use crate::learn::model::CheckedForecast;
use crate::record::{
    AllStarts, Conditions, Element, Epoch, EpochSummary, FollowedScore, Identity, Missing,
    NodeRecord, NodeState, RankRecord, RunProgress, RunRecord, Status, Usage, summarise_epochs,
};
use crate::report::insight::Insight;

/// The usage of all nodes together.
fn usage(tracked: &Tracked) -> Usage {
    let mut nodes = nodes(tracked).iter();
    let mut usage = nodes.next().map(|node| node.usage).unwrap_or_default();
    nodes.for_each(|node| usage.add_node(&node.usage));
    usage
}

fn nodes(tracked: &Tracked) -> &[NodeRecord] {
    &tracked.reading.outcome.nodes
}

/// The node whose epochs stand for the run: the first by name that recognised any.
fn timed_node(tracked: &Tracked) -> Option<&NodeRecord> {
    let nodes = nodes(tracked);
    let timed = |node: &&NodeRecord| node.progress.epochs_completed > 0;
    nodes.iter().find(timed).or_else(|| nodes.first())
}

fn epochs(tracked: &Tracked) -> Option<EpochSummary> {
    let samples = tracked.record.workload.samples;
    summarise_epochs(&timed_node(tracked)?.progress, samples)
}

/// The epochs and the usage of a run, over all its nodes.
#[derive(Serialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
struct Summary {
    epochs: Option<EpochSummary>,
    usage: Usage,
}

/// A run for programs.
#[derive(Serialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
pub(crate) struct RunAnswer<'a> {
    run: &'a RunRecord,
    status: &'a Status,
    attempt: Option<u32>,
    summary: Summary,
    nodes: &'a [NodeRecord],
    unreadable: &'a [Missing],
    records: Option<Cow<'a, str>>,
    /// The forecast compared with what was measured.
    #[serde(skip_serializing_if = "Option::is_none")]
    foretold: Option<CheckedForecast>,
    #[serde(skip_serializing_if = "<[_]>::is_empty")]
    elements: &'a [Element],
    /// All starts of a run that continued.
    #[serde(skip_serializing_if = "Option::is_none")]
    all_starts: Option<AllStarts>,
    /// How far it is while it runs.
    #[serde(skip_serializing_if = "Option::is_none")]
    progress: Option<RunProgress>,
}

/// What is known of several runs, or what was done to them.
#[derive(Serialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
pub(crate) struct Runs<T> {
    pub(crate) runs: Vec<T>,
}

/// The run as JSON: what was submitted, its status, what follows from the measurements, the nodes' records, and the elements
/// of an array. Its files lie in `records`, or nowhere.
pub(crate) fn run_answer<'a>(tracked: &'a Tracked, records: Option<&'a Path>) -> RunAnswer<'a> {
    let Tracked {
        record,
        status,
        reading,
        ..
    } = tracked;
    RunAnswer {
        run: record,
        status,
        attempt: reading.attempt.map(|attempt| attempt.attempt),
        summary: Summary {
            epochs: epochs(tracked),
            usage: usage(tracked),
        },
        nodes: &reading.outcome.nodes,
        unreadable: &reading.notes,
        records: records.map(Path::to_string_lossy),
        foretold: forecast::compared(tracked),
        elements: &tracked.elements,
        all_starts: tracked.all_starts,
        progress: tracked.progress(),
    }
}

/// What came of the advice that the run follows.
pub(crate) fn followed_score(tracked: &Tracked, insight: &Insight) -> Option<FollowedScore> {
    let followed = tracked.record.followed()?;
    followed.score(insight.took(&tracked.status), tracked.status.state)
}

/// The run as a table; `records` says where its files are.
pub(crate) fn to_text(tracked: &Tracked, records: Option<&Path>) -> String {
    let insight = insight::insight(tracked, None, Vec::new());
    table_text(tracked, records, &insight) + &remarks(tracked)
}

/// The run as a table with further tables and advice below it.
pub(crate) fn with_tables(
    shown: &Shown,
    records: Option<&Path>,
    insight: &Insight,
    tables: &str,
) -> String {
    let tracked = &shown.tracked;
    let table = table_text(tracked, records, insight);
    let status = &tracked.status;
    let ran = status.started_at_ms.zip(status.ended_at_ms);
    let is_short = ran.is_some_and(|(started, ended)| seconds_between(started, ended) < 10.0);
    // Of what is not known the epochs alone: their user can do something about it.
    let timing = insight.unmeasured.iter();
    let has_earlier = tracked.all_starts.is_some_and(|all| all.epochs.is_some());
    let timing = timing.filter(|one| one.what == "timing" && !is_short && !has_earlier);
    let notes: String = timing
        .map(|one| format!("note: no epochs: {}\n", one.why))
        .collect();
    table + tables + &text::advice(insight) + &notes + &remarks(tracked)
}

fn table_text(tracked: &Tracked, records: Option<&Path>, insight: &Insight) -> String {
    let (record, status) = (&tracked.record, &tracked.status);
    let mut rows = Rows::default();
    rows.add("run", record.run_id.as_str());
    rows.add("name", record.name.as_str());
    rows.add("state", state_text(status));
    rows.add_known("that is", tracked.reason_meaning());
    let starts = status.expected_start_ms.map(local_time);
    rows.add_known(
        "starts",
        starts.map(|at| format!("{at} as the scheduler expects")),
    );
    rows.add_known("cause", status.cause.as_ref().map(|cause| &*cause.text));
    rows.add_list("said last", last_lines(tracked), "\n");
    elements::add_rows(tracked, &mut rows);
    let job = record.job_id.as_ref().map(|job| format!("job {job}"));
    let job = job.unwrap_or_else(|| "no job id".to_owned());
    rows.add("scheduler", format!("{}, {job}", record.scheduler.as_str()));
    add_what_ran(tracked, &mut rows);
    add_times(tracked, &mut rows);
    measured_rows::add_limits(nodes(tracked), &mut rows);
    let attempt = tracked.reading.attempt.map(|attempt| attempt.attempt);
    let attempt = attempt.filter(|attempt| *attempt > 0);
    let requeued = attempt.map(|attempt| format!("{} (it was requeued)", attempt + 1));
    let all_starts = tracked.all_starts.map(|all| all.to_string());
    rows.add_known("attempt", all_starts.or(requeued));
    if tracked.all_starts.is_some_and(|all| all.starts > 1) {
        rows.add(
            "figures",
            "below, of the last start alone, unless they say otherwise",
        );
    }
    let measured = nodes(tracked).iter().map(|node| node.updated_at_ms).max();
    if let Some(measured) = measured.filter(|_| !status.state.is_final()) {
        let text = format!("{}; the newest epochs are in `dlrun logs`", ago(measured));
        rows.add("measured", text);
    }
    measured_rows::add_container(record.image.as_ref(), nodes(tracked), &mut rows);
    measured_rows::add_unfit(nodes(tracked), &mut rows);
    measured_rows::add_trial(nodes(tracked), &mut rows);
    measured_rows::add_hangs(nodes(tracked), &mut rows);
    add_epochs(tracked, &mut rows);
    let progress = tracked.progress();
    rows.add_known(
        "time left",
        progress.as_ref().and_then(run_progress::left_line),
    );
    let trouble = progress.as_ref().and_then(run_progress::trouble);
    rows.add_known("warning", trouble);
    let next_size = progress.as_ref().and_then(run_progress::next_size);
    rows.add_known("scale", next_size);
    rows.add_known("forecast", forecast::line(tracked));
    let is_running = status.state == JobState::Running;
    activity::add_rows(nodes(tracked), is_running, &mut rows);
    text::add_rows(insight, &mut rows);
    let followed = record.followed();
    let score = followed_score(tracked, insight);
    rows.add_known(
        "followed",
        followed.map(|followed| followed.text(score.as_ref())),
    );
    add_usage(tracked, &mut rows);
    measured_rows::add_rows(&usage(tracked), nodes(tracked), &mut rows);
    add_nodes(tracked, &mut rows);
    measured_rows::add_ranks(nodes(tracked), &mut rows);
    rows.add_known("output", record.output.as_deref());
    let records = records.map(|records| records.display().to_string());
    let imported = || "none here: the run was imported".to_owned();
    rows.add("records", records.unwrap_or_else(imported));
    rows.into_text()
}

/// The end of the traceback of a run that failed, where its last line is not all of it: that is the cause.
fn last_lines(tracked: &Tracked) -> &[String] {
    if let Some((node, rank)) = first_to_fall(tracked) {
        // What other ranks said last they said because of it; where it is not the one that is followed, its cause is all that is kept.
        let is_followed = rank.output.is_some() && rank.output == node.output;
        return if is_followed && node.last_words.len() > 1 {
            &node.last_words
        } else {
            &[]
        };
    }
    let lines = nodes(tracked).iter().map(|node| &*node.last_words);
    let failed = tracked.status.state == JobState::Failed;
    let mut found = lines.filter(|lines| failed && lines.len() > 1);
    found.next().unwrap_or_default()
}

/// The rank of a distributed training that failed before all others, with its node.
fn first_to_fall(tracked: &Tracked) -> Option<(&NodeRecord, &RankRecord)> {
    let mut ranks = nodes(tracked).iter().flat_map(|node| {
        let ranks = node.ranks.iter();
        ranks.map(move |rank| (node, rank))
    });
    ranks.find(|(_, rank)| rank.fell_first && rank.rank < rank.world_size)
}

/// What was run, with what request, in which software.
fn add_what_ran(tracked: &Tracked, rows: &mut Rows) {
    let record = &tracked.record;
    let identity = record.identity.as_ref();
    let mut conditions = nodes(tracked).iter().map(|node| &node.conditions);
    let software = conditions.clone().find_map(Conditions::software_text);
    rows.add_known("command", identity.and_then(Identity::command_line));
    rows.add("directory", record.workdir.as_str());
    rows.add_known("job file", record.job_file.as_deref());
    rows.add_known("python", identity.and_then(Identity::python_environment));
    rows.add_known("commit", identity.and_then(Identity::commit_text));
    rows.add_known("software", software);
    rows.add_known("asked for", identity.map(|known| known.asked.text()));
    rows.add_known("ran in", conditions.find_map(Conditions::place_text));
}

fn add_times(tracked: &Tracked, rows: &mut Rows) {
    let (record, status) = (&tracked.record, &tracked.status);
    let submitted = local_time(record.submitted_at_ms);
    let (user, host) = (&record.user, &record.submit_host);
    rows.add("submitted", format!("{submitted} by {user} on {host}"));
    let all_starts = tracked.all_starts;
    let first = all_starts.and_then(|all| all.started_at_ms);
    let Some(started) = first.or(status.started_at_ms) else {
        return;
    };
    let ran_until = |until: u64| {
        let ran = all_starts.map(|all| all.ran_seconds);
        display_seconds(ran.unwrap_or_else(|| seconds_between(started, until)))
    };
    let waited = display_seconds(seconds_between(record.submitted_at_ms, started));
    let running = match status.state {
        JobState::Running => format!(", running for {}", ran_until(now_ms())),
        _ => String::new(),
    };
    let at = local_time(started);
    rows.add("started", format!("{at} (waited {waited}{running})"));
    if let Some(ended) = status.ended_at_ms {
        let ran = ran_until(ended);
        rows.add("ended", format!("{} (ran {ran})", local_time(ended)));
    }
}

fn state_text(status: &Status) -> String {
    let exit = status.exit.filter(|exit| !exit.is_success()).map(exit_text);
    let why: Vec<String> = exit.into_iter().chain(reason_text(status)).collect();
    match &why[..] {
        [] => status.state.to_string(),
        why => format!("{} ({})", status.state, why.join("; ")),
    }
}

/// The scheduler's reason why it waits or ended; `stuck` where waiting is in vain.
pub(crate) fn reason_text(status: &Status) -> Option<String> {
    match (&status.reason, status.stuck) {
        (Some(reason), true) => Some(format!("stuck: {reason}")),
        (None, true) => Some("stuck".to_owned()),
        (reason, false) => reason.clone(),
    }
}

/// Metrics that `dlrun show` has room for.
const MOST_METRICS: usize = 6;

fn add_epochs(tracked: &Tracked, rows: &mut Rows) {
    let Some(node) = timed_node(tracked) else {
        return;
    };
    let progress = &node.progress;
    let planned = progress.epochs_announced.or(tracked.record.workload.epochs);
    if let Some(all) = tracked.all_starts.and_then(|all| all.epochs) {
        let of = planned.map_or_else(String::new, |planned| format!(" of {planned}"));
        let last = progress.epochs_completed;
        rows.add("epochs", format!("{all}{of} ({last} in the last start)"));
    } else if progress.epochs_completed > 0
        || progress.epochs_announced.is_some() && tracked.status.state != JobState::Completed
    {
        rows.add("epochs", progress.epochs_text(planned));
    } else if let Some(planned) = planned {
        let why = match tracked.status.state.is_final() {
            true => "unknown: no line of the output was recognised as the end of one",
            false => "none was read yet",
        };
        rows.add("epochs", format!("{why} ({planned} are planned)"));
    }
    let last_step = progress.last_step.as_ref();
    let of_run = last_step.filter(|mark| mark.epoch.is_none() && progress.epochs_completed == 0);
    if let Some(step) = of_run.and_then(|mark| mark.step) {
        let of = of_run.and_then(|mark| mark.of);
        let of = of.map_or_else(String::new, |of| format!(" of {of}"));
        rows.add("last step", format!("{step}{of}"));
    }
    rows.add_list("metrics", &metric_texts(node), ", ");
}

/// The last values of metrics, those of losses first, at most [`MOST_METRICS`], and those that are no numbers.
fn metric_texts(node: &NodeRecord) -> Vec<String> {
    let progress = &node.progress;
    // The last line of a step is of one batch; the epoch has the mean, where one is printed.
    let stepped = progress.last_step.map(|last| last.epoch);
    let is_newest = |epoch: &&Epoch| stepped.is_none_or(|stepped| stepped == Some(epoch.epoch));
    let of_epoch = progress.epochs.last().filter(is_newest);
    let mean = |name: &String| of_epoch.and_then(|epoch| epoch.metrics.get(name));
    let last = progress.last_metrics.iter();
    let mut metrics: Vec<(&String, f64)> = last
        .map(|(name, value)| (name, *mean(name).unwrap_or(value)))
        .collect();
    metrics.sort_by_key(|(name, _)| {
        let is_any = |words: &[&str]| words.iter().any(|word| name.to_lowercase().contains(word));
        match is_any(&["loss"]) {
            true => 0,
            false if is_any(&["acc", "reward", "return", "score", "ppl", "wer", "map"]) => 1,
            false => 2,
        }
    });
    let more = metrics.len().saturating_sub(MOST_METRICS);
    let more = (more > 0).then(|| format!("{more} more (--json)"));
    metrics.truncate(MOST_METRICS);
    let texts = metrics.iter().map(|(name, value)| match value.abs() {
        size if size > 0.0 && size < 1e-3 => format!("{name} {value:.3e}"),
        _ => format!("{name} {value:.4}"),
    });
    let diverged = node.missing.iter().filter_map(|missing| {
        let name = missing.what.strip_prefix("metric ")?;
        let is_known = progress.last_metrics.contains_key(name) || name == "throughput";
        (!is_known).then(|| format!("{name} is not a number"))
    });
    texts
        .chain(more)
        .chain(diverged.take(MOST_METRICS))
        .collect()
}

/// One line for each of several nodes.
fn add_nodes(tracked: &Tracked, rows: &mut Rows) {
    let nodes = nodes(tracked);
    for node in nodes.iter().filter(|_| nodes.len() > 1) {
        let epochs = match node.progress.epochs_completed {
            0 if !tracked.status.state.is_final() => "no epoch was read yet".to_owned(),
            0 => "no epoch was read".to_owned(),
            count => counted(count, "epoch"),
        };
        let sure = peak_text(node.sure_memory_peak().is_some());
        let peak = node.usage.mem_peak_bytes;
        let memory = peak.map(|peak| format!("{} {sure}", Bytes(peak)));
        let exit = node.exit.filter(|exit| !exit.is_success()).map(exit_text);
        let parts = [Some(epochs), memory, exit, node.output.clone()];
        let parts: Vec<String> = parts.into_iter().flatten().collect();
        rows.add(format!("node {}", node.key.node), parts.join(", "));
    }
}

/// How sure the largest of a few readings is.
fn peak_text(is_sure: bool) -> &'static str {
    if is_sure {
        "at most"
    } else {
        "seen, the peak is not known"
    }
}

fn add_usage(tracked: &Tracked, rows: &mut Rows) {
    let (usage, nodes) = (usage(tracked), nodes(tracked));
    if let (Some(cpu), Some(busy)) = (usage.cpu_seconds(), usage.cpus_busy()) {
        let mut text = format!("{} of CPU time", display_seconds(cpu));
        // The mean over less than a second says nothing.
        if usage.wall_seconds.is_some_and(|wall| wall >= 1.0) {
            text.push_str(&format!(", {busy:.2} CPUs busy on average"));
        }
        if nodes.len() > 1 {
            text.push_str(&format!(", {} nodes", nodes.len()));
        }
        rows.add("CPU", text);
    }
    // A run that ended before the first look has zeros: nothing was measured.
    if let Some(peak) = usage.mem_peak_bytes.filter(|peak| *peak > 0) {
        let is_sure = nodes.iter().all(|node| node.sure_memory_peak().is_some());
        let on = if nodes.len() > 1 { " on one node" } else { "" };
        let sure = peak_text(is_sure);
        rows.add("memory", format!("{} {sure}{on}", Bytes(peak)));
    }
    if let (Some(read), Some(written)) = (usage.io_read_bytes, usage.io_write_bytes)
        && read + written > 0
    {
        let (read, written) = (Bytes(read), Bytes(written));
        rows.add("I/O", format!("{read} read, {written} written"));
    }
}

/// What a reader must know to trust the figures: holes, what could not be measured, what could not be read.
fn remarks(tracked: &Tracked) -> String {
    let (status, outcome) = (&tracked.status, &tracked.reading.outcome);
    let mut lines = Vec::new();
    for node in &outcome.nodes {
        lines.extend(node_remarks(node, status));
    }
    let unread = tracked.reading.notes.iter();
    lines.extend(unread.map(|note| format!("{} cannot be read: {}", note.what, note.why)));
    if status.state.is_final() && outcome.nodes.is_empty() && outcome.start.is_some() {
        let text = "nothing was measured: the command did not start, or dlrun was not there; see the output";
        lines.push(text.to_owned());
    }
    if let JobState::Failed | JobState::Timeout | JobState::OutOfMemory = status.state {
        let mut last = nodes(tracked)
            .iter()
            .filter_map(|node| node.last_words.last());
        if last.any(|line| line.starts_with("ModuleNotFoundError: No module named")) {
            let way = "`[python]` (requirements, venv or conda), `run.modules` or an image bring Python packages";
            lines.push(way.to_owned());
        }
        // Of an array the first element that ended so: all its outputs would be too many.
        let mut elements = tracked.elements.iter();
        let worst = elements.find(|element| element.status.state == status.state);
        let shown = outcome.nodes.first();
        let shown = shown.filter(|_| tracked.record.array.is_some());
        let element = worst.map(|worst| worst.element);
        let element = element.or_else(|| shown.map(|node| node.key.element));
        let element = element.map(|element| format!(" --element {element}"));
        let run = &tracked.record.run_id.as_str()[..6];
        let rank = first_to_fall(tracked).map(|(_, rank)| format!(" --rank {}", rank.rank));
        let of = element.or(rank).unwrap_or_default();
        lines.push(format!(
            "`dlrun logs -n 20 {run}{of}` shows the end of its output"
        ));
    }
    lines.iter().map(|line| format!("note: {line}\n")).collect()
}

fn node_remarks(node: &NodeRecord, status: &Status) -> Vec<String> {
    let mut lines = Vec::new();
    let (name, last) = (&node.key.node, local_time(node.updated_at_ms));
    if node.state == NodeState::Interrupted {
        lines.push(format!(
            "{name}: dlrun's processes were killed, so the record ends at {last}"
        ));
    } else if status.state.is_final() && node.state == NodeState::Running {
        // Killed together with the job, the watcher could not even say that it was interrupted.
        lines.push(format!(
            "{name}: the record ends at {last}: dlrun's processes were killed, or the state directory could not be written"
        ));
    }
    for gap in &node.gaps {
        let length = display_seconds(seconds_between(gap.from_ms, gap.to_ms));
        let (from, why) = (local_time(gap.from_ms), &gap.why);
        lines.push(format!(
            "{name}: no samples for {length} from {from}: {why}"
        ));
    }
    for missing in &node.missing {
        match &*missing.what {
            "timing" => lines.push(format!("{name}: no epochs: {}", missing.why)),
            "gpu_share" => lines.push(format!("{name}: {}", missing.why)),
            _ => {}
        }
    }
    lines
}
