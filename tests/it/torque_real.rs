//! dlrun against a real Torque: what a stand-in for its commands would only repeat.
//!
//! `DLRUN_TEST_TORQUE_BIN` names the directory of its commands, `DLRUN_TEST_USER` an ordinary user whose home the nodes
//! see. The tests start jobs as that user and need to be root's. There must be two nodes of two CPUs each, and limits of
//! time that are looked after every few seconds (`$check_poll_time`).

use std::fs;
use std::os::unix::fs::{PermissionsExt, chown};
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::{Command, Output};

use dlrun::scheduler::Scheduler;
use dlrun::scheduler::torque::TORQUE;
use nix::unistd::User;
use serde_json::{Value, json};

use crate::pbs_real::{self, Site as _};
use crate::support::env::install;
use crate::support::same::compare;
use crate::support::{DLRUN, wait_for, wait_for_some};
use crate::torque::{OPTIONS, job_file};

/// A directory in the home of the user, and the way to Torque.
struct Site {
    bin: PathBuf,
    user: User,
    dir: tempfile::TempDir,
}

/// A run that was handed over.
struct Handed {
    run: String,
    job: String,
    output: PathBuf,
}

impl Site {
    fn new() -> Self {
        let variable =
            |name: &str| std::env::var(name).unwrap_or_else(|_| panic!("{name} is not set"));
        let bin = PathBuf::from(variable("DLRUN_TEST_TORQUE_BIN"));
        let user = User::from_name(&variable("DLRUN_TEST_USER"))
            .expect("an answer")
            .expect("a user");
        let dir = tempfile::Builder::new()
            .prefix("torque-")
            .tempdir_in(&user.dir)
            .expect("a directory");
        chown(dir.path(), Some(user.uid.as_raw()), Some(user.gid.as_raw())).expect("root may");
        install(DLRUN, dir.path());
        fs::set_permissions(dir.path(), fs::Permissions::from_mode(0o755)).expect("root may");
        Self { bin, user, dir }
    }

    fn path(&self, name: &str) -> PathBuf {
        self.dir.path().join(name)
    }

    fn command(&self, program: &Path) -> Command {
        let mut command = Command::new(program);
        command
            .uid(self.user.uid.as_raw())
            .gid(self.user.gid.as_raw())
            .current_dir(self.dir.path());
        command
            .env_clear()
            .env("PATH", format!("{}:/usr/bin:/bin", self.bin.display()));
        command
            .env("HOME", &self.user.dir)
            .env("USER", &self.user.name)
            .env("LOGNAME", &self.user.name);
        command
            .env("DLRUN_STATE_DIR", self.path("state"))
            .env("DLRUN_SCHEDULER__KIND", "torque");
        command
            .env("DLRUN_MONITOR__INTERVAL_MS", "250")
            .env("DLRUN_MONITOR__DAEMON", "off");
        command
    }

    fn dlrun(&self, args: &[&str]) -> Output {
        self.command(&self.path("dlrun"))
            .args(args)
            .output()
            .expect("dlrun runs")
    }

    #[track_caller]
    fn json(&self, args: &[&str]) -> Value {
        let output = self.dlrun(args);
        assert!(output.status.success(), "{args:?}: {}", text(&output));
        serde_json::from_slice::<Value>(&output.stdout).expect("JSON")["result"].clone()
    }

    /// One of Torque's commands, by the user or by root.
    fn pbs(&self, by_root: bool, program: &str, args: &[&str]) -> Output {
        let program = self.bin.join(program);
        let mut command = if by_root {
            Command::new(&program)
        } else {
            self.command(&program)
        };
        command.args(args).output().expect("it runs")
    }

    fn write(&self, name: &str, text: &str) -> PathBuf {
        let path = self.path(name);
        fs::write(&path, text).expect("root may");
        chown(
            &path,
            Some(self.user.uid.as_raw()),
            Some(self.user.gid.as_raw()),
        )
        .expect("root may");
        path
    }

