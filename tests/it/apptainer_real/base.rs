//! The machine does what the other tests take for granted.

use std::path::Path;

use super::place::{base_sandbox, base_sif, listed, runtime, unlisted};
use crate::slurm_real::cluster::User;

fn python_version(user: &User, image: &Path) -> String {
    let words = [
        "exec".as_ref(),
        image.as_os_str(),
        "python3".as_ref(),
        "--version".as_ref(),
    ];
    user.run(&runtime().to_string_lossy(), &words).ok()
}

#[test]
#[ignore = "needs Apptainer: run tests/run"]
fn the_base_runs_for_ordinary_users() {
    for user in [listed(), unlisted()] {
        for image in [base_sif(), base_sandbox()] {
            let said = python_version(&user, &image);
            assert!(said.starts_with("Python 3."), "{}: {said}", user.name());
        }
    }
}

#[test]
#[ignore = "needs Apptainer: run tests/run"]
fn one_user_has_subordinate_ids_and_the_other_has_none() {
    for file in ["/etc/subuid", "/etc/subgid"] {
        let text = std::fs::read_to_string(file).expect("the file is there");
        let has = |user: &User| {
            text.lines()
                .any(|line| line.split(':').next() == Some(user.name()))
        };
        assert_eq!(
            (has(&listed()), has(&unlisted())),
            (true, false),
            "{file}: {text}"
        );
    }
}
