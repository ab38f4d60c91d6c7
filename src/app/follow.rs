//! `dlrun logs -f`: what comes into the files of a run until it is over, through requeues and elements as they start.

use std::collections::{BTreeMap, BTreeSet};
use std::fs::File;
use std::os::unix::fs::FileExt;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use crate::app::error::Error;
use crate::app::output_files::{OutputFile, Wanted, outputs};
use crate::app::session::Session;
use crate::app::tail::tail;
use crate::app::track::{Tracked, Tracker};

/// Pause between two looks into the files.
const LOOK_PAUSE: Duration = Duration::from_millis(200);
/// Pauses between two questions for the state of the run.
const FIRST_PAUSE: Duration = Duration::from_secs(1);
const LONGEST_PAUSE: Duration = Duration::from_secs(15);

/// The files of a run that are followed.
pub(crate) struct Follower<'a> {
    session: &'a Session,
    wanted: Wanted<'a>,
    lines: Option<usize>,
    open: BTreeMap<PathBuf, Followed>,
    /// Elements that were over before.
    past: BTreeSet<u32>,
    /// True where lines show whose they are from the first on: several elements may run at once.
    labelled: bool,
}

/// One followed file.
struct Followed {
    file: OutputFile,
    offset: u64,
    /// Bytes of a line that has not ended; only with several files, whose lines must not mix.
    partial: Vec<u8>,
    /// It was printed to its end, unless its element is requeued.
    is_over: bool,
}

impl<'a> Follower<'a> {
    /// `lines`: only so many of what is there already. Of an array that is still running, elements that are over are left out
    /// unless they are wanted by name.
    pub(crate) fn new(
        session: &'a Session,
        wanted: Wanted<'a>,
        lines: Option<usize>,
        tracked: &Tracked,
    ) -> Self {
        let is_past = wanted.elements.is_none() && !tracked.status.state.is_final();
        let past = tracked
            .elements
            .iter()
            .filter(|element| is_past && element.status.state.is_final());
        let past: BTreeSet<u32> = past.map(|element| element.element).collect();
        if !past.is_empty() {
            session.note(&format!(
                "{} elements are over already; `dlrun logs` prints them",
                past.len()
            ));
        }
        let shown = wanted
            .elements
            .map_or(tracked.elements.len() as u64, |some| some.count());
        Self {
            session,
            wanted,
            lines,
            open: BTreeMap::new(),
            past,
            labelled: shown > 1,
        }
    }

    /// Goes on until the run is over.
    pub(crate) fn run(
        mut self,
        tracker: &mut Tracker<'_>,
        mut tracked: Tracked,
    ) -> Result<(), Error> {
        let run = tracker.state.run(&tracked.record.run_id)?;
        let mut pause = FIRST_PAUSE;
        let mut look_at = Instant::now() + pause;
        let mut files = outputs(&run, &tracked, self.wanted)?;
        loop {
            self.take_up(&files);
            self.copy()?;
            if tracked.status.state.is_final() {
                return self
                    .open
                    .values_mut()
                    .try_for_each(|followed| followed.finish(self.session));
            }
            self.finish_those_over(&tracked)?;
            std::thread::sleep(LOOK_PAUSE);
            if Instant::now() >= look_at {
                tracked = tracker.look_at(&tracked.record.run_id, false)?;
                files = outputs(&run, &tracked, self.wanted).unwrap_or(files);
                pause = pause.mul_f64(1.3).min(LONGEST_PAUSE);
                look_at = Instant::now() + pause;
            }
        }
    }

    fn take_up(&mut self, files: &[OutputFile]) {
        for file in files {
            let is_past = file.element.is_some_and(|one| self.past.contains(&one));
            if is_past || self.open.contains_key(&file.path) || !file.path.exists() {
                continue;
            }
            let followed = Followed {
                file: file.clone(),
                offset: self.lines.map_or(0, |lines| before_last(&file.path, lines)),
                partial: Vec::new(),
                is_over: false,
            };
            self.open.insert(file.path.clone(), followed);
        }
    }

    fn copy(&mut self) -> Result<(), Error> {
        let labelled = self.labelled || self.open.len() > 1;
        let mut running = self.open.values_mut().filter(|file| !file.is_over);
        running.try_for_each(|followed| followed.copy(self.session, labelled))
    }

    /// Elements that were over when last looked at have been copied since; one that is requeued continues in the same file.
    fn finish_those_over(&mut self, tracked: &Tracked) -> Result<(), Error> {
        let over = tracked
            .elements
            .iter()
            .filter(|one| one.status.state.is_final());
        let over: BTreeSet<u32> = over.map(|one| one.element).collect();
        self.past.retain(|element| over.contains(element));
        for followed in self.open.values_mut() {
            let is_over = followed.file.element.is_some_and(|one| over.contains(&one));
            if is_over && !followed.is_over {
                followed.finish(self.session)?;
            }
            followed.is_over = is_over;
        }
        Ok(())
    }
}

/// Where the last lines of a file begin.
fn before_last(path: &Path, lines: usize) -> u64 {
    let length = path.metadata().map_or(0, |metadata| metadata.len());
    let shown = tail(path, Some(lines), u64::MAX).map_or(0, |bytes| bytes.len() as u64);
    length - shown.min(length)
}

impl Followed {
    fn copy(&mut self, session: &Session, labelled: bool) -> Result<(), Error> {
        let Ok(file) = File::open(&self.file.path) else {
            return Ok(());
        };
        if file
            .metadata()
            .is_ok_and(|metadata| metadata.len() < self.offset)
        {
            self.offset = 0;
        }
        let mut buffer = vec![0; 64 << 10];
        while let Ok(read @ 1..) = file.read_at(&mut buffer, self.offset) {
            self.offset += read as u64;
            if labelled {
                self.partial.extend_from_slice(&buffer[..read]);
                self.print_lines(session)?;
            } else {
                session.output.raw(&buffer[..read])?;
            }
        }
        Ok(())
    }

    /// Prints a last line that never ended.
    fn finish(&mut self, session: &Session) -> Result<(), Error> {
        if !self.partial.is_empty() {
            self.partial.push(b'\n');
        }
        self.print_lines(session)
    }

    fn print_lines(&mut self, session: &Session) -> Result<(), Error> {
        let prefix = self.file.prefix();
        while let Some(end) = self.partial.iter().position(|byte| *byte == b'\n') {
            let line: Vec<u8> = self.partial.drain(..=end).collect();
            session.output.raw(&[prefix.as_bytes(), &line].concat())?;
        }
        Ok(())
    }
}
