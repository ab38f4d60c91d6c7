//! Run directories of trainings that never were, written through the real records: for reports and their benchmark.

use std::error::Error;
use std::fs;
use std::path::{Path, PathBuf};

use dlrun::job::{Framework, JobId, RunId, SchedulerKind, Workload};
use dlrun::record::{
    Conditions, Epoch, EpochNumbering, Event, EventKind, ExitStatus, Gap, GpuFacts, GpuReading,
    HostFacts, MeasureKey, Missing, NodeRecord, NodeState, ProcessReading, Progress, RunImage,
    RunRecord, Sample, StepTimes, StorageClass, TimeSource, WatcherCost, add_gpu_readings,
    encode_segments,
};

/// When the first training began, in Unix milliseconds.
pub(crate) const BEGIN_MS: u64 = 1_763_650_000_000;

/// A training.
#[derive(Debug, Clone)]
pub(crate) struct Trained {
    pub(crate) number: u8,
    pub(crate) name: String,
    pub(crate) nodes: u32,
    pub(crate) gpus: u64,
    pub(crate) cpus: u64,
    /// Processes that are looked at one by one.
    pub(crate) processes: u32,
    pub(crate) epochs: u32,
    /// A steady epoch, in seconds.
    pub(crate) epoch_seconds: f64,
    /// Between two samples.
    pub(crate) interval_ms: u64,
    pub(crate) batch_size: Option<u64>,
    pub(crate) gpu_name: String,
    /// Where its nodes say which boot they are of; `true`: all of the same.
    pub(crate) shares_a_machine: Option<bool>,
    /// Whether it tells its times.
    pub(crate) is_timed: bool,
    pub(crate) is_running: bool,
    /// A hole in the samples and things that happened.
    pub(crate) has_trouble: bool,
    /// Put into every text that comes from outside.
    pub(crate) hostile: String,
}

impl Trained {
    /// One node with two GPUs, some minutes.
    pub(crate) fn usual(number: u8, name: &str) -> Self {
        Self {
            number,
            name: name.to_owned(),
            nodes: 1,
            gpus: 2,
            cpus: 16,
            processes: 6,
            epochs: 12,
            epoch_seconds: 61.0,
            interval_ms: 1000,
            batch_size: Some(256),
            gpu_name: "NVIDIA H200".to_owned(),
            shares_a_machine: Some(false),
            is_timed: true,
            is_running: false,
            has_trouble: false,
            hostile: String::new(),
        }
    }

    pub(crate) fn run_id(&self) -> RunId {
        RunId::from_random([
            self.number.wrapping_mul(37),
            self.number,
            3,
            5,
            7,
            11,
            13,
            17,
            19,
            self.number,
        ])
    }

    /// When it was submitted, in seconds, as a scheduler tells it.
    pub(crate) fn job_seconds(&self) -> u64 {
        (BEGIN_MS - 95_000) / 1000
    }

    /// Start-up, then the epochs, of which the first is slow.
    fn wall_seconds(&self) -> f64 {
        STARTUP_SECONDS
            + (1..=self.epochs)
                .map(|epoch| self.seconds_of(epoch))
                .sum::<f64>()
            + 9.0
    }

    fn seconds_of(&self, epoch: u32) -> f64 {
        let noise = 0.02
            * (noise(u64::from(epoch) * 31 + u64::from(self.number), 1000) as f64 / 500.0 - 1.0);
        self.epoch_seconds * if epoch == 1 { 1.9 } else { 1.0 + noise }
    }

    /// Writes it below a state directory; returns the directory of the run.
    pub(crate) fn write(&self, state: &Path) -> Result<PathBuf, Box<dyn Error>> {
        let record = self.run_record();
        let dir = state.join("runs").join(record.run_id.as_str());
        fs::create_dir_all(dir.join("0.0"))?;
        fs::write(dir.join("run.json"), serde_json::to_vec_pretty(&record)?)?;
        let mark = |at_ms: u64, exit: &str| {
            format!(
                r#"{{"format":1,"at_ms":{at_ms},"node":"n1","job_id":"{}","exit_code":{exit}}}"#,
                self.job()
            )
        };
        fs::write(dir.join("0.0/start.json"), mark(BEGIN_MS - 500, "null"))?;
        if !self.is_running {
            fs::write(dir.join("0.0/end.json"), mark(self.end_ms() + 500, "0"))?;
        }
        for node in 1..=self.nodes {
            self.write_node(&dir, node)?;
        }
        Ok(dir)
    }

    fn job(&self) -> String {
        (4_711 + u32::from(self.number)).to_string()
    }

    fn end_ms(&self) -> u64 {
        BEGIN_MS + milliseconds(self.wall_seconds())
    }

