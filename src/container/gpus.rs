//! What a node has of GPU drivers, and by which variables a job was given GPUs.

use std::time::Duration;

use super::surroundings::Surroundings;
use crate::command::{Tool, find_in};
use crate::flags::GpuFacts;

const PATIENCE: Duration = Duration::from_secs(5);

/// Variables by which schedulers and users give GPUs to a job.
///
/// Not `NVIDIA_VISIBLE_DEVICES`: images with CUDA set it to `all` where there is no GPU, so a node that is itself such a
/// container would promise what nobody has.
const VARIABLES: [&str; 9] = [
    "CUDA_VISIBLE_DEVICES",
    "SLURM_STEP_GPUS",
    "SLURM_JOB_GPUS",
    "SLURM_GPUS_ON_NODE",
    "SLURM_GPUS",
    "ROCR_VISIBLE_DEVICES",
    "HIP_VISIBLE_DEVICES",
    "GPU_DEVICE_ORDINAL",
    GPU_FILE,
];
/// Torque's file of the job's GPUs, a line for each: it is there for every job, and empty without GPUs.
const GPU_FILE: &str = "PBS_GPUFILE";
/// Words that mean "none": CUDA's, Slurm's, and those of NVIDIA's container runtime.
const NONE: [&str; 5] = ["", "-1", "NoDevFiles", "none", "void"];

/// Looks at the node. `gpus_wanted`: whether the library is worth asking the linker's cache for (a few milliseconds).
pub(super) fn look(around: &Surroundings<'_>, gpus_wanted: bool) -> GpuFacts {
    GpuFacts {
        nvidia_device: around.path("dev/nvidiactl").exists(),
        nvidia_driver: around.text("proc/driver/nvidia/version").ok().map(|text| driver_version(&text)),
        cuda_library: if gpus_wanted { knows_cuda(around) } else { None },
        amd_device: around.path("dev/kfd").exists(),
        granted_by: granted_by(around),
    }
}

/// `NVRM version: NVIDIA UNIX x86_64 Kernel Module  550.54.15  Tue Mar  5 22:23:56 UTC 2024`, or with
/// `Open Kernel Module for x86_64`; the first word that is a number with points.
fn driver_version(text: &str) -> String {
    let is_version = |word: &&str| {
        word.contains('.')
            && word.split('.').all(|part| !part.is_empty() && part.bytes().all(|byte| byte.is_ascii_digit()))
    };
    let line = text.lines().find(|line| line.starts_with("NVRM version")).unwrap_or(text);
    line.split_whitespace().find(is_version).unwrap_or("unknown").to_owned()
}

/// Whether the linker's cache, which is where `--nv` looks, has CUDA's library; `None`: it cannot be asked.
fn knows_cuda(around: &Surroundings<'_>) -> Option<bool> {
    let dirs = around.helper_dirs(None);
    // Ubuntu's `ldconfig` is a script around this one.
    let tool = find_in("ldconfig.real", &dirs).or_else(|| find_in("ldconfig", &dirs))?;
    let output = Tool::new(tool).arg("-p").timeout(PATIENCE).output_limit(16 << 20).run().ok()?;
    let said = output.status.success().then_some(output.stdout)?;
    Some(said.lines().any(|line| line.trim_start().starts_with("libcuda.so.1 ")))
}

fn granted_by(around: &Surroundings<'_>) -> Vec<(String, String)> {
    let value = |name: &str| Some((around.variable)(name)?.to_string_lossy().trim().to_owned());
    let grants = |name: &str, value: &str| match name {
        GPU_FILE => std::fs::metadata(value).is_ok_and(|found| found.is_file() && found.len() > 0),
        // A count, not a list.
        "SLURM_GPUS_ON_NODE" | "SLURM_GPUS" => value != "0" && !value.is_empty(),
        _ => !NONE.contains(&value),
    };
    let set = VARIABLES.iter().filter_map(|name| Some(((*name).to_owned(), value(name)?)));
    set.filter(|(name, value)| grants(name, value)).collect()
}
