//! What a job wants of an image.

use crate::config::VersionRange;
use crate::image::catalogue::Accelerator;
use crate::image::choice::processor::Processor;
use crate::job::Provenance;

/// What images are compared with.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Wanted {
    /// The framework, by its exact name in small letters: an image of `tensorflow` is none of `keras`, even where Keras
    /// comes with it, since versions of the two are told apart.
    pub framework: String,
    /// Its versions; `None`: any.
    pub version: Option<VersionRange>,
    /// Python packages that it must have beside the framework, by their names.
    pub packages: Vec<String>,
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
        /// Compute capabilities of the NVIDIA GPUs that may be meant, such as `7.0`, each with who says so; empty: not known.
        capabilities: Vec<(String, String)>,
    },
}

/// The numbers that a version begins with: of `2.4.0a0+f70bd71.nv24.06` it is `2.4.0`. What follows does not count for
/// ranges, unless they name it: the images of hubs carry such suffixes, and a job that wants 2.4 means them too.
#[must_use]
pub fn release(version: &str) -> &str {
    crate::config::release(version).0
}

/// Says whether a version came out before its release: `2.15.0rc1`. NVIDIA's monthly images (`2.4.0a0+f70bd71.nv24.06`) are
/// released as they are.
#[must_use]
pub(crate) fn is_preview(version: &str) -> bool {
    let suffix = crate::config::release(version).1;
    let local = version.split_once('+').map_or("", |(_, local)| local);
    let is_nvidias = local.starts_with("nv") || local.contains(".nv");
    !is_nvidias && suffix.is_some_and(|suffix| !suffix.starts_with("post"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_release_is_what_a_version_begins_with() {
        for (version, expected, preview) in [
            ("2.4.0a0+f70bd71a48.nv24.06", "2.4.0", false),
            ("2.4.1", "2.4.1", false),
            ("2.15.0rc1", "2.15.0", true),
            ("2.15.0-rc.1+cu118", "2.15.0", true),
            ("2.4.0.post1", "2.4.0", false),
            ("2.1.0+cu118", "2.1.0", false),
            ("2.6.0.dev20240901+cu121", "2.6.0", true),
            ("2", "2", false),
            ("2.", "2", false),
            ("2..1", "2", false),
            ("1.7-dev", "1.7", true),
            ("", "", false),
        ] {
            assert_eq!(
                (release(version), is_preview(version)),
                (expected, preview),
                "{version}"
            );
        }
    }
}
