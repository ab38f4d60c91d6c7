//! One column of a segment as bytes; [`super::series`] has the format.

/// Bytes that are no segment.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{0}")]
pub struct SeriesError(pub(super) String);

pub(super) fn damaged<T>(what: &str) -> Result<T, SeriesError> {
    Err(SeriesError(format!("not a series segment: {what}")))
}

const SECOND_ORDER: u8 = 1;
const ZERO_RUNS: u8 = 2;

pub(super) fn encode_column(values: &[Option<u64>]) -> Vec<u8> {
    let present: Vec<u64> = values.iter().copied().flatten().collect();
    let mut payload = encode_presence(values, present.len());
    let Some(first) = present.first() else {
        return payload;
    };
    let differences: Vec<i64> = present
        .windows(2)
        .map(|pair| signed(pair[1].wrapping_sub(pair[0])))
        .collect();
    let scale = common_divisor(&differences);
    let steps: Vec<i64> = differences
        .iter()
        .map(|difference| difference / scale)
        .collect();
    let mut previous = 0_i64;
    let second: Vec<i64> = steps
        .iter()
        .map(|step| step.wrapping_sub(std::mem::replace(&mut previous, *step)))
        .collect();
    let candidates = [
        (ZERO_RUNS, encode_steps(&steps)),
        (SECOND_ORDER | ZERO_RUNS, encode_steps(&second)),
    ];
    let shortest = candidates.into_iter().min_by_key(|(_, steps)| steps.len());
    let (coding, steps) = shortest.unwrap_or_default();
    payload.push(coding);
    put_varint(&mut payload, scale.unsigned_abs());
    put_varint(&mut payload, *first);
    payload.extend_from_slice(&steps);
    payload
}

fn encode_presence(values: &[Option<u64>], present: usize) -> Vec<u8> {
    if present == values.len() {
        return vec![0];
    }
    if present == 0 {
        return vec![1];
    }
    let mut bytes = vec![0; 1 + values.len().div_ceil(8)];
    bytes[0] = 2;
    for (index, _) in values
        .iter()
        .enumerate()
        .filter(|(_, value)| value.is_some())
    {
        bytes[1 + index / 8] |= 1 << (index % 8);
    }
    bytes
}

fn encode_steps(steps: &[i64]) -> Vec<u8> {
    let mut bytes = Vec::with_capacity(steps.len() * 2);
    let mut index = 0;
    while index < steps.len() {
        put_varint(&mut bytes, zigzag(steps[index]));
        index += 1;
        if steps[index - 1] == 0 {
            let more = steps[index..].iter().take_while(|step| **step == 0).count();
            put_varint(&mut bytes, more as u64);
            index += more;
        }
    }
    bytes
}

/// The greatest common divisor of all of them, at least 1 and at most `i64::MAX`.
fn common_divisor(differences: &[i64]) -> i64 {
    let divisor = differences.iter().fold(0, |divisor, difference| {
        let (mut a, mut b) = (divisor, difference.unsigned_abs());
        while b != 0 {
            (a, b) = (b, a % b);
        }
        a
    });
    i64::try_from(divisor).unwrap_or(1).max(1)
}

pub(super) fn signed(bits: u64) -> i64 {
    i64::from_ne_bytes(bits.to_ne_bytes())
}

pub(super) fn unsigned(bits: i64) -> u64 {
    u64::from_ne_bytes(bits.to_ne_bytes())
}

pub(super) fn zigzag(value: i64) -> u64 {
    unsigned((value << 1) ^ (value >> 63))
}

pub(super) fn unzigzag(code: u64) -> i64 {
    signed(code >> 1) ^ -signed(code & 1)
}

pub(super) fn put_varint(bytes: &mut Vec<u8>, mut value: u64) {
    while value >= 0x80 {
        bytes.push(value.to_le_bytes()[0] | 0x80);
        value >>= 7;
    }
    bytes.push(value.to_le_bytes()[0]);
}

pub(super) fn decode_column(payload: &[u8], count: usize) -> Result<Vec<Option<u64>>, SeriesError> {
    let mut reader = Reader(payload);
    let presence = reader.byte()?;
    let bitmap = match presence {
        0 | 1 => None,
        2 => Some(reader.take(count.div_ceil(8))?),
        _ => return damaged("unknown presence"),
    };
    let is_present = |index: usize| {
        bitmap.map_or(presence == 0, |bitmap| {
            bitmap[index / 8] >> (index % 8) & 1 == 1
        })
    };
    let present = (0..count).filter(|index| is_present(*index)).count();
    let mut values = decode_values(&mut reader, present)?.into_iter();
    if !reader.0.is_empty() {
        return damaged("bytes after a column's last value");
    }
    Ok((0..count)
        .map(|index| is_present(index).then(|| values.next()).flatten())
        .collect())
}

fn decode_values(reader: &mut Reader<'_>, count: usize) -> Result<Vec<u64>, SeriesError> {
    if count == 0 {
        return Ok(Vec::new());
    }
    let coding = reader.byte()?;
    if coding & !(SECOND_ORDER | ZERO_RUNS) != 0 {
        return damaged("unknown coding");
    }
    let scale = reader.varint()?;
    let mut value = reader.varint()?;
    let mut values = Vec::with_capacity(count);
    values.push(value);
    let (mut difference, mut zeros) = (0_i64, 0);
    while values.len() < count {
        let step = if zeros > 0 {
            0
        } else {
            unzigzag(reader.varint()?)
        };
        if zeros > 0 {
            zeros -= 1;
        } else if step == 0 && coding & ZERO_RUNS != 0 {
            zeros = reader.count(count - values.len() - 1)?;
        }
        difference = if coding & SECOND_ORDER == 0 {
            step
        } else {
            difference.wrapping_add(step)
        };
        value = value.wrapping_add(unsigned(difference).wrapping_mul(scale));
        values.push(value);
    }
    Ok(values)
}

/// What is left to read.
pub(super) struct Reader<'a>(pub(super) &'a [u8]);

impl<'a> Reader<'a> {
    pub(super) fn take(&mut self, length: usize) -> Result<&'a [u8], SeriesError> {
        let Some((taken, rest)) = self.0.split_at_checked(length) else {
            return damaged("it ends early");
        };
        self.0 = rest;
        Ok(taken)
    }

    pub(super) fn byte(&mut self) -> Result<u8, SeriesError> {
        Ok(self.take(1)?[0])
    }

    pub(super) fn varint(&mut self) -> Result<u64, SeriesError> {
        let mut value = 0;
        for shift in (0..64).step_by(7) {
            let byte = self.byte()?;
            let part = u64::from(byte & 0x7f);
            if part << shift >> shift != part {
                return damaged("a number is too large");
            }
            value |= part << shift;
            if byte & 0x80 == 0 {
                return Ok(value);
            }
        }
        damaged("a number is too long")
    }

    /// A number of things, checked against what is allowed before anything is allocated for them.
    pub(super) fn count(&mut self, most: usize) -> Result<usize, SeriesError> {
        let count = usize::try_from(self.varint()?).unwrap_or(usize::MAX);
        if count > most {
            damaged("a count is too large")
        } else {
            Ok(count)
        }
    }
}
