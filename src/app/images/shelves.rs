//! The catalogue of images, as a verb reads it.

use std::path::{Path, PathBuf};

use crate::app::error::{Error, Kind, failure};
use crate::app::session::{SITE_DIR, Session, base_dir};
use crate::config::{Origin, Owner};
use crate::image::catalogue::{
    Catalogue, CatalogueDirs, CatalogueError, Check, keep_description, read_catalogue, write_check,
};

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
    /// yet ([`crate::image::catalogue::look_at_files`]).
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

/// Where the owner's descriptions lie.
pub(crate) fn shelf_dir(owner: Owner) -> Result<PathBuf, Error> {
    let dirs = Session::catalogue_dirs();
    match owner {
        Owner::Site => Ok(dirs.site),
        Owner::User => dirs.user.ok_or_else(|| {
            failure!(Config, "there is no place for your descriptions of images").hinted("set HOME")
        }),
    }
}

/// The file that is to describe an image; nothing else may describe one of that name for the same owner, and the file no
/// other image. A description in it is in the way unless it is to be replaced.
pub(crate) fn shelf_for(
    catalogue: &Catalogue,
    name: &str,
    owner: Owner,
    replaces: bool,
) -> Result<PathBuf, Error> {
    let shelf = shelf_dir(owner)?.join(format!("{name}.toml"));
    let all = catalogue.entries.iter().chain(&catalogue.overridden);
    for known in all.filter(|known| known.owner == owner) {
        let is_in_shelf = matches!(&known.origin, Origin::File { path, .. } if *path == shelf);
        let is_same = known.name == name;
        if is_same && is_in_shelf && replaces || !is_same && !is_in_shelf {
            continue;
        }
        let (other, origin) = (&known.name, &known.origin);
        let error = failure!(CannotWrite, "{origin} describes an image `{other}` already");
        let error = error.hinted("`--name` gives this one another name");
        return Err(match is_in_shelf && is_same {
            true => error.hinted("`--force` takes the place of an image of the same name"),
            false => error.hinted("or take it out there"),
        });
    }
    Ok(shelf)
}

/// Puts a description into the catalogue of its owner.
pub(crate) fn keep(owner: Owner, file_name: &str, text: &str) -> Result<PathBuf, Error> {
    let dir = shelf_dir(owner)?;
    keep_description(&dir, file_name, text, owner == Owner::Site).map_err(|error| {
        // Its hints are about images; this is about the few lines that describe one.
        let error = Error::from(error).unhinted();
        match owner {
            Owner::Site => {
                error.hinted("the site's catalogue is root's; without `--site` it goes into yours")
            }
            Owner::User => error,
        }
    })
}

/// Puts a check into the catalogue, in the place of a former one.
pub(crate) fn keep_check(owner: Owner, check: &Check) -> Result<PathBuf, Error> {
    let file_name = format!("{}.check.toml", check.image);
    keep(owner, &file_name, &write_check(check))
}
