//! What the node daemon costs: CPU time, memory, disk, and the time of those who register.

use std::error::Error;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::Duration;

use dlrun::record::Sample;
use dlrun::record::store::NodeStore;

use crate::Effort;
use crate::dlrund::{Dlrund, Resident, Took};
use crate::enclosure::Enclosure;
use crate::family::{Family, Mode, gpu_uuids, registrations};
use crate::floor;
use crate::measure::{median, median_with_bounds, mib, number, quiet};
use crate::nvml::FakeNvml;
use crate::report::Row;
use crate::site::Site;

/// Processes of the run that is watched.
const PROCESSES: usize = 64;

/// CPU time, of a run with a cgroup of its own and of one without.
pub(crate) fn cpu(effort: Effort) -> Result<Vec<Row>, Box<dyn Error>> {
    let mut rows = Vec::new();
    for (kind, name) in [
        ("in its cgroup", "slurm_budgets"),
        ("as a process tree", "budgets"),
    ] {
        let measured = match enclosure(name) {
            Ok(enclosure) => cpu_rows(effort, kind, Some(&enclosure)),
            Err(_) if kind == "as a process tree" => cpu_rows(effort, kind, None),
            Err(error) => Err(error),
        };
        rows.extend(measured.unwrap_or_else(|error| {
            vec![Row::not_measured(
                "daemon",
                &format!("{PROCESSES} processes {kind}"),
                error.to_string(),
            )]
        }));
    }
    Ok(rows)
}

/// A cgroup with the name of a job's, or one that dlrund does not take for one.
fn enclosure(name: &str) -> Result<Enclosure, Box<dyn Error>> {
    Enclosure::make(&format!("{name}{}/uid_0/job_4711", std::process::id()))
}

// ---------------------------------------------------------------------------------------------------- CPU time

/// The daemon twice, the raw reads and pidstat, in turns over the same run.
fn cpu_rows(
    effort: Effort,
    kind: &str,
    enclosure: Option<&Enclosure>,
) -> Result<Vec<Row>, Box<dyn Error>> {
    let site = Site::new()?;
    let daemon = |name: &str, process_ms: u32| {
        let settings = format!("[sampling]\nprocess_interval_ms = {process_ms}");
        Dlrund::start(site.path(name), &settings)
    };
    let (each, totals) = (daemon("each", 1000)?, daemon("totals", 5000)?);
    let sockets = [each.socket(), totals.socket()];
    let enter = |pid| enclosure.map_or(Ok(()), |enclosure| enclosure.enter(pid));
    let mut family = Family::start(
        PROCESSES,
        &Mode::Stay,
        &sockets.each_ref().map(PathBuf::as_path),
        enter,
    )?;
    family.line()?;
    let children = PathBuf::from(format!("/proc/{0}/task/{0}/children", family.command));
    let (list, files) =
        enclosure.map_or((children.clone(), Vec::new()), |it| (it.list(), it.files()));
    let mut subjects = vec![
        each.process,
        totals.process,
        Resident::start(&mut floor::command(&list, &files)?)?,
    ];
    let pidstat = pidstat(family.command, &children)?
        .and_then(|mut command| Resident::start(&mut command).ok());
    subjects.extend(pidstat);
    let taken = windows(&mut subjects, effort)?;
    Ok(cpu_figures(kind, files.len(), &taken))
}

/// `pidstat` over the run, where it is installed.
fn pidstat(command: u32, children: &Path) -> Result<Option<Command>, Box<dyn Error>> {
    let others = std::fs::read_to_string(children)?;
    let pids: Vec<&str> = others.split_ascii_whitespace().collect();
    let mut pidstat = quiet("pidstat");
    pidstat.args([
        "-h",
        "-u",
        "-r",
        "-d",
        "-p",
        &format!("{command},{}", pids.join(",")),
        "1",
    ]);
    let is_there = quiet("pidstat").arg("-V").status().is_ok();
    Ok(is_there.then_some(pidstat))
}

/// Lets each run alone for a while, again and again, forwards and backwards.
fn windows(subjects: &mut [Resident], effort: Effort) -> Result<Vec<Vec<Took>>, Box<dyn Error>> {
    let window = Duration::from_secs(if effort.long { 10 } else { 5 });
    for subject in subjects.iter() {
        subject.hold()?;
    }
    let mut taken: Vec<Vec<Took>> = vec![Vec::new(); subjects.len()];
    for round in 0..effort.of(6, 12) {
        let mut order: Vec<usize> = (0..subjects.len()).collect();
        if round % 2 == 1 {
            order.reverse();
        }
        for place in order {
            taken[place].push(subjects[place].window(Duration::from_secs(2), window)?);
        }
    }
    Ok(taken)
}

