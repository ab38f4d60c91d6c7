//! Lists of CPUs as the kernel writes them, such as `0-3,8` (`cpuset(7)`, list format).

use std::ops::RangeInclusive;

/// The ranges of a list; `None`: it is no list.
#[must_use]
pub fn ranges(list: &str) -> Option<Vec<RangeInclusive<u32>>> {
    let range = |part: &str| {
        let (first, last) = part.split_once('-').unwrap_or((part, part));
        Some(first.trim().parse().ok()?..=last.trim().parse().ok()?)
    };
    list.split(',').map(range).collect()
}

/// CPUs as such a list.
#[must_use]
pub fn shown(cpus: &[u32]) -> String {
    let mut cpus = cpus.to_vec();
    cpus.sort_unstable();
    let runs = cpus.chunk_by(|one, next| one.checked_add(1) == Some(*next));
    let shown = runs.map(|run| match (run.first(), run.last()) {
        (Some(first), Some(last)) if first < last => format!("{first}-{last}"),
        (Some(only), _) => only.to_string(),
        _ => String::new(),
    });
    shown.collect::<Vec<_>>().join(",")
}

/// Whether two lists have a CPU in common; `None`: one of them is no list.
#[must_use]
pub fn share_one(one: &str, other: &str) -> Option<bool> {
    let (one, other) = (ranges(one)?, ranges(other)?);
    let meet = |one: &RangeInclusive<u32>, other: &RangeInclusive<u32>| {
        one.start() <= other.end() && other.start() <= one.end()
    };
    Some(
        one.iter()
            .any(|one| other.iter().any(|other| meet(one, other))),
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn list_of_cpus_has_ranges() {
        for (cpus, expected) in [
            (&[][..], ""),
            (&[3], "3"),
            (&[2, 0, 1, 64], "0-2,64"),
            (&[0, 2], "0,2"),
        ] {
            assert_eq!(shown(cpus), expected);
        }
    }

    #[test]
    fn lists_meet_where_they_have_a_cpu_in_common() {
        for (one, other, shared) in [
            ("0-3,8", "8", Some(true)),
            ("0-3,8", "4-7,9-11", Some(false)),
            ("0", "0", Some(true)),
            ("0-31,64-95", "32-63,96-127", Some(false)),
            ("", "0", None),
            ("0-", "0", None),
        ] {
            assert_eq!(share_one(one, other), shared, "{one} {other}");
            assert_eq!(share_one(other, one), shared, "{other} {one}");
        }
    }
}
