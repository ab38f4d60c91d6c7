//! The detector on made-up courses: signals of a known period, courses that have none, and runs of known phases.
//!
//! Thresholds were chosen while looking at seeds that are no multiples of 3; those that are were kept aside.

use super::*;
use crate::foundation::statistics::Dice;
use crate::record::{
    Epoch, EpochNumbering, GpuReading, HostFacts, MeasureKey, NodeRecord, Sample, StepTimes,
    TimeSource,
};

const PARTS: usize = 10;

fn unit(dice: &mut Dice) -> f64 {
    (dice.bits() >> 11) as f64 / (1_u64 << 53) as f64
}

fn between(dice: &mut Dice, low: f64, high: f64) -> f64 {
    low + (high - low) * unit(dice)
}

/// A draw from the normal distribution, by a sum of twelve.
fn normal(dice: &mut Dice) -> f64 {
    (0..12).map(|_| unit(dice)).sum::<f64>() - 6.0
}

/// Tenths of a second to seconds, as a driver averages, in whole percent, with noise.
fn seconds(tenths: &[f64], noise: f64, dice: &mut Dice) -> Vec<f64> {
    tenths
        .chunks(PARTS)
        .map(|part| {
            let mean = part.iter().sum::<f64>() / part.len() as f64;
            (mean + noise * normal(dice)).clamp(0.0, 100.0).round()
        })
        .collect()
}

/// A signal whose period is `period` seconds.
fn repeating(
    shape: usize,
    period: f64,
    duty: f64,
    jitter: f64,
    count: usize,
    dice: &mut Dice,
) -> Vec<f64> {
    let mut tenths = Vec::new();
    while tenths.len() < count * PARTS {
        let length = (period * (1.0 + jitter * normal(dice))).max(0.3 * period);
        let steps = (length * PARTS as f64).round().max(1.0) as usize;
        tenths.extend((0..steps).map(|step| {
            let at = step as f64 / steps as f64;
            match shape {
                0 => {
                    if at < duty {
                        90.0
                    } else {
                        10.0
                    }
                }
                1 => 10.0 + 80.0 * at,
                _ => 50.0 + 40.0 * (2.0 * std::f64::consts::PI * at).sin(),
            }
        }));
    }
    tenths.truncate(count * PARTS);
    tenths
}

const NULLS: [&str; 9] = [
    "constant",
    "noisy constant",
    "white",
    "red",
    "walk",
    "ramp",
    "step",
    "bursts",
    "requests",
];

/// A course without a period.
fn null(kind: &str, count: usize, dice: &mut Dice) -> Vec<f64> {
    let mut level: f64 = 50.0;
    let mut left = 0.0;
    let at = |second: usize, dice: &mut Dice| match kind {
        "constant" => 63.0,
        "noisy constant" => 80.0 + 5.0 * normal(dice),
        "white" => 50.0 + 20.0 * normal(dice),
        "red" => {
            level = 50.0 + 0.9 * (level - 50.0) + 8.0 * normal(dice);
            level
        }
        "walk" => {
            level += 4.0 * normal(dice);
            level
        }
        "ramp" => 10.0 + 80.0 * second as f64 / count as f64 + 5.0 * normal(dice),
        "step" => 5.0 * normal(dice) + if second * 3 > count { 80.0 } else { 20.0 },
        "bursts" => {
            5.0 + if unit(dice) < 0.03 {
                80.0
            } else {
                2.0 * normal(dice)
            }
        }
        _ => {
            if left <= 0.0 && unit(dice) < 0.15 {
                left = -3.0 * unit(dice).ln();
            }
            left -= 1.0;
            if left > 0.0 { 85.0 } else { 3.0 }
        }
    };
    let mut course = at;
    (0..count)
        .map(|second| course(second, dice).clamp(0.0, 100.0).round())
        .collect()
}

/// The samples of a run with one GPU whose use these seconds have.
fn of_gpu(values: &[f64]) -> Signals {
    let mut signals = Signals::default();
    for (second, busy) in values.iter().enumerate() {
        signals.take(&gpu_sample(second as u64 * 1000, *busy));
    }
    signals
}

fn gpu_sample(at_ms: u64, busy: f64) -> Sample {
    let gpu = GpuReading {
        utilisation_percent: Some(busy as u64),
        ..GpuReading::of("GPU-1".into())
    };
    Sample {
        at_ms,
        gpus: vec![gpu],
        ..Sample::default()
    }
}

