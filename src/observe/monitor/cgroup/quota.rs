//! How many CPUs the cgroups around a process let it keep busy.

use std::path::Path;

use super::locate::{mounts_in, paths_of};

/// The smallest quota of all cgroups around a process, in CPUs. `None`: there is none, or it is not seen from here.
pub(crate) fn cpu_quota(pid: u32) -> Option<f64> {
    cpu_quota_in(Path::new("/proc"), pid)
}

fn cpu_quota_in(proc: &Path, pid: u32) -> Option<f64> {
    limits(proc, pid, "cpu", |directory| {
        quota_v2(directory).or_else(|| quota_v1(directory))
    })
    .reduce(f64::min)
}

/// Memory that the cgroups around a process leave it, in bytes, with what the kernel could take from caches. `None`: they have
/// no limit, or it is not seen from here.
pub(crate) fn memory_left(pid: u32) -> Option<u64> {
    memory_left_in(Path::new("/proc"), pid)
}

/// The smallest memory limit of all cgroups around a process, in bytes. `None`: there is none, or it is not seen from here.
pub(crate) fn memory_limit(pid: u32) -> Option<u64> {
    let limit = |directory: &Path| {
        MEMORY.iter().find_map(|(limit, ..)| {
            let text = std::fs::read_to_string(directory.join(limit)).ok()?;
            // In v1 no limit is a number near 2^63.
            text.trim().parse().ok().filter(|limit| *limit < 1 << 60)
        })
    };
    limits(Path::new("/proc"), pid, "memory", limit).min()
}

fn memory_left_in(proc: &Path, pid: u32) -> Option<u64> {
    limits(proc, pid, "memory", left_in).min()
}

/// What `read` finds in the directories of a controller, from the process's own up to the mount.
fn limits<T>(
    proc: &Path,
    pid: u32,
    controller: &str,
    read: impl Fn(&Path) -> Option<T>,
) -> impl Iterator<Item = T> {
    let mounts = mounts_in(proc).unwrap_or_default();
    let paths = paths_of(proc, pid).unwrap_or_default();
    let mut found = Vec::new();
    for (controllers, path) in paths {
        let of = (!controllers.is_empty()).then_some(controller);
        if of.is_some() && !controllers.split(',').any(|name| name == controller) {
            continue;
        }
        for mount in mounts.iter().filter(|mount| mount.has(of)) {
            let Some(own) = mount.directory(&path, &path) else {
                continue;
            };
            let up = own
                .ancestors()
                .take_while(|directory| directory.starts_with(mount.point()));
            found.extend(up.filter_map(&read));
        }
    }
    found.into_iter()
}

/// Of v2 and v1: the file of the limit, in bytes or `max`, that of what is used, and lines of `memory.stat` that are pages of
/// files.
const MEMORY: [(&str, &str, [&str; 2]); 2] = [
    (
        "memory.max",
        "memory.current",
        ["inactive_file", "active_file"],
    ),
    (
        "memory.limit_in_bytes",
        "memory.usage_in_bytes",
        ["total_inactive_file", "total_active_file"],
    ),
];

fn left_in(directory: &Path) -> Option<u64> {
    let read = |name: &str| std::fs::read_to_string(directory.join(name)).ok();
    MEMORY.iter().find_map(|(limit, used, cached)| {
        let limit: u64 = read(limit)?.trim().parse().ok()?;
        let used: u64 = read(used)?.trim().parse().ok()?;
        let cached = read("memory.stat").map_or(0, |stat| sum_of(&stat, *cached));
        // In v1 no limit is a number near 2^63.
        (limit < 1 << 60).then(|| limit.saturating_sub(used.saturating_sub(cached)))
    })
}

/// The sum of lines `NAME VALUE`.
fn sum_of(stat: &str, names: [&str; 2]) -> u64 {
    let lines = stat.lines().filter_map(|line| line.split_once(' '));
    let values = lines
        .filter(|(name, _)| names.contains(name))
        .filter_map(|(_, value)| value.trim().parse().ok());
    values.fold(0, u64::saturating_add)
}

/// `cpu.max` of v2: `QUOTA PERIOD` in microseconds, or `max PERIOD`.
fn quota_v2(directory: &Path) -> Option<f64> {
    let text = std::fs::read_to_string(directory.join("cpu.max")).ok()?;
    let (quota, period) = text.trim().split_once(' ')?;
    cpus(quota, period)
}

