//! Reads observations once and keeps what the equations need: a number per value, not a run.

use std::collections::{BTreeMap, BTreeSet, HashMap, HashSet};

use serde::{Deserialize, Serialize};

use super::facts::{
    EXACT, Facts, Size, Word, cut, exact_sizes, namings, text, whole, workload_name,
};
use super::hardware_met::HardwareMet;
use super::head::Counts;
use super::response::Response;
use super::{Length, Observation};
use crate::foundation::hash::Hash;
use crate::foundation::statistics::mixed;

/// A value that a row is compared with.
#[derive(Debug, Clone, Copy, Default)]
pub(super) struct Target {
    pub(super) y: f64,
    /// When its run was handed over, in Unix milliseconds UTC.
    pub(super) at_ms: u64,
    /// Its weight among those of its cell: 1 of the newest.
    pub(super) recency: f32,
    pub(super) censored: bool,
    pub(super) doubtful: bool,
    /// Whether others, heat or a quota are all its doubt.
    pub(super) disturbed: bool,
}

impl Target {
    /// Whether it was seen to its end, and nothing speaks against it.
    pub(super) fn is_sure(&self) -> bool {
        !self.censored && !self.doubtful
    }
}

/// A measured value.
#[derive(Debug, Clone, Copy)]
pub(super) struct Value {
    /// Which of [`Gathered::groups`].
    pub(super) group: u32,
    /// Its natural logarithm.
    pub(super) target: Target,
}

/// Runs that are repeats of each other.
#[derive(Debug)]
pub(super) struct Group {
    pub(super) facts: Facts,
    /// Runs with a time that was seen to its end.
    pub(super) runs: u32,
    /// Those of them that are in doubt, and the bits of all their doubts.
    pub(super) doubted: (u32, u32),
    /// Runs with any time, those that were cut off too.
    pub(super) met: u32,
    /// What names the training without its sizes.
    pub(super) namings: Option<(Option<u64>, u64)>,
    /// The largest of each size of [`EXACT`]; 0: not known.
    pub(super) exact: [f64; EXACT.len()],
    /// Numbers among the arguments.
    pub(super) numbers: BTreeMap<String, f64>,
}

/// How the time of a run whose epochs are not seen goes by a number that it has: a part does not, the rest does.
#[derive(Debug, Clone, Default, Serialize, Deserialize)]
pub(super) struct Growth {
    /// The name of the number among the arguments; `None`: the number of epochs.
    pub(super) name: Option<String>,
    /// The fewest and the most of a run.
    pub(super) ends: (f64, f64),
    /// The share of the run with the fewest that all runs have.
    fixed: f64,
    /// The smallest and the largest of the other numbers among the arguments.
    pub(super) others: BTreeMap<String, (f64, f64)>,
}

/// A run whose epochs are not seen: logarithm of its time, whether it was cut off, and its group.
type Unseen<'a> = (f64, bool, &'a Group);

impl Growth {
    /// Shares that are compared, the one that is believed first.
    const SHARES: [f64; 8] = [0.2, 0.0, 0.05, 0.1, 0.3, 0.45, 0.65, 0.85];
    /// A number among the arguments counts where runs had at least so many values of it, the largest at least so many times the smallest,
    /// and where with it no more than this share of their scatter is left.
    const SHOWN: (usize, f64, f64) = (3, 1.5, 0.1);

