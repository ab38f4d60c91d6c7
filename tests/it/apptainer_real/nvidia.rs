//! GPUs in containers, on a machine that has none: see [`Driver`].

use super::driver::Driver;
use super::place::{base_sif, listed, runtime};

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
    let (image, runtime) = (image.to_str().expect("text"), runtime.to_str().expect("text"));
    let look = |driver: &Driver| driver.run(&user, &[runtime, "exec", "--nv", image, "sh", "-c", LOOK]).ok();
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
        assert!(!part.contains("library libcuda") && !part.contains("GPU-real"), "{part}");
    }
}
