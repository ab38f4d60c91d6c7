//! The first node: it waits for the others, starts all at once, and says which rank fell first.

use std::collections::{BTreeMap, BTreeSet};
use std::io;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use tokio::io::{AsyncWriteExt, BufReader};
use tokio::net::tcp::OwnedReadHalf;
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::Semaphore;
use tokio::sync::mpsc::{UnboundedSender, unbounded_channel};
use tokio::time::{sleep, timeout};

use super::group::Group;
use super::message::{self, Fall, LINE, STRANGERS_LINE, ToFirst, ToNode};
use super::wire;
use crate::foundation::clock::now_ms;
use crate::launch::{Meeting, NodeShare};
use crate::record::ExitStatus;

/// How long somebody who connects may take to prove that he belongs to the job.
const PROOF: Duration = Duration::from_secs(5);
/// Connections without a proof at a time, beside one for each node.
const STRANGERS: usize = 64;
/// How long the failures of other ranks are waited for, before the first of them is named: the news of some travel longer.
const GATHERING: Duration = Duration::from_millis(400);
/// How long a node that closed its connection without a word may take to come back.
const LOST: Duration = Duration::from_secs(10);
/// After so long the nodes that are missing are named, without giving up.
const IMPATIENCE: Duration = Duration::from_secs(30);

/// The meeting as the first node knows it.
pub(super) struct First {
    pub(super) group: Group,
    pub(super) name: String,
    /// How long the last node may take.
    pub(super) patience: Duration,
    pub(super) say: Box<dyn Fn(String) + Send + Sync>,
    state: Mutex<State>,
}

#[derive(Default)]
struct State {
    shares: BTreeMap<usize, NodeShare>,
    lines: BTreeMap<usize, UnboundedSender<Arc<str>>>,
    over: BTreeSet<usize>,
    falls: Vec<Fall>,
    has_started: bool,
    /// Why there is no meeting any more: who comes later hears it too.
    refused: Option<String>,
}

