//! Blocks of samples as bytes: the immutable segments beside a node record.
//!
//! # Format, version 2
//!
//! A *varint* is an unsigned LEB128 of at most 10 bytes; *zigzag* maps the signed 0, -1, 1, -2 … to 0, 1, 2, 3 …
//! All arithmetic on values is modulo 2^64.
//!
//! ```text
//! segment  := "dlrs" version:u8=2 body_length:varint zstd(body) crc:u32le
//! body     := samples:varint columns:varint entry*columns payload*columns
//! entry    := length:varint name:bytes payload_length:varint
//! payload  := presence [coding:u8 scale:varint first:varint step*]
//! presence := 0            every sample has a value
//!           | 1            none has; the payload ends here
//!           | 2 bitmap     (samples + 7) / 8 bytes; bit i % 8 of byte i / 8 is set where sample i has a value
//! step     := zigzag:varint
//!           | 0:varint more:varint      with zero runs: 1 + more steps of 0
//! ```
//!
//! `crc` is the CRC-32 (IEEE) of all bytes before it. `body_length` is that of the body before zstd (RFC 8878). Version 1 is
//! `"dlrs" 1 body crc`, without zstd and without GPUs and processes.
//!
//! One column is named `at_ms` and has a value for every sample; the others are named as in [`COLUMNS`],
//! `gpu/UUID/COLUMN` as in [`GPU_COLUMNS`] and `process/PID/START/COLUMN/NAME` as in [`PROCESS_COLUMNS`], in any order. START
//! is in clock ticks since boot. A reader skips columns it does not know by their length and takes those it misses as absent;
//! a GPU or process without any value in a sample is not in that sample. `scale` is the greatest common divisor of the
//! differences between neighbouring present values (at least 1). Bit 0 of `coding` chooses what the steps are, bit 1 whether
//! runs of zeros are folded:
//!
//! * bit 0 clear: `value[k] = value[k-1] + scale * step[k]`;
//! * bit 0 set: `d[k] = d[k-1] + step[k]`, `d[0] = 0`, `value[k] = value[k-1] + scale * d[k]`.
//!
//! There is one step fewer than present values. The writer folds zeros, tries both kinds of steps and keeps the shorter.

use std::collections::{HashMap, HashSet};

use super::packed_column::{
    Reader, SeriesError, damaged, decode_column, encode_column, put_varint,
};
use super::sample::Source;
use super::{Column, Sample};

/// Samples that one segment holds at most.
pub const MAX_SEGMENT_SAMPLES: usize = 4096;
/// Bytes of a segment at most; a longer one is refused unread.
pub const MAX_SEGMENT_BYTES: usize = 512 * 1024;

const MAGIC: &[u8; 4] = b"dlrs";
const VERSION: u8 = 2;
const TIME: &str = "at_ms";
/// The body of a segment at most, before compression.
const MAX_BODY_BYTES: usize = 4 << 20;
/// What a reader accepts; above [`MAX_SEGMENT_SAMPLES`] so that a later writer may raise that.
const MAX_SAMPLES_READ: usize = 65_536;
const MAX_COLUMNS: usize = 4096;
const MAX_CELLS_READ: usize = 4 << 20;
/// zstd's own default: level 9 saves 2 % and takes four times as long.
const LEVEL: i32 = 3;

/// Encodes samples as one segment, or as several where one may not hold them.
#[must_use]
pub fn encode_segments(samples: &[Sample]) -> Vec<Vec<u8>> {
    if samples.is_empty() {
        return Vec::new();
    }
    if samples.len() <= MAX_SEGMENT_SAMPLES
        && let Some(bytes) = encode_segment(samples)
    {
        return vec![bytes];
    }
    let (first, second) = samples.split_at(samples.len() / 2);
    if first.is_empty() {
        // One sample that does not fit: nothing that we read is so large.
        return Vec::new();
    }
    [encode_segments(first), encode_segments(second)].concat()
}

