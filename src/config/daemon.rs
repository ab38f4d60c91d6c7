//! The merged settings of the node daemon.

use std::net::SocketAddr;
use std::path::Path;
use std::time::Duration;

use super::fragment::{Fragment, Origin};
use super::keys::DAEMON_KEYS;
use super::values::{Setting, Values};
use crate::foundation::units::Bytes;

/// All settings of `dlrund`, merged.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct DaemonSettings {
    values: Values,
}

impl DaemonSettings {
    /// Lays fragments of [`Fragment::from_daemon_toml`] over the defaults; a later one wins. Fragments with errors are the
    /// caller's to refuse.
    #[must_use]
    pub fn merge(fragments: &[Fragment]) -> Self {
        let mut values = Values::built_in(&DAEMON_KEYS);
        values.lay_over(fragments);
        Self { values }
    }

    /// Every setting, in the order of [`DAEMON_KEYS`].
    #[must_use]
    pub fn all(&self) -> &[Setting] {
        self.values.all()
    }

    /// Where a value comes from.
    #[must_use]
    pub fn origin(&self, name: &str) -> &Origin {
        self.values.origin(name)
    }

    fn path(&self, name: &str) -> &Path {
        self.values
            .path(name)
            .expect("it has a default, which a test reads")
    }

    /// Where it listens.
    #[must_use]
    pub fn socket(&self) -> &Path {
        self.path("socket")
    }

    /// Where the node's records lie.
    #[must_use]
    pub fn state_dir(&self) -> &Path {
        self.path("state_dir")
    }

    /// The group whose members read all runs; `None`: root alone does.
    #[must_use]
    pub fn read_group(&self) -> Option<&str> {
        self.values
            .text("read_group")
            .filter(|name| !name.is_empty())
    }

    /// Time between two samples.
    #[must_use]
    pub fn interval(&self) -> Duration {
        Duration::from_millis(self.values.number("sampling.interval_ms"))
    }

    /// Time between two looks at single processes.
    #[must_use]
    pub fn process_interval(&self) -> Duration {
        Duration::from_millis(self.values.number("sampling.process_interval_ms"))
    }

    /// Whether the site wants Slurm's, Torque's and OpenPBS's jobs recorded that are not dlrun's.
    #[must_use]
    pub fn all_jobs(&self) -> bool {
        self.values.switch("sampling.all_jobs")
    }

    /// Whether GPUs are read where there are any.
    #[must_use]
    pub fn gpu(&self) -> bool {
        self.values.text("gpu.enabled") != Some("off")
    }

    /// Time between two readings of the GPUs.
    #[must_use]
    pub fn gpu_interval(&self) -> Duration {
        Duration::from_millis(self.values.number("gpu.interval_ms"))
    }

    /// How long one reading of a GPU may take before the GPU counts as stale.
    #[must_use]
    pub fn gpu_deadline(&self) -> Duration {
        Duration::from_millis(self.values.number("gpu.deadline_ms"))
    }

    /// NVML, where the linker is not to find it.
    #[must_use]
    pub fn gpu_library(&self) -> Option<&Path> {
        self.values.path("gpu.library")
    }

    /// How long series are kept.
    #[must_use]
    pub fn keep(&self) -> Duration {
        Duration::from_secs(self.values.number("store.keep_days") * 86_400)
    }

    /// How much the node's records may take.
    #[must_use]
    pub fn max_size(&self) -> Bytes {
        self.values.size("store.max_size")
    }

    /// Samples in one compressed block.
    #[must_use]
    pub fn fold_ticks(&self) -> usize {
        usize::try_from(self.values.number("store.fold_ticks")).unwrap_or(usize::MAX)
    }

    /// Connections at a time.
    #[must_use]
    pub fn connections(&self) -> usize {
        usize::try_from(self.values.number("limits.connections")).unwrap_or(usize::MAX)
    }

    /// Connections of one user at a time.
    #[must_use]
    pub fn connections_per_user(&self) -> usize {
        usize::try_from(self.values.number("limits.connections_per_user")).unwrap_or(usize::MAX)
    }

    /// Watched runs of one user at a time.
    #[must_use]
    pub fn runs_per_user(&self) -> usize {
        usize::try_from(self.values.number("limits.runs_per_user")).unwrap_or(usize::MAX)
    }

    /// How long one request may take to arrive, and its response to be taken.
    #[must_use]
    pub fn request_timeout(&self) -> Duration {
        Duration::from_secs(self.values.number("limits.request_seconds"))
    }

    /// When a silent connection is closed.
    #[must_use]
    pub fn idle_timeout(&self) -> Duration {
        Duration::from_secs(self.values.number("limits.idle_seconds"))
    }

    /// File of metrics for node_exporter.
    #[must_use]
    pub fn metrics_textfile(&self) -> Option<&Path> {
        self.values.path("metrics.textfile")
    }

    /// Address of the metrics; always on the loopback interface.
    #[must_use]
    pub fn metrics_listen(&self) -> Option<SocketAddr> {
        self.values.address("metrics.listen")
    }

