//! The first node: it waits for the others, starts all at once, and says which rank fell first.

use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::io::{self, BufReader};
use std::net::{IpAddr, TcpListener};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::thread::{self, sleep};
use std::time::{Duration, Instant};

use super::group::Group;
use super::likeness::{Likeness, differences};
use super::message::{self, Fall, LINE, STRANGERS_LINE, ToFirst, ToNode};
use super::wire::{self, Stream};
use crate::foundation::clock::now_ms;
use crate::launch::{Meeting, NodeShare};
use crate::record::ExitStatus;

/// How long somebody who connects may take to prove that he belongs to the job.
const PROOF: Duration = Duration::from_secs(5);
/// Connections without a proof at a time, beside one for each node. One more takes the place of the oldest, so that nobody keeps
/// the nodes out by holding many; where the oldest is this young, it is closed itself, and a node tries again.
const STRANGERS: usize = 64;
const YOUNG: Duration = Duration::from_millis(500);
/// Memory for a thread that only reads lines and answers: a large job has many.
const STACK_BYTES: usize = 256 << 10;
/// How long the failures of other ranks are waited for, before the first of them is named: the news of some travel longer.
const GATHERING: Duration = Duration::from_millis(400);
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
    strangers: Mutex<VecDeque<(Instant, Stream)>>,
}

/// What a node said of itself.
struct Brought {
    share: NodeShare,
    likeness: Likeness,
    skew_ms: i64,
    unfit: Option<String>,
}

