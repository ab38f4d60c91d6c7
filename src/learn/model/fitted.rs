//! The model: fitting it, and what it says of itself.

use std::collections::BTreeMap;

use bytes::Bytes;
use serde::{Deserialize, Serialize};

use super::calibrate::{Stretch, stretches};
use super::design::Design;
use super::experience::Experience;
use super::explanation::explain;
use super::facts::Facts;
use super::fit::State;
use super::gather::Gathered;
use super::hardware_met::HardwareMet;
use super::head::MODEL_FORMAT;
use super::response::Response;
use super::solution::{Solution, written};
use super::{Explanation, Head, Met, Observation, Priors, Unfit};
use crate::foundation::hash::Hash;
use crate::foundation::threads::on_threads;
use crate::job::SchedulerKind;

/// Variances are looked for on this many configurations; more of them say the same.
const SEARCHED: usize = 1_600;
/// Steps of that search, at most.
const SEARCH_STEPS: usize = 12;
/// The search is over when no variance changes by more than this share of itself.
const SETTLED: f64 = 0.05;

/// What recorded runs say about runs to come. It says the same for the same runs, priors and dlrun, to the last bit.
#[derive(Debug, Clone)]
pub struct Model {
    pub(super) head: Head,
    pub(super) learned: Learned,
}

/// What a model has learned.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub(super) struct Learned {
    pub(super) parts: Vec<Solution>,
    /// What was measured at all.
    pub(super) experience: Experience,
    compilers: BTreeMap<u64, Vec<String>>,
    hardware_met: HardwareMet,
    /// An [`Explanation`] as its bytes in a file: a plan needs none of it.
    explanation: Bytes,
}

impl Model {
    /// Learns from runs. Their order does not matter.
    ///
    /// # Errors
    /// Where there is nothing to learn from.
    pub fn fit(
        observations: impl IntoIterator<Item = Observation>,
        priors: &Priors,
    ) -> Result<Self, Unfit> {
        let mut gathered = Gathered::new(observations);
        if gathered.counts.runs == 0 {
            return Err(Unfit::NoRuns);
        }
        if gathered.counts.with_epochs + gathered.counts.whole_runs == 0 {
            return Err(nothing_timed(&gathered));
        }
        let work = Response::ALL.map(|response| {
            let values = std::mem::take(&mut gathered.values[response as usize]);
            (response, values)
        });
        let work: Vec<_> = work
            .into_iter()
            .filter(|(_, values)| !values.is_empty())
            .collect();
        // What is reported is of epochs, unless none was timed.
        let times = [Response::Epoch, Response::Whole];
        let reported = times
            .into_iter()
            .find(|time| work.iter().any(|(response, _)| response == time));
        let learned = on_threads(work, |(response, values)| {
            let design = Design::new(response, &gathered.groups, values, priors);
            part(
                &design,
                response,
                (reported == Some(response)).then_some(&gathered),
            )
            .ok_or_else(|| Unfit::Unsolvable {
                response: response.as_str(),
            })
        });
        let (mut parts, mut explanation, mut scatter) = (Vec::new(), None, None);
        for part in learned {
            let part = part?;
            gathered.counts.pooled += part.pooled;
            if let Some(report) = part.report {
                let counts = &mut gathered.counts;
                [
                    counts.coefficients,
                    counts.workloads,
                    counts.configurations,
                    counts.published,
                ] = report.sizes;
                counts.repeats = Some(report.repeats);
                (scatter, explanation) = (Some(report.scatter), Some(report.explanation));
            }
            parts.push(part.solution);
        }
        Ok(Self {
            head: head(&gathered, priors, scatter),
            learned: Learned {
                parts,
                experience: Experience::new(&gathered),
                compilers: gathered.compilers(),
                hardware_met: std::mem::take(&mut gathered.hardware_met).shortened(),
                explanation: written(&explanation.unwrap_or_default()),
            },
        })
    }

    /// What the model says of itself.
    #[must_use]
    pub fn head(&self) -> &Head {
        &self.head
    }

    /// Notes when it was made, in Unix milliseconds UTC.
    #[must_use]
    pub fn with_made_at(mut self, made_at_ms: u64) -> Self {
        self.head.made_at_ms = Some(made_at_ms);
        self
    }

    /// Notes how good it is.
    #[must_use]
    pub fn with_evaluation(mut self, evaluation: serde_json::Value) -> Self {
        self.head.evaluation = Some(evaluation);
        self
    }

