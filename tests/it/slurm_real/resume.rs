//! Runs of several starts on a real Slurm.

use serde_json::Value;

use super::cluster::{Submitted, User, sh, until};

/// Counts to `steps` in seconds, saves every fifth and at SIGUSR1, and continues from what it saved.
fn training(steps: u32, dir: &str) -> String {
    sh(&format!(
        r#"n=0; [ -z "$DLRUN_RESUME_FROM" ] || n=$(cat "$DLRUN_RESUME_FROM"); echo "begins at $n"; mkdir -p {dir}
save() {{ echo $n > {dir}/new.tmp; mv {dir}/new.tmp {dir}/$n; }}
trap save USR1
while [ $n -lt {steps} ]; do sleep 1; n=$((n + 1)); echo "Epoch $n/{steps} - 1s - loss: 0.1"; [ $((n % 5)) != 0 ] || save; done"#
    ))
}

fn resume(dir: &str) -> String {
    format!("[resume]\ncheckpoints = [\"{dir}/*\"]\nlead = \"30s\"")
}

/// Each start continues behind what it was given, and the last comes to the end. A preemption without warning, also by jobs of
/// other tests, costs the steps since the last save, at most five, and all of them before the first.
fn expect_nothing_lost(text: &str, steps: u32) {
    let mut next = 1;
    for line in text.lines() {
        if let Some(from) = line.strip_prefix("begins at ") {
            let from: u32 = from.parse().expect("a number");
            assert!(from < next && next - from <= 6, "{text}");
            next = from + 1;
        } else if let Some(step) = line.strip_prefix("Epoch ") {
            assert!(step.starts_with(&format!("{next}/{steps} ")), "{text}");
            next += 1;
        }
    }
    assert_eq!(next, steps + 1, "{text}");
}

fn starts(shown: &Value) -> usize {
    shown["attempts"].as_array().expect("a list").len()
}

#[test]
#[ignore = "needs slurmctld: run tests/run"]
fn a_run_outlives_time_limits_by_requeue_and_by_another_job() {
    let user = User::new();
    // Other tests wait for whole nodes.
    let limit = "walltime = \"1m\"\nnodelist = \"n1\"\n";
    let requeued = format!("{limit}{}", resume("requeued"));
    let requeued = user.submit(&user.job("requeued", &training(70, "requeued"), &requeued));
    let forbidden = "[scheduler]\narguments = [\"--no-requeue\"]";
    let handed_on = format!("{limit}{}\n{forbidden}", resume("handed"));
    let handed_on = user.submit(&user.job("handed", &training(40, "handed"), &handed_on));
    // Each element by itself: the id of one of them is also the array's.
    let elements = format!("{limit}array = \"1-2\"\n{}", resume("of-{index}"));
    let elements = user.submit(&user.job(
        "elements",
        &training(40, "of-$DLRUN_ARRAY_INDEX"),
        &elements,
    ));
    let idle = format!("{limit}{}", resume("nothing"));
    let idle = user.submit(&user.job("idle", &sh("trap : USR1; while :; do sleep 1; done"), &idle));
    for (submitted, steps, least) in [(&requeued, 70, 3), (&handed_on, 40, 2)] {
        assert_eq!(user.wait(&submitted.run), 0, "{}", submitted.text());
        expect_nothing_lost(&submitted.text(), steps);
        let shown = user.show(&submitted.run);
        assert!(starts(&shown) >= least, "{shown:#}");
        let same_job = shown["run"]["job_id"] == submitted.job.as_str();
        assert_eq!(same_job, submitted.run == requeued.run, "{shown:#}");
    }
    assert_eq!(user.wait(&elements.run), 0);
    for index in ["1", "2"] {
        let shown = user
            .dlrun(&["--json", "show", &elements.run, "--element", index])
            .result();
        assert_eq!(starts(&shown), 2, "{shown:#}");
        let output = elements.output.to_string_lossy().replace("%a", index);
        expect_nothing_lost(&std::fs::read_to_string(output).expect("its output"), 40);
    }
    assert_eq!(user.wait(&idle.run), 11, "{}", idle.text());
    assert_eq!(starts(&user.show(&idle.run)), 2);
}

