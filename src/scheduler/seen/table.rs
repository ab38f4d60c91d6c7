//! Tables of `sacct`, `squeue`, `sinfo`, `qstat` and `pbsnodes`: with a head, or with columns that the caller names.

use super::field::{exit, gpus_of_gres, gpus_of_tres, leading_number, moment, said};
use super::grid::{self, Grid, Kind, Words};
use super::paste::Asked;
use super::slurm_node::node_state;
use super::{Columns, JobSeen, NodeSeen, Seen, pbs, state_word};
use crate::job::JobState;
use crate::scheduler::slurm;

/// What one thing is called by `sacct`, by `squeue`, by `qstat` and by people, in small letters and digits alone.
type Names = &'static str;

fn is_one(names: Names, name: &str) -> bool {
    names.split(' ').any(|known| known == name)
}

const ID: Names = "jobid id arrayjobid jobidraw";
const RAW_ID: Names = "jobidraw";
const TASK: Names = "arraytaskid";
const STATE: Names = "state stateraw st statecompact statelong status s";
const NAME: Names = "jobname name";
const REASON: Names = "reason annotation nodelistreason reasonlist";
const EXIT: Names = "exitcode";
const START: Names = "start starttime dispatchtime";
const END: Names = "end endtime";
const ELAPSED: Names = "elapsed time timeused elapsedraw elaptime runtime";
const NODES: Names = "nnodes nodes numbernodes numnodes allocnodes reqnodes nds numnode";
const NODE_LIST: Names = "nodelist allocatedmachines nodelistreason reasonlist exechost batchhost";
const TRES: Names = "alloctres tresalloc tres reqtres";
const GRES: Names = "trespernode gres allocgres reqgres";
const LIMIT: Names = "timelimit timelimi limit timelimitraw reqdtime";
const RESTARTS: Names = "restarts restartcnt";
const NODE: Names = "nodelist nodename nodehost hostnames node host vnode";
const CPUS: Names = "cpusstate cpusaiot cpus cpustot ncpusft ncpus";
const GRES_USED: Names = "gresused";
const PBS_GPUS: Names = "ngpusft";

/// Columns that only tables of jobs have.
const OF_JOBS: Names = "jobname exitcode derivedexitcode elapsed elapsedraw alloctres reqtres submit start end jobidraw \
    maxrss account alloccpus totalcpu reqmem eligible";

/// Columns that say what a thing is and not more.
const OTHERS: Names = "partition avail account qos uid group gid cluster username queue sessid tsk sct memory tmpdisk \
    weight availfe activefeatures availfeatures features freemem cpuload minmemory mincpus priority \
    dependency timeleft submittime comment workdir command nodesaiot reqdmemory timestamp licenses \
    schednodes njobs run susp memft nmicsft jobs ncpu reqcpus avecpu maxvmsize consumedenergy allocmem \
    cpu groups sockets cores threads user timeuse reqcpufreq size root oversubscribe prio type stepid \
    arraytask submitline";

/// What a column holds.
fn kind(name: &str) -> Option<Kind> {
    let is = |names: &[Names]| names.iter().any(|names| is_one(names, name));
    Some(match () {
        () if name == "user" || name == "name" => Kind::Free,
        () if is(&[STATE]) => Kind::State,
        () if is(&[ID]) || (is(&[NODES]) && name != "reqnodes") => Kind::Number,
        () if is(&[ELAPSED, LIMIT]) || ["timeleft", "timeuse"].contains(&name) => Kind::Time,
        () if name == "sessid" || name == "tsk" => Kind::Number,
        () if name == "cpus" || name == "weight" || name == "tmpdisk" || name == "nodesaiot" => {
            Kind::Number
        }
        () if is(&[
            NAME, REASON, EXIT, START, END, NODE_LIST, TRES, GRES, RESTARTS, NODE, CPUS, TASK,
        ]) =>
        {
            Kind::Free
        }
        () if is(&[GRES_USED, PBS_GPUS, OF_JOBS, OTHERS]) => Kind::Free,
        () => return None,
    })
}

