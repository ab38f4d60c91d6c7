//! A tuning on a real cluster: the fastest setting is found, and the command is killed in the middle.

use std::fs;

use nix::sys::signal::{Signal, kill};
use nix::unistd::Pid;

use super::cluster::{User, until};

/// Its epochs take 0.1 s with 3 threads, else three times as long.
const PROGRAM: &str = r#"pause=0.3
[ "$OMP_NUM_THREADS" = 3 ] && pause=0.1
for e in $(seq 60); do sleep $pause; echo "Epoch $e/60 - loss: 1.0"; done"#;

const TUNE: &str = r#"
[run]
command = ["sh", "train.sh"]
[resources]
walltime = "5m"
exclude = "MORTAL"
[tune]
name = "threads"
max_jobs = 3
[tune.space]
run.env.OMP_NUM_THREADS = ["1", "2", "3", "4"]
"#;

#[test]
#[ignore = "needs slurmctld: run tests/run"]
fn the_fastest_setting_is_found_by_a_command_that_is_killed() {
    let user = User::new();
    let _ = user.write("train.sh", PROGRAM);
    let file = user.write("threads.toml", &TUNE.replace("MORTAL", super::MORTAL_NODE));
    let dir = user.state_dir().join("sweeps/threads");
    let journal = || fs::read_to_string(dir.join("journal.jsonl")).unwrap_or_default();
    let mut started = user
        .command(user.binary())
        .args(["tune", "--scheduler", "slurm"])
        .arg(&file)
        .spawn()
        .expect("it starts");
    // Five trials, and the first run of a pair.
    until("the pairs", 300, || {
        (journal().matches("\"begun\"").count() >= 6).then_some(())
    });
    let lock = fs::read_to_string(dir.join("lock")).expect("a lock");
    let owner = lock
        .split(' ')
        .next()
        .and_then(|pid| pid.parse().ok())
        .expect("a process");
    kill(Pid::from_raw(owner), Signal::SIGKILL).expect("it runs");
    let _ = started.wait();
    let done = user.dlrun(&["--json".as_ref(), "tune".as_ref(), file.as_os_str()]);
    let result = done.result();
    let tuned = &result["tuned"];
    assert_eq!(
        tuned["changes"]["run.env.OMP_NUM_THREADS"], "\"3\"",
        "{result}"
    );
    assert_eq!(
        (&tuned["pairs"], &tuned["is_faster"]),
        (&4.into(), &true.into()),
        "{result}"
    );
    // Five trials and eight runs of pairs, each once, whoever was killed. A run that the kill kept from being submitted ends as unknown, and
    // is begun again.
    let has_run = |line: &&str| line.contains("\"over\"") && !line.contains("\"unknown\"");
    assert_eq!(
        journal().lines().filter(has_run).count(),
        13,
        "{}",
        journal()
    );
    assert!(
        result["trials"]
            .as_array()
            .expect("a list")
            .iter()
            .all(|trial| !trial["outcome"]["stopped_at"].is_null()),
        "{result}"
    );
}
