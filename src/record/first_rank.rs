//! Which rank of an MPI program failed before the others, by what its launcher wrote into the job's output: `srun` of Slurm 22.05,
//! Open MPI's `mpirun` 4.1, `prterun` of Open MPI 5, Hydra of MPICH 4.0 and of Intel MPI.

use super::{Cause, CauseKind, ExitStatus, ending};

/// What stands between who failed and how.
pub(super) const FELL: &str = " failed first: ";
/// How a rank says that it does not start; the batch script has it.
const NOT_STARTED: &str = "dlrun: error: rank ";
/// What dlrun says where the nodes of a distributed training did not meet, before why.
pub const NOT_MET: &str = "the ranks are not started: ";
/// What dlrun says where a node is not fit for the command, before why.
pub const NOT_FIT: &str = "the command is not started: ";
/// `srun`'s words for signals, those of `strsignal(3)`; ` (core dumped)` may follow.
const SIGNALS: [(&str, i32); 7] = [
    ("Aborted", 6),
    ("Bus error", 7),
    ("Floating point exception", 8),
    ("Illegal instruction", 4),
    ("Killed", 9),
    ("Segmentation fault", 11),
    ("Terminated", 15),
];
/// Open MPI 4 without PMIx under `srun`.
const NO_PMIX: &str = "OMPI was not built with SLURM's PMI support";
const PMIX_HINT: &str = "srun gave Open MPI no PMIx; set SLURM_MPI_TYPE = \"pmix\" in `run.env` if `srun --mpi=list` has it";

/// What ended a run, by a line of a node's last words: the rank that failed first, or why some did not start.
pub(super) fn cause_in(line: &str) -> Option<Cause> {
    if let Some(at) = line.find(NOT_STARTED) {
        return Some(Cause::setup(&line[at + "dlrun: error: ".len()..]));
    }
    let why = |words| line.split_once(words).map(|(_, why)| why);
    if let Some(why) = why(NOT_MET).or_else(|| why(NOT_FIT)) {
        return Some(Cause::setup(why));
    }
    let is_rank = ["rank ", "ranks ", "a rank "]
        .iter()
        .any(|who| line.starts_with(who));
    (is_rank && line.contains(FELL)).then(|| Cause {
        kind: CauseKind::Program,
        text: line.to_owned(),
    })
}

/// Adds to the last words of an MPI program that failed which rank was first, with what was said last.
pub fn add_first_rank(words: &mut Vec<String>, tail: &str) {
    if words.last().is_some_and(|said| said.contains(NOT_STARTED)) {
        return;
    }
    let fell = first_rank_to_fall(tail).or_else(|| unreported_end(tail).map(str::to_owned));
    let hint = tail.contains(NO_PMIX).then(|| PMIX_HINT.to_owned());
    let said = hint.or_else(|| words.last().cloned());
    let said = said.map(|said| format!(": {said}")).unwrap_or_default();
    words.extend(fell.map(|fell| fell + &said));
}

/// A rank, or several of one node, and how it ended, for the end of a sentence.
struct Fallen {
    ranks: Option<String>,
    node: Option<String>,
    how: String,
}

/// `rank 3 on n2 failed first: it ended with exit code 7`; `None`: no launcher said so.
fn first_rank_to_fall(tail: &str) -> Option<String> {
    let lines: Vec<&str> = tail.lines().map(str::trim).collect();
    let mut is_ending = false;
    let mut all = lines.iter().enumerate();
    let mut fallen = all.find_map(|(at, line)| {
        is_ending |= ends_the_others(line);
        // Those that the launcher ends are not the cause.
        let of_srun = of_srun(line).filter(|one| !(is_ending && is_ended_by_it(&one.how)));
        of_srun
            .or_else(|| abort(&lines[at..]))
            .or_else(|| of_mpirun(&lines[at..]))
            .or_else(|| of_hydra(&lines[at..]))
    })?;
    if let (None, Some(rank)) = (&fallen.node, &fallen.ranks) {
        let of_rank = |line: &&str| {
            let ended = of_srun(line)?;
            covers(ended.ranks.as_deref()?, rank).then_some(ended.node)?
        };
        fallen.node = lines.iter().find_map(of_rank);
    }
    let who = match &fallen.ranks {
        None => "a rank".to_owned(),
        Some(ranks) if ranks.contains([',', '-']) => format!("ranks {ranks}"),
        Some(rank) => format!("rank {rank}"),
    };
    let place = fallen.node.map(|node| format!(" on {node}"));
    let place = place.unwrap_or_default();
    Some(format!("{who}{place}{FELL}{}", fallen.how))
}

