//! Other programs' job descriptions as job files.

use std::fs;
use std::path::{Path, PathBuf};

use dlrun::job::convert::{Converted, Format, ScriptPlace, convert};
use dlrun::job::{Command, JobSpec, Launcher, parse};
use proptest::prelude::*;

use crate::support::TestEnv;

fn fixtures() -> Vec<PathBuf> {
    let dir = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/fixtures/modak");
    let files = fs::read_dir(dir)
        .expect("fixtures")
        .map(|entry| entry.expect("an entry").path());
    let mut files: Vec<PathBuf> = files
        .filter(|path| path.extension().is_some_and(|e| e == "json"))
        .collect();
    files.sort();
    assert_eq!(files.len(), 20);
    files
}

fn fixture(name: &str) -> String {
    let path = Path::new(env!("CARGO_MANIFEST_DIR"))
        .join("tests/fixtures/modak")
        .join(name);
    fs::read_to_string(path).expect("a fixture")
}

fn place() -> ScriptPlace {
    ScriptPlace {
        name: "job.sh".to_owned(),
        path: "/home/u/job.sh".to_owned(),
    }
}

fn converted(text: &str) -> Converted {
    convert(text, Some(&place())).unwrap_or_else(|problems| panic!("{problems:?} in\n{text}"))
}

/// The job file as it is read back.
fn spec(converted: &Converted) -> JobSpec {
    let text = &converted.job_file;
    parse(text).unwrap_or_else(|problems| panic!("{problems:?} in\n{text}"))
}

/// The lines of the job file that say something.
fn lines(text: &str) -> Vec<String> {
    let job_file = converted(text).job_file;
    let lines = job_file
        .lines()
        .filter(|line| !line.starts_with('#') && !line.is_empty());
    lines.map(str::to_owned).collect()
}

fn notes(text: &str) -> Vec<String> {
    converted(text)
        .notes
        .iter()
        .map(|note| format!("{}: {}", note.about, note.message))
        .collect()
}

/// The only problem.
fn problem(text: &str) -> String {
    let mut problems = convert(text, Some(&place())).expect_err("it is none");
    assert_eq!(problems.len(), 1, "{problems:?}");
    problems.remove(0).message
}

fn modak(options: &str, application: &str) -> String {
    let program = if application.contains("executable") {
        ""
    } else {
        ", \"executable\": \"./a\""
    };
    let application = format!("{application}{program}");
    let application = application.trim_start_matches(',');
    format!("{{\"job\": {{\"job_options\": {{{options}}},\n \"application\": {{{application}}}}}}}")
}

/// Whether `lines` holds each of `wanted`.
fn assert_lines(text: &str, wanted: &[&str]) {
    let lines = lines(text);
    for line in wanted {
        assert!(
            lines.iter().any(|made| made == line),
            "{line} in {lines:#?}"
        );
    }
}

#[test]
fn every_example_of_modak_is_converted_or_named() {
    let (mut whole, mut parts) = (Vec::new(), Vec::new());
    for path in fixtures() {
        let name = path
            .file_name()
            .expect("a name")
            .to_string_lossy()
            .into_owned();
        let text = fs::read_to_string(&path).expect("text");
        match convert(&text, None) {
            Ok(converted) => {
                let _ = spec(&converted);
                assert_eq!(converted.format, Format::Modak);
                let is_whole = converted.refusals().next().is_none();
                if is_whole {
                    whole.push(name)
                } else {
                    parts.push(name)
                }
            }
            Err(problems) => {
                assert_eq!(name, "examples-map_container.json", "{problems:?}");
                assert!(
                    problems[0].message.contains("not a job description"),
                    "{problems:?}"
                );
            }
        }
    }
    // One is a sheet of alternatives, of the others no program is named.
    let is_open =
        |name: &String| name.ends_with("optimisation_dsl.json") || name == "examples-job_data.json";
    assert!(parts.iter().all(is_open), "{parts:?}");
    assert_eq!((whole.len(), parts.len()), (13, 6));
}

#[test]
fn whole_examples_are_rendered_as_they_are() {
    let env = TestEnv::new();
    for path in fixtures() {
        let text = fs::read_to_string(&path).expect("text");
        let is_whole =
            convert(&text, None).is_ok_and(|converted| converted.refusals().next().is_none());
        for scheduler in ["slurm", "torque"] {
            let render = env
                .dlrun(["render", "--no-check", "--scheduler", scheduler])
                .arg(&path)
                .run();
            if is_whole {
                let script = env.write("example.sh", render.code(0).text());
                let _ = env.command("bash", ["-n"]).arg(script).run().code(0);
            } else {
                let _ = render.code(65);
            }
        }
    }
}

