//! Random histories of several workloads beside a job: what acts, and what does not.

use std::sync::atomic::{AtomicU64, Ordering};

use proptest::prelude::*;

use super::*;
use crate::record::{Asked, Input, Revision};

fn job(epochs: f64) -> Identity {
    Identity {
        key: "train.py-01".into(),
        program: "python".into(),
        script: Some("/home/u/train.py".into()),
        script_digest: Some("d1".into()),
        numbers: [("epochs".to_owned(), epochs), ("batch".to_owned(), 32.0)].into(),
        inputs: vec![Input {
            path: "/data/a".into(),
            ..Input::default()
        }],
        environment: "host".into(),
        asked: Asked {
            queue: Some("gpu".into()),
            nodes: 1,
            tasks_per_node: 1,
            ..Asked::default()
        },
        ..Identity::default()
    }
}

#[test]
fn an_argument_beyond_those_of_the_runs_is_named_and_widens_a_forecast_of_epochs() {
    let with = |hidden: f64| {
        let mut identity = job(5.0);
        identity.numbers.insert("hidden".into(), hidden);
        identity
    };
    let runs = [64.0, 128.0].map(|hidden| past(with(hidden), 10.0, JobState::Completed));
    let history = history(runs.into());
    let unlike = |hidden: f64| {
        let job = with(hidden);
        Ladder::new(&job, SchedulerKind::Slurm, &history).unlike
    };
    assert_eq!([unlike(64.0), unlike(100.0)], [vec![], vec![]]);
    let far = unlike(1280.0);
    let found = Unlike {
        name: "hidden".into(),
        asked: 1280.0,
        ran: (64.0, 128.0),
    };
    assert_eq!(far, [found]);
    let second = crate::record::Interval {
        mean: 1.0,
        median: 1.0,
        low: 0.5,
        high: 2.0,
    };
    let forecast = crate::record::Forecast {
        basis: crate::record::Basis::Alike,
        epoch_seconds: Some(second),
        ..Default::default()
    };
    let candidate = crate::plan::Candidate {
        forecast: Some(forecast),
        ..Default::default()
    };
    let mut prospect = crate::plan::candidates::Prospect {
        candidates: vec![candidate],
        ..Default::default()
    };
    prospect.widen(&far);
    let forecast = prospect.forecast().expect("it has one");
    let wide = forecast
        .epoch_seconds
        .map(|it| (it.low, it.median, it.high));
    assert_eq!(wide, Some((0.05, 1.0, 20.0)));
    assert_eq!(forecast.basis, crate::record::Basis::Workload);
    assert_eq!(
        forecast.beyond,
        ["the argument `hidden` is 1280, and the runs had 64 to 128"]
    );
}

/// Each call another run.
fn another() -> RunId {
    static LAST: AtomicU64 = AtomicU64::new(0);
    let mut bits = [0; 10];
    bits[2..].copy_from_slice(&LAST.fetch_add(1, Ordering::Relaxed).to_be_bytes());
    RunId::from_random(bits)
}

fn past(identity: Identity, seconds: f64, state: JobState) -> Past {
    Past {
        run_id: another(),
        at_ms: 0,
        identity,
        scheduler: SchedulerKind::Slurm,
        host: "login".into(),
        state,
        wall_seconds: Some(seconds),
        memory_bytes: Some(1 << 30),
    }
}

fn history(past: Vec<Past>) -> History {
    History {
        host: "login".into(),
        past,
        unread: None,
    }
}

fn ladder<'a>(job: &'a Identity, history: &'a History) -> Ladder<'a> {
    Ladder::new(job, SchedulerKind::Slurm, history)
}

fn at_least(job: &Identity, past: Vec<Past>) -> Option<f64> {
    ladder(job, &history(past))
        .seconds()
        .map(|needed| needed.at_least)
}

const DONE: JobState = JobState::Completed;

