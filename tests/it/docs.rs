//! The documentation says what the code does: keys, defaults, examples and links.

use std::collections::BTreeSet;
use std::fs;
use std::path::{Path, PathBuf};

use dlrun::config::{DAEMON_KEYS, Fragment, KEYS, Key};

fn root() -> &'static Path {
    Path::new(env!("CARGO_MANIFEST_DIR"))
}

fn read(path: &str) -> String {
    fs::read_to_string(root().join(path)).unwrap_or_else(|error| panic!("{path}: {error}"))
}

/// README, changelog and the pages of `docs/`.
fn pages() -> Vec<String> {
    let in_docs = fs::read_dir(root().join("docs")).expect("docs").flatten();
    let in_docs = in_docs.map(|entry| format!("docs/{}", entry.file_name().to_string_lossy()));
    let mut pages: Vec<String> = in_docs.filter(|name| name.ends_with(".md")).collect();
    pages.extend(["README.md".to_owned(), "CHANGELOG.md".to_owned()]);
    pages.sort();
    pages
}

/// The fenced blocks of a page: the word behind the fence, and the text.
fn blocks(page: &str) -> Vec<(String, String)> {
    let mut blocks = Vec::new();
    let mut open: Option<(String, String)> = None;
    for line in page.lines() {
        match (line.trim_start().strip_prefix("```"), &mut open) {
            (Some(word), None) => open = Some((word.trim().to_owned(), String::new())),
            (Some(_), Some(_)) => blocks.extend(open.take()),
            (None, Some((_, text))) => {
                text.push_str(line);
                text.push('\n');
            }
            (None, None) => {}
        }
    }
    assert!(open.is_none(), "a block is not closed");
    blocks
}

/// What stands in backticks outside of blocks.
fn code_spans(page: &str) -> Vec<&str> {
    let mut in_block = false;
    let mut spans = Vec::new();
    for line in page.lines() {
        if line.trim_start().starts_with("```") {
            in_block = !in_block;
        } else if !in_block {
            spans.extend(line.split('`').skip(1).step_by(2));
        }
    }
    spans
}

/// The keys of the job file and its tables.
fn words_of_the_reader() -> BTreeSet<String> {
    let keys = dlrun::job::schema::keys();
    let names = |key: &String| key.split('.').map(str::to_owned).collect::<Vec<_>>();
    keys.iter().flat_map(names).collect()
}

#[test]
fn every_key_of_the_job_file_is_documented() {
    let page = read("docs/job-file.md");
    let documented: BTreeSet<&str> = code_spans(&page)
        .into_iter()
        .flat_map(|span| span.split(|c: char| !(c.is_ascii_alphanumeric() || c == '_')))
        .collect();
    let words = words_of_the_reader();
    assert!(words.len() > 50, "{words:?}");
    let missing: Vec<_> = words
        .iter()
        .filter(|word| !documented.contains(word.as_str()))
        .collect();
    assert!(missing.is_empty(), "docs/job-file.md lacks {missing:?}");
}

#[test]
fn every_documented_key_of_the_job_file_is_known() {
    let page = read("docs/job-file.md");
    let sections = [
        "run",
        "resources",
        "scheduler",
        "image",
        "python",
        "framework",
        "storage",
        "build",
        "workload",
        "timing",
    ];
    let is_word = |text: &str| {
        text.bytes()
            .all(|byte| byte.is_ascii_lowercase() || byte == b'_')
    };
    let mut seen = 0;
    for span in code_spans(&page) {
        let Some((section, key)) = span.split_once('.') else {
            continue;
        };
        if !sections.contains(&section) || !is_word(key) || is_setting_only(span) {
            continue;
        }
        seen += 1;
        let problems = dlrun::job::parse(&format!("[{section}]\n{key} = {{}}\n"))
            .expect_err("no table is a value");
        let unknown = format!("unknown key `{span}`");
        assert!(
            problems.iter().all(|problem| problem.message != unknown),
            "{unknown}"
        );
    }
    assert!(seen > 40, "{seen}");
}

/// Says whether a setting looks like a key of the job file. `scheduler.kind` is both.
fn is_setting_only(name: &str) -> bool {
    name != "scheduler.kind" && KEYS.iter().any(|key| key.name == name)
}

#[test]
fn job_files_in_the_documentation_are_valid() {
    let mut seen = 0;
    for page in ["README.md", "docs/convert.md", "docs/job-file.md"] {
        for (_, text) in blocks(&read(page))
            .into_iter()
            .filter(|(word, _)| word == "toml")
        {
            seen += 1;
            if let Err(problems) = dlrun::job::parse(&text) {
                panic!("{page}: {problems:#?} in\n{text}");
            }
        }
    }
    assert!(seen >= 4, "{seen}");
}

/// The row of a setting in `docs/config.md` names its default.
fn documented_row<'a>(page: &'a str, key: &Key) -> &'a str {
    let row = page
        .lines()
        .find(|line| line.starts_with(&format!("| `{}` |", key.name)));
    let row = row.unwrap_or_else(|| panic!("docs/config.md has no row for `{}`", key.name));
    let default = key.default.map(|text| format!("| `{text}` |"));
    assert!(default.is_none_or(|text| row.contains(&text)), "{row}");
    row
}

