//! `dlrun render`: the batch script, golden.

use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::path::Path;

use crate::support::{DLRUN, TestEnv, python};

/// The script, with what differs from machine to machine taken out.
fn redacted(env: &TestEnv, script: &str) -> String {
    let script = script
        .replace(DLRUN, "[DLRUN]")
        .replace(env.root().to_str().expect("text"), "[DIR]");
    let script = script.replace(
        &format!("dlrun {}", env!("CARGO_PKG_VERSION")),
        "dlrun [VERSION]",
    );
    // It is made of the script's place too.
    let Some((before, key)) = script.split_once("\"key\":\"") else {
        return script;
    };
    let (stem, rest) = key.split_once('"').expect("it ends");
    let stem = stem.trim_end_matches(|c: char| c.is_ascii_digit());
    format!("{before}\"key\":\"{stem}[HASH]\"{rest}")
}

/// Renders twice, requires the same bytes and a script that bash can read.
#[track_caller]
fn render(env: &TestEnv, file: &Path, flags: &[&str]) -> String {
    let once = || env.dlrun(["render"]).arg(file).args(flags).run().code(0);
    let (first, second) = (once(), once());
    assert_eq!(
        first.stdout, second.stdout,
        "rendering twice gives the same bytes"
    );
    let path = env.root().join("rendered.sh");
    fs::write(&path, &first.stdout).expect("ours");
    let _ = env.command("bash", ["-n"]).arg(&path).run().code(0);
    let json = env
        .dlrun(["render", "--json"])
        .arg(file)
        .args(flags)
        .run()
        .code(0);
    assert_eq!(
        json.result()["script"].as_str(),
        Some(first.text().as_str())
    );
    first.text()
}

#[test]
fn script_for_this_machine() {
    let env = TestEnv::new();
    let file = env.job("echo \"it's $HOME\"", "");
    let script = render(&env, &file, &["--scheduler", "local"]);
    assert!(!script.contains("#SBATCH") && !script.contains("#PBS"));
    insta::assert_snapshot!("local", redacted(&env, &script));
}

#[test]
fn script_for_one_node_of_slurm() {
    let env = TestEnv::new();
    let _ = env.fake_slurm();
    let secrets = env.write("secrets.env", "TOKEN=1\n");
    fs::set_permissions(&secrets, fs::Permissions::from_mode(0o600)).expect("ours");
    let file = env.write(
        "one.toml",
        r#"
name = "resnet50-imagenet"
[run]
command = ["python", "train.py", "--epochs", "3", "--note", "it's"]
env = { OMP_NUM_THREADS = "8", NOTE = "a 'quoted' $(value)" }
env_file = "secrets.env"
modules = ["cuda/12.4", "gcc"]
[resources]
cpus_per_task = 8
gpus_per_node = "v100:2"
memory = "64GiB"
walltime = "1-12:00:00"
queue = "gpu"
account = "proj42"
qos = "high"
constraint = "ssd&ib"
exclusive = true
[scheduler]
directives = ["--comment=paper", "--mail-type=END"]
arguments = ["--no-requeue"]
[workload]
samples = 1_281_167
epochs = 3
[timing]
epoch = '^E(?<epoch>\d+)'
"#,
    );
    env.write("train.py", "");
    let script = render(&env, &file, &[]);
    insta::assert_snapshot!("slurm-one-node", redacted(&env, &script));
}

#[test]
fn script_for_two_nodes_of_slurm() {
    let env = TestEnv::new();
    let _ = env.fake_slurm();
    let more =
        "launcher = \"each\"\n[resources]\nnodes = 2\ntasks_per_node = 4\ncpus_per_task = 2\n";
    let script = render(&env, &env.job("true", more), &[]);
    insta::assert_snapshot!("slurm-two-nodes", redacted(&env, &script));
}

#[test]
fn script_with_a_python_environment() {
    let mut env = TestEnv::new();
    env.set("DLRUN_PYTHON__INTERPRETER", python());
    env.write("requirements.txt", "# nothing\n");
    let file = env.write(
        "py.toml",
        "[run]\ncommand = [\"python\", \"-V\"]\n[python]\nrequirements = \"requirements.txt\"\n",
    );
    let done = env
        .dlrun(["render", "--scheduler", "local"])
        .arg(&file)
        .run()
        .code(0);
    let _ = done.warns("the Python environment is not made yet: `dlrun render --prepare` makes it");
    let script = render(&env, &file, &["--scheduler", "local"]);
    let plan = env
        .dlrun(["plan", "--scheduler", "local", "--json"])
        .arg(&file)
        .run()
        .code(0)
        .result();
    let dir = plan["plan"]["python_env"].as_str().expect("a directory");
    assert!(
        dir.starts_with(env.state().join("python").to_str().expect("text")),
        "{dir}"
    );
    let own: Vec<&str> = script
        .lines()
        .filter(|line| line.contains(dir) && !line.contains("DLRUN_PLAN"))
        .collect();
    let expected = [
        format!(
            "[ -x '{dir}/bin/python' ] || refuse 66 'the Python environment is missing on this node: ''{dir}/bin/python'"
        ),
        format!("export VIRTUAL_ENV='{dir}'"),
        format!("export PATH='{dir}/bin':\"$PATH\""),
    ];
    assert_eq!(own, expected);
    assert!(script.contains("\nunset PYTHONHOME\n"));
}

