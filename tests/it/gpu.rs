//! GPUs, as the fake library of `tests/fakes/nvml.rs` shows them.

use std::fmt::Write as _;
use std::path::Path;
use std::time::{Duration, Instant};

use dlrun::observe::monitor::{
    GpuCondition, GpuError, GpuReader, GpuReport, GpuState, GpuWatch, Nvml, WatchPace,
    allocated_gpus,
};
use dlrun::record::{EventKind, GpuFacts, GpuPlace, GpuReading, GpuUsage};

use crate::support::{FakeNvml, wait_for, wait_for_some};

const GIB: u64 = 1 << 30;

/// A GPU that has every value.
fn gpu(uuid: &str, minor: u32) -> String {
    format!(
        "gpu {uuid}
         name NVIDIA A100-SXM4-40GB
         minor {minor}
         pci 00000000:0{minor}:00.0
         mig 0
         power_limit 400000
         clock_max 1410
         nvlinks 11 12
         memory {} {} {}
         utilisation 55 20
         power 301500
         energy 700
         temperature 61
         clocks 1380 1215
         throttle 4
         field 83 5000{minor}
         field 197 1000
         field 198 2000
         field 138 30 4294967295
         field 139 40 4294967295
         field 138 1 0
         field 3 7
         field 4 1
        ",
        40 * GIB,
        3 * GIB,
        GIB / 2
    )
}

/// Fast enough for tests; everything that a test waits for is polled.
fn quick() -> WatchPace {
    WatchPace {
        interval: Duration::from_millis(100),
        deadline: Duration::from_millis(500),
    }
}

fn watch(fake: &FakeNvml) -> GpuWatch {
    GpuWatch::nvidia(Some(fake.library()), quick())
}

fn read(fake: &FakeNvml, uuid: &str) -> GpuReading {
    fake.open()
        .expect("it loads")
        .read(uuid)
        .expect("it answers")
        .reading
}

fn state_of<'a>(report: &'a GpuReport, uuid: &str) -> &'a GpuState {
    report
        .gpus
        .iter()
        .find(|gpu| gpu.facts.uuid == uuid)
        .unwrap_or_else(|| panic!("no {uuid}: {report:?}"))
}

/// Waits until a GPU is in a condition.
#[track_caller]
fn wait_condition(watch: &GpuWatch, uuid: &str, holds: impl Fn(&GpuState) -> bool) -> GpuState {
    wait_for_some(uuid, || {
        watch
            .latest()
            .gpus
            .into_iter()
            .find(|gpu| gpu.facts.uuid == uuid && holds(gpu))
    })
}

fn is_fresh(gpu: &GpuState) -> bool {
    gpu.condition == GpuCondition::Fresh
}

/// Waits until a GPU was read again, later than now.
#[track_caller]
fn wait_new_reading(watch: &GpuWatch, uuid: &str) {
    let before = state_of(&watch.latest(), uuid).at_ms;
    wait_condition(watch, uuid, |gpu| is_fresh(gpu) && gpu.at_ms > before);
}

/// What happened to a GPU. On a busy machine the others may be late too.
fn kinds_of(watch: &GpuWatch, uuid: &str) -> Vec<EventKind> {
    let of_it = watch
        .take_events()
        .into_iter()
        .filter(|(of, _)| of.as_deref() == Some(uuid));
    of_it.map(|(_, event)| event.kind).collect()
}

