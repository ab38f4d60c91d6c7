//! `dlrun report --scaling`.

use std::collections::BTreeSet;
use std::fs;

use serde_json::Value;

use crate::cli_report::with;
use crate::support::{TestEnv, Trained};

const PUBLISHED: &str = concat!(
    env!("CARGO_MANIFEST_DIR"),
    "/tests/fixtures/model/published-scaling.toml"
);

fn study(env: &TestEnv, args: &[&str]) -> Value {
    let all = ["report", "--scaling", "--json"].iter().chain(args);
    env.dlrun(all).run().code(0).result()
}

/// The series whose title, by these keys, has these values.
fn series<'a>(study: &'a Value, program: &str, framework: &str) -> &'a Value {
    let list = study["series"].as_array().expect("a list");
    let is_meant =
        |series: &&Value| series["program"] == program && series["framework"] == framework;
    list.iter().find(is_meant).expect("it is there")
}

fn points(series: &Value) -> &[Value] {
    series["points"].as_array().expect("a list")
}

fn number(value: &Value) -> f64 {
    value
        .as_f64()
        .unwrap_or_else(|| panic!("a number: {value}"))
}

/// One, two and four nodes of two GPUs, twice each, in the same global batch; 1/nodes of the time and a bit.
fn runs(shares_a_machine: Option<bool>) -> Vec<Trained> {
    let one = |number: u8| {
        let nodes = [1, 2, 4][usize::from(number) / 2];
        Trained {
            nodes,
            shares_a_machine,
            epochs: 4,
            epoch_seconds: 1.0 + 16.0 / f64::from(nodes),
            ..Trained::usual(number, &format!("run{number}"))
        }
    };
    (0..6).map(one).collect()
}

const RUNS: [&str; 6] = ["run0", "run1", "run2", "run3", "run4", "run5"];

/// Iris: efficiency in percent against one node of four GPUs, by the rates of its slide. ULHPC: two GPUs against one.
#[test]
fn published_series_come_out_with_the_published_figures() {
    let env = TestEnv::new();
    let study = study(&env, &["--published", PUBLISHED]);
    let iris = series(&study, "resnet101", "tensorflow");
    assert_eq!(
        (&iris["kind"], &iris["batch"]),
        (&"weak".into(), &64.into())
    );
    let efficiency: Vec<String> = points(iris)
        .iter()
        .map(|point| {
            format!(
                "{:.1}",
                100.0 * number(&point["from_node"]["efficiency_ratio"])
            )
        })
        .collect();
    let expected = [
        "100.0", "77.5", "76.9", "73.9", "74.0", "74.2", "72.4", "74.2", "74.4", "69.6", "69.7",
        "71.9",
    ];
    assert_eq!(efficiency, expected);
    // One GPU was not measured, and weak scaling has no serial fraction.
    for point in points(iris) {
        assert_eq!(
            (&point["from_one"], &point["serial_fraction"]),
            (&Value::Null, &Value::Null)
        );
        // The law is within the few percent that docs/model.md has, and so is its interval around it.
        let [law, low, high] = ["law", "law_low", "law_high"].map(|key| number(&point[key]));
        let rate = number(&point["samples_per_second"]);
        assert!(
            (law / rate).ln().abs() < 0.03 && (low..=high).contains(&rate),
            "{point}"
        );
    }
    assert_eq!(
        (&iris["law"]["observations"], &iris["law"]["sizes"]),
        (&12.into(), &12.into())
    );
    // The dip between 36 and 40 GPUs: 702 to 751 ms for a batch of 64 images on each.
    let batch = |at: usize| (1e3 * number(&points(iris)[at]["batch_seconds"])).round();
    assert_eq!((batch(8), batch(9)), (702.0, 751.0));
    for (framework, speed_up, percent) in
        [("tensorflow", "1.60", "79.9"), ("pytorch", "1.66", "82.9")]
    {
        let ulhpc = series(&study, "resnet50", framework);
        assert_eq!(
            (&ulhpc["kind"], &ulhpc["by"]),
            (&"strong".into(), &"epoch_seconds".into())
        );
        let gain = &points(ulhpc)[1]["from_one"];
        assert_eq!(format!("{:.2}", number(&gain["speed_up"])), speed_up);
        assert_eq!(
            format!("{:.1}", 100.0 * number(&gain["efficiency_ratio"])),
            percent
        );
        assert_eq!(
            (&ulhpc["law"], &points(ulhpc)[1]["from_node"]),
            (&Value::Null, &Value::Null)
        );
    }
    // A point alone is a rate and no more.
    let alone = study["series"].as_array().expect("a list").iter();
    let alone = alone
        .filter(|series| points(series).len() == 1)
        .collect::<Vec<_>>();
    assert_eq!(
        (alone.len(), &points(alone[0])[0]["samples_per_second"]),
        (1, &1656.82.into())
    );
    assert_eq!(points(alone[0])[0]["from_node"], Value::Null);
}

