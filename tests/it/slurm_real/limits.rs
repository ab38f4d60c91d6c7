//! Time limits that are raised while a job runs, on a real cluster: operators may do that, other users may not.

use serde_json::Value;

use super::cluster::{User, sh};

/// Epochs as Keras prints them, six seconds each.
const EPOCHS: &str = r#"for e in $(seq 40); do echo "Epoch $e/40"; sleep 6; echo "47/47 - 6s - 170ms/step - loss: 0.2"; done"#;

fn asking(name: &str) -> User {
    let mut user = User::named(name);
    user.set("DLRUN_LIMITS__EXTEND_UP_TO_HOURS", "1");
    user
}

/// As [`User::wait`], for longer.
fn wait(user: &User, run: &str) -> i32 {
    let mut command = user.command_within(500, user.binary());
    let status = command.args(["wait", run]).status();
    status.expect("it runs").code().unwrap_or(-1)
}

/// What was noted of the time limit.
fn events(shown: &Value) -> Vec<(String, String)> {
    let events = shown["nodes"][0]["events"].as_array().expect("a list");
    let text = |event: &Value, key: &str| event[key].as_str().unwrap_or_default().to_owned();
    let all = events
        .iter()
        .map(|event| (text(event, "kind"), text(event, "detail")));
    all.filter(|(kind, _)| kind.starts_with("limit_")).collect()
}

#[test]
#[ignore = "needs slurmctld: run tests/run"]
fn limit_is_raised_for_an_operator_and_a_refusal_is_noted_once() {
    let (operator, user) = (
        asking("root"),
        asking(&super::cluster::wanted("DLRUN_TEST_USER")),
    );
    // Minutes long, so on a node that no other test wants for itself.
    let plain = "nodelist = \"n1\"\nwalltime = \"3m\"\nwalltime_up_to = \"2h\"\n";
    let resume = "[resume]\ncheckpoints = [\"ckpt/*\"]\nlead = \"30s\"";
    let saves = format!("mkdir -p ckpt; trap 'echo 1 > ckpt/1' USR1; {EPOCHS}");
    let array = format!("{plain}array = \"1-2\"\n{resume}");
    let low = "nodelist = \"n1\"\nwalltime = \"3m\"\nwalltime_up_to = \"4m\"\n";
    let raised = operator.submit(&operator.job("raised", &sh(EPOCHS), plain));
    let elements = operator.submit(&operator.job("elements", &sh(&saves), &array));
    let low = operator.submit(&operator.job("low", &sh(&EPOCHS.replace("40", "60")), low));
    let refused = user.submit(&user.job("refused", &sh(EPOCHS), plain));
    assert_eq!(wait(&user, &refused.run), 11, "{}", refused.text());
    let noted = events(&user.show(&refused.run));
    assert_eq!(noted.len(), 1, "{noted:?}");
    assert_eq!(noted[0].0, "limit_kept");
    assert!(noted[0].1.contains("in place of 3m"), "{noted:?}");
    assert!(noted[0].1.contains("denied"), "{noted:?}");
    let shown = operator.show(&raised.run);
    let limit_ms = shown["progress"]["time_limit_ms"].as_u64();
    let began_ms = shown["status"]["started_at_ms"].as_u64().expect("it runs");
    assert!(
        limit_ms.is_some_and(|ms| ms > began_ms + 400_000),
        "{shown:#}"
    );
    assert_eq!(wait(&operator, &raised.run), 0, "{}", raised.text());
    let noted = events(&operator.show(&raised.run));
    assert!(
        noted.len() == 1 && noted[0].0 == "limit_raised",
        "{noted:?}"
    );
    assert_eq!(wait(&operator, &low.run), 11, "{}", low.text());
    let noted = events(&operator.show(&low.run));
    assert!(noted[0].1.contains("may ask for is 4m"), "{noted:?}");
    // Each element by itself, and its supervisor hears of it: it is not asked to save.
    assert_eq!(wait(&operator, &elements.run), 0);
    for index in ["1", "2"] {
        let asked = ["--json", "show", &elements.run, "--element", index];
        let shown = operator.dlrun(&asked).result();
        assert_eq!(
            shown["attempts"].as_array().map(Vec::len),
            Some(1),
            "{shown:#}"
        );
        assert_eq!(events(&shown)[0].0, "limit_raised", "{shown:#}");
    }
}
