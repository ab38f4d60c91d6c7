//! `dlrun image build` from a local base, as users with and without further ids; builds that end early.

use std::fs;
use std::time::{Duration, Instant};

use nix::sys::signal::{Signal, kill};
use nix::unistd::Pid;
use serde_json::Value;

use super::place::{base_sif, listed, unlisted};
use crate::slurm_real::cluster::{Ran, User};

/// A recipe for an image on the base, with a framework that takes no time to install.
fn define(user: &User, post: &str) {
    let module = "/usr/lib/python3/dist-packages/mxnet.py";
    let said = user.shell("mkdir -p .config/dlrun/recipes.d");
    assert_eq!(said.code, 0, "{said:?}");
    user.write(
        ".config/dlrun/recipes.d/x.def",
        &format!(
            "# dlrun: framework = mxnet\n# dlrun: provenance = pip\n# dlrun: base = {base}\n# dlrun: pin = 1.9.1\n\
             Bootstrap: localimage\nFrom: {base}\n\n%post\n    cat > {module} <<'EOF'\n__version__ = '1.9.1'\nclass runtime:\n    \
             class Features:\n        def is_enabled(self, name): return False\nEOF\n    {post}\n",
            base = base_sif().display()
        ),
    );
}

const BUILD: [&str; 8] = [
    "--json", "image", "build", "mxnet", "--recipe", "x", "--name", "x",
];

fn error(ran: Ran, code: i32) -> (String, String) {
    assert_eq!(ran.code, code, "{ran:?}");
    let envelope: Value = serde_json::from_str(&ran.stdout).expect("an envelope");
    (
        envelope["error"]["message"]
            .as_str()
            .expect("a message")
            .to_owned(),
        envelope["error"]["hints"].to_string(),
    )
}

/// Names beside the images, but for logs and locks, which stay.
fn left(user: &User) -> Vec<String> {
    let names = fs::read_dir(user.state_dir().join("images"))
        .into_iter()
        .flatten()
        .flatten();
    let names = names.map(|entry| entry.file_name().to_string_lossy().into_owned());
    names
        .filter(|name| !name.ends_with(".log") && !name.ends_with(".lock"))
        .collect()
}

#[test]
#[ignore = "needs Apptainer: run tests/run"]
fn a_user_with_ids_builds_checks_and_adds_an_image_and_a_second_at_once_finds_it_made() {
    let user = listed();
    define(&user, "touch /opt/x; chown 1000:1000 /opt/x");
    let built = std::thread::scope(|scope| {
        let both = [(); 2].map(|()| scope.spawn(|| user.dlrun(&BUILD).result()));
        both.map(|one| one.join().expect("no panic"))
    });
    let mut made: Vec<bool> = built.iter().map(|one| one["made_now"] == true).collect();
    made.sort_unstable();
    assert_eq!(made, [false, true], "{built:?}");
    for one in &built {
        assert_eq!(
            (&one["name"], &one["version"]),
            (&"x".into(), &"1.9.1".into()),
            "{one}"
        );
        assert!(
            one["digest"]
                .as_str()
                .is_some_and(|digest| digest.starts_with("sha256:")),
            "{one}"
        );
    }
    let listed = user.dlrun(&["image", "list"]).ok();
    assert!(
        listed
            .lines()
            .any(|line| line.starts_with("x ") && line.contains("ok, ")),
        "{listed}"
    );
    define(&user, "true");
    let (message, hints) = error(user.dlrun(&BUILD), 73);
    assert!(
        message.contains("built from something else") && hints.contains("--force"),
        "{message} {hints}"
    );
}

#[test]
#[ignore = "needs Apptainer: run tests/run"]
fn a_user_without_ids_is_told_why_a_base_with_other_owners_cannot_be_built_on() {
    let user = unlisted();
    define(&user, "true");
    let ran = user.dlrun(&BUILD);
    let (message, hints) = error(ran, 69);
    assert!(message.contains("the build of x failed"), "{message}");
    assert!(
        hints.contains("files of other users") && hints.contains("/etc/subuid"),
        "{hints}"
    );
    assert_eq!(left(&user), [""; 0]);
}

/// Signals each process whose arguments begin with these words.
fn signal(words: &[&str], signal: Signal) {
    assert!(each(words, Some(signal)) > 0, "nobody runs {words:?}");
}

/// How many processes have arguments that begin with these words.
fn count(words: &[&str]) -> usize {
    each(words, None)
}

fn each(words: &[&str], signal: Option<Signal>) -> usize {
    let begins = words.join("\0");
    let mut found = 0;
    for entry in fs::read_dir("/proc").expect("it is mounted").flatten() {
        let argv = fs::read(entry.path().join("cmdline")).unwrap_or_default();
        let Some(pid) = entry
            .file_name()
            .to_str()
            .and_then(|name| name.parse().ok())
        else {
            continue;
        };
        if argv.starts_with(begins.as_bytes()) {
            found += usize::from(kill(Pid::from_raw(pid), signal).is_ok());
        }
    }
    found
}

#[test]
#[ignore = "needs Apptainer: run tests/run"]
fn an_interrupted_build_leaves_no_half_made_entry() {
    let user = listed();
    // No other test sleeps just so long.
    let nap = format!("600.{}", std::process::id());
    define(&user, &format!("sleep {nap}"));
    let log = user.state_dir().join("images/x.log");
    for which in [Signal::SIGTERM, Signal::SIGHUP, Signal::SIGKILL] {
        let mut build = user.command(user.binary());
        let mut build = build
            .args(BUILD)
            .spawn()
            .expect("timeout and setpriv are there");
        let start = Instant::now();
        while !fs::read_to_string(&log).is_ok_and(|said| said.contains(&format!("+ sleep {nap}"))) {
            assert!(
                start.elapsed() < Duration::from_secs(120),
                "it does not come to %post"
            );
            std::thread::sleep(Duration::from_millis(100));
        }
        signal(&[&user.binary().to_string_lossy(), "--json"], which);
        build.wait().expect("ours");
        if which != Signal::SIGKILL {
            assert_eq!(left(&user), [""; 0]);
        } else {
            let start = Instant::now();
            while count(&["sleep", &nap]) > 0 {
                assert!(
                    start.elapsed() < Duration::from_secs(60),
                    "the runtime outlives dlrun"
                );
                std::thread::sleep(Duration::from_millis(100));
            }
        }
        // One that dlrun lived to clean up after is gone.
        assert_eq!(log.exists(), which == Signal::SIGKILL);
        let _ = fs::remove_file(&log);
    }
    assert!(!user.path(".config/dlrun/images.d/x.toml").exists());
    define(&user, "true");
    user.dlrun(&BUILD).result();
    let mut left = left(&user);
    left.sort();
    assert_eq!(left, ["x.def", "x.sif"]);
}

#[test]
#[ignore = "needs Apptainer: run tests/run"]
fn hostile_names_are_refused_before_anything_is_written() {
    let user = listed();
    define(&user, "true");
    for name in ["../../x", "a\nb", "$(id)", "-x", ""] {
        let words = [&BUILD[..7], &[name]].concat();
        let ran = user.dlrun(&words);
        assert_eq!(ran.code, 64, "{name:?}: {ran:?}");
    }
    assert_eq!(left(&user), [""; 0]);
}
