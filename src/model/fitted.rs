//! The model: fitting it, and keeping it as bytes.

use std::collections::BTreeMap;
use std::sync::Arc;

use serde::{Deserialize, Serialize};

use super::bytes::{Reader, Writer};
use super::calibrate::{Stretch, stretches};
use super::design::Design;
use super::facts::Facts;
use super::fit::State;
use super::gather::Gathered;
use super::hash::mixed;
use super::head::MODEL_FORMAT;
use super::known::{self, Known};
use super::part::{self, Decoded, Outline, Part};
use super::response::Response;
use super::usual::Usual;
use super::{Explanation, Hardware, Head, Observation, Priors, Unfit, Unreadable};
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
    head: Head,
    tables: Tables,
    decoded: Vec<Decoded>,
    /// All after the head.
    body: Arc<Vec<u8>>,
    /// Where in `body` what lies.
    places: Places,
}

/// What is short, as JSON.
#[derive(Debug, Clone, Default, Serialize, Deserialize)]
struct Tables {
    outlines: Vec<Outline>,
    compilers: BTreeMap<u64, Vec<String>>,
    usual: Usual,
}

/// Pieces of the body: from, to.
#[derive(Debug, Clone, Default)]
struct Places {
    known: (usize, usize),
    parts: Vec<(usize, usize)>,
    explanation: (usize, usize),
}

/// The first line of the file, but for its last key.
#[derive(Serialize, Deserialize)]
struct FirstLine {
    #[serde(flatten)]
    head: Head,
    /// Checksum of the rest, CRC-32.
    rest_crc32: u32,
}

/// The last key of the first line: the CRC-32 of what stands before it. The first files had none.
const LINE_SUM: &str = ",\"line_crc32\":";

impl Model {
    /// Learns from runs. Their order does not matter.
    ///
    /// # Errors
    /// Where there is nothing to learn from.
    pub fn fit(observations: impl IntoIterator<Item = Observation>, priors: &Priors) -> Result<Self, Unfit> {
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
        let (mut tables, mut body) = (Tables::default(), Writer::default());
        let (mut parts, mut explanation, mut scatter) = (Vec::new(), Explanation::default(), (None, None));
        for its in learned {
            gathered.counts.pooled += its.pooled;
            if let Some(told) = its.told {
                let components = &its.outline.components;
                scatter = (Some(components.noise.sqrt()), Some(components.interaction.sqrt()));
                [
                    gathered.counts.coefficients,
                    gathered.counts.workloads,
                    gathered.counts.configurations,
                    gathered.counts.published,
                ] = told.counts;
                gathered.counts.repeats = Some(told.repeats);
                explanation = told.explanation;
            }
            tables.outlines.push(its.outline);
            parts.push(its.part);
        }
        tables.compilers = gathered.compilers();
        tables.usual = std::mem::take(&mut gathered.usual).shortened();
        body.block(&json(&tables));
        let mut runs = Writer::default();
        known::write(&gathered, &mut runs);
        body.block(&runs.0);
        body.block(&json(&explanation));
        let head = head(&gathered, priors, scatter);
        drop(gathered);
        // One part after the other is let go: a file of many workloads is large.
        parts.into_iter().for_each(|part| body.block(&part));
        Self::from_body(head, Arc::new(body.0)).map_err(|_| Unfit::Unsolvable { response: "file" })
    }

    fn from_body(head: Head, body: Arc<Vec<u8>>) -> Result<Self, Unreadable> {
        let damaged = || Unreadable::Damaged("its tables cannot be read");
        let mut reader = Reader(&body);
        let mut places = Places::default();
        let (_, tables) = block(&body, &mut reader).ok_or_else(damaged)?;
        let tables: Tables = serde_json::from_slice(tables).map_err(|_| damaged())?;
        let runs;
        (places.known, runs) = block(&body, &mut reader).ok_or_else(damaged)?;
        Known::read(&mut Reader(runs)).ok_or_else(damaged)?;
        places.explanation = block(&body, &mut reader).ok_or_else(damaged)?.0;
        let mut decoded = Vec::new();
        for outline in &tables.outlines {
            let (place, bytes) = block(&body, &mut reader).ok_or_else(damaged)?;
            places.parts.push(place);
            decoded.push(Decoded::read(outline, &mut Reader(bytes)).ok_or_else(damaged)?);
        }
        if decoded.is_empty() {
            return Err(damaged());
        }
        Ok(Self { head, tables, decoded, places, body: Arc::clone(&body) })
    }

