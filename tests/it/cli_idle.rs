//! A run of which nothing works, with a setting that ends it. It takes a minute and a half, nearly all of it asleep.

use std::time::Duration;

use crate::support::env::TestEnv;

/// Two jobs at once: the time is that of one.
#[test]
fn a_run_that_does_nothing_is_ended_whatever_its_exit_code_and_one_that_works_is_not() {
    let env = TestEnv::new();
    let submit = |name: &str, command: &str| {
        let file = env.job_called(name, command, "");
        let submitted = env
            .dlrun(["submit", "--json", "--scheduler", "local"])
            .env("DLRUN_IDLE__CANCEL_AFTER_MINUTES", "1")
            .arg(&file)
            .run();
        let id = submitted.code(0).result()["run_id"]
            .as_str()
            .map(str::to_owned);
        id.expect("an id")
    };
    // It takes being ended for a success.
    let sleeps = submit("sleeps", "trap 'exit 0' TERM; sleep 600 & wait");
    let works = submit(
        "works",
        "until [ -e go ]; do head -c 30000000 /dev/zero | wc -c >/dev/null; sleep 0.1; done",
    );
    let is_over = |id: &str| env.show(id)["status"]["ended_at_ms"].is_u64();
    for _ in 0..100 {
        std::thread::sleep(Duration::from_secs(2));
        if is_over(&sleeps) {
            break;
        }
    }
    let _ = env.dlrun(["wait", &sleeps]).run().code(15);
    let shown = env.show(&sleeps)["status"].clone();
    assert_eq!(shown["state"], "cancelled", "{shown}");
    assert_eq!(shown["cause"]["kind"], "idle", "{shown}");
    let text = shown["cause"]["text"].as_str().expect("a text");
    assert!(
        text.ends_with("ended by dlrun (`idle.cancel_after_minutes = 1`)"),
        "{text}"
    );
    env.write("go", "");
    let _ = env.dlrun(["wait", &works]).run().code(0);
    let idle = env.dlrun(["list", "--idle"]).run().code(0);
    let text = idle.text();
    assert!(text.contains("sleeps") && !text.contains("works"), "{text}");
    assert!(text.contains("this run: 0.00 GPU hours and 0.0"), "{text}");
}
