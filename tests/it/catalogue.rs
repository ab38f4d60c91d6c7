//! The catalogue of images, and what a plan makes of it.

use std::fmt::Write as _;
use std::fs;
use std::path::{Path, PathBuf};

use dlrun::config::Owner;
use dlrun::image::catalogue::{self, Accelerator, Place};
use dlrun::job::Provenance;
use serde_json::Value;

use crate::support::{TestEnv, unwrapped};

fn shelf(env: &TestEnv, name: &str, text: &str) -> PathBuf {
    let path = env.root().join("home/config/dlrun/images.d").join(name);
    fs::create_dir_all(path.parent().expect("a parent")).expect("a directory");
    fs::write(&path, text).expect("a file");
    path
}

fn configure(env: &TestEnv, text: &str) {
    let path = env.root().join("home/config/dlrun/dlrun.toml");
    fs::create_dir_all(path.parent().expect("a parent")).expect("a directory");
    fs::write(path, text).expect("a file");
}

/// A directory that looks like an image.
fn sandbox(env: &TestEnv, name: &str) -> PathBuf {
    let dir = env.jobs().join(name);
    fs::create_dir_all(dir.join(".singularity.d")).expect("a directory");
    dir
}

/// A description of an image that is there.
fn image(env: &TestEnv, name: &str, lines: &str) -> String {
    let file = sandbox(env, &format!("{name}.sif"));
    format!("[[image]]\nname = {name:?}\npath = {file:?}\nframework = \"tensorflow\"\n{lines}\n")
}

fn decision<'a>(plan: &'a Value, what: &str) -> &'a Value {
    let decisions = plan["plan"]["decisions"].as_array().expect("a list");
    decisions
        .iter()
        .find(|decision| decision["what"] == what)
        .unwrap_or_else(|| panic!("{decisions:#?}"))
}

const WANTS: &str = "[framework]\nname = \"tensorflow\"\nversion = \"2.1\"\n";

#[test]
fn files_of_version_1_are_read_as_ever() {
    let path =
        Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/fixtures/catalogue/v1/images.toml");
    let text = fs::read_to_string(&path).expect("the fixture");
    let shelf = catalogue::read(&path, &text, Owner::Site);
    assert_eq!(shelf.problems, []);
    let [tf, pt] = &shelf.entries[..] else {
        panic!("{shelf:#?}")
    };
    assert_eq!(
        tf.place,
        Place::Path("/shared/images/tf-2.4.1-gpu.sif".into())
    );
    assert_eq!(
        (&tf.name[..], &tf.framework[..], &tf.version[..]),
        ("tf-2.4.1-gpu", "tensorflow", "2.4.1")
    );
    assert_eq!(
        (tf.provenance, tf.accelerator),
        (Some(Provenance::Source), Accelerator::Nvidia)
    );
    assert_eq!(
        (&tf.arch[..], tf.microarch.as_deref()),
        ("x86_64", Some("skylake_avx512"))
    );
    assert_eq!(
        (tf.cuda.as_deref(), tf.python.as_deref()),
        (Some("11.0"), Some("3.8.10"))
    );
    assert_eq!(
        (&tf.compilers[..], tf.mpi.as_deref()),
        (&["xla".to_owned()][..], Some("openmpi 4.1"))
    );
    assert!(tf.needs_fakeroot && tf.recipe.as_deref() == Some("tensorflow-source-gpu"));
    assert!(
        tf.digest
            .as_ref()
            .is_some_and(|digest| digest.starts_with("sha256:0123"))
    );
    assert_eq!(
        (pt.accelerator, pt.rocm.as_deref(), &pt.arch[..]),
        (Accelerator::Amd, Some("6.1"), "x86_64")
    );
    assert!(!pt.needs_fakeroot && pt.provenance.is_none());
    let check = &shelf.checks[0];
    assert_eq!(
        (check.at_ms, &check.host[..], check.gpus),
        (1_763_650_000_000, "node17", Some(4))
    );
    assert_eq!(
        (check.size_bytes, check.modified_ms),
        (Some(1 << 32), Some(1_763_640_000_000))
    );
    assert_eq!(
        (
            check.problems.len(),
            check.versions.len(),
            check.compilers.len()
        ),
        (1, 2, 1)
    );
    // What is written is of the same version.
    let written = catalogue::write_entry(tf);
    let again = catalogue::read(&path, &written, Owner::Site);
    assert_eq!(again.entries[0].microarch, tf.microarch);
    assert!(written.starts_with("format = 1\n"));
}