#[test]
fn the_large_example_becomes_what_a_person_would_write() {
    let text = fixture("examples-job_data.json");
    assert_lines(
        &text,
        &[
            "name = \"test\"",
            "[run]",
            "command = [\"test_mpi\", \"a\", \"b\", \"c\"]",
            "env = { OMP_NUM_THREADS = \"2\" }",
            "launcher = \"mpi\"",
            "inherit = \"all\"",
            "[resources]",
            "nodes = 4",
            "tasks_per_node = 12",
            "cpus_per_task = 2",
            "gpus_per_node = 2",
            "memory_per_cpu = \"10MiB\"",
            "walltime = \"12h\"",
            "queue = \"standard\"",
            "account = \"test\"",
            "exclusive = true",
            "array = \"1,2,3,4\"",
            "[scheduler]",
            "kind = \"slurm\"",
            "[workload]",
            "parameters = 872684236",
            "samples = 4389",
        ],
    );
    let notes = notes(&text);
    for about in [
        "job_options.core_count",
        "job_options.process_count_per_node",
        "job_options.standard_output_file",
        "job_options.request_specific_nodes",
        "job_options.request_event_notification",
        "job_options.email_address",
        "job_options.defer_job",
        "application.pre-execution",
        "application.post-execution",
        "target.name",
        "optimisation.app_type",
        "optimisation.app_type-hpc",
        "optimisation.app_type-ai_training.ai_framework-keras",
    ] {
        let named = notes
            .iter()
            .filter(|note| note.starts_with(&format!("{about}: ")))
            .count();
        assert_eq!(named, 1, "{about} in {notes:#?}");
    }
}

/// Every key of MODAK's files is in the job file, or named.
#[test]
fn nothing_is_dropped_in_silence() {
    let text = r#"{"job": {
        "job_options": {"foo": 1, "node_count": 1, "combine_stdout_stderr": false},
        "application": {"executable": "./a", "bar": 2, "minimal_efficiency": 0.5, "build": {"src": "x.git", "baz": 3}},
        "target": {"job_scheduler_type": "slurm", "qux": 4},
        "optimisation": {"quux": 5, "opt_build": {"cpu_type": "x86", "corge": 6}},
        "grault": 7}, "garply": 8, "job_script": "x"}"#;
    let notes = notes(text);
    for about in [
        "job_options.foo",
        "job_options.combine_stdout_stderr",
        "application.bar",
        "application.minimal_efficiency",
        "application.build.baz",
        "target.qux",
        "optimisation.quux",
        "optimisation.opt_build.cpu_type",
        "optimisation.opt_build.corge",
        "grault",
        "garply",
        "job_script",
    ] {
        assert!(
            notes
                .iter()
                .any(|note| note.starts_with(&format!("{about}: "))),
            "{about} in {notes:#?}"
        );
    }
}

#[test]
fn ranks_decide_over_nodes_and_tasks() {
    for (options, application, wanted) in [
        // Both tests of MODAK that ask 2 nodes for 80 ranks.
        (
            "\"node_count\": 2, \"process_count_per_node\": 40",
            "\"mpi_ranks\": 80",
            ["nodes = 2", "tasks_per_node = 40"],
        ),
        (
            "\"node_count\": 2, \"process_count_per_node\": 1",
            "\"mpi_ranks\": 80",
            ["nodes = 2", "tasks_per_node = 40"],
        ),
        (
            "\"node_count\": 2, \"core_count\": 40",
            "\"mpi_ranks\": 40",
            ["nodes = 2", "tasks_per_node = 20"],
        ),
        (
            "\"process_count_per_node\": 128",
            "\"mpi_ranks\": 256",
            ["nodes = 2", "tasks_per_node = 128"],
        ),
        (
            "\"node_count\": 3, \"core_count\": 12",
            "\"threads\": 2",
            ["nodes = 3", "tasks_per_node = 4"],
        ),
        (
            "\"node_count\": \"2\"",
            "\"mpi_ranks\": \"4\"",
            ["nodes = 2", "tasks_per_node = 2"],
        ),
    ] {
        let text = modak(options, &format!("\"app_type\": \"mpi\", {application}"));
        assert_lines(&text, &wanted);
        assert_lines(&text, &["launcher = \"mpi\""]);
    }
    let text = modak(
        "\"node_count\": 2, \"process_count_per_node\": 1",
        "\"app_type\": \"hpc\", \"mpi_ranks\": 80",
    );
    assert!(
        notes(&text)[0].contains("the 80 of `mpi_ranks` decide: 40 on each of 2 nodes"),
        "{:?}",
        notes(&text)
    );
}

