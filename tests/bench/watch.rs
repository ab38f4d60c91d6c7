//! What watching costs the training: the same work with and without dlrun around it.

use std::error::Error;
use std::fs::{self, File};
use std::path::Path;
use std::process::Command;
use std::time::Instant;

use serde_json::Value;

use crate::dlrund::Dlrund;
use crate::measure::{Ran, median, median_with_bounds, number, quiet, run};
use crate::report::Row;
use crate::site::Site;
use crate::{DLRUN, Effort, busy};

/// A pair of runs: what the training said, and what the whole command took.
struct Pair {
    bare: (busy::Took, Ran),
    watched: (busy::Took, Ran),
}

/// Where the rows stand, what watching may cost, and who reads.
struct Kind<'a> {
    name: &'static str,
    budget: f64,
    daemon: Option<&'a Dlrund>,
}

/// A training of one thread and one of two.
pub(crate) fn rows(effort: Effort) -> Result<Vec<Row>, Box<dyn Error>> {
    let kind = Kind {
        name: "watch",
        budget: 0.5,
        daemon: None,
    };
    of_kind(effort, &kind)
}

/// The same while the node daemon reads in the watcher's place.
pub(crate) fn rows_with_daemon(effort: Effort) -> Result<Vec<Row>, Box<dyn Error>> {
    let site = Site::new()?;
    let daemon = Dlrund::start(site.path("node"), "[gpu]\nenabled = \"off\"")?;
    let before = daemon.process.cpu_ms()?;
    let begun = Instant::now();
    let mut rows = of_kind(
        effort,
        &Kind {
            name: "clients",
            budget: 0.1,
            daemon: Some(&daemon),
        },
    )?;
    let share = (daemon.process.cpu_ms()? - before) / begun.elapsed().as_secs_f64() / 10.0;
    rows.push(
        Row::figure(
            "clients",
            "short trainings, CPU of dlrund",
            share,
            "% of a CPU",
        )
        .detailed("registrations and ends included; half of the time there was no run"),
    );
    Ok(rows)
}

fn of_kind(effort: Effort, kind: &Kind<'_>) -> Result<Vec<Row>, Box<dyn Error>> {
    let seconds = if effort.long { 4.0 } else { 2.0 };
    let steps = busy::steps_of(seconds).to_string();
    let mut rows = Vec::new();
    for (threads, what) in [("1", "one thread"), ("2", "two threads")] {
        rows.extend(compared(kind, threads, &steps, what, effort.of(10, 30))?);
    }
    Ok(rows)
}

fn compared(
    kind: &Kind<'_>,
    threads: &str,
    steps: &str,
    what: &str,
    count: usize,
) -> Result<Vec<Row>, Box<dyn Error>> {
    let site = Site::new()?;
    let submitted = site.submitted()?;
    let mut pairs = Vec::new();
    for attempt in 0..count {
        let run_bare = || measured(&site, bare(&site), &[threads, steps]);
        let run_watched = || {
            measured(
                &site,
                watched(&site, &submitted, attempt, kind.daemon)?,
                &[threads, steps],
            )
        };
        // A B, B A, A B, ...: what drifts hits both alike.
        pairs.push(if attempt % 2 == 0 {
            let bare = run_bare()?;
            Pair {
                bare,
                watched: run_watched()?,
            }
        } else {
            let watched = run_watched()?;
            Pair {
                bare: run_bare()?,
                watched,
            }
        });
    }
    let percent = |of: fn(&busy::Took) -> f64| {
        let (low, middle, high) = median_with_bounds(
            pairs
                .iter()
                .map(|pair| (of(&pair.watched.0) / of(&pair.bare.0) - 1.0) * 100.0)
                .collect(),
        );
        (middle, low, high)
    };
    let row = |what: String, (middle, low, high): (f64, f64, f64)| {
        Row::budget(kind.name, &what, middle, "% slower", kind.budget).within(low, high)
    };
    let bare_wall = median(pairs.iter().map(|pair| pair.bare.0.wall).collect());
    let detail = format!(
        "{count} pairs of {bare_wall:.2} s; median and 95 % bounds of the paired differences"
    );
    let whole = |ran: &Ran| ran.wall.as_secs_f64() * 1e3;
    let around = |(took, ran): &(busy::Took, Ran)| whole(ran) - took.wall * 1e3;
    let around = median(
        pairs
            .iter()
            .map(|pair| around(&pair.watched) - around(&pair.bare))
            .collect(),
    );
    Ok(vec![
        row(
            format!("{what}, wall time of the training"),
            percent(|took| took.wall),
        )
        .detailed(detail),
        row(
            format!("{what}, CPU time of the training"),
            percent(|took| took.cpu),
        ),
        Row::figure(
            kind.name,
            &format!("{what}, start and end of watching"),
            around,
            "ms",
        ),
        watcher_row(kind, &submitted, what)?,
    ])
}

