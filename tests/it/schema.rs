//! The JSON Schema of the job file says what the reader says.

use std::collections::BTreeSet;
use std::fs;
use std::path::Path;

use dlrun::job::{parse, schema};
use regex_lite::Regex;
use serde_json::Value;

use crate::support::TestEnv;

/// Judges by the words of JSON Schema that ours uses; another word is a mistake in one of the two.
fn fits(schema: &Value, value: &Value) -> bool {
    let rules = schema.as_object().expect("a schema is an object");
    rules
        .iter()
        .all(|(word, rule)| holds(word, rule, rules, value))
}

fn holds(word: &str, rule: &Value, rules: &serde_json::Map<String, Value>, value: &Value) -> bool {
    let all = || rule.as_array().expect("a list");
    let bound = || rule.as_u64().expect("a number");
    let (text, number) = (value.as_str(), value.as_f64());
    let (list, object) = (value.as_array(), value.as_object());
    match word {
        "$schema" | "title" | "description" | "default" | "examples" => true,
        "type" => match rule.as_str().expect("a word") {
            "object" => object.is_some(),
            "array" => list.is_some(),
            "string" => text.is_some(),
            "integer" => value.is_i64() || value.is_u64(),
            "number" => value.is_number(),
            "boolean" => value.is_boolean(),
            other => panic!("type {other}"),
        },
        "const" => value == rule,
        "enum" => all().contains(value),
        "pattern" => text.is_none_or(|text| {
            Regex::new(rule.as_str().expect("text"))
                .expect("valid")
                .is_match(text)
        }),
        "minLength" => text.is_none_or(|text| text.chars().count() as u64 >= bound()),
        "maxLength" => text.is_none_or(|text| text.chars().count() as u64 <= bound()),
        "minimum" => number.is_none_or(|number| number >= bound() as f64),
        // Beyond 2^53 whole numbers are exact only as such.
        "maximum" => match value.as_u64() {
            Some(number) => number <= bound(),
            None => number.is_none_or(|number| number <= bound() as f64),
        },
        "minItems" => list.is_none_or(|list| list.len() as u64 >= bound()),
        "items" => list.is_none_or(|list| list.iter().all(|item| fits(rule, item))),
        "prefixItems" => {
            list.is_none_or(|list| all().iter().zip(list).all(|(rule, item)| fits(rule, item)))
        }
        "anyOf" => all().iter().any(|rule| fits(rule, value)),
        "oneOf" => all().iter().filter(|rule| fits(rule, value)).count() == 1,
        "allOf" => all().iter().all(|rule| fits(rule, value)),
        "not" => !fits(rule, value),
        "required" => object.is_none_or(|object| {
            all()
                .iter()
                .all(|name| object.contains_key(name.as_str().expect("a name")))
        }),
        "dependentRequired" => object.is_none_or(|object| {
            let all = rule.as_object().expect("an object").iter();
            let mut held = all.filter(|(name, _)| object.contains_key(&**name));
            held.all(|(_, others)| holds("required", others, rules, value))
        }),
        "properties" => object.is_none_or(|object| {
            let rules = rule.as_object().expect("an object");
            rules
                .iter()
                .all(|(name, rule)| object.get(name).is_none_or(|value| fits(rule, value)))
        }),
        "propertyNames" => {
            object.is_none_or(|object| object.keys().all(|name| fits(rule, &name.as_str().into())))
        }
        "additionalProperties" => object.is_none_or(|object| {
            let known = rules.get("properties").and_then(Value::as_object);
            let further = object
                .iter()
                .filter(|(name, _)| known.is_none_or(|known| !known.contains_key(*name)));
            let mut further = further.map(|(_, value)| value);
            if rule == &Value::Bool(false) {
                further.next().is_none()
            } else {
                further.all(|value| fits(rule, value))
            }
        }),
        other => panic!("{other} is no word that the judge knows"),
    }
}

fn judge(text: &str) -> (bool, bool) {
    let value: Value = toml::from_str(text).unwrap_or_else(|error| panic!("{error} in {text}"));
    (parse(text).is_ok(), fits(&schema::schema(), &value))
}

