//! Tables: a head that names columns, the first of them an epoch or a step, then rows of numbers.
//!
//! ```text
//!   epoch    train_loss    valid_acc    valid_loss     dur          skorch
//! -------  ------------  -----------  ------------  ------
//!       1        0.9521       0.7225        0.8125  0.0501
//!
//! epoch     train_loss  valid_loss  accuracy  time                  fastai
//! Epoch 1/4 : |██████----| 60.00% [15/25 00:00<00:00 0.52]
//! 0         0.521812    0.481210    0.775000  00:12
//!
//!       Iter       Train Loss   Remaining Time                      gradient boosting of scikit-learn
//!          1           1.2346            0.20s
//!
//! E    #       LOSS TOK2VEC  LOSS NER  ENTS_F  SCORE                   spaCy
//! ---  ------  ------------  --------  ------  ------
//!   0     200         35.70   2163.45   83.16    0.83
//! ```
//!
//! Names and numbers stand at least two blanks, a tab or a `|` apart, or are a file of comma-separated values.

use super::event::{Event, Facts, Line, Recogniser, Weight};
use super::names::is_measure;
use super::scan;

/// Names of a first column.
const EPOCHS: &str = "epoch|epochs|e";
const STEPS: &str = "iter|iteration|step|round|iters";

/// Names of a second counter: then several rows are of one epoch.
const COUNTERS: &str = "iter|iteration|step|round|iters|steps|batch|global_step";

/// spaCy's name of the column of steps, behind that of epochs.
const STEP_OF_EPOCH: &str = "#";

/// Names of a column with the time of a row.
const TIMES: &str = "dur|time|duration|epoch_time|seconds";

/// Parts of names of columns that are no metrics.
const OTHERS: &str = "time|eta|remain|elapsed|dur";

/// Lines between two rows at most, such as warnings and bars; then the table is over.
const BETWEEN: u32 = 500;

/// The table that is read.
#[derive(Debug)]
struct Head {
    columns: Vec<String>,
    by_epoch: bool,
    by_commas: bool,
    /// The first column of the last row, and the lines since.
    last: Option<u64>,
    since: u32,
    /// The last row of the table before.
    before: Option<u64>,
}

/// The recogniser.
#[derive(Debug, Default)]
pub(super) struct Table {
    /// Whether its columns are divided by commas. Such a table may be a file that is shown afterwards: what spoke before it counts.
    by_commas: bool,
    head: Option<Head>,
    /// fastai's bar: its label, and whether it was full. The next bar of the same label is of the validation.
    bar: (u64, bool),
}

impl Table {
    /// That of comma-separated values.
    pub(super) fn by_commas() -> Self {
        Self {
            by_commas: true,
            ..Self::default()
        }
    }
}

impl Recogniser for Table {
    fn name(&self) -> &'static str {
        if self.by_commas { "csv" } else { "table" }
    }

    fn weight(&self) -> Weight {
        match self.by_commas {
            true => Weight::Plain,
            false => Weight::Family,
        }
    }

    fn triggers(&self) -> &'static str {
        if self.by_commas {
            return "poch,";
        }
        "poch  ¦poch\t¦poch |¦ter  ¦teration  ¦tep  ¦ound  ¦E    #       "
    }

    fn wants_every_line(&self) -> bool {
        self.head.is_some()
    }

    fn counts_from_zero(&self) -> Option<bool> {
        Some(false)
    }

    fn read<'a>(&mut self, line: &Line<'a>, say: &mut dyn FnMut(Event<'a>)) {
        if let Some(head) = head(line.text, self.by_commas) {
            let before = self
                .head
                .take()
                .filter(|before| before.columns == head.columns);
            let before = before.and_then(|before| before.last);
            self.head = Some(Head { before, ..head });
            return;
        }
        let Some(head) = &mut self.head else { return };
        if let Some(event) = head.row(line.text) {
            // The numbers of a second table begin again: `fine_tune` of fastai trains the head first.
            let begins_again = head
                .before
                .take()
                .is_some_and(|before| head.last <= Some(before));
            if begins_again && head.by_epoch {
                say(Event::run_begin(false));
            }
            return say(event);
        }
        head.since += 1;
        // A file of metrics with empty cells is written out afterwards, not while it trains.
        let is_other = head.by_commas && line.text.starts_with(|c: char| c.is_ascii_digit());
        if head.since > BETWEEN || is_other {
            self.head = None;
        } else if let Some((epoch, epochs, step, of)) = fastai(line.text) {
            say(Event::announce(Some(epochs), None));
            if self.bar.0 != epoch {
                self.bar = (epoch, false);
            }
            let full = self.bar.1;
            self.bar.1 |= step == of;
            if !full {
                say(Event::iteration(Some(step), Some(of), Facts::default()));
            }
        }
    }
}

