//! Which NVIDIA driver a CUDA version needs.

use std::sync::LazyLock;

use crate::config::VersionRange;

/// Rows of `cuda.txt`: which table, and its two columns.
static ROWS: LazyLock<Vec<[&str; 3]>> = LazyLock::new(|| {
    let lines = include_str!("cuda.txt").lines();
    let rows = lines.filter(|line| !line.starts_with('#'));
    rows.filter_map(|line| line.split(' ').collect::<Vec<_>>().try_into().ok())
        .collect()
});

fn rows(table: &str) -> impl DoubleEndedIterator<Item = (&'static str, &'static str)> {
    let of_table = ROWS.iter().filter(move |[of, ..]| *of == table);
    of_table.map(|[_, left, right]| (*left, *right))
}

/// The first major version that the table does not know.
const UNKNOWN_FROM: &str = "14";

/// The least driver for a CUDA version; `None` where it is not known.
#[must_use]
pub fn least_driver(cuda: &str) -> Option<&'static str> {
    let cuda = VersionRange::parse(cuda).ok()?;
    let known = VersionRange::parse(&format!("<{UNKNOWN_FROM}")).ok()?;
    let row = rows("driver")
        .rev()
        .find(|(first, _)| is_at_least(&cuda, first));
    row.filter(|_| known.holds(&cuda)).map(|(_, driver)| driver)
}

/// Whether a driver serves a CUDA version; `None` where that is not known.
#[must_use]
pub fn serves(driver: &str, cuda: &str) -> Option<bool> {
    let least = least_driver(cuda)?;
    Some(is_at_least(&VersionRange::parse(driver).ok()?, least))
}

fn is_at_least(version: &VersionRange, least: &str) -> bool {
    VersionRange::parse(&format!(">={least}")).is_ok_and(|range| range.holds(version))
}

/// The compute capability of a GPU by its name, such as `v100` or `Tesla V100-SXM2-32GB`; `None`: not known.
#[must_use]
pub fn capability_of(name: &str) -> Option<&'static str> {
    let name = name.to_lowercase();
    let found = |word: &str| {
        let mut gpus = rows("gpu");
        gpus.find(|(known, _)| *known == word)
            .map(|(_, capability)| capability)
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
    let (cuda, capability) = (
        VersionRange::parse(cuda).ok()?,
        VersionRange::parse(capability).ok()?,
    );
    let least = rows("least")
        .rev()
        .find(|(first, _)| is_at_least(&cuda, first));
    if let Some((_, least)) = least.filter(|(_, least)| !is_at_least(&capability, least)) {
        return Some(Serves::Dropped(least));
    }
    let (_, first) = rows("first")
        .rev()
        .find(|(known, _)| is_at_least(&capability, known))?;
    Some(if is_at_least(&cuda, first) {
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
    let mut versions = rows("driver").map(|(cuda, _)| cuda);
    let first = versions.find(|cuda| beyond_driver(cuda) || beyond_gpus(cuda))?;
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
