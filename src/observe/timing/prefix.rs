//! What launchers and collectors write before a line of the program: which rank wrote it, and when.
//!
//! ```text
//! [1,0]<stdout>:Epoch 1/5                                  mpirun --tag-output, horovodrun
//! [prterun-host-1234@1,0]<stdout>: Epoch 1/5               Open MPI 5
//! [0] Epoch 1/5                                            mpiexec -l, -prepend-rank
//! [default0]:Epoch 1/5        [trainer0|0]:Epoch 1/5       torchrun --tee
//! [rank0]: Epoch 1/5    [RANK 3] Epoch 1/5    Rank 3: Epoch 1/5    (rank 3) Epoch 1/5    loggers of ranks
//! 0: Epoch 1/5                                             srun --label
//! worker-0: Epoch 1/5         10.0.0.1: Epoch 1/5          pdsh, as DeepSpeed starts it
//! (RayTrainWorker pid=1234, ip=10.0.0.1) Epoch 1/5         Ray
//! trainer-1  | Epoch 1/5                                   docker compose
//! 2024-01-31T10:00:00.123456789Z Epoch 1/5                 kubectl logs --timestamps, docker logs -t
//! Jan 31 10:00:00 Epoch 1/5                                ts of moreutils
//! [2024-01-31 10:00:00] Epoch 1/5
//! # Epoch 1/5        > Epoch 1/5                           comments of a script, quotations
//! ```
//!
//! A mark counts as one only in a form that ordinary output hardly has: `loss: 0.5` and `top1: 70` are no hosts.

use std::sync::LazyLock;

use regex_lite::Regex;

use super::scan;

