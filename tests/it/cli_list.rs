//! `dlrun list`.

use std::fs;

use crate::support::TestEnv;

fn run_to_end(env: &TestEnv, name: &str, script: &str) {
    let file = env.job_called(name, script, "");
    let _ = env
        .dlrun(["submit", "--scheduler", "local", "--wait"])
        .arg(file)
        .run();
}

fn names(env: &TestEnv, flags: &[&str]) -> Vec<String> {
    let done = env.dlrun(["list", "--json"]).args(flags).run().code(0);
    let runs = done.result()["runs"].as_array().expect("a list").clone();
    runs.iter()
        .map(|run| run["name"].as_str().expect("a name").to_owned())
        .collect()
}

#[test]
fn nothing_yet_is_told_with_the_next_step() {
    let env = TestEnv::new();
    let _ = env
        .dlrun(["list"])
        .run()
        .code(0)
        .says("; `dlrun submit JOB_FILE` makes one\n");
    assert!(!env.state().exists(), "reading makes nothing");
    assert_eq!(
        env.dlrun(["list", "--json"]).run().code(0).result()["runs"]
            .as_array()
            .map(Vec::len),
        Some(0)
    );
}

#[test]
fn runs_that_held_most_without_work_come_first_with_their_user_and_hours() {
    let env = TestEnv::new();
    for (name, gpu_seconds) in [("little", 600.0), ("much", 9000.0), ("none", 0.0)] {
        let id = env.submit(&env.job_called(name, "true", ""));
        let _ = env.dlrun(["wait", &id]).run().code(0);
        let path = env.state().join("runs").join(&id).join("0.0");
        let node = fs::read_dir(&path).expect("it ran").find_map(|entry| {
            let file = entry.expect("readable").path().join("record.json");
            file.is_file().then_some(file)
        });
        let file = node.expect("a record");
        let text = fs::read_to_string(&file).expect("readable");
        let mut record: serde_json::Value = serde_json::from_str(&text).expect("JSON");
        record["progress"]["held"] =
            serde_json::json!({ "gpu_seconds": gpu_seconds, "node_seconds": gpu_seconds / 2.0 });
        fs::write(&file, record.to_string()).expect("ours");
    }
    let flags = ["--idle", "--reindex"];
    assert_eq!(names(&env, &flags), ["much", "little"]);
    let text = env.dlrun(["list", "--idle"]).run().code(0).text();
    let first = text.lines().nth(1).expect("a run");
    assert!(
        first.contains(" much ") && first.contains(" 2.50 "),
        "{text}"
    );
    assert!(
        text.ends_with("these 2 runs: 2.67 GPU hours and 1.33 node hours without work\n"),
        "{text}"
    );
}

#[test]
fn runs_come_newest_first_and_can_be_chosen() {
    let env = TestEnv::new();
    for (name, script) in [("first", "true"), ("second", "exit 1"), ("third", "true")] {
        run_to_end(&env, name, script);
    }
    assert_eq!(names(&env, &[]), ["third", "second", "first"]);
    assert_eq!(names(&env, &["-n", "2"]), ["third", "second"]);
    let more = "there are more runs; `--limit N` shows more of them\n";
    for (limit, note) in [("2", more), ("3", "")] {
        let shown = env.dlrun(["list", "-n", limit]).run().code(0);
        assert_eq!(shown.stderr, note);
        let json = env.dlrun(["list", "--json", "-n", limit]).run().code(0);
        assert_eq!(json.stderr, "");
    }
    assert_eq!(names(&env, &["--state", "failed"]), ["second"]);
    assert_eq!(
        names(&env, &["--state", "completed", "--limit", "1"]),
        ["third"]
    );
    assert_eq!(names(&env, &["--name", "first"]), ["first"]);
    assert_eq!(names(&env, &["--name", "fir"]), Vec::<String>::new());
    let text = env.dlrun(["list"]).run().code(0).text();
    let rows: Vec<Vec<&str>> = text
        .lines()
        .map(|line| line.split_whitespace().collect())
        .collect();
    assert_eq!(
        rows[0],
        ["RUN", "NAME", "STATE", "JOB", "SUBMITTED", "RAN", "REASON"]
    );
    assert_eq!(rows[1][1..5], ["third", "completed", "local", "L3"]);
    assert_eq!(rows.len(), 4);
    let _ = env.dlrun(["show", rows[2][0]]).run().code(0).says("second");
}

#[test]
fn words_that_are_no_state_are_a_usage_error() {
    let env = TestEnv::new();
    let error = env
        .dlrun(["list", "--state", "done", "--json"])
        .run()
        .code(64)
        .error();
    assert_eq!(error["kind"], "usage");
    assert!(
        error["message"]
            .as_str()
            .expect("a message")
            .contains("completed"),
        "{error}"
    );
    let _ = env.dlrun(["list", "--state", "unknown"]).run().code(0);
}

