//! Torque's commands as fakes: what they are handed, how their answers are read, and how the script runs.

use std::fmt::Write as _;
use std::fs;

use crate::support::{Fake, TestEnv, wait_for};

/// Name, lines of `[resources]`, further tables. `torque_real` shows each to a real `qsub`.
pub(crate) const OPTIONS: &[(&str, &str, &str)] = &[
    ("nothing", "", ""),
    (
        "nodes-tasks-cpus",
        "nodes = 2\ntasks_per_node = 4\ncpus_per_task = 2",
        "",
    ),
    ("gpus-without-nodes", "gpus_per_node = 2", ""),
    (
        "gpus-of-a-kind",
        "nodes = 2\ngpus_per_node = 1\nconstraint = \"v100:fast\"",
        "",
    ),
    ("memory-of-all-nodes", "nodes = 2\nmemory = \"500MiB\"", ""),
    ("memory-per-cpu", "memory_per_cpu = \"100MiB\"", ""),
    ("walltime-over-a-day", "walltime = \"36h\"", ""),
    ("walltime-seconds", "walltime = \"90s\"", ""),
    ("queue", "queue = \"short\"", ""),
    ("account", "account = \"proj42\"", ""),
    ("qos", "qos = \"high\"", ""),
    ("reservation", "reservation = \"course.1\"", ""),
    (
        "nodelist",
        "nodes = 2\nnodelist = \"node01,node02\"\ntasks_per_node = 2",
        "",
    ),
    ("exclusive", "exclusive = true", ""),
    ("array", "array = \"0-9%2\"", ""),
    ("array-steps", "array = \"1,3,5-9:2,12-14\"", ""),
    ("begin", "begin = \"2099-01-31T08:00:30\"", ""),
    (
        "mail",
        "mail = { to = \"a@example.org\", on = [\"end\", \"fail\"] }",
        "",
    ),
    ("mail-all", "mail = { on = [\"all\"] }", ""),
    (
        "mail-requeue",
        "mail = { to = \"a@example.org\", on = [\"requeue\"] }",
        "",
    ),
    ("licenses", "licenses = { matlab = 1, stata = 2 }", ""),
    (
        "directives",
        "",
        "directives = [\"-r n\", \"-l cput=01:00:00\"]\n",
    ),
    ("arguments", "", "arguments = [\"-p 10\", \"-h\"]\n"),
    ("inherit-all", "inherit = \"all\"", ""),
    ("inherit-none", "inherit = \"none\"", ""),
    ("inherit-names", "inherit = [\"HOME\", \"LANG\"]", ""),
];

/// The job file of an option; the command holds what the batch script's own words must not be taken for.
pub(crate) fn job_file(name: &str, resources: &str, scheduler: &str) -> String {
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
        "name = \"{name}\"\n[run]\ncommand = [\"true\", \"#SBATCH -N9\", \"two\\n#PBS -l nodes=9\\n#SBATCH -N9\"]\n\
         {launcher}\n{inherit}\n[resources]\n{resources}\n[scheduler]\nkind = \"torque\"\n{scheduler}"
    )
}

/// A `qsub` of Torque; `hook` is shell text that takes a job.
fn torque(env: &TestEnv, hook: &str) -> Fake {
    let _ = env.fake("qdel");
    let _ = env
        .fake("qstat")
        .stderr("qstat: Unknown Job Id Error 14.vm\n")
        .code(153);
    let version =
        "if [ \"$1\" = --version ]; then printf 'Version: 6.1.3.h5\\nCommit: \\n'; exit 0; fi\n";
    env.fake("qsub").hook(&format!("{version}{hook}"))
}

/// Runs the job as a mom does: in the home directory, by the script's path.
const RUNS: &str = r#"
for word; do :; done
printf 'n1\nn1\nn2\nn2\n' > "$HOME/nodes"
cd "$HOME" || exit 1
export PBS_JOBID=14.vm PBS_NODEFILE=$HOME/nodes
echo "$word" > "$HOME/script"
setsid bash "$word" < /dev/null >> "$HOME/spool" 2>&1 &
echo 14.vm
"#;

