//! `dlrun list` of a user with many large arrays.

use std::error::Error;
use std::fmt::Write as _;
use std::fs;
use std::time::{SystemTime, UNIX_EPOCH};

use dlrun::job::ArraySpec;

use crate::Effort;
use crate::list::{Stands, listed, run_record, write_attempt};
use crate::report::Row;
use crate::site::Site;

const ARRAYS: u32 = 100;
const ELEMENTS: u32 = 100;
/// Elements below are over and forgotten by the controller; those below the next run, the others wait.
const OVER: u32 = 50;
const RUNNING: u32 = 75;
const MINUTE_MS: u64 = 60_000;

/// Lists arrays of which each has elements that are over, that run and that wait.
pub(crate) fn rows(effort: Effort) -> Result<Vec<Row>, Box<dyn Error>> {
    let site = Site::new()?;
    let queue = make_arrays(&site)?;
    listed(
        &site,
        "arrays",
        &format!("{ARRAYS} live arrays of {ELEMENTS} elements"),
        &queue,
        effort,
    )
}

/// Writes the arrays as their submissions and elements would have; returns what the queue says of them.
fn make_arrays(site: &Site) -> Result<String, Box<dyn Error>> {
    let now_ms = u64::try_from(SystemTime::now().duration_since(UNIX_EPOCH)?.as_millis())?;
    let mut queue = String::new();
    let runs = site.state_dir().join("runs");
    for number in 0..ARRAYS {
        let submitted_at_ms = now_ms - u64::from(ARRAYS - number) * MINUTE_MS;
        let mut record = run_record(number, submitted_at_ms, site.path(""));
        record.array = Some(ArraySpec::parse(&format!("0-{}", ELEMENTS - 1))?);
        let dir = runs.join(record.run_id.as_str());
        fs::create_dir_all(&dir)?;
        fs::write(dir.join("run.json"), serde_json::to_vec_pretty(&record)?)?;
        let seconds = submitted_at_ms / 1000;
        let job = record.job_id.as_ref().map_or("", |job| &job.0);
        for element in 0..RUNNING {
            let stands = if element < OVER {
                Stands::Over
            } else {
                Stands::Running
            };
            write_attempt(&dir.join(format!("{element}.0")), &record, stands)?;
            if stands == Stands::Running {
                writeln!(
                    queue,
                    "{job}_{element}|RUNNING|{seconds}|{}|N/A|n1|None",
                    seconds + 30
                )?;
            }
        }
        let waiting = format!("{job}_[{RUNNING}-{}]", ELEMENTS - 1);
        writeln!(queue, "{waiting}|PENDING|{seconds}|N/A|N/A||Resources")?;
    }
    Ok(queue)
}
