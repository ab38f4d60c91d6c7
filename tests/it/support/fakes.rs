//! Programs of a scheduler, replaced by `tests/fakes/fake`.

use std::fs;
use std::os::unix::fs::symlink;
use std::path::{Path, PathBuf};

/// The fake of one program.
#[derive(Debug)]
pub(crate) struct Fake {
    dir: PathBuf,
    name: String,
}

/// One call of a fake.
#[derive(Debug)]
pub(crate) struct Call {
    pub(crate) argv: Vec<String>,
    pub(crate) environ: Vec<String>,
    pub(crate) stdin: String,
}

impl Call {
    /// The value of a variable that the call saw.
    pub(crate) fn variable(&self, name: &str) -> Option<&str> {
        self.environ
            .iter()
            .find_map(|entry| entry.strip_prefix(name)?.strip_prefix('='))
    }

    /// The value of `--option=value`.
    pub(crate) fn option(&self, name: &str) -> Option<&str> {
        self.argv
            .iter()
            .find_map(|word| word.strip_prefix(name)?.strip_prefix('='))
    }
}

impl Fake {
    /// Puts a program called `name` into `dir`.
    pub(super) fn install(dir: &Path, name: &str) -> Self {
        let script = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/fakes/fake");
        let link = dir.join(name);
        if !link.exists() {
            symlink(script, link).expect("the directory is ours");
        }
        Self {
            dir: dir.to_owned(),
            name: name.to_owned(),
        }
    }

    fn put(self, what: &str, content: &str) -> Self {
        let path = self.dir.join(format!("{}.{what}", self.name));
        let part = self.dir.join(format!("{}.{what}.part", self.name));
        fs::write(&part, content)
            .and_then(|()| fs::rename(&part, &path))
            .expect("the directory is ours");
        self
    }

    pub(crate) fn stdout(self, text: &str) -> Self {
        self.put("stdout", text)
    }

    pub(crate) fn stderr(self, text: &str) -> Self {
        self.put("stderr", text)
    }

    pub(crate) fn code(self, code: u8) -> Self {
        self.put("code", &code.to_string())
    }

    /// Shell commands that run at each call.
    pub(crate) fn hook(self, commands: &str) -> Self {
        self.put("hook", commands)
    }

    /// Never answers.
    pub(crate) fn hang(self) -> Self {
        self.put("hang", "")
    }

    /// The calls so far.
    pub(crate) fn calls(&self) -> Vec<Call> {
        let dir = self.dir.join(format!("{}.calls", self.name));
        let text = |path: PathBuf| {
            String::from_utf8_lossy(&fs::read(path).expect("it was written")).into_owned()
        };
        let words = |path: PathBuf| {
            let text = text(path);
            text.split_terminator('\0')
                .map(str::to_owned)
                .collect::<Vec<_>>()
        };
        (1..)
            .map(|number: u32| dir.join(number.to_string()))
            .take_while(|call| call.exists())
            .map(|call| Call {
                argv: words(call.join("argv")),
                environ: words(call.join("environ")),
                stdin: text(call.join("stdin")),
            })
            .collect()
    }

    /// The only call.
    #[track_caller]
    pub(crate) fn call(&self) -> Call {
        let mut calls = self.calls();
        assert_eq!(
            calls.len(),
            1,
            "`{}` was called {} times: {calls:?}",
            self.name,
            calls.len()
        );
        calls.remove(0)
    }
}
