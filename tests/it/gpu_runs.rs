//! Runs on GPUs, watched by `dlrun exec` alone and by `dlrund`: the same figures either way.

use std::fs;

use dlrun::observe::protocol::{Request, Response};
use dlrun::record::{GpuUsage, NodeRecord, Sample, decode_segment};

use crate::support::{Dlrund, FakeNvml, RawClient, TestEnv, wait_for};

const GIB: u64 = 1 << 30;
/// Waits for the file `stop`; its pid is in the file `pid`.
const TRAINS: &str = "echo $$ >pid; while [ ! -e stop ]; do sleep 0.1; done";

/// Two GPUs: on the first runs process `pid`, on both one of somebody else.
fn state(pid: &str) -> String {
    let gpu = |uuid: &str, minor: u32| {
        format!(
            "gpu {uuid}\nname NVIDIA A100\nminor {minor}\nmig 0\nmemory {} {} {}\nutilisation 55 20\npower 300000\n\
             temperature 61\nclocks 1380 1215\nthrottle 4\nfield 83 5000\nprocess 1 {GIB}\n",
            40 * GIB,
            3 * GIB,
            GIB / 2
        )
    };
    let own = if pid.is_empty() {
        String::new()
    } else {
        format!("process {pid} {}\nuse {pid} 33\n", 2 * GIB)
    };
    format!("{}{own}{}", gpu("GPU-0", 0), gpu("GPU-1", 1))
}

fn env(fake: &FakeNvml) -> TestEnv {
    let mut env = TestEnv::new();
    env.set("DLRUN_MONITOR__INTERVAL_MS", "100");
    env.set("DLRUN_MONITOR__PROCESS_INTERVAL_MS", "200");
    env.set("DLRUN_MONITOR__RECORD_SECONDS", "1");
    env.set("DLRUN_MONITOR__NVML_LIBRARY", fake.library());
    env.set("CUDA_VISIBLE_DEVICES", "0,1");
    env
}

fn files(env: &TestEnv, run: &str) -> Vec<std::path::PathBuf> {
    let node = fs::read_dir(env.run_dir(run).join("0.0"))
        .into_iter()
        .flatten()
        .flatten();
    let node = node.map(|entry| entry.path()).find(|path| path.is_dir());
    let entries = node
        .into_iter()
        .flat_map(|node| fs::read_dir(node).into_iter().flatten().flatten());
    let mut files: Vec<_> = entries.map(|entry| entry.path()).collect();
    files.sort();
    files
}

fn record(env: &TestEnv, run: &str) -> Option<NodeRecord> {
    let path = files(env, run)
        .into_iter()
        .find(|path| path.ends_with("record.json"))?;
    serde_json::from_slice(&fs::read(path).ok()?).ok()
}

fn series(env: &TestEnv, run: &str) -> Vec<Sample> {
    let segments = files(env, run)
        .into_iter()
        .filter(|path| path.to_string_lossy().ends_with(".seg"));
    segments
        .flat_map(|path| decode_segment(&fs::read(path).expect("a file")).expect("a segment"))
        .collect()
}

/// Runs a training to its end, once its process is on the first GPU and was seen there.
fn trained(env: &TestEnv, fake: &FakeNvml, seen: impl Fn(&str) -> bool) -> String {
    let run = env.submit(&env.job(TRAINS, ""));
    let pid = env.wait_pid("pid");
    fake.set(&state(&pid.to_string()));
    wait_for("its process to be seen on the GPU", || seen(&run));
    env.write("stop", "");
    env.wait_state(&run, "completed");
    run
}

fn is_on_gpu(record: Option<NodeRecord>) -> bool {
    record.is_some_and(|record| {
        record
            .gpus
            .iter()
            .any(|gpu| gpu.mem_peak_bytes >= Some(2 * GIB) && gpu.readings > 3)
    })
}

fn assert_gpus(gpus: &[GpuUsage], samples: &[Sample]) {
    let told: Vec<_> = gpus
        .iter()
        .map(|gpu| (gpu.gpu.uuid.as_str(), gpu.gpu.name.as_str()))
        .collect();
    assert_eq!(told, [("GPU-0", "NVIDIA A100"), ("GPU-1", "NVIDIA A100")]);
    assert_eq!(
        (gpus[0].utilisation_mean_percent, gpus[0].power_mean_watts),
        (Some(55.0), Some(300.0))
    );
    // Nobody of the run is on the second: allocated and idle.
    assert!(gpus[1].idle_seconds > 0.0, "{:?}", gpus[1]);
    let of = |uuid: &str, processes| {
        let readings = samples.iter().flat_map(|sample| &sample.gpus);
        readings
            .filter(|gpu| *gpu.uuid == *uuid && gpu.run_processes == Some(processes))
            .count()
    };
    assert!(of("GPU-0", 1) > 0, "the run's process was never counted");
    assert_eq!(
        (of("GPU-1", 1), of("GPU-0", 2)),
        (0, 0),
        "somebody else's process was counted"
    );
    let own = samples
        .iter()
        .flat_map(|sample| &sample.gpus)
        .find(|gpu| gpu.run_processes == Some(1));
    let own = own.map(|gpu| {
        (
            gpu.run_mem_bytes,
            gpu.energy_millijoules,
            gpu.temperature_celsius,
            gpu.throttle_reasons,
        )
    });
    assert_eq!(own, Some((Some(2 * GIB), Some(5000), Some(61), Some(4))));
}

