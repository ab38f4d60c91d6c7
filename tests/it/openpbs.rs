//! A job's way through OpenPBS's commands, which are fakes here.

use std::path::Path;

use crate::support::fakes::Call;
use crate::support::{Fake, TestEnv};

const ID: &str = "4711.pbs";

/// The commands of an OpenPBS that gives every job this id, and knows none.
fn openpbs(env: &TestEnv, id: &str) -> Fake {
    let _ = (
        env.fake("qstat").stdout("{}\n"),
        env.fake("qdel"),
        env.fake("pbsnodes"),
    );
    let answer =
        format!("case $1 in --version) echo 'pbs_version = 23.06.06' ;; *) echo '{id}' ;; esac");
    env.fake("qsub").hook(&answer)
}

/// The arguments with which the job was handed over.
fn submission(qsub: &Fake) -> Vec<String> {
    let calls = qsub
        .calls()
        .into_iter()
        .map(|call| call.argv)
        .filter(|argv| argv != &["--version"]);
    let mut calls: Vec<Vec<String>> = calls.collect();
    assert_eq!(calls.len(), 1, "{calls:?}");
    calls.remove(0)
}

/// The value behind `option`, of which there is one.
fn value<'a>(argv: &'a [String], option: &str) -> &'a str {
    let found: Vec<&str> = argv
        .windows(2)
        .filter(|pair| pair[0] == option)
        .map(|pair| pair[1].as_str())
        .collect();
    assert_eq!(found.len(), 1, "{option} in {argv:?}");
    found[0]
}

fn submit(env: &TestEnv, file: &Path) -> serde_json::Value {
    env.dlrun(["submit", "--json"])
        .arg(file)
        .run()
        .code(0)
        .result()
}

/// How often `qstat` was asked for jobs; what the site has is asked too.
fn questions(qstat: &Fake) -> Vec<Call> {
    qstat
        .calls()
        .into_iter()
        .filter(|call| call.argv.iter().any(|word| word == "-t"))
        .collect()
}

/// `qstat`'s answer about one job that was submitted now.
fn answer(id: &str, attributes: &[&str]) -> String {
    let lines = attributes.iter().map(|line| format!("    {line}\n"));
    format!("Job Id: {id}\n{}\n", lines.collect::<String>())
}

#[test]
fn what_is_asked_for_stands_on_the_command_line() {
    let env = TestEnv::new();
    let qsub = openpbs(&env, ID);
    let resources = "inherit = [\"HOME\", \"NO_SUCH_VARIABLE\"]\nlauncher = \"each\"\n[resources]\nnodes = 2\ntasks_per_node = 2\ncpus_per_task = 4\ngpus_per_node = 2\nmemory = \"64GiB\"\nwalltime = \"36h\"\nqueue = \"gpu\"\naccount = \"p1\"\nexclusive = true\nconstraint = \"fast\"\nbegin = \"2030-01-31T08:00\"\nmail = { to = \"a@b.org\", on = [\"begin\", \"fail\"] }\nlicenses = { matlab = 2 }\n[scheduler]\narguments = [\"-p 5\", \"-h\"]\n";
    let result = submit(&env, &env.job("true", resources));
    assert_eq!(
        (result["job_id"].as_str(), result["scheduler"].as_str()),
        (Some(ID), Some("openpbs"))
    );
    let argv = submission(&qsub);
    let limits: Vec<&str> = argv
        .windows(2)
        .filter(|pair| pair[0] == "-l")
        .map(|pair| pair[1].as_str())
        .collect();
    let expected = [
        "select=2:ncpus=8:mpiprocs=2:ompthreads=4:ngpus=2:mem=65536mb:fast=True",
        "place=scatter:exclhost",
        "walltime=36:00:00",
        "matlab=2",
    ];
    assert_eq!(limits, expected);
    for (option, expected) in [
        ("-N", "job"),
        ("-q", "gpu"),
        ("-A", "p1"),
        ("-a", "203001310800.00"),
        ("-m", "ab"),
        ("-M", "a@b.org"),
        ("-p", "5"),
        ("-j", "oe"),
    ] {
        assert_eq!(value(&argv, option), expected, "{option}");
    }
    let run = result["run_id"].as_str().expect("an id");
    assert_eq!(
        value(&argv, "-v"),
        "HOME",
        "what is not set is not handed over"
    );
    assert!(argv.contains(&"-h".to_owned()));
    assert_eq!(
        argv.last().map(Path::new),
        Some(&*env.run_dir(run).join("job.sh"))
    );
    assert_eq!(
        value(&argv, "-o"),
        env.run_dir(run).join("scheduler.out").to_string_lossy()
    );
}

