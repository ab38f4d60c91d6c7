//! What a node has of GPU drivers, and by which variables a job was given GPUs.

use std::time::Duration;

use crate::foundation::command::{Tool, find_in};
use crate::image::flags::GpuFacts;
use crate::image::runtime::host_view::HostView;
use crate::job::SchedulerVariables;

const PATIENCE: Duration = Duration::from_secs(5);

/// The variable of CUDA by which schedulers and users give GPUs to a job, before all others.
///
/// Not `NVIDIA_VISIBLE_DEVICES`: images with CUDA set it to `all` where there is no GPU, so a node that is itself such a
/// container would promise what nobody has.
const CUDA: &str = "CUDA_VISIBLE_DEVICES";
/// Those of other makers, after the scheduler's.
const OTHERS: [&str; 3] = [
    "ROCR_VISIBLE_DEVICES",
    "HIP_VISIBLE_DEVICES",
    "GPU_DEVICE_ORDINAL",
];

/// Looks at the node. `gpus_wanted`: whether the library is worth asking the linker's cache for (a few milliseconds).
pub(crate) fn gpu_facts(around: &HostView<'_>, gpus_wanted: bool) -> GpuFacts {
    GpuFacts {
        nvidia_device: around.path("dev/nvidiactl").exists(),
        nvidia_driver: around
            .text("proc/driver/nvidia/version")
            .ok()
            .map(|text| driver_version(&text)),
        cuda_library: if gpus_wanted {
            knows_cuda(around)
        } else {
            None
        },
        amd_device: around.path("dev/kfd").exists(),
        granted_by: granted_by(around),
    }
}

/// `NVRM version: NVIDIA UNIX x86_64 Kernel Module  550.54.15  Tue Mar  5 22:23:56 UTC 2024`, or with
/// `Open Kernel Module for x86_64`; the first word that is a number with points.
fn driver_version(text: &str) -> String {
    let is_version = |word: &&str| {
        word.contains('.')
            && word
                .split('.')
                .all(|part| !part.is_empty() && part.bytes().all(|byte| byte.is_ascii_digit()))
    };
    let line = text
        .lines()
        .find(|line| line.starts_with("NVRM version"))
        .unwrap_or(text);
    line.split_whitespace()
        .find(is_version)
        .unwrap_or("unknown")
        .to_owned()
}

/// Whether the linker's cache, which is where `--nv` looks, has CUDA's library; `None`: it cannot be asked.
fn knows_cuda(around: &HostView<'_>) -> Option<bool> {
    let dirs = around.helper_dirs(None);
    // Ubuntu's `ldconfig` is a script around this one.
    let tool = find_in("ldconfig.real", &dirs).or_else(|| find_in("ldconfig", &dirs))?;
    let output = Tool::new(tool)
        .arg("-p")
        .timeout(PATIENCE)
        .output_limit(16 << 20)
        .run()
        .ok()?;
    let said = output.status.success().then_some(output.stdout)?;
    Some(
        said.lines()
            .any(|line| line.trim_start().starts_with("libcuda.so.1 ")),
    )
}

/// Also the masks that name no GPU: the rules tell what they mean.
fn granted_by(around: &HostView<'_>) -> Vec<(String, String)> {
    let value = |name: &str| Some((around.variable)(name)?.to_string_lossy().trim().to_owned());
    let has_lines =
        |file: &str| std::fs::metadata(file).is_ok_and(|found| found.is_file() && found.len() > 0);
    let all = SchedulerVariables::ALL.into_iter();
    let of_schedulers = all
        .clone()
        .flat_map(|variables| variables.gpus.iter().chain(variables.gpu_counts));
    let names = [CUDA].iter().chain(of_schedulers).chain(&OTHERS);
    let set = names.filter_map(|name| Some(((*name).to_owned(), value(name)?)));
    let files = all.filter_map(|variables| {
        let name = variables.gpu_file?;
        Some((name.to_owned(), value(name).filter(|file| has_lines(file))?))
    });
    set.chain(files).collect()
}

#[cfg(test)]
mod tests {
    use std::ffi::OsString;
    use std::fs;
    use std::path::Path;

    use super::*;

    fn put(root: &Path, name: &str, text: &str) {
        let path = root.join(name);
        fs::create_dir_all(path.parent().expect("it has one")).expect("ours");
        fs::write(path, text).expect("ours");
    }

    fn found(root: &Path, variables: &[(&str, &str)]) -> GpuFacts {
        let variable = |name: &str| {
            variables
                .iter()
                .find(|(known, _)| *known == name)
                .map(|(_, value)| OsString::from(value))
        };
        gpu_facts(
            &HostView {
                root,
                variable: &variable,
            },
            false,
        )
    }

