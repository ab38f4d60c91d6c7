//! Checkpoints of a program: where they are, and which of them is the newest complete one.
//!
//! A checkpoint counts where its name is none that programs give to unfinished files, it is not empty, its marker is there if
//! the job file names one, and a ZIP archive (what `torch.save`, Keras 3 and NumPy write) has its directory, which is written last.

use std::fs::{self, File, Metadata};
use std::io::{self, Read, Seek, SeekFrom};
use std::path::Path;
use std::time::UNIX_EPOCH;

use glob::{MatchOptions, Pattern, glob_with};

use crate::job::{CHECKPOINT, Resume};
use crate::record::Checkpoint;

/// So many entries are looked at, of all patterns and of one directory.
const MAX_ENTRIES: usize = 20_000;
/// Parts of names that programs give to what is not finished.
const UNFINISHED: [&str; 5] = [".tmp", ".part", ".incomplete", "-tmp-", ".temp"];
/// A ZIP archive ends with this record and a comment of at most 64 KiB (APPNOTE.TXT, 4.3.16).
const ZIP_END: &[u8; 4] = b"PK\x05\x06";
const ZIP_TAIL: u64 = 22 + 65_535;

/// Where a run's checkpoints are.
#[derive(Debug, Clone)]
pub struct Checkpoints {
    patterns: Vec<String>,
    marker: Option<String>,
}

impl Checkpoints {
    /// Those of the element `index` of a run in `workdir`.
    #[must_use]
    pub fn new(resume: &Resume, workdir: &str, index: u32) -> Self {
        let index = index.to_string();
        let absolute = |pattern: &String| {
            let pattern = pattern.replace("{index}", &index);
            if pattern.starts_with('/') {
                return pattern;
            }
            format!(
                "{}/{pattern}",
                Pattern::escape(workdir.trim_end_matches('/'))
            )
        };
        Self {
            patterns: resume.checkpoints.iter().map(absolute).collect(),
            marker: resume.marker.clone(),
        }
    }

    /// All that the patterns match and that may be complete, the newest first.
    #[must_use]
    pub fn all(&self) -> Vec<Checkpoint> {
        let options = MatchOptions {
            case_sensitive: true,
            require_literal_separator: true,
            require_literal_leading_dot: true,
        };
        let matched = self
            .patterns
            .iter()
            .filter_map(|pattern| glob_with(pattern, options).ok());
        let paths = matched.flatten().filter_map(Result::ok).take(MAX_ENTRIES);
        let mut found: Vec<Checkpoint> = paths.filter_map(|path| self.read(&path)).collect();
        found.sort_by(|one, other| {
            (other.modified_ms, &other.path).cmp(&(one.modified_ms, &one.path))
        });
        found.dedup_by(|one, other| one.path == other.path);
        found
    }

    /// The newest complete one that `fits`; it is given whether marker or format show that a checkpoint is complete.
    #[must_use]
    pub fn newest(&self, fits: impl Fn(&Checkpoint, bool) -> bool) -> Option<Checkpoint> {
        let mut all = self.all().into_iter();
        all.find(|checkpoint| {
            let shown = shows_completeness(Path::new(&checkpoint.path));
            let shown = shown.map(|is_shown| is_shown || self.marker.is_some());
            shown.is_some_and(|is_shown| fits(checkpoint, is_shown))
        })
    }

    fn read(&self, path: &Path) -> Option<Checkpoint> {
        let name = path.file_name()?.to_str()?;
        let unfinished = name.ends_with('~') || UNFINISHED.iter().any(|part| name.contains(part));
        // A shell reads the path as one line.
        let text = path
            .to_str()
            .filter(|text| !unfinished && !text.chars().any(char::is_control))?;
        let marker = self
            .marker
            .as_ref()
            .map(|marker| marker.replace(CHECKPOINT, text));
        if marker
            .as_ref()
            .is_some_and(|marker| marker == text || !Path::new(marker).exists())
        {
            return None;
        }
        // Of what matches the patterns, the markers are no checkpoints.
        let ending = self
            .marker
            .as_ref()
            .and_then(|marker| marker.strip_prefix(CHECKPOINT));
        if ending.is_some_and(|ending| text.ends_with(ending)) {
            return None;
        }
        let facts = fs::metadata(path).ok()?;
        let (modified_ms, bytes) = if facts.is_dir() {
            of_directory(path)
        } else {
            of_file(&facts)
        };
        let path = text.to_owned();
        (bytes > 0).then_some(Checkpoint {
            path,
            modified_ms,
            bytes,
        })
    }
}

fn of_file(facts: &Metadata) -> (u64, u64) {
    let modified = facts
        .modified()
        .ok()
        .and_then(|at| at.duration_since(UNIX_EPOCH).ok());
    let modified_ms = modified.map_or(0, |since| {
        u64::try_from(since.as_millis()).unwrap_or(u64::MAX)
    });
    (modified_ms, facts.len())
}