#[test]
fn an_array_is_one_job_with_an_output_for_each_element() {
    let env = TestEnv::new();
    let qsub = openpbs(&env, "10[].pbs");
    let result = submit(&env, &env.job("true", "[resources]\narray = \"0-9:3%2\"\n"));
    assert_eq!(result["job_id"].as_str(), Some("10[].pbs"));
    let argv = submission(&qsub);
    assert_eq!(value(&argv, "-J"), "0-9:3%2");
    assert!(value(&argv, "-o").ends_with("/scheduler.^array_index^.out"));
}

#[test]
fn a_job_inside_a_job_is_a_job_of_its_own() {
    let mut env = TestEnv::new();
    let qsub = openpbs(&env, ID);
    for (name, value) in [
        ("PBS_JOBID", "1.pbs"),
        ("PBS_ARRAY_INDEX", "3"),
        ("PBS_NODEFILE", "/x"),
        ("PBS_DPREFIX", "#NO"),
        ("SLURM_JOB_ID", "7"),
        ("DLRUN_INSIDE", "x"),
        ("NCPUS", "8"),
        ("OMP_NUM_THREADS", "8"),
        ("TMPDIR", "/var/tmp/pbs.1.pbs"),
        ("PBS_SERVER", "other"),
        ("MINE", "1"),
    ] {
        env.set(name, value);
    }
    submit(&env, &env.job("true", "inherit = \"all\"\n"));
    let calls = qsub.calls();
    let call = calls
        .iter()
        .find(|call| call.argv != ["--version"])
        .expect("a submission");
    for name in [
        "PBS_JOBID",
        "PBS_ARRAY_INDEX",
        "PBS_NODEFILE",
        "PBS_DPREFIX",
        "SLURM_JOB_ID",
        "NCPUS",
        "TMPDIR",
    ] {
        assert_eq!(call.variable(name), None, "{name}");
    }
    assert_eq!(
        (call.variable("PBS_SERVER"), call.variable("MINE")),
        (Some("other"), Some("1"))
    );
    assert!(call.argv.contains(&"-V".to_owned()));
    let warned = env
        .dlrun(["plan"])
        .arg(env.jobs().join("job.toml"))
        .run()
        .code(0)
        .text();
    assert!(
        warned.contains("PBS_SERVER=other of your environment"),
        "{warned}"
    );
}

#[test]
fn states_come_from_one_question() {
    let env = TestEnv::new();
    openpbs(&env, ID);
    let run = submit(&env, &env.job("true", ""))["run_id"]
        .as_str()
        .expect("an id")
        .to_owned();
    let qstat = env.fake("qstat");
    for (attributes, state) in [
        (
            &[
                "job_state = Q",
                "comment = Can Never Run: Not enough total nodes available",
            ][..],
            "pending",
        ),
        (
            &[
                "job_state = R",
                "exec_host = n1/0",
                "stime = Fri Nov 20 20:38:06 2026",
            ],
            "running",
        ),
        (
            &[
                "job_state = F",
                "exec_host = n1/0",
                "substate = 93",
                "Exit_status = -29",
            ],
            "timeout",
        ),
    ] {
        let qstat = env.fake("qstat").stdout(&answer(ID, attributes));
        let before = questions(&qstat).len();
        let shown = env.show(&run);
        assert_eq!(shown["status"]["state"], state, "{shown}");
        let calls = questions(&qstat);
        assert_eq!(calls.len(), before + 1);
        let call = calls.last().expect("a call");
        assert_eq!(call.argv, ["-x", "-t", "-f", "-w", ID]);
        assert_eq!(call.variable("TZ"), Some("UTC0"));
    }
    assert_eq!(questions(&qstat).len(), 3);
}

#[test]
fn a_server_without_history_is_asked_again() {
    let env = TestEnv::new();
    openpbs(&env, ID);
    let run = submit(&env, &env.job("true", ""))["run_id"]
        .as_str()
        .expect("an id")
        .to_owned();
    let text = answer(ID, &["job_state = Q"]);
    let hook = format!(
        "case $1 in -x) echo 'qstat: PBS is not configured to maintain job history {ID}' >&2; exit 36 ;; *) echo '{text}' ;; esac"
    );
    let qstat = env.fake("qstat").stdout("").hook(&hook);
    assert_eq!(env.state_of(&run), "pending");
    assert_eq!(questions(&qstat).len(), 2);
}

#[test]
fn refusals_and_silence_have_their_own_exit_codes() {
    for (code, stderr, expected) in [
        (170, "qsub: Unknown queue", 76),
        (
            188,
            "qsub: Job violates queue and/or server resource limits",
            76,
        ),
        (
            162,
            "Connection refused\nqsub: cannot connect to server pbs (errno=15010)",
            69,
        ),
    ] {
        let env = TestEnv::new();
        let hook = format!(
            "case $1 in --version) echo 'pbs_version = 23.06.06' ;; *) echo '{stderr}' >&2; exit {code} ;; esac"
        );
        env.fake("qsub").hook(&hook);
        let told = env
            .dlrun(["submit"])
            .arg(env.job("true", ""))
            .run()
            .code(expected)
            .stderr;
        assert!(
            told.contains(stderr.lines().last().expect("words")),
            "{told}"
        );
    }
}

