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

use super::scan;

/// Words that begin the name of a host or process and are followed by its number.
const HOSTS: &str = "worker|node|host|compute|nid|rank|gpu|dgx|server|cn|gn|proc|process|slave|pod";

/// Words before the number of a rank.
const RANKS: &str = "global_rank|global rank|local_rank|local rank|rank|process|gpu";

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
    let begun = text.trim_start();
    match begun.as_bytes().first()? {
        b'[' => bracketed(begun).or_else(|| rank(begun)),
        b'(' => ray(begun).or_else(|| rank(begun)),
        b'R' | b'r' | b'G' | b'g' | b'P' => rank(begun)
            .or_else(|| host(begun))
            .or_else(|| service(begun)),
        b'0'..=b'9' => labelled(begun).or_else(|| host(begun)),
        b'a'..=b'z' => host(begun).or_else(|| service(begun)),
        _ => None,
    }
}

/// `[1,0]<stdout>:`, `[rank0]:`, `[0] `.
fn bracketed(text: &str) -> Option<(&str, &str)> {
    let (mark, rest) = text.strip_prefix('[')?.split_once(']')?;
    if mark.len() > 100 {
        return None;
    }
    if let Some(rest) = ["<stdout>:", "<stderr>:", "<stddiag>:"]
        .into_iter()
        .find_map(|tag| rest.strip_prefix(tag))
    {
        return Some((mark, rest));
    }
    if let Some(rest) = rest.strip_prefix(':').filter(|_| role(mark)) {
        return Some((mark, rest));
    }
    // Rounds of boosting stand in brackets too, before metrics in small letters, as do epochs of MXNet for R.
    if ["Train-", "Validation-"]
        .iter()
        .any(|name| rest.trim_start().starts_with(name))
    {
        return None;
    }
    let number =
        !mark.is_empty() && mark.len() <= 4 && mark.bytes().all(|byte| byte.is_ascii_digit());
    let rest = rest.strip_prefix(' ').filter(|_| number)?;
    rest.starts_with(|c: char| c.is_ascii_uppercase() || matches!(c, '[' | ':'))
        .then_some((mark, rest))
}

/// The name of a torchrun role and the number of its rank: `default0`, `rank0`, `trainer0|0`.
fn role(mark: &str) -> bool {
    let (name, _) = mark.split_once('|').unwrap_or((mark, ""));
    let letters = name.trim_end_matches(|c: char| c.is_ascii_digit());
    let number = mark.strip_prefix(letters).unwrap_or_default();
    let counts = [
        "epoch", "ep", "step", "iter", "it", "batch", "stage", "fold",
    ];
    number
        .bytes()
        .all(|byte| byte.is_ascii_digit() || byte == b'|')
        && number.starts_with(|c: char| c.is_ascii_digit())
        && letters.len() > 1
        && letters
            .bytes()
            .all(|byte| byte.is_ascii_alphabetic() || matches!(byte, b'_' | b'-'))
        && !counts
            .iter()
            .any(|count| letters.eq_ignore_ascii_case(count))
}

/// `[RANK 3] `, `[Rank 3]: `, `Rank 3: `, `(rank 3) `, `[GPU0] `.
fn rank(text: &str) -> Option<(&str, &str)> {
    let open = text.strip_prefix(['[', '(']);
    let inside = open.unwrap_or(text);
    let name = RANKS
        .split('|')
        .find(|name| scan::starts_with_any(inside, name))?;
    let number = inside[name.len()..].trim_start_matches([' ', ':', '=', '_', '#']);
    let (_, rest) = scan::unsigned(number)?;
    let mark = &inside[..inside.len() - rest.len()];
    let rest = match open {
        Some(_) => rest
            .strip_prefix([']', ')'])
            .map(|rest| rest.strip_prefix(':').unwrap_or(rest))?,
        // `rank 0 of 4`, `GPU 0: Tesla` are no marks of lines; a colon or a bar is.
        None if scan::holds(name, "rank") => rest.trim_start().strip_prefix([':', '|', '>'])?,
        None => return None,
    };
    rest.strip_prefix(' ')
        .map(|rest| (mark, rest.trim_start_matches(['-', '|', ' '])))
}

/// `(RayTrainWorker pid=1234, ip=10.0.0.1) `.
fn ray(text: &str) -> Option<(&str, &str)> {
    let (mark, rest) = text.strip_prefix('(')?.split_once(") ")?;
    let at = mark
        .find("pid=")
        .filter(|at| *at == 0 || mark[..*at].ends_with(' '))?;
    (mark.len() <= 100 && mark[at + 4..].starts_with(|c: char| c.is_ascii_digit()))
        .then_some((mark, rest))
}

