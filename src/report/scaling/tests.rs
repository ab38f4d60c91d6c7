//! What is compared, what is not, and why.

use std::collections::BTreeMap;

use super::sample::{Sample, doubts};
use super::{Kind, Point, Series, Study};
use crate::record::{Asked, GpuUsage, Identity};
use crate::report::Run;
use crate::report::insight::Request;
use crate::report::tests::{derived, timed};

/// A measurement on so many ranks of one node, at 100 samples a second for each.
fn of(ranks: u64) -> Sample {
    let mut sample = Sample {
        nodes: 1,
        ranks,
        batch: Some(64),
        rate: Some(100.0 * ranks as f64),
        rate_from: Some("workload_samples"),
        ..Sample::default()
    };
    sample.conditions.setting.cpus_effective = vec![ranks as f64];
    sample
}

fn series(samples: &[Sample]) -> Vec<Series> {
    Study::new(samples, None, 0).series
}

fn only(samples: &[Sample]) -> Series {
    let mut all = series(samples);
    assert_eq!(all.len(), 1, "{all:?}");
    all.remove(0)
}

fn last(samples: &[Sample]) -> Point {
    only(samples).points.pop().expect("points")
}

fn arguments(mut sample: Sample, pairs: &[(&str, &str)]) -> Sample {
    let pairs = pairs
        .iter()
        .map(|(name, value)| ((*name).to_owned(), (*value).to_owned()));
    sample.conditions.setting.arguments = Some(pairs.collect::<BTreeMap<_, _>>());
    sample
}

fn identity(command: &[&str], numbers: &[(&str, f64)], asked: Asked) -> Identity {
    let numbers = numbers
        .iter()
        .map(|(name, number)| ((*name).to_owned(), *number));
    Identity {
        key: "train.py-01".into(),
        program: "python".into(),
        command: command.iter().map(|word| (*word).to_owned()).collect(),
        numbers: numbers.collect(),
        asked,
        ..Identity::default()
    }
}

/// Of four nodes by MPI.
fn request() -> Request {
    serde_json::from_value(serde_json::json!({
        "scheduler": "slurm", "nodes": 4, "tasks_per_node": 4, "launcher": "mpi", "exclusive": false, "is_array": false,
    }))
    .expect("a request")
}

#[test]
fn a_batch_on_the_command_line_is_not_that_of_all_ranks_unless_its_name_says_so() {
    let batch = |name| {
        let mut run = timed(&[3.5, 2.5, 2.6]);
        run.record.identity = Some(identity(&[], &[(name, 64.0)], Asked::default()));
        Sample::of(&derived(run), None).expect("timed").batch
    };
    assert_eq!(batch("batch_size"), None);
    assert_eq!(batch("train_batch_size"), None);
    assert_eq!(batch("global_batch_size"), Some(64));
}

#[test]
fn sizes_that_differ_in_more_than_their_size_are_not_compared() {
    let with = |ranks, model, batch| arguments(of(ranks), &[("layers", model), ("batch", batch)]);
    let alike = last(&[with(1, "50", "64"), with(2, "50", "32")]);
    assert!(alike.from_one.is_some() && alike.not_compared.is_empty());
    let unlike = last(&[with(1, "18", "64"), with(2, "50", "64")]);
    assert_eq!((unlike.from_one, unlike.serial_fraction), (None, None));
    let why = "1 rank, which differs in arguments.layers";
    assert_eq!(unlike.not_compared, [why]);
    let three = only(&[
        with(1, "18", "64"),
        with(2, "50", "64"),
        with(4, "50", "64"),
    ]);
    let no_law = Some("its sizes differ in arguments.layers");
    assert_eq!((&three.law, three.no_law.as_deref()), (&None, no_law));
    let counted = |ranks, text| arguments(of(ranks), &[("world-size", text)]);
    let by_size = last(&[counted(1, "1"), counted(2, "2")]);
    assert!(by_size.from_one.is_some());
}

#[test]
fn rates_of_different_origin_are_not_compared() {
    let stated = Sample {
        rate_from: Some("epoch_samples"),
        ..of(2)
    };
    let point = last(&[of(1), stated]);
    assert_eq!(point.from_one, None);
    let from = "what their rates are from (workload_samples, epoch_samples)";
    assert!(point.not_compared[0].ends_with(from), "{point:?}");
}

#[test]
fn batches_that_are_neither_strong_nor_weak_give_no_gain() {
    let with = |ranks, batch| Sample { batch, ..of(ranks) };
    let known = only(&[with(1, Some(64)), with(2, Some(100))]);
    assert_eq!(
        (known.kind, &known.points[1].from_one),
        (Kind::Unknown, &None)
    );
    assert!(known.points[1].not_compared[0].contains("the batch, of all and of each"));
    let unknown = last(&[with(1, None), with(2, None)]);
    assert!(unknown.from_one.is_some());
}

