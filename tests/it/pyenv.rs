//! Python environments, made with the `python3` of this machine and without a network.

use std::fs;
use std::io::Write as _;
use std::os::unix::fs::{MetadataExt, PermissionsExt};
use std::path::{Path, PathBuf};
use std::time::Duration;

use dlrun::foundation::command::Tool;
use dlrun::foundation::diagnostic::chain;
use dlrun::image::Progress;
use dlrun::image::python::{EnvFacts, PyenvError, inspect, prepare};
use nix::sys::signal::{Signal, kill};
use nix::unistd::getpid;

/// A directory with `requirements.txt` and a root for environments.
struct Site {
    dir: tempfile::TempDir,
}

impl Site {
    fn new(requirements: &str) -> Self {
        let site = Self {
            dir: tempfile::tempdir().expect("temp"),
        };
        site.put("requirements.txt", requirements);
        site
    }

    fn put(&self, name: &str, text: &str) -> PathBuf {
        let path = self.dir.path().join(name);
        fs::write(&path, text).expect("the directory is ours");
        path
    }

    /// A wheel `probe` with a module and a program, as pip would download it.
    fn put_wheel(&self) {
        let script = r"
import sys, zipfile
info = 'probe-1.0.dist-info/'
with zipfile.ZipFile(sys.argv[1], 'w') as wheel:
    wheel.writestr('probe.py', 'def main():\n    print(42)\n')
    wheel.writestr(info + 'METADATA', 'Metadata-Version: 2.1\nName: probe\nVersion: 1.0\n')
    wheel.writestr(info + 'WHEEL', 'Wheel-Version: 1.0\nGenerator: test\nRoot-Is-Purelib: true\nTag: py3-none-any\n')
    wheel.writestr(info + 'entry_points.txt', '[console_scripts]\nprobe = probe:main\n')
    wheel.writestr(info + 'RECORD', '')
";
        let wheel = self.dir.path().join("probe-1.0-py3-none-any.whl");
        let python = Tool::new("python3")
            .args(["-c", script])
            .arg(wheel)
            .run()
            .expect("python3 runs");
        python
            .require_success("python3")
            .expect("it writes a wheel");
    }

    fn requirements(&self) -> PathBuf {
        self.dir.path().join("requirements.txt")
    }

    fn root(&self) -> PathBuf {
        self.dir.path().join("state/envs")
    }

    fn inspect(&self) -> EnvFacts {
        inspect(&self.requirements(), None, &self.root()).expect("it can be described")
    }

    /// Directories of environments, finished or not.
    fn makings(&self) -> usize {
        let entries = fs::read_dir(self.root()).into_iter().flatten().flatten();
        entries
            .filter(|entry| entry.file_type().is_ok_and(|kind| kind.is_dir()))
            .count()
    }

    /// Another process that makes the environment, and kills itself at a phase if `kill_at` says so.
    fn other_process(&self, kill_at: &str) -> Tool {
        let me = std::env::current_exe().expect("it has a path");
        Tool::new(me)
            .args([
                "--ignored",
                "--exact",
                "--nocapture",
                "pyenv::makes_an_environment_for_another_test",
            ])
            .env("TEST_SITE", self.dir.path())
            .env("TEST_KILL_AT", kill_at)
            .timeout(Duration::from_secs(120))
    }
}

