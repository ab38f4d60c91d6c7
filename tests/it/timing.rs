//! Real training logs: what is read of them, whichever way they arrive.

use std::path::{Path, PathBuf};

use dlrun::job::TimingPattern;
use dlrun::record::{Epoch, Progress};
use dlrun::timing::Follower;
use proptest::collection::vec;
use proptest::prelude::*;
use serde_json::Value;

/// Logs whose every epoch must be found, with the recogniser that finds it. Of the others nothing wrong may be said.
const KNOWN: [(&str, &str); 9] = [
    ("keras-tf1-a.log", "keras"),
    ("keras-tf2-a.log", "keras"),
    ("keras-verbose2-a.log", "keras"),
    ("keras3-a.log", "keras"),
    ("mnist-a.log", "pytorch"),
    ("imagenet-a.log", "pytorch"),
    ("torchvision-a.log", "pytorch"),
    ("cntk-a.log", "epoch-line"),
    ("jax-a.log", "epoch-line"),
];

fn folder() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/fixtures/training-logs")
}

fn log(file: &str) -> Vec<u8> {
    std::fs::read(folder().join(file)).expect("a fixture")
}

fn index() -> Vec<Value> {
    serde_json::from_slice(&log("index.json")).expect("an index in JSON")
}

fn follow<'a>(chunks: impl IntoIterator<Item = &'a [u8]>) -> Progress {
    let mut follower = Follower::new(None).expect("no pattern, no fault");
    for chunk in chunks {
        follower.feed(chunk, None);
    }
    follower.finish(None);
    follower.progress().clone()
}

/// What the index calls `acc1`, a log calls `Acc@1`.
fn metric(progress: &Progress, name: &str) -> Option<f64> {
    let plain = |name: &str| name.replace('@', "").to_lowercase();
    progress.last_metrics.iter().find(|(key, _)| plain(key) == plain(name)).map(|(_, value)| *value)
}

fn epochs(truth: &Value) -> Vec<Value> {
    truth["epochs"].as_array().cloned().expect("a list of epochs")
}

fn agrees(epoch: &Epoch, truth: &Value) -> bool {
    truth["epoch"] == epoch.epoch && truth["duration_s"].as_f64() == epoch.printed_seconds
}

#[test]
fn known_logs_are_read_in_full() {
    let index = index();
    for (file, recogniser) in KNOWN {
        let truth = &index.iter().find(|item| item["file"] == file).unwrap()["truth"];
        let progress = follow([&log(file)[..]]);
        assert_eq!(progress.recogniser.as_deref(), Some(recogniser), "{file}");
        assert_eq!(truth["epochs_completed"], progress.epochs_completed, "{file}");
        for (epoch, truth) in progress.epochs.iter().zip(epochs(truth)) {
            assert!(agrees(epoch, &truth), "{file}: {epoch:?} is not {truth}");
        }
        assert_eq!(truth["epochs_announced"].as_u64(), progress.epochs_announced, "{file}");
        if recogniser == "epoch-line" {
            continue;
        }
        assert_eq!(truth["steps_per_epoch"].as_u64(), progress.steps_per_epoch, "{file}");
        let last = progress.last_step.unwrap();
        assert_eq!(truth["last_step"]["epoch"].as_u64(), last.epoch, "{file}");
        assert_eq!(
            (&truth["last_step"]["step"], &truth["last_step"]["of"]),
            (&last.step.into(), &last.of.into())
        );
        assert_eq!(truth["step_time_s"].as_f64(), progress.step_seconds, "{file}");
        for (name, value) in truth["last_metrics"].as_object().unwrap() {
            assert_eq!(value.as_f64(), metric(&progress, name), "{file}: {name}");
        }
    }
}

#[test]
fn nothing_wrong_is_said_of_any_log() {
    for item in index() {
        let file = item["file"].as_str().unwrap();
        let progress = follow([&log(file)[..]]);
        let truth = epochs(&item["truth"]);
        assert!(progress.epochs_completed <= truth.len() as u64, "{file}: {progress:?}");
        for epoch in &progress.epochs {
            let known = truth.iter().any(|truth| {
                truth["epoch"] == epoch.epoch
                    && (epoch.printed_seconds.is_none()
                        || truth["duration_s"].as_f64() == epoch.printed_seconds)
            });
            assert!(known, "{file}: {epoch:?}");
        }
        if let Some(announced) = progress.epochs_announced {
            assert_eq!(item["truth"]["epochs_announced"], announced, "{file}");
        }
        if let Some(read) = &progress.throughput {
            assert_eq!(item["truth"]["throughput"]["value"].as_f64(), Some(read.value), "{file}");
            assert_eq!(item["truth"]["throughput"]["unit"], read.unit, "{file}");
        }
    }
}

#[test]
fn single_bytes_read_as_the_whole() {
    for item in index() {
        let file = item["file"].as_str().unwrap();
        let bytes = log(file);
        assert_eq!(follow(bytes.chunks(1)), follow([&bytes[..]]), "{file}");
    }
}

