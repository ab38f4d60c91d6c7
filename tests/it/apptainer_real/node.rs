//! What dlrun finds out about this node and about real images.

use std::ffi::OsString;
use std::fs::{self, File, OpenOptions, Permissions};
use std::io::{Read, Seek, SeekFrom, Write};
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use dlrun::image::runtime::labels;
use dlrun::image::runtime::{
    ContainerError, HostView, ImageFile, ImageKind, Node, examine_in, inspect,
};

use super::place::{base_sandbox, base_sif, listed, runtime, unlisted};
use crate::cli_doctor::finding;

#[test]
#[ignore = "needs Apptainer: run tests/run"]
fn the_doctor_tells_each_user_what_the_runtime_does_for_that_one() {
    for (mut user, means) in [
        (listed(), "/etc/subuid and /etc/subgid: "),
        (unlisted(), "with one id, and the `fakeroot`"),
    ] {
        user.set("DLRUN_IMAGES__RUNTIME", &runtime().to_string_lossy());
        let told = user.dlrun(&["doctor", "--json"]).result();
        let (level, text) = finding(&told, "container");
        assert!(
            level == "ok" && text.contains(&*runtime().to_string_lossy()),
            "{told}"
        );
        assert_eq!(finding(&told, "namespaces").0, "ok", "{told}");
        let (level, text) = finding(&told, "fakeroot");
        assert!(
            level == "ok" && text.contains(means),
            "{}: {told}",
            user.name()
        );
        let (level, text) = finding(&told, "sif images");
        assert!(level == "ok" && text.contains("squashfuse"), "{told}");
        assert!(
            finding(&told, "gpu files").1.contains("nvliblist.conf"),
            "{told}"
        );
    }
}

/// The real runtime behind a script that notes its calls.
struct Noting {
    dir: tempfile::TempDir,
}

impl Noting {
    fn new() -> Self {
        let noting = Self {
            dir: tempfile::tempdir().expect("a directory"),
        };
        noting.install("");
        noting
    }

    fn command(&self) -> PathBuf {
        self.dir.path().join("apptainer")
    }

    fn install(&self, comment: &str) {
        let new = self.dir.path().join("new");
        let log = self.dir.path().join("log");
        let script = format!(
            "#!/bin/sh\n# {comment}\necho $1 >> {}\nexec {} \"$@\"\n",
            log.display(),
            runtime().display()
        );
        fs::write(&new, script).expect("ours");
        fs::set_permissions(&new, Permissions::from_mode(0o755)).expect("ours");
        fs::rename(new, self.command()).expect("ours");
    }

    fn calls(&self) -> Vec<String> {
        let text = fs::read_to_string(self.dir.path().join("log")).unwrap_or_default();
        text.lines().map(str::to_owned).collect()
    }

    fn examine(&self) -> (Node, Duration) {
        let variable = |name: &str| -> Option<OsString> { std::env::var_os(name) };
        let around = HostView {
            root: Path::new("/"),
            variable: &variable,
            shared_tmp: Some(self.dir.path()),
        };
        let start = Instant::now();
        let node = examine_in(&around, Some(&self.command()), false).expect("it runs");
        (node, start.elapsed())
    }
}

#[test]
#[ignore = "needs Apptainer: run tests/run"]
fn what_was_found_out_is_kept_until_the_runtime_changes() {
    let noting = Noting::new();
    let (first, cold) = noting.examine();
    assert!(first.facts.runtime.is_some(), "{first:?}");
    // A script is not where the runtime's files lie, so the runtime was asked for them.
    assert_eq!(noting.calls(), ["--version", "buildcfg"]);
    assert!(
        first.installation.nvliblist.is_some() && first.installation.libexec.is_some(),
        "{first:?}"
    );
    let mut warm: Vec<Duration> = (0..15).map(|_| noting.examine().1).collect();
    warm.sort();
    assert_eq!(noting.examine().0, first);
    assert_eq!(noting.calls().len(), 2, "the runtime was not asked again");
    assert!(warm[7] < cold, "cold {cold:?}, warm {warm:?}");
    noting.install("another");
    assert_eq!(noting.examine().0, first);
    assert_eq!(
        noting.calls().len(),
        4,
        "a runtime that changed is asked again"
    );
}

fn sif_of(image: &ImageFile) -> &dlrun::image::runtime::Sif {
    match &image.kind {
        ImageKind::Sif(sif) => sif,
        other => panic!("{other:?}"),
    }
}

#[test]
#[ignore = "needs Apptainer: run tests/run"]
fn real_images_are_read_as_the_runtime_reads_them() {
    let image = inspect(&base_sif()).expect("the base is whole");
    assert_eq!(
        image.size_bytes,
        fs::metadata(base_sif()).ok().map(|found| found.len())
    );
    assert_eq!(
        (sif_of(&image).file_system, image.arch_fault()),
        ("squashfs", None)
    );
    let sandbox = inspect(&base_sandbox()).expect("the base is whole");
    assert_eq!((&sandbox.kind, &sandbox.arch), (&ImageKind::Sandbox, &None));
    assert!(image.arch.is_some());
    // The runtime's own reader of the header.
    let said = listed()
        .run(
            &runtime().to_string_lossy(),
            &["sif", "header", &base_sif().to_string_lossy()],
        )
        .ok();
    assert!(said.contains(&sif_of(&image).uuid), "{said}");
    let found = labels(&runtime(), &base_sif()).expect("it has labels");
    assert!(
        found
            .keys()
            .any(|name| name.starts_with("org.label-schema.")),
        "{found:?}"
    );
    let none = labels(&runtime(), Path::new("/etc/passwd")).expect_err("no image");
    assert!(matches!(none, ContainerError::Runtime { .. }), "{none}");
}

#[test]
#[ignore = "needs Apptainer: run tests/run"]
fn a_real_image_that_is_cut_short_or_for_another_processor_is_told() {
    let dir = tempfile::tempdir().expect("a directory");
    let path = dir.path().join("cut.sif");
    let mut head = Vec::new();
    File::open(base_sif())
        .expect("it is there")
        .take(1 << 20)
        .read_to_end(&mut head)
        .expect("it can be read");
    fs::write(&path, &head).expect("ours");
    let whole = fs::metadata(base_sif()).expect("it is there").len();
    let why = inspect(&path).expect_err("it is cut").to_string();
    assert!(
        why.contains(&format!("truncated: {} of {whole} bytes", 1 << 20)),
        "{why}"
    );
    // The rest as a hole, and the code of another architecture: 11 is s390x.
    let mut file = OpenOptions::new().write(true).open(&path).expect("ours");
    file.set_len(whole).expect("ours");
    file.seek(SeekFrom::Start(45)).expect("ours");
    file.write_all(b"11").expect("ours");
    let other = inspect(&path).expect("its header is whole");
    assert!(
        other
            .arch_fault()
            .is_some_and(|fault| fault.contains("s390x")),
        "{other:?}"
    );
}
