//! Caffe: the lines of its solver.
//!
//! ```text
//! I0828 22:18:14.476822 11510 solver.cpp:195] Iteration 0, loss = 3.78589
//! I1109 10:34:34.280992  9709 solver.cpp:219] Iteration 360 (0.170469 iter/s, 58.6617s/10 iters), loss = 0.0140731
//! I1109 10:34:34.281066  9709 solver.cpp:238]     Train net output #0: loss_x16 = 0.0019 (* 1 = 0.0019 loss)
//! I0828 22:17:48.339010 11510 solver.cpp:251] Iteration 0, Testing net (#0)
//! I0828 22:18:14.313817 11510 solver.cpp:302]     Test net output #0: accuracy = 0.0308
//! ```
//!
//! The forms are those of `src/caffe/solver.cpp` and `sgd_solver.cpp`, before and after rc5 (2017), and of NVCaffe. There are no
//! epochs; `max_iter` of the solver's parameters is the number of steps.

use super::event::{Event, Facts, Line, Rate, Recogniser};
use super::names::Trained;
use super::scan;

/// What was read of the training so far.
#[derive(Debug, Default)]
pub(super) struct Caffe {
    max_iter: Option<u64>,
    /// The last iteration that was named.
    last: Option<u64>,
    trained: Trained,
}

impl Recogniser for Caffe {
    fn name(&self) -> &'static str {
        "caffe"
    }

    fn triggers(&self) -> &'static [&'static str] {
        &["Iteration ", "net output #", "max_iter: ", "Test score #"]
    }

    fn read<'a>(&mut self, line: &Line<'a>, say: &mut dyn FnMut(Event<'a>)) {
        if let Some(event) = self.read_line(line.text) {
            say(event);
        }
    }
}

impl Caffe {
    fn read_line<'a>(&mut self, text: &'a str) -> Option<Event<'a>> {
        let text = scan::message(text);
        if let Some(steps) = text.strip_prefix("max_iter: ") {
            self.max_iter = scan::unsigned(steps).map(|(steps, _)| steps);
            return None;
        }
        if let Some(rest) = text.strip_prefix("Train net output #") {
            let metrics = vec![output(rest)?];
            self.trained.note(&metrics);
            return Some(Event::Figures { facts: Facts { metrics, ..Facts::default() } });
        }
        if let Some(rest) = text.strip_prefix("Test net output #") {
            let metrics = self.trained.tell_apart("test_", vec![output(rest)?]);
            return Some(Event::Validation { facts: Facts { metrics, ..Facts::default() } });
        }
        if let Some(rest) = text.strip_prefix("Test score #") {
            let (number, value) = rest.split_once(": ")?;
            let metrics = vec![(format!("test_score_{number}").into(), scan::number(value)?.0)];
            return Some(Event::Validation { facts: Facts { metrics, ..Facts::default() } });
        }
        self.iteration(text.strip_prefix("Iteration ")?)
    }

    fn iteration<'a>(&mut self, text: &'a str) -> Option<Event<'a>> {
        let (step, rest) = scan::unsigned(text)?;
        if let Some(rate) = rest.strip_prefix(", lr = ") {
            let metrics = vec![("lr".into(), scan::number(rate)?.0)];
            return Some(Event::Figures { facts: Facts { metrics, ..Facts::default() } });
        }
        // The test after the last step may be all that is left of it.
        if rest.starts_with(", Testing net") && step > self.last.unwrap_or(0) {
            self.last = Some(step);
            return Some(Event::RunStep {
                epoch: None,
                epochs: None,
                step,
                of: self.max_iter,
                facts: Facts::default(),
            });
        }
        let (loss, after) = scan::number(scan::after(rest, "loss = ")?)?;
        // Neural networks of scikit-learn print eight digits.
        let digits = rest.rsplit_once('.').map_or(0, |(_, digits)| digits.len());
        if !after.trim().is_empty() || self.last.is_none() && digits == 8 && step == 1 {
            return None;
        }
        self.last = Some(step);
        let mut facts = Facts { metrics: vec![("loss".into(), loss)], ..Facts::default() };
        if let Some(speed) = rest.strip_prefix(" (") {
            let (value, rest) = scan::number(speed)?;
            facts.throughput = scan::rate_unit(rest).and_then(|(unit, _)| Rate::of_run(value, unit));
            facts.step_seconds = scan::after(rest, ", ").and_then(step_seconds);
        }
        Some(Event::RunStep { epoch: None, epochs: None, step, of: self.max_iter, facts })
    }
}

