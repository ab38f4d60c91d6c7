//! A stand-in for the node daemon: it speaks the protocol, makes samples up, and behaves as badly as it is told.

use std::collections::BTreeMap;
use std::io::{Read, Write};
use std::net::Shutdown;
use std::os::unix::net::{UnixListener, UnixStream};
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard};
use std::time::Duration;

use dlrun::observe::protocol::{
    Decoder, Hello, Measured, RefusalKind, Registered, Request, Response, Segment, encode,
};
use dlrun::record::{Gap, Sample, Usage, encode_segments};

/// Processes that every sample of the stand-in shows: no run of a test has so many.
pub(crate) const PROCESSES: u64 = 77;
/// CPU time in its figures, in seconds.
pub(crate) const CPU_SECONDS: f64 = 1000.0;
/// Samples of one of its segments.
const SEGMENT_SAMPLES: usize = 3;

/// How it answers.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Manner {
    Sound,
    /// It reads and says nothing.
    Mute,
    /// A byte of its answers every 50 ms.
    Trickling,
    /// No JSON.
    Garbage,
    /// Promises 4 GiB.
    Endless,
    /// Speaks a later protocol.
    Later,
    /// Refuses to register runs, and that they end.
    Refusing(RefusalKind),
}

/// What outlives a stand-in that is killed.
#[derive(Debug, Default)]
pub(crate) struct Kept {
    /// By node and step.
    runs: BTreeMap<String, Run>,
    /// All that was asked, hellos left out.
    pub(crate) requests: Vec<Request>,
}

#[derive(Debug, Default)]
struct Run {
    /// Those that it made and those that it was given.
    samples: Vec<Sample>,
    acknowledged: Option<u32>,
    is_live: bool,
    gaps: Vec<Gap>,
}

impl Run {
    fn made(&self) -> impl Iterator<Item = &Sample> {
        self.samples
            .iter()
            .filter(|sample| sample.processes == Some(PROCESSES))
    }
}

impl Kept {
    /// The samples that it made of the only run.
    pub(crate) fn samples(&self) -> Vec<Sample> {
        self.runs
            .values()
            .next()
            .map_or_else(Vec::new, |run| run.made().cloned().collect())
    }

    /// True where the client acknowledged all that it can collect.
    pub(crate) fn is_collected(&self) -> bool {
        let run = self.runs.values().next().expect("a run");
        run.acknowledged
            .is_some_and(|last| last as usize == run.samples.len())
    }

    /// How often a kind of question was asked.
    pub(crate) fn count(&self, is_wanted: impl Fn(&Request) -> bool) -> usize {
        self.requests
            .iter()
            .filter(|request| is_wanted(request))
            .count()
    }
}

/// The stand-in; killed when it goes.
pub(crate) struct StandIn {
    path: PathBuf,
    kept: Arc<Mutex<Kept>>,
    state: Arc<State>,
}

struct State {
    manner: Mutex<Manner>,
    is_over: AtomicBool,
    streams: Mutex<Vec<UnixStream>>,
}

impl StandIn {
    /// Listens at `path`, and samples every run that registers each `interval`.
    pub(crate) fn start(path: &Path, interval: Duration, manner: Manner) -> Self {
        Self::start_with(path, interval, manner, Arc::default())
    }

    fn start_with(path: &Path, interval: Duration, manner: Manner, kept: Arc<Mutex<Kept>>) -> Self {
        let _ = std::fs::remove_file(path);
        let listener = UnixListener::bind(path).expect("a place for a socket");
        let state = Arc::new(State {
            manner: Mutex::new(manner),
            is_over: AtomicBool::new(false),
            streams: Mutex::default(),
        });
        let (clock, runs) = (state.clone(), kept.clone());
        std::thread::spawn(move || {
            while !clock.is_over.load(Ordering::SeqCst) {
                if *clock.manner.lock().expect("sound") == Manner::Sound {
                    tick(&mut runs.lock().expect("sound"));
                }
                std::thread::sleep(interval);
            }
        });
        let (door, runs) = (state.clone(), kept.clone());
        std::thread::spawn(move || {
            for stream in listener.incoming() {
                if door.is_over.load(Ordering::SeqCst) {
                    return;
                }
                let Ok(stream) = stream else { return };
                door.streams
                    .lock()
                    .expect("sound")
                    .push(stream.try_clone().expect("a descriptor"));
                let (state, kept) = (door.clone(), runs.clone());
                std::thread::spawn(move || serve(stream, &state, &kept));
            }
        });
        Self {
            path: path.to_owned(),
            kept,
            state,
        }
    }

    pub(crate) fn kept(&self) -> MutexGuard<'_, Kept> {
        self.kept.lock().expect("sound")
    }

    pub(crate) fn behave(&self, manner: Manner) {
        *self.state.manner.lock().expect("sound") = manner;
    }

    /// Ends it as `kill -9` would: the socket's file stays, what was kept too.
    pub(crate) fn kill(&self) {
        self.state.is_over.store(true, Ordering::SeqCst);
        for stream in self.state.streams.lock().expect("sound").drain(..) {
            let _ = stream.shutdown(Shutdown::Both);
        }
        // The thread that accepts wakes up, and goes with its socket.
        let _ = UnixStream::connect(&self.path);
    }

    /// Another one in its place, which knows what it knew.
    pub(crate) fn again(&self, interval: Duration) -> Self {
        for run in self.kept().runs.values_mut() {
            let from_ms = run.made().last().map_or(0, |sample| sample.at_ms);
            run.gaps.push(Gap {
                from_ms,
                to_ms: now_ms(),
                why: "the stand-in was killed".to_owned(),
            });
        }
        Self::start_with(&self.path, interval, Manner::Sound, self.kept.clone())
    }
}

