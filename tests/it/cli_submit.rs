//! `dlrun submit`.

use std::fs;

use serde_json::Value;

use crate::support::{Fake, TestEnv, wait_for};

/// A Slurm whose jobs really run: `sbatch` starts the script in the background as job 4711.
pub(crate) fn slurm_that_runs(env: &TestEnv) -> Fake {
    env.fake_slurm().hook(
        r#"
        for word; do
            case $word in
            --chdir=*) chdir=${word#*=} ;;
            --job-name=*) name=${word#*=} ;;
            esac
        done
        cd "$chdir" || exit 1
        export SLURM_JOB_ID=4711 SLURMD_NODENAME=n1
        setsid bash "$call/stdin" </dev/null >>"$name-4711.out" 2>&1 &
        "#,
    )
}

#[test]
fn local_job_is_taken_and_the_next_steps_are_told() {
    let env = TestEnv::new();
    let file = env.job("echo epoch 1", "");
    let done = env
        .dlrun(["submit", "--scheduler", "local"])
        .arg(&file)
        .run()
        .code(0);
    let text = done.text();
    let id = text
        .split("as run ")
        .nth(1)
        .and_then(|rest| rest.split(' ').next())
        .expect("a prefix");
    assert_eq!(
        text,
        format!(
            "submitted job as run {id} (local job L1); it continues when this shell ends\n\
             follow it with: dlrun logs -f {id}\nwait for it:    dlrun wait {id}\n"
        )
    );
    let _ = done
        .warns("scheduler: local (--scheduler says so)\n")
        .warns("environment: host (the job names neither an image nor Python requirements)\n");
    let _ = env.dlrun(["wait", id]).run().code(0);
    assert_eq!(
        fs::read_to_string(env.jobs().join("job-L1.out")).expect("the output"),
        "epoch 1\n"
    );
}

#[test]
fn json_is_one_object_with_the_run() {
    let env = TestEnv::new();
    let file = env.job("true", "");
    let done = env
        .dlrun(["submit", "--scheduler", "local", "--json"])
        .arg(&file)
        .run()
        .code(0);
    assert_eq!(done.envelope()["operation"], "submit");
    let result = done.result();
    assert_eq!(
        (&result["name"], &result["scheduler"], &result["job_id"]),
        (&"job".into(), &"local".into(), &"L1".into())
    );
    let id = result["run_id"].as_str().expect("an id");
    assert_eq!(id.len(), 23);
    assert_eq!(result["records"], env.run_dir(id).to_str().expect("text"));
    assert_eq!(
        result["output"],
        env.jobs().join("job-L1.out").to_str().expect("text")
    );
}

#[test]
fn wait_follows_the_run_to_its_end_with_epochs_and_a_summary() {
    let env = TestEnv::new();
    let file = env.job(
        "echo 'Epoch 1/2'; echo 'epoch 1 0.5s loss: 0.25'; echo 'epoch 2 0.5s loss: 0.125'; sleep 1",
        "",
    );
    let _ = env
        .dlrun(["submit", "--scheduler", "local", "--wait"])
        .arg(&file)
        .run()
        .code(0)
        .warns("submitted job as run ")
        .warns("epoch 2")
        .warns("loss 0.1250")
        .says("state        completed")
        .says("loss 0.1250")
        .says(env.jobs().join("job-L1.out").to_str().expect("text"));
}

/// Heads and figures: nothing follows the last epoch but the end of the program.
#[test]
fn wait_prints_the_last_epoch_of_a_program_that_ended_well() {
    let env = TestEnv::new();
    let epochs = "for i in 1 2; do echo \"Epoch $i/2\"; echo \"loss: 0.$i\"; sleep 0.5; done";
    let waited = |script: &str, code: i32| {
        let file = env.job(script, "");
        let submit = ["submit", "--scheduler", "local", "--wait"];
        env.dlrun(submit)
            .arg(&file)
            .run()
            .code(code)
            .warns("epoch 1/2")
    };
    let well = waited(epochs, 0);
    let place = |text: &str| well.stderr.rfind(text).expect(text);
    assert!(place("epoch 2/2") < place("completed"), "{}", well.stderr);
    let failed = waited(&format!("{epochs}; exit 3"), 10);
    assert!(
        !failed.stderr.contains("epoch 2/2"),
        "it may have been cut short"
    );
}

