//! Models, their figures and how good they are, in words.

use crate::app::times::local_time;
use crate::cli::forecast::count;
use crate::cli::table::{fitted, table};
use crate::learn::model::{Errors, Evaluation, Head, HoldOut, Live, RatioInterval, Score, View};

/// An error of a logarithm as people read it: `4 %`, `2.1 times`.
pub(super) fn off(error_ln: f64) -> String {
    let ratio = error_ln.abs().exp();
    if ratio < 2.0 {
        percent(ratio - 1.0)
    } else {
        format!("{ratio:.1} times")
    }
}

/// `4 %`, `0.4 %`.
pub(super) fn percent(ratio: f64) -> String {
    let percent = 100.0 * ratio;
    if percent.abs() < 0.95 {
        format!("{percent:.1} %")
    } else {
        format!("{percent:.0} %")
    }
}

/// `1.75 (1.60 to 1.92)`.
pub(super) fn ratio(interval: &RatioInterval) -> String {
    format!(
        "{:.2} ({:.2} to {:.2})",
        interval.median, interval.low, interval.high
    )
}

/// Which runs a model was fitted on.
pub(super) fn trained_on(head: &Head) -> String {
    let counts = &head.counts;
    let mut text = format!(
        "model {}: {} of {}, {}, submitted from {} to {}\n",
        head.name,
        count(counts.runs, "run"),
        count(counts.workloads, "workload"),
        count(counts.configurations, "configuration"),
        local_time(head.first_at_ms),
        local_time(head.last_at_ms),
    );
    text.push_str(&format!(
        "  {} with epochs that were timed",
        counts.with_epochs
    ));
    for (number, what) in [
        (
            counts.cut_off,
            "cut off, so that the time is longer than what was seen",
        ),
        (counts.whole_runs, "without epochs, which count as a whole"),
        (
            counts.doubtful,
            "in doubt (others on the node, throttled, resumed, holes), which weigh less",
        ),
    ] {
        if number > 0 {
            text.push_str(&format!("; {number} {what}"));
        }
    }
    text.push('\n');
    let left_out = counts.left_out.iter();
    let left_out: Vec<String> = left_out
        .map(|(what, number)| format!("{number} {what}"))
        .collect();
    if !left_out.is_empty() {
        let left_out = left_out.join(", ");
        text.push_str(&format!("  left out, since no time or size: {left_out}\n"));
    }
    text
}

/// How good a model is, in a few lines; nothing where that was not evaluated.
pub(super) fn evaluation(head: &Head) -> String {
    let read = |value: &serde_json::Value| serde_json::from_value(value.clone()).ok();
    let evaluation: Option<Evaluation> = head.evaluation.as_ref().and_then(read);
    let views = evaluation
        .into_iter()
        .flat_map(|evaluation| evaluation.views);
    views
        .map(|view| format!("  {}\n", view_text(&view)))
        .collect()
}

fn view_text(view: &View) -> String {
    let what = question(view.hold_out);
    match (&view.too_few, view.score(Score::MODEL)) {
        (Some(why), _) => format!("{what}: not known yet: {why}"),
        (None, None) => format!("{what}: it could not be fitted without them"),
        (None, Some(Score { errors, .. })) => format!(
            "{what}: off by less than {} in half of the cases, {} of {} within the 90 % interval",
            off(errors.median_error_ln),
            percent(errors.coverage_ratio),
            count(errors.runs, "run"),
        ),
    }
}

fn question(hold_out: HoldOut) -> &'static str {
    match hold_out {
        HoldOut::Run => "a job that ran before",
        HoldOut::Configuration => "a known workload in a new configuration",
        HoldOut::Workload => "a new workload",
    }
}

/// The heads of figures of errors.
const HEADS: [&str; 5] = [
    "runs",
    "MAPE",
    "half within",
    "in 90 % interval",
    "log score",
];

fn errors(errors: &Errors) -> [String; 5] {
    [
        errors.runs.to_string(),
        percent(errors.mean_error_ratio),
        off(errors.median_error_ln),
        percent(errors.coverage_ratio),
        format!("{:.2}", errors.log_score),
    ]
}

/// A table for each question.
pub(super) fn evaluated(evaluation: &Evaluation) -> String {
    let mut text = format!("{} with a steady epoch", count(evaluation.timed, "run"));
    let looked_at = evaluation.evaluated;
    if looked_at < evaluation.timed {
        text.push_str(&format!(", of which a sample of {looked_at} is evaluated"));
    }
    text.push('\n');
    for view in &evaluation.views {
        text.push_str(&format!("\n{}", question(view.hold_out)));
        if let Some(why) = &view.too_few {
            text.push_str(&format!(": not known yet: {why}\n"));
            continue;
        }
        text.push_str(&format!(" ({} parts, held back in turn)\n", view.folds));
        let mut rows = table();
        rows.set_header(["epoch by"].iter().chain(&HEADS));
        let mut add = |what: &str, of: &Errors| {
            rows.add_row(std::iter::once(what.to_owned()).chain(errors(of)));
        };
        for score in &view.scores {
            let by = match score.by.as_str() {
                Score::MODEL => "the model",
                Score::LAST_SIMILAR_RUN => "the last similar run",
                other => other,
            };
            add(by, &score.errors);
        }
        let total = view.total.iter();
        total.for_each(|of| add("whole run, by the model", of));
        let memory = view.memory.iter();
        memory.for_each(|of| add("memory, by the model", of));
        text.push_str(&fitted(rows));
    }
    text
}

/// How good forecasts were.
pub(super) fn lived(live: &Live) -> String {
    let mut text = format!("{} ended that had a forecast", count(live.forecast, "run"));
    if live.explored > 0 {
        text.push_str(&format!(", {} of them to try something", live.explored));
    }
    let mut rows = table();
    rows.set_header(["forecast of"].iter().chain(&HEADS).chain(&["bias"]));
    let mut add = |what: &str, of: &Errors| {
        let side = if of.bias_ln < 0.0 { "short" } else { "long" };
        let bias = format!("too {side} by {}", off(of.bias_ln));
        let cells = std::iter::once(what.to_owned()).chain(errors(of));
        rows.add_row(cells.chain([bias]));
    };
    for (what, of) in [
        ("an epoch", &live.epoch),
        ("the whole run", &live.total),
        ("memory", &live.memory),
    ] {
        let of = of.iter();
        of.for_each(|of| add(what, of));
    }
    format!("{text}\n{}", fitted(rows))
}
