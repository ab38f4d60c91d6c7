//! Programs whose lines are known by their form alone: `forms.txt` has an entry for each form, and a line of it.
//!
//! An entry begins with what its lines say (a name of [`Says`], or `nothing`) and with conditions:
//!
//! | condition | meaning |
//! |---|---|
//! | `known` | only behind another line of the program |
//! | `next` | only numbers of epochs from 1 on without a gap |
//! | `has-loss` | a loss must be among the figures |
//! | `bare` | figures have no `:` or `=` |
//! | `cells` | names of figures hold any marks |
//! | `measures` | only names of losses and metrics are figures |
//! | `minor` | its rate counts where none of samples was printed |
//! | `means` | the means of the last step count |
//! | `evaluated` | figures of an evaluation: those that training has too get a prefix |
//! | `evaluates` | a line with nothing but figures of an evaluation is no step |
//! | `last-ends`, `ends-from-0` | the last step ends its epoch; of steps that count from 0 |
//! | `of-samples` | steps are samples |
//! | `late` | an epoch that the line before ended does not begin again: that is another rank |
//! | `skips-next` | the next line says nothing |
//! | `from-0`, `from-1` | how its programs count epochs |
//!
//! Then comes the pattern; the first form that matches counts.
//!
//! The groups of a pattern say what stands there: `epoch`, `epochs` (or `last`, the number of the last), `step`, `steps` (or
//! `whole`, where the step is the last), `per_epoch` (steps of an epoch), `seconds` (a time), `step_seconds` or `step_ms` (of a step),
//! `since_s` (since the line before), `span_s` (of `span` steps, or of those since `span_from`), a rate in the unit that the
//! group is named after (`samples` or `rate`, `device_samples`, `tokens`, `words`, `steps_s`, `its`), `metric_NAME` (a metric), `name` and
//! `value` (another one), and `figures` (any number of `name: value`; of `val_figures` the names get `val_`).

use std::sync::{Arc, LazyLock, OnceLock};

use regex_lite::{Captures, Regex};
use serde::Deserialize;
use serde::de::value::{Error as ValueError, StrDeserializer};

use super::event::{Event, Facts, Line, Metric, Rate, Recogniser, Says, Weight};
use super::names::{self, Trained, is_of_evaluation};
use super::plain_figures;
use super::scan;
use crate::record::Scope;

/// A program: its lines, and what its figures are called.
#[derive(Debug, Default)]
pub(super) struct Program {
    name: &'static str,
    triggers: &'static str,
    counts_from_zero: Option<bool>,
    weight: Option<Weight>,
    /// Parts of names, in small letters, of figures that are no metrics; behind `=` a whole name.
    others: Vec<&'static str>,
    /// Names of the time of a step; where `other_times` has parts of names, any other duration is one too.
    step_times: Vec<&'static str>,
    /// Names of the part of it in which the step waited for data.
    data_times: Vec<&'static str>,
    other_times: Option<&'static str>,
    /// What is put before the names of figures of an evaluation.
    evaluated: &'static str,
    /// Beginnings of names, and what the record has in their place, as `Train-=train_`.
    renamed: Vec<&'static str>,
    forms: Vec<Form>,
}

/// A form of lines: what they say (`None`: nothing), what holds for them, and the pattern.
#[derive(Debug, Default)]
struct Form {
    says: Option<Says>,
    conditions: &'static str,
    /// Of the user's own expression only the compiled form is kept.
    pattern: &'static str,
    /// The pattern, compiled once a line was of interest.
    regex: OnceLock<Regex>,
    /// Texts without which a line cannot match: far cheaper to look for than the pattern.
    literals: Vec<String>,
}

impl Form {
    fn has(&self, condition: &str) -> bool {
        self.conditions.split(',').any(|known| known == condition)
    }

    fn regex(&self) -> &Regex {
        let compiled = || Regex::new(self.pattern).expect("a tested expression");
        self.regex.get_or_init(compiled)
    }
}

/// The table.
static PROGRAMS: LazyLock<Vec<Arc<Program>>> = LazyLock::new(|| {
    let programs = read_table(include_str!("forms.txt"));
    programs.into_iter().map(Arc::new).collect()
});

/// A recogniser of each program of the table.
pub(super) fn programs() -> impl Iterator<Item = Known> {
    PROGRAMS
        .iter()
        .map(|program| Known::new(Arc::clone(program)))
}

