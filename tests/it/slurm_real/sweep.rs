//! A sweep on a real cluster: a planted best is found with early stopping, and the command is killed in the middle.

use std::collections::{BTreeMap, BTreeSet};
use std::fs;

use nix::sys::signal::{Signal, kill};
use nix::unistd::Pid;
use serde_json::Value;

use super::cluster::{User, until};

/// Branin's function after 27 epochs; its least value is 0.397887.
const PROGRAM: &str = r#"for e in $(seq 27); do sleep 0.2; awk -v x="$1" -v y="$2" -v e="$e" 'BEGIN {
pi = 3.14159265; a = y - 5.1 / (4 * pi * pi) * x * x + 5 / pi * x - 6
f = a * a + 10 * (1 - 1 / (8 * pi)) * cos(x) + 10
printf "Epoch %d/27 - loss: %.6f\n", e, f + 60 * exp(-(3 + (x + 5) / 3) * e / 27) }'; done"#;

const SWEEP: &str = r#"
[run]
command = ["sh", "branin.sh", "{{x}}", "{{y}}"]
[resources]
walltime = "5m"
exclude = "MORTAL"
[sweep]
name = "branin"
metric = "loss"
mode = "min"
trials = 24
max_jobs = 4
stop = "asha"
first_epoch = 3
[sweep.space]
vars.x = { low = -5.0, high = 10.0 }
vars.y = { low = 0.0, high = 15.0 }
"#;

#[test]
#[ignore = "needs slurmctld: run tests/run"]
fn a_planted_best_is_found_with_early_stopping_by_a_command_that_is_killed() {
    let user = User::new();
    let _ = user.write("branin.sh", PROGRAM);
    let file = user.write("branin.toml", &SWEEP.replace("MORTAL", super::MORTAL_NODE));
    let dir = user.state_dir().join("sweeps/branin");
    let journal = || fs::read_to_string(dir.join("journal.jsonl")).unwrap_or_default();
    let begun = || journal().matches("\"begun\"").count();
    for seen in [5, 12] {
        let words = ["sweep", "run", "--scheduler", "slurm"];
        let mut started = user
            .command(user.binary())
            .args(words)
            .arg(&file)
            .spawn()
            .expect("it starts");
        until("trials", 300, || (begun() >= seen).then_some(()));
        let lock = fs::read_to_string(dir.join("lock")).expect("a lock");
        let owner = lock
            .split(' ')
            .next()
            .and_then(|pid| pid.parse().ok())
            .expect("a process");
        kill(Pid::from_raw(owner), Signal::SIGKILL).expect("it runs");
        let _ = started.wait();
    }
    let done = user.dlrun(&[
        "sweep".as_ref(),
        "run".as_ref(),
        "--json".as_ref(),
        file.as_os_str(),
    ]);
    assert_eq!(done.code, 0, "{done:?}");
    let result: Value = serde_json::from_str(&done.stdout).expect("JSON");
    let trials = result["result"]["trials"]
        .as_array()
        .expect("a list")
        .clone();
    assert_eq!(trials.len(), 24);
    let outcomes: Vec<&Value> = trials.iter().map(|trial| &trial["outcome"]).collect();
    assert!(
        outcomes.iter().all(|outcome| outcome["failure"].is_null()),
        "{result}"
    );
    let stopped = outcomes
        .iter()
        .filter(|outcome| !outcome["stopped_at"].is_null())
        .count();
    assert!(stopped >= 8, "{stopped} of {result}");
    let best = outcomes[0]["value"].as_f64().expect("a value");
    assert!(
        best < 15.0,
        "half of all points are above 40, and one in ten below 8: {best}"
    );
    // Each trial is one run, whoever was killed.
    let mut runs: BTreeMap<&str, usize> = BTreeMap::new();
    trials.iter().for_each(|trial| {
        *runs
            .entry(trial["run_id"].as_str().expect("an id"))
            .or_default() += 1
    });
    assert_eq!(runs.len(), 24);
    // A client that was killed before it called sbatch leaves a run without a job; its trial is another run's.
    let runs = fs::read_dir(user.state_dir().join("runs")).expect("a directory");
    let is_job = |run: &fs::DirEntry| {
        let record = fs::read(run.path().join("run.json")).expect("a record");
        let record: Value = serde_json::from_slice(&record).expect("JSON");
        !record["job_id"].is_null()
    };
    let jobs = runs.flatten().filter(is_job).count();
    assert_eq!(jobs, 24, "no run is doubled");
}

