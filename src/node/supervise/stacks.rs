//! Where the Python programs of a job are, by py-spy, if it is installed beside their interpreter or in `PATH`.

use std::fs;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::sync::mpsc::channel;
use std::time::{Duration, Instant};

use nix::unistd::geteuid;

use super::step::{family_of, name_of};
use crate::foundation::command::{Tool, is_python};
use crate::observe::protocol::Process;

/// More processes are not looked at: those of one node hang in the same place.
const PROCESSES: usize = 8;
const FRAMES: usize = 6;
/// All looks together may take so long, and one of them.
const PATIENCE: Duration = Duration::from_secs(4);
const OF_ONE: Duration = Duration::from_secs(2);

/// The innermost calls of the main thread of each Python process below `root`: `pid 7 (python): wait (threading.py:320) < get ..`.
/// Nothing of those that py-spy cannot read, or not soon.
pub(super) fn stacks(root: Process) -> Vec<String> {
    let (sender, found) = channel();
    let look = move || look_at(root, |stack| sender.send(stack).is_ok());
    if std::thread::Builder::new().spawn(look).is_err() {
        return Vec::new();
    }
    let deadline = Instant::now() + PATIENCE;
    let left = || deadline.saturating_duration_since(Instant::now());
    std::iter::from_fn(|| found.recv_timeout(left()).ok()).collect()
}

fn look_at(root: Process, mut hand_over: impl FnMut(String) -> bool) {
    let family = family_of(root).into_iter();
    let python = family.filter_map(|process| {
        let exe = fs::read_link(format!("/proc/{}/exe", process.pid)).ok()?;
        is_python(&exe).then_some(process.pid)
    });
    for pid in python.take(PROCESSES) {
        let dump = dump(pid).unwrap_or_default();
        let stack = main_thread(&dump);
        let name = name_of(pid).unwrap_or_default();
        let text = format!("pid {pid} ({name}): {}", stack.join(" < "));
        if !stack.is_empty() && !hand_over(text) {
            return;
        }
    }
}

fn dump(pid: u32) -> Option<String> {
    // That of a virtual environment is a link: its own name says where py-spy is.
    let command = fs::read(format!("/proc/{pid}/cmdline")).ok()?;
    let first = command.split(|byte| *byte == 0).next()?;
    let beside = PathBuf::from(String::from_utf8_lossy(first).into_owned());
    let is_it = is_same_file(&beside, &PathBuf::from(format!("/proc/{pid}/exe")));
    let beside = beside
        .parent()
        .filter(|dir| is_it && is_own(&dir.join("py-spy")));
    let beside: Vec<PathBuf> = beside.map(PathBuf::from).into_iter().collect();
    // Without `--nonblocking` it stops the program; were it killed meanwhile, nobody would let the program go on.
    let tool = Tool::new("py-spy").in_dirs(&beside);
    let tool = tool
        .args(["dump", "--nonblocking", "--pid"])
        .arg(pid.to_string());
    let output = tool.timeout(OF_ONE).run().ok()?;
    output.status.success().then_some(output.stdout)
}

/// What a process says of itself is text, and in a container of another file system.
fn is_same_file(one: &Path, other: &Path) -> bool {
    let id = |path: &Path| {
        fs::metadata(path)
            .map(|found| (found.dev(), found.ino()))
            .ok()
    };
    one.is_absolute() && id(one).is_some() && id(one) == id(other)
}

/// Whether a program belongs to the user or to root.
fn is_own(program: &Path) -> bool {
    fs::metadata(program).is_ok_and(|found| [0, geteuid().as_raw()].contains(&found.uid()))
}

/// The innermost calls first.
fn main_thread(dump: &str) -> Vec<&str> {
    let lines = dump.lines().map(str::trim);
    let of_main = lines.skip_while(|line| !line.ends_with("\"MainThread\""));
    let calls = of_main.skip(1).take_while(|line| line.ends_with(')'));
    calls.take(FRAMES).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_calls_of_the_main_thread_are_those_below_its_line() {
        // py-spy 0.4.
        let dump = "Process 7: python train.py\nPython v3.11.7 (/usr/bin/python3.11)\n\nThread 9 (active): \"Thread-1\"\n    run (threading.py:982)\n\
                    Thread 7 (idle): \"MainThread\"\n    wait (threading.py:320)\n    get (queue.py:171)\n    <module> (train.py:10)\n";
        assert_eq!(
            main_thread(dump),
            [
                "wait (threading.py:320)",
                "get (queue.py:171)",
                "<module> (train.py:10)"
            ]
        );
        assert!(main_thread("Error: Permission denied").is_empty());
    }
}
