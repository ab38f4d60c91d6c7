//! The ways in which a job could run, with what the performance model says of each, and that in words.

use std::fmt::Write as _;

use super::Candidate;
use super::forecast_text::{basis_in_short, per_cent, range};
use crate::foundation::units::display_seconds;
use crate::record::Forecast;

/// What distinguishes a candidate from others, such as `tf-2.4 with xla`.
pub(super) fn software(candidate: &Candidate) -> String {
    match (&candidate.image, &candidate.compiler) {
        (Some(image), Some(compiler)) => format!("{image} with {}", named(compiler)),
        (Some(image), None) => image.clone(),
        (None, Some(compiler)) => named(compiler).to_owned(),
        (None, None) => "the same software".to_owned(),
    }
}

/// `none` by itself says too little in a sentence.
pub(super) fn named(compiler: &str) -> &str {
    if compiler == "none" {
        "no compiler"
    } else {
        compiler
    }
}

/// More candidates are not shown to people.
const MAX_SHOWN: usize = 6;

/// The best candidates as a table, where the model says something of several.
pub(super) fn table(candidates: &[Candidate]) -> String {
    if candidates.len() < 2
        || candidates
            .iter()
            .all(|candidate| candidate.forecast.is_none())
    {
        return String::new();
    }
    let shown = &candidates[..candidates.len().min(MAX_SHOWN)];
    let mut columns = columns(shown);
    columns.retain(|(_, cells)| cells.iter().any(|cell| cell != "-"));
    let more = match candidates.len() - shown.len() {
        0 => String::new(),
        _ => format!(
            ", the best {}; `dlrun plan --json` tells of all",
            shown.len()
        ),
    };
    let mut text = format!("  {} candidates{more}:\n", candidates.len());
    let width = |(head, cells): &(&str, Vec<String>)| {
        cells
            .iter()
            .map(|cell| cell.chars().count())
            .chain([head.len()])
            .max()
            .unwrap_or(0)
    };
    let widths: Vec<usize> = columns.iter().map(width).collect();
    let mut line = |mark: &str, cells: Vec<&str>| {
        let cells = cells
            .iter()
            .zip(&widths)
            .map(|(cell, width)| format!("{cell:width$}"));
        let _ = writeln!(
            text,
            "  {mark} {}",
            cells.collect::<Vec<_>>().join("  ").trim_end()
        );
    };
    line(" ", columns.iter().map(|(head, _)| *head).collect());
    for (at, candidate) in shown.iter().enumerate() {
        let mark = if candidate.chosen { ">" } else { " " };
        line(
            mark,
            columns.iter().map(|(_, cells)| &cells[at][..]).collect(),
        );
    }
    text
}

/// Heads and cells; `-`: there is nothing to tell.
fn columns(candidates: &[Candidate]) -> Vec<(&'static str, Vec<String>)> {
    let all = |cell: &dyn Fn(&Candidate) -> Option<String>| -> Vec<String> {
        candidates
            .iter()
            .map(|candidate| cell(candidate).unwrap_or_else(|| "-".to_owned()))
            .collect()
    };
    let forecast = |shown: fn(&Forecast) -> String| {
        all(&|candidate: &Candidate| candidate.forecast.as_ref().map(shown))
    };
    let sized = candidates
        .iter()
        .any(|candidate| candidate.efficiency_ratio.is_some());
    let total = |candidate: &Candidate| {
        Some(display_seconds(
            candidate.forecast.as_ref()?.total_seconds?.median,
        ))
    };
    let basis = |forecast: &Forecast| {
        let beyond = if forecast.beyond.is_empty() {
            ""
        } else {
            ", beyond"
        };
        format!("{}{beyond}", basis_in_short(forecast))
    };
    vec![
        ("image", all(&|candidate| candidate.image.clone())),
        ("version", all(&|candidate| candidate.version.clone())),
        ("compiler", all(&|candidate| candidate.compiler.clone())),
        (
            "provenance",
            all(&|candidate| Some(candidate.provenance?.as_str().to_owned())),
        ),
        (
            "nodes",
            all(&|candidate| sized.then(|| candidate.nodes.to_string())),
        ),
        (
            "efficiency",
            all(&|candidate| candidate.efficiency_ratio.map(per_cent)),
        ),
        (
            "epoch",
            all(&|candidate| {
                Some(display_seconds(
                    candidate.forecast.as_ref()?.epoch_seconds?.median,
                ))
            }),
        ),
        (
            "9 of 10 times",
            all(&|candidate| Some(range(candidate.forecast.as_ref()?.time()?))),
        ),
        ("in all", all(&total)),
        ("rests on", forecast(basis)),
        // The decision on it says why.
        (
            "",
            all(&|candidate| candidate.rejected.as_ref().map(|_| "not taken".to_owned())),
        ),
    ]
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::plan::forecast_text::tests::forecast;

    fn candidate(compiler: &str, seconds: f64, chosen: bool) -> Candidate {
        Candidate {
            image: None,
            version: None,
            compiler: Some(compiler.to_owned()),
            provenance: None,
            nodes: 1,
            chosen,
            efficiency_ratio: None,
            forecast: Some(forecast(seconds)),
            rejected: None,
        }
    }

    #[test]
    fn the_table_is_aligned_and_short() {
        let one = [candidate("xla", 3.0, true)];
        assert_eq!(table(&one), "", "one candidate is told by the decision");
        let many: Vec<Candidate> = (0..9)
            .map(|at| candidate(&format!("c{at}"), 3.0 + f64::from(at), at == 0))
            .collect();
        let table = table(&many);
        let lines: Vec<&str> = table.lines().collect();
        assert_eq!(
            lines[0],
            "  9 candidates, the best 6; `dlrun plan --json` tells of all:"
        );
        assert_eq!(
            lines[1],
            "    compiler  epoch   9 of 10 times     in all  rests on"
        );
        assert_eq!(
            lines[2],
            "  > c0        3.00 s  2.70 s to 3.30 s  30.0 s  alike, 12 runs"
        );
        assert_eq!(
            lines[3],
            "    c1        4.00 s  3.60 s to 4.40 s  40.0 s  alike, 12 runs"
        );
        assert_eq!(lines.len(), 8);
    }

    #[test]
    fn without_a_forecast_there_is_no_table() {
        let without = |compiler| Candidate {
            forecast: None,
            ..candidate(compiler, 1.0, false)
        };
        assert_eq!(table(&[without("xla"), without("none")]), "");
    }
}
