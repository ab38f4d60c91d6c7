//! Who may import whom: the rooms of `docs/architecture.md`, and limits that keep files and functions readable.

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::path::{Path, PathBuf};

/// The rooms in order: each imports only those before it.
const ROOMS: &[&str] = &[
    "foundation",
    "job",
    "config",
    "record",
    "observe",
    "image",
    "launch",
    "learn",
    "scheduler",
    "plan",
    "report",
    "node",
    "app",
    "cli",
];
/// Parts of one room that know nothing of each other.
const APART: &[&[&str]] = &[
    &["record::store", "record::rundir", "record::export"],
    &[
        "observe::activity",
        "observe::client",
        "observe::monitor",
        "observe::timing",
    ],
    &[
        "scheduler::slurm",
        "scheduler::torque",
        "scheduler::openpbs",
        "scheduler::local",
    ],
    &["image::python", "image::runtime"],
    &["node::supervise", "node::daemon", "node::bench"],
];
/// What runs beside a training knows nothing of schedulers, indexes and settings: the plan has what it needs. The daemon, which
/// may read other users' processes, knows nothing of plans, containers and the command line either.
const ONLY: &[(&str, &[&str])] = &[
    (
        "node::supervise",
        &[
            "foundation",
            "image::runtime",
            "image::flags",
            "job",
            "launch",
            "node::check",
            "observe",
            "plan",
            "record",
        ],
    ),
    (
        "node::daemon",
        &["config", "foundation", "job", "observe", "record"],
    ),
];
/// What one part must not name.
const NEVER: &[(&str, &[&str])] = &[
    ("node::supervise", &["record::store", "record::export"]),
    ("cli", &["record::store", "record::rundir", "scheduler"]),
];

/// Crates that only some modules may name.
const CRATES: &[(&str, &[&str])] = &[
    ("clap", &["cli"]),
    ("clap_complete", &["cli"]),
    ("clap_mangen", &["cli"]),
    ("comfy_table", &["cli"]),
    ("indicatif", &["app::progress"]),
    ("crossterm", &["app::output", "cli"]),
    ("annotate_snippets", &["foundation::diagnostic"]),
    ("tracing_subscriber", &["foundation::logging"]),
    ("rusqlite", &["record::store"]),
    ("parquet", &["record::export"]),
    ("nalgebra", &["learn::model"]),
    ("realfft", &["observe::activity"]),
    ("sysinfo", &["observe::monitor"]),
    ("nvml_wrapper", &["observe::monitor"]),
    ("nvml_wrapper_sys", &["observe::monitor"]),
    (
        "toml",
        &[
            "foundation::toml_reader",
            "job",
            "config",
            "image::catalogue::write",
            "learn::bench",
            "learn::model::accelerators",
            "learn::sweep",
        ],
    ),
    ("tokio", &["node::daemon"]),
    ("tiny_http", &["node::supervise::ranks"]),
    ("hmac", &["node::supervise::ranks"]),
    ("sd_notify", &["node::daemon"]),
    ("libc", &["node::daemon"]),
];
/// Paths that only some modules may name; tests may.
const PATHS: &[(&str, &[&str])] = &[("std::process::Command", &["foundation::command"])];
/// Macros that only some modules may use; tests may.
const MACROS: &[(&str, &[&str])] = &[
    ("print!", &["cli"]),
    ("println!", &["cli"]),
    ("eprint!", &["cli"]),
    ("eprintln!", &["cli"]),
];
const FORBIDDEN_NAMES: &[&str] = &[
    "common", "util", "utils", "helper", "helpers", "types", "errors", "words",
];
/// Debts: what breaks a rule and is still to be mended. A line that no longer holds must go.
const OPEN: &[&str] = &[];
/// Circles of imports that are still to be undone, each by one of its modules.
const OPEN_CIRCLES: &[&str] = &[];
const FILE_LINES: usize = 800;
const FUNCTION_LINES: usize = 100;

/// Whether a module path lies in a part: `record::store::runs` in `record` and in `record::store`.
fn is_in(path: &str, part: &str) -> bool {
    path.strip_prefix(part)
        .is_some_and(|rest| rest.is_empty() || rest.starts_with("::"))
}

