//! Builds an image from a definition file.

use std::fs::OpenOptions;
use std::io::Write;
use std::os::unix::fs::OpenOptionsExt;

use crate::foundation::command::Tool;
use crate::image::build::unfinished::{MakeError, Making};
use crate::image::in_progress::Progress;
use crate::image::runtime::Product;

/// What is built and by whom.
#[derive(Debug, Clone, Copy)]
pub struct Build<'a> {
    /// The image's name, for errors.
    pub name: &'a str,
    /// The text of the definition file.
    pub definition: &'a str,
    /// The runtime's command.
    pub runtime: &'a str,
    /// Which runtime it is, where that is known.
    pub product: Option<Product>,
    /// Options of its `build`: `--fakeroot`.
    pub options: &'a [String],
}

/// Builds the image into [`Making::part`].
///
/// # Errors
/// As [`Making::run`], and `Write`.
pub fn build(
    making: &mut Making,
    build: &Build<'_>,
    stop: &dyn Fn() -> bool,
    progress: &mut dyn FnMut(Progress<'_>),
) -> Result<(), MakeError> {
    let file = making.scratch().join(format!("{}.def", build.name));
    let mut options = OpenOptions::new();
    let written = options.write(true).create_new(true).mode(0o600).open(&file);
    let written = written.and_then(|mut opened| opened.write_all(build.definition.as_bytes()));
    written.map_err(MakeError::write(&file))?;
    let tool = Tool::new(build.runtime)
        .arg("build")
        .args(build.options)
        .args([making.part(), &file])
        .current_dir(making.scratch());
    making.say(&format!(
        "dlrun: {} build {}",
        build.runtime,
        build.options.join(" ")
    ));
    for line in build.definition.lines() {
        making.say(&format!("dlrun: definition: {line}"));
    }
    making.run(
        &format!("the build of {}", build.name),
        tool,
        build.product,
        stop,
        progress,
    )
}
