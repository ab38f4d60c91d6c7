//! Settings of site and user, layered, each value with its origin.
//!
//! For `dlrun`: `/etc/dlrun/dlrun.toml` < `/etc/dlrun/conf.d/*.toml` < the user's `dlrun.toml` < `DLRUN_SECTION__KEY` <
//! flags. For the node daemon, which is root's: `/etc/dlrun/dlrund.toml` < `/etc/dlrun/dlrund.conf.d/*.toml`. Pure: the
//! texts are passed in. [`KEYS`] and [`DAEMON_KEYS`] are the lists of what can be set; `etc/dlrun.toml` and
//! `etc/dlrund.toml` are tested against them.

mod daemon;
mod fragment;
mod keys;
mod origin;
mod settings;
pub mod site;
mod tables;
mod values;
mod version;

pub use daemon::{DAEMON_KEYS, DaemonSettings};
pub use fragment::Fragment;
pub use keys::{Key, Kind, Setting, Value};
pub use origin::Origin;
pub(crate) use origin::SourceFile;
pub use settings::{KEYS, Settings};
pub use tables::{
    Condition, GpuTable, House, HouseRule, Owner, QueueTable, RecipeTable, Replacement, Rule,
    SCHEMES, StorageTable, Subject, Tables, Wanted,
};
pub(crate) use tables::{arch, text_table};
pub use version::{VersionRange, release};
