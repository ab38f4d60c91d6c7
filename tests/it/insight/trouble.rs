//! Runs of which little is known, or what is known is odd.

use dlrun::job::{ArraySpec, JobState};
use dlrun::record::{Columns, Epoch, Gap, Progress, Sample};
use dlrun::report::insight::{AdviceKind, NodeView, RunView, SampleBins, derive, unlike};
use proptest::prelude::*;

use super::case::{BEGIN_MS, Case, GIB, Load};
use super::{advises, limits, why_silent};

const HOUR: u64 = 3600;

/// A run of which all is known and that would be advised a lot.
fn wasteful(seconds: u64) -> Case {
    let load = Load::new(1.5, 10 * GIB).gpus(&[Some(97), None]);
    Case::new(seconds, &load).asking(|request| {
        (request.walltime_seconds, request.gpus_per_node) = (Some(48 * HOUR), Some("2".into()));
    })
}

#[test]
fn it_would_be_advised_a_lot() {
    assert_eq!(wasteful(HOUR).insight().advice.len(), 4);
}

#[test]
fn a_short_run_hears_only_that_it_was_short() {
    let insight = wasteful(200).insight();
    assert_eq!(
        (insight.advice.len(), insight.limits.len()),
        (0, 0),
        "{:?}",
        insight.advice
    );
    assert!(
        why_silent(&insight, "limits").contains("less than 300 s"),
        "{:?}",
        insight.unmeasured
    );
    assert_eq!(
        insight.timing.expect("timed").epochs.expect("epochs").count,
        1
    );
}

#[test]
fn a_run_that_goes_on_is_told_its_limits_and_no_advice() {
    let insight = wasteful(HOUR).state(JobState::Running).insight();
    assert_eq!((insight.advice.len(), insight.limits.len()), (0, 1));
    assert!(!advises(&insight, AdviceKind::Cpus));
}

#[test]
fn an_element_says_nothing_of_its_array() {
    let mut case = wasteful(HOUR);
    case.run.array = Some(ArraySpec::parse("0-9").expect("an array"));
    let insight = case.insight();
    assert!(
        insight.advice.iter().all(|advice| advice.paste.is_none()),
        "{:?}",
        insight.advice
    );
    assert!(!advises(&insight, AdviceKind::Memory));
    // Nor does one that was cut off, or that waited for CPUs, say that the others need more.
    let mut cut = wasteful(HOUR).state(JobState::Timeout);
    cut.run.array = Some(ArraySpec::parse("0-9").expect("an array"));
    assert!(!advises(&cut.insight(), AdviceKind::Walltime));
    let mut waits = Case::new(HOUR, &Load::new(7.8, 50 * GIB).gpus(&[Some(40)]));
    waits.run.array = Some(ArraySpec::parse("0-9").expect("an array"));
    assert!(!advises(&waits.insight(), AdviceKind::Cpus));
}

#[test]
fn commands_that_shared_a_node_are_not_taken_for_nodes() {
    let mut case = wasteful(HOUR);
    let again = case.nodes[0].clone();
    case.nodes.push(again);
    case.nodes[1].0.key.step = 1;
    assert!(!advises(&case.insight(), AdviceKind::Memory));
}

#[test]
fn a_run_without_records_samples_or_plan_is_named_as_such() {
    let mut case = wasteful(HOUR);
    case.nodes[0].1.clear();
    let insight = case.insight();
    assert!(insight.limits.is_empty());
    assert!(
        why_silent(&insight, "limits").contains("samples of n1"),
        "{:?}",
        insight.unmeasured
    );
    assert!(
        !insight
            .advice
            .iter()
            .any(|advice| advice.kind != dlrun::report::insight::AdviceKind::Walltime)
    );
    case.request = None;
    let insight = case.insight();
    assert!(insight.advice.is_empty());
    case.nodes.clear();
    let insight = case.insight();
    assert_eq!(
        why_silent(&insight, "usage"),
        "there is no record of any node"
    );
    assert!(insight.timing.is_none());
    assert_eq!(
        insight
            .compared
            .iter()
            .map(|compared| compared.what)
            .collect::<Vec<_>>(),
        ["walltime_seconds"]
    );
}

