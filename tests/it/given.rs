//! What the command line says in place of the job file, where the output goes, and what is told of a word that was mistyped.

use std::fs;

use crate::support::TestEnv;

const FILE: &str = "[run]\ncommand = [\"sh\", \"-c\", \"echo hello $*\", \"train\"]\n[resources]\ncpus_per_task = 1\nmemory = \"64M\"\n";

fn submit_and_wait(env: &TestEnv, words: &[&str]) -> String {
    let args = ["submit", "--scheduler", "local", "--wait", "--json"];
    let done = env.dlrun(args.iter().chain(words)).run().code(0);
    done.result()["run"]["run_id"]
        .as_str()
        .expect("an id")
        .to_owned()
}

#[test]
fn keys_name_and_arguments_of_the_command_line_are_used_and_recorded() {
    let env = TestEnv::new();
    let _ = env.write("train.toml", FILE);
    let words = [
        "train",
        "--set",
        "run.env.API_TOKEN=abc",
        "--name",
        "other",
        "--",
        "--lr",
        "0.5",
    ];
    let run = submit_and_wait(&env, &words);
    assert_eq!(
        fs::read_to_string(env.jobs().join("other-L1.out")).expect("the output"),
        "hello --lr 0.5\n"
    );
    let given = &env.show(&run)["overrides"];
    let expected =
        serde_json::json!(["--set run.env.API_TOKEN=***", "--name other", "-- --lr 0.5"]);
    assert_eq!(given, &expected);
    let _ = env
        .dlrun(["show"])
        .run()
        .code(0)
        .says("given: --name other\n")
        .never_says("abc");
}

#[test]
fn faults_of_the_command_line_name_it() {
    let env = TestEnv::new();
    let _ = env.write("train.toml", FILE);
    let check = |words: &[&str]| {
        env.dlrun(
            ["check", "--scheduler", "local", "train"]
                .iter()
                .chain(words),
        )
        .run()
        .code(65)
        .stderr
    };
    let told = check(&[
        "--set",
        "resources.walltime=12",
        "--set",
        "resources.tsks=2",
    ]);
    for part in [
        "the command line: `--set resources.walltime=12`: `resources.walltime`: `12` has no unit",
        "`--set resources.tsks=2`: unknown key `resources.tsks`",
        "did you mean `tasks`?",
        "2 problems in the command line",
    ] {
        assert!(told.contains(part), "{part} in {told}");
    }
    assert!(check(&["--name", "a b"]).contains("`--name a b`: `name`"));
    let _ = env
        .dlrun([
            "plan",
            "--scheduler",
            "local",
            "train",
            "--set",
            "resources.walltime=2h",
        ])
        .run()
        .code(0)
        .says("2h");
    let _ = env
        .dlrun([
            "render",
            "--scheduler",
            "slurm",
            "train",
            "--set",
            "resources.walltime=2h",
        ])
        .run()
        .code(0)
        .says("02:00:00");
}

#[test]
fn output_goes_where_the_job_file_says_and_is_found_there() {
    let env = TestEnv::new();
    let _ = env.write(
        "train.toml",
        FILE.replace("[res", "output = \"logs/%u/%x-%j.log\"\n[res"),
    );
    let run = submit_and_wait(&env, &["train"]);
    let user = nix::unistd::User::from_uid(nix::unistd::getuid())
        .ok()
        .flatten()
        .expect("a name")
        .name;
    let path = env.jobs().join(format!("logs/{user}/train-L1.log"));
    assert_eq!(fs::read_to_string(&path).expect("the output"), "hello\n");
    let _ = env.dlrun(["logs", &run]).run().code(0).says("hello");
    let one = env.write(
        "one.toml",
        FILE.replace("[res", "output = \"all.out\"\n[res"),
    );
    let check = env
        .dlrun(["check", "--scheduler", "local"])
        .arg(&one)
        .run()
        .code(0);
    let _ = check.warns("put `%j` into `run.output`");
    let _ = submit_and_wait(&env, &[one.to_str().expect("text")]);
    let shared = submit_and_wait(&env, &[one.to_str().expect("text")]);
    assert_eq!(
        fs::read_to_string(env.jobs().join("all.out")).expect("the output"),
        "hello\nhello\n"
    );
    // Lines of other jobs may be in it, so nothing is read from it.
    let epochs = [
        "--set",
        "run.command=[\"sh\", \"-c\", \"echo 'Epoch 1/1'; echo 'epoch 1 0.5s loss: 0.25'\"]",
    ];
    let epochs_of = |run: &str| {
        let node = &env.show(run)["nodes"][0];
        (
            node["progress"]["epochs"].as_array().map_or(0, Vec::len),
            node["missing"].to_string(),
        )
    };
    let told = submit_and_wait(&env, &[&["train"], &epochs[..]].concat());
    assert_eq!(epochs_of(&told).0, 1, "{}", env.show(&told));
    let shared_too = submit_and_wait(
        &env,
        &[&[one.to_str().expect("text")], &epochs[..]].concat(),
    );
    for run in [shared, shared_too] {
        let (epochs, missing) = epochs_of(&run);
        assert!(
            epochs == 0 && missing.contains("put `%j` into `run.output`"),
            "{missing}"
        );
    }
}

