//! Why the daemon gave no answer.

use std::io;
use std::path::PathBuf;
use std::time::Duration;

use crate::observe::protocol::{FrameError, RefusalKind};

/// Why the daemon gave no answer, or not the one that was wanted.
#[derive(Debug, thiserror::Error)]
pub enum ClientError {
    /// Nobody could be reached.
    #[error("cannot reach dlrund at `{socket}`")]
    Connect {
        /// The daemon's socket.
        socket: PathBuf,
        /// Why.
        source: io::Error,
    },
    /// The connection failed in the middle.
    #[error("the connection to dlrund at `{socket}` failed")]
    Broken {
        /// The daemon's socket.
        socket: PathBuf,
        /// Why.
        source: io::Error,
    },
    /// The daemon closed the connection.
    #[error("dlrund at `{socket}` closed the connection")]
    Closed {
        /// The daemon's socket.
        socket: PathBuf,
    },
    /// The daemon did not answer in time.
    #[error("dlrund at `{socket}` did not answer within {patience:?}")]
    TimedOut {
        /// The daemon's socket.
        socket: PathBuf,
        /// How long was waited.
        patience: Duration,
    },
    /// What was read is no message, or what was to be sent is too long for one.
    #[error("no sense in the talk with dlrund at `{socket}`")]
    Frame {
        /// The daemon's socket.
        socket: PathBuf,
        /// What is wrong.
        source: FrameError,
    },
    /// An answer that does not fit the question, or a segment that cannot be read.
    #[error("dlrund at `{socket}` gave an answer that makes no sense here")]
    Unexpected {
        /// The daemon's socket.
        socket: PathBuf,
    },
    /// The daemon speaks another protocol.
    #[error("{message} (`{socket}`)")]
    Version {
        /// The daemon's socket.
        socket: PathBuf,
        /// Both versions, and who is to be upgraded.
        message: String,
    },
    /// The daemon said no.
    #[error("dlrund at `{socket}` refused: {message}")]
    Refused {
        /// The daemon's socket.
        socket: PathBuf,
        /// What kind of reason.
        kind: RefusalKind,
        /// The reason.
        message: String,
    },
}

impl ClientError {
    /// What kind of refusal it was; `None` where it was none.
    #[must_use]
    pub fn refusal(&self) -> Option<RefusalKind> {
        match self {
            Self::Version { .. } => Some(RefusalKind::Version),
            Self::Refused { kind, .. } => Some(*kind),
            _ => None,
        }
    }

    /// True where no daemon runs: its socket is not there, or nobody listens.
    #[must_use]
    pub fn is_absent(&self) -> bool {
        let Self::Connect { source, .. } = self else {
            return false;
        };
        matches!(
            source.kind(),
            io::ErrorKind::NotFound | io::ErrorKind::ConnectionRefused
        )
    }

    /// What to do about it; `None` where the text says it.
    #[must_use]
    pub fn hint(&self) -> Option<&'static str> {
        match self {
            Self::Connect { .. } => Some(
                "is dlrund running? `systemctl status dlrund` tells, `systemctl start dlrund` starts it",
            ),
            Self::Version { .. } | Self::Refused { .. } => None,
            _ => {
                Some("`systemctl status dlrund` and `journalctl --unit=dlrund` tell how dlrund is")
            }
        }
    }
}
