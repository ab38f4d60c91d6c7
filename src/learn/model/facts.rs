//! A situation as numbers: what two runs must share to be repeats of each other.

use std::borrow::Cow;
use std::collections::BTreeMap;

use super::accelerators::Accelerator;
use super::{Hardware, Situation};
use crate::foundation::hash::Hash;
use crate::foundation::named_enum;
use crate::job::Workload;

named_enum! {
    /// What a run is, word by word, with the name of each. The order is that of [`Facts::words`].
    #[derive(Debug, Clone, Copy, PartialEq, Eq)]
    pub(super) enum Word {
        Framework = "framework",
        Version = "version",
        Compiler = "compiler",
        Provenance = "provenance",
        Precision = "precision",
        Storage = "storage",
        Hardware = "hardware",
        Image = "image",
        Family = "family of networks",
    }
}

/// The sizes of a run, as natural logarithms. The order is that of [`Facts::sizes`].
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Size {
    /// Samples of a step on each worker.
    Batch,
    Threads,
    /// GPUs, else tasks, over all nodes.
    Workers,
    Nodes,
    Parameters,
    Samples,
    Epochs,
    // Of these it is not reported how far outside of what was measured a run lies.
    CoreRate,
    Bandwidth,
    /// Of a GPU, by its data sheet.
    Peak,
    HalfGain,
    GpuBandwidth,
    /// Operations of the forward pass of a sample.
    Flops,
}

impl Size {
    pub(super) const COUNT: usize = 13;
}

/// Steps of a size's logarithm: what differs by less than half a percent is the same size, such as threads out of a CPU quota.
const STEPS: f64 = 128.0;
/// A size that is not known.
const UNKNOWN: i32 = i32::MIN;

/// A situation as numbers. Two runs with equal facts are repeats.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(super) struct Facts {
    /// Hash of model, data set, samples and parameters.
    pub(super) workload: u64,
    /// Hashes of what [`Word`] names; 0: not known.
    words: [u64; Word::ALL.len()],
    sizes: [i32; Size::COUNT],
    /// Hash of the numbers among the arguments.
    numbers: u64,
    /// Whether it runs on GPUs.
    pub(super) gpu: bool,
}

impl Facts {
    pub(super) fn new(situation: &Situation) -> Self {
        let gpu = situation.hardware.gpus > 0;
        let mut words = [0; Word::ALL.len()];
        for (hash, word) in words.iter_mut().zip(Word::ALL) {
            *hash = text(situation, word, |name| Hash::new(1).name(name).end()).unwrap_or(0);
        }
        let figures = situation.hardware.figures.filter(|_| !gpu);
        let rates = figures.map(|figures| [figures.core_gflops, figures.memory_gb_per_second]);
        let rates = rates.unwrap_or_default().into_iter();
        let flops = situation.workload.flops_per_sample.map_or(0.0, whole);
        let exact = exact_sizes(situation).into_iter().chain(rates);
        let all = exact.chain(by_data_sheet(situation)).chain([flops]);
        let mut sizes = [UNKNOWN; Size::COUNT];
        for (size, value) in sizes.iter_mut().zip(all) {
            if value.is_finite() && value > 0.0 {
                *size = stepped(value.ln());
            }
        }
        Self {
            workload: workload_hash(situation),
            words,
            sizes,
            numbers: hash_of(&situation.numbers),
            gpu,
        }
    }

    /// The hash of a framework's name.
    pub(super) fn framework(name: &str) -> u64 {
        Hash::new(1).name(&lower(name)).end()
    }

    pub(super) fn word(&self, word: Word) -> u64 {
        self.words[word as usize]
    }

    /// The same with another word.
    pub(super) fn with_word(mut self, word: Word, hash: u64) -> Self {
        self.words[word as usize] = hash;
        self
    }

    /// The same without the numbers among the arguments.
    pub(super) fn without_numbers(mut self) -> Self {
        self.numbers = 0;
        self
    }

    /// The same without the number of epochs, and without the numbers among the arguments.
    pub(super) fn without_epochs(mut self) -> Self {
        self = self.without_numbers();
        self.sizes[Size::Epochs as usize] = UNKNOWN;
        self
    }

