//! The example of the README, run as a reader of it would: the environment is made, TensorFlow trains, figures come out.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, Output};

use serde_json::Value;
use tempfile::TempDir;

const TIMED: &str = "\
import time
import keras
import train

class Stopwatch(keras.callbacks.Callback):
    def on_epoch_begin(self, epoch, logs=None):
        self.begun = time.monotonic()

    def on_epoch_end(self, epoch, logs=None):
        print(time.monotonic() - self.begun, file=times, flush=True)

fit = keras.Model.fit
keras.Model.fit = lambda *words, **options: fit(*words, **options, callbacks=[Stopwatch()])
with open('times', 'w') as times:
    train.main()
";

const PLAIN: &str = "\
import time

with open('times', 'w') as times:
    for epoch in range(1, 6):
        begun = time.monotonic()
        while time.monotonic() < begun + 0.4 + epoch / 10:
            sum(range(1000))
        took = time.monotonic() - begun
        print(took, file=times)
        print(f'PRINTS', flush=True)
";

/// A copy of the example, so that its outputs do not lie in the sources, with records of its own.
struct Example {
    dir: TempDir,
}

impl Example {
    fn new() -> Self {
        let dir = tempfile::Builder::new()
            .prefix("dlrun-example-")
            .tempdir_in("/var/tmp")
            .expect("a directory");
        let sources = Path::new(env!("CARGO_MANIFEST_DIR")).join("jobs/mnist-cnn");
        for entry in fs::read_dir(sources)
            .expect("the example is there")
            .flatten()
        {
            if entry.file_type().is_ok_and(|kind| kind.is_file()) {
                fs::copy(entry.path(), dir.path().join(entry.file_name()))
                    .expect("it can be copied");
            }
        }
        // Nodes of the cluster have a /tmp of their own, and the tree may lie in ours.
        fs::copy(env!("CARGO_BIN_EXE_dlrun"), dir.path().join("dlrun")).expect("it can be copied");
        Self { dir }
    }

    fn state_dir(&self) -> PathBuf {
        self.dir.path().join("state")
    }

    /// pip's cache stays where it is, so that a second test run downloads nothing.
    fn dlrun(&self, slurm_conf: Option<&str>, arguments: &[&str]) -> Output {
        let mut command = Command::new(self.dir.path().join("dlrun"));
        command.args(arguments).current_dir(self.dir.path());
        command
            .env("DLRUN_STATE_DIR", self.state_dir())
            .env("DLRUN_LOCAL__LOCK_DIR", self.dir.path());
        match slurm_conf {
            Some(conf) => command.env("SLURM_CONF", conf),
            None => command.env("DLRUN_SCHEDULER__KIND", "local"),
        };
        command.output().expect("dlrun runs")
    }

    /// The example as it is, with a stopwatch of Keras' own callbacks around each epoch: what the program itself says.
    fn timed(&self) {
        let job = fs::read_to_string(self.dir.path().join("train.toml")).expect("the job file");
        let timed = job.replace(
            r#""train.py", "--epochs", "3""#,
            r#""timed.py", "--epochs", "5""#,
        );
        assert_ne!(job, timed);
        fs::write(self.dir.path().join("timed.toml"), timed).expect("a job file");
        fs::write(self.dir.path().join("timed.py"), TIMED).expect("a program");
        self.agrees("timed.toml", "clock");
    }

    /// A loop that prints what people print, with and without the time that it took.
    fn plain(&self, prints: &str, source: &str) {
        let program = PLAIN.replace("PRINTS", prints);
        fs::write(self.dir.path().join("plain.py"), program).expect("a program");
        let job = "name = \"plain\"\n[run]\ncommand = [\"python3\", \"plain.py\"]\n";
        fs::write(self.dir.path().join("plain.toml"), job).expect("a job file");
        self.agrees("plain.toml", source);
    }

    /// Runs a job whose program leaves the seconds of its epochs in `times`, and compares: 1% or 50 ms in the median.
    fn agrees(&self, job: &str, source: &str) {
        let output = self.dlrun(None, &["--json", "submit", "--wait", job]);
        assert_eq!(
            output.status.code(),
            Some(0),
            "{}",
            String::from_utf8_lossy(&output.stderr)
        );
        let shown: Value =
            serde_json::from_slice(&self.dlrun(None, &["--json", "show", "@1"]).stdout)
                .expect("JSON");
        let epochs = shown["result"]["nodes"][0]["progress"]["epochs"]
            .as_array()
            .expect("epochs")
            .clone();
        let times =
            fs::read_to_string(self.dir.path().join("times")).expect("the program's own times");
        let times: Vec<f64> = times
            .lines()
            .map(|line| line.parse().expect("seconds"))
            .collect();
        assert_eq!((epochs.len(), times.len()), (5, 5), "{shown}");
        let key = if source == "clock" {
            "clock_seconds"
        } else {
            "printed_seconds"
        };
        let seconds: Vec<Option<f64>> = epochs.iter().map(|epoch| epoch[key].as_f64()).collect();
        // An epoch whose beginning no line tells has no time; only the first may be such.
        assert!(seconds[1..].iter().all(Option::is_some), "{seconds:?}");
        // On a busy machine a line may come late, and the time between two lines is another one then.
        let off = |(seconds, told): (&Option<f64>, &f64)| {
            let off = seconds.map_or(0.0, |seconds| (seconds - told).abs());
            assert!(
                off <= (told * 0.2).max(1.0),
                "{seconds:?} is not {told}: {epochs:?}"
            );
            off / (told * 0.01).max(0.05)
        };
        let mut offs: Vec<f64> = seconds.iter().zip(&times).map(off).collect();
        offs.sort_by(f64::total_cmp);
        assert!(offs[2] <= 1.0, "{offs:?}: {epochs:?} are not {times:?}");
    }

