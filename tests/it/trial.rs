//! `framework.trial`: the quickest way is found before the run, recorded, and taken by later starts and the model.

use nix::sys::signal::{Signal, kill};
use serde_json::Value;

use crate::support::{TestEnv, python, wait_for};

/// A program whose steps take as long as its compiler and threads make them; it says what it was started with.
const PROGRAM: &str = r#"
echo "${DLRUN_TRIAL:-run} ${DLRUN_COMPILER:-} ${OMP_NUM_THREADS:-}" >> begun
case ${DLRUN_COMPILER:-} in
inductor) pause=0.01; [ "${WORSE:-}" ] && [ -e once ] && pause=0.09; touch once; sleep 0.4 ;;
*) pause=0.04 ;;
esac
for step in $(seq 45); do
    sleep $pause
    echo "Epoch [1/1], Step [$step/45], Loss: 0.5"
done"#;

fn job(env: &TestEnv, more: &str) -> std::path::PathBuf {
    env.job(
        PROGRAM,
        &format!("[framework]\nname = \"pytorch\"\ncompiler = \"auto\"\ntrial = true\n{more}"),
    )
}

fn finished(env: &TestEnv, job: &std::path::Path) -> (String, Value) {
    let id = env.submit(job);
    let _ = env.dlrun(["wait", &id]).run().code(0);
    let shown = env.show(&id);
    (id, shown)
}

fn begun(env: &TestEnv) -> Vec<String> {
    let text = env.wait_file("begun");
    text.lines().map(|line| line.trim().to_owned()).collect()
}

#[test]
fn the_quickest_way_is_taken_and_the_record_says_so() {
    let env = TestEnv::new();
    let (id, shown) = finished(&env, &job(&env, "[resources]\ncpus_per_task = 1\n"));
    let trial = &shown["nodes"][0]["trial"];
    assert_eq!(
        (&trial["compiler"], &trial["unit"], &trial["chosen"]),
        (&"inductor".into(), &"step".into(), &1.into()),
        "{trial}"
    );
    let begun = begun(&env);
    let expected = [
        "1 none",
        "1 inductor",
        "1 inductor",
        "1 none",
        "run inductor",
    ];
    assert_eq!(begun, expected);
    let first = &trial["ways"][1]["passes"][0];
    assert!(
        first["first_seconds"].as_f64().expect("seen") > 0.4,
        "{trial}"
    );
    let text = env.dlrun(["show", &id]).run().code(0).text();
    assert!(text.contains("inductor takes"), "{text}");
}

#[test]
fn a_way_that_is_not_surely_quicker_is_not_taken() {
    let env = TestEnv::new();
    let more = "[resources]\ncpus_per_task = 1\n[run.env]\nWORSE = \"1\"\n";
    let (_, shown) = finished(&env, &job(&env, more));
    let trial = &shown["nodes"][0]["trial"];
    assert_eq!(
        (&trial["compiler"], &trial["chosen"]),
        (&"none".into(), &0.into()),
        "{trial}"
    );
    assert_eq!(begun(&env).last().map(String::as_str), Some("run none"));
}

#[test]
fn what_cannot_be_tried_is_said_and_the_job_runs() {
    let env = TestEnv::new();
    let alone = "[framework]\nname = \"pytorch\"\ncompiler = \"none\"\ntrial = true\n[resources]\ncpus_per_task = 1\n";
    let said = env
        .dlrun(["plan"])
        .arg(env.job("true", alone))
        .run()
        .code(0)
        .text();
    assert!(said.contains("there is one way only"), "{said}");
    let each = "[run]\ncommand = [\"true\"]\nlauncher = \"each\"\n[framework]\nname = \"pytorch\"\ncompiler = \"auto\"\ntrial = true\n";
    let said = env
        .dlrun(["plan"])
        .arg(env.write("each.toml", each))
        .run()
        .code(65)
        .stderr;
    assert!(said.contains("launcher = \"each\" starts more"), "{said}");
    let off = "[framework]\nname = \"pytorch\"\ncompiler = \"auto\"\ntrial = true\n";
    let said = env
        .dlrun(["plan"])
        .arg(env.job("true", off))
        .env("DLRUN_TRIAL__MINUTES", "0")
        .run()
        .code(0)
        .text();
    assert!(said.contains("trial.minutes = 0"), "{said}");
}