fn read_table(text: &'static str) -> Vec<Program> {
    let mut programs: Vec<Program> = Vec::new();
    for line in text.lines() {
        if let Some(name) = line.strip_prefix('[') {
            programs.push(Program {
                name: name.trim_end_matches(']'),
                evaluated: "test_",
                ..Program::default()
            });
        }
        let Some(program) = programs.last_mut() else {
            continue;
        };
        let list = |names: &'static str| names.split('|').collect();
        match line.split_once(' ') {
            Some(("triggers:", texts)) => program.triggers = texts,
            Some(("counts-from:", first)) => program.counts_from_zero = Some(first == "0"),
            Some(("weight:", "plain")) => program.weight = Some(Weight::Plain),
            Some(("weight:", _)) => program.weight = Some(Weight::Bare),
            Some(("others:", names)) => program.others = list(names),
            Some(("step-times:", names)) => program.step_times = list(names),
            Some(("data-times:", names)) => program.data_times = list(names),
            Some(("other-times:", names)) => program.other_times = Some(names),
            Some(("renamed:", names)) => program.renamed = list(names),
            Some(("evaluated:", prefix)) => program.evaluated = prefix,
            Some((says, pattern)) if !says.is_empty() && says != "#" => {
                let (says, conditions) = says.split_once(',').unwrap_or((says, ""));
                let pattern = pattern.trim_start();
                program.forms.push(Form {
                    says: Says::deserialize(StrDeserializer::<ValueError>::new(says)).ok(),
                    conditions,
                    pattern,
                    literals: literals(pattern),
                    ..Form::default()
                });
            }
            _ => {}
        }
    }
    programs
}

/// The texts that every match of `pattern` holds; none where alternatives stand at its top level.
fn literals(pattern: &str) -> Vec<String> {
    let mut texts = vec![String::new()];
    let (mut depth, mut inside) = (0, None);
    let mut characters = pattern.chars().peekable();
    while let Some(mut character) = characters.next() {
        let is_escaped = character == '\\';
        if is_escaped {
            character = characters.next().unwrap_or_default();
        }
        let mut is_literal = depth == 0 && inside.is_none();
        match character {
            // A class such as `\d`, or an assertion.
            _ if is_escaped => is_literal &= !character.is_ascii_alphanumeric(),
            _ if inside == Some(character) => inside = None,
            _ if inside.is_some() => {}
            '[' => (inside, is_literal) = (Some(']'), false),
            '{' => (inside, is_literal) = (Some('}'), false),
            '(' => (depth, is_literal) = (depth + 1, false),
            ')' => (depth, is_literal) = (depth - 1, false),
            '|' if depth == 0 => return Vec::new(),
            '.' | '^' | '$' | '+' | '*' | '?' => is_literal = false,
            _ => {}
        }
        // What a quantifier may leave out is none.
        is_literal &= !matches!(characters.peek(), Some('?' | '*' | '{'));
        match texts.last_mut() {
            Some(text) if is_literal => text.push(character),
            Some(text) if !text.is_empty() => texts.push(String::new()),
            _ => {}
        }
    }
    texts.retain(|text| !text.trim().is_empty());
    texts
}

/// Reads the lines of one program of the table.
#[derive(Debug)]
pub(super) struct Known {
    program: Arc<Program>,
    seen: Seen,
}

/// What the lines of a program said so far.
#[derive(Debug, Default)]
struct Seen {
    spoke: bool,
    /// True once a line of a step came that was no evaluation.
    stepped: bool,
    /// True where the next line says nothing.
    skips: bool,
    /// True where the last line said that an epoch without number is over: other ranks say so too.
    is_over: bool,
    /// The epoch that ended in the last line: a rank whose lines come late says that it begins.
    ended: Option<u64>,
    counts_from_zero: Option<bool>,
    /// The last epoch that came without a gap.
    last: Option<u64>,
    /// Steps of the run, and of an epoch, where announced.
    steps: Option<u64>,
    per_epoch: Option<u64>,
    /// True where a step 0 came.
    steps_from_zero: bool,
    /// The last step, and how many are usual between two lines.
    step: Option<u64>,
    interval: Option<u64>,
    /// The last rate in steps per second.
    pace: Option<f64>,
    /// True once a rate of samples was printed.
    samples: bool,
    trained: Trained,
}

