//! Lines of JSON over TCP, read within bounds.

use std::io::{self, BufRead, Read, Write};
use std::net::TcpStream;
use std::sync::Arc;
use std::time::{Duration, Instant};

use nix::sys::socket::setsockopt;
use nix::sys::socket::sockopt::{KeepAlive, TcpKeepCount, TcpKeepIdle, TcpKeepInterval};
use serde::Serialize;
use serde::de::DeserializeOwned;

/// How long a peer may leave a message unread.
const UNREAD: Duration = Duration::from_secs(5);

/// A connection that several threads write to, and one of them reads.
#[derive(Debug, Clone)]
pub(super) struct Stream {
    stream: Arc<TcpStream>,
    /// Until when the other side must have sent something; `None`: it may be silent.
    deadline: Option<Instant>,
}

impl Stream {
    /// A connection whose other side has `patience` to say who it is.
    pub(super) fn new(stream: TcpStream, patience: Duration) -> io::Result<Self> {
        stream.set_nodelay(true)?;
        stream.set_write_timeout(Some(UNREAD))?;
        // A node that lost its power says nothing: the kernel asks it, every 30 s after a minute, ten times.
        setsockopt(&stream, KeepAlive, &true)?;
        setsockopt(&stream, TcpKeepIdle, &60)?;
        setsockopt(&stream, TcpKeepInterval, &30)?;
        setsockopt(&stream, TcpKeepCount, &10)?;
        Ok(Self {
            stream: Arc::new(stream),
            deadline: Some(Instant::now() + patience),
        })
    }

    /// From now on the other side may be silent.
    pub(super) fn trust(&mut self) -> io::Result<()> {
        self.deadline = None;
        self.stream.set_read_timeout(None)
    }

    pub(super) fn send(&self, line: &str) -> io::Result<()> {
        (&*self.stream).write_all(line.as_bytes())
    }

    /// One of IPv4 as such: a listener for IPv6 has it as `::ffff:10.0.0.1`.
    pub(super) fn own_address(&self) -> io::Result<std::net::IpAddr> {
        Ok(self.stream.local_addr()?.ip().to_canonical())
    }

    /// Whether both are the same connection.
    pub(super) fn is(&self, other: &Self) -> bool {
        Arc::ptr_eq(&self.stream, &other.stream)
    }

    pub(super) fn close(&self) {
        let _ = self.stream.shutdown(std::net::Shutdown::Both);
    }
}

impl Read for Stream {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        if let Some(deadline) = self.deadline {
            let left = deadline.saturating_duration_since(Instant::now());
            if left.is_zero() {
                return Err(io::ErrorKind::TimedOut.into());
            }
            self.stream.set_read_timeout(Some(left))?;
        }
        (&*self.stream).read(buffer)
    }
}

/// Says whether an error means that the network does not reach the other side, of which then nothing is known.
pub(super) fn is_cut_off(error: &io::Error) -> bool {
    use io::ErrorKind::{HostUnreachable, NetworkDown, NetworkUnreachable, TimedOut};
    matches!(
        error.kind(),
        TimedOut | HostUnreachable | NetworkUnreachable | NetworkDown
    )
}

/// The next line; an error too where it is longer than `limit` bytes, is no such message, or the connection ended.
pub(super) fn read<T: DeserializeOwned>(reader: &mut impl BufRead, limit: usize) -> io::Result<T> {
    let mut line = Vec::new();
    let most = u64::try_from(limit).unwrap_or(u64::MAX);
    reader.take(most).read_until(b'\n', &mut line)?;
    match line.last() {
        Some(b'\n') => Ok(serde_json::from_slice(&line)?),
        Some(_) if line.len() >= limit => Err(io::Error::other("a message is too long")),
        _ => Err(io::ErrorKind::UnexpectedEof.into()),
    }
}

/// A message as a line.
pub(super) fn line(message: &impl Serialize) -> String {
    serde_json::to_string(message).expect("plain data") + "\n"
}
