//! Fitting a model on many runs, reading it, and asking it.

use std::error::Error;
use std::process::ExitCode;
use std::time::Instant;

use dlrun::job::{Framework, Provenance, RunId, SchedulerKind, StorageClass, Workload};
use dlrun::learn::model::{
    Doubts, Hardware, Length, Likely, Model, Observation, Priors, Situation,
};
use dlrun::record::NodeFigures;

use crate::Effort;
use crate::measure::{median, number, run};
use crate::report::Row;

/// The part of this program that makes runs and may fit them: a process of its own, so that its memory is its own.
pub(crate) const VERB: &str = "--model-runs";

const RUNS: usize = 100_000;
const WORKLOADS: usize = 200;
const CANDIDATES: usize = 1_000;
/// Kinds of nodes that a job may get: as many as a plan holds apart.
const KINDS: usize = 6;

/// Runs, one after the other, as a store would give them; all figures of all of them differ.
struct Runs {
    at: usize,
    count: usize,
    workloads: usize,
    dice: u64,
}

impl Runs {
    fn new(count: usize, workloads: usize) -> Self {
        Self {
            at: 0,
            count,
            workloads,
            dice: 1,
        }
    }

    fn below(&mut self, count: usize) -> usize {
        // A linear congruential generator of Knuth's; the upper bits are good enough for this.
        self.dice = self
            .dice
            .wrapping_mul(6_364_136_223_846_793_005)
            .wrapping_add(1_442_695_040_888_963_407);
        usize::try_from(self.dice >> 33).unwrap_or(0) % count
    }

    fn of<T: Copy>(&mut self, from: &[T]) -> T {
        from[self.below(from.len())]
    }
}

impl Iterator for Runs {
    type Item = Observation;

    fn next(&mut self) -> Option<Observation> {
        if self.at == self.count {
            return None;
        }
        self.at += 1;
        let workload = self.below(self.workloads);
        let situation = situation(self, workload);
        let noise = 1.0 + f64::from(u32::try_from(self.below(1000)).unwrap_or(0)) * 1e-4;
        let threads = situation.hardware.threads.unwrap_or(8.0);
        let slow = if situation.framework.compiler.as_deref() == Some("xla") {
            1.3
        } else {
            1.0
        };
        let seconds = noise * slow * (10.0 + f64::from(u32::try_from(workload).unwrap_or(0)))
            / threads.powf(0.7);
        let mut bits = [0; 10];
        bits[2..].copy_from_slice(&self.at.to_be_bytes());
        Some(Observation {
            run_id: RunId::from_random(bits),
            element: 0,
            attempt: 0,
            at_ms: 1_790_000_000_000 + u64::try_from(self.at).unwrap_or(0),
            scheduler: SchedulerKind::Slurm,
            queue: Some("batch".to_owned()),
            situation,
            epoch_seconds: Some(if self.at.is_multiple_of(50) {
                Length::AtLeast(seconds / 2.0)
            } else {
                Length::Known(seconds)
            }),
            epochs: 9,
            between_seconds: None,
            outside_seconds: Some(Length::Known(22.0 * noise)),
            wall_seconds: Some(Length::Known(10.0 * seconds + 22.0)),
            memory_bytes: Some(2_000_000_000 + u64::try_from(self.at).unwrap_or(0)),
            doubts: Doubts {
                others_busy: self.at.is_multiple_of(40),
                ..Doubts::default()
            },
        })
    }
}

fn situation(dice: &mut Runs, workload: usize) -> Situation {
    let gpus = dice.of(&[0, 0, 1, 2, 4]);
    let (framework, versions) = dice.of(&[
        ("tensorflow", ["2.11.0", "2.16.1"]),
        ("pytorch", ["2.1.2", "2.4.0"]),
        ("jax", ["0.4.30", "0.5.0"]),
    ]);
    let figures = NodeFigures {
        core_gflops: 45.0,
        node_gflops: 2_500.0,
        memory_gb_per_second: 190.0,
        disk_mb_per_second: None,
        measured_at_ms: 0,
    };
    Situation {
        workload: Workload {
            model: Some(format!(
                "{}{workload}",
                ["resnet", "vgg", "bert", "unet"][workload % 4]
            )),
            parameters: Some(1_000_000 + u64::try_from(workload).unwrap_or(0)),
            dataset: Some("imagenet".to_owned()),
            samples: Some(1_281_167),
            batch_size: Some(dice.of(&[32, 64, 96, 128, 256])),
            epochs: Some(dice.of(&[3, 10, 90])),
            precision: Some(dice.of(&["fp32", "bf16"]).to_owned()),
            flops_per_sample: None,
        },
        framework: Framework {
            name: Some(framework.to_owned()),
            version: Some(dice.of(&versions).to_owned()),
            compiler: Some(dice.of(&["none", "xla"]).to_owned()),
            provenance: Some(dice.of(&[Provenance::Hub, Provenance::Pip, Provenance::Source])),
        },
        image: Some(format!("sha256:{:064x}", dice.below(20))),
        hardware: Hardware {
            cpu_model: Some(
                dice.of(&["EPYC 7742", "Xeon 8480+", "Xeon Gold 6132"])
                    .to_owned(),
            ),
            threads: Some(dice.of(&[4.0, 8.0, 16.0, 32.0])),
            gpu_model: (gpus > 0).then(|| dice.of(&["A100", "H100"]).to_owned()),
            gpus,
            figures: Some(figures),
            ..Hardware::default()
        },
        nodes: if gpus == 4 { dice.of(&[1, 2, 4]) } else { 1 },
        tasks_per_node: 1,
        storage: Some(dice.of(&[StorageClass::Common, StorageClass::Ssd])),
        numbers: std::collections::BTreeMap::new(),
    }
}