#[test]
fn threads_are_cpus_and_a_variable() {
    let text = modak(
        "",
        "\"app_type\": \"mpi\", \"mpi_ranks\": 4, \"threads\": 8",
    );
    assert_lines(
        &text,
        &[
            "cpus_per_task = 8",
            "env = { OMP_NUM_THREADS = \"8\" }",
            "tasks = 4",
        ],
    );
    let text = modak(
        "\"process_count_per_node\": 4",
        "\"app_type\": \"mpi\", \"mpi_ranks\": 4, \"threads\": 2",
    );
    assert_lines(
        &text,
        &["env = { OMP_NUM_THREADS = \"2\" }", "tasks_per_node = 4"],
    );
    assert!(
        !lines(&text)
            .iter()
            .any(|line| line.starts_with("cpus_per_task")),
        "the CPUs asked for are 4"
    );
    let text = modak(
        "\"core_count_per_process\": 2",
        "\"app_type\": \"mpi\", \"threads\": 4",
    );
    assert_lines(&text, &["cpus_per_task = 4"]);
}

#[test]
fn a_program_without_mpi_gets_its_cores_and_every_node() {
    let text = modak(
        "\"node_count\": 1, \"process_count_per_node\": 40",
        "\"app_type\": \"python\"",
    );
    assert_lines(&text, &["nodes = 1", "cpus_per_task = 40"]);
    assert!(
        !lines(&text)
            .iter()
            .any(|line| line.starts_with("tasks") || line.starts_with("launcher"))
    );
    let text = modak(
        "\"node_count\": 2, \"core_count\": 80",
        "\"app_type\": \"python\"",
    );
    assert_lines(
        &text,
        &["nodes = 2", "cpus_per_task = 40", "launcher = \"each\""],
    );
    assert!(
        notes(&text)[0].contains("once on each of the 2 nodes"),
        "{:?}",
        notes(&text)
    );
}

#[test]
fn commands_are_words_where_no_shell_is_needed() {
    let command = |executable: &str, arguments: &str| {
        let quoted = |text: &str| serde_json::to_string(text).expect("JSON");
        let (executable, arguments) = (quoted(executable), quoted(arguments));
        let text = modak(
            "",
            &format!("\"executable\": {executable}, \"arguments\": {arguments}"),
        );
        match spec(&converted(&text)).run.command.value {
            Command::Argv(words) => words,
            Command::Script(_) => panic!("a script"),
        }
    };
    assert_eq!(
        command("python3 resnet/x.py", "--a='b c' -d"),
        ["python3", "resnet/x.py", "--a=b c", "-d"]
    );
    assert_eq!(command("a ", "b \\\n  c"), ["a", "b", "c"]);
    assert_eq!(command("a", ""), ["a"]);
    let shell = command("${ROOT}/bin/aster ", "${ROOT}/x.py \\\n--num=1");
    assert_eq!(
        shell,
        ["bash", "-c", "${ROOT}/bin/aster ${ROOT}/x.py \\\n--num=1"]
    );
    let text = modak(
        "",
        "\"executable\": \"./a\", \"pre-execution\": \"mkdir x\", \"post-execution\": \"rm x\"",
    );
    let Command::Argv(words) = spec(&converted(&text)).run.command.value else {
        panic!()
    };
    assert_eq!(words[2], "mkdir x || exit\n./a\ncode=$?\nrm x\nexit $code");
}

