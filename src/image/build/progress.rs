//! How far the making of an image is, read from what the runtime says.

use crate::foundation::lock::Owner;

/// News of a build or a pull.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Progress<'a> {
    /// Another dlrun makes the same image; `None` where it did not say who it is.
    Waiting(Option<&'a Owner>),
    /// A step began.
    Phase(Phase),
    /// What the runtime, or a program of the definition file, wrote last.
    Line(&'a str),
}

/// A step of a build or a pull.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Phase {
    /// Layers or a file are on their way.
    Fetching,
    /// The base is unpacked.
    Extracting,
    /// `%setup` runs, on this machine.
    Setup,
    /// `%post` runs.
    Post,
    /// Environment, labels and scripts are written.
    Describing,
    /// `%test` runs.
    Test,
    /// The file system is compressed.
    Packing,
}

impl Phase {
    /// Reads a line of the runtime, of any product and version: `INFO:    Running post scriptlet`. The wording is that of
    /// `internal/pkg/build` and `internal/pkg/client`, the same from Singularity 3.5 to Apptainer 1.4 and CE 4.
    #[must_use]
    pub fn of_line(line: &str) -> Option<Self> {
        let said = line.strip_prefix("INFO:")?.trim_start();
        let begins = |words: &[&str]| words.iter().any(|word| said.starts_with(word));
        if begins(&["Fetching", "Downloading", "Converting OCI", "Copying"]) {
            Some(Self::Fetching)
        } else if begins(&["Extracting"]) {
            Some(Self::Extracting)
        } else if begins(&["Running setup"]) {
            Some(Self::Setup)
        } else if begins(&["Running post"]) {
            Some(Self::Post)
        } else if begins(&["Adding"]) {
            Some(Self::Describing)
        } else if begins(&["Running test"]) {
            Some(Self::Test)
        } else if begins(&["Creating SIF", "Creating sandbox"]) {
            Some(Self::Packing)
        } else {
            None
        }
    }

    /// What goes on, for people.
    #[must_use]
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Fetching => "fetching",
            Self::Extracting => "unpacking the base",
            Self::Setup => "running %setup",
            Self::Post => "running %post",
            Self::Describing => "writing environment and labels",
            Self::Test => "running %test",
            Self::Packing => "packing",
        }
    }
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
        let phases: Vec<Phase> = said.lines().filter_map(Phase::of_line).collect();
        assert_eq!(
            phases,
            [
                Phase::Extracting,
                Phase::Post,
                Phase::Describing,
                Phase::Packing
            ]
        );
        let pull = [
            "INFO:    Converting OCI blobs to SIF format",
            "INFO:    Downloading network image",
        ];
        assert_eq!(pull.map(Phase::of_line), [Some(Phase::Fetching); 2]);
        assert_eq!(Phase::of_line("Extracting wheel"), None);
    }
}
