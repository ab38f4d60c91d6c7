//! Makes an image file: one process at a time, under another name until it is whole, with everything that was said in a log.

use std::fs::{self, DirBuilder, File};
use std::io::{self, Write};
use std::os::unix::fs::{DirBuilderExt, MetadataExt, PermissionsExt};
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant, SystemTime};

use nix::sys::statvfs::statvfs;

use crate::foundation::command::{CommandError, Tool};
use crate::foundation::diagnostic::printable;
use crate::foundation::lock::{self, Lock, Patience};
use crate::image::build::ownership::unsafe_for_root;
use crate::image::fingerprint;
use crate::image::in_progress::{Progress, Unfinished, beside, is_full, last_words, new_log};
use crate::image::runtime::{Product, prefixes_of};

/// A log grows no longer, in bytes: a program of a definition file may talk without end.
const MAX_LOG_BYTES: u64 = 64 << 20;
/// How often a silent build gives a sign of life to those who wait for it.
const SIGN_OF_LIFE: Duration = Duration::from_secs(30);
/// How long the runtime may take to remove what it unpacked.
const GRACE: Duration = Duration::from_secs(60);
/// With less room nothing can be unpacked at all, in bytes.
const LEAST_ROOM: u64 = 16 << 20;

/// Why an image was not made.
#[derive(Debug, thiserror::Error)]
pub enum MakeError {
    /// Root would write where others can put links.
    #[error("root does not write to {}: {}", .0.display(), .1)]
    Unsafe(PathBuf, String),
    /// A file or directory of ours cannot be made, written or renamed.
    #[error("cannot write {}", .0.display())]
    Write(PathBuf, #[source] io::Error),
    /// There is too little room to begin.
    #[error("{} has {} MiB left, and the image needs {} MiB there at least", .0.display(), .1 >> 20, (.2 >> 20) + 1)]
    Little(PathBuf, u64, u64),
    /// The room was used up.
    #[error("there was no space left in {0} for {1}")]
    NoSpace(String, String, #[source] CommandError),
    /// The runtime could not do it.
    #[error("{} failed; its log is {}", .0, .1.display())]
    Failed(String, PathBuf, #[source] CommandError),
    /// We were told to stop.
    #[error("{0} was interrupted; nothing of it is left")]
    Interrupted(String),
}

impl MakeError {
    pub(crate) fn write(path: &Path) -> impl FnOnce(io::Error) -> Self {
        let path = path.to_owned();
        move |source| Self::Write(path, source)
    }

    /// What the runtime said last; empty where it said nothing.
    #[must_use]
    pub fn runtime_output(&self) -> &str {
        match self {
            Self::Failed(_, _, source) | Self::NoSpace(_, _, source) => last_words(source),
            _ => "",
        }
    }
}

/// Where an image is made.
#[derive(Debug, Clone, Copy)]
pub struct Workplace<'a> {
    /// The image file, absolute; its directory is made where it is missing.
    pub image: &'a Path,
    /// Where the runtime unpacks, absolute.
    pub unpack: &'a Path,
    /// The image is for all users.
    pub shared: bool,
}

/// Waits until nobody else makes this image, and clears away what an interrupted making left. `None`: another made it
/// while we waited.
///
/// # Errors
/// `Unsafe`, `Write`.
pub fn begin(
    place: &Workplace<'_>,
    patience: Patience,
    progress: &mut dyn FnMut(Progress<'_>),
) -> Result<Option<Making>, MakeError> {
    let dir = place.image.parent().unwrap_or(Path::new("/"));
    let mode = if place.shared { 0o755 } else { 0o700 };
    DirBuilder::new()
        .recursive(true)
        .mode(mode)
        .create(dir)
        .map_err(MakeError::write(dir))?;
    for (dir, sticky) in [(dir, false), (place.unpack, true)] {
        if let Some(why) = unsafe_for_root(dir, sticky) {
            return Err(MakeError::Unsafe(dir.to_owned(), why));
        }
    }
    let (lock_path, log_path) = (beside(place.image, "lock"), log_of(place.image));
    let before = identity(place.image);
    let mut waited = false;
    let lock = lock::acquire(&lock_path, &log_path, patience, |owner| {
        waited = true;
        progress(Progress::Waiting(owner.as_ref()));
    })
    .map_err(MakeError::write(&lock_path))?;
    let after = identity(place.image);
    if waited && after.is_some() && after != before {
        return Ok(None);
    }
    Making::new(place, &log_path, lock).map(Some)
}

/// Removes an image that dlrun made, `beside_it` what it was made from, and its log. Returns what was removed.
///
/// # Errors
/// `Write`, also where somebody is making it now.
pub fn discard(image: &Path, beside_it: &[PathBuf]) -> Result<Vec<PathBuf>, MakeError> {
    let lock_path = beside(image, "lock");
    let lock = lock::acquire_now(&lock_path).map_err(MakeError::write(&lock_path))?;
    let lock = lock.map_err(|owner| {
        let who = owner.map_or_else(|| "another dlrun".to_owned(), |owner| owner.to_string());
        MakeError::write(image)(io::Error::other(format!("{who} is making it now")))
    })?;
    let mut removed = Vec::new();
    for path in [image.to_owned()]
        .iter()
        .chain(beside_it)
        .chain([&log_of(image)])
    {
        match fs::remove_file(path) {
            Ok(()) => removed.push(path.clone()),
            Err(error) if error.kind() == io::ErrorKind::NotFound => {}
            Err(error) => return Err(MakeError::write(path)(error)),
        }
    }
    lock.remove(&lock_path);
    Ok(removed)
}

/// Where all that was said in making an image is kept.
#[must_use]
pub fn log_of(image: &Path) -> PathBuf {
    image.with_extension("log")
}

/// An image that is being made. What was not published is removed when it is dropped.
#[derive(Debug)]
pub struct Making {
    image: PathBuf,
    part: PathBuf,
    unpack: PathBuf,
    unpack_root: PathBuf,
    log_path: PathBuf,
    log: File,
    /// What the log may still grow, in bytes; `None`: it is full.
    log_left: Option<u64>,
    shared: bool,
    /// It was interrupted: its log says nothing of use.
    was_interrupted: bool,
    /// Held until the end.
    lock: Lock,
}

impl Making {
    fn new(place: &Workplace<'_>, log_path: &Path, lock: Lock) -> Result<Self, MakeError> {
        let uid = nix::unistd::geteuid();
        let stem = format!(
            "dlrun-{uid}-{}.",
            &fingerprint(place.image.to_string_lossy().as_bytes())[..16]
        );
        if lock.is_exclusive() {
            remove_remains(place, &stem);
        }
        let token =
            getrandom::u32().map_err(|error| MakeError::write(place.image)(error.into()))?;
        let token = format!("{token:08x}");
        let unpack = place.unpack.join(format!("{stem}{token}"));
        DirBuilder::new()
            .mode(0o700)
            .create(&unpack)
            .map_err(MakeError::write(&unpack))?;
        let unpack = Unfinished(unpack);
        let log = new_log(log_path).map_err(MakeError::write(log_path))?;
        Ok(Self {
            image: place.image.to_owned(),
            part: hidden(place.image, &token),
            unpack: unpack.keep(),
            unpack_root: place.unpack.to_owned(),
            log_path: log_path.to_owned(),
            log,
            log_left: Some(MAX_LOG_BYTES),
            shared: place.shared,
            was_interrupted: false,
            lock,
        })
    }

    /// The file while it is made.
    #[must_use]
    pub fn part(&self) -> &Path {
        &self.part
    }

    /// A directory for files of this making alone.
    #[must_use]
    pub fn scratch(&self) -> &Path {
        &self.unpack
    }

    /// Says whether `needed` bytes, and the least that anything needs, are free where it is unpacked and where the image
    /// goes.
    ///
    /// # Errors
    /// `Little`.
    pub fn require_room(&self, needed: u64) -> Result<(), MakeError> {
        let needed = needed.max(LEAST_ROOM);
        let dir = self.image.parent().unwrap_or(Path::new("/"));
        for (dir, needed) in [(self.unpack_root.as_path(), needed), (dir, LEAST_ROOM)] {
            if let Some(free) = free_bytes(dir).filter(|free| *free < needed) {
                return Err(MakeError::Little(dir.to_owned(), free, needed));
            }
        }
        Ok(())
    }

    /// Runs the runtime, which writes [`Making::part`]. `what` is what it does, for errors; as soon as `stop` says so, it
    /// is ended.
    ///
    /// # Errors
    /// `NoSpace`, `Failed`, `Interrupted`.
    pub fn run(
        &mut self,
        what: &str,
        tool: Tool,
        product: Option<Product>,
        stop: &dyn Fn() -> bool,
        progress: &mut dyn FnMut(Progress<'_>),
    ) -> Result<(), MakeError> {
        let tool = temporary(tool, product, &self.unpack)
            .grace(GRACE)
            .ends_with_us();
        let mut signed = Instant::now();
        let ran = tool.run_lines(|news| {
            match news {
                Some((_, line)) => {
                    self.say(line);
                    signed = Instant::now();
                    // The step that a line of the runtime begins: `INFO:    Running post scriptlet`.
                    match line.strip_prefix("INFO:") {
                        Some(phase) => progress(Progress::Phase(phase.trim())),
                        None => progress(Progress::Line(&printable(line))),
                    }
                }
                None if signed.elapsed() >= SIGN_OF_LIFE => {
                    // Those who wait for the lock look at the log's time. That it cannot be set costs them patience.
                    let _ = self.log.set_modified(SystemTime::now());
                    signed = Instant::now();
                }
                None => {}
            }
            !stop()
        });
        let what = what.to_owned();
        if stop() {
            self.was_interrupted = true;
            return Err(MakeError::Interrupted(what));
        }
        let Err(source) = ran.and_then(|output| output.require_success(&tool.program())) else {
            return Ok(());
        };
        let words = last_words(&source);
        if is_full(words) {
            let dir = self.image.parent().unwrap_or(Path::new("/"));
            let full = format!("{} or {}", self.unpack_root.display(), dir.display());
            return Err(MakeError::NoSpace(full, what, source));
        }
        Err(MakeError::Failed(what, self.log_path.clone(), source))
    }

    /// Lets the image appear, whole and on the disk. Others wait on until this is dropped: what belongs to the image is written
    /// before that.
    ///
    /// # Errors
    /// `Write`.
    pub fn publish(&mut self) -> Result<(), MakeError> {
        let put = || -> io::Result<()> {
            if self.shared {
                fs::set_permissions(&self.part, fs::Permissions::from_mode(0o755))?;
            }
            File::open(&self.part)?.sync_all()?;
            fs::rename(&self.part, &self.image)?;
            File::open(self.image.parent().unwrap_or(Path::new("/")))?.sync_all()
        };
        put().map_err(MakeError::write(&self.image))
    }

    /// Writes a line into the log.
    pub(crate) fn say(&mut self, line: &str) {
        let Some(left) = self.log_left else { return };
        self.log_left = left.checked_sub(line.len() as u64 + 1);
        let line = if self.log_left.is_some() {
            line
        } else {
            "dlrun: the log is full; what follows is left out"
        };
        // A full disk is seen by the runtime too, which writes to the same.
        let _ = writeln!(self.log, "{line}");
    }
}

impl Drop for Making {
    fn drop(&mut self) {
        // What stays is removed by the next making.
        let _ = fs::remove_file(&self.part);
        remove_tree(&self.unpack);
        if self.was_interrupted {
            let _ = fs::remove_file(&self.log_path);
        }
        self.lock.remove(&beside(&self.image, "lock"));
    }
}

/// Where the runtime unpacks. Each product warns of the other's variables; one of which we do not know which it is gets all.
fn temporary(tool: Tool, product: Option<Product>, dir: &Path) -> Tool {
    let prefixes = prefixes_of(product).into_iter();
    prefixes.fold(tool, |tool, prefix| {
        tool.env(format!("{prefix}_TMPDIR"), dir)
    })
}

/// What this user may still write there, in bytes; `None` where the file system does not say.
fn free_bytes(dir: &Path) -> Option<u64> {
    let found = statvfs(dir).ok()?;
    found.blocks_available().checked_mul(found.fragment_size())
}

/// Which file stands at a path now.
fn identity(path: &Path) -> Option<(u64, i64, i64, u64)> {
    let found = fs::symlink_metadata(path).ok()?;
    Some((found.ino(), found.mtime(), found.mtime_nsec(), found.len()))
}

/// Removes what makings of this image left that were killed.
fn remove_remains(place: &Workplace<'_>, stem: &str) {
    let (Some(dir), Some(name)) = (place.image.parent(), place.image.file_name()) else {
        return;
    };
    let begins = format!(".{}.", name.to_string_lossy());
    for path in names_in(dir, |name| {
        name.starts_with(&begins) && name.ends_with(".part")
    }) {
        if let Err(error) = fs::remove_file(&path) {
            tracing::warn!(path = %path.display(), %error, "cannot remove an unfinished image");
        }
    }
    let uid = nix::unistd::geteuid().as_raw();
    for path in names_in(place.unpack, |name| name.starts_with(stem)) {
        if fs::symlink_metadata(&path).is_ok_and(|found| found.is_dir() && found.uid() == uid) {
            remove_tree(&path);
        }
    }
}

fn names_in(dir: &Path, is_wanted: impl Fn(&str) -> bool) -> Vec<PathBuf> {
    let entries = fs::read_dir(dir).into_iter().flatten().flatten();
    entries
        .filter(|entry| entry.file_name().to_str().is_some_and(&is_wanted))
        .map(|entry| entry.path())
        .collect()
}

/// Removes a directory in which a build unpacked. With a range of further ids its files belong to those, and only who is root
/// over them may remove them: `unshare` of util-linux 2.38 makes us that.
fn remove_tree(dir: &Path) {
    let Err(error) = fs::remove_dir_all(dir) else {
        return;
    };
    if error.kind() == io::ErrorKind::NotFound {
        return;
    }
    for mapped in [&["--map-auto", "--map-root-user"][..], &["--map-root-user"]] {
        let tool = Tool::new("unshare")
            .args(mapped)
            .args(["rm", "-rf", "--"])
            .arg(dir);
        let removed = tool
            .timeout(GRACE)
            .run()
            .is_ok_and(|output| output.status.success());
        if removed && !dir.exists() {
            return;
        }
    }
    tracing::warn!(path = %dir.display(), %error, "cannot remove what a build unpacked");
}

/// A hidden name in the image's own directory, so that it can be renamed.
fn hidden(image: &Path, token: &str) -> PathBuf {
    let name = image.file_name().unwrap_or_default().to_string_lossy();
    image.with_file_name(format!(".{name}.{token}.part"))
}

#[cfg(test)]
mod tests {
    use super::*;

    const HASTE: Patience = Patience {
        step: Duration::from_millis(5),
        silence: Duration::from_secs(30),
    };

    struct Lab {
        root: tempfile::TempDir,
    }

    impl Lab {
        fn new() -> Self {
            let root = tempfile::tempdir().expect("temp");
            fs::create_dir(root.path().join("unpack")).expect("ours");
            Self { root }
        }

        fn image(&self) -> PathBuf {
            self.root.path().join("images/x-1.0.sif")
        }

        fn begin(&self) -> Result<Option<Making>, MakeError> {
            let (image, unpack) = (self.image(), self.root.path().join("unpack"));
            begin(
                &Workplace {
                    image: &image,
                    unpack: &unpack,
                    shared: false,
                },
                HASTE,
                &mut |_| {},
            )
        }

        fn ours(&self) -> Making {
            match self.begin() {
                Ok(Some(making)) => making,
                other => panic!("{other:?}"),
            }
        }

        /// Names in the images' directory, hidden ones too.
        fn names(&self) -> Vec<String> {
            let mut names: Vec<String> = fs::read_dir(self.root.path().join("images"))
                .expect("ours")
                .flatten()
                .map(|entry| entry.file_name().to_string_lossy().into_owned())
                .collect();
            names.sort();
            names
        }

        fn unpacked(&self) -> usize {
            fs::read_dir(self.root.path().join("unpack"))
                .expect("ours")
                .count()
        }
    }

    fn shell(making: &mut Making, script: &str, stop: &dyn Fn() -> bool) -> Result<(), MakeError> {
        let tool = Tool::new("sh")
            .args(["-c", script])
            .env("PART", making.part());
        making.run(
            "the build of x-1.0",
            tool,
            Some(Product::Apptainer),
            stop,
            &mut |_| {},
        )
    }

    #[test]
    fn an_image_appears_whole_and_nothing_else_stays() {
        let lab = Lab::new();
        let mut making = lab.ours();
        shell(
            &mut making,
            "ls -d \"$APPTAINER_TMPDIR\" && echo image > $PART",
            &|| false,
        )
        .expect("it works");
        assert!(!lab.image().exists() && lab.unpacked() == 1);
        making.publish().expect("it can be renamed");
        drop(making);
        assert_eq!(fs::read_to_string(lab.image()).expect("there"), "image\n");
        assert_eq!(lab.names(), ["x-1.0.log", "x-1.0.sif"]);
        assert_eq!(lab.unpacked(), 0);
        let log = fs::read_to_string(log_of(&lab.image())).expect("a log");
        assert!(log.contains("unpack/dlrun-"), "{log}");
    }

    #[test]
    fn a_failed_build_leaves_its_log_alone_and_says_what_was_said_last() {
        let lab = Lab::new();
        let mut making = lab.ours();
        let error = shell(
            &mut making,
            "echo half > $PART; echo 'FATAL:   no' >&2; exit 255",
            &|| false,
        );
        let error = error.expect_err("it failed");
        assert_eq!(error.runtime_output(), "FATAL:   no");
        assert!(
            matches!(&error, MakeError::Failed(_, log, _) if *log == log_of(&lab.image())),
            "{error}"
        );
        drop(making);
        assert_eq!((lab.names(), lab.unpacked()), (vec!["x-1.0.log".into()], 0));
        let mut making = lab.ours();
        let error = shell(
            &mut making,
            "echo 'dd: write: No space left on device' >&2; exit 1",
            &|| false,
        );
        assert!(matches!(error, Err(MakeError::NoSpace { .. })), "{error:?}");
    }

    #[test]
    fn an_interrupted_build_leaves_nothing() {
        let lab = Lab::new();
        let mut making = lab.ours();
        let part = making.part().to_owned();
        let error = shell(&mut making, "echo half > $PART; exec sleep 60", &|| {
            part.exists()
        });
        assert!(
            matches!(error, Err(MakeError::Interrupted { .. })),
            "{error:?}"
        );
        drop(making);
        assert_eq!((lab.names(), lab.unpacked()), (Vec::<String>::new(), 0));
    }

    #[test]
    fn remains_of_a_killed_build_are_removed_by_the_next() {
        let lab = Lab::new();
        let making = lab.ours();
        let (part, unpack) = (making.part().to_owned(), making.scratch().to_owned());
        drop(making);
        fs::create_dir_all(unpack.join("rootfs/bin")).expect("ours");
        fs::write(&part, "half").expect("ours");
        let others = [
            lab.root.path().join("images/.x-1.0.1.sif.ab.part"),
            lab.root.path().join("unpack/dlrun-0-x"),
        ];
        for other in &others {
            fs::write(other, "").expect("ours");
        }
        let making = lab.ours();
        assert!(!part.exists() && !unpack.exists());
        assert!(
            others.iter().all(|other| other.exists()),
            "those are another's"
        );
        drop(making);
    }

    #[test]
    fn the_second_of_two_waits_and_finds_it_made() {
        let lab = Lab::new();
        let mut first = lab.ours();
        let image = lab.image();
        std::thread::scope(|scope| {
            let second = scope.spawn(|| lab.begin());
            std::thread::sleep(Duration::from_millis(100));
            assert!(!second.is_finished());
            fs::write(first.part(), "image").expect("ours");
            first.publish().expect("it can be renamed");
            drop(first);
            assert!(matches!(second.join().expect("no panic"), Ok(None)));
        });
        // An image that was there before is no reason: whoever asks wants another.
        assert!(image.exists());
        drop(lab.ours());
        // The first failed: then it is the second's to make.
        let first = lab.ours();
        std::thread::scope(|scope| {
            let second = scope.spawn(|| lab.begin());
            std::thread::sleep(Duration::from_millis(50));
            drop(first);
            assert!(matches!(second.join().expect("no panic"), Ok(Some(_))));
        });
    }

    #[test]
    fn a_link_in_the_place_of_the_log_is_not_followed() {
        let lab = Lab::new();
        drop(lab.ours());
        let log = log_of(&lab.image());
        fs::remove_file(&log).expect("ours");
        let target = lab.root.path().join("precious");
        fs::write(&target, "precious").expect("ours");
        std::os::unix::fs::symlink(&target, &log).expect("ours");
        assert!(matches!(lab.begin(), Err(MakeError::Write(path, _)) if path == log));
        assert_eq!(fs::read_to_string(&target).expect("ours"), "precious");
        assert_eq!(lab.unpacked(), 0);
    }

    #[test]
    fn too_little_room_is_told_before_the_build() {
        let lab = Lab::new();
        let making = lab.ours();
        making.require_room(0).expect("there is some");
        assert!(
            matches!(making.require_room(1 << 60), Err(MakeError::Little(_, _, needed)) if needed == 1 << 60)
        );
    }

    #[test]
    fn a_log_does_not_grow_for_ever() {
        let lab = Lab::new();
        let mut making = lab.ours();
        making.log_left = Some(100);
        shell(&mut making, "yes | head -n 1000", &|| false).expect("it works");
        let log = fs::read_to_string(log_of(&lab.image())).expect("a log");
        assert!(
            log.len() < 200 && log.ends_with("what follows is left out\n"),
            "{log}"
        );
    }
}
