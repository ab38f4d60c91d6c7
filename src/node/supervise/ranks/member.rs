//! A node on its way to the first one, and what it hears from there.

use std::collections::{BTreeMap, BTreeSet};
use std::io::{self, BufReader};
use std::net::{IpAddr, SocketAddr, TcpListener as Held, TcpStream};
use std::path::PathBuf;
use std::sync::mpsc::channel;
use std::sync::{Arc, Mutex, PoisonError};
use std::thread::{Builder, sleep};
use std::time::{Duration, Instant};

use serde::{Deserialize, Serialize};

use super::group::Group;
use super::likeness::Likeness;
use super::message::{self, STRANGERS_LINE, ToFirst, ToNode};
use super::network::{self, Ports, TRIES};
use super::wire::{self, Stream};
use crate::foundation::clock::now_ms;
use crate::foundation::private::PrivateDir;
use crate::launch::NodeShare;
use crate::observe::monitor;
use crate::record::NetworkFacts;

/// How long one address may take to answer.
const ANSWER: Duration = Duration::from_secs(2);
/// Between two tries at one address, at first and later.
const PAUSE: Duration = Duration::from_millis(20);
const PAUSE_MAX: Duration = Duration::from_secs(1);
/// How long an address that answered waits for those before it.
const OTHERS: Duration = Duration::from_millis(300);
/// Between two looks into the run's directory.
const LOOK: Duration = Duration::from_millis(200);
const FILE: &str = "meeting.json";

/// Where the first node is, in the run's directory: for networks without names, and machines that hold several nodes.
#[derive(Debug, Serialize, Deserialize)]
struct Place {
    address: SocketAddr,
    boot_id: Option<String>,
}

/// The directory of this start of the run.
#[derive(Debug, Clone)]
pub(super) struct Notes {
    pub(super) state_dir: PathBuf,
    pub(super) names: [String; 3],
}

impl Notes {
    fn open(&self) -> Option<PrivateDir> {
        let state = PrivateDir::open(&self.state_dir).ok();
        self.names
            .iter()
            .fold(state, |dir, name| dir?.ensure_dir(name).ok())
    }

    /// Leaves the place of the first node there, on a separate thread: the directory may hang.
    pub(super) fn leave(self, address: SocketAddr) {
        std::thread::spawn(move || {
            let place = Place {
                address,
                boot_id: monitor::boot_id().ok(),
            };
            let dir = self.open();
            dir.is_some_and(|dir| dir.write_json(FILE, &place).is_ok())
        });
    }

    fn read(&self) -> Option<SocketAddr> {
        let place: Place = self.open()?.read_json(FILE, 4096).ok()?;
        // Loopback is another place on every machine.
        let is_here = place.boot_id.is_some() && place.boot_id == monitor::boot_id().ok();
        (is_here || !place.address.ip().is_loopback()).then_some(place.address)
    }
}

/// Addresses at which the first node may be.
#[derive(Debug, Clone, Default)]
pub(super) struct Candidates(Arc<Mutex<BTreeSet<SocketAddr>>>);

impl Candidates {
    /// Looks for them on threads of their own: name service and state directory may hang.
    fn seek(first: String, port: u16, notes: Option<Notes>) -> Self {
        let found = Self::default();
        // They end with the search.
        let (by_name, by_file) = (Arc::downgrade(&found.0), Arc::downgrade(&found.0));
        std::thread::spawn(move || {
            loop {
                let addresses = network::resolved(&first);
                let Some(found) = by_name.upgrade() else {
                    return;
                };
                let places = addresses.into_iter().flat_map(|address| {
                    (port..port + TRIES).map(move |port| SocketAddr::new(address, port))
                });
                Self(found).add(places);
                sleep(PAUSE_MAX);
            }
        });
        if let Some(notes) = notes {
            std::thread::spawn(move || {
                loop {
                    let place = notes.read();
                    let Some(found) = by_file.upgrade() else {
                        return;
                    };
                    Self(found).add(place);
                    sleep(LOOK);
                }
            });
        }
        found
    }

    pub(super) fn add(&self, places: impl IntoIterator<Item = SocketAddr>) {
        self.0
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
            .extend(places);
    }

    fn now(&self) -> Vec<SocketAddr> {
        self.0
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
            .iter()
            .copied()
            .collect()
    }
}

/// A node that was taken in.
pub(super) struct Member {
    pub(super) reader: BufReader<Stream>,
    pub(super) stream: Stream,
    /// What it brings.
    pub(super) share: NodeShare,
    /// The ports among it, held.
    pub(super) held: Vec<Held>,
    /// What its first question to the first node showed.
    pub(super) network: NetworkFacts,
}

/// What a node is before it knows its address.
#[derive(Debug, Clone)]
pub(super) struct Newcomer {
    pub(super) group: Group,
    pub(super) node: usize,
    pub(super) port: u16,
    pub(super) ports: Ports,
    pub(super) gpus: Vec<String>,
    pub(super) cpus: Vec<u32>,
    pub(super) likeness: Likeness,
    /// Why this node is not fit, where no rank is to start then.
    pub(super) unfit: Option<String>,
}