/// `58.6617s/10 iters` as seconds of one.
fn step_seconds(text: &str) -> Option<f64> {
    let (seconds, rest) = scan::number(text)?;
    let (steps, _) = scan::unsigned(rest.strip_prefix("s/")?)?;
    u32::try_from(steps).ok().filter(|steps| *steps > 0).map(|steps| seconds / f64::from(steps))
}

/// `0: accuracy = 0.0308 (* 1 = 0.0308 loss)` as a metric.
fn output(text: &str) -> Option<(std::borrow::Cow<'_, str>, f64)> {
    let (_, rest) = text.split_once(": ")?;
    let (name, value) = rest.split_once(" = ")?;
    Some((scan::metric_name(name.trim())?, scan::number(value)?.0))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn old_and_new_iterations_are_read() {
        let mut caffe = Caffe::default();
        assert_eq!(caffe.read_line("max_iter: 5000"), None);
        let mut step = |text| match caffe.read_line(text) {
            Some(Event::RunStep { step, of, facts, .. }) => {
                (step, of, facts.step_seconds, facts.throughput, facts.metrics[0].1)
            }
            other => panic!("{text}: {other:?}"),
        };
        let text = "I0828 22:18:14.476822 11510 solver.cpp:195] Iteration 20, loss = 3.5";
        assert_eq!(step(text), (20, Some(5000), None, None, 3.5));
        let text =
            "I1109 10:34:34.2  9709 solver.cpp:219] Iteration 360 (0.125 iter/s, 80s/10 iters), loss = 0.5";
        assert_eq!(step(text), (360, Some(5000), Some(8.0), Rate::of_run(0.125, "it/s"), 0.5));
        let text = "Iteration 100 (12.5 iter/s, 8s/100 iter), 3.1/121.1ep, loss = 2.5";
        assert_eq!(step(text), (100, Some(5000), Some(0.08), Rate::of_run(12.5, "it/s"), 2.5));
    }

    #[test]
    fn outputs_of_both_nets_are_told_apart() {
        let mut caffe = Caffe::default();
        let mut metrics = |text| match caffe.read_line(text) {
            Some(Event::Figures { facts } | Event::Validation { facts }) => facts.metrics[0].0.to_string(),
            other => panic!("{text}: {other:?}"),
        };
        assert_eq!(metrics("    Test net output #0: accuracy = 0.5"), "accuracy");
        assert_eq!(metrics("I1 1 solver.cpp:238]     Train net output #0: accuracy = 0.5"), "accuracy");
        assert_eq!(metrics("I1 1 solver.cpp:302]     Test net output #0: accuracy = 0.5"), "test_accuracy");
        assert_eq!(metrics("    Test net output #1: loss = 0.5 (* 1 = 0.5 loss)"), "test_loss");
        assert_eq!(metrics("I1 1 sgd_solver.cpp:105] Iteration 360, lr = 7.8125e-07"), "lr");
    }

    #[test]
    fn a_test_names_a_step_that_no_other_line_has() {
        let mut caffe = Caffe::default();
        let mut step = |text| match caffe.read_line(text) {
            Some(Event::RunStep { step, .. }) => Some(step),
            _ => None,
        };
        assert_eq!(step("Iteration 0, Testing net"), None);
        assert_eq!(step("Iteration 500, loss = 0.5"), Some(500));
        assert_eq!(step("Iteration 500, Testing net (#0)"), None);
        assert_eq!(
            step("I0317 22:12:19.666914 2008298256 solver.cpp:87] Iteration 600, Testing net"),
            Some(600)
        );
    }

    #[test]
    fn other_iterations_are_left_alone() {
        for text in
            ["Iteration 0, Testing net (#0)", "Iteration 3", "Iteration 5, loss = 3 (best)", "Iteration x"]
        {
            assert_eq!(Caffe::default().read_line(text), None, "{text}");
        }
    }
}
