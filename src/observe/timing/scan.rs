//! Reading numbers, durations, rates and names off the beginning of a text.
//!
//! Each function takes a text and returns what it read with the rest, or `None` where the text begins otherwise.

use std::borrow::Cow;

use super::names;
pub(super) use super::word_list::{holds, holds_any, is_any, position, starts_with_any};
use crate::record::Scope;

/// Longest name of a metric in bytes; longer ones are not names.
const MAX_NAME: usize = 64;

/// How far in a line, in bytes, the level of a logger may stand.
const MAX_LEVEL: usize = 40;

/// Words of a metric's name. Ours: `discriminator loss on real images` is one, a sentence is none.
const MAX_NAME_WORDS: usize = 5;

/// `042` as 42.
pub(super) fn unsigned(text: &str) -> Option<(u64, &str)> {
    let end = text
        .bytes()
        .position(|byte| !byte.is_ascii_digit())
        .unwrap_or(text.len());
    Some((text[..end].parse().ok()?, &text[end..]))
}

/// A number as a count; `None` for one that has a fraction, is negative or too large.
#[expect(
    clippy::cast_possible_truncation,
    clippy::cast_sign_loss,
    reason = "it is whole and in range"
)]
pub(super) fn whole(value: f64) -> Option<u64> {
    ((0.0..9e15).contains(&value) && value.fract() == 0.0).then_some(value as u64)
}

/// `3`, `3/10`, `3 of 10`, blanks allowed.
pub(super) fn counted(text: &str) -> Option<(u64, Option<u64>, &str)> {
    let (number, rest) = unsigned(text.trim_start())?;
    let after = rest.trim_start();
    let of = after
        .strip_prefix('/')
        .or_else(|| after.strip_prefix("of "));
    match of.and_then(|of| unsigned(of.trim_start())) {
        Some((of, rest)) => Some((number, Some(of), rest)),
        None => Some((number, None, rest)),
    }
}

/// A number: `12`, `-0.5`, `7.03e+00`, `nan`, `inf`.
pub(super) fn number(text: &str) -> Option<(f64, &str)> {
    let bytes = text.as_bytes();
    let digits = |from: usize| {
        bytes[from..]
            .iter()
            .take_while(|byte| byte.is_ascii_digit())
            .count()
    };
    let sign = usize::from(matches!(bytes.first(), Some(b'-' | b'+')));
    let whole = digits(sign);
    let mut end = sign + whole;
    if bytes.get(end) == Some(&b'.') {
        let fraction = digits(end + 1);
        end += if whole + fraction > 0 {
            1 + fraction
        } else {
            0
        };
    }
    if end == sign {
        let word = ["nan", "inf"].into_iter().find(|word| {
            text.get(sign..sign + 3)
                .is_some_and(|start| start.eq_ignore_ascii_case(word))
        })?;
        let rest = &text[sign + 3..];
        let value = if word == "nan" {
            f64::NAN
        } else {
            f64::INFINITY
        };
        return (!rest.starts_with(is_word))
            .then_some((if bytes[0] == b'-' { -value } else { value }, rest));
    }
    // `1.#QNAN000`, as old runtimes of Microsoft wrote it.
    if text[..end].ends_with('.')
        && let Some(word) = text[end..].strip_prefix('#')
    {
        return Some((f64::NAN, word.trim_start_matches(is_word)));
    }
    if matches!(bytes.get(end), Some(b'e' | b'E')) {
        let signed = end + 1 + usize::from(matches!(bytes.get(end + 1), Some(b'-' | b'+')));
        let exponent = if signed <= bytes.len() {
            digits(signed)
        } else {
            0
        };
        end = if exponent > 0 { signed + exponent } else { end };
    }
    Some((text[..end].parse().ok()?, &text[end..]))
}

/// `8,600` as 8600: the thousands may be grouped.
pub(super) fn grouped_count(text: &str) -> Option<(u64, &str)> {
    let (mut number, mut rest) = unsigned(text)?;
    while let Some(after) = rest.strip_prefix(',')
        && let Some((more, behind)) = unsigned(after)
        && after.len() - behind.len() == 3
    {
        number = number.checked_mul(1000)?.checked_add(more)?;
        rest = behind;
    }
    Some((number, rest))
}

