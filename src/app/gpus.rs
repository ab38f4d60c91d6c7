//! Asks the driver of this machine's GPUs once.

use std::path::Path;
use std::time::{Duration, Instant};

use crate::observe::monitor::{GpuCondition, GpuReport, GpuWatch, WatchPace, gpu_driver_present};

/// How long a driver may take: one that is not kept loaded needs seconds.
const PATIENCE: Duration = Duration::from_secs(3);
const PAUSE: Duration = Duration::from_millis(50);

/// What the driver says, once every GPU has answered or time is over; it is opened in a thread that may hang. `None`: there is no
/// driver, and no `library` was named.
pub(crate) fn settled(library: Option<&Path>) -> Option<GpuReport> {
    if library.is_none() && !gpu_driver_present(Path::new("/")) {
        return None;
    }
    let watch = GpuWatch::nvidia(library.map(Path::to_owned), WatchPace::default());
    let latest = Instant::now() + PATIENCE;
    // That the driver has not answered yet is what every watch says at first.
    let first = watch.latest().missing;
    loop {
        let report = watch.latest();
        let waits = report
            .gpus
            .iter()
            .any(|gpu| gpu.condition == GpuCondition::Waiting);
        let answered = report.missing.is_none() || report.missing != first;
        if (answered && !waits) || Instant::now() >= latest {
            return Some(report);
        }
        std::thread::sleep(PAUSE);
    }
}