/// `3: ` of `srun --label`.
fn labelled(text: &str) -> Option<(&str, &str)> {
    let end = text.bytes().position(|byte| !byte.is_ascii_digit())?;
    let rest = text[end..].strip_prefix(": ").filter(|_| end <= 6)?;
    // CatBoost begins its lines with the number of the round.
    (!rest.contains("remaining: ")).then_some((&text[..end], rest))
}

/// `worker-0: `, `node017: `, `gpu3.cluster.example: `, `10.0.0.1: `.
fn host(text: &str) -> Option<(&str, &str)> {
    let part = |byte: &u8| {
        byte.is_ascii_lowercase() || byte.is_ascii_digit() || matches!(byte, b'-' | b'.')
    };
    let end = text
        .bytes()
        .position(|byte| !part(&byte))
        .filter(|end| (2..=80).contains(end))?;
    let (name, rest) = (&text[..end], text[end..].strip_prefix(": ")?);
    let address =
        || name.split('.').count() == 4 && name.split('.').all(|part| part.parse::<u8>().is_ok());
    let (letters, number) =
        name.split_at(name.trim_end_matches(|c: char| c.is_ascii_digit()).len());
    let numbered = !number.is_empty()
        && (scan::is_any(letters, HOSTS) || letters.len() > 2 && letters.ends_with('-'));
    let first = name.split('.').next().unwrap_or_default();
    let qualified = name.starts_with(|c: char| c.is_ascii_lowercase())
        && name.matches('.').count() >= 2
        && first.contains(|c: char| c.is_ascii_digit());
    (numbered || address() || qualified).then_some((name, rest))
}

/// `trainer-1  | `.
fn service(text: &str) -> Option<(&str, &str)> {
    let (name, rest) = text.split_once("| ")?;
    let name = name.strip_suffix(' ')?.trim_end();
    let part = |c: char| c.is_ascii_lowercase() || c.is_ascii_digit() || matches!(c, '-' | '_');
    let (letters, number) =
        name.split_at(name.trim_end_matches(|c: char| c.is_ascii_digit()).len());
    (!number.is_empty()
        && letters.ends_with(['-', '_'])
        && name.len() <= 60
        && name.chars().all(part))
    .then_some((name, rest))
}

/// The text behind a time that a collector wrote before it.
fn without_time(text: &str) -> &str {
    let begun = text.trim_start();
    let rest = match begun.as_bytes().first() {
        // TensorFlow has a letter and a blank behind its colon, which those who know it want to see.
        Some(b'0'..=b'9') => dated(begun).and_then(|rest| match rest.strip_prefix(": ") {
            Some(rest) if rest.get(1..2) != Some(" ") => Some(rest),
            _ => rest.strip_prefix(' '),
        }),
        Some(b'[') => dated(&begun[1..]).and_then(|rest| rest.strip_prefix("] ")),
        Some(b'A'..=b'Z') => syslog(begun),
        _ => None,
    };
    rest.unwrap_or(text)
}

/// `2024-01-31T10:00:00.123Z` or `2024-01-31 10:00:00,123+01:00`.
fn dated(text: &str) -> Option<&str> {
    let bytes = text.as_bytes();
    let shape = b"dddd-dd-dd?dd:dd:dd";
    let fits = |(byte, form): (&u8, &u8)| match form {
        b'd' => byte.is_ascii_digit(),
        b'?' => matches!(byte, b'T' | b' '),
        form => byte == form,
    };
    if bytes.len() < shape.len() || !bytes.iter().zip(shape).all(fits) {
        return None;
    }
    let rest = text[shape.len()..]
        .trim_start_matches(|c: char| c.is_ascii_digit() || matches!(c, '.' | ','));
    let rest = rest.strip_prefix('Z').unwrap_or(rest);
    let zone = rest.strip_prefix(['+', '-']).and_then(|zone| {
        let end = zone
            .find(|c: char| !(c.is_ascii_digit() || c == ':'))
            .unwrap_or(zone.len());
        matches!(end, 4 | 5).then(|| &zone[end..])
    });
    Some(zone.unwrap_or(rest))
}

/// `Jan 31 10:00:00 `.
fn syslog(text: &str) -> Option<&str> {
    const MONTHS: &str = "Jan|Feb|Mar|Apr|May|Jun|Jul|Aug|Sep|Oct|Nov|Dec";
    let rest = MONTHS
        .split('|')
        .find_map(|month| text.strip_prefix(month))?;
    let (_, rest) = scan::unsigned(rest.strip_prefix(' ')?.trim_start())?;
    let (_, rest) = scan::clock(rest.strip_prefix(' ')?)?;
    rest.strip_prefix(' ')
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
