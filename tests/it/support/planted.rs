//! Runs whose truth is known: workloads, software and hardware with planted effects, noise, outliers and cut-off runs.
//!
//! The same seed gives the same world, byte for byte, on any machine: the dice are our own.

use std::collections::BTreeMap;

use dlrun::job::{Framework, Provenance, RunId, SchedulerKind, StorageClass, Workload};
use dlrun::learn::model::{Doubts, Hardware, Length, Observation, Situation};
use dlrun::record::NodeFigures;

/// SplitMix64 (Steele, Lea and Flood, 2014).
#[derive(Clone)]
pub(crate) struct Dice(u64);

impl Dice {
    pub(crate) fn new(seed: u64) -> Self {
        Self(seed)
    }

    pub(crate) fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut mixed = self.0;
        mixed = (mixed ^ (mixed >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        mixed ^ (mixed >> 31)
    }

    /// From 0 to below 1.
    #[allow(clippy::cast_precision_loss)]
    pub(crate) fn uniform(&mut self) -> f64 {
        (self.next() >> 11) as f64 / (1_u64 << 53) as f64
    }

    pub(crate) fn between(&mut self, low: f64, high: f64) -> f64 {
        low + (high - low) * self.uniform()
    }

    pub(crate) fn chance(&mut self, share: f64) -> bool {
        self.uniform() < share
    }

    pub(crate) fn below(&mut self, count: usize) -> usize {
        usize::try_from(self.next() % u64::try_from(count.max(1)).expect("it fits"))
            .expect("it fits")
    }

    pub(crate) fn pick<'a, T>(&mut self, from: &'a [T]) -> &'a T {
        &from[self.below(from.len())]
    }

    /// Mean 0, standard deviation `sd` (Box and Muller).
    pub(crate) fn normal(&mut self, sd: f64) -> f64 {
        let (a, b) = (1.0 - self.uniform(), self.uniform());
        sd * (-2.0 * a.ln()).sqrt() * (std::f64::consts::TAU * b).cos()
    }
}

/// How large and how hard a world is.
#[derive(Clone)]
pub(crate) struct Shape {
    /// Each of [`FAMILIES`] has networks of several sizes; this many in all.
    pub(crate) workloads: usize,
    /// The logarithm of a run's time scatters by this much at least, and at most.
    pub(crate) noise: (f64, f64),
    /// This share of the runs takes 1.5 to 4 times as long.
    pub(crate) outliers: f64,
    /// This share is cut off before its second epoch ends.
    pub(crate) cut_off: f64,
    /// How much workloads of one family differ in what software does to them (standard deviation of the logarithm).
    pub(crate) own: f64,
    /// Whether some runs have several GPUs and nodes.
    pub(crate) many_nodes: bool,
}

impl Default for Shape {
    fn default() -> Self {
        Self {
            workloads: 12,
            noise: (0.03, 0.10),
            outliers: 0.02,
            cut_off: 0.03,
            own: 0.06,
            many_nodes: true,
        }
    }
}

const FAMILIES: [&str; 5] = ["resnet", "vgg", "bert", "unet", "mlp"];
const SIZES: [u32; 4] = [18, 50, 101, 152];
const FRAMEWORKS: [(&str, [&str; 3], &str); 3] = [
    ("tensorflow", ["2.4", "2.11", "2.16"], "xla"),
    ("pytorch", ["1.13", "2.1", "2.4"], "inductor"),
    ("jax", ["0.4.20", "0.4.30", "0.5"], "xla"),
];
const PROVENANCES: [Provenance; 3] = [Provenance::Hub, Provenance::Pip, Provenance::Source];
/// Name, GPU, gigaflops of a core or of the GPU, of the node, bandwidth in GB/s.
const MACHINES: [(&str, Option<&str>, f64, f64, f64); 5] = [
    ("Xeon E5-2630 v4", None, 28.0, 400.0, 60.0),
    ("EPYC 7742", None, 45.0, 2_500.0, 190.0),
    ("Xeon 8480+", None, 80.0, 3_600.0, 300.0),
    ("Xeon Gold 6132", Some("Tesla V100"), 40.0, 900.0, 110.0),
    ("EPYC 7763", Some("A100"), 50.0, 2_800.0, 200.0),
];

/// One network on its data, as it was planted.
struct Planted {
    workload: Workload,
    family: usize,
    framework: usize,
    /// Logarithm of the seconds of a sample where all effects are 0.
    level: f64,
    noise: f64,
    batch_slope: f64,
    own: BTreeMap<String, f64>,
}

/// A world with its truth.
pub(crate) struct World {
    shape: Shape,
    planted: Vec<Planted>,
    effects: BTreeMap<String, f64>,
    dice: Dice,
    runs: u64,
}

