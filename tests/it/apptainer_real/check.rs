//! `dlrun image check` and `add` with images that are run: what is found in them, and what is wrong with them.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use serde_json::Value;

use super::place::{base_sandbox, base_sif, listed};
use crate::slurm_real::cluster::{Ran, User};

/// The base image with other modules in it: links to its files, which nobody writes to.
struct Image(tempfile::TempDir);

impl Image {
    fn with(modules: &[(&str, &str)]) -> Self {
        let dir = tempfile::Builder::new()
            .prefix("dlrun-image-")
            .tempdir_in("/var/tmp")
            .expect("a directory");
        let copy = Command::new("cp")
            .arg("-al")
            .arg(base_sandbox())
            .arg(dir.path().join("image"))
            .status();
        assert!(copy.expect("cp starts").success());
        let open = std::os::unix::fs::PermissionsExt::from_mode(0o755);
        fs::set_permissions(dir.path(), open).expect("ours");
        let image = Self(dir);
        for (name, text) in modules {
            fs::write(
                image
                    .path()
                    .join("usr/lib/python3/dist-packages")
                    .join(name),
                text,
            )
            .expect("ours");
        }
        image
    }

    fn path(&self) -> PathBuf {
        self.0.path().join("image")
    }
}

fn dlrun(user: &User, words: &[&str], image: &Path) -> Ran {
    let words: Vec<&str> = ["--json", "image"]
        .into_iter()
        .chain(words.iter().copied())
        .collect();
    let image = image.to_string_lossy().into_owned();
    user.dlrun(
        &words
            .into_iter()
            .chain([image.as_str()])
            .collect::<Vec<_>>(),
    )
}

/// Problems of the only image that was checked.
fn problems(ran: Ran, code: i32) -> Vec<String> {
    assert_eq!(ran.code, code, "{ran:?}");
    let result = ran.result();
    let listed = result["images"][0]["check"]["problems"]
        .as_array()
        .cloned()
        .unwrap_or_default();
    listed
        .iter()
        .map(|problem| problem.as_str().expect("a text").to_owned())
        .collect()
}

fn failure(ran: Ran, code: i32) -> String {
    assert_eq!(ran.code, code, "{ran:?}");
    let envelope: Value = serde_json::from_str(&ran.stdout).expect("an envelope");
    envelope["error"]["message"]
        .as_str()
        .expect("a message")
        .to_owned()
}

const MXNET: &str = "__version__ = '2.10.0'\nclass runtime:\n    class Features:\n        def is_enabled(self, name): return False\n";

#[test]
#[ignore = "needs Apptainer: run tests/run"]
fn an_image_is_added_as_it_is_found_and_no_other_version_passes() {
    let (user, image) = (listed(), Image::with(&[("mxnet.py", MXNET)]));
    let said = failure(
        dlrun(
            &user,
            &["add", "--framework", "mxnet", "--version", "2.1"],
            &image.path(),
        ),
        65,
    );
    assert!(
        said.contains("mxnet is said to be 2.1, and is 2.10.0"),
        "{said}"
    );
    let added = dlrun(&user, &["add", "--name", "mx"], &image.path()).result();
    assert_eq!(
        (&added["framework"], &added["version"]),
        (&"mxnet".into(), &"2.10.0".into())
    );
    assert_eq!(
        (&added["accelerator"], &added["arch"]),
        (&"none".into(), &"x86_64".into())
    );
    assert!(
        added["python"]
            .as_str()
            .is_some_and(|version| version.starts_with("3.")),
        "{added}"
    );
    assert_eq!(
        problems(dlrun(&user, &["check"], Path::new("mx")), 0),
        [""; 0]
    );
    let said = failure(dlrun(&user, &["add", "--name", "mx"], &image.path()), 73);
    assert!(said.contains("describes an image `mx` already"), "{said}");
    let listed = user.dlrun(&["image", "list"]).ok();
    assert!(
        listed
            .lines()
            .any(|line| line.starts_with("mx ") && line.contains("ok, ")),
        "{listed}"
    );
    // Another content under the same name, and the check tells of it.
    fs::write(
        image.path().join("usr/lib/python3/dist-packages/mxnet.py"),
        MXNET.replace("2.10.0", "2.11"),
    )
    .expect("ours");
    let found = problems(dlrun(&user, &["check"], Path::new("mx")), 65);
    assert_eq!(found, ["mxnet is said to be 2.10.0, and is 2.11"]);
    assert!(
        user.dlrun(&["image", "show", "mx"])
            .ok()
            .contains("and is 2.11")
    );
}

