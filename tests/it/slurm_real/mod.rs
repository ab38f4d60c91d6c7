//! dlrun against a real Slurm: what a stand-in for its commands would only repeat.

mod apart;
mod arrays;
mod bench;
pub(crate) mod cluster;
mod comment;
mod containers;
mod convert;
mod daemon;
mod distributed;
mod fit;
mod frameworks;
mod limits;
mod model;
mod mpi;
mod options;
mod plain;
pub(crate) mod resume;
mod site;
mod sweep;
mod tune;
mod waiting;

use std::collections::BTreeSet;
use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::path::Path;
use std::process::{Command, Stdio};
use std::thread::sleep;
use std::time::Duration;

use nix::sys::signal::{Signal, kill};
use nix::unistd::Pid;
use serde_json::{Value, json};

use cluster::{MORTAL_NODE, Submitted, User, argv, conf, mode, processes, sh, until};

/// Three epochs as Keras prints them, half a second each.
const EPOCHS: &str = r#"for e in 1 2 3; do echo "Epoch $e/3"; sleep 0.5; echo "47/47 - 1s - 11ms/step - accuracy: 0.9$e - loss: 0.2$e"; done"#;

/// Writes down every signal that reaches it, and ends a second after a SIGTERM.
const COUNTER: &str = r#"use strict; use IO::Handle;
open(my $file, '>>', shift) or die; $file->autoflush(1);
my $end = time + 60;
for my $name (qw(USR1 TERM)) { $SIG{$name} = sub { print $file "$name\n"; $end = time + 1 if $name eq 'TERM' } }
print $file "ready\n";
while (time < $end) { select(undef, undef, undef, 0.05) }
exit 7;
"#;

fn runs(user: &User) -> usize {
    fs::read_dir(user.state_dir().join("runs")).map_or(0, Iterator::count)
}

fn nodes(shown: &Value) -> Vec<Value> {
    shown["nodes"].as_array().expect("a list").clone()
}

// ------------------------------------------------------------------------------------------------- jobs that end well

#[test]
#[ignore = "needs slurmctld: run tests/run"]
fn a_job_on_one_node_is_followed_from_the_queue_to_its_end() {
    let user = User::new();
    let file = user.job(
        "one",
        &sh(EPOCHS),
        "cpus_per_task = 2\n[workload]\nsamples = 6000\n[scheduler]\narguments = [\"--hold\"]",
    );
    let Submitted { run, job, output } = user.submit(&file);
    let waiting = user.show(&run)["status"].clone();
    assert_eq!(
        (&waiting["state"], &waiting["raw_state"]),
        (&json!("pending"), &json!("PENDING"))
    );
    assert_eq!(waiting["reason"], "JobHeldUser");
    user.run("scontrol", &["release", &job]).ok();
    user.until_state(&run, "running");
    assert_eq!(user.wait(&run), 0);

    let shown = user.show(&run);
    assert_eq!(shown["run"]["job_id"], json!(job));
    assert_eq!(shown["run"]["user"], json!(user.name()));
    assert_eq!(shown["status"]["state"], "completed");
    assert_eq!(shown["status"]["exit"], json!({ "code": 0 }));
    let node = &nodes(&shown)[0];
    assert_eq!(
        (&node["state"], &node["job_id"]),
        (&json!("ended"), &json!(job))
    );
    assert_eq!(node["node"], json!(user.scontrol(&job, "NodeList")));
    assert_eq!(node["progress"]["epochs_completed"], 3, "{node}");
    assert!(
        node["usage"]["wall_seconds"].as_f64().unwrap() >= 1.5,
        "{node}"
    );
    assert!(
        node["usage"]["mem_peak_bytes"].as_u64().unwrap() > 100_000,
        "{node}"
    );
    let epoch = shown["summary"]["epochs"]["steady_seconds"]
        .as_f64()
        .unwrap();
    assert!((0.4..2.0).contains(&epoch), "{shown}");
    assert_eq!(output, user.path(&format!("one-{job}.out")));
    assert!(
        fs::read_to_string(&output)
            .unwrap()
            .starts_with("Epoch 1/3\n")
    );
    assert_eq!(
        user.dlrun(&["logs", &run]).ok(),
        fs::read_to_string(&output).unwrap()
    );
}