fn cpu_figures(kind: &str, files: usize, taken: &[Vec<Took>]) -> Vec<Row> {
    let per_second = |place: usize, of: fn(&Took) -> f64| -> Vec<f64> {
        taken
            .get(place)
            .iter()
            .flat_map(|taken| taken.iter())
            .map(|took| of(took) / took.seconds)
            .collect()
    };
    let [each, totals, floor, pidstat] =
        [0, 1, 2, 3].map(|place| per_second(place, |took| took.cpu_ms));
    let budget = |what: &str, values: Vec<f64>, unit, budget| {
        let (low, middle, high) = median_with_bounds(values);
        Row::budget(
            "daemon",
            &format!("{PROCESSES} processes {kind}: {what}"),
            middle,
            unit,
            budget,
        )
        .within(low, high)
    };
    let against = |others: &[f64]| -> Vec<f64> {
        each.iter()
            .zip(others)
            .map(|(one, other)| one / other)
            .collect()
    };
    let peer = match pidstat.is_empty() {
        true => Row::not_measured(
            "daemon",
            &format!("{PROCESSES} processes {kind}: against pidstat"),
            "there is no pidstat",
        ),
        false => budget("against pidstat", against(&pidstat), "x", 0.4).detailed(format!(
            "`pidstat -h -u -r -d -p ... 1` took {:.2} ms",
            median(pidstat)
        )),
    };
    let windows = format!(
        "{} windows in turns, each process at each sample, 1 a second",
        each.len()
    );
    let raw = format!(
        "the raw reads took {:.2} ms: {files} files of the cgroup, the list, {PROCESSES} stat, all but the list kept open",
        median(floor.clone())
    );
    vec![
        budget("CPU of a sample", each.clone(), "ms", 1.5).detailed(windows),
        budget("against raw reads", against(&floor), "x", 3.0).detailed(raw),
        peer,
        budget(
            "times that it wakes for a sample",
            per_second(0, |took| took.waits),
            "",
            3.0,
        ),
        Row::figure(
            "daemon",
            &format!("{PROCESSES} processes {kind}: CPU of a sample, processes every 5 s"),
            median(totals),
            "ms",
        ),
    ]
}

// ---------------------------------------------------------------------------------------------------- memory and disk

/// What a daemon that ran for a while leaves to be read.
struct Lasted {
    /// Resident memory after a tenth of the time and at the end.
    rss_bytes: [u64; 2],
    written_bytes: u64,
    used_bytes: u64,
    samples: Vec<Sample>,
}

/// A hundred milliseconds between two samples: memory, disk and punctuality.
pub(crate) fn lasting(effort: Effort) -> Result<Vec<Row>, Box<dyn Error>> {
    let ticks = effort.of(300, 10_000);
    let gpus: String = gpu_uuids()
        .iter()
        .zip(0..)
        .map(|(uuid, minor)| gpu(uuid, minor))
        .collect();
    let fake = FakeNvml::new(&gpus);
    let with_gpus = format!(
        "[gpu]\ninterval_ms = 100\nlibrary = {:?}",
        fake.library().display().to_string()
    );
    let plain = lasted(ticks, PROCESSES, "[gpu]\nenabled = \"off\"")?;
    let with_gpus = lasted(ticks, PROCESSES, &with_gpus)?;
    let small = lasted(ticks, 1, "[gpu]\nenabled = \"off\"")?;
    let mut rows = Vec::new();
    for (what, lasted, budget) in [
        ("resident memory", &plain, 8.0),
        ("resident memory with 8 GPUs", &with_gpus, 15.0),
    ] {
        let [early, late] = lasted.rss_bytes.map(mib);
        rows.push(
            Row::budget(
                "lasting",
                &format!("{PROCESSES} processes: {what}"),
                late,
                "MiB",
                budget,
            )
            .detailed(format!("after {ticks} samples")),
        );
        rows.push(
            Row::budget(
                "lasting",
                &format!("{PROCESSES} processes: growth of {what}"),
                late - early,
                "MiB",
                0.5,
            )
            .detailed(format!("from sample {} to {ticks}", ticks / 5)),
        );
    }
    let late = lateness_ms(&plain.samples);
    rows.push(
        Row::budget(
            "lasting",
            "lateness of samples, 99th percentile",
            late,
            "ms",
            5.0,
        )
        .detailed(format!(
            "{} samples, 100 ms apart; others kept the CPUs busy as said below",
            plain.samples.len()
        )),
    );
    for (what, lasted) in [
        ("64 processes", &plain),
        ("64 processes and 8 GPUs", &with_gpus),
        ("one small process", &small),
    ] {
        let values = number(lasted.samples.iter().map(values_of).sum());
        let of_value = |bytes: u64| usize::try_from(bytes).map_or(f64::NAN, number) / values;
        let detail = format!(
            "{values} values in {} samples, the record included",
            lasted.samples.len()
        );
        rows.push(
            Row::figure(
                "lasting",
                &format!("{what}: written to disk"),
                of_value(lasted.written_bytes),
                "bytes a value",
            )
            .detailed(detail),
        );
        rows.push(Row::figure(
            "lasting",
            &format!("{what}: on disk"),
            of_value(lasted.used_bytes),
            "bytes a value",
        ));
    }
    Ok(rows)
}

