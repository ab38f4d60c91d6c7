//! One process as `/proc` shows it: readers of `stat`, `io` and `status` (`proc(5)`).
//!
//! `stat` is one line, `1234 (python3 (x) y) S 1 1234 1234 0 -1 4194304 …`: the name may hold spaces and brackets, so the
//! fields are counted from the last `)`. A file is read by one call into one buffer; the kernel writes each of them whole.

use std::fs::File;
use std::io;
use std::ops::RangeInclusive;
use std::os::unix::fs::FileExt;
use std::path::{Path, PathBuf};
use std::str::FromStr;

use nix::errno::Errno;
use nix::unistd::{SysconfVar, sysconf};

use super::kept::Kept;

/// Kernel thread; `PF_KTHREAD` of the kernel's `include/linux/sched.h`.
const KERNEL_THREAD: u64 = 0x0020_0000;
/// `TASK_COMM_LEN` without its end.
const NAME_BYTES: usize = 15;
/// Behind the name in `stat`, which is up to 63 bytes of a kernel thread; the numbers after it hold no bracket.
const NAME_END_MAX: usize = 96;
/// Longer than any `stat`, and than `status` up to the lines that are read.
const BUFFER_BYTES: usize = 8192;
/// Longer than any `stat`: 52 numbers of at most 20 digits, and a name.
const STAT_BYTES: usize = 2048;

/// What is read of `/proc/PID/stat`, in the kernel's units: clock ticks and pages.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(super) struct Stat {
    pub(super) pid: u32,
    pub(super) name: Name,
    pub(super) state: u8,
    pub(super) parent: u32,
    pub(super) process_group: u32,
    pub(super) session: u32,
    pub(super) is_kernel_thread: bool,
    /// One of the others of a process: no signal says that it ended.
    pub(super) is_thread: bool,
    pub(super) times: CpuTicks,
    /// Of children that ended and were waited for, and of theirs.
    pub(super) children: CpuTicks,
    pub(super) threads: u64,
    pub(super) start_time_ticks: u64,
    pub(super) rss_pages: u64,
}

/// The kernel's short name of a process (`comm`): what the program or the process itself chose, cut to 15 bytes. Names of
/// kernel threads may be longer and are cut here.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(super) struct Name {
    bytes: [u8; NAME_BYTES],
    length: usize,
}

impl Name {
    fn new(name: &[u8]) -> Self {
        let mut bytes = [0; NAME_BYTES];
        let length = name.len().min(NAME_BYTES);
        bytes[..length].copy_from_slice(&name[..length]);
        Self { bytes, length }
    }

    pub(super) fn as_bytes(&self) -> &[u8] {
        self.bytes.get(..self.length).unwrap_or_default()
    }

    /// As text. A process may give itself any bytes: what a terminal would obey or not show becomes `?`.
    pub(super) fn to_text(self) -> String {
        let text = String::from_utf8_lossy(self.as_bytes());
        let is_odd = |c: char| c.is_control() || c == char::REPLACEMENT_CHARACTER;
        text.chars()
            .map(|c| if is_odd(c) { '?' } else { c })
            .collect()
    }
}

/// CPU times in clock ticks.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(super) struct CpuTicks {
    pub(super) user: u64,
    pub(super) system: u64,
}

impl CpuTicks {
    pub(super) fn add(&mut self, other: Self) {
        self.user = self.user.saturating_add(other.user);
        self.system = self.system.saturating_add(other.system);
    }
}

impl Stat {
    /// True for a process that ended and was not waited for yet. The first thread of a living process may have ended.
    pub(super) fn is_ended(&self) -> bool {
        matches!(self.state, b'Z' | b'X' | b'x') && self.threads <= 1
    }

    /// Its own times and those of the children it waited for.
    pub(super) fn times_with_children(&self) -> CpuTicks {
        let mut times = self.times;
        times.add(self.children);
        times
    }
}

