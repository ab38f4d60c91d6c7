//! Wrong and odd input: a clear error that names file, line, value and next step, or a run that goes on unharmed.

use std::ffi::OsStr;
use std::fs;
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::{PermissionsExt, chown, symlink};
use std::path::{Path, PathBuf};

use nix::unistd::getuid;
use proptest::prelude::*;
use proptest::test_runner::{Config, TestRunner};

use crate::support::{TestEnv, skip};

/// Requires that `check` refuses a job file with this code and these words; text and JSON agree.
#[track_caller]
fn refused(env: &TestEnv, text: &str, code: i32, words: &[&str]) {
    env.write("job.toml", text);
    let mut done = env
        .dlrun(["check", "--scheduler", "local", "job.toml"])
        .run()
        .code(code);
    for word in words {
        done = done.warns(word);
    }
    let error = env
        .dlrun(["submit", "--scheduler", "local", "--json", "job.toml"])
        .run()
        .code(code)
        .error();
    assert_eq!(
        error["kind"],
        if code == 65 { "job_file" } else { "missing" }
    );
    let runs = env.state().join("runs");
    assert!(
        !runs.exists() || fs::read_dir(runs).expect("listed").count() == 0,
        "nothing is left of it"
    );
}

#[test]
fn what_a_job_names_and_is_not_there_is_told_at_its_place() {
    let env = TestEnv::new();
    let no_check = "if it exists on the compute nodes only, submit with `--no-check`";
    refused(
        &env,
        "[run]\ncommand = [\"no-such-program\"]\n",
        66,
        &[
            "job.toml:2:11",
            "\"no-such-program\" is not in PATH",
            no_check,
        ],
    );
    refused(
        &env,
        "[run]\ncommand = [\"./gone.sh\"]\n",
        66,
        &["jobs/gone.sh is not an executable file", no_check],
    );
    refused(
        &env,
        "[run]\ncommand = [\"sh\", \"train.sh\"]\n",
        66,
        &["job.toml:2:11", "jobs/train.sh is not a file"],
    );
    refused(
        &env,
        "[run]\nscript = \"train.sh\"\n",
        66,
        &["job.toml:2:10", "jobs/train.sh is not a file"],
    );
    refused(
        &env,
        "[run]\ncommand = [\"true\"]\nworkdir = \"../gone\"\n",
        66,
        &["job.toml:3:11", "/gone is not a directory"],
    );
    refused(
        &env,
        "[run]\ncommand = [\"true\"]\n[python]\nrequirements = \"r.txt\"\n",
        66,
        &["job.toml:4:16", "jobs/r.txt is not a file"],
    );
    refused(
        &env,
        "[run]\ncommand = [\"true\"]\nenv_file = \"secrets\"\n",
        66,
        &["job.toml:3:12", "jobs/secrets cannot be read"],
    );
    env.write("secrets", "A=1\n");
    fs::set_permissions(
        env.jobs().join("secrets"),
        fs::Permissions::from_mode(0o644),
    )
    .expect("ours");
    refused(
        &env,
        "[run]\ncommand = [\"true\"]\nenv_file = \"secrets\"\n",
        66,
        &["can be read by others", "`chmod 600`"],
    );
    env.write("plain", "");
    refused(
        &env,
        "[run]\ncommand = [\"./plain\"]\n",
        66,
        &["jobs/plain is not an executable file"],
    );
    // All of them at once.
    let all = "[run]\ncommand = [\"gone\"]\nworkdir = \"w\"\nenv_file = \"e\"\n[python]\nrequirements = \"r\"\n";
    refused(
        &env,
        all,
        66,
        &["job.toml:3:11", "job.toml:4:12", "job.toml:6:16"],
    );
}