/// Continues from its checkpoint, whose step it prints.
const RESUMED: &str = r#"mkdir -p "ckpt/$3"; last=$(cat "${DLRUN_RESUME_FROM:-/dev/null}")
echo "from ${last:-0}"
for e in $(seq $((${last:-0} + 1)) "$2"); do sleep 0.2; echo "Epoch $e/$2 - 0.2s - loss: $(($1 * 10 - e)).0"
echo "$e" >"ckpt/$3/new.part"; mv "ckpt/$3/new.part" "ckpt/$3/$e"; done"#;

#[test]
#[ignore = "needs slurmctld: run tests/run"]
fn the_best_trials_continue_from_their_checkpoints_as_jobs_of_their_own() {
    let user = User::new();
    let _ = user.write("step.sh", RESUMED);
    let sweep = format!(
        "[run]\ncommand = ['sh', 'step.sh', '{{{{x}}}}', '{{{{epochs}}}}', '{{{{trial}}}}']\n[workload]\nepochs = 9\n\
         [resume]\ncheckpoints = ['ckpt/{{{{trial}}}}/*']\n[resources]\nwalltime = '5m'\nexclude = '{}'\n\
         [sweep]\nname = 'promoted'\nmetric = 'loss'\nmode = 'min'\nsampler = 'grid'\nmax_jobs = 3\nstop = 'promotion'\n\
         [sweep.space]\nvars.x = [5, 1, 4, 2, 3, 6]\n",
        super::MORTAL_NODE
    );
    let file = user.write("promoted.toml", &sweep);
    let words = ["--json", "sweep", "run", "--scheduler", "slurm"].map(AsRef::as_ref);
    let result = user
        .dlrun(&[&words[..], &[file.as_os_str()]].concat())
        .result();
    let best = &result["trials"][0];
    assert_eq!(
        (&best["values"]["vars.x"], &best["spent"]["epochs"]),
        (&Value::from(1), &Value::from(9)),
        "{result}"
    );
    let output = user
        .dlrun(&["logs", best["run_id"].as_str().expect("an id")])
        .ok();
    assert!(output.contains("from 3\n"), "{output}");
    let trials = result["trials"].as_array().expect("a list");
    let is_first = |trial: &&Value| trial["spent"]["epochs"] == 1;
    assert!(trials.iter().filter(is_first).count() >= 3, "{result}");
}

/// Nobody has to stay logged in.
#[test]
#[ignore = "needs slurmctld: run tests/run"]
fn a_job_conducts_a_sweep() {
    let user = User::new();
    let _ = user.write("branin.sh", PROGRAM);
    let sweep = SWEEP
        .replace("MORTAL", super::MORTAL_NODE)
        .replace("trials = 24", "trials = 6");
    let _ = user.write("branin.toml", &sweep);
    let words = [
        "--json",
        "sweep",
        "run",
        "--scheduler",
        "slurm",
        "branin.toml",
        "--detach=30m",
    ];
    let submitted = user.dlrun(&words).result();
    let conductor = submitted["run_id"].as_str().expect("an id");
    let ended = user.wait(conductor);
    assert_eq!(ended, 0, "{}", user.dlrun(&["logs", conductor]).ok());
    let shown = user.dlrun(&["--json", "sweep", "show", "branin"]).result();
    let trials = shown["trials"].as_array().expect("a list");
    let jobs: BTreeSet<&str> = trials
        .iter()
        .map(|trial| trial["run_id"].as_str().expect("an id"))
        .collect();
    assert_eq!((trials.len(), jobs.len()), (6, 6));
}