    /// The same as if it were of this workload, whose sizes are `samples` and `parameters`; 0: not known.
    pub(super) fn as_workload(mut self, workload: u64, samples: f64, parameters: f64) -> Self {
        self.workload = workload;
        for (size, value) in [(Size::Samples, samples), (Size::Parameters, parameters)] {
            self.sizes[size as usize] = if value > 0.0 {
                stepped(value.ln())
            } else {
                UNKNOWN
            };
        }
        self
    }

    /// Operations of a sample, in steps of the logarithm.
    pub(super) fn operations(&self) -> Option<i32> {
        Some(self.sizes[Size::Flops as usize]).filter(|steps| *steps != UNKNOWN)
    }

    /// The same with so many operations of a sample.
    pub(super) fn with_operations(mut self, steps: Option<i32>) -> Self {
        self.sizes[Size::Flops as usize] = steps.unwrap_or(UNKNOWN);
        self
    }

    /// The natural logarithm of a size, in steps of 1/128.
    pub(super) fn size(&self, size: Size) -> Option<f64> {
        let steps = self.sizes[size as usize];
        (steps != UNKNOWN).then(|| f64::from(steps) / STEPS)
    }

    /// What two runs of one configuration share: all but the number of epochs, the image and the place of the data.
    pub(super) fn likeness(&self) -> u64 {
        let words = [
            Word::Framework,
            Word::Version,
            Word::Compiler,
            Word::Provenance,
            Word::Precision,
            Word::Hardware,
        ]
        .map(|word| self.word(word));
        let sizes = [Size::Workers, Size::Nodes, Size::Batch, Size::Threads]
            .map(|size| u64::from(self.sizes[size as usize].cast_unsigned()));
        let all = [self.workload].into_iter().chain(words).chain(sizes);
        all.fold(Hash::new(2), Hash::number).end()
    }

    /// Framework, version and compiler; without the version where that is not asked for.
    pub(super) fn software(&self, version: bool) -> u64 {
        let version = version.then(|| self.word(Word::Version));
        let words = [Word::Framework, Word::Compiler].map(|word| self.word(word));
        let words = words.into_iter().chain(version);
        words.fold(Hash::new(3), Hash::number).end()
    }

    /// What similar runs share, the closest similarity first: configuration, workload, software with and without its version,
    /// and 0, which all share.
    pub(super) fn keys_of_likeness(&self) -> [u64; 5] {
        [
            self.likeness(),
            Hash::new(10).number(self.workload).end(),
            self.software(true),
            self.software(false),
            0,
        ]
    }

    /// A fingerprint of it all.
    pub(super) fn fingerprint(&self) -> u64 {
        let words = self.words.iter().copied();
        let (sizes, flops) = self.sizes.split_at(Size::Flops as usize);
        // Evaluations deal the runs by this: those of before there was this size are dealt as they were.
        let flops = flops.iter().filter(|size| **size != UNKNOWN);
        let sizes = sizes.iter().chain(flops);
        [self.workload, u64::from(self.gpu), self.numbers]
            .into_iter()
            .chain(words)
            .chain(sizes.map(|size| u64::from(size.cast_unsigned())))
            .fold(Hash::new(4), Hash::number)
            .end()
    }
}

/// A count as a float. Above 2^53 the last digits are lost, which no logarithm notices.
pub(super) fn whole(count: u64) -> f64 {
    #[expect(clippy::cast_precision_loss, reason = "see above")]
    let float = count as f64;
    float
}

fn hash_of(numbers: &BTreeMap<String, f64>) -> u64 {
    let hash =
        |hash: Hash, (name, number): (&String, &f64)| hash.name(name).number(number.to_bits());
    let hash = numbers.iter().fold(Hash::new(13), hash);
    if numbers.is_empty() { 0 } else { hash.end() }
}

fn stepped(logarithm: f64) -> i32 {
    // The logarithm of a finite float is within ±746.
    #[expect(clippy::cast_possible_truncation, reason = "see above")]
    let steps = (logarithm * STEPS).round() as i32;
    steps
}

