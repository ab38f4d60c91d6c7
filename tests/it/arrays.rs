//! Runs that are arrays, with a fake Slurm: what each verb makes of their elements.

use std::fs;
use std::path::PathBuf;
use std::time::UNIX_EPOCH;

use serde_json::Value;

use crate::support::{TestEnv, wait_for};

/// An array of job 4711 that was submitted to the fake.
struct Array {
    env: TestEnv,
    id: String,
    now: u64,
}

impl Array {
    fn submit(indexes: &str) -> Self {
        let env = TestEnv::new();
        let _ = env.fake_slurm();
        let file = env.job("true", &format!("[resources]\narray = \"{indexes}\""));
        let done = env.dlrun(["submit", "--json"]).arg(file).run().code(0);
        let id = done.result()["run_id"].as_str().expect("an id").to_owned();
        Self {
            env,
            id,
            now: UNIX_EPOCH.elapsed().expect("a clock").as_secs(),
        }
    }

    /// What `squeue` says from here on: id, state and reason of each line.
    fn queue(&self, lines: &[(&str, &str, &str)]) {
        let now = self.now;
        let line = |(id, state, reason): &(&str, &str, &str)| {
            let (start, end) = match *state {
                "PENDING" => ("N/A".to_owned(), "N/A".to_owned()),
                "RUNNING" => (now.to_string(), "N/A".to_owned()),
                _ => (now.to_string(), now.to_string()),
            };
            format!("{id}|{state}|{now}|{start}|{end}|n1|{reason}\n")
        };
        let _ = self
            .env
            .fake("squeue")
            .stdout(&lines.iter().map(line).collect::<String>());
    }

    /// A mark of an attempt, `start` or `end`.
    fn mark(&self, attempt: &str, name: &str, exit_code: &str) {
        let dir = self.env.run_dir(&self.id).join(attempt);
        fs::create_dir_all(&dir).expect("ours");
        let at_ms = self.now * 1000;
        let mark = format!(
            r#"{{"format":1,"at_ms":{at_ms},"node":"n7","job_id":"4800","exit_code":{exit_code}}}"#
        );
        fs::write(dir.join(format!("{name}.json")), mark).expect("ours");
    }

    fn ended(&self, element: u32, exit_code: u8) {
        self.mark(&format!("{element}.0"), "start", "null");
        self.mark(&format!("{element}.0"), "end", &exit_code.to_string());
    }

    fn output(&self, element: u32, text: &str) -> PathBuf {
        self.env.write(&format!("job-4711_{element}.out"), text)
    }

    fn listed(&self) -> Value {
        self.env.dlrun(["list", "--json"]).run().code(0).result()["runs"][0].clone()
    }

    fn show(&self) -> Value {
        self.env.show(&self.id)
    }
}

#[test]
fn list_and_show_count_the_elements() {
    let array = Array::submit("0-9%2");
    array.ended(0, 0);
    array.ended(1, 3);
    array.queue(&[
        ("4711_2", "RUNNING", "None"),
        ("4711_[3-9%2]", "PENDING", "JobArrayTaskLimit"),
    ]);
    let run = array.listed();
    assert_eq!(
        (&run["state"], &run["stuck"]),
        (&"running".into(), &false.into()),
        "{run}"
    );
    let expected = serde_json::json!({
        "total": 10, "states": { "completed": 1, "failed": 1, "running": 1, "pending": 7 },
    });
    assert_eq!(run["elements"], expected);
    assert_eq!(run["reason"], "JobArrayTaskLimit");
    let _ = array
        .env
        .dlrun(["list"])
        .run()
        .code(0)
        .says("ELEMENTS")
        .says(" 2/10 ");
    let shown = array.env.dlrun(["show", &array.id]).run().code(0);
    let shown = shown
        .says("elements   2 of 10 over\n")
        .says("pending    3-9\n")
        .says("failed     1\n");
    let _ = shown.says("1        failed  exit code 3  n7");
    let json = array.show();
    assert_eq!(json["elements"].as_array().map(Vec::len), Some(10));
    assert_eq!(
        (
            &json["elements"][1]["state"],
            &json["elements"][1]["exit"]["code"]
        ),
        (&"failed".into(), &3.into())
    );
    assert_eq!(json["status"]["elements"]["total"], 10);
}

