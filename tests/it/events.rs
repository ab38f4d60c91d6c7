//! `DLRUN_EVENTS`: what programs say of themselves, by the shell and by the Python module, and what becomes of the file.

use std::fs;
use std::path::{Path, PathBuf};

use nix::sys::signal::{Signal, kill};
use nix::unistd::Pid;
use serde_json::Value;

use crate::support::env::python;
use crate::support::{TestEnv, wait_for, wait_for_some};

fn module() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("python/dlrun_events.py")
}

/// Runs a shell script as a job to its end; returns the record of its node.
#[track_caller]
fn record_of(env: &TestEnv, script: &str) -> Value {
    let id = env.submit(&env.job(script, ""));
    let _ = env.dlrun(["wait", &id]).run().code(0);
    env.show(&id)["nodes"][0].clone()
}

fn epochs(record: &Value) -> Vec<(u64, Option<f64>)> {
    let epochs = record["progress"]["epochs"].as_array().expect("a list");
    let epoch = |epoch: &Value| {
        (
            epoch["epoch"].as_u64().expect("a number"),
            epoch["printed_seconds"].as_f64(),
        )
    };
    epochs.iter().map(epoch).collect()
}

/// What is missing of the events, by the record.
fn troubles(record: &Value) -> Vec<&str> {
    let missing = record["missing"].as_array().expect("a list");
    missing
        .iter()
        .filter(|it| it["what"] == "events")
        .filter_map(|it| it["why"].as_str())
        .collect()
}

#[test]
fn the_shell_s_words_win_over_the_output_and_the_file_goes() {
    let env = TestEnv::new();
    let record = record_of(
        &env,
        r#"echo "$DLRUN_EVENTS" > path; stat -c %a "$DLRUN_EVENTS" > mode
        echo '{"epochs":3}' >> "$DLRUN_EVENTS"
        for n in 1 2 3; do
            echo "epoch $n took 99.5 s loss: 7.0"
            echo "{\"phase\":\"evaluation\",\"seconds\":0.0}" >> "$DLRUN_EVENTS"
            echo "{\"epoch\":$n,\"seconds\":0.$n,\"samples\":600,\"loss\":0.5}" >> "$DLRUN_EVENTS"
        done"#,
    );
    assert_eq!(
        epochs(&record),
        [(1, Some(0.1)), (2, Some(0.2)), (3, Some(0.3))]
    );
    let progress = &record["progress"];
    assert_eq!(
        (&progress["recogniser"], &progress["epochs_announced"]),
        (&"events".into(), &3.into())
    );
    let first = &progress["epochs"][0];
    assert_eq!(
        (&first["event"], &first["warmup"], &first["samples"]),
        (&true.into(), &true.into(), &600.into())
    );
    assert_eq!(first["metrics"]["loss"], 0.5);
    assert!(troubles(&record).is_empty(), "{record}");
    assert_eq!(env.wait_file("mode"), "600\n");
    let path = env.wait_file("path");
    assert!(
        !Path::new(path.trim())
            .parent()
            .expect("a directory")
            .exists(),
        "the file goes with the run"
    );
}

#[test]
fn ranks_that_write_to_one_file_count_once() {
    let env = TestEnv::new();
    let record = record_of(
        &env,
        r#"for rank in 3 1 2 0; do
            (for n in 1 2 3 4 5; do
                echo "{\"epoch\":$n,\"seconds\":$n.$rank,\"rank\":$rank}" >> "$DLRUN_EVENTS"
            done) &
        done; wait"#,
    );
    let expected: Vec<_> = [(1, 1.0), (2, 2.0), (3, 3.0), (4, 4.0), (5, 5.0)]
        .map(|(epoch, seconds)| (epoch, Some(seconds)))
        .into();
    assert_eq!(epochs(&record), expected);
}

