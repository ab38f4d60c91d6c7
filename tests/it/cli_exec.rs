//! `dlrun exec` as a command; what its processes do stands in `exec`.

use crate::support::TestEnv;

#[test]
fn command_gives_its_exit_code() {
    let env = TestEnv::new();
    let out = env.jobs().join("out");
    for (script, code) in [
        ("exit 0", 0),
        ("exit 7", 7),
        ("exit 255", 255),
        ("kill -TERM $$", 143),
        ("kill -KILL $$", 137),
    ] {
        let _ = env
            .dlrun(["exec", "--", "sh", "-c", script])
            .run_to(&out)
            .code(code);
    }
    env.wait_quiet();
}

#[test]
fn command_that_cannot_start_has_the_shells_codes() {
    let env = TestEnv::new();
    env.write("plain.txt", "");
    for (command, code) in [
        ("no-such-program", 127),
        ("./gone", 127),
        ("./plain.txt", 126),
        ("/", 126),
    ] {
        let done = env.dlrun(["exec", "--", command]).run().code(code);
        let _ = done.warns("error: ");
        let envelope = env
            .dlrun(["exec", "--json", "--", command])
            .run()
            .code(code)
            .envelope();
        assert_eq!(
            (&envelope["ok"], &envelope["operation"]),
            (&false.into(), &"exec".into())
        );
        assert_eq!(envelope["error"]["kind"], "missing");
    }
}

#[test]
fn words_after_the_dashes_are_the_commands_own() {
    let env = TestEnv::new();
    let words = ["--json", "--help", "", "a b", "ä\n", "-v", "--"];
    let done = env.dlrun(["exec", "--", "printf", "[%s]"]).args(words);
    assert_eq!(
        done.run().code(0).text(),
        "[--json][--help][][a b][ä\n][-v][--]"
    );
}

#[test]
fn without_a_command_the_next_step_is_told() {
    let env = TestEnv::new();
    let error = env.dlrun(["exec", "--json"]).run().code(64).error();
    assert_eq!(
        (&error["kind"], &error["hints"][0]),
        (
            &"usage".into(),
            &"write: dlrun exec -- python train.py".into()
        )
    );
    let _ = env.dlrun(["exec", "--"]).run().code(64);
    let _ = env.dlrun(["exec", "python"]).run().code(64);
}

#[test]
fn outside_a_job_no_id_is_made() {
    let env = TestEnv::new();
    let error = env
        .dlrun(["exec", "--mint", "--json"])
        .run()
        .code(73)
        .error();
    assert_eq!(error["message"], "the environment holds no plan");
    assert!(!env.state().exists());
}