impl World {
    pub(crate) fn new(seed: u64, shape: Shape) -> Self {
        let mut dice = Dice::new(seed);
        let mut effects = BTreeMap::new();
        let mut plant = |dice: &mut Dice, name: String, mean: f64, sd: f64| {
            effects.insert(name, mean + dice.normal(sd));
        };
        for (framework, versions, compiler) in FRAMEWORKS {
            plant(&mut dice, framework.to_owned(), 0.0, 0.25);
            for version in versions {
                plant(&mut dice, format!("{framework} {version}"), 0.0, 0.12);
            }
            for provenance in PROVENANCES {
                plant(
                    &mut dice,
                    format!("{framework} {}", provenance.as_str()),
                    0.0,
                    0.08,
                );
            }
            // What the paper found: a compiler helps on one device and hurts on the other, and goes by the network.
            plant(&mut dice, format!("{framework} {compiler} cpu"), 0.15, 0.15);
            plant(
                &mut dice,
                format!("{framework} {compiler} gpu"),
                -0.15,
                0.15,
            );
            for family in FAMILIES {
                for device in ["cpu", "gpu"] {
                    plant(
                        &mut dice,
                        format!("{family} {framework} {compiler} {device}"),
                        0.0,
                        0.2,
                    );
                }
            }
        }
        for (cpu, gpu, ..) in MACHINES {
            plant(&mut dice, gpu.unwrap_or(cpu).to_owned(), 0.0, 0.1);
        }
        plant(&mut dice, "bf16 gpu".to_owned(), -0.4, 0.1);
        plant(&mut dice, "bf16 cpu".to_owned(), 0.1, 0.1);
        plant(&mut dice, "common".to_owned(), 0.35, 0.1);
        plant(&mut dice, "node".to_owned(), 0.2, 0.05);
        let planted = (0..shape.workloads)
            .map(|at| Planted::new(at, &shape, &mut dice))
            .collect();
        Self {
            shape,
            planted,
            effects,
            dice,
            runs: 0,
        }
    }

    pub(crate) fn workloads(&self) -> usize {
        self.planted.len()
    }

    /// The planted effect of a name: `tensorflow xla cpu`, `pytorch 2.1`, `bf16 gpu`, `common`, `node`, ...; 0 where none is.
    pub(crate) fn effect(&self, name: &str) -> f64 {
        self.effects.get(name).copied().unwrap_or_default()
    }

    fn planted(&self, situation: &Situation) -> &Planted {
        let names = |workload: &Workload| (workload.model.clone(), workload.dataset.clone());
        let wanted = names(&situation.workload);
        let found = self
            .planted
            .iter()
            .find(|planted| names(&planted.workload) == wanted);
        found.expect("the workload is one of this world")
    }

    /// The true median seconds of a steady epoch.
    #[allow(clippy::cast_precision_loss)]
    pub(crate) fn seconds(&self, situation: &Situation) -> f64 {
        let planted = self.planted(situation);
        let framework = situation.framework.name.as_deref().unwrap_or_default();
        let version = situation.framework.version.as_deref().unwrap_or_default();
        let compiler = situation.framework.compiler.as_deref().unwrap_or("none");
        let provenance = situation
            .framework
            .provenance
            .map_or("", Provenance::as_str);
        let device = if situation.hardware.gpus > 0 {
            "gpu"
        } else {
            "cpu"
        };
        let machine = situation
            .hardware
            .gpu_model
            .as_ref()
            .or(situation.hardware.cpu_model.as_ref());
        let machine = machine.expect("the machine has a name");
        let family = FAMILIES[planted.family];
        let compiled = format!("{framework} {compiler} {device}");
        let own = |name: &str| planted.own.get(name).copied().unwrap_or_default();
        let precision = situation.workload.precision.as_deref().unwrap_or("fp32");
        let storage = situation.storage.map_or("", StorageClass::as_str);
        let workers = if device == "gpu" {
            f64::from(situation.gpus())
        } else {
            1.0
        };
        let batch = situation.workload.batch_size.unwrap_or(64) as f64 / workers;
        let (_, _, gflops, ..) = MACHINES
            .into_iter()
            .find(|(cpu, gpu, ..)| gpu.unwrap_or(cpu) == machine)
            .expect("a machine of this world");
        let speed = if device == "gpu" {
            -3.0
        } else {
            -0.8 * (gflops / 45.0_f64).ln()
        };
        let threads = situation.hardware.threads.unwrap_or(1.0);
        let on_threads = if device == "gpu" {
            0.0
        } else {
            -0.75 * threads.ln()
        };
        let nodes = f64::from(situation.nodes.max(1));
        let beyond = if nodes > 1.0 {
            self.effect("node") + 0.06 * nodes.ln()
        } else {
            0.0
        };
        let ln = planted.level
            + (situation.workload.samples.unwrap_or(1) as f64).ln()
            + self.effect(framework)
            + self.effect(&format!("{framework} {version}"))
            + self.effect(&format!("{framework} {provenance}"))
            + self.effect(&compiled)
            + self.effect(&format!("{family} {compiled}"))
            + self.effect(machine)
            + self.effect(&format!("{precision} {device}"))
            + self.effect(storage)
            + own(framework)
            + own(&compiled)
            + own(machine)
            + (planted.batch_slope * (batch / 64.0).ln())
            + speed
            + on_threads
            + beyond
            - 0.92 * workers.ln();
        ln.exp()
    }

