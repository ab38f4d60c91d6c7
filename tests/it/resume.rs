//! Runs of several starts, on this machine. Real schedulers are in `slurm_real` and `pbs_real`.

use serde_json::{Value, json};

use crate::support::env::TestEnv;

/// Counts to twelve, saves at SIGUSR1 and continues from what it saved.
const TRAINING: &str = r#"n=0; [ -z "$DLRUN_RESUME_FROM" ] || read -r n < "$DLRUN_RESUME_FROM"
echo "start $DLRUN_ATTEMPT at $n"
mkdir -p ckpt
trap 'echo $n > ckpt/new.tmp; mv ckpt/new.tmp ckpt/$n' USR1
while [ $n -lt 12 ]; do sleep 0.5; n=$((n + 1)); echo "Epoch $n/12 - 0.5s - loss: 0.1"; done
echo "all $n""#;

const RESUME: &str =
    "[resources]\nwalltime = \"8s\"\n[resume]\ncheckpoints = [\"ckpt/*\"]\nlead = \"4s\"";

#[test]
fn a_run_outlives_its_time_limit_and_loses_nothing() {
    let env = TestEnv::new();
    let run = env.submit(&env.job(TRAINING, RESUME));
    let _ = env.dlrun(["wait", &run]).run().code(0);
    let log = env.dlrun(["logs", &run]).run().code(0).text();
    // Each start continues where the one before it saved, which may be some epochs before its end.
    let (mut next, mut saved) = (1, 0);
    for line in log.lines() {
        if let Some(from) = line.split_once(" continues from ") {
            saved = from
                .1
                .rsplit('/')
                .next()
                .and_then(|name| name.parse().ok())
                .expect("a number");
            assert!((1..next).contains(&saved), "{log}");
            next = saved + 1;
        } else if let Some(epoch) = line.strip_prefix("Epoch ") {
            assert!(epoch.starts_with(&format!("{next}/12")), "{log}");
            next += 1;
        }
    }
    assert!(saved > 0 && next == 13, "{log}");
    assert!(
        log.contains("start 1 at ") && log.contains("all 12"),
        "{log}"
    );
    let shown = env.show(&run);
    assert_eq!(shown["status"]["state"], "completed");
    let starts = shown["attempts"].as_array().expect("a list");
    assert!(starts.len() >= 2, "{starts:#?}");
    counts_as_one(&env, &run, starts);
}

/// What `list`, `show`, `report` and `export` say of a run of several starts.
fn counts_as_one(env: &TestEnv, run: &str, starts: &[Value]) {
    let (first, last) = (&starts[0], starts.last().expect("one"));
    assert_eq!(first["end"]["verdict"], "timeout");
    assert_eq!(first["end"]["next"], "restart");
    assert!(
        first["from"].is_null() && last["from"].is_string(),
        "{last}"
    );
    assert_eq!(last["end"]["verdict"], "finished");
    let ran = starts.iter().map(|start| {
        let at = |key: &str| start[key].as_u64().expect("a time");
        at("ended_at_ms") - at("started_at_ms")
    });
    let ran = ran.sum::<u64>() as f64 / 1e3;
    let listed = env.dlrun(["list", "--json"]).run().code(0).result();
    let all = json!({ "starts": starts.len(), "started_at_ms": first["started_at_ms"], "ran_seconds": ran, "epochs": 12 });
    assert_eq!(listed["runs"][0]["all_starts"], all);
    let ran = dlrun::foundation::units::display_seconds(ran);
    let _ = env.dlrun(["list"]).run().code(0).says(&ran);
    let from = last["found"]["path"].as_str().expect("a path");
    let from = from.rsplit('/').next().expect("a name");
    let number = starts.len();
    let _ = env
        .dlrun(["show", run])
        .run()
        .code(0)
        .says(&format!(
            "{number} starts, which ran {ran} together and trained 12 epochs"
        ))
        .says(&format!("(ran {ran})"))
        .says(" VERDICT   NEXT     FROM  SAVED IN")
        .says(&format!(" finished  nothing  {from}"));
    let exported = env
        .dlrun(["export", "--what", "attempts", "--format", "jsonl"])
        .run()
        .code(0)
        .text();
    assert_eq!(exported.lines().count(), number);
    assert!(exported.contains("\"verdict\":\"timeout\""), "{exported}");
    let page = env.root().join("page.html");
    let report = env.dlrun(["report", run, "--output"]).arg(&page).run();
    drop(report.code(0));
    let page = std::fs::read_to_string(page).expect("a page");
    assert!(page.contains("<h3>Starts</h3>") && page.contains(">finished<"));
}