impl First {
    pub(super) fn new(
        group: Group,
        name: String,
        patience: Duration,
        say: Box<dyn Fn(String) + Send + Sync>,
    ) -> Arc<Self> {
        let state = Mutex::default();
        Arc::new(Self {
            group,
            name,
            patience,
            say,
            state,
        })
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Serves the nodes for as long as the process lives.
    pub(super) async fn serve(self: Arc<Self>, listener: TcpListener) {
        tokio::spawn(Arc::clone(&self).wait_for_all());
        let strangers = Arc::new(Semaphore::new(STRANGERS + self.group.nodes.len()));
        while let Ok(permit) = Arc::clone(&strangers).acquire_owned().await {
            let Ok((stream, _)) = listener.accept().await else {
                sleep(Duration::from_millis(50)).await;
                continue;
            };
            let first = Arc::clone(&self);
            tokio::spawn(async move {
                let _ = stream.set_nodelay(true);
                let proven = timeout(PROOF, first.prove(stream)).await;
                drop(permit);
                if let Ok(Ok((node, skew_ms, reader))) = proven {
                    first.hear(node, skew_ms, reader).await;
                }
            });
        }
    }

    async fn wait_for_all(self: Arc<Self>) {
        let missing = |first: &Self| {
            let came = first.state().shares.keys().copied().collect();
            first.group.missing(&came).join(", ")
        };
        sleep(IMPATIENCE.min(self.patience)).await;
        if self.state().has_started {
            return;
        }
        (self.say)(format!("waiting for {} to start dlrun", missing(&self)));
        sleep(self.patience.saturating_sub(IMPATIENCE)).await;
        if !self.state().has_started {
            let why = format!(
                "{} did not come to the meeting of the nodes within {} s",
                missing(&self),
                self.patience.as_secs()
            );
            self.state().refused = Some(why.clone());
            self.tell_all(&ToNode::Refused(why));
        }
    }

    /// Lets somebody prove that he belongs to the job, and takes him in. The node, by how much its clock is ahead, in
    /// milliseconds, and what comes from it.
    async fn prove(&self, stream: TcpStream) -> io::Result<(usize, i64, BufReader<OwnedReadHalf>)> {
        let (reader, mut writer) = stream.into_split();
        let mut reader = BufReader::new(reader);
        let refused = || io::Error::from(io::ErrorKind::PermissionDenied);
        let ToFirst::Hello { nonce } = wire::read(&mut reader, STRANGERS_LINE).await? else {
            return Err(refused());
        };
        let own = message::nonce()?;
        let of = |side| message::proof(&self.group.secret, side, [&nonce, &own]);
        let answer = ToNode::Proof {
            nonce: own.clone(),
            proof: of("first"),
        };
        wire::write(&mut writer, &answer).await?;
        let join = wire::read(&mut reader, STRANGERS_LINE).await?;
        let ToFirst::Join {
            proof,
            node,
            share,
            clock_ms,
        } = join
        else {
            return Err(refused());
        };
        if !message::is_same(&proof, &of("node")) || node >= self.group.nodes.len() {
            return Err(refused());
        }
        let (sender, mut lines) = unbounded_channel::<Arc<str>>();
        tokio::spawn(async move {
            while let Some(line) = lines.recv().await {
                if writer.write_all(line.as_bytes()).await.is_err() {
                    return;
                }
            }
        });
        let skew_ms = i64::try_from(clock_ms).unwrap_or(0) - i64::try_from(now_ms()).unwrap_or(0);
        self.take_in(node, share, sender);
        Ok((node, skew_ms, reader))
    }

    fn take_in(&self, node: usize, share: NodeShare, sender: UnboundedSender<Arc<str>>) {
        let mut state = self.state();
        if let Some(why) = &state.refused {
            let _ = sender.send(wire::line(&ToNode::Refused(why.clone())).into());
        }
        state.lines.insert(node, sender);
        state.shares.insert(node, share);
        if state.has_started || state.shares.len() < self.group.nodes.len() {
            return;
        }
        state.has_started = true;
        // What only the node itself needs stays away: the table of a large job goes to many.
        let common = |share: &NodeShare| NodeShare {
            gpus: Vec::new(),
            cpus: Vec::new(),
            ..share.clone()
        };
        let nodes = state.shares.values().map(common).collect();
        drop(state);
        self.tell_all(&ToNode::Table(Meeting {
            name: self.name.clone(),
            nodes,
        }));
    }

    fn tell_all(&self, message: &ToNode) {
        let line: Arc<str> = wire::line(message).into();
        for sender in self.state().lines.values() {
            let _ = sender.send(Arc::clone(&line));
        }
    }

    /// Hears a node to its end.
    async fn hear(
        self: Arc<Self>,
        node: usize,
        skew_ms: i64,
        mut reader: BufReader<OwnedReadHalf>,
    ) {
        loop {
            match wire::read(&mut reader, LINE).await {
                Ok(ToFirst::Fell(fall)) => {
                    let at_ms = fall.at_ms.saturating_add_signed(-skew_ms);
                    Arc::clone(&self).fell(Fall { at_ms, ..fall });
                }
                Ok(ToFirst::Over) => {
                    self.state().over.insert(node);
                    if self.state().over.len() == self.group.nodes.len() {
                        self.tell_all(&ToNode::AllOver);
                    }
                }
                Ok(_) => {}
                Err(_) => break,
            }
        }
        if self.state().over.contains(&node) {
            return;
        }
        // Its dlrun is dead, and so are its ranks, which die with it. A node that is only cut off closes nothing.
        sleep(LOST).await;
        let name = self.group.nodes[node].0.clone();
        let exit = ExitStatus::Signal(nix::sys::signal::Signal::SIGKILL as i32);
        self.fell(Fall {
            rank: None,
            node: name,
            exit,
            at_ms: now_ms(),
        });
    }

    /// Notes a failure; a moment after the first one all are told which was the first.
    fn fell(self: Arc<Self>, fall: Fall) {
        let mut state = self.state();
        state.falls.push(fall);
        let is_first = state.falls.len() == 1;
        drop(state);
        if is_first {
            tokio::spawn(async move {
                sleep(GATHERING).await;
                let first = self
                    .state()
                    .falls
                    .iter()
                    .min_by_key(|fall| fall.at_ms)
                    .cloned();
                if let Some(first) = first {
                    self.tell_all(&ToNode::Stop(first));
                }
            });
        }
    }
}

#[cfg(test)]
mod tests {
    use std::net::SocketAddr;
    use std::time::Instant;