/// Keys and tables that the reader knows: it lists them where a key is unknown.
fn keys_of_the_reader(table: &str) -> BTreeSet<String> {
    keys_of_the_reader_at(&if table.is_empty() {
        String::new()
    } else {
        format!("[{table}]\n")
    })
}

fn keys_of_the_reader_at(head: &str) -> BTreeSet<String> {
    let unknown = "an_unknown_key_that_is_like_none_of_them";
    let problems = parse(&format!("{head}{unknown} = 1\n")).expect_err("it is unknown");
    let problem = problems
        .iter()
        .find(|problem| problem.message.contains(unknown))
        .expect("it is told");
    let known = problem
        .hint
        .as_deref()
        .and_then(|hint| hint.strip_prefix("known here: "))
        .expect("a list");
    known.split(", ").map(str::to_owned).collect()
}

#[test]
fn the_keys_of_the_schema_are_those_of_the_reader() {
    let schema = schema::schema();
    let names = |object: &Value| -> BTreeSet<String> {
        object["properties"]
            .as_object()
            .expect("keys")
            .keys()
            .cloned()
            .collect()
    };
    assert_eq!(names(&schema), keys_of_the_reader(""));
    let mut seen = 0;
    for (table, of_table) in schema["properties"].as_object().expect("tables") {
        if of_table["type"] == "object" {
            seen += 1;
            assert_eq!(names(of_table), keys_of_the_reader(table), "[{table}]");
            assert_eq!(of_table["additionalProperties"], false, "[{table}]");
        }
    }
    assert_eq!(seen, 12);
    assert_eq!(
        names(&schema["properties"]["resources"]["properties"]["nodes"]["anyOf"][1]),
        keys_of_the_reader_at("[resources.nodes]\nmax = 2\n")
    );
    assert_eq!(
        names(&schema["properties"]["resources"]["properties"]["mail"]),
        keys_of_the_reader("resources.mail")
    );
}

#[test]
fn every_key_has_a_description_and_stands_in_the_documentation() {
    let page = fs::read_to_string(Path::new(env!("CARGO_MANIFEST_DIR")).join("docs/job-file.md"))
        .expect("a page");
    let schema = schema::schema();
    for key in schema::keys() {
        assert!(page.contains(&format!("`{key}`")), "{key}");
        let (table, name) = key.split_once('.').unwrap_or(("", &key));
        let keys = if table.is_empty() {
            &schema["properties"]
        } else {
            &schema["properties"][table]["properties"]
        };
        let about = keys[name]["description"]
            .as_str()
            .unwrap_or_else(|| panic!("{key} has no description"));
        assert!(about.ends_with('.'), "{key}: {about}");
    }
}

#[test]
fn words_of_the_reader_are_those_of_the_schema() {
    let schema = schema::schema();
    for (table, key) in [
        ("run", "launcher"),
        ("scheduler", "kind"),
        ("storage", "prefer"),
    ] {
        let words = schema["properties"][table]["properties"][key]["enum"]
            .as_array()
            .expect("words");
        let wrong = format!("[{table}]\n{key} = \"no such word\"\n");
        let problems = parse(&wrong).expect_err("no such word");
        let listed = problems
            .iter()
            .find(|problem| problem.message.contains("must be one of"))
            .expect("a list");
        // The key, its words and the wrong one are in backticks.
        let known: Vec<&str> = listed.message.split('`').skip(3).step_by(2).collect();
        let words: Vec<&str> = words
            .iter()
            .map(|word| word.as_str().expect("text"))
            .collect();
        let (known, words): (BTreeSet<_>, BTreeSet<_>) = (
            known[..known.len() - 1].iter().copied().collect(),
            words.into_iter().collect(),
        );
        assert_eq!(known, words, "{}", listed.message);
    }
}

