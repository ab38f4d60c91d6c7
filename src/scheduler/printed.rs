//! What a scheduler printed, read back: `squeue` and `sacct` with their head, `scontrol show job`, `qstat -f`, refusals, and
//! the end of a job's own output. It is read by what the adapters read their own questions by; what a form does not state is `None`.

use serde::Serialize;

use super::openpbs::json;
use super::pbs::answer::{self, Thing};
use super::pbs::job;
use super::pbs::values::{hosts, walltime};
use super::refusal::{self, Fault};
use super::slurm;
use crate::job::{JobState, SchedulerKind};
use crate::record::{CauseKind, ExitStatus, Notice, notices};

/// The largest text that is read, in bytes.
pub const MAX_BYTES: u64 = 64 << 20;

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
    /// The scheduler's id; an element of an array as `ID_INDEX` (Slurm) or `ID[INDEX]` (PBS).
    pub job_id: Option<String>,
    /// The job's name.
    pub name: Option<String>,
    /// Its state in dlrun's words, and `held` for a job that waits for a person.
    pub state: String,
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
    /// Its time limit, in seconds.
    pub time_limit_s: Option<u64>,
    /// Of a job that waits: when the scheduler expects to start it.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub expected_start: Option<Printed>,
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
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Seen {
    /// Its form, such as `scontrol show job`.
    pub form: &'static str,
    /// `slurm`, `torque`, `openpbs`, or `pbs` where it may be either.
    pub scheduler: &'static str,
    /// The jobs in it, in its order; steps belong to their job.
    pub jobs: Vec<JobSeen>,
    /// A refusal.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub error: Option<RefusalSeen>,
}

/// Reads an output. `None` where it is none that is known.
#[must_use]
pub fn read(text: &str) -> Option<Seen> {
    let text = text.trim_start_matches('\u{feff}').replace('\u{a0}', " ");
    // Warnings may come before a JSON object.
    let json = text.find("\n{").map_or(0, |newline| newline + 1);
    let (form, scheduler, jobs) = if text[json..].starts_with('{') {
        let things = json::read(&text[json..]).1;
        ("qstat -f -F json", "openpbs", pbs_jobs(&things, false))
    } else if text.trim_start().starts_with('<') {
        (
            "qstat -x",
            "torque",
            pbs_jobs(&answer::read_xml(&text), true),
        )
    } else if text.lines().any(|line| line.starts_with("Job Id:")) {
        let things = answer::read_text(&text);
        let of_torque = |job: &Thing| job.get("fault_tolerant").or(job.get("euser")).is_some();
        let is_torque = things.iter().any(of_torque);
        let scheduler = if is_torque { "torque" } else { "pbs" };
        ("qstat -f", scheduler, pbs_jobs(&things, is_torque))
    } else if let Some(at) = text.find("JobId=") {
        let records = text[at..].split("JobId=").skip(1);
        // The array's own id (`ArrayJobId=`) begins no record.
        let records = records.fold(Vec::<String>::new(), |mut records, part| {
            match records.last_mut() {
                Some(last) if last.ends_with("Array") => last.push_str(&format!("JobId={part}")),
                _ => records.push(format!("JobId={part}")),
            }
            records
        });
        let job = |record: &String| slurm_job(&Cells::new(slurm::scontrol_pairs(record)));
        let jobs = records.iter().filter_map(job).collect();
        ("scontrol show job", "slurm", jobs)
    } else if let Some((form, jobs)) = table(&text) {
        (form, "slurm", jobs)
    } else {
        return job_output(&text).or_else(|| refused(&text));
    };
    if jobs.is_empty() {
        return job_output(&text).or_else(|| refused(&text));
    }
    Some(Seen {
        form,
        scheduler,
        jobs,
        error: None,
    })
}

/// Names of columns or keys in small letters, and the text under them.
struct Cells(Vec<(String, String)>);

