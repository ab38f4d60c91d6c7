//! A sweep of many trials on a real cluster, whose command is killed again and again.

use std::fs;
use std::process::Child;
use std::thread::sleep;
use std::time::{Duration, Instant};

use nix::sys::signal::{Signal, kill};
use nix::unistd::Pid;
use serde_json::Value;

use super::{Chance, count};
use crate::slurm_real::cluster::{MORTAL_NODE, User, until};
use crate::support::tell;

/// The command gets this long in all, in seconds.
const LONGEST: u32 = 6 * 3600;

fn file(user: &User, trials: usize) -> std::path::PathBuf {
    let _ = user.write(
        "step.sh",
        "echo \"$1\" >>ran\necho \"Epoch 1/1 - 0.01s - loss: $1.0\"\n",
    );
    let sweep = format!(
        r#"
[run]
command = ["sh", "step.sh", "{{{{x}}}}"]
[resources]
walltime = "5m"
memory = "200MB"
exclude = "{MORTAL_NODE}"
[sweep]
name = "many"
metric = "loss"
mode = "min"
sampler = "grid"
max_jobs = 12
[sweep.space]
vars.x = {{ low = 1, high = {trials} }}
"#
    );
    user.write("many.toml", &sweep)
}

#[test]
#[ignore = "soak tier: tests/run soak"]
fn each_of_many_trials_runs_once_though_the_command_is_killed_again_and_again() {
    let user = User::new();
    let mut chance = Chance::new("sweep");
    let trials = count(60);
    let kills = (trials / 20).max(3);
    let file = file(&user, trials);
    let dir = user.state_dir().join("sweeps/many");
    let start = |json: &[&str]| {
        let mut command = user.command_within(LONGEST, user.binary());
        command.args(["sweep", "run", "--scheduler", "slurm"]);
        command.args(json).arg(&file);
        command
    };
    let owner = || -> Option<i32> {
        let lock = fs::read_to_string(dir.join("lock")).ok()?;
        lock.split(' ').next()?.parse().ok()
    };
    let begun = || -> usize {
        let journal = fs::read_to_string(dir.join("journal.jsonl")).unwrap_or_default();
        journal.matches("\"begun\"").count()
    };
    let (began, mut killed) = (Instant::now(), None);
    for number in 1..=kills {
        let mut started: Child = start(&[]).spawn().expect("it starts");
        let pid = until("the command", 120, || {
            owner().filter(|pid| Some(*pid) != killed)
        });
        // Half of them while it takes up what is under way, the others while it submits.
        if chance.below(2) == 0 {
            let wanted = number * trials / (kills + 1);
            until("trials", 900, || (begun() >= wanted).then_some(()));
        }
        sleep(Duration::from_millis(chance.below(1500) as u64));
        kill(Pid::from_raw(pid), Signal::SIGKILL).expect("it runs");
        let _ = started.wait();
        killed = Some(pid);
    }
    let done = start(&["--json"]).output().expect("it starts");
    assert!(done.status.success(), "{done:?}");
    let seconds = began.elapsed().as_secs();
    let answer: Value = serde_json::from_slice(&done.stdout).expect("JSON");
    let all = answer["result"]["trials"].as_array().expect("a list");
    let failed: Vec<&Value> = all
        .iter()
        .filter(|trial| trial["outcome"]["state"] != "completed")
        .collect();
    assert!(failed.is_empty() && all.len() == trials, "{failed:?}");
    let mut ran: Vec<usize> = fs::read_to_string(user.path("ran"))
        .expect("trials ran")
        .lines()
        .map(|line| line.parse().expect("a number"))
        .collect();
    ran.sort_unstable();
    assert!(
        ran.iter().copied().eq(1..=trials),
        "lost or doubled: {ran:?}"
    );
    tell(&format!(
        "sweep: {trials} trials, {kills} kills, {seconds} s"
    ));
}
