//! `dlrun import`.

use std::fs;
use std::os::unix::fs::{PermissionsExt, chown};
use std::path::{Path, PathBuf};

use dlrun::job::RunId;
use dlrun::record::Table;
use serde_json::{Value, json};

use crate::support::TestEnv;
use crate::support::recorded::rows as rows_of;
use crate::support::rows::{lines, row};

const RUN: &str = "0000000000000001";

/// A run of two nodes with all that can be told of it, by one database.
fn whole(store: &str) -> Vec<Value> {
    let of = |node: &str, told: Value| {
        let mut told = told;
        told["node"] = json!(node);
        told
    };
    let mut rows = vec![row(
        Table::Runs,
        store,
        90,
        json!({ "name": "mnist", "user": "ada", "nodes": 2, "job_id": "4711", "exit_code": 0, "model": "lenet",
            "submitted_at_ms": 1_000, "started_at_ms": 2_000, "ended_at_ms": 9_000 }),
    )];
    for (place, node) in ["n1", "n2"].into_iter().enumerate() {
        let seq = 10 * place as u64;
        let usage = json!({ "started_at_ms": 2_000, "ended_at_ms": 8_900, "updated_at_ms": 9_000, "exit_code": 0,
            "hostname": node, "cpu_model": "EPYC 7742", "cpus": 128, "cpu_user_seconds": 3.5, "cpu_system_seconds": 0.5,
            "wall_seconds": 6.9, "mem_peak_bytes": 1_048_576, "recogniser": "keras", "epochs_completed": 2,
            "last_metrics": { "loss": null, "accuracy": 0.97 },
            "gaps": [{ "from_ms": 3_000, "to_ms": 4_000, "why": "stopped" }], "attempt_started_at_ms": 1_990 });
        rows.push(row(Table::Usage, store, seq + 1, of(node, usage)));
        for epoch in 0..2 {
            let told = json!({ "place": epoch, "epoch": epoch + 1, "printed_seconds": 2.5, "ended_at_ms": 5_000 + epoch,
                "warmup": epoch == 0, "metrics": { "loss": 0.5 } });
            rows.push(row(Table::Timings, store, seq + 2 + epoch, of(node, told)));
        }
        rows.push(row(
            Table::Gpus,
            store,
            seq + 4,
            of(
                node,
                json!({ "uuid": "GPU-1", "gpu": "H200", "readings": 60 }),
            ),
        ));
        rows.push(row(
            Table::Events,
            store,
            seq + 5,
            of(node, json!({ "place": 0, "at_ms": 3_000, "event": "xid" })),
        ));
        let told = json!({ "segment": 0, "at_ms": 3_000, "cpu_user_us": 500 });
        rows.push(row(Table::Samples, store, seq + 6, of(node, told)));
    }
    rows
}

fn import(env: &TestEnv, file: &Path) -> Value {
    env.dlrun(["import", "--json"])
        .arg(file)
        .run()
        .code(0)
        .result()["files"][0]
        .clone()
}

/// All that a database says, but for numbers that tell in which order it came.
fn content(database: &Path) -> Vec<Vec<String>> {
    let runs = "SELECT run_id, run.name, user, run.state, run.exit_code, run.started_at_ms, run.ended_at_ms, run.job_id, uid
         FROM run ORDER BY run_id";
    let of_node =
        "FROM node JOIN attempt ON attempt.id = node.attempt JOIN run ON run.id = attempt.run";
    let nodes = format!(
        "SELECT run_id, element, attempt.attempt, node.node, step, node.state, updated_at_ms, recogniser, node.exit_code,
             (SELECT cpu_model FROM target WHERE target.id = target), last_metrics, attempt.started_at_ms,
             (SELECT wall_seconds FROM usage WHERE usage.node = node.id),
             (SELECT group_concat(why) FROM gap WHERE gap.node = node.id) {of_node} ORDER BY 1, 2, 3, 4, 5"
    );
    let below = |table: &str, columns: &str| {
        format!(
            "SELECT run_id, element, attempt.attempt, node.node, step, {columns} {of_node}
             JOIN {table} ON {table}.node = node.id ORDER BY 1, 2, 3, 4, 5, 6, 7"
        )
    };
    let questions = [
        runs.to_owned(),
        nodes,
        below(
            "timing",
            "place, epoch, printed_seconds, metrics, warmup, timing.origin_seq",
        ),
        below("gpu", "uuid, gpu.name, readings"),
        below("event", "at_ms, kind, detail"),
        "SELECT run_id, count(*) FROM waiting GROUP BY 1 ORDER BY 1".to_owned(),
    ];
    questions
        .iter()
        .flat_map(|sql| rows_of(database, sql))
        .collect()
}