#[test]
fn values_of_modak_become_ours() {
    for (options, line) in [
        ("\"wall_time_limit\": \"12:00:00 \"", "walltime = \"12h\""),
        ("\"wall_time_limit\": \"1-12:00:00\"", "walltime = \"36h\""),
        ("\"wall_time_limit\": 5400", "walltime = \"1h30m\""),
        ("\"memory_limit\": \"10 MB\"", "memory = \"10MiB\""),
        ("\"memory_limit\": 64000", "memory = \"64000MiB\""),
        (
            "\"minimum_memory_per_processor\": \"2GB\"",
            "memory_per_cpu = \"2GiB\"",
        ),
        (
            "\"job_dependency\": \"afterok:1:2\"",
            "depends = [\"afterok:1\", \"afterok:2\"]",
        ),
        (
            "\"job_dependency\": \"1234\"",
            "depends = [\"afterok:1234\"]",
        ),
        (
            "\"defer_job\": \"2027-01-31T08:00:00\"",
            "begin = \"2027-01-31T08:00\"",
        ),
        (
            "\"request_specific_nodes\": \"n1+n2\"",
            "nodelist = \"n1,n2\"",
        ),
        ("\"request_specific_nodes\": \"n1\"", "nodelist = \"n1\""),
        (
            "\"node_count\": 4, \"request_specific_nodes\": \"n[1-4]\"",
            "nodelist = \"n[1-4]\"",
        ),
        (
            "\"node_count\": 4, \"request_specific_nodes\": \"BW20\"",
            "constraint = \"BW20\"",
        ),
        ("\"partition\": \"mc\"", "queue = \"mc\""),
        (
            "\"queue\": \"q\", \"request_specific_nodes\": \"ssd\", \"partition\": \"mc\"",
            "constraint = \"ssd&mc\"",
        ),
        (
            "\"copy_environment_variable\": \"A,B=1\"",
            "inherit = [\"A\"]",
        ),
        ("\"copy_environment\": false", "inherit = \"none\""),
        (
            "\"request_event_notification\": \"ae\"",
            "mail = { on = [\"end\", \"fail\"] }",
        ),
        (
            "\"request_event_notification\": \"BEGIN,TIME_LIMIT\"",
            "mail = { on = [\"begin\", \"time_limit\"] }",
        ),
        ("\"qos\": \"long\", \"account\": \"a1\"", "qos = \"long\""),
        ("\"job_name\": \"my job/x\"", "name = \"my-job-x\""),
    ] {
        assert_lines(&modak(options, ""), &[line]);
    }
    for (application, line) in [
        (
            "\"container_runtime\": \"tensorflow/tensorflow:2.1.0\"",
            "uri = \"docker://tensorflow/tensorflow:2.1.0\"",
        ),
        (
            "\"container_runtime\": \"shub://a/b\"",
            "uri = \"shub://a/b\"",
        ),
        (
            "\"container_runtime\": \"/opt/x.sif\"",
            "path = \"/opt/x.sif\"",
        ),
        (
            "\"storage_class_pref\": \"default-ultra_high\"",
            "prefer = \"ultra_high\"",
        ),
        (
            "\"build\": {\"src\": \"a.git\", \"build_command\": \"make -j {{ BUILD_PARALLELISM }}\\n\"}",
            "command = \"make -j {{parallelism}}\"",
        ),
    ] {
        assert_lines(&modak("", application), &[line]);
    }
}

#[test]
fn what_cannot_be_carried_over_forbids_to_submit() {
    for options in [
        "\"node_count\": 0",
        "\"node_count\": \"many\"",
        "\"request_gpus\": -1",
        "\"wall_time_limit\": \"soon\"",
        "\"memory_limit\": \"much\"",
        "\"queue\": \"a b\"",
        "\"job_array\": \"0-9%0\"",
        "\"job_dependency\": \"afterok:1?afterok:2\"",
        "\"defer_job\": \"0800\"",
        "\"node_exclusive\": \"perhaps\"",
    ] {
        let converted = converted(&modak(options, ""));
        let problem = converted
            .refusals()
            .next()
            .unwrap_or_else(|| panic!("{options} is refused"));
        assert!(problem.message.contains("`job_options."), "{problem:?}");
    }
    let env = TestEnv::new();
    let file = env.write("job.json", modak("\"queue\": \"a b\"", ""));
    let done = env
        .dlrun(["submit", "--no-check", "--scheduler", "local"])
        .arg(&file)
        .run()
        .code(65);
    let _ = done
        .warns("`job_options.queue`: must not contain ' '")
        .warns("dlrun convert");
}

#[test]
fn hostile_names_stay_data() {
    let text = modak(
        "\"job_name\": \"x\\\"]\\n[image]\\nnone = true\", \"queue\": \"a\\nb\"",
        "\"executable\": \"./a '\\\"\\u0001' ''' \\\\\"",
    );
    let converted = converted(&text);
    let spec = spec(&converted);
    assert!(
        !spec.image.none && spec.resources.queue.is_none(),
        "{}",
        converted.job_file
    );
}

#[test]
fn what_is_no_description_is_told() {
    for (text, told) in [
        ("", "neither MODAK's JSON nor a script"),
        ("ls\n", "neither MODAK's JSON nor a script"),
        ("{}", "not a job description"),
        ("[{\"job\": 1}]", "not a job description"),
        ("{\"job\": 1}", "not a job description"),
        ("{\"job\": {}}", "not a job description"),
        ("{\"job\": {}", "not valid JSON: EOF"),
        ("#SBATCH -n 1\0\n", "NUL"),
        (
            "#SBATCH -n 2\n#SBATCH hetjob\n#SBATCH -n 4\ntrue\n",
            "several components",
        ),
        ("#PBS -l nodes=1:ppn=2+1:ppn=4\ntrue\n", "several kinds"),
    ] {
        assert!(problem(text).contains(told), "{text}: {}", problem(text));
    }
    let big = "x".repeat((1 << 20) + 1);
    assert!(problem(&big).contains("1 MiB"));
}

