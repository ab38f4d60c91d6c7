//! Gradient boosting: XGBoost, LightGBM and CatBoost. Their rounds are steps, not epochs.
//!
//! ```text
//! [0]  validation_0-logloss:0.61352  validation_1-logloss:0.65        xgboost, `callback.py` and `learner.cc`
//! [0]  train-rmse:0.1+0.02                                            the same, cross validation
//! [10]  valid_0's l2: 0.24  valid_0's auc: 0.76                       lightgbm, `callback.py`
//! [LightGBM] [Info] Iteration:998, training's auc: 1.000000           lightgbm, `gbdt.cpp`
//! 100:  learn: 0.1697219  test: 0.1530068  best: 0.1530068 (100)  total: 3.7s  remaining: 33s    catboost, `logging.h`
//! ```
//!
//! Behind the announcement of the best round comes its line once more, which is no step.

use std::borrow::Cow;

use super::event::{Event, Facts, Line, Recogniser};
use super::scan;

/// XGBoost.
#[derive(Debug, Default)]
pub(super) struct XgBoost {
    /// True where the next line repeats the best round.
    best: bool,
}

/// LightGBM.
#[derive(Debug, Default)]
pub(super) struct LightGbm {
    /// True where the next line repeats the best round.
    best: bool,
}

/// CatBoost.
#[derive(Debug, Default)]
pub(super) struct CatBoost;

impl Recogniser for XgBoost {
    fn name(&self) -> &'static str {
        "xgboost"
    }

    fn triggers(&self) -> &[&'static str] {
        &["]\t", "] ", "]#011", "Best iteration"]
    }

    fn read<'a>(&mut self, line: &Line<'a>, say: &mut dyn FnMut(Event<'a>)) {
        let repeats = std::mem::take(&mut self.best);
        if line.text.contains("Best iteration") {
            self.best = true;
        } else if !repeats && let Some((step, rest)) = round(line.text) {
            let metrics: Option<Vec<_>> = cells(rest)
                .flat_map(str::split_whitespace)
                .map(|cell| metric(cell, '-'))
                .collect();
            say_round(step, metrics, say);
        }
    }
}

impl Recogniser for LightGbm {
    fn name(&self) -> &'static str {
        "lightgbm"
    }

    fn triggers(&self) -> &[&'static str] {
        &["'s ", "[LightGBM] [Info] Iteration:", "est iteration is:"]
    }

    fn read<'a>(&mut self, line: &Line<'a>, say: &mut dyn FnMut(Event<'a>)) {
        let repeats = std::mem::take(&mut self.best);
        if line.text.contains("est iteration is:") {
            self.best = true;
        } else if let Some(rest) = scan::after(line.text, "[LightGBM] [Info] Iteration:") {
            if let Some((step, rest)) = scan::unsigned(rest)
                && let Some((name, value)) = rest
                    .strip_prefix(", ")
                    .and_then(|rest| rest.split_once(':'))
                && let Some((value, _)) = scan::number(value.trim_start())
            {
                say_round(step, Some(vec![(Cow::Borrowed(name.trim()), value)]), say);
            }
        } else if !repeats && let Some((step, rest)) = round(line.text) {
            let metrics: Option<Vec<_>> = cells(rest)
                .flat_map(|cell| cell.split("  "))
                .filter(|cell| !cell.trim().is_empty())
                .map(|cell| metric(cell, '\''))
                .collect();
            say_round(step, metrics, say);
        }
    }
}

impl Recogniser for CatBoost {
    fn name(&self) -> &'static str {
        "catboost"
    }

    fn triggers(&self) -> &[&'static str] {
        &["learn: ", "remaining: "]
    }

    fn read<'a>(&mut self, line: &Line<'a>, say: &mut dyn FnMut(Event<'a>)) {
        let Some((step, rest)) = scan::unsigned(line.text.trim_start()) else {
            return;
        };
        let Some(rest) = rest
            .strip_prefix(':')
            .filter(|rest| rest.contains("total: "))
        else {
            return;
        };
        let (figures, times) = rest.split_once("total: ").unwrap_or((rest, ""));
        say_round(step, Some(scan::metrics(figures, &[])), say);
        // Only at the end is the time so far that of the whole.
        if times.trim_end().ends_with("remaining: 0us")
            && let Some((seconds, _)) = scan::duration(times)
        {
            say(Event::run_end(Some(seconds), Facts::default()));
        }
    }
}

