//! What was imported, kept so that a rebuilt index contains it again: `imports/SHA256.jsonl.zst`, the name being
//! the digest of the lines inside. So the same lines are kept once, and no file is ever changed.

use std::fmt;
use std::fs::File;
use std::io::{self, BufRead, BufReader, Write};
use std::path::PathBuf;
use std::time::Duration;

use sha2::{Digest, Sha256};
use zstd::stream::{read::Decoder, write::Encoder};

use super::file_clock::file_time;
use super::state::StateDir;
use crate::foundation::private::{FileError, PrivateDir};

const IMPORTS: &str = "imports";
const ENDING: &str = ".jsonl.zst";
/// Files that are not whole yet.
const UNFINISHED: &str = ".incoming.";
/// An unfinished file that nobody has written to for so long was left behind by a process that was killed.
const LEFT_BEHIND: Duration = Duration::from_secs(86_400);

/// The name of what was imported: the SHA-256 of its lines, in hexadecimal.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct ImportId(String);

impl ImportId {
    /// Its digits.
    #[must_use]
    pub fn as_str(&self) -> &str {
        &self.0
    }

    fn of_file(name: &str) -> Option<Self> {
        let digits = name.strip_suffix(ENDING)?;
        let is_digest = digits.len() == 64
            && digits
                .bytes()
                .all(|byte| matches!(byte, b'0'..=b'9' | b'a'..=b'f'));
        is_digest.then(|| Self(digits.to_owned()))
    }

    fn file(&self) -> String {
        format!("{}{ENDING}", self.0)
    }
}

impl fmt::Display for ImportId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

/// Lines that are being imported. Nothing is left of them unless [`ImportCopy::keep`] is called.
pub struct ImportCopy {
    dir: PrivateDir,
    name: String,
    path: PathBuf,
    digest: Sha256,
    /// `None` once it is closed.
    lines: Option<Encoder<'static, File>>,
}

impl StateDir {
    /// What was imported, by name. Other files are passed over.
    ///
    /// # Errors
    /// `Open`, `List`.
    pub fn imports(&self) -> Result<Vec<ImportId>, FileError> {
        let names = match self.state.open_dir(IMPORTS) {
            Err(error) if error.is_missing() => return Ok(Vec::new()),
            other => other?.names()?,
        };
        let mut found: Vec<ImportId> = names
            .iter()
            .filter_map(|name| ImportId::of_file(name))
            .collect();
        found.sort();
        Ok(found)
    }

    /// Opens the lines of an import.
    ///
    /// # Errors
    /// `Open`, `Read`.
    pub fn open_import(&self, id: &ImportId) -> Result<impl BufRead + use<>, FileError> {
        let dir = self.state.open_dir(IMPORTS)?;
        let path = dir.path().join(id.file());
        let lines = Decoder::new(dir.open_file(&id.file())?);
        let lines = lines.map_err(|source| FileError::cannot("read", path, source))?;
        Ok(BufReader::new(lines))
    }

    /// Begins to keep lines that are being imported.
    ///
    /// # Errors
    /// `Create`, `Write`.
    pub fn begin_import(&self) -> Result<ImportCopy, FileError> {
        let dir = self.state.ensure_dir(IMPORTS)?;
        self.clear_left_behind(&dir)?;
        let failed = |source| FileError::cannot("write", dir.path(), source);
        let random = getrandom::u64().map_err(|error| failed(io::Error::other(error)))?;
        let name = format!("{UNFINISHED}{random:016x}");
        let lines = dir
            .create_file(&name)
            .and_then(|file| Encoder::new(file, 0))
            .map_err(failed)?;
        let path = dir.path().join(&name);
        Ok(ImportCopy {
            dir,
            name,
            path,
            digest: Sha256::new(),
            lines: Some(lines),
        })
    }

    /// Removes what was kept; a missing file is no error.
    ///
    /// # Errors
    /// `Open`, `Write`.
    pub fn forget_import(&self, id: &ImportId) -> Result<(), FileError> {
        self.state.open_dir(IMPORTS)?.remove(&id.file())
    }

    fn clear_left_behind(&self, dir: &PrivateDir) -> Result<(), FileError> {
        let names = dir.names()?;
        let mut unfinished = names
            .iter()
            .filter(|name| name.starts_with(UNFINISHED))
            .peekable();
        if unfinished.peek().is_none() {
            return Ok(());
        }
        let now = file_time(self.path())?;
        for name in unfinished {
            let written = dir
                .open_file(name)
                .ok()
                .and_then(|file| file.metadata().ok()?.modified().ok());
            if written
                .and_then(|at| now.duration_since(at).ok())
                .is_some_and(|age| age > LEFT_BEHIND)
            {
                dir.remove(name)?;
            }
        }
        Ok(())
    }
}

