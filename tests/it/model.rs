//! The model on runs whose truth is known, and on runs that are none.

use std::path::Path;

use dlrun::job::{Framework, Provenance, RunId, SchedulerKind, StorageClass, Workload};
use dlrun::learn::model::{
    Doubts, Effect, Explanation, Hardware, LearnedEffect, Length, Model, Observation, Priors,
    Situation, Unfit, Unreadable,
};
use dlrun::record::{Basis, NodeFigures};

/// Numbers that look like chance, and are the same each time.
struct Dice(u64);

impl Dice {
    fn next(&mut self) -> f64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut mixed = self.0;
        mixed = (mixed ^ (mixed >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        f64::from(u32::try_from((mixed ^ (mixed >> 31)) >> 32).expect("32 bits"))
            / f64::from(u32::MAX)
    }

    /// About normal: a sum of twelve.
    fn normal(&mut self) -> f64 {
        (0..12).map(|_| self.next()).sum::<f64>() - 6.0
    }
}

pub(crate) fn situation(model: &str, compiler: &str, threads: f64) -> Situation {
    Situation {
        workload: Workload {
            model: Some(model.to_owned()),
            parameters: Some(1_199_882),
            dataset: Some("mnist".to_owned()),
            samples: Some(60_000),
            batch_size: Some(128),
            epochs: Some(12),
            precision: Some("fp32".to_owned()),
            flops_per_sample: None,
        },
        framework: Framework {
            name: Some("tensorflow".to_owned()),
            version: Some("2.1.0".to_owned()),
            compiler: Some(compiler.to_owned()),
            provenance: Some(Provenance::Pip),
        },
        image: None,
        hardware: Hardware {
            cpu_model: Some("Xeon".to_owned()),
            threads: Some(threads),
            ..Hardware::default()
        },
        nodes: 1,
        tasks_per_node: 1,
        storage: Some(StorageClass::Ssd),
        numbers: std::collections::BTreeMap::new(),
    }
}

fn run(situation: Situation, epoch: Length) -> Observation {
    Observation {
        run_id: RunId::from_random([1; 10]),
        element: 0,
        attempt: 0,
        at_ms: 1_790_000_000_000,
        scheduler: SchedulerKind::Slurm,
        queue: Some("batch".to_owned()),
        situation,
        epoch_seconds: Some(epoch),
        epochs: 11,
        between_seconds: None,
        outside_seconds: Some(Length::Known(6.0)),
        wall_seconds: None,
        memory_bytes: None,
        doubts: Doubts::default(),
    }
}

pub(crate) fn known(situation: &Situation, seconds: f64) -> Observation {
    run(situation.clone(), Length::Known(seconds))
}

pub(crate) fn fit(runs: impl IntoIterator<Item = Observation>) -> Model {
    Model::fit(runs, &Priors::none()).expect("there is something to learn from")
}

fn median(model: &Model, situation: &Situation) -> f64 {
    model.forecast(situation).time().expect("a time").median
}

/// The ratio of an interval's ends.
fn width(model: &Model, situation: &Situation) -> f64 {
    let interval = model.forecast(situation).time().copied().expect("a time");
    interval.high / interval.low
}

fn effect(explanation: &Explanation, of: impl Fn(&LearnedEffect) -> bool) -> &LearnedEffect {
    let found = explanation.effects.iter().find(|effect| of(effect));
    found.unwrap_or_else(|| panic!("{:#?}", explanation.effects))
}

#[test]
fn planted_coefficients_are_recovered() {
    let mut dice = Dice(5);
    let mut runs = Vec::new();
    for (at, model) in ["alpha", "beta", "gamma", "delta", "epsilon"]
        .into_iter()
        .enumerate()
    {
        for repeat in 0..24_u32 {
            let threads = f64::from(1 << (repeat % 5));
            let compiler = if repeat % 3 == 0 { "xla" } else { "none" };
            let mut situation = situation(model, compiler, threads);
            situation.nodes = 1 << (repeat / 5 % 4);
            let nodes = f64::from(situation.nodes);
            let seconds = (f64::from(u32::try_from(at).expect("few")) * 0.5
                - 0.7 * threads.ln()
                - 0.9 * nodes.ln())
            .exp()
                * if compiler == "xla" { 1.7 } else { 1.0 }
                * if nodes > 1.0 { 1.3 } else { 1.0 }
                * 20.0
                * (0.03 * dice.normal()).exp();
            runs.push(known(&situation, seconds));
        }
    }
    let model = fit(runs);
    let explanation = model.explanation();
    let found = effect(&explanation, |effect| {
        effect.kind == "compiler" && effect.workload.is_none()
    });
    let ratio = found.time_ratio;
    assert!((ratio.median / 1.7).ln().abs() < 0.08, "{found:?}");
    assert!(ratio.low < 1.7 && 1.7 < ratio.high, "{found:?}");
    assert_eq!((found.runs_this, found.runs_than), (40, 80), "{found:?}");
    // A step at the node boundary, then the slope: what one parameter cannot hold.
    let at = |nodes: u32| {
        median(
            &model,
            &Situation {
                nodes,
                ..situation("alpha", "none", 4.0)
            },
        )
    };
    for (nodes, expected) in [(2, 1.3 * 2_f64.powf(-0.9)), (8, 1.3 * 8_f64.powf(-0.9))] {
        assert!(
            (at(nodes) / at(1) / expected).ln().abs() < 0.06,
            "{nodes}: {} for {expected}",
            at(nodes) / at(1)
        );
    }
    assert!(
        (model.head().noise_sd.expect("it is known") - 0.03).abs() < 0.015,
        "{:?}",
        model.head()
    );
}

#[test]
fn the_sign_of_a_compiler_turns_with_the_network() {
    let mut runs = Vec::new();
    for repeat in 0..5 {
        let noise = 1.0 + 0.01 * f64::from(repeat);
        for (model, compiler, seconds) in [
            ("cnn", "none", 1.8),
            ("cnn", "xla", 3.1),
            ("mlp", "none", 1.2),
            ("mlp", "xla", 0.65),
        ] {
            runs.push(known(&situation(model, compiler, 2.0), seconds * noise));
        }
    }
    let model = fit(runs);
    let ratio = |name| {
        median(&model, &situation(name, "xla", 2.0)) / median(&model, &situation(name, "none", 2.0))
    };
    assert!((ratio("cnn") - 3.1 / 1.8).abs() < 0.1 && (ratio("mlp") - 0.65 / 1.2).abs() < 0.05);
    let forecast = model.forecast(&situation("cnn", "xla", 2.0));
    assert_eq!((forecast.basis, forecast.runs), (Basis::Alike, 5));
    assert!(
        forecast.time().expect("a time").low < 3.1 && 3.1 < forecast.time().expect("a time").high,
        "{forecast:?}"
    );
    // A network that was never run: nobody knows which way it goes.
    let unknown = model.forecast(&situation("new", "xla", 2.0));
    assert_eq!((unknown.basis, unknown.runs), (Basis::Software, 10));
    assert!(
        unknown.time().expect("a time").high / unknown.time().expect("a time").low > 4.0,
        "{unknown:?}"
    );
}

#[test]
fn outliers_and_doubtful_runs_move_little_and_contradictions_widen() {
    let base = situation("cnn", "none", 2.0);
    let steady = |count: u32| {
        (0..count).map(|at| {
            known(
                &situation("cnn", "none", 2.0),
                10.0 + 0.1 * f64::from(at % 5),
            )
        })
    };
    let plain = fit(steady(20));
    let outlier = fit(steady(20).chain([known(&base, 100.0)]));
    assert!((median(&outlier, &base) / median(&plain, &base)).ln().abs() < 0.02);
    let doubtful = |seconds: f64| Observation {
        doubts: Doubts {
            others_busy: true,
            ..Doubts::default()
        },
        ..known(&base, seconds)
    };
    let some = (0..6).map(|_| 14.0);
    let trusted = fit(steady(6).chain(some.clone().map(|seconds| known(&base, seconds))));
    let doubted = fit(steady(6).chain(some.map(doubtful)));
    assert!(median(&doubted, &base) < median(&trusted, &base) - 0.5);
    let contradictory = fit((0..20).map(|at| known(&base, if at % 2 == 0 { 5.0 } else { 20.0 })));
    assert!(width(&contradictory, &base) > 3.0 && width(&plain, &base) < 1.4);
    let interval = contradictory
        .forecast(&base)
        .time()
        .copied()
        .expect("a time");
    assert!(interval.low <= 5.5 && interval.high >= 18.0, "{interval:?}");
}

#[test]
fn runs_that_were_cut_off_pull_up_and_are_never_averaged_in() {
    let base = situation("cnn", "none", 2.0);
    let measured =
        || (0..4).map(|at| known(&situation("cnn", "none", 2.0), 10.0 + 0.2 * f64::from(at)));
    let cut = |seconds| run(situation("cnn", "none", 2.0), Length::AtLeast(seconds));
    let plain = median(&fit(measured()), &base);
    let early = median(&fit(measured().chain((0..4).map(|_| cut(0.5)))), &base);
    assert!((early / plain).ln().abs() < 0.01, "{early} for {plain}");
    let late = median(&fit(measured().chain((0..4).map(|_| cut(14.0)))), &base);
    assert!(late > plain * 1.05, "{late} for {plain}");
    // Nothing but bounds: above them, and wide.
    let bounds = fit((0..3).map(|_| cut(30.0)));
    let interval = bounds.forecast(&base).time().copied().expect("a time");
    assert!(
        interval.median > 30.0 && interval.high > 2.0 * interval.median,
        "{interval:?}"
    );
    assert_eq!(bounds.head().counts.cut_off, 3);
}

#[test]
fn published_effects_speak_where_nothing_was_measured_and_are_overruled() {
    let (with, without) = (
        situation("resnet50", "xla", 8.0),
        situation("resnet50", "none", 8.0),
    );
    let priors = Priors {
        effects: vec![Effect {
            name: "xla".to_owned(),
            a: Situation {
                image: None,
                ..with.clone()
            },
            b: without.clone(),
            time_ratio: 0.7,
            sd: 0.15,
            source: "a test".to_owned(),
        }],
    };
    let ratio = |model: &Model| median(model, &with) / median(model, &without);
    let few = || (0..3).map(|_| known(&situation("resnet50", "none", 8.0), 5.0));
    let before = Model::fit(few(), &priors).expect("runs");
    assert!((ratio(&before) - 0.7).abs() < 0.12, "{}", ratio(&before));
    assert!((ratio(&fit(few())) - 1.0).abs() < 0.05);
    let after = Model::fit(few().chain((0..3).map(|_| known(&with, 8.0))), &priors).expect("runs");
    assert!((ratio(&after) - 1.6).abs() < 0.1, "{}", ratio(&after));
    let explanation = after.explanation();
    let shared = effect(&explanation, |effect| {
        effect.kind == "compiler" && effect.workload.is_none()
    });
    assert!(shared.time_ratio.median > 0.7, "{shared:?}");
    assert_eq!((shared.runs_this, shared.runs_than), (3, 3));
    assert_ne!(
        before.head().name,
        fit(few()).head().name,
        "other priors make another model"
    );
}

#[test]
fn a_forecast_says_what_it_rests_on_and_how_far_outside_it_lies() {
    let base = situation("cnn", "none", 2.0);
    let model = fit((0..4).map(|_| known(&situation("cnn", "none", 2.0), 10.0)));
    assert_eq!(model.forecast(&base).beyond, Vec::<String>::new());
    let mut far = base.clone();
    far.workload.batch_size = Some(1024);
    far.framework.compiler = Some("glow".to_owned());
    far.framework.version = Some("9.0".to_owned());
    far.nodes = 4;
    let forecast = model.forecast(&far);
    assert_eq!(
        forecast.beyond,
        [
            "version 9.0 was never measured",
            "compiler glow was never measured",
            "the batch size of a worker, 256, is 2 times the largest measured with this workload, 128",
            "the number of workers, 4, is 4 times the largest measured with this workload, 1",
            "the number of nodes, 4, is 4 times the largest measured with this workload, 1",
        ]
    );
    assert_eq!((forecast.basis, forecast.runs), (Basis::Workload, 4));
    assert!(width(&model, &far) > 1.5 * width(&model, &base));
    let mut other = situation("other", "none", 2.0);
    assert_eq!(model.forecast(&other).basis, Basis::Software);
    other.framework.name = Some("jax".to_owned());
    assert_eq!(model.forecast(&other).basis, Basis::Priors);
}

#[test]
fn a_whole_run_is_epochs_and_what_is_around_them() {
    let full = |at: u32| Observation {
        between_seconds: Some(0.4 + 0.01 * f64::from(at)),
        outside_seconds: Some(Length::Known(20.0 + f64::from(at % 3))),
        wall_seconds: Some(Length::Known(150.0)),
        memory_bytes: Some(2_000_000_000 + 1_000_000 * u64::from(at)),
        ..known(
            &situation("cnn", "none", 2.0),
            10.0 + 0.1 * f64::from(at % 4),
        )
    };
    let model = fit((0..8).map(full));
    let base = situation("cnn", "none", 2.0);
    let forecast = model.forecast(&base);
    let total = forecast.total_seconds.expect("the epochs are told");
    assert!(
        (total.median - (12.0 * (10.1 + 0.43) + 21.0)).abs() < 3.0
            && total.low < 146.0
            && total.high > 147.0,
        "{total:?}"
    );
    let memory = forecast.memory_bytes.expect("it was measured");
    assert!(
        (memory.median / 2.0e9).ln().abs() < 0.02 && memory.high > 2.0e9,
        "{memory:?}"
    );
    let mut one = base.clone();
    one.workload.epochs = Some(1);
    let single = model.forecast(&one).total_seconds.expect("one epoch");
    assert!(
        (single.median - (10.1 + 0.43 + 21.0)).abs() < 1.0,
        "{single:?}"
    );
    one.workload.epochs = None;
    assert_eq!(model.forecast(&one).total_seconds, None);
    // A program that tells no epochs is forecast whole.
    let silent = |at: u32| Observation {
        epoch_seconds: None,
        wall_seconds: Some(Length::Known(300.0 + f64::from(at))),
        ..known(&situation("silent", "none", 2.0), 1.0)
    };
    let mixed = fit((0..6).map(silent).chain((0..4).map(full)));
    let whole = mixed.forecast(&situation("silent", "none", 2.0));
    assert!(
        (whole.total_seconds.expect("whole").median - 302.0).abs() < 8.0,
        "{whole:?}"
    );
    assert_eq!(
        (whole.epoch_seconds, whole.time_of()),
        (None, "the whole run"),
        "nobody knows its epochs"
    );
    assert_eq!(
        (whole.basis, whole.runs, mixed.head().counts.whole_runs),
        (Basis::Alike, 6, 6)
    );
    assert!((mixed.forecast(&base).time().expect("a time").median - 10.1).abs() < 0.5);
}

#[test]
fn no_runs_and_no_times_are_refused_and_useless_values_are_counted() {
    assert_eq!(
        Model::fit([], &Priors::built_in()).err(),
        Some(Unfit::NoRuns)
    );
    let base = situation("cnn", "none", 2.0);
    let useless = || {
        let seconds = [f64::NAN, 0.0, -4.0, f64::INFINITY];
        (0..).zip(seconds).map(|(element, seconds)| Observation {
            element,
            ..known(&situation("cnn", "none", 2.0), seconds)
        })
    };
    let Err(refusal @ Unfit::NothingTimed { runs: 4, .. }) = Model::fit(useless(), &Priors::none())
    else {
        panic!("four runs without a time")
    };
    assert_eq!(
        refusal.to_string(),
        "none of 4 runs has usable timings: 4 unusable epoch_seconds"
    );
    let model = fit(useless().chain([known(&base, 3.0)]));
    assert_eq!(model.head().counts.left_out.get("epoch_seconds"), Some(&4));
    // One run: its own time, and wide.
    let interval = model.forecast(&base).time().copied().expect("a time");
    assert!(
        (interval.median / 3.0).ln().abs() < 0.02 && interval.high / interval.low > 1.2,
        "{interval:?}"
    );
}

#[test]
fn the_order_of_runs_does_not_matter() {
    let mut dice = Dice(11);
    let mut runs: Vec<Observation> = (0..60)
        .map(|at| {
            let base = situation(
                ["a", "b", "c"][at % 3],
                ["none", "xla"][at % 2],
                f64::from(1 << (at % 4)),
            );
            known(&base, 5.0 + dice.next())
        })
        .collect();
    let model = fit(runs.clone());
    runs.reverse();
    runs.swap(3, 40);
    assert!(fit(runs.clone()).to_bytes() == model.to_bytes());
    runs.pop();
    assert_ne!(fit(runs).head().name, model.head().name);
}

#[test]
fn a_model_file_is_read_whole_or_refused() {
    let base = situation("cnn", "none", 2.0);
    let mut first = known(&base, 3.0);
    first.situation.hardware.figures = Some(NodeFigures {
        core_gflops: 40.0,
        node_gflops: 80.0,
        memory_gb_per_second: 20.0,
        disk_mb_per_second: None,
        measured_at_ms: 5,
    });
    let model = fit([first, known(&situation("cnn", "xla", 2.0), 4.0)]).with_made_at(77);
    let bytes = model.to_bytes();
    let read = Model::from_bytes(&bytes).expect("what was written");
    assert_eq!(
        (read.head(), read.to_bytes() == bytes),
        (model.head(), true)
    );
    assert_eq!(read.forecast(&base), model.forecast(&base));
    assert_eq!(read.explanation(), model.explanation());
    assert_eq!(read.head().made_at_ms, Some(77));
    assert_eq!(read.compilers_of("TensorFlow"), ["none", "xla"]);
    let met = |queue: &str| read.hardware_met(SchedulerKind::Slurm, &[Some(queue)], false);
    let [kind] = &met("batch").kinds[..] else {
        panic!("{:?}", met("batch"))
    };
    assert_eq!(
        (
            kind.hardware.cpu_model.as_deref(),
            kind.hardware.threads,
            kind.hardware.figures.is_some(),
            kind.runs
        ),
        (Some("Xeon"), None, true, 2)
    );
    assert!(met("batch").of_queue && !met("gpu").of_queue);
    assert_eq!(
        met("gpu").kinds,
        met("batch").kinds,
        "where nobody ran, what the scheduler has"
    );
    for end in (0..bytes.len()).step_by(97) {
        assert!(Model::from_bytes(&bytes[..end]).is_err(), "{end}");
    }
    let mut damaged = bytes.clone();
    *damaged.last_mut().expect("it is not empty") ^= 1;
    assert!(matches!(
        Model::from_bytes(&damaged),
        Err(Unreadable::Damaged(_))
    ));
    let end = bytes
        .iter()
        .position(|byte| *byte == b'\n')
        .expect("a first line");
    for at in (0..bytes.len()).step_by(7).chain(0..end) {
        let mut flipped = bytes.clone();
        flipped[at] ^= 1;
        assert!(Model::from_bytes(&flipped).is_err(), "{at}");
    }
    let line = std::str::from_utf8(&bytes[..end]).expect("JSON");
    let text = format!("\"dlrun_model\":{}", dlrun::learn::model::MODEL_FORMAT);
    assert_eq!(
        Model::from_bytes(line.replacen(&text, "\"dlrun_model\":999", 1).as_bytes())
            .expect_err("another format")
            .to_string(),
        "it has format 999; this dlrun reads format 9"
    );
    assert_eq!(
        Model::from_bytes(b"SQLite format 3\0").err(),
        Some(Unreadable::NoModel)
    );
}

/// A file that dlrun 0.1 wrote: another is fitted.
#[test]
fn a_model_of_an_older_dlrun_is_known_as_such() {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/fixtures/model/format-2.model");
    let read = Model::from_bytes(&std::fs::read(path).expect("it is there"));
    assert_eq!(read.err(), Some(Unreadable::Older { found: 2 }));
}

/// If this fails, the form of the file has changed: `MODEL_FORMAT` counts up, and a new file takes the place of this one.
#[test]
fn a_model_of_this_format_is_read_as_it_was_written() {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/fixtures/model/format-9.model");
    let bytes = std::fs::read(path).expect("it is there");
    let read = Model::from_bytes(&bytes).expect("of this format");
    assert_eq!(read.to_bytes(), bytes);
    let asked = situation("net", "none", 2.0);
    let seconds = read.forecast(&asked).epoch_seconds.expect("an epoch");
    assert!((2.8..3.2).contains(&seconds.median), "{seconds:?}");
    assert!(read.forecast(&asked).shift.is_some());
}

/// Six runs of a configuration, and then four of another level.
fn shifted() -> Model {
    let asked = situation("net", "none", 2.0);
    let level = |at: u64| if at < 6 { 2.0 } else { 3.0 };
    let run = |at: u64| Observation {
        at_ms: 1000 * at,
        ..known(&asked, level(at) * (1.0 + 0.001 * (at % 3) as f64))
    };
    fit((1..=10).map(run).collect::<Vec<_>>())
}

/// The model in a file that somebody changed, with a checksum that is right.
fn patched(model: &Model, at: usize, with: &[u8]) -> Model {
    let mut bytes = model.to_bytes();
    bytes[at..at + with.len()].copy_from_slice(with);
    let end = bytes.len() - 4;
    let sum = crc32fast::hash(&bytes[..end]);
    bytes[end..].copy_from_slice(&sum.to_le_bytes());
    Model::from_bytes(&bytes).expect("whole")
}

/// A file may be anybody's. 30,000 equal places of a workload once asked for 7 GB, and as many of a row took minutes.
#[test]
fn places_that_come_twice_make_a_workload_unmeasured() {
    let (asked, model) = (situation("net", "none", 2.0), shifted());
    let width = |model: &Model| {
        let time = *model.forecast(&asked).time().expect("a time");
        time.high / time.low
    };
    let bytes = model.to_bytes();
    let (of_workload, of_row) = ([0, 1, 2], [0, 3, 4]);
    for places in [of_workload, of_row] {
        let found = bytes.windows(3).position(|three| three == places);
        let twice = [places[1], places[1]];
        let read = patched(&model, found.expect("they are there") + 1, &twice);
        assert!(width(&read) > 1.5 * width(&model), "{places:?} are used");
    }
}

/// JSON, in which forecasts are recorded, has no such numbers: a run's record could not be read again.
#[test]
fn a_shift_by_no_number_is_none() {
    let (asked, model) = (situation("net", "none", 2.0), shifted());
    let shift = model.forecast(&asked).shift.expect("a shift");
    let ratio = shift.time_ratio.to_le_bytes();
    let bytes = model.to_bytes();
    let at = bytes.windows(8).position(|eight| eight == ratio);
    for number in [f64::NAN, f64::INFINITY] {
        let read = patched(&model, at.expect("it is there"), &number.to_le_bytes());
        assert_eq!(read.forecast(&asked).shift, None);
    }
}
