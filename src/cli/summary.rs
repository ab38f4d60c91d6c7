//! What is known of a run, for people and for programs.

use std::collections::BTreeSet;
use std::path::Path;

use serde_json::{Value, json};

use crate::app::insight;
use crate::app::runs::Shown;
use crate::app::times::{ago, local_time, seconds_between};
use crate::app::track::Tracked;
use crate::cli::container_rows;
use crate::cli::elements::{self, exit_text};
use crate::cli::forecast;
use crate::cli::insight as text;
use crate::cli::measured_rows;
use crate::cli::table::{rendered, table};
use crate::foundation::clock::now_ms;
use crate::foundation::diagnostic::printable;
use crate::foundation::units::{Bytes, display_seconds};
use crate::job::JobState;
use crate::observe::monitor::cgroup::NOT_COUNTED;
use crate::record::{
    Conditions, EpochSummary, Identity, Missing, NodeRecord, NodeState, Status, Usage,
    summarise_epochs,
};
use crate::report::insight::Insight;

/// The usage of all nodes together.
fn usage(tracked: &Tracked) -> Usage {
    let mut nodes = tracked.reading.outcome.nodes.iter();
    let mut usage = nodes.next().map(|node| node.usage).unwrap_or_default();
    nodes.for_each(|node| usage.add_node(&node.usage));
    usage
}

/// The node whose epochs stand for the run: the first by name that recognised any.
fn timed_node(tracked: &Tracked) -> Option<&NodeRecord> {
    let nodes = &tracked.reading.outcome.nodes;
    nodes
        .iter()
        .find(|node| node.progress.epochs_completed > 0)
        .or_else(|| nodes.first())
}

fn epochs(tracked: &Tracked) -> Option<EpochSummary> {
    summarise_epochs(
        &timed_node(tracked)?.progress,
        tracked.record.workload.samples,
    )
}

/// The run as JSON: what was submitted, its status, what follows from the measurements, the nodes' records, and the elements
/// of an array. Its files lie in `records`, or nowhere.
pub(crate) fn to_json(tracked: &Tracked, records: Option<&Path>) -> Value {
    let Tracked {
        record,
        status,
        reading,
        ..
    } = tracked;
    let mut value = json!({
        "run": record,
        "status": status,
        "attempt": reading.attempt.map(|attempt| attempt.attempt),
        "summary": { "epochs": epochs(tracked), "usage": usage(tracked) },
        "nodes": reading.outcome.nodes,
        "unreadable": reading.notes,
        "records": records.map(Path::to_string_lossy),
    });
    if let Some(foretold) = forecast::held(tracked) {
        value["foretold"] = json!(foretold);
    }
    if !tracked.elements.is_empty() {
        value["elements"] = json!(tracked.elements);
    }
    value
}

/// The run as a table; `records` says where its files are.
pub(crate) fn to_text(tracked: &Tracked, records: Option<&Path>) -> String {
    let insight = insight::insight(tracked, None, Vec::new());
    let table = table_text(tracked, records, &insight, false);
    // Much of it was said by others: the job's output, the driver, the kernel.
    printable(&(table + &remarks(tracked)))
}

/// The run as a table with further tables and advice below it.
pub(crate) fn with_tables(
    shown: &Shown,
    records: Option<&Path>,
    insight: &Insight,
    tables: &str,
) -> String {
    let tracked = &shown.tracked;
    let table = table_text(tracked, records, insight, shown.is_live);
    // What waits, and an array as a whole, has nothing that could be known.
    let has_begun = !tracked.reading.outcome.nodes.is_empty() || !tracked.reading.notes.is_empty();
    let notes = match ran_seconds(&tracked.status) {
        Some(seconds) if seconds < TOO_SHORT_SECONDS => {
            let ran = display_seconds(seconds);
            format!("note: it ran {ran}, too short for further figures\n")
        }
        _ if has_begun => {
            text::notes(insight, tracked.status.state.is_final()) + &uncounted(tracked)
        }
        _ => String::new(),
    };
    let below = text::advice(insight) + &notes;
    printable(&(table + tables + &below + &remarks(tracked)))
}

/// Of shorter runs what is not known is told in one line, in seconds: a few samples say little.
const TOO_SHORT_SECONDS: f64 = 10.0;

/// How long a run took that is over, in seconds.
fn ran_seconds(status: &Status) -> Option<f64> {
    status
        .state
        .is_final()
        .then(|| Some(seconds_between(status.started_at_ms?, status.ended_at_ms?)))?
}