/// Whether a list of ranks (`0-2,5`) has this one.
fn covers(list: &str, rank: &str) -> bool {
    let Ok(rank) = rank.parse::<u32>() else {
        return false;
    };
    list.split(',').any(|part| {
        let (first, last) = part.split_once('-').unwrap_or((part, part));
        let (first, last) = (first.parse::<u32>(), last.parse::<u32>());
        first.is_ok_and(|first| first <= rank) && last.is_ok_and(|last| rank <= last)
    })
}

/// The line that shows that ranks did not run to their end though `srun` may return 0: a task that was not launched, a step of `job`
/// that somebody cancelled. What has a reason (`DUE TO TIME LIMIT`) is the job's end, which Slurm reports itself. Only Slurm's lines at the
/// end of the output count: a program that printed more after them went on, whatever they were about, such as another step; nor
/// does another step than the first, with which a program may have helped itself.
#[must_use]
pub fn unreported_end(tail: &str) -> Option<&str> {
    let is_it = |line: &&str| not_launched(line).is_some() || is_step_cancelled(line);
    tail.lines()
        .map(str::trim)
        .rev()
        .take_while(|line| is_of_slurm(line))
        .find(is_it)
}

/// Whether Slurm wrote a line; an empty one is nobody's.
fn is_of_slurm(line: &str) -> bool {
    line.is_empty() || line.starts_with("srun: ") || line.starts_with("slurmstepd")
}

/// `slurmstepd-n1: error: *** STEP 12.0 ON n1 CANCELLED AT 2026-11-27T02:08:18 ***`
fn is_step_cancelled(line: &str) -> bool {
    let message = line.split_once(": error: *** STEP ").map(|(_, rest)| rest);
    line.starts_with("slurmstepd")
        && message.is_some_and(|rest| {
            rest.split(' ')
                .next()
                .is_some_and(|step| step.ends_with(".0"))
                && rest.contains(" CANCELLED AT ")
                && !rest.to_ascii_uppercase().contains(" DUE TO ")
        })
}

fn ends_the_others(line: &str) -> bool {
    line.starts_with("srun: Job step aborted")
        || line.starts_with("srun: launch/slurm: _step_signal: Terminating")
        || line.starts_with("srun: Terminating")
        || line.starts_with("slurmstepd") && line.contains(" CANCELLED AT ")
}

fn is_ended_by_it(how: &str) -> bool {
    how.ends_with("SIGKILL") || how.ends_with("SIGTERM")
}

/// `srun: error: task 3 launch failed: Unspecified error`
fn not_launched(line: &str) -> Option<Fallen> {
    let (rank, why) = line
        .strip_prefix("srun: error: task ")?
        .split_once(" launch failed: ")?;
    let rank = rank.parse::<u32>().ok()?;
    Some(Fallen {
        ranks: Some(rank.to_string()),
        node: None,
        how: format!("it was not launched: {why}"),
    })
}

/// `srun: error: n2: task 3: Exited with exit code 7`, `srun: error: n1: tasks 0-2: Terminated`
fn of_srun(line: &str) -> Option<Fallen> {
    let message = line.strip_prefix("srun: error: ")?;
    let mut parts = message.splitn(3, ": ");
    let (Some(node), Some(ranks), Some(how)) = (parts.next(), parts.next(), parts.next()) else {
        return not_launched(line);
    };
    let Some(list) = ranks
        .strip_prefix("task ")
        .or_else(|| ranks.strip_prefix("tasks "))
    else {
        return not_launched(line);
    };
    let code = how.strip_prefix("Exited with exit code ");
    let signal = SIGNALS.iter().find(|(words, _)| how.starts_with(words));
    let exit = match (code, signal) {
        (Some(code), _) => code.parse().ok().map(ExitStatus::Code),
        (None, signal) => signal.map(|(_, signal)| ExitStatus::Signal(*signal)),
    };
    let how = exit.map_or_else(|| format!("ended: {how}"), ending);
    let how = match ranks.starts_with("tasks ") {
        true => format!("they {}", how.replace("was ended", "were ended")),
        false => format!("it {how}"),
    };
    Some(Fallen {
        ranks: Some(list.to_owned()),
        node: Some(node.to_owned()),
        how,
    })
}