/// `--model-runs COUNT WORKLOADS make|fit`.
pub(crate) fn run_verb(arguments: &[String]) -> ExitCode {
    let count = |at: usize| {
        arguments
            .get(at)
            .and_then(|text| text.parse().ok())
            .unwrap_or(RUNS)
    };
    let runs = Runs::new(count(0), count(1));
    let done = match arguments.get(2).map(String::as_str) {
        Some("fit") => {
            Model::fit(runs, &Priors::built_in()).is_ok_and(|model| !model.to_bytes().is_empty())
        }
        _ => runs.map(|run| run.epochs).sum::<u32>() > 0,
    };
    if done {
        ExitCode::SUCCESS
    } else {
        ExitCode::FAILURE
    }
}

pub(crate) fn rows(effort: Effort) -> Result<Vec<Row>, Box<dyn Error>> {
    let mut rows = Vec::new();
    for (workloads, what) in [
        (WORKLOADS, "100,000 runs of 200 workloads"),
        (10_000, "100,000 runs of 10,000 workloads"),
    ] {
        let (mut seconds, mut bytes) = (Vec::new(), Vec::new());
        for _ in 0..effort.of(3, 9) {
            let process = |verb: &str| {
                let mut command =
                    crate::measure::quiet(&std::env::current_exe()?.to_string_lossy());
                command.args([VERB, &RUNS.to_string(), &workloads.to_string(), verb]);
                run(&mut command)
            };
            let (made, fitted) = (process("make")?, process("fit")?);
            seconds.push((fitted.wall.saturating_sub(made.wall)).as_secs_f64());
            bytes.push(number(usize::try_from(fitted.rss_bytes)?) / 1e6);
        }
        rows.push(
            Row::budget(
                "model",
                &format!("{what}: fitted in"),
                median(seconds),
                "s",
                1.0,
            )
            .detailed("beyond the making of the runs; five responses, model written"),
        );
        rows.push(Row::budget(
            "model",
            &format!("{what}: peak memory"),
            median(bytes),
            "MB",
            200.0,
        ));
    }
    let model = Model::fit(Runs::new(RUNS, WORKLOADS), &Priors::built_in())?;
    let bytes = model.to_bytes();
    let mut dice = Runs::new(RUNS, WORKLOADS);
    let one: Vec<Situation> = (0..CANDIDATES).map(|_| situation(&mut dice, 7)).collect();
    let many: Vec<Situation> = (0..CANDIDATES)
        .map(|at| situation(&mut dice, at % WORKLOADS))
        .collect();
    let kinds: Vec<Likely> = (0..KINDS)
        .map(|at| Likely {
            hardware: situation(&mut dice, at).hardware,
            share: 1.0 / number(KINDS),
        })
        .collect();
    let (mut loads, mut asked, mut mixed) = (Vec::new(), Vec::new(), Vec::new());
    let mut anywhere = Vec::new();
    for _ in 0..effort.of(11, 51) {
        let begun = Instant::now();
        let read = Model::from_bytes(&bytes)?;
        loads.push(begun.elapsed().as_secs_f64() * 1e3);
        let begun = Instant::now();
        let forecasts = read.forecasts(&one);
        asked.push(begun.elapsed().as_secs_f64() * 1e3);
        let begun = Instant::now();
        let others = read.forecasts(&many);
        mixed.push(begun.elapsed().as_secs_f64() * 1e3);
        let begun = Instant::now();
        let on_kinds = read.forecasts_on(&one, &kinds);
        anywhere.push(begun.elapsed().as_secs_f64() * 1e3);
        if forecasts.len() + others.len() + on_kinds.len() != 3 * CANDIDATES {
            return Err("a forecast is missing".into());
        }
    }
    rows.push(Row::budget(
        "model",
        "1,000 candidates of a job",
        median(asked),
        "ms",
        10.0,
    ));
    let on_kinds = format!("the same on {KINDS} kinds of nodes, for each");
    rows.push(Row::budget(
        "model",
        &on_kinds,
        median(anywhere) / number(KINDS),
        "ms",
        10.0,
    ));
    rows.push(Row::figure(
        "model",
        "1,000 candidates of 200 workloads in turn",
        median(mixed),
        "ms",
    ));
    rows.push(
        Row::figure("model", "read from bytes", median(loads), "ms")
            .detailed(format!("{:.1} MB", number(bytes.len()) / 1e6)),
    );
    Ok(rows)
}
