//! Sequential reading past the page cache, of a file that is written for it.
//!
//! The file has no name, or loses it as soon as it is there: nothing is left behind, whoever is killed. Its content cannot be
//! compressed. What a hypervisor, a disk or a file server caches is not passed by.

use std::fs::File;
use std::io;
use std::os::fd::AsFd;
use std::os::unix::fs::FileExt;
use std::path::Path;
use std::sync::mpsc;
use std::time::{Duration, Instant};

use nix::errno::Errno;
use nix::fcntl::{FcntlArg, OFlag, PosixFadviseAdvice, fcntl, open, posix_fadvise};
use nix::sys::resource::{Resource, getrlimit};
use nix::sys::stat::Mode;
use nix::sys::statvfs::fstatvfs;
use nix::unistd::unlink;

use crate::foundation::filesystem::FileSystem;
use crate::record::{DiskBench, PastCache, Spread};

/// Bytes that are written and read at once; whole pages.
const BLOCK: usize = 4 << 20;
/// What `O_DIRECT` wants of addresses, lengths and offsets on any file system.
const ALIGNMENT: usize = 4096;
/// A shorter file says nothing.
const FILE_MIN: u64 = 16 << 20;
/// Of the free space at most this part is taken.
const FREE_PART: u64 = 10;
/// The file is as long as what is written in this time, at most.
const WRITING: Duration = Duration::from_secs(4);
/// A reading ends after this time.
const READING: Duration = Duration::from_secs(3);
const READINGS: usize = 3;
/// So much is written before it is brought to the disk: what waits in memory would make the time for writing longer than it may be.
const SYNCED: u64 = 64 << 20;
/// A file system that does not answer for so long is given up.
const PATIENCE: Duration = Duration::from_secs(18);

/// Measures in `directory`, with a file of `longest` bytes at most.
///
/// # Errors
/// Why nothing was measured, in words.
pub(super) fn measure(directory: &Path, longest: u64) -> Result<DiskBench, String> {
    let (sender, receiver) = mpsc::channel();
    let own = directory.to_owned();
    // A file server that is gone holds whoever asks it, perhaps for ever.
    let started = std::thread::Builder::new().name("bench-disk".to_owned());
    let started = started.spawn(move || sender.send(measure_here(&own, longest)));
    let shown = directory.display();
    started.map_err(|error| format!("reading from {shown} was not measured: {error}"))?;
    match receiver.recv_timeout(PATIENCE) {
        Ok(found) => found.map_err(|why| format!("reading from {shown} was not measured: {why}")),
        Err(_) => Err(format!(
            "reading from {shown} was not measured: its file system gave no answer within {} s",
            PATIENCE.as_secs()
        )),
    }
}

fn measure_here(directory: &Path, longest: u64) -> Result<DiskBench, String> {
    let text = |error: io::Error| error.to_string();
    let file = nameless(directory).map_err(text)?;
    let file_system = FileSystem::of(&file).map_err(text)?.name;
    if matches!(file_system, Some("tmpfs" | "ramfs")) {
        return Err("it is memory, and no disk".to_owned());
    }
    let longest = room(&file, longest).map_err(text)?;
    let mut block = Block::new();
    let file_bytes = written(&file, longest, &mut block).map_err(text)?;
    if file_bytes < FILE_MIN {
        let needed = FILE_MIN >> 20;
        return Err(format!(
            "there is too little room: {needed} MiB are needed, and a tenth of what is free is taken"
        ));
    }
    let past_cache = past_cache(&file);
    let mut rates = Vec::with_capacity(READINGS);
    for _ in 0..READINGS {
        if past_cache == PastCache::Advised {
            posix_fadvise(&file, 0, 0, PosixFadviseAdvice::POSIX_FADV_DONTNEED)
                .map_err(|errno| text(errno.into()))?;
        }
        rates.push(reading(&file, file_bytes, &mut block).map_err(text)?);
    }
    let mb_per_second = Spread::of(&rates).ok_or("reading took no time")?;
    let directory = directory.to_string_lossy().into_owned();
    let file_system = file_system.map(str::to_owned);
    Ok(DiskBench {
        mb_per_second,
        file_bytes,
        past_cache,
        file_system,
        directory,
    })
}