#[test]
fn the_sample_is_a_file_of_the_catalogue_with_every_key() {
    let text = include_str!("../../etc/images.d/sample.toml");
    let path = Path::new("/etc/dlrun/images.d/sample.toml");
    assert_eq!(catalogue::read(path, text, Owner::Site).problems, []);
    let active: String = text
        .lines()
        .map(|line| {
            line.strip_prefix('#')
                .filter(|line| !line.starts_with(' '))
                .unwrap_or(line)
        })
        .fold(String::new(), |all, line| all + line + "\n");
    let shelf = catalogue::read(path, &active, Owner::Site);
    assert_eq!(
        (shelf.problems.len(), shelf.entries.len()),
        (0, 1),
        "{shelf:#?}"
    );
    for key in [
        "provenance",
        "arch",
        "microarch",
        "cuda",
        "rocm",
        "mpi",
        "digest",
        "recipe",
        "needs_fakeroot",
    ] {
        assert!(active.contains(&format!("\n{key} = ")), "{key}");
    }
}

#[test]
fn the_best_image_is_taken_and_every_other_is_told_with_why_not() {
    let env = TestEnv::new();
    let text = [
        image(
            &env,
            "right",
            "version = \"2.1.3\"\nprovenance = \"source\"",
        ),
        image(&env, "later", "version = \"2.10.0\""),
        image(&env, "piped", "version = \"2.1.4\"\nprovenance = \"pip\""),
        image(
            &env,
            "arm",
            "version = \"2.1.0\"\narch = \"aarch64\"\n[[image]]\nname = \"gone\"\npath = \"/nowhere/x.sif\"\nframework = \"tensorflow\"\nversion = \"2.1\"",
        ),
    ];
    shelf(&env, "mine.toml", &text.concat());
    let file = env.job("true", WANTS);
    let text = unwrapped(
        &env.dlrun(["plan", "--scheduler", "local"])
            .arg(&file)
            .run()
            .code(0)
            .text(),
    );
    for part in [
        "environment    container ",
        "right.sif",
        "`right` of the catalogue (",
        "tensorflow 2.1.3 is in 2.1; made for CPUs; never checked; provenance source",
        "not image piped: it fits, but `right` goes before it: its provenance is preferred",
        "not image later: version 2.10.0 is not in 2.1",
        "not image arm: it is for aarch64, and the nodes are ",
        "not image gone: /nowhere/x.sif does not exist",
    ] {
        assert!(text.contains(part), "{part:?} in\n{text}");
    }
    let plan = env
        .dlrun(["plan", "--json", "--scheduler", "local"])
        .arg(&file)
        .run()
        .code(0)
        .result();
    assert_eq!(plan["plan"]["image"]["name"], "right");
    assert_eq!(plan["images"][0]["chosen"], true);
    assert_eq!(plan["images"].as_array().map(Vec::len), Some(5));
    // The same with the files in other words: the order decides nothing.
    let submitted = env
        .dlrun(["render", "--scheduler", "local"])
        .arg(&file)
        .run()
        .code(0)
        .text();
    assert!(submitted.contains("right.sif"), "{submitted}");
}

#[test]
fn a_plan_names_twenty_images_and_json_all() {
    let env = TestEnv::new();
    let mut text = image(&env, "right", "version = \"2.1\"");
    for number in 0..40 {
        let _ = write!(
            text,
            "[[image]]\nname = \"other-{number}\"\nuri = \"docker://x:{number}\"\nframework = \"tensorflow\"\nversion = \"1.{number}\"\n"
        );
    }
    shelf(&env, "many.toml", &text);
    let file = env.job("true", WANTS);
    let plan = env
        .dlrun(["plan", "--json", "--scheduler", "local"])
        .arg(&file)
        .run()
        .code(0)
        .result();
    let environment = decision(&plan, "environment");
    let rejected = environment["rejected"].as_array().expect("a list");
    assert_eq!(rejected.len(), 21, "{rejected:#?}");
    assert_eq!(rejected[20]["value"], "20 more images");
    assert_eq!(plan["images"].as_array().map(Vec::len), Some(41));
}

