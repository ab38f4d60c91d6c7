//! The paired comparison of `tests/same`.

use std::ffi::OsStr;
use std::path::Path;
use std::process::Command;

use super::{DLRUN, tell};

/// Compares scripts; panics where one differs by mistake.
#[track_caller]
pub(crate) fn compare(arguments: &[&OsStr]) {
    let program = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/same/same.py");
    let mut command = Command::new("python3");
    command
        .arg("-B")
        .arg(program)
        .args(arguments)
        .env("DLRUN_TEST_BINARY", DLRUN);
    let output = command.output().expect("python3 starts");
    let said = format!(
        "{}{}",
        String::from_utf8_lossy(&output.stdout),
        String::from_utf8_lossy(&output.stderr)
    );
    tell(&said);
    assert!(output.status.success(), "{said}");
}
