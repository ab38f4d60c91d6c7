//! Damaged input to everything that reads what others wrote.

use std::collections::BTreeMap;
use std::fs::{self, Permissions};
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::time::Duration;

use dlrun::job::{self, JobId};
use dlrun::observe::timing::Follower;
use dlrun::record::{Progress, decode_segment, encode_segments};
use dlrun::scheduler::slurm::Slurm;
use dlrun::scheduler::{JobRef, Scheduler};

use super::{Chance, rounds, tell};
use crate::records::run_id;

fn manifest(path: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join(path)
}

/// One to eight damages: bytes changed, lost, doubled, brought in.
pub(super) fn damaged(chance: &mut Chance, original: &[u8]) -> Vec<u8> {
    const WORDS: [&[u8]; 12] = [
        b"\xff\xfe",
        b"\0",
        b"\r",
        b"\n\n",
        b"18446744073709551616",
        b"-1",
        b"1e999",
        b"NaN",
        b"\x1b[2K",
        "é".as_bytes(),
        b"\"",
        b"[[",
    ];
    let mut bytes = original.to_vec();
    for _ in 0..=chance.below(8) {
        let from = chance.below(bytes.len() + 1);
        let to = (from + chance.below(40)).min(bytes.len());
        match chance.below(6) {
            0 if from < to => bytes[from] = chance.next().to_le_bytes()[0],
            1 => drop(bytes.drain(from..to)),
            2 => {
                let piece = bytes[from..to].to_vec();
                let at = chance.below(bytes.len() + 1);
                drop(bytes.splice(at..at, piece));
            }
            3 => drop(bytes.splice(from..to, chance.one_of(&WORDS).iter().copied())),
            4 => {
                let noise: Vec<u8> = (0..chance.below(30))
                    .map(|_| chance.next().to_le_bytes()[0])
                    .collect();
                drop(bytes.splice(from..from, noise));
            }
            _ => bytes.truncate(bytes.len() - chance.below(bytes.len() / 8 + 1)),
        }
    }
    bytes
}

/// A job file that uses every key.
const FULL: &str = r#"format = 1
name = "all"
[run]
command = ["python", "train.py", "--lr", "0.1 é"]
workdir = "."
env = { OMP_NUM_THREADS = "8", B = "it's \"q\"\n" }
env_file = "secrets.env"
modules = ["cuda/12.4"]
launcher = "each"
[resources]
nodes = 2
tasks_per_node = 2
cpus_per_task = 8
gpus_per_node = "v100:2"
memory = "64GiB"
walltime = "1-12:00:00"
queue = "gpu"
account = "a"
exclusive = true
[scheduler]
kind = "slurm"
directives = ["--comment=paper"]
arguments = ["--no-requeue"]
[image]
none = true
[python]
requirements = "requirements.txt"
[workload]
model = "resnet50"
parameters = 25_557_032
samples = 1_281_167
[timing]
epoch = '^Epoch (?<epoch>\d+)/(?<epochs>\d+)'
"#;

#[test]
#[ignore = "soak tier: tests/run soak"]
fn damaged_job_files_are_read_or_explained() {
    let mut chance = Chance::new("job files");
    let example = fs::read(manifest("jobs/mnist-cnn/train.toml")).expect("the example is there");
    let originals = [FULL.as_bytes().to_vec(), example];
    assert!(
        originals
            .iter()
            .all(|text| job::parse(std::str::from_utf8(text).expect("text")).is_ok())
    );
    let mut valid = 0;
    for _ in rounds(150_000) {
        let original = chance.one_of(&originals).clone();
        let text = String::from_utf8_lossy(&damaged(&mut chance, &original)).into_owned();
        match job::parse(&text) {
            Ok(_) => valid += 1,
            Err(problems) => {
                assert!(!problems.is_empty(), "refused without a reason: {text:?}");
                for problem in problems {
                    let shown = problem
                        .span
                        .clone()
                        .is_none_or(|span| text.get(span).is_some());
                    assert!(
                        shown && !problem.message.is_empty(),
                        "{problem:?} in {text:?}"
                    );
                }
            }
        }
    }
    assert!(valid > 0, "damages so heavy test only the reader of TOML");
}

fn follow<'a>(pieces: impl IntoIterator<Item = &'a [u8]>) -> Progress {
    let mut follower = Follower::new(None).expect("no pattern, no fault");
    for piece in pieces {
        follower.feed(piece, None);
    }
    follower.finish(None);
    follower.progress()
}

