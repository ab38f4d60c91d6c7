//! The synthetic benchmarks and the plain loops among Horovod's examples.
//!
//! ```text
//! Iter #5: 348.5 img/sec per GPU
//! Img/sec per GPU: 352.5 +-3.0
//! Total img/sec on 16 GPU(s): 5640.2 +-47.2
//! Step #10  Loss: 2.301
//! ```
//!
//! The forms are those of `pytorch_synthetic_benchmark.py`, `tensorflow_synthetic_benchmark.py` (whose device is `/gpu:0`)
//! and `tensorflow2_mnist.py` of horovod 0.15 to 0.28, and of the programs that copy them.

use super::event::{Event, Facts, Line, Rate, Recogniser};
use super::scan;

/// The recogniser of such lines.
#[derive(Debug, Default)]
pub(super) struct Horovod;

impl Recogniser for Horovod {
    fn name(&self) -> &'static str {
        "horovod"
    }

    fn triggers(&self) -> &'static [&'static str] {
        &["Iter #", "mg/sec per ", "img/sec on ", "Step #"]
    }

    fn read<'a>(&mut self, line: &Line<'a>, say: &mut dyn FnMut(Event<'a>)) {
        if let Some(event) = read_line(line.text.trim()) {
            say(event);
        }
    }
}

fn read_line(text: &str) -> Option<Event<'_>> {
    if let Some(rest) = scan::after(text, "Iter #") {
        let (step, rest) = scan::unsigned(rest)?;
        let (value, rest) = scan::number(rest.strip_prefix(": ")?)?;
        let (unit, rest) = scan::rate_unit(rest)?;
        let rate = if rest.starts_with(" per ") { Rate::of_device } else { Rate::of_run };
        let facts = Facts { throughput: rate(value, unit), ..Facts::default() };
        return Some(Event::RunStep { epoch: None, epochs: None, step, of: None, facts });
    }
    if let Some(rest) = scan::after(text, "Step #") {
        let (step, rest) = scan::unsigned(rest)?;
        let (loss, _) = scan::number(rest.trim_start().strip_prefix("Loss: ")?)?;
        let facts = Facts { metrics: vec![("loss".into(), loss)], ..Facts::default() };
        return Some(Event::RunStep { epoch: None, epochs: None, step, of: None, facts });
    }
    // The device may have a colon of its own: `/gpu:0`.
    let (name, value) = text.rsplit_once(": ")?;
    let (value, rest) = scan::number(value)?;
    if !rest.trim_start().starts_with("+-") {
        return None;
    }
    if name.contains("Img/sec per ") {
        let facts = Facts { throughput: Rate::of_device(value, "samples/s"), ..Facts::default() };
        return Some(Event::Figures { facts });
    }
    let facts = Facts { throughput: Rate::of_run(value, "samples/s"), ..Facts::default() };
    name.contains("Total img/sec on ").then_some(Event::RunEnd { seconds: None, facts })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rates_are_those_of_a_device_or_of_all() {
        for (text, rate) in [
            ("Iter #5: 348.5 img/sec per GPU", Rate::of_device(348.5, "samples/s")),
            ("[10.0.0.1::stdout] Iter #1: 50.5 img/sec per /gpu:0", Rate::of_device(50.5, "samples/s")),
            ("Iter #0: 4081.0 img/sec GPU", Rate::of_run(4081.0, "samples/s")),
            ("Img/sec per /gpu:0: 50.1 +-0.5", Rate::of_device(50.1, "samples/s")),
            ("Total img/sec on 4 /gpu:0(s): 432.8 +-4.9", Rate::of_run(432.8, "samples/s")),
            ("Step #10\tLoss: 2.301", None),
        ] {
            let event = read_line(text);
            let Some(Event::RunStep { facts, .. } | Event::Figures { facts } | Event::RunEnd { facts, .. }) =
                event
            else {
                panic!("{text}: {event:?}")
            };
            assert_eq!(facts.throughput, rate, "{text}");
        }
        for text in ["Iter #5 done", "Step #3: build image", "cost: img/sec per day: 3", "Img/sec per GPU: 5"]
        {
            assert_eq!(read_line(text), None, "{text}");
        }
    }
}
