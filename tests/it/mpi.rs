//! Programs of MPI: what their ranks are started by, whether they see the world that was planned, and which of them failed first.

use std::fs;
use std::path::Path;

use serde_json::Value;

use crate::support::TestEnv;

const RUN: &str = "0000000000000001";

/// `dlrun exec` of what stands for `srun`, of which these are the last words; its exit code and the node's record.
fn after_srun(said: &str, code: i32) -> (i32, Value) {
    let env = TestEnv::new();
    let planned = env.dlrun(["plan", "--scheduler", "local", "--json"]);
    let planned = planned.arg(env.job("true", "")).run().code(0);
    let plan = planned.result()["plan"].to_string();
    let plan = plan
        .replace("\"launcher\":\"none\"", "\"launcher\":\"mpi\"")
        .replace("\"scheduler\":\"local\"", "\"scheduler\":\"slurm\"");
    fs::create_dir_all(env.run_dir(RUN)).expect("ours");
    let script = format!("echo epoch 1; cat <<'END' >&2\n{said}\nEND\nexit {code}");
    let done = env
        .dlrun(["exec", "--", "sh", "-c", &script])
        .env("DLRUN_PLAN", plan)
        .env("DLRUN_RUN_ID", RUN)
        .env("DLRUN_STATE_DIR", env.state())
        .env("DLRUN_NODE", "n1")
        .env("DLRUN_JOB_ID", "7")
        .run_to(&env.jobs().join("job.out"));
    let record = fs::read(env.run_dir(RUN).join("0.0/n1.0/record.json")).expect("a record");
    let record = serde_json::from_slice(&record).expect("JSON");
    (done.exit_code().unwrap_or(-1), record)
}

#[test]
fn end_that_srun_reports_as_0_is_a_failure_where_ranks_did_not_run() {
    let unlaunched = "srun: error: task 0 launch failed: Unspecified error\nsrun: error: task 1 launch failed: Unspecified error\n\
         srun: Job step aborted";
    let (code, record) = after_srun(unlaunched, 0);
    assert_eq!((code, &record["exit"]["code"]), (1, &1.into()));
    let last = record["last_words"]
        .as_array()
        .and_then(|words| words.last());
    let expected = "rank 0 failed first: it was not launched: Unspecified error";
    assert_eq!(last.and_then(Value::as_str), Some(expected));
    let step = "slurmstepd-n1: error: *** STEP 7.0 ON n1 CANCELLED AT 2026-11-27T02:08:18 ***";
    let (code, record) = after_srun(step, 0);
    assert_eq!((code, &record["last_words"][0]), (1, &step.into()));
    let (code, record) = after_srun("rank 1 of 2: task 3 launch failed: no", 0);
    assert_eq!((code, &record["last_words"]), (0, &Value::Null));
}

#[test]
fn rank_that_failed_first_stands_before_what_the_program_said() {
    let said = "Traceback (most recent call last):\n  File \"a.py\", line 3, in <module>\nValueError: bad\n\
         srun: error: n2: task 3: Exited with exit code 1\nsrun: launch/slurm: _step_signal: Terminating StepId=7.0\n\
         srun: error: n1: tasks 0-1: Terminated";
    let (code, record) = after_srun(said, 143);
    let last = record["last_words"]
        .as_array()
        .and_then(|words| words.last());
    let expected = "rank 3 on n2 failed first: it ended with exit code 1: ValueError: bad";
    assert_eq!((code, last.and_then(Value::as_str)), (143, Some(expected)));
}

/// Runs a rank of a job of two on this machine, whose program has these libraries, with these variables.
fn rank(libraries: &[&str], variables: &[(&str, &str)]) -> (i32, String) {
    let env = TestEnv::new();
    let script = env.dlrun(["render", "--scheduler", "local"]);
    let job = env.job(
        "echo started",
        "launcher = \"mpi\"\n[resources]\ntasks_per_node = 2\n",
    );
    let _ = env.fake("mpirun").hook("shift 2; exec \"$@\"");
    let listed: Vec<String> = libraries
        .iter()
        .map(|path| {
            format!(
                "{} => {path} (0x0)",
                Path::new(path).file_name().expect("a name").display()
            )
        })
        .collect();
    let _ = env.fake("ldd").stdout(&(listed.join("\n") + "\n"));
    let script = env.program("job.sh", &script.arg(job).run().code(0).text());
    let out = env.jobs().join("rank.out");
    let mut command = env.command("bash", [script]);
    for (name, value) in variables {
        command = command.env(name, value);
    }
    let code = command.run_to(&out).exit_code().unwrap_or(-1);
    (code, fs::read_to_string(out).expect("an output"))
}

