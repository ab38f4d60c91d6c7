//! Which `qsub` is whose: Torque, OpenPBS, Slurm and others install a program of that name.
//!
//! A `qsub` is known by the answer to `--version` (2 ms with Torque 6.1 and with OpenPBS 23.06), and asked only where that
//! decides something. Slurm's wrapper (Debian: slurm-wlm-torque) is known by its text, since it asks the controller before it
//! says anything. It is no PBS: `sbatch` takes the same jobs, and right.

use std::cell::RefCell;
use std::collections::{BTreeMap, BTreeSet};
use std::fs::File;
use std::io::Read;
use std::path::{Path, PathBuf};
use std::time::Duration;

use super::adapter_for;
use crate::foundation::command::{Tool, find_all};
use crate::foundation::diagnostic::chain;
use crate::job::SchedulerKind;

/// As much of a `qsub` as is read to tell whether it is Slurm's script.
const SCRIPT_BYTES: u64 = 64 << 10;

/// What a `qsub` turned out to be.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Dialect {
    /// A PBS, of this version.
    Pbs(SchedulerKind, String),
    /// Slurm's wrapper.
    SlurmWrapper,
    /// Something else; its answer.
    Other(String),
}

impl Dialect {
    /// The scheduler that is reached through it.
    #[must_use]
    pub fn kind(&self) -> Option<SchedulerKind> {
        match self {
            Self::Pbs(kind, _) => Some(*kind),
            Self::SlurmWrapper | Self::Other(_) => None,
        }
    }

    /// Reads the answer to `qsub --version`: `Version: 6.1.3.h5` (Torque), `pbs_version = 23.06.06` (OpenPBS).
    fn read(answer: &str) -> Option<Self> {
        answer.lines().find_map(|line| {
            let line = line.trim();
            if let Some(version) = line.strip_prefix("pbs_version") {
                let version = version.trim_start_matches([' ', '=', '\t']);
                return Some(Self::Pbs(SchedulerKind::OpenPbs, version.to_owned()));
            }
            let (word, version) = line.split_once(':')?;
            let version = Some(version.trim()).filter(|version| !version.is_empty())?;
            word.eq_ignore_ascii_case("version")
                .then(|| Self::Pbs(SchedulerKind::Torque, version.to_owned()))
        })
    }
}

impl std::fmt::Display for Dialect {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Self::Pbs(kind, version) => write!(f, "{} {version}", adapter_for(*kind).name()),
            Self::SlurmWrapper => write!(f, "Slurm's wrapper, no PBS"),
            Self::Other(answer) => write!(f, "neither Torque nor OpenPBS: {answer}"),
        }
    }
}

/// A `qsub` and what it is.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Qsub {
    /// Where it is.
    pub path: PathBuf,
    /// What it is.
    pub dialect: Dialect,
}

/// A PBS was asked for whose `qsub` is not here, but others are.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{} is asked for, but {}", .asked.as_str(), shown(.found))]
pub struct WrongQsub {
    /// What was asked for.
    pub asked: SchedulerKind,
    /// What there is.
    pub found: Vec<Qsub>,
}

fn shown(found: &[Qsub]) -> String {
    let one = |qsub: &Qsub| format!("`{}` is {}", qsub.path.display(), qsub.dialect);
    found.iter().map(one).collect::<Vec<_>>().join(", ")
}

/// The `qsub`s of this machine. Each is asked once at most.
#[derive(Debug)]
pub struct Qsubs {
    dirs: Vec<(SchedulerKind, PathBuf)>,
    timeout: Duration,
    asked: RefCell<BTreeMap<PathBuf, Dialect>>,
}

impl Qsubs {
    /// A PBS's commands are looked for in its own directory, where one is named, then in `PATH`. An answer may take
    /// `timeout`.
    #[must_use]
    pub fn new(dirs: Vec<(SchedulerKind, PathBuf)>, timeout: Duration) -> Self {
        Self {
            dirs,
            timeout,
            asked: RefCell::default(),
        }
    }

