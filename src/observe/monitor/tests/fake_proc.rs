//! A directory that looks like `/proc`, for tests.

use std::fs;
use std::path::Path;

/// The directory; removed with the value.
pub(crate) struct FakeProc(tempfile::TempDir);

/// One process of it, in the kernel's units.
#[derive(Clone, Copy)]
pub(crate) struct Process {
    pub(crate) pid: u32,
    pub(crate) parent: u32,
    pub(crate) group: u32,
    pub(crate) session: u32,
    pub(crate) start: u64,
    pub(crate) state: char,
    pub(crate) user: u64,
    pub(crate) children_user: u64,
    pub(crate) threads: u64,
    pub(crate) rss_pages: u64,
}

impl Process {
    pub(crate) const NEW: Self = Self {
        pid: 2,
        parent: 1,
        group: 1,
        session: 1,
        start: 1500,
        state: 'S',
        user: 0,
        children_user: 0,
        threads: 1,
        rss_pages: 0,
    };
}

impl FakeProc {
    pub(crate) fn new() -> Self {
        Self(tempfile::tempdir().expect("a directory"))
    }

    pub(crate) fn path(&self) -> &Path {
        self.0.path()
    }

    /// Adds a process or changes it.
    pub(crate) fn put(&self, process: Process) {
        let Process {
            pid,
            parent,
            group,
            session,
            start,
            state,
            user,
            children_user,
            threads,
            rss_pages,
        } = process;
        let line = format!(
            "{pid} (a) R (b) {state} {parent} {group} {session} 0 -1 4194304 0 0 0 0 {user} 0 {children_user} 0 20 0 \
             {threads} 0 {start} 4096000 {rss_pages} 18446744073709551615 0 0\n"
        );
        self.write(pid, "stat", &line);
    }

    /// Writes a file of a process.
    pub(crate) fn write(&self, pid: u32, name: &str, text: &str) {
        let directory = self.path().join(pid.to_string());
        fs::create_dir_all(&directory).expect("made");
        fs::write(directory.join(name), text).expect("written");
    }

    /// Writes the `io` of a process.
    pub(crate) fn put_io(&self, pid: u32, read_bytes: u64, write_bytes: u64) {
        self.write(
            pid,
            "io",
            &format!("read_bytes: {read_bytes}\nwrite_bytes: {write_bytes}\n"),
        );
    }

    /// Writes the files of the node: `at` microseconds of pressure and bytes of network.
    pub(crate) fn put_node(&self, at: u64) {
        let directory = self.path().join("pressure");
        fs::create_dir_all(&directory).expect("made");
        let line = |kind: &str| format!("{kind} avg10=0.00 avg60=0.00 avg300=0.00 total={at}\n");
        for name in ["cpu", "memory", "io"] {
            fs::write(directory.join(name), line("some") + &line("full")).expect("written");
        }
        fs::create_dir_all(self.path().join("net")).expect("made");
        let network = format!("head|x\n  eth0: {at} 0 0 0 0 0 0 0 {at} 0 0 0 0 0 0 0\n");
        fs::write(self.path().join("net/dev"), network).expect("written");
    }

    /// Ends a process.
    pub(crate) fn remove(&self, pid: u32) {
        fs::remove_dir_all(self.path().join(pid.to_string())).expect("removed");
    }
}
