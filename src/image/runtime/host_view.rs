//! The machine as the probes see it.

use std::ffi::OsString;
use std::io;
use std::path::{Path, PathBuf};

use crate::foundation::filesystem::text_within;

/// Where the probes look. Tests give another root, and other variables.
pub struct HostView<'a> {
    /// `/`, where `proc`, `sys`, `dev` and `etc` are.
    pub root: &'a Path,
    /// The environment.
    pub variable: &'a dyn Fn(&str) -> Option<OsString>,
}

/// Files of the kernel and small settings; what is longer is none of them.
const TEXT_LIMIT: u64 = 1 << 20;

impl HostView<'_> {
    /// This machine as this process sees it.
    #[must_use]
    pub fn of_this_machine() -> HostView<'static> {
        HostView {
            root: Path::new("/"),
            variable: &|name| std::env::var_os(name),
        }
    }

    /// A path that begins with `/`, below the root.
    pub(crate) fn path(&self, absolute: &str) -> PathBuf {
        self.root.join(absolute.trim_start_matches('/'))
    }

    /// The text of a file of at most 1 MiB; bytes that are no UTF-8 are replaced.
    pub(crate) fn text(&self, absolute: &str) -> io::Result<String> {
        bounded_text(&self.path(absolute))
    }

    /// The directories of `PATH`.
    pub(crate) fn program_dirs(&self) -> Vec<PathBuf> {
        let path = (self.variable)("PATH").unwrap_or_default();
        std::env::split_paths(&path).collect()
    }

    /// Where the runtimes look for their helper programs: their own directory, `PATH`, and where the system's are.
    /// (Apptainer 1.4, `etc/apptainer.conf.in`, `binary path`.)
    pub(crate) fn helper_dirs(&self, libexec: Option<&Path>) -> Vec<PathBuf> {
        let mut dirs: Vec<PathBuf> = libexec.map(|dir| dir.join("bin")).into_iter().collect();
        dirs.extend(self.program_dirs());
        for dir in [
            "usr/local/sbin",
            "usr/local/bin",
            "usr/sbin",
            "usr/bin",
            "sbin",
            "bin",
        ] {
            dirs.push(self.path(dir));
        }
        dirs
    }
}

/// The text of a file of at most 1 MiB; bytes that are no UTF-8 are replaced.
pub(crate) fn bounded_text(path: &Path) -> io::Result<String> {
    text_within(path, TEXT_LIMIT)
}
