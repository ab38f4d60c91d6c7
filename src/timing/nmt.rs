//! Translation: OpenNMT-py and Marian.
//!
//! ```text
//! Step 2250/200000; acc:  31.18; ppl: 57.53; xent: 4.05; lr: 0.00028; 5092/261 tok/s;   6641 sec            OpenNMT-py
//! Epoch  1, 12850/37527; acc:   3.99; ppl: 12792.57; 3438 src tok/s; 3517 tgt tok/s;   9823 s elapsed       before 0.3
//! Ep. 1 : Up. 82000 : Sen. 5,529,093 : Cost 2.79048038 : Time 817.42s : 2193.04 words/s                     Marian
//! [valid] Ep. 1 : Up. 80000 : perplexity : 15.1079 : new best
//! ```
//!
//! The forms are those of `onmt/utils/statistics.py` (0.1 to 3.5) and of `src/training/scheduler.h` of marian-dev (1.0 to
//! 1.12). The seconds of OpenNMT are those since the start; Marian's are those of all updates since its line before. Of
//! the two rates of OpenNMT the first, that of the source, is kept.

use super::event::{Event, Facts, Line, Rate, Recogniser};
use super::scan;

/// The recogniser of such lines.
#[derive(Debug, Default)]
pub(super) struct Nmt;

impl Recogniser for Nmt {
    fn name(&self) -> &'static str {
        "nmt"
    }

    fn triggers(&self) -> &'static [&'static str] {
        &[" tok/s; ", " : Up. ", "Validation perplexity: ", "Validation accuracy: "]
    }

    fn counts_from_zero(&self) -> Option<bool> {
        Some(false)
    }

    fn read<'a>(&mut self, line: &Line<'a>, say: &mut dyn FnMut(Event<'a>)) {
        let text = line.text;
        if let Some(event) = marian(text).or_else(|| open_nmt(text)).or_else(|| validation(text)) {
            say(event);
        }
    }
}

fn marian(text: &str) -> Option<Event<'_>> {
    let at = text.find("Ep. ").filter(|_| text.contains(" : Up. "))?;
    let (epoch, rest) = scan::unsigned(&text[at + "Ep. ".len()..])?;
    let (step, rest) = scan::unsigned(rest.strip_prefix(" : Up. ")?)?;
    let mut facts = Facts::default();
    if text[..at].contains("[valid]") {
        let (name, value) = rest.strip_prefix(" : ")?.split_once(" : ")?;
        facts.metrics.push((name.into(), scan::number(value)?.0));
        return Some(Event::Figures { facts });
    }
    for field in rest.split(" : ") {
        if let Some((rate, unit)) = scan::grouped(field)
            && let Some((unit, "")) = scan::rate_unit(unit.trim_end())
        {
            facts.throughput = Rate::of_run(rate, unit);
        } else if let Some(cost) = field.strip_prefix("Cost ").and_then(scan::number) {
            facts.metrics.push(("Cost".into(), cost.0));
        }
    }
    Some(Event::Step { epoch, epochs: None, step, of: None, facts })
}

fn open_nmt(text: &str) -> Option<Event<'_>> {
    let mut fields = text.split(';');
    let head = fields.next()?;
    let mut facts = Facts::default();
    for field in fields {
        if let Some((name, value)) = field.split_once(':') {
            let value = scan::number(value.trim()).filter(|(_, rest)| rest.is_empty());
            if let Some((value, _)) = value.filter(|_| !matches!(name.trim(), "sents" | "bsz")) {
                facts.metrics.push((name.trim().into(), value));
            }
        } else if field.contains(" tok/s") && facts.throughput.is_none() {
            facts.throughput = Rate::of_run(scan::number(field.trim())?.0, "tokens/s");
        }
    }
    facts.throughput?;
    if let Some((_, rest)) = head.split_once("Epoch ") {
        let (epoch, rest) = scan::unsigned(rest.trim_start())?;
        let (step, of, _) = scan::counted(rest.strip_prefix(',')?)?;
        return Some(Event::Step { epoch, epochs: None, step, of, facts });
    }
    let (step, of, _) = scan::counted(head.split_once("Step ")?.1)?;
    Some(Event::Iteration { step: Some(step), of, facts })
}

/// `Validation perplexity: 12.3`; it may come at any step.
fn validation(text: &str) -> Option<Event<'_>> {
    let at = text.find("Validation ")?;
    let (name, value) = text[at..].split_once(": ")?;
    let facts = Facts { metrics: vec![(name.into(), scan::number(value)?.0)], ..Facts::default() };
    Some(Event::Figures { facts })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(text: &str) -> Vec<Event<'_>> {
        let mut said = Vec::new();
        Nmt.read(&Line { text, redrawn: false }, &mut |event| said.push(event));
        said
    }

    #[test]
    fn lines_of_both_are_read() {
        let said = read(
            "[2019-03-21 18:31:43,773 INFO] Step 2250/200000; acc:  31.18; ppl: 57.53; xent: 4.05; lr: 0.00028; 5092/261 tok/s;   6641 sec",
        );
        let [Event::Iteration { step: Some(2250), of: Some(200_000), facts }] = said.as_slice() else {
            panic!("{said:?}")
        };
        assert_eq!(facts.throughput, Rate::of_run(5092.0, "tokens/s"));
        assert_eq!(facts.metrics[1], ("ppl".into(), 57.53));
        let said = read(
            "Epoch  1, 12850/37527; acc:   3.99; ppl: 12792.57; xent:   9.46; 3438 src tok/s; 3517 tgt tok/s;   9823 s elapsed",
        );
        let [Event::Step { epoch: 1, step: 12_850, of: Some(37_527), facts, .. }] = said.as_slice() else {
            panic!("{said:?}")
        };
        assert_eq!(facts.throughput, Rate::of_run(3438.0, "tokens/s"));
        let said = read(
            "[2021-07-17 21:11:31] Ep. 1 : Up. 82000 : Sen. 5,529,093 : Cost 2.79048038 : Time 817.42s : 2193.04 words/s",
        );
        let [Event::Step { epoch: 1, step: 82_000, facts, .. }] = said.as_slice() else { panic!("{said:?}") };
        assert_eq!(facts.throughput, Rate::of_run(2193.04, "words/s"));
        let said = read("[2021-07-17 20:59:45] [valid] Ep. 1 : Up. 80000 : perplexity : 15.1079 : new best");
        assert!(matches!(&said[..], [Event::Figures { facts }] if facts.metrics[0].1 == 15.1079), "{said:?}");
        assert_eq!(read("[x] Loading dataset, number of examples: 66620; 3 tok/s; "), []);
    }
}
