//! Carries records from files into the index.

use super::ask::Answer;
use super::run_state::{keep_verdicts, run_state};
use super::{OTHER_VERSION, Seen, Tracker, replaced};
use crate::app::error::Error;
use crate::app::import::import_lines;
use crate::foundation::clock::now_ms;
use crate::foundation::diagnostic::chain;
use crate::job::RunId;
use crate::record::rundir::RunDir;
use crate::record::store::{Segment, StoreError, Writer};
use crate::record::{NodeRecord, decode_columns};

impl Tracker<'_> {
    /// Takes in runs that came to be without this index: on another machine, or through `dlrun render`.
    pub(crate) fn discover(&mut self) -> Result<(), Error> {
        self.take_in_targets()?;
        let known = self.store.known_runs()?;
        let new: Vec<RunId> = self
            .state
            .runs()?
            .filter(|run_id| !known.contains(run_id))
            .collect();
        self.take_in(&new)?;
        self.take_in_imports()
    }

    /// Rebuilds the index from the files; returns the number of runs.
    pub(crate) fn reindex(&mut self) -> Result<usize, Error> {
        if !self.store.has_own_columns()? {
            let path = self.store.path().to_owned();
            self.store = replaced(self.session, &path, OTHER_VERSION)?;
        }
        self.store.write(|writer| writer.clear())?;
        // Before the runs, which would all change else.
        self.take_in_targets()?;
        let all: Vec<RunId> = self.state.runs()?.collect();
        self.take_in(&all)?;
        self.take_in_imports()?;
        Ok(all.len())
    }

    /// Takes in what kinds of nodes were measured to do, by this machine or another.
    fn take_in_targets(&mut self) -> Result<(), Error> {
        let (mut targets, wrong) = self.state.targets()?;
        for error in wrong {
            self.warn(
                "target",
                &format!(
                    "what a node was measured to do is passed over: {}",
                    chain(&error).join(": ")
                ),
            );
        }
        if targets.is_empty() {
            return Ok(());
        }
        let known = self.store.known_figures()?;
        targets.retain(|target| {
            known
                .get(&target.fingerprint)
                .is_none_or(|known| *known < target.figures.measured_at_ms)
        });
        if targets.is_empty() {
            return Ok(());
        }
        self.store.write(|writer| {
            targets
                .iter()
                .try_for_each(|target| writer.put_figures(&target.host, &target.figures).map(drop))
        })?;
        Ok(())
    }

    /// Takes in what was imported without this index: on another machine, or into an earlier one.
    fn take_in_imports(&mut self) -> Result<(), Error> {
        let imports = self.state.imports()?;
        if imports.is_empty() {
            return Ok(());
        }
        let known = self.store.known_imports()?;
        for name in imports.iter().filter(|name| !known.contains(*name)) {
            let lines = self.state.open_import(name);
            let lines = lines.map_err(|error| chain(&error).join(": "));
            let taken = lines.and_then(|mut lines| {
                let import = |writer: &Writer<'_>| {
                    let counts = import_lines(&mut lines, None, writer, None)?;
                    writer.note_import(name, now_ms(), counts.lines)?;
                    Ok(counts.wrong)
                };
                let taken = self.store.write(import);
                taken.map_err(|error: Error| error.message())
            });
            match taken {
                Ok(0) => {}
                Ok(wrong) => self.warn(
                    "import",
                    &format!("{wrong} invalid lines of import {name} are skipped"),
                ),
                Err(why) => self.warn("import", &format!("import {name} is skipped: {why}")),
            }
        }
        Ok(())
    }

    fn take_in(&mut self, run_ids: &[RunId]) -> Result<(), Error> {
        let state = &self.state;
        // A few hundred runs a transaction: quick, and an interruption loses little.
        for some in run_ids.chunks(500) {
            self.store.write(|writer| {
                for run_id in some {
                    let Ok(run) = state.run(run_id) else { continue };
                    let Ok(record) = run.read_run() else { continue };
                    writer.forget_imported(run_id)?;
                    writer.upsert_run(&record)?;
                    ingest(writer, &run, true)?;
                    let looked = run_state(&run, record, &Answer::default(), Vec::new(), false);
                    if let Ok((tracked, changed)) = looked {
                        writer.set_elements(run_id, &changed)?;
                        writer.set_status(run_id, &tracked.status)?;
                    }
                }
                Ok::<(), StoreError>(())
            })?;
        }
        Ok(())
    }

    /// Takes runs into the index with what they measured: all of it where they are over, without the series where they go
    /// on and the measurements are `wanted`.
    /// False where the index cannot be written.
    pub(super) fn take_in_seen(&mut self, seen: &[Seen], wanted: bool) -> bool {
        if seen.is_empty() {
            return true;
        }
        for Seen {
            run,
            tracked,
            entries,
            ..
        } in seen
        {
            keep_verdicts(run, tracked, entries);
        }
        let news: Vec<bool> = seen.iter().map(|seen| self.is_news(seen)).collect();
        let written = self.store.write(|writer| {
            for (seen, is_news) in seen.iter().zip(news) {
                let (run, status) = (&seen.run, &seen.tracked.status);
                writer.upsert_run(&seen.tracked.record)?;
                let over = seen.grown || status.state.is_final();
                let continues = seen.tracked.reading.outcome.attempt.is_some();
                // A run that is over and was taken in is not read again. The starts of one that continues count together.
                if is_news && (wanted || over || continues) {
                    // The series of a run that is still running grows.
                    ingest(writer, run, over)?;
                }
                writer.set_elements(run.run_id(), &seen.changed)?;
                writer.set_status(run.run_id(), status)?;
            }
            Ok::<(), StoreError>(())
        });
        if let Err(error) = &written {
            self.warn(
                "index",
                &format!(
                    "the index was not brought up to date: {}",
                    chain(error).join(": ")
                ),
            );
        }
        written.is_ok()
    }

    fn is_news(&self, seen: &Seen) -> bool {
        if seen.grown {
            return true;
        }
        let status = &seen.tracked.status;
        let known = self.store.run(seen.run.run_id()).ok().flatten();
        known.is_none_or(|known| known.status != *status || !status.state.is_final())
    }
}