    /// The bytes of a model file: a line of JSON, then the rest.
    #[must_use]
    pub fn to_bytes(&self) -> Vec<u8> {
        let line = FirstLine { head: self.head.clone(), rest_crc32: crc32fast::hash(&self.body) };
        let mut bytes = json(&line);
        // The brace comes after the checksum.
        bytes.pop();
        let sum = line_sum(&bytes);
        bytes.extend_from_slice(sum.as_bytes());
        bytes.push(b'\n');
        bytes.extend_from_slice(&self.body);
        bytes
    }

    /// Reads a model file. Only what each forecast needs is decoded.
    ///
    /// # Errors
    /// Where it is none, is damaged, or was written by a newer dlrun.
    pub fn from_bytes(bytes: &[u8]) -> Result<Self, Unreadable> {
        let (line, body) = split(bytes)?;
        if crc32fast::hash(body) != line.rest_crc32 {
            return Err(Unreadable::Damaged("its checksum is another one"));
        }
        Self::from_body(line.head, Arc::new(body.to_vec()))
    }

    /// The head of a model file, out of its first line alone; see [`Model::from_bytes`] for the errors.
    ///
    /// # Errors
    /// Where it is no model, or one of a newer dlrun.
    pub fn head_of(bytes: &[u8]) -> Result<Head, Unreadable> {
        split(bytes).map(|(line, _)| line.head)
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

    /// What jobs of a queue usually run on: the commonest hardware of the runs there, without threads. Without a queue: of all
    /// the scheduler's runs.
    #[must_use]
    pub fn usual_hardware(&self, scheduler: SchedulerKind, queue: Option<&str>) -> Option<&Hardware> {
        self.tables.usual.of(scheduler, queue)
    }

    /// Compilers that were measured with a framework, in the order of their names.
    #[must_use]
    pub fn compilers_of(&self, framework: &str) -> Vec<&str> {
        let compilers = self.tables.compilers.get(&Facts::framework(framework));
        compilers.map_or_else(Vec::new, |compilers| compilers.iter().map(String::as_str).collect())
    }

    /// What it has learned.
    #[must_use]
    pub fn explanation(&self) -> Explanation {
        let (from, to) = self.places.explanation;
        self.body.get(from..to).and_then(|text| serde_json::from_slice(text).ok()).unwrap_or_default()
    }

    /// What is known of a response; `None`: nothing was measured of it.
    pub(super) fn part(&self, response: Response) -> Option<Part<'_>> {
        let at = self.tables.outlines.iter().position(|outline| outline.response == response)?;
        let (from, to) = *self.places.parts.get(at)?;
        self.decoded.get(at)?.part(self.tables.outlines.get(at)?, self.body.get(from..to)?)
    }

    /// What was measured at all.
    pub(super) fn known(&self) -> Option<Known<'_>> {
        let (from, to) = self.places.known;
        Known::read(&mut Reader(self.body.get(from..to)?))
    }
}

/// What was learned of a response.
struct Learned {
    outline: Outline,
    /// The bytes of its part.
    part: Vec<u8>,
    /// Levels without a coefficient of their own.
    pooled: u64,
    told: Option<Told>,
}

