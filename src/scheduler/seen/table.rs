//! Tables of `sacct`, `squeue` and `sinfo`: with a head, or with columns that the caller names.

use super::field::{exit, gpus_of_tres, leading_number, moment, said};
use super::slurm_text::node_state;
use super::{Columns, JobSeen, NodeSeen, Seen, state_word};
use crate::job::JobState;
use crate::scheduler::slurm;

/// A table as rows of named cells.
struct Table<'a> {
    names: Vec<String>,
    rows: Vec<Vec<&'a str>>,
}

pub(super) fn read(text: &str, columns: Columns<'_>) -> Option<Seen> {
    let table = table(text, columns)?;
    let has = |names: &[&str]| table.names.iter().any(|name| names.contains(&name.as_str()));
    if has(ID) && has(STATE) {
        return Some(jobs(&table));
    }
    (has(NODE) && has(STATE)).then(|| nodes(&table))
}

/// What one thing is called by `sacct`, by `squeue` and by people, in small letters and digits alone.
type Names = &'static [&'static str];

const ID: Names = &["jobid", "id", "arrayjobid"];
const RAW_ID: Names = &["jobidraw"];
const STATE: Names = &["state", "stateraw", "st", "statecompact", "statelong", "status"];
const NAME: Names = &["jobname", "name"];
const REASON: Names = &["reason", "annotation", "nodelistreason", "reasonlist"];
const EXIT: Names = &["exitcode"];
const START: Names = &["start", "starttime", "dispatchtime"];
const END: Names = &["end", "endtime"];
const ELAPSED: Names = &["elapsed", "time", "timeused", "elapsedraw"];
const NODES: Names = &["nnodes", "nodes", "numbernodes", "numnodes", "allocnodes", "reqnodes"];
const NODE_LIST: Names = &["nodelist", "allocatedmachines", "nodelistreason", "reasonlist"];
const TRES: Names = &["alloctres", "tresalloc", "tres", "reqtres"];
const LIMIT: Names = &["timelimit", "limit", "timelimitraw"];
const RESTARTS: Names = &["restarts", "restartcnt"];
const NODE: Names = &["nodelist", "nodename", "nodehost", "hostnames", "node"];
const CPUS: Names = &["cpusstate", "cpusaiot", "cpus", "cpustot"];

/// A name without case, blanks and signs: `%i`-like pictures apart, that is what differs between the programs.
fn plain(name: &str) -> String {
    let name = name.trim().split('%').next().unwrap_or_default();
    name.chars().filter(char::is_ascii_alphanumeric).map(|c| c.to_ascii_lowercase()).collect()
}

fn table<'a>(text: &'a str, columns: Columns<'_>) -> Option<Table<'a>> {
    let lines: Vec<&str> = text.lines().filter(|line| !line.trim().is_empty()).collect();
    let first = *lines.first()?;
    if !columns.names.is_empty() {
        let separator = columns.separator.or_else(|| first.contains('|').then_some("|"));
        let names = columns.names.iter().map(|name| plain(name)).collect();
        let split = |line: &&'a str| split(line, separator, columns.names.len());
        return Some(Table { names, rows: lines.iter().map(split).collect() });
    }
    let separator = columns.separator.unwrap_or("|");
    if first.contains(separator) {
        let names: Vec<String> = first.split(separator).map(plain).collect();
        if !names.iter().any(|name| ID.contains(&name.as_str())) {
            return headless(&lines, separator);
        }
        let rows = lines[1..].iter().map(|line| split(line, Some(separator), names.len())).collect();
        return Some(Table { names, rows });
    }
    let is_rule = |line: &&str| line.bytes().all(|b| b == b'-' || b == b' ') && line.contains("--");
    if lines.get(1).is_some_and(is_rule) { ruled(&lines) } else { None }
}

/// Cells between separators, or between blanks. What is too much belongs to the last one: names hold anything.
fn split<'a>(line: &'a str, separator: Option<&str>, count: usize) -> Vec<&'a str> {
    match separator {
        Some(separator) => line.splitn(count.max(1), separator).map(str::trim).collect(),
        None => {
            let mut cells = Vec::new();
            let mut rest = line.trim();
            while !rest.is_empty() && cells.len() + 1 < count.max(1) {
                let (cell, after) = rest.split_once(char::is_whitespace).unwrap_or((rest, ""));
                cells.push(cell);
                rest = after.trim_start();
            }
            if !rest.is_empty() {
                cells.push(rest);
            }
            cells
        }
    }
}