/// Cells of the table that these samples make as one segment: each GPU and each process of any of them has columns as long
/// as all. It is what a segment takes in memory, 16 bytes a cell; processes that come and go make it large.
#[must_use]
pub fn segment_cells(samples: &[Sample]) -> usize {
    let sources: HashSet<Source> = samples.iter().flat_map(Sample::sources).collect();
    let width: usize = sources.iter().map(|source| source.columns().len()).sum();
    samples.len() * width
}

/// Encodes samples as one segment; `None` where they do not fit.
fn encode_segment(samples: &[Sample]) -> Option<Vec<u8>> {
    // A reader would refuse it.
    if segment_cells(samples) > MAX_CELLS_READ {
        return None;
    }
    let payloads = payloads(samples);
    let mut body = Vec::new();
    put_varint(&mut body, samples.len() as u64);
    put_varint(&mut body, payloads.len() as u64);
    for (name, payload) in &payloads {
        put_varint(&mut body, name.len() as u64);
        body.extend_from_slice(name.as_bytes());
        put_varint(&mut body, payload.len() as u64);
    }
    for (_, payload) in &payloads {
        body.extend_from_slice(payload);
    }
    if payloads.len() > MAX_COLUMNS || body.len() > MAX_BODY_BYTES {
        return None;
    }
    let mut bytes = MAGIC.to_vec();
    bytes.push(VERSION);
    put_varint(&mut bytes, body.len() as u64);
    bytes.extend(zstd::bulk::compress(&body, LEVEL).ok()?);
    let crc = crc32fast::hash(&bytes);
    bytes.extend_from_slice(&crc.to_le_bytes());
    (bytes.len() <= MAX_SEGMENT_BYTES).then_some(bytes)
}

/// The columns of a block of samples, by name, encoded. Those without any value are left out, but for the time.
fn payloads(samples: &[Sample]) -> Vec<(String, Vec<u8>)> {
    let times: Vec<_> = samples.iter().map(|sample| Some(sample.at_ms)).collect();
    let mut payloads = vec![(TIME.to_owned(), encode_column(&times))];
    let mut grid = Grid::new(samples.len());
    for (row, sample) in samples.iter().enumerate() {
        for (source, values) in sample.readings() {
            let columns = grid.columns_of(source);
            (columns.iter_mut().zip(values)).for_each(|(column, value)| column[row] = value);
        }
    }
    for (source, columns) in &grid.sources {
        for (column, values) in source.columns().iter().zip(columns) {
            if values.iter().any(Option::is_some) {
                payloads.push((column_name(source, column.name), encode_column(values)));
            }
        }
    }
    payloads
}

/// Decodes samples.
///
/// # Errors
/// When the bytes are damaged, of a later version, or more than [`MAX_SEGMENT_BYTES`].
pub fn decode_segment(bytes: &[u8]) -> Result<Vec<Sample>, SeriesError> {
    decode_segment_within(bytes, MAX_SAMPLES_READ, MAX_CELLS_READ)
}

/// The same for bytes of somebody who may want to exhaust the reader: no more than so many samples, and about so many cells
/// ([`segment_cells`]). A few kilobytes may be well packed millions.
///
/// # Errors
/// As [`decode_segment`], and beyond either limit.
pub fn decode_segment_within(
    bytes: &[u8],
    samples: usize,
    cells: usize,
) -> Result<Vec<Sample>, SeriesError> {
    with_body(bytes, |body| {
        let (count, columns) = raw_columns(body)?;
        if count > samples {
            damaged("too many samples")
        } else {
            assemble(count, &columns, cells)
        }
    })
}

/// A segment as columns: a few of many are had so at a fraction of the time that all samples take.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Columns {
    /// The times of the samples, in Unix milliseconds UTC, in the order of the segment.
    pub at_ms: Vec<u64>,
    /// By name (`cpu_user_us`, `gpu/UUID/power_milliwatts`), a value for each sample.
    pub columns: Vec<(String, Vec<Option<u64>>)>,
}