#[test]
fn a_failure_and_a_run_without_progress_are_not_repeated() {
    let env = TestEnv::new();
    let failing = env.submit(&env.job("exit 3", RESUME));
    let _ = env.dlrun(["wait", &failing]).run().code(10);
    let idle = env.submit(&env.job("while :; do sleep 0.2; done", RESUME));
    let _ = env.dlrun(["wait", &idle]).run();
    let shown = env.show(&idle);
    assert_eq!(shown["status"]["state"], "timeout");
    let cause = shown["status"]["cause"]["text"].as_str().expect("a cause");
    assert!(
        cause.contains("2 starts in turn left no new checkpoint"),
        "{cause}"
    );
    assert_eq!(shown["attempts"].as_array().expect("a list").len(), 2);
}

#[test]
fn a_program_that_hangs_is_ended_where_the_job_file_says_so() {
    let mut env = TestEnv::new();
    env.set("DLRUN_MONITOR__RECORD_SECONDS", "1");
    let training = r#"mkdir -p ckpt; echo "Epoch 1/2 - 0.1s - loss: 0.1"; echo 1 > ckpt/1; sleep 0.3
[ "$DLRUN_ATTEMPT" = 1 ] || sleep 600
echo "Epoch 2/2 - 0.1s - loss: 0.1""#;
    let resume = "[resume]\ncheckpoints = [\"ckpt/*\"]\nhang_after = \"4s\"";
    let run = env.submit(&env.job(training, &format!("{resume}\nhang = \"requeue\"")));
    let _ = env.dlrun(["wait", &run]).run().code(0);
    let log = env.dlrun(["logs", &run]).run().code(0).text();
    assert!(
        log.contains("it seems to hang") && log.contains("Epoch 2/2"),
        "{log}"
    );
    assert_eq!(
        env.show(&run)["attempts"].as_array().expect("a list").len(),
        2
    );
}

#[test]
fn a_first_start_may_begin_with_a_checkpoint_of_another_run() {
    let env = TestEnv::new();
    let training = r#"echo "from ${DLRUN_RESUME_FROM##*/}""#;
    let resume = "[resume]\ncheckpoints = [\"ckpt/*\"]";
    env.write("ckpt/7", "seven");
    let fresh = env.submit(&env.job(training, resume));
    let _ = env.dlrun(["wait", &fresh]).run().code(0);
    let log = env.dlrun(["logs", &fresh]).run().code(0);
    let _ = log.says("from \n").says("/ckpt/7, are not used");
    let given = env.submit(&env.job(training, &format!("{resume}\nfrom = \"ckpt/7\"")));
    let _ = env.dlrun(["wait", &given]).run().code(0);
    let _ = env.dlrun(["logs", &given]).run().code(0).says("from 7\n");
    let missing = env.submit(&env.job(training, &format!("{resume}\nfrom = \"ckpt/8\"")));
    let _ = env
        .dlrun(["wait", &missing])
        .run()
        .code(10)
        .says("ckpt/8 does not exist");
}

