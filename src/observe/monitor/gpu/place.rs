//! Where a GPU lies in its machine, by `/sys/bus/pci/devices` (`sysfs-bus-pci` of the kernel's ABI documentation).

use std::fs;
use std::path::Path;

use crate::record::GpuPlace;

/// Where the GPU of an NVML bus id, such as `00000000:19:00.0`, lies. `sys` is `/sys`.
pub(super) fn place(pci_bus_id: &str, sys: &Path) -> GpuPlace {
    let id = pci_bus_id.to_lowercase();
    // NVML writes the domain with eight digits, the kernel with four.
    let short = id.strip_prefix("0000").filter(|rest| rest.len() == 12);
    let dir = sys.join("bus/pci/devices").join(short.unwrap_or(&id));
    let read = |name: &str| {
        let text = fs::read_to_string(dir.join(name)).ok()?;
        Some(text.trim().to_owned()).filter(|text| !text.is_empty())
    };
    GpuPlace {
        // -1: the firmware does not say.
        numa_node: read("numa_node").and_then(|node| node.parse().ok()),
        near_cpus: read("local_cpulist"),
        nvlinks: None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn node_and_cpus_are_those_of_the_kernel_and_what_it_does_not_say_is_absent() {
        let sys = tempfile::tempdir().expect("a directory");
        let put = |id: &str, node: &str, cpus: &str| {
            let dir = sys.path().join("bus/pci/devices").join(id);
            fs::create_dir_all(&dir).expect("ours");
            fs::write(dir.join("numa_node"), format!("{node}\n")).expect("ours");
            fs::write(dir.join("local_cpulist"), format!("{cpus}\n")).expect("ours");
        };
        put("0000:ca:00.0", "1", "32-63,96-127");
        put("0000:01:00.0", "-1", "0-7");
        put("10000:01:00.0", "0", "");
        let of = |id: &str| {
            let place = place(id, sys.path());
            (place.numa_node, place.near_cpus)
        };
        let cpus = |text: &str| Some(text.to_owned());
        assert_eq!(of("00000000:CA:00.0"), (Some(1), cpus("32-63,96-127")));
        assert_eq!(of("00000000:01:00.0"), (None, cpus("0-7")));
        assert_eq!(of("10000:01:00.0"), (Some(0), None));
        assert_eq!(of("00000000:02:00.0"), (None, None));
    }
}
