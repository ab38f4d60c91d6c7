//! `dlrund` beside a real Slurm that tracks its jobs with cgroups: it finds them, and what it measures is what was used.

use std::fs::{self, Permissions};
use std::os::unix::fs::PermissionsExt;

use dlrun::record::Sample;
use serde_json::json;

use super::cluster::{SHARED_DIR, Submitted, User, argv, conf, sh, until};
use super::nodes;
use crate::support::recorded::rows;
use crate::support::{Dlrund, RawClient, TestEnv, recorded, skip, tell};

/// What the program below uses, in bytes. Its CPU time it writes down itself, in `used` and `used.orphan`.
const HELD_BYTES: u64 = 512 << 20;
const WRITTEN_BYTES: u64 = 64 << 20;

/// A child burns 3 s and ends; a grandchild in a session of its own is left to whoever takes orphans, burns 3 s and stays;
/// the program burns 3 s, holds memory, writes and waits for the file `go`.
const WORK: &str = r#"use strict; use POSIX; use IO::Handle; $| = 1;
sub burn { my $until = shift; my @t; do { my $x = 0; $x += $_ for 1..10000; @t = times } while $t[0] + $t[1] < $until }
sub used { my @t = times; open(my $f, '>', shift); print $f $t[0] + $t[1] + $t[2] + $t[3]; close $f }
sub wait_for { my $file = shift; select(undef, undef, undef, 0.05) until -e $file }
print "Epoch 1/2\n";
wait_for('begin');
if (!(my $pid = fork)) { burn(3); exit 0 } else { waitpid($pid, 0) }
if (!(my $pid = fork)) {
    setsid();
    if (!fork) { burn(3); open(my $f, '>', 'orphan'); print $f getppid(), "\n"; close $f; wait_for('go'); used('used.orphan'); exit 0 }
    exit 0;
} else { waitpid($pid, 0) }
burn(3);
open(my $f, '>', 'written') or die;
my $piece = 'x' x 1048576;
syswrite($f, $piece) for 1..64;
$f->sync; close $f;
my $held = ''; vec($held, (512 << 20) - 1, 8) = 1;
wait_for('orphan');
open($f, '>', 'ready'); close $f;
wait_for('go');
print "47/47 - 1s - 11ms/step - loss: 0.5\nEpoch 2/2\n47/47 - 1s - 11ms/step - loss: 0.4\n";
wait_for('used.orphan');
used('used');
"#;

/// A user whose jobs find a daemon that runs as root. `None`: the cluster has no cgroups, which is said.
fn with_daemon() -> Option<(User, Dlrund, TestEnv)> {
    if !conf().with_file_name("cgroups").exists() {
        skip("Slurm has no cgroups on this machine");
        return None;
    }
    // The nodes may have a /tmp of their own.
    let env = TestEnv::within(SHARED_DIR.as_ref());
    // What lies in it for others is the socket.
    fs::set_permissions(env.root(), Permissions::from_mode(0o711)).expect("it is ours");
    let daemon = Dlrund::start(&env, "");
    fs::set_permissions(env.root().join("node"), Permissions::from_mode(0o750))
        .expect("it is ours");
    let mut user = User::new();
    user.set(
        "DLRUN_MONITOR__DAEMON_SOCKET",
        &daemon.socket().to_string_lossy(),
    );
    Some((user, daemon, env))
}

/// The series of a node in the run's directory.
fn series(user: &User, run: &str, node: &str) -> Vec<Sample> {
    recorded::series(&user.run_dir(run).join("0.0").join(format!("{node}.0")))
}

fn is_within(measured: f64, truth: f64, share: f64) -> bool {
    (measured - truth).abs() <= truth * share
}

fn go(user: &User, name: &str) {
    user.write(name, "");
}

fn is_adopted(user: &User, run: &str) -> Option<()> {
    recorded::is_adopted(&user.run_dir(run)).then_some(())
}