#[test]
fn values_that_mean_nothing_are_told_with_what_would() {
    let env = TestEnv::new();
    let job = |line: &str| format!("{line}\n[run]\ncommand = [\"true\"]\n");
    let resource = |line: &str| format!("[run]\ncommand = [\"true\"]\n[resources]\n{line}\n");
    refused(
        &env,
        &resource("walltime = \"12\""),
        65,
        &["job.toml:4:12", "`12`", "12h"],
    );
    refused(
        &env,
        &resource("walltime = 12"),
        65,
        &[
            "job.toml:4:12",
            "must be text in quotes, not a whole number: `12` has no unit",
        ],
    );
    refused(
        &env,
        &resource("memory = \"64\""),
        65,
        &["job.toml:4:10", "`64` has no unit; write `64GiB`"],
    );
    refused(
        &env,
        &resource("memory = \"64 gigs\""),
        65,
        &["`gigs` is not a unit of size"],
    );
    refused(
        &env,
        &resource("cpus_per_task = 0"),
        65,
        &["job.toml:4:17", "must be from 1 to "],
    );
    refused(&env, &resource("nodes = -1"), 65, &["not -1"]);
    refused(
        &env,
        &resource("queue = \"a b\""),
        65,
        &["job.toml:4:9", "must not contain ' '"],
    );
    refused(
        &env,
        &resource("account = \"-x\""),
        65,
        &["must not begin with `-`"],
    );
    refused(
        &env,
        &resource("array = \"9-0\""),
        65,
        &["job.toml:4:9", "is not a list of indexes"],
    );
    for name in [
        "\"a\\nb\"",
        "\"../x\"",
        "\"a/b\"",
        "\"\"",
        "\"a b\"",
        "\"-x\"",
        "\"a%j\"",
        "\".\"",
    ] {
        refused(
            &env,
            &job(&format!("name = {name}")),
            65,
            &["job.toml:1:8", "`name`"],
        );
    }
    refused(
        &env,
        "[run]\n",
        65,
        &[
            "`[run]` needs `command` or `script`",
            "command = [\"python\", \"train.py\"]",
        ],
    );
    refused(&env, "name = \"x\"\n", 65, &["the table `[run]`"]);
    refused(&env, "", 65, &["the table `[run]`"]);
    refused(&env, "[run]\ncommand = []\n", 65, &["names no program"]);
    refused(&env, "[run]\ncommand = [\"\"]\n", 65, &["names no program"]);
    refused(
        &env,
        "[run]\ncommand = \"python train.py\"\n",
        65,
        &["job.toml:2:11", "must be a list of texts"],
    );
    refused(
        &env,
        "[run]\ncommand = [\"a\", 3]\n",
        65,
        &["job.toml:2:17"],
    );
    refused(
        &env,
        "[run]\ncommand = [\"a\"]\nscript = \"b\"\n",
        65,
        &["exclude each other"],
    );
    refused(&env, "[run\ncommand = 1", 65, &["job.toml:1:"]);
    refused(
        &env,
        "[run]\ncommand = [\"true\"]\ncommand = [\"false\"]\n",
        65,
        &["job.toml:3:1", "duplicate key"],
    );
    refused(&env, "[run]\ncommand = [\"a\\u0000b\"]\n", 65, &["NUL"]);
    refused(
        &env,
        "[run]\ncommand = [\"true\"]\nenv = { \"A-B\" = \"1\", A = 1 }\n",
        65,
        &[
            "job.toml:3:9",
            "\"A-B\" is not a variable name",
            "job.toml:3:26",
        ],
    );
    refused(
        &env,
        "[run]\ncommand = [\"true\"]\nenv = { DLRUN_RUN_ID = \"x\" }\n",
        65,
        &["`DLRUN_RUN_ID` is reserved"],
    );
    refused(
        &env,
        "[run]\ncommand = [\"true\"]\nenv = { RANDOM = \"7\" }\n",
        65,
        &["`RANDOM` is reserved", "choose another name"],
    );
    refused(
        &env,
        "[run]\ncommand = [\"true\"]\n[timing]\nepoch = '('\n",
        65,
        &["job.toml:4:9", "`timing.epoch`"],
    );
}

#[test]
fn control_characters_of_a_job_file_do_not_reach_the_terminal() {
    let env = TestEnv::new();
    env.write(
        "job.toml",
        "name = \"\\u001b[31mred\"\n[run]\ncommand = [\"true\"]\n",
    );
    let _ = env
        .dlrun(["check", "job.toml"])
        .run()
        .code(65)
        .never_says("\u{1b}");
}