#[test]
fn the_verb_prints_a_job_file_and_names_the_rest() {
    let env = TestEnv::new();
    let file = env.write("a.json", fixture("test-mpi_test_egi.json"));
    let done = env.dlrun(["convert"]).arg(&file).run().code(0);
    let _ = parse(&done.text()).expect("a job file");
    assert!(
        done.stderr
            .contains("note: job_options.process_count_per_node: "),
        "{}",
        done.stderr
    );
    assert_eq!(
        done.stderr.lines().count(),
        done.stderr.matches("note: ").count()
    );
    let result = env
        .dlrun(["convert", "--json"])
        .arg(&file)
        .run()
        .code(0)
        .result();
    assert_eq!(result["from"], "modak", "{result}");
    assert_eq!(result["job_file"].as_str(), Some(done.text().as_str()));
    assert_eq!(
        env.dlrun(["convert", "--json"])
            .arg(&file)
            .run()
            .code(0)
            .stderr,
        ""
    );

    let _ = env
        .dlrun(["convert", "-o", "b.toml"])
        .arg(&file)
        .run()
        .code(0);
    let written = fs::read_to_string(file.with_file_name("b.toml")).expect("it is written");
    assert_eq!(written, done.text());
    let _ = env
        .dlrun(["convert", "-o", "b.toml"])
        .arg(&file)
        .run()
        .code(73)
        .warns("File exists");
    let _ = env
        .dlrun(["check", "--no-check", "--scheduler", "slurm", "b.toml"])
        .run()
        .code(0);

    env.write("broken.json", "{\n  \"job\": }\n");
    let error = env
        .dlrun(["convert", "--json", "broken.json"])
        .run()
        .code(65)
        .error();
    let message = error["problems"][0]["message"].to_string();
    assert!(message.contains("line 2 column 10"), "{message}");
    let _ = env.dlrun(["convert", "nowhere.json"]).run().code(66);
}

#[test]
fn verbs_take_modaks_json_itself() {
    let env = TestEnv::new();
    let text = modak(
        "\"node_count\": 1,\n\"standard_output_file\": \"x\"",
        "\"executable\": \"true\"",
    );
    let file = env.write("run.json", &text);
    let done = env
        .dlrun(["check", "--scheduler", "local"])
        .arg(&file)
        .run()
        .code(0);
    let _ = done
        .says("run.json is valid")
        .warns("job_options.standard_output_file: dlrun writes");
    let _ = env
        .dlrun(["submit", "--scheduler", "local", "--wait"])
        .arg(&file)
        .run()
        .code(0)
        .says("run");
    // A fault that only the plan finds names the key.
    let file = env.write(
        "two.json",
        modak("\n\"node_count\": 2", "\"app_type\": \"python\""),
    );
    let error = env
        .dlrun(["check", "--no-check", "--scheduler", "local", "--json"])
        .arg(&file)
        .run()
        .code(65)
        .error();
    assert!(error.to_string().contains("nodes"), "{error}");
}

#[test]
fn a_script_is_named_as_one_where_a_job_file_is_wanted() {
    let env = TestEnv::new();
    let file = env.write("run.pbs", "#PBS -N x\ncd $PBS_O_WORKDIR\ntrue\n");
    let _ = env
        .dlrun(["check"])
        .arg(&file)
        .run()
        .code(65)
        .warns("is a batch script, no job file");
    let told = env
        .dlrun(["check"])
        .arg(env.write("no.toml", "[run]\n"))
        .run()
        .code(65)
        .stderr;
    assert!(!told.contains("convert"), "{told}");
}