#[test]
#[ignore = "needs slurmctld: run tests/run"]
fn two_nodes_have_their_own_outputs_and_records() {
    let user = User::new();
    let script =
        format!("{EPOCHS}; printf '%s has %s' \"$SLURMD_NODENAME\" \"$SLURM_CPUS_PER_TASK\"");
    let file = user.job(
        "two",
        &format!("launcher = \"each\"\n{}", sh(&script)),
        "nodes = 2\ntasks_per_node = 2\ncpus_per_task = 3",
    );
    let Submitted { run, job, .. } = user.submit(&file);
    // From another directory and another shell, while it runs.
    let follow = format!("cd / && exec {} logs -f {run}", user.binary().display());
    let followed = user.shell(&follow).ok();
    assert_eq!(user.wait(&run), 0);

    let shown = user.show(&run);
    let records = nodes(&shown);
    assert_eq!(records.len(), 2, "{shown}");
    let mut hosts = BTreeSet::new();
    for (rank, record) in records.iter().enumerate() {
        let node = record["node"].as_str().unwrap();
        assert_eq!(
            (&record["state"], &record["exit"]),
            (&json!("ended"), &json!({ "code": 0 }))
        );
        assert_eq!(record["progress"]["epochs_completed"], 3, "{record}");
        let output = user.path(&format!("two-{job}.{rank}.out"));
        assert_eq!(record["output"], json!(output));
        let text = fs::read_to_string(&output).unwrap();
        // The one program of a node has the CPUs of both its tasks.
        assert!(
            text.starts_with("Epoch 1/3\n") && text.ends_with(&format!("{node} has 6")),
            "{text}"
        );
        for line in [
            format!("{node}: Epoch 3/3\n"),
            format!("{node}: {node} has 6\n"),
        ] {
            assert!(followed.contains(&line), "{line}{followed}");
        }
        let alone = user.dlrun(&["logs", "--node", node, &run]).ok();
        assert_eq!(alone, text);
        hosts.insert(record["host"]["hostname"].to_string());
    }
    let one_host = Command::new("unshare")
        .args(["--uts", "true"])
        .status()
        .is_ok_and(|status| !status.success());
    assert!(hosts.len() == 2 || one_host, "{hosts:?}");
    assert_eq!(
        user.dlrun(&["logs", &run])
            .ok()
            .matches("Epoch 3/3")
            .count(),
        2
    );
}

#[test]
#[ignore = "needs slurmctld: run tests/run"]
fn resources_are_what_slurm_gives() {
    let user = User::new();
    let file = user.job(
        "asked",
        &argv(&["true"]),
        "nodes = 2\nidle_nodes = 0\ncpus_per_task = 4\nmemory = \"3GiB\"\nwalltime = \"90m\"\nqueue = \"batch\"",
    );
    // The key belongs to [run]; nothing is queued before that is said.
    let refused = user.dlrun(&["submit".as_ref(), file.as_os_str()]);
    assert_eq!((refused.code, runs(&user)), (65, 0), "{refused:?}");
    let file = user.job(
        "asked",
        &format!(
            "idle_nodes = true\nlauncher = \"none\"\n{}",
            argv(&["sleep", "30"])
        ),
        "nodes = 2\ncpus_per_task = 4\nmemory = \"3GiB\"\nwalltime = \"90m\"\nqueue = \"batch\"",
    );
    let Submitted { run, job, .. } = user.submit(&file);
    user.until_state(&run, "running");
    let asked = [
        "JobName",
        "NumNodes",
        "CPUs/Task",
        "NumCPUs",
        "MinMemoryNode",
        "TimeLimit",
        "Partition",
    ];
    let got = asked.map(|field| user.scontrol(&job, field));
    assert_eq!(got, ["asked", "2", "4", "8", "3G", "01:30:00", "batch"]);
    assert_eq!(
        user.scontrol(&job, "WorkDir"),
        user.home().to_string_lossy()
    );
}

#[test]
#[ignore = "needs slurmctld: run tests/run"]
fn variables_of_the_shell_do_not_beat_the_job_file() {
    let mut user = User::new();
    for (name, value) in [
        ("SBATCH_PARTITION", "debug"),
        ("SBATCH_TIMELIMIT", "2"),
        ("SBATCH_JOB_NAME", "other"),
        ("SBATCH_OUTPUT", "/dev/null"),
        ("SBATCH_OPEN_MODE", "truncate"),
        ("SQUEUE_FORMAT", "%u"),
        ("SQUEUE_STATES", "PENDING"),
        ("SLURM_TIME_FORMAT", "relative"),
    ] {
        user.set(name, value);
    }
    let file = user.job(
        "mine",
        &sh("echo here; sleep 2"),
        "queue = \"batch\"\nwalltime = \"20m\"",
    );
    let submitted = user.submit(&file);
    user.until_state(&submitted.run, "running");
    let got =
        ["JobName", "TimeLimit", "Partition"].map(|field| user.scontrol(&submitted.job, field));
    assert_eq!(got, ["mine", "00:20:00", "batch"]);
    assert_eq!(user.wait(&submitted.run), 0);
    assert_eq!(submitted.text(), "here\n");
}

/// Prints its arguments and the variables `NASTY_*`, with NUL between.
const REVEAL: &str =
    r#"print join("\0", @ARGV, map { "$_=$ENV{$_}" } sort grep { /^NASTY_/ } keys %ENV), "\0";"#;