#[test]
fn a_run_without_timing_says_so_and_the_rest_is_there() {
    let mut case = wasteful(HOUR);
    case.record().progress = Progress::default();
    let insight = case.insight();
    assert!(insight.timing.is_none() && !why_silent(&insight, "timing").is_empty());
    assert_eq!((limits(&insight).len(), insight.advice.len()), (1, 4));
    assert!(insight.used.gpu_energy_joules.is_some());
    case.status.state = JobState::Running;
    let yet = "no end of an epoch or a step was read yet";
    assert_eq!(why_silent(&case.insight(), "timing"), yet);
}

#[test]
fn nothing_is_told_across_a_gap_and_with_many_holes_nothing_at_all() {
    let mut case = wasteful(HOUR);
    case.record().gaps = vec![Gap {
        from_ms: BEGIN_MS + 600_000,
        to_ms: BEGIN_MS + 700_000,
        why: "restart".into(),
    }];
    case.nodes[0]
        .1
        .retain(|sample| !(600_001..700_000).contains(&(sample.at_ms - BEGIN_MS)));
    let insight = case.insight();
    let sampled = insight.used.nodes[0].sampled.as_ref().expect("samples");
    assert_eq!((sampled.covered_seconds, sampled.samples), (3500.0, 3502));
    assert_eq!(insight.advice.len(), 4);
    case.nodes[0]
        .1
        .retain(|sample| sample.at_ms - BEGIN_MS < 1_200_000);
    let insight = case.insight();
    assert!(
        !advises(&insight, AdviceKind::Memory),
        "{:?}",
        insight.unmeasured
    );
}

#[test]
fn a_record_that_was_cut_off_is_no_basis() {
    let mut case = wasteful(HOUR);
    case.nodes[0].1.truncate(30);
    assert!(why_silent(&case.insight(), "limits").contains("30 samples"));
    case.nodes[0].1.truncate(1);
    let insight = case.insight();
    let sampled = insight.used.nodes[0].sampled.as_ref().expect("a sample");
    assert_eq!(
        (
            sampled.samples,
            sampled.covered_seconds,
            sampled.whole.cpus_busy
        ),
        (1, 0.0, None)
    );
    assert!(insight.limits.is_empty());
}

#[test]
fn a_clock_that_was_wrong_for_a_while_changes_no_figure() {
    let right = wasteful(HOUR).insight();
    let mut case = wasteful(HOUR);
    // A second in 1970 and one in 2100; samples come in the order of their times.
    let odd = |at_ms: u64, sample: &Sample| Sample {
        at_ms,
        ..sample.clone()
    };
    let samples = &mut case.nodes[0].1;
    let (first, last) = (
        odd(5, &samples[0]),
        odd(4_102_444_800_000, &samples[samples.len() - 1]),
    );
    samples.insert(0, first);
    samples.push(last);
    let insight = case.insight();
    let busy = |insight: &dlrun::report::insight::Insight| {
        insight.used.nodes[0]
            .sampled
            .as_ref()
            .expect("samples")
            .window()
            .cpus_busy
            .expect("known")
            .mean
    };
    assert!((busy(&insight) - busy(&right)).abs() < 1e-6);
    assert_eq!(insight.advice, right.advice);
}

#[test]
fn a_long_run_takes_no_more_memory_and_keeps_its_means() {
    let mut record = wasteful(60).nodes.remove(0).0;
    // 40 days with a sample a minute: 57,600 bins of 15 s would be too many.
    let minutes = 57_600_u64;
    record.ended_at_ms = Some(record.started_at_ms + minutes * 60_000);
    let mut digest = SampleBins::new(&record);
    for chunk in 0..minutes / 300 {
        let at: Vec<u64> = (chunk * 300..(chunk + 1) * 300).collect();
        let column = |of: fn(u64) -> u64| {
            at.iter()
                .map(|minute| Some(of(*minute)))
                .collect::<Vec<_>>()
        };
        let block = Columns {
            at_ms: at.iter().map(|minute| BEGIN_MS + minute * 60_000).collect(),
            columns: vec![
                ("cpu_user_us".into(), column(|minute| minute * 60_000_000)),
                ("cpu_system_us".into(), column(|minute| minute * 60_000_000)),
                ("mem_rss_bytes".into(), column(|minute| minute)),
            ],
        };
        digest.take(&[block], (0..300).map(|row| (0, row)));
    }
    let sampled = digest.finish();
    let busy = sampled.whole.cpus_busy.expect("known");
    assert!(
        (busy.mean - 2.0).abs() < 1e-9 && (busy.p95 - 2.0).abs() < 1e-9,
        "{busy:?}"
    );
    assert_eq!(
        (sampled.samples, sampled.mem_most_bytes),
        (minutes, Some(minutes - 1))
    );
    assert!(sampled.bin_seconds > 400.0, "{}", sampled.bin_seconds);
}

