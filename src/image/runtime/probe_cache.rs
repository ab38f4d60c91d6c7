//! What was found out about a node, kept on it: asking the runtime costs 41 ms at each start of a job.
//!
//! A small file in this user's own directory on a local disk. It holds as long as everything is as it was that the
//! answers depend on; a file that is damaged, of another format or of something else is as good as none.

use std::fs;
use std::os::unix::fs::MetadataExt;
use std::path::Path;

use nix::unistd::{UnlinkatFlags, gethostname, unlinkat};
use serde::{Deserialize, Serialize};

use crate::foundation::diagnostic::chain;
use crate::foundation::private::PrivateDir;
use crate::image::fingerprint::fingerprint;
use crate::image::runtime::apptainer::installation::Places;
use crate::image::runtime::apptainer::namespaces::Switches;
use crate::image::runtime::apptainer::subids::Ranges;
use crate::image::runtime::host_view::HostView;

/// Raised where [`Probed`] is found out in another way.
const FORMAT: u32 = 1;
const PREFIX: &str = "container-";
/// A command that is a script around the runtime does not change when the runtime does.
const AGE_MS: u64 = 24 * 3600 * 1000;
/// It has about 2 kB.
const LIMIT: usize = 64 << 10;

/// What costs processes to find out and stays as it is. What a few file-system calls tell is looked at again each time.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
pub(crate) struct Probed {
    /// What `--version` said, in one line.
    pub(crate) said: String,
    pub(crate) places: Places,
    pub(crate) namespaces_missing: Option<String>,
    pub(crate) ranges: Ranges,
}

/// What the answers depend on.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Key {
    format: u32,
    host: String,
    boot_id: String,
    uid: u32,
    command: String,
    switches: Switches,
    /// The command and each file that is read, as they are.
    files: Vec<Option<Mark>>,
}

/// Device, inode, size, and the times of the last change of content and of the inode, in seconds and nanoseconds.
type Mark = [i64; 7];

#[derive(Serialize, Deserialize)]
struct Kept {
    key: Key,
    /// When, in Unix milliseconds UTC.
    at_ms: u64,
    probed: Probed,
}

fn mark(path: &Path) -> Option<Mark> {
    let found = fs::metadata(path).ok()?;
    Some([
        found.dev().cast_signed(),
        found.ino().cast_signed(),
        found.size().cast_signed(),
        found.mtime(),
        found.mtime_nsec(),
        found.ctime(),
        found.ctime_nsec(),
    ])
}

impl Key {
    pub(crate) fn of(around: &HostView<'_>, command: &Path, uid: u32, switches: &Switches) -> Self {
        let files = [
            "etc/subuid",
            "etc/subgid",
            "etc/nsswitch.conf",
            "etc/apparmor.d",
        ]
        .map(|name| around.path(name));
        let host = gethostname()
            .map(|name| name.to_string_lossy().into_owned())
            .unwrap_or_default();
        Self {
            format: FORMAT,
            host,
            boot_id: around
                .text("proc/sys/kernel/random/boot_id")
                .unwrap_or_default()
                .trim()
                .to_owned(),
            uid,
            command: command.to_string_lossy().into_owned(),
            switches: switches.clone(),
            files: std::iter::once(command)
                .chain(files.iter().map(|file| file.as_path()))
                .map(mark)
                .collect(),
        }
    }

    /// A file for each runtime on each host: a disk that seems local may be shared by the nodes of a cluster.
    fn file_name(&self) -> String {
        let name = fingerprint(&format!("{}\n{}", self.host, self.command));
        format!("{PREFIX}{}.json", &name[..12])
    }
}

/// What was kept under this key within a day.
pub(crate) fn read(dir: &PrivateDir, key: &Key, now_ms: u64) -> Option<Probed> {
    let bytes = dir.read(&key.file_name(), LIMIT).ok()?;
    let kept: Kept = serde_json::from_slice(&bytes).ok()?;
    let age_ms = now_ms.checked_sub(kept.at_ms)?;
    (kept.key == *key && age_ms < AGE_MS).then_some(kept.probed)
}