fn is_state_cell(cell: &str) -> bool {
    let is_letter = cell.len() == 1 && cell.chars().all(|c| c.is_ascii_uppercase());
    is_letter || slurm::job_state(cell) != JobState::Unknown || is_node_state(cell)
}

fn is_node_state(cell: &str) -> bool {
    let words = cell.to_ascii_lowercase();
    let known = |word: &str| super::slurm_node::is_word(word) || pbs::is_node_word(word);
    words
        .split(['+', ','])
        .filter(|word| !word.is_empty())
        .all(known)
}

pub(super) fn read(text: &str, columns: Columns<'_>, asked: Option<&Asked<'_>>) -> Option<Seen> {
    let words = Words {
        kind,
        is_state: is_state_cell,
    };
    let by_command = || {
        let (names, separator) = asked?;
        let grid = grid::read(
            text,
            Columns {
                names,
                separator: *separator,
            },
            &words,
        )?;
        // Blanks in cells and empty cells would move the others.
        let is_whole = |row: &Vec<&str>| {
            row.len() == names.len() && row.last().is_none_or(|last| !last.contains(' '))
        };
        grid.rows.iter().all(is_whole).then_some(grid)
    };
    let grid = grid::read(text, columns, &words)
        .or_else(by_command)
        .or_else(|| headless(text, columns));
    let Some(grid) = grid else {
        return queue_without_head(text);
    };
    let has = |names: Names| grid.names.iter().any(|name| is_one(names, name));
    let is_pbs = has("s vnode timeuse sessid") && !has("nodelistreason");
    // `JobID|State`, `NodeList|State`: a table without either says nothing of a job or a node.
    let seen = match () {
        () if is_pbs && has(ID) && has(STATE) => pbs_jobs(&grid),
        () if has(ID) && (has(STATE) || has(NODE_LIST) || has(NAME) || has(OF_JOBS)) => jobs(&grid),
        () if has(STATE) && (has(OF_JOBS) || (has(NAME) && has(NODES))) => jobs(&grid),
        () if has(NODE)
            && (has(STATE)
                || has(REASON)
                || has(CPUS)
                || has(GRES_USED)
                || has(GRES)
                || has("nodesaiot")) =>
        {
            nodes(&grid, is_pbs)
        }
        () => return None,
    };
    let is_empty = seen.jobs.is_empty() && seen.nodes.is_empty();
    // A head and nothing below: the queue is empty. A partition may have 0 nodes.
    let says_none = || rows(&grid).all(|row| row.raw(NODES) == Some("0"));
    (!is_empty || says_none()).then_some(seen)
}

/// `squeue --noheader` and rows of `qstat`: the default columns, known by their form.
fn queue_without_head(text: &str) -> Option<Seen> {
    const SQUEUE: &str =
        "             JOBID PARTITION     NAME     USER ST       TIME  NODES NODELIST(REASON)\n";
    const QSTAT: &str = "Job id           Name             User             Time Use S Queue\n\
                         ---------------- ---------------- ---------------- -------- - -----\n";
    let rows: Vec<Vec<&str>> = text
        .lines()
        .map(|line| line.split_whitespace().collect())
        .collect();
    let all = |fits: fn(&[&str]) -> bool| {
        let mut rows = rows.iter().filter(|row| !row.is_empty()).peekable();
        rows.peek().is_some() && rows.all(|row| leading_number(row[0]).is_some() && fits(row))
    };
    let is_squeue = |row: &[&str]| {
        let triple = |three: &[&str]| {
            three[0].len() <= 3
                && slurm::job_state(three[0]) != JobState::Unknown
                && three[1].contains(':')
                && three[2].bytes().all(|b| b.is_ascii_digit())
        };
        row.len() >= 7 && row.windows(3).any(triple)
    };
    let is_qstat = |row: &[&str]| match row {
        [id, _, _, time, letter, _] => {
            id.contains('.')
                && (*time == "0" || time.contains(':'))
                && "QRHECFBSTWX".contains(letter)
        }
        _ => false,
    };
    let words = Words {
        kind,
        is_state: is_state_cell,
    };
    let headed = |head: &str| {
        grid::read(&format!("{head}{text}"), Columns::default(), &words).map(|grid| {
            if head == SQUEUE {
                jobs(&grid)
            } else {
                pbs_jobs(&grid)
            }
        })
    };
    match () {
        () if all(is_squeue) => headed(SQUEUE),
        () if all(is_qstat) => headed(QSTAT),
        () => None,
    }
}