#[test]
#[ignore = "needs slurmctld: run tests/run"]
fn hostile_words_arrive_byte_for_byte() {
    let nasty = [
        "it's \"quoted\"",
        "$(touch pwned) `touch pwned` ${HOME} $1",
        "two\nlines\n#SBATCH --uid=0",
        "a,b=c;d|e&f>g<h*?[x]~!#{}%j\\n\\",
        "",
        " leading and trailing ",
        "häß 火 \u{1f600} \u{1b}[31m\ttab",
        "--kill-on-bad-exit",
    ];
    let user = User::new();
    user.write("reveal.pl", REVEAL);
    let env: Vec<String> = nasty
        .iter()
        .enumerate()
        .map(|(i, value)| format!("NASTY_{i} = {}", json!(value)))
        .collect();
    let words: Vec<&str> = ["perl", "reveal.pl"].into_iter().chain(nasty).collect();
    for (name, launcher, nodes) in [("plain", "none", 1), ("spread", "each", 2)] {
        let run = format!(
            "launcher = \"{launcher}\"\nenv = {{ {} }}\n{}",
            env.join(", "),
            argv(&words)
        );
        let submitted = user.submit(&user.job(name, &run, &format!("nodes = {nodes}")));
        assert_eq!(user.wait(&submitted.run), 0, "{}", submitted.text());
        let outputs = match nodes {
            1 => vec![submitted.output],
            _ => (0..nodes)
                .map(|rank| user.path(&format!("{name}-{}.{rank}.out", submitted.job)))
                .collect(),
        };
        let expected: Vec<String> = nasty
            .iter()
            .map(|word| (*word).to_owned())
            .chain(
                nasty
                    .iter()
                    .enumerate()
                    .map(|(i, value)| format!("NASTY_{i}={value}")),
            )
            .collect();
        for output in outputs {
            let text = fs::read_to_string(&output).unwrap();
            let got: Vec<&str> = text
                .strip_suffix('\0')
                .unwrap_or(&text)
                .split('\0')
                .collect();
            assert_eq!(got, expected, "{name}");
        }
    }
    assert!(!user.path("pwned").exists());
}

#[test]
#[ignore = "needs slurmctld: run tests/run"]
fn secrets_reach_the_job_and_no_other_place() {
    let user = User::new();
    let secret = "s3cr3t'\"$(id)";
    let path = user.write(
        "secrets.env",
        &format!("# keys\n\nAPI_KEY={secret}\nEMPTY=\n"),
    );
    let run = format!(
        "env_file = \"secrets.env\"\n{}",
        sh("printf %s \"$API_KEY\" | cksum; echo \"[${EMPTY-unset}]\"; sleep 2")
    );
    let file = user.job("secret", &run, "");
    let open = user.dlrun(&["submit".as_ref(), file.as_os_str()]);
    assert_eq!(
        (open.code, runs(&user)),
        (66, 0),
        "others can read it: {open:?}"
    );
    fs::set_permissions(&path, fs::Permissions::from_mode(0o600)).unwrap();
    let submitted = user.submit(&file);
    user.until_state(&submitted.run, "running");
    let known = user.run("scontrol", &["show", "job", &submitted.job]).ok();
    assert_eq!(user.wait(&submitted.run), 0, "{}", submitted.text());
    let sum = user
        .shell("printf %s \"$(grep ^API_KEY= secrets.env | cut -d= -f2-)\" | cksum")
        .ok();
    assert_eq!(submitted.text(), format!("{sum}[]\n"));
    let found = user.run("grep", &["-rlF", "s3cr3t", "."]).ok();
    assert_eq!(found, "./secrets.env\n");
    assert!(!known.contains("s3cr3t"));
    // Somebody opens it up while the job waits: the job says so and does not run.
    let held = user.submit(&user.job("late", &run, "[scheduler]\narguments = [\"--hold\"]"));
    fs::set_permissions(&path, fs::Permissions::from_mode(0o644)).unwrap();
    user.run("scontrol", &["release", &held.job]).ok();
    assert_eq!(user.dlrun(&["wait", "--passthrough", &held.run]).code, 77);
    assert!(
        held.text().contains("can be read by others"),
        "{}",
        held.text()
    );
}

// ------------------------------------------------------------------------------------------------- render | sbatch

#[test]
#[ignore = "needs slurmctld: run tests/run"]
fn a_rendered_script_is_what_submit_hands_over_and_records_itself() {
    let user = User::new();
    let file = user.job("piped", &sh(EPOCHS), "cpus_per_task = 2");
    let shown = file.display();
    let dlrun = user.binary().display();
    let script = user.shell(&format!("{dlrun} render {shown}")).ok();
    let submitted = user.submit(&file);
    let handed_over = fs::read_to_string(user.run_dir(&submitted.run).join("job.sh")).unwrap();
    assert_eq!(
        script,
        handed_over.replacen(&format!("\nexport DLRUN_RUN_ID={}\n", submitted.run), "", 1)
    );
    let kept = user
        .run("scontrol", &["write", "batch_script", &submitted.job, "-"])
        .ok();
    assert_eq!(
        kept.trim_end(),
        handed_over.trim_end(),
        "Slurm has other bytes"
    );

    let piped = user
        .shell(&format!("{dlrun} render {shown} | sbatch --parsable"))
        .ok();
    let job = piped.trim();
    let own = until("the piped job's run", 60, || {
        user.list()
            .into_iter()
            .find(|row| row["job_id"] == json!(job))
    });
    let run = own["run_id"].as_str().unwrap();
    assert_ne!(run, submitted.run);
    assert_eq!(user.dlrun(&["wait", run, &submitted.run]).code, 0);
    assert_eq!(user.list().len(), 2);
    let shown = user.show(job);
    assert_eq!(
        (&shown["run"]["run_id"], &shown["run"]["name"]),
        (&json!(run), &json!("piped"))
    );
    assert_eq!(nodes(&shown)[0]["progress"]["epochs_completed"], 3);
    assert_eq!(
        shown["run"]["output"],
        json!(user.path(&format!("piped-{job}.out")))
    );
    assert_eq!(user.dlrun(&["logs", run]).ok().matches("Epoch").count(), 3);
}