    /// Hands a job over: `run` stands in `[run]`, `rest` goes on in `[resources]` and may open other tables.
    #[track_caller]
    fn submit(&self, script: &str, run: &str, rest: &str) -> Handed {
        let command = json!(["bash", "-c", script]);
        let text =
            format!("name = \"job\"\n[run]\ncommand = {command}\n{run}\n[resources]\n{rest}\n");
        let result = self.json(&[
            "submit",
            "--json",
            &self.write("job.toml", &text).to_string_lossy(),
        ]);
        let word = |key: &str| {
            result[key]
                .as_str()
                .unwrap_or_else(|| panic!("{key}"))
                .to_owned()
        };
        Handed {
            run: word("run_id"),
            job: word("job_id"),
            output: word("output").into(),
        }
    }

    fn show(&self, run: &str) -> Value {
        self.json(&["show", "--json", run])
    }

    fn status(&self, run: &str) -> Value {
        self.show(run)["status"].clone()
    }

    #[track_caller]
    fn until(&self, run: &str, state: &str) -> Value {
        wait_for_some(&format!("{run} to be {state}"), || {
            Some(self.status(run)).filter(|status| status["state"] == state)
        })
    }

    fn wait(&self, run: &str) -> Option<i32> {
        self.dlrun(&["wait", run]).status.code()
    }

    fn run_dir(&self, run: &str) -> PathBuf {
        self.path("state/runs").join(run)
    }
}

impl Drop for Site {
    /// Nothing of a test that failed goes on in the cluster.
    fn drop(&mut self) {
        let records = fs::read_dir(self.path("state/runs"))
            .into_iter()
            .flatten()
            .flatten();
        for record in records.filter_map(|entry| fs::read(entry.path().join("run.json")).ok()) {
            let record: Value = serde_json::from_slice(&record).unwrap_or_default();
            if let Some(job) = record["job_id"].as_str() {
                self.pbs(true, "qdel", &[job]);
            }
        }
    }
}

impl pbs_real::Site for Site {
    fn path(&self, name: &str) -> PathBuf {
        self.path(name)
    }

    fn dlrun(&self, args: &[&str]) -> Output {
        self.dlrun(args)
    }

    fn described(&self, job: &str) -> String {
        text(&self.pbs(true, "qstat", &["-f", job]))
    }
}

fn read(path: &Path) -> String {
    fs::read_to_string(path).unwrap_or_default()
}

fn text(output: &Output) -> String {
    let words = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
    format!(
        "{:?}: {}{}",
        output.status,
        words(&output.stdout),
        words(&output.stderr)
    )
}

#[test]
#[ignore = "needs Torque: DLRUN_TEST_TORQUE_BIN, DLRUN_TEST_USER"]
fn a_job_is_followed_from_the_queue_to_its_end() {
    let site = Site::new();
    let script = "for e in 1 2; do echo \"epoch $e 0.5s loss: 0.$e\"; sleep 0.5; done; echo at $PWD; until [ -e go ]; do sleep 0.1; done; exit 3";
    let held = site.submit(
        script,
        "",
        "walltime = \"5m\"\n[scheduler]\ndirectives = [\"-h\"]",
    );
    let status = site.until(&held.run, "pending");
    assert_eq!(status["reason"], "held by its user (`qrls` lets it go)");
    assert!(site.pbs(false, "qrls", &[&held.job]).status.success());
    let running = site.until(&held.run, "running");
    assert_eq!(running["raw_state"], "R");
    // While it runs, people can follow it.
    wait_for("the output of a running job", || {
        read(&held.output).contains("at ")
    });
    fs::write(site.path("go"), "").expect("root may");
    assert_eq!(site.wait(&held.run), Some(10));
    let shown = site.show(&held.run);
    assert_eq!(shown["status"]["exit"], json!({ "code": 3 }));
    assert_eq!(shown["nodes"][0]["progress"]["epochs_completed"], 2);
    let node = shown["nodes"][0]["node"]
        .as_str()
        .expect("a name")
        .to_owned();
    assert!(
        site.pbs(false, "pbsnodes", &[&node]).status.success(),
        "{node} is what the scheduler calls it"
    );
    assert_eq!(
        read(&held.output).lines().last(),
        Some(&*format!("at {}", site.dir.path().display()))
    );
}

