//! What the job file leaves to the performance model: nodes and compiler; and what it expects.

use super::candidates::{Prospect, named, says_what_it_trains};
use super::decisions::{JOB_FILE, Resolver};
use super::{Candidate, Rejected, forecast_text};
use crate::job::NodeCount;
use crate::record::Basis;

/// More other choices are not named in a decision.
const MAX_NAMED: usize = 8;

impl Resolver<'_> {
    /// Fills in the nodes, which follow from the candidates; of a range with the decision.
    pub(super) fn settle(&mut self, prospect: &Prospect) {
        if let Some(chosen) = prospect.chosen() {
            self.plan.resources.nodes = chosen.nodes;
        }
        let asked = self.spec.resources.nodes.as_ref().map(|nodes| nodes.value);
        let (
            Some(NodeCount::Between {
                min,
                max,
                efficiency,
            }),
            Some(chosen),
        ) = (asked, prospect.chosen())
        else {
            return;
        };
        let is_size =
            |other: &&Candidate| other.image == chosen.image && other.compiler == chosen.compiler;
        let sizes: Vec<&Candidate> = prospect.candidates.iter().filter(is_size).collect();
        let mut why = format!("{JOB_FILE}: {min} to {max}");
        let reason = prospect.reason(|other| is_size(&other) && other.nodes != chosen.nodes);
        match (reason, chosen.efficiency_ratio) {
            (Some(reason), Some(ratio)) => {
                let (ratio, least) = (
                    forecast_text::per_cent(ratio),
                    forecast_text::per_cent(efficiency),
                );
                why = format!(
                    "{why}; {reason}; parallel efficiency {ratio}, at least {least} is asked"
                );
            }
            (None, _) if sizes.len() > 1 => {
                why.push_str(&format!("; the fewest, for {}", prospect.without_model()))
            }
            _ => {}
        }
        if let Some(limit) = &prospect.most_nodes {
            why = format!("{why}; {limit}");
        }
        let others = sizes
            .iter()
            .filter(|other| other.nodes != chosen.nodes)
            .take(MAX_NAMED);
        let rejected = others.filter_map(|other| {
            let time = forecast_text::time(other.forecast.as_ref()?);
            let why = match (&other.rejected, other.efficiency_ratio) {
                (Some(why), _) => format!("{time}, but {why}"),
                (None, Some(ratio)) => {
                    format!(
                        "{time}, parallel efficiency {}",
                        forecast_text::per_cent(ratio)
                    )
                }
                (None, None) => time,
            };
            Some(Rejected {
                value: other.nodes.to_string(),
                why,
            })
        });
        let rejected = rejected.collect();
        self.redecide("nodes", chosen.nodes.to_string(), why, rejected);
    }

    /// The decisions on the compiler, where it is left to choose, and on what is to be expected. `since` is what changed where the
    /// last runs differ from those before.
    pub(super) fn decide_forecast(&mut self, prospect: &Prospect, since: Option<String>) {
        let Some(chosen) = prospect.chosen() else {
            return;
        };
        if self.spec.leaves_compiler {
            self.compiled(prospect, chosen);
        }
        let (Some(forecast), Some(model)) = (&chosen.forecast, &prospect.model) else {
            // Jobs that nobody declares and that never ran are no news.
            let is_news = says_what_it_trains(self.spec);
            if let Some(why) = prospect.silence.as_ref().filter(|_| is_news) {
                self.decide(
                    "forecast",
                    "none",
                    format!("the performance model cannot predict this job: {why}"),
                );
            }
            return;
        };
        let mut why = format!(
            "model {} ({}), {}",
            forecast.model,
            model.origin,
            forecast_text::basis_of(forecast)
        );
        if let Some(shift) = &forecast.shift {
            let since = since.map_or_else(String::new, |since| format!(", {since}"));
            why.push_str(&format!("; {}{since}", forecast_text::shift(shift)));
        }
        self.decide("forecast", forecast_text::all_of(forecast), why);
        for beyond in &forecast.beyond {
            self.plan.notes.push(format!(
                "the forecast goes beyond what was measured: {beyond}"
            ));
        }
        self.plan.notes.extend(prospect.assumed_hardware.clone());
        self.plan.notes.extend(
            forecast
                .assumed
                .iter()
                .map(|assumed| format!("the job file leaves it out: {assumed}")),
        );
        if self.spec.workload.samples.is_none() && forecast.basis > Basis::Workload {
            let why = "without it runs of other trainings cannot be compared with this one";
            self.plan
                .notes
                .push(format!("`workload.samples` is not set: {why}"));
        }
    }

    fn compiled(&mut self, prospect: &Prospect, chosen: &Candidate) {
        let is_other = |other: &Candidate| {
            other.compiler != chosen.compiler
                && other.image == chosen.image
                && other.nodes == chosen.nodes
        };
        let why = match prospect.reason(is_other) {
            Some(reason) => reason,
            None => format!(
                "{}; rules decide, for {}",
                prospect.compiler_rule,
                prospect.without_model()
            ),
        };
        let compiler = chosen.compiler.clone().unwrap_or_default();
        self.decide(
            "compiler",
            compiler,
            format!("the job file leaves it open; {why}"),
        );
        for other in prospect
            .candidates
            .iter()
            .filter(|other| is_other(other))
            .take(MAX_NAMED)
        {
            let why = match &other.forecast {
                Some(forecast) => {
                    format!(
                        "{}, {}",
                        forecast_text::time(forecast),
                        forecast_text::basis_of(forecast)
                    )
                }
                None => "rules put it behind".to_owned(),
            };
            self.reject(named(other.compiler.as_deref().unwrap_or_default()), why);
        }
    }
}
