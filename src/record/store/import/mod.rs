//! Taking in rows that another database exported.
//!
//! A row is another version of the same thing, so what counts is which one is newer, never which one came first: files may
//! come in any order, and more than once. A run that has its own directory here is left alone. Rows that come before what
//! they hang on (an epoch is exported when it ends, its run when that is over) wait in a table of their own.

mod newer;
mod samples;
mod views;

use std::collections::HashSet;

use rusqlite::{params, params_from_iter};
use serde_json::Value;

use super::error::StoreError;
use super::open::Store;
use super::sql::{column_value, integer};
use super::writer::Writer;
use crate::job::RunId;
use crate::record::{Event, Incoming, MeasureKey, Measurement, Row, RowVersion, RunRow, Sample};
use newer::{NodeVersion, RunVersion};
use samples::Segment;

/// Rows that wait are taken in so many at a time.
const AT_ONCE: i64 = 500;

/// What became of a row.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Taken {
    /// There was none.
    New,
    /// It replaces an older version.
    Newer,
    /// This version, or a newer one, is there.
    Known,
    /// Its run is one of this state directory's own, which knows better.
    Own,
    /// What it hangs on did not come yet.
    Waits,
}

/// Takes rows in, within one transaction. Finish it with [`Importer::finish`].
#[derive(Debug)]
pub struct Importer<'a> {
    writer: &'a Writer<'a>,
    /// Where the rows of the last measurement go: they come in thousands.
    last: Option<(MeasureKey, Place)>,
    /// The run whose nodes changed.
    touched: Option<RunId>,
    /// The segment whose readings come.
    segment: Option<Segment>,
    /// The last line that waited before this import began.
    waited: i64,
    /// What became of lines that had to wait during this import only.
    arrived: Vec<Taken>,
}

/// Where a row that hangs on a measurement goes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Place {
    /// To this node.
    Node(i64),
    /// Nowhere: the run is an own one.
    Own,
    /// To those that wait.
    Missing,
}

impl Store {
    /// The names of the imports that the index took in.
    ///
    /// # Errors
    /// As [`Store::list`].
    pub fn known_imports(&self) -> Result<HashSet<String>, StoreError> {
        Ok(self
            .rows("SELECT name FROM import", [], |row| row.get(0))?
            .into_iter()
            .collect())
    }

    /// Says whether a run came from another database.
    ///
    /// # Errors
    /// As [`Store::list`].
    pub fn is_imported(&self, run_id: &RunId) -> Result<bool, StoreError> {
        let sql = "SELECT 1 FROM run WHERE run_id = ?1 AND origin IS NOT NULL";
        self.finds(sql, [run_id.as_str()])
    }

    /// Says whether the database is a node daemon's: those have a journal that others may read beside.
    ///
    /// # Errors
    /// As [`Store::list`].
    pub fn is_of_a_node(&self) -> Result<bool, StoreError> {
        let journal = self.rows("PRAGMA journal_mode", [], |row| row.get::<_, String>(0))?;
        Ok(journal.first().is_some_and(|mode| mode == "wal"))
    }
}

impl Writer<'_> {
    /// Begins to take rows in.
    ///
    /// # Errors
    /// `StoreFault::Query` and what the disk adds to it.
    pub fn importer(&self) -> Result<Importer<'_>, StoreError> {
        let waited = self.select("SELECT id FROM waiting ORDER BY id DESC LIMIT 1", [])?;
        let waited = waited.unwrap_or(0);
        Ok(Importer {
            writer: self,
            last: None,
            touched: None,
            segment: None,
            waited,
            arrived: Vec::new(),
        })
    }

    /// Notes that an import of this name was taken in.
    ///
    /// # Errors
    /// `StoreFault::Query` and what the disk adds to it.
    pub fn note_import(&self, name: &str, at_ms: u64, rows: u64) -> Result<(), StoreError> {
        let sql = "INSERT OR IGNORE INTO import (name, at_ms, lines) VALUES (?1, ?2, ?3)";
        self.execute(sql, params![name, integer(at_ms), integer(rows)])
            .map(drop)
    }

    /// Forgets a run that was imported, since it has its own directory now.
    ///
    /// # Errors
    /// `StoreFault::Query` and what the disk adds to it.
    pub fn forget_imported(&self, run_id: &RunId) -> Result<(), StoreError> {
        self.execute(
            "DELETE FROM run WHERE run_id = ?1 AND origin IS NOT NULL",
            [run_id.as_str()],
        )?;
        self.execute("DELETE FROM waiting WHERE run_id = ?1", [run_id.as_str()])
            .map(drop)
    }

    /// The row of the database that a row comes from.
    fn origin(&self, version: &RowVersion) -> Result<Option<i64>, StoreError> {
        self.execute(
            "INSERT OR IGNORE INTO origin (store) VALUES (?1)",
            [&version.store],
        )?;
        self.select("SELECT id FROM origin WHERE store = ?1", [&version.store])
    }
}

