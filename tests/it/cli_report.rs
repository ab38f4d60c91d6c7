//! `dlrun report`.

use std::fs;
use std::os::unix::ffi::OsStringExt;
use std::os::unix::fs::{PermissionsExt, symlink};
use std::path::Path;

use serde_json::Value;

use crate::support::{TestEnv, Trained};

/// The state directory of a user with these trainings, and with a Slurm that knows none of them any more.
pub(crate) fn with(trained: &[Trained]) -> TestEnv {
    let env = TestEnv::new();
    let _ = env.fake_slurm();
    for trained in trained {
        let _ = trained.write(&env.state()).expect("the directory is ours");
    }
    fs::set_permissions(env.state(), fs::Permissions::from_mode(0o700)).expect("it is ours");
    env
}

fn short(number: u8, name: &str) -> Trained {
    Trained {
        epochs: 4,
        epoch_seconds: 9.0,
        ..Trained::usual(number, name)
    }
}

fn node_dir(env: &TestEnv, trained: &Trained) -> std::path::PathBuf {
    env.run_dir(trained.run_id().as_str()).join("0.0/n1.0")
}

fn names(dir: &Path) -> Vec<String> {
    let entries = fs::read_dir(dir).expect("it is there").flatten();
    let mut names: Vec<String> = entries
        .map(|entry| entry.file_name().to_string_lossy().into_owned())
        .collect();
    names.sort();
    names
}

#[test]
fn one_run_is_a_page_named_after_it() {
    let trained = short(1, "resnet50");
    let env = with(std::slice::from_ref(&trained));
    let said = env.dlrun(["report", "resnet50"]).run().code(0).text();
    let files = names(&env.jobs());
    let [file] = &files[..] else {
        panic!("one file: {files:?}")
    };
    assert!(
        file.starts_with("dlrun-report-") && said.starts_with(&format!("wrote {file} (")),
        "{said}"
    );
    let page = fs::read_to_string(env.jobs().join(file)).expect("text");
    for part in [
        "<h1>resnet50</h1>",
        "Time of an epoch",
        "CPUs busy",
        "GPU 0 busy",
        "sha256:9d2f7c41",
        "2 × NVIDIA H200",
    ] {
        assert!(page.contains(part), "no {part}");
    }
    // The epochs of the record, the first apart.
    assert!(page.contains("median of 3, stated") && page.contains("of 4 planned"));
    let again = env
        .dlrun(["report", "@1", "--output", "-"])
        .run()
        .code(0)
        .text();
    assert_eq!(again.lines().count(), page.lines().count());
}

#[test]
fn loss_of_an_epoch_that_did_not_end_is_shown_beside_the_last_that_did() {
    let trained = short(1, "resnet50");
    let env = with(std::slice::from_ref(&trained));
    let page = || {
        let report = env.dlrun(["report", "@1", "--output", "-"]).run();
        report.code(0).text()
    };
    assert!(!page().contains("printed last"));
    let file = node_dir(&env, &trained).join("record.json");
    let text = fs::read_to_string(&file).expect("readable");
    let mut record: Value = serde_json::from_str(&text).expect("JSON");
    record["progress"]["last_metrics"]["loss"] = 0.0123.into();
    fs::write(&file, record.to_string()).expect("ours");
    assert!(page().contains(" · printed last 0.0123"));
}

#[test]
fn runs_side_by_side_have_intervals_and_what_is_unlike() {
    let slow = Trained {
        epoch_seconds: 11.0,
        batch_size: Some(512),
        ..short(2, "slow")
    };
    let env = with(&[short(1, "quick"), slow]);
    let result = env
        .dlrun(["report", "quick", "slow", "--format", "json"])
        .run()
        .code(0)
        .result();
    let comparison = &result["comparison"];
    let row = &comparison["runs"][1];
    let [ratio, low, high] =
        ["ratio", "low", "high"].map(|key| row["time_ratio"][key].as_f64().expect("known"));
    assert!(
        low < ratio && ratio < high && 1.15 < low && high < 1.3,
        "{row}"
    );
    assert!(
        row["p_adjusted"].as_f64().is_some_and(|p| p < 0.001),
        "{row}"
    );
    let rate = row["rate_ratio"]["ratio"]
        .as_f64()
        .expect("the samples are known");
    assert!((rate * ratio - 1.0).abs() < 1e-9, "{row}");
    let unlike: Vec<&str> = comparison["unlike"]
        .as_array()
        .expect("a list")
        .iter()
        .filter_map(|unlike| unlike["what"].as_str())
        .collect();
    assert_eq!(unlike, ["batch_size"]);
    assert_eq!(result["scaling"], Value::Null);
    // The same object with the flag of all verbs.
    let flagged = env
        .dlrun(["report", "quick", "slow", "--json"])
        .run()
        .code(0)
        .result();
    assert_eq!(flagged["comparison"], result["comparison"]);
    let text = env
        .dlrun(["report", "quick", "slow", "-o", "-"])
        .run()
        .code(0);
    let _ = text
        .says(">Comparison</h2>")
        .says("differ in batch size")
        .says("longer: significant")
        .says(">256</td>");
}

