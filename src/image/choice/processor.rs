//! Which processors run what was compiled for which.
//!
//! The table is `microarchitectures.txt`.

use std::collections::BTreeSet;
use std::sync::LazyLock;

/// What is known of the processors that a job may meet.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub enum Processor {
    /// Nothing.
    #[default]
    Unknown,
    /// Their name, such as `zen3` or `x86-64-v3`, and who says so.
    Named(String, String),
    /// The `flags` of this machine.
    Here(BTreeSet<String>),
}

/// Whether code runs.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Runs {
    /// It does.
    Yes,
    /// It does not: why.
    No(String),
    /// It is not known: why.
    Unknown(String),
}

/// A line of the table.
struct Row {
    name: &'static str,
    parents: &'static str,
    features: &'static str,
    gcc_option: &'static str,
}

static TABLE: LazyLock<Vec<Row>> = LazyLock::new(|| {
    let lines = include_str!("microarchitectures.txt").lines();
    lines.filter_map(read_row).collect()
});

fn read_row(line: &'static str) -> Option<Row> {
    let mut columns = line.split('|').map(str::trim);
    let name = columns.next().filter(|name| !name.starts_with('#'))?;
    Some(Row {
        name,
        parents: columns.next()?,
        features: columns.next()?,
        gcc_option: columns.next()?,
    })
}

/// As archspec writes it: `x86-64-v3` is `x86_64_v3`.
fn plain(name: &str) -> String {
    name.to_ascii_lowercase().replace('-', "_")
}

fn row(name: &str) -> Option<&'static Row> {
    TABLE.iter().find(|row| row.name == name)
}

/// A name and all that it descends from.
fn line(name: &str) -> BTreeSet<&'static str> {
    let mut found = BTreeSet::new();
    let mut open: Vec<&'static Row> = row(name).into_iter().collect();
    while let Some(one) = open.pop() {
        if found.insert(one.name) {
            open.extend(one.parents.split(' ').filter_map(row));
        }
    }
    found
}

/// The architecture of a microarchitecture, as `uname -m` has it; `None` where dlrun does not know the name.
#[must_use]
pub fn family(name: &str) -> Option<&'static str> {
    line(&plain(name))
        .into_iter()
        .find(|name| row(name).is_some_and(|row| row.parents.is_empty()))
}

/// GCC's option for code that runs on `microarch` of the processors `arch` and later ones.
///
/// # Errors
/// With the names that there are.
pub fn compiler_flag(arch: &str, microarch: &str) -> Result<&'static str, String> {
    let mut known = TABLE
        .iter()
        .filter(|row| !row.gcc_option.is_empty() && family(row.name) == Some(arch));
    let name = plain(microarch);
    let found = known.clone().find(|row| row.name == name);
    found.map(|row| row.gcc_option).ok_or_else(|| {
        let names: Vec<_> = known.by_ref().map(|row| row.name).collect();
        format!(
            "there is no kind {microarch:?} of {arch}; known are {}",
            names.join(", ")
        )
    })
}

fn features(name: &str) -> BTreeSet<&'static str> {
    line(name)
        .into_iter()
        .filter_map(row)
        .flat_map(|row| row.features.split(' '))
        .filter(|word| !word.is_empty())
        .collect()
}

/// How far a processor has come: features and ancestors. Of two that a machine runs, more is better. `None`: the baseline
/// of the family.
#[must_use]
pub fn generation(name: Option<&str>) -> (usize, usize) {
    let name = name.map(plain).unwrap_or_default();
    (features(&name).len(), line(&name).len())
}

/// Whether code for `built` runs on a processor; both of one family.
#[must_use]
pub fn runs(built: &str, on: &Processor) -> Runs {
    let name = plain(built);
    if row(&name).is_none() {
        return match on {
            Processor::Named(other, _) if plain(other) == name => Runs::Yes,
            _ => Runs::No(format!(
                "`{built}` is not a microarchitecture that dlrun knows"
            )),
        };
    }
    let wanted = features(&name);
    let is_baseline = line(&name).len() == 1;
    match on {
        _ if is_baseline => Runs::Yes,
        Processor::Unknown => Runs::Unknown(format!(
            "it is built for {built}, and what the nodes have is not known"
        )),
        Processor::Named(other, says) => {
            let other_name = plain(other);
            if line(&other_name).contains(name.as_str()) {
                Runs::Yes
            } else if row(&other_name).is_none() {
                Runs::Unknown(format!(
                    "it is built for {built}, and {other} ({says}) is not known to dlrun"
                ))
            } else {
                by_features(
                    built,
                    &wanted,
                    |feature| features(&other_name).contains(feature),
                    &format!("{other} ({says})"),
                )
            }
        }
        Processor::Here(flags) if wanted.is_empty() && !flags.is_empty() => Runs::Unknown(format!(
            "it is built for {built}, and what this machine is is not known"
        )),
        Processor::Here(flags) => by_features(
            built,
            &wanted,
            |feature| flags.contains(feature),
            "this machine",
        ),
    }
}