#[test]
#[ignore = "needs slurmctld: run tests/run"]
fn what_is_measured_of_a_job_is_what_it_used() {
    let Some((user, mut daemon, _env)) = with_daemon() else {
        return;
    };
    let submitted =
        user.submit(&user.job("known", &argv(&["perl", "-e", WORK]), "memory = \"2GiB\""));
    let Submitted { run, job, .. } = submitted;
    until("the daemon to watch it", 60, || is_adopted(&user, &run));
    let before = std::time::SystemTime::now();
    go(&user, "begin");
    until("all to be used", 120, || {
        user.path("ready").exists().then_some(())
    });
    let used = std::time::SystemTime::now();
    // Samples of it as it is now. On a busy machine the kernel's sums of a cgroup lag: they are brought up to date by one reader
    // at a time and, without one, every two seconds.
    until("samples of it", 20, || {
        (used.elapsed().ok()?.as_millis() > 6000).then_some(())
    });
    let over = std::time::SystemTime::now();
    go(&user, "go");
    assert_eq!(user.wait(&run), 0);

    let shown = user.show(&run);
    let node = &nodes(&shown)[0];
    let name = node["node"].as_str().expect("a name");
    let cgroup = node["cgroup"].as_str().expect("a cgroup").to_owned();
    assert!(
        cgroup.ends_with(&format!("/uid_{}/job_{job}", user.uid())) && cgroup.starts_with("/slurm"),
        "{cgroup}"
    );
    let usage = &node["usage"];
    let truth: f64 = ["used", "used.orphan"]
        .map(|name| user.read(name).parse::<f64>().unwrap())
        .iter()
        .sum();
    let cpu =
        usage["cpu_user_seconds"].as_f64().unwrap() + usage["cpu_system_seconds"].as_f64().unwrap();
    let samples = series(&user, &run, name);
    let ms = |time: std::time::SystemTime| {
        u64::try_from(
            time.duration_since(std::time::UNIX_EPOCH)
                .unwrap()
                .as_millis(),
        )
        .unwrap()
    };
    let first = samples
        .iter()
        .rfind(|sample| sample.at_ms <= ms(before))
        .expect("a sample before");
    let held: Vec<&Sample> = samples
        .iter()
        .filter(|sample| (ms(used)..ms(over)).contains(&sample.at_ms))
        .collect();
    let anon = |sample: &Sample| sample.mem_anon_bytes.expect("the cgroup counts it");
    let hold = held
        .iter()
        .copied()
        .map(anon)
        .max()
        .expect("samples while it held")
        - anon(first);
    let written = usage["io_write_bytes"].as_u64().unwrap();
    let processes: Vec<u64> = held.iter().filter_map(|sample| sample.processes).collect();
    let commands: Vec<&str> = held
        .iter()
        .flat_map(|sample| sample.commands.iter().map(|command| &*command.name))
        .collect();
    let told = format!(
        "CPU {cpu} s of {truth}, anon {hold} of {HELD_BYTES}, written {written} of {WRITTEN_BYTES}, processes {processes:?} {commands:?}, {} samples",
        samples.len()
    );
    // Nothing is missing. The cgroup has more than the command counts before its end: that end, the job's shell, dlrun itself.
    assert!(cpu > 0.98 * truth && cpu < 1.05 * truth, "{told}");
    #[expect(clippy::cast_precision_loss, reason = "far below 2^53")]
    let (hold, held_bytes) = (hold as f64, HELD_BYTES as f64);
    assert!(is_within(hold, held_bytes, 0.02), "{told}");
    assert!(
        (WRITTEN_BYTES..WRITTEN_BYTES + (4 << 20)).contains(&written),
        "{told}"
    );
    // The program, the orphan and the batch script; not dlrun, not slurmstepd.
    assert!(
        !processes.is_empty() && processes.iter().all(|count| *count == 3),
        "{told}"
    );
    assert!(
        commands.contains(&"perl")
            && !commands.contains(&"dlrun")
            && !commands.contains(&"slurmstepd"),
        "{told}"
    );
    assert_eq!(node["gaps"], json!([]), "{node}");
    tell(&format!("measured: {told}"));

    // The node's own database has it all, for the site.
    daemon.stop();
    let known = rows(
        &daemon.database(),
        "SELECT run.run_id, run.job_id, run.uid, run.user, node.node, node.state, node.epochs_completed, node.exit_code, node.cgroup FROM run JOIN attempt ON attempt.run = run.id JOIN node ON node.attempt = attempt.id",
    );
    let uid = user.uid().to_string();
    assert_eq!(
        known,
        [[
            run.as_str(),
            &job,
            &uid,
            user.name(),
            name,
            "ended",
            "2",
            "0",
            &cgroup
        ]]
    );
    assert_eq!(
        rows(
            &daemon.database(),
            "SELECT epoch FROM timing ORDER BY place"
        ),
        [["1"], ["2"]]
    );
    assert_eq!(
        rows(&daemon.database(), "SELECT count(*) FROM live"),
        [["0"]]
    );
    let stored = &rows(&daemon.database(), "SELECT sum(samples) FROM block")[0][0];
    assert!(stored.parse::<usize>().unwrap() >= held.len(), "{stored}");
}