fn last_change(database: &Path) -> Vec<Vec<String>> {
    rows_of(database, "SELECT last FROM change")
}

fn index(env: &TestEnv) -> PathBuf {
    env.state().join("dlrun.db")
}

fn copies(env: &TestEnv) -> Vec<PathBuf> {
    let entries = fs::read_dir(env.state().join("imports"))
        .into_iter()
        .flatten();
    entries
        .map(|entry| entry.expect("an entry").path())
        .collect()
}

#[test]
fn what_was_exported_elsewhere_is_listed_and_shown() {
    let env = TestEnv::new();
    let file = env.write("runs.jsonl", lines(&whole("a")));
    let counts = import(&env, &file);
    assert_eq!(
        (&counts["lines"], &counts["new"], &counts["skipped"]),
        (&json!(13), &json!(11), &json!(2))
    );
    assert_eq!(
        counts["rows"],
        json!({ "run": 1, "usage": 2, "timing": 4, "gpu": 2, "event": 2, "sample": 2 })
    );
    let listed = env.dlrun(["list", "--json"]).run().code(0).result();
    assert_eq!(
        (&listed["runs"][0]["name"], &listed["runs"][0]["state"]),
        (&json!("mnist"), &json!("completed"))
    );
    let shown = env.show("mnist");
    assert_eq!(
        (&shown["records"], &shown["summary"]["epochs"]["epochs"]),
        (&json!(null), &json!(2))
    );
    let node = &shown["nodes"][1];
    assert_eq!(
        (
            &node["node"],
            &node["host"]["cpus"],
            &node["progress"]["recogniser"]
        ),
        (&json!("n2"), &json!(128), &json!("keras"))
    );
    assert_eq!(
        node["progress"]["last_metrics"],
        json!({ "loss": null, "accuracy": 0.97 })
    );
    assert_eq!(
        (&node["gaps"][0]["why"], &node["gpus"][0]["name"]),
        (&json!("stopped"), &json!("H200"))
    );
    assert_eq!(
        (&node["events"][0]["kind"], &node["usage"]["mem_peak_bytes"]),
        (&json!("xid"), &json!(1_048_576))
    );
    let _ = env
        .dlrun(["show", RUN])
        .run()
        .code(0)
        .says("none here: the run was imported");
    for verb in ["logs", "wait", "cancel"] {
        let _ = env
            .dlrun([verb, "mnist"])
            .run()
            .code(66)
            .warns("was imported: it has no directory here");
    }
}

#[test]
fn the_same_file_twice_changes_nothing() {
    let env = TestEnv::new();
    let file = env.write("runs.jsonl", lines(&whole("a")));
    let _ = import(&env, &file);
    let before = (
        content(&index(&env)),
        last_change(&index(&env)),
        copies(&env),
    );
    assert_eq!(before.2.len(), 1);
    let counts = import(&env, &file);
    assert_eq!(
        (&counts["known"], &counts["new"], &counts["skipped"]),
        (&json!(11), &json!(0), &json!(2))
    );
    let _ = env
        .dlrun(["import"])
        .arg(&file)
        .arg(&file)
        .run()
        .code(0)
        .says("13 lines: 11 known, 2 of samples, skipped");
    assert_eq!(
        (
            content(&index(&env)),
            last_change(&index(&env)),
            copies(&env)
        ),
        before
    );
    let mode = copies(&env)[0]
        .metadata()
        .expect("there")
        .permissions()
        .mode();
    assert_eq!(mode & 0o777, 0o600, "it tells of other users' runs");
}

