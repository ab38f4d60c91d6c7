//! A run that may have more nodes looks for free ones, where its job file says so (`elastic.grow_after`).
//!
//! Another dlrun looks, which knows the scheduler. It ends by itself; what it asks for comes back like `dlrun scale`.

use std::time::{Duration, Instant};

use super::context::Context;
use crate::foundation::command::Tool;

/// Between two looks.
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
