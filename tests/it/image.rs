//! `dlrun image list`, `show`, `check` and `add`, with a runtime that runs the command outside of any container.

use std::fs;
use std::os::unix::fs::{PermissionsExt, symlink};
use std::path::PathBuf;

use crate::support::{TestEnv, python};

/// Runs what follows the image. `DLRUN_TEST_SAYS` is what it says instead, as a runtime that cannot start.
const RUNTIME: &str = r#"#!/bin/sh
case $1 in
--version) echo "apptainer version 1.4.5"; exit ;;
inspect) printf '%s' '{"data":{"attributes":{"labels":{LABELS}}},"type":"container"}'; exit ;;
esac
if [ "$DLRUN_TEST_SAYS" ]; then echo "$DLRUN_TEST_SAYS" >&2; exit 255; fi
while [ "$1" != sh ]; do shift; done
exec "$@"
"#;
const JAX: &str = "__version__ = '0.4.30'\nclass numpy:\n    ones = dot = None\n";

struct Place {
    env: TestEnv,
    image: PathBuf,
}

/// A sandbox, and a runtime that says that it has these labels.
fn place(labels: &str) -> Place {
    let mut env = TestEnv::new();
    let runtime = env.program("apptainer", &RUNTIME.replace("LABELS", labels));
    fs::rename(runtime, env.root().join("bin/apptainer")).expect("ours");
    symlink(python(), env.root().join("bin/python3")).expect("ours");
    let image = env.root().join("image");
    fs::create_dir_all(image.join("bin")).expect("ours");
    fs::create_dir_all(image.join(".singularity.d")).expect("ours");
    fs::create_dir_all(env.root().join("modules")).expect("ours");
    let modules = env.root().join("modules");
    env.set("PYTHONPATH", &modules);
    fs::write(modules.join("mxnet.py"), JAX).expect("ours");
    Place { env, image }
}

impl Place {
    fn shelf(&self, name: &str) -> PathBuf {
        self.env
            .root()
            .join("home/config/dlrun/images.d")
            .join(name)
    }
}

