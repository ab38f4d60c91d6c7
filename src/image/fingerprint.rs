//! Digests as text.

use sha2::{Digest, Sha256};

pub(crate) use crate::foundation::units::hex;

/// SHA-256 of a text or of bytes, in lower-case hexadecimal digits.
#[must_use]
pub fn fingerprint(bytes: impl AsRef<[u8]>) -> String {
    hex(&Sha256::digest(bytes))
}
