//! What a performance model costs a plan: its file is read, and the candidates are held against each other.

use std::error::Error;
use std::fmt::Write as _;
use std::fs::{self, DirBuilder};
use std::os::unix::fs::DirBuilderExt;

use dlrun::job::{Framework, Provenance, RunId, SchedulerKind, Workload};
use dlrun::learn::model::{Doubts, Hardware, Length, Model, Observation, Priors, Situation};

use crate::Effort;
use crate::measure::{floor, in_turns, median_ms};
use crate::report::Row;
use crate::site::Site;

/// Runs behind the model, and workloads among them: some years of a group's work.
const RUNS: u32 = 5000;
const WORKLOADS: u32 = 200;
/// Images of the catalogue; with their compilers there are twice as many candidates.
const IMAGES: u32 = 20;

/// `dlrun plan` with a model and without.
pub(crate) fn rows(effort: Effort) -> Result<Vec<Row>, Box<dyn Error>> {
    let site = Site::new()?;
    let size = keep_model(&site)?;
    fs::create_dir_all(site.path(".config/dlrun/images.d"))?;
    fs::write(site.path(".config/dlrun/images.d/all.toml"), images(&site)?)?;
    fs::write(site.path("open.toml"), JOB)?;
    let arguments = ["plan", "open.toml"];
    let (with, mut without) = (site.dlrun(&arguments), site.dlrun(&arguments));
    without.env("DLRUN_MODEL__USE", "off");
    let told = site
        .dlrun(&arguments)
        .stdout(std::process::Stdio::piped())
        .output()?;
    let told = String::from_utf8_lossy(&told.stdout).into_owned();
    let candidates = format!("{} candidates, ", 2 * IMAGES);
    if !told.contains("goes before it: the performance model") {
        return Err(format!("the plan does not go by the model:\n{told}").into());
    }
    let taken = in_turns(effort.of(100, 500), &mut [floor(), without, with])?;
    let [least, without, with] = [0, 1, 2].map(|which| median_ms(&taken[which]));
    let detail = format!(
        "{with:.2} ms against {without:.2} ms, `sh -c true` {least:.2} ms; a model of {RUNS} runs, {:.1} MB, {candidates}by rules the same",
        size as f64 / 1e6
    );
    let what = "dlrun plan with a performance model";
    Ok(vec![
        Row::budget("plan", what, with / without, "x without", 1.5).detailed(detail),
    ])
}

const JOB: &str = r#"
[run]
command = ["python3", "train.py"]
[resources]
cpus_per_task = 8
walltime = "auto"
memory = "auto"
[framework]
name = "tensorflow"
compiler = "auto"
[workload]
model = "net7"
dataset = "synthetic"
samples = 50000
batch_size = 64
epochs = 10
"#;

fn images(site: &Site) -> Result<String, Box<dyn Error>> {
    let mut text = String::new();
    for number in 0..IMAGES {
        let dir = site.path(&format!("images/image-{number}"));
        fs::create_dir_all(dir.join(".singularity.d"))?;
        write!(
            text,
            "[[image]]\nname = \"image-{number}\"\npath = {dir:?}\nframework = \"tensorflow\"\nversion = \"2.{}\"\nprovenance = \"pip\"\ncompilers = [\"xla\"]\n",
            number % 17
        )?;
    }
    Ok(text)
}

/// Fits a model and takes it into use; returns its size in bytes.
fn keep_model(site: &Site) -> Result<usize, Box<dyn Error>> {
    let bytes = Model::fit((0..RUNS).map(run), &Priors::built_in())?.to_bytes();
    let dir = site.state_dir().join("models");
    DirBuilder::new().recursive(true).mode(0o700).create(&dir)?;
    fs::write(dir.join("benchmark.model"), &bytes)?;
    fs::write(dir.join("current"), "benchmark\n")?;
    Ok(bytes.len())
}

fn run(number: u32) -> Observation {
    let net = number % WORKLOADS;
    let xla = (number / WORKLOADS).is_multiple_of(2);
    let noise = f64::from(number.wrapping_mul(2_654_435_761) >> 16) / 65_536.0;
    let factor = if xla == net.is_multiple_of(3) {
        0.6
    } else {
        1.0
    };
    let seconds = (1.0 + f64::from(net % 50)) * factor * (0.95 + 0.1 * noise);
    Observation {
        run_id: RunId::from_random(std::array::from_fn(|at| number.to_le_bytes()[at % 4])),
        element: 0,
        attempt: 0,
        at_ms: 60_000 * u64::from(number),
        scheduler: SchedulerKind::Slurm,
        queue: None,
        situation: Situation {
            workload: Workload {
                model: Some(format!("net{net}")),
                dataset: Some("synthetic".into()),
                samples: Some(50_000),
                batch_size: Some(64 << (number / 7 % 3)),
                epochs: Some(10),
                ..Workload::default()
            },
            framework: Framework {
                name: Some("tensorflow".into()),
                version: Some(format!("2.{}", number / 11 % 17)),
                compiler: Some(if xla { "xla" } else { "none" }.into()),
                provenance: Some(Provenance::Pip),
            },
            image: None,
            hardware: Hardware {
                cpu_model: Some("EPYC 7452".into()),
                threads: Some(8.0),
                ..Hardware::default()
            },
            nodes: 1,
            tasks_per_node: 1,
            storage: None,
            numbers: std::collections::BTreeMap::new(),
        },
        epoch_seconds: Some(Length::Known(seconds)),
        epochs: 9,
        between_seconds: None,
        outside_seconds: Some(Length::Known(if xla { 13.0 } else { 5.5 })),
        wall_seconds: Some(Length::Known(10.0 * seconds + 8.0)),
        memory_bytes: Some(2 << 30),
        doubts: Doubts::default(),
    }
}
