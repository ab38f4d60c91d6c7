//! dlrun against a real OpenPBS: what a stand-in for its commands would only repeat.
//!
//! `DLRUN_TEST_OPENPBS_BIN` names the directory of its commands, `DLRUN_TEST_USER` an ordinary user whose home the nodes
//! see, `PBS_CONF_FILE` its configuration where that is not the usual one. The tests start jobs as that user and need to
//! be root's. There must be two nodes of two CPUs each.

use std::fs;
use std::os::unix::fs::{PermissionsExt, chown};
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::{Command, Output};

use dlrun::job::{JobId, JobState, RunId};
use dlrun::record::QueueEntry;
use dlrun::scheduler::openpbs::OPENPBS;
use dlrun::scheduler::{JobRef, Scheduler};
use nix::unistd::User;
use serde_json::Value;

use crate::pbs_real::{self, Site as _};
use crate::support::env::install;
use crate::support::same::compare;
use crate::support::{DLRUN, wait_for, wait_for_some};

/// A directory in the home of the user, and the way to OpenPBS.
struct Site {
    bin: PathBuf,
    user: User,
    dir: tempfile::TempDir,
}

impl Site {
    fn new() -> Self {
        let variable =
            |name: &str| std::env::var(name).unwrap_or_else(|_| panic!("{name} is not set"));
        let bin = PathBuf::from(variable("DLRUN_TEST_OPENPBS_BIN"));
        let user = User::from_name(&variable("DLRUN_TEST_USER"))
            .expect("an answer")
            .expect("a user");
        let dir = tempfile::Builder::new()
            .prefix("openpbs-")
            .tempdir_in(&user.dir)
            .expect("a directory");
        chown(dir.path(), Some(user.uid.as_raw()), Some(user.gid.as_raw())).expect("root may");
        install(DLRUN, dir.path());
        fs::set_permissions(dir.path(), fs::Permissions::from_mode(0o755)).expect("root may");
        Self { bin, user, dir }
    }

    fn path(&self, name: &str) -> PathBuf {
        self.dir.path().join(name)
    }

    fn command(&self, program: &Path) -> Command {
        let mut command = Command::new(program);
        command
            .uid(self.user.uid.as_raw())
            .gid(self.user.gid.as_raw())
            .current_dir(self.dir.path());
        command
            .env_clear()
            .env("PATH", format!("{}:/usr/bin:/bin", self.bin.display()));
        command
            .env("HOME", &self.user.dir)
            .env("USER", &self.user.name)
            .env("LOGNAME", &self.user.name);
        command.envs(std::env::var_os("PBS_CONF_FILE").map(|file| ("PBS_CONF_FILE", file)));
        command
            .env("DLRUN_STATE_DIR", self.path("state"))
            .env("DLRUN_SCHEDULER__KIND", "openpbs");
        command
    }

    fn dlrun(&self, args: &[&str]) -> Output {
        self.command(&self.path("dlrun"))
            .args(args)
            .output()
            .expect("dlrun runs")
    }

    #[track_caller]
    fn json(&self, args: &[&str]) -> Value {
        let output = self.dlrun(args);
        assert!(output.status.success(), "{args:?}: {}", text(&output));
        serde_json::from_slice::<Value>(&output.stdout).expect("JSON")["result"].clone()
    }

    /// One of OpenPBS's commands, by the user; what it prints.
    #[track_caller]
    fn pbs(&self, program: &str, args: &[&str]) -> String {
        let output = self
            .command(&self.bin.join(program))
            .args(args)
            .output()
            .expect("it runs");
        assert!(
            output.status.success(),
            "{program} {args:?}: {}",
            text(&output)
        );
        String::from_utf8_lossy(&output.stdout).trim().to_owned()
    }

    fn job(&self, script: &str, more: &str) -> PathBuf {
        let command = serde_json::to_string(&["sh", "-c", script]).expect("text");
        let file = self.path("job.toml");
        fs::write(&file, format!("[run]\ncommand = {command}\n{more}\n")).expect("root may");
        file
    }

    /// Hands a job over; its run and its id.
    #[track_caller]
    fn submit(&self, script: &str, more: &str) -> (String, String) {
        let file = self.job(script, more);
        let result = self.json(&["submit", "--json", &file.to_string_lossy()]);
        let word = |key: &str| {
            result[key]
                .as_str()
                .unwrap_or_else(|| panic!("{key}"))
                .to_owned()
        };
        (word("run_id"), word("job_id"))
    }