#[test]
fn different_nodes_are_a_scaling_study() {
    let two = Trained {
        nodes: 2,
        epoch_seconds: 5.0,
        ..short(2, "two")
    };
    let env = with(&[two, short(1, "one")]);
    let result = env
        .dlrun(["report", "two", "one", "--json"])
        .run()
        .code(0)
        .result();
    let scaling = &result["scaling"];
    assert_eq!(
        (&scaling["kind"], &scaling["workers"]),
        (&"strong".into(), &"GPUs".into())
    );
    let run_id = result["runs"][1]["run"]["run_id"].clone();
    assert_eq!(
        scaling["baseline"], run_id,
        "the one with fewest is the baseline"
    );
    let efficiency = scaling["points"][1]["efficiency_ratio"]
        .as_f64()
        .expect("two runs");
    assert!((0.85..0.95).contains(&efficiency), "{scaling}");
    let text = env.dlrun(["report", "two", "one", "-o", "-"]).run().code(0);
    let _ = text
        .says("Baseline: 2 one")
        .says("with 1 node and 2 GPUs")
        .says("Strong scaling");
}

#[test]
fn what_others_named_is_text_and_nothing_else() {
    let evil = "\"><script>window.evil=1</script>|`@all`\n# x\u{202e}$(id)";
    let hostile = Trained {
        hostile: evil.to_owned(),
        has_trouble: true,
        name: evil.to_owned(),
        ..short(1, "")
    };
    let env = with(&[hostile, short(2, "good")]);
    let page = env
        .dlrun(["report", "@2", "good", "-o", "-"])
        .run()
        .code(0)
        .text();
    assert!(page.contains("&lt;script&gt;window.evil=1&lt;/script&gt;"));
    for never in ["<script", "\u{202e}", " style=", "http://", "https://"] {
        assert!(!page.contains(never), "{never}");
    }
}

#[test]
fn runs_with_nothing_in_them_say_what_is_missing() {
    let untimed = Trained {
        is_timed: false,
        gpus: 0,
        ..short(1, "untimed")
    };
    let bare = short(2, "bare");
    let env = with(&[untimed, bare.clone(), short(3, "good")]);
    let dir = node_dir(&env, &bare);
    for name in names(&dir).iter().filter(|name| name.ends_with(".seg")) {
        fs::remove_file(dir.join(name)).expect("ours");
    }
    let text = env
        .dlrun(["report", "good", "untimed", "bare", "-o", "-"])
        .run()
        .code(0);
    let _ = text
        .says("cannot be compared: no times that both have")
        .says("no line of the output");
    let page = env.dlrun(["report", "bare", "--output", "-"]).run().code(0);
    let _ = page.says("There are no samples").says("Time of an epoch");
    fs::remove_dir_all(&dir).expect("ours");
    let page = env.dlrun(["report", "bare", "--output", "-"]).run().code(0);
    let _ = page
        .says("There are no samples to draw")
        .says("no record of any");
}

#[test]
fn damaged_and_doubled_records_spoil_nothing_else() {
    let (damaged, good) = (short(1, "damaged"), short(2, "good"));
    let env = with(&[damaged.clone(), good.clone()]);
    let dir = node_dir(&env, &good);
    fs::copy(dir.join("series-0000.seg"), dir.join("series-0900.seg")).expect("ours");
    let before = env
        .dlrun(["report", "good", "--json"])
        .run()
        .code(0)
        .result();
    fs::remove_file(dir.join("series-0900.seg")).expect("ours");
    let after = env
        .dlrun(["report", "good", "--json"])
        .run()
        .code(0)
        .result();
    let of = |result: &Value| {
        (
            result["runs"][0]["insight"].clone(),
            result["runs"][0]["nodes"][0]["series"]["samples"].clone(),
        )
    };
    assert_eq!(of(&before), of(&after));
    let dir = node_dir(&env, &damaged);
    let record = fs::read_to_string(dir.join("record.json")).expect("ours");
    fs::write(dir.join("record.json"), &record[..record.len() / 2]).expect("ours");
    let text = env
        .dlrun(["report", "damaged", "good", "-o", "-"])
        .run()
        .code(0);
    let _ = text.says("n1.0").says("2 good");
}