#[test]
fn output_is_told_to_each_scheduler_in_its_own_way() {
    let env = TestEnv::new();
    let rendered = |kind: &str, more: &str| {
        let _ = env.write(
            "train.toml",
            FILE.replace("[res", "output = \"logs/%x-%A_%a.log\"\n[res") + more,
        );
        let done = env
            .dlrun(["render", "--scheduler", kind, "--no-check", "train"])
            .run()
            .code(0);
        done.warns("create ").text().to_owned()
    };
    let array = "array = \"0-3\"\n";
    assert!(rendered("slurm", array).contains("#SBATCH --output=logs/train-%A_%a.log\n"));
    let pbs = rendered("openpbs", array);
    let line = pbs
        .lines()
        .find(|line| line.starts_with("dlrun_output="))
        .expect("the output");
    assert!(
        line.ends_with("/''logs/train-'${PBS_JOBID%%[!0-9]*}'_'${PBS_ARRAY_INDEX:-}'.log'"),
        "{line}"
    );
    let _ = env.write(
        "train.toml",
        FILE.replace("[res", "output = \"%N.out\"\n[res"),
    );
    let _ = env
        .dlrun(["check", "train"])
        .run()
        .code(65)
        .warns("`run.output`: `%N` cannot be filled in");
}

#[test]
fn files_that_are_no_job_files_are_named() {
    let env = TestEnv::new();
    let _ = env.write("train.toml", FILE);
    let _ = env.write("train.py", "import sys\n");
    let _ = env
        .dlrun(["submit", "train.py"])
        .run()
        .code(65)
        .warns("`train.py` is a Python program, not a job file");
    let _ = env.write("train.yaml", "lr: 0.1\n");
    let _ = env
        .dlrun(["check", "train.yaml"])
        .run()
        .code(65)
        .warns("`train.yaml` is YAML, not a job file");
    let _ = env.write("c.toml", "[run\ncommand = \n\"x\"\n= 3\n");
    let _ = env
        .dlrun(["check", "c"])
        .run()
        .code(65)
        .warns("1 problem in c.toml");
}

#[test]
fn finished_runs_are_deleted_only_on_request_and_live_ones_never() {
    let env = TestEnv::new();
    let _ = env.write("train.toml", FILE);
    let old = submit_and_wait(&env, &["train"]);
    let record = env.run_dir(&old);
    let just_now = env.dlrun(["prune", &old, "--yes"]).run().code(0);
    let _ = just_now
        .warns("it ended less than a minute ago")
        .says("no runs to delete (1 stay");
    assert!(record.is_dir());
    let _ = env.dlrun(["prune"]).run().code(64).warns("--older-than");
    let live = env.job_called("live", "sleep 60", "");
    let live = env.submit(&live);
    env.wait_state(&live, "running");
    // It ended long ago, says its record from now on.
    let sql = "UPDATE run SET ended_at_ms = 1000, submitted_at_ms = 500, started_at_ms = 600";
    let index = env.state().join("dlrun.db");
    let connection = rusqlite::Connection::open(index).expect("the index");
    let changed = connection
        .execute(&format!("{sql} WHERE run_id = ?1"), [&old])
        .expect("a change");
    assert_eq!(changed, 1);
    let _ = env
        .dlrun(["prune", "--older-than", "30d"])
        .run()
        .code(0)
        .says("would delete 1 run,");
    assert!(record.is_dir(), "nothing is deleted without --yes");
    let all = ["prune", "--keep", "0", "--yes", "--json"];
    let result = env.dlrun(all).run().code(0).result();
    assert_eq!(
        (&result["runs"][0]["run_id"], &result["runs"][0]["deleted"]),
        (&old.as_str().into(), &true.into())
    );
    assert_eq!(result["left"][0]["why"], "it is running");
    assert!(!record.exists() && env.jobs().join("train-L1.out").exists());
    let list = env.dlrun(["list", "--json"]).run().code(0).result();
    assert_eq!(list["runs"].as_array().map(Vec::len), Some(1));
    let _ = env.dlrun(["cancel", &live]).run().code(0);
}
