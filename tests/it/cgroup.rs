//! A job's cgroup on the real kernel: known CPU time, memory, bytes and processes.
//!
//! Makes cgroups of its own under the mounted hierarchies, which takes root; elsewhere the tests say so and check nothing.

use std::fs;
use std::io::{BufRead, Write};
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::{Child, ChildStdin, Command, Stdio, id};
use std::time::{Duration, Instant};

use dlrun::observe::monitor::cgroup::{CgroupScheduler, locate};
use dlrun::observe::monitor::identity::Process;
use dlrun::observe::monitor::{JobCgroup, PROCESS_INTERVAL, Sampler, TreeRoot, own_cpu_us};
use dlrun::record::Sample;
use nix::sys::resource::{UsageWho, getrusage};
use nix::sys::statfs::{TMPFS_MAGIC, statfs};

use crate::support::skip;

const MEMORY: usize = 256 << 20;
const WRITTEN: usize = 32 << 20;
const OWN_CPU_US: u64 = 1_500_000;
/// Longer than a busy machine takes for any of the steps.
const PATIENCE: Duration = Duration::from_secs(120);

/// Says something to the reader of the tests' output.
fn say(text: &str) {
    let _ = writeln!(std::io::stderr(), "{text}");
}

/// Directories of one job in several hierarchies, removed with the value.
struct Job {
    tops: Vec<PathBuf>,
    tasks: Vec<PathBuf>,
}

impl Job {
    /// Makes a job at `path` of each of the hierarchies whose `/proc/self/mountinfo` line ends in one of `ends`. `None`,
    /// with a word about it, where that is not possible.
    fn make(path: &str, ends: &[&str]) -> Option<Self> {
        let mounts = fs::read_to_string("/proc/self/mountinfo").expect("mounts");
        let mut job = Self {
            tops: vec![],
            tasks: vec![],
        };
        for line in mounts
            .lines()
            .filter(|line| ends.iter().any(|end| line.ends_with(end)))
        {
            let point = line.split(' ').nth(4).expect("a mount point");
            let top = Path::new(point).join(format!("dlrun-test-{}", id()));
            let task = top.join(path);
            if let Err(error) = fs::create_dir_all(&task) {
                skip(&format!(
                    "cannot make the cgroup {}: {error}",
                    task.display()
                ));
                return None;
            }
            job.tops.push(top);
            job.tasks.push(task);
        }
        if job.tasks.is_empty() {
            skip(&format!("no hierarchy of {ends:?} is mounted"));
            return None;
        }
        Some(job)
    }

    /// A shell that goes into the job and then does `script`, with `$1` and so on.
    fn shell(&self, script: &str, arguments: &[&str]) -> Command {
        let join: Vec<_> = self
            .tasks
            .iter()
            .map(|task| format!("echo $$ > {}/cgroup.procs || exit 99; ", task.display()))
            .collect();
        let mut command = Command::new("sh");
        command
            .arg("-c")
            .arg(join.concat() + script)
            .arg("sh")
            .args(arguments)
            .process_group(0);
        command.stdin(Stdio::null()).stdout(Stdio::null());
        command
    }
}

impl Drop for Job {
    fn drop(&mut self) {
        for top in &self.tops {
            remove(top);
        }
    }
}

/// Ends the processes of a cgroup and removes it, those below it first.
fn remove(directory: &Path) {
    for entry in fs::read_dir(directory).into_iter().flatten().flatten() {
        if entry.file_type().is_ok_and(|kind| kind.is_dir()) {
            remove(&entry.path());
        }
    }
    let start = Instant::now();
    while directory.exists() && fs::remove_dir(directory).is_err() && start.elapsed() < PATIENCE {
        let pids = fs::read_to_string(directory.join("cgroup.procs")).unwrap_or_default();
        for pid in pids.lines() {
            let _ = Command::new("kill").args(["-9", pid]).status();
        }
        std::thread::sleep(Duration::from_millis(20));
    }
}

/// The load: `inner_load` of this binary in the job. It does a word and answers with a file of that name.
struct Load {
    process: Child,
    input: Option<ChildStdin>,
    answers: tempfile::TempDir,
}

impl Load {
    fn start(job: &Job) -> Self {
        let answers = tempfile::tempdir_in(env!("CARGO_TARGET_TMPDIR")).expect("a directory");
        let binary = std::env::current_exe().expect("this binary");
        let script = "exec \"$1\" --exact cgroup::inner_load --ignored";
        let mut command = job.shell(script, &[binary.to_str().expect("a name")]);
        command
            .env("DLRUN_TEST_ANSWERS", answers.path())
            .stdin(Stdio::piped());
        let mut process = command.spawn().expect("sh starts");
        let input = process.stdin.take();
        Self {
            process,
            input,
            answers,
        }
    }

    fn does(&mut self, word: &str) {
        writeln!(self.input.as_mut().expect("open"), "{word}").expect("it listens");
        let answer = self.answers.path().join(word);
        let start = Instant::now();
        while !answer.exists() {
            assert!(start.elapsed() < PATIENCE, "no answer to {word}");
            std::thread::sleep(Duration::from_millis(10));
        }
    }
}

