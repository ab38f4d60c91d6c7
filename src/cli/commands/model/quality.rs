//! Models, their figures and how good they are, in words.

use crate::app::times::local_time;
use crate::cli::forecast::count;
use crate::cli::table::headed;
use crate::learn::model::{Errors, Evaluation, Head, HoldOut, LeftErrors, RatioInterval};

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
fn percent(ratio: f64) -> String {
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
        "  {} with timed epochs, {} without epochs, {} cut off, {} in doubt; {} left out\n",
        counts.with_epochs,
        counts.whole_runs,
        counts.cut_off,
        counts.doubtful,
        counts.left_out.values().sum::<u64>(),
    ));
    text
}

/// How good a model is; nothing where that was not evaluated.
pub(super) fn of_head(head: &Head) -> String {
    let evaluation = head.evaluation.clone();
    let evaluation = evaluation.and_then(|value| serde_json::from_value(value).ok());
    evaluation.map_or_else(String::new, |evaluation| evaluated(&evaluation))
}

fn row(question: String, what: &str, errors: &Errors) -> [String; 6] {
    [
        question,
        what.to_owned(),
        errors.runs.to_string(),
        percent(errors.mean_error_ratio),
        off(errors.median_error_ln),
        percent(errors.coverage_ratio),
    ]
}

/// A row for each question and figure, and why others have none.
pub(super) fn evaluated(evaluation: &Evaluation) -> String {
    let (timed, sample) = (evaluation.timed, evaluation.evaluated);
    let mut text = match timed {
        0 => {
            "no run shows a steady epoch, so only the forecasts that runs had when they were submitted are compared"
                .to_owned()
        }
        _ => format!("{} with a steady epoch", count(timed, "run")),
    };
    if sample < timed {
        text.push_str(&format!(", of which a sample of {sample} is evaluated"));
    }
    text.push('\n');
    let mut rows: Vec<[String; 6]> = Vec::new();
    for view in &evaluation.views {
        let question = match view.hold_out {
            HoldOut::Run => "a job that ran before",
            HoldOut::Configuration => "a known workload in a new configuration",
            HoldOut::Workload => "a new workload",
            HoldOut::Submitted => "a submitted job",
        };
        if let Some(why) = &view.too_few {
            text.push_str(&format!("{question}: not known yet: {why}\n"));
        }
        for (what, errors) in [
            ("an epoch", view.epoch),
            ("the run", view.total),
            ("memory", view.memory),
        ] {
            rows.extend(errors.map(|errors| row(question.to_owned(), what, &errors)));
        }
    }
    for LeftErrors { share, errors } in &evaluation.left {
        rows.push(row(
            format!("a running job after {:.0} %", share * 100.0),
            "the time left",
            errors,
        ));
    }
    if !rows.is_empty() {
        let heads = [
            "job",
            "forecast of",
            "runs",
            "MAPE",
            "half within",
            "in 90 % interval",
        ];
        text.push_str(&headed(heads, rows));
    }
    text
}
