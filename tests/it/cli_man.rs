//! `dlrun man`.

use std::fs;

use crate::support::TestEnv;

#[test]
fn page_of_dlrun_and_of_each_verb() {
    let env = TestEnv::new();
    let _ = env
        .dlrun(["man"])
        .run()
        .code(0)
        .says(".TH dlrun 1")
        .says("submit")
        .never_says("exec-watch");
    let page = env
        .dlrun(["man", "submit"])
        .run()
        .code(0)
        .says("dlrun-submit")
        .text();
    for section in ["EXAMPLES", "EXIT STATUS", "FILES", "SEE ALSO"] {
        assert!(
            page.contains(&format!(".SH {section}\n")),
            "{section} in {page}"
        );
    }
    let result = env
        .dlrun(["man", "submit", "--json"])
        .run()
        .code(0)
        .result();
    assert_eq!(
        (&result["page"], &result["roff"]),
        (&"dlrun-submit.1".into(), &page.into())
    );
    let _ = env
        .dlrun(["man", "image", "check"])
        .run()
        .code(0)
        .says("dlrun-image-check")
        .says("SHA");
    for verb in ["nothing", "exec-watch", "local-run", ""] {
        let error = env.dlrun(["man", verb, "--json"]).run().code(66).error();
        assert_eq!(error["kind"], "missing");
    }
}

#[test]
fn all_pages_are_written_into_a_directory() {
    let env = TestEnv::new();
    let result = env
        .dlrun(["man", "--dir", "a/man1", "--json"])
        .run()
        .code(0)
        .result();
    let dir = env.jobs().join("a/man1");
    let mut names: Vec<String> = fs::read_dir(&dir)
        .expect("made")
        .map(|entry| {
            entry
                .expect("entry")
                .file_name()
                .into_string()
                .expect("text")
        })
        .collect();
    names.sort();
    assert_eq!(
        names.len(),
        result["pages"].as_array().expect("a list").len()
    );
    assert!(
        names.contains(&"dlrun.1".to_owned()) && names.contains(&"dlrun-logs.1".to_owned()),
        "{names:?}"
    );
    assert!(
        names.contains(&"dlrun-image-check.1".to_owned()),
        "{names:?}"
    );
    assert!(
        !names
            .iter()
            .any(|name| name.contains("watch") || name.contains("local-run")),
        "{names:?}"
    );
    env.write("file", "");
    let error = env
        .dlrun(["man", "--dir", "file/below", "--json"])
        .run()
        .code(73)
        .error();
    assert_eq!(error["kind"], "cannot_write");
}

#[test]
fn examples_of_the_pages_are_command_lines_that_dlrun_takes() {
    let env = TestEnv::new();
    for verb in [
        "submit",
        "plan",
        "list",
        "show",
        "logs",
        "prune",
        "report",
        "export",
        "completions",
    ] {
        let page = env
            .dlrun(["man", verb])
            .run()
            .code(0)
            .text()
            .replace("\\-", "-");
        let examples = page
            .split(".SH EXAMPLES\n")
            .nth(1)
            .and_then(|rest| rest.split(".SH").next());
        let commands = examples.expect("examples").lines().filter_map(|line| {
            line.strip_prefix("\\fBdlrun ")?
                .strip_suffix("\\fR")?
                .split(" > ")
                .next()
                .map(str::to_owned)
        });
        for command in commands {
            let words = command
                .split(' ')
                .take_while(|word| *word != "--")
                .chain(["--no-such-option"]);
            let told = env.dlrun(words).run().code(64).stderr;
            assert!(told.contains("'--no-such-option'"), "{command}: {told}");
        }
    }
}