    /// The one under which a workload's runs differ least in the rest; `None`: they have no numbers.
    fn of(runs: &[Unseen<'_>]) -> Option<Self> {
        let by_epochs = Self::by(None, runs);
        let plain = by_epochs
            .as_ref()
            .map_or_else(|| scatter(runs, |_| Some(0.0)), |(scatter, _)| *scatter);
        let names = runs.first().map(|(.., group)| group.numbers.keys());
        let shown = names.into_iter().flatten().filter_map(|name| {
            let count = |(.., group): &Unseen<'_>| group.numbers.get(name).copied();
            let mut counts = runs.iter().map(count).collect::<Option<Vec<f64>>>()?;
            counts.sort_by(f64::total_cmp);
            counts.dedup();
            let (values, apart, _) = Self::SHOWN;
            let is_wide = counts.len() >= values && counts[counts.len() - 1] >= apart * counts[0];
            is_wide.then(|| Self::by(Some(name), runs)).flatten()
        });
        let best = shown.min_by(|(one, _), (other, _)| one.total_cmp(other));
        let best = best.filter(|(scatter, _)| *scatter < Self::SHOWN.2 * plain);
        let mut growth = best
            .or(by_epochs)
            .map(|(_, growth)| growth)
            .unwrap_or(Self {
                ends: (1.0, 1.0),
                fixed: 1.0,
                ..Self::default()
            });
        for (name, number) in runs.iter().flat_map(|(.., group)| &group.numbers) {
            if growth.name.as_ref() != Some(name) {
                let ends = growth
                    .others
                    .entry(name.clone())
                    .or_insert((*number, *number));
                *ends = (ends.0.min(*number), ends.1.max(*number));
            }
        }
        let is_said = growth.fixed < 1.0 || !growth.others.is_empty();
        is_said.then_some(growth)
    }

    /// The best share for a number, with the scatter that it leaves.
    fn by(name: Option<&String>, runs: &[Unseen<'_>]) -> Option<(f64, Self)> {
        let mut growth = Self {
            name: name.cloned(),
            ends: (f64::INFINITY, 0.0),
            ..Self::default()
        };
        let counts = runs.iter().filter_map(|(.., group)| growth.count_of(group));
        let (fewest, most) = counts.fold(growth.ends, |(fewest, most), count| {
            (f64::min(fewest, count), f64::max(most, count))
        });
        growth.ends = (fewest, most);
        let all = Self::SHARES.map(|fixed| Self {
            fixed,
            ..growth.clone()
        });
        let all = all.into_iter().map(|growth| {
            let left = scatter(runs, |group| Some(growth.ln(growth.count_of(group)?)));
            (left, growth)
        });
        let best = all.min_by(|(one, _), (other, _)| one.total_cmp(other));
        best.filter(|_| most > 0.0)
    }

    fn count_of(&self, group: &Group) -> Option<f64> {
        let epochs = Some(group.exact[Size::Epochs as usize]).filter(|epochs| *epochs > 0.0);
        match &self.name {
            Some(name) => group.numbers.get(name).copied(),
            None => epochs,
        }
    }

    /// By how much longer a run with so many is than one with the fewest, as a natural logarithm.
    pub(super) fn ln(&self, count: f64) -> f64 {
        (self.fixed + (1.0 - self.fixed) * count / self.ends.0).ln()
    }
}

/// How much runs differ that differ in numbers alone, without what `growth` says of them.
fn scatter(runs: &[Unseen<'_>], growth: impl Fn(&Group) -> Option<f64>) -> f64 {
    let mut sums: HashMap<u64, [f64; 3]> = HashMap::new();
    for (y, _, group) in runs.iter().filter(|(_, censored, _)| !censored) {
        let Some(growth) = growth(group) else {
            continue;
        };
        let left = y - growth;
        let sums = sums
            .entry(group.facts.without_epochs().fingerprint())
            .or_default();
        *sums = [sums[0] + 1.0, sums[1] + left, sums[2] + left * left];
    }
    let each = sums
        .values()
        .map(|[runs, sum, squares]| squares - sum * sum / runs);
    // Rounding errors decide nothing.
    (each.sum::<f64>() * 1e6).round()
}

/// All observations, as far as they are needed.
#[derive(Debug, Default)]
pub(super) struct Gathered {
    pub(super) groups: Vec<Group>,
    /// The values of each response, in the order of [`Response::ALL`].
    pub(super) values: [Vec<Value>; Response::ALL.len()],
    /// Names of words and of workloads, by their hashes.
    names: HashMap<u64, String>,
    /// Names of networks.
    pub(super) networks: BTreeSet<String>,
    pub(super) counts: Counts,
    pub(super) hardware_met: HardwareMet,
    pub(super) first_at_ms: u64,
    pub(super) last_at_ms: u64,
    /// How runs without known epochs grow with their number, by workload.
    pub(super) growth: BTreeMap<u64, Growth>,
    /// Operations of a sample, in steps of the logarithm, by workload; `None`: nobody declares them.
    pub(super) operations: BTreeMap<u64, Option<i32>>,
    places: HashMap<Facts, u32>,
    /// Runs, of which each may have several starts.
    seen: HashSet<u64>,
    fingerprint: [u64; 2],
}

/// What is between epochs is at least taken for this share of one: less is lost in noise.
const LEAST_BETWEEN: f64 = 0.001;
/// What time outside of epochs is at least taken for, in seconds.
const LEAST_OUTSIDE: f64 = 0.05;

impl Gathered {
    pub(super) fn new(observations: impl IntoIterator<Item = Observation>) -> Self {
        let mut gathered = Self {
            first_at_ms: u64::MAX,
            ..Self::default()
        };
        for observation in observations {
            gathered.add(&observation);
        }
        (gathered.places, gathered.seen) = (HashMap::new(), HashSet::new());
        gathered.share_operations();
        gathered.forget_common_doubts();
        gathered.learn_growth();
        gathered
    }

    /// Operations are a workload's: its runs of before they were declared have them too.
    fn share_operations(&mut self) {
        for facts in self.groups.iter().map(|group| &group.facts) {
            let known = self.operations.entry(facts.workload).or_default();
            *known = (*known).max(facts.operations());
        }
        for group in &mut self.groups {
            let known = self.operations[&group.facts.workload];
            group.facts = group.facts.with_operations(known);
        }
    }

    /// Where others always keep the nodes busy most runs are disturbed, as the next ones will be: then that sets none of a workload's
    /// runs apart, and what they scatter by is what to expect.
    fn forget_common_doubts(&mut self) {
        for values in &mut self.values {
            let mut runs: HashMap<u64, (u64, u64)> = HashMap::new();
            let workload = |value: &Value| self.groups[value.group as usize].facts.workload;
            for value in values.iter().filter(|value| !value.target.censored) {
                let (all, disturbed) = runs.entry(workload(value)).or_default();
                (*all, *disturbed) = (*all + 1, *disturbed + u64::from(value.target.disturbed));
            }
            for value in values {
                let (all, disturbed) = runs.get(&workload(value)).copied().unwrap_or_default();
                value.target.doubtful &= !value.target.disturbed || 2 * disturbed <= all;
            }
        }
    }

    /// The fingerprint of all observations, whatever their order.
    pub(super) fn data_hash(&self) -> String {
        format!("{:016x}{:016x}", self.fingerprint[0], self.fingerprint[1])
    }

    fn add(&mut self, observation: &Observation) {
        let run = Hash::new(14).name(observation.run_id.as_str());
        let is_new = self
            .seen
            .insert(run.number(observation.element.into()).end());
        self.counts.runs += u64::from(is_new);
        self.first_at_ms = self.first_at_ms.min(observation.at_ms);
        self.last_at_ms = self.last_at_ms.max(observation.at_ms);
        let facts = Facts::new(&observation.situation);
        self.note_fingerprint(observation, &facts);
        self.hardware_met.add(observation);
        // Only the time of a run whose epochs are not seen goes by a number.
        let facts = match observation.epoch_seconds {
            Some(_) => facts.without_numbers(),
            None => facts,
        };
        let place = self.place(facts, observation);
        let timed = observation.epoch_seconds.or(observation.wall_seconds);
        let is_seen = matches!(timed, Some(Length::Known(_)));
        let doubtful = observation.doubts.any();
        let group = &mut self.groups[place as usize];
        for (largest, size) in group
            .exact
            .iter_mut()
            .zip(exact_sizes(&observation.situation))
        {
            *largest = largest.max(size);
        }
        group.runs += u32::from(is_seen);
        group.met += u32::from(timed.is_some());
        if is_seen && doubtful {
            let (runs, doubts) = &mut group.doubted;
            (*runs, *doubts) = (*runs + 1, *doubts | observation.doubts.bits());
        }
        self.counts.doubtful += u64::from(doubtful);
        // Nothing is less than this, but what is no size at all stays that.
        let least = |length: Length, least: f64| match length {
            Length::Known(value) if value >= 0.0 => Length::Known(value.max(least)),
            other => other,
        };
        let samples = facts.size(Size::Samples).unwrap_or(0.0);
        let epoch = observation.epoch_seconds;
        let wall = observation.wall_seconds.filter(|_| epoch.is_none());
        let steady = epoch.and_then(Length::known);
        let between = observation.between_seconds.zip(steady);
        let between =
            between.map(|(all, steady)| least(Length::Known(all / steady), LEAST_BETWEEN));
        let outside = observation.outside_seconds;
        let outside = outside.map(|outside| least(outside, LEAST_OUTSIDE));
        let bytes = observation
            .memory_bytes
            .map(|bytes| Length::Known(whole(bytes)));
        for (what, response, length, shift) in [
            ("epoch_seconds", Response::Epoch, epoch, samples),
            ("wall_seconds", Response::Whole, wall, samples),
            ("between_seconds", Response::Between, between, 0.0),
            ("outside_seconds", Response::Outside, outside, 0.0),
            ("memory_bytes", Response::Memory, bytes, 0.0),
        ] {
            let Some(length) = length else {
                continue;
            };
            let (value, censored) = (length.seconds(), length.known().is_none());
            if !value.is_finite() || value <= 0.0 {
                *self.counts.left_out.entry(what.to_owned()).or_default() += 1;
                continue;
            }
            match response {
                Response::Epoch => self.counts.with_epochs += 1,
                Response::Whole => self.counts.whole_runs += 1,
                _ => {}
            }
            let is_time = matches!(response, Response::Epoch | Response::Whole);
            self.counts.cut_off += u64::from(censored && is_time);
            self.values[response as usize].push(Value {
                group: place,
                target: Target {
                    y: value.ln() - shift,
                    at_ms: observation.at_ms,
                    recency: 1.0,
                    censored,
                    doubtful,
                    disturbed: observation.doubts.is_disturbed_only(),
                },
            });
        }
    }

    /// Takes the number that their time grows with out of the runs that show no epochs: what is left is the time of one with the fewest.
    fn learn_growth(&mut self) {
        let mut of_workloads: BTreeMap<u64, Vec<&mut Value>> = BTreeMap::new();
        for value in &mut self.values[Response::Whole as usize] {
            let workload = self.groups[value.group as usize].facts.workload;
            of_workloads.entry(workload).or_default().push(value);
        }
        for (workload, mut values) in of_workloads {
            let group = |value: &Value| &self.groups[value.group as usize];
            let unseen = |value: &&mut Value| (value.target.y, value.target.censored, group(value));
            let runs: Vec<Unseen<'_>> = values.iter().map(unseen).collect();
            let Some(growth) = Growth::of(&runs) else {
                continue;
            };
            for value in &mut values {
                let count = growth.count_of(group(value));
                value.target.y -= count.map_or(0.0, |count| growth.ln(count));
            }
            self.growth.insert(workload, growth);
        }
        self.groups
            .iter_mut()
            .for_each(|group| group.numbers.clear());
    }

    /// The place of a run's group, which is made where there is none.
    fn place(&mut self, facts: Facts, observation: &Observation) -> u32 {
        if let Some(place) = self.places.get(&facts) {
            return *place;
        }
        let situation = &observation.situation;
        for word in Word::ALL {
            let hash = facts.word(word);
            if hash != 0
                && !self.names.contains_key(&hash)
                && let Some(name) = text(situation, word, cut)
            {
                self.names.insert(hash, name);
            }
        }
        let network = situation.workload.model.as_deref();
        self.networks.extend(network.map(cut));
        self.names
            .entry(facts.workload)
            .or_insert_with(|| workload_name(situation));
        let place = u32::try_from(self.groups.len()).unwrap_or(u32::MAX);
        self.groups.push(Group {
            facts,
            runs: 0,
            doubted: (0, 0),
            met: 0,
            namings: namings(situation),
            exact: [0.0; EXACT.len()],
            numbers: match observation.epoch_seconds {
                Some(_) => BTreeMap::new(),
                None => situation.numbers.clone(),
            },
        });
        self.places.insert(facts, place);
        place
    }

    fn note_fingerprint(&mut self, observation: &Observation, facts: &Facts) {
        let float = |value: Option<f64>| value.map_or([0, 0], |value| [1, value.to_bits()]);
        let length = |length: Option<Length>| {
            float(length.map(|length| match length {
                Length::Known(seconds) => seconds,
                Length::AtLeast(seconds) => -seconds,
            }))
        };
        let parts = [
            [
                u64::from(observation.element),
                u64::from(observation.attempt),
            ],
            [facts.fingerprint(), observation.doubts.bits().into()],
            length(observation.epoch_seconds),
            length(observation.wall_seconds),
            float(observation.between_seconds),
            length(observation.outside_seconds),
            observation.memory_bytes.map_or([0, 0], |bytes| [1, bytes]),
        ];
        let hash = Hash::new(6).name(observation.run_id.as_str());
        let hash = parts
            .iter()
            .flatten()
            .fold(hash, |hash, part| hash.number(*part))
            .end();
        // A sum does not know the order; two of them are not the same by chance.
        self.fingerprint[0] = self.fingerprint[0].wrapping_add(hash);
        self.fingerprint[1] = self.fingerprint[1].wrapping_add(mixed(hash ^ 0x5851_f42d_4c95_7f2d));
    }

    /// The name with a hash.
    pub(super) fn name(&self, hash: u64) -> &str {
        self.names.get(&hash).map_or("unknown", String::as_str)
    }

    /// Which compilers were measured with which framework, in the order of their names.
    pub(super) fn compilers(&self) -> BTreeMap<u64, Vec<String>> {
        let mut found: BTreeMap<u64, Vec<String>> = BTreeMap::new();
        for facts in self.groups.iter().map(|group| &group.facts) {
            let Some(name) = self.names.get(&facts.word(Word::Compiler)) else {
                continue;
            };
            let compilers = found.entry(facts.word(Word::Framework)).or_default();
            if !compilers.contains(name) {
                compilers.push(name.clone());
            }
        }
        found.values_mut().for_each(|compilers| compilers.sort());
        found
    }
}