fn bare(site: &Site) -> Command {
    site.in_place(quiet(&own_path()), &[])
}

/// `dlrun exec` as the batch script calls it.
fn watched(
    site: &Site,
    submitted: &Value,
    attempt: usize,
    daemon: Option<&Dlrund>,
) -> Result<Command, Box<dyn Error>> {
    let mut plan: Value =
        serde_json::from_slice(&fs::read(records(submitted)?.join("plan.json"))?)?;
    plan["daemon_socket"] = daemon
        .map(|daemon| daemon.socket().display().to_string())
        .into();
    let mut command = site.in_place(quiet(DLRUN), &["exec", "--", &own_path()]);
    command
        .env("DLRUN_PLAN", plan.to_string())
        .env("DLRUN_STATE_DIR", site.state_dir());
    command
        .env("DLRUN_RUN_ID", text(&submitted["run_id"])?)
        .env("DLRUN_JOB_ID", "4711");
    command.env("DLRUN_ATTEMPT", attempt.to_string());
    Ok(command)
}

fn measured(
    site: &Site,
    mut command: Command,
    arguments: &[&str],
) -> Result<(busy::Took, Ran), Box<dyn Error>> {
    let (result, output) = (site.path("took"), site.path("output"));
    command
        .arg(busy::VERB)
        .args(arguments)
        .arg(&result)
        .stdout(File::create(output)?);
    let ran = run(&mut command)?;
    Ok((busy::read(&result)?, ran))
}

/// The watcher's own CPU time, as it recorded it.
fn watcher_row(kind: &Kind<'_>, submitted: &Value, what: &str) -> Result<Row, Box<dyn Error>> {
    let mut shares = Vec::new();
    for attempt in fs::read_dir(records(submitted)?)?
        .flatten()
        .filter(|entry| entry.path().is_dir())
    {
        for node in fs::read_dir(attempt.path())?.flatten() {
            let record: Value =
                serde_json::from_slice(&fs::read(node.path().join("record.json"))?)?;
            let events = record["events"].as_array().into_iter().flatten();
            if kind.daemon.is_some() && !events.into_iter().any(|event| event["kind"] == "adopted")
            {
                return Err("the daemon did not read".into());
            }
            let wall = record["usage"]["wall_seconds"]
                .as_f64()
                .ok_or("the record has no wall time")?;
            let cpu = record["watcher"]["cpu_us"]
                .as_u64()
                .ok_or("the record has no CPU time")?;
            shares.push(number(usize::try_from(cpu)?) / 1e4 / wall);
        }
    }
    let detail = format!(
        "{} records; start and end of the watcher included",
        shares.len()
    );
    Ok(Row::figure(
        kind.name,
        &format!("{what}, CPU of the watcher"),
        median(shares),
        "% of a CPU",
    )
    .detailed(detail))
}

fn records(submitted: &Value) -> Result<&Path, Box<dyn Error>> {
    Ok(Path::new(text(&submitted["records"])?))
}

fn text(value: &Value) -> Result<&str, Box<dyn Error>> {
    value
        .as_str()
        .ok_or_else(|| "`dlrun submit --json` said something else".into())
}

fn own_path() -> String {
    std::env::current_exe().map_or_else(
        |_| String::new(),
        |path| path.to_string_lossy().into_owned(),
    )
}
