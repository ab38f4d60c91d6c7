//! Moves bytes between us and a child, in one thread and without ever blocking on a pipe.
//!
//! A thread for each pipe would be simpler, but could not be left: a grandchild that keeps the pipe open holds the
//! reader for ever. Here the child's own end is what counts: once it is gone, what lies in the pipes is taken and that
//! is all.

use std::io::{self, ErrorKind, Read, Write};
use std::os::fd::{AsFd, BorrowedFd};
use std::process::{Child, ChildStderr, ChildStdin, ChildStdout, ExitStatus};
use std::time::{Duration, Instant};

use nix::errno::Errno;
use nix::fcntl::{FcntlArg, OFlag, fcntl};
use nix::poll::{PollFd, PollFlags, PollTimeout, poll};
use nix::sys::signal::{Signal, kill, killpg};
use nix::unistd::Pid;

/// How often the child's end is looked for while nothing comes, in milliseconds: at first, and at most.
const IDLE_MS: (u16, u16) = (1, 100);

/// How long a child may take to end after SIGTERM, and again after SIGKILL, by default.
pub(super) const GRACE: Duration = Duration::from_secs(2);

/// What is read at once. A pipe holds 64 KiB unless somebody enlarged it.
const CHUNK_BYTES: usize = 64 * 1024;

/// What is taken after the child's end at most: the most a pipe can hold (`pipe(7)`, `/proc/sys/fs/pipe-max-size`), so
/// that a grandchild that keeps writing does not hold us.
const LAST_CHUNKS: usize = 16;

/// Which of its two streams a program wrote to.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Stream {
    /// Standard output.
    Stdout,
    /// Standard error.
    Stderr,
}

/// What the follower of a child hears.
pub(super) enum Heard<'a> {
    /// What the child wrote.
    Bytes(Stream, &'a [u8]),
    /// Nothing; at least so often as [`IDLE_MS`] says.
    Tick,
}

/// Takes output and ticks; `false` asks to stop the child.
pub(super) type Sink<'a> = dyn FnMut(Heard<'_>) -> bool + 'a;

/// How following a child ended.
#[derive(Debug)]
pub(super) enum End {
    /// By itself.
    Exited(ExitStatus),
    /// At the deadline, stopped.
    TimedOut,
    /// By the sink's wish, stopped.
    Refused,
}

/// Whom a stop reaches.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum Reach {
    /// The child's process group, which it leads.
    Group,
    /// The child alone: it shares our group.
    Child,
}

/// A child with its pipes.
pub(super) struct Pump {
    child: Child,
    reach: Reach,
    stdin: Option<ChildStdin>,
    pending: Vec<u8>,
    written: usize,
    stdout: Option<ChildStdout>,
    stderr: Option<ChildStderr>,
    buffer: Vec<u8>,
    grace: Duration,
}

impl Pump {
    /// Takes over a child whose pipes are still with it; `input` is what it shall read.
    pub(super) fn new(
        mut child: Child,
        reach: Reach,
        input: Vec<u8>,
        grace: Duration,
    ) -> io::Result<Self> {
        let (stdin, stdout, stderr) =
            (child.stdin.take(), child.stdout.take(), child.stderr.take());
        let ends = [
            stdin.as_ref().map(AsFd::as_fd),
            stdout.as_ref().map(AsFd::as_fd),
            stderr.as_ref().map(AsFd::as_fd),
        ];
        for end in ends.into_iter().flatten() {
            never_block(end)?;
        }
        let buffer = vec![0; CHUNK_BYTES];
        Ok(Self {
            child,
            reach,
            stdin,
            pending: input,
            written: 0,
            stdout,
            stderr,
            buffer,
            grace,
        })
    }

    /// Moves bytes until the child ends, the deadline passes or the sink has had enough.
    pub(super) fn follow(
        mut self,
        deadline: Option<Instant>,
        sink: &mut Sink<'_>,
    ) -> io::Result<End> {
        let mut idle_ms = IDLE_MS.0;
        loop {
            if let Some(status) = self.child.try_wait()? {
                for _ in 0..LAST_CHUNKS {
                    if !self.read(sink)? {
                        return Ok(End::Refused);
                    }
                    if self.stdout.is_none() && self.stderr.is_none() {
                        break;
                    }
                }
                return Ok(End::Exited(status));
            }
            if deadline.is_some_and(|deadline| Instant::now() >= deadline) {
                self.stop();
                return Ok(End::TimedOut);
            }
            if self.wait_for_pipes(idle_ms, deadline)? {
                idle_ms = IDLE_MS.0;
            } else {
                idle_ms = (idle_ms * 2).min(IDLE_MS.1);
            }
            self.write();
            if !self.read(sink)? || !sink(Heard::Tick) {
                self.stop();
                return Ok(End::Refused);
            }
        }
    }

