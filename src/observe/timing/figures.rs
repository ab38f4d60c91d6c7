//! The figures behind a step's number, as training scripts print them between bars, commas or blanks.
//!
//! ```text
//! loss 4.0706, time 48.02ms, mfu 10.07%
//!  | loss 3.208939 (+nanz)| norm 1.4800 (+nanz)| lr 3.00e-04 | 44.57 ms | -100.0% bf16 MFU | 91886 tok/s
//!  | loss: 8.893647 | dt: 989.44ms | tok/sec: 529,882 | total time: 0.00m
//!   loss:  7.62585  grad_norm: 26.6250  memory: 66.91GiB(37.51%)  tps: 10,050
//!  val_loss:4.3719 train_time:29736ms step_avg:258.57ms
//! ```

use super::event::{Facts, Rate};
use super::scan::{self, Numbers};
use crate::record::Scope;

/// Words in names of what is no loss or metric.
const NOT_METRICS: &str = "mem|eta|mfu|flop|time|total|token|sample|speed|elapsed|step|iter|epoch|\
    batch|data|remain|rank|z-score";

/// Figures and what else their line says.
#[derive(Debug, Default)]
pub(super) struct Read<'a> {
    pub(super) facts: Facts<'a>,
    /// Seconds of training so far, where called `train_time`.
    pub(super) so_far: Option<f64>,
}

/// Reads the figures of a line's rest.
pub(super) fn read(text: &str) -> Read<'_> {
    let mut read = Read::default();
    let mut numbers = Numbers::of(text);
    while let Some((between, value, from)) = numbers.next_number() {
        if let Some(after) = read.take(scan::name(between), value, from, is_aside(between)) {
            numbers.skip_to(after);
        }
    }
    read
}

/// True where a bracket is open: what is in it only remarks on the number before.
fn is_aside(between: &str) -> bool {
    between
        .rfind('(')
        .is_some_and(|open| !between[open..].contains(')'))
}

impl<'a> Read<'a> {
    /// Takes a number with its name; returns where to go on, where that is not right behind the number.
    fn take(&mut self, name: &'a str, value: f64, from: &'a str, aside: bool) -> Option<&'a str> {
        if let Some((seconds, after)) = scan::per_step(from) {
            self.facts.step_seconds = Some(seconds);
            return Some(after);
        }
        if let Some((seconds, after)) = scan::duration(from) {
            self.take_time(name, seconds);
            return Some(after);
        }
        let (grouped, after) = scan::grouped(from)?;
        let (factor, unit) = scan::magnitude(after).unwrap_or((1.0, after));
        if let Some((unit, rest)) = scan::rate_unit(unit) {
            self.facts.throughput = Rate::of_run(grouped * factor, unit).or(self.facts.throughput);
            return Some(rest);
        }
        if let Some((unit, scope)) = rate_name(name) {
            self.facts.throughput = Rate::new(grouped, unit, scope).or(self.facts.throughput);
            return Some(after);
        }
        let lower = name.to_ascii_lowercase();
        if !aside
            && !after.starts_with(scan::is_word)
            && !lower.is_empty()
            && (lower.contains("loss") || !scan::holds_any(&lower, NOT_METRICS))
            && let Some(name) = scan::metric_name(name)
        {
            self.facts.metrics.push((name, value));
        }
        None
    }

    fn take_time(&mut self, name: &str, seconds: f64) {
        let name = name.to_ascii_lowercase();
        if name.contains("train_time") {
            self.so_far = Some(seconds);
            return;
        }
        let other = [
            "total", "val", "eta", "remain", "data", "forward", "backward", "since", "eval",
            "ckpt", "save",
        ];
        // Time that has elapsed is that since the beginning, unless it is said to be of one step.
        let so_far = name.contains("elapsed") && !name.contains("per ");
        if !so_far && !other.iter().any(|word| name.contains(word)) {
            self.facts.step_seconds = Some(seconds);
        }
    }
}