#[test]
fn cancelling_what_is_gone_is_no_failure() {
    for (code, stderr) in [
        (0, ""),
        (35, "qdel: Job has finished 4711.pbs"),
        (153, "qdel: Unknown Job Id 4711.pbs"),
    ] {
        let env = TestEnv::new();
        openpbs(&env, ID);
        let run = submit(&env, &env.job("true", ""))["run_id"]
            .as_str()
            .expect("an id")
            .to_owned();
        let text = answer(ID, &["job_state = R", "exec_host = n1/0"]);
        env.fake("qstat").stdout(&text);
        let qdel = env.fake("qdel").stderr(stderr).code(code);
        let _ = env.dlrun(["cancel", &run]).run().code(0);
        assert_eq!(qdel.call().argv, [ID]);
    }
}

/// The `#PBS` lines of a job, without those that all jobs have.
fn lines(env: &TestEnv, more: &str) -> Vec<String> {
    let script = env
        .dlrun(["render", "--scheduler", "openpbs"])
        .arg(env.job("true", more))
        .run()
        .code(0)
        .text();
    assert!(!script.contains("#SBATCH"), "{script}");
    let first = script
        .lines()
        .skip(1)
        .take_while(|line| line.starts_with("#PBS "))
        .count();
    assert_eq!(
        first,
        script.matches("#PBS ").count(),
        "they stand before everything else:\n{script}"
    );
    let lines = script
        .lines()
        .filter_map(|line| line.strip_prefix("#PBS "))
        .map(str::to_owned);
    let (common, own): (Vec<String>, Vec<String>) =
        lines.partition(|line| ["-S /bin/bash", "-N job", "-j oe"].contains(&line.as_str()));
    assert_eq!(common.len(), 3, "{common:?}");
    own
}

#[test]
fn each_option_has_its_line() {
    let env = TestEnv::new();
    for (more, expected) in [
        ("", &["-l select=1"][..]),
        ("[resources]\ncpus_per_task = 8\n", &["-l select=1:ncpus=8"]),
        (
            "[resources]\ntasks_per_node = 4\n",
            &["-l select=1:ncpus=4:mpiprocs=4"],
        ),
        ("[resources]\ngpus_per_node = 2\n", &["-l select=1:ngpus=2"]),
        (
            "[resources]\nmemory = \"1GiB\"\n",
            &["-l select=1:mem=1024mb"],
        ),
        (
            "[resources]\nmemory_per_cpu = \"1GiB\"\ncpus_per_task = 4\n",
            &["-l select=1:ncpus=4:mem=4096mb"],
        ),
        (
            "[resources]\nwalltime = \"400d\"\n",
            &["-l select=1", "-l walltime=9600:00:00"],
        ),
        ("[resources]\nqueue = \"gpu\"\n", &["-q gpu", "-l select=1"]),
        ("[resources]\naccount = \"p1\"\n", &["-A p1", "-l select=1"]),
        (
            "[resources]\nreservation = \"R7\"\n",
            &["-q R7", "-l select=1"],
        ),
        (
            "[resources]\nconstraint = \"model=a100\"\n",
            &["-l select=1:model=a100"],
        ),
        ("[resources]\nnodelist = \"n7\"\n", &["-l select=1:host=n7"]),
        (
            "[resources]\nexclusive = true\n",
            &["-l select=1", "-l place=exclhost"],
        ),
        (
            "launcher = \"each\"\n[resources]\nnodes = 2\n",
            &["-l select=2", "-l place=scatter"],
        ),
        (
            "[resources]\narray = \"1,3,5%2\"\n",
            &["-l select=1", "-J 1-5:2%2"],
        ),
        ("[resources]\narray = \"7\"\n", &["-l select=1", "-J 7-8:2"]),
        (
            "[resources]\nbegin = \"2030-01-31T08:00:30\"\n",
            &["-l select=1", "-a 203001310800.30"],
        ),
        (
            "[resources]\nmail = { to = \"a@b.org\", on = [\"all\"] }\n",
            &["-l select=1", "-m abe", "-M a@b.org"],
        ),
        (
            "[resources]\nlicenses = { matlab = 2 }\n",
            &["-l select=1", "-l matlab=2"],
        ),
        ("inherit = \"all\"\n", &["-l select=1", "-V"]),
        (
            "inherit = [\"HOME\", \"LANG\"]\n",
            &["-l select=1", "-v HOME,LANG"],
        ),
        ("inherit = \"none\"\n", &["-l select=1"]),
        (
            "[scheduler]\ndirectives = [\"-r n\"]\n",
            &["-l select=1", "-r n"],
        ),
    ] {
        assert_eq!(lines(&env, more), expected, "{more}");
    }
}