fn say_round<'a>(
    step: u64,
    metrics: Option<Vec<(Cow<'a, str>, f64)>>,
    say: &mut dyn FnMut(Event<'a>),
) {
    if let Some(metrics) = metrics.filter(|metrics| !metrics.is_empty()) {
        let facts = Facts::with_metrics(metrics);
        say(Event::run_step((step, None), facts));
    }
}

/// The number of `[5]`, which a time or a logger's mark in brackets may precede, and the rest.
fn round(text: &str) -> Option<(u64, &str)> {
    let mut rest = text.trim();
    for _ in 0..3 {
        let (inside, after) = rest.strip_prefix('[')?.split_once(']')?;
        if let Some((step, "")) = scan::unsigned(inside) {
            return Some((step, after.strip_prefix("#011").unwrap_or(after)));
        }
        rest = after.trim_start();
    }
    None
}

/// The cells between tabs, which some loggers write as `#011`.
fn cells(text: &str) -> impl Iterator<Item = &str> {
    text.split('\t')
        .flat_map(|cell| cell.split("#011"))
        .filter(|cell| !cell.trim().is_empty())
}

/// `name:value`, the name with `mark` in it; `value+deviation` is the value.
fn metric(cell: &str, mark: char) -> Option<(Cow<'_, str>, f64)> {
    let (name, value) = cell.rsplit_once(':')?;
    let (value, rest) = scan::number(value.trim_start())?;
    let rest = rest.trim_start();
    (name.contains(mark) && (rest.is_empty() || rest.starts_with('+')))
        .then(|| scan::figure_name(name.trim()).map(|name| (name, value)))?
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::observe::timing::event::Says;

    fn said(mut recogniser: impl Recogniser, lines: &[&str]) -> Vec<String> {
        let mut said = Vec::new();
        for text in lines {
            recogniser.read(
                &Line {
                    text,
                    redrawn: false,
                },
                &mut |event| {
                    said.push(match event {
                        Event {
                            says: Says::RunStep,
                            step: Some(step),
                            facts,
                            ..
                        } => format!("{step} {:?}", facts.metrics),
                        Event {
                            says: Says::RunEnd,
                            seconds,
                            ..
                        } => format!("end {seconds:?}"),
                        other => panic!("{other:?}"),
                    });
                },
            );
        }
        said
    }

    #[test]
    fn rounds_of_xgboost_are_read() {
        let lines = [
            "[0]\ttrain-rmse:0.5\teval-auc:0.25",
            "[12:30:01] [1]\ttest-error@0.5:0.5",
            "[2020-01-01:10:00:00:INFO] [2]#011train-rmse:0.5#011validation-rmse:nan",
            "[3]     train-rmse:0.5+0.02     test-rmse:0.25+0.03",
            "[15:28:18] src/tree/updater_prune.cc:74: tree pruning end, 1 roots",
            "[4] of 5",
            "[1]: x-y:3",
            "Stopping. Best iteration:",
            "[1]\ttrain-rmse:0.5\teval-auc:0.25",
        ];
        assert_eq!(
            said(XgBoost::default(), &lines),
            [
                "0 [(\"train-rmse\", 0.5), (\"eval-auc\", 0.25)]",
                "1 [(\"test-error@0.5\", 0.5)]",
                "2 [(\"train-rmse\", 0.5), (\"validation-rmse\", NaN)]",
                "3 [(\"train-rmse\", 0.5), (\"test-rmse\", 0.25)]",
            ]
        );
    }

    #[test]
    fn every_evaluation_is_kept_however_many_lines_arrive_at_once() {
        let log = (0..9).map(|round| format!("[{round}]\tvalidation_0-rmse:4.{round}\n"));
        let log: String = log.collect();
        let mut follower = crate::observe::timing::Follower::new(None).expect("no pattern");
        follower.feed(log.as_bytes(), None);
        follower.finish(None);
        assert_eq!(follower.progress().points.len(), 9);
    }

    #[test]
    fn rounds_of_lightgbm_are_read() {
        let lines = [
            "[10]\tvalid_0's l2: 0.25\tvalid_0's auc: 0.75",
            "[20]    cv_agg's auc: 0.77 + 0.01",
            "[LightGBM] [Info] Iteration:998, training's auc: 1.000000",
            "[LightGBM] [Info] Iteration:999, valid_1 auc : 0.75",
            "Early stopping, best iteration is:",
            "[10]\tvalid_0's l2: 0.25",
            "[30] it's late",
        ];
        assert_eq!(
            said(LightGbm::default(), &lines),
            [
                "10 [(\"valid_0's l2\", 0.25), (\"valid_0's auc\", 0.75)]",
                "20 [(\"cv_agg's auc\", 0.77)]",
                "998 [(\"training's auc\", 1.0)]",
                "999 [(\"valid_1 auc\", 0.75)]",
            ]
        );
    }

    #[test]
    fn rounds_of_catboost_are_read() {
        let lines = [
            "0:\tlearn: 0.5\ttest: 0.25\tbest: 0.25 (0)\ttotal: 70.1ms\tremaining: 1m 10s",
            "999:\tlearn: 0.5\ttotal: 1m 5s\tremaining: 0us",
            "3: learn: x",
        ];
        assert_eq!(
            said(CatBoost, &lines),
            [
                "0 [(\"learn\", 0.5), (\"test\", 0.25), (\"best\", 0.25)]",
                "999 [(\"learn\", 0.5)]",
                "end Some(65.0)",
            ]
        );
    }
}
