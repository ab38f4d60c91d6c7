//! YOLOv5 and its kin, and Ultralytics' YOLOv8 and later: a head, a bar for each epoch, a row of figures after its validation.
//!
//! ```text
//!       Epoch    GPU_mem   box_loss   obj_loss   cls_loss  Instances       Size
//!         0/2      3.91G    0.04618    0.07209    0.01703        232        640: 100% 8/8 [00:09<00:00,  1.17s/it]
//!                  Class     Images  Instances          P          R      mAP50   mAP50-95: 100% 4/4 [00:01<00:00,  2.01it/s]
//!                    all        128        929      0.667      0.602       0.68       0.45
//! 3 epochs completed in 0.006 hours.
//! ```
//!
//! The forms are those of `train.py`, `val.py` and `classify/train.py` of YOLOv5 (6.x, 7.0; so are YOLOv7 and v9), where
//! epochs count from 0 and the last is printed as their number, and of `engine/trainer.py` and `models/yolo/*/val.py` of
//! Ultralytics 8.x, where they count from 1. `obj` in the head distinguishes the two, and `Box(P` in that of the validation.

use super::bar::{self};
use super::event::{Event, Facts, Line, Recogniser};
use super::scan;

/// Columns that are no losses or metrics.
const NOT_METRICS: &str = "Epoch|GPU_mem|gpu_mem|Instances|Size|labels|img_size|targets|Class|\
    Images|Labels";

/// Most columns of a head that are read.
const MAX_COLUMNS: usize = 24;

/// What was read of the training so far.
#[derive(Debug, Default)]
pub(super) struct Yolo {
    /// Names of the columns of training rows; empty before the first head.
    columns: Vec<Box<str>>,
    /// Names of the columns of the row that follows a validation; empty where none is due.
    figures: Vec<Box<str>>,
    /// Whether epochs count from 0, as far as it is known.
    from_zero: Option<bool>,
    /// True once a row of a training came, if without a head.
    rows: bool,
    /// Epochs in all, as a line before the training says.
    epochs: Option<u64>,
}

impl Recogniser for Yolo {
    fn name(&self) -> &'static str {
        "yolo"
    }

    fn triggers(&self) -> &'static str {
        "GPU_mem¦gpu_mem¦Starting training for ¦ Class ¦classes   top1_acc¦ all ¦\
         epochs completed in ¦%|¦it/s¦s/it¦100%"
    }

    fn counts_from_zero(&self) -> Option<bool> {
        self.from_zero
    }

    fn read<'a>(&mut self, line: &Line<'a>, say: &mut dyn FnMut(Event<'a>)) {
        if let Some(event) = self.read_line(line.text) {
            say(event);
        }
    }
}