/// When something in it was written last, and the size of all its files.
fn of_directory(dir: &Path) -> (u64, u64) {
    let (mut newest_ms, mut bytes, mut entries) = (0, 0, 0);
    let mut dirs = vec![dir.to_owned()];
    while let Some(dir) = dirs.pop() {
        for entry in fs::read_dir(&dir).into_iter().flatten().flatten() {
            entries += 1;
            let Ok(facts) = entry.metadata() else {
                continue;
            };
            if facts.is_dir() {
                dirs.push(entry.path());
            } else {
                let (modified_ms, size) = of_file(&facts);
                newest_ms = newest_ms.max(modified_ms);
                bytes += size;
            }
            if entries > MAX_ENTRIES {
                return (newest_ms, bytes);
            }
        }
    }
    (newest_ms, bytes)
}

/// Whether a file's format shows that it is complete; `None`: it shows that it is not.
fn shows_completeness(path: &Path) -> Option<bool> {
    let facts = fs::metadata(path).ok()?;
    if facts.is_dir() {
        return Some(false);
    }
    match zip_is_whole(path, facts.len()).ok()? {
        Some(false) => None,
        is_shown => Some(is_shown.is_some()),
    }
}

/// Of what is no ZIP archive nothing is known: `None`.
fn zip_is_whole(path: &Path, size: u64) -> io::Result<Option<bool>> {
    let mut file = File::open(path)?;
    let mut magic = [0; 4];
    if size < 4 || file.read_exact(&mut magic).is_err() || &magic != b"PK\x03\x04" {
        return Ok(None);
    }
    file.seek(SeekFrom::Start(size.saturating_sub(ZIP_TAIL)))?;
    let mut tail = Vec::new();
    file.take(ZIP_TAIL).read_to_end(&mut tail)?;
    Ok(Some(memchr::memmem::rfind(&tail, ZIP_END).is_some()))
}

#[cfg(test)]
mod tests {
    use std::fs::{create_dir, write};
    use std::time::{Duration, SystemTime};

    use super::*;

    fn checkpoints(dir: &Path, more: &str) -> Checkpoints {
        let text = format!("[run]\ncommand = [\"a\"]\n[resume]\n{more}");
        let resume = crate::job::parse(&text)
            .expect("a job file")
            .resume
            .expect("there is one")
            .value;
        Checkpoints::new(&resume, dir.to_str().expect("text"), 3)
    }

    fn age(path: &Path, seconds: u64) {
        let file = File::open(path).expect("it is there");
        file.set_modified(SystemTime::now() - Duration::from_secs(seconds))
            .expect("ours");
    }

    fn name(found: Option<Checkpoint>) -> Option<String> {
        let path = found?.path;
        Some(path.rsplit('/').next()?.to_owned())
    }

    #[test]
    fn the_newest_complete_one_counts() {
        let dir = tempfile::tempdir().expect("a directory");
        let at = |name: &str| dir.path().join(name);
        let all = checkpoints(dir.path(), "checkpoints = [\"*.pt\", \"*.tmp*\"]");
        assert_eq!(all.newest(|_, _| true), None);
        for (file, text, seconds) in [
            ("1.pt", "one", 40),
            ("2.pt", "two", 30),
            // Unfinished, by name, by size, by format.
            ("3.tmp.pt", "half", 5),
            ("4.pt", "", 4),
            ("5.pt", "PK\u{3}\u{4}half", 3),
            (".6.pt", "hidden", 2),
            ("7.bin", "another name", 1),
        ] {
            write(at(file), text).expect("ours");
            age(&at(file), seconds);
        }
        assert_eq!(name(all.newest(|_, _| true)).as_deref(), Some("2.pt"));
        assert_eq!(
            name(all.newest(|found, _| !found.path.ends_with("/2.pt"))).as_deref(),
            Some("1.pt")
        );
        write(at("5.pt"), "PK\u{3}\u{4}whole PK\u{5}\u{6}and a comment").expect("ours");
        assert_eq!(name(all.newest(|_, _| true)).as_deref(), Some("5.pt"));
    }

    #[test]
    fn a_marker_shows_what_is_complete_and_the_index_is_filled_in() {
        let dir = tempfile::tempdir().expect("a directory");
        let at = |name: &str| dir.path().join(name);
        let files = checkpoints(
            dir.path(),
            "checkpoints = [\"run-{index}-*\"]\nmarker = \"{checkpoint}.done\"",
        );
        for file in [
            "run-3-a",
            "run-3-a.done",
            "run-3-b",
            "run-4-c",
            "run-4-c.done",
        ] {
            write(at(file), "text").expect("ours");
        }
        assert_eq!(name(files.newest(|_, _| true)).as_deref(), Some("run-3-a"));
        let dirs = checkpoints(
            dir.path(),
            "checkpoints = [\"step-*\"]\nmarker = \"{checkpoint}/COMPLETE\"",
        );
        for step in ["step-1", "step-2"] {
            create_dir(at(step)).expect("ours");
            write(at(step).join("rank0"), "text").expect("ours");
        }
        write(at("step-1/COMPLETE"), "").expect("ours");
        let found = dirs.newest(|_, _| true).expect("one");
        assert_eq!(
            (found.bytes, name(Some(found))),
            (4, Some("step-1".to_owned()))
        );
    }
}
