//! The rhythm and the phases of a run: samples and the facts of its log in, an [`Activity`] out. Pure.
//!
//! The program that reads the samples analyses them: the watcher of the job, or who looks at a run's files. `dlrund` does not.

#![expect(
    clippy::cast_precision_loss,
    clippy::cast_possible_truncation,
    clippy::cast_sign_loss,
    reason = "counts of samples and milliseconds of a run: not negative, and far below 2^53"
)]

mod change;
mod facts;
mod period;
mod phases;
mod rhythm;
mod signals;
mod spectrum;

pub use facts::Facts;
pub use signals::Signals;

use signals::Of;

use crate::record::{
    Activity, Iteration, IterationSource, Pattern, PatternKind, Phase, PhaseSpan, PhaseTime,
};

/// A period and the time of the log that differ by more disagree.
const AGREEMENT: f64 = 0.1;
/// So many samples must a period have to be seen.
const SAMPLES_OF_PERIOD: f64 = 8.0;
/// Bytes a second that count as 100 %.
const FULL_RATE: f64 = 300e6;

/// A run that is shorter has no phases.
const LEAST_SECONDS: f64 = 10.0;

/// What came of it.
#[derive(Debug, Clone)]
pub struct Analysis {
    /// In few figures.
    pub activity: Activity,
    /// The phases one after the other.
    pub spans: Vec<PhaseSpan>,
}

/// Derives all from what is known up to now; `None` of less than ten seconds.
#[must_use]
pub fn analyse(signals: &Signals, facts: &Facts) -> Option<Analysis> {
    if signals.seconds() < LEAST_SECONDS {
        return None;
    }
    let (pattern, unlike) = rhythm::fused(patterns(signals, facts));
    let is_rhythmic =
        pattern.signal.as_deref() == Some("gpu") && pattern.kind == PatternKind::Periodic;
    let spans = phases::phases(signals, facts, pattern.period_seconds, is_rhythmic);
    let last = *spans.last()?;
    let whole = (last.to_ms - spans.first()?.from_ms).max(1) as f64;
    let mut phases: Vec<PhaseTime> = Phase::WORDS
        .iter()
        .filter_map(|(_, phase)| {
            let of_it = spans.iter().filter(|span| span.phase == *phase);
            let ms: u64 = of_it.map(|span| span.to_ms - span.from_ms).sum();
            let (seconds, share) = (ms as f64 / 1e3, ms as f64 / whole);
            (ms > 0).then_some(PhaseTime {
                phase: *phase,
                seconds,
                share,
            })
        })
        .collect();
    phases.sort_by(|one, other| other.seconds.total_cmp(&one.seconds));
    let activity = Activity {
        iteration: iteration(&pattern, facts, signals.pause_seconds()),
        pattern,
        unlike,
        phases,
        phase: Some(last.phase),
        phase_since_ms: Some(last.from_ms),
    };
    Some(Analysis { activity, spans })
}

/// The rhythm of each signal: of the GPUs, and where there are none of the CPUs, of reads and of writes.
fn patterns(signals: &Signals, facts: &Facts) -> Vec<Pattern> {
    let gpus: Vec<Pattern> = signals
        .recent_of_gpus()
        .map(|(uuid, readings)| Pattern {
            signal: Some("gpu".to_owned()),
            gpu: Some(uuid.to_owned()),
            ..rhythm::rhythm(&readings)
        })
        .collect();
    if !gpus.is_empty() || facts.has_gpus {
        return gpus;
    }
    let cpus = facts.cpus.filter(|cpus| *cpus > 0.0).unwrap_or(1.0);
    let disk = 100.0 / FULL_RATE;
    [
        ("cpu", Of::Cpu, 100.0 / cpus),
        ("read", Of::Read, disk),
        ("write", Of::Write, disk),
    ]
    .into_iter()
    .map(|(name, of, scale)| Pattern {
        signal: Some(name.to_owned()),
        ..rhythm::rhythm(&signals.recent(of, scale))
    })
    .collect()
}

/// The time of an iteration: the log's, compared with the period of the signals where these can show it.
fn iteration(pattern: &Pattern, facts: &Facts, pause_seconds: f64) -> Option<Iteration> {
    let least = SAMPLES_OF_PERIOD * pause_seconds;
    let periods: Vec<f64> = pattern
        .period_seconds
        .into_iter()
        .chain(pattern.second_period_seconds)
        .collect();
    let signal_seconds = periods.first().copied();
    let logged = [facts.step_seconds, facts.epoch_seconds];
    let named = [IterationSource::Steps, IterationSource::Epochs];
    let first = logged
        .into_iter()
        .zip(named)
        .find_map(|(seconds, source)| Some((seconds?, source)));
    let Some((seconds, source)) = first.filter(|(seconds, _)| *seconds > 0.0) else {
        let (seconds, source) = (signal_seconds?, IterationSource::Signal);
        return Some(Iteration {
            seconds,
            source,
            signal_seconds,
            agrees: None,
        });
    };
    let seen: Vec<f64> = logged
        .into_iter()
        .flatten()
        .filter(|seconds| *seconds >= least)
        .collect();
    let near = |period: &f64| {
        seen.iter()
            .any(|seconds| (period / seconds - 1.0).abs() <= AGREEMENT)
    };
    let agrees = (!seen.is_empty() && !periods.is_empty()).then(|| periods.iter().any(near));
    Some(Iteration {
        seconds,
        source,
        signal_seconds,
        agrees,
    })
}

#[cfg(test)]
mod tests;