#[derive(Default)]
struct State {
    brought: BTreeMap<usize, Brought>,
    streams: BTreeMap<usize, Stream>,
    over: BTreeSet<usize>,
    falls: Vec<Fall>,
    has_told_fall: bool,
    /// The address at which other nodes reach this one.
    reached: Option<IpAddr>,
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
        let (state, strangers) = (Mutex::default(), Mutex::default());
        Arc::new(Self {
            group,
            name,
            patience,
            say,
            state,
            strangers,
        })
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn strangers(&self) -> MutexGuard<'_, VecDeque<(Instant, Stream)>> {
        let strangers = self.strangers.lock();
        strangers.unwrap_or_else(PoisonError::into_inner)
    }

    /// Whether there is a place for somebody without a proof.
    fn admits(&self, stream: &Stream) -> bool {
        let mut strangers = self.strangers();
        if strangers.len() >= STRANGERS + self.group.nodes.len() {
            let is_old = |(since, _): &mut (Instant, Stream)| since.elapsed() >= YOUNG;
            let Some((_, oldest)) = strangers.pop_front_if(is_old) else {
                return false;
            };
            oldest.close();
        }
        strangers.push_back((Instant::now(), stream.clone()));
        true
    }

    /// Gives up his place; whether he had it still.
    fn leaves(&self, stream: &Stream) -> bool {
        let mut strangers = self.strangers();
        let at = strangers.iter().position(|(_, other)| other.is(stream));
        at.and_then(|at| strangers.remove(at)).is_some()
    }

    /// Does something on a thread beside.
    fn beside(self: &Arc<Self>, work: impl FnOnce(Arc<Self>) + Send + 'static) {
        let first = Arc::clone(self);
        let thread = thread::Builder::new().stack_size(STACK_BYTES);
        if let Err(error) = thread.spawn(move || work(first)) {
            tracing::warn!(%error, "no thread for a node of the job");
        }
    }

    /// Serves the nodes for as long as the process lives, beside its other work.
    pub(super) fn serve(self: &Arc<Self>, listener: TcpListener) {
        self.beside(|first| first.wait_for_all());
        self.beside(move |first| {
            for stream in listener.incoming() {
                let Ok(stream) = stream else {
                    sleep(Duration::from_millis(50));
                    continue;
                };
                let stream = Stream::new(stream, PROOF).ok();
                let Some(stream) = stream.filter(|stream| first.admits(stream)) else {
                    continue;
                };
                first.beside(move |first| {
                    let proven = first.prove(&stream);
                    first.leaves(&stream);
                    drop(stream);
                    if let Ok((node, skew_ms, reader)) = proven {
                        first.hear(node, skew_ms, reader);
                    }
                });
            }
        });
    }

    fn wait_for_all(&self) {
        let missing = |first: &Self| {
            let came = first.state().brought.keys().copied().collect();
            first.group.missing(&came).join(", ")
        };
        sleep(IMPATIENCE.min(self.patience));
        if self.state().has_started {
            return;
        }
        (self.say)(format!("waiting for {} to start dlrun", missing(self)));
        sleep(self.patience.saturating_sub(IMPATIENCE));
        if !self.state().has_started {
            self.refuse(format!(
                "{} did not come to the meeting of the nodes within {} s",
                missing(self),
                self.patience.as_secs()
            ));
        }
    }

    fn refuse(&self, why: String) {
        self.state().refused = Some(why.clone());
        self.tell_all(&ToNode::Refused(why));
    }

    /// Lets somebody prove that he belongs to the job, and takes him in. The node, by how much its clock is ahead, in
    /// milliseconds, and what comes from it.
    fn prove(&self, stream: &Stream) -> io::Result<(usize, i64, BufReader<Stream>)> {
        let mut reader = BufReader::new(stream.clone());
        let refused = || io::Error::from(io::ErrorKind::PermissionDenied);
        let ToFirst::Hello { nonce } = wire::read(&mut reader, STRANGERS_LINE)? else {
            return Err(refused());
        };
        let own = message::nonce()?;
        let of = |side| message::proof(&self.group.secret, side, [&nonce, &own]);
        let proof = of("first");
        stream.send(&wire::line(&ToNode::Proof {
            nonce: own.clone(),
            proof,
            clock_ms: now_ms(),
        }))?;
        let join = wire::read(&mut reader, STRANGERS_LINE)?;
        let ToFirst::Join {
            proof,
            node,
            share,
            skew_ms,
            likeness,
            unfit,
        } = join
        else {
            return Err(refused());
        };
        let is_ours = message::is_same(&proof, &of("node")) && node < self.group.nodes.len();
        if !is_ours || !self.leaves(stream) {
            return Err(refused());
        }
        reader.get_mut().trust()?;
        let brought = Brought {
            share,
            likeness,
            skew_ms,
            unfit,
        };
        self.take_in(node, brought, stream.clone());
        Ok((node, skew_ms, reader))
    }

    fn take_in(&self, node: usize, brought: Brought, stream: Stream) {
        let mut state = self.state();
        if let Some(why) = state.refused.clone() {
            drop(state);
            let _ = stream.send(&wire::line(&ToNode::Refused(why)));
            return;
        }
        if node != 0 {
            state.reached = stream.own_address().ok().or(state.reached);
        }
        state.streams.insert(node, stream);
        state.brought.insert(node, brought);
        if state.has_started || state.brought.len() < self.group.nodes.len() {
            return;
        }
        state.has_started = true;
        let unfit = state.brought.values();
        let unfit: Vec<&str> = unfit.filter_map(|node| node.unfit.as_deref()).collect();
        let unfit = (!unfit.is_empty()).then(|| unfit.join("; "));
        let shares = state.brought.values().map(|brought| &brought.share);
        if let Some(why) = unfit.or_else(|| without_ports(shares)) {
            drop(state);
            return self.refuse(why);
        }
        // What only the node itself needs stays away: the table of a large job goes to many.
        let common = |share: &NodeShare| NodeShare {
            gpus: Vec::new(),
            cpus: Vec::new(),
            ..share.clone()
        };
        let brought = state.brought.values();
        let mut nodes: Vec<NodeShare> = brought.map(|brought| common(&brought.share)).collect();
        // The first node may have several addresses: the others know which of them they reach.
        if let (Some(first), Some(reached)) = (nodes.first_mut(), state.reached) {
            first.address = reached;
        }
        let compared = state.brought.values();
        let compared = compared.map(|node| (&*node.share.host, &node.likeness, node.skew_ms));
        let differences = differences(&compared.collect::<Vec<_>>());
        drop(state);
        differences.into_iter().for_each(&self.say);
        self.tell_all(&ToNode::Table(Meeting {
            name: self.name.clone(),
            nodes,
            roles: self.group.roles,
        }));
    }

    /// Tells every node; our own last, since this process may end when it hears of the end.
    fn tell_all(&self, message: &ToNode) {
        let line = wire::line(message);
        let streams: Vec<Stream> = self.state().streams.values().rev().cloned().collect();
        for stream in streams {
            let _ = stream.send(&line);
        }
    }

    /// Hears a node to its end.
    fn hear(self: &Arc<Self>, node: usize, skew_ms: i64, mut reader: BufReader<Stream>) {
        let error = loop {
            match wire::read(&mut reader, LINE) {
                Ok(ToFirst::Fell(fall)) => {
                    let at_ms = fall.at_ms.saturating_add_signed(-skew_ms);
                    self.fell(Fall { at_ms, ..fall });
                }
                Ok(ToFirst::Asked) => self.tell_all(&ToNode::End),
                Ok(ToFirst::Over) => self.over(node),
                Ok(_) => {}
                Err(error) => break error,
            }
        };
        // A connection that was closed means that its dlrun is dead, and so are its ranks, which die with it. Of a network that is
        // cut nobody knows.
        if !self.state().over.contains(&node) && !wire::is_cut_off(&error) {
            let exit = ExitStatus::Signal(nix::sys::signal::Signal::SIGKILL as i32);
            self.fell(Fall {
                rank: None,
                role: None,
                node: self.group.nodes[node].0.clone(),
                exit,
                at_ms: now_ms(),
            });
        }
        self.over(node);
    }

    fn over(&self, node: usize) {
        self.state().over.insert(node);
        self.end_if_over();
    }

    /// Tells all that all is over, but not before they know of a failure.
    fn end_if_over(&self) {
        let state = self.state();
        let is_over = state.over.len() == self.group.nodes.len();
        let is_known = state.falls.is_empty() || state.has_told_fall;
        drop(state);
        if is_over && is_known {
            self.tell_all(&ToNode::AllOver);
        }
    }

    /// Notes a failure; a moment after the first one all nodes hear which was the first.
    fn fell(self: &Arc<Self>, fall: Fall) {
        let mut state = self.state();
        state.falls.push(fall);
        let is_first = state.falls.len() == 1;
        drop(state);
        if is_first {
            self.beside(|first| {
                sleep(GATHERING);
                // Where a node was lost, the ranks of others fail because of it, and may be heard of before.
                let order = |fall: &Fall| (fall.rank.is_some(), fall.at_ms);
                let falls = first.state().falls.clone();
                if let Some(earliest) = falls.into_iter().min_by_key(order) {
                    first.tell_all(&ToNode::Stop(earliest));
                }
                first.state().has_told_fall = true;
                first.end_if_over();
            });
        }
    }
}