#[test]
fn two_gpus_show_all_that_they_are_and_do() {
    let fake = FakeNvml::new(&format!(
        "log\n{}{}process 7 {GIB}\nuse 7 33\n",
        gpu("GPU-0", 0),
        gpu("GPU-1", 1)
    ));
    let nvml = fake.open().expect("it loads");
    let devices = nvml.devices();
    let facts = GpuFacts {
        uuid: "GPU-1".into(),
        name: "NVIDIA A100-SXM4-40GB".into(),
        minor: Some(1),
        pci_bus_id: Some("00000000:01:00.0".into()),
        mem_total_bytes: Some(40 * GIB),
        power_limit_watts: Some(400),
        sm_clock_max_mhz: Some(1410),
        mig: Some(false),
        parent: None,
        driver: Some("550.54.15".into()),
        // Where it lies is asked of this machine.
        place: GpuPlace {
            nvlinks: Some(11),
            ..devices[1].place.clone()
        },
    };
    assert_eq!((devices.len(), &*devices[1]), (2, &facts));
    let second = wait_for_some("events to be registered", || {
        Some(nvml.read("GPU-1").expect("it answers"))
            .filter(|read| read.reading.xid_errors.is_some())
    });
    let expected = GpuReading {
        utilisation_percent: Some(55),
        mem_utilisation_percent: Some(20),
        mem_used_bytes: Some(3 * GIB),
        power_milliwatts: Some(301_500),
        energy_millijoules: Some(50_001),
        temperature_celsius: Some(61),
        sm_clock_mhz: Some(1380),
        mem_clock_mhz: Some(1215),
        throttle_reasons: Some(4),
        pcie_tx_bytes: Some(1000),
        pcie_rx_bytes: Some(2000),
        nvlink_tx_bytes: Some(30 * 1024),
        nvlink_rx_bytes: Some(40 * 1024),
        ecc_corrected: Some(7),
        ecc_uncorrected: Some(1),
        xid_errors: Some(0),
        ..GpuReading::of("GPU-1".into())
    };
    assert_eq!(second.reading, expected);
    let processes = second.processes.expect("they are told");
    assert_eq!((processes.len(), processes[0].pid), (1, 7));
    assert_eq!(
        (processes[0].mem_bytes, processes[0].sm_percent),
        (Some(GIB), Some(33))
    );
    assert_eq!(
        nvml.read("GPU-0").expect("it answers").processes,
        Some(vec![])
    );
    assert_eq!(nvml.read("GPU-9"), Err(GpuError::NotFound));
    let calls = fake.calls();
    assert!(
        calls
            .iter()
            .any(|call| call == "nvmlDeviceGetFieldValues GPU-1"),
        "{calls:?}"
    );
    assert!(
        !calls.iter().any(|call| call.contains("PcieThroughput")),
        "it takes 20 ms"
    );
}

#[test]
fn what_is_not_supported_is_absent_and_not_asked_every_time() {
    let fake = FakeNvml::new("log\ngpu GPU-0\nmemory 100 40 10\n");
    let nvml = fake.open().expect("it loads");
    let readings = [1, 2, 3].map(|_| nvml.read("GPU-0").expect("it has its memory").reading);
    for reading in readings {
        let only_memory = GpuReading {
            mem_used_bytes: Some(40),
            xid_errors: reading.xid_errors,
            ..GpuReading::of("GPU-0".into())
        };
        assert_eq!(reading, only_memory);
    }
    let asked = |symbol: &str| {
        fake.calls()
            .iter()
            .filter(|call| call.starts_with(symbol))
            .count()
    };
    assert_eq!(
        (
            asked("nvmlDeviceGetPowerUsage"),
            asked("nvmlDeviceGetUtilizationRates")
        ),
        (1, 1)
    );
}

#[test]
fn a_divided_gpu_has_slices_and_their_use_is_absent_not_zero() {
    let slices = format!(
        "slice MIG-a 3\nname NVIDIA A100 MIG 1g.5gb\nmemory {} {GIB} 0\nprocess 7 {GIB}\nutilisation 0 0\nuse 7 0
         slice MIG-b 4\nmemory {} 0 0\n",
        5 * GIB,
        5 * GIB
    );
    let parent = gpu("GPU-0", 0).replace("mig 0", "mig 1") + "process 7 1\n";
    let fake = FakeNvml::new(&(parent + &slices + &gpu("GPU-1", 1)));
    let nvml = fake.open().expect("it loads");
    let devices = nvml.devices();
    let names: Vec<_> = devices
        .iter()
        .map(|gpu| (gpu.uuid.as_str(), gpu.parent.as_deref(), gpu.mig))
        .collect();
    assert_eq!(
        names,
        [
            ("GPU-0", None, Some(true)),
            ("MIG-a", Some("GPU-0"), None),
            ("MIG-b", Some("GPU-0"), None),
            ("GPU-1", None, Some(false))
        ]
    );
    assert_eq!(
        (devices[1].mem_total_bytes, devices[1].power_limit_watts),
        (Some(5 * GIB), None)
    );
    let slice = nvml.read("MIG-a").expect("it answers");
    let only_memory = GpuReading {
        mem_used_bytes: Some(GIB),
        ..GpuReading::of("MIG-a".into())
    };
    assert_eq!(slice.reading, only_memory);
    let processes = slice.processes.expect("a slice has them");
    assert_eq!((processes[0].pid, processes[0].sm_percent), (7, None));
    let parent = nvml.read("GPU-0").expect("it answers");
    assert_eq!(
        (
            parent.reading.utilisation_percent,
            parent.reading.power_milliwatts
        ),
        (None, Some(301_500))
    );
    assert_eq!(parent.processes, None);
    assert_eq!(
        allocated_gpus(|_| Some("MIG-b".into()), &devices),
        Some(vec!["MIG-b".into()])
    );
}

