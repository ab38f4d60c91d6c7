//! Plain lines about an epoch, as people write them in their own scripts.
//!
//! ```text
//! epoch 3 2.31 s                               Epoch 3: 2.31s
//! epoch 3/10 took 2.31 s                       [epoch 3] loss=0.3 time=2.31 s
//! Epoch 2/5 - loss: 0.3 - time: 12.5s          Epoch 5 | train loss 0.1 | 3m 20s
//! Epoch [1/5], Step [100/600], Loss: 0.3       INFO:root:Finished epoch 3 in 0.8 min, 512 samples/s
//! ```
//!
//! What stands before the word must be a logger's prefix or say that training is meant; what stands behind the number
//! tells a beginning, a step, an end with its time, or figures. A time needs a unit, and must not be called anything
//! but the epoch's: data loading, validation, time to go, time per step are others.

use super::bar::{self, Bar};
use super::dict::{self, Value};
use super::event::{Event, Facts, Line, Recogniser, Says, Weight};
use super::names;
use super::plain_figures::{self, Read, STEP_NAMES};
use super::scan;
use super::step_line;
use super::tqdm::{self, Subject};

/// How far in a line, in bytes, the word may begin.
const MAX_PREFIX: usize = 160;

/// Words that may stand before it.
const PREFIX_WORDS: [&str; 33] = [
    "loss",
    "after",
    "average",
    "avg",
    "accuracy",
    "mean",
    "result",
    "results",
    "summary",
    "new",
    "running",
    "time",
    "taken",
    "for",
    "train",
    "training",
    "finished",
    "finish",
    "end",
    "ended",
    "of",
    "done",
    "completed",
    "complete",
    "starting",
    "start",
    "beginning",
    "begin",
    "going",
    "into",
    "root",
    "main",
    "__main__",
];

/// Words before it by which a logger is known; then any names may stand there.
const LOG_LEVELS: [&str; 4] = ["info", "debug", "notice", "i"];

/// Parts of words before it that say that something else is meant.
const OTHER_SUBJECTS: [&str; 13] = [
    "val", "test", "eval", "sav", "load", "best", "resum", "warn", "error", "skip", "restor",
    "stop", "meta",
];

/// The recogniser of such lines.
#[derive(Debug, Default)]
pub(super) struct EpochLine {
    /// True once an epoch's number was read; until then lines of figures may be of anything.
    known: bool,
    /// True where the epoch 0 was seen, or a form came whose epochs count from 0.
    zero: bool,
    /// True where the last epoch is announced instead of how many there are.
    announces_last: bool,
    /// True where steps count from 0.
    steps_from_zero: bool,
    /// The first epoch of this training that was named, and the last.
    begins: u64,
    named: Option<u64>,
    /// The epoch that is open, and whether only its head was read.
    open: Option<u64>,
    begun: bool,
    /// The last epoch that a line named.
    last: Option<u64>,
    /// The epoch of the last step, and the one whose bar was full.
    stepped: Option<u64>,
    barred: Option<u64>,
    /// The epoch and the number behind it of a line that said nothing else, for the rule below it.
    headed: Option<(u64, u64)>,
}

impl Recogniser for EpochLine {
    fn name(&self) -> &'static str {
        "epoch-line"
    }

    fn weight(&self) -> Weight {
        Weight::Plain
    }

    fn triggers(&self) -> &[&'static str] {
        &[
            "poch",
            "POCH",
            "oss",
            "Loss",
            "tep ",
            "tep/sec",
            "ter",
            "raining",
            "hroughput",
            "peed",
            "otal ",
            "----------",
            "seconds ---",
            "] [",
            "][",
            "ccuracy",
            "Acc",
            "pisode",
            "rror:",
            "%|",
            "took",
            "Time",
            "atch",
            "[ep: ",
            "ep ",
        ]
    }

    fn wants_every_line(&self) -> bool {
        self.begun
    }

    fn counts_from_zero(&self) -> Option<bool> {
        Some(self.zero)
    }

    fn read<'a>(&mut self, line: &Line<'a>, say: &mut dyn FnMut(Event<'a>)) {
        let headed = self.headed.take();
        self.begun &= tqdm::keeps_header(line.text);
        if let Some(event) = read_line(line) {
            if let Event {
                says: Says::EpochStart,
                epoch: Some(epoch),
                epochs: Some(of),
                ..
            } = event
            {
                self.headed = Some((epoch, of));
            }
            // PyTorch-GAN and BasicSR count from 0.
            let basic_sr = line.text.contains("<epoch:") && line.text.contains("iter:");
            self.zero |= line.text.contains("] [Batch ") || basic_sr;
            let event = self.settle(event);
            return say(event);
        }
        if let Some(event) = self.read_other(line.text, headed) {
            say(event);
        }
    }
}

