//! An insight for people: rows of the table of `show`, what to paste, what is not known.

use crate::cli::table::Rows;
use crate::foundation::units::{Bytes, Walltime, display_seconds};
use crate::record::TimeSource;
use crate::report::insight::{Advice, Compared, EpochTimes, Insight, Timing};

/// Rows of timing: epochs, steps, rates, each with where it comes from; then what the run used.
pub(crate) fn add_rows(insight: &Insight, rows: &mut Rows) {
    if let Some(timing) = &insight.timing {
        add_timing(timing, rows);
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

fn add_timing(timing: &Timing, rows: &mut Rows) {
    if let Some(epochs) = &timing.epochs {
        rows.add("epoch", epoch_text(epochs));
        if let Some(first) = epochs.first_seconds {
            let more = first - epochs.median_seconds;
            let sign = if more < 0.0 { "-" } else { "+" };
            let difference = display_seconds(more.abs());
            let difference = match display_seconds(first) == display_seconds(epochs.median_seconds)
            {
                true => "as the later ones".to_owned(),
                false => format!("{sign}{difference} against the later ones"),
            };
            let first = display_seconds(first);
            rows.add("first epoch", format!("{first}, {difference}"));
        }
    }
    for (name, evaluation, checkpoints) in [
        (
            "of an epoch",
            timing.evaluation_seconds,
            timing.checkpoint_seconds,
        ),
        (
            "beside them",
            timing.evaluation_outside_seconds,
            timing.checkpoint_outside_seconds,
        ),
    ] {
        let evaluation = evaluation.map(|seconds| format!("evaluation {}", short(seconds)));
        let checkpoints = checkpoints.map(|seconds| format!("checkpoints {}", short(seconds)));
        let both: Vec<String> = evaluation.into_iter().chain(checkpoints).collect();
        rows.add_list(name, &both, ", ");
    }
    if let Some(steps) = &timing.steps {
        let (median, p95) = (short(steps.median_seconds), short(steps.p95_seconds));
        let (count, source) = (steps.steps, source_text(steps.source));
        let text = format!("{median} median, 95% within {p95} ({count} steps, {source})");
        rows.add("step", text);
        let wait = steps.data_wait_ratio;
        rows.add_known(
            "data wait",
            wait.map(|ratio| format!("{:.1}% of step time", ratio * 100.0)),
        );
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

fn epoch_text(epochs: &EpochTimes) -> String {
    let (source, count) = (source_text(epochs.source), epochs.count);
    let median = display_seconds(epochs.median_seconds);
    let text = match epochs.p95_seconds.map(display_seconds) {
        _ if epochs.is_warmup => format!("{median} (the first only, {source})"),
        Some(p95) => format!("{median} median, 95% within {p95} ({count} epochs, {source})"),
        None if count > 1 => format!("{median} median ({count} epochs, {source})"),
        None => format!("{median} ({source})"),
    };
    let text = match epochs.longer_apart().map(display_seconds) {
        Some(apart) => format!("{text}; {apart} from one to the next"),
        None => text,
    };
    match epochs.before_seconds.map(display_seconds) {
        Some(before) => format!("{text}; {before} before the count began again"),
        None => text,
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
        0.0..0.001 if value > 0.0 => format!("{value:.1e}"),
        0.001..0.1 => format!("{value:.4}"),
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
                "memory_bytes" if ratio > 1.0 && compared.is_upper_bound => {
                    ", or less: what processes share counts for each"
                }
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
                is_upper_bound: false,
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
