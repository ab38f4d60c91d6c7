//! What each reader of foreign bytes promises, beyond not to panic. A target of `cargo fuzz` for each function.

use std::alloc::{GlobalAlloc, Layout, System};
use std::cell::RefCell;
use std::fs;
use std::path::Path;
use std::sync::atomic::{AtomicUsize, Ordering::Relaxed};

use dlrun::foundation::diagnostic::Problem;
use dlrun::job;
use dlrun::job::convert::{self, ScriptPlace};
use dlrun::observe::monitor::cgroup::{CgroupDirectories, JobCgroup, locate_in};
use dlrun::observe::monitor::identity::Process;
use dlrun::observe::monitor::{PROCESS_INTERVAL, Sampler, TreeRoot};
use dlrun::observe::protocol::{Decoder, FrameError, Request, Response, encode};
use dlrun::observe::timing::{EventLog, Follower};
use dlrun::record::export::{JsonLines, RowWriter};
use dlrun::record::store::{Pages, Selection, Store, StoreError};
use dlrun::record::{
    self, Incoming, Progress, Table, decode_columns, decode_segment, encode_segments,
};
use dlrun::scheduler::printed;

/// Inputs that were truly read, not refused; printed from time to time as `read N of M`.
static READ: AtomicUsize = AtomicUsize::new(0);
static GIVEN: AtomicUsize = AtomicUsize::new(0);

fn count(is_read: bool) {
    let read = READ.fetch_add(is_read.into(), Relaxed) + usize::from(is_read);
    let given = GIVEN.fetch_add(1, Relaxed) + 1;
    if given.is_power_of_two() || given.is_multiple_of(1_000_000) {
        #[allow(clippy::print_stderr)]
        {
            eprintln!("read {read} of {given}");
        }
    }
}

/// Bytes that are allocated now.
static HELD: AtomicUsize = AtomicUsize::new(0);

struct Counted;

#[global_allocator]
static ALLOCATOR: Counted = Counted;

// SAFETY: as `System`, to which it passes everything.
unsafe impl GlobalAlloc for Counted {
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        HELD.fetch_add(layout.size(), Relaxed);
        // SAFETY: the caller's promises are those that `System` wants.
        unsafe { System.alloc(layout) }
    }

    unsafe fn dealloc(&self, at: *mut u8, layout: Layout) {
        HELD.fetch_sub(layout.size(), Relaxed);
        // SAFETY: as above.
        unsafe { System.dealloc(at, layout) }
    }
}

/// Messages as they come (first byte odd), or each with a length that fits (bytes of 0xff stand between them: no JSON has one).
/// Whatever can be read means the same when it is written and read again.
pub fn frames(data: &[u8]) {
    let Some((mode, data)) = data.split_first() else {
        return;
    };
    if mode & 1 == 1 {
        return frames_of(data);
    }
    let framed = data.split(|byte| *byte == 0xff).map(|body| {
        let length = u32::try_from(body.len()).expect("inputs are short");
        [&length.to_le_bytes()[..], body].concat()
    });
    frames_of(&framed.collect::<Vec<_>>().concat());
}

fn frames_of(bytes: &[u8]) {
    let (mut requests, mut responses) = (Decoder::default(), Decoder::default());
    requests.push(bytes);
    responses.push(bytes);
    loop {
        let (request, response) = (requests.next::<Request>(), responses.next::<Response>());
        match (&request, &response) {
            (Ok(None), _) | (Err(FrameError::TooLong { .. }), _) => break,
            (request, response) => count(request.is_ok() || response.is_ok()),
        }
        if let Ok(Some(request)) = request {
            same(&request, again::<Request>);
        }
        if let Ok(Some(response)) = response {
            same(&response, again::<Response>);
        }
    }
}

fn same<T: serde::Serialize + std::fmt::Debug>(message: &T, read: impl Fn(&[u8]) -> T) {
    // Written out, defaults may make it too long to be sent.
    if let Ok(bytes) = encode(message) {
        // As text, since NaN, which is null in JSON, is not equal to itself.
        assert_eq!(format!("{:?}", read(&bytes)), format!("{message:?}"));
    }
}

fn again<T: serde::de::DeserializeOwned>(bytes: &[u8]) -> T {
    let mut decoder = Decoder::default();
    decoder.push(bytes);
    decoder
        .next()
        .expect("our own bytes")
        .expect("a whole message")
}

/// Output is read the same however it is cut, and in memory that does not depend on its length.
pub fn logs(data: &[u8]) {
    let Some((mode, log)) = data.split_first() else {
        return;
    };
    if mode & 1 == 1 {
        return events(log, usize::from(mode / 2) + 1);
    }
    let follower = || Follower::new(None).expect("no pattern, no fault");
    let mut whole = follower();
    whole.feed(log, None);
    whole.finish(None);
    let mut cut = follower();
    log.chunks(usize::from(mode / 2) + 1)
        .for_each(|piece| cut.feed(piece, None));
    cut.finish(None);
    let (whole, cut) = (whole.progress(), cut.progress());
    count(whole.recogniser.is_some());
    assert_eq!(format!("{whole:?}"), format!("{cut:?}"));
    assert!(
        whole.epochs_completed >= whole.epochs.len() as u64,
        "{whole:?}"
    );
    if *mode == 0 {
        let before = HELD.load(Relaxed);
        let mut long = follower();
        for _ in 0..200 {
            long.feed(log, None);
        }
        let held = HELD.load(Relaxed) - before;
        assert!(held < 8 << 20, "the follower holds {held} bytes");
    }
}