#[test]
#[ignore = "needs Torque: DLRUN_TEST_TORQUE_BIN, DLRUN_TEST_USER"]
fn hostile_words_arrive_as_they_were_written() {
    let site = Site::new();
    let words = [
        "it's",
        "$(touch x) `id`",
        "a\nb",
        "#PBS -l nodes=9",
        "é 漢",
        "-n",
        "",
        "\\ \"q\"",
        "a,b=c;d&e|f<g>",
    ];
    let mut command = vec!["python3", "-c", "import sys; print(ascii(sys.argv[1:]))"];
    command.extend(words);
    let env = "env = { A = \"x, 'y' \\\"z\\\" $HOME\" }";
    let text = format!(
        "name = \"job\"\n[run]\ncommand = {}\n{env}\n",
        json!(command)
    );
    let file = site.write("job.toml", &text);
    let result = site.json(&["submit", "--json", &file.to_string_lossy()]);
    assert_eq!(
        site.wait(result["run_id"].as_str().expect("an id")),
        Some(0)
    );
    let output = read(Path::new(result["output"].as_str().expect("a file")));
    let expected = Command::new("python3")
        .args(&command[1..])
        .output()
        .expect("python")
        .stdout;
    assert_eq!(output, String::from_utf8_lossy(&expected));
}

#[test]
#[ignore = "needs Torque: DLRUN_TEST_TORQUE_BIN, DLRUN_TEST_USER"]
fn variables_of_the_submitting_shell_come_as_asked() {
    let site = Site::new();
    let print = "echo \"<$TORQUE_A|$TORQUE_B>\"";
    for (inherit, expected) in [
        ("", "<|>"),
        ("inherit = \"all\"", "<a b, 'c'|2>"),
        ("inherit = [\"TORQUE_B\", \"TORQUE_UNSET\"]", "<|2>"),
    ] {
        let text = format!(
            "name = \"job\"\n[run]\ncommand = {}\n{inherit}\n",
            json!(["bash", "-c", print])
        );
        let file = site.write("job.toml", &text);
        let mut command = site.command(&site.path("dlrun"));
        let output = command
            .args(["submit", "--json"])
            .arg(&file)
            .env("TORQUE_A", "a b, 'c'")
            .env("TORQUE_B", "2")
            .output();
        let output = output.expect("it runs");
        assert!(
            output.status.success(),
            "{inherit}: {}",
            self::text(&output)
        );
        let result =
            serde_json::from_slice::<Value>(&output.stdout).expect("JSON")["result"].clone();
        assert_eq!(
            site.wait(result["run_id"].as_str().expect("an id")),
            Some(0),
            "{inherit}"
        );
        assert_eq!(
            read(Path::new(result["output"].as_str().expect("a file"))).trim(),
            expected,
            "{inherit}"
        );
    }
}

#[test]
#[ignore = "needs Torque: DLRUN_TEST_TORQUE_BIN, DLRUN_TEST_USER"]
fn ends_are_told_apart() {
    let site = Site::new();
    let sleeper = "echo begun; exec sleep 100";
    let limited = site.submit(sleeper, "", "walltime = \"3s\"");
    let cancelled = site.submit(sleeper, "", "walltime = \"5m\"");
    let waiting = site.submit("true", "", "[scheduler]\ndirectives = [\"-h\"]");
    let killed = site.submit("kill -9 $$", "", "");
    let deleted = site.submit(sleeper, "", "walltime = \"5m\"");
    for handed in [&cancelled, &deleted] {
        wait_for("the job to begin", || {
            read(&handed.output).contains("begun")
        });
    }
    for handed in [&cancelled, &waiting] {
        let output = site.dlrun(&["cancel", &handed.run]);
        assert!(output.status.success(), "{}", text(&output));
    }
    // By hand, without dlrun.
    assert!(site.pbs(false, "qdel", &[&deleted.job]).status.success());
    let codes =
        [&cancelled, &waiting, &killed, &deleted, &limited].map(|handed| site.wait(&handed.run));
    assert_eq!(codes, [Some(15), Some(15), Some(10), Some(15), Some(11)]);
    let kill = site.status(&killed.run);
    assert_eq!(
        (&kill["state"], &kill["exit"]),
        (&json!("failed"), &json!({ "signal": 9 }))
    );
    assert_eq!(site.status(&waiting.run)["started_at_ms"], Value::Null);
    // The scheduler's own words are kept beside the records.
    let spool = site.run_dir(&limited.run).join("scheduler.out");
    wait_for("the scheduler's words", || {
        read(&spool).contains("=>> PBS: job killed: walltime")
    });
    let again = site.dlrun(&["cancel", &limited.run]);
    assert!(again.status.success(), "{}", text(&again));
}

