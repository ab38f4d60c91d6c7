//! What `dlrun exec` and the batch script around it do while a training runs, and when something is killed, full or gone.

use std::fs;
use std::os::unix::fs::{DirBuilderExt, symlink};
use std::path::{Path, PathBuf};

use nix::sys::signal::{Signal, kill};
use nix::unistd::{Pid, getuid};
use serde_json::{Value, json};

use crate::support::env::Dlrun;
use crate::support::{DLRUN, Done, TestEnv, skip, wait_for, wait_for_some};

const RUN: &str = "0000000000000001";

/// `dlrun exec` of a shell script, as a batch script of node `n1` would start it.
fn exec(env: &TestEnv, script: &str) -> Dlrun {
    in_job(env.dlrun(["exec", "--", "sh", "-c", script]), env)
}

fn in_job(command: Dlrun, env: &TestEnv) -> Dlrun {
    // As `submit` makes it.
    let made = fs::DirBuilder::new()
        .recursive(true)
        .mode(0o700)
        .create(env.run_dir(RUN));
    made.expect("the directory is ours");
    let file = env.job("true", "");
    let planned = env
        .dlrun(["plan", "--scheduler", "local", "--json"])
        .arg(file);
    let planned = planned
        .env("DLRUN_MONITOR__INTERVAL_MS", "100")
        .env("DLRUN_MONITOR__RECORD_SECONDS", "1");
    command
        .env(
            "DLRUN_PLAN",
            planned.run().code(0).result()["plan"].to_string(),
        )
        .env("DLRUN_RUN_ID", RUN)
        .env("DLRUN_STATE_DIR", env.state())
        .env("DLRUN_NODE", "n1")
        .env("DLRUN_JOB_ID", "7")
}

/// The output file of a job, as a batch system would open it.
fn out(env: &TestEnv) -> PathBuf {
    env.jobs().join("job.out")
}

fn record_path(env: &TestEnv) -> PathBuf {
    env.run_dir(RUN).join("0.0/n1.0/record.json")
}

fn record(env: &TestEnv) -> Value {
    serde_json::from_slice(&fs::read(record_path(env)).expect("there is a record")).expect("JSON")
}

/// Waits until the record says that so many epochs are over.
fn wait_epochs(env: &TestEnv, count: u64) {
    wait_for(&format!("{count} recorded epochs"), || {
        record_path(env).exists()
            && record(env)["progress"]["epochs_completed"].as_u64() >= Some(count)
    });
}

fn watcher(env: &TestEnv, other_than: Option<Pid>) -> Pid {
    wait_for_some("a watcher", || {
        env.processes_with("exec-watch")
            .into_iter()
            .find(|pid| Some(*pid) != other_than)
    })
}