#[test]
#[ignore = "needs slurmctld: run tests/run"]
fn a_preempted_run_continues_and_a_cancelled_one_does_not() {
    let user = User::new();
    let weak = format!(
        "nodelist = \"n3\"\nexclusive = true\nqueue = \"scavenge\"\nwalltime = \"10m\"\n{}\nwithout_progress = 50",
        resume("weak")
    );
    let weak = user.submit(&user.job("weak", &training(30, "weak"), &weak));
    let is_saved = |submitted: &Submitted| submitted.text().contains("Epoch 6/").then_some(());
    // It waits for every job of other tests on that node.
    until("a checkpoint", 300, || is_saved(&weak));
    let strong = "nodelist = \"n3\"\nexclusive = true\nqueue = \"batch\"";
    let strong = user.submit(&user.job("strong", &sh("sleep 2"), strong));
    assert_eq!(user.wait(&strong.run), 0);
    let cancelled = format!("walltime = \"10m\"\n{}", resume("cancelled"));
    let cancelled = user.submit(&user.job("cancelled", &training(300, "cancelled"), &cancelled));
    until("a checkpoint", 90, || is_saved(&cancelled));
    let _ = user.run("scancel", &[&cancelled.job]).ok();
    assert_eq!(user.wait(&cancelled.run), 15, "{}", cancelled.text());
    assert_eq!(starts(&user.show(&cancelled.run)), 1);
    assert_eq!(user.wait(&weak.run), 0, "{}", weak.text());
    expect_nothing_lost(&weak.text(), 30);
    // Jobs of other tests may make it wait too.
    assert!(starts(&user.show(&weak.run)) >= 2);
}

#[test]
#[ignore = "needs slurmctld: run tests/run"]
fn an_elastic_run_continues_on_as_many_nodes_as_are_asked_for() {
    let user = User::new();
    let training = r#"echo "world $WORLD_SIZE of $DLRUN_MIN_NODES to $DLRUN_MAX_NODES, $DLRUN_ACCUM_STEPS steps a batch"; mkdir -p grown
n=0; [ -z "$DLRUN_RESUME_FROM" ] || n=$(cat "$DLRUN_RESUME_FROM")
trap 'if [ "$RANK" = 0 ]; then echo $n > grown/new.tmp; mv grown/new.tmp grown/$n; fi' USR1
while [ $n -lt 60 ]; do sleep 1; n=$((n + 1)); [ "$RANK" != 0 ] || echo "Epoch $n/60 - 1s - loss: 0.1"; done"#;
    let rest = format!(
        "nodes = {{ min = 1, max = 2 }}\nconstraint = \"rack2\"\ntasks_per_node = 1\ncpus_per_task = 1\nwalltime = \"10m\"\n[workload]\nbatch_size = 24\n{}\n[elastic]\nbatch_per_rank = 4",
        resume("grown")
    );
    let run = format!("{}\nlauncher = \"ddp\"", sh(training));
    let submitted = user.submit(&user.job("grown", &run, &rest));
    let begins_on = |nodes: u32, steps: u32| {
        let line = format!("world {nodes} of 1 to 2, {steps} steps a batch");
        until(&line, 90, || submitted.text().contains(&line).then_some(()));
        until("some work", 60, || {
            submitted
                .text()
                .rsplit(&line)
                .next()
                .and_then(|text| text.contains("Epoch ").then_some(()))
        });
    };
    let scale = |nodes: &str| user.dlrun(&["scale", &submitted.run, nodes]);
    until("the first start", 90, || {
        submitted.text().contains("Epoch ").then_some(())
    });
    let first = if submitted.text().contains("world 2 of") {
        ("1", 1, 6)
    } else {
        ("2", 2, 3)
    };
    let _ = scale(first.0).ok();
    begins_on(first.1, first.2);
    assert_eq!(scale("3").code, 64, "beyond the range");
    assert_eq!(user.wait(&submitted.run), 0, "{}", submitted.text());
    let shown = user.show(&submitted.run);
    assert_eq!(starts(&shown), 2);
    // With fewer nodes the job stays, and gives the others back.
    let is_same_job = shown["run"]["job_id"] == submitted.job.as_str();
    assert_eq!(is_same_job, first.1 == 1, "{shown:#}");
    assert_eq!(scale("2").code, 66, "it is over");
}

