//! A model as a file: a line of JSON with its head; what it learned, as `postcard` writes it; and the CRC-32 of both.

use super::fitted::Learned;
use super::solution::Solution;
use super::{Head, MODEL_FORMAT, Model, Unreadable};

/// Bytes of the checksum.
const SUM: usize = 4;

impl Model {
    /// The bytes of a model file.
    #[must_use]
    pub fn to_bytes(&self) -> Vec<u8> {
        let mut bytes = serde_json::to_vec(&self.head).expect("numbers and text");
        bytes.push(b'\n');
        let mut bytes = postcard::to_extend(&self.learned, bytes).expect("numbers and text");
        bytes.extend(crc32fast::hash(&bytes).to_le_bytes());
        bytes
    }

    /// Reads a model file.
    ///
    /// # Errors
    /// Where it is no model, is damaged, or was written by another dlrun that this one does not understand.
    pub fn from_bytes(bytes: &[u8]) -> Result<Self, Unreadable> {
        let line = memchr::memchr(b'\n', bytes).map_or(bytes, |end| &bytes[..end]);
        let value: serde_json::Value =
            serde_json::from_slice(line).map_err(|_| Unreadable::NoModel)?;
        let found = value
            .get("dlrun_model")
            .and_then(serde_json::Value::as_u64)
            .ok_or(Unreadable::NoModel)?;
        match found.cmp(&u64::from(MODEL_FORMAT)) {
            std::cmp::Ordering::Less => return Err(Unreadable::Older { found }),
            std::cmp::Ordering::Greater => return Err(Unreadable::Newer { found }),
            std::cmp::Ordering::Equal => {}
        }
        let (summed, sum) = bytes.split_at(bytes.len() - SUM.min(bytes.len()));
        let sum_is_right = *sum == crc32fast::hash(summed).to_le_bytes();
        let learned = summed.get(line.len() + 1..).filter(|_| sum_is_right);
        let cut_off = Unreadable::Damaged("it is cut off, or its checksum is another one");
        let unreadable = || Unreadable::Damaged("what it learned cannot be read");
        let (learned, rest): (Learned, _) =
            postcard::take_from_bytes(learned.ok_or(cut_off)?).map_err(|_| unreadable())?;
        let model = Self {
            head: serde_json::from_value::<Head>(value).map_err(|_| unreadable())?,
            learned,
        };
        let is_sound = rest.is_empty() && model.learned.parts.iter().all(Solution::is_sound);
        is_sound
            .then_some(model)
            .ok_or(Unreadable::Damaged("its parts do not fit together"))
    }
}
