//! Any process of a run may be killed at any moment: what was written stays, and every run comes to an end that is told.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::thread::sleep;
use std::time::Duration;

use dlrun::record::decode_segment;
use nix::sys::signal::{Signal, kill};
use nix::unistd::Pid;
use serde_json::{Value, json};
use tempfile::TempDir;

use super::{Chance, count, tell};
use crate::slurm_real::cluster::{User, argv, cluster, processes, until};

/// A machine with local runs of its own.
pub(super) struct Machine {
    home: TempDir,
}

impl Machine {
    pub(super) fn new() -> Self {
        Self {
            home: tempfile::Builder::new()
                .prefix("dlrun-soak-")
                .tempdir_in("/var/tmp")
                .expect("a directory"),
        }
    }

    pub(super) fn state_dir(&self) -> PathBuf {
        self.home.path().join("state")
    }

    /// Where the local jobs of this user say that they wait or run.
    pub(super) fn entries(&self) -> PathBuf {
        self.home
            .path()
            .join(format!("dlrun-local-{}", nix::unistd::geteuid()))
    }

    pub(super) fn dlrun(&self) -> Command {
        let mut command = Command::new(env!("CARGO_BIN_EXE_dlrun"));
        command.current_dir(self.home.path()).stdin(Stdio::null());
        command
            .env("DLRUN_STATE_DIR", self.state_dir())
            .env("DLRUN_SCHEDULER__KIND", "local");
        command.env("DLRUN_LOCAL__LOCK_DIR", self.home.path());
        command
            .env("DLRUN_MONITOR__INTERVAL_MS", "100")
            .env("DLRUN_MONITOR__RECORD_SECONDS", "1");
        command
    }

    pub(super) fn write(&self, name: &str, text: &str) -> PathBuf {
        let path = self.home.path().join(name);
        fs::write(&path, text).expect("the home can be written");
        path
    }

    pub(super) fn read(&self, name: &str) -> String {
        fs::read_to_string(self.home.path().join(name)).unwrap_or_default()
    }

    fn has(&self, name: &str) -> bool {
        self.home.path().join(name).exists()
    }

    pub(super) fn job(&self, name: &str, script: &str) -> PathBuf {
        let text = format!("[run]\ncommand = {}\n", json!(["/bin/sh", "-c", script]));
        self.write(&format!("{name}.toml"), &text)
    }

    fn json(&self, arguments: &[&str]) -> Value {
        let output = self
            .dlrun()
            .arg("--json")
            .args(arguments)
            .output()
            .expect("dlrun runs");
        let shown = String::from_utf8_lossy(&output.stdout);
        assert!(
            output.status.success(),
            "{arguments:?}: {shown}{}",
            String::from_utf8_lossy(&output.stderr)
        );
        let envelope: Value = serde_json::from_str(&shown).expect("JSON");
        envelope["result"].clone()
    }

    pub(super) fn submit(&self, file: &Path) -> String {
        let result = self.json(&["submit", &file.to_string_lossy()]);
        result["run_id"].as_str().expect("an id").to_owned()
    }

    pub(super) fn list(&self, limit: usize) -> Vec<Value> {
        let result = self.json(&["list", "--limit", &limit.to_string()]);
        result["runs"].as_array().expect("a list").clone()
    }

    fn show(&self, run: &str) -> Value {
        self.json(&["show", run])
    }