#[test]
fn nothing_that_a_program_does_to_its_file_disturbs_the_run() {
    let env = TestEnv::new();
    let record = record_of(
        &env,
        r#"say() { echo "$1" >> "$DLRUN_EVENTS"; }
        say '{"epoch":1}'; say 'epoch 2 is over'; say '{"epoch":"two"}'
        head -c 100000 /dev/zero | tr '\0' x >> "$DLRUN_EVENTS"; say ''
        : > "$DLRUN_EVENTS"; say '{"epoch":2}'
        echo '{"epoch":3}' > other; mv other "$DLRUN_EVENTS"
        sleep 0.1; rm "$DLRUN_EVENTS"; ln -s /dev/zero "$DLRUN_EVENTS"
        sleep 0.1; rm "$DLRUN_EVENTS"; mkdir "$DLRUN_EVENTS"
        sleep 0.1; rmdir "$DLRUN_EVENTS"; say 'no JSON'; say '{"epoch":4}'"#,
    );
    let numbers: Vec<u64> = epochs(&record)
        .into_iter()
        .map(|(number, _)| number)
        .collect();
    // What is emptied or removed before anybody looked is gone; the last stands.
    assert!(
        numbers.is_sorted() && numbers.last() == Some(&4),
        "{record}"
    );
    assert!(!troubles(&record).is_empty(), "{record}");
    assert_eq!(record["exit"]["code"], 0);
}

#[test]
fn a_watcher_that_takes_over_reads_all_events() {
    let env = TestEnv::new();
    let script = r#"for n in 1 2 3; do echo "{\"epoch\":$n,\"seconds\":2.5}" >> "$DLRUN_EVENTS"; done
        echo > ready; while [ ! -e go ]; do sleep 0.02; done
        echo '{"epoch":4,"seconds":2.5}' >> "$DLRUN_EVENTS""#;
    let id = env.submit(&env.job(script, ""));
    env.wait_file("ready");
    let watcher = |other: Option<Pid>| {
        wait_for_some("a watcher", || {
            env.processes_with("exec-watch")
                .into_iter()
                .find(|pid| Some(*pid) != other)
        })
    };
    let first = watcher(None);
    wait_for("the first record", || {
        !env.show(&id)["nodes"].as_array().is_none_or(Vec::is_empty)
    });
    kill(first, Signal::SIGKILL).expect("it runs");
    watcher(Some(first));
    env.write("go", "");
    let _ = env.dlrun(["wait", &id]).run().code(0);
    let record = &env.show(&id)["nodes"][0];
    assert_eq!(
        epochs(record),
        [1, 2, 3, 4].map(|number| (number, Some(2.5)))
    );
}

#[test]
fn conditions_are_in_the_record() {
    let env = TestEnv::new();
    // What ends at once may be gone before its affinity is read.
    let record = record_of(&env, "sleep 2");
    let conditions = &record["conditions"];
    let list = conditions["affinity"].as_str().expect("a list of CPUs");
    assert!(
        list.starts_with(|c: char| c.is_ascii_digit()),
        "{conditions}"
    );
    assert!(
        conditions["cpus_effective"]
            .as_f64()
            .is_some_and(|cpus| cpus > 0.0),
        "{conditions}"
    );
    let storage = conditions["storage"].as_array().expect("a list");
    assert!(
        storage
            .iter()
            .any(|it| it["of"] == "workdir" && it["class"].is_string()),
        "{conditions}"
    );
}

#[test]
fn the_module_is_in_the_binary() {
    let env = TestEnv::new();
    let text = fs::read_to_string(module()).expect("it is there");
    assert_eq!(
        env.dlrun(["config", "events-module"]).run().code(0).text(),
        text
    );
    let result = env
        .dlrun(["config", "events-module", "--json"])
        .run()
        .code(0)
        .result();
    assert_eq!(
        (&result["name"], &result["text"]),
        (&"dlrun_events.py".into(), &text.into())
    );
}

