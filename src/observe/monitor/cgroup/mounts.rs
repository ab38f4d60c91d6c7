//! Where cgroup hierarchies are mounted: `/proc/PID/mountinfo` (`proc(5)`).

use std::path::{Path, PathBuf};

use super::path::components;

/// One mount of a hierarchy.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Mount {
    /// Which directory of the hierarchy is seen at the mount point.
    root: String,
    point: PathBuf,
    /// Controllers of v1; empty for v2.
    controllers: Vec<String>,
}

/// Reads the cgroup mounts. Lines that are cut or odd are left out.
///
/// `36 23 0:30 / /sys/fs/cgroup/cpu rw,relatime shared:5 - cgroup cgroup rw,cpu,cpuacct`: the root is the fourth field,
/// the mount point the fifth, and after the lone `-` come type, source and options.
pub(super) fn read_mounts(text: &str) -> Vec<Mount> {
    text.lines().filter_map(read_line).collect()
}

fn read_line(line: &str) -> Option<Mount> {
    let (mount, file_system) = line.split_once(" - ")?;
    let mut mount = mount.split(' ').skip(3);
    let (root, point) = (unescaped(mount.next()?)?, unescaped(mount.next()?)?);
    let mut file_system = file_system.split(' ');
    let controllers = match file_system.next()? {
        "cgroup2" => Vec::new(),
        "cgroup" => file_system.nth(1)?.split(',').map(str::to_owned).collect(),
        _ => return None,
    };
    // A root outside this process's view is written with `..`.
    components(&root)?;
    components(&point)?;
    Some(Mount {
        root,
        point: point.into(),
        controllers,
    })
}

/// Undoes the kernel's escapes: `\040` for a space, likewise tab, line break and backslash.
fn unescaped(text: &str) -> Option<String> {
    let mut bytes = Vec::with_capacity(text.len());
    let mut rest = text.as_bytes();
    while let [first, tail @ ..] = rest {
        let octal = tail
            .get(..3)
            .filter(|_| *first == b'\\')
            .and_then(|digits| std::str::from_utf8(digits).ok());
        if let Some(byte) = octal.and_then(|digits| u8::from_str_radix(digits, 8).ok()) {
            bytes.push(byte);
            rest = tail.get(3..)?;
        } else {
            bytes.push(*first);
            rest = tail;
        }
    }
    String::from_utf8(bytes).ok()
}

impl Mount {
    /// True for the hierarchy of a controller of v1; `None` asks for v2.
    pub(super) fn has(&self, controller: Option<&str>) -> bool {
        match controller {
            Some(controller) => self.controllers.iter().any(|name| name == controller),
            None => self.controllers.is_empty(),
        }
    }

    /// Controllers of v1, and options that stand among them.
    pub(super) fn controllers(&self) -> &[String] {
        &self.controllers
    }

    pub(super) fn point(&self) -> &Path {
        &self.point
    }

    /// Where a job's directory is seen through this mount, for a process at `process_path` within it. Inside a container
    /// the mount may begin below the job's directory: then all that is seen of the job is the mount itself.
    pub(super) fn directory(&self, job_path: &str, process_path: &str) -> Option<PathBuf> {
        let root = self.root.trim_end_matches('/');
        if let Some(rest) = below(job_path, root) {
            return Some(if rest.is_empty() {
                self.point.clone()
            } else {
                self.point.join(rest)
            });
        }
        let begins_within = below(root, job_path).is_some() && below(process_path, root).is_some();
        begins_within.then(|| self.point.clone())
    }
}

/// What follows `parent` in `path`, without the separator; `None` where it does not lie there.
fn below<'a>(path: &'a str, parent: &str) -> Option<&'a str> {
    let rest = path.strip_prefix(parent)?;
    if rest.is_empty() {
        Some(rest)
    } else {
        rest.strip_prefix('/')
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn mounts_of_both_versions_are_read() {
        let text = "31 23 0:28 / /sys/fs/cgroup rw,relatime - tmpfs tmpfs rw,mode=755\n\
                    32 31 0:29 / /sys/fs/cgroup/cpu,cpuacct rw shared:9 master:1 - cgroup cgroup rw,cpu,cpuacct\n\
                    33 31 0:30 / /a\\040b\\134c rw - cgroup2 cgroup2 rw\n\
                    34 31 0:31 /../.. /x rw - cgroup2 cgroup2 rw\n\
                    35 31 0:32 / relative rw - cgroup2 cgroup2 rw\n\
                    36 31 0:33 / /cut rw - cgroup";
        let mounts = read_mounts(text);
        assert_eq!(mounts.len(), 2);
        assert!(
            mounts[0].has(Some("cpuacct"))
                && !mounts[0].has(Some("memory"))
                && !mounts[0].has(None)
        );
        assert!(mounts[1].has(None));
        assert_eq!(
            mounts[1].directory("/j/k", "/j/k"),
            Some(PathBuf::from("/a b\\c/j/k"))
        );
    }

    #[test]
    fn mount_that_begins_elsewhere_is_minded() {
        let mount = |root: &str| Mount {
            root: root.into(),
            point: "/m".into(),
            controllers: vec![],
        };
        let directory = |root: &str| mount(root).directory("/s/job_1", "/s/job_1/step_0/task_0");
        assert_eq!(directory("/s").as_deref(), Some(Path::new("/m/job_1")));
        assert_eq!(directory("/s/job_1").as_deref(), Some(Path::new("/m")));
        assert_eq!(
            directory("/s/job_1/step_0").as_deref(),
            Some(Path::new("/m"))
        );
        assert_eq!(directory("/s/job_1/step_9"), None);
        assert_eq!(directory("/s/job_11"), None);
        assert_eq!(directory("/other"), None);
    }
}