#[test]
fn a_run_named_twice_is_shown_once_and_one_that_goes_on_says_so() {
    let running = Trained {
        is_running: true,
        ..short(1, "running")
    };
    let env = with(&[running.clone(), short(2, "good")]);
    let now = running.job_seconds();
    let _ = env
        .fake("squeue")
        .stdout(&format!("4712|RUNNING|{now}|{now}|N/A|n1|None\n"));
    let done = env
        .dlrun(["report", "running", "@1", "running", "-o", "-"])
        .run()
        .code(0);
    let done = done.says("running: all figures are of the time so far");
    assert!(!done.text().contains("3 running"), "{}", done.text());
}

#[test]
fn fifty_runs_at_once() {
    let of = |number: u8| Trained {
        gpus: 1,
        interval_ms: 5000,
        ..short(number, &format!("r{number}"))
    };
    let trained: Vec<Trained> = (1..=50).map(of).collect();
    let env = with(&trained);
    let runs: Vec<String> = trained.iter().map(|trained| trained.name.clone()).collect();
    let _ = env
        .dlrun(["report", "-o", "all.html"])
        .args(&runs)
        .run()
        .code(0)
        .says("wrote all.html (");
    let page = fs::read_to_string(env.jobs().join("all.html")).expect("text");
    assert!(
        page.contains("id=\"run50\"") && page.len() < 3_000_000,
        "{} bytes",
        page.len()
    );
    let many: Vec<String> = (0..101).map(|_| "r1".to_owned()).collect();
    let _ = env.dlrun(["report", "-o", "-"]).args(&many).run().code(0);
    let _ = env
        .dlrun(["report", "nobody"])
        .run()
        .code(66)
        .warns("there is no run `nobody`");
}

#[test]
fn only_a_regular_file_is_replaced_and_never_by_half_a_report() {
    let env = with(&[short(1, "good")]);
    let report = |file: &str| env.dlrun(["report", "good", "--output", file]).run();
    env.write("old.html", "old");
    fs::set_permissions(
        env.jobs().join("old.html"),
        fs::Permissions::from_mode(0o640),
    )
    .expect("ours");
    let _ = report("old.html").code(0).says("wrote old.html");
    let old = fs::metadata(env.jobs().join("old.html")).expect("it is there");
    assert!(old.len() > 10_000 && old.permissions().mode() & 0o777 == 0o640);
    symlink(env.jobs().join("old.html"), env.jobs().join("link.html")).expect("ours");
    fs::create_dir(env.jobs().join("dir.html")).expect("ours");
    for refused in [
        "link.html",
        "dir.html",
        "/dev/null",
        "/dev/full",
        "/proc/self/mem/x",
    ] {
        let _ = report(refused).code(73).warns("cannot write");
    }
    let _ = report("nowhere/x.html")
        .code(66)
        .warns("make the directory first");
    let _ = report("").code(64);
    assert_eq!(names(&env.jobs()), ["dir.html", "link.html", "old.html"]);
    assert_eq!(
        fs::metadata(env.jobs().join("old.html"))
            .expect("it is there")
            .len(),
        old.len()
    );
    let result = env
        .dlrun(["report", "good", "-o", "new.json", "--json"])
        .run()
        .code(0)
        .result();
    assert_eq!(
        (&result["file"], &result["format"]),
        (&"new.json".into(), &"json".into())
    );
    assert_eq!(
        result["bytes"].as_u64(),
        Some(
            fs::metadata(env.jobs().join("new.json"))
                .expect("written")
                .len()
        )
    );
}

#[test]
fn a_full_disk_leaves_what_was_there() {
    let env = with(&[short(1, "good")]);
    env.write("old.html", "old");
    // The largest file that this process may write: as a full disk, it fails in the middle.
    let script = format!(
        "ulimit -f 8; trap '' XFSZ; exec {} report good -o old.html",
        crate::support::DLRUN
    );
    let done = env.command("/bin/sh", ["-c", &script]).run().code(73);
    let _ = done
        .warns("cannot write `old.html`")
        .warns("nothing was changed");
    assert_eq!(
        fs::read_to_string(env.jobs().join("old.html")).expect("text"),
        "old"
    );
    assert_eq!(names(&env.jobs()), ["old.html"]);
}

#[test]
fn a_report_is_written_where_names_are_no_utf8() {
    let env = with(&[short(1, "good")]);
    let odd = env
        .root()
        .join(std::ffi::OsString::from_vec(b"odd \xff.html".to_vec()));
    let done = env
        .dlrun(["report", "good", "--output"])
        .arg(&odd)
        .run()
        .code(0);
    assert!(odd.is_file(), "{}", done.stderr);
}