impl Known {
    fn new(program: Arc<Program>) -> Self {
        let seen = Seen {
            counts_from_zero: program.counts_from_zero,
            ..Seen::default()
        };
        Self { program, seen }
    }

    /// Reads lines by the user's own expressions alone.
    pub(super) fn by_user(expressions: [(Says, Option<Regex>); 2]) -> Self {
        let form = |(says, regex): (Says, Option<Regex>)| {
            Some(Form {
                says: Some(says),
                regex: regex?.into(),
                ..Form::default()
            })
        };
        Self::new(Arc::new(Program {
            name: "pattern",
            weight: Some(Weight::Asked),
            forms: expressions.into_iter().filter_map(form).collect(),
            ..Program::default()
        }))
    }
}

impl Recogniser for Known {
    fn name(&self) -> &'static str {
        self.program.name
    }

    fn weight(&self) -> Weight {
        self.program.weight.unwrap_or(Weight::Family)
    }

    fn triggers(&self) -> &'static str {
        self.program.triggers
    }

    fn counts_from_zero(&self) -> Option<bool> {
        self.seen.counts_from_zero
    }

    fn read<'a>(&mut self, line: &Line<'a>, say: &mut dyn FnMut(Event<'a>)) {
        // Beside `self`, which the events change.
        let program = Arc::clone(&self.program);
        for form in &program.forms {
            let misses = |literal: &String| !line.text.contains(literal);
            if form.has("known") && !self.seen.spoke || form.literals.iter().any(misses) {
                continue;
            }
            let regex = form.regex();
            let Some(groups) = regex.captures(line.text) else {
                continue;
            };
            if !std::mem::replace(&mut self.seen.skips, form.has("skips-next")) {
                self.say(form, &Groups { regex, groups }, say);
            }
            if self.weight() != Weight::Asked {
                break;
            }
        }
    }
}