/// A number that may have commas between its thousands: `529,882`, `1,234.5`.
pub(super) fn grouped(text: &str) -> Option<(f64, &str)> {
    let (value, mut rest) = number(text)?;
    let head = text.len() - rest.len();
    let is_group = text[..head].bytes().all(|byte| byte.is_ascii_digit()) && !text.starts_with('0');
    if !(1..=3).contains(&head) || !is_group {
        return Some((value, rest));
    }
    let mut total = value;
    while let Some(group) = rest.strip_prefix(',').and_then(|rest| rest.get(..3))
        && group.bytes().all(|byte| byte.is_ascii_digit())
        && !rest[4..].starts_with(|c: char| c.is_ascii_digit())
    {
        let (group, _) = number(group)?;
        (total, rest) = (total * 1000.0 + group, &rest[4..]);
    }
    if rest.len() + head < text.len()
        && rest.starts_with('.')
        && let Some((fraction, after)) = number(rest)
    {
        return Some((total + fraction, after));
    }
    Some((total, rest))
}

/// The factor that a letter behind a number stands for, as in `37.2k tok/s`, with the rest.
pub(super) fn magnitude(text: &str) -> Option<(f64, &str)> {
    let factor = match text.as_bytes().first()? {
        b'k' | b'K' => 1e3,
        b'M' => 1e6,
        b'G' | b'B' => 1e9,
        _ => return None,
    };
    let rest = &text[1..];
    (!rest.starts_with(is_word)).then_some((factor, rest))
}

/// True for what words consist of.
pub(super) fn is_word(character: char) -> bool {
    character.is_alphanumeric() || character == '_'
}

/// Seconds of `2.31 s`, `350ms`, `3m 20s`, `1h 2m 3s`, `4.1 seconds`, `1.5 min`; a unit is required.
pub(super) fn duration(text: &str) -> Option<(f64, &str)> {
    let (mut seconds, mut scale, mut rest) = measured(text)?;
    while scale >= 60.0
        && let Some((more, finer, after)) = measured(rest.trim_start())
        && finer < scale
    {
        (seconds, scale, rest) = (seconds + more, finer, after);
    }
    (!rest.starts_with(is_word)).then_some((seconds, rest))
}

/// One number with a unit of time: seconds, seconds of the unit, rest.
fn measured(text: &str) -> Option<(f64, f64, &str)> {
    let (value, rest) = number(text)?;
    let unit = rest.strip_prefix(' ').unwrap_or(rest);
    let attached = unit.len() == rest.len();
    let end = unit
        .find(|c: char| !c.is_alphabetic())
        .unwrap_or(unit.len());
    let scale: f64 = match &unit[..end] {
        "us" | "usec" | "µs" => 1e-6,
        "ms" | "msec" | "msecs" | "millisecond" | "milliseconds" => 1e-3,
        "s" | "sec" | "secs" | "second" | "seconds" | "Sec" | "Seconds" => 1.0,
        "min" | "mins" | "minute" | "minutes" | "Minutes" => 60.0,
        "hr" | "hrs" | "hour" | "hours" | "Hours" => 3600.0,
        // Alone, these letters are often something else: metres, heads.
        "m" if attached => 60.0,
        "h" if attached => 3600.0,
        _ => return None,
    };
    // Divided, so that 33 us is the number nearest to 33e-6.
    let seconds = if scale < 1.0 {
        value / scale.recip().round()
    } else {
        value * scale
    };
    (value.is_finite() && value >= 0.0).then_some((seconds, scale, &unit[end..]))
}

/// Seconds of `1 day, 2:03:04`, `0:03:20` or `03:20`.
pub(super) fn clock(text: &str) -> Option<(f64, &str)> {
    let (first, rest) = unsigned(text)?;
    let of_days = rest
        .strip_prefix(" days, ")
        .or_else(|| rest.strip_prefix(" day, "));
    if let Some(rest) = of_days {
        let (seconds, rest) = clock(rest)?;
        return Some((
            seconds + f64::from(u32::try_from(first).ok()?) * 86_400.0,
            rest,
        ));
    }
    let (second, rest) = unsigned(rest.strip_prefix(':')?)?;
    let (parts, rest) = match rest.strip_prefix(':').and_then(unsigned) {
        Some((third, rest)) => ([first, second, third], rest),
        None => ([0, first, second], rest),
    };
    if parts[1] > 59 && parts[0] > 0
        || parts[2] > 59
        || rest.starts_with(|c| is_word(c) || c == ':')
    {
        return None;
    }
    // An hour count that does not fit a u32 is no hour count.
    let [hours, minutes, seconds] = parts.map(u32::try_from);
    let whole = f64::from(hours.ok()?) * 3600.0
        + f64::from(minutes.ok()?) * 60.0
        + f64::from(seconds.ok()?);
    match rest.starts_with('.').then(|| number(rest)).flatten() {
        Some((fraction, rest)) => Some((whole + fraction, rest)),
        None => Some((whole, rest)),
    }
}