    fn status(&self, run: &str) -> Value {
        self.json(&["show", "--json", run])["status"].clone()
    }

    #[track_caller]
    fn until(&self, run: &str, state: &str) -> Value {
        wait_for_some(&format!("{run} to be {state}"), || {
            Some(self.status(run)).filter(|status| status["state"] == state)
        })
    }

    fn openpbs(&self) -> impl Scheduler {
        OPENPBS.with_commands(Some(self.bin.clone()), std::time::Duration::from_secs(30))
    }

    /// What the adapter says of a job.
    fn entries(&self, id: &str) -> Vec<QueueEntry> {
        let job = JobRef {
            run_id: RunId::from_random([7; 10]),
            job_id: JobId(id.to_owned()),
            parts: Vec::new(),
            submitted_at_ms: Some(dlrun::foundation::clock::now_ms()),
            run_dir: self.path("run"),
        };
        let mut entries = self
            .openpbs()
            .queue(std::slice::from_ref(&job))
            .expect("an answer");
        entries.remove(&job.run_id).unwrap_or_default()
    }

    /// A script that `qsub` takes as it is.
    fn plain(&self, script: &str) -> PathBuf {
        let file = self.path("plain.sh");
        fs::write(&file, format!("#!/bin/bash\n{script}\n")).expect("root may");
        file
    }
}

impl pbs_real::Site for Site {
    fn path(&self, name: &str) -> PathBuf {
        self.path(name)
    }

    fn dlrun(&self, args: &[&str]) -> Output {
        self.dlrun(args)
    }

    fn described(&self, job: &str) -> String {
        self.pbs("qstat", &["-f", "-x", job])
    }
}

fn text(output: &Output) -> String {
    format!(
        "{:?}: {}{}",
        output.status,
        String::from_utf8_lossy(&output.stdout),
        String::from_utf8_lossy(&output.stderr)
    )
}

#[test]
#[ignore = "needs OpenPBS: DLRUN_TEST_OPENPBS_BIN, DLRUN_TEST_USER"]
fn a_job_is_followed_from_the_queue_to_its_end() {
    let site = Site::new();
    let hostile = "it's \"$HOME\" `id` $(id) \\\\ #PBS -q none";
    let words =
        serde_json::to_string(&["sh", "-c", "printf '%s\\n' \"$1\"; exit 3", "sh", hostile])
            .expect("text");
    let file = site.path("job.toml");
    fs::write(&file, format!("[run]\ncommand = {words}\n[resources]\ncpus_per_task = 1\nwalltime = \"5m\"\n[scheduler]\narguments = [\"-h\"]\n")).expect("root may");
    let result = site.json(&["submit", "--json", &file.to_string_lossy()]);
    let (run, id) = (
        result["run_id"].as_str().expect("a run"),
        result["job_id"].as_str().expect("an id"),
    );
    let held = site.until(run, "pending");
    assert_eq!(
        (&held["raw_state"], &held["reason"]),
        (&"H".into(), &"held by its user (`qrls` lets it go)".into())
    );
    assert!(site.entries(id)[0].stuck);
    site.pbs("qrls", &[id]);
    let over = site.until(run, "failed");
    assert_eq!(over["exit"], serde_json::json!({ "code": 3 }), "{over}");
    let number = id.split('.').next().expect("a number");
    assert_eq!(
        fs::read_to_string(site.path(&format!("job-{number}.out"))).expect("it has one"),
        format!("{hostile}\n")
    );
    wait_for("the server's own word", || {
        site.entries(id)[0].state == JobState::Failed
    });
    let entry = site.entries(id).remove(0);
    assert!(
        entry.nodes.is_some()
            && entry.ended_at_ms >= entry.started_at_ms
            && entry.started_at_ms.is_some()
    );
    assert!(
        entry
            .started_at_ms
            .is_some_and(|at| at.abs_diff(dlrun::foundation::clock::now_ms()) < 300_000),
        "{entry:?}"
    );
}