#[test]
fn runs_on_machines_of_their_own_have_efficiency_and_a_law() {
    let env = with(&runs(Some(false)));
    let study = study(&env, &RUNS);
    let [series] = &study["series"].as_array().expect("a list")[..] else {
        panic!("one series: {study}")
    };
    assert_eq!(
        (&series["kind"], &series["counted"]),
        (&"strong".into(), &"GPUs".into())
    );
    assert_eq!(
        series["not_a_scaling_measurement"],
        Value::Array(Vec::new())
    );
    let four = &points(series)[2];
    assert_eq!(
        (&four["workers"], &four["nodes"], &four["n"]),
        (&8.into(), &4.into(), &2.into())
    );
    // 17 s against 5 s, on four times as many GPUs.
    let efficiency = number(&four["from_node"]["efficiency_ratio"]);
    assert!((0.82..0.88).contains(&efficiency), "{four}");
    let [low, speed_up, high] =
        ["speed_up_low", "speed_up", "speed_up_high"].map(|key| number(&four["from_node"][key]));
    assert!(low < speed_up && speed_up < high, "{four}");
    assert_eq!(four["from_one"], Value::Null, "one GPU was not measured");
    assert!(
        number(&four["serial_fraction"]) > 0.03 && four["law"].is_number(),
        "{four}"
    );
    assert_eq!(
        (
            &series["validity"]["machines"],
            &series["validity"]["least_repeats"]
        ),
        (&4.into(), &2.into())
    );
}

#[test]
fn nodes_of_one_machine_or_of_unknown_ones_are_no_scaling_measurement_in_every_form() {
    for (shared, why) in [
        (Some(true), "its 4 nodes are on 1 machine (by the boot id)"),
        (
            None,
            "it is not recorded whether its 4 nodes are separate machines",
        ),
    ] {
        let env = with(&runs(shared));
        let study = study(&env, &RUNS);
        let series = &study["series"][0];
        assert_eq!(series["law"], Value::Null);
        for point in &points(series)[1..] {
            for key in ["from_one", "from_node", "serial_fraction", "law"] {
                assert_eq!(point[key], Value::Null, "{key}");
            }
        }
        assert_eq!(points(series)[2]["not_a_scaling_measurement"][0], why);
        for format in ["markdown", "html", "csv"] {
            let args = ["report", "--scaling", "--format", format, "--output", "-"];
            let text = env.dlrun(args.iter().chain(&RUNS)).run().code(0).text();
            assert!(text.contains(why), "{format}: {text}");
            let heads: Vec<&str> = text.lines().next().unwrap_or_default().split(',').collect();
            let each: BTreeSet<&&str> = heads.iter().collect();
            assert!(format != "csv" || each.len() == heads.len(), "{heads:?}");
        }
        let page = ["report", "--scaling", "-o", "page.html"];
        let _ = env.dlrun(page.iter().chain(&RUNS)).run().code(0);
        let page = fs::read_to_string(env.jobs().join("page.html")).expect("written");
        // The figure, the table, and the text above them.
        for part in [
            "Speed; not a scaling",
            "All sizes; not a scaling",
            "Not a scaling measurement at",
        ] {
            assert!(page.contains(part), "no {part}");
        }
        // Side by side it claims nothing either.
        let compared = env
            .dlrun(["report", "run4", "run0", "--json"])
            .run()
            .code(0)
            .result();
        let point = &compared["scaling"]["points"][1];
        assert_eq!(
            (
                &point["efficiency_ratio"],
                &point["not_a_scaling_measurement"][0]
            ),
            (&Value::Null, &why.into())
        );
    }
}