// ------------------------------------------------------------------------------------------------- jobs that fail

#[test]
#[ignore = "needs slurmctld: run tests/run"]
fn exit_codes_are_the_jobs_own() {
    let user = User::new();
    for code in [3, 200, 128 + 15] {
        let submitted = user.submit(&user.job("fails", &sh(&format!("exit {code}")), ""));
        assert_eq!(user.wait(&submitted.run), 10);
        assert_eq!(
            user.dlrun(&["wait", "--passthrough", &submitted.run]).code,
            code
        );
        let text = user.dlrun(&["show", &submitted.run]).ok();
        assert!(text.contains(&format!("exit code {code}")), "{text}");
    }
    // On two nodes the worst counts, and the other node's work is not cut off.
    let run = format!(
        "launcher = \"each\"\n{}",
        sh("[ \"$SLURM_PROCID\" = 0 ] && exit 5; sleep 2; echo whole; exit 0")
    );
    let submitted = user.submit(&user.job("half", &run, "nodes = 2"));
    assert_eq!(
        user.dlrun(&["wait", "--passthrough", &submitted.run]).code,
        5
    );
    assert_eq!(
        user.read(&format!("half-{}.1.out", submitted.job)),
        "whole\n"
    );
    let exits: Vec<Value> = nodes(&user.show(&submitted.run))
        .iter()
        .map(|node| node["exit"].clone())
        .collect();
    assert_eq!(exits, [json!({ "code": 5 }), json!({ "code": 0 })]);
}

#[test]
#[ignore = "needs slurmctld: run tests/run"]
fn a_killed_command_is_told_from_one_that_exits() {
    let user = User::new();
    let submitted = user.submit(&user.job("crash", &sh("kill -SEGV $$"), ""));
    assert_eq!(
        user.dlrun(&["wait", "--passthrough", &submitted.run]).code,
        139
    );
    let shown = user.show(&submitted.run);
    assert_eq!(nodes(&shown)[0]["exit"], json!({ "signal": 11 }));
    assert!(
        user.dlrun(&["show", &submitted.run])
            .ok()
            .contains("SIGSEGV")
    );
}

#[test]
#[ignore = "needs slurmctld: run tests/run"]
fn a_refused_job_leaves_nothing_behind() {
    let user = User::new();
    let file = user.job("refused", &argv(&["true"]), "queue = \"nosuch\"");
    let held_back = user.dlrun(&["submit".as_ref(), file.as_os_str()]);
    assert_eq!(held_back.code, 65, "{held_back:?}");
    assert!(
        held_back.stderr.contains("no queue `nosuch`"),
        "{held_back:?}"
    );
    let refused = user.dlrun(&["submit".as_ref(), "--no-check".as_ref(), file.as_os_str()]);
    assert_eq!(refused.code, 76, "{refused:?}");
    assert!(
        refused
            .stderr
            .contains("invalid partition specified: nosuch"),
        "{refused:?}"
    );
    assert!(
        refused
            .stderr
            .contains("the site has batch (up to 168h), debug"),
        "{refused:?}"
    );
    assert_eq!(runs(&user), 0);
    assert_eq!(user.list(), Vec::<Value>::new());

    let checked = user.dlrun(&["check".as_ref(), file.as_os_str()]);
    assert_eq!(checked.code, 65, "{checked:?}");
    let file = user.job("fine", &argv(&["true"]), "queue = \"batch\"");
    let checked = user.dlrun(&["check".as_ref(), file.as_os_str()]).ok();
    assert!(
        checked.contains("slurm says: it would start at"),
        "{checked}"
    );
    assert_eq!(runs(&user), 0);
    let queued = user
        .run(
            "squeue",
            &[
                "--noheader",
                "--user",
                user.name(),
                "--name",
                "fine,refused",
            ],
        )
        .ok();
    assert_eq!(queued, "");
}

