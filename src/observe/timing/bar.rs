//! Progress bars as tqdm draws them, alone or inside the lines of other programs.
//!
//! ```text
//!  12%|█▎        | 1/8 [01:53<13:12, 113.21s/it]
//! Epoch 0: 100%|██████████| 100/100 [00:00<00:00, 317.86it/s, loss=0.0671, v_num=13]
//!         0/2      3.91G    0.04618 ...        640: 100% 8/8 [00:09<00:00,  1.17s/it]
//! 42it [00:03, 13.90it/s]
//! Epoch 3/10 loss 0.25 ━━━━━━━━╸━━━ 12/20 0:00:09 • 0:00:04 102.34it/s
//! ```
//!
//! The last is drawn by `rich`. A clock of whole seconds that shows 0 there says nothing.
//!
//! The form of the others is that of `tqdm.format_meter` (tqdm/std.py, 4.x) and of the copies of it in Lightning's and Ultralytics' own
//! bars.

use std::borrow::Cow;

use super::event::{Count, Event, Facts, Rate};
use super::scan;

/// What a bar says.
#[derive(Debug, Clone, PartialEq, Default)]
pub(super) struct Bar<'a> {
    /// What stands before it, without the colon.
    pub(super) label: &'a str,
    /// Steps done.
    pub(super) step: u64,
    /// Steps in all; `None` where the bar does not know.
    pub(super) of: Option<u64>,
    /// Time so far, in whole seconds.
    pub(super) elapsed: Option<f64>,
    /// Time to go, in whole seconds.
    pub(super) remaining: Option<f64>,
    /// Steps per second as printed, with the bar's unit (`it`, `batch`, ...); `None` where it prints seconds per step.
    pub(super) per_second: Option<(f64, &'a str)>,
    /// Seconds per step as printed; `None` where it prints steps per second.
    pub(super) step_seconds: Option<f64>,
    /// True where it counts bytes at a rate that is not known yet.
    pub(super) is_of_bytes: bool,
    /// True where its unit is an epoch.
    pub(super) is_of_epochs: bool,
    /// What follows the rate inside the brackets: `loss=0.0671, v_num=13`.
    pub(super) postfix: &'a str,
}

impl<'a> Bar<'a> {
    /// True where all steps are done.
    pub(super) fn is_full(&self) -> bool {
        self.of.is_some_and(|of| of > 0 && self.step >= of)
    }

    /// Its pace, as steps per second or as seconds per step.
    pub(super) fn pace<'f>(&self) -> Facts<'f> {
        let throughput = self.per_second.and_then(|(value, unit)| {
            let unit = match unit.trim() {
                "ba" => "steps/s",
                "ex" => "samples/s",
                unit => scan::unit_per_second(unit)?,
            };
            Rate::of_run(value, unit)
        });
        Facts {
            step_seconds: self.step_seconds,
            throughput,
            one_pace: true,
            ..Facts::default()
        }
    }

    /// A step of an epoch, or its end where the bar is full.
    pub(super) fn event(&self, epoch: Count, facts: Facts<'a>) -> Event<'a> {
        match self.of.filter(|_| self.is_full()) {
            Some(of) => Event::epoch_end(epoch, facts)
                .took(self.elapsed)
                .at(Some((self.step, of))),
            None => Event::step(epoch, (self.step, self.of), facts),
        }
    }

    /// Its pace, and the figures behind it.
    pub(super) fn facts(&self) -> Facts<'a> {
        let mut facts = self.pace();
        postfix(self.postfix, scan::metric_name, &mut facts);
        facts
    }

    /// Takes `317.86it/s`, `113.21s/it` or `?it/s`; false where it is something else.
    fn take_rate(&mut self, rate: &'a str) -> bool {
        if let Some(unknown) = rate.strip_prefix('?') {
            self.is_of_bytes = unknown.ends_with("B/s");
            return unknown.ends_with("/s") || unknown.starts_with("s/");
        }
        let Some((value, unit)) = scan::number(rate) else {
            return false;
        };
        let unit = unit.trim_start();
        self.is_of_epochs = scan::holds(unit, "epoch");
        if let Some(unit) = unit
            .strip_suffix("/s")
            .or_else(|| unit.strip_suffix("/sec"))
        {
            self.per_second = Some((value, unit));
            return true;
        }
        if unit.strip_prefix("s/").is_some_and(|unit| !unit.is_empty()) {
            self.step_seconds = Some(value);
            return true;
        }
        false
    }
}

