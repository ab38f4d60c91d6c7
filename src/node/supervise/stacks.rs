//! Where the Python programs of a job are, by py-spy, if it is installed beside their interpreter or in `PATH`.

use std::fs;
use std::path::PathBuf;
use std::time::Duration;

use super::step::{family_of, name_of};
use crate::foundation::command::{Tool, is_python};
use crate::observe::protocol::Process;

/// More processes are not looked at: those of one node hang in the same place.
const PROCESSES: usize = 8;
const FRAMES: usize = 6;
/// One look may take so long. py-spy stops the program for some milliseconds.
const PATIENCE: Duration = Duration::from_secs(5);

/// The innermost calls of the main thread of each Python process below `root`: `pid 7 (python): wait (threading.py:320) < get ..`.
/// Nothing of those that py-spy cannot read.
pub(super) fn stacks(root: Process) -> Vec<String> {
    let family = family_of(root).into_iter();
    let python = family.filter_map(|process| {
        let exe = fs::read_link(format!("/proc/{}/exe", process.pid)).ok()?;
        is_python(&exe).then_some(process.pid)
    });
    let stacks = python.take(PROCESSES).filter_map(|pid| {
        let dump = dump(pid)?;
        let stack = main_thread(&dump);
        let name = name_of(pid).unwrap_or_default();
        (!stack.is_empty()).then(|| format!("pid {pid} ({name}): {}", stack.join(" < ")))
    });
    stacks.collect()
}

fn dump(pid: u32) -> Option<String> {
    // That of a virtual environment is a link: its own name says where py-spy is.
    let command = fs::read(format!("/proc/{pid}/cmdline")).ok()?;
    let first = command.split(|byte| *byte == 0).next()?;
    let beside = PathBuf::from(String::from_utf8_lossy(first).into_owned());
    let beside = beside.parent().filter(|dir| dir.is_absolute());
    let beside: Vec<PathBuf> = beside.map(PathBuf::from).into_iter().collect();
    let tool = Tool::new("py-spy").in_dirs(&beside);
    let tool = tool.args(["dump", "--pid"]).arg(pid.to_string());
    let output = tool.timeout(PATIENCE).run().ok()?;
    output.status.success().then_some(output.stdout)
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