    /// The files called `qsub` in which `kind` is looked for, the first one first; with `auto`, any PBS. None is asked.
    #[must_use]
    pub fn places(&self, kind: SchedulerKind) -> Vec<PathBuf> {
        let is_meant = |of: &SchedulerKind| kind == SchedulerKind::Auto || *of == kind;
        let dirs = self.dirs.iter().filter(|(of, _)| is_meant(of));
        let dirs: Vec<PathBuf> = dirs.map(|(_, dir)| dir.clone()).collect();
        let mut places = find_all("qsub", &dirs);
        // `/bin` is `/usr/bin` on many machines.
        let mut seen = BTreeSet::new();
        places.retain(|path| seen.insert(path.canonicalize().unwrap_or_else(|_| path.clone())));
        places
    }

    /// The first `qsub` of `kind`, with `auto` of any PBS, and those that were passed over before it.
    #[must_use]
    pub fn look(&self, kind: SchedulerKind) -> (Option<Qsub>, Vec<Qsub>) {
        let mut passed_over = Vec::new();
        for path in self.places(kind) {
            let qsub = Qsub {
                dialect: self.ask(&path),
                path,
            };
            match qsub.dialect.kind() {
                Some(found) if kind == SchedulerKind::Auto || kind == found => {
                    return (Some(qsub), passed_over);
                }
                _ => passed_over.push(qsub),
            }
        }
        (None, passed_over)
    }

    /// The directory of the commands of `kind`, `None` where there are none. Where only one directory can be meant it is
    /// not asked what it holds, unless it was asked before: verbs that look at runs are called often.
    ///
    /// # Errors
    /// [`WrongQsub`] when all that is there is something else.
    pub fn commands(&self, kind: SchedulerKind) -> Result<Option<PathBuf>, WrongQsub> {
        let dir = |path: &Path| path.parent().map(Path::to_owned);
        let places = self.places(kind);
        match &places[..] {
            [] => return Ok(None),
            [only] if !self.asked.borrow().contains_key(only) => return Ok(dir(only)),
            _ => {}
        }
        match self.look(kind) {
            (Some(qsub), _) => Ok(dir(&qsub.path)),
            (None, found) => Err(WrongQsub { asked: kind, found }),
        }
    }

    fn ask(&self, path: &Path) -> Dialect {
        if let Some(known) = self.asked.borrow().get(path) {
            return known.clone();
        }
        let dialect = ask(path, self.timeout);
        self.asked
            .borrow_mut()
            .insert(path.to_owned(), dialect.clone());
        dialect
    }
}

fn ask(path: &Path, timeout: Duration) -> Dialect {
    if is_slurms(path) {
        return Dialect::SlurmWrapper;
    }
    match Tool::new(path).arg("--version").timeout(timeout).run() {
        Ok(output) => {
            let answers = [&output.stdout, &output.stderr];
            let known = answers.iter().find_map(|answer| Dialect::read(answer));
            known.unwrap_or_else(|| {
                let mut lines = answers.iter().flat_map(|answer| answer.lines());
                let line = lines.find(|line| !line.trim().is_empty());
                let line = line.unwrap_or("nothing").trim();
                let begin: String = line.chars().take(100).collect();
                Dialect::Other(format!("`--version` says {begin:?}"))
            })
        }
        Err(error) => Dialect::Other(chain(&error).join(": ")),
    }
}

/// Says whether a program is a Perl script that speaks of Slurm.
fn is_slurms(path: &Path) -> bool {
    let mut text = Vec::new();
    let read = File::open(path).and_then(|mut file| {
        let mut head = [0; 2];
        file.read_exact(&mut head)?;
        if &head == b"#!" {
            file.take(SCRIPT_BYTES).read_to_end(&mut text)
        } else {
            Ok(0)
        }
    });
    let text = String::from_utf8_lossy(&text).to_lowercase();
    let first = text.lines().next().unwrap_or_default();
    read.is_ok() && first.contains("perl") && text.contains("slurm")
}

#[cfg(test)]
mod tests {
    use std::fs;
    use std::os::unix::fs::PermissionsExt;

