//! What is forecast, and what is believed of it before the first run.

use super::block::{Block, Centres, Term, terms};
use super::facts::{EXACT, Facts};
use crate::foundation::named_enum;

named_enum! {
    /// Something that is forecast, with its name for people. Each has its own equations, of the same form.
    #[derive(Debug, Clone, Copy, PartialEq, Eq, serde::Serialize, serde::Deserialize)]
    #[serde(rename_all = "snake_case")]
    pub(super) enum Response {
        /// A steady epoch.
        Epoch = "time of an epoch",
        /// What each epoch takes beside its training, as a share of that.
        Between = "time between epochs",
        /// What does not go by epochs: start-up, the first one's extra time, the end.
        Outside = "time outside of epochs",
        /// Memory of a node.
        Memory = "memory",
        /// A run without known epochs.
        Whole = "time of a run",
    }
}

/// What is believed of what an epoch takes beside its training where no run shows it: the logarithm of its share of that, and its
/// standard deviation. A hundredth, ten times less or ten times more.
pub(super) const BETWEEN: (f64, f64) = (-4.6, 1.4);

impl Response {
    /// A run's terms, of the blocks that have a part in this.
    pub(super) fn terms(
        self,
        facts: &Facts,
        centres: &Centres,
    ) -> impl Iterator<Item = (Block, Term)> {
        terms(facts, centres).filter(move |(block, _)| self.belief(*block).is_some())
    }

    /// What is believed of a block's coefficients; `None`: the block has no part in this.
    pub(super) fn belief(self, block: Block) -> Option<Belief> {
        let epoch = of_an_epoch(block);
        match self {
            Self::Epoch => epoch,
            Self::Whole => epoch.map(|belief| belief.scaled(1.3)),
            Self::Outside | Self::Between => other(block)
                .or_else(|| scale_of(self, block))
                .map(|belief| belief.scaled(2.0)),
            Self::Memory => other(block).or_else(|| scale_of(self, block)),
        }
    }

    /// By how much the slope of each size of [`EXACT`] may be another one beyond what was measured of it: standard deviations.
    ///
    /// Power laws hold over a range at best. Memory is a sum of what grows with the batch and what does not, so that the slope
    /// between small batches says little of large ones.
    pub(super) fn bends(self) -> [f64; EXACT.len()] {
        match self {
            // A long training is a little slower than its first epochs: machines warm up, others come and go. Two measured pairs of
            // 5 and 200 epochs differed by 0.024 and 0.039 for each step of the logarithm.
            Self::Epoch => [0.3, 0.4, 0.08, 0.08, 0.2, 0.1, 0.03],
            Self::Whole => [0.3, 0.4, 0.2, 0.15, 0.2, 0.1, 0.25],
            Self::Outside | Self::Between => [0.1, 0.3, 0.2, 0.2, 0.2, 0.1, 0.03],
            Self::Memory => [0.4, 0.1, 0.1, 0.1, 0.4, 0.1, 0.05],
        }
    }

    /// Standard deviations of the logarithm that are believed of repeats, and of what a configuration adds to its parts.
    pub(super) fn scatter(self) -> (f64, f64) {
        match self {
            Self::Epoch => (0.05, 0.04),
            Self::Whole => (0.08, 0.05),
            Self::Between => (0.4, 0.3),
            Self::Outside => (0.15, 0.10),
            Self::Memory => (0.02, 0.03),
        }
    }
}

/// What is believed of the coefficients of a block.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(super) struct Belief {
    /// Their mean.
    pub(super) mean: f64,
    /// Their standard deviation; of blocks with many levels only where the search for it begins.
    pub(super) sd: f64,
    /// Standard deviation of a workload's own coefficient around the shared one; 0: workloads have none of their own.
    pub(super) local_sd: f64,
}

impl Belief {
    const fn slope(mean: f64, sd: f64, local_sd: f64) -> Self {
        Self { mean, sd, local_sd }
    }

    const fn levels(sd: f64, local_sd: f64) -> Self {
        Self::slope(0.0, sd, local_sd)
    }

    fn scaled(self, by: f64) -> Self {
        Self::slope(self.mean, self.sd * by, self.local_sd * by)
    }
}