fn events(lines: &[u8], size: usize) {
    let heard = |size| {
        let mut log = EventLog::default();
        lines.chunks(size).for_each(|piece| log.feed(piece, None));
        log.finish(None);
        (
            format!("{:?}", log.over(Progress::default())),
            log.trouble(),
        )
    };
    let whole = heard(lines.len().max(1));
    count(whole.1.is_none());
    assert_eq!(whole, heard(size));
}

/// What a scheduler printed is read or not, and what is read can be printed; so are notices and last words at the end of an output.
pub fn scheduler(data: &[u8]) {
    let text = String::from_utf8_lossy(data);
    let seen = printed::read(&text);
    count(seen.is_some());
    if let Some(seen) = seen {
        assert!(
            !seen.form.is_empty() && !seen.scheduler.is_empty(),
            "{seen:?}"
        );
        assert!(
            seen.jobs.iter().all(|job| !job.state.is_empty()),
            "{seen:?}"
        );
        serde_json::to_string(&seen).expect("plain data");
    }
    let _ = record::find_notice(data, &["17", "4242.server"]);
    let _ = record::last_words(data, record::ExitStatus::Code(1));
}

/// A job file is read, or refused with reasons that point into it.
pub fn job_files(data: &[u8]) {
    let text = String::from_utf8_lossy(data);
    let read = job::parse(&text);
    count(read.is_ok());
    if let Err(problems) = read {
        explained(&problems, &text);
    }
}

fn explained(problems: &[Problem], text: &str) {
    assert!(!problems.is_empty(), "refused without a reason");
    for problem in problems {
        let shown = problem
            .span
            .clone()
            .is_none_or(|span| text.get(span).is_some());
        assert!(shown && !problem.message.is_empty(), "{problem:?}");
    }
}

/// MODAK's JSON and batch scripts become job files that can be read, or are refused with reasons.
pub fn descriptions(data: &[u8]) {
    let text = String::from_utf8_lossy(data);
    let place = ScriptPlace {
        name: "script.sh".to_owned(),
        path: "/home/u/script.sh".to_owned(),
    };
    let converted = [
        convert::convert(&text, None),
        convert::convert(&text, Some(&place)),
    ];
    count(converted[0].is_ok());
    for converted in converted {
        match converted {
            Err(problems) => explained(&problems, &text),
            Ok(made) => {
                explained(
                    &made
                        .refusals()
                        .chain([Problem::of_file("none")])
                        .collect::<Vec<_>>(),
                    &text,
                );
                if let Err(problems) = job::parse(&made.job_file) {
                    panic!("{problems:?} in {}", made.job_file);
                }
            }
        }
    }
}

/// Files of a job's cgroup, in the order in which bytes of 0xff separate their contents.
const CGROUP_FILES: [&str; 18] = [
    "cpu.stat",
    "memory.stat",
    "memory.peak",
    "memory.events",
    "io.stat",
    "cpu.pressure",
    "memory.pressure",
    "io.pressure",
    "cpuacct.usage",
    "cpuacct.stat",
    "memory.max_usage_in_bytes",
    "memory.oom_control",
    "blkio.throttle.io_service_bytes_recursive",
    "memory.max",
    "memory.current",
    "cpu.max",
    "devices.list",
    "cgroup.procs",
];

/// First `/proc/PID/cgroup`, then `mountinfo`, then the files: no directory outside the mounts is found, no counter falls, and a sample
/// can be kept.
pub fn cgroups(data: &[u8]) {
    thread_local!(static DIR: tempfile::TempDir = in_memory());
    DIR.with(|dir| cgroups_in(dir.path(), data));
}

fn in_memory() -> tempfile::TempDir {
    let dir = tempfile::Builder::new()
        .prefix("dlrun-fuzz-")
        .tempdir_in("/dev/shm")
        .expect("a directory");
    fs::create_dir_all(dir.path().join("7")).expect("ours");
    fs::create_dir_all(dir.path().join("self")).expect("ours");
    dir
}