#[test]
fn what_is_no_job_file_is_told_for_what_it_is() {
    let env = TestEnv::new();
    let check = |path: &Path, code: i32, words: &str| {
        let _ = env.dlrun(["check"]).arg(path).run().code(code).warns(words);
        let _ = env
            .dlrun(["submit", "--scheduler", "local", "--json"])
            .arg(path)
            .run()
            .code(code)
            .error();
    };
    check(
        &env.jobs(),
        66,
        "is a directory\nhint: name the job file in it, such as ",
    );
    check(&env.jobs().join("gone.toml"), 66, "cannot read `");
    check(
        &env.write("file", "x").join("below.toml"),
        66,
        "cannot read `",
    );
    check(
        &env.write("big.toml", "# filler\n".repeat(10 << 17)),
        65,
        "is larger than 1 MiB, which no job file is",
    );
    check(
        &env.write("latin1.toml", b"name = \"caf\xe9\"\n"),
        65,
        "is not UTF-8 text: byte 11",
    );
    check(
        &env.write("binary.toml", fs::read("/bin/sh").expect("there")),
        65,
        "is not UTF-8 text",
    );
    let _ = env.dlrun(["check", ""]).run().code(64);
    check(Path::new("/dev/zero"), 65, "larger than 1 MiB");
    let link = env.jobs().join("loop.toml");
    symlink(&link, &link).expect("ours");
    check(&link, 66, "cannot read `");
    let pipe = env.jobs().join("pipe.toml");
    nix::unistd::mkfifo(&pipe, nix::sys::stat::Mode::S_IRWXU).expect("ours");
    check(&pipe, 65, "run");
    let slow =
        "dlrun check --scheduler local <(sleep 0.3; printf '[run]\\ncommand = [\"true\"]\\n')";
    let _ = env
        .command(
            "/bin/bash",
            ["-c", &slow.replace("dlrun", crate::support::DLRUN)],
        )
        .run()
        .code(0);
    // A name that is no UTF-8 is a name all the same.
    let odd = env.jobs().join(OsStr::from_bytes(b"caf\xe9.toml"));
    fs::write(&odd, "[run]\ncommand = [\"true\"]\n").expect("ours");
    let _ = env
        .dlrun(["check", "--scheduler", "local"])
        .arg(&odd)
        .run()
        .code(0);
}

#[test]
fn plan_that_cannot_travel_to_the_node_is_refused_before_it_is_queued() {
    let env = TestEnv::new();
    let long = "x".repeat(110 << 10);
    refused(
        &env,
        &format!("[run]\ncommand = [\"true\", \"{long}\"]\n"),
        65,
        &["102400 is the limit", "into a file that the program reads"],
    );
    let fits = "y".repeat(40 << 10);
    let file = env.write(
        "job.toml",
        format!("[run]\ncommand = [\"sh\", \"-c\", \"printf %s $0 | wc -c\", \"{fits}\"]\n"),
    );
    let id = env.submit(&file);
    let _ = env.dlrun(["wait", &id]).run().code(0);
    let _ = env.dlrun(["logs", &id]).run().code(0).says("40960\n");
}

/// Values that shells, schedulers, TOML and C each have their own opinion of.
const ODD: &[&str] = &[
    "",
    " ",
    "  both ends  ",
    "a b",
    "tab\there",
    "line\nbreak\n",
    "\n",
    "it's",
    "'",
    "''",
    "\"double\"",
    "\\",
    "\\n",
    "a,b,c",
    "A=B=C",
    "=",
    "$HOME",
    "$(touch pwned)",
    "`touch pwned`",
    "${IFS}",
    "; touch pwned #",
    "&& touch pwned",
    "| touch pwned",
    "> pwned",
    "*",
    "?[a-z]",
    "~",
    "!!",
    "{a,b}",
    "-n",
    "--help",
    "%s %d %j",
    "ümläut 漢字 🎉",
    "\u{1b}[31m",
    "\r\n",
    "\u{7f}\u{1}",
    "#comment",
    "trailing\\",
    "EOF",
    "\u{feff}bom",
];

/// Writes its argument vector and its environment down as the kernel has them.
const DUMP: &str = "#!/bin/sh\ncat /proc/$$/cmdline > argv\ncat /proc/$$/environ > environ\n";

fn words_of(path: PathBuf) -> Vec<Vec<u8>> {
    let bytes = fs::read(path).expect("it was dumped");
    bytes
        .strip_suffix(b"\0")
        .expect("it ends in NUL")
        .split(|byte| *byte == 0)
        .map(<[u8]>::to_vec)
        .collect()
}

fn quoted(text: &str) -> String {
    serde_json::to_string(text)
        .expect("text")
        .replace('\u{7f}', "\\u007F")
}

