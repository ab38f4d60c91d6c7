//! The figures as a table or as JSON.

use std::error::Error;
use std::fmt::Write as _;

use comfy_table::{Table, presets};
use serde_json::{Value, json};

/// What came out.
#[derive(Debug, Clone)]
pub(crate) enum Outcome {
    /// A figure with a limit. Bounds are those of its 95 % confidence interval, where there is one.
    Budget {
        figure: f64,
        bounds: Option<(f64, f64)>,
        budget: f64,
        unit: &'static str,
    },
    /// A figure that nothing limits.
    Figure { figure: f64, unit: &'static str },
    /// No figure, and why.
    NotMeasured(String),
}

/// One line of the table.
#[derive(Debug, Clone)]
pub(crate) struct Row {
    pub(crate) name: &'static str,
    pub(crate) what: String,
    pub(crate) outcome: Outcome,
    pub(crate) detail: String,
}

impl Row {
    pub(crate) fn budget(
        name: &'static str,
        what: &str,
        figure: f64,
        unit: &'static str,
        budget: f64,
    ) -> Self {
        let outcome = Outcome::Budget {
            figure,
            bounds: None,
            budget,
            unit,
        };
        Self {
            name,
            what: what.to_owned(),
            outcome,
            detail: String::new(),
        }
    }

    pub(crate) fn figure(name: &'static str, what: &str, figure: f64, unit: &'static str) -> Self {
        let outcome = Outcome::Figure { figure, unit };
        Self {
            name,
            what: what.to_owned(),
            outcome,
            detail: String::new(),
        }
    }

    pub(crate) fn not_measured(name: &'static str, what: &str, why: impl Into<String>) -> Self {
        let outcome = Outcome::NotMeasured(why.into());
        Self {
            name,
            what: what.to_owned(),
            outcome,
            detail: String::new(),
        }
    }

    /// A topic that could not be measured at all.
    pub(crate) fn failed(name: &'static str, error: &dyn Error) -> Self {
        Self::not_measured(name, "all of it", error.to_string())
    }

    pub(crate) fn within(mut self, low: f64, high: f64) -> Self {
        if let Outcome::Budget { bounds, .. } = &mut self.outcome {
            *bounds = Some((low, high));
        }
        self
    }

    pub(crate) fn detailed(mut self, detail: impl Into<String>) -> Self {
        self.detail = detail.into();
        self
    }

    fn shown_figure(&self) -> String {
        match &self.outcome {
            Outcome::Budget {
                figure,
                bounds: Some((low, high)),
                unit,
                ..
            } => {
                format!("{figure:.2} {unit} [{low:.2} .. {high:.2}]")
            }
            Outcome::Budget { figure, unit, .. } | Outcome::Figure { figure, unit } => {
                format!("{figure:.2} {unit}")
            }
            Outcome::NotMeasured(_) => "-".to_owned(),
        }
    }

    fn shown_budget(&self) -> String {
        match &self.outcome {
            Outcome::Budget { budget, unit, .. } => format!("{budget} {unit}"),
            _ => "-".to_owned(),
        }
    }

    fn verdict(&self) -> String {
        match &self.outcome {
            Outcome::Budget {
                bounds: Some((low, high)),
                budget,
                ..
            } if low <= budget && high > budget => {
                "cannot tell: the budget lies inside the interval".to_owned()
            }
            Outcome::Budget { figure, budget, .. } if figure <= budget => "budget met".to_owned(),
            Outcome::Budget { .. } => "budget NOT met".to_owned(),
            Outcome::Figure { .. } => String::new(),
            Outcome::NotMeasured(why) => format!("not measured: {why}"),
        }
    }

    fn to_json(&self) -> Value {
        let (figure, bounds, budget, unit) = match &self.outcome {
            Outcome::Budget {
                figure,
                bounds,
                budget,
                unit,
            } => (Some(*figure), *bounds, Some(*budget), Some(*unit)),
            Outcome::Figure { figure, unit } => (Some(*figure), None, None, Some(*unit)),
            Outcome::NotMeasured(_) => (None, None, None, None),
        };
        json!({
            "row": self.name, "what": self.what, "figure": figure, "bounds_95": bounds, "budget": budget, "unit": unit,
            "verdict": self.verdict(), "detail": self.detail,
        })
    }
}

/// All rows, and how busy the machine was.
#[derive(Debug)]
pub(crate) struct Report {
    pub(crate) rows: Vec<Row>,
    load_before: String,
}

impl Report {
    pub(crate) fn begin() -> Self {
        Self {
            rows: Vec::new(),
            load_before: load(),
        }
    }

    pub(crate) fn to_text(&self) -> String {
        let mut table = Table::new();
        table.load_style(presets::NOTHING);
        table.set_header(["ROW", "WHAT", "FIGURE", "BUDGET", "VERDICT"]);
        for row in &self.rows {
            table.add_row([
                row.name.to_owned(),
                row.what.clone(),
                row.shown_figure(),
                row.shown_budget(),
                row.verdict(),
            ]);
        }
        let mut text = table.trim_fmt() + "\n\n";
        for row in self.rows.iter().filter(|row| !row.detail.is_empty()) {
            let _ = writeln!(text, "{}: {}: {}", row.name, row.what, row.detail);
        }
        let _ = writeln!(
            text,
            "CPUs: {}; load before: {}; after: {}",
            cpus(),
            self.load_before,
            load()
        );
        text
    }

    pub(crate) fn to_json(&self) -> Value {
        let rows: Vec<Value> = self.rows.iter().map(Row::to_json).collect();
        json!({ "schema_version": 1, "cpus": cpus(), "load_before": self.load_before, "load_after": load(), "rows": rows })
    }
}

fn cpus() -> usize {
    std::thread::available_parallelism().map_or(0, usize::from)
}

/// Load averages of 1, 5 and 15 minutes.
fn load() -> String {
    let text = std::fs::read_to_string("/proc/loadavg").unwrap_or_default();
    let averages: Vec<&str> = text.split(' ').take(3).collect();
    if averages.is_empty() {
        "unknown".to_owned()
    } else {
        averages.join(" ")
    }
}