fn cgroups_in(dir: &Path, data: &[u8]) {
    let mut parts = data.split(|byte| *byte == 0xff);
    let mut put =
        |name: &str| fs::write(dir.join(name), parts.next().unwrap_or_default()).expect("ours");
    put("7/cgroup");
    put("self/mountinfo");
    CGROUP_FILES.iter().for_each(|name| put(name));
    let found = locate_in(dir, 7).expect("both files are there");
    count(found.is_some());
    if let Some(job) = found {
        assert!(!job.path.split('/').any(|part| part == ".."), "{job:?}");
    }
    let here = || Some(dir.to_owned());
    let v2 = CgroupDirectories {
        unified: here(),
        processes: here(),
        ..CgroupDirectories::default()
    };
    let v1 = CgroupDirectories {
        unified: None,
        cpu: here(),
        cpuacct: here(),
        memory: here(),
        blkio: here(),
        processes: here(),
    };
    for directories in [v2, v1] {
        let job = JobCgroup {
            scheduler: None,
            job_id: None,
            sluid: None,
            uid: None,
            container_id: None,
            path: "/job".to_owned(),
            directories,
        };
        let root = TreeRoot {
            command: Process {
                pid: 7,
                start_time_ticks: 1,
            },
            supervisor: None,
            exclude: Vec::new(),
        };
        let mut sampler = Sampler::of_job_in(dir, root, Some(&job), PROCESS_INTERVAL);
        let samples = [
            sampler.sample(1_795_000_000_000, true),
            sampler.sample(1_795_000_001_000, true),
        ];
        kept(&samples);
        assert!(
            samples[1].cpu_user_us >= samples[0].cpu_user_us,
            "{samples:?}"
        );
        assert!(
            samples[1].mem_oom_kills >= samples[0].mem_oom_kills,
            "{samples:?}"
        );
    }
}

fn kept(samples: &[record::Sample]) {
    let segments = encode_segments(samples);
    let read = segments
        .iter()
        .flat_map(|bytes| decode_segment(bytes).expect("our own bytes"));
    assert_eq!(samples, read.collect::<Vec<_>>());
}

/// A segment, or the body of one of version 1 (first byte odd), which gets a checksum that fits. What can be read comes back the same,
/// and columns by themselves hold as many values.
pub fn segments(data: &[u8]) {
    let Some((mode, data)) = data.split_first() else {
        return;
    };
    let mut bytes = if mode & 1 == 1 {
        b"dlrs\x01".to_vec()
    } else {
        Vec::new()
    };
    bytes.extend(data);
    bytes.extend(crc32fast::hash(&bytes).to_le_bytes());
    let read = decode_segment(&bytes);
    count(read.is_ok());
    if let Ok(samples) = read {
        kept(&samples);
        // A column that no reader knows is never looked at, so it may hold anything.
        let columns = decode_columns(&bytes, |_| false);
        assert!(columns.is_ok_and(|columns| {
            columns
                .at_ms
                .iter()
                .eq(samples.iter().map(|sample| &sample.at_ms))
        }));
    }
}

/// Lines of JSON. What is read is of one run, the database takes it, and what that exports can be read again.
pub fn imports(data: &[u8]) {
    thread_local!(static STORE: RefCell<(tempfile::TempDir, Store)> = {
        let dir = in_memory();
        let store = Store::open(&dir.path().join("dlrun.db")).expect("a new database");
        RefCell::new((dir, store))
    });
    let mut rows = Vec::new();
    for line in data.split(|byte| *byte == b'\n').take(32) {
        let read = Incoming::read(line);
        count(read.is_ok());
        match read {
            Ok(incoming) => {
                let owner = incoming.key.run_id.owner();
                assert_eq!(incoming.check_owner(1000).is_ok(), owner == Some(1000));
                rows.push((
                    incoming,
                    std::str::from_utf8(line).expect("it was read as text"),
                ));
            }
            Err(fault) => assert!(!fault.is_empty(), "{line:?}"),
        }
    }
    if !rows.is_empty() {
        STORE.with(|store| imported(&mut store.borrow_mut().1, rows));
    }
}

fn imported(store: &mut Store, rows: Vec<(Incoming, &str)>) {
    let runs: Vec<_> = rows
        .iter()
        .map(|(incoming, _)| incoming.key.run_id.clone())
        .collect();
    let taken = store.write(|writer| {
        for (incoming, line) in rows {
            writer.import(&incoming, line)?;
        }
        writer.import_waiting(0).map(drop)
    });
    let () = taken.unwrap_or_else(|error: StoreError| panic!("not taken: {error:?}"));
    for table in Table::ALL {
        let mut lines = Vec::new();
        let mut writer = JsonLines::new(&mut lines, table);
        let mut pages = Pages::new(store, Selection::all(table)).expect("a database");
        while pages
            .next(store, |cells| {
                writer.row(cells).expect("memory");
                Ok::<_, StoreError>(())
            })
            .expect("rows")
        {}
        writer.finish().expect("memory");
        drop(writer);
        for line in lines
            .split(|byte| *byte == b'\n')
            .filter(|line| !line.is_empty())
        {
            if let Err(fault) = Incoming::read(line) {
                panic!("{fault:?} in {}", String::from_utf8_lossy(line));
            }
        }
    }
    let gone = store.write(|writer| runs.iter().try_for_each(|run| writer.forget_imported(run)));
    let () = gone.unwrap_or_else(|error: StoreError| panic!("not forgotten: {error:?}"));
}