/// Reads `loss=0.0671, v_num=13`, `loss: 0.5 acc: 0.9` or `{'loss': 0.5}` as metrics, where `named` takes their names.
pub(super) fn postfix<'a>(
    text: &'a str,
    named: fn(&'a str) -> Option<Cow<'a, str>>,
    facts: &mut Facts<'a>,
) {
    let mut numbers = scan::Numbers::new(text);
    while let Some((between, value, from)) = numbers.next_number() {
        let behind = scan::number(from).map_or("", |(_, rest)| rest);
        // Names of versions, as of runs, begin with a digit: `v_num=2f4k`.
        if behind.starts_with(scan::is_word) {
            continue;
        }
        let plain =
            between.trim_end_matches(|c: char| c.is_whitespace() || matches!(c, '(' | '\'' | '"'));
        let name = scan::name(plain);
        if plain.ends_with(['=', ':', '\'', '"'])
            && !matches!(name, "v_num" | "device" | "epoch")
            && let Some(name) = named(name)
        {
            facts.metrics.push((name, value));
        }
    }
}

/// Reads the bar of a line; `None` where there is none.
pub(super) fn read(text: &str) -> Option<Bar<'_>> {
    bracketed(text).or_else(|| ruled(text))
}

/// What `rich` draws its bars with.
pub(super) const RULE: [char; 3] = ['━', '╸', '╺'];

/// Reads a bar of `rich`, whose times and rate stand behind the counts without brackets. Of two times without a mark
/// between them, nobody knows which is the one that passed.
pub(super) fn rich(text: &str) -> Option<Bar<'_>> {
    // Terminals without the lines show dashes.
    let line = text.find(RULE).or_else(|| text.find(" ---"))?;
    let (label, rest) = text.split_at(line);
    let rest = rest
        .trim_start_matches(RULE)
        .trim_start_matches([' ', '-'])
        .trim_start_matches(RULE);
    let (step, of, rest) = scan::counted(rest.trim_start_matches(RULE).trim_start())?;
    let mut bar = Bar {
        label: label.trim(),
        step,
        of,
        ..Bar::default()
    };
    bar.postfix = rest.trim_start();
    if let Some((elapsed, rest)) = scan::clock(bar.postfix)
        && let Some(rest) = rest.trim_start().strip_prefix('•')
    {
        let rest = rest.trim_start();
        let (remaining, rest) = match scan::clock(rest) {
            Some((remaining, rest)) => (Some(remaining), rest),
            None => (None, rest.trim_start_matches(['-', ':'])),
        };
        (bar.elapsed, bar.remaining) = (Some(elapsed).filter(|elapsed| *elapsed > 0.0), remaining);
        bar.postfix = rest.trim_start();
    }
    if let Some((value, rest)) = scan::number(bar.postfix)
        && let Some(("it/s", rest)) = scan::rate_unit(rest)
    {
        bar.per_second = (value > 0.0).then_some((value, "it"));
        bar.postfix = rest.trim_start();
    }
    of.map(|_| bar)
}

