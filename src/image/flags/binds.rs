//! What of the node is seen in the container: the working directory, the job's binds, the node files of PBS.
//!
//! A runtime shows `$HOME`, `/tmp` and the current directory by itself, as far as the site lets it; what the job needs is
//! bound all the same, so that it is there on every site.

use crate::image::flags::Refusal;
use crate::image::flags::draft::Draft;
use crate::image::flags::variable::name_at;
use crate::image::runtime::Feature;
use crate::job::{Bind, SchedulerVariables};

/// Directories of the operating system: bound over the image's own they would take it away.
const SYSTEM: [&str; 15] = [
    "/", "/bin", "/boot", "/dev", "/etc", "/home", "/lib", "/lib64", "/opt", "/proc", "/run",
    "/sbin", "/sys", "/usr", "/var",
];

/// A bind and why it is given.
type Reasoned = (Bind, String);

pub(crate) fn add(draft: &mut Draft<'_>) -> Result<(), Refusal> {
    let mut binds = Vec::new();
    for bind in &draft.container.binds {
        let bind = with_variables(draft, bind)?;
        if !draft.assumed && !(draft.around.exists)(&bind.source) {
            return Err(Refusal::missing(
                format!(
                    "the bind source {} does not exist on this node",
                    bind.source
                ),
                "create it on the nodes, or remove it from `image.bind`",
            ));
        }
        binds.push((bind, "`image.bind`".to_owned()));
    }
    let workdir = draft.container.workdir.as_str();
    binds.extend(workdir_bind(draft, workdir, &binds));
    let files = SchedulerVariables::ALL.into_iter();
    for name in files.flat_map(|variables| variables.files) {
        binds.extend(node_file(draft, name));
    }
    // What is bound later lies on top, so parents come first.
    binds.sort_by_key(|(bind, _)| {
        bind.target
            .split('/')
            .filter(|part| !part.is_empty())
            .count()
    });
    for (bind, why) in &binds {
        add_bind(draft, bind, why)?;
    }
    if !workdir.is_empty() {
        let flag = if draft.features.has(Feature::Cwd) {
            "--cwd"
        } else {
            "--pwd"
        };
        draft.flag_with(flag, workdir.to_owned(), "the job's working directory");
    }
    Ok(())
}

fn workdir_bind(draft: &mut Draft<'_>, workdir: &str, binds: &[Reasoned]) -> Option<Reasoned> {
    let is_target = |(bind, _): &Reasoned| bind.target.trim_end_matches('/') == workdir;
    if workdir.is_empty() || binds.iter().any(is_target) {
        return None;
    }
    if SYSTEM.contains(&workdir) {
        draft.reason(
            "no --bind",
            format!("the working directory {workdir} stays as the runtime shows it"),
        );
        return None;
    }
    let bind = Bind {
        source: workdir.to_owned(),
        target: workdir.to_owned(),
        read_only: false,
    };
    Some((bind, "the job's working directory".to_owned()))
}

fn node_file(draft: &mut Draft<'_>, name: &str) -> Option<Reasoned> {
    let path = draft.variable(name)?;
    if !path.starts_with('/') || !(draft.around.exists)(&path) {
        draft.reason(
            "no --bind",
            format!("{name} names {path}, which is not on this node"),
        );
        return None;
    }
    let bind = Bind {
        source: path.clone(),
        target: path,
        read_only: true,
    };
    Some((bind, format!("{name}, which lies where no container looks")))
}

fn add_bind(draft: &mut Draft<'_>, bind: &Bind, why: &str) -> Result<(), Refusal> {
    let paths = [&bind.source, &bind.target];
    if paths
        .into_iter()
        .any(|path| path.chars().any(char::is_control))
    {
        let what = format!(
            "cannot bind {:?} to {:?}: control characters",
            bind.source, bind.target
        );
        return Err(Refusal::unsupported(
            what,
            "bind a path without line breaks and tabs",
        ));
    }
    let mode = |word| if bind.read_only { word } else { "" };
    if paths.into_iter().all(|path| is_plain(path)) {
        draft.flag_with(
            "--bind",
            format!("{}:{}{}", bind.source, bind.target, mode(":ro")),
            why,
        );
        return Ok(());
    }
    if draft.features.has(Feature::Mount) {
        let [source, target] = [
            field("source", &bind.source),
            field("destination", &bind.target),
        ];
        draft.flag_with(
            "--mount",
            format!("type=bind,{source},{target}{}", mode(",ro")),
            why,
        );
        return Ok(());
    }
    if draft.assumed && draft.node.runtime.is_none() {
        draft.reason(
            &format!("bind {:?} to {:?}", bind.source, bind.target),
            format!("{why}; the node's runtime decides how"),
        );
        return Ok(());
    }
    let what = format!(
        "{} cannot bind {:?} to {:?}: it has no `--mount`, and its `--bind` would take the path apart",
        draft.runtime(),
        bind.source,
        bind.target
    );
    Err(Refusal::unsupported(
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
    if field.contains([',', '"']) {
        format!("\"{}\"", field.replace('"', "\"\""))
    } else {
        field
    }
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
        let value = draft.variable(name).ok_or_else(|| {
            Refusal::missing(
                format!(
                    "the bind source {} names ${name}, which is not set on this node",
                    bind.source
                ),
                "set it in `run.env` or `run.env_file`, or name a path that does not depend on it",
            )
        })?;
        source.push_str(&value);
        rest = after;
    }
    source.push_str(rest);
    if !source.starts_with('/') {
        let what = format!(
            "the bind source {} is {source:?} on this node, which is not absolute",
            bind.source
        );
        return Err(Refusal::unsupported(
            what,
            "let its variable hold an absolute path",
        ));
    }
    Ok(Bind {
        source,
        ..bind.clone()
    })
}