impl EpochLine {
    /// Notes how epochs and steps are counted, and gives what a line says in that light.
    fn settle<'a>(&mut self, mut event: Event<'a>) -> Event<'a> {
        self.known = true;
        self.begun = false;
        let Some(epoch) = event.epoch else {
            return event;
        };
        if event.says == Says::Step {
            self.steps_from_zero |= event.step == Some(0);
            self.stepped = Some(epoch);
        }
        // Behind the steps of an epoch a line without one is its summary.
        let summary =
            event.says == Says::Mention && [self.stepped, self.barred].contains(&Some(epoch));
        let is_last = |(step, of): (u64, u64)| step.saturating_add(1) >= of;
        let last_step = event.says == Says::Step
            && self.steps_from_zero
            && event.step.zip(event.of).is_some_and(is_last);
        if summary || last_step {
            event.says = Says::EpochEnd;
        }
        event.epochs = self.announced(epoch, event.epochs);
        self.begun = event.says == Says::EpochStart;
        self.open = (event.says != Says::EpochEnd).then_some(epoch);
        self.last = Some(epoch);
        event
    }

    /// How many epochs there will be, by the number behind that of an epoch.
    fn announced(&mut self, epoch: u64, of: Option<u64>) -> Option<u64> {
        self.zero |= epoch == 0;
        // Of the training at hand; there may be several.
        if self.named.is_none_or(|last| epoch < last) {
            (self.begins, self.announces_last) = (epoch, false);
        }
        self.named = Some(epoch);
        self.announces_last |= self.zero && self.begins == 0 && of == Some(epoch);
        of.map(|of| of.saturating_add(u64::from(self.announces_last)))
    }

    /// Reads a line that names no epoch.
    fn read_other<'a>(&mut self, text: &'a str, headed: Option<(u64, u64)>) -> Option<Event<'a>> {
        if let Some(event) = json(text) {
            return Some(self.settle(event));
        }
        if let Some((event, zero)) = step_line::bracketed(text) {
            (self.known, self.zero) = (true, self.zero || zero);
            return Some(self.settle(event));
        }
        if let Some(bar) = bar::read(text) {
            return self.read_bar(&bar);
        }
        if let Some(event) = self.open.and_then(|epoch| first_of_line(text, epoch)) {
            return Some(self.settle(event));
        }
        if let Some(event) = leading(text).or_else(|| counted_off(text)) {
            return Some(self.settle(event));
        }
        if let Some(epochs) = planned(text) {
            return Some(Event::announce(Some(epochs), None));
        }
        // The tutorial on transfer learning of PyTorch draws ten dashes below the number of its last epoch.
        if let Some((epoch, last)) = headed
            && text.trim() == "----------"
            && (self.zero || epoch == 0)
        {
            self.announces_last = true;
            return Some(Event::announce(last.checked_add(1), None));
        }
        if self.known
            && let Some(event) = self.unnumbered(text)
        {
            return Some(event);
        }
        if let Some(event) = step_line::trailing(text).or_else(|| step_line::counted(text)) {
            if let (Some(step), Some(of), Some(epoch)) = (event.step, event.of, self.open)
                && step >= of
            {
                self.open = None;
                let end = Event::epoch_end((epoch, None), event.facts);
                return Some(end.at(Some((step, of))));
            }
            self.known = true;
            return Some(event);
        }
        // Behind the steps, which may say how long all took so far.
        if let Some(event) = step_line::total(text, self.known) {
            return if (event.says == Says::RunEnd) {
                Some(event)
            } else {
                self.close(Facts::default())
            };
        }
        match step_line::figures(text)? {
            // Servers of models print the same about their requests.
            Event {
                says: Says::Figures,
                facts,
                ..
            } if facts.throughput.is_some() && !scan::holds(text, "request") => {
                Some(Event::figures(facts))
            }
            _ if !self.known => None,
            event => Some(event),
        }
    }

    /// A bar without a number, below the line of its epoch.
    fn read_bar<'a>(&mut self, bar: &Bar<'a>) -> Option<Event<'a>> {
        let named = tqdm::subject(bar.label) == Subject::Training;
        let epoch = self
            .open
            .filter(|_| self.begun && (named || bar.label.is_empty()))?;
        let mut facts = bar.facts();
        bar::postfix(bar.label, scan::metric_name, &mut facts);
        if bar.step == 0 {
            return None;
        }
        Some(match bar.of.filter(|_| bar.is_full()) {
            Some(of) => {
                (self.open, self.barred) = (None, Some(epoch));
                let step = Some((bar.step, of));
                Event::epoch_end((epoch, None), facts)
                    .took(bar.elapsed)
                    .at(step)
            }
            None => Event::step((epoch, None), (bar.step, bar.of), facts),
        })
    }

    /// Ends the open epoch, if there is one.
    fn close<'a>(&mut self, facts: Facts<'a>) -> Option<Event<'a>> {
        self.open
            .take()
            .map(|epoch| ended(epoch, None, None, facts))
    }

    /// `Epoch time: 12.3 s`, `Time taken: 12.3 sec`, below the line of the epoch.
    fn unnumbered<'a>(&mut self, text: &str) -> Option<Event<'a>> {
        let text = text.trim();
        let said = [
            "epoch time",
            "time taken",
            "epoch took",
            "epoch duration",
            "time for epoch",
            "time for this epoch",
            "train epoch time",
            // As the tutorial on BERT that many copied has it.
            "training epcoh took",
            "training epoch took",
            "this epoch took",
        ];
        if !scan::starts_with_any(text, &said) {
            return None;
        }
        let seconds = step_line::first_time(text)?;
        self.open = None;
        // `epoch time: 76715.097 ms, per step time: 181.789 ms` of MindSpore.
        let step_seconds = text
            .split_once("per step time")
            .and_then(|(_, rest)| step_line::first_time(rest));
        Some(ended(
            self.last?,
            Some(seconds),
            None,
            Facts::with_step_time(step_seconds),
        ))
    }
}