#[test]
fn redrawn_keras_bars_with_escapes_are_read() {
    let mut output = String::new();
    for epoch in 1..=2 {
        output += &format!("Epoch {epoch}/2\n");
        for step in 1..=50 {
            let back = "\u{8}".repeat(60);
            output += &format!(
                "{back}\r\u{1b}[1m{step:2}/50\u{1b}[0m \u{1b}[32m━━\u{1b}[0m\u{1b}[37m━━\u{1b}[0m \u{1b}[1m0s\u{1b}[0m 40ms/step - loss: 0.5"
            );
        }
        output += "\r\u{1b}[1m50/50\u{1b}[0m \u{1b}[32m━━━━\u{1b}[0m \u{1b}[1m3s\u{1b}[0m 60ms/step - loss: 0.4 - val_loss: 0.6\n";
    }
    output += "\r 1/50 ━━━━ 1s 30ms/step - loss: 0.7\r50/50 ━━━━ 1s 30ms/step - loss: 0.7\n";
    let progress = follow([output.as_bytes()]);
    assert_eq!(progress.epochs_completed, 2);
    for epoch in &progress.epochs {
        assert_eq!(epoch.printed_seconds, Some(3.0));
        assert_eq!(epoch.metrics["val_loss"], 0.6);
    }
    assert_eq!((progress.steps_per_epoch, progress.step_seconds), (Some(50), Some(0.06)));
}

#[test]
fn a_diverged_training_survives_its_record() {
    let progress = follow([&b"Epoch 1/1\n9/9 [===] - 2s - loss: nan - acc: 0.1\n"[..]]);
    assert!(progress.last_metrics["loss"].is_nan());
    let written = serde_json::to_string(&progress).unwrap();
    let read: Progress = serde_json::from_str(&written).unwrap();
    assert!(read.last_metrics["loss"].is_nan() && read.epochs[0].metrics["loss"].is_nan());
    assert_eq!(read.last_metrics["acc"], 0.1);
}

/// Fragments of which outputs consist, so that random ones come near to real ones.
fn fragments() -> impl Strategy<Value = Vec<u8>> {
    let fragment = prop_oneof![
        vec(any::<u8>(), 0..12),
        prop::sample::select(vec![
            "Epoch ",
            "epoch",
            "Train Epoch: ",
            "Epoch: [",
            "1/5",
            "[==>.]",
            "━━",
            " - ",
            "ETA: ",
            "loss: ",
            "0:00:07",
            "3m 20s",
            "ms/step",
            "\r",
            "\n",
            "\u{8}\u{8}",
            "\u{1b}[1m",
            "\u{1b}]",
            "nan",
            "1e",
            "-",
            "%|",
            "[1,0]<stdout>:",
            "Test set: ",
            "* Acc@1 ",
            "(",
            ")",
            "18446744073709551615",
            "99999999999999999999",
            ".",
            "took ",
            "é",
            "µs",
        ])
        .prop_map(|text| text.as_bytes().to_vec()),
        any::<u16>().prop_map(|number| number.to_string().into_bytes()),
    ];
    vec(fragment, 0..80).prop_map(|fragments| fragments.concat())
}

/// Cuts `bytes` at the places that `cuts` name.
fn cut<'a>(bytes: &'a [u8], cuts: &[prop::sample::Index]) -> Vec<&'a [u8]> {
    let mut places: Vec<usize> = cuts.iter().map(|cut| cut.index(bytes.len() + 1)).collect();
    places.extend([0, bytes.len()]);
    places.sort_unstable();
    places.windows(2).map(|pair| &bytes[pair[0]..pair[1]]).collect()
}

proptest! {
    #[test]
    fn chunks_do_not_matter_for_real_logs(
        item in any::<prop::sample::Index>(),
        cuts in vec(any::<prop::sample::Index>(), 0..40),
    ) {
        let index = index();
        let bytes = log(item.get(&index)["file"].as_str().unwrap());
        prop_assert_eq!(follow(cut(&bytes, &cuts)), follow([&bytes[..]]));
    }

    #[test]
    fn any_bytes_are_read_alike_in_any_chunks(
        bytes in fragments(),
        cuts in vec(any::<prop::sample::Index>(), 0..20),
    ) {
        // Not a number is not equal to itself, but written the same.
        let read = format!("{:?}", follow(cut(&bytes, &cuts)));
        prop_assert_eq!(read, format!("{:?}", follow([&bytes[..]])));
    }

    #[test]
    fn a_users_pattern_reads_any_bytes(bytes in fragments(), at_ms in any::<Option<u64>>()) {
        let pattern = TimingPattern { epoch: r"(?<epoch>\S+)/(?<epochs>.*?)(?<seconds>[\d:.e]*)".to_owned() };
        let mut follower = Follower::new(Some(&pattern)).unwrap();
        follower.feed(&bytes, at_ms);
        follower.finish(at_ms);
        let progress = follower.progress();
        prop_assert!(progress.epochs_completed >= progress.epochs.len() as u64);
    }
}
