//! `singularity exec` and `apptainer run` as `[image]`.

use crate::job::Bind;
use crate::job::convert::RUNSCRIPT;
use crate::job::convert::write::Value;

/// What stands for a variable whose value only the job has, before and behind its name. No text holds it.
pub(super) const OPEN: char = '\0';

/// A container and what runs in it.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub(super) struct Contained {
    /// Keys of `[image]`.
    pub(super) keys: Vec<(&'static str, Value)>,
    /// Variables that are set in it.
    pub(super) env: Vec<(String, String)>,
    pub(super) command: Vec<String>,
}

/// Options with a value that are handed through, those with a short name behind it.
const WITH_VALUE: &str = "-o=--overlay -H=--home -W=--workdir -S=--scratch --app --hostname --dns --network --network-args \
    --no-mount --add-caps --drop-caps --security --apply-cgroups --shm-size --tmp-sandbox";
/// Options without a value that are handed through.
const FLAGS: &str = "--no-home --writable-tmpfs --contain -c --containall -C --ipc -i --pid -p --userns -u --uts --net -n \
    --writable -w --no-privs --no-init --compat --unsquash --no-umask";
/// Variables that would act on the runtime too, outside of the container.
const OF_THE_NODE: [&str; 4] = ["PATH", "LD_LIBRARY_PATH", "LD_PRELOAD", "HOME"];

/// Reads the words of a command. `dir` is where it runs, seen from the job file. `None` where it starts no container, or
/// one that a job file cannot say.
pub(super) fn read(words: &[String], dir: &str) -> Option<Contained> {
    let (program, words) = words.split_first()?;
    let name = program.rsplit('/').next()?;
    let (verb, mut words) = words.split_first()?;
    let is_run = verb == "run";
    if !["singularity", "apptainer"].contains(&name) || !(is_run || verb == "exec") {
        return None;
    }
    let mut made = Contained::default();
    let (mut binds, mut options, mut gpu) = (Vec::new(), Vec::new(), "none");
    while let Some((option, rest)) = words
        .split_first()
        .filter(|(word, _)| word.starts_with('-'))
    {
        words = rest;
        let (name, stuck) = option
            .split_once('=')
            .map_or((option.as_str(), None), |(name, v)| (name, Some(v)));
        let mut value = || match stuck {
            Some(value) => Some(value.to_owned()),
            None => {
                let (value, rest) = words.split_first()?;
                words = rest;
                Some(value.clone())
            }
        };
        let mut long = WITH_VALUE.split(' ').filter_map(|option| {
            let (short, long) = option.split_once('=').unwrap_or((option, option));
            [short, long].contains(&name).then_some(long)
        });
        match name {
            "--nv" => gpu = "nvidia",
            "--rocm" => gpu = "amd",
            "--bind" | "-B" => binds.extend(value()?.split(',').map(str::to_owned)),
            "--env" => made.env.extend(variables(&value()?)?),
            "--cleanenv" | "-e" => made.keys.push(("image.cleanenv", Value::Flag(true))),
            "--fakeroot" | "-f" => made.keys.push(("image.fakeroot", Value::Flag(true))),
            name if stuck.is_none() && FLAGS.split(' ').any(|flag| flag == name) => {
                options.push(name.to_owned());
            }
            _ => options.push(format!("{}={}", long.next()?, value()?)),
        }
    }
    let (image, inner) = words.split_first()?;
    made.keys.push(image_key(image, dir)?);
    let binds: Option<Vec<String>> = binds.iter().map(|bind| as_bind(bind, dir)).collect();
    made.keys.push(("image.bind", Value::Texts(binds?)));
    made.keys.push(("image.gpu", Value::Text(gpu.to_owned())));
    made.keys.push(("image.options", Value::Texts(options)));
    made.keys
        .retain(|(_, value)| *value != Value::Texts(Vec::new()));
    made.command = if is_run {
        vec![RUNSCRIPT.to_owned()]
    } else {
        Vec::new()
    };
    made.command.extend_from_slice(inner);
    (!made.command.is_empty()).then_some(made)
}

fn image_key(image: &str, dir: &str) -> Option<(&'static str, Value)> {
    match image.split_once("://") {
        Some(("instance", _)) => None,
        Some(_) => Some(("image.uri", Value::Text(image.to_owned()))),
        None => Some(("image.path", Value::Text(joined(dir, image)))),
    }
}

