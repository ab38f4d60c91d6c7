//! The catalogue of images, as a verb reads it.

use std::path::Path;

use crate::app::error::{Error, Kind};
use crate::app::session::{SITE_DIR, Session, base_dir};
use crate::image::catalogue::Catalogue;
use crate::image::catalogue::{CatalogueDirs, CatalogueError, read_catalogue};

impl Session {
    /// Where descriptions of images lie: the site's directory, and the user's own, which need not be there.
    pub(crate) fn catalogue_dirs() -> CatalogueDirs {
        CatalogueDirs {
            site: Path::new(SITE_DIR).join("images.d"),
            user: base_dir("XDG_CONFIG_HOME", ".config").map(|dir| dir.join("dlrun/images.d")),
        }
    }

    /// The catalogue, for those to whom its faults are of no concern.
    pub(crate) fn quiet_catalogue() -> Option<Catalogue> {
        read_catalogue(&Self::catalogue_dirs()).ok()
    }

    /// The catalogue. Files of the site that are passed over are named as warnings; nobody has looked at the images' files
    /// yet ([`crate::image::catalogue::look`]).
    pub(crate) fn catalogue(&self) -> Result<Catalogue, Error> {
        let catalogue = read_catalogue(&Self::catalogue_dirs()).map_err(|error| match error {
            CatalogueError::Faulty(path, text, problems) => {
                Error::in_file(Kind::Config, &path.to_string_lossy(), &text, problems)
            }
            error @ CatalogueError::Twice(_) => Error::new(Kind::Config, error)
                .hinted("take one of them out, or give it another name"),
            error @ CatalogueError::Read { .. } => Error::new(Kind::Config, error),
        })?;
        for warning in &catalogue.warnings {
            self.output.warning(warning);
        }
        Ok(catalogue)
    }
}
