//! The targets of `fuzz/` over the samples of this repository: they compile, and what they expect is so, where there is no fuzzer.

use std::fs;
use std::path::{Path, PathBuf};

#[allow(unreachable_pub)]
#[path = "../../fuzz/src/lib.rs"]
mod targets;

/// The files of at most 16 KiB under a directory of the repository.
fn samples(dir: &str) -> Vec<Vec<u8>> {
    let mut dirs = vec![Path::new(env!("CARGO_MANIFEST_DIR")).join(dir)];
    let mut files: Vec<PathBuf> = Vec::new();
    while let Some(dir) = dirs.pop() {
        for entry in fs::read_dir(&dir).expect("it is in the repository") {
            let path = entry.expect("readable").path();
            if path.is_dir() {
                dirs.push(path);
            } else {
                files.push(path);
            }
        }
    }
    files.sort();
    let contents = files.iter().map(|file| fs::read(file).expect("readable"));
    contents.filter(|bytes| bytes.len() <= 16 << 10).collect()
}

fn run(target: fn(&[u8]), dir: &str) {
    let samples = samples(dir);
    assert!(!samples.is_empty(), "{dir}");
    samples.iter().for_each(|sample| target(sample));
}

#[test]
fn frames() {
    run(targets::frames, "fuzz/corpus/frames");
}

#[test]
fn logs() {
    // The first byte says how the rest is cut, and that these are logs (even) or events (odd).
    for sample in samples("tests/fixtures/training-logs").iter().step_by(4) {
        targets::logs(&[&[16], &sample[..]].concat());
    }
    targets::logs(b"\x11{\"epoch\":1,\"begin\":true}\n{\"epoch\":1,\"seconds\":2.5}\n{\"epoch\"");
}

#[test]
fn scheduler() {
    run(targets::scheduler, "tests/fixtures/scheduler");
}

#[test]
fn job_files() {
    run(targets::job_files, "fuzz/corpus/job_files");
    run(targets::job_files, "jobs");
}

#[test]
fn descriptions() {
    run(targets::descriptions, "tests/fixtures/catalogue");
    run(targets::descriptions, "tests/fixtures/modak");
}

#[test]
fn cgroups() {
    run(targets::cgroups, "fuzz/corpus/cgroups");
}

#[test]
fn segments() {
    run(targets::segments, "fuzz/corpus/segments");
}

#[test]
fn imports() {
    run(targets::imports, "fuzz/corpus/imports");
}
