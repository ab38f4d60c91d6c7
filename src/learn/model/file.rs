//! A model as a file: a line of JSON with its head, one with what it learned, and the CRC-32 of both.

use super::solution::Solution;
use super::{Head, MODEL_FORMAT, Model, Unreadable};

impl Model {
    /// The bytes of a model file.
    #[must_use]
    pub fn to_bytes(&self) -> Vec<u8> {
        let json = "numbers and text with text as keys";
        let mut bytes = serde_json::to_vec(&self.head).expect(json);
        bytes.push(b'\n');
        serde_json::to_writer(&mut bytes, &self.learned).expect(json);
        let sum = format!("\n{:08x}\n", crc32fast::hash(&bytes));
        bytes.extend_from_slice(sum.as_bytes());
        bytes
    }

    /// Reads a model file.
    ///
    /// # Errors
    /// Where it is no model, is damaged, or was written by another dlrun that this one does not understand.
    pub fn from_bytes(bytes: &[u8]) -> Result<Self, Unreadable> {
        let mut lines = bytes.split(|byte| *byte == b'\n');
        let line = lines.next().unwrap_or_default();
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
        let [Some(learned), Some(sum), Some(b""), None] = std::array::from_fn(|_| lines.next())
        else {
            return Err(Unreadable::Damaged("it is cut off, or continues"));
        };
        let summed = line.len() + 1 + learned.len();
        if *sum != *format!("{:08x}", crc32fast::hash(&bytes[..summed])).as_bytes() {
            return Err(Unreadable::Damaged("its checksum is another one"));
        }
        let unreadable = |_| Unreadable::Damaged("what it learned cannot be read");
        let model = Self {
            head: serde_json::from_value::<Head>(value).map_err(unreadable)?,
            learned: serde_json::from_slice(learned).map_err(unreadable)?,
        };
        let is_sound = model.learned.parts.iter().all(Solution::is_sound);
        is_sound
            .then_some(model)
            .ok_or(Unreadable::Damaged("its parts do not fit together"))
    }
}
