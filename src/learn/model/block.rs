//! What the time of an epoch is made of: groups of coefficients, and what is believed of them before the first run.

use super::facts::{Facts, Size, Word};
use super::hash::Hash;

/// A group of coefficients that share what is believed of them.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[repr(u8)]
pub(super) enum Block {
    // One coefficient each.
    Intercept,
    Gpu,
    Parameters,
    Batch,
    Threads,
    CoreRate,
    Bandwidth,
    Workers,
    WorkersSquared,
    ManyNodes,
    Nodes,
    Epochs,
    NoSamples,
    NoBatch,
    NoThreads,
    NoParameters,
    // As many as there are names.
    Framework,
    Version,
    CompilerDevice,
    Software,
    Provenance,
    ProvenanceFramework,
    PrecisionDevice,
    Storage,
    Hardware,
    Family,
    FamilySoftware,
    Image,
    BatchSoftware,
    ThreadsSoftware,
}

impl Block {
    pub(super) const ALL: [Self; 30] = [
        Self::Intercept,
        Self::Gpu,
        Self::Parameters,
        Self::Batch,
        Self::Threads,
        Self::CoreRate,
        Self::Bandwidth,
        Self::Workers,
        Self::WorkersSquared,
        Self::ManyNodes,
        Self::Nodes,
        Self::Epochs,
        Self::NoSamples,
        Self::NoBatch,
        Self::NoThreads,
        Self::NoParameters,
        Self::Framework,
        Self::Version,
        Self::CompilerDevice,
        Self::Software,
        Self::Provenance,
        Self::ProvenanceFramework,
        Self::PrecisionDevice,
        Self::Storage,
        Self::Hardware,
        Self::Family,
        Self::FamilySoftware,
        Self::Image,
        Self::BatchSoftware,
        Self::ThreadsSoftware,
    ];
    pub(super) const COUNT: usize = Self::ALL.len();

    /// Its name for people.
    pub(super) fn name(self) -> &'static str {
        match self {
            Self::Intercept => "workload",
            Self::Gpu => "GPUs against CPUs",
            Self::Parameters => "slope of parameters",
            Self::Batch => "slope of batch size",
            Self::Threads => "slope of threads",
            Self::CoreRate => "slope of a core's rate",
            Self::Bandwidth => "slope of memory bandwidth",
            Self::Workers => "slope of workers",
            Self::WorkersSquared => "bend of the workers' slope",
            Self::ManyNodes => "step at the node boundary",
            Self::Nodes => "slope of nodes",
            Self::Epochs => "slope of epochs",
            Self::NoSamples => "samples not told",
            Self::NoBatch => "batch size not told",
            Self::NoThreads => "threads not told",
            Self::NoParameters => "parameters not told",
            Self::Framework => "framework",
            Self::Version => "version of the framework",
            Self::CompilerDevice => "compiler on device",
            Self::Software => "framework with compiler on device",
            Self::Provenance => "provenance",
            Self::ProvenanceFramework => "provenance of the framework",
            Self::PrecisionDevice => "precision on device",
            Self::Storage => "storage",
            Self::Hardware => "hardware",
            Self::Family => "family of networks",
            Self::FamilySoftware => "family of networks with software",
            Self::Image => "image",
            Self::BatchSoftware => "slope of batch size with software",
            Self::ThreadsSoftware => "slope of threads with software",
        }
    }

    /// Whether it has one coefficient, which is not pooled with others.
    pub(super) fn is_single(self) -> bool {
        (self as usize) < Self::Framework as usize
    }

    /// The block of a [`Term`]'s key.
    pub(super) fn of(key: u64) -> Option<Self> {
        usize::try_from(key >> 56)
            .ok()
            .and_then(|at| Self::ALL.get(at))
            .copied()
    }

    /// The key of one of its coefficients.
    pub(super) fn key(self, level: u64) -> u64 {
        ((self as u64) << 56) | (level >> 8)
    }
}

/// A coefficient's key and what it is multiplied by.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(super) struct Term {
    /// The block in the upper eight bits, a hash of the level's name below.
    pub(super) key: u64,
    pub(super) value: f64,
}

/// The sizes that are counted from the middle of what was measured, so that slopes and levels keep apart; `None`: none was known.
#[derive(Debug, Clone, Copy, PartialEq, Default, serde::Serialize, serde::Deserialize)]
pub(super) struct Centres(pub(super) [Option<f64>; Size::COUNT]);

impl Centres {
    /// Whether anything is known of what a block's coefficient is multiplied by.
    pub(super) fn tell_of(&self, block: Block) -> bool {
        let size = match block {
            Block::Parameters => Size::Parameters,
            Block::Batch => Size::Batch,
            Block::Threads => Size::Threads,
            Block::CoreRate => Size::CoreRate,
            Block::Bandwidth => Size::Bandwidth,
            Block::Epochs => Size::Epochs,
            _ => return true,
        };
        self.0[size as usize].is_some()
    }
}

