//! What a job wants of an image.

use super::entry::Accelerator;
use super::processor::Processor;
use crate::config::VersionRange;
use crate::job::Provenance;

/// What images are held against.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Wanted {
    /// The framework, by its exact name in small letters: an image of `tensorflow` is none of `keras`, even where Keras
    /// comes with it, since versions of the two are told apart.
    pub framework: String,
    /// Its versions; `None`: any.
    pub version: Option<VersionRange>,
    /// The graph compiler; `None`: any or none.
    pub compiler: Option<String>,
    /// Where the image got the framework from; `None`: from anywhere.
    pub provenance: Option<Provenance>,
    /// The nodes' architecture as `uname -m` has it, and who says so; `None`: not known.
    pub arch: Option<(String, String)>,
    /// The nodes' processors.
    pub processor: Processor,
    /// What the job computes on.
    pub device: Device,
}

/// What a job computes on.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Device {
    /// CPUs alone.
    Cpu,
    /// GPUs.
    Gpu {
        /// Whose; [`Accelerator::None`]: not known.
        maker: Accelerator,
        /// The nodes' NVIDIA driver, such as `550.54.15`, and who says so; `None`: not known.
        driver: Option<(String, String)>,
    },
}

/// The numbers that a version begins with: of `2.4.0a0+f70bd71.nv24.06` it is `2.4.0`. What follows does not count for
/// ranges: the images of hubs carry such suffixes, and a job that wants 2.4 means them too.
#[must_use]
pub fn release(version: &str) -> &str {
    let public = version.split('+').next().unwrap_or_default();
    let mut end = 0;
    for part in public.split_inclusive('.') {
        let digits = part.trim_end_matches('.');
        match digits.bytes().position(|byte| !byte.is_ascii_digit()) {
            None if !digits.is_empty() => end += part.len(),
            None => break,
            Some(at) => {
                end += at;
                break;
            }
        }
    }
    public[..end].trim_end_matches('.')
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_release_is_what_a_version_begins_with() {
        for (version, expected) in [
            ("2.4.0a0+f70bd71a48.nv24.06", "2.4.0"),
            ("2.4.1", "2.4.1"),
            ("2.15.0rc1", "2.15.0"),
            ("2.4.0.post1", "2.4.0"),
            ("2.1.0+cu118", "2.1.0"),
            ("2", "2"),
            ("2.", "2"),
            ("2..1", "2"),
            ("1.7-dev", "1.7"),
            ("", ""),
        ] {
            assert_eq!(release(version), expected, "{version}");
        }
    }
}
