//! Which runs try what is not yet known: a share of them, by a draw that anybody can repeat.

use crate::job::Workload;

/// The seed for this run's draw, where it is one of those that explore. The same model, workload and number of recorded runs
/// give the same answer, so that `plan` tells what `submit` does; each further run draws anew.
pub(super) fn seed(share: f64, model: &str, workload: &Workload, runs: u64) -> Option<u64> {
    if share <= 0.0 {
        return None;
    }
    let workload = serde_json::to_string(workload).expect("a workload is plain data");
    let runs = runs.to_le_bytes();
    let bytes = model
        .bytes()
        .chain([0])
        .chain(workload.bytes())
        .chain([0])
        .chain(runs);
    // FNV-1a.
    let hash = bytes.fold(0xcbf2_9ce4_8422_2325_u64, |hash, byte| {
        (hash ^ u64::from(byte)).wrapping_mul(0x0000_0100_0000_01b3)
    });
    let first = mixed(hash);
    // 53 bits fit.
    let drawn = (first >> 11) as f64 / (1_u64 << 53) as f64;
    (drawn < share).then(|| mixed(first))
}

/// One step of SplitMix64 (Steele, Lea, Flood: Fast splittable pseudorandom number generators, 2014).
fn mixed(state: u64) -> u64 {
    let mut mixed = state.wrapping_add(0x9e37_79b9_7f4a_7c15);
    mixed = (mixed ^ (mixed >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    mixed ^ (mixed >> 31)
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use super::*;

    #[test]
    fn the_share_of_runs_explores_and_each_draws_anew() {
        let workload = Workload {
            model: Some("resnet50".into()),
            ..Workload::default()
        };
        for share in [0.1, 0.5, 0.9] {
            let drawn: Vec<u64> = (0..2000)
                .filter_map(|runs| seed(share, "m", &workload, runs))
                .collect();
            let found = drawn.len() as f64 / 2000.0;
            assert!((found - share).abs() < 0.04, "{found} of {share}");
            let distinct: BTreeSet<&u64> = drawn.iter().collect();
            assert_eq!(distinct.len(), drawn.len());
        }
        assert_eq!(seed(0.0, "m", &workload, 1), None);
        assert!((0..100).all(|runs| seed(1.0, "m", &workload, runs).is_some()));
        assert_eq!(seed(1.0, "m", &workload, 7), seed(1.0, "m", &workload, 7));
        assert_ne!(seed(1.0, "m", &workload, 7), seed(1.0, "n", &workload, 7));
    }
}
