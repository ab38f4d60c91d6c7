//! PyTorch Lightning: a bar for each epoch.
//!
//! ```text
//! Epoch 0:  50%|█████     | 50/100 [00:00<00:00, 301.44it/s, loss=0.0991, v_num=13]       0.x and 1.x
//! Epoch 1: 100%|██████████| 938/938 [00:15<00:00, 60.12it/s, v_num=2, train_loss=0.12]    2.x
//! Epoch 0/9  ━━━━━━━━━━━━━━━━━ 938/938 0:00:09 • 0:00:00 102.34it/s v_num: 2 loss: 0.12   RichProgressBar
//! Validation DataLoader 0: 100%|██████████| 79/79 [00:01<00:00, 75.10it/s]
//! `Trainer.fit` stopped: `max_epochs=3` reached.
//! ```
//!
//! The forms are those of `callbacks/progress/tqdm_progress.py` and `rich_progress.py` (1.5 to 2.x) and of
//! `callbacks/progress.py` (0.8 to 1.4). Epochs count from 0, before 0.9 from 1. The bar of an epoch counts its validation
//! too before 2.0. Bars alone may be of anybody: the texts around them and `v_num` tell that they are Lightning's.

use super::bar::{self, Bar};
use super::event::{Event, Facts, Line, Rate, Recogniser};
use super::scan;

/// Texts that only Lightning writes.
const SIGNS: [&str; 12] = [
    "v_num",
    "`Trainer.fit`",
    "GPU available: ",
    "TPU available: ",
    "LOCAL_RANK: ",
    "Sanity Checking",
    "Validation sanity check",
    "Validation DataLoader",
    "Training: 0it",
    "Training: -1it",
    "Trainable params",
    "pytorch_lightning",
];

/// What was read of the training so far.
#[derive(Debug, Default)]
pub(super) struct Lightning {
    /// True once the output was seen to be Lightning's.
    known: bool,
    /// True where that was before the first epoch.
    from_start: bool,
    /// True where the first epoch of the output has the number 1.
    from_one: bool,
    /// The epoch that is drawn, and whether its bar was full.
    epoch: Option<u64>,
    full: bool,
}

impl Recogniser for Lightning {
    fn name(&self) -> &'static str {
        "lightning"
    }

    fn triggers(&self) -> &'static [&'static str] {
        &[
            "Epoch ",
            "v_num",
            "Trainer.fit",
            "GPU available",
            "TPU available",
            "LOCAL_RANK: ",
            "Sanity Checking",
            "sanity check",
            "Validat",
            "Training: 0it",
            "Training: -1it",
            "Trainable params",
            "pytorch_lightning",
        ]
    }

    fn counts_from_zero(&self) -> Option<bool> {
        Some(!self.from_one)
    }

    fn read<'a>(&mut self, line: &Line<'a>, say: &mut dyn FnMut(Event<'a>)) {
        let text = line.text.trim();
        if !self.known && SIGNS.iter().any(|sign| text.contains(sign)) {
            self.known = true;
            self.from_start = self.epoch.is_none() && !text.contains("v_num");
        }
        if let Some(event) = self.read_line(text).filter(|_| self.known) {
            say(event);
        }
    }
}

impl Lightning {
    fn read_line<'a>(&mut self, text: &'a str) -> Option<Event<'a>> {
        if let Some((_, reached)) = text.split_once("`max_epochs=") {
            let (epochs, _) = scan::unsigned(reached).filter(|_| text.contains("Trainer.fit"))?;
            return Some(Event::Announce { epochs: Some(epochs), steps: None });
        }
        if text.starts_with("Restoring states from") || text.starts_with("Restored all states") {
            self.from_start = false;
            return None;
        }
        if text.starts_with("Validat") {
            // The bar of the epoch may be full before or, where it counts validation too, only after this.
            return self.full.then_some(Event::Validation { facts: Facts::default() });
        }
        let rest = text.get(text.find("Epoch ")?..)?;
        let (epoch, last, _) = scan::counted(&rest["Epoch ".len()..])?;
        if let Some(bar) = bar::read(rest) {
            // Bars of scvi-tools, which count the epochs themselves: `Epoch 20/20: 100%|█| 20/20`.
            return self.read_bar(&bar, epoch, last);
        }
        // The bars of rich name the last epoch.
        self.read_bar(&rich(rest)?, epoch, last.and_then(|last| last.checked_add(1)))
    }

    fn read_bar<'a>(&mut self, bar: &Bar<'a>, epoch: u64, epochs: Option<u64>) -> Option<Event<'a>> {
        if self.epoch.is_none() {
            self.from_one = self.from_start && epoch == 1;
        }
        // The emptied bar of an epoch that is over still has its number.
        if self.epoch == Some(epoch) && self.full && !bar.is_full() {
            return None;
        }
        (self.epoch, self.full) = (Some(epoch), bar.is_full());
        let facts = bar.facts();
        Some(match bar.of.filter(|_| bar.is_full()) {
            Some(of) => {
                Event::EpochEnd { epoch, epochs, seconds: bar.elapsed, step: Some((bar.step, of)), facts }
            }
            None => Event::Step { epoch, epochs, step: bar.step, of: bar.of, facts },
        })
    }
}

