//! The processes and directories of a cgroup.

use std::fs::{self, File};
use std::io;
use std::path::{Path, PathBuf};

use super::files::read_whole;

/// Deeper than any scheduler or container runtime goes.
const DEPTH_MAX: usize = 16;
const DIRECTORIES_MAX: usize = 1024;
/// Processes that are looked at; a job that has more is not measured by its processes but by its cgroup.
const PROCESSES_MAX: usize = 16 * 1024;

/// A directory and those below it, parents first, `limit` at most. Links are not followed.
pub(super) fn tree_of(root: &Path, limit: usize) -> Vec<PathBuf> {
    walk(root, limit, |_, _| true)
}

fn walk(root: &Path, limit: usize, wants: impl Fn(&Path, &Path) -> bool) -> Vec<PathBuf> {
    let mut found = vec![(root.to_path_buf(), 0)];
    let mut at = 0;
    while let Some((directory, depth)) = found.get(at).cloned() {
        at += 1;
        if depth >= DEPTH_MAX {
            continue;
        }
        for entry in fs::read_dir(&directory).into_iter().flatten().flatten() {
            if found.len() >= limit {
                break;
            }
            let path = entry.path();
            if entry.file_type().is_ok_and(|kind| kind.is_dir()) && wants(&directory, &path) {
                found.push((path, depth + 1));
            }
        }
    }
    found.into_iter().map(|(directory, _)| directory).collect()
}

/// Replaces `pids` by the processes of a cgroup and of those below it, but for Slurm's own in `step_S/slurm`.
///
/// # Errors
/// Where the directory itself cannot be read.
pub(crate) fn list_processes(
    root: &Path,
    buffer: &mut [u8],
    pids: &mut Vec<u32>,
) -> io::Result<()> {
    pids.clear();
    let is_of_job = |parent: &Path, path: &Path| {
        let name = |path: &Path| path.file_name().unwrap_or_default().to_owned();
        !(name(path) == "slurm" && name(parent).as_encoded_bytes().starts_with(b"step_"))
    };
    for directory in walk(root, DIRECTORIES_MAX, is_of_job) {
        let read =
            File::open(directory.join("cgroup.procs")).and_then(|file| read_whole(&file, buffer));
        match read {
            Ok(length) => pids.extend(read_pids(buffer.get(..length).unwrap_or_default())),
            Err(error) if directory == root => return Err(error),
            // It was removed meanwhile, or holds threads only.
            Err(_) => {}
        }
        if pids.len() >= PROCESSES_MAX {
            pids.truncate(PROCESSES_MAX);
            break;
        }
    }
    pids.sort_unstable();
    pids.dedup();
    Ok(())
}

/// One pid a line; 0 stands for a process outside this pid name space. A last line that is cut is left out.
fn read_pids(text: &[u8]) -> impl Iterator<Item = u32> {
    let whole = text
        .iter()
        .rposition(|byte| *byte == b'\n')
        .map_or(0, |end| end + 1);
    let lines = text
        .get(..whole)
        .unwrap_or_default()
        .split(|byte| *byte == b'\n');
    lines
        .filter_map(|line| std::str::from_utf8(line).ok()?.parse().ok())
        .filter(|pid| *pid != 0)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::observe::monitor::cgroup::files::new_buffer;

    #[test]
    fn processes_of_all_steps_are_listed_but_slurm_s_own() {
        let job = tempfile::tempdir().expect("a directory");
        let put = |name: &str, pids: &str| {
            let directory = job.path().join(name);
            fs::create_dir_all(&directory).expect("made");
            fs::write(directory.join("cgroup.procs"), pids).expect("written");
        };
        put("", "");
        put("step_0/user/task_0", "7\n8\n0\nx\n");
        put("step_0/slurm", "3\n");
        put("step_batch/user/task_0/slurm", "9\n7\n1");
        std::os::unix::fs::symlink(job.path(), job.path().join("step_0/loop")).expect("linked");
        let mut pids = vec![1];
        list_processes(job.path(), &mut new_buffer(), &mut pids).expect("listed");
        assert_eq!(pids, [7, 8, 9]);
        assert_eq!(tree_of(job.path(), 3).len(), 3);
        let gone = list_processes(&job.path().join("none"), &mut new_buffer(), &mut pids);
        assert!(gone.is_err() && pids.is_empty());
    }
}
