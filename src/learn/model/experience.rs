//! What was measured at all: how many runs stand behind a forecast, and how far outside of them it lies.

use std::collections::BTreeMap;

use super::bytes::{Reader, Writer, record};
use super::facts::{
    EXACT, Facts, NODES, PARAMETERS, SAMPLES, Word, cut, exact_sizes, namings, text,
};
use super::gather::{Gathered, Group};
use super::hash::{Hash, OfHashes};
use super::{Doubts, Situation};
use crate::record::Basis;

/// Bytes of a count's record.
const COUNT: usize = 12;
/// Bytes of a workload's record: hash, and the ends of each size.
const ENDS: usize = 8 + 16 * EXACT.len();
/// Bytes of a record of doubts: hash, runs, bits of their doubts.
const DOUBTED: usize = 16;
/// Bytes of a training's record: hash of its name, that of its workload, samples, parameters, runs.
const NAMED: usize = 36;
/// A size is outside where it is beyond the ends by more than this factor: less is within what a power law bears.
const BEYOND: f64 = 1.25;
/// The sizes of a training are taken from runs of the same name where this share of them agrees.
const AGREED: f64 = 0.9;

/// Counts and ends, as they lie in a model file.
#[derive(Debug, Clone)]
pub(super) struct Experience {
    /// Runs by hash: of similar runs, of workloads, of software, and of words.
    counts: Vec<u8>,
    /// The ends of each size, by workload; 0: those of all.
    ends: Vec<u8>,
    /// The usual sizes of trainings, by their names.
    named: Vec<u8>,
    /// Runs in doubt by hash: of similar runs, of workloads and of software. The first files had none.
    doubted: Vec<u8>,
}

/// What a forecast rests on.
pub(super) struct Rests {
    pub(super) basis: Basis,
    /// How many runs that are.
    pub(super) runs: u64,
    /// How many of them are in doubt.
    pub(super) doubtful: u64,
    /// Why, in words.
    pub(super) doubts: Vec<String>,
}

/// The smallest and the largest that was measured of each size; 0: none was.
type Ends = [(f64, f64); EXACT.len()];

/// Writes what [`Experience::read`] reads.
pub(super) fn write(gathered: &Gathered, writer: &mut Writer) {
    let mut counts: OfHashes<u32> = OfHashes::default();
    let mut ends: BTreeMap<u64, Ends> = BTreeMap::new();
    let mut doubted: OfHashes<(u32, u32)> = OfHashes::default();
    for group in gathered.groups.iter().filter(|group| group.met > 0) {
        let Group { facts, runs, .. } = group;
        let mut add = |key: u64, runs: u32| {
            let count = counts.entry(key).or_default();
            *count = count.saturating_add(runs);
        };
        if *runs > 0 {
            let keys = facts.keys_of_likeness();
            keys.into_iter().for_each(|key| add(key, *runs));
            let (doubtful, doubts) = group.doubted;
            for key in keys.into_iter().filter(|_| doubtful > 0) {
                let all = doubted.entry(key).or_default();
                *all = (all.0.saturating_add(doubtful), all.1 | doubts);
            }
        }
        // What was cut off was met, though less is known of it.
        Word::ALL
            .iter()
            .filter_map(|word| of_word(facts, *word))
            .for_each(|key| add(key, group.met));
        for key in [0, facts.workload] {
            for ((low, high), size) in ends.entry(key).or_default().iter_mut().zip(&group.exact) {
                if *size > 0.0 {
                    *low = if *low > 0.0 { low.min(*size) } else { *size };
                    *high = high.max(*size);
                }
            }
        }
    }
    write_records(writer, counts, |writer, count| writer.u32(count));
    write_records(writer, ends, |writer, ends| {
        let sizes = ends.iter().flat_map(|(low, high)| [*low, *high]);
        sizes.for_each(|size| writer.f64(size));
    });
    write_records(
        writer,
        named(gathered),
        |writer, (workload, sizes, runs)| {
            writer.u64(workload);
            writer.f64(sizes.0);
            writer.f64(sizes.1);
            writer.u32(runs);
        },
    );
    write_records(writer, doubted, |writer, (runs, doubts)| {
        writer.u32(runs);
        writer.u32(doubts);
    });
}