fn pattern_of(values: &[f64]) -> Pattern {
    let analysis = analyse(&of_gpu(values), &Facts::default());
    analysis.expect("samples").activity.pattern
}

/// Shares of `good` among seeds that were looked at and among those kept aside.
fn shares(seeds: u64, mut good: impl FnMut(u64) -> bool) -> [f64; 2] {
    let mut counts = [(0, 0); 2];
    for seed in 1..=seeds {
        let (yes, all) = &mut counts[usize::from(seed % 3 == 0)];
        *yes += u32::from(good(seed));
        *all += 1;
    }
    counts.map(|(yes, all)| f64::from(yes) / f64::from(all))
}

#[test]
fn noise_and_trends_have_no_period() {
    for kind in NULLS {
        for count in [120, 240, 600] {
            let alarms = shares(150, |seed| {
                let values = null(kind, count, &mut Dice::new(seed));
                pattern_of(&values).period_seconds.is_some()
            });
            assert!(
                alarms.iter().all(|share| *share <= 0.05),
                "{kind} of {count}: {alarms:.3?}"
            );
        }
    }
}

/// Periods from 8 samples to a third of the series, with noise and uneven steps.
fn drawn(seed: u64) -> (f64, Vec<f64>) {
    let dice = &mut Dice::new(seed.wrapping_mul(977));
    let count = [120, 240, 600][(seed % 3) as usize].max(120);
    let count = if seed.is_multiple_of(7) { 1200 } else { count };
    let period = between(dice, 8.0, (count as f64 / 4.0).min(60.0));
    let (shape, duty) = ((dice.bits() % 3) as usize, between(dice, 0.2, 0.8));
    let (jitter, noise) = (between(dice, 0.0, 0.03), between(dice, 0.0, 20.0));
    let tenths = repeating(shape, period, duty, jitter, count, dice);
    (period, seconds(&tenths, noise, dice))
}

#[test]
fn periods_are_found_and_right() {
    let mut wrong = Vec::new();
    let right = shares(300, |seed| {
        let (period, values) = drawn(seed);
        let found = pattern_of(&values);
        let is_right = found
            .period_seconds
            .is_some_and(|its| (its / period - 1.0).abs() <= 0.05);
        if !is_right {
            wrong.push((seed, values.len(), period, found.kind, found.period_seconds));
        }
        is_right
    });
    assert!(
        right.iter().all(|share| *share >= 0.95),
        "{right:.3?}: {wrong:?}"
    );
}

#[test]
fn steps_that_samples_cannot_show_have_no_period() {
    let published = shares(120, |seed| {
        let dice = &mut Dice::new(seed);
        let period = between(dice, 2.2, 6.5);
        let tenths = repeating(0, period, between(dice, 0.3, 0.7), 0.01, 300, dice);
        // Without means: a sample each second.
        let points: Vec<f64> = tenths
            .iter()
            .step_by(PARTS)
            .map(|value| value + 2.0 * normal(dice))
            .collect();
        pattern_of(&points).period_seconds.is_some()
    });
    assert!(
        published.iter().all(|share| *share <= 0.05),
        "{published:.3?}"
    );
    let far = pattern_of(
        &repeating(0, 4.0, 0.5, 0.0, 300, &mut Dice::new(1))
            .iter()
            .step_by(PARTS)
            .copied()
            .collect::<Vec<_>>(),
    );
    assert_eq!(far.kind, PatternKind::LowResolution);
    assert!(far.why.is_some());
}

#[test]
fn a_pause_after_some_steps_is_the_second_period() {
    let both = shares(60, |seed| {
        let dice = &mut Dice::new(seed);
        let step = between(dice, 9.0, 14.0);
        let mut tenths = Vec::new();
        for _ in 0..8 {
            tenths.extend(repeating(0, step, 0.7, 0.01, (10.0 * step) as usize, dice));
            tenths.extend(vec![0.0; 120]);
        }
        let found = pattern_of(&seconds(&tenths, 3.0, dice));
        let near = |seconds: Option<f64>, right: f64| {
            seconds.is_some_and(|its| (its / right - 1.0).abs() < 0.06)
        };
        let long = ((10.0 * step) as usize) as f64 + 12.0;
        near(found.period_seconds, step) && near(found.second_period_seconds, long)
    });
    assert!(both.iter().all(|share| *share >= 0.95), "{both:.3?}");
}

