//! What was measured at all: how many runs stand behind a forecast, and how far outside of them it lies.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

use super::Situation;
use super::facts::{EXACT, Facts, Size, Word, cut, exact_sizes, namings, text};
use super::gather::{Gathered, Group, Growth};
use crate::foundation::diagnostic::nearest;
use crate::foundation::hash::Hash;
use crate::foundation::units::counted;
use crate::record::Basis;

/// A size is outside where it is beyond the ends by more than this factor: less is within what a power law bears.
const BEYOND: f64 = 1.25;
/// The sizes of a training are taken from runs of the same name where this share of them agrees.
const AGREED: f64 = 0.9;

/// As many names of networks are looked through for one that is nearly the job's.
const NETWORKS: usize = 1000;

/// Values by hash, ascending: read from a file in less time than a map.
pub(super) type Sorted<T> = Vec<(u64, T)>;

/// The value of a hash.
pub(super) fn value_of<T>(sorted: &[(u64, T)], hash: u64) -> Option<&T> {
    let at = sorted.binary_search_by_key(&hash, |(hash, _)| *hash).ok()?;
    Some(&sorted[at].1)
}

/// Counts and ends.
#[derive(Debug, Clone, Default, Serialize, Deserialize)]
pub(super) struct Experience {
    /// Runs by hash, ascending: of similar runs, of workloads, of software, and of words.
    counts: Sorted<Runs>,
    /// The ends of each size, by workload; 0: those of all.
    ends: Sorted<Ends>,
    /// The usual sizes of trainings, by their names.
    named: Sorted<Training>,
    /// Names of networks that people chose.
    networks: Vec<String>,
    /// Operations of a sample, in steps of the logarithm, by workload that was measured.
    operations: Sorted<Option<i32>>,
    /// What the time of runs without known epochs grows with, by workload.
    pub(super) growth: BTreeMap<u64, Growth>,
}

/// Whether a name is that of a program, with a hash of what it runs.
fn is_key(name: &str) -> bool {
    let hash = name.rsplit_once('-').map(|(_, hash)| hash);
    hash.is_some_and(|hash| hash.len() == 16 && hash.bytes().all(|byte| byte.is_ascii_digit()))
}

/// How many runs there are, how many of them are in doubt, and the bits of their doubts.
#[derive(Debug, Clone, Copy, Default, Serialize, Deserialize)]
pub(super) struct Runs {
    pub(super) runs: u64,
    pub(super) doubtful: u64,
    pub(super) doubts: u32,
}

/// The smallest and the largest that was measured of each size; 0: none was.
type Ends = [(f64, f64); EXACT.len()];

/// A training by its name: its workload, its samples and parameters, and how many runs it had.
type Training = (u64, (f64, f64), u32);

/// The sizes that runs of each name have, where nearly all agree.
fn named(gathered: &Gathered) -> Sorted<Training> {
    let mut trainings: BTreeMap<(u64, u64), (f64, f64, u32)> = BTreeMap::new();
    let mut all: BTreeMap<u64, u32> = BTreeMap::new();
    for group in &gathered.groups {
        let Group {
            facts, runs, exact, ..
        } = group;
        let Some((both, network)) = group.namings.filter(|_| *runs > 0) else {
            continue;
        };
        for name in both.into_iter().chain([network]) {
            let training = trainings.entry((name, facts.workload)).or_insert((
                exact[Size::Samples as usize],
                exact[Size::Parameters as usize],
                0,
            ));
            for count in [&mut training.2, all.entry(name).or_default()] {
                *count = count.saturating_add(*runs);
            }
        }
    }
    let agrees = |name: u64, runs: u32| f64::from(runs) >= AGREED * f64::from(all[&name]);
    let trainings = trainings
        .into_iter()
        .filter(|((name, _), (.., runs))| agrees(*name, *runs));
    let record = |((name, workload), (samples, parameters, runs))| {
        (name, (workload, (samples, parameters), runs))
    };
    trainings.map(record).collect()
}