/// `submit`, for its run id.
fn submitted(env: &TestEnv, file: &std::path::Path) -> String {
    let result = env
        .dlrun(["submit", "--json"])
        .arg(file)
        .run()
        .code(0)
        .result();
    result["run_id"].as_str().expect("an id").to_owned()
}

fn job(env: &TestEnv, script: &str, run: &str, resources: &str) -> std::path::PathBuf {
    env.job(
        script,
        &format!("{run}\n[resources]\n{resources}\n[scheduler]\nkind = \"torque\"\n"),
    )
}

#[test]
fn every_option_has_its_line_and_its_argument_once() {
    let env = TestEnv::new();
    let _ = torque(&env, "echo 14.vm");
    let mut shown = String::new();
    for (name, resources, scheduler) in OPTIONS {
        let file = env.write(
            &format!("{name}.toml"),
            job_file(name, resources, scheduler),
        );
        let script = env.dlrun(["render"]).arg(&file).run().code(0).text();
        let head: Vec<&str> = script
            .lines()
            .take_while(|line| line.starts_with('#'))
            .collect();
        assert_eq!(head[..2], ["#!/bin/bash", "#PBS -S /bin/bash"]);
        let _ = writeln!(shown, "## {name}");
        for line in head.iter().filter(|line| line.starts_with("#PBS ")) {
            let _ = writeln!(
                shown,
                "{}",
                line.replace(env.jobs().to_str().expect("text"), "WORKDIR")
            );
        }
        let plan = env
            .dlrun(["plan", "--json"])
            .arg(&file)
            .run()
            .code(0)
            .result();
        let words: Vec<String> =
            serde_json::from_value(plan["submit_command"].clone()).expect("words");
        let words = words
            .iter()
            .filter(|word| !word.ends_with("job.sh") && !word.ends_with("scheduler.out"));
        let words: Vec<&str> = words.map(String::as_str).collect();
        let _ = writeln!(shown, "{}\n", words.join(" "));
        assert!(
            !head.iter().any(|line| line.starts_with("#SBATCH")),
            "{name}"
        );
        let mut resources: Vec<&str> = head
            .iter()
            .filter_map(|line| line.strip_prefix("#PBS -l ")?.split('=').next())
            .collect();
        resources.sort_unstable();
        assert!(
            resources.is_sorted_by(|one, other| one < other),
            "{name}: {resources:?}"
        );
    }
    insta::assert_snapshot!("torque-options", shown);
}

#[test]
fn qsub_gets_script_run_and_spool_and_nothing_of_an_enclosing_job() {
    let mut env = TestEnv::new();
    let qsub = torque(
        &env,
        "echo Welcome; echo 14.vm; echo 'You have 12.5 h left.'",
    );
    for (name, value) in [
        ("PBS_JOBID", "3.vm"),
        ("PBS_ARRAYID", "7"),
        ("SLURM_JOB_ID", "5"),
        ("DLRUN_ELEMENT", "4"),
        ("PBS_DEFAULT", "other"),
        ("LC_ALL", "C.UTF-8"),
    ] {
        env.set(name, value);
    }
    let result = env
        .dlrun(["submit", "--json"])
        .arg(job(&env, "true", "", ""))
        .run()
        .code(0)
        .result();
    assert_eq!(
        (&result["job_id"], &result["scheduler"]),
        (&"14.vm".into(), &"torque".into())
    );
    assert_eq!(
        result["output"],
        env.jobs().join("job-14.out").to_str().expect("text")
    );
    let calls = qsub.calls();
    let call = calls.last().expect("it was called");
    let after = |option: &str| {
        let at = call
            .argv
            .iter()
            .position(|word| word == option)
            .expect("it is there");
        call.argv[at + 1].clone()
    };
    let id = result["run_id"].as_str().expect("an id");
    assert_eq!(
        after("-o"),
        env.run_dir(id)
            .join("scheduler.out")
            .to_str()
            .expect("text")
    );
    assert_eq!(
        (after("-j"), after("-N")),
        ("oe".to_owned(), "job".to_owned())
    );
    let script = fs::read_to_string(call.argv.last().expect("the script")).expect("a file");
    let line = format!("\nexport DLRUN_RUN_ID={id}\n");
    let rendered = env
        .dlrun(["render"])
        .arg(env.jobs().join("job.toml"))
        .run()
        .code(0)
        .text();
    assert_eq!(script.replacen(&line, "", 1), rendered);
    for name in ["PBS_JOBID", "PBS_ARRAYID", "SLURM_JOB_ID", "DLRUN_ELEMENT"] {
        assert_eq!(call.variable(name), None, "{name}");
    }
    assert_eq!(
        (call.variable("PBS_DEFAULT"), call.variable("LC_ALL")),
        (Some("other"), Some("C.UTF-8"))
    );
}