#[test]
fn an_older_version_never_replaces_a_newer_one() {
    let run = |seq, told| row(Table::Runs, "a", seq, told);
    let running = run(5, json!({ "state": "running", "job_id": "7" }));
    let over = run(9, json!({ "state": "failed", "ended_at_ms": 9_000 }));
    let corrected = run(
        12,
        json!({ "state": "timeout", "ended_at_ms": 9_000, "job_id": "7" }),
    );
    let usage = |store: &str, seq: u64, updated: u64, state: &str| {
        row(
            Table::Usage,
            store,
            seq,
            json!({ "state": state, "updated_at_ms": updated, "recogniser": format!("r{updated}") }),
        )
    };
    let epoch = |seq, seconds| {
        row(
            Table::Timings,
            "a",
            seq,
            json!({ "place": 0, "printed_seconds": seconds }),
        )
    };
    let told = [
        running,
        over,
        corrected,
        usage("a", 3, 5_000, "running"),
        usage("a", 6, 4_000, "ended"),
        usage("b", 900, 4_500, "running"),
        epoch(2, 1.0),
        epoch(7, 2.0),
    ];
    let mut seen = Vec::new();
    // Each order of three that matters, and files of one line each.
    for order in [
        [0, 1, 2, 3, 4, 5, 6, 7],
        [2, 1, 0, 4, 3, 5, 7, 6],
        [1, 2, 0, 5, 4, 3, 6, 7],
        [7, 6, 5, 4, 3, 2, 1, 0],
    ] {
        let env = TestEnv::new();
        for (number, place) in order.into_iter().enumerate() {
            let _ = import(
                &env,
                &env.write(&format!("{number}.jsonl"), lines([&told[place]])),
            );
        }
        let state = rows_of(&index(&env), "SELECT state, job_id FROM run");
        assert_eq!(state, [["timeout", "7"]], "{order:?}");
        let node = rows_of(
            &index(&env),
            "SELECT state, updated_at_ms, recogniser FROM node",
        );
        assert_eq!(
            node,
            [["ended", "4000", "r4000"]],
            "the clock was set back: {order:?}"
        );
        assert_eq!(
            rows_of(&index(&env), "SELECT printed_seconds FROM timing"),
            [["2"]],
            "{order:?}"
        );
        seen.push(content(&index(&env)));
    }
    assert!(seen.windows(2).all(|pair| pair[0] == pair[1]));
}

#[test]
fn lines_may_come_in_any_order_and_more_than_once() {
    let env = TestEnv::new();
    let _ = import(&env, &env.write("whole.jsonl", lines(&whole("a"))));
    let expected = content(&index(&env));
    let rows = whole("a");
    let reversed: Vec<&Value> = rows.iter().rev().collect();
    let halves: Vec<&Value> = rows[12..].iter().chain(&rows[..12]).chain(&rows).collect();
    for (what, rows) in [("reversed", reversed), ("halves", halves)] {
        let env = TestEnv::new();
        let counts = import(&env, &env.write("part.jsonl", lines(rows.iter().copied())));
        assert_eq!(content(&index(&env)), expected, "{what}");
        // What waited for a row of the same file waits no longer at its end.
        let told = ["waiting", "new", "known", "skipped"];
        let told = told.map(|key| counts[key].as_u64().expect("a number"));
        assert_eq!(
            (told[0], told[1] + told[2] + told[3]),
            (0, rows.len() as u64),
            "{what}: {counts}"
        );
    }
    // One line a file, the run last, which all others came before.
    let env = TestEnv::new();
    for (number, row) in rows.iter().enumerate().rev() {
        let counts = import(&env, &env.write(&format!("{number}.jsonl"), lines([row])));
        if row["kind"] == "sample" {
            continue;
        }
        let waits = if number == 0 { 0 } else { 1 };
        assert_eq!(
            (counts["waiting"].as_u64(), counts["new"].as_u64()),
            (Some(waits), Some(1 - waits)),
            "{row}"
        );
    }
    assert_eq!(content(&index(&env)), expected, "one by one");
    let _ = env.dlrun(["list", "--reindex"]).run().code(0);
    assert_eq!(content(&index(&env)), expected, "from the copies");
}