impl Drop for StandIn {
    fn drop(&mut self) {
        self.kill();
    }
}

fn now_ms() -> u64 {
    std::time::UNIX_EPOCH
        .elapsed()
        .expect("a clock")
        .as_millis()
        .try_into()
        .expect("not so late")
}

fn tick(kept: &mut Kept) {
    for run in kept.runs.values_mut().filter(|run| run.is_live) {
        let sample = Sample {
            at_ms: now_ms(),
            cpu_user_us: Some(run.samples.len() as u64),
            processes: Some(PROCESSES),
            ..Sample::default()
        };
        run.samples.push(sample);
    }
}

fn serve(mut stream: UnixStream, state: &State, kept: &Mutex<Kept>) {
    let mut decoder = Decoder::default();
    // The run that this connection registered.
    let mut run = String::new();
    loop {
        let request = match decoder.next::<Request>() {
            Ok(Some(request)) => request,
            Ok(None) => {
                let mut bytes = vec![0; decoder.wanted().expect("a client of ours")];
                match stream.read(&mut bytes) {
                    Ok(0) | Err(_) => return,
                    Ok(read) => decoder.push(&bytes[..read]),
                }
                continue;
            }
            Err(error) => panic!("the client wrote nonsense: {error}"),
        };
        let manner = *state.manner.lock().expect("sound");
        let response = answer(&request, manner, &mut run, &mut kept.lock().expect("sound"));
        if !matches!(request, Request::Hello(_)) {
            kept.lock().expect("sound").requests.push(request);
        }
        if say(&mut stream, &response, manner).is_err() {
            return;
        }
    }
}

fn say(stream: &mut UnixStream, response: &Response, manner: Manner) -> std::io::Result<()> {
    let bytes = encode(response).expect("short");
    match manner {
        Manner::Mute => Ok(()),
        Manner::Garbage => stream.write_all(b"\x03\0\0\0{\xff}"),
        Manner::Endless => stream.write_all(&[0xff; 64]),
        Manner::Trickling => bytes.chunks(1).try_for_each(|byte| {
            std::thread::sleep(Duration::from_millis(50));
            stream.write_all(byte)
        }),
        Manner::Sound | Manner::Later | Manner::Refusing(_) => stream.write_all(&bytes),
    }
}

fn answer(request: &Request, manner: Manner, name: &mut String, kept: &mut Kept) -> Response {
    match request {
        Request::Hello(_) if manner == Manner::Later => Response::Hello(Hello {
            protocol: 99,
            version: "9.9.9".to_owned(),
        }),
        Request::Hello(_) => Response::Hello(Hello::ours()),
        Request::Register(registration) => {
            if let Manner::Refusing(kind) = manner {
                return Response::refused(kind, "the stand-in was told so");
            }
            let key = &registration.record.key;
            *name = format!("{}.{}", key.node, key.step);
            let resumed = kept.runs.contains_key(name);
            let run = kept.runs.entry(name.clone()).or_default();
            run.is_live = manner == Manner::Sound;
            let cgroup = Some("/job_7".to_owned());
            Response::Registered(Registered {
                interval_ms: 1,
                resumed,
                acknowledged: run.acknowledged,
                cgroup,
            })
        }
        Request::Update { .. } => measured(kept, name),
        Request::End(_) => {
            kept.runs.get_mut(name).expect("registered").is_live = false;
            match manner {
                Manner::Refusing(kind) => Response::refused(kind, "the stand-in was told so"),
                _ => measured(kept, name),
            }
        }
        Request::Collect { acknowledged } => {
            collect(*acknowledged, kept.runs.get_mut(name).expect("registered"))
        }
        other => panic!("a watcher does not ask {other:?}"),
    }
}

fn measured(kept: &Kept, name: &str) -> Response {
    let usage = Usage {
        cpu_user_seconds: Some(CPU_SECONDS),
        ..Usage::default()
    };
    let run = &kept.runs[name];
    Response::Measured(Box::new(Measured {
        usage,
        gaps: run.gaps.clone(),
        samples: run.made().count() as u64,
        cgroup: Some("/job_7".to_owned()),
        cpu_us: 5,
        ..Measured::default()
    }))
}

fn collect(acknowledged: Option<u32>, run: &mut Run) -> Response {
    run.acknowledged = run.acknowledged.max(acknowledged);
    let from = run
        .acknowledged
        .map_or(0, |number| usize::try_from(number).expect("few"));
    let to = run.samples.len().min(from + SEGMENT_SAMPLES);
    let bytes = encode_segments(&run.samples[from..to])
        .pop()
        .unwrap_or_default();
    let through = (to > from).then(|| u32::try_from(to).expect("few"));
    Response::Segment(Segment {
        through,
        bytes,
        more: to < run.samples.len(),
    })
}