/// The key of a word's count. `None`: nothing is known of it, or it is a word that need not have been met before.
fn word_key(facts: &Facts, word: Word) -> Option<u64> {
    let hash = facts.word(word);
    let is_known = hash != 0 && word != Word::Image;
    let within = if word == Word::Version {
        facts.word(Word::Framework)
    } else {
        0
    };
    let key = Hash::new(11).number(word as u64).number(within);
    is_known.then(|| key.number(hash).end())
}

impl Experience {
    pub(super) fn new(gathered: &Gathered) -> Self {
        let networks = gathered.networks.iter().filter(|name| !is_key(name));
        let mut experience = Self {
            named: named(gathered),
            growth: gathered.growth.clone(),
            operations: gathered.operations.clone().into_iter().collect(),
            networks: networks.cloned().collect(),
            ..Self::default()
        };
        let (mut counts, mut ends): (BTreeMap<_, Runs>, BTreeMap<_, Ends>) = Default::default();
        for group in gathered.groups.iter().filter(|group| group.met > 0) {
            let Group { facts, runs, .. } = group;
            let (doubtful, doubts) = group.doubted;
            for key in facts.keys_of_likeness().into_iter().filter(|_| *runs > 0) {
                let all = counts.entry(key).or_default();
                all.runs += u64::from(*runs);
                all.doubtful += u64::from(doubtful);
                all.doubts |= doubts;
            }
            // What was cut off was met, though less is known of it.
            for key in Word::ALL.iter().filter_map(|word| word_key(facts, *word)) {
                counts.entry(key).or_default().runs += u64::from(group.met);
            }
            for key in [0, facts.workload] {
                let ends = ends.entry(key).or_default();
                for ((low, high), size) in ends.iter_mut().zip(&group.exact) {
                    if *size > 0.0 {
                        *low = if *low > 0.0 { low.min(*size) } else { *size };
                        *high = high.max(*size);
                    }
                }
            }
        }
        experience.counts = counts.into_iter().collect();
        experience.ends = ends.into_iter().collect();
        experience
    }

    /// The facts of a situation. Where its workload was never measured and leaves sizes out, they are those of the runs of the same
    /// name, and that is reported.
    pub(super) fn completed(&self, situation: &Situation) -> (Facts, Vec<String>) {
        let facts = Facts::new(situation);
        // Those of a measured workload are known from its runs, whatever this job declares.
        let known = value_of(&self.operations, facts.workload).copied();
        let facts = facts.with_operations(known.unwrap_or(facts.operations()));
        let complete = || (facts, Vec::new());
        let sizes = exact_sizes(situation);
        let is_open = [Size::Samples, Size::Parameters]
            .iter()
            .any(|size| sizes[*size as usize] <= 0.0);
        if !is_open && situation.workload.dataset.is_some()
            || value_of(&self.ends, facts.workload).is_some()
        {
            return complete();
        }
        let Some((both, network)) = namings(situation) else {
            return complete();
        };
        let Some(found) = value_of(&self.named, both.unwrap_or(network)) else {
            return complete();
        };
        let (workload, taken, runs) = *found;
        let mut taken_over = Vec::new();
        for (size, name, taken) in [
            (Size::Samples, "samples", taken.0),
            (Size::Parameters, "parameters", taken.1),
        ] {
            let size = sizes[size as usize];
            if size > 0.0 && size != taken {
                return complete();
            }
            if size <= 0.0 && taken > 0.0 {
                taken_over.push(format!("{name} = {taken:.0}"));
            }
        }
        let same = if both.is_some() {
            "of this network with this data set"
        } else {
            "of this network"
        };
        let runs = counted(runs.into(), "run");
        let assumed = match taken_over.join(", ") {
            none if none.is_empty() => format!("the data set is taken to be that of {runs} {same}"),
            taken => format!("`[workload]` is taken to have {taken}, as in {runs} {same}"),
        };
        (facts.as_workload(workload, taken.0, taken.1), vec![assumed])
    }

    fn count(&self, key: u64) -> Runs {
        value_of(&self.counts, key).copied().unwrap_or_default()
    }