#[test]
fn what_cannot_continue_is_refused_before_it_is_submitted() {
    let env = TestEnv::new();
    let refused = |rest: &str| {
        let file = env.job("true", rest);
        let done = env
            .dlrun(["submit".as_ref(), file.as_os_str()])
            .run()
            .code(65);
        done.stderr
    };
    for (rest, words) in [
        ("[resume]", "needs `checkpoints`"),
        ("[resume]\ncheckpoints = []", "needs `checkpoints`"),
        ("[resume]\ncheckpoints = [\"~/c/*\"]", "read by no shell"),
        (
            "[resume]\ncheckpoints = [\"c/*\"]\narguments = [\"-r\"]",
            "does not contain `{checkpoint}`",
        ),
        (
            "[resume]\ncheckpoints = [\"c/*\"]\nmarker = \"done\"",
            "where it is by `{checkpoint}`",
        ),
        (
            "[resume]\ncheckpoints = [\"c/*\"]\non = [\"often\"]",
            "none of timeout, preemption, node, failure",
        ),
        (
            "[resources]\nwalltime = \"2m\"\n[resume]\ncheckpoints = [\"c/*\"]\nlead = \"90s\"",
            "more than half of the time limit",
        ),
        ("[elastic]", "needs `[resume]`"),
        (
            "[resources]\nnodes = { min = 1, max = 2 }\n[resume]\ncheckpoints = [\"c/*\"]\n[elastic]",
            "no effect on this machine",
        ),
    ] {
        let said = refused(rest);
        assert!(said.contains(words), "{rest}: {said}");
    }
}

#[test]
fn spare_nodes_are_asked_for_and_not_used() {
    let env = TestEnv::new();
    let resume = "[resume]\ncheckpoints = [\"ckpt/*\"]";
    let text = |launcher: &str, nodes: u32| {
        format!(
            "[run]\ncommand = [\"true\"]\nlauncher = \"{launcher}\"\n[image]\nnone = true\n[resources]\nnodes = {nodes}\nspares = 1\n{resume}"
        )
    };
    let rendered = |text: &str| {
        let file = env.write("spare.toml", text);
        let file = file.as_os_str();
        env.dlrun([
            "render".as_ref(),
            "--scheduler".as_ref(),
            "slurm".as_ref(),
            file,
        ])
        .run()
    };
    let script = rendered(&text("ddp", 2)).code(0).text();
    for words in [
        "#SBATCH --nodes=3",
        "#SBATCH --no-kill",
        "--nodelist=$dlrun_use",
    ] {
        assert!(script.contains(words), "{words}: {script}");
    }
    for (text, words) in [
        (text("each", 2), "needs a launcher that starts ranks"),
        (text("ddp", 1), "needs two nodes"),
    ] {
        let said = rendered(&text).code(65).stderr;
        assert!(said.contains(words), "{said}");
    }
}

#[test]
fn an_unfit_node_is_named_and_ends_the_start_where_the_job_file_says_so() {
    let env = TestEnv::new();
    let file = |check: &str| {
        let run = "command = [\"/bin/bash\", \"-c\", \"echo trained\"]\nenv = { TMPDIR = \"/nonexistent\" }";
        let text = format!("[run]\n{run}\nnode_check = \"{check}\"\n[image]\nnone = true\n");
        env.write("checked.toml", &text)
    };
    for (check, code, kind) in [("warn", 0, "node_unfit"), ("fail", 10, "node_refused")] {
        let run = env.submit(&file(check));
        let _ = env.dlrun(["wait", &run]).run().code(code);
        let log = env.dlrun(["logs", &run]).run().code(0).text();
        assert!(
            log.contains("did not pass its check: `/nonexistent`: No such file"),
            "{log}"
        );
        assert_eq!(log.contains("trained"), check == "warn", "{log}");
        let text = env.dlrun(["show", &run]).run().code(0);
        let _ = text.says("NODE UNFIT");
        let shown = env.show(&run);
        assert_eq!(shown["nodes"][0]["events"][0]["kind"], kind, "{shown:#}");
    }
}
