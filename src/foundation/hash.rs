//! Names as numbers that stay the same from one dlrun to the next: model files contain them.

use super::statistics::mixed;

/// A hash of 64 bits, FNV-1a with a last mixing. Two names that share one would be taken for the same thing; among a million
/// names that happens once in 37 million files.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Hash(u64);

impl Hash {
    pub(crate) fn new(seed: u64) -> Self {
        Self(0xcbf2_9ce4_8422_2325 ^ mixed(seed))
    }

    pub(crate) fn byte(mut self, byte: u8) -> Self {
        self.0 = (self.0 ^ u64::from(byte)).wrapping_mul(0x0100_0000_01b3);
        self
    }

    /// A name.
    pub(crate) fn name(self, name: &str) -> Self {
        // The end is a byte that UTF-8 does not have, so that two names in turn differ from one.
        name.bytes()
            .fold(self, |hash, byte| hash.byte(byte))
            .byte(0xff)
    }

    /// A name that may be missing.
    pub(crate) fn optional(self, name: Option<&str>) -> Self {
        name.map_or(self.byte(0), |name| self.byte(1).name(name))
    }

    pub(crate) fn number(mut self, number: u64) -> Self {
        self.0 = mixed(self.0.rotate_left(5) ^ number).wrapping_mul(0x9e37_79b9_7f4a_7c15);
        self
    }

    pub(crate) fn end(self) -> u64 {
        mixed(self.0)
    }
}