/// Reads a bar of `RichProgressBar`, whose times and rate stand behind the counts without brackets.
fn rich(text: &str) -> Option<Bar<'_>> {
    // Terminals without the lines show dashes.
    let line = text.find(['━', '╸', '╺']).or_else(|| text.find(" ---"))?;
    let (label, rest) = text.split_at(line);
    let rest = rest.trim_start_matches(['━', '╸', '╺', ' ', '-']);
    let (step, of, rest) = scan::counted(rest)?;
    let (elapsed, rest) = scan::clock(rest.trim_start())?;
    let rest = rest.trim_start().strip_prefix('•')?.trim_start();
    let (remaining, rest) = match scan::clock(rest) {
        Some((remaining, rest)) => (Some(remaining), rest),
        None => (None, rest.trim_start_matches(['-', ':'])),
    };
    let mut bar = Bar { label: label.trim(), step, of, elapsed: Some(elapsed), remaining, ..Bar::default() };
    bar.postfix = rest.trim_start();
    if let Some((value, rest)) = scan::number(bar.postfix)
        && let Some(("it/s", rest)) = scan::rate_unit(rest)
    {
        bar.per_second =
            Rate::of_run(value, "it/s").filter(|rate| rate.value > 0.0).map(|rate| (rate.value, "it"));
        bar.postfix = rest.trim_start();
    }
    Some(bar)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn told(lines: &[&str]) -> Vec<String> {
        let (mut lightning, mut told) = (Lightning::default(), Vec::new());
        for text in lines {
            lightning.read(&Line { text, redrawn: false }, &mut |event| {
                told.push(match event {
                    Event::EpochEnd { epoch, epochs, seconds, step, facts } => {
                        format!("end {epoch}/{epochs:?} {seconds:?} {step:?} {:?}", facts.metrics)
                    }
                    Event::Step { epoch, step, of, .. } => format!("step {epoch} {step}/{of:?}"),
                    other => other.kind().to_owned(),
                })
            });
        }
        told
    }

    #[test]
    fn bars_are_lightnings_where_something_says_so() {
        let bar = "Epoch 0:  50%|██   | 50/100 [00:01<00:01, 30.1it/s]";
        assert!(told(&[bar]).is_empty());
        assert_eq!(told(&["LOCAL_RANK: 0 - CUDA_VISIBLE_DEVICES: [0]", bar]), ["step 0 50/Some(100)"]);
        let full = "Epoch 0: 100%|████| 100/100 [00:03<00:00, 31.1it/s, v_num=2ab, loss=nan]";
        let seen = told(&[full, "Epoch 0:   0%|    | 0/100 [00:00<?, ?it/s, v_num=2ab, loss=nan]"]);
        assert_eq!(seen, ["end 0/None Some(3.0) Some((100, 100)) [(\"loss\", NaN)]"]);
    }

    #[test]
    fn bars_of_rich_are_read() {
        let seen = told(&[
            "Epoch 0/9  ━━━━━━╸━━━━━ 38/938 0:00:01 • 0:00:24 42.34it/s v_num: 3",
            "Epoch 0/9  ━━━━━━━━━━━━ 938/938 0:00:09 • 0:00:00 102.34it/s v_num: 3.000 loss: 0.25",
        ]);
        assert_eq!(
            seen,
            ["step 0 38/Some(938)", "end 0/Some(10) Some(9.0) Some((938, 938)) [(\"loss\", 0.25)]"]
        );
    }
}