#[test]
#[ignore = "needs slurmctld: run tests/run"]
fn a_controller_that_is_down_is_never_replaced_by_this_machine() {
    let mut user = User::new();
    let file = user.job("nobody", &sh("touch ran"), "");
    let finished = user.submit(&file);
    assert_eq!(user.wait(&finished.run), 0);
    fs::remove_file(user.path("ran")).unwrap();

    let text = fs::read_to_string(conf()).unwrap();
    let dead: Vec<&str> = text
        .lines()
        .map(|line| {
            if line.starts_with("SlurmctldPort=") {
                "SlurmctldPort=1"
            } else {
                line
            }
        })
        .collect();
    let dead = user.write(
        "slurm.conf",
        &format!("{}\nMessageTimeout=2\n", dead.join("\n")),
    );
    user.set("SLURM_CONF", &dead.to_string_lossy());
    let down = user.dlrun(&["submit".as_ref(), file.as_os_str()]);
    assert_eq!(down.code, 69, "{down:?}");
    assert!(
        down.stderr.contains("Unable to contact slurm controller"),
        "{down:?}"
    );
    assert_eq!(
        (runs(&user), user.path("ran").exists()),
        (1, false),
        "nothing is queued and nothing ran"
    );
    // What the files say is still told.
    let shown = user.dlrun(&["--json", "show", &finished.run]);
    assert!(
        shown.stderr.contains("states are those last heard of"),
        "{shown:?}"
    );
    assert_eq!(shown.result()["status"]["state"], "completed");
}

// ------------------------------------------------------------------------------------------------- signals and ends

/// Starts the counter under a launcher; returns the run and the files its nodes write to.
fn counting(user: &User, launcher: &str, nodes: u32) -> (Submitted, Vec<String>) {
    user.write("counter.pl", COUNTER);
    let command = sh("exec perl counter.pl \"got.$SLURMD_NODENAME\"");
    let run = format!("launcher = \"{launcher}\"\n{command}");
    let submitted = user.submit(&user.job("counting", &run, &format!("nodes = {nodes}")));
    let files = until("the program to be ready", 60, || {
        let entries = fs::read_dir(user.home())
            .expect("the home is there")
            .flatten();
        let names = entries.filter_map(|entry| entry.file_name().into_string().ok());
        let ready: Vec<String> = names
            .filter(|name| name.starts_with("got.") && user.read(name) == "ready\n")
            .collect();
        (ready.len() == nodes as usize).then_some(ready)
    });
    (submitted, files)
}

fn count(user: &User, file: &str, signal: &str) -> usize {
    user.read(file)
        .lines()
        .filter(|line| *line == signal)
        .count()
}

/// Sends a signal some times, far enough apart to be counted, and compares.
fn each_arrives_once(user: &User, files: &[String], scancel: &[&str]) {
    let before: Vec<usize> = files.iter().map(|file| count(user, file, "USR1")).collect();
    for sent in 1..=5 {
        user.run("scancel", scancel).ok();
        let got = || -> Vec<usize> {
            files
                .iter()
                .zip(&before)
                .map(|(file, before)| count(user, file, "USR1") - before)
                .collect()
        };
        until("the signal", 20, || {
            got().iter().all(|got| *got >= sent).then_some(())
        });
        sleep(Duration::from_millis(300));
        assert_eq!(got(), vec![sent; files.len()], "{scancel:?}");
    }
}

#[test]
#[ignore = "needs slurmctld: run tests/run"]
fn a_signal_arrives_exactly_once_on_one_node() {
    let user = User::new();
    let (submitted, files) = counting(&user, "none", 1);
    each_arrives_once(&user, &files, &["--batch", "--signal=USR1", &submitted.job]);
    each_arrives_once(&user, &files, &["--full", "--signal=USR1", &submitted.job]);
    assert_eq!(user.dlrun(&["cancel", &submitted.run]).code, 0);
    assert_eq!(user.wait(&submitted.run), 15);
    assert_eq!(count(&user, &files[0], "TERM"), 1);
    assert_eq!(
        nodes(&user.show(&submitted.run))[0]["exit"],
        json!({ "code": 7 }),
        "it had its second to end"
    );
}

#[test]
#[ignore = "needs slurmctld: run tests/run"]
fn a_signal_arrives_exactly_once_on_every_node() {
    let user = User::new();
    let (submitted, files) = counting(&user, "each", 2);
    each_arrives_once(&user, &files, &["--signal=USR1", &submitted.job]);
    each_arrives_once(&user, &files, &["--batch", "--signal=USR1", &submitted.job]);
    assert_eq!(user.dlrun(&["cancel", &submitted.run]).code, 0);
    assert_eq!(user.wait(&submitted.run), 15);
    assert_eq!(
        [
            count(&user, &files[0], "TERM"),
            count(&user, &files[1], "TERM")
        ],
        [1, 1]
    );
}

