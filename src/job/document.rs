//! The job file as values.

use super::id::name_problem;
use super::image::{Image, image};
use super::resources::{Resources, resources};
use super::resume::{Elastic, Resume, resume};
use super::run::{Run, run};
use super::sections::{
    Build, FrameworkTable, Python, SchedulerSection, StorageTable, TimingTable, Workload, build,
    python,
};
use super::spec::{Framework, Overrides, StorageClass, TimingPattern};
use crate::foundation::toml_keys::keys;
use crate::foundation::toml_keys::{Kind, parsed, table};
use crate::foundation::toml_reader::Located;

keys! {
    /// A whole job file.
    #[derive(Debug, Clone, PartialEq)]
    pub struct JobSpec {
        /// Version of this format.
        format: Option<u64> = optional(format()),
        /// Job name. Letters, digits and `._+-`; begins with a letter or digit. Default: stem of the file name.
        name: Option<String> = optional(name()),
        /// What runs, and in which environment.
        run: Run = or_default(run()),
        /// What the job needs. A line that is left out leaves the choice to the site.
        resources: Resources = or_default(resources()),
        /// Who takes the job, and what is passed through to it.
        scheduler: SchedulerSection = or_default(table::<SchedulerSection>()),
        /// The container that the command runs in.
        image: Image = or_default(image()),
        /// The Python environment that the job runs in.
        python: Python = or_default(python()),
        /// What the training is written with. Rules of the site go by it.
        framework: Framework = or_default(table().map(FrameworkTable::framework)),
        /// Whether the graph compiler is left to the performance model: `framework.compiler = "auto"`.
        leaves_compiler: bool,
        /// Whether there is the key `framework.explore` of dlrun 0.1.
        has_explore: bool,
        /// Whether the ways in which the command can run are tried before it: `framework.trial`.
        tries_ways: bool,
        /// The storage that the job would like.
        storage: Option<StorageClass> = optional(table().map(|storage: StorageTable| storage.prefer)),
        /// The application's source, fetched and built once before the run.
        build: Option<Build> = optional(build()),
        /// How the run continues after one of its starts ended early. Without it nothing is started again.
        resume: Option<Located<Resume>> = located(resume()),
        /// The run's starts may have different numbers of nodes.
        elastic: Option<Located<Elastic>> = located(table::<Elastic>()),
        /// What the job computes. Recorded with every measurement.
        workload: Workload = or_default(table::<Workload>()),
        /// How epochs are read from the output.
        timing: Option<Located<TimingPattern>> = optional(table().map(TimingTable::pattern)),
        /// What the command line sets in its place.
        overrides: Overrides,
    }
}

fn format() -> Kind<u64> {
    let schema = serde_json::json!({ "const": 1, "default": 1 });
    Kind::new(schema, |fields, key| {
        fields.number(key, 0..=u32::MAX.into())
    })
}

fn name() -> Kind<String> {
    let pattern = "^[^\\x00-\\x2f\\x3a-\\x40\\x5b-\\x60\\x7b-\\x7f][^\\x00-\\x2a,/\\x3a-\\x40\\x5b-\\x5e`\\x7b-\\x7f]*$";
    let name = parsed(pattern, |name| {
        name_problem(name).map_or_else(|| Ok(name.to_owned()), Err)
    });
    name.with("maxLength", 100)
}