#[test]
fn a_target_shows_how_long_a_training_took_to_reach_it() {
    let env = with(&runs(Some(false))[..2]);
    let reached = study(&env, &["run0", "--target", "val_acc>=0.58"]);
    let point = &reached["series"][0]["points"][0];
    // The second epoch is the first with 0.587.
    assert!(
        (40.0..120.0).contains(&number(&point["seconds_to_target"])),
        "{point}"
    );
    let missed = study(&env, &["run0", "--target", "val_acc>=0.99"]);
    assert_eq!(
        missed["series"][0]["points"][0]["seconds_to_target"],
        Value::Null
    );
    let _ = env
        .dlrun(["report", "--scaling", "run0", "--target", "val_acc"])
        .run()
        .code(64);
}

#[test]
fn what_cannot_be_read_or_has_no_such_form_is_refused() {
    let env = with(&runs(Some(false))[..1]);
    fs::write(
        env.jobs().join("bad.toml"),
        "[[series]]\nname = \"a\"\nrank = 3\n",
    )
    .expect("ours");
    let _ = env
        .dlrun(["report", "--scaling", "--published", "bad.toml"])
        .run()
        .code(65)
        .warns("a published series needs `points`");
    let _ = env
        .dlrun(["report", "run0", "--format", "csv"])
        .run()
        .code(64)
        .warns("--scaling");
    let _ = env
        .dlrun(["report", "--scaling"])
        .run()
        .code(66)
        .warns("no matrix was run");
}

/// Ranks of which the first tells its epochs.
const PROGRAM: &str = r#"
[ "$RANK" = 0 ] || exit 0
for epoch in 1 2 3; do echo "Epoch $epoch/3 - 1.2500 s - loss: 0.5"; done
"#;

const MATRIX: &str = "[run]\ncommand = [\"sh\", \"step.sh\"]\nlauncher = \"ddp\"\n[workload]\nmodel = \"m\"\nsamples = 1000\n\
    [bench]\nrepeats = 1\n[bench.axes]\nsize = [{ resources.nodes = 1, workload.batch_size = 64 }, \
    { resources.nodes = 2, workload.batch_size = 128 }]\n";

#[test]
fn nodes_are_an_axis_and_the_latest_matrix_is_reported_when_nothing_is_named() {
    let env = TestEnv::new();
    let _ = env.write("step.sh", PROGRAM);
    let file = env.write("scale.toml", MATRIX);
    let _ = env
        .dlrun(["bench", "run", "--scheduler", "local"])
        .arg(file)
        .run()
        .code(0);
    for args in [&[][..], &["--bench", "scale"]] {
        let study = study(&env, args);
        let series = &study["series"][0];
        assert_eq!(
            (&series["kind"], &series["launcher"]),
            (&"weak".into(), &"ddp".into())
        );
        let doubts = &points(series)[1]["not_a_scaling_measurement"];
        assert_eq!(doubts[0], "its 2 nodes are on 1 machine (by the boot id)");
        assert_eq!(points(series)[1]["samples_per_second"], 800.0);
        assert_eq!(points(series)[1]["from_one"], Value::Null);
    }
}

#[test]
fn series_of_gpus_and_of_cpus_are_side_by_side() {
    let env = TestEnv::new();
    let series = |name: &str, device: &str, of_node: u32, rate: u32| {
        let point = |nodes: u32| {
            let (ranks, rate) = (nodes * of_node, nodes * rate);
            format!("{{ ranks = {ranks}, nodes = {nodes}, rate = {rate} }}")
        };
        let points = format!("{}, {}", point(1), point(2));
        format!(
            "[[series]]\nname = \"{name}\"\nsource = \"s\"\nmodel = \"m\"\ndevice = \"{device}\"\nbatch = 64\n\
             points = [{points}]\n"
        )
    };
    let text = series("a", "gpu", 4, 900) + &series("b", "cpu", 28, 75);
    let _ = env.write("both.toml", text);
    let args = ["report", "--scaling", "--published", "both.toml"];
    let done = env.dlrun(args).run().code(0);
    let _ = done
        .says("| m · GPU | strong | GPUs | 900 | 1800 | – | – |")
        .says("| m · CPU | strong | ranks | – | – | 75 | 150 |");
}
