//! `[build]`: source that is fetched and built once, inside the job.

use std::fs;
use std::os::unix::fs::symlink;
use std::path::{Path, PathBuf};

use crate::rules::configure;
use crate::support::{TestEnv, wait_for};

/// A private place with git in it.
fn with_git() -> TestEnv {
    let env = TestEnv::new();
    let found = std::env::var_os("PATH").and_then(|path| {
        std::env::split_paths(&path)
            .map(|dir| dir.join("git"))
            .find(|git| git.is_file())
    });
    symlink(
        found.expect("the tests need git"),
        env.root().join("bin/git"),
    )
    .expect("ours");
    env
}

fn git(env: &TestEnv, args: &[&str]) -> String {
    let identity = [
        "-c",
        "user.name=a",
        "-c",
        "user.email=a@example.org",
        "-C",
        "origin.git",
    ];
    env.command("git", identity.iter().chain(args))
        .run()
        .code(0)
        .text()
        .trim()
        .to_owned()
}

/// A repository `origin.git` of two commits; gives them.
fn repository(env: &TestEnv) -> [String; 2] {
    fs::create_dir(env.jobs().join("origin.git")).expect("ours");
    git(env, &["init", "--quiet"]);
    ["one", "two"].map(|text| {
        env.write("origin.git/file", format!("{text}\n"));
        git(env, &["add", "file"]);
        git(env, &["commit", "--quiet", "-m", text]);
        git(env, &["rev-parse", "HEAD"])
    })
}

/// Submits to this machine, waits, and gives the code of `wait` and the job's output.
fn ran(env: &TestEnv, build: &str, script: &str) -> (i32, String) {
    let id = env.submit(&env.job(script, &format!("[build]\n{build}")));
    let code = env
        .dlrun(["wait", &id])
        .run()
        .exit_code()
        .expect("no signal");
    let output = env.show(&id)["run"]["output"]
        .as_str()
        .expect("a path")
        .to_owned();
    (code, fs::read_to_string(output).expect("it has output"))
}

fn builds(env: &TestEnv) -> Vec<PathBuf> {
    let Ok(entries) = fs::read_dir(env.state().join("builds")) else {
        return Vec::new();
    };
    let mut paths: Vec<_> = entries
        .map(|entry| entry.expect("an entry").path())
        .collect();
    paths.sort();
    paths
}

#[test]
fn repository_is_built_once_at_its_commit_and_the_command_finds_it() {
    let env = with_git();
    let [first, _] = repository(&env);
    let command =
        "echo {{parallelism}} \\\"it's $(pwd)\\\" >> log; echo build >> $PWD_OF_JOB/builds";
    let build = format!(
        "source = \"origin.git\"\nchecksum = \"{first}\"\nparallelism = 3\ncommand = \"{command}\"\n"
    );
    let mut env = env;
    env.set("PWD_OF_JOB", env.jobs());
    let script = "cat \"$DLRUN_BUILD_DIR/file\" \"$DLRUN_BUILD_DIR/log\" > seen; pwd > where";
    for expected in ["dlrun: building in ", "dlrun: built already: "] {
        let (code, output) = ran(&env, &build, script);
        assert_eq!(code, 0, "{output}");
        assert!(output.contains(expected), "{output}");
    }
    let [dir, done] = &builds(&env)[..] else {
        panic!("{:?}", builds(&env))
    };
    assert_eq!(
        done.display().to_string(),
        format!("{}.done", dir.display())
    );
    assert_eq!(
        env.wait_file("seen"),
        format!("one\n3 it's {}\n", dir.display())
    );
    assert_eq!(
        env.wait_file("where"),
        format!("{}\n", env.jobs().display())
    );
    assert_eq!(env.wait_file("builds"), "build\n");
    env.wait_quiet();
}

