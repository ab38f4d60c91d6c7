//! A single sample as bytes, for a spool that is written at every tick: quicker to write than a segment of one.
//!
//! ```text
//! row    := at_ms:varint values reading*
//! reading := 1 uuid:text values | 2 pid:varint start:varint name:text values      of a GPU, of a process
//! values := present:varint value:varint*      bit i of `present` is set where column i has a value
//! text   := length:varint bytes
//! ```

use std::sync::Arc;

use super::Sample;
use super::packed_column::{Reader, SeriesError, damaged, put_varint};
use super::sample::Source;

const GPU: u8 = 1;
const PROCESS: u8 = 2;

/// The bytes of a sample.
#[must_use]
pub fn encode_row(sample: &Sample) -> Vec<u8> {
    let mut row = Vec::with_capacity(128);
    put_varint(&mut row, sample.at_ms);
    for (source, values) in sample.readings() {
        match &source {
            Source::Run => {}
            Source::Gpu(uuid) => {
                row.push(GPU);
                put_text(&mut row, uuid);
            }
            Source::Process(pid, start, name) => {
                row.push(PROCESS);
                put_varint(&mut row, (*pid).into());
                put_varint(&mut row, *start);
                put_text(&mut row, name);
            }
        }
        put_values(&mut row, &values);
    }
    row
}

/// The sample of a row.
///
/// # Errors
/// When the bytes are not a row.
pub fn decode_row(bytes: &[u8]) -> Result<Sample, SeriesError> {
    let mut reader = Reader(bytes);
    let mut sample = Sample {
        at_ms: reader.varint()?,
        ..Sample::default()
    };
    let mut source = Source::Run;
    loop {
        let values = read_values(&mut reader)?;
        sample.add_reading(&source, |column| values[column]);
        if reader.0.is_empty() {
            return Ok(sample);
        }
        source = match reader.byte()? {
            GPU => Source::Gpu(read_text(&mut reader)?),
            PROCESS => {
                let pid = u32::try_from(reader.varint()?);
                let pid = pid.or_else(|_| damaged("a pid is too large"))?;
                Source::Process(pid, reader.varint()?, read_text(&mut reader)?)
            }
            _ => return damaged("unknown source"),
        };
    }
}

fn put_values(row: &mut Vec<u8>, values: &[Option<u64>]) {
    let present = (0..).zip(values).filter(|(_, value)| value.is_some());
    put_varint(row, present.fold(0, |bits, (column, _)| bits | 1 << column));
    for value in values.iter().flatten() {
        put_varint(row, *value);
    }
}

/// A place for each column that there may ever be: a later dlrun has more of them.
fn read_values(reader: &mut Reader<'_>) -> Result<[Option<u64>; 64], SeriesError> {
    let present = reader.varint()?;
    let mut values = [None; 64];
    for (column, value) in values.iter_mut().enumerate() {
        if present >> column & 1 == 1 {
            *value = Some(reader.varint()?);
        }
    }
    Ok(values)
}

fn put_text(row: &mut Vec<u8>, text: &str) {
    put_varint(row, text.len() as u64);
    row.extend_from_slice(text.as_bytes());
}

fn read_text(reader: &mut Reader<'_>) -> Result<Arc<str>, SeriesError> {
    let length = reader.count(reader.0.len())?;
    match std::str::from_utf8(reader.take(length)?) {
        Ok(text) => Ok(text.into()),
        Err(_) => damaged("a name is not UTF-8"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::record::{COLUMNS, GPU_COLUMNS, GpuReading, PROCESS_COLUMNS, ProcessReading};

    #[test]
    fn rows_come_back_and_truncated_ones_are_refused() {
        assert!(
            COLUMNS
                .len()
                .max(GPU_COLUMNS.len())
                .max(PROCESS_COLUMNS.len())
                <= 64
        );
        let mut sample = Sample::from_values(1_000, std::array::from_fn(|_| Some(u64::MAX)));
        let mut gpu = GpuReading::of("GPU-1".into());
        gpu.mem_used_bytes = Some(1);
        sample.gpus = vec![gpu, GpuReading::of("GPU-2".into())];
        sample.commands.push(ProcessReading {
            pid: 7,
            start_time_ticks: 9,
            name: "python3".into(),
            cpu_us: Some(5),
            ..ProcessReading::default()
        });
        let row = encode_row(&sample);
        assert_eq!(decode_row(&row), Ok(sample));
        assert!(decode_row(&row[..row.len() - 1]).is_err() && decode_row(&[]).is_err());
        let empty = Sample {
            at_ms: 900,
            threads: Some(0),
            ..Sample::default()
        };
        assert_eq!(decode_row(&encode_row(&empty)), Ok(empty));
    }

    #[test]
    fn columns_of_a_later_dlrun_are_skipped() {
        let mut row = Vec::new();
        put_varint(&mut row, 5);
        put_varint(&mut row, 1 << 63 | 1);
        row.extend([3, 4]);
        let sample = decode_row(&row).expect("a row");
        assert_eq!((sample.at_ms, sample.cpu_user_us), (5, Some(3)));
    }
}