#[test]
#[ignore = "needs slurmctld: run tests/run"]
fn a_job_that_the_kernel_kills_says_so() {
    let Some((user, mut daemon, _env)) = with_daemon() else {
        return;
    };
    let script = "until [ -e begin ]; do sleep 0.1; done; perl -e '$x = \"\"; vec($x, (400 << 20) - 1, 8) = 1'; echo \"perl: $?\"; sleep 1; exit 3";
    let submitted = user.submit(&user.job("greedy", &sh(script), "memory = \"128MiB\""));
    until("the daemon to watch it", 60, || {
        is_adopted(&user, &submitted.run)
    });
    go(&user, "begin");
    let code = user.wait(&submitted.run);
    let shown = user.show(&submitted.run);
    let node = &nodes(&shown)[0];
    assert_eq!(shown["status"]["state"], "out_of_memory", "{shown}");
    assert_eq!(code, 12, "{shown}");
    let kinds: Vec<&str> = node["events"]
        .as_array()
        .unwrap()
        .iter()
        .map(|event| event["kind"].as_str().unwrap())
        .collect();
    assert!(kinds.contains(&"oom_kill"), "{node}");
    assert!(node["usage"]["mem_oom_kills"].as_u64() >= Some(1), "{node}");
    assert!(
        submitted.text().contains("perl: 137"),
        "{}",
        submitted.text()
    );
    daemon.stop();
    assert_eq!(
        rows(
            &daemon.database(),
            "SELECT kind FROM event WHERE kind = 'oom_kill'"
        ),
        [["oom_kill"]]
    );
}

#[test]
#[ignore = "needs slurmctld: run tests/run"]
fn nodes_of_one_job_are_measured_each_by_its_own_cgroup() {
    let Some((user, mut daemon, _env)) = with_daemon() else {
        return;
    };
    // Each node burns another time, told by its task.
    let work = "my $until = 1 + $ENV{SLURM_PROCID}; my @t; select(undef, undef, undef, 0.05) until -e 'begin'; do { @t = times } while $t[0] + $t[1] < $until; select(undef, undef, undef, 0.05) until -e 'go'";
    let run = format!("launcher = \"each\"\n{}", argv(&["perl", "-e", work]));
    let Submitted { run, job, .. } = user.submit(&user.job("each", &run, "nodes = 2"));
    let views = || RawClient::greeted(&daemon).runs();
    until("both nodes to be watched", 60, || {
        (views().len() == 2).then_some(())
    });
    go(&user, "begin");
    until("the longer of both", 60, || {
        let used: Vec<f64> = views()
            .iter()
            .filter_map(|view| view.usage.cpu_seconds())
            .collect();
        (used.len() == 2
            && used.iter().all(|used| *used > 1.0)
            && used.iter().any(|used| *used > 2.0))
        .then_some(())
    });
    go(&user, "go");
    assert_eq!(user.wait(&run), 0);
    let shown = user.show(&run);
    let records = nodes(&shown);
    assert_eq!(records.len(), 2, "{shown}");
    let mut cpu = Vec::new();
    for record in &records {
        let name = record["node"].as_str().unwrap();
        let cgroup = record["cgroup"]
            .as_str()
            .unwrap_or_else(|| panic!("{record}"));
        assert_eq!(
            cgroup,
            format!("/slurm_{name}/uid_{}/job_{job}", user.uid())
        );
        assert!(!series(&user, &run, name).is_empty(), "{record}");
        assert_eq!(record["gaps"], json!([]), "{record}");
        let seconds = |key: &str| record["usage"][key].as_f64().unwrap();
        cpu.push(seconds("cpu_user_seconds") + seconds("cpu_system_seconds"));
    }
    cpu.sort_by(f64::total_cmp);
    // The first node also runs the batch script and srun.
    assert!(
        cpu[0] >= 1.0 && cpu[0] < 1.4 && cpu[1] >= 2.0 && cpu[1] < 2.4,
        "{cpu:?}"
    );
    daemon.stop();
    let ended = rows(
        &daemon.database(),
        "SELECT node, state FROM node ORDER BY node",
    );
    assert_eq!(ended.len(), 2, "{ended:?}");
    assert!(ended.iter().all(|row| row[1] == "ended"), "{ended:?}");
}