/// The marks of launchers, each in a group; a number in brackets, the first, must stand before a word or another mark.
static MARK: LazyLock<Regex> = LazyLock::new(|| {
    let mark = r"(?x)^\s*(?:
        \[(\d{1,4})\]\ [A-Z\[:]
        | \[([^\]]{1,100})\]<std(?:out|err|diag)>:
        | \[([A-Za-z_-]{2,}\d[\d|]*)\]:
        | [\[(]((?i:global.rank|local.rank|rank|process|gpu)[\ :=_\#]*\d+)[\])]:?\ [-|\ ]*
        | ((?i:global.rank|local.rank|rank)[\ :=_\#]*\d+)\s*[:|>]\ [-|\ ]*
        | \(((?:[^)]*\ )?pid=\d[^)]{0,80})\)\x20
        | (\d{1,6}):\x20
        | ((?:worker|node|host|compute|nid|rank|gpu|dgx|server|cn|gn|proc|process|slave|pod)\d+):\x20
        | ([a-z\d.-]{2,}-\d+|\d{1,3}(?:\.\d{1,3}){3}|[a-z][a-z-]*\d[a-z\d-]*(?:\.[a-z\d-]+){2,}):\x20
        | ([a-z\d_-]{1,56}[_-]\d+)\ +\|\x20
        )";
    Regex::new(mark).expect("a tested expression")
});

/// The time that a collector wrote before a line. TensorFlow has a letter and a blank behind its colon, which those who know
/// it want to see.
static TIME: LazyLock<Regex> = LazyLock::new(|| {
    let date = r"\d{4}-\d\d-\d\d[T ]\d\d:\d\d:\d\d[\d.,]*Z?(?:[+-][\d:]{4,5})?";
    let month = "(?:Jan|Feb|Mar|Apr|May|Jun|Jul|Aug|Sep|Oct|Nov|Dec)";
    let time = format!(
        r"^\s*(?:{date}(?: |: (?:()\S\S|.?$))|\[{date}\] |{month} +\d+ \d+:\d\d:\d\d(?:\.\d+)? )"
    );
    Regex::new(&time).expect("a tested expression")
});

/// Names of counters, which are no roles of processes.
const COUNTERS: &str = "epoch|ep|step|iter|it|batch|stage|fold";

/// Splits off a rank's mark and the times around it; the mark is that of the rank, without what surrounds it.
pub(super) fn split(text: &str) -> (Option<&str>, &str) {
    let text = text
        .strip_prefix("# ")
        .or_else(|| text.strip_prefix("> "))
        .unwrap_or(text);
    let text = without_time(text);
    match mark(text) {
        Some((mark, rest)) => (Some(mark), without_time(rest)),
        None => (None, text),
    }
}

fn mark(text: &str) -> Option<(&str, &str)> {
    let groups = MARK.captures(text)?;
    let mut marks = groups.iter().enumerate().skip(1);
    let (kind, mark) = marks.find_map(|(kind, mark)| Some((kind, mark?.as_str())))?;
    let is_number = kind == 1;
    let rest = &text[groups.get(0)?.end() - usize::from(is_number)..];
    let name = mark.trim_end_matches(|c: char| c.is_ascii_digit() || c == '|');
    // Rounds of boosting stand in brackets too, as do epochs of MXNet for R; CatBoost begins its lines with the round.
    let counts = scan::is_any(name, COUNTERS)
        || is_number && (rest.starts_with("Train-") || rest.starts_with("Validation-"))
        || name.is_empty() && rest.contains("remaining: ");
    (!counts).then_some((mark, rest))
}

/// Whether a mark is that of the first rank: `0`, `rank 0`, `1,0`, `trainer0|0`.
pub(super) fn is_first(mark: &str) -> bool {
    let name = mark.trim_end_matches(|c: char| c.is_ascii_digit());
    &mark[name.len()..] == "0"
}

fn without_time(text: &str) -> &str {
    let Some(groups) = TIME.captures(text) else {
        return text;
    };
    let end = groups
        .get(1)
        .or(groups.get(0))
        .map_or(0, |group| group.end());
    &text[end..]
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn marks_of_launchers_are_split_off() {
        for (line, mark, rest) in [
            ("[1,0]<stdout>:Train", "1,0", "Train"),
            ("[1,12]<stderr>: Train", "1,12", " Train"),
            (
                "[prterun-n1-1234@1,0]<stdout>: Train",
                "prterun-n1-1234@1,0",
                " Train",
            ),
            ("[0]<stdout>:Train", "0", "Train"),
            ("[default3]:Train", "default3", "Train"),
            ("[rank0]: Train", "rank0", " Train"),
            ("[0] Epoch 1/5", "0", "Epoch 1/5"),
            ("[trainer0|0]:Epoch 1/5", "trainer0|0", "Epoch 1/5"),
            ("[worker1]:Epoch 1/5", "worker1", "Epoch 1/5"),
            ("[RANK 3] Epoch 1/5", "RANK 3", "Epoch 1/5"),
            ("[Rank 3]: Epoch 1/5", "Rank 3", "Epoch 1/5"),
            ("Rank 3: Epoch 1/5", "Rank 3", "Epoch 1/5"),
            ("(rank 3) Epoch 1/5", "rank 3", "Epoch 1/5"),
            ("[GPU0] Epoch 1/5", "GPU0", "Epoch 1/5"),
            ("[3] :::MLLOG {", "3", ":::MLLOG {"),
            (" 2: Train", "2", "Train"),
            ("worker-0: Train", "worker-0", "Train"),
            ("node017: Train", "node017", "Train"),
            ("10.0.0.1: Train", "10.0.0.1", "Train"),
            ("gpu3.hpc.example: Train", "gpu3.hpc.example", "Train"),
            (
                "(RayTrainWorker pid=12, ip=10.0.0.1) Train",
                "RayTrainWorker pid=12, ip=10.0.0.1",
                "Train",
            ),
            ("(pid=12) Train", "pid=12", "Train"),
            ("trainer-1  | Epoch 1/5", "trainer-1", "Epoch 1/5"),
            (
                "2024-01-31T10:00:00.123456789Z [1,0]<stdout>:Train",
                "1,0",
                "Train",
            ),
            ("0: 2024-01-31 10:00:00,123 Train", "0", "Train"),
        ] {
            assert_eq!(split(line), (Some(mark), rest), "{line}");
        }
    }

    #[test]
    fn times_of_collectors_are_left_out() {
        for line in [
            "2024-01-31T10:00:00.123456789Z Epoch 1/5",
            "2024-01-31T10:00:00+01:00 Epoch 1/5",
            "2024-01-31 10:00:00 Epoch 1/5",
            "[2024-01-31 10:00:00.5] Epoch 1/5",
            "Jan 31 10:00:00 Epoch 1/5",
            "# Epoch 1/5",
            "> 2024-01-31 10:00:00 Epoch 1/5",
        ] {
            assert_eq!(split(line), (None, "Epoch 1/5"), "{line}");
        }
    }

    #[test]
    fn ordinary_text_bears_no_mark() {
        for line in [
            "[2024]: Train",
            "12:30: Train",
            "loss: 0.5",
            "top1: 70.1 top5: 90",
            "f1: 0.5",
            "epoch: 3 loss: 2",
            "step-time: 3",
            "[0]\tvalidation_0-logloss:0.6",
            "[0] train-rmse:0.6",
            "[1] Train-accuracy=0.7",
            "[12/100] loss 3",
            "[epoch3]: loss 3",
            "Rank 0 of 4",
            "GPU 0: Tesla V100",
            "(1) Train",
            "10 | loss 3",
            "2021-11-05 21:20:01.273872: I tensorflow",
            "May the force be with 3 of you",
            "val_loss  | 0.3",
        ] {
            assert_eq!(split(line), (None, line), "{line}");
        }
    }
}