#[test]
#[ignore = "needs Torque: DLRUN_TEST_TORQUE_BIN, DLRUN_TEST_USER"]
fn elements_of_an_array_are_runs_own() {
    let site = Site::new();
    let handed = site.submit(
        "echo element $DLRUN_ARRAY_INDEX; exit 0",
        "",
        "array = \"1-5:2%2\"\nwalltime = \"5m\"",
    );
    assert!(handed.job.contains("[]."), "{}", handed.job);
    for index in [1, 3, 5] {
        let path = PathBuf::from(
            handed
                .output
                .to_string_lossy()
                .replace("%a", &index.to_string()),
        );
        wait_for("the element's output", || {
            read(&path) == format!("element {index}\n")
        });
        wait_for("its end", || {
            site.run_dir(&handed.run)
                .join(format!("{index}.0/end.json"))
                .exists()
        });
        let mark: Value = serde_json::from_str(&read(
            &site
                .run_dir(&handed.run)
                .join(format!("{index}.0/end.json")),
        ))
        .expect("JSON");
        assert_eq!(
            (&mark["job_id"], &mark["exit_code"]),
            (&json!(handed.job), &json!(0))
        );
    }
    assert_eq!(site.wait(&handed.run), Some(0));
    let many = site.submit("sleep 100", "", "array = \"0-3%1\"\nwalltime = \"5m\"");
    site.until(&many.run, "running");
    let some = site.dlrun(&["cancel", "--element", "2-3", &many.run]);
    assert!(some.status.success(), "{}", text(&some));
    let third = many.job.replace("[]", "[3]");
    wait_for("two elements to go", || {
        let told = site.pbs(false, "qstat", &["-f", "-t", &third]);
        !told.status.success() || text(&told).contains("job_state = C")
    });
    assert_eq!(site.status(&many.run)["state"], "running");
    assert!(site.dlrun(&["cancel", &many.run]).status.success());
    assert_eq!(site.wait(&many.run), Some(15));
}

#[test]
#[ignore = "needs Torque: DLRUN_TEST_TORQUE_BIN, DLRUN_TEST_USER"]
fn two_nodes_have_their_own_outputs_and_exit_codes() {
    let site = Site::new();
    let secret = site.write("secret.env", "SECRET=sesame\n");
    fs::set_permissions(&secret, fs::Permissions::from_mode(0o600)).expect("root may");
    let script = "echo \"epoch 1 0.1s\"; echo $(uname -n) \"$A\" $SECRET; [ \"$(head -n 1 \"$PBS_NODEFILE\" 2> /dev/null)\" = \"$(uname -n)\" ] || exit 4";
    let run = "launcher = \"each\"\nenv = { A = \"x 'y'\" }\nenv_file = \"secret.env\"";
    let handed = site.submit(
        script,
        run,
        "nodes = 2\ntasks_per_node = 2\nwalltime = \"5m\"",
    );
    assert_eq!(site.wait(&handed.run), Some(10));
    let shown = site.show(&handed.run);
    assert_eq!(shown["status"]["exit"], json!({ "code": 4 }), "the highest");
    let nodes = shown["nodes"].as_array().expect("a list");
    assert_eq!(nodes.len(), 2, "{shown}");
    for node in nodes {
        let name = node["node"].as_str().expect("a name");
        let output = read(Path::new(node["output"].as_str().expect("a file")));
        assert_eq!(output, format!("epoch 1 0.1s\n{name} x 'y' sesame\n"));
        assert_eq!(node["progress"]["epochs_completed"], 1);
    }
    let left: Vec<_> = fs::read_dir(site.dir.path())
        .expect("ours")
        .flatten()
        .map(|entry| entry.file_name())
        .collect();
    assert!(
        !left
            .iter()
            .any(|name| name.to_string_lossy().ends_with(".nodes")),
        "{left:?}"
    );
    // Cancelling reaches both. Torque kills what runs on the other node a few milliseconds after its TERM.
    let ticker = site.submit(
        "while sleep 0.1; do echo alive; done",
        "launcher = \"each\"",
        "nodes = 2\nwalltime = \"5m\"",
    );
    let lengths =
        || [0, 1].map(|number| read(&ticker.output.with_extension(format!("{number}.out"))).len());
    wait_for("both to begin", || {
        lengths().iter().all(|length| *length > 0)
    });
    assert!(site.dlrun(&["cancel", &ticker.run]).status.success());
    assert_eq!(site.wait(&ticker.run), Some(15));
    let written = lengths();
    std::thread::sleep(std::time::Duration::from_secs(1));
    assert_eq!(lengths(), written, "one goes on");
}

