//! What the model says of runs unlike those that were measured: larger, longer, cut off, or half described.

use dlrun::learn::model::{Length, Model, Observation, Priors, Situation, evaluate};
use dlrun::record::{Basis, Interval};

use crate::model::{fit, known, situation};

fn ratio(interval: Option<Interval>) -> f64 {
    interval
        .map(|interval| interval.high / interval.low)
        .expect("it was measured")
}

/// Memory is a sum: of what the network takes, and of what each sample takes.
fn with_batch(batch: u64) -> Observation {
    let mut situation = situation("cnn", "none", 2.0);
    situation.workload.batch_size = Some(batch);
    Observation {
        memory_bytes: Some((1_000 + 1_000 * batch / 64) * 1_000_000),
        ..known(&situation, 10.0)
    }
}

#[test]
fn far_beyond_the_largest_batch_memory_is_open() {
    let model = fit([32, 64, 128, 256]
        .into_iter()
        .cycle()
        .take(24)
        .map(with_batch));
    let asked = |batch| model.forecast(&with_batch(batch).situation);
    let far = asked(2048);
    let truth = with_batch(2048).memory_bytes.expect("set") as f64;
    let memory = far.memory_bytes.expect("it was measured");
    assert!(
        memory.low < truth && truth < memory.high,
        "{memory:?} for {truth}"
    );
    assert!(
        ratio(far.memory_bytes) > 2.0 * ratio(asked(256).memory_bytes),
        "{memory:?}"
    );
    assert_eq!(
        far.beyond,
        [
            "the batch size of a worker, 2048, is 8 times the largest measured with this workload, 256"
        ]
    );
    assert_eq!(
        asked(300).beyond,
        Vec::<String>::new(),
        "a little more is no other world"
    );
}

#[test]
fn runs_without_epochs_that_are_to_train_longer_are_open_and_it_is_said() {
    let silent = |epochs: u64| {
        let mut situation = situation("silent", "none", 2.0);
        situation.workload.epochs = Some(epochs);
        Observation {
            epoch_seconds: None,
            wall_seconds: Some(Length::Known(20.0 + 30.0 * epochs as f64)),
            ..known(&situation, 1.0)
        }
    };
    let model = fit((0..12).map(|_| silent(4)));
    let asked = |epochs| model.forecast(&silent(epochs).situation);
    assert_eq!(asked(4).beyond, Vec::<String>::new());
    let longer = asked(40);
    assert_eq!(
        longer.beyond,
        ["the number of epochs, 40, is 10 times the largest measured with this workload, 4"]
    );
    let total = longer.total_seconds.expect("whole");
    assert!(total.low < 1220.0 && 1220.0 < total.high, "{total:?}");
    assert!(
        ratio(longer.total_seconds) > 2.0 * ratio(asked(4).total_seconds),
        "{total:?}"
    );
}

#[test]
fn what_was_only_cut_off_was_met_all_the_same() {
    let cut = Observation {
        epoch_seconds: None,
        wall_seconds: Some(Length::AtLeast(90.0)),
        ..known(&situation("cnn", "xla", 2.0), 1.0)
    };
    let plain = || known(&situation("cnn", "none", 2.0), 10.0);
    let model = fit((0..4).map(|_| plain()).chain([cut.clone()]));
    let forecast = model.forecast(&cut.situation);
    assert_eq!(
        forecast.beyond,
        Vec::<String>::new(),
        "the compiler was met"
    );
    assert_eq!(
        (forecast.basis, forecast.runs),
        (Basis::Workload, 4),
        "no run of it was seen to its end"
    );
    assert_eq!(model.head().counts.cut_off, 1);
}

