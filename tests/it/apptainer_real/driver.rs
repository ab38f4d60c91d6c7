//! A driver of NVIDIA's as far as files tell of one: libraries that the dynamic linker knows, device files, the kernel
//! module's version, `nvidia-smi`. They are there for the programs of one mount namespace alone.

use std::fs::{self, Permissions};
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use tempfile::TempDir;

use crate::slurm_real::cluster::{Ran, User};
use crate::support::FakeNvml;

/// What the module's file says; the version stands where real ones have it.
const MODULE: &str = "NVRM version: NVIDIA UNIX x86_64 Kernel Module  550.54.15  Tue Mar  5 22:23:56 UTC 2024\nGCC version:  gcc version 12.2.0\n";

/// Sets the namespace up and gives way to the command. `$0` is the driver's directory.
///
/// The device files are those of `/dev/null`: whoever looks sees devices, whoever opens them does no harm.
const ENTER: &str = r#"set -eu
mount -t tmpfs -o mode=755 dev "$0/dev"
for name in null zero full random urandom tty fuse; do
    mknod -m 666 "$0/dev/$name" c $((0x$(stat -c %t /dev/$name))) $((0x$(stat -c %T /dev/$name)))
done
cp -P /dev/fd /dev/stdin /dev/stdout /dev/stderr "$0/dev"
ln -s pts/ptmx "$0/dev/ptmx"
for name in pts shm; do mkdir "$0/dev/$name"; mount --rbind "/dev/$name" "$0/dev/$name"; done
for name in $DEVICES; do mknod -m 666 "$0/dev/$name" c 1 3; done
mount --rbind "$0/dev" /dev
mount --bind "$0/ld.so.cache" /etc/ld.so.cache
if [ "$MODULE" ]; then
    mount -t tmpfs -o mode=755 driver /proc/driver
    mkdir -p /proc/driver/nvidia
    cp "$0/version" /proc/driver/nvidia/version
fi
exec "$@"
"#;

/// The files of a driver, or of a part of one.
pub(crate) struct Driver {
    dir: TempDir,
    devices: &'static str,
    module: bool,
    /// The library that the monitor reads, in the directory of all libraries.
    nvml: Option<FakeNvml>,
}

impl Driver {
    /// One GPU and all that belongs to it.
    pub(crate) fn whole() -> Self {
        let nvml = FakeNvml::new(
            "driver 550.54.15\ngpu GPU-real\nminor 0\nname Fake\nmemory 1000 100 10\n",
        );
        fs::set_permissions(nvml.dir(), Permissions::from_mode(0o755)).expect("it is ours");
        link(&nvml.dir().join("libcuda.so.1"));
        Self::of("nvidiactl nvidia0", true, Some(nvml))
    }

    /// The kernel's part, without the libraries: as where the installation broke off.
    pub(crate) fn without_libraries() -> Self {
        Self::of("nvidiactl nvidia0", true, None)
    }

    /// A namespace like that of the others, without a driver.
    pub(crate) fn none() -> Self {
        Self::of("", false, None)
    }

    fn of(devices: &'static str, module: bool, nvml: Option<FakeNvml>) -> Self {
        let dir = tempfile::Builder::new()
            .prefix("dlrun-driver-")
            .tempdir_in("/var/tmp")
            .expect("a directory");
        fs::set_permissions(dir.path(), Permissions::from_mode(0o755)).expect("it is ours");
        let driver = Self {
            dir,
            devices,
            module,
            nvml,
        };
        driver.write_files();
        driver
    }

    fn write_files(&self) {
        fs::write(self.path("version"), MODULE).expect("it is ours");
        // What `ldconfig` would write on a machine with the libraries installed.
        let mut ldconfig = Command::new("/usr/sbin/ldconfig");
        ldconfig
            .arg("-C")
            .arg(self.path("ld.so.cache"))
            .args(self.nvml.as_ref().map(FakeNvml::dir));
        assert!(
            ldconfig
                .stderr(Stdio::null())
                .status()
                .expect("ldconfig starts")
                .success()
        );
        for name in ["bin", "dev"] {
            fs::create_dir(self.path(name)).expect("it is ours");
        }
        if self.nvml.is_some() {
            let tool = self.path("bin/nvidia-smi");
            fs::write(&tool, "#!/bin/sh\necho 'GPU 0: Fake (UUID: GPU-real)'\n")
                .expect("it is ours");
            fs::set_permissions(tool, Permissions::from_mode(0o755)).expect("it is ours");
        }
    }

    fn path(&self, name: &str) -> PathBuf {
        self.dir.path().join(name)
    }

    /// Runs the user's command where the driver is.
    pub(crate) fn run(&self, user: &User, words: &[&str]) -> Ran {
        let as_user = user.command(words[0]);
        let mut command = Command::new("unshare");
        command
            .args(["--mount", "--propagation", "private", "bash", "-c", ENTER])
            .arg(self.dir.path());
        command
            .arg(as_user.get_program())
            .args(as_user.get_args())
            .args(&words[1..]);
        command
            .env_clear()
            .stdin(Stdio::null())
            .current_dir(user.home());
        command.envs(
            as_user
                .get_envs()
                .filter_map(|(name, value)| Some((name, value?))),
        );
        // nvidia-smi is found by PATH.
        let path = format!(
            "{}:/usr/local/bin:/usr/bin:/bin:/usr/sbin:/sbin",
            self.path("bin").display()
        );
        command
            .env("PATH", path)
            .env("DEVICES", self.devices)
            .env("MODULE", if self.module { "1" } else { "" });
        Ran::of(command.output().expect("unshare starts"))
    }
}

/// Makes a library without content.
fn link(path: &Path) {
    let mut cc = Command::new("cc");
    cc.args(["-shared", "-nostdlib", "-x", "c", "/dev/null", "-o"])
        .arg(path);
    assert!(cc.status().expect("Rust links with cc").success());
}