    fn run_record(&self) -> RunRecord {
        let text = |text: &str| format!("{text}{}", self.hostile);
        RunRecord {
            format: RunRecord::FORMAT,
            run_id: self.run_id(),
            name: self.name.clone(),
            submitted_at_ms: BEGIN_MS - 95_000 + u64::from(self.number),
            user: "anna".to_owned(),
            submit_host: "login1".to_owned(),
            scheduler: SchedulerKind::Slurm,
            job_id: Some(JobId(self.job())),
            output: Some(text("/home/anna/train.out")),
            workdir: text("/home/anna/train"),
            job_file: None,
            nodes: self.nodes,
            array: None,
            parts: Vec::new(),
            framework: Framework {
                name: Some("pytorch".to_owned()),
                version: Some("2.6".to_owned()),
                ..Framework::default()
            },
            storage: None,
            image: Some(RunImage {
                source: text("/shared/images/pytorch-2.6.sif"),
                name: Some(text("pytorch-2.6")),
                digest: Some(
                    "sha256:9d2f7c41b0a85e6d3c1f4a7be8d09c52f61e3ab47d8c90125fa6b3e7d4c81a90"
                        .to_owned(),
                ),
            }),
            workload: Workload {
                model: Some(text("resnet50")),
                parameters: Some(25_557_032),
                dataset: Some("imagenet-100".to_owned()),
                samples: Some(126_689),
                batch_size: self.batch_size,
                epochs: Some(u64::from(self.epochs)),
                precision: Some("bf16".to_owned()),
                flops_per_sample: None,
            },
            tasks_per_node: None,
            queue: None,
            identity: None,
            forecast: None,
            dlrun_version: env!("CARGO_PKG_VERSION").to_owned(),
        }
    }

    fn write_node(&self, run: &Path, node: u32) -> Result<(), Box<dyn Error>> {
        let name = format!("n{node}");
        let key = MeasureKey {
            run_id: self.run_id(),
            element: 0,
            attempt: 0,
            node: name.clone(),
            step: 0,
        };
        let dir = run.join(format!("0.0/{name}.0"));
        fs::create_dir_all(&dir)?;
        let mut record =
            NodeRecord::begun(key, Some(JobId(self.job())), BEGIN_MS, self.host(&name));
        let end_ms = self.end_ms();
        record.updated_at_ms = end_ms;
        if !self.is_running {
            record.state = NodeState::Ended;
            record.ended_at_ms = Some(end_ms);
            record.exit = Some(ExitStatus::Code(0));
        }
        let machine = |shared| if shared { 1 } else { node };
        record.conditions = Conditions {
            boot_id: (self.shares_a_machine)
                .map(|shared| format!("0b3cf2a4-{:04}", machine(shared))),
            affinity: Some(format!("0-{}", self.cpus - 1)),
            cpus_effective: Some(self.cpus as f64),
            others_cpus_busy: Some(0.4),
            storage: vec![
                StorageClass {
                    of: "workdir".to_owned(),
                    class: "nfs4".to_owned(),
                },
                StorageClass {
                    of: "data".to_owned(),
                    class: "lustre".to_owned(),
                },
            ],
            ..Conditions::default()
        };
        if node == 1 && self.is_timed {
            record.progress = self.progress();
        }
        self.measure(&dir, &mut record, u64::from(node))?;
        if self.has_trouble {
            self.trouble(&mut record);
        }
        fs::write(dir.join("record.json"), serde_json::to_vec_pretty(&record)?)?;
        Ok(())
    }

    fn host(&self, name: &str) -> HostFacts {
        HostFacts {
            hostname: format!("{name}{}", self.hostile),
            cpu_model: Some(format!("AMD EPYC 9654 96-Core Processor{}", self.hostile)),
            cpus: Some(96),
            cpus_allowed: Some(self.cpus),
            mem_total_bytes: Some(768 << 30),
            kernel: Some("6.1.0-28-amd64".to_owned()),
            omp_num_threads: Some("8".to_owned()),
        }
    }

    fn progress(&self) -> Progress {
        let mut progress = Progress {
            recogniser: Some("pytorch".to_owned()),
            epochs_announced: Some(u64::from(self.epochs)),
            epoch_numbering: Some(EpochNumbering::OneBased),
            steps_per_epoch: Some(495),
            step_times: Some(StepTimes {
                source: TimeSource::Stated,
                steps: 495 * u64::from(self.epochs - 1),
                median_seconds: self.epoch_seconds / 497.0,
                p95_seconds: self.epoch_seconds / 430.0,
                data_wait_ratio: Some(0.04),
            }),
            ..Progress::default()
        };
        let mut at = STARTUP_SECONDS;
        for epoch in 1..=self.epochs {
            let seconds = self.seconds_of(epoch);
            at += seconds;
            let done = f64::from(epoch);
            let metrics = [
                ("loss", 4.1 / done.sqrt()),
                ("val_acc", 0.82 - 0.7 / (1.0 + done)),
            ];
            let mut metrics: std::collections::BTreeMap<String, f64> =
                metrics.map(|(name, value)| (name.to_owned(), value)).into();
            if !self.hostile.is_empty() {
                metrics.insert(self.hostile.clone(), 1.0);
            }
            progress.push_epoch(Epoch {
                epoch: u64::from(epoch),
                printed_seconds: Some((seconds * 1000.0).round() / 1000.0),
                clock_seconds: Some(seconds),
                ended_at_ms: Some(BEGIN_MS + milliseconds(at)),
                metrics,
                warmup: epoch == 1,
                evaluation_seconds: Some(0.04 * seconds),
                ..Epoch::default()
            });
        }
        progress
    }

