//! `dlrun bench run` and `bench show`: matrices of a small shell program on the local scheduler.

use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};

use nix::sys::signal::Signal;
use serde_json::{Value, json};

use crate::support::{TestEnv, wait_for};

/// A training that notes its words in `ran`, then tells epochs; the more threads, the shorter they are.
const PROGRAM: &str = r#"
echo "$1 $2" >>ran
sleep "${3:-0}"
[ "$1-$2" = "${FAILS:-none}" ] && exit 3
count=$(wc -l <ran)
echo "Epoch 1/3 - 9.50$((count % 7))00 s - loss: 0.5"
echo "Epoch 2/3 - $((8 / $2)).25$((count % 7))00 s - loss: 0.4"
echo "Epoch 3/3 - $((8 / $2)).25$((count % 7))00 s - loss: 0.3"
"#;

const HEAD: &str = "[run]\ncommand = [\"sh\", \"step.sh\", \"{{batch_size}}\", \"{{threads}}\", \"PAUSE\"]\nenv = { FAILS = \"FAILING\" }\n";

const BENCH: &str = "[workload]\nsamples = 1000\n[bench]\nrepeats = 2\n[bench.axes]\nworkload.batch_size = [64, 256]\nvars.threads = [1, 2]\n";

/// A matrix of four cells with two repeats; each run takes `pause` seconds, and that with the words `failing` fails.
fn matrix(env: &TestEnv, pause: &str, failing: &str) -> PathBuf {
    let _ = env.write("step.sh", PROGRAM);
    let text = format!("{HEAD}{BENCH}")
        .replace("PAUSE", pause)
        .replace("FAILING", failing);
    env.write("small.toml", text)
}

/// How often each cell's program was started.
fn ran(env: &TestEnv) -> BTreeMap<String, usize> {
    let text = fs::read_to_string(env.jobs().join("ran")).unwrap_or_default();
    let mut counts = BTreeMap::new();
    text.lines()
        .for_each(|line| *counts.entry(line.to_owned()).or_default() += 1);
    counts
}

fn each_twice() -> BTreeMap<String, usize> {
    ["64 1", "64 2", "256 1", "256 2"]
        .map(|words| (words.to_owned(), 2))
        .into()
}

fn bench(env: &TestEnv, file: &Path) -> crate::support::env::Dlrun {
    env.dlrun(["bench", "run", "--scheduler", "local"])
        .arg(file)
}

#[test]
fn every_cell_runs_as_often_as_asked_and_the_end_is_a_table() {
    let env = TestEnv::new();
    let file = matrix(&env, "0", "none");
    let done = bench(&env, &file).arg("--json").run().code(0);
    assert_eq!(ran(&env), each_twice());
    assert_eq!(done.envelope()["operation"], "bench run");
    let result = done.result();
    assert_eq!(
        (
            &result["runs_asked"],
            &result["runs_measured"],
            &result["runs_failed"]
        ),
        (&json!(8), &json!(8), &json!(0))
    );
    let cells = result["cells"].as_array().expect("a list");
    assert_eq!(cells.len(), 4);
    assert_eq!(cells[1]["values"], json!(["64", "2"]));
    for cell in cells {
        let seconds = if cell["values"][1] == "1" { 8.25 } else { 4.25 };
        let median = cell["epoch_seconds_median"].as_f64().expect("measured");
        assert!((median - seconds).abs() < 0.01, "{cell}");
        assert_eq!(
            (&cell["runs"], &cell["results"][0]["epochs"]),
            (&json!(2), &json!(2)),
            "{cell}"
        );
        let rate = cell["samples_per_second"]
            .as_f64()
            .expect("samples are known");
        assert!((rate - 1000.0 / median).abs() < 1e-6, "{cell}");
    }
    let effect = &result["effects"][1];
    assert_eq!(
        (&effect["axis"], &effect["pairs"]),
        (&json!("vars.threads"), &json!(2))
    );
    let ratio = effect["time_ratio"].as_f64().expect("a ratio");
    assert!(
        (ratio - 4.25 / 8.25).abs() < 0.01 && effect["significant"] == true,
        "{effect}"
    );
    let of_batch = &result["effects"][0];
    assert!(
        (of_batch["time_ratio"].as_f64().expect("a ratio") - 1.0).abs() < 0.01,
        "{of_batch}"
    );

    // The runs are ordinary ones.
    let listed = env.dlrun(["list", "--json"]).run().code(0).result();
    assert_eq!(listed["runs"].as_array().map(Vec::len), Some(8));
    assert!(
        listed["runs"][0]["name"]
            .as_str()
            .is_some_and(|name| name.starts_with("small-")),
        "{listed}"
    );
    // What is done is not done again.
    let again = bench(&env, &file)
        .run()
        .code(0)
        .says("vars.threads")
        .says("shorter")
        .warns("2 repeats are few");
    assert_eq!(ran(&env), each_twice());
    let shown = env.dlrun(["bench", "show", "small"]).run().code(0);
    assert_eq!(shown.text(), again.text());
    assert_eq!(
        env.dlrun(["bench", "show", "--json"])
            .run()
            .code(0)
            .result()["cells"],
        result["cells"]
    );
    // More repeats go on where fewer ended.
    let _ = bench(&env, &file)
        .args(["--repeats", "3", "--max-jobs", "2"])
        .run()
        .code(0);
    assert_eq!(ran(&env).values().collect::<Vec<_>>(), [&3; 4]);
    // Asked for fewer, none that is measured goes out of the figures.
    let _ = bench(&env, &file).run().code(0).says("12 of 12 count");
    assert_eq!(ran(&env).values().collect::<Vec<_>>(), [&3; 4]);
}

