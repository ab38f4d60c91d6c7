//! Another number of nodes: `dlrun scale` is waited for, and a run that may have more looks for free ones, where its job file says so
//! (`elastic.grow_after`).
//!
//! Another dlrun looks, which knows the scheduler. It ends by itself; what it asks for comes back like `dlrun scale`.

use std::sync::mpsc::{Receiver, channel};
use std::time::{Duration, Instant};

use super::context::Context;
use super::handover::Handover;
use crate::foundation::command::Tool;
use crate::record::rundir::{Attempt, StateDir};

/// Between two looks whether another number of nodes was asked for.
pub(super) const SCALE_PAUSE: Duration = Duration::from_secs(3);
/// Between two looks for free nodes.
const PAUSE: Duration = Duration::from_secs(300);
/// How long one may take.
const PATIENCE: Duration = Duration::from_secs(60);

/// Looks for free nodes.
pub(super) struct Grower {
    /// `None`: never.
    due: Option<Instant>,
}

impl Grower {
    /// For a start that has just begun, on the node of its batch script.
    pub(super) fn of(context: &Context) -> Self {
        let plan = context.plan.as_ref().filter(|_| context.is_batch_node());
        let elastic = plan.and_then(|plan| plan.elastic.as_ref());
        let after = elastic.and_then(|elastic| elastic.grow_after);
        Self {
            due: after.map(|after| Instant::now() + Duration::from_secs(after.0)),
        }
    }

    /// When there is something to do; `None`: never.
    pub(super) fn due(&self) -> Option<Instant> {
        self.due
    }

    /// Looks, where it is time. On a thread: a controller may be slow.
    pub(super) fn tend(&mut self, now: Instant) {
        if self.due.is_none_or(|due| now < due) {
            return;
        }
        self.due = Some(now + PAUSE);
        let look = || {
            let tool = Tool::new("/proc/self/exe").args(["exec", "--grow"]);
            let _ = tool.timeout(PATIENCE).run();
        };
        let _ = std::thread::Builder::new().spawn(look);
    }
}

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