/// The sizes of which it is reported how far outside of what was measured a run lies.
pub(super) const EXACT: [&str; 7] = [
    "batch size of a worker",
    "number of threads",
    "number of workers",
    "number of nodes",
    "number of parameters",
    "number of samples",
    "number of epochs",
];

/// Those sizes, to the last digit; 0: not known.
pub(super) fn exact_sizes(situation: &Situation) -> [f64; EXACT.len()] {
    let Situation {
        workload, hardware, ..
    } = situation;
    let workers = f64::from(workers(situation));
    let threads = hardware.threads.filter(|threads| {
        let is_usable = threads.is_finite() && *threads > 0.0;
        is_usable && hardware.gpus == 0
    });
    let count = |count: Option<u64>| count.map_or(0.0, whole);
    [
        count(workload.batch_size) / workers,
        threads.unwrap_or(0.0),
        workers,
        f64::from(situation.nodes.max(1)),
        count(workload.parameters),
        count(workload.samples),
        count(workload.epochs),
    ]
}

/// What a data sheet says of the GPUs: peak rate, by how much precision raises it, and memory bandwidth; 0: nothing is known.
fn by_data_sheet(situation: &Situation) -> [f64; 3] {
    let Hardware {
        gpus, gpu_model, ..
    } = &situation.hardware;
    let name = gpu_model.as_deref().filter(|_| *gpus > 0);
    let precision = situation.workload.precision.as_deref();
    let figures = |gpu: &Accelerator| {
        let gain = precision.and_then(|precision| gpu.gain(precision));
        [gpu.peak(), gain.unwrap_or_default(), gpu.bandwidth]
    };
    name.and_then(Accelerator::of)
        .map(figures)
        .unwrap_or_default()
}

fn workers(situation: &Situation) -> u32 {
    let tasks = situation.tasks_per_node.max(1);
    match situation.gpus() {
        0 => situation.nodes.max(1).saturating_mul(tasks),
        gpus => gpus,
    }
}

fn workload_hash(situation: &Situation) -> u64 {
    let workload = &situation.workload;
    let named =
        |hash: Hash, name: &Option<String>| hash.optional(name.as_deref().map(lower).as_deref());
    let counted = |hash: Hash, count: Option<u64>| {
        count.map_or(hash.byte(0), |count| hash.byte(1).number(count))
    };
    let hash = named(named(Hash::new(5), &workload.model), &workload.dataset);
    counted(counted(hash, workload.samples), workload.parameters).end()
}

/// What names a training without its sizes: network and data set, and the network alone.
pub(super) fn namings(situation: &Situation) -> Option<(Option<u64>, u64)> {
    let Workload { model, dataset, .. } = &situation.workload;
    let model = model.as_deref().filter(|name| !name.is_empty())?;
    let network = Hash::new(12).name(&lower(model));
    let dataset = dataset.as_deref().filter(|name| !name.is_empty());
    Some((
        dataset.map(|name| network.byte(1).name(&lower(name)).end()),
        network.byte(0).end(),
    ))
}

/// Letter case makes no difference between networks, frameworks and compilers.
fn lower(name: &str) -> Cow<'_, str> {
    if name.bytes().any(|byte| byte.is_ascii_uppercase()) {
        Cow::Owned(name.to_ascii_lowercase())
    } else {
        Cow::Borrowed(name)
    }
}

/// The workload as people read it.
pub(super) fn workload_name(situation: &Situation) -> String {
    let workload = &situation.workload;
    let model = workload.model.as_deref();
    let mut name = cut(&lower(model.unwrap_or("a network without name")));
    if let Some(dataset) = &workload.dataset {
        name = format!("{name} on {}", cut(&lower(dataset)));
    }
    let sizes = [
        (workload.samples, "samples"),
        (workload.parameters, "parameters"),
    ];
    for (count, what) in sizes {
        name.extend(count.map(|count| format!(", {count} {what}")));
    }
    name
}

