//! `dlrun timings`: what would be recognised in a saved output, by whom and from which lines.

use std::io::{ErrorKind, Read};
use std::path::Path;

use serde_json::{Value, json};

use crate::app::error::{Error, Kind};
use crate::app::job::source;
use crate::app::output::Output;
use crate::app::progress::Display;
use crate::cli::args::Timings;
use crate::cli::table::{Rows, or_dash, rendered, table};
use crate::foundation::units::{Bytes, display_seconds};
use crate::job::TimingPattern;
use crate::observe::timing::{Evidence, Follower, Stated};
use crate::record::{Epoch, EpochNumbering, Progress, Scope};

/// Bytes read at one go.
const PORTION: usize = 1 << 20;

/// Columns of a line that are shown as evidence.
const SHOWN_COLUMNS: usize = 72;

/// Epochs that are shown one by one; of more the first and the last.
const SHOWN_EPOCHS: usize = 12;

/// Metrics that are shown.
const SHOWN_METRICS: usize = 8;

/// What was read of an output.
struct Reading {
    progress: Progress,
    evidence: Vec<Evidence>,
    bytes: u64,
    lines: u64,
}

/// Runs the verb.
pub(crate) fn run(output: Output, args: &Timings) -> Result<u8, Error> {
    let pattern = pattern(args)?;
    let follower = Follower::new(pattern.as_ref()).map_err(|why| {
        Error::new(Kind::Usage, why.to_string())
            .hinted("docs/job-file.md lists the groups of `[timing]`")
    })?;
    let mut shown = args.file.to_string_lossy();
    let from: Box<dyn Read> = if args.file == Path::new("-") {
        shown = "standard input".into();
        Box::new(std::io::stdin().lock())
    } else {
        Box::new(open(&args.file, &shown)?)
    };
    let reading = read(output, from, follower.of_saved(), &shown)?;
    output.result(&to_json(&reading), &to_text(&reading, &shown))
}

/// The patterns of the command line or of a job file.
fn pattern(args: &Timings) -> Result<Option<TimingPattern>, Error> {
    if let Some(file) = &args.job {
        let source = source::Source::read(file)?;
        let spec = source.spec()?;
        return Ok(spec.timing.map(|timing| timing.value));
    }
    let asked = args.epoch.is_some() || args.step.is_some();
    Ok(asked.then(|| TimingPattern {
        epoch: args.epoch.clone(),
        step: args.step.clone(),
    }))
}

fn open(path: &Path, shown: &str) -> Result<std::fs::File, Error> {
    let file = source::open(path).map_err(|error| {
        let kind = match error.kind() {
            ErrorKind::PermissionDenied => Kind::NotPermitted,
            _ => Kind::Missing,
        };
        Error::new(kind, format!("cannot read `{shown}`: {error}"))
    })?;
    if file.metadata().is_ok_and(|facts| facts.is_dir()) {
        let message = format!("cannot read `{shown}`: it is a directory");
        return Err(
            Error::new(Kind::Missing, message).hinted("name the file that holds the output")
        );
    }
    Ok(file)
}

fn read(
    output: Output,
    mut from: impl Read,
    mut follower: Follower,
    shown: &str,
) -> Result<Reading, Error> {
    let mut display = Display::timed(output);
    let mut buffer = vec![0; PORTION];
    let (mut bytes, mut lines) = (0, 0);
    loop {
        let count = match from.read(&mut buffer) {
            Ok(0) => break,
            Ok(count) => count,
            Err(error) if error.kind() == ErrorKind::Interrupted => continue,
            Err(error) => {
                let message = format!("cannot read `{shown}` to its end: {error}");
                return Err(Error::new(Kind::Missing, message));
            }
        };
        let read = &buffer[..count];
        follower.feed(read, None);
        bytes += count as u64;
        lines += read.iter().filter(|byte| **byte == b'\n').count() as u64;
        if display.is_lively() {
            display.now(&format!("read {}", Bytes(bytes)), false);
        }
    }
    follower.finish(None);
    Ok(Reading {
        progress: follower.progress(),
        evidence: follower.evidence().to_vec(),
        bytes,
        lines,
    })
}

fn to_json(reading: &Reading) -> Value {
    let Reading {
        progress,
        evidence,
        bytes,
        lines,
    } = reading;
    let mut value = serde_json::to_value(Stated::from(progress)).unwrap_or_default();
    let place = |(line, text): &(u64, String)| json!({ "line": line, "text": text });
    let from = |known: &Evidence| {
        json!({
            "recogniser": known.recogniser,
            "says": known.kind,
            "lines": known.lines,
            "first": place(&known.first),
            "last": place(&known.last),
        })
    };
    let clock =
        |epoch: &Epoch| Some(json!({ "epoch": epoch.epoch, "duration_s": epoch.clock_seconds? }));
    value["counts_samples"] = json!(progress.counts_samples);
    value["recogniser"] = json!(progress.recogniser);
    value["restarts"] = json!(progress.restarts);
    value["step_times"] = json!(progress.step_times);
    value["clock_epochs"] = progress.epochs.iter().filter_map(clock).collect();
    value["evidence"] = evidence.iter().map(from).collect();
    value["bytes"] = json!(bytes);
    value["lines"] = json!(lines);
    value
}

