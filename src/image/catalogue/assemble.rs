//! All files together: whose description counts, and which check belongs to it.

use std::collections::HashMap;
use std::path::PathBuf;

use crate::config::Owner;
use crate::foundation::diagnostic::nearest;
use crate::image::catalogue::entry::{Check, Entry};
use crate::image::catalogue::read::CatalogueFile;

/// What is known of images.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Catalogue {
    /// The images, each name once, in the order of the names; each with its latest check.
    pub entries: Vec<Entry>,
    /// Images of the site in whose place the user's own of that name counts.
    pub overridden: Vec<Entry>,
    /// Checks of images that are not described.
    pub orphans: Vec<Check>,
    /// What is wrong with files of the site: they are passed over, since one of them must not stop everybody.
    pub warnings: Vec<String>,
}

/// A name that the user's own files describe twice.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("the image `{name}` is described twice: {first} and {second}")]
pub struct Fault {
    /// The image's name.
    pub name: String,
    /// Where it is described first.
    pub first: String,
    /// Where it is described again.
    pub second: String,
    /// The file of the second description.
    pub path: PathBuf,
}

impl Catalogue {
    /// Lays the files together. Of two descriptions of one name the user's counts; two of the site are named, and the one
    /// counts whose file comes first.
    ///
    /// # Errors
    /// [`Fault`] where two of the user's own files describe one image.
    pub fn assemble(files: Vec<CatalogueFile>) -> Result<Self, Fault> {
        let mut catalogue = Self::default();
        let mut places: HashMap<String, usize> = HashMap::new();
        let mut checks: HashMap<String, Check> = HashMap::new();
        let (site, user): (Vec<CatalogueFile>, Vec<CatalogueFile>) = files
            .into_iter()
            .partition(|file| file.owner == Owner::Site);
        for file in site.into_iter().chain(user) {
            for entry in file.entries {
                catalogue.add(entry, &mut places)?;
            }
            for check in file.checks {
                let known = checks.get(&check.image);
                if known.is_none_or(|known| known.at_ms <= check.at_ms) {
                    checks.insert(check.image.clone(), check);
                }
            }
        }
        for entry in &mut catalogue.entries {
            entry.check = checks.remove(&entry.name);
        }
        catalogue.orphans = checks.into_values().collect();
        catalogue
            .orphans
            .sort_by(|left, right| left.image.cmp(&right.image));
        catalogue
            .entries
            .sort_by(|left, right| left.name.cmp(&right.name));
        Ok(catalogue)
    }

    fn add(&mut self, entry: Entry, places: &mut HashMap<String, usize>) -> Result<(), Fault> {
        let Some(known) = places
            .get(&entry.name)
            .and_then(|at| self.entries.get_mut(*at))
        else {
            places.insert(entry.name.clone(), self.entries.len());
            self.entries.push(entry);
            return Ok(());
        };
        if known.owner != entry.owner {
            self.overridden.push(std::mem::replace(known, entry));
            return Ok(());
        }
        let fault = Fault {
            name: entry.name.clone(),
            first: known.origin.to_string(),
            second: entry.origin.to_string(),
            path: match &entry.origin {
                crate::config::Origin::File { path, .. } => path.clone(),
                _ => PathBuf::new(),
            },
        };
        match entry.owner {
            Owner::User => Err(fault),
            Owner::Site => {
                self.warnings.push(format!("{fault}; the first counts"));
                Ok(())
            }
        }
    }

    /// The image of a name.
    #[must_use]
    pub fn get(&self, name: &str) -> Option<&Entry> {
        let at = self
            .entries
            .binary_search_by(|entry| entry.name.as_str().cmp(name))
            .ok()?;
        self.entries.get(at)
    }

    /// The name that a mistyped one most likely meant.
    #[must_use]
    pub fn nearest(&self, name: &str) -> Option<&str> {
        nearest(name, self.entries.iter().map(|entry| entry.name.as_str()))
    }
}
