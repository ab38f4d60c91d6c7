//! PyTorch Lightning: a bar for each epoch.
//!
//! ```text
//! Epoch 0:  50%|█████     | 50/100 [00:00<00:00, 301.44it/s, loss=0.0991, v_num=13]       0.x and 1.x
//! Epoch 1: 100%|██████████| 938/938 [00:15<00:00, 60.12it/s, v_num=2, train_loss=0.12]    2.x
//! Epoch 0/9  ━━━━━━━━━━━━━━━━━ 938/938 0:00:09 • 0:00:00 102.34it/s v_num: 2 loss: 0.12   RichProgressBar; where its
//!                                                                   val_loss: 0.14        line is full continues below
//! Validation DataLoader 0: 100%|██████████| 79/79 [00:01<00:00, 75.10it/s]
//! `Trainer.fit` stopped: `max_epochs=3` reached.
//! ```
//!
//! Where there is no terminal the bars of rich come once, behind the line that says that all epochs are done.
//!
//! The forms are those of `callbacks/progress/tqdm_progress.py` and `rich_progress.py` (1.5 to 2.x) and of
//! `callbacks/progress.py` (0.8 to 1.4). Epochs count from 0, before 0.9 from 1. The bar of an epoch counts its validation
//! too before 2.0. Bars alone may be of anybody: the texts around them and `v_num` tell that they are Lightning's.

use super::bar::{self, Bar};
use super::event::{Event, Facts, Line, Recogniser};
use super::scan;

/// Texts that only Lightning writes.
const SIGNS: &str = "v_num|`Trainer.fit`|GPU available: |TPU available: |LOCAL_RANK: |\
    Sanity Checking|Validation sanity check|Validation DataLoader|Training: 0it|Training: -1it|\
    Trainable params|pytorch_lightning";

/// Blanks before figures that had no room in the line of a bar.
const BELOW: &str = "                    ";

/// Epochs without a bar at most; the number is the user's.
const MAX_UNSEEN: u64 = 10_000;

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
    /// True behind a line of a bar of rich, whose figures may go on below.
    drawn: bool,
}

impl Recogniser for Lightning {
    fn name(&self) -> &'static str {
        "lightning"
    }

    fn triggers(&self) -> &'static str {
        "Epoch ¦v_num¦Trainer.fit¦GPU available¦TPU available¦LOCAL_RANK: ¦Sanity Checking¦\
         sanity check¦Validat¦Training: 0it¦Training: -1it¦Trainable params¦\
         pytorch_lightning"
    }

    fn wants_every_line(&self) -> bool {
        self.drawn
    }

    fn counts_from_zero(&self) -> Option<bool> {
        Some(!self.from_one)
    }

    fn read<'a>(&mut self, line: &Line<'a>, say: &mut dyn FnMut(Event<'a>)) {
        let text = line.text.trim();
        if std::mem::take(&mut self.drawn) && line.text.starts_with(BELOW) {
            let mut facts = Facts::default();
            bar::postfix(text, scan::figure_name, &mut facts);
            self.drawn = !facts.metrics.is_empty();
            if self.drawn {
                return say(Event::figures(facts));
            }
        }
        if !self.known && scan::holds_any(text, SIGNS) {
            self.known = true;
            self.from_start = self.epoch.is_none() && !text.contains("v_num");
        }
        if let Some(epochs) = reached(text).filter(|_| self.known) {
            self.end_of_fit(epochs, say);
        }
        if let Some(event) = self.read_line(text).filter(|_| self.known) {
            self.drawn = text.contains(bar::RULE);
            say(event);
        }
    }
}

/// `Trainer.fit` stopped: `max_epochs=3` reached.
fn reached(text: &str) -> Option<u64> {
    let (_, reached) = text
        .split_once("`max_epochs=")
        .filter(|_| text.contains("Trainer.fit"))?;
    scan::unsigned(reached).map(|(epochs, _)| epochs)
}

