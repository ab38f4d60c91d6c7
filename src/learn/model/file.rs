//! A model as a file: a line of JSON, what every forecast needs, and pieces of which a forecast needs a few.
//!
//! The line is the head, the front the tables and shared coefficients; behind these lies what each workload has of its own, which grows
//! with the number of workloads. A plan on a login node reads the first two, and of the last what its job needs. The line and the
//! front have a checksum each, and so has each piece.

use std::borrow::Cow;
use std::fmt::Debug;
use std::sync::Arc;

use serde::{Deserialize, Serialize};

use super::bytes::{Reader, Writer};
use super::fitted::Tables;
use super::known::Known;
use super::part::Decoded;
use super::{Head, MODEL_FORMAT, Model, Unreadable};

/// Longer first lines are no model's, in bytes.
pub const LONGEST_LINE: usize = 1 << 20;

/// Gives pieces of what lies behind a model's front.
pub trait Pieces: Debug + Send + Sync {
    /// `length` bytes from `from` on, counted from the end of the front; `None`: they cannot be read.
    fn piece(&self, from: u64, length: usize) -> Option<Vec<u8>>;
}

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

/// The last key of the first line: the CRC-32 of what stands before it.
const LINE_SUM: &str = ",\"line_crc32\":";

/// Where a piece lies behind the front, with its CRC-32.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct Place {
    pub(super) from: u64,
    pub(super) length: usize,
    pub(super) crc32: u32,
}

/// What lies behind the front.
#[derive(Debug, Clone)]
pub(super) enum Back {
    /// In memory, one run of pieces after the other.
    Here(Vec<Arc<Vec<u8>>>),
    Elsewhere(Arc<dyn Pieces>, u64),
}

impl Back {
    pub(super) fn bytes(&self) -> u64 {
        match self {
            Self::Here(runs) => runs.iter().map(|run| run.len() as u64).sum(),
            Self::Elsewhere(_, bytes) => *bytes,
        }
    }

    /// A piece; `None`: it cannot be read, or is damaged.
    pub(super) fn piece(&self, place: Place) -> Option<Cow<'_, [u8]>> {
        let end = place
            .from
            .checked_add(place.length as u64)
            .filter(|end| *end <= self.bytes())?;
        let bytes = match self {
            Self::Here(runs) => {
                let mut begin = 0_u64;
                let run = runs.iter().find(|run| {
                    let is_it = end <= begin + run.len() as u64;
                    begin += if is_it { 0 } else { run.len() as u64 };
                    is_it
                })?;
                let from = usize::try_from(place.from.checked_sub(begin)?).ok()?;
                Cow::Borrowed(run.get(from..from + place.length)?)
            }
            Self::Elsewhere(pieces, _) => Cow::Owned(
                pieces
                    .piece(place.from, place.length)
                    .filter(|bytes| bytes.len() == place.length)?,
            ),
        };
        (crc32fast::hash(&bytes) == place.crc32).then_some(bytes)
    }
}

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
    /// As [`Model::extent`]. A piece that cannot be read is told of in the forecast that needs it.
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
        let parts = model
            .tables
            .outlines
            .iter()
            .filter_map(|outline| model.part(outline.response));
        let all = parts
            .flat_map(|part| part.places().collect::<Vec<_>>())
            .chain([model.tables.explanation]);
        match all
            .map(|place| model.back.piece(place))
            .all(|piece| piece.is_some())
        {
            true => Ok(model),
            false => Err(Unreadable::Damaged(
                "the checksum of a piece is another one",
            )),
        }
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

    /// A model of what [`front`] wrote, which begins at `line_bytes` of `bytes`.
    pub(super) fn of_parts(
        head: Head,
        bytes: Vec<u8>,
        line_bytes: usize,
        back: Back,
    ) -> Option<Self> {
        let mut reader = Reader(&bytes[line_bytes..]);
        let tables: Tables = serde_json::from_slice(block(&bytes, &mut reader)?.1).ok()?;
        let (known, runs) = block(&bytes, &mut reader)?;
        Known::read(&mut Reader(runs))?;
        let (mut parts, mut decoded) = (Vec::new(), Vec::new());
        for outline in &tables.outlines {
            let (place, its) = block(&bytes, &mut reader)?;
            parts.push(place);
            decoded.push(Decoded::read(outline, &mut Reader(its))?);
        }
        (!decoded.is_empty()).then_some(())?;
        Some(Self {
            head,
            tables,
            decoded,
            known,
            parts,
            front: Arc::new(bytes),
            line_bytes,
            back,
        })
    }
}

/// What every forecast needs.
pub(super) fn front(tables: &Tables, known: &[u8], parts: &[Vec<u8>]) -> Vec<u8> {
    let mut front = Writer::default();
    front.block(&serde_json::to_vec(tables).expect("numbers and text with text as keys"));
    front.block(known);
    parts.iter().for_each(|part| front.block(part));
    front.0
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

/// The next block, and where it lies.
fn block<'a>(bytes: &[u8], reader: &mut Reader<'a>) -> Option<((usize, usize), &'a [u8])> {
    let block = reader.block()?;
    let end = bytes.len() - reader.0.len();
    Some(((end - block.len(), end), block))
}
