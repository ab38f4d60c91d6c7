//! Refusals and failures: which kind they are, and what they mean. The words are those of [`refusal`].

use super::RefusalSeen;
use crate::scheduler::refusal::{self, Fault};

/// Commands that begin their complaints with their name.
const SLURM: [&str; 8] = [
    "sbatch", "srun", "salloc", "squeue", "sacct", "sinfo", "scontrol", "scancel",
];
const PBS: [&str; 11] = [
    "qsub", "qstat", "qdel", "qhold", "qrls", "qalter", "qrerun", "qsig", "qmgr", "pbsnodes",
    "pbs_iff",
];

/// The kind of a refusal, with the name of the scheduler, from whatever its program printed.
pub(super) fn classify(text: &str) -> Option<(&'static str, RefusalSeen)> {
    let said: Vec<(&str, Option<Speech<'_>>)> =
        text.lines().map(|line| (line, speech(line))).collect();
    let spoken: Vec<&str> = said
        .iter()
        .filter_map(|(_, speech)| speech.map(|(_, said)| said))
        .collect();
    let is_of_tool = !spoken.is_empty();
    // What a command printed counts before what is around it.
    let known = refusal::fault(&spoken.join("\n"));
    let (words, fault) = match known.or_else(|| refusal::fault_of_sentence(text)) {
        Some(known) => known,
        // A command refused, for a reason that is not known.
        None if is_of_tool => ("", Fault::named("other")?),
        None => return None,
    };
    let of_fault = |line: &&(&str, Option<Speech<'_>>)| line.0.to_lowercase().contains(words);
    let of_tool = |line: &&(&str, Option<Speech<'_>>)| line.1.is_some();
    let line = said.iter().find(|line| {
        if words.is_empty() {
            of_tool(line)
        } else {
            of_fault(line)
        }
    });
    let line = line.map_or(text, |(line, _)| *line);
    let words = line.trim().chars().take(500).collect();
    let scheduler = said
        .iter()
        .find_map(|(_, speech)| *speech)
        .map_or(refusal::speaker_of(fault, line), |(whose, _)| whose);
    let error_class = fault.class(scheduler);
    let limit = refusal::named_limit(line).filter(|_| fault.name == "policy");
    let meaning = limit.map_or(fault.meaning, |(_, meaning)| meaning);
    Some((
        scheduler,
        RefusalSeen {
            error_class,
            transient: fault.name == "busy",
            meaning,
            words,
        },
    ))
}

/// Whose words, and what they are.
type Speech<'a> = (&'static str, &'a str);

/// A complaint in a line, maybe behind the words of another program.
fn speech(line: &str) -> Option<Speech<'_>> {
    line.match_indices(": ").find_map(|(at, _)| {
        let said = &line[at + 2..];
        Some((speaker(&line[..at], said)?, said))
    })
}

/// Whose complaint a line is: `sbatch: error: ..`, `qsub: ..`, `slurm_load_jobs error: ..`.
fn speaker(before: &str, said: &str) -> Option<&'static str> {
    let tool = before
        .rsplit(['/', ' ', '$', '\'', '"'])
        .find(|word| !word.is_empty())?;
    let of_slurm = SLURM.contains(&tool) && !is_news(said)
        || before.starts_with("slurm_")
        || before.ends_with("Unable to allocate resources")
        || before.ends_with("Batch job submission failed");
    if of_slurm
        || (before.ends_with(" error") && before.starts_with("slurm") && !before.contains(':'))
    {
        return Some("slurm");
    }
    (PBS.contains(&tool) && !is_news(said)).then_some("pbs")
}

/// What is no complaint: `qsub: waiting for job 7.srv to start`, `srun: job 7 queued and waiting for resources`, and that a
/// program ended (`srun: error: n1: task 0: Exited with exit code 1`).
fn is_news(said: &str) -> bool {
    let of_task = |rest: &str| {
        rest.trim_start_matches(['s', ' '])
            .starts_with(|c: char| c.is_ascii_digit())
    };
    if said.split(": task").skip(1).any(of_task) || said.starts_with("Terminating job step") {
        return true;
    }
    [
        "waiting for job",
        "job ",
        "Job step aborted",
        "Force Terminated",
        "Pending job",
        "Granted job",
        "Submitted ",
        "Relinquishing",
        "Nodes ",
        "debug",
    ]
    .iter()
    .any(|news| said.starts_with(news))
}
