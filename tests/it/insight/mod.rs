//! What runs mean: limits, advice, and silence where too little is known.

mod advice;
mod case;
mod page;
mod shown;
mod trouble;

use dlrun::report::insight::{AdviceKind, Insight, LimitKind};

/// The kinds of limits that were found.
fn limits(insight: &Insight) -> Vec<LimitKind> {
    insight.limits.iter().map(|limit| limit.kind).collect()
}

/// What is to be pasted of one kind.
fn paste(insight: &Insight, kind: AdviceKind) -> Option<&str> {
    let advice = insight.advice.iter().find(|advice| advice.kind == kind)?;
    // Whatever is advised makes a job file.
    if let (Some(table), Some(lines)) = (advice.table, &advice.paste) {
        let file = format!("[run]\ncommand = [\"true\"]\n[{table}]\n{lines}\n");
        let parsed = dlrun::job::parse(&file);
        assert!(parsed.is_ok(), "{file}\n{parsed:?}");
    }
    assert_eq!(advice.table.is_some(), advice.paste.is_some(), "{advice:?}");
    assert!(!advice.rests_on.is_empty(), "{advice:?}");
    advice.paste.as_deref()
}

/// What following it saves at most.
fn saves(insight: &Insight, kind: AdviceKind) -> Option<f64> {
    let advice = insight.advice.iter().find(|advice| advice.kind == kind)?;
    advice.saves_at_most
}

/// True where something is advised on this.
fn advises(insight: &Insight, kind: AdviceKind) -> bool {
    insight.advice.iter().any(|advice| advice.kind == kind)
}

/// Why nothing is said of this.
fn why_silent<'a>(insight: &'a Insight, what: &str) -> &'a str {
    let found = insight
        .unmeasured
        .iter()
        .find(|unmeasured| unmeasured.what == what);
    found.map_or("", |unmeasured| &unmeasured.why)
}