#[test]
fn two_jobs_at_the_same_time_build_once() {
    let mut env = TestEnv::new();
    env.set("PWD_OF_JOB", env.jobs());
    env.write("source/file", "x\n");
    let command = "echo build >> $PWD_OF_JOB/builds; while [ ! -e $PWD_OF_JOB/go ]; do sleep 0.02; done; echo y >> file";
    let file = env.job(
        "cat \"$DLRUN_BUILD_DIR/file\"",
        &format!("[build]\nsource = \"source\"\ncommand = \"{command}\"\n"),
    );
    let script = env
        .dlrun(["render", "--scheduler", "local"])
        .arg(&file)
        .run()
        .code(0)
        .text();
    let script = env.write("job.sh", script);
    let (first, second) = (env.jobs().join("first.out"), env.jobs().join("second.out"));
    let jobs = [&first, &second].map(|output| env.command("bash", [&script]).start_to(output));
    let read = |path: &Path| fs::read_to_string(path).unwrap_or_default();
    wait_for("one to build and one to wait", || {
        let both = read(&first) + &read(&second);
        both.contains("dlrun: building in ")
            && both.contains("dlrun: another job builds this; waiting for ")
    });
    env.write("go", "");
    for job in jobs {
        let _ = job.finish().code(0);
    }
    assert_eq!(env.wait_file("builds"), "build\n");
    for output in [&first, &second] {
        assert!(read(output).ends_with("x\ny\n"), "{}", read(output));
    }
    assert_eq!(builds(&env).len(), 2, "no lock is left: {:?}", builds(&env));
}

#[test]
fn source_that_changed_after_it_was_built_is_told() {
    let env = TestEnv::new();
    let source = env.write("source/file", "x\n");
    let read = "cat \"$DLRUN_BUILD_DIR/file\"";
    for change in [false, false, true] {
        if change {
            let later = std::time::SystemTime::now() + std::time::Duration::from_secs(60);
            let file = fs::File::options().write(true).open(&source).expect("ours");
            file.set_modified(later).expect("ours");
        }
        let (code, output) = ran(&env, "source = \"source\"\n", read);
        assert_eq!(code, 0, "{output}");
        assert_eq!(
            output.contains("was changed after it was built; remove "),
            change,
            "{output}"
        );
    }
}

#[test]
fn build_that_fails_ends_the_job_and_the_next_begins_anew() {
    let env = TestEnv::new();
    env.write("source/file", "x\n");
    let build = "source = \"source\"\ncommand = \"echo y >> file; exit 9\"\n";
    for _ in 0..2 {
        let (code, output) = ran(&env, build, "touch command");
        assert_eq!(code, 10, "{output}");
        assert!(
            output
                .contains("dlrun: error: the build failed with exit code 9; what it left lies in "),
            "{output}"
        );
        let [dir] = &builds(&env)[..] else {
            panic!("{:?}", builds(&env))
        };
        assert_eq!(
            fs::read_to_string(dir.join("file")).expect("it is left"),
            "x\ny\n"
        );
    }
    assert!(!env.jobs().join("command").exists());
    env.wait_quiet();
}

#[test]
fn cancelled_build_leaves_no_lock() {
    let env = TestEnv::new();
    env.write("source/file", "x\n");
    configure(
        &env,
        "[[rules]]\nname = \"r\"\nset = { epilogue = [[\"touch\", \"after\"]] }\n",
    );
    let build = "[build]\nsource = \"source\"\ncommand = \"echo > ready; exec sleep 600\"\n";
    let id = env.submit(&env.job("touch command", build));
    wait_for("the build to begin", || {
        builds(&env).iter().any(|path| path.join("ready").exists())
    });
    let _ = env.dlrun(["cancel", &id]).run().code(0);
    let _ = env.dlrun(["wait", &id]).run().code(15);
    env.wait_quiet();
    let names: Vec<_> = builds(&env)
        .into_iter()
        .filter(|path| path.extension().is_some())
        .collect();
    assert_eq!(names, [] as [PathBuf; 0]);
    assert!(env.jobs().join("after").exists() && !env.jobs().join("command").exists());
}