/// Submits a job with these words and variables and requires that the kernel had them byte for byte.
#[track_caller]
fn arrive(env: &TestEnv, words: &[String], variables: &[(String, String)]) {
    env.program("dump.sh", DUMP);
    let command: Vec<String> = std::iter::once("./dump.sh")
        .chain(words.iter().map(String::as_str))
        .map(quoted)
        .collect();
    let entries: Vec<String> = variables
        .iter()
        .map(|(name, value)| format!("{name} = {}", quoted(value)))
        .collect();
    let text = format!(
        "[run]\ncommand = [{}]\n[run.env]\n{}\n",
        command.join(", "),
        entries.join("\n")
    );
    let file = env.write("job.toml", text);
    let _ = env
        .dlrun(["submit", "--scheduler", "local", "--wait", "--json"])
        .arg(file)
        .run()
        .code(0);
    let arrived = words_of(env.jobs().join("argv"));
    let expected: Vec<Vec<u8>> = words.iter().map(|word| word.as_bytes().to_vec()).collect();
    assert_eq!(arrived[2..], expected, "the argument vector");
    let environ = words_of(env.jobs().join("environ"));
    for (name, value) in variables {
        let entry = format!("{name}={value}").into_bytes();
        assert!(environ.contains(&entry), "{name}={value:?} did not arrive");
    }
    assert!(!env.jobs().join("pwned").exists());
}

#[test]
fn every_word_and_value_reaches_the_training_byte_for_byte() {
    let env = TestEnv::new();
    let words: Vec<String> = ODD.iter().map(|&word| word.to_owned()).collect();
    let variables: Vec<_> = words
        .iter()
        .enumerate()
        .map(|(at, value)| (format!("ODD_{at}"), value.clone()))
        .collect();
    arrive(&env, &words, &variables);
}

/// Names that the batch script could have used for itself.
#[test]
fn variables_with_ordinary_names_are_not_taken_over_by_the_script() {
    let mut env = TestEnv::new();
    let names = [
        "name",
        "node",
        "code",
        "command",
        "launch",
        "child",
        "signal",
        "line",
        "marker",
        "file",
        "env_file",
        "init",
        "tenths",
        "interrupted",
        "exit_code",
        "dlrun",
        "mark",
        "finish",
        "PYTHONUNBUFFERED",
        "HOME",
        "TERM",
        "LANG",
        "LC_ALL",
        "HOSTNAME",
        "REPLY",
        "CDPATH",
        "TMOUT",
        "POSIXLY_CORRECT",
        "N",
        "a1",
        "__",
    ];
    let variables: Vec<_> = names
        .iter()
        .map(|&name| (name.to_owned(), format!("the user's {name}")))
        .collect();
    // HOME is how the test finds its processes.
    let variables: Vec<_> = variables
        .into_iter()
        .filter(|(name, _)| name != "HOME")
        .collect();
    arrive(&env, &[], &variables);
    // The same from the environment of the one who submits.
    for (name, value) in &variables {
        env.set(name, value);
    }
    arrive(&env, &[], &[]);
    let environ = words_of(env.jobs().join("environ"));
    for (name, value) in variables
        .iter()
        .filter(|(name, _)| name != "PYTHONUNBUFFERED")
    {
        assert!(
            environ.contains(&format!("{name}={value}").into_bytes()),
            "{name} did not arrive"
        );
    }
}

#[test]
fn path_of_a_job_may_lack_what_the_script_needs() {
    let env = TestEnv::new();
    let file = env.write(
        "job.toml",
        "[run]\ncommand = [\"/bin/sh\", \"-c\", \"echo $PATH\"]\nenv = { PATH = \"/no/such\" }\n",
    );
    let id = env.submit(&file);
    let _ = env.dlrun(["wait", &id]).run().code(0);
    let _ = env.dlrun(["logs", &id]).run().code(0).says("/no/such\n");
    assert!(
        env.run_dir(&id).join("0.0/end.json").exists(),
        "the end is marked"
    );
}

#[test]
fn env_file_is_read_literally_and_copied_nowhere() {
    let env = TestEnv::new();
    env.program("dump.sh", DUMP);
    let values = ODD.iter().filter(|value| !value.contains('\n'));
    let variables: Vec<(String, &str)> = values
        .enumerate()
        .map(|(at, value)| (format!("ODD_{at}"), *value))
        .collect();
    let lines: Vec<String> = variables
        .iter()
        .map(|(name, value)| format!("{name}={value}"))
        .collect();
    let text = format!(
        "# a comment\n\nSECRET=hunter2\n{}\nLAST=no line break",
        lines.join("\n")
    );
    let secrets = env.write("secrets.env", text);
    fs::set_permissions(&secrets, fs::Permissions::from_mode(0o600)).expect("ours");
    let file = env.write(
        "job.toml",
        "[run]\ncommand = [\"./dump.sh\"]\nenv_file = \"secrets.env\"\n",
    );
    let id = env.submit(&file);
    let _ = env.dlrun(["wait", &id]).run().code(0);
    let environ = words_of(env.jobs().join("environ"));
    for line in lines
        .iter()
        .map(String::as_str)
        .chain(["SECRET=hunter2", "LAST=no line break"])
    {
        assert!(
            environ.contains(&line.as_bytes().to_vec()),
            "{line:?} did not arrive"
        );
    }
    let grep = env
        .command("grep", ["-r", "hunter2"])
        .arg(env.state())
        .run();
    assert_eq!(grep.status.code(), Some(1), "{}", grep.text());
}

