//! Whether it is known what this kind of node can do.

use super::Finding;
use crate::app::session::Session;
use crate::app::times::ago;
use crate::observe::monitor::host_facts;
use crate::record::{HostFacts, TargetRecord};

const CHECK: &str = "figures";

/// A hint, and never more: only the performance model wants them, and a login node may be of a kind of its own.
pub(super) fn look(session: &Session) -> Finding {
    let known = session
        .existing_state()
        .ok()
        .and_then(|state| Some(state.targets().ok()?.0));
    of_targets(&known.unwrap_or_default(), &host_facts(None))
}

fn of_targets(known: &[TargetRecord], host: &HostFacts) -> Finding {
    let fingerprint = host.fingerprint();
    match known
        .iter()
        .find(|target| Some(&target.fingerprint) == fingerprint.as_ref())
    {
        Some(target) => {
            let figures = &target.figures;
            let text = format!(
                "this kind of node has {:.1} Gflop/s a core, {:.1} on all, {:.1} GB/s of memory; measured {}",
                figures.core_gflops,
                figures.node_gflops,
                figures.memory_gb_per_second,
                ago(figures.measured_at_ms)
            );
            Finding::ok(CHECK, text)
        }
        None => Finding {
            advice: Some(
                "`dlrun bench node` measures it, with `--submit` each kind of node of the site"
                    .to_owned(),
            ),
            ..Finding::ok(CHECK, "what this kind of node can do was not measured")
        },
    }
}