/// Of ln(seconds of an epoch / samples).
///
/// A slope of -1 of threads, workers and rates is work that is shared out perfectly; of GPUs it is known that they are some ten
/// times as quick as CPUs. The rest says how large such things usually are, not which way they go.
fn of_an_epoch(block: Block) -> Option<Belief> {
    Some(match block {
        Block::Intercept => Belief::slope(-7.0, 10.0, 0.8),
        Block::Gpu => Belief::slope(-2.5, 1.5, 0.0),
        Block::Parameters => Belief::slope(0.4, 0.4, 0.0),
        Block::Flops => Belief::slope(0.8, 0.2, 0.0),
        Block::Batch => Belief::slope(-0.15, 0.25, 0.12),
        Block::Threads => Belief::slope(-0.6, 0.3, 0.15),
        Block::CoreRate => Belief::slope(-0.6, 0.4, 0.0),
        Block::Bandwidth => Belief::slope(-0.3, 0.3, 0.0),
        Block::Peak | Block::HalfGain => Belief::slope(-0.25, 0.2, 0.15),
        Block::GpuBandwidth => Belief::slope(-0.6, 0.2, 0.15),
        Block::NoDataSheet => Belief::slope(0.0, 0.5, 0.0),
        Block::Workers => Belief::slope(-0.85, 0.25, 0.15),
        Block::WorkersSquared => Belief::slope(0.0, 0.05, 0.04),
        Block::ManyNodes => Belief::slope(0.15, 0.3, 0.2),
        Block::Nodes => Belief::slope(0.0, 0.2, 0.1),
        Block::NoSamples => Belief::slope(7.0, 5.0, 0.0),
        Block::NoBatch | Block::NoThreads | Block::NoParameters | Block::NoFlops => {
            Belief::slope(0.0, 0.5, 0.0)
        }
        Block::Framework => Belief::levels(0.3, 0.25),
        Block::Version => Belief::levels(0.12, 0.07),
        Block::CompilerDevice => Belief::levels(0.15, 0.0),
        Block::Software => Belief::levels(0.2, 0.25),
        Block::Provenance => Belief::levels(0.06, 0.0),
        Block::ProvenanceFramework => Belief::levels(0.06, 0.05),
        Block::PrecisionDevice => Belief::levels(0.3, 0.15),
        Block::Storage => Belief::levels(0.4, 0.3),
        Block::Hardware => Belief::levels(0.5, 0.15),
        Block::Family => Belief::levels(0.5, 0.0),
        Block::FamilySoftware => Belief::levels(0.15, 0.0),
        Block::Image => Belief::levels(0.05, 0.0),
        Block::BatchSoftware => Belief::levels(0.06, 0.06),
        Block::ThreadsSoftware => Belief::levels(0.1, 0.08),
        Block::HardwarePrecision => Belief::levels(0.02, 0.02),
        Block::WorkersHardware => Belief::levels(0.1, 0.1),
    })
}

/// Of the logarithms of the other times, and of memory.
fn other(block: Block) -> Option<Belief> {
    Some(match block {
        Block::Framework | Block::Family => Belief::levels(0.4, 0.2),
        Block::Version => Belief::levels(0.12, 0.07),
        Block::CompilerDevice => Belief::levels(0.2, 0.0),
        Block::Software => Belief::levels(0.3, 0.2),
        Block::PrecisionDevice => Belief::levels(0.15, 0.1),
        Block::Storage => Belief::levels(0.2, 0.1),
        Block::Hardware => Belief::levels(0.25, 0.1),
        Block::Image => Belief::levels(0.05, 0.0),
        _ => return None,
    })
}

/// The part of a block with one coefficient in the other times and in memory.
fn scale_of(response: Response, block: Block) -> Option<Belief> {
    let memory = response == Response::Memory;
    Some(match block {
        Block::Intercept if memory => Belief::slope(21.0, 5.0, 0.5),
        Block::Intercept if response == Response::Between => Belief::slope(BETWEEN.0, 1.0, 0.5),
        Block::Intercept => Belief::slope(1.0, 5.0, 0.5),
        Block::Gpu | Block::NoBatch | Block::NoThreads | Block::NoParameters => {
            Belief::slope(0.0, 0.5, 0.0)
        }
        Block::Parameters => Belief::slope(0.15, 0.2, 0.0),
        Block::Batch if memory => Belief::slope(0.35, 0.25, 0.1),
        Block::Batch => Belief::slope(0.0, 0.15, 0.1),
        _ if response == Response::Between => return None,
        Block::Threads => Belief::slope(if memory { 0.05 } else { -0.2 }, 0.15, 0.05),
        Block::CoreRate if !memory => Belief::slope(-0.4, 0.3, 0.0),
        Block::Workers => Belief::slope(0.0, 0.2, 0.1),
        Block::ManyNodes => Belief::slope(0.0, 0.2, 0.1),
        _ => return None,
    })
}
