//! `dlrun report` of a training that took a day.

use std::error::Error;
use std::fs;

use dlrun::record::{COLUMNS, GPU_COLUMNS, PROCESS_COLUMNS};

use crate::Effort;
use crate::measure::{floor, in_turns, median_ms, number};
use crate::report::Row;
use crate::site::Site;
use crate::trained::Trained;

const GPUS: u64 = 8;
/// As many as make 350 series.
const PROCESSES: u32 = 36;

/// A day at one sample a second: 25 columns of the run, 23 of each of 8 GPUs, four of each of 36 processes.
pub(crate) fn rows(effort: Effort) -> Result<Vec<Row>, Box<dyn Error>> {
    let site = Site::new()?;
    let day = Trained {
        gpus: GPUS,
        cpus: 64,
        processes: PROCESSES,
        epochs: 90,
        epoch_seconds: 949.0,
        ..Trained::usual(1, "day")
    };
    let _ = day.write(&site.state_dir())?;
    site.command_script("squeue", "true")?;
    let page = site.path("page.html").to_string_lossy().into_owned();
    let report = site.dlrun(&["report", "day", "--output", &page]);
    let taken = in_turns(effort.of(5, 20), &mut [floor(), report])?;
    let [least, html] = [0, 1].map(|which| median_ms(&taken[which]));
    let rss = taken[1].iter().map(|ran| ran.rss_bytes).max().unwrap_or(0);
    let bytes = number(usize::try_from(fs::metadata(&page)?.len())?);
    let series = COLUMNS.len()
        + usize::try_from(GPUS)? * GPU_COLUMNS.len()
        + usize::try_from(PROCESSES)? * PROCESS_COLUMNS.len();
    let what = format!("a day at 1 Hz of {series} series");
    let detail = format!("{:.0} times `sh -c true` ({least:.2} ms)", html / least);
    Ok(vec![
        Row::budget("report", &format!("{what}, as HTML"), html / 1e3, "s", 3.0).detailed(detail),
        Row::budget(
            "report",
            "the same, size of the page",
            bytes / 1e6,
            "MB",
            2.0,
        ),
        Row::figure(
            "report",
            "the same, peak RSS",
            number(usize::try_from(rss)?) / 1e6,
            "MB",
        ),
    ])
}