#[test]
fn change_before_last_runs_is_named_where_it_was_recorded() {
    let with = |digest: &str, commit: &str| {
        let git = Some(Revision {
            commit: commit.repeat(10),
            branch: None,
            dirty: false,
        });
        let identity = Identity {
            script_digest: Some(digest.into()),
            git,
            ..job(5.0)
        };
        past(identity, 300.0, DONE)
    };
    let (old, new) = (|| with("d1", "aaaa"), || with("d2", "bbbb"));
    // A run of another configuration and one that failed lie between.
    let other = Identity {
        numbers: [("epochs".to_owned(), 9.0)].into(),
        ..job(5.0)
    };
    let failed = past(job(5.0), 3.0, JobState::Failed);
    let mut past = vec![old(), past(other, 9.0, DONE), old(), failed, new(), new()];
    (1..)
        .zip(&mut past)
        .for_each(|(at_ms, past)| past.at_ms = at_ms);
    let history = history(past);
    let job = job(5.0);
    let ladder = ladder(&job, &history);
    let since = "since the script was edited, commit bbbbbbb";
    let shift = |between_ms| Shift {
        runs: 1,
        before: 3,
        time_ratio: 1.5,
        between_ms,
    };
    assert_eq!(ladder.changed(shift([3, 5])).as_deref(), Some(since));
    // The last two are alike, the others are not recorded here; of 0 and 0 it is not known when.
    for between_ms in [[5, 6], [3, 7], [0, 0]] {
        assert_eq!(ladder.changed(shift(between_ms)), None, "{between_ms:?}");
    }
    assert_eq!(
        ladder.repeats(Some(shift([3, 5]))).map(|found| found.2),
        Some(2)
    );
}

#[test]
fn repeats_hold_a_run_that_its_limit_cut_off_and_none_that_failed() {
    let runs = [
        (32.0, DONE),
        (303.0, JobState::Timeout),
        (900.0, JobState::Failed),
    ];
    let history = history(
        runs.map(|(seconds, state)| past(job(5.0), seconds, state))
            .to_vec(),
    );
    let repeats = ladder(&job(5.0), &history).repeats(None);
    assert_eq!(repeats, Some((32.0, 303.0, 2)));
    let cut_off = past(job(5.0), 303.0, JobState::Timeout);
    let history = self::history(vec![cut_off]);
    let job = job(5.0);
    let ladder = ladder(&job, &history);
    assert_eq!(
        (ladder.repeats(None), ladder.longest_cut_off()),
        (None, Some(303.0))
    );
}

#[test]
fn two_runs_of_which_one_completed_are_needed() {
    let run = |seconds, state| past(job(5.0), seconds, state);
    assert_eq!(at_least(&job(5.0), vec![]), None);
    assert_eq!(at_least(&job(5.0), vec![run(300.0, DONE)]), None);
    assert_eq!(
        at_least(
            &job(5.0),
            vec![
                run(300.0, JobState::Failed),
                run(200.0, JobState::Cancelled)
            ]
        ),
        None
    );
    assert_eq!(
        at_least(&job(5.0), vec![run(300.0, DONE), run(335.0, DONE)]),
        Some(335.0)
    );
    assert_eq!(
        at_least(
            &job(5.0),
            vec![run(300.0, DONE), run(900.0, JobState::Cancelled)]
        ),
        Some(900.0)
    );
}

