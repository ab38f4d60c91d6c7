//! The example job in a container, from the definition file to the record: an ordinary user builds the image on this
//! machine, the catalogue has it, a plan chooses it, the job trains in it on Slurm.

use std::fs;
use std::os::unix::fs::MetadataExt;
use std::path::Path;

use serde_json::{Value, json};

use super::place::{base_sif, listed, runtime};
use crate::slurm_real::cluster::{Ran, User};
use crate::support::tell;

/// How long the build may take, in seconds: half a gigabyte is downloaded and compressed.
const BUILD_SECONDS: u32 = 1500;
const NAME: &str = "tensorflow-2.20.0-digits";

/// Who builds and trains: on the cluster where there is one, else here.
fn user() -> User {
    if std::env::var("DLRUN_TEST_SLURM_CONF").is_ok() {
        return User::new();
    }
    tell("not run on Slurm: DLRUN_TEST_SLURM_CONF is not set");
    let mut user = listed();
    user.set("DLRUN_SCHEDULER__KIND", "local");
    user
}

/// A copy of the example, so that its outputs do not lie in the sources.
fn copy_example(user: &User) {
    let sources = Path::new(env!("CARGO_MANIFEST_DIR")).join("jobs/mnist-cnn");
    for name in ["train.py", "container.toml", "requirements.txt"] {
        user.write(
            name,
            &fs::read_to_string(sources.join(name)).expect("the example is there"),
        );
    }
    // No registry is asked: the base is a Debian of this machine's.
    let definition = fs::read_to_string(sources.join("image.def")).expect("the example is there");
    let from = "Bootstrap: docker\nFrom: python:3.11-slim-bookworm\n";
    assert!(definition.contains(from), "{definition}");
    let base = format!("Bootstrap: localimage\nFrom: {}\n", base_sif().display());
    user.write("image.def", &definition.replace(from, &base));
}

/// A command with patience.
fn patient(user: &User, seconds: u32, program: &Path, arguments: &[&str]) -> Ran {
    let output = user
        .command_within(seconds, program)
        .args(arguments)
        .output();
    Ran::of(output.expect("timeout and setpriv are there"))
}

/// Builds the image and adds it; returns what dlrun tells of it.
fn build(user: &User) -> Value {
    let build = ["build", "--fakeroot", "digits.sif", "image.def"];
    let built = patient(user, BUILD_SECONDS, &runtime(), &build);
    assert_eq!(built.code, 0, "{built:?}");
    let words = ["--json", "image", "add", "digits.sif", "--name", NAME];
    let claims = [
        "--provenance",
        "pip",
        "--compiler",
        "xla",
        "--with",
        "scikit-learn",
    ];
    user.dlrun(&[&words[..], &claims].concat()).result()
}

fn decision<'a>(plan: &'a Value, key: &str) -> &'a Value {
    let decisions = plan["decisions"].as_array().expect("a list");
    decisions
        .iter()
        .find(|decision| decision["what"] == key)
        .unwrap_or_else(|| panic!("no {key}: {plan}"))
}

#[test]
#[ignore = "builds an image with TensorFlow: run tests/run"]
fn an_image_that_a_user_built_is_chosen_and_trains() {
    let user = user();
    copy_example(&user);
    let built = build(&user);
    let (image, digest) = (&built["place"], &built["digest"]);
    let path = image.as_str().expect("a path");
    let summed = user.run("sha256sum", &[path]).ok();
    assert!(
        digest.as_str() == Some(&format!("sha256:{}", &summed[..64])),
        "{built} {summed}"
    );
    assert_eq!(fs::metadata(path).expect("it is there").uid(), user.uid());
    user.dlrun(&["image", "check", NAME, "--digest"]).ok();

    let plan = user.dlrun(&["--json", "plan", "container.toml"]).result()["plan"].take();
    let chosen = decision(&plan, "environment").to_string();
    assert!(chosen.contains(NAME) && chosen.contains(path), "{chosen}");

    let words = ["submit", "--wait", "container.toml"];
    let waited = patient(&user, 600, user.binary(), &words);
    assert_eq!(waited.code, 0, "{waited:?}");
    let shown = user.show("@1");
    assert_eq!(
        shown["run"]["image"],
        json!({ "name": NAME, "source": image, "digest": digest })
    );
    let node = &shown["nodes"][0];
    assert_eq!(node["progress"]["epochs_completed"], 3, "{node}");
    let container = &node["container"];
    assert_eq!(
        (&container["name"], &container["digest"]),
        (&json!(NAME), digest),
        "{container}"
    );
    assert_eq!(container["identity"]["form"], "sif");
    let flags = container["flags"].as_array().expect("a list");
    assert!(
        flags
            .iter()
            .any(|reason| reason["flag"] == "no --nv, no --rocm"),
        "{container}"
    );
    let output =
        fs::read_to_string(shown["run"]["output"].as_str().expect("a file")).expect("the output");
    assert!(output.contains("test accuracy: 0.9"), "{output}");
}
