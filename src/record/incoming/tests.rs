use std::collections::BTreeMap;

use serde_json::{Map, Value, json};

use super::*;
use crate::record::{FieldType, Role};

/// A row of a table with a value in each column.
fn full(table: Table) -> Map<String, Value> {
    let mut row = Map::from_iter([
        ("kind".to_owned(), json!(table.kind())),
        ("format".to_owned(), json!(1)),
    ]);
    for field in table.fields() {
        let value = match (field.name, field.of) {
            ("run_id", _) => json!("0000000000000001"),
            ("scheduler", _) => json!("slurm"),
            ("state", _) if table == Table::Usage => json!("ended"),
            ("state", _) => json!("failed"),
            ("cause", _) => json!("program"),
            ("array", _) => json!("0-3"),
            ("framework_provenance", _) => json!("pip"),
            ("storage_class", _) => json!("ssd"),
            ("source" | "step_source" | "epoch_source", _) => json!("clock"),
            ("epoch_numbering", _) => json!("0-based"),
            ("throughput_scope", _) => json!("per_device"),
            ("event", FieldType::Text) => json!("oom_kill"),
            ("parts", _) => json!([{ "job_id": "96", "offset": 2 }]),
            ("elements", _) => json!({ "total": 2, "states": { "failed": 1, "completed": 1 } }),
            ("conditions", _) => {
                json!({ "affinity": "0-3", "storage": [{ "of": "workdir", "class": "nfs4" }] })
            }
            ("identity", _) => {
                json!({ "key": "train.py-01", "program": "python", "asked": { "nodes": 1, "tasks_per_node": 1 } })
            }
            ("forecast", _) => {
                let figure = json!({ "mean": 3.0, "median": 2.9, "low": 2.0, "high": 4.0 });
                json!({ "model": "m", "basis": "alike", "runs": 3, "epoch_seconds": figure, "explored": false })
            }
            ("followed", _) => {
                json!({ "run_id": "k3f9a2b7c1d8e4f5", "lines": ["walltime = \"1h\""], "before": { "run_seconds": 9.5 } })
            }
            ("command", _) => json!(["python", "train.py"]),
            ("software", _) => json!([{ "name": "torch", "version": "2.5.1" }]),
            ("point", _) => json!("step"),
            ("lost_nodes", _) => json!(["n4"]),
            ("record", _) => json!({ "format": 1, "found": null }),
            ("trial", _) => {
                json!({ "seconds": 9.0, "unit": "step", "ways": [], "chosen": 0, "why": "w", "compiler": "xla", "threads": 2 })
            }
            ("container", _) => json!({ "source": "/i.sif" }),
            ("activity", _) => {
                let pattern = json!({ "signal": "cpu", "kind": "periodic", "period_seconds": 9.5 });
                let phases = json!([{ "phase": "training", "seconds": 90.0, "share": 0.9 }]);
                json!({ "pattern": pattern, "phases": phases, "phase": "training" })
            }
            ("memory_forecast", _) => {
                let end = json!({ "at_ms": 9, "earliest_ms": 8, "latest_ms": 10 });
                json!({ "limit_bytes": 64, "made_at_ms": 5, "first": end, "exceeds": end, "exceeded_at_ms": 9 })
            }
            ("held", _) => {
                json!({ "gpu_seconds": 1200.0, "node_seconds": 600.0, "since_ms": 7, "gpus": { "GPU-1": 7 }, "warns": true })
            }
            ("phases", _) => json!([]),
            ("metrics" | "last_metrics", _) => json!({ "loss": 0.5, "acc": null }),
            ("gaps", _) => json!([{ "from_ms": 1, "to_ms": 2, "why": "stopped" }]),
            ("missing", _) => json!([{ "what": "io", "why": "no" }]),
            (name, FieldType::Text) => json!(format!("a {name}")),
            (_, FieldType::Whole) => json!(7),
            (_, FieldType::Real) => json!(1.5),
            (_, FieldType::Flag) => json!(true),
            (name, FieldType::Json) => panic!("no example of {name}"),
        };
        row.insert(field.name.to_owned(), value);
    }
    row
}

