//! How large the last-level caches of the machine are, by `/sys/devices/system/cpu` (`sysfs-devices-system-cpu` of the kernel's
//! ABI documentation).

use std::collections::BTreeSet;
use std::fs;
use std::path::{Path, PathBuf};

/// Where CPUs are described.
pub(super) const CPUS: &str = "/sys/devices/system/cpu";

/// All caches of the highest level together, in bytes. `None` where the kernel does not tell, as in some virtual machines.
pub(super) fn last_level_bytes(cpus: &Path) -> Option<u64> {
    // Each cache once: it is described at every CPU that shares it.
    let caches: BTreeSet<(u32, String, u64)> = entries(cpus)
        .flat_map(|cpu| entries(&cpu.join("cache")))
        .filter_map(|cache| described(&cache))
        .collect();
    let highest = caches.last()?.0;
    let last_level = caches.iter().filter(|(level, ..)| *level == highest);
    Some(last_level.map(|(.., bytes)| bytes).sum()).filter(|bytes| *bytes > 0)
}

fn entries(dir: &Path) -> impl Iterator<Item = PathBuf> + use<> {
    let entries = fs::read_dir(dir).into_iter().flatten().flatten();
    entries.map(|entry| entry.path())
}

/// Level, sharers and size of one that holds data.
fn described(dir: &Path) -> Option<(u32, String, u64)> {
    let read = |name: &str| Some(fs::read_to_string(dir.join(name)).ok()?.trim().to_owned());
    if read("type")? == "Instruction" {
        return None;
    }
    let kib: u64 = read("size")?.strip_suffix('K')?.parse().ok()?;
    Some((
        read("level")?.parse().ok()?,
        read("shared_cpu_list")?,
        kib.checked_mul(1024)?,
    ))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_last_level_cache_counts_once() {
        let root = tempfile::tempdir().expect("a directory");
        let put = |cpu: u32, index: u32, level: &str, of: &str, size: &str, shared: &str| {
            let dir = root.path().join(format!("cpu{cpu}/cache/index{index}"));
            fs::create_dir_all(&dir).expect("ours");
            for (name, text) in [
                ("level", level),
                ("type", of),
                ("size", size),
                ("shared_cpu_list", shared),
            ] {
                fs::write(dir.join(name), format!("{text}\n")).expect("ours");
            }
        };
        for cpu in 0..4 {
            put(cpu, 0, "1", "Data", "32K", &cpu.to_string());
            put(cpu, 1, "1", "Instruction", "64K", &cpu.to_string());
            put(
                cpu,
                3,
                "3",
                "Unified",
                "16384K",
                if cpu < 2 { "0-1" } else { "2-3" },
            );
        }
        fs::create_dir_all(root.path().join("cpufreq")).expect("ours");
        assert_eq!(last_level_bytes(root.path()), Some(32 << 20));
        put(0, 3, "4", "Instruction", "16384K", "0");
        put(1, 3, "3", "Unified", "many", "0-1");
        assert_eq!(last_level_bytes(root.path()), Some(16 << 20));
        assert_eq!(last_level_bytes(Path::new("/nonexistent")), None);
    }
}