impl Known {
    /// Says what a line of a form says.
    fn say<'a>(&mut self, form: &Form, groups: &Groups<'a, '_>, say: &mut dyn FnMut(Event<'a>)) {
        let (was_over, ended) = (
            std::mem::take(&mut self.seen.is_over),
            self.seen.ended.take(),
        );
        let Some(event) = self.event(form, groups) else {
            return;
        };
        self.seen.is_over = event.says == Says::EpochOver;
        if form.has("late") && event.epoch == ended || was_over && self.seen.is_over {
            self.seen.ended = ended;
            return;
        }
        self.seen.ended = event.epoch.filter(|_| event.says == Says::EpochEnd);
        if groups.text("since_s").is_some() {
            // The time hangs on the line before: none may be left out for a later one of the same form.
            say(Event::announce(None, None));
        }
        let (says, seconds) = (event.says, event.seconds);
        let (step, of) = (event.step, event.of);
        let is_step = matches!(says, Says::RunStep | Says::Iteration);
        let per_epoch = groups.count("per_epoch");
        if per_epoch.is_some() {
            self.seen.per_epoch = per_epoch;
            say(Event::announce(event.epochs, per_epoch));
        }
        if form.has("evaluates") && self.is_evaluation(&event.facts) {
            say(Event::iteration(step, of, Facts::default()));
            return say(Event::validation(event.facts));
        }
        say(event);
        if per_epoch.is_some() {
            say(Event::iteration(None, per_epoch, Facts::default()));
        }
        if seconds.is_some() && of.is_none_or(|of| step == Some(of)) && is_step {
            say(Event::run_end(seconds, Facts::default()));
        }
    }

    fn event<'a>(&mut self, form: &Form, groups: &Groups<'a, '_>) -> Option<Event<'a>> {
        let epoch = groups.count("epoch");
        if form.has("next") {
            self.seen.last = epoch.filter(|epoch| {
                *epoch == 1 || self.seen.last.and_then(|last| last.checked_add(1)) == Some(*epoch)
            });
            self.seen.last?;
        }
        let mut facts = groups.facts(&self.program, form);
        if form.has("evaluated") {
            facts.metrics = self
                .seen
                .trained
                .tell_apart(self.program.evaluated, facts.metrics);
        } else {
            self.seen.trained.note(&facts.metrics);
        }
        if form.has("means") {
            // Of an evaluation the means of the last line count.
            let is_last = groups.count("step") >= groups.count("steps");
            let means = facts.means.into_iter().filter(|_| is_last);
            let named = means.map(|(name, mean)| (name.to_ascii_lowercase().into(), mean));
            facts = Facts::with_metrics(named.collect());
        }
        let mut event = groups.event(form, facts)?;
        self.seen.steps_from_zero |= event.step == Some(0);
        let from_zero = self.seen.steps_from_zero || form.has("ends-from-0");
        let done = event
            .step
            .map(|step| step.saturating_add(u64::from(from_zero)));
        if (form.has("last-ends") || form.has("ends-from-0")) && done >= event.of {
            event.says = Says::EpochEnd;
        }
        match event.says {
            Says::Announce if event.epochs.is_none() => {
                self.seen.steps = event.of;
                return None;
            }
            Says::Iteration => event.of = event.of.or(self.seen.per_epoch),
            Says::RunStep => {
                event.of = event.of.or(self.seen.steps);
                self.seen.steps = event.of;
            }
            _ => {}
        }
        if let Some(rate) = event.facts.throughput {
            self.seen.samples |= rate.unit == "samples/s";
            if self.seen.samples && form.has("minor") {
                event.facts.throughput = None;
            }
        }
        let since = groups.text("since_s").and_then(seconds);
        let rate = event.facts.throughput;
        if let Some(rate) = rate.filter(|rate| rate.unit == "steps/s") {
            self.seen.pace = Some(rate.value);
        }
        if let Some(step) = event.step {
            if let Some(since) = since {
                event.facts.step_seconds = self.steps_since(step, since).map(|steps| since / steps);
            }
            self.seen.step = Some(step);
        }
        for (condition, from_zero) in [("from-0", true), ("from-1", false)] {
            if form.has(condition) {
                self.seen.counts_from_zero = Some(from_zero);
            }
        }
        self.seen.spoke = true;
        Some(event)
    }

    /// True of figures that no step has, behind lines of steps.
    fn is_evaluation(&mut self, facts: &Facts<'_>) -> bool {
        let is_step = facts.step_seconds.is_some()
            || facts.throughput.is_some()
            || !facts.metrics.iter().any(|(name, _)| is_of_evaluation(name));
        self.seen.stepped |= is_step;
        self.seen.stepped && !is_step
    }

    /// How many steps the `seconds` before `step` are of.
    fn steps_since(&mut self, step: u64, seconds: f64) -> Option<f64> {
        let Some(last) = self.seen.step else {
            // Nothing came before: the rate is printed with every time.
            let steps = (self.seen.pace? * seconds).round();
            return (steps >= 1.0).then_some(steps);
        };
        let apart = step.checked_sub(last).filter(|steps| *steps > 0)?;
        // Where lines were cut out, the time is still that of the usual number of steps.
        let is_gap = |usual: &u64| apart > *usual && apart.is_multiple_of(*usual);
        let steps = self.seen.interval.filter(is_gap).unwrap_or(apart);
        self.seen.interval = Some(steps);
        u32::try_from(steps).ok().map(f64::from)
    }
}

/// What the groups of a pattern hold in a line.
struct Groups<'a, 'r> {
    regex: &'r Regex,
    groups: Captures<'a>,
}

