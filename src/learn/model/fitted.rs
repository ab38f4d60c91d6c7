//! The model: fitting it, and what it says of itself.

use std::collections::BTreeMap;
use std::sync::Arc;

use serde::{Deserialize, Serialize};

use super::bytes::Writer;
use super::calibrate::{Stretch, stretches};
use super::design::Design;
use super::experience::{self, Experience};
use super::facts::Facts;
use super::fit::State;
use super::gather::Gathered;
use super::hardware_met::HardwareMet;
use super::head::MODEL_FORMAT;
use super::pieces::{Back, Place};
use super::response::Response;
use super::solution::{self, Outline, Solution};
use super::{Explanation, Head, Met, Observation, Priors, Unfit, Unreadable};
use crate::foundation::statistics::mixed;
use crate::job::SchedulerKind;

/// Variances are looked for on this many configurations; more of them say the same.
const SEARCHED: usize = 1_600;
/// Steps of that search, at most.
const SEARCH_STEPS: usize = 12;
/// The search is over when no variance changes by more than this share of itself.
const SETTLED: f64 = 0.05;
/// Steps of the solution, with the variances given.
const STEPS: usize = 3;

/// With fewer configurations than this a second thread costs more than it saves.
const WORTH_A_THREAD: usize = 500;

/// What recorded runs say about runs to come. It says the same for the same runs, priors and dlrun, to the last bit.
#[derive(Debug, Clone)]
pub struct Model {
    pub(super) head: Head,
    pub(super) tables: Tables,
    /// What was measured at all.
    pub(super) experience: Experience,
    /// The solutions, as [`Tables::outlines`] has them.
    pub(super) parts: Vec<Solution>,
    /// What every forecast needs, behind the file's first line where it was read from one.
    pub(super) front: Arc<Vec<u8>>,
    pub(super) line_bytes: usize,
    pub(super) back: Back,
}

/// What is short, as JSON.
#[derive(Debug, Clone, Default, Serialize, Deserialize)]
pub(super) struct Tables {
    pub(super) outlines: Vec<Outline>,
    pub(super) compilers: BTreeMap<u64, Vec<String>>,
    #[serde(rename = "usual")]
    pub(super) hardware_met: HardwareMet,
    /// Where the [`Explanation`] lies, as JSON.
    pub(super) explanation: Place,
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
        // The first one is what an explanation is of: epochs, unless none was timed.
        let mut responses: Vec<Response> = Response::ALL.to_vec();
        responses.retain(|response| !gathered.values[*response as usize].is_empty());
        let of_times = |response: &&Response| matches!(response, Response::Epoch | Response::Whole);
        let explained = responses.iter().find(of_times).copied();
        let learned = all_learned(&responses, explained, &gathered, priors)?;
        let mut tables = Tables::default();
        let (mut parts, mut back, mut explanation, mut scatter) =
            (Vec::new(), Vec::new(), Explanation::default(), (None, None));
        let mut from = 0;
        for its in learned {
            gathered.counts.pooled += its.pooled;
            if let Some(summary) = its.summary {
                let components = &its.outline.components;
                scatter = (
                    Some(components.noise.sqrt()),
                    Some(components.interaction.sqrt()),
                );
                [
                    gathered.counts.coefficients,
                    gathered.counts.workloads,
                    gathered.counts.configurations,
                    gathered.counts.published,
                ] = summary.counts;
                gathered.counts.repeats = Some(summary.repeats);
                explanation = summary.explanation;
            }
            // A file of many workloads is large: what was written is not copied again.
            tables.outlines.push(Outline {
                from,
                ..its.outline
            });
            from += its.part.own.len() as u64;
            parts.push(its.part.shared);
            back.push(Arc::new(its.part.own));
        }
        tables.compilers = gathered.compilers();
        tables.hardware_met = std::mem::take(&mut gathered.hardware_met).shortened();
        let explanation =
            serde_json::to_vec(&explanation).expect("numbers and text with text as keys");
        let crc32 = crc32fast::hash(&explanation);
        tables.explanation = Place {
            from,
            length: explanation.len(),
            crc32,
        };
        back.push(Arc::new(explanation));
        let mut known = Writer::default();
        experience::write(&gathered, &mut known);
        let head = head(&gathered, priors, scatter);
        drop(gathered);
        let front = tables.front(&known.0, &parts);
        Self::of_parts(head, front, 0, Back::Here(back))
            .ok_or(Unfit::Unsolvable { response: "file" })
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
        self.tables.hardware_met.met(scheduler, queues, on_gpus)
    }

    /// Whether a scheduler keeps its jobs from CPUs that they did not ask for, as far as the runs tell: some were kept, or all
    /// had their whole node.
    #[must_use]
    pub fn confines(&self, scheduler: SchedulerKind) -> Option<bool> {
        self.tables.hardware_met.confines(scheduler)
    }

    /// Compilers that were measured with a framework, in the order of their names.
    #[must_use]
    pub fn compilers_of(&self, framework: &str) -> Vec<&str> {
        let compilers = self.tables.compilers.get(&Facts::framework(framework));
        compilers.map_or_else(Vec::new, |compilers| {
            compilers.iter().map(String::as_str).collect()
        })
    }

    /// What it has learned.
    ///
    /// # Errors
    /// Where that piece of its file is damaged or cannot be read.
    pub fn explanation(&self) -> Result<Explanation, Unreadable> {
        let piece = self.back.piece(self.tables.explanation);
        let read = piece.and_then(|text| serde_json::from_slice(&text).ok());
        read.ok_or(Unreadable::Damaged("what it says of itself cannot be read"))
    }

    /// What is known of a response; `None`: nothing was measured of it.
    pub(super) fn part(&self, response: Response) -> Option<&Solution> {
        let mut parts = self.parts.iter();
        parts.find(|part| part.outline.response == response)
    }
}

