//! Another number of nodes: `dlrun scale` is waited for.

use std::sync::mpsc::{Receiver, channel};
use std::time::Duration;

use super::handover::Handover;
use crate::record::rundir::{Attempt, StateDir};

/// Between two looks whether another number of nodes was asked for.
pub(super) const SCALE_PAUSE: Duration = Duration::from_secs(3);

/// Waits for `dlrun scale`, of a run that may have other sizes. On a thread: the state directory may hang.
pub(super) fn wait_for_scale(handover: &Handover) -> Option<Receiver<()>> {
    let context = &handover.context;
    context.plan.as_ref()?.elastic.as_ref()?;
    let (dir, run_id) = (context.state_dir.clone()?, context.run_id.clone()?);
    let attempt = Attempt {
        element: context.element,
        attempt: context.attempt,
    };
    let (sender, receiver) = channel();
    let looks = move || {
        loop {
            std::thread::sleep(SCALE_PAUSE);
            let run = StateDir::open(&dir).and_then(|state| state.run(&run_id));
            let Ok(run) = run else { continue };
            // Nearly always nobody asked, and one file is missing.
            if run.scale().is_none() {
                continue;
            }
            let begun = run.marks(attempt).outcome.attempt;
            if run.scale_since(begun.as_ref()).is_some() {
                let _ = sender.send(());
                return;
            }
        }
    };
    std::thread::Builder::new().spawn(looks).ok()?;
    Some(receiver)
}
