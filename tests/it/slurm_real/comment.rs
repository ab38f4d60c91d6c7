//! The comment of a job, kept up to date by its own watcher, on a real cluster.

use super::cluster::{User, sh, until};

/// Epochs as Keras prints them, eight seconds each.
const EPOCHS: &str = r#"for e in 1 2 3 4 5 6 7 8 9 10; do echo "Epoch $e/10"; sleep 8; echo "47/47 - 8s - 170ms/step - loss: 0.2$e"; done"#;

#[test]
#[ignore = "needs slurmctld: run tests/run"]
fn comment_says_how_far_a_run_is_and_the_users_own_is_kept() {
    let mut user = User::new();
    let silent = user.submit(&user.job("silent", &sh("sleep 120"), ""));
    user.set("DLRUN_SLURM__COMMENT_SECONDS", "30");
    let plain = user.submit(&user.job("plain", &sh(EPOCHS), ""));
    let options = "[scheduler]\ndirectives = [\"--comment=my-paper\"]";
    let own = user.submit(&user.job("own", &sh(EPOCHS), options));
    let later = user.submit(&user.job("later", &sh(EPOCHS), ""));
    let comment = |job: &str| {
        let asked = ["--noheader", "--states=all", "--format=%k", "--jobs", job];
        user.run("squeue", &asked).ok().trim().to_owned()
    };
    let first = until("the comment", 90, || {
        Some(comment(&plain.job)).filter(|text| text.contains(" of 10 epochs"))
    });
    assert!(first.starts_with("dlrun: "), "{first}");
    // A comment that the user gives while it runs stays too.
    until("the other comment", 90, || {
        Some(()).filter(|()| comment(&later.job).starts_with("dlrun: "))
    });
    let update = ["update", &format!("JobId={}", later.job), "Comment=mine"];
    user.run("scontrol", &update).ok();
    let second = until("a change", 90, || {
        Some(comment(&plain.job)).filter(|text| *text != first)
    });
    assert!(second.starts_with("dlrun: "), "{second}");
    assert_eq!(user.wait(&plain.run), 0);
    assert_eq!(user.wait(&later.run), 0);
    assert_eq!(comment(&own.job), "my-paper");
    assert_eq!(comment(&later.job), "mine");
    assert!(!comment(&silent.job).contains("dlrun"));
    let _ = user.dlrun(&["cancel", &silent.run]);
    assert_eq!(user.wait(&own.run), 0);
}
