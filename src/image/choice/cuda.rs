//! Which NVIDIA driver a CUDA version needs.

use crate::config::VersionRange;

/// First version of CUDA, and the least Linux driver for it. From CUDA 11.0 on a driver of the major version serves all its
/// minor ones ("CUDA Compatibility", section "Minor Version Compatibility"; before that, "CUDA Toolkit Release Notes", table
/// "CUDA Toolkit and Corresponding Driver Versions"; both NVIDIA's).
const DRIVERS: [(&str, &str); 12] = [
    ("7.0", "346.46"),
    ("7.5", "352.31"),
    ("8.0", "367.48"),
    ("9.0", "384.81"),
    ("9.1", "390.46"),
    ("9.2", "396.26"),
    ("10.0", "410.48"),
    ("10.1", "418.39"),
    ("10.2", "440.33"),
    ("11.0", "450.36.06"),
    ("12.0", "525.60.13"),
    ("13.0", "580.65.06"),
];
/// The first major version that the table does not know.
const UNKNOWN_FROM: &str = "14";

/// The least driver for a CUDA version; `None` where it is not known.
#[must_use]
pub fn least_driver(cuda: &str) -> Option<&'static str> {
    let cuda = VersionRange::parse(cuda).ok()?;
    let known = VersionRange::parse(&format!("<{UNKNOWN_FROM}")).ok()?;
    let from = |first: &str| {
        VersionRange::parse(&format!(">={first}")).is_ok_and(|range| range.holds(&cuda))
    };
    let row = DRIVERS
        .iter()
        .rev()
        .find(|(first, _)| from(first))
        .filter(|_| known.holds(&cuda));
    row.map(|(_, driver)| *driver)
}

/// Whether a driver serves a CUDA version; `None` where that is not known.
#[must_use]
pub fn serves(driver: &str, cuda: &str) -> Option<bool> {
    let least = VersionRange::parse(&format!(">={}", least_driver(cuda)?)).ok()?;
    Some(least.holds(&VersionRange::parse(driver).ok()?))
}

/// First version of CUDA, and the least compute capability that it makes code for ("CUDA Toolkit Release Notes", the
/// deprecated and dropped features of 9, 11, 12 and 13).
const LEAST_CAPABILITIES: [(&str, &str); 4] = [
    ("9.0", "3.0"),
    ("11.0", "3.5"),
    ("12.0", "5.0"),
    ("13.0", "7.5"),
];

/// A compute capability, and the first version of CUDA that knows it (the same notes).
const FIRST_CUDAS: [(&str, &str); 12] = [
    ("3.0", "4.2"),
    ("5.0", "6.5"),
    ("6.0", "8.0"),
    ("7.0", "9.0"),
    ("7.5", "10.0"),
    ("8.0", "11.0"),
    ("8.6", "11.1"),
    ("8.9", "11.8"),
    ("9.0", "11.8"),
    ("10.0", "12.8"),
    ("10.3", "12.9"),
    ("12.0", "12.8"),
];

/// Words in names of GPUs, and the compute capability of those (NVIDIA's "CUDA GPU Compute Capability").
const GPUS: [(&str, &str); 35] = [
    ("k40", "3.5"),
    ("k80", "3.7"),
    ("m40", "5.2"),
    ("m60", "5.2"),
    ("p100", "6.0"),
    ("p40", "6.1"),
    ("p4", "6.1"),
    ("1080", "6.1"),
    ("v100", "7.0"),
    ("v100s", "7.0"),
    ("gv100", "7.0"),
    ("volta", "7.0"),
    ("t4", "7.5"),
    ("2080", "7.5"),
    ("2080ti", "7.5"),
    ("rtx2080ti", "7.5"),
    ("a100", "8.0"),
    ("a30", "8.0"),
    ("a10", "8.6"),
    ("a40", "8.6"),
    ("a6000", "8.6"),
    ("3090", "8.6"),
    ("rtx3090", "8.6"),
    ("l4", "8.9"),
    ("l40", "8.9"),
    ("l40s", "8.9"),
    ("4090", "8.9"),
    ("h100", "9.0"),
    ("h200", "9.0"),
    ("gh200", "9.0"),
    ("b100", "10.0"),
    ("b200", "10.0"),
    ("gb200", "10.0"),
    ("b300", "10.3"),
    ("gb300", "10.3"),
];

/// The compute capability of a GPU by its name, such as `v100` or `Tesla V100-SXM2-32GB`; `None`: not known.
#[must_use]
pub fn capability_of(name: &str) -> Option<&'static str> {
    let name = name.to_lowercase();
    let found = |word: &str| {
        GPUS.iter()
            .find(|(known, _)| *known == word)
            .map(|(_, capability)| *capability)
    };
    name.split(|c: char| !c.is_ascii_alphanumeric())
        .find_map(found)
}