#[test]
fn a_deleted_index_is_filled_again_from_the_copies() {
    let env = TestEnv::new();
    let _ = import(&env, &env.write("a.jsonl", lines(&whole("a"))));
    let alone = row(
        Table::Timings,
        "a",
        1,
        json!({ "place": 0, "run_id": "0000000000000009" }),
    );
    let _ = import(&env, &env.write("b.jsonl", lines([&alone])));
    let before = content(&index(&env));
    fs::remove_file(index(&env)).expect("ours");
    let _ = env.dlrun(["list"]).run().code(0).says("mnist");
    assert_eq!(content(&index(&env)), before);
    // A copy that is damaged is named and costs no other.
    let mut paths = copies(&env);
    paths.sort_by_key(|path| path.metadata().expect("there").len());
    fs::write(&paths[0], b"no zstd").expect("ours");
    let _ = env
        .dlrun(["list", "--reindex"])
        .run()
        .code(0)
        .says("mnist")
        .warns("is skipped");
}

#[test]
fn own_runs_are_left_alone() {
    let env = TestEnv::new();
    let run_id = env.submit(&env.job_called("mine", "true", ""));
    env.wait_state(&run_id, "completed");
    let theirs = |table, told: Value| {
        let mut told = told;
        told["run_id"] = json!(run_id);
        row(table, "a", 99, told)
    };
    let rows = [
        theirs(Table::Runs, json!({ "name": "theirs", "state": "failed" })),
        theirs(Table::Usage, json!({})),
        theirs(Table::Timings, json!({ "place": 7 })),
    ];
    let counts = import(&env, &env.write("theirs.jsonl", lines(&rows)));
    assert_eq!((&counts["own"], &counts["new"]), (&json!(3), &json!(0)));
    assert_eq!(env.show(&run_id)["run"]["name"], "mine");
    assert_eq!(
        rows_of(&index(&env), "SELECT count(*) FROM timing WHERE place = 7"),
        [["0"]]
    );
    // A run whose directory comes later is an own one from then on.
    let aside = env.root().join("aside");
    let place = env.state().join("runs").join(&run_id);
    fs::rename(&place, &aside).expect("moved");
    let _ = env.dlrun(["list", "--reindex"]).run().code(0);
    let _ = import(&env, &env.write("again.jsonl", lines(&rows)));
    assert_eq!(env.show(&run_id)["run"]["name"], "theirs");
    fs::rename(&aside, &place).expect("moved back");
    assert_eq!(env.show(&run_id)["run"]["name"], "mine");
    assert_eq!(
        rows_of(&index(&env), "SELECT count(*) FROM timing WHERE place = 7"),
        [["0"]]
    );
}

