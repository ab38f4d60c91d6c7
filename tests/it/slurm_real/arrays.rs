//! Arrays, and ranks of MPI programs, on a real cluster.

use std::collections::BTreeMap;
use std::fs;

use dlrun::job::{JobId, JobState, RunId};
use dlrun::scheduler::{JobRef, Scheduler};
use serde_json::{Value, json};

use super::cluster::{User, sh, until};

/// Where each element of a run is by its marks: its exit code once it has ended.
fn ends(user: &User, run: &str) -> BTreeMap<u32, i64> {
    let entries = fs::read_dir(user.run_dir(run))
        .expect("the run is there")
        .flatten();
    let end = |entry: fs::DirEntry| {
        let name = entry.file_name().into_string().ok()?;
        let element = name.split_once('.')?.0.parse().ok()?;
        let mark: Value =
            serde_json::from_slice(&fs::read(entry.path().join("end.json")).ok()?).ok()?;
        Some((element, mark["exit_code"].as_i64()?))
    };
    entries.filter_map(end).collect()
}

#[test]
#[ignore = "needs slurmctld: run tests/run"]
fn each_element_of_an_array_has_its_index_output_and_record() {
    let user = User::new();
    let command = sh("echo element $SLURM_ARRAY_TASK_ID; exit $((SLURM_ARRAY_TASK_ID % 2))");
    let submitted = user.submit(&user.job("array", &command, "array = \"1,2,5-7%2\""));
    assert_eq!(
        submitted.output,
        user.path(&format!("array-{}_%a.out", submitted.job))
    );
    let ends = until("all elements to end", 90, || {
        let ends = ends(&user, &submitted.run);
        (ends.len() == 5).then_some(ends)
    });
    assert_eq!(
        ends.into_iter().collect::<Vec<_>>(),
        [(1, 1), (2, 0), (5, 1), (6, 0), (7, 1)]
    );
    for index in [1, 2, 5, 6, 7] {
        let output = user.read(&format!("array-{}_{index}.out", submitted.job));
        assert_eq!(output, format!("element {index}\n"));
    }
}

#[test]
#[ignore = "needs slurmctld: run tests/run"]
fn the_queue_tells_of_elements_as_the_run_counts_them() {
    let user = User::new();
    let submitted = user.submit(&user.job("queued", &sh("sleep 30"), "array = \"0,2-64:2%1\""));
    let job = JobRef {
        run_id: RunId::from_random([7; 10]),
        job_id: JobId(submitted.job.clone()),
        parts: Vec::new(),
        submitted_at_ms: None,
        run_dir: user.run_dir(&submitted.run),
    };
    let (_dir, slurm) = super::site::slurm();
    let (waiting, runs) = until("the first element to run", 60, || {
        let entries = slurm
            .queue(std::slice::from_ref(&job))
            .expect("an answer")
            .remove(&job.run_id)?;
        let of = |state| {
            let of = entries.iter().filter(|entry| entry.state == state);
            of.map(|entry| entry.elements.clone().expect("elements").to_string())
                .collect::<Vec<_>>()
        };
        Some((of(JobState::Pending), of(JobState::Running))).filter(|(_, runs)| !runs.is_empty())
    });
    assert_eq!(runs, ["0"]);
    // All 33 of them: Slurm cuts such a list off after 64 bytes unless it is told not to.
    assert_eq!(waiting.len(), 1, "{waiting:?}");
    assert!(
        waiting[0].ends_with("62,64%1") || waiting[0] == "2-64:2%1",
        "{waiting:?}"
    );
}

#[test]
#[ignore = "needs slurmctld: run tests/run"]
fn an_mpi_program_has_as_many_ranks_as_nodes_times_tasks() {
    let user = User::new();
    let run = format!(
        "launcher = \"mpi\"\n{}",
        sh(
            "echo rank $SLURM_PROCID of $SLURM_NTASKS on $SLURMD_NODENAME with $SLURM_CPUS_PER_TASK"
        )
    );
    let submitted = user.submit(&user.job(
        "ranks",
        &run,
        "nodes = 2\ntasks_per_node = 3\ncpus_per_task = 2",
    ));
    assert_eq!(user.wait(&submitted.run), 0, "{}", submitted.text());
    let text = submitted.text();
    let mut lines: Vec<&str> = text.lines().collect();
    lines.sort_unstable();
    assert_eq!(lines.len(), 6, "{text}");
    let mut nodes = BTreeMap::new();
    for (rank, line) in lines.iter().enumerate() {
        assert!(
            line.starts_with(&format!("rank {rank} of 6 on ")) && line.ends_with(" with 2"),
            "{line}"
        );
        *nodes
            .entry(line.split(' ').nth(5).expect("a node"))
            .or_insert(0) += 1;
    }
    assert_eq!(nodes.into_values().collect::<Vec<_>>(), [3, 3]);
    // dlrun watched on the first node.
    assert_eq!(
        user.show(&submitted.run)["nodes"].as_array().map(Vec::len),
        Some(1)
    );
}

