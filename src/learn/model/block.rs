//! What the time of an epoch is made of: groups of coefficients, and what a run multiplies them by.

use super::facts::{Facts, Size, Word};
use crate::foundation::hash::Hash;
use crate::foundation::named_enum;

named_enum! {
    /// A group of coefficients that share what is believed of them, with its name for people. Model files hold the numbers.
    #[derive(Debug, Clone, Copy, PartialEq, Eq)]
    #[repr(u8)]
    pub(super) enum Block {
        // One coefficient each.
        Intercept = "workload",
        Gpu = "GPUs against CPUs",
        Parameters = "slope of parameters",
        Flops = "slope of operations",
        Batch = "slope of batch size",
        Threads = "slope of threads",
        CoreRate = "slope of a core's rate",
        Bandwidth = "slope of memory bandwidth",
        Peak = "slope of a GPU's peak rate",
        HalfGain = "slope of a GPU's gain by precision",
        GpuBandwidth = "slope of a GPU's memory bandwidth",
        NoDataSheet = "GPU without data sheet",
        Workers = "slope of workers",
        WorkersSquared = "bend of the workers' slope",
        ManyNodes = "step at the node boundary",
        Nodes = "slope of nodes",
        NoSamples = "samples unknown",
        NoBatch = "batch size unknown",
        NoThreads = "threads unknown",
        NoParameters = "parameters unknown",
        NoFlops = "operations unknown",
        // As many as there are names.
        Framework = "framework",
        Version = "version of the framework",
        CompilerDevice = "compiler on device",
        Software = "framework with compiler on device",
        Provenance = "provenance",
        ProvenanceFramework = "provenance of the framework",
        PrecisionDevice = "precision on device",
        Storage = "storage",
        Hardware = "hardware",
        Family = "family of networks",
        FamilySoftware = "family of networks with software",
        Image = "image",
        BatchSoftware = "slope of batch size with software",
        ThreadsSoftware = "slope of threads with software",
        HardwarePrecision = "precision on hardware",
        WorkersHardware = "slope of workers on hardware",
    }
}

impl Block {
    pub(super) const COUNT: usize = Self::ALL.len();

    /// Whether it has one coefficient, which is not pooled with others.
    pub(super) fn is_single(self) -> bool {
        (self as usize) < Self::Framework as usize
    }

    /// The block of a [`Term`]'s key.
    pub(super) fn from_key(key: u64) -> Option<Self> {
        let at = usize::try_from(key >> 56).ok()?;
        Self::ALL.get(at).copied()
    }

    /// The key of one of its coefficients.
    pub(super) fn key(self, level: u64) -> u64 {
        ((self as u64) << 56) | (level >> 8)
    }

    /// What names its levels.
    fn level_words(self) -> &'static [Word] {
        match self {
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
            Self::HardwarePrecision | Self::WorkersHardware => &[Word::Hardware, Word::Precision],
            _ => &[],
        }
    }

    /// Whether its levels on CPUs and on GPUs are others.
    pub(super) fn is_by_device(self) -> bool {
        matches!(
            self,
            Self::CompilerDevice
                | Self::Software
                | Self::PrecisionDevice
                | Self::Hardware
                | Self::FamilySoftware
                | Self::BatchSoftware
                | Self::ThreadsSoftware
                | Self::HardwarePrecision
                | Self::WorkersHardware
        )
    }

    /// The level of a run.
    fn level(self, facts: &Facts) -> u64 {
        if self.is_single() {
            return 0;
        }
        let seed = if self.is_by_device() {
            u64::from(facts.gpu)
        } else {
            9
        };
        let hashes = self.level_words().iter().map(|word| facts.word(*word));
        hashes.fold(Hash::new(seed), Hash::number).end()
    }

    /// Whether all is known that names the block's level.
    pub(super) fn is_known(self, facts: &Facts) -> bool {
        self.level_words().iter().all(|word| facts.word(*word) != 0)
    }

    /// The size that its coefficient is multiplied by, counted from the middle of what was measured.
    pub(super) fn centred_size(self) -> Option<Size> {
        Some(match self {
            Self::Parameters => Size::Parameters,
            Self::Flops => Size::Flops,
            Self::Batch | Self::BatchSoftware => Size::Batch,
            Self::Threads | Self::ThreadsSoftware => Size::Threads,
            Self::CoreRate => Size::CoreRate,
            Self::Bandwidth => Size::Bandwidth,
            Self::Peak => Size::Peak,
            Self::HalfGain => Size::HalfGain,
            Self::GpuBandwidth => Size::GpuBandwidth,
            _ => return None,
        })
    }

    /// What a run multiplies its coefficient by.
    fn factor(self, facts: &Facts, centres: &Centres) -> f64 {
        if let Some(size) = self.centred_size() {
            let centre = centres.0[size as usize].unwrap_or(0.0);
            return facts.size(size).map_or(0.0, |value| value - centre);
        }
        let size = |size: Size| facts.size(size).unwrap_or(0.0);
        let where_true = |holds: bool| f64::from(u8::from(holds));
        let unless_known = |size: Size| where_true(facts.size(size).is_none());
        match self {
            Self::Gpu => where_true(facts.gpu),
            Self::HardwarePrecision | Self::WorkersHardware if !self.is_known(facts) => 0.0,
            Self::Workers | Self::WorkersHardware => size(Size::Workers),
            Self::WorkersSquared => size(Size::Workers) * size(Size::Workers),
            Self::ManyNodes => where_true(size(Size::Nodes) != 0.0),
            Self::Nodes => size(Size::Nodes),
            Self::NoSamples => unless_known(Size::Samples),
            Self::NoBatch => unless_known(Size::Batch),
            Self::NoThreads if facts.gpu => 0.0,
            Self::NoThreads => unless_known(Size::Threads),
            Self::NoDataSheet => where_true(facts.gpu && facts.size(Size::Peak).is_none()),
            Self::NoParameters => unless_known(Size::Parameters),
            Self::NoFlops => unless_known(Size::Flops),
            _ => 1.0,
        }
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
    pub(super) fn has_size_of(&self, block: Block) -> bool {
        block
            .centred_size()
            .is_none_or(|size| self.0[size as usize].is_some())
    }
}

/// A run's terms, in the order of their blocks. Those with the value 0 are left out.
pub(super) fn terms(facts: &Facts, centres: &Centres) -> impl Iterator<Item = (Block, Term)> {
    Block::ALL.into_iter().filter_map(|block| {
        let value = block.factor(facts, centres);
        let term = || Term {
            key: block.key(block.level(facts)),
            value,
        };
        (value != 0.0).then(|| (block, term()))
    })
}
