//! Blocks of samples as rows: of each reading one, or one for each GPU or process in it.

use std::borrow::Cow;

use rusqlite::Row;

use super::Selection;
use crate::record::sample::Source;
use crate::record::store::sql::integer;
use crate::record::{Cell, Sample, Table, decode_segment};

/// Columns of a row before the values of the reading: the database, the change, the measurement with name and user, the segment.
pub(super) const BEFORE: usize = 10;

/// Hands out the rows of one block that begin so.
pub(super) fn each<E>(
    mut cells: Vec<Cell<'_>>,
    readings: &[Sample],
    selection: &Selection,
    out: &mut impl FnMut(&[Cell<'_>]) -> Result<(), E>,
) -> Result<(), E> {
    for sample in readings
        .iter()
        .filter(|sample| selection.is_in_time(sample.at_ms))
    {
        cells.truncate(BEFORE);
        cells.push(Cell::Whole(integer(sample.at_ms)));
        let before = cells.len();
        for (source, values) in sample.readings() {
            cells.truncate(before);
            match (selection.table, &source) {
                (Table::Samples, Source::Run) => {}
                (Table::GpuSamples, Source::Gpu(uuid)) => cells.push(text(uuid)),
                (Table::ProcessSamples, Source::Process(pid, start, name)) => {
                    let (pid, start) = (i64::from(*pid), integer(*start));
                    cells.extend([Cell::Whole(pid), Cell::Whole(start), text(name)]);
                }
                _ => continue,
            }
            let value = |value: Option<u64>| value.map_or(Cell::Null, |v| Cell::Whole(integer(v)));
            cells.extend(values.into_iter().map(value));
            out(&cells)?;
        }
    }
    Ok(())
}

/// The readings of a block; `None` where it is damaged.
pub(super) fn readings(row: &Row<'_>) -> rusqlite::Result<Option<Vec<Sample>>> {
    let bytes: Vec<u8> = row.get(BEFORE + 1)?;
    Ok(decode_segment(&bytes).ok())
}

fn text(text: &str) -> Cell<'static> {
    Cell::Text(Cow::Owned(text.to_owned()))
}
