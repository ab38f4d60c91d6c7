//! Makes image files: builds from definition files, and pulls.

mod file_name;
mod from_definition;
mod ownership;
mod pull;
mod unfinished;

pub use file_name::{pulled_name, pulled_path};
pub use from_definition::{Build, build};
pub use ownership::is_vouched_for;
pub(crate) use ownership::unsafe_for_root;
pub use pull::{check_uri, pull, uri_by_digest};
pub use unfinished::{MakeError, Making, Workplace, begin, discard, log_of};
