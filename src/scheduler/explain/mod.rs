//! What a scheduler printed, read back: saved outputs of `squeue`, `sacct`, `scontrol`, `sinfo`, `qstat`, `pbsnodes` and
//! `seff`, refusals of `sbatch` and `qsub`, and a job's own output.
//!
//! dlrun itself asks in the forms that say most; people have the others, in mails to a help desk and in logs of last week.
//! What a form does not state is `None`.

mod complaint;
mod pasted;
mod pbs;
mod record;
mod slurm;
mod table;
#[cfg(test)]
mod tests;

use serde::Serialize;

use crate::job::JobState;
use crate::record::{CauseKind, Notice, notices};
use crate::scheduler::pbs::ids;

/// The largest text that is read, in bytes.
pub const MAX_BYTES: usize = 64 << 20;

/// A moment as it was printed.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[serde(untagged)]
pub enum Printed {
    /// In Unix seconds.
    Seconds(u64),
    /// In words of the scheduler, in its own time zone.
    Text(String),
}

/// A job as one output shows it.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize)]
pub struct JobSeen {
    /// The scheduler's id; an element of an array as `ID_INDEX` (Slurm) or `ID[INDEX]` (PBS). `None` where the output has
    /// no column of ids.
    pub job_id: Option<String>,
    /// The job's name.
    pub name: Option<String>,
    /// Its state in dlrun's words, and `held` for a job that waits for a person.
    pub state: String,
    /// Where `state` is `unknown`: what it most probably is.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub guess: Option<String>,
    /// Its state in the scheduler's words.
    pub raw_state: String,
    /// Why it waits or ended, in the scheduler's words.
    pub reason: Option<String>,
    /// Its exit code.
    pub exit_code: Option<i64>,
    /// The signal that ended it; 0 where the scheduler says that none did.
    pub signal: Option<i64>,
    /// When it started.
    pub start: Option<Printed>,
    /// When it ended; of a job that runs, when it would have to.
    pub end: Option<Printed>,
    /// How long it has run, in seconds.
    pub elapsed_s: Option<u64>,
    /// How many nodes it has or asks for.
    pub nodes: Option<u64>,
    /// Its nodes, as the scheduler writes them.
    pub node_list: Option<String>,
    /// How many GPUs it has or asks for, over all nodes.
    pub gpus: Option<u64>,
    /// Its time limit, in seconds.
    pub time_limit_s: Option<u64>,
    /// The array that it is an element of.
    pub array_id: Option<String>,
    /// The heterogeneous job that it is a part of, with its offset.
    pub het_id: Option<String>,
    /// How often it was restarted.
    pub restarts: Option<u64>,
    /// Of a job that waits: when the scheduler expects to start it.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub expected_start: Option<Printed>,
    /// Lines on the use of CPUs, memory and GPUs, as `seff` prints them.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub usage: Vec<String>,
}

/// A node as one output shows it.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize)]
pub struct NodeSeen {
    /// Its name.
    pub name: String,
    /// `idle`, `free`, `mixed`, `allocated`, `busy`, `reserved`, `maintenance`, `planned`, `draining`, `drained`, `down`,
    /// `offline`, `unknown`, or the scheduler's word in small letters.
    pub state: String,
    /// The scheduler's words.
    pub raw_state: String,
    /// Its CPUs.
    pub cpus: Option<u64>,
    /// Its GPUs.
    pub gpus_total: Option<u64>,
    /// How many of them jobs have.
    pub gpus_used: Option<u64>,
    /// Why it is as it is.
    pub reason: Option<String>,
}

/// A refusal or a failure.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct RefusalSeen {
    /// What kind: `unknown_job`, `controller_unavailable`, `invalid_partition`, `unknown_queue`, ...
    pub error_class: &'static str,
    /// True where the same may succeed a little later.
    pub transient: bool,
    /// What it means and what to do.
    pub meaning: &'static str,
    /// The line that says it.
    pub words: String,
}

/// An output, read.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize)]
pub struct Seen {
    /// Its form, such as `squeue --json`.
    pub form: &'static str,
    /// `slurm`, `torque`, `openpbs`, or `pbs` where it may be either.
    pub scheduler: &'static str,
    /// The jobs in it, in its order; steps belong to their job.
    pub jobs: Vec<JobSeen>,
    /// The nodes in it.
    pub nodes: Vec<NodeSeen>,
    /// Id and cluster of a job that was taken.
    pub submitted: Option<SubmittedSeen>,
    /// A refusal.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub error: Option<RefusalSeen>,
    /// Further outputs in the same text.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub also: Vec<Self>,
    /// Commands whose output was not recognised, in a text of several.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub unread: Vec<String>,
}

impl Seen {
    fn of(
        form: &'static str,
        scheduler: &'static str,
        jobs: Vec<JobSeen>,
        nodes: Vec<NodeSeen>,
    ) -> Self {
        Self {
            form,
            scheduler,
            jobs,
            nodes,
            ..Self::default()
        }
    }
}

/// A job that was taken.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct SubmittedSeen {
    /// Its id.
    pub job_id: String,
    /// The cluster of a federation.
    pub cluster: Option<String>,
}

/// What a reader knows of a table without a head.
#[derive(Debug, Clone, Copy, Default)]
pub struct Columns<'a> {
    /// Their names, Slurm's or like them.
    pub names: &'a [String],
    /// What separates two; `|` where nothing is said.
    pub separator: Option<&'a str>,
}