fn room(path: &str) -> &str {
    path.split("::").next().unwrap_or_default()
}

/// The module path of a file below `src`: `record/store/mod.rs` is `record::store`.
fn module_of(file: &str) -> String {
    let path = file.trim_end_matches(".rs").trim_end_matches("/mod");
    path.replace('/', "::")
}

/// Rust text without comments, and with the content of literals blanked out; line breaks stay.
fn bare(source: &str) -> String {
    let bytes = source.as_bytes();
    let mut out = String::with_capacity(source.len());
    let mut at = 0;
    // Copies line breaks and blanks the rest.
    let blank = |out: &mut String, text: &str| {
        out.extend(text.chars().map(|c| if c == '\n' { '\n' } else { ' ' }))
    };
    while at < bytes.len() {
        let rest = &source[at..];
        let skipped = if rest.starts_with("//") {
            rest.find('\n').unwrap_or(rest.len())
        } else if rest.starts_with("/*") {
            rest.find("*/").map_or(rest.len(), |end| end + 2)
        } else if let Some(length) = raw_string(rest).filter(|_| !ends_in_word(&out)) {
            length
        } else if rest.starts_with('"') {
            string(rest)
        } else if let Some(length) = char_literal(rest) {
            length
        } else {
            let c = rest.chars().next().expect("it is not empty");
            out.push(c);
            at += c.len_utf8();
            continue;
        };
        blank(&mut out, &source[at..at + skipped]);
        at += skipped;
    }
    out
}

fn ends_in_word(text: &str) -> bool {
    text.chars()
        .next_back()
        .is_some_and(|c| c.is_alphanumeric() || c == '_')
}

fn string(rest: &str) -> usize {
    let mut escaped = false;
    for (at, c) in rest.char_indices().skip(1) {
        match c {
            _ if escaped => escaped = false,
            '\\' => escaped = true,
            '"' => return at + 1,
            _ => {}
        }
    }
    rest.len()
}

fn raw_string(rest: &str) -> Option<usize> {
    let after = rest.strip_prefix("br").or_else(|| rest.strip_prefix('r'))?;
    let hashes = after.len() - after.trim_start_matches('#').len();
    after[hashes..].strip_prefix('"')?;
    let begin = rest.len() - after.len() + hashes + 1;
    let close = format!("\"{}", "#".repeat(hashes));
    Some(
        rest[begin..]
            .find(&close)
            .map_or(rest.len(), |end| begin + end + close.len()),
    )
}

/// `'x'` and `'\n'`, but not the lifetime `'a`.
fn char_literal(rest: &str) -> Option<usize> {
    let after = rest.strip_prefix('\'')?;
    let mut chars = after.char_indices();
    match chars.next()?.1 {
        '\\' => after[2..].find('\'').map(|end| end + 4),
        _ => chars
            .next()
            .filter(|(_, c)| *c == '\'')
            .map(|(at, _)| at + 2),
    }
}

/// Every path that text names: those of `use` with their groups taken apart, and `a::b::c` anywhere else.
fn paths(bare: &str) -> Vec<String> {
    let mut found = Vec::new();
    let mut rest = bare;
    while let Some(at) = find_word(rest, "use") {
        found.extend(plain_paths(&rest[..at]));
        let statement = &rest[at + 3..];
        let end = statement.find(';').unwrap_or(statement.len());
        expand("", &statement[..end], &mut found);
        rest = &statement[end..];
    }
    found.extend(plain_paths(rest));
    found
}

/// A word that stands alone; `use<'a>` of a bound is not the statement.
fn find_word(text: &str, word: &str) -> Option<usize> {
    let part_of_word = |c: char| c.is_alphanumeric() || c == '_';
    text.match_indices(word).map(|(at, _)| at).find(|at| {
        !text[..*at].chars().next_back().is_some_and(part_of_word)
            && !text[at + word.len()..]
                .chars()
                .next()
                .is_some_and(|c| part_of_word(c) || c == '<')
    })
}

