//! Which GPUs a job was given, from what its environment says.

use std::path::Path;

use crate::job::SchedulerVariables;
use crate::record::GpuFacts;

/// Names GPUs by the numbers that the job sees, and binds before those that go by the node's.
const CUDA: &str = "CUDA_VISIBLE_DEVICES";
/// That of NVIDIA's container runtime, after the scheduler's.
const NVIDIA: &str = "NVIDIA_VISIBLE_DEVICES";
/// Words that mean "none": CUDA's, Slurm's, and those of NVIDIA's container runtime.
const NONE: [&str; 4] = ["-1", "NoDevFiles", "none", "void"];
/// Whether NVIDIA's driver is loaded, so that its library is worth loading. `root` is `/`.
#[must_use]
pub fn gpu_driver_present(root: &Path) -> bool {
    root.join("dev/nvidiactl").exists() || root.join("proc/driver/nvidia").exists()
}

/// UUIDs of the GPUs that an environment gives to a job, out of `devices`, which are those that a reader finds inside
/// that job. `None`: the environment does not say.
///
/// Where the job's cgroup hides the other GPUs, those in the job are numbered from 0, while Slurm's own variables keep
/// the numbers of the node.
#[must_use]
pub fn allocated_gpus(
    variable: impl Fn(&str) -> Option<String>,
    devices: &[impl AsRef<GpuFacts>],
) -> Option<Vec<String>> {
    let devices: Vec<&GpuFacts> = devices.iter().map(AsRef::as_ref).collect();
    let named = |name: &str, of_node| Some(named_gpus(variable(name)?.trim(), of_node, &devices));
    let of_schedulers = SchedulerVariables::ALL.into_iter();
    named(CUDA, false).or_else(|| {
        let mut of_node = of_schedulers
            .flat_map(|variables| variables.gpus)
            .chain([&NVIDIA]);
        of_node.find_map(|name| named(name, true))
    })
}

fn named_gpus(list: &str, of_node: bool, devices: &[&GpuFacts]) -> Vec<String> {
    let whole: Vec<&GpuFacts> = devices
        .iter()
        .filter(|gpu| gpu.parent.is_none())
        .copied()
        .collect();
    let words: Vec<&str> = list
        .split(',')
        .map(str::trim)
        .filter(|word| !word.is_empty())
        .collect();
    if list == "all" || hides_the_others(&words, &whole, of_node) {
        return whole.iter().flat_map(|gpu| usable(gpu, devices)).collect();
    }
    let mut found: Vec<String> = Vec::new();
    for word in words {
        // CUDA ignores what follows a name that it does not know.
        let Some(uuid) = named_gpu(word, of_node, &whole, devices) else {
            break;
        };
        if !found.contains(&uuid) {
            found.push(uuid);
        }
    }
    found
}

/// Numbers of the node that do not fit the GPUs in the job, but are as many: the job sees these GPUs and no other.
fn hides_the_others(words: &[&str], whole: &[&GpuFacts], of_node: bool) -> bool {
    let numbers: Option<Vec<u32>> = words.iter().map(|word| word.parse().ok()).collect();
    let Some(numbers) =
        numbers.filter(|numbers| !numbers.is_empty() && numbers.len() == whole.len())
    else {
        return false;
    };
    let fits = |number: &u32| usize::try_from(*number).is_ok_and(|at| at < whole.len());
    of_node || !numbers.iter().all(fits)
}

fn named_gpu(
    word: &str,
    of_node: bool,
    whole: &[&GpuFacts],
    devices: &[&GpuFacts],
) -> Option<String> {
    if NONE.contains(&word) {
        return None;
    }
    if word.starts_with("GPU-") || word.starts_with("MIG-") {
        // CUDA takes the beginning of a UUID, as long as only one GPU has it.
        let mut with = devices.iter().filter(|gpu| gpu.uuid.starts_with(word));
        return with
            .next()
            .filter(|_| with.next().is_none())
            .map(|gpu| gpu.uuid.clone());
    }
    // `GPU:SLICE`, or a GPU.
    let (number, slice) = word.split_once(':').unwrap_or((word, "0"));
    let number: u32 = number.parse().ok()?;
    let by_minor = whole
        .iter()
        .find(|gpu| of_node && gpu.minor == Some(number));
    let gpu = by_minor.or_else(|| whole.get(usize::try_from(number).ok()?))?;
    usable(gpu, devices).into_iter().nth(slice.parse().ok()?)
}