#[test]
fn env_file_that_went_bad_meanwhile_ends_the_job_with_a_reason() {
    let env = TestEnv::new();
    let secrets = env.write("secrets.env", "A=1\n");
    let mode =
        |mode: u32| fs::set_permissions(&secrets, fs::Permissions::from_mode(mode)).expect("ours");
    mode(0o600);
    let file = env.write(
        "job.toml",
        "[run]\ncommand = [\"true\"]\nenv_file = \"secrets.env\"\n",
    );
    let script = env
        .dlrun(["render", "--scheduler", "local"])
        .arg(&file)
        .run()
        .code(0)
        .text();
    let script = env.program("job.sh", &script);
    let run =
        |code: i32, words: &str| drop(env.command("bash", [&script]).run().code(code).warns(words));
    for line in ["no assignment", "=x", "1A=x", "A-B=x"] {
        fs::write(&secrets, format!("{line}\n")).expect("ours");
        run(
            78,
            "dlrun: error: the env_file has a line that is not NAME=value",
        );
    }
    mode(0o640);
    run(77, "dlrun: error: the env_file can be read by others");
    fs::remove_file(&secrets).expect("ours");
    run(66, "dlrun: error: the env_file cannot be read");
}

#[test]
fn programs_and_directories_may_have_any_name() {
    let env = TestEnv::new();
    let odd = "a b'c\"d$e`f\\g ü漢 (1) & ; #";
    let workdir = env.jobs().join(odd);
    fs::create_dir(&workdir).expect("ours");
    let program = env.program(
        &format!("{odd}/run {odd}.sh"),
        "#!/bin/sh\npwd; echo \"$0\"\n",
    );
    let text = format!(
        "[run]\ncommand = [{}]\nworkdir = {}\n",
        quoted(&format!("./run {odd}.sh")),
        quoted(odd)
    );
    let id = env.submit(&env.write(&format!("{odd}.toml"), text));
    let _ = env.dlrun(["wait", &id]).run().code(0);
    let done = env.dlrun(["logs", &id]).run().code(0);
    assert_eq!(
        done.text(),
        format!("{}\n./run {odd}.sh\n", workdir.display())
    );
    let text = format!(
        "[run]\nscript = {}\n",
        quoted(program.to_str().expect("text"))
    );
    let id = env.submit(&env.write("script.toml", text));
    let _ = env.dlrun(["wait", &id]).run().code(0);
}

#[test]
fn script_runs_by_its_own_interpreter_or_by_bash() {
    let env = TestEnv::new();
    env.program("own.sh", "#!/bin/cat\nI am printed\n");
    env.write("plain.sh", "echo ${BASH_VERSION:+bash}\n");
    for (script, output) in [
        ("own.sh", "#!/bin/cat\nI am printed\n"),
        ("plain.sh", "bash\n"),
    ] {
        let id = env.submit(&env.write("job.toml", format!("[run]\nscript = \"{script}\"\n")));
        let _ = env.dlrun(["wait", &id]).run().code(0);
        assert_eq!(env.dlrun(["logs", &id]).run().code(0).text(), output);
    }
}

