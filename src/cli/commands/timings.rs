//! `dlrun timings`: what would be recognised in a saved output, by whom and from which lines.

use std::io::{ErrorKind, Read};
use std::path::Path;

use serde_json::{Value, json};

use crate::app::error::{Error, Kind};
use crate::app::job::source::{self, Source};
use crate::app::output::Output;
use crate::app::progress::Display;
use crate::cli::args::Timings;
use crate::cli::table::{rendered, table};
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
            .hinted("docs/job-file.md tells the groups of `[timing]`")
    })?;
    let is_stdin = args.file == Path::new("-");
    let shown = if is_stdin {
        "standard input".into()
    } else {
        args.file.to_string_lossy()
    };
    let from: Box<dyn Read> = if is_stdin {
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
        let source = Source::read(file)?;
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
    let failed = |why: String| Error::new(Kind::Missing, format!("cannot read `{shown}`: {why}"));
    let file = source::open(path).map_err(|error| match error.kind() {
        ErrorKind::PermissionDenied => Error::new(
            Kind::NotPermitted,
            format!("cannot read `{shown}`: {error}"),
        ),
        _ => failed(error.to_string()),
    })?;
    if file.metadata().is_ok_and(|facts| facts.is_dir()) {
        return Err(
            failed("it is a directory".to_owned()).hinted("name the file that holds the output")
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
    let (mut bytes, mut lines) = (0_u64, 0_u64);
    loop {
        let count = match from.read(&mut buffer) {
            Ok(0) => break,
            Ok(count) => count,
            Err(error) if error.kind() == std::io::ErrorKind::Interrupted => continue,
            Err(error) => {
                return Err(Error::new(
                    Kind::Missing,
                    format!("cannot read `{shown}` to its end: {error}"),
                ));
            }
        };
        follower.feed(&buffer[..count], None);
        bytes += count as u64;
        lines += buffer[..count]
            .iter()
            .filter(|byte| **byte == b'\n')
            .count() as u64;
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
    let Reading {
        progress,
        evidence,
        bytes,
        lines,
    } = reading;
    let size = format!("{lines} lines, {}", Bytes(*bytes));
    let Some(recogniser) = &progress.recogniser else {
        return format!(
            "{shown}: nothing of a training was recognised ({size})\n\n\
             Write what to look for as `[timing] epoch` in the job file, or try it here:\n  \
             dlrun timings --epoch '^pass (?<epoch>\\d+) took (?<seconds>[0-9.]+)' {shown}\n\
             Or let the training tell by itself: docs/events.md\n"
        );
    };
    let mut text = format!("{shown}: {recogniser} ({size})\n\n");
    let mut facts = table();
    for (name, value) in rows(progress) {
        facts.add_row([name.to_owned(), value]);
    }
    text.push_str(&rendered(facts));
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
    for known in evidence
        .iter()
        .filter(|known| known.recogniser == recogniser)
    {
        let (number, line) = &known.first;
        let more = if known.lines > 1 {
            format!("; {} lines, the last is {}", known.lines, known.last.0)
        } else {
            String::new()
        };
        let line: String = line.chars().take(SHOWN_COLUMNS).collect();
        text.push_str(&format!(
            "  line {number}: {} ({}{more})\n      {line}\n",
            known.kind, known.recogniser
        ));
    }
    text
}

fn rows(progress: &Progress) -> Vec<(&'static str, String)> {
    let mut rows = Vec::new();
    let counted = match progress.epoch_numbering {
        Some(EpochNumbering::ZeroBased) => ", counted from 0",
        Some(EpochNumbering::OneBased) => ", counted from 1",
        Some(EpochNumbering::Unnumbered) | None => "",
    };
    rows.push((
        "epochs",
        progress.epochs_text(progress.epochs_announced) + counted,
    ));
    if let Some(mark) = progress.last_step {
        let epoch = mark
            .epoch
            .map(|epoch| format!("epoch {epoch}, "))
            .unwrap_or_default();
        let step = mark
            .step
            .map_or_else(|| "?".to_owned(), |step| step.to_string());
        let of = mark.of.map(|of| format!(" of {of}")).unwrap_or_default();
        let unit = if progress.counts_samples {
            " samples"
        } else {
            ""
        };
        rows.push(("last step", format!("{epoch}{step}{of}{unit}")));
    }
    rows.extend(
        progress
            .step_seconds
            .map(|seconds| ("step time", step_text(seconds))),
    );
    if let Some(rate) = &progress.throughput {
        let scope = match rate.scope {
            Scope::Global => "",
            Scope::PerDevice => " on each device",
            Scope::Unknown => ", of all or of one device",
        };
        rows.push(("throughput", format!("{} {}{scope}", rate.value, rate.unit)));
    }
    rows.extend(
        progress
            .run_seconds
            .map(|seconds| ("training", display_seconds(seconds))),
    );
    let metrics: Vec<String> = progress
        .last_metrics
        .iter()
        .take(SHOWN_METRICS)
        .map(|(name, value)| format!("{name} {value}"))
        .collect();
    if !metrics.is_empty() {
        rows.push(("metrics", metrics.join(", ")));
    }
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

/// One of the times of an epoch.
type Seconds = fn(&Epoch) -> Option<f64>;

/// The epochs as a table: what was stated, and what the times of the lines say, where there are any.
fn epochs(progress: &Progress) -> String {
    let mut shown = table();
    let sources: [(&str, Seconds); 2] = [
        ("stated", |epoch| epoch.printed_seconds),
        ("by line times", |epoch| epoch.clock_seconds),
    ];
    let is_known = |of: &Seconds| progress.epochs.iter().any(|epoch| of(epoch).is_some());
    let sources: Vec<_> = sources.into_iter().filter(|(_, of)| is_known(of)).collect();
    shown.set_header(std::iter::once("epoch").chain(sources.iter().map(|(name, _)| *name)));
    let count = progress.epochs.len();
    let seconds = |seconds: Option<f64>| seconds.map_or_else(|| "-".to_owned(), display_seconds);
    for (place, epoch) in progress.epochs.iter().enumerate() {
        if count > SHOWN_EPOCHS && (SHOWN_EPOCHS / 2..count - SHOWN_EPOCHS / 2).contains(&place) {
            if place == SHOWN_EPOCHS / 2 {
                shown.add_row([format!("({} more)", count - SHOWN_EPOCHS / 2 * 2)]);
            }
            continue;
        }
        let times = sources.iter().map(|(_, of)| seconds(of(epoch)));
        shown.add_row(std::iter::once(epoch.epoch.to_string()).chain(times));
    }
    rendered(shown)
}
