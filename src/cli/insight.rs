//! An insight for people: rows of the table of `show`, what to paste, what is not known.

use crate::foundation::units::{Bytes, Walltime, display_seconds};
use crate::record::TimeSource;
use crate::report::insight::{Advice, Compared, EpochTimes, Insight, Setting, Timing, Unmeasured};

/// The names of rows and the blanks behind them.
const NAMES: usize = 13;
/// Columns of a terminal.
const WIDTH: usize = 80;

/// Rows of timing: epochs, steps, rates, each with where it comes from.
pub(crate) fn rows(insight: &Insight, row: &mut impl FnMut(&str, String)) {
    if let Some(timing) = &insight.timing {
        timing_rows(timing, row);
        let conditions = conditions(&insight.setting);
        if !conditions.is_empty() {
            folded_row("timed on", &conditions.join(", "), row);
        }
    }
    for limit in &insight.limits {
        folded_row("limited by", &limit.text, row);
    }
    for compared in &insight.compared {
        if let Some(text) = compared_text(compared) {
            row(name(compared), text);
        }
    }
    let used = &insight.used;
    let energy = [
        (used.gpu_joules_per_epoch, "an epoch"),
        (used.gpu_joules_per_sample, "a sample"),
    ];
    let energy: Vec<String> = energy
        .iter()
        .filter_map(|(joules, each)| Some(format!("{} {each}", energy_text((*joules)?))))
        .collect();
    if !energy.is_empty() {
        row("GPU energy", energy.join(", "));
    }
    for balance in insight.balance.iter().filter(|balance| balance.is_uneven) {
        let (least, most) = (&balance.least_node, &balance.most_node);
        let text = format!(
            "{}: {:.1} on {least}, {:.1} on {most}",
            balance.what, balance.least, balance.most
        );
        folded_row("uneven", &text, row);
    }
}

fn timing_rows(timing: &Timing, row: &mut impl FnMut(&str, String)) {
    if let Some(epochs) = &timing.epochs {
        row("epoch", epoch_text(epochs));
        if let Some(first) = epochs.first_seconds {
            let more = first - epochs.median_seconds;
            // Below a hundredth of a second there is no sign to tell.
            let sign = match more {
                0.005.. => "+",
                ..-0.005 => "-",
                _ => "",
            };
            let more = display_seconds(more.abs());
            row(
                "first epoch",
                format!(
                    "{}, {sign}{more} against the later ones",
                    display_seconds(first)
                ),
            );
        }
    }
    let aside = [
        (timing.evaluation_seconds, "evaluation"),
        (timing.checkpoint_seconds, "checkpoints"),
    ];
    let aside: Vec<String> = aside
        .iter()
        .filter_map(|(seconds, what)| Some(format!("{what} {}", short((*seconds)?))))
        .collect();
    if !aside.is_empty() {
        row("of an epoch", aside.join(", "));
    }
    let outside = [
        (timing.evaluation_outside_seconds, "evaluation"),
        (timing.checkpoint_outside_seconds, "checkpoints"),
    ];
    let outside: Vec<String> = outside
        .iter()
        .filter_map(|(seconds, what)| Some(format!("{what} {}", short((*seconds)?))))
        .collect();
    if !outside.is_empty() {
        row("beside them", outside.join(", "));
    }
    if let Some(steps) = &timing.steps {
        let (median, p95) = (short(steps.median_seconds), short(steps.p95_seconds));
        let source = source_text(steps.source);
        row(
            "step",
            format!(
                "{median} median, 95% within {p95} ({} steps, {source})",
                steps.steps
            ),
        );
    } else if let Some(seconds) = timing.step_seconds_stated {
        row("step", format!("{} (the last one printed)", short(seconds)));
    }
    if let Some(rate) = timing.samples_per_second {
        row("samples/s", rate_text(rate.value));
    } else if let Some(stated) = &timing.throughput_stated {
        row(
            "throughput",
            format!(
                "{} {} (the last one printed)",
                rate_text(stated.value),
                stated.unit
            ),
        );
    }
}

/// Under what conditions: what decides the speed and is easily forgotten.
fn conditions(setting: &Setting) -> Vec<String> {
    let mut words = Vec::new();
    if let [cpus, ..] = setting.cpus_effective[..] {
        let model = setting
            .cpu_models
            .first()
            .map(|model| format!(" of {model}"))
            .unwrap_or_default();
        let each = if setting.nodes > 1 {
            " on the smallest node"
        } else {
            ""
        };
        let digits = usize::from(cpus.fract() > 0.0);
        words.push(format!("{cpus:.digits$} CPUs{model}{each}"));
    }
    for alike in setting.gpu_models.chunk_by(|a, b| a == b) {
        words.push(format!("{} {}", alike.len(), alike[0]));
    }
    words.extend(
        setting
            .gpu_clock_mhz
            .map(|mhz| format!("GPU clock {mhz:.0} MHz")),
    );
    words.extend(
        setting
            .others_cpus_busy
            .map(|cpus| format!("{cpus:.1} CPUs busy with others' work")),
    );
    words.extend(setting.storage.iter().cloned());
    words
}

