//! Tables of the site: its name, rules, storage, kinds of GPUs, house rules, queues, sources of builds.
//!
//! They stand in the same files as the settings. A later file's entry replaces an earlier one of the same name, but what a
//! user's own file says of rules and house rules is added to the site's and replaces nothing.

mod images;
mod kinds;
mod read;
mod recipes;

pub use images::{Replacement, SCHEMES};
pub(crate) use kinds::{arch, text_table};
pub(super) use read::{TABLES, read};
pub use recipes::RecipeTable;

use super::origin::Origin;
use super::version::VersionRange;
use crate::foundation::toml_keys::keys;
use crate::foundation::toml_keys::{boolean, count, parsed, texts, values, word};
use crate::foundation::units::Walltime;
use crate::foundation::vocabulary::vocabulary;
use crate::job::{EnvVar, StorageClass, env, modules, name_word, option_lines, option_text};
use images::MAKERS;
use kinds::{driver_version, path, steps};

/// Whose file it is.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Owner {
    /// The site's.
    #[default]
    Site,
    /// The user's own.
    User,
}

/// All tables.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Tables {
    /// `[site] name`, which rules may go by.
    pub site: Option<(String, Origin)>,
    /// `[[rules]]`, in their order.
    pub rules: Vec<Rule>,
    /// `[storage.NAME]`.
    pub storage: Vec<StorageTable>,
    /// `[gpus]`.
    pub gpus: Vec<GpuTable>,
    /// `[house]`.
    pub house: House,
    /// `[queues.NAME]`: replaces what the scheduler reports of queues.
    pub queues: Vec<QueueTable>,
    /// `[site] arch`: the nodes' architecture, as `uname -m` has it.
    pub arch: Option<(String, Origin)>,
    /// `[site] microarch`: what every node's processor is at least.
    pub microarch: Option<(String, Origin)>,
    /// `[aliases]`: own schemes of URIs.
    pub aliases: Vec<Replacement>,
    /// `[mirrors]`: where images come from in place of where they are said to.
    pub mirrors: Vec<Replacement>,
    /// `[recipes]`.
    pub recipes: RecipeTable,
}

keys! {
    /// One of `[[rules]]`; the keys are those of its `set`.
    #[derive(Debug, Clone, PartialEq, Eq, Default)]
    pub struct Rule {
        /// Its name.
        name: String,
        /// Where it begins.
        origin: Origin,
        /// Whose it is.
        owner: Owner,
        /// `when`: all of it must hold; empty: always.
        when: Vec<Condition>,
        /// Variables of the job.
        env: Vec<EnvVar> = or_default(env()),
        /// Environment modules.
        modules: Vec<String> = or_default(modules()),
        /// Steps before the command, argument vectors.
        prologue: Vec<Vec<String>> = or_default(steps()),
        /// Steps after the command, argument vectors.
        epilogue: Vec<Vec<String>> = or_default(steps()),
        /// Further directive lines.
        directives: Vec<String> = or_default(values(option_lines())),
        /// Further arguments of the submit command.
        arguments: Vec<String> = or_default(values(option_lines())),
    }
}

vocabulary! {
    /// What a condition is about: the keys of `when`.
    pub enum Subject {
        /// `[site] name`.
        Site = "site",
        /// The queue that the job goes to.
        Queue = "queue",
        /// `[framework] name`.
        Framework = "framework",
        /// `[framework] version`.
        Version = "version",
        /// `[framework] compiler`.
        Compiler = "compiler",
        /// `none`, `nvidia` for any GPU, or the type of GPU.
        Accelerator = "accelerator",
        /// The class of the storage that was chosen.
        Storage = "storage",
        /// Who takes the job.
        Scheduler = "scheduler",
    }
}

/// One condition of a rule.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Condition {
    /// What it is about.
    pub subject: Subject,
    /// It holds where one of these fits.
    pub any_of: Vec<Wanted>,
}

/// What a condition asks for.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Wanted {
    /// This word.
    Word(String),
    /// A version in this range.
    Version(VersionRange),
}

keys! {
    /// `[storage.NAME]`.
    #[derive(Debug, Clone, PartialEq, Eq)]
    pub struct StorageTable {
        /// NAME.
        name: String,
        /// Where it is.
        origin: Origin,
        /// Absolute; `$NAME` is a variable of the job.
        path: String = or_default(path()),
        /// How quick it is.
        class: StorageClass = or_default(word(&StorageClass::WORDS)),
        /// Queues whose nodes have it; empty: all.
        queues: Vec<String> = or_default(texts()),
    }
}