/// The unit of a rate that its name says, and of what it is the rate: `tok/sec`, `tokens_per_second`, `tps`,
/// `tokens/gpu/sec`, `samples per second`.
pub(super) fn rate_name(name: &str) -> Option<(&'static str, Scope)> {
    let lower = name.to_ascii_lowercase();
    let scope = if scan::holds_any(&lower, "gpu|device|rank|npu") {
        Scope::PerDevice
    } else {
        Scope::Global
    };
    let last = lower
        .rsplit([' ', '/', '.', '_'])
        .next()
        .unwrap_or_default();
    match last {
        // torchtitan divides by the number of devices.
        "tps" | "tgs" => return Some(("tokens/s", Scope::PerDevice)),
        "wps" => return Some(("words/s", scope)),
        "ips" => return Some(("samples/s", scope)),
        _ => {}
    }
    // `timing_s/step` is a time.
    let ends = lower.ends_with("/s") || scan::holds_any(&lower, "/s |/s)|/s/");
    let per_second = ends || scan::holds_any(&lower, "_per_sec| per sec|/sec|persec|s/gpu)");
    if !per_second || lower.contains("flop") {
        return None;
    }
    let units = [
        ("tok", "tokens/s"),
        ("sample", "samples/s"),
        ("sequence", "samples/s"),
        ("seq", "samples/s"),
        ("image", "samples/s"),
        ("img", "samples/s"),
        ("item", "samples/s"),
        ("frame", "frames/s"),
        ("word", "words/s"),
        ("batch", "steps/s"),
        ("step", "steps/s"),
        ("it", "it/s"),
    ];
    units
        .iter()
        .find(|(word, _)| lower.contains(word))
        .map(|(_, unit)| (*unit, scope))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_of_rates_tell_their_unit() {
        for (name, unit, device) in [
            ("tok/sec", "tokens/s", false),
            ("tokens/gpu/sec", "tokens/s", true),
            ("tokens_per_second", "tokens/s", false),
            ("tps", "tokens/s", true),
            ("samples per second", "samples/s", false),
            ("samples/sec", "samples/s", false),
            ("tokens per gpu per second (tgs)", "tokens/s", true),
            ("train.total_ips", "samples/s", false),
            ("train_items_per_sec", "samples/s", false),
        ] {
            assert_eq!(
                rate_name(name).map(|(unit, scope)| (unit, scope == Scope::PerDevice)),
                Some((unit, device)),
                "{name}"
            );
        }
        for name in ["throughput per GPU (TFLOP/s/GPU)", "loss", "steps", "GB/s"] {
            assert_eq!(rate_name(name), None, "{name}");
        }
    }

    #[test]
    fn figures_are_told_apart() {
        let read = read(
            " | loss 3.2 (+nanz)| norm 1.48 (+nanz)| lr 3.00e-04 | 44.57 ms | -100.0% bf16 MFU | 91886 tok/s",
        );
        assert!(
            read.facts
                .step_seconds
                .is_some_and(|seconds| (seconds - 0.04457).abs() < 1e-9)
        );
        assert_eq!(read.facts.throughput, Rate::of_run(91_886.0, "tokens/s"));
        assert_eq!(
            read.facts.metrics,
            [
                ("loss".into(), 3.2),
                ("norm".into(), 1.48),
                ("lr".into(), 3e-4)
            ]
        );
        let read = super::read(
            "  loss:  7.62585  grad_norm: 26.6  memory: 66.91GiB(37.51%)  tps: 10,050  mfu: 13.99%",
        );
        assert_eq!(
            read.facts.throughput,
            Rate::new(10_050.0, "tokens/s", Scope::PerDevice)
        );
        assert_eq!(
            read.facts.metrics,
            [("loss".into(), 7.62585), ("grad_norm".into(), 26.6)]
        );
        let read = super::read(" val_loss:4.37 train_time:29736ms step_avg:258.57ms");
        assert!(
            read.facts
                .step_seconds
                .is_some_and(|seconds| (seconds - 0.25857).abs() < 1e-9)
        );
        assert_eq!(read.so_far, Some(29.736));
        let read = super::read(" val_loss:7.7 train_time:0ms step_avg:nanms");
        assert_eq!(read.facts.step_seconds, None);
        assert_eq!(
            super::read(" | elapsed 3.97m | loss: 3.21")
                .facts
                .step_seconds,
            None
        );
        assert_eq!(
            super::read(" | elapsed time per step 2 s")
                .facts
                .step_seconds,
            Some(2.0)
        );
    }
}
