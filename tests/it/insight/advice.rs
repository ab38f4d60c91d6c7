//! What limited imagined runs, and what they should ask for next time.

use dlrun::job::{JobState, StorageClass};
use dlrun::record::StorageClass as RecordedStorage;
use dlrun::record::{Activity, Pattern, PatternKind, Phase, PhaseTime};
use dlrun::report::insight::{AdviceKind, LimitKind};

use super::case::{Case, GIB, Load};
use super::{advises, limits, paste, saves};

const HOUR: u64 = 3600;

fn gpu_bound() -> Case {
    let load = Load::new(2.5, 10 * GIB).gpus(&[Some(97)]);
    Case::new(HOUR, &load).asking(|request| request.walltime_seconds = Some(12 * HOUR))
}

#[test]
fn a_run_that_asked_for_too_much_is_told_what_it_needs() {
    let insight = gpu_bound().insight();
    assert_eq!(limits(&insight), [LimitKind::Gpu]);
    assert_eq!(
        paste(&insight, AdviceKind::Walltime),
        Some("walltime = \"1h15m\"")
    );
    assert_eq!(
        paste(&insight, AdviceKind::Memory),
        Some("memory = \"12GiB\"")
    );
    assert_eq!(paste(&insight, AdviceKind::Cpus), Some("cpus_per_task = 3"));
    let [cpus, memory] = [AdviceKind::Cpus, AdviceKind::Memory].map(|kind| saves(&insight, kind));
    assert_eq!((cpus, memory), (Some(0.0), None));
    assert_eq!(insight.advice.len(), 3, "{:?}", insight.advice);
    assert_eq!(insight.unmeasured, []);
    let memory = insight
        .compared
        .iter()
        .find(|compared| compared.what == "memory_bytes")
        .expect("compared");
    assert_eq!(memory.ratio, Some(10.0 / 64.0));
}

#[test]
fn time_used_is_compared_with_the_limit_that_the_scheduler_gave_last() {
    let load = Load::new(7.0, 50 * GIB);
    let limit = |ends_after: Option<u64>| {
        let asks = |request: &mut dlrun::report::insight::Request| {
            request.walltime_seconds = Some(HOUR / 2);
        };
        let mut case = Case::new(HOUR, &load).asking(asks);
        let started_ms = case.status.started_at_ms.expect("it started");
        let ends_ms = ends_after.map(|seconds| started_ms + seconds * 1000);
        case.record().progress.time_limit_ms = ends_ms;
        let compared = case.insight().compared;
        let time = compared.iter().find(|one| one.what == "walltime_seconds");
        time.and_then(|time| time.asked).expect("compared")
    };
    assert_eq!(limit(None), 1800.0);
    // Looked up some seconds late, and not raised.
    assert_eq!(limit(Some(1790)), 1800.0);
    assert_eq!(limit(Some(2 * HOUR + 12)), 7200.0);
}

#[test]
fn a_run_that_asked_for_what_it_needs_hears_nothing() {
    let load = Load::new(7.0, 50 * GIB).gpus(&[Some(97)]);
    let insight = Case::new(HOUR, &load)
        .asking(|request| request.walltime_seconds = Some(5000))
        .insight();
    assert_eq!(insight.advice, []);
    assert_eq!(insight.unmeasured, []);
}

#[test]
fn timing_rates_and_energy_are_derived() {
    let insight = gpu_bound().insight();
    let timing = insight.timing.expect("timed");
    let epochs = timing.epochs.expect("epochs");
    assert_eq!(
        (epochs.count, epochs.median_seconds, epochs.first_seconds),
        (58, 60.5, Some(90.5))
    );
    let rate = timing.samples_per_second.expect("a rate");
    assert!((rate.value - 60_000.0 / 60.5).abs() < 1e-6 && rate.from == "workload_samples");
    assert!(insight.used.gpu_energy_joules.is_some());
    assert!((insight.used.cpu_efficiency_ratio.expect("known") - 2.5 / 8.0).abs() < 1e-3);
    let sampled = insight.used.nodes[0].sampled.as_ref().expect("samples");
    assert!((sampled.window().cpus_busy.expect("known").p95 - 2.5).abs() < 0.01);
}

