//! Who may import whom: the levels of `docs/architecture.md`, and limits that keep files and functions readable.

use std::fs;
use std::path::{Path, PathBuf};

/// Level 0 knows nothing of ours.
const LEVEL_0: &[&str] = &[
    "units",
    "diagnostic",
    "logging",
    "command",
    "clock",
    "filesystem",
    "lock",
    "private",
];
/// Level 1 is data and pure functions. What stands in one list may import what stands in earlier lists.
const LEVEL_1: &[&[&str]] = &[
    &["job"],
    &["config", "convert"],
    &["record"],
    &[
        "protocol",
        "timing",
        "launch",
        "site",
        "catalogue",
        "flags",
        "insight",
    ],
    &["model", "recipe"],
    &["plan"],
    &["bench"],
    &["report"],
];
/// Level 2 holds one outside thing each; none knows another.
const LEVEL_2: &[&str] = &[
    "client",
    "export",
    "scheduler",
    "monitor",
    "nodebench",
    "store",
    "rundir",
    "pyenv",
    "container",
];
/// Level 3: programs. The command line starts the others.
const LEVEL_3: &[&[&str]] = &[&["daemon", "supervise"], &["cli"]];

/// What runs beside a training knows nothing of schedulers, stores and settings: the plan tells it all.
///
/// The daemon, which may read other users' processes, knows nothing of them either, nor of containers and the command line.
const ONLY: &[(&str, &[&str])] = &[
    (
        "supervise",
        &[
            "client",
            "clock",
            "command",
            "container",
            "diagnostic",
            "flags",
            "job",
            "monitor",
            "plan",
            "private",
            "protocol",
            "record",
            "rundir",
            "timing",
            "units",
        ],
    ),
    (
        "daemon",
        &[
            "clock",
            "config",
            "diagnostic",
            "export",
            "filesystem",
            "job",
            "logging",
            "monitor",
            "protocol",
            "record",
            "store",
        ],
    ),
];

/// Crates that only some modules may name.
const CRATES: &[(&str, &[&str])] = &[
    ("clap", &["cli"]),
    ("clap_complete", &["cli"]),
    ("clap_mangen", &["cli"]),
    ("comfy_table", &["cli"]),
    ("indicatif", &["cli"]),
    ("ratatui_core", &["cli"]),
    ("crossterm", &["cli"]),
    ("annotate_snippets", &["diagnostic"]),
    ("tracing_subscriber", &["logging"]),
    ("rusqlite", &["store"]),
    ("parquet", &["export"]),
    ("nalgebra", &["model"]),
    ("sysinfo", &["monitor"]),
    ("nvml_wrapper", &["monitor"]),
    ("nvml_wrapper_sys", &["monitor"]),
    ("toml", &["bench", "job", "config", "catalogue", "model"]),
    ("tokio", &["daemon"]),
    ("sd_notify", &["daemon"]),
    ("libc", &["daemon"]),
];
/// Paths that only some modules may name; tests may.
const PATHS: &[(&str, &[&str])] = &[("std::process::Command", &["command"])];
/// Macros that only some modules may use; tests may.
const MACROS: &[(&str, &[&str])] = &[
    ("print!", &["cli"]),
    ("println!", &["cli"]),
    ("eprint!", &["cli"]),
    ("eprintln!", &["cli"]),
];
const FORBIDDEN_NAMES: &[&str] = &[
    "common", "util", "utils", "helper", "helpers", "types", "errors",
];
const FILE_LINES: usize = 800;
const FUNCTION_LINES: usize = 80;

