//! Rows of a matrix's tables, which all forms of the report share. Numbers of a column have the same unit and as many decimals.

use std::collections::BTreeMap;

use super::figures::{CellFigures, Comparison, Effect, Figures};
use crate::report::number::{
    change, count, decimals, fixed, interval, or_unknown, probability, short, three,
};

pub(super) const COMPARISON_HEADS: [&str; 8] = [
    "Axis",
    "Value",
    "Time ratio",
    "95 % interval",
    "Rate ratio",
    "95 % interval",
    "p",
    "In words",
];
pub(super) const FAILURE_HEADS: [&str; 6] =
    ["Cell", "Values", "Starts", "What happened", "Then", "Runs"];
/// Runs of a failure that are named.
const MOST_NAMED: usize = 3;

/// In what times are told.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(super) struct Unit {
    name: &'static str,
    of_a_second: f64,
    decimals: usize,
}

impl Unit {
    /// Milliseconds where all epochs are shorter than a second, and so many decimals that the shortest has three digits.
    pub(super) fn of(figures: &Figures) -> Self {
        let known = || {
            figures
                .cells
                .iter()
                .filter_map(|cell| cell.epoch_seconds_median)
        };
        let (least, most) =
            known().fold((f64::INFINITY, 0.0_f64), |(a, b), x| (a.min(x), b.max(x)));
        let (name, of_a_second) = if most > 0.0 && most < 1.0 {
            ("ms", 1e3)
        } else {
            ("s", 1.0)
        };
        let least = if least.is_finite() {
            least * of_a_second
        } else {
            1.0
        };
        Self {
            name,
            of_a_second,
            decimals: decimals(least),
        }
    }

    /// `1.250`; what is shorter than nothing has a minus.
    fn shown(&self, seconds: f64) -> String {
        let text = fixed(seconds * self.of_a_second, self.decimals);
        let is_nothing = !text.contains(|c| matches!(c, '1'..='9'));
        if is_nothing {
            text.trim_start_matches('-').to_owned()
        } else {
            text
        }
    }

    fn or_unknown(&self, seconds: Option<f64>) -> String {
        or_unknown(seconds, |seconds| self.shown(seconds))
    }
}

/// Heads of the figures of a cell, beside its number and its values.
pub(super) fn figure_heads(unit: Unit) -> Vec<String> {
    let Unit { name, .. } = unit;
    vec![
        "n".to_owned(),
        format!("Median, {name}"),
        format!("Mean, {name}"),
        format!("95 % interval, {name}"),
        format!("First longer by, {name}"),
        "Samples/s".to_owned(),
        "Failed".to_owned(),
    ]
}

/// Heads of all columns of the cells.
pub(super) fn cell_heads(figures: &Figures) -> Vec<String> {
    let axes = figures.axes.iter().map(|axis| axis.short.clone());
    let heads = figure_heads(Unit::of(figures));
    std::iter::once("Cell".to_owned())
        .chain(axes)
        .chain(heads)
        .collect()
}

/// The rows of the cells.
pub(super) fn cell_rows(figures: &Figures) -> Vec<Vec<String>> {
    let unit = Unit::of(figures);
    figures
        .begun()
        .into_iter()
        .map(|cell| cell.row(unit, 0))
        .collect()
}

impl CellFigures {
    /// Its row, without its values on the first so many axes.
    pub(super) fn row(&self, unit: Unit, told: usize) -> Vec<String> {
        let values = self.values.iter().skip(told).cloned();
        std::iter::once(self.cell.to_string())
            .chain(values)
            .chain(self.figures(unit))
            .collect()
    }

    fn figures(&self, unit: Unit) -> [String; 7] {
        [
            count(self.runs as u64),
            unit.or_unknown(self.epoch_seconds_median),
            unit.or_unknown(self.epoch_seconds_mean),
            interval(
                self.epoch_seconds_low.zip(self.epoch_seconds_high),
                |seconds| unit.shown(seconds),
            ),
            unit.or_unknown(self.first_extra_seconds_median),
            or_unknown(self.samples_per_second, short),
            count(
                self.failures
                    .iter()
                    .filter(|failure| !failure.mended)
                    .count() as u64,
            ),
        ]
    }
}

impl Comparison {
    /// `xla against none`.
    pub(super) fn values(&self) -> String {
        format!("{} against {}", self.value, self.baseline)
    }

    /// Its row.
    pub(super) fn row(&self) -> Vec<String> {
        let on = if self.others.is_empty() {
            String::new()
        } else {
            format!(", at {}", self.others)
        };
        [self.axis.clone(), format!("{}{on}", self.values())]
            .into_iter()
            .chain(self.effect.row())
            .collect()
    }
}

impl Effect {
    /// Its part of a row.
    pub(super) fn row(&self) -> [String; 6] {
        [
            three(self.time_ratio),
            interval(self.time_ratio_low.zip(self.time_ratio_high), three),
            or_unknown(self.rate_ratio, three),
            interval(self.rate_ratio_low.zip(self.rate_ratio_high), three),
            or_unknown(self.p_adjusted, probability),
            self.in_words(),
        ]
    }

    /// The effect in words.
    #[must_use]
    pub fn in_words(&self) -> String {
        let mut way = change(self.time_ratio);
        if self.pairs > 1 {
            let (least, most) = (self.least_time_ratio, self.most_time_ratio);
            way = format!("{way} on average, {least:.2} to {most:.2} fold");
        }
        match self.p_adjusted {
            None => format!("{way}, of too few runs to tell by how much it varies"),
            Some(_) if self.significant => format!("{way}: significant"),
            Some(_) => "no difference that so few runs could show".to_owned(),
        }
    }
}

/// Failures as rows, those of a cell that failed in the same way together.
pub(super) fn failures(figures: &Figures) -> Vec<Vec<String>> {
    figures.cells.iter().flat_map(failures_of).collect()
}

fn failures_of(cell: &CellFigures) -> Vec<Vec<String>> {
    let mut alike: BTreeMap<(bool, &str), Vec<&str>> = BTreeMap::new();
    for failure in &cell.failures {
        alike
            .entry((failure.mended, &failure.why))
            .or_default()
            .push(&failure.run_id.as_str()[..6]);
    }
    let row = |((mended, why), runs): ((bool, &str), Vec<&str>)| {
        let then = if mended {
            "another try counts"
        } else {
            "it counts for nothing"
        };
        let beyond = runs.len().saturating_sub(MOST_NAMED);
        let more = if beyond > 0 {
            format!(" and {beyond} more")
        } else {
            String::new()
        };
        let named = runs[..runs.len() - beyond].join(", ");
        vec![
            cell.cell.to_string(),
            cell.values.join(", "),
            count(runs.len() as u64),
            why.to_owned(),
            then.to_owned(),
            format!("{named}{more}"),
        ]
    };
    alike.into_iter().map(row).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::report::number::UNKNOWN;

    #[test]
    fn bounds_below_zero_are_numbers() {
        let unit = Unit {
            name: "s",
            of_a_second: 1.0,
            decimals: 2,
        };
        let shown = |bounds| interval(bounds, |seconds| unit.shown(seconds));
        assert_eq!(shown(Some((-0.125, 0.5))), "-0.12 to 0.50");
        assert_eq!(shown(Some((-0.5, -0.25))), "-0.50 to -0.25");
        assert_eq!(shown(Some((0.25, 0.5))), "0.25 – 0.50");
        assert_eq!(shown(None), UNKNOWN);
        assert_eq!(unit.or_unknown(Some(-1.5)), "-1.50");
        assert_eq!(unit.or_unknown(Some(-0.001)), "0.00");
    }
}