#[test]
fn a_job_that_leaves_sizes_out_borrows_those_of_its_network() {
    let full = situation("cnn", "none", 2.0);
    let open = |change: fn(&mut Situation)| {
        let mut open = full.clone();
        change(&mut open);
        open
    };
    let model =
        fit((0..6).map(|at| known(&situation("cnn", "none", 2.0), 10.0 + 0.1 * f64::from(at))));
    let told = model.forecast(&full);
    let unsized_ = open(|it| (it.workload.samples, it.workload.parameters) = (None, None));
    let forecast = model.forecast(&unsized_);
    assert_eq!(
        (forecast.epoch_seconds, forecast.basis),
        (told.epoch_seconds, Basis::Alike)
    );
    assert_eq!(
        forecast.assumed,
        [
            "`[workload]` is taken to have samples = 60000, parameters = 1199882, as in 6 runs of this network with this data set"
        ]
    );
    let nameless = open(|it| (it.workload.samples, it.workload.dataset) = (None, None));
    assert_eq!(model.forecast(&nameless).epoch_seconds, told.epoch_seconds);
    // What is said is not overruled.
    let other = open(|it| (it.workload.samples, it.workload.parameters) = (Some(90_000), None));
    assert_eq!(
        (model.forecast(&other).assumed, model.forecast(&other).basis),
        (Vec::new(), Basis::Software)
    );
    // Runs of one name that disagree say nothing.
    let mut larger = full.clone();
    larger.workload.samples = Some(120_000);
    let runs = (0..6).map(|at| known(if at % 2 == 0 { &full } else { &larger }, 10.0));
    let disagree: Model = fit(runs.collect::<Vec<_>>());
    assert_eq!(disagree.forecast(&unsized_).assumed, Vec::<String>::new());
    let read = Model::from_bytes(&model.to_bytes()).expect("it was written");
    assert_eq!(read.forecast(&unsized_), forecast);
}

#[test]
fn where_all_runs_had_one_batch_memory_is_expected_to_grow_with_it() {
    let model = fit((0..12).map(|_| with_batch(64)));
    let asked = |batch| {
        model
            .forecast(&with_batch(batch).situation)
            .memory_bytes
            .expect("it was measured")
    };
    for batch in [128, 256, 512] {
        let truth = with_batch(batch).memory_bytes.expect("set") as f64;
        let memory = asked(batch);
        assert!(
            memory.median > 1.1 * asked(64).median && memory.low < truth,
            "{batch}: {memory:?}"
        );
        assert!(truth < memory.high, "{batch}: {memory:?} for {truth}");
    }
}

#[test]
fn what_runs_spent_outside_before_they_were_cut_off_is_a_bound_of_the_next_ones() {
    let cut = |at: u32| Observation {
        outside_seconds: Some(Length::AtLeast(1200.0 + f64::from(at))),
        wall_seconds: Some(Length::AtLeast(1500.0)),
        ..known(&situation("cnn", "none", 2.0), 60.0)
    };
    let model = fit((0..6).map(cut));
    let forecast = model.forecast(&situation("cnn", "none", 2.0));
    let total = forecast.total_seconds.expect("epochs are told");
    assert!(total.median > 12.0 * 60.0 + 1200.0, "{total:?}");
    let silent = fit((0..6).map(|at| Observation {
        outside_seconds: None,
        ..cut(at)
    }));
    let beyond = silent.forecast(&situation("cnn", "none", 2.0)).beyond;
    assert!(
        beyond
            .iter()
            .any(|told| told.contains("has no time for them")),
        "{beyond:?}"
    );
}

#[test]
fn runs_that_tell_no_epochs_are_not_held_back_and_that_is_said() {
    let whole = |at: u32| Observation {
        epoch_seconds: None,
        wall_seconds: Some(Length::Known(300.0 + f64::from(at))),
        ..known(&situation("silent", "none", 2.0), 1.0)
    };
    let evaluation = evaluate((0..20).map(whole), &Priors::none());
    for view in &evaluation.views {
        assert!(
            view.too_few
                .as_ref()
                .is_some_and(|why| why.contains("no run shows epochs")),
            "{view:?}"
        );
    }
}

#[test]
fn nearly_known_name_of_a_network_is_asked_for() {
    let model = fit((0..4).map(|_| known(&situation("torch-cnn", "none", 2.0), 10.0)));
    let asked = |name| model.forecast(&situation(name, "none", 2.0)).beyond;
    for name in ["Torch_CNN", "torch-cn"] {
        let said = format!("network {name} was never measured; did you mean `torch-cnn`?");
        assert_eq!(asked(name).first(), Some(&said));
    }
    assert_eq!(asked("TORCH-CNN"), Vec::<String>::new());
    let other = asked("bert-large");
    assert!(
        other.iter().all(|said| !said.contains("did you mean")),
        "{other:?}"
    );
}

#[test]
fn only_identical_configurations_are_alike() {
    let base = situation("cnn", "none", 2.0);
    let model = fit((0..4).map(|_| known(&base, 10.0)));
    let basis = |change: fn(&mut Situation)| {
        let mut asked = base.clone();
        change(&mut asked);
        model.forecast(&asked).basis
    };
    assert_eq!(basis(|its| its.workload.epochs = Some(500)), Basis::Alike);
    assert_eq!(
        basis(|its| its.workload.batch_size = Some(512)),
        Basis::Workload
    );
    assert_eq!(
        basis(|its| its.hardware.threads = Some(4.0)),
        Basis::Workload
    );
}
