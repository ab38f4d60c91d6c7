//! What `sbatch` is handed: every option of the job file.

use std::fmt::Write as _;

use crate::support::TestEnv;

/// Name, lines of `[resources]`, further tables. `slurm_real::options` shows each to a real `sbatch`.
pub(crate) const OPTIONS: &[(&str, &str, &str)] = &[
    ("nothing", "", ""),
    (
        "nodes-tasks-cpus",
        "nodes = 2\ntasks_per_node = 4\ncpus_per_task = 2",
        "",
    ),
    ("gpus", "gpus_per_node = 2", ""),
    ("gpus-typed", "gpus_per_node = \"v100:2\"", ""),
    (
        "gpus-of-a-task",
        "tasks_per_node = 2\ngpus_per_task = \"v100:1\"",
        "",
    ),
    ("memory", "memory = \"1500MB\"", ""),
    ("memory-per-cpu", "memory_per_cpu = \"2GiB\"", ""),
    ("walltime-over-a-day", "walltime = \"36h\"", ""),
    ("walltime-seconds", "walltime = \"90s\"", ""),
    ("queue", "queue = \"debug\"", ""),
    ("account", "account = \"proj42\"", ""),
    ("qos", "qos = \"high\"", ""),
    ("reservation", "reservation = \"course\"", ""),
    ("constraint", "constraint = \"[rack1*1&rack2*1]\"", ""),
    ("nodelist", "nodes = 2\nnodelist = \"n[1-2]\"", ""),
    ("exclude", "exclude = \"n3,n4\"", ""),
    ("exclusive", "exclusive = true", ""),
    ("array", "array = \"0-99%8\"", ""),
    ("array-list", "array = \"1,3,5-9:2\"", ""),
    ("begin", "begin = \"2099-01-31T08:00\"", ""),
    (
        "mail",
        "mail = { to = \"a@example.org\", on = [\"end\", \"fail\"] }",
        "",
    ),
    ("mail-all", "mail = { on = [\"all\"] }", ""),
    ("licenses", "licenses = { matlab = 1, stata = 2 }", ""),
    (
        "directives",
        "",
        "[scheduler]\ndirectives = [\"--comment=paper\", \"--nice=5\", \"--export=A=1\"]\n",
    ),
    (
        "arguments",
        "",
        "[scheduler]\narguments = [\"--no-requeue\"]\n",
    ),
    ("inherit-all", "inherit = \"all\"", ""),
    ("inherit-none", "inherit = \"none\"", ""),
    (
        "inherit-names",
        "inherit = [\"HOME\", \"LANG\"]",
        "[scheduler]\ndirectives = [\"--export=A=1\"]\n",
    ),
];

/// The job file of an option; the command says what the batch script's own words must not be taken for.
pub(crate) fn job_file(name: &str, resources: &str, tables: &str) -> String {
    let (inherit, resources) = if resources.starts_with("inherit") {
        (resources, "")
    } else {
        ("", resources)
    };
    let launcher = if resources.contains("nodes = ") {
        "launcher = \"each\""
    } else {
        ""
    };
    format!(
        "name = \"{name}\"\n[run]\ncommand = [\"true\", \"#PBS -q nowhere\", \"two\\n#PBS -l nodes=9\\n#SBATCH -N9\"]\n\
         {launcher}\n{inherit}\n[resources]\n{resources}\n{tables}"
    )
}

#[test]
fn every_option_has_its_line_and_its_argument() {
    let env = TestEnv::new();
    let _ = env.fake_slurm();
    let mut shown = String::new();
    for (name, resources, tables) in OPTIONS {
        let file = env.write(&format!("{name}.toml"), job_file(name, resources, tables));
        let script = env.dlrun(["render"]).arg(&file).run().code(0).text();
        let head: Vec<&str> = script
            .lines()
            .take_while(|line| line.starts_with('#'))
            .collect();
        let _ = writeln!(shown, "## {name}");
        for line in head.iter().filter_map(|line| line.strip_prefix("#SBATCH ")) {
            let _ = writeln!(shown, "#SBATCH {line}");
        }
        let plan = env
            .dlrun(["plan", "--json"])
            .arg(&file)
            .run()
            .code(0)
            .result();
        let words: Vec<&str> = plan["submit_command"]
            .as_array()
            .expect("a list")
            .iter()
            .filter_map(|word| word.as_str())
            .collect();
        let words = words
            .iter()
            .filter(|word| !word.contains("chdir") && !word.ends_with("job.sh"));
        let _ = writeln!(shown, "{}\n", words.copied().collect::<Vec<_>>().join(" "));
        assert!(!head.iter().any(|line| line.starts_with("#PBS")), "{name}");
    }
    insta::assert_snapshot!("slurm-options", shown);
}

#[test]
fn variables_are_handed_over_as_the_job_file_says() {
    let env = TestEnv::new();
    let sbatch = env.fake_slurm();
    for (inherit, scheduler, expected) in [
        ("inherit = \"all\"", "", "ALL"),
        ("inherit = \"none\"", "", "NONE"),
        ("inherit = [\"HOME\", \"LANG\"]", "", "HOME,LANG"),
        (
            "inherit = [\"HOME\"]",
            "arguments = [\"--export=A=1\"]",
            "HOME,A=1",
        ),
        (
            "inherit = \"all\"",
            "directives = [\"--export=NONE\"]",
            "NONE",
        ),
    ] {
        let text = format!("[run]\ncommand = [\"true\"]\n{inherit}\n[scheduler]\n{scheduler}\n");
        let file = env.write("inherit.toml", &text);
        let _ = env
            .dlrun(["submit", "--json"])
            .arg(&file)
            .env("SBATCH_EXPORT", "PATH")
            .env("PBS_JOBID", "7.outer")
            .env("PBS_SERVER", "head")
            .run()
            .code(0);
        let call = sbatch.calls().pop().expect("it was called");
        assert_eq!(call.option("--export"), Some(expected));
        assert_eq!(
            (call.variable("PBS_JOBID"), call.variable("PBS_SERVER")),
            (None, Some("head"))
        );
    }
}