/// The end of an epoch that another line named.
fn ended(
    epoch: u64,
    seconds: Option<f64>,
    step: Option<(u64, u64)>,
    facts: Facts<'_>,
) -> Event<'_> {
    Event::epoch_end((epoch, None), facts)
        .took(seconds)
        .at(step)
}

/// Reads a line.
fn read_line<'a>(line: &Line<'a>) -> Option<Event<'a>> {
    let (before, after) = split_at_word(line.text)?;
    let (epoch, epochs, rest) = epoch_number(after)?;
    let step_before = step_of(before);
    let opening = if step_before.is_some() {
        false
    } else {
        prefix(before)?
    };
    // A bar of tqdm: the time in it is that so far.
    if rest.contains("%|") {
        return None;
    }
    if rest.contains(bar::RULE) {
        let bar = bar::rich(rest)?;
        let mut facts = bar.facts();
        facts
            .metrics
            .extend(plain_figures::read(bar.label).facts.metrics);
        return Some(match bar.of.filter(|_| bar.is_full()) {
            Some(of) => Event::epoch_end((epoch, epochs), facts)
                .took(bar.elapsed)
                .at(Some((bar.step, of))),
            None => Event::step((epoch, epochs), (bar.step, bar.of), facts),
        });
    }
    // Redrawn without a carriage return, a line holds many epochs.
    let next = |text| epoch_number(text).is_some_and(|(next, of, _)| of == epochs && next != epoch);
    if epochs.is_some() && rest.split("poch").skip(1).any(next) {
        return None;
    }
    let words = rest.trim_matches(|c: char| !c.is_alphanumeric());
    if words.is_empty() && after.starts_with(':') && is_bullet(before) {
        return None;
    }
    if step_before.is_none()
        && words.is_empty()
        && ["end of", "finished", "completed"]
            .iter()
            .any(|word| scan::holds(before, word))
    {
        return Some(Event::epoch_end((epoch, epochs), Facts::default()));
    }
    if step_before.is_none()
        && (opening || words.is_empty() || scan::starts_with_any(words, &["start", "begin"]))
    {
        return Some(Event::epoch_start(epoch, epochs));
    }
    // `epoch:[ 3/25 ] val step:0    loss: 2.8`
    if scan::starts_with_any(
        words,
        &[
            "val step",
            "val iter",
            "test step",
            "test iter",
            "eval step",
        ],
    ) {
        return None;
    }
    let Read {
        step,
        named_seconds,
        idle_seconds,
        mut facts,
        ..
    } = plain_figures::read(rest);
    // The pace of an evaluation is not that of the training.
    if scan::starts_with_any(words, &["val ", "test ", "eval "]) {
        (facts.throughput, facts.step_seconds) = (None, None);
    }
    let validated = facts.metrics.iter().any(|(name, _)| is_evaluated(name));
    // `epoch: 3, steps: 5391 - train loss: 166.0 - valid loss: 66.64`: how many there were.
    let summed = validated && scan::holds(rest, "steps:");
    if let Some((step, of)) = step_before.or(step.filter(|(_, of)| of.is_some() || !summed)) {
        // Steps may be counted from 0; the line after the last then ends the epoch.
        return Some(if of.is_some_and(|of| step >= of) {
            Event::epoch_end((epoch, epochs), facts).at(of.map(|of| (step, of)))
        } else {
            Event::step((epoch, epochs), (step, of), facts)
        });
    }
    let seconds = named_seconds.or(idle_seconds);
    let over = [
        "end of",
        "finished",
        "completed",
        "after",
        "done with",
        "results",
    ];
    let over = over.iter().any(|word| scan::holds(before, word));
    if seconds.is_some()
        || validated
        || over
        || scan::starts_with_any(
            words,
            &[
                "done",
                "finished",
                "completed",
                "complete",
                "ended",
                "average ",
                "avg ",
                "training ends",
            ],
        )
    {
        return Some(Event::epoch_end((epoch, epochs), facts).took(seconds));
    }
    (!facts.metrics.is_empty()).then_some(Event::mention((epoch, epochs), facts))
}