/// A requeue kills trials and conductor at once; what it did not see the end of is tried again.
#[test]
#[ignore = "needs slurmctld: run tests/run"]
fn trials_run_side_by_side_within_one_job_that_is_requeued() {
    let user = User::new();
    let program = r#"echo "gpu $CUDA_VISIBLE_DEVICES, in ${SLURM_JOB_ID:-no job}"
for e in 1 2 3 4 5 6; do sleep 1; echo "Epoch $e/6 - loss: $1.0"; done"#;
    let _ = user.write("step.sh", program);
    let sweep = format!(
        "[run]\ncommand = ['sh', 'step.sh', '{{{{x}}}}']\n[resources]\nwalltime = '5m'\nexclude = '{}'\n\
         cpus_per_task = 1\nmemory = '100MiB'\ngpus_per_node = 'v100:1'\n\
         [sweep]\nname = 'packed'\nmetric = 'loss'\nmode = 'min'\nsampler = 'grid'\n\
         [sweep.space]\nvars.x = [7, 6, 5, 4, 3, 2, 1]\n",
        super::MORTAL_NODE
    );
    let _ = user.write("packed.toml", &sweep);
    let words = ["--json", "sweep", "run", "packed.toml", "--pack", "3"];
    let refused = user.dlrun(&words);
    assert_eq!(refused.code, 64, "{refused:?}");
    // The shell that has an allocation is on this machine.
    let allocated = ["-N1", "-x", super::MORTAL_NODE, "env"].map(str::to_owned);
    let binary = user.binary().to_string_lossy().into_owned();
    let words_within = words.map(str::to_owned);
    let within = [&allocated[..], &[binary], &words_within[..]].concat();
    assert_eq!(
        user.run("salloc", &within).code,
        64,
        "the trials would run here"
    );
    let words = [&words[..], &["--detach=30m", "--scheduler", "slurm"]].concat();
    let submitted = user.dlrun(&words).result();
    assert_eq!(user.dlrun(&words).code, 75, "there is one");
    let conductor = submitted["run_id"].as_str().expect("an id");
    let job = submitted["job_id"].as_str().expect("an id");
    let journal = user.state_dir().join("sweeps/packed/journal.jsonl");
    let begun = || {
        let journal = fs::read_to_string(&journal).unwrap_or_default();
        journal.matches("\"begun\"").count()
    };
    until("a second row of trials", 60, || {
        (begun() >= 5).then_some(())
    });
    // On this machine, while it runs on a node.
    let _ = user.dlrun(&["cancel", "packed-0004"]).ok();
    user.until_state("packed-0004", "cancelled");
    assert_eq!(user.run("scontrol", &["requeue", job]).code, 0);
    let ended = user.wait(conductor);
    assert_eq!(ended, 0, "{}", user.dlrun(&["logs", conductor]).ok());

    let shown = user.dlrun(&["--json", "sweep", "show", "packed"]).result();
    let trials = shown["trials"].as_array().expect("a list");
    let of_trials: BTreeMap<&str, String> = trials
        .iter()
        .filter(|trial| trial["trial"] != 4)
        .map(|trial| {
            let outcome = &trial["outcome"];
            assert_eq!(outcome["state"], "completed", "{shown}");
            let value = outcome["value"].as_f64().expect("a value");
            let hours = outcome["node_hours"].as_f64().expect("a time");
            let seconds = outcome["wall_seconds"].as_f64().expect("a time");
            assert!(
                (hours * 3600.0 * 3.0 - seconds).abs() < 1e-6,
                "a third: {outcome}"
            );
            assert!((1.0..=7.0).contains(&value), "{outcome}");
            let run = trial["run_id"].as_str().expect("an id");
            let output = user.dlrun(&["logs", run]).ok();
            let gpu = output.lines().next().expect("a line").to_owned();
            assert!(
                gpu.starts_with("gpu ") && gpu.ends_with(", in no job"),
                "{gpu}"
            );
            (run, gpu)
        })
        .collect();
    let gpus: BTreeSet<&String> = of_trials.values().collect();
    assert_eq!((of_trials.len(), gpus.len()), (6, 3), "{of_trials:?}");
    let ended = user.state("packed-0004");
    assert_eq!(ended, "cancelled", "it is not tried again");
    // Those of the first start count as lost, and not as running for ever.
    assert!(begun() > 7, "some were tried again");
    let runs = user.list();
    let is_running = |run: &&Value| run["state"] == "running";
    let running: Vec<&Value> = runs.iter().filter(is_running).collect();
    assert!(running.is_empty(), "{running:?}");
}

