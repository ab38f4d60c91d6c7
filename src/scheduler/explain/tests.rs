//! Outputs and pieces of them.

use super::*;

fn id(text: &str) -> Option<String> {
    read(text, Columns::default())?
        .submitted
        .map(|submitted| submitted.job_id)
}

#[test]
fn number_among_words_is_no_id() {
    for text in [
        "7 dwarfs",
        "hello world",
        "it took\n12",
        "3.14",
        "7;",
        "sbatch: 7",
        "Submitted batch job soon",
    ] {
        assert_eq!(id(text), None, "{text}");
    }
    for (text, expected) in [
        ("7\n", "7"),
        ("7;hawk", "7"),
        ("Welcome!\nSubmitted batch job 8 on cluster c1", "8"),
        ("salloc: Granted job allocation 65537", "65537"),
        ("Welcome!\n14[].srv", "14[].srv"),
        ("qsub: waiting for job 12.srv.edu to start", "12.srv.edu"),
    ] {
        assert_eq!(id(text).as_deref(), Some(expected), "{text}");
    }
}

fn states(text: &str) -> Vec<String> {
    let seen = read(text, Columns::default()).unwrap_or_default();
    let jobs = seen.jobs.into_iter().map(|job| job.state);
    jobs.chain(seen.nodes.into_iter().map(|node| node.state))
        .collect()
}

#[test]
fn what_an_output_does_not_say_is_unknown() {
    for (text, expected) in [
        (
            "HOSTNAMES FREE_MEM MEMORY AVAIL CPUS CPUS(A/I/O/T)\ncpu1 105589 128916 up 32 0/32/0/32\n",
            "unknown",
        ),
        (
            "JobID AllocCPUS NCPUS\n----- --------- -----\n7     0         0\n",
            "unknown",
        ),
        (
            "$ qstat -xf 7\n\n        Job Id: 7.s\n        Job_Name = a\n        job_state = R\n",
            "running",
        ),
        ("\t\thpc2\n\t\t     state = free\n\t\t     np = 8\n", "free"),
        ("$ pbsnodes -l all\nn1     job-exclusive\n", "busy"),
    ] {
        assert_eq!(states(text), [expected], "{text}");
    }
}

fn read_default(text: &str) -> Seen {
    read(text, Columns::default()).unwrap_or_else(|| panic!("not known: {text}"))
}

fn only_job(text: &str) -> JobSeen {
    let mut jobs = read_default(text).jobs;
    assert_eq!(jobs.len(), 1, "{text}");
    jobs.remove(0)
}

#[test]
fn elements_are_named_by_their_array() {
    let of = |more: &str| {
        only_job(&format!(
            "JobId=96 ArrayJobId=95 ArrayTaskId={more} JobName=a b=c\n"
        ))
    };
    let job = of("1 JobState=RUNNING ExitCode=1:0");
    assert_eq!(
        (job.job_id.as_deref(), job.array_id.as_deref()),
        (Some("95_1"), Some("95"))
    );
    assert_eq!(
        (job.name.as_deref(), job.exit_code),
        (Some("a b=c"), Some(1))
    );
    let job = of("2-5%2 JobState=PENDING Reason=JobHeldUser");
    assert_eq!(
        (job.job_id.as_deref(), job.state.as_str()),
        (Some("95_[2-5%2]"), "held")
    );
}

#[test]
fn gpus_are_counted_once() {
    let of = |columns: &str, cells: &str| {
        only_job(&format!("JobID|State|{columns}\n7|RUNNING|{cells}\n")).gpus
    };
    assert_eq!(
        of("AllocTRES", "cpu=72,gres/gpu=3,gres/gpu:h100=3"),
        Some(3)
    );
    assert_eq!(of("AllocTRES", "gres/gpu:a100=2,gres/gpu:v100=1"), Some(3));
    assert_eq!(of("AllocTRES", "cpu=1,mem=1G"), Some(0));
    assert_eq!(of("AllocTRES", "(null)"), None);
    assert_eq!(
        of("Gres", "gpu:h100:2(IDX:0-1),gpu:h200:4(IDX:2,5)"),
        Some(6)
    );
    let of = |asked: &str| {
        only_job(&format!(
            "Job Id: 7.s\n    job_state = R\n    Resource_List.nodes = {asked}\n"
        ))
        .gpus
    };
    assert_eq!(of("2:ppn=4:gpus=2"), Some(4));
    assert_eq!(of("1:ncpus=2:ngpus=1+3:ncpus=1"), Some(1));
    assert_eq!(of("n01:ppn=2:gpus=1+n02:ppn=2:gpus=1"), Some(2));
    assert_eq!(of("15:ncpus=16"), Some(0));
}