/// Rows of `sacct --parsable2 --noheader` whose columns nobody names: what can be known from its form alone.
fn headless<'a>(text: &'a str, columns: Columns<'_>) -> Option<Grid<'a>> {
    let separator = columns.separator.unwrap_or("|");
    let mut rows = Vec::new();
    for line in text.lines().filter(|line| !line.trim().is_empty()) {
        let cells: Vec<&str> = line.split(separator).map(str::trim).collect();
        let find = |fits: fn(&str) -> bool| cells.iter().copied().find(|cell| fits(cell));
        let id = cells
            .first()
            .copied()
            .filter(|id| id.starts_with(|c: char| c.is_ascii_digit()))?;
        let state = find(|cell| cell.len() > 2 && slurm::job_state(cell) != JobState::Unknown)?;
        // Start and end follow each other, and Slurm's own order has them behind the state.
        let after = cells
            .iter()
            .skip_while(|cell| **cell != state)
            .skip(1)
            .copied();
        let times: Vec<&str> = after.take_while(|cell| is_time(cell)).collect();
        let (start, end) = if let [start, end] = times[..] {
            (start, end)
        } else {
            ("", "")
        };
        let exit_code = find(|cell| exit(cell).is_some() && cell.len() < 8).unwrap_or_default();
        let tres =
            find(|cell| cell.contains("cpu=") || cell.contains("gres/gpu")).unwrap_or_default();
        rows.push(vec![id, state, start, end, exit_code, tres]);
    }
    let names = ["jobid", "state", "start", "end", "exitcode", "alloctres"]
        .map(str::to_owned)
        .into();
    (!rows.is_empty()).then_some(Grid {
        names,
        rows,
        below: Vec::new(),
    })
}

/// `2025-09-23T10:11:19`, or that there is none.
fn is_time(cell: &str) -> bool {
    let is_date = cell.len() >= 19 && cell.as_bytes()[4] == b'-' && cell.as_bytes()[10] == b'T';
    is_date || cell == "Unknown" || cell == "None"
}

/// The cells of a row by what they are.
struct Row<'a> {
    grid: &'a Grid<'a>,
    at: usize,
}

impl<'a> Row<'a> {
    fn cells(&self, names: Names) -> impl Iterator<Item = &'a str> {
        let grid = self.grid;
        let at = move |wanted: &str| grid.names.iter().position(|name| name == wanted);
        let cells = &grid.rows[self.at];
        names
            .split(' ')
            .filter_map(at)
            .filter_map(|place| cells.get(place).copied())
    }

    fn raw(&self, names: Names) -> Option<&'a str> {
        self.cells(names).next()
    }

    /// A cell that says something.
    fn cell(&self, names: Names) -> Option<&'a str> {
        self.cells(names).find_map(said)
    }

    fn number(&self, names: Names) -> Option<u64> {
        self.cell(names).and_then(leading_number)
    }
}

fn rows<'a>(grid: &'a Grid<'a>) -> impl Iterator<Item = Row<'a>> {
    (0..grid.rows.len()).map(move |at| Row { grid, at })
}

fn jobs(grid: &Grid<'_>) -> Seen {
    let mut jobs: Vec<JobSeen> = Vec::new();
    for mut job in rows(grid).filter_map(|row| job(&row)) {
        let is_same = |known: &&mut JobSeen| {
            job.job_id.is_some() && known.job_id == job.job_id && known.het_id == job.het_id
        };
        // A requeued or shrunken job has several rows; the last one is how it stands.
        match jobs.iter_mut().find(is_same) {
            Some(known) => {
                let again = ["preempted", "node_fail", "pending"].contains(&known.state.as_str())
                    || known.raw_state.starts_with("REQUEUED");
                let restarts = known.restarts.unwrap_or(0) + u64::from(again);
                job.restarts = job
                    .restarts
                    .or(Some(restarts).filter(|restarts| *restarts > 0));
                *known = job;
            }
            None => jobs.push(job),
        }
    }
    let of_accounting = "exitcode alloctres jobidraw elapsed elapsedraw maxrss submit";
    let is_accounting = grid.names.iter().any(|name| is_one(of_accounting, name));
    let form = if is_accounting { "sacct" } else { "squeue" };
    Seen {
        form,
        scheduler: "slurm",
        jobs,
        ..Seen::default()
    }
}