#[test]
fn counters_that_begin_anew_tell_nothing_of_the_step() {
    let mut case = wasteful(HOUR);
    for sample in case.nodes[0].1.iter_mut().skip(1800) {
        for value in [&mut sample.cpu_user_us, &mut sample.cpu_system_us] {
            *value = value.map(|value| value - 1_000_000);
        }
        sample
            .gpus
            .iter_mut()
            .for_each(|gpu| gpu.energy_millijoules = Some(sample.at_ms - BEGIN_MS));
    }
    let insight = case.insight();
    let busy = insight.used.nodes[0]
        .sampled
        .as_ref()
        .expect("samples")
        .whole
        .cpus_busy
        .expect("known");
    assert!((busy.mean - 1.5).abs() < 0.01, "{busy:?}");
}

#[test]
fn two_runs_alike_may_be_compared_and_others_say_why_not() {
    let (first, mut second) = (wasteful(HOUR), wasteful(HOUR));
    assert_eq!(
        unlike(&first.insight().setting, &second.insight().setting),
        []
    );
    second.record().gpus[0].gpu.name = "NVIDIA A100".into();
    second.record().conditions.cpus_effective = Some(4.0);
    let found = unlike(&first.insight().setting, &second.insight().setting);
    assert_eq!(
        found
            .iter()
            .map(|one| one.what.as_str())
            .collect::<Vec<_>>(),
        ["cpus_effective", "gpu_models"]
    );
    assert_eq!(found[1].second, "1 NVIDIA A100, 1 NVIDIA H200");
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(64))]

    /// Whatever the numbers are: no panic, no number that is none, and what is to be pasted is a job file.
    #[test]
    fn nothing_that_is_read_breaks_it(
        cells in prop::collection::vec(prop::collection::vec(prop::option::of(any::<u64>()), 9), 0..80),
        times in prop::collection::vec(any::<u64>(), 80),
        seconds in prop::collection::vec(any::<f64>(), 0..9),
        wall in prop::option::of(any::<f64>()),
        asked in any::<(u64, u32, u64)>(),
        ended in any::<u64>(),
    ) {
        let mut case = wasteful(0);
        let (memory, cpus, walltime) = asked;
        case = case.asking(|request| {
            request.memory_bytes = Some(memory);
            request.cpus_per_task = Some(cpus);
            request.walltime_seconds = Some(walltime);
        });
        case.status.ended_at_ms = Some(ended);
        case.record().usage.wall_seconds = wall;
        for seconds in seconds {
            let epoch = Epoch { printed_seconds: Some(seconds), ended_at_ms: Some(ended), ..Epoch::default() };
            case.record().progress.push_epoch(epoch);
        }
        let names = [
            "cpu_user_us", "cpu_system_us", "mem_rss_bytes", "mem_anon_bytes", "io_read_bytes", "psi_io_some_us",
            "gpu/GPU-0/utilisation_percent", "gpu/GPU-0/energy_millijoules", "process/1/2/cpu_us/x/y",
        ];
        let column = |place: usize| cells.iter().map(|row| row[place]).collect::<Vec<_>>();
        let mut at_ms = times[..cells.len()].to_vec();
        at_ms.sort_unstable();
        let columns = (0..names.len()).map(|place| (names[place].to_owned(), column(place))).collect();
        let mut digest = SampleBins::new(&case.nodes[0].0);
        digest.take(&[Columns { at_ms, columns }], (0..cells.len()).map(|row| (0, row)));
        let nodes = vec![NodeView { record: &case.nodes[0].0, sampled: Some(digest.finish()) }];
        let view = RunView { run: &case.run, status: &case.status, request: case.request.as_ref(), nodes };
        let insight = derive(&view);
        prop_assert!(serde_json::to_string(&insight).is_ok());
        for advice in &insight.advice {
            let _ = super::paste(&insight, advice.kind);
        }
    }
}
