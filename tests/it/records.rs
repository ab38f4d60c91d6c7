//! Records to test with.

use dlrun::job::{JobId, RunId, SchedulerKind, Workload};
use dlrun::record::{
    AttemptEnd, AttemptRecord, Basis, Checkpoint, ContainerRecord, ContainerRuntime, Epoch,
    FlagReason, Forecast, HostFacts, Interval, MeasureKey, Next, NodeRecord, NodeState, Progress,
    RunImage, RunRecord, Sentinel, Usage, Verdict, WatcherCost,
};

/// The run id that ends in `number`.
pub(crate) fn run_id(number: u32) -> RunId {
    let mut bits = [0; 10];
    bits[6..].copy_from_slice(&number.to_be_bytes());
    RunId::from_random(bits)
}

/// A run id whose letters are spread, as random ones are.
pub(crate) fn spread_id(number: u32) -> RunId {
    // SplitMix64, an output function of good spread.
    let mut mixed = u64::from(number).wrapping_mul(0x9e37_79b9_7f4a_7c15);
    mixed = (mixed ^ (mixed >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    let bytes = (u128::from(mixed ^ (mixed >> 31)) << 64).to_be_bytes();
    RunId::from_random(std::array::from_fn(|i| bytes[i]))
}

pub(crate) fn run(run_id: RunId, name: &str, submitted_at_ms: u64) -> RunRecord {
    RunRecord {
        format: RunRecord::FORMAT,
        run_id,
        name: name.to_owned(),
        submitted_at_ms,
        user: "ada".to_owned(),
        submit_host: "login1".to_owned(),
        scheduler: SchedulerKind::Slurm,
        job_id: None,
        output: Some("/home/ada/out".to_owned()),
        workdir: "/home/ada".to_owned(),
        job_file: Some("/home/ada/train.toml".to_owned()),
        nodes: 2,
        array: None,
        parts: Vec::new(),
        framework: dlrun::job::Framework::default(),
        storage: None,
        image: None,
        workload: Workload {
            model: Some("resnet50".to_owned()),
            epochs: Some(3),
            ..Workload::default()
        },
        tasks_per_node: None,
        queue: None,
        identity: None,
        forecast: None,
        dlrun_version: "0.1.0".to_owned(),
    }
}

pub(crate) fn node(run_id: RunId, node: &str, updated_at_ms: u64) -> NodeRecord {
    let epoch = |epoch, seconds| Epoch {
        epoch,
        printed_seconds: Some(seconds),
        ..Epoch::default()
    };
    let mut progress = Progress {
        recogniser: Some("keras".to_owned()),
        ..Progress::default()
    };
    progress.push_epoch(epoch(1, 2.5));
    progress.push_epoch(epoch(2, 1.25));
    progress.epochs[1].metrics.insert("loss".to_owned(), 0.5);
    NodeRecord {
        format: NodeRecord::FORMAT,
        last_words: Vec::new(),
        key: MeasureKey {
            run_id,
            element: 0,
            attempt: 0,
            node: node.to_owned(),
            step: 0,
        },
        job_id: Some(JobId("4711".to_owned())),
        state: NodeState::Running,
        started_at_ms: 1_000,
        ended_at_ms: None,
        updated_at_ms,
        exit: None,
        output: None,
        host: HostFacts {
            hostname: node.to_owned(),
            cpu_model: Some("EPYC 7742".to_owned()),
            cpus: Some(128),
            ..HostFacts::default()
        },
        conditions: dlrun::record::Conditions::default(),
        usage: Usage {
            wall_seconds: Some(5.0),
            mem_peak_bytes: Some(1 << 30),
            ..Usage::default()
        },
        progress,
        segments: 1,
        gaps: vec![],
        missing: vec![],
        watcher: WatcherCost::default(),
        cgroup: None,
        container: None,
        trial: None,
        gpus: Vec::new(),
        ranks: Vec::new(),
        time_stop: None,
        events: Vec::new(),
    }
}

pub(crate) fn mark(at_ms: u64, exit_code: Option<i32>) -> Sentinel {
    let job_id = Some(JobId("4711".to_owned()));
    Sentinel {
        format: 1,
        at_ms,
        uptime_ms: None,
        node: "n1".to_owned(),
        job_id,
        exit_code,
        refused: None,
    }
}

/// What a job noted of a start whose time was up.
pub(crate) fn attempt(resumes: bool) -> AttemptRecord {
    let checkpoint = |number: u64| Checkpoint {
        path: format!("/home/ada/ckpt/{number}.pt"),
        modified_ms: number,
        bytes: 7,
    };
    AttemptRecord {
        hosts: Some("n[1-4]".into()),
        format: AttemptRecord::FORMAT,
        found: Some(checkpoint(1)),
        from: resumes.then(|| checkpoint(1).path),
        nodes: Some(1),
        scale_asked_at_ms: None,
        end: Some(AttemptEnd {
            lost_nodes: vec!["n4".into()],
            kept_nodes: Vec::new(),
            verdict: Verdict::Timeout,
            evidence: "its time was nearly up".to_owned(),
            next: Next::Requeue,
            why: "start 2 of 50".to_owned(),
            at_ms: 4_100,
            job_id: None,
            checkpoint: Some(checkpoint(2)),
            advanced: true,
            save_seconds: Some(1.5),
            node_hours: 0.25,
        }),
    }
}

/// How a command got into a container that has no GPU.
pub(crate) fn container() -> ContainerRecord {
    let image = RunImage {
        source: "/shared/images/tf.sif".to_owned(),
        name: None,
        digest: None,
    };
    let runtime = ContainerRuntime {
        path: "/usr/bin/apptainer".to_owned(),
        product: Some("apptainer".to_owned()),
        version: Some("1.4.5".to_owned()),
    };
    ContainerRecord {
        image,
        identity: None,
        runtime: Some(runtime),
        words: ["exec", "--nv", "/shared/images/tf.sif"]
            .map(str::to_owned)
            .to_vec(),
        flags: vec![FlagReason {
            flag: "--nv".to_owned(),
            why: "GPUs are granted".to_owned(),
        }],
        warnings: Vec::new(),
        unasked: None,
        gpu_missing: Some("there is no /dev/nvidiactl".to_owned()),
        failure: None,
    }
}

/// A forecast of an epoch's time, by seven runs of the workload, without anything else.
pub(crate) fn forecast(epoch_seconds: Interval) -> Forecast {
    Forecast {
        model: "m".to_owned(),
        basis: Basis::Workload,
        runs: 7,
        doubtful: 0,
        doubts: Vec::new(),
        epoch_seconds: Some(epoch_seconds),
        first_extra_seconds: None,
        between_seconds: None,
        outside_seconds: None,
        total_seconds: None,
        memory_bytes: None,
        shift: None,
        beyond: Vec::new(),
        assumed: Vec::new(),
        alternatives: 0,
        explored: false,
    }
}
