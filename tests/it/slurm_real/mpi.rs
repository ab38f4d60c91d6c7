//! Programs of Open MPI and of MPICH, which Debian both has, at a Slurm whose default gives ranks no PMI.

use std::fs;
use std::process::Command;

use super::cluster::{Submitted, User};
use crate::support::skip;

/// Says who it is and what all ranks add up to; the rank `argv[2]` then fails as `argv[1]` says.
const PROGRAM: &str = r#"
#include <mpi.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>
int main(int argc, char **argv) {
    int rank, size, sum;
    MPI_Init(&argc, &argv);
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    MPI_Comm_size(MPI_COMM_WORLD, &size);
    MPI_Allreduce(&rank, &sum, 1, MPI_INT, MPI_SUM, MPI_COMM_WORLD);
    printf("rank %d of %d sum %d\n", rank, size, sum);
    fflush(stdout);
    if (argc > 2) {
        sleep(rank == atoi(argv[2]) ? 2 : 30);
        if (!strcmp(argv[1], "kill")) raise(SIGKILL);
        if (!strcmp(argv[1], "exit")) _exit(7);
        MPI_Abort(MPI_COMM_WORLD, 9);
    }
    MPI_Finalize();
}
"#;

/// The program of a library, where its compiler is there: `openmpi` or `mpich`.
fn compiled(user: &User, mpi: &str) -> bool {
    let source = user.write("ring.c", PROGRAM);
    let compiler = Command::new(format!("mpicc.{mpi}"))
        .arg(source)
        .arg("-o")
        .arg(user.path("ring"))
        .status();
    if compiler.is_ok_and(|status| status.success()) {
        return true;
    }
    skip(&format!(
        "there is no mpicc.{mpi}: apt-get install libopenmpi-dev libmpich-dev"
    ));
    false
}

fn ended(user: &User, name: &str, run: &str, shape: &str, code: i32) -> (Submitted, String) {
    let run = format!("launcher = \"mpi\"\ncommand = [\"./ring\"{run}");
    let submitted = user.submit(&user.job(name, &run, shape));
    assert_eq!(user.wait(&submitted.run), code, "{}", submitted.text());
    let shown = user.show(&submitted.run);
    let cause = shown["status"]["cause"]["text"]
        .as_str()
        .unwrap_or_default()
        .to_owned();
    (submitted, cause)
}

const TWO: &str = "nodes = 2\ntasks_per_node = 2\nwalltime = \"5m\"";
const THREE: &str = "nodes = 3\ntasks_per_node = 1\nwalltime = \"5m\"";

fn sees_its_world(mpi: &str) {
    let user = User::new();
    if !compiled(&user, mpi) {
        return;
    }
    for (name, shape, ranks) in [("two", TWO, 4), ("three", THREE, 3)] {
        let (submitted, _) = ended(&user, name, "]", shape, 0);
        let text = submitted.text();
        let sum: u32 = (0..ranks).sum();
        for rank in 0..ranks {
            let line = format!("rank {rank} of {ranks} sum {sum}\n");
            assert!(text.contains(&line), "{text}");
        }
    }
    for (how, cause) in [
        ("kill", "rank 3 on n2 failed first: it was ended by SIGKILL"),
        (
            "exit",
            "rank 3 on n2 failed first: it ended with exit code 7",
        ),
        (
            "abort",
            "rank 3 on n2 failed first: it called MPI_Abort with code 9",
        ),
    ] {
        let shape = format!("{TWO}\nnodelist = \"n1,n2\"");
        let (submitted, found) = ended(&user, how, &format!(", \"{how}\", \"3\"]"), &shape, 10);
        assert_eq!(found, cause, "{}", submitted.text());
    }
}

#[test]
#[ignore = "needs slurmctld: run tests/run"]
fn ranks_of_open_mpi_see_their_world_and_the_first_to_fail_is_the_cause() {
    sees_its_world("openmpi");
}

#[test]
#[ignore = "needs slurmctld: run tests/run"]
fn ranks_of_mpich_see_their_world_and_the_first_to_fail_is_the_cause() {
    sees_its_world("mpich");
}

#[test]
#[ignore = "needs slurmctld: run tests/run"]
fn ranks_that_would_see_another_world_are_a_failure_with_a_hint() {
    let user = User::new();
    for (mpi, types) in [("mpich", ["none", "pmix"]), ("openmpi", ["none", "pmi2"])] {
        if !compiled(&user, mpi) {
            return;
        }
        for of_srun in types {
            let run = format!("]\nenv = {{ SLURM_MPI_TYPE = \"{of_srun}\" }}");
            let (submitted, cause) = ended(&user, &format!("{mpi}-{of_srun}"), &run, TWO, 10);
            let text = submitted.text();
            assert!(
                cause.contains("would see a world of 1, not of 4")
                    && cause.contains("SLURM_MPI_TYPE"),
                "{cause}\n{text}"
            );
            assert!(!text.contains("rank 0 of 1"), "{text}");
            fs::remove_file(submitted.output).expect("ours");
        }
    }
}

#[test]
#[ignore = "needs slurmctld: run tests/run"]
fn ranks_that_slurm_cannot_launch_are_a_failure_though_srun_returns_0() {
    let user = User::new();
    if !compiled(&user, "openmpi") {
        return;
    }
    // Its PMIx plugin cannot make its directory there.
    let run = "]\nenv = { SLURM_PMIX_TMPDIR = \"/proc/none\" }";
    let (submitted, cause) = ended(&user, "unlaunched", run, TWO, 10);
    assert!(
        cause.contains("it was not launched"),
        "{cause}\n{}",
        submitted.text()
    );
}
