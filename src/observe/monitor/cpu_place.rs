//! Where CPUs lie: which of them are one core, and which share a NUMA node.

use std::fs;
use std::path::Path;

/// CPUs in an order in which equal parts, one behind the other, share neither cores nor, where it can be helped, NUMA nodes: by NUMA
/// node, by core, by number. The kernel's numbers may alternate between sockets, and those of a core's second threads come last.
/// `sys` is `/sys`; what it does not say is in the order of the numbers.
#[must_use]
pub fn by_place(mut cpus: Vec<usize>, sys: &Path) -> Vec<usize> {
    cpus.sort_by_cached_key(|cpu| {
        let dir = sys.join(format!("devices/system/cpu/cpu{cpu}"));
        (numa_node(&dir), first_thread(&dir).unwrap_or(*cpu), *cpu)
    });
    cpus
}

/// `node1` is a link in the CPU's directory.
fn numa_node(dir: &Path) -> Option<usize> {
    let mut entries = fs::read_dir(dir).ok()?.flatten();
    entries.find_map(|entry| {
        let name = entry.file_name();
        name.to_str()?.strip_prefix("node")?.parse().ok()
    })
}

/// The lowest number of the CPUs of its core: `3` of `3,67` or `3-4`.
fn first_thread(dir: &Path) -> Option<usize> {
    let list = fs::read_to_string(dir.join("topology/thread_siblings_list")).ok()?;
    list.split([',', '-', '\n']).next()?.parse().ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn threads_of_a_core_and_cpus_of_a_numa_node_stand_together() {
        let sys = tempfile::tempdir().expect("a directory");
        // Two sockets that alternate, two cores each, the second threads from 4 on.
        for cpu in 0..8 {
            let dir = sys.path().join(format!("devices/system/cpu/cpu{cpu}"));
            fs::create_dir_all(dir.join(format!("node{}", cpu % 2))).expect("ours");
            fs::create_dir_all(dir.join("topology")).expect("ours");
            let list = format!("{},{}\n", cpu % 4, cpu % 4 + 4);
            fs::write(dir.join("topology/thread_siblings_list"), list).expect("ours");
        }
        let all = || (0..8).rev().collect();
        assert_eq!(by_place(all(), sys.path()), [0, 4, 2, 6, 1, 5, 3, 7]);
        let unknown = sys.path().join("none");
        assert_eq!(by_place(all(), &unknown), [0, 1, 2, 3, 4, 5, 6, 7]);
    }
}
