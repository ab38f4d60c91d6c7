//! Short commands: what a user waits for.

use std::collections::BTreeMap;
use std::error::Error;
use std::fs::{self, File};
use std::io::Write;
use std::time::Instant;

use crate::Effort;
use crate::measure::{floor, in_turns, median, median_ms, number, quiet};
use crate::report::Row;
use crate::site::Site;

const FLOORS: &str = "x `sh -c true`";

/// `dlrun --help`.
pub(crate) fn help(effort: Effort) -> Result<Vec<Row>, Box<dyn Error>> {
    Ok(vec![times_floor(
        "help",
        "dlrun --help",
        &["--help"],
        2.0,
        effort,
    )?])
}

/// `dlrun render` of a job on two nodes, for each dialect.
pub(crate) fn render(effort: Effort) -> Result<Vec<Row>, Box<dyn Error>> {
    let mut rows = vec![times_floor(
        "render",
        "dlrun render, two nodes",
        &["render", "train.toml"],
        3.0,
        effort,
    )?];
    for (kind, version) in [
        ("torque", "Version: 6.1.3"),
        ("openpbs", "pbs_version = 23.06.06"),
    ] {
        rows.push(render_pbs(kind, version, effort)?);
    }
    Ok(rows)
}

/// Whose `qsub` is there is asked of it: beyond that question.
fn render_pbs(kind: &str, version: &str, effort: Effort) -> Result<Row, Box<dyn Error>> {
    let site = Site::new()?;
    site.command_script("qsub", &format!("echo {version}"))?;
    let ours = site.dlrun(&["render", "--scheduler", kind, "train.toml"]);
    let mut commands = [floor(), site.pretended("qsub", &["--version"]), ours];
    let taken = in_turns(effort.of(100, 1000), &mut commands)?;
    let [least, stub, ours] = [0, 1, 2].map(|which| median_ms(&taken[which]));
    let what = format!("dlrun render --scheduler {kind}, beyond qsub --version");
    let detail = format!("{ours:.2} ms, the stub qsub {stub:.2} ms, `sh -c true` {least:.2} ms");
    Ok(Row::budget("render", &what, (ours - stub) / least, FLOORS, 3.0).detailed(detail))
}

fn times_floor(
    name: &'static str,
    what: &str,
    arguments: &[&str],
    budget: f64,
    effort: Effort,
) -> Result<Row, Box<dyn Error>> {
    let site = Site::new()?;
    let taken = in_turns(effort.of(100, 1000), &mut [floor(), site.dlrun(arguments)])?;
    let (least, ours) = (median_ms(&taken[0]), median_ms(&taken[1]));
    Ok(Row::budget(name, what, ours / least, FLOORS, budget)
        .detailed(format!("{ours:.2} ms against {least:.2} ms")))
}

/// The whole script of a job on this machine, whose command does nothing.
pub(crate) fn exec(effort: Effort) -> Result<Vec<Row>, Box<dyn Error>> {
    let site = Site::new()?;
    fs::write(site.path("least.toml"), "[run]\ncommand = [\"true\"]\n")?;
    let mut render = site.dlrun(&["render", "--scheduler", "local", "least.toml"]);
    let script = render.stdout(File::create(site.path("job.sh"))?).status()?;
    if !script.success() {
        return Err("the script was not rendered".into());
    }
    let bash = |words: &[&str]| site.in_place(quiet("bash"), words);
    let mut commands = [bash(&["-c", "true"]), bash(&["job.sh"])];
    let taken = in_turns(effort.of(50, 500), &mut commands)?;
    let (least, ours) = (median_ms(&taken[0]), median_ms(&taken[1]));
    let what = "a local job's script around `true`, beyond `bash -c true`";
    Ok(vec![
        Row::budget("exec", what, ours - least, "ms", 30.0)
            .detailed(format!("{ours:.1} ms against {least:.1} ms")),
    ])
}

/// `dlrun submit` with an `sbatch` that only prints an id. What the site has was asked by the round that does not count.
pub(crate) fn submit(effort: Effort) -> Result<Vec<Row>, Box<dyn Error>> {
    let site = Site::new()?;
    let mut rows = submit_rows(&site, "train.toml", "dlrun submit", effort)?;
    let what = "dlrun submit, Python environment";
    match site.python_job() {
        Ok(job) => rows.extend(submit_rows(&site, job, what, effort)?),
        Err(why) => rows.push(Row::not_measured("submit", what, why.to_string())),
    }
    rows.extend(asking_rows(&site, effort)?);
    Ok(rows)
}