#[test]
fn every_setting_is_documented_with_variable_and_default() {
    let whole = read("docs/config.md");
    let (page, daemon) = whole
        .split_once("\n## The node daemon\n")
        .expect("a section of its own");
    for key in &KEYS {
        let row = documented_row(page, key);
        assert!(row.contains(&format!("`{}`", key.variable())), "{row}");
    }
    for key in &DAEMON_KEYS {
        documented_row(daemon, key);
    }
    let rows = |text: &str| text.lines().filter(|line| line.starts_with("| `")).count();
    let (settings, _) = page
        .split_once("\n## The site's tables\n")
        .expect("they have rows of their own");
    assert_eq!(
        (rows(settings), rows(daemon)),
        (KEYS.len(), DAEMON_KEYS.len()),
        "a row that no setting has"
    );
    for (text, read) in [
        (page, Fragment::from_toml as Reader),
        (daemon, Fragment::from_daemon_toml),
    ] {
        for (_, text) in blocks(text).into_iter().filter(|(word, _)| word == "toml") {
            let fragment = read(Path::new("docs/config.md"), &text);
            assert!(
                fragment.errors.is_empty() && fragment.unknown.is_empty(),
                "{fragment:#?}"
            );
        }
    }
}

type Reader = fn(&Path, &str) -> Fragment;

#[test]
fn the_sample_configurations_hold_every_setting_with_its_default() {
    holds_every_setting("etc/dlrun.toml", &KEYS, Fragment::from_toml);
    holds_every_setting("etc/dlrund.toml", &DAEMON_KEYS, Fragment::from_daemon_toml);
}

fn holds_every_setting(path: &str, keys: &[Key], reader: Reader) {
    let sample = read(path);
    let path = Path::new(path);
    assert_eq!(
        reader(path, &sample),
        Fragment::default(),
        "as it is, it sets nothing"
    );

    // A setting stands right behind its `#`, prose behind a blank.
    let is_setting = |line: &str| {
        line.strip_prefix('#')
            .is_some_and(|rest| !rest.starts_with(' '))
    };
    let uncommented: Vec<&str> = sample
        .lines()
        .map(|line| if is_setting(line) { &line[1..] } else { line })
        .collect();
    let fragment = reader(path, &uncommented.join("\n"));
    assert!(
        fragment.errors.is_empty() && fragment.unknown.is_empty(),
        "{fragment:#?}"
    );
    let set: BTreeSet<&str> = fragment
        .entries
        .iter()
        .map(|entry| entry.key.name)
        .collect();
    assert_eq!(set, keys.iter().map(|key| key.name).collect());

    let (mut comment, mut section) = (String::new(), String::new());
    for line in sample.lines() {
        if let Some(name) = line.strip_prefix('[') {
            section = name.replace(']', ".");
        }
        if !is_setting(line) {
            comment = if line.starts_with('#') {
                comment + line
            } else {
                String::new()
            };
            continue;
        }
        let name = format!(
            "{section}{}",
            line[1..].split(' ').next().unwrap_or_default()
        );
        let entry = fragment.entries.iter().find(|entry| entry.key.name == name);
        let entry = entry.unwrap_or_else(|| panic!("{line} is no setting"));
        assert!(!comment.is_empty(), "nothing says what {name} is");
        match entry.key.default {
            Some(text) => assert_eq!(entry.key.read(text).ok(), entry.value, "{name}"),
            None => assert!(
                comment.contains("No default: "),
                "{name} is an example, and nothing says so"
            ),
        }
        comment.clear();
    }
}

#[test]
fn links_lead_somewhere() {
    for page in pages() {
        let text = read(&page);
        let dir: PathBuf = root().join(&page).parent().expect("a directory").to_owned();
        let targets = text
            .split("](")
            .skip(1)
            .filter_map(|rest| rest.split(')').next());
        for target in targets.filter(|target| !target.contains("://")) {
            let file = target.split('#').next().unwrap_or_default();
            assert!(
                file.is_empty() || dir.join(file).exists(),
                "{page}: {target} is not there"
            );
        }
    }
}

#[test]
fn each_test_that_the_threat_model_names_is_there() {
    let page = read("docs/security.md");
    let named: Vec<&str> = code_spans(&page)
        .into_iter()
        .filter(|span| span.matches('_').count() > 3)
        .collect();
    assert!(named.len() > 15, "{named:?}");
    let mut sources = String::new();
    for dir in ["src", "tests/it"] {
        let mut left = vec![root().join(dir)];
        while let Some(dir) = left.pop() {
            for entry in fs::read_dir(dir).expect("a directory") {
                let path = entry.expect("an entry").path();
                match path.extension() {
                    Some(end) if end == "rs" => {
                        sources += &fs::read_to_string(&path).expect("text")
                    }
                    _ if path.is_dir() => left.push(path),
                    _ => {}
                }
            }
        }
    }
    for test in named {
        assert!(
            sources.contains(&format!("fn {test}(")),
            "there is no test `{test}`"
        );
    }
}

#[test]
fn readme_is_short() {
    let lines = read("README.md").lines().count();
    assert!(lines <= 150, "{lines} lines");
}
