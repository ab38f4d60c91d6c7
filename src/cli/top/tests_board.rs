//! A node with three runs, for the tests of this module.

use super::board::Board;
use super::feed::Picture;
use crate::job::{JobId, RunId};
use crate::observe::protocol::RunView;
use crate::record::{
    Event, EventKind, GpuFacts, GpuReading, GpuUsage, Held, MeasureKey, Progress, Sample, StepMark,
    Usage,
};

/// When the board was made.
const NOW_MS: u64 = 1_763_650_000_000;

/// A run id of one letter.
fn run_id(letter: &str) -> RunId {
    letter.repeat(16).parse().expect("an id")
}

/// A run of user 1000.
pub(super) fn view(letter: &str, sample: Sample) -> RunView {
    let key = MeasureKey {
        run_id: run_id(letter),
        element: 0,
        attempt: 0,
        node: "node01".into(),
        step: 0,
    };
    RunView {
        key,
        name: "mnist-cnn".into(),
        job_id: Some(JobId("4711".into())),
        uid: 1000,
        started_at_ms: NOW_MS - 245_000,
        sample: Some(sample),
        usage: Usage::default(),
        gpus: Vec::new(),
        progress: Progress::default(),
        events: Vec::new(),
        processes_at_ms: None,
    }
}

/// A reading of a GPU.
pub(super) fn gpu(uuid: &str, percent: u64, processes: u64) -> GpuReading {
    GpuReading {
        utilisation_percent: Some(percent),
        mem_used_bytes: Some((1 + percent) << 30),
        power_milliwatts: Some(100_000 + 5000 * percent),
        temperature_celsius: Some(41),
        sm_clock_mhz: Some(1980),
        run_processes: Some(processes),
        ..GpuReading::of(uuid.into())
    }
}

fn facts(uuid: &str, minor: u32) -> GpuUsage {
    GpuUsage::of(GpuFacts {
        uuid: uuid.into(),
        name: "NVIDIA H200".into(),
        minor: Some(minor),
        mem_total_bytes: Some(140 << 30),
        ..GpuFacts::default()
    })
}

/// A run on CPUs, after `tick` seconds.
fn mnist(tick: u64) -> RunView {
    let sample = Sample {
        at_ms: NOW_MS + 1000 * tick,
        cpu_user_us: Some(900_000 * tick),
        cpu_system_us: Some(100_000 * tick),
        mem_rss_bytes: Some(512 << 20),
        io_read_bytes: Some(0),
        io_write_bytes: Some(4096 * tick),
        processes: Some(2),
        threads: Some(9),
        ..Sample::default()
    };
    let progress = Progress {
        epochs_announced: Some(10),
        epochs_completed: 4,
        last_step: Some(StepMark {
            epoch: Some(5),
            step: Some(120),
            of: Some(235),
        }),
        step_seconds: Some(0.0125),
        last_metrics: [("loss".to_owned(), 0.1234)].into(),
        ..Progress::default()
    };
    RunView {
        progress,
        ..view("a", sample)
    }
}

/// A run on three GPUs, one of them idle and one lost.
fn resnet(tick: u64) -> RunView {
    let sample = Sample {
        at_ms: NOW_MS + 1000 * tick,
        cpu_user_us: Some(7_000_000 * tick),
        cpu_system_us: Some(500_000 * tick),
        mem_rss_bytes: Some(20 << 30),
        mem_anon_bytes: Some(18 << 30),
        mem_shmem_bytes: Some(3 << 30),
        mem_file_bytes: Some(5 << 30),
        mem_peak_bytes: Some(30 << 30),
        io_read_bytes: Some((20 << 20) * tick),
        io_write_bytes: Some(0),
        processes: Some(17),
        threads: Some(170),
        cpu_throttled_us: Some(250_000 * tick),
        mem_oom_kills: Some(1),
        psi_cpu_some_us: Some(300_000 * tick),
        psi_mem_some_us: Some(0),
        psi_io_some_us: Some(20_000 * tick),
        gpus: vec![gpu("GPU-a", 90 - tick, 2), gpu("GPU-b", 0, 0)],
        ..Sample::default()
    };
    let held = Held {
        gpu_seconds: 1380.0,
        since_ms: Some(NOW_MS - 1_380_000),
        gpus: [("GPU-b".into(), NOW_MS - 1_380_000)].into(),
        ..Held::default()
    };
    let progress = Progress {
        held: Some(held),

        epochs_announced: Some(90),
        epochs_completed: 3,
        ..Progress::default()
    };
    let oom = Event {
        at_ms: NOW_MS - 30_000,
        kind: EventKind::OomKill,
        detail: "1 process was killed".into(),
    };
    RunView {
        name: "resnet".into(),
        job_id: Some(JobId("4712_3".into())),
        uid: 1001,
        started_at_ms: NOW_MS - 12_005_000,
        usage: Usage {
            mem_peak_bytes: Some(21 << 30),
            io_read_bytes: Some(7 << 30),
            ..Usage::default()
        },
        gpus: vec![facts("GPU-a", 0), facts("GPU-b", 1), facts("GPU-c", 2)],
        progress,
        events: vec![oom],
        ..view("b", sample)
    }
}

/// A run that does nothing, seldom read, with a name that would drive a terminal.
fn idle(tick: u64) -> RunView {
    let sample = Sample {
        at_ms: NOW_MS + 1000 * tick,
        cpu_user_us: Some(5),
        cpu_system_us: Some(5),
        mem_rss_bytes: Some(0),
        ..Sample::default()
    };
    RunView {
        name: "idle".into(),
        job_id: None,
        started_at_ms: NOW_MS - 5000,
        ..view("c", sample)
    }
}

/// The node after so many seconds.
pub(super) fn picture(tick: u64) -> Picture {
    let user = |uid| if uid == 1000 { "ann" } else { "bob" }.to_owned();
    let mut runs: Vec<RunView> = vec![mnist(tick), resnet(tick), idle(tick)];
    runs.iter_mut()
        .for_each(|run| run.started_at_ms -= u64::from(run.name == "mnist-cnn") * 86_400_000);
    Picture {
        host: "node01".into(),
        at_ms: NOW_MS + 1000 * tick,
        runs: runs
            .into_iter()
            .map(|run| (run.clone(), user(run.uid)))
            .collect(),
        hidden: 0,
        all_users: false,
    }
}

/// The board after forty seconds.
pub(super) fn board() -> Board {
    let mut board = Board::default();
    for tick in 0..=40 {
        board.take(picture(tick));
    }
    board
}

/// The names in the order of the screen.
pub(super) fn names(board: &Board) -> Vec<&str> {
    board
        .runs
        .iter()
        .map(|run| run.view.name.as_str())
        .collect()
}