    /// The software that a job of this workload may choose from, everything else being equal: versions, provenances and
    /// compilers of its framework, on one of the machines.
    pub(crate) fn candidates(&self, workload: usize, machine: usize) -> Vec<Situation> {
        let planted = &self.planted[workload];
        let (name, versions, compiler) = FRAMEWORKS[planted.framework];
        let (cpu, gpu, core_gflops, node_gflops, memory) = MACHINES[machine % MACHINES.len()];
        let mut candidates = Vec::new();
        for version in &versions[1..] {
            for provenance in PROVENANCES {
                for compiler in ["none", compiler] {
                    candidates.push(Situation {
                        workload: planted.workload.clone(),
                        framework: Framework {
                            name: Some(name.to_owned()),
                            version: Some((*version).to_owned()),
                            compiler: Some(compiler.to_owned()),
                            provenance: Some(provenance),
                        },
                        image: None,
                        hardware: Hardware {
                            cpu_model: Some(cpu.to_owned()),
                            threads: Some(8.0),
                            gpu_model: gpu.map(str::to_owned),
                            gpus: u32::from(gpu.is_some()),
                            figures: Some(NodeFigures {
                                core_gflops,
                                node_gflops,
                                memory_gb_per_second: memory,
                                disk_mb_per_second: None,
                                measured_at_ms: 0,
                            }),
                            ..Hardware::default()
                        },
                        nodes: 1,
                        tasks_per_node: 1,
                        storage: Some(StorageClass::Ssd),
                        numbers: std::collections::BTreeMap::new(),
                    });
                }
            }
        }
        candidates
    }

    /// One run of a situation as it would be recorded.
    pub(crate) fn run(&mut self, situation: &Situation) -> Observation {
        let seconds = self.seconds(situation);
        let noise = self.planted(situation).noise;
        let mut measured = seconds * self.dice.normal(noise).exp();
        if self.dice.chance(self.shape.outliers) {
            measured *= self.dice.between(1.5, 4.0);
        }
        let epochs = situation.workload.epochs.unwrap_or(5);
        let overhead = self.dice.between(0.5, 1.5) + 0.2 * seconds;
        let outside = overhead + self.dice.between(8.0, 12.0);
        let between = 0.01 * measured;
        #[allow(clippy::cast_precision_loss)]
        let wall = (measured + between) * epochs as f64 + outside;
        let cut = self
            .dice
            .chance(self.shape.cut_off)
            .then(|| self.dice.between(0.1, 1.0) * measured);
        self.runs += 1;
        let mut bits = [0; 10];
        bits[2..].copy_from_slice(&self.runs.to_be_bytes());
        Observation {
            run_id: RunId::from_random(bits),
            element: 0,
            attempt: 0,
            at_ms: 1_790_000_000_000 + self.runs * 60_000,
            scheduler: SchedulerKind::Slurm,
            queue: Some("gpu".to_owned()),
            situation: situation.clone(),
            epoch_seconds: Some(cut.map_or(Length::Known(measured), Length::AtLeast)),
            epochs: if cut.is_some() {
                0
            } else {
                u32::try_from(epochs - 1).unwrap_or(u32::MAX)
            },
            between_seconds: cut.is_none().then_some(between),
            outside_seconds: cut.is_none().then_some(Length::Known(outside)),
            wall_seconds: Some(
                cut.map_or(Length::Known(wall), |cut| Length::AtLeast(cut + outside)),
            ),
            memory_bytes: Some(self.memory_bytes(situation)),
            doubts: Doubts::default(),
        }
    }