/// A trial of a command that is not a training; the run's directory and its job file.
fn with_command(env: &TestEnv, script: &str) -> std::path::PathBuf {
    env.job(
        script,
        "[framework]\nname = \"pytorch\"\ncompiler = \"auto\"\ntrial = true\n[resources]\ncpus_per_task = 1\nwalltime = \"10m\"",
    )
}

#[test]
fn a_cancel_during_the_trial_ends_the_job() {
    let env = TestEnv::new();
    let job = with_command(
        &env,
        "echo \"${DLRUN_TRIAL:-run}\" >> begun; exec sleep 300",
    );
    let id = env.submit(&job);
    wait_for("the trial", || env.jobs().join("begun").exists());
    let _ = env.dlrun(["cancel", &id]).run().code(0);
    env.wait_state(&id, "cancelled");
    assert_eq!(begun(&env), ["1"], "the training did not start");
}

#[test]
fn output_without_end_ends_a_pass_and_what_a_pass_started_ends_with_it() {
    let env = TestEnv::new();
    let program = r#"
import os, sys, time
if os.environ.get("DLRUN_TRIAL"):
    if os.fork() == 0:
        os.setsid()
        open("left", "a").write(f"{os.getpid()}\n")
        time.sleep(4321)
    time.sleep(0.2)
    while True:
        os.write(1, b"a line of nothing that anybody reads\n" * 20_000)
alive = [pid for pid in open("left").read().split() if os.path.exists(f"/proc/{pid}")]
open("end", "w").write(f"{alive}\n")
"#;
    let _ = env.write("program.py", program);
    let script = format!("exec {} program.py", python().display());
    let (id, shown) = finished(&env, &with_command(&env, &script));
    let trial = &shown["nodes"][0]["trial"];
    let why = trial["why"].as_str().expect("text");
    assert!(
        why.contains("prints faster") || why.contains("too few of its steps"),
        "{why}"
    );
    assert_eq!(env.wait_file("end"), "[]\n", "{id}");
}

#[test]
fn a_trial_beside_resume_or_without_time_is_not_made() {
    let env = TestEnv::new();
    let text = "[run]\ncommand = [\"true\"]\n[framework]\nname = \"pytorch\"\ncompiler = \"auto\"\ntrial = true\n";
    let resume = env.write(
        "resume.toml",
        format!("{text}[resume]\ncheckpoints = [\"c\"]\n"),
    );
    let said = env.dlrun(["plan"]).arg(resume).run().code(65).stderr;
    assert!(said.contains("exclude each other"), "{said}");
    let short = env.write(
        "short.toml",
        format!("{text}[resources]\nwalltime = \"1m\"\ncpus_per_task = 1\n"),
    );
    let said = env.dlrun(["plan"]).arg(short).run().code(0).text();
    assert!(said.contains("has no effect: 2 ways need 40 s"), "{said}");
}

#[test]
fn a_signal_that_comes_during_the_trial_reaches_the_command_once_it_handles_it() {
    let env = TestEnv::new();
    let program = r#"
import os, signal, sys, time
if os.environ.get("DLRUN_TRIAL"):
    open("parent", "w").write(f"{os.getppid()}\n")
    time.sleep(300)
time.sleep(1)
signal.signal(signal.SIGUSR1, lambda *_: (open("saved", "w").write("yes\n"), os._exit(0)))
time.sleep(300)
"#;
    let _ = env.write("program.py", program);
    let id = env.submit(&with_command(
        &env,
        &format!("exec {} program.py", python().display()),
    ));
    kill(env.wait_pid("parent"), Signal::SIGUSR1).expect("it runs");
    env.wait_state(&id, "completed");
    assert_eq!(env.wait_file("saved"), "yes\n");
    let why = env.show(&id)["nodes"][0]["trial"]["why"].to_string();
    assert!(why.contains("SIGUSR1 came during the trial"), "{why}");
}
