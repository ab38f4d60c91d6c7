//! Local jobs of several users on one machine: they share it, and nobody holds up another but by jobs that really run.
//!
//! Acting as two users takes root; without it most of these tests say that they did nothing.

use std::fs::{self, Permissions};
use std::os::unix::fs::{MetadataExt, PermissionsExt, chown, symlink};
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::{Child, Command};

use nix::sys::stat::Mode;
use nix::unistd::mkfifo;
use serde_json::json;

use crate::support::{TestEnv, skip, wait_for};

/// Users who need no account.
const ALICE: u32 = 64_011;
const MALLORY: u32 = 64_012;
const HOLD: &str = "echo $$ > ready; while [ ! -e go ]; do sleep 0.02; done";

fn is_root() -> bool {
    let is_root = nix::unistd::geteuid().is_root();
    if !is_root {
        skip("only root can act as other users");
    }
    is_root
}

/// A directory like `/var/tmp`.
fn shared(place: &TestEnv) -> PathBuf {
    let dir = place.root().join("shared");
    place.open_to_others();
    fs::create_dir(&dir).expect("ours");
    fs::set_permissions(&dir, Permissions::from_mode(0o1777)).expect("ours");
    dir
}

fn user(uid: u32, shared: &Path) -> TestEnv {
    let mut env = TestEnv::of_user(uid);
    env.set("DLRUN_LOCAL__LOCK_DIR", shared);
    env
}

/// A process of `uid` that does nothing, and its start.
fn process_of(uid: u32) -> (Child, u64) {
    let mut command = Command::new("/bin/sleep");
    let child = command
        .arg("600")
        .uid(uid)
        .gid(uid)
        .current_dir("/")
        .spawn()
        .expect("sleep");
    let start = start_of(child.id());
    (child, start)
}

fn start_of(pid: u32) -> u64 {
    let stat = fs::read_to_string(format!("/proc/{pid}/stat")).expect("it runs");
    let (_, rest) = stat.rsplit_once(") ").expect("a name");
    rest.split(' ')
        .nth(19)
        .and_then(|start| start.parse().ok())
        .expect("a start")
}

/// An entry of a job of the whole machine, as dlrun would write it for this process.
fn entry(pid: u32, start: u64) -> String {
    let boot = fs::read_to_string("/proc/sys/kernel/random/boot_id").expect("a boot");
    let here = json!({
        "host": nix::unistd::gethostname().expect("a name").to_str(),
        "boot": boot.trim(),
        "pid_namespace": fs::metadata("/proc/self/ns/pid").expect("it is there").ino(),
    });
    json!({
        "format": 1,
        "here": here,
        "runner": { "pid": pid, "start": start },
        "queued_at_ms": 0,
        "asked": { "cpus": null, "memory_bytes": null, "gpus": u32::MAX },
        "job": "L1",
        "name": "forged",
    })
    .to_string()
}

/// A directory of that name which belongs to `uid`.
fn dir_of(shared: &Path, name: &str, uid: u32) -> PathBuf {
    let dir = shared.join(name);
    fs::create_dir(&dir).expect("ours");
    fs::set_permissions(&dir, Permissions::from_mode(0o755)).expect("ours");
    chown(&dir, Some(uid), Some(uid)).expect("root may");
    dir
}

fn put(dir: &Path, name: &str, text: &str, uid: u32) {
    let path = dir.join(name);
    fs::write(&path, text).expect("ours");
    chown(&path, Some(uid), Some(uid)).expect("root may");
}

/// Runs a job of Alice's to its end.
fn alice_runs(shared: &Path) {
    let alice = user(ALICE, shared);
    let run = alice.submit(&alice.job("echo done", ""));
    let _ = alice.dlrun(["wait", &run]).run().code(0);
}

#[test]
fn job_waits_for_another_users_job_and_names_it() {
    if !is_root() {
        return;
    }
    let place = TestEnv::new();
    let shared = shared(&place);
    let (alice, mallory) = (user(ALICE, &shared), user(MALLORY, &shared));
    let first = mallory.submit(&mallory.job_called("train", HOLD, ""));
    mallory.wait_pid("ready");
    let second = alice.submit(&alice.job("echo done", ""));
    let holder = format!("running are L1 of user id {MALLORY} (train)");
    wait_for("the reason", || {
        alice.show(&second)["status"]["reason"]
            .to_string()
            .contains(&holder)
    });
    mallory.write("go", "");
    let _ = alice.dlrun(["wait", &second]).run().code(0);
    let _ = mallory.dlrun(["wait", &first]).run().code(0);
}

#[test]
fn job_that_has_waited_long_enough_for_another_users_job_starts_beside_it() {
    if !is_root() {
        return;
    }
    let place = TestEnv::new();
    let shared = shared(&place);
    // All that it takes to hold the machine: a process that does nothing, and its entry.
    let (mut idle, start) = process_of(MALLORY);
    let dir = dir_of(&shared, &format!("dlrun-local-{MALLORY}"), MALLORY);
    put(
        &dir,
        &format!("run-{}-{start}", idle.id()),
        &entry(idle.id(), start),
        MALLORY,
    );
    let mut alice = user(ALICE, &shared);
    alice.set("DLRUN_LOCAL__OTHERS_WAIT_HOURS", "0");
    let run = alice.submit(&alice.job(HOLD, ""));
    alice.wait_pid("ready");
    wait_for("the reason", || {
        alice.show(&run)["status"]
            .to_string()
            .contains("started beside jobs of other users")
    });
    alice.write("go", "");
    let _ = alice.dlrun(["wait", &run]).run().code(0);
    idle.kill().expect("ours");
    idle.wait().expect("it ends");
}