#[test]
#[ignore = "needs Torque: DLRUN_TEST_TORQUE_BIN, DLRUN_TEST_USER"]
fn mpirun_gets_the_nodes() {
    let site = Site::new();
    fs::create_dir(site.path("fake")).expect("root may");
    let mpirun = site.write(
        "fake/mpirun",
        "#!/bin/bash\necho \"${@:1:2}\"; sort \"$4\" | uniq -c\n",
    );
    fs::set_permissions(&mpirun, fs::Permissions::from_mode(0o755)).expect("root may");
    let path = format!(
        "env = {{ PATH = \"{}:/usr/bin:/bin\" }}",
        site.path("fake").display()
    );
    let handed = site.submit(
        "true",
        &format!("launcher = \"mpi\"\n{path}"),
        "nodes = 2\ntasks_per_node = 2\nwalltime = \"5m\"",
    );
    assert_eq!(site.wait(&handed.run), Some(0));
    let output = read(&handed.output);
    let counts: Vec<&str> = output
        .lines()
        .skip(1)
        .filter_map(|line| line.trim().split(' ').next())
        .collect();
    assert_eq!(
        (output.lines().next(), counts),
        (Some("-np 4"), vec!["2", "2"]),
        "{output}"
    );
}

#[test]
#[ignore = "needs Torque: DLRUN_TEST_TORQUE_BIN, DLRUN_TEST_USER"]
fn a_job_that_is_started_again_is_another_attempt_of_its_run() {
    let site = Site::new();
    let script = "echo begun; [ -e again ] && exit 0; sleep 100";
    let handed = site.submit(script, "", "walltime = \"5m\"");
    wait_for("its first start", || read(&handed.output).contains("begun"));
    fs::write(site.path("again"), "").expect("root may");
    let ran = site.pbs(true, "qrerun", &[&handed.job]);
    assert!(ran.status.success(), "{}", text(&ran));
    wait_for("its second end", || {
        site.run_dir(&handed.run).join("0.1/end.json").exists()
    });
    assert_eq!(site.wait(&handed.run), Some(0));
    assert_eq!(read(&handed.output), "begun\nbegun\n");
}

#[test]
#[ignore = "needs Torque: DLRUN_TEST_TORQUE_BIN, DLRUN_TEST_USER"]
fn refusals_leave_nothing_and_say_why() {
    let site = Site::new();
    for (resources, words) in [
        ("queue = \"nosuch\"", "Unknown queue"),
        (
            "constraint = \"nosuch\"",
            "Job exceeds queue resource limits",
        ),
        ("nodes = 99", "Job exceeds queue resource limits"),
        ("array = \"0-99999\"", "Requested array size too large"),
    ] {
        let launcher = if resources.starts_with("nodes") {
            "launcher = \"each\""
        } else {
            ""
        };
        let text = format!(
            "name = \"job\"\n[run]\ncommand = [\"true\"]\n{launcher}\n[resources]\n{resources}\n"
        );
        let file = site.write("job.toml", &text);
        let output = site.dlrun(&["submit", "--no-check", &file.to_string_lossy()]);
        assert_eq!(
            output.status.code(),
            Some(76),
            "{resources}: {}",
            self::text(&output)
        );
        assert!(
            self::text(&output).contains(words),
            "{resources}: {}",
            self::text(&output)
        );
    }
    assert_eq!(
        fs::read_dir(site.path("state/runs"))
            .expect("it was made")
            .count(),
        0
    );
    let file = site.write("job.toml", "name = \"job\"\n[run]\ncommand = [\"true\"]\n");
    let mut command = site.command(&site.path("dlrun"));
    let output = command
        .args(["submit"])
        .arg(&file)
        .env("PBS_DEFAULT", "localhost:1")
        .output()
        .expect("it runs");
    assert_eq!(output.status.code(), Some(69), "{}", text(&output));
}