/// Seconds per step of `0.35 s/it`, `350ms/step`, `0.3570 s / it`.
pub(super) fn per_step(text: &str) -> Option<(f64, &str)> {
    let (seconds, rest) = duration(text)?;
    let rest = rest.trim_start().strip_prefix('/')?.trim_start();
    let end = rest.find(|c: char| !is_word(c)).unwrap_or(rest.len());
    let known = matches!(
        &rest[..end],
        "it" | "iter" | "iteration" | "step" | "batch" | "sample" | "img" | "image"
    );
    known.then_some((seconds, &rest[end..]))
}

/// The rate of so many of these in a second, in our words; images and the like are samples.
pub(super) fn unit_per_second(counted: &str) -> Option<&'static str> {
    Some(match counted.to_ascii_lowercase().as_str() {
        "sample" | "samples" | "example" | "examples" | "image" | "images" | "img" | "imgs"
        | "sequences" | "seqs" | "seq" | "instance" | "instances" => "samples/s",
        "step" | "steps" | "batch" | "batches" => "steps/s",
        "token" | "tokens" | "tok" => "tokens/s",
        "it" | "its" | "iter" | "iters" | "iterations" => "it/s",
        "frame" | "frames" => "frames/s",
        "word" | "words" => "words/s",
        _ => return None,
    })
}

/// The unit of a rate, such as ` samples/s`, in our words; images and the like are samples.
pub(super) fn rate_unit(text: &str) -> Option<(&'static str, &str)> {
    let text = text.trim_start_matches([' ', '\t', '[']);
    let end = text.find(|c: char| !c.is_ascii_alphabetic())?;
    let unit = unit_per_second(&text[..end])?;
    let rest = text[end..].trim_start();
    let rest = rest
        .strip_prefix('/')
        .or_else(|| rest.strip_prefix("per "))?
        .trim_start();
    let end = rest.find(|c: char| !is_word(c)).unwrap_or(rest.len());
    // `lr 0.01 tokens/sec: 40,960`: the name of what follows.
    let is_name = rest[end..].trim_start().starts_with([':', '=']);
    let is_second = matches!(&rest[..end], "s" | "sec" | "second");
    (is_second && !is_name).then_some((unit, &rest[end..]))
}

/// The unit of a rate that its name says, and of what it is the rate: `tok/sec`, `tokens_per_second`, `tps`,
/// `tokens/gpu/sec`, `samples per second`.
pub(super) fn rate_name(name: &str) -> Option<(&'static str, Scope)> {
    let lower = name.to_ascii_lowercase();
    let scope = if holds_any(&lower, "gpu|device|rank|npu") {
        Scope::PerDevice
    } else {
        Scope::Global
    };
    let last = lower
        .rsplit([' ', '/', '.', '_'])
        .next()
        .unwrap_or_default();
    match last {
        // torchtitan divides by the number of devices.
        "tps" | "tgs" => return Some(("tokens/s", Scope::PerDevice)),
        "wps" => return Some(("words/s", scope)),
        "ips" => return Some(("samples/s", scope)),
        _ => {}
    }
    // `timing_s/step` is a time.
    let ends = lower.ends_with("/s") || holds_any(&lower, "/s |/s)|/s/");
    let per_second = ends || holds_any(&lower, "_per_sec| per sec|/sec|persec|s/gpu)");
    if !per_second || lower.contains("flop") {
        return None;
    }
    let units = [
        ("tok", "tokens/s"),
        ("sample", "samples/s"),
        ("sequence", "samples/s"),
        ("seq", "samples/s"),
        ("image", "samples/s"),
        ("img", "samples/s"),
        ("item", "samples/s"),
        ("frame", "frames/s"),
        ("word", "words/s"),
        ("batch", "steps/s"),
        ("step", "steps/s"),
        ("it", "it/s"),
    ];
    units
        .iter()
        .find(|(word, _)| lower.contains(word))
        .map(|(_, unit)| (*unit, scope))
}

/// The numbers of a text one after the other, each as the text between it and the number before, the text that begins
/// with it, and what follows it. Digits inside names (`Acc@1`, `mAP50-95`) are not numbers.
pub(super) struct Numbers<'a> {
    text: &'a str,
    at: usize,
}

impl<'a> Numbers<'a> {
    pub(super) fn new(text: &'a str) -> Self {
        Self { text, at: 0 }
    }

    /// Goes on where `rest`, an end of the text, begins.
    pub(super) fn skip_to(&mut self, rest: &str) {
        self.at = self.text.len() - rest.len();
    }