impl Cells {
    fn new<'a>(pairs: impl IntoIterator<Item = (&'a str, &'a str)>) -> Self {
        let pair = |(name, text): (&str, &str)| (name.to_lowercase(), text.trim().to_owned());
        Self(pairs.into_iter().map(pair).collect())
    }

    /// The first of these names that is there.
    fn raw(&self, names: &[&str]) -> Option<&str> {
        let named = |name: &&str| self.0.iter().find(|(known, _)| known == name);
        names.iter().find_map(named).map(|(_, text)| text.as_str())
    }

    /// The same where it is more than `(null)`, `N/A` and their like.
    fn get(&self, names: &[&str]) -> Option<&str> {
        let nothing = [
            "",
            "(null)",
            "N/A",
            "Unknown",
            "None",
            "(None)",
            "None assigned",
        ];
        let text = self.raw(names)?;
        (!nothing.contains(&text)).then_some(text)
    }
}

const ID: [&str; 2] = ["jobid", "jobidraw"];
const STATE: [&str; 3] = ["jobstate", "state", "st"];
const BOTH: &str = "nodelist(reason)";

/// A moment; digits alone are Unix seconds.
fn moment(text: &str) -> Option<Printed> {
    match text.parse::<u64>() {
        Ok(0) => None,
        Ok(seconds) => Some(Printed::Seconds(seconds)),
        Err(_) => Some(Printed::Text(text.to_owned())),
    }
}

/// A job of Slurm's; `None` where it has no state.
fn slurm_job(cells: &Cells) -> Option<JobSeen> {
    let raw_state = cells.get(&STATE)?;
    let state = slurm::job_state(raw_state);
    let waits = state == JobState::Pending;
    let both = cells.get(&[BOTH]);
    let reason = cells
        .get(&["reason"])
        .or(both.filter(|text| text.starts_with('(')));
    let reason = reason.map(|text| text.trim_matches(['(', ')']));
    let place = cells.get(&["nodelist"]).or(both);
    let exit = cells
        .get(&["exitcode"])
        .and_then(|text| text.split_once(':'));
    let start = cells
        .get(&["starttime", "start", "start_time"])
        .and_then(moment);
    let element = cells.get(&["arrayjobid"]).zip(cells.get(&["arraytaskid"]));
    let is_held = waits && reason.is_some_and(slurm::is_hold);
    Some(JobSeen {
        job_id: match element {
            Some((array, index)) => Some(format!("{array}_{index}")),
            None => cells.get(&ID).map(str::to_owned),
        },
        name: cells.get(&["jobname", "name"]).map(str::to_owned),
        state: if is_held { "held" } else { state.as_str() }.to_owned(),
        raw_state: raw_state.to_owned(),
        reason: reason.map(str::to_owned),
        exit_code: exit.and_then(|(code, _)| code.parse().ok()),
        signal: exit.and_then(|(_, signal)| signal.parse().ok()),
        // Of a job that waits the times are expectations.
        expected_start: start.clone().filter(|_| waits),
        start: start.filter(|_| !waits),
        end: cells
            .get(&["endtime", "end"])
            .and_then(moment)
            .filter(|_| !waits),
        elapsed_s: cells
            .get(&["runtime", "elapsed", "time"])
            .and_then(slurm::seconds)
            .filter(|_| !waits),
        nodes: cells
            .get(&["numnodes", "nodes", "nnodes", "allocnodes"])
            .and_then(|text| text.split('-').next()?.parse().ok()),
        node_list: place
            .filter(|place| !place.starts_with('('))
            .map(str::to_owned),
        time_limit_s: cells
            .get(&["timelimit", "time_limi", "time_limit"])
            .and_then(slurm::seconds),
    })
}

