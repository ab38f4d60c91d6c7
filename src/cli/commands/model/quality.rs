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
        "model {}: {} of {}, {}, handed over from {} to {}\n",
        head.name,
        count(counts.runs, "run"),
        count(counts.workloads, "workload"),
        count(counts.configurations, "configuration"),
        local_time(head.first_at_ms),
        local_time(head.last_at_ms),
    );
    let mut parts = vec![format!(
        "{} with epochs that were timed",
        counts.with_epochs
    )];
    let mut add = |number: u64, what: &str| {
        if number > 0 {
            parts.push(format!("{number} {what}"));
        }
    };
    add(
        counts.cut_off,
        "cut off, so that the time is longer than what was seen",
    );
    add(
        counts.whole_runs,
        "that tell no epochs and count as a whole",
    );
    add(
        counts.doubtful,
        "in doubt (others on the node, throttled, resumed, holes), which weigh less",
    );
    text.push_str(&format!("  {}\n", parts.join("; ")));
    let left_out: Vec<String> = counts
        .left_out
        .iter()
        .map(|(what, number)| format!("{number} {what}"))
        .collect();
    if !left_out.is_empty() {
        text.push_str(&format!(
            "  left out, since no time or size: {}\n",
            left_out.join(", ")
        ));
    }
    text
}

/// How good a model is, in a few lines; nothing where that was not looked at.
pub(super) fn evaluation(head: &Head) -> String {
    let read = |value: &serde_json::Value| serde_json::from_value::<Evaluation>(value.clone()).ok();
    let Some(evaluation) = head.evaluation.as_ref().and_then(read) else {
        return String::new();
    };
    evaluation
        .views
        .iter()
        .map(|view| format!("  {}\n", of_view(view)))
        .collect()
}

fn of_view(view: &View) -> String {
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

/// A table for each question.
pub(super) fn evaluated(evaluation: &Evaluation) -> String {
    let mut text = format!("{} with a steady epoch", count(evaluation.timed, "run"));
    if evaluation.evaluated < evaluation.timed {
        text.push_str(&format!(
            ", of which a sample of {} is looked at",
            evaluation.evaluated
        ));
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
        rows.set_header([
            "epoch by",
            "runs",
            "MAPE",
            "half within",
            "in 90 % interval",
            "log score",
        ]);
        for score in &view.scores {
            let by = match score.by.as_str() {
                Score::MODEL => "the model",
                Score::LAST_SIMILAR_RUN => "the last similar run",
                other => other,
            };
            let mut row = vec![by.to_owned()];
            row.extend(errors(&score.errors));
            rows.add_row(row);
        }
        for (what, of) in [
            ("whole run, by the model", &view.total),
            ("memory, by the model", &view.memory),
        ] {
            if let Some(of) = of {
                let mut row = vec![what.to_owned()];
                row.extend(errors(of));
                rows.add_row(row);
            }
        }
        text.push_str(&fitted(rows));
    }
    text
}

fn errors(errors: &Errors) -> [String; 5] {
    [
        errors.runs.to_string(),
        percent(errors.mean_error_ratio),
        off(errors.median_error_ln),
        percent(errors.coverage_ratio),
        format!("{:.2}", errors.log_score),
    ]
}

/// What forecasts were worth.
pub(super) fn lived(live: &Live) -> String {
    let mut text = format!("{} ended that had a forecast", count(live.forecast, "run"));
    if live.explored > 0 {
        text.push_str(&format!(", {} of them to try something", live.explored));
    }
    text.push('\n');
    let mut rows = table();
    rows.set_header([
        "forecast of",
        "runs",
        "MAPE",
        "half within",
        "in 90 % interval",
        "log score",
        "bias",
    ]);
    let mut row = |what: &str, of: &Errors| {
        let mut cells = vec![what.to_owned()];
        cells.extend(errors(of));
        let word = if of.bias_ln < 0.0 {
            "too short by"
        } else {
            "too long by"
        };
        cells.push(format!("{word} {}", off(of.bias_ln)));
        rows.add_row(cells);
    };
    for (what, of) in [
        ("an epoch", &live.epoch),
        ("the whole run", &live.total),
        ("memory", &live.memory),
    ] {
        if let Some(of) = of {
            row(what, of);
        }
    }
    text.push_str(&fitted(rows));
    text
}