    /// The kinds of hardware that jobs of these queues met, the commonest first; `None` among the queues: jobs that named none.
    /// Where no run was there: those of all the scheduler's runs. `on_gpus`: those that jobs with GPUs met.
    #[must_use]
    pub fn hardware_met(
        &self,
        scheduler: SchedulerKind,
        queues: &[Option<&str>],
        on_gpus: bool,
    ) -> Met {
        self.learned.hardware_met.met(scheduler, queues, on_gpus)
    }

    /// Whether a scheduler keeps its jobs from CPUs that they did not ask for, as far as the runs tell: some were kept, or all
    /// had their whole node.
    #[must_use]
    pub fn confines(&self, scheduler: SchedulerKind) -> Option<bool> {
        self.learned.hardware_met.confines(scheduler)
    }

    /// Compilers that were measured with a framework, in the order of their names.
    #[must_use]
    pub fn compilers_of(&self, framework: &str) -> Vec<&str> {
        let compilers = self.learned.compilers.get(&Facts::framework(framework));
        compilers.map_or_else(Vec::new, |compilers| {
            compilers.iter().map(String::as_str).collect()
        })
    }

    /// What it has learned; nothing where its file holds no such thing.
    #[must_use]
    pub fn explanation(&self) -> Explanation {
        postcard::from_bytes(&self.learned.explanation).unwrap_or_default()
    }
}

/// What was learned of one response.
struct Part {
    solution: Solution,
    pooled: u64,
    report: Option<Report>,
}

/// What a model reports of itself, of one of its responses.
struct Report {
    scatter: [f64; 2],
    explanation: Explanation,
    /// Coefficients, workloads, configurations and published effects.
    sizes: [u64; 4],
    repeats: u64,
}

fn part(design: &Design, response: Response, reported_with: Option<&Gathered>) -> Option<Part> {
    let (state, stretch) = solved(design, response)?;
    let components = &state.components;
    let report = reported_with.map(|gathered| Report {
        scatter: [components.noise, components.interaction.0].map(f64::sqrt),
        explanation: explain(&state, gathered),
        sizes: [
            design.layout.keys.len(),
            design.spans.len(),
            design.cells.len(),
            design.pseudo.len(),
        ]
        .map(|size| size as u64),
        repeats: design.repeats() as u64,
    });
    Some(Part {
        solution: Solution::new(&state, stretch)?,
        pooled: design.pooled,
        report,
    })
}

/// Finds variances on a part of the configurations, then the solution on all.
fn solved(design: &Design, response: Response) -> Option<(State<'_>, Stretch)> {
    let Some(sample) = design.sample(SEARCHED) else {
        let state = searched(State::new(design, response))?;
        let stretch = stretches(&state);
        return Some((state, stretch));
    };
    let searched = searched(State::new(&sample, response))?;
    let stretch = stretches(&searched);
    Some((searched.on_all(design)?, stretch))
}

fn searched(mut state: State<'_>) -> Option<State<'_>> {
    state.step()?;
    for _ in 0..SEARCH_STEPS {
        state.step()?;
        if state.learn_components() < SETTLED {
            break;
        }
    }
    state.step()?;
    state.learn_leverages();
    Some(state)
}

fn head(gathered: &Gathered, priors: &Priors, scatter: Option<[f64; 2]>) -> Head {
    let data_hash = gathered.data_hash();
    let published = priors.effects.iter().fold(0_u64, |sum, effect| {
        let hash = Hash::new(9)
            .number(Facts::new(&effect.a).fingerprint())
            .number(Facts::new(&effect.b).fingerprint());
        let hash = hash.number(effect.time_ratio.to_bits());
        sum.wrapping_add(hash.number(effect.sd.to_bits()).end())
    });
    Head {
        dlrun_model: MODEL_FORMAT,
        name: format!("{}-{:04x}", &data_hash[..8], published & 0xffff),
        made_at_ms: None,
        made_by: env!("CARGO_PKG_VERSION").to_owned(),
        data_hash,
        first_at_ms: gathered.first_at_ms,
        last_at_ms: gathered.last_at_ms,
        counts: gathered.counts.clone(),
        noise_sd: scatter.map(|sds| sds[0]),
        interaction_sd: scatter.map(|sds| sds[1]),
        evaluation: None,
    }
}

fn nothing_timed(gathered: &Gathered) -> Unfit {
    let left_out = gathered.counts.left_out.iter();
    let summary = left_out.map(|(what, count)| format!("{count} unusable {what}"));
    let summary: Vec<String> = summary.collect();
    let none = || "no epochs, no length".to_owned();
    Unfit::NothingTimed {
        runs: gathered.counts.runs,
        left_out: Some(summary.join(", "))
            .filter(|text| !text.is_empty())
            .unwrap_or_else(none),
    }
}