#[test]
fn state_directory_that_cannot_be_used_is_told_with_the_next_step() {
    let env = TestEnv::new();
    let job = env.job("true", "");
    let try_in = |state: &Path, code: i32, words: &str| {
        let done = env
            .dlrun(["submit", "--scheduler", "local", "--state-dir"])
            .arg(state)
            .arg(&job)
            .run()
            .code(code);
        let _ = done.warns(words).warns("`--state-dir` names another");
        let list = || {
            env.dlrun(["list", "--json", "--state-dir"])
                .arg(state)
                .run()
        };
        if state == Path::new("/proc/self") {
            // It is a directory, in which nobody has submitted anything yet.
            assert_eq!(list().code(0).result()["runs"], serde_json::json!([]));
        } else {
            let _ = list().code(code).error();
        }
    };
    let file = env.write("file", "");
    try_in(&file, 73, "file");
    try_in(&file.join("below"), 73, "file/below");
    try_in(Path::new("/proc/self"), 73, "/proc/self");
    try_in(Path::new("/dev/null"), 73, "/dev/null");
    let _ = env
        .dlrun(["submit", "--scheduler", "local", "--state-dir", "/proc/x/y"])
        .arg(&job)
        .run()
        .code(73);
    let open = env.root().join("open");
    fs::create_dir(&open).expect("ours");
    fs::set_permissions(&open, fs::Permissions::from_mode(0o777)).expect("ours");
    try_in(&open, 77, "can be written by others");
    if getuid().is_root() {
        let foreign = env.root().join("foreign");
        fs::create_dir(&foreign).expect("ours");
        chown(&foreign, Some(12345), None).expect("root may");
        try_in(&foreign, 77, "belongs to user id 12345");
    } else {
        skip("only root can give a directory away");
    }
    assert!(env.processes().is_empty());
}

#[test]
fn place_of_the_output_that_cannot_be_written_is_told_and_leaves_nothing_behind() {
    let env = TestEnv::new();
    let file = env.write(
        "job.toml",
        "[run]\ncommand = [\"true\"]\nworkdir = \"/proc/self\"\n",
    );
    let done = env
        .dlrun(["submit", "--scheduler", "local"])
        .arg(file)
        .run();
    let code = done.status.code().expect("an exit code");
    assert!([66, 73, 77].contains(&code), "{code}: {}", done.stderr);
    let _ = done
        .warns("which cannot be written")
        .warns("set `run.workdir`");
    assert!(!env.state().exists());
}

#[test]
fn sbatch_that_hangs_is_given_up_and_the_run_is_kept() {
    let mut env = TestEnv::new();
    env.set("DLRUN_SLURM__TIMEOUT_SECONDS", "1");
    let _ = env.fake_slurm().hang();
    let file = env.job("true", "");
    let done = env
        .dlrun(["submit"])
        .arg(&file)
        .run()
        .code(75)
        .warns("gave no answer within 1 s");
    let _ = done
        .warns("the job may be queued all the same")
        .warns("look with `squeue --me` before submitting again");
    let runs = env.dlrun(["list", "--json"]).run().code(0).result()["runs"].clone();
    assert_eq!(
        (
            runs.as_array().map(Vec::len),
            &runs[0]["state"],
            &runs[0]["job_id"]
        ),
        (Some(1), &"unknown".into(), &serde_json::Value::Null)
    );
    let _ = env
        .dlrun(["check"])
        .arg(&file)
        .run()
        .code(69)
        .warns("slurm cannot be reached");
    let _ = env
        .dlrun(["cancel", "@1"])
        .run()
        .code(66)
        .warns("has no job id yet");
}

#[test]
fn sbatch_that_talks_nonsense_is_not_believed() {
    let env = TestEnv::new();
    for said in [
        "",
        "Submitted batch job\n",
        "garbage \u{1b}[31m\n",
        "-1\n",
        "99999999999999999999999\n",
    ] {
        let _ = env.fake_slurm().stdout(said);
        let error = env
            .dlrun(["submit", "--json"])
            .arg(env.job("true", ""))
            .run()
            .code(75)
            .error();
        let message = error["message"].as_str().expect("text");
        assert!(
            message.contains("printed no job id") && !message.contains('\u{1b}'),
            "{said:?}: {error}"
        );
    }
    // A site's greeting before the id, and a federation's cluster after it, are no nonsense.
    let _ = env
        .fake_slurm()
        .stdout("Welcome to HAWK!\n4711;hawk\n")
        .stderr("sbatch: lua: checked\n");
    let result = env
        .dlrun(["submit", "--json"])
        .arg(env.job("true", ""))
        .run()
        .code(0)
        .result();
    assert_eq!(result["job_id"], "4711");
}

#[test]
fn sbatch_that_is_missing_is_told_where_slurm_was_asked_for() {
    let env = TestEnv::new();
    let done = env
        .dlrun(["submit", "--scheduler", "slurm"])
        .arg(env.job("true", ""))
        .run()
        .code(69);
    let _ = done
        .warns("slurm is not installed here")
        .warns("`sbatch`")
        .warns("--scheduler local");
    assert_eq!(
        fs::read_dir(env.state().join("runs"))
            .expect("listed")
            .count(),
        0
    );
    let dir = env.root().join("bin").display().to_string();
    let sbatch = env.fake_slurm();
    // The directory of the setting comes before PATH.
    let done = env
        .dlrun(["submit"])
        .arg(env.job("true", ""))
        .env("DLRUN_SLURM__BIN_DIR", &dir);
    let _ = done.env("PATH", env.root().join("tools")).run().code(0);
    assert_eq!(sbatch.calls().len(), 1);
}

