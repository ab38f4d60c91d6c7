//! Reads the file of events behind the program, whatever becomes of the file: emptied, replaced, removed, grown to
//! gigabytes, or another kind of thing in its place. Nothing here blocks.

use std::fs::File;
use std::io;
use std::os::fd::{AsFd, BorrowedFd};
use std::os::unix::fs::{FileExt, MetadataExt};
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use nix::errno::Errno;
use nix::fcntl::{AtFlags, OFlag, open, openat};
use nix::sys::inotify::{AddWatchFlags, Inotify};
use nix::sys::stat::{FileStat, Mode, SFlag, fstatat};

use crate::node::supervise::output::notices_of;
use crate::observe::timing::EventLog;
use crate::record::{Missing, Progress};

/// Bytes read at one go: with the pause between two goes that is 50 MB/s at most, where a program writes without end.
const PORTION: usize = 1 << 20;
/// How long the rest of the file is read once the command is over, or by a watcher that takes over.
const LAST_READ: Duration = Duration::from_secs(2);
/// `O_NONBLOCK`, so that a pipe put in the file's place does not hang us.
const OPEN_FILE: OFlag = OFlag::O_RDONLY
    .union(OFlag::O_NOFOLLOW)
    .union(OFlag::O_NONBLOCK)
    .union(OFlag::O_CLOEXEC);

/// The file of events under watch.
pub(crate) struct EventFile {
    /// Its directory: what has its name is found even where the directory's path leads elsewhere by now.
    dir: File,
    path: PathBuf,
    opened: Option<Opened>,
    changes: Option<Inotify>,
    log: EventLog,
    buffer: Vec<u8>,
    /// More is there than was read.
    is_behind: bool,
    trouble: Option<String>,
}

struct Opened {
    file: File,
    /// Device and inode.
    identity: (u64, u64),
    offset: u64,
}

impl EventFile {
    /// Opens the file. What is in it already (a watcher that takes over) is read without times.
    pub(crate) fn open(path: &Path, resumes: bool) -> io::Result<Self> {
        let parent = path.parent().ok_or(io::ErrorKind::NotFound)?;
        let flags = OFlag::O_RDONLY | OFlag::O_DIRECTORY | OFlag::O_NOFOLLOW | OFlag::O_CLOEXEC;
        let dir = File::from(open(parent, flags, Mode::empty())?);
        let mut events = Self {
            dir,
            path: path.to_owned(),
            opened: None,
            changes: None,
            log: EventLog::default(),
            buffer: vec![0; 64 << 10],
            is_behind: false,
            trouble: None,
        };
        if resumes {
            events.read_rest(None);
        }
        Ok(events)
    }

    /// Has the kernel say what happens to the file. The directory is watched: one word for what is written and for what is
    /// replaced.
    pub(crate) fn listen(&mut self) {
        let flags =
            AddWatchFlags::IN_MODIFY | AddWatchFlags::IN_CREATE | AddWatchFlags::IN_MOVED_TO;
        self.changes = self.path.parent().and_then(|dir| notices_of(dir, flags));
    }