/// True for what stands before an item of a list of settings: `INFO  * epoch: 15`.
fn is_bullet(before: &str) -> bool {
    let before = before.trim();
    matches!(before, "*" | "-")
        || before
            .strip_suffix('*')
            .is_some_and(|text| text.ends_with([' ', '\t']))
}

/// How many epochs a line says that there will be: `starting training for 30 epochs...`.
pub(super) fn planned(text: &str) -> Option<u64> {
    let (before, rest) = text.split_once(" for ")?;
    let (epochs, rest) = scan::unsigned(rest)?;
    let begins = scan::starts_with_any(before.trim_start(), &["start", "train", "begin"]);
    (begins && before.len() < 40 && rest.starts_with(" epochs")).then_some(epochs)
}

/// `[01/150] | Epoch Time: 0m 57s - Train Loss: 0.6487`: the epoch stands before the word.
fn leading(text: &str) -> Option<Event<'_>> {
    let (epoch, epochs, rest) = scan::counted(text.trim_start().strip_prefix('[')?)?;
    let rest = rest
        .strip_prefix(']')
        .filter(|rest| epochs.is_some() && scan::holds(rest, "epoch"))?;
    let Read {
        step: None,
        named_seconds,
        facts,
        ..
    } = plain_figures::read(rest)
    else {
        return None;
    };
    let told = facts
        .metrics
        .iter()
        .any(|(name, _)| names::is_measure(name));
    told.then_some(Event::epoch_end((epoch, epochs), facts).took(named_seconds))
}

