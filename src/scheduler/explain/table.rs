//! Tables as schedulers print them: between separators, under dashes, or aligned with a head of words.

use super::record::{Names, Record, plain};
use super::{Columns, JobSeen, NodeSeen, Seen, pbs, slurm};
use crate::job::JobState;
use crate::scheduler::slurm::job_state;

/// Columns that only tables of jobs have.
const OF_JOBS: Names = "jobname exitcode derivedexitcode elapsed elapsedraw alloctres reqtres submit start end jobidraw maxrss \
    account alloccpus totalcpu reqmem eligible";
/// Columns that say what a thing is and not more.
const OTHERS: Names = "partition avail qos uid group gid cluster user username queue memory availfe activefeatures \
    availfeatures features freemem cpuload minmemory mincpus priority dependency submittime comment workdir command \
    reqdmemory timestamp licenses schednodes njobs run susp memft nmicsft jobs ncpu reqcpus avecpu maxvmsize consumedenergy \
    allocmem cpu groups sockets cores threads reqcpufreq size root oversubscribe prio type stepid arraytask submitline \
    restarts restartcnt gresused ngpusft sessid tsk weight tmpdisk nodesaiot timeleft timeuse arraytaskid";

/// Says whether schedulers have columns of this name.
fn is_column(name: &str) -> bool {
    let known = [
        slurm::ID,
        slurm::STATE,
        slurm::NAME,
        slurm::REASON,
        slurm::START,
        slurm::END,
        slurm::ELAPSED,
        slurm::NODES,
        slurm::NODE_LIST,
        slurm::TRES,
        slurm::GRES,
        slurm::LIMIT,
        slurm::NODE,
        slurm::CPUS,
        OF_JOBS,
        OTHERS,
    ];
    known.iter().any(|names| is_one(names, name))
}

fn is_one(names: Names, name: &str) -> bool {
    names.split(' ').any(|known| known == name)
}

fn is_state(word: &str) -> bool {
    let is_letter = word.len() == 1 && word.chars().all(|c| c.is_ascii_uppercase());
    let small = word.to_ascii_lowercase();
    let is_known = |word: &str| slurm::node_word(word).is_some() || pbs::is_node_word(word);
    let is_node = small.split(['+', ',']).all(is_known);
    is_letter || is_node || job_state(word) != JobState::Unknown
}

/// Rows, and the names of their columns.
type Table = (Vec<Record>, Vec<String>);

/// Reads a table of jobs or nodes. `asked`: what the command above it asked for, which counts where there is no head.
pub(super) fn read(text: &str, columns: Columns<'_>, asked: Option<&[String]>) -> Option<Seen> {
    let lines: Vec<&str> = text
        .lines()
        .filter(|line| !line.trim().is_empty())
        .collect();
    let (rows, names) = if columns.names.is_empty() {
        let by_command = || {
            let names = asked?;
            let table = named(&lines, names, None);
            // Blanks in cells and empty cells would move the others.
            let is_whole = |row: &Record| {
                let last = row.0.last();
                row.0.len() == names.len() && last.is_none_or(|(_, last)| !last.contains(' '))
            };
            table.0.iter().all(is_whole).then_some(table)
        };
        headed(&lines, columns.separator).or_else(by_command)?
    } else {
        named(&lines, columns.names, columns.separator)
    };
    let has = |list: Names| names.iter().any(|name| is_one(list, name));
    let is_pbs = has("s vnode timeuse sessid") && !has("nodelistreason");
    // `JobID|State`, `NodeList|State`: a table without either says nothing of a job or a node.
    let is_of_jobs = if has(slurm::ID) {
        has(slurm::STATE) || has(slurm::NODE_LIST) || has(slurm::NAME) || has(OF_JOBS)
    } else {
        has(slurm::STATE) && (has(OF_JOBS) || (has(slurm::NAME) && has(slurm::NODES)))
    };
    let of_nodes = [
        slurm::STATE,
        slurm::REASON,
        slurm::CPUS,
        slurm::GRES,
        "gresused nodesaiot",
    ];
    let seen = if is_pbs && has(slurm::ID) && has(slurm::STATE) {
        let is_long = has("elaptime sessid");
        let form = if is_long { "qstat -a" } else { "qstat" };
        let jobs = rows
            .iter()
            .filter_map(|row| pbs::job_of_table(row, is_long));
        Seen::of(form, "pbs", jobs.collect(), Vec::new())
    } else if is_of_jobs {
        let is_accounting = has("exitcode alloctres jobidraw elapsed elapsedraw maxrss submit");
        let form = if is_accounting { "sacct" } else { "squeue" };
        Seen::of(form, "slurm", jobs(&rows), Vec::new())
    } else if has(slurm::NODE) && of_nodes.into_iter().any(has) {
        let (form, scheduler) = if is_pbs {
            ("pbsnodes", "pbs")
        } else {
            ("sinfo", "slurm")
        };
        Seen::of(form, scheduler, Vec::new(), nodes(&rows, is_pbs))
    } else {
        return None;
    };
    let is_empty = seen.jobs.is_empty() && seen.nodes.is_empty();
    // A head and nothing below: the queue is empty. A partition may have 0 nodes.
    let says_none = || rows.iter().all(|row| row.raw(slurm::NODES) == Some("0"));
    (!is_empty || says_none()).then_some(seen)
}