#[test]
fn job_output_names_the_cause_of_the_end() {
    let text = "epoch 1\nslurmstepd: error: Detected 1 oom-kill event(s) in step 7.0 cgroup. Some of your processes may have been killed\nsrun: error: n1: task 4: Out Of Memory\nslurmstepd: error: *** JOB 8 ON n1 CANCELLED AT 2024-04-20T09:09:37 DUE TO TIME LIMIT ***\n=>> PBS: job killed: walltime 3630 exceeded limit 3600\n";
    let jobs = read_default(text).jobs;
    let said: Vec<_> = jobs
        .iter()
        .map(|job| (job.job_id.as_deref(), job.state.as_str()))
        .collect();
    assert_eq!(
        said,
        [
            (Some("7"), "out_of_memory"),
            (Some("8"), "timeout"),
            (None, "timeout")
        ]
    );
}

#[test]
fn seff_gives_state_times_and_use() {
    let job = only_job(
        "Job ID: 9\nArray Job ID: 7_2\nState: FAILED (exit code 3)\nNodes: 2\nCPU Utilized: 1-00:00:01\nJob Wall-clock time: 1-00:00:00\nMemory Utilized: 7 GB\n",
    );
    assert_eq!(
        (job.job_id.as_deref(), job.state.as_str(), job.exit_code),
        (Some("7_2"), "failed", Some(3))
    );
    assert_eq!(
        (job.elapsed_s, job.nodes, job.usage.len()),
        (Some(86400), Some(2), 2)
    );
}

#[test]
fn what_hinders_a_node_counts_first() {
    for (raw, expected) in [
        ("MIXED+PLANNED", "mixed"),
        ("MAINTENANCE+DRAIN", "drained"),
        ("ALLOCATED+DRAIN", "draining"),
        ("DOWN*+DRAIN", "drained"),
        ("down*", "down"),
        ("idle~", "idle"),
        ("idle*", "down"),
        ("mix-", "mixed"),
        ("plnd", "planned"),
        ("resv", "reserved"),
        ("IDLE+RESERVED", "reserved"),
        ("MIXED+RESERVED", "mixed"),
        ("IDLE$", "maintenance"),
        ("IDLE+CLOUD+POWERED_DOWN", "idle"),
    ] {
        let nodes = read_default(&format!("NodeName=n1 State={raw} CPUTot=4\n")).nodes;
        assert_eq!(nodes[0].state, expected, "{raw}");
    }
}

#[test]
fn the_end_is_in_the_exit_status() {
    for (letter, more, state) in [
        ("C", "exit_status = 0", "completed"),
        ("C", "exit_status = 7", "failed"),
        ("C", "exit_status = -11", "timeout"),
        ("F", "Exit_status = -29", "timeout"),
        ("F", "Exit_status = -27", "out_of_memory"),
        ("C", "exit_status = 271", "cancelled"),
        ("F", "substate = 91", "cancelled"),
        ("F", "queue = b", "unknown"),
        ("E", "queue = b", "running"),
    ] {
        let job = only_job(&format!(
            "Job Id: 7.s\n    job_state = {letter}\n    {more}\n"
        ));
        assert_eq!(job.state, state, "{letter} {more}");
    }
}

#[test]
fn an_answer_that_breaks_off_gives_its_whole_jobs() {
    let text = r#"{"Jobs":{"7.s":{"job_state":"R","Job_Name":"a","Resource_List":{"ngpus":2,"walltime":"01:00:00"}},"8.s":{"job_state""#;
    let job = only_job(text);
    assert_eq!(
        (job.job_id.as_deref(), job.gpus, job.time_limit_s),
        (Some("7.s"), Some(2), Some(3600))
    );
    assert!(read_default(r#"{"pbs_server":"s"}"#).jobs.is_empty());
}

#[test]
fn cells_with_blanks_stay_in_their_columns() {
    let job = only_job(
        "  JOBID PARTITION     NAME     USER ST       TIME  NODES NODELIST(REASON)\n   95_3       gpu   my job      bob PD       0:00      4 (ReqNodeNotAvail, UnavailableNodes:n4)\n",
    );
    assert_eq!((job.state.as_str(), job.nodes), ("pending", Some(4)));
    assert_eq!(
        job.reason.as_deref(),
        Some("ReqNodeNotAvail, UnavailableNodes:n4")
    );
    assert_eq!(job.array_id.as_deref(), Some("95"));
}

#[test]
fn cells_go_on_to_the_next_head_where_columns_are_aligned_left() {
    let text = "REASON               USER      TIMESTAMP           NODELIST\nECC errors - pendi+  admin     2026-07-30T09:12:00  g14\ngres/gpu GRES core s slurm     2025-04-03T15:48:07 g30\n";
    let reasons: Vec<_> = read_default(text)
        .nodes
        .into_iter()
        .filter_map(|node| node.reason)
        .collect();
    assert_eq!(reasons, ["ECC errors - pendi+", "gres/gpu GRES core s"]);
}

#[test]
fn text_without_a_table_is_none() {
    for text in [
        "once upon a time\n",
        "name of the job\nis not known\n",
        "step loss time\n1 0.3 1:00\n",
    ] {
        assert_eq!(read(text, Columns::default()), None, "{text}");
    }
}