impl ImportCopy {
    /// Adds a line, without its line break.
    ///
    /// # Errors
    /// `Write`.
    pub fn add(&mut self, line: &[u8]) -> Result<(), FileError> {
        let Self {
            lines: Some(lines),
            digest,
            path,
            ..
        } = self
        else {
            return Ok(());
        };
        for part in [line, b"\n"] {
            digest.update(part);
            lines
                .write_all(part)
                .map_err(|source| FileError::cannot("write", &*path, source))?;
        }
        Ok(())
    }

    /// The name of the lines that were added so far.
    #[must_use]
    pub fn id(&self) -> ImportId {
        let digest = self.digest.clone().finalize();
        ImportId(digest.iter().map(|byte| format!("{byte:02x}")).collect())
    }

    /// Puts the lines in their place; they are on disk when this returns. `false` where they were there before.
    ///
    /// # Errors
    /// `Write`; nothing is kept then.
    pub fn keep(mut self) -> Result<bool, FileError> {
        let name = self.id().file();
        if self.dir.open_file(&name).is_ok() {
            return Ok(false);
        }
        if let Some(lines) = self.lines.take() {
            let closed = lines.finish().and_then(|file| file.sync_all());
            closed.map_err(|source| FileError::cannot("write", &self.path, source))?;
        }
        self.dir.rename(&self.name, &name)?;
        self.dir.sync()?;
        Ok(true)
    }
}

impl fmt::Debug for ImportCopy {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("ImportCopy")
            .field("path", &self.path)
            .finish_non_exhaustive()
    }
}

impl Drop for ImportCopy {
    fn drop(&mut self) {
        // It was renamed, or nobody wants it.
        let _ = self.dir.remove(&self.name);
    }
}

#[cfg(test)]
mod tests {
    use std::fs::{self, FileTimes};
    use std::time::SystemTime;

    use super::*;

    fn state() -> (tempfile::TempDir, StateDir) {
        let tmp = tempfile::tempdir().expect("a directory");
        let state = StateDir::create(&tmp.path().join("state")).expect("created");
        (tmp, state)
    }

    fn files(state: &StateDir) -> Vec<String> {
        let entries = fs::read_dir(state.path().join(IMPORTS)).expect("a directory");
        entries
            .map(|entry| {
                entry
                    .expect("an entry")
                    .file_name()
                    .into_string()
                    .expect("text")
            })
            .collect()
    }

    #[test]
    fn lines_are_kept_once_and_read_back() {
        let (_tmp, state) = state();
        assert_eq!(state.imports().expect("none yet"), []);
        for is_new in [true, false] {
            let mut incoming = state.begin_import().expect("begun");
            ["{\"a\":1}", "{}"]
                .iter()
                .try_for_each(|line| incoming.add(line.as_bytes()))
                .expect("added");
            assert_eq!(incoming.keep().expect("kept"), is_new);
        }
        let found = state.imports().expect("listed");
        assert_eq!((found.len(), files(&state).len()), (1, 1));
        let lines: Vec<String> = state
            .open_import(&found[0])
            .expect("opened")
            .lines()
            .map(|line| line.expect("text"))
            .collect();
        assert_eq!(lines, ["{\"a\":1}", "{}"]);
        for _ in 0..2 {
            state.forget_import(&found[0]).expect("gone");
        }
        assert_eq!(files(&state), Vec::<String>::new());
    }

    #[test]
    fn what_is_not_kept_leaves_nothing_and_old_remains_go() {
        let (_tmp, state) = state();
        let mut incoming = state.begin_import().expect("begun");
        incoming.add(b"{}").expect("added");
        assert_eq!(
            (state.imports().expect("listed"), files(&state).len()),
            (vec![], 1)
        );
        drop(incoming);
        assert_eq!(files(&state), Vec::<String>::new());
        let dir = state.path().join(IMPORTS);
        for (name, age) in [("old", 2 * LEFT_BEHIND), ("new", Duration::ZERO)] {
            let file = File::create(dir.join(format!("{UNFINISHED}{name}"))).expect("ours");
            file.set_times(FileTimes::new().set_modified(SystemTime::now() - age))
                .expect("set");
        }
        drop(state.begin_import().expect("begun"));
        assert_eq!(files(&state), [format!("{UNFINISHED}new")]);
    }

    #[test]
    fn names_that_are_no_digests_are_passed_over() {
        let digest = "0f".repeat(32);
        assert_eq!(
            ImportId::of_file(&format!("{digest}.jsonl.zst")),
            Some(ImportId(digest.clone()))
        );
        for name in [
            digest.clone(),
            format!("{}.jsonl.zst", digest.to_uppercase()),
            "..jsonl.zst".to_owned(),
        ] {
            assert_eq!(ImportId::of_file(&name), None, "{name}");
        }
    }
}