fn by_features(
    built: &str,
    wanted: &BTreeSet<&str>,
    has: impl Fn(&str) -> bool,
    whose: &str,
) -> Runs {
    let missing = wanted.iter().copied().filter(|feature| !has(feature));
    let missing: Vec<&str> = missing.take(3).collect();
    match &missing[..] {
        [] if wanted.is_empty() => Runs::No(format!(
            "it is built for {built}, and the nodes are {whose}"
        )),
        [] => Runs::Yes,
        some => Runs::No(format!(
            "it is built for {built}; {whose} lacks {}",
            some.join(", ")
        )),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn family_of_a_known_name_is_its_architecture() {
        let of = ["zen3", "x86-64-v3", "neoverse_n1", "power9le", "quantum"].map(family);
        let x86 = Some("x86_64");
        assert_eq!(of, [x86, x86, Some("aarch64"), Some("ppc64le"), None]);
    }

    fn on(name: &str) -> Processor {
        Processor::Named(name.into(), "test".into())
    }

    #[test]
    fn code_runs_on_descendants_and_on_whoever_has_its_features() {
        for (built, there) in [
            ("x86-64-v3", "haswell"),
            ("x86_64", "zen4"),
            ("x86_64_v4", "skylake_avx512"),
            ("haswell", "cascadelake"),
            ("zen2", "zen4"),
            ("x86_64_v3", "zen"),
            ("ivybridge", "broadwell"),
            ("power8le", "power9le"),
            ("neoverse_n1", "neoverse_v1"),
            ("cortex_a72", "neoverse_n1"),
            // No ancestor, but it has all features.
            ("westmere", "zen"),
        ] {
            assert_eq!(runs(built, &on(there)), Runs::Yes, "{built} on {there}");
        }
        for (built, there, part) in [
            ("x86-64-v4", "haswell", "lacks avx512bw, avx512cd, avx512dq"),
            ("skylake_avx512", "zen3", "lacks"),
            ("power10le", "power9le", "the nodes are power9le"),
            ("neoverse_v1", "neoverse_n1", "the nodes are neoverse_n1"),
            ("gpu9000", "zen3", "not a microarchitecture"),
        ] {
            assert!(
                matches!(runs(built, &on(there)), Runs::No(why) if why.contains(part)),
                "{built} on {there}: {:?}",
                runs(built, &on(there))
            );
        }
        assert_eq!(runs("gpu9000", &on("GPU9000")), Runs::Yes);
        assert_eq!(runs("x86_64", &Processor::Unknown), Runs::Yes);
        assert!(matches!(
            runs("zen3", &Processor::Unknown),
            Runs::Unknown(_)
        ));
        assert!(matches!(runs("zen3", &on("zen99")), Runs::Unknown(_)));
    }

    #[test]
    fn this_machine_is_judged_by_its_flags() {
        let v3 = features("x86_64_v3")
            .into_iter()
            .map(str::to_owned)
            .collect();
        let here = Processor::Here(v3);
        assert_eq!(runs("x86-64-v3", &here), Runs::Yes);
        assert!(
            matches!(runs("x86-64-v4", &here), Runs::No(why) if why.contains("this machine lacks"))
        );
        assert!(matches!(runs("neoverse_v1", &here), Runs::Unknown(_)));
    }

    #[test]
    fn later_ones_have_come_farther() {
        let order = [
            None,
            Some("x86-64-v2"),
            Some("x86-64-v3"),
            Some("haswell"),
            Some("skylake_avx512"),
            Some("icelake"),
        ];
        let come: Vec<_> = order.into_iter().map(generation).collect();
        assert!(come.is_sorted_by(|left, right| left < right), "{come:?}");
        assert!(generation(Some("power10le")) > generation(Some("power9le")));
    }

    #[test]
    fn every_parent_of_the_table_is_in_it() {
        assert!(TABLE.len() > 35);
        for Row { name, parents, .. } in &*TABLE {
            assert!(
                parents
                    .split(' ')
                    .filter(|parent| !parent.is_empty())
                    .all(|parent| row(parent).is_some()),
                "{name}"
            );
            assert_eq!(plain(name), *name, "names are found in archspec's form");
        }
    }

    #[test]
    fn a_processor_has_the_option_of_its_own_architecture() {
        assert_eq!(
            compiler_flag("x86_64", "skylake_avx512"),
            Ok("-march=skylake-avx512")
        );
        assert_eq!(compiler_flag("aarch64", "a64fx"), Ok("-mcpu=a64fx"));
        let why = compiler_flag("aarch64", "haswell").expect_err("it is another architecture");
        assert!(why.contains("a64fx") && !why.contains("skylake"), "{why}");
        assert!(compiler_flag("x86_64", "native; rm -rf /").is_err());
    }
}