/// One line for what the nodes' cgroups do not count: on most machines that is always the same.
fn uncounted(tracked: &Tracked) -> String {
    let missing = tracked
        .reading
        .outcome
        .nodes
        .iter()
        .flat_map(|node| &node.missing);
    let what: BTreeSet<&str> = missing
        .filter(|missing| is_uncounted(missing))
        .map(|missing| &*missing.what)
        .collect();
    if what.is_empty() {
        return String::new();
    }
    format!(
        "note: its cgroup does not count {} figures; `show --json` names them\n",
        what.len()
    )
}

fn is_uncounted(missing: &Missing) -> bool {
    missing.why.ends_with(NOT_COUNTED)
}

/// `is_live`: epochs and metrics were read from the output just now.
fn table_text(
    tracked: &Tracked,
    records: Option<&Path>,
    insight: &Insight,
    is_live: bool,
) -> String {
    let (record, status, reading) = (&tracked.record, &tracked.status, &tracked.reading);
    let mut table = table();
    let mut row = |name: &str, value: String| {
        table.add_row([name.to_owned(), value]);
    };
    row("run", record.run_id.to_string());
    row("name", record.name.clone());
    row("state", state_text(tracked));
    waiting_rows(tracked, &mut row);
    if let Some(cause) = &status.cause {
        row("cause", cause.text.clone());
    }
    for (place, line) in last_words(tracked).iter().enumerate() {
        row(if place == 0 { "said last" } else { "" }, line.clone());
    }
    elements::rows(tracked, &mut row);
    let job = record
        .job_id
        .as_ref()
        .map_or_else(|| "no job id".to_owned(), |job| format!("job {job}"));
    row("scheduler", format!("{}, {job}", record.scheduler.as_str()));
    what_ran(tracked, &mut row);
    row(
        "submitted",
        format!(
            "{} by {} on {}",
            local_time(record.submitted_at_ms),
            record.user,
            record.submit_host
        ),
    );
    if let Some(started) = status.started_at_ms {
        let waited = display_seconds(seconds_between(record.submitted_at_ms, started));
        let running = (status.state == JobState::Running).then(|| {
            format!(
                ", running for {}",
                display_seconds(seconds_between(started, now_ms()))
            )
        });
        let running = running.unwrap_or_default();
        row(
            "started",
            format!("{} (waited {waited}{running})", local_time(started)),
        );
    }
    if let (Some(started), Some(ended)) = (status.started_at_ms, status.ended_at_ms) {
        row(
            "ended",
            format!(
                "{} (ran {})",
                local_time(ended),
                display_seconds(seconds_between(started, ended))
            ),
        );
    }
    if let Some(attempt) = reading.attempt.filter(|attempt| attempt.attempt > 0) {
        row(
            "attempt",
            format!("{} (it was requeued)", attempt.attempt + 1),
        );
    }
    measured_row(tracked, is_live, &mut row);
    container_rows::rows(record.image.as_ref(), &reading.outcome.nodes, &mut row);
    epoch_rows(tracked, &mut row);
    if let Some(forecast) = forecast::line(tracked) {
        row("forecast", forecast);
    }
    text::rows(insight, &mut row);
    usage_rows(tracked, &mut row);
    measured_rows::rows(&usage(tracked), &reading.outcome.nodes, &mut row);
    node_rows(tracked, &mut row);
    if let Some(output) = &record.output {
        row("output", output.clone());
    }
    let records = records.map_or_else(
        || "none here: the run was imported".to_owned(),
        |records| records.display().to_string(),
    );
    row("records", records);
    rendered(table)
}

/// Of a run that is not over: when it was measured last.
fn measured_row(tracked: &Tracked, is_live: bool, row: &mut impl FnMut(&str, String)) {
    let nodes = tracked.reading.outcome.nodes.iter();
    let measured = nodes.map(|node| node.updated_at_ms).max();
    let of_output = if is_live {
        "epochs and metrics are of now"
    } else {
        "the newest epochs are in `dlrun logs`"
    };
    if let Some(measured) = measured.filter(|_| !tracked.status.state.is_final()) {
        row("measured", format!("{}; {of_output}", ago(measured)));
    }
}

/// The end of the traceback of a run that failed, where its last line is not all of it: that is the cause.
fn last_words(tracked: &Tracked) -> &[String] {
    let failed = tracked.status.state == JobState::Failed;
    let nodes = tracked.reading.outcome.nodes.iter();
    let found = nodes
        .map(|node| &node.last_words)
        .find(|words| failed && words.len() > 1);
    found.map_or(&[], Vec::as_slice)
}