#[test]
fn ranks_with_fewer_cpus_each_than_the_baseline_are_not_compared_with_it() {
    let with = |ranks, cpus| {
        let mut sample = of(ranks);
        sample.conditions.setting.cpus_effective = vec![cpus];
        sample
    };
    let point = last(&[with(1, 8.0), with(8, 8.0)]);
    assert_eq!(point.from_one, None);
    let why = "1 rank, which differs in the CPUs of a rank (8, 1)";
    assert_eq!(point.not_compared, [why]);
    assert!(last(&[with(1, 1.0), with(8, 8.0)]).from_one.is_some());
}

/// So many ranks on one node that was given so many of its 64 CPUs, of which others kept so many busy.
fn on_cpus(ranks: u32, given: f64, others: f64, threads: Option<&str>) -> Run {
    let mut run = timed(&[3.5, 2.5, 2.6]);
    run.record.tasks_per_node = Some(ranks);
    let node = &mut run.nodes[0].record;
    node.host.cpus = Some(64);
    node.host.omp_num_threads = threads.map(str::to_owned);
    node.conditions.cpus_effective = Some(given);
    node.conditions.others_cpus_busy = Some(others);
    derived(run)
}

#[test]
fn ranks_are_counted_against_the_cpus_that_the_job_was_given() {
    let few = doubts(&on_cpus(8, 2.0, 0.0, None));
    assert_eq!(few, ["8 ranks of a node were given 2 CPUs"]);
    assert_eq!(doubts(&on_cpus(8, 8.0, 20.0, None)), Vec::<String>::new());
    let crowded = ["other programs used CPUs that its ranks needed"];
    // One rank computes on all CPUs that it has.
    assert_eq!(doubts(&on_cpus(1, 64.0, 20.0, None)), crowded);
    assert_eq!(
        doubts(&on_cpus(1, 64.0, 20.0, Some("1"))),
        Vec::<String>::new()
    );
}

#[test]
fn gpus_of_nodes_without_a_record_are_those_asked_for() {
    let mut run = timed(&[3.5, 2.5, 2.6]);
    run.record.nodes = 4;
    run.nodes[0].record.gpus = vec![GpuUsage::default(); 4];
    run.request = Some(request());
    let asked = Asked {
        gpus: Some(16),
        ..Asked::default()
    };
    run.record.identity = Some(identity(&[], &[], asked));
    let run = derived(run);
    assert_eq!(run.gpus_used(), 16);
    let why = "only the first node is recorded under mpi".to_owned();
    assert!(doubts(&run).contains(&why));
}

#[test]
fn a_node_is_named_by_its_workers() {
    let with = |ranks, nodes| {
        let mut sample = of(ranks);
        sample.nodes = nodes;
        sample.conditions.setting.cpus_effective = vec![ranks as f64 / nodes as f64];
        sample
    };
    let series = only(&[with(2, 1), with(4, 2), with(5, 2)]);
    let notes = series.notes().join(" ");
    assert!(notes.contains("Baselines: 1 node of 2 ranks."), "{notes}");
}

#[test]
fn a_run_without_launcher_is_lent_as_baseline_to_those_that_have_none() {
    let with = |ranks, launcher: Option<&str>| {
        let mut sample = of(ranks);
        sample.group.launcher = launcher.map(str::to_owned);
        sample.conditions.setting.asked = Some(format!("launcher {launcher:?}"));
        sample
    };
    let lent = last(&[with(1, None), with(2, Some("ddp"))]);
    assert!(lent.from_one.is_some(), "{lent:?}");
    // With its own baseline it takes no other: together they would be no repeats.
    let all = series(&[with(1, None), with(1, Some("ddp")), with(2, Some("ddp"))]);
    let ddp = all
        .iter()
        .find(|series| series.group.launcher.is_some())
        .expect("there");
    assert_eq!((all.len(), ddp.points[0].n), (2, 1));
    assert!(ddp.points[1].from_one.is_some(), "{ddp:?}");
}

#[test]
fn slowest_ranks_by_steps_and_by_epochs_have_no_median() {
    let with = |straggler| Sample {
        straggler: Some(straggler),
        ..of(2)
    };
    let of = |pair: [(f64, &'static str); 2]| last(&pair.map(with)).straggler_ratio;
    assert_eq!(of([(1.5, "step"), (1.1, "step")]), Some(1.3));
    assert_eq!(of([(1.5, "step"), (1.1, "epoch")]), None);
}

#[test]
fn speed_of_a_point_is_what_its_gain_compares() {
    let with = |ranks, seconds| Sample {
        rate: None,
        rate_from: None,
        seconds: Some(seconds),
        ..of(ranks)
    };
    let series = only(&[with(1, 10.0), with(2, 4.0), with(2, 5.0), with(2, 8.0)]);
    let speed = |at: usize| series.points[at].speed.expect("known").mean;
    let gain = series.points[1].from_one.as_ref().expect("measured");
    assert!((speed(1) / speed(0) - gain.speed_up).abs() < 1e-12);
}