#[test]
#[ignore = "needs slurmctld: run tests/run"]
fn a_waiting_job_can_be_cancelled() {
    let user = User::new();
    let file = user.job(
        "later",
        &sh("touch ran"),
        "[scheduler]\narguments = [\"--begin=now+1hour\"]",
    );
    let submitted = user.submit(&file);
    assert_eq!(user.show(&submitted.run)["status"]["reason"], "BeginTime");
    let told = user.dlrun(&["--json", "cancel", &submitted.run]).result();
    assert_eq!(told["runs"][0]["state_before"], "pending");
    assert_eq!(user.wait(&submitted.run), 15);
    // A second time is no error, and changes nothing.
    let told = user.dlrun(&["--json", "cancel", &submitted.run]).result();
    assert_eq!(told["runs"][0]["asked"], false);
    assert!(!user.path("ran").exists());
    let missing = user.dlrun(&["cancel", "nosuchrun"]);
    assert_eq!(missing.code, 66, "{missing:?}");
}

// ------------------------------------------------------------------------------------------------- requeue

/// Runs once in vain, and to its end when it is started again.
const AGAIN: &str = r#"echo "start ${SLURM_RESTART_COUNT:-0} of $DLRUN_RUN_ID"; [ -n "$SLURM_RESTART_COUNT" ] || sleep 120; echo over"#;

/// Requeues the running job and watches its states until it is over.
fn requeued(user: &User, run: &str, job: &str, output: &Path) {
    until("the first start's output", 60, || {
        fs::read_to_string(output)
            .ok()
            .filter(|text| text.contains("start 0"))
            .map(drop)
    });
    // Slurm's times are whole seconds.
    sleep(Duration::from_secs(3));
    user.run("scontrol", &["requeue", job]).ok();
    let mut states = Vec::new();
    until("the second start's end", 90, || {
        let state = user.state(run);
        let over = ["completed", "failed", "cancelled"].contains(&state.as_str());
        if states.last() != Some(&state) {
            states.push(state);
        }
        over.then_some(())
    });
    // A look may be too early or too late to see it run, but it never seems to have failed in between.
    let seen: Vec<&str> = states.iter().map(String::as_str).collect();
    let brief = seen.strip_prefix(&["running"]).unwrap_or(&seen);
    assert!(
        matches!(
            brief,
            ["pending", "running", "completed"] | ["pending", "completed"]
        ),
        "{states:?}"
    );
    let shown = user.show(run);
    assert_eq!(shown["attempt"], 1);
    let dir = user.run_dir(run);
    assert!(dir.join("0.0/end.json").is_file() && dir.join("0.1/end.json").is_file());
    let log = fs::read_to_string(output).expect("the output is there");
    let first = log
        .find(&format!("start 0 of {run}"))
        .expect("the first start's line is kept");
    let second = log
        .find(&format!("start 1 of {run}"))
        .expect("the same run id");
    assert!(first < second && log.trim_end().ends_with("over"), "{log}");
    assert_eq!(user.list().len(), 1);
    assert!(user.dlrun(&["show", run]).ok().contains("it was requeued"));
}

#[test]
#[ignore = "needs slurmctld: run tests/run"]
fn a_requeued_job_goes_on_as_the_same_run() {
    let user = User::new();
    let submitted = user.submit(&user.job("again", &sh(AGAIN), ""));
    let mut waiting = user
        .command(user.binary())
        .args(["wait", &submitted.run])
        .stderr(Stdio::null())
        .spawn()
        .unwrap();
    requeued(&user, &submitted.run, &submitted.job, &submitted.output);
    assert_eq!(
        waiting.wait().unwrap().code(),
        Some(0),
        "the wait spans both starts"
    );
}

#[test]
#[ignore = "needs slurmctld: run tests/run"]
fn a_requeued_job_that_was_piped_keeps_its_run_id() {
    let user = User::new();
    let file = user.job("pipedagain", &sh(AGAIN), "");
    let render = format!(
        "{} render {} | sbatch --parsable",
        user.binary().display(),
        file.display()
    );
    let job = user.shell(&render).ok().trim().to_owned();
    let run = until("the run", 60, || {
        Some(user.list().first()?["run_id"].as_str()?.to_owned())
    });
    let output = user.path(&format!("pipedagain-{job}.out"));
    requeued(&user, &run, &job, &output);
}

// ------------------------------------------------------------------------------------------------- many, and others

#[test]
#[ignore = "needs slurmctld: run tests/run"]
fn many_runs_are_waited_for_with_one_question_a_round() {
    let mut user = User::new();
    let file = user.job("many", &argv(&["sleep", "4"]), "");
    let runs: Vec<String> = (0..5).map(|_| user.submit(&file).run).collect();
    // The user's own squeue, which keeps a log of its questions.
    let tools = user.path("tools");
    fs::create_dir(&tools).unwrap();
    let log = user.write("questions", "");
    let squeue = user.write(
        "tools/squeue",
        &format!("#!/bin/sh\nprintf '%s %s\\n' \"$(date +%s%N)\" \"$*\" >> {}\nPATH=/usr/local/bin:/usr/bin:/bin exec squeue \"$@\"\n", log.display()),
    );
    fs::set_permissions(&squeue, fs::Permissions::from_mode(0o755)).unwrap();
    user.set("DLRUN_SLURM__BIN_DIR", &tools.to_string_lossy());
    let mut arguments = vec!["wait".to_owned()];
    arguments.extend(runs.iter().cloned());
    assert_eq!(user.dlrun(&arguments).code, 0);
    let questions = user.read("questions");
    let times: Vec<u64> = questions
        .lines()
        .map(|line| line.split(' ').next().unwrap().parse::<u64>().unwrap() / 1_000_000)
        .collect();
    assert!((2..=6).contains(&times.len()), "{questions}");
    // The first names all five; nobody asks twice within a round, which takes a second at least.
    assert_eq!(
        questions.lines().next().unwrap().matches(',').count(),
        4,
        "{questions}"
    );
    assert!(
        times.windows(2).all(|pair| pair[1] - pair[0] >= 900),
        "{questions}"
    );
    assert!(user.list().iter().all(|row| row["state"] == "completed"));
}