    /// The next number as (text between, value, text from it on); the walk continues behind it.
    pub(super) fn next_number(&mut self) -> Option<(&'a str, f64, &'a str)> {
        let bytes = self.text.as_bytes();
        let begin = self.at;
        let mut at = begin;
        while at < bytes.len() {
            let byte = bytes[at];
            let may_begin = byte.is_ascii_digit()
                || matches!(byte, b'-' | b'+' | b'.' | b'n' | b'N' | b'i' | b'I');
            if may_begin
                && stands_alone(&bytes[..at])
                && let Some((value, rest)) = number(&self.text[at..])
            {
                self.skip_to(rest);
                return Some((&self.text[begin..at], value, &self.text[at..]));
            }
            at += 1;
        }
        self.at = bytes.len();
        None
    }
}

/// True where a number may begin behind `before`.
fn stands_alone(before: &[u8]) -> bool {
    let inside = |byte: &u8| {
        byte.is_ascii_alphanumeric() || !byte.is_ascii() || matches!(byte, b'_' | b'@' | b'.')
    };
    match before {
        [.., earlier, b'-' | b'+'] => !inside(earlier),
        [.., last] => !inside(last),
        [] => true,
    }
}

/// The name before a number, from the text between it and the number before: `, Loss: ` gives `Loss`. Empty where there
/// is none.
pub(super) fn name(between: &str) -> &str {
    let name = between.trim_end_matches([' ', '\t', ':', '=', '[', '(', '#', '~', '"', '\'']);
    let begin = name
        .rfind([',', ';', '|', '(', ')', '[', ']', '{', '}', '\t', '"', '\''])
        .map_or(0, |at| at + 1);
    let begin = name.rfind(" - ").map_or(begin, |at| begin.max(at + 3));
    let begin = name.rfind(": ").map_or(begin, |at| begin.max(at + 2));
    let name = name
        .strip_suffix(" is")
        .filter(|name| name.len() >= begin)
        .unwrap_or(name);
    name[begin..].trim_start_matches(|c| !is_word(c)).trim_end()
}

/// `name` as a figure's name where the form of its line says that it is one; `None` where it cannot be one, as a sentence
/// or a file of source code.
pub(super) fn figure_name(name: &str) -> Option<Cow<'_, str>> {
    let file = [".py", ".h", ".cc", ".cpp", ".cu"]
        .iter()
        .any(|kind| name.ends_with(kind));
    let fits = name.len() <= MAX_NAME && name.split_whitespace().count() <= MAX_NAME_WORDS && !file;
    (fits && name.contains(char::is_alphabetic)).then_some(Cow::Borrowed(name))
}

/// `name` as a metric's name in free text: only a word for what trainings are measured by makes it one.
pub(super) fn metric_name(name: &str) -> Option<Cow<'_, str>> {
    figure_name(name).filter(|name| names::is_metric(name))
}

