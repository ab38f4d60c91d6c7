//! What was imported, kept so that a rebuilt index contains it again: `imports/SHA256.jsonl.zst`, the name being
//! the digest of the lines inside. So the same lines are kept once, and no file is ever changed.

use std::io::{self, BufRead, BufReader, Write};

use sha2::{Digest, Sha256};
use zstd::stream::{read::Decoder, write::Encoder};

use super::state::StateDir;
use crate::foundation::private::{FileError, if_there};
use crate::foundation::units::hex;

const IMPORTS: &str = "imports";
const ENDING: &str = ".jsonl.zst";

/// Lines that are being imported, compressed in memory.
pub struct ImportCopy {
    digest: Sha256,
    lines: Encoder<'static, Vec<u8>>,
}

impl ImportCopy {
    /// Without lines.
    ///
    /// # Errors
    /// For want of memory.
    pub fn new() -> io::Result<Self> {
        Ok(Self {
            digest: Sha256::new(),
            lines: Encoder::new(Vec::new(), 0)?,
        })
    }

    /// Adds a line, without its line break.
    ///
    /// # Errors
    /// For want of memory.
    pub fn add(&mut self, line: &str) -> io::Result<()> {
        self.digest.update(line);
        self.digest.update("\n");
        writeln!(self.lines, "{line}")
    }
}

impl StateDir {
    /// The names of what was imported. Other files are passed over.
    ///
    /// # Errors
    /// `Open`, `List`.
    pub fn imports(&self) -> Result<Vec<String>, FileError> {
        let Some(dir) = if_there(self.state.open_dir(IMPORTS))? else {
            return Ok(Vec::new());
        };
        let mut names = dir.names()?;
        names.retain_mut(|name| {
            let digits = name.strip_suffix(ENDING).map(str::to_owned);
            *name = digits.unwrap_or_default();
            name.len() == 64 && name.bytes().all(|byte| byte.is_ascii_hexdigit())
        });
        names.sort();
        Ok(names)
    }

    /// Opens the lines of an import.
    ///
    /// # Errors
    /// `Open`, `Read`.
    pub fn open_import(&self, name: &str) -> Result<impl BufRead + use<>, FileError> {
        let (dir, file) = (self.state.open_dir(IMPORTS)?, format!("{name}{ENDING}"));
        let lines = Decoder::new(dir.open_file(&file)?);
        let lines = lines.map_err(|e| FileError::cannot("read", dir.path().join(&file), e))?;
        Ok(BufReader::new(lines))
    }

    /// Keeps the lines of an import; they are on disk when this returns. Returns their name, and whether they were
    /// not kept before.
    ///
    /// # Errors
    /// `Create`, `Write`; nothing is kept then.
    pub fn keep_import(&self, copy: ImportCopy) -> Result<(String, bool), FileError> {
        let name = hex(&copy.digest.finalize());
        let (dir, file) = (self.state.ensure_dir(IMPORTS)?, format!("{name}{ENDING}"));
        let is_new = dir.open_file(&file).is_err();
        if is_new {
            let bytes = copy.lines.finish();
            let failed = |source| FileError::cannot("write", dir.path().join(&file), source);
            dir.replace(&file, &bytes.map_err(failed)?)?;
            dir.sync()?;
        }
        Ok((name, is_new))
    }

    /// Removes what was kept; a missing file is no error.
    ///
    /// # Errors
    /// `Open`, `Write`.
    pub fn forget_import(&self, name: &str) -> Result<(), FileError> {
        let dir = self.state.open_dir(IMPORTS)?;
        dir.remove(&format!("{name}{ENDING}"))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn import_is_kept_once_and_read_back() {
        let tmp = tempfile::tempdir().expect("a directory");
        let state = StateDir::create(&tmp.path().join("state")).expect("created");
        assert_eq!(state.imports().expect("none yet"), [""; 0]);
        for expected in [true, false] {
            let mut copy = ImportCopy::new().expect("memory");
            copy.add("{\"a\":1}").expect("added");
            copy.add("{}").expect("added");
            let (_, is_new) = state.keep_import(copy).expect("kept");
            assert_eq!(is_new, expected);
        }
        std::fs::write(state.path().join(IMPORTS).join("other.jsonl.zst"), "").expect("ours");
        let found = state.imports().expect("listed");
        assert_eq!(found.len(), 1);
        let lines = state.open_import(&found[0]).expect("opened").lines();
        let lines: Vec<String> = lines.map(|line| line.expect("text")).collect();
        assert_eq!(lines, ["{\"a\":1}", "{}"]);
        for _ in 0..2 {
            state.forget_import(&found[0]).expect("gone");
        }
        assert_eq!(state.imports().expect("listed"), [""; 0]);
    }
}
