//! `resources.depends`: runs and jobs that another job waits for.

use std::time::UNIX_EPOCH;

use crate::support::TestEnv;

fn now() -> u64 {
    UNIX_EPOCH.elapsed().expect("a clock").as_secs()
}

/// A place where run `first` is job 4711.
fn with_first() -> TestEnv {
    let env = TestEnv::new();
    let _ = env.fake_slurm();
    let _ = env
        .dlrun(["submit"])
        .arg(env.job_called("first", "true", ""))
        .run()
        .code(0);
    env
}

fn job_after(env: &TestEnv, target: &str) -> std::path::PathBuf {
    env.job_called(
        "second",
        "true",
        &format!("[resources]\ndepends = [\"{target}\"]"),
    )
}

fn dependency(env: &TestEnv) -> Option<String> {
    let calls = env.fake("sbatch").calls();
    calls
        .last()
        .and_then(|call| call.option("--dependency").map(str::to_owned))
}

#[test]
fn run_that_goes_on_is_named_by_its_job() {
    let env = with_first();
    let _ = env
        .fake("squeue")
        .stdout(&format!("4711|RUNNING|{0}|{0}|N/A|n1|None\n", now()));
    for target in ["first", "@1", "4711"] {
        let _ = env
            .dlrun(["submit"])
            .arg(job_after(&env, &format!("afterok:{target}")))
            .run()
            .code(0);
        assert_eq!(
            dependency(&env).as_deref(),
            Some("afterok:4711"),
            "{target}"
        );
    }
}

#[test]
fn run_that_is_over_is_judged_here() {
    let env = with_first();
    let _ = env
        .fake("squeue")
        .stdout(&format!("4711|TIMEOUT|{0}|{0}|{0}|n1|TimeLimit\n", now()));
    let refused = env
        .dlrun(["submit"])
        .arg(job_after(&env, "afterok:first"))
        .run()
        .code(65);
    let _ = refused.warns("cannot come true: that run is timeout");
    let _ = env
        .dlrun(["submit"])
        .arg(job_after(&env, "afternotok:first"))
        .run()
        .code(0);
    assert_eq!(dependency(&env), None);
}

#[test]
fn what_nobody_knows_is_missing_before_anything_is_queued() {
    let env = with_first();
    for target in ["nothing", "9999"] {
        let error = env
            .dlrun(["submit", "--json"])
            .arg(job_after(&env, &format!("afterok:{target}")))
            .run();
        let error = error.code(66).error();
        assert!(
            error["problems"][0]["message"]
                .as_str()
                .expect("text")
                .contains(target),
            "{error}"
        );
    }
    // Slurm knows nothing of it and it left no mark: it would be taken for one that ended well.
    let lost = env
        .dlrun(["submit"])
        .arg(job_after(&env, "afterok:first"))
        .run()
        .code(66);
    let _ = lost.warns("what became of run `first` is not known");
    assert_eq!(env.fake("sbatch").calls().len(), 1);
}

#[test]
fn jobs_of_others_are_asked_for() {
    let env = with_first();
    let squeue = env
        .fake("squeue")
        .stdout(&format!("815|PENDING|{}|N/A|N/A||Resources\n", now()));
    let _ = env
        .dlrun(["submit"])
        .arg(job_after(&env, "afterany:815"))
        .run()
        .code(0);
    assert_eq!(dependency(&env).as_deref(), Some("afterany:815"));
    assert!(
        squeue
            .calls()
            .iter()
            .any(|call| call.option("--jobs") == Some("815"))
    );
    let asked = squeue.calls().len();
    let _ = env
        .dlrun(["submit", "--no-check"])
        .arg(job_after(&env, "afterok:816"))
        .run()
        .code(0);
    assert_eq!(
        (dependency(&env).as_deref(), squeue.calls().len()),
        (Some("afterok:816"), asked)
    );
}

#[test]
fn run_on_another_scheduler_cannot_be_waited_for() {
    let env = TestEnv::new();
    let _ = env.fake_slurm();
    let local = env.job_called("here", "while [ ! -e go ]; do sleep 0.05; done", "");
    let id = env.submit(&local);
    let refused = env
        .dlrun(["submit"])
        .arg(job_after(&env, "afterok:here"))
        .run()
        .code(65);
    let _ = refused.warns("is a run on local, and this job goes to slurm");
    let _ = env.dlrun(["cancel", &id]).run().code(0);
}