/// `3/16, train_loss: 0.1084` of MONAI's tutorials, below the head of its epoch.
fn first_of_line(text: &str, epoch: u64) -> Option<Event<'_>> {
    let (step, of, rest) = scan::counted(text.trim_start())?;
    let of = of.filter(|_| {
        scan::starts_with_any(rest, &[", train_loss: ", ", loss: ", ", train loss: "])
    })?;
    let facts = plain_figures::read(rest).facts;
    Some(if step >= of {
        ended(epoch, None, Some((step, of)), facts)
    } else {
        Event::step((epoch, None), (step, Some(of)), facts)
    })
}

/// `{"epoch": 0, "step": 5, "loss": 69.9}`: a line of JSON about a step, else about an epoch.
fn json(text: &str) -> Option<Event<'_>> {
    let pairs = text
        .trim_start()
        .starts_with("{\"")
        .then(|| dict::read(text))?;
    let count = |key| dict::get(&pairs, key).and_then(Value::count);
    // A larger one is a time.
    let epoch = count("epoch").filter(|epoch| *epoch < 1_000_000)?;
    let step = count("step").or_else(|| count("iter"));
    let measures = pairs.iter().filter(|(name, _)| names::is_measure(name));
    let metrics: Vec<_> = measures
        .filter_map(|(name, value)| Some(((*name).into(), value.number()?)))
        .collect();
    let facts = Facts::with_metrics(metrics);
    (!facts.is_empty()).then_some(match step {
        Some(step) => Event::step((epoch, None), (step, None), facts),
        None => Event::mention((epoch, None), facts),
    })
}

/// `Finish 92 epoch(es)`: the number stands before the word.
fn counted_off(text: &str) -> Option<Event<'_>> {
    let text = text.trim();
    let rest = text
        .strip_prefix("Finish")?
        .trim_start_matches("ed")
        .trim_start();
    let (epoch, rest) = scan::unsigned(rest)?;
    (rest.starts_with(" epoch") && rest.len() < 20)
        .then(|| ended(epoch, None, None, Facts::default()))
}

/// True for names of losses and metrics of an evaluation, which comes when the epoch is over.
fn is_evaluated(name: &str) -> bool {
    let begins = scan::starts_with_any(name, &["val", "test", "eval", "dev"]);
    begins && names::is_measure(name) || scan::holds(name, "_val") || scan::holds(name, "_test")
}

/// The step before the word: `30/42 of epoch 28/30`, `step: 100, epoch: 1`.
fn step_of(before: &str) -> Option<(u64, Option<u64>)> {
    // `trainer - INFO - [batch 6/152, epoch 8/15]`
    let before = before.rfind("[batch ").map_or(before, |at| &before[at..]);
    let text = before.trim_start_matches(|c: char| !c.is_alphanumeric());
    let name = &text[..text.find(|c: char| !scan::is_word(c)).unwrap_or(text.len())];
    let named = STEP_NAMES
        .iter()
        .any(|step| name.eq_ignore_ascii_case(step));
    let digits = if named {
        text[name.len()..].trim_start_matches([' ', ':', '=', '[', '('])
    } else {
        text
    };
    let (step, of, rest) = scan::counted(digits)?;
    let rest = rest.trim_matches(|c: char| !c.is_alphanumeric());
    (named && rest.is_empty() || of.is_some() && rest == "of").then_some((step, of))
}

/// The epoch whose beginning a line says.
pub(super) fn header(text: &str) -> Option<(u64, Option<u64>)> {
    match read_line(&Line {
        text,
        redrawn: false,
    })? {
        Event {
            says: Says::EpochStart,
            epoch: Some(epoch),
            epochs,
            ..
        } => Some((epoch, epochs)),
        _ => None,
    }
}