    /// Writes the segments, and what follows from them into the record.
    fn measure(
        &self,
        dir: &Path,
        record: &mut NodeRecord,
        node: u64,
    ) -> Result<(), Box<dyn Error>> {
        let mut usage = record.usage;
        let (mut samples, mut gpus) = (Vec::new(), Vec::new());
        let mut sums = Sums::default();
        let ticks = milliseconds(self.wall_seconds()) / self.interval_ms;
        for tick in 0..=ticks {
            let sample = self.sample(tick, node, &mut sums);
            if self.has_trouble && self.hole().contains(&tick) {
                continue;
            }
            usage.add_sample(&sample, BEGIN_MS);
            add_gpu_readings(&mut gpus, &sample, |uuid| Some(self.gpu_facts(uuid)));
            samples.push(sample);
            if samples.len() == SEGMENT || tick == ticks {
                for bytes in encode_segments(&samples) {
                    fs::write(
                        dir.join(format!("series-{:04}.seg", record.segments)),
                        bytes,
                    )?;
                    record.segments += 1;
                }
                samples.clear();
            }
        }
        record.usage = usage;
        record.gpus = gpus;
        record.watcher = WatcherCost {
            cpu_us: 900 * ticks,
            samples: ticks + 1,
            late_ticks: 2,
        };
        Ok(())
    }

    fn hole(&self) -> std::ops::Range<u64> {
        let ticks = milliseconds(self.wall_seconds()) / self.interval_ms;
        ticks / 2..ticks / 2 + ticks / 16
    }

    fn trouble(&self, record: &mut NodeRecord) {
        let hole = self.hole();
        let at = |tick: u64| BEGIN_MS + tick * self.interval_ms;
        let why = format!("the watcher was killed{}", self.hostile);
        record.gaps = vec![Gap {
            from_ms: at(hole.start),
            to_ms: at(hole.end),
            why,
        }];
        let event = |at_ms, kind, detail: &str| Event {
            at_ms,
            kind,
            detail: format!("{detail}{}", self.hostile),
        };
        record.events = vec![
            event(
                at(3),
                EventKind::Adopted,
                "the node daemon reads the samples",
            ),
            event(
                at(hole.end + 90),
                EventKind::Xid,
                "GPU 1: XID 63, row remapping",
            ),
        ];
        let missing = |what: &str, why: &str| Missing {
            what: format!("{what}{}", self.hostile),
            why: why.to_owned(),
        };
        record.missing = vec![missing(
            "psi_io_some_us",
            "the kernel has no pressure stall information (CONFIG_PSI)",
        )];
    }

    fn gpu_facts(&self, uuid: &str) -> GpuFacts {
        GpuFacts {
            uuid: uuid.to_owned(),
            name: format!("{}{}", self.gpu_name, self.hostile),
            minor: uuid
                .rsplit('-')
                .next()
                .and_then(|number| number.parse().ok()),
            mem_total_bytes: Some(141 << 30),
            power_limit_watts: Some(700),
            sm_clock_max_mhz: Some(1980),
            driver: Some("570.86.15".to_owned()),
            ..GpuFacts::default()
        }
    }