#[test]
#[ignore = "needs OpenPBS: DLRUN_TEST_OPENPBS_BIN, DLRUN_TEST_USER"]
fn the_end_is_told_by_its_cause() {
    let site = Site::new();
    let (limit, _) = site.submit("sleep 100", "[resources]\nwalltime = \"2s\"\n");
    let (running, _) = site.submit("sleep 100", "[resources]\nwalltime = \"5m\"\n");
    let (waiting, _) = site.submit("true", "[scheduler]\narguments = [\"-h\"]\n");
    let (killed, _) = site.submit("kill -9 $$", "");
    site.until(&running, "running");
    for run in [&running, &waiting] {
        assert!(site.dlrun(&["cancel", run]).status.success());
        site.until(run, "cancelled");
        assert!(site.dlrun(&["cancel", run]).status.success(), "once more");
    }
    assert_eq!(
        site.until(&killed, "failed")["exit"],
        serde_json::json!({ "signal": 9 })
    );
    let status = site.until(&limit, "timeout");
    assert_eq!(status["reason"], "exceeded resource walltime", "{status}");
}

#[test]
#[ignore = "needs OpenPBS: DLRUN_TEST_OPENPBS_BIN, DLRUN_TEST_USER"]
fn elements_are_told_one_by_one() {
    let site = Site::new();
    let (run, id) = site.submit(
        "echo $DLRUN_ARRAY_INDEX; exit 0",
        "[resources]\narray = \"1,3,5%1\"\nwalltime = \"5m\"\n",
    );
    wait_for("the array to end", || {
        let entries = site.entries(&id);
        let over: u64 = entries
            .iter()
            .filter(|entry| entry.state.is_final())
            .filter_map(|entry| Some(entry.elements.as_ref()?.count()))
            .sum();
        over == 3
    });
    let entries = site.entries(&id);
    assert!(
        entries
            .iter()
            .all(|entry| entry.state == JobState::Completed),
        "{entries:?}"
    );
    let number = id.split('[').next().expect("a number");
    for element in [1, 3, 5] {
        assert!(
            site.path(&format!("job-{number}_{element}.out")).exists(),
            "{element}"
        );
    }
    site.until(&run, "completed");
    let (_, one) = site.submit(
        "sleep 100",
        "[resources]\narray = \"7\"\n[scheduler]\narguments = [\"-h\"]\n",
    );
    let elements: Vec<String> = site
        .entries(&one)
        .iter()
        .filter_map(|entry| Some(entry.elements.as_ref()?.to_string()))
        .collect();
    assert_eq!(elements, ["7"]);
    site.pbs("qdel", &[&one]);
}

#[test]
#[ignore = "needs OpenPBS: DLRUN_TEST_OPENPBS_BIN, DLRUN_TEST_USER"]
fn conditions_that_cannot_come_true_are_known() {
    let site = Site::new();
    let script = site.plain("exit 3");
    let script = script.to_string_lossy();
    let parent = site.pbs("qsub", &["-h", &script]);
    let ok = site.pbs(
        "qsub",
        &["-W", &format!("depend=afterok:{parent}"), &script],
    );
    let (waits, told) = (
        site.entries(&ok).remove(0),
        format!("waits for afterok:{parent}"),
    );
    assert_eq!(
        (waits.state, waits.stuck, waits.reason),
        (JobState::Pending, false, Some(told))
    );
    site.pbs("qdel", &[&parent]);
    wait_for("the condition to be hopeless", || {
        site.entries(&ok)[0].stuck
    });
    site.pbs("qdel", &[&ok]);
    let parent = site.pbs("qsub", &["-h", &script]);
    let ok = site.pbs(
        "qsub",
        &["-W", &format!("depend=afterok:{parent}"), &script],
    );
    site.pbs("qrls", &[&parent]);
    wait_for("the one that waits to be deleted", || {
        site.entries(&ok)[0].state == JobState::Cancelled
    });
    assert!(
        site.entries(&ok)[0]
            .reason
            .as_deref()
            .is_some_and(|why| why.contains("cannot come true"))
    );
}

#[test]
#[ignore = "needs OpenPBS: DLRUN_TEST_OPENPBS_BIN, DLRUN_TEST_USER"]
fn two_nodes_run_one_each() {
    let site = Site::new();
    let more =
        "launcher = \"each\"\n[resources]\nnodes = 2\ntasks_per_node = 2\nwalltime = \"5m\"\n";
    let (run, _) = site.submit("sleep 1; [ \"$DLRUN_NODE\" != none ]", more);
    site.until(&run, "completed");
    let shown = site.json(&["show", "--json", &run]);
    let nodes = shown["nodes"].as_array().expect("nodes");
    assert_eq!(nodes.len(), 2, "{shown}");
    assert_ne!(nodes[0]["node"], nodes[1]["node"]);
}

