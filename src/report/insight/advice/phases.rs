//! What phases say: start-up, checkpoints, a program that does nothing. The most time comes first: so much could be gained at most.

use super::{Advice, AdviceKind, Case};
use crate::foundation::units::display_seconds;
use crate::record::{Activity, Phase};
use crate::report::insight::threshold::{CHECKPOINT_SHARE, IDLE_SECONDS, STARTUP_SHARE};

/// All that follows from phases, of the node on which most was named.
pub(super) fn rules(case: &Case<'_>) -> Vec<Advice> {
    let named = |activity: &&Activity| {
        let known = activity
            .phases
            .iter()
            .filter(|time| time.phase != Phase::Unknown);
        known.map(|time| time.seconds).sum::<f64>()
    };
    let nodes = case.view.nodes.iter();
    let known = nodes.filter_map(|node| node.record.progress.activity.as_ref());
    let Some(activity) = known.max_by(|one, other| named(one).total_cmp(&named(other))) else {
        return Vec::new();
    };
    let is_long = case.enough().is_some();
    let mut found: Vec<(f64, Advice)> = activity
        .phases
        .iter()
        .filter_map(|time| {
            let share = time.share * 100.0;
            let took = format!("{} ({share:.0}% of its time)", display_seconds(time.seconds));
            let (kind, text) = match time.phase {
                Phase::Idle if time.seconds >= IDLE_SECONDS => (
                    AdviceKind::Idle,
                    format!("nothing worked for {took}: what it held could have run other jobs"),
                ),
                Phase::Startup if is_long && share >= STARTUP_SHARE => (
                    AdviceKind::Startup,
                    format!("it started up for {took}: keep prepared data and compiled code between runs, or train longer in one run"),
                ),
                Phase::Checkpoint if is_long && share >= CHECKPOINT_SHARE => (
                    AdviceKind::Checkpoints,
                    format!("checkpoints took {took}: write them less often, beside the training, or to a faster storage"),
                ),
                _ => return None,
            };
            let rests_on = [("phase_seconds", time.seconds), ("phase_share", time.share)];
            Some((time.seconds, Advice::new(kind, text, &rests_on)))
        })
        .collect();
    found.sort_by(|one, other| other.0.total_cmp(&one.0));
    found.into_iter().map(|(_, advice)| advice).collect()
}
