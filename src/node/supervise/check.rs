//! Whether a node is fit for a start, asked before its command of a separate process ([`crate::node::check`]): a disk or a driver may
//! hang, and nothing of that may hold up the job.

use std::time::Duration;

use super::context::Context;
use crate::foundation::command::{CommandError, Stream, Tool};
use crate::job::NodeCheck;
use crate::node::check::{AT, BAD};

/// By it `dlrun ranks` learns why its node is not fit.
pub(super) const VARIABLE: &str = "DLRUN_UNFIT";
/// How long all of it may take.
const LIMIT: Duration = Duration::from_secs(20);
/// What a process that hangs is left, from TERM to KILL.
const GRACE: Duration = Duration::from_secs(1);

/// What speaks against this node; nothing, where the plan does not ask.
pub(super) fn check(context: &Context) -> Vec<String> {
    let plan = context.plan.as_ref();
    if plan.is_none_or(|plan| plan.node_check == NodeCheck::Off) {
        return Vec::new();
    }
    let own = std::env::current_exe().unwrap_or_else(|_| "dlrun".into());
    let tool = Tool::new(own).args(["exec", "--check-node"]).keep_locale();
    let (mut at, mut unfit) = (String::new(), Vec::new());
    let ran = tool.timeout(LIMIT).grace(GRACE).run_lines(|news| {
        if let Some((Stream::Stdout, line)) = news {
            line.strip_prefix(AT)
                .into_iter()
                .for_each(|what| what.clone_into(&mut at));
            unfit.extend(line.strip_prefix(BAD).map(str::to_owned));
        }
        true
    });
    match ran {
        Ok(_) => {}
        Err(CommandError::TimedOut { .. }) => {
            unfit.push(format!("{at} gave no answer within {} s", LIMIT.as_secs()));
        }
        Err(error) => tracing::warn!(%error, "the node is not checked"),
    }
    unfit
}

/// What is said of a node that is not fit.
pub(super) fn said(node: &str, unfit: &[String]) -> String {
    format!("{node} did not pass its check: {}", unfit.join("; "))
}
