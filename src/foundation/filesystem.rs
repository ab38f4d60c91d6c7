//! Files read within bounds, and what kind of file system something lies on: a database needs locks and coherent writes, which network file systems
//! do not promise.

use std::fs::{File, Metadata, OpenOptions};
use std::io::{self, Read};
use std::os::fd::AsFd;
use std::os::unix::fs::{MetadataExt, OpenOptionsExt};
use std::path::Path;

use nix::fcntl::OFlag;
use nix::sys::statfs::fstatfs;

use crate::foundation::units::Bytes;

/// What a database can expect of a file system.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Kind {
    /// One kernel alone holds the data.
    Local,
    /// Several machines may hold it; their locks and caches need not agree.
    Network,
    /// A program in user space holds it (FUSE), or the number is not known here: it may be either.
    Doubtful,
}

/// A file system, by the magic number of `statfs(2)`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct FileSystem {
    /// Its magic number, `f_type`.
    pub magic: u32,
    /// Its name; `None` where the number is not known here.
    pub name: Option<&'static str>,
    /// What it promises.
    pub kind: Kind,
}

/// Magic numbers from `linux/magic.h` and `statfs(2)`; those of GPFS, BeeGFS, PanFS, Lustre and GFS as in coreutils' `stat`.
const KNOWN: [(u32, &str, Kind); 22] = [
    (0x0000_ef53, "ext4", Kind::Local),
    (0x5846_5342, "xfs", Kind::Local),
    (0x9123_683e, "btrfs", Kind::Local),
    (0x2fc1_2fc1, "zfs", Kind::Local),
    (0x0102_1994, "tmpfs", Kind::Local),
    (0xf2f5_2010, "f2fs", Kind::Local),
    (0xca45_1a4e, "bcachefs", Kind::Local),
    // A container's root: its upper layer must be local to be writable.
    (0x794c_7630, "overlayfs", Kind::Local),
    (0x0000_6969, "nfs", Kind::Network),
    (0x0bd0_0bd0, "lustre", Kind::Network),
    (0x4750_4653, "gpfs", Kind::Network),
    (0x1983_0326, "beegfs", Kind::Network),
    (0xff53_4d42, "cifs", Kind::Network),
    (0xfe53_4d42, "smb2", Kind::Network),
    (0x0000_517b, "smb", Kind::Network),
    (0x6573_5546, "fuse", Kind::Doubtful),
    (0x00c3_6400, "ceph", Kind::Network),
    (0x5346_414f, "afs", Kind::Network),
    (0xaad7_aaea, "panfs", Kind::Network),
    (0x0116_1970, "gfs2", Kind::Network),
    (0x7461_636f, "ocfs2", Kind::Network),
    (0x0102_1997, "9p", Kind::Network),
];

impl FileSystem {
    /// Looks a magic number up.
    #[must_use]
    pub fn of_magic(magic: u32) -> Self {
        match KNOWN.iter().find(|(known, ..)| *known == magic) {
            Some((_, name, kind)) => Self {
                magic,
                name: Some(name),
                kind: *kind,
            },
            None => Self {
                magic,
                name: None,
                kind: Kind::Doubtful,
            },
        }
    }

    /// The file system of an open file or directory.
    ///
    /// # Errors
    /// What `fstatfs(2)` says.
    pub fn of(file: impl AsFd) -> io::Result<Self> {
        let found = fstatfs(file)?;
        // `f_type` has another width and sign on each platform; the magic number is its low four bytes on all.
        let bytes = found.filesystem_type().0.to_le_bytes();
        Ok(Self::of_magic(u32::from_le_bytes([
            bytes[0], bytes[1], bytes[2], bytes[3],
        ])))
    }

    /// The file system of what is at `path`.
    ///
    /// # Errors
    /// What `open(2)` and `fstatfs(2)` say.
    pub fn at(path: &Path) -> io::Result<Self> {
        Self::of(File::open(path)?)
    }
}

/// When a file's content was last changed, in Unix milliseconds.
#[must_use]
pub fn modified_ms(found: &Metadata) -> u64 {
    let seconds = found.mtime().saturating_mul(1000);
    u64::try_from(seconds.saturating_add(found.mtime_nsec() / 1_000_000)).unwrap_or(0)
}

/// The whole text of a file, which must not have more than `limit` bytes. Opens without waiting for a pipe's other end, and
/// reads files only.
///
/// # Errors
/// If it cannot be read, is no file, is too large or is not UTF-8.
pub fn whole_text(path: &Path, limit: u64) -> io::Result<String> {
    let mut options = OpenOptions::new();
    let flags = OFlag::O_NONBLOCK | OFlag::O_NOCTTY;
    let file = options.read(true).custom_flags(flags.bits()).open(path)?;
    if !file.metadata()?.is_file() {
        return Err(io::Error::other("it is not a file"));
    }
    let mut text = String::new();
    file.take(limit + 1).read_to_string(&mut text)?;
    match text.len() as u64 > limit {
        true => Err(io::Error::other(format!(
            "it is larger than {}",
            Bytes(limit)
        ))),
        false => Ok(text),
    }
}

/// The text of a file, of which at most `limit` bytes are read; bytes that are not UTF-8 are replaced.
///
/// # Errors
/// If it cannot be opened or read.
pub fn text_within(path: &Path, limit: u64) -> io::Result<String> {
    let mut bytes = Vec::new();
    File::open(path)?.take(limit).read_to_end(&mut bytes)?;
    Ok(String::from_utf8_lossy(&bytes).into_owned())
}

/// The directory of a file.
#[must_use]
pub fn directory(path: &Path) -> &Path {
    path.parent()
        .filter(|dir| !dir.as_os_str().is_empty())
        .unwrap_or(Path::new("."))
}

#[cfg(test)]
mod tests {
    use std::collections::HashSet;

    use super::*;

    #[test]
    fn magic_numbers_are_known_once_each() {
        let numbers: HashSet<u32> = KNOWN.iter().map(|(magic, ..)| *magic).collect();
        assert_eq!(numbers.len(), KNOWN.len());
    }

    #[test]
    fn network_and_unknown_file_systems_are_not_local() {
        for (magic, name, kind) in [
            (0x6969, "nfs", Kind::Network),
            (0x0bd0_0bd0, "lustre", Kind::Network),
            (0x4750_4653, "gpfs", Kind::Network),
            (0xff53_4d42, "cifs", Kind::Network),
            (0x6573_5546, "fuse", Kind::Doubtful),
            (0xef53, "ext4", Kind::Local),
            (0x5846_5342, "xfs", Kind::Local),
        ] {
            assert_eq!(
                FileSystem::of_magic(magic),
                FileSystem {
                    magic,
                    name: Some(name),
                    kind
                }
            );
        }
        let unknown = FileSystem {
            magic: 0xdead_beef,
            name: None,
            kind: Kind::Doubtful,
        };
        assert_eq!(FileSystem::of_magic(0xdead_beef), unknown);
    }

    #[test]
    fn the_kernel_is_asked() {
        let proc = FileSystem::at(Path::new("/proc")).expect("statfs");
        // `PROC_SUPER_MAGIC`: nowhere to put a database.
        assert_eq!((proc.magic, proc.kind), (0x9fa0, Kind::Doubtful));
    }
}
