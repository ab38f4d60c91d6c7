//! What of the node is seen in the container: the working directory, the job's binds, the node files of PBS.

use super::Refusal;
use super::draft::Draft;
use super::features::Feature;
use crate::job::Bind;

/// Files in the scheduler's spool directory, which is not seen in a container.
const NODE_FILES: [&str; 3] = ["PBS_NODEFILE", "PBS_GPUFILE", "PBS_MICFILE"];
/// Directories of the operating system: bound over the image's own they would take it away.
const SYSTEM: [&str; 14] = [
    "/", "/bin", "/boot", "/dev", "/etc", "/lib", "/lib64", "/opt", "/proc", "/root", "/sbin", "/sys",
    "/usr", "/var",
];

pub(super) fn add(draft: &mut Draft<'_>) -> Result<(), Refusal> {
    let binds: Vec<Bind> =
        draft.container.binds.iter().map(|bind| with_variables(draft, bind)).collect::<Result<_, _>>()?;
    let workdir = draft.container.workdir.clone();
    let after = binds.iter().rposition(|bind| is_within(&workdir, &bind.target)).map_or(0, |at| at + 1);
    for (at, bind) in binds.iter().enumerate() {
        if at == after {
            add_workdir(draft, &workdir, &binds)?;
        }
        if !(draft.around.exists)(&bind.source) {
            return Err(Refusal::NoSource { path: bind.source.clone() });
        }
        add_bind(draft, bind, "`image.bind`")?;
    }
    if after >= binds.len() {
        add_workdir(draft, &workdir, &binds)?;
    }
    for name in NODE_FILES {
        add_node_file(draft, name)?;
    }
    if !workdir.is_empty() {
        let flag = if draft.features.has(Feature::Cwd) { "--cwd" } else { "--pwd" };
        draft.flag_with(flag, workdir, "the job's working directory");
    }
    Ok(())
}

/// Whether a path is below another one.
fn is_within(path: &str, above: &str) -> bool {
    let rest = path.strip_prefix(above.trim_end_matches('/'));
    rest.is_some_and(|rest| rest.starts_with('/') && rest.len() > 1)
}

fn add_workdir(draft: &mut Draft<'_>, workdir: &str, binds: &[Bind]) -> Result<(), Refusal> {
    if workdir.is_empty() || binds.iter().any(|bind| bind.target.trim_end_matches('/') == workdir) {
        return Ok(());
    }
    if SYSTEM.contains(&workdir) {
        draft.reason("no --bind", format!("the working directory {workdir} is the image's own"));
        return Ok(());
    }
    let bind = Bind { source: workdir.to_owned(), target: workdir.to_owned(), read_only: false };
    add_bind(draft, &bind, "the job's working directory")
}

fn add_node_file(draft: &mut Draft<'_>, name: &str) -> Result<(), Refusal> {
    let Some(path) = draft.variable(name) else { return Ok(()) };
    if !path.starts_with('/') || !(draft.around.exists)(&path) {
        draft.reason(name, "names a file that is not on this node, and is not bound");
        return Ok(());
    }
    let bind = Bind { source: path.clone(), target: path, read_only: true };
    add_bind(draft, &bind, &format!("{name}: the scheduler's directory is not seen in a container"))
}

fn add_bind(draft: &mut Draft<'_>, bind: &Bind, why: &str) -> Result<(), Refusal> {
    if [&bind.source, &bind.target].into_iter().all(|path| is_plain(path)) {
        let mode = if bind.read_only { ":ro" } else { "" };
        draft.flag_with("--bind", format!("{}:{}{mode}", bind.source, bind.target), why);
        return Ok(());
    }
    if draft.features.has(Feature::Mount) {
        draft.flag_with("--mount", mount(bind), why);
        return Ok(());
    }
    let what = format!(
        "{} cannot bind {:?} to {:?}: it knows no `--mount`, and `--bind` would take such a path apart",
        draft.runtime(),
        bind.source,
        bind.target
    );
    Err(draft.unsupported(
        what,
        "bind a path without colons, commas, quotes and backslashes, such as a symbolic link",
    ))
}

/// Whether every version reads `--bind` of this path as it stands.
fn is_plain(path: &str) -> bool {
    path.trim() == path && !path.contains([':', ',', '\\', '"', '\'', '^', '=', '\n', '\r'])
}

/// The value of `--mount`: a line of CSV.
fn mount(bind: &Bind) -> String {
    let field = |key: &str, path: &str| {
        let field = format!("{key}={path}");
        if field.contains([',', '"', '\n', '\r']) {
            format!("\"{}\"", field.replace('"', "\"\""))
        } else {
            field
        }
    };
    let (source, target) = (field("source", &bind.source), field("destination", &bind.target));
    let mode = if bind.read_only { ",ro" } else { "" };
    format!("type=bind,{source},{target}{mode}")
}

/// The bind with the variables of the job in its source.
fn with_variables(draft: &Draft<'_>, bind: &Bind) -> Result<Bind, Refusal> {
    let mut source = String::new();
    let mut rest = bind.source.as_str();
    while let Some(at) = rest.find('$') {
        source.push_str(&rest[..at]);
        let (name, after) = name_at(&rest[at + 1..]);
        rest = after;
        if name.is_empty() {
            source.push('$');
            continue;
        }
        let value = draft.variable(name).ok_or_else(|| Refusal::NoVariable {
            source_text: bind.source.clone(),
            variable: name.to_owned(),
        })?;
        source.push_str(&value);
    }
    source.push_str(rest);
    Ok(Bind { source, ..bind.clone() })
}

/// The variable's name behind a dollar sign, and what follows it.
fn name_at(text: &str) -> (&str, &str) {
    let braced = text.strip_prefix('{').and_then(|text| text.split_once('}'));
    if let Some((name, rest)) = braced.filter(|(name, _)| is_name(name)) {
        return (name, rest);
    }
    let end = text.find(|c: char| !c.is_ascii_alphanumeric() && c != '_').unwrap_or(text.len());
    if is_name(&text[..end]) { (&text[..end], &text[end..]) } else { ("", text) }
}

fn is_name(text: &str) -> bool {
    text.starts_with(|c: char| c.is_ascii_alphabetic() || c == '_')
        && text.chars().all(|c| c.is_ascii_alphanumeric() || c == '_')
}