#[test]
fn refusals_are_told_from_servers_that_are_down_and_from_silence() {
    let env = TestEnv::new();
    let file = job(&env, "true", "", "");
    for (code, stderr, exit) in [
        (
            172,
            "qsub: submit error (Unknown queue MSG=requested queue not found)",
            76,
        ),
        (
            168,
            "qsub: submit error (Illegal attribute or resource value for Resource_List.walltime)",
            76,
        ),
        (
            190,
            "qsub: submit error (Job exceeds queue resource limits MSG=cannot locate feasible nodes)",
            76,
        ),
        (
            159,
            "qsub: submit error (Unauthorized Request  MSG=user ACL rejected the submitting user)",
            76,
        ),
        (
            1,
            "qsub: Pbs Server is currently too busy to service this request. Please retry this request.",
            75,
        ),
        (
            111,
            "qsub: cannot connect to server vm (errno=111) Connection refused",
            69,
        ),
        (
            33,
            "qsub: cannot connect to server (null) (errno=15137) could not connect to trqauthd",
            69,
        ),
    ] {
        let _ = torque(&env, &format!("echo '{stderr}' >&2; exit {code}"));
        let error = env
            .dlrun(["submit", "--json"])
            .arg(&file)
            .run()
            .code(exit)
            .error();
        assert!(
            error["message"].as_str().expect("text").contains(stderr),
            "{error}"
        );
        assert_eq!(
            fs::read_dir(env.state().join("runs"))
                .expect("it was made")
                .count(),
            0,
            "{stderr}"
        );
    }
    for answer in [
        "echo nothing",
        "echo 'qsub: Premature End of File' >&2; exit 1",
        "kill -9 $$",
    ] {
        let _ = torque(&env, answer);
        let _ = env
            .dlrun(["submit"])
            .arg(&file)
            .run()
            .code(75)
            .warns("look with `qstat -u $USER`");
        let runs = fs::read_dir(env.state().join("runs"))
            .expect("it was made")
            .count();
        assert_ne!(runs, 0, "{answer}: the job may be queued, so its run stays");
        fs::remove_dir_all(env.state().join("runs")).expect("it is ours");
    }
}

#[test]
fn a_qsub_of_the_other_pbs_ends_no_run() {
    let env = TestEnv::new();
    let _ = torque(&env, "echo 14.vm");
    let id = submitted(&env, &job(&env, "true", "", ""));
    // Of several each is asked what it is.
    let _ = env.fake("qsub").stdout("pbs_version = 23.06.06\n");
    let other = env.program("qsub", "#!/bin/sh\necho pbs_version = 23.06.06\n");
    fs::rename(other, env.root().join("tools/qsub")).expect("it is ours");
    let listed = env
        .dlrun(["list", "--json"])
        .run()
        .code(0)
        .warns("states are those last heard of");
    let run = &listed.warns("is OpenPBS 23.06.06").result()["runs"][0];
    assert_eq!(
        (run["run_id"].as_str(), run["state"].as_str()),
        (Some(&*id), Some("pending")),
        "{run}"
    );
}

