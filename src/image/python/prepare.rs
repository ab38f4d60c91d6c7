//! Makes an environment: `python3 -m venv DIR`, then `DIR/bin/python3 -m pip install -r FILE`.

use std::fs::{self, DirBuilder, File};
use std::io::{self, Write};
use std::os::unix::fs::{DirBuilderExt, symlink};
use std::path::Path;

use crate::foundation::command::{CommandError, Tool};
use crate::foundation::diagnostic::printable;
use crate::foundation::lock::{self, Patience};

use crate::image::in_progress::{Progress, Unfinished, beside, is_full, last_words, new_log, put};
use crate::image::python::failure::PyenvError;
use crate::image::python::inspect::{EnvFacts, FORMAT, MARKER, Marker, is_unchanged, whole};
use crate::image::python::interpreter::without_python_settings;

/// Makes the environment that `facts` describes, unless it is there, and returns its facts as they are then.
///
/// One process at a time makes it, the others wait and use it. What is interrupted or fails is never used: the path in
/// `facts` appears last. What venv and pip said stays in a file beside it, ending in `.log`.
///
/// # Errors
/// Any [`PyenvError`]; all but `Write` and `Changed` name what the interpreter, venv or pip said as their cause.
pub fn prepare(
    facts: &EnvFacts,
    progress: &mut dyn FnMut(Progress<'_>),
) -> Result<EnvFacts, PyenvError> {
    prepare_patiently(facts, Patience::USUAL, progress)
}

fn prepare_patiently(
    facts: &EnvFacts,
    patience: Patience,
    progress: &mut dyn FnMut(Progress<'_>),
) -> Result<EnvFacts, PyenvError> {
    let ready = || EnvFacts {
        ready: true,
        ..facts.clone()
    };
    if whole(&facts.dir, &facts.hash).is_some() {
        return Ok(ready());
    }
    let root = facts.dir.parent().unwrap_or(Path::new("/"));
    private_dirs()
        .create(root)
        .map_err(PyenvError::write(root))?;
    let (path, log) = (beside(&facts.dir, "lock"), beside(&facts.dir, "log"));
    let lock = lock::acquire(&path, &log, patience, |owner| {
        progress(Progress::Waiting(owner.as_ref()))
    })
    .map_err(PyenvError::write(&path))?;
    if whole(&facts.dir, &facts.hash).is_some() {
        return Ok(ready());
    }
    if lock.is_exclusive() {
        remove_remains(root, &facts.dir);
    }
    make(facts, progress)?;
    Ok(ready())
}

/// Makes it in a directory of its own and lets it appear.
fn make(facts: &EnvFacts, progress: &mut dyn FnMut(Progress<'_>)) -> Result<(), PyenvError> {
    let token = getrandom::u32().map_err(|error| PyenvError::write(&facts.dir)(error.into()))?;
    let token = format!("{token:08x}");
    let dir = Unfinished(beside(&facts.dir, &token));
    private_dirs()
        .create(&dir.0)
        .map_err(PyenvError::write(&dir.0))?;
    let log = beside(&facts.dir, "log");
    let mut log_file = new_log(&log).map_err(PyenvError::write(&log))?;
    progress(Progress::Phase("creating a new one"));
    create(facts, &dir.0, &mut log_file)?;
    install(facts, &dir.0, &log, &mut log_file, progress)?;
    progress(Progress::Phase("ready"));
    if !is_unchanged(facts)? {
        return Err(PyenvError::Changed(facts.requirements.clone()));
    }
    mark(facts, &dir.0)?;
    // Without a lock another may have been faster; what jobs already use is not replaced.
    if whole(&facts.dir, &facts.hash).is_none() {
        publish(&dir.0, &facts.dir, &token)?;
        dir.keep();
    }
    Ok(())
}

fn create(facts: &EnvFacts, dir: &Path, log: &mut File) -> Result<(), PyenvError> {
    let venv = Tool::new(&facts.interpreter)
        .args(["-I", "-m", "venv"])
        .arg(dir);
    let Err(source) = run_logged(&without_python_settings(venv), log, &mut |_| {}) else {
        return Ok(());
    };
    let dir = dir.to_owned();
    Err(match last_words(&source) {
        words if is_full(words) => PyenvError::NoSpace(dir, source),
        words if words.contains("ensurepip") || words.contains("No module named venv") => {
            PyenvError::NoVenv(facts.interpreter.clone(), source)
        }
        _ => PyenvError::Create(dir, source),
    })
}

/// pip runs where the requirements lie: what they name by a relative path is relative to pip's working directory.
fn install(
    facts: &EnvFacts,
    dir: &Path,
    log: &Path,
    log_file: &mut File,
    progress: &mut dyn FnMut(Progress<'_>),
) -> Result<(), PyenvError> {
    let pip = Tool::new(dir.join("bin/python3"))
        .args([
            "-m",
            "pip",
            "install",
            "--disable-pip-version-check",
            "--no-input",
            "--no-color",
        ])
        .args(["--progress-bar", "off", "-r"])
        .arg(&facts.requirements)
        .current_dir(facts.requirements.parent().unwrap_or(Path::new("/")));
    // The user's `PIP_*` name the site's mirrors and stay, but for those that install elsewhere.
    let elsewhere = ["PIP_TARGET", "PIP_PREFIX", "PIP_ROOT", "PIP_DRY_RUN"];
    let pip = elsewhere
        .iter()
        .fold(pip, Tool::env_remove)
        .env("PIP_USER", "0");
    let on_line = &mut |line: &str| progress(Progress::Line(line));
    run_logged(&without_python_settings(pip), log_file, on_line).map_err(|source| {
        if is_full(last_words(&source)) {
            return PyenvError::NoSpace(dir.to_owned(), source);
        }
        PyenvError::Install(facts.requirements.clone(), log.to_owned(), source)
    })
}

/// Runs a tool that must succeed, with its lines in the log and to `on_line`.
fn run_logged(
    tool: &Tool,
    log: &mut File,
    on_line: &mut dyn FnMut(&str),
) -> Result<(), CommandError> {
    let output = tool.run_lines(|news| {
        if let Some((_, line)) = news {
            // That the log cannot be written is seen elsewhere: the tool writes to the same file system.
            let _ = writeln!(log, "{line}");
            on_line(&printable(line));
        }
        true
    })?;
    output.require_success(&tool.program()).map(drop)
}

/// Writes the marker, after all else is on the disk: a crash of the node must not leave it without what it vouches for.
fn mark(facts: &EnvFacts, dir: &Path) -> Result<(), PyenvError> {
    let marker = Marker {
        format: FORMAT,
        hash: facts.hash.clone(),
        interpreter: facts.interpreter.clone(),
        version: facts.version.clone(),
        requirements: facts.requirements.clone(),
    };
    let (path, part) = (dir.join(MARKER), dir.join(format!("{MARKER}.part")));
    let write = || -> io::Result<()> {
        nix::unistd::syncfs(File::open(dir)?)?;
        put(&path, &part, &serde_json::to_vec_pretty(&marker)?, 0o600)
    };
    write().map_err(PyenvError::write(&path))
}

/// Lets the link `visible` name `dir`, in one step.
fn publish(dir: &Path, visible: &Path, token: &str) -> Result<(), PyenvError> {
    let link = beside(visible, &format!("{token}.link"));
    let target = dir.file_name().map_or(dir, Path::new);
    symlink(target, &link)
        .and_then(|()| fs::rename(&link, visible))
        .map_err(PyenvError::write(visible))
}

/// Removes what interrupted makings left: directories and links called as the environment with a further ending.
fn remove_remains(root: &Path, visible: &Path) {
    let Some(name) = visible.file_name().and_then(|name| name.to_str()) else {
        return;
    };
    for entry in fs::read_dir(root).into_iter().flatten().flatten() {
        let file_name = entry.file_name();
        let ours = file_name
            .to_str()
            .and_then(|file| file.strip_prefix(name)?.strip_prefix('.'))
            .is_some();
        let removed = match entry.file_type() {
            Ok(kind) if ours && kind.is_dir() => fs::remove_dir_all(entry.path()),
            Ok(kind) if ours && kind.is_symlink() => fs::remove_file(entry.path()),
            _ => Ok(()),
        };
        if let Err(error) = removed {
            tracing::warn!(path = %entry.path().display(), %error, "cannot remove an unfinished environment");
        }
    }
}

/// Directories for the user alone; what venv and pip put into them has the user's umask.
fn private_dirs() -> DirBuilder {
    let mut builder = DirBuilder::new();
    builder.recursive(true).mode(0o700);
    builder
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_remains_of_the_same_environment_are_removed() {
        let root = tempfile::tempdir().expect("temp");
        let at = |name: &str| root.path().join(name);
        for name in ["abc.1", "abc.2/bin", "abd.1", "abc", "abcd.1", "other"] {
            fs::create_dir_all(at(name)).expect("ours");
        }
        fs::write(at("abc.log"), "").expect("ours");
        fs::write(at("abc.lock"), "").expect("ours");
        symlink("other", at("abc.3.link")).expect("ours");
        remove_remains(root.path(), &at("abc"));
        let mut left: Vec<_> = fs::read_dir(root.path())
            .expect("ours")
            .flatten()
            .map(|e| e.file_name())
            .collect();
        left.sort();
        assert_eq!(
            left,
            ["abc", "abc.lock", "abc.log", "abcd.1", "abd.1", "other"]
        );
    }

    #[test]
    fn full_disks_are_recognised_by_the_words_of_python() {
        assert!(is_full(
            "ERROR: Could not install packages due to an OSError: [Errno 28] No space left on device"
        ));
        assert!(is_full(
            "OSError: [Errno 122] Disk quota exceeded: '/home/u/.cache'"
        ));
        assert!(!is_full("ERROR: No matching distribution found for torch"));
    }

    #[test]
    fn visible_link_is_replaced_in_one_step() {
        let root = tempfile::tempdir().expect("temp");
        let at = |name: &str| root.path().join(name);
        for token in ["abc.1", "abc.2"] {
            fs::create_dir(at(token)).expect("ours");
            publish(&at(token), &at("abc"), token).expect("ours");
            assert_eq!(fs::read_link(at("abc")).expect("a link"), Path::new(token));
        }
    }
}