#[test]
#[ignore = "needs slurmctld: run tests/run"]
fn ranks_with_gpus_per_task_see_their_own_gpu_alone() {
    let user = User::new();
    let script = "echo rank $SLURM_PROCID sees $CUDA_VISIBLE_DEVICES";
    for gpus in ["1", "\"v100:1\""] {
        let resources = format!("tasks_per_node = 2\ngpus_per_task = {gpus}");
        let ranks = user.job(
            "ranks",
            &format!("launcher = \"mpi\"\n{}", sh(script)),
            &resources,
        );
        let ranks = user.submit(&ranks);
        assert_eq!(user.wait(&ranks.run), 0, "{}", ranks.text());
        let text = ranks.text();
        let mut seen: Vec<&str> = text
            .lines()
            .filter_map(|line| line.split(' ').nth(3))
            .collect();
        seen.sort_unstable();
        assert!(
            seen.len() == 2 && seen[0] != seen[1] && !seen[0].contains(','),
            "{text}"
        );
        // One command for each node has those of all its tasks.
        let each = user.job(
            "each",
            &format!("launcher = \"each\"\n{}", sh(script)),
            &resources,
        );
        let each = user.submit(&each);
        assert_eq!(user.wait(&each.run), 0);
        let text = std::fs::read_to_string(user.path(&format!("each-{}.0.out", each.job)))
            .expect("its output");
        assert!(
            text.split(' ')
                .nth(3)
                .is_some_and(|seen| seen.split(',').count() == 2),
            "{text}"
        );
    }
}

#[test]
#[ignore = "needs slurmctld: run tests/run"]
fn usage_of_an_mpi_program_is_that_of_its_ranks() {
    let user = User::new();
    // Two ranks of 2 s of CPU time, which stay until they were read once more.
    let burn = "my $held = 'x' x (40 << 20); while ((times)[0] + (times)[1] < 2) {} sleep 3";
    let command = format!("command = [\"perl\", \"-e\", \"{burn}\"]");
    let file = user.job(
        "burn",
        &format!("launcher = \"mpi\"\n{command}"),
        "tasks_per_node = 2",
    );
    let submitted = user.submit(&file);
    assert_eq!(user.wait(&submitted.run), 0, "{}", submitted.text());
    let shown = user.show(&submitted.run);
    let node = &shown["nodes"][0];
    let usage = |key: &str| node["usage"][key].as_f64().expect("a number");
    assert!(
        usage("cpu_user_seconds") + usage("cpu_system_seconds") >= 3.9,
        "{node}"
    );
    assert!(
        usage("mem_peak_bytes") > 80e6 && usage("processes_peak") >= 3.0,
        "{node}"
    );
    let missing = node["missing"].as_array().expect("a list");
    assert!(
        missing.iter().all(|missing| missing["what"] != "ranks"),
        "{node}"
    );
}

#[test]
#[ignore = "needs slurmctld: run tests/run"]
fn a_job_that_inherits_nothing_still_has_steps_with_its_own_environment() {
    let mut user = User::new();
    user.set("LEAKED", "yes");
    user.set("WANTED", "this");
    user.set("PBS_JOBID", "7.outer");
    user.set("SLURM_MEM_PER_CPU", "77");
    let command = sh(
        "srun /bin/sh -c 'echo [${LEAKED-}] [${WANTED-}] [${OWN-}] [${PBS_JOBID-}] [${SLURM_EXPORT_ENV-}]'",
    );
    for (name, inherit, seen) in [
        ("none", "\"none\"", "[] [] [set] [] []\n"),
        ("names", "[\"WANTED\"]", "[] [this] [set] [] []\n"),
        ("all", "\"all\"", "[yes] [this] [set] [] []\n"),
    ] {
        let run = format!("inherit = {inherit}\nenv = {{ OWN = \"set\" }}\n{command}");
        let submitted = user.submit(&user.job(name, &run, ""));
        assert_eq!(user.wait(&submitted.run), 0, "{}", submitted.text());
        assert_eq!(submitted.text(), seen, "{name}");
    }
    assert_eq!(json!(user.list().len()), json!(3));
}
