//! The recipes of images, as a verb reads them.

use super::error::Error;
use super::session::Session;
use crate::recipe::Site;

impl Session {
    /// What the site and the user say of builds.
    pub(crate) fn recipes(&self) -> Result<Site, Error> {
        Ok(Site::default())
    }
}
