//! GPUs in containers, on a machine that has none: see [`Driver`].

use serde_json::{Value, json};

use super::driver::Driver;
use super::place::{base_sif, listed, runtime};
use crate::slurm_real::cluster::User;

/// Prints what a container has of a driver: libraries, devices, the tool's answer, the mask.
const LOOK: &str = r#"ls /.singularity.d/libs | grep -E '^lib(cuda|nvidia)' | sed 's/^/library /'
for device in /dev/nvidia*; do [ ! -e "$device" ] || echo "device $device"; done
echo "tool $(nvidia-smi -L 2>&1)"
echo "mask ${CUDA_VISIBLE_DEVICES-unset}"
"#;

#[test]
#[ignore = "needs Apptainer: run tests/run"]
fn the_stand_in_is_a_driver_to_the_runtime() {
    let user = listed();
    let (image, runtime) = (base_sif(), runtime());
    let (image, runtime) = (
        image.to_str().expect("text"),
        runtime.to_str().expect("text"),
    );
    let look = |driver: &Driver| {
        driver
            .run(&user, &[runtime, "exec", "--nv", image, "sh", "-c", LOOK])
            .ok()
    };
    let whole = look(&Driver::whole());
    for line in [
        "library libcuda.so.1\n",
        "library libnvidia-ml.so.1\n",
        "device /dev/nvidiactl\n",
        "(UUID: GPU-real)",
    ] {
        assert!(whole.contains(line), "{line}{whole}");
    }
    for driver in [Driver::without_libraries(), Driver::none()] {
        let part = look(&driver);
        assert!(
            !part.contains("library libcuda") && !part.contains("GPU-real"),
            "{part}"
        );
    }
}

/// A run on this machine: what the job said, dlrun's exit code, and the node's record.
struct Run {
    code: i32,
    stderr: String,
    output: String,
    node: Value,
}

impl Run {
    /// Submits a job that looks for GPUs; `more` stands after `[image]`'s path.
    fn of(driver: &Driver, user: &User, gpus: u32, more: &str) -> Self {
        let gpus = if gpus > 0 {
            format!("[resources]\ngpus_per_node = {gpus}\n")
        } else {
            String::new()
        };
        let (image, command) = (json!(base_sif()), json!(["sh", "-c", LOOK]));
        let text = format!("[run]\ncommand = {command}\n{gpus}[image]\npath = {image}\n{more}\n");
        let file = user.write("look.toml", &text);
        let dlrun = user.binary().to_str().expect("text");
        let submitted = driver.run(
            user,
            &[
                dlrun,
                "--json",
                "submit",
                "--wait",
                file.to_str().expect("text"),
            ],
        );
        let shown = driver.run(user, &[dlrun, "--json", "show", "@1"]).result();
        let output = shown["run"]["output"].as_str().expect("a file").to_owned();
        Self {
            code: submitted.code,
            stderr: submitted.stderr,
            output: std::fs::read_to_string(output).expect("the job's output"),
            node: shown["nodes"][0].clone(),
        }
    }

    fn words(&self) -> Vec<&str> {
        let words = self.node["container"]["words"]
            .as_array()
            .into_iter()
            .flatten();
        words.map(|word| word.as_str().expect("a word")).collect()
    }

    fn said(&self, line: &str) -> bool {
        self.output.lines().any(|said| said == line)
    }

    /// Why a flag was given or left out.
    fn why(&self, flag: &str) -> String {
        let flags = self.node["container"]["flags"]
            .as_array()
            .into_iter()
            .flatten();
        let found = flags.into_iter().find(|reason| reason["flag"] == flag);
        found
            .map(|reason| reason["why"].as_str().expect("text").to_owned())
            .unwrap_or_default()
    }
}

/// The ordinary user, whose jobs run here.
fn here() -> User {
    let mut user = listed();
    user.set("DLRUN_SCHEDULER__KIND", "local");
    user
}

#[test]
#[ignore = "needs Apptainer: run tests/run"]
fn a_job_with_gpus_gets_the_driver_and_its_mask() {
    let (driver, mut user) = (Driver::whole(), here());
    user.set("CUDA_VISIBLE_DEVICES", "0");
    for more in ["", "cleanenv = true"] {
        let run = Run::of(&driver, &user, 1, more);
        assert_eq!(run.code, 0, "{}{}", run.stderr, run.output);
        for line in [
            "library libcuda.so.1",
            "library libnvidia-ml.so.1",
            "device /dev/nvidia0",
            "mask 0",
        ] {
            assert!(run.said(line), "{more}: no {line:?} in\n{}", run.output);
        }
        assert!(
            run.said("tool GPU 0: Fake (UUID: GPU-real)"),
            "{}",
            run.output
        );
        assert!(
            run.words().contains(&"--nv") && !run.words().contains(&"--rocm"),
            "{}",
            run.node
        );
        assert!(
            run.why("--nv").contains("CUDA_VISIBLE_DEVICES=0"),
            "{}",
            run.node
        );
        assert_eq!(run.node["container"]["gpu_missing"], Value::Null);
        // What the monitor reads is the same driver.
        assert_eq!(run.node["gpus"][0]["uuid"], "GPU-real", "{}", run.node);
    }
}

#[test]
#[ignore = "needs Apptainer: run tests/run"]
fn a_job_without_gpus_gets_no_flag() {
    let without = Run::of(&Driver::none(), &here(), 0, "");
    let mut user = here();
    user.set("CUDA_VISIBLE_DEVICES", "");
    let masked = Run::of(&Driver::whole(), &user, 0, "");
    for run in [without, masked] {
        assert_eq!(run.code, 0, "{}{}", run.stderr, run.output);
        assert!(
            !run.words().contains(&"--nv") && !run.words().contains(&"--rocm"),
            "{}",
            run.node
        );
        assert!(!run.output.contains("library libcuda"), "{}", run.output);
        assert_eq!(run.node["container"]["gpu_missing"], Value::Null);
        assert!(!run.stderr.contains("GPU"), "{}", run.stderr);
    }
}

#[test]
#[ignore = "needs Apptainer: run tests/run"]
fn gpus_that_do_not_work_are_said_loudly_and_the_run_goes_on() {
    for driver in [Driver::none(), Driver::without_libraries()] {
        let run = Run::of(&driver, &here(), 1, "");
        assert_eq!(run.code, 0, "{}{}", run.stderr, run.output);
        assert!(
            run.output.contains("dlrun: warning: ") && run.output.contains("mask "),
            "{}",
            run.output
        );
        assert!(
            run.node["container"]["gpu_missing"].is_string(),
            "{}",
            run.node
        );
        let events = run.node["events"].as_array().expect("a list");
        assert!(
            events.iter().any(|event| event["kind"] == "gpu_missing"),
            "{events:?}"
        );
    }
}

#[test]
#[ignore = "needs Apptainer: run tests/run"]
fn require_gpu_starts_nothing_without_a_driver() {
    for driver in [Driver::none(), Driver::without_libraries()] {
        let run = Run::of(&driver, &here(), 1, "require_gpu = true");
        assert_eq!(run.code, 10, "{}{}", run.stderr, run.output);
        assert!(
            !run.output.contains("mask "),
            "the command ran: {}",
            run.output
        );
        assert!(run.output.contains("require_gpu"), "{}", run.output);
        assert!(run.node["container"]["failure"].is_string(), "{}", run.node);
    }
}