#[test]
fn gpus_that_wait_for_busy_cpus_want_more_of_them() {
    let load = Load::new(7.8, 50 * GIB).gpus(&[Some(40)]);
    let insight = Case::new(HOUR, &load).insight();
    assert_eq!(limits(&insight), [LimitKind::Cpus]);
    assert_eq!(
        paste(&insight, AdviceKind::Cpus),
        Some("cpus_per_task = 16")
    );
    assert!((saves(&insight, AdviceKind::Cpus).expect("some") - 0.6).abs() < 1e-3);
    assert!(insight.advice[0].text.ends_with("; up to 60 % less time"));
    // As many as the machine has, and no more.
    let mut full = Case::new(HOUR, &load);
    full.record().host.cpus = Some(12);
    assert_eq!(
        paste(&full.insight(), AdviceKind::Cpus),
        Some("cpus_per_task = 12")
    );
    full.record().host.cpus = Some(8);
    let insight = full.insight();
    assert!(advises(&insight, AdviceKind::Cpus) && paste(&insight, AdviceKind::Cpus).is_none());
    // Memory by the CPU grows with them: the node has 128 GiB.
    for (gib, pasted) in [(4, Some("cpus_per_task = 16")), (12, None)] {
        let by_cpu = Case::new(HOUR, &load).asking(|request| {
            (request.memory_bytes, request.memory_per_cpu_bytes) = (None, Some(gib * GIB));
        });
        assert_eq!(paste(&by_cpu.insight(), AdviceKind::Cpus), pasted, "{gib}");
    }
    // Without a GPU busy CPUs are what was wanted.
    let insight = Case::new(HOUR, &Load::new(7.8, 50 * GIB)).insight();
    assert_eq!(
        (limits(&insight), advises(&insight, AdviceKind::Cpus)),
        (vec![LimitKind::Cpus], false)
    );
}

#[test]
fn gpus_that_wait_for_storage_want_a_faster_one_and_keep_their_cache() {
    let load = Load {
        io_wait: Some(0.4),
        ..Load::new(2.5, 10 * GIB).gpus(&[Some(30)])
    };
    let on = |class| {
        Case::new(HOUR, &load)
            .asking(|request| request.storage = class)
            .insight()
    };
    let common = on(Some(StorageClass::Common));
    assert_eq!(limits(&common), [LimitKind::Storage]);
    assert_eq!(
        paste(&common, AdviceKind::Storage),
        Some("prefer = \"ssd\"")
    );
    assert!((saves(&common, AdviceKind::Storage).expect("some") - 0.4).abs() < 1e-3);
    assert!(!advises(&common, AdviceKind::Memory));
    assert!(!advises(&common, AdviceKind::Cpus));
    for none_better in [on(Some(StorageClass::Ssd)), on(None)] {
        assert!(advises(&none_better, AdviceKind::Storage));
        assert_eq!(paste(&none_better, AdviceKind::Storage), None);
    }
    // Without pressure stall information the rate of reading says it.
    let reading = |rate| Load {
        io_wait: None,
        read_bytes_per_second: rate,
        ..load.clone()
    };
    assert_eq!(
        limits(&Case::new(HOUR, &reading(200_000_000)).insight()),
        [LimitKind::Storage]
    );
    assert_eq!(
        limits(&Case::new(HOUR, &reading(100_000_000)).insight()),
        [LimitKind::Unclear]
    );
}

#[test]
fn one_thread_is_told_apart_from_what_is_unclear() {
    for (cpus, expected) in [(3.0, LimitKind::Unclear), (1.0, LimitKind::OneThread)] {
        let load = Load::new(cpus, 50 * GIB).gpus(&[Some(45)]);
        let insight = Case::new(HOUR, &load).insight();
        assert_eq!(limits(&insight), [expected], "{cpus}");
        assert_eq!(
            advises(&insight, AdviceKind::Workers),
            expected != LimitKind::Unclear
        );
        assert_eq!(paste(&insight, AdviceKind::Workers), None);
        assert!(!advises(&insight, AdviceKind::Cpus));
    }
    let serial = Case::new(HOUR, &Load::new(1.0, 50 * GIB)).insight();
    assert_eq!(
        (limits(&serial), paste(&serial, AdviceKind::Cpus)),
        (vec![LimitKind::OneThread], Some("cpus_per_task = 2"))
    );
}