/// Runs that differ from `job(5.0)`, and how they differ.
fn others() -> [(Identity, &'static str); 11] {
    let base = || job(5.0);
    let other_inputs = vec![Input {
        path: "/data/b".into(),
        ..Input::default()
    }];
    let more = Asked {
        nodes: 2,
        ..base().asked
    };
    let elsewhere = Asked {
        queue: Some("cpu".into()),
        ..base().asked
    };
    [
        (
            Identity {
                script_digest: Some("d2".into()),
                ..base()
            },
            "the script was edited since",
        ),
        (
            Identity {
                script_digest: None,
                ..base()
            },
            "the script was edited since",
        ),
        (
            Identity {
                inputs: other_inputs,
                ..base()
            },
            "the data are others",
        ),
        (
            Identity {
                environment: "image x".into(),
                ..base()
            },
            "the environment is another",
        ),
        (
            Identity {
                asked: more,
                ..base()
            },
            "the size or the queue is another",
        ),
        (
            Identity {
                asked: elsewhere,
                ..base()
            },
            "the size or the queue is another",
        ),
        (job(4.0), "epochs is 5 where 4 ran"),
        (job(6.0), "epochs is 5 where 6 ran"),
        (
            Identity {
                key: "train.py-02".into(),
                ..base()
            },
            "with other arguments",
        ),
        (
            Identity {
                key: "x-1".into(),
                script: None,
                ..base()
            },
            "with other arguments",
        ),
        (
            Identity {
                key: "x-1".into(),
                script: None,
                program: "lmp".into(),
                ..base()
            },
            "no run of this program",
        ),
    ]
}

#[test]
fn anything_else_of_the_run_does_not_act() {
    for (other, why) in others() {
        let history = history(vec![
            past(other.clone(), 60.0, DONE),
            past(other, 60.0, DONE),
        ]);
        let job = job(5.0);
        let ladder = ladder(&job, &history);
        assert!(
            ladder.seconds().is_none()
                && ladder.bytes().is_none()
                && ladder.repeats(None).is_none(),
            "{why}"
        );
        let nearest = ladder.why_unknown();
        assert!(nearest.contains(why), "{why}: {nearest}");
    }
}

#[test]
fn local_runs_count_on_their_host_alone() {
    let job = job(5.0);
    let local = |host: &str| Past {
        scheduler: SchedulerKind::Local,
        host: host.into(),
        ..past(job.clone(), 60.0, DONE)
    };
    let acts = |host: &str| {
        let history = history(vec![local(host), local(host)]);
        Ladder::new(&job, SchedulerKind::Local, &history)
            .seconds()
            .is_some()
    };
    assert!(acts("login") && !acts("laptop"));
}

#[test]
fn numbers_within_the_range_are_scaled_up_and_never_down() {
    let runs = vec![past(job(5.0), 100.0, DONE), past(job(20.0), 200.0, DONE)];
    assert_eq!(at_least(&job(10.0), runs.clone()), Some(200.0));
    assert_eq!(
        at_least(&job(19.0), runs),
        Some(380.0),
        "5 epochs took 100 s"
    );
}

#[test]
fn numbers_that_ran_apart_do_not_speak_for_both_together() {
    let sized = |width: f64, depth: f64| {
        let mut identity = job(10.0);
        let numbers = [("--width", width), ("--depth", depth)];
        let numbers = numbers.map(|(name, number)| (name.to_owned(), number));
        identity.numbers.extend(numbers);
        identity
    };
    let ran = |sizes: [(f64, f64); 2]| {
        let past = |(width, depth)| past(sized(width, depth), 100.0, JobState::Completed);
        at_least(&sized(40.0, 40.0), sizes.map(past).to_vec())
    };
    assert_eq!(ran([(1.0, 40.0), (40.0, 1.0)]), None);
    assert_eq!(ran([(1.0, 1.0), (40.0, 40.0)]), Some(100.0));
}

#[test]
fn longer_runs_do_not_count_where_shorter_ones_are_enough() {
    let of = |epochs, batch: f64| {
        let mut job = job(epochs);
        let _ = job.numbers.insert("batch".to_owned(), batch);
        job
    };
    let mut runs = vec![
        past(of(27.0, 16.0), 270.0, DONE),
        past(of(3.0, 16.0), 30.0, DONE),
    ];
    assert_eq!(at_least(&of(3.0, 32.0), runs.clone()), None, "32 never ran");
    runs.push(past(of(27.0, 64.0), 260.0, DONE));
    let asked = of(3.0, 32.0);
    assert_eq!(
        at_least(&asked, runs.clone()),
        Some(270.0),
        "of 3 epochs 16 alone ran"
    );
    runs.push(past(of(3.0, 64.0), 35.0, DONE));
    assert_eq!(at_least(&asked, runs.clone()), Some(35.0));
    let history = history(runs);
    let needed = ladder(&asked, &history).seconds().expect("enough");
    assert_eq!(needed.numbers, Numbers::NoLarger);
    // One that had the job's own numbers, but for its epochs, took long: the job's share of it counts.
    let mut runs = history.past;
    runs.push(past(of(27.0, 32.0), 27_000.0, DONE));
    assert_eq!(at_least(&asked, runs), Some(3_000.0));
}

#[test]
fn what_was_cut_off_raises_what_comes_next() {
    let cut = |limit: u64| {
        let mut identity = job(5.0);
        identity.asked.walltime_seconds = Some(limit);
        past(identity, limit as f64 + 3.0, JobState::Timeout)
    };
    let mut runs = vec![past(job(5.0), 100.0, DONE), past(job(5.0), 100.0, DONE)];
    let mut limit = 300;
    for _ in 0..6 {
        runs.push(cut(limit));
        let needed = at_least(&job(5.0), runs.clone()).expect("it acts");
        assert!(needed >= 2.0 * limit as f64, "{needed} after {limit}");
        limit *= 3;
    }
    let mut starved = past(job(5.0), 50.0, JobState::OutOfMemory);
    starved.identity.asked.memory_bytes = Some(4 << 30);
    runs.push(starved);
    let job = job(5.0);
    let history = history(runs);
    let bytes = ladder(&job, &history).bytes().expect("it acts");
    assert_eq!(
        (bytes.at_least, bytes.cut_off),
        (1.5 * f64::from(1_u32 << 31) * 2.0, 1)
    );
}

/// A run of one of several workloads.
fn some_past() -> impl Strategy<Value = Past> {
    let workload = prop_oneof![
        Just("train.py-01"),
        Just("train.py-02"),
        Just("other.py-03")
    ];
    let state = prop_oneof![
        4 => Just(DONE), 1 => Just(JobState::Failed), 1 => Just(JobState::Timeout), 1 => Just(JobState::Cancelled)
    ];
    (
        workload,
        1_u32..6,
        1.0..1000.0,
        state,
        0_u8..8,
        prop::option::weighted(0.9, Just(())),
        60_u64..2000,
    )
        .prop_map(|(key, epochs, seconds, state, change, measured, limit)| {
            let mut identity = Identity {
                key: key.into(),
                ..job(f64::from(epochs))
            };
            match change {
                0 => identity.script_digest = Some("edited".into()),
                1 => identity.inputs.clear(),
                2 => identity.environment = "image".into(),
                3 => identity.asked.nodes = 4,
                _ => {}
            }
            identity.asked.walltime_seconds = Some(limit);
            let run = past(identity, seconds, state);
            Past {
                wall_seconds: measured.map(|()| seconds),
                ..run
            }
        })
}

proptest! {
    #[test]
    fn nothing_acts_but_runs_that_are_alike(past in prop::collection::vec(some_past(), 0..24), epochs in 1_u32..7) {
        let job = job(f64::from(epochs));
        let alike: Vec<&Past> = past.iter().filter(|past| {
            let Identity { key, script_digest, inputs, environment, asked, .. } = &past.identity;
            *key == job.key && *script_digest == job.script_digest && *inputs == job.inputs
                && *environment == job.environment && asked.nodes == 1
        }).collect();
        let measured: Vec<&&Past> = alike.iter().filter(|past| past.wall_seconds.is_some() || past.state == JobState::Timeout).collect();
        let completed = measured.iter().filter(|past| past.state == DONE);
        let done = || alike.iter().filter(|past| past.state == DONE).map(|past| past.identity.numbers["epochs"]);
        let is_within = done().any(|ran| ran >= job.numbers["epochs"]) && done().any(|ran| ran <= job.numbers["epochs"]);
        let history = history(past.clone());
        let ladder = ladder(&job, &history);
        let Some(needed) = ladder.seconds() else { return Ok(()) };
        prop_assert!(measured.len() >= 2 && completed.count() >= 1 && is_within);
        // Never below what runs with the job's own numbers took, nor below what cut them off.
        for run in measured.iter().filter(|past| past.identity.numbers == job.numbers) {
            prop_assert!(needed.at_least >= run.wall_seconds.unwrap_or(0.0));
            if run.state == JobState::Timeout {
                let limit = run.identity.asked.walltime_seconds.unwrap_or(0) as f64;
                prop_assert!(needed.at_least >= 2.0 * limit);
            }
        }
        // Runs of other workloads change nothing.
        let own = super::tests::history(alike.into_iter().cloned().collect());
        prop_assert_eq!(super::tests::ladder(&job, &own).seconds(), Some(needed));
    }
}
