//! What `dlrun exec` costs a command in a container, beyond the runtime with the same flags.

use std::error::Error;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use serde_json::Value;

use crate::measure::{median, quiet, run};
use crate::report::Row;
use crate::site::Site;
use crate::{DLRUN, Effort};

const NAME: &str = "container";
const RUNTIMES: [&str; 2] = ["/usr/bin/apptainer", "/usr/bin/singularity"];
/// What `tests/apptainer up` makes.
const IMAGES: [(&str, &str); 2] = [
    ("sandbox", "/var/tmp/dlrun-apptainer/base"),
    ("SIF", "/var/tmp/dlrun-apptainer/base.sif"),
];

/// A program in a directory and in a SIF.
pub(crate) fn rows(effort: Effort) -> Result<Vec<Row>, Box<dyn Error>> {
    let runtime = RUNTIMES
        .map(Path::new)
        .into_iter()
        .find(|path| path.exists());
    let mut rows = Vec::new();
    for (kind, image) in IMAGES {
        let what = format!("a program in a {kind}, beyond the runtime");
        match runtime.filter(|_| Path::new(image).exists()) {
            Some(runtime) => rows.extend(of_image(&what, runtime, image, effort)?),
            None => {
                let why = "no runtime, or no image (tests/apptainer up)".to_owned();
                rows.push(Row::not_measured(NAME, &what, why));
            }
        }
    }
    Ok(rows)
}

fn of_image(
    what: &str,
    runtime: &Path,
    image: &str,
    effort: Effort,
) -> Result<Vec<Row>, Box<dyn Error>> {
    let site = Site::new()?;
    let job = format!("[run]\ncommand = [\"date\"]\n[image]\npath = \"{image}\"\n");
    fs::write(site.path("train.toml"), job)?;
    let submitted = site.submitted()?;
    let records = PathBuf::from(submitted["records"].as_str().ok_or("no records")?);
    let plan = fs::read_to_string(records.join("plan.json"))?;
    let run_id = submitted["run_id"].as_str().ok_or("no run id")?.to_owned();
    let runtime = runtime.to_string_lossy().into_owned();
    let watched = |attempt: usize| {
        let words = [
            "exec",
            "--in-image",
            "3",
            "--",
            &runtime,
            "exec",
            image,
            PROGRAM[0],
            PROGRAM[1],
        ];
        let mut command = site.in_place(quiet(DLRUN), &words);
        command
            .env("DLRUN_PLAN", &plan)
            .env("DLRUN_STATE_DIR", site.state_dir())
            .env("DLRUN_RUN_ID", &run_id);
        command
            .env("DLRUN_ATTEMPT", attempt.to_string())
            .env("DLRUN_JOB_ID", "4711");
        command
    };
    // The first tells the flags, and leaves what is known of the node.
    run(&mut watched(0))?;
    let record = fs::read(attempt_record(&records)?)?;
    let record: Value = serde_json::from_slice(&record)?;
    let flags = record["container"]["words"]
        .as_array()
        .ok_or("no words in the record")?;
    let flags: Vec<&str> = flags.iter().filter_map(Value::as_str).collect();
    let bare = || -> Command {
        let mut command = site.in_place(quiet(&runtime), &flags);
        command.args(PROGRAM);
        command
    };
    let count = effort.of(25, 100);
    let mut pairs = Vec::new();
    for attempt in 1..=count {
        // A B, B A, A B, ...: what drifts hits both alike.
        let pair = if attempt % 2 == 0 {
            let bare = started(&site, bare())?;
            (bare, started(&site, watched(attempt))?)
        } else {
            let ours = started(&site, watched(attempt))?;
            (started(&site, bare())?, ours)
        };
        pairs.push(pair);
    }
    let beyond = |of: fn(&Took) -> f64| {
        median(
            pairs
                .iter()
                .map(|(bare, ours)| of(ours) - of(bare))
                .collect(),
        )
    };
    let middle = |of: fn(&(Took, Took)) -> f64| median(pairs.iter().map(of).collect());
    let (bare, ours) = (middle(|pair| pair.0.start), middle(|pair| pair.1.start));
    let detail =
        format!("{count} pairs; {ours:.1} ms, the runtime with the same flags {bare:.1} ms");
    Ok(vec![
        Row::budget(
            NAME,
            &format!("{what}, until it runs"),
            beyond(|took| took.start),
            "ms",
            15.0,
        )
        .detailed(detail),
        Row::figure(
            NAME,
            &format!("{what}, with the end of watching"),
            beyond(|took| took.whole),
            "ms",
        )
        .detailed("at the end the record and its samples reach the disk".to_owned()),
    ])
}

/// Says when it runs, in nanoseconds since the epoch.
const PROGRAM: [&str; 2] = ["date", "+%s%N"];

/// Milliseconds until the program said that it runs, and until all was over.
struct Took {
    start: f64,
    whole: f64,
}

fn started(site: &Site, mut command: Command) -> Result<Took, Box<dyn Error>> {
    let file = site.path("said");
    command.stdout(fs::File::create(&file)?);
    let begun = SystemTime::now();
    let ran = run(&mut command)?;
    let said: u64 = fs::read_to_string(&file)?.trim().parse()?;
    let start = UNIX_EPOCH + Duration::from_nanos(said);
    Ok(Took {
        start: start.duration_since(begun)?.as_secs_f64() * 1e3,
        whole: ran.wall.as_secs_f64() * 1e3,
    })
}

/// The one record of the first attempt.
fn attempt_record(records: &Path) -> Result<PathBuf, Box<dyn Error>> {
    let nodes = fs::read_dir(records.join("0.0"))?.flatten();
    let found = nodes
        .map(|node| node.path().join("record.json"))
        .find(|path| path.exists());
    found.ok_or_else(|| "no record was written".into())
}
