//! Single samples as bytes, for a spool that is written at every tick: each row holds the differences to the row before.
//!
//! ```text
//! row  := at_ms run*                  at_ms: difference to the row before, zigzag varint
//! run  := absent:varint present:varint difference*present
//! ```
//!
//! The cells of a row are those of [`RowLayout`], in order: the columns of the sample, of each GPU, of each process. A
//! difference is to the last value that the cell had, 0 at first, as a zigzag varint modulo 2^64. Cells after the last run
//! are absent.

use std::sync::Arc;

use serde::{Deserialize, Serialize};

use super::column::{Reader, SeriesError, damaged, put_varint, signed, unsigned, unzigzag, zigzag};
use super::{COLUMNS, GPU_COLUMNS, GpuReading, PROCESS_COLUMNS, ProcessReading, Sample};

/// Which cells a row has. The numbers of columns are kept, since a later dlrun has more of them.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct RowLayout {
    columns: usize,
    gpu_columns: usize,
    process_columns: usize,
    gpus: Vec<String>,
    processes: Vec<(u32, u64, String)>,
}

impl RowLayout {
    /// The layout that `sample` needs.
    #[must_use]
    pub fn of(sample: &Sample) -> Self {
        let process = |one: &ProcessReading| (one.pid, one.start_time_ticks, one.name.to_string());
        Self {
            columns: COLUMNS.len(),
            gpu_columns: GPU_COLUMNS.len(),
            process_columns: PROCESS_COLUMNS.len(),
            gpus: sample.gpus.iter().map(|gpu| gpu.uuid.to_string()).collect(),
            processes: sample.commands.iter().map(process).collect(),
        }
    }
}

/// Encodes or decodes the rows of one layout, first to last.
#[derive(Debug, Clone)]
pub struct RowCoder {
    layout: RowLayout,
    gpus: Vec<Arc<str>>,
    names: Vec<Arc<str>>,
    at_ms: u64,
    /// The last value of each cell.
    last: Vec<u64>,
    /// The cells of the row at hand.
    cells: Vec<Option<u64>>,
}

/// Columns that a layout may have at most, of each kind: a limit for damaged ones.
const MAX_COLUMNS: usize = 1024;
const MAX_CELLS: usize = 1 << 20;

impl RowCoder {
    /// Begins with the first row.
    ///
    /// # Errors
    /// When the layout is not one that a dlrun writes.
    pub fn new(layout: RowLayout) -> Result<Self, SeriesError> {
        let columns = [layout.columns, layout.gpu_columns, layout.process_columns];
        if columns.iter().any(|columns| *columns > MAX_COLUMNS) {
            return damaged("a layout with too many columns");
        }
        let of_gpus = layout.gpus.len().saturating_mul(layout.gpu_columns);
        let of_processes = layout
            .processes
            .len()
            .saturating_mul(layout.process_columns);
        let cells = layout
            .columns
            .saturating_add(of_gpus)
            .saturating_add(of_processes);
        if cells > MAX_CELLS {
            return damaged("a layout with too many cells");
        }
        Ok(Self {
            gpus: layout
                .gpus
                .iter()
                .map(|uuid| uuid.as_str().into())
                .collect(),
            names: layout
                .processes
                .iter()
                .map(|(.., name)| name.as_str().into())
                .collect(),
            layout,
            at_ms: 0,
            last: vec![0; cells],
            cells: vec![None; cells],
        })
    }

    /// When the last row was read, in Unix milliseconds UTC; 0 before the first.
    #[must_use]
    pub fn at_ms(&self) -> u64 {
        self.at_ms
    }

    /// The next row; `None` where the sample has a GPU or a process that the layout lacks.
    pub fn encode(&mut self, sample: &Sample) -> Option<Vec<u8>> {
        self.lay_out(sample)?;
        let mut bytes = Vec::with_capacity(16 + 2 * self.cells.len());
        put_varint(
            &mut bytes,
            zigzag(signed(sample.at_ms.wrapping_sub(self.at_ms))),
        );
        self.at_ms = sample.at_ms;
        let mut at = 0;
        while let Some(absent) = self.cells[at..].iter().position(Option::is_some) {
            let rest = &self.cells[at + absent..];
            let present = rest.iter().position(Option::is_none).unwrap_or(rest.len());
            put_varint(&mut bytes, absent as u64);
            put_varint(&mut bytes, present as u64);
            at += absent + present;
            for place in at - present..at {
                let value = self.cells[place].unwrap_or_default();
                let before = std::mem::replace(&mut self.last[place], value);
                put_varint(&mut bytes, zigzag(signed(value.wrapping_sub(before))));
            }
        }
        Some(bytes)
    }