/// Lines under `[run] command = ..` that both call good.
const GOOD: &[&str] = &[
    "",
    "workdir = \"a b\"\nenv = { A = \"\", _B1 = \"x y\" }\nmodules = [\"gcc/13.2\", \"a@b=c\"]",
    "inherit = \"all\"\nbind = \"none\"",
    "inherit = [\"A\", \"B\"]\nlauncher = \"none\"\nidle_nodes = true",
    "[resources]\nnodes = 100000\ntasks_per_node = 4096\ncpus_per_task = 65_536",
    "[resources]\nnodes = { max = 4 }",
    "[resources]\nnodes = { min = 2, max = 4, efficiency = 0.75 }",
    "[framework]\nexplore = 0.1",
    "[framework]\nexplore = 1",
    "[resources]\ngpus_per_node = 2",
    "[resources]\ngpus_per_task = \"v100:1\"",
    "[resources]\ngpus_per_node = \"2\"",
    "[resources]\ngpus_per_node = \"v100.x-1:2\"",
    "[resources]\nmemory = \"1.5 GB\"\nwalltime = \"1h30m\"",
    "[resources]\nmemory = \"auto\"\nwalltime = \"auto\"",
    "[resources]\nmemory_per_cpu = \"4GiB\"\nwalltime = \"36:00:00\"",
    "[resources]\nwalltime = \"1-12:00:00\"",
    "[resources]\nwalltime = \"2d 3min\"",
    "[resources]\nwalltime = \" 90m \"",
    "[resources]\nqueue = \"gpu,cpu\"\nconstraint = \"[a|b]&c*2!\"\nnodelist = \"n[1-3]\"\nexclude = \"n-1\"",
    "[resources]\narray = \"1,3,5-9:2%4\"\nbegin = \"2027-01-31T08:00\"",
    "[resources]\nbegin = \"2027-01-31\"\nexclusive = false",
    "[resources]\ndepends = [\"afterok:1234\", \"aftercorr:@1\", \"after:12[]\"]",
    "[resources]\nmail = { to = \"a.b+c@x-y.example\", on = [\"end\", \"all\"] }",
    "[resources]\nmail = { on = [\"time_limit\"] }",
    "[resources]\nlicenses = { matlab = 1, \"ansys@srv\" = 1000000 }",
    "[scheduler]\nkind = \"openpbs\"\ndirectives = [\"--comment=a b\", \"-r n\"]\narguments = []",
    "[image]\nuri = \"docker://a/b:1\"\nnone = false",
    "[image]\npath = \"x.sif\"",
    "[image]\nbind = [\"/a\", \"/a:/b\", \"/a b:/b:ro\", \"$TMPDIR:/t\", { source = \"/a:b\", target = \"/c\", read_only = true }]",
    "[image]\ngpu = \"amd\"\nrequire_gpu = true\nfakeroot = true\ncleanenv = true\noptions = [\"--contain\"]",
    "[image]\nfakeroot = \"auto\"\nbuild = \"auto\"",
    "[framework]\nprovenance = \"any\"",
    "[framework]\nname = \"pytorch\"\nversion = \">=2.1, <3\"\ncompiler = \"auto\"",
    "[build]\nsource = \"https://x/y.git\"\ncommand = \"make\"\nparallelism = 4096\nchecksum = \"0123456789abcdef0123456789abcdef01234567\"",
    "[workload]\nmodel = \"é\"\nparameters = 1152921504606846975\nbatch_size = 1",
    "[timing]\nepoch = '(?<epoch>\\d+)'",
    "[python]\nrequirements = \"r.txt\"\n[storage]\nprefer = \"ultra_high\"",
];

