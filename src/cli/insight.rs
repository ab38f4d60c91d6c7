//! An insight for people: rows of the table of `show`, what to paste, what is not known.

use crate::cli::table::Rows;
use crate::foundation::units::{Bytes, Walltime, display_seconds};
use crate::record::TimeSource;
use crate::report::insight::{Advice, Compared, EpochTimes, Insight, Setting, Timing};

/// Rows of timing: epochs, steps, rates, each with where it comes from; then what the run used.
pub(crate) fn add_rows(insight: &Insight, rows: &mut Rows) {
    if let Some(timing) = &insight.timing {
        add_timing(timing, rows);
        rows.add_list("timed on", &conditions(&insight.setting), ", ");
    }
    for limit in &insight.limits {
        rows.add("limited by", limit.text.as_str());
    }
    for compared in &insight.compared {
        let name = match compared.what {
            "cpus" => "CPUs used",
            "memory_bytes" => "memory used",
            "gpus" => "GPUs used",
            _ => "time used",
        };
        rows.add_known(name, compared_text(compared));
    }
    let energy = insight.used.gpu_energy_joules;
    rows.add_known("GPU energy", energy.map(energy_text));
}

fn known<const N: usize>(parts: [Option<String>; N]) -> Vec<String> {
    parts.into_iter().flatten().collect()
}

fn add_timing(timing: &Timing, rows: &mut Rows) {
    if let Some(epochs) = &timing.epochs {
        rows.add("epoch", epoch_text(epochs));
        if let Some(first) = epochs.first_seconds {
            let more = first - epochs.median_seconds;
            // A difference below a hundredth of a second is shown without a sign.
            let sign = match more {
                0.005.. => "+",
                ..-0.005 => "-",
                _ => "",
            };
            let (first, more) = (display_seconds(first), display_seconds(more.abs()));
            let text = format!("{first}, {sign}{more} against the later ones");
            rows.add("first epoch", text);
        }
    }
    let both = |evaluation: Option<f64>, checkpoints: Option<f64>| {
        known([
            evaluation.map(|seconds| format!("evaluation {}", short(seconds))),
            checkpoints.map(|seconds| format!("checkpoints {}", short(seconds))),
        ])
    };
    let within = both(timing.evaluation_seconds, timing.checkpoint_seconds);
    rows.add_list("of an epoch", &within, ", ");
    let outside = both(
        timing.evaluation_outside_seconds,
        timing.checkpoint_outside_seconds,
    );
    rows.add_list("beside them", &outside, ", ");
    if let Some(steps) = &timing.steps {
        let (median, p95) = (short(steps.median_seconds), short(steps.p95_seconds));
        let (count, source) = (steps.steps, source_text(steps.source));
        let text = format!("{median} median, 95% within {p95} ({count} steps, {source})");
        rows.add("step", text);
    } else if let Some(seconds) = timing.step_seconds_stated {
        rows.add("step", format!("{} (the last one printed)", short(seconds)));
    }
    if let Some(rate) = timing.samples_per_second {
        rows.add("samples/s", rate_text(rate.value));
    } else if let Some(stated) = &timing.throughput_stated {
        let (rate, unit) = (rate_text(stated.value), &stated.unit);
        rows.add(
            "throughput",
            format!("{rate} {unit} (the last one printed)"),
        );
    }
}

/// Under what conditions: what decides the speed and is easily forgotten.
fn conditions(setting: &Setting) -> Vec<String> {
    let mut parts = Vec::new();
    if let [cpus, ..] = setting.cpus_effective[..] {
        let model = setting.cpu_models.first();
        let model = model.map(|model| format!(" of {model}"));
        let each = if setting.nodes > 1 {
            " on the smallest node"
        } else {
            ""
        };
        let digits = usize::from(cpus.fract() > 0.0);
        let model = model.unwrap_or_default();
        parts.push(format!("{cpus:.digits$} CPUs{model}{each}"));
    }
    for same in setting.gpu_models.chunk_by(|a, b| a == b) {
        parts.push(format!("{} {}", same.len(), same[0]));
    }
    let clock = setting.gpu_clock_mhz;
    parts.extend(clock.map(|mhz| format!("GPU clock {mhz:.0} MHz")));
    let others = setting.others_cpus_busy;
    parts.extend(others.map(|cpus| format!("{cpus:.1} CPUs busy with others' work")));
    parts.extend(setting.storage.iter().cloned());
    parts
}

fn epoch_text(epochs: &EpochTimes) -> String {
    let (source, count) = (source_text(epochs.source), epochs.count);
    let median = display_seconds(epochs.median_seconds);
    match epochs.p95_seconds.map(display_seconds) {
        _ if epochs.is_warmup => format!("{median} (the first only, {source})"),
        Some(p95) => format!("{median} median, 95% within {p95} ({count} epochs, {source})"),
        None if count > 1 => format!("{median} median ({count} epochs, {source})"),
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

pub(crate) fn energy_text(joules: f64) -> String {
    match joules {
        ..10.0 => format!("{joules:.2} J"),
        10.0..10_000.0 => format!("{joules:.0} J"),
        10_000.0..360_000.0 => format!("{:.1} kJ", joules / 1e3),
        _ => format!("{:.2} kWh", joules / 3.6e6),
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
            let mark = match compared.what {
                "memory_bytes" if ratio > 1.0 => ", above what was asked for",
                _ => "",
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
    let (pasted, others): (Vec<&Advice>, Vec<&Advice>) = insight
        .advice
        .iter()
        .partition(|advice| advice.paste.is_some());
    let mut tables: Vec<&str> = pasted.iter().filter_map(|advice| advice.table).collect();
    tables.dedup();
    if !tables.is_empty() {
        text.push_str("\nfor the job file, next time\n");
    }
    for table in tables {
        text.push_str(&format!("[{table}]\n"));
        for advice in pasted.iter().filter(|advice| advice.table == Some(table)) {
            let paste = advice.paste.as_deref().unwrap_or_default();
            text.push_str(&format!("# {}\n{paste}\n", advice.text));
        }
    }
    if !others.is_empty() {
        text.push('\n');
    }
    let lines = others
        .iter()
        .map(|advice| format!("advice: {}\n", advice.text));
    text.extend(lines);
    text
}

/// What is not known, a note for each reason. While a run is running only its user can mend what is named: the rest may come.
pub(crate) fn notes(insight: &Insight, is_over: bool) -> String {
    let unmeasured = insight.unmeasured.iter();
    let shown = unmeasured.filter(|one| is_over || one.what == "timing");
    let by_reason = by_reason(shown.map(|one| {
        let what = match &*one.what {
            "limits" => "what slowed it down",
            "samples_per_second" => "samples/s",
            other => other,
        };
        (&*one.why, what)
    }));
    let line =
        |(why, what): (&str, Vec<&str>)| format!("note: {} not known: {why}\n", what.join(", "));
    by_reason.into_iter().map(line).collect()
}

/// What has one reason together, in the order of the first of each.
pub(crate) fn by_reason<'a>(
    all: impl Iterator<Item = (&'a str, &'a str)>,
) -> Vec<(&'a str, Vec<&'a str>)> {
    let mut found: Vec<(&str, Vec<&str>)> = Vec::new();
    for (why, what) in all {
        match found.iter_mut().find(|(known, _)| *known == why) {
            Some((_, things)) => things.push(what),
            None => found.push((why, vec![what])),
        }
    }
    found
}

#[cfg(test)]
mod tests {
    use super::*;

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
