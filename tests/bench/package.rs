//! What a site installs and a packager builds.

use std::collections::BTreeSet;
use std::error::Error;
use std::fs;
use std::process::Command;

use crate::measure::number;
use crate::report::Row;
use crate::{DLRUN, Effort};

/// Size of the program and number of crates.
pub(crate) fn rows(_: Effort) -> Result<Vec<Row>, Box<dyn Error>> {
    let bytes = number(usize::try_from(fs::metadata(DLRUN)?.len())?);
    let what = "crates in the Linux build";
    let crates = match crates() {
        Ok(count) => Row::budget("package", what, number(count), "crates", 210.0),
        Err(why) => Row::not_measured("package", what, why.to_string()),
    };
    Ok(vec![
        Row::budget("package", "size of dlrun", bytes / 1e6, "MB", 12.0),
        crates,
    ])
}

/// Crates besides dlrun itself that are compiled for Linux, those that build scripts need included.
fn crates() -> Result<usize, Box<dyn Error>> {
    let cargo = std::env::var_os("CARGO").unwrap_or_else(|| "cargo".into());
    let arguments = [
        "tree",
        "--locked",
        "-e",
        "normal,build",
        "--target",
        "x86_64-unknown-linux-gnu",
        "--prefix",
        "none",
    ];
    let output = Command::new(cargo)
        .args(arguments)
        .current_dir(env!("CARGO_MANIFEST_DIR"))
        .output()?;
    if !output.status.success() {
        return Err(String::from_utf8_lossy(&output.stderr)
            .trim()
            .to_owned()
            .into());
    }
    let text = String::from_utf8(output.stdout)?;
    // `name v1.2.3`, then what sets several mentions of the same crate apart.
    let named = text
        .lines()
        .map(|line| line.split(' ').take(2).collect::<Vec<_>>());
    Ok(named
        .filter(|words| words.len() == 2 && words[0] != "dlrun")
        .collect::<BTreeSet<_>>()
        .len())
}
