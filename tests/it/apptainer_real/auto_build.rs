//! `[image] build = "auto"` on this machine: what a recipe builds is what the run is in.

use serde_json::{Value, json};

use super::place::{base_sif, listed};
use crate::auto_build::{JOB, RECIPE};
use crate::slurm_real::cluster::{Ran, User, argv};

/// A base is unpacked and packed again, on a busy machine.
const BUILD_SECONDS: u32 = 600;

/// A job of a user who has the recipe and a base for it.
fn job(user: &User, resources: &str) -> std::path::PathBuf {
    let said = user.shell("mkdir -p .config/dlrun/recipes.d");
    assert_eq!(said.code, 0, "{said:?}");
    user.write(".config/dlrun/recipes.d/tiny.def", RECIPE);
    user.write(
        ".config/dlrun/dlrun.toml",
        &format!("[recipes.base]\ntiny = {}\n", json!(base_sif())),
    );
    let command = argv(&[
        "python3",
        "-c",
        "import mxnet; print('in it is', mxnet.__version__)",
    ]);
    user.job("auto", &command, &format!("{resources}\n{JOB}"))
}

/// Submits and waits, the build too.
fn submitted(user: &User, file: &std::path::Path) -> Ran {
    let mut command = user.command_within(BUILD_SECONDS, user.binary());
    Ran::of(
        command
            .args(["--json", "submit", "--wait"])
            .arg(file)
            .output()
            .expect("timeout and setpriv are there"),
    )
}

/// The image that the catalogue has of a build.
fn built(user: &User) -> Value {
    let images = user.dlrun(&["--json", "image", "list"]).result()["images"].take();
    assert_eq!(images.as_array().map(Vec::len), Some(1), "{images}");
    assert_eq!(images[0]["check"]["problems"], json!([]), "{images}");
    images[0].clone()
}

#[test]
#[ignore = "needs Apptainer: run tests/run"]
fn a_run_is_in_the_image_that_was_built_for_it_and_the_next_one_builds_none() {
    let mut user = listed();
    user.set("DLRUN_SCHEDULER__KIND", "local");
    let file = job(&user, "");
    for (nth, is_built) in [(1, true), (2, false)] {
        let ran = submitted(&user, &file);
        assert_eq!(ran.code, 0, "{nth}: {ran:?}");
        assert_eq!(
            ran.stderr.contains("Running post scriptlet"),
            is_built,
            "{nth}: {ran:?}"
        );
        let (shown, image) = (user.show("@1"), built(&user));
        let expected =
            json!({ "name": image["name"], "source": image["place"], "digest": image["digest"] });
        assert_eq!(shown["run"]["image"], expected, "{nth}: {image}");
        assert_eq!(
            shown["nodes"][0]["container"]["identity"]["form"], "sif",
            "{shown}"
        );
        let output = std::fs::read_to_string(shown["run"]["output"].as_str().expect("a path"));
        assert!(
            output.expect("written").contains("in it is 1.9.1"),
            "{shown}"
        );
    }
}
