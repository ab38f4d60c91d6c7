//! The sampler on real processes.

use std::os::unix::process::CommandExt;
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use dlrun::observe::monitor::identity::Process;
use dlrun::observe::monitor::{PROCESS_INTERVAL, Sampler, TreeRoot, own_cpu_us};
use dlrun::record::Sample;
use nix::sys::resource::{UsageWho, getrusage};
use nix::sys::signal::{Signal, killpg};
use nix::sys::statfs::{TMPFS_MAGIC, statfs};
use nix::unistd::Pid;

/// A shell in its own process group; the group is killed with the value.
struct Run(Child);

impl Run {
    fn start(script: &str) -> Self {
        let mut command = Command::new("sh");
        command.args(["-c", script]).process_group(0);
        command
            .stdin(Stdio::null())
            .stdout(Stdio::null())
            .stderr(Stdio::null());
        Self(command.spawn().expect("sh starts"))
    }

    fn pid(&self) -> u32 {
        self.0.id()
    }

    fn sampler(&self, supervisor: Option<u32>) -> Sampler {
        let root = TreeRoot {
            command: Process::with_pid(self.pid()).expect("it runs"),
            supervisor,
            exclude: vec![],
        };
        Sampler::of_job(root, None, PROCESS_INTERVAL)
    }
}

impl Drop for Run {
    fn drop(&mut self) {
        let group = Pid::from_raw(self.pid().try_into().expect("a pid"));
        let _ = killpg(group, Signal::SIGKILL);
        let _ = self.0.wait();
    }
}

/// Samples every 20 ms until `holds`, at most 20 s.
fn sample_until(sampler: &mut Sampler, holds: impl Fn(&Sampler, &Sample) -> bool) -> Sample {
    let start = Instant::now();
    loop {
        let sample = sampler.sample(0, true);
        if holds(sampler, &sample) {
            return sample;
        }
        assert!(
            start.elapsed() < Duration::from_secs(20),
            "waited in vain, last {sample:?}"
        );
        std::thread::sleep(Duration::from_millis(20));
    }
}

/// Runs an ignored test of this binary as a process of its own: it inherits orphans and adds up all its children, which
/// tests in other threads would disturb.
fn alone(test: &str) {
    let mut command = Command::new(std::env::current_exe().expect("this binary"));
    let output = command
        .args(["--exact", test, "--ignored", "--nocapture"])
        .output()
        .expect("it starts");
    let text = String::from_utf8_lossy(&output.stdout);
    let errors = String::from_utf8_lossy(&output.stderr);
    assert!(
        output.status.success() && text.contains("1 passed"),
        "{text}{errors}"
    );
}

fn cpu_of_children_us() -> u64 {
    let usage = getrusage(UsageWho::RUSAGE_CHILDREN).expect("it is known");
    let times = [usage.user_time(), usage.system_time()];
    times
        .iter()
        .map(|time| u64::try_from(time.tv_sec() * 1_000_000 + time.tv_usec()).expect("positive"))
        .sum()
}

fn cpu_us(sample: &Sample) -> u64 {
    sample.cpu_user_us.expect("read") + sample.cpu_system_us.expect("read")
}

const BURN: &str = "burn() { i=0; while [ $i -lt 60000 ]; do i=$((i+1)); done; }; ";

#[test]
fn cpu_time_of_ended_children_is_counted() {
    alone("monitor::inner_cpu_time_equals_rusage");
}

#[test]
#[ignore = "run by cpu_time_of_ended_children_is_counted"]
fn inner_cpu_time_equals_rusage() {
    nix::sys::prctl::set_child_subreaper(true).expect("allowed");
    let script = "for n in 1 2 3 4 5 6 7 8; do (burn); done; (burn & exec true); (burn; burn)";
    let mut run = Run::start(&format!("{BURN}{script}"));
    let mut sampler = run.sampler(Some(std::process::id()));
    let zombie = sample_until(&mut sampler, |sampler, _| !sampler.is_root_alive());
    run.0.wait().expect("waited");
    while nix::sys::wait::wait().is_ok() {}
    let end = sampler.sample(1, true);
    let used = cpu_of_children_us();
    assert!(used > 100_000, "too little to compare: {used}");
    assert!(
        cpu_us(&end).abs_diff(used) < 60_000 + used / 20,
        "{} against {used}",
        cpu_us(&end)
    );
    assert!(cpu_us(&end) >= cpu_us(&zombie));
    assert_eq!((end.processes, end.mem_rss_bytes), (Some(0), Some(0)));
    let missing = sampler.missing();
    assert!(
        missing.iter().all(|missing| missing.what == "cgroup"),
        "{missing:?}"
    );
}

