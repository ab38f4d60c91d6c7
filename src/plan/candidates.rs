//! The ways in which the job could run, and the choice among them: by the performance model where there is one, else by rules.
//!
//! What the job asks for and what an image must be is never up to the model: ways that fail such a constraint are not among
//! the candidates.

use super::Candidate;
use super::decisions::Resolver;
use super::facts::ModelFacts;
use super::forecast_text;
use super::similar_runs::Unlike;
use crate::config::site;
use crate::image::catalogue::{Entry, Place};
use crate::image::choice::{Choice, Device, Wanted, compiler_by_rule, compilers_of};
use crate::job::{JobSpec, NodeCount, Workload};
use crate::learn::model::Situation;
use crate::record::{Basis, Forecast, Identity, Interval};

/// More candidates are not compared; by rules the others come behind these.
const MAX_CANDIDATES: usize = 1000;
/// An interval whose upper end is this many times its lower end says nothing that a choice could go by.
const OPEN: f64 = 1e4;
/// Arguments that are not among those of the runs widen a forecast by this factor at most: nobody knows whether the time goes by them.
const WIDEST: f64 = 10.0;
/// How the reason begins why nothing is forecast of a job that is too far from all runs.
pub(crate) const UNLIKE: &str = "it is too far from the recorded runs";

/// Up to this many sizes, each is a candidate; beyond that the powers of two and the largest.
const MAX_SIZES: u32 = 32;

/// The images of the catalogue as they fit a job.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Fitting {
    /// What they were compared with.
    pub(super) wanted: Wanted,
    /// Which fit, in their order, and which do not.
    pub(super) choice: Choice,
}

/// What the job could become, and what it becomes.
#[derive(Debug, Default)]
pub(super) struct Prospect {
    /// The images of the catalogue, the one that is taken first; `None`: the job takes none from there.
    pub(super) fitting: Option<Result<Fitting, String>>,
    /// The candidates, the one that is taken first, then the best of the others.
    pub(super) candidates: Vec<Candidate>,
    /// Whose forecasts these are; `None`: rules decided.
    pub(super) model: Option<ModelFacts>,
    /// Why rules would take the compiler that they would.
    pub(super) compiler_rule: &'static str,
    /// Why not the most nodes of the job file are candidates.
    pub(super) most_nodes: Option<String>,
    /// Whether runs tell how the training scales.
    pub(super) scales: bool,
    /// What is taken for the job's hardware, since runs before it had it, in words; `None`: it is known, or nothing is.
    pub(super) assumed_hardware: Option<String>,
    /// Why a model that is there says nothing of the job.
    pub(super) silence: Option<String>,
}

impl Prospect {
    /// The candidate that is taken; one is there.
    pub(super) fn chosen(&self) -> Option<&Candidate> {
        self.candidates.first()
    }

