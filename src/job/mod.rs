//! The job as its user wrote it: the job file, its parts, and the words for a job's states and names.
//!
//! Pure: text in, [`JobSpec`] or a list of [`crate::foundation::diagnostic::Problem`] out.

mod arguments;
mod array;
mod begin;
pub mod convert;
mod depend;
mod fields;
mod file;
mod gpus;
mod id;
mod image;
mod mail;
mod output;
mod overrides;
mod resources;
pub mod schema;
mod sections;
mod spec;
mod state;

pub use arguments::{Argument, arguments, is_option, number, quoted};
pub use array::{ArrayError, ArraySpec, IndexRange, MAX_ELEMENTS};
pub use begin::Begin;
pub use depend::{Dependency, DependencyKind};
pub(crate) use fields::Fields;
pub use file::{MAX_JOB_FILE_BYTES, is_toml, parse, parse_with};
pub(crate) use file::{TABLES, option_lines, read_env, read_modules};
pub use gpus::{gpus_on_node, kind_and_count};
pub use id::{JobId, RunId, RunIdError, name_problem};
pub use image::{Bind, BuildMode, Fakeroot, GpuMode, Image};
pub(crate) use image::{credentials_in, read_uri};
pub use mail::{Mail, MailEvent, address_problem};
pub use output::OutputPattern;
pub(crate) use output::output_of;
pub use overrides::Overrides;
pub use resources::RESOURCE_KEYS;
pub(crate) use resources::option_text;
pub(crate) use sections::word;
pub use spec::{
    Asked, Build, Command, Conda, EnvVar, Framework, Inherit, JobSpec, Launcher, LeftToModel,
    Located, NodeCount, OwnPython, Provenance, Resources, Run, SchedulerKind, SchedulerSection,
    StorageClass, TimingPattern, Workload,
};
pub use state::JobState;