#[test]
fn job_writes_its_own_file_and_each_start_is_an_attempt() {
    let env = TestEnv::new();
    let _ = torque(&env, RUNS);
    let id = submitted(&env, &job(&env, "echo here is $PWD; exit 5", "", ""));
    let end = |attempt: &str| env.run_dir(&id).join(attempt).join("end.json");
    wait_for("the job's end", || end("0.0").exists());
    let output = env.jobs().join("job-14.out");
    let line = format!("here is {}\n", env.jobs().display());
    assert_eq!(fs::read_to_string(&output).expect("the output"), line);
    assert_eq!(
        fs::read_to_string(env.root().join("home/spool")).expect("the spool"),
        ""
    );
    // The server starts it again.
    let script = fs::read_to_string(env.root().join("home/script")).expect("its path");
    let again = format!(
        "export PBS_JOBID=14.vm PBS_NODEFILE=$HOME/nodes; cd; bash {}",
        script.trim()
    );
    let _ = env.command("bash", ["-c", &again]).run().code(5);
    assert_eq!(
        fs::read_to_string(&output).expect("the output"),
        line.repeat(2)
    );
    let mark = fs::read_to_string(end("0.1")).expect("a second attempt");
    assert!(
        mark.contains("\"node\":\"n1\",\"job_id\":\"14.vm\",\"exit_code\":5"),
        "{mark}"
    );
    let shown = env.show(&id);
    assert_eq!(
        (&shown["status"]["state"], &shown["nodes"][0]["node"]),
        (&"failed".into(), &"n1".into())
    );
}

#[test]
fn output_that_cannot_be_written_comes_through_the_spool() {
    let env = TestEnv::new();
    let _ = torque(&env, RUNS);
    fs::create_dir(env.jobs().join("job-14.out")).expect("it is ours");
    let id = submitted(&env, &job(&env, "echo said", "", ""));
    wait_for("the job's end", || {
        env.run_dir(&id).join("0.0/end.json").exists()
    });
    let spool = fs::read_to_string(env.root().join("home/spool")).expect("the spool");
    assert!(
        spool.contains("job-14.out cannot be written") && spool.ends_with("said\n"),
        "{spool}"
    );
}

#[test]
fn each_node_has_environment_output_and_exit_code_of_its_own() {
    let env = TestEnv::new();
    let _ = torque(&env, RUNS);
    // As Torque's: the tasks have another environment, and its own exit code says nothing.
    let pbsdsh = env.fake("pbsdsh").hook(
        r#"
        shift
        for number in 0 1; do
            env -i PATH="$PATH" HOME="$HOME" PBS_NODENUM=$number CUDA_VISIBLE_DEVICES=$number "$@" &
        done
        wait
        exit 0
        "#,
    );
    fs::write(env.jobs().join("secret.env"), "SECRET=it's $(secret)\n").expect("it is ours");
    let _ = env.command("chmod", ["600", "secret.env"]).run().code(0);
    // What was handed over is gone from the disk while the job runs.
    let script = "for i in $(seq 99); do [ -s job-14.nodes/node ] || break; sleep 0.1; done; \
                  [ ! -s job-14.nodes/node ] || echo left; [ -e job-14.nodes/node ] || echo gone; \
                  echo \"$A, $SECRET, $CUDA_VISIBLE_DEVICES\"; exit $((CUDA_VISIBLE_DEVICES + 3))";
    let run = "launcher = \"each\"\nenv = { A = \"a 'b' \\\"c\\\"\" }\nenv_file = \"secret.env\"";
    let id = submitted(
        &env,
        &job(&env, script, run, "nodes = 2\ntasks_per_node = 2"),
    );
    wait_for("the job's end", || {
        env.run_dir(&id).join("0.0/end.json").exists()
    });
    assert_eq!(pbsdsh.call().argv[..2], ["-u", "/bin/bash"]);
    for number in 0..2 {
        let text =
            fs::read_to_string(env.jobs().join(format!("job-14.{number}.out"))).expect("an output");
        assert_eq!(text, format!("a 'b' \"c\", it's $(secret), {number}\n"));
    }
    let end = fs::read_to_string(env.run_dir(&id).join("0.0/end.json")).expect("a mark");
    assert!(end.contains("\"exit_code\":4"), "{end}");
    assert!(!env.jobs().join("job-14.nodes").exists());
    let shown = env.show(&id);
    let mut nodes: Vec<&str> = shown["nodes"]
        .as_array()
        .expect("a list")
        .iter()
        .filter_map(|node| node["node"].as_str())
        .collect();
    nodes.sort_unstable();
    assert_eq!(nodes, ["n1", "n2"]);
}