    /// Further names of this machine by which that address may be asked.
    pub fn metrics_hosts(&self) -> impl Iterator<Item = &str> {
        let hosts = self.values.text("metrics.hosts").unwrap_or_default();
        hosts
            .split(',')
            .map(str::trim)
            .filter(|host| !host.is_empty())
    }

    /// Whether that address also gives series of single runs.
    #[must_use]
    pub fn metrics_runs(&self) -> bool {
        self.values.switch("metrics.runs")
    }

    /// What the journal gets: `error`, `warn`, `info`, `debug` or `trace`.
    #[must_use]
    pub fn log_level(&self) -> &str {
        self.values.text("log.level").unwrap_or("info")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const FILE: &str = "/etc/dlrun/dlrund.toml";

    fn read(text: &str) -> Fragment {
        Fragment::from_daemon_toml(Path::new(FILE), text)
    }

    #[test]
    fn without_a_file_the_defaults_hold() {
        let settings = DaemonSettings::merge(&[]);
        assert_eq!(settings.socket(), Path::new("/run/dlrun/dlrund.sock"));
        assert_eq!(settings.state_dir(), Path::new("/var/lib/dlrun"));
        assert_eq!(settings.read_group(), Some("dlrun"));
        assert_eq!(
            (settings.interval(), settings.process_interval()),
            (secs(1), secs(5))
        );
        assert_eq!(
            (settings.all_jobs(), settings.gpu(), settings.metrics_runs()),
            (false, true, false)
        );
        assert_eq!(
            (settings.gpu_interval(), settings.gpu_deadline()),
            (secs(1), secs(2))
        );
        assert_eq!(
            (settings.gpu_library(), settings.metrics_textfile()),
            (None, None)
        );
        assert_eq!(settings.metrics_listen(), None);
        assert_eq!(
            (settings.keep(), settings.max_size()),
            (secs(30 * 86_400), Bytes(2 << 30))
        );
        assert_eq!((settings.fold_ticks(), settings.runs_per_user()), (60, 256));
        assert_eq!(
            (settings.connections(), settings.connections_per_user()),
            (1024, 256)
        );
        assert_eq!(
            (settings.request_timeout(), settings.idle_timeout()),
            (secs(10), secs(900))
        );
        assert_eq!(settings.log_level(), "info");
    }

    fn secs(seconds: u64) -> Duration {
        Duration::from_secs(seconds)
    }

    #[test]
    fn every_kind_of_value_is_read_and_a_later_file_wins() {
        let site = read(concat!(
            "read_group = \"\"\n[sampling]\nall_jobs = true\ninterval_ms = 250\n[gpu]\nenabled = \"off\"\n",
            "[store]\nmax_size = \"512MiB\"\n[metrics]\nlisten = \"[::1]:9477\"\n",
        ));
        let dropped = Fragment::from_daemon_toml(
            Path::new("/etc/dlrun/dlrund.conf.d/50-site.toml"),
            "\nsampling.interval_ms = 500\n",
        );
        assert_eq!((&site.errors, &dropped.errors), (&vec![], &vec![]));
        let settings = DaemonSettings::merge(&[site, dropped]);
        assert_eq!(settings.read_group(), None);
        assert!(settings.all_jobs() && !settings.gpu());
        assert_eq!(settings.max_size(), Bytes(512 << 20));
        assert_eq!(settings.metrics_listen(), "[::1]:9477".parse().ok());
        assert_eq!(settings.interval(), Duration::from_millis(500));
        let origin = |name| settings.origin(name).to_string();
        assert_eq!(
            origin("sampling.interval_ms"),
            "/etc/dlrun/dlrund.conf.d/50-site.toml:2"
        );
        assert_eq!(origin("gpu.enabled"), format!("{FILE}:6"));
        assert_eq!(origin("socket"), "default");
    }

    #[test]
    fn a_misspelt_key_or_section_is_an_error_with_the_nearest_one() {
        let text = "[limit]\nconnections = 5\n[store]\nkeepdays = 3\nx = 1\n[log]\nlevel = true\n";
        let fragment = read(text);
        assert!(
            fragment.entries.is_empty() && fragment.unknown.is_empty(),
            "{fragment:?}"
        );
        let mut seen: Vec<_> = fragment
            .errors
            .iter()
            .map(|error| {
                (
                    error.position(text).expect("a place").0,
                    error.hint.as_deref().unwrap_or_default(),
                )
            })
            .collect();
        seen.sort_unstable();
        let list = "docs/config.md lists all settings of dlrund.toml";
        let expected = [
            (1, "did you mean `limits`?"),
            (4, "did you mean `store.keep_days`?"),
            (5, list),
            (7, ""),
        ];
        assert_eq!(seen, expected);
    }

    #[test]
    fn settings_of_the_command_are_none_of_the_daemon() {
        let fragment = read("[slurm]\ntimeout_seconds = 5\n");
        assert_eq!(fragment.errors.len(), 1);
        let fragment = Fragment::from_toml(Path::new(FILE), "[sampling]\ninterval_ms = 500\n");
        assert_eq!((fragment.errors.len(), fragment.unknown.len()), (0, 1));
    }
}
