//! Digests as text.

use sha2::{Digest, Sha256};

/// Bytes as lower-case hexadecimal digits.
pub(crate) fn hex(bytes: &[u8]) -> String {
    bytes.iter().map(|byte| format!("{byte:02x}")).collect()
}

/// SHA-256 of a text or of bytes, in lower-case hexadecimal digits.
#[must_use]
pub fn fingerprint(bytes: impl AsRef<[u8]>) -> String {
    hex(&Sha256::digest(bytes))
}