#[test]
fn without_a_fitting_image_the_host_serves_and_it_is_said() {
    let env = TestEnv::new();
    let file = env.job("true", WANTS);
    let plan = |code| {
        env.dlrun(["plan", "--scheduler", "local"])
            .arg(&file)
            .run()
            .code(code)
    };
    // A catalogue that knows nothing of the framework says nothing.
    let _ = plan(0)
        .says("environment    host")
        .says("knows none of tensorflow")
        .never_says("warning");
    shelf(&env, "a.toml", &image(&env, "old", "version = \"1.15\""));
    let _ = plan(0)
        .says("environment    host")
        .says("not image old: version 1.15 is not in 2.1")
        .says("warning: no image is chosen: no image of tensorflow in the catalogue fits");
    // Whoever writes of a container wants one.
    let file = env.job("true", &format!("{WANTS}[image]\ncleanenv = true\n"));
    let _ = env
        .dlrun(["plan", "--scheduler", "local"])
        .arg(&file)
        .run()
        .code(65)
        .warns("`image.cleanenv` is for a container, and there is no image");
}

#[test]
fn an_image_for_gpus_is_taken_by_a_job_with_gpus_whose_driver_serves_it() {
    let env = TestEnv::new();
    let _ = env.fake_slurm();
    configure(&env, "[gpus]\nv100 = { driver = \"470.57\" }\n");
    let text = [
        image(&env, "cpu", "version = \"2.1\""),
        image(
            &env,
            "new",
            "version = \"2.1\"\naccelerator = \"nvidia\"\ncuda = \"12.4\"",
        ),
        image(
            &env,
            "old",
            "version = \"2.1\"\naccelerator = \"nvidia\"\ncuda = \"11.2\"",
        ),
        image(&env, "amd", "version = \"2.1\"\naccelerator = \"amd\""),
    ];
    shelf(&env, "a.toml", &text.concat());
    let gpus = |kind: &str| format!("{WANTS}[resources]\ngpus_per_node = \"{kind}1\"\n");
    let file = env.job("true", &gpus("v100:"));
    let done = env.dlrun(["plan", "--no-check"]).arg(&file).run().code(0);
    let _ = done
        .says("old.sif")
        .says("not image new: CUDA 12.4 needs driver 525.60.13, and the nodes have 470.57 (")
        .says("not image cpu: it computes on CPUs alone")
        .says("not image amd: it is for GPUs of amd");
    let plan = env
        .dlrun(["plan", "--json", "--no-check"])
        .arg(&file)
        .run()
        .code(0)
        .result();
    assert_eq!(
        (&plan["plan"]["image"]["nv"], &plan["plan"]["image"]["rocm"]),
        (&true.into(), &false.into())
    );
    // The same job file without GPUs.
    let file = env.job("true", WANTS);
    let plan = env
        .dlrun(["plan", "--json", "--no-check"])
        .arg(&file)
        .run()
        .code(0)
        .result();
    assert_eq!(
        (&plan["plan"]["image"]["name"], &plan["plan"]["image"]["nv"]),
        (&"cpu".into(), &false.into())
    );
}

#[test]
fn a_program_that_only_an_image_would_have_is_told() {
    let env = TestEnv::new();
    let file = env.write(
        "job.toml",
        format!("[run]\ncommand = [\"nosuch-python\"]\n{WANTS}"),
    );
    let plan = |code| {
        env.dlrun(["plan", "--scheduler", "local"])
            .arg(&file)
            .run()
            .code(code)
    };
    // Nothing of that framework is in the catalogue: the next step is an image.
    let _ = plan(66)
        .warns("the program \"nosuch-python\" is not in PATH")
        .warns("the catalogue has no image of tensorflow")
        .warns("`dlrun image build tensorflow`");
    // Where images are passed over, the plan says why, and that the host lacks the program.
    shelf(&env, "a.toml", &image(&env, "old", "version = \"1.15\""));
    let _ = plan(0)
        .says("not image old: version 1.15 is not in 2.1")
        .says(
            "warning: the program \"nosuch-python\" is not in PATH, and the job runs in no image",
        );
    shelf(&env, "a.toml", &image(&env, "new", "version = \"2.1\""));
    let _ = plan(0)
        .says("`new` of the catalogue")
        .never_says("the program");
}

