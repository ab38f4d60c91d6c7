//! What `dlrun exec` costs a command in a container, beyond the runtime with the same flags.

use std::error::Error;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use serde_json::Value;

use crate::measure::{in_turns, median, median_ms, quiet};
use crate::report::Row;
use crate::site::Site;
use crate::{DLRUN, Effort};

const NAME: &str = "container";
const RUNTIMES: [&str; 2] = ["/usr/bin/apptainer", "/usr/bin/singularity"];
/// What `tests/apptainer up` makes.
const IMAGES: [(&str, &str); 2] =
    [("sandbox", "/var/tmp/dlrun-apptainer/base"), ("SIF", "/var/tmp/dlrun-apptainer/base.sif")];

/// `true` in a directory and in a SIF.
pub(crate) fn rows(effort: Effort) -> Result<Vec<Row>, Box<dyn Error>> {
    let runtime = RUNTIMES.map(Path::new).into_iter().find(|path| path.exists());
    IMAGES
        .into_iter()
        .map(|(kind, image)| {
            let what = format!("`true` in a {kind} through dlrun exec");
            match runtime.filter(|_| Path::new(image).exists()) {
                Some(runtime) => row(&what, runtime, image, effort),
                None => Ok(Row::not_measured(
                    NAME,
                    &what,
                    "no runtime, or no image (tests/apptainer up)".to_owned(),
                )),
            }
        })
        .collect()
}

fn row(what: &str, runtime: &Path, image: &str, effort: Effort) -> Result<Row, Box<dyn Error>> {
    let site = Site::new()?;
    let job = format!("[run]\ncommand = [\"true\"]\n[image]\npath = \"{image}\"\n");
    fs::write(site.path("train.toml"), job)?;
    let submitted = site.submitted()?;
    let records = PathBuf::from(submitted["records"].as_str().ok_or("no records")?);
    let plan = fs::read_to_string(records.join("plan.json"))?;
    let run_id = submitted["run_id"].as_str().ok_or("no run id")?.to_owned();
    let runtime = runtime.to_string_lossy().into_owned();
    let watched = |attempt: usize| {
        let words = ["exec", "--in-image", "3", "--", &runtime, "exec", image, "true"];
        let mut command = site.in_place(quiet(DLRUN), &words);
        command
            .env("DLRUN_PLAN", &plan)
            .env("DLRUN_STATE_DIR", site.state_dir())
            .env("DLRUN_RUN_ID", &run_id);
        command.env("DLRUN_ATTEMPT", attempt.to_string()).env("DLRUN_JOB_ID", "4711");
        command
    };
    // The first tells the flags, and leaves what is known of the node.
    crate::measure::run(&mut watched(0))?;
    let record = fs::read(attempt_record(&records)?)?;
    let record: Value = serde_json::from_slice(&record)?;
    let flags = record["container"]["words"].as_array().ok_or("no words in the record")?;
    let flags: Vec<&str> = flags.iter().filter_map(Value::as_str).collect();
    let bare = || -> Command {
        let mut command = site.in_place(quiet(&runtime), &flags);
        command.arg("true");
        command
    };
    let count = effort.of(25, 100);
    let taken = in_turns(count, &mut [bare(), watched(1)])?;
    let pairs = taken[0].iter().zip(&taken[1]);
    let beyond =
        median(pairs.map(|(bare, ours)| (ours.wall.as_secs_f64() - bare.wall.as_secs_f64()) * 1e3).collect());
    let (bare, ours) = (median_ms(&taken[0]), median_ms(&taken[1]));
    let detail = format!("{count} pairs; {ours:.1} ms, the runtime with the same flags {bare:.1} ms");
    Ok(Row::budget(NAME, &format!("{what}, beyond the runtime"), beyond, "ms", 15.0).detailed(detail))
}

/// The one record of the first attempt.
fn attempt_record(records: &Path) -> Result<PathBuf, Box<dyn Error>> {
    let nodes = fs::read_dir(records.join("0.0"))?.flatten();
    let found = nodes.map(|node| node.path().join("record.json")).find(|path| path.exists());
    found.ok_or_else(|| "no record was written".into())
}