/// Reads a line of `/proc/PID/stat`; `None` for anything else. Fields 1 to 24 of `proc(5)`, and 38.
pub(super) fn parse_stat(text: &[u8]) -> Option<Stat> {
    let open = text.iter().position(|byte| *byte == b'(')?;
    let close = text.get(..NAME_END_MAX.min(text.len()))?;
    let close = close.iter().rposition(|byte| *byte == b')')?;
    let pid = number(text.get(..open)?.trim_ascii())?;
    let name = Name::new(text.get(open + 1..close)?);
    let mut fields = text
        .get(close + 1..)?
        .trim_ascii()
        .split(|byte| *byte == b' ');
    let state = *fields.next()?.first()?;
    let parent = number(fields.next()?)?;
    let process_group = number(fields.next()?)?;
    let session = number(fields.next()?)?;
    let flags: u64 = number(fields.nth(2)?)?;
    let times = CpuTicks {
        user: number(fields.nth(4)?)?,
        system: number(fields.next()?)?,
    };
    let children = CpuTicks {
        user: number(fields.next()?)?,
        system: number(fields.next()?)?,
    };
    let threads = number(fields.nth(2)?)?;
    let start_time_ticks = number(fields.nth(1)?)?;
    let rss_pages = number(fields.nth(1)?)?;
    let is_thread = fields.nth(13) == Some(b"-1");
    Some(Stat {
        pid,
        name,
        state,
        parent,
        process_group,
        session,
        is_kernel_thread: flags & KERNEL_THREAD != 0,
        is_thread,
        times,
        children,
        threads,
        start_time_ticks,
        rss_pages,
    })
}

/// What is read of `/proc/PID/io`: bytes from and to storage, of the process, its threads and the children it waited
/// for. (The kernel adds a child's account to its parent's in `wait_task_zombie`; seen on Linux 6.18: 8 MB written by a
/// child appear in the parent at `wait`, not before.)
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(super) struct Io {
    pub(super) read_bytes: u64,
    pub(super) write_bytes: u64,
}

impl Io {
    pub(super) fn add(&mut self, other: Self) {
        self.read_bytes = self.read_bytes.saturating_add(other.read_bytes);
        self.write_bytes = self.write_bytes.saturating_add(other.write_bytes);
    }

    pub(super) fn since(self, start: Self) -> Self {
        Self {
            read_bytes: self.read_bytes.saturating_sub(start.read_bytes),
            write_bytes: self.write_bytes.saturating_sub(start.write_bytes),
        }
    }
}

fn parse_io(text: &[u8]) -> Option<Io> {
    Some(Io {
        read_bytes: line(text, b"read_bytes:")?,
        write_bytes: line(text, b"write_bytes:")?,
    })
}

/// What `/proc/PID/status` says of a process's memory, in bytes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Held {
    /// `RssShmem`; Linux 4.5 and later. (`shared` of `statm` holds mapped files too.)
    pub(super) shmem_bytes: u64,
    /// `VmHWM`: the most that was resident at once.
    pub(super) peak_bytes: Option<u64>,
}

fn parse_held(text: &[u8]) -> Option<Held> {
    let bytes = |key: &[u8]| line(text, key)?.checked_mul(1024);
    Some(Held {
        shmem_bytes: bytes(b"RssShmem:")?,
        peak_bytes: bytes(b"VmHWM:"),
    })
}

/// The number that follows a key at the start of a line; a unit after it is left.
pub(super) fn line(text: &[u8], key: &[u8]) -> Option<u64> {
    let found = text
        .split(|byte| *byte == b'\n')
        .find_map(|line| line.strip_prefix(key))?;
    number(found.trim_ascii().split(u8::is_ascii_whitespace).next()?)
}

fn number<T: FromStr>(digits: &[u8]) -> Option<T> {
    std::str::from_utf8(digits).ok()?.parse().ok()
}

