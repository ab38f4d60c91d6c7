//! Which Python an environment is made with.

use std::fs::{self, File};
use std::io::{self, Read};

use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::time::Duration;

use crate::foundation::command::{self, Tool};

use crate::image::python::failure::PyenvError;

/// How long an interpreter may take to say its version: its files may have to come from a cold network file system.
const START_LIMIT: Duration = Duration::from_secs(120);

/// A Python interpreter and what tells whether it was replaced.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Interpreter {
    /// The file itself, without symbolic links: what a link names may change with a loaded module.
    pub(crate) path: PathBuf,
    /// When it was changed, in nanoseconds since 1970.
    pub(crate) modified_ns: i128,
    /// Its size, in bytes.
    pub(crate) size_bytes: u64,
}

/// Finds the interpreter: the one that was asked for, else the first `python3` in `PATH`. One in an environment, the
/// user's or ours, is a link to the interpreter that the environment was made with, and stands for that.
pub(crate) fn find(asked: Option<&Path>) -> Result<Interpreter, PyenvError> {
    let asked = asked.unwrap_or(Path::new("python3"));
    let missing = || PyenvError::NoInterpreter(asked.display().to_string());
    let path = resolved(&command::find(asked, &[]).ok_or_else(missing)?)?;
    let about = fs::metadata(&path).map_err(|_| missing())?;
    let modified_ns = i128::from(about.mtime()) * 1_000_000_000 + i128::from(about.mtime_nsec());
    Ok(Interpreter {
        path,
        modified_ns,
        size_bytes: about.size(),
    })
}

/// The interpreter with which an environment would be made (default: the first `python3` in `PATH`), without symbolic
/// links, and its version.
///
/// # Errors
/// [`PyenvError::NoInterpreter`], [`PyenvError::Interpreter`], [`PyenvError::TooOld`].
pub fn interpreter(asked: Option<&Path>) -> Result<(PathBuf, String), PyenvError> {
    let found = find(asked)?;
    let version = version(&found.path)?;
    Ok((found.path, version))
}

/// Follows symbolic links, and scripts such as those that pyenv and asdf put into `PATH`: what a script starts depends
/// on the directory and the environment, so it is asked. Only then does a known environment cost a start of Python.
fn resolved(found: &Path) -> Result<PathBuf, PyenvError> {
    let (file, is_script) = look_into(found).unwrap_or_else(|_| (found.to_owned(), false));
    if !is_script {
        return Ok(file);
    }
    let said = ask(&file, "import sys; print(sys.executable)")?;
    let executable = PathBuf::from(said.trim());
    match look_into(&executable) {
        Ok((target, false)) => Ok(target),
        _ => Err(PyenvError::NoInterpreter(format!(
            "{} -> {}",
            file.display(),
            executable.display()
        ))),
    }
}

/// A file without symbolic links, and whether it is a script.
fn look_into(path: &Path) -> io::Result<(PathBuf, bool)> {
    let mut start = [0; 2];
    // It may be executed and not read.
    let read = File::open(path).and_then(|mut file| file.read_exact(&mut start));
    Ok((fs::canonicalize(path)?, read.is_ok() && start == *b"#!"))
}

/// Asks an interpreter for its version, such as `3.11.7`.
pub(crate) fn version(path: &Path) -> Result<String, PyenvError> {
    let said = ask(path, "import sys; print('%d.%d.%d' % sys.version_info[:3])")?;
    let version = said.trim().to_owned();
    match is_usable(&version) {
        true => Ok(version),
        false => Err(PyenvError::TooOld(path.to_owned(), version)),
    }
}

/// From the oldest Python on whose pip knows the options that we give.
fn is_usable(version: &str) -> bool {
    let mut numbers = version.split('.').map(|part| part.parse().unwrap_or(0));
    [numbers.next(), numbers.next()] >= [Some(3), Some(6)]
}

fn ask(path: &Path, question: &str) -> Result<String, PyenvError> {
    let tool = without_python_settings(Tool::new(path).args(["-c", question]).timeout(START_LIMIT));
    let output = tool
        .run()
        .and_then(|output| output.require_success(&tool.program()));
    Ok(output
        .map_err(|source| PyenvError::Interpreter(path.to_owned(), source))?
        .stdout)
}

/// Removes what loaded modules and active environments set for another Python, and speaks UTF-8: the C locale would
/// make Python read files as ASCII.
pub(crate) fn without_python_settings(tool: Tool) -> Tool {
    let names = [
        "PYTHONPATH",
        "PYTHONHOME",
        "PYTHONSTARTUP",
        "PYTHONUSERBASE",
        "VIRTUAL_ENV",
    ];
    names
        .iter()
        .fold(tool, Tool::env_remove)
        .env("LC_ALL", "C.UTF-8")
        .env("PYTHONUTF8", "1")
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::{PermissionsExt, symlink};

    use super::*;

    #[test]
    fn versions_before_three_six_are_refused() {
        for (version, usable) in [
            ("3.6.0", true),
            ("3.11.7", true),
            ("4.0.0", true),
            ("3.5.9", false),
            ("2.7.18", false),
        ] {
            assert_eq!(is_usable(version), usable, "{version}");
        }
        assert!(!is_usable("") && !is_usable("what"));
    }

    #[test]
    fn links_and_scripts_are_followed_to_the_interpreter() {
        let dir = tempfile::tempdir().expect("temp");
        let real = find(None).expect("the tests need python3");
        let (link, shim) = (dir.path().join("link"), dir.path().join("shim"));
        symlink(&real.path, &link).expect("ours");
        assert_eq!(find(Some(&link)).expect("a link"), real);
        fs::write(
            &shim,
            format!("#!/bin/sh\nexec '{}' \"$@\"\n", real.path.display()),
        )
        .expect("ours");
        fs::set_permissions(&shim, fs::Permissions::from_mode(0o755)).expect("ours");
        assert_eq!(find(Some(&shim)).expect("a script"), real);
        fs::write(&shim, "#!/bin/sh\necho 'no version is set' >&2; exit 1\n").expect("ours");
        let error = find(Some(&shim)).expect_err("a broken script");
        let words = crate::foundation::diagnostic::chain(&error).join("; ");
        assert!(
            words.starts_with("cannot run the Python") && words.ends_with("no version is set"),
            "{words}"
        );
        let error = find(Some(Path::new("python9"))).expect_err("none");
        assert_eq!(
            error.to_string(),
            "cannot find the Python interpreter `python9`"
        );
    }
}
