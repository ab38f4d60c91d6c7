//! Why the daemon gave no answer.

use std::io;
use std::path::PathBuf;
use std::time::Duration;

use crate::observe::protocol::{FrameError, RefusalKind};

/// Why the daemon gave no answer, or not the one that was wanted.
#[derive(Debug, thiserror::Error)]
pub enum ClientError {
    /// Nobody could be reached.
    #[error("cannot reach dlrund at `{0}`")]
    Connect(PathBuf, #[source] io::Error),
    /// The connection failed in the middle.
    #[error("the connection to dlrund at `{0}` failed")]
    Broken(PathBuf, #[source] io::Error),
    /// The daemon closed the connection.
    #[error("dlrund at `{0}` closed the connection")]
    Closed(PathBuf),
    /// The daemon did not answer in time.
    #[error("dlrund at `{0}` did not answer within {1:?}")]
    TimedOut(PathBuf, Duration),
    /// What was read is no message, or what was to be sent is too long for one.
    #[error("protocol error talking to dlrund at `{0}`")]
    Frame(PathBuf, #[source] FrameError),
    /// An answer that does not fit the question, or a segment that cannot be read.
    #[error("unexpected response from dlrund at `{0}`")]
    Unexpected(PathBuf),
    /// The daemon speaks another protocol.
    #[error("{1} (`{0}`)")]
    Version(PathBuf, String),
    /// The daemon said no.
    #[error("dlrund at `{0}` refused: {2}")]
    Refused(PathBuf, RefusalKind, String),
}

impl ClientError {
    /// What kind of refusal it was; `None` where it was none.
    #[must_use]
    pub fn refusal(&self) -> Option<RefusalKind> {
        match self {
            Self::Version { .. } => Some(RefusalKind::Version),
            Self::Refused(_, kind, _) => Some(*kind),
            _ => None,
        }
    }

    /// True where no daemon runs: its socket does not exist, or nobody listens.
    #[must_use]
    pub fn is_absent(&self) -> bool {
        let Self::Connect(_, source) = self else {
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
            Self::Connect { .. } => {
                Some("check with `systemctl status dlrund`; `systemctl start dlrund` starts it")
            }
            Self::Version { .. } | Self::Refused { .. } => None,
            _ => Some("check with `systemctl status dlrund` and `journalctl --unit=dlrund`"),
        }
    }
}