/// A sweep that takes it for lost would submit its trial again.
#[test]
#[ignore = "needs slurmctld: run tests/run"]
fn a_job_that_waits_is_found_though_its_client_was_killed() {
    let mut user = User::new();
    fs::create_dir(user.path("tools")).unwrap();
    let sbatch = user.write(
        "tools/sbatch",
        "#!/bin/sh\nPATH=/usr/bin:/bin sbatch \"$@\" > /dev/null\nkill -9 $PPID\n",
    );
    fs::set_permissions(&sbatch, fs::Permissions::from_mode(0o755)).unwrap();
    let path = format!(
        "{}:/usr/local/bin:/usr/bin:/bin",
        user.path("tools").display()
    );
    user.set("PATH", &path);
    let later = "begin = \"2100-01-01T00:00\"";
    for (name, rest) in [("unheard", ""), ("unheard-array", "array = \"0-3\"")] {
        let file = user.job(name, &argv(&["true"]), &format!("{later}\n{rest}"));
        assert_ne!(user.dlrun(&["submit".as_ref(), file.as_os_str()]).code, 0);
        let row = user.list().remove(0);
        let job = user
            .shell(&format!("squeue --me --noheader --name={name} --format=%F"))
            .ok();
        assert_eq!(
            (row["state"].as_str(), row["job_id"].as_str()),
            (Some("pending"), Some(job.trim()))
        );
        let run = row["run_id"].as_str().expect("an id");
        assert_eq!(user.dlrun(&["cancel", run]).code, 0);
        user.until_state(run, "cancelled");
    }
}

#[test]
#[ignore = "needs slurmctld: run tests/run"]
fn two_users_do_not_see_each_other() {
    let (user, root) = (User::new(), User::named("root"));
    let theirs = user.submit(&user.job("theirs", &argv(&["true"]), ""));
    let ours = root.submit(&root.job("ours", &argv(&["true"]), ""));
    assert_eq!((user.wait(&theirs.run), root.wait(&ours.run)), (0, 0));
    for (me, run, other) in [(&user, &theirs, &ours), (&root, &ours, &theirs)] {
        let names: Vec<Value> = me.list().iter().map(|row| row["run_id"].clone()).collect();
        assert_eq!(names, [json!(run.run)]);
        assert_eq!(me.dlrun(&["show", &other.run]).code, 66);
        assert_eq!(me.dlrun(&["cancel", &other.job]).code, 66);
        let open = me
            .shell("find .local -type d ! -perm 700 -o -type f -perm /077")
            .ok();
        assert_eq!(open, "", "only the owner may read records");
    }
    assert_eq!(mode(&user.state_dir()), 0o700);
    let state_dir = root.state_dir();
    let peeping = user.dlrun(&[
        "--state-dir".as_ref(),
        state_dir.as_os_str(),
        "list".as_ref(),
    ]);
    assert!([73, 77].contains(&peeping.code), "{peeping:?}");
    // Nor does root trust a directory that somebody else could have filled.
    let state_dir = user.state_dir();
    let trusting = root.dlrun(&[
        "--state-dir".as_ref(),
        state_dir.as_os_str(),
        "list".as_ref(),
    ]);
    assert_eq!(trusting.code, 77, "{trusting:?}");
}

// ------------------------------------------------------------------------------------------------- broken nodes

#[test]
#[ignore = "needs slurmctld: run tests/run"]
fn a_watcher_that_is_killed_on_a_node_leaves_a_gap_and_no_more() {
    let user = User::new();
    let submitted =
        user.submit(&user.job("watched", &sh(&format!("sleep 3; {EPOCHS}; sleep 2")), ""));
    let watcher = until("the watcher", 60, || {
        processes(&submitted.run, "exec-watch").first().copied()
    });
    sleep(Duration::from_millis(1500));
    kill(Pid::from_raw(watcher), Signal::SIGKILL).unwrap();
    assert_eq!(user.wait(&submitted.run), 0);
    let shown = user.show(&submitted.run);
    let node = &nodes(&shown)[0];
    assert_eq!(
        (&node["state"], &node["progress"]["epochs_completed"]),
        (&json!("ended"), &json!(3)),
        "{node}"
    );
    assert_eq!(node["gaps"].as_array().unwrap().len(), 1, "{node}");
    assert!(
        user.dlrun(&["show", &submitted.run])
            .ok()
            .contains("the watcher was killed")
    );
    until("all processes to end", 20, || {
        processes(&submitted.run, "").is_empty().then_some(())
    });
}

