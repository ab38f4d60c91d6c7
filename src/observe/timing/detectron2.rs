//! Detectron2, and maskrcnn-benchmark before it: iterations without epochs.
//!
//! ```text
//! [04/05 01:30:24 d2.utils.events]:  eta: 0:03:35  iter: 19  total_loss: 1.364  loss_cls: 0.6531  time: 0.3637  data_time: 0.1102  lr: 3.8e-06  max_mem: 433M
//! [07/11 09:04:01 d2.engine.hooks]: Overall training speed: 997 iterations in 0:05:12 (0.3137 s / it)
//! [07/11 09:04:01 d2.engine.hooks]: Total training time: 0:05:20 (0:00:08 on hooks)
//! 2019-01-01 12:00:00,123 maskrcnn_benchmark.trainer INFO: eta: 1:02:03  iter: 20  loss: 1.2 (1.5)  time: 0.5 (0.6)  data: 0.01 (0.02)
//! ```
//!
//! The forms are those of `CommonMetricPrinter` in `utils/events.py` and of `engine/hooks.py` of Detectron2 (0.1 to 0.6),
//! where `time` is the median of the last 20 iterations, and of `engine/trainer.py` and `utils/metric_logger.py` of
//! maskrcnn-benchmark, where the mean stands in parentheses.

use super::bar;
use super::event::{Event, Facts, Line, Recogniser};
use super::keyed;
use super::scan;

/// Keys that are no losses or metrics.
const NOT_METRICS: [&str; 12] = [
    "eta",
    "iter",
    "time",
    "last_time",
    "data_time",
    "last_data_time",
    "data",
    "lr",
    "max_mem",
    "mem",
    "max",
    "ETA",
];

/// The recogniser.
#[derive(Debug, Default)]
pub(super) struct Detectron2 {
    /// True once a step was read: the closing lines are in other programs, too.
    stepped: bool,
    /// Names of the row of figures that follows an evaluation.
    columns: Option<Vec<Box<str>>>,
}

impl Recogniser for Detectron2 {
    fn name(&self) -> &'static str {
        "detectron2"
    }

    fn triggers(&self) -> &'static [&'static str] {
        &[
            "  iter: ",
            "Overall training speed: ",
            "Total training time: ",
            "copypaste: ",
        ]
    }

    fn read<'a>(&mut self, line: &Line<'a>, say: &mut dyn FnMut(Event<'a>)) {
        if let Some(event) = self.read_line(line.text) {
            say(event);
        }
    }
}

impl Detectron2 {
    fn read_line<'a>(&mut self, text: &'a str) -> Option<Event<'a>> {
        if let Some((_, rest)) = text.split_once("copypaste: ") {
            return self.read_evaluation(rest);
        }
        if let Some((_, rest)) = text
            .split_once("Overall training speed: ")
            .filter(|_| self.stepped)
        {
            let (_, rest) = rest.split_once('(')?;
            let step_seconds = Some(scan::per_step(rest)?.0);
            return Some(Event::Figures {
                facts: Facts {
                    step_seconds,
                    ..Facts::default()
                },
            });
        }
        if let Some((_, rest)) = text
            .split_once("Total training time: ")
            .filter(|_| self.stepped)
        {
            let seconds = Some(bar::clock(rest)?.0);
            let step_seconds = rest
                .split_once('(')
                .and_then(|(_, rest)| scan::per_step(rest))
                .map(|(step, _)| step);
            return Some(Event::RunEnd {
                seconds,
                facts: Facts {
                    step_seconds,
                    ..Facts::default()
                },
            });
        }
        let at = text
            .find("  iter: ")
            .filter(|at| text[..*at].contains("eta: ") || text[*at..].contains("loss"))?;
        let step = read_step(&text[at..]);
        self.stepped |= step.is_some();
        step
    }

    /// `Task: bbox`, `AP,AP50,AP75`, then `39.1,59.3,42.0`.
    fn read_evaluation<'a>(&mut self, text: &'a str) -> Option<Event<'a>> {
        if text.starts_with("Task: ") {
            self.columns = None;
            return None;
        }
        let cells = text.split(',').map(str::trim);
        let Some(columns) = self.columns.take() else {
            self.columns = Some(cells.take(32).map(Box::from).collect());
            return None;
        };
        let named = columns.into_iter().zip(cells);
        let number = |(name, cell): (Box<str>, &str)| {
            Some((String::from(name).into(), keyed::number(cell)?))
        };
        let facts = Facts {
            metrics: named.filter_map(number).collect(),
            ..Facts::default()
        };
        Some(Event::Figures { facts })
    }
}