#[test]
fn run_is_over_with_its_last_element_and_as_its_worst() {
    let array = Array::submit("0-3");
    for (element, code) in [(0, 0), (1, 3), (3, 0)] {
        array.ended(element, code);
    }
    array.queue(&[
        ("4711_2", "TIMEOUT", "TimeLimit"),
        ("4711_1", "FAILED", "NonZeroExitCode"),
    ]);
    let run = array.listed();
    assert_eq!(run["state"], "timeout", "{run}");
    assert_eq!(run["cause"]["kind"], "time_limit");
    assert_eq!(run["cause"]["text"], "element 2: it reached its time limit");
    // Slurm forgets, dlrun does not: not by the index and not by the files.
    array.queue(&[]);
    assert_eq!(array.show()["status"]["state"], "timeout");
    let before = array.listed();
    let _ = array.env.dlrun(["list", "--reindex"]).run().code(0);
    assert_eq!(array.listed()["elements"], before["elements"]);
    assert_eq!(array.show()["elements"][2]["state"], "timeout");
    let waited = array
        .env
        .dlrun(["wait", &array.id])
        .run()
        .code(11)
        .says("timeout    2\n");
    let _ = waited.says(" --element 2` shows the end of its output");
}

#[test]
fn an_empty_or_missing_answer_ends_no_element() {
    let array = Array::submit("0-2");
    array.ended(0, 0);
    array.queue(&[]);
    assert_eq!(array.listed()["state"], "unknown");
    array.queue(&[
        ("4711_1", "RUNNING", "None"),
        ("4711_2", "PENDING", "Resources"),
    ]);
    assert_eq!(array.listed()["state"], "running");
    let _ = array
        .env
        .fake("squeue")
        .stderr("slurm_load_jobs error: Unable to contact slurm controller\n")
        .code(1);
    let run = array.listed();
    let states = serde_json::json!({ "completed": 1, "running": 1, "pending": 1 });
    assert_eq!(
        (&run["state"], &run["elements"]["states"]),
        (&"running".into(), &states),
        "{run}"
    );
}

#[test]
fn elements_that_are_over_are_read_once() {
    let array = Array::submit("0-1");
    array.ended(0, 0);
    array.queue(&[("4711_1", "RUNNING", "None")]);
    assert_eq!(array.listed()["elements"]["states"]["completed"], 1);
    // What is noted does not change with the file; a new attempt does.
    fs::write(array.env.run_dir(&array.id).join("0.0/end.json"), "damaged").expect("ours");
    assert_eq!(array.listed()["elements"]["states"]["completed"], 1);
    array.mark("0.1", "end", "3");
    assert_eq!(array.listed()["elements"]["states"]["failed"], 1);
}

#[test]
fn what_cannot_start_is_said_to_be_stuck() {
    let array = Array::submit("0-1");
    array.queue(&[("4711_[0-1]", "PENDING", "DependencyNeverSatisfied")]);
    let run = array.listed();
    assert_eq!(
        (&run["state"], &run["stuck"]),
        (&"pending".into(), &true.into()),
        "{run}"
    );
    let _ = array
        .env
        .dlrun(["list"])
        .run()
        .code(0)
        .says("stuck: DependencyNeverSatisfied");
    let _ = array
        .env
        .dlrun(["show"])
        .run()
        .code(0)
        .says("pending (stuck: DependencyNeverSatisfied)");
}

#[test]
fn list_tells_the_exit_code_in_place_of_slurms_word() {
    let array = Array::submit("0-1");
    array.ended(0, 0);
    array.ended(1, 3);
    array.queue(&[("4711_1", "FAILED", "NonZeroExitCode")]);
    let listed = array.env.dlrun(["list"]).run().code(0);
    let _ = listed
        .says("element 1: the program ended with exit code 3")
        .never_says("NonZeroExitCode");
}

#[test]
fn one_element_is_shown_with_its_attempts() {
    let array = Array::submit("0-3");
    array.mark("2.0", "start", "null");
    array.mark("2.1", "start", "null");
    array.mark("2.1", "end", "139");
    array.queue(&[("4711_2", "FAILED", "NonZeroExitCode")]);
    let shown = array
        .env
        .dlrun(["show", &array.id, "--element", "2"])
        .run()
        .code(0);
    let shown = shown
        .says("cause      the program was ended by SIGSEGV\n")
        .says("job-4711_2.out\n");
    let _ = shown
        .says("1 of element 2")
        .says("killed, and restarted")
        .says("SIGSEGV, exit code 139");
    let json = array
        .env
        .dlrun(["show", &array.id, "--element", "2", "--json"])
        .run()
        .code(0)
        .result();
    assert_eq!(json["attempts"].as_array().map(Vec::len), Some(2));
    assert_eq!(
        (&json["attempts"][1]["exit"]["signal"], &json["attempt"]),
        (&11.into(), &1.into())
    );
    let _ = array
        .env
        .dlrun(["show", &array.id, "--element", "4"])
        .run()
        .code(66)
        .warns("its elements are 0-3");
}