#[test]
fn wait_tells_by_its_exit_code_how_the_run_ended() {
    let env = TestEnv::new();
    for (script, state, own) in [
        ("exit 0", 0, 0),
        ("exit 3", 10, 3),
        ("kill -9 $$", 10, 137),
        ("exit 200", 10, 200),
    ] {
        let file = env.job(script, "");
        let submit = |how: &str| {
            env.dlrun(["submit", "--scheduler", "local", how, "--json"])
                .arg(&file)
                .run()
        };
        let result = submit("--wait").code(state).result();
        assert_eq!(
            result["status"]["state"],
            if state == 0 { "completed" } else { "failed" },
            "{script}"
        );
        let _ = submit("--wait=passthrough").code(own);
        let _ = submit("--wait=state").code(state);
    }
}

#[test]
fn slurm_gets_the_script_that_render_prints_and_a_line_with_the_run() {
    let env = TestEnv::new();
    let sbatch = env.fake_slurm();
    let file = env.job(
        "true",
        "[resources]\nmemory = \"2GiB\"\nwalltime = \"90m\"\nqueue = \"gpu\"\n",
    );
    let result = env
        .dlrun(["submit", "--json"])
        .arg(&file)
        .run()
        .code(0)
        .result();
    assert_eq!(
        (&result["scheduler"], &result["job_id"]),
        (&"slurm".into(), &"4711".into())
    );
    assert_eq!(
        result["output"],
        env.jobs().join("job-4711.out").to_str().expect("text")
    );
    let call = sbatch.call();
    let rendered = env.dlrun(["render"]).arg(&file).run().code(0).text();
    let id = result["run_id"].as_str().expect("an id");
    let line = format!("\nexport DLRUN_RUN_ID={id}\n");
    assert_eq!(call.stdin.replacen(&line, "", 1), rendered);
    assert_eq!(
        fs::read_to_string(env.run_dir(id).join("job.sh")).expect("it is kept"),
        call.stdin
    );
    // With a list Slurm would start a login shell on the node, and anybody can read a command line.
    assert_eq!(call.option("--export"), None);
    assert!(
        !call.argv.iter().any(|word| word.contains(id)),
        "{:?}",
        call.argv
    );
    assert_eq!(call.option("--chdir"), env.jobs().to_str());
    for (option, value) in [
        ("--mem", "2048M"),
        ("--time", "01:30:00"),
        ("--partition", "gpu"),
        ("--job-name", "job"),
    ] {
        assert_eq!(call.option(option), Some(value), "{:?}", call.argv);
        assert!(
            rendered.contains(&format!("#SBATCH {option}={value}\n")),
            "{rendered}"
        );
    }
    assert!(call.argv.contains(&"--parsable".to_owned()));
}

#[test]
fn slurm_job_that_ran_is_found_again_with_its_records() {
    let env = TestEnv::new();
    let _ = slurm_that_runs(&env);
    let file = env.job("echo 'epoch 1 0.5s'; exit 5", "");
    let done = env
        .dlrun(["submit", "--wait", "--json"])
        .arg(&file)
        .run()
        .code(10);
    let result = done.result();
    assert_eq!(
        (
            &result["status"]["exit"]["code"],
            &result["nodes"][0]["node"]
        ),
        (&5.into(), &"n1".into())
    );
    assert_eq!(result["summary"]["epochs"]["epochs"], 1);
    let _ = env
        .dlrun(["logs", "4711"])
        .run()
        .code(0)
        .says("epoch 1 0.5s\n");
}

#[test]
fn refusal_leaves_nothing_behind() {
    let env = TestEnv::new();
    let words = "sbatch: error: invalid partition specified: gpux\nsbatch: error: Batch job submission failed";
    let _ = env.fake_slurm().stdout("").stderr(words).code(1);
    let file = env.job("true", "");
    let _ = env
        .dlrun(["submit"])
        .arg(&file)
        .run()
        .code(76)
        .warns("error: slurm refused the job\n  caused by: `sbatch` exited with status 1\n")
        .warns("invalid partition specified: gpux")
        .warns("hint: nothing was queued");
    let error = env
        .dlrun(["submit", "--json"])
        .arg(&file)
        .run()
        .code(76)
        .error();
    assert_eq!(error["kind"], "refused");
    assert!(
        error["message"].as_str().expect("text").contains("gpux"),
        "{error}"
    );
    assert_eq!(
        fs::read_dir(env.state().join("runs"))
            .expect("it was made")
            .count(),
        0
    );
}

#[test]
fn controller_that_is_down_is_never_replaced_by_this_machine() {
    let env = TestEnv::new();
    let words = "sbatch: error: Batch job submission failed: Unable to contact slurm controller (connect failure)\n";
    let _ = env.fake_slurm().stdout("").stderr(words).code(1);
    let file = env.job("touch ran", "");
    let error = env
        .dlrun(["submit", "--json"])
        .arg(&file)
        .run()
        .code(69)
        .error();
    assert_eq!(error["kind"], "unreachable");
    assert!(
        error["hints"][0]
            .as_str()
            .expect("a hint")
            .contains("--scheduler local"),
        "{error}"
    );
    assert!(env.processes().is_empty() && !env.jobs().join("ran").exists());
}