fn read_step(text: &str) -> Option<Event<'_>> {
    let mut facts = Facts::default();
    let mut step = None;
    for (key, value, behind) in keyed::pairs(text) {
        match key {
            "iter" => {
                step = scan::unsigned(value)
                    .filter(|(_, rest)| rest.is_empty())
                    .map(|(step, _)| step)
            }
            "time" => {
                let mean = behind.trim_start().strip_prefix('(').and_then(scan::number);
                facts.step_seconds = mean.map(|(mean, _)| mean).or_else(|| keyed::number(value));
            }
            _ if NOT_METRICS.contains(&key) => {}
            _ => {
                if let Some((name, value)) = scan::figure_name(key).zip(keyed::number(value)) {
                    facts.metrics.push((name, value));
                }
            }
        }
    }
    Some(Event::Iteration {
        step: Some(step?),
        of: None,
        facts,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn told(text: &str) -> Option<Event<'_>> {
        Detectron2 {
            stepped: true,
            ..Detectron2::default()
        }
        .read_line(text)
    }

    #[test]
    fn iterations_and_totals_are_read() {
        let text = "[04/05 01:30:24 d2.utils.events]:  eta: 0:03:35  iter: 19  total_loss: 1.364  loss_cls: nan  time: 0.3637  last_time: 0.3  data_time: 0.1102  lr: 3.8077e-06  max_mem: 433M";
        let Some(Event::Iteration {
            step: Some(19),
            of: None,
            facts,
        }) = told(text)
        else {
            panic!()
        };
        assert_eq!(facts.step_seconds, Some(0.3637));
        assert_eq!(facts.metrics.len(), 2);
        let text = "x INFO: eta: 1 day, 1:02:03  iter: 20  loss: 1.2 (1.5)  time: 0.5 (0.6)  data: 0.01 (0.02)  lr: 0.1  max mem: 3";
        let Some(Event::Iteration {
            step: Some(20),
            facts,
            ..
        }) = told(text)
        else {
            panic!()
        };
        assert_eq!(
            (facts.step_seconds, &facts.metrics[..]),
            (Some(0.6), &[("loss".into(), 1.2)][..])
        );
        let text = "[d2.engine.hooks]: Total training time: 1 day, 0:05:20 (0:00:08 on hooks)";
        assert!(matches!(
            told(text),
            Some(Event::RunEnd {
                seconds: Some(86_720.0),
                ..
            })
        ));
        let text = "Overall training speed: 997 iterations in 0:05:12 (0.3137 s / it)";
        let Some(Event::Figures { facts }) = told(text) else {
            panic!()
        };
        assert_eq!(facts.step_seconds, Some(0.3137));
    }

    #[test]
    fn the_row_of_an_evaluation_has_the_names_before() {
        let mut training = Detectron2::default();
        for text in ["copypaste: Task: bbox", "copypaste: AP,AP50"] {
            assert_eq!(training.read_line(text), None);
        }
        let Some(Event::Figures { facts }) = training.read_line("copypaste: 39.1,nan") else {
            panic!()
        };
        assert_eq!(facts.metrics[0], ("AP".into(), 39.1));
    }

    #[test]
    fn other_lines_are_left_alone() {
        for text in [
            "[d2.evaluation.evaluator]: Inference done 11/100.",
            "  iter: 3",
            "Overall training speed: x",
        ] {
            assert_eq!(told(text), None, "{text}");
        }
    }
}
