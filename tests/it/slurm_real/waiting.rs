//! What a job waits for, and how it ends other than by itself, on a real cluster.

use serde_json::json;

use super::cluster::{Submitted, User, argv, sh, until};

fn status(user: &User, run: &str) -> serde_json::Value {
    user.show(run)["status"].clone()
}

/// Waits until the run waits for this reason.
fn until_reason(user: &User, submitted: &Submitted, reason: &str) {
    until(&format!("{reason} of job {}", submitted.job), 60, || {
        let status = status(user, &submitted.run);
        (status["state"] == "pending" && status["reason"] == reason).then_some(())
    });
}

#[test]
#[ignore = "needs slurmctld: run tests/run"]
fn reasons_are_told_and_those_that_never_pass_have_a_meaning() {
    let user = User::new();
    let waits = |name: &str, resources: &str, more: &str| {
        user.submit_unchecked(&user.job(name, &argv(&["true"]), &format!("{resources}\n{more}")))
    };
    let held = waits("held", "", "[scheduler]\narguments = [\"--hold\"]");
    let later = waits("later", "begin = \"2099-01-31T08:00\"", "");
    let long = waits("long", "queue = \"debug\"\nwalltime = \"10h\"", "");
    for (submitted, reason, meaning) in [
        (&held, "JobHeldUser", "held"),
        (&later, "BeginTime", "may not start yet"),
        (&long, "PartitionTimeLimit", "time limit"),
    ] {
        until_reason(&user, submitted, reason);
        let told = dlrun::scheduler::slurm::meaning(reason);
        assert!(
            told.is_some_and(|told| told.contains(meaning)),
            "{reason}: {told:?}"
        );
    }
    for submitted in [held, later, long] {
        assert_eq!(user.dlrun(&["cancel", &submitted.run]).code, 0);
        assert_eq!(user.wait(&submitted.run), 15);
    }
}

#[test]
#[ignore = "needs slurmctld: run tests/run"]
fn a_dependency_that_failed_is_never_satisfied() {
    let user = User::new();
    let first = user.submit(&user.job("first", &sh("sleep 2; exit 3"), ""));
    let depends = |kind: &str| {
        format!(
            "[scheduler]\narguments = [\"--dependency={kind}:{}\"]",
            first.job
        )
    };
    let never = user.submit(&user.job("never", &argv(&["true"]), &depends("afterok")));
    let after = user.submit(&user.job("after", &sh("echo after"), &depends("afternotok")));
    until_reason(&user, &never, "DependencyNeverSatisfied");
    assert_eq!(user.wait(&after.run), 0);
    assert_eq!(
        (user.wait(&first.run), after.text().as_str()),
        (10, "after\n")
    );
    assert_eq!(user.dlrun(&["cancel", &never.run]).code, 0);
}

/// A job of a better queue takes the nodes of a worse one's: Slurm requeues that.
#[test]
#[ignore = "needs slurmctld: run tests/run"]
fn a_preempted_job_waits_anew_as_the_same_run() {
    let user = User::new();
    let weak = "nodelist = \"n2\"\nexclusive = true\nqueue = \"scavenge\"";
    let weak = user.submit(&user.job("weak", &sh("echo start; sleep 900"), weak));
    // It waits for every job of other tests on that node.
    until("its output", 300, || {
        (weak.text() == "start\n").then_some(())
    });
    let strong = "nodelist = \"n2\"\nexclusive = true\nqueue = \"batch\"";
    let strong = user.submit(&user.job("strong", &sh("sleep 2"), strong));
    until("the weaker job to wait", 90, || {
        (user.state(&weak.run) == "pending").then_some(())
    });
    assert_eq!(user.wait(&strong.run), 0);
    until("its second start", 300, || {
        (user.show(&weak.run)["attempt"] == 1).then_some(())
    });
    user.until_state(&weak.run, "running");
    assert_eq!(user.dlrun(&["cancel", &weak.run]).code, 0);
    assert_eq!(user.wait(&weak.run), 15);
}

/// Only where the cluster limits memory by cgroups.
#[test]
#[ignore = "needs slurmctld: run tests/run"]
#[expect(
    clippy::print_stderr,
    reason = "whoever runs the test shall know what was left out"
)]
fn a_job_that_wants_too_much_memory_is_told_from_one_that_fails() {
    let user = User::new();
    let limits = user.run("scontrol", &["show", "config"]).ok();
    if !limits.contains("task/cgroup") {
        eprintln!("left out: this cluster does not limit memory");
        return;
    }
    let hungry = sh("exec perl -e 'my $x = \"x\" x 400_000_000; sleep 5'");
    let submitted = user.submit(&user.job("hungry", &hungry, "memory = \"64MiB\""));
    assert_eq!(user.wait(&submitted.run), 12, "{}", submitted.text());
    let shown = user.show(&submitted.run);
    assert_eq!(
        (&shown["status"]["state"], &shown["status"]["raw_state"]),
        (&json!("out_of_memory"), &json!("OUT_OF_MEMORY"))
    );
}

#[test]
#[ignore = "needs slurmctld: run tests/run"]
fn a_history_that_is_not_kept_is_said_so() {
    let user = User::new();
    let submitted = user.submit(&user.job("past", &argv(&["true"]), ""));
    assert_eq!(user.wait(&submitted.run), 0);
    let record = user.run_dir(&submitted.run).join("run.json");
    // A job that the controller has forgotten.
    let text = std::fs::read_to_string(&record).unwrap();
    std::fs::write(
        &record,
        text.replace(&format!("\"{}\"", submitted.job), "\"999999\""),
    )
    .unwrap();
    let shown = user.dlrun(&["show", "--history", &submitted.run]);
    assert!(shown.stderr.contains("keeps no history here"), "{shown:?}");
    assert_eq!(shown.code, 0, "{shown:?}");
}
