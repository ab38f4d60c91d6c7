//! The messages between dlrun and dlrund, held to files: `tests/fixtures/protocol/v1/`, one for each variant.
//!
//! A missing file is written with `NEW_FIXTURES=1`; one that is there is never changed.

use std::collections::BTreeSet;
use std::fs;
use std::path::PathBuf;

use dlrun::job::{JobId, RunId, SchedulerKind, Workload};
use dlrun::observe::protocol::{
    DaemonCost, DaemonStatus, Ending, GapHint, Hello, Measured, PROTOCOL, Process, RefusalKind,
    Registered, Registration, Request, Response, RunView, Runs, RunsQuery, Segment, StoreStatus,
    encode,
};
use dlrun::record::{
    Epoch, Event, EventKind, ExitStatus, Gap, GpuFacts, GpuPlace, GpuReading, GpuUsage, HostFacts,
    MAX_SEGMENT_BYTES, MeasureKey, Missing, NodeRecord, NodeState, ProcessReading, Progress,
    RunRecord, Sample, Scope, StepMark, Throughput, Usage, WatcherCost,
};
use serde::Serialize;
use serde::de::DeserializeOwned;
use serde_json::Value;

fn dir() -> PathBuf {
    PathBuf::from(env!("CARGO_MANIFEST_DIR")).join(format!("tests/fixtures/protocol/v{PROTOCOL}"))
}

fn key() -> MeasureKey {
    let run_id: RunId = "0123456789abcdef".parse().expect("an id");
    MeasureKey {
        run_id,
        element: 3,
        attempt: 1,
        node: "n1.cluster".to_owned(),
        step: 2,
    }
}

fn usage() -> Usage {
    Usage {
        wall_seconds: Some(60.5),
        cpu_user_seconds: Some(101.25),
        cpu_system_seconds: Some(2.5),
        mem_peak_bytes: Some(6_200_123_392),
        io_read_bytes: Some(1_290_829_824),
        io_write_bytes: Some(40_960),
        processes_peak: Some(17),
        cpu_throttled_seconds: Some(0.5),
        mem_oom_kills: Some(0),
    }
}

fn facts() -> GpuFacts {
    GpuFacts {
        uuid: "GPU-4e7b".to_owned(),
        name: "NVIDIA H200".to_owned(),
        minor: Some(0),
        pci_bus_id: Some("00000000:19:00.0".to_owned()),
        mem_total_bytes: Some(150_754_820_096),
        power_limit_watts: Some(700),
        sm_clock_max_mhz: Some(1980),
        mig: Some(false),
        parent: None,
        driver: Some("570.86.15".to_owned()),
        place: GpuPlace::default(),
    }
}

fn reading(energy: u64) -> GpuReading {
    GpuReading {
        utilisation_percent: Some(93),
        mem_used_bytes: Some(70_000_000_000),
        power_milliwatts: Some(512_000),
        energy_millijoules: Some(energy),
        temperature_celsius: Some(61),
        run_processes: Some(1),
        ..GpuReading::of("GPU-4e7b".into())
    }
}

fn gpus() -> Vec<GpuUsage> {
    let mut gpu = GpuUsage::of(facts());
    gpu.add(&reading(1_000), 1_760_000_000_000);
    gpu.add(&reading(513_000), 1_760_000_001_000);
    vec![gpu]
}

fn sample() -> Sample {
    Sample {
        at_ms: 1_760_000_001_000,
        cpu_user_us: Some(730_000),
        mem_rss_bytes: Some(6_200_123_392),
        processes: Some(17),
        gpus: vec![reading(513_000)],
        commands: vec![ProcessReading {
            pid: 4711,
            start_time_ticks: 815,
            name: "python3".into(),
            cpu_us: Some(700_000),
            ..ProcessReading::default()
        }],
        ..Sample::default()
    }
}

/// Encoding is free to become better, so these bytes are of no sample of today: they only travel.
fn segment() -> Vec<u8> {
    b"dlrs\x02 and further bytes \xff".to_vec()
}

fn progress() -> Progress {
    let metrics = [("loss".to_owned(), 0.25)].into();
    let epoch = Epoch {
        epoch: 1,
        printed_seconds: Some(29.5),
        clock_seconds: Some(29.75),
        ended_at_ms: Some(1_760_000_030_000),
        metrics,
        ..Epoch::default()
    };
    Progress {
        recogniser: Some("keras".to_owned()),
        epochs_announced: Some(3),
        epochs_completed: 1,
        last_metrics: epoch.metrics.clone(),
        epochs: vec![epoch],
        steps_per_epoch: Some(1875),
        last_step: Some(StepMark {
            epoch: Some(2),
            step: Some(7),
            of: Some(1875),
        }),
        step_seconds: Some(0.015),
        throughput: Some(Throughput {
            value: 4096.5,
            unit: "samples/s".to_owned(),
            scope: Scope::Unknown,
        }),
        ..Progress::default()
    }
}