impl Lightning {
    /// All epochs are done; of those of which no bar came, that is all that is known.
    fn end_of_fit<'a>(&self, epochs: u64, say: &mut dyn FnMut(Event<'a>)) {
        say(Event::announce(Some(epochs), None));
        let whole = self.from_start && self.epoch.is_none() && epochs <= MAX_UNSEEN;
        for epoch in (0..epochs).filter(|_| whole) {
            say(Event::epoch_end((epoch, None), Facts::default()));
        }
    }

    fn read_line<'a>(&mut self, text: &'a str) -> Option<Event<'a>> {
        if text.contains("`Trainer.fit` stopped") {
            return None;
        }
        if text.starts_with("Validat") {
            // The bar of the epoch may be full before or, where it counts validation too, only after this.
            return self.full.then_some(Event::validation(Facts::default()));
        }
        let rest = text.get(text.find("Epoch ")?..)?;
        let (epoch, last, _) = scan::counted(&rest["Epoch ".len()..])?;
        if let Some(bar) = bar::read(rest) {
            // Bars of scvi-tools, which count the epochs themselves: `Epoch 20/20: 100%|█| 20/20`.
            return self.read_bar(&bar, epoch, last);
        }
        // The bars of rich name the last epoch.
        self.read_bar(
            &bar::rich(rest)?,
            epoch,
            last.and_then(|last| last.checked_add(1)),
        )
    }

    fn read_bar<'a>(
        &mut self,
        bar: &Bar<'a>,
        epoch: u64,
        epochs: Option<u64>,
    ) -> Option<Event<'a>> {
        if self.epoch.is_none() {
            self.from_one = self.from_start && epoch == 1;
        }
        // The emptied bar of an epoch that is over still has its number.
        if self.epoch == Some(epoch) && self.full && !bar.is_full() {
            return None;
        }
        (self.epoch, self.full) = (Some(epoch), bar.is_full());
        let mut facts = bar.pace();
        bar::postfix(bar.postfix, scan::figure_name, &mut facts);
        Some(bar.event((epoch, epochs), facts))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::observe::timing::event::Says;

    fn events(lines: &[&str]) -> Vec<String> {
        let (mut lightning, mut events) = (Lightning::default(), Vec::new());
        for text in lines {
            lightning.read(
                &Line {
                    text,
                    redrawn: false,
                },
                &mut |event| {
                    events.push(match event {
                        Event {
                            says: Says::EpochEnd,
                            epoch: Some(epoch),
                            epochs,
                            seconds,
                            step,
                            facts,
                            ..
                        } => {
                            format!(
                                "end {epoch}/{epochs:?} {seconds:?} {step:?} {:?}",
                                facts.metrics
                            )
                        }
                        Event {
                            says: Says::Step,
                            epoch: Some(epoch),
                            step: Some(step),
                            of,
                            ..
                        } => format!("step {epoch} {step}/{of:?}"),
                        other => other.says.name().to_owned(),
                    })
                },
            );
        }
        events
    }

    #[test]
    fn bars_are_lightnings_where_something_says_so() {
        let bar = "Epoch 0:  50%|██   | 50/100 [00:01<00:01, 30.1it/s]";
        assert!(events(&[bar]).is_empty());
        assert_eq!(
            events(&["LOCAL_RANK: 0 - CUDA_VISIBLE_DEVICES: [0]", bar]),
            ["step 0 50/Some(100)"]
        );
        let full = "Epoch 0: 100%|████| 100/100 [00:03<00:00, 31.1it/s, v_num=2ab, loss=nan]";
        let seen = events(&[
            full,
            "Epoch 0:   0%|    | 0/100 [00:00<?, ?it/s, v_num=2ab, loss=nan]",
        ]);
        assert_eq!(seen, ["end 0/None Some(3.0) Some(100) [(\"loss\", NaN)]"]);
    }

    #[test]
    fn bars_of_rich_are_read() {
        let seen = events(&[
            "Epoch 0/9  ━━━━━━╸━━━━━ 38/938 0:00:01 • 0:00:24 42.34it/s v_num: 3",
            "Epoch 0/9  ━━━━━━━━━━━━ 938/938 0:00:09 • 0:00:00 102.34it/s v_num: 3.000 loss: 0.25",
        ]);
        assert_eq!(
            seen,
            [
                "step 0 38/Some(938)",
                "end 0/Some(10) Some(9.0) Some(938) [(\"loss\", 0.25)]"
            ]
        );
    }

    #[test]
    fn a_bar_that_comes_once_is_not_the_only_epoch() {
        let seen = events(&[
            "GPU available: False, used: False",
            "`Trainer.fit` stopped: `max_epochs=2` reached.",
            "Epoch 1/1  ━━━━━━━━━━━━ 20/20 0:00:00 • 0:00:00 736.36it/s train_loss: 0.553",
            "                                                               val_loss: 0.563",
            "val_loss: 3",
        ]);
        let ends = ["end 0/None None None []", "end 1/None None None []"];
        let bar = "end 1/Some(2) None Some(20) [(\"train_loss\", 0.553)]";
        assert_eq!(seen, ["announcement", ends[0], ends[1], bar, "figures"]);
    }
}
