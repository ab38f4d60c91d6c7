//! Processes that are measured while they run: the daemon, and what it is compared with.

use std::error::Error;
use std::fs::{self, File};
use std::os::unix::net::UnixStream;
use std::path::{Path, PathBuf};
use std::process::{Child, Command};
use std::time::{Duration, Instant};

use nix::libc;
use nix::sys::signal::{Signal, kill};
use nix::unistd::Pid;

use crate::measure::{number, quiet};

/// The daemon under test.
const DLRUND: &str = env!("CARGO_BIN_EXE_dlrund");
/// How long it may take to begin and to end.
const PATIENCE: Duration = Duration::from_secs(60);

/// A process that can be held. It is killed when this is dropped.
pub(crate) struct Resident {
    child: Child,
}

/// What a process took over some time.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Took {
    pub(crate) seconds: f64,
    pub(crate) cpu_ms: f64,
    /// Times that its threads waited.
    pub(crate) waits: f64,
}

impl Resident {
    pub(crate) fn start(command: &mut Command) -> Result<Self, Box<dyn Error>> {
        let child = command
            .spawn()
            .map_err(|error| format!("{command:?}: {error}"))?;
        Ok(Self { child })
    }

    fn pid(&self) -> Pid {
        Pid::from_raw(i32::try_from(self.child.id()).unwrap_or(0))
    }

    fn signal(&self, signal: Signal) -> Result<(), Box<dyn Error>> {
        Ok(kill(self.pid(), signal)?)
    }

    /// Lets it rest until it is measured.
    pub(crate) fn hold(&self) -> Result<(), Box<dyn Error>> {
        self.signal(Signal::SIGSTOP)
    }

    /// Lets it run for `warm_up` and measures it for `window`; it is held before and after.
    pub(crate) fn window(
        &mut self,
        warm_up: Duration,
        window: Duration,
    ) -> Result<Took, Box<dyn Error>> {
        self.signal(Signal::SIGCONT)?;
        std::thread::sleep(warm_up);
        let (begun, cpu_before, waits_before) = (Instant::now(), self.cpu_ms()?, self.waits()?);
        std::thread::sleep(window);
        let took = Took {
            cpu_ms: self.cpu_ms()? - cpu_before,
            waits: self.waits()? - waits_before,
            seconds: begun.elapsed().as_secs_f64(),
        };
        if let Some(status) = self.child.try_wait()? {
            return Err(format!("a program that was to be measured ended: {status}").into());
        }
        self.hold()?;
        Ok(took)
    }

    /// CPU time of all its threads so far, in milliseconds, to the nanosecond.
    pub(crate) fn cpu_ms(&self) -> Result<f64, Box<dyn Error>> {
        let (mut clock, mut time) = (
            0,
            libc::timespec {
                tv_sec: 0,
                tv_nsec: 0,
            },
        );
        // SAFETY: both calls only write to the places given, which are valid.
        let failed = unsafe {
            libc::clock_getcpuclockid(self.pid().as_raw(), &raw mut clock) != 0
                || libc::clock_gettime(clock, &raw mut time) != 0
        };
        if failed {
            return Err("the CPU time of a process cannot be read".into());
        }
        Ok(number(usize::try_from(time.tv_sec)?) * 1e3
            + number(usize::try_from(time.tv_nsec)?) / 1e6)
    }

    /// How often its threads waited for something so far.
    fn waits(&self) -> Result<f64, Box<dyn Error>> {
        let mut waits = 0;
        for task in fs::read_dir(format!("/proc/{}/task", self.child.id()))?.flatten() {
            waits += figure(&task.path().join("status"), "voluntary_ctxt_switches:")?;
        }
        Ok(number(usize::try_from(waits)?))
    }

    /// Its resident memory, in bytes, now.
    pub(crate) fn rss_bytes(&self) -> Result<u64, Box<dyn Error>> {
        Ok(figure(
            Path::new(&format!("/proc/{}/status", self.child.id())),
            "VmRSS:",
        )? * 1024)
    }

    /// Bytes that it had written to storage so far, by the kernel's account.
    pub(crate) fn written_bytes(&self) -> Result<u64, Box<dyn Error>> {
        figure(
            Path::new(&format!("/proc/{}/io", self.child.id())),
            "write_bytes:",
        )
    }
}

impl Drop for Resident {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// The number that follows a key in a file of `/proc`.
fn figure(path: &Path, key: &str) -> Result<u64, Box<dyn Error>> {
    let text = fs::read_to_string(path)?;
    let value = text
        .lines()
        .find_map(|line| line.strip_prefix(key))
        .ok_or_else(|| format!("{} has no {key} (any more)", path.display()))?;
    Ok(value.trim().trim_end_matches(" kB").parse()?)
}

/// A daemon with a configuration, a socket and a database of its own.
pub(crate) struct Dlrund {
    pub(crate) process: Resident,
    dir: PathBuf,
}

impl Dlrund {
    /// Starts one in a directory, which is made, and waits until it listens. `settings` is the end of its configuration.
    pub(crate) fn start(dir: PathBuf, settings: &str) -> Result<Self, Box<dyn Error>> {
        fs::create_dir_all(&dir)?;
        let config = dir.join("dlrund.toml");
        let text = format!(
            "socket = {:?}\nstate_dir = {:?}\nread_group = \"\"\n{settings}\n",
            dir.join("s").display().to_string(),
            dir.display().to_string()
        );
        fs::write(&config, text)?;
        let mut command = quiet(DLRUND);
        command
            .arg("--config")
            .arg(&config)
            .env_clear()
            .stderr(File::create(dir.join("log"))?);
        let mut daemon = Self {
            process: Resident::start(&mut command)?,
            dir,
        };
        let begun = Instant::now();
        while UnixStream::connect(daemon.socket()).is_err() {
            if daemon.process.child.try_wait()?.is_some() || begun.elapsed() > PATIENCE {
                return Err(daemon.complaint());
            }
            std::thread::sleep(Duration::from_millis(5));
        }
        Ok(daemon)
    }

    pub(crate) fn socket(&self) -> PathBuf {
        self.dir.join("s")
    }

    pub(crate) fn database(&self) -> PathBuf {
        self.dir.join("dlrun.db")
    }

    fn complaint(&self) -> Box<dyn Error> {
        let log = fs::read_to_string(self.dir.join("log")).unwrap_or_default();
        format!(
            "dlrund does not work: {}",
            log.lines().last().unwrap_or("it says nothing")
        )
        .into()
    }

    /// Ends it as systemd does. Its database can be read then.
    pub(crate) fn stop(mut self) -> Result<(), Box<dyn Error>> {
        self.process.signal(Signal::SIGTERM)?;
        let begun = Instant::now();
        loop {
            match self.process.child.try_wait()? {
                Some(status) if status.success() => return Ok(()),
                Some(_) => return Err(self.complaint()),
                None if begun.elapsed() > PATIENCE => return Err("dlrund does not end".into()),
                None => std::thread::sleep(Duration::from_millis(5)),
            }
        }
    }
}
