//! What holds for any path and any value.

use std::process::Command;

use dlrun::image::flags::Container;
use dlrun::image::runtime::{Evaluation, Features};
use dlrun::job::Bind;
use proptest::prelude::*;

use super::{RUNTIMES, chosen, container, node, runtime};

/// What Go's `encoding/csv` makes of one line.
fn csv(line: &str) -> Vec<String> {
    let (mut fields, mut chars) = (Vec::new(), line.chars().peekable());
    loop {
        let mut field = String::new();
        if chars.next_if_eq(&'"').is_some() {
            loop {
                match chars.next() {
                    Some('"') if chars.next_if_eq(&'"').is_some() => field.push('"'),
                    Some('"') => break,
                    Some(c) => field.push(c),
                    None => panic!("{line}: an open quote"),
                }
            }
        } else {
            while let Some(c) = chars.next_if(|c| *c != ',') {
                assert_ne!(c, '"', "{line}: a quote in a bare field");
                field.push(c);
            }
        }
        fields.push(field);
        match chars.next() {
            Some(',') => {}
            None => return fields,
            Some(c) => panic!("{line}: {c} behind a quoted field"),
        }
    }
}

/// What a runtime makes of `--bind`: source, target, read only.
fn of_bind(value: &str) -> (String, String, bool) {
    assert!(
        !value.contains([',', '^', '\\', '"']),
        "{value}: it would be taken apart"
    );
    let parts: Vec<&str> = value.split(':').collect();
    for part in &parts {
        assert_eq!(*part, part.trim(), "{value}: it would be trimmed");
    }
    assert!(
        parts.len() < 3 || parts[2..] == ["ro"],
        "{value}: too many parts"
    );
    (parts[0].to_owned(), parts[1].to_owned(), parts.len() == 3)
}

/// What a runtime makes of `--mount`.
fn of_mount(value: &str) -> (String, String, bool) {
    let (mut source, mut target, mut read_only) = (String::new(), String::new(), false);
    for field in csv(value) {
        match field.split_once('=') {
            Some(("type", kind)) => assert_eq!(kind, "bind"),
            Some(("source", path)) => path.clone_into(&mut source),
            Some(("destination", path)) => path.clone_into(&mut target),
            None if field == "ro" => read_only = true,
            _ => panic!("{value}: {field}"),
        }
    }
    (source, target, read_only)
}

fn path() -> impl Strategy<Value = String> {
    prop_oneof![r#"/[a-z:,\\" '^=$]{1,8}"#, r"/\PC{1,12}"]
}

fn a_runtime() -> impl Strategy<Value = &'static str> {
    prop::sample::select(RUNTIMES.as_slice())
}

/// What the shell in the container gives back, by the way in which the runtime writes the line that it reads.
fn through_the_shell(evaluation: Evaluation, name: &str, value: &str) -> String {
    let written = match evaluation {
        Evaluation::None => return value.to_owned(),
        Evaluation::SingleQuotes => format!("'{}'", value.replace('\'', r#"'"'"'"#)),
        Evaluation::DoubleQuotes if name == "LD_LIBRARY_PATH" => format!("\"{value}\""),
        Evaluation::DoubleQuotes => format!("\"{}\"", value.replace('"', "\\\"")),
        // Go's `%q` changes none of what comes through here.
        Evaluation::Plain => {
            assert!(
                !value.contains(['"', '\\']) && !value.chars().any(char::is_control),
                "{value:?}"
            );
            format!("\"{value}\"")
        }
    };
    let script = format!("export X={written}\nprintf %s \"$X\"");
    let shell = Command::new("bash")
        .args(["--norc", "-c", &script])
        .output()
        .expect("there is a bash");
    String::from_utf8(shell.stdout).expect("it was text")
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(256))]

    #[test]
    fn any_path_survives_or_is_refused(source in path(), target in path(), read_only: bool, said in a_runtime()) {
        let bind = Bind { source: source.replace('$', "_"), target, read_only };
        let wanted = (bind.source.clone(), bind.target.clone(), read_only);
        let container = Container { binds: vec![bind], workdir: String::new(), ..container() };
        if let Ok(invocation) = chosen(&container, &node(runtime(said)), &[], false) {
            let at = invocation.argv.iter().position(|word| word == "--bind" || word == "--mount");
            let at = at.expect("it is bound");
            let read = if invocation.argv[at] == "--bind" { of_bind } else { of_mount };
            prop_assert_eq!(read(&invocation.argv[at + 1]), wanted);
        } else {
            let odd = [':', ',', '\\', '"', '^'];
            let needs_mount = |path: &str| path.contains(odd) || path.trim() != path;
            let is_old = said.starts_with("singularity version 3");
            prop_assert!(is_old && (needs_mount(&wanted.0) || needs_mount(&wanted.1)), "{said}: {wanted:?}");
        }
    }

    #[test]
    fn any_value_comes_back_from_the_shell_or_is_not_given_to_it(
        value in prop_oneof![r#"[a$`"'\\{}()\n !*~]{0,10}"#, r"[^\x00]{0,12}"],
        name in prop::sample::select(["X", "LD_LIBRARY_PATH"].as_slice()),
        said in a_runtime(),
    ) {
        let container = Container { variables: vec![name.to_owned()], ..container() };
        let Ok(invocation) = chosen(&container, &node(runtime(said)), &[(name, &value)], false) else {
            return Ok(());
        };
        let evaluation = Features(runtime(said)).evaluation();
        match invocation.sets.as_slice() {
            [] => prop_assert!(value.contains("\r\n") || evaluation == Evaluation::Plain, "{said}: {value:?}"),
            [(_, set)] => prop_assert_eq!(through_the_shell(evaluation, name, set), value, "{}: {}", said, set),
            more => prop_assert!(false, "{said}: {more:?}"),
        }
    }

    #[test]
    fn no_value_is_seen_on_the_command_line(secret in "[A-Za-z0-9$`]{8,20}", clean: bool, said in a_runtime()) {
        let secret = format!("5ecret{secret}");
        let variables = [
            ("TOKEN", secret.as_str()), ("SLURM_TOKEN", &secret), ("FROM_FILE", &secret), ("PATH", &secret),
            ("DLRUN_ENV_NAMES", "FROM_FILE"), ("APPTAINER_DOCKER_PASSWORD", &secret),
        ];
        let container = Container {
            variables: vec!["TOKEN".into(), "PATH".into()], cleanenv: clean, ..container()
        };
        let told = match chosen(&container, &node(runtime(said)), &variables, false) {
            Ok(invocation) => format!("{:?} {:?} {:?}", invocation.argv, invocation.reasons, invocation.warnings),
            Err(refusal) => format!("{refusal} {}", refusal.remedy),
        };
        prop_assert!(!told.contains("5ecret"), "{told}");
    }
}