#[test]
fn sbatch_options_in_all_spellings() {
    let script =
        |options: &str| format!("#!/bin/bash\n#SBATCH {options}\nsrun python train.py --x 1\n");
    for (options, wanted) in [
        ("-N2 -n 8", &["nodes = 2", "tasks = 8"][..]),
        (
            "--nodes 2 --ntasks-per-node=4",
            &["nodes = 2", "tasks_per_node = 4"],
        ),
        ("--nodes=2-4 -c 7", &["nodes = 2", "cpus_per_task = 7"]),
        (
            "--ntasks=6 --ntasks-per-node=4",
            &["tasks = 6", "tasks_per_node = 4"],
        ),
        ("--gres=gpu:v100:2", &["gpus_per_node = \"v100:2\""]),
        (
            "--gres=gpu:2,nvme:1",
            &["gpus_per_node = 2", "directives = [\"--gres=nvme:1\"]"],
        ),
        ("--gres=gpu", &["gpus_per_node = 1"]),
        ("--gpus-per-node=a100:4", &["gpus_per_node = \"a100:4\""]),
        ("-N 2 -G 8", &["directives = [\"--gpus=8\"]"]),
        (
            "--gres=gpu:2 --gpus=2",
            &["directives = [\"--gpus=2\", \"--gres=gpu:2\"]"],
        ),
        ("-N 2 -G 7", &["directives = [\"--gpus=7\"]"]),
        ("-G 8", &["directives = [\"--gpus=8\"]"]),
        (
            "--ntasks-per-node=4 --gpus-per-task=1",
            &["gpus_per_task = 1", "tasks_per_node = 4"],
        ),
        (
            "-n 2 --gpus-per-task=v100:2",
            &["gpus_per_task = \"v100:2\"", "tasks = 2"],
        ),
        (
            "-G 4 --gpus-per-task=1",
            &["directives = [\"--gpus=4\", \"--gpus-per-task=1\"]"],
        ),
        (
            "--gpus-per-task=0",
            &["directives = [\"--gpus-per-task=0\"]"],
        ),
        ("--mem 10G", &["memory = \"10GiB\""]),
        ("--mem=0", &["directives = [\"--mem=0\"]"]),
        ("--mem-per-cpu=4000", &["memory_per_cpu = \"4000MiB\""]),
        ("-t 90", &["walltime = \"1h30m\""]),
        ("--time=1-12:00:00", &["walltime = \"36h\""]),
        ("-t 30:00", &["walltime = \"30m\""]),
        ("-t UNLIMITED", &["directives = [\"--time=UNLIMITED\"]"]),
        (
            "-p gpu -A a1 -q long",
            &["queue = \"gpu\"", "account = \"a1\"", "qos = \"long\""],
        ),
        ("-J x -a 0-9%2", &["name = \"x\"", "array = \"0-9%2\""]),
        (
            "-d afterok:1:2",
            &["depends = [\"afterok:1\", \"afterok:2\"]"],
        ),
        (
            "-d singleton",
            &["directives = [\"--dependency=singleton\"]"],
        ),
        ("-b 2027-01-31T08:00:00", &["begin = \"2027-01-31T08:00\""]),
        ("-b now+1hour", &["directives = [\"--begin=now+1hour\"]"]),
        (
            "-C 'a&b' -w n[1-2] -x n3",
            &[
                "constraint = \"a&b\"",
                "nodelist = \"n[1-2]\"",
                "exclude = \"n3\"",
            ],
        ),
        (
            "-L matlab:2,ansys",
            &["licenses = { matlab = 2, ansys = 1 }"],
        ),
        (
            "--mail-type=END --mail-user=a@b.org",
            &["mail = { to = \"a@b.org\", on = [\"end\"] }"],
        ),
        (
            "--exclusive --reservation=r1",
            &["exclusive = true", "reservation = \"r1\""],
        ),
        (
            "--exclusive=user --requeue",
            &["directives = [\"--exclusive=user\", \"--requeue\"]"],
        ),
        ("--export=NONE", &["directives = [\"--export=NONE\"]"]),
        ("--export=ALL,A=1", &["directives = [\"--export=ALL,A=1\"]"]),
        ("-D /scratch/x", &["workdir = \"/scratch/x\""]),
        (
            "--comment=\"a b\" --nice",
            &["directives = ['--comment=\"a b\"', \"--nice\"]"],
        ),
    ] {
        assert_lines(&script(options), wanted);
        assert_lines(&script(options), &["kind = \"slurm\""]);
    }
    let both = script("--mail-type=BEGIN\n#SBATCH --mail-type=END --mail-user=");
    assert_lines(&both, &["mail = { on = [\"begin\", \"end\"] }"]);
    let text = script("-o x.out -p a\n#SBATCH -p b --parsable lost");
    assert_lines(&text, &["queue = \"b\""]);
    let notes = notes(&text);
    for about in ["--output", "--partition", "--parsable", "lost"] {
        assert!(
            notes
                .iter()
                .any(|note| note.starts_with(&format!("{about}: "))),
            "{about} in {notes:#?}"
        );
    }
}

#[test]
fn job_without_a_name_has_its_scripts() {
    assert_lines("#SBATCH -N 1\n./a\n", &["name = \"job.sh\""]);
    assert_lines("#PBS -l nodes=1\n./a\n", &["name = \"job.sh\""]);
    assert_lines("#SBATCH -J x\n./a\n", &["name = \"x\""]);
}

#[test]
fn script_of_a_login_shell_is_kept_with_its_shell() {
    assert_lines(
        "#!/bin/bash -l\n#SBATCH -N 1\n./a\n",
        &["command = [\"/bin/bash\", \"-l\", \"job.sh\"]"],
    );
}

