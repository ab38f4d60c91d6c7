//! Real training logs: what is read of them, whichever way they arrive.

use std::path::{Path, PathBuf};

use dlrun::job::TimingPattern;
use dlrun::observe::timing::{Follower, Stated};
use dlrun::record::Progress;
use proptest::collection::vec;
use proptest::prelude::*;
use serde_json::Value;

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
    // Curves and times of steps have tests of their own.
    Progress {
        step_times: None,
        points: Vec::new(),
        ..follower.progress()
    }
}

/// The folders of excerpts, each with one or more `index*.json`: those that came with their truth, and our own.
const FOLDERS: [&str; 2] = [
    "tests/fixtures/training-logs",
    "tests/fixtures/training-logs/more",
];

/// All excerpts with their truth.
fn corpus() -> Vec<(PathBuf, Value)> {
    let mut items = Vec::new();
    for folder in FOLDERS.map(|folder| Path::new(env!("CARGO_MANIFEST_DIR")).join(folder)) {
        let Ok(entries) = std::fs::read_dir(&folder) else {
            continue;
        };
        let mut indexes: Vec<PathBuf> = entries
            .map(|entry| entry.expect("an entry").path())
            .collect();
        indexes.retain(|path| {
            let name = path
                .file_name()
                .expect("a form that the index has")
                .to_str()
                .expect("a form that the index has");
            name.starts_with("index") && name.ends_with(".json")
        });
        indexes.sort();
        for index in indexes {
            let list: Vec<Value> =
                serde_json::from_slice(&std::fs::read(&index).expect("an index"))
                    .unwrap_or_else(|error| panic!("{}: {error}", index.display()));
            items.extend(list.into_iter().map(|item| {
                (
                    folder.join(item["file"].as_str().expect("a form that the index has")),
                    item,
                )
            }));
        }
    }
    items
}

/// Where what is read differs from the truth, each as a line. Metrics beyond those of the truth are no fault.
fn faults(read: &Value, truth: &Value) -> Vec<String> {
    let mut faults = Vec::new();
    for (key, expected) in truth.as_object().expect("truth is an object") {
        let found = &read[key];
        let right = match key.as_str() {
            "epochs_completed_accept" => true,
            "epochs_completed" | "epochs" if truth.get("epochs_completed_accept").is_some() => {
                let accepted = truth["epochs_completed_accept"]
                    .as_array()
                    .expect("a form that the index has");
                accepted.contains(&read["epochs_completed"])
                    && (read["epochs_completed"] != truth["epochs_completed"]
                        || same(found, expected))
            }
            "last_metrics" => expected
                .as_object()
                .expect("a form that the index has")
                .iter()
                .all(|(name, value)| same(&found[name], value)),
            _ => same(found, expected),
        };
        if !right {
            faults.push(format!("  {key}: read {found}, truth {expected}"));
        }
    }
    faults
}

/// Equal, numbers to twelve digits.
fn same(a: &Value, b: &Value) -> bool {
    match (a, b) {
        (Value::Array(a), Value::Array(b)) => {
            a.len() == b.len() && a.iter().zip(b).all(|(a, b)| same(a, b))
        }
        (Value::Object(a), Value::Object(b)) => {
            a.len() == b.len()
                && a.iter()
                    .all(|(key, a)| b.get(key).is_some_and(|b| same(a, b)))
        }
        _ => match (a.as_f64(), b.as_f64()) {
            (Some(a), Some(b)) => (a - b).abs() <= 1e-12 * a.abs().max(b.abs()),
            _ => a == b,
        },
    }
}

#[test]
fn every_excerpt_is_read_as_its_truth_says() {
    let (mut wrong, mut all) = (Vec::new(), 0);
    for (path, item) in corpus() {
        all += 1;
        let bytes =
            std::fs::read(&path).unwrap_or_else(|error| panic!("{}: {error}", path.display()));
        let progress = follow([&bytes[..]]);
        let read = serde_json::to_value(Stated::from(&progress)).unwrap();
        let faults = faults(&read, &item["truth"]);
        if !faults.is_empty() {
            let name = path.file_name().unwrap().to_string_lossy();
            wrong.push(format!(
                "{name} ({:?}):\n{}",
                progress.recogniser,
                faults.join("\n")
            ));
        }
    }
    assert!(
        wrong.is_empty(),
        "{} of {all} excerpts are not read right:\n{}",
        wrong.len(),
        wrong.join("\n")
    );
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
    assert_eq!(
        (progress.steps_per_epoch, progress.step_seconds),
        (Some(50), Some(0.06))
    );
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
    places
        .windows(2)
        .map(|pair| &bytes[pair[0]..pair[1]])
        .collect()
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
        let pattern = TimingPattern::of_epoch(r"(?<epoch>\S+)/(?<epochs>.*?)(?<seconds>[\d:.e]*)");
        let mut follower = Follower::new(Some(&pattern)).unwrap();
        follower.feed(&bytes, at_ms);
        follower.finish(at_ms);
        let progress = follower.progress();
        prop_assert!(progress.epochs_completed >= progress.epochs.len() as u64);
    }
}