/// What was run, on what was asked for, in which software.
fn what_ran(tracked: &Tracked, row: &mut impl FnMut(&str, String)) {
    let record = &tracked.record;
    let conditions = tracked
        .reading
        .outcome
        .nodes
        .iter()
        .map(|node| &node.conditions);
    let identity = record.identity.as_ref();
    let rows = [
        ("command", identity.and_then(Identity::command_line)),
        ("directory", Some(record.workdir.clone())),
        ("job file", record.job_file.clone()),
        (
            "python",
            identity
                .and_then(Identity::python_environment)
                .map(str::to_owned),
        ),
        ("commit", identity.and_then(Identity::commit_text)),
        (
            "software",
            conditions.clone().find_map(Conditions::software_text),
        ),
        ("asked for", identity.map(|identity| identity.asked.text())),
        (
            "ran in",
            conditions.clone().find_map(Conditions::place_text),
        ),
    ];
    for (name, value) in rows {
        if let Some(value) = value {
            text::folded_row(name, &value, row);
        }
    }
}

fn state_text(tracked: &Tracked) -> String {
    let status = &tracked.status;
    let exit = status.exit.filter(|exit| !exit.is_success()).map(exit_text);
    let words: Vec<String> = exit.into_iter().chain(reason_text(status)).collect();
    if words.is_empty() {
        status.state.to_string()
    } else {
        format!("{} ({})", status.state, words.join("; "))
    }
}

/// What the scheduler's reason means, and when it expects the start.
fn waiting_rows(tracked: &Tracked, row: &mut impl FnMut(&str, String)) {
    let status = &tracked.status;
    if let Some(meaning) = tracked.reason_meaning() {
        row("that is", meaning.to_owned());
    }
    if let Some(at) = status.expected_start_ms {
        row(
            "starts",
            format!("{} as the scheduler expects", local_time(at)),
        );
    }
}

/// Why it waits or ended, in the scheduler's words; `stuck` where waiting is in vain.
pub(crate) fn reason_text(status: &Status) -> Option<String> {
    match (&status.reason, status.stuck) {
        (Some(reason), true) => Some(format!("stuck: {reason}")),
        (None, true) => Some("stuck".to_owned()),
        (reason, false) => reason.clone(),
    }
}

fn epoch_rows(tracked: &Tracked, row: &mut impl FnMut(&str, String)) {
    let Some(node) = timed_node(tracked) else {
        return;
    };
    let progress = &node.progress;
    let planned = progress.epochs_announced.or(tracked.record.workload.epochs);
    if progress.epochs_completed > 0 || planned.is_some() {
        row("epochs", progress.epochs_text(planned));
    }
    let metrics: Vec<String> = progress
        .last_metrics
        .iter()
        .take(6)
        .map(|(name, value)| format!("{name} {value:.4}"))
        .collect();
    if !metrics.is_empty() {
        row("metrics", metrics.join(", "));
    }
}

/// One line for each of several nodes.
fn node_rows(tracked: &Tracked, row: &mut impl FnMut(&str, String)) {
    let nodes = &tracked.reading.outcome.nodes;
    for node in nodes.iter().filter(|_| nodes.len() > 1) {
        let epochs = format!("{} epochs", node.progress.epochs_completed);
        let word = most(node.sure_memory_peak().is_some());
        let memory = node
            .usage
            .mem_peak_bytes
            .map(|peak| format!("{} {word}", Bytes(peak)));
        let exit = node.exit.filter(|exit| !exit.is_success()).map(exit_text);
        let words: Vec<String> = [Some(epochs), memory, exit, node.output.clone()]
            .into_iter()
            .flatten()
            .collect();
        row(&format!("node {}", node.key.node), words.join(", "));
    }
}

/// How sure the largest of a few readings is.
fn most(is_sure: bool) -> &'static str {
    if is_sure {
        "at most"
    } else {
        "seen, the peak is not known"
    }
}

fn usage_rows(tracked: &Tracked, row: &mut impl FnMut(&str, String)) {
    let usage = usage(tracked);
    let nodes = tracked.reading.outcome.nodes.len();
    let over = if nodes > 1 {
        format!(", {nodes} nodes")
    } else {
        String::new()
    };
    if let (Some(cpu), Some(busy)) = (usage.cpu_seconds(), usage.cpus_busy()) {
        // The mean over less than a second says nothing.
        let long = usage.wall_seconds.is_some_and(|wall| wall >= 1.0);
        let busy = if long {
            format!(", {busy:.2} CPUs busy on average")
        } else {
            String::new()
        };
        row(
            "CPU",
            format!("{} of CPU time{busy}{over}", display_seconds(cpu)),
        );
    }
    // A run that ended before the first look has zeros: nothing was measured.
    if let Some(peak) = usage.mem_peak_bytes.filter(|peak| *peak > 0) {
        let word = most(
            tracked
                .reading
                .outcome
                .nodes
                .iter()
                .all(|node| node.sure_memory_peak().is_some()),
        );
        row(
            "memory",
            format!(
                "{} {word}{}",
                Bytes(peak),
                if nodes > 1 { " on one node" } else { "" }
            ),
        );
    }
    if let (Some(read), Some(written)) = (usage.io_read_bytes, usage.io_write_bytes)
        && read + written > 0
    {
        row(
            "I/O",
            format!("{} read, {} written", Bytes(read), Bytes(written)),
        );
    }
}

