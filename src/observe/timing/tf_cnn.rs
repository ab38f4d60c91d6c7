//! `tf_cnn_benchmarks` of tensorflow/benchmarks.
//!
//! ```text
//! Mode:        training
//! Num batches: 100
//! Step  Img/sec  total_loss  top_1_accuracy  top_5_accuracy
//! 10    images/sec: 154.4 +/- 0.7 (jitter = 4.0)  8.280  0.001  0.006
//! total images/sec: 308.27
//! ```
//!
//! The forms are those of `benchmark_cnn.py` (`get_perf_timing_str`, `print_info`), 2017 to 2020. With Horovod every rank
//! prints its own rate, and the total is that of all.

use super::event::{Event, Facts, Line, Rate, Recogniser};
use super::scan;

/// What was read of the benchmark so far.
#[derive(Debug, Default)]
pub(super) struct TfCnn {
    /// Steps of the run.
    batches: Option<u64>,
    /// Columns behind the rate; empty where their head was not seen.
    columns: Vec<String>,
    /// True where the program does not train.
    silent: bool,
    /// True where each rank prints a rate of its own.
    ranks: bool,
    /// True once the total was printed: ranks that lag behind have nothing better.
    total: bool,
}

impl Recogniser for TfCnn {
    fn name(&self) -> &'static str {
        "tf-cnn-benchmarks"
    }

    fn triggers(&self) -> &'static [&'static str] {
        &[
            "images/sec: ",
            "examples/sec: ",
            "Img/sec",
            "Num batches:",
            "Mode:  ",
            "['horovod/",
        ]
    }

    fn read<'a>(&mut self, line: &Line<'a>, say: &mut dyn FnMut(Event<'a>)) {
        if let Some(event) = self.read_line(line.text.trim()) {
            say(event);
        }
    }
}

impl TfCnn {
    fn read_line<'a>(&mut self, text: &'a str) -> Option<Event<'a>> {
        if let Some(mode) = text.strip_prefix("Mode:") {
            // `forward-only`, `evaluation`.
            *self = Self {
                silent: !mode.contains("train"),
                ..Self::default()
            };
        } else if let Some(batches) = text.strip_prefix("Num batches:") {
            self.batches = scan::unsigned(batches.trim()).map(|(batches, _)| batches);
        } else if let Some(devices) = text.strip_prefix("Devices:") {
            self.ranks = devices.matches("horovod/").count() > 1;
        } else if let Some(columns) = text
            .strip_prefix("Step")
            .filter(|rest| rest.starts_with(['\t', ' ']))
        {
            let columns = columns.trim_start().strip_prefix("Img/sec")?;
            self.columns = columns.split_whitespace().map(str::to_owned).collect();
            self.total = false;
        } else if !self.silent {
            return self.rate(text);
        }
        None
    }

    /// `10  images/sec: 154.4 +/- 0.7 (jitter = 4.0)  8.280` or `total images/sec: 308.27`.
    fn rate<'a>(&mut self, text: &'a str) -> Option<Event<'a>> {
        let (step, rest) = match text.strip_prefix("total ") {
            Some(rest) => (None, rest),
            None => scan::unsigned(text).map(|(step, rest)| (Some(step), rest.trim_start()))?,
        };
        let rest = rest
            .strip_prefix("images/sec: ")
            .or_else(|| rest.strip_prefix("examples/sec: "))?;
        let (value, rest) = scan::number(rest)?;
        let Some(step) = step else {
            self.total = true;
            let facts = Facts {
                throughput: Rate::of_run(value, "samples/s"),
                ..Facts::default()
            };
            return Some(Event::RunEnd {
                seconds: None,
                facts,
            });
        };
        let (_, figures) = rest.split_once(')')?;
        self.total &= step > 1;
        let rate = if self.ranks {
            Rate::of_device
        } else {
            Rate::of_run
        };
        let throughput = rate(value, "samples/s").filter(|_| !self.total);
        let metrics = figures
            .split_whitespace()
            .enumerate()
            .filter_map(|(column, value)| {
                let (value, _) = scan::number(value).filter(|(_, rest)| rest.is_empty())?;
                let name = match (self.columns.get(column), column) {
                    (Some(name), _) => name.clone(),
                    (None, 0) => "total_loss".to_owned(),
                    (None, _) => return None,
                };
                Some((name.into(), value))
            });
        let facts = Facts {
            throughput,
            metrics: metrics.collect(),
            ..Facts::default()
        };
        Some(Event::RunStep {
            epoch: None,
            epochs: None,
            step,
            of: self.batches,
            facts,
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::record::Scope;

    #[test]
    fn steps_have_the_columns_of_their_head() {
        let mut benchmark = TfCnn::default();
        for text in [
            "Mode:        training",
            "Num batches: 100",
            "Devices:     ['horovod/gpu:0', 'horovod/gpu:1']",
            "Step\tImg/sec\ttotal_loss\ttop_1_accuracy",
        ] {
            assert_eq!(benchmark.read_line(text), None, "{text}");
        }
        let event = benchmark.read_line("10\timages/sec: 154.4 +/- 0.7 (jitter = 4.0)\tnan\t0.001");
        let Some(Event::RunStep {
            step: 10,
            of: Some(100),
            facts,
            ..
        }) = event
        else {
            panic!("{event:?}")
        };
        assert_eq!(
            facts.throughput.map(|rate| rate.scope),
            Some(Scope::PerDevice)
        );
        assert!(facts.metrics[0].1.is_nan());
        assert_eq!(facts.metrics[1], ("top_1_accuracy".into(), 0.001));
        let total = benchmark.read_line("total images/sec: 308.27");
        assert!(
            matches!(total, Some(Event::RunEnd { facts, .. }) if facts.throughput == Rate::of_run(308.27, "samples/s"))
        );
    }

    #[test]
    fn what_does_not_train_is_not_read() {
        let mut benchmark = TfCnn::default();
        benchmark.read_line("Mode:        forward-only");
        assert_eq!(
            benchmark.read_line("10\timages/sec: 154.4 +/- 0.7 (jitter = 4.0)\t8.1"),
            None
        );
        assert_eq!(benchmark.read_line("total images/sec: 308.27"), None);
    }
}
