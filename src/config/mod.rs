//! Settings of site and user, layered, each value with its origin.
//!
//! `/etc/dlrun/dlrun.toml` < `/etc/dlrun/conf.d/*.toml` < the user's `dlrun.toml` < `DLRUN_SECTION__KEY` < flags. Pure: the
//! texts are passed in. [`KEYS`] is the one list of what can be set; `etc/dlrun.toml` is tested against it.

mod fragment;
mod keys;
mod settings;

pub use fragment::{Entry, Fragment, Origin};
pub use keys::{KEYS, Key, Kind, Value};
pub use settings::{ConfigError, Defaults, Setting, Settings};
