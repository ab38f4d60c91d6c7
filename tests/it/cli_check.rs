//! `dlrun check`.

use std::process::Command;

use crate::support::{TestEnv, skip};

#[test]
fn good_job_file_is_called_valid() {
    let env = TestEnv::new();
    let file = env.job("true", "");
    let _ = env
        .dlrun(["check", "--scheduler", "local"])
        .arg(&file)
        .run()
        .code(0)
        .says("is valid; it would go to local\n");
    let result = env
        .dlrun(["check", "--scheduler", "local", "--json"])
        .arg(&file)
        .run()
        .code(0)
        .result();
    assert_eq!(
        (&result["scheduler"], &result["job_file"]),
        (&"local".into(), &file.to_str().expect("text").into())
    );
    assert!(env.processes().is_empty());
}

#[test]
fn every_fault_is_told_at_once_with_its_line_and_the_next_step() {
    let env = TestEnv::new();
    let file = env.write(
        "bad.toml",
        "nmae = \"x\"\n[run]\ncommand = [\"true\"]\n[resources]\nmemory = \"64\"\nwalltime = 12\n",
    );
    let done = env.dlrun(["check", "bad.toml"]).run().code(65);
    let stderr = &done.stderr;
    for part in [
        "bad.toml:1:1",
        "`nmae`",
        "did you mean `name`?",
        "bad.toml:5:10",
        "write `64GiB`",
        "bad.toml:6:12",
        "3 problems in bad.toml",
    ] {
        assert!(stderr.contains(part), "{part} in {stderr}");
    }
    let error = env
        .dlrun(["check", "--json"])
        .arg(&file)
        .run()
        .code(65)
        .error();
    assert_eq!(error["kind"], "job_file");
    let lines: Vec<_> = error["problems"]
        .as_array()
        .expect("a list")
        .iter()
        .map(|p| p["line"].clone())
        .collect();
    assert_eq!(lines, [1, 5, 6]);
    assert_eq!(error["problems"][0]["hint"], "did you mean `name`?");
}

#[test]
fn slurm_is_asked_with_the_script_on_standard_input() {
    let env = TestEnv::new();
    let words = "sbatch: Job 7 to start at 2026-11-20T10:00:00 using 1 processors on nodes n1 in partition debug\n";
    let sbatch = env.fake_slurm().stdout("").stderr(words);
    let file = env.job("true", "[scheduler]\narguments = [\"--no-requeue\"]\n");
    let result = env
        .dlrun(["check", "--json"])
        .arg(&file)
        .run()
        .code(0)
        .result();
    // The id is of no job.
    let says =
        "it would start at 2026-11-20T10:00:00 using 1 processors on nodes n1 in partition debug";
    assert_eq!(result["scheduler_says"], says);
    let call = sbatch.call();
    assert!(
        call.argv.contains(&"--test-only".to_owned())
            && call.argv.contains(&"--no-requeue".to_owned()),
        "{:?}",
        call.argv
    );
    assert_eq!(
        call.stdin,
        env.dlrun(["render"]).arg(&file).run().code(0).text()
    );
    let _ = env
        .fake("sbatch")
        .stderr("sbatch: error: Requested node configuration is not available\n")
        .code(1);
    let error = env
        .dlrun(["check", "--json"])
        .arg(&file)
        .run()
        .code(76)
        .error();
    assert!(
        error["message"]
            .as_str()
            .expect("text")
            .ends_with("Requested node configuration is not available"),
        "{error}"
    );
}

#[test]
fn no_check_looks_at_no_file_and_asks_nobody() {
    let env = TestEnv::new();
    let sbatch = env.fake_slurm();
    let file = env.write(
        "far.toml",
        "[run]\ncommand = [\"/only/on/the/node\"]\nworkdir = \"/only/there\"\n",
    );
    let _ = env
        .dlrun(["check"])
        .arg(&file)
        .run()
        .code(66)
        .warns("/only/there is not a directory")
        .warns("--no-check");
    let _ = env.dlrun(["check", "--no-check"]).arg(&file).run().code(0);
    assert_eq!(sbatch.calls().len(), 0);
}

/// The output of a failing `check` on a terminal.
fn on_terminal(env: &TestEnv, variables: &[(&str, &str)]) -> Option<String> {
    if !Command::new("script")
        .arg("--version")
        .output()
        .is_ok_and(|output| output.status.success())
    {
        skip("there is no `script` to make a terminal with");
        return None;
    }
    env.write("bad.toml", "[run]\ncommand = 1\n");
    let command = format!("{} check bad.toml", crate::support::DLRUN);
    let mut script = env.command("/usr/bin/script", ["-qec", &command, "/dev/null"]);
    for (name, value) in variables {
        script = script.env(name, value);
    }
    Some(script.run().code(65).text())
}

#[test]
fn colour_is_for_terminals_that_want_it() {
    let env = TestEnv::new();
    let Some(coloured) = on_terminal(&env, &[]) else {
        return;
    };
    assert!(coloured.contains("\u{1b}["), "{coloured:?}");
    for variables in [[("NO_COLOR", "1")], [("TERM", "dumb")]] {
        let plain = on_terminal(&env, &variables).expect("there is one");
        assert!(
            plain.contains("bad.toml:2:11") && !plain.contains('\u{1b}'),
            "{plain:?}"
        );
    }
    let empty = on_terminal(&env, &[("NO_COLOR", "")]).expect("there is one");
    assert!(
        empty.contains("\u{1b}["),
        "an empty NO_COLOR means nothing: {empty:?}"
    );
    let piped = env.dlrun(["check", "bad.toml"]).run().code(65);
    let _ = piped.never_says("\u{1b}");
}

#[test]
fn a_virtual_environment_that_is_missing_is_an_error_with_the_next_step() {
    let env = TestEnv::new();
    let file = env.write(
        "job.toml",
        "[run]\ncommand = [\"python\"]\n[python]\nvenv = \"env\"\n",
    );
    let check = |code| {
        env.dlrun(["check", "--scheduler", "local"])
            .arg(&file)
            .run()
            .code(code)
    };
    let _ = check(66)
        .warns("is not a virtual environment")
        .warns("python3 -m venv");
    let _ = env.write("env/bin/python", "");
    let _ = check(0);
}