#[test]
fn rank_of_a_program_for_another_mpi_does_not_start_and_says_what_to_do() {
    let pmix = [("PMIX_NAMESPACE", "1"), ("OMPI_COMM_WORLD_SIZE", "2")];
    let pmi = [("PMI_FD", "6"), ("PMI_SIZE", "2")];
    let mpich = ["/lib/libmpich.so.12", "/lib/libc.so.6"];
    let open5 = [
        "/opt/libmpi.so.40",
        "/opt/libopen-pal.so.80",
        "/opt/libpmix.so.2",
    ];
    for (libraries, variables) in [
        (&mpich[..], &pmix[..]),
        (&mpich, &[]),
        (&open5, &pmi),
        (&open5, &[]),
    ] {
        let (code, output) = rank(libraries, variables);
        assert_eq!(code, 66, "{libraries:?} {variables:?} {output}");
        assert!(
            output.starts_with("dlrun: error: rank 0 on ")
                && output.contains(" would see a world of 1, not of 2: sh needs "),
            "{output}"
        );
    }
}

#[test]
fn rank_starts_wherever_its_world_is_not_known_to_be_another() {
    let pmix = [("PMIX_NAMESPACE", "1")];
    let pmi = [("PMI_FD", "6")];
    let intel = [
        ("PMIX_NAMESPACE", "1"),
        ("I_MPI_PMI_LIBRARY", "/lib/libpmi2.so"),
    ];
    for (libraries, variables) in [
        (&["/lib/libmpich.so.12"][..], &pmi[..]),
        // MPICH with its own PMI library, of Slurm or PMIx.
        (&["/lib/libmpich.so.12", "/lib/libpmi2.so.0"], &[]),
        (&["/lib/libmpi.so.12", "/lib/libpmix.so.2"], &pmix),
        (&["/lib/libmpi.so.12"], &intel),
        (&["/opt/libmpi.so.40", "/opt/libopen-pal.so.80"], &pmix),
        // Which ways Open MPI 4 knows is not known, where its components are not found.
        (&["/no/libmpi.so.40", "/no/libopen-pal.so.40"], &pmi),
        // Open MPI 1.10.
        (&["/lib/libmpi.so.12", "/lib/libopen-pal.so.13"], &pmi),
        (&["/lib/libc.so.6"], &[]),
        (&[], &[]),
    ] {
        let (code, output) = rank(libraries, variables);
        assert_eq!(
            (code, &*output),
            (0, "started\n"),
            "{libraries:?} {variables:?}"
        );
    }
}

#[test]
fn rank_of_open_mpi_4_is_judged_by_its_components() {
    let env = TestEnv::new();
    let lib = env.root().join("lib");
    fs::create_dir_all(lib.join("openmpi")).expect("ours");
    for name in [
        "libmpi.so.40",
        "libopen-pal.so.40",
        "openmpi/mca_pmix_ext3x.so",
    ] {
        fs::write(lib.join(name), "").expect("ours");
    }
    let paths =
        ["libmpi.so.40", "libopen-pal.so.40"].map(|name| lib.join(name).display().to_string());
    let paths: Vec<&str> = paths.iter().map(String::as_str).collect();
    assert_eq!(rank(&paths, &[("PMI_FD", "6")]).0, 66);
    assert_eq!(rank(&paths, &[("PMIX_NAMESPACE", "1")]).0, 0);
    fs::write(lib.join("openmpi/mca_pmix_s2.so"), "").expect("ours");
    assert_eq!(rank(&paths, &[("PMI_FD", "6")]).0, 0);
}