/// A header and then figures: nothing follows the last epoch but the end of the program.
#[test]
fn announced_last_epoch_counts_once_its_figures_came_and_the_program_ended_well() {
    let after = |text: &str| {
        let mut follower = Follower::new(None).expect("no pattern");
        follower.feed(text.as_bytes(), None);
        follower.finish(None);
        let before = follower.progress().epochs_completed;
        let unfinished = follower.unfinished().is_some();
        follower.ended_well();
        let after = follower.progress().epochs_completed;
        assert_eq!((unfinished, follower.unfinished()), (before < after, None));
        (before, after)
    };
    let epoch = |number: u32| format!("Epoch {number}/3\nloss: 0.{number} - accuracy: 0.5\n");
    let [first, second, third] = [1, 2, 3].map(epoch);
    assert_eq!(after(&format!("{first}{second}{third}")), (2, 3));
    assert_eq!(
        after(&format!("{first}{second}")),
        (1, 1),
        "it may have been cut short"
    );
    assert_eq!(
        after(&format!("{first}{second}Epoch 3/3\n")),
        (2, 2),
        "no figures came"
    );
    let steps = |last: u32| {
        let steps = [(0, 0), (0, 20), (0, 40), (1, 0), (1, 20), (1, 40)];
        let all = steps
            .iter()
            .take_while(|(epoch, step)| (*epoch, *step) <= (1, last));
        let line = |(epoch, step): &(u32, u32)| {
            format!("[{epoch}/2][{step}/60]\tLoss_D: 0.5\tLoss_G: 2.5\n")
        };
        all.map(line).collect::<String>()
    };
    assert_eq!(after(&steps(40)), (1, 2), "no line was due");
    assert_eq!(after(&steps(20)), (1, 1), "one was");
    // The exit code of a saved output is unknown: the time is that up to its last line.
    let stamped = |second: u32, text: &str| format!("2026-11-20 10:00:{second:02},000 {text}\n");
    let mut follower = Follower::new(None).expect("no pattern").of_saved();
    for (second, text) in [
        (1, "Epoch 2/3"),
        (5, "loss: 0.2"),
        (6, "Epoch 3/3"),
        (9, "loss: 0.1"),
    ] {
        follower.feed(stamped(second, text).as_bytes(), None);
    }
    follower.finish(None);
    let last = follower.unfinished().expect("the third");
    assert_eq!((last.epoch, last.duration_s), (3, Some(3.0)));
}

#[test]
fn engines_of_ignite_within_another_are_no_epochs() {
    let begins = "ignite.engine.engine.Engine INFO: Engine run starting with max_epochs=";
    let epoch = |number: u32, seconds: u32| {
        format!("Engine INFO: Epoch[{number}] Complete. Time taken: 00:00:{seconds:02}.120\n")
    };
    let mut text = format!("{begins}2.\n");
    for number in 1..=2 {
        text += &format!("Epoch[{number}] Iteration[10/100] Loss: 0.5\n");
        let evaluation = "Engine INFO: Engine run complete. Time taken: 00:00:03.200\n";
        text += &format!("{begins}1.\n{}{evaluation}", epoch(1, 3));
        text += &epoch(number, 9);
    }
    text += "Engine INFO: Engine run complete. Time taken: 00:00:18.300\n";
    let progress = follow([text.as_bytes()]);
    let epochs = progress.epochs.iter();
    let epochs: Vec<_> = epochs
        .map(|epoch| (epoch.epoch, epoch.printed_seconds))
        .collect();
    assert_eq!(epochs, [(1, Some(9.12)), (2, Some(9.12))]);
    assert_eq!(progress.restarts, 0);
}

#[test]
fn time_of_all_steps_so_far_is_no_steps() {
    let lines = (1..5).map(|step| format!("step {step}0 loss 2.{step} {step}4.2s elapsed\n"));
    assert_eq!(
        follow([lines.collect::<String>().as_bytes()]).step_seconds,
        None
    );
    assert_eq!(
        follow([b"step 10 loss 2.1 44.2s\n".as_slice()]).step_seconds,
        Some(44.2)
    );
}