    /// What a forecast rests on, and the runs behind that.
    pub(super) fn basis(&self, facts: &Facts) -> (Basis, Runs) {
        let [alike, workload, version, framework, _] = facts.keys_of_likeness();
        let named = facts.word(Word::Framework) != 0;
        let keys = [
            (Basis::Alike, alike, true),
            (Basis::Workload, workload, true),
            (Basis::Software, version, named),
            (Basis::Software, framework, named),
        ];
        let mut found = keys
            .into_iter()
            .filter(|(_, key, counts)| *counts && self.count(*key).runs > 0);
        let (basis, key, _) = found.next().unwrap_or((Basis::Priors, 0, true));
        (basis, self.count(key))
    }

    /// Whether a workload ran on different numbers of nodes.
    pub(super) fn scaled(&self, workload: u64) -> bool {
        let ends = value_of(&self.ends, workload);
        ends.map(|ends| ends[Size::Nodes as usize])
            .is_some_and(|(fewest, most)| fewest < most)
    }

    /// The ends of each size: with a workload, else at all.
    fn ends_for(&self, workload: u64) -> Option<(Ends, &'static str)> {
        let of = |key: u64, with| Some((*value_of(&self.ends, key)?, with));
        of(workload, "with this workload").or_else(|| of(0, "at all"))
    }

    /// How far outside of what was measured each size lies, as a natural logarithm: above 0 it is larger, below smaller; 0: within, or
    /// not known.
    pub(super) fn outside(&self, situation: &Situation, facts: &Facts) -> [f64; EXACT.len()] {
        let Some((ends, _)) = self.ends_for(facts.workload) else {
            return [0.0; EXACT.len()];
        };
        let mut outside = exact_sizes(situation);
        for (size, (low, high)) in outside.iter_mut().zip(ends) {
            let far = (*size / high).ln().max(0.0) + (*size / low).ln().min(0.0);
            *size = if *size > 0.0 && high > 0.0 { far } else { 0.0 };
        }
        outside
    }

    /// That no run had the job's network, where one had nearly its name.
    fn misspelt(&self, situation: &Situation) -> Option<String> {
        let asked = situation.workload.model.as_deref()?;
        let plain = |name: &str| name.to_ascii_lowercase().replace(['_', ' ', '.'], "-");
        let networks = || self.networks.iter().map(String::as_str);
        let is_met = |name: &str| name.eq_ignore_ascii_case(asked);
        if is_key(asked) || networks().any(is_met) {
            return None;
        }
        let same = networks().find(|name| plain(name) == plain(asked));
        let meant = same.or_else(|| nearest(&plain(asked), networks().take(NETWORKS)))?;
        let asked = cut(asked);
        Some(format!(
            "network {asked} was never measured; did you mean `{meant}`?"
        ))
    }

    /// How far outside of what was measured a run lies, in words.
    pub(super) fn beyond(&self, situation: &Situation, facts: &Facts) -> Vec<String> {
        let mut found: Vec<String> = self.misspelt(situation).into_iter().collect();
        for word in Word::ALL {
            if word_key(facts, word).is_some_and(|key| self.count(key).runs == 0) {
                let known = facts.size(Size::Peak).filter(|_| word == Word::Hardware);
                let instead = known.map_or("", |_| "; its speed is taken from its data sheet");
                found.extend(text(situation, word, |text| {
                    let (what, name) = (word.as_str(), cut(text));
                    format!("{what} {name} was never measured{instead}")
                }));
            }
        }
        let Some((ends, with)) = self.ends_for(facts.workload) else {
            return found;
        };
        let far = self.outside(situation, facts).into_iter();
        let sizes = EXACT.iter().zip(exact_sizes(situation));
        for (((name, size), far), (low, high)) in sizes.zip(far).zip(ends) {
            let (way, end) = match far {
                far if far > BEYOND.ln() => ("the largest", high),
                far if far < -BEYOND.ln() => ("below the smallest", low),
                _ => continue,
            };
            let times = far.abs().exp();
            let (size, times, end) = (rounded(size), rounded(times), rounded(end));
            found.push(format!(
                "the {name}, {size}, is {times} times {way} measured {with}, {end}"
            ));
        }
        found
    }
}

/// Whole numbers as they are, others with two digits behind the point at most.
fn rounded(number: f64) -> String {
    if number >= 100.0 || number.fract() == 0.0 {
        format!("{number:.0}")
    } else {
        format!("{number:.2}")
            .trim_end_matches('0')
            .trim_end_matches('.')
            .to_owned()
    }
}
