//! Under what conditions a run is timed: its CPUs, what its directories lie on, what else the node does. Read at the
//! start, at each writing of the record, and at the end; nothing here belongs into a tick.

use std::fs::File;
use std::os::fd::AsRawFd;
use std::os::unix::fs::OpenOptionsExt;
use std::path::Path;

use nix::fcntl::OFlag;

use super::cgroup;
use super::process::Units;
use crate::foundation::filesystem::{FileSystem, text_within};

/// More than the kernel ever writes.
const STATUS_BYTES_MAX: u64 = 1 << 20;
const MOUNTS_BYTES_MAX: u64 = 8 << 20;
/// The line that is wanted is the first; the rest, interrupts by number, is long on large machines.
const STAT_BYTES_MAX: u64 = 4096;

/// The CPUs that a process may run on, as the kernel lists them (`0-3,8`), and how many these are. `None`: it is gone.
#[must_use]
pub fn affinity(pid: u32) -> Option<(String, u64)> {
    affinity_in(Path::new("/proc"), pid)
}

fn affinity_in(proc: &Path, pid: u32) -> Option<(String, u64)> {
    let status = read_text(&proc.join(pid.to_string()).join("status"), STATUS_BYTES_MAX)?;
    let list = status
        .lines()
        .find_map(|line| line.strip_prefix("Cpus_allowed_list:"))?
        .trim();
    Some((list.to_owned(), count_of(list)?))
}

/// How many CPUs a list such as `0-3,8` names.
fn count_of(list: &str) -> Option<u64> {
    let count = |range: &str| {
        let (first, last) = range.split_once('-').unwrap_or((range, range));
        let (first, last): (u64, u64) = (first.parse().ok()?, last.parse().ok()?);
        (last - first.min(last))
            .checked_add(1)
            .filter(|_| first <= last)
    };
    list.split(',')
        .map(count)
        .try_fold(0u64, |sum, count| sum.checked_add(count?))
}

/// CPUs that a process can keep busy: those it may run on, or fewer where a cgroup around it has a quota.
#[must_use]
pub fn cpus_effective(pid: u32) -> Option<f64> {
    let (_, allowed) = affinity(pid)?;
    #[expect(clippy::cast_precision_loss, reason = "no machine has 2^53 CPUs")]
    let allowed = allowed as f64;
    Some(cgroup::cpu_quota(pid).map_or(allowed, |quota| quota.min(allowed)))
}

/// Memory that a process may take without harm to others, in bytes: what the kernel could give (`MemAvailable`), or less where
/// the cgroups around it leave less.
#[must_use]
pub fn memory_available(pid: u32) -> Option<u64> {
    let of_node = available_bytes(&read_text(Path::new("/proc/meminfo"), STATUS_BYTES_MAX)?)?;
    Some(cgroup::memory_left(pid).map_or(of_node, |left| left.min(of_node)))
}

/// `MemAvailable:   22702000 kB`.
fn available_bytes(meminfo: &str) -> Option<u64> {
    let line = meminfo
        .lines()
        .find_map(|line| line.strip_prefix("MemAvailable:"))?;
    let kib: u64 = line.trim().strip_suffix("kB")?.trim().parse().ok()?;
    kib.checked_mul(1024)
}

/// The kind of file system that something lies on, in the kernel's word: `nfs4`, `lustre`, `tmpfs`, `ext4`, ... It may
/// block for ever where a server does not answer, so it is asked on a thread that nobody waits for.
#[must_use]
pub fn storage_class(path: &Path) -> Option<String> {
    let flags = (OFlag::O_PATH | OFlag::O_CLOEXEC).bits();
    let file = File::options()
        .read(true)
        .custom_flags(flags)
        .open(path)
        .ok()?;
    let info = read_text(
        Path::new(&format!("/proc/self/fdinfo/{}", file.as_raw_fd())),
        STATUS_BYTES_MAX,
    );
    let mount = info
        .as_deref()
        .and_then(|info| info.lines().find_map(|line| line.strip_prefix("mnt_id:")));
    let mounts = || read_text(Path::new("/proc/self/mountinfo"), MOUNTS_BYTES_MAX);
    let of_mount = mount.and_then(|mount| type_of_mount(&mounts()?, mount.trim()));
    of_mount.or_else(|| FileSystem::of(&file).ok()?.name.map(str::to_owned))
}