/// As text, since NaN is not equal to itself.
fn shown(found: &Result<Incoming, String>) -> String {
    let record = found.as_ref().map(|row| match row.table {
        Table::Runs => format!("{:?}", row.record::<RunRow>()),
        Table::Attempts => format!("{:?}", row.record::<AttemptMarks>()),
        Table::Usage => format!("{:?}", row.record::<Measurement>()),
        Table::Timings => format!("{:?}", row.record::<Epoch>()),
        Table::Gpus => format!("{:?}", row.record::<GpuUsage>()),
        Table::Ranks => format!("{:?}", row.record::<RankRecord>()),
        Table::Metrics => format!("{:?}", row.record::<MetricValue>()),
        Table::Events => format!("{:?}", row.record::<Event>()),
        _ => String::new(),
    });
    let of = found.as_ref().map(|row| (&row.key, &row.version));
    format!("{record:?} {of:?}")
}

fn read(row: &Map<String, Value>) -> Result<Incoming, String> {
    Incoming::read(Value::Object(row.clone()).to_string().as_bytes())
}

/// Columns that follow from others, or that stand in rows for people alone.
fn is_derived(table: Table, name: &str) -> bool {
    match table {
        Table::Runs => {
            // All of these are in `identity`, or in the conditions of a measurement.
            let asked = [
                "account",
                "qos",
                "gpus_asked",
                "cpus_per_task",
                "memory_asked_bytes",
                "walltime_asked_seconds",
            ];
            let other = [
                "command",
                "script",
                "git_commit",
                "git_branch",
                "git_dirty",
                "followed",
                "software",
            ];
            asked.contains(&name) || other.contains(&name) || name.ends_with("_used")
        }
        // All but the marks is in `record`.
        Table::Attempts => {
            let read = ["job_id", "first_node", "started_at_ms", "ended_at_ms"];
            let key = ["store", "seq", "run_id", "element", "attempt"];
            let also = ["exit_code", "record"];
            !(read.contains(&name) || key.contains(&name) || also.contains(&name))
        }
        Table::Usage => {
            let conditions = [
                "affinity",
                "boot_id",
                "cpus_effective",
                "others_cpus_busy",
                "software",
                // In `activity`.
                "pattern",
                "period_seconds",
                "iteration_seconds",
                "iteration_source",
                "phases",
                // In `held`.
                "held_gpu_seconds",
                "held_node_seconds",
            ];
            ["name", "user"].contains(&name)
                || conditions.contains(&name)
                || name.ends_with("_used")
        }
        Table::Gpus | Table::Ranks => ["name", "user", "updated_at_ms"].contains(&name),
        Table::Timings => ["name", "user", "seconds", "source"].contains(&name),
        _ => ["name", "user"].contains(&name),
    }
}

/// Each column of the description is read, and is required where it is never null.
#[test]
fn every_column_counts() {
    for table in Table::ALL
        .into_iter()
        .filter(|table| !table.is_of_samples())
    {
        let mut row = full(table);
        // A command that a signal ended has no code; both are read, as the first loop shows.
        if row.contains_key("exit_signal") {
            row.remove("exit_code");
        }
        let whole = read(&row);
        assert_eq!(whole.as_ref().map(|whole| whole.table), Ok(table));
        for field in table
            .fields()
            .into_iter()
            .filter(|field| !is_derived(table, field.name))
        {
            let mut other = row.clone();
            other.insert(field.name.to_owned(), json!([["no value of any column"]]));
            assert!(
                read(&other).is_err(),
                "{table:?}: {} is not read",
                field.name
            );
            for without in [json!(null), json!("absent")] {
                match without {
                    Value::Null => other.insert(field.name.to_owned(), Value::Null),
                    _ => other.remove(field.name),
                };
                let found = read(&other);
                match field.role {
                    _ if !row.contains_key(field.name) => assert_eq!(shown(&found), shown(&whole)),
                    Role::Optional | Role::Part => {
                        assert!(found.is_ok(), "{table:?}: {} may be null", field.name);
                        assert_ne!(shown(&found), shown(&whole), "{}", field.name);
                    }
                    // An empty one is meant.
                    Role::Always if field.of == FieldType::Json => assert!(found.is_ok()),
                    Role::Key | Role::Always => {
                        assert!(found.is_err(), "{table:?}: {}", field.name)
                    }
                }
            }
        }
    }
}

#[track_caller]
fn complains(table: Table, change: (&str, Value), part: &str) {
    let mut row = full(table);
    row.insert(change.0.to_owned(), change.1);
    let fault = read(&row).expect_err("it is wrong");
    assert!(fault.contains(part), "{fault:?}");
    assert!(
        fault.contains(change.0) || ["kind", "format"].contains(&change.0),
        "{fault:?}"
    );
}