/// The jobs of a table of `squeue` or `sacct`, and which it is: cells between bars, under dashes, or one word each. The head
/// names the id and the state of jobs; what comes before it is left out.
fn table(text: &str) -> Option<(&'static str, Vec<JobSeen>)> {
    let mut lines = text
        .lines()
        .filter(|line| !line.trim().is_empty())
        .peekable();
    let (head, columns) = lines.by_ref().find_map(|head| {
        let columns: Vec<&str> = match head.contains('|') {
            true => head.split('|').map(str::trim).collect(),
            false => head.split_whitespace().collect(),
        };
        named(&columns, &ID).and(named(&columns, &STATE))?;
        Some((head, columns))
    })?;
    let is_rule = |line: &&str| line.contains("--") && line.bytes().all(|b| b"- ".contains(&b));
    let rule = lines.next_if(is_rule);
    let mut jobs: Vec<JobSeen> = Vec::new();
    for line in lines.filter(|line| *line != head) {
        let cells = match rule {
            _ if head.contains('|') => line.split('|').map(str::to_owned).collect(),
            Some(rule) => under_dashes(line, rule),
            None => match cells_of_row(line, &columns) {
                Some(cells) => cells,
                // A row that may belong to a job, and does not say to which column its words belong.
                None if line.trim().starts_with(|c: char| c.is_ascii_digit()) => return None,
                None => continue,
            },
        };
        let cells = columns
            .iter()
            .copied()
            .zip(cells.iter().map(String::as_str));
        let Some(job) = slurm_job(&Cells::new(cells)) else {
            continue;
        };
        // `7.batch`, `4574632.bat+` and `2681683_420+` are steps.
        let id = job.job_id.as_deref().unwrap_or_default();
        if !id.starts_with(|c: char| c.is_ascii_digit()) || id.contains('.') || id.ends_with('+') {
            continue;
        }
        // A requeued job has several rows; the last one has its state.
        match jobs.iter_mut().find(|known| known.job_id == job.job_id) {
            Some(known) => *known = job,
            None => jobs.push(job),
        }
    }
    let is_queue = columns
        .iter()
        .any(|name| ["ST", "NODELIST(REASON)"].contains(name));
    Some((if is_queue { "squeue" } else { "sacct" }, jobs))
}

/// Dashes below the head are as wide as the columns.
fn under_dashes(line: &str, rule: &str) -> Vec<String> {
    let letters: Vec<char> = line.chars().collect();
    let mut at = 0;
    let cell = |dashes: &str| {
        let from = at.min(letters.len());
        at += dashes.len() + 1;
        letters[from..(at - 1).clamp(from, letters.len())]
            .iter()
            .collect()
    };
    rule.trim_end().split(' ').map(cell).collect()
}

/// The place of the first column that has one of these names.
fn named(columns: &[&str], names: &[&str]) -> Option<usize> {
    let mut columns = columns.iter();
    columns.position(|column| names.contains(&column.to_lowercase().as_str()))
}

/// One word for each column. More words belong to a name with blanks, before a state that can only be in one place, or to
/// the last column. `None`: the words are not these columns'.
fn cells_of_row(line: &str, columns: &[&str]) -> Option<Vec<String>> {
    let words: Vec<&str> = line.split_whitespace().collect();
    let state = named(columns, &STATE)?;
    let more = words.len().checked_sub(columns.len())?;
    let is_state = |shift: &usize| slurm::job_state(words[state + shift]) != JobState::Unknown;
    let mut shifts = (0..=more).filter(is_state);
    let shift = match (shifts.next(), shifts.next()) {
        (Some(shift), None) => shift,
        (None, _) if more == 0 => 0,
        _ => return None,
    };
    let name = match shift {
        0 => 0,
        _ => named(columns, &["name", "jobname"]).filter(|name| *name < state)?,
    };
    let last = columns.len() - 1;
    let cell = |at: usize| match at {
        at if at == name && shift > 0 => words[at..=at + shift].join(" "),
        at if at < name => words[at].to_owned(),
        at if at == last => words[at + shift..].join(" "),
        at => words[at + shift].to_owned(),
    };
    Some((0..columns.len()).map(cell).collect())
}