#[test]
fn checksums_are_held_against_what_came() {
    let env = TestEnv::new();
    env.write("app.txt", "content\n");
    let sum = "434728a410a78f56fc1b5899c3593436e61ab0c731e9072d95e96db290205e53";
    let script = "cat \"$DLRUN_BUILD_DIR/app.txt\" > seen";
    let (code, output) = ran(
        &env,
        &format!("source = \"app.txt\"\nchecksum = \"sha256:{sum}\"\n"),
        script,
    );
    assert_eq!(code, 0, "{output}");
    assert_eq!(env.wait_file("seen"), "content\n");
    let wrong = sum.replace('4', "5");
    let (code, output) = ran(
        &env,
        &format!("source = \"app.txt\"\nchecksum = \"{wrong}\"\n"),
        script,
    );
    assert_eq!(code, 10);
    assert!(
        output.contains(&format!("the source's SHA-256 is {sum}, not {wrong}")),
        "{output}"
    );
}

#[test]
fn archives_are_unpacked() {
    let env = TestEnv::new();
    env.write("app/main.txt", "in the archive\n");
    let _ = env
        .command("/bin/tar", ["-cf", "app.tar", "app"])
        .run()
        .code(0);
    let (code, output) = ran(
        &env,
        "source = \"app.tar\"\ncommand = \"cp app/main.txt built\"\n",
        "cat \"$DLRUN_BUILD_DIR/built\" > seen",
    );
    assert_eq!(code, 0, "{output}");
    assert_eq!(env.wait_file("seen"), "in the archive\n");
}

#[test]
fn lock_of_a_job_that_is_no_more_is_taken_away() {
    let env = TestEnv::new();
    env.write("source/file", "x\n");
    let file = env.job("true", "[build]\nsource = \"source\"\n");
    let script = env
        .dlrun(["render", "--scheduler", "local"])
        .arg(&file)
        .run()
        .code(0)
        .text();
    assert!(script.contains("-ge 120 ]"), "two minutes");
    let script = env.write("job.sh", script.replace("-ge 120 ]", "-ge 1 ]"));
    let dir = env
        .dlrun(["plan", "--json", "--scheduler", "local"])
        .arg(&file)
        .run()
        .code(0)
        .result();
    let dir = PathBuf::from(dir["plan"]["build"]["dir"].as_str().expect("a path"));
    let lock = dir.with_extension("lock");
    fs::create_dir_all(&lock)
        .and_then(|()| fs::write(lock.join("owner"), "gone n1 7\n"))
        .expect("ours");
    let done = env.command("bash", [&script]).run().code(0);
    let _ = done
        .warns("the job that built this no longer exists: gone n1 7")
        .warns("dlrun: fetching ");
    assert!(dir.join("file").exists() && !lock.exists());
}

#[test]
fn what_a_source_needs_is_refused_where_it_is_missing() {
    let env = TestEnv::new();
    let (code, output) = ran(
        &env,
        "source = \"https://example.org/app.git\"\n",
        "touch command",
    );
    assert_eq!(code, 10);
    assert!(output.contains("git is not found on "), "{output}");
    let (code, output) = ran(
        &env,
        "source = \"https://example.org/app.tgz\"\n",
        "touch command",
    );
    assert_eq!(code, 10);
    assert!(
        output.contains("neither curl nor wget is found on "),
        "{output}"
    );
    let (_, output) = ran(
        &env,
        "source = \"not here\"\n"
            .replace(' ', "-")
            .replace("-=-", " = ")
            .as_str(),
        "true",
    );
    assert!(output.contains("the source does not exist on "), "{output}");
    assert!(builds(&env).is_empty(), "{:?}", builds(&env));
}