    /// Puts the values of `sample` into their cells.
    fn lay_out(&mut self, sample: &Sample) -> Option<()> {
        let layout = &self.layout;
        // An older dlrun's layout, found at a start: its rows go on under a new one.
        if [layout.columns, layout.gpu_columns, layout.process_columns]
            != [COLUMNS.len(), GPU_COLUMNS.len(), PROCESS_COLUMNS.len()]
        {
            return None;
        }
        self.cells.fill(None);
        let (run, rest) = self.cells.split_at_mut(COLUMNS.len());
        run.copy_from_slice(&sample.values());
        let (gpus, processes) = rest.split_at_mut(layout.gpus.len() * GPU_COLUMNS.len());
        for (expected, gpu) in sample.gpus.iter().enumerate() {
            let place = place_of(&self.gpus, expected, |uuid| *uuid == gpu.uuid)?;
            gpus[place * GPU_COLUMNS.len()..][..GPU_COLUMNS.len()].copy_from_slice(&gpu.values());
        }
        for (expected, process) in sample.commands.iter().enumerate() {
            let key = (process.pid, process.start_time_ticks, &*process.name);
            let place = place_of(&layout.processes, expected, |(pid, start, name)| {
                (*pid, *start, &**name) == key
            })?;
            processes[place * PROCESS_COLUMNS.len()..][..PROCESS_COLUMNS.len()]
                .copy_from_slice(&process.values());
        }
        Some(())
    }

    /// Reads the next row.
    ///
    /// # Errors
    /// When the bytes are no row of this layout.
    pub fn decode(&mut self, bytes: &[u8]) -> Result<Sample, SeriesError> {
        let mut reader = Reader(bytes);
        let at_ms = self
            .at_ms
            .wrapping_add(unsigned(unzigzag(reader.varint()?)));
        self.cells.fill(None);
        let mut at = 0;
        while !reader.0.is_empty() {
            at += reader.count(self.cells.len() - at)?;
            for _ in 0..reader.count(self.cells.len() - at)? {
                self.last[at] = self.last[at].wrapping_add(unsigned(unzigzag(reader.varint()?)));
                self.cells[at] = Some(self.last[at]);
                at += 1;
            }
        }
        self.at_ms = at_ms;
        Ok(self.assemble())
    }

    fn assemble(&self) -> Sample {
        let layout = &self.layout;
        let (run, rest) = self.cells.split_at(layout.columns);
        let (gpus, processes) = rest.split_at(layout.gpus.len() * layout.gpu_columns);
        let mut sample = Sample::from_values(self.at_ms, known(run));
        for (place, uuid) in self.gpus.iter().enumerate() {
            let cells = &gpus[place * layout.gpu_columns..][..layout.gpu_columns];
            if cells.iter().any(Option::is_some) {
                let mut gpu = GpuReading::of(uuid.clone());
                gpu.set_values(known(cells));
                sample.gpus.push(gpu);
            }
        }
        for (place, (pid, start_time_ticks, _)) in layout.processes.iter().enumerate() {
            let cells = &processes[place * layout.process_columns..][..layout.process_columns];
            if cells.iter().any(Option::is_some) {
                let (pid, start_time_ticks, name) =
                    (*pid, *start_time_ticks, self.names[place].clone());
                let mut process = ProcessReading {
                    pid,
                    start_time_ticks,
                    name,
                    ..ProcessReading::default()
                };
                process.set_values(known(cells));
                sample.commands.push(process);
            }
        }
        sample
    }
}

/// Things mostly stand where they are expected.
fn place_of<T>(things: &[T], expected: usize, is: impl Fn(&T) -> bool) -> Option<usize> {
    if things.get(expected).is_some_and(&is) {
        Some(expected)
    } else {
        things.iter().position(is)
    }
}

