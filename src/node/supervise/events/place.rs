//! Where the file of events is: on a disk of the node, in a private directory for each command under watch. The state
//! directory may hang, and a program that writes there would hang with it.

use std::fs;
use std::path::{Path, PathBuf};
use std::sync::mpsc::channel;
use std::time::{Duration, SystemTime};

use nix::sys::signal::SigSet;

use crate::foundation::private::{FileError, PrivateDir};
use crate::observe::monitor::start_time_ticks;
use crate::observe::protocol::Process;

/// The variable that names the file to the program.
pub(crate) const VARIABLE: &str = "DLRUN_EVENTS";
/// Directories of a node that everybody may write to, best first: the first outlives a full memory.
const SHARED: [&str; 2] = ["/var/tmp", "/tmp"];
/// In this user's own directory there.
const UNDER: &str = "events";
const NAME: &str = "events.jsonl";
/// Beside it: the program is asked to end by itself.
const STOP: &str = "stop";
/// Beside it: when the job's time is up after its limit was raised, in Unix seconds.
const LIMIT: &str = "limit";
/// Making the file must not hold the command up.
const PATIENCE: Duration = Duration::from_secs(2);
/// What a dead supervisor left is removed once nobody wrote to it for so long: its command may live on, and so may a
/// supervisor that another container hides from us.
const LEFT_ALONE: Duration = Duration::from_secs(24 * 3600);
/// Directories that are looked at in one sweep.
const SWEPT: usize = 256;

/// Makes the file of this process's command. `None` where it cannot be had soon: then the program finds no variable.
pub(crate) fn make() -> Option<PathBuf> {
    let (sender, receiver) = channel();
    std::thread::spawn(move || {
        // It is older than the supervisor's mask, and a signal that it took would end the process.
        let _ = SigSet::all().thread_block();
        let made = SHARED.iter().map(|shared| make_in(Path::new(shared)));
        let _ = sender.send(made.into_iter().find_map(Result::ok));
    });
    receiver.recv_timeout(PATIENCE).ok().flatten()
}

fn make_in(shared: &Path) -> Result<PathBuf, FileError> {
    let events = PrivateDir::of_user(shared)?.ensure_dir(UNDER)?;
    let pid = std::process::id();
    let name = format!("{pid}-{}", start_time_ticks(pid).unwrap_or(0));
    // One of this name is from before the machine was restarted.
    let _ = fs::remove_dir_all(events.path().join(&name));
    let dir = events.ensure_dir(&name)?;
    dir.write_new(NAME, b"")?;
    Ok(dir.path().join(NAME))
}

/// Asks the program to end by itself: a container sees the directory too.
pub(crate) fn ask_to_stop(file: &Path) -> Result<(), FileError> {
    let dir = PrivateDir::open(file.parent().unwrap_or(file))?;
    dir.replace(STOP, b"")
}

/// Lets the supervisor know that the job's limit was raised.
pub(crate) fn note_limit(file: &Path, end: u64) -> Result<(), FileError> {
    let dir = PrivateDir::open(file.parent().unwrap_or(file))?;
    dir.replace(LIMIT, end.to_string().as_bytes())
}

/// When the job's time is up, in Unix seconds, if its limit was raised.
pub(crate) fn limit(file: &Path) -> Option<u64> {
    // The program may have put anything there, and the supervisor must not wait for it.
    let text = PrivateDir::open(file.parent()?)
        .ok()?
        .read(LIMIT, 32)
        .ok()?;
    std::str::from_utf8(&text).ok()?.parse().ok()
}

/// Removes the file with its directory: the command is over.
pub(crate) fn remove(file: &Path) {
    if let Some(dir) = file.parent().filter(|dir| is_ours(dir)) {
        let _ = fs::remove_dir_all(dir);
    }
}

/// Whether a directory is one that [`make`] makes. The path came from the supervisor, but nothing else may ever go.
fn is_ours(dir: &Path) -> bool {
    owner_of(dir).is_some()
        && dir
            .parent()
            .and_then(Path::file_name)
            .is_some_and(|name| name == UNDER)
}

/// The process whose directory it is.
fn owner_of(dir: &Path) -> Option<Process> {
    let (pid, ticks) = dir.file_name()?.to_str()?.split_once('-')?;
    Some(Process {
        pid: pid.parse().ok()?,
        start_time_ticks: ticks.parse().ok()?,
    })
}

