//! Which processors run what was compiled for which.
//!
//! Names, descent and features are those of archspec (archspec-json 0.2.6, `cpu/microarchitectures.json`, the names that
//! Spack and EasyBuild use); its features are the `flags` of `/proc/cpuinfo`. Of other families than x86 only the descent is
//! held here, and `sse3` is left out: Linux calls it `pni`, and whoever has SSSE3 has it.

use std::collections::BTreeSet;

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

/// Name, the names that it descends from, and the features that none of them has.
type Row = (&'static str, &'static str, &'static str);

#[rustfmt::skip]
const TABLE: &[Row] = &[
    ("x86_64", "", ""),
    ("x86_64_v2", "x86_64", "cx16 lahf_lm mmx popcnt sse sse2 sse4_1 sse4_2 ssse3"),
    ("x86_64_v3", "x86_64_v2", "abm avx avx2 bmi1 bmi2 f16c fma movbe xsave"),
    ("x86_64_v4", "x86_64_v3", "avx512bw avx512cd avx512dq avx512f avx512vl"),
    ("nocona", "x86_64", "mmx sse sse2"),
    ("core2", "nocona", "ssse3"),
    ("nehalem", "core2 x86_64_v2", ""),
    ("westmere", "nehalem", "aes pclmulqdq"),
    ("sandybridge", "westmere", "avx"),
    ("ivybridge", "sandybridge", "f16c rdrand"),
    ("haswell", "ivybridge x86_64_v3", ""),
    ("broadwell", "haswell", "adx rdseed"),
    ("skylake", "broadwell", "clflushopt xsavec xsaveopt"),
    ("mic_knl", "broadwell", "avx512cd avx512er avx512f avx512pf"),
    ("skylake_avx512", "skylake x86_64_v4", "clwb"),
    ("cannonlake", "skylake x86_64_v4", "avx512ifma avx512vbmi sha_ni"),
    ("cascadelake", "skylake_avx512", "avx512_vnni"),
    ("icelake", "cascadelake cannonlake", "avx512_bitalg avx512_vbmi2 avx512_vpopcntdq gfni rdpid vaes vpclmulqdq"),
    ("sapphirerapids", "icelake", "amx_bf16 amx_int8 amx_tile avx512_bf16 cldemote movdir64b movdiri serialize waitpkg"),
    ("alderlake", "skylake", "avx_vnni clwb gfni movdir64b movdiri rdpid serialize sha_ni vaes vpclmulqdq waitpkg"),
    ("arrowlake", "alderlake", "avx_ifma avx_ne_convert avx_vnni_int8 cmpccxadd"),
    ("arrowlake_s", "arrowlake", "avx_vnni_int16 sha512 sm3 sm4"),
    ("k10", "x86_64", "3dnow 3dnowext abm cx16 mmx sse sse2 sse4a"),
    ("bulldozer", "x86_64_v2", "abm aes avx fma4 pclmulqdq sse4a xop xsave"),
    ("piledriver", "bulldozer", "bmi1 f16c fma tbm"),
    ("steamroller", "piledriver", "fsgsbase"),
    ("excavator", "steamroller x86_64_v3", ""),
    ("zen", "x86_64_v3", "aes clflushopt clzero fsgsbase pclmulqdq rdseed sse4a xsavec xsaveopt"),
    ("zen2", "zen", "clwb"),
    ("zen3", "zen2", "pku vaes vpclmulqdq"),
    ("zen4", "zen3 x86_64_v4", "avx512_bf16 avx512_bitalg avx512_vbmi2 avx512_vnni avx512_vpopcntdq avx512ifma avx512vbmi flush_l1d gfni"),
    ("zen5", "zen4", "avx512_vp2intersect avx_vnni movdir64b movdiri tsc_adjust"),
    ("ppc64", "", ""),
    ("power7", "ppc64", ""),
    ("power8", "power7", ""),
    ("power9", "power8", ""),
    ("power10", "power9", ""),
    ("ppc64le", "", ""),
    ("power8le", "ppc64le", ""),
    ("power9le", "power8le", ""),
    ("power10le", "power9le", ""),
    ("aarch64", "", ""),
    ("armv8.1a", "aarch64", ""),
    ("armv8.2a", "armv8.1a", ""),
    ("armv8.3a", "armv8.2a", ""),
    ("armv8.4a", "armv8.3a", ""),
    ("armv8.5a", "armv8.4a", ""),
    ("armv8.6a", "armv8.5a", ""),
    ("armv9.0a", "armv8.5a", ""),
    ("armv9.2a", "armv9.0a armv8.6a", ""),
    ("thunderx2", "armv8.1a", ""),
    ("a64fx", "armv8.2a", ""),
    ("cortex_a72", "aarch64", ""),
    ("neoverse_n1", "cortex_a72 armv8.2a", ""),
    ("neoverse_v1", "neoverse_n1 armv8.4a", ""),
    ("neoverse_v2", "neoverse_n1 armv9.0a", ""),
    ("neoverse_n2", "neoverse_n1 armv9.0a", ""),
    ("ampere1", "neoverse_n1 armv8.6a", ""),
    ("ampere1a", "ampere1", ""),
    ("riscv64", "", ""),
];

/// As archspec writes it: `x86-64-v3` is `x86_64_v3`.
fn plain(name: &str) -> String {
    name.to_ascii_lowercase().replace('-', "_")
}

fn row(name: &str) -> Option<&'static Row> {
    TABLE.iter().find(|row| row.0 == name)
}