impl Importer<'_> {
    /// Takes a row in; `line` is what it was read from, and is kept where the row has to wait.
    ///
    /// # Errors
    /// `StoreFault::Query` and what the disk adds to it.
    pub fn take(&mut self, incoming: Incoming, line: &str) -> Result<Taken, StoreError> {
        let version = &incoming.version;
        match incoming.row {
            Row::Run(run) => self.take_run(version, &run),
            Row::Usage(usage) => self.take_usage(version, &usage, line),
            Row::Timing(key, place, epoch) => self.below(key, line, |importer, node| {
                let of = ("timing", node, &[("place", place.into())][..]);
                importer.replace(version, of, |writer| writer.put_epoch(node, place, &epoch))
            }),
            Row::Gpu(key, usage) => self.below(key, line, |importer, node| {
                let of = ("gpu", node, &[("uuid", usage.gpu.uuid.as_str().into())][..]);
                importer.replace(version, of, |writer| writer.put_gpu(node, &usage))
            }),
            Row::Metric(key, value) => self.below(key, line, |importer, node| {
                let of_value = [
                    ("kind", value.kind.as_str().into()),
                    ("place", value.place.into()),
                    ("name", value.name.as_str().into()),
                ];
                let of = ("metric", node, &of_value[..]);
                importer.replace(version, of, |writer| writer.put_metric(node, &value))
            }),
            Row::Event(key, event) => self.below(key, line, |importer, node| {
                importer.take_event(node, &event)
            }),
            Row::Sample(key, segment, sample) => self.below(key, line, |importer, node| {
                importer.take_sample(version, node, segment, *sample)
            }),
        }
    }

    /// What became of lines for which [`Importer::take`] returned [`Taken::Waits`], and which wait no longer; each once.
    pub fn arrived(&mut self) -> Vec<Taken> {
        std::mem::take(&mut self.arrived)
    }

    /// Completes what could only be done once all rows were there.
    ///
    /// # Errors
    /// `StoreFault::Query` and what the disk adds to it.
    pub fn finish(mut self) -> Result<(), StoreError> {
        self.settle_touched()?;
        self.close_segment()
    }

    fn take_run(&mut self, version: &RowVersion, run: &RunRow) -> Result<Taken, StoreError> {
        let (writer, run_id) = (self.writer, &run.record.run_id);
        let known = newer::run_version(writer, run_id)?;
        let incoming = RunVersion::of_run(version, run);
        match &known {
            Some(None) => return Ok(Taken::Own),
            Some(Some(known)) if !incoming.replaces(known) => {
                self.fill_run(run)?;
                return Ok(Taken::Known);
            }
            _ => {}
        }
        writer.upsert_run(&run.record)?;
        writer.set_status(run_id, &run.status)?;
        writer.execute(
            "UPDATE run SET uid = ?2, origin = ?3, origin_seq = ?4, told_state = state, told_ended_at_ms = ended_at_ms
             WHERE run_id = ?1",
            params![run_id.as_str(), run.uid, writer.origin(version)?, integer(version.seq)],
        )?;
        self.touch(run_id)?;
        if known.is_none() {
            self.last = None;
            self.release(run_id, "")?;
        }
        Ok(if known.is_none() {
            Taken::New
        } else {
            Taken::Newer
        })
    }

    /// A job id or output once known is not forgotten, and which version had it does not matter.
    fn fill_run(&self, run: &RunRow) -> Result<(), StoreError> {
        let record = &run.record;
        self.writer.execute(
            "UPDATE run SET job_id = coalesce(job_id, ?2), output = coalesce(output, ?3)
             WHERE run_id = ?1 AND (job_id IS NULL OR output IS NULL)",
            params![
                record.run_id.as_str(),
                record.job_id.as_ref().map(|id| &id.0),
                record.output
            ],
        )?;
        Ok(())
    }

    fn take_usage(
        &mut self,
        version: &RowVersion,
        usage: &Measurement,
        line: &str,
    ) -> Result<Taken, StoreError> {
        let (writer, record) = (self.writer, &usage.record);
        let key = &record.key;
        match newer::run_version(writer, &key.run_id)? {
            None => return self.wait(&key.run_id, "", line),
            Some(None) => return Ok(Taken::Own),
            Some(Some(_)) => {}
        }
        let known = newer::node_version(writer, key)?;
        let incoming = NodeVersion::of_node(version, record);
        if known
            .as_ref()
            .is_some_and(|(_, known)| !incoming.replaces(known))
        {
            return Ok(Taken::Known);
        }
        if let Some((node, _)) = known {
            // Which one is newer was decided; its clock may have been set back.
            let before = "UPDATE node SET updated_at_ms = min(updated_at_ms, ?2) WHERE id = ?1";
            writer.execute(before, params![node, integer(record.updated_at_ms)])?;
        }
        let attempt = writer.attempt_row(&key.run_id, key.element, key.attempt)?;
        writer.note_marks(attempt, &usage.attempt)?;
        let target = writer.target_row(&record.host)?;
        if let Some(figures) = &usage.figures {
            writer.put_figures(&record.host, figures)?;
        }
        let Some(node) = writer.node_row(attempt, target, record)? else {
            return Ok(Taken::Known);
        };
        writer.replace_usage(node, record)?;
        writer.replace_holes(node, record)?;
        writer.execute(
            "UPDATE node SET origin = ?2, origin_seq = ?3 WHERE id = ?1",
            params![node, writer.origin(version)?, integer(version.seq)],
        )?;
        self.touch(&key.run_id)?;
        if known.is_some() {
            return Ok(Taken::Newer);
        }
        self.last = None;
        self.release(&key.run_id, &measure(key))?;
        Ok(Taken::New)
    }

    /// Puts a row in that hangs on a node, where it is newer than what is there under the same key; notes where it comes from.
    fn replace(
        &self,
        version: &RowVersion,
        (table, node, key): (&str, i64, &[(&str, Value)]),
        put: impl FnOnce(&Writer<'_>) -> Result<(), StoreError>,
    ) -> Result<Taken, StoreError> {
        let writer = self.writer;
        let of_key: String = (2..)
            .zip(key)
            .map(|(at, (name, _))| format!(" AND {name} = ?{at}"))
            .collect();
        let known = format!(
            "SELECT coalesce(origin_seq, 0) AS seq, coalesce(store, '') AS store
             FROM {table} LEFT JOIN origin ON origin.id = {table}.origin WHERE node = ?1{of_key}"
        );
        let mut values = vec![node.into()];
        values.extend(key.iter().map(|(_, value)| column_value(value)));
        let known = writer.first(&known, params_from_iter(&values), newer::row_version)?;
        if known.as_ref().is_some_and(|known| version <= known) {
            return Ok(Taken::Known);
        }
        put(writer)?;
        let (origin, seq) = (values.len() + 1, values.len() + 2);
        let sql = format!(
            "UPDATE {table} SET origin = ?{origin}, origin_seq = ?{seq} WHERE node = ?1{of_key}"
        );
        values.extend([writer.origin(version)?.into(), integer(version.seq).into()]);
        writer.execute(&sql, params_from_iter(&values))?;
        // The values of an epoch came with it, from nowhere.
        let is_newer = known.is_some_and(|known| table != "metric" || !known.store.is_empty());
        Ok(if is_newer { Taken::Newer } else { Taken::New })
    }

    /// Events never change, and databases number those that they know: the same event has another place in another one.
    fn take_event(&self, node: i64, event: &Event) -> Result<Taken, StoreError> {
        let same = self.writer.select(
            "SELECT 1 FROM event WHERE node = ?1 AND at_ms = ?2 AND kind = ?3 AND detail = ?4",
            params![
                node,
                integer(event.at_ms),
                event.kind.as_str(),
                event.detail
            ],
        )?;
        if same.is_some() {
            return Ok(Taken::Known);
        }
        self.writer.add_event(node, event)?;
        Ok(Taken::New)
    }

    fn take_sample(
        &mut self,
        version: &RowVersion,
        node: i64,
        seq: u32,
        part: Sample,
    ) -> Result<Taken, StoreError> {
        if !self
            .segment
            .as_ref()
            .is_some_and(|segment| segment.is(version, node, seq))
        {
            self.close_segment()?;
            self.segment = Segment::begin(self.writer, version, node, seq)?;
        }
        Ok(self
            .segment
            .as_mut()
            .map_or(Taken::Known, |segment| segment.add(part)))
    }

    fn close_segment(&mut self) -> Result<(), StoreError> {
        match self.segment.take() {
            Some(segment) => segment.write(self.writer),
            None => Ok(()),
        }
    }

    /// Takes a row in that hangs on a measurement.
    fn below(
        &mut self,
        key: MeasureKey,
        line: &str,
        take: impl FnOnce(&mut Self, i64) -> Result<Taken, StoreError>,
    ) -> Result<Taken, StoreError> {
        let place = match &self.last {
            Some((last, place)) if *last == key => *place,
            _ => self.place_of(&key)?,
        };
        let taken = match place {
            Place::Node(node) => take(self, node),
            Place::Own => Ok(Taken::Own),
            Place::Missing => self.wait(&key.run_id, &measure(&key), line),
        };
        self.last = Some((key, place));
        taken
    }

    fn place_of(&self, key: &MeasureKey) -> Result<Place, StoreError> {
        Ok(match newer::run_version(self.writer, &key.run_id)? {
            Some(None) => Place::Own,
            Some(Some(_)) => self
                .writer
                .node_of(key)?
                .map_or(Place::Missing, Place::Node),
            None => Place::Missing,
        })
    }

    fn wait(&self, run_id: &RunId, measure: &str, line: &str) -> Result<Taken, StoreError> {
        let sql = "INSERT OR IGNORE INTO waiting (run_id, measure, line) VALUES (?1, ?2, ?3)";
        self.writer
            .execute(sql, params![run_id.as_str(), measure, line])?;
        Ok(Taken::Waits)
    }

    /// Takes in what waited for this run, or for this measurement of it.
    fn release(&mut self, run_id: &RunId, measure: &str) -> Result<(), StoreError> {
        let writer = self.writer;
        loop {
            let waiting = writer.waiting(run_id, measure)?;
            let Some((last, _)) = waiting.last() else {
                return Ok(());
            };
            writer.execute(
                "DELETE FROM waiting WHERE run_id = ?1 AND measure = ?2 AND id <= ?3",
                params![run_id.as_str(), measure, last],
            )?;
            for (id, line) in &waiting {
                // It was read when it came.
                if let Ok(incoming) = Incoming::read(line.as_bytes()) {
                    let taken = self.take(incoming, line)?;
                    if *id > self.waited && taken != Taken::Waits {
                        self.arrived.push(taken);
                    }
                }
            }
        }
    }

    /// Notes that nodes of a run changed: of several views of its end one is made when the next run comes.
    fn touch(&mut self, run_id: &RunId) -> Result<(), StoreError> {
        if self.touched.as_ref() != Some(run_id) {
            self.settle_touched()?;
            self.touched = Some(run_id.clone());
        }
        Ok(())
    }

    fn settle_touched(&mut self) -> Result<(), StoreError> {
        match self.touched.take() {
            Some(run_id) => views::settle(self.writer, &run_id),
            None => Ok(()),
        }
    }
}

impl Writer<'_> {
    /// Lines that wait for a run or for a measurement, in the order in which they came.
    fn waiting(&self, run_id: &RunId, measure: &str) -> Result<Vec<(i64, String)>, StoreError> {
        let sql =
            "SELECT id, line FROM waiting WHERE run_id = ?1 AND measure = ?2 ORDER BY id LIMIT ?3";
        self.query(sql, params![run_id.as_str(), measure, AT_ONCE], |row| {
            Ok((row.get(0)?, row.get(1)?))
        })
    }
}

/// A measurement of a run as text.
fn measure(key: &MeasureKey) -> String {
    let MeasureKey {
        element,
        attempt,
        node,
        step,
        ..
    } = key;
    format!("{element}.{attempt}/{step}/{node}")
}