#[test]
#[ignore = "needs Torque: DLRUN_TEST_TORQUE_BIN, DLRUN_TEST_USER"]
fn conditions_of_jobs_and_of_arrays_hold() {
    let site = Site::new();
    let first = site.submit(
        "until [ -e go ]; do sleep 0.1; done; exit 1",
        "",
        "walltime = \"5m\"",
    );
    let array = site.submit(
        "until [ -e go ]; do sleep 0.1; done",
        "",
        "array = \"1-2\"\nwalltime = \"5m\"",
    );
    let words = [
        ("after", &first, true),
        ("afterany", &first, true),
        ("afterok", &first, false),
        ("afternotok", &first, true),
        ("afterstartarray", &array, true),
        ("afteranyarray", &array, true),
        ("afterokarray", &array, true),
        ("afternotokarray", &array, false),
    ];
    for (word, target, _) in &words {
        let script = site.write(
            &format!("{word}.sh"),
            &format!("touch {}\n", site.path(word).display()),
        );
        let depend = format!("depend={word}:{}", target.job);
        let taken = site.pbs(
            false,
            "qsub",
            &[
                "-W",
                &depend,
                "-l",
                "nodes=1",
                "-j",
                "oe",
                &script.to_string_lossy(),
            ],
        );
        assert!(taken.status.success(), "{word}: {}", text(&taken));
    }
    fs::write(site.path("go"), "").expect("root may");
    assert_eq!(
        (site.wait(&first.run), site.wait(&array.run)),
        (Some(10), Some(0))
    );
    for (word, _, _) in words.iter().filter(|(_, _, holds)| *holds) {
        wait_for(&format!("{word} to hold"), || site.path(word).exists());
    }
    for (word, _, _) in words.iter().filter(|(_, _, holds)| !*holds) {
        assert!(!site.path(word).exists(), "{word}");
    }
}

#[test]
#[ignore = "needs Torque: DLRUN_TEST_TORQUE_BIN, DLRUN_TEST_USER"]
fn every_option_is_taken_by_the_real_qsub() {
    let site = Site::new();
    for (name, resources, scheduler) in OPTIONS {
        let file = site.write(
            &format!("{name}.toml"),
            &job_file(name, resources, scheduler),
        );
        let rendered = site.dlrun(&["render", &file.to_string_lossy()]);
        assert!(rendered.status.success(), "{name}: {}", text(&rendered));
        let script = site.write(
            &format!("{name}.sh"),
            &String::from_utf8_lossy(&rendered.stdout),
        );
        let taken = site.pbs(false, "qsub", &["-h", &script.to_string_lossy()]);
        assert!(taken.status.success(), "{name}: {}", text(&taken));
        let id = String::from_utf8_lossy(&taken.stdout).trim().to_owned();
        site.pbs(false, "qdel", &[&id]);
    }
}

#[test]
#[ignore = "needs Torque: DLRUN_TEST_TORQUE_BIN, DLRUN_TEST_USER"]
fn a_rendered_script_makes_its_own_run() {
    let site = Site::new();
    let text = "name = \"bare\"\n[run]\ncommand = [\"bash\", \"-c\", \"echo out; exit 7\"]\n[resources]\nwalltime = \"5m\"\n";
    let rendered = site.dlrun(&["render", &site.write("bare.toml", text).to_string_lossy()]);
    let script = site.write("bare.sh", &String::from_utf8_lossy(&rendered.stdout));
    let taken = site.pbs(false, "qsub", &[&script.to_string_lossy()]);
    let id = String::from_utf8_lossy(&taken.stdout).trim().to_owned();
    wait_for("its run", || {
        self::text(&site.dlrun(&["list"])).contains(&id)
    });
    assert_eq!(site.wait(&id), Some(10));
    let shown = site.show(&id);
    assert_eq!(shown["status"]["exit"], json!({ "code": 7 }));
    let number = id.split('.').next().expect("a number");
    assert_eq!(read(&site.path(&format!("bare-{number}.out"))), "out\n");
}