/// Decodes those columns whose name is `wanted`, and the times.
///
/// # Errors
/// As [`decode_segment`]; columns that are not wanted are not looked at.
pub fn decode_columns(bytes: &[u8], wanted: impl Fn(&str) -> bool) -> Result<Columns, SeriesError> {
    with_body(bytes, |body| {
        let (count, raw) = raw_columns(body)?;
        let mut found = Columns {
            at_ms: times(count, &raw)?,
            columns: Vec::new(),
        };
        for (name, payload) in raw {
            let Some(name) = std::str::from_utf8(name).ok().filter(|name| wanted(name)) else {
                continue;
            };
            if (found.columns.len() + 1) * count > MAX_CELLS_READ {
                return damaged("too many values");
            }
            found
                .columns
                .push((name.to_owned(), decode_column(payload, count)?));
        }
        Ok(found)
    })
}

/// Hands out the body, once it is known to be whole.
fn with_body<T>(
    bytes: &[u8],
    read: impl Fn(&[u8]) -> Result<T, SeriesError>,
) -> Result<T, SeriesError> {
    if bytes.len() > MAX_SEGMENT_BYTES {
        return damaged("too long");
    }
    let Some((sealed, crc)) = bytes.split_last_chunk::<4>() else {
        return damaged("too short");
    };
    let Some(rest) = sealed.strip_prefix(MAGIC) else {
        return damaged("other magic");
    };
    if crc32fast::hash(sealed) != u32::from_le_bytes(*crc) {
        return damaged("checksum differs");
    }
    let mut reader = Reader(rest);
    match reader.byte()? {
        1 => read(reader.0),
        VERSION => {
            let length = reader.count(MAX_BODY_BYTES)?;
            match zstd::bulk::decompress(reader.0, length) {
                Ok(body) if body.len() == length => read(&body),
                _ => damaged("it cannot be decompressed"),
            }
        }
        later => Err(SeriesError(format!(
            "series segment of version {later}; this dlrun reads {VERSION}"
        ))),
    }
}

/// A column's name and payload.
type RawColumn<'a> = (&'a [u8], &'a [u8]);

/// How many samples there are, and the columns.
fn raw_columns(body: &[u8]) -> Result<(usize, Vec<RawColumn<'_>>), SeriesError> {
    let mut reader = Reader(body);
    let samples = reader.count(MAX_SAMPLES_READ)?;
    let count = reader.count(MAX_COLUMNS)?;
    let mut table = Vec::with_capacity(count);
    for _ in 0..count {
        let length = reader.count(MAX_SEGMENT_BYTES)?;
        table.push((reader.take(length)?, reader.count(MAX_BODY_BYTES)?));
    }
    let mut names = HashSet::with_capacity(count);
    let mut columns: Vec<RawColumn<'_>> = Vec::with_capacity(count);
    for (name, length) in table {
        if !names.insert(name) {
            return damaged("a column occurs twice");
        }
        columns.push((name, reader.take(length)?));
    }
    if reader.0.is_empty() {
        Ok((samples, columns))
    } else {
        damaged("bytes after the last column")
    }
}

