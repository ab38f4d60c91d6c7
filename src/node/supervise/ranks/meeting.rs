//! The meeting of the nodes, on a thread beside the one that waits for the ranks.

use std::io;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr, TcpListener};
use std::sync::mpsc::{Receiver, Sender, channel};
use std::thread;
use std::time::{Duration, Instant};

use super::first::{First, without_ports};
use super::member::{Member, Newcomer, Notes};
use super::message::{Fall, LINE, ToFirst, ToNode};
use super::network::{self, TRIES};
use super::{store, wire};
use crate::foundation::clock::now_ms;
use crate::launch::{Meeting, NodeShare};
use crate::record::{ExitStatus, NetworkFacts};

/// What a node hears of the others.
#[derive(Debug)]
pub(super) enum News {
    /// All nodes are there: its ranks are to start now.
    Start(Meeting, Option<NetworkFacts>),
    /// A rank fell: its ranks are to end.
    Stop(Fall),
    /// The ranks of another node were asked to end: its ranks are to end too.
    End,
    /// All ranks of all nodes are over.
    AllOver,
    /// The first node is not heard any more; how it fell, where that is known.
    Lost(Option<Fall>),
    /// There will be no meeting.
    Failed(String),
    /// Something to say to the user.
    Note(String),
}

/// How a node speaks with the others.
pub(super) struct Link {
    pub(super) news: Receiver<News>,
    pub(super) say: Sender<ToFirst>,
}

/// What the meeting is about.
pub(super) struct Agenda {
    pub(super) newcomer: Newcomer,
    pub(super) name: String,
    pub(super) notes: Option<Notes>,
    pub(super) patience: Duration,
    pub(super) interface: Option<String>,
    /// Whether dlrun serves the ranks a store of keys.
    pub(super) has_store: bool,
}

/// Begins the meeting. A group whose nodes are all here starts at once.
pub(super) fn begin(agenda: Agenda) -> Link {
    let (sender, news) = channel();
    let (say, said) = channel();
    thread::spawn(move || {
        if let Err(error) = attend(&agenda, &sender, said) {
            let _ = sender.send(News::Failed(format!("the nodes cannot meet: {error}")));
        }
    });
    Link { news, say }
}

fn attend(agenda: &Agenda, news: &Sender<News>, said: Receiver<ToFirst>) -> io::Result<()> {
    if agenda.newcomer.group.is_alone() {
        return alone(agenda, news, &said);
    }
    let known = match agenda.newcomer.node {
        0 => Some(open(agenda, news)?),
        _ => None,
    };
    // The first node says who is missing; one that does not find it gives up a little later by itself.
    let patience = agenda.patience + Duration::from_secs(5);
    let limit = Instant::now() + patience;
    match agenda.newcomer.join(known, agenda.notes.clone(), limit) {
        Some(member) => talk(member, agenda, news, said),
        None => {
            let (first, seconds) = (&agenda.newcomer.group.nodes[0].0, patience.as_secs());
            let why = format!("{first} was not found on the network within {seconds} s");
            let _ = news.send(News::Failed(why));
            Ok(())
        }
    }
}

/// Opens the meeting on the first node. Where it is.
fn open(agenda: &Agenda, news: &Sender<News>) -> io::Result<SocketAddr> {
    let Newcomer { group, port, .. } = &agenda.newcomer;
    let own = network::address_of(&group.nodes[0].0, agenda.interface.as_deref());
    // Where all places are taken that others look at, they find another one in the run's directory.
    let bound = (*port..port + TRIES).chain([0]).find_map(|port| {
        // At every address: who may join knows the secret.
        let everywhere = match own.address {
            IpAddr::V4(_) => IpAddr::V4(Ipv4Addr::UNSPECIFIED),
            IpAddr::V6(_) => IpAddr::V6(Ipv6Addr::UNSPECIFIED),
        };
        let listener = TcpListener::bind((everywhere, port)).ok()?;
        let place = SocketAddr::new(own.address, listener.local_addr().ok()?.port());
        Some((listener, place))
    });
    let no_port = || io::Error::other(format!("no port of {} is free", own.address));
    let (listener, place) = bound.ok_or_else(no_port)?;
    if let Some(notes) = agenda.notes.clone() {
        notes.leave(place);
    }
    let notes = news.clone();
    let say = Box::new(move |text| drop(notes.send(News::Note(text))));
    let first = First::new(group.clone(), agenda.name.clone(), agenda.patience, say);
    first.serve(listener);
    Ok(place)
}