    /// Waits until a pipe is ready, and says whether one is.
    fn wait_for_pipes(&self, idle_ms: u16, deadline: Option<Instant>) -> io::Result<bool> {
        let mut ends = Vec::with_capacity(3);
        if let Some(stdin) = &self.stdin {
            ends.push(PollFd::new(stdin.as_fd(), PollFlags::POLLOUT));
        }
        let sources = [
            self.stdout.as_ref().map(AsFd::as_fd),
            self.stderr.as_ref().map(AsFd::as_fd),
        ];
        ends.extend(
            sources
                .into_iter()
                .flatten()
                .map(|end| PollFd::new(end, PollFlags::POLLIN)),
        );
        let left = deadline.map_or(Duration::MAX, |deadline| {
            deadline.saturating_duration_since(Instant::now())
        });
        let left_ms = u16::try_from(left.as_millis())
            .unwrap_or(u16::MAX)
            .saturating_add(1);
        match poll(&mut ends, PollTimeout::from(idle_ms.min(left_ms))) {
            Ok(ready) => Ok(ready > 0),
            Err(Errno::EINTR) => Ok(false),
            Err(error) => Err(error.into()),
        }
    }

    /// Gives the child what it takes. A child that does not want its input is no failure, so no error is one here.
    fn write(&mut self) {
        let Some(stdin) = &mut self.stdin else { return };
        let done = match stdin.write(&self.pending[self.written..]) {
            Ok(count) => {
                self.written += count;
                self.written == self.pending.len()
            }
            Err(error) => !is_early(&error),
        };
        if done {
            self.stdin = None;
            self.pending = Vec::new();
        }
    }

    /// Reads once from each pipe that is open, and says whether to go on.
    fn read(&mut self, sink: &mut Sink<'_>) -> io::Result<bool> {
        Ok(
            read_one(&mut self.stdout, &mut self.buffer, Stream::Stdout, sink)?
                && read_one(&mut self.stderr, &mut self.buffer, Stream::Stderr, sink)?,
        )
    }

    /// Ends the child, and its group where it leads one: SIGTERM, then SIGKILL. Never takes longer than
    /// twice the grace.
    fn stop(mut self) {
        self.stdin = None;
        self.signal(Some(Signal::SIGTERM));
        if !self.is_gone_within(self.grace) {
            self.signal(Some(Signal::SIGKILL));
            if !self.is_gone_within(self.grace) {
                // It hangs in the kernel, on a file system that does not answer. It must not become a zombie later.
                let mut child = self.child;
                std::thread::spawn(move || child.wait());
            }
        }
    }

    fn is_gone_within(&mut self, limit: Duration) -> bool {
        let deadline = Instant::now() + limit;
        loop {
            // Its last words are taken, so that a full pipe does not keep it from ending.
            let drained = self
                .wait_for_pipes(10, Some(deadline))
                .and_then(|_| self.read(&mut |_| true));
            if drained.is_err() {
                (self.stdout, self.stderr) = (None, None);
            }
            let ended = !matches!(self.child.try_wait(), Ok(None));
            if ended && !(self.reach == Reach::Group && self.signal(None)) {
                return true;
            }
            if Instant::now() >= deadline {
                return false;
            }
        }
    }

    /// Signals the child or its group, and says whether there was one; `None` only asks.
    fn signal(&self, signal: Option<Signal>) -> bool {
        let pid = pid_of(&self.child);
        let sent = match self.reach {
            Reach::Group => killpg(pid, signal),
            Reach::Child => kill(pid, signal),
        };
        sent.is_ok()
    }
}

/// The child's process id as the kernel's type.
pub(super) fn pid_of(child: &Child) -> Pid {
    Pid::from_raw(child.id().cast_signed())
}

fn read_one<R: Read>(
    source: &mut Option<R>,
    buffer: &mut [u8],
    stream: Stream,
    sink: &mut Sink<'_>,
) -> io::Result<bool> {
    let Some(pipe) = source else { return Ok(true) };
    match pipe.read(buffer) {
        Ok(0) => {
            *source = None;
            Ok(true)
        }
        Ok(count) => Ok(sink(Heard::Bytes(stream, &buffer[..count]))),
        Err(error) if is_early(&error) => Ok(true),
        Err(error) => Err(error),
    }
}

/// The pipe is not ready, or a signal came.
fn is_early(error: &io::Error) -> bool {
    matches!(error.kind(), ErrorKind::WouldBlock | ErrorKind::Interrupted)
}

/// Makes our end of a pipe non-blocking; the child's end is another open file and stays as it is.
fn never_block(end: BorrowedFd<'_>) -> io::Result<()> {
    let flags = OFlag::from_bits_retain(fcntl(end, FcntlArg::F_GETFL)?);
    fcntl(end, FcntlArg::F_SETFL(flags | OFlag::O_NONBLOCK))?;
    Ok(())
}