#[test]
fn prepare_makes_the_environment_that_the_script_names() {
    let mut env = TestEnv::new();
    env.set("DLRUN_PYTHON__INTERPRETER", python());
    env.write("requirements.txt", "# nothing\n");
    let file = env.write(
        "py.toml",
        "[run]\ncommand = [\"python\", \"-V\"]\n[python]\nrequirements = \"requirements.txt\"\n",
    );
    let done = env
        .dlrun(["render", "--prepare", "--scheduler", "local"])
        .arg(&file)
        .run();
    if done.status.code() == Some(66) {
        crate::support::skip("python3 has no venv here");
        return;
    }
    let script = done.code(0).text();
    let plan = env
        .dlrun(["plan", "--scheduler", "local", "--json"])
        .arg(&file)
        .run()
        .code(0)
        .result();
    let dir = plan["plan"]["python_env"].as_str().expect("a directory");
    assert!(script.contains(dir) && Path::new(dir).join("bin/python").exists());
    let _ = env
        .dlrun(["submit", "--scheduler", "local", "--wait"])
        .arg(&file)
        .run()
        .code(0);
    let output = fs::read_to_string(env.jobs().join("py-L1.out")).expect("the output");
    assert!(output.starts_with("Python 3."), "{output}");
}

#[test]
fn rendered_script_runs_without_submit_and_records_under_an_id_of_its_own() {
    let env = TestEnv::new();
    let script = render(
        &env,
        &env.job("echo 'epoch 1 0.5s'; exit 6", ""),
        &["--scheduler", "local"],
    );
    let script = env.program("rendered.sh", &script);
    let _ = env
        .command("bash", [script])
        .run_to(&env.jobs().join("out"))
        .code(6);
    let runs = env.dlrun(["list", "--json"]).run().code(0).result()["runs"].clone();
    assert_eq!(
        (
            &runs[0]["name"],
            &runs[0]["state"],
            &runs[0]["exit"]["code"]
        ),
        (&"job".into(), &"failed".into(), &6.into())
    );
    assert_eq!(runs.as_array().expect("a list").len(), 1);
    let id = runs[0]["run_id"].as_str().expect("an id");
    assert_eq!(env.show(id)["nodes"][0]["progress"]["epochs_completed"], 1);
}

#[test]
fn rendered_script_through_sbatch_is_found_by_its_job_and_requeues_into_the_same_run() {
    let env = TestEnv::new();
    let _ = env.fake_slurm();
    let script = render(&env, &env.job("echo $SLURM_RESTART_COUNT", ""), &[]);
    let script = env.program("rendered.sh", &script);
    let start = |restarts: &str| {
        let job = env
            .command("bash", [&script])
            .env("SLURM_JOB_ID", "99")
            .env("SLURMD_NODENAME", "n7");
        job.env("SLURM_RESTART_COUNT", restarts)
            .run_to(&env.jobs().join("out"))
            .code(0)
    };
    let _ = (start("0"), start("1"));
    let shown = env.show("99");
    assert_eq!(
        (&shown["attempt"], &shown["run"]["scheduler"]),
        (&1.into(), &"slurm".into())
    );
    assert_eq!(shown["nodes"][0]["node"], "n7");
    let run = env.only_run_dir();
    assert!(run.join("0.0/end.json").exists() && run.join("0.1/end.json").exists());
}

#[test]
fn an_element_finds_its_index_under_one_name() {
    let env = TestEnv::new();
    let _ = env.fake_slurm();
    let command = "echo index ${DLRUN_ARRAY_INDEX-none} >> indexes";
    for (kind, variable) in [
        ("slurm", "SLURM_ARRAY_TASK_ID"),
        ("torque", "PBS_ARRAYID"),
        ("openpbs", "PBS_ARRAY_INDEX"),
    ] {
        let script = render(
            &env,
            &env.job(command, ""),
            &["--scheduler", kind, "--no-check"],
        );
        let script = env.program(&format!("{kind}.sh"), &script);
        let run = |name: &str| {
            // A job that was submitted from inside an array is none.
            let job = env
                .command("bash", [&script])
                .env("DLRUN_ARRAY_INDEX", "9")
                .env(name, "7");
            let _ = job.run_to(&env.jobs().join("out")).code(0);
        };
        run(variable);
        run("NO_SUCH_INDEX");
    }
    let indexes = std::fs::read_to_string(env.jobs().join("indexes")).expect("the jobs ran");
    assert_eq!(indexes, "index 7\nindex none\n".repeat(3));
}

#[test]
fn script_with_steps_storage_and_a_build() {
    let env = TestEnv::new();
    let _ = env.fake_slurm();
    crate::rules::configure(
        &env,
        r#"
[storage.scratch]
path = "/scratch/$USER/it's"
class = "ssd"
[house]
prologue = [["/usr/local/sbin/check-node"]]
[[rules]]
name = "cache"
when = { framework = "tensorflow", storage = "ssd" }
set = { env = { TF_XLA_FLAGS = "--tf_xla_auto_jit=2" }, modules = ["tools/io"], prologue = [["mkdir", "-p", "it's $(id)"]], epilogue = [["rm", "-rf", "cache"]], directives = ["--comment=cache"] }
"#,
    );
    let file = env.write(
        "built.toml",
        r#"
[run]
command = ["./train"]
[framework]
name = "tensorflow"
[storage]
prefer = "ssd"
[build]
source = "https://example.org/train-1.2.tar.gz"
command = "make -j{{parallelism}} 'CFLAGS=-O2'"
parallelism = 4
"#,
    );
    env.program("train", "");
    let script = render(&env, &file, &[]);
    // The name of the build's directory is made of texts that this test gives, but for the path of the job.
    let dir = script.lines().find_map(|line| {
        line.strip_prefix("export DLRUN_BUILD_DIR='")?
            .strip_suffix('\'')
    });
    let hash = Path::new(dir.expect("it has one"))
        .file_name()
        .expect("a name")
        .to_string_lossy()
        .into_owned();
    assert_eq!(hash.len(), 64);
    insta::assert_snapshot!("slurm-built", redacted(&env, &script));
}