/// The jobs of a PBS.
fn pbs_jobs(things: &[Thing], is_torque: bool) -> Vec<JobSeen> {
    let job_seen = |thing: &Thing| {
        let get = |keys: &[&str]| keys.iter().find_map(|key| thing.get(key));
        let raw_state = get(&["job_state"])?;
        let kind = match is_torque || raw_state == "C" {
            true => SchedulerKind::Torque,
            false => SchedulerKind::OpenPbs,
        };
        let entry = job::entry(kind, thing)?;
        // Part of a record could say how the job ended, and does not.
        let is_over = ["C", "F", "X"].contains(&raw_state);
        let has_end = get(&["exit_status", "Exit_status", "substate"]).is_some();
        let state = match is_over && !has_end && thing.attributes.len() < 9 {
            true => JobState::Unknown,
            false => entry.state,
        };
        let is_held = raw_state == "H" && state == JobState::Pending;
        let places = get(&["exec_vnode", "exec_host"]);
        let seconds = |key: &str| thing.get(key).and_then(walltime).map(|time| time.0);
        let expected = get(&["estimated.start_time"]).filter(|_| state == JobState::Pending);
        let code = get(&["exit_status", "Exit_status"]).and_then(|code| code.parse().ok());
        Some(JobSeen {
            job_id: Some(thing.id.clone()),
            name: get(&["Job_Name"]).map(str::to_owned),
            state: if is_held { "held" } else { state.as_str() }.to_owned(),
            raw_state: raw_state.to_owned(),
            reason: entry.reason,
            exit_code: code,
            signal: match entry.exit {
                Some(ExitStatus::Signal(signal)) => Some(signal.into()),
                _ => None,
            },
            start: get(&["start_time", "stime"]).and_then(moment),
            end: get(&["comp_time", "obittime"]).and_then(moment),
            elapsed_s: seconds("resources_used.walltime"),
            nodes: thing
                .number("Resource_List.nodect")
                .or(places.map(|places| hosts(places).len() as u64)),
            node_list: places.map(str::to_owned),
            time_limit_s: seconds("Resource_List.walltime"),
            expected_start: expected.and_then(moment),
        })
    };
    things.iter().filter_map(job_seen).collect()
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
    let is_slurm = found.first()?.job.is_some();
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
            state: state.as_str().to_owned(),
            reason: Some(notice.line),
            ..JobSeen::default()
        }
    };
    Some(Seen {
        form: "output of a job",
        scheduler: if is_slurm { "slurm" } else { "pbs" },
        jobs: found.into_iter().map(job).collect(),
        error: None,
    })
}

/// Commands that begin their complaints with their name.
const TOOLS: [(&str, &str); 2] = [
    (
        "slurm",
        "sbatch: |squeue: |sacct: |scontrol: |scancel: |slurm_load_jobs error: |allocate resources: ",
    ),
    ("pbs", "qsub: |qstat: |qdel: |qhold: |qrls: |qalter: "),
];

/// A refusal. What a command printed counts before what is around it; a reason that is not known is not read.
fn refused(text: &str) -> Option<Seen> {
    let speaker = |line: &str| {
        let says_it = |(_, tools): &&(_, &str)| tools.split('|').any(|tool| line.contains(tool));
        TOOLS.iter().find(says_it).map(|(scheduler, _)| *scheduler)
    };
    let complaints: Vec<&str> = text
        .lines()
        .filter(|line| speaker(line).is_some())
        .collect();
    let (known, fault) =
        refusal::fault(&complaints.join("\n")).or_else(|| refusal::fault_of_sentence(text))?;
    let says_it = |line: &&str| line.to_lowercase().contains(known);
    let line = text.lines().find(says_it).unwrap_or(text);
    let scheduler = complaints.iter().find_map(|line| speaker(line));
    let scheduler = scheduler.unwrap_or(refusal::speaker_of(fault, line));
    let Fault { name, meaning, .. } = fault;
    let limit = refusal::named_limit(line).filter(|_| name == "policy");
    Some(Seen {
        form: "refusal",
        scheduler,
        jobs: Vec::new(),
        error: Some(RefusalSeen {
            error_class: fault.class(scheduler),
            transient: name == "busy",
            meaning: limit.map_or(meaning, |(_, meaning)| meaning),
            words: line.trim().chars().take(500).collect(),
        }),
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn row_with_more_words_than_columns_needs_a_name_before_the_state() {
        let columns = ["JOBID", "NAME", "ST", "TIME"];
        let cells = cells_of_row("7 two words R 1:00", &columns).expect("a job");
        assert_eq!(cells, ["7", "two words", "R", "1:00"]);
        for columns in [
            ["JOBID", "USER", "ST", "TIME"],
            ["JOBID", "ST", "NAME", "TIME"],
        ] {
            assert_eq!(
                cells_of_row("7 two words R 1:00", &columns),
                None,
                "{columns:?}"
            );
        }
        assert_eq!(table("JOBID USER ST TIME\n7 two words R 1:00\n"), None);
    }
}