fn expand(prefix: &str, tree: &str, found: &mut Vec<String>) {
    let tree = tree.trim();
    let Some(open) = tree.find('{') else {
        let name = tree.split(" as ").next().unwrap_or_default();
        let whole: String = format!("{prefix}{name}").split_whitespace().collect();
        found.push(whole.trim_end_matches("::self").to_owned());
        return;
    };
    let prefix = format!("{prefix}{}", &tree[..open]);
    let inner = &tree[open + 1..tree.rfind('}').unwrap_or(tree.len())];
    let (mut depth, mut start) = (0, 0);
    for (at, c) in inner.char_indices() {
        match c {
            '{' => depth += 1,
            '}' => depth -= 1,
            ',' if depth == 0 => {
                expand(&prefix, &inner[start..at], found);
                start = at + 1;
            }
            _ => {}
        }
    }
    if !inner[start..].trim().is_empty() {
        expand(&prefix, &inner[start..], found);
    }
}

fn plain_paths(text: &str) -> Vec<String> {
    let part = |c: char| c.is_alphanumeric() || c == '_' || c == ':';
    let words = text.split(|c| !part(c)).filter(|word| word.contains("::"));
    words
        .map(|word| word.trim_matches(':').to_owned())
        .collect()
}

/// Complaints about one file. `file` is relative to `src`, such as `cli/mod.rs`.
fn complaints(file: &str, source: &str) -> Vec<String> {
    let mut found = Vec::new();
    let module = module_of(file);
    let outside = module == "lib" || room(&module) == "bin";
    if !outside && !ROOMS.contains(&room(&module)) {
        found.push(format!("`{}` is no room", room(&module)));
    }
    if let Some(name) = Path::new(file).file_stem().and_then(|stem| stem.to_str())
        && FORBIDDEN_NAMES.contains(&name)
    {
        found.push(format!("a module called `{name}` says nothing"));
    }
    let text = bare(source);
    for path in paths(&text) {
        if path.contains("super::super") {
            found.push("`super::super` is hard to follow: begin at `crate`".to_owned());
        }
        if let Some(other) = absolute(&path, file).filter(|_| !outside) {
            found.extend(import_complaint(&module, &other));
        }
        let first = path.split("::").next().unwrap_or_default();
        for (name, allowed) in CRATES.iter().filter(|(name, _)| *name == first) {
            found.extend(reserved(&module, name, allowed));
        }
    }
    for path in paths(code_of(&text)) {
        for (name, allowed) in PATHS.iter().filter(|(name, _)| is_in(&path, name)) {
            found.extend(reserved(&module, name, allowed));
        }
    }
    for (name, allowed) in MACROS {
        if find_word(code_of(&text), name.trim_end_matches('!'))
            .is_some_and(|at| text[at..].starts_with(name))
        {
            found.extend(reserved(&module, name, allowed));
        }
    }
    found.extend(size_complaints(&text));
    found.sort();
    found.dedup();
    found
}

/// What `crate::` and `super::` at the begin of a path of this file mean, from the crate's root; `None` for other paths.
fn absolute(path: &str, file: &str) -> Option<String> {
    if let Some(rest) = path.strip_prefix("crate::") {
        return Some(rest.to_owned());
    }
    let rest = path.strip_prefix("super::")?;
    let module = module_of(file);
    match module.rsplit_once("::") {
        Some((above, _)) => Some(format!("{above}::{rest}")),
        // Of a room's own file, or of the tests in it.
        None => ROOMS.contains(&room(rest)).then(|| rest.to_owned()),
    }
}

fn import_complaint(module: &str, other: &str) -> Option<String> {
    let rank = |path: &str| ROOMS.iter().position(|name| *name == room(path));
    let named_in = |parts: &[&str]| parts.iter().any(|part| is_in(other, part));
    let is_inside = room(module) == room(other);
    let forbidden = match (rank(module), rank(other)) {
        (_, None) => return Some(format!("`{module}` imports `{other}`, which is in no room")),
        (own, its) if !is_inside && own <= its => true,
        _ => {
            let only = ONLY.iter().filter(|(part, _)| is_in(module, part));
            let never = NEVER.iter().filter(|(part, _)| is_in(module, part));
            let apart = APART.iter().filter_map(|parts| {
                let own = parts.iter().find(|part| is_in(module, part))?;
                Some((own, parts))
            });
            only.into_iter()
                .any(|(own, allowed)| !named_in(allowed) && !is_in(other, own))
                || never.into_iter().any(|(_, parts)| named_in(parts))
                || apart
                    .into_iter()
                    .any(|(own, parts)| named_in(parts) && !is_in(other, own))
        }
    };
    forbidden.then(|| format!("`{module}` must not import `{other}`"))
}