#[test]
fn pbs_options_of_both_dialects() {
    let script = |options: &str| format!("#PBS {options}\ncd $PBS_O_WORKDIR\nmpirun ./a\n");
    for (options, wanted) in [
        (
            "-l nodes=2:ppn=4:gpus=1:ssd",
            &[
                "nodes = 2",
                "tasks_per_node = 4",
                "gpus_per_node = 1",
                "constraint = \"ssd\"",
                "kind = \"torque\"",
            ][..],
        ),
        (
            "-l nodes=n1:ppn=2+n2:ppn=2",
            &["nodes = 2", "tasks_per_node = 2", "nodelist = \"n1,n2\""],
        ),
        (
            "-l nodes=1,walltime=30:00",
            &["nodes = 1", "walltime = \"30m\""],
        ),
        ("-l walltime=3600", &["walltime = \"1h\""]),
        ("-l nodes=2:ppn=1,mem=10gb", &["memory = \"5GiB\""]),
        (
            "-l pmem=2gb -l qos=long",
            &["memory_per_cpu = \"2GiB\"", "qos = \"long\""],
        ),
        ("-l procs=8", &["tasks_per_node = 8"]),
        (
            "-l select=2:ncpus=8:mpiprocs=4:ngpus=1:mem=10gb:ompthreads=2",
            &[
                "nodes = 2",
                "tasks_per_node = 4",
                "cpus_per_task = 2",
                "gpus_per_node = 1",
                "memory = \"10GiB\"",
                "env = { OMP_NUM_THREADS = \"2\" }",
                "kind = \"openpbs\"",
            ],
        ),
        ("-l select=1 -l place=scatter:excl", &["exclusive = true"]),
        (
            "-l cput=1:00:00,foo=1",
            &["directives = [\"-l cput=1:00:00\", \"-l foo=1\"]"],
        ),
        (
            "-W depend=afterok:1.srv:2.srv",
            &["depends = [\"afterok:1.srv\", \"afterok:2.srv\"]"],
        ),
        ("-W group_list=x", &["directives = [\"-W group_list=x\"]"]),
        (
            "-m abe -M a@b.org",
            &["mail = { to = \"a@b.org\", on = [\"begin\", \"end\", \"fail\"] }"],
        ),
        ("-t 0-9%2", &["array = \"0-9%2\"", "kind = \"torque\""]),
        ("-J 0-9", &["array = \"0-9\"", "kind = \"openpbs\""]),
        ("-v A,B=1", &["inherit = [\"A\"]", "env = { B = \"1\" }"]),
        (
            "-V -q batch -A x -N y",
            &[
                "inherit = \"all\"",
                "queue = \"batch\"",
                "account = \"x\"",
                "name = \"y\"",
            ],
        ),
        ("-j oe -r n", &["directives = [\"-r n\"]"]),
    ] {
        assert_lines(&script(options), wanted);
        assert_lines(&script(options), &["script = \"job.sh\""]);
    }
    let shared = spec(&converted(&script("-l walltime=1:00:00 -r n")));
    assert_eq!(shared.scheduler.kind, None, "it is found at submission");
    let alone = "#PBS -l nodes=1:ppn=8\ncd $PBS_O_WORKDIR\n./a\n";
    assert_lines(alone, &["nodes = 1", "tasks_per_node = 8"]);
    let refused = converted("#PBS -l nodes=0\n./a\n");
    assert!(refused.refusals().next().is_some());
}

#[test]
fn scripts_that_do_more_are_kept() {
    let text = "#!/bin/bash\n#SBATCH -N 2\necho start\nsrun ./a\n";
    let spec_of = |text: &str| spec(&converted(text));
    let kept = spec_of(text);
    assert_eq!(kept.run.command.value, Command::Script("job.sh".to_owned()));
    assert_eq!(
        kept.run.launcher.map(|launcher| launcher.value),
        Some(Launcher::None)
    );
    assert!(kept.run.idle_nodes);
    assert!(
        notes(text)
            .iter()
            .any(|note| note.contains("its directives have no effect")),
        "{:?}",
        notes(text)
    );

    let elsewhere = spec_of("#SBATCH -D /x\necho a\necho b\n");
    assert_eq!(
        elsewhere.run.command.value,
        Command::Script("/home/u/job.sh".to_owned())
    );
    let python = spec_of("#!/usr/bin/env python3\n#SBATCH -n 1\nprint(1)\n");
    let words = ["/usr/bin/env", "python3", "job.sh"]
        .map(str::to_owned)
        .to_vec();
    assert_eq!(python.run.command.value, Command::Argv(words));

    let piped = convert(text, None).expect("bash reads it");
    assert_eq!(
        spec(&piped).run.command.value,
        Command::Argv(vec!["bash".into(), "-c".into(), text.into()])
    );
    assert!(convert("#!/bin/csh\n#SBATCH -n 1\necho a\necho b\n", None).is_err());
    let late = "#SBATCH -n 1\ntrue\n#SBATCH -p late\n";
    assert!(spec_of(late).resources.queue.is_none());
    assert!(
        notes(late)[1].contains("no scheduler reads it"),
        "{:?}",
        notes(late)
    );
}