/// What a phase looks like: use of the GPU, CPUs of 8, bytes read and written in a second.
fn looks(phase: Phase) -> (f64, f64, f64, f64) {
    match phase {
        Phase::Startup => (0.0, 1.2, 30e6, 1e5),
        Phase::Computing => (94.0, 2.0, 20e6, 0.0),
        Phase::DataBound => (45.0, 7.6, 60e6, 0.0),
        Phase::Checkpoint => (1.0, 1.0, 0.0, 180e6),
        Phase::Stalled => (0.0, 1.5, 0.0, 0.0),
        _ => (0.0, 0.05, 0.0, 0.0),
    }
}

/// A run of a GPU through these phases, in seconds; what is read and written is seen every fifth second.
fn run_through(plan: &[(Phase, u64)], dice: &mut Dice) -> Signals {
    let (mut signals, mut at_ms) = (Signals::default(), 1_000_000);
    let (mut cpu, mut read, mut write) = (0.0, 0.0, 0.0);
    let mut tick = 0_u64;
    for (phase, seconds) in plan {
        let (busy, cpus, reads, writes) = looks(*phase);
        for _ in 0..*seconds {
            tick += 1;
            at_ms += 1000;
            let uneven = 1.0 + 0.05 * normal(dice);
            (cpu, read, write) = (
                cpu + 1e6 * cpus * uneven,
                read + reads * uneven,
                write + writes * uneven,
            );
            let busy = if busy < 3.0 {
                busy
            } else {
                busy + 4.0 * normal(dice)
            };
            let io = tick.is_multiple_of(5);
            signals.take(&Sample {
                cpu_user_us: Some(cpu as u64),
                cpu_system_us: Some(0),
                io_read_bytes: io.then_some(read as u64),
                io_write_bytes: io.then_some(write as u64),
                ..gpu_sample(at_ms, busy.clamp(0.0, 100.0))
            });
        }
    }
    signals
}

fn drawn_plan(dice: &mut Dice) -> Vec<(Phase, u64)> {
    let kinds = [
        Phase::Computing,
        Phase::DataBound,
        Phase::Checkpoint,
        Phase::Stalled,
        Phase::Idle,
    ];
    let mut plan = vec![
        (Phase::Startup, 30 + dice.bits() % 60),
        (Phase::Computing, 60 + dice.bits() % 60),
    ];
    while plan.len() < 12 {
        let phase = kinds[(dice.bits() % 5) as usize];
        if plan.last().is_some_and(|(last, _)| *last != phase) {
            plan.push((phase, 20 + dice.bits() % 120));
        }
    }
    plan
}

#[test]
fn phases_of_a_gpu_run_are_named_and_begin_where_they_do() {
    let facts = Facts {
        cpus: Some(8.0),
        has_gpus: true,
        ..Facts::default()
    };
    let mut worst = [1.0_f64; 2];
    let edges = shares(60, |seed| {
        let dice = &mut Dice::new(seed);
        let plan = drawn_plan(dice);
        let analysis = analyse(&run_through(&plan, dice), &facts).expect("samples");
        let (mut at, mut right, mut all, mut edges_found) = (1_000_000, 0, 0, true);
        for (phase, seconds) in &plan {
            let end = at + seconds * 1000;
            let overlap =
                |span: &PhaseSpan| span.to_ms.min(end).saturating_sub(span.from_ms.max(at));
            right += analysis
                .spans
                .iter()
                .filter(|span| span.phase == *phase)
                .map(overlap)
                .sum::<u64>();
            all += end - at;
            edges_found &= analysis
                .spans
                .iter()
                .any(|span| span.to_ms.abs_diff(end) <= 8000);
            at = end;
        }
        let share = right as f64 / all as f64;
        let place = usize::from(seed % 3 == 0);
        worst[place] = worst[place].min(share);
        share >= 0.95 && edges_found
    });
    assert!(
        edges.iter().all(|share| *share >= 0.95),
        "{edges:.3?}, least {worst:.3?}"
    );
}

