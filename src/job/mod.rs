//! The job as its user wrote it: the job file, its parts, and the words for a job's states and names.
//!
//! Pure: text in, [`JobSpec`] or a list of [`crate::foundation::diagnostic::Problem`] out.

mod arguments;
mod array;
mod begin;
pub mod convert;
mod depend;
mod document;
mod file;
mod gpus;
mod id;
mod image;
mod mail;
mod output;
mod overrides;
mod resources;
mod resume;
mod run;
mod scheduler_variables;
pub mod schema;
mod sections;
mod spec;
mod state;

pub use crate::foundation::toml_reader::Located;
pub use arguments::{Argument, arguments, is_option, number, quoted};
pub use array::{ArraySpec, IndexRange, MAX_ELEMENTS};
pub use begin::Begin;
pub use depend::{Dependency, DependencyKind};
pub use document::JobSpec;
pub use file::{MAX_JOB_FILE_BYTES, is_toml, parse, parse_with};
pub use gpus::{SHARES, as_gres, gpus_on_node, is_part, is_share, kind_and_amount, kind_and_count};
pub use id::{JobId, RunId, RunIdError, name_problem};
pub(crate) use image::read_uri;
pub use image::{Bind, BuildMode, Fakeroot, GpuMode, Image};
pub use mail::{Mail, MailEvent, address_problem};
pub use output::OutputPattern;
pub(crate) use output::output_of;
pub(crate) use resources::option_text;
pub use resources::{Resources, resource_keys};
pub use resume::{
    CHECKPOINT, Elastic, ElasticTarget, OF_ONE_START, OnHang, Resume, ResumeOn, SaveSignal,
};
pub use run::Run;
pub(crate) use run::{env, modules, option_lines};
pub use scheduler_variables::SchedulerVariables;
pub(crate) use schema::table_names;
pub use sections::{Build, Python, SchedulerSection, Workload};
pub(crate) use sections::{line_of_text, name_in_small_letters, name_word, version_text};
pub use spec::{
    Asked, Command, Conda, CpuBinding, EnvVar, Framework, Inherit, Launcher, NodeCheck, NodeCount,
    Overrides, OwnPython, Provenance, SchedulerKind, StorageClass, TimingPattern,
};
pub use state::JobState;