#[test]
fn any_number_of_jobs_costs_one_question() {
    let env = TestEnv::new();
    for number in [100, 101, 102] {
        let _ = env.fake_slurm().stdout(&format!("{number}\n"));
        let _ = env.dlrun(["submit"]).arg(env.job("true", "")).run().code(0);
    }
    let now = std::time::UNIX_EPOCH.elapsed().expect("a clock").as_secs();
    let line =
        |id: u32, state: &str, reason: &str| format!("{id}|{state}|{now}|N/A|N/A||{reason}\n");
    let answer = line(100, "PENDING", "Resources")
        + &line(101, "RUNNING", "None")
        + &line(102, "TIMEOUT", "TimeLimit");
    let squeue = env.fake("squeue").stdout(&answer);
    let result = env.dlrun(["list", "--json"]).run().code(0).result();
    let runs = result["runs"].as_array().expect("a list");
    let seen: Vec<_> = runs
        .iter()
        .map(|run| {
            (
                run["job_id"].as_str(),
                run["state"].as_str(),
                run["reason"].as_str(),
            )
        })
        .collect();
    let reason = |text: &'static str| Some(text);
    assert_eq!(seen[2], (Some("100"), Some("pending"), reason("Resources")));
    assert_eq!(seen[1], (Some("101"), Some("running"), None));
    assert_eq!(seen[0], (Some("102"), Some("timeout"), reason("TimeLimit")));
    let call = squeue.call();
    assert_eq!(
        call.option("--jobs").map(|ids| ids.split(',').count()),
        Some(3),
        "{:?}",
        call.argv
    );
    assert_eq!(call.variable("SLURM_TIME_FORMAT"), Some("%s"));
    // The one that is over is not asked for again.
    let _ = env.dlrun(["list"]).run().code(0);
    assert_eq!(
        squeue.calls()[1]
            .option("--jobs")
            .map(|ids| ids.split(',').count()),
        Some(2)
    );
}

#[test]
fn queue_that_does_not_answer_costs_states_not_the_list() {
    let env = TestEnv::new();
    let _ = env.fake_slurm();
    let _ = env.dlrun(["submit"]).arg(env.job("true", "")).run().code(0);
    let _ = env
        .fake("squeue")
        .stderr("slurm_load_jobs error: Unable to contact slurm controller\n")
        .code(1);
    let done = env.dlrun(["list"]).run().code(0).says("slurm 4711");
    let _ = done
        .warns("warning: states are those last heard of: ")
        .warns("Unable to contact slurm controller");
}

#[test]
fn accounting_is_asked_on_request_only() {
    let env = TestEnv::new();
    let _ = env.fake_slurm();
    let _ = env.dlrun(["submit"]).arg(env.job("true", "")).run().code(0);
    let now = std::time::UNIX_EPOCH.elapsed().expect("a clock").as_secs();
    let sacct = env.fake("sacct").stdout(&format!(
        "4711|OUT_OF_MEMORY|0:125|{now}|{now}|{now}|n1|None\n"
    ));
    let _ = env.dlrun(["list"]).run().code(0).says("unknown");
    assert_eq!(sacct.calls().len(), 0);
    let _ = env
        .dlrun(["list", "--history"])
        .run()
        .code(0)
        .says("out_of_memory");
    assert_eq!(sacct.calls().len(), 1);
}

#[test]
fn damaged_or_lost_index_is_made_anew_from_the_records() {
    let env = TestEnv::new();
    run_to_end(&env, "kept", "true");
    let index = env.state().join("dlrun.db");
    for damage in [
        &b"no database at all, but long enough to be read as one"[..],
        b"",
    ] {
        fs::write(&index, damage).expect("ours");
        let _ = fs::remove_file(env.state().join("dlrun.db-wal"));
        assert_eq!(names(&env, &[]), ["kept"]);
    }
    fs::remove_file(&index).expect("ours");
    assert_eq!(names(&env, &[]), ["kept"]);
    let _ = env
        .dlrun(["list", "--reindex"])
        .run()
        .code(0)
        .warns("indexed 1 runs again")
        .says("kept");
    let odd = rusqlite::Connection::open(&index).expect("the index");
    let sql = "ALTER TABLE run RENAME COLUMN name TO title";
    odd.execute_batch(sql).expect("another column");
    drop(odd);
    let _ = env
        .dlrun(["list"])
        .run()
        .code(73)
        .warns("no such column: run.name\n")
        .warns("`dlrun list --reindex` rebuilds");
    let _ = env
        .dlrun(["list", "--reindex"])
        .run()
        .code(0)
        .warns("does not match this version of dlrun; it is kept as")
        .says("kept");
    // The damaged one was the first.
    assert!(env.state().join("dlrun.db.old-2").exists());
    let again = env.dlrun(["list", "--reindex"]).run().code(0);
    assert!(!again.stderr.contains("is kept as"), "{}", again.stderr);
}

#[test]
fn index_that_this_dlrun_cannot_use_is_set_aside_by_reindex_alone() {
    let env = TestEnv::new();
    run_to_end(&env, "kept", "true");
    let index = env.state().join("dlrun.db");
    let cases = [
        // Of a newer dlrun.
        ("PRAGMA user_version = 99", 73, "is that of a newer dlrun"),
        // Of another program.
        ("PRAGMA application_id = 7", 73, "of another program"),
        // Of a build whose version 13 had the columns of 14.
        (
            "PRAGMA user_version = 13",
            0,
            "does not match this version of dlrun",
        ),
    ];
    for (at, (sql, code, why)) in cases.into_iter().enumerate() {
        let other = rusqlite::Connection::open(&index).expect("the index");
        other.execute_batch(sql).expect("changed");
        drop(other);
        let before = fs::read(&index).expect("readable");
        let _ = env
            .dlrun(["list"])
            .run()
            .code(code)
            .warns("`dlrun list --reindex` rebuilds");
        assert_eq!(fs::read(&index).expect("readable"), before);
        let _ = env
            .dlrun(["list", "--reindex"])
            .run()
            .code(0)
            .warns(why)
            .says("kept");
        let aside = env.state().join(format!("dlrun.db.old-{}", at + 1));
        assert_eq!(fs::read(&aside).expect("kept"), before);
        let quiet = env.dlrun(["list"]).run().code(0).says("kept");
        assert_eq!(quiet.stderr, "");
    }
}