/// A submission that asks for queues and nodes too, as the first of each hour does.
fn asking_rows(site: &Site, effort: Effort) -> Result<Vec<Row>, Box<dyn Error>> {
    let what = "dlrun submit, the site asked";
    let asking = ("DLRUN_SCHEDULER__CACHE_MINUTES", "0");
    let mut ours = site.dlrun(&["submit", "train.toml"]);
    ours.env(asking.0, asking.1);
    let (sbatch, scontrol) = (
        site.pretended("sbatch", &[]),
        site.pretended("scontrol", &["show", "config"]),
    );
    let taken = in_turns(effort.of(50, 500), &mut [floor(), sbatch, scontrol, ours])?;
    let [least, sbatch, scontrol, ours] = [0, 1, 2, 3].map(|which| median_ms(&taken[which]));
    let time = (ours - sbatch - 4.0 * scontrol) / least;
    let detail = format!("{ours:.2} ms, one question {scontrol:.2} ms, `sh -c true` {least:.2} ms");
    let calls = match file_calls(site, &["submit", "train.toml"], Some(asking)) {
        Ok(calls) => Row::figure(
            "submit",
            &format!("{what}, file-system calls"),
            total(&calls),
            "calls",
        ),
        Err(why) => Row::not_measured("submit", what, why.to_string()),
    };
    let what = format!("{what}, beyond sbatch and four questions");
    Ok(vec![
        Row::figure("submit", &what, time, FLOORS).detailed(detail),
        calls,
    ])
}

fn submit_rows(
    site: &Site,
    job: &str,
    what: &str,
    effort: Effort,
) -> Result<Vec<Row>, Box<dyn Error>> {
    let arguments = ["submit", job];
    let mut commands = [
        floor(),
        site.pretended("sbatch", &[]),
        site.dlrun(&arguments),
    ];
    let taken = in_turns(effort.of(100, 500), &mut commands)?;
    let [least, stub, ours] = [0, 1, 2].map(|which| median_ms(&taken[which]));
    let rss = taken[2].iter().map(|ran| ran.rss_bytes).max().unwrap_or(0);
    let figure = (ours - stub) / least;
    let time = Row::budget(
        "submit",
        &format!("{what}, beyond sbatch"),
        figure,
        FLOORS,
        8.0,
    );
    let disk = disk_ms(site, effort)?;
    let mib = number(usize::try_from(rss)?) / 1e6;
    Ok(vec![
        time.detailed(format!(
            "{ours:.2} ms, the stub sbatch {stub:.2} ms, `sh -c true` {least:.2} ms"
        )),
        Row::figure(
            "submit",
            &format!("{what}, of that the disk"),
            disk / least,
            FLOORS,
        )
        .detailed(format!(
            "{disk:.2} ms for two files that last through a power failure"
        )),
        calls_row(site, &arguments, &format!("{what}, file-system calls")),
        Row::budget("submit", &format!("{what}, peak RSS"), mib, "MB", 12.0),
    ])
}

/// What this disk takes for what each submission writes to last: `run.json`, before and after `sbatch`.
fn disk_ms(site: &Site, effort: Effort) -> Result<f64, Box<dyn Error>> {
    let dir = site.path("disk");
    fs::create_dir_all(&dir)?;
    let (part, file) = (dir.join("part"), dir.join("file"));
    let mut taken = Vec::new();
    for _ in 0..effort.of(50, 500) {
        let begun = Instant::now();
        for _ in 0..2 {
            let mut written = File::create_new(&part)?;
            written.write_all(&[b' '; 500])?;
            written.sync_all()?;
            fs::rename(&part, &file)?;
            File::open(&dir)?.sync_all()?;
        }
        taken.push(begun.elapsed().as_secs_f64() * 1e3);
    }
    Ok(median(taken))
}

fn calls_row(site: &Site, arguments: &[&str], what: &str) -> Row {
    match file_calls(site, arguments, None) {
        Ok(calls) => {
            let named: Vec<String> = calls
                .iter()
                .map(|(name, count)| format!("{count} {name}"))
                .collect();
            Row::budget("submit", what, total(&calls), "calls", 120.0).detailed(named.join(", "))
        }
        Err(why) => Row::not_measured("submit", what, why.to_string()),
    }
}

fn total(calls: &BTreeMap<String, usize>) -> f64 {
    number(calls.values().sum())
}

/// Counts the system calls of the whole process tree that name a file, ask for one's metadata or list a directory: what
/// a parallel file system feels.
fn file_calls(
    site: &Site,
    arguments: &[&str],
    variable: Option<(&str, &str)>,
) -> Result<BTreeMap<String, usize>, Box<dyn Error>> {
    let trace = site.path("trace");
    let mut strace = site.in_place(
        quiet("strace"),
        &["-f", "-qq", "-e", "trace=%file,%fstat,getdents64", "-o"],
    );
    strace
        .arg(&trace)
        .arg(crate::DLRUN)
        .args(arguments)
        .envs(variable);
    let status = match strace.status() {
        Err(error) if error.kind() == std::io::ErrorKind::NotFound => {
            return Err("strace is missing".into());
        }
        status => status?,
    };
    if !status.success() {
        return Err("strace does not work here".into());
    }
    let mut calls = BTreeMap::new();
    for line in fs::read_to_string(trace)?.lines() {
        // `4711 openat(...`; a call that was interrupted in the log goes on as `4711 <... openat resumed>`.
        let call = line
            .split_once(' ')
            .and_then(|(_, rest)| rest.trim_start().split_once('('));
        let Some((name, _)) = call.filter(|(name, _)| !name.starts_with(['<', '-', '+'])) else {
            continue;
        };
        if !["execve", "getcwd"].contains(&name) {
            *calls.entry(name.to_owned()).or_default() += 1;
        }
    }
    Ok(calls)
}
