//! How many CPUs the cgroups around a process let it keep busy.

use std::path::Path;

use super::locate::{mounts_in, paths_of};
use super::mounts::Mount;

/// The smallest quota of all cgroups around a process, in CPUs. `None`: there is none, or it is not seen from here.
pub(in crate::monitor) fn cpu_quota(pid: u32) -> Option<f64> {
    cpu_quota_in(Path::new("/proc"), pid)
}

fn cpu_quota_in(proc: &Path, pid: u32) -> Option<f64> {
    let mounts = mounts_in(proc).ok()?;
    let paths = paths_of(proc, pid).ok()?;
    let quotas = paths.iter().flat_map(|(controllers, path)| {
        let controller = if controllers.is_empty() { None } else { Some("cpu") };
        let is_it = controller.is_none() || controllers.split(',').any(|name| name == "cpu");
        let seen = mounts.iter().filter(move |mount| is_it && mount.has(controller));
        seen.filter_map(move |mount| smallest(mount, path))
    });
    quotas.reduce(f64::min)
}

/// The smallest quota from the process's own directory up to the mount.
fn smallest(mount: &Mount, path: &str) -> Option<f64> {
    let own = mount.directory(path, path)?;
    let up = own.ancestors().take_while(|directory| directory.starts_with(mount.point()));
    up.filter_map(|directory| quota_v2(directory).or_else(|| quota_v1(directory))).reduce(f64::min)
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
    cpus(read("cpu.cfs_quota_us")?.trim(), read("cpu.cfs_period_us")?.trim())
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
        let root = tempfile::tempdir().expect("a directory");
        let put = |name: &str, text: &str| {
            let path = root.path().join(name);
            fs::create_dir_all(path.parent().expect("a parent"))
                .and_then(|()| fs::write(path, text))
                .expect("ours");
        };
        let at = root.path().display();
        let mounts = format!(
            "30 23 0:1 / {at}/v2 rw - cgroup2 cgroup2 rw\n31 23 0:2 / {at}/cpu rw - cgroup cgroup rw,cpu,cpuacct\n"
        );
        put("proc/self/mountinfo", &mounts);
        put("proc/7/cgroup", cgroups);
        files.iter().for_each(|(name, text)| put(name, text));
        cpu_quota_in(&root.path().join("proc"), 7)
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
}