fn reserved(module: &str, name: &str, allowed: &[&str]) -> Option<String> {
    let is_allowed = allowed.iter().any(|part| is_in(module, part));
    (!is_allowed).then(|| format!("`{name}` is for {} alone", allowed.join(" and ")))
}

/// Tests stand at the end of a file.
fn code_of(text: &str) -> &str {
    text.find("#[cfg(test)]\nmod ")
        .map_or(text, |at| &text[..at])
}

fn size_complaints(text: &str) -> Vec<String> {
    let mut found = Vec::new();
    let code = code_of(text);
    let lines = code.lines().count();
    if lines > FILE_LINES {
        found.push(format!("{lines} lines; {FILE_LINES} is the limit"));
    }
    let mut rest = code;
    while let Some(at) = find_word(rest, "fn") {
        rest = &rest[at + 2..];
        let name: String = rest
            .trim_start()
            .chars()
            .take_while(|c| c.is_alphanumeric() || *c == '_')
            .collect();
        let lines = body(rest).map_or(0, |body| body.lines().count());
        if !name.is_empty() && lines > FUNCTION_LINES {
            found.push(format!(
                "`fn {name}` has {lines} lines; {FUNCTION_LINES} is the limit"
            ));
        }
    }
    found
}

/// From a signature to the brace that closes the body; `None` where a `;` ends the signature.
fn body(text: &str) -> Option<&str> {
    let (mut brackets, mut braces) = (0_i32, 0_i32);
    for (at, c) in text.char_indices() {
        match c {
            '(' | '[' => brackets += 1,
            ')' | ']' => brackets -= 1,
            '{' => braces += 1,
            '}' if braces == 1 => return Some(&text[..=at]),
            '}' => braces -= 1,
            ';' if brackets == 0 && braces == 0 => return None,
            _ => {}
        }
    }
    None
}

fn sources() -> Vec<(String, PathBuf)> {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("src");
    let (mut found, mut dirs) = (Vec::new(), vec![root.clone()]);
    while let Some(dir) = dirs.pop() {
        for entry in fs::read_dir(dir).expect("src is there") {
            let path = entry.expect("src can be listed").path();
            if path.is_dir() {
                dirs.push(path);
            } else if path.extension().is_some_and(|extension| extension == "rs") {
                let name = path
                    .strip_prefix(&root)
                    .expect("it is below")
                    .to_string_lossy()
                    .into_owned();
                found.push((name, path));
            }
        }
    }
    found.sort();
    found
}

#[test]
fn every_file_keeps_the_rules() {
    let mut found = Vec::new();
    let sources = sources();
    assert!(sources.len() > 50, "the sources were not found");
    for (name, path) in sources {
        let source = fs::read_to_string(path).expect("source text");
        found.extend(
            complaints(&name, &source)
                .into_iter()
                .map(|complaint| format!("src/{name}: {complaint}")),
        );
    }
    let is_open = |line: &String| OPEN.iter().any(|debt| line.starts_with(debt));
    let paid = |debt: &&&str| !found.iter().any(|line| line.starts_with(**debt));
    let paid: Vec<_> = OPEN.iter().filter(paid).collect();
    assert!(paid.is_empty(), "take these out of the list: {paid:?}");
    found.retain(|line| !is_open(line));
    assert!(found.is_empty(), "\n{}", found.join("\n"));
}

