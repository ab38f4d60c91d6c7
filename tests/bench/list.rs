//! `dlrun list` of a user with many runs.

use std::error::Error;
use std::fmt::Write as _;
use std::fs;
use std::path::Path;
use std::time::{SystemTime, UNIX_EPOCH};

use dlrun::job::{JobId, RunId, SchedulerKind, Workload};
use dlrun::record::{
    Epoch, ExitStatus, HostFacts, MeasureKey, NodeRecord, NodeState, Progress, RunRecord, Usage,
    WatcherCost,
};

use crate::Effort;
use crate::measure::{floor, in_turns, median, median_ms, number, run};
use crate::report::Row;
use crate::site::Site;

const LIVE: u32 = 1_000;
const KNOWN: u32 = 10_000;
const MINUTE_MS: u64 = 60_000;

/// Where a run of the imagined user stands.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Stands {
    Pending,
    Running,
    Over,
}

/// Indexes all runs once, then lists the newest again and again.
pub(crate) fn rows(effort: Effort) -> Result<Vec<Row>, Box<dyn Error>> {
    let site = Site::new()?;
    let queue = make_runs(&site)?;
    listed(
        &site,
        "list",
        &format!("{LIVE} live of {} runs", LIVE + KNOWN),
        &queue,
        effort,
    )
}

/// Times `dlrun list` where the controller's answer is `queue`.
pub(crate) fn listed(
    site: &Site,
    name: &'static str,
    what: &str,
    queue: &str,
    effort: Effort,
) -> Result<Vec<Row>, Box<dyn Error>> {
    let answer = site.path("queue");
    fs::write(&answer, queue)?;
    let (asked, history) = (site.path("asked"), site.path("history"));
    site.command_script(
        "squeue",
        &format!("echo >> {}\nexec cat {}", asked.display(), answer.display()),
    )?;
    site.command_script("sacct", &format!("echo >> {}", history.display()))?;
    let arguments = ["list"];
    let first = run(&mut site.dlrun(&arguments))?;
    fs::remove_file(&asked)?;
    let count = effort.of(20, 100);
    let lists = in_turns(count, &mut [site.dlrun(&arguments)])?;
    let questions = number(fs::metadata(&asked)?.len().try_into()?) / number(lists[0].len() + 1);
    let taken = in_turns(
        count,
        &mut [
            floor(),
            site.pretended("squeue", &[]),
            site.dlrun(&arguments),
        ],
    )?;
    let [least, query, ours] = [0, 1, 2].map(|which| median_ms(&taken[which]));
    let beyond = median(
        taken[2]
            .iter()
            .zip(&taken[1])
            .map(|(list, query)| (list.wall.as_secs_f64() - query.wall.as_secs_f64()) * 1e3)
            .collect(),
    );
    let detail = format!(
        "{ours:.1} ms, the stub squeue {query:.2} ms, `sh -c true` {least:.2} ms: {:.1} times as much",
        beyond / least
    );
    let rss = taken[2].iter().map(|ran| ran.rss_bytes).max().unwrap_or(0);
    // Each `sacct` wrote a byte.
    let accounts = fs::metadata(&history).map_or(0, |file| file.len());
    let first_ms = first.wall.as_secs_f64() * 1e3;
    Ok(vec![
        Row::budget(
            name,
            &format!("dlrun list, {what}, beyond the query"),
            beyond,
            "ms",
            50.0,
        )
        .detailed(detail),
        Row::budget(
            name,
            "questions to the controller",
            questions,
            "for each list",
            1.0,
        ),
        Row::budget(
            name,
            "questions to accounting",
            number(accounts.try_into()?),
            "in all",
            0.0,
        ),
        Row::figure(name, "peak RSS", number(usize::try_from(rss)?) / 1e6, "MB"),
        Row::figure(
            name,
            "the first list, which indexes all runs",
            first_ms,
            "ms",
        ),
    ])
}

/// Writes the runs as their submissions and jobs would have; returns what the queue says of those that live.
fn make_runs(site: &Site) -> Result<String, Box<dyn Error>> {
    let now_ms = u64::try_from(SystemTime::now().duration_since(UNIX_EPOCH)?.as_millis())?;
    let mut queue = String::new();
    let runs = site.state_dir().join("runs");
    for number in 0..LIVE + KNOWN {
        // The newest runs live; half of those still wait.
        let stands = match number {
            _ if number < KNOWN => Stands::Over,
            _ if number % 2 == 0 => Stands::Running,
            _ => Stands::Pending,
        };
        let submitted_at_ms = now_ms - u64::from(LIVE + KNOWN - number) * MINUTE_MS;
        let record = run_record(number, submitted_at_ms, site.path(""));
        let dir = runs.join(record.run_id.as_str());
        fs::create_dir_all(&dir)?;
        fs::write(dir.join("run.json"), serde_json::to_vec_pretty(&record)?)?;
        if stands != Stands::Pending {
            write_attempt(&dir.join("0.0"), &record, stands)?;
        }
        let seconds = submitted_at_ms / 1000;
        let job = record.job_id.as_ref().map_or("", |job| &job.0);
        let _ = match stands {
            Stands::Pending => writeln!(queue, "{job}|PENDING|{seconds}|N/A|N/A||Resources"),
            Stands::Running => writeln!(
                queue,
                "{job}|RUNNING|{seconds}|{}|N/A|n1|None",
                seconds + 30
            ),
            Stands::Over => Ok(()),
        };
    }
    Ok(queue)
}