fn job(row: &Row<'_>) -> Option<JobSeen> {
    let id = row.cell(ID);
    // `7.batch`, `7.0`, `4574632.bat+`: steps.
    if id.is_some_and(|id| id.contains('.') || !id.starts_with(|c: char| c.is_ascii_digit())) {
        return None;
    }
    // `2681683_420+`: the id of a step, cut at the width of the column.
    let is_above = |stem: &str| {
        let mut above = (0..row.at).filter_map(|at| Row { at, ..*row }.cell(ID));
        above.any(|id| stem.starts_with(id))
    };
    if id.and_then(|id| id.strip_suffix('+')).is_some_and(is_above) {
        return None;
    }
    let has_ids = row.raw(ID).is_some();
    let is_step = row
        .cell(NAME)
        .is_some_and(|name| ["batch", "extern", "interactive"].contains(&name));
    if (has_ids && id.is_none()) || (!has_ids && is_step) {
        return None;
    }
    let raw_state = row
        .cell(STATE)
        .filter(|state| !state.eq_ignore_ascii_case("state"));
    if row.raw(STATE).is_some() && raw_state.is_none() {
        return None;
    }
    let state = raw_state.map_or(JobState::Unknown, slurm::job_state);
    let reason = row
        .cell(REASON)
        .and_then(|reason| said(reason.trim_start_matches('(').trim_end_matches(')')));
    // As printed: accounting says `None assigned` of a job that waits.
    let place = row
        .raw(NODE_LIST)
        .filter(|place| !place.starts_with('(') && !place.is_empty() && *place != "(null)");
    let is_pending = state == JobState::Pending;
    // Some print the reason of a job that waits without its parentheses.
    let place = place.filter(|_| !is_pending || row.raw("nodelistreason").is_none());
    let exit = row.cell(EXIT).and_then(exit);
    let is_waiting = row
        .raw("nodelistreason")
        .is_some_and(|place| place.starts_with('('));
    let (number, het_id) = id.map_or((None, None), |id| het(id, row.cell(RAW_ID)));
    let task = row.cell(TASK).filter(|_| row.raw("arrayjobid").is_some());
    let runs_or_ran = |text: &str| moment(text).filter(|_| !is_pending);
    let nodes = row.number(NODES);
    let per_node = row.cell(GRES).map(gpus_of_gres);
    Some(JobSeen {
        job_id: match (number, task) {
            (Some(array), Some(task)) if !array.contains('_') => Some(format!("{array}_{task}")),
            (number, _) => number,
        },
        name: row.cell(NAME).map(str::to_owned),
        state: state_word(state, reason.is_some_and(slurm::is_hold)),
        // A place that is in parentheses is a reason to wait.
        guess: (state == JobState::Unknown
            && (is_waiting || (place.is_some() && raw_state.is_none())))
        .then(|| {
            state_word(
                if is_waiting {
                    JobState::Pending
                } else {
                    JobState::Running
                },
                false,
            )
        }),
        raw_state: raw_state.unwrap_or_default().to_owned(),
        reason: reason
            .filter(|reason| Some(*reason) != place)
            .map(str::to_owned),
        exit_code: exit.map(|(code, _)| code),
        signal: exit.map(|(_, signal)| signal),
        // Of a job that waits it is an expectation.
        start: row.cell(START).and_then(runs_or_ran),
        end: row.cell(END).and_then(runs_or_ran),
        elapsed_s: row.cell(ELAPSED).and_then(duration).filter(|_| !is_pending),
        nodes,
        node_list: place.map(str::to_owned),
        gpus: row
            .cell(TRES)
            .and_then(gpus_of_tres)
            .or_else(|| per_node.map(|gpus| gpus.saturating_mul(nodes.unwrap_or(1)))),
        time_limit_s: row.cell(LIMIT).and_then(slurm::seconds),
        array_id: id
            .and_then(|id| id.split_once('_'))
            .map(|(array, _)| array.to_owned()),
        het_id,
        restarts: row.number(RESTARTS),
        expected_start: row.cell(START).and_then(moment).filter(|_| is_pending),
        usage: Vec::new(),
    })
}

