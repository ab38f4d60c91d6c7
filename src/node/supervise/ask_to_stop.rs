//! Passes a request to end early, which `dlrun sweep` writes into the run's directory, on to the program: as a file beside its
//! events, on a disk of the node. The state directory may hang, and a program that looked there would hang with it.

use std::time::Duration;

use super::events;
use super::handover::Handover;
use crate::record::rundir::StateDir;

/// Between two looks. Each is one file of the state directory that is nearly always missing.
const PAUSE: Duration = Duration::from_secs(2);

/// Waits for the request, on a separate thread, of a run that may get one.
pub(super) fn wait_to_pass_on(handover: &Handover) {
    let context = &handover.context;
    let may_come = context
        .plan
        .as_ref()
        .is_some_and(|plan| plan.may_be_asked_to_stop);
    let place = (&context.state_dir, &context.run_id, &handover.events);
    let (Some(dir), Some(run_id), Some(file)) = place else {
        return;
    };
    if !may_come {
        return;
    }
    let (dir, run_id, file) = (dir.clone(), run_id.clone(), file.clone());
    let looks = move || {
        loop {
            let run = StateDir::open(&dir).and_then(|state| state.run(&run_id));
            if run.is_ok_and(|run| run.is_asked_to_stop()) {
                // Where the program does not hear of it, it is cancelled.
                let _ = events::ask_to_stop(&file);
                return;
            }
            std::thread::sleep(PAUSE);
        }
    };
    let _ = std::thread::Builder::new().spawn(looks);
}