#[test]
fn entry_of_a_living_process_of_its_user_counts_and_no_other_does() {
    if !is_root() {
        return;
    }
    let place = TestEnv::new();
    let shared = shared(&place);
    let dir = dir_of(&shared, &format!("dlrun-local-{MALLORY}"), MALLORY);
    let (mut own, start) = process_of(MALLORY);
    let own_pid = own.id();
    let put_run = |dir: &Path, pid: u32, start: u64, uid: u32| {
        put(dir, &format!("run-{pid}-{start}"), &entry(pid, start), uid);
    };
    // Of root, of a process that has another start, and of one that is gone.
    put_run(&dir, 1, start_of(1), MALLORY);
    put_run(&dir, own_pid, start + 1, MALLORY);
    put_run(&dir, 4_194_300, 1, MALLORY);
    // With another name than its content, more than once, and of another owner than the directory.
    put(&dir, "run-1-1", &entry(own_pid, start), MALLORY);
    put(
        &dir,
        &format!("run-{own_pid}-{start}"),
        &entry(own_pid, start),
        0,
    );
    // In the directory that Alice would have, where she did not make it, and behind a link.
    let (mut hers, her_start) = process_of(ALICE);
    let squatted = dir_of(&shared, &format!("dlrun-local-{ALICE}"), MALLORY);
    put_run(&squatted, hers.id(), her_start, MALLORY);
    let hidden = dir_of(place.root(), "hidden", MALLORY);
    put_run(&hidden, own_pid, start, MALLORY);
    symlink(&hidden, shared.join(format!("dlrun-local-{MALLORY}-1"))).expect("ours");
    // In a directory that others may write to.
    let open = dir_of(&shared, &format!("dlrun-local-{MALLORY}-2"), MALLORY);
    put_run(&open, own_pid, start, MALLORY);
    fs::set_permissions(&open, Permissions::from_mode(0o777)).expect("ours");
    // A pipe, a link and a large file.
    mkfifo(&dir.join("run-5-5"), Mode::S_IRWXU).expect("ours");
    symlink(
        hidden.join(format!("run-{own_pid}-{start}")),
        dir.join("run-6-6"),
    )
    .expect("ours");
    put(
        &dir,
        "run-7-7",
        &(entry(own_pid, start) + &" ".repeat(1 << 22)),
        MALLORY,
    );
    alice_runs(&shared);
    // The same as it should be: so the others did not count for what they were.
    put_run(&dir, own_pid, start, MALLORY);
    let alice = user(ALICE, &shared);
    let run = alice.submit(&alice.job("echo done", ""));
    wait_for("Alice to wait", || {
        alice.show(&run)["status"]["reason"]
            .to_string()
            .contains(&format!("L1 of user id {MALLORY} (forged)"))
    });
    own.kill().expect("ours");
    own.wait().expect("it ends");
    let _ = alice.dlrun(["wait", &run]).run().code(0);
    hers.kill().expect("ours");
    hers.wait().expect("it ends");
}

#[test]
fn hundred_thousand_files_of_another_user_hold_no_job() {
    if !is_root() {
        return;
    }
    let place = TestEnv::new();
    let shared = shared(&place);
    let dir = dir_of(&shared, &format!("dlrun-local-{MALLORY}"), MALLORY);
    let text = entry(4_194_300, 1);
    for number in 0..100_000 {
        fs::write(
            dir.join(format!("run-{}-1", number + 5_000_000)),
            if number < 2000 { &text } else { "" },
        )
        .expect("ours");
    }
    alice_runs(&shared);
}

#[test]
fn many_jobs_of_two_users_at_once_never_exceed_the_machine() {
    if !is_root() {
        return;
    }
    let cpus = std::thread::available_parallelism().map_or(1, usize::from);
    let place = TestEnv::new();
    let shared = shared(&place);
    let journal = shared.join("journal");
    fs::write(&journal, "").expect("ours");
    fs::set_permissions(&journal, Permissions::from_mode(0o666)).expect("ours");
    let users = [user(ALICE, &shared), user(MALLORY, &shared)];
    let mut clients = Vec::new();
    for number in 0..20 {
        let env = &users[number % 2];
        // One in five takes the whole machine.
        let (takes, resources) = match number % 5 {
            0 => (cpus, ""),
            _ => (1, "[resources]\ncpus_per_task = 1\nmemory = \"1MiB\"\n"),
        };
        let note = |sign: &str| format!("echo {sign}{takes} >> {}", journal.display());
        let script = format!("{}; sleep 0.05; {}", note("+"), note("-"));
        let file = env.job_called(&format!("job{number}"), &script, resources);
        clients.push(
            env.dlrun(["submit", "--scheduler", "local"])
                .arg(file)
                .start(),
        );
    }
    for client in clients {
        let _ = client.finish().code(0);
    }
    let lines = || fs::read_to_string(&journal).expect("ours");
    wait_for("all to have run", || lines().lines().count() == 40);
    let (mut sum, mut most) = (0_i64, 0);
    for line in lines().lines() {
        sum += line.parse::<i64>().expect("a number");
        most = most.max(sum);
    }
    assert!(
        most <= i64::try_from(cpus).expect("few"),
        "{most} of {cpus} CPUs:\n{}",
        lines()
    );
    assert_eq!(sum, 0);
}