/// Why the ranks cannot start, where a node has too few free ports for them.
pub(super) fn without_ports<'a>(mut shares: impl Iterator<Item = &'a NodeShare>) -> Option<String> {
    let lacks = |share: &&NodeShare| share.ports.len() <= share.ranks as usize;
    shares.find(lacks).map(|share| {
        format!(
            "{} has fewer than {} free ports from `launch.first_port` to `launch.last_port`",
            share.host,
            share.ranks + 1
        )
    })
}

#[cfg(test)]
mod tests {
    use std::net::{SocketAddr, TcpStream};

    use super::*;
    use crate::node::supervise::ranks::member::{Candidates, Member, Newcomer};

    fn newcomer(nodes: usize, node: usize, secret: &str) -> Newcomer {
        let name = |at: usize| (format!("n{at}"), 2);
        Newcomer {
            group: Group::of((0..nodes).map(name).collect(), node, secret),
            node,
            port: 21_000,
            ports: (20_000, 31_999),
            gpus: vec!["0".into()],
            cpus: vec![0, 1],
            likeness: Likeness::default(),
            unfit: None,
        }
    }

    fn open(nodes: usize, patience: Duration) -> SocketAddr {
        let listener = TcpListener::bind("127.0.0.1:0").expect("a port");
        let address = listener.local_addr().expect("bound");
        let group = newcomer(nodes, 0, "right").group;
        First::new(group, "run.0".into(), patience, Box::new(|_| {})).serve(listener);
        address
    }

    fn join(newcomer: &Newcomer, at: SocketAddr) -> Member {
        let limit = Instant::now() + Duration::from_secs(20);
        newcomer.join(Some(at), None, limit).expect("joined")
    }

    fn hears(member: &mut Member) -> ToNode {
        wire::read(&mut member.reader, LINE).expect("a message")
    }

    #[test]
    fn all_start_when_the_last_has_come_and_hear_who_fell_first() {
        let at = open(2, Duration::from_secs(60));
        let mut one = join(&newcomer(2, 1, "right"), at);
        let mut zero = join(&newcomer(2, 0, "right"), at);
        for member in [&mut zero, &mut one] {
            let ToNode::Table(meeting) = hears(member) else {
                panic!("no table");
            };
            let names: Vec<&str> = meeting.nodes.iter().map(|node| &*node.host).collect();
            assert_eq!((names, meeting.ranks().len()), (vec!["n0", "n1"], 4));
        }
        let fell = |rank, at_ms| {
            let exit = ExitStatus::Code(1);
            let (rank, node) = (Some(rank), "n".to_owned());
            wire::line(&ToFirst::Fell(Fall {
                rank,
                role: None,
                node,
                exit,
                at_ms,
            }))
        };
        let now = now_ms();
        zero.stream.send(&fell(0, now)).expect("sent");
        one.stream.send(&fell(3, now - 100)).expect("sent");
        for member in [&mut zero, &mut one] {
            let ToNode::Stop(fall) = hears(member) else {
                panic!("no stop");
            };
            assert_eq!(fall.rank, Some(3));
        }
    }