/// `ElapsedRaw` is a number of seconds.
fn duration(text: &str) -> Option<u64> {
    slurm::seconds(text).or_else(|| text.parse().ok())
}

/// `1853+2` is the third part of a job; its own id is stated in `JobIDRaw`, else it is the first one's plus the offset.
fn het(id: &str, raw: Option<&str>) -> (Option<String>, Option<String>) {
    let parts = id.split_once('+').filter(|(_, offset)| !offset.is_empty());
    let Some((first, offset)) = parts else {
        return (Some(id.to_owned()), None);
    };
    let sum = first.parse::<u64>().ok().zip(offset.parse::<u64>().ok());
    let own = sum
        .and_then(|(first, offset)| first.checked_add(offset))
        .map(|own| own.to_string());
    let stated = raw
        .filter(|raw| raw.bytes().all(|b| b.is_ascii_digit()))
        .map(str::to_owned);
    (
        stated.or(own).or_else(|| Some(id.to_owned())),
        Some(id.to_owned()),
    )
}

/// `qstat`, `qstat -a`, `-n`, `-s`: a letter for the state; the time of `qstat` alone is that of the CPU.
fn pbs_jobs(grid: &Grid<'_>) -> Seen {
    let is_alternate = grid
        .names
        .iter()
        .any(|name| name == "elaptime" || name == "sessid");
    let jobs = rows(grid).filter_map(|row| {
        let id = row
            .cell(ID)
            .filter(|id| id.starts_with(|c: char| c.is_ascii_digit()))?;
        let of = pbs::Attributes::from([("job_state".to_owned(), row.cell("s")?.to_owned())]);
        let mut job = pbs::job(id, &of)?;
        job.name = row.cell(NAME).map(str::to_owned);
        if is_alternate {
            job.nodes = row.number("nds");
            // In whole minutes: less than one is not known.
            job.time_limit_s = row
                .cell("reqdtime")
                .and_then(hours)
                .filter(|limit| *limit > 0);
            // `-n1` adds the places to the line.
            let last = row.cell("elaptime").unwrap_or_default();
            let (elapsed, places) = last.split_once(char::is_whitespace).unwrap_or((last, ""));
            job.elapsed_s = hours(elapsed);
            job.node_list = said(places).map(str::to_owned);
        }
        let below = grid.below.get(row.at).filter(|below| said(below).is_some());
        if let Some(below) = below {
            let (first, rest) = below.split_once(' ').unwrap_or((below, ""));
            let waits = !["running", "completed"].contains(&job.state.as_str());
            if first.contains('/') || (first.starts_with('(') && first.contains(':')) {
                job.node_list = Some(first.to_owned());
                job.reason = said(rest).filter(|_| waits).map(str::to_owned);
            } else if waits {
                job.reason = Some(below.clone());
            }
        }
        Some(job)
    });
    let jobs = jobs.collect();
    let form = if is_alternate { "qstat -a" } else { "qstat" };
    Seen {
        form,
        scheduler: "pbs",
        jobs,
        ..Seen::default()
    }
}

/// `HH:MM` as `qstat -a` has it, and `HH:MM:SS`.
fn hours(text: &str) -> Option<u64> {
    let is_short = text.matches(':').count() == 1;
    if is_short {
        pbs::duration(&format!("{text}:00"))
    } else {
        pbs::duration(text)
    }
}