#[test]
fn a_framework_that_is_not_clear_is_an_error_only_where_nothing_else_gives_it() {
    let env = TestEnv::new();
    let _ = env.write("env/bin/python", "");
    shelf(&env, "a.toml", &image(&env, "tf", "version = \"2.1\""));
    let run = |keys: &str, tables: &str, code| {
        let file = env.write(
            "job.toml",
            format!("[run]\ncommand = [\"true\"]\n{keys}\n{tables}"),
        );
        env.dlrun(["plan", "--scheduler", "local"])
            .arg(&file)
            .run()
            .code(code)
    };
    let modules = "modules = [\"tensorflow/2\"]";
    let name = "[framework]\nname = \"tf\"\n";
    let version = "[framework]\nname = \"tensorflow\"\nversion = \"latest\"\n";
    for (framework, key) in [
        (name, "`framework.name`: "),
        (version, "`framework.version`: "),
    ] {
        let with = |table: &str| format!("{framework}{table}");
        let _ = run("", framework, 65).warns(key);
        let _ = run(modules, framework, 0).says(&format!("warning: {key}"));
        let _ = run(modules, &with("[image]\nbuild = \"auto\"\n"), 65).warns(key);
        let _ = run(modules, &with("[image]\nrequire_gpu = true\n"), 65).warns(key);
        let _ = run("", &with("[python]\nvenv = \"env\"\n"), 0).never_says(key);
    }
}

#[test]
fn keys_of_images_beside_an_environment_of_the_node_are_errors() {
    let env = TestEnv::new();
    let _ = env.write("env/bin/python", "");
    for python in ["venv = \"env\"", "conda = \"e\""] {
        let plan = |keys: &str, code| {
            let file = env.job("true", &format!("[python]\n{python}\n[image]\n{keys}\n"));
            env.dlrun(["plan", "--scheduler", "local"])
                .arg(&file)
                .run()
                .code(code)
        };
        for (keys, key) in [
            ("bind = [\"/tmp\"]", "bind"),
            ("build = \"auto\"", "build"),
            ("cleanenv = true", "cleanenv"),
        ] {
            let _ = plan(keys, 65)
                .warns(&format!(
                    "`image.{key}` is for a container, and there is no image"
                ))
                .warns("the job file names a Python environment")
                .warns("take out `[python]` or `[image]`");
        }
        let _ = plan("none = true", 0);
    }
}

#[test]
fn an_image_that_is_named_by_a_way_up_is_known() {
    let env = TestEnv::new();
    shelf(&env, "a.toml", &image(&env, "tf", "version = \"2.1\""));
    fs::create_dir_all(env.jobs().join("deeper")).expect("a directory");
    let file = env.job("true", "[image]\npath = \"deeper/../tf.sif\"\n");
    let plan = env
        .dlrun(["plan", "--scheduler", "local"])
        .arg(&file)
        .run()
        .code(0);
    let _ = plan
        .says("the catalogue describes it as `tf`")
        .never_says("deeper");
}

#[test]
fn local_job_without_gpus_of_its_own_is_told_that_it_takes_all() {
    let env = TestEnv::new();
    let warning = "a local job sees all GPUs, so it waits until no other job has any";
    let plan = |more: &str| {
        let file = env.job("true", &format!("[resources]\ngpus_per_node = 1\n{more}"));
        env.dlrun(["plan", "--scheduler", "local"])
            .arg(&file)
            .run()
            .code(0)
    };
    let _ = plan("").says(warning);
    let _ = plan("[image]\nuri = \"docker://x\"\n")
        .says("--nv")
        .says(warning);
    let _ = plan("[run.env]\nCUDA_VISIBLE_DEVICES = \"0\"\n").never_says(warning);
}

#[test]
fn a_pull_goes_by_aliases_and_mirrors() {
    let env = TestEnv::new();
    configure(
        &env,
        "[images]\nruntime = \"/nosuch/apptainer\"\n[aliases]\nml = \"docker://registry.example.org/ml\"\n[mirrors]\n\"docker://registry.example.org\" = \"docker://near.example.org\"\n",
    );
    let words = [
        "image",
        "pull",
        "ml://torch:2.4",
        "--framework",
        "pytorch",
        "--version",
        "2.4",
    ];
    let _ = env
        .dlrun(words)
        .run()
        .code(66)
        .warns("`ml` is an alias of docker://registry.example.org/ml")
        .warns("docker://near.example.org is the mirror of docker://registry.example.org");
}

