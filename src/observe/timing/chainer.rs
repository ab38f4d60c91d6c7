//! Chainer: the table of `PrintReport` and the lines of `ProgressBar`.
//!
//! ```text
//! epoch       main/loss   main/accuracy  validation/main/loss  elapsed_time
//! 1           1.53241     0.638409       0.74935               4.93409
//!      total [########..........................................] 16.67%
//! this epoch [################..................................] 33.33%
//!        200 iter, 3 epoch / 20 epochs
//!     19.349 iters/sec. Estimated time to finish: 0:00:51.681640.
//! ```
//!
//! The forms are those of `print_report.py` and `progress_bar.py` of chainer/training/extensions (1.11 to 7). `epoch` is how
//! many are over, `elapsed_time` the time since the beginning; a cell without value is blank.

use super::event::{Event, Facts, Line, Rate, Recogniser};
use super::scan;

/// Columns at most. Ours: wider tables are not read by people.
const MAX_COLUMNS: usize = 64;

/// What was read of the training so far.
#[derive(Debug, Default)]
pub(super) struct Chainer {
    /// The columns of the table with the places where they begin; empty until its head came.
    columns: Vec<(usize, String)>,
    /// The last row's epoch, and the last that was said to be over.
    epoch: Option<u64>,
    ended: Option<u64>,
    /// An epoch of the first row, which is over unless the next row has the same.
    held: Option<(u64, Option<f64>)>,
    /// The elapsed time when the last epoch ended.
    elapsed: Option<f64>,
}

impl Recogniser for Chainer {
    fn name(&self) -> &'static str {
        "chainer"
    }

    fn triggers(&self) -> &'static [&'static str] {
        &["epoch  ", "iteration  ", " iter, ", " iters/sec. "]
    }

    fn wants_every_line(&self) -> bool {
        !self.columns.is_empty()
    }

    fn read<'a>(&mut self, line: &Line<'a>, say: &mut dyn FnMut(Event<'a>)) {
        if self.head(line.text) {
            return;
        }
        if let Some(event) = bar(line.text) {
            return say(event);
        }
        if line
            .text
            .trim_start()
            .starts_with(|c: char| c.is_ascii_digit())
        {
            self.row(line.text, say);
        }
    }

    fn finish(&mut self, say: &mut dyn FnMut(Event<'static>)) {
        if let Some((epoch, seconds)) = self.held.take() {
            say(end(epoch, seconds, Facts::default()));
        }
    }
}

impl Chainer {
    /// Takes the head of a table; false where the line is none.
    fn head(&mut self, text: &str) -> bool {
        let mut words = text.split_whitespace();
        if !matches!(words.next(), Some("epoch" | "iteration")) {
            return false;
        }
        let names = || {
            text.split_whitespace()
                .take_while(|name| !name.starts_with(['[', '.', ']']))
        };
        let known = names().any(|name| name.contains('/') || name == "elapsed_time");
        let numbers = names().any(|name| name.starts_with(|c: char| c.is_ascii_digit()));
        if !known || numbers || names().count() > MAX_COLUMNS {
            return false;
        }
        let begin = |name: &str| name.as_ptr() as usize - text.as_ptr() as usize;
        *self = Self {
            columns: names().map(|name| (begin(name), name.to_owned())).collect(),
            ..Self::default()
        };
        true
    }

    /// The cells of a row: one for each column, by place where some are blank. `None` where the line is no row.
    fn cells<'a>(&self, text: &'a str) -> Option<Vec<Option<f64>>> {
        let number = |cell: &'a str| {
            scan::number(cell)
                .filter(|(_, rest)| rest.is_empty())
                .map(|(value, _)| Some(value))
        };
        let words = || text.split_whitespace();
        if words().count() == self.columns.len() {
            return words().map(number).collect();
        }
        let cells = self.columns.iter().enumerate().map(|(index, (from, _))| {
            let to = self
                .columns
                .get(index + 1)
                .map_or(text.len(), |(to, _)| *to)
                .min(text.len());
            let cell = text.get((*from).min(to)..to)?.trim();
            if cell.is_empty() {
                Some(None)
            } else {
                number(cell)
            }
        });
        cells.collect()
    }

    fn row<'a>(&mut self, text: &str, say: &mut dyn FnMut(Event<'a>)) {
        let Some(cells) = self.cells(text) else {
            return;
        };
        let (mut epoch, mut step, mut elapsed) = (None, None, None);
        let mut metrics = Vec::new();
        for ((_, name), value) in self.columns.iter().zip(cells) {
            let Some(value) = value else { continue };
            match name.as_str() {
                "epoch" => epoch = whole(value),
                "iteration" => step = whole(value),
                "elapsed_time" => elapsed = Some(value),
                _ => metrics.push((name.clone().into(), value)),
            }
        }
        if epoch.is_none() && step.is_none() {
            return;
        }
        let facts = Facts {
            metrics,
            ..Facts::default()
        };
        self.epochs(epoch, step.is_some(), elapsed, say);
        let Some(step) = step else {
            return say(Event::Figures { facts });
        };
        let epoch = epoch.filter(|epoch| self.ended == Some(*epoch));
        say(Event::RunStep {
            epoch,
            epochs: None,
            step,
            of: None,
            facts,
        });
    }

    /// Says which epochs are over by a row. A table with steps may have several rows of an epoch, the first of which
    /// comes when the epoch is over.
    fn epochs<'a>(
        &mut self,
        epoch: Option<u64>,
        steps: bool,
        elapsed: Option<f64>,
        say: &mut dyn FnMut(Event<'a>),
    ) {
        let Some(epoch) = epoch else { return };
        if let Some((held, seconds)) = self.held.take() {
            if held == epoch {
                self.elapsed = None;
            } else {
                self.ended = Some(held);
                say(end(held, seconds, Facts::default()));
            }
        }
        let first = self.epoch.is_none();
        if self.epoch == Some(epoch) || epoch == 0 {
            self.epoch = Some(epoch);
            // How long an epoch took is known only where each row is the end of one.
            self.elapsed = None;
            return;
        }
        let begun = if first && epoch == 1 {
            Some(0.0)
        } else {
            self.elapsed
        };
        let seconds = elapsed
            .zip(begun)
            .map(|(to, from)| rounded(to, from))
            .filter(|seconds| *seconds >= 0.0);
        (self.epoch, self.elapsed) = (Some(epoch), elapsed);
        if first && steps {
            self.held = Some((epoch, seconds));
            return;
        }
        self.ended = Some(epoch);
        say(end(epoch, seconds, Facts::default()));
    }
}