/// The kernel's units on this machine.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Units {
    pub(super) us_per_tick: u64,
    pub(super) page_bytes: u64,
}

impl Units {
    pub(super) fn of_system() -> Self {
        Self {
            us_per_tick: 1_000_000 / system_value(SysconfVar::CLK_TCK, 100),
            page_bytes: system_value(SysconfVar::PAGE_SIZE, 4096),
        }
    }

    pub(super) fn us(self, ticks: u64) -> u64 {
        ticks.saturating_mul(self.us_per_tick)
    }

    pub(super) fn bytes(self, pages: u64) -> u64 {
        pages.saturating_mul(self.page_bytes)
    }
}

/// A constant of the system, `usual` where it does not say.
fn system_value(name: SysconfVar, usual: u64) -> u64 {
    let value = sysconf(name)
        .ok()
        .flatten()
        .and_then(|value| u64::try_from(value).ok());
    value.filter(|value| *value > 0).unwrap_or(usual)
}

/// A directory that looks like `/proc`, with the buffer its files are read into.
#[derive(Debug)]
pub(super) struct ProcDir {
    path: PathBuf,
    buffer: Vec<u8>,
    /// Only in the kernel's `/proc`: a kept file of another directory would outlive its process.
    keeps_files: bool,
}

/// The file of a process, once it is kept open.
pub(super) type KeptOf = Option<Kept>;

impl ProcDir {
    pub(super) fn new(path: &Path) -> Self {
        Self {
            path: path.to_path_buf(),
            buffer: vec![0; BUFFER_BYTES],
            keeps_files: path == Path::new("/proc"),
        }
    }

    pub(super) fn path(&self) -> &Path {
        &self.path
    }

    /// Replaces `pids` by the processes that exist, zombies included, in order.
    pub(super) fn list(&self, pids: &mut Vec<u32>) -> io::Result<()> {
        pids.clear();
        for entry in std::fs::read_dir(&self.path)? {
            pids.extend(number::<u32>(entry?.file_name().as_encoded_bytes()));
        }
        pids.sort_unstable();
        Ok(())
    }

    /// Adds the processes that have one of `numbers`. Threads have such numbers too, and are left out.
    pub(super) fn list_new(&mut self, numbers: RangeInclusive<u32>, pids: &mut Vec<u32>) {
        pids.extend(numbers.filter(|pid| self.stat(*pid, None).is_ok_and(|stat| !stat.is_thread)));
        pids.sort_unstable();
        pids.dedup();
    }

    /// The pid that the kernel gave last, the last field of `loadavg`; `None` where it does not say.
    pub(super) fn last_pid(&mut self) -> Option<u32> {
        let file = File::open(self.path.join("loadavg")).ok()?;
        let last = |text: &[u8]| number(text.trim_ascii().rsplit(|byte| *byte == b' ').next()?);
        read_into(&file, &mut self.buffer, last).ok()
    }

    /// Reads `stat` of a process; `kept` as for [`ProcDir::read`].
    pub(super) fn stat(&mut self, pid: u32, kept: Option<&mut KeptOf>) -> io::Result<Stat> {
        self.read(pid, "stat", parse_stat, kept)
    }

    /// Reads `io` of a process.
    pub(super) fn io(&mut self, pid: u32, kept: Option<&mut KeptOf>) -> io::Result<Io> {
        self.read(pid, "io", parse_io, kept)
    }

    pub(super) fn held(&mut self, pid: u32) -> io::Result<Held> {
        self.read(pid, "status", parse_held, None)
    }

