//! What was measured at all: how many runs stand behind a forecast, and how far outside of them it lies.

use std::collections::BTreeMap;

use super::Situation;
use super::bytes::{Reader, Writer, record};
use super::facts::{EXACT, Facts, Word, cut, exact_sizes, text};
use super::gather::Gathered;
use super::hash::{Hash, OfHashes};
use crate::record::Basis;

/// Bytes of a count's record.
const COUNT: usize = 12;
/// Bytes of a workload's record: hash, and the ends of each size.
const ENDS: usize = 8 + 16 * EXACT.len();
/// A size is outside where it is beyond the ends by more than this.
const BEYOND: f64 = 1.05;

/// Counts and ends, as they lie in a model file.
#[derive(Debug, Clone, Copy)]
pub(super) struct Known<'a> {
    /// Runs by hash: of alike runs, of workloads, of software, and of words.
    counts: &'a [u8],
    /// The ends of each size, by workload; 0: those of all.
    ends: &'a [u8],
}

/// The smallest and the largest that was measured of each size; 0: none was.
type Ends = [(f64, f64); EXACT.len()];

/// Writes what [`Known::read`] reads.
pub(super) fn write(gathered: &Gathered, writer: &mut Writer) {
    let mut counts: OfHashes<u32> = OfHashes::default();
    let mut ends: BTreeMap<u64, Ends> = BTreeMap::new();
    for ((facts, runs), exact) in gathered.groups.iter().zip(&gathered.runs).zip(&gathered.exact) {
        if *runs == 0 {
            continue;
        }
        let keys = [facts.alike(), of_workload(facts), facts.software(true), facts.software(false), 0];
        for key in keys.into_iter().chain(Word::ALL.iter().filter_map(|word| of_word(facts, *word))) {
            let count = counts.entry(key).or_default();
            *count = count.saturating_add(*runs);
        }
        for key in [0, facts.workload] {
            for ((low, high), size) in ends.entry(key).or_default().iter_mut().zip(exact) {
                if *size > 0.0 {
                    *low = if *low > 0.0 { low.min(*size) } else { *size };
                    *high = high.max(*size);
                }
            }
        }
    }
    let mut records = Writer::default();
    let mut counts: Vec<(u64, u32)> = counts.into_iter().collect();
    counts.sort_unstable();
    for (key, count) in counts {
        records.u64(key);
        records.u32(count);
    }
    writer.block(&records.0);
    let mut records = Writer::default();
    for (key, ends) in ends {
        records.u64(key);
        ends.iter().flat_map(|(low, high)| [*low, *high]).for_each(|size| records.f64(size));
    }
    writer.block(&records.0);
}

fn of_workload(facts: &Facts) -> u64 {
    Hash::new(10).number(facts.workload).end()
}

/// `None`: nothing is told of it, or it is a word that need not have been met before.
fn of_word(facts: &Facts, word: Word) -> Option<u64> {
    let hash = facts.word(word);
    let told = hash != 0 && word != Word::Image;
    let within = if word == Word::Version { facts.word(Word::Framework) } else { 0 };
    told.then(|| Hash::new(11).number(word as u64).number(within).number(hash).end())
}

impl<'a> Known<'a> {
    /// `None`: the bytes are damaged.
    pub(super) fn read(reader: &mut Reader<'a>) -> Option<Self> {
        let known = Self { counts: reader.block()?, ends: reader.block()? };
        (known.counts.len().is_multiple_of(COUNT) && known.ends.len().is_multiple_of(ENDS)).then_some(known)
    }

    fn count(self, key: u64) -> u64 {
        record(self.counts, COUNT, key).and_then(|mut reader| reader.u32()).map_or(0, u64::from)
    }

    /// What a forecast rests on, and how many runs that are.
    pub(super) fn basis(self, facts: &Facts) -> (Basis, u64) {
        let alike = self.count(facts.alike());
        if alike > 0 {
            return (Basis::Alike, alike);
        }
        let workload = self.count(of_workload(facts));
        if workload > 0 {
            return (Basis::Workload, workload);
        }
        let named = facts.word(Word::Framework) != 0;
        let software = [true, false].map(|version| self.count(facts.software(version)));
        match software.into_iter().find(|runs| *runs > 0 && named) {
            Some(runs) => (Basis::Software, runs),
            None => (Basis::Priors, self.count(0)),
        }
    }

    /// Whether a workload ran on different numbers of nodes.
    pub(super) fn scaled(self, workload: u64) -> bool {
        let nodes = EXACT.iter().position(|size| *size == "number of nodes");
        let ends = self.ends(workload).zip(nodes).and_then(|(ends, at)| ends.get(at).copied());
        ends.is_some_and(|(fewest, most)| fewest < most)
    }

    /// How far outside of what was measured a run lies, in words.
    pub(super) fn beyond(self, situation: &Situation, facts: &Facts) -> Vec<String> {
        let mut found = Vec::new();
        for (word, name) in [
            (Word::Framework, "framework"),
            (Word::Version, "version"),
            (Word::Compiler, "compiler"),
            (Word::Provenance, "provenance"),
            (Word::Precision, "precision"),
            (Word::Storage, "storage"),
            (Word::Hardware, "hardware"),
            (Word::Family, "family of networks"),
        ] {
            if of_word(facts, word).is_some_and(|key| self.count(key) == 0) {
                let told = text(situation, word, |text| format!("{name} {} was never measured", cut(text)));
                found.extend(told);
            }
        }
        let ends = self.ends(facts.workload).map(|ends| (ends, "with this workload"));
        let Some((ends, with)) = ends.or_else(|| self.ends(0).map(|ends| (ends, "at all"))) else {
            return found;
        };
        for ((name, size), (low, high)) in EXACT.iter().zip(exact_sizes(situation)).zip(ends) {
            if size <= 0.0 || high <= 0.0 {
                continue;
            }
            if size > high * BEYOND {
                let times = rounded(size / high);
                found.push(format!(
                    "the {name}, {}, is {times} times the largest measured {with}, {}",
                    rounded(size),
                    rounded(high)
                ));
            } else if size * BEYOND < low {
                let times = rounded(low / size);
                found.push(format!(
                    "the {name}, {}, is {times} times below the smallest measured {with}, {}",
                    rounded(size),
                    rounded(low)
                ));
            }
        }
        found
    }

    fn ends(self, workload: u64) -> Option<Ends> {
        let mut reader = record(self.ends, ENDS, workload)?;
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
        format!("{number:.2}").trim_end_matches('0').trim_end_matches('.').to_owned()
    }
}
