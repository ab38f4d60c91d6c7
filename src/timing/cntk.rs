//! CNTK: the `SGD` of BrainScript (1.x) and the progress printer of Python (2.x).
//!
//! ```text
//!  Epoch[ 1 of 5]-Minibatch[   1-  10, 100.00%]: ce = 2.32 * 1000; time = 0.1718s; samplesPerSecond = 5820.2
//! Finished Epoch[ 1 of 5]: [Training] ce = 2.32 * 1000; totalSamplesSeen = 1000; epochTime=0.17275s
//! Finished Epoch[17 of 30]: [Training Set] TrainLossPerSample = 0.61; EvalErrPerSample = 0.2; EpochTime=94.3146
//! Finished Epoch[1 of 300]: [Training] loss = 1.663636 * 10, metric = 52.40% * 10 0.890s ( 11.2 samples/s);
//!  Minibatch[   1- 100]: loss = 1.663636 * 6400, metric = 52.40% * 6400;
//! ```
//!
//! The forms are those of `SGD.cpp` (1.0 to 2.7) and `progress_print.py` (2.x). What follows `*` counts samples.

use super::event::{Event, Facts, Line, Rate, Recogniser};
use super::scan;

/// Figures, in small letters, that are no metrics.
const NOT_METRICS: [&str; 8] = [
    "time",
    "totaltime",
    "samplespersecond",
    "samplesseen",
    "totalsamplesseen",
    "learningratepersample",
    "avglearningratepersample",
    "epochtime",
];

/// The recogniser of such lines.
#[derive(Debug, Default)]
pub(super) struct Cntk;

impl Recogniser for Cntk {
    fn name(&self) -> &'static str {
        "cntk"
    }

    fn triggers(&self) -> &'static [&'static str] {
        &["Minibatch[", "Finished Epoch", "Starting Epoch "]
    }

    fn read<'a>(&mut self, line: &Line<'a>, say: &mut dyn FnMut(Event<'a>)) {
        if let Some(event) = read_line(line.text) {
            say(event);
        }
    }
}

fn read_line(text: &str) -> Option<Event<'_>> {
    if text.contains("LearnRateSearch:") || text.contains("Evaluation [") {
        return None;
    }
    if let Some(rest) = scan::after(text, "Finished Epoch") {
        return finished(rest.trim_start().strip_prefix('[')?);
    }
    if let Some(rest) = scan::after(text, "Starting Epoch ") {
        let (epoch, rest) = scan::unsigned(rest)?;
        return rest.starts_with(": learning rate").then_some(Event::EpochStart { epoch, epochs: None });
    }
    let (before, rest) = text.split_once("Minibatch[")?;
    let (_, rest) = scan::unsigned(rest.trim_start())?;
    let (step, rest) = scan::unsigned(rest.strip_prefix('-')?.trim_start())?;
    let (share, rest) = rest.split_once("]:")?;
    // Only at the end of an epoch is the share its whole.
    let of = share.contains(" 100.00%").then_some(step);
    let facts = figures(rest);
    match before.trim_end().strip_suffix("]-") {
        Some(epoch) => {
            let (_, epoch) = epoch.rsplit_once("Epoch[")?;
            let (epoch, epochs, _) = scan::counted(epoch)?;
            Some(Event::Step { epoch, epochs, step, of, facts })
        }
        None => before.trim().is_empty().then_some(Event::Iteration { step: Some(step), of, facts }),
    }
}

/// What follows `Finished Epoch[`.
fn finished(text: &str) -> Option<Event<'_>> {
    let (epoch, epochs, rest) = scan::counted(text)?;
    let rest = rest.strip_prefix("]:")?.trim_start();
    let (kind, rest) = match rest.strip_prefix('[').and_then(|rest| rest.split_once(']')) {
        Some((kind, rest)) => (kind, rest),
        None => ("Training", rest),
    };
    let mut facts = figures(rest);
    if !kind.starts_with("Train") {
        facts.metrics.iter_mut().for_each(|(name, _)| *name = format!("val_{name}").into());
        return Some(Event::EpochEnd { epoch, epochs, seconds: None, step: None, facts });
    }
    let named = scan::after(rest, "epochTime=").or_else(|| scan::after(rest, "EpochTime="));
    let seconds = match named {
        Some(seconds) => scan::number(seconds).map(|(seconds, _)| seconds),
        // `52.40% * 10 0.890s ( 11.2 samples/s);`
        None => rest.split_once("s (").and_then(|(before, _)| {
            before.rsplit(' ').next().and_then(scan::number).map(|(seconds, _)| seconds)
        }),
    };
    Some(Event::EpochEnd { epoch, epochs, seconds, step: None, facts })
}