#[test]
#[ignore = "needs OpenPBS: DLRUN_TEST_OPENPBS_BIN, DLRUN_TEST_USER"]
fn each_option_is_taken_by_the_real_qsub() {
    let site = Site::new();
    for more in [
        "",
        "[resources]\ncpus_per_task = 2\ntasks_per_node = 2\ngpus_per_node = 1\nmemory = \"1GiB\"\nwalltime = \"36h\"\n",
        "[resources]\nmemory_per_cpu = \"100MiB\"\nexclusive = true\naccount = \"p1\"\n",
        "[resources]\nconstraint = \"arch=linux\"\n",
        "launcher = \"each\"\n[resources]\nnodes = 2\nexclusive = true\n",
        "[resources]\narray = \"0-9:3%2\"\n",
        "[resources]\nbegin = \"2030-01-31T08:00:30\"\nmail = { to = \"a@b.org\", on = [\"all\"] }\n",
        "inherit = \"all\"\n",
        "inherit = [\"HOME\"]\n",
        "[scheduler]\ndirectives = [\"-r n\"]\n",
    ] {
        let file = site.job("true", more);
        let script = site.dlrun(&["render", &file.to_string_lossy()]);
        assert!(script.status.success(), "{}", text(&script));
        fs::write(site.path("rendered.sh"), &script.stdout).expect("root may");
        let id = site.pbs("qsub", &["-h", &site.path("rendered.sh").to_string_lossy()]);
        let said = site.pbs("qstat", &["-f", &id]);
        assert!(
            said.contains("Job_Name = job"),
            "the lines are read: {said}"
        );
        site.pbs("qdel", &[&id]);
    }
}

#[test]
#[ignore = "needs OpenPBS: DLRUN_TEST_OPENPBS_BIN, DLRUN_TEST_USER"]
fn refusals_and_a_server_that_is_away_are_told_apart() {
    let site = Site::new();
    for (more, words) in [
        ("[resources]\nqueue = \"nosuch\"\n", "Unknown queue"),
        (
            "[resources]\nwalltime = \"400d\"\n",
            "Job violates queue and/or server resource limits",
        ),
        (
            "[resources]\nlicenses = { nosuch = 1 }\n",
            "Unknown resource Resource_List.nosuch",
        ),
    ] {
        let file = site.job("true", more);
        let output = site.dlrun(&["submit", "--no-check", &file.to_string_lossy()]);
        assert_eq!(output.status.code(), Some(76), "{}", text(&output));
        assert!(text(&output).contains(words), "{}", text(&output));
    }
    let file = site.job("true", "");
    let output = site
        .command(&site.path("dlrun"))
        .env("PBS_SERVER", "localhost:1")
        .arg("submit")
        .arg(&file)
        .output();
    let output = output.expect("dlrun runs");
    assert_eq!(output.status.code(), Some(69), "{}", text(&output));
}

#[test]
#[ignore = "needs OpenPBS: DLRUN_TEST_OPENPBS_BIN, DLRUN_TEST_USER"]
fn a_job_that_is_run_again_is_another_attempt() {
    let site = Site::new();
    let (run, id) = site.submit(
        "if [ -e again ]; then exit 0; fi; touch again; sleep 100",
        "[resources]\nwalltime = \"5m\"\n",
    );
    wait_for("the first attempt", || site.path("again").exists());
    let rerun = Command::new(site.bin.join("qrerun"))
        .arg(&id)
        .output()
        .expect("it runs");
    assert!(rerun.status.success(), "{}", text(&rerun));
    site.until(&run, "completed");
    let dir = site.path("state/runs").join(&run);
    assert!(dir.join("0.0/start.json").exists() && dir.join("0.1/end.json").exists());
}

#[test]
#[ignore = "needs OpenPBS: DLRUN_TEST_OPENPBS_BIN, DLRUN_TEST_USER"]
fn the_site_is_described() {
    let site = Site::new().openpbs().site().expect("an answer");
    assert!(
        site.version.is_some()
            && site
                .queues
                .iter()
                .any(|queue| queue.is_default && queue.is_up),
        "{site:?}"
    );
    let nodes: u32 = site.nodes.iter().map(|kind| kind.up).sum();
    assert!(
        nodes >= 2 && site.nodes[0].cpus.is_some_and(|cpus| cpus >= 2),
        "{site:?}"
    );
}