/// A node is listed once for each of its partitions, and not always in the same state: what it does counts before rest.
fn nodes(grid: &Grid<'_>, is_pbs: bool) -> Seen {
    let mut nodes: Vec<NodeSeen> = Vec::new();
    for row in rows(grid) {
        let Some(name) = row.cell(NODE).filter(|name| plausible(name)) else {
            continue;
        };
        let raw_state = row.cell(STATE).unwrap_or_default();
        if raw_state.is_empty() && row.raw(STATE).is_some() {
            continue;
        }
        // `CPUS(A/I/O/T)`: the last is all; `ncpus f/t` has the free ones first.
        let of_pair = |names: Names| {
            let (free, all) = row.cell(names)?.rsplit_once('/')?;
            Some((free.parse::<u64>().ok()?, all.parse::<u64>().ok()?))
        };
        let pbs_gpus = of_pair(PBS_GPUS);
        let node = NodeSeen {
            name: name.to_owned(),
            state: if is_pbs {
                pbs::node_state(raw_state)
            } else {
                node_state(raw_state)
            },
            raw_state: raw_state.to_owned(),
            cpus: row
                .cell(CPUS)
                .and_then(|cpus| cpus.rsplit('/').next()?.trim_end_matches('+').parse().ok()),
            gpus_total: pbs_gpus
                .map(|(_, all)| all)
                .or_else(|| row.raw(GRES).map(gpus_of_gres)),
            gpus_used: pbs_gpus
                .map(|(free, all)| all.saturating_sub(free))
                .or_else(|| row.raw(GRES_USED).map(gpus_of_gres)),
            reason: row.cell(REASON).map(str::to_owned),
        };
        match nodes.iter_mut().find(|known| known.name == node.name) {
            Some(known) if known.state == "idle" => *known = node,
            Some(_) => {}
            None => nodes.push(node),
        }
    }
    let (form, scheduler) = if is_pbs {
        ("pbsnodes", "pbs")
    } else {
        ("sinfo", "slurm")
    };
    Seen {
        form,
        scheduler,
        nodes,
        ..Seen::default()
    }
}

/// Names of hosts, and lists of them.
fn plausible(name: &str) -> bool {
    name.starts_with(|c: char| c.is_ascii_alphanumeric())
        && name
            .chars()
            .all(|c| c.is_ascii_alphanumeric() || ".-_[],".contains(c))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn of(text: &str) -> Seen {
        read(text, Columns::default(), None).unwrap_or_else(|| panic!("no table: {text}"))
    }

    #[test]
    fn cells_with_blanks_stay_in_their_columns() {
        let text = "  JOBID PARTITION     NAME     USER ST       TIME  NODES NODELIST(REASON)\n  95_3  gpu  R 1:00 2 x bob PD 0:00 4 (ReqNodeNotAvail, UnavailableNodes:n4)\n";
        let job = of(text).jobs.remove(0);
        assert_eq!((job.state.as_str(), job.nodes), ("pending", Some(4)));
        assert_eq!(
            job.reason.as_deref(),
            Some("ReqNodeNotAvail, UnavailableNodes:n4")
        );
        assert_eq!(job.array_id.as_deref(), Some("95"));
    }

    #[test]
    fn cells_go_on_to_the_next_head_where_columns_are_aligned_left() {
        let text = "REASON               USER      TIMESTAMP           NODELIST\nECC errors - pendi+  admin     2026-07-30T09:12:00  g14\ngres/gpu GRES core s slurm     2025-04-03T15:48:07 g30\n";
        let reasons: Vec<_> = of(text)
            .nodes
            .into_iter()
            .filter_map(|node| node.reason)
            .collect();
        assert_eq!(reasons, ["ECC errors - pendi+", "gres/gpu GRES core s"]);
    }

    #[test]
    fn queue_without_head_is_read_by_its_form() {
        let text = "  7  batch  my job  root  R  1:01  2 n[1-2]\n";
        let seen = of(text);
        assert_eq!(seen.form, "squeue");
        assert_eq!(
            (seen.jobs[0].elapsed_s, seen.jobs[0].node_list.as_deref()),
            (Some(61), Some("n[1-2]"))
        );
    }

    #[test]
    fn text_without_a_table_is_none() {
        for text in [
            "once upon a time\n",
            "name of the job\nis not known\n",
            "step loss time\n1 0.3 1:00\n",
        ] {
            assert_eq!(read(text, Columns::default(), None), None, "{text}");
        }
    }
}