#[test]
fn a_quota_is_reported() {
    let load = Load {
        throttled: 0.3,
        ..Load::new(3.9, 50 * GIB)
    };
    let insight = Case::new(HOUR, &load).insight();
    assert_eq!(limits(&insight), [LimitKind::Quota]);
    assert_eq!(
        paste(&insight, AdviceKind::Cpus),
        Some("cpus_per_task = 16")
    );
}

#[test]
fn other_processes_that_took_its_cpus_are_reported() {
    for (others, allowed, expected) in [
        (50.0, None, vec![LimitKind::Others]),
        (10.0, None, vec![]),
        (50.0, Some(8), vec![]),
    ] {
        let mut case = Case::new(HOUR, &Load::new(3.0, 50 * GIB));
        let record = case.record();
        (record.host.cpus, record.host.cpus_allowed) = (Some(64), allowed);
        record.conditions.others_cpus_busy = Some(others);
        record.conditions.cpus_effective = None;
        assert_eq!(limits(&case.insight()), expected, "{others} {allowed:?}");
    }
}

#[test]
fn memory_that_was_too_little_is_raised_within_what_the_node_has() {
    let load = Load::new(7.0, 60 * GIB);
    let killed = |asked: u64| {
        let mut case = Case::new(60, &load).asking(|request| request.memory_bytes = Some(asked));
        case.record().usage.mem_oom_kills = Some(1);
        case.state(JobState::OutOfMemory).insight()
    };
    assert_eq!(
        paste(&killed(64 * GIB), AdviceKind::Memory),
        Some("memory = \"100GiB\"")
    );
    let no_more = killed(100 * GIB);
    assert!(advises(&no_more, AdviceKind::Memory) && paste(&no_more, AdviceKind::Memory).is_none());
    let near = Case::new(HOUR, &Load::new(7.0, 62 * GIB)).insight();
    assert_eq!(paste(&near, AdviceKind::Memory), Some("memory = \"75GiB\""));
    let full = Case::new(HOUR, &Load::new(7.0, 120 * GIB))
        .asking(|request| request.memory_bytes = Some(121 * GIB));
    assert!(!advises(&full.insight(), AdviceKind::Memory));
}

#[test]
fn page_cache_is_no_memory_that_the_run_needs() {
    let load = Load {
        kernel_peak: Some(64 * GIB),
        ..Load::new(7.0, 10 * GIB)
    };
    let insight = Case::new(HOUR, &load).insight();
    assert_eq!(
        paste(&insight, AdviceKind::Memory),
        Some("memory = \"12GiB\"")
    );
}

#[test]
fn less_memory_is_not_advised_where_it_could_kill() {
    let load = Load::new(7.0, 10 * GIB);
    let growing = Load {
        memory_at_end: Some(20 * GIB),
        ..load.clone()
    };
    let silent = |case: &Case| !advises(&case.insight(), AdviceKind::Memory);
    assert!(silent(&Case::new(HOUR, &growing)));
    let failed = Case::new(HOUR, &load).state(JobState::Failed);
    assert!(silent(&failed));
    let mut in_memory = Case::new(HOUR, &load);
    in_memory.record().conditions.storage = vec![RecordedStorage {
        of: "data".into(),
        class: "tmpfs".into(),
    }];
    assert!(silent(&in_memory));
    in_memory.record().cgroup = Some("/job".into());
    assert!(advises(&in_memory.insight(), AdviceKind::Memory));
    let mut unknown = Case::new(HOUR, &load);
    unknown.record().usage.mem_peak_bytes = None;
    unknown.nodes[0]
        .1
        .iter_mut()
        .for_each(|sample| sample.mem_rss_bytes = None);
    assert!(silent(&unknown));
    let mut seldom = Case::new(HOUR, &load);
    for sample in seldom.nodes[0].1.iter_mut().skip(59) {
        sample.mem_rss_bytes = None;
    }
    assert!(silent(&seldom));
}