#[test]
fn gpm_tells_the_use_of_hopper_and_of_its_slices() {
    let hopper = gpu("GPU-0", 0) + "gpm 61.5 40.25 33.333 12\n";
    let divided = gpu("GPU-1", 1).replace("mig 0", "mig 1")
        + "slice MIG-a 5\nmemory 10 1 0\ngpm 25 nan 0 -\n";
    let fake = FakeNvml::new(&(hopper + &divided));
    let nvml = fake.open().expect("it loads");
    let gpm = |uuid: &str| {
        let reading = nvml.read(uuid).expect("it answers").reading;
        let [sm, occupancy] = [
            reading.gpm_sm_basis_points,
            reading.gpm_occupancy_basis_points,
        ];
        (
            sm,
            occupancy,
            reading.gpm_tensor_basis_points,
            reading.gpm_dram_basis_points,
        )
    };
    assert_eq!(
        (gpm("GPU-0"), gpm("MIG-a")),
        ((None, None, None, None), (None, None, None, None))
    );
    let told = wait_for_some("two samples to be far enough apart", || {
        Some(gpm("GPU-0")).filter(|told| told.0.is_some())
    });
    assert_eq!(told, (Some(6150), Some(4025), Some(3333), Some(1200)));
    let told = wait_for_some("those of the slice", || {
        Some(gpm("MIG-a")).filter(|told| told.0.is_some())
    });
    assert_eq!(told, (Some(2500), None, Some(0), None));
    assert_eq!(gpm("GPU-1"), (None, None, None, None));
}

#[test]
fn fields_are_told_apart_by_their_place_with_either_numbering() {
    for driver in ["550.54.15", "580.95.05"] {
        let reading = read(
            &FakeNvml::new(&format!("driver {driver}\n{}", gpu("GPU-0", 0))),
            "GPU-0",
        );
        let energy_and_pcie = (
            reading.energy_millijoules,
            reading.pcie_tx_bytes,
            reading.pcie_rx_bytes,
        );
        assert_eq!(
            energy_and_pcie,
            (Some(50_000), Some(1000), Some(2000)),
            "{driver}"
        );
    }
    let newer = gpu("GPU-0", 0)
        .replace("field 138", "field 202")
        .replace("field 139", "field 204");
    let reading = read(&FakeNvml::new(&newer), "GPU-0");
    assert_eq!(
        (reading.nvlink_tx_bytes, reading.nvlink_rx_bytes),
        (Some(30), Some(40)),
        "bytes, not KiB"
    );
}

#[test]
fn without_library_or_driver_there_is_a_reason() {
    let missing = |watch: GpuWatch| {
        wait_for_some("a reason", || {
            watch
                .latest()
                .missing
                .filter(|reason| !reason.contains("has not answered yet"))
        })
    };
    let nowhere = GpuWatch::nvidia(Some("/nonexistent/libnvidia-ml.so.1".into()), quick());
    let reason = missing(nowhere);
    assert!(
        reason.starts_with("the library `/nonexistent/libnvidia-ml.so.1` cannot be loaded:"),
        "{reason}"
    );
    let fake = FakeNvml::new("return nvmlInit_v2 9\n");
    assert_eq!(missing(watch(&fake)), "the GPU driver is not loaded");
    let fake = FakeNvml::new("return nvmlInit_v2 18\n");
    assert!(missing(watch(&fake)).contains("mismatch"));
    assert_eq!(
        missing(watch(&FakeNvml::new(""))),
        "the GPU driver shows no GPU that this user may read"
    );
    let no_such = Nvml::open(Some(Path::new("/proc/self/exe"))).expect_err("it is no library");
    assert!(matches!(no_such, GpuError::NoLibrary { .. }), "{no_such:?}");
}