/// Reads a bar whose times and rate stand in brackets.
fn bracketed(text: &str) -> Option<Bar<'_>> {
    let open = text
        .rfind('[')
        .filter(|at| clocks(&text[at + 1..]).is_some())
        .or_else(|| {
            // A postfix may have its own brackets.
            text.match_indices('[')
                .map(|(at, _)| at)
                .find(|at| clocks(&text[at + 1..]).is_some())
        })?;
    let (before, inside) = (text[..open].trim_end(), &text[open + 1..]);
    let (elapsed, remaining, rest) = clocks(inside)?;
    let (label, step, of) = counts(before)?;
    let mut bar = Bar {
        label,
        step,
        of,
        elapsed,
        remaining,
        ..Bar::default()
    };
    let rest = rest.trim_start_matches([',', ' ']);
    // A bracket right behind the rate closes the bar; what follows, such as the mark of another rank, is none of it.
    let closing = |end: &usize| !rest[..*end].contains([',', '[']);
    let end = rest
        .find(']')
        .filter(closing)
        .or_else(|| rest.rfind(']'))
        .unwrap_or(rest.len());
    let (rate, postfix) = rest[..end].split_once(',').unwrap_or((&rest[..end], ""));
    bar.postfix = postfix.trim();
    if !bar.take_rate(rate.trim()) {
        bar.postfix = rest[..end].trim();
    }
    Some(bar)
}

/// Reads a bar of Ultralytics since 8.3.200: `640: 25% ━━━───────── 2/8 1.5it/s 1.2s<4.1s`.
fn ruled(text: &str) -> Option<Bar<'_>> {
    const RULE: [char; 4] = ['━', '╸', '─', ' '];
    let (before, rest) = text
        .split_once("% ")
        .filter(|(_, rest)| rest.starts_with(RULE))?;
    let label = before.trim_end_matches(|c: char| c.is_ascii_digit());
    let (step, of, rest) = scan::counted(rest.trim_start_matches(RULE))?;
    let mut bar = Bar {
        label: label.trim_end().trim_end_matches(':'),
        step,
        of,
        ..Bar::default()
    };
    for word in rest.split_ascii_whitespace() {
        let (elapsed, remaining) = word.split_once('<').unwrap_or((word, ""));
        if bar.take_rate(word) {
            continue;
        }
        // A shorter time leaves the end of the line painted before it: `10.8s.2ss`, `10.8s0.1s`.
        let whole = elapsed.find('s').map_or(elapsed, |end| &elapsed[..=end]);
        bar.elapsed = Some(short_time(whole)?);
        bar.remaining = short_time(remaining);
    }
    of.map(|_| bar)
}

/// Seconds of `5.2s` or `1:02`.
fn short_time(text: &str) -> Option<f64> {
    let (seconds, rest) = scan::duration(text).or_else(|| scan::clock(text))?;
    rest.is_empty().then_some(seconds)
}

/// `01:53<13:12` with the rest; the time to go may be `?` or missing.
fn clocks(text: &str) -> Option<(Option<f64>, Option<f64>, &str)> {
    let (elapsed, rest) = scan::clock(text.trim_start())?;
    match rest.trim_start().strip_prefix('<') {
        Some(after) => match scan::clock(after.trim_start()) {
            Some((remaining, rest)) => Some((Some(elapsed), Some(remaining), rest)),
            None => Some((Some(elapsed), None, after.trim_start().strip_prefix('?')?)),
        },
        None => rest.starts_with(',').then_some((Some(elapsed), None, rest)),
    }
}

/// The label and the counts before the bracket: `Epoch 0: 100%|███| 100/100`, `640: 100% 8/8`, `42it`.
fn counts(before: &str) -> Option<(&str, u64, Option<u64>)> {
    let begin = before
        .rfind(|c: char| c.is_whitespace() || c == '|')
        .map_or(0, |at| {
            at + before[at..].chars().next().map_or(1, char::len_utf8)
        });
    let count = &before[begin..];
    let (step, rest) = scaled_count(count)?;
    if let Some(of) = rest.strip_prefix('/') {
        let (of, rest) = scaled_count(of)?;
        if !rest.is_empty() {
            return None;
        }
        let label = before[..begin].trim_end();
        let label = match label.find("%|") {
            Some(at) => label[..at].trim_end_matches(|c: char| c.is_ascii_digit()),
            None => label.trim_end_matches(|c: char| c.is_ascii_digit() || c == '%'),
        };
        let label = label.trim_end().trim_end_matches(':').trim_end();
        return Some((label, step, Some(of)));
    }
    // Without a total: `42it`, perhaps behind a label.
    let named = !rest.is_empty() && rest.chars().all(char::is_alphabetic);
    named.then(|| (before[..begin].trim_end().trim_end_matches(':'), step, None))
}

