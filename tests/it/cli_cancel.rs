//! `dlrun cancel`. What happens to local jobs stands in `local`.

use crate::support::TestEnv;

#[test]
fn slurm_is_told_the_job() {
    let env = TestEnv::new();
    let _ = env.fake_slurm();
    let _ = env.dlrun(["submit"]).arg(env.job("true", "")).run().code(0);
    let result = env.dlrun(["cancel", "@1", "--json"]).run().code(0).result();
    assert_eq!(
        (
            &result["runs"][0]["asked"],
            &result["runs"][0]["state_before"]
        ),
        (&true.into(), &"unknown".into())
    );
    assert_eq!(env.fake("scancel").call().argv, ["4711"]);
    let _ = env
        .dlrun(["cancel", "4711"])
        .run()
        .code(0)
        .says("is over already: cancelled\n");
}

#[test]
fn scheduler_that_refuses_is_an_error() {
    let env = TestEnv::new();
    let _ = env.fake_slurm();
    let _ = env.dlrun(["submit"]).arg(env.job("true", "")).run().code(0);
    let _ = env
        .fake("scancel")
        .stderr("scancel: error: Kill job error on job id 4711: Access/permission denied\n")
        .code(1);
    let error = env.dlrun(["cancel", "@1", "--json"]).run().code(69).error();
    let message = error["message"].as_str().expect("text");
    assert!(
        message.starts_with("slurm did not cancel job 4711: ")
            && message.ends_with("permission denied"),
        "{error}"
    );
}

#[test]
fn run_that_is_over_stays_as_it_is() {
    let env = TestEnv::new();
    let id = env.submit(&env.job("exit 3", ""));
    let _ = env.dlrun(["wait", &id]).run().code(10);
    let _ = env
        .dlrun(["cancel", &id])
        .run()
        .code(0)
        .says("is over already: failed\n");
    let result = env.dlrun(["cancel", &id, "--json"]).run().code(0).result();
    assert_eq!(result["runs"][0]["asked"], false);
    assert_eq!(env.state_of(&id), "failed");
}

#[test]
fn nothing_is_cancelled_when_one_of_several_is_not_there() {
    let env = TestEnv::new();
    let _ = env.fake_slurm();
    let _ = env.dlrun(["submit"]).arg(env.job("true", "")).run().code(0);
    let _ = env.dlrun(["cancel", "4711", "nothing"]).run().code(66);
    assert_eq!(env.fake("scancel").calls().len(), 0);
    let _ = env.dlrun(["cancel"]).run().code(64);
}

#[test]
fn name_of_several_runs_means_the_one_that_goes_on() {
    let env = TestEnv::new();
    let held = |name: &str| {
        env.submit(&env.job_called(name, "while [ ! -e go ]; do sleep 0.05; done", ""))
    };
    let over = env.submit(&env.job_called("same", "true", ""));
    let _ = env.dlrun(["wait", &over]).run().code(0);
    let first = held("same");
    let _ = env
        .dlrun(["submit", "--scheduler", "local"])
        .arg(env.job_called("other", "true", ""))
        .run()
        .code(0);
    let second = held("same");
    let error = env
        .dlrun(["cancel", "same", "--json"])
        .run()
        .code(64)
        .error();
    assert!(
        error["hints"][0].as_str().expect("a hint").contains(&first),
        "{error}"
    );
    let _ = env.dlrun(["cancel", &second]).run().code(0);
    let _ = env.dlrun(["wait", &second]).run().code(15);
    // The newest of the name is over; the one that goes on is meant.
    let _ = env
        .dlrun(["cancel", "same"])
        .run()
        .code(0)
        .says(&first[..6]);
    let _ = env.dlrun(["wait", &first]).run().code(15);
}

#[test]
fn all_that_go_on_are_cancelled_and_no_other() {
    let env = TestEnv::new();
    let _ = env.dlrun(["cancel", "--all"]).run().code(66);
    let over = env.submit(&env.job_called("over", "true", ""));
    let _ = env.dlrun(["wait", &over]).run().code(0);
    let _ = env
        .dlrun(["cancel", "--all"])
        .run()
        .code(0)
        .says("no run is pending or running\n");
    let first = env.submit(&env.job_called("first", "while [ ! -e go ]; do sleep 0.05; done", ""));
    env.wait_state(&first, "running");
    let second = env.submit(&env.job_called("second", "true", ""));
    let done = env
        .dlrun(["cancel", "--all"])
        .run()
        .code(0)
        .says(&first[..6])
        .says(&second[..6]);
    assert!(!done.text().contains(&over[..6]), "{}", done.text());
    let _ = env.dlrun(["wait", &first, &second]).run().code(15);
    let _ = env
        .dlrun(["cancel", "--all"])
        .run()
        .code(0)
        .says("no run is pending or running\n");
    let _ = env.dlrun(["cancel", "--all", &first]).run().code(64);
}

#[test]
fn one_that_cannot_be_cancelled_keeps_no_other_from_it() {
    let env = TestEnv::new();
    let now = std::time::UNIX_EPOCH.elapsed().expect("a clock").as_secs();
    for number in [100, 101, 102] {
        let _ = env.fake_slurm().stdout(&format!("{number}\n"));
        let _ = env.dlrun(["submit"]).arg(env.job("true", "")).run().code(0);
    }
    let running = |number: u32| format!("{number}|RUNNING|{now}|{now}|N/A|n1|None\n");
    let _ = env
        .fake("squeue")
        .stdout(&[100, 101, 102].map(running).concat());
    let denied =
        "echo 'scancel: error: Kill job error on job id 101: Access/permission denied' >&2; exit 1";
    let scancel = env
        .fake("scancel")
        .hook(&format!("if [ \"$1\" = 101 ]; then {denied}; fi"));
    let done = env
        .dlrun(["cancel", "--all"])
        .run()
        .code(69)
        .warns("permission denied");
    let _ = done.says("job 100)").says("job 102)");
    assert_eq!(scancel.calls().len(), 3);
    let result = env
        .dlrun(["cancel", "100", "101", "--json"])
        .run()
        .code(69)
        .result();
    assert_eq!(
        (&result["runs"][0]["asked"], &result["runs"][1]["asked"]),
        (&true.into(), &false.into())
    );
    assert_eq!(result["runs"][1]["error"]["kind"], "unreachable");
}