#[test]
fn each_element_has_its_own_notice() {
    let array = Array::submit("0-4");
    for element in 0..5 {
        array.ended(element, 143);
    }
    let killed = |why: &str| format!("slurmstepd: error: *** JOB {why} ***\n");
    let _ = array.output(
        0,
        &killed("4800 ON n7 CANCELLED AT 2026-11-20T12:02:01 DUE TO TIME LIMIT"),
    );
    let _ = array.output(
        1,
        &killed("4711_1 ON n7 CANCELLED AT 2026-11-20T12:02:01 DUE TO PREEMPTION"),
    );
    let beside = |name: &str, text: &str| {
        fs::write(array.env.run_dir(&array.id).join(name), text).expect("ours")
    };
    beside(
        "scheduler.out-2",
        "=>> PBS: job killed: mem 2097152kb exceeded limit 1048576kb\n",
    );
    beside(
        "scheduler.3.out",
        "=>> PBS: job killed: walltime 7 exceeded limit 3\n",
    );
    array.queue(&[]);
    let json = array.show();
    let states: Vec<&str> = json["elements"]
        .as_array()
        .expect("a list")
        .iter()
        .filter_map(|element| element["state"].as_str())
        .collect();
    assert_eq!(
        states,
        ["timeout", "preempted", "out_of_memory", "timeout", "failed"]
    );
    assert_eq!(json["status"]["state"], "preempted");
}

#[test]
fn logs_are_those_of_the_elements() {
    let array = Array::submit("0-3");
    array.queue(&[
        ("4711_[2-3]", "PENDING", "Resources"),
        ("4711_1", "RUNNING", "None"),
    ]);
    let error = array
        .env
        .dlrun(["logs", &array.id, "--json"])
        .run()
        .code(66)
        .error();
    assert!(
        error["message"]
            .as_str()
            .expect("text")
            .contains("no output"),
        "{error}"
    );
    array.ended(0, 0);
    let (first, second) = (array.output(0, "one\nend\n"), array.output(1, "two\n"));
    let all = array
        .env
        .dlrun(["logs", &array.id])
        .current_dir("/")
        .run()
        .code(0)
        .text();
    let expected = format!(
        "==> element 0: {} <==\none\nend\n==> element 1: {} <==\ntwo\n",
        first.display(),
        second.display()
    );
    assert_eq!(all, expected);
    assert_eq!(
        array
            .env
            .dlrun(["logs", &array.id, "--element", "0", "-n", "1"])
            .run()
            .code(0)
            .text(),
        "end\n"
    );
    let json = array
        .env
        .dlrun(["logs", "--json", &array.id])
        .run()
        .code(0)
        .result();
    assert_eq!(
        (&json["files"][1]["element"], &json["files"][1]["text"]),
        (&1.into(), &"two\n".into())
    );
    let _ = array
        .env
        .dlrun(["logs", &array.id, "--element", "7"])
        .run()
        .code(66)
        .warns("has no element 7");
}

#[test]
fn follow_takes_up_elements_as_they_start_and_goes_on_through_requeues() {
    let array = Array::submit("0-2");
    array.ended(0, 0);
    let _ = array.output(0, "long ago\n");
    let _ = array.output(1, "one\n");
    array.queue(&[
        ("4711_1", "RUNNING", "None"),
        ("4711_2", "PENDING", "Resources"),
    ]);
    let told = array.env.root().join("told");
    let follower = array
        .env
        .dlrun(["logs", "-f", &array.id])
        .current_dir("/")
        .start_to(&told);
    let has = |line: &str| fs::read_to_string(&told).is_ok_and(|text| text.contains(line));
    wait_for("the first line", || has("[1] one\n"));
    // The first element is requeued while another starts.
    array.queue(&[
        ("4711_1", "PENDING", "BeginTime"),
        ("4711_2", "RUNNING", "None"),
    ]);
    let _ = array.output(2, "two\n");
    wait_for("the second element", || has("[2] two\n"));
    let _ = array.output(1, "one\nanew\n");
    wait_for("what follows", || has("[1] anew\n"));
    array.ended(1, 0);
    array.ended(2, 0);
    let _ = array.output(2, "two\nlast, without an end");
    array.queue(&[]);
    let _ = follower.finish().code(0);
    let text = fs::read_to_string(&told).expect("ours");
    assert!(
        text.contains("[2] last, without an end\n") && !text.contains("long ago"),
        "{text}"
    );
    assert_eq!(text.matches("[1] one\n").count(), 1, "{text}");
    assert!(text.starts_with("1 elements are over already"), "{text}");
}

