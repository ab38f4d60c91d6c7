//! Where the command's output goes, and how it is read behind the command.

use std::fs::{self, File, OpenOptions};
use std::io;
use std::os::fd::AsFd;
use std::os::unix::fs::{FileExt, OpenOptionsExt};
use std::path::{Path, PathBuf};
use std::process::Stdio;
use std::sync::mpsc;
use std::time::Duration;

use nix::fcntl::OFlag;
use nix::sys::inotify::{AddWatchFlags, InitFlags, Inotify};
use nix::sys::stat::{SFlag, fstat};

use super::context::Context;
use super::handover::OutputFile;
use super::ranks::Group;

/// The command's standard streams.
pub(super) struct Output {
    pub(super) stdout: Stdio,
    pub(super) stderr: Stdio,
    pub(super) file: Option<OutputFile>,
    /// True when what the file gets must be shown on our own standard output too.
    pub(super) echo: bool,
}

/// Chooses the output. A regular file on our standard output is the job's output file and is inherited; else the output
/// goes to `out.NODE` in the run's directory, from where the watcher shows it. Where that file cannot be had in five
/// seconds, the streams are inherited as they are and nothing is recognised.
pub(super) fn choose(context: &Context) -> Output {
    let inherited = |file| Output {
        stdout: Stdio::inherit(),
        stderr: Stdio::inherit(),
        file,
        echo: false,
    };
    let variable = |name: &str| std::env::var(name).ok();
    let group = Group::from_environment(context, variable).and_then(Result::ok);
    if let Some(path) = group.and_then(|group| group.own_output())
        && let Some((path, file)) = open_within_five_seconds(path, 0o666)
        && let Ok(twin) = file.try_clone()
    {
        let offset = file.metadata().map_or(0, |metadata| metadata.len());
        return Output {
            stdout: file.into(),
            stderr: twin.into(),
            file: Some(OutputFile { path, offset }),
            echo: false,
        };
    }
    if let Some(file) = inherited_file() {
        return inherited(Some(file));
    }
    let own = context.run_id.as_ref().zip(context.state_dir.as_ref());
    let own = own.map(|(run_id, state_dir)| {
        let name = format!("out.{}", context.node.replace('/', "_"));
        state_dir.join("runs").join(run_id.as_str()).join(name)
    });
    let opened = own.and_then(|path| open_within_five_seconds(path, 0o600));
    let opened = opened.and_then(|(path, file)| Some((path, file.try_clone().ok()?, file)));
    let Some((path, twin, file)) = opened else {
        return inherited(None);
    };
    let offset = file.metadata().map_or(0, |metadata| metadata.len());
    Output {
        stdout: file.into(),
        stderr: twin.into(),
        file: Some(OutputFile { path, offset }),
        echo: true,
    }
}

/// The file that is our standard output, and how long it is by now; `None`: it is none.
pub(super) fn inherited_file() -> Option<OutputFile> {
    let stat = fstat(io::stdout().as_fd()).ok()?;
    if SFlag::from_bits_truncate(stat.st_mode) & SFlag::S_IFMT != SFlag::S_IFREG {
        return None;
    }
    let path = fs::read_link("/proc/self/fd/1").ok()?;
    Some(OutputFile {
        path,
        offset: u64::try_from(stat.st_size).unwrap_or(0),
    })
}

fn open_within_five_seconds(path: PathBuf, mode: u32) -> Option<(PathBuf, File)> {
    let (sender, receiver) = mpsc::channel();
    std::thread::spawn(move || {
        let flags = (OFlag::O_NOFOLLOW | OFlag::O_CLOEXEC).bits();
        let open = OpenOptions::new()
            .create(true)
            .append(true)
            .mode(mode)
            .custom_flags(flags)
            .open(&path);
        let _ = sender.send(open.ok().map(|file| (path, file)));
    });
    receiver.recv_timeout(Duration::from_secs(5)).ok().flatten()
}

/// A descriptor that is readable when something happens to a file or in a directory.
pub(super) fn notices_of(path: &Path, of: AddWatchFlags) -> Option<Inotify> {
    let inotify = Inotify::init(InitFlags::IN_CLOEXEC | InitFlags::IN_NONBLOCK).ok()?;
    inotify.add_watch(path, of).ok()?;
    Some(inotify)
}

/// Reads a growing file from an offset.
pub(super) struct Reader {
    file: File,
    offset: u64,
    buffer: Vec<u8>,
}

impl Reader {
    pub(super) fn open(path: &Path, offset: u64) -> io::Result<Self> {
        Ok(Self {
            file: File::open(path)?,
            offset,
            buffer: vec![0; 64 << 10],
        })
    }

    /// How far it has come.
    pub(super) fn offset(&self) -> u64 {
        self.offset
    }

    /// The next bytes; empty when there are none yet. A file that became shorter is read from its beginning: somebody
    /// emptied it.
    pub(super) fn read(&mut self) -> io::Result<&[u8]> {
        let mut read = self.file.read_at(&mut self.buffer, self.offset)?;
        if read == 0 && self.file.metadata()?.len() < self.offset {
            self.offset = 0;
            read = self.file.read_at(&mut self.buffer, 0)?;
        }
        self.offset += read as u64;
        Ok(&self.buffer[..read])
    }
}
