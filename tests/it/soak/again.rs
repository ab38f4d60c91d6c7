//! The same again and again until something gives.

use std::fs;

use nix::sys::signal::{Signal, kill};

use super::count;
use crate::support::TestEnv;

/// Numbers that are different every time, and the same in every run of the tests.
fn spread(number: usize, below: u64) -> u64 {
    (number as u64)
        .wrapping_mul(0x9e37_79b9_7f4a_7c15)
        .rotate_left(23)
        % below
}

#[test]
#[ignore = "soak tier"]
fn random_text_survives_the_script() {
    let cases = u32::try_from(count(2000)).expect("a small number");
    crate::bad_input::any_text_survives_the_script(cases);
}

#[test]
#[ignore = "soak tier"]
fn watcher_that_is_killed_again_and_again_never_disturbs_the_training() {
    let env = TestEnv::new();
    for round in 0..count(10) {
        fs::remove_file(env.jobs().join("go")).unwrap_or_default();
        let id = env.submit(&env.job("while [ ! -e go ]; do sleep 0.05; done; exit 3", ""));
        // More often than it is started again.
        for _ in 0..8 {
            std::thread::sleep(std::time::Duration::from_millis(200 + spread(round, 2000)));
            for pid in env.processes_with("exec-watch") {
                let _ = kill(pid, Signal::SIGKILL);
            }
        }
        env.write("go", "");
        let _ = env.dlrun(["wait", &id]).run().code(10);
        assert_eq!(env.show(&id)["status"]["exit"]["code"], 3);
        env.wait_quiet();
    }
}