/// Removes what killed supervisors and watchers left on this node, on a separate thread.
pub(crate) fn sweep() {
    std::thread::spawn(|| {
        let before = SystemTime::now().checked_sub(LEFT_ALONE);
        for shared in SHARED {
            if let (Ok(user), Some(before)) = (PrivateDir::of_user(Path::new(shared)), before) {
                sweep_in(&user, before);
            }
        }
    });
}

fn sweep_in(user: &PrivateDir, before: SystemTime) {
    let Ok(events) = user.open_dir(UNDER) else {
        return;
    };
    for name in events.names().unwrap_or_default().into_iter().take(SWEPT) {
        let dir = events.path().join(name);
        let Some(owner) = owner_of(&dir) else {
            continue;
        };
        let newest = [dir.join(NAME), dir.clone()]
            .iter()
            .filter_map(|path| modified(path))
            .max();
        let is_old = newest.is_some_and(|newest| newest < before);
        if is_old && !owner.is_alive() {
            let _ = fs::remove_dir_all(dir);
        }
    }
}

fn modified(path: &Path) -> Option<SystemTime> {
    path.symlink_metadata().ok()?.modified().ok()
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::{PermissionsExt, symlink};

    use super::*;

    fn mode(path: &Path) -> u32 {
        path.metadata().expect("it is there").permissions().mode() & 0o777
    }

    #[test]
    fn the_file_is_private_and_goes_with_its_directory() {
        let shared = tempfile::tempdir().expect("a directory");
        let file = make_in(shared.path()).expect("made");
        assert_eq!(
            (mode(&file), mode(file.parent().expect("a directory"))),
            (0o600, 0o700)
        );
        assert_eq!(fs::read(&file).expect("a file"), b"");
        fs::write(&file, "{}\n").expect("ours");
        // Whoever is made again begins with nothing.
        assert_eq!(make_in(shared.path()).expect("made"), file);
        assert_eq!(fs::read(&file).expect("a file"), b"");
        remove(&file);
        assert!(!file.parent().expect("a directory").exists());
        let other = shared.path().join("12-34/events.jsonl");
        fs::create_dir(shared.path().join("12-34")).expect("ours");
        fs::write(&other, "").expect("ours");
        remove(&other);
        assert!(
            other.exists(),
            "only what lies in a directory of events goes"
        );
    }

    #[test]
    fn limit_is_read_and_a_pipe_in_its_place_is_not_waited_for() {
        let shared = tempfile::tempdir().expect("a directory");
        let file = make_in(shared.path()).expect("made");
        assert_eq!(limit(&file), None);
        note_limit(&file, 1_795_000_000).expect("ours");
        assert_eq!(limit(&file), Some(1_795_000_000));
        let place = file.with_file_name(LIMIT);
        fs::remove_file(&place).expect("ours");
        nix::unistd::mkfifo(&place, nix::sys::stat::Mode::S_IRWXU).expect("a pipe");
        assert_eq!(limit(&file), None);
    }

    #[test]
    fn links_in_the_place_of_the_directory_are_refused() {
        let shared = tempfile::tempdir().expect("a directory");
        let user = PrivateDir::of_user(shared.path()).expect("made");
        let elsewhere = tempfile::tempdir().expect("a directory");
        symlink(elsewhere.path(), user.path().join(UNDER)).expect("ours");
        assert!(make_in(shared.path()).is_err());
        assert_eq!(fs::read_dir(elsewhere.path()).expect("ours").count(), 0);
    }

    #[test]
    fn only_what_the_dead_left_long_ago_is_swept() {
        let shared = tempfile::tempdir().expect("a directory");
        let alive = make_in(shared.path()).expect("made");
        let user = PrivateDir::of_user(shared.path()).expect("made");
        let dead = user.path().join("events/4194304-1");
        let odd = user.path().join("events/of somebody");
        for dir in [&dead, &odd] {
            fs::create_dir(dir).expect("ours");
        }
        let now = SystemTime::now();
        sweep_in(&user, now - Duration::from_secs(60));
        assert!(dead.exists(), "it was used just now");
        sweep_in(&user, now + Duration::from_secs(60));
        assert!(!dead.exists() && odd.exists() && alive.exists());
    }
}
