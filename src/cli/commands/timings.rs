//! `dlrun timings`: what would be recognised in a saved output, by whom and from which lines.

use std::io::ErrorKind;

use serde::Serialize;

use crate::app::error::{Error, Kind};
use crate::app::job::source;
use crate::app::output::Output;
use crate::cli::args::Timings;
use crate::cli::table::Rows;
use crate::foundation::units::{Bytes, display_seconds};
use crate::job::TimingPattern;
use crate::observe::timing::{Evidence, Follower, Stated, StatedEpoch};
use crate::record::{EpochNumbering, Progress, StepTimes};

/// Bytes read at one go.
const PORTION: usize = 1 << 20;

/// Columns of a line that are shown as evidence.
const SHOWN_COLUMNS: usize = 72;

/// Epochs and metrics that are shown.
const SHOWN: usize = 8;

/// What was read of an output.
#[derive(Serialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
pub(crate) struct Reading<'a> {
    #[serde(flatten)]
    stated: Stated,
    counts_samples: bool,
    recogniser: Option<&'a str>,
    restarts: u32,
    step_times: Option<StepTimes>,
    clock_epochs: Vec<StatedEpoch>,
    /// The last announced epoch, if its figures came but not its end; `duration_s` up to the last line.
    unfinished_epoch: Option<StatedEpoch>,
    evidence: &'a [Evidence],
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
    let mut follower = follower.of_saved();
    let hint = "name the file that holds the output";
    let (mut from, shown) = source::open_input(&args.file, hint)?;
    let mut buffer = vec![0; PORTION];
    let (mut bytes, mut lines) = (0, 0);
    loop {
        let count = match from.read(&mut buffer) {
            Ok(0) => break,
            Ok(count) => count,
            Err(error) if error.kind() == ErrorKind::Interrupted => continue,
            Err(error) => return Err(source::cannot_read(shown, &error)),
        };
        follower.feed(&buffer[..count], None);
        bytes += count as u64;
        lines += buffer[..count]
            .iter()
            .filter(|byte| **byte == b'\n')
            .count() as u64;
    }
    follower.finish(None);
    let progress = follower.progress();
    let clocked = progress.epochs.iter().map(|epoch| StatedEpoch {
        epoch: epoch.epoch,
        duration_s: epoch.clock_seconds,
    });
    let reading = Reading {
        stated: Stated::from(&progress),
        counts_samples: progress.counts_samples,
        recogniser: progress.recogniser.as_deref(),
        restarts: progress.restarts,
        step_times: progress.step_times,
        clock_epochs: clocked.filter(|epoch| epoch.duration_s.is_some()).collect(),
        unfinished_epoch: follower.unfinished(),
        evidence: follower.evidence(),
        bytes,
        lines,
    };
    output.result(&reading, &to_text(&progress, &reading, &shown))
}

/// The patterns of the command line or of a job file.
fn pattern(args: &Timings) -> Result<Option<TimingPattern>, Error> {
    if let Some(file) = &args.job {
        let spec = source::Source::read(file)?.spec()?;
        return Ok(spec.timing.map(|timing| timing.value));
    }
    let asked = args.epoch.is_some() || args.step.is_some();
    Ok(asked.then(|| TimingPattern {
        epoch: args.epoch.clone(),
        step: args.step.clone(),
    }))
}

fn to_text(progress: &Progress, reading: &Reading<'_>, shown: &str) -> String {
    let size = format!("{} lines, {}", reading.lines, Bytes(reading.bytes));
    let Some(recogniser) = reading.recogniser else {
        return format!(
            "{shown}: nothing of a training was recognised ({size})\n\n\
             Write what to look for as `[timing] epoch` in the job file, or try it here:\n  \
             dlrun timings --epoch '^pass (?<epoch>\\d+) took (?<seconds>[0-9.]+)' {shown}\n\
             Or let the training report it: docs/events.md\n"
        );
    };
    let mut rows = Rows::default();
    let counted = match progress.epoch_numbering {
        Some(EpochNumbering::ZeroBased) => ", counted from 0",
        Some(EpochNumbering::OneBased) => ", counted from 1",
        Some(EpochNumbering::Unnumbered) | None => "",
    };
    let epochs = progress.epochs_text(progress.epochs_announced);
    rows.add("epochs", epochs + counted);
    let timed = progress.epochs.iter().filter_map(|epoch| {
        let seconds = display_seconds(epoch.seconds()?);
        Some(format!("{}: {seconds}", epoch.epoch))
    });
    rows.add_list("epoch times", &timed.take(SHOWN).collect::<Vec<_>>(), ", ");
    let unfinished = reading.unfinished_epoch.as_ref().map(|last| {
        let time = last.duration_s.map(|s| format!(" {} so far;", display_seconds(s)));
        let time = time.unwrap_or_default();
        let epoch = last.epoch;
        format!("{epoch}:{time} no line says that it ended (it counts in a run that ends with exit code 0)")
    });
    rows.add_known("last epoch", unfinished);
    rows.add_known("last step", progress.last_step_text());
    rows.add_known("step time", progress.step_seconds.map(display_seconds));
    let rate = progress.throughput.as_ref();
    rows.add_known(
        "throughput",
        rate.map(|rate| format!("{} {} ({})", rate.value, rate.unit, rate.scope.as_str())),
    );
    rows.add_known("training", progress.run_seconds.map(display_seconds));
    let metrics = progress.last_metrics.iter().take(SHOWN);
    let metrics = metrics.map(|(name, value)| format!("{name} {value}"));
    rows.add_list("metrics", &metrics.collect::<Vec<_>>(), ", ");
    for known in reading
        .evidence
        .iter()
        .filter(|known| known.recogniser == recogniser)
    {
        let text: String = known.first.text.chars().take(SHOWN_COLUMNS).collect();
        rows.add(
            known.says,
            format!(
                "{} x, first in line {}: {text}",
                known.lines, known.first.line
            ),
        );
    }
    format!("{shown}: {recogniser} ({size})\n\n{}", rows.into_text())
}