    use super::*;

    fn put(dir: &Path, script: &str) -> PathBuf {
        let path = dir.join("qsub");
        fs::write(&path, script).expect("the directory is ours");
        fs::set_permissions(&path, fs::Permissions::from_mode(0o755)).expect("the file is ours");
        path
    }

    fn dialect_of(script: &str) -> Dialect {
        let dir = tempfile::tempdir().expect("temp");
        ask(&put(dir.path(), script), Duration::from_secs(20))
    }

    #[test]
    fn answers_are_told_apart() {
        let torque = dialect_of("#!/bin/sh\nprintf 'Version: 6.1.3.h5\\nCommit: \\n'\n");
        assert_eq!(
            torque,
            Dialect::Pbs(SchedulerKind::Torque, "6.1.3.h5".into())
        );
        assert_eq!(
            dialect_of("#!/bin/sh\necho 'version: 2.5.13' >&2\n").kind(),
            Some(SchedulerKind::Torque)
        );
        for version in ["23.06.06", "19.1.3", "PBSPro_12.2.1"] {
            let answer = format!("#!/bin/sh\necho 'pbs_version = {version}'\n");
            assert_eq!(
                dialect_of(&answer),
                Dialect::Pbs(SchedulerKind::OpenPbs, version.into())
            );
        }
        let other = dialect_of("#!/bin/sh\necho 'qsub: Unknown option'\nexit 7\n");
        assert_eq!(
            other.to_string(),
            "neither Torque nor OpenPBS: `--version` says \"qsub: Unknown option\""
        );
        assert_eq!(dialect_of("#!/bin/sh\n").kind(), None);
    }

    #[test]
    fn slurms_wrapper_is_never_run() {
        let script = "#! /usr/bin/perl -w\n# qsub - submit a batch job in familiar PBS format.\nuse Slurm ':all';\n";
        assert_eq!(dialect_of(script), Dialect::SlurmWrapper);
    }

    #[test]
    fn a_named_directory_beats_the_path_and_each_is_asked_once() {
        let dir = tempfile::tempdir().expect("temp");
        let count = dir.path().join("count");
        let script = format!(
            "#!/bin/sh\necho x >> {}\necho 'pbs_version = 20.0.1'\n",
            count.display()
        );
        let path = put(dir.path(), &script);
        let qsubs = Qsubs::new(
            vec![(SchedulerKind::OpenPbs, dir.path().to_owned())],
            Duration::from_secs(20),
        );
        assert_eq!(qsubs.places(SchedulerKind::OpenPbs).first(), Some(&path));
        for _ in 0..2 {
            let (found, _) = qsubs.look(SchedulerKind::OpenPbs);
            assert_eq!(found.map(|qsub| qsub.path), Some(path.clone()));
        }
        assert_eq!(
            qsubs.commands(SchedulerKind::OpenPbs),
            Ok(Some(dir.path().to_owned()))
        );
        assert_eq!(fs::read_to_string(&count).expect("it was run"), "x\n");
        let lists_it = |kind| qsubs.places(kind).contains(&path);
        assert!(lists_it(SchedulerKind::Auto) && !lists_it(SchedulerKind::Torque));
    }

    #[test]
    fn the_wrong_one_is_named() {
        let dir = tempfile::tempdir().expect("temp");
        put(dir.path(), "#!/bin/sh\necho 'pbs_version = 20.0.1'\n");
        let qsubs = Qsubs::new(
            vec![(SchedulerKind::Torque, dir.path().to_owned())],
            Duration::from_secs(20),
        );
        let (found, passed_over) = qsubs.look(SchedulerKind::Torque);
        assert!(found.is_none_or(|qsub| qsub.path.parent() != Some(dir.path())));
        let error = WrongQsub {
            asked: SchedulerKind::Torque,
            found: vec![passed_over[0].clone()],
        };
        let text = error.to_string();
        assert!(
            text.starts_with("torque is asked for, but `") && text.ends_with("is OpenPBS 20.0.1"),
            "{text}"
        );
    }
}