/// `MPI_ABORT was invoked on rank 2 in communicator MPI_COMM_WORLD`, on the next line `with errorcode 9.`;
/// `Abort(9) on node 3 (rank 3 in comm 0): application called MPI_Abort(MPI_COMM_WORLD, 9) - process 3`
fn abort(lines: &[&str]) -> Option<Fallen> {
    let first = lines.first()?;
    let (rank, code) = if let Some(rest) = first.strip_prefix("MPI_ABORT was invoked on rank ") {
        let (rank, comm) = rest.split_once(" in communicator ")?;
        let two = format!("{comm} {}", lines.get(1).unwrap_or(&""));
        let code = two.strip_prefix("MPI_COMM_WORLD")?.to_ascii_lowercase();
        (
            rank,
            code.split_once("errorcode")
                .map(|(_, code)| code.trim_matches([' ', '.', ':']).to_owned()),
        )
    } else {
        let (code, rest) = first.strip_prefix("Abort(")?.split_once(") on node ")?;
        let (rank, said) = rest.split_once(' ')?;
        said.contains("application called MPI_Abort")
            .then_some((rank, Some(code.to_owned())))?
    };
    let code = code.and_then(|code| code.split_whitespace().next()?.parse::<i32>().ok());
    let code = code
        .map(|code| format!(" with code {code}"))
        .unwrap_or_default();
    Some(Fallen {
        ranks: Some(rank.parse::<u32>().ok()?.to_string()),
        node: None,
        how: format!("it called MPI_Abort{code}"),
    })
}

/// `mpirun noticed that process rank 1 with PID 7 on node n2 exited on signal 9 (Killed).`; with an exit code, two lines behind
/// `mpirun detected that one or more processes exited with non-zero status`: `Process name: [[19984,1],1]`, `Exit code:    7`
fn of_mpirun(lines: &[&str]) -> Option<Fallen> {
    let first = lines.first()?;
    if let Some((_, rest)) = first.split_once(" noticed that process rank ") {
        let (rank, rest) = rest.split_once(" with PID ")?;
        let (node, how) = rest.split_once(" on node ")?.1.split_once(' ')?;
        let signal = how.strip_prefix("exited on signal ")?;
        let signal = signal.split([' ', '.']).next()?.parse().ok()?;
        return Some(Fallen {
            ranks: Some(rank.to_owned()),
            node: Some(node.to_owned()),
            how: format!("it {}", ending(ExitStatus::Signal(signal))),
        });
    }
    let name = first.strip_prefix("Process name: [")?;
    let rank = name.trim_end_matches(']').rsplit(',').next()?;
    let code = lines
        .get(1)?
        .strip_prefix("Exit code:")?
        .trim()
        .parse()
        .ok()?;
    Some(Fallen {
        ranks: Some(rank.parse::<u32>().ok()?.to_string()),
        node: None,
        how: format!("it {}", ending(ExitStatus::Code(code))),
    })
}