/// `cpu.cfs_quota_us` and `cpu.cfs_period_us` of v1; -1 is no quota.
fn quota_v1(directory: &Path) -> Option<f64> {
    let read = |name: &str| std::fs::read_to_string(directory.join(name)).ok();
    cpus(
        read("cpu.cfs_quota_us")?.trim(),
        read("cpu.cfs_period_us")?.trim(),
    )
}

fn cpus(quota: &str, period: &str) -> Option<f64> {
    let (quota, period): (u32, u32) = (quota.parse().ok()?, period.parse().ok()?);
    (quota > 0 && period > 0).then(|| f64::from(quota) / f64::from(period))
}

#[cfg(test)]
mod tests {
    use std::fs;

    use super::*;

    fn quota(cgroups: &str, files: &[(&str, &str)]) -> Option<f64> {
        let root = machine(cgroups, files);
        cpu_quota_in(&root.path().join("proc"), 7)
    }

    fn left(cgroups: &str, files: &[(&str, &str)]) -> Option<u64> {
        let root = machine(cgroups, files);
        memory_left_in(&root.path().join("proc"), 7)
    }

    /// What a machine with both versions shows of process 7.
    fn machine(cgroups: &str, files: &[(&str, &str)]) -> tempfile::TempDir {
        let root = tempfile::tempdir().expect("a directory");
        let put = |name: &str, text: &str| {
            let path = root.path().join(name);
            fs::create_dir_all(path.parent().expect("a parent"))
                .and_then(|()| fs::write(path, text))
                .expect("ours");
        };
        let at = root.path().display();
        let mounts = format!(
            "30 23 0:1 / {at}/v2 rw - cgroup2 cgroup2 rw\n31 23 0:2 / {at}/cpu rw - cgroup cgroup rw,cpu,cpuacct\n\
             32 23 0:3 / {at}/memory rw - cgroup cgroup rw,memory\n"
        );
        put("proc/self/mountinfo", &mounts);
        put("proc/7/cgroup", cgroups);
        files.iter().for_each(|(name, text)| put(name, text));
        root
    }

    #[test]
    fn the_smallest_quota_on_the_way_up_counts() {
        let v2 = [
            ("v2/a/b/c/cpu.max", "max 100000\n"),
            ("v2/a/b/cpu.max", "150000 100000\n"),
            ("v2/a/cpu.max", "4 1\n"),
        ];
        assert_eq!(quota("0::/a/b/c\n", &v2), Some(1.5));
        let v1 = [
            ("cpu/job/cpu.cfs_quota_us", "50000\n"),
            ("cpu/job/cpu.cfs_period_us", "100000\n"),
            ("cpu/cpu.cfs_quota_us", "-1\n"),
            ("cpu/cpu.cfs_period_us", "100000\n"),
        ];
        assert_eq!(quota("4:cpu,cpuacct:/job\n0::/\n", &v1), Some(0.5));
        assert_eq!(quota("4:cpuset:/job\n0::/x\n", &v1), None);
        assert_eq!(quota("0::/a\n", &[("v2/a/cpu.max", "0 0\n")]), None);
        assert_eq!(quota("nonsense", &v2), None);
    }

    #[test]
    fn the_least_memory_that_is_left_on_the_way_up_counts() {
        let v2 = [
            ("v2/a/b/memory.max", "max\n"),
            ("v2/a/b/memory.current", "5\n"),
            ("v2/a/memory.max", "1000\n"),
            ("v2/a/memory.current", "900\n"),
            (
                "v2/a/memory.stat",
                "anon 600\ninactive_file 200\nactive_file 100\n",
            ),
        ];
        assert_eq!(left("0::/a/b\n", &v2), Some(400));
        assert_eq!(left("0::/a/b\n", &v2[..2]), None);
        let v1 = [
            ("memory/job/memory.limit_in_bytes", "1000\n"),
            ("memory/job/memory.usage_in_bytes", "1200\n"),
            ("memory/memory.limit_in_bytes", "9223372036854771712\n"),
            ("memory/memory.usage_in_bytes", "5\n"),
        ];
        assert_eq!(left("4:memory:/job\n0::/\n", &v1), Some(0));
        assert_eq!(left("4:memory:/\n", &v1), None);
    }
}