#[test]
fn python_tells_what_it_measured() {
    let env = TestEnv::new();
    fs::copy(module(), env.jobs().join("dlrun_events.py")).expect("ours");
    env.write(
        "train.py",
        r#"
import dlrun_events as events

# A clock that the test knows: each look at it is half a second later.
class Clock:
    now = 0.0
    def perf_counter(self):
        Clock.now += 0.5
        return Clock.now
    def time(self):
        return 1000.0 + Clock.now
events.time = Clock()

class Odd:
    def __float__(self):
        raise RuntimeError("no number")

events.announce(epochs=3, steps=4)
for number in events.epochs(1, samples=8):
    for batch in events.steps("abcd", epoch=number):
        pass
with events.epoch(2, of=3) as now:
    with events.evaluation():
        pass
    with events.checkpoint():
        pass
    now.update(loss=float("nan"), accuracy=True, samples=9, odd=Odd(), text="x", big=10**400)
try:
    with events.epoch(3):
        raise KeyError("the program's own")
except KeyError:
    pass
callback = events.KerasCallback(samples=7)
callback.set_params({"epochs": 5, "steps": 6})
callback.on_train_begin()
callback.on_epoch_begin(3)
callback.on_test_begin()
callback.on_test_end()
callback.on_epoch_end(3, {"loss": 0.25})
callback.on_train_end()
"#,
    );
    let record = record_of(&env, &format!("exec {} train.py", python().display()));
    assert_eq!(troubles(&record), Vec::<&str>::new());
    let progress = &record["progress"];
    // The third did not end, as far as the program says; the fourth began then.
    let seconds: Vec<_> = epochs(&record).into_iter().collect();
    assert_eq!(
        seconds,
        [(1, Some(5.0)), (2, Some(2.5)), (3, None), (4, Some(1.5))]
    );
    let second = &progress["epochs"][1];
    assert_eq!(
        (&second["evaluation_seconds"], &second["checkpoint_seconds"]),
        (&0.5.into(), &0.5.into())
    );
    assert_eq!(
        (&second["samples"], &second["metrics"]["loss"]),
        (&9.into(), &Value::Null)
    );
    let last = &progress["epochs"][3];
    assert_eq!(
        (&last["samples"], &last["metrics"]["loss"]),
        (&7.into(), &0.25.into())
    );
    assert_eq!(
        (&progress["epochs_announced"], &progress["steps_per_epoch"]),
        (&5.into(), &6.into())
    );
    assert_eq!(progress["last_step"]["step"], 4);
    assert!(progress["run_seconds"].is_number(), "{progress}");
}

#[test]
fn python_hears_of_a_request_to_stop_and_looks_for_it_once_a_second() {
    let env = TestEnv::new();
    fs::copy(module(), env.jobs().join("dlrun_events.py")).expect("ours");
    let program = env.write(
        "stop.py",
        "import os, time\n\
         now = [5.0]\n\
         time.monotonic = lambda: now[0]\n\
         import dlrun_events as events\n\
         class Model:\n    stop_training = False\n\
         callback = events.KerasCallback()\n\
         callback.set_model(Model())\n\
         said = [events.should_stop()]\n\
         open('stop', 'w').close()\n\
         said.append(events.should_stop())\n\
         now[0] += 1.0\n\
         said.append(events.should_stop())\n\
         callback.on_epoch_end(0)\n\
         os.remove('stop')\n\
         now[0] += 5.0\n\
         print(*said, events.should_stop(), callback.model.stop_training)\n",
    );
    let run = |events: Option<PathBuf>| {
        let command = env.command(python(), [&program]);
        let command = match events {
            Some(path) => command.env("DLRUN_EVENTS", path),
            None => command,
        };
        command.run().code(0).text()
    };
    let file = env.jobs().join("events.jsonl");
    assert_eq!(run(Some(file)), "False False True True True\n");
    assert_eq!(run(None), "False False False False False\n");
}

#[test]
fn python_notices_nothing_where_nobody_listens() {
    let env = TestEnv::new();
    fs::copy(module(), env.jobs().join("dlrun_events.py")).expect("ours");
    let program = env.write(
        "quiet.py",
        "import dlrun_events as events\n\
         for number in events.epochs(2):\n    events.log(epoch=number, loss=object())\n\
         with events.evaluation():\n    pass\n\
         events.KerasCallback().on_epoch_end('x', 7)\n\
         list(events.steps(iter('ab')))\n\
         print(events.enabled())\n",
    );
    let run = |events: Option<&Path>| {
        let command = env.command(python(), [&program]);
        let command = match events {
            Some(path) => command.env("DLRUN_EVENTS", path),
            None => command,
        };
        let done = command.run().code(0);
        assert_eq!(done.stderr, "");
        done.text()
    };
    assert_eq!(run(None), "False\n");
    let pipe = env.jobs().join("pipe");
    nix::unistd::mkfifo(&pipe, nix::sys::stat::Mode::S_IRWXU).expect("ours");
    let elsewhere = env.write("elsewhere", "");
    let link = env.jobs().join("link");
    std::os::unix::fs::symlink(&elsewhere, &link).expect("ours");
    for odd in [
        &pipe,
        &link,
        &env.jobs(),
        Path::new("/dev/full"),
        Path::new("/no/such/file"),
    ] {
        assert_eq!(run(Some(odd)), "True\n", "{}", odd.display());
    }
    assert_eq!(
        fs::read(&elsewhere).expect("ours"),
        b"",
        "a link is not followed"
    );
    assert!(!Path::new("/no/such/file").exists());
}