#[test]
fn a_recipe_is_taken_by_its_name() {
    let env = TestEnv::new();
    let print = |recipe: &str| {
        env.dlrun(["image", "build", "keras", "--print", "--recipe", recipe])
            .run()
    };
    let _ = print("keras-jax-pip").code(0).says("jax==");
    let _ = print("keras-jxa-pip").code(66).warns("keras-jax-pip");
    let _ = env
        .dlrun(["image", "build", "tensorflow", "--version", "9", "--print"])
        .run()
        .code(66)
        .warns("\n             recipe tensorflow-hub (built in): knows the versions");
}

#[test]
fn a_faulty_file_of_the_user_is_told_with_its_line() {
    let env = TestEnv::new();
    let path = shelf(
        &env,
        "a.toml",
        "[[image]]\nname = \"a\"\nversoin = \"2.1\"\n",
    );
    let job = env.job("true", WANTS);
    let _ = env
        .dlrun(["plan", "--scheduler", "local"])
        .arg(&job)
        .run()
        .code(78)
        .warns("unknown key `image.versoin`")
        .warns("did you mean `version`?")
        .warns(&format!("{}:3:1", path.display()));
    // A job that takes nothing from the catalogue does not mind.
    let job = env.job("true", "");
    let _ = env
        .dlrun(["plan", "--scheduler", "local"])
        .arg(&job)
        .run()
        .code(0);
    let text =
        "[[image]]\nname = \"a\"\nuri = \"docker://a\"\nframework = \"jax\"\nversion = \"1\"\n";
    shelf(&env, "a.toml", text);
    shelf(&env, "b.toml", text);
    let job = env.job("true", WANTS);
    let _ = env
        .dlrun(["plan", "--scheduler", "local"])
        .arg(&job)
        .run()
        .code(78)
        .warns("a.toml:1")
        .warns("b.toml:1");
}

#[test]
fn aliases_and_mirrors_are_replaced_and_told() {
    let env = TestEnv::new();
    configure(
        &env,
        "[aliases]\nml = \"docker://registry.example.org/ml\"\n[mirrors]\n\"docker://registry.example.org\" = \"docker://near.example.org\"\n",
    );
    let uri = |uri: &str| env.job("true", &format!("[image]\nuri = \"{uri}\"\n"));
    let plan = |file: &Path| {
        env.dlrun(["plan", "--json", "--scheduler", "local"])
            .arg(file)
            .run()
    };
    let file = uri("ml://tf:2.1");
    let result = plan(&file).code(0).result();
    assert_eq!(
        result["plan"]["image"]["source"],
        "docker://near.example.org/ml/tf:2.1"
    );
    let why = decision(&result, "environment")["why"]
        .as_str()
        .expect("text")
        .to_owned();
    assert!(
        why.contains("`ml` is an alias of") && why.contains("is the mirror of"),
        "{why}"
    );
    // What was pulled is used.
    let pulled = dlrun::image::build::pulled_path(
        &env.state().join("images"),
        "docker://near.example.org/ml/tf:2.1",
    );
    fs::create_dir_all(pulled.parent().expect("a parent")).expect("a directory");
    fs::write(&pulled, "an image").expect("a file");
    let result = plan(&file).code(0).result();
    assert_eq!(
        result["plan"]["image"]["source"],
        pulled.to_str().expect("text")
    );
    let _ = env
        .dlrun(["plan", "--scheduler", "local"])
        .arg(uri("nl://tf:2.1"))
        .run()
        .code(65)
        .warns("`nl://` is not a scheme of the container runtime")
        .warns("did you mean `ml://`?")
        .warns("job.toml:4:");
}

#[test]
fn bind_sources_are_looked_for_where_they_can_be() {
    let env = TestEnv::new();
    configure(
        &env,
        "[storage.s]\npath = \"/scratch/users/$USER\"\nclass = \"ssd\"\n",
    );
    let sif = sandbox(&env, "x.sif");
    let binds = |binds: &str| {
        env.job(
            "true",
            &format!("[image]\npath = {sif:?}\nbind = [{binds}]\n"),
        )
    };
    let check = |file: &Path| {
        env.dlrun(["plan", "--scheduler", "local", "--no-check"])
            .arg(file)
            .run()
    };
    let plan = |file: &Path| env.dlrun(["plan", "--scheduler", "local"]).arg(file).run();
    let file = binds("\"/nowhere/data\"");
    let _ = plan(&file)
        .code(66)
        .warns("`image.bind`: /nowhere/data does not exist")
        .warns("job.toml:5:");
    let _ = check(&file).code(0);
    let _ = plan(&binds("\"data\""))
        .code(66)
        .warns("/jobs/data does not exist");
    let local = "\"/tmp/no-x\", \"/dev/shm/no-x\", \"/scratch/users/me\", \"$TMPDIR:/t\", \"/usr\"";
    let _ = plan(&binds(local)).code(0);
}