#[test]
fn refusal_of_another_node_is_the_cause() {
    let env = TestEnv::new();
    let _ = torque(&env, RUNS);
    let _ = env.fake("pbsdsh").hook(
        r#"
        shift
        env -i PATH="$PATH" HOME="$HOME" PBS_NODENUM=0 "$@"
        rm "$HOME/../jobs/node.env"
        env -i PATH="$PATH" HOME="$HOME" PBS_NODENUM=1 "$@"
        "#,
    );
    env.write("node.env", "A=1\n");
    let _ = env.command("chmod", ["600", "node.env"]).run().code(0);
    let run = "launcher = \"each\"\nenv_file = \"node.env\"";
    let id = submitted(&env, &job(&env, "true", run, "nodes = 2"));
    env.wait_state(&id, "failed");
    let cause = &env.show(&id)["status"]["cause"];
    let text = cause["text"].as_str().expect("a text");
    assert_eq!(cause["kind"], "setup", "{cause}");
    assert!(
        text.contains("n2: the env_file cannot be read on this node"),
        "{text}"
    );
}

#[test]
fn a_node_that_says_nothing_was_killed() {
    let env = TestEnv::new();
    let _ = torque(&env, RUNS);
    let _ = env.fake("pbsdsh").hook(
        "shift; env -i PATH=\"$PATH\" HOME=\"$HOME\" PBS_NODENUM=0 \"$@\"; mkdir \"${2%/*}/rank.1\"",
    );
    // The script waits five seconds for what the other node may have written, a tenth at a time.
    let waits = env.fake("sleep");
    let id = submitted(&env, &job(&env, "true", "launcher = \"each\"", "nodes = 2"));
    wait_for("the job's end", || {
        env.run_dir(&id).join("0.0/end.json").exists()
    });
    let end = fs::read_to_string(env.run_dir(&id).join("0.0/end.json")).expect("a mark");
    assert!(end.contains("\"exit_code\":137"), "{end}");
    assert!(waits.calls().len() >= 50, "{}", waits.calls().len());
}

#[test]
fn launcher_that_waits_for_a_lost_node_is_ended() {
    let env = TestEnv::new();
    let _ = torque(&env, RUNS);
    // The first node waits in vain for the other, which has begun; as the real one, `pbsdsh` waits for both.
    let _ = env.fake("pbsdsh").hook(
        "shift; mkdir \"${2%/*}/rank.1\"; env -i PATH=\"$PATH\" HOME=\"$HOME\" PBS_NODENUM=0 \"$@\"; exec tail -f /dev/null",
    );
    let _ = env.fake("sleep");
    let file = job(&env, "true", "launcher = \"ddp\"", "nodes = 2");
    let submit = env.dlrun(["submit", "--json"]).arg(&file);
    let result = submit.env("DLRUN_LAUNCH__WAIT_SECONDS", "10").run().code(0);
    let result = result.result();
    let id = result["run_id"].as_str().expect("an id");
    wait_for("the job's end", || {
        env.run_dir(id).join("0.0/end.json").exists()
    });
    let end = fs::read_to_string(env.run_dir(id).join("0.0/end.json")).expect("a mark");
    assert!(end.contains("\"exit_code\":137"), "{end}");
}

#[test]
fn node_that_never_began_is_the_cause() {
    let env = TestEnv::new();
    let _ = torque(&env, RUNS);
    let _ = env
        .fake("pbsdsh")
        .hook("shift; env -i PATH=\"$PATH\" HOME=\"$HOME\" PBS_NODENUM=0 \"$@\"");
    let _ = env.fake("sleep");
    let id = submitted(&env, &job(&env, "true", "launcher = \"each\"", "nodes = 2"));
    env.wait_state(&id, "failed");
    let status = env.show(&id)["status"].clone();
    assert_eq!(status["exit"]["code"], 69, "{status}");
    let text = status["cause"]["text"].as_str().expect("a text");
    assert!(text.contains("did not start the command on n2"), "{text}");
}

