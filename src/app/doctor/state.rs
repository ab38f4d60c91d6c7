//! The state directory and the index over it.

use std::path::{Path, PathBuf};

use nix::sys::statvfs::statvfs;
use nix::unistd::{AccessFlags, access};

use super::{Finding, Level};
use crate::app::error::{Error, Kind};
use crate::app::session::Session;
use crate::foundation::filesystem::{FileSystem, Kind as FileSystemKind};
use crate::foundation::units::Bytes;
use crate::record::rundir::StateDir;
use crate::record::store::Store;

const STATE: &str = "state";
const SPACE: &str = "space";
const INDEX: &str = "index";
/// With less free, a warning: a day's records of many runs are some ten MB.
const SPACE_WANTED: u64 = 1 << 30;
/// With less free, a problem: not even the records of one run may fit.
const SPACE_NEEDED: u64 = 16 << 20;

pub(super) fn findings(session: &Session) -> Vec<Finding> {
    let path = session.settings.state_dir();
    let state = match session.existing_state() {
        Ok(state) => state,
        Err(error) if error.kind == Kind::Missing => return not_made(path),
        // A file system that hangs is not asked further.
        Err(error) => return vec![Finding::failure(Level::Problem, STATE, &error)],
    };
    vec![directory(path), space(path), index(&state)]
}

/// The first run makes it; what matters is whether it can be made.
fn not_made(path: &Path) -> Vec<Finding> {
    let above = path.ancestors().find(|above| above.is_dir());
    let above = above.unwrap_or(Path::new("/"));
    if access(above, AccessFlags::W_OK | AccessFlags::X_OK).is_err() {
        let text = format!(
            "`{}` does not exist, and `{}` cannot be written",
            path.display(),
            above.display()
        );
        return vec![Finding::problem(STATE, text, ELSEWHERE)];
    }
    let text = format!(
        "`{}` does not exist yet; the first `dlrun submit` creates it",
        path.display()
    );
    vec![Finding::ok(STATE, text), space(above)]
}

const ELSEWHERE: &str = "the setting `state_dir`, or `--state-dir`, names another place";

fn directory(path: &Path) -> Finding {
    if let Err(errno) = access(path, AccessFlags::W_OK | AccessFlags::X_OK) {
        return Finding::problem(
            STATE,
            format!("`{}` cannot be written: {errno}", path.display()),
            ELSEWHERE,
        );
    }
    match FileSystem::at(path) {
        Ok(found) => Finding::ok(STATE, format!("`{}`, on {}", path.display(), named(found))),
        Err(error) => Finding::warning(
            STATE,
            format!(
                "the file system of `{}` does not say what it is: {error}",
                path.display()
            ),
            ELSEWHERE,
        ),
    }
}

fn named(found: FileSystem) -> String {
    let name = found
        .name
        .map_or_else(|| format!("file system {:#x}", found.magic), str::to_owned);
    match found.kind {
        FileSystemKind::Local => name,
        FileSystemKind::Network => format!("{name}, a network file system"),
        FileSystemKind::Doubtful => format!("{name}, which may be local or not"),
    }
}

fn space(path: &Path) -> Finding {
    let about = match statvfs(path) {
        Ok(about) => about,
        Err(errno) => {
            let text = format!(
                "the free space of `{}` is not known: {errno}",
                path.display()
            );
            return Finding::warning(SPACE, text, ELSEWHERE);
        }
    };
    let free = about
        .blocks_available()
        .saturating_mul(about.fragment_size());
    // File systems that make files' places as they go have none of their own.
    let has_places = about.files() == 0 || about.files_available() > 0;
    space_finding(free, has_places)
}

fn space_finding(free: u64, has_places: bool) -> Finding {
    const ADVICE: &str =
        "remove old runs or environments, or name another place with the setting `state_dir`";
    let text = format!("{} free", Bytes(free));
    match free {
        _ if !has_places => {
            Finding::problem(SPACE, "no further file can be made (no inodes)", ADVICE)
        }
        ..SPACE_NEEDED => Finding::problem(SPACE, text, ADVICE),
        SPACE_NEEDED..SPACE_WANTED => Finding::warning(SPACE, text, ADVICE),
        SPACE_WANTED.. => Finding::ok(SPACE, text),
    }
}

/// What can be rebuilt is no problem; the next command does so.
fn index(state: &StateDir) -> Finding {
    let path: PathBuf = match state.index_path() {
        Ok(path) => path,
        Err(error) => return Finding::failure(Level::Warning, INDEX, &Error::from(error)),
    };
    if !path.exists() {
        return Finding::ok(
            INDEX,
            format!("`{}` is made when it is first needed", path.display()),
        );
    }
    match Store::open(&path).and_then(|store| store.known_runs()) {
        Ok(runs) => Finding::ok(INDEX, format!("{} runs, `{}`", runs.len(), path.display())),
        Err(error) => Finding::failure(Level::Warning, INDEX, &Error::from(error)),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn little_space_warns_and_none_is_a_problem() {
        for (free, has_places, level) in [
            (2 << 30, true, Level::Ok),
            (1 << 29, true, Level::Warning),
            (1 << 20, true, Level::Problem),
            (0, true, Level::Problem),
            (2 << 30, false, Level::Problem),
        ] {
            assert_eq!(
                space_finding(free, has_places).level,
                level,
                "{free} {has_places}"
            );
        }
    }

    #[test]
    fn file_systems_are_named_with_what_they_are() {
        assert_eq!(named(FileSystem::of_magic(0xef53)), "ext4");
        assert_eq!(
            named(FileSystem::of_magic(0x6969)),
            "nfs, a network file system"
        );
        assert_eq!(
            named(FileSystem::of_magic(0x1234)),
            "file system 0x1234, which may be local or not"
        );
    }
}