    /// Why rules decide.
    pub(super) fn without_model(&self) -> &'static str {
        if self.silence.is_some() {
            "the performance model cannot predict this job"
        } else {
            "there is no performance model"
        }
    }

    /// What the model says of it.
    pub(super) fn forecast(&self) -> Option<&Forecast> {
        self.chosen()?.forecast.as_ref()
    }

    /// No image is used: what was found out of the chosen one goes with it, but for the compiler. Of an image that cannot be had
    /// nothing is forecast.
    pub(super) fn forget_image(&mut self) {
        if self.chosen().is_none_or(|chosen| chosen.image.is_none()) {
            return;
        }
        self.candidates.truncate(1);
        self.model = None;
        for candidate in &mut self.candidates {
            (candidate.image, candidate.version, candidate.provenance) = (None, None, None);
            candidate.forecast = None;
        }
    }

    /// Widens the forecast of the whole run to what repeats of it took, from the shortest to the longest, in seconds. What they had is
    /// the job's configuration, whatever of it was not known before.
    pub(super) fn cover(&mut self, repeats: Option<(f64, f64, usize)>) {
        let forecast = self
            .candidates
            .first_mut()
            .and_then(|first| first.forecast.as_mut());
        if let Some(((low, high, runs), forecast)) = repeats.zip(forecast) {
            forecast.cover(low, high);
            if forecast.basis > Basis::Alike {
                (forecast.basis, forecast.runs) = (Basis::Alike, runs as u64);
                (forecast.doubtful, forecast.doubts) = (0, Vec::new());
            }
        }
    }

    /// All repeats were cut off after at most so many seconds: of the whole run that is the least, and says nothing more.
    pub(super) fn takes_longer_than(&mut self, seconds: f64) {
        let first = self.candidates.first_mut();
        let forecast = first.and_then(|first| first.forecast.as_mut());
        if let Some(total) = forecast.and_then(|forecast| forecast.total_seconds.as_mut()) {
            total.low = total.low.max(seconds);
            total.median = total.median.max(seconds);
            total.mean = total.mean.max(seconds);
            total.high = total.high.max(2.0 * seconds);
        }
    }

    /// Forecasts of epochs know nothing of other numbers among the arguments: whole ones that lie beyond those of the runs widen them by as
    /// much as they are larger or smaller, and they are no longer of runs like this.
    pub(super) fn widen(&mut self, unlike: &[Unlike]) {
        let forecasts = self.candidates.iter_mut();
        let forecasts = forecasts.filter_map(|candidate| candidate.forecast.as_mut());
        let far = |Unlike { asked, ran, .. }: &Unlike| (asked / ran.1).max(ran.0 / asked);
        let far = unlike.iter().map(far).product::<f64>().min(WIDEST);
        for forecast in forecasts.filter(|forecast| forecast.epoch_seconds.is_some()) {
            for Unlike { name, asked, ran } in unlike {
                let runs = match ran.0 < ran.1 {
                    true => format!("{} to {}", ran.0, ran.1),
                    false => ran.0.to_string(),
                };
                let text = format!("the argument `{name}` is {asked}, and the runs had {runs}");
                forecast.beyond.push(text);
                forecast.basis = forecast.basis.max(Basis::Workload);
            }
            let parts = [
                &mut forecast.epoch_seconds,
                &mut forecast.between_seconds,
                &mut forecast.outside_seconds,
                &mut forecast.total_seconds,
                &mut forecast.memory_bytes,
            ];
            for part in parts.into_iter().flatten() {
                (part.low, part.high) = (part.low / far, part.high * far);
            }
        }
    }

    /// Why the chosen one, by the model: `3.10 s an epoch (..), from 12 runs like this; next best X, 4.00 s`. `differs` says
    /// which candidate is another choice.
    pub(super) fn reason(&self, differs: impl Fn(&Candidate) -> bool) -> Option<String> {
        let (forecast, chosen) = (self.forecast()?, self.chosen()?);
        let mut reason = format!(
            "{}, {}",
            forecast_text::time_with_range(forecast),
            forecast_text::basis_of(forecast)
        );
        if let Some((other, theirs)) = self.others().find(|(other, _)| differs(other)) {
            let name = apart(other, chosen);
            reason.push_str(&format!(
                "; next best {name}, {}",
                forecast_text::time(theirs)
            ));
            if let Some((is_other, epochs)) = break_even(forecast, theirs) {
                let quicker = if is_other { name } else { apart(chosen, other) };
                reason.push_str(&format!("; {quicker} from {epochs:.0} epochs"));
            }
        }
        Some(reason)
    }

    /// The others that could be taken, best first.
    fn others(&self) -> impl Iterator<Item = (&Candidate, &Forecast)> {
        let others = self
            .candidates
            .iter()
            .skip(1)
            .filter(|other| other.rejected.is_none());
        others.filter_map(|other| Some((other, other.forecast.as_ref()?)))
    }
}

/// From how many epochs on the one of two forecasts that begins later is the quicker one, and whether that is `other`; `None`: one
/// is quicker however many there are, or that is not known.
fn break_even(one: &Forecast, other: &Forecast) -> Option<(bool, f64)> {
    let line = |forecast: &Forecast| {
        let between = forecast.between_seconds.map_or(0.0, |part| part.median);
        let each = forecast.epoch_seconds?.median + between;
        Some((forecast.outside_seconds?.median, each))
    };
    let ((begin, each), (other_begin, other_each)) = (line(one)?, line(other)?);
    let epochs = ((other_begin - begin) / (each - other_each)).ceil();
    (epochs > 1.0 && epochs < 1e9).then_some((other_each < each, epochs))
}

/// A candidate by its difference from the chosen one: `tf-2.4 with xla`, `2 nodes`.
fn apart(other: &Candidate, chosen: &Candidate) -> String {
    let is_same = other.image == chosen.image && other.compiler == chosen.compiler;
    let nodes = forecast_text::count(other.nodes.into(), "node");
    match other.nodes == chosen.nodes {
        _ if is_same => nodes,
        true => software(other),
        false => format!("{} on {nodes}", software(other)),
    }
}