/// The figures `name = value * samples` and the rate.
fn figures(text: &str) -> Facts<'_> {
    let mut facts = Facts::default();
    for part in text.split([';', ',']) {
        if let Some((_, rate)) = part.split_once("s (") {
            facts.throughput = scan::number(rate.trim_start())
                .filter(|(_, rest)| rest.starts_with(" samples"))
                .and_then(|(value, _)| Rate::of_run(value, "samples/s"));
        }
        let Some((name, value)) = part.split_once('=') else { continue };
        let Some((value, _)) = scan::number(value.trim_start()) else { continue };
        let name = name.trim();
        if name.eq_ignore_ascii_case("samplesPerSecond") {
            facts.throughput = Rate::of_run(value, "samples/s");
        } else if !NOT_METRICS.iter().any(|other| name.eq_ignore_ascii_case(other))
            && let Some(name) = scan::metric_name(name)
        {
            facts.metrics.push((name, value));
        }
    }
    facts
}

#[cfg(test)]
mod tests {
    use super::*;

    fn said(text: &str) -> String {
        match read_line(text) {
            Some(Event::Step { epoch, step, of, facts, .. }) => {
                format!(
                    "S{epoch} {step} {of:?} {:?} {:?}",
                    facts.throughput.map(|rate| rate.value),
                    facts.metrics
                )
            }
            Some(Event::Iteration { step, facts, .. }) => format!("I{step:?} {:?}", facts.metrics),
            Some(Event::EpochEnd { epoch, epochs, seconds, facts, .. }) => {
                format!(
                    "E{epoch} {epochs:?} {seconds:?} {:?} {:?}",
                    facts.throughput.map(|rate| rate.value),
                    facts.metrics
                )
            }
            Some(other) => other.kind().to_owned(),
            None => "-".to_owned(),
        }
    }

    #[test]
    fn both_generations_are_read() {
        for (text, expected) in [
            (
                "08/16/2016 09:56:37:  Epoch[ 1 of 5]-Minibatch[   1-  10, 100.00%]: ce = 2.5 * 1000; time = 0.1718s; samplesPerSecond = 5820.2",
                "S1 10 Some(10) Some(5820.2) [(\"ce\", 2.5)]",
            ),
            (
                " Epoch[17 of 30]-Minibatch[   1- 500, 64.02%]: SamplesSeen = 32000; TrainLossPerSample =  0.5; TotalTime = 60.3761s; SamplesPerSecond = 530.0",
                "S17 500 None Some(530.0) [(\"TrainLossPerSample\", 0.5)]",
            ),
            (
                "Finished Epoch[17 of 30]: [Training Set] TrainLossPerSample = 0.5; AvgLearningRatePerSample = 4.6875e-005; EpochTime=94.3146",
                "E17 Some(30) Some(94.3146) None [(\"TrainLossPerSample\", 0.5)]",
            ),
            (
                "Finished Epoch[1]: [Training] loss = 1.5 * 10, metric = 52.40% * 10 0.890s ( 11.2 samples/s);",
                "E1 None Some(0.89) Some(11.2) [(\"loss\", 1.5), (\"metric\", 52.4)]",
            ),
            (
                "Finished Epoch[936 of 300]: loss = 0.5 * 512, metric = 0.00% * 512 0.662s (773.4 samples/s);",
                "E936 Some(300) Some(0.662) Some(773.4) [(\"loss\", 0.5), (\"metric\", 0.0)]",
            ),
            (
                "Finished Epoch[ 1 of 5]: [Validate] ce = 0.5 * 100",
                "E1 Some(5) None None [(\"val_ce\", 0.5)]",
            ),
            (
                " Minibatch[   1- 100]: loss = 1.5 * 6400, metric = 52.40% * 6400;",
                "ISome(100) [(\"loss\", 1.5), (\"metric\", 52.4)]",
            ),
            ("AdaptiveLearnRateSearch: Epoch[1002 of 5000]-Minibatch[ 341- 350]: error = 1 * 1", "-"),
            ("Finished Evaluation [1]: Minibatch[1-100]: metric = 2.5% * 10000;", "-"),
            ("Minibatch[3] was skipped", "-"),
        ] {
            assert_eq!(said(text), expected, "{text}");
        }
    }
}