#[test]
#[ignore = "the load of the other tests"]
fn inner_load() {
    let answers = PathBuf::from(std::env::var("DLRUN_TEST_ANSWERS").expect("started by a test"));
    let mut memory = Vec::new();
    for word in std::io::stdin().lock().lines() {
        let word = word.expect("a word");
        match word.as_str() {
            "memory" => memory = vec![7_u8; MEMORY],
            "cpu" => {
                let start = own_cpu_us();
                while own_cpu_us() < start + OWN_CPU_US {
                    std::hint::black_box(&memory);
                }
                // Short-lived ones, and one that init or a subreaper inherits and nobody sees end.
                let burn = "i=0; while [ $i -lt 150000 ]; do i=$((i+1)); done";
                let script = format!("({burn}); (setsid sh -c '{burn}' & ); ({burn})");
                assert!(
                    Command::new("sh")
                        .args(["-c", &script])
                        .status()
                        .expect("sh")
                        .success()
                );
            }
            "orphan" => {
                let script = "(setsid sleep 300 < /dev/null > /dev/null 2>&1 &)";
                assert!(
                    Command::new("sh")
                        .args(["-c", script])
                        .status()
                        .expect("sh")
                        .success()
                );
            }
            "write" => {
                let mut file = fs::File::create(answers.join("written")).expect("made");
                file.write_all(&vec![1; WRITTEN]).expect("written");
                file.sync_all().expect("on disk");
            }
            _ => {}
        }
        fs::write(answers.join(&word), "").expect("answered");
    }
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

/// Holds a value within 2 % of what is known, and `slack` of what cannot be.
fn assert_about(what: &str, value: u64, known: u64, slack: u64) {
    say(&format!("{what}: {value}, known {known}"));
    assert!(
        value.abs_diff(known) <= known / 50 + slack,
        "{what}: {value} against {known}"
    );
}

/// Runs an ignored test of this binary as a process of its own: it inherits orphans and adds up all its children.
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
    say(&errors);
}

/// Waits for all that was started and inherited.
fn wait_for_all() {
    while nix::sys::wait::wait().is_ok() {}
}

fn found(pid: u32, load: &mut Load) -> JobCgroup {
    load.does("ready");
    let job = locate(pid).expect("/proc tells").expect("it is in a job");
    assert_eq!(
        (job.scheduler, job.job_id.as_deref()),
        (Some(CgroupScheduler::Slurm), Some("7"))
    );
    job
}

/// A sample with the memory in it that the load just took. The kernel's sums of a cgroup lag where others read them too: they
/// are brought up to date by one reader at a time, else every two seconds.
fn settled(mut sample: impl FnMut() -> Sample, before: Option<u64>) -> Sample {
    let start = Instant::now();
    loop {
        let now = sample();
        let taken = now
            .mem_anon_bytes
            .unwrap_or(0)
            .saturating_sub(before.unwrap_or(0));
        if taken >= MEMORY as u64 || start.elapsed() > Duration::from_secs(6) {
            return now;
        }
        std::thread::sleep(Duration::from_millis(100));
    }
}

/// All phases of a run in the cgroup; the sampler and what it saw at the end are left to the caller.
fn run(job: &Job) -> (Sampler, Sample, JobCgroup) {
    nix::sys::prctl::set_child_subreaper(true).expect("allowed");
    // What came before the run in the same job.
    let burn = "i=0; while [ $i -lt 900000 ]; do i=$((i+1)); done";
    assert!(job.shell(burn, &[]).status().expect("sh").success());
    let before = cpu_of_children_us();
    assert!(before > 200_000, "too little to be seen: {before}");

    let mut load = Load::start(job);
    let pid = load.process.id();
    let cgroup = found(pid, &mut load);
    let root = TreeRoot {
        command: Process::with_pid(pid).expect("it runs"),
        supervisor: None,
        exclude: vec![],
    };
    let options = PROCESS_INTERVAL;
    let mut sampler = Sampler::of_job(root.clone(), Some(&cgroup), options);
    let first = sampler.sample(0, false);
    assert!(
        cpu_us(&first) < 150_000 + before / 10,
        "of before: {first:?}, {before}"
    );
    load.does("memory");
    let held = settled(|| sampler.sample(1000, false), first.mem_anon_bytes);
    if let (Some(anon), Some(was)) = (held.mem_anon_bytes, first.mem_anon_bytes) {
        assert_about("anonymous memory", anon - was, MEMORY as u64, 0);
        assert!(held.mem_peak_bytes >= Some(MEMORY as u64), "{held:?}");
    }
    load.does("cpu");
    load.does("orphan");
    load.does("write");
    let name =
        |sample: &Sample, name: &str| sample.commands.iter().any(|command| &*command.name == name);
    let start = Instant::now();
    let busy = loop {
        let sample = sampler.sample(2000, true);
        if sample.processes == Some(2) && name(&sample, "sleep") {
            break sample;
        }
        assert!(
            start.elapsed() < PATIENCE,
            "not the load and an orphan: {sample:?}"
        );
        std::thread::sleep(Duration::from_millis(20));
    };
    let is_in_memory = statfs(load.answers.path())
        .expect("known")
        .filesystem_type()
        == TMPFS_MAGIC;
    let written = busy.io_write_bytes.expect("read") - first.io_write_bytes.expect("read");
    if !is_in_memory {
        assert_about("bytes written", written, WRITTEN as u64, 256 << 10);
    }
    // A daemon that starts again.
    let baseline = serde_json::to_string(sampler.baseline()).expect("written");
    let after = Sampler::of_job(root, Some(&cgroup), options);
    let again = after
        .with_baseline(serde_json::from_str(&baseline).expect("read"))
        .sample(3000, false);
    assert!(
        cpu_us(&again) >= cpu_us(&busy) && cpu_us(&again) < cpu_us(&busy) + 500_000,
        "{again:?}"
    );
    assert_eq!(again.processes, Some(2));

    drop(load.input.take());
    assert!(load.process.wait().expect("waited").success());
    let orphan = busy
        .commands
        .iter()
        .find(|command| &*command.name == "sleep")
        .expect("there")
        .pid;
    assert!(
        Command::new("kill")
            .arg(orphan.to_string())
            .status()
            .expect("kill")
            .success()
    );
    wait_for_all();
    let used = cpu_of_children_us() - before;
    assert!(used > OWN_CPU_US);
    let last = sampler.sample(4000, true);
    // Times in `/proc`, from which the run begins, are whole ticks; `kill` is in the children's.
    assert_about("CPU time", cpu_us(&last), used, 30_000);
    assert_eq!(last.processes, Some(0));
    (sampler, last, cgroup)
}