#[test]
fn what_no_run_can_have_is_refused() {
    complains(
        Table::Timings,
        ("printed_seconds", json!(-1.5)),
        "it is negative",
    );
    complains(Table::Timings, ("ended_at_ms", json!(-1)), "integer");
    complains(Table::Usage, ("mem_peak_bytes", json!(0.5)), "integer");
    complains(
        Table::Usage,
        ("state", json!("sleeping")),
        "unknown variant `sleeping`",
    );
    complains(Table::Usage, ("element", json!(5_000_000_000_u64)), "u32");
    complains(Table::Usage, ("node", json!("")), "cannot name");
    complains(Table::Runs, ("name", json!("a\nb")), "control characters");
    complains(
        Table::Runs,
        ("user", json!("\u{1b}[2Jroot")),
        "control characters",
    );
    complains(Table::Runs, ("name", json!("x".repeat(5000))), "4096 bytes");
    complains(
        Table::Runs,
        ("workdir", json!("/a\u{0}b")),
        "control characters",
    );
    complains(
        Table::Runs,
        ("run_id", json!("../../../../etc")),
        "is not a run id",
    );
    let forecast =
        |low: Value| json!({ "epoch_seconds": { "high": 4.0, "low": low, "mean": 3.0 } });
    let faulty = forecast(json!("few"));
    complains(
        Table::Runs,
        ("forecast", faulty),
        "`forecast`: invalid type: string \"few\"",
    );
    let lacking = forecast(json!(2.0));
    complains(
        Table::Runs,
        ("forecast", lacking),
        "`forecast`: missing field `median`",
    );
    complains(
        Table::Runs,
        ("workdir", json!(["/a"])),
        "`workdir`: it is not of type text",
    );
    complains(
        Table::Runs,
        ("kind", json!("runs")),
        "`runs` is not a kind of row",
    );
    complains(
        Table::Runs,
        ("format", json!(2)),
        "has format 2, and this dlrun knows format 1",
    );
    // What it does not know is for a later dlrun.
    let mut row = full(Table::Runs);
    row.insert("of_later".to_owned(), json!({ "a": [1, 2] }));
    assert_eq!(shown(&read(&row)), shown(&read(&full(Table::Runs))));
}

#[test]
fn line_that_is_no_row_is_refused() {
    for line in [
        &b"{\"kind\":\"run\",\"format\":1,\"stuck\":NaN}"[..],
        b"{\"kind\":\"run\",\"form",
        b"",
        b"{\"kind\":\"run\xff",
        b"[\"run\", 1]",
        b"{\"kind\":1}",
        b"{}",
        b"run_id,name,user",
    ] {
        assert!(Incoming::read(line).is_err(), "{line:?}");
    }
    let deep = [
        &b"{\"a\":"[..],
        &b"[".repeat(100_000),
        &b"]".repeat(100_000),
        b"}",
    ]
    .concat();
    assert!(Incoming::read(&deep).expect_err("too deep").len() < 400);
    let long = format!("{{\"kind\":\"{}\",\"format\":1}}", "x".repeat(100_000));
    let fault = Incoming::read(long.as_bytes()).expect_err("no kind");
    assert!(fault.len() < 500);
}

#[test]
fn what_is_not_a_number_comes_back_as_such() {
    let row = read(&full(Table::Timings)).expect("read");
    let epoch: Epoch = row.record().expect("an epoch");
    assert_eq!(
        (epoch.metrics["loss"], epoch.metrics["acc"].is_nan()),
        (0.5, true)
    );
    assert_eq!(epoch.metrics.keys().collect::<Vec<_>>(), ["acc", "loss"]);
    let none = BTreeMap::<String, f64>::new();
    assert_ne!(epoch.metrics, none);
}

#[test]
fn run_under_the_id_of_another_user_is_refused() {
    let id = crate::job::RunId::of_owner([7; 10], 1001);
    let mut row = full(Table::Runs);
    row.insert("run_id".to_owned(), json!(id));
    for (uid, is_taken) in [
        (json!(1001), true),
        (Value::Null, true),
        (json!(1002), false),
    ] {
        row.insert("uid".to_owned(), uid.clone());
        let text = Value::Object(row.clone()).to_string();
        let fault = Incoming::read(text.as_bytes()).err();
        assert_eq!(fault.is_none(), is_taken, "{uid}: {fault:?}");
        assert!(fault.is_none_or(|message| message.contains("its id is of user 1001")));
    }
    // An id of dlrun 0.1 does not say whose it is.
    row.insert("run_id".to_owned(), json!("0123456789abcdef"));
    assert!(Incoming::read(Value::Object(row).to_string().as_bytes()).is_ok());
}
