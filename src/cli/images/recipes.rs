//! The recipes of images, as a verb reads them.

use super::tried::shelf_dir;
use crate::cli::error::{Error, Kind};
use crate::cli::session::Session;
use crate::config::Owner;
use crate::image::recipe::Site;
use crate::image::recipe::{RecipeError, recipes_in};

impl Session {
    /// What the site and the user say of builds.
    pub(crate) fn recipes(&self) -> Result<Site, Error> {
        let beside = |owner| {
            shelf_dir(owner)
                .ok()
                .map(|dir| dir.with_file_name("recipes.d"))
        };
        let dirs: Vec<_> = [Owner::User, Owner::Site]
            .into_iter()
            .filter_map(beside)
            .collect();
        let recipes = recipes_in(&dirs).map_err(|error| match error {
            RecipeError::Wrong(path, text, problems) => {
                Error::in_file(Kind::Config, &path.to_string_lossy(), &text, problems)
            }
            error => Error::new(Kind::Config, error),
        })?;
        Ok(Site::new(&self.settings.tables().recipes, recipes))
    }
}
