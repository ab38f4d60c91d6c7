//! A model as a file: a line of JSON, what every forecast needs, and pieces of which a forecast needs a few.
//!
//! The line is the head, the front the tables and shared coefficients; behind these lies what each workload adds, which grows
//! with the number of workloads. A plan on a login node reads the first two, and of the last what its job needs. The line and the
//! front have a checksum each, and so has each piece.

use std::borrow::Cow;
use std::sync::Arc;

use serde::{Deserialize, Serialize};

use super::bytes::Reader;
use super::experience::Experience;
use super::fitted::Tables;
use super::pieces::{Back, Pieces};
use super::solution::Solution;
use super::{Head, MODEL_FORMAT, Model, Unreadable};

/// Longer first lines are no model's, in bytes.
pub const LONGEST_LINE: usize = 1 << 20;

/// How much of a file is what, in bytes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Extent {
    /// The first line and the front: all that must be read at once.
    pub front: usize,
    /// The whole file.
    pub whole: u64,
}

/// The first line of a file, but for its last key.
#[derive(Serialize, Deserialize)]
struct FirstLine {
    #[serde(flatten)]
    head: Head,
    front_bytes: u64,
    front_crc32: u32,
    back_bytes: u64,
}

/// The last key of the first line: the CRC-32 of what is before it.
const LINE_SUM: &str = ",\"line_crc32\":";

impl Model {
    /// The bytes of a model file, chunk after chunk.
    #[must_use]
    pub fn chunks(&self) -> Vec<Cow<'_, [u8]>> {
        let front = &self.front[self.line_bytes..];
        let line = FirstLine {
            head: self.head.clone(),
            front_bytes: front.len() as u64,
            front_crc32: crc32fast::hash(front),
            back_bytes: self.back.bytes(),
        };
        let mut line = serde_json::to_vec(&line).expect("numbers and text with text as keys");
        // The brace comes after the checksum.
        line.pop();
        let sum = line_sum(&line);
        line.extend_from_slice(sum.as_bytes());
        line.push(b'\n');
        let mut chunks = vec![Cow::Owned(line), Cow::Borrowed(front)];
        match &self.back {
            Back::Here(runs) => chunks.extend(runs.iter().map(|run| Cow::Borrowed(&run[..]))),
            Back::Elsewhere(pieces, bytes) => {
                let whole = usize::try_from(*bytes)
                    .ok()
                    .and_then(|bytes| pieces.piece(0, bytes));
                chunks.extend(whole.map(Cow::Owned));
            }
        }
        chunks
    }

    /// The same as one.
    #[must_use]
    pub fn to_bytes(&self) -> Vec<u8> {
        self.chunks().concat()
    }

    /// How much of a file is what, by its beginning: up to its first line end, or [`LONGEST_LINE`] bytes.
    ///
    /// # Errors
    /// Where it is no model, is damaged, or was written by another dlrun that this one does not understand.
    pub fn extent(beginning: &[u8]) -> Result<Extent, Unreadable> {
        let (line, line_bytes) = first_line(beginning)?;
        let damaged = || Unreadable::Damaged("it is too large");
        let front = usize::try_from(line.front_bytes)
            .ok()
            .and_then(|front| front.checked_add(line_bytes));
        let front = front.ok_or_else(damaged)?;
        let whole = (front as u64)
            .checked_add(line.back_bytes)
            .ok_or_else(damaged)?;
        Ok(Extent { front, whole })
    }

    /// Reads a model out of its first line and front; pieces of the rest are asked for as forecasts need them.
    ///
    /// # Errors
    /// As [`Model::extent`]. A piece that cannot be read is reported in the forecast that needs it.
    pub fn from_front(front: Vec<u8>, rest: Arc<dyn Pieces>) -> Result<Self, Unreadable> {
        let (line, _) = first_line(&front)?;
        Self::read(front, Back::Elsewhere(rest, line.back_bytes))
    }

    /// Reads a whole model file.
    ///
    /// # Errors
    /// As [`Model::extent`].
    pub fn from_bytes(bytes: &[u8]) -> Result<Self, Unreadable> {
        let extent = Self::extent(bytes)?;
        if extent.whole != bytes.len() as u64 {
            return Err(Unreadable::Damaged("it is cut off, or goes on"));
        }
        let (front, rest) = bytes.split_at(extent.front);
        let model = Self::read(front.to_vec(), Back::Here(vec![Arc::new(rest.to_vec())]))?;
        let places = model.parts.iter().flat_map(Solution::places);
        let is_whole = places
            .chain([model.tables.explanation])
            .all(|place| model.back.piece(place).is_some());
        let damaged = Unreadable::Damaged("the checksum of a piece is another one");
        is_whole.then_some(model).ok_or(damaged)
    }

    fn read(front: Vec<u8>, back: Back) -> Result<Self, Unreadable> {
        let (line, line_bytes) = first_line(&front)?;
        if (front.len() - line_bytes) as u64 != line.front_bytes {
            return Err(Unreadable::Damaged("it is cut off"));
        }
        if crc32fast::hash(&front[line_bytes..]) != line.front_crc32 {
            return Err(Unreadable::Damaged("its checksum is another one"));
        }
        Self::of_parts(line.head, front, line_bytes, back)
            .ok_or(Unreadable::Damaged("its tables cannot be read"))
    }

    /// A model of what [`Tables::front`] wrote, which begins at `line_bytes` of `bytes`.
    pub(super) fn of_parts(
        head: Head,
        bytes: Vec<u8>,
        line_bytes: usize,
        back: Back,
    ) -> Option<Self> {
        let mut reader = Reader(&bytes[line_bytes..]);
        let tables: Tables = serde_json::from_slice(reader.block()?).ok()?;
        let experience = Experience::read(&mut Reader(reader.block()?))?;
        let parts = tables
            .outlines
            .iter()
            .map(|outline| Solution::read(outline, &mut Reader(reader.block()?)))
            .collect::<Option<Vec<Solution>>>()?;
        (!parts.is_empty()).then_some(())?;
        Some(Self {
            head,
            tables,
            experience,
            parts,
            front: Arc::new(bytes),
            line_bytes,
            back,
        })
    }
}

/// The first line, and how many bytes it has with its end.
fn first_line(bytes: &[u8]) -> Result<(FirstLine, usize), Unreadable> {
    let end = bytes
        .iter()
        .take(LONGEST_LINE)
        .position(|byte| *byte == b'\n')
        .ok_or(Unreadable::NoModel)?;
    let line = &bytes[..end];
    let value: serde_json::Value = serde_json::from_slice(line).map_err(|_| Unreadable::NoModel)?;
    let found = value
        .get("dlrun_model")
        .and_then(serde_json::Value::as_u64)
        .ok_or(Unreadable::NoModel)?;
    if found != u64::from(MODEL_FORMAT) {
        let is_newer = found > u64::from(MODEL_FORMAT);
        return Err(if is_newer {
            Unreadable::Newer { found }
        } else {
            Unreadable::Older { found }
        });
    }
    let sum_at = line
        .windows(LINE_SUM.len())
        .rposition(|part| part == LINE_SUM.as_bytes());
    if sum_at.is_none_or(|at| line[at..] != *line_sum(&line[..at]).as_bytes()) {
        return Err(Unreadable::Damaged(
            "the checksum of its first line is another one",
        ));
    }
    let line = serde_json::from_value(value)
        .map_err(|_| Unreadable::Damaged("its first line is no head"))?;
    Ok((line, end + 1))
}

/// The end of a first line that begins so.
fn line_sum(line: &[u8]) -> String {
    format!("{LINE_SUM}{}}}", crc32fast::hash(line))
}