    #[test]
    fn devices_and_drivers_are_seen() {
        let root = tempfile::tempdir().expect("a directory");
        assert_eq!(found(root.path(), &[]), GpuFacts::default());
        put(root.path(), "dev/nvidiactl", "");
        put(root.path(), "dev/kfd", "");
        put(
            root.path(),
            "proc/driver/nvidia/version",
            "NVRM version: x 550.54.15 y\nGCC version: gcc 12.2.0\n",
        );
        let facts = found(root.path(), &[]);
        assert!(
            facts.nvidia_device && facts.amd_device && facts.cuda_library.is_none(),
            "{facts:?}"
        );
        assert_eq!(facts.nvidia_driver.as_deref(), Some("550.54.15"));
    }

    #[test]
    fn the_drivers_version_is_read_from_each_of_its_kinds() {
        for (text, version) in [
            (
                "NVRM version: NVIDIA UNIX x86_64 Kernel Module  550.54.15  Tue Mar  5 22:23:56 UTC 2024",
                "550.54.15",
            ),
            (
                "NVRM version: NVIDIA UNIX Open Kernel Module for x86_64  570.86.15  Release Build  (a@b)",
                "570.86.15",
            ),
            (
                "NVRM version: NVIDIA UNIX x86_64 Kernel Module  470.82",
                "470.82",
            ),
            ("", "unknown"),
            ("v1.x ... 3.", "unknown"),
        ] {
            assert_eq!(driver_version(text), version, "{text}");
        }
    }

    #[test]
    fn variables_that_give_or_hide_gpus_are_told() {
        let root = tempfile::tempdir().expect("a directory");
        put(root.path(), "none", "");
        put(root.path(), "some", "node1-gpu0\n");
        let (none, some) = (root.path().join("none"), root.path().join("some"));
        let (none, some) = (none.to_str().expect("text"), some.to_str().expect("text"));
        for (name, value, is_told) in [
            ("CUDA_VISIBLE_DEVICES", "0,1", true),
            ("CUDA_VISIBLE_DEVICES", "GPU-1234", true),
            ("CUDA_VISIBLE_DEVICES", "", true),
            ("CUDA_VISIBLE_DEVICES", "NoDevFiles", true),
            ("CUDA_VISIBLE_DEVICES", "-1", true),
            ("SLURM_JOB_GPUS", "0", true),
            ("SLURM_STEP_GPUS", "3", true),
            ("SLURM_GPUS_ON_NODE", "0", true),
            ("SLURM_GPUS_ON_NODE", "2", true),
            ("ROCR_VISIBLE_DEVICES", "0", true),
            ("PBS_GPUFILE", none, false),
            ("PBS_GPUFILE", some, true),
            ("PBS_GPUFILE", "/nonexistent", false),
            ("NVIDIA_VISIBLE_DEVICES", "all", false),
        ] {
            let expected = if is_told {
                vec![(name.to_owned(), value.to_owned())]
            } else {
                Vec::new()
            };
            assert_eq!(
                found(root.path(), &[(name, value)]).granted_by,
                expected,
                "{name}={value}"
            );
        }
    }

    #[test]
    fn the_linkers_cache_is_asked_only_where_gpus_are_wanted() {
        use std::os::unix::fs::PermissionsExt;
        let root = tempfile::tempdir().expect("a directory");
        let path = root.path().as_os_str().to_owned();
        let variable = |name: &str| (name == "PATH").then(|| path.clone());
        let around = HostView {
            root: root.path(),
            variable: &variable,
        };
        assert_eq!(
            (
                gpu_facts(&around, false).cuda_library,
                gpu_facts(&around, true).cuda_library
            ),
            (None, None)
        );
        for (line, known) in [
            (
                "\tlibcuda.so.1 (libc6,x86-64) => /lib/x86_64-linux-gnu/libcuda.so.1",
                true,
            ),
            (
                "\tlibcudart.so.12 (libc6,x86-64) => /lib/libcudart.so.12",
                false,
            ),
            ("\tlibcuda.so (libc6,x86-64) => /lib/libcuda.so", false),
        ] {
            put(
                root.path(),
                "ldconfig",
                &format!("#!/bin/sh\n[ \"$1\" = -p ] && echo '{line}'\n"),
            );
            fs::set_permissions(
                root.path().join("ldconfig"),
                PermissionsExt::from_mode(0o755),
            )
            .expect("ours");
            assert_eq!(gpu_facts(&around, true).cuda_library, Some(known), "{line}");
            assert_eq!(gpu_facts(&around, false).cuda_library, None);
        }
    }
}
