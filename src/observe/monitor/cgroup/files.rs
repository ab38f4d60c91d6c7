//! Files of the kernel that are read again and again, and how their text is taken apart.

use std::fs::File;
use std::io;
use std::os::unix::fs::FileExt;
use std::path::{Path, PathBuf};

use crate::observe::monitor::kept::Kept;

/// Longer than any file that is read in one call. The kernel writes each of them whole where the buffer has the room.
const BUFFER_BYTES: usize = 64 * 1024;
/// Readings for which a file that was not there is left alone.
const LEAVE_ALONE: u32 = 10;

/// What files are read into.
pub(crate) fn new_buffer() -> Vec<u8> {
    vec![0; BUFFER_BYTES]
}

/// A file that is kept open. It is opened again once it is gone: its directory may have been made again.
#[derive(Debug)]
pub(crate) struct KeptFile {
    path: PathBuf,
    file: Option<Kept>,
    leave_alone: u32,
    problem: Option<String>,
}

impl KeptFile {
    pub(crate) fn new(path: PathBuf) -> Self {
        Self {
            path,
            file: None,
            leave_alone: 0,
            problem: None,
        }
    }

    pub(crate) fn path(&self) -> &Path {
        &self.path
    }

    /// Why it could not be read when it was last tried.
    pub(crate) fn problem(&self) -> Option<&str> {
        self.problem.as_deref()
    }

    /// Reads it and takes something out of it. `None`: it does not exist, or lacks that.
    pub(crate) fn read<T>(
        &mut self,
        buffer: &mut [u8],
        take: impl FnOnce(&str) -> Option<T>,
    ) -> Option<T> {
        let length = self.read_bytes(buffer)?;
        let text = std::str::from_utf8(buffer.get(..length)?).ok();
        let value = text.and_then(take);
        if value.is_none() {
            self.problem = Some(format!("{} lacks what is looked for", self.path.display()));
        }
        value
    }

    fn read_bytes(&mut self, buffer: &mut [u8]) -> Option<usize> {
        if let Some(file) = &self.file {
            // `ENODEV` once the cgroup was removed.
            match read_whole(file, buffer) {
                Ok(length) => return Some(length),
                Err(_) => self.file = None,
            }
        }
        if self.leave_alone > 0 {
            self.leave_alone -= 1;
            return None;
        }
        let read = File::open(&self.path).and_then(|file| Ok((read_whole(&file, buffer)?, file)));
        match read {
            Ok((length, file)) => {
                self.file = Kept::keep(file);
                Some(length)
            }
            Err(error) => {
                self.problem = Some(format!("cannot read {}: {error}", self.path.display()));
                self.leave_alone = LEAVE_ALONE;
                None
            }
        }
    }
}

/// Reads from the beginning until the end or until the buffer is full: a list comes in several pieces.
pub(crate) fn read_whole(file: &File, buffer: &mut [u8]) -> io::Result<usize> {
    let mut length = 0;
    while let Some(rest) = buffer.get_mut(length..).filter(|rest| !rest.is_empty()) {
        match file.read_at(rest, length as u64) {
            Ok(0) => break,
            Ok(more) => length += more,
            Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
            Err(error) => return Err(error),
        }
    }
    Ok(length)
}

/// The whole text as one number.
pub(super) fn number(text: &str) -> Option<u64> {
    text.trim_ascii().parse().ok()
}

/// The number after a key at the start of a line: `oom_kill 3`.
pub(super) fn value_of(text: &str, key: &str) -> Option<u64> {
    text.lines()
        .find_map(|line| number(line.strip_prefix(key)?.strip_prefix(' ')?))
}

/// Microseconds out of a file of pressure stall information (the kernel's `Documentation/accounting/psi.rst`), such as
/// `some avg10=0.00 avg60=0.00 avg300=0.00 total=1234`. The line `full` is missing for the CPU in older kernels.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(crate) struct Pressure {
    pub(crate) some_us: Option<u64>,
    pub(crate) full_us: Option<u64>,
}

/// Reads such a file; `None` where it has no line `some`.
pub(crate) fn read_pressure(text: &str) -> Option<Pressure> {
    let total = |key: &str| {
        let line = text.lines().find_map(|line| line.strip_prefix(key))?;
        line.split(' ')
            .find_map(|field| number(field.strip_prefix("total=")?))
    };
    let some_us = Some(total("some ")?);
    Some(Pressure {
        some_us,
        full_us: total("full "),
    })
}

#[cfg(test)]
mod tests {
    use std::fs;

    use super::*;

    #[test]
    fn recreated_file_is_found_again() {
        let directory = tempfile::tempdir().expect("a directory");
        let path = directory.path().join("x");
        let mut file = KeptFile::new(path.clone());
        let mut buffer = new_buffer();
        assert_eq!(file.read(&mut buffer, number), None);
        assert!(
            file.problem()
                .is_some_and(|why| why.contains("No such file"))
        );
        fs::write(&path, "7\n").expect("written");
        let tries = (0..)
            .find(|_| file.read(&mut buffer, number) == Some(7))
            .expect("found");
        assert_eq!(tries, LEAVE_ALONE as usize);
        fs::write(&path, "9\n").expect("written");
        assert_eq!(file.read(&mut buffer, number), Some(9));
        fs::write(&path, "nothing").expect("written");
        assert_eq!(file.read(&mut buffer, number), None);
        assert!(file.problem().is_some_and(|why| why.contains("lacks")));
    }

    #[test]
    fn texts_are_taken_apart() {
        let text = "oom 4\noom_kill 3\noom_group_kill 1\nbad x\n";
        assert_eq!(value_of(text, "oom_kill"), Some(3));
        assert_eq!(
            (value_of(text, "bad"), value_of(text, "none")),
            (None, None)
        );
        let psi = "some avg10=0.00 avg60=1.00 avg300=0.00 total=12\nfull avg10=0.00 avg60=0 avg300=0 total=5\n";
        assert_eq!(
            read_pressure(psi),
            Some(Pressure {
                some_us: Some(12),
                full_us: Some(5)
            })
        );
        assert_eq!(
            read_pressure("some total=1\n"),
            Some(Pressure {
                some_us: Some(1),
                full_us: None
            })
        );
        assert_eq!(read_pressure("full total=1\n"), None);
    }
}