#[test]
fn a_driver_that_is_loaded_later_is_found() {
    let fake = FakeNvml::new("return nvmlInit_v2 9\n");
    let watch = watch(&fake);
    wait_for("the reason", || {
        watch
            .latest()
            .missing
            .is_some_and(|reason| reason.contains("not loaded"))
    });
    fake.set(&gpu("GPU-0", 0));
    wait_condition(&watch, "GPU-0", is_fresh);
    assert_eq!(watch.latest().missing, None);
}

#[test]
fn a_gpu_of_somebody_else_is_left_out() {
    let foreign = gpu("GPU-0", 0) + "return nvmlDeviceGetHandleByIndex_v2 4\n";
    let fake = FakeNvml::new(&format!("log\n{foreign}{}", gpu("GPU-1", 1)));
    let nvml = fake.open().expect("it loads");
    assert_eq!(
        nvml.devices()
            .iter()
            .map(|gpu| gpu.uuid.as_str())
            .collect::<Vec<_>>(),
        ["GPU-1"]
    );
    assert_eq!(
        nvml.read("GPU-1")
            .expect("it answers")
            .reading
            .power_milliwatts,
        Some(301_500)
    );
    assert!(
        fake.calls()
            .iter()
            .all(|call| call == "nvmlDeviceGetHandleByIndex_v2 GPU-0" || !call.ends_with("GPU-0"))
    );
}

#[test]
fn gpu_whose_handle_is_refused_is_named() {
    let refused = |code: u32| {
        let text = format!(
            "{}{}return nvmlDeviceGetHandleByIndex_v2 {code}\n",
            gpu("GPU-0", 0),
            gpu("GPU-1", 1)
        );
        let fake = FakeNvml::new(&text);
        let watch = watch(&fake);
        wait_condition(&watch, "GPU-0", is_fresh);
        let report = watch.latest();
        let told = watch
            .take_events()
            .into_iter()
            .map(|(_, event)| event.detail)
            .collect::<Vec<_>>();
        (report.refused, report.forbidden, told)
    };
    let words = vec!["GPU 1 cannot be read: the GPU is lost".to_owned()];
    assert_eq!(refused(15), (words.clone(), 0, words));
    // Another job's: no permission.
    assert_eq!(refused(4), (Vec::new(), 1, Vec::new()));
}

#[test]
fn values_without_permission_are_absent() {
    let fake =
        FakeNvml::new(&(gpu("GPU-0", 0) + "return nvmlDeviceGetComputeRunningProcesses_v3 4\n"));
    let read = fake
        .open()
        .expect("it loads")
        .read("GPU-0")
        .expect("it answers");
    assert_eq!(
        (read.processes, read.reading.power_milliwatts),
        (None, Some(301_500))
    );
}

#[test]
fn processes_that_appear_between_two_calls_are_all_seen() {
    let mut state = gpu("GPU-0", 0) + "hidden 5\n";
    for pid in 1..=60 {
        let _ = writeln!(
            state,
            "process {pid} {}",
            if pid == 60 { "-" } else { "10" }
        );
    }
    let read = FakeNvml::new(&state)
        .open()
        .expect("it loads")
        .read("GPU-0")
        .expect("it answers");
    let processes = read.processes.expect("they are told");
    assert_eq!(processes.len(), 60);
    assert_eq!(
        (processes[0].mem_bytes, processes[59].mem_bytes),
        (Some(10), None)
    );
}

#[test]
fn a_lost_gpu_is_left_alone_until_the_driver_was_opened_anew() {
    let (lost, other) = (gpu("GPU-0", 0), gpu("GPU-1", 1));
    let fake = FakeNvml::new(&format!("{lost}{other}"));
    let watch = watch(&fake);
    wait_condition(&watch, "GPU-0", is_fresh);
    fake.set(&format!("log\n{lost}return * 15\n{other}"));
    let gone = wait_condition(&watch, "GPU-0", |gpu| {
        matches!(gpu.condition, GpuCondition::Lost { .. })
    });
    assert!(
        gone.fresh().is_none() && gone.last.is_some(),
        "its last reading is kept, as an old one"
    );
    wait_new_reading(&watch, "GPU-1");
    wait_for("the driver to be opened anew", || {
        fake.calls()
            .iter()
            .any(|call| call == "nvmlDeviceGetHandleByIndex_v2 GPU-0")
    });
    wait_new_reading(&watch, "GPU-1");
    assert!(matches!(
        state_of(&watch.latest(), "GPU-0").condition,
        GpuCondition::Lost { .. }
    ));
    let readings = fake
        .calls()
        .iter()
        .filter(|call| *call == "nvmlDeviceGetMemoryInfo_v2 GPU-0")
        .count();
    assert_eq!(readings, 1, "the one that told that it is lost");
    fake.set(&format!("{lost}{other}"));
    wait_condition(&watch, "GPU-0", is_fresh);
    assert_eq!(
        kinds_of(&watch, "GPU-0"),
        [EventKind::GpuLost, EventKind::GpuBack]
    );
}