    /// A descriptor that is readable when the file has grown or another took its place.
    pub(crate) fn changes(&self) -> Option<BorrowedFd<'_>> {
        self.changes.as_ref().map(|changes| changes.as_fd())
    }

    /// How much of the present file was read, in bytes.
    pub(crate) fn offset(&self) -> u64 {
        self.opened.as_ref().map_or(0, |opened| opened.offset)
    }

    /// True where more is to be read without word from the kernel.
    pub(crate) fn is_behind(&self) -> bool {
        self.is_behind
    }

    /// Reads what is new, at most a portion.
    pub(crate) fn read(&mut self, now_ms: u64) {
        if let Some(changes) = &self.changes {
            let _ = changes.read_events();
        }
        self.portion(Some(now_ms));
    }

    /// Reads all that is left, as far as the time goes; the command has ended.
    pub(crate) fn finish(&mut self, now_ms: u64) {
        self.read_rest(Some(now_ms));
        if self.is_behind {
            let why = "DLRUN_EVENTS held more than could be read after the command's end";
            self.trouble.get_or_insert_with(|| why.to_owned());
        }
        self.log.finish(Some(now_ms));
    }

    fn read_rest(&mut self, at_ms: Option<u64>) {
        let begun = Instant::now();
        loop {
            self.portion(at_ms);
            if !self.is_behind || begun.elapsed() >= LAST_READ {
                return;
            }
        }
    }

    /// What the program reported, over what was read from its output.
    pub(crate) fn over(&self, output: Progress) -> Progress {
        self.log.over(output)
    }

    /// What of the events is missing.
    pub(crate) fn missing(&self) -> impl Iterator<Item = Missing> {
        let troubles = [self.trouble.clone(), self.log.trouble()];
        troubles
            .into_iter()
            .flatten()
            .map(|why| Missing::new("events", why))
    }

    fn portion(&mut self, at_ms: Option<u64>) {
        let mut left = PORTION;
        self.drain(at_ms, &mut left);
        // The old file first: what was written to it before it was replaced counts.
        if left > 0 && self.is_replaced() {
            self.reopen();
            self.drain(at_ms, &mut left);
        }
        self.is_behind = left == 0;
    }

    /// Reads the open file until its end or until nothing is `left` of the portion.
    fn drain(&mut self, at_ms: Option<u64>, left: &mut usize) {
        let Some(Opened { file, offset, .. }) = &mut self.opened else {
            return;
        };
        while *left > 0 {
            let most = self.buffer.len().min(*left);
            match file.read_at(&mut self.buffer[..most], *offset) {
                Ok(0) if file.metadata().is_ok_and(|now| now.len() < *offset) => {
                    // Somebody emptied it.
                    self.log.drop_partial_line();
                    *offset = 0;
                }
                Ok(0) => return,
                Ok(read) => {
                    self.log.feed(&self.buffer[..read], at_ms);
                    *offset += read as u64;
                    *left -= read;
                }
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                Err(error) => {
                    self.trouble
                        .get_or_insert_with(|| format!("DLRUN_EVENTS cannot be read: {error}"));
                    return;
                }
            }
        }
    }

    /// What has the file's name now.
    fn stat_name(&self) -> Result<FileStat, Errno> {
        fstatat(&self.dir, self.name(), AtFlags::AT_SYMLINK_NOFOLLOW)
    }

    fn name(&self) -> &Path {
        Path::new(self.path.file_name().unwrap_or_default())
    }

    /// Whether something else than the open file is there. While nothing does, the open one continues.
    fn is_replaced(&self) -> bool {
        let known = self.opened.as_ref().map(|opened| opened.identity);
        self.stat_name()
            .is_ok_and(|now| known != Some((now.st_dev, now.st_ino)))
    }

    fn reopen(&mut self) {
        match self.try_open() {
            Ok(opened) => {
                self.log.drop_partial_line();
                self.opened = Some(opened);
            }
            Err(why) => {
                self.trouble
                    .get_or_insert_with(|| format!("DLRUN_EVENTS cannot be read: {why}"));
            }
        }
    }

    fn try_open(&self) -> Result<Opened, String> {
        let is_regular = |mode| SFlag::from_bits_truncate(mode) & SFlag::S_IFMT == SFlag::S_IFREG;
        let other = || "something else than a regular file was put in its place".to_owned();
        // Looked at first: opening a pipe would wake a process that wants to write to it.
        if !self
            .stat_name()
            .is_ok_and(|found| is_regular(found.st_mode))
        {
            return Err(other());
        }
        let found = openat(&self.dir, self.name(), OPEN_FILE, Mode::empty());
        let file = File::from(found.map_err(|errno| io::Error::from(errno).to_string())?);
        let metadata = file.metadata().map_err(|error| error.to_string())?;
        if !is_regular(metadata.mode()) {
            return Err(other());
        }
        Ok(Opened {
            file,
            identity: (metadata.dev(), metadata.ino()),
            offset: 0,
        })
    }
}

#[cfg(test)]
mod tests {
    use std::fs::{self, OpenOptions};
    use std::io::Write;
    use std::os::unix::fs::symlink;

    use super::*;

    struct Place {
        dir: tempfile::TempDir,
        path: PathBuf,
    }

    impl Place {
        fn new() -> Self {
            let dir = tempfile::tempdir().expect("a directory");
            let path = dir.path().join("events.jsonl");
            fs::write(&path, "").expect("ours");
            Self { dir, path }
        }

        fn open(&self) -> EventFile {
            EventFile::open(&self.path, false).expect("it is there")
        }

        fn append(&self, text: &str) {
            let file = OpenOptions::new()
                .create(true)
                .append(true)
                .open(&self.path);
            file.and_then(|mut file| file.write_all(text.as_bytes()))
                .expect("ours");
        }
    }