    /// What a training does: it reads at the start, computes in the epochs, and writes at the end of each.
    fn sample(&self, tick: u64, node: u64, sums: &mut Sums) -> Sample {
        let seconds = (tick * self.interval_ms) as f64 / 1e3;
        let step = self.interval_ms as f64 / 1e3;
        let place = self.place(seconds);
        let wobble = noise(tick * 7 + node, 1000) as f64 / 1000.0;
        let (busy, read, write) = match place {
            Place::Startup => (2.0 + 6.0 * wobble, 420e6 * wobble, 0.2e6),
            Place::Training => (
                0.55 * self.cpus as f64 + 1.5 * wobble,
                95e6 + 30e6 * wobble,
                0.4e6 * wobble,
            ),
            Place::Checkpoint => (1.2 + wobble, 2e6, 380e6),
        };
        sums.user += busy * 0.93 * step * 1e6;
        sums.system += busy * 0.07 * step * 1e6;
        sums.read += read * step;
        sums.written += write * step;
        sums.waited += if matches!(place, Place::Checkpoint) {
            0.4
        } else {
            0.03 * wobble
        } * step
            * 1e6;
        let counter = |value: f64| Some(whole(value));
        let memory = (18.0 + 22.0 * (seconds / 90.0).min(1.0) + 1.5 * wobble) * 1_073_741_824.0;
        let is_costly = tick.is_multiple_of(5);
        let mut sample = Sample {
            at_ms: BEGIN_MS + tick * self.interval_ms + noise(tick, 5),
            cpu_user_us: counter(sums.user),
            cpu_system_us: counter(sums.system),
            mem_rss_bytes: counter(memory),
            mem_anon_bytes: counter(0.9 * memory),
            processes: Some(9),
            threads: Some(160 + noise(tick, 9)),
            psi_io_some_us: counter(sums.waited),
            node_net_rx_bytes: counter(1.05 * sums.read),
            node_net_tx_bytes: counter(1.05 * sums.written),
            ..Sample::default()
        };
        if is_costly {
            sample.io_read_bytes = counter(sums.read);
            sample.io_write_bytes = counter(sums.written);
            sample.mem_shmem_bytes = counter(2.0e9);
            sample.commands = (0..self.processes)
                .map(|number| self.process(number, tick))
                .collect();
        }
        sample.gpus = (0..self.gpus)
            .map(|gpu| self.gpu(gpu, tick, place, sums))
            .collect();
        sums.energy += if matches!(place, Place::Training) {
            610.0
        } else {
            120.0
        } * step
            * 1e3;
        sample
    }

    fn process(&self, number: u32, tick: u64) -> ProcessReading {
        ProcessReading {
            pid: 1000 + number,
            start_time_ticks: 7,
            name: "python3".into(),
            cpu_us: Some(tick * self.interval_ms * 400 + u64::from(number)),
            mem_rss_bytes: Some((2 << 30) + 4096 * noise(tick + u64::from(number), 900)),
            io_read_bytes: Some(tick * 5_000_000),
            io_write_bytes: Some(0),
        }
    }

    fn gpu(&self, gpu: u64, tick: u64, place: Place, sums: &Sums) -> GpuReading {
        let wobble = noise(tick * 13 + gpu, 100);
        let (busy, watts) = match place {
            Place::Startup => (wobble / 20, 110 + wobble / 4),
            Place::Training => (88 + wobble / 9, 590 + wobble),
            Place::Checkpoint => (wobble / 12, 140 + wobble / 2),
        };
        let uuid = format!("GPU-{:08x}-{gpu}", u32::from(self.number) * 7919);
        GpuReading {
            utilisation_percent: Some(busy),
            mem_utilisation_percent: Some(busy / 2),
            mem_used_bytes: Some(if matches!(place, Place::Startup) {
                3 << 30
            } else {
                (96 + gpu) << 30
            }),
            power_milliwatts: Some(watts * 1000),
            energy_millijoules: Some(whole(sums.energy) + gpu * 1000),
            temperature_celsius: Some(38 + watts / 20),
            sm_clock_mhz: Some(if busy > 50 { 1755 + wobble } else { 1980 }),
            mem_clock_mhz: Some(3201),
            run_processes: Some(1),
            ..GpuReading::of(uuid.into())
        }
    }

    fn place(&self, seconds: f64) -> Place {
        let mut left = seconds - STARTUP_SECONDS;
        if left < 0.0 {
            return Place::Startup;
        }
        for epoch in 1..=self.epochs {
            let length = self.seconds_of(epoch);
            if left < length {
                return if left > 0.93 * length {
                    Place::Checkpoint
                } else {
                    Place::Training
                };
            }
            left -= length;
        }
        Place::Checkpoint
    }
}

/// Samples of a segment.
const SEGMENT: usize = 300;
const STARTUP_SECONDS: f64 = 42.0;

#[derive(Debug, Clone, Copy)]
enum Place {
    Startup,
    Training,
    Checkpoint,
}

/// Counters on their way.
#[derive(Debug, Default)]
struct Sums {
    user: f64,
    system: f64,
    read: f64,
    written: f64,
    waited: f64,
    energy: f64,
}

/// Noise that is the same each time.
fn noise(tick: u64, limit: u64) -> u64 {
    (tick.wrapping_add(1).wrapping_mul(0x9e37_79b9_7f4a_7c15) >> 33) % limit
}

#[expect(
    clippy::cast_possible_truncation,
    clippy::cast_sign_loss,
    reason = "above 0 and far below 2^53"
)]
fn whole(value: f64) -> u64 {
    value as u64
}

fn milliseconds(seconds: f64) -> u64 {
    whole(seconds * 1e3)
}