/// The request is written on this machine, and the watcher on the node passes it on.
#[test]
#[ignore = "needs slurmctld: run tests/run"]
fn a_trial_that_is_asked_to_stop_ends_by_itself() {
    let user = User::new();
    let program = r#"for e in $(seq 100); do sleep 0.2; echo "Epoch $e/100 - loss: $1.0"
if [ -e "$(dirname "$DLRUN_EVENTS")/stop" ]; then echo saved; exit 0; fi; done"#;
    let _ = user.write("step.sh", program);
    let sweep = format!(
        "[run]\ncommand = ['sh', 'step.sh', '{{{{x}}}}']\n[resources]\nwalltime = '5m'\nexclude = '{}'\n\
         [sweep]\nname = 'asked'\nmetric = 'loss'\nmode = 'min'\nsampler = 'grid'\nmax_jobs = 3\nstop = 'asha'\n\
         stop_wait = '10m'\n[sweep.space]\nvars.x = [1, 2, 3]\n",
        super::MORTAL_NODE
    );
    let file = user.write("asked.toml", &sweep);
    let words = ["--json", "sweep", "run", "--scheduler", "slurm"].map(AsRef::as_ref);
    let result = user
        .dlrun(&[&words[..], &[file.as_os_str()]].concat())
        .result();
    let trials = result["trials"].as_array().expect("a list");
    let ended = |trial: &&Value| {
        let outcome = &trial["outcome"];
        !outcome["stopped_at"].is_null() && outcome["state"] == "completed"
    };
    let ended: Vec<&Value> = trials.iter().filter(ended).collect();
    assert!(!ended.is_empty(), "{result}");
    for trial in ended {
        let run = trial["run_id"].as_str().expect("an id");
        let output = user.dlrun(&["logs", run]).ok();
        assert!(output.ends_with("saved\n"), "{output}");
    }
}

/// As docs/events.md says: rank 0 asks, and sends its answer to the others.
#[test]
#[ignore = "needs slurmctld: run tests/run"]
fn ranks_of_two_nodes_end_together_when_their_trial_is_asked_to_stop() {
    let user = User::new();
    let program = r#"said="said-$SLURM_JOB_ID"
for e in $(seq 40); do sleep 0.3
if [ "$SLURM_PROCID" = 0 ]; then
    if [ -e "$(dirname "$DLRUN_EVENTS")/stop" ]; then echo stop; else echo train; fi >"$said.new"; mv "$said.new" "$said.$e"
    echo "Epoch $e/40 - loss: $1.0"
fi
until [ -e "$said.$e" ]; do sleep 0.05; done
if [ "$(cat "$said.$e")" = stop ]; then echo "rank $SLURM_PROCID saved"; exit 0; fi; done"#;
    let _ = user.write("step.sh", program);
    let sweep = format!(
        "[run]\ncommand = ['sh', 'step.sh', '{{{{x}}}}']\nlauncher = 'mpi'\n[resources]\nwalltime = '5m'\nexclude = '{}'\n\
         nodes = 2\ntasks_per_node = 1\n\
         [sweep]\nname = 'ranks'\nmetric = 'loss'\nmode = 'min'\nsampler = 'grid'\nstop = 'asha'\n\
         stop_wait = '10m'\n[sweep.space]\nvars.x = [1, 2]\n",
        super::MORTAL_NODE
    );
    let file = user.write("ranks.toml", &sweep);
    let words = ["--json", "sweep", "run", "--scheduler", "slurm"].map(AsRef::as_ref);
    let result = user
        .dlrun(&[&words[..], &[file.as_os_str()]].concat())
        .result();
    let trials = result["trials"].as_array().expect("a list");
    let of_two = trials.iter().find(|trial| trial["values"]["vars.x"] == 2);
    let of_two = of_two.expect("a trial");
    assert_eq!(of_two["outcome"]["state"], "completed", "{result}");
    assert!(of_two["outcome"]["stopped_at"].is_u64(), "{result}");
    let run = of_two["run_id"].as_str().expect("an id");
    let output = user.dlrun(&["logs", run]).ok();
    for rank in ["rank 0 saved", "rank 1 saved"] {
        assert!(output.contains(rank), "{output}");
    }
}

