//! `[image] build = "auto"` with a stand-in for Apptainer: what builds and what does not, and what a build that fails
//! leaves. `apptainer_real::auto_build` runs what is built.

use std::fs;
use std::path::PathBuf;

use crate::support::TestEnv;

/// Says its version; a build fails.
const RUNTIME: &str = "#!/bin/sh
if [ \"$1\" = --version ]; then echo apptainer version 1.4.5; exit; fi
echo \"$@\" >> \"$CALLS\"
echo FATAL: no such luck >&2
exit 255
";

/// A recipe whose image is built in no time.
pub(crate) const RECIPE: &str = "# dlrun: framework = mxnet
# dlrun: provenance = pip
# dlrun: about = a module that says its version
# dlrun: accelerators = none
# dlrun: archs = x86_64 aarch64 ppc64le
# dlrun: compilers = none
# dlrun: base = tiny docker://tiny
# dlrun: disk = 1MiB
# dlrun: pin = 1.9.1
{{bootstrap}}

{{files}}

%post
    {{setup}}
    cat > /usr/lib/python3/dist-packages/mxnet.py <<'END'
__version__ = '1.9.1'
class runtime:
    class Features:
        def is_enabled(self, name): return False
END

%labels
    {{labels}}
";
pub(crate) const JOB: &str = "[framework]\nname = \"mxnet\"\n[image]\nbuild = \"auto\"\n";

fn env() -> TestEnv {
    let mut env = TestEnv::new();
    let runtime = env.program("apptainer", RUNTIME);
    fs::rename(runtime, env.root().join("bin/apptainer")).expect("ours");
    env.set("CALLS", env.root().join("calls"));
    let config = env.root().join("home/config/dlrun");
    fs::create_dir_all(config.join("recipes.d")).expect("ours");
    fs::write(config.join("recipes.d/tiny.def"), RECIPE).expect("ours");
    let base = env.write("base.sif", "");
    let base = format!("[recipes.base]\ntiny = \"{}\"\n", base.display());
    fs::write(config.join("dlrun.toml"), base).expect("ours");
    env
}

fn job(env: &TestEnv, more: &str) -> PathBuf {
    env.job("true", &format!("{JOB}{more}"))
}

/// What the runtime was told to build.
fn calls(env: &TestEnv) -> String {
    fs::read_to_string(env.root().join("calls")).unwrap_or_default()
}

/// Names in a directory of the state.
fn names(env: &TestEnv, dir: &str) -> Vec<String> {
    let found = fs::read_dir(env.state().join(dir))
        .into_iter()
        .flatten()
        .flatten();
    found
        .map(|entry| entry.file_name().to_string_lossy().into_owned())
        .collect()
}

#[test]
fn what_only_tells_builds_nothing() {
    let env = env();
    let sbatch = env.fake_slurm();
    let file = job(&env, "");
    let plan = env
        .dlrun(["plan", "--json"])
        .arg(&file)
        .run()
        .code(0)
        .result()["plan"]
        .to_string();
    assert!(
        plan.contains("is built before the run") && plan.contains("mxnet-1.9.1-pip-cpu-"),
        "{plan}"
    );
    let _ = env
        .dlrun(["check"])
        .arg(&file)
        .run()
        .code(0)
        .says("is not built yet");
    let checked = env
        .dlrun(["check", "--json"])
        .arg(&file)
        .run()
        .code(0)
        .result();
    assert!(
        checked["image_to_build"]
            .as_str()
            .is_some_and(|name| name.starts_with("mxnet-1.9.1")),
        "{checked}"
    );
    let _ = env
        .dlrun(["render"])
        .arg(&file)
        .run()
        .code(0)
        .warns("is not built yet");
    let handed = sbatch
        .calls()
        .into_iter()
        .filter(|call| !call.argv.iter().any(|word| word == "--test-only"));
    assert_eq!((calls(&env).as_str(), handed.count()), ("", 0));
    for dir in ["images", "runs"] {
        assert_eq!(names(&env, dir), [""; 0], "{dir}");
    }
}

#[test]
fn a_run_does_not_start_when_its_build_fails() {
    let env = env();
    let file = job(&env, "");
    let done = env
        .dlrun(["submit", "--scheduler", "local"])
        .arg(file)
        .run()
        .code(69);
    let _ = done
        .warns("built by")
        .warns("the build of mxnet-1.9.1-pip-cpu-")
        .warns("no such luck");
    assert!(calls(&env).contains("build "), "{}", calls(&env));
    assert_eq!(names(&env, "runs"), [""; 0]);
    assert!(
        names(&env, "images")
            .iter()
            .all(|name| name.ends_with(".log") || name.ends_with(".lock"))
    );
}