/// `100`, or `1.50k` of bars with `unit_scale`.
fn scaled_count(text: &str) -> Option<(u64, &str)> {
    let (whole, rest) = scan::unsigned(text)?;
    if !rest.starts_with('.') && !rest.starts_with(['k', 'M', 'G']) {
        return Some((whole, rest));
    }
    let (value, rest) = scan::number(text)?;
    let (value, rest) = [('k', 1e3), ('M', 1e6), ('G', 1e9)]
        .into_iter()
        .find_map(|(sign, factor)| rest.strip_prefix(sign).map(|rest| (value * factor, rest)))
        .unwrap_or((value, rest));
    scan::whole(value.round()).map(|count| (count, rest))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn bars_of_all_kinds_are_read() {
        let bar = read(" 12%|█▎        | 1/8 [01:53<13:12, 113.21s/it]").expect("a bar");
        assert_eq!(
            (bar.label, bar.step, bar.of, bar.elapsed),
            ("", 1, Some(8), Some(113.0))
        );
        assert_eq!(
            (bar.step_seconds, bar.per_second, bar.remaining),
            (Some(113.21), None, Some(792.0))
        );
        let bar =
            read("Epoch 0: 100%|████| 100/100 [00:00<00:00, 317.86it/s, loss=0.0671, v_num=13]");
        let bar = bar.expect("a bar");
        assert_eq!(
            (bar.label, bar.per_second),
            ("Epoch 0", Some((317.86, "it")))
        );
        assert_eq!(bar.postfix, "loss=0.0671, v_num=13");
        assert!(bar.is_full());
        let bar = read("  0/2  3.91G  0.04618  232  640: 100% 8/8 [00:09<00:00,  1.17s/it]")
            .expect("a bar");
        assert_eq!(
            (bar.label, bar.step, bar.of),
            ("  0/2  3.91G  0.04618  232  640", 8, Some(8))
        );
        let bar = read("Training: 42it [00:03, 13.90it/s]").expect("a bar");
        assert_eq!(
            (bar.label, bar.step, bar.of, bar.elapsed),
            ("Training", 42, None, Some(3.0))
        );
        let bar = read("  0%|          | 0/8 [00:00<?, ?it/s]").expect("a bar");
        assert_eq!(
            (bar.step, bar.elapsed, bar.remaining, bar.per_second),
            (0, Some(0.0), None, None)
        );
        let bar =
            read("a: 50%|██| 5/10 [1 day, 0:00:05<00:00, 1.50it/s, x=[1, 2]]").expect("a bar");
        assert_eq!(
            (bar.elapsed, bar.per_second),
            (Some(86_405.0), Some((1.5, "it")))
        );
    }

    #[test]
    fn bars_of_rich_are_read() {
        let bar = rich("Epoch 1/3 loss 0.51 ━━━━╸━━━ 12/20 0:00:00 0:00:01").expect("a bar");
        assert_eq!(
            (bar.label, bar.step, bar.of, bar.elapsed),
            ("Epoch 1/3 loss 0.51", 12, Some(20), None)
        );
        let bar =
            rich("Epoch 0/9  ━━━━ 938/938 0:00:09 • 0:00:00 102.34it/s v_num: 2").expect("a bar");
        assert_eq!(
            (bar.elapsed, bar.per_second, bar.postfix),
            (Some(9.0), Some((102.34, "it")), "v_num: 2")
        );
        assert_eq!(rich("━━━ 50% 0:00:01"), None);
    }

    #[test]
    fn other_brackets_are_no_bars() {
        for text in [
            "Epoch: [0][ 10/782]",
            "12:30 [INFO] 3/4",
            "[00:01] 3",
            "x [1, 2]",
            "",
            "[[",
        ] {
            assert_eq!(read(text), None, "{text}");
        }
    }
}