#[test]
fn orphan_in_a_session_of_its_own_stays_member() {
    alone("monitor::inner_orphan_stays_member");
}

#[test]
#[ignore = "run by orphan_in_a_session_of_its_own_stays_member"]
fn inner_orphan_stays_member() {
    nix::sys::prctl::set_child_subreaper(true).expect("allowed");
    let mut run = Run::start("(setsid sleep 1.5 &) ; exit 3");
    let mut sampler = run.sampler(Some(std::process::id()));
    assert_eq!(run.0.wait().expect("waited").code(), Some(3));
    // In the midst of its `execve` a process has no memory.
    sample_until(&mut sampler, |_, sample| {
        sample.processes == Some(1) && sample.mem_rss_bytes > Some(0)
    });
    assert!(!sampler.is_root_alive());
    nix::sys::wait::wait().expect("the orphan is ours");
    assert_eq!(sampler.sample(1, false).processes, Some(0));
}

#[test]
fn orphan_without_supervisor_stays_member_once_seen() {
    let mut run = Run::start("setsid sleep 4 & sleep 1; exit 0");
    let mut sampler = run.sampler(None);
    sample_until(&mut sampler, |_, sample| sample.processes == Some(3));
    run.0.wait().expect("waited");
    sample_until(&mut sampler, |_, sample| sample.processes == Some(1));
}

#[test]
fn process_of_another_group_is_not_counted() {
    let other = Run::start("sleep 30 & sleep 30 & wait");
    let run = Run::start("sleep 30 & wait");
    let mut sampler = run.sampler(None);
    sample_until(&mut sampler, |_, sample| sample.processes == Some(2));
    let mut others = other.sampler(None);
    sample_until(&mut others, |_, sample| sample.processes == Some(3));
    assert_eq!(sampler.sample(1, false).processes, Some(2));
    assert!(sampler.is_root_alive());
}

#[test]
fn memory_and_io_of_a_child_are_about_right() {
    let directory = tempfile::tempdir_in(env!("CARGO_TARGET_TMPDIR")).expect("a directory");
    let file = directory.path().join("written");
    // What is written to tmpfs goes to no storage.
    let is_in_memory = statfs(directory.path()).expect("known").filesystem_type() == TMPFS_MAGIC;
    // A shell variable of 24 MB, in a child of the root; and 4 MB written by a grandchild that is gone by then.
    let script = format!(
        "(dd if=/dev/zero of={} bs=1M count=4 conv=fsync 2>/dev/null; \
          x=$(head -c 24000000 /dev/zero | tr '\\0' x); sleep 30; echo $x) & wait",
        file.display()
    );
    let run = Run::start(&script);
    let mut sampler = run.sampler(None);
    let holds = |_: &Sampler, sample: &Sample| {
        sample.processes == Some(3)
            && sample.mem_rss_bytes > Some(24_000_000)
            && sample.io_write_bytes > Some(0)
    };
    let sample = sample_until(&mut sampler, holds);
    assert!(sample.mem_rss_bytes < Some(200_000_000), "{sample:?}");
    assert!(
        is_in_memory || sample.io_write_bytes >= Some(4 << 20),
        "{sample:?}"
    );
    assert_eq!(sample.threads, Some(3));
}

#[test]
fn own_cpu_time_grows() {
    let before = own_cpu_us();
    let start = Instant::now();
    while start.elapsed() < Duration::from_millis(30) {
        std::hint::black_box(start);
    }
    assert!(own_cpu_us() > before);
}