fn epoch_text(epochs: &EpochTimes) -> String {
    let source = source_text(epochs.source);
    let median = display_seconds(epochs.median_seconds);
    if epochs.is_warmup {
        return format!("{median} (the first only, {source})");
    }
    match epochs.p95_seconds {
        Some(p95) => {
            format!(
                "{median} median, 95% within {} ({} epochs, {source})",
                display_seconds(p95),
                epochs.count
            )
        }
        None if epochs.count > 1 => format!("{median} median ({} epochs, {source})", epochs.count),
        None => format!("{median} ({source})"),
    }
}

fn source_text(source: TimeSource) -> &'static str {
    match source {
        TimeSource::Stated => "as printed",
        TimeSource::Clock => "by the clock",
        TimeSource::Event => "by events",
    }
}

/// Times of steps: `12.3 ms`, `0.42 s`.
fn short(seconds: f64) -> String {
    match seconds {
        ..0.001 => format!("{:.0} us", seconds * 1e6),
        0.001..0.1 => format!("{:.1} ms", seconds * 1e3),
        0.1..1.0 => format!("{:.0} ms", seconds * 1e3),
        _ => display_seconds(seconds),
    }
}

fn rate_text(value: f64) -> String {
    match value {
        ..10.0 => format!("{value:.2}"),
        10.0..100.0 => format!("{value:.1}"),
        _ => format!("{value:.0}"),
    }
}

fn energy_text(joules: f64) -> String {
    match joules {
        ..10.0 => format!("{joules:.2} J"),
        10.0..10_000.0 => format!("{joules:.0} J"),
        10_000.0..360_000.0 => format!("{:.1} kJ", joules / 1e3),
        _ => format!("{:.2} kWh", joules / 3.6e6),
    }
}

fn name(compared: &Compared) -> &'static str {
    match compared.what {
        "cpus" => "CPUs used",
        "memory_bytes" => "memory used",
        "gpus" => "GPUs used",
        _ => "time used",
    }
}

/// `2.1 of 8 (26%)`; nothing where nothing was asked for.
fn compared_text(compared: &Compared) -> Option<String> {
    let quantity = |value: f64| match compared.what {
        "cpus" => format!("{value:.1}"),
        "gpus" => format!("{value:.0}"),
        "memory_bytes" => Bytes(whole(value)).to_string(),
        _ => display_seconds(value),
    };
    let asked = |value: f64| match compared.what {
        "cpus" => format!("{value:.0}"),
        "walltime_seconds" => Walltime(whole(value)).to_string(),
        _ => quantity(value),
    };
    let of = asked(compared.asked?);
    // No program does without memory: it ended before the first look.
    let used = compared
        .used
        .filter(|used| compared.what != "memory_bytes" || *used > 0.0);
    Some(match used.zip(compared.ratio) {
        Some((used, ratio)) => {
            let is_above = compared.what == "memory_bytes" && ratio > 1.0;
            let mark = if is_above {
                ", above what was asked for"
            } else {
                ""
            };
            format!("{} of {of} ({:.0}%{mark})", quantity(used), ratio * 100.0)
        }
        // It is running still, or a clock was set back.
        None if compared.what == "walltime_seconds" => return None,
        None => format!("unknown, of {of}"),
    })
}

#[expect(
    clippy::cast_possible_truncation,
    clippy::cast_sign_loss,
    reason = "bytes and seconds, not negative"
)]
fn whole(value: f64) -> u64 {
    value.round() as u64
}

/// What to ask for next time: lines for the job file, each below its reason as a comment, then what no key says.
pub(crate) fn advice(insight: &Insight) -> String {
    let mut text = String::new();
    let pasted = || {
        insight
            .advice
            .iter()
            .filter(|advice| advice.paste.is_some())
    };
    let mut tables: Vec<&str> = pasted().filter_map(|advice| advice.table).collect();
    tables.dedup();
    if !tables.is_empty() {
        text.push_str("\nfor the job file, next time\n");
    }
    for table in tables {
        text.push_str(&format!("[{table}]\n"));
        for advice in pasted().filter(|advice| advice.table == Some(table)) {
            text.push_str(&folded("# ", "# ", &advice.text));
            text.push_str(&format!("{}\n", advice.paste.as_deref().unwrap_or("")));
        }
    }
    let others: Vec<&Advice> = insight
        .advice
        .iter()
        .filter(|advice| advice.paste.is_none())
        .collect();
    if !others.is_empty() {
        text.push('\n');
    }
    for advice in others {
        text.push_str(&folded("advice: ", "        ", &advice.text));
    }
    text
}