#[test]
#[ignore = "needs slurmctld: run tests/run"]
fn a_supervisor_that_is_killed_on_a_node_fails_the_run_and_keeps_its_record() {
    let user = User::new();
    let submitted = user.submit(&user.job("unwatched", &sh(&format!("{EPOCHS}; sleep 60")), ""));
    until("three epochs on record", 60, || {
        let shown = user.show(&submitted.run);
        (nodes(&shown).first()?["progress"]["epochs_completed"] == 3).then_some(())
    });
    let supervisor = *processes(&submitted.run, "exec")
        .iter()
        .find(|pid| {
            let words = fs::read(format!("/proc/{pid}/cmdline")).unwrap_or_default();
            words.split(|byte| *byte == 0).nth(1) == Some(b"exec")
        })
        .expect("a supervisor");
    kill(Pid::from_raw(supervisor), Signal::SIGKILL).unwrap();
    assert_eq!(
        user.dlrun(&["wait", "--passthrough", &submitted.run]).code,
        137
    );
    // The watcher writes this a moment later; where Slurm kills it with the job, the last record stays and says so.
    let shown = until("the end of the record", 20, || {
        let text = user.dlrun(&["show", &submitted.run]).ok();
        text.contains("the record ends at")
            .then(|| user.show(&submitted.run))
    });
    let node = &nodes(&shown)[0];
    assert!(matches!(
        node["state"].as_str(),
        Some("interrupted" | "running")
    ));
    assert_eq!(node["progress"]["epochs_completed"], 3);
    // Where the cluster has cgroups, Slurm ends the orphaned command, else the watcher does.
    until("all processes to end", 20, || {
        processes(&submitted.run, "").is_empty().then_some(())
    });
}

/// Brings the node back, whatever happened.
struct Mortal;

impl Mortal {
    fn cluster(verb: &str) {
        cluster::cluster(&["node", verb, MORTAL_NODE]);
    }
}

impl Drop for Mortal {
    fn drop(&mut self) {
        Self::cluster("start");
    }
}

/// Lets the node of a job die; returns the exit code of `wait`. Slurm needs `SlurmdTimeout` and a round to notice.
pub(crate) fn let_a_node_die() {
    let user = User::new();
    let text = format!(
        "[run]\n{}\n[resources]\nnodelist = \"{MORTAL_NODE}\"\n[scheduler]\narguments = [\"--no-requeue\"]\n",
        sh("echo begun; sleep 300")
    );
    let submitted = user.submit(&user.write("dies.toml", &text));
    until("the job's output", 60, || {
        (submitted.text() == "begun\n").then_some(())
    });
    until("a record", 20, || {
        (!nodes(&user.show(&submitted.run)).is_empty()).then_some(())
    });
    let node = Mortal;
    Mortal::cluster("kill");
    assert_eq!(
        user.state(&submitted.run),
        "running",
        "nobody has noticed yet"
    );
    assert_eq!(user.wait(&submitted.run), 14);
    let shown = user.show(&submitted.run);
    assert_eq!(shown["status"]["state"], "node_fail");
    assert_eq!(
        nodes(&shown)[0]["state"],
        "running",
        "the record ends where the node did"
    );
    drop(node);
}

/// Lets a job run into its time limit.
pub(crate) fn run_into_the_time_limit() {
    let user = User::new();
    let run = sh("trap 'echo saved; exit 9' TERM; echo begun; while :; do sleep 0.2; done");
    let submitted = user.submit(&user.job("long", &run, "walltime = \"1m\""));
    assert_eq!(user.wait(&submitted.run), 11);
    let shown = user.show(&submitted.run);
    assert_eq!(
        (&shown["status"]["state"], &shown["status"]["raw_state"]),
        (&json!("timeout"), &json!("TIMEOUT"))
    );
    assert_eq!(
        nodes(&shown)[0]["exit"],
        json!({ "code": 9 }),
        "it had its time to end"
    );
    let text = submitted.text();
    assert_eq!(text.matches("saved").count(), 1, "{text}");
}

#[test]
#[ignore = "needs slurmctld: run tests/run"]
fn missing_variables_are_no_quiet_success() {
    let program = std::env::current_exe().unwrap();
    let mut command = Command::new(program);
    command.args([
        "--ignored",
        "--exact",
        "slurm_real::a_killed_command_is_told_from_one_that_exits",
    ]);
    command
        .env_remove("DLRUN_TEST_SLURM_CONF")
        .env_remove("DLRUN_TEST_USER");
    let output = command.output().unwrap();
    let text = String::from_utf8_lossy(&output.stdout).into_owned()
        + &String::from_utf8_lossy(&output.stderr);
    assert!(
        !output.status.success() && text.contains("tests/run"),
        "{text}"
    );
}