#[test]
fn downloads_check_certificates_and_stay_with_https() {
    let env = TestEnv::new();
    let curl = env.fake("curl");
    let (code, output) = ran(
        &env,
        "source = \"https://example.org/a/app%20x.txt?raw=1\"\n",
        "true",
    );
    assert_eq!(code, 0, "{output}");
    let argv = curl.call().argv;
    assert!(
        argv.windows(4)
            .any(|words| words == ["--proto", "=https", "--proto-redir", "=https"]),
        "{argv:?}"
    );
    assert!(!argv.iter().any(|word| word == "--insecure" || word == "-k"));
    assert_eq!(
        argv.last().map(String::as_str),
        Some("https://example.org/a/app%20x.txt?raw=1")
    );
    assert!(
        argv.iter().any(|word| word.ends_with("/source")),
        "a name with % is not used: {argv:?}"
    );
}

#[test]
fn build_runs_in_the_container_of_the_job() {
    let env = TestEnv::new();
    env.write("source/file", "x\n");
    fs::create_dir_all(env.jobs().join("image.sif/.singularity.d")).expect("a sandbox");
    let runtime = "#!/bin/bash\n[ \"$1\" = exec ] || { echo apptainer version 1.4.5; exit; }\necho \"$APPTAINER_BINDPATH\" >> bound\nprintf '%s\\n' \"$@\" >> calls\nwhile [ \"$1\" != \"${IMAGE}\" ]; do shift; done; shift; exec \"$@\"\n";
    let fake = env.program("apptainer", runtime);
    fs::rename(fake, env.root().join("bin/apptainer")).expect("ours");
    let mut env = env;
    env.set("IMAGE", env.jobs().join("image.sif"));
    let more = "[image]\npath = \"image.sif\"\n[build]\nsource = \"source\"\ncommand = \"echo it\\\\'s built > made\"\n";
    let id = env.submit(&env.job("cat \"$DLRUN_BUILD_DIR/made\" > seen", more));
    let _ = env.dlrun(["wait", &id]).run().code(0);
    assert_eq!(env.wait_file("seen"), "it's built\n");
    let dir = builds(&env)[0].display().to_string();
    // The build runs in the directory, the command in the job's.
    let in_build =
        fs::read_to_string(format!("{dir}/calls")).expect("the runtime was started there");
    let image = env.jobs().join("image.sif").display().to_string();
    assert!(
        in_build.starts_with("exec\n") && in_build.contains(&format!("\n--cwd\n{dir}\n")),
        "{in_build}"
    );
    assert!(
        in_build.contains(&format!("\n{image}\n/bin/bash\n-c\n")),
        "{in_build}"
    );
    assert_eq!(env.wait_file("bound"), format!("{dir}\n"));
}

#[test]
fn sources_that_cannot_be_had_are_refused_before_anything_is_queued() {
    let env = TestEnv::new();
    let commit = "a".repeat(40);
    for (build, part) in [
        (
            "source = \"ftp://example.org/x\"".to_owned(),
            "`ftp://` is not fetched",
        ),
        (
            "source = \"http://example.org/x.tgz\"".to_owned(),
            "can be changed on its way",
        ),
        (
            format!("source = \"https://example.org/x.tgz\"\nchecksum = \"{commit}\""),
            "is a commit, but",
        ),
    ] {
        let file = env.job("true", &format!("[build]\n{build}\n"));
        let done = env
            .dlrun(["check", "--scheduler", "local"])
            .arg(&file)
            .run()
            .code(65);
        let _ = done.warns("job.toml:4:").warns(part);
    }
    let file = env.job(
        "true",
        "[build]\nsource = \"app.git\"\ncommand = \"make -j{{parallelism}}\"\n",
    );
    let done = env
        .dlrun(["plan", "--scheduler", "local"])
        .arg(&file)
        .run()
        .code(0);
    let _ = done
        .says("jobs/app.git")
        .says("a git repository, as it is when it is first built")
        .says("/builds/");
}