/// All nodes are here, so nobody is waited for.
fn alone(agenda: &Agenda, news: &Sender<News>, said: &Receiver<ToFirst>) -> io::Result<()> {
    let (mut nodes, mut held) = (Vec::new(), Vec::new());
    for node in 0..agenda.newcomer.group.nodes.len() {
        let all = &agenda.newcomer;
        let newcomer = Newcomer {
            node,
            gpus: part(&all.gpus, node, all.group.nodes.len()),
            cpus: part(&all.cpus, node, all.group.nodes.len()),
            ..all.clone()
        };
        let (share, ports) = newcomer.share(IpAddr::V4(Ipv4Addr::LOCALHOST));
        nodes.push(share);
        held.extend(ports);
    }
    if let Some(why) = agenda.newcomer.unfit.clone() {
        let _ = news.send(News::Failed(why));
        return Ok(());
    }
    if let Some(why) = without_ports(nodes.iter()) {
        return Err(io::Error::other(why));
    }
    start(
        agenda,
        Meeting {
            name: agenda.name.clone(),
            nodes,
            roles: agenda.newcomer.group.roles,
        },
        held,
        None,
        news,
    )?;
    for message in said {
        let _ = news.send(match message {
            ToFirst::Fell(fall) => News::Stop(fall),
            ToFirst::Over => News::AllOver,
            _ => continue,
        });
    }
    Ok(())
}

/// The share of one of several groups in what this machine has; where there is not enough, groups have the same.
fn part<T: Clone>(all: &[T], group: usize, groups: usize) -> Vec<T> {
    let each = (all.len() / groups).max(1);
    let cycle = all.iter().cycle().skip(group * each);
    cycle.take(each.min(all.len())).cloned().collect()
}

/// Lets the ranks start: they find their ports free, but for that of a store that is served here.
fn start(
    agenda: &Agenda,
    meeting: Meeting,
    mut held: Vec<std::net::TcpListener>,
    network: Option<NetworkFacts>,
    news: &Sender<News>,
) -> io::Result<()> {
    if agenda.has_store && agenda.newcomer.node == 0 {
        store::serve(held.remove(0), store::scopes(&meeting));
    }
    drop(held);
    let _ = news.send(News::Start(meeting, network));
    Ok(())
}

/// Hears the first node, and says what is to be said.
fn talk(
    member: Member,
    agenda: &Agenda,
    news: &Sender<News>,
    said: Receiver<ToFirst>,
) -> io::Result<()> {
    let Member {
        mut reader,
        stream,
        share,
        held,
        network,
    } = member;
    let mut held = Some(held);
    thread::spawn(move || {
        for message in said {
            if stream.send(&wire::line(&message)).is_err() {
                return;
            }
        }
    });
    loop {
        match wire::read(&mut reader, LINE) {
            Ok(ToNode::Table(mut meeting)) => {
                if let Some(own) = meeting.nodes.get_mut(agenda.newcomer.node) {
                    let address = own.address;
                    *own = NodeShare {
                        address,
                        interface: network::interface_of(address),
                        ..share.clone()
                    };
                }
                let held = held.take().unwrap_or_default();
                // The first node asked itself.
                let network = Some(network).filter(|_| agenda.newcomer.node != 0);
                start(agenda, meeting, held, network, news)?;
            }
            Ok(ToNode::Stop(fall)) => drop(news.send(News::Stop(fall))),
            Ok(ToNode::End) => drop(news.send(News::End)),
            Ok(ToNode::AllOver) => drop(news.send(News::AllOver)),
            Ok(ToNode::Refused(why)) => drop(news.send(News::Failed(why))),
            Ok(ToNode::Proof { .. }) => {}
            Err(error) => {
                let node = agenda.newcomer.group.nodes[0].0.clone();
                let exit = ExitStatus::Signal(nix::sys::signal::Signal::SIGKILL as i32);
                let at_ms = now_ms();
                let (rank, role) = (None, None);
                // The first node's dlrun is dead, and so are its ranks; of a network that is cut nobody knows.
                let _ = news.send(News::Lost((!wire::is_cut_off(&error)).then_some(Fall {
                    rank,
                    role,
                    node,
                    exit,
                    at_ms,
                })));
                return Ok(());
            }
        }
    }
}
