//! `dlrun completions`.

use crate::support::TestEnv;

#[test]
fn each_shell_gets_a_script_that_knows_the_verbs() {
    let env = TestEnv::new();
    for shell in ["bash", "zsh", "fish", "elvish", "powershell"] {
        let script = env.dlrun(["completions", shell]).run().code(0).text();
        for word in ["submit", "passthrough", "state-dir", "needs-fakeroot"] {
            assert!(script.contains(word), "{shell}: {word}");
        }
        let result = env
            .dlrun(["completions", shell, "--json"])
            .run()
            .code(0)
            .result();
        assert_eq!(
            (&result["shell"], &result["script"]),
            (&shell.into(), &script.into())
        );
    }
}

#[test]
fn bash_completes_verbs_and_hides_inner_ones() {
    let env = TestEnv::new();
    let script = env.write(
        "dlrun.bash",
        env.dlrun(["completions", "bash"]).run().code(0).text(),
    );
    let ask = r#". "$0"; COMP_WORDS=(dlrun s); COMP_CWORD=1; _dlrun dlrun s dlrun; echo "${COMPREPLY[*]}""#;
    let _ = env
        .command("bash", ["-c", ask])
        .arg(&script)
        .run()
        .code(0)
        .says("submit show scale sweep\n");
    // Runs too, and nothing where there are none.
    let dlrun = crate::support::DLRUN;
    let runs = format!(
        r#". "$0"; COMP_WORDS=({dlrun} logs tr); COMP_CWORD=2; _dlrun_with_words dlrun tr logs; echo "${{COMPREPLY[*]}}""#
    );
    let _ = env
        .command("bash", ["-c", &runs])
        .arg(&script)
        .run()
        .code(0)
        .never_says("train");
    let _ = env.submit(&env.job_called("train", "true", ""));
    let _ = env
        .command("bash", ["-c", &runs])
        .arg(&script)
        .run()
        .code(0)
        .says("train\n");
    // What a name says is not run, whoever lists it.
    let other = env.fake("other").stdout("tr$(touch ran)\ntr-ue\n");
    let runs = runs.replace(dlrun, "other");
    let done = env
        .command("bash", ["-c", &runs])
        .arg(&script)
        .run()
        .code(0);
    let _ = done.says("tr$(touch ran) tr-ue\n");
    assert_eq!(other.call().argv, ["words", "runs"]);
    assert!(!env.jobs().join("ran").exists());
    // A verb that takes a file leaves an empty word to the shell's own files, and a value of an option to the option.
    for (words, expected) in [("check ''", "[]\n"), ("check --scheduler ''", "slurm")] {
        let ask = format!(
            r#". "$0"; COMP_WORDS=(dlrun {words}); COMP_CWORD=$((${{#COMP_WORDS[@]}} - 1))
            _dlrun_with_words dlrun '' "${{COMP_WORDS[COMP_CWORD-1]}}"; echo "[${{COMPREPLY[*]}}]""#
        );
        let _ = env
            .command("bash", ["-c", &ask])
            .arg(&script)
            .run()
            .code(0)
            .says(expected);
    }
    for kind in ["runs", "images"] {
        let _ = env.dlrun(["words", kind]).run().code(0);
    }
    let _ = env
        .dlrun(["words", "keys"])
        .run()
        .code(0)
        .says("resources.walltime=\n");
    for shell in ["bash", "zsh", "fish", "elvish", "powershell"] {
        let _ = env
            .dlrun(["completions", shell])
            .run()
            .code(0)
            .never_says("exec-watch")
            .never_says("local-run");
    }
}
