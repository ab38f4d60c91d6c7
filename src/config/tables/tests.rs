use std::path::Path;

use super::*;
use crate::config::{Fragment, Settings};

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
    let defaults = Some("/s".into());
    Settings::merge(defaults, fragments)
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
        (&alias.from[..], &alias.to[..]),
        ("ml", "docker://registry.example.org/ml")
    );
    assert_eq!(
        (&mirror.from[..], &mirror.to[..]),
        ("docker://docker.io", "docker://mirror.example.org/hub")
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

#[track_caller]
fn all_complain(cases: &[(String, usize, &str)]) {
    for (text, line, part) in cases {
        let (at, shown) = fault(text);
        assert!(
            at == *line && shown.contains(part),
            "{at}: {shown}, not {line}: {part}, of\n{text}"
        );
    }
}

#[test]
fn what_is_wrong_in_a_rule_is_an_error_with_its_place() {
    let rule = |rest: &str| format!("[[rules]]\nname = \"a\"\n{rest}\n");
    all_complain(&[
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
            "is not a range of versions",
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
        ("[[rules]]\nwhen = {}\n".into(), 1, "needs `name`"),
        ("[rules]\nname = \"a\"\n".into(), 1, "is written [[rules]]"),
        ("rules = [1]\n".into(), 1, "is written [[rules]]"),
    ]);
}

#[test]
fn what_is_wrong_in_another_table_is_an_error_with_its_place() {
    all_complain(&[
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
            "is not a name",
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
        ("[site]\nname = \"\"\n".into(), 2, "is not a name"),
        (
            "[gpus]\nv100 = { driver = \"new\" }\n".into(),
            2,
            "is not a version",
        ),
        (
            "[gpus]\nv100 = { accelerator = \"intel\" }\n".into(),
            2,
            "must be one of",
        ),
        (
            "[queues.gpu]\nmicroarch = \"a b\"\n".into(),
            2,
            "is not a name",
        ),
        (
            "[aliases]\nml = \"registry.example.org\"\n".into(),
            2,
            "is no URI",
        ),
        ("[aliases]\nML = \"docker://x\"\n".into(), 2, "not a scheme"),
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
    ]);
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

mod recipe_tables {
    use std::path::Path;

    use crate::config::{Fragment, Settings};

    const SITE: &str = r#"
[recipes]
pip_index = "https://mirror.example/simple"
pip_trusted = ["mirror.example"]
[recipes.base]
"python-3.11" = "/images/python-3.11.sif"
[recipes.apt_mirror]
debian = "https://mirror.example/debian"
[recipes.environment]
https_proxy = "http://proxy.example:3128"
"#;

    #[test]
    fn a_users_file_adds_to_the_sites_and_wins() {
        let own = "[recipes]\npip_index = \"https://own.example/simple\"\n[recipes.base]\n\"cuda-12\" = \"/c.sif\"\n";
        let fragments = [
            Fragment::from_toml(Path::new("/site.toml"), SITE),
            Fragment::from_toml(Path::new("/own.toml"), own).of_user(),
        ];
        assert!(
            fragments
                .iter()
                .all(|fragment| fragment.errors.is_empty() && fragment.unknown.is_empty())
        );
        let defaults = Some("/s".into());
        let settings = Settings::merge(defaults, &fragments).expect("settings");
        let recipes = &settings.tables().recipes;
        assert_eq!(
            recipes.pip_index.as_deref(),
            Some("https://own.example/simple")
        );
        assert_eq!(recipes.base["python-3.11"], "/images/python-3.11.sif");
    }

    #[test]
    fn mistakes_have_their_place() {
        for (text, line, part) in [
            (
                "[recipes]\npip_indx = \"x\"\n",
                2,
                "did you mean `pip_index`?",
            ),
            ("[recipes]\nbase = \"x\"\n", 2, "recipes.base"),
            ("[recipes.base]\na = 3\n", 2, "text"),
            ("recipes = 3\n", 1, "must be a table, written [recipes]"),
        ] {
            let fragment = Fragment::from_toml(Path::new("/c.toml"), text);
            let problem = fragment.errors.first().unwrap_or_else(|| panic!("{text}"));
            let shown = format!(
                "{} {}",
                problem.message,
                problem.hint.clone().unwrap_or_default()
            );
            assert_eq!(
                problem.position(text).map(|(line, _)| line),
                Some(line),
                "{shown}"
            );
            assert!(shown.contains(part), "{shown}");
        }
    }
}