/// The cells of a line.
fn cells(text: &str, by_commas: bool) -> impl Iterator<Item = &str> {
    let bare = text.trim().trim_matches(['|', '│', '┃']);
    bare.split(move |c: char| matches!(c, '\t' | '|' | '│' | '┃') || by_commas && c == ',')
        .flat_map(|cell| cell.split("  "))
        .map(str::trim)
        // skorch marks the rows behind which it saved a checkpoint.
        .filter(|cell| !cell.is_empty() && *cell != "+")
}

/// Reads a head: every cell a name, the first that of a counter, and one that of a loss or metric.
fn head(text: &str, by_commas: bool) -> Option<Head> {
    // Prose has blanks behind its commas.
    if by_commas && text.contains([' ', '\t', '|']) {
        return None;
    }
    let first = cells(text, by_commas).next()?.to_ascii_lowercase();
    let by_epoch = scan::is_any(&first, EPOCHS);
    if !by_epoch && !scan::is_any(&first, STEPS) {
        return None;
    }
    let name = |cell: &&str| {
        cell.len() <= 40 && cell.starts_with(char::is_alphabetic) && !cell.contains([':', '=', '/'])
    };
    let columns: Vec<String> = cells(text, by_commas)
        .filter(|cell| *cell != "cp")
        .map(str::to_owned)
        .collect();
    let counts = |cell: &String| scan::is_any(&cell.to_ascii_lowercase(), COUNTERS);
    let is_head = columns.len() > 1
        && !(by_commas && columns.iter().skip(1).any(counts))
        && columns
            .iter()
            .all(|cell| cell == STEP_OF_EPOCH || name(&cell.as_str()))
        && columns.iter().any(|cell| is_measure(cell));
    is_head.then_some(Head {
        columns,
        by_epoch,
        by_commas,
        last: None,
        since: 0,
        before: None,
    })
}

impl Head {
    /// Reads a row: a number, or a time, in each column.
    fn row<'a>(&mut self, text: &str) -> Option<Event<'a>> {
        if !text
            .trim_start_matches(['|', '│', ' ', '\t'])
            .starts_with(|c: char| c.is_ascii_digit())
        {
            return None;
        }
        let row: Vec<&str> = cells(text, self.by_commas).collect();
        let (count, "") = scan::unsigned(row.first()?)? else {
            return None;
        };
        let has_steps = self.columns[1] == STEP_OF_EPOCH;
        if row.len() != self.columns.len()
            || !has_steps && self.last.is_some_and(|last| count <= last && count > 1)
        {
            return None;
        }
        let (mut facts, mut seconds, mut step) = (Facts::default(), None, None);
        for (name, cell) in self.columns.iter().zip(&row).skip(1) {
            if name == STEP_OF_EPOCH {
                step = Some(scan::unsigned(cell)?.0);
                continue;
            }
            let lower = name.to_ascii_lowercase();
            if scan::is_any(&lower, TIMES) {
                seconds = time(cell);
                continue;
            }
            if scan::holds_any(&lower, OTHERS) {
                time(cell)?;
                continue;
            }
            match scan::number(cell) {
                Some((value, "")) => facts.metrics.push((name.clone().into(), value)),
                _ if matches!(*cell, "None" | "#na#" | "-") => {}
                _ => return None,
            }
        }
        (self.last, self.since) = (Some(count), 0);
        Some(if let Some(step) = step {
            Event::step((count, None), (step, None), facts)
        } else if self.by_epoch {
            Event::epoch_end((count, None), facts).took(seconds)
        } else {
            facts.step_seconds = seconds;
            Event::run_step((count, None), facts)
        })
    }
}

/// Seconds of `0.0501`, `0.20s` or `00:12`; a clock that shows no second yet says nothing.
fn time(cell: &str) -> Option<f64> {
    if let Some((seconds, "")) = scan::clock(cell) {
        return Some(seconds).filter(|seconds| *seconds > 0.0);
    }
    let (seconds, rest) = scan::duration(cell).or_else(|| scan::number(cell))?;
    rest.is_empty().then_some(seconds)
}