#[test]
fn every_room_is_in_the_order() {
    let root = fs::read_to_string(Path::new(env!("CARGO_MANIFEST_DIR")).join("src/lib.rs"))
        .expect("source text");
    let rooms: Vec<&str> = root
        .lines()
        .filter_map(|line| line.strip_prefix("pub mod ")?.strip_suffix(';'))
        .collect();
    assert_eq!(rooms, ROOMS);
}

/// What a module hands on under names of its own: `pub use`, by name.
fn handed_on(file: &str, text: &str) -> BTreeMap<String, String> {
    let mut found = BTreeMap::new();
    let mut rest = text;
    while let Some(at) = find_word(rest, "use") {
        let statement = &rest[at + 3..];
        let end = statement.find(';').unwrap_or(statement.len());
        let before = rest[..at].trim_end();
        if before.ends_with("pub") || before.ends_with(')') {
            let mut named = Vec::new();
            expand("", &statement[..end], &mut named);
            for path in named {
                let name = path.rsplit("::").next().unwrap_or_default().to_owned();
                let module = module_of(file);
                let path = absolute(&path, file).unwrap_or_else(|| format!("{module}::{path}"));
                found.insert(name, path);
            }
        }
        rest = &statement[end..];
    }
    found
}

/// The module of a path's item, through what other modules hand on.
fn home_of(path: &str, known: &BTreeMap<String, BTreeMap<String, String>>) -> String {
    let (mut home, mut path) = (String::new(), path.to_owned());
    for _ in 0..8 {
        home.clear();
        let mut parts = path.split("::");
        let mut next = None;
        for part in parts.by_ref() {
            let child = if home.is_empty() {
                part.to_owned()
            } else {
                format!("{home}::{part}")
            };
            if known.contains_key(&child) {
                home = child;
            } else {
                next = known.get(&home).and_then(|names| names.get(part));
                break;
            }
        }
        let Some(target) = next else { break };
        let rest: Vec<&str> = parts.collect();
        path = [&[target.as_str()], &rest[..]].concat().join("::");
    }
    home
}

/// The files of every circle of imports. That a module names its own parts, and these it, is no circle.
fn circles(sources: &[(String, String)]) -> Vec<Vec<String>> {
    let known: BTreeMap<_, _> = sources
        .iter()
        .map(|(file, text)| (module_of(file), handed_on(file, text)))
        .collect();
    let mut imports: BTreeMap<String, BTreeSet<String>> = BTreeMap::new();
    for (file, text) in sources {
        let module = module_of(file);
        let homes = paths(code_of(text))
            .iter()
            .filter_map(|path| absolute(path, file))
            .map(|path| home_of(&path, &known))
            .filter(|home| !home.is_empty() && !is_in(home, &module) && !is_in(&module, home))
            .collect();
        imports.insert(module, homes);
    }
    let reach = |from: &String| {
        let (mut seen, mut open) = (BTreeSet::new(), vec![from.clone()]);
        while let Some(module) = open.pop() {
            for next in imports.get(&module).into_iter().flatten() {
                if seen.insert(next.clone()) {
                    open.push(next.clone());
                }
            }
        }
        seen
    };
    let reached: BTreeMap<&String, BTreeSet<String>> = imports
        .keys()
        .map(|module| (module, reach(module)))
        .collect();
    let mut found: Vec<Vec<String>> = Vec::new();
    for (module, others) in &reached {
        if others.contains(*module) && !found.iter().flatten().any(|other| other == *module) {
            let back =
                |other: &&String| reached.get(other).is_some_and(|all| all.contains(*module));
            found.push(others.iter().filter(back).cloned().collect());
        }
    }
    found
}

fn texts() -> Vec<(String, String)> {
    let read = |(name, path): (String, PathBuf)| {
        let text = bare(&fs::read_to_string(path).expect("source text"));
        (!name.ends_with("tests.rs")).then_some((name, text))
    };
    sources().into_iter().filter_map(read).collect()
}