    /// Reads a file of a process. One that is `kept` shows this process only, even if another gets its pid later: `ESRCH` once that was
    /// waited for.
    fn read<T>(
        &mut self,
        pid: u32,
        name: &str,
        parse: fn(&[u8]) -> Option<T>,
        kept: Option<&mut KeptOf>,
    ) -> io::Result<T> {
        if let Some(Some(file)) = kept.as_deref() {
            return read_into(file, &mut self.buffer, parse);
        }
        let mut path = self.path.join(pid.to_string());
        path.push(name);
        let file = File::open(path)?;
        let value = read_into(&file, &mut self.buffer, parse)?;
        if let Some(kept) = kept.filter(|_| self.keeps_files) {
            *kept = Kept::keep(file);
        }
        Ok(value)
    }
}

/// Reads a kept `stat` again where there is no buffer at hand.
pub(super) fn read_stat(file: &File) -> io::Result<Stat> {
    read_into(file, &mut [0; STAT_BYTES], parse_stat)
}

fn read_into<T>(
    file: &File,
    buffer: &mut [u8],
    parse: impl Fn(&[u8]) -> Option<T>,
) -> io::Result<T> {
    let length = file.read_at(buffer, 0)?;
    let text = buffer.get(..length).unwrap_or_default();
    parse(text)
        .ok_or_else(|| io::Error::new(io::ErrorKind::InvalidData, "it lacks what is looked for"))
}

/// True where an error says that the process is no more.
pub(super) fn is_gone(error: &io::Error) -> bool {
    error.kind() == io::ErrorKind::NotFound || error.raw_os_error() == Some(Errno::ESRCH as i32)
}

#[cfg(test)]
mod tests {
    use super::*;

    const LINE: &str = "4711 (a) S 1 (b) R 12 4700 4699 34816 -1 4194560 11 22 33 44 501 62 703 84 20 0 7 0 987654 \
                        123456789 2048 18446744073709551615 1 1 0\n";

    #[test]
    fn stat_with_brackets_in_the_name_is_read() {
        let stat = parse_stat(LINE.as_bytes()).expect("a stat line");
        assert_eq!((stat.pid, stat.state, stat.parent), (4711, b'R', 12));
        assert_eq!(stat.name.as_bytes(), b"a) S 1 (b");
        assert_eq!(
            (stat.process_group, stat.session, stat.is_kernel_thread),
            (4700, 4699, false)
        );
        assert_eq!(
            stat.times,
            CpuTicks {
                user: 501,
                system: 62
            }
        );
        assert_eq!(
            stat.children,
            CpuTicks {
                user: 703,
                system: 84
            }
        );
        assert_eq!(
            (stat.threads, stat.start_time_ticks, stat.rss_pages),
            (7, 987_654, 2048)
        );
    }

    #[test]
    fn stat_cut_short_is_none() {
        let whole = LINE.find(" 18446").expect("there");
        assert!(parse_stat(&LINE.as_bytes()[..whole]).is_some());
        let end = LINE.rfind(" 2048").expect("there");
        assert!((0..=end).all(|length| parse_stat(&LINE.as_bytes()[..length]).is_none()));
    }

    #[test]
    fn io_and_shared_memory_are_read() {
        let io = b"rchar: 9\nwchar: 8\nsyscr: 7\nsyscw: 6\nread_bytes: 5\nwrite_bytes: 4\ncancelled_write_bytes: 3\n";
        assert_eq!(
            parse_io(io),
            Some(Io {
                read_bytes: 5,
                write_bytes: 4
            })
        );
        assert_eq!(
            parse_held(b"VmHWM:\t  400 kB\nRssFile:\t    6624 kB\nRssShmem:\t      12 kB\n"),
            Some(Held {
                shmem_bytes: 12_288,
                peak_bytes: Some(409_600)
            })
        );
        assert_eq!(parse_held(b"Name:\tx\nState:\tZ (zombie)\n"), None);
    }

    #[test]
    fn names_are_cut_and_made_harmless() {
        assert_eq!(
            Name::new(b"kworker/0:1-events").to_text(),
            "kworker/0:1-eve"
        );
        assert_eq!(Name::new(b"a\x1b[2J\xff\n").to_text(), "a?[2J??");
    }
}