#[test]
fn without_the_daemon_the_watcher_reads_gpus() {
    let fake = FakeNvml::new(&state(""));
    let env = env(&fake);
    let run = trained(&env, &fake, |run| is_on_gpu(record(&env, run)));
    let record = record(&env, &run).expect("a record");
    assert_gpus(&record.gpus, &series(&env, &run));
    assert!(
        record.missing.iter().all(|missing| missing.what != "gpus"),
        "{:?}",
        record.missing
    );
}

#[test]
fn with_the_daemon_the_series_is_the_same() {
    let fake = FakeNvml::new(&state(""));
    let env = env(&fake);
    let more = format!(
        "[gpu]\nlibrary = {:?}\ninterval_ms = 100",
        fake.library().display().to_string()
    );
    let daemon = Dlrund::start(&env, &more);
    let run = trained(&env, &fake, |_| {
        let mut client = RawClient::greeted(&daemon);
        match client.ask(&Request::Runs(
            dlrun::observe::protocol::RunsQuery::default(),
        )) {
            Some(Response::Runs(runs)) => runs.runs.iter().any(|view| {
                view.gpus
                    .iter()
                    .any(|gpu| gpu.mem_peak_bytes >= Some(2 * GIB) && gpu.readings > 3)
                    && view
                        .sample
                        .iter()
                        .flat_map(|sample| &sample.gpus)
                        .any(|gpu| gpu.run_processes == Some(1))
            }),
            _ => false,
        }
    });
    let record = record(&env, &run).expect("a record");
    assert!(
        record
            .events
            .iter()
            .any(|event| event.kind.as_str() == "adopted"),
        "{:?}",
        record.events
    );
    assert_gpus(&record.gpus, &series(&env, &run));
}

#[test]
fn gpu_that_hangs_costs_readings_of_gpus_alone() {
    let fake = FakeNvml::new(&state(""));
    let env = env(&fake);
    let more = format!(
        "[gpu]\nlibrary = {:?}\ninterval_ms = 100\ndeadline_ms = 200",
        fake.library().display().to_string()
    );
    let daemon = Dlrund::start(&env, &more);
    let run = env.submit(&env.job(TRAINS, ""));
    let pid = env.wait_pid("pid").to_string();
    fake.set(&state(&pid));
    let view = || match RawClient::greeted(&daemon).ask(&Request::Runs(
        dlrun::observe::protocol::RunsQuery::default(),
    )) {
        Some(Response::Runs(runs)) => runs.runs.into_iter().next(),
        other => panic!("{other:?}"),
    };
    let has = |uuid: &str| {
        view().is_some_and(|view| {
            view.sample
                .is_some_and(|sample| sample.gpus.iter().any(|gpu| *gpu.uuid == *uuid))
        })
    };
    wait_for("both GPUs", || has("GPU-0") && has("GPU-1"));
    let hanging = state(&pid).replace("gpu GPU-1\n", "gpu GPU-1\nhang *\n");
    fake.set(&hanging);
    wait_for("the hanging GPU to be left out", || !has("GPU-1"));
    let before = view().and_then(|view| view.sample).expect("a sample").at_ms;
    wait_for("five more ticks", || {
        view()
            .and_then(|view| view.sample)
            .is_some_and(|sample| sample.at_ms >= before + 500)
    });
    fake.set(&state(&pid));
    env.write("stop", "");
    env.wait_state(&run, "completed");
    let record = record(&env, &run).expect("a record");
    assert!(
        record
            .events
            .iter()
            .any(|event| event.kind.as_str() == "gpu_stale"),
        "{:?}",
        record.events
    );
    let times: Vec<u64> = series(&env, &run)
        .iter()
        .map(|sample| sample.at_ms)
        .collect();
    let longest = times
        .windows(2)
        .map(|pair| pair[1].saturating_sub(pair[0]))
        .max();
    assert!(longest < Some(1000), "{longest:?}");
}