fn times(count: usize, columns: &[RawColumn<'_>]) -> Result<Vec<u64>, SeriesError> {
    let Some((_, times)) = columns.iter().find(|(name, _)| *name == TIME.as_bytes()) else {
        return damaged("no times");
    };
    let times: Option<Vec<u64>> = decode_column(times, count)?.into_iter().collect();
    times.map_or_else(|| damaged("a sample has no time"), Ok)
}

fn assemble(
    count: usize,
    columns: &[RawColumn<'_>],
    most: usize,
) -> Result<Vec<Sample>, SeriesError> {
    let mut grid = Grid::new(count);
    for (name, payload) in columns {
        let Some((source, column)) = std::str::from_utf8(name).ok().and_then(named_column) else {
            continue;
        };
        if grid.cells() > most {
            return damaged("too many values");
        }
        grid.columns_of(source)[column] = decode_column(payload, count)?;
    }
    let mut samples = Vec::with_capacity(count);
    for (row, at_ms) in times(count, columns)?.into_iter().enumerate() {
        let mut sample = Sample {
            at_ms,
            ..Sample::default()
        };
        for (source, columns) in &grid.sources {
            if columns.iter().any(|column| column[row].is_some()) {
                sample.add_reading(source, |column| columns[column][row]);
            }
        }
        samples.push(sample);
    }
    Ok(samples)
}

/// The name in a segment of a column of this source.
fn column_name(source: &Source, column: &str) -> String {
    match source {
        Source::Run => column.to_owned(),
        Source::Gpu(uuid) => format!("gpu/{uuid}/{column}"),
        Source::Process(pid, start, name) => format!("process/{pid}/{start}/{column}/{name}"),
    }
}

/// The source and the place of the column with this name in a segment; `None` for one that is not known here.
fn named_column(name: &str) -> Option<(Source, usize)> {
    let (source, column) = if let Some(rest) = name.strip_prefix("gpu/") {
        let (uuid, column) = rest.rsplit_once('/')?;
        (Source::Gpu(uuid.into()), column)
    } else if let Some(rest) = name.strip_prefix("process/") {
        let mut parts = rest.splitn(4, '/');
        let (pid, start) = (parts.next()?.parse().ok()?, parts.next()?.parse().ok()?);
        let (column, name) = (parts.next()?, parts.next()?);
        (Source::Process(pid, start, name.into()), column)
    } else {
        (Source::Run, name)
    };
    let place = |known: &Column| known.name == column;
    let place = source.columns().iter().position(place)?;
    Some((source, place))
}

/// The values of a column, one for each sample.
type Values = Vec<Option<u64>>;

/// The columns of several sources, in the order in which the sources appeared.
struct Grid {
    count: usize,
    places: HashMap<Source, usize>,
    sources: Vec<(Source, Vec<Values>)>,
}

impl Grid {
    fn new(count: usize) -> Self {
        Self {
            count,
            places: HashMap::new(),
            sources: Vec::new(),
        }
    }

    fn cells(&self) -> usize {
        let columns: usize = self.sources.iter().map(|(_, columns)| columns.len()).sum();
        columns * self.count
    }

    fn columns_of(&mut self, source: Source) -> &mut [Values] {
        let place = *self.places.entry(source).or_insert_with_key(|source| {
            let columns = vec![vec![None; self.count]; source.columns().len()];
            self.sources.push((source.clone(), columns));
            self.sources.len() - 1
        });
        &mut self.sources[place].1
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::record::{COLUMNS, GpuReading, ProcessReading};
    use proptest::prelude::*;

    /// Deterministic noise: a 64-bit linear congruential generator's upper bits.
    struct Noise(u64);

    impl Noise {
        fn below(&mut self, limit: u64) -> u64 {
            self.0 = self
                .0
                .wrapping_mul(6_364_136_223_846_793_005)
                .wrapping_add(1_442_695_040_888_963_407);
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
            ..Sample::default()
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
            grow(
                &mut sample.io_write_bytes,
                if tick % 60 == 0 {
                    98_304_000
                } else {
                    4096 * noise.below(4)
                },
            );
            sample.threads = Some(
                212 + if noise.below(20) == 0 {
                    noise.below(3)
                } else {
                    0
                },
            );
            let mut taken = sample.clone();
            if tick % 5 != 0 {
                (
                    taken.mem_shmem_bytes,
                    taken.io_read_bytes,
                    taken.io_write_bytes,
                ) = (None, None, None);
            }
            samples.push(taken);
        }
        samples
    }

    #[expect(clippy::cast_precision_loss, reason = "small counts")]
    fn bytes_per_value(samples: &[Sample]) -> f64 {
        let values: usize = samples
            .iter()
            .map(|sample| sample.values().iter().flatten().count())
            .sum();
        whole(samples).len() as f64 / values as f64
    }

    fn whole(samples: &[Sample]) -> Vec<u8> {
        encode_segment(samples).expect("it fits")
    }

    /// What `tests/fixtures/series/v1.bin` holds.
    fn fixture() -> Vec<Sample> {
        let mut samples = training(23);
        samples[3] = Sample {
            at_ms: samples[3].at_ms,
            ..Sample::default()
        };
        samples
            .iter_mut()
            .for_each(|sample| sample.io_write_bytes = None);
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
        let extreme = [0, u64::MAX, 1, 1 << 63, 0, 5]
            .map(|value| Sample::from_values(value, [Some(value); COLUMNS.len()]));
        let none = Sample {
            at_ms: 4,
            ..Sample::default()
        };
        let two = [none.clone(), none];
        for samples in [&[][..], &two[..1], &two, &extreme] {
            assert_eq!(decode_segment(&whole(samples)).as_deref(), Ok(samples));
        }
    }

    #[test]
    fn processes_that_come_and_go_make_segments_that_can_be_read() {
        let of_one = |second: u32| {
            let process = ProcessReading {
                pid: 1000 + second / 2,
                start_time_ticks: u64::from(second / 2),
                name: "sleep".into(),
                cpu_us: Some(u64::from(second)),
                ..ProcessReading::default()
            };
            let commands = vec![process];
            Sample {
                at_ms: u64::from(second) * 1000,
                commands,
                ..Sample::default()
            }
        };
        let samples: Vec<_> = (0..2400).map(of_one).collect();
        assert!(segment_cells(&samples) > MAX_CELLS_READ);
        let segments = encode_segments(&samples);
        let read = segments
            .iter()
            .flat_map(|bytes| decode_segment(bytes).expect("our own bytes"));
        assert_eq!(read.collect::<Vec<_>>(), samples);
        assert!((2..=8).contains(&segments.len()), "{}", segments.len());
        // Small to send, and large in memory.
        let (first, cells) = (&segments[0], segment_cells(&samples[..600]));
        assert!(
            first.len() < 64 << 10 && cells > 1 << 19,
            "{} {cells}",
            first.len()
        );
        assert!(
            decode_segment_within(first, 2400, 1 << 19).is_err()
                && decode_segment_within(first, 9, cells).is_err()
        );
    }

    #[test]
    fn what_does_not_fit_into_one_segment_makes_several() {
        let mut noise = Noise(7);
        let mut wild = || noise.below(u64::MAX).wrapping_mul(0x9e37_79b9_7f4a_7c15);
        let samples: Vec<_> = (0..=MAX_SEGMENT_SAMPLES)
            .map(|_| Sample::from_values(wild(), std::array::from_fn(|_| Some(wild()))))
            .collect();
        let segments = encode_segments(&samples);
        assert!(
            segments.len() > 1
                && segments
                    .iter()
                    .all(|bytes| bytes.len() <= MAX_SEGMENT_BYTES)
        );
        let read: Result<Vec<_>, _> = segments.iter().map(|bytes| decode_segment(bytes)).collect();
        assert_eq!(read.map(|read| read.concat()), Ok(samples));
        assert_eq!(encode_segments(&[]), [[0; 0]; 0]);
    }

    #[test]
    fn gpus_and_processes_come_and_go() {
        let mut samples = training(5);
        let gpu = |uuid: &str, used| GpuReading {
            mem_used_bytes: Some(used),
            ..GpuReading::of(uuid.into())
        };
        let process = |pid, name: &str| {
            let name = name.into();
            ProcessReading {
                pid,
                start_time_ticks: 9,
                name,
                cpu_us: Some(7),
                ..ProcessReading::default()
            }
        };
        samples[0].gpus = vec![gpu("GPU-a/b", 1), gpu("GPU-2", 2)];
        samples[3].gpus = vec![gpu("GPU-2", 3)];
        samples[1].commands = vec![process(1, "a/b c"), process(2, "")];
        samples[4].commands = vec![process(2, "")];
        assert_eq!(decode_segment(&whole(&samples)), Ok(samples));
    }

    /// What `tests/fixtures/series/v2.bin` holds.
    fn fixture_2() -> Vec<Sample> {
        let mut samples = fixture();
        samples[0].gpus = vec![GpuReading {
            xid_errors: Some(1),
            ..GpuReading::of("GPU-1".into())
        }];
        let process = ProcessReading {
            pid: 1,
            name: "python3".into(),
            cpu_us: Some(7),
            ..ProcessReading::default()
        };
        samples[2].commands = vec![process];
        samples
    }

    #[test]
    fn columns_are_those_of_the_samples() {
        let (bytes, samples) = (whole(&fixture_2()), fixture_2());
        let wanted = |name: &str| name == "threads" || name == "gpu/GPU-1/xid_errors";
        let found = decode_columns(&bytes, wanted).expect("a segment");
        let times: Vec<u64> = samples.iter().map(|sample| sample.at_ms).collect();
        let threads: Vec<_> = samples.iter().map(|sample| sample.threads).collect();
        let errors: Vec<_> = samples
            .iter()
            .map(|sample| sample.gpus.first().and_then(|gpu| gpu.xid_errors))
            .collect();
        let columns = vec![
            ("threads".to_owned(), threads),
            ("gpu/GPU-1/xid_errors".to_owned(), errors),
        ];
        assert_eq!(
            found,
            Columns {
                at_ms: times.clone(),
                columns
            }
        );
        let none = decode_columns(&bytes, |_| false);
        assert_eq!(
            none,
            Ok(Columns {
                at_ms: times,
                columns: Vec::new()
            })
        );
        assert!(decode_columns(&bytes[1..], |_| true).is_err());
    }

    #[test]
    fn version_2_stays_readable() {
        let bytes = include_bytes!("../../tests/fixtures/series/v2.bin");
        assert_eq!(decode_segment(bytes), Ok(fixture_2()));
    }

    #[test]
    fn version_1_stays_readable() {
        let bytes = include_bytes!("../../tests/fixtures/series/v1.bin");
        assert_eq!(decode_segment(bytes), Ok(fixture()));
    }

    #[test]
    fn every_flipped_bit_and_every_cut_is_noticed() {
        let bytes = whole(&fixture());
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
        let mut bytes = [&MAGIC[..], &[1]].concat();
        put_varint(&mut bytes, samples);
        put_varint(&mut bytes, columns.len() as u64);
        for (name, payload) in columns {
            put_varint(&mut bytes, name.len() as u64);
            bytes.extend_from_slice(name.as_bytes());
            put_varint(&mut bytes, payload.len() as u64);
        }
        columns
            .iter()
            .for_each(|(_, payload)| bytes.extend_from_slice(payload));
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
        let columns = [
            ("gpu_energy_joules", vec![0xff; 9]),
            ("gpu/GPU-1/later", vec![7]),
            ("threads", threads),
            (TIME, times),
        ];
        let expected = vec![
            Sample {
                at_ms: 10,
                ..Sample::default()
            },
            Sample {
                at_ms: 20,
                threads: Some(3),
                ..Sample::default()
            },
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
        fn any_series_comes_back(rows in prop::collection::vec(any::<(u64, [Option<u64>; COLUMNS.len()])>(), 0..40)) {
            let samples: Vec<_> = rows.into_iter().map(|(at_ms, row)| Sample::from_values(at_ms, row)).collect();
            prop_assert_eq!(decode_segment(&whole(&samples)), Ok(samples));
        }

        #[test]
        fn no_bytes_panic(bytes in prop::collection::vec(any::<u8>(), 0..200)) {
            let _ = decode_segment(&bytes);
            let _ = decode_segment(&sealed([&b"dlrs\x01"[..], &bytes].concat()));
            let _ = decode_segment(&sealed([&b"dlrs\x02"[..], &bytes].concat()));
            let _ = decode_segment(&segment(9, &[(TIME, bytes.clone()), ("threads", bytes)]));
        }
    }
}
