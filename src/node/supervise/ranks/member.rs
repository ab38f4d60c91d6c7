//! A node on its way to the first one, and what it hears from there.

use std::collections::BTreeSet;
use std::io::{self, BufReader};
use std::net::{IpAddr, SocketAddr, TcpListener as Held, TcpStream};
use std::path::PathBuf;
use std::sync::{Arc, Mutex, PoisonError};
use std::thread::sleep;
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
/// Between two rounds over all addresses, at first and later.
const PAUSE: Duration = Duration::from_millis(20);
const PAUSE_MAX: Duration = Duration::from_secs(1);
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
struct Candidates(Arc<Mutex<BTreeSet<SocketAddr>>>);

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

    fn add(&self, places: impl IntoIterator<Item = SocketAddr>) {
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
        let mut pause = PAUSE;
        while Instant::now() < limit {
            let mut places = candidates.now().into_iter();
            if let Some(member) = places.find_map(|place| self.join_at(place).ok()) {
                return Some(member);
            }
            sleep(pause);
            pause = (pause * 3 / 2).min(PAUSE_MAX);
        }
        None
    }

    fn join_at(&self, place: SocketAddr) -> io::Result<Member> {
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
        let of = |side| message::proof(&self.group.secret, side, [&nonce, &theirs]);
        // Who listens there without knowing the secret learns nothing from us.
        if !message::is_same(&proof, &of("first")) {
            return Err(io::ErrorKind::PermissionDenied.into());
        }
        let (share, held) = self.share(stream.own_address()?)?;
        stream.send(&wire::line(&ToFirst::Join {
            proof: of("node"),
            node: self.node,
            share: share.clone(),
            skew_ms: network.clock_skew_ms,
            likeness: self.likeness.clone(),
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
    pub(super) fn share(&self, address: IpAddr) -> io::Result<(NodeShare, Vec<Held>)> {
        let (host, ranks) = self.group.nodes[self.node].clone();
        let held = network::hold_ports(address, 1 + ranks as usize, self.port + TRIES, self.ports)
            .ok_or_else(|| io::Error::other("no port is free"))?;
        let share = NodeShare {
            host,
            address,
            interface: network::interface_of(address),
            ports: network::numbers(&held),
            ranks,
            gpus: self.gpus.clone(),
            cpus: self.cpus.clone(),
        };
        Ok((share, held))
    }
}
