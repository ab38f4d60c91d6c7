//! What the scheduler says of the site: kept for a while in the state directory, asked for where it is too old.
//!
//! Nothing here stops a command: a site of which nothing is known is one against which nothing is checked.

use std::time::Duration;

use serde::{Deserialize, Serialize};

use crate::app::error::{Error, failure};
use crate::app::session::{Session, within};
use crate::app::times::ago;
use crate::config::site::{Queue, SiteModel, overlaid};
use crate::foundation::clock::now_ms;
use crate::job::{SchedulerKind, SchedulerVariables};
use crate::record::rundir::{read_site, write_site};
use crate::scheduler::{Reach, adapter_for};

/// How long one command of a scheduler may take here: the check must not make a submission wait for long.
const PATIENCE: Duration = Duration::from_secs(5);

/// What is known of the site.
#[derive(Debug, Clone)]
pub(crate) struct Known {
    pub(crate) model: SiteModel,
    /// It was kept from before; else the scheduler was asked just now.
    pub(crate) is_kept: bool,
}

impl Known {
    /// `slurm 22.05.8, asked 12 min ago`.
    pub(crate) fn shown(&self) -> String {
        let version = self
            .model
            .version
            .as_ref()
            .map(|version| format!(" {version}"))
            .unwrap_or_default();
        let when = if self.is_kept {
            ago(self.model.asked_at_ms)
        } else {
            "just now".to_owned()
        };
        format!("{}{version}, asked {when}", self.model.scheduler.as_str())
    }
}

/// The file.
#[derive(Debug, Serialize, Deserialize)]
struct Kept {
    asked_of: Vec<(String, String)>,
    site: SiteModel,
}

/// What is known of the site of `kind`: what was kept where it is fresh enough, else what the scheduler says now.
pub(crate) fn known(session: &Session, kind: SchedulerKind) -> Option<Known> {
    let kept = kept(session, kind).map(|model| Known {
        model,
        is_kept: true,
    });
    kept.or_else(|| asked(session, kind))
}

/// The longest time limit of a queue (of the default one), in seconds, by what was kept from before.
pub(crate) fn queue_limit(
    session: &Session,
    kind: SchedulerKind,
    queue: Option<&str>,
) -> Option<u64> {
    let model = overlaid(&kept(session, kind)?, &session.settings.tables().queues);
    let is_meant = |found: &&Queue| queue.map_or(found.is_default, |name| found.name == name);
    Some(model.queues.iter().find(is_meant)?.max_walltime?.0)
}

/// Asks the scheduler, and keeps what it says.
pub(crate) fn asked(session: &Session, kind: SchedulerKind) -> Option<Known> {
    match ask(session, kind) {
        Ok(model) => {
            keep(session, &model);
            Some(Known {
                model,
                is_kept: false,
            })
        }
        Err(why) => {
            tracing::info!("the job is not compared with the site: {}", why.message());
            None
        }
    }
}

/// Asks the scheduler.
///
/// # Errors
/// When it gives no answer in time, or is missing.
pub(crate) fn ask(session: &Session, kind: SchedulerKind) -> Result<SiteModel, Error> {
    if !has_site(kind) {
        return Err(failure!(Missing, "there is no scheduler"));
    }
    let reach = session.reach(kind)?;
    let timeout = reach.timeout.min(PATIENCE);
    let scheduler = adapter_for(kind).open(Reach { timeout, ..reach });
    Ok(scheduler.site()?)
}

/// Whether a kind is a scheduler that knows queues and nodes.
fn has_site(kind: SchedulerKind) -> bool {
    !kind.is_local() && kind != SchedulerKind::default()
}

/// What was kept, if it is fresh and of the same cluster.
fn kept(session: &Session, kind: SchedulerKind) -> Option<SiteModel> {
    let fresh = session.settings.site_cache();
    if fresh.is_zero() || !has_site(kind) {
        return None;
    }
    let state = session.settings.state_dir().to_owned();
    let bytes = within(PATIENCE, &state.clone(), move || read_site(&state, kind)).ok()?;
    let kept: Kept = serde_json::from_slice(&bytes).ok()?;
    let age = now_ms().checked_sub(kept.site.asked_at_ms)?;
    let is_good = kept.site.format == SiteModel::FORMAT
        && kept.site.scheduler == kind
        && Duration::from_millis(age) <= fresh
        && kept.asked_of == address(session);
    is_good.then_some(kept.site)
}

fn keep(session: &Session, model: &SiteModel) {
    let kept = Kept {
        asked_of: address(session),
        site: model.clone(),
    };
    let bytes = serde_json::to_vec(&kept).unwrap_or_default();
    if let Err(error) = write_site(session.settings.state_dir(), model.scheduler, &bytes) {
        tracing::info!("what the scheduler said of the site is not kept: {error}");
    }
}

/// Whom the scheduler's commands ask.
fn address(session: &Session) -> Vec<(String, String)> {
    let names = SchedulerVariables::ALL
        .into_iter()
        .flat_map(|variables| variables.server.iter().chain(variables.address));
    let variables = names.filter_map(|name| Some(((*name).to_owned(), std::env::var(name).ok()?)));
    let settings = session
        .settings
        .all()
        .iter()
        .filter(|setting| setting.key.name.ends_with(".bin_dir"));
    let settings = settings.filter_map(|setting| {
        Some((
            setting.key.name.to_owned(),
            setting.value.as_ref()?.to_string(),
        ))
    });
    variables.chain(settings).collect()
}
