//! `dlrun show`: of a run that took a month, and of one of 10,000.

use std::error::Error;
use std::fs;
use std::path::{Path, PathBuf};

use dlrun::job::SchedulerKind;
use dlrun::record::{GpuReading, ProcessReading, Sample, encode_segments};

use crate::Effort;
use crate::list::{Stands, run_record, write_attempt};
use crate::measure::{floor, in_turns, median_ms, number, run as run_once};
use crate::report::Row;
use crate::site::Site;

const RUNS: u32 = 10_000;
const DAYS: u64 = 30;
/// Samples of a segment: five minutes at one a second.
const SEGMENT: u64 = 300;
const BEGIN_MS: u64 = 1_763_650_000_000;

/// The month without GPUs, and in a long measurement with eight.
pub(crate) fn rows(effort: Effort) -> Result<Vec<Row>, Box<dyn Error>> {
    let mut rows = one_of_many(effort)?;
    rows.push(day(effort)?);
    rows.extend(month(effort, 0, "without GPUs")?);
    if effort.long {
        rows.extend(month(effort, 8, "with 8 GPUs")?);
    }
    Ok(rows)
}

/// A run of two hours with 8 GPUs among 10,000 that are over, with all that `show` derives from its samples.
fn one_of_many(effort: Effort) -> Result<Vec<Row>, Box<dyn Error>> {
    let site = Site::new()?;
    let runs = site.state_dir().join("runs");
    let mut shown = None;
    for number in 0..RUNS {
        let submitted_at_ms = BEGIN_MS - 60_000 * u64::from(RUNS - number);
        let mut record = run_record(number, submitted_at_ms, site.path(""));
        record.scheduler = SchedulerKind::Local;
        let dir = runs.join(record.run_id.as_str());
        fs::create_dir_all(&dir)?;
        fs::write(dir.join("run.json"), serde_json::to_vec_pretty(&record)?)?;
        write_attempt(&dir.join("0.0"), &record, Stands::Over)?;
        shown = Some((record.run_id.to_string(), dir));
    }
    let Some((run, dir)) = shown else {
        return Ok(Vec::new());
    };
    let bytes = write_series(&dir.join("0.0/n1.0"), 8, 7200)?;
    let _ = run_once(&mut site.dlrun(&["list"]))?;
    let show = ["show", run.as_str()];
    let taken = in_turns(effort.of(20, 100), &mut [floor(), site.dlrun(&show)])?;
    let [least, ours] = [0, 1].map(|which| median_ms(&taken[which]));
    let detail = format!(
        "`sh -c true` {least:.1} ms, {:.0} kB of segments",
        number(bytes) / 1e3
    );
    let what = format!("dlrun show, 2 h with 8 GPUs, one of {RUNS} runs");
    Ok(vec![
        Row::budget("show", &what, ours, "ms", 30.0).detailed(detail),
    ])
}

/// A run of a day with 8 GPUs, alone.
fn day(effort: Effort) -> Result<Row, Box<dyn Error>> {
    let (site, dir) = one_run()?;
    let bytes = write_series(&dir.join("0.0/n1.0"), 8, 86_400)?;
    let taken = in_turns(effort.of(10, 50), &mut [floor(), site.dlrun(&["show"])])?;
    let [least, ours] = [0, 1].map(|which| median_ms(&taken[which]));
    let megabytes = number(bytes) / 1e6;
    let detail = format!("`sh -c true` {least:.1} ms, {megabytes:.1} MB of segments");
    let row = Row::budget(
        "show",
        "dlrun show, a day at 1 Hz with 8 GPUs",
        ours,
        "ms",
        200.0,
    );
    Ok(row.detailed(detail))
}