    /// `dlrun submit --wait train.toml`; returns the summary as text and as JSON.
    fn train(&self, slurm_conf: Option<&str>) -> (String, Value) {
        let output = self.dlrun(slurm_conf, &["submit", "--wait", "train.toml"]);
        let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
        let (stdout, stderr) = (text(&output.stdout), text(&output.stderr));
        assert_eq!(output.status.code(), Some(0), "{stdout}{stderr}");
        let shown = self.dlrun(slurm_conf, &["--json", "show", "@1"]);
        let shown: Value = serde_json::from_slice(&shown.stdout).expect("JSON");
        let shown = shown["result"].clone();
        (stdout + &stderr, shown)
    }
}

fn row<'a>(text: &'a str, name: &str) -> &'a str {
    let line = text
        .lines()
        .find_map(|line| line.trim_start().strip_prefix(name));
    line.unwrap_or_else(|| panic!("no {name:?} in:\n{text}"))
        .trim()
}

/// What the summary must hold of the example, and what must be true of it.
fn check(text: &str, shown: &Value) {
    assert_eq!(row(text, "state "), "completed");
    assert_eq!(row(text, "epochs "), "3 of 3");
    assert!(
        row(text, "samples/s ")
            .parse::<u32>()
            .is_ok_and(|rate| rate > 100),
        "{text}"
    );
    assert!(row(text, "first epoch ").contains("against the later ones"));
    assert!(row(text, "CPU ").contains("CPUs busy"));
    assert!(row(text, "memory ").contains("iB at most"));
    assert!(row(text, "metrics ").contains("accuracy 0.9"), "{text}");
    let records = Path::new(row(text, "records "));
    assert!(records.join("run.json").is_file(), "{records:?}");
    for epoch in 1..=3 {
        assert!(
            text.contains(&format!("epoch {epoch}/3 ")),
            "each epoch is told as it ends:\n{text}"
        );
    }
    let node = &shown["nodes"][0];
    assert!(
        node["usage"]["mem_peak_bytes"]
            .as_u64()
            .is_some_and(|bytes| bytes > 200 << 20),
        "{node}"
    );
    assert!(
        node["usage"]["cpu_user_seconds"]
            .as_f64()
            .is_some_and(|seconds| seconds > 2.0),
        "{node}"
    );
    assert_eq!(node["progress"]["recogniser"], "keras");
    let output =
        fs::read_to_string(shown["run"]["output"].as_str().expect("a file")).expect("the output");
    assert!(output.contains("test accuracy: 0."), "{output}");
}

#[test]
#[expect(
    clippy::print_stderr,
    reason = "whoever runs the test shall know what was left out"
)]
#[ignore = "installs TensorFlow: run tests/run"]
fn trains_here_and_on_slurm_with_one_environment() {
    let example = Example::new();
    let (text, shown) = example.train(None);
    assert!(text.contains("environment: ready"), "{text}");
    check(&text, &shown);

    let (text, shown) = example.train(None);
    assert!(
        !text.contains("environment: making"),
        "the environment was made twice:\n{text}"
    );
    check(&text, &shown);

    example.timed();

    // The same file, unchanged.
    let Ok(conf) = std::env::var("DLRUN_TEST_SLURM_CONF") else {
        eprintln!("not run on Slurm: DLRUN_TEST_SLURM_CONF is not set");
        return;
    };
    let (text, shown) = example.train(Some(&conf));
    assert!(!text.contains("environment: making"), "{text}");
    assert_eq!(shown["run"]["scheduler"], "slurm");
    check(&text, &shown);
}

#[test]
#[ignore = "holds times to 50 ms, on a quiet machine: run tests/run"]
fn a_plain_program_and_its_record_agree() {
    let example = Example::new();
    example.plain(
        "epoch {epoch}/5 loss {1 / epoch:.3f} time {took:.2f}s",
        "stated",
    );
    example.plain("epoch {epoch} loss {1 / epoch:.3f}", "clock");
}
