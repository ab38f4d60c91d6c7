//! Blocks of samples as bytes: the immutable segments beside a node record.
//!
//! # Format, version 1
//!
//! A *varint* is an unsigned LEB128 of at most 10 bytes; *zigzag* maps the signed 0, -1, 1, -2 … to 0, 1, 2, 3 …
//! All arithmetic on values is modulo 2^64.
//!
//! ```text
//! segment  := "dlrs" version:u8=1 samples:varint columns:varint entry*columns payload*columns crc:u32le
//! entry    := length:varint name:bytes payload_length:varint
//! payload  := presence [coding:u8 scale:varint first:varint step*]
//! presence := 0            every sample has a value
//!           | 1            none has; the payload ends here
//!           | 2 bitmap     (samples + 7) / 8 bytes; bit i % 8 of byte i / 8 is set where sample i has a value
//! step     := zigzag:varint
//!           | 0:varint more:varint      with zero runs: 1 + more steps of 0
//! ```
//!
//! `crc` is the CRC-32 (IEEE) of all bytes before it. One column is named `at_ms` and has a value for every sample; the
//! others are named as in [`COLUMNS`], in any order. A reader skips columns it does not know by their length and takes
//! those it misses as absent. `scale` is the greatest common divisor of the differences between neighbouring present
//! values (at least 1). Bit 0 of `coding` chooses what the steps are, bit 1 whether runs of zeros are folded:
//!
//! * bit 0 clear: `value[k] = value[k-1] + scale * step[k]`;
//! * bit 0 set: `d[k] = d[k-1] + step[k]`, `d[0] = 0`, `value[k] = value[k-1] + scale * d[k]`.
//!
//! There is one step fewer than present values. The writer tries the four codings and keeps the shortest.

use super::{COLUMNS, Sample};

/// Samples that one segment holds at most. So many fit into [`MAX_SEGMENT_BYTES`] whatever their values.
pub const MAX_SEGMENT_SAMPLES: usize = 4096;
/// Bytes of a segment at most; a longer one is refused unread.
pub const MAX_SEGMENT_BYTES: usize = 512 * 1024;

const MAGIC: &[u8; 4] = b"dlrs";
const VERSION: u8 = 1;
const TIME: &str = "at_ms";
/// What a reader accepts; above [`MAX_SEGMENT_SAMPLES`] so that a later writer may raise that.
const MAX_SAMPLES_READ: usize = 65_536;
const MAX_COLUMNS_READ: usize = 1024;
const SECOND_ORDER: u8 = 1;
const ZERO_RUNS: u8 = 2;

/// Bytes that are no segment.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{0}")]
pub struct SeriesError(String);

fn damaged<T>(what: &str) -> Result<T, SeriesError> {
    Err(SeriesError(format!("not a series segment: {what}")))
}

/// Encodes samples. At most [`MAX_SEGMENT_SAMPLES`] of them fit; the caller splits longer series, what is beyond is left
/// out.
#[must_use]
pub fn encode_segment(samples: &[Sample]) -> Vec<u8> {
    debug_assert!(samples.len() <= MAX_SEGMENT_SAMPLES, "the caller splits");
    let samples = &samples[..samples.len().min(MAX_SEGMENT_SAMPLES)];
    let times: Vec<_> = samples.iter().map(|sample| Some(sample.at_ms)).collect();
    let mut payloads = vec![(TIME, encode_column(&times))];
    for (index, column) in COLUMNS.iter().enumerate() {
        let values: Vec<_> = samples.iter().map(|sample| sample.values()[index]).collect();
        payloads.push((column.name, encode_column(&values)));
    }
    let mut bytes = MAGIC.to_vec();
    bytes.push(VERSION);
    put_varint(&mut bytes, samples.len() as u64);
    put_varint(&mut bytes, payloads.len() as u64);
    for (name, payload) in &payloads {
        put_varint(&mut bytes, name.len() as u64);
        bytes.extend_from_slice(name.as_bytes());
        put_varint(&mut bytes, payload.len() as u64);
    }
    for (_, payload) in &payloads {
        bytes.extend_from_slice(payload);
    }
    let crc = crc32fast::hash(&bytes);
    bytes.extend_from_slice(&crc.to_le_bytes());
    bytes
}