/// `=   BAD TERMINATION OF ONE OF YOUR APPLICATION PROCESSES`, then `=   PID 77 RUNNING AT n2` (Intel MPI: `=   RANK 2 PID 77 RUNNING AT
/// n2`) and `=   KILLED BY SIGNAL: 9 (Killed)`, or `=   EXIT CODE: 9` and further below the signal, where it was one.
fn of_hydra(lines: &[&str]) -> Option<Fallen> {
    lines
        .first()
        .filter(|line| line.contains("BAD TERMINATION OF ONE OF YOUR APPLICATION PROCESSES"))?;
    let after = |key: &str| {
        lines
            .iter()
            .take(12)
            .find_map(|line| Some(line.split_once(key)?.1))
    };
    let number = |text: &str| text.split([' ', ')']).next()?.parse::<i32>().ok();
    let signal = after("KILLED BY SIGNAL: ").or_else(|| {
        after("EXIT STRING: ")?
            .split_once("(signal ")
            .map(|(_, rest)| rest)
    });
    let exit = match signal {
        Some(signal) => ExitStatus::Signal(number(signal)?),
        None => ExitStatus::Code(number(after("EXIT CODE: ")?)?),
    };
    // Those that Hydra ends itself, with which it may begin.
    if matches!(exit, ExitStatus::Signal(9 | 15)) {
        return None;
    }
    Some(Fallen {
        ranks: after("=   RANK ")
            .and_then(number)
            .map(|rank| rank.to_string()),
        node: after(" RUNNING AT ").map(|node| node.trim().to_owned()),
        how: format!("it {}", ending(exit)),
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::record::last_words;

    const STEP: &str =
        "slurmstepd-n1: error: *** STEP 70002.0 ON n1 CANCELLED AT 2026-11-27T02:08:18 ***";

    #[test]
    fn first_rank_is_named_by_every_launcher() {
        for (text, expected) in [
            (
                format!(
                    "rank 1 of 4 on n1 sum 6\nsrun: error: n2: task 3: Killed\nsrun: launch/slurm: _step_signal: Terminating \
                     StepId=70002.0\n{STEP}\nsrun: error: n1: tasks 0-2: Terminated\nsrun: Force Terminated StepId=70002.0\n"
                ),
                "rank 3 on n2 failed first: it was ended by SIGKILL",
            ),
            (
                format!(
                    "srun: error: n2: task 3: Exited with exit code 7\nsrun: launch/slurm: _step_signal: Terminating \
                     StepId=70002.1\n{STEP}\nsrun: error: n1: tasks 0-2: Terminated\n"
                ),
                "rank 3 on n2 failed first: it ended with exit code 7",
            ),
            (
                "srun: error: n2: tasks 2-3: Exited with exit code 1\n".to_owned(),
                "ranks 2-3 on n2 failed first: they ended with exit code 1",
            ),
            (
                format!(
                    "Abort(9) on node 3 (rank 3 in comm 0): application called MPI_Abort(MPI_COMM_WORLD, 9) - process 3\n{STEP}\n\
                     srun: Job step aborted: Waiting up to 7 seconds for job step to finish.\nsrun: error: n2: tasks 2-3: Killed\n\
                     srun: error: n1: tasks 0-1: Killed\n"
                ),
                "rank 3 on n2 failed first: it called MPI_Abort with code 9",
            ),
            (
                format!(
                    "MPI_ABORT was invoked on rank 2 in communicator MPI_COMM_WORLD\nwith errorcode 9.\n\nsrun: Job step aborted: \
                     Waiting up to 7 seconds for job step to finish.\n{STEP}\nsrun: error: n2: task 3: Killed\n\
                     srun: error: n1: tasks 0-1: Killed\nsrun: error: n1: task 2: Exited with exit code 9\n"
                ),
                "rank 2 on n1 failed first: it called MPI_Abort with code 9",
            ),
            (
                "srun: error: n1: tasks 0-1: Segmentation fault (core dumped)\n".to_owned(),
                "ranks 0-1 on n1 failed first: they were ended by SIGSEGV",
            ),
            (
                "srun: error: n1: task 0: Out Of Memory\n".to_owned(),
                "rank 0 on n1 failed first: it ended: Out Of Memory",
            ),
            (
                "srun: error: task 3 launch failed: Unspecified error\n".to_owned(),
                "rank 3 failed first: it was not launched: Unspecified error",
            ),
            (
                "mpirun.openmpi noticed that process rank 1 with PID 0 on node n2 exited on signal 9 (Killed).\n".to_owned(),
                "rank 1 on n2 failed first: it was ended by SIGKILL",
            ),
            (
                "mpirun detected that one or more processes exited with non-zero status, thus causing\nthe job to be terminated. \
                 The first process to do so was:\n\n  Process name: [[19984,1],1]\n  Exit code:    7\n"
                    .to_owned(),
                "rank 1 failed first: it ended with exit code 7",
            ),
            (
                "   Process name: [prterun-n1-123@1,3]\n   Exit code:    7\n".to_owned(),
                "rank 3 failed first: it ended with exit code 7",
            ),
            (
                "=   BAD TERMINATION OF ONE OF YOUR APPLICATION PROCESSES\n=   PID 23429 RUNNING AT n2\n=   EXIT CODE: 9\n\
                 =   CLEANING UP REMAINING PROCESSES\nYOUR APPLICATION TERMINATED WITH THE EXIT STRING: Segmentation fault (signal 11)\n"
                    .to_owned(),
                "a rank on n2 failed first: it was ended by SIGSEGV",
            ),
            (
                "=   BAD TERMINATION OF ONE OF YOUR APPLICATION PROCESSES\n=   RANK 2 PID 77 RUNNING AT n2\n\
                 =   KILLED BY SIGNAL: 11 (Segmentation fault)\n"
                    .to_owned(),
                "rank 2 on n2 failed first: it was ended by SIGSEGV",
            ),
        ] {
            assert_eq!(first_rank_to_fall(&text).as_deref(), Some(expected), "{text}");
        }
    }

    #[test]
    fn node_that_did_not_come_is_the_cause() {
        let line =
            format!("error: {NOT_MET}n3 did not come to the meeting of the nodes within 10 s");
        let said = format!("{line}\nsrun: error: n1: task 0: Exited with exit code 69\n");
        let words = last_words(said.as_bytes(), ExitStatus::Code(69));
        let cause = cause_in(words.last().expect("a line")).expect("a cause");
        let expected =
            "dlrun could not start it: n3 did not come to the meeting of the nodes within 10 s";
        assert_eq!((cause.kind, &*cause.text), (CauseKind::Setup, expected));
        assert!(last_words(said.as_bytes(), ExitStatus::Code(1)).is_empty());
    }

    #[test]
    fn ranks_that_their_launcher_ended_are_not_the_cause() {
        for text in [
            "=   BAD TERMINATION OF ONE OF YOUR APPLICATION PROCESSES\n=   PID 7 RUNNING AT n2\n=   EXIT CODE: 9\n\
             YOUR APPLICATION TERMINATED WITH THE EXIT STRING: Killed (signal 9)\n"
                .to_owned(),
            format!("srun: Job step aborted: Waiting up to 7 seconds for job step to finish.\n{STEP}\nsrun: error: n1: tasks 0-2: Killed\n"),
            format!("{STEP}\nsrun: error: n2: task 3: Terminated\n"),
            format!(
                "{} DUE TO TIME LIMIT ***\nsrun: error: n1: tasks 0-3: Terminated\n",
                STEP.trim_end_matches(" ***")
            ),
            "Abort(15) on node 0 (rank 0 in comm 0): Fatal error in PMPI_Allreduce: Unknown error class\n".to_owned(),
            "srun: error: Unable to create step for job 7: Invalid account\n".to_owned(),
            "task 3: Exited with exit code 7\n".to_owned(),
            String::new(),
        ] {
            assert_eq!(first_rank_to_fall(&text), None, "{text}");
        }
    }

    #[test]
    fn end_that_srun_may_not_report_is_seen_in_its_output() {
        let failed = "srun: error: task 0 launch failed: Unspecified error";
        assert_eq!(unreported_end(&format!("a\n{failed}\n")), Some(failed));
        let stepd = "srun: error: n1: tasks 0-2: Killed";
        let text = format!("a\n{STEP}\n{stepd}\n\n");
        assert_eq!(unreported_end(&text), Some(STEP));
        for text in [
            &*format!("a\n{STEP}\nb\n"),
            &format!("{failed}\nsecond try\nepoch 1\n"),
            "slurmstepd-n1: error: *** STEP 12.1 ON n1 CANCELLED AT 2026-11-27T02:08:18 ***",
            "slurmstepd: error: *** STEP 7.0 ON n1 CANCELLED AT 2026-11-27T02:08:18 DUE TO TIME LIMIT ***",
            "slurmstepd: error: *** JOB 7 ON n1 CANCELLED AT 2026-11-27T02:08:18 ***",
            "print: error: *** STEP 7.0 ON n1 CANCELLED AT 2026-11-27T02:08:18 ***",
            "task 0 launch failed: x",
            "",
        ] {
            assert_eq!(unreported_end(text), None, "{text}");
        }
    }
}