/// A site with one run that is over, and its directory.
fn one_run() -> Result<(Site, PathBuf), Box<dyn Error>> {
    let site = Site::new()?;
    let record = run_record(0, BEGIN_MS, site.path(""));
    let dir = site.state_dir().join("runs").join(record.run_id.as_str());
    fs::create_dir_all(&dir)?;
    fs::write(dir.join("run.json"), serde_json::to_vec_pretty(&record)?)?;
    write_attempt(&dir.join("0.0"), &record, Stands::Over)?;
    Ok((site, dir))
}

fn month(effort: Effort, gpus: u64, what: &str) -> Result<Vec<Row>, Box<dyn Error>> {
    let (site, dir) = one_run()?;
    let bytes = write_series(&dir.join("0.0/n1.0"), gpus, DAYS * 86_400)?;
    let numbers = site.dlrun(&["report", "@1", "--json"]);
    let taken = in_turns(effort.of(3, 10), &mut [numbers, site.dlrun(&["show"])])?;
    let rss = taken
        .iter()
        .flatten()
        .map(|ran| ran.rss_bytes)
        .max()
        .unwrap_or(0);
    let row = |name: &str, which: usize| {
        Row::budget(
            "show",
            &format!("{name}, {what}"),
            median_ms(&taken[which]) / 1e3,
            "s",
            2.0,
        )
    };
    let size = format!("{:.0} MB of segments", number(bytes) / 1e6);
    Ok(vec![
        row(&format!("series of {DAYS} days at 1 Hz in 300 points"), 0).detailed(size),
        row("the same as curves", 1),
        Row::budget(
            "show",
            &format!("peak RSS, {what}"),
            number(usize::try_from(rss)?) / 1e6,
            "MB",
            200.0,
        ),
    ])
}

/// Writes the segments; returns their bytes.
fn write_series(dir: &Path, gpus: u64, seconds: u64) -> Result<usize, Box<dyn Error>> {
    let mut total = 0;
    for segment in 0..seconds / SEGMENT {
        let samples: Vec<Sample> = (segment * SEGMENT..(segment + 1) * SEGMENT)
            .map(|tick| sample(tick, gpus))
            .collect();
        for bytes in encode_segments(&samples) {
            fs::write(dir.join(format!("series-{segment:04}.seg")), &bytes)?;
            total += bytes.len();
        }
    }
    Ok(total)
}

/// Noise that is the same each time.
fn noise(tick: u64, limit: u64) -> u64 {
    (tick.wrapping_mul(0x9e37_79b9_7f4a_7c15) >> 33) % limit
}

fn sample(tick: u64, gpus: u64) -> Sample {
    let counter = |rate: u64| Some(tick * rate + noise(tick, rate));
    let mut sample = Sample {
        at_ms: BEGIN_MS + 1000 * tick + noise(tick, 5),
        ..Sample::default()
    };
    sample.set_values(std::array::from_fn(|column| {
        counter(100 * (column as u64 + 1))
    }));
    sample.mem_rss_bytes = Some((6 << 30) + 4096 * noise(tick, 6000));
    let is_costly = tick.is_multiple_of(5);
    if !is_costly {
        (
            sample.io_read_bytes,
            sample.io_write_bytes,
            sample.mem_shmem_bytes,
        ) = (None, None, None);
    }
    let process = |number: u32| ProcessReading {
        pid: 1000 + number,
        start_time_ticks: 7,
        name: "python3".into(),
        cpu_us: counter(900_000),
        mem_rss_bytes: Some(4096 * noise(tick, 900)),
        io_read_bytes: counter(5000),
        io_write_bytes: Some(0),
    };
    sample.commands = (0..17).filter(|_| is_costly).map(process).collect();
    let gpu = |number: u64| {
        let mut gpu = GpuReading::of(format!("GPU-{number}").into());
        gpu.set_values(std::array::from_fn(|column| {
            counter(10 * (column as u64 + number + 1))
        }));
        gpu.utilisation_percent = Some(90 + noise(tick + number, 10));
        gpu
    };
    sample.gpus = (0..gpus).map(gpu).collect();
    sample
}