#[test]
fn a_killed_bench_goes_on_and_no_run_is_lost_or_doubled() {
    let env = TestEnv::new();
    let file = matrix(&env, "0.5", "none");
    for runs in [1, 4] {
        let started = bench(&env, &file).start();
        wait_for("runs of the matrix", || {
            ran(&env).values().sum::<usize>() > runs
        });
        started.signal(Signal::SIGKILL);
        let _ = started.finish().killed_by(Signal::SIGKILL);
    }
    let _ = bench(&env, &file).run().code(0).warns("resumed");
    assert_eq!(ran(&env), each_twice());
    let listed = env.dlrun(["list", "--json"]).run().code(0).result();
    assert_eq!(listed["runs"].as_array().map(Vec::len), Some(8));
}

#[test]
fn a_torn_journal_and_a_run_that_never_was_are_mended() {
    let env = TestEnv::new();
    let file = matrix(&env, "0", "none");
    let _ = bench(&env, &file).args(["--repeats", "1"]).run().code(0);
    let benches = env.state().join("benches");
    let id = fs::read_dir(&benches)
        .expect("a directory")
        .flatten()
        .next()
        .expect("a matrix")
        .path();
    let journal = fs::read_to_string(id.join("journal.jsonl")).expect("a journal");
    // Noted but never handed over, as by a kill in between; the line after it was cut off.
    let orphan = r#"{"what":"begun","at_ms":1,"cell":0,"repeat":1,"run_id":"zzzzzzzzzzzzzzzz"}"#;
    fs::write(
        id.join("journal.jsonl"),
        format!("{journal}{orphan}\n{}", &orphan[..20]),
    )
    .expect("it is ours");
    let done = bench(&env, &file).run().code(0);
    let _ = done.warns("1 line of").warns("cannot be read");
    assert_eq!(ran(&env), each_twice());
}

#[test]
fn two_at_once_are_refused_and_ctrl_c_tells_what_goes_on() {
    let env = TestEnv::new();
    let file = matrix(&env, "0.6", "none");
    let started = bench(&env, &file).start();
    wait_for("a run of the matrix", || !ran(&env).is_empty());
    let second = bench(&env, &file).arg("--json").run().code(75);
    let message = second.error()["message"].to_string();
    assert!(
        message.contains("another dlrun (pid ") && message.contains("runs the matrix `small`"),
        "{message}"
    );
    let so_far = env
        .dlrun(["bench", "show", "--json"])
        .run()
        .code(0)
        .result();
    assert!(
        so_far["remarks"][0]
            .as_str()
            .is_some_and(|remark| remark.contains("are not over")),
        "{so_far}"
    );
    started.signal(Signal::SIGINT);
    let _ = started
        .finish()
        .code(75)
        .warns("interrupted; still running: ")
        .warns("the same command continues");
    let _ = bench(&env, &file).run().code(0);
    assert_eq!(ran(&env), each_twice());
}

#[test]
fn a_cell_that_fails_is_tried_again_once_and_then_told() {
    let env = TestEnv::new();
    let file = matrix(&env, "0", "256-2");
    let done = bench(&env, &file).run().code(10);
    let mut expected = each_twice();
    expected.insert("256 2".to_owned(), 4);
    assert_eq!(ran(&env), expected);
    let done = done
        .says("2 of 8 runs failed")
        .says("it counts for nothing")
        .says("6 of 8 count, 2 failed");
    let _ = done.warns("it is tried again");
    let result = env
        .dlrun(["bench", "show", "small", "--json"])
        .run()
        .code(0)
        .result();
    assert_eq!(
        result["cells"][3]["failures"].as_array().map(Vec::len),
        Some(4)
    );
    assert_eq!(
        (
            &result["cells"][3]["runs"],
            &result["cells"][3]["epoch_seconds_median"]
        ),
        (&json!(0), &Value::Null)
    );
    // Begun anew everything runs again; what was measured is kept.
    let _ = bench(&env, &file)
        .arg("--restart")
        .args(["--repeats", "1"])
        .run()
        .code(10)
        .warns("earlier results are kept in ");
    assert_eq!(ran(&env).values().sum::<usize>(), 10 + 5);
}