/// A file that has no name; where the file system makes none such, one that loses its name at once.
fn nameless(directory: &Path) -> io::Result<File> {
    let mode = Mode::S_IRUSR | Mode::S_IWUSR;
    match open(
        directory,
        OFlag::O_TMPFILE | OFlag::O_RDWR | OFlag::O_CLOEXEC,
        mode,
    ) {
        Ok(file) => Ok(File::from(file)),
        // What NFS and old kernels say to the flag (`open(2)`).
        Err(Errno::EOPNOTSUPP | Errno::EISDIR | Errno::EINVAL) => {
            let random = getrandom::u64().map_err(io::Error::other)?;
            let path = directory.join(format!(".dlrun-bench.{random:016x}"));
            let flags = OFlag::O_CREAT
                | OFlag::O_EXCL
                | OFlag::O_NOFOLLOW
                | OFlag::O_RDWR
                | OFlag::O_CLOEXEC;
            let file = open(&path, flags, mode)?;
            unlink(&path)?;
            Ok(File::from(file))
        }
        Err(errno) => Err(errno.into()),
    }
}

/// How long the file may become: whole blocks, within the free space and the limit on files of this process (beyond it a
/// signal would end it).
fn room(file: &File, longest: u64) -> io::Result<u64> {
    let about = fstatvfs(file)?;
    let free = about
        .blocks_available()
        .saturating_mul(about.fragment_size());
    let (limit, _) = getrlimit(Resource::RLIMIT_FSIZE)?;
    let block = BLOCK as u64;
    Ok(longest.min(free / FREE_PART).min(limit) / block * block)
}

/// Writes until the file is long enough, time is over or the disk is full, and has it all on the disk.
fn written(file: &File, longest: u64, block: &mut Block) -> io::Result<u64> {
    let (mut length, began) = (0_u64, Instant::now());
    while length < longest && (began.elapsed() < WRITING || length < FILE_MIN) {
        block.scramble(length);
        match file.write_all_at(block.bytes(), length) {
            Ok(()) => length += BLOCK as u64,
            Err(error) if is_full(&error) => break,
            Err(error) => return Err(error),
        }
        if length % SYNCED == 0 && synced(file)?.is_none() {
            return Ok(0);
        }
    }
    file.set_len(length)?;
    Ok(synced(file)?.map_or(0, |()| length))
}

/// `None` where the disk is full: network file systems tell it no earlier.
fn synced(file: &File) -> io::Result<Option<()>> {
    match file.sync_all() {
        Err(error) if is_full(&error) => Ok(None),
        other => other.map(Some),
    }
}

fn is_full(error: &io::Error) -> bool {
    matches!(
        error.kind(),
        io::ErrorKind::StorageFull | io::ErrorKind::QuotaExceeded | io::ErrorKind::FileTooLarge
    )
}

/// Has the file read past the page cache from now on. That the flag is taken is not enough: some say so at the first reading.
fn past_cache(file: &File) -> PastCache {
    let set = |flags: OFlag| fcntl(file.as_fd(), FcntlArg::F_SETFL(flags)).is_ok();
    let flags = fcntl(file.as_fd(), FcntlArg::F_GETFL)
        .map(OFlag::from_bits_truncate)
        .unwrap_or(OFlag::empty());
    if set(flags | OFlag::O_DIRECT) {
        if file.read_exact_at(Block::new().bytes_mut(), 0).is_ok() {
            return PastCache::Direct;
        }
        set(flags);
    }
    PastCache::Advised
}