/// What a CUDA version makes of a GPU.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Serves {
    /// It knows it.
    Yes,
    /// It no longer makes code for it: it needs this compute capability at least.
    Dropped(&'static str),
    /// It came out before the GPU: this is the first version that knows it. Code may still be translated as it starts.
    TooOld(&'static str),
}

/// Whether a CUDA version makes code for GPUs of a compute capability; `None` where that is not known.
pub(crate) fn makes_for(cuda: &str, capability: &str) -> Option<Serves> {
    let is_least = |least: &str, version: &VersionRange| {
        VersionRange::parse(&format!(">={least}")).is_ok_and(|range| range.holds(version))
    };
    let (cuda, capability) = (
        VersionRange::parse(cuda).ok()?,
        VersionRange::parse(capability).ok()?,
    );
    let least = LEAST_CAPABILITIES
        .iter()
        .rev()
        .find(|(first, _)| is_least(first, &cuda));
    if let Some((_, least)) = least.filter(|(_, least)| !is_least(least, &capability)) {
        return Some(Serves::Dropped(least));
    }
    let (_, first) = FIRST_CUDAS
        .iter()
        .rev()
        .find(|(known, _)| is_least(known, &capability))?;
    Some(if is_least(first, &cuda) {
        Serves::Yes
    } else {
        Serves::TooOld(first)
    })
}

/// The versions of CUDA that a driver and GPUs of these compute capabilities serve, as far as that limits them: `<13.0`.
#[must_use]
pub fn cuda_for(driver: Option<&str>, capabilities: &[&str]) -> Option<VersionRange> {
    let beyond_driver =
        |cuda: &str| driver.is_some_and(|driver| serves(driver, cuda) == Some(false));
    let beyond_gpus = |cuda: &str| {
        let dropped =
            |capability: &&str| matches!(makes_for(cuda, capability), Some(Serves::Dropped(_)));
        capabilities.iter().any(dropped)
    };
    let first = DRIVERS
        .iter()
        .map(|(cuda, _)| *cuda)
        .find(|cuda| beyond_driver(cuda) || beyond_gpus(cuda))?;
    VersionRange::parse(&format!("<{first}")).ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn drivers_are_held_against_nvidias_table() {
        for (driver, cuda, expected) in [
            ("550.54.15", "12.4", Some(true)),
            // Minor versions of one major version share the least driver.
            ("525.60.13", "12.9", Some(true)),
            ("520.61.05", "12.0", Some(false)),
            ("450.80.02", "11.8", Some(true)),
            ("440.33.01", "11.0", Some(false)),
            ("440.33", "10.2", Some(true)),
            ("418.39", "10.2", Some(false)),
            ("570.86", "13.0", Some(false)),
            ("580.65.06", "13.1", Some(true)),
            // Newer drivers run older programs.
            ("580.65.06", "9.0", Some(true)),
            ("580.65.06", "14.0", None),
            ("580.65.06", "6.5", None),
            ("unknown", "12.4", None),
            ("550", "12", Some(true)),
        ] {
            assert_eq!(
                serves(driver, cuda),
                expected,
                "driver {driver}, CUDA {cuda}"
            );
        }
    }

    #[test]
    fn a_cuda_version_serves_the_gpus_that_it_makes_code_for() {
        for (gpu, cuda, expected) in [
            ("v100", "13.0", Some(Serves::Dropped("7.5"))),
            ("Tesla V100-SXM2-32GB", "12.9", Some(Serves::Yes)),
            ("tesla_p100", "12.4", Some(Serves::Yes)),
            ("k80", "12.0", Some(Serves::Dropped("5.0"))),
            ("k80", "11.8", Some(Serves::Yes)),
            ("a100", "10.2", Some(Serves::TooOld("11.0"))),
            ("NVIDIA A100-SXM4-80GB", "13.1", Some(Serves::Yes)),
            ("h100", "11.7", Some(Serves::TooOld("11.8"))),
            ("b200", "12.4", Some(Serves::TooOld("12.8"))),
            ("a100_3g.20gb", "12", Some(Serves::Yes)),
        ] {
            let capability = capability_of(gpu).expect(gpu);
            assert_eq!(makes_for(cuda, capability), expected, "{gpu}, CUDA {cuda}");
        }
        for unknown in ["gpu", "mi250", "v1000", "tesla", ""] {
            assert_eq!(capability_of(unknown), None, "{unknown}");
        }
    }

    #[test]
    fn drivers_and_gpus_limit_the_cuda_of_a_build() {
        let limit = |driver, gpus: &[&str]| cuda_for(driver, gpus).map(|range| range.to_string());
        assert_eq!(limit(Some("550.54.15"), &[]).as_deref(), Some("<13.0"));
        assert_eq!(limit(Some("470.57"), &["8.0"]).as_deref(), Some("<12.0"));
        assert_eq!(
            limit(Some("580.65.06"), &["7.0", "9.0"]).as_deref(),
            Some("<13.0")
        );
        assert_eq!(limit(Some("580.65.06"), &["9.0"]), None);
        assert_eq!(limit(None, &[]), None);
    }
}
