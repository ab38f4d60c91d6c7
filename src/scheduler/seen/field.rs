//! Single values: times, counts, GPUs.

use super::Printed;

/// `3-00:00:00`, `6-11:02:57`, `02:35:49`, `0:04`, `1-12` as seconds.
pub(super) fn seconds(text: &str) -> Option<u64> {
    let (days, clock) = match text.trim().split_once('-') {
        Some((days, clock)) => (days.parse::<u64>().ok()?, clock),
        None => (0, text.trim()),
    };
    // Fractions of a second, as `sacct` prints CPU times.
    let clock = clock.split('.').next().unwrap_or_default();
    let parts: Vec<u64> = clock.split(':').map(|part| part.parse().ok()).collect::<Option<_>>()?;
    let clock = match (parts[..].len(), days) {
        (3, _) => {
            parts[0].checked_mul(3600)?.checked_add(parts[1].checked_mul(60)?)?.checked_add(parts[2])?
        }
        (2, 0) => parts[0].checked_mul(60)?.checked_add(parts[1])?,
        (2, _) => parts[0].checked_mul(3600)?.checked_add(parts[1].checked_mul(60)?)?,
        (1, 1..) => parts[0].checked_mul(3600)?,
        _ => return None,
    };
    days.checked_mul(86_400)?.checked_add(clock)
}

/// Text that says something: not `(null)`, `N/A`, `Unknown`, `None` and their like.
pub(super) fn said(text: &str) -> Option<&str> {
    let text = text.trim();
    let nothing =
        ["", "(null)", "null", "N/A", "n/a", "NONE", "None", "Unknown", "None assigned", "none", "(None)"];
    (!nothing.contains(&text)).then_some(text)
}

/// A moment, unless nothing is said; digits alone are Unix seconds.
pub(super) fn moment(text: &str) -> Option<Printed> {
    let text = said(text)?;
    match text.parse::<u64>() {
        Ok(0) => None,
        Ok(seconds) => Some(Printed::Seconds(seconds)),
        Err(_) => Some(Printed::Text(text.to_owned())),
    }
}

/// `1:0`: code and signal.
pub(super) fn exit(text: &str) -> Option<(i64, i64)> {
    let (code, signal) = text.trim().split_once(':')?;
    Some((code.parse().ok()?, signal.parse().ok()?))
}

/// GPUs in a list of trackable resources (`cpu=2,gres/gpu:h100=3,gres/gpu=3`). The entry without a type is the sum of those
/// with one. `None` where the list is empty.
pub(super) fn gpus_of_tres(text: &str) -> Option<u64> {
    let text = said(text)?;
    let (mut all, mut typed) = (None, None);
    for item in text.split(',') {
        let Some((name, count)) = item.split_once('=') else { continue };
        let Ok(count) = count.trim().parse::<u64>() else { continue };
        match name.trim().strip_prefix("gres/gpu") {
            Some("") => all = Some(count),
            Some(kind) if kind.starts_with(':') => typed = Some(typed.unwrap_or(0_u64).saturating_add(count)),
            _ => {}
        }
    }
    Some(all.or(typed).unwrap_or(0))
}

/// GPUs in a list of generic resources (`gpu:h100:8(S:0-1),tmpdisk:7000`, `gres:gpu:2`, `gres/gpu:2`). A `gpu` without a
/// number is one.
pub(super) fn gpus_of_gres(text: &str) -> u64 {
    let mut depth = 0_u32;
    // Commas inside of brackets are no separators: `gpu:2(IDX:0,3)`.
    let outside = |c: char| {
        match c {
            '(' => depth += 1,
            ')' => depth = depth.saturating_sub(1),
            _ => {}
        }
        if depth == 0 { c } else { ' ' }
    };
    let flat: String = text.chars().map(outside).filter(|c| *c != ')' && *c != ' ').collect();
    let count = |item: &str| {
        let item = item.trim().trim_start_matches("gres:").trim_start_matches("gres/");
        let rest = item.strip_prefix("gpu")?;
        match rest.rsplit_once([':', '=']) {
            None if rest.is_empty() => Some(1),
            Some((_, count)) if rest.starts_with([':', '=']) => Some(count.parse::<u64>().unwrap_or(1)),
            _ => None,
        }
    };
    flat.split(',').filter_map(count).fold(0, u64::saturating_add)
}

/// The first number of `2`, `2-4`, `1K`.
pub(super) fn leading_number(text: &str) -> Option<u64> {
    let digits = text.trim().split(|c: char| !c.is_ascii_digit()).next()?;
    digits.parse().ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn durations_have_many_forms() {
        for (text, expected) in [
            ("3-00:00:00", Some(259_200)),
            ("0:04", Some(4)),
            ("02:35:49", Some(9349)),
            ("1-12", Some(129_600)),
            ("1-12:30", Some(131_400)),
            ("00:00:30.123", Some(30)),
            ("UNLIMITED", None),
            ("", None),
            ("5", None),
        ] {
            assert_eq!(seconds(text), expected, "{text}");
        }
    }

    #[test]
    fn gpus_are_counted_once() {
        assert_eq!(gpus_of_tres("cpu=72,gres/gpu=3,gres/gpu:h100=3"), Some(3));
        assert_eq!(gpus_of_tres("gres/gpu:a100=2,gres/gpu:v100=1"), Some(3));
        assert_eq!(gpus_of_tres("cpu=1,mem=1G"), Some(0));
        assert_eq!(gpus_of_tres("(null)"), None);
        assert_eq!(gpus_of_gres("gpu_mem:16280,gpu:1"), 1);
        assert_eq!(gpus_of_gres("gpu:h100:2(IDX:0-1),gpu:h200:4(IDX:2,5)"), 6);
        assert_eq!(gpus_of_gres("gres:gpu:2"), 2);
        assert_eq!(gpus_of_gres("gpu,nic:2"), 1);
        assert_eq!(gpus_of_gres("(null)"), 0);
    }
}
