//! What the nodes of a group say to each other: a line of JSON each.
//!
//! ```text
//! node  -> first  hello    a random number
//! first -> node   proof    another one, and the proof that it knows the secret
//! node  -> first  join     the same proof, and what the node brings
//! first -> node   table    once all nodes are there: start
//! node  -> first  fell     a rank failed          first -> node  stop   end your ranks
//! node  -> first  asked    somebody ends it       first -> node  end    end your ranks
//! node  -> first  over     its ranks are over     first -> node   all_over  so are those of all nodes
//! ```

use hmac::{Hmac, KeyInit, Mac};
use serde::{Deserialize, Serialize};
use sha2::Sha256;

use super::likeness::Likeness;
use crate::foundation::units::hex;
use crate::launch::{Meeting, NodeShare};
use crate::record::ExitStatus;

/// The longest line that is read of one whose proof is not seen yet, in bytes.
pub(super) const STRANGERS_LINE: usize = 64 << 10;
/// The longest line of a proven one: a table of 10,000 nodes.
pub(super) const LINE: usize = 8 << 20;

/// From a node to the first one.
#[derive(Debug, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub(super) enum ToFirst {
    Hello {
        nonce: String,
    },
    Join {
        proof: String,
        node: usize,
        share: NodeShare,
        /// By how much its clock is ahead of the first node's.
        skew_ms: i64,
        likeness: Likeness,
        /// Why its node is not fit, where no rank is to start then.
        #[serde(default)]
        unfit: Option<String>,
    },
    Fell(Fall),
    /// Somebody asked its ranks to end.
    Asked,
    Over,
}

/// From the first node to another.
#[derive(Debug, Clone, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub(super) enum ToNode {
    Proof {
        nonce: String,
        proof: String,
        clock_ms: u64,
    },
    Table(Meeting),
    Refused(String),
    Stop(Fall),
    /// Somebody asked the ranks of a node to end: the others serve nothing without them.
    End,
    AllOver,
}

/// The first failure of a group.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub(super) struct Fall {
    /// `None`: a whole node was lost.
    pub(super) rank: Option<u32>,
    /// Of a helper, what it is.
    #[serde(default)]
    pub(super) role: Option<String>,
    pub(super) node: String,
    pub(super) exit: ExitStatus,
    /// By the clock of the first node.
    pub(super) at_ms: u64,
}

impl std::fmt::Display for Fall {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let node = &self.node;
        match (&self.role, self.rank) {
            (_, None) => return write!(f, "node {node} was lost"),
            (Some(role), _) => write!(f, "the {role} on {node} failed first, ")?,
            (None, Some(rank)) => write!(f, "rank {rank} on {node} failed first, ")?,
        }
        match self.exit {
            ExitStatus::Code(code) => write!(f, "with exit code {code}"),
            ExitStatus::Signal(signal) => write!(f, "killed by signal {signal}"),
        }
    }
}

/// The proof that `side` knows the secret: HMAC-SHA-256 over both random numbers, in hexadecimal digits.
pub(super) fn proof(secret: &str, side: &str, nonces: [&str; 2]) -> String {
    let mac = Hmac::<Sha256>::new_from_slice(secret.as_bytes()).expect("keys of any length do");
    let mac = mac.chain_update(format!("dlrun group 1 {side} {} {}", nonces[0], nonces[1]));
    hex(&mac.finalize().into_bytes())
}

/// Compares without saying by its time how much was right.
pub(super) fn is_same(one: &str, other: &str) -> bool {
    let differ = one
        .bytes()
        .zip(other.bytes())
        .fold(0, |sum, (a, b)| sum | (a ^ b));
    one.len() == other.len() && differ == 0
}

/// A number that nobody can guess.
pub(super) fn nonce() -> std::io::Result<String> {
    let mut bytes = [0_u8; 16];
    getrandom::fill(&mut bytes).map_err(std::io::Error::other)?;
    Ok(hex(&bytes))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn proof_depends_on_secret_side_and_numbers() {
        let first = proof("secret", "first", ["a", "b"]);
        assert!(is_same(&first, &proof("secret", "first", ["a", "b"])));
        for other in [
            proof("other", "first", ["a", "b"]),
            proof("secret", "node", ["a", "b"]),
            proof("secret", "first", ["b", "a"]),
        ] {
            assert!(!is_same(&first, &other));
        }
        assert!(!is_same(&first, &first[1..]));
    }
}