/// The epoch that the label of a bar names: `Train Epoch 3/10`, `Epoch [3] loss 0.1`, `[3/10]`, `Train 3/10`.
pub(super) fn numbered(label: &str) -> Option<(u64, Option<u64>)> {
    // `Training for epoch_3`, `Ep 3`
    let joined = || {
        let after = scan::after(label, "epoch_").or_else(|| label.trim_start().strip_prefix("Ep "));
        after.filter(|text| text.starts_with(|c: char| c.is_ascii_digit()))
    };
    if let Some(after) = split_at_word(label).map(|(_, after)| after).or_else(joined) {
        return epoch_number(after).map(|(epoch, epochs, _)| (epoch, epochs));
    }
    let bare =
        label.trim_start_matches(|c: char| c.is_alphabetic() || matches!(c, ' ' | '[' | '(' | ':'));
    // `[fold_2] 099/200`
    let last = label.rsplit(' ').next().unwrap_or_default();
    let counts = scan::counted(bare)
        .filter(|(_, of, _)| of.is_some())
        .or_else(|| scan::counted(last))?;
    counts.1.map(|of| (counts.0, Some(of)))
}

/// The text before and behind the word `epoch`.
fn split_at_word(text: &str) -> Option<(&str, &str)> {
    let bytes = text.as_bytes();
    let head = &bytes[..bytes.len().min(MAX_PREFIX)];
    let mut from = 0;
    loop {
        let word = head[from..]
            .windows(5)
            .position(|word| word.eq_ignore_ascii_case(b"epoch"));
        let Some(word) = word else { return short(text) };
        let at = from + word;
        let inside =
            |byte: u8| byte.is_ascii_alphanumeric() || matches!(byte, b'_' | b'\'' | b'"' | b'@');
        // `0-epoch (99/44660)` counts steps, `5-epoch average` is a name.
        let numbered = head[..at].ends_with(b"-") && at > 1 && bytes[at - 2].is_ascii_digit();
        let alone = (at == 0 || !inside(bytes[at - 1]))
            && !numbered
            && !bytes.get(at + 5).is_some_and(|byte| inside(*byte));
        // What is found is ASCII, so that both sides end at characters.
        if alone {
            return Some((&text[..at], &text[at + 5..]));
        }
        from = at + 5;
    }
}

/// The text before and behind `ep` in `[ep: 0] iter: 57` or `ep 55 train, step 1347`: with a step behind it, it is no
/// episode.
fn short(text: &str) -> Option<(&str, &str)> {
    let head = &text[..text.floor_char_boundary(MAX_PREFIX)];
    let alone = |at: &usize| !head[..*at].ends_with(scan::is_word);
    let at = head.match_indices("ep").map(|(at, _)| at).find(alone)?;
    let behind = text[at + 2..].trim_start_matches(':').strip_prefix(' ')?;
    let step = ["step ", "iter: ", "iter ", "batch: "]
        .iter()
        .any(|word| behind.contains(word));
    (step && behind.starts_with(|c: char| c.is_ascii_digit())).then_some((&text[..at], behind))
}

/// Reads ` 3`, `: 3/10`, `[ 3 of 10]`, ` #3]`; the rest begins behind the number and its bracket.
fn epoch_number(text: &str) -> Option<(u64, Option<u64>, &str)> {
    let text = text.trim_start_matches([' ', '\t', ':', '=', '#', '[', '(']);
    let (epoch, epochs, rest) = scan::counted(text)?;
    let rest = rest.trim_start_matches([']', ')']);
    let mut next = rest.chars();
    let ended = match next.next() {
        None => true,
        Some('.' | '-') => !next.next().is_some_and(char::is_alphanumeric),
        Some('/' | '%' | '@' | '+') => false,
        Some(other) => !scan::is_word(other),
    };
    ended.then_some((epoch, epochs, rest))
}