/// The run of a number.
pub(crate) fn run_record(
    number: u32,
    submitted_at_ms: u64,
    workdir: std::path::PathBuf,
) -> RunRecord {
    let mut bits = [0; 10];
    // Spread over all ids, as random ones are.
    bits[..4].copy_from_slice(&number.wrapping_mul(2_654_435_761).to_be_bytes());
    let job = 1_000_000 + number;
    RunRecord {
        format: RunRecord::FORMAT,
        run_id: RunId::from_random(bits),
        name: "resnet50-imagenet".to_owned(),
        submitted_at_ms,
        user: "anna".to_owned(),
        submit_host: "login1".to_owned(),
        scheduler: SchedulerKind::Slurm,
        job_id: Some(JobId(job.to_string())),
        output: Some(format!("{}/resnet50-imagenet-{job}.out", workdir.display())),
        workdir: workdir.to_string_lossy().into_owned(),
        job_file: None,
        nodes: 1,
        array: None,
        parts: Vec::new(),
        framework: dlrun::job::Framework::default(),
        storage: None,
        image: None,
        workload: Workload::default(),
        tasks_per_node: None,
        queue: None,
        identity: None,
        forecast: None,
        dlrun_version: env!("CARGO_PKG_VERSION").to_owned(),
    }
}

/// Writes what the job of a run left.
pub(crate) fn write_attempt(
    dir: &Path,
    record: &RunRecord,
    stands: Stands,
) -> Result<(), Box<dyn Error>> {
    let started_at_ms = record.submitted_at_ms + MINUTE_MS / 2;
    let over = stands == Stands::Over;
    let node = dir.join("n1.0");
    fs::create_dir_all(&node)?;
    fs::write(dir.join("start.json"), mark(started_at_ms, "null"))?;
    if over {
        fs::write(dir.join("end.json"), mark(started_at_ms + MINUTE_MS, "0"))?;
    }
    let (state, ended_at_ms) = if over {
        (NodeState::Ended, Some(started_at_ms + MINUTE_MS))
    } else {
        (NodeState::Running, None)
    };
    let mut measured = node_record(record, state, started_at_ms, ended_at_ms);
    measured.updated_at_ms = started_at_ms + MINUTE_MS;
    measured.progress = twenty_epochs();
    Ok(fs::write(
        node.join("record.json"),
        serde_json::to_vec(&measured)?,
    )?)
}

/// What was measured of a run on its only node: nothing so far.
pub(crate) fn node_record(
    record: &RunRecord,
    state: NodeState,
    started_at_ms: u64,
    ended_at_ms: Option<u64>,
) -> NodeRecord {
    NodeRecord {
        format: NodeRecord::FORMAT,
        last_words: Vec::new(),
        ranks: Vec::new(),
        time_stop: None,
        key: MeasureKey {
            run_id: record.run_id.clone(),
            element: 0,
            attempt: 0,
            node: "n1".to_owned(),
            step: 0,
        },
        job_id: record.job_id.clone(),
        state,
        started_at_ms,
        ended_at_ms,
        updated_at_ms: ended_at_ms.unwrap_or(started_at_ms),
        exit: ended_at_ms.map(|_| ExitStatus::Code(0)),
        output: record.output.clone(),
        host: HostFacts::default(),
        conditions: dlrun::record::Conditions::default(),
        usage: Usage::default(),
        progress: Progress::default(),
        segments: 0,
        gaps: vec![],
        missing: vec![],
        watcher: WatcherCost::default(),
        cgroup: None,
        container: None,
        trial: None,
        gpus: Vec::new(),
        events: Vec::new(),
    }
}

fn mark(at_ms: u64, exit_code: &str) -> String {
    format!(
        "{{\"format\":1,\"at_ms\":{at_ms},\"node\":\"n1\",\"job_id\":\"\",\"exit_code\":{exit_code}}}\n"
    )
}

fn twenty_epochs() -> Progress {
    let mut progress = Progress::default();
    for epoch in 1..=20 {
        let metrics = [("loss".to_owned(), 0.5), ("accuracy".to_owned(), 0.9)].into();
        progress.push_epoch(Epoch {
            epoch,
            printed_seconds: Some(30.0),
            metrics,
            ..Epoch::default()
        });
    }
    progress
}