/// Writes a block of records in the order of their keys.
fn write_records<T>(
    writer: &mut Writer,
    records: impl IntoIterator<Item = (u64, T)>,
    write: impl Fn(&mut Writer, T),
) {
    let mut records: Vec<(u64, T)> = records.into_iter().collect();
    records.sort_by_key(|(key, _)| *key);
    let mut block = Writer::default();
    for (key, record) in records {
        block.u64(key);
        write(&mut block, record);
    }
    writer.block(&block.0);
}

/// A training by its name: its workload, its samples and parameters, and how many runs it had.
type Training = (u64, (f64, f64), u32);

/// The sizes that runs of each name have, where nearly all agree.
fn named(gathered: &Gathered) -> Vec<(u64, Training)> {
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
                exact[SAMPLES],
                exact[PARAMETERS],
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

/// `None`: nothing is known of it, or it is a word that need not have been met before.
fn of_word(facts: &Facts, word: Word) -> Option<u64> {
    let hash = facts.word(word);
    let is_known = hash != 0 && word != Word::Image;
    let within = if word == Word::Version {
        facts.word(Word::Framework)
    } else {
        0
    };
    is_known.then(|| {
        Hash::new(11)
            .number(word as u64)
            .number(within)
            .number(hash)
            .end()
    })
}

impl Experience {
    /// `None`: the bytes are damaged.
    pub(super) fn read(reader: &mut Reader<'_>) -> Option<Self> {
        let mut block = |size: usize| {
            let bytes = reader.block()?;
            bytes.len().is_multiple_of(size).then(|| bytes.to_vec())
        };
        let (counts, ends, named) = (block(COUNT)?, block(ENDS)?, block(NAMED)?);
        let doubted = match reader.0.is_empty() {
            true => Vec::new(),
            false => reader.block()?.to_vec(),
        };
        let is_whole = doubted.len().is_multiple_of(DOUBTED);
        is_whole.then_some(Self {
            counts,
            ends,
            named,
            doubted,
        })
    }

    /// The facts of a situation. Where its workload was never measured and leaves sizes out, they are those of the runs of the same
    /// name, and that is reported.
    pub(super) fn completed(&self, situation: &Situation) -> (Facts, Vec<String>) {
        let facts = Facts::new(situation);
        let complete = || (facts, Vec::new());
        let sizes = exact_sizes(situation);
        let is_open = [SAMPLES, PARAMETERS].iter().any(|at| sizes[*at] <= 0.0);
        if !is_open && situation.workload.dataset.is_some() || self.ends(facts.workload).is_some() {
            return complete();
        }
        let Some((both, network)) = namings(situation) else {
            return complete();
        };
        let Some(found) = self.training(both.unwrap_or(network)) else {
            return complete();
        };
        let (workload, taken, runs) = found;
        let mut taken_over = Vec::new();
        for (at, name, taken) in [
            (SAMPLES, "samples", taken.0),
            (PARAMETERS, "parameters", taken.1),
        ] {
            if sizes[at] > 0.0 && sizes[at] != taken {
                return complete();
            }
            if sizes[at] <= 0.0 && taken > 0.0 {
                taken_over.push(format!("{name} = {taken:.0}"));
            }
        }
        let same = if both.is_some() {
            "of this network with this data set"
        } else {
            "of this network"
        };
        let plural = if runs == 1 { "" } else { "s" };
        let assumed = match taken_over.is_empty() {
            true => format!("the data set is taken to be that of {runs} run{plural} {same}"),
            false => {
                format!(
                    "`[workload]` is taken to have {}, as in {runs} run{plural} {same}",
                    taken_over.join(", ")
                )
            }
        };
        (facts.as_workload(workload, taken.0, taken.1), vec![assumed])
    }

    /// Workload, samples and parameters, and runs of the trainings with a name.
    fn training(&self, name: u64) -> Option<Training> {
        let mut reader = record(&self.named, NAMED, name)?;
        Some((reader.u64()?, (reader.f64()?, reader.f64()?), reader.u32()?))
    }

    fn count(&self, key: u64) -> u64 {
        record(&self.counts, COUNT, key)
            .and_then(|mut reader| reader.u32())
            .map_or(0, u64::from)
    }

    /// What a forecast rests on.
    pub(super) fn basis(&self, facts: &Facts) -> Rests {
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
            .filter(|(_, key, counts)| *counts && self.count(*key) > 0);
        let (basis, key, _) = found.next().unwrap_or((Basis::Priors, 0, true));
        let doubted = record(&self.doubted, DOUBTED, key);
        let (doubtful, doubts) = doubted
            .and_then(|mut reader| Some((reader.u32()?, reader.u32()?)))
            .unwrap_or_default();
        let doubts = Doubts::words(doubts);
        Rests {
            basis,
            runs: self.count(key),
            doubtful: doubtful.into(),
            doubts,
        }
    }

    /// Whether a workload ran on different numbers of nodes.
    pub(super) fn scaled(&self, workload: u64) -> bool {
        self.ends(workload)
            .map(|ends| ends[NODES])
            .is_some_and(|(fewest, most)| fewest < most)
    }

    /// The ends of each size: with a workload, else at all.
    fn ends_for(&self, workload: u64) -> Option<(Ends, &'static str)> {
        let ends = self.ends(workload).map(|ends| (ends, "with this workload"));
        ends.or_else(|| self.ends(0).map(|ends| (ends, "at all")))
    }

    /// How far outside of what was measured each size lies, as a natural logarithm: above 0 it is larger, below smaller; 0: within, or
    /// not known.
    pub(super) fn outside(&self, situation: &Situation, facts: &Facts) -> [f64; EXACT.len()] {
        let Some((ends, _)) = self.ends_for(facts.workload) else {
            return [0.0; EXACT.len()];
        };
        let mut outside = exact_sizes(situation);
        for (size, (low, high)) in outside.iter_mut().zip(ends) {
            let known = *size > 0.0 && high > 0.0;
            *size = if known {
                (*size / high).ln().max(0.0) + (*size / low).ln().min(0.0)
            } else {
                0.0
            };
        }
        outside
    }

    /// How far outside of what was measured a run lies, in words.
    pub(super) fn beyond(&self, situation: &Situation, facts: &Facts) -> Vec<String> {
        let mut found = Vec::new();
        for word in Word::ALL {
            if of_word(facts, word).is_some_and(|key| self.count(key) == 0) {
                found.extend(text(situation, word, |text| {
                    format!("{} {} was never measured", word.as_str(), cut(text))
                }));
            }
        }
        let Some((ends, with)) = self.ends_for(facts.workload) else {
            return found;
        };
        for ((name, size), (low, high)) in EXACT.iter().zip(exact_sizes(situation)).zip(ends) {
            let (times, way, end) = if size <= 0.0 || high <= 0.0 {
                continue;
            } else if size > high * BEYOND {
                (size / high, "the largest", high)
            } else if size * BEYOND < low {
                (low / size, "below the smallest", low)
            } else {
                continue;
            };
            let (size, times, end) = (rounded(size), rounded(times), rounded(end));
            found.push(format!(
                "the {name}, {size}, is {times} times {way} measured {with}, {end}"
            ));
        }
        found
    }

    fn ends(&self, workload: u64) -> Option<Ends> {
        let mut reader = record(&self.ends, ENDS, workload)?;
        let mut ends = Ends::default();
        for (low, high) in &mut ends {
            (*low, *high) = (reader.f64()?, reader.f64()?);
        }
        Some(ends)
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn files_of_before_the_doubts_are_read() {
        let mut writer = Writer::default();
        [0, 0, 0].iter().for_each(|_| writer.block(&[]));
        let known = Experience::read(&mut Reader(&writer.0)).expect("an old one");
        let rests = known.basis(&Facts::new(&Situation::default()));
        assert_eq!(
            (rests.basis, rests.runs, rests.doubtful),
            (Basis::Priors, 0, 0)
        );
        writer.block(&[0; DOUBTED]);
        assert!(Experience::read(&mut Reader(&writer.0)).is_some());
        assert!(Experience::read(&mut Reader(&writer.0[..writer.0.len() - 1])).is_none());
    }
}