/// What stands before the word: `None` where something else is meant, else whether the epoch begins.
pub(super) fn prefix(before: &str) -> Option<bool> {
    let before = before.trim_end_matches(|c: char| !c.is_alphanumeric());
    if before.is_empty() {
        return Some(false);
    }
    let lower = before.to_ascii_lowercase();
    let words = || {
        lower
            .split(|c: char| !(scan::is_word(c) || matches!(c, '.' | '/')))
            .filter(|word| !word.is_empty())
    };
    let logged = words().any(|word| LOG_LEVELS.contains(&word));
    let mut opening = false;
    for word in words() {
        let name = word.contains(['.', '/']) || word.contains(|c: char| c.is_ascii_digit());
        if !name && OTHER_SUBJECTS.iter().any(|other| word.contains(other)) {
            return None;
        }
        if !(name || logged || PREFIX_WORDS.contains(&word) || LOG_LEVELS.contains(&word)) {
            return None;
        }
        opening |= matches!(word, "starting" | "start" | "beginning" | "begin");
    }
    Some(opening)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn told(text: &str) -> Option<Event<'_>> {
        read_line(&Line {
            text,
            redrawn: false,
        })
    }

    #[test]
    fn lines_with_a_time_end_an_epoch() {
        for (text, number, all, time) in [
            ("epoch 3 2.31 s", 3, None, 2.31),
            ("Epoch 3: 2.31s", 3, None, 2.31),
            ("epoch 3/10 took 2.31 s", 3, Some(10), 2.31),
            ("Epoch 2/5 - loss: 0.3 - time: 12.5s", 2, Some(5), 12.5),
            ("[epoch 3] loss=0.3 time=2.31 s", 3, None, 2.31),
            ("Epoch 5 | train loss 0.1 | 3m 20s", 5, None, 200.0),
            ("epoch: 1 loss: 0.2 (4.1 seconds)", 1, None, 4.1),
            ("EPOCH 7 elapsed 350 ms", 7, None, 0.35),
            ("Epoch [2/4], Loss: 0.3, Time: 1.5 min", 2, Some(4), 90.0),
            (
                "Finished Epoch[ 1 of 5]: [Training] ce = 2.3 * 1000; epochTime=0.17275s",
                1,
                Some(5),
                0.17275,
            ),
            (
                "2024-01-01 12:00:00,123 - INFO - my.trainer - Epoch 3 finished in 2.5s",
                3,
                None,
                2.5,
            ),
            ("INFO:root:epoch 12 done, 95.1 s", 12, None, 95.1),
            (
                "--- epoch 004 | eta 3h | lr 1e-3 | took 12s ---",
                4,
                None,
                12.0,
            ),
            (
                "Epoch 1: val loss 0.3, val time 2 s, train time 30 s",
                1,
                None,
                30.0,
            ),
            ("Time taken for epoch 1: 65 secs", 1, None, 65.0),
            ("Epoch 1 time 0:01:05", 1, None, 65.0),
            ("Epoch 1, 12.3 samples/s, data 3 s, 40.5 s", 1, None, 40.5),
        ] {
            let event = told(text);
            let Some(Event {
                says: Says::EpochEnd,
                epoch: Some(epoch),
                epochs,
                seconds: Some(seconds),
                ..
            }) = event
            else {
                panic!("{text}: {event:?}")
            };
            assert_eq!((epoch, epochs), (number, all), "{text}");
            assert!((seconds - time).abs() < 1e-9, "{text}: {seconds}");
        }
    }

    #[test]
    fn figures_of_the_line_are_kept() {
        let event = told(
            "Epoch 2/5 - loss: 0.3 - val acc=97.5% - 512.5 images/sec - 0.35 s/it - time: 12.5s",
        );
        let Some(Event {
            says: Says::EpochEnd,
            facts,
            ..
        }) = event
        else {
            panic!("{event:?}")
        };
        assert_eq!(
            facts.metrics,
            [("loss".into(), 0.3), ("val acc".into(), 97.5)]
        );
        assert_eq!(
            facts.throughput,
            crate::observe::timing::event::Rate::of_run(512.5, "samples/s")
        );
        assert_eq!(facts.step_seconds, Some(0.35));
    }

    #[test]
    fn average_of_an_epoch_ends_it() {
        let event = told("2025-03-02 05:24:38,655 - INFO - Epoch 20 - Average Train Loss: 1.6334");
        assert!(
            matches!(
                event,
                Some(Event {
                    says: Says::EpochEnd,
                    epoch: Some(20),
                    ..
                })
            ),
            "{event:?}"
        );
    }

    #[test]
    fn steps_and_beginnings_are_told_from_ends() {
        let event = told("ShadowDet - INFO - [batch 152/152, epoch 15/15]: loss_rmse:0.0516");
        assert!(
            matches!(
                event,
                Some(Event {
                    says: Says::EpochEnd,
                    epoch: Some(15),
                    step: Some(152),
                    of: Some(152),
                    ..
                })
            ),
            "{event:?}"
        );
        for text in [
            "Epoch [1/5], Step [100/600], Loss: 0.3",
            "epoch 1 | iter 100/600 | took 13.25 s",
        ] {
            let event = told(text);
            assert!(
                matches!(
                    event,
                    Some(Event {
                        says: Says::Step,
                        epoch: Some(1),
                        step: Some(100),
                        of: Some(600),
                        ..
                    })
                ),
                "{text}: {event:?}"
            );
        }
        assert!(matches!(
            told("Epoch [1/5], Step [600/600]"),
            Some(Event {
                says: Says::EpochEnd,
                epoch: Some(1),
                ..
            })
        ));
        for text in [
            "Epoch 1 starts",
            "Epoch 1",
            "=== Epoch 1/5 ===",
            "Starting epoch 1: lr 3 s",
        ] {
            let event = told(text);
            assert!(
                matches!(
                    event,
                    Some(Event {
                        says: Says::EpochStart,
                        epoch: Some(1),
                        ..
                    })
                ),
                "{text}: {event:?}"
            );
        }
        assert!(matches!(
            told("Epoch 1 training ends, total 99.33s"),
            Some(Event {
                says: Says::EpochEnd,
                seconds: None,
                ..
            })
        ));
        assert!(matches!(
            told("epoch:[ 3/25 ] train step:100  loss: 2.5"),
            Some(Event {
                says: Says::Step,
                step: Some(100),
                ..
            })
        ));
        assert!(matches!(
            told("Epoch 1 done"),
            Some(Event {
                says: Says::EpochEnd,
                seconds: None,
                ..
            })
        ));
        assert!(matches!(
            told("train epoch: 1, loss: 0.2, lr=0.1"),
            Some(Event {
                says: Says::Mention,
                epoch: Some(1),
                ..
            })
        ));
    }

    #[test]
    fn what_is_not_about_an_epochs_end_is_left_alone() {
        for text in [
            "Epoch 00001: val_loss improved from inf to 0.5, saving model to x.h5",
            "Epoch 5: reducing learning rate of group 0 to 1.0000e-04.",
            "Epoch 3, ETA 12 s",
            "Epoch 3: 3.2 samples/s",
            "Epoch 3: loading took 12 s",
            "Epoch 3 validation took 12 s",
            "Validation epoch 3 took 2 s",
            "2023-08-25 09:20:45 INFO     \t * epoch: 15",
            "- epoch: 15",
            "INFO:0-epoch (99/44660): total loss 11.220771, instance-sup.: 11.393301",
            "epoch: 1/1000, train_loss: 6.8405epoch: 2/1000, train_loss: 6.4124",
            "epoch:[ 25/25 ] val step:0    loss: 2.69097 top1: 0.32812",
            "Saved checkpoint for epoch 3 in 1.2 s",
            "Best model at epoch 3 after 300 s",
            "WARNING: epoch 3 took 2 s",
            "test epoch: 3, loss: 0.3",
            "UserWarning: the epoch parameter in `scheduler.step()` was deprecated",
            "Epochs: 10 took 3 s",
            "start_epoch: 0, best_acc1: 0",
            "'epoch': 1.0}",
            "\"epoch\": 1, \"train_wall\": \"99\"",
            "epoch 1.5 took 3 s",
            "epoch=0/micro_step=10/global_step=10",
            "Epoch[ 1 of 5]-Minibatch[   1-  10, 100.00%]: time = 0.1718s",
            "BlockRandomizer::StartEpoch: epoch 0: frames [0..1000]",
            "Epoch 0: 100%|####| 100/100 [00:03<00:00, 317.86it/s, loss=0.0671]",
            "Saving checkpoint at 1 epochs",
            "Epoch(train) [1][10/1563]  time: 0.1414",
            "      Epoch    GPU_mem   box_loss",
        ] {
            assert_eq!(told(text), None, "{text}");
        }
    }
}