impl<'a> Groups<'a, '_> {
    fn text(&self, name: &str) -> Option<&'a str> {
        self.groups.name(name).map(|group| group.as_str())
    }

    fn count(&self, name: &str) -> Option<u64> {
        let (count, rest) = scan::unsigned(self.text(name)?.trim())?;
        // 3.0 is 3; 3.5 is a place inside an epoch.
        let is_whole = rest
            .strip_prefix('.')
            .is_none_or(|rest| rest.bytes().all(|digit| digit == b'0'));
        is_whole.then_some(count)
    }

    fn number(&self, name: &str) -> Option<f64> {
        let (value, rest) = scan::grouped(self.text(name)?.trim())?;
        Some(value * scan::magnitude(rest).map_or(1.0, |(factor, _)| factor))
    }

    fn event(&self, form: &Form, facts: Facts<'a>) -> Option<Event<'a>> {
        let of_last = |last: u64| last.checked_add(1);
        let epochs = self.count("epochs");
        let step = self.count("step");
        let mut event = Event {
            epoch: self.count("epoch"),
            epochs: epochs.or_else(|| self.count("last").and_then(of_last)),
            step,
            of: self
                .count("steps")
                .or(step.filter(|_| self.text("whole").is_some())),
            seconds: self.text("seconds").and_then(seconds),
            ..Event::new(form.says?, facts)
        };
        if event.says == Says::Step && event.epoch.is_none() {
            event.says = Says::Iteration;
        }
        event.facts.counts_samples = form.has("of-samples");
        let is_whole = match event.says {
            Says::Figures => !event.facts.is_empty(),
            Says::Step => event.step.is_some(),
            Says::EpochStart | Says::EpochEnd => event.epoch.is_some(),
            Says::RunStep => event.step.is_some(),
            Says::Iteration if form.has("has-loss") => {
                event.seconds.is_some() || event.facts.metrics.iter().any(is_loss)
            }
            _ => true,
        };
        is_whole.then_some(event)
    }

    fn facts(&self, program: &Program, form: &Form) -> Facts<'a> {
        let mut facts = Facts::default();
        for group in self.regex.capture_names().flatten() {
            let Some(text) = self.text(group) else {
                continue;
            };
            let number = self.number(group);
            let rate = |unit| number.and_then(|value| Rate::of_run(value, unit));
            match group {
                "step_seconds" => facts.step_seconds = seconds(text),
                "step_ms" => facts.step_seconds = number.map(|value| value / 1000.0),
                "samples" | "rate" => facts.throughput = rate("samples/s"),
                "tokens" => facts.throughput = rate("tokens/s"),
                "its" => facts.throughput = rate("it/s"),
                "steps_s" => facts.throughput = rate("steps/s"),
                "words" => facts.throughput = rate("words/s"),
                "device_samples" => {
                    facts.throughput =
                        number.and_then(|value| Rate::new(value, "samples/s", Scope::PerDevice));
                }
                "value" => {
                    let name = self.text("name").map(str::trim);
                    let name = name.and_then(scan::figure_name);
                    facts.metrics.extend(name.zip(number));
                }
                _ if group.starts_with("figures") => {
                    program.read_figures("", text, form, &mut facts)
                }
                _ => {
                    if let Some(name) = group.strip_prefix("metric_") {
                        let metric = number.map(|value| (name.to_owned().into(), value));
                        facts.metrics.extend(metric);
                    } else if let Some(prefix) = group.strip_suffix("figures") {
                        program.read_figures(prefix, text, form, &mut facts);
                    }
                }
            }
        }
        if let Some(seconds) = self.number("span_s") {
            let since = self.number("step").zip(self.number("span_from"));
            let steps = self.number("span").or(since.map(|(to, from)| to - from));
            facts.step_seconds = steps
                .filter(|steps| *steps > 0.0)
                .map(|steps| seconds / steps);
        }
        facts
    }
}

impl Program {
    /// Whether figures of a name are no metrics.
    fn is_other(&self, name: &str) -> bool {
        let is = |other: &&str| match other.strip_prefix('=') {
            Some(whole) => name == whole,
            None => scan::holds(name, other) && !scan::holds(name, "loss"),
        };
        self.others.iter().any(is)
    }