#[test]
fn no_files_import_each_other_in_a_circle() {
    let mut found = circles(&texts());
    let has = |circle: &Vec<String>, debt: &str| circle.iter().any(|module| module == debt);
    let paid = |debt: &&&str| !found.iter().any(|circle| has(circle, debt));
    let paid: Vec<_> = OPEN_CIRCLES.iter().filter(paid).collect();
    assert!(paid.is_empty(), "take these out of the list: {paid:?}");
    found.retain(|circle| !OPEN_CIRCLES.iter().any(|debt| has(circle, debt)));
    let lines: Vec<String> = found.iter().map(|circle| circle.join(" ")).collect();
    assert!(found.is_empty(), "\n{}", lines.join("\n"));
}

#[test]
fn a_circle_is_found_through_what_modules_hand_on() {
    let file = |name: &str, text: &str| (name.to_owned(), text.to_owned());
    let mut sources = vec![
        file("plan/mod.rs", "mod auto; mod image; pub use image::Choice;"),
        file("plan/auto.rs", "use super::Choice; use crate::job::RunId;"),
        file("plan/image.rs", "use super::auto::limits;"),
        file("job/mod.rs", "mod id; pub use id::RunId;"),
        file("job/id.rs", "use super::JobSpec;"),
    ];
    let both = vec!["plan::auto".to_owned(), "plan::image".to_owned()];
    assert_eq!(circles(&sources), vec![both]);
    sources[2].1.clear();
    assert_eq!(circles(&sources), Vec::<Vec<String>>::new());
}

#[track_caller]
fn complains(file: &str, source: &str, part: &str) {
    let found = complaints(file, source);
    assert!(
        found.iter().any(|complaint| complaint.contains(part)),
        "{found:?}"
    );
}

#[track_caller]
fn is_content(file: &str, source: &str) {
    assert_eq!(complaints(file, source), Vec::<String>::new());
}

#[test]
fn a_forbidden_import_is_found_however_it_is_written() {
    let expected = "`record::store::runs` must not import `scheduler";
    for source in [
        "use crate::scheduler;",
        "use crate::scheduler::JobRef;",
        "use crate::{job, scheduler::{self, JobRef}};",
        "use {crate::job, crate::{record::{Usage, Gap}, scheduler as s}};",
        "use\n    crate::{\n        scheduler,\n    };",
        "pub use crate::scheduler::JobRef as J;",
        "fn f() { let _ = crate::scheduler::script::render; }",
        "fn f(job: &crate::scheduler::JobRef) {}",
        "fn f() { g('\"'); use crate::scheduler::*; }",
        "#[cfg(test)]\nmod tests { use crate::scheduler; }",
    ] {
        complains("record/store/runs.rs", source, expected);
    }
}

#[test]
fn what_only_looks_like_an_import_is_left_alone() {
    for source in [
        "//! [`crate::scheduler::JobRef`]",
        "/* use crate::scheduler; */ fn f() {}",
        "const S: &str = \"use crate::scheduler;\";",
        "const S: &str = r#\"use \"crate::scheduler\";\"#;",
        "const C: char = '\"'; // use crate::scheduler;",
        "fn f<'a>(x: &'a str) -> &'a str { x } // crate::scheduler::x",
        "use crate::job::{JobId, RunId};\nuse super::schema;",
        "fn f() -> impl Iterator<Item = u8> + use<> { x }\nfn g() {}",
    ] {
        is_content("record/store/runs.rs", source);
    }
}

#[test]
fn rooms_and_their_order_hold() {
    for (file, source, other) in [
        ("job/file.rs", "use crate::record::Usage;", "record::Usage"),
        ("job/file.rs", "use crate::config::Key;", "config::Key"),
        ("job/mod.rs", "use super::config;", "config"),
        ("observe/timing/mod.rs", "use crate::launch;", "launch"),
        (
            "record/rundir/mod.rs",
            "use crate::record::store;",
            "record::store",
        ),
        (
            "record/store/mod.rs",
            "use super::{rundir, x};",
            "record::rundir",
        ),
        ("node/supervise/mod.rs", "use crate::cli;", "cli"),
        (
            "node/supervise/mod.rs",
            "use crate::scheduler;",
            "scheduler",
        ),
        (
            "node/supervise/mod.rs",
            "use crate::record::store;",
            "record::store",
        ),
        ("node/daemon/mod.rs", "use crate::plan::Plan;", "plan::Plan"),
        (
            "foundation/units.rs",
            "fn f() { crate::job::id(e); }",
            "job::id",
        ),
    ] {
        let module = module_of(file);
        let expected = format!("`{module}` must not import `{other}`");
        complains(file, source, &expected);
    }
    complains("novel.rs", "", "`novel` is no room");
    complains("record/store/mod.rs", "use crate::elsewhere;", "in no room");
    for (file, source) in [
        (
            "record/store/runs.rs",
            "use super::schema; use crate::record::Usage;",
        ),
        (
            "plan/mod.rs",
            "use crate::{config, job, launch, observe::timing};",
        ),
        (
            "cli/mod.rs",
            "use crate::{node::supervise, app::track, plan};",
        ),
    ] {
        is_content(file, source);
    }
}

