//! In which order the runs come: each repeat runs all cells once, shuffled, so that what changes slowly (heat, other users,
//! the file system) affects all cells equally.

use serde::{Deserialize, Serialize};

use crate::foundation::statistics::Dice;

/// A run of the matrix.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub struct Slot {
    /// Which cell, from 0.
    pub cell: usize,
    /// Which repeat, from 0.
    pub repeat: u32,
}

/// All runs in their order, the same for the same seed; the first repeats are the same however many follow.
#[must_use]
pub fn order(cells: usize, repeats: u32, seed: u64) -> Vec<Slot> {
    let mut slots = Vec::with_capacity(cells.saturating_mul(repeats as usize));
    for repeat in 0..repeats {
        let mut dice =
            Dice::new(seed ^ (u64::from(repeat) + 1).wrapping_mul(0x9e37_79b9_7f4a_7c15));
        let mut round: Vec<usize> = (0..cells).collect();
        // Fisher and Yates, from the end.
        for last in (1..cells).rev() {
            round.swap(last, below(dice.bits(), last + 1));
        }
        slots.extend(round.into_iter().map(|cell| Slot { cell, repeat }));
    }
    slots
}

/// A number below `bound`. The bias is below one in 10^14 for any matrix.
fn below(random: u64, bound: usize) -> usize {
    usize::try_from((u128::from(random) * bound as u128) >> 64).unwrap_or(0)
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use super::*;

    #[test]
    fn every_repeat_runs_every_cell_once_in_an_order_of_its_own() {
        let slots = order(20, 5, 7);
        assert_eq!(slots.iter().collect::<BTreeSet<_>>().len(), 100);
        let rounds: BTreeSet<Vec<usize>> = slots
            .chunks(20)
            .map(|round| round.iter().map(|slot| slot.cell).collect())
            .collect();
        assert_eq!(rounds.len(), 5, "no two repeats have the same order");
        for (repeat, round) in (0..).zip(slots.chunks(20)) {
            assert!(round.iter().all(|slot| slot.repeat == repeat));
        }
    }

    #[test]
    fn the_order_hangs_on_the_seed_alone() {
        assert_eq!(order(9, 3, 1), order(9, 3, 1));
        assert_ne!(order(9, 3, 1), order(9, 3, 2));
        assert_eq!(order(9, 3, 1), order(9, 8, 1)[..27]);
        assert_eq!((order(0, 3, 1), order(1, 2, 1).len()), (Vec::new(), 2));
    }

    /// The first numbers of the seed 1234567, as the reference implementation gives them.
    #[test]
    fn the_generator_is_splitmix() {
        let mut dice = Dice::new(1_234_567);
        let first = [dice.bits(), dice.bits(), dice.bits()];
        assert_eq!(
            first,
            [
                6_457_827_717_110_365_317,
                3_203_168_211_198_807_973,
                9_817_491_932_198_370_423
            ]
        );
    }

    #[test]
    fn every_place_is_as_likely() {
        let mut firsts = [0_u32; 4];
        order(4, 4_000, 3)
            .chunks(4)
            .for_each(|round| firsts[round[0].cell] += 1);
        assert!(
            firsts.iter().all(|count| (900..1_100).contains(count)),
            "{firsts:?}"
        );
    }
}