#[test]
fn without_a_scheduler_the_job_runs_here_and_that_is_said_loudly() {
    let env = TestEnv::new();
    let _ = env
        .dlrun(["submit", "--wait"])
        .arg(env.job("true", ""))
        .run()
        .code(0)
        .warns("warning: no scheduler found: the job runs on THIS machine");
}

#[test]
fn scheduler_of_flag_job_file_and_settings_win_in_this_order() {
    let mut env = TestEnv::new();
    let _ = env.fake_slurm();
    let chosen = |env: &TestEnv, file: &std::path::Path, flags: &[&str]| {
        let plan = env
            .dlrun(["plan", "--json"])
            .arg(file)
            .args(flags)
            .run()
            .code(0);
        plan.result()["plan"]["scheduler"]
            .as_str()
            .expect("a word")
            .to_owned()
    };
    let (silent, local) = (
        env.job_called("a", "true", ""),
        env.job_called("b", "true", "[scheduler]\nkind = \"local\""),
    );
    assert_eq!(chosen(&env, &silent, &[]), "slurm");
    assert_eq!(chosen(&env, &local, &[]), "local");
    assert_eq!(chosen(&env, &local, &["--scheduler", "slurm"]), "slurm");
    env.set("DLRUN_SCHEDULER__KIND", "local");
    assert_eq!(chosen(&env, &silent, &[]), "local");
    let slurm = env.job_called("c", "true", "[scheduler]\nkind = \"slurm\"");
    assert_eq!(chosen(&env, &slurm, &[]), "slurm");
}

#[test]
fn client_that_is_killed_while_it_waits_leaves_the_job_alone() {
    let env = TestEnv::new();
    let file = env.job(
        "echo $$ > pid; while [ ! -e go ]; do sleep 0.05; done; exit 4",
        "",
    );
    let client = env
        .dlrun(["submit", "--scheduler", "local", "--wait"])
        .arg(&file)
        .start();
    let _ = env.wait_pid("pid");
    client.signal(nix::sys::signal::Signal::SIGKILL);
    let _ = client.finish().killed_by(nix::sys::signal::Signal::SIGKILL);
    env.write("go", "");
    let result = env.dlrun(["wait", "@1", "--json"]).run().code(10).result();
    assert_eq!(result["runs"][0]["status"]["exit"]["code"], 4);
}

/// The client was killed between the handing over and the writing down of the job's id.
#[test]
fn job_without_a_written_id_is_found_by_its_marks() {
    let env = TestEnv::new();
    let _ = slurm_that_runs(&env);
    let file = env.job("true", "");
    let id = env
        .dlrun(["submit", "--json"])
        .arg(&file)
        .run()
        .code(0)
        .result()["run_id"]
        .as_str()
        .expect("an id")
        .to_owned();
    let path = env.run_dir(&id).join("run.json");
    let mut record: Value =
        serde_json::from_slice(&fs::read(&path).expect("written")).expect("JSON");
    assert_eq!(record["job_id"], "4711");
    (record["job_id"], record["output"]) = (Value::Null, Value::Null);
    fs::write(&path, record.to_string()).expect("ours");
    wait_for("the end mark", || {
        env.run_dir(&id).join("0.0/end.json").exists()
    });
    let _ = env.dlrun(["list", "--reindex"]).run().code(0);
    let shown = env.show(&id);
    assert_eq!(
        (&shown["run"]["job_id"], &shown["status"]["state"]),
        (&"4711".into(), &"completed".into())
    );
    assert_eq!(
        shown["run"]["output"],
        env.jobs().join("job-4711.out").to_str().expect("text")
    );
}

#[test]
fn a_run_is_watched_until_it_is_over() {
    let env = TestEnv::new();
    let file = env.job("until [ -e go ]; do sleep 0.1; done", "");
    let id = env.submit(&file);
    let watching = env.dlrun(["show", &id, "--watch=2", "--json"]).start();
    wait_for("it to run", || {
        env.show(&id)["status"]["state"] == "running"
    });
    std::thread::sleep(std::time::Duration::from_secs(3));
    env.write("go", "");
    let seen = watching.finish().code(0);
    let states: Vec<Value> = seen
        .text()
        .lines()
        .map(|line| {
            serde_json::from_str::<Value>(line).expect("JSON")["result"]["status"]["state"].take()
        })
        .collect();
    assert_eq!(states.last(), Some(&"completed".into()));
    assert!(states.contains(&"running".into()), "{states:?}");
    let _ = env.dlrun(["show", &id, "--watch=1"]).run().code(64);
}