keys! {
    /// A type of GPU, a key of `[gpus]`.
    #[derive(Debug, Clone, PartialEq, Eq)]
    pub struct GpuTable {
        /// The type, as job files name it.
        kind: String,
        /// Where it is.
        origin: Origin,
        /// Queue whose nodes have it.
        queue: Option<String> = optional(option_text()),
        /// Node feature of those nodes.
        constraint: Option<String> = optional(option_text()),
        /// CPUs that go with each.
        cores_per_gpu: Option<u32> = optional(count(MAX_CORES)),
        /// False where the scheduler knows no types of GPUs, so that the type must not be asked for.
        typed: bool = or_default(boolean().or(true)),
        /// Who makes it: `nvidia` or `amd`.
        accelerator: Option<String> = optional(word(&MAKERS).map(|maker| Some(maker.to_owned()))),
        /// The least version of the driver on its nodes, such as `550.54`.
        driver: Option<String> = optional(driver_version()),
        /// Its compute capability, such as `7.0`.
        compute_capability: Option<String> = optional(driver_version()),
    }
}

const MAX_CORES: u32 = 4096;
const MAX_NODES: u32 = 1_000_000;

/// `[house]`: the site's rules for all jobs.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct House {
    /// CPUs that go with each GPU.
    pub cores_per_gpu: Option<(u32, Origin)>,
    /// Keys of `[resources]` that jobs must not hold.
    pub forbid: Vec<HouseRule>,
    /// Keys of `[resources]` that jobs must hold.
    pub require: Vec<HouseRule>,
    /// Steps before the command of each job, argument vectors.
    pub prologue: Vec<(Vec<String>, Origin)>,
}

/// A key of `[resources]` that is forbidden or required.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct HouseRule {
    /// The key.
    pub key: &'static str,
    /// The site's reason.
    pub reason: Option<String>,
    /// Where it is written.
    pub origin: Origin,
}

keys! {
    /// `[queues.NAME]`; what is `None` is as the scheduler says.
    #[derive(Debug, Clone, PartialEq, Eq)]
    pub struct QueueTable {
        /// NAME.
        name: String,
        /// Where it is.
        origin: Origin,
        /// Whether jobs go to it which name none.
        default: Option<bool> = optional(boolean()),
        /// The longest time limit.
        max_walltime: Option<Walltime> = optional(parsed("", Walltime::parse)),
        /// The time limit of jobs that name none.
        default_walltime: Option<Walltime> = optional(parsed("", Walltime::parse)),
        /// The fewest nodes of a job.
        min_nodes: Option<u32> = optional(count(MAX_NODES)),
        /// The most nodes of a job.
        max_nodes: Option<u32> = optional(count(MAX_NODES)),
        /// Accounts that may use it.
        accounts: Option<Vec<String>> = optional(texts()),
        /// Its nodes' architecture.
        arch: Option<String> = optional(arch()),
        /// What the processor of each of its nodes is at least.
        microarch: Option<String> = optional(name_word()),
    }
}

impl Tables {
    /// What is said of a type of GPU; schedulers ignore case.
    #[must_use]
    pub fn gpu(&self, kind: &str) -> Option<&GpuTable> {
        self.gpus
            .iter()
            .find(|gpu| gpu.kind.eq_ignore_ascii_case(kind))
    }

    /// Lays the tables of a later file over these.
    pub(super) fn lay_over(&mut self, later: &Self, owner: Owner) {
        self.site = later.site.clone().or(self.site.take());
        for rule in &later.rules {
            let same = |known: &&mut Rule| known.name == rule.name && known.owner == rule.owner;
            match self.rules.iter_mut().find(same) {
                Some(known) => *known = rule.clone(),
                None => self.rules.push(rule.clone()),
            }
        }
        replace(&mut self.storage, &later.storage, |table| &table.name);
        replace(&mut self.gpus, &later.gpus, |table| &table.kind);
        replace(&mut self.queues, &later.queues, |table| &table.name);
        replace(&mut self.aliases, &later.aliases, |alias| &alias.from);
        replace(&mut self.mirrors, &later.mirrors, |mirror| &mirror.from);
        self.arch = later.arch.clone().or(self.arch.take());
        self.microarch = later.microarch.clone().or(self.microarch.take());
        self.house.lay_over(&later.house, owner);
        self.recipes.lay_over(&later.recipes);
    }
}

impl House {
    fn lay_over(&mut self, later: &Self, owner: Owner) {
        let prologue = [&self.prologue[..], &later.prologue[..]].concat();
        // What the site says beats a user's own file.
        let (mut under, over) = match owner {
            Owner::Site => (std::mem::take(self), later.clone()),
            Owner::User => (later.clone(), std::mem::take(self)),
        };
        replace(&mut under.forbid, &over.forbid, |rule| rule.key);
        replace(&mut under.require, &over.require, |rule| rule.key);
        *self = Self {
            cores_per_gpu: over.cores_per_gpu.or(under.cores_per_gpu),
            prologue,
            ..under
        };
    }
}

/// Takes each of `later` in place of the one of its name, else behind the others.
fn replace<T: Clone>(tables: &mut Vec<T>, later: &[T], name: impl Fn(&T) -> &str) {
    for table in later {
        match tables.iter_mut().find(|known| name(known) == name(table)) {
            Some(known) => *known = table.clone(),
            None => tables.push(table.clone()),
        }
    }
}

#[cfg(test)]
mod tests;