#[test]
fn memory_by_the_cpu_is_advised_by_the_cpu() {
    let case = Case::new(HOUR, &Load::new(7.0, 10 * GIB)).asking(|request| {
        (request.memory_bytes, request.memory_per_cpu_bytes) = (None, Some(8 * GIB));
    });
    assert_eq!(
        paste(&case.insight(), AdviceKind::Memory),
        Some("memory_per_cpu = \"1536MiB\"")
    );
    let idle = Case::new(HOUR, &Load::new(2.0, 50 * GIB)).asking(|request| {
        (request.memory_bytes, request.memory_per_cpu_bytes) = (None, Some(8 * GIB));
    });
    assert!(!advises(&idle.insight(), AdviceKind::Cpus));
}

#[test]
fn fewer_cpus_bring_their_memory_along() {
    let case =
        Case::new(HOUR, &Load::new(2.5, 10 * GIB)).asking(|request| request.memory_bytes = None);
    let insight = case.insight();
    assert_eq!(
        paste(&insight, AdviceKind::Cpus),
        Some("cpus_per_task = 3\nmemory = \"12GiB\"")
    );
    // What a run that failed held, or one that still grew, is not all that it needs.
    let load = Load {
        memory_at_end: Some(20 * GIB),
        ..Load::new(2.5, 10 * GIB)
    };
    let growing = Case::new(HOUR, &load).asking(|request| request.memory_bytes = None);
    assert!(!advises(&growing.insight(), AdviceKind::Cpus));
    let failed = case.state(JobState::Failed).insight();
    assert!(!advises(&failed, AdviceKind::Cpus));
    let ranks =
        Case::new(HOUR, &Load::new(2.5, 50 * GIB)).asking(|request| request.tasks_per_node = 2);
    assert_eq!(
        paste(&ranks.insight(), AdviceKind::Cpus),
        Some("cpus_per_task = 2")
    );
}

#[test]
fn a_run_that_was_cut_off_is_told_how_long_it_needs() {
    let cut = |asked, queue| {
        let case = Case::new(HOUR, &Load::new(7.0, 50 * GIB)).state(JobState::Timeout);
        case.asking(|request| {
            (request.walltime_seconds, request.queue_walltime_seconds) = (Some(asked), queue)
        })
    };
    // 41 epochs of 60.5 s are left after 3600 s.
    let text = |case: &Case| paste(&case.insight(), AdviceKind::Walltime).map(str::to_owned);
    assert_eq!(
        text(&cut(HOUR, None)).as_deref(),
        Some("walltime = \"2h15m\"")
    );
    assert_eq!(
        text(&cut(HOUR, Some(2 * HOUR))).as_deref(),
        Some("walltime = \"2h\"")
    );
    let over = cut(HOUR, Some(HOUR)).insight();
    assert_eq!(paste(&over, AdviceKind::Walltime), None);
    assert!(
        over.advice[0].text.contains("resume from a checkpoint"),
        "{:?}",
        over.advice
    );
    let mut hung = cut(HOUR, None);
    hung.record().progress.epochs.truncate(20);
    assert!(
        !advises(&hung.insight(), AdviceKind::Walltime),
        "it trained no more"
    );
    let mut untimed = cut(HOUR, None);
    untimed.record().progress.epochs.truncate(3);
    assert!(!advises(&untimed.insight(), AdviceKind::Walltime));
    untimed.record().progress = dlrun::record::Progress::default();
    assert!(!advises(&untimed.insight(), AdviceKind::Walltime));
}