/// A path below `dir`, seen from the job file.
pub(super) fn joined(dir: &str, path: &str) -> String {
    if dir.is_empty() || path.starts_with('/') {
        path.to_owned()
    } else {
        format!("{dir}/{path}")
    }
}

/// `SOURCE[:TARGET[:ro]]`. A variable in the source is left to the node.
fn as_bind(text: &str, dir: &str) -> Option<String> {
    let (source, rest) = text
        .split_once(':')
        .map_or((text, ""), |(source, rest)| (source, rest));
    let mut parts = source.split(OPEN);
    let mut named = parts.next()?.to_owned();
    while let (Some(name), Some(behind)) = (parts.next(), parts.next()) {
        named.push_str(&format!("${{{name}}}{behind}"));
    }
    let source = if named.starts_with('$') {
        named
    } else {
        joined(dir, &named)
    };
    // Without a target a relative source is seen below its absolute path, which is not known here.
    let is_whole = !rest.is_empty() || source.starts_with('/');
    let bind = if rest.is_empty() {
        source
    } else {
        format!("{source}:{rest}")
    };
    (is_whole && Bind::parse(&bind).is_ok()).then_some(bind)
}

/// `A=1,B=2`. What only the job knows is no value.
fn variables(list: &str) -> Option<Vec<(String, String)>> {
    let pair = |part: &str| {
        let (name, value) = part.split_once('=')?;
        (!OF_THE_NODE.contains(&name) && !part.contains(OPEN))
            .then(|| (name.to_owned(), value.to_owned()))
    };
    list.split(',').map(pair).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::job::convert::shell_words::split;

    fn contained(line: &str) -> Option<Contained> {
        read(&split(&line.replace('@', "\0"))?, "sub")
    }

    fn text(made: &Contained, key: &str) -> Option<Value> {
        made.keys
            .iter()
            .find(|(known, _)| *known == key)
            .map(|(_, value)| value.clone())
    }

    #[test]
    fn options_of_the_runtime_become_keys() {
        let line = "apptainer exec --nv -B /data,@TMPDIR@/a:/b:ro --bind=x:/y --env A=1,B=2 -e --overlay o.img:ro -c t.sif python t.py --nv";
        let made = contained(line).expect("one container");
        assert_eq!(made.command, ["python", "t.py", "--nv"]);
        assert_eq!(
            made.env,
            [
                ("A".to_owned(), "1".to_owned()),
                ("B".to_owned(), "2".to_owned())
            ]
        );
        let texts = |items: &[&str]| {
            Some(Value::Texts(
                items.iter().map(|item| (*item).to_owned()).collect(),
            ))
        };
        assert_eq!(
            text(&made, "image.bind"),
            texts(&["/data", "${TMPDIR}/a:/b:ro", "sub/x:/y"])
        );
        assert_eq!(
            text(&made, "image.options"),
            texts(&["--overlay=o.img:ro", "-c"])
        );
        assert_eq!(
            text(&made, "image.path"),
            Some(Value::Text("sub/t.sif".to_owned()))
        );
        assert_eq!(
            text(&made, "image.gpu"),
            Some(Value::Text("nvidia".to_owned()))
        );
        assert_eq!(text(&made, "image.cleanenv"), Some(Value::Flag(true)));
    }

    #[test]
    fn a_run_starts_what_the_image_is_made_to_run() {
        let made = contained("singularity run docker://a/b:1 x").expect("one container");
        assert_eq!(made.command, ["/.singularity.d/runscript", "x"]);
        assert_eq!(
            text(&made, "image.uri"),
            Some(Value::Text("docker://a/b:1".to_owned()))
        );
        assert_eq!(
            text(&made, "image.gpu"),
            Some(Value::Text("none".to_owned()))
        );
    }

    #[test]
    fn what_a_job_file_cannot_say_is_left() {
        for line in [
            "singularity exec --pwd /x t.sif a",
            "singularity exec --env PATH=/x t.sif a",
            "singularity exec --env A=1,X=@FOO@ t.sif a",
            "singularity exec -B . t.sif a",
            "singularity exec -B @X@ t.sif a",
            "singularity exec --unknown t.sif a",
            "singularity exec instance://x a",
            "singularity exec t.sif",
            "singularity shell t.sif",
            "singularity pull t.sif",
            "python t.py",
        ] {
            assert_eq!(contained(line), None, "{line}");
        }
    }
}