#[test]
fn nodes_that_saw_different_ends_make_one_state() {
    let told = |store: &str, node: &str, exit: i32, at: u64| {
        let state = if exit == 0 { "completed" } else { "failed" };
        let run = json!({ "uid": 1000, "state": state, "exit_code": exit, "ended_at_ms": at });
        let usage =
            json!({ "node": node, "exit_code": exit, "ended_at_ms": at, "started_at_ms": 2_000 });
        lines([
            &row(Table::Runs, store, 1, run),
            &row(Table::Usage, store, 2, usage),
        ])
    };
    let (one, other) = (told("n1", "n1", 3, 8_000), told("n2", "n2", 0, 9_000));
    for files in [[&one, &other], [&other, &one]] {
        let env = TestEnv::new();
        files
            .iter()
            .for_each(|text| drop(import(&env, &env.write("node.jsonl", text))));
        let status = env.show("@1")["status"].clone();
        assert_eq!(
            (&status["state"], &status["exit"], &status["ended_at_ms"]),
            (&json!("failed"), &json!({ "code": 3 }), &json!(9_000))
        );
        assert_eq!(status["cause"]["kind"], "program");
        // The user's own index knows the scheduler's word.
        let known = row(
            Table::Runs,
            "u",
            1,
            json!({ "state": "node_fail", "raw_state": "NODE_FAIL", "ended_at_ms": 8_500 }),
        );
        let _ = import(&env, &env.write("user.jsonl", lines([&known])));
        files
            .iter()
            .for_each(|text| drop(import(&env, &env.write("node.jsonl", text))));
        assert_eq!(env.state_of("@1"), "node_fail");
    }
}

#[test]
fn an_input_that_fails_leaves_no_new_database() {
    let env = TestEnv::new();
    let database = env.root().join("new.db");
    // Reading its first byte is an error of the kernel's.
    let _ = env
        .dlrun(["import", "/proc/self/mem", "--store"])
        .arg(&database)
        .run()
        .code(73)
        .warns("nothing of /proc/self/mem was imported");
    assert!(!database.exists());
    // What an earlier file brought stays.
    let good = env.write("good.jsonl", lines(&whole("a")));
    let _ = env
        .dlrun(["import", "--store"])
        .arg(&database)
        .arg(&good)
        .arg("/proc/self/mem")
        .run()
        .code(73);
    assert!(database.exists());
}

#[test]
fn samples_are_not_in_the_copy_of_an_import() {
    let env = TestEnv::new();
    let file = env.write("runs.jsonl", lines(&whole("a")));
    let counts = import(&env, &file);
    assert_eq!(counts["skipped"], 2);
    let [copy] = &copies(&env)[..] else {
        panic!("one copy");
    };
    let copy = fs::File::open(copy).expect("there");
    let text = std::io::read_to_string(zstd::Decoder::new(copy).expect("zstd")).expect("text");
    assert_eq!(text.lines().count(), 11);
    assert!(!text.contains("\"cpu_user_us\""), "{text}");
}

#[test]
fn a_wrong_line_has_its_place_and_keeps_no_other_out() {
    let good = whole("a");
    let (first, second) = (good[0].to_string(), good[1].to_string());
    let newer = first.replace("\"format\":1", "\"format\":2");
    let cases = [
        (
            second.replace("3.5", "-3.5"),
            "`cpu_user_seconds`: it is negative",
        ),
        (second.replace("3.5", "NaN"), "expected value"),
        (second[..second.len() / 2].to_owned(), "EOF while parsing"),
        (newer, "the row has format 2, and this dlrun knows format 1"),
        (
            first.replace("\"ada\"", "\"\\u001b]0;x\\u0007\""),
            "`user`: it has control characters",
        ),
        (first.replace(RUN, "../../../tmp/x"), "is not a run id"),
        ("x".repeat(3 << 20), "it is longer than 1048576 bytes"),
        ("{}".to_owned(), "missing field `kind`"),
    ];
    for (line, message) in cases {
        let env = TestEnv::new();
        let file = env.write("runs.jsonl", format!("\n{first}\n{line}\n{second}\n"));
        let result = env
            .dlrun(["import", "--json", "--store", "site.db"])
            .arg(&file)
            .run()
            .code(65)
            .result();
        let problem = &result["files"][0]["problems"][0];
        let text = problem["message"].as_str().expect("text");
        assert!(text.contains(message) && text.len() < 1_000, "{text}");
        assert_eq!(problem["line"], 3, "{problem}");
        let done = env.dlrun(["import"]).arg(&file).run().code(65);
        let _ = done
            .says("3 lines: 2 new, 1 invalid, skipped")
            .warns(&format!("{}:3:", file.display()));
        let before = content(&index(&env));
        let _ = env.dlrun(["list", "--reindex"]).run().code(0).says("mnist");
        assert_eq!(content(&index(&env)), before);
    }
}

