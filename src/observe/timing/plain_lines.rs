//! The recogniser of plain lines: what lines about epochs (`epoch_line`), about steps (`step_line`) and bars between them say
//! together.

use super::bar::{self, Bar};
use super::bar_label::{self, Subject};
use super::epoch_line;
use super::event::{Event, Facts, Line, Recogniser, Says, Weight};
use super::names;
use super::plain_figures;
use super::scan;
use super::step_line;

/// What a line about the time of the epoch before begins with; the tutorial on BERT that many copied misspells it.
const EPOCH_TIMES: &str = "epoch time|time taken|epoch took|epoch duration|time for epoch|\
    time for this epoch|train epoch time|training epcoh took|training epoch took|this epoch took";

/// The recogniser of such lines.
#[derive(Debug, Default)]
pub(super) struct PlainLines {
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
    /// The epoch of the last line that had it in brackets.
    bracketed: Option<u64>,
    /// True below `Test Error:`, which PyTorch's quickstart writes above the figures of its evaluation.
    tested: bool,
    /// The epoch and the number behind it of a line that said nothing else, for the rule below it.
    headed: Option<(u64, u64)>,
    /// Engines of PyTorch-Ignite that run: one within another evaluates, and its epochs are none of the training.
    engines: u32,
}

impl Recogniser for PlainLines {
    fn name(&self) -> &'static str {
        "epoch-line"
    }

    fn weight(&self) -> Weight {
        Weight::Plain
    }

    fn triggers(&self) -> &'static str {
        "Engine run ¦poch¦POCH¦oss¦Loss¦tep ¦tep/sec¦ter¦raining¦hroughput¦peed¦otal ¦----------¦\
         seconds ---¦] [¦][¦] train¦ | it ¦ done:¦ccuracy¦Acc¦pisode¦rror:¦%|¦took¦Time¦atch"
    }

    fn wants_every_line(&self) -> bool {
        self.begun
    }

    fn counts_from_zero(&self) -> Option<bool> {
        Some(self.zero)
    }

    fn read<'a>(&mut self, line: &Line<'a>, say: &mut dyn FnMut(Event<'a>)) {
        let headed = self.headed.take();
        let tested = std::mem::take(&mut self.tested);
        self.begun &= bar_label::keeps_header(line.text);
        if line.text.contains("Engine run starting with max_epochs=") {
            self.engines += 1;
        } else if line.text.contains("Engine run complete") {
            let was_inner = self.engines > 1;
            self.engines = self.engines.saturating_sub(1);
            if was_inner {
                return;
            }
        }
        if self.engines > 1 && line.text.contains("] Complete. Time taken:") {
            return;
        }
        if let Some(event) = epoch_line::read(line.text) {
            if event.says == Says::EpochStart {
                self.headed = event.epoch.zip(event.epochs);
            }
            // PyTorch-GAN and BasicSR count from 0.
            let basic_sr = line.text.contains("<epoch:") && line.text.contains("iter:");
            self.zero |= line.text.contains("] [Batch ") || basic_sr;
            let event = self.settle(event);
            return say(event);
        }
        if let Some(event) = self.read_other(line.text, headed) {
            self.tested = line.text.trim().eq_ignore_ascii_case("test error:");
            say(match event.says {
                Says::Figures if tested => of_test(event),
                _ => event,
            });
        }
    }
}

/// Figures as those of a test.
fn of_test(mut event: Event<'_>) -> Event<'_> {
    for (name, _) in &mut event.facts.metrics {
        if names::subject(name).is_none() {
            *name = format!("test_{}", name.to_ascii_lowercase()).into();
        }
    }
    Event::validation(event.facts)
}

impl PlainLines {
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
        if let Some(event) = epoch_line::json(text) {
            return Some(self.settle(event));
        }
        if let Some(event) = self.next_in_brackets(text) {
            return Some(self.settle(event));
        }
        if let Some((event, zero)) = step_line::bracketed(text) {
            (self.known, self.zero) = (true, self.zero || zero);
            return Some(self.settle(event));
        }
        if let Some(bar) = bar::read(text) {
            return self.read_bar(&bar);
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
            return if event.says == Says::RunEnd {
                Some(event)
            } else {
                let open = self.open.take()?;
                Some(Event::epoch_end((open, None), Facts::default()))
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

    /// The figures of an epoch behind its number in brackets, where one comes after the other.
    fn next_in_brackets<'a>(&mut self, text: &'a str) -> Option<Event<'a>> {
        // Where epochs are named, those are steps or folds.
        if self.known && self.bracketed.is_none() {
            return None;
        }
        let event = epoch_line::in_brackets(text)?;
        let is_next = match (self.bracketed, event.epoch?) {
            (_, 0 | 1) => true,
            (last, epoch) => last == epoch.checked_sub(1),
        };
        self.bracketed = event.epoch.filter(|_| is_next);
        is_next.then_some(event)
    }

    /// A bar without a number, below the line of its epoch.
    fn read_bar<'a>(&mut self, bar: &Bar<'a>) -> Option<Event<'a>> {
        let named = bar_label::subject(bar.label) == Subject::Training;
        let epoch = self
            .open
            .filter(|_| self.begun && (named || bar.label.is_empty()))?;
        let mut facts = bar.facts();
        bar::postfix(bar.label, scan::metric_name, &mut facts);
        if bar.step == 0 {
            return None;
        }
        if bar.is_full() {
            (self.open, self.barred) = (None, Some(epoch));
        }
        Some(bar.event((epoch, None), facts))
    }

    /// `train: 0.8553   val: 2.3891   (best: 2.1 @ epoch 5)   took 0.7 seconds`, below the steps of an epoch.
    fn summary<'a>(&mut self, text: &'a str) -> Option<Event<'a>> {
        let epoch = self.open?;
        let (figures, took) = text.rsplit_once("took ")?;
        let (of_training, of_evaluation) = figures
            .split_once("val")
            .or_else(|| figures.split_once("test"))?;
        let has_number = |text: &str| text.contains(|c: char| c.is_ascii_digit());
        let is_of_both = scan::starts_with_any(of_training, "train")
            && has_number(of_training)
            && has_number(of_evaluation);
        let (seconds, "") = scan::duration(took).filter(|_| is_of_both)? else {
            return None;
        };
        self.open = None;
        let facts = plain_figures::read(figures).facts;
        Some(Event::epoch_end((epoch, None), facts).took(Some(seconds)))
    }

    /// `Epoch time: 12.3 s`, `Time taken: 12.3 sec`, below the line of the epoch.
    fn unnumbered<'a>(&mut self, text: &'a str) -> Option<Event<'a>> {
        let text = text.trim();
        if let Some(event) = self.summary(text) {
            return Some(event);
        }
        if !scan::starts_with_any(text, EPOCH_TIMES) {
            return None;
        }
        let seconds = step_line::first_time(text)?;
        self.open = None;
        // `epoch time: 76715.097 ms, per step time: 181.789 ms` of MindSpore.
        let step_seconds = text
            .split_once("per step time")
            .and_then(|(_, rest)| step_line::first_time(rest));
        let facts = Facts::with_step_time(step_seconds);
        Some(Event::epoch_end((self.last?, None), facts).took(Some(seconds)))
    }
}
