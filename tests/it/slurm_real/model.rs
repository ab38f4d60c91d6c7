//! The loop closes on a real Slurm: recorded runs decide the compiler, the time limit and the memory of the next.

use serde_json::{Value, json};

use super::cluster::{Submitted, User, sh};
use crate::support::{tell, unwrapped};

/// As a training that obeys its compiler: with XLA an epoch takes 0.2 s, without 0.8 s.
const TRAINING: &str = r#"case $DLRUN_COMPILER in xla) s=0.2 ;; none) s=0.8 ;; *) exit 9 ;; esac; for e in 1 2 3 4; do sleep $s; echo "Epoch $e/4 - $s s - loss: 0.$e"; done"#;

const RESOURCES: &str = "cpus_per_task = 1\nwalltime = \"auto\"\nmemory = \"auto\"";

fn job(user: &User, name: &str, compiler: &str, resources: &str) -> std::path::PathBuf {
    let rest = format!(
        "{resources}\n[framework]\nname = \"tensorflow\"\ncompiler = \"{compiler}\"\n[workload]\nmodel = \"gated-mlp\"\ndataset = \"synthetic\"\nsamples = 2048\nbatch_size = 64\nepochs = 4"
    );
    user.job(
        name,
        &format!("{}\nenv = {{ OMP_NUM_THREADS = \"1\" }}", sh(TRAINING)),
        &rest,
    )
}

fn ran(user: &User, file: &std::path::Path) -> Value {
    let Submitted { run, .. } = user.submit(file);
    assert_eq!(user.wait(&run), 0);
    user.show(&run)
}

#[test]
#[ignore = "needs slurmctld: run tests/run"]
fn a_second_run_of_the_same_job_file_chooses_better_after_a_refit() {
    let user = User::new();
    let open = job(&user, "open", "auto", RESOURCES);
    let trial = job(&user, "trial", "xla", "cpus_per_task = 1");
    let plan = |file: &std::path::Path| user.dlrun(&["plan".as_ref(), file.as_os_str()]).ok();
    tell(&format!("--- before: no model\n{}", plan(&open)));
    let before = ran(&user, &open);
    assert_eq!(before["run"]["framework"]["compiler"], "none");
    for _ in 0..3 {
        let _ = ran(&user, &trial);
    }
    let _ = user.dlrun(&["model", "fit"]).ok();

    let after = plan(&open);
    tell(&format!("--- after the refit\n{after}"));
    let lines = unwrapped(&after);
    assert!(
        lines.contains("from 3 runs like this; next best no compiler, "),
        "{after}"
    );
    // Held, so that Slurm can be asked what it was asked for.
    let held = job(
        &user,
        "held",
        "auto",
        &format!("{RESOURCES}\n[scheduler]\narguments = [\"--hold\"]"),
    );
    let Submitted { run, job, .. } = user.submit(&held);
    let planned = user
        .dlrun(&["plan".as_ref(), "--json".as_ref(), held.as_os_str()])
        .result();
    let seconds = planned["plan"]["resources"]["walltime"]
        .as_u64()
        .expect("it is set");
    assert_eq!(
        user.scontrol(&job, "TimeLimit"),
        format!("00:{:02}:00", seconds / 60),
        "{planned:#}"
    );
    let mebibytes = planned["plan"]["resources"]["memory"]
        .as_u64()
        .expect("it is set")
        >> 20;
    let asked = user.scontrol(&job, "MinMemoryNode");
    assert!(
        [format!("{mebibytes}M"), format!("{}G", mebibytes / 1024)].contains(&asked),
        "{asked} {mebibytes}"
    );
    user.run("scontrol", &["release", &job]).ok();
    assert_eq!(user.wait(&run), 0);
    let shown = user.show(&run);
    assert_eq!(shown["run"]["framework"]["compiler"], "xla");
    assert_eq!(
        shown["run"]["forecast"]["basis"],
        json!("alike"),
        "{shown:#}"
    );
    let steady = |shown: &Value| {
        shown["summary"]["epochs"]["steady_seconds"]
            .as_f64()
            .expect("it told epochs")
    };
    assert!(steady(&shown) < steady(&before) / 2.0);
}

/// A program that takes as long as its epochs say.
const PROGRAM: &str =
    r#"e=1; while [ $e -le $2 ]; do sleep 0.3; echo "epoch $e loss 0.$e"; e=$((e + 1)); done"#;

#[test]
#[ignore = "needs slurmctld: run tests/run"]
fn limits_follow_two_runs_that_are_alike_and_else_the_partition() {
    let user = User::new();
    let _ = user.write("train.sh", PROGRAM);
    let limits = "queue = \"debug\"\nwalltime = \"auto\"\nmemory = \"auto\"";
    let job = |name: &str, epochs: u32| {
        let run = format!("command = [\"bash\", \"train.sh\", \"--epochs\", \"{epochs}\"]");
        user.job(name, &run, limits)
    };
    let asked = |file: &std::path::Path| {
        let Submitted { run, job, .. } = user.submit(file);
        let asked = (
            user.scontrol(&job, "TimeLimit"),
            user.scontrol(&job, "MinMemoryNode"),
        );
        assert_eq!(user.wait(&run), 0);
        asked
    };
    let three = job("three", 3);
    // All that the partition allows, and a sixteenth of 64000 MiB.
    let open = ("00:30:00".to_owned(), "4000M".to_owned());
    assert_eq!((asked(&three), asked(&three)), (open.clone(), open.clone()));
    tell(&user.dlrun(&["plan".as_ref(), three.as_os_str()]).ok());
    let (time, memory) = asked(&three);
    assert_eq!(time, "00:05:00");
    assert_ne!(memory, open.1);
    // No model was fitted, and none is needed.
    let more = job("more", 30);
    let plan = || unwrapped(&user.dlrun(&["plan".as_ref(), more.as_os_str()]).ok());
    let before = plan();
    assert!(
        before.contains("queue `debug` allows 30m") && before.contains("epochs is 30 where 3 ran"),
        "{before}"
    );
    assert_eq!(asked(&more), open);
    // Now 30 epochs ran too.
    let after = plan();
    assert!(
        after.contains("numbers within those that ran: 4 runs"),
        "{after}"
    );
    let _ = user.write("train.sh", &format!("# edited\n{PROGRAM}"));
    assert_eq!(asked(&three), open);
}