#[test]
fn epochs_are_followed_in_the_file_of_the_first_node() {
    let env = TestEnv::new();
    let _ = torque(&env, RUNS);
    let _ = env
        .fake("pbsdsh")
        .hook("shift; env -i PATH=\"$PATH\" HOME=\"$HOME\" PBS_NODENUM=0 \"$@\"");
    let script = "echo 'Epoch 1/2'; echo 'epoch 1 0.5s loss: 0.25'; sleep 2; echo 'epoch 2 0.5s loss: 0.125'";
    let file = job(&env, script, "launcher = \"each\"", "nodes = 2");
    let _ = env
        .dlrun(["submit", "--wait"])
        .arg(&file)
        .run()
        .warns("epoch 2");
}

#[test]
fn mpirun_is_told_the_hosts() {
    let env = TestEnv::new();
    let _ = torque(&env, RUNS);
    let _ = env
        .fake("mpirun")
        .hook("echo \"$1 $2 $3 $4\"; cat \"$4\"; shift 4; exec \"$@\"");
    let id = submitted(
        &env,
        &job(
            &env,
            "echo ran",
            "launcher = \"mpi\"",
            "nodes = 2\ntasks_per_node = 3",
        ),
    );
    wait_for("the job's end", || {
        env.run_dir(&id).join("0.0/end.json").exists()
    });
    let output = fs::read_to_string(env.jobs().join("job-14.out")).expect("the output");
    let machines = env.jobs().join("job-14.nodes/machines");
    let expected = format!(
        "-np 6 -machinefile {}\nn1\nn1\nn1\nn2\nn2\nn2\nran\n",
        machines.display()
    );
    assert_eq!(output, expected);
    assert!(!machines.exists());
}

#[test]
fn uneven_tasks_are_dealt_to_nodes_of_equal_size() {
    let env = TestEnv::new();
    let _ = torque(
        &env,
        &RUNS.replace(
            "n1\\nn1\\nn2\\nn2\\n",
            "n2\\nn2\\nn2\\nn2\\nn1\\nn1\\nn1\\nn1\\n",
        ),
    );
    let _ = env.fake("mpirun").hook("echo \"$1 $2\"; cat \"$4\"");
    let resources = "nodes = 2\ntasks = 3\ncpus_per_task = 2";
    let file = job(&env, "true", "launcher = \"mpi\"", resources);
    let script = env.dlrun(["render"]).arg(&file).run().code(0).text();
    assert!(script.contains("-l nodes=2:ppn=4\n"), "{script}");
    let id = submitted(&env, &file);
    wait_for("the job's end", || {
        env.run_dir(&id).join("0.0/end.json").exists()
    });
    let output = fs::read_to_string(env.jobs().join("job-14.out")).expect("the output");
    assert_eq!(output, "-np 3\nn2\nn2\nn1\n");
}

#[test]
fn a_directory_beside_an_output_without_the_job_id_stays_the_users() {
    let env = TestEnv::new();
    let _ = torque(&env, RUNS);
    let _ = env.fake("mpirun").hook("echo \"$4\"");
    fs::create_dir(env.jobs().join("mine.nodes")).expect("it is ours");
    let run = "launcher = \"mpi\"\noutput = \"mine.out\"";
    let id = submitted(&env, &job(&env, "true", run, "nodes = 2"));
    wait_for("the job's end", || {
        env.run_dir(&id).join("0.0/end.json").exists()
    });
    let output = fs::read_to_string(env.jobs().join("mine.out")).expect("the output");
    let own = env.jobs().join("mine-14.nodes");
    assert_eq!(output, format!("{}/machines\n", own.display()));
    assert!(env.jobs().join("mine.nodes").exists() && !own.exists());
}

/// What `qstat -x` says of one job.
fn told(id: &str, rest: &str) -> String {
    let now = std::time::UNIX_EPOCH.elapsed().expect("a clock").as_secs();
    format!(
        "<?xml version=\"1.0\"?>\n<Data><Job><Job_Id>{id}</Job_Id><Job_Owner>u@vm</Job_Owner>{rest}<ctime>{now}</ctime></Job></Data>\n"
    )
}