/// Lines that both refuse.
const BAD: &[&str] = &[
    "script = \"x.sh\"",
    "command_ = 1",
    "workdir = \"\"",
    "workdir = \"a\\nb\"",
    "workdir = 1",
    "env = { \"a-b\" = \"\" }",
    "env = { A = 1 }",
    "env = { DLRUN_X = \"\" }",
    "env = { PWD = \"\" }",
    "modules = [\"-x\"]",
    "modules = [\"a b\"]",
    "modules = \"a\"",
    "launcher = \"rocket\"",
    "idle_nodes = 1",
    "inherit = \"some\"",
    "inherit = [\"a b\"]",
    "[resources]\nnodes = { min = 1 }",
    "[resources]\nnodes = { max = 0 }",
    "[resources]\nnodes = { max = 2, efficiency = 1.5 }",
    "[resources]\nnodes = { max = 2, most = 3 }",
    "[framework]\nexplore = 2",
    "[framework]\nexplore = \"0.1\"",
    "[resources]\nnodes = 0",
    "[resources]\nnodes = 100001",
    "[resources]\nnodes = -1",
    "[resources]\nnodes = 1.5",
    "[resources]\nnodes = \"2\"",
    "[resources]\ngpus_per_node = 0",
    "[resources]\ngpus_per_task = 0",
    "[resources]\ngpus_per_node = \"v100\"",
    "[resources]\ngpus_per_node = \"a:b:1\"",
    "[resources]\ngpus_per_node = \"v100:0\"",
    "[resources]\nmemory = \"64\"",
    "[resources]\nmemory = \"64 gib\"",
    "[resources]\nmemory = \"1GiB\"\nmemory_per_cpu = \"1GiB\"",
    "[resources]\nmemory_per_cpu = \"auto\"",
    "[resources]\nwalltime = \"12\"",
    "[resources]\nwalltime = \"12:30\"",
    "[resources]\nwalltime = \"1h1h\"",
    "[resources]\nwalltime = \"30m1h\"",
    "[resources]\nwalltime = \"1-24:00:00\"",
    "[resources]\nwalltime = 12",
    "[resources]\nqueue = \"\"",
    "[resources]\nqueue = \"a b\"",
    "[resources]\nqueue = \"-a\"",
    "[resources]\nqueue = \"a;b\"",
    "[resources]\nconstraint = \"a'b\"",
    "[resources]\narray = \"0-\"",
    "[resources]\narray = \"0-9%0\"",
    "[resources]\nbegin = \"tomorrow\"",
    "[resources]\nbegin = \"08:00\"",
    "[resources]\ndepends = [\"afterok\"]",
    "[resources]\ndepends = [\"singleton:1\"]",
    "[resources]\ndepends = [\"afterok:1:2\"]",
    "[resources]\nmail = { to = \"a@b\" }",
    "[resources]\nmail = { on = [] }",
    "[resources]\nmail = { to = \"a b\", on = [\"end\"] }",
    "[resources]\nmail = { to = \"-a@b\", on = [\"end\"] }",
    "[resources]\nmail = { on = [\"END\"] }",
    "[resources]\nmail = { on = [\"end\"], cc = \"x\" }",
    "[resources]\nlicenses = { matlab = 0 }",
    "[resources]\nlicenses = { \"a b\" = 1 }",
    "[resources]\nlicenses = { matlab = \"1\" }",
    "[scheduler]\nkind = \"Slurm\"",
    "[scheduler]\ndirectives = [\"comment\"]",
    "[scheduler]\ndirectives = [\"-\"]",
    "[scheduler]\narguments = [\"-a\\nb\"]",
    "[image]\nuri = \"a/b:1\"",
    "[image]\nuri = \"docker://\"",
    "[image]\nuri = \"docker://a b\"",
    "[image]\nuri = \"docker://a\"\npath = \"b\"",
    "[image]\nnone = true\npath = \"b\"",
    "[image]\nbind = [\"/a:b\"]",
    "[image]\nbind = [\"/a:/b:x\"]",
    "[image]\nbind = [\"~/a:/b\"]",
    "[image]\nbind = [\"$TMPDIR\"]",
    "[image]\nbind = [{ source = \"/a\" }]",
    "[image]\nbind = [1]",
    "[image]\ngpu = \"nv\"",
    "[image]\nfakeroot = \"yes\"",
    "[image]\nbuild = true",
    "[image]\noptions = [\"contain\"]",
    "[framework]\nprovenance = \"conda\"",
    "[framework]\nname = \"a b\"",
    "[framework]\nname = \"\"",
    "[framework]\nversion = \" \"",
    "[framework]\nversion = \"2;1\"",
    "[storage]\nprefer = \"fast\"",
    "[build]\ncommand = \"make\"",
    "[build]\nsource = \"-x\"",
    "[build]\nsource = \"a b\"",
    "[build]\nsource = \"x\"\nparallelism = 0",
    "[build]\nsource = \"x\"\nchecksum = \"abc\"",
    "[workload]\nparameters = 0",
    "[workload]\nparameters = 1152921504606846976",
    "[workload]\nmodel = \"\"",
    "[workload]\nlayers = 6",
    "[timing]\nepoch = 1",
    "[nothing]\nx = 1",
];

