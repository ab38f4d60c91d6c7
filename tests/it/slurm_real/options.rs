//! Every option of the job file before a real `sbatch`, and what it refuses.

use std::fs;

use super::cluster::User;
use crate::slurm_submit::{OPTIONS, job_file};

/// What a site must have and the test cluster has not: a reservation of that name.
const REFUSED: &[(&str, &str)] = &[("reservation", "reservation")];

#[test]
#[ignore = "needs slurmctld: run tests/run"]
fn every_option_is_taken_by_sbatch() {
    let user = User::new();
    for (name, resources, tables) in OPTIONS {
        let file = user.write(&format!("{name}.toml"), &job_file(name, resources, tables));
        let checked = user.dlrun(&["check".as_ref(), file.as_os_str()]);
        let said = checked.stderr.to_lowercase();
        match REFUSED.iter().find(|(refused, _)| refused == name) {
            Some((_, word)) => assert!(
                checked.code == 76 && said.contains(word),
                "{name}: {checked:?}"
            ),
            None => assert!(checked.code == 0, "{name}: {checked:?}"),
        }
        // The script alone, with its directives and without our command line.
        let script = user.dlrun(&["render".as_ref(), file.as_os_str()]).ok();
        let script = user.write(&format!("{name}.sh"), &script);
        let alone = user.run("sbatch", &["--test-only".as_ref(), script.as_os_str()]);
        let is_refused = REFUSED.iter().any(|(refused, _)| refused == name);
        assert_eq!(alone.code != 0, is_refused, "{name}: {alone:?}");
        let _ = fs::remove_file(script);
    }
}