#[test]
fn file_that_cannot_be_imported_is_refused() {
    let env = TestEnv::new();
    for bytes in [
        &b"\x1f\x8b\x08\x00\x00"[..],
        b"PAR1\x15\x04\xff",
        b"no row\n",
    ] {
        let file = env.root().join("packed");
        fs::write(&file, bytes).expect("written");
        let _ = env
            .dlrun(["import"])
            .arg(&file)
            .run()
            .code(65)
            .warns("not a row");
    }
    let long = env.write("long.jsonl", "x".repeat(3 << 20));
    let _ = env
        .dlrun(["import"])
        .arg(&long)
        .run()
        .code(65)
        .warns("longer than 1048576");
    let _ = env
        .dlrun(["import"])
        .arg(env.jobs())
        .run()
        .code(66)
        .warns("is a directory");
    let _ = env.dlrun(["import"]).run().code(64);
    // No database, and no records, are made for files that are not there.
    let nothing = TestEnv::new();
    let database = nothing.root().join("x.db");
    let missing = nothing
        .dlrun(["import", "no.jsonl", "--store"])
        .arg(&database);
    let _ = missing.run().code(66).warns("cannot read `no.jsonl`");
    let _ = nothing.dlrun(["import", "no.jsonl"]).run().code(66);
    assert!(!database.exists() && !nothing.state().exists());
    let empty = env.write("empty.jsonl", "");
    let _ = env
        .dlrun(["import"])
        .arg(&empty)
        .run()
        .code(0)
        .says("0 lines");
}

#[test]
fn standard_input_is_read_too() {
    let env = TestEnv::new();
    let file = env.write("runs.jsonl", lines(&whole("a")));
    let script = format!(
        "cat {} | {} import --json -",
        file.display(),
        crate::support::DLRUN
    );
    let done = env.command("sh", ["-c", &script]).run().code(0);
    assert_eq!(
        (
            &done.result()["files"][0]["file"],
            &done.result()["files"][0]["new"]
        ),
        (&json!("standard input"), &json!(11))
    );
}

#[test]
fn a_file_of_another_user_tells_of_that_users_runs_only() {
    if !nix::unistd::geteuid().is_root() {
        return crate::support::skip("only root can make a file of another user");
    }
    let env = TestEnv::new();
    let (mallory, alice) = (64_002, 64_001);
    let of = |owner, number| RunId::of_owner([number; 10], owner).to_string();
    // An index's row has no `uid`; rows that hang on a run could spoil it as well.
    let rows = [
        row(Table::Runs, "a", 1, json!({ "run_id": of(mallory, 1) })),
        row(Table::Runs, "a", 2, json!({ "run_id": of(alice, 2) })),
        row(Table::Usage, "a", 3, json!({ "run_id": of(alice, 2) })),
        row(Table::Runs, "a", 4, json!({})),
    ];
    let file = env.write("runs.jsonl", lines(&rows));
    let imported = |owner| {
        chown(&file, Some(owner), None).expect("root may");
        let database = env.root().join(format!("{owner}.db"));
        let done = env
            .dlrun(["import", "--json", "--store"])
            .arg(&database)
            .arg(&file)
            .run();
        let done = if owner < 1000 {
            done.code(0)
        } else {
            done.code(65)
        };
        done.result()["files"][0].clone()
    };
    let theirs = imported(mallory);
    assert_eq!(
        (&theirs["new"], &theirs["wrong"]),
        (&json!(1), &json!(3)),
        "{theirs}"
    );
    let why = theirs["problems"][0].to_string();
    assert!(
        why.contains("the file is of user 64002") && why.contains("is user 64001's"),
        "{why}"
    );
    // The system's accounts keep what nodes exported, and whoever hands a file in through a pipe vouches for it.
    assert_eq!(imported(100)["new"], 4);
    let script = format!(
        "{} import --json - < {}",
        crate::support::DLRUN,
        file.display()
    );
    assert_eq!(
        env.command("sh", ["-c", &script]).run().code(0).result()["files"][0]["new"],
        4
    );
}

