//! Which rank of a PyTorch program failed before the others, by what `torchrun` 2.x wrote into the job's output.

use super::first_rank::FELL;
use super::{ExitStatus, ending, last_words};

/// Adds to the last words of a program that `torchrun` started which rank it saw fail first, with that rank's own last words. Those of
/// others, which lost their connection to it, would name a fault of the network.
pub fn add_root_cause(words: &mut Vec<String>, tail: &str) {
    let Some((_, block)) = tail.rsplit_once("Root Cause (first observed failure):") else {
        return;
    };
    // What failed after it is the cause.
    if block.contains("Traceback (most recent call last):") {
        return;
    }
    let number = |key: &str| {
        let mut lines = block.lines().map(str::trim);
        let value =
            lines.find_map(|line| line.strip_prefix(key)?.trim_start().strip_prefix(':'))?;
        value.split_whitespace().next()?.parse::<i32>().ok()
    };
    let Some((rank, code)) = number("rank").zip(number("exitcode")) else {
        return;
    };
    let exit = match code {
        ..0 => code.checked_neg().map(ExitStatus::Signal),
        _ => Some(ExitStatus::Code(code)),
    };
    let Some(exit) = exit else {
        return;
    };
    let is_killed = matches!(exit, ExitStatus::Signal(_));
    // PyTorch 2.3 and later mark the lines of tracebacks. Of a rank that was killed they are of an earlier start.
    let mark = format!("[rank{rank}]: ");
    let own = tail.lines().filter_map(|line| line.strip_prefix(&mark));
    let own: Vec<&str> = own.filter(|_| !is_killed).collect();
    let own = last_words(own.join("\n").as_bytes(), exit);
    let said = own.last().map(|said| format!(": {said}"));
    if said.is_some() || is_killed {
        *words = own;
    }
    let said = said.unwrap_or_default();
    words.push(format!("rank {rank}{FELL}it {}{said}", ending(exit)));
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn torchruns_root_cause_is_not_its_victim() {
        let tail = |exit: &str| {
            format!(
                "[rank2]: Traceback (most recent call last):\n[rank2]:   File \"train.py\", line 39, in <module>\n\
                 [rank2]: ValueError: bad sample\n[rank0]: Traceback (most recent call last):\n\
                 [rank0]:   File \"train.py\", line 50, in <module>\n[rank0]: RuntimeError: Connection closed by peer\n\
                 train.py FAILED\nFailures:\n[1]:\n  rank      : 0 (local_rank: 0)\n  exitcode  : -15 (pid: 7)  (SIGTERM)\n\
                 Root Cause (first observed failure):\n[0]:\n  time      : 2026-11-30_12:20:39\n  host      : localhost\n  \
                 rank      : 2 (local_rank: 2)\n  exitcode  : {exit} (pid: 21563) \n  error_file: <N/A>\n"
            )
        };
        let words = |exit: &str| {
            let tail = tail(exit);
            let mut words = last_words(tail.as_bytes(), ExitStatus::Code(1));
            assert_eq!(
                words.last().map(|line| line.contains("closed by peer")),
                Some(true)
            );
            add_root_cause(&mut words, &tail);
            words
        };
        let failed = "rank 2 failed first: it ended with exit code 1: ValueError: bad sample";
        assert_eq!(words("1").last().map(String::as_str), Some(failed));
        assert_eq!(words("1").len(), 4, "with its traceback");
        let mut killed = Vec::new();
        let unmarked = tail("-9").replace("[rank2]: ", "");
        add_root_cause(&mut killed, &unmarked);
        assert_eq!(killed, ["rank 2 failed first: it was ended by SIGKILL"]);
        // What failed behind it is the cause, and a number that is no exit code none.
        for after in ["Traceback (most recent call last):\nKeyError: 3\n", ""] {
            let exit = if after.is_empty() { "-2147483648" } else { "1" };
            let mut words = vec!["KeyError: 3".to_owned()];
            add_root_cause(&mut words, &(tail(exit) + after));
            assert_eq!(words[0], "KeyError: 3");
        }
        let mut words = vec!["KeyError: 3".to_owned()];
        add_root_cause(&mut words, "KeyError: 3\n");
        assert_eq!(words, ["KeyError: 3"]);
    }
}
