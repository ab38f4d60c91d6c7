//! The node daemon under chance: killed at any moment, and given damaged messages and files.

use std::fs;
use std::path::Path;
use std::time::Duration;

use dlrun::observe::monitor::{Sampler, TreeRoot, cgroup};
use dlrun::observe::protocol::{
    Decoder, Ending, FrameError, Hello, Process, Registration, Request, Response, RunsQuery, encode,
};
use dlrun::record::{NodeRecord, RunRecord, encode_segments};

use super::fuzz::damaged;
use super::{Chance, rounds, tell};
use crate::daemon_trouble::kill_again_and_again;
use crate::support::noisy::Noisy;
use crate::support::{Dlrund, RawClient, TestEnv, recorded, wait_for};

#[test]
#[ignore = "soak tier: tests/run soak"]
fn a_daemon_that_is_killed_by_chance_loses_nothing_that_it_promised() {
    let mut chance = Chance::new("daemon kills");
    kill_again_and_again(super::count(40), || chance.next());
}

/// One request of each kind, around a run that is there.
fn requests(run: &RunRecord, record: &NodeRecord) -> Vec<Request> {
    let mut noisy = Noisy::new(1_795_184_521_000);
    let samples = [noisy.next(), noisy.next()];
    let bytes = encode_segments(&samples).remove(0);
    let registration = Registration {
        run: run.clone(),
        record: record.clone(),
        command: Process {
            pid: std::process::id(),
            start_time_ticks: 1,
        },
        gpus: vec!["GPU-5c7a3f0e".to_owned()],
        gap: None,
        booted_at_ms: None,
    };
    vec![
        Request::Hello(Hello::ours()),
        Request::Register(Box::new(registration)),
        Request::Update {
            record: Box::new(record.clone()),
        },
        Request::Backfill { bytes },
        Request::Collect {
            acknowledged: Some(7),
        },
        Request::End(Box::new(Ending {
            record: record.clone(),
            cpu_user_us: 1,
            cpu_system_us: 2,
        })),
        Request::Runs(RunsQuery {
            skip: 3,
            processes: true,
        }),
        Request::Status,
    ]
}

/// A run of this machine's, with its daemon and records.
fn watched() -> (TestEnv, Dlrund, String) {
    let mut env = TestEnv::new();
    env.set("DLRUN_MONITOR__INTERVAL_MS", "100");
    env.set("DLRUN_MONITOR__RECORD_SECONDS", "1");
    let daemon = Dlrund::start(&env, "[limits]\nrequest_seconds = 1\n");
    let run = env.submit(&env.job("while [ ! -e stop ]; do sleep 0.05; done", ""));
    wait_for("the daemon to watch it", || {
        recorded::is_adopted(&env.run_dir(&run))
    });
    (env, daemon, run)
}

fn described(env: &TestEnv, run: &str) -> (RunRecord, NodeRecord) {
    let text = fs::read(env.run_dir(run).join("run.json")).expect("a file");
    let record = recorded::record(&env.run_dir(run)).expect("a record");
    (serde_json::from_slice(&text).expect("a record"), record)
}

/// What a decoder makes of bytes that come in pieces, as text, and whether it gave up.
fn decoded(pieces: &[&[u8]]) -> (Vec<String>, bool) {
    let (mut decoder, mut read) = (Decoder::default(), Vec::new());
    for piece in pieces {
        decoder.push(piece);
        loop {
            match decoder.next::<Request>() {
                Ok(Some(request)) => read.push(format!("{request:?}")),
                Ok(None) => break,
                Err(error) => {
                    read.push(error.to_string());
                    if matches!(error, FrameError::TooLong { .. }) {
                        return (read, true);
                    }
                }
            }
        }
    }
    (read, false)
}

#[test]
#[ignore = "soak tier: tests/run soak"]
fn damaged_messages_are_read_or_refused_the_same_in_any_pieces() {
    let mut chance = Chance::new("messages");
    let (env, daemon, run) = watched();
    let (described, record) = described(&env, &run);
    drop(daemon);
    let originals: Vec<Vec<u8>> = requests(&described, &record)
        .iter()
        .map(|request| encode(request).expect("short"))
        .collect();
    let mut read = 0;
    for _ in rounds(40_000) {
        let mut bytes = chance.one_of(&originals).clone();
        let message = damaged(&mut chance, &bytes[4..]);
        // Half of them with a length that fits.
        if chance.below(2) == 0 {
            let length = u32::try_from(message.len()).expect("short");
            bytes = [&length.to_le_bytes()[..], &message].concat();
        } else {
            bytes = damaged(&mut chance, &bytes);
        }
        bytes.extend(&originals[0]);
        let whole = decoded(&[&bytes]);
        let (one, two) = bytes.split_at(chance.below(bytes.len()));
        assert_eq!(whole, decoded(&[one, two]), "{bytes:?}");
        read += whole
            .0
            .iter()
            .filter(|text| !text.contains("cannot be understood"))
            .count();
    }
    tell(&format!("{read} messages could be read"));
    assert!(read > 0);
}