#[test]
fn an_image_is_added_listed_shown_and_checked() {
    let Place { env, image } =
        &place(r#""dlrun.framework":"mxnet","dlrun.provenance":"pip","dlrun.recipe":"mxnet-pip""#);
    let _ = env
        .dlrun(["image", "list"])
        .run()
        .code(0)
        .says("no image is in the catalogue");
    let added = env
        .dlrun(["image", "add", "--json", "--name", "mx"])
        .arg(image)
        .run()
        .code(0)
        .result();
    assert_eq!(
        (&added["version"], &added["provenance"]),
        (&"0.4.30".into(), &"pip".into()),
        "{added}"
    );
    let listed = env
        .dlrun(["image", "list", "--json"])
        .run()
        .code(0)
        .result();
    assert_eq!(
        listed["images"][0]["check"]["problems"],
        serde_json::json!([])
    );
    let _ = env
        .dlrun(["image", "list", "--framework", "jax"])
        .run()
        .code(0)
        .says("no image of jax");
    let _ = env
        .dlrun(["image", "show", "mx"])
        .run()
        .code(0)
        .says("mxnet-pip")
        .says("apptainer 1.4.5");
    let _ = env
        .dlrun(["image", "check", "mx"])
        .run()
        .code(0)
        .says("mx: ok");
    fs::write(
        env.root().join("modules/mxnet.py"),
        JAX.replace("0.4.30", "0.4.3"),
    )
    .expect("ours");
    let _ = env
        .dlrun(["image", "check", "--all"])
        .run()
        .code(65)
        .says("said to be 0.4.30, and is 0.4.3");
    let _ = env
        .dlrun(["image", "list"])
        .run()
        .code(0)
        .says("not as described");
    fs::remove_dir_all(image).expect("ours");
    let _ = env.dlrun(["image", "list"]).run().code(0).says("missing");
    let error = env
        .dlrun(["image", "check", "mx", "--json"])
        .run()
        .code(66)
        .error();
    assert_eq!(error["kind"], "missing");
}

#[test]
fn an_image_that_was_added_is_removed_without_its_file() {
    let place = place(r#""dlrun.framework":"mxnet""#);
    let Place { env, image } = &place;
    let _ = env
        .dlrun(["image", "add", "--name", "mx"])
        .arg(image)
        .run()
        .code(0);
    let _ = env
        .dlrun(["image", "remove", "mx", "--site"])
        .run()
        .code(66)
        .warns("which is not the catalogue");
    let _ = env
        .dlrun(["image", "remove", "mx"])
        .run()
        .code(0)
        .says("dlrun did not make it for you");
    assert!(
        image.exists()
            && !place.shelf("mx.toml").exists()
            && !place.shelf("mx.check.toml").exists()
    );
    let _ = env
        .dlrun(["image", "remove", "mx"])
        .run()
        .code(66)
        .warns("there is no image");
}

#[test]
fn an_image_that_dlrun_made_is_removed_with_its_file_unless_a_job_uses_it() {
    let place = place("");
    let Place { env, .. } = &place;
    let dir = env.state().join("images");
    fs::create_dir_all(&dir).expect("ours");
    for name in ["mx.sif", "mx.uri", "mx.log", "other.sif"] {
        fs::write(dir.join(name), "x").expect("ours");
    }
    let file = dir.join("mx.sif");
    fs::create_dir_all(place.shelf("")).expect("ours");
    let described = format!(
        "[[image]]\nname = \"mx\"\npath = {file:?}\nframework = \"mxnet\"\nversion = \"1\"\n"
    );
    fs::write(place.shelf("mx.toml"), &described).expect("ours");
    fs::write(
        place.shelf("same.toml"),
        described.replace("\"mx\"", "\"same\""),
    )
    .expect("ours");
    let _ = env
        .dlrun(["image", "remove", "mx"])
        .run()
        .code(73)
        .warns("`same`")
        .warns("--force");
    fs::remove_file(place.shelf("same.toml")).expect("ours");
    env.write("go.sh", "");
    let job = env.job(
        "while [ -e go.sh ]; do sleep 0.05; done",
        &format!("[image]\npath = {file:?}\n"),
    );
    let id = env
        .dlrun(["submit", "--no-check", "--scheduler", "local"])
        .arg(&job)
        .run()
        .code(0)
        .text();
    let _ = env
        .dlrun(["image", "remove", "mx"])
        .run()
        .code(73)
        .warns("is in use: run ");
    fs::remove_file(env.jobs().join("go.sh")).expect("ours");
    assert!(!id.is_empty() && file.exists());
    let _ = env
        .dlrun(["image", "remove", "mx", "--force"])
        .run()
        .code(0)
        .says("removed ");
    let left: Vec<_> = fs::read_dir(&dir)
        .expect("ours")
        .flatten()
        .map(|entry| entry.file_name())
        .collect();
    assert_eq!(left, ["other.sif"]);
    assert!(!place.shelf("mx.toml").exists());
    env.wait_quiet();
}

#[test]
fn what_is_not_as_described_is_not_added_unless_forced() {
    let place = place("");
    let (env, image) = (&place.env, &place.image);
    let words = [
        "image",
        "add",
        "--name",
        "mx",
        "--framework",
        "mxnet",
        "--version",
        "0.4.3",
    ];
    let _ = env
        .dlrun(words)
        .arg(image)
        .run()
        .code(65)
        .warns("said to be 0.4.3, and is 0.4.30");
    assert!(!place.shelf("mx.toml").exists() && !place.shelf("mx.check.toml").exists());
    let _ = env.dlrun(words).arg("--force").arg(image).run().code(0);
    let mode = fs::metadata(place.shelf("mx.toml"))
        .expect("written")
        .permissions()
        .mode();
    assert_eq!(mode & 0o777, 0o600);
    let _ = env
        .dlrun(words)
        .arg("--no-check")
        .arg(image)
        .run()
        .code(73)
        .warns("`--force` takes the place");
}

#[test]
fn a_file_that_describes_others_is_not_written_over() {
    let place = place("");
    let (env, image) = (&place.env, &place.image);
    let entry = |name: &str| {
        format!("[[image]]\nname = {name:?}\npath = \"/x\"\nframework = \"jax\"\nversion = \"1\"\n")
    };
    fs::create_dir_all(place.shelf("")).expect("ours");
    fs::write(place.shelf("a.toml"), entry("b")).expect("ours");
    let add = |name: &str| {
        let words = [
            "image",
            "add",
            "--force",
            "--no-check",
            "--framework",
            "jax",
            "--version",
            "1",
            "--name",
            name,
        ];
        env.dlrun(words).arg(image).run()
    };
    let _ = add("a").code(73).warns("describes an image `b` already");
    let _ = add("b").code(73).warns("take it out there");
    assert_eq!(
        fs::read_to_string(place.shelf("a.toml")).expect("there"),
        entry("b")
    );
    let _ = add("c").code(0);
}

#[test]
fn hostile_and_mistyped_names_are_refused() {
    let place = place("");
    let (env, image) = (&place.env, &place.image);
    for name in ["../../x", "a\nb", "$(id)", "", ".x", "a/b"] {
        let _ = env
            .dlrun(["image", "add", "--name", name])
            .arg(image)
            .run()
            .code(64)
            .warns("is not an image name");
    }
    assert!(!place.shelf("").exists());
    let words = ["image", "add", "--name", "mxnet-cpu"];
    let _ = env.dlrun(words).arg(image).run().code(0);
    for verb in ["show", "check"] {
        let _ = env
            .dlrun(["image", verb, "mxnet-cup"])
            .run()
            .code(66)
            .warns("did you mean `mxnet-cpu`?");
    }
    let _ = env.dlrun(["image", "add", "/nowhere/x.sif"]).run().code(66);
    let _ = env.dlrun(["image", "add", "docker://a b"]).run().code(64);
}

#[test]
fn a_runtime_that_cannot_start_is_no_fault_of_the_image() {
    let place = place("");
    let mut env = place.env;
    env.set(
        "DLRUN_TEST_SAYS",
        "FATAL:   container creation failed: no space left on device",
    );
    let error = env
        .dlrun(["image", "check", "--json"])
        .arg(&place.image)
        .run()
        .code(69)
        .error();
    assert!(
        error["message"]
            .as_str()
            .is_some_and(|text| text.contains("no space left on device")),
        "{error}"
    );
    env.set(
        "DLRUN_TEST_SAYS",
        "FATAL:   \"sh\": executable file not found in $PATH",
    );
    let _ = env
        .dlrun(["image", "check"])
        .arg(&place.image)
        .run()
        .code(65)
        .says("its shell does not start");
}