#[test]
fn gpus_far_from_the_cpus_of_the_run_are_named() {
    let with = |near: &[Option<&str>], had: &str| {
        let load = Load::new(7.0, 50 * GIB).gpus(&vec![Some(97); near.len()]);
        let mut case = Case::new(HOUR, &load);
        let record = case.record();
        record.conditions.affinity = Some(had.to_owned());
        for (gpu, near) in record.gpus.iter_mut().zip(near) {
            gpu.gpu.place.near_cpus = near.map(str::to_owned);
        }
        case.insight()
    };
    let text = |insight: &dlrun::report::insight::Insight| {
        let mut advice = insight.advice.iter();
        let found = advice.find(|advice| advice.kind == AdviceKind::GpuCpus);
        found.map(|advice| advice.text.clone()).unwrap_or_default()
    };
    let far = text(&with(&[Some("0-31"), Some("32-63")], "0-7"));
    assert!(
        far.starts_with(
            "a GPU that worked is near CPUs 32-63 of n1, and the run had none of these"
        ),
        "{far}"
    );
    for (near, had) in [
        (vec![Some("0-31"), Some("32-63")], "0-7,40"),
        (vec![None, Some("0-63")], "0-7"),
        (vec![Some("")], "0-7"),
    ] {
        assert_eq!(text(&with(&near, had)), "", "{near:?} {had}");
    }
}

#[test]
fn gpus_that_nobody_used_are_given_back() {
    let load = Load::new(7.0, 50 * GIB);
    let with = |gpus: &[Option<u64>], asked: &str| {
        let asked = asked.to_owned();
        Case::new(HOUR, &load.clone().gpus(gpus))
            .asking(|request| request.gpus_per_node = Some(asked))
    };
    let one = with(&[Some(97), None], "2").insight();
    assert_eq!(paste(&one, AdviceKind::Gpus), Some("gpus_per_node = 1"));
    assert_eq!(
        (limits(&one), one.used.gpus_idle),
        (vec![LimitKind::Gpu], 1)
    );
    let typed = with(&[Some(97), None, None], "v100:3").insight();
    assert_eq!(
        paste(&typed, AdviceKind::Gpus),
        Some("gpus_per_node = \"v100:1\"")
    );
    let none = with(&[None], "1").insight();
    assert!(advises(&none, AdviceKind::Gpus) && paste(&none, AdviceKind::Gpus).is_none());
    // Not all of them were seen.
    assert_eq!(
        paste(&with(&[Some(97), None], "4").insight(), AdviceKind::Gpus),
        None
    );
    let mut short = with(&[Some(97), None], "2");
    short.nodes = vec![super::case::node("n1", 400, &load.gpus(&[Some(97), None]))];
    assert!(!advises(&short.insight(), AdviceKind::Gpus));
}

#[test]
fn phases_that_took_long_are_named_the_longest_first() {
    let advised = |phases: &[(Phase, f64)]| {
        let mut case = Case::new(HOUR, &Load::new(7.0, 50 * GIB).gpus(&[Some(97)]));
        let time = |(phase, seconds): &(Phase, f64)| PhaseTime {
            phase: *phase,
            seconds: *seconds,
            share: seconds / 3600.0,
        };
        case.nodes[0].0.progress.activity = Some(Activity {
            pattern: Pattern::without_period(PatternKind::Flat, "it hardly changes"),
            unlike: Vec::new(),
            iteration: None,
            phases: phases.iter().map(time).collect(),
            phase: None,
            phase_since_ms: None,
        });
        let kinds = [
            AdviceKind::Idle,
            AdviceKind::Startup,
            AdviceKind::Checkpoints,
        ];
        let advice = case.insight().advice.into_iter().map(|advice| advice.kind);
        advice
            .filter(|kind| kinds.contains(kind))
            .collect::<Vec<_>>()
    };
    let quiet = [
        (Phase::Idle, 599.0),
        (Phase::Startup, 719.0),
        (Phase::Checkpoint, 359.0),
    ];
    assert_eq!(advised(&quiet), []);
    let long = [
        (Phase::Startup, 900.0),
        (Phase::Idle, 1200.0),
        (Phase::Checkpoint, 400.0),
    ];
    assert_eq!(
        advised(&long),
        [
            AdviceKind::Idle,
            AdviceKind::Startup,
            AdviceKind::Checkpoints
        ]
    );
}