#[test]
fn a_database_of_its_own_is_the_truth_itself() {
    let env = TestEnv::new();
    let database = env.root().join("site.db");
    let into = |file: &Path| {
        env.dlrun(["import", "--json", "--store"])
            .arg(&database)
            .arg(file)
            .run()
    };
    let file = env.write("runs.jsonl", lines(&whole("a")));
    assert_eq!(into(&file).code(0).result()["store"], json!(database));
    assert_eq!(into(&file).code(0).result()["files"][0]["known"], 11);
    assert!(
        !env.state().exists(),
        "the own records have nothing to do with it"
    );
    assert_eq!(
        database.metadata().expect("made").permissions().mode() & 0o777,
        0o600
    );
    let _ = env
        .dlrun(["list", "--store"])
        .arg(&database)
        .run()
        .code(0)
        .says("mnist");
    let _ = env
        .dlrun(["show", "mnist", "--store"])
        .arg(&database)
        .run()
        .code(0)
        .says("the run was imported");
    let _ = env
        .dlrun(["show", "none", "--store"])
        .arg(&database)
        .run()
        .code(66);
    let _ = env
        .dlrun(["list", "--store", "no.db"])
        .run()
        .code(66)
        .warns("no.db");
    // What is no such database stays as it is.
    let other = env.write(
        "other.db",
        "text, and more of it than a header is long ".repeat(9),
    );
    let _ = env
        .dlrun(["import", "--store"])
        .arg(&other)
        .arg(&file)
        .run()
        .code(65);
    assert!(
        fs::read_to_string(&other)
            .expect("there")
            .starts_with("text")
    );
    let node = env.root().join("node.db");
    drop(dlrun::record::store::NodeStore::open(&node).expect("made"));
    let done = env
        .dlrun(["import", "--store"])
        .arg(&node)
        .arg(&file)
        .run()
        .code(77);
    let _ = done.warns("the database of a node daemon");
}

#[test]
fn two_sites_with_the_same_names_stay_apart() {
    let env = TestEnv::new();
    let run = |store: &str, id: &str, at: u64| {
        row(
            Table::Runs,
            store,
            1,
            json!({ "run_id": id, "name": "train", "job_id": "7", "submitted_at_ms": at }),
        )
    };
    let rows = [
        run("a", "0000000000000001", 1_000),
        run("b", "0000000000000002", 2_000),
    ];
    let _ = import(&env, &env.write("two.jsonl", lines(&rows)));
    let listed = env
        .dlrun(["list", "--json", "--name", "train"])
        .run()
        .code(0)
        .result();
    assert_eq!(listed["runs"].as_array().map(Vec::len), Some(2));
}

#[test]
fn a_run_that_went_on_elsewhere_is_neither_asked_for_nor_forgotten() {
    let env = TestEnv::new();
    let squeue = {
        env.fake_slurm();
        env.fake("squeue")
    };
    let rows = [row(
        Table::Runs,
        "a",
        1,
        json!({ "state": "running", "job_id": "7", "name": "going on" }),
    )];
    let _ = import(&env, &env.write("runs.jsonl", lines(&rows)));
    for _ in 0..2 {
        let _ = env
            .dlrun(["list"])
            .run()
            .code(0)
            .says("going on")
            .says("running");
    }
    assert_eq!(squeue.calls().len(), 0);
}