#[test]
#[ignore = "needs OpenPBS: DLRUN_TEST_OPENPBS_BIN, DLRUN_TEST_USER"]
fn some_elements_are_cancelled_and_a_run_waits_for_another() {
    let site = Site::new();
    let hold = "[scheduler]\narguments = [\"-h\"]\n";
    let (array, id) = site.submit("true", &format!("[resources]\narray = \"1-5\"\n{hold}"));
    let output = site.dlrun(&["cancel", "--element", "2,4-5", &array]);
    assert!(output.status.success(), "{}", text(&output));
    wait_for("three elements to be cancelled", || {
        let entries = site.entries(&id);
        let cancelled = entries
            .iter()
            .filter(|entry| entry.state == JobState::Cancelled);
        cancelled
            .filter_map(|entry| Some(entry.elements.as_ref()?.count()))
            .sum::<u64>()
            == 3
    });
    let (after, after_id) = site.submit(
        "true",
        &format!("[resources]\ndepends = [\"afterany:{array}\"]\n"),
    );
    let told = format!("waits for afterany:{id}");
    wait_for("the second to wait for the first", || {
        site.status(&after)["reason"] == told.as_str()
    });
    site.pbs("qrls", &[&id]);
    site.until(&after, "completed");
    assert!(site.entries(&after_id)[0].started_at_ms.is_some());
}

#[test]
#[ignore = "needs OpenPBS: DLRUN_TEST_OPENPBS_BIN, DLRUN_TEST_USER"]
fn converted_scripts_find_what_qsub_gives_them() {
    let scripts = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/fixtures/same/pbs");
    compare(&[
        "--scheduler".as_ref(),
        "openpbs".as_ref(),
        scripts.as_os_str(),
    ]);
}

#[test]
#[ignore = "needs OpenPBS: DLRUN_TEST_OPENPBS_BIN, DLRUN_TEST_USER"]
fn an_array_runs_as_many_elements_as_are_asked_for() {
    Site::new().an_array_runs_as_many_elements_as_are_asked_for();
}

#[test]
#[ignore = "needs OpenPBS: DLRUN_TEST_OPENPBS_BIN, DLRUN_TEST_USER"]
fn ranks_of_two_nodes_have_one_table_and_their_own_files() {
    Site::new().ranks_have_one_table();
}

#[test]
#[ignore = "needs OpenPBS: DLRUN_TEST_OPENPBS_BIN, DLRUN_TEST_USER"]
fn killed_rank_of_another_node_is_the_cause() {
    Site::new().killed_rank_is_the_cause();
}

#[test]
#[ignore = "needs OpenPBS: DLRUN_TEST_OPENPBS_BIN, DLRUN_TEST_USER"]
fn other_node_ends_soon_when_the_first_is_lost() {
    Site::new().other_node_ends_with_the_first();
}

#[test]
#[ignore = "needs OpenPBS: DLRUN_TEST_OPENPBS_BIN, DLRUN_TEST_USER"]
fn elastic_run_outlives_its_time_limit() {
    Site::new().elastic_run_outlives_its_time_limit();
}

#[test]
#[ignore = "needs OpenPBS: DLRUN_TEST_OPENPBS_BIN, DLRUN_TEST_USER"]
fn cancelled_training_ends_on_all_nodes() {
    Site::new().cancel_ends_all_ranks();
}

#[test]
#[ignore = "needs OpenPBS: DLRUN_TEST_OPENPBS_BIN, DLRUN_TEST_USER"]
fn scheduler_knows_no_secret_of_a_training() {
    Site::new().scheduler_knows_no_secret();
}

#[test]
#[ignore = "needs OpenPBS: DLRUN_TEST_OPENPBS_BIN, DLRUN_TEST_USER"]
fn two_jobs_on_the_same_nodes_do_not_meet_each_other() {
    Site::new().two_jobs_stay_apart();
}

#[test]
#[ignore = "needs OpenPBS and PyTorch: docs/testing.md"]
fn pytorch_trains_with_equal_weights_on_all_ranks() {
    Site::new().pytorch_trains("ddp");
}

#[test]
#[ignore = "needs OpenPBS and PyTorch: docs/testing.md"]
fn ranks_of_torchrun_follow_the_nodes() {
    Site::new().pytorch_trains("torchrun");
}
