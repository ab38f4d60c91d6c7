//! `dlrun logs`.

use std::fs;

use crate::support::{TestEnv, wait_for};

#[test]
fn output_is_printed_byte_for_byte_from_any_directory() {
    let env = TestEnv::new();
    let id = env.submit(&env.job(
        r"printf 'one\ntwo \033[1mbold\n\377\000 last, without an end'; echo err >&2",
        "",
    ));
    let _ = env.dlrun(["wait", &id]).run().code(0);
    let kept = fs::read(env.jobs().join("job-L1.out")).expect("the output");
    let done = env.dlrun(["logs", &id]).current_dir("/").run().code(0);
    assert_eq!(done.stdout, kept);
    assert!(
        kept.starts_with(b"one\ntwo \x1b[1mbold\n\xff\0 last"),
        "{kept:?}"
    );
    assert_eq!(done.stderr, "");
}

#[test]
fn output_of_a_working_directory_with_two_dots_is_printed_once() {
    let env = TestEnv::new();
    let more = "workdir = \"..\"\noutput = \"dots.out\"";
    let id = env.submit(&env.job("echo hello", more));
    let _ = env.dlrun(["wait", &id]).run().code(0);
    let text = env.dlrun(["logs", &id]).run().code(0).text();
    assert_eq!(text, "hello\n");
}

#[test]
fn last_lines_are_counted_from_the_end() {
    let env = TestEnv::new();
    let id = env.submit(&env.job("seq 1 30000; printf 'no end'", ""));
    let _ = env.dlrun(["wait", &id]).run().code(0);
    let tail = |lines: &str| env.dlrun(["logs", "-n", lines, &id]).run().code(0).text();
    assert_eq!(tail("0"), "");
    assert_eq!(tail("1"), "no end");
    assert_eq!(tail("3"), "29999\n30000\nno end");
    assert_eq!(tail("40000").len(), tail("30001").len());
    assert_eq!(tail("20000").lines().count(), 20000);
    let json = env
        .dlrun(["logs", "--json", "-n", "2", &id])
        .run()
        .code(0)
        .result();
    assert_eq!(json["files"][0]["text"], "30000\nno end");
    assert_eq!(
        json["files"][0]["path"],
        env.jobs().join("job-L1.out").to_str().expect("text")
    );
}

#[test]
fn follow_goes_on_until_the_run_is_over() {
    let env = TestEnv::new();
    let id = env.submit(&env.job(
        "echo begun; while [ ! -e go ]; do sleep 0.05; done; echo ended",
        "",
    ));
    wait_for("the first line", || {
        env.dlrun(["logs", &id]).run().text().contains("begun")
    });
    let follower = env.dlrun(["logs", "-f", &id]).current_dir("/").start();
    env.write("go", "");
    let _ = follower.finish().code(0).says("begun\nended\n");
    let _ = env
        .dlrun(["logs", "-f", "-n", "1", &id])
        .run()
        .code(0)
        .says("ended\n")
        .never_says("begun");
}

#[test]
fn follow_waits_for_a_run_that_has_not_begun() {
    let env = TestEnv::new();
    let _ = env.fake_slurm();
    let now = std::time::UNIX_EPOCH.elapsed().expect("a clock").as_secs();
    let squeue = env
        .fake("squeue")
        .stdout(&format!("4711|PENDING|{now}|N/A|N/A||Resources\n"));
    let _ = env.dlrun(["submit"]).arg(env.job("true", "")).run().code(0);
    let error = env.dlrun(["logs", "--json", "@1"]).run().code(66).error();
    assert!(
        error["message"]
            .as_str()
            .expect("text")
            .contains("it is pending"),
        "{error}"
    );
    assert_eq!(error["hints"][0], "`dlrun logs -f` waits for it");
    let follower = env.dlrun(["logs", "-f"]).start();
    let asked = squeue.calls().len();
    wait_for("the follower to ask", || squeue.calls().len() > asked);
    env.write("job-4711.out", "here it is\n");
    let _ = env
        .fake("squeue")
        .stdout(&format!("4711|FAILED|{now}|{now}|{now}|n1|None\n"));
    let _ = follower.finish().code(0).says("here it is\n");
}

#[test]
fn follow_and_json_exclude_each_other() {
    let env = TestEnv::new();
    let error = env.dlrun(["logs", "-f", "--json"]).run().code(64).error();
    assert_eq!(error["kind"], "usage");
}

#[test]
fn node_without_output_is_told_with_those_that_have_some() {
    let env = TestEnv::new();
    let id = env.submit(&env.job("true", ""));
    let _ = env.dlrun(["wait", &id]).run().code(0);
    let host = env.show(&id)["nodes"][0]["node"]
        .as_str()
        .expect("a name")
        .to_owned();
    let done = env
        .dlrun(["logs", "--node", "n99", &id])
        .run()
        .code(66)
        .warns("no output of a node `n99`");
    let _ = done.warns(&format!("nodes with output so far: {host}"));
    let _ = env.dlrun(["logs", "--node", &host, &id]).run().code(0);
}

#[test]
fn reader_that_goes_away_is_no_error() {
    let env = TestEnv::new();
    let id = env.submit(&env.job("seq 1 200000", ""));
    let _ = env.dlrun(["wait", &id]).run().code(0);
    let command = format!(
        "{} logs {id} | head -n 1; echo \"${{PIPESTATUS[0]}}\"",
        crate::support::DLRUN
    );
    let done = env.command("bash", ["-c", &command]).run().code(0);
    assert_eq!((done.text().as_str(), done.stderr.as_str()), ("1\n0\n", ""));
}