/// `sacct` as people see it: columns as wide as the dashes below the head; a value that is cut ends in `+`.
fn ruled<'a>(lines: &[&'a str]) -> Option<Table<'a>> {
    let mut spans = Vec::new();
    let mut at = 0;
    for dashes in lines[1].split(' ') {
        if !dashes.is_empty() {
            spans.push(at..at + dashes.len());
        }
        at += dashes.len() + 1;
    }
    let cell = |line: &'a str, span: &std::ops::Range<usize>| {
        line.get(span.start..span.end.min(line.len())).unwrap_or("").trim()
    };
    let cells = |line: &&'a str| -> Vec<&'a str> { spans.iter().map(|span| cell(line, span)).collect() };
    let names = cells(&lines[0]).into_iter().map(plain).collect();
    Some(Table { names, rows: lines[2..].iter().map(cells).collect() })
}

/// Rows of `sacct --parsable2 --noheader` whose columns nobody names: what can be told from its form alone.
fn headless<'a>(lines: &[&'a str], separator: &str) -> Option<Table<'a>> {
    let mut rows = Vec::new();
    for line in lines {
        let cells: Vec<&str> = line.split(separator).map(str::trim).collect();
        let find = |fits: fn(&str) -> bool| cells.iter().copied().find(|cell| fits(cell));
        let id = cells.first().copied().filter(|id| id.starts_with(|c: char| c.is_ascii_digit()))?;
        let state = find(|cell| cell.len() > 2 && is_state(cell))?;
        // Start and end follow each other, and Slurm's own order has them behind the state.
        let after = cells.iter().skip_while(|cell| **cell != state).skip(1).copied();
        let times: Vec<&str> = after.take_while(|cell| is_time(cell)).collect();
        let (start, end) = if let [start, end] = times[..] { (start, end) } else { ("", "") };
        let exit_code = find(|cell| exit(cell).is_some() && cell.len() < 8).unwrap_or_default();
        let tres = find(|cell| cell.contains("cpu=") || cell.contains("gres/gpu")).unwrap_or_default();
        rows.push(vec![id, state, start, end, exit_code, tres]);
    }
    let names = ["jobid", "state", "start", "end", "exitcode", "alloctres"].map(str::to_owned).into();
    Some(Table { names, rows })
}

fn is_state(cell: &str) -> bool {
    slurm::job_state(cell) != JobState::Unknown
}

/// `2025-09-23T10:11:19`, or that there is none.
fn is_time(cell: &str) -> bool {
    let is_date = cell.len() >= 19 && cell.as_bytes()[4] == b'-' && cell.as_bytes()[10] == b'T';
    is_date || cell == "Unknown" || cell == "None"
}

/// The cells of a row by what they are.
struct Row<'a> {
    table: &'a Table<'a>,
    cells: &'a [&'a str],
}

impl<'a> Row<'a> {
    fn raw(&self, names: Names) -> Option<&'a str> {
        let at = |wanted: &&str| self.table.names.iter().position(|name| name == wanted);
        names.iter().filter_map(at).find_map(|place| self.cells.get(place).copied())
    }

    /// A cell that says something.
    fn cell(&self, names: Names) -> Option<&'a str> {
        let at = |wanted: &&str| self.table.names.iter().position(|name| name == wanted);
        names.iter().filter_map(at).find_map(|place| self.cells.get(place).copied().and_then(said))
    }
}

fn jobs(table: &Table<'_>) -> Seen {
    let mut jobs: Vec<JobSeen> = Vec::new();
    for cells in &table.rows {
        let Some(job) = job(&Row { table, cells }) else { continue };
        // A requeued or shrunken job has several rows; the last one is how it stands.
        match jobs.iter_mut().find(|known| known.job_id == job.job_id && known.het_id == job.het_id) {
            Some(known) => *known = job,
            None => jobs.push(job),
        }
    }
    let is_accounting =
        table.names.iter().any(|name| ["exitcode", "alloctres", "jobidraw"].contains(&name.as_str()));
    let form = if is_accounting { "sacct" } else { "squeue" };
    Seen { form, scheduler: "slurm", jobs, ..Seen::default() }
}