    #[allow(
        clippy::cast_precision_loss,
        clippy::cast_possible_truncation,
        clippy::cast_sign_loss
    )]
    fn memory_bytes(&mut self, situation: &Situation) -> u64 {
        let batch = situation.workload.batch_size.unwrap_or(64) as f64;
        let parameters = situation.workload.parameters.unwrap_or(1) as f64;
        let bytes = 6e8 + 16.0 * parameters + batch * 2e6;
        (bytes * self.dice.normal(0.02).exp()) as u64
    }

    /// Something that a user might run: a workload on some machine with some of its software.
    pub(crate) fn some_situation(&mut self, workload: usize) -> Situation {
        let machine = self.dice.below(MACHINES.len());
        let candidates = self.candidates(workload, machine);
        let mut situation = self.dice.pick(&candidates).clone();
        if situation.hardware.gpus == 0 {
            situation.hardware.threads = Some(*self.dice.pick(&[4.0, 8.0, 16.0]));
        } else if self.shape.many_nodes && self.dice.chance(0.4) {
            situation.hardware.gpus = *self.dice.pick(&[2, 4]);
            situation.nodes = *self.dice.pick(&[1, 1, 2, 4]);
        }
        let workers = u64::from(situation.gpus().max(1));
        situation.workload.batch_size = Some(*self.dice.pick(&[32, 64, 128]) * workers);
        if self.dice.chance(0.2) {
            situation.workload.precision = Some("bf16".to_owned());
        }
        if self.dice.chance(0.2) {
            situation.storage = Some(StorageClass::Common);
        }
        situation
    }

    /// Runs of one workload, each of some situation; now and then the last one is repeated, as users do.
    pub(crate) fn history(&mut self, workload: usize, runs: usize) -> Vec<Observation> {
        let mut history: Vec<Observation> = Vec::new();
        while history.len() < runs {
            let situation = match history.last() {
                Some(last) if self.dice.chance(0.4) => last.situation.clone(),
                _ => self.some_situation(workload),
            };
            history.push(self.run(&situation));
        }
        history
    }

    /// The same for all workloads, in the order of time.
    pub(crate) fn histories(&mut self, runs_each: usize) -> Vec<Observation> {
        (0..self.workloads())
            .flat_map(|workload| self.history(workload, runs_each))
            .collect()
    }

    /// Runs of the candidates of [`Self::candidates`], at random.
    pub(crate) fn trials(
        &mut self,
        workload: usize,
        machine: usize,
        runs: usize,
    ) -> Vec<Observation> {
        let candidates = self.candidates(workload, machine);
        (0..runs)
            .map(|_| {
                let situation = self.dice.pick(&candidates).clone();
                self.run(&situation)
            })
            .collect()
    }

    /// How much longer `chosen` takes than the best of `candidates`: 0.02 is 2 %.
    pub(crate) fn regret(&self, candidates: &[Situation], chosen: usize) -> f64 {
        let seconds: Vec<f64> = candidates
            .iter()
            .map(|candidate| self.seconds(candidate))
            .collect();
        let best = seconds.iter().copied().fold(f64::INFINITY, f64::min);
        seconds[chosen] / best - 1.0
    }
}

impl Planted {
    #[allow(
        clippy::cast_precision_loss,
        clippy::cast_possible_truncation,
        clippy::cast_sign_loss
    )]
    fn new(at: usize, shape: &Shape, dice: &mut Dice) -> Self {
        let family = at % FAMILIES.len();
        let size = SIZES[at / FAMILIES.len() % SIZES.len()];
        let data = at / (FAMILIES.len() * SIZES.len());
        let parameters = f64::from(size) * dice.between(3e5, 9e5);
        let framework = dice.below(FRAMEWORKS.len());
        let (name, _, compiler) = FRAMEWORKS[framework];
        let mut own = BTreeMap::new();
        own.insert(name.to_owned(), dice.normal(shape.own));
        for device in ["cpu", "gpu"] {
            own.insert(
                format!("{name} {compiler} {device}"),
                dice.normal(shape.own),
            );
        }
        for (cpu, gpu, ..) in MACHINES {
            own.insert(gpu.unwrap_or(cpu).to_owned(), dice.normal(shape.own));
        }
        Self {
            workload: Workload {
                model: Some(format!("{}{size}", FAMILIES[family])),
                parameters: Some(parameters as u64),
                dataset: Some(format!("data-{data}")),
                samples: Some(*dice.pick(&[10_000, 50_000, 60_000])),
                batch_size: Some(64),
                epochs: Some(5),
                precision: Some("fp32".to_owned()),
                flops_per_sample: None,
            },
            family,
            framework,
            level: -7.0 + 0.8 * (parameters / 1e7).ln() + dice.normal(0.3),
            noise: dice.between(shape.noise.0, shape.noise.1),
            batch_slope: -0.15 + dice.normal(0.05),
            own,
        }
    }
}