#[test]
fn reader_and_schema_judge_alike() {
    let whole = |lines: &&str| format!("[run]\ncommand = [\"true\"]\n{lines}\n");
    let more_good =
        ["format = 1\nname = \"résumé_v2.x+y-z\"\n[run]\nscript = \"a b.sh\"\n".to_owned()];
    for text in GOOD.iter().map(whole).chain(more_good) {
        assert_eq!(judge(&text), (true, true), "reader, schema: {text}");
    }
    let more_bad = [
        "",
        "[run]\n",
        "[run]\ncommand = []\n",
        "[run]\ncommand = [\"\"]\n",
        "[run]\ncommand = [1]\n",
        "[run]\nscript = \"\"\n",
        "format = 2\n[run]\nscript = \"x\"\n",
        "name = \"\"\n[run]\nscript = \"x\"\n",
        "name = \"-x\"\n[run]\nscript = \"x\"\n",
        "name = \"a b\"\n[run]\nscript = \"x\"\n",
        "name = \"a/b\"\n[run]\nscript = \"x\"\n",
        "nmae = \"a\"\n[run]\nscript = \"x\"\n",
    ];
    let long = format!("name = \"{}\"\n[run]\nscript = \"x\"\n", "x".repeat(101));
    let more_bad = more_bad.iter().map(|text| (*text).to_owned()).chain([long]);
    for text in BAD.iter().map(whole).chain(more_bad) {
        assert_eq!(judge(&text), (false, false), "reader, schema: {text}");
    }
}

#[test]
fn example_jobs_fit_the_schema() {
    let mut seen = 0;
    let mut dirs = vec![Path::new(env!("CARGO_MANIFEST_DIR")).join("jobs")];
    while let Some(dir) = dirs.pop() {
        for entry in fs::read_dir(dir).expect("a directory") {
            let path = entry.expect("an entry").path();
            if path.is_dir() {
                dirs.push(path);
            } else if path
                .extension()
                .is_some_and(|extension| extension == "toml")
            {
                let text = fs::read_to_string(&path).expect("text");
                // A matrix or a sweep is a job file with more in it.
                if text
                    .lines()
                    .any(|line| ["[bench]", "[sweep]"].contains(&line))
                {
                    continue;
                }
                assert_eq!(judge(&text), (true, true), "{}", path.display());
                seen += 1;
            }
        }
    }
    assert!(seen > 0);
}

#[test]
fn check_prints_the_schema_that_is_shipped() {
    let mut env = TestEnv::new();
    let page = Path::new(env!("CARGO_MANIFEST_DIR")).join("docs/job-file.schema.json");
    env.unset("HOME");
    env.unset("XDG_STATE_HOME");
    let printed = env
        .dlrun(["check", "--schema"])
        .run()
        .code(0)
        .text()
        .to_owned();
    if std::env::var_os("UPDATE_DOCS").is_some() {
        fs::write(&page, &printed).expect("written");
    }
    let kept = fs::read_to_string(page).unwrap_or_default();
    assert!(
        kept == printed,
        "docs/job-file.schema.json is out of date: run the tests once with UPDATE_DOCS=1"
    );
    let value: Value = serde_json::from_str(&printed).expect("JSON");
    assert_eq!(value, schema::schema());
    assert_eq!(
        env.dlrun(["check", "--schema", "--json"])
            .run()
            .code(0)
            .result(),
        value
    );
    let _ = env.dlrun(["check"]).run().code(64);
    let _ = env.dlrun(["check", "--schema", "a.toml"]).run().code(64);
}