    /// The numbers of a text that stand behind `name:` or `name=`: times of steps, rates and metrics.
    fn read_figures<'a>(&self, prefix: &str, text: &'a str, form: &Form, facts: &mut Facts<'a>) {
        if form.has("cells") {
            facts.metrics = cells(text);
            return;
        }
        let figure_name = if form.has("measures") {
            scan::metric_name
        } else {
            scan::figure_name
        };
        let mut numbers = scan::Numbers::new(text);
        let mut column = "";
        while let Some((between, value, from)) = numbers.next_number() {
            if between.trim() == "("
                && let Some((name, _)) = facts.metrics.last().filter(|_| !column.is_empty())
            {
                facts.means.push((name.clone(), value));
            }
            // `np.float64(0.5)`, `66.9GiB(37%)`: a value in brackets has no name.
            let is_call = between.trim_end().strip_suffix('(');
            if is_call.is_some_and(|name| name.ends_with(char::is_alphanumeric)) {
                continue;
            }
            column = "";
            if let Some(other_times) = self.other_times
                && let Some((seconds, rest)) = scan::per_step(from).or_else(|| scan::duration(from))
            {
                let is_other = scan::holds_any(scan::name(between), other_times);
                if !is_other && !plain_figures::is_no_step(rest) {
                    facts.step_seconds = Some(seconds);
                }
                numbers.skip_to(rest);
                continue;
            }
            let (value, after) = scan::grouped(from).unwrap_or((value, from));
            numbers.skip_to(after);
            // `12:30:00` and `3/10` are one thing each.
            let keyed = form.has("bare") || between.trim_end().ends_with([':', '=']);
            if after.starts_with([':', '/']) || !keyed {
                continue;
            }
            let name = scan::name(between);
            let (factor, behind) = scan::magnitude(after).unwrap_or((1.0, after));
            // `lr: 0.1  img/s: 17.2`: the name of what comes next is no unit.
            let unit = scan::rate_unit(behind).filter(|(_, rest)| !rest.starts_with(':'));
            if let Some((_, rest)) = unit {
                numbers.skip_to(rest);
            }
            let mean = after.trim_start().strip_prefix('(');
            let mean = mean.and_then(|mean| scan::number(mean.trim_start()));
            let of_name = scan::rate_name(name);
            if self.step_times.contains(&name) {
                // The mean of several steps stands behind the time of the last.
                let stated = scan::duration(from).map_or(value, |(seconds, _)| seconds);
                facts.step_seconds = Some(mean.map_or(stated, |(mean, _)| mean));
            } else if self.data_times.contains(&name) {
                let stated = scan::duration(from).map_or(value, |(seconds, _)| seconds);
                facts.data_seconds = Some(mean.map_or(stated, |(mean, _)| mean));
            } else if let Some((rate, scope)) =
                of_name.or(unit.map(|(unit, _)| (unit, Scope::Global)))
            {
                let value = mean.map_or(value, |(mean, _)| mean) * factor;
                let rate = Rate::new(value, unit.map_or(rate, |(unit, _)| unit), scope);
                // How fast an evaluation is says nothing; samples, where both are printed: what the batch is made of.
                let is_evaluated = !prefix.is_empty() || is_of_evaluation(name);
                if !is_evaluated
                    && facts
                        .throughput
                        .is_none_or(|known| known.unit != "samples/s")
                {
                    facts.throughput = rate;
                }
            } else if !self.is_other(name)
                && let Some(name) = figure_name(name)
            {
                let renamed = self.renamed.iter().find_map(|pair| {
                    let (from, to) = pair.split_once('=')?;
                    Some((to, name.strip_prefix(from)?.to_owned()))
                });
                let name = match (prefix, renamed) {
                    ("", None) => name,
                    (prefix, None) => format!("{prefix}{}", names::canonical(&name)).into(),
                    (_, Some((to, name))) => format!("{to}{name}").into(),
                };
                column = between;
                facts.metrics.push((name, value));
            }
        }
    }
}

/// Whether a metric is what a language model is trained by.
fn is_loss((name, _): &Metric<'_>) -> bool {
    scan::holds_any(name, "loss|bpb|ppl|perplexity|xent")
}

/// The figures of cells that tabs, which some loggers write as `#011`, or two blanks part; names may hold any marks.
fn cells(text: &str) -> Vec<Metric<'_>> {
    let cells = text.split('\t').flat_map(|cell| cell.split("#011"));
    let pairs = cells
        .flat_map(|cell| cell.split("  "))
        .filter_map(|cell| cell.rsplit_once(':'));
    pairs
        .filter_map(|(name, value)| {
            let (value, _) = scan::number(value.trim_start())?;
            Some((scan::figure_name(name.trim())?, value))
        })
        .collect()
}