/// What distinguishes a candidate from others, such as `tf-2.4 with xla`.
fn software(candidate: &Candidate) -> String {
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

/// Whether the job file describes the training.
pub(super) fn says_what_it_trains(spec: &JobSpec) -> bool {
    spec.framework.name.is_some() || spec.workload != Workload::default() || spec.leaves_compiler
}

impl Resolver<'_> {
    /// Gathers the candidates, asks the model, and puts the one to be taken first.
    pub(super) fn prospect(&self, identity: &Identity) -> Prospect {
        let facts = self.facts;
        let entries = &facts.images.entries;
        let mut fitting = self.fitting();
        let device = self.device();
        let (sizes, most_nodes) = self.sizes();
        let (mut ways, compiler_rule) = self.ways(
            fitting.as_ref().and_then(|found| found.as_ref().ok()),
            &device,
        );
        ways.truncate((MAX_CANDIDATES / sizes.len().max(1)).max(1));
        let sized = |way: &Candidate, nodes: u32| Candidate {
            nodes,
            ..way.clone()
        };
        let mut candidates: Vec<Candidate> = ways
            .iter()
            .flat_map(|way| sizes.iter().map(move |nodes| sized(way, *nodes)))
            .collect();
        let (mut assumed_hardware, mut silence, mut scales) = (None, None, false);
        if let Some(model) = &facts.model {
            let asked = self.question(model, identity);
            let situation = |way| situation_of(&asked.situation, way);
            let situations: Vec<Situation> = candidates.iter().map(situation).collect();
            let forecasts = model.model.forecasts_on(&situations, &asked.kinds);
            for (candidate, forecast) in candidates.iter_mut().zip(forecasts) {
                match self.silence(&forecast) {
                    None => candidate.forecast = Some(forecast),
                    Some(why) => silence = Some(why),
                }
            }
            scales = model.model.has_scaled(&asked.situation);
            self.judge_sizes(&mut candidates, sizes.len(), scales);
            sort_by_forecast(&mut candidates);
            assumed_hardware = asked.assumed;
            if let Some(Ok(found)) = &mut fitting {
                reorder(&mut found.choice, entries, &candidates);
            }
        }
        let is_open = |candidate: &&Candidate| candidate.rejected.is_none();
        let others = candidates.iter().filter(is_open).count().saturating_sub(1);
        if let Some(first) = candidates.first_mut() {
            first.chosen = true;
            if let Some(forecast) = &mut first.forecast {
                forecast.alternatives = u32::try_from(others).unwrap_or(u32::MAX);
            }
        }
        let model = facts.model.clone();
        let model = model.filter(|_| {
            candidates
                .first()
                .is_some_and(|first| first.forecast.is_some())
        });
        let silence = silence.filter(|_| model.is_none());
        Prospect {
            fitting,
            candidates,
            model,
            compiler_rule,
            most_nodes,
            scales,
            assumed_hardware,
            silence,
        }
    }

    /// Why a forecast is none: nothing is chosen by it then, and rules decide.
    fn silence(&self, forecast: &Forecast) -> Option<String> {
        if !says_what_it_trains(self.spec) && forecast.basis > Basis::Workload {
            return Some(
                "no run of it was learned from, and its job file does not say what is trained"
                    .to_owned(),
            );
        }
        let unlike = || {
            let beyond = forecast.beyond.join("; ");
            (!beyond.is_empty()).then(|| format!("{UNLIKE}: {beyond}"))
        };
        let Some(Interval {
            mean, low, high, ..
        }) = forecast.time()
        else {
            return unlike().or_else(|| {
                Some("it has learned from no run that tells how long one takes".to_owned())
            });
        };
        if mean.is_finite() && *low > 0.0 && high / low < OPEN {
            return None;
        }

        let basis = forecast_text::basis(forecast);
        let too_open = format!(
            "the longest time that it expects is more than {OPEN:.0} times the shortest: it rests on {basis}"
        );
        unlike().or(Some(too_open))
    }

    /// Numbers of nodes, the fewest first, and why not so many as the job file allows.
    fn sizes(&self) -> (Vec<u32>, Option<String>) {
        let asked = self.spec.resources.nodes.as_ref().map(|nodes| nodes.value);
        let Some(NodeCount::Between { min, max, .. }) = asked else {
            return (vec![asked.map_or(1, |nodes| nodes.bounds().0)], None);
        };
        if self.is_local() {
            return (
                vec![min],
                (max > min).then(|| "a local job has one node".to_owned()),
            );
        }
        let limit = self.most_nodes_of_queue().filter(|(limit, _)| *limit < max);
        let most = limit.as_ref().map_or(max, |(limit, _)| (*limit).max(min));
        let sizes = if most - min < MAX_SIZES {
            (min..=most).collect()
        } else {
            let doubled = std::iter::successors(Some(min), |nodes| nodes.checked_mul(2));
            doubled
                .take_while(|nodes| *nodes < most)
                .chain([most])
                .collect()
        };
        (sizes, limit.map(|(_, why)| why))
    }

    /// The most nodes that a job of the queue gets, and why.
    fn most_nodes_of_queue(&self) -> Option<(u32, String)> {
        let name = self.queue.as_ref()?;
        let model = self.site()?;
        let limit = model
            .queues
            .iter()
            .find(|queue| queue.name == *name)
            .and_then(|queue| queue.max_nodes);
        let counted = |nodes: u32| forecast_text::count(nodes.into(), "node");
        let limit = limit.map(|nodes| {
            (
                nodes,
                format!("queue `{name}` takes jobs of up to {}", counted(nodes)),
            )
        });
        let serves = |node: &&site::NodeType| {
            node.queues.is_empty() || node.queues.iter().any(|queue| queue == name)
        };
        let count: u32 = model
            .nodes
            .iter()
            .filter(serves)
            .map(|node| node.count)
            .sum();
        let there = (count > 0).then(|| (count, format!("queue `{name}` has {}", counted(count))));
        limit
            .into_iter()
            .chain(there)
            .min_by_key(|(nodes, _)| *nodes)
    }

    /// Software in the order of the rules, and why the first has its compiler.
    fn ways(&self, fitting: Option<&Fitting>, device: &Device) -> (Vec<Candidate>, &'static str) {
        let entries = &self.facts.images.entries;
        let framework = self.spec.framework.name.as_deref().unwrap_or_default();
        let candidates = fitting.iter().flat_map(|found| &found.choice.candidates);
        let mut rule = None;
        let mut ways = Vec::new();
        for candidate in candidates
            .filter(|candidate| candidate.rejected.is_empty())
            .take(MAX_CANDIDATES)
        {
            let entry = &entries[candidate.index];
            let there: Vec<&str> = entry.compilers.iter().map(String::as_str).collect();
            let (compilers, why) = self.compilers(framework, device, &there);
            rule.get_or_insert(why);
            let image = self.identity(&entry.place, Some(entry));
            ways.extend(compilers.into_iter().map(|compiler| Candidate {
                image_identity: Some(image.clone()),
                image: Some(entry.name.clone()),
                version: Some(entry.version.clone()),
                provenance: entry.provenance,
                compiler,
                ..Candidate::default()
            }));
        }
        match rule {
            Some(rule) => (ways, rule),
            None => self.ways_without_catalogue(framework, device),
        }
    }

    /// The image that the job names, or none.
    fn ways_without_catalogue(
        &self,
        framework: &str,
        device: &Device,
    ) -> (Vec<Candidate>, &'static str) {
        let described = self.described();
        let mut there: Vec<&str> = match described {
            Some(entry) => entry.compilers.iter().map(String::as_str).collect(),
            None => compilers_of(framework).to_vec(),
        };
        if let Some(facts) = self.facts.model.as_ref().filter(|_| described.is_none()) {
            there.extend(facts.model.compilers_of(framework));
        }
        let (compilers, why) = self.compilers(framework, device, &there);
        let built = self.facts.images.built.as_ref();
        let built = || built.map(|(_, path)| Place::Path(path.clone()));
        let image = self.named_place().or_else(built);
        let image = image.map(|place| self.identity(&place, described));
        let described = described.filter(|entry| entry.framework == framework);
        let to_way = |compiler| Candidate {
            image_identity: image.clone(),
            version: described.map(|entry| entry.version.clone()),
            provenance: described
                .and_then(|entry| entry.provenance)
                .or(self.spec.framework.provenance),
            compiler,
            ..Candidate::default()
        };
        (compilers.into_iter().map(to_way).collect(), why)
    }

    /// The compilers that the job may have, the rules' choice first, then none, then the others.
    fn compilers(
        &self,
        framework: &str,
        device: &Device,
        there: &[&str],
    ) -> (Vec<Option<String>>, &'static str) {
        if !self.spec.leaves_compiler {
            return (vec![self.spec.framework.compiler.clone()], "");
        }
        let (first, why) = compiler_by_rule(framework, device, there);
        let mut compilers: Vec<Option<String>> = Vec::new();
        for name in [first, "none"].into_iter().chain(there.iter().copied()) {
            if !compilers.iter().any(|known| known.as_deref() == Some(name)) {
                compilers.push(Some(name.to_owned()));
            }
        }
        (compilers, why)
    }

    /// Works out how well sizes use their nodes, and sets those aside that use them worse than the job file wants. What
    /// nobody measured does not make a job larger.
    fn judge_sizes(&self, ways: &mut [Candidate], sizes: usize, scaled: bool) {
        let asked = self.spec.resources.nodes.as_ref().map(|nodes| nodes.value);
        let Some(NodeCount::Between {
            efficiency: least, ..
        }) = asked.filter(|_| sizes > 1)
        else {
            return;
        };
        for of_way in ways.chunks_mut(sizes) {
            let first = of_way.first();
            let Some(base) = first.and_then(|first| Some((first.nodes, first.forecast.clone()?)))
            else {
                continue;
            };
            let work = |nodes: u32, forecast: &Forecast| {
                forecast.time().map_or(f64::NAN, |time| time.median) * f64::from(nodes)
            };
            for (at, candidate) in of_way.iter_mut().enumerate() {
                let Some(forecast) = &candidate.forecast else {
                    continue;
                };
                let efficiency = work(base.0, &base.1) / work(candidate.nodes, forecast);
                candidate.efficiency_ratio = Some(efficiency);
                if at > 0 && (forecast.basis > Basis::Workload || !scaled) {
                    candidate.rejected =
                        Some("no run of this workload tells how it scales".to_owned());
                } else if at > 0 && (efficiency.is_nan() || efficiency < least) {
                    let (found, least) = (
                        forecast_text::per_cent(efficiency),
                        forecast_text::per_cent(least),
                    );
                    candidate.rejected = Some(format!(
                        "its parallel efficiency is {found}, and {least} is asked"
                    ));
                }
            }
        }
    }
}