#[test]
#[ignore = "soak tier: tests/run soak"]
fn damaged_logs_are_followed_the_same_in_any_pieces() {
    let mut chance = Chance::new("logs");
    let entries = fs::read_dir(manifest("tests/fixtures/training-logs"))
        .expect("fixtures")
        .flatten();
    let logs = entries
        .map(|entry| entry.path())
        .filter(|path| path.extension().is_some_and(|e| e == "log"));
    // Of long logs the beginning: that is where the recognisers decide.
    let logs: Vec<Vec<u8>> = logs
        .map(|path| fs::read(path).expect("a log"))
        .map(|log| log[..log.len().min(6000)].to_vec())
        .collect();
    for _ in rounds(150_000) {
        let original = chance.one_of(&logs).clone();
        let log = damaged(&mut chance, &original);
        let whole = follow([&log[..]]);
        let mut pieces = Vec::new();
        let mut rest = &log[..];
        while !rest.is_empty() {
            let (piece, other) = rest.split_at((1 + chance.below(900)).min(rest.len()));
            pieces.push(piece);
            rest = other;
        }
        let cut = follow(pieces);
        // By their text: a loss may be NaN, which is not even equal to itself.
        assert_eq!(
            format!("{whole:?}"),
            format!("{cut:?}"),
            "{:?}",
            String::from_utf8_lossy(&log)
        );
        assert!(
            whole.epochs_completed >= whole.epochs.len() as u64,
            "{whole:?}"
        );
    }
}

#[test]
#[ignore = "soak tier: tests/run soak"]
fn damaged_segments_are_refused_or_whole() {
    let mut chance = Chance::new("segments");
    let originals = ["v1", "v2"].map(|name| {
        fs::read(manifest(&format!("tests/fixtures/series/{name}.bin"))).expect("a fixture")
    });
    assert!(
        originals
            .iter()
            .all(|original| decode_segment(original).is_ok())
    );
    let mut read = 0;
    for _ in rounds(1_000_000) {
        let original = &originals[usize::from(chance.below(4) == 0)];
        let mut bytes = damaged(&mut chance, original);
        // Half of them with a checksum that fits the damage, so that the reader behind it is tested too.
        if chance.below(2) == 0 && bytes.len() > 4 {
            let body = bytes.len() - 4;
            let crc = crc32fast::hash(&bytes[..body]).to_le_bytes();
            bytes.truncate(body);
            bytes.extend(crc);
        }
        if let Ok(samples) = decode_segment(&bytes) {
            read += 1;
            let again = encode_segments(&samples);
            let again = again
                .iter()
                .flat_map(|bytes| decode_segment(bytes).expect("our own bytes"));
            assert_eq!(samples, again.collect::<Vec<_>>());
        }
    }
    tell(&format!("{read} of them could be read"));
}

#[test]
#[ignore = "soak tier: tests/run soak"]
fn damaged_queues_never_name_a_job_that_was_not_asked_for() {
    let mut chance = Chance::new("queues");
    let dir = tempfile::tempdir().expect("a directory");
    let (answer, squeue) = (dir.path().join("answer"), dir.path().join("squeue"));
    fs::write(
        &squeue,
        format!("#!/bin/sh\nexec cat '{}'\n", answer.display()),
    )
    .expect("written");
    fs::set_permissions(&squeue, Permissions::from_mode(0o755)).expect("ours");
    let slurm = Slurm::new(Some(dir.path().to_owned()), Duration::from_secs(20));
    let jobs: Vec<JobRef> = (0..40_u32)
        .map(|number| JobRef {
            run_id: run_id(number),
            job_id: JobId((1000 + number).to_string()),
            parts: Vec::new(),
            submitted_at_ms: Some(1_795_184_521_000),
            run_dir: dir.path().to_owned(),
        })
        .collect();
    let states = [
        "PENDING",
        "RUNNING",
        "COMPLETING",
        "CANCELLED",
        "NODE_FAIL",
        "NEW_IN_2030",
        "OUT_OF_MEMORY",
    ];
    for _ in rounds(4_000) {
        let mut text = String::new();
        for job in &jobs {
            let state = chance.one_of(&states);
            text += &format!(
                "{}|{state}|1795184521|1795184522|1795184822|n[1-2]|None\n",
                job.job_id
            );
        }
        fs::write(&answer, damaged(&mut chance, text.as_bytes())).expect("written");
        // Bytes that are no text may make the whole answer unusable; that is an answer too.
        let found = slurm.queue(&jobs).unwrap_or_else(|_| BTreeMap::new());
        for (run_id, entry) in found {
            let asked = jobs
                .iter()
                .find(|job| job.run_id == run_id)
                .expect("nobody else's");
            assert!(entry.iter().all(|entry| asked.job_id == entry.job_id));
        }
    }
}
