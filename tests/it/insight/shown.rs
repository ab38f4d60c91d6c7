//! `dlrun show` of imagined runs, from their files.

use std::fs;

use dlrun::record::{NodeRecord, Sample, encode_segments};
use serde_json::{Value, json};

use super::case::{BEGIN_MS, Case, GIB, Load, node};
use crate::support::{TestEnv, wait_for};

const HOUR: u64 = 3600;
const RESOURCES: &str = "[resources]\ncpus_per_task = 8\nmemory = \"64GiB\"\nwalltime = \"12h\"\n";

/// A local run whose files say what these nodes did. Its directory is written before anybody looks at it.
fn imagined(env: &TestEnv, nodes: Vec<(NodeRecord, Vec<Sample>)>, seconds: u64) -> String {
    let more = format!("{RESOURCES}[workload]\nsamples = 60000\n");
    let id = env.submit(&env.job_called("imagined", "true", &more));
    let attempt = env.run_dir(&id).join("0.0");
    wait_for("its end", || attempt.join("end.json").exists());
    env.wait_quiet();
    for (mark, at_ms) in [
        ("start.json", BEGIN_MS),
        ("end.json", BEGIN_MS + seconds * 1000),
    ] {
        let mut value: Value =
            serde_json::from_slice(&fs::read(attempt.join(mark)).expect("a mark")).expect("JSON");
        value["at_ms"] = json!(at_ms);
        value["uptime_ms"] = Value::Null;
        fs::write(attempt.join(mark), value.to_string()).expect("ours");
    }
    for entry in fs::read_dir(&attempt).expect("an attempt").flatten() {
        if entry.path().is_dir() {
            fs::remove_dir_all(entry.path()).expect("ours");
        }
    }
    for (mut record, samples) in nodes {
        record.key.run_id = id.parse().expect("an id");
        let dir = attempt.join(format!("{}.0", record.key.node));
        fs::create_dir(&dir).expect("ours");
        for (seq, chunk) in samples.chunks(300).enumerate() {
            for bytes in encode_segments(chunk) {
                fs::write(dir.join(format!("series-{seq:04}.seg")), bytes).expect("ours");
            }
        }
        fs::write(
            dir.join("record.json"),
            serde_json::to_vec(&record).expect("JSON"),
        )
        .expect("ours");
    }
    id
}

#[test]
fn a_wasteful_run_is_told_what_to_paste() {
    let env = TestEnv::new();
    let load = Load::new(2.5, 10 * GIB).gpus(&[Some(97)]);
    let id = imagined(&env, Case::new(HOUR, &load).nodes, HOUR);
    let done = env.dlrun(["show", &id]).run().code(0);
    let text = done.text();
    for part in [
        "epoch        60.5 s median, 95% within 60.5 s (58 epochs, as printed)\n",
        "first epoch  90.5 s, +30.0 s against the later ones\n",
        "samples/s    992\n",
        "limited by   compute-bound: its GPUs were busy 97% of the time\n",
        "CPUs used    2.5 of 8 (31%)\n",
        "memory used  10GiB of 64GiB (16%)\n",
        "time used    1 h 00 min of 12h (8%)\n",
        "GPU energy   0.58 kWh\n",
        "\n[resources]\n# it took 1 h 00 min of 12h (8%)\nwalltime = \"1h15m\"\n",
        "\nmemory = \"12GiB\"\n",
        "\ncpus_per_task = 3\n",
    ] {
        assert!(text.contains(part), "{part:?} in\n{text}");
    }
    assert!(text.is_ascii(), "{text}");
    let paths = ["records ", "output ", "job file ", "submitted "];
    let wide = text
        .lines()
        .find(|line| line.len() > 80 && !paths.iter().any(|path| line.starts_with(path)));
    assert_eq!(wide, None, "{text}");
    // What is printed to be pasted is a job file, comments and all.
    let begin = text.find("[resources]\n").expect("lines to paste");
    let lines: String = text[begin..]
        .lines()
        .take_while(|line| !line.is_empty())
        .map(|line| format!("{line}\n"))
        .collect();
    let lines = lines.split("note: ").next().unwrap_or_default();
    let parsed = dlrun::job::parse(&format!("[run]\ncommand = [\"true\"]\n{lines}"));
    assert!(parsed.is_ok(), "{lines}\n{parsed:?}");
}

#[test]
fn json_has_the_insight_of_the_first_nodes() {
    let env = TestEnv::new();
    let load = Load::new(2.5, 10 * GIB).gpus(&[Some(97)]);
    let nodes = (0..6)
        .map(|number| node(&format!("n{number}"), 400, &load))
        .collect();
    let id = imagined(&env, nodes, 400);
    let insight = env.show(&id)["insight"].clone();
    let sampled = |insight: &Value| {
        let nodes = insight["used"]["nodes"].as_array().expect("nodes").clone();
        nodes
            .iter()
            .filter(|node| !node["sampled"].is_null())
            .count()
    };
    assert_eq!(
        (
            insight["timing"]["epochs"]["source"].as_str(),
            sampled(&insight)
        ),
        (Some("stated"), 4)
    );
    let unread = insight["unmeasured"].to_string();
    assert!(unread.contains("were not read"), "{unread}");
    assert_eq!(insight["used"]["nodes"][0]["cpus_from"], "request");
}

#[test]
fn a_damaged_segment_and_a_truncated_record_are_named_and_the_rest_is_told() {
    let env = TestEnv::new();
    let load = Load::new(2.5, 10 * GIB).gpus(&[Some(97)]);
    let id = imagined(&env, Case::new(HOUR, &load).nodes, HOUR);
    let dir = env.run_dir(&id).join("0.0/n1.0");
    fs::write(dir.join("series-0005.seg"), b"dlrs").expect("ours");
    let shown = env.show(&id);
    assert!(
        shown["unreadable"].to_string().contains("series-0005.seg"),
        "{shown}"
    );
    assert_eq!(shown["insight"]["advice"].as_array().map(Vec::len), Some(3));
    for seq in 0..8 {
        fs::write(dir.join(format!("series-{seq:04}.seg")), b"dlrs").expect("ours");
    }
    let shown = env.show(&id);
    assert!(
        shown["insight"]["unmeasured"]
            .to_string()
            .contains("samples cover"),
        "{shown}"
    );
    let record = fs::read(dir.join("record.json")).expect("a record");
    fs::write(dir.join("record.json"), &record[..record.len() / 2]).expect("ours");
    let done = env.dlrun(["show", &id]).run().code(0);
    let _ = done.says("cannot be read: ");
}