fn record() -> NodeRecord {
    let key = MeasureKey {
        run_id: crate::job::RunId::from_random([0; 10]),
        element: 0,
        attempt: 0,
        node: "n".into(),
        step: 0,
    };
    let host = HostFacts {
        cpus_allowed: Some(2),
        ..HostFacts::default()
    };
    NodeRecord::begun(key, None, 0, host)
}

/// A program on two CPUs, busy or not by the second.
fn of_cpu(busy: impl Fn(u64) -> f64, seconds: u64) -> Signals {
    let (mut signals, mut cpu) = (Signals::default(), 0.0);
    for second in 0..=seconds {
        signals.take(&Sample {
            at_ms: second * 1000,
            cpu_user_us: Some(cpu as u64),
            cpu_system_us: Some(0),
            ..Sample::default()
        });
        cpu += 1e6 * busy(second);
    }
    signals
}

fn epoch(number: u64, ended_s: u64, clock: f64) -> Epoch {
    Epoch {
        epoch: number,
        ended_at_ms: Some(ended_s * 1000),
        clock_seconds: Some(clock),
        ..Epoch::default()
    }
}

#[test]
fn the_log_names_the_phases_of_a_program_without_gpus() {
    let mut record = record();
    record.progress.epoch_numbering = Some(EpochNumbering::OneBased);
    for (number, end) in [(1, 50), (2, 80), (3, 110), (4, 140)] {
        let metrics = [("val_loss".to_owned(), 0.5)].into();
        record.progress.push_epoch(Epoch {
            printed_seconds: Some(21.5),
            metrics,
            ..epoch(number, end, 30.0)
        });
    }
    record.updated_at_ms = 200_000;
    let signals = of_cpu(|second| if second < 145 { 1.9 } else { 0.0 }, 200);
    let analysis = analyse(&signals, &Facts::of(&record)).expect("samples");
    let seconds = |phase| analysis.activity.seconds_of(phase).unwrap_or(0.0);
    assert_eq!(
        (
            seconds(Phase::Startup),
            seconds(Phase::Training),
            seconds(Phase::Evaluation)
        ),
        (20.0, 88.0, 32.0)
    );
    assert!(
        (54.0..=56.0).contains(&seconds(Phase::Idle)),
        "{:?}",
        analysis.activity.phases
    );
    assert_eq!(analysis.activity.phase, Some(Phase::Idle));
    // Of the time between the last epoch and the rest nobody knows.
    assert!(seconds(Phase::Unknown) <= 6.0);
}

#[test]
fn a_program_without_a_log_and_without_gpus_is_not_named() {
    let signals = of_cpu(|second| if second % 10 < 5 { 2.0 } else { 0.1 }, 300);
    let analysis = analyse(&signals, &Facts::of(&record())).expect("samples");
    let period = analysis.activity.pattern.period_seconds.expect("one");
    assert!((period - 10.0).abs() < 0.2, "{period}");
    assert_eq!(analysis.activity.phases[0].phase, Phase::Unknown);
    let iteration = analysis.activity.iteration.expect("a period");
    assert_eq!(
        (iteration.source, iteration.agrees),
        (IterationSource::Signal, None)
    );
}

#[test]
fn the_log_s_steps_are_used_and_a_period_that_differs_is_reported() {
    let signals = of_cpu(|second| if second % 10 < 5 { 2.0 } else { 0.1 }, 300);
    let steps = |median_seconds| {
        let mut record = record();
        let source = TimeSource::Clock;
        let times = StepTimes {
            source,
            steps: 30,
            median_seconds,
            p95_seconds: 11.0,
            data_wait_ratio: None,
        };
        record.progress.step_times = Some(times);
        analyse(&signals, &Facts::of(&record))
            .and_then(|analysis| analysis.activity.iteration)
            .expect("steps")
    };
    let known = |iteration: Iteration| (iteration.seconds, iteration.source, iteration.agrees);
    assert_eq!(
        known(steps(10.1)),
        (10.1, IterationSource::Steps, Some(true))
    );
    assert_eq!(
        known(steps(14.0)),
        (14.0, IterationSource::Steps, Some(false))
    );
    // Too fast for samples each second: nothing can agree with it.
    assert_eq!(known(steps(0.2)), (0.2, IterationSource::Steps, None));
}

