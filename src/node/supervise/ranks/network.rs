//! Addresses, interfaces and ports of this node.

use std::net::{IpAddr, Ipv4Addr, SocketAddr, TcpListener, ToSocketAddrs};

use nix::ifaddrs::getifaddrs;
use nix::net::if_::InterfaceFlags;

/// Lowest and highest port of groups.
pub(super) type Ports = (u16, u16);
/// Where a job looks for its first port: further jobs of this node are this far away.
const STRIDE: u16 = 16;
/// Places at which the nodes look for the first one.
pub(super) const TRIES: u16 = 8;

/// An address of this node and the interface that has it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Own {
    pub(super) address: IpAddr,
    pub(super) interface: String,
}

/// The addresses that other nodes can reach, as the kernel lists them, IPv4 first; never loopback.
pub(super) fn own_addresses() -> Vec<Own> {
    let mut found = Vec::new();
    for entry in getifaddrs().into_iter().flatten() {
        let usable = InterfaceFlags::IFF_UP | InterfaceFlags::IFF_RUNNING;
        let Some(address) = entry.address.filter(|_| entry.flags.contains(usable)) else {
            continue;
        };
        let v4 = address.as_sockaddr_in().map(|v4| IpAddr::V4(v4.ip()));
        let v6 = address.as_sockaddr_in6().map(|v6| IpAddr::V6(v6.ip()));
        let Some(address) = v4.or(v6).filter(|address| is_routable(*address)) else {
            continue;
        };
        found.push(Own {
            address,
            interface: entry.interface_name,
        });
    }
    found.sort_by_key(|own| own.address.is_ipv6());
    found
}

fn is_routable(address: IpAddr) -> bool {
    let is_link_local = match address {
        IpAddr::V4(v4) => v4.is_link_local(),
        IpAddr::V6(v6) => v6.is_unicast_link_local(),
    };
    !(address.is_loopback() || address.is_unspecified() || address.is_multicast() || is_link_local)
}

/// The address of this node that its name means to the others; else its first one; alone on one machine loopback.
pub(super) fn address_of(name: &str, asked_interface: Option<&str>) -> Own {
    let mut own = own_addresses();
    if let Some(asked) = asked_interface {
        own.retain(|own| own.interface == asked);
    }
    let named = resolved(name);
    let known = own.iter().find(|own| named.contains(&own.address));
    let loopback = || Own {
        address: Ipv4Addr::LOCALHOST.into(),
        interface: "lo".to_owned(),
    };
    known.or(own.first()).cloned().unwrap_or_else(loopback)
}

/// The interface of an address of this node.
pub(super) fn interface_of(address: IpAddr) -> Option<String> {
    let mut own = own_addresses().into_iter();
    own.find(|own| own.address == address)
        .map(|own| own.interface)
}

/// What a node's name means here, without loopback: `localhost` is never another node.
pub(super) fn resolved(name: &str) -> Vec<IpAddr> {
    let found = (name, 0).to_socket_addrs();
    let addresses = found.into_iter().flatten().map(|address| address.ip());
    addresses.filter(|address| is_routable(*address)).collect()
}

/// Where the first node of a job listens: the same on every node, and another for every job.
pub(super) fn first_port(job: &str, ports: Ports) -> u16 {
    let hash = job.bytes().fold(5381_u32, |hash, byte| {
        hash.wrapping_mul(33) ^ u32::from(byte)
    });
    let slots = u32::from((ports.1 - ports.0) / STRIDE).max(1);
    ports.0 + u16::try_from(hash % slots).unwrap_or(0) * STRIDE
}

/// Free ports of an address, held until they are needed: `count` of them, or fewer where there are not as many.
pub(super) fn hold_ports(
    address: IpAddr,
    count: usize,
    from: u16,
    ports: Ports,
) -> Vec<TcpListener> {
    let span = u32::from(ports.1 - ports.0) + 1;
    let begin = u32::from(from.saturating_sub(ports.0));
    let mut held = Vec::new();
    for at in 0..span {
        if held.len() == count {
            break;
        }
        let port = ports.0 + u16::try_from((begin + at) % span).unwrap_or(0);
        held.extend(TcpListener::bind(SocketAddr::new(address, port)));
    }
    held
}

/// Their numbers.
pub(super) fn numbers(held: &[TcpListener]) -> Vec<u16> {
    held.iter()
        .filter_map(|port| port.local_addr().ok())
        .map(|at| at.port())
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ports_that_others_hold_are_passed_over() {
        let ports = (20_000, 31_999);
        let first = first_port("slurm 14", ports);
        assert!((ports.0..=ports.1).contains(&first) && first + TRIES <= ports.1);
        let address = Ipv4Addr::LOCALHOST.into();
        let held = hold_ports(address, 3, first, ports);
        let more = hold_ports(address, 3, first, ports);
        assert_eq!((held.len(), more.len()), (3, 3));
        assert!(
            numbers(&held)
                .iter()
                .all(|port| !numbers(&more).contains(port))
        );
    }

    #[test]
    fn loopback_is_no_node() {
        assert_eq!(resolved("localhost"), Vec::<IpAddr>::new());
        assert!(own_addresses().iter().all(|own| !own.address.is_loopback()));
    }
}