/// What is not known, a note for each reason. While a run is running only its user can mend what is named: the rest may come.
pub(crate) fn notes(insight: &Insight, is_over: bool) -> String {
    let mut by_reason: Vec<(&str, Vec<&str>)> = Vec::new();
    for Unmeasured { what, why } in insight
        .unmeasured
        .iter()
        .filter(|one| is_over || one.what == "timing")
    {
        let what = match &**what {
            "limits" => "what slowed it down",
            "request" => "what it asked for",
            "samples_per_second" => "samples/s",
            "gpu_energy" => "GPU energy",
            other => other,
        };
        match by_reason.iter_mut().find(|(known, _)| known == why) {
            Some((_, things)) => things.push(what),
            None => by_reason.push((why, vec![what])),
        }
    }
    let line = |(why, things): (&str, Vec<&str>)| {
        let (advice, figures): (Vec<&str>, Vec<&str>) = things
            .iter()
            .partition(|thing| thing.starts_with("advice/"));
        let advice: Vec<&str> = advice
            .iter()
            .map(|thing| thing.trim_start_matches("advice/"))
            .collect();
        let mut words = Vec::new();
        if !figures.is_empty() {
            words.push(format!("{} not known", figures.join(", ")));
        }
        if !advice.is_empty() {
            words.push(format!("no advice on {}", advice.join(", ")));
        }
        folded("note: ", "      ", &format!("{}: {why}", words.join("; ")))
    };
    by_reason.into_iter().map(line).collect()
}

/// A row whose text takes several lines, beside the widest name of a row.
pub(crate) fn folded_row(name: &str, words: &str, row: &mut impl FnMut(&str, String)) {
    let indent = " ".repeat(NAMES);
    let text = folded(&indent, &indent, words);
    for (place, line) in text.lines().enumerate() {
        row(
            if place == 0 { name } else { "" },
            line.trim_start().to_owned(),
        );
    }
}

/// Words in lines of a terminal's width.
fn folded(first: &str, next: &str, words: &str) -> String {
    let (mut text, mut line) = (String::new(), first.to_owned());
    let mut is_empty = true;
    for word in words.split_whitespace() {
        if !is_empty && line.chars().count() + 1 + word.chars().count() > WIDTH {
            text.push_str(&format!("{line}\n"));
            line = next.to_owned();
            is_empty = true;
        }
        if !is_empty {
            line.push(' ');
        }
        line.push_str(word);
        is_empty = false;
    }
    text + &line + "\n"
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn words_fold_at_the_width() {
        let words = "word ".repeat(40);
        let text = folded("advice: ", "        ", &words);
        assert!(
            text.lines()
                .all(|line| line.len() <= WIDTH && line.len() > 8),
            "{text}"
        );
        assert_eq!(text.matches("word").count(), 40);
        assert_eq!(folded("# ", "# ", "short"), "# short\n");
    }

    #[test]
    fn short_times_keep_their_digits() {
        assert_eq!(
            [0.000_05, 0.0123, 0.42, 2.5].map(short),
            ["50 us", "12.3 ms", "420 ms", "2.50 s"]
        );
    }

    #[test]
    fn memory_above_what_was_asked_for_is_marked_and_an_unknown_time_left_out() {
        let compared = |what, used: Option<f64>, asked: f64| {
            let ratio = used.map(|used| used / asked);
            compared_text(&Compared {
                what,
                asked: Some(asked),
                used,
                ratio,
            })
        };
        let above = compared(
            "memory_bytes",
            Some(3.0 * 1_073_741_824.0),
            2.0 * 1_073_741_824.0,
        );
        assert!(
            above.is_some_and(|text| text.ends_with("of 2GiB (150%, above what was asked for)"))
        );
        let below = compared(
            "memory_bytes",
            Some(1.0 * 1_073_741_824.0),
            2.0 * 1_073_741_824.0,
        );
        assert!(below.is_some_and(|text| text.ends_with("of 2GiB (50%)")));
        assert_eq!(compared("walltime_seconds", None, 60.0), None);
        assert_eq!(
            compared("cpus", None, 2.0).as_deref(),
            Some("unknown, of 2")
        );
    }
}
