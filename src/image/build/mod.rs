//! Makes image files: builds from definition files, and pulls.

mod from_definition;
mod ownership;
mod pull;
mod unfinished;

pub use from_definition::{Build, build};
pub use ownership::is_vouched_for;
pub(crate) use ownership::unsafe_for_root;
pub use pull::{check_uri, pull, pulled_name, pulled_path, uri_by_digest};
pub use unfinished::{MakeError, Making, Workplace, begin, discard, log_of};
