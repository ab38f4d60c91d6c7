//! Rows of a matrix's tables, which all forms of the report share. Numbers of a column have the same unit and as many decimals.

use super::figures::{CellFigures, Comparison, Effect, Figures};
use crate::report::compare::RATIO_HEADS;
use crate::report::number::{
    change, count, counted, instant, interval, or_unknown, probability, short, three,
};

/// A table: its heads and its rows.
pub type Rows = (Vec<String>, Vec<Vec<String>>);

const FAILURE_HEADS: [&str; 5] = ["Cell", "Values", "What happened", "Then", "Run"];

impl Figures {
    /// The cells as a table.
    #[must_use]
    pub fn cell_rows(&self) -> Rows {
        let axes = self.axes.iter().map(|axis| axis.short.clone());
        let figures = [
            "n".to_owned(),
            "Median, s".to_owned(),
            "Mean, s".to_owned(),
            "95 % interval, s".to_owned(),
            "First longer by, s".to_owned(),
            "Samples/s".to_owned(),
            "Failed".to_owned(),
        ];
        let first = std::iter::once("Cell".to_owned());
        let heads = first.chain(axes).chain(figures).collect();
        let cells = self.begun().into_iter();
        (heads, cells.map(CellFigures::row).collect())
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
    let heads = ["Axis", "Value"].into_iter().chain(RATIO_HEADS);
    (heads.map(str::to_owned).collect(), rows)
}

impl CellFigures {
    fn row(&self) -> Vec<String> {
        let bounds = self.epoch_seconds_low.zip(self.epoch_seconds_high);
        let failed = self.failures.iter().filter(|failure| !failure.mended);
        let figures = [
            count(self.runs as u64),
            or_unknown(self.epoch_seconds_median, short),
            or_unknown(self.epoch_seconds_mean, short),
            interval(bounds, short),
            or_unknown(self.first_extra_seconds_median, short),
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
            None => format!("{way}, of too few runs to know how much it varies"),
            Some(_) if self.significant => format!("{way}: significant"),
            Some(_) => "no difference that so few runs could show".to_owned(),
        }
    }
}

/// The failures of a cell.
fn failures_of(cell: &CellFigures) -> impl Iterator<Item = Vec<String>> {
    cell.failures.iter().map(|failure| {
        let then = match failure.mended {
            true => "another try counts",
            false => "it counts for nothing",
        };
        vec![
            cell.cell.to_string(),
            cell.values.join(", "),
            failure.why.clone(),
            then.to_owned(),
            failure.run_id.as_str()[..6].to_owned(),
        ]
    })
}