/// `36 23 0:30 / /scratch rw,relatime shared:5 - nfs4 server:/x rw`: the number of the mount is the first field, its type
/// the first after the lone `-` (`proc(5)`).
fn type_of_mount(mounts: &str, number: &str) -> Option<String> {
    let line = mounts
        .lines()
        .find(|line| line.split(' ').next() == Some(number))?;
    let class = line.split_once(" - ")?.1.split(' ').next()?;
    (!class.is_empty()).then(|| class.to_owned())
}

/// CPU time that all CPUs of the node were busy since boot, and what a hypervisor took from them, which is not in it, in
/// microseconds.
#[must_use]
pub fn node_cpu_us() -> Option<(u64, u64)> {
    let (busy, stolen) = cpu_ticks(&read_text(Path::new("/proc/stat"), STAT_BYTES_MAX)?)?;
    let units = Units::of_system();
    Some((units.us(busy), units.us(stolen)))
}

/// Busy and stolen, of `cpu  USER NICE SYSTEM IDLE IOWAIT IRQ SOFTIRQ STEAL ...`; user time has the guests' in it (`proc(5)`).
fn cpu_ticks(stat: &str) -> Option<(u64, u64)> {
    let mut fields = stat
        .lines()
        .next()?
        .strip_prefix("cpu ")?
        .split_ascii_whitespace();
    let mut next = || fields.next()?.parse::<u64>().ok();
    let (user, nice, system, _idle, _iowait) = (next()?, next()?, next()?, next()?, next()?);
    let interrupts = next().unwrap_or(0).saturating_add(next().unwrap_or(0));
    let busy = user
        .saturating_add(nice)
        .saturating_add(system)
        .saturating_add(interrupts);
    Some((busy, next().unwrap_or(0)))
}

fn read_text(path: &Path, limit: u64) -> Option<String> {
    text_within(path, limit).ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn cpus_are_counted() {
        let counts = [
            ("0-3,8", Some(5)),
            ("0", Some(1)),
            ("5-4", None),
            ("", None),
            ("a", None),
            ("0-", None),
        ];
        for (list, count) in counts {
            assert_eq!(count_of(list), count, "{list}");
        }
        assert_eq!(count_of(&format!("0-{}", u64::MAX)), None);
        let pid = std::process::id();
        let (list, count) = affinity(pid).expect("this process runs");
        assert!(count >= 1 && !list.is_empty());
        let effective = cpus_effective(pid).expect("this process runs");
        assert!(effective > 0.0 && cpus_effective(0).is_none());
    }

    #[test]
    fn mounts_tell_the_kind_of_storage() {
        let mounts = "23 1 8:1 / / rw - ext4 /dev/sda1 rw\n\
                      236 23 0:30 / /a\\040-\\040b rw shared:5 - nfs4 server:/x rw\n36 23 0:30 / /cut rw\n";
        assert_eq!(type_of_mount(mounts, "23").as_deref(), Some("ext4"));
        assert_eq!(type_of_mount(mounts, "236").as_deref(), Some("nfs4"));
        assert_eq!(
            (type_of_mount(mounts, "36"), type_of_mount(mounts, "9")),
            (None, None)
        );
        assert_eq!(
            storage_class(Path::new("/proc/self/status")).as_deref(),
            Some("proc")
        );
        assert_eq!(storage_class(Path::new("/no/such/place")), None);
    }

    #[test]
    fn busy_is_what_is_neither_idle_nor_stolen() {
        assert_eq!(
            cpu_ticks("cpu  10 2 3 1000 50 4 5 600 7 8\ncpu0 1 1\n"),
            Some((24, 600))
        );
        assert_eq!(
            (cpu_ticks("cpu  1 2 3 4 5\n"), cpu_ticks("cpu  1 2\n")),
            (Some((6, 0)), None)
        );
        assert!(node_cpu_us().expect("/proc/stat").0 > 0);
    }

    #[test]
    fn available_memory_is_what_the_kernel_could_give() {
        let text = "MemTotal: 8 kB\nMemFree: 1 kB\nMemAvailable:    4096 kB\n";
        assert_eq!(
            (available_bytes(text), available_bytes("MemTotal: 8 kB\n")),
            (Some(4 << 20), None)
        );
        assert!(memory_available(std::process::id()).expect("/proc/meminfo") > 0);
    }
}