/// Reads an output, or several below one another. `None` where none is known.
#[must_use]
pub fn read(text: &str, columns: Columns<'_>) -> Option<Seen> {
    let text = text.trim_start_matches('\u{feff}').replace('\u{a0}', " ");
    let blocks = pasted::blocks(&text);
    let (mut found, mut unread) = (Vec::new(), Vec::new());
    for block in &blocks {
        let asked = block.columns();
        match output(&block.text(), columns, asked.as_deref()) {
            Some(seen) => found.push(seen),
            None if block.is_empty() => {}
            None => unread.extend(block.command.map(str::to_owned)),
        }
    }
    let mut found = found.into_iter();
    let first = found.next()?;
    Some(Seen {
        also: found.collect(),
        unread,
        ..first
    })
}

/// Reads one output. What the command above it asked for counts where the text has no head.
fn output(text: &str, columns: Columns<'_>, asked: Option<&[String]>) -> Option<Seen> {
    let body = text.trim();
    if body.is_empty() {
        return None;
    }
    // Warnings may come before a JSON object.
    let begins = |line: &str| line.starts_with('{');
    if let Some(at) = text.split_inclusive('\n').position(begins) {
        let json: String = text.split_inclusive('\n').skip(at).collect();
        return pbs::json(&json);
    }
    if body.starts_with('<') {
        return pbs::xml(body);
    }
    slurm::scontrol(text)
        .or_else(|| slurm::seff(text))
        .or_else(|| pbs::qstat_full(text))
        .or_else(|| pbs::pbsnodes(text))
        .or_else(|| submitted(body))
        .or_else(|| table::read(text, columns, asked))
        .or_else(|| pbs::node_list(body))
        .or_else(|| job_output(body))
        .or_else(|| refused(body))
}

/// Lines in a job's output by which the scheduler says why it ended the job: those that dlrun knows of its own jobs.
fn job_output(text: &str) -> Option<Seen> {
    let mut found: Vec<Notice> = Vec::new();
    for notice in notices(text) {
        match found.iter_mut().find(|known| known.job == notice.job) {
            Some(known) if known.weight() > notice.weight() => {}
            Some(known) => *known = notice,
            None => found.push(notice),
        }
    }
    let scheduler = if found.first()?.job.is_some() {
        "slurm"
    } else {
        "pbs"
    };
    let job = |notice: Notice| {
        let state = match notice.kind {
            CauseKind::TimeLimit => JobState::Timeout,
            CauseKind::Memory => JobState::OutOfMemory,
            CauseKind::Preemption => JobState::Preempted,
            CauseKind::Node => JobState::NodeFail,
            CauseKind::Cancel => JobState::Cancelled,
            _ => JobState::Unknown,
        };
        JobSeen {
            job_id: notice.job,
            state: state_word(state, false),
            reason: Some(notice.line),
            ..JobSeen::default()
        }
    };
    let jobs = found.into_iter().map(job).collect();
    Some(Seen::of("output of a job", scheduler, jobs, Vec::new()))
}

/// Sentences that name a job which was taken.
const TAKEN: [&str; 5] = [
    "Submitted batch job ",
    "Granted job allocation ",
    "Pending job allocation ",
    "qsub: waiting for job ",
    "qsub: job ",
];

/// `Submitted batch job 7`, `7`, `7;cluster`, `7.server`. A number among other words is no id.
fn submitted(text: &str) -> Option<Seen> {
    let sentence = |line: &str| {
        let (_, rest) = TAKEN.iter().find_map(|words| line.split_once(words))?;
        let id = rest.split_whitespace().next()?;
        let cluster = rest
            .split_once(" on cluster ")
            .map(|(_, cluster)| cluster.trim().to_owned());
        Some((id.to_owned(), cluster))
    };
    let is_number =
        |id: &str| !id.is_empty() && id.len() <= 20 && id.bytes().all(|b| b.is_ascii_digit());
    let is_name = |name: &str| {
        name.bytes()
            .all(|b| b.is_ascii_alphanumeric() || b"_-.".contains(&b))
    };
    let is_pbs = |id: &str| ids::is_id(id) && id.bytes().any(|b| b.is_ascii_alphabetic());
    let line = text.lines().last()?.trim();
    let alone = match line.split_once(';') {
        Some((id, cluster)) if is_name(cluster) && !cluster.is_empty() => {
            Some((id, Some(cluster.to_owned())))
        }
        Some(_) => None,
        None => Some((line, None)),
    };
    // A bare number is an id where nothing else was printed.
    let alone = alone.filter(|(id, _)| is_pbs(id) || (is_number(id) && text.lines().count() == 1));
    // What was waited for may be refused after all.
    let last = text.lines().skip_while(|line| sentence(line).is_none());
    if last.clone().any(|line| line.contains("error: ")) {
        return None;
    }
    let said = last
        .take(1)
        .find_map(sentence)
        .filter(|(id, _)| is_number(id) || is_pbs(id));
    let (job_id, cluster) = said.or_else(|| alone.map(|(id, cluster)| (id.to_owned(), cluster)))?;
    let (form, scheduler) = if is_pbs(&job_id) {
        ("qsub", "pbs")
    } else {
        ("sbatch", "slurm")
    };
    Some(Seen {
        submitted: Some(SubmittedSeen { job_id, cluster }),
        ..Seen::of(form, scheduler, Vec::new(), Vec::new())
    })
}

fn refused(text: &str) -> Option<Seen> {
    let (scheduler, error) = complaint::classify(text)?;
    Some(Seen {
        error: Some(error),
        ..Seen::of("refusal", scheduler, Vec::new(), Vec::new())
    })
}

/// A state in dlrun's words; a job that a person holds has its own word.
fn state_word(state: JobState, held: bool) -> String {
    if held && state == JobState::Pending {
        "held".to_owned()
    } else {
        state.as_str().to_owned()
    }
}
