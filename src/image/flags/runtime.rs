//! Which runtime it is: by what `--version` says, never by the command's name.

use std::fmt;

use serde::{Deserialize, Serialize};

/// A family of container runtimes that read SIF images.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Product {
    /// Apptainer, 1.0 and later.
    Apptainer,
    /// SingularityCE (and SingularityPRO), 3.8 and later.
    SingularityCe,
    /// Singularity up to 3.8, before it became two.
    Singularity,
}

impl Product {
    /// As it calls itself in `--version`.
    #[must_use]
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Apptainer => "apptainer",
            Self::SingularityCe => "singularity-ce",
            Self::Singularity => "singularity",
        }
    }
}

/// Major, minor, patch.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub struct Version(
    /// Major.
    pub u32,
    /// Minor.
    pub u32,
    /// Patch.
    pub u32,
);

impl fmt::Display for Version {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}.{}.{}", self.0, self.1, self.2)
    }
}

/// A runtime.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct Runtime {
    /// Which family.
    pub product: Product,
    /// Its version.
    pub version: Version,
}

impl fmt::Display for Runtime {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} {}", self.product.as_str(), self.version)
    }
}

impl Runtime {
    /// Reads what `--version` prints: `apptainer version 1.4.5`, `singularity-ce version 4.1.0-jammy`,
    /// `singularity version 3.5.3`. `None` for anything else.
    #[must_use]
    pub fn parse(said: &str) -> Option<Self> {
        let line = said.lines().find(|line| line.contains(" version "))?;
        let (name, version) = line.trim().split_once(" version ")?;
        let product = match name.to_lowercase().as_str() {
            "apptainer" => Product::Apptainer,
            "singularity-ce" | "singularity-pro" | "singularitypro" => Product::SingularityCe,
            "singularity" => Product::Singularity,
            _ => return None,
        };
        let digits = |part: &str| {
            let end = part
                .find(|c: char| !c.is_ascii_digit())
                .unwrap_or(part.len());
            part[..end].parse::<u32>().ok()
        };
        let mut parts = version.split('.').map(digits);
        let (major, minor) = (parts.next()??, parts.next()??);
        let version = Version(major, minor, parts.next().flatten().unwrap_or(0));
        Some(Self { product, version })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_product_is_read_from_what_it_says() {
        for (said, product, version) in [
            (
                "apptainer version 1.4.5\n",
                Product::Apptainer,
                Version(1, 4, 5),
            ),
            (
                "apptainer version 1.1.0-rc.2",
                Product::Apptainer,
                Version(1, 1, 0),
            ),
            (
                "singularity-ce version 4.1.0-jammy",
                Product::SingularityCe,
                Version(4, 1, 0),
            ),
            (
                "SingularityPRO version 3.11-8",
                Product::SingularityCe,
                Version(3, 11, 0),
            ),
            (
                "singularity version 3.5.3-1.1.el7",
                Product::Singularity,
                Version(3, 5, 3),
            ),
            (
                "WARNING: x\nsingularity-ce version 3.11",
                Product::SingularityCe,
                Version(3, 11, 0),
            ),
        ] {
            assert_eq!(
                Runtime::parse(said),
                Some(Runtime { product, version }),
                "{said}"
            );
        }
        for said in ["", "3.5.3", "podman version 4.3.1", "apptainer version x"] {
            assert_eq!(Runtime::parse(said), None, "{said}");
        }
    }
}