/// What a reader must know to trust the figures: holes, what could not be measured, what could not be read.
fn remarks(tracked: &Tracked) -> String {
    let mut lines = Vec::new();
    for node in &tracked.reading.outcome.nodes {
        let name = &node.key.node;
        // Killed together with the job, the watcher could not even say that it was interrupted.
        let cut_off = tracked.status.state.is_final() && node.state == NodeState::Running;
        let last = local_time(node.updated_at_ms);
        if node.state == NodeState::Interrupted {
            lines.push(format!(
                "{name}: dlrun's processes were killed, so the record ends at {last}"
            ));
        } else if cut_off {
            lines.push(format!(
                "{name}: the record ends at {last}: dlrun's processes were killed, or the state directory took nothing"
            ));
        }
        for gap in &node.gaps {
            let length = display_seconds(seconds_between(gap.from_ms, gap.to_ms));
            lines.push(format!(
                "{name}: no samples for {length} from {}: {}",
                local_time(gap.from_ms),
                gap.why
            ));
        }
        let is_long =
            ran_seconds(&tracked.status).is_none_or(|seconds| seconds >= TOO_SHORT_SECONDS);
        // Why there are no epochs is never too much.
        let shown = node
            .missing
            .iter()
            .filter(|missing| is_long || missing.what == "timing");
        lines.extend(missing_lines(name, &shown.cloned().collect::<Vec<_>>()));
    }
    lines.extend(
        tracked
            .reading
            .notes
            .iter()
            .map(|note| format!("{} cannot be read: {}", note.what, note.why)),
    );
    let outcome = &tracked.reading.outcome;
    if tracked.status.state.is_final() && outcome.nodes.is_empty() && outcome.start.is_some() {
        lines.push(
            "nothing was measured: the command did not start, or dlrun was not there; see the output"
                .to_owned(),
        );
    }
    if matches!(
        tracked.status.state,
        JobState::Failed | JobState::Timeout | JobState::OutOfMemory
    ) {
        let lacks_module = |line: &String| line.starts_with("ModuleNotFoundError: No module named");
        if outcome
            .nodes
            .iter()
            .filter_map(|node| node.last_words.last())
            .any(lacks_module)
        {
            let way = "`[python]` (requirements, venv or conda), `run.modules` or an image bring Python packages";
            lines.push(way.to_owned());
        }
        let run = &tracked.record.run_id.as_str()[..6];
        // Of an array the first element that ended so: all its outputs would be too many.
        let worst = tracked
            .elements
            .iter()
            .find(|element| element.status.state == tracked.status.state);
        let shown = outcome
            .nodes
            .first()
            .filter(|_| tracked.record.array.is_some());
        let element = worst
            .map(|worst| worst.element)
            .or_else(|| shown.map(|node| node.key.element));
        let element = element
            .map(|element| format!(" --element {element}"))
            .unwrap_or_default();
        lines.push(format!(
            "`dlrun logs -n 20 {run}{element}` shows the end of its output"
        ));
    }
    lines.iter().map(|line| format!("note: {line}\n")).collect()
}

/// One line for each reason. That a run has no cgroup of its own is no news to people: most local ones have none.
fn missing_lines(node: &str, missing: &[Missing]) -> Vec<String> {
    let mut by_reason: Vec<(&str, Vec<&str>)> = Vec::new();
    for missing in missing
        .iter()
        .filter(|missing| missing.what != "cgroup" && !is_uncounted(missing))
    {
        match by_reason.iter_mut().find(|(why, _)| *why == missing.why) {
            Some((_, what)) => what.push(&missing.what),
            None => by_reason.push((&missing.why, vec![&missing.what])),
        }
    }
    let line = |(why, what): (&str, Vec<&str>)| match what[..] {
        [first, second, third, _, ..] => {
            format!(
                "{node}: no {first}, {second}, {third} and {} more: {why}",
                what.len() - 3
            )
        }
        _ => format!("{node}: no {}: {why}", what.join(", ")),
    };
    by_reason.into_iter().map(line).collect()
}
