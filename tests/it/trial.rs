//! `framework.trial`: the quickest way is found before the run, recorded, and taken by later starts and the model.

use serde_json::Value;

use crate::support::TestEnv;

/// A program whose steps take as long as its compiler and threads make them; it says what it was started with.
const PROGRAM: &str = r#"
echo "${DLRUN_TRIAL:-run} ${DLRUN_COMPILER:-} ${OMP_NUM_THREADS:-}" >> begun
case ${DLRUN_COMPILER:-} in
inductor) pause=0.01; [ "${WORSE:-}" ] && [ -e once ] && pause=0.09; touch once; sleep 0.4 ;;
*) pause=0.04 ;;
esac
for step in $(seq 45); do
    sleep $pause
    echo "Epoch [1/1], Step [$step/45], Loss: 0.5"
done"#;

fn job(env: &TestEnv, more: &str) -> std::path::PathBuf {
    env.job(
        PROGRAM,
        &format!("[framework]\nname = \"pytorch\"\ncompiler = \"auto\"\ntrial = true\n{more}"),
    )
}

fn finished(env: &TestEnv, job: &std::path::Path) -> (String, Value) {
    let id = env.submit(job);
    let _ = env.dlrun(["wait", &id]).run().code(0);
    let shown = env.show(&id);
    (id, shown)
}

fn begun(env: &TestEnv) -> Vec<String> {
    let text = env.wait_file("begun");
    text.lines().map(|line| line.trim().to_owned()).collect()
}

#[test]
fn the_quickest_way_is_taken_and_the_record_says_so() {
    let env = TestEnv::new();
    let (id, shown) = finished(&env, &job(&env, "[resources]\ncpus_per_task = 1\n"));
    let trial = &shown["nodes"][0]["trial"];
    assert_eq!(
        (&trial["compiler"], &trial["unit"], &trial["chosen"]),
        (&"inductor".into(), &"step".into(), &1.into()),
        "{trial}"
    );
    let begun = begun(&env);
    let expected = [
        "1 none",
        "1 inductor",
        "1 inductor",
        "1 none",
        "run inductor",
    ];
    assert_eq!(begun, expected);
    let first = &trial["ways"][1]["passes"][0];
    assert!(
        first["first_seconds"].as_f64().expect("seen") > 0.4,
        "{trial}"
    );
    let text = env.dlrun(["show", &id]).run().code(0).text();
    assert!(text.contains("inductor takes"), "{text}");
    // A start after the first one gets the same way, and tries nothing.
    let plan = std::fs::read_to_string(env.run_dir(&id).join("plan.json")).expect("a plan");
    let again = env
        .dlrun(["exec", "--", "sh", "-c", "echo got $DLRUN_COMPILER"])
        .env("DLRUN_RUN_ID", &id)
        .env("DLRUN_STATE_DIR", env.state())
        .env("DLRUN_ATTEMPT", "1")
        .env("DLRUN_PLAN", plan);
    assert!(again.run().code(0).text().contains("got inductor"));
}

#[test]
fn a_way_that_is_not_surely_quicker_is_not_taken() {
    let env = TestEnv::new();
    let more = "[resources]\ncpus_per_task = 1\n[run.env]\nWORSE = \"1\"\n";
    let (_, shown) = finished(&env, &job(&env, more));
    let trial = &shown["nodes"][0]["trial"];
    assert_eq!(
        (&trial["compiler"], &trial["chosen"]),
        (&"none".into(), &0.into()),
        "{trial}"
    );
    assert_eq!(begun(&env).last().map(String::as_str), Some("run none"));
}

#[test]
fn what_cannot_be_tried_is_said_and_the_job_runs() {
    let env = TestEnv::new();
    let alone = "[framework]\nname = \"pytorch\"\ncompiler = \"none\"\ntrial = true\n[resources]\ncpus_per_task = 1\n";
    let said = env
        .dlrun(["plan"])
        .arg(env.job("true", alone))
        .run()
        .code(0)
        .text();
    assert!(said.contains("there is one way only"), "{said}");
    let each = "[run]\ncommand = [\"true\"]\nlauncher = \"each\"\n[framework]\nname = \"pytorch\"\ncompiler = \"auto\"\ntrial = true\n";
    let said = env
        .dlrun(["plan"])
        .arg(env.write("each.toml", each))
        .run()
        .code(65)
        .stderr;
    assert!(said.contains("launcher = \"each\" starts more"), "{said}");
    let off = "[framework]\nname = \"pytorch\"\ncompiler = \"auto\"\ntrial = true\n";
    let said = env
        .dlrun(["plan"])
        .arg(env.job("true", off))
        .env("DLRUN_TRIAL__MINUTES", "0")
        .run()
        .code(0)
        .text();
    assert!(said.contains("trial.minutes = 0"), "{said}");
}