/// What people are told of the response that all is explained by.
struct Told {
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
    let learn = |response: &Response| learned(*response, explained == Some(*response), gathered, priors);
    let learn_all =
        |responses: &[Response]| -> Result<Vec<Learned>, Unfit> { responses.iter().map(learn).collect() };
    let (first, others) = responses.split_at(responses.len().min(1));
    if gathered.groups.len() < WORTH_A_THREAD {
        return learn_all(responses);
    }
    std::thread::scope(|scope| {
        // Where no thread can be had, it takes longer.
        let beside = std::thread::Builder::new().spawn_scoped(scope, || learn_all(others));
        let mut all = learn_all(first)?;
        all.extend(match beside {
            Ok(beside) => beside.join().unwrap_or_else(|panic| std::panic::resume_unwind(panic))?,
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
    let unsolvable = || Unfit::Unsolvable { response: response.name() };
    let design = Design::new(response, gathered, priors);
    let (state, stretch) = solved(&design, response).ok_or_else(unsolvable)?;
    let told = explained.then(|| Told {
        explanation: super::learned::explain(&state, gathered),
        counts: [design.layout.keys.len(), design.spans.len(), design.cells.len(), design.pseudo.len()]
            .map(count),
        repeats: count(design.repeats()),
    });
    let mut writer = Writer::default();
    part::write(&state, &mut writer).ok_or_else(unsolvable)?;
    let components = state.components.clone();
    let outline = Outline { response, centres: design.layout.centres, components, stretch };
    Ok(Learned { outline, part: writer.0, pooled: design.pooled, told })
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
        let parts = [Facts::new(&effect.a).fingerprint(), Facts::new(&effect.b).fingerprint()];
        let numbers = [effect.time_ratio.to_bits(), effect.sd.to_bits()];
        sum.wrapping_add(
            parts.into_iter().chain(numbers).fold(1, |hash, part| mixed(hash ^ part).rotate_left(7)),
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
    let told: Vec<String> = left_out.iter().map(|(what, count)| format!("{count} unusable {what}")).collect();
    let left_out = if told.is_empty() { "no epochs, no length".to_owned() } else { told.join(", ") };
    Unfit::NothingTimed { runs: gathered.counts.runs, left_out }
}

fn split(bytes: &[u8]) -> Result<(FirstLine, &[u8]), Unreadable> {
    /// Longer first lines are no model's.
    const LONGEST: usize = 1 << 20;
    let end = bytes.iter().take(LONGEST).position(|byte| *byte == b'\n').ok_or(Unreadable::NoModel)?;
    let (line, rest) = bytes.split_at(end);
    let sum_at = line.windows(LINE_SUM.len()).rposition(|part| part == LINE_SUM.as_bytes());
    if sum_at.is_some_and(|at| line[at..] != *line_sum(&line[..at]).as_bytes()) {
        return Err(Unreadable::Damaged("the checksum of its first line is another one"));
    }
    let value: serde_json::Value = serde_json::from_slice(line).map_err(|_| Unreadable::NoModel)?;
    let format = value.get("dlrun_model").and_then(serde_json::Value::as_u64).ok_or(Unreadable::NoModel)?;
    if format > u64::from(MODEL_FORMAT) {
        return Err(Unreadable::Newer { found: format });
    }
    let line = serde_json::from_value(value).map_err(|_| Unreadable::Damaged("its first line is no head"))?;
    Ok((line, &rest[1..]))
}

/// The end of a first line that begins so.
fn line_sum(line: &[u8]) -> String {
    format!("{LINE_SUM}{}}}", crc32fast::hash(line))
}

/// The next block, and where it lies.
fn block<'a>(body: &[u8], reader: &mut Reader<'a>) -> Option<((usize, usize), &'a [u8])> {
    let bytes = reader.block()?;
    let end = body.len() - reader.0.len();
    Some(((end - bytes.len(), end), bytes))
}

fn json(value: &impl Serialize) -> Vec<u8> {
    serde_json::to_vec(value).expect("numbers and text with text as keys")
}

fn count(count: usize) -> u64 {
    u64::try_from(count).unwrap_or(u64::MAX)
}
