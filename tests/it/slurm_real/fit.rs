//! The check against the site beside what a real controller says of the same jobs.

use super::cluster::User;

/// What a job may ask for on the test cluster, and what nobody has there. The word says who refuses: `nobody`, `both`, or
/// `dlrun` alone, where Slurm would leave the job in the queue for ever.
const CASES: &[(&str, &str)] = &[
    ("cpus_per_task = 16", "nobody"),
    ("cpus_per_task = 17", "both"),
    ("tasks_per_node = 4\ncpus_per_task = 4", "nobody"),
    ("tasks_per_node = 17", "both"),
    ("memory = \"62.5GiB\"", "nobody"),
    ("memory = \"63GiB\"", "both"),
    ("memory_per_cpu = \"3GiB\"\ncpus_per_task = 16", "nobody"),
    ("memory_per_cpu = \"4GiB\"\ncpus_per_task = 16", "both"),
    ("gpus_per_node = 4", "nobody"),
    ("gpus_per_node = 5", "both"),
    ("gpus_per_node = \"v100:4\"", "nobody"),
    ("gpus_per_node = \"V100:4\"", "both"),
    ("gpus_per_node = \"h100:1\"", "both"),
    ("constraint = \"ib\"", "nobody"),
    ("constraint = \"rack1&ib\"", "nobody"),
    ("constraint = \"rack1&rack2\"", "both"),
    ("constraint = \"rack1|rack2\"\nnodes = 4", "nobody"),
    ("constraint = \"[rack1|rack2]\"\nnodes = 2", "nobody"),
    ("constraint = \"[rack1*1&rack2*1]\"\nnodes = 2", "nobody"),
    ("constraint = \"rack3\"", "both"),
    ("constraint = \"rack1\"\nnodes = 3", "both"),
    ("nodes = 4", "nobody"),
    ("nodes = 5", "both"),
    ("walltime = \"7d\"", "nobody"),
    ("walltime = \"8d\"", "dlrun"),
    ("queue = \"debug\"\nwalltime = \"1h\"", "dlrun"),
    ("queue = \"debug,batch\"\nwalltime = \"1h\"", "nobody"),
    ("queue = \"nosuch\"", "both"),
    ("licenses = { matlab = 4 }", "nobody"),
    ("licenses = { matlab = 5 }", "both"),
    ("licenses = { matlap = 1 }", "both"),
];

#[test]
#[ignore = "needs slurmctld: run tests/run"]
fn who_is_refused_before_the_queue_would_be_refused_by_slurm_or_never_start() {
    let user = User::new();
    for (number, (resources, refusers)) in CASES.iter().enumerate() {
        let text =
            format!("[run]\ncommand = [\"true\"]\nlauncher = \"each\"\n[resources]\n{resources}\n");
        let file = user.write(&format!("case{number}.toml"), &text);
        let ours = user.dlrun(&["plan".as_ref(), file.as_os_str()]).code;
        let script = user.dlrun(&["render".as_ref(), file.as_os_str()]).ok();
        let script = user.write(&format!("case{number}.sh"), &script);
        let slurms = user.run("sbatch", &["--test-only".as_ref(), script.as_os_str()]);
        let expected = match *refusers {
            "nobody" => (0, true),
            "both" => (65, false),
            _ => (65, true),
        };
        assert_eq!(
            (ours, slurms.code == 0),
            expected,
            "{resources}: {slurms:?}"
        );
    }
}