#[test]
#[ignore = "soak tier: tests/run soak"]
fn a_daemon_survives_damaged_messages_and_serves_others() {
    let mut chance = Chance::new("a live daemon");
    let (env, mut daemon, run) = watched();
    let pid = daemon.pid();
    let (described, record) = described(&env, &run);
    let requests = requests(&described, &record);
    let hello = encode(&requests[0]).expect("short");
    let mut answers = 0;
    for round in rounds(4_000) {
        let mut client = RawClient::connect(&daemon);
        let mut bytes = if chance.below(4) == 0 {
            damaged(&mut chance, &hello)
        } else {
            hello.clone()
        };
        for _ in 0..=chance.below(4) {
            let whole = encode(chance.one_of(&requests)).expect("short");
            let message = damaged(&mut chance, &whole[4..]);
            match chance.below(3) {
                0 => bytes.extend(damaged(&mut chance, &whole)),
                1 => bytes.extend(whole),
                _ => {
                    bytes.extend(u32::try_from(message.len()).expect("short").to_le_bytes());
                    bytes.extend(message);
                }
            }
        }
        client.send(&bytes);
        if chance.below(3) > 0 {
            client.hang_up();
            while client.answer().is_some() {
                answers += 1;
            }
        }
        if round % 100 == 0 {
            let mut sane = RawClient::greeted(&daemon);
            assert!(matches!(
                sane.ask(&Request::Status),
                Some(Response::Status(_))
            ));
            assert_eq!(sane.runs().len(), 1, "{}", daemon.log());
        }
    }
    tell(&format!("{answers} answers"));
    assert_eq!(daemon.pid(), pid);
    env.write("stop", "");
    env.wait_state(&run, "completed");
    let after = recorded::record(&env.run_dir(&run)).expect("a record");
    assert_eq!(after.gaps, [], "{:?}", after.events);
    daemon.stop();
    assert!(!daemon.log().contains("panic"), "{}", daemon.log());
    assert_eq!(
        recorded::rows(&daemon.database(), "PRAGMA integrity_check"),
        [["ok"]]
    );
}

/// Lines of `/proc/PID/cgroup` as machines have them.
const CGROUPS: [&str; 6] = [
    "6:freezer:/slurm_n1/uid_1001/job_36/step_batch\n4:memory:/slurm_n1/uid_1001/job_36/step_batch/task_0\n2:cpuacct:/slurm_n1/uid_1001/job_36/step_batch/task_0\n0::/\n",
    "0::/system.slice/slurmstepd.scope/job_7/step_0/user/task_0\n",
    "0::/system.slice/n1_slurmstepd.scope/s01JXYZABCDEF/step_batch/user/task_special\n",
    "3:cpu,cpuacct:/torque/5.host\n2:memory:/torque/5.host\n",
    "0::/pbs_jobs.service/jobid/12.server\n",
    "1:name=systemd:/docker/8dde0b0d6e919baef8d635cd9399b22639ed1e400eaec1b1cb94ff3b216cf3c3\n",
];

/// Files of v1 and v2 as the kernel writes them.
const FILES: [(&str, &str); 12] = [
    (
        "cpu.stat",
        "usage_usec 5000000\nuser_usec 3000000\nsystem_usec 2000000\nnr_throttled 2\nthrottled_usec 77\nthrottled_time 77000\n",
    ),
    (
        "memory.stat",
        "anon 4096\nfile 8192\nshmem 0\ntotal_rss 4096\ntotal_cache 8192\ntotal_shmem 0\n",
    ),
    ("memory.peak", "123456789\n"),
    ("memory.events", "low 0\nhigh 0\nmax 3\noom 1\noom_kill 1\n"),
    (
        "memory.oom_control",
        "oom_kill_disable 0\nunder_oom 0\noom_kill 1\n",
    ),
    ("memory.max_usage_in_bytes", "123456789\n"),
    (
        "io.stat",
        "8:0 rbytes=1024 wbytes=2048 rios=1 wios=2 dbytes=0 dios=0\n",
    ),
    (
        "cpu.pressure",
        "some avg10=0.00 avg60=0.00 avg300=0.00 total=123\nfull avg10=0.00 avg60=0.00 avg300=0.00 total=0\n",
    ),
    ("cpuacct.usage", "5000000000\n"),
    ("cpuacct.stat", "user 300\nsystem 200\n"),
    (
        "blkio.throttle.io_service_bytes_recursive",
        "8:0 Read 1024\n8:0 Write 2048\nTotal 3072\n",
    ),
    ("cgroup.procs", "1\n2\n0\n41\n"),
];