#[test]
#[ignore = "needs slurmctld: run tests/run"]
fn a_run_with_a_spare_node_continues_in_the_same_job_where_dlrun_was_lost() {
    let user = User::new();
    // Rank 1 kills the dlrun that started it, as a node that is lost does.
    let script = r#"mkdir -p saved; n=0; [ -z "$DLRUN_RESUME_FROM" ] || n=$(cat "$DLRUN_RESUME_FROM"); echo "$RANK of $WORLD_SIZE begins at $n"
if [ "$RANK" = 0 ]; then echo 7 > saved/new.tmp; mv saved/new.tmp saved/7; fi
[ "$DLRUN_ATTEMPT" != 0 ] || { sleep 3; [ "$RANK" != 1 ] || kill -9 $PPID; sleep 600; }"#;
    let rest = "nodes = 2\nspares = 1\ntasks_per_node = 1\ncpus_per_task = 1\nwalltime = \"10m\"\n[resume]\ncheckpoints = [\"saved/*\"]";
    let run = format!("{}\nlauncher = \"ddp\"", sh(script));
    let submitted = user.submit(&user.job("spare", &run, rest));
    assert_eq!(user.wait(&submitted.run), 0, "{}", submitted.text());
    let text = submitted.text();
    assert!(
        text.contains("0 of 2 begins at 0") && text.contains("0 of 2 begins at 7"),
        "{text}"
    );
    let shown = user.show(&submitted.run);
    let end = &shown["attempts"][0]["end"];
    assert_eq!(
        (&end["verdict"], &end["next"]),
        (&"node".into(), &"restart".into()),
        "{shown:#}"
    );
    assert_eq!(starts(&shown), 2);
    assert_eq!(shown["run"]["job_id"], submitted.job.as_str());
}

/// Lets one of three nodes of a run die: it continues on the others, though that node is back before.
pub(crate) fn let_a_run_lose_a_node() {
    let user = User::new();
    let script = r#"mkdir -p kept; n=0; [ -z "$DLRUN_RESUME_FROM" ] || n=$(cat "$DLRUN_RESUME_FROM"); echo begins on $SLURM_JOB_NODELIST at $n
while [ $n -lt 20 ]; do sleep 1; n=$((n + 1)); [ "$RANK" != 0 ] || { echo $n > kept/new.tmp; mv kept/new.tmp kept/$n; }; done; echo end"#;
    let text = format!(
        "[run]\n{}\nlauncher = \"ddp\"\n[resources]\nnodes = {{ min = 2, max = 3 }}\nexclude = \"n1\"\ntasks_per_node = 1\n\
         cpus_per_task = 1\nwalltime = \"10m\"\n[resume]\ncheckpoints = [\"kept/*\"]\n[elastic]\n",
        sh(script)
    );
    let submitted = user.submit(&user.write("loses.toml", &text));
    let begins = || {
        submitted
            .text()
            .contains("begins on n[2-4] at 0")
            .then_some(())
    };
    until("a start on three nodes", 60, begins);
    let node = super::Mortal;
    super::Mortal::cluster("kill");
    let continues = || {
        submitted
            .text()
            .contains("the next start keeps off n4")
            .then_some(())
    };
    until("the end of the start", 120, continues);
    drop(node);
    assert_eq!(user.wait(&submitted.run), 0, "{}", submitted.text());
    let shown = user.show(&submitted.run);
    assert_eq!(shown["attempts"][0]["end"]["lost_nodes"][0], "n4");
    assert_eq!(shown["attempts"][1]["hosts"], "n[2-3]", "{shown:#}");
}

/// Requeues a run at random moments; it must end as if nobody had.
pub(crate) fn interrupt_at_random(times: usize, mut below: impl FnMut(usize) -> usize) {
    let user = User::new();
    let steps = 60 * u64::try_from(times).expect("small") + 100;
    let training = format!(
        r#"n=0 h=7; [ -z "$DLRUN_RESUME_FROM" ] || read -r n h < "$DLRUN_RESUME_FROM"; mkdir -p ckpt
while [ $n -lt {steps} ]; do sleep 0.05; n=$((n + 1)); h=$(((h * 31 + n) % 1000003))
[ $((n % 10)) != 0 ] || {{ echo $n $h > ckpt/new.tmp; mv ckpt/new.tmp ckpt/$n; }}; done; echo "end $n $h""#
    );
    let rest = "walltime = \"1h\"\n[resume]\ncheckpoints = [\"ckpt/*\"]\nattempts = 1000\nwithout_progress = 1000";
    let submitted = user.submit(&user.job("disturbed", &sh(&training), rest));
    for _ in 0..times {
        user.until_state(&submitted.run, "running");
        std::thread::sleep(std::time::Duration::from_millis(
            u64::try_from(below(8_000)).expect("small"),
        ));
        // It may be over by now.
        let _ = user.run("scontrol", &["requeue", &submitted.job]);
        if user.state(&submitted.run) == "completed" {
            break;
        }
    }
    assert_eq!(user.wait(&submitted.run), 0, "{}", submitted.text());
    let end = (1..=steps).fold(7_u64, |hash, step| (hash * 31 + step) % 1_000_003);
    assert!(
        submitted.text().ends_with(&format!("end {steps} {end}\n")),
        "{}",
        submitted.text()
    );
}