/// Sorts by the median time of the whole run: a mean would be that of its longest tail. Where the whole run of one is not known, by
/// that of an epoch; where the model sees no difference, the surer one is first, then the rules' order stays.
fn sort_by_forecast(ways: &mut [Candidate]) {
    let has_total = |way: &Candidate| {
        let forecast = way.forecast.as_ref();
        forecast.is_some_and(|forecast| forecast.total_seconds.is_some())
    };
    let by_total = ways.iter().all(has_total);
    ways.sort_by_key(|candidate| {
        let expected =
            |of: fn(&Interval) -> f64| expected(candidate.forecast.as_ref(), by_total, of);
        let (median, high) = (expected(|time| time.median), expected(|time| time.high));
        (candidate.rejected.is_some(), median, high)
    });
}

/// A figure of the time in steps of a millionth, so that rounding errors decide nothing; what is not known comes last.
#[expect(
    clippy::cast_possible_truncation,
    reason = "logarithms of finite numbers are small"
)]
fn expected(forecast: Option<&Forecast>, by_total: bool, of: fn(&Interval) -> f64) -> i64 {
    let Some(forecast) = forecast else {
        return i64::MAX;
    };
    let Some(time) = forecast
        .total_seconds
        .as_ref()
        .filter(|_| by_total)
        .or(forecast.time())
    else {
        return i64::MAX - 1;
    };
    let steps = (of(time).ln() * 1e6).round();
    if steps.is_finite() {
        steps as i64
    } else {
        i64::MAX - 1
    }
}