#[test]
fn job_in_v1_is_measured_within_2_percent() {
    alone("cgroup::inner_job_in_v1");
}

#[test]
#[ignore = "run by job_in_v1_is_measured_within_2_percent"]
fn inner_job_in_v1() {
    let ends = [
        "rw,cpu",
        "rw,cpuacct",
        "rw,cpu,cpuacct",
        "rw,cpuacct,cpu",
        "rw,memory",
        "rw,freezer",
        "rw,blkio",
    ];
    let Some(job) = Job::make("slurm/uid_0/job_7/step_0/task_0", &ends) else {
        return;
    };
    let (mut sampler, last, cgroup) = run(&job);
    assert_eq!(cgroup.uid, Some(0));
    assert!(
        cgroup
            .directories
            .processes
            .as_ref()
            .is_some_and(|path| path.ends_with("job_7"))
    );
    if let Some(memory) = &cgroup.directories.memory {
        assert!(
            last.mem_anon_bytes.is_some() && last.mem_shmem_bytes.is_some(),
            "{last:?}"
        );
        assert_eq!(last.mem_oom_kills, Some(0));
        let task = memory.join("step_0/task_0");
        for limit in ["memory.limit_in_bytes", "memory.memsw.limit_in_bytes"] {
            let _ = fs::write(task.join(limit), "16777216");
        }
        let eats = "head -c 80000000 /dev/zero | tail -c 80000000 > /dev/null";
        assert!(
            !job.shell(eats, &[])
                .stderr(Stdio::null())
                .status()
                .expect("sh")
                .success()
        );
        let killed = sampler.sample(5000, true);
        assert_eq!(killed.mem_oom_kills, Some(1), "{killed:?}");
    }
    drop(job);
    // The kept files of a cgroup that is no more.
    let gone = sampler.sample(6000, true);
    assert_eq!(
        (gone.cpu_user_us, gone.mem_anon_bytes, gone.processes),
        (None, None, None)
    );
}

#[test]
fn job_in_v2_is_measured_within_2_percent() {
    alone("cgroup::inner_job_in_v2");
}

#[test]
#[ignore = "run by job_in_v2_is_measured_within_2_percent"]
fn inner_job_in_v2() {
    let path = "system.slice/n1_slurmstepd.scope/job_7/step_batch/user/task_special";
    let Some(job) = Job::make(path, &["- cgroup2 cgroup2 rw", "- cgroup2 cgroup rw"]) else {
        return;
    };
    let (mut sampler, last, cgroup) = run(&job);
    assert!(
        cgroup
            .directories
            .unified
            .as_ref()
            .is_some_and(|path| path.ends_with("job_7"))
    );
    // Controllers are not handed down here; what is missing has a reason.
    let missing: Vec<_> = sampler
        .missing()
        .into_iter()
        .map(|missing| missing.what)
        .collect();
    assert!(
        last.mem_peak_bytes.is_some() || missing.iter().any(|what| what == "mem_peak_bytes"),
        "{missing:?}"
    );
    let has_pressure = Path::new("/proc/pressure/cpu").exists();
    assert_eq!(last.psi_cpu_some_us.is_some(), has_pressure, "{last:?}");
    drop(job);
    assert_eq!(sampler.sample(6000, true).cpu_user_us, None);
}