/// A line without the level of a logger and what stands around it: `- INFO - `, `| INFO | `, `[INFO]: `, `INFO:root:`.
pub(super) fn behind_level(text: &str) -> &str {
    let head = &text[..text.floor_char_boundary(MAX_LEVEL)];
    let Some(at) = head.find("INFO") else {
        return text;
    };
    let alone = !head[..at].contains(|c: char| c.is_ascii_lowercase())
        && !text[at + 4..].starts_with(is_word);
    let rest = text[at + 4..].trim_start_matches([' ', '\t', '-', ':', '|', ']']);
    if alone {
        rest.strip_prefix("root:").unwrap_or(rest).trim_start()
    } else {
        text
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_are_read_as_programs_write_them() {
        for (text, value, rest) in [
            ("12 x", 12.0, " x"),
            ("-0.5,", -0.5, ","),
            ("7.0334e+00 (", 7.0334, " ("),
            ("3e", 3.0, "e"),
            (".25", 0.25, ""),
            ("2.", 2.0, ""),
        ] {
            assert_eq!(number(text), Some((value, rest)), "{text}");
        }
        assert!(number("nan - x").is_some_and(|(value, rest)| value.is_nan() && rest == " - x"));
        assert_eq!(number("-inf"), Some((f64::NEG_INFINITY, "")));
        assert!(number("-1.#IND00;").is_some_and(|(value, rest)| value.is_nan() && rest == ";"));
        assert!(
            number("1.#QNAN000").is_some_and(|(value, rest)| value.is_nan() && rest.is_empty())
        );
        for text in ["", "-", ".", "nano", "x1", "+-1"] {
            assert_eq!(number(text), None, "{text}");
        }
    }

    #[test]
    fn sentences_and_source_files_are_no_names_of_metrics() {
        for name in [
            "New best model saved with BLEU-2 now",
            "W ./tensorflow/core/framework/model.h",
            "",
        ] {
            assert_eq!(metric_name(name), None, "{name}");
        }
        assert!(metric_name("best val dice").is_some());
    }

    #[test]
    fn level_of_a_logger_is_no_part_of_its_message() {
        for text in [
            "- INFO - Train Loss: 1",
            "| INFO | Train Loss: 1",
            "[INFO]:\tTrain Loss: 1",
            "INFO:root:\tTrain Loss: 1",
        ] {
            assert_eq!(behind_level(text), "Train Loss: 1", "{text}");
        }
        for text in ["INFORMATION loss 1", "more INFO: 1", "loss: 1"] {
            assert_eq!(behind_level(text), text);
        }
    }

    #[test]
    fn thousands_may_be_grouped() {
        for (text, value, rest) in [
            ("529,882 | mfu", 529_882.0, " | mfu"),
            ("1,234,567.5x", 1_234_567.5, "x"),
            ("10,049  t", 10_049.0, "  t"),
            ("12,34", 12.0, ",34"),
            ("1.5,234", 1.5, ",234"),
            ("1,2345", 1.0, ",2345"),
            ("1234,567", 1234.0, ",567"),
        ] {
            assert_eq!(grouped(text), Some((value, rest)), "{text}");
        }
    }

    #[test]
    fn durations_need_a_unit() {
        for (text, seconds) in [
            ("2.31 s", 2.31),
            ("2.31s", 2.31),
            ("350ms", 0.35),
            ("3m 20s", 200.0),
            ("3m20s", 200.0),
            ("1h 2m 3s", 3723.0),
            ("1.5 min", 90.0),
            ("1 min 30 sec", 90.0),
            ("4.1 seconds)", 4.1),
        ] {
            let read = duration(text).map(|(read, _)| read);
            assert!(
                read.is_some_and(|read| (read - seconds).abs() < 1e-9),
                "{text}: {read:?}"
            );
        }
        for text in [
            "2.31",
            "3 m",
            "2 samples",
            "-2 s",
            "nan s",
            "3 images/s",
            "3sx",
        ] {
            assert_eq!(duration(text), None, "{text}");
        }
    }

    #[test]
    fn names_of_rates_tell_their_unit() {
        for (name, unit, device) in [
            ("tok/sec", "tokens/s", false),
            ("tokens/gpu/sec", "tokens/s", true),
            ("tokens_per_second", "tokens/s", false),
            ("tps", "tokens/s", true),
            ("samples per second", "samples/s", false),
            ("samples/sec", "samples/s", false),
            ("tokens per gpu per second (tgs)", "tokens/s", true),
            ("train.total_ips", "samples/s", false),
            ("train_items_per_sec", "samples/s", false),
        ] {
            assert_eq!(
                rate_name(name).map(|(unit, scope)| (unit, scope == Scope::PerDevice)),
                Some((unit, device)),
                "{name}"
            );
        }
        for name in ["throughput per GPU (TFLOP/s/GPU)", "loss", "steps", "GB/s"] {
            assert_eq!(rate_name(name), None, "{name}");
        }
    }

    #[test]
    fn clock_times_and_rates_are_read() {
        assert_eq!(clock("0:03:20 x"), Some((200.0, " x")));
        assert_eq!(clock("14:55"), Some((895.0, "")));
        assert_eq!(clock("0:00:21.5"), Some((21.5, "")));
        assert_eq!(clock("1:75:00"), None);
        assert_eq!(clock("99999999999999:01:00"), None);
        assert_eq!(per_step("0.3570 s / it)"), Some((0.357, ")")));
        assert_eq!(per_step("3 s"), None);
        assert_eq!(rate_unit(" images/sec, x"), Some(("samples/s", ", x")));
        assert_eq!(rate_unit(" it/s"), Some(("it/s", "")));
        assert_eq!(rate_unit(" GB/s"), None);
    }

    #[test]
    fn numbers_inside_names_are_skipped() {
        let mut numbers = Numbers::new("  Acc@1   0.50 (  0.25), mAP50-95: 0.4 x=-2");
        let mut seen = Vec::new();
        while let Some((between, value, _)) = numbers.next_number() {
            seen.push((name(between), value));
        }
        assert_eq!(
            seen,
            [("Acc@1", 0.5), ("", 0.25), ("mAP50-95", 0.4), ("x", -2.0)]
        );
    }
}