/// Runs a daemon over a run of `processes` for so many samples.
fn lasted(ticks: usize, processes: usize, settings: &str) -> Result<Lasted, Box<dyn Error>> {
    let site = Site::new()?;
    let settings = format!("[sampling]\ninterval_ms = 100\nprocess_interval_ms = 500\n{settings}");
    let daemon = Dlrund::start(site.path("node"), &settings)?;
    let database = daemon.database();
    let mut family = Family::start(processes, &Mode::Stay, &[&daemon.socket()], |_| Ok(()))?;
    family.line()?;
    let before = daemon.process.written_bytes()?;
    let pause = Duration::from_millis(100) * u32::try_from(ticks / 5)?;
    std::thread::sleep(pause);
    let early = daemon.process.rss_bytes()?;
    std::thread::sleep(pause * 4);
    let rss_bytes = [early, daemon.process.rss_bytes()?];
    let written_bytes = daemon.process.written_bytes()? - before;
    daemon.stop()?;
    let store = NodeStore::open(&database)?;
    let live = store.live()?;
    let node = live.first().ok_or("the daemon has no run")?.node;
    Ok(Lasted {
        rss_bytes,
        written_bytes,
        used_bytes: store.used_bytes()?,
        samples: store.read_samples(node, 0)?,
    })
}

fn gpu(uuid: &str, minor: u32) -> String {
    format!(
        "gpu {uuid}\nname NVIDIA H100 80GB HBM3\nminor {minor}\npci 00000000:0{minor}:00.0\nmig 0\npower_limit 700000
         clock_max 1980\nmemory 85899345920 3221225472 536870912\nutilisation 55 20\npower 301500\nenergy 700
         temperature 61\nclocks 1380 1215\nthrottle 4\nfield 197 1000\nfield 198 2000\n"
    )
}

fn values_of(sample: &Sample) -> usize {
    let own = sample.values().iter().flatten().count();
    let gpus: usize = sample
        .gpus
        .iter()
        .map(|gpu| gpu.values().iter().flatten().count())
        .sum();
    let processes: usize = sample
        .commands
        .iter()
        .map(|process| process.values().iter().flatten().count())
        .sum();
    own + gpus + processes
}

/// How far samples lie from their rhythm, which is that of the median.
fn lateness_ms(samples: &[Sample]) -> f64 {
    let phases: Vec<f64> = samples
        .iter()
        .map(|sample| f64::from(u32::try_from(sample.at_ms % 100).unwrap_or(0)))
        .collect();
    let middle = median(phases.clone());
    // Around the clock of 100 ms.
    let mut off: Vec<f64> = phases
        .iter()
        .map(|phase| (phase - middle + 150.0).rem_euclid(100.0) - 50.0)
        .map(f64::abs)
        .collect();
    off.sort_by(f64::total_cmp);
    off.get(off.len() * 99 / 100).copied().unwrap_or(f64::NAN)
}

// ---------------------------------------------------------------------------------------------------- registration

/// Those whose runs are watched: how long they wait, and what it takes of a training.
pub(crate) fn clients(effort: Effort) -> Result<Vec<Row>, Box<dyn Error>> {
    let mut rows = registration_rows(effort)?;
    rows.extend(crate::watch::rows_with_daemon(effort)?);
    Ok(rows)
}

fn registration_rows(effort: Effort) -> Result<Vec<Row>, Box<dyn Error>> {
    let site = Site::new()?;
    let daemon = Dlrund::start(site.path("node"), "[limits]\nruns_per_user = 4096")?;
    let (singly, crowd) = registrations(&daemon.socket(), effort.of(50, 500), 100)?;
    let (low, middle, high) = median_with_bounds(singly);
    let last = crowd.iter().copied().fold(0.0, f64::max);
    Ok(vec![
        Row::figure(
            "clients",
            "from connecting to being registered",
            middle,
            "ms",
        )
        .detailed(format!(
            "95 % bounds {low:.2} .. {high:.2}; it is on disk then"
        )),
        Row::figure(
            "clients",
            "100 that register at once: the last is registered after",
            last,
            "ms",
        )
        .detailed(format!("the median after {:.1} ms", median(crowd))),
    ])
}