/// Columns that the caller names, in a table that may have a head all the same.
fn named(lines: &[&str], names: &[String], given: Option<&str>) -> Table {
    let names: Vec<String> = names.iter().map(|name| plain(name)).collect();
    let bar = lines.first().filter(|line| line.contains('|')).map(|_| "|");
    let row = |line: &&str| match given.or(bar) {
        Some(separator) => record(&names, line.splitn(names.len().max(1), separator)),
        None => record(&names, between_blanks(line, names.len()).into_iter()),
    };
    (lines.iter().map(row).collect(), names)
}

fn record<'a>(names: &[String], cells: impl Iterator<Item = &'a str>) -> Record {
    let cells = names.iter().zip(cells);
    Record(
        cells
            .map(|(name, cell)| (name.clone(), cell.trim().to_owned()))
            .collect(),
    )
}

/// What is too much belongs to the last cell: names hold anything.
fn between_blanks(line: &str, count: usize) -> Vec<&str> {
    let words = words(line);
    let cell = |(at, word): (usize, &Word<'_>)| match at + 1 == count {
        true => &line[word.begin..],
        false => &line[word.begin..word.begin + word.text.len()],
    };
    words.iter().enumerate().take(count).map(cell).collect()
}

/// A head is looked for in so many lines: prompts, dates and greetings come before.
const HEAD_WITHIN: usize = 40;

/// The first table with a head.
fn headed(lines: &[&str], given: Option<&str>) -> Option<Table> {
    for at in 0..lines.len().min(HEAD_WITHIN) {
        let head = lines[at];
        // Of several clusters each has its head again.
        let is_row = |line: &&&str| **line != head && !line.starts_with("CLUSTER:");
        let below = |height: usize| lines[at + height..].iter().filter(is_row);
        if let Some(separator) = separator(head, given) {
            let names: Vec<String> = head.split(separator).map(plain).collect();
            let row = |line: &&str| record(&names, line.splitn(names.len(), separator));
            return Some((below(1).map(row).collect(), names));
        }
        let heads = words(head);
        let is_rule =
            |line: &&&str| line.contains("--") && line.bytes().all(|b| b"-= \t".contains(&b));
        if let Some(rule) = lines.get(at + 1).filter(is_rule) {
            let above = at.checked_sub(1).map(|above| lines[above]);
            let heads = ruled(above, &heads, &words(rule));
            return Some(aligned(&with_places(below(2)), heads));
        }
        let known = heads.iter().filter(|word| is_column(&plain(word.text)));
        let has_digits = heads.iter().any(|word| begins_with_digit(word.text));
        if heads.len() >= 2 && known.count() * 4 >= heads.len() * 3 && !has_digits {
            let head = |word: &Word<'_>| (plain(word.text), word.from, word.to);
            let rows: Vec<String> = below(1).map(|line| (*line).to_owned()).collect();
            return Some(aligned(&rows, heads.iter().map(head).collect()));
        }
    }
    None
}

fn begins_with_digit(word: &str) -> bool {
    word.starts_with(|c: char| c.is_ascii_digit())
}

/// The rows of a table under dashes, each with what `qstat -n` and `qstat -s` print below it. A list of places is broken at
/// its `+`.
fn with_places<'a>(lines: impl Iterator<Item = &'a &'a str>) -> Vec<String> {
    let mut rows: Vec<String> = Vec::new();
    for line in lines {
        let is_below = line.starts_with("   ") && !begins_with_digit(line.trim());
        match rows
            .last_mut()
            .filter(|row| is_below && !row.starts_with(' '))
        {
            Some(row) => {
                let is_broken = row.ends_with('+') || line.trim().starts_with('+');
                row.push_str(if is_broken { "" } else { " " });
                row.push_str(line.trim());
            }
            None => rows.push((*line).to_owned()),
        }
    }
    rows
}