    fn epochs(events: &EventFile) -> Vec<u64> {
        events
            .over(Progress::default())
            .epochs
            .iter()
            .map(|epoch| epoch.epoch)
            .collect()
    }

    fn troubles(events: &EventFile) -> Vec<String> {
        events.missing().map(|missing| missing.why).collect()
    }

    #[test]
    fn a_file_that_grows_is_emptied_and_is_replaced_is_read_on() {
        let place = Place::new();
        let mut events = place.open();
        place.append("{\"epoch\":1}\n{\"epoch\":2");
        events.read(1000);
        assert_eq!(epochs(&events), [1]);
        place.append("}\n");
        events.read(2000);
        place.append("{\"epoch\":3,\"se");
        events.read(2500);
        fs::write(&place.path, "{\"epoch\":3}\n").expect("ours");
        events.read(3000);
        assert_eq!(epochs(&events), [1, 2, 3]);
        // The last line of the old file counts, though nobody looked in between.
        place.append("{\"epoch\":4}\n");
        fs::write(place.dir.path().join("new"), "{\"epoch\":5}\n").expect("ours");
        fs::rename(place.dir.path().join("new"), &place.path).expect("ours");
        events.read(5000);
        fs::remove_file(&place.path).expect("ours");
        events.read(5500);
        place.append("{\"epoch\":6}\n");
        events.finish(6000);
        assert_eq!(
            (epochs(&events), troubles(&events)),
            (vec![1, 2, 3, 4, 5, 6], vec![])
        );
    }

    #[test]
    fn the_kernel_tells_of_lines_and_of_another_file() {
        let place = Place::new();
        let mut events = place.open();
        events.listen();
        let told = |events: &EventFile| {
            let changes = events.changes().expect("inotify");
            let mut fds = [nix::poll::PollFd::new(
                changes,
                nix::poll::PollFlags::POLLIN,
            )];
            nix::poll::poll(&mut fds, nix::poll::PollTimeout::ZERO).expect("poll") == 1
        };
        assert!(!told(&events));
        place.append("{\"epoch\":1}\n");
        assert!(told(&events));
        events.read(1000);
        assert!(!told(&events));
        fs::remove_file(&place.path).expect("ours");
        place.append("");
        assert!(told(&events));
    }

    #[test]
    fn pipes_links_and_directories_in_its_place_hold_nobody_up() {
        let place = Place::new();
        let secret = place.dir.path().join("secret");
        fs::write(&secret, "{\"epoch\":99}\n").expect("ours");
        let mut events = place.open();
        place.append("{\"epoch\":1}\n");
        events.read(1000);
        let puts: [&dyn Fn(); 3] = [
            &|| nix::unistd::mkfifo(&place.path, Mode::S_IRWXU).expect("ours"),
            &|| symlink(&secret, &place.path).expect("ours"),
            &|| fs::create_dir(&place.path).expect("ours"),
        ];
        for put in puts {
            let _ = fs::remove_file(&place.path);
            put();
            events.read(2000);
            assert_eq!(epochs(&events), [1]);
        }
        fs::remove_dir(&place.path).expect("ours");
        place.append("{\"epoch\":2}\n");
        events.finish(3000);
        assert_eq!(epochs(&events), [1, 2]);
        assert!(
            troubles(&events)[0].contains("something else than a regular file"),
            "{:?}",
            troubles(&events)
        );
    }

    #[test]
    fn much_is_read_in_portions_and_holes_are_skipped() {
        let place = Place::new();
        let mut events = place.open();
        let file = OpenOptions::new()
            .write(true)
            .open(&place.path)
            .expect("ours");
        file.set_len(3 * PORTION as u64).expect("a hole");
        place.append("{\"epoch\":1}\n{\"epoch\":2}\n");
        events.read(1000);
        assert!(events.is_behind() && epochs(&events).is_empty());
        events.finish(2000);
        assert!(!events.is_behind());
        assert_eq!((epochs(&events), troubles(&events)), (vec![1, 2], vec![]));
    }

    #[test]
    fn a_watcher_that_takes_over_reads_from_the_beginning() {
        let place = Place::new();
        place.append("{\"epoch\":1,\"time\":1000.5}\n{\"epoch\":2}\n");
        let events = EventFile::open(&place.path, true).expect("it is there");
        let progress = events.over(Progress::default());
        let ended: Vec<_> = progress
            .epochs
            .iter()
            .map(|epoch| epoch.ended_at_ms)
            .collect();
        assert_eq!(ended, [Some(1_000_500), None]);
    }
}
