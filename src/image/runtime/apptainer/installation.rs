//! Where a runtime's own files lie: its starter, its helper programs, its configuration.

use std::fs;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::time::Duration;

use crate::foundation::command::Tool;
use crate::image::runtime::host_view::{HostView, bounded_text};
use crate::image::runtime::kinds::{commands, prefixes_of};

/// Where a runtime's files lie; `None` where they were not found.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Installation {
    /// The directory whose `bin` holds the starter and what comes with the runtime: `/usr/libexec/apptainer`.
    pub libexec: Option<PathBuf>,
    /// The directory of `apptainer.conf` or `singularity.conf`, and of `nvliblist.conf`.
    pub conf_dir: Option<PathBuf>,
    /// The starter that is setuid, and that the configuration does not forbid.
    pub setuid_starter: Option<PathBuf>,
    /// `nvliblist.conf`, by which `--nv` knows the driver's files.
    pub nvliblist: Option<PathBuf>,
}

const PATIENCE: Duration = Duration::from_secs(5);

/// Where `libexec` and `conf_dir` of an [`Installation`] are, as far as that is known.
type Places = (Option<PathBuf>, Option<PathBuf>);

impl Installation {
    /// Looks where installations lie; where that does not find them, the runtime is asked (`buildcfg`, 41 ms).
    pub(crate) fn find(around: &HostView<'_>, command: &Path) -> Self {
        let (mut libexec, mut conf_dir) = beside(around, command).unwrap_or_default();
        if libexec.is_none() || conf_dir.is_none() {
            let said = buildcfg(command);
            (libexec, conf_dir) = (libexec.or(said.0), conf_dir.or(said.1));
        }
        let allowed = conf_dir.as_deref().is_none_or(allows_setuid);
        let starter = libexec.as_ref().map(|dir| dir.join("bin/starter-suid"));
        Self {
            setuid_starter: starter.filter(|path| is_setuid(path) && allowed),
            nvliblist: conf_dir
                .as_ref()
                .map(|dir| dir.join("nvliblist.conf"))
                .filter(|path| path.is_file()),
            libexec,
            conf_dir,
        }
    }
}

/// Beside the command, links followed: `PREFIX/bin/apptainer` has `PREFIX/libexec/apptainer` or, in Debian's package,
/// `/usr/lib/x86_64-linux-gnu/apptainer`; the configuration is in `PREFIX/etc`, for `/usr` in `/etc`.
fn beside(around: &HostView<'_>, command: &Path) -> Option<Places> {
    let command = command.canonicalize().ok()?;
    let prefix = command.parent()?.parent()?;
    let multiarch = format!("lib/{}-linux-gnu", std::env::consts::ARCH);
    let dirs = ["libexec", "lib", "lib64", &multiarch].map(|dir| prefix.join(dir));
    let mut libexec = dirs.iter().flat_map(|dir| names_in(dir));
    let etc = if prefix == around.path("usr") {
        around.path("etc")
    } else {
        prefix.join("etc")
    };
    let libexec = libexec.find(|dir| dir.join("bin/starter").exists());
    Some((libexec, names_in(&etc).find(|dir| conf_file(dir).is_some())))
}

/// `LIBEXECDIR=/usr/lib/x86_64-linux-gnu`, `APPTAINER_CONFDIR=/etc/apptainer`.
fn buildcfg(command: &Path) -> Places {
    let tool = Tool::new(command)
        .arg("buildcfg")
        .timeout(PATIENCE)
        .output_limit(64 << 10);
    let said = match tool.run() {
        Ok(output) if output.status.success() => output.stdout,
        _ => return Places::default(),
    };
    let dir = |key: &str| {
        let mut values = said.lines().filter_map(|line| line.trim().split_once('='));
        let (_, dir) = values.find(|(name, _)| *name == key)?;
        Some(PathBuf::from(dir)).filter(|dir| dir.is_absolute())
    };
    let libexec = dir("LIBEXECDIR").and_then(|dir| {
        let mut dirs = names_in(&dir);
        dirs.find(|dir| dir.join("bin/starter").exists())
    });
    let prefixes = prefixes_of(None);
    let mut conf_dirs = prefixes
        .iter()
        .filter_map(|prefix| dir(&format!("{prefix}_CONFDIR")));
    (libexec, conf_dirs.find(|dir| dir.is_dir()))
}

/// Directories of the runtimes in a directory: they are called like the commands.
fn names_in(dir: &Path) -> impl Iterator<Item = PathBuf> {
    commands().into_iter().map(move |name| dir.join(name))
}

/// The runtime's settings in a directory.
fn conf_file(dir: &Path) -> Option<PathBuf> {
    commands()
        .iter()
        .map(|name| dir.join(format!("{name}.conf")))
        .find(|path| path.is_file())
}

