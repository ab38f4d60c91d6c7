//! What dlrun finds out about this node and about real images.

use std::fs::{self, File, OpenOptions};
use std::io::{Read, Seek, SeekFrom, Write};
use std::path::Path;

use dlrun::image::runtime::labels;
use dlrun::image::runtime::{ContainerError, inspect};

use super::place::{base_sandbox, base_sif, listed, runtime, unlisted};
use crate::cli_doctor::finding;

#[test]
#[ignore = "needs Apptainer: run tests/run"]
fn the_doctor_tells_each_user_what_the_runtime_does_for_that_one() {
    for (mut user, means) in [
        (listed(), "this user's ids in /etc/subuid and /etc/subgid"),
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
        assert_eq!(finding(&told, "gpu files").0, "ok", "{told}");
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
    assert_eq!(image.arch_fault(), None);
    let sandbox = inspect(&base_sandbox()).expect("the base is whole");
    assert_eq!((sandbox.form, &sandbox.arch), ("sandbox", &None));
    assert!(image.arch.is_some());
    // The runtime's own reader of the header.
    let said = listed()
        .run(
            &runtime().to_string_lossy(),
            &["sif", "header", &base_sif().to_string_lossy()],
        )
        .ok();
    assert!(
        image.uuid.is_some_and(|uuid| said.contains(&uuid)),
        "{said}"
    );
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
