//! What `dlrun` and the node daemon say to each other. `docs/protocol.md` has it on one page.
//!
//! Pure: bytes to messages and back. The client asks, the daemon answers each request with one response, in order; it never
//! speaks first. Who asks is known from the kernel (`SO_PEERCRED`), never from a message.

mod frame;
mod message;

pub use crate::observe::monitor::identity::Process;
pub use frame::{Decoder, FrameError, HEADER_BYTES, MAX_MESSAGE_BYTES, encode};
pub use message::{
    DaemonCost, DaemonStatus, Ending, GapHint, Hello, Measured, PROTOCOL, Refusal, RefusalKind,
    Registered, Registration, Request, Response, RunView, Runs, RunsQuery, Segment, StoreStatus,
};