fn is_setuid(path: &Path) -> bool {
    fs::metadata(path)
        .is_ok_and(|found| found.is_file() && found.uid() == 0 && found.mode() & 0o4000 != 0)
}

/// `allow setuid = no` turns the starter off; the default is yes.
fn allows_setuid(dir: &Path) -> bool {
    let text = conf_file(dir)
        .and_then(|path| bounded_text(&path).ok())
        .unwrap_or_default();
    let settings = text.lines().filter_map(|line| line.split_once('='));
    let mut setuid = settings.filter(|(key, _)| key.trim() == "allow setuid");
    !setuid.any(|(_, value)| value.trim() == "no")
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::{PermissionsExt, symlink};

    use nix::unistd::geteuid;

    use super::*;

    fn put(path: &Path, text: &str, mode: u32) {
        fs::create_dir_all(path.parent().expect("it has one")).expect("ours");
        fs::write(path, text).expect("ours");
        fs::set_permissions(path, fs::Permissions::from_mode(mode)).expect("ours");
    }

    fn look(root: &Path, command: &Path) -> Installation {
        let around = HostView {
            root,
            variable: &|_| None,
        };
        Installation::find(&around, command)
    }

    #[test]
    fn it_lies_beside_the_command_whatever_links_lead_there() {
        let temp = tempfile::tempdir().expect("a directory");
        let root = temp.path().canonicalize().expect("it is there");
        let prefix = root.join("opt/apptainer");
        put(&prefix.join("bin/apptainer"), "#!/bin/sh\nexit 1\n", 0o755);
        put(&prefix.join("libexec/apptainer/bin/starter"), "", 0o755);
        put(
            &prefix.join("etc/apptainer/apptainer.conf"),
            "# allow setuid = no\nallow setuid = yes\n",
            0o644,
        );
        put(
            &prefix.join("etc/apptainer/nvliblist.conf"),
            "libcuda.so\n",
            0o644,
        );
        let link = root.join("singularity");
        symlink(prefix.join("bin/apptainer"), &link).expect("ours");
        let found = look(&root, &link);
        assert_eq!(found.libexec, Some(prefix.join("libexec/apptainer")));
        assert_eq!(
            found.nvliblist,
            Some(prefix.join("etc/apptainer/nvliblist.conf"))
        );
        assert_eq!(found.setuid_starter, None);
        let starter = prefix.join("libexec/apptainer/bin/starter-suid");
        put(&starter, "", 0o4755);
        // Only root's counts.
        let expected = geteuid().is_root().then(|| starter.clone());
        assert_eq!(look(&root, &link).setuid_starter, expected);
        put(
            &prefix.join("etc/apptainer/apptainer.conf"),
            "allow setuid = no\n",
            0o644,
        );
        assert_eq!(look(&root, &link).setuid_starter, None);
    }

    #[test]
    fn of_the_systems_own_the_configuration_is_in_etc() {
        let temp = tempfile::tempdir().expect("a directory");
        let root = temp.path().canonicalize().expect("it is there");
        put(
            &root.join("usr/bin/singularity"),
            "#!/bin/sh\nexit 1\n",
            0o755,
        );
        put(&root.join("usr/lib/singularity/bin/starter"), "", 0o755);
        put(&root.join("etc/singularity/singularity.conf"), "", 0o644);
        let found = look(&root, &root.join("usr/bin/singularity"));
        assert_eq!(found.libexec, Some(root.join("usr/lib/singularity")));
        assert_eq!(
            (found.conf_dir, found.nvliblist),
            (Some(root.join("etc/singularity")), None)
        );
    }

    #[test]
    fn a_command_that_lies_elsewhere_is_asked() {
        let temp = tempfile::tempdir().expect("a directory");
        let root = temp.path().canonicalize().expect("it is there");
        let (lib, conf) = (root.join("far/lib"), root.join("far/conf"));
        put(&lib.join("apptainer/bin/starter"), "", 0o755);
        put(&conf.join("apptainer.conf"), "", 0o644);
        let script = format!(
            "#!/bin/sh\n[ \"$1\" = buildcfg ] || exit 1\necho PACKAGE_NAME=apptainer\necho LIBEXECDIR={}\n\
             echo APPTAINER_CONFDIR={}\n",
            lib.display(),
            conf.display()
        );
        put(&root.join("wrapper/apptainer"), &script, 0o755);
        let found = look(&root, &root.join("wrapper/apptainer"));
        assert_eq!(
            (found.libexec, found.conf_dir),
            (Some(lib.join("apptainer")), Some(conf))
        );
        put(
            &root.join("wrapper/apptainer"),
            "#!/bin/sh\necho LIBEXECDIR=relative\necho APPTAINER_CONFDIR=/no\n",
            0o755,
        );
        assert_eq!(
            look(&root, &root.join("wrapper/apptainer")),
            Installation::default()
        );
    }
}