#[test]
fn xid_errors_are_told_and_79_is_a_lost_gpu() {
    let both = gpu("GPU-0", 0) + &gpu("GPU-1", 1);
    let fake = FakeNvml::new(&format!("event 1 GPU-0 31\n{both}"));
    let watch = watch(&fake);
    let errors = |gpu: &GpuState| gpu.fresh().and_then(|read| read.reading.xid_errors);
    wait_condition(&watch, "GPU-0", |gpu| errors(gpu) == Some(0));
    fake.set(&format!("event 1 GPU-0 31\nevent 2 GPU-0 48\n{both}"));
    wait_condition(&watch, "GPU-0", |gpu| errors(gpu) == Some(1));
    fake.set(&format!("event 2 GPU-0 48\nevent 3 GPU-0 79\n{both}"));
    wait_condition(&watch, "GPU-0", |gpu| {
        matches!(gpu.condition, GpuCondition::Lost { .. })
    });
    wait_new_reading(&watch, "GPU-1");
    let told: Vec<(EventKind, String)> = watch
        .take_events()
        .into_iter()
        .map(|(_, event)| (event.kind, event.detail))
        .collect();
    let xids: Vec<&str> = told
        .iter()
        .filter(|(kind, _)| *kind == EventKind::Xid)
        .map(|(_, detail)| detail.as_str())
        .collect();
    assert_eq!(xids, ["XID 48", "XID 79"]);
    assert!(
        told.iter().any(|(kind, _)| *kind == EventKind::GpuLost),
        "{told:?}"
    );
}

/// The longest that `latest` may take on a busy machine. A driver that hangs would hold it for as long as it hangs.
const AT_ONCE: Duration = Duration::from_millis(250);

#[test]
fn call_that_hangs_does_not_stop_the_caller() {
    let (stuck, other) = (gpu("GPU-0", 0), gpu("GPU-1", 1));
    let fake = FakeNvml::new(&format!("{stuck}{other}"));
    let watch = watch(&fake);
    wait_condition(&watch, "GPU-1", is_fresh);
    fake.set(&format!(
        "log\n{stuck}hang nvmlDeviceGetPowerUsage\n{other}"
    ));
    let mut longest = Duration::ZERO;
    wait_for("the GPUs to be stale", || {
        let begun = Instant::now();
        let report = watch.latest();
        longest = longest.max(begun.elapsed());
        let is_stale = |gpu: &GpuState| matches!(gpu.condition, GpuCondition::Stale { .. });
        report.gpus.iter().all(is_stale)
    });
    assert!(longest < AT_ONCE, "{longest:?}");
    fake.set(&format!("{stuck}{other}"));
    for gpu in ["GPU-0", "GPU-1"] {
        wait_condition(&watch, gpu, is_fresh);
    }
    assert_eq!(
        kinds_of(&watch, "GPU-0"),
        [EventKind::GpuStale, EventKind::GpuBack]
    );
}

