//! One client's connection: messages in, responses out, each within its time.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::UnixStream;
use tokio::sync::{OwnedSemaphorePermit, Semaphore, mpsc, oneshot};
use tokio::time::timeout;

use super::peer::Peer;
use crate::foundation::diagnostic::chain_text;
use crate::observe::protocol::{
    Decoder, FrameError, Hello, RefusalKind, Request, Response, encode,
};

/// How long a client may take.
#[derive(Debug, Clone, Copy)]
pub(super) struct Patience {
    /// To send one message, once it began, and to take its response.
    pub(super) request: Duration,
    /// Between two messages.
    pub(super) idle: Duration,
}

/// A longer message needs one of few places, in bytes, until it is answered: half of it may be all that ever comes.
const LONG: usize = 64 << 10;

/// What one user may have at a time, and what all may.
#[derive(Debug, Clone)]
pub(super) struct Places {
    /// Requests that wait for their answers: the owner and the database are asked one after another, so that many connections
    /// of one user must not stand before everybody else's.
    pub(super) turns: Arc<Semaphore>,
    /// Long messages of the user, and of all users.
    pub(super) long: Arc<Semaphore>,
    pub(super) long_of_all: Arc<Semaphore>,
}

/// A place of each kind.
type Place = (OwnedSemaphorePermit, OwnedSemaphorePermit);

impl Places {
    /// Waits for a place of a long message; the semaphores are never closed.
    async fn take(&self) -> Option<Place> {
        let of_user = Arc::clone(&self.long).acquire_owned().await.ok()?;
        let of_all = Arc::clone(&self.long_of_all).acquire_owned().await.ok()?;
        Some((of_user, of_all))
    }
}

/// A message from a connection to the node's owner.
#[derive(Debug)]
pub(super) enum Asked {
    /// A request that wants a response.
    Request(Question),
    /// The connection is over.
    Gone { connection: u64, uid: u32 },
}

/// A request, and who waits for the response.
#[derive(Debug)]
pub(super) struct Question {
    pub(super) connection: u64,
    pub(super) peer: Peer,
    pub(super) request: Box<Request>,
    pub(super) reply: oneshot::Sender<Response>,
}

/// Who is served.
#[derive(Debug)]
pub(super) struct Client {
    pub(super) connection: u64,
    pub(super) peer: Peer,
    pub(super) patience: Patience,
    pub(super) places: Places,
}

/// Serves one client until it leaves, or breaks a rule.
pub(super) async fn serve(mut stream: UnixStream, client: Client, node: mpsc::Sender<Asked>) {
    if let Err(refusal) = converse(&mut stream, &client, &node).await {
        let Peer { uid, pid, .. } = client.peer;
        tracing::debug!(uid, pid, ?refusal, "a client was sent away");
        let _ = send(&mut stream, &refusal, client.patience).await;
    }
}

/// `Err` is the last word to a client that broke a rule; `Ok` where it left.
async fn converse(
    stream: &mut UnixStream,
    client: &Client,
    node: &mpsc::Sender<Asked>,
) -> Result<(), Response> {
    let (patience, places) = (client.patience, &client.places);
    let mut decoder = Decoder::default();
    let hurried = Patience {
        idle: patience.request,
        ..patience
    };
    match receive(stream, &mut decoder, hurried, places).await? {
        None => return Ok(()),
        Some((Request::Hello(theirs), _)) => {
            if let Some(why) = Hello::mismatch(&Hello::ours(), &theirs) {
                return Err(Response::refused(RefusalKind::Version, why));
            }
            if !send(stream, &Response::Hello(Hello::ours()), patience).await {
                return Ok(());
            }
        }
        Some(_) => {
            return Err(Response::refused(
                RefusalKind::BadRequest,
                "a hello must come first",
            ));
        }
    }
    while let Some((request, _place)) = receive(stream, &mut decoder, patience, places).await? {
        // Kept until the answer is there. The semaphore is never closed.
        let _turn = places.turns.acquire().await;
        let (reply, answer) = oneshot::channel();
        let asked = Question {
            connection: client.connection,
            peer: client.peer,
            request: Box::new(request),
            reply,
        };
        if node.send(Asked::Request(asked)).await.is_err() {
            return Ok(());
        }
        let answer = answer.await.unwrap_or_else(|_| {
            Response::refused(
                RefusalKind::Internal,
                "the daemon did not answer: it is shutting down",
            )
        });
        if !send(stream, &answer, patience).await {
            return Ok(());
        }
    }
    Ok(())
}

/// The next request; `None` where the client left or was silent for too long.
async fn receive(
    stream: &mut UnixStream,
    decoder: &mut Decoder,
    patience: Patience,
    places: &Places,
) -> Result<Option<(Request, Option<Place>)>, Response> {
    let bad = |error: &FrameError| Response::refused(RefusalKind::BadRequest, chain_text(error));
    let mut buffer = vec![0; 4096];
    if !decoder.is_inside() {
        let Ok(Ok(count @ 1..)) = timeout(patience.idle, stream.read(&mut buffer[..1])).await
        else {
            return Ok(None);
        };
        decoder.push(&buffer[..count]);
    }
    let waits = AtomicBool::new(false);
    let rest = async {
        let mut place = None;
        loop {
            if let Some(request) = decoder.next().map_err(|error| bad(&error))? {
                return Ok(Some((request, place)));
            }
            let wanted = decoder.wanted().map_err(|error| bad(&error))?;
            if wanted > LONG && place.is_none() {
                waits.store(true, Ordering::Relaxed);
                place = places.take().await;
                waits.store(false, Ordering::Relaxed);
            }
            let room = wanted.min(buffer.len());
            match stream.read(&mut buffer[..room]).await {
                Ok(count @ 1..) => decoder.push(&buffer[..count]),
                _ => return Ok(None),
            }
        }
    };
    timeout(patience.request, rest).await.unwrap_or_else(|_| {
        Err(match waits.load(Ordering::Relaxed) {
            true => Response::refused(
                RefusalKind::Busy,
                "other long messages are being read; try again later",
            ),
            false => Response::refused(
                RefusalKind::BadRequest,
                "the message took too long to arrive",
            ),
        })
    })
}

/// Sends a response; false where the client does not take it.
async fn send(stream: &mut UnixStream, response: &Response, patience: Patience) -> bool {
    let bytes = encode(response).or_else(|error| {
        let message = format!("the answer cannot be sent: {}", chain_text(&error));
        encode(&Response::refused(RefusalKind::Internal, message))
    });
    let Ok(bytes) = bytes else { return false };
    matches!(
        timeout(patience.request, stream.write_all(&bytes)).await,
        Ok(Ok(()))
    )
}