/// Takes what a run's files hold into the index, with or without the series.
fn ingest(writer: &Writer<'_>, run: &RunDir, series: bool) -> Result<(), StoreError> {
    for attempt in run.attempts().unwrap_or_default() {
        let reading = run.outcome(attempt);
        writer.ingest_attempt(
            run.run_id(),
            attempt.element,
            attempt.attempt,
            &reading.outcome,
        )?;
        for node in reading.outcome.nodes.iter().filter(|_| series) {
            ingest_segments(writer, run, node)?;
        }
    }
    Ok(())
}

/// Segments never change. A damaged one is passed over; the file stays. Only its times matter here, and only they are decoded.
fn ingest_segments(writer: &Writer<'_>, run: &RunDir, node: &NodeRecord) -> Result<(), StoreError> {
    let Ok(dir) = run.node_dir(&node.key) else {
        return Ok(());
    };
    for seq in dir.segments().unwrap_or_default() {
        let Ok(bytes) = dir.read_segment(seq) else {
            continue;
        };
        let Ok(columns) = decode_columns(&bytes, |_| false) else {
            continue;
        };
        let (Some(first), Some(last)) = (columns.at_ms.first(), columns.at_ms.last()) else {
            continue;
        };
        let samples = u32::try_from(columns.at_ms.len()).unwrap_or(u32::MAX);
        let segment = Segment {
            seq,
            t0_ms: *first,
            t1_ms: *last,
            samples,
            bytes: &bytes,
        };
        writer.ingest_segment(&node.key, segment)?;
    }
    Ok(())
}
