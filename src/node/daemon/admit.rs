//! Whether a peer may have a run watched, and where its processes are. Nothing is taken from the message that the kernel can
//! tell.

use super::peer::Peer;
use crate::job::RunId;
use crate::observe::monitor::{JobCgroup, cgroup, identity};
use crate::observe::protocol::{Process, Refusal, RefusalKind, Registration};
use crate::record::{MAX_NAME_BYTES, NodeRecord};
use serde_json::Value;

/// What a run's description may weigh, in bytes of JSON.
const RUN_BYTES_MAX: usize = 64 << 10;
const RECORD_BYTES_MAX: usize = 256 << 10;
/// The longest name of a node; it comes from a file name (see `rundir`).
const NODE_NAME_MAX: usize = 244;

/// What the kernel says of a run.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Admitted {
    /// The training's first process, by this daemon's own pids.
    pub(super) command: Process,
    pub(super) supervisor: Process,
    pub(super) cgroup: Option<JobCgroup>,
}

fn refused<T>(kind: RefusalKind, message: impl Into<String>) -> Result<T, Refusal> {
    Err(Refusal::new(kind, message))
}

/// Looks the peer's family up: its parent is the supervisor, whose other child is the command.
pub(super) fn admit(peer: Peer, registration: &Registration) -> Result<Admitted, Refusal> {
    let gone = || {
        refused(
            RefusalKind::BadRequest,
            "the process that asks has ended already",
        )
    };
    // A connection outlives who made it, and its pid passes on.
    if identity::uid_of(peer.pid) != Some(peer.uid) {
        return gone();
    }
    let Ok(parent) = identity::parent_of(peer.pid) else {
        return gone();
    };
    if identity::uid_of(parent) != Some(peer.uid) {
        let message = format!("process {parent}, which started the asking one, is of another user");
        return refused(RefusalKind::NotPermitted, message);
    }
    let Ok(supervisor) = Process::with_pid(parent) else {
        return gone();
    };
    let Some(command) = command_of(parent, peer.pid, registration.command) else {
        let message = "the training is no child of the process that started the asking one";
        return refused(RefusalKind::BadRequest, message);
    };
    if identity::uid_of(command.pid) != Some(peer.uid) {
        let message = format!("process {} is of another user", command.pid);
        return refused(RefusalKind::NotPermitted, message);
    }
    Ok(Admitted {
        command,
        supervisor,
        cgroup: cgroup::locate_run(peer.pid, registration.run.scheduler.is_local()),
    })
}

/// Whether a registration holds together and is no larger than it may be; what its record weighs.
pub(super) fn check(registration: &Registration) -> Result<usize, Refusal> {
    let Registration {
        run, record, gpus, ..
    } = registration;
    bounded(run, RUN_BYTES_MAX, "the description of the run")?;
    let weight = check_record(record)?;
    let node = &record.key.node;
    let is_dir = node == "." || node == "..";
    if node.is_empty()
        || is_dir
        || node.len() > NODE_NAME_MAX
        || node.chars().any(|c| c == '/' || c.is_control())
    {
        return refused(
            RefusalKind::BadRequest,
            format!("{node:?} cannot name a node"),
        );
    }
    if gpus.len().max(record.gpus.len()) > 256 || gpus.iter().any(|uuid| uuid.len() > 96) {
        return refused(RefusalKind::BadRequest, "too many GPUs, or names too long");
    }
    if run.run_id != record.key.run_id {
        return refused(
            RefusalKind::BadRequest,
            "the run and the record do not belong together",
        );
    }
    Ok(weight)
}

/// Whether a record is no larger than it may be, and what it weighs: it is kept in memory as long as its run.
pub(super) fn check_record(record: &NodeRecord) -> Result<usize, Refusal> {
    bounded(record, RECORD_BYTES_MAX, "the record of the run")
}

/// Whether a run is the peer's. Ids are public, so one that does not say whose it is could be anybody's.
pub(super) fn check_owner(run_id: &RunId, peer: Peer) -> Result<(), Refusal> {
    match run_id.owner() {
        Some(owner) if owner == peer.uid => Ok(()),
        Some(_) => refused(
            RefusalKind::NotPermitted,
            format!("the id of run {run_id} is another user's"),
        ),
        None => refused(
            RefusalKind::NotPermitted,
            format!("the id of run {run_id} does not say whose it is: it is of an older dlrun"),
        ),
    }
}

/// What a message weighs, in bytes of JSON: no more than `most`, and without a text that `import` would refuse.
fn bounded(message: &impl serde::Serialize, most: usize, what: &str) -> Result<usize, Refusal> {
    let text = serde_json::to_string(message).unwrap_or_default();
    if text.is_empty() || text.len() > most {
        return refused(RefusalKind::BadRequest, format!("{what} is too long"));
    }
    match serde_json::from_str(&text).map(|value: Value| has_bad_text(&value)) {
        Ok(false) => Ok(text.len()),
        _ => refused(
            RefusalKind::BadRequest,
            format!("{what} has a text with a NUL, or one of more than {MAX_NAME_BYTES} bytes"),
        ),
    }
}

fn has_bad_text(value: &Value) -> bool {
    let is_bad = |text: &str| text.len() > MAX_NAME_BYTES || text.contains('\0');
    match value {
        Value::String(text) => is_bad(text),
        Value::Array(values) => values.iter().any(has_bad_text),
        Value::Object(fields) => fields
            .iter()
            .any(|(name, value)| is_bad(name) || has_bad_text(value)),
        _ => false,
    }
}

/// The command among the supervisor's children: the one that is claimed or, where the client counts pids in a namespace of
/// its own, the first that is not the client. Only the latter looks at all processes of the machine, which takes a while.
fn command_of(supervisor: u32, client: u32, claimed: Process) -> Option<Process> {
    if identity::nspids(client).is_some_and(|pids| pids.len() > 1) {
        let children = identity::children_of(supervisor).ok()?.into_iter();
        return children
            .filter(|child| child.pid != client)
            .min_by_key(|child| child.start_time_ticks);
    }
    let is_it = |claimed: &Process| {
        claimed.pid != client
            && identity::parent_of(claimed.pid).is_ok_and(|parent| parent == supervisor)
            && Process::with_pid(claimed.pid).is_ok_and(|now| now == *claimed)
    };
    Some(claimed).filter(is_it)
}
