//! Converted descriptions before a real Slurm: its parser takes them, and they run as they were meant.

use std::fs;
use std::path::Path;

use super::cluster::User;

/// What `sbatch` says of a job whose options it has understood, and that this cluster cannot place: the examples name
/// queues, features and nodes of other sites.
const OTHER_SITES: [&str; 3] = [
    "Requested node configuration is not available",
    "Invalid partition name",
    "Invalid feature specification",
];

#[test]
#[ignore = "needs slurmctld: run tests/run"]
fn scripts_of_modaks_examples_are_understood() {
    let user = User::new();
    let dir = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/fixtures/modak");
    let mut seen = 0;
    for entry in fs::read_dir(dir).expect("fixtures") {
        let path = entry.expect("an entry").path();
        let name = path
            .file_name()
            .expect("a name")
            .to_string_lossy()
            .into_owned();
        let text = fs::read_to_string(&path).expect("text");
        let file = user.write(&name, &text);
        let arguments = ["render", "--no-check", "--scheduler", "slurm"].map(AsRef::as_ref);
        let rendered = user.dlrun(&[&arguments[..], &[file.as_os_str()]].concat());
        if rendered.code == 65 {
            continue;
        }
        let script = user.write("job.sh", &rendered.ok());
        let asked = user.run("sbatch", &["--test-only".as_ref(), script.as_os_str()]);
        let is_placed =
            asked.code == 0 || OTHER_SITES.iter().any(|words| asked.stderr.contains(words));
        assert!(is_placed, "{name}: {asked:?}");
        seen += 1;
    }
    assert_eq!(seen, 13);
}

#[test]
#[ignore = "needs slurmctld: run tests/run"]
fn a_converted_script_does_what_the_script_did() {
    let user = User::new();
    let head = "#!/bin/bash\n#SBATCH -N 2 --ntasks-per-node=2 -t 5 --comment='a b'\n#SBATCH --exclude=n4\n";
    for (name, body, output) in [
        (
            "kept",
            "echo \"$SLURM_NTASKS\"\nsrun echo rank\n",
            "4\nrank\nrank\nrank\nrank\n",
        ),
        (
            "simple",
            "export A='x y'\nsrun printenv A\n",
            "x y\nx y\nx y\nx y\n",
        ),
    ] {
        user.write(&format!("{name}.sh"), &format!("{head}{body}"));
        let job_file = user.path(&format!("{name}.toml"));
        let arguments = [
            "convert",
            &format!("{name}.sh"),
            "-o",
            &format!("{name}.toml"),
        ];
        let converted = user.dlrun(&arguments);
        assert_eq!(converted.code, 0, "{converted:?}");
        let submitted = user.submit(&job_file);
        assert_eq!(user.wait(&submitted.run), 0);
        assert_eq!(submitted.text(), output, "{name}");
        let known = user.run("scontrol", &["show", "job", &submitted.job]).ok();
        assert!(known.contains("Comment=a b"), "{known}");
    }
}

#[test]
#[ignore = "needs slurmctld: run tests/run"]
fn modaks_json_starts_the_ranks_that_it_names() {
    let user = User::new();
    let file = user.write(
        "modak.json",
        "\"job\": {\"job_options\": {\"node_count\": 2, \"process_count_per_node\": 1, \"wall_time_limit\": \"0:05:00 \"},
         \"application\": {\"app_type\": \"mpi\", \"executable\": \"echo ${OMP_NUM_THREADS}\", \"mpi_ranks\": 4, \"threads\": 2},
         \"target\": {\"job_scheduler_type\": \"slurm\"}}",
    );
    let submitted = user.submit(&file);
    assert_eq!(user.wait(&submitted.run), 0);
    assert_eq!(submitted.text(), "2\n2\n2\n2\n");
}