/// What separates the cells of a head; `None` where it holds none, or is no head.
fn separator<'s>(head: &str, given: Option<&'s str>) -> Option<&'s str> {
    // A command line, not a head.
    if head.contains(['$', '\'', '"', '=', '{']) {
        return None;
    }
    let fits = |separator: &&str| {
        let cells: Vec<String> = head.split(separator).map(plain).collect();
        let known = cells.iter().filter(|name| is_column(name)).count();
        let named = cells.iter().filter(|name| !name.is_empty()).count();
        known >= 2 && known * 2 >= named
    };
    given
        .into_iter()
        .chain(["|", "\t", ",", ";", "^"])
        .find(fits)
}

/// A word of a line: its place in characters, and where it begins in bytes.
struct Word<'a> {
    text: &'a str,
    from: usize,
    to: usize,
    begin: usize,
}

fn words(line: &str) -> Vec<Word<'_>> {
    let mut at = 0;
    let mut words = Vec::new();
    for text in line.split_whitespace() {
        let begin = at + line[at..].find(text).unwrap_or(0);
        let from = line[..begin].chars().count();
        let to = from + text.chars().count();
        at = begin + text.len();
        words.push(Word {
            text,
            from,
            to,
            begin,
        });
    }
    words
}

/// A column: its name, where its head begins and where it ends.
type Head = (String, usize, usize);

/// Dashes below the head are as wide as the columns. What is above the head belongs to it (`Req'd` above `Time`).
fn ruled(above: Option<&str>, head: &[Word<'_>], rule: &[Word<'_>]) -> Vec<Head> {
    let is_upper = |word| is_one("Req'd Elap mem ncpus nmics ngpus", word);
    let above = above.filter(|line| line.split_whitespace().all(is_upper));
    // One word each, wherever a mail has moved them.
    let is_simple = above.is_none() && head.len() == rule.len();
    let above = above.map(words).unwrap_or_default();
    let name = |(column, dashes): (usize, &Word<'_>)| {
        let is_under = |word: &&Word<'_>| word.from < dashes.to && word.to > dashes.from;
        let under = above.iter().chain(head).filter(is_under);
        let name: String = if is_simple {
            head[column].text.to_owned()
        } else {
            under.map(|word| word.text).collect()
        };
        (plain(&name), dashes.from, dashes.to)
    };
    rule.iter().enumerate().map(name).collect()
}

/// The rows under heads. Where every row has a word that begins below a head, its column reaches to the next head; where one
/// ends below the head's end, it begins behind the former head.
fn aligned(lines: &[String], mut heads: Vec<Head>) -> Table {
    let rows: Vec<Vec<Word<'_>>> = lines.iter().map(|line| words(line)).collect();
    for column in 0..heads.len() {
        let (_, from, to) = heads[column];
        let left = rows
            .iter()
            .all(|row| row.iter().any(|word| word.from == from));
        let right = rows.iter().all(|row| row.iter().any(|word| word.to == to));
        if left && !right {
            let next = heads.get(column + 1);
            heads[column].2 = next.map_or(to, |next| next.1.saturating_sub(1).max(to));
        } else if right && !left {
            let former = column.checked_sub(1).map(|former| heads[former].2 + 1);
            heads[column].1 = former.unwrap_or(0).min(from);
        }
    }
    let names: Vec<String> = heads.iter().map(|head| head.0.clone()).collect();
    let row = |row: &Vec<Word<'_>>| record(&names, cells(row, &heads).iter().map(String::as_str));
    (rows.iter().map(row).collect(), names)
}