    use super::*;
    use crate::node::supervise::ranks::member::{Member, Newcomer};

    fn newcomer(nodes: usize, node: usize, secret: &str) -> Newcomer {
        let name = |at: usize| (format!("n{at}"), 2);
        Newcomer {
            group: Group::of((0..nodes).map(name).collect(), node, secret),
            node,
            port: 21_000,
            gpus: vec!["0".into()],
            cpus: vec![0, 1],
        }
    }

    async fn open(nodes: usize, patience: Duration) -> SocketAddr {
        let listener = TcpListener::bind("127.0.0.1:0").await.expect("a port");
        let address = listener.local_addr().expect("bound");
        let group = newcomer(nodes, 0, "right").group;
        let first = First::new(group, "run.0".into(), patience, Box::new(|_| {}));
        tokio::spawn(first.serve(listener));
        address
    }

    async fn hears(member: &mut Member) -> ToNode {
        let heard = timeout(
            Duration::from_secs(20),
            wire::read(&mut member.reader, LINE),
        )
        .await;
        heard.expect("in time").expect("a message")
    }

    fn with_network<T>(test: impl Future<Output = T>) -> T {
        let mut runtime = tokio::runtime::Builder::new_current_thread();
        runtime
            .enable_all()
            .build()
            .expect("a runtime")
            .block_on(test)
    }

    #[test]
    fn all_start_when_the_last_has_come_and_hear_who_fell_first() {
        with_network(async {
            let at = open(2, Duration::from_secs(60)).await;
            let mut one = newcomer(2, 1, "right").join(Some(at), None).await;
            let mut zero = newcomer(2, 0, "right").join(Some(at), None).await;
            for member in [&mut zero, &mut one] {
                let ToNode::Table(meeting) = hears(member).await else {
                    panic!("no table");
                };
                let names: Vec<&str> = meeting.nodes.iter().map(|node| &*node.host).collect();
                assert_eq!((names, meeting.ranks().len()), (vec!["n0", "n1"], 4));
            }
            let fell = |rank, at_ms| {
                let exit = ExitStatus::Code(1);
                ToFirst::Fell(Fall {
                    rank: Some(rank),
                    node: "n".into(),
                    exit,
                    at_ms,
                })
            };
            let now = now_ms();
            wire::write(&mut zero.writer, &fell(0, now))
                .await
                .expect("sent");
            wire::write(&mut one.writer, &fell(3, now - 100))
                .await
                .expect("sent");
            for member in [&mut zero, &mut one] {
                let ToNode::Stop(fall) = hears(member).await else {
                    panic!("no stop");
                };
                assert_eq!(fall.rank, Some(3));
            }
        });
    }

    #[test]
    fn somebody_without_the_secret_is_not_let_in() {
        with_network(async {
            let at = open(2, Duration::from_millis(300)).await;
            let stranger = newcomer(2, 1, "wrong");
            let joined = timeout(Duration::from_secs(1), stranger.join(Some(at), None)).await;
            assert!(joined.is_err(), "he was let in");
            // Nor does silence, or a message without end, keep the others out.
            let silent = TcpStream::connect(at).await.expect("it listens");
            let mut zero = newcomer(2, 0, "right").join(Some(at), None).await;
            let ToNode::Refused(why) = hears(&mut zero).await else {
                panic!("no refusal");
            };
            assert!(why.contains("n1 did not come"), "{why}");
            drop(silent);
        });
    }

    /// docs/testing.md has the figures of larger ones.
    #[test]
    fn large_group_meets() {
        let count = std::env::var("DLRUN_TEST_NODES").ok();
        let nodes = count.and_then(|count| count.parse().ok()).unwrap_or(64);
        with_network(async {
            let at = open(nodes, Duration::from_secs(60)).await;
            let began = Instant::now();
            let joining = (0..nodes).map(|node| {
                tokio::spawn(async move {
                    let mut newcomer = newcomer(nodes, node, "right");
                    newcomer.group.nodes[node].1 = 0;
                    newcomer.join(Some(at), None).await
                })
            });
            let joining: Vec<_> = joining.collect();
            for member in joining {
                let mut member = member.await.expect("joined");
                assert!(matches!(hears(&mut member).await, ToNode::Table(_)));
            }
            println!("{nodes} nodes met in {:?}", began.elapsed());
        });
    }
}
