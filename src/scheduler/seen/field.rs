//! Single values: moments, counts, GPUs.

use super::Printed;
use crate::scheduler::slurm;

/// Text that says something: not `(null)`, `N/A`, `Unknown`, `None` and their like.
pub(super) fn said(text: &str) -> Option<&str> {
    let text = text.trim();
    let nothing = "|--|(null)|null|N/A|n/a|NONE|None|Unknown|None assigned|none|(None)";
    (!nothing.split('|').any(|known| known == text)).then_some(text)
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
        let Some((name, count)) = item.split_once('=') else {
            continue;
        };
        let Ok(count) = count.trim().parse::<u64>() else {
            continue;
        };
        match name.trim().strip_prefix("gres/gpu") {
            Some("") => all = Some(count),
            Some(kind) if kind.starts_with(':') => {
                typed = Some(typed.unwrap_or(0_u64).saturating_add(count))
            }
            _ => {}
        }
    }
    Some(all.or(typed).unwrap_or(0))
}

/// GPUs in a list of generic resources, of all types.
pub(super) fn gpus_of_gres(text: &str) -> u64 {
    slurm::gpus(text)
        .into_iter()
        .map(|(_, count)| u64::from(count))
        .fold(0, u64::saturating_add)
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
    fn gpus_are_counted_once() {
        assert_eq!(gpus_of_tres("cpu=72,gres/gpu=3,gres/gpu:h100=3"), Some(3));
        assert_eq!(gpus_of_tres("gres/gpu:a100=2,gres/gpu:v100=1"), Some(3));
        assert_eq!(gpus_of_tres("cpu=1,mem=1G"), Some(0));
        assert_eq!(gpus_of_tres("(null)"), None);
        assert_eq!(gpus_of_gres("gpu:h100:2(IDX:0-1),gpu:h200:4(IDX:2,5)"), 6);
        assert_eq!(gpus_of_gres("(null)"), 0);
    }
}