#[test]
fn squeue_that_talks_nonsense_changes_nothing() {
    let env = TestEnv::new();
    let _ = env.fake_slurm();
    let _ = env.dlrun(["submit"]).arg(env.job("true", "")).run().code(0);
    for said in [
        "garbage\n",
        "4711\n",
        "4711|\n",
        "4711|BRAND_NEW|x|y|z||\n",
        "|||||||||\n",
        "4712|COMPLETED|1|1|1|n1|\n",
    ] {
        let _ = env.fake("squeue").stdout(said);
        assert_eq!(env.state_of("@1"), "unknown", "{said:?}");
    }
    let text = env.dlrun(["show", "@1"]).run().code(0).text();
    assert!(!text.contains("completed"), "{text}");
}

#[test]
fn sbatch_variables_of_the_environment_are_warned_of() {
    let env = TestEnv::new();
    let sbatch = env.fake_slurm();
    let file = env.job("true", "");
    let submit = |name: &str, value: &str| {
        env.dlrun(["submit"])
            .arg(&file)
            .env(name, value)
            .run()
            .code(0)
    };
    let _ = submit("SBATCH_PARTITION", "debug").warns(
        "warning: SBATCH_PARTITION=debug of your environment holds wherever the job file says nothing",
    );
    assert_eq!(
        sbatch.calls()[0].variable("SBATCH_PARTITION"),
        Some("debug")
    );
    let _ = env
        .dlrun(["check"])
        .arg(&file)
        .env("SBATCH_QOS", "x")
        .run()
        .code(0)
        .warns("SBATCH_QOS=x");
    let _ = env
        .dlrun(["check", "--scheduler", "local"])
        .arg(&file)
        .env("SBATCH_QOS", "x")
        .run()
        .code(0)
        .never_says("SBATCH_QOS");
    let _ = submit("SBATCH_EXPORT", "NONE").warns("SBATCH_EXPORT=NONE");
    let _ = submit("SBATCH_OUTPUT", "x").never_says("SBATCH_OUTPUT");
}

#[test]
fn export_is_what_the_job_file_or_the_environment_says() {
    let env = TestEnv::new();
    let sbatch = env.fake_slurm();
    let mut calls = 0;
    let mut exported = |scheduler: &str, site: Option<&str>| {
        let submit = env
            .dlrun(["submit", "--json"])
            .arg(env.job("true", &format!("[scheduler]\n{scheduler}\n")));
        let submit = match site {
            Some(site) => submit.env("SBATCH_EXPORT", site),
            None => submit,
        };
        let _ = submit.run().code(0);
        let call = sbatch.calls().pop().expect("it was called");
        calls += 1;
        assert_eq!(sbatch.calls().len(), calls);
        let options: Vec<&String> = call
            .argv
            .iter()
            .filter(|word| word.starts_with("--export"))
            .collect();
        assert!(options.len() < 2, "{:?}", call.argv);
        assert_eq!(call.variable("SBATCH_EXPORT"), site);
        options
            .first()
            .map_or("", |option| &option["--export=".len()..])
            .to_owned()
    };
    assert_eq!(exported("", None), "");
    assert_eq!(exported("arguments = [\"--export=NONE\"]", None), "NONE");
    assert_eq!(
        exported("arguments = [\"--export=HOME,A=1\"]", None),
        "HOME,A=1"
    );
    assert_eq!(
        exported("directives = [\"--export=ALL,B=2\"]", None),
        "ALL,B=2"
    );
    assert_eq!(exported("", Some("PATH")), "", "Slurm reads it itself");
    assert_eq!(
        exported("arguments = [\"--export=ALL\"]", Some("NONE")),
        "ALL"
    );
}