#[test]
fn states_are_those_of_one_question() {
    let env = TestEnv::new();
    let number = "number=${call##*/}; echo $((number + 10)).vm";
    let _ = torque(&env, number);
    // Its first call asks what it is.
    let runs: Vec<String> = (0..4)
        .map(|_| submitted(&env, &job(&env, "true", "", "")))
        .collect();
    let jobs: Vec<String> = runs
        .iter()
        .map(|run| {
            env.show(run)["run"]["job_id"]
                .as_str()
                .expect("an id")
                .to_owned()
        })
        .collect();
    let queued = "<job_state>Q</job_state><comment>Not Running: Not enough of the right type of nodes</comment>";
    let gone =
        "<job_state>C</job_state><exit_status>271</exit_status><comp_time>1795207355</comp_time>";
    let answer = [
        told(&jobs[0], queued),
        told(
            &jobs[1],
            "<job_state>H</job_state><Hold_Types>u</Hold_Types>",
        ),
        told(&jobs[2], gone),
        told(&format!("1{}", jobs[3]), gone),
    ];
    let qstat = env.fake("qstat").stdout(&answer.concat()).code(153);
    let before = qstat.calls().len();
    let list = env.dlrun(["list", "--json"]).run().code(0).result();
    assert_eq!(qstat.calls().len(), before + 1);
    let call = qstat.calls().pop().expect("it was asked");
    assert_eq!(call.argv[..2], ["-x", "-t"]);
    assert_eq!(call.variable("TZ"), Some("UTC0"));
    let state = |run: &String| {
        let rows = list["runs"].as_array().expect("rows");
        let row = rows
            .iter()
            .find(|row| row["run_id"] == run.as_str())
            .expect("a row");
        (row["state"].clone(), row["reason"].clone())
    };
    assert_eq!(
        state(&runs[0]),
        (
            "pending".into(),
            "Not Running: Not enough of the right type of nodes".into()
        )
    );
    assert_eq!(
        state(&runs[1]),
        (
            "pending".into(),
            "held by its user (`qrls` lets it go)".into()
        )
    );
    assert_eq!(state(&runs[2]).0, "cancelled");
    // The fourth is not the job of a longer number.
    assert_eq!(state(&runs[3]).0, "unknown");
}

#[test]
fn a_server_that_is_down_changes_no_state() {
    let env = TestEnv::new();
    let _ = torque(&env, "echo 14.vm");
    let id = submitted(&env, &job(&env, "true", "", ""));
    let words = "qstat: cannot connect to server vm (errno=111) Connection refused\n";
    let _ = env.fake("qstat").stderr(words).code(111);
    let done = env
        .dlrun(["list", "--json"])
        .run()
        .code(0)
        .warns("states are those last heard of");
    assert_eq!(done.result()["runs"][0]["state"], "pending");
    let _ = env
        .fake("qstat")
        .stderr("")
        .stdout(&told("14.vm", "<job_state>R</job_state>"))
        .code(0);
    assert_eq!(env.state_of(&id), "running");
}

#[test]
fn a_job_that_is_gone_is_cancelled() {
    let env = TestEnv::new();
    let _ = torque(&env, "echo '14[].vm'");
    for (code, stderr) in [
        (
            170,
            "qdel: Request invalid for state of job MSG=invalid state for job - COMPLETE 14[].vm\n",
        ),
        (153, "qdel: nonexistent job id: 14[]\n"),
    ] {
        let id = submitted(&env, &job(&env, "true", "", "array = \"1-3\""));
        let qdel = env.fake("qdel").stderr(stderr).code(code);
        let _ = env.dlrun(["cancel", &id]).run().code(0);
        assert_eq!(qdel.calls().pop().expect("it was called").argv, ["14[].vm"]);
    }
    let id = submitted(&env, &job(&env, "true", "", ""));
    let _ = env
        .fake("qdel")
        .stderr("qdel: Unauthorized Request  14[].vm\n")
        .code(159);
    let _ = env
        .dlrun(["cancel", &id])
        .run()
        .code(69)
        .warns("Unauthorized Request");
}

#[test]
fn there_is_no_history() {
    let env = TestEnv::new();
    let _ = torque(&env, "echo 14.vm");
    let _ = submitted(&env, &job(&env, "true", "", ""));
    let _ = env
        .dlrun(["list", "--history"])
        .run()
        .code(0)
        .warns("torque keeps no history here");
}
