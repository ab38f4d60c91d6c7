//! `dlrund check-config`: what the configuration means on this machine.

use std::fs;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};

use crate::config::DaemonSettings;
use crate::foundation::filesystem::{FileSystem, Kind};

/// Each setting with its origin, then what would not work; and whether all works.
pub(super) fn check(settings: &DaemonSettings, files: &[PathBuf]) -> (String, bool) {
    let mut text = String::new();
    if files.is_empty() {
        text.push_str("no configuration file found; using the defaults\n");
    }
    for file in files {
        text.push_str(&format!("read {}\n", file.display()));
    }
    text.push('\n');
    let names = settings.all().iter().map(|setting| setting.key.name.len());
    let width = names.max().unwrap_or(0);
    for setting in settings.all() {
        let value = setting
            .value
            .as_ref()
            .map_or_else(|| "-".to_owned(), ToString::to_string);
        text.push_str(&format!(
            "{:width$}  {value}  ({})\n",
            setting.key.name, setting.origin
        ));
    }
    let problems = problems(settings);
    text.push('\n');
    for problem in &problems {
        text.push_str(&format!("problem: {problem}\n"));
    }
    if problems.is_empty() {
        text.push_str("everything that the configuration names exists\n");
    }
    (text, problems.is_empty())
}

/// The number of a group; `None` where the machine does not have it.
pub(super) fn group_id(name: &str) -> Option<u32> {
    let group = nix::unistd::Group::from_name(name).ok().flatten();
    group.map(|group| group.gid.as_raw())
}

/// What would not work.
pub(super) fn problems(settings: &DaemonSettings) -> Vec<String> {
    let mut problems = Vec::new();
    let mut must_be_directory = |key: &str, path: Option<&Path>| {
        if let Some(path) = path.filter(|path| !path.is_dir()) {
            problems.push(format!(
                "{key}: `{}` is not a directory; systemd creates the usual ones when it starts dlrund.service",
                path.display()
            ));
        }
    };
    must_be_directory("state_dir", Some(settings.state_dir()));
    must_be_directory("socket", settings.socket().parent());
    must_be_directory(
        "metrics.textfile",
        settings.metrics_textfile().and_then(Path::parent),
    );
    if let Ok(found) = FileSystem::at(settings.state_dir())
        && matches!(found.kind, Kind::Network | Kind::Doubtful)
    {
        problems.push(format!(
            "state_dir: `{}` lies on {}; a database needs a local disk",
            settings.state_dir().display(),
            found.name.unwrap_or("an unknown file system")
        ));
    }
    if let Ok(found) = fs::metadata(settings.state_dir())
        && found.mode() & 0o007 != 0
    {
        problems.push(format!(
            "state_dir: `{}` is open to others; make it 0750",
            settings.state_dir().display()
        ));
    }
    if let Some(group) = settings.read_group()
        && group_id(group).is_none()
    {
        problems.push(format!(
            "read_group: there is no group `{group}`, so only root reads all runs; systemd-sysusers creates `dlrun`, and \
             `read_group = \"\"` means none"
        ));
    }
    if let Some(library) = settings.gpu_library()
        && !library.exists()
    {
        problems.push(format!(
            "gpu.library: `{}` does not exist",
            library.display()
        ));
    }
    problems
}
