//! NVIDIA's library, replaced by `tests/fakes/nvml.rs`.

use std::fs::{self, File};
use std::path::{Path, PathBuf};
use std::process::Command;

use dlrun::observe::monitor::{GpuError, Nvml};
use nix::fcntl::{Flock, FlockArg};
use tempfile::TempDir;

/// The name under which the dynamic linker looks for it.
const NAME: &str = "libnvidia-ml.so.1";

/// A copy of the fake library with a state of its own.
#[derive(Debug)]
pub(crate) struct FakeNvml {
    dir: TempDir,
}

impl FakeNvml {
    /// A library that shows what `state` says; the format is at the beginning of `tests/fakes/nvml.rs`.
    pub(crate) fn new(state: &str) -> Self {
        let dir = tempfile::tempdir().expect("a directory");
        // Linked, it would be the same library to the dynamic linker.
        fs::copy(build("nvml", &[]), dir.path().join(NAME)).expect("the library was built");
        let fake = Self { dir };
        fake.set(state);
        fake
    }

    /// Where it is; also a directory for `LD_LIBRARY_PATH`.
    pub(crate) fn dir(&self) -> &Path {
        self.dir.path()
    }

    pub(crate) fn library(&self) -> PathBuf {
        self.dir().join(NAME)
    }

    /// Changes what it shows, at once.
    pub(crate) fn set(&self, state: &str) {
        let part = self.dir().join("state.part");
        fs::write(&part, state)
            .and_then(|()| fs::rename(&part, self.dir().join("state")))
            .expect("it is ours");
    }

    /// Loads it.
    pub(crate) fn open(&self) -> Result<Nvml, GpuError> {
        Nvml::open(Some(&self.library()))
    }

    /// The calls since the state said `log`, each as `SYMBOL UUID`.
    pub(crate) fn calls(&self) -> Vec<String> {
        let calls = fs::read_to_string(self.dir().join("calls")).unwrap_or_default();
        calls.lines().map(str::to_owned).collect()
    }
}

/// Compiles the fake once, and again when its source is newer.
fn build(kind: &str, more: &[&str]) -> PathBuf {
    let source = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/fakes/nvml.rs");
    let dir = Path::new(env!("CARGO_TARGET_TMPDIR"));
    let (built, part) = (
        dir.join(format!("{kind}.so")),
        dir.join(format!("{kind}.part")),
    );
    let lock = File::create(dir.join(format!("{kind}.lock"))).expect("cargo made the directory");
    let _lock = Flock::lock(lock, FlockArg::LockExclusive).expect("it can be locked");
    let age = |path: &Path| fs::metadata(path).and_then(|about| about.modified());
    if age(&built).is_ok_and(|built| built > age(&source).expect("the source is there")) {
        return built;
    }
    let options = [
        "--edition",
        "2024",
        "-O",
        "--crate-type",
        "cdylib",
        "--crate-name",
        "nvidia_ml",
        "-o",
    ];
    let status = Command::new(rustc())
        .args(more)
        .args(options)
        .arg(&part)
        .arg(&source)
        .status()
        .expect("rustc starts");
    assert!(status.success(), "the fake library does not compile");
    fs::rename(&part, &built).expect("it is ours");
    built
}

/// The compiler beside the running cargo.
fn rustc() -> PathBuf {
    let beside = std::env::var_os("CARGO").map(|cargo| Path::new(&cargo).with_file_name("rustc"));
    let named = std::env::var_os("RUSTC").map(PathBuf::from);
    named
        .or(beside.filter(|path| path.exists()))
        .unwrap_or_else(|| "rustc".into())
}