/// How high a module stands; a module imports lower ones only.
fn rank(module: &str) -> Option<usize> {
    let level_1 = LEVEL_1
        .iter()
        .position(|group| group.contains(&module))
        .map(|at| 1 + at);
    let level_3 = LEVEL_3
        .iter()
        .position(|group| group.contains(&module))
        .map(|at| 101 + at);
    let level_0 = LEVEL_0.contains(&module).then_some(0);
    let level_2 = LEVEL_2.contains(&module).then_some(100);
    level_0.or(level_1).or(level_2).or(level_3)
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
    let module = file.split(['/', '.']).next().unwrap_or_default();
    let outside = matches!(module, "lib" | "bin");
    if !outside && rank(module).is_none() {
        found.push(format!("module `{module}` has no level"));
    }
    if let Some(name) = Path::new(file).file_stem().and_then(|stem| stem.to_str())
        && FORBIDDEN_NAMES.contains(&name)
    {
        found.push(format!("a module called `{name}` says nothing"));
    }
    // Where `super` is the crate's root.
    let is_root_file = file == format!("{module}.rs") || file == format!("{module}/mod.rs");
    let text = bare(source);
    for path in paths(&text) {
        let parts: Vec<&str> = path.split("::").collect();
        if path.contains("super::super") {
            found.push("`super::super` is hard to follow: begin at `crate`".to_owned());
        }
        if let [root, other, ..] = parts[..]
            && (root == "crate" || (root == "super" && is_root_file && rank(other).is_some()))
            && other != module
            && !outside
        {
            found.extend(import_complaint(module, other));
        }
        for (name, allowed) in CRATES.iter().filter(|(name, _)| *name == parts[0]) {
            found.extend(reserved(module, name, allowed));
        }
    }
    for path in paths(code_of(&text)) {
        for (name, allowed) in PATHS {
            if path == *name || path.starts_with(&format!("{name}::")) {
                found.extend(reserved(module, name, allowed));
            }
        }
    }
    for (name, allowed) in MACROS {
        if find_word(code_of(&text), name.trim_end_matches('!'))
            .is_some_and(|at| text[at..].starts_with(name))
        {
            found.extend(reserved(module, name, allowed));
        }
    }
    found.extend(size_complaints(&text));
    found.sort();
    found.dedup();
    found
}

fn import_complaint(module: &str, other: &str) -> Option<String> {
    let complaint = || Some(format!("`{module}` must not import `{other}`"));
    if ONLY
        .iter()
        .any(|(name, allowed)| *name == module && !allowed.contains(&other))
    {
        return complaint();
    }
    match (rank(module), rank(other)) {
        (Some(own), Some(its)) if its < own => None,
        (Some(_), Some(_)) => complaint(),
        // A macro or a name of the crate's root: there are none.
        _ => Some(format!(
            "`{module}` imports `crate::{other}`, which is no module with a level"
        )),
    }
}

fn reserved(module: &str, name: &str, allowed: &[&str]) -> Option<String> {
    (!allowed.contains(&module)).then(|| format!("`{name}` is for {} alone", allowed.join(" and ")))
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
    assert!(found.is_empty(), "\n{}", found.join("\n"));
}

#[test]
fn every_module_of_the_crate_has_a_level() {
    let root = fs::read_to_string(Path::new(env!("CARGO_MANIFEST_DIR")).join("src/lib.rs"))
        .expect("source text");
    let modules = root
        .lines()
        .filter_map(|line| line.strip_prefix("pub mod ")?.strip_suffix(';'));
    let without: Vec<&str> = modules.filter(|module| rank(module).is_none()).collect();
    assert!(without.is_empty(), "{without:?}");
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
    let expected = "`store` must not import `scheduler`";
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
        complains("store/runs.rs", source, expected);
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
        is_content("store/runs.rs", source);
    }
}