impl Yolo {
    fn read_line<'a>(&mut self, text: &'a str) -> Option<Event<'a>> {
        if let Some((_, rest)) = text.split_once("Starting training for ") {
            let (epochs, rest) = scan::unsigned(rest)?;
            self.epochs = Some(epochs).filter(|_| rest.starts_with(" epochs"));
            return self.epochs.map(|_| Event::announce(self.epochs, None));
        }
        if let Some((before, rest)) = text.split_once(" epochs completed in ") {
            let (seconds, _) = scan::duration(rest)?;
            let counted = before
                .trim_start()
                .bytes()
                .next()
                .is_some_and(|byte| byte.is_ascii_digit())
                || self.rows
                || !self.columns.is_empty();
            return counted.then_some(Event::run_end(Some(seconds), Facts::default()));
        }
        let mut words = text.split_ascii_whitespace();
        match words.next()? {
            "Epoch"
                if words
                    .next()
                    .is_some_and(|word| word.eq_ignore_ascii_case("gpu_mem")) =>
            {
                self.read_head(text);
                None
            }
            "Class" if text.contains("Images") => self.read_validation(text),
            "classes" if text.contains("top1_acc") => self.read_validation(text),
            "all" if !self.figures.is_empty() => self.read_figures(text),
            _ => self.read_row(text),
        }
    }

    /// The head of the rows of training.
    fn read_head(&mut self, text: &str) {
        self.columns = text
            .split_ascii_whitespace()
            .take(MAX_COLUMNS)
            .map(Box::from)
            .collect();
        let has = |part: &str| self.columns.iter().any(|column| column.contains(part));
        if has("obj") && !has("kobj") {
            self.from_zero = Some(true);
        } else {
            self.from_zero = self.from_zero.or(Some(false));
        }
    }

    /// `0/2  3.91G  0.04618 ...  640: 100% 8/8 [00:09<00:00,  1.17s/it]`.
    fn read_row<'a>(&mut self, text: &'a str) -> Option<Event<'a>> {
        let (epoch, of, _) = scan::counted(text)?;
        let of = of?;
        let first = text.split_ascii_whitespace().next()?;
        if !first.ends_with(|c: char| c.is_ascii_digit()) || !first.contains('/') {
            return None;
        }
        let bar = bar::read(text);
        // Narrow terminals cut the bar off.
        let (cells, cut) = match &bar {
            Some(bar) => (bar.label, false),
            None => text.split_once(": 100%").map(|(cells, _)| (cells, true))?,
        };
        let mut cells = cells.split_ascii_whitespace();
        cells.next();
        let memory = cells.next()?;
        if !memory.ends_with(['G', 'M', 'B']) {
            return None;
        }
        self.rows = true;
        if epoch == 0 {
            self.from_zero = Some(true);
        } else if epoch == of {
            self.from_zero = Some(self.from_zero == Some(true));
        }
        let epochs = self.epochs.filter(|epochs| *epochs > epoch).or_else(|| {
            if self.from_zero == Some(true) {
                of.checked_add(1)
            } else {
                Some(of)
            }
        });
        let bar = bar.unwrap_or_default();
        let mut facts = bar.pace();
        for (name, cell) in self.columns.iter().skip(2).zip(cells) {
            if let Some((value, "")) = scan::number(cell.trim_end_matches(':'))
                && !scan::is_any(name, NOT_METRICS)
            {
                facts.metrics.push((name.to_string().into(), value));
            }
        }
        Some(match cut {
            true => Event::epoch_end((epoch, epochs), facts),
            false => bar.event((epoch, epochs), facts),
        })
    }

    /// The head of the figures of a validation, with its bar.
    fn read_validation<'a>(&mut self, text: &str) -> Option<Event<'a>> {
        if self.columns.is_empty() && !self.rows {
            return None;
        }
        let names = text.split_once(": ").map_or(text, |(names, _)| names);
        let names = names
            .split(|c: char| c.is_whitespace() || matches!(c, '(' | ')'))
            .filter(|name| !name.is_empty());
        self.figures = names
            .filter(|name| !matches!(*name, "Box"))
            .take(MAX_COLUMNS)
            .map(Box::from)
            .collect();
        Some(Event::validation(Facts::default()))
    }

    /// `all  128  929  0.667  0.602  0.68  0.45`.
    fn read_figures<'a>(&mut self, text: &str) -> Option<Event<'a>> {
        let columns = std::mem::take(&mut self.figures);
        let mut cells = text.split_ascii_whitespace().skip(1);
        let mut facts = Facts::default();
        let mut group = None;
        for name in columns
            .into_iter()
            .filter(|name| !matches!(&**name, "Class" | "classes"))
        {
            // `Mask(P` and `Pose(P` open groups of their own, without a cell.
            if matches!(&*name, "Mask" | "Pose") {
                group = Some(name);
                continue;
            }
            let Some(cell) = cells.next() else { break };
            let Some((value, "")) = scan::number(cell) else {
                continue;
            };
            if scan::is_any(&name, NOT_METRICS) {
                continue;
            }
            // The old names of what is now called mAP50 and mAP50-95.
            match (&group, &*name) {
                (None, "mAP@.5") => facts.metrics.push(("mAP50".into(), value)),
                (None, "mAP@.5:.95") => facts.metrics.push(("mAP50-95".into(), value)),
                _ => {}
            }
            let name = group
                .as_ref()
                .map_or_else(|| name.to_string(), |group| format!("{group}_{name}"));
            facts.metrics.push((name.into(), value));
        }
        Some(Event::validation(facts))
    }
}