fn job(row: &Row<'_>) -> Option<JobSeen> {
    let id = row.cell(ID)?;
    // `7.batch`, `7.0`, `4574632.bat+`: steps.
    if id.contains('.') || !id.starts_with(|c: char| c.is_ascii_digit()) {
        return None;
    }
    let raw_state = row.cell(STATE)?;
    let state = slurm::job_state(raw_state);
    let reason =
        row.cell(REASON).and_then(|reason| said(reason.trim_start_matches('(').trim_end_matches(')')));
    // As printed: accounting says `None assigned` of a job that waits.
    let place =
        row.raw(NODE_LIST).filter(|place| !place.starts_with('(') && !place.is_empty() && *place != "(null)");
    let exit = row.cell(EXIT).and_then(exit);
    let is_pending = state == JobState::Pending;
    let (number, het_id) = het(id, row.cell(RAW_ID));
    let runs_or_ran = |text: &str| moment(text).filter(|_| !is_pending);
    Some(JobSeen {
        job_id: number,
        name: row.cell(NAME).map(str::to_owned),
        state: state_word(state, reason.is_some_and(slurm::is_hold)),
        raw_state: raw_state.to_owned(),
        reason: reason.filter(|reason| Some(*reason) != place).map(str::to_owned),
        exit_code: exit.map(|(code, _)| code),
        signal: exit.map(|(_, signal)| signal),
        // Of a job that waits it is an expectation.
        start: row.cell(START).and_then(runs_or_ran),
        end: row.cell(END).and_then(runs_or_ran),
        elapsed_s: row.cell(ELAPSED).and_then(duration).filter(|_| !is_pending),
        nodes: row.cell(NODES).and_then(leading_number),
        node_list: place.map(str::to_owned),
        gpus: row.cell(TRES).and_then(gpus_of_tres),
        time_limit_s: row.cell(LIMIT).and_then(slurm::seconds),
        array_id: id.split_once('_').map(|(array, _)| array.to_owned()),
        het_id,
        restarts: row.cell(RESTARTS).and_then(leading_number),
    })
}

/// `ElapsedRaw` is a number of seconds.
fn duration(text: &str) -> Option<u64> {
    slurm::seconds(text).or_else(|| text.parse().ok())
}

/// `1853+2` is the third part of a job; its own id is stated in `JobIDRaw`, else it is the first one's plus the offset.
fn het(id: &str, raw: Option<&str>) -> (String, Option<String>) {
    let Some((first, offset)) = id.split_once('+') else { return (id.to_owned(), None) };
    let sum = first.parse::<u64>().ok().zip(offset.parse::<u64>().ok());
    let own = sum.and_then(|(first, offset)| first.checked_add(offset)).map(|own| own.to_string());
    let stated = raw.filter(|raw| raw.bytes().all(|b| b.is_ascii_digit())).map(str::to_owned);
    (stated.or(own).unwrap_or_else(|| id.to_owned()), Some(id.to_owned()))
}

/// A node stands once for each of its partitions, and not always in the same state: what it does counts before rest.
fn nodes(table: &Table<'_>) -> Seen {
    let mut nodes: Vec<NodeSeen> = Vec::new();
    for cells in &table.rows {
        let row = Row { table, cells };
        let Some((name, raw_state)) = row.cell(NODE).zip(row.cell(STATE)) else { continue };
        let node = NodeSeen {
            name: name.to_owned(),
            state: node_state(raw_state),
            raw_state: raw_state.to_owned(),
            cpus: row.cell(CPUS).and_then(|cpus| cpus.rsplit('/').next()?.parse().ok()),
            reason: row.cell(REASON).map(str::to_owned),
            ..NodeSeen::default()
        };
        match nodes.iter_mut().find(|known| known.name == node.name) {
            Some(known) if known.state == "idle" => *known = node,
            Some(_) => {}
            None => nodes.push(node),
        }
    }
    Seen { form: "sinfo", scheduler: "slurm", nodes, ..Seen::default() }
}
