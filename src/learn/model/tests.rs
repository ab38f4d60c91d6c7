//! Any observations at all: none may end the program, and every answer is a number.

use proptest::prelude::*;

use super::solution::Predicted;
use super::{Doubts, Hardware, Length, Model, Observation, Priors, Situation};
use crate::job::{Framework, Provenance, RunId, SchedulerKind, StorageClass, Workload};
use crate::record::{Forecast, Interval, NodeFigures};

fn name() -> impl Strategy<Value = Option<String>> {
    let hostile = prop_oneof![
        Just("resnet50".to_owned()),
        Just("none".to_owned()),
        Just("xla".to_owned()),
        Just("2.1.0".to_owned()),
        Just(String::new()),
        Just("a\nb\u{0}'$(id)".to_owned()),
        Just("é".repeat(4096)),
        "\\PC{0,12}",
    ];
    proptest::option::of(hostile)
}

fn seconds() -> impl Strategy<Value = f64> {
    prop_oneof![
        0.01..1e4_f64,
        Just(0.0),
        Just(-3.0),
        Just(f64::NAN),
        Just(f64::INFINITY),
        Just(f64::MAX),
        Just(5e-324)
    ]
}

fn count() -> impl Strategy<Value = u64> {
    prop_oneof![0..10_u64, Just(60_000), Just(u64::MAX)]
}

fn workload() -> impl Strategy<Value = Workload> {
    let sizes = proptest::array::uniform4(proptest::option::of(count()));
    (name(), name(), name(), sizes).prop_map(
        |(model, dataset, precision, [parameters, samples, batch_size, epochs])| Workload {
            model,
            parameters,
            dataset,
            samples,
            flops_per_sample: samples,
            batch_size,
            epochs,
            precision,
        },
    )
}

fn framework() -> impl Strategy<Value = Framework> {
    let provenance = proptest::option::of(proptest::sample::select(vec![
        Provenance::Hub,
        Provenance::Source,
    ]));
    (name(), name(), name(), provenance).prop_map(|(name, version, compiler, provenance)| {
        Framework {
            name,
            version,
            compiler,
            provenance,
        }
    })
}

fn situation() -> impl Strategy<Value = Situation> {
    let figures = (seconds(), seconds()).prop_map(|(rate, bandwidth)| NodeFigures {
        core_gflops: rate,
        node_gflops: rate,
        memory_gb_per_second: bandwidth,
        disk_mb_per_second: None,
        measured_at_ms: 1,
    });
    let hardware = (
        name(),
        proptest::option::of(seconds()),
        name(),
        0..3_u32,
        proptest::option::of(figures),
    );
    let storage = proptest::option::of(Just(StorageClass::Ssd));
    let nodes = prop_oneof![0..4_u32, Just(u32::MAX)];
    (
        workload(),
        framework(),
        name(),
        hardware,
        nodes.clone(),
        nodes,
        storage,
    )
        .prop_map(
            |(
                workload,
                framework,
                image,
                (cpu_model, threads, gpu_model, gpus, figures),
                nodes,
                tasks_per_node,
                storage,
            )| {
                let hardware = Hardware {
                    cpu_model,
                    threads,
                    gpu_model,
                    gpus,
                    figures,
                    ..Hardware::default()
                };
                Situation {
                    workload,
                    framework,
                    image,
                    hardware,
                    nodes,
                    tasks_per_node,
                    storage,
                    numbers: std::collections::BTreeMap::new(),
                }
            },
        )
}

fn length() -> impl Strategy<Value = Option<Length>> {
    proptest::option::of(
        (seconds(), any::<bool>()).prop_map(|(seconds, known)| match known {
            true => Length::Known(seconds),
            false => Length::AtLeast(seconds),
        }),
    )
}

fn observation() -> impl Strategy<Value = Observation> {
    let doubts = any::<[bool; 2]>().prop_map(|[others_busy, resumed]| Doubts {
        others_busy,
        resumed,
        ..Doubts::default()
    });
    let times = (
        length(),
        length(),
        proptest::option::of(seconds()),
        length(),
    );
    (
        situation(),
        times,
        proptest::option::of(count()),
        doubts,
        any::<u8>(),
        name(),
    )
        .prop_map(
            |(
                situation,
                (epoch_seconds, wall_seconds, between_seconds, outside_seconds),
                memory_bytes,
                doubts,
                id,
                queue,
            )| {
                Observation {
                    run_id: RunId::from_random([id; 10]),
                    element: 0,
                    attempt: 0,
                    at_ms: u64::from(id),
                    scheduler: SchedulerKind::Local,
                    queue,
                    situation,
                    epoch_seconds,
                    epochs: 1,
                    between_seconds,
                    outside_seconds,
                    wall_seconds,
                    memory_bytes,
                    doubts,
                }
            },
        )
}

fn check(forecast: &Forecast) {
    let of = |interval: &Interval| {
        let Interval {
            mean,
            median,
            low,
            high,
        } = *interval;
        assert!(
            mean.is_finite() && low >= 0.0 && low <= median && median <= high && high.is_finite(),
            "{interval:?}"
        );
    };
    assert!(forecast.time().is_some());
    let all = [
        &forecast.epoch_seconds,
        &forecast.between_seconds,
        &forecast.outside_seconds,
        &forecast.total_seconds,
        &forecast.memory_bytes,
    ];
    all.into_iter().flatten().for_each(of);
    assert!(serde_json::to_string(forecast).is_ok_and(|text| !text.contains("null,")));
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 24, ..ProptestConfig::default() })]

    #[test]
    fn any_runs_give_a_model_or_a_refusal(
        observations in proptest::collection::vec(observation(), 0..12),
        others in proptest::collection::vec(situation(), 1..4),
    ) {
        let reversed: Vec<Observation> = observations.iter().rev().cloned().collect();
        let asked: Vec<Situation> =
            observations.iter().map(|observation| observation.situation.clone()).chain(others).collect();
        let Ok(model) = Model::fit(observations, &Priors::built_in()) else { return Ok(()) };
        model.forecasts(&asked).iter().for_each(check);
        let again = Model::fit(reversed, &Priors::built_in()).expect("the same runs");
        prop_assert_eq!(model.to_bytes(), again.to_bytes());
        let read = Model::from_bytes(&model.to_bytes()).expect("what was written");
        prop_assert_eq!(read.forecasts(&asked), model.forecasts(&asked));
        prop_assert!(model.explanation().effects.iter().all(|effect| effect.time_ratio.low <= effect.time_ratio.high));
    }
}

#[test]
fn what_leaves_nothing_still_gives_numbers() {
    let numbers = [f64::NAN, f64::INFINITY, f64::NEG_INFINITY, 0.0, 1e300];
    for (mean, sd) in numbers
        .into_iter()
        .flat_map(|mean| numbers.map(|sd| (mean, sd.abs())))
    {
        let shift = None;
        let Interval {
            mean: mid,
            median,
            low,
            high,
        } = Predicted { mean, sd, shift }.interval();
        let all = [mid, median, low, high];
        assert!(all.into_iter().all(f64::is_finite), "{mean} {sd}: {all:?}");
    }
}
