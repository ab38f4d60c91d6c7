//! What `sbatch` is handed: every option of the job file, and arrays that become several jobs.

use std::fmt::Write as _;

use crate::support::fakes::Call;
use crate::support::{Done, Fake, TestEnv};

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

/// A controller that takes indexes up to `largest`, and jobs as `sbatch` (shell text) says.
fn controller(env: &TestEnv, largest: u32, sbatch: &str) -> Fake {
    let config = format!(
        "Configuration data\nMaxArraySize            = {}\nMaxDBDMsgs = 20000\n",
        largest + 1
    );
    let _ = env.fake("scontrol").stdout(&config);
    env.fake_slurm().stdout("").hook(sbatch)
}

const TAKES_ALL: &str = r#"number=${call##*/}; echo $((4710 + number))"#;

fn submit(env: &TestEnv, resources: &str) -> Done {
    let text = format!("name = \"many\"\n[run]\ncommand = [\"true\"]\n[resources]\n{resources}\n");
    let file = env.write("many.toml", &text);
    env.dlrun(["submit", "--json"]).arg(&file).run()
}

fn told(call: &Call, id: &str) -> [Option<String>; 3] {
    ["--array", "--export", "--dependency"]
        .map(|option| call.option(option).map(|value| value.replace(id, "ID")))
}

fn some(text: &str) -> Option<String> {
    Some(text.to_owned())
}

#[test]
fn an_array_beyond_the_largest_index_becomes_several_jobs() {
    let env = TestEnv::new();
    let sbatch = controller(&env, 1000, TAKES_ALL);
    let result = submit(&env, "array = \"0-2499\"").code(0).result();
    let id = result["run_id"].as_str().expect("an id");
    let calls = sbatch.calls();
    assert_eq!(calls.len(), 3);
    assert_eq!(told(&calls[0], id), [some("0-1000"), None, None]);
    assert_eq!(told(&calls[1], id)[0..2], [some("0-1000"), None]);
    assert_eq!(told(&calls[2], id)[0..2], [some("0-497"), None]);
    for (call, offset) in
        calls
            .iter()
            .zip(["", "DLRUN_ARRAY_OFFSET=1001\n", "DLRUN_ARRAY_OFFSET=2002\n"])
    {
        let lines = format!("export DLRUN_RUN_ID={id}\n{offset}\n");
        assert!(call.stdin.contains(&lines), "{lines}");
    }
    assert_eq!(result["job_id"], "4711");
    assert_eq!(
        result["output"].as_str(),
        env.jobs().join("many-4711_%a.out").to_str()
    );
    let record: serde_json::Value = serde_json::from_slice(
        &std::fs::read(format!(
            "{}/run.json",
            result["records"].as_str().expect("a path")
        ))
        .expect("written"),
    )
    .expect("JSON");
    assert_eq!(
        record["parts"],
        serde_json::json!([{ "job_id": "4712", "offset": 1001 }, { "job_id": "4713", "offset": 2002 }])
    );
}

#[test]
fn the_limit_of_an_array_holds_for_all_its_jobs_together() {
    let env = TestEnv::new();
    let sbatch = controller(&env, 1000, TAKES_ALL);
    let _ = submit(&env, "array = \"0-2002%8\"").code(0);
    let dependencies: Vec<Option<String>> = sbatch
        .calls()
        .iter()
        .map(|call| told(call, "-")[2].clone())
        .collect();
    assert_eq!(
        dependencies,
        [None, some("afterany:4711"), some("afterany:4712")]
    );
}

#[test]
fn an_array_up_to_the_largest_index_is_one_job() {
    let env = TestEnv::new();
    let sbatch = controller(&env, 1000, TAKES_ALL);
    let _ = submit(&env, "array = \"0-1000%8\"").code(0);
    let calls = sbatch.calls();
    assert_eq!(
        (calls.len(), calls[0].option("--array")),
        (1, Some("0-1000%8"))
    );
}

#[test]
fn where_one_part_is_refused_the_others_are_cancelled() {
    let env = TestEnv::new();
    let refusing = r#"case ${call##*/} in 3) echo 'sbatch: error: QOSMaxSubmitJobPerUserLimit' >&2; exit 1 ;; esac
        number=${call##*/}; echo $((4710 + number))"#;
    let _ = controller(&env, 1000, refusing);
    let refused = submit(&env, "array = \"0-4999\"");
    let envelope = refused.code(76).envelope();
    let message = envelope["error"]["message"]
        .as_str()
        .expect("a text")
        .to_owned();
    assert!(
        message.contains("2 of the 5 jobs") && message.contains("QOSMaxSubmitJobPerUserLimit"),
        "{message}"
    );
    let cancelled: Vec<Vec<String>> = env
        .fake("scancel")
        .calls()
        .into_iter()
        .map(|call| call.argv)
        .collect();
    assert_eq!(cancelled, [["4711", "4712"]]);
    let runs = env.dlrun(["list", "--json"]).run().code(0).result();
    assert_eq!(
        runs["runs"].as_array().map(Vec::len),
        Some(0),
        "nothing is left behind"
    );
}

#[test]
fn an_array_of_a_million_is_refused_before_anything_is_queued() {
    let env = TestEnv::new();
    let sbatch = controller(&env, 1000, TAKES_ALL);
    let refused = submit(&env, "array = \"0-999999\"").code(76).envelope();
    let message = refused["error"]["message"].as_str().expect("a text");
    assert!(
        message.contains("largest that the site takes is 1000"),
        "{message}"
    );
    assert!(sbatch.calls().is_empty());
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
