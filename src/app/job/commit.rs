//! Which commit is checked out where a run's code lies.

use std::path::Path;
use std::sync::mpsc::channel;
use std::time::Duration;

use crate::foundation::command::Tool;
use crate::record::Revision;

/// A repository on a slow file system must not keep a submission waiting.
const LIMIT: Duration = Duration::from_secs(2);

/// The commit of the repository around `dir`, and whether files that it knows were changed. `None`: no repository, no git, no
/// commit yet, or no answer in 2 s. Files that git does not know are not looked for, which can take minutes.
pub(crate) fn revision(dir: &Path) -> Option<Revision> {
    let (sender, receiver) = channel();
    let dir = dir.to_owned();
    // On a thread: a look at a directory of an automounter, or of a dead server, may not come back.
    std::thread::spawn(move || {
        let _ = sender.send(ask(&dir));
    });
    receiver.recv_timeout(LIMIT).ok().flatten()
}

fn ask(dir: &Path) -> Option<Revision> {
    // Most directories are in no repository, and then no process is started.
    dir.ancestors().find(|dir| dir.join(".git").exists())?;
    let tool = Tool::new("git")
        // What a repository's own configuration would start.
        .args(["-c", "core.fsmonitor=false", "-C"])
        .arg(dir)
        .args([
            "status",
            "--porcelain=v2",
            "--branch",
            "--untracked-files=no",
            "--ignore-submodules=dirty",
        ])
        .env("GIT_OPTIONAL_LOCKS", "0")
        .env_remove_prefixes(&["GIT_DIR", "GIT_WORK_TREE", "GIT_INDEX_FILE"])
        .timeout(LIMIT);
    let output = tool.run().ok()?.require_success("git").ok()?;
    read(&output.stdout)
}

/// Reads `git status --porcelain=v2 --branch`.
fn read(text: &str) -> Option<Revision> {
    let header = |name: &str| {
        text.lines()
            .find_map(|line| line.strip_prefix(&format!("# branch.{name} ")))
    };
    let is_commit =
        |text: &&str| text.len() >= 40 && text.bytes().all(|byte| byte.is_ascii_hexdigit());
    Some(Revision {
        commit: header("oid").filter(is_commit)?.to_owned(),
        branch: header("head")
            .filter(|head| *head != "(detached)")
            .map(str::to_owned),
        dirty: text.lines().any(|line| !line.starts_with('#')),
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn commit_branch_and_changes_are_read() {
        let commit = "4b825dc642cb6eb9a060e54bf8d69288fbee4904";
        let clean =
            format!("# branch.oid {commit}\n# branch.head main\n# branch.upstream origin/main\n");
        let found = read(&clean).expect("a commit");
        assert_eq!(
            (found.commit.as_str(), found.branch.as_deref(), found.dirty),
            (commit, Some("main"), false)
        );
        let changed = format!(
            "# branch.oid {commit}\n# branch.head (detached)\n1 .M N... 100644 100644 1 2 a.py\n"
        );
        let found = read(&changed).expect("a commit");
        assert_eq!((found.branch, found.dirty), (None, true));
        assert_eq!(read("# branch.oid (initial)\n# branch.head main\n"), None);
    }
}