    fn known(&self) -> Vec<String> {
        let names = fs::read_dir(self.state_dir().join("runs"))
            .into_iter()
            .flatten()
            .flatten();
        names
            .filter_map(|entry| entry.file_name().into_string().ok())
            .collect()
    }
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Victim {
    Nobody,
    Client,
    Runner,
    Shell,
    Supervisor,
    Watcher,
    Training,
}

const VICTIMS: [Victim; 7] = [
    Victim::Nobody,
    Victim::Client,
    Victim::Runner,
    Victim::Shell,
    Victim::Supervisor,
    Victim::Watcher,
    Victim::Training,
];

impl Victim {
    /// Its process among those of a run, by the words of its command line.
    fn find(self, run: &str) -> Option<i32> {
        let word_of = |pid: i32, index: usize| -> String {
            let words = fs::read(format!("/proc/{pid}/cmdline")).unwrap_or_default();
            let word = words
                .split(|byte| *byte == 0)
                .nth(index)
                .unwrap_or_default();
            String::from_utf8_lossy(word).into_owned()
        };
        let (word, index) = match self {
            Self::Nobody | Self::Client => return None,
            Self::Runner => ("local-run", 1),
            Self::Shell => ("job.sh", 1),
            Self::Supervisor => ("exec", 1),
            Self::Watcher => ("exec-watch", 1),
            Self::Training => ("whole", 3),
        };
        let fits = |pid: &i32| {
            let said = word_of(*pid, index);
            said == word || (self == Self::Shell && said.ends_with("/job.sh"))
        };
        processes(run, word).into_iter().find(fits)
    }
}

/// Twelve epochs of a tenth of a second, each noted in a journal of the program's own first; the result appears whole.
const TRAINING: &str = r#"for e in 1 2 3 4 5 6 7 8 9 10 11 12; do
    echo "Epoch $e/12" | tee -a "journal.$DLRUN_RUN_ID"
    sleep 0.1
    echo "47/47 - 1s - 11ms/step - loss: 0.$e" | tee -a "journal.$DLRUN_RUN_ID"
done
echo "twelve epochs" > "result.$DLRUN_RUN_ID.part" && mv "result.$DLRUN_RUN_ID.part" "result.$DLRUN_RUN_ID""#;

#[test]
#[ignore = "soak tier: tests/run soak"]
fn runs_survive_the_death_of_any_process() {
    let mut chance = Chance::new("kills");
    let machine = Machine::new();
    let command = json!(["/bin/sh", "-c", TRAINING, "whole"]);
    let file = machine.write("train.toml", &format!("[run]\ncommand = {command}\n"));
    let mut tally = std::collections::BTreeMap::new();
    for round in 0..count(42) {
        let victim = VICTIMS[round % VICTIMS.len()];
        let (run, before) = match victim {
            Victim::Client => (kill_client(&machine, &file, &mut chance), 0),
            _ => {
                let run = machine.submit(&file);
                let before = kill_one(&machine, &run, victim, &mut chance);
                (Some(run), before)
            }
        };
        let Some(run) = run else {
            *tally.entry(format!("{victim:?}: no run")).or_insert(0) += 1;
            continue;
        };
        let state = see_it_end(&machine, &run);
        check(&machine, &run, victim, &state, before);
        *tally.entry(format!("{victim:?}: {state}")).or_insert(0) += 1;
    }
    for (what, times) in &tally {
        tell(&format!("{times:4} {what}"));
    }
    // The index is thrown away, and everything is found again.
    let rows = machine.list(10_000);
    let states = |rows: &[Value]| -> Vec<(Value, Value)> {
        rows.iter()
            .map(|row| (row["run_id"].clone(), row["state"].clone()))
            .collect()
    };
    for entry in fs::read_dir(machine.state_dir())
        .expect("the state directory")
        .flatten()
    {
        if entry.file_name().to_string_lossy().starts_with("dlrun.db") {
            fs::remove_file(entry.path()).expect("the index is a file");
        }
    }
    assert_eq!(states(&rows), states(&machine.list(10_000)));
}

#[test]
#[ignore = "soak tier: tests/run soak"]
fn a_waiting_run_whose_runner_is_killed_is_lost_and_holds_nobody_up() {
    let machine = Machine::new();
    machine.submit(&machine.job("first", "until [ -e go ]; do sleep 0.05; done"));
    let file = machine.job("second", "touch \"ran.$DLRUN_RUN_ID\"");
    let (lost, last) = (machine.submit(&file), machine.submit(&file));
    let runner = until("its runner", 20, || Victim::Runner.find(&lost));
    until("a record of it", 20, || {
        let ticket = fs::read(
            machine
                .state_dir()
                .join("runs")
                .join(&lost)
                .join("local.json"),
        )
        .ok()?;
        let ticket: Value = serde_json::from_slice(&ticket).ok()?;
        (!ticket["runner"].is_null()).then_some(())
    });
    kill(Pid::from_raw(runner), Signal::SIGKILL).expect("it is ours");
    let waited = machine
        .dlrun()
        .args(["wait", &lost])
        .output()
        .expect("dlrun runs");
    assert_eq!(waited.status.code(), Some(16), "{waited:?}");
    assert_eq!(
        machine.show(&lost)["status"]["reason"],
        "its runner is gone: it was killed, or the state directory could not be written"
    );
    machine.write("go", "");
    assert_eq!(see_it_end(&machine, &last), "completed");
    assert_eq!(
        (
            machine.has(&format!("ran.{last}")),
            machine.has(&format!("ran.{lost}"))
        ),
        (true, false)
    );
}

/// Brings the controller back, also after a failure.
struct DeadController;

impl Drop for DeadController {
    fn drop(&mut self) {
        cluster(&["controller", "start"]);
    }
}

#[test]
#[ignore = "soak tier: tests/run soak"]
fn runs_survive_the_death_of_the_controller() {
    let mut chance = Chance::new("controller kills");
    let user = User::new();
    let once = "[scheduler]\narguments = [\"--no-requeue\"]";
    let file = user.job("train", &argv(&["/bin/sh", "-c", TRAINING, "whole"]), once);
    let (submit, victims) = (
        ["--json", "submit", &file.to_string_lossy()],
        [Victim::Supervisor, Victim::Watcher],
    );
    let mut tally = std::collections::BTreeMap::new();
    for _ in 0..count(5) {
        let known = slurm_runs(&user);
        let accepted = std::thread::scope(|scope| {
            let clients: Vec<_> = (0..4)
                .map(|_| scope.spawn(|| user.dlrun(&submit)))
                .collect();
            sleep(Duration::from_millis(chance.next() % 3_000));
            cluster(&["controller", "kill"]);
            let controller = DeadController;
            for run in slurm_runs(&user)
                .iter()
                .filter(|run| !known.contains(run))
                .take(2)
            {
                if let Some(pid) = chance.one_of(&victims).find(run) {
                    let _ = kill(Pid::from_raw(pid), Signal::SIGKILL);
                    *tally
                        .entry("a supervisor or watcher killed too".to_owned())
                        .or_insert(0) += 1;
                }
            }
            sleep(Duration::from_millis(chance.next() % 3_000));
            drop(controller);
            let codes = clients
                .into_iter()
                .map(|client| client.join().expect("no panic").code);
            codes.filter(|code| *code == 0).count()
        });
        let new: Vec<String> = slurm_runs(&user)
            .into_iter()
            .filter(|run| !known.contains(run))
            .collect();
        assert!(
            new.len() >= accepted,
            "{accepted} were accepted, and there are {new:?}"
        );
        *tally
            .entry("submissions refused or in doubt".to_owned())
            .or_insert(0) += 4 - accepted;
        for run in &new {
            *tally.entry(see_slurm_run_end(&user, run)).or_insert(0) += 1;
        }
    }
    for (what, times) in &tally {
        tell(&format!("{times:4} {what}"));
    }
}

fn slurm_runs(user: &User) -> Vec<String> {
    let names = fs::read_dir(user.state_dir().join("runs"))
        .into_iter()
        .flatten()
        .flatten();
    names
        .filter_map(|entry| entry.file_name().into_string().ok())
        .collect()
}

/// Waits until nothing more happens to a run; returns what became of it.
fn see_slurm_run_end(user: &User, run: &str) -> String {
    let state = until(&format!("{run} to end"), 180, || {
        let state = user.dlrun(&["--json", "show", run]);
        // One that was never handed over is not known.
        let state = if state.code == 0 {
            state.result()["status"]["state"].as_str()?.to_owned()
        } else {
            "no run".to_owned()
        };
        (!["pending", "running"].contains(&state.as_str())).then_some(state)
    });
    until(&format!("the processes of {run} to end"), 60, || {
        processes(run, "").is_empty().then_some(())
    });
    let journal = user.read(&format!("journal.{run}"));
    let begun = journal.lines().filter(|line| *line == "Epoch 1/12").count();
    let whole = user.read(&format!("result.{run}"));
    // A controller that had not saved a job's start takes it for waiting and starts it once more, `--no-requeue` or not.
    assert!(begun <= 2, "{run} ran {begun} times: {journal}");
    assert!(
        state != "completed" || whole == "twelve epochs\n",
        "{run} is called completed: {whole:?}: {}",
        user.dlrun(&["--json", "show", run]).stdout
    );
    let whole = if whole.is_empty() {
        "without a result"
    } else {
        "with its result"
    };
    format!("{state}, {whole}, begun {begun} times")
}

/// Kills the submitting client; returns the run if one came to be that anybody can see.
fn kill_client(machine: &Machine, file: &Path, chance: &mut Chance) -> Option<String> {
    let known = machine.known();
    let mut command = machine.dlrun();
    command
        .arg("submit")
        .arg(file)
        .stdout(Stdio::null())
        .stderr(Stdio::null());
    let mut client = command.spawn().expect("dlrun starts");
    sleep(Duration::from_micros(chance.next() % 40_000));
    client.kill().and_then(|()| client.wait()).expect("it ends");
    let new = machine
        .known()
        .into_iter()
        .find(|run| !known.contains(run))?;
    // Without a record there is nothing to tell, and nothing was handed over.
    let listed = machine
        .list(10_000)
        .into_iter()
        .any(|row| row["run_id"] == json!(new));
    if !listed {
        assert!(
            !machine
                .state_dir()
                .join("runs")
                .join(&new)
                .join("local.json")
                .exists()
        );
    }
    listed.then_some(new)
}

/// Kills one process at some moment; returns the epochs that were on record then.
fn kill_one(machine: &Machine, run: &str, victim: Victim, chance: &mut Chance) -> u64 {
    sleep(Duration::from_millis(chance.next() % 1_900));
    let before = on_record(machine, run);
    if let Some(pid) = victim.find(run) {
        let _ = kill(Pid::from_raw(pid), Signal::SIGKILL);
    }
    machine.list(20);
    before
}

/// The epochs of a run's record; `show` reads the output of a run that goes on as well.
fn on_record(machine: &Machine, run: &str) -> u64 {
    let attempt = machine.state_dir().join("runs").join(run).join("0.0");
    let nodes = fs::read_dir(attempt).into_iter().flatten().flatten();
    let records = nodes.filter_map(|node| fs::read(node.path().join("record.json")).ok());
    let epochs = |bytes: Vec<u8>| {
        serde_json::from_slice::<Value>(&bytes).ok()?["progress"]["epochs_completed"].as_u64()
    };
    records.filter_map(epochs).max().unwrap_or(0)
}

/// Waits until the run is over and all its processes are gone; returns the state.
fn see_it_end(machine: &Machine, run: &str) -> String {
    until(&format!("{run} to end"), 60, || {
        let shown = machine.show(run);
        let status = &shown["status"];
        let state = status["state"].as_str().expect("a state").to_owned();
        match state.as_str() {
            "pending" | "running" => None,
            "unknown" => {
                assert!(
                    status["reason"].as_str().is_some_and(|why| !why.is_empty()),
                    "{shown}"
                );
                Some(state)
            }
            _ => Some(state),
        }
    });
    until(&format!("the processes of {run} to end"), 30, || {
        processes(run, "").is_empty().then_some(())
    });
    // An end mark may have come after the state was unknown.
    machine.show(run)["status"]["state"]
        .as_str()
        .expect("a state")
        .to_owned()
}

fn check(machine: &Machine, run: &str, victim: Victim, state: &str, before: u64) {
    let shown = machine.show(run);
    let result = machine.read(&format!("result.{run}"));
    assert!(
        ["", "twelve epochs\n"].contains(&result.as_str()),
        "{victim:?}: {result:?}"
    );
    let whole = !result.is_empty();
    let started = !machine.read(&format!("journal.{run}")).is_empty();
    match victim {
        Victim::Nobody | Victim::Watcher => {
            assert_eq!((state, whole), ("completed", true), "{victim:?} {shown}")
        }
        // A client that got far enough has handed over; nobody else waits for what it did not hand over.
        Victim::Client => assert_eq!(state == "completed", whole, "{shown}"),
        // Its job goes on and marks its end by itself; one that still waited is lost, and that is said.
        Victim::Runner => assert!(
            state == if started { "completed" } else { "unknown" },
            "{shown}"
        ),
        Victim::Shell | Victim::Supervisor | Victim::Training => {
            assert!(
                ["completed", "failed"].contains(&state),
                "{victim:?} {shown}"
            );
            assert!(state == "failed" || whole, "{victim:?} {shown}");
        }
    }
    // Every line the program wrote is in the output.
    if let Some(output) = shown["run"]["output"].as_str() {
        let output = fs::read_to_string(output).unwrap_or_default();
        let journal = machine.read(&format!("journal.{run}"));
        let written = journal.lines().count();
        let lost = journal
            .lines()
            .filter(|line| !output.contains(line))
            .count();
        // `tee` may be killed between its two writes.
        assert!(
            lost == 0 || (lost == 1 && state == "failed"),
            "{victim:?}: {lost} of {written} lines lost"
        );
    }
    // What was on record stays on record; a run that ended by itself is on record whole.
    let node = &shown["nodes"][0];
    let after = node["progress"]["epochs_completed"].as_u64().unwrap_or(0);
    assert!(
        after >= before,
        "{victim:?}: {before} epochs were on record, now {after}"
    );
    if state == "completed" {
        assert_eq!(
            (after, &node["state"]),
            (12, &json!("ended")),
            "{victim:?} {shown}"
        );
    }
    for entry in segments(&machine.state_dir().join("runs").join(run)) {
        decode_segment(&fs::read(&entry).expect("a segment"))
            .unwrap_or_else(|error| panic!("{entry:?}: {error}"));
    }
    assert_eq!(shown["unreadable"], json!([]), "{victim:?}");
}

fn segments(dir: &Path) -> Vec<PathBuf> {
    let mut found = Vec::new();
    for entry in fs::read_dir(dir).into_iter().flatten().flatten() {
        let path = entry.path();
        if path.is_dir() {
            found.extend(segments(&path));
        } else if path.extension().is_some_and(|extension| extension == "seg") {
            found.push(path);
        }
    }
    found
}