#[test]
fn programs_of_a_container_are_not_looked_for_here() {
    let env = TestEnv::new();
    let sif = sandbox(&env, "x.sif");
    let image = format!("[image]\npath = {sif:?}\n");
    for (command, code) in [
        ("[\"nosuchprogram\", \"-v\"]", 0),
        ("[\"/opt/conda/bin/python\", \"-V\"]", 0),
        ("[\"./missing\"]", 66),
        ("[\"python\", \"missing.py\"]", 66),
    ] {
        let file = env.write("job.toml", format!("[run]\ncommand = {command}\n{image}"));
        let _ = env
            .dlrun(["plan", "--scheduler", "local"])
            .arg(&file)
            .run()
            .code(code);
        let file = env.write("job.toml", format!("[run]\ncommand = {command}\n"));
        let _ = env
            .dlrun(["plan", "--scheduler", "local"])
            .arg(&file)
            .run()
            .code(66);
    }
}

#[test]
fn a_script_outside_of_the_working_directory_is_seen_in_the_container() {
    let env = TestEnv::new();
    let sif = sandbox(&env, "x.sif");
    let work = env.jobs().join("work");
    fs::create_dir_all(&work).expect("a directory");
    env.write("train.sh", "true\n");
    let text =
        format!("[run]\nscript = \"../train.sh\"\nworkdir = \"work\"\n[image]\npath = {sif:?}\n");
    let file = env.write("job.toml", text);
    let plan = env
        .dlrun(["plan", "--json", "--scheduler", "local"])
        .arg(&file)
        .run()
        .code(0)
        .result();
    let bind = &plan["plan"]["image"]["binds"][0];
    assert_eq!(bind["read_only"], true, "{bind}");
    let source = PathBuf::from(bind["source"].as_str().expect("text"));
    assert_eq!(source.canonicalize().expect("it is there"), env.jobs());
}

#[test]
fn a_file_that_is_no_image_is_refused_at_its_line_or_passed_over() {
    let env = TestEnv::new();
    let text = env.write("text.sif", "an image, they said");
    let file = env.job("true", &format!("[image]\npath = {text:?}\n"));
    let _ = env
        .dlrun(["plan", "--scheduler", "local"])
        .arg(&file)
        .run()
        .code(65)
        .warns("`image.path`: ")
        .warns("neither a SIF nor a squashfs")
        .warns("job.toml:4:");
    let _ = env
        .dlrun(["plan", "--scheduler", "local", "--no-check"])
        .arg(&file)
        .run()
        .code(0);
    // Of the catalogue the next is taken.
    let broken = format!(
        "[[image]]\nname = \"a\"\npath = {text:?}\nframework = \"tensorflow\"\nversion = \"2.1\"\nprovenance = \"source\"\n"
    );
    shelf(
        &env,
        "a.toml",
        &format!("{broken}{}", image(&env, "b", "version = \"2.1\"")),
    );
    let file = env.job("true", WANTS);
    let done = env
        .dlrun(["plan", "--scheduler", "local"])
        .arg(&file)
        .run()
        .code(0);
    let _ = done
        .says("b.sif")
        .says("not image a: ")
        .says("it is neither a SIF");
}

#[test]
fn the_image_whose_file_a_job_names_lends_it_its_name() {
    let env = TestEnv::new();
    let text = image(&env, "named", "version = \"2.1\"\nneeds_fakeroot = true");
    shelf(&env, "a.toml", &text);
    let file = env.job("true", "[image]\npath = \"named.sif\"\n");
    let plan = env
        .dlrun(["plan", "--json", "--scheduler", "local"])
        .arg(&file)
        .run()
        .code(0)
        .result();
    let image = &plan["plan"]["image"];
    assert_eq!(
        (&image["name"], &image["fakeroot"]),
        (&"named".into(), &true.into()),
        "{image}"
    );
}