/// Names are people's: they may have any length.
pub(super) fn cut(name: &str) -> String {
    const LONGEST: usize = 80;
    match name.char_indices().nth(LONGEST) {
        Some((at, _)) => format!("{}…", &name[..at]),
        None => name.to_owned(),
    }
}

/// Hands on what a situation says of a word, where it says something.
pub(super) fn text<T>(
    situation: &Situation,
    word: Word,
    then: impl FnOnce(&str) -> T,
) -> Option<T> {
    let framework = &situation.framework;
    fn filled(name: &Option<String>) -> Option<&str> {
        name.as_deref().filter(|name| !name.is_empty())
    }
    match word {
        Word::Framework => filled(&framework.name).map(|name| then(&lower(name))),
        Word::Version => filled(&framework.version)
            .and_then(release)
            .map(|version| then(&version)),
        Word::Compiler => filled(&framework.compiler).map(|name| then(&lower(name))),
        Word::Provenance => framework
            .provenance
            .map(|provenance| then(provenance.as_str())),
        Word::Precision => filled(&situation.workload.precision).map(|name| then(&lower(name))),
        Word::Storage => situation.storage.map(|storage| then(storage.as_str())),
        Word::Hardware if situation.hardware.gpus > 0 => {
            let model = situation.hardware.gpu_model.as_deref();
            let model = model.unwrap_or("of an unknown kind");
            Some(then(&format!("gpu {model}")))
        }
        Word::Hardware => filled(&situation.hardware.cpu_model).map(then),
        Word::Image => filled(&situation.image).map(then),
        Word::Family => filled(&situation.workload.model).map(|model| then(&family(model))),
    }
}

/// The first two numbers of a version: patches change no speed by more than noise. `None`: a range.
fn release(version: &str) -> Option<String> {
    let version = version.trim().trim_start_matches('v');
    let end = version
        .find(|c: char| !c.is_ascii_digit() && c != '.')
        .unwrap_or(version.len());
    let parts = version[..end].split('.').filter(|part| !part.is_empty());
    let parts: Vec<&str> = parts.take(2).collect();
    (!parts.is_empty()).then(|| parts.join("."))
}

/// `ResNet-50` and `resnet101` are `resnet`, `bert-large` is `bert`.
fn family(model: &str) -> String {
    const SIZES: [&str; 10] = [
        "tiny", "mini", "small", "base", "medium", "large", "huge", "giant", "xl", "xxl",
    ];
    let model = model.trim().to_ascii_lowercase();
    let digit = model
        .find(|c: char| c.is_ascii_digit())
        .filter(|at| *at >= 3)
        .unwrap_or(model.len());
    let mut stem = model[..digit].trim_end_matches(['-', '_', '.', ' ']);
    while let Some(at) = stem
        .rfind(['-', '_', ' '])
        .filter(|at| SIZES.contains(&&stem[at + 1..]))
    {
        stem = &stem[..at];
    }
    stem.to_owned()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn families_leave_out_sizes() {
        let of = |models: &[&str]| models.iter().map(|model| family(model)).collect::<Vec<_>>();
        assert_eq!(
            of(&["resnet50", "ResNet-101", "resnet_v2_50"]),
            ["resnet", "resnet", "resnet_v"]
        );
        assert_eq!(
            of(&["bert-large", "mnist-cnn", "vgg16", "u2", "é9"]),
            ["bert", "mnist-cnn", "vgg", "u2", "é9"]
        );
    }

    #[test]
    fn versions_keep_two_numbers_and_ranges_are_none() {
        assert_eq!(release("2.21.0+cpu").as_deref(), Some("2.21"));
        assert_eq!(release("v1.14").as_deref(), Some("1.14"));
        assert_eq!(release(">=2.1, <3"), None);
    }

    #[test]
    fn facts_do_not_mix_up_fields() {
        let mut one = Situation::default();
        one.workload.model = Some("a".to_owned());
        let mut two = Situation::default();
        two.workload.dataset = Some("a".to_owned());
        assert_ne!(Facts::new(&one).workload, Facts::new(&two).workload);
        one.hardware.threads = Some(f64::NAN);
        assert_eq!(Facts::new(&one).size(Size::Threads), None);
    }
}