#[test]
#[ignore = "needs Apptainer: run tests/run"]
fn nothing_of_the_user_answers_in_the_place_of_the_image() {
    let (mut user, image) = (listed(), Image::with(&[]));
    for dir in [
        ".local/lib/python3.11/site-packages",
        ".local/lib/python3.13/site-packages",
        "own",
    ] {
        fs::create_dir_all(user.path(dir)).expect("ours");
        user.write(&format!("{dir}/jax.py"), "__version__ = '1'\n");
    }
    let own = user.path("own").to_string_lossy().into_owned();
    user.set("PYTHONPATH", &own);
    user.set("APPTAINERENV_PYTHONPATH", &own);
    user.set("APPTAINER_BIND", &own);
    let said = failure(
        dlrun(
            &user,
            &["add", "--framework", "jax", "--version", "1"],
            &image.path(),
        ),
        65,
    );
    assert!(said.contains("its Python has no jax"), "{said}");
}

#[test]
#[ignore = "needs Apptainer: run tests/run"]
fn an_image_without_python_says_so() {
    let (user, image) = (listed(), Image::with(&[]));
    for entry in fs::read_dir(image.path().join("usr/bin"))
        .expect("ours")
        .flatten()
    {
        if entry.file_name().to_string_lossy().starts_with("python") {
            fs::remove_file(entry.path()).expect("ours");
        }
    }
    let found = problems(dlrun(&user, &["check"], &image.path()), 65);
    assert_eq!(found, ["it has neither `python3` nor `python` on its PATH"]);
}

#[test]
#[ignore = "needs Apptainer: run tests/run"]
fn a_framework_that_hangs_crashes_or_babbles_is_stopped_and_named() {
    let user = listed();
    for (text, timeout, part) in [
        (
            "import time\ntime.sleep(987)",
            "8s",
            "within 8 s, while it imported jax",
        ),
        (
            "import os\nos.abort()",
            "60s",
            "SIGABRT, while it imported jax",
        ),
        (
            "while True: print('x' * 10000)",
            "60s",
            "printed more than 16 MiB",
        ),
    ] {
        let image = Image::with(&[("jax.py", text)]);
        let found = problems(
            dlrun(&user, &["check", "--timeout", timeout], &image.path()),
            65,
        );
        assert!(
            found.first().is_some_and(|problem| problem.contains(part)),
            "{part}: {found:?}"
        );
        let left = Command::new("pgrep")
            .args(["-f", &*image.path().to_string_lossy()])
            .output()
            .expect("pgrep");
        assert_eq!(String::from_utf8_lossy(&left.stdout), "", "nothing goes on");
    }
}

#[test]
#[ignore = "needs Apptainer: run tests/run"]
fn what_is_no_whole_image_is_told_apart() {
    let user = listed();
    let whole = fs::read(base_sif()).expect("the base");
    for (name, bytes, part) in [
        ("half.sif", &whole[..whole.len() / 2], "it is truncated"),
        (
            "page.sif",
            &b"<!DOCTYPE html><html>"[..],
            "it is neither a SIF",
        ),
        ("empty.sif", &b""[..], "it is empty"),
    ] {
        fs::write(user.path(name), bytes).expect("ours");
        let found = problems(dlrun(&user, &["check"], &user.path(name)), 65);
        assert!(
            matches!(&found[..], [one] if one.contains(part)),
            "{name}: {found:?}"
        );
        let said = failure(dlrun(&user, &["add"], &user.path(name)), 65);
        assert!(said.contains(part), "{name}: {said}");
    }
    let said = failure(dlrun(&user, &["check"], &user.path("none.sif")), 66);
    assert!(said.contains("none.sif does not exist"), "{said}");
}

#[test]
#[ignore = "needs Apptainer: run tests/run"]
fn a_digest_that_is_another_is_a_problem() {
    let user = listed();
    let words = [
        "add",
        "--no-check",
        "--name",
        "base",
        "--framework",
        "jax",
        "--version",
        "1",
    ];
    let added = dlrun(&user, &words, &base_sif()).result();
    let digest = added["digest"].as_str().expect("a digest").to_owned();
    let shelf = PathBuf::from(added["described_in"].as_str().expect("a path"));
    let text = fs::read_to_string(&shelf)
        .expect("written")
        .replace(&digest[7..], &"0".repeat(64));
    fs::write(&shelf, text).expect("ours");
    let found = problems(dlrun(&user, &["check", "--digest"], Path::new("base")), 65);
    assert!(
        found[0].starts_with("its digest is said to be sha256:000") && found[0].ends_with(&digest),
        "{found:?}"
    );
}
