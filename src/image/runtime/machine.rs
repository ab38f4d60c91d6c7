//! This machine as one that runs images.

use std::collections::BTreeSet;

use crate::image::catalogue::Accelerator;
use crate::image::choice::capability_of;
use crate::image::runtime::gpus;
use crate::image::runtime::host_view::HostView;

/// This machine, where local jobs run.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct ThisMachine {
    /// As `uname -m` has it; empty: not known.
    pub arch: String,
    /// `flags` of `/proc/cpuinfo`.
    pub features: BTreeSet<String>,
    /// Version of the NVIDIA driver.
    pub driver: Option<String>,
    /// Compute capabilities of its NVIDIA GPUs, as far as their names tell.
    pub capabilities: Vec<String>,
    /// Whose GPUs it has; [`Accelerator::None`]: no driver is found.
    pub accelerator: Accelerator,
}

/// Looks at this machine's processor and GPUs, in files of the kernel alone.
#[must_use]
pub fn this_machine(around: &HostView<'_>) -> ThisMachine {
    let found = gpus::gpu_facts(around, false);
    let accelerator = match (&found.nvidia_driver, found.nvidia_device, found.amd_device) {
        (Some(_), ..) | (None, true, _) => Accelerator::Nvidia,
        (None, false, true) => Accelerator::Amd,
        (None, false, false) => Accelerator::None,
    };
    let arch = nix::sys::utsname::uname().map(|name| name.machine().to_string_lossy().into_owned());
    ThisMachine {
        arch: arch.unwrap_or_default(),
        features: features(&around.text("proc/cpuinfo").unwrap_or_default()),
        driver: found
            .nvidia_driver
            .filter(|driver| driver.starts_with(|c: char| c.is_ascii_digit())),
        capabilities: capabilities(around),
        accelerator,
    }
}

/// By the models that the driver names, in `/proc/driver/nvidia/gpus/*/information`.
fn capabilities(around: &HostView<'_>) -> Vec<String> {
    let gpus = std::fs::read_dir(around.path("proc/driver/nvidia/gpus"))
        .into_iter()
        .flatten()
        .flatten();
    let model = |gpu: std::fs::DirEntry| {
        let text = std::fs::read_to_string(gpu.path().join("information")).ok()?;
        let name = text.lines().find_map(|line| line.strip_prefix("Model:"))?;
        capability_of(name).map(str::to_owned)
    };
    let found: BTreeSet<String> = gpus.filter_map(model).collect();
    found.into_iter().collect()
}

/// `flags` of the first processor, which x86 has.
fn features(cpuinfo: &str) -> BTreeSet<String> {
    let mut lines = cpuinfo.lines().filter_map(|line| line.split_once(':'));
    let flags = lines.find(|(key, _)| key.trim() == "flags");
    let words = flags.map_or("", |(_, words)| words);
    words.split_whitespace().map(str::to_owned).collect()
}

#[cfg(test)]
mod tests {
    use std::fs;
    use std::path::Path;

    use super::*;

    fn seen(root: &Path) -> ThisMachine {
        this_machine(&HostView {
            root,
            variable: &|_| None,
        })
    }

    #[test]
    fn processor_and_driver_are_read_from_the_kernels_files() {
        let root = tempfile::tempdir().expect("a directory");
        let nothing = seen(root.path());
        assert_eq!(
            (nothing.features.len(), nothing.driver, nothing.accelerator),
            (0, None, Accelerator::None)
        );
        assert!(!nothing.arch.is_empty());
        let put = |name: &str, text: &str| {
            let path = root.path().join(name);
            fs::create_dir_all(path.parent().expect("a parent")).expect("a directory");
            fs::write(path, text).expect("a file");
        };
        put(
            "proc/cpuinfo",
            "processor\t: 0\nflags\t\t: fpu avx2 fma\n\nprocessor\t: 1\nflags\t\t: fpu\n",
        );
        put("dev/kfd", "");
        let amd = seen(root.path());
        assert!(
            amd.features.contains("avx2") && amd.features.len() == 3,
            "{amd:?}"
        );
        assert_eq!(amd.accelerator, Accelerator::Amd);
        put(
            "proc/driver/nvidia/version",
            "NVRM version: NVIDIA UNIX x86_64 Kernel Module  550.54.15  Tue\n",
        );
        put(
            "proc/driver/nvidia/gpus/0000:1a:00.0/information",
            "Model: \t\t Tesla V100-SXM2-32GB\nIRQ: 32\n",
        );
        let nvidia = seen(root.path());
        assert_eq!(nvidia.capabilities, ["7.0"]);
        assert_eq!(
            (nvidia.accelerator, nvidia.driver.as_deref()),
            (Accelerator::Nvidia, Some("550.54.15"))
        );
    }
}