fn event() -> Event {
    Event {
        at_ms: 1_760_000_000_500,
        kind: EventKind::Adopted,
        detail: "by dlrund 0.1.0".to_owned(),
    }
}

fn gap() -> Gap {
    Gap {
        from_ms: 1_760_000_002_000,
        to_ms: 1_760_000_009_000,
        why: "dlrund was down".to_owned(),
    }
}

fn missing() -> Missing {
    Missing {
        what: "io_read_bytes".to_owned(),
        why: "no permission".to_owned(),
    }
}

fn record() -> NodeRecord {
    NodeRecord {
        format: NodeRecord::FORMAT,
        last_words: Vec::new(),
        key: key(),
        job_id: Some(JobId("4711".to_owned())),
        state: NodeState::Ended,
        started_at_ms: 1_760_000_000_000,
        ended_at_ms: Some(1_760_000_060_500),
        updated_at_ms: 1_760_000_060_600,
        exit: Some(ExitStatus::Code(0)),
        output: Some("/home/u/job-4711.out".to_owned()),
        host: HostFacts {
            hostname: "n1".to_owned(),
            cpu_model: Some("EPYC".to_owned()),
            cpus: Some(64),
            cpus_allowed: Some(8),
            mem_total_bytes: Some(270_000_000_000),
            kernel: Some("6.1.0".to_owned()),
            omp_num_threads: Some("8".to_owned()),
        },
        conditions: dlrun::record::Conditions::default(),
        usage: usage(),
        progress: progress(),
        segments: 4,
        gaps: vec![gap()],
        missing: vec![missing()],
        watcher: WatcherCost {
            cpu_us: 50_000,
            samples: 60,
            late_ticks: 1,
        },
        cgroup: Some("/slurm/uid_1000/job_4711".to_owned()),
        container: None,
        trial: None,
        ranks: Vec::new(),
        time_stop: None,
        gpus: gpus(),
        events: vec![event()],
    }
}

fn run() -> RunRecord {
    RunRecord {
        format: RunRecord::FORMAT,
        run_id: key().run_id,
        name: "resnet50".to_owned(),
        submitted_at_ms: 1_759_999_000_000,
        user: "u".to_owned(),
        submit_host: "login1".to_owned(),
        scheduler: SchedulerKind::Slurm,
        job_id: Some(JobId("4711".to_owned())),
        output: Some("/home/u/job-4711.out".to_owned()),
        workdir: "/home/u".to_owned(),
        job_file: Some("/home/u/job.toml".to_owned()),
        nodes: 2,
        array: None,
        parts: Vec::new(),
        framework: dlrun::job::Framework::default(),
        storage: None,
        image: None,
        workload: Workload::default(),
        tasks_per_node: None,
        queue: None,
        identity: None,
        forecast: None,
        dlrun_version: "0.1.0".to_owned(),
    }
}

fn hello() -> Hello {
    Hello {
        protocol: 1,
        version: "0.1.0".to_owned(),
    }
}

fn requests() -> Vec<Request> {
    vec![
        Request::Hello(hello()),
        Request::Register(Box::new(Registration {
            run: run(),
            record: record(),
            command: Process {
                pid: 4711,
                start_time_ticks: 815,
            },
            gpus: vec!["GPU-4e7b".to_owned()],
            gap: Some(GapHint {
                lost_at_ms: 1_760_000_002_000,
            }),
            booted_at_ms: None,
        })),
        Request::Update {
            record: Box::new(record()),
        },
        Request::Backfill { bytes: segment() },
        Request::Collect {
            acknowledged: Some(7),
        },
        Request::End(Box::new(Ending {
            record: record(),
            cpu_user_us: 101_250_000,
            cpu_system_us: 2_500_000,
        })),
        Request::Runs(RunsQuery {
            skip: 100,
            processes: true,
        }),
        Request::Status,
    ]
}

fn responses() -> Vec<Response> {
    let measured = Measured {
        usage: usage(),
        gaps: vec![gap()],
        missing: vec![missing()],
        events: vec![event()],
        gpus: gpus(),
        cgroup: record().cgroup,
        samples: 60,
        late_ticks: 1,
        cpu_us: 20_000,
    };
    vec![
        Response::Hello(hello()),
        Response::Registered(Registered {
            interval_ms: 1000,
            resumed: true,
            acknowledged: Some(7),
            cgroup: record().cgroup,
        }),
        Response::Measured(Box::new(measured)),
        Response::Segment(Segment {
            through: Some(8),
            bytes: segment(),
            more: true,
        }),
        Response::Runs(Runs {
            host: "n1".to_owned(),
            at_ms: 1_760_000_001_500,
            runs: vec![view()],
            more: true,
        }),
        Response::Status(Box::new(status())),
        Response::refused(
            RefusalKind::NotPermitted,
            "run `0123456789abcdef` belongs to another user",
        ),
    ]
}