/// The epoch, their number, the step and the steps of `Epoch 1/4 : |██----| 60.00% [15/25 00:00<00:00 0.52]`.
fn fastai(text: &str) -> Option<(u64, u64, u64, u64)> {
    let (epoch, epochs, rest) = scan::counted(text.trim_start().strip_prefix("Epoch ")?)?;
    let (_, counts) = rest.strip_prefix(" : |")?.split_once("% [")?;
    let (step, of, _) = scan::counted(counts)?;
    Some((epoch, epochs?, step, of?))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::observe::timing::event::Says;

    fn events(lines: &[&str]) -> Vec<String> {
        events_of(Table::default(), lines)
    }

    fn events_of(mut table: Table, lines: &[&str]) -> Vec<String> {
        let mut events = Vec::new();
        for text in lines {
            table.read(
                &Line {
                    text,
                    redrawn: false,
                },
                &mut |event| {
                    events.push(match event {
                        Event {
                            says: Says::EpochEnd,
                            epoch: Some(epoch),
                            seconds,
                            facts,
                            ..
                        } => {
                            format!("{epoch} {seconds:?} {:?}", facts.metrics)
                        }
                        Event {
                            says: Says::RunStep,
                            step: Some(step),
                            facts,
                            ..
                        } => {
                            format!("step {step} {:?}", facts.metrics)
                        }
                        Event {
                            says: Says::Iteration,
                            step,
                            of,
                            ..
                        } => format!("{step:?} {of:?}"),
                        other => other.says.name().to_owned(),
                    });
                },
            );
        }
        events
    }

    #[test]
    fn a_second_table_is_of_another_training() {
        let head = "epoch     train_loss  valid_loss  time";
        let row = |epoch| format!("{epoch}         2.2    2.0    00:09");
        let [first, second] = [row(0), row(1)];
        let lines = [
            head,
            &first,
            head,
            &first,
            &second,
            head,
            "2         2.2    2.0    00:09",
        ];
        let begins = events(&lines)
            .iter()
            .filter(|event| *event == "training begins")
            .count();
        assert_eq!(begins, 1, "{:?}", events(&lines));
    }

    #[test]
    fn rows_have_the_names_of_their_head() {
        assert_eq!(
            events(&[
                "  epoch    train_loss    cp    dur",
                "-------  ------------  ----  ------",
                "      1        0.9521     +  0.0501",
                "      2        nan            0.0401",
            ]),
            [
                "1 Some(0.0501) [(\"train_loss\", 0.9521)]",
                "2 Some(0.0401) [(\"train_loss\", NaN)]"
            ]
        );
        assert_eq!(
            events(&[
                "      Iter       Train Loss   Remaining Time",
                "        10           1.2346            0.20s"
            ]),
            ["step 10 [(\"Train Loss\", 1.2346)]"]
        );
        assert_eq!(
            events(&[
                "epoch     train_loss  accuracy  time    ",
                "Epoch 1/2 : |██--| 60.00% [15/25 00:00<00:00 0.52]",
                "Epoch 1/2 : |████| 100.00% [25/25 00:00<00:00 0.52]",
                "Epoch 1/2 : |██--| 60.00% [3/7 00:00<00:00 0.52]",
                "0         0.521812    0.775000  00:12     ",
            ]),
            [
                "announcement",
                "Some(15) Some(25)",
                "announcement",
                "Some(25) Some(25)",
                "announcement",
                "0 Some(12.0) [(\"train_loss\", 0.521812), (\"accuracy\", 0.775)]"
            ]
        );
    }

    #[test]
    fn comma_separated_values_are_a_table() {
        let events = |lines: &[&str]| events_of(Table::by_commas(), lines);
        assert_eq!(
            events(&[
                "epoch,train_loss,val_acc,lr,seconds",
                "0,2.30688,0.1150,0.001,6.490",
                "",
                "1,2.27190,0.1490,0.001,5.282",
            ]),
            [
                "0 Some(6.49) [(\"train_loss\", 2.30688), (\"val_acc\", 0.115), (\"lr\", 0.001)]",
                "1 Some(5.282) [(\"train_loss\", 2.2719), (\"val_acc\", 0.149), (\"lr\", 0.001)]",
            ]
        );
        assert_eq!(events(&["Epoch, loss and accuracy", "1, 2, 3"]), [""; 0]);
        let dump = ["epoch,loss,val_loss", "0,0.6,", "1,0.5,0.4"];
        assert_eq!(events(&dump), [""; 0]);
        let by_steps = ["epoch,step,loss", "0,49,0.6", "0,99,0.5"];
        assert_eq!(events(&by_steps), [""; 0]);
    }

    #[test]
    fn other_lines_are_left_alone() {
        for lines in [
            ["epoch  time", "1  2.0"],
            ["Epoch  GPU_mem  box_loss", "1/3  2.5G  1.2"],
            ["Step  1  loss", "1  2  3"],
            ["iter  loss", "1  2  3"],
            ["iteration: 3  loss: 2", "1  2"],
        ] {
            assert_eq!(events(&lines), [""; 0], "{lines:?}");
        }
    }
}