#[test]
fn a_driver_that_hangs_while_it_is_opened_or_dropped_stops_nobody() {
    let fake = FakeNvml::new("hang nvmlInit_v2\n");
    let begun = Instant::now();
    let starting = watch(&fake);
    let first = starting.latest();
    assert_eq!((first.gpus.len(), begun.elapsed() < AT_ONCE), (0, true));
    assert!(first.missing.is_some());
    wait_for("the reason", || {
        starting
            .latest()
            .missing
            .is_some_and(|reason| reason == "the GPU driver gives no answer")
    });
    let begun = Instant::now();
    drop(starting);
    assert!(begun.elapsed() < AT_ONCE, "dropping waits for nothing");
    fake.set(&gpu("GPU-0", 0));
    let watch = watch(&fake);
    wait_condition(&watch, "GPU-0", is_fresh);
    fake.set(&format!("hang *\n{}", gpu("GPU-0", 0)));
    wait_condition(&watch, "GPU-0", |gpu| !is_fresh(gpu));
    let begun = Instant::now();
    drop(watch);
    assert!(begun.elapsed() < AT_ONCE, "dropping waits for nothing");
    fake.set(&gpu("GPU-0", 0));
}

#[test]
fn counters_begin_anew_with_the_driver_and_a_trace_gives_its_sums() {
    let trace = "log
        gpu GPU-0
        memory 1000 100 0
        at 0 utilisation 0 0\nat 0 power 100000\nat 0 field 83 10000\nat 0 clocks 1000 500
at 0 throttle 0
at 0 temperature 40
        at 1000 utilisation 80 0\nat 1000 power 300000\nat 1000 field 83 210000\nat 1000 process 7 50\nat 1000 throttle 8
        at 2000 utilisation 100 0\nat 2000 field 83 510000\nat 2000 temperature 81\nat 2000 memory 1000 600 0
        at 3000 field 83 40000\nat 3000 process\nat 3000 throttle 0
        ";
    let fake = FakeNvml::new(trace);
    let nvml = fake.open().expect("it loads");
    let mut usage = GpuUsage::of((*nvml.devices()[0]).clone());
    for at_ms in [0, 1000, 2000, 3000] {
        fake.set(&format!("now {at_ms}\n{trace}"));
        let read = nvml.read("GPU-0").expect("it answers");
        let state = GpuState {
            facts: nvml.devices()[0].clone(),
            last: Some(read.into()),
            at_ms: Some(at_ms),
            condition: GpuCondition::Fresh,
        };
        let report = GpuReport {
            gpus: vec![state],
            missing: None,
            ..GpuReport::default()
        };
        let readings = report.readings_of_run(&["GPU-0"], |pid| pid == 7);
        usage.add(&readings[0], at_ms);
    }
    assert_eq!(usage.readings, 4);
    assert_eq!(
        usage.energy_joules,
        Some(200.0 + 300.0 + 40.0),
        "the counter fell: the driver was loaded anew"
    );
    assert_eq!(
        (usage.utilisation_mean_percent, usage.power_mean_watts),
        (Some(70.0), Some(250.0))
    );
    assert_eq!(
        (usage.mem_peak_bytes, usage.sm_clock_mean_mhz),
        (Some(600), Some(1000.0))
    );
    assert_eq!(
        (usage.temperature_peak_celsius, usage.throttled_seconds),
        (Some(81), 2.0)
    );
    assert_eq!(
        usage.idle_seconds, 1.0,
        "from 2 s to 3 s: no process of the run is left"
    );
}

#[test]
fn an_idle_gpu_of_a_run_is_seen_and_only_its_own_processes_are_counted() {
    let busy = gpu("GPU-0", 0) + "process 7 100\nprocess 8 1000\nuse 7 30\nuse 8 60\n";
    let idle = gpu("GPU-1", 1) + "process 8 500\n";
    let foreign = gpu("GPU-2", 2) + "process 8 500\n";
    let fake = FakeNvml::new(&(busy + &idle + &foreign));
    let watch = watch(&fake);
    wait_condition(&watch, "GPU-2", is_fresh);
    let devices: Vec<_> = watch
        .latest()
        .gpus
        .iter()
        .map(|gpu| gpu.facts.clone())
        .collect();
    let variable = |name: &str| (name == "CUDA_VISIBLE_DEVICES").then(|| "0,1".to_owned());
    let allocated = allocated_gpus(variable, &devices).expect("it says");
    let readings = watch.latest().readings_of_run(&allocated, |pid| pid == 7);
    let told: Vec<_> = readings
        .iter()
        .map(|r| (&*r.uuid, r.run_processes, r.run_mem_bytes, r.run_sm_percent))
        .collect();
    assert_eq!(
        told,
        [
            ("GPU-0", Some(1), Some(100), Some(30)),
            ("GPU-1", Some(0), Some(0), Some(0))
        ]
    );
}