fn view() -> RunView {
    RunView {
        key: key(),
        name: "resnet50".to_owned(),
        job_id: Some(JobId("4711".to_owned())),
        uid: 1000,
        started_at_ms: 1_760_000_000_000,
        sample: Some(sample()),
        usage: usage(),
        gpus: gpus(),
        progress: progress(),
        events: Vec::new(),
        processes_at_ms: None,
    }
}

fn status() -> DaemonStatus {
    DaemonStatus {
        version: "0.1.0".to_owned(),
        pid: 812,
        started_at_ms: 1_759_000_000_000,
        interval_ms: 1000,
        runs: 3,
        gpus: vec![facts()],
        cost: DaemonCost {
            cpu_us: 9_000_000,
            mem_rss_bytes: 12_000_000,
            ticks: 90_000,
            overruns: 2,
            last_tick_us: 800,
            longest_tick_us: 12_000,
        },
        store: StoreStatus {
            path: "/var/lib/dlrun/dlrun.db".to_owned(),
            bytes: 40_000_000,
            dropped_samples: 5,
            error: Some("no space left on device".to_owned()),
        },
        problems: vec!["no GPU library was found".to_owned()],
    }
}

/// The names of all variants, as serde tells them.
fn variants<T: DeserializeOwned>() -> BTreeSet<String> {
    let error = serde_json::from_str::<T>("{\"type\":\"?\"}")
        .err()
        .expect("there is no such variant");
    let text = error.to_string();
    let names: BTreeSet<String> = text
        .split('`')
        .skip(3)
        .step_by(2)
        .map(str::to_owned)
        .collect();
    assert!(names.len() > 5, "{text}");
    names
}

#[track_caller]
fn holds<T: Serialize + DeserializeOwned + PartialEq + std::fmt::Debug>(
    side: &str,
    messages: Vec<T>,
) {
    let mut seen = BTreeSet::new();
    for message in messages {
        let written = serde_json::to_value(&message).expect("plain data");
        let variant = written["type"].as_str().expect("a tag").to_owned();
        let path = dir().join(format!("{side}-{variant}.json"));
        if std::env::var_os("NEW_FIXTURES").is_some() && !path.exists() {
            fs::create_dir_all(dir()).expect("ours");
            fs::write(
                &path,
                serde_json::to_string_pretty(&written).expect("plain data") + "\n",
            )
            .expect("ours");
        }
        let text =
            fs::read_to_string(&path).unwrap_or_else(|error| panic!("{}: {error}", path.display()));
        let kept: Value = serde_json::from_str(&text).expect("JSON");
        assert_eq!(
            written, kept,
            "`{side}` `{variant}` has another shape than protocol {PROTOCOL}: give a new field a default and leave it out \
             where it has that value, or raise PROTOCOL and keep the old files"
        );
        let read: T = serde_json::from_str(&text).expect("today's code reads it");
        assert_eq!(read, message);
        seen.insert(variant);
    }
    assert_eq!(seen, variants::<T>(), "each variant of `{side}` has a file");
}

#[test]
fn requests_keep_their_shape() {
    holds("request", requests());
}

#[test]
fn responses_keep_their_shape() {
    holds("response", responses());
}

/// What an older side leaves out has a default.
#[test]
fn every_file_is_of_a_message_that_is_known() {
    let mut count = 0;
    for entry in fs::read_dir(dir()).expect("fixtures") {
        let path = entry.expect("an entry").path();
        let name = path
            .file_name()
            .expect("a name")
            .to_string_lossy()
            .into_owned();
        let text = fs::read_to_string(&path).expect("text");
        let read = if name.starts_with("request-") {
            serde_json::from_str::<Request>(&text).map(drop)
        } else {
            serde_json::from_str::<Response>(&text).map(drop)
        };
        assert!(read.is_ok(), "{name}: {read:?}");
        count += 1;
    }
    assert_eq!(count, requests().len() + responses().len());
}

#[test]
fn the_largest_segment_fits_a_message() {
    let bytes = vec![0xff; MAX_SEGMENT_BYTES];
    let segment = Segment {
        through: Some(u32::MAX),
        bytes: bytes.clone(),
        more: false,
    };
    assert!(encode(&Response::Segment(segment)).is_ok());
    assert!(encode(&Request::Backfill { bytes }).is_ok());
}

#[test]
fn the_page_names_every_message_and_limit() {
    let page =
        fs::read_to_string(PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("docs/protocol.md"));
    let page = page.expect("docs/protocol.md");
    for name in variants::<Request>()
        .into_iter()
        .chain(variants::<Response>())
    {
        assert!(
            page.contains(&format!("`{name}`")),
            "docs/protocol.md lacks `{name}`"
        );
    }
    for message in requests()
        .iter()
        .map(serde_json::to_value)
        .chain(responses().iter().map(serde_json::to_value))
    {
        let Value::Object(fields) = message.expect("plain data") else {
            panic!("an object")
        };
        for field in fields.keys().filter(|field| *field != "type") {
            assert!(
                page.contains(&format!("`{field}`")),
                "docs/protocol.md lacks `{field}`"
            );
        }
    }
    assert!(page.contains(&format!("Version {PROTOCOL}")));
}
