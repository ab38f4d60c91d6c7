//! One connection to the daemon.

use std::io::{self, ErrorKind, Read, Write};
use std::os::fd::{AsFd, AsRawFd, BorrowedFd};
use std::os::unix::net::UnixStream;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use nix::errno::Errno;
use nix::sys::socket::{AddressFamily, SockFlag, SockType, UnixAddr, connect, socket};

use super::failure::ClientError;
use crate::observe::protocol::{Decoder, Hello, Request, Response, encode};

/// Pause before the next try where as many connections wait for the daemon as the kernel lets wait.
const FULL_PAUSE: Duration = Duration::from_millis(20);
/// Bytes that are read at once.
const PORTION: usize = 16 << 10;

/// A daemon that was greeted.
///
/// Its descriptor is readable only while an answer comes: readable in between, the daemon is gone.
#[derive(Debug)]
pub struct Daemon {
    socket: PathBuf,
    stream: UnixStream,
    decoder: Decoder,
    patience: Duration,
    hello: Hello,
    /// An answer was given up: what comes next may belong to the question before.
    is_spent: bool,
}

/// An end to waiting.
#[derive(Clone, Copy)]
struct Deadline {
    at: Instant,
    patience: Duration,
}

impl Deadline {
    fn within(patience: Duration) -> Self {
        Self {
            at: Instant::now() + patience,
            patience,
        }
    }

    /// The time that is left; `None` where it is over.
    fn left(self) -> Option<Duration> {
        let left = self.at.saturating_duration_since(Instant::now());
        (!left.is_zero()).then_some(left)
    }
}

impl Daemon {
    /// Connects to the daemon's socket and greets; all of it within `patience`, which then holds for each question too.
    ///
    /// # Errors
    /// [`ClientError::Connect`], with [`ClientError::is_absent`] where no daemon runs; [`ClientError::Version`] where it
    /// speaks another protocol; and all that [`Daemon::ask`] may say.
    pub fn connect(path: &Path, patience: Duration) -> Result<Self, ClientError> {
        let deadline = Deadline::within(patience);
        let stream = open(path, deadline)?;
        let ours = Hello::ours();
        let mut daemon = Self {
            socket: path.to_owned(),
            stream,
            decoder: Decoder::default(),
            patience,
            hello: ours.clone(),
            is_spent: false,
        };
        match daemon.exchange(&Request::Hello(ours.clone()), deadline)? {
            Response::Hello(theirs) => daemon.hello = theirs,
            _ => return Err(daemon.unexpected()),
        }
        match Hello::mismatch(&daemon.hello, &ours) {
            Some(message) => Err(ClientError::Version(daemon.socket, message)),
            None => Ok(daemon),
        }
    }

    /// Who answers.
    #[must_use]
    pub fn hello(&self) -> &Hello {
        &self.hello
    }

    /// Asks, and waits for the answer as long as [`Daemon::connect`] was allowed to.
    ///
    /// # Errors
    /// [`ClientError::Refused`], after which further questions may be asked. After any other error the connection is of no
    /// more use, and each further question is answered with [`ClientError::Closed`].
    pub fn ask(&mut self, request: &Request) -> Result<Response, ClientError> {
        self.ask_within(request, self.patience)
    }

    /// As [`Daemon::ask`], with its own patience.
    ///
    /// # Errors
    /// As [`Daemon::ask`].
    pub fn ask_within(
        &mut self,
        request: &Request,
        patience: Duration,
    ) -> Result<Response, ClientError> {
        self.exchange(request, Deadline::within(patience))
    }

    /// The error of an answer that does not fit the question.
    #[must_use]
    pub fn unexpected(&self) -> ClientError {
        ClientError::Unexpected(self.socket.clone())
    }

    fn exchange(&mut self, request: &Request, deadline: Deadline) -> Result<Response, ClientError> {
        if self.is_spent {
            return Err(self.closed());
        }
        let bytes = encode(request).map_err(|source| self.frame_error(source))?;
        self.is_spent = true;
        self.write(&bytes, deadline)?;
        let response = self.read(deadline)?;
        self.is_spent = false;
        match response {
            Response::Refused(refusal) => {
                let socket = self.socket.clone();
                Err(ClientError::Refused(socket, refusal.kind, refusal.message))
            }
            response => Ok(response),
        }
    }