/// Prints an epoch whenever the file `go` has one more line.
const EPOCHS: &str = "n=1; while [ $n -le 3 ]; do
    while [ \"$(cat go 2>/dev/null | wc -l)\" -lt $n ]; do sleep 0.02; done
    echo \"epoch $n 0.5s loss: 0.$n\"; n=$((n+1)); done";

fn allow_epochs(env: &TestEnv, count: usize) {
    env.write("go.part", "x\n".repeat(count));
    fs::rename(env.jobs().join("go.part"), env.jobs().join("go")).expect("ours");
}

#[test]
fn signals_reach_the_command_once_each() {
    let env = TestEnv::new();
    let script = "for s in TERM INT USR1 USR2 CONT HUP QUIT; do trap \"echo $s >> got\" $s; done
        echo > ready; while [ ! -e stop ]; do sleep 0.02; done; exit 9";
    let started = exec(&env, script).start_to(&out(&env));
    env.wait_file("ready");
    let got = || fs::read_to_string(env.jobs().join("got")).unwrap_or_default();
    use Signal::{SIGCONT, SIGHUP, SIGINT, SIGQUIT, SIGTERM, SIGUSR1, SIGUSR2};
    for signal in [SIGTERM, SIGINT, SIGUSR1, SIGUSR2, SIGCONT, SIGHUP, SIGQUIT] {
        started.signal(signal);
        let name = &signal.as_str()[3..];
        wait_for(name, || got().lines().any(|line| line == name));
    }
    env.write("stop", "");
    let _ = started.finish().code(9);
    assert_eq!(
        got().lines().collect::<Vec<_>>(),
        ["TERM", "INT", "USR1", "USR2", "CONT", "HUP", "QUIT"]
    );
}

#[test]
fn signal_that_ends_the_command_is_passed_on_as_its_code() {
    let env = TestEnv::new();
    for (signal, code) in [
        (Signal::SIGTERM, 143),
        (Signal::SIGINT, 130),
        (Signal::SIGUSR1, 138),
    ] {
        let started = exec(&env, "echo > ready; exec sleep 600").start_to(&out(&env));
        env.wait_file("ready");
        started.signal(signal);
        let _ = started.finish().code(code);
        fs::remove_file(env.jobs().join("ready")).expect("ours");
    }
    let number = Signal::SIGTERM as i32;
    assert_eq!(record(&env)["exit"]["signal"], number);
}

/// nix's `waitpid` does not know how such a command ended.
#[test]
fn command_that_a_real_time_signal_ends_is_over() {
    let env = TestEnv::new();
    let _ = exec(
        &env,
        "(kill -40 $BASHPID; sleep 9) & kill -34 $$; sleep 600",
    )
    .run()
    .code(162);
    assert_eq!(record(&env)["exit"]["signal"], 34);
}

/// What a shell exports to shells does not change what the batch script does.
#[test]
fn settings_of_the_submitting_shell_do_not_change_the_batch_script() {
    let env = TestEnv::new();
    let startup = env.write("startup.sh", "set -e\nalias cd=false\ncd() { exit 5; }\n");
    for (name, value) in [
        ("SHELLOPTS", "errexit:xtrace"),
        ("BASH_ENV", startup.to_str().expect("text")),
        ("BASH_FUNC_wait%%", "() {  return 3\n}"),
    ] {
        let file = env.write("env.toml", "name = \"env\"\n[run]\ncommand = [\"env\"]\n");
        let submit = env.dlrun(["submit", "--wait", "--scheduler", "local"]);
        let _ = submit.arg(file).env(name, value).run().code(0);
        let found = env.dlrun(["logs", "env"]).run().code(0).text();
        assert!(!found.contains("dlrun_child"), "{name}: {found}");
        let is_passed_on = found.contains(&format!("{name}=")) || name == "SHELLOPTS";
        assert!(is_passed_on, "{name}: {found}");
    }
}

/// A shell without job control ignores INT and QUIT in what it starts in the background, as batch scripts do.
#[test]
fn background_shell_does_not_make_the_command_deaf() {
    let env = TestEnv::new();
    let script = format!("{DLRUN} exec -- grep SigIgn /proc/self/status & wait $!");
    let said = env.command("sh", ["-c", &script]).run().code(0).text();
    let ignored =
        u64::from_str_radix(said.trim_start_matches("SigIgn:").trim(), 16).expect("hexadecimal");
    let bit = |signal: Signal| ignored & (1 << (signal as i32 - 1));
    assert_eq!(
        (bit(Signal::SIGINT), bit(Signal::SIGQUIT)),
        (0, 0),
        "{said}"
    );
}

#[test]
fn command_reads_nothing_and_stays_in_the_group_of_its_shell() {
    let env = TestEnv::new();
    // Fields of `stat`: the group of the command, and that of its parent.
    let done = exec(&env, "cat; cut -d' ' -f5 /proc/$$/stat /proc/$PPID/stat")
        .run()
        .code(0);
    let text = done.text();
    let fields: Vec<&str> = text.split_whitespace().collect();
    assert_eq!(fields[0], fields[1], "{text}");
}

#[test]
fn none_of_our_variables_reaches_the_command_but_the_run_id() {
    let env = TestEnv::new();
    let ours = |environ: &[u8]| {
        let names = environ
            .split(|byte| *byte == 0)
            .map(|entry| String::from_utf8_lossy(entry).into_owned());
        let names = names.filter(|entry| entry.starts_with("DLRUN_") && !entry.contains("__"));
        names
            .map(|entry| entry.split('=').next().expect("a name").to_owned())
            .collect::<Vec<_>>()
    };
    let _ = exec(&env, "cat /proc/$$/environ > dump")
        .run_to(&out(&env))
        .code(0);
    assert_eq!(
        ours(&fs::read(env.jobs().join("dump")).expect("written")),
        ["DLRUN_EVENTS", "DLRUN_INSIDE", "DLRUN_RUN_ID"]
    );
    let id = env.submit(&env.job("cat /proc/$$/environ > dump", ""));
    let _ = env.dlrun(["wait", &id]).run().code(0);
    assert_eq!(
        ours(&fs::read(env.jobs().join("dump")).expect("written")),
        ["DLRUN_EVENTS", "DLRUN_INSIDE", "DLRUN_RUN_ID"]
    );
}

#[test]
fn output_of_a_pipe_is_echoed_and_recorded() {
    let env = TestEnv::new();
    let script = "echo 'epoch 1 0.5s'; seq 1 100000; printf 'no end'; echo err >&2";
    let done = exec(&env, script).run().code(0);
    let kept = fs::read(env.run_dir(RUN).join("out.n1")).expect("the output is kept");
    assert!(kept.starts_with(b"epoch 1 0.5s\n1\n2\n") && kept.ends_with(b"100000\nno enderr\n"));
    assert!(
        done.stdout == kept,
        "{} bytes echoed of {}",
        done.stdout.len(),
        kept.len()
    );
    let record = record(&env);
    assert_eq!(record["progress"]["epochs_completed"], 1);
    assert_eq!(
        record["output"],
        env.run_dir(RUN).join("out.n1").to_str().expect("text")
    );
}

#[test]
fn pipe_whose_reader_went_away_does_not_end_the_command() {
    let env = TestEnv::new();
    let file = env.program("big.sh", "#!/bin/sh\nseq 1 200000; echo > done\n");
    let script = format!(
        "{DLRUN} exec -- {} | head -n 1; echo ${{PIPESTATUS[0]}}",
        file.display()
    );
    let done = in_job(env.command("bash", ["-c", &script]), &env)
        .run()
        .code(0);
    assert_eq!(done.text(), "1\n0\n");
    assert!(env.jobs().join("done").exists());
}

#[test]
fn without_any_context_the_command_runs_all_the_same() {
    let env = TestEnv::new();
    let done = env
        .dlrun(["exec", "--", "sh", "-c", "echo out; echo err >&2; exit 3"])
        .run()
        .code(3);
    assert_eq!(
        (done.text().as_str(), done.stderr.as_str()),
        ("out\n", "err\n")
    );
    let nonsense = env
        .dlrun(["exec", "--", "true"])
        .env("DLRUN_RUN_ID", "../x")
        .env("DLRUN_PLAN", "{");
    let _ = nonsense
        .env("DLRUN_ATTEMPT", "-1")
        .env("DLRUN_STATE_DIR", "relative")
        .run()
        .code(0);
    env.wait_quiet();
    assert!(!env.state().exists());
}

#[test]
fn killed_watcher_is_started_again_and_keeps_the_epochs() {
    let env = TestEnv::new();
    let started = exec(&env, EPOCHS).start_to(&out(&env));
    allow_epochs(&env, 1);
    wait_epochs(&env, 1);
    let timed = record(&env)["progress"]["epochs"][0].clone();
    assert!(timed["ended_at_ms"].is_number(), "{timed}");
    let first = watcher(&env, None);
    kill(first, Signal::SIGKILL).expect("it runs");
    allow_epochs(&env, 2);
    let _ = watcher(&env, Some(first));
    // The second one writes its first record once it has read what was printed meanwhile.
    wait_epochs(&env, 2);
    allow_epochs(&env, 3);
    let _ = started.finish().code(0);
    let record = record(&env);
    assert_eq!(
        (&record["state"], &record["exit"]["code"]),
        (&"ended".into(), &0.into())
    );
    assert_eq!(record["progress"]["epochs_completed"], 3);
    assert_eq!(record["progress"]["epochs"][0], timed);
    let gaps = record["gaps"].as_array().expect("a list");
    assert_eq!(gaps.len(), 1, "{gaps:?}");
    assert!(
        gaps[0]["from_ms"].as_u64() < gaps[0]["to_ms"].as_u64(),
        "{gaps:?}"
    );
    assert_eq!(gaps[0]["why"], "the watcher was killed and started again");
    let steps = fs::read_dir(env.run_dir(RUN).join("0.0"))
        .expect("listed")
        .count();
    assert_eq!(
        steps, 1,
        "the second watcher continues the first one's record"
    );
}

#[test]
fn watcher_killed_shortly_before_the_end_costs_no_end() {
    let env = TestEnv::new();
    let started = exec(
        &env,
        "while [ ! -e go ]; do sleep 0.02; done; echo 'epoch 1 0.5s'; exit 4",
    )
    .start_to(&out(&env));
    let first = watcher(&env, None);
    wait_for("the first record", || record_path(&env).exists());
    kill(first, Signal::SIGKILL).expect("it runs");
    env.write("go", "");
    let _ = started.finish().code(4);
    let record = record(&env);
    assert_eq!(
        (&record["state"], &record["exit"]["code"]),
        (&"ended".into(), &4.into())
    );
    assert_eq!(record["progress"]["epochs_completed"], 1);
}

#[test]
fn killed_supervisor_leaves_an_interrupted_record_with_all_that_was_seen() {
    let env = TestEnv::new();
    let started = exec(&env, &format!("{EPOCHS}; sleep 600")).start_to(&out(&env));
    allow_epochs(&env, 2);
    wait_epochs(&env, 1);
    started.signal(Signal::SIGKILL);
    let _ = started.finish().killed_by(Signal::SIGKILL);
    wait_for("the last record", || record(&env)["state"] == "interrupted");
    let record = record(&env);
    assert_eq!(
        (&record["exit"], &record["ended_at_ms"]),
        (&Value::Null, &Value::Null)
    );
    assert!(
        record["progress"]["epochs_completed"].as_u64() >= Some(1),
        "{record}"
    );
    assert!(record["segments"].as_u64() >= Some(1), "{record}");
}

/// A job of Slurm that tracks processes by their parents: `slurmstepd` ends with the batch shell and kills nothing. Returns the
/// run's directory and the pids of the supervisor, the batch shell and the training.
fn job_of_linuxproc(env: &TestEnv, command: &str) -> (PathBuf, [Pid; 3]) {
    let render = env
        .dlrun(["render", "--scheduler", "slurm"])
        .arg(env.job(command, ""));
    let script = env.program("job.sh", render.run().code(0).text().as_str());
    let stepd = env.root().join("slurmstepd");
    symlink("/bin/bash", &stepd).expect("ours");
    let text = format!("bash {} & echo $! > shell; wait", script.display());
    let step = env
        .command(stepd, ["-c", text.as_str()])
        .env("DLRUN_RUN_ID", RUN);
    let step = step
        .env("SLURM_JOB_ID", "99")
        .env("SLURMD_NODENAME", "n1")
        .start_to(&out(env));
    let training = env.wait_pid("ready");
    let _ = watcher(env, None);
    let record = env.run_dir(RUN).join("0.0/n1.0/record.json");
    wait_for("the first record", || record.exists());
    let is_supervisor = |pid: &Pid| !env.processes_with("exec-watch").contains(pid);
    let supervisor = wait_for_some("a supervisor", || {
        env.processes_with("exec").into_iter().find(is_supervisor)
    });
    let pids = [supervisor, env.wait_pid("shell"), training];
    std::mem::forget(step);
    (record, pids)
}

#[test]
fn training_whose_supervisor_was_killed_ends_with_its_job_where_slurm_leaves_it_alive() {
    let env = TestEnv::new();
    let (record, [supervisor, ..]) = job_of_linuxproc(&env, "echo $$ > ready; exec sleep 600");
    kill(supervisor, Signal::SIGKILL).expect("it runs");
    env.wait_quiet();
    let text = fs::read_to_string(record).expect("a record");
    assert!(
        text.contains("\"interrupted\"") && text.contains("Slurm had ended the job"),
        "{text}"
    );
}

#[test]
fn training_whose_batch_shell_was_killed_gets_time_to_end_where_slurm_leaves_it_alive() {
    let env = TestEnv::new();
    let command = "trap 'echo > saved; exit 3' TERM; echo $$ > ready; while :; do sleep 0.02; done";
    let (record, [_, shell, _]) = job_of_linuxproc(&env, command);
    kill(shell, Signal::SIGKILL).expect("it runs");
    env.wait_quiet();
    env.wait_file("saved");
    let record: Value = serde_json::from_slice(&fs::read(record).expect("a record")).expect("JSON");
    assert_eq!(
        (&record["state"], &record["exit"]["code"]),
        (&"ended".into(), &3.into())
    );
    assert!(
        record["events"]
            .to_string()
            .contains("Slurm had ended the job"),
        "{record}"
    );
}

#[test]
fn killed_supervisor_of_a_local_job_is_told_and_nothing_stays_behind() {
    let env = TestEnv::new();
    let id = env.submit(&env.job("echo 'epoch 1 0.5s'; echo > ready; exec sleep 600", ""));
    env.wait_file("ready");
    wait_for("the first record", || {
        env.show(&id)["nodes"][0]["state"] == "running"
    });
    let supervisor = wait_for_some("the supervisor", || {
        env.processes_with("exec")
            .into_iter()
            .find(|pid| !env.processes_with("local-run").contains(pid))
    });
    kill(supervisor, Signal::SIGKILL).expect("it runs");
    let result = env.dlrun(["wait", &id, "--json"]).run().code(10).result();
    assert_eq!(result["runs"][0]["status"]["exit"]["signal"], 9);
    env.wait_quiet();
    let _ = env
        .dlrun(["show", &id])
        .run()
        .code(0)
        .says("the record ends at ");
}

#[test]
fn state_directory_that_vanishes_does_not_disturb_the_training() {
    let env = TestEnv::new();
    let id = env.submit(&env.job(
        "echo > ready; while [ ! -e go ]; do sleep 0.02; done; echo done > done",
        "",
    ));
    env.wait_file("ready");
    fs::rename(env.state(), env.root().join("gone")).expect("ours");
    fs::remove_dir_all(env.root().join("gone")).expect("ours");
    env.write("go", "");
    env.wait_file("done");
    env.wait_quiet();
    let _ = env.dlrun(["show", &id]).run().code(66);
    // As seen by the shell of a job, which hands the training's own code on.
    let script = env
        .dlrun(["render", "--scheduler", "local"])
        .arg(env.job("rm -rf ../state/dlrun; exit 5", ""));
    let script = env.program("job.sh", script.run().code(0).text().as_str());
    let _ = env.command("bash", [script]).run_to(&out(&env)).code(5);
}

/// A small file system at `dir`, unmounted when it goes.
struct Tiny(PathBuf);

impl Tiny {
    fn mount(env: &TestEnv, kib: u32) -> Option<Self> {
        let dir = env.root().join("tiny");
        fs::create_dir(&dir).expect("ours");
        let size = format!("size={kib}k,mode=0700");
        let mount = std::process::Command::new("mount")
            .args(["-t", "tmpfs", "-o", &size, "tmpfs"])
            .arg(&dir)
            .output();
        if getuid().is_root() && mount.is_ok_and(|output| output.status.success()) {
            return Some(Self(dir));
        }
        skip("a small file system can be mounted by root alone, and not in every container");
        None
    }
}

impl Drop for Tiny {
    fn drop(&mut self) {
        let _ = std::process::Command::new("umount")
            .arg("-l")
            .arg(&self.0)
            .output();
    }
}

#[test]
fn full_state_directory_does_not_disturb_the_training() {
    let env = TestEnv::new();
    let Some(tiny) = Tiny::mount(&env, 768) else {
        return;
    };
    let state = tiny.0.join("state");
    let flags = ["--state-dir", state.to_str().expect("text")];
    let fill = format!(
        "echo 'epoch 1 0.5s'; dd if=/dev/zero of={}/full bs=1024 2>/dev/null; echo 'epoch 2 0.5s'; sleep 0.3; echo done > done",
        tiny.0.display()
    );
    let submit = env
        .dlrun(["submit", "--scheduler", "local", "--json"])
        .args(flags)
        .arg(env.job(&fill, ""));
    let id = submit.run().code(0).result()["run_id"]
        .as_str()
        .expect("an id")
        .to_owned();
    env.wait_file("done");
    let output = || fs::read_to_string(env.jobs().join("job-L1.out")).expect("the output");
    // A file that the watcher replaced may have left room for the mark.
    let mark = state.join("runs").join(&id).join("0.0/end.json");
    let is_marked = || fs::metadata(&mark).is_ok_and(|mark| mark.len() > 0);
    wait_for("the end to be on record or in the output", || {
        is_marked() || output().contains("dlrun: the job ended")
    });
    let said = "dlrun: the job ended with exit code 0; that";
    let expected = [
        "epoch 1 0.5s\nepoch 2 0.5s\n",
        if is_marked() { "" } else { said },
    ]
    .concat();
    assert!(output().starts_with(&expected), "{}", output());
    // With room again the end is written, and the records can be read and written again.
    fs::remove_file(tiny.0.join("full")).expect("ours");
    env.wait_quiet();
    let shown = env
        .dlrun(["show", "--json", &id])
        .args(flags)
        .run()
        .code(0)
        .result();
    assert_eq!(shown["status"]["state"], "completed");
    let _ = env.dlrun(["list"]).args(flags).run().code(0).says("job");
    let again = env
        .dlrun(["submit", "--scheduler", "local", "--wait"])
        .args(flags);
    let _ = again.arg(env.job_called("again", "true", "")).run().code(0);
}

/// No runner outlives a job of Slurm: its end is kept in its output, and its record on the node.
#[test]
fn job_that_ends_while_the_disk_is_full_is_completed_later() {
    let env = TestEnv::new();
    let Some(tiny) = Tiny::mount(&env, 768) else {
        return;
    };
    let state = tiny.0.join("state");
    let flags = ["--state-dir", state.to_str().expect("text")];
    let _ = env.fake_slurm();
    let fill = format!(
        "echo 'epoch 1 0.5s'; sleep 0.5; dd if=/dev/zero of={}/full bs=1024 2>/dev/null; echo 'epoch 2 0.5s'; exit 3",
        tiny.0.display()
    );
    let submit = env
        .dlrun(["submit", "--scheduler", "slurm", "--json"])
        .args(flags)
        .arg(env.job(&fill, ""));
    let id = submit.run().code(0).result()["run_id"]
        .as_str()
        .expect("an id")
        .to_owned();
    let job = env
        .command("bash", [state.join("runs").join(&id).join("job.sh")])
        .env("DLRUN_RUN_ID", &id);
    let job = job.env("SLURM_JOB_ID", "4711").env("SLURMD_NODENAME", "n1");
    let _ = job.run_to(&env.jobs().join("job-4711.out")).code(3);
    let said = fs::read_to_string(env.jobs().join("job-4711.out")).expect("the output");
    assert!(
        said.contains(
            "dlrun: the job ended with exit code 3; that cannot be recorded: No space left on device ["
        ),
        "{said}"
    );
    // The index cannot be written either.
    let listed = env.dlrun(["list", "--json"]).args(flags).run().code(0);
    let listed = listed.result();
    let state = &listed["runs"][0]["state"];
    assert_eq!(state, "failed", "{listed}");
    fs::remove_file(tiny.0.join("full")).expect("ours");
    let shown = env
        .dlrun(["show", "--json", &id])
        .args(flags)
        .run()
        .code(0)
        .result();
    assert_eq!(
        (&shown["status"]["state"], &shown["status"]["exit"]["code"]),
        (&"failed".into(), &3.into())
    );
    let node = &shown["nodes"][0];
    assert_eq!(
        (&node["state"], &node["progress"]["epochs_completed"]),
        (&"ended".into(), &2.into()),
        "{node}"
    );
    assert!(
        shown["unreadable"]
            .to_string()
            .contains("No space left on device"),
        "{shown}"
    );
}

/// The rendered script of a job whose dlrun is not where the script expects it.
fn script_without_dlrun(env: &TestEnv, command: &str) -> PathBuf {
    let render = env
        .dlrun(["render", "--scheduler", "local"])
        .arg(env.job(command, ""));
    let script = render
        .env("DLRUN_NODE__DLRUN", "/no/such/dlrun")
        .run()
        .code(0)
        .text();
    env.program("job.sh", &script)
}

fn mark(env: &TestEnv, attempt: &str, name: &str) -> Value {
    let path = env.run_dir(RUN).join(attempt).join(name);
    serde_json::from_slice(&fs::read(path).expect("it is written")).expect("JSON")
}

#[test]
fn node_without_dlrun_runs_the_bare_command_and_says_so() {
    let env = TestEnv::new();
    let script = script_without_dlrun(&env, "echo \"$1$DLRUN_PLAN\"; exit 6");
    let job = env.command("bash", [&script]).env("DLRUN_RUN_ID", RUN);
    let done = job
        .run()
        .code(6)
        .warns("dlrun: warning: dlrun does not run on ");
    assert_eq!(done.text(), "\n");
    assert_eq!(mark(&env, "0.0", "start.json")["exit_code"], Value::Null);
    assert_eq!(mark(&env, "0.0", "end.json")["exit_code"], 6);
    // Came through `render` and has no id: nothing can be marked, and it runs.
    let _ = env
        .command("bash", [&script])
        .run()
        .code(6)
        .warns("dlrun: warning: ");
    // A dlrun of another machine's kind.
    let broken = env.program("dlrun", "\u{7f}ELF nonsense");
    let text = fs::read_to_string(&script)
        .expect("ours")
        .replace("/no/such/dlrun", broken.to_str().expect("text"));
    let _ = env
        .command("bash", [env.program("job.sh", &text)])
        .run()
        .code(6)
        .warns("dlrun: warning: ");
}

#[test]
fn bare_command_gets_signals_too() {
    let env = TestEnv::new();
    let script = script_without_dlrun(
        &env,
        "trap 'exit 7' USR1; echo > ready; while :; do sleep 0.02; done",
    );
    let job = env
        .command("bash", [&script])
        .env("DLRUN_RUN_ID", RUN)
        .start_to(&out(&env));
    env.wait_file("ready");
    job.signal(Signal::SIGUSR1);
    let _ = job.finish().code(7);
    assert_eq!(mark(&env, "0.0", "end.json")["exit_code"], 7);
}

/// Runs the batch script of `command` until `ready` is there, then signals its shell.
fn signalled(env: &TestEnv, command: &str, signal: Signal) -> Done {
    let render = env
        .dlrun(["render", "--scheduler", "local"])
        .arg(env.job(command, ""));
    let script = env.program("job.sh", render.run().code(0).text().as_str());
    let job = env
        .command("bash", [&script])
        .env("DLRUN_RUN_ID", RUN)
        .start_to(&out(env));
    env.wait_file("ready");
    job.signal(signal);
    let done = job.finish();
    fs::remove_file(env.jobs().join("ready")).expect("ours");
    done
}

#[test]
fn batch_script_passes_signals_on_and_marks_the_end() {
    let env = TestEnv::new();
    let _ = signalled(&env, "echo > ready; exec sleep 600", Signal::SIGTERM).code(143);
    assert_eq!(mark(&env, "0.0", "end.json")["exit_code"], 143);
    for (signal, name) in [
        (Signal::SIGUSR1, "USR1"),
        (Signal::SIGUSR2, "USR2"),
        (Signal::SIGINT, "INT"),
        (Signal::SIGTERM, "TERM"),
        (Signal::SIGALRM, "ALRM"),
        (Signal::SIGXCPU, "XCPU"),
        (Signal::SIGPWR, "PWR"),
    ] {
        let command = format!("trap 'exit 33' {name}; echo > ready; while :; do sleep 0.02; done");
        let _ = signalled(&env, &command, signal).code(33);
        assert_eq!(mark(&env, "0.0", "end.json")["exit_code"], 33, "{name}");
    }
    // The command goes on after a signal that it handles, and its own code counts.
    let command = "trap 'echo saved > saved' USR1; echo > ready; while [ ! -e saved ]; do sleep 0.02; done; exit 3";
    let _ = signalled(&env, command, Signal::SIGUSR1).code(3);
}

#[test]
fn requeued_job_gets_an_attempt_of_its_own() {
    let env = TestEnv::new();
    let render = env
        .dlrun(["render", "--scheduler", "slurm"])
        .arg(env.job("exit $SLURM_RESTART_COUNT", ""));
    let script = env.program("job.sh", render.run().code(0).text().as_str());
    for (restarts, attempt) in [("0", "0.0"), ("1", "0.1"), ("12", "0.12")] {
        let job = env
            .command("bash", [&script])
            .env("DLRUN_RUN_ID", RUN)
            .env("SLURM_RESTART_COUNT", restarts);
        let code = restarts.parse().expect("a number");
        let _ = job
            .env("SLURM_JOB_ID", "99")
            .env("SLURMD_NODENAME", "n3")
            .run_to(&out(&env))
            .code(code);
        let end = mark(&env, attempt, "end.json");
        assert_eq!(
            (&end["exit_code"], &end["node"], &end["job_id"]),
            (&code.into(), &"n3".into(), &"99".into())
        );
        let record =
            fs::read(env.run_dir(RUN).join(attempt).join("n3.0/record.json")).expect("recorded");
        let record: Value = serde_json::from_slice(&record).expect("JSON");
        assert_eq!(
            record["attempt"],
            restarts.parse::<u32>().expect("a number")
        );
    }
}

#[test]
fn working_directory_that_is_gone_is_told_by_the_script() {
    let env = TestEnv::new();
    let file = env.write(
        "far.toml",
        "[run]\ncommand = [\"true\"]\nworkdir = \"/no/such/place\"\n",
    );
    let render = env
        .dlrun(["render", "--no-check", "--scheduler", "local"])
        .arg(file);
    let script = env.program("job.sh", render.run().code(0).text().as_str());
    let done = env
        .command("bash", [script])
        .env("DLRUN_RUN_ID", RUN)
        .run()
        .code(66);
    let _ = done.warns("dlrun: error: the working directory does not exist: /no/such/place");
    assert_eq!(mark(&env, "0.0", "end.json")["exit_code"], 66);
}

#[test]
fn modules_are_loaded_in_order_and_a_missing_one_ends_the_job() {
    let env = TestEnv::new();
    let file = env.job("true", "modules = [\"gcc/12\", \"no such\"]");
    let _ = env
        .dlrun(["check"])
        .arg(&file)
        .run()
        .code(65)
        .warns("\"no such\" is not a module name");
    let file = env.job("cat loaded", "modules = [\"gcc/12\", \"cuda\"]");
    let render = env.dlrun(["render", "--scheduler", "local"]).arg(file);
    let script = env.program("job.sh", render.run().code(0).text().as_str());
    let module = |body: &str| format!("module() {{ {body}; }}; export -f module; exec bash \"$0\"");
    let works = module("echo \"$2\" >> loaded");
    let _ = env
        .command("bash", ["-c", &works])
        .arg(&script)
        .run()
        .code(0)
        .says("gcc/12\ncuda\n");
    let fails = module("[ \"$2\" != cuda ]");
    let done = env
        .command("bash", ["-c", &fails])
        .arg(&script)
        .run()
        .code(66);
    let _ = done.warns("dlrun: error: module load failed: cuda");
}

/// No directory of the run's may be made by the test: they are the programs' business.
#[test]
fn marks_and_records_are_closed_to_others() {
    use std::os::unix::fs::PermissionsExt;
    let env = TestEnv::new();
    let id = env.submit(&env.job("umask 000; true", ""));
    let _ = env.dlrun(["wait", &id]).run().code(0);
    let mut dirs = vec![env.state()];
    while let Some(dir) = dirs.pop() {
        for entry in fs::read_dir(&dir).expect("listed") {
            let path: &Path = &entry.expect("entry").path();
            let mode = path.symlink_metadata().expect("there").permissions().mode() & 0o077;
            assert_eq!(mode, 0, "{} is open to others", path.display());
            if path.is_dir() {
                dirs.push(path.to_owned());
            }
        }
    }
}

#[test]
fn output_faster_than_the_watcher_costs_no_record_and_is_said() {
    let env = TestEnv::new();
    let script = "seq -f 'Epoch %.0f/9000000 - 1s - loss: 0.1234 - accuracy: 0.98' 1 40000";
    let id = env.submit(&env.job_called("fast", script, ""));
    env.wait_state(&id, "completed");
    let shown = env.show(&id);
    let node = &shown["nodes"][0];
    assert_eq!(
        (&node["state"], &node["exit"]),
        (&"ended".into(), &json!({ "code": 0 })),
        "{node}"
    );
    assert!(
        node["usage"]["cpu_user_seconds"].as_f64().is_some(),
        "{node}"
    );
    let missing = node["missing"].to_string();
    assert!(
        missing.contains("it was written faster than read"),
        "{missing}"
    );
}