impl Newcomer {
    /// Looks for the first node until `limit`; `known`: here it is.
    pub(super) fn join(
        &self,
        known: Option<SocketAddr>,
        notes: Option<Notes>,
        limit: Instant,
    ) -> Option<Member> {
        let first = self.group.nodes[0].0.clone();
        let candidates = match known {
            Some(known) => {
                let candidates = Candidates::default();
                candidates.add([known]);
                candidates
            }
            None => Candidates::seek(first, self.port, notes),
        };
        self.join_among(&candidates, limit)
    }

    pub(super) fn join_among(&self, candidates: &Candidates, limit: Instant) -> Option<Member> {
        // All at once: one that gives no answer holds up no other for long.
        let (answer, answers) = channel();
        // When each is asked again; `None`: it is being asked.
        let mut asked: BTreeMap<SocketAddr, Option<Instant>> = BTreeMap::new();
        let mut best: Option<(SocketAddr, Found, Instant)> = None;
        let began = Instant::now();
        while Instant::now() < limit {
            for place in candidates.now() {
                let again = asked.get(&place);
                if again.is_some_and(|at| at.is_none_or(|at| Instant::now() < at)) {
                    continue;
                }
                let (answer, secret) = (answer.clone(), self.group.secret.clone());
                let ask = move || drop(answer.send((place, ask(place, &secret))));
                if Builder::new().spawn(ask).is_ok() {
                    asked.insert(place, None);
                }
            }
            if let Ok((place, found)) = answers.recv_timeout(PAUSE) {
                let pause = (began.elapsed() / 3).clamp(PAUSE, PAUSE_MAX);
                asked.insert(place, Some(Instant::now() + pause));
                let is_best = best.as_ref().is_none_or(|(best, ..)| place < *best);
                let found = found.ok().filter(|_| is_best);
                best = found.map(|found| (place, found, Instant::now())).or(best);
            }
            // All nodes take the same of several addresses, if they reach it.
            let is_chosen = |(place, _, since): &mut (SocketAddr, Found, Instant)| {
                since.elapsed() >= OTHERS || asked.range(..*place).all(|(_, again)| again.is_some())
            };
            let chosen = best.take_if(is_chosen);
            if let Some(member) = chosen.and_then(|(_, found, _)| self.join_at(found).ok()) {
                return Some(member);
            }
        }
        None
    }

    fn join_at(&self, found: Found) -> io::Result<Member> {
        let Found {
            mut reader,
            stream,
            proof,
            network,
        } = found;
        let (share, held) = self.share(stream.own_address()?);
        stream.send(&wire::line(&ToFirst::Join {
            proof,
            node: self.node,
            share: share.clone(),
            skew_ms: network.clock_skew_ms,
            likeness: self.likeness.clone(),
            unfit: self.unfit.clone(),
        }))?;
        reader.get_mut().trust()?;
        Ok(Member {
            reader,
            stream,
            share,
            held,
            network,
        })
    }

    /// What this node brings, at one of its addresses.
    pub(super) fn share(&self, address: IpAddr) -> (NodeShare, Vec<Held>) {
        let (host, ranks) = self.group.nodes[self.node].clone();
        let held = network::hold_ports(address, 1 + ranks as usize, self.port + TRIES, self.ports);
        let share = NodeShare {
            host,
            address,
            interface: network::interface_of(address),
            ports: network::numbers(&held),
            ranks,
            gpus: self.gpus.clone(),
            cpus: self.cpus.clone(),
        };
        (share, held)
    }
}

/// The first node, which proved that it knows the secret.
struct Found {
    reader: BufReader<Stream>,
    stream: Stream,
    /// What proves to it that this node does.
    proof: String,
    network: NetworkFacts,
}

/// Looks whether the first node is there.
fn ask(place: SocketAddr, secret: &str) -> io::Result<Found> {
    let stream = Stream::new(TcpStream::connect_timeout(&place, ANSWER)?, ANSWER)?;
    let mut reader = BufReader::new(stream.clone());
    let nonce = message::nonce()?;
    let asked = Instant::now();
    stream.send(&wire::line(&ToFirst::Hello {
        nonce: nonce.clone(),
    }))?;
    let answer = wire::read(&mut reader, STRANGERS_LINE)?;
    let ToNode::Proof {
        nonce: theirs,
        proof,
        clock_ms,
    } = answer
    else {
        return Err(io::ErrorKind::PermissionDenied.into());
    };
    let network = NetworkFacts::measured(asked.elapsed(), now_ms(), clock_ms);
    let of = |side| message::proof(secret, side, [&nonce, &theirs]);
    // Who listens there without knowing the secret learns nothing from us.
    if !message::is_same(&proof, &of("first")) {
        return Err(io::ErrorKind::PermissionDenied.into());
    }
    Ok(Found {
        proof: of("node"),
        reader,
        stream,
        network,
    })
}
