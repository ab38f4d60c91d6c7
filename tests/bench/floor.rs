//! The least that watching a run costs: its files, read once a second and hardly looked at.

use std::error::Error;
use std::fs::File;
use std::hint::black_box;
use std::io::{Read, Write};
use std::os::unix::fs::FileExt;
use std::path::{Path, PathBuf};
use std::process::{Command, ExitCode};
use std::time::{Duration, Instant};

use crate::measure::quiet;

/// This program with this first argument reads.
pub(crate) const VERB: &str = "floor";

const INTERVAL: Duration = Duration::from_secs(1);
const BUFFER_BYTES: usize = 64 << 10;

/// `floor LIST FILE...`: LIST names processes, a cgroup's `cgroup.procs` or a process's `children`. Runs until it is killed.
pub(crate) fn run(arguments: &[String]) -> ExitCode {
    let Some((list, files)) = arguments.split_first() else {
        let _ = writeln!(std::io::stderr(), "write: {VERB} LIST FILE...");
        return ExitCode::FAILURE;
    };
    let files = files
        .iter()
        .filter_map(|path| File::open(path).ok())
        .collect();
    let mut floor = Floor {
        list: list.clone(),
        files,
        processes: Vec::new(),
        buffer: vec![0; BUFFER_BYTES],
    };
    let mut due = Instant::now();
    loop {
        floor.sample();
        due += INTERVAL;
        std::thread::sleep(due.saturating_duration_since(Instant::now()));
    }
}

/// The program that reads so.
pub(crate) fn command(list: &Path, files: &[PathBuf]) -> Result<Command, Box<dyn Error>> {
    let mut command = quiet(&std::env::current_exe()?.to_string_lossy());
    command.arg(VERB).arg(list).args(files);
    Ok(command)
}

struct Floor {
    list: String,
    files: Vec<File>,
    /// Processes in the order of the list, each with its `stat`.
    processes: Vec<(u32, Option<File>)>,
    buffer: Vec<u8>,
}

impl Floor {
    /// Every file through a kept descriptor, the list anew, and of each process user time, system time and memory.
    fn sample(&mut self) {
        for file in &self.files {
            let _ = black_box(file.read_at(&mut self.buffer, 0));
        }
        let length = File::open(&self.list)
            .and_then(|mut list| list.read(&mut self.buffer))
            .unwrap_or(0);
        let pids = self.buffer[..length]
            .split(u8::is_ascii_whitespace)
            .filter_map(number);
        for (place, pid) in pids.enumerate() {
            if self
                .processes
                .get(place)
                .is_none_or(|(known, _)| *known != pid)
            {
                self.processes.truncate(place);
                self.processes
                    .push((pid, File::open(format!("/proc/{pid}/stat")).ok()));
            }
        }
        let mut sum = 0_u64;
        for file in self.processes.iter().filter_map(|(_, file)| file.as_ref()) {
            let length = file.read_at(&mut self.buffer, 0).unwrap_or(0);
            sum = sum.wrapping_add(figures(&self.buffer[..length]).unwrap_or(0));
        }
        black_box(sum);
    }
}

/// Fields 14, 15 and 24 of `/proc/PID/stat`, counted from the name's end.
fn figures(stat: &[u8]) -> Option<u64> {
    let end = stat.iter().rposition(|byte| *byte == b')')?;
    let mut fields = stat.get(end + 2..)?.split(|byte| *byte == b' ');
    let mut next = |skipped: usize| fields.nth(skipped).and_then(number).map(u64::from);
    Some(next(11)? + next(0)? + next(8)?)
}

fn number(digits: &[u8]) -> Option<u32> {
    std::str::from_utf8(digits).ok()?.parse().ok()
}