#[test]
fn shape_of_the_job_that_submits_does_not_leak_into_the_new_one() {
    let env = TestEnv::new();
    let sbatch = env.fake_slurm();
    let conf = env.write("slurm.conf", "");
    let conf = conf.to_str().expect("a plain path");
    let inside = [
        ("SLURM_JOB_ID", "99"),
        ("SLURM_NTASKS", "64"),
        ("SLURM_CPUS_PER_TASK", "8"),
        ("SLURM_MEM_PER_NODE", "1"),
        ("SLURM_RESTART_COUNT", "3"),
        ("SLURM_CONF", conf),
        ("DLRUN_RUN_ID", "0000000000000001"),
        ("DLRUN_PLAN", "{}"),
        ("DLRUN_ATTEMPT", "3"),
        ("KEPT", "yes"),
    ];
    let mut submit = env.dlrun(["submit", "--json"]).arg(env.job("true", ""));
    for (name, value) in inside {
        submit = submit.env(name, value);
    }
    let id = submit.run().code(0).result()["run_id"].clone();
    assert_ne!(id, "0000000000000001");
    let call = sbatch.call();
    let left: Vec<&String> = call
        .environ
        .iter()
        .filter(|entry| entry.starts_with("SLURM_") || entry.starts_with("DLRUN_"))
        .collect();
    assert_eq!(left, [&format!("SLURM_CONF={conf}")]);
    assert_eq!(call.variable("KEPT"), Some("yes"));
}

/// A local job that is submitted from inside a Slurm job is no part of that.
#[test]
fn local_job_from_inside_another_job_has_its_own_identity() {
    let env = TestEnv::new();
    let file = env.job("true", "");
    let mut submit = env
        .dlrun(["submit", "--scheduler", "local", "--wait", "--json"])
        .arg(file);
    for (name, value) in [
        ("DLRUN_RUN_ID", "0000000000000001"),
        ("DLRUN_ATTEMPT", "3"),
        ("DLRUN_NODE", "n9"),
        ("SLURM_JOB_ID", "99"),
        ("SLURM_RESTART_COUNT", "2"),
        ("SLURM_ARRAY_TASK_ID", "5"),
        ("SLURMD_NODENAME", "n9"),
    ] {
        submit = submit.env(name, value);
    }
    let result = submit.run().code(0).result();
    assert_eq!(
        (&result["attempt"], &result["run"]["job_id"]),
        (&0.into(), &"L1".into())
    );
    let node = &result["nodes"][0];
    assert_eq!(
        (&node["element"], &node["attempt"], &node["job_id"]),
        (&0.into(), &0.into(), &"L1".into()),
        "{node}"
    );
    assert_ne!(node["node"], "n9");
}

/// Any text without NUL, as TOML can hold it.
fn any_text() -> impl Strategy<Value = String> {
    proptest::collection::vec(any::<char>().prop_filter("NUL", |c| *c != '\0'), 0..40)
        .prop_map(|chars| chars.into_iter().collect())
}

/// Random words and values through the rendered script, without dlrun in between: that takes the scheduler's time.
pub(crate) fn any_text_survives_the_script(cases: u32) {
    let env = TestEnv::new();
    env.program("dump.sh", DUMP);
    let strategy = (proptest::collection::vec(any_text(), 0..8), any_text());
    let config = Config {
        cases,
        failure_persistence: None,
        ..Config::default()
    };
    let result = TestRunner::new(config).run(&strategy, |(words, value)| {
        let toml = |text: &str| {
            let escaped: String = text
                .chars()
                .map(|c| format!("\\U{:08X}", u32::from(c)))
                .collect();
            format!("\"{escaped}\"")
        };
        let command: Vec<String> = std::iter::once("./dump.sh")
            .chain(words.iter().map(String::as_str))
            .map(toml)
            .collect();
        let file = env.write(
            "job.toml",
            format!(
                "[run]\ncommand = [{}]\nenv = {{ V = {} }}\n",
                command.join(", "),
                toml(&value)
            ),
        );
        let render = env
            .dlrun(["render", "--scheduler", "local"])
            .arg(file)
            .env("DLRUN_NODE__DLRUN", "/no/dlrun");
        let script = env.program("job.sh", &render.run().code(0).text());
        let _ = env.command("bash", [script]).run().code(0);
        let arrived = words_of(env.jobs().join("argv"));
        let expected: Vec<Vec<u8>> = words.iter().map(|word| word.as_bytes().to_vec()).collect();
        prop_assert_eq!(&arrived[2..], &expected[..]);
        let entry = format!("V={value}").into_bytes();
        prop_assert!(words_of(env.jobs().join("environ")).contains(&entry));
        Ok(())
    });
    result.unwrap_or_else(|error| panic!("{error}"));
}

#[test]
fn some_text_survives_the_script() {
    any_text_survives_the_script(20);
}
