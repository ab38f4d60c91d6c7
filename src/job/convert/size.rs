//! Sizes of memory in the spellings of MODAK, Slurm and PBS.

use crate::foundation::units::Bytes;

/// Factors by letter. Slurm and PBS count in powers of 1024 behind `K`, `M`, `G`, however they are spelled.
const UNITS: [(&str, u64); 6] = [
    ("k", 1 << 10),
    ("m", 1 << 20),
    ("g", 1 << 30),
    ("t", 1 << 40),
    ("p", 1 << 50),
    ("", 1),
];

/// Reads `10 MB`, `4G`, `4gb`, `4096mb`; a bare number counts in `unit` bytes.
pub(crate) fn bytes(text: &str, unit: u64) -> Option<Bytes> {
    let text = text.trim();
    let split = text
        .find(|c: char| !c.is_ascii_digit() && c != '.')
        .unwrap_or(text.len());
    let letters = text[split..].trim().to_ascii_lowercase();
    if letters.is_empty() {
        return text.parse::<u64>().ok()?.checked_mul(unit).map(Bytes);
    }
    let letter = letters
        .strip_suffix("ib")
        .or_else(|| letters.strip_suffix('b'))
        .unwrap_or(&letters);
    let (_, factor) = UNITS.iter().find(|(known, _)| *known == letter)?;
    match text[..split].parse::<u64>() {
        Ok(number) => number.checked_mul(*factor).map(Bytes),
        // `1.5gb`: the job file's own reader knows fractions.
        Err(_) => Bytes::parse(&format!("{}KiB", &text[..split]))
            .ok()?
            .0
            .checked_mul(factor / 1024)
            .map(Bytes),
    }
}

/// The size as a person writes it: exact, in the largest binary unit that leaves no rest.
pub(super) fn shown(bytes: Bytes) -> String {
    let units = [
        ("TiB", 1 << 40),
        ("GiB", 1 << 30),
        ("MiB", 1 << 20),
        ("KiB", 1 << 10),
    ];
    let unit = units
        .iter()
        .find(|(_, factor)| bytes.0 >= *factor && bytes.0.is_multiple_of(*factor));
    unit.map_or_else(
        || format!("{}B", bytes.0),
        |(name, factor)| format!("{}{name}", bytes.0 / factor),
    )
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn spellings_of_sizes() {
        for (text, expected) in [
            ("10 MB", "10MiB"),
            ("4G", "4GiB"),
            ("64gb", "64GiB"),
            ("2000", "2000MiB"),
            ("1.5GiB", "1536MiB"),
            ("1048576kb", "1GiB"),
            ("100b", "100B"),
        ] {
            assert_eq!(
                bytes(text, 1 << 20).map(shown).as_deref(),
                Some(expected),
                "{text}"
            );
        }
        for text in [
            "",
            "x",
            "10 apples",
            "-1G",
            "99999999999999999999",
            "99999999999999T",
            "1.2.3G",
        ] {
            assert_eq!(bytes(text, 1), None, "{text}");
        }
    }

    proptest! {
        #[test]
        fn no_text_panics_and_what_is_shown_is_read(text in "\\PC*|[0-9.]{0,20}[kmgtpb ]{0,3}") {
            if let Some(size) = bytes(&text, 1) {
                prop_assert_eq!(Bytes::parse(&shown(size)), Ok(size));
            }
        }
    }
}