#[test]
fn a_kept_script_is_named_as_the_job_file_finds_it() {
    let env = TestEnv::new();
    let file = env.write("kept.sh", "#SBATCH -n 1\necho a\necho b\n");
    let dir = file.parent().expect("a directory").to_owned();
    let _ = env
        .dlrun(["convert", "kept.sh", "-o", "beside.toml"])
        .run()
        .code(0);
    let text = fs::read_to_string(dir.join("beside.toml")).expect("written");
    assert!(text.contains("script = \"kept.sh\""), "{text}");
    let _ = env
        .dlrun(["convert", "kept.sh", "-o", "../tmp/far.toml"])
        .run()
        .code(0);
    let text = fs::read_to_string(dir.join("../tmp/far.toml")).expect("written");
    assert!(
        text.contains(&format!("script = \"{}\"", file.display())),
        "{text}"
    );
    let _ = env
        .dlrun(["check", "--scheduler", "slurm", "--no-check", "beside.toml"])
        .run()
        .code(0);
}

fn pieces() -> impl Strategy<Value = String> {
    let words = [
        "#SBATCH ",
        "#PBS ",
        "-l ",
        "nodes=",
        "select=",
        "2:ppn=3",
        "1:ncpus=2",
        "+",
        ":",
        ",",
        "=",
        "--mem",
        "-N",
        "-t ",
        "1-0",
        "\n",
        " ",
        "'",
        "\"",
        "\\",
        "srun a",
        "export A=1",
        "gpu:v100:2",
        "--gres=",
        "999999999999",
        "é",
        "\r\n",
        "#",
        "-W depend=",
        "afterok:1",
        "--",
        "module load x",
    ];
    prop::collection::vec(prop::sample::select(words.to_vec()), 0..40)
        .prop_map(|words| words.concat())
}

proptest! {
    #[test]
    fn no_text_panics_and_what_is_made_is_read(text in "\\PC{0,80}", pieces in pieces()) {
        for text in [text.clone(), pieces.clone(), format!("#SBATCH -n 1\n{pieces}"), format!("#PBS -q a\n{pieces}"), format!("{{{text}")] {
            for place in [None, Some(&place())] {
                if let Ok(made) = convert(&text, place) {
                    prop_assert!(parse(&made.job_file).is_ok(), "{}", made.job_file);
                }
            }
        }
    }

    /// A description whose values are anything at all.
    #[test]
    fn any_values_of_modak_are_read_or_refused(
        file in 0_usize..20, key in 0_usize..64, value in "\\PC{0,12}|[0-9]{1,22}|[a-z:,/+\"'\\\\\n\u{7f}-]{0,14}", bare in any::<bool>(),
    ) {
        let path = fixtures().remove(file);
        let text = fs::read_to_string(path).expect("text");
        let places: Vec<usize> = text.match_indices("\": ").map(|(at, _)| at + 3).collect();
        let at = places[key % places.len()];
        let end = text[at..].find(['\n', ',']).map_or(text.len(), |end| at + end);
        let is_number = bare && value.parse::<f64>().is_ok();
        let value = if is_number { value } else { serde_json::to_string(&value).expect("JSON") };
        let text = format!("{}{value}{}", &text[..at], &text[end..]);
        if let Ok(made) = convert(&text, None) {
            prop_assert!(parse(&made.job_file).is_ok(), "{}", made.job_file);
        }
    }
}

#[test]
fn output_with_the_jobs_id_is_kept_and_another_is_named() {
    let made = |line: &str| {
        convert(
            &format!("#!/bin/bash\n#SBATCH {line}\npython3 a.py\n"),
            None,
        )
        .expect("a job")
    };
    for kept in ["--output=logs/%x-%j.out", "-o %j.log"] {
        assert!(made(kept).job_file.contains("output = "), "{kept}");
    }
    let of_array = made("--array=0-3 --output=logs/%A_%a.out");
    assert!(
        of_array.job_file.contains("output = \"logs/%A_%a.out\""),
        "{}",
        of_array.job_file
    );
    // Each element has a job id of its own in `%j`.
    let of_elements = made("--array=0-3 --output=logs/%j.out");
    assert!(
        of_elements.job_file.contains("output = \"logs/%A_%a.out\""),
        "{}",
        of_elements.job_file
    );
    for named in [
        "--output=%j_%a.out",
        "--output=all.log",
        "--output=%N-%j.out",
        "--error=%j.err",
    ] {
        let converted = made(named);
        assert!(
            !converted.job_file.contains("output = ") && !converted.notes.is_empty(),
            "{named}"
        );
    }
}