/// Reads the file from its beginning; its rate in 10^6 bytes per second.
fn reading(file: &File, length: u64, block: &mut Block) -> io::Result<f64> {
    let (mut at, began) = (0_u64, Instant::now());
    while at < length && began.elapsed() < READING {
        file.read_exact_at(block.bytes_mut(), at)?;
        at += BLOCK as u64;
    }
    #[expect(clippy::cast_precision_loss, reason = "no file here has 2^53 bytes")]
    let read = at as f64;
    Ok(read / began.elapsed().as_secs_f64() / 1e6)
}

/// Aligned memory of one block.
struct Block {
    memory: Vec<u8>,
    begin: usize,
}

impl Block {
    fn new() -> Self {
        let memory = vec![0; BLOCK + ALIGNMENT];
        let begin = memory.as_ptr().align_offset(ALIGNMENT).min(ALIGNMENT);
        Self { memory, begin }
    }

    fn bytes(&self) -> &[u8] {
        &self.memory[self.begin..self.begin + BLOCK]
    }

    fn bytes_mut(&mut self) -> &mut [u8] {
        &mut self.memory[self.begin..self.begin + BLOCK]
    }

    /// Fills it with what no file system compresses, other bytes for each seed (xorshift64).
    fn scramble(&mut self, seed: u64) {
        let mut state = seed.wrapping_add(0x9e37_79b9_7f4a_7c15) | 1;
        for word in self.bytes_mut().chunks_exact_mut(8) {
            state ^= state << 13;
            state ^= state >> 7;
            state ^= state << 17;
            word.copy_from_slice(&state.to_le_bytes());
        }
    }
}

#[cfg(test)]
mod tests {
    use std::fs;

    use super::*;

    #[test]
    fn reading_is_measured_and_nothing_is_left() {
        let tmp = tempfile::tempdir().expect("a directory");
        match measure(tmp.path(), 20 << 20) {
            Ok(disk) => {
                assert!(
                    disk.mb_per_second.median > 0.0 && disk.mb_per_second.best.is_finite(),
                    "{disk:?}"
                );
                assert_eq!((disk.file_bytes, disk.mb_per_second.repeats), (20 << 20, 3));
                assert_eq!(Path::new(&disk.directory), tmp.path());
            }
            Err(why) => assert!(
                why.contains("it is memory") || why.contains("too little room"),
                "{why}"
            ),
        }
        assert_eq!(fs::read_dir(tmp.path()).expect("ours").count(), 0);
    }

    #[test]
    fn where_nothing_can_be_measured_it_is_said() {
        let why = measure(Path::new("/nonexistent/place"), 1 << 30).expect_err("no directory");
        assert!(
            why.contains("/nonexistent/place") && why.contains("No such file"),
            "{why}"
        );
        let tmp = tempfile::tempdir().expect("a directory");
        let why = measure(tmp.path(), FILE_MIN - 1).expect_err("too short");
        assert!(
            why.contains("are needed") || why.contains("it is memory"),
            "{why}"
        );
        let why = measure(Path::new("/dev/shm"), 1 << 30).expect_err("memory");
        assert!(
            why.contains("it is memory") || why.contains("No such file"),
            "{why}"
        );
    }

    #[test]
    fn blocks_are_aligned_and_differ() {
        let (mut one, mut other) = (Block::new(), Block::new());
        assert_eq!(one.bytes().as_ptr().align_offset(ALIGNMENT), 0);
        one.scramble(0);
        other.scramble(BLOCK as u64);
        assert!(one.bytes() != other.bytes() && one.bytes()[..8] != one.bytes()[8..16]);
    }

    #[test]
    fn a_file_without_o_tmpfile_loses_its_name() {
        let tmp = tempfile::tempdir().expect("a directory");
        let file = nameless(tmp.path()).expect("made");
        file.write_all_at(b"x", 0).expect("written");
        assert_eq!(fs::read_dir(tmp.path()).expect("ours").count(), 0);
    }
}