/// A run's terms. Those with the value 0 are left out.
pub(super) fn terms(facts: &Facts, centres: &Centres, then: &mut dyn FnMut(Block, Term)) {
    let mut add = |block: Block, level: u64, value: f64| {
        if value != 0.0 {
            then(
                block,
                Term {
                    key: block.key(level),
                    value,
                },
            );
        }
    };
    let centred = |size: Size| {
        facts
            .size(size)
            .map(|value| value - centres.0[size as usize].unwrap_or(0.0))
    };
    let workers = facts.size(Size::Workers).unwrap_or(0.0);
    let nodes = facts.size(Size::Nodes).unwrap_or(0.0);
    let unless = |known: bool| f64::from(u8::from(!known));
    let (batch, threads) = (centred(Size::Batch), centred(Size::Threads));
    add(Block::Intercept, 0, 1.0);
    add(Block::Gpu, 0, unless(!facts.gpu));
    add(
        Block::Parameters,
        0,
        centred(Size::Parameters).unwrap_or(0.0),
    );
    add(Block::Batch, 0, batch.unwrap_or(0.0));
    add(Block::Threads, 0, threads.unwrap_or(0.0));
    add(Block::CoreRate, 0, centred(Size::CoreRate).unwrap_or(0.0));
    add(Block::Bandwidth, 0, centred(Size::Bandwidth).unwrap_or(0.0));
    add(Block::Workers, 0, workers);
    add(Block::WorkersSquared, 0, workers * workers);
    add(Block::ManyNodes, 0, unless(nodes == 0.0));
    add(Block::Nodes, 0, nodes);
    add(Block::Epochs, 0, centred(Size::Epochs).unwrap_or(0.0));
    add(
        Block::NoSamples,
        0,
        unless(facts.size(Size::Samples).is_some()),
    );
    add(Block::NoBatch, 0, unless(batch.is_some()));
    add(Block::NoThreads, 0, unless(facts.gpu || threads.is_some()));
    add(
        Block::NoParameters,
        0,
        unless(facts.size(Size::Parameters).is_some()),
    );
    let device = u64::from(facts.gpu);
    let level = |words: &[Word]| {
        words
            .iter()
            .fold(Hash::new(device), |hash, word| {
                hash.number(facts.word(*word))
            })
            .end()
    };
    let anywhere = |words: &[Word]| {
        words
            .iter()
            .fold(Hash::new(9), |hash, word| hash.number(facts.word(*word)))
            .end()
    };
    let software = level(&[Word::Framework, Word::Compiler]);
    add(Block::Framework, anywhere(&[Word::Framework]), 1.0);
    add(
        Block::Version,
        anywhere(&[Word::Framework, Word::Version]),
        1.0,
    );
    add(Block::CompilerDevice, level(&[Word::Compiler]), 1.0);
    add(Block::Software, software, 1.0);
    add(Block::Provenance, anywhere(&[Word::Provenance]), 1.0);
    add(
        Block::ProvenanceFramework,
        anywhere(&[Word::Provenance, Word::Framework]),
        1.0,
    );
    add(Block::PrecisionDevice, level(&[Word::Precision]), 1.0);
    add(Block::Storage, anywhere(&[Word::Storage]), 1.0);
    add(Block::Hardware, level(&[Word::Hardware]), 1.0);
    add(Block::Family, anywhere(&[Word::Family]), 1.0);
    add(
        Block::FamilySoftware,
        level(&[Word::Family, Word::Framework, Word::Compiler]),
        1.0,
    );
    add(Block::Image, anywhere(&[Word::Image]), 1.0);
    add(Block::BatchSoftware, software, batch.unwrap_or(0.0));
    add(Block::ThreadsSoftware, software, threads.unwrap_or(0.0));
}

impl Block {
    /// Whether all is known that names the block's level.
    pub(super) fn is_told(self, facts: &Facts) -> bool {
        let words: &[Word] = match self {
            Self::Framework => &[Word::Framework],
            Self::Version => &[Word::Framework, Word::Version],
            Self::CompilerDevice => &[Word::Compiler],
            Self::Software | Self::BatchSoftware | Self::ThreadsSoftware => {
                &[Word::Framework, Word::Compiler]
            }
            Self::Provenance => &[Word::Provenance],
            Self::ProvenanceFramework => &[Word::Provenance, Word::Framework],
            Self::PrecisionDevice => &[Word::Precision],
            Self::Storage => &[Word::Storage],
            Self::Hardware => &[Word::Hardware],
            Self::Family => &[Word::Family],
            Self::FamilySoftware => &[Word::Family, Word::Framework, Word::Compiler],
            Self::Image => &[Word::Image],
            _ => &[],
        };
        words.iter().all(|word| facts.word(*word) != 0)
    }
}