#[test]
fn levels_and_their_order_hold() {
    complains(
        "job/file.rs",
        "use crate::record::Usage;",
        "`job` must not import `record`",
    );
    complains(
        "job/file.rs",
        "use crate::config::Key;",
        "`job` must not import `config`",
    );
    complains(
        "timing/mod.rs",
        "use crate::launch;",
        "`timing` must not import `launch`",
    );
    complains(
        "command/mod.rs",
        "use crate::units;",
        "`command` must not import `units`",
    );
    complains(
        "rundir/mod.rs",
        "use crate::store;",
        "`rundir` must not import `store`",
    );
    complains(
        "supervise/mod.rs",
        "use crate::cli;",
        "`supervise` must not import `cli`",
    );
    complains(
        "units.rs",
        "fn f() { crate::diagnostic::chain(e); }",
        "`units` must not import `diagnostic`",
    );
    complains("novel.rs", "", "module `novel` has no level");
    complains(
        "store/mod.rs",
        "use crate::elsewhere;",
        "no module with a level",
    );
    complains(
        "supervise/mod.rs",
        "use crate::scheduler;",
        "`supervise` must not import `scheduler`",
    );
    complains(
        "supervise/mod.rs",
        "use crate::store;",
        "`supervise` must not import `store`",
    );
    complains(
        "units.rs",
        "use super::job;",
        "`units` must not import `job`",
    );
    complains(
        "store/mod.rs",
        "use super::{rundir, job};",
        "`store` must not import `rundir`",
    );
    is_content("store/runs.rs", "use super::schema; use super::record;");
    is_content(
        "plan/mod.rs",
        "use crate::{config, job, launch, record, timing, units};",
    );
    is_content("cli/mod.rs", "use crate::{supervise, store, plan};");
}

#[test]
fn reserved_crates_paths_and_macros_are_found() {
    complains(
        "cli/mod.rs",
        "use rusqlite::Connection;",
        "`rusqlite` is for store alone",
    );
    complains(
        "rundir/mod.rs",
        "fn f() { rusqlite::open() }",
        "`rusqlite` is for store alone",
    );
    complains(
        "supervise/mod.rs",
        "use sysinfo::{System, Cpu};",
        "`sysinfo` is for monitor alone",
    );
    complains(
        "plan/mod.rs",
        "use toml::Value;",
        "`toml` is for bench and job and config and catalogue and model alone",
    );
    complains("job/mod.rs", "use clap::Parser;", "`clap` is for cli alone");
    for source in [
        "use std::process::Command;",
        "use std::process::{Command, Stdio};",
        "use std::{fs, process::{Command as C}};",
        "fn f() { std::process::Command::new(s); }",
    ] {
        complains(
            "scheduler/mod.rs",
            source,
            "`std::process::Command` is for command alone",
        );
        is_content("command/tool.rs", source);
    }
    is_content(
        "scheduler/mod.rs",
        "#[cfg(test)]\nmod tests { use std::process::Command; fn f() { println!(x); } }",
    );
    is_content(
        "scheduler/mod.rs",
        "use std::process::{self, ExitStatus}; fn f() { process::id(); }",
    );
    complains(
        "store/mod.rs",
        "fn f() { println!(x); }",
        "`println!` is for cli alone",
    );
    is_content("cli/output.rs", "fn f() { print!(x); }");
    is_content("store/mod.rs", "fn println() {}");
}

#[test]
fn names_and_paths_that_say_nothing_are_found() {
    complains("cli/util.rs", "", "says nothing");
    complains("cli/errors.rs", "", "says nothing");
    complains("store/runs.rs", "use super::super::job;", "`super::super`");
    complains(
        "store/runs.rs",
        "mod tests { use super::{super::x, y}; }",
        "`super::super`",
    );
    is_content("cli/error.rs", "use super::output;");
}

#[test]
fn long_files_and_functions_are_found() {
    let lines = |count: usize| "    x();\n".repeat(count);
    is_content("cli/mod.rs", &format!("fn f() {{\n{}}}\n", lines(78)));
    complains(
        "cli/mod.rs",
        &format!("fn f() {{\n{}}}\n", lines(79)),
        "`fn f` has 81 lines",
    );
    let inner = format!(
        "impl X {{ fn a() {{}}\nasync fn long<T>(x: [u8; 2]) -> T where T: Y {{\n{}}} }}\n",
        lines(90)
    );
    complains("cli/mod.rs", &inner, "`fn long` has 92 lines");
    is_content(
        "cli/mod.rs",
        &format!(
            "trait T {{ fn f(&self);\n fn g(&self); }}\nconst X: [u8; 99] = [\n{}];",
            lines(90)
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