/// A trial's job has the time of the epochs that it is given, once runs with as many are known.
#[test]
#[ignore = "needs slurmctld: run tests/run"]
fn the_time_limit_of_a_start_is_that_of_its_epochs() {
    let user = User::new();
    // Its log says what an epoch takes; the record has the wall time.
    let program = RESUMED.replace("sleep 0.2", "sleep 0.1");
    let _ = user.write("step.sh", &program);
    let limits = |name: &str| -> Vec<(u64, String)> {
        let sweep = format!(
            "[run]\ncommand = ['sh', 'step.sh', '{{{{x}}}}', '{{{{epochs}}}}', '{{{{trial}}}}']\n\
             [workload]\nmodel = 'stepper'\nepochs = 9\n[resume]\ncheckpoints = ['ckpt/{{{{trial}}}}/*']\n\
             [resources]\nwalltime = 'auto'\ncpus_per_task = 1\nexclude = '{}'\n\
             [sweep]\nname = '{name}'\nmetric = 'loss'\nmode = 'min'\nsampler = 'grid'\nmax_jobs = 3\nstop = 'promotion'\n\
             first_epoch = 3\n[sweep.space]\nvars.x = [1, 2, 3]\n",
            super::MORTAL_NODE
        );
        let file = user.write(&format!("{name}.toml"), &sweep);
        let _ = fs::remove_dir_all(user.path("ckpt"));
        let words = ["--json", "sweep", "run", "--scheduler", "slurm"].map(AsRef::as_ref);
        let _ = user
            .dlrun(&[&words[..], &[file.as_os_str()]].concat())
            .result();
        let runs = fs::read_dir(user.state_dir().join("runs")).expect("a directory");
        let of_plan = |run: fs::DirEntry| {
            let plan = fs::read(run.path().join("plan.json")).ok()?;
            let plan: Value = serde_json::from_slice(&plan).expect("JSON");
            let decisions = plan["decisions"].as_array().expect("a list");
            let limit = decisions.iter().find(|one| one["what"] == "walltime")?;
            let why = limit["why"].as_str()?.to_owned();
            let is_own = plan["name"].as_str()?.starts_with(name);
            is_own.then_some((plan["workload"]["epochs"].as_u64()?, why))
        };
        runs.flatten().filter_map(of_plan).collect()
    };
    let unknown = limits("first");
    assert!(
        unknown.iter().any(|(epochs, ..)| *epochs == 9),
        "{unknown:?}"
    );
    let known = limits("second");
    let of_three = known.iter().filter(|(epochs, ..)| *epochs == 3);
    let of_three: Vec<_> = of_three.collect();
    assert_eq!(of_three.len(), 3, "{known:?}");
    for (_, why) in of_three {
        assert!(
            why.contains("with no more epochs, steps or samples: "),
            "{known:?}"
        );
    }
}
