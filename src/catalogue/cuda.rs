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
    let from = |first: &str| VersionRange::parse(&format!(">={first}")).is_ok_and(|range| range.holds(&cuda));
    let row = DRIVERS.iter().rev().find(|(first, _)| from(first)).filter(|_| known.holds(&cuda));
    row.map(|(_, driver)| *driver)
}

/// Whether a driver serves a CUDA version; `None` where that is not known.
#[must_use]
pub fn serves(driver: &str, cuda: &str) -> Option<bool> {
    let least = VersionRange::parse(&format!(">={}", least_driver(cuda)?)).ok()?;
    Some(least.holds(&VersionRange::parse(driver).ok()?))
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
            assert_eq!(serves(driver, cuda), expected, "driver {driver}, CUDA {cuda}");
        }
    }
}