fn to_text(reading: &Reading, shown: &str) -> String {
    let progress = &reading.progress;
    let size = format!("{} lines, {}", reading.lines, Bytes(reading.bytes));
    let Some(recogniser) = &progress.recogniser else {
        return format!(
            "{shown}: nothing of a training was recognised ({size})\n\n\
             Write what to look for as `[timing] epoch` in the job file, or try it here:\n  \
             dlrun timings --epoch '^pass (?<epoch>\\d+) took (?<seconds>[0-9.]+)' {shown}\n\
             Or let the training report it: docs/events.md\n"
        );
    };
    let facts = rows(progress).into_text();
    let mut text = format!("{shown}: {recogniser} ({size})\n\n{facts}");
    if progress
        .epochs
        .iter()
        .any(|epoch| epoch.seconds().is_some())
    {
        text.push_str(&format!("\n{}", epochs(progress)));
    } else if !progress.epochs.is_empty() {
        text.push_str(
            "\nno times of epochs in the text: of a run that dlrun watches they are by its clock\n",
        );
    }
    text.push_str("\nrecognised from\n");
    let evidence = reading.evidence.iter();
    for known in evidence.filter(|known| known.recogniser == recogniser) {
        let (number, line) = &known.first;
        let more = match known.lines {
            0 | 1 => String::new(),
            lines => format!("; {lines} lines, the last is {}", known.last.0),
        };
        let line: String = line.chars().take(SHOWN_COLUMNS).collect();
        let (kind, by) = (known.kind, &known.recogniser);
        text.push_str(&format!(
            "  line {number}: {kind} ({by}{more})\n      {line}\n"
        ));
    }
    text
}

fn rows(progress: &Progress) -> Rows {
    let mut rows = Rows::default();
    let counted = match progress.epoch_numbering {
        Some(EpochNumbering::ZeroBased) => ", counted from 0",
        Some(EpochNumbering::OneBased) => ", counted from 1",
        Some(EpochNumbering::Unnumbered) | None => "",
    };
    let epochs = progress.epochs_text(progress.epochs_announced);
    rows.add("epochs", epochs + counted);
    if let Some(mark) = progress.last_step {
        let epoch = mark.epoch.map(|epoch| format!("epoch {epoch}, "));
        let step = mark.step.map_or("?".to_owned(), |step| step.to_string());
        let of = mark.of.map(|of| format!(" of {of}"));
        let unit = match progress.counts_samples {
            true => " samples",
            false => "",
        };
        let (epoch, of) = (epoch.unwrap_or_default(), of.unwrap_or_default());
        rows.add("last step", format!("{epoch}{step}{of}{unit}"));
    }
    rows.add_known("step time", progress.step_seconds.map(step_text));
    if let Some(rate) = &progress.throughput {
        let scope = match rate.scope {
            Scope::Global => "",
            Scope::PerDevice => " on each device",
            Scope::Unknown => ", of all or of one device",
        };
        rows.add("throughput", format!("{} {}{scope}", rate.value, rate.unit));
    }
    rows.add_known("training", progress.run_seconds.map(display_seconds));
    let metrics = progress.last_metrics.iter().take(SHOWN_METRICS);
    let metrics = metrics.map(|(name, value)| format!("{name} {value}"));
    rows.add_list("metrics", &metrics.collect::<Vec<_>>(), ", ");
    rows
}

/// The time of a step with as many digits as say something.
fn step_text(seconds: f64) -> String {
    match seconds {
        ..1e-3 => format!("{:.3} us", seconds * 1e6),
        ..1.0 => format!("{:.3} ms", seconds * 1e3),
        _ => format!("{seconds:.3} s"),
    }
}

/// One of the times of an epoch, and its head.
type Source = (&'static str, fn(&Epoch) -> Option<f64>);

/// The epochs as a table: what was stated, and what the times of the lines say, where there are any.
fn epochs(progress: &Progress) -> String {
    let (epochs, mut shown) = (&progress.epochs, table());
    let mut sources: Vec<Source> = vec![
        ("stated", |epoch| epoch.printed_seconds),
        ("by line times", |epoch| epoch.clock_seconds),
    ];
    sources.retain(|(_, seconds)| epochs.iter().any(|epoch| seconds(epoch).is_some()));
    shown.set_header(std::iter::once("epoch").chain(sources.iter().map(|(name, _)| *name)));
    let half = SHOWN_EPOCHS / 2;
    let left_out = epochs.len().saturating_sub(SHOWN_EPOCHS);
    for (place, epoch) in epochs.iter().enumerate() {
        if left_out > 0 && place == half {
            shown.add_row([format!("({left_out} more)")]);
        }
        if (half..half + left_out).contains(&place) {
            continue;
        }
        let times = sources.iter();
        let times = times.map(|(_, seconds)| or_dash(seconds(epoch).map(display_seconds)));
        shown.add_row(std::iter::once(epoch.epoch.to_string()).chain(times));
    }
    rendered(shown)
}
