//! The choice among images: those that fit, in their order, and those that do not, each with why.

use crate::image::catalogue::Entry;
use crate::image::choice::judge::verdict;
use crate::image::choice::processor::generation;
use crate::image::choice::rank::{Standing, reasons};
use crate::image::choice::wanted::Wanted;

/// An image of the catalogue, compared with what a job wants.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Candidate {
    /// Its place among the entries.
    pub index: usize,
    /// Why it cannot be taken; empty: it fits.
    pub rejected: Vec<String>,
    /// What speaks for it, where it fits.
    pub reasons: Vec<String>,
    /// What is not known, and would speak against it; where it fits.
    pub unknown: Vec<String>,
    /// What speaks for the winner over it; `None` for the winner itself and for what does not fit.
    pub beaten: Option<&'static str>,
}

/// The choice.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Choice {
    /// The place of the image that is taken.
    pub winner: Option<usize>,
    /// All images: first those that fit, best first, then the others by their names.
    pub candidates: Vec<Candidate>,
}

/// Chooses. The result does not depend on the order of `entries`, whose names differ.
#[must_use]
pub fn choose(entries: &[Entry], wanted: &Wanted) -> Choice {
    let (mut fitting, mut rejected) = (Vec::new(), Vec::new());
    for (index, entry) in entries.iter().enumerate() {
        let verdict = verdict(entry, wanted);
        let candidate = Candidate {
            index,
            rejected: verdict.rejected,
            reasons: Vec::new(),
            unknown: verdict.unknown,
            beaten: None,
        };
        if candidate.rejected.is_empty() {
            let come = generation(entry.microarch.as_deref());
            fitting.push((Standing::new(entry, wanted, come), candidate));
        } else {
            rejected.push(candidate);
        }
    }
    fitting.sort_by(|(left, _), (right, _)| left.compare(right).0);
    rejected.sort_by(|left, right| entries[left.index].name.cmp(&entries[right.index].name));
    let best = fitting.first().map(|(standing, _)| standing.clone());
    let mut candidates = Vec::with_capacity(entries.len());
    for (place, (standing, mut candidate)) in fitting.into_iter().enumerate() {
        candidate.reasons = reasons(&entries[candidate.index], wanted);
        candidate.beaten = best
            .as_ref()
            .filter(|_| place > 0)
            .map(|best| best.compare(&standing).1);
        candidates.push(candidate);
    }
    let winner = best.and(candidates.first().map(|candidate| candidate.index));
    candidates.append(&mut rejected);
    Choice { winner, candidates }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;
    use proptest::sample::{Index, select};

    use super::*;
    use crate::config::{Origin, Owner, VersionRange};
    use crate::image::catalogue::{Accelerator, Check, FileState, Place};
    use crate::image::choice::{Device, Processor};
    use crate::job::Provenance;

    fn entry(name: &str, change: impl FnOnce(&mut Entry)) -> Entry {
        let place = Place::Path(format!("/i/{name}.sif").into());
        let mut entry = Entry::new(
            name,
            place,
            "tensorflow",
            "2.4.1",
            Owner::Site,
            Origin::Default,
        );
        change(&mut entry);
        entry
    }

    fn wanted(change: impl FnOnce(&mut Wanted)) -> Wanted {
        let mut wanted = Wanted {
            framework: "tensorflow".into(),
            version: None,
            packages: Vec::new(),
            compiler: None,
            provenance: None,
            arch: Some(("x86_64".into(), "test".into())),
            processor: Processor::Unknown,
            device: Device::Cpu,
        };
        change(&mut wanted);
        wanted
    }

    fn gpus(maker: Accelerator, driver: Option<&str>) -> Device {
        let driver = driver.map(|driver| (driver.to_owned(), "test".to_owned()));
        Device::Gpu {
            maker,
            driver,
            capabilities: Vec::new(),
        }
    }

    fn check(problems: &[&str]) -> Check {
        Check {
            image: "a".into(),
            at_ms: 0,
            host: "node1".into(),
            runtime: "apptainer 1.4.5".into(),
            size_bytes: Some(7),
            modified_ms: Some(9),
            digest: None,
            problems: problems
                .iter()
                .map(|problem| (*problem).to_owned())
                .collect(),
            versions: std::collections::BTreeMap::new(),
            compilers: Vec::new(),
            gpus: None,
            mpi_abi: None,
        }
    }

    const fn file(size: u64) -> FileState {
        FileState::There {
            size_bytes: Some(size),
            modified_ms: 9,
        }
    }

    /// Why the only image is rejected; empty: it is taken.
    fn why(entry: Entry, wanted: &Wanted) -> String {
        let choice = choose(&[entry], wanted);
        assert_eq!(
            choice.winner.is_some(),
            choice.candidates[0].rejected.is_empty()
        );
        choice.candidates[0].rejected.join("; ")
    }

    fn range(text: &str) -> Option<VersionRange> {
        Some(VersionRange::parse(text).expect("a range"))
    }

    #[test]
    fn each_hard_constraint_rejects_with_its_reason() {
        let nvidia = |driver| wanted(|wanted| wanted.device = gpus(Accelerator::Nvidia, driver));
        let for_nvidia = |cuda: &str| {
            entry("a", |entry| {
                entry.accelerator = Accelerator::Nvidia;
                entry.cuda = Some(cuda.to_owned());
            })
        };
        let zen3 = wanted(|wanted| {
            wanted.processor = Processor::Named("zen3".into(), "[queues.q]".into())
        });
        for (entry, wanted, part) in [
            (
                entry("a", |entry| entry.framework = "keras".into()),
                wanted(|_| {}),
                "it has keras, not tensorflow",
            ),
            (
                entry("a", |entry| entry.version = "2.10".into()),
                wanted(|wanted| wanted.version = range("2.1")),
                "version 2.10 is not in 2.1",
            ),
            (
                entry("a", |entry| entry.provenance = Some(Provenance::Hub)),
                wanted(|wanted| wanted.provenance = Some(Provenance::Pip)),
                "its provenance is hub",
            ),
            (
                entry("a", |_| {}),
                wanted(|wanted| wanted.provenance = Some(Provenance::Pip)),
                "its provenance is not said",
            ),
            (
                entry("a", |entry| entry.compilers = vec!["ngraph".into()]),
                wanted(|wanted| wanted.compiler = Some("xla".into())),
                "it compiles with ngraph, and xla is wanted",
            ),
            (
                entry("a", |entry| entry.arch = "aarch64".into()),
                wanted(|_| {}),
                "it is for aarch64, and the nodes are x86_64 (test)",
            ),
            (
                entry("a", |entry| entry.microarch = Some("x86-64-v4".into())),
                zen3,
                "zen3 ([queues.q]) lacks avx512bw",
            ),
            (entry("a", |_| {}), nvidia(None), "CPUs alone"),
            (
                entry("a", |entry| entry.accelerator = Accelerator::Amd),
                nvidia(None),
                "GPUs of amd, and the job's are of nvidia",
            ),
            (
                for_nvidia("12.4"),
                nvidia(Some("470.57")),
                "CUDA 12.4 needs driver 525.60.13, and the nodes have 470.57 (test)",
            ),
            (
                entry("a", |entry| {
                    entry.file = FileState::Missing("/i/a.sif is not there".into())
                }),
                wanted(|_| {}),
                "is not there",
            ),
            (
                entry("a", |entry| {
                    entry.check = Some(check(&[]));
                    entry.file = file(8);
                }),
                wanted(|_| {}),
                "has changed since it was checked; `dlrun image check a`",
            ),
            (
                entry("a", |entry| entry.check = Some(check(&["no python", "x"]))),
                wanted(|_| {}),
                "its check on node1 failed: no python (and 1 more)",
            ),
        ] {
            let why = why(entry, &wanted);
            assert!(why.contains(part), "{why:?}, not {part:?}");
        }
    }

    #[test]
    fn what_is_not_known_rejects_nothing_and_is_said() {
        let image = entry("a", |entry| {
            entry.accelerator = Accelerator::Nvidia;
            entry.cuda = Some("12.4".into());
            entry.microarch = Some("zen3".into());
        });
        let wanted = wanted(|wanted| {
            wanted.device = gpus(Accelerator::None, None);
            wanted.arch = None;
        });
        let choice = choose(&[image], &wanted);
        assert_eq!(choice.winner, Some(0));
        let unknown = choice.candidates[0].unknown.join("; ");
        for part in [
            "whether the nodes are x86_64",
            "built for zen3",
            "driver serves CUDA 12.4 (at least 525.60.13)",
        ] {
            assert!(unknown.contains(part), "{part} in {unknown}");
        }
    }

    #[test]
    fn suffixes_of_versions_do_not_count_for_ranges() {
        let nvidias = entry("a", |entry| {
            entry.version = "2.4.0a0+f70bd71a48.nv24.06".into()
        });
        assert_eq!(
            why(nvidias, &wanted(|wanted| wanted.version = range("2.4"))),
            ""
        );
    }

    /// The first criterion that differs decides; each line differs in that one from `plain`.
    #[test]
    fn images_are_ranked_criterion_by_criterion() {
        let cpus =
            wanted(|wanted| wanted.processor = Processor::Named("zen3".into(), "test".into()));
        let on_gpus = wanted(|wanted| wanted.device = gpus(Accelerator::Nvidia, None));
        let gpu = |entry: &mut Entry| entry.accelerator = Accelerator::Nvidia;
        type Change = fn(&mut Entry);
        let pairs: [(&Wanted, Change, Change, &str); 11] = [
            (
                &cpus,
                |_| {},
                |entry| entry.accelerator = Accelerator::Nvidia,
                "it suits the device better",
            ),
            (
                &cpus,
                |entry| entry.check = Some(check(&[])),
                |_| {},
                "it was checked",
            ),
            (
                &cpus,
                |entry| entry.microarch = Some("zen2".into()),
                |entry| entry.microarch = Some("x86-64-v3".into()),
                "its microarchitecture suits the nodes better",
            ),
            (
                &cpus,
                |_| {},
                |entry| entry.compilers = vec!["xla".into()],
                "its graph compilers suit the device better",
            ),
            (
                &on_gpus,
                |entry| entry.compilers = vec!["xla".into()],
                |_| {},
                "its graph compilers suit the device better",
            ),
            (
                &cpus,
                |entry| entry.provenance = Some(Provenance::Source),
                |entry| entry.provenance = Some(Provenance::Pip),
                "its provenance is preferred",
            ),
            (
                &cpus,
                |entry| entry.version = "2.10".into(),
                |entry| entry.version = "2.9.1".into(),
                "its version is newer",
            ),
            (
                &cpus,
                |entry| entry.version = "2.4.0".into(),
                |entry| entry.version = "2.4.0rc1".into(),
                "its version is a release",
            ),
            (
                &cpus,
                |_| {},
                |entry| entry.place = Place::Uri("docker://x".into()),
                "it is a file, and need not be fetched",
            ),
            (
                &cpus,
                |entry| entry.owner = Owner::User,
                |_| {},
                "it is the user's own",
            ),
            (
                &cpus,
                |entry| entry.name = "A".into(),
                |_| {},
                "its name comes first",
            ),
        ];
        for (wanted, better, worse, decided) in pairs {
            let make = |name, change: Change| {
                entry(name, |entry| {
                    if matches!(wanted.device, Device::Gpu { .. }) {
                        gpu(entry);
                    }
                    change(entry);
                })
            };
            // The better one has the later name, but where names decide.
            let entries = [make("y", worse), make("z", better)];
            let choice = choose(&entries, wanted);
            assert_eq!(
                (choice.winner, choice.candidates[1].beaten),
                (Some(1), Some(decided))
            );
        }
    }

    const VERSIONS: [&str; 7] = ["2.1", "2.1.0", "2.10", "2.9.1", "3.0", "2.4.0rc1", "1.15"];
    const MICROARCHS: [Option<&str>; 6] = [
        None,
        Some("x86-64-v2"),
        Some("x86-64-v3"),
        Some("x86-64-v4"),
        Some("zen3"),
        Some("odd"),
    ];

    prop_compose! {
        fn any_entry()(
            framework in select(vec!["tensorflow", "tensorflow", "tensorflow", "keras"]),
            (version, microarch) in (select(VERSIONS.to_vec()), select(MICROARCHS.to_vec())),
            arch in select(vec!["x86_64", "x86_64", "x86_64", "aarch64"]),
            accelerator in select(Accelerator::WORDS.map(|(_, accelerator)| accelerator).to_vec()),
            cuda in select(vec![None, Some("10.1"), Some("11.8"), Some("12.4"), Some("13.0")]),
            compilers in select(vec![vec![], vec!["xla"], vec!["ngraph"], vec!["xla", "ngraph"]]),
            provenance in select(vec![None, Some(Provenance::Hub), Some(Provenance::Pip), Some(Provenance::Source)]),
            file in select(vec![FileState::NotLooked, file(7), file(7), file(8), FileState::Missing("gone".into())]),
            check in select(vec![None, None, Some(check(&[])), Some(check(&["bad"]))]),
            (is_uri, is_user) in (any::<bool>(), any::<bool>()),
        ) -> Entry {
            entry("a", |entry| {
                entry.framework = framework.into();
                entry.version = version.into();
                entry.microarch = microarch.map(str::to_owned);
                entry.arch = arch.into();
                entry.accelerator = accelerator;
                entry.cuda = cuda.map(str::to_owned);
                entry.compilers = compilers.into_iter().map(str::to_owned).collect();
                entry.provenance = provenance;
                entry.file = file;
                entry.check = check;
                if is_uri { entry.place = Place::Uri("docker://x".into()); }
                if is_user { entry.owner = Owner::User; }
            })
        }
    }

    prop_compose! {
        fn any_wanted()(
            version in select(vec![None, Some("2.1"), Some(">=2.1, <3"), Some("<2.9"), Some("*")]),
            compiler in select(vec![None, None, Some("xla"), Some("none")]),
            provenance in select(vec![None, None, Some(Provenance::Source)]),
            arch in select(vec![Some("x86_64"), Some("aarch64"), None]),
            processor in select(vec![None, Some("zen3"), Some("haswell"), Some("x86-64-v4")]),
            device in select(vec![
                Device::Cpu,
                gpus(Accelerator::None, None),
                gpus(Accelerator::Nvidia, Some("520.1")),
                gpus(Accelerator::Nvidia, None),
                gpus(Accelerator::Amd, None),
            ]),
        ) -> Wanted {
            Wanted {
                framework: "tensorflow".into(),
                version: version.and_then(range),
                packages: Vec::new(),
                compiler: compiler.map(str::to_owned),
                provenance,
                arch: arch.map(|arch| (arch.to_owned(), "test".to_owned())),
                processor: processor.map_or(Processor::Unknown, |name| Processor::Named(name.into(), "test".into())),
                device,
            }
        }
    }

    /// Says the same as the judge, from tables written out by hand for the values above.
    fn fits(entry: &Entry, wanted: &Wanted) -> bool {
        let versions: &[&str] = match wanted.version.as_ref().map(ToString::to_string).as_deref() {
            Some("2.1") => &["2.1", "2.1.0"],
            Some(">=2.1, <3") => &["2.1", "2.1.0", "2.10", "2.9.1", "2.4.0rc1"],
            Some("<2.9") => &["2.1", "2.1.0", "2.4.0rc1", "1.15"],
            _ => &VERSIONS,
        };
        let Processor::Named(name, _) = &wanted.processor else {
            return fits_otherwise(
                entry,
                wanted,
                versions,
                &["x86-64-v2", "x86-64-v3", "x86-64-v4", "zen3"],
            );
        };
        let runs: &[&str] = match name.as_str() {
            "zen3" => &["x86-64-v2", "x86-64-v3", "zen3"],
            "haswell" => &["x86-64-v2", "x86-64-v3"],
            _ => &["x86-64-v2", "x86-64-v3", "x86-64-v4"],
        };
        fits_otherwise(entry, wanted, versions, runs)
    }

    fn fits_otherwise(entry: &Entry, wanted: &Wanted, versions: &[&str], runs: &[&str]) -> bool {
        let device = match &wanted.device {
            Device::Cpu => true,
            Device::Gpu { maker, driver, .. } => {
                let is_old =
                    driver.is_some() && matches!(entry.cuda.as_deref(), Some("12.4" | "13.0"));
                match (entry.accelerator, maker) {
                    (Accelerator::None, _)
                    | (Accelerator::Nvidia, Accelerator::Amd)
                    | (Accelerator::Amd, Accelerator::Nvidia) => false,
                    (Accelerator::Nvidia, _) => !is_old,
                    (Accelerator::Amd, _) => true,
                }
            }
        };
        let is_broken = match (&entry.file, &entry.check) {
            (FileState::Missing(_), _) => true,
            (
                FileState::There {
                    size_bytes: Some(8),
                    ..
                },
                Some(_),
            ) => true,
            (_, Some(check)) => !check.problems.is_empty(),
            _ => false,
        };
        let compiles = match wanted.compiler.as_deref() {
            Some("xla") => entry.compilers.contains(&"xla".to_owned()),
            _ => true,
        };
        entry.framework == "tensorflow"
            && versions.contains(&entry.version.as_str())
            && wanted.arch.as_ref().is_none_or(|(arch, _)| *arch == entry.arch)
            && entry.microarch.as_deref().is_none_or(|built| {
                runs.contains(&built) || (wanted.arch.as_ref().is_some_and(|(arch, _)| *arch != entry.arch))
            })
            // All that are drawn are of x86-64.
            && (entry.microarch.is_none() || entry.arch == "x86_64")
            && wanted.provenance.is_none_or(|provenance| entry.provenance == Some(provenance))
            && device
            && compiles
            && !is_broken
    }

    proptest! {
        #[test]
        fn the_order_of_the_catalogue_decides_nothing(
            entries in proptest::collection::vec(any_entry(), 1..12),
            wanted in any_wanted(),
            shuffles in proptest::collection::vec(any::<Index>(), 12),
        ) {
            let mut entries = entries;
            for (at, entry) in entries.iter_mut().enumerate() {
                entry.name = format!("image-{at}");
            }
            let told = |entries: &[Entry]| {
                let choice = choose(entries, &wanted);
                let named = |candidate: &Candidate| (entries[candidate.index].name.clone(), candidate.rejected.clone(), candidate.reasons.clone(), candidate.beaten);
                let winner = choice.winner.map(|at| entries[at].name.clone());
                (winner, choice.candidates.iter().map(named).collect::<Vec<_>>())
            };
            let first = told(&entries);
            prop_assert_eq!(first.1.len(), entries.len());
            let length = entries.len();
            for (at, other) in shuffles.iter().take(length).enumerate() {
                entries.swap(at, other.index(length));
            }
            prop_assert_eq!(told(&entries), first);
        }

        #[test]
        fn what_fails_a_hard_constraint_never_wins(
            entries in proptest::collection::vec(any_entry(), 0..12),
            wanted in any_wanted(),
        ) {
            let mut entries = entries;
            for (at, entry) in entries.iter_mut().enumerate() {
                entry.name = format!("image-{at:02}");
            }
            let choice = choose(&entries, &wanted);
            for candidate in &choice.candidates {
                let entry = &entries[candidate.index];
                prop_assert_eq!(candidate.rejected.is_empty(), fits(entry, &wanted), "{:#?} {:#?}", entry, candidate.rejected);
            }
            prop_assert_eq!(choice.winner.is_some(), entries.iter().any(|entry| fits(entry, &wanted)));
            if let Some(winner) = choice.winner {
                prop_assert!(fits(&entries[winner], &wanted));
            }
        }
    }
}
