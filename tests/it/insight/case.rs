//! Imagined runs: records and samples as the watcher leaves them.

use dlrun::job::{Framework, JobState, Launcher, RunId, SchedulerKind, Workload};
use dlrun::record::{
    Columns, Epoch, GpuFacts, GpuReading, HostFacts, MeasureKey, NodeRecord, NodeState, Progress,
    RunRecord, Sample, Status, add_gpu_readings, decode_columns, encode_segments,
};
use dlrun::report::insight::{Insight, NodeView, Request, RunView, SampleBins, derive};

pub(super) const BEGIN_MS: u64 = 1_763_650_000_000;
pub(super) const GIB: u64 = 1 << 30;

/// What a node did all the time.
#[derive(Debug, Clone)]
pub(super) struct Load {
    pub(super) cpus: f64,
    pub(super) memory: u64,
    /// Memory at the end, where it grows evenly.
    pub(super) memory_at_end: Option<u64>,
    /// How busy each GPU is, in percent; `None`: no process of the run is on it.
    pub(super) gpus: Vec<Option<u64>>,
    pub(super) io_wait: Option<f64>,
    pub(super) read_bytes_per_second: u64,
    pub(super) throttled: f64,
    /// The most that the cgroup held, by the kernel.
    pub(super) kernel_peak: Option<u64>,
}

impl Load {
    pub(super) fn new(cpus: f64, memory: u64) -> Self {
        Self {
            cpus,
            memory,
            memory_at_end: None,
            gpus: Vec::new(),
            io_wait: Some(0.0),
            read_bytes_per_second: 1000,
            throttled: 0.0,
            kernel_peak: None,
        }
    }

    pub(super) fn gpus(self, gpus: &[Option<u64>]) -> Self {
        Self {
            gpus: gpus.to_vec(),
            ..self
        }
    }

    #[expect(
        clippy::cast_possible_truncation,
        clippy::cast_sign_loss,
        clippy::cast_precision_loss
    )]
    fn sample(&self, second: u64, of: u64) -> Sample {
        let us = |cpus: f64| Some((cpus * second as f64 * 1e6) as u64);
        let grown = |from: u64, to: u64| from + (to - from) * second / of.max(1);
        let gpu = |(number, busy): (usize, &Option<u64>)| GpuReading {
            utilisation_percent: Some(busy.unwrap_or(0)),
            run_processes: Some(u64::from(busy.is_some())),
            mem_used_bytes: Some(if busy.is_some() { 60 * GIB } else { 0 }),
            power_milliwatts: Some(100_000 + busy.unwrap_or(0) * 5000),
            energy_millijoules: Some(7 + second * (100_000 + busy.unwrap_or(0) * 5000)),
            sm_clock_mhz: Some(1980),
            throttle_reasons: Some(0),
            ..GpuReading::of(format!("GPU-{number}").into())
        };
        let is_costly = second.is_multiple_of(5);
        Sample {
            at_ms: BEGIN_MS + second * 1000,
            cpu_user_us: us(self.cpus * 0.9),
            cpu_system_us: us(self.cpus * 0.1),
            mem_rss_bytes: Some(grown(
                self.memory,
                self.memory_at_end.unwrap_or(self.memory),
            )),
            mem_peak_bytes: self.kernel_peak,
            io_read_bytes: is_costly.then_some(second * self.read_bytes_per_second),
            io_write_bytes: is_costly.then_some(0),
            processes: Some(1),
            psi_io_some_us: self.io_wait.and_then(us),
            cpu_throttled_us: us(self.throttled),
            gpus: self.gpus.iter().enumerate().map(gpu).collect(),
            ..Sample::default()
        }
    }
}

/// One run.
pub(super) struct Case {
    pub(super) run: RunRecord,
    pub(super) status: Status,
    pub(super) request: Option<Request>,
    pub(super) nodes: Vec<(NodeRecord, Vec<Sample>)>,
}

pub(super) fn request() -> Request {
    Request {
        scheduler: SchedulerKind::Slurm,
        nodes: 1,
        tasks_per_node: 1,
        launcher: Launcher::Each,
        cpus_per_task: Some(8),
        gpus_per_node: None,
        gpus_per_task: None,
        memory_bytes: Some(64 * GIB),
        memory_per_cpu_bytes: None,
        walltime_seconds: None,
        queue: None,
        queue_walltime_seconds: None,
        storage: None,
        exclusive: false,
        is_array: false,
    }
}

