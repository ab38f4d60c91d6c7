//! Generic resources: `gpu:h100:8(S:0-1),nic:1`, `gpu:2`, `gpu:4,shard:16`, `(null)`.

use crate::job::SHARES;

/// The GPUs in a list of generic resources, by type, and shares of GPUs; the type is empty where there is none.
pub(in crate::scheduler) fn gpus(list: &str) -> Vec<(String, u32)> {
    let mut gpus: Vec<(String, u32)> = Vec::new();
    for (kind, count) in parts(list).into_iter().filter_map(gpu) {
        match gpus.iter_mut().find(|(known, _)| known == kind) {
            Some((_, sum)) => *sum = sum.saturating_add(count),
            None => gpus.push((kind.to_owned(), count)),
        }
    }
    gpus
}

/// Splits at the commas outside of parentheses, which hold sockets or indexes: `(S:0,2)`, `(IDX:0-3,7)`.
fn parts(list: &str) -> Vec<&str> {
    let (mut parts, mut begin, mut depth) = (Vec::new(), 0, 0_u32);
    for (at, c) in list.char_indices() {
        match c {
            '(' => depth += 1,
            ')' => depth = depth.saturating_sub(1),
            ',' if depth == 0 => {
                parts.push(&list[begin..at]);
                begin = at + 1;
            }
            _ => {}
        }
    }
    parts.push(&list[begin..]);
    parts
}

/// Type and count of one entry, where it is about GPUs or shares of them: `gpu`, `gpu:2`, `gpu:h100`, `gpu:h100:8(S:0-1)`. Newer versions
/// write `gres/gpu:2`, `gres/gpu=2` and `gres:gpu:2` where a job asked for them.
fn gpu(entry: &str) -> Option<(&str, u32)> {
    let entry = entry.split('(').next().unwrap_or_default().trim();
    let entry = entry
        .strip_prefix("gres/")
        .or_else(|| entry.strip_prefix("gres:"))
        .unwrap_or(entry);
    let mut words = entry.split([':', '=']);
    let number = |text: &str| text.parse::<u32>().ok();
    match words.next() {
        Some("gpu") => {}
        // A type is that of the GPU which is shared.
        Some(share) if SHARES.contains(&share) => {
            return Some((share, words.next_back().and_then(number)?));
        }
        _ => return None,
    }
    match (words.next(), words.next(), words.next()) {
        (None, ..) => Some(("", 1)),
        (Some(word), None, _) => Some(number(word).map_or((word, 1), |count| ("", count))),
        (Some(kind), Some(count), None) => Some((kind, number(count)?)),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn shown(list: &str) -> String {
        gpus(list)
            .iter()
            .map(|(kind, count)| format!("{kind}={count}"))
            .collect::<Vec<_>>()
            .join(" ")
    }

    #[test]
    fn gpus_are_told_from_other_resources() {
        for (list, expected) in [
            ("gpu:h100:8(S:0-1)", "h100=8"),
            ("gpu:2", "=2"),
            ("gpu", "=1"),
            ("gpu:h100", "h100=1"),
            ("gpu:a100:4(S:0,2),nic:1", "a100=4"),
            ("gpu:a100:4,gpu:v100:2,gpu:a100:4", "a100=8 v100=2"),
            ("gpu:a100_1g.5gb:7", "a100_1g.5gb=7"),
            ("gpu_mem:16280,gpu:1", "=1"),
            ("gpu:h100:2(IDX:0-1),gpu:h200:4(IDX:2,5)", "h100=2 h200=4"),
            ("gres/gpu:2", "=2"),
            ("gres/gpu=2", "=2"),
            ("gres:gpu:v100:2", "v100=2"),
            ("gpu,nic:2", "=1"),
            ("gpu:a40:2(S:0),shard:a40:400(S:0)", "a40=2 shard=400"),
            ("gpu:1,mps:100", "=1 mps=100"),
            ("(null)", ""),
            ("", ""),
            ("tmpdisk:7000", ""),
            ("gpu:h100:many", ""),
        ] {
            assert_eq!(shown(list), expected, "{list}");
        }
    }

    proptest! {
        #[test]
        fn any_list_is_read_without_panic(list in "[gpu:0-9,()S=/-]{0,30}|\\PC{0,20}") {
            let _ = gpus(&list);
        }
    }
}