/// The columns that this dlrun knows of those that were written: new ones are appended.
fn known<const N: usize>(cells: &[Option<u64>]) -> [Option<u64>; N] {
    std::array::from_fn(|index| cells.get(index).copied().flatten())
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn process(pid: u32, cpu_us: u64) -> ProcessReading {
        let name = "python3".into();
        ProcessReading {
            pid,
            start_time_ticks: 9,
            name,
            cpu_us: Some(cpu_us),
            ..ProcessReading::default()
        }
    }

    #[test]
    fn rows_come_back_whatever_order_things_have() {
        let gpu = |uuid: &str, used| GpuReading {
            mem_used_bytes: Some(used),
            ..GpuReading::of(uuid.into())
        };
        let mut first = Sample::from_values(1_000, std::array::from_fn(|_| Some(u64::MAX)));
        first.gpus = vec![gpu("GPU-1", 1), gpu("GPU-2", 2)];
        first.commands = vec![process(1, 5), process(2, 6)];
        let mut second = Sample {
            at_ms: 900,
            threads: Some(0),
            ..Sample::default()
        };
        second.gpus = vec![gpu("GPU-2", 0)];
        second.commands = vec![process(2, 7)];
        let layout = RowLayout::of(&first);
        let (mut writer, mut reader) = (
            RowCoder::new(layout.clone()).expect("sound"),
            RowCoder::new(layout).expect("sound"),
        );
        for sample in [&first, &second, &first, &second] {
            let bytes = writer.encode(sample).expect("it fits");
            assert_eq!(reader.decode(&bytes).as_ref(), Ok(sample));
            assert_eq!(reader.at_ms(), sample.at_ms);
        }
        second.commands.push(process(3, 1));
        assert_eq!(writer.encode(&second), None);
    }

    #[test]
    fn an_unchanged_sample_costs_a_byte_for_each_value() {
        let sample = Sample::from_values(1_760_000_000_000, std::array::from_fn(|_| Some(1 << 40)));
        let mut coder = RowCoder::new(RowLayout::of(&sample)).expect("sound");
        coder.encode(&sample).expect("it fits");
        assert_eq!(
            coder.encode(&sample).expect("it fits").len(),
            3 + COLUMNS.len()
        );
    }

    #[test]
    fn rows_of_another_dlrun_are_read_as_far_as_known_and_not_gone_on_with() {
        let of_now = RowLayout::of(&Sample {
            commands: vec![process(1, 0)],
            ..Sample::default()
        });
        for columns in [1, COLUMNS.len() + 9] {
            let layout = RowLayout {
                columns,
                process_columns: 1,
                ..of_now.clone()
            };
            let mut coder = RowCoder::new(layout).expect("sound");
            assert_eq!(coder.encode(&Sample::default()), None);
            let all = u8::try_from(columns + 1).expect("few");
            let row = [&[20, 0, all][..], &vec![4; columns + 1]].concat();
            let read = coder.decode(&row).expect("a row");
            assert_eq!(
                (read.at_ms, read.cpu_user_us, read.commands[0].cpu_us),
                (10, Some(2), Some(2))
            );
        }
        let vast = RowLayout {
            columns: usize::MAX,
            ..of_now
        };
        assert!(RowCoder::new(vast).is_err());
    }

    proptest! {
        #[test]
        fn any_rows_come_back(rows in prop::collection::vec(any::<(u64, [Option<u64>; COLUMNS.len()])>(), 1..20)) {
            let layout = RowLayout::of(&Sample::default());
            let mut writer = RowCoder::new(layout.clone()).expect("sound");
            let mut reader = RowCoder::new(layout).expect("sound");
            for (at_ms, row) in rows {
                let sample = Sample::from_values(at_ms, row);
                let bytes = writer.encode(&sample).expect("it fits");
                prop_assert_eq!(reader.decode(&bytes), Ok(sample));
            }
        }

        #[test]
        fn no_bytes_panic(bytes in prop::collection::vec(any::<u8>(), 0..100)) {
            let layout = RowLayout::of(&Sample { commands: vec![process(1, 0)], ..Sample::default() });
            let _ = RowCoder::new(layout).expect("sound").decode(&bytes);
        }
    }
}