#[test]
fn reserved_crates_paths_and_macros_are_found() {
    for (file, source, expected) in [
        (
            "cli/mod.rs",
            "use rusqlite::Connection;",
            "`rusqlite` is for record::store alone",
        ),
        (
            "record/rundir/mod.rs",
            "fn f() { rusqlite::open() }",
            "`rusqlite` is for",
        ),
        (
            "node/mod.rs",
            "use sysinfo::{System, Cpu};",
            "`sysinfo` is for observe::monitor",
        ),
        (
            "plan/mod.rs",
            "use toml::Value;",
            "`toml` is for foundation::toml_reader and",
        ),
        ("job/mod.rs", "use clap::Parser;", "`clap` is for cli alone"),
        (
            "record/mod.rs",
            "fn f() { println!(x); }",
            "`println!` is for cli alone",
        ),
    ] {
        complains(file, source, expected);
    }
    for source in [
        "use std::process::Command;",
        "use std::process::{Command, Stdio};",
        "use std::{fs, process::{Command as C}};",
        "fn f() { std::process::Command::new(s); }",
    ] {
        let expected = "`std::process::Command` is for foundation::command alone";
        complains("scheduler/mod.rs", source, expected);
        is_content("foundation/command/tool.rs", source);
    }
    for (file, source) in [
        (
            "scheduler/mod.rs",
            "#[cfg(test)]\nmod tests { use std::process::Command; fn f() { println!(x); } }",
        ),
        (
            "scheduler/mod.rs",
            "use std::process::{self, ExitStatus}; fn f() { process::id(); }",
        ),
        ("cli/output.rs", "fn f() { print!(x); }"),
        ("record/store/mod.rs", "fn println() {}"),
    ] {
        is_content(file, source);
    }
}

#[test]
fn names_and_paths_that_say_nothing_are_found() {
    complains("cli/util.rs", "", "says nothing");
    complains("cli/errors.rs", "", "says nothing");
    complains(
        "record/store/runs.rs",
        "use super::super::job;",
        "`super::super`",
    );
    complains(
        "record/store/runs.rs",
        "mod tests { use super::{super::x, y}; }",
        "`super::super`",
    );
    is_content("cli/error.rs", "use super::output;");
}

#[test]
fn long_files_and_functions_are_found() {
    let lines = |count: usize| "    x();\n".repeat(count);
    is_content("cli/mod.rs", &format!("fn f() {{\n{}}}\n", lines(98)));
    complains(
        "cli/mod.rs",
        &format!("fn f() {{\n{}}}\n", lines(99)),
        "`fn f` has 101 lines",
    );
    let inner = format!(
        "impl X {{ fn a() {{}}\nasync fn long<T>(x: [u8; 2]) -> T where T: Y {{\n{}}} }}\n",
        lines(110)
    );
    complains("cli/mod.rs", &inner, "`fn long` has 112 lines");
    is_content(
        "cli/mod.rs",
        &format!(
            "trait T {{ fn f(&self);\n fn g(&self); }}\nconst X: [u8; 119] = [\n{}];",
            lines(110)
        ),
    );
    complains("cli/mod.rs", &lines(801), "801 lines");
    is_content(
        "cli/mod.rs",
        &format!(
            "fn f() {{}}\n#[cfg(test)]\nmod tests {{\n{}}}\n",
            lines(900)
        ),
    );
}