impl Tables {
    /// What every forecast needs.
    fn front(&self, known: &[u8], parts: &[Vec<u8>]) -> Vec<u8> {
        let mut front = Writer::default();
        front.block(&serde_json::to_vec(self).expect("numbers and text with text as keys"));
        front.block(known);
        parts.iter().for_each(|part| front.block(part));
        front.0
    }
}

/// What was learned of a response.
struct Learned {
    outline: Outline,
    part: solution::Bytes,
    /// Levels without a coefficient of their own.
    pooled: u64,
    summary: Option<Summary>,
}

/// What is reported of the response that all is explained by.
struct Summary {
    explanation: Explanation,
    /// Coefficients, workloads, configurations, published effects.
    counts: [u64; 4],
    /// See [`super::Counts::repeats`].
    repeats: u64,
}

/// Learns the responses: the first, which is about as much work as all others, beside those. Two at a time, since each takes memory
/// of its own. No response depends on another, so the result is the same as one after the other.
fn all_learned(
    responses: &[Response],
    explained: Option<Response>,
    gathered: &Gathered,
    priors: &Priors,
) -> Result<Vec<Learned>, Unfit> {
    let learn =
        |response: &Response| learned(*response, explained == Some(*response), gathered, priors);
    let learn_all = |responses: &[Response]| -> Result<Vec<Learned>, Unfit> {
        responses.iter().map(learn).collect()
    };
    let (first, others) = responses.split_at(responses.len().min(1));
    if gathered.groups.len() < WORTH_A_THREAD {
        return learn_all(responses);
    }
    std::thread::scope(|scope| {
        // Where no thread can be had, it takes longer.
        let beside = std::thread::Builder::new().spawn_scoped(scope, || learn_all(others));
        let mut all = learn_all(first)?;
        all.extend(match beside {
            Ok(beside) => beside
                .join()
                .unwrap_or_else(|panic| std::panic::resume_unwind(panic))?,
            Err(_) => learn_all(others)?,
        });
        Ok(all)
    })
}

fn learned(
    response: Response,
    explained: bool,
    gathered: &Gathered,
    priors: &Priors,
) -> Result<Learned, Unfit> {
    let unsolvable = || Unfit::Unsolvable {
        response: response.as_str(),
    };
    let design = Design::new(response, gathered, priors);
    let (state, stretch) = solved(&design, response).ok_or_else(unsolvable)?;
    let summary = explained.then(|| Summary {
        explanation: super::explanation::explain(&state, gathered),
        counts: [
            design.layout.keys.len(),
            design.spans.len(),
            design.cells.len(),
            design.pseudo.len(),
        ]
        .map(count),
        repeats: count(design.repeats()),
    });
    let part = solution::write(&state).ok_or_else(unsolvable)?;
    let components = state.components.clone();
    let outline = Outline {
        response,
        centres: design.layout.centres,
        components,
        stretch,
        from: 0,
    };
    Ok(Learned {
        outline,
        part,
        pooled: design.pooled,
        summary,
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
    let mut state = State::new(design, response).with_components(searched.components);
    for _ in 0..STEPS {
        state.step()?;
    }
    Some((state, stretch))
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

fn head(gathered: &Gathered, priors: &Priors, scatter: (Option<f64>, Option<f64>)) -> Head {
    let data_hash = gathered.data_hash();
    let published = priors.effects.iter().fold(0_u64, |sum, effect| {
        let parts = [
            Facts::new(&effect.a).fingerprint(),
            Facts::new(&effect.b).fingerprint(),
        ];
        let numbers = [effect.time_ratio.to_bits(), effect.sd.to_bits()];
        sum.wrapping_add(
            parts
                .into_iter()
                .chain(numbers)
                .fold(1, |hash, part| mixed(hash ^ part).rotate_left(7)),
        )
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
        noise_sd: scatter.0,
        interaction_sd: scatter.1,
        evaluation: None,
    }
}

fn nothing_timed(gathered: &Gathered) -> Unfit {
    let left_out = &gathered.counts.left_out;
    let summary: Vec<String> = left_out
        .iter()
        .map(|(what, count)| format!("{count} unusable {what}"))
        .collect();
    let left_out = if summary.is_empty() {
        "no epochs, no length".to_owned()
    } else {
        summary.join(", ")
    };
    Unfit::NothingTimed {
        runs: gathered.counts.runs,
        left_out,
    }
}

fn count(count: usize) -> u64 {
    u64::try_from(count).unwrap_or(u64::MAX)
}
