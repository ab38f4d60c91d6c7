//! What documents the program is made from it, and the example jobs are jobs.

use std::fs;
use std::path::{Path, PathBuf};

use crate::support::{TestEnv, python};

fn repository() -> &'static Path {
    Path::new(env!("CARGO_MANIFEST_DIR"))
}

#[test]
fn reference_page_is_what_help_says() {
    let page = repository().join("docs/cli.md");
    let made = dlrun::cli::reference();
    if std::env::var_os("UPDATE_DOCS").is_some() {
        fs::create_dir_all(repository().join("docs"))
            .and_then(|()| fs::write(&page, &made))
            .expect("written");
    }
    let kept = fs::read_to_string(&page).unwrap_or_default();
    assert!(
        kept == made,
        "docs/cli.md is out of date: run the tests once with UPDATE_DOCS=1"
    );
}

/// Verbs as `dlrun --help` lists them.
fn verbs(env: &TestEnv) -> Vec<String> {
    let help = env.dlrun(["--help"]).run().code(0).text();
    let listed = help.lines().skip_while(|line| *line != "Commands:").skip(1);
    let verbs = listed
        .take_while(|line| !line.is_empty())
        .filter_map(|line| line.split_whitespace().next());
    verbs
        .filter(|verb| *verb != "help")
        .map(str::to_owned)
        .collect()
}

#[test]
fn every_verb_has_help_that_names_it_and_a_section_of_the_page() {
    let env = TestEnv::new();
    let page = dlrun::cli::reference();
    let verbs = verbs(&env);
    assert!(verbs.len() >= 13, "{verbs:?}");
    for verb in verbs {
        let _ = env
            .dlrun([&verb, "--help"])
            .run()
            .code(0)
            .says(&format!("Usage: dlrun {verb}"))
            .says("--json");
        assert!(page.contains(&format!("\n## dlrun {verb}\n")), "{verb}");
    }
}

#[test]
fn help_costs_no_state_directory_and_shows_no_inner_verb() {
    let mut env = TestEnv::new();
    env.unset("HOME");
    env.unset("XDG_STATE_HOME");
    for argument in ["--help", "-h", "--version"] {
        let _ = env
            .dlrun([argument])
            .run()
            .code(0)
            .never_says("local-run")
            .never_says("exec-watch");
    }
    assert!(!env.state().exists());
}

#[test]
fn a_wrong_command_line_is_a_usage_error() {
    let env = TestEnv::new();
    for arguments in [
        &["sumbit", "job.toml"][..],
        &[],
        &["submit"],
        &["submit", "a.toml", "--scheduler", "loacl"],
        &["submit", "a.toml", "--wait=perhaps"],
        &["list", "-n", "many"],
        &["wait"],
        &["wait", "--timeout", "-1", "@1"],
        &["config"],
        &["completions", "csh"],
    ] {
        let done = env.dlrun(arguments).run().code(64);
        assert_eq!(done.text(), "", "{arguments:?}");
        assert!(!done.stderr.is_empty(), "{arguments:?}");
    }
    let _ = env.dlrun(["sumbit"]).run().code(64).warns("'submit'");
}

fn job_files(dir: &Path, found: &mut Vec<PathBuf>) {
    for entry in fs::read_dir(dir).expect("it can be listed") {
        let path = entry.expect("it can be listed").path();
        if path.is_dir() {
            job_files(&path, found);
        } else if path
            .extension()
            .is_some_and(|extension| extension == "toml")
        {
            found.push(path);
        }
    }
}

#[test]
fn every_example_job_can_be_read_and_rendered() {
    let mut env = TestEnv::new();
    env.set("DLRUN_PYTHON__INTERPRETER", python());
    let mut files = Vec::new();
    job_files(&repository().join("jobs"), &mut files);
    assert!(!files.is_empty());
    for file in files {
        let text = fs::read_to_string(&file).expect("text");
        if text.lines().any(|line| line == "[bench]") {
            let matrix = env.dlrun([
                "bench",
                "run",
                "--dry-run",
                "--no-check",
                "--scheduler",
                "local",
            ]);
            let _ = matrix.arg(&file).run().code(0);
            continue;
        }
        if text.lines().any(|line| line == "[sweep]") {
            let sweep = env.dlrun([
                "sweep",
                "run",
                "--dry-run",
                "--no-check",
                "--scheduler",
                "local",
            ]);
            let _ = sweep.arg(&file).run().code(0);
            continue;
        }
        dlrun::job::parse(&text)
            .unwrap_or_else(|problems| panic!("{}: {problems:?}", file.display()));
        for scheduler in ["local", "slurm"] {
            let render = env
                .dlrun(["render", "--no-check", "--scheduler", scheduler])
                .arg(&file);
            let script = render.run().code(0).text();
            let script = env.write("example.sh", script);
            let _ = env.command("bash", ["-n"]).arg(script).run().code(0);
        }
    }
}
