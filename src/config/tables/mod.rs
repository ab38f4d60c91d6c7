//! Tables of the site: its name, rules, storage, kinds of GPUs, house rules, queues, sources of builds.
//!
//! They stand in the same files as the settings. A later file's entry replaces an earlier one of the same name, but what a
//! user's own file says of rules and house rules is added to the site's and replaces nothing.

mod images;
mod kinds;
mod read;
mod recipes;

pub use images::{Alias, Mirror, SCHEMES};
pub(crate) use kinds::arch;
pub(super) use read::{TABLES, read};
pub use recipes::RecipeTable;

use super::origin::Origin;
use super::version::VersionRange;
use crate::foundation::toml_keys::{boolean, count, parsed, texts, values, word};
use crate::foundation::units::Walltime;
use crate::job::{EnvVar, StorageClass, env, modules, name_word, option_lines, option_text};
use crate::{keys, vocabulary};
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
    /// `[queues.NAME]`: what is said of queues in place of the scheduler.
    pub queues: Vec<QueueTable>,
    /// `[site] arch`: the nodes' architecture, as `uname -m` has it.
    pub arch: Option<(String, Origin)>,
    /// `[site] microarch`: what every node's processor is at least.
    pub microarch: Option<(String, Origin)>,
    /// `[aliases]`: own schemes of URIs.
    pub aliases: Vec<Alias>,
    /// `[mirrors]`: where images come from in place of where they are said to.
    pub mirrors: Vec<Mirror>,
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
        /// Absolute; `$NAME` stands for a variable of the job.
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
    /// Where it stands.
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
    /// Every entry by its name in the file, with its place, in the order of the fields.
    #[must_use]
    pub fn entries(&self) -> Vec<(String, &Origin)> {
        let mut all = Vec::new();
        let named = [
            ("site", &self.site),
            ("site.arch", &self.arch),
            ("site.microarch", &self.microarch),
        ];
        for (key, said) in named {
            all.extend(said.iter().map(|(word, at)| (format!("{key} {word}"), at)));
        }
        let rules = self.rules.iter();
        all.extend(rules.map(|rule| (format!("rules {}", rule.name), &rule.origin)));
        let storage = self.storage.iter();
        all.extend(storage.map(|table| (format!("storage.{}", table.name), &table.origin)));
        let gpus = self.gpus.iter();
        all.extend(gpus.map(|gpu| (format!("gpus.{}", gpu.kind), &gpu.origin)));
        all.extend(self.house.entries());
        let queues = self.queues.iter();
        all.extend(queues.map(|queue| (format!("queues.{}", queue.name), &queue.origin)));
        let aliases = self.aliases.iter();
        all.extend(aliases.map(|alias| (format!("aliases {}", alias.name), &alias.origin)));
        let mirrors = self.mirrors.iter();
        all.extend(mirrors.map(|mirror| (format!("mirrors {}", mirror.from), &mirror.origin)));
        all.extend(self.recipes.entries());
        all
    }

    /// What is said of a type of GPU; schedulers tell no capital letters from small ones.
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
        replace(&mut self.aliases, &later.aliases, |alias| &alias.name);
        replace(&mut self.mirrors, &later.mirrors, |mirror| &mirror.from);
        self.arch = later.arch.clone().or(self.arch.take());
        self.microarch = later.microarch.clone().or(self.microarch.take());
        self.house.lay_over(&later.house, owner);
        self.recipes.lay_over(&later.recipes);
    }
}

impl House {
    fn entries(&self) -> Vec<(String, &Origin)> {
        let mut all = Vec::new();
        let cores = self.cores_per_gpu.iter();
        all.extend(cores.map(|(_, at)| ("house.cores_per_gpu".to_owned(), at)));
        for (name, rules) in [("forbid", &self.forbid), ("require", &self.require)] {
            let rules = rules.iter();
            all.extend(rules.map(|rule| (format!("house.{name} {}", rule.key), &rule.origin)));
        }
        let prologue = self.prologue.iter();
        all.extend(prologue.map(|(_, at)| ("house.prologue".to_owned(), at)));
        all
    }

    fn lay_over(&mut self, later: &Self, owner: Owner) {
        match owner {
            Owner::Site => {
                self.cores_per_gpu = later.cores_per_gpu.clone().or(self.cores_per_gpu.take());
                replace(&mut self.forbid, &later.forbid, |rule| rule.key);
                replace(&mut self.require, &later.require, |rule| rule.key);
            }
            Owner::User => {
                self.cores_per_gpu = self.cores_per_gpu.take().or(later.cores_per_gpu.clone());
                add(&mut self.forbid, &later.forbid);
                add(&mut self.require, &later.require);
            }
        }
        self.prologue.extend(later.prologue.iter().cloned());
    }
}