/// A name and all that it descends from.
fn line(name: &str) -> BTreeSet<&'static str> {
    let mut found = BTreeSet::new();
    let mut open: Vec<&'static Row> = row(name).into_iter().collect();
    while let Some((name, parents, _)) = open.pop() {
        if found.insert(*name) {
            open.extend(parents.split(' ').filter_map(row));
        }
    }
    found
}

/// The architecture of a microarchitecture, as `uname -m` has it; `None` where dlrun does not know the name.
#[must_use]
pub fn family(name: &str) -> Option<&'static str> {
    line(&plain(name))
        .into_iter()
        .find(|name| row(name).is_some_and(|row| row.1.is_empty()))
}

fn features(name: &str) -> BTreeSet<&'static str> {
    line(name)
        .into_iter()
        .filter_map(row)
        .flat_map(|row| row.2.split(' '))
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
                "`{built}` is no microarchitecture that dlrun knows"
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
    let missing: Vec<&str> = wanted
        .iter()
        .copied()
        .filter(|feature| !has(feature))
        .collect();
    match &missing[..] {
        [] if wanted.is_empty() => Runs::No(format!(
            "it is built for {built}, and the nodes are {whose}"
        )),
        [] => Runs::Yes,
        [first @ .., _] if first.len() > 3 => Runs::No(format!(
            "it is built for {built}; {whose} lacks {} and {} more features",
            first[..3].join(", "),
            missing.len() - 3
        )),
        all => Runs::No(format!(
            "it is built for {built}; {whose} lacks {}",
            all.join(", ")
        )),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn family_of_a_known_name_is_its_architecture() {
        let of = [
            "zen3",
            "x86-64-v3",
            "k10",
            "neoverse_n1",
            "power9le",
            "riscv64",
            "quantum",
        ]
        .map(family);
        let x86 = Some("x86_64");
        assert_eq!(
            of,
            [
                x86,
                x86,
                x86,
                Some("aarch64"),
                Some("ppc64le"),
                Some("riscv64"),
                None
            ]
        );
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
            ("x86_64_v3", "piledriver", "lacks avx2, bmi2, movbe"),
            ("power10le", "power9le", "the nodes are power9le"),
            ("neoverse_v1", "neoverse_n1", "the nodes are neoverse_n1"),
            ("gpu9000", "zen3", "no microarchitecture"),
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
        for (name, parents, _) in TABLE {
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
}
