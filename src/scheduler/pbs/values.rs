//! Values as both PBS write them: times, durations, sizes, hosts.

use jiff::civil::DateTime;
use jiff::tz::TimeZone;

use crate::foundation::units::{Bytes, Walltime};
use crate::job::convert::size_in_bytes;

/// Milliseconds since 1970 of epoch seconds, as Torque's XML has them, or of `Fri Nov 20 20:38:06 2026`, which `qstat`
/// writes in the time zone of its own environment: it is run with UTC. Nothing happened in the second 0.
pub(in crate::scheduler) fn time_ms(text: &str) -> Option<u64> {
    let seconds = text.parse::<u64>().ok().or_else(|| {
        let time = DateTime::strptime("%a %b %d %H:%M:%S %Y", text).ok()?;
        u64::try_from(time.to_zoned(TimeZone::UTC).ok()?.timestamp().as_second()).ok()
    });
    seconds.filter(|seconds| *seconds > 0)?.checked_mul(1000)
}

/// `48:00:00`, `30:00`, `90`, in Torque `2:00:00:00` with days too.
pub(in crate::scheduler) fn walltime(text: &str) -> Option<Walltime> {
    let mut seconds: u64 = 0;
    let parts: Vec<u64> = text
        .split(':')
        .map(|part| part.parse().ok())
        .collect::<Option<_>>()?;
    let factors = [1, 60, 3600, 86_400];
    for (part, factor) in parts.iter().rev().zip(factors) {
        seconds = seconds.checked_add(part.checked_mul(factor)?)?;
    }
    (parts.len() <= factors.len()).then_some(Walltime(seconds))
}

/// `16gb`, `394875440kb`, `1024`: units of 1024, bytes without one (`pbs_resources(7B)`, "size").
pub(in crate::scheduler) fn size(text: &str) -> Option<Bytes> {
    size_in_bytes(text, 1)
}

/// The hosts of `(n1:ncpus=8)+(n2:ncpus=8)`, `n1/0*2+n2/1`, `n404/2+n404/3`, each once.
pub(in crate::scheduler) fn hosts(text: &str) -> Vec<&str> {
    let mut hosts: Vec<&str> = Vec::new();
    for part in text.split('+') {
        let host = part
            .trim_start_matches('(')
            .split(['/', ':', ')'])
            .next()
            .unwrap_or_default();
        if !host.is_empty() && !hosts.contains(&host) {
            hosts.push(host);
        }
    }
    hosts
}

/// The jobs of a `qstat -f` that are printed to their ends: an empty line follows each. Of one that broke off, `job_state = C`
/// without the `exit_status` behind it would be a deletion.
pub(in crate::scheduler) fn whole_jobs(text: &str) -> &str {
    text.rfind("\n\n").map_or("", |end| &text[..end + 2])
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn times_are_read() {
        for (text, seconds) in [
            ("1795207086", 1_795_207_086),
            ("Fri Nov 20 20:38:06 2026", 1_795_207_086),
            ("Thu Jan  1 00:00:01 1970", 1),
            ("Tue Feb 29 12:00:00 2028", 1_835_438_400),
            ("Mon Jan  1 00:00:00 2001", 978_307_200),
        ] {
            assert_eq!(time_ms(text), Some(seconds * 1000), "{text}");
        }
        for text in [
            "",
            "0",
            "UNKNOWN",
            "Fri Nov 20 20:38 2026",
            "Fri Xxx 20 20:38:06 2026",
            "Fri Nov 20 25:38:06 2026",
        ] {
            assert_eq!(time_ms(text), None, "{text}");
        }
    }

    #[test]
    fn durations_are_read() {
        for (text, seconds) in [
            ("90", 90),
            ("01:30", 90),
            ("48:00:00", 172_800),
            ("30:00", 1800),
            ("2:00:00:00", 172_800),
        ] {
            assert_eq!(walltime(text), Some(Walltime(seconds)), "{text}");
        }
        for text in ["", "x", "1:2:3:4:5", "99999999999999999999"] {
            assert_eq!(walltime(text), None, "{text}");
        }
    }

    #[test]
    fn sizes_are_read() {
        for (text, bytes) in [
            ("16gb", 16 << 30),
            ("394875440kb", 394_875_440 << 10),
            ("1024", 1024),
            ("2TB", 2 << 40),
        ] {
            assert_eq!(size(text), Some(Bytes(bytes)), "{text}");
        }
        for text in ["", "gb", "1xb", "99999999999999999pb"] {
            assert_eq!(size(text), None, "{text}");
        }
    }

    #[test]
    fn a_job_that_breaks_off_is_none() {
        let text = "Job Id: 7.s\n    job_state = R\n\nJob Id: 8.s\n    job_state = C\n";
        assert_eq!(whole_jobs(text), "Job Id: 7.s\n    job_state = R\n\n");
        assert_eq!(
            (whole_jobs("Job Id: 7.s\n    job_st"), whole_jobs("")),
            ("", "")
        );
    }

    #[test]
    fn hosts_are_named_once() {
        for (text, names) in [
            ("n404/2+n404/3+n404/4+n404/5", "n404"),
            ("(a:ncpus=2)+(b:ncpus=2:ngpus=1)+(a:ncpus=1)", "a b"),
            ("n2/0*2+n1/0*2", "n2 n1"),
            ("n2/0-1+n1/0-1", "n2 n1"),
            ("", ""),
            ("()", ""),
        ] {
            assert_eq!(hosts(text).join(" "), names, "{text}");
        }
    }

    proptest! {
        #[test]
        fn any_text_is_read_without_panic(text in "[0-9a-z:()+/ ]{0,40}|\\PC{0,40}") {
            let _ = (time_ms(&text), walltime(&text), size(&text), hosts(&text));
        }
    }
}