/// Keeps it. That it cannot be kept costs time, and nothing else.
pub(crate) fn write(dir: &PrivateDir, key: &Key, probed: &Probed, now_ms: u64) {
    let kept = Kept {
        key: key.clone(),
        at_ms: now_ms,
        probed: probed.clone(),
    };
    let bytes = match serde_json::to_vec_pretty(&kept) {
        Ok(bytes) => bytes,
        Err(error) => return tracing::debug!(%error, "the node's facts are not kept"),
    };
    if let Err(error) = dir.replace(&key.file_name(), &bytes) {
        tracing::debug!(
            why = chain(&error).join(": "),
            "the node's facts are not kept"
        );
    }
    remove_old(dir);
}

/// Removes what holds no more: runtimes come and go with modules and paths.
fn remove_old(dir: &PrivateDir) {
    let names = dir.names().unwrap_or_default();
    for name in names
        .iter()
        .filter(|name| name.starts_with(PREFIX) || name.starts_with(&format!(".{PREFIX}")))
    {
        let found = fs::symlink_metadata(dir.path().join(name)).and_then(|found| found.modified());
        let age = found
            .ok()
            .and_then(|modified| modified.elapsed().ok())
            .unwrap_or_default();
        if age.as_millis() > u128::from(AGE_MS) {
            // Another process may have removed it.
            let _ = unlinkat(dir.fd(), name.as_str(), UnlinkatFlags::NoRemoveDir);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn key() -> Key {
        let around = HostView {
            root: Path::new("/"),
            variable: &|_| None,
            shared_tmp: None,
        };
        Key::of(&around, Path::new("/bin/sh"), 7, &Switches::read(&around))
    }

    #[test]
    fn it_holds_for_its_key_and_for_a_day() {
        let tmp = tempfile::tempdir().expect("a directory");
        let dir = PrivateDir::of_user(tmp.path()).expect("ours");
        let (key, probed) = (key(), Probed::default());
        assert!(key.files[0].is_some(), "the command's own mark");
        assert_eq!(read(&dir, &key, 1000), None);
        write(&dir, &key, &probed, 1000);
        assert_eq!(read(&dir, &key, 1000), Some(probed.clone()));
        assert_eq!(read(&dir, &key, 1000 + AGE_MS - 1), Some(probed));
        assert_eq!(read(&dir, &key, 1000 + AGE_MS), None);
        assert_eq!(read(&dir, &key, 999), None, "from the future");
        for other in [
            Key {
                format: FORMAT + 1,
                ..key.clone()
            },
            Key {
                boot_id: "another".into(),
                ..key.clone()
            },
            Key {
                uid: 8,
                ..key.clone()
            },
            Key {
                files: Vec::new(),
                ..key.clone()
            },
            Key {
                host: "another".into(),
                ..key.clone()
            },
        ] {
            assert_eq!(read(&dir, &other, 1000), None, "{other:?}");
        }
    }

    #[test]
    fn what_holds_no_more_is_removed_and_nothing_else() {
        let tmp = tempfile::tempdir().expect("a directory");
        let dir = PrivateDir::of_user(tmp.path()).expect("ours");
        let old = std::time::SystemTime::now() - std::time::Duration::from_millis(AGE_MS + 60_000);
        for name in [
            "container-old.json",
            ".container-old.json.0123",
            "dlrun-0.db",
        ] {
            let file = fs::File::create(dir.path().join(name)).expect("ours");
            file.set_modified(old).expect("ours");
        }
        fs::write(dir.path().join("container-new.json"), "").expect("ours");
        write(&dir, &key(), &Probed::default(), 1);
        let mut names = dir.names().expect("it can be listed");
        names.sort();
        let mut expected = vec![
            "container-new.json".to_owned(),
            key().file_name(),
            "dlrun-0.db".to_owned(),
        ];
        expected.sort();
        assert_eq!(names, expected);
    }

    #[test]
    fn damage_and_links_are_as_good_as_nothing() {
        let tmp = tempfile::tempdir().expect("a directory");
        let dir = PrivateDir::of_user(tmp.path()).expect("ours");
        let key = key();
        let path = dir.path().join(key.file_name());
        for bytes in [&b""[..], b"{}", b"[1,2", &[b' '; LIMIT + 1]] {
            fs::write(&path, bytes).expect("ours");
            assert_eq!(read(&dir, &key, 1), None);
        }
        write(&dir, &key, &Probed::default(), 1);
        assert!(read(&dir, &key, 1).is_some());
        let elsewhere = tmp.path().join("elsewhere");
        fs::rename(&path, &elsewhere).expect("ours");
        std::os::unix::fs::symlink(&elsewhere, &path).expect("ours");
        assert_eq!(read(&dir, &key, 1), None);
    }
}