    #[test]
    fn somebody_without_the_secret_is_not_let_in() {
        let at = open(2, Duration::from_millis(300));
        let limit = Instant::now() + Duration::from_secs(1);
        let stranger = newcomer(2, 1, "wrong").join(Some(at), None, limit);
        assert!(stranger.is_none(), "he was let in");
        // Nor does silence keep the others out.
        let silent = TcpStream::connect(at).expect("it listens");
        let mut zero = join(&newcomer(2, 0, "right"), at);
        let ToNode::Refused(why) = hears(&mut zero) else {
            panic!("no refusal");
        };
        assert!(why.contains("n1 did not come"), "{why}");
        drop(silent);
    }

    #[test]
    fn address_without_an_answer_holds_up_no_other() {
        let at = open(1, Duration::from_secs(60));
        let silent: Vec<TcpListener> = (0..16)
            .map(|_| TcpListener::bind("127.0.0.1:0").expect("a port"))
            .collect();
        let candidates = Candidates::default();
        candidates.add(silent.iter().filter_map(|other| other.local_addr().ok()));
        candidates.add([at]);
        let began = Instant::now();
        let limit = began + Duration::from_secs(20);
        let member = newcomer(1, 0, "right").join_among(&candidates, limit);
        assert!(member.is_some() && began.elapsed() < Duration::from_secs(2));
    }

    #[test]
    fn nobody_keeps_a_node_out_by_holding_connections() {
        let at = open(2, Duration::from_secs(60));
        let held: Vec<TcpStream> = (0..200)
            .filter_map(|_| TcpStream::connect(at).ok())
            .collect();
        let began = Instant::now();
        let mut one = join(&newcomer(2, 1, "right"), at);
        let _zero = join(&newcomer(2, 0, "right"), at);
        assert!(matches!(hears(&mut one), ToNode::Table(_)));
        assert!(began.elapsed() < PROOF, "{:?}", began.elapsed());
        drop(held);
    }

    #[test]
    fn node_without_free_ports_is_named_to_all() {
        let at = open(2, Duration::from_secs(60));
        let mut full = newcomer(2, 1, "right");
        // Fewer than two ranks need.
        full.ports = (21_000, 21_001);
        let mut members = [join(&full, at), join(&newcomer(2, 0, "right"), at)];
        for member in &mut members {
            let ToNode::Refused(why) = hears(member) else {
                panic!("no refusal");
            };
            assert!(why.starts_with("n1 has fewer than 3 free ports"), "{why}");
        }
    }

    /// docs/testing.md has the figures of larger ones.
    #[test]
    fn large_group_meets() {
        let count = std::env::var("DLRUN_TEST_NODES").ok();
        let nodes = count.and_then(|count| count.parse().ok()).unwrap_or(64);
        let at = open(nodes, Duration::from_secs(60));
        // Each has its own ports: they share an address.
        let span = u16::try_from(12_000 / nodes).expect("few ports");
        let began = Instant::now();
        let joining: Vec<_> = (0..nodes)
            .map(|node| {
                thread::spawn(move || {
                    let mut newcomer = newcomer(nodes, node, "right");
                    newcomer.group.nodes[node].1 = 8;
                    newcomer.port = 20_000 + u16::try_from(node).expect("few nodes") * span;
                    newcomer.ports = (newcomer.port, newcomer.port + span - 1);
                    join(&newcomer, at)
                })
            })
            .collect();
        for member in joining {
            let mut member = member.join().expect("joined");
            let ToNode::Table(meeting) = hears(&mut member) else {
                panic!("no table");
            };
            assert!(
                meeting.nodes.len() == nodes && meeting.nodes.iter().all(|node| node.ranks == 8)
            );
        }
        let text = format!("{nodes} nodes of 8 ranks met in {:?}\n", began.elapsed());
        io::Write::write_all(&mut io::stdout(), text.as_bytes()).expect("written");
    }
}