#[test]
fn where_nothing_succeeds_the_rest_is_not_begun() {
    let env = TestEnv::new();
    let _ = env.write("step.sh", "echo x >>ran; exit 1\n");
    let file = env.write("small.toml", format!("{HEAD}{BENCH}"));
    let hopeless = bench(&env, &file)
        .args(["--repeats", "20"])
        .run()
        .code(10)
        .warns("nothing succeeded");
    let _ = hopeless.warns("failed: the program ended with exit code 1; it is tried again");
    assert_eq!(ran(&env).values().sum::<usize>(), 5);
}

#[test]
fn faults_are_told_with_their_place_before_anything_is_queued() {
    let env = TestEnv::new();
    let file = matrix(&env, "0", "none");
    let text = fs::read_to_string(&file).expect("it is there");
    for (from, to, code, line, part) in [
        (
            "[64, 256]",
            "[64, 0]",
            65,
            9,
            "cell 3 (batch_size=0 threads=1): `workload.batch_size` must be",
        ),
        (
            "[64, 256]",
            "64",
            65,
            9,
            "`bench.axes.workload.batch_size` must be a list of values",
        ),
        (
            "{{threads}}",
            "{{thread}}",
            65,
            10,
            "the variable `vars.threads`",
        ),
        (
            "{{threads}}",
            "{{threads}}{{y}}",
            65,
            2,
            "nothing has the name of {{y}}",
        ),
        (
            "repeats = 2",
            "repeat = 2",
            65,
            7,
            "unknown key `bench.repeat`",
        ),
        (
            "samples = 1000",
            "sample = 1000",
            65,
            5,
            "unknown key `workload.sample`",
        ),
        (
            "\"step.sh\"",
            "\"other.sh\"",
            66,
            2,
            "other.sh is not a file",
        ),
    ] {
        fs::write(&file, text.replace(from, to)).expect("it is ours");
        let error = bench(&env, &file).arg("--json").run().code(code).error();
        let problem = &error["problems"][0];
        assert_eq!(problem["line"], line, "{to}: {error}");
        assert!(
            problem["message"]
                .as_str()
                .is_some_and(|message| message.contains(part)),
            "{to}: {error}"
        );
    }
    fs::write(&file, &text).expect("it is ours");
    let _ = env.dlrun(["bench", "show", "--json"]).run().code(66);
    let _ = env.dlrun(["bench", "run", "nowhere.toml"]).run().code(66);
    assert!(!env.jobs().join("ran").exists());
}

#[test]
fn a_dry_run_tells_every_job_and_hostile_values_stay_words() {
    let env = TestEnv::new();
    let _ = env.write("step.sh", PROGRAM);
    let text = "name = \"dry\"\n[run]\ncommand = [\"sh\", \"step.sh\", \"{{x}}\", \"1\"]\n[bench.axes]\n\
                vars.x = [\"$(touch hurt) `touch hurt`; touch hurt\", \"../../x\", \"a' b\"]\n";
    let file = env.write("dry.toml", text);
    let dry = bench(&env, &file)
        .args(["--dry-run", "--json"])
        .run()
        .code(0)
        .result();
    assert_eq!(
        (&dry["runs"], dry["cells"].as_array().map(Vec::len)),
        (&json!(15), Some(3))
    );
    let job_file = |dry: &Value| {
        dry["cells"][0]["job_file"]
            .as_str()
            .expect("text")
            .to_owned()
    };
    assert!(
        job_file(&dry).contains("exclusive = true"),
        "jobs of this machine share it otherwise"
    );
    let _slurm = env.fake_slurm();
    let of_slurm = env
        .dlrun([
            "bench",
            "run",
            "--scheduler",
            "slurm",
            "--dry-run",
            "--json",
        ])
        .arg(&file);
    assert!(job_file(&of_slurm.run().code(0).result()).contains("exclusive = true"));
    assert!(!env.state().join("benches").exists());
    let _ = bench(&env, &file)
        .arg("--dry-run")
        .run()
        .code(0)
        .says("dry: 3 cells, 5 repeats, 15 runs, 1 at a time");
    let _ = bench(&env, &file).args(["--repeats", "1"]).run().code(0);
    assert_eq!(ran(&env).keys().collect::<Vec<_>>().len(), 3);
    assert!(!env.jobs().join("hurt").exists());
}

/// The matrices of `jobs`: every cell is a job file that says what it must.
#[test]
fn the_matrices_of_the_example_are_valid() {
    for (name, cells) in [
        ("bench/mnist", 32),
        ("bench/resnet50", 2),
        ("distributed/scaling", 15),
    ] {
        let path = Path::new(env!("CARGO_MANIFEST_DIR")).join(format!("jobs/{name}.toml"));
        let text = fs::read_to_string(&path).expect("it is there");
        let matrix = dlrun::learn::bench::parse(&text, "name").expect("valid");
        assert_eq!(matrix.len(), cells, "{name}");
        for number in 0..cells {
            let cell = matrix.cell(number).expect("all names are known");
            let spec = dlrun::job::parse(&cell.job_file).expect("a job file");
            assert!(
                spec.workload.model.is_some() && spec.workload.samples.is_some(),
                "{}",
                cell.job_file
            );
            assert!(!cell.job_file.contains("{{"), "{}", cell.job_file);
        }
    }
}