/// Takes those of `later` whose key has no rule yet.
fn add(rules: &mut Vec<HouseRule>, later: &[HouseRule]) {
    for rule in later {
        if rules.iter().all(|known| known.key != rule.key) {
            rules.push(rule.clone());
        }
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
mod tests {
    use std::path::Path;

    use super::*;
    use crate::config::{Defaults, Fragment, Settings};

    const SITE: &str = r#"
[site]
name = "iris"
arch = "x86_64"
microarch = "x86-64-v3"

[[rules]]
name = "xla"
when = { framework = "TensorFlow", version = [">=2.1, <3", "1.15"], accelerator = ["v100", "a100"] }
set = { env = { TF_XLA_FLAGS = "--tf_xla_auto_jit=2" }, prologue = [["mkdir", "-p", "it's $HERE"]] }

[[rules]]
name = "always"
set = { modules = ["gcc/12"], epilogue = [["rm", "-rf", "x"]], directives = ["--comment=a"], arguments = ["-H"] }

[storage.scratch]
path = "/scratch/$USER"
class = "ssd"
queues = ["gpu"]

[gpus]
v100 = { queue = "gpu", cores_per_gpu = 7, constraint = "volta", typed = false }
a100 = { accelerator = "nvidia", driver = "550.54" }

[house]
cores_per_gpu = 7
forbid = { memory = "memory goes by cores here" }
require = ["account"]
prologue = [["module", "purge"]]

[queues.gpu]
max_walltime = "2d"
max_nodes = 4
default = true
accounts = ["p1"]
arch = "amd64"
microarch = "skylake_avx512"

[aliases]
ml = "docker://registry.example.org/ml"

[mirrors]
"docker://docker.io" = "docker://mirror.example.org/hub"
"#;

    fn read(path: &str, text: &str) -> Fragment {
        Fragment::from_toml(Path::new(path), text)
    }

    fn merged(fragments: &[Fragment]) -> Tables {
        for fragment in fragments {
            assert!(
                fragment.errors.is_empty() && fragment.unknown.is_empty(),
                "{fragment:#?}"
            );
        }
        let defaults = Defaults {
            state_dir: Some("/s".into()),
        };
        Settings::merge(&defaults, fragments)
            .expect("settings")
            .tables()
            .clone()
    }

    /// The only fault of a file, with its line.
    fn fault(text: &str) -> (usize, String) {
        let fragment = read("/c.toml", text);
        assert_eq!(
            (fragment.errors.len(), fragment.unknown.len()),
            (1, 0),
            "{fragment:#?}"
        );
        let problem = &fragment.errors[0];
        let hint = problem.hint.clone().unwrap_or_default();
        (
            problem.position(text).expect("a place").0,
            format!("{} [{hint}]", problem.message),
        )
    }

    #[test]
    fn every_table_is_read_with_its_place() {
        let tables = merged(&[read("/etc/dlrun/dlrun.toml", SITE)]);
        assert_eq!(
            tables.site.as_ref().map(|(name, _)| &name[..]),
            Some("iris")
        );
        let [xla, always] = &tables.rules[..] else {
            panic!("{tables:#?}")
        };
        assert_eq!(
            (xla.name.as_str(), xla.origin.to_string().as_str()),
            ("xla", "/etc/dlrun/dlrun.toml:7")
        );
        let subjects: Vec<_> = xla.when.iter().map(|condition| condition.subject).collect();
        assert_eq!(
            subjects,
            [Subject::Framework, Subject::Version, Subject::Accelerator]
        );
        assert_eq!(xla.when[0].any_of, [Wanted::Word("tensorflow".into())]);
        assert_eq!(xla.when[1].any_of.len(), 2);
        assert_eq!(xla.prologue, [["mkdir", "-p", "it's $HERE"]]);
        assert_eq!(
            (always.when.len(), &always.modules[..]),
            (0, &["gcc/12".to_owned()][..])
        );
        assert_eq!(
            (
                always.epilogue.len(),
                always.directives.len(),
                always.arguments.len()
            ),
            (1, 1, 1)
        );
        let scratch = &tables.storage[0];
        assert_eq!(
            (scratch.name.as_str(), scratch.class),
            ("scratch", StorageClass::Ssd)
        );
        assert_eq!(scratch.origin.to_string(), "/etc/dlrun/dlrun.toml:16");
        let kinds: Vec<_> = tables
            .gpus
            .iter()
            .map(|gpu| (gpu.kind.as_str(), gpu.typed))
            .collect();
        assert_eq!(kinds, [("v100", false), ("a100", true)]);
        assert_eq!(
            tables.house.forbid[0].reason.as_deref(),
            Some("memory goes by cores here")
        );
        assert_eq!(
            (tables.house.require[0].key, tables.house.prologue.len()),
            ("account", 1)
        );
        let gpu = &tables.queues[0];
        assert_eq!(
            (gpu.default, gpu.max_nodes, gpu.min_nodes),
            (Some(true), Some(4), None)
        );
        assert_eq!(gpu.max_walltime, Some(Walltime(2 * 86_400)));
        assert_eq!(
            (gpu.arch.as_deref(), gpu.microarch.as_deref()),
            (Some("x86_64"), Some("skylake_avx512"))
        );
        assert_eq!(
            tables.arch.as_ref().map(|(arch, _)| &arch[..]),
            Some("x86_64")
        );
        assert_eq!(
            tables
                .microarch
                .as_ref()
                .map(|(_, origin)| origin.to_string())
                .as_deref(),
            Some("/etc/dlrun/dlrun.toml:5")
        );
        assert_eq!(tables.gpus[1].driver.as_deref(), Some("550.54"));
        let (alias, mirror) = (&tables.aliases[0], &tables.mirrors[0]);
        assert_eq!(
            (&alias.name[..], &alias.target[..]),
            ("ml", "docker://registry.example.org/ml")
        );
        assert_eq!(
            (&mirror.from[..], &mirror.to[..]),
            ("docker://docker.io", "docker://mirror.example.org/hub")
        );
        let shown: Vec<String> = tables.entries().into_iter().map(|(name, _)| name).collect();
        assert!(
            shown.contains(&"aliases ml".to_owned())
                && shown.contains(&"site.arch x86_64".to_owned()),
            "{shown:?}"
        );
    }

    #[test]
    fn a_later_file_of_the_site_replaces_by_name() {
        let later = "[[rules]]\nname = \"xla\"\n[storage.scratch]\npath = \"$TMP\"\nclass = \"common\"\n[house]\ncores_per_gpu = 4\nforbid = [\"memory\", \"nodelist\"]\n";
        let tables = merged(&[read("/a.toml", SITE), read("/b.toml", later)]);
        let rules: Vec<_> = tables
            .rules
            .iter()
            .map(|rule| (rule.name.as_str(), rule.origin.to_string()))
            .collect();
        assert_eq!(
            rules,
            [
                ("xla", "/b.toml:1".to_owned()),
                ("always", "/a.toml:12".to_owned())
            ]
        );
        assert_eq!(
            (tables.storage.len(), tables.storage[0].path.as_str()),
            (1, "$TMP")
        );
        assert_eq!(
            tables.house.cores_per_gpu.as_ref().map(|(cores, _)| *cores),
            Some(4)
        );
        let forbidden: Vec<_> = tables
            .house
            .forbid
            .iter()
            .map(|rule| (rule.key, rule.reason.is_some()))
            .collect();
        assert_eq!(forbidden, [("memory", false), ("nodelist", false)]);
        assert_eq!(
            tables.site.map(|(_, origin)| origin.to_string()).as_deref(),
            Some("/a.toml:3")
        );
    }

    #[test]
    fn a_users_rules_stand_beside_the_sites() {
        let own = "[[rules]]\nname = \"xla\"\n[house]\ncores_per_gpu = 99\nforbid = { memory = \"mine\", qos = \"mine\" }\n";
        let tables = merged(&[read("/a.toml", SITE), read("/home/u.toml", own).of_user()]);
        let rules: Vec<_> = tables
            .rules
            .iter()
            .map(|rule| (rule.name.as_str(), rule.owner))
            .collect();
        assert_eq!(
            rules,
            [
                ("xla", Owner::Site),
                ("always", Owner::Site),
                ("xla", Owner::User)
            ]
        );
        assert_eq!(
            tables.house.cores_per_gpu.as_ref().map(|(cores, _)| *cores),
            Some(7)
        );
        let reasons: Vec<_> = tables
            .house
            .forbid
            .iter()
            .filter_map(|rule| rule.reason.as_deref())
            .collect();
        assert_eq!(reasons, ["memory goes by cores here", "mine"]);
    }

    #[test]
    fn what_is_wrong_in_a_table_is_an_error_with_its_place() {
        let rule = |rest: &str| format!("[[rules]]\nname = \"a\"\n{rest}\n");
        for (text, line, part) in [
            (
                rule("wenn = {}"),
                3,
                "unknown key `rules[0].wenn` [did you mean `when`?]",
            ),
            (
                rule("when = { framwork = \"x\" }"),
                3,
                "did you mean `framework`?",
            ),
            (
                rule("when = { version = \"two\" }"),
                3,
                "is no range of versions",
            ),
            (
                rule("when = { storage = \"sdd\" }"),
                3,
                "did you mean `ssd`?",
            ),
            (
                rule("when = { scheduler = \"lsf\" }"),
                3,
                "there are slurm, torque, openpbs, local",
            ),
            (rule("when = { site = [] }"), 3, "never holds"),
            (rule("when = 3"), 3, "must be a table"),
            (
                rule("set = { env = { DLRUN_X = \"1\" } }"),
                3,
                "`rules[0].set.env`: `DLRUN_X` is reserved",
            ),
            (
                rule("set = { modules = [\"a b\"] }"),
                3,
                "`rules[0].set.modules`: \"a b\" is not a module name",
            ),
            (
                rule("set = { prologue = [\"rm -rf x\"] }"),
                3,
                "must be a list of lists",
            ),
            (rule("set = { prologue = [[]] }"), 3, "names no program"),
            (
                rule("set = { directives = [\"comment\"] }"),
                3,
                "is not an option",
            ),
            (
                rule("[[rules]]\nname = \"a\""),
                4,
                "there is another rule \"a\" in this file",
            ),
            ("[[rules]]\nwhen = {}\n".into(), 1, "needs a `name`"),
            ("[rules]\nname = \"a\"\n".into(), 1, "are written [[rules]]"),
            ("rules = [1]\n".into(), 1, "are written [[rules]]"),
            (
                "house = true\n".into(),
                1,
                "must be a table, written [house]",
            ),
            (
                "[house]\nforbid = [\"memroy\"]\n".into(),
                2,
                "did you mean `memory`?",
            ),
            (
                "[house]\nforbids = []\n".into(),
                2,
                "did you mean `forbid`?",
            ),
            (
                "[storage.a]\npath = \"/x\"\n".into(),
                1,
                "`storage.a` needs `class`",
            ),
            (
                "[storage.a]\npath = \"x\"\nclass = \"ssd\"\n".into(),
                2,
                "must be absolute",
            ),
            (
                "[storage.a]\npath = \"/$(id)\"\nclass = \"ssd\"\n".into(),
                2,
                "a `$` must begin the name",
            ),
            (
                "[storage.a]\npath = \"/a\\nb\"\nclass = \"ssd\"\n".into(),
                2,
                "control characters",
            ),
            (
                "[storage.\"a b\"]\npath = \"/x\"\nclass = \"ssd\"\n".into(),
                1,
                "is no name",
            ),
            (
                "[gpus]\nv100 = \"gpu\"\n".into(),
                2,
                "must be a table, written [gpus.v100]",
            ),
            (
                "[gpus]\nv100 = { queue = \"a b\" }\n".into(),
                2,
                "must not contain ' '",
            ),
            (
                "[queues.gpu]\nmax_walltime = \"30\"\n".into(),
                2,
                "has no unit",
            ),
            ("[site]\nname = \"\"\n".into(), 2, "is no name"),
            (
                "[gpus]\nv100 = { driver = \"new\" }\n".into(),
                2,
                "is no version",
            ),
            (
                "[gpus]\nv100 = { accelerator = \"intel\" }\n".into(),
                2,
                "must be one of",
            ),
            (
                "[queues.gpu]\nmicroarch = \"a b\"\n".into(),
                2,
                "is no name",
            ),
            (
                "[aliases]\nml = \"registry.example.org\"\n".into(),
                2,
                "is no URI",
            ),
            ("[aliases]\nML = \"docker://x\"\n".into(), 2, "is no scheme"),
            (
                "[aliases]\ndocker = \"docker://x\"\n".into(),
                2,
                "write a mirror",
            ),
            (
                "[aliases]\na = \"b://x\"\nb = \"docker://x\"\n".into(),
                2,
                "has no scheme of the runtime; there are docker",
            ),
            (
                "[mirrors]\n\"docker.io\" = \"docker://x\"\n".into(),
                2,
                "is no URI",
            ),
            ("[mirrors]\n\"docker://a\" = 3\n".into(), 2, "must be text"),
        ] {
            let (at, shown) = fault(&text);
            assert!(
                at == line && shown.contains(part),
                "{at}: {shown}, not {line}: {part}, of\n{text}"
            );
        }
    }

    #[test]
    fn a_misspelt_table_is_named_and_none_is_the_daemons() {
        let fragment = read("/c.toml", "[rule]\nx = 1\n");
        assert_eq!(
            fragment.unknown[0].hint.as_deref(),
            Some("did you mean `rules`?")
        );
        let fragment = Fragment::from_daemon_toml(Path::new("/d.toml"), "[storage.a]\nx = 1\n");
        assert_eq!(
            (fragment.errors.len(), fragment.tables),
            (1, Tables::default())
        );
    }
}