/// A GPU, or the slices that it is divided into.
fn usable(gpu: &GpuFacts, devices: &[&GpuFacts]) -> Vec<String> {
    let slices = devices
        .iter()
        .filter(|slice| slice.parent.as_deref() == Some(gpu.uuid.as_str()));
    let slices: Vec<String> = slices.map(|slice| slice.uuid.clone()).collect();
    if slices.is_empty() {
        vec![gpu.uuid.clone()]
    } else {
        slices
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::sync::Arc;

    fn gpu(uuid: &str, minor: u32) -> Arc<GpuFacts> {
        Arc::new(GpuFacts {
            uuid: uuid.into(),
            minor: Some(minor),
            ..GpuFacts::default()
        })
    }

    fn slice(uuid: &str, parent: &str) -> Arc<GpuFacts> {
        Arc::new(GpuFacts {
            uuid: uuid.into(),
            parent: Some(parent.into()),
            ..GpuFacts::default()
        })
    }

    #[track_caller]
    fn gives(devices: &[Arc<GpuFacts>], variables: &[(&str, &str)], expected: Option<&[&str]>) {
        let variable = |name: &str| {
            variables
                .iter()
                .find(|(known, _)| *known == name)
                .map(|(_, value)| (*value).to_owned())
        };
        let found = allocated_gpus(variable, devices);
        assert_eq!(
            found
                .as_ref()
                .map(|found| found.iter().map(String::as_str).collect::<Vec<_>>())
                .as_deref(),
            expected,
            "{variables:?}"
        );
    }

    #[test]
    fn numbers_and_uuids_name_gpus() {
        let four = ["GPU-a0", "GPU-a1", "GPU-b2", "GPU-b3"].map(|uuid| uuid.to_owned());
        let four: Vec<_> = (0..)
            .zip(four)
            .map(|(minor, uuid)| gpu(&uuid, minor))
            .collect();
        let cuda = |value, expected: &[&str]| {
            gives(&four, &[("CUDA_VISIBLE_DEVICES", value)], Some(expected))
        };
        cuda("1,3", &["GPU-a1", "GPU-b3"]);
        cuda("GPU-b3, GPU-a0", &["GPU-b3", "GPU-a0"]);
        cuda("GPU-a1,GPU-b", &["GPU-a1"]);
        cuda("0,7,1", &["GPU-a0"]);
        cuda("2,-1,1", &["GPU-b2"]);
        for none in ["", "-1", "NoDevFiles", "none", "void"] {
            cuda(none, &[]);
        }
        gives(&four, &[], None);
        gives(
            &four,
            &[("NVIDIA_VISIBLE_DEVICES", "all")],
            Some(&["GPU-a0", "GPU-a1", "GPU-b2", "GPU-b3"]),
        );
        let both = [("SLURM_JOB_GPUS", "0,1"), ("SLURM_STEP_GPUS", "2")];
        gives(&four, &both, Some(&["GPU-b2"]));
    }

    #[test]
    fn numbers_of_the_node_mean_the_visible_gpus_where_the_others_are_hidden() {
        let inside = [gpu("GPU-2", 2), gpu("GPU-3", 3)];
        gives(
            &inside,
            &[("SLURM_JOB_GPUS", "2,3")],
            Some(&["GPU-2", "GPU-3"]),
        );
        gives(&inside, &[("SLURM_STEP_GPUS", "3")], Some(&["GPU-3"]));
        gives(
            &inside,
            &[("CUDA_VISIBLE_DEVICES", "2,3")],
            Some(&["GPU-2", "GPU-3"]),
        );
        gives(
            &inside,
            &[("CUDA_VISIBLE_DEVICES", "1,0")],
            Some(&["GPU-3", "GPU-2"]),
        );
    }

    #[test]
    fn slices_stand_for_a_divided_gpu() {
        let devices = [
            gpu("GPU-0", 0),
            slice("MIG-x", "GPU-0"),
            slice("MIG-y", "GPU-0"),
            gpu("GPU-1", 1),
        ];
        gives(
            &devices,
            &[("CUDA_VISIBLE_DEVICES", "MIG-y")],
            Some(&["MIG-y"]),
        );
        gives(&devices, &[("CUDA_VISIBLE_DEVICES", "0")], Some(&["MIG-x"]));
        gives(
            &devices,
            &[("NVIDIA_VISIBLE_DEVICES", "0:1,1")],
            Some(&["MIG-y", "GPU-1"]),
        );
        gives(
            &devices,
            &[("SLURM_JOB_GPUS", "0,1")],
            Some(&["MIG-x", "MIG-y", "GPU-1"]),
        );
    }

    #[test]
    fn the_driver_is_there_when_one_of_its_files_is() {
        for (file, present) in [
            ("dev/null", false),
            ("dev/nvidiactl", true),
            ("proc/driver/nvidia/version", true),
        ] {
            let root = tempfile::tempdir().expect("a directory");
            let path = root.path().join(file);
            std::fs::create_dir_all(path.parent().expect("a parent")).expect("it is ours");
            std::fs::write(path, "").expect("it is ours");
            assert_eq!(gpu_driver_present(root.path()), present, "{file}");
        }
    }
}
