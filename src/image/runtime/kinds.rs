//! Which container runtimes there are: one directory each, and one line in [`Product::ALL`]. Which one a command is, is known
//! by what `--version` says, never by the command's name.

use std::fmt;

use serde::{Deserialize, Serialize};

use super::apptainer;
use super::facts::{Evaluation, Facts, Feature, Version};

/// A kind of container runtime.
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
    /// All kinds, in the order in which their commands are looked for.
    pub(crate) const ALL: [(Self, &'static Facts); 3] = [
        (Self::Apptainer, &apptainer::APPTAINER),
        (Self::SingularityCe, &apptainer::SINGULARITY_CE),
        (Self::Singularity, &apptainer::SINGULARITY),
    ];

    pub(crate) fn facts(self) -> &'static Facts {
        let found = Self::ALL.iter().find(|(product, _)| *product == self);
        found.map_or(Self::ALL[0].1, |(_, facts)| facts)
    }

    /// As it calls itself in `--version`.
    #[must_use]
    pub fn as_str(self) -> &'static str {
        self.facts().name
    }
}

/// The facts of one kind, or of all where it is not known.
pub(crate) fn facts_of(product: Option<Product>) -> Vec<&'static Facts> {
    let all = Product::ALL.iter();
    all.filter(|(known, _)| product.is_none_or(|product| product == *known))
        .map(|(_, facts)| *facts)
        .collect()
}

/// What the variables of a kind begin with, or those of all where it is not known.
pub(crate) fn prefixes_of(product: Option<Product>) -> Vec<&'static str> {
    let mut prefixes: Vec<_> = facts_of(product).iter().map(|facts| facts.prefix).collect();
    prefixes.dedup();
    prefixes
}

/// The commands of all kinds, in the order in which they are looked for.
#[must_use]
pub fn commands() -> Vec<&'static str> {
    let mut commands: Vec<_> = facts_of(None).iter().map(|facts| facts.command).collect();
    commands.dedup();
    commands
}

/// A runtime.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct Runtime {
    /// Which kind.
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
    pub fn parse(text: &str) -> Option<Self> {
        let line = text.lines().find(|line| line.contains(" version "))?;
        let (name, version) = line.trim().split_once(" version ")?;
        let name = name.to_lowercase();
        let (product, _) = Product::ALL
            .into_iter()
            .find(|(_, facts)| facts.version_names.contains(&name.as_str()))?;
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

/// What a runtime knows; of one that nobody knows, what all know.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Features(pub Option<Runtime>);

impl Features {
    /// Whether it knows it.
    #[must_use]
    pub fn has(self, feature: Feature) -> bool {
        self.0.is_some_and(|runtime| {
            let mut features = runtime.product.facts().features.iter();
            features.any(|(known, since)| *known == feature && runtime.version >= *since)
        })
    }

    /// What its own variables begin with: `APPTAINER`, `SINGULARITY`, or either where nobody knows.
    #[must_use]
    pub fn prefixes(self) -> Vec<&'static str> {
        prefixes_of(self.0.map(|runtime| runtime.product))
    }

    /// What the variables begin with that it obeys, the stronger first.
    #[must_use]
    pub fn obeyed_prefixes(self) -> Vec<&'static str> {
        match self.0 {
            Some(runtime) => runtime.product.facts().obeyed_prefixes.to_vec(),
            None => self.prefixes(),
        }
    }

    /// How it reads values.
    #[must_use]
    pub fn evaluation(self) -> Evaluation {
        match self.0 {
            None => Evaluation::Plain,
            Some(_) if self.has(Feature::NoEval) => Evaluation::SingleQuotes,
            Some(runtime) => (runtime.product.facts().evaluation)(runtime.version),
        }
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
