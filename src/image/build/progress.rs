//! How far the making of an image is, read from what the runtime says.

use crate::foundation::lock::Owner;

/// News of a build or a pull.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Progress<'a> {
    /// Another dlrun makes the same image; `None` where it did not say who it is.
    Waiting(Option<&'a Owner>),
    /// A step began.
    Phase(&'static str),
    /// What the runtime, or a program of the definition file, wrote last.
    Line(&'a str),
}

/// The steps of a build or a pull, by how the runtime's line begins. The wording is that of `internal/pkg/build` and
/// `internal/pkg/client`, the same from Singularity 3.5 to Apptainer 1.4 and CE 4.
const PHASES: [(&str, &str); 11] = [
    ("Fetching", "fetching"),
    ("Downloading", "fetching"),
    ("Converting OCI", "fetching"),
    ("Copying", "fetching"),
    ("Extracting", "unpacking the base"),
    ("Running setup", "running %setup"),
    ("Running post", "running %post"),
    ("Adding", "writing environment and labels"),
    ("Running test", "running %test"),
    ("Creating SIF", "packing"),
    ("Creating sandbox", "packing"),
];

/// The step that a line of the runtime begins, of any product and version: `INFO:    Running post scriptlet`.
pub(crate) fn phase_of(line: &str) -> Option<&'static str> {
    let message = line.strip_prefix("INFO:")?.trim_start();
    let found = PHASES.iter().find(|(begin, _)| message.starts_with(begin));
    found.map(|(_, phase)| *phase)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn phases_are_read_from_the_runtimes_words_alone() {
        // Written by Apptainer 1.4.5 for a build from a local base, and for a pull.
        let said = "INFO:    Starting build...\nINFO:    Extracting local image...\nINFO:    Running post scriptlet\n\
                    + echo Running post scriptlet\nINFO:    Adding labels\nINFO:    Creating SIF file...\n\
                    INFO:    To see mksquashfs output with progress bar enable verbose logging\n\
                    INFO:    Build complete: a.sif";
        let phases: Vec<&str> = said.lines().filter_map(phase_of).collect();
        assert_eq!(
            phases,
            [
                "unpacking the base",
                "running %post",
                "writing environment and labels",
                "packing"
            ]
        );
        let pull = [
            "INFO:    Converting OCI blobs to SIF format",
            "INFO:    Downloading network image",
        ];
        assert_eq!(pull.map(phase_of), [Some("fetching"); 2]);
        assert_eq!(phase_of("Extracting wheel"), None);
    }
}