/// The words of a row under the heads: each goes to the nearest that is not left of the former word's. As many words as
/// columns need not be below their heads; `qstat -a` may have places behind them. What goes on to the right of the last head
/// belongs to it.
fn cells(words: &[Word<'_>], heads: &[Head]) -> Vec<String> {
    let state = heads.iter().position(|head| is_one(slurm::STATE, &head.0));
    let has_places = heads.last().is_some_and(|head| head.0 == "elaptime");
    let is_state_there = |at: usize| words.get(at).is_some_and(|word| is_state(word.text));
    let is_simple = words.len() == heads.len() || (has_places && words.len() > heads.len());
    if is_simple && state.is_none_or(is_state_there) {
        let text = |words: &[Word<'_>]| -> String {
            words
                .iter()
                .map(|word| word.text)
                .collect::<Vec<_>>()
                .join(" ")
        };
        let (all, rest) = words.split_at(heads.len() - 1);
        let cells = all.iter().map(|word| word.text.to_owned());
        return cells.chain([text(rest)]).collect();
    }
    // Behind a name with blanks there may be as many words as columns, from the state on.
    let behind = state.and_then(|at| Some((at, (words.len() + at).checked_sub(heads.len())?)));
    if let Some((at, word)) = behind.filter(|(at, word)| *at > 0 && word >= at)
        && is_state_there(word)
    {
        let before = cells(&words[..word], &heads[..at]).into_iter();
        let rest = words[word..].iter().map(|word| word.text.to_owned());
        return before.chain(rest).collect();
    }
    let mut cells = vec![String::new(); heads.len()];
    let mut least = 0;
    for word in words {
        let distance = |at: &usize| {
            let (_, from, to) = heads[*at];
            let is_wrong = Some(*at) == state && !(cells[*at].is_empty() && is_state(word.text));
            let right = if *at + 1 == heads.len() {
                0
            } else {
                word.from.saturating_sub(to)
            };
            (is_wrong, right.max(from.saturating_sub(word.to)))
        };
        least = (least..heads.len()).min_by_key(distance).unwrap_or(least);
        cells[least].push(' ');
        cells[least].push_str(word.text);
    }
    cells
}

/// Says whether a row is of a step (`7.batch`, `7.0`, `4574632.bat+`) or of nothing.
fn is_step(row: &Record, above: &[Record]) -> bool {
    let Some(id) = row.text(slurm::ID) else {
        let of_step = |name: &str| ["batch", "extern", "interactive"].contains(&name);
        return row.has(slurm::ID) || row.text(slurm::NAME).is_some_and(of_step);
    };
    // `2681683_420+`: the id of a step, cut at the width of the column.
    let is_above = |stem: &str| {
        let mut ids = above.iter().filter_map(|row| row.text(slurm::ID));
        ids.any(|id| stem.starts_with(id))
    };
    let is_cut = id.strip_suffix('+').is_some_and(is_above);
    id.contains('.') || !begins_with_digit(id) || is_cut
}

/// The jobs of a table. A requeued or shrunken job has several rows; the last one has its state.
fn jobs(rows: &[Record]) -> Vec<JobSeen> {
    let mut jobs: Vec<JobSeen> = Vec::new();
    for (at, row) in rows.iter().enumerate() {
        let Some(mut job) = slurm::job(row).filter(|_| !is_step(row, &rows[..at])) else {
            continue;
        };
        let ids = |job: &JobSeen| (job.job_id.clone(), job.het_id.clone());
        let known = jobs.iter_mut().find(|known| ids(known) == ids(&job));
        let Some(known) = known.filter(|_| job.job_id.is_some()) else {
            jobs.push(job);
            continue;
        };
        let again = ["preempted", "node_fail", "pending"].contains(&known.state.as_str())
            || known.raw_state.starts_with("REQUEUED");
        let restarts = known.restarts.unwrap_or(0) + u64::from(again);
        job.restarts = job
            .restarts
            .or(Some(restarts).filter(|restarts| *restarts > 0));
        *known = job;
    }
    jobs
}

/// The nodes of a table. One is listed once for each of its partitions, and not always in the same state: what it does counts
/// before rest.
fn nodes(rows: &[Record], is_pbs: bool) -> Vec<NodeSeen> {
    let is_host = |c: char| c.is_ascii_alphanumeric() || ".-_[],".contains(c);
    let is_name = |name: &str| {
        name.starts_with(|c: char| c.is_ascii_alphanumeric()) && name.chars().all(is_host)
    };
    let says_state = |row: &&Record| !row.has(slurm::STATE) || row.text(slurm::STATE).is_some();
    let mut nodes: Vec<NodeSeen> = Vec::new();
    for row in rows.iter().filter(says_state) {
        let node = if is_pbs {
            pbs::node_of_table(row)
        } else {
            slurm::node(row)
        };
        let Some(node) = node.filter(|node| is_name(&node.name)) else {
            continue;
        };
        match nodes.iter_mut().find(|known| known.name == node.name) {
            Some(known) if known.state == "idle" => *known = node,
            Some(_) => {}
            None => nodes.push(node),
        }
    }
    nodes
}
