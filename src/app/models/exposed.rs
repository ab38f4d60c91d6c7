//! Who else may exchange what lies at a path: whoever may write to it or to a directory on the way there, and their owners.

use std::ffi::OsString;
use std::fmt;
use std::fs::Metadata;
use std::io;
use std::os::unix::fs::MetadataExt;
use std::path::{Component, Path, PathBuf};

use nix::errno::Errno;

use crate::app::accounts;

/// As many links as the kernel follows in one path.
const MOST_LINKS: usize = 40;
const STICKY: u32 = 0o1000;

/// A place that somebody else may write to.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Exposed {
    pub(crate) path: PathBuf,
    pub(crate) to: Others,
}

/// Who may.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Others {
    /// Its owner, by user id.
    Owner(u32),
    /// Members of its group, by group id.
    Group(u32),
    /// Everybody.
    All,
}

impl fmt::Display for Exposed {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let path = self.path.display();
        match self.to {
            Others::Owner(uid) => write!(f, "`{path}` belongs to {}", accounts::user(uid)),
            Others::Group(gid) => {
                write!(
                    f,
                    "members of {} may write to `{path}`",
                    accounts::group(gid)
                )
            }
            Others::All => write!(f, "everybody may write to `{path}`"),
        }
    }
}

/// The first place on the way to `path`, itself included, by which somebody else than root and who `is_trusted` (by user id) may
/// exchange it. Links are followed one by one, so that a directory that only holds a link is looked at too.
///
/// # Errors
/// Where the way cannot be gone.
pub(crate) fn exposed(
    path: &Path,
    is_trusted: &dyn Fn(u32) -> bool,
) -> io::Result<Option<Exposed>> {
    let path = std::path::absolute(path)?;
    let mut left: Vec<OsString> = Vec::new();
    push(&mut left, &path);
    let (mut at, mut about, mut links) =
        (PathBuf::from("/"), Path::new("/").symlink_metadata()?, 0);
    loop {
        if let Some(to) = others(&about, is_trusted) {
            return Ok(Some(Exposed { path: at, to }));
        }
        let Some(name) = left.pop() else {
            return Ok(None);
        };
        if name == ".." {
            at.pop();
            about = at.symlink_metadata()?;
            continue;
        }
        let next = at.join(name);
        let found = next.symlink_metadata()?;
        if !found.is_symlink() {
            (at, about) = (next, found);
            continue;
        }
        // A link has no mode, but in a directory that all may write to it may be anybody's.
        if !is_ours(&found, is_trusted) {
            return Ok(Some(Exposed {
                path: next,
                to: Others::Owner(found.uid()),
            }));
        }
        links += 1;
        if links > MOST_LINKS {
            return Err(Errno::ELOOP.into());
        }
        let target = next.read_link()?;
        push(&mut left, &target);
        if target.is_absolute() {
            at = PathBuf::from("/");
            about = at.symlink_metadata()?;
        }
    }
}

/// Puts the names of a path onto those that are still to go, the first on top.
fn push(left: &mut Vec<OsString>, path: &Path) {
    let names = path.components().filter_map(|part| match part {
        Component::Normal(name) => Some(name.to_owned()),
        Component::ParentDir => Some("..".into()),
        _ => None,
    });
    left.extend(names.collect::<Vec<_>>().into_iter().rev());
}

fn is_ours(about: &Metadata, is_trusted: &dyn Fn(u32) -> bool) -> bool {
    about.uid() == 0 || is_trusted(about.uid())
}

fn others(about: &Metadata, is_trusted: &dyn Fn(u32) -> bool) -> Option<Others> {
    // In a directory such as /tmp nobody moves what is not theirs.
    let is_sticky = about.is_dir() && about.mode() & STICKY != 0;
    if !is_ours(about, is_trusted) {
        Some(Others::Owner(about.uid()))
    } else if about.mode() & 0o002 != 0 && !is_sticky {
        Some(Others::All)
    } else if about.mode() & 0o020 != 0 && !is_sticky {
        Some(Others::Group(about.gid()))
    } else {
        None
    }
}