fn encode_column(values: &[Option<u64>]) -> Vec<u8> {
    let present: Vec<u64> = values.iter().copied().flatten().collect();
    let mut payload = encode_presence(values, present.len());
    let Some(first) = present.first() else { return payload };
    let differences: Vec<i64> =
        present.windows(2).map(|pair| signed(pair[1].wrapping_sub(pair[0]))).collect();
    let scale = common_divisor(&differences);
    let steps: Vec<i64> = differences.iter().map(|difference| difference / scale).collect();
    let mut previous = 0_i64;
    let second: Vec<i64> =
        steps.iter().map(|step| step.wrapping_sub(std::mem::replace(&mut previous, *step))).collect();
    let candidates = [
        (0, encode_steps(&steps, false)),
        (ZERO_RUNS, encode_steps(&steps, true)),
        (SECOND_ORDER, encode_steps(&second, false)),
        (SECOND_ORDER | ZERO_RUNS, encode_steps(&second, true)),
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
    for (index, _) in values.iter().enumerate().filter(|(_, value)| value.is_some()) {
        bytes[1 + index / 8] |= 1 << (index % 8);
    }
    bytes
}

fn encode_steps(steps: &[i64], zero_runs: bool) -> Vec<u8> {
    let mut bytes = Vec::with_capacity(steps.len() * 2);
    let mut index = 0;
    while index < steps.len() {
        put_varint(&mut bytes, zigzag(steps[index]));
        index += 1;
        if zero_runs && steps[index - 1] == 0 {
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

fn signed(bits: u64) -> i64 {
    i64::from_ne_bytes(bits.to_ne_bytes())
}

fn unsigned(bits: i64) -> u64 {
    u64::from_ne_bytes(bits.to_ne_bytes())
}

fn zigzag(value: i64) -> u64 {
    unsigned((value << 1) ^ (value >> 63))
}

fn unzigzag(code: u64) -> i64 {
    signed(code >> 1) ^ -signed(code & 1)
}

fn put_varint(bytes: &mut Vec<u8>, mut value: u64) {
    while value >= 0x80 {
        bytes.push(value.to_le_bytes()[0] | 0x80);
        value >>= 7;
    }
    bytes.push(value.to_le_bytes()[0]);
}

/// Decodes samples.
///
/// # Errors
/// When the bytes are damaged, of a later version, or more than [`MAX_SEGMENT_BYTES`].
pub fn decode_segment(bytes: &[u8]) -> Result<Vec<Sample>, SeriesError> {
    if bytes.len() > MAX_SEGMENT_BYTES {
        return damaged("too long");
    }
    let Some((body, crc)) = bytes.split_last_chunk::<4>() else { return damaged("too short") };
    let Some(rest) = body.strip_prefix(MAGIC) else { return damaged("other magic") };
    if crc32fast::hash(body) != u32::from_le_bytes(*crc) {
        return damaged("checksum differs");
    }
    let mut reader = Reader(rest);
    let version = reader.byte()?;
    if version != VERSION {
        return Err(SeriesError(format!("series segment of version {version}; this dlrun reads {VERSION}")));
    }
    let samples = reader.count(MAX_SAMPLES_READ)?;
    let columns = decode_columns(&mut reader)?;
    assemble(samples, &columns)
}

/// A column's name and payload.
type RawColumn<'a> = (&'a [u8], &'a [u8]);

fn decode_columns<'a>(reader: &mut Reader<'a>) -> Result<Vec<RawColumn<'a>>, SeriesError> {
    let count = reader.count(MAX_COLUMNS_READ)?;
    let mut table = Vec::with_capacity(count);
    for _ in 0..count {
        let length = reader.count(MAX_SEGMENT_BYTES)?;
        table.push((reader.take(length)?, reader.count(MAX_SEGMENT_BYTES)?));
    }
    let mut columns: Vec<RawColumn<'a>> = Vec::with_capacity(count);
    for (name, length) in table {
        if columns.iter().any(|(other, _)| *other == name) {
            return damaged("a column occurs twice");
        }
        columns.push((name, reader.take(length)?));
    }
    if reader.0.is_empty() { Ok(columns) } else { damaged("bytes after the last column") }
}

fn assemble(count: usize, columns: &[RawColumn<'_>]) -> Result<Vec<Sample>, SeriesError> {
    let payload =
        |wanted: &str| columns.iter().find(|(name, _)| *name == wanted.as_bytes()).map(|found| found.1);
    let Some(times) = payload(TIME) else { return damaged("no times") };
    let times = decode_column(times, count)?;
    let mut rows = vec![[None; COLUMNS.len()]; count];
    for (index, column) in COLUMNS.iter().enumerate() {
        let Some(payload) = payload(column.name) else { continue };
        for (row, value) in rows.iter_mut().zip(decode_column(payload, count)?) {
            row[index] = value;
        }
    }
    let samples = times.into_iter().zip(rows);
    let samples: Option<Vec<_>> =
        samples.map(|(at_ms, row)| Some(Sample::from_values(at_ms?, row))).collect();
    samples.map_or_else(|| damaged("a sample has no time"), Ok)
}

fn decode_column(payload: &[u8], count: usize) -> Result<Vec<Option<u64>>, SeriesError> {
    let mut reader = Reader(payload);
    let presence = reader.byte()?;
    let bitmap = match presence {
        0 | 1 => None,
        2 => Some(reader.take(count.div_ceil(8))?),
        _ => return damaged("unknown presence"),
    };
    let is_present =
        |index: usize| bitmap.map_or(presence == 0, |bitmap| bitmap[index / 8] >> (index % 8) & 1 == 1);
    let present = (0..count).filter(|index| is_present(*index)).count();
    let mut values = decode_values(&mut reader, present)?.into_iter();
    if !reader.0.is_empty() {
        return damaged("bytes after a column's last value");
    }
    Ok((0..count).map(|index| is_present(index).then(|| values.next()).flatten()).collect())
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
        let step = if zeros > 0 { 0 } else { unzigzag(reader.varint()?) };
        if zeros > 0 {
            zeros -= 1;
        } else if step == 0 && coding & ZERO_RUNS != 0 {
            zeros = reader.count(count - values.len() - 1)?;
        }
        difference = if coding & SECOND_ORDER == 0 { step } else { difference.wrapping_add(step) };
        value = value.wrapping_add(unsigned(difference).wrapping_mul(scale));
        values.push(value);
    }
    Ok(values)
}

/// What is left to read.
struct Reader<'a>(&'a [u8]);

impl<'a> Reader<'a> {
    fn take(&mut self, length: usize) -> Result<&'a [u8], SeriesError> {
        let Some((taken, rest)) = self.0.split_at_checked(length) else { return damaged("it ends early") };
        self.0 = rest;
        Ok(taken)
    }

    fn byte(&mut self) -> Result<u8, SeriesError> {
        Ok(self.take(1)?[0])
    }

    fn varint(&mut self) -> Result<u64, SeriesError> {
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
    fn count(&mut self, most: usize) -> Result<usize, SeriesError> {
        let count = usize::try_from(self.varint()?).unwrap_or(usize::MAX);
        if count > most { damaged("a count is too large") } else { Ok(count) }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    /// Deterministic noise: a 64-bit linear congruential generator's upper bits.
    struct Noise(u64);

    impl Noise {
        fn below(&mut self, limit: u64) -> u64 {
            self.0 = self.0.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
            (self.0 >> 33) % limit
        }
    }

    /// A training with 17 processes at 1 Hz as the sampler records it: CPU times in steps of 10 ms, memory in pages, I/O
    /// and shared memory in every fifth sample.
    fn training(count: u64) -> Vec<Sample> {
        let mut noise = Noise(1);
        let mut sample = Sample {
            at_ms: 1_760_000_000_123,
            cpu_user_us: Some(730_000),
            cpu_system_us: Some(140_000),
            mem_rss_bytes: Some(6_200_123_392),
            mem_shmem_bytes: Some(805_306_368),
            io_read_bytes: Some(1_290_829_824),
            io_write_bytes: Some(40_960),
            processes: Some(17),
            threads: Some(212),
        };
        let grow = |value: &mut Option<u64>, by: u64| *value = value.map(|old| old + by);
        let mut samples = Vec::new();
        for tick in 0..count {
            sample.at_ms += 998 + noise.below(5);
            grow(&mut sample.cpu_user_us, 10_000 * (780 + noise.below(40)));
            grow(&mut sample.cpu_system_us, 10_000 * (20 + noise.below(20)));
            sample.mem_rss_bytes = Some(6_200_123_392 + 4096 * noise.below(6000));
            sample.mem_shmem_bytes = Some(805_306_368 + 4096 * noise.below(4000));
            grow(&mut sample.io_read_bytes, 4096 * noise.below(3000));
            grow(&mut sample.io_write_bytes, if tick % 60 == 0 { 98_304_000 } else { 4096 * noise.below(4) });
            sample.threads = Some(212 + if noise.below(20) == 0 { noise.below(3) } else { 0 });
            let mut taken = sample;
            if tick % 5 != 0 {
                (taken.mem_shmem_bytes, taken.io_read_bytes, taken.io_write_bytes) = (None, None, None);
            }
            samples.push(taken);
        }
        samples
    }

    #[expect(clippy::cast_precision_loss, reason = "small counts")]
    fn bytes_per_value(samples: &[Sample]) -> f64 {
        let values: usize = samples.iter().map(|sample| sample.values().iter().flatten().count()).sum();
        encode_segment(samples).len() as f64 / values as f64
    }

    /// What `tests/fixtures/series/v1.bin` holds.
    fn fixture() -> Vec<Sample> {
        let mut samples = training(23);
        samples[3] = Sample { at_ms: samples[3].at_ms, ..Sample::default() };
        samples.iter_mut().for_each(|sample| sample.io_write_bytes = None);
        samples
    }

    #[test]
    fn a_training_s_series_costs_few_bytes_per_value() {
        let cost = [60, 300, 3600].map(|count| bytes_per_value(&training(count)));
        #[expect(clippy::print_stderr, reason = "the figure is what one looks for here")]
        {
            eprintln!("bytes per value of 60, 300 and 3600 samples: {cost:.2?}");
        }
        assert!(cost.iter().all(|cost| *cost <= 2.5), "{cost:?}");
    }

    #[test]
    fn empty_single_and_extreme_series_survive() {
        let extreme =
            [0, u64::MAX, 1, 1 << 63, 0, 5].map(|value| Sample::from_values(value, [Some(value); 8]));
        let none = Sample { at_ms: 4, ..Sample::default() };
        for samples in [&[][..], &[none], &[none, none], &extreme] {
            assert_eq!(decode_segment(&encode_segment(samples)).as_deref(), Ok(samples));
        }
    }

    #[test]
    fn the_longest_series_fits_whatever_its_values() {
        let mut noise = Noise(7);
        let mut wild = || noise.below(u64::MAX).wrapping_mul(0x9e37_79b9_7f4a_7c15);
        let samples: Vec<_> = (0..MAX_SEGMENT_SAMPLES)
            .map(|_| Sample::from_values(wild(), std::array::from_fn(|_| Some(wild()))))
            .collect();
        let bytes = encode_segment(&samples);
        assert!(bytes.len() <= MAX_SEGMENT_BYTES);
        assert_eq!(decode_segment(&bytes), Ok(samples));
    }

    #[test]
    fn version_1_stays_readable() {
        let bytes = include_bytes!("../../tests/fixtures/series/v1.bin");
        assert_eq!(decode_segment(bytes), Ok(fixture()));
    }

    #[test]
    fn every_flipped_bit_and_every_cut_is_noticed() {
        let bytes = encode_segment(&fixture());
        for bit in 0..bytes.len() * 8 {
            let mut flipped = bytes.clone();
            flipped[bit / 8] ^= 1 << (bit % 8);
            assert!(decode_segment(&flipped).is_err(), "bit {bit}");
        }
        assert!((0..bytes.len()).all(|length| decode_segment(&bytes[..length]).is_err()));
        assert!(decode_segment(&vec![0; MAX_SEGMENT_BYTES + 1]).is_err());
    }

    /// A segment of these columns, sound outside but with any payload.
    fn segment(samples: u64, columns: &[(&str, Vec<u8>)]) -> Vec<u8> {
        let mut bytes = [&MAGIC[..], &[VERSION]].concat();
        put_varint(&mut bytes, samples);
        put_varint(&mut bytes, columns.len() as u64);
        for (name, payload) in columns {
            put_varint(&mut bytes, name.len() as u64);
            bytes.extend_from_slice(name.as_bytes());
            put_varint(&mut bytes, payload.len() as u64);
        }
        columns.iter().for_each(|(_, payload)| bytes.extend_from_slice(payload));
        sealed(bytes)
    }

    fn sealed(mut bytes: Vec<u8>) -> Vec<u8> {
        let crc = crc32fast::hash(&bytes);
        bytes.extend_from_slice(&crc.to_le_bytes());
        bytes
    }

    #[test]
    fn unknown_columns_are_skipped_and_missing_ones_absent() {
        let times = encode_column(&[Some(10), Some(20)]);
        let threads = encode_column(&[None, Some(3)]);
        let columns = [("gpu_energy_joules", vec![0xff; 9]), ("threads", threads), (TIME, times)];
        let expected = vec![
            Sample { at_ms: 10, ..Sample::default() },
            Sample { at_ms: 20, threads: Some(3), ..Sample::default() },
        ];
        assert_eq!(decode_segment(&segment(2, &columns)), Ok(expected));
    }

    #[test]
    fn hostile_counts_are_refused() {
        let times = || (TIME, vec![0, 2, 1, 5, 0, 200, 1]);
        assert!(decode_segment(&segment(u64::MAX, &[times()])).is_err());
        assert!(decode_segment(&segment(4, &[times()])).is_err());
        assert!(decode_segment(&segment(202, &[times()])).is_ok());
        assert!(decode_segment(&segment(202, &[times(), times()])).is_err());
        assert!(decode_segment(&segment(1, &[])).is_err());
    }

    proptest! {
        #[test]
        fn any_series_comes_back(rows in prop::collection::vec(any::<(u64, [Option<u64>; 8])>(), 0..40)) {
            let samples: Vec<_> = rows.into_iter().map(|(at_ms, row)| Sample::from_values(at_ms, row)).collect();
            prop_assert_eq!(decode_segment(&encode_segment(&samples)), Ok(samples));
        }

        #[test]
        fn no_bytes_panic(bytes in prop::collection::vec(any::<u8>(), 0..200)) {
            let _ = decode_segment(&bytes);
            let _ = decode_segment(&sealed([&b"dlrs\x01"[..], &bytes].concat()));
            let _ = decode_segment(&segment(9, &[(TIME, bytes.clone()), ("threads", bytes)]));
        }
    }
}