pub(super) fn run_record() -> RunRecord {
    RunRecord {
        format: RunRecord::FORMAT,
        run_id: RunId::from_random([7; 10]),
        name: "case".into(),
        submitted_at_ms: BEGIN_MS - 60_000,
        user: "anna".into(),
        submit_host: "login1".into(),
        scheduler: SchedulerKind::Slurm,
        job_id: None,
        output: None,
        workdir: "/home/anna".into(),
        job_file: None,
        nodes: 1,
        array: None,
        parts: Vec::new(),
        framework: Framework::default(),
        storage: None,
        image: None,
        workload: Workload {
            samples: Some(60_000),
            ..Workload::default()
        },
        tasks_per_node: None,
        queue: None,
        identity: None,
        forecast: None,
        dlrun_version: "0.1.0".into(),
    }
}

/// What is left of `seconds` of this load on a node, with an epoch every minute after a first one of 90 s.
pub(super) fn node(name: &str, seconds: u64, load: &Load) -> (NodeRecord, Vec<Sample>) {
    let samples: Vec<Sample> = (0..=seconds)
        .map(|second| load.sample(second, seconds))
        .collect();
    let key = MeasureKey {
        run_id: RunId::from_random([7; 10]),
        element: 0,
        attempt: 0,
        node: name.into(),
        step: 0,
    };
    let host = HostFacts {
        cpu_model: Some("EPYC".into()),
        cpus: Some(32),
        cpus_allowed: Some(8),
        mem_total_bytes: Some(128 * GIB),
        ..HostFacts::default()
    };
    let mut record = NodeRecord::begun(key, None, BEGIN_MS, host);
    for sample in &samples {
        record.usage.add_sample(sample, BEGIN_MS);
        add_gpu_readings(&mut record.gpus, sample, |uuid| {
            Some(GpuFacts {
                uuid: uuid.into(),
                name: "NVIDIA H200".into(),
                mem_total_bytes: Some(140 * GIB),
                ..GpuFacts::default()
            })
        });
    }
    record.state = NodeState::Ended;
    record.ended_at_ms = Some(BEGIN_MS + seconds * 1000);
    record.segments = 1;
    record.progress = progress(seconds);
    (record, samples)
}

fn progress(seconds: u64) -> Progress {
    let mut progress = Progress {
        recogniser: Some("keras".into()),
        epochs_announced: Some(100),
        ..Progress::default()
    };
    let mut end = 90;
    for epoch in 1.. {
        if end > seconds {
            break;
        }
        let took = if epoch == 1 { 90.5 } else { 60.5 };
        progress.push_epoch(Epoch {
            epoch,
            printed_seconds: Some(took),
            ended_at_ms: Some(BEGIN_MS + end * 1000),
            warmup: epoch == 1,
            ..Epoch::default()
        });
        end += 60;
    }
    progress
}

impl Case {
    /// A run on one node that completed.
    pub(super) fn new(seconds: u64, load: &Load) -> Self {
        let status = Status {
            started_at_ms: Some(BEGIN_MS),
            ended_at_ms: Some(BEGIN_MS + seconds * 1000),
            ..Status::of(JobState::Completed)
        };
        Self {
            run: run_record(),
            status,
            request: Some(request()),
            nodes: vec![node("n1", seconds, load)],
        }
    }

    pub(super) fn asking(mut self, change: impl FnOnce(&mut Request)) -> Self {
        change(self.request.as_mut().expect("a request"));
        self
    }

    pub(super) fn state(mut self, state: JobState) -> Self {
        self.status.state = state;
        self
    }

    pub(super) fn record(&mut self) -> &mut NodeRecord {
        &mut self.nodes[0].0
    }

    /// The samples written and read as segments are.
    pub(super) fn insight(&self) -> Insight {
        let nodes = self.nodes.iter().map(|(record, samples)| {
            let mut digest = SampleBins::new(record);
            for chunk in samples.chunks(300) {
                for bytes in encode_segments(chunk) {
                    let wanted = SampleBins::wants;
                    let block: Columns = decode_columns(&bytes, wanted).expect("a segment");
                    let rows = 0..block.at_ms.len();
                    digest.take(&[block], rows.map(|row| (0, row)));
                }
            }
            NodeView {
                record,
                sampled: (!samples.is_empty()).then(|| digest.finish()),
            }
        });
        let nodes = nodes.collect();
        derive(&RunView {
            run: &self.run,
            status: &self.status,
            request: self.request.as_ref(),
            nodes,
        })
    }
}