fn phase(progress: Progress<'_>) -> &'static str {
    match progress {
        Progress::Waiting(_) => "waiting",
        Progress::Phase("ready") => "finishing",
        Progress::Phase(_) => "creating",
        Progress::Line(_) => "installing",
    }
}

#[test]
#[ignore = "started by other tests in a process of its own"]
fn makes_an_environment_for_another_test() {
    let Some(dir) = std::env::var_os("TEST_SITE") else {
        return;
    };
    let kill_at = std::env::var("TEST_KILL_AT").expect("set with TEST_SITE");
    let (requirements, root) = (
        Path::new(&dir).join("requirements.txt"),
        Path::new(&dir).join("state/envs"),
    );
    let facts = inspect(&requirements, None, &root).expect("it can be described");
    let made = prepare(&facts, &mut |progress| {
        writeln!(std::io::stderr(), "phase {}", phase(progress)).expect("it is read");
        if phase(progress) == kill_at {
            kill(getpid(), Signal::SIGKILL).expect("we may");
        }
    });
    assert!(made.expect("it is made").ready);
}

#[test]
fn environment_is_made_once_used_and_found_again() {
    let site = Site::new("--no-index\n./probe-1.0-py3-none-any.whl  # ours\n");
    site.put_wheel();
    let facts = site.inspect();
    assert!(
        !facts.ready && !facts.dir.exists() && facts.version.starts_with("3."),
        "{facts:?}"
    );
    assert_eq!(facts.dir.parent(), Some(site.root().as_path()));
    assert_eq!(
        facts.dir.file_name().and_then(|name| name.to_str()),
        Some(&facts.hash[..16])
    );
    let (mut phases, mut lines) = (Vec::new(), Vec::new());
    let made = prepare(&facts, &mut |progress| {
        phases.push(phase(progress));
        if let Progress::Line(line) = progress {
            lines.push(line.to_owned());
        }
    })
    .expect("it is made");
    assert!(made.ready);
    phases.dedup();
    assert_eq!(phases, ["creating", "installing", "finishing"]);
    assert!(
        lines.contains(&"Installing collected packages: probe".to_owned()),
        "{lines:?}"
    );
    let log = fs::read_to_string(facts.dir.with_extension("log")).expect("it is kept");
    assert!(log.contains("Successfully installed probe-1.0"), "{log}");
    assert_eq!(
        fs::metadata(&facts.dir).expect("it is there").mode() & 0o777,
        0o700
    );
    // A program of the environment, found as a job finds it.
    let path = format!("{}:/usr/bin:/bin", facts.dir.join("bin").display());
    let program = Tool::new("probe")
        .env("PATH", &path)
        .run()
        .expect("it runs");
    assert_eq!(program.stdout, "42\n", "{}", program.stderr);
    // The second time nothing happens.
    let again = site.inspect();
    assert_eq!(again, made);
    prepare(&again, &mut |progress| panic!("{progress:?}")).expect("it is there");
    // One with a hole is not used.
    fs::remove_file(facts.dir.join("bin/python3")).expect("ours");
    assert!(!site.inspect().ready);
}

#[test]
fn requirements_decide_which_environment_it_is() {
    let site = Site::new("-r more.txt\n");
    site.put("more.txt", "torch==2.4\n");
    let first = site.inspect();

    site.put("more.txt", "torch==2.5\n");
    let second = site.inspect();
    assert_ne!(first.dir, second.dir, "an included file counts");
    site.put("more.txt", "torch==2.4\n");
    assert_eq!(site.inspect(), first);
    let elsewhere = Site::new("-r more.txt\n");
    elsewhere.put("more.txt", "torch==2.4\n");
    assert_eq!(
        elsewhere.inspect().hash,
        first.hash,
        "where the files lie does not"
    );
}

#[test]
fn requirements_that_cannot_be_read_are_named() {
    let site = Site::new("-r gone.txt\n");
    let refused =
        || inspect(&site.requirements(), None, &site.root()).expect_err("it cannot be read");
    let error = refused();
    assert!(
        matches!(&error, PyenvError::Requirements(path, _) if path.ends_with("gone.txt")),
        "{error}"
    );
    site.put("requirements.txt", &"# long\n".repeat(200_000));
    assert!(chain(&refused())[1].contains("larger than"));
    fs::remove_file(site.requirements()).expect("ours");
    assert_eq!(
        chain(&refused())[1],
        "No such file or directory (os error 2)"
    );
    fs::create_dir(site.requirements()).expect("ours");
    assert_eq!(chain(&refused())[1], "it is not a file");
    fs::remove_dir(site.requirements()).expect("ours");
    nix::unistd::mkfifo(&site.requirements(), nix::sys::stat::Mode::S_IRWXU).expect("ours");
    assert_eq!(
        chain(&refused())[1],
        "it is not a file",
        "a pipe would keep us waiting"
    );
    let private = site.put("private.txt", "");
    fs::set_permissions(&private, fs::Permissions::from_mode(0o000)).expect("ours");
    if !nix::unistd::geteuid().is_root() {
        assert!(inspect(&private, None, &site.root()).is_err());
    }
}

#[test]
fn failing_pip_is_quoted_and_leaves_nothing_but_its_log() {
    let site = Site::new("--no-index\nno-such-package-here==1\n");
    let facts = site.inspect();
    let error = prepare(&facts, &mut |_| {}).expect_err("there is no such package");
    let chain = chain(&error);
    let log = facts.dir.with_extension("log");
    assert_eq!(
        chain[0],
        format!(
            "cannot install `{}`; all that pip said is in `{}`",
            site.requirements().display(),
            log.display()
        )
    );
    assert!(
        chain[1].ends_with("bin/python3` exited with status 1"),
        "{chain:?}"
    );
    assert!(
        chain[2].ends_with("No matching distribution found for no-such-package-here==1"),
        "{chain:?}"
    );
    assert!(
        fs::read_to_string(log)
            .expect("it is kept")
            .contains("no-such-package-here")
    );
    assert_eq!((site.inspect().ready, site.makings()), (false, 0));
}

#[test]
fn interpreter_without_venv_is_told_from_other_failures() {
    let site = Site::new("");
    // As Debian's python3 without the package python3-venv, and one whose venv breaks.
    let python = |answer: &str| {
        let script = format!(
            "#!/bin/sh\ncase $* in *version_info*) echo 3.11.2; exit;; esac\n{answer}\nexit 1\n"
        );
        let path = site.put("python3", &script);
        fs::set_permissions(&path, fs::Permissions::from_mode(0o755)).expect("ours");
        EnvFacts {
            interpreter: path,
            ..site.inspect()
        }
    };
    let debian = "echo 'The virtual environment was not created successfully because ensurepip is not available.'";
    let error = prepare(&python(debian), &mut |_| {}).expect_err("no venv");
    assert!(matches!(&error, PyenvError::NoVenv { .. }), "{error}");
    assert!(chain(&error)[2].contains("ensurepip is not available"));
    let error =
        prepare(&python("echo \"No module named venv\" >&2"), &mut |_| {}).expect_err("no venv");
    assert!(matches!(error, PyenvError::NoVenv { .. }), "{error}");
    let error = prepare(
        &python("echo 'OSError: [Errno 28] No space left on device' >&2"),
        &mut |_| {},
    );
    assert!(
        matches!(error, Err(PyenvError::NoSpace { .. })),
        "{error:?}"
    );
    let error = prepare(&python("echo what >&2"), &mut |_| {});
    assert!(matches!(error, Err(PyenvError::Create { .. })), "{error:?}");
    assert_eq!(site.makings(), 0);
}

#[test]
fn requirements_changed_during_the_making_are_noticed() {
    let site = Site::new("# nothing\n");
    let facts = site.inspect();
    let made = prepare(&facts, &mut |progress| {
        if progress == Progress::Phase("ready") {
            site.put("requirements.txt", "# something\n");
        }
    });
    assert!(matches!(made, Err(PyenvError::Changed { .. })), "{made:?}");
    assert_eq!(site.makings(), 0);
}

#[test]
fn two_processes_and_a_thread_make_one_environment() {
    let site = Site::new("# nothing\n");
    let facts = site.inspect();
    let mut phases = String::new();
    std::thread::scope(|scope| {
        let others =
            [0, 1].map(|_| scope.spawn(|| site.other_process("never").run().expect("it runs")));
        let made = prepare(&facts, &mut |progress| {
            phases.push_str(&format!("phase {}\n", phase(progress)));
            if let Progress::Waiting(owner) = progress {
                assert_ne!(owner.expect("it signs").pid, std::process::id());
            }
        });
        assert!(made.expect("it is made").ready);
        for other in others {
            let output = other.join().expect("no panic");
            assert!(
                output.status.success(),
                "{}{}",
                output.stdout,
                output.stderr
            );
            phases.push_str(&output.stderr);
        }
    });
    assert_eq!(phases.matches("phase creating").count(), 1, "{phases}");
    assert_eq!((site.inspect().ready, site.makings()), (true, 1));
}

#[test]
fn killed_making_is_never_used_and_the_next_one_starts_anew() {
    let site = Site::new("--no-index\n./probe-1.0-py3-none-any.whl\n");
    site.put_wheel();
    for at in ["creating", "installing", "finishing"] {
        let output = site.other_process(at).run().expect("it runs");
        assert!(
            !output.status.success() && output.stderr.ends_with(&format!("phase {at}\n")),
            "{output:?}"
        );
        assert!(
            !site.inspect().ready && !site.inspect().dir.exists(),
            "{at}"
        );
        assert_eq!(site.makings(), 1, "what it left when killed while {at}");
    }
    assert!(
        prepare(&site.inspect(), &mut |_| {})
            .expect("nobody holds the lock")
            .ready
    );
    assert_eq!((site.inspect().ready, site.makings()), (true, 1));
}
