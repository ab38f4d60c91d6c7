//! Who is at the other end of a connection, by the kernel's word.

use std::io;
use std::os::fd::{AsRawFd, BorrowedFd};

use nix::sys::socket::{getsockopt, sockopt::PeerCredentials};

/// The process that made a connection.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Peer {
    pub(super) uid: u32,
    pub(super) pid: u32,
    /// Root, and members of the configured group, read the runs of all users.
    pub(super) reads_all: bool,
}

impl Peer {
    /// Asks the kernel (`SO_PEERCRED`, and `SO_PEERGROUPS` for the groups that the process was in when it connected).
    pub(super) fn from_socket(socket: BorrowedFd<'_>, read_group: Option<u32>) -> io::Result<Self> {
        let credentials = getsockopt(&socket, PeerCredentials)?;
        let is_member =
            |group: u32| credentials.gid() == group || peer_groups(socket).contains(&group);
        let uid = credentials.uid();
        Ok(Self {
            uid,
            pid: credentials.pid().unsigned_abs(),
            reads_all: uid == 0 || read_group.is_some_and(is_member),
        })
    }

    /// True where this peer may read what user `uid` did.
    pub(super) fn may_read(&self, uid: u32) -> bool {
        self.reads_all || self.uid == uid
    }
}

/// The supplementary groups of the peer; none where the kernel does not say (before Linux 4.13).
fn peer_groups(socket: BorrowedFd<'_>) -> Vec<u32> {
    // NGROUPS_MAX of Linux.
    let mut groups: Vec<libc::gid_t> = vec![0; 65_536];
    let mut bytes =
        libc::socklen_t::try_from(std::mem::size_of_val(groups.as_slice())).unwrap_or(0);
    // SAFETY: the kernel writes at most `bytes` bytes into `groups`, which has so many, and says in `bytes` how many it
    // wrote; any bits are a valid `gid_t`.
    let result = unsafe {
        libc::getsockopt(
            socket.as_raw_fd(),
            libc::SOL_SOCKET,
            libc::SO_PEERGROUPS,
            groups.as_mut_ptr().cast(),
            &raw mut bytes,
        )
    };
    let count = usize::try_from(bytes).unwrap_or(0) / size_of::<libc::gid_t>();
    groups.truncate(if result == 0 { count } else { 0 });
    groups
}

#[cfg(test)]
mod tests {
    use std::os::fd::AsFd;
    use std::os::unix::net::UnixStream;

    use super::*;

    #[test]
    fn a_socket_pair_is_us() {
        let (one, _other) = UnixStream::pair().expect("a pair");
        let own = nix::unistd::getuid().as_raw();
        let peer = Peer::from_socket(one.as_fd(), None).expect("credentials");
        assert_eq!(
            (peer.uid, peer.pid, peer.reads_all),
            (own, std::process::id(), own == 0)
        );
        assert!(peer.may_read(own));
        let groups = nix::unistd::getgroups().expect("groups");
        let mut known = peer_groups(one.as_fd());
        known.sort_unstable();
        let mut own: Vec<u32> = groups.iter().map(|group| group.as_raw()).collect();
        own.sort_unstable();
        assert_eq!(known, own);
    }

    #[test]
    fn others_are_not_read() {
        let user = Peer {
            uid: 1000,
            pid: 1,
            reads_all: false,
        };
        assert!(user.may_read(1000) && !user.may_read(1001) && !user.may_read(0));
        assert!(
            Peer {
                reads_all: true,
                ..user
            }
            .may_read(1001)
        );
    }
}