#[test]
#[ignore = "needs Torque: DLRUN_TEST_TORQUE_BIN, DLRUN_TEST_USER"]
fn the_site_is_what_the_server_says() {
    let site = Site::new();
    let told = TORQUE
        .with_commands(Some(site.bin.clone()), std::time::Duration::from_secs(30))
        .site()
        .expect("an answer");
    assert!(
        told.version
            .is_some_and(|version| version.starts_with(|c: char| c.is_ascii_digit()))
    );
    assert!(
        told.queues.iter().filter(|queue| queue.is_default).count() <= 1 && !told.queues.is_empty()
    );
    let server = site.pbs(false, "qstat", &["-B", "-f"]);
    let limit = String::from_utf8_lossy(&server.stdout)
        .lines()
        .find_map(|line| {
            line.trim()
                .strip_prefix("max_job_array_size = ")?
                .parse()
                .ok()
        });
    assert_eq!(told.max_array_elements, limit);
    let nodes: u32 = told.nodes.iter().map(|kind| kind.count).sum();
    let listed = site.pbs(false, "pbsnodes", &["-l", "all"]);
    assert_eq!(
        nodes as usize,
        String::from_utf8_lossy(&listed.stdout).lines().count()
    );
    assert!(
        told.nodes
            .iter()
            .all(|kind| kind.cpus.is_some() && kind.memory.is_some())
    );
}

#[test]
#[ignore = "needs Torque: DLRUN_TEST_TORQUE_BIN, DLRUN_TEST_USER"]
fn converted_scripts_find_what_qsub_gives_them() {
    let scripts = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/fixtures/same/pbs");
    compare(&[
        "--scheduler".as_ref(),
        "torque".as_ref(),
        scripts.as_os_str(),
    ]);
}

#[test]
#[ignore = "needs Torque: DLRUN_TEST_TORQUE_BIN, DLRUN_TEST_USER"]
fn an_array_runs_as_many_elements_as_are_asked_for() {
    Site::new().an_array_runs_as_many_elements_as_are_asked_for();
}

#[test]
#[ignore = "needs Torque: DLRUN_TEST_TORQUE_BIN, DLRUN_TEST_USER"]
fn ranks_of_two_nodes_have_one_table_and_their_own_files() {
    Site::new().ranks_have_one_table();
}

#[test]
#[ignore = "needs Torque: DLRUN_TEST_TORQUE_BIN, DLRUN_TEST_USER"]
fn killed_rank_of_another_node_is_the_cause() {
    Site::new().killed_rank_is_the_cause();
}

#[test]
#[ignore = "needs Torque: DLRUN_TEST_TORQUE_BIN, DLRUN_TEST_USER"]
fn other_node_ends_soon_when_the_first_is_lost() {
    Site::new().other_node_ends_with_the_first();
}

#[test]
#[ignore = "needs Torque: DLRUN_TEST_TORQUE_BIN, DLRUN_TEST_USER"]
fn elastic_run_outlives_its_time_limit() {
    Site::new().elastic_run_outlives_its_time_limit();
}

#[test]
#[ignore = "needs Torque: DLRUN_TEST_TORQUE_BIN, DLRUN_TEST_USER"]
fn cancelled_training_ends_on_all_nodes() {
    Site::new().cancel_ends_all_ranks();
}

#[test]
#[ignore = "needs Torque: DLRUN_TEST_TORQUE_BIN, DLRUN_TEST_USER"]
fn scheduler_knows_no_secret_of_a_training() {
    Site::new().scheduler_knows_no_secret();
}

#[test]
#[ignore = "needs Torque: DLRUN_TEST_TORQUE_BIN, DLRUN_TEST_USER"]
fn two_jobs_on_the_same_nodes_do_not_meet_each_other() {
    Site::new().two_jobs_stay_apart();
}

#[test]
#[ignore = "needs Torque and PyTorch: docs/testing.md"]
fn pytorch_trains_with_equal_weights_on_all_ranks() {
    Site::new().pytorch_trains("ddp");
}

#[test]
#[ignore = "needs Torque and PyTorch: docs/testing.md"]
fn ranks_of_torchrun_follow_the_nodes() {
    Site::new().pytorch_trains("torchrun");
}