#[test]
fn wait_tells_how_many_are_over_and_ends_with_the_worst() {
    let array = Array::submit("0-2");
    array.queue(&[("4711_[0-2]", "PENDING", "Resources")]);
    let told = array.env.root().join("told");
    let waiting = array
        .env
        .dlrun(["wait", "--passthrough", &array.id])
        .start_to(&told);
    wait_for("the first state", || {
        fs::read_to_string(&told).is_ok_and(|text| text.contains("pending, 0/3 elements over"))
    });
    for (element, code) in [(0, 0), (1, 7), (2, 3)] {
        array.ended(element, code);
    }
    array.queue(&[]);
    let _ = waiting.finish().code(7);
    let _ = array.env.dlrun(["wait", &array.id]).run().code(10);
}

#[test]
fn cancel_takes_elements_and_only_those_that_go_on() {
    let array = Array::submit("0-9");
    array.ended(3, 0);
    array.queue(&[
        ("4711_[7-9]", "PENDING", "Resources"),
        ("4711_[0-2,4-6]", "RUNNING", "None"),
    ]);
    let cancel = |elements: &str| {
        array
            .env
            .dlrun(["cancel", &array.id, "--json", "--element", elements])
            .run()
    };
    let result = cancel("3,7-8").code(0).result();
    assert_eq!(
        (&result["runs"][0]["asked"], &result["runs"][0]["elements"]),
        (&true.into(), &"7-8".into())
    );
    assert_eq!(array.env.fake("scancel").call().argv, ["4711_[7-8]"]);
    let again = cancel("3").code(0).result();
    assert_eq!(again["runs"][0]["asked"], false);
    assert_eq!(array.env.fake("scancel").calls().len(), 1);
    let _ = cancel("10").code(66);
    let _ = cancel("x").code(64);
    // Those two were cancelled, the others were not, although Slurm forgot them all.
    for element in [0, 1, 2, 4, 5, 6, 9] {
        array.ended(element, 1);
    }
    array.queue(&[]);
    let run = array.listed();
    let states = serde_json::json!({ "completed": 1, "failed": 7, "cancelled": 2 });
    assert_eq!(run["elements"]["states"], states, "{run}");
}

#[test]
fn ids_of_elements_cancel_these_alone() {
    let array = Array::submit("0-9");
    array.queue(&[("4711_[0-9]", "RUNNING", "None")]);
    let _ = array
        .env
        .dlrun(["cancel", "4711_3", "4711_5"])
        .run()
        .code(0);
    assert_eq!(array.env.fake("scancel").call().argv, ["4711_[3,5]"]);
    let _ = array.env.dlrun(["cancel", "4711_3", "4711"]).run().code(0);
    let calls = array.env.fake("scancel").calls();
    assert_eq!(calls.last().expect("a call").argv, ["4711"]);
}

#[test]
fn an_array_is_scaled_by_its_limit() {
    let array = Array::submit("0-9");
    array.queue(&[("4711_[0-9]", "PENDING", "Resources")]);
    let scontrol = array.env.fake("scontrol");
    let scale = |elements: &str| array.env.dlrun(["scale", &array.id, elements]).run();
    let _ = scale("3").code(0).says("at most 3 elements at a time");
    let words = ["update", "JobId=4711", "ArrayTaskThrottle=3"];
    assert_eq!(scontrol.call().argv, words);
    // To Slurm 0 is no limit.
    let _ = scale("0").code(64);
}

#[test]
fn a_single_run_has_no_elements() {
    let env = TestEnv::new();
    let id = env.submit(&env.job("true", ""));
    let _ = env.dlrun(["wait", &id]).run().code(0);
    let _ = env
        .dlrun(["cancel", &id, "--element", "1"])
        .run()
        .code(64)
        .warns("is not an array");
    let _ = env
        .dlrun(["logs", &id, "--element", "1"])
        .run()
        .code(64)
        .warns("is not an array");
    let _ = env
        .dlrun(["show", &id, "--element", "1"])
        .run()
        .code(66)
        .warns("is not an array");
    let run = env.dlrun(["list", "--json"]).run().code(0).result()["runs"][0].clone();
    assert_eq!(
        (&run["elements"], &run["cause"]),
        (&Value::Null, &Value::Null)
    );
    let text = env.dlrun(["list"]).run().code(0).text();
    assert!(!text.contains("ELEMENTS"), "{text}");
}