#[test]
#[ignore = "soak tier: tests/run soak"]
fn damaged_cgroup_files_are_read_or_left_out() {
    let mut chance = Chance::new("cgroups");
    let dir = tempfile::tempdir().expect("a directory");
    let (proc, hierarchy) = (dir.path().join("proc"), dir.path().join("cgroup"));
    let write = |path: &Path, bytes: &[u8]| {
        fs::create_dir_all(path.parent().expect("a directory")).expect("ours");
        fs::write(path, bytes).expect("ours");
    };
    let mounts: String = ["freezer", "memory", "cpuacct", "cpu,cpuacct"]
        .map(|name| {
            format!(
                "40 30 0:35 / {}/v1 rw,nosuid shared:7 - cgroup cgroup rw,{name}\n",
                hierarchy.display()
            )
        })
        .concat()
        + &format!(
            "41 30 0:36 / {}/v2 rw,nosuid - cgroup2 cgroup2 rw\n",
            hierarchy.display()
        );
    write(&proc.join("self/mountinfo"), mounts.as_bytes());
    // Every job's directories, with all files in them.
    let jobs = [
        "v1/slurm_n1/uid_1001/job_36",
        "v2/system.slice/slurmstepd.scope/job_7",
        "v2/system.slice/n1_slurmstepd.scope/s01JXYZABCDEF",
        "v1/torque/5.host",
        "v2/pbs_jobs.service/jobid/12.server",
    ];
    for (job, (name, text)) in jobs
        .iter()
        .flat_map(|job| FILES.iter().map(move |file| (job, file)))
    {
        write(&hierarchy.join(job).join(name), text.as_bytes());
    }
    let (mut found, mut measured) = (0, 0);
    for _ in rounds(8_000) {
        let whole = chance.one_of(&CGROUPS).as_bytes();
        let text = if chance.below(2) == 0 {
            whole.to_vec()
        } else {
            damaged(&mut chance, whole)
        };
        write(&proc.join("41/cgroup"), &text);
        let of_mounts = if chance.below(4) == 0 {
            damaged(&mut chance, mounts.as_bytes())
        } else {
            mounts.clone().into()
        };
        write(&proc.join("self/mountinfo"), &of_mounts);
        let (name, text) = chance.one_of(&FILES);
        let job = hierarchy.join(chance.one_of(&jobs));
        write(&job.join(name), &damaged(&mut chance, text.as_bytes()));
        let Some(job_cgroup) = cgroup::locate_in(&proc, 41).expect("the files are there") else {
            continue;
        };
        found += 1;
        assert!(
            job_cgroup.path.starts_with('/') && !job_cgroup.path.contains("/../"),
            "{job_cgroup:?}"
        );
        let root = TreeRoot {
            command: Process {
                pid: 41,
                start_time_ticks: 1,
            },
            supervisor: None,
            exclude: vec![],
        };
        let options = Duration::ZERO;
        let mut sampler = Sampler::of_job_in(&proc, root, Some(&job_cgroup), options);
        let samples = [sampler.sample(1000, false), sampler.sample(2000, true)];
        let rises = |column: fn(&dlrun::record::Sample) -> Option<u64>| {
            column(&samples[0])
                .zip(column(&samples[1]))
                .is_none_or(|(before, after)| before <= after)
        };
        assert!(
            rises(|sample| sample.cpu_user_us) && rises(|sample| sample.mem_oom_kills),
            "{samples:?}"
        );
        measured += usize::from(samples[1].cpu_user_us.is_some());
        write(&job.join(name), text.as_bytes());
    }
    tell(&format!("{found} jobs found, CPU time of {measured}"));
    assert!(found > 0 && measured > 0);
}

#[test]
#[ignore = "soak tier: tests/run soak"]
fn a_hundred_runs_register_and_end_at_once() {
    crate::daemon::register_at_once(100);
}
