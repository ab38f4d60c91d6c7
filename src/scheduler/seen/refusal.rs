//! Refusals and failures: which kind they are, and what they mean. The words are those of [`refusal`].

use super::RefusalSeen;
use crate::scheduler::refusal::{self, Fault};

/// Commands that begin their complaints with their name.
const SLURM: [&str; 8] = ["sbatch", "srun", "salloc", "squeue", "sacct", "sinfo", "scontrol", "scancel"];
const PBS: [&str; 11] =
    ["qsub", "qstat", "qdel", "qhold", "qrls", "qalter", "qrerun", "qsig", "qmgr", "pbsnodes", "pbs_iff"];

/// The kind of a refusal, with the name of the scheduler, from whatever its program printed.
pub(super) fn classify(text: &str) -> Option<(&'static str, RefusalSeen)> {
    let said: Vec<(&str, Option<&'static str>)> = text.lines().map(|line| (line, speaker(line))).collect();
    let is_of_tool = said.iter().any(|(_, speaker)| speaker.is_some());
    let known = if is_of_tool { refusal::fault(text) } else { refusal::fault_of_sentence(text) };
    let (words, fault) = match known {
        Some(known) => known,
        // A command refused, for a reason that is not known.
        None if is_of_tool => ("", Fault::Other),
        None => return None,
    };
    let of_fault = |line: &&(&str, Option<&str>)| line.0.to_lowercase().contains(words);
    let of_tool = |line: &&(&str, Option<&str>)| line.1.is_some();
    let line = said.iter().find(|line| if words.is_empty() { of_tool(line) } else { of_fault(line) });
    let line = line.map_or(text, |(line, _)| *line);
    let words = line.trim().chars().take(500).collect();
    let scheduler = said.iter().find_map(|(_, speaker)| *speaker).unwrap_or(refusal::speaker_of(fault, line));
    let error_class = fault.class(scheduler);
    Some((
        scheduler,
        RefusalSeen { error_class, transient: fault == Fault::Busy, meaning: fault.meaning(), words },
    ))
}

/// Whose complaint a line is: `sbatch: error: ..`, `qsub: ..`, `slurm_load_jobs error: ..`.
fn speaker(line: &str) -> Option<&'static str> {
    let (before, said) = line.split_once(": ")?;
    let tool = before.rsplit(['/', ' ', '$']).find(|word| !word.is_empty())?;
    let of_slurm = SLURM.contains(&tool) && !is_news(said)
        || before.starts_with("slurm_")
        || before.ends_with("Unable to allocate resources")
        || before.ends_with("Batch job submission failed");
    if of_slurm || (before.ends_with(" error") && before.starts_with("slurm")) {
        return Some("slurm");
    }
    (PBS.contains(&tool) && !is_news(said)).then_some("pbs")
}

/// What is no complaint: `qsub: waiting for job 7.srv to start`, `srun: job 7 queued and waiting for resources`, and that a
/// program ended (`srun: error: n1: task 0: Exited with exit code 1`).
fn is_news(said: &str) -> bool {
    if said.contains(": Exited with exit code") || said.starts_with("Terminating job step") {
        return true;
    }
    [
        "waiting for job",
        "job ",
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