#[test]
fn bad_series_are_unknown_and_say_why() {
    let kind =
        |signals: &Signals| analyse(signals, &Facts::default()).map(|found| found.activity.pattern);
    assert!(analyse(&Signals::default(), &Facts::default()).is_none());
    let unresolvable = |values: &[f64]| {
        let found = pattern_of(values);
        assert!(
            found.why.is_some() && found.period_seconds.is_none(),
            "{found:?}"
        );
        found.kind
    };
    assert_eq!(unresolvable(&[50.0; 19]), PatternKind::Unresolvable);
    assert!(analyse(&of_gpu(&[50.0; 9]), &Facts::default()).is_none());
    assert_eq!(unresolvable(&[50.0; 300]), PatternKind::Flat);
    // The clock is set back: nothing is read twice.
    let mut back = of_gpu(&[50.0; 40]);
    back.take(&gpu_sample(5000, 90.0));
    assert_eq!(back.last_ms(), 39_000);
    // A counter that starts again at 0, and a hole of an hour.
    let mut reset = Signals::default();
    for second in (0..60).chain(3660..3720_u64) {
        let count = if second < 3660 {
            1_000_000 * second
        } else {
            500_000 * (second - 3660)
        };
        reset.take(&Sample {
            at_ms: second * 1000,
            cpu_user_us: Some(count),
            cpu_system_us: Some(0),
            ..Sample::default()
        });
    }
    let facts = Facts {
        cpus: Some(2.0),
        ..Facts::default()
    };
    let found = analyse(&reset, &facts).expect("samples").activity;
    assert_eq!(found.pattern.kind, PatternKind::Flat);
    assert!(
        found.phases.iter().all(|time| time.phase == Phase::Unknown),
        "{found:?}"
    );
    // Thirty days.
    let mut long = Signals::default();
    for minute in 0..43_200_u64 {
        long.take(&gpu_sample(
            minute * 60_000,
            if minute % 20 < 10 { 95.0 } else { 90.0 },
        ));
    }
    let found = kind(&long).expect("samples");
    assert!(
        found
            .period_seconds
            .is_some_and(|its| (its / 1200.0 - 1.0).abs() < 0.02),
        "{found:?}"
    );
}

#[test]
fn times_of_other_starts_and_of_wrong_clocks_do_no_harm() {
    let mut record = record();
    record.started_at_ms = 500_000;
    record.progress.push_epoch(epoch(1, 100, 30.0));
    record.progress.push_epoch(epoch(2, 90, 1e12));
    record.progress.push_epoch(epoch(3, u64::MAX / 1000, 20.0));
    let facts = Facts::of(&record);
    for times in [
        [0, u64::MAX - 5, u64::MAX],
        [0, 1_760_000_000_000, 1_760_000_030_000],
    ] {
        let mut signals = Signals::default();
        for at_ms in times {
            signals.take(&Sample {
                cpu_user_us: Some(at_ms / 7),
                cpu_system_us: Some(u64::MAX),
                ..gpu_sample(at_ms, 50.0)
            });
        }
        let found = analyse(&signals, &facts);
        assert!(found.is_none_or(|found| found.spans.iter().all(|span| span.to_ms > span.from_ms)));
    }
}

#[test]
fn gpus_vote_and_one_that_differs_is_named() {
    let dice = &mut Dice::new(5);
    let courses = [12.0, 12.0, 12.0, 17.0].map(|period| {
        let tenths = repeating(0, period, 0.6, 0.01, 400, dice);
        seconds(&tenths, 3.0, dice)
    });
    let mut signals = Signals::default();
    for second in 0..400 {
        let gpu = |(number, course): (usize, &Vec<f64>)| GpuReading {
            utilisation_percent: Some(course[second] as u64),
            ..GpuReading::of(format!("GPU-{number}").into())
        };
        let gpus = courses.iter().enumerate().map(gpu).collect();
        signals.take(&Sample {
            at_ms: second as u64 * 1000,
            gpus,
            ..Sample::default()
        });
    }
    let found = analyse(&signals, &Facts::default())
        .expect("samples")
        .activity;
    assert!(
        found
            .pattern
            .period_seconds
            .is_some_and(|its| (its / 12.0 - 1.0).abs() < 0.02),
        "{found:?}"
    );
    assert_eq!(
        found
            .unlike
            .iter()
            .filter_map(|one| one.gpu.as_deref())
            .collect::<Vec<_>>(),
        ["GPU-3"]
    );
}
