//! What of the node is seen in the container: the working directory, the job's binds, the node files of PBS.
//!
//! A runtime shows `$HOME`, `/tmp` and the current directory by itself, as far as the site lets it; what the job needs is
//! bound all the same, so that it is there on every site.

use super::Refusal;
use super::draft::Draft;
use super::features::Feature;
use super::name::name_at;
use crate::job::Bind;

/// Files in the scheduler's spool directory, which no container shows.
const NODE_FILES: [&str; 3] = ["PBS_NODEFILE", "PBS_GPUFILE", "PBS_MICFILE"];
/// Directories of the operating system: bound over the image's own they would take it away.
const SYSTEM: [&str; 15] = [
    "/", "/bin", "/boot", "/dev", "/etc", "/home", "/lib", "/lib64", "/opt", "/proc", "/run", "/sbin",
    "/sys", "/usr", "/var",
];

pub(super) fn add(draft: &mut Draft<'_>) -> Result<(), Refusal> {
    let workdir = draft.container.workdir.clone();
    let binds = draft
        .container
        .binds
        .iter()
        .map(|bind| with_variables(draft, bind))
        .collect::<Result<Vec<_>, _>>()?;
    // What is bound later lies on top: the working directory behind its parents, before what the job puts into it.
    let at = binds.iter().rposition(|bind| is_within(&workdir, &bind.target)).map_or(0, |last| last + 1);
    let (parents, others) = binds.split_at(at);
    add_job_binds(draft, parents)?;
    add_workdir(draft, &workdir, &binds)?;
    add_job_binds(draft, others)?;
    for name in NODE_FILES {
        add_node_file(draft, name)?;
    }
    if !workdir.is_empty() {
        let flag = if draft.features.has(Feature::Cwd) { "--cwd" } else { "--pwd" };
        draft.flag_with(flag, workdir, "the job's working directory");
    }
    Ok(())
}

fn add_job_binds(draft: &mut Draft<'_>, binds: &[Bind]) -> Result<(), Refusal> {
    for bind in binds {
        if !draft.assumed && !(draft.around.exists)(&bind.source) {
            return Err(Refusal::NoSource { path: bind.source.clone() });
        }
        add_bind(draft, bind, "`image.bind`")?;
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
        draft.reason("no --bind", format!("the working directory {workdir} stays as the runtime shows it"));
        return Ok(());
    }
    let bind = Bind { source: workdir.to_owned(), target: workdir.to_owned(), read_only: false };
    add_bind(draft, &bind, "the job's working directory")
}

fn add_node_file(draft: &mut Draft<'_>, name: &str) -> Result<(), Refusal> {
    let Some(path) = draft.variable(name) else { return Ok(()) };
    if !path.starts_with('/') || !(draft.around.exists)(&path) {
        draft.reason("no --bind", format!("{name} names {path}, which is not on this node"));
        return Ok(());
    }
    let bind = Bind { source: path.clone(), target: path, read_only: true };
    add_bind(draft, &bind, &format!("{name}, which lies where no container looks"))
}

fn add_bind(draft: &mut Draft<'_>, bind: &Bind, why: &str) -> Result<(), Refusal> {
    let paths = [&bind.source, &bind.target];
    if paths.into_iter().any(|path| path.chars().any(char::is_control)) {
        let what = format!("cannot bind {:?} to {:?}: control characters", bind.source, bind.target);
        return Err(draft.unsupported(what, "bind a path without line breaks and tabs"));
    }
    let mode = |word| if bind.read_only { word } else { "" };
    if paths.into_iter().all(|path| is_plain(path)) {
        draft.flag_with("--bind", format!("{}:{}{}", bind.source, bind.target, mode(":ro")), why);
        return Ok(());
    }
    if draft.features.has(Feature::Mount) {
        let [source, target] = [field("source", &bind.source), field("destination", &bind.target)];
        draft.flag_with("--mount", format!("type=bind,{source},{target}{}", mode(",ro")), why);
        return Ok(());
    }
    let what = format!(
        "{} cannot bind {:?} to {:?}: it has no `--mount`, and its `--bind` would take the path apart",
        draft.runtime(),
        bind.source,
        bind.target
    );
    Err(draft.unsupported(
        what,
        "use a path without `:`, `,`, `\\`, `\"`, `^` and outer spaces, such as that of a symbolic link",
    ))
}

/// Whether every version reads it in `--bind` as it stands.
///
/// `ParseBindPath` (v3.6.0 and later) takes it apart at colons, commas and circumflexes and trims it; before that the
/// option's value is a line of CSV.
fn is_plain(path: &str) -> bool {
    path.trim() == path && !path.contains([':', ',', '\\', '"', '^'])
}

/// A field of `--mount`, which is a line of CSV (`ParseMountString`).
fn field(key: &str, path: &str) -> String {
    let field = format!("{key}={path}");
    if field.contains([',', '"']) { format!("\"{}\"", field.replace('"', "\"\"")) } else { field }
}

/// The bind with the job's variables in its source.
fn with_variables(draft: &Draft<'_>, bind: &Bind) -> Result<Bind, Refusal> {
    let mut source = String::new();
    let mut rest = bind.source.as_str();
    while let Some((before, after)) = rest.split_once('$') {
        source.push_str(before);
        let Some((name, after)) = name_at(after) else {
            source.push('$');
            rest = after;
            continue;
        };
        let value = draft.variable(name).ok_or_else(|| Refusal::NoVariable {
            source_text: bind.source.clone(),
            variable: name.to_owned(),
        })?;
        source.push_str(&value);
        rest = after;
    }
    source.push_str(rest);
    if !source.starts_with('/') {
        let what =
            format!("the bind source {} is {source:?} on this node, which is not absolute", bind.source);
        return Err(draft.unsupported(what, "let its variable hold an absolute path"));
    }
    Ok(Bind { source, ..bind.clone() })
}