#[cfg(test)]
mod tests {
    use std::fs::{self, Permissions};
    use std::os::unix::fs::{PermissionsExt, symlink};

    use nix::unistd::getuid;

    use super::*;

    fn of(path: &Path) -> Option<Exposed> {
        exposed(path, &|uid| uid == getuid().as_raw()).expect("it is there")
    }

    #[test]
    fn the_whole_way_counts() {
        let tmp = tempfile::tempdir().expect("a directory");
        let dir = tmp.path().canonicalize().expect("there").join("a/b");
        fs::create_dir_all(&dir).expect("ours");
        let (upper, file) = (
            dir.parent().expect("a parent").to_owned(),
            dir.join("model"),
        );
        fs::write(&file, "x").expect("ours");
        let mode = |path: &Path, mode| {
            fs::set_permissions(path, Permissions::from_mode(mode)).expect("ours");
        };
        [&upper, &dir].into_iter().for_each(|dir| mode(dir, 0o755));
        mode(&file, 0o644);
        assert_eq!(of(&file), None);
        let exposed = |path: &Path, to| {
            Some(Exposed {
                path: path.to_owned(),
                to,
            })
        };
        let group = upper.metadata().expect("there").gid();
        for (path, bits, to) in [
            (&upper, 0o777, Some(Others::All)),
            (&dir, 0o775, Some(Others::Group(group))),
            (&file, 0o666, Some(Others::All)),
            (&file, 0o664, Some(Others::Group(group))),
            (&upper, 0o1777, None),
            (&dir, 0o1775, None),
            (&file, 0o1666, Some(Others::All)),
        ] {
            let before = path.metadata().expect("there").mode();
            mode(path, bits);
            assert_eq!(
                of(&file),
                to.and_then(|to| exposed(path, to)),
                "{} {bits:o}",
                path.display()
            );
            mode(path, before & 0o7777);
        }
        // A directory that holds nothing but a link, which is itself reached by a link.
        let (open, safe) = (
            tmp.path().canonicalize().expect("there").join("open"),
            dir.join("link"),
        );
        fs::create_dir(&open).expect("ours");
        symlink("../a/b/model", open.join("there")).expect("ours");
        symlink(open.join("there"), &safe).expect("ours");
        assert_eq!(of(&safe), None);
        mode(&open, 0o777);
        assert_eq!(of(&safe), exposed(&open, Others::All));
        assert_eq!(
            of(&open.join("..").join("a/b/model")),
            exposed(&open, Others::All)
        );
        symlink("round", dir.join("round")).expect("ours");
        assert!(super::exposed(&dir.join("round"), &|uid| uid == getuid().as_raw()).is_err());
        assert!(super::exposed(&dir.join("nothing"), &|_| true).is_err());
    }

    #[test]
    fn nobody_is_trusted_but_root_and_who_is_named() {
        let tmp = tempfile::tempdir().expect("a directory");
        let file = tmp.path().join("model");
        fs::write(&file, "x").expect("ours");
        if !getuid().is_root() {
            let found = exposed(&file, &|_| false)
                .expect("there")
                .expect("a stranger's");
            assert_eq!(found.to, Others::Owner(getuid().as_raw()));
            return;
        }
        std::os::unix::fs::chown(&file, Some(64_001), None).expect("root may");
        let found = exposed(&file, &|_| false)
            .expect("there")
            .expect("a stranger's");
        assert_eq!(
            (found.to, found.path.ends_with("model")),
            (Others::Owner(64_001), true)
        );
        assert_eq!(
            found.to_string(),
            format!("`{}` belongs to user id 64001", found.path.display())
        );
        assert_eq!(exposed(&file, &|uid| uid == 64_001).expect("there"), None);
    }
}