    fn write(&mut self, mut bytes: &[u8], deadline: Deadline) -> Result<(), ClientError> {
        while !bytes.is_empty() {
            let left = self.left(deadline)?;
            let written = self.stream.set_write_timeout(Some(left));
            match written.and_then(|()| self.stream.write(bytes)) {
                Ok(written) => bytes = &bytes[written..],
                Err(error) if is_early(&error) => {}
                // A daemon that refuses says why before it closes: that can still be read.
                Err(error) if error.kind() == ErrorKind::BrokenPipe => return Ok(()),
                Err(source) => return Err(self.broken(source)),
            }
        }
        Ok(())
    }

    fn read(&mut self, deadline: Deadline) -> Result<Response, ClientError> {
        let mut buffer = [0; PORTION];
        loop {
            if let Some(response) = self
                .decoder
                .next()
                .map_err(|source| self.frame_error(source))?
            {
                return Ok(response);
            }
            let wanted = self
                .decoder
                .wanted()
                .map_err(|source| self.frame_error(source))?;
            // Set before each read: a daemon that trickles is always readable.
            let left = self.left(deadline)?;
            let read = self.stream.set_read_timeout(Some(left));
            match read.and_then(|()| self.stream.read(&mut buffer[..wanted.min(PORTION)])) {
                Ok(0) => return Err(self.closed()),
                Ok(read) => self.decoder.push(&buffer[..read]),
                Err(error) if is_early(&error) => {}
                Err(source) => return Err(self.broken(source)),
            }
        }
    }

    fn left(&self, deadline: Deadline) -> Result<Duration, ClientError> {
        deadline
            .left()
            .ok_or_else(|| timed_out(&self.socket, deadline))
    }

    fn closed(&self) -> ClientError {
        ClientError::Closed(self.socket.clone())
    }

    fn broken(&self, source: io::Error) -> ClientError {
        if source.kind() == ErrorKind::ConnectionReset {
            return self.closed();
        }
        ClientError::Broken(self.socket.clone(), source)
    }

    fn frame_error(&self, source: crate::observe::protocol::FrameError) -> ClientError {
        ClientError::Frame(self.socket.clone(), source)
    }
}

impl AsFd for Daemon {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.stream.as_fd()
    }
}

/// Opens the connection. A blocking `connect` would hang where the daemon does not accept and its queue is full, so it is
/// tried until it works (`EAGAIN`, `unix(7)`).
fn open(path: &Path, deadline: Deadline) -> Result<UnixStream, ClientError> {
    let failed = |errno: Errno| ClientError::Connect(path.to_owned(), errno.into());
    let address = UnixAddr::new(path).map_err(failed)?;
    let flags = SockFlag::SOCK_NONBLOCK | SockFlag::SOCK_CLOEXEC;
    let fd = socket(AddressFamily::Unix, SockType::Stream, flags, None).map_err(failed)?;
    loop {
        match connect(fd.as_raw_fd(), &address) {
            Ok(()) => {
                let stream = UnixStream::from(fd);
                let blocks = stream.set_nonblocking(false);
                let broken = |source| ClientError::Broken(path.to_owned(), source);
                return blocks.map(|()| stream).map_err(broken);
            }
            Err(Errno::EAGAIN) => match deadline.left() {
                Some(left) => std::thread::sleep(left.min(FULL_PAUSE)),
                None => return Err(timed_out(path, deadline)),
            },
            Err(Errno::EINTR) => {}
            Err(errno) => return Err(failed(errno)),
        }
    }
}

/// Interrupted, or waited for as long as was left.
fn is_early(error: &io::Error) -> bool {
    matches!(error.kind(), ErrorKind::WouldBlock | ErrorKind::Interrupted)
}

fn timed_out(socket: &Path, deadline: Deadline) -> ClientError {
    ClientError::TimedOut(socket.to_owned(), deadline.patience)
}