/// Puts the images that fit into the order of the candidates.
fn reorder(choice: &mut Choice, entries: &[Entry], candidates: &[Candidate]) {
    let forecast = candidates.iter().filter(|way| way.forecast.is_some());
    let order: Vec<&str> = forecast.filter_map(|way| way.image.as_deref()).collect();
    if order.is_empty() {
        return;
    }
    let images = &mut choice.candidates;
    images.sort_by_key(|image| {
        let name = &entries[image.index].name;
        let place = order.iter().position(|other| other == name);
        (!image.rejected.is_empty(), place.unwrap_or(usize::MAX))
    });
    let fitting = images.iter_mut().filter(|image| image.rejected.is_empty());
    for (place, image) in fitting.enumerate() {
        image.beaten = (place > 0).then_some("the performance model puts it first");
    }
    choice.winner = images.first().map(|image| image.index);
}

fn situation_of(base: &Situation, candidate: &Candidate) -> Situation {
    let mut situation = base.clone();
    situation.image.clone_from(&candidate.image_identity);
    if candidate.version.is_some() {
        situation.framework.version.clone_from(&candidate.version);
    }
    situation.framework.compiler.clone_from(&candidate.compiler);
    situation.framework.provenance = candidate.provenance;
    situation.nodes = candidate.nodes;
    situation
}

#[cfg(test)]
mod tests;