/// Seconds of `1 hour, 31 minutes and 58.52 seconds`, `0:01:23.456`, `529.46 ms` or `0.013`.
fn seconds(text: &str) -> Option<f64> {
    let Some((mut total, mut rest)) = scan::duration(text) else {
        return scan::clock(text)
            .or_else(|| scan::number(text))
            .map(|(seconds, _)| seconds);
    };
    while let Some(next) = rest
        .strip_prefix(", ")
        .or_else(|| rest.strip_prefix(" and "))
        && let Some((more, after)) = scan::duration(next)
    {
        (total, rest) = (total + more, after);
    }
    Some(total)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn iterations_that_are_no_epochs_are_none() {
        let program = PROGRAMS
            .iter()
            .find(|it| it.name == "scikit-learn")
            .unwrap();
        let ends = |numbers: &[u64]| {
            let (mut known, mut ends) = (Known::new(Arc::clone(program)), 0);
            for number in numbers {
                let text = format!("Iteration {number}, loss = 0.00851937");
                let line = Line {
                    text: &text,
                    redrawn: false,
                };
                known.read(&line, &mut |event| {
                    ends += u32::from(event.says == Says::EpochEnd);
                });
            }
            ends
        };
        assert_eq!(
            (ends(&[1, 2, 3]), ends(&[20, 40, 60]), ends(&[100, 101])),
            (3, 0, 0)
        );
    }

    #[test]
    fn wait_for_data_is_the_mean_where_that_is_printed() {
        let torchvision =
            "Epoch: [0]  [ 10/469]  eta: 0:00:10  loss: 2.3  time: 0.5  data: 0.05  max mem: 9";
        let imagenet = "Epoch: [0][ 10/782]\tTime  0.794 ( 1.044)\tData  0.097 ( 0.104)\tLoss 6.02e+00 (6.37e+00)";
        let mmengine = "mmengine - INFO - Epoch(train)  [1][ 10/1563]  lr: 1.0e-03  eta: 0:18:23  time: 0.1414  data_time: 0.0077  loss: 5.34";
        let detectron = "  eta: 0:03:35  iter: 19  total_loss: 1.364  time: 0.3637  last_time: 0.3  data_time: 0.1102  last_data_time: 0.2";
        let timm = "Train: 0 [   0/1251 (  0%)]  Loss: 6.96 (6.96)  Time: 3.59s, 285.05/s  (3.5s, 285.05/s)  LR: 1.0e-06  Data: 1.4 (1.3)";
        for (name, text, expected) in [
            ("pytorch", torchvision, (0.5, 0.05)),
            ("pytorch", imagenet, (1.044, 0.104)),
            ("mmengine", mmengine, (0.1414, 0.0077)),
            ("detectron2", detectron, (0.3637, 0.1102)),
            ("timm", timm, (3.5, 1.3)),
        ] {
            let program = PROGRAMS.iter().find(|it| it.name == name).unwrap();
            let (mut known, mut read) = (Known::new(Arc::clone(program)), None);
            let redrawn = false;
            known.read(&Line { text, redrawn }, &mut |event| {
                read = event.facts.step_seconds.zip(event.facts.data_seconds);
            });
            assert_eq!(read, Some(expected), "{text}");
        }
    }

    #[test]
    fn sample_of_each_form_is_read_by_it_and_by_none_before() {
        let mut samples = include_str!("forms.txt")
            .lines()
            .filter_map(|line| line.strip_prefix("    "));
        for program in PROGRAMS.iter() {
            for (at, form) in program.forms.iter().enumerate() {
                let sample = samples.next().expect("every form has a sample");
                let regexes = program.forms.iter().map(|form| {
                    Regex::new(form.pattern).unwrap_or_else(|why| panic!("{}: {why}", form.pattern))
                });
                let first = regexes.clone().position(|regex| regex.is_match(sample));
                assert_eq!(first, Some(at), "{sample}");
                let regex = regexes.clone().nth(at).unwrap();
                let groups = regex.captures(sample).unwrap();
                let groups = Groups {
                    regex: &regex,
                    groups,
                };
                let facts = groups.facts(program, form);
                let wants_facts = form.pattern.contains("figures>");
                assert!(!wants_facts || !facts.is_empty(), "{sample}");
                let event = groups.event(form, facts);
                assert_eq!(event.is_none(), form.says.is_none(), "{sample}");
                let wanted = |trigger: &str| sample.contains(trigger);
                assert!(
                    form.says.is_none() || program.triggers.split('¦').any(wanted),
                    "{sample}"
                );
            }
        }
        assert_eq!(samples.next(), None);
    }

    #[test]
    fn every_evaluation_is_kept_however_many_lines_arrive_at_once() {
        let log = (0..9).map(|round| format!("[{round}]\tvalidation_0-rmse:4.{round}\n"));
        let log: String = log.collect();
        let mut follower = crate::observe::timing::Follower::new(None).expect("no pattern");
        follower.feed(log.as_bytes(), None);
        follower.finish(None);
        assert_eq!(follower.progress().points.len(), 9);
    }

    #[test]
    fn time_in_words_is_added_up() {
        for (text, time) in [
            ("1 hour, 31 minutes and 58.5 seconds", 5518.5),
            ("0:01:23.5", 83.5),
            ("500 ms (step)", 0.5),
            ("0.013", 0.013),
        ] {
            assert!(
                seconds(text).is_some_and(|seconds| (seconds - time).abs() < 1e-9),
                "{text}"
            );
        }
        assert_eq!(seconds("soon"), None);
    }
}
