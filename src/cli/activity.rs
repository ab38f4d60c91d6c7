//! Rhythm and phases for people.

use crate::app::times::local_time;
use crate::cli::measured_rows::of_node;
use crate::cli::table::Rows;
use crate::foundation::clock::now_ms;
use crate::foundation::units::display_seconds;
use crate::record::{
    Activity, Iteration, IterationSource, NodeRecord, Pattern, PatternKind, Phase, PhaseTime,
};

/// Phases that took less of the time are left out, 0 to 1.
const LEAST_SHARE: f64 = 0.005;

/// Rows of the node whose log is followed, else of the first.
pub(crate) fn add_rows(nodes: &[NodeRecord], is_running: bool, rows: &mut Rows) {
    for node in nodes {
        // A record whose last writing was lost still says that it runs.
        let remarks = is_running.then(|| node.remarks(now_ms()));
        for (warns, text) in remarks.unwrap_or_default() {
            let name = if warns { "warning" } else { "advice" };
            rows.add(of_node(name, node, nodes), text);
        }
        let forecast = node.progress.memory_forecast.as_ref();
        rows.add_known(
            &of_node("memory forecast", node, nodes),
            forecast.and_then(|forecast| forecast.scored_text(local_time)),
        );
    }
    let known = nodes
        .iter()
        .filter_map(|node| node.progress.activity.as_ref());
    let named = |activity: &&Activity| {
        activity
            .phases
            .iter()
            .any(|time| time.phase != Phase::Unknown)
    };
    let Some(activity) = known.clone().find(named).or_else(|| known.clone().next()) else {
        return;
    };
    rows.add_known("phases", phases_line(&activity.phases));
    rows.add_known(
        "iteration",
        activity
            .iteration
            .map(|iteration| iteration_text(&iteration)),
    );
    rows.add("rhythm", pattern_text(&activity.pattern));
    for unlike in &activity.unlike {
        let gpu = unlike.gpu.as_deref().unwrap_or_default();
        rows.add("unlike it", format!("GPU {gpu}: {}", pattern_text(unlike)));
    }
}

/// `training 4 min 05 s (81%), startup 30.2 s (10%)`; nothing where nothing is known.
fn phases_line(phases: &[PhaseTime]) -> Option<String> {
    phases.iter().find(|time| time.phase != Phase::Unknown)?;
    let long = phases.iter().filter(|time| time.share >= LEAST_SHARE);
    let texts: Vec<String> = long
        .map(|time| {
            format!(
                "{} {} ({:.0}%)",
                name(time.phase),
                display_seconds(time.seconds),
                time.share * 100.0
            )
        })
        .collect();
    Some(texts.join(", "))
}

/// A phase as people read it.
pub(crate) fn name(phase: Phase) -> String {
    phase.as_str().replace('_', " ")
}

fn iteration_text(iteration: &Iteration) -> String {
    let seconds = display_seconds(iteration.seconds);
    let source = match iteration.source {
        IterationSource::Steps => "steps of the log",
        IterationSource::Epochs => "epochs of the log",
        IterationSource::Signal => {
            return format!("{seconds}, by the period of its signals: the log shows no steps");
        }
    };
    match (iteration.agrees, iteration.signal_seconds) {
        (Some(true), _) => format!("{seconds}, by {source}; the signals agree"),
        (Some(false), Some(period)) => {
            format!(
                "{seconds}, by {source}; the signals disagree: they repeat every {}",
                display_seconds(period)
            )
        }
        _ => format!("{seconds}, by {source}"),
    }
}

fn pattern_text(pattern: &Pattern) -> String {
    let signal = pattern
        .signal
        .as_deref()
        .unwrap_or("unknown")
        .to_uppercase();
    let signal = match signal.as_str() {
        "READ" => "reads".to_owned(),
        "WRITE" => "writes".to_owned(),
        _ => signal,
    };
    let Some(period) = pattern.period_seconds else {
        let kind = match pattern.kind {
            PatternKind::LowResolution => "too fast to see",
            PatternKind::Unresolvable => "unknown",
            kind => kind.as_str(),
        };
        let why = pattern.why.as_deref().unwrap_or("no reason is known");
        return match pattern.kind {
            PatternKind::Unresolvable => format!("{kind}: {why}"),
            _ => format!("{signal} {kind}: {why}"),
        };
    };
    let range = pattern.period_low_seconds.zip(pattern.period_high_seconds);
    let range = range.map_or_else(String::new, |(low, high)| {
        format!(" ({low:.1} to {high:.1} s)")
    });
    let cycles = pattern
        .cycles
        .map_or_else(String::new, |cycles| format!(", seen {cycles:.0} times"));
    let second = pattern.second_period_seconds;
    let second = second.map_or_else(String::new, |second| {
        format!(", also every {}", display_seconds(second))
    });
    format!(
        "{signal} repeats every {}{range}{cycles}{second}",
        display_seconds(period)
    )
}