/// `to - from`, without the digits that only binary fractions have: times have six digits at most.
fn rounded(to: f64, from: f64) -> f64 {
    ((to - from) * 1e6).round() / 1e6
}

fn end(epoch: u64, seconds: Option<f64>, facts: Facts<'_>) -> Event<'_> {
    Event::EpochEnd {
        epoch,
        epochs: None,
        seconds,
        step: None,
        facts,
    }
}

fn whole(value: f64) -> Option<u64> {
    super::dict::Value::Number(value).count()
}

/// A line of the progress bar.
fn bar(text: &str) -> Option<Event<'_>> {
    let text = text.trim();
    if let Some((value, rest)) = scan::number(text)
        && rest.starts_with(" iters/sec. Estimated time")
    {
        let facts = Facts {
            throughput: Rate::of_run(value, "it/s"),
            ..Facts::default()
        };
        return Some(Event::Figures { facts });
    }
    let (step, rest) = scan::unsigned(text)?;
    let (_, rest) = scan::unsigned(rest.strip_prefix(" iter, ")?)?;
    let (length, unit) = scan::unsigned(rest.strip_prefix(" epoch / ")?)?;
    let (epochs, of) = if unit.starts_with(" epoch") {
        (Some(length), None)
    } else {
        (None, Some(length))
    };
    Some(Event::RunStep {
        epoch: None,
        epochs,
        step,
        of,
        facts: Facts::default(),
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn said(text: &str) -> Vec<String> {
        let mut chainer = Chainer::default();
        let mut said = Vec::new();
        let mut note = |event: Event<'_>| {
            said.push(match event {
                Event::EpochEnd { epoch, seconds, .. } => format!("E{epoch} {seconds:?}"),
                Event::RunStep {
                    epoch,
                    epochs,
                    step,
                    of,
                    facts,
                } => {
                    format!(
                        "R{epoch:?} {epochs:?} {step} {of:?} {}",
                        facts.metrics.len()
                    )
                }
                Event::Figures { facts } => format!("F{}", facts.metrics.len()),
                other => panic!("{other:?}"),
            });
        };
        for text in text.lines() {
            chainer.read(
                &Line {
                    text,
                    redrawn: false,
                },
                &mut note,
            );
        }
        chainer.finish(&mut note);
        said
    }

    #[test]
    fn each_row_of_a_table_of_epochs_ends_one() {
        let table = "epoch       main/loss   validation/main/loss  elapsed_time\n\
                     1           1.53241     0.74935               4.93409\n\
                     2           0.578334                          7.72883\n\
                     \x20    total [####......] 16.67%\n\
                     \x20      200 iter, 2 epoch / 20 epochs\n\
                     \x20   19.349 iters/sec. Estimated time to finish: 0:00:51.681640.\n";
        let expected = [
            "E1 Some(4.93409)",
            "F2",
            "E2 Some(2.79474)",
            "F1",
            "RNone Some(20) 200 None 0",
            "F0",
        ];
        assert_eq!(said(table), expected);
    }

    #[test]
    fn rows_of_steps_end_an_epoch_where_the_next_begins() {
        let table = "epoch       iteration   gen/loss    dis/loss  ................]  0.01%\n\
                     7           100         1.2292      1.76914\n\
                     7           200         1.2292      1.76914\n\
                     8           300         1.2292      1.76914\n";
        assert_eq!(
            said(table),
            [
                "RNone None 100 None 2",
                "RNone None 200 None 2",
                "E8 None",
                "RSome(8) None 300 None 2"
            ]
        );
        let table = "epoch       iteration   main/loss\n1           600         0.5\n2           1200        0.4\n";
        assert_eq!(
            said(table),
            [
                "RNone None 600 None 1",
                "E1 None",
                "E2 None",
                "RSome(2) None 1200 None 1"
            ]
        );
    }

    #[test]
    fn without_a_head_there_is_no_table() {
        assert_eq!(
            said("1   2   3\nepoch  1  2\nepoch   done\n5 iter, x\n"),
            [""; 0]
        );
    }
}
