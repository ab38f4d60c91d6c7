//! The node daemon.

use std::io;
use std::path::Path;
use std::time::Duration;

use super::{Finding, Level};
use crate::app::error::Error;
use crate::foundation::units::Bytes;
use crate::observe::client::{ClientError, Daemon};
use crate::observe::protocol::{DaemonStatus, Request, Response};

const CHECK: &str = "dlrund";
const STORE: &str = "dlrund store";
const PATIENCE: Duration = Duration::from_secs(3);
const JOURNAL: &str = "see `journalctl --unit=dlrund`";

pub(super) fn findings(socket: Option<&Path>, now_ms: u64) -> Vec<Finding> {
    let Some(socket) = socket else {
        return vec![Finding::ok(
            CHECK,
            "the setting `monitor.daemon` is off, so it is not asked",
        )];
    };
    match ask(socket) {
        Ok(status) => status_findings(&status, now_ms),
        Err(error) if is_missing(&error) => vec![Finding::warning(
            CHECK,
            format!(
                "there is none at `{}`, so each run measures itself",
                socket.display()
            ),
            "normal on a login node; on a compute node `systemctl enable --now dlrund` starts it",
        )],
        Err(error) => vec![Finding::failure(Level::Problem, CHECK, &Error::from(error))],
    }
}

fn ask(socket: &Path) -> Result<DaemonStatus, ClientError> {
    let mut daemon = Daemon::connect(socket, PATIENCE)?;
    match daemon.ask(&Request::Status)? {
        Response::Status(status) => Ok(*status),
        _ => Err(daemon.unexpected()),
    }
}

/// Nobody ever listened there; a socket that nobody listens at any more is another thing.
fn is_missing(error: &ClientError) -> bool {
    matches!(error, ClientError::Connect(_, source) if source.kind() == io::ErrorKind::NotFound)
}

fn status_findings(status: &DaemonStatus, now_ms: u64) -> Vec<Finding> {
    let (ours, cost) = (env!("CARGO_PKG_VERSION"), &status.cost);
    let text = format!(
        "{}, {} runs, {:.2}% of a CPU, {} of memory",
        status.version,
        status.runs,
        cpu_percent(cost.cpu_us, now_ms.saturating_sub(status.started_at_ms)),
        Bytes(cost.mem_rss_bytes)
    );
    let mut findings = vec![if status.version == ours {
        Finding::ok(CHECK, text)
    } else {
        let advice = format!(
            "it works with this dlrun {ours}; restart it after an upgrade to have both the same"
        );
        Finding::warning(CHECK, text, advice)
    }];
    findings.extend(
        status
            .problems
            .iter()
            .map(|problem| Finding::warning(CHECK, problem, JOURNAL)),
    );
    findings.push(store_finding(status));
    findings
}

fn store_finding(status: &DaemonStatus) -> Finding {
    let store = &status.store;
    let text = format!("{}, `{}`", Bytes(store.bytes), store.path);
    if let Some(error) = &store.error {
        return Finding::problem(STORE, format!("{text}: {error}"), JOURNAL);
    }
    match store.dropped_samples {
        0 => Finding::ok(STORE, text),
        dropped => Finding::warning(
            STORE,
            format!("{text}: {dropped} samples were dropped"),
            JOURNAL,
        ),
    }
}

#[expect(clippy::cast_precision_loss, reason = "far below 2^53")]
fn cpu_percent(cpu_us: u64, up_ms: u64) -> f64 {
    if up_ms == 0 {
        0.0
    } else {
        cpu_us as f64 / (up_ms as f64 * 1000.0) * 100.0
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::observe::protocol::{DaemonCost, StoreStatus};

    fn status() -> DaemonStatus {
        DaemonStatus {
            version: env!("CARGO_PKG_VERSION").into(),
            pid: 1,
            started_at_ms: 1000,
            interval_ms: 1000,
            runs: 2,
            gpus: Vec::new(),
            cost: DaemonCost {
                cpu_us: 5_000,
                mem_rss_bytes: 9 << 20,
                ticks: 1000,
                ..DaemonCost::default()
            },
            store: StoreStatus {
                path: "/var/lib/dlrun/node.db".into(),
                ..StoreStatus::default()
            },
            problems: Vec::new(),
        }
    }

    fn levels(status: &DaemonStatus) -> Vec<Level> {
        status_findings(status, 11_000)
            .iter()
            .map(|finding| finding.level)
            .collect()
    }

    #[test]
    fn a_daemon_that_is_well_says_what_it_costs() {
        let findings = status_findings(&status(), 11_000);
        let version = env!("CARGO_PKG_VERSION");
        assert_eq!(
            findings[0].text,
            format!("{version}, 2 runs, 0.05% of a CPU, 9MiB of memory")
        );
        assert_eq!(levels(&status()), [Level::Ok, Level::Ok]);
    }

    #[test]
    fn what_is_wrong_with_it_is_told() {
        let well = status();
        let old = DaemonStatus {
            version: "0.0.1".into(),
            ..well.clone()
        };
        assert_eq!(levels(&old), [Level::Warning, Level::Ok]);
        let troubled = DaemonStatus {
            problems: vec!["no cgroups".into()],
            ..well.clone()
        };
        assert_eq!(levels(&troubled), [Level::Ok, Level::Warning, Level::Ok]);
        let full = StoreStatus {
            error: Some("disk full".into()),
            ..well.store.clone()
        };
        assert_eq!(
            levels(&DaemonStatus {
                store: full,
                ..well.clone()
            }),
            [Level::Ok, Level::Problem]
        );
        let dropped = StoreStatus {
            dropped_samples: 3,
            ..well.store.clone()
        };
        assert_eq!(
            levels(&DaemonStatus {
                store: dropped,
                ..well
            }),
            [Level::Ok, Level::Warning]
        );
    }
}
