//! Messages as bytes: a length in four bytes, little-endian, then so many bytes of JSON.

use serde::Serialize;
use serde::de::DeserializeOwned;

/// Bytes of a message at most, without its length.
pub const MAX_MESSAGE_BYTES: usize = 1 << 20;
/// Bytes of the length before a message.
pub const HEADER_BYTES: usize = 4;

/// Bytes that are no message, or a message that is too long to be sent.
#[derive(Debug, thiserror::Error)]
pub enum FrameError {
    /// The length before a message is above the limit; nothing of it was read.
    #[error("a message of {0} bytes is longer than the {MAX_MESSAGE_BYTES} that are allowed")]
    TooLong(usize),
    /// The bytes are no JSON, or of a message that is not known here.
    #[error("a message cannot be understood")]
    Unreadable(#[source] serde_json::Error),
}

/// A message with its length before it.
///
/// # Errors
/// [`FrameError::TooLong`].
pub fn encode<T: Serialize>(message: &T) -> Result<Vec<u8>, FrameError> {
    let mut bytes = vec![0; HEADER_BYTES];
    serde_json::to_writer(&mut bytes, message).map_err(FrameError::Unreadable)?;
    let length = bytes.len() - HEADER_BYTES;
    match u32::try_from(length) {
        Ok(short) if length <= MAX_MESSAGE_BYTES => {
            bytes[..HEADER_BYTES].copy_from_slice(&short.to_le_bytes());
            Ok(bytes)
        }
        _ => Err(FrameError::TooLong(length)),
    }
}

/// Makes messages of bytes that come in pieces.
#[derive(Debug, Default)]
pub struct Decoder {
    bytes: Vec<u8>,
}

impl Decoder {
    /// Takes further bytes in. The caller reads no more than [`Decoder::wanted`] at once, so that no more than one message
    /// is ever held.
    pub fn push(&mut self, bytes: &[u8]) {
        self.bytes.extend_from_slice(bytes);
    }

    /// True in the middle of a message.
    #[must_use]
    pub fn is_inside(&self) -> bool {
        !self.bytes.is_empty()
    }

    /// How many bytes are missing to know more: the rest of a length, or of a message.
    ///
    /// # Errors
    /// [`FrameError::TooLong`].
    pub fn wanted(&self) -> Result<usize, FrameError> {
        let Some(length) = self.length()? else {
            return Ok(HEADER_BYTES - self.bytes.len());
        };
        Ok((HEADER_BYTES + length).saturating_sub(self.bytes.len()))
    }

    fn length(&self) -> Result<Option<usize>, FrameError> {
        let Some(header) = self.bytes.first_chunk::<HEADER_BYTES>() else {
            return Ok(None);
        };
        let length = usize::try_from(u32::from_le_bytes(*header)).unwrap_or(usize::MAX);
        if length > MAX_MESSAGE_BYTES {
            Err(FrameError::TooLong(length))
        } else {
            Ok(Some(length))
        }
    }

    /// The next whole message; `None` where more bytes are wanted.
    ///
    /// # Errors
    /// [`FrameError::TooLong`]; [`FrameError::Unreadable`], after which the next message may still be read.
    #[expect(
        clippy::should_implement_trait,
        reason = "what is read depends on who asks"
    )]
    pub fn next<T: DeserializeOwned>(&mut self) -> Result<Option<T>, FrameError> {
        let Some(length) = self.length()? else {
            return Ok(None);
        };
        let Some(message) = self.bytes.get(HEADER_BYTES..HEADER_BYTES + length) else {
            return Ok(None);
        };
        let read = serde_json::from_slice(message).map_err(FrameError::Unreadable);
        self.bytes.drain(..HEADER_BYTES + length);
        if self.bytes.is_empty() {
            // One long message does not keep a megabyte for ever.
            self.bytes.shrink_to(4096);
        }
        read.map(Some)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn messages_come_back_however_they_are_cut() {
        let sent = [
            encode(&"one").expect("short"),
            encode(&"two").expect("short"),
        ]
        .concat();
        for cut in 0..sent.len() {
            let mut decoder = Decoder::default();
            let mut read: Vec<String> = Vec::new();
            for part in [&sent[..cut], &sent[cut..]] {
                decoder.push(part);
                while let Some(message) = decoder.next().expect("sound") {
                    read.push(message);
                }
            }
            assert_eq!(read, ["one", "two"]);
            assert!(!decoder.is_inside());
        }
    }

    #[test]
    fn a_length_is_judged_before_anything_is_read() {
        let mut decoder = Decoder::default();
        decoder.push(&u32::MAX.to_le_bytes());
        assert!(matches!(decoder.wanted(), Err(FrameError::TooLong { .. })));
        assert!(matches!(
            decoder.next::<String>(),
            Err(FrameError::TooLong { .. })
        ));
        assert!(matches!(
            encode(&"x".repeat(MAX_MESSAGE_BYTES)),
            Err(FrameError::TooLong { .. })
        ));
        assert!(encode(&"x".repeat(MAX_MESSAGE_BYTES - 2)).is_ok());
    }

    #[test]
    fn after_nonsense_the_next_message_is_read() {
        let mut decoder = Decoder::default();
        decoder.push(&[3, 0, 0, 0, b'{', 0xff, b'}']);
        decoder.push(&encode(&7).expect("short"));
        assert!(matches!(
            decoder.next::<u32>(),
            Err(FrameError::Unreadable { .. })
        ));
        assert!(matches!(decoder.next::<u32>(), Ok(Some(7))));
        decoder.push(&[9]);
        assert_eq!(decoder.wanted().expect("short"), 3);
    }

    proptest! {
        #[test]
        fn no_bytes_panic(bytes in prop::collection::vec(any::<u8>(), 0..64)) {
            let mut decoder = Decoder::default();
            decoder.push(&bytes);
            while let Ok(Some(_)) = decoder.next::<crate::observe::protocol::Request>() {}
        }
    }
}
