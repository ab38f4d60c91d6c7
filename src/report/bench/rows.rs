//! Rows of a matrix's tables, which all forms of the report share. Numbers of a column have the same unit and as many decimals.

use std::collections::BTreeMap;

use super::figures::{CellFigures, Comparison, Effect, Figures};
use crate::report::number::{
    change, count, counted, decimals, fixed, instant, interval, or_unknown, probability, range,
    short, three,
};

/// A table: its heads and its rows.
pub type Rows = (Vec<String>, Vec<Vec<String>>);

const COMPARISON_HEADS: [&str; 8] = [
    "Axis",
    "Value",
    "Time ratio",
    "95 % interval",
    "Rate ratio",
    "95 % interval",
    "p",
    "In words",
];
const FAILURE_HEADS: [&str; 6] = ["Cell", "Values", "Starts", "What happened", "Then", "Runs"];
/// Runs of a failure that are named.
const MOST_NAMED: usize = 3;

/// The unit in which times are shown.
#[derive(Debug, Clone, Copy, PartialEq)]
struct Unit {
    name: &'static str,
    of_a_second: f64,
    decimals: usize,
}

impl Unit {
    /// Milliseconds where all epochs are shorter than a second, and so many decimals that the shortest has three digits.
    fn of(figures: &Figures) -> Self {
        let known = figures
            .cells
            .iter()
            .filter_map(|cell| cell.epoch_seconds_median);
        let (least, most) = range(known);
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

impl Figures {
    /// The cells as a table.
    #[must_use]
    pub fn cell_rows(&self) -> Rows {
        let unit = Unit::of(self);
        let name = unit.name;
        let axes = self.axes.iter().map(|axis| axis.short.clone());
        let figures = [
            "n".to_owned(),
            format!("Median, {name}"),
            format!("Mean, {name}"),
            format!("95 % interval, {name}"),
            format!("First longer by, {name}"),
            "Samples/s".to_owned(),
            "Failed".to_owned(),
        ];
        let first = std::iter::once("Cell".to_owned());
        let heads = first.chain(axes).chain(figures).collect();
        let cells = self.begun().into_iter();
        (heads, cells.map(|cell| cell.row(unit)).collect())
    }

    /// The effects of values over all pairs as a table; `None` where each has one pair: then the comparisons say all.
    #[must_use]
    pub fn effect_rows(&self) -> Option<Rows> {
        let has_several = self.effects.iter().any(|effect| effect.effect.pairs > 1);
        has_several.then(|| rows_of(&self.effects))
    }

    /// The comparisons of pairs as a table.
    #[must_use]
    pub fn comparison_rows(&self) -> Rows {
        rows_of(&self.comparisons)
    }

    /// What failed, as a table.
    #[must_use]
    pub fn failure_rows(&self) -> Rows {
        let rows = self.cells.iter().flat_map(failures_of).collect();
        (FAILURE_HEADS.map(str::to_owned).into(), rows)
    }

    /// What was asked for and the conditions: pairs of a name and what it is.
    #[must_use]
    pub fn facts(&self) -> Vec<(&'static str, String)> {
        let asked = &self.asked;
        let whole = if asked.exclusive {
            "nodes not shared"
        } else {
            "nodes may be shared"
        };
        let design = format!(
            "{}, {}, {} of warm-up left out, order by seed {}, {whole}, {} at a time, by {}",
            counted(self.cells.len() as u64, "cell"),
            counted(asked.repeats.into(), "repeat"),
            counted(asked.warm_up_epochs.into(), "epoch"),
            asked.seed,
            counted(asked.max_jobs.into(), "job"),
            asked.scheduler.as_str()
        );
        let (asked_runs, failed) = (self.runs_asked, self.runs_failed);
        let runs = format!(
            "{} of {asked_runs} count, {failed} failed",
            self.runs_measured
        );
        let own = [
            ("Matrix", asked.file.clone()),
            ("Begun", format!("{} UTC", instant(self.began_at_ms))),
            ("Design", design),
            ("Runs", runs),
        ];
        own.into_iter().chain(self.environment.facts()).collect()
    }
}

fn rows_of(comparisons: &[Comparison]) -> Rows {
    let rows = comparisons.iter().map(Comparison::row).collect();
    (COMPARISON_HEADS.map(str::to_owned).into(), rows)
}

impl CellFigures {
    fn row(&self, unit: Unit) -> Vec<String> {
        let bounds = self.epoch_seconds_low.zip(self.epoch_seconds_high);
        let failed = self.failures.iter().filter(|failure| !failure.mended);
        let figures = [
            count(self.runs as u64),
            unit.or_unknown(self.epoch_seconds_median),
            unit.or_unknown(self.epoch_seconds_mean),
            interval(bounds, |seconds| unit.shown(seconds)),
            unit.or_unknown(self.first_extra_seconds_median),
            or_unknown(self.samples_per_second, short),
            count(failed.count() as u64),
        ];
        std::iter::once(self.cell.to_string())
            .chain(self.values.iter().cloned())
            .chain(figures)
            .collect()
    }
}

impl Comparison {
    fn row(&self) -> Vec<String> {
        let effect = &self.effect;
        let mut values = format!("{} against {}", self.value, self.baseline);
        if !self.others.is_empty() {
            values = format!("{values}, at {}", self.others);
        }
        vec![
            self.axis.clone(),
            values,
            three(effect.time_ratio),
            interval(effect.time_ratio_low.zip(effect.time_ratio_high), three),
            or_unknown(effect.rate_ratio, three),
            interval(effect.rate_ratio_low.zip(effect.rate_ratio_high), three),
            or_unknown(effect.p_adjusted, probability),
            effect.in_words(),
        ]
    }
}

impl Effect {
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

/// The failures of a cell, those that failed in the same way together.
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
        let mut named = runs[..runs.len().min(MOST_NAMED)].join(", ");
        if runs.len() > MOST_NAMED {
            named = format!("{named} and {} more", runs.len() - MOST_NAMED);
        }
        vec![
            cell.cell.to_string(),
            cell.values.join(", "),
            count(runs.len() as u64),
            why.to_owned(),
            then.to_owned(),
            named,
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
