//! Plans with models that were fitted to a few runs.

use std::collections::BTreeMap;
use std::path::PathBuf;
use std::sync::Arc;

use crate::config::site::{NodeType, Queue, SiteModel};
use crate::config::{Origin, Owner, Settings};
use crate::foundation::units::{Bytes, Walltime};
use crate::image::catalogue::{Entry, Place};
use crate::job::{Framework, Provenance, RunId, SchedulerKind, Workload};
use crate::learn::model::{Doubts, Hardware, Length, Model, Observation, Priors, Situation};
use crate::plan::{
    Candidate, Decision, ImageFacts, ModelFacts, Plan, SchedulerFacts, SiteFacts, resolve,
};
use crate::record::Basis;

const JOB: &str = r#"
[framework]
name = "tensorflow"
compiler = "auto"
[workload]
model = "net"
dataset = "digits"
samples = 10000
batch_size = 64
epochs = 10
"#;

const GIB: u64 = 1 << 30;

/// A run of the workload of [`JOB`] on one node: `seconds` an epoch.
fn run(number: u8, compiler: &str, seconds: f64) -> Observation {
    // Repeats differ by some per cent.
    let seconds = seconds * (1.0 + 0.02 * f64::from(number % 5) - 0.04);
    Observation {
        run_id: RunId::from_random([number; 10]),
        element: 0,
        attempt: 0,
        at_ms: 1_000 * u64::from(number),
        scheduler: SchedulerKind::Slurm,
        queue: None,
        situation: Situation {
            workload: Workload {
                model: Some("net".into()),
                dataset: Some("digits".into()),
                samples: Some(10_000),
                batch_size: Some(64),
                epochs: Some(10),
                ..Workload::default()
            },
            framework: Framework {
                name: Some("tensorflow".into()),
                compiler: Some(compiler.into()),
                ..Framework::default()
            },
            image: None,
            hardware: Hardware {
                cpu_model: Some("EPYC".into()),
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
        outside_seconds: Some(Length::Known(6.0)),
        wall_seconds: Some(Length::Known(10.0 * seconds + 6.0)),
        memory_bytes: Some(GIB + u64::from(number) * 1_000_000),
        doubts: Doubts::default(),
    }
}

/// Five repeats of each.
fn repeats(what: &[(&str, f64)], change: impl Fn(&str, &mut Observation)) -> Vec<Observation> {
    let mut runs = Vec::new();
    for (kind, seconds) in what {
        for _ in 0..5 {
            let number = u8::try_from(runs.len() + 1).expect("few runs");
            let mut run = run(number, "none", *seconds);
            change(kind, &mut run);
            runs.push(run);
        }
    }
    runs
}

fn compilers(what: &[(&str, f64)]) -> Vec<Observation> {
    repeats(what, |compiler, run| {
        run.situation.framework.compiler = Some(compiler.into())
    })
}

fn model(runs: Vec<Observation>) -> Option<ModelFacts> {
    let model = Model::fit(runs, &Priors::built_in()).expect("they fit");
    let here = Hardware::default();
    Some(ModelFacts {
        model: Arc::new(model),
        origin: "your own model".into(),
        here,
        meant: None,
    })
}

fn facts(model: Option<ModelFacts>) -> SiteFacts {
    let queue = Queue {
        name: "batch".into(),
        is_default: true,
        is_up: true,
        max_walltime: Some(Walltime(86_400)),
        ..Queue::default()
    };
    let nodes = NodeType {
        count: 4,
        up: 4,
        cpus: Some(16),
        memory: Some(Bytes(64 * GIB)),
        ..NodeType::default()
    };
    let slurm = SchedulerKind::Slurm;
    SiteFacts {
        job_file: "/home/u/job.toml".into(),
        workdir: "/home/u".into(),
        script: None,
        env_file: None,
        schedulers: vec![SchedulerFacts {
            kind: slurm,
            command: "/usr/bin/sbatch".into(),
            environment: vec![],
        }],
        passed_over: Vec::new(),
        mpi: None,
        site: Some(SiteModel {
            format: SiteModel::FORMAT,
            scheduler: slurm,
            version: None,
            asked_at_ms: 0,
            accounting: None,
            accounts_memory: None,
            max_array_index: None,
            max_array_elements: None,
            queues: vec![queue],
            nodes: vec![nodes],
            licenses: Vec::new(),
            mpi: None,
        }),
        hold_against_site: true,
        targets: BTreeMap::new(),
        image: None,
        images: ImageFacts::default(),
        container_runtime: None,
        python: None,
        cpus: Some(2),
        mpirun: None,
        model,
        named: BTreeMap::new(),
        history: crate::plan::History::default(),
        user: "ann".into(),
        dlrun: "/usr/bin/dlrun".into(),
    }
}

fn plan(job: &str, facts: &SiteFacts) -> Plan {
    let defaults = Some(PathBuf::from("/home/u/.local/state/dlrun"));
    let settings = Settings::merge(defaults, &[]).expect("settings");
    let spec = crate::job::parse(&format!("[run]\ncommand = [\"true\"]\n{job}"))
        .expect("a valid job file");
    resolve(&spec, &settings, facts).expect("a plan")
}

fn decision<'a>(plan: &'a Plan, what: &str) -> &'a Decision {
    let found = plan.decisions.iter().find(|decision| decision.what == what);
    found.unwrap_or_else(|| panic!("{:#?}", plan.decisions))
}

fn variable<'a>(plan: &'a Plan, name: &str) -> Option<&'a str> {
    plan.env
        .iter()
        .find(|variable| variable.name == name)
        .map(|variable| &variable.value[..])
}

fn compiler(plan: &Plan) -> &str {
    plan.framework.compiler.as_deref().unwrap_or("not known")
}

// ---------------------------------------------------------------------------------------------------------- compilers

#[test]
fn what_was_measured_beats_the_rule() {
    let without = plan(JOB, &facts(None));
    assert_eq!(
        (compiler(&without), variable(&without, "DLRUN_COMPILER")),
        ("none", Some("none"))
    );
    let why = &decision(&without, "compiler").why;
    assert!(
        why.contains("XLA made TensorFlow slower on CPUs; rules decide"),
        "{why}"
    );
    assert_eq!((without.forecast.as_ref(), without.ways.len()), (None, 2));

    let with = plan(
        JOB,
        &facts(model(compilers(&[("none", 4.0), ("xla", 2.0)]))),
    );
    assert_eq!(
        (compiler(&with), variable(&with, "DLRUN_COMPILER")),
        ("xla", Some("xla"))
    );
    assert!(variable(&with, "TF_XLA_FLAGS").is_some());
    let forecast = with.forecast.as_ref().expect("there is a model");
    assert_eq!(
        (forecast.basis, forecast.runs, forecast.explored),
        (Basis::Alike, 5, false)
    );
    assert!(
        (1.6..2.4).contains(&forecast.time().expect("a time").mean),
        "{forecast:?}"
    );
    let told = decision(&with, "compiler");
    for part in [
        "s in all (",
        "from 5 runs like this; next best no compiler, ",
    ] {
        assert!(told.why.contains(part), "{part:?} in {}", told.why);
    }
    assert_eq!(told.rejected[0].value, "no compiler");
    assert!(
        decision(&with, "forecast")
            .why
            .contains("(your own model), from 5 runs like this")
    );
    let [first, second] = &with.ways[..] else {
        panic!("{:#?}", with.ways)
    };
    assert!(first.chosen && !second.chosen && second.compiler.as_deref() == Some("none"));
    let shown = crate::plan::describe(&with, 100);
    assert!(
        shown.contains("not no compiler: ") && shown.contains("s in all, 4.00 s an epoch"),
        "{shown}"
    );
}

#[test]
fn what_the_job_file_says_is_not_up_to_the_model() {
    let model = model(compilers(&[("none", 4.0), ("xla", 2.0)]));
    let asked = plan(&JOB.replace("\"auto\"", "\"none\""), &facts(model.clone()));
    assert_eq!((compiler(&asked), asked.ways.len()), ("none", 1));
    assert!(
        (3.4..4.8).contains(
            &asked
                .forecast
                .expect("a forecast")
                .time()
                .expect("a time")
                .mean
        )
    );
    assert!(
        asked
            .decisions
            .iter()
            .all(|decision| decision.what != "compiler")
    );
    let open = plan(&JOB.replace("compiler = \"auto\"", ""), &facts(model));
    assert_eq!(
        (
            open.framework.compiler.as_deref(),
            variable(&open, "DLRUN_COMPILER")
        ),
        (None, None)
    );
}

#[test]
fn a_compiler_that_is_slower_is_left_alone() {
    let job = JOB.replace("tensorflow", "jax");
    let runs = repeats(&[("xla", 4.0), ("none", 1.0)], |compiler, run| {
        run.situation.framework.name = Some("jax".into());
        run.situation.framework.compiler = Some(compiler.into());
    });
    assert_eq!(compiler(&plan(&job, &facts(None))), "xla");
    assert_eq!(compiler(&plan(&job, &facts(model(runs)))), "none");
}

#[test]
fn a_new_workload_borrows_what_is_known_of_its_software_and_says_so() {
    let job = JOB
        .replace("\"net\"", "\"other\"")
        .replace("\"digits\"", "\"letters\"");
    let runs = repeats(&[("none", 4.0), ("xla", 1.0)], |compiler, run| {
        run.situation.framework.compiler = Some(compiler.into());
        run.situation.workload.dataset = Some(format!("set {}", run.at_ms / 1000 % 5));
    });
    let plan = plan(
        &format!("{job}[resources]\nwalltime = \"auto\"\n"),
        &facts(model(runs)),
    );
    assert_eq!(compiler(&plan), "xla");
    let forecast = plan.forecast.as_ref().expect("a forecast");
    assert_eq!((forecast.basis, forecast.runs), (Basis::Software, 5));
    assert!(
        decision(&plan, "compiler")
            .why
            .contains("from 5 runs of other workloads with this software")
    );
    let walltime = decision(&plan, "walltime");
    assert_eq!(
        plan.resources.walltime,
        Some(Walltime(86_400)),
        "no forecast sets a limit"
    );
    assert!(
        walltime.why.contains("no run of this program is recorded"),
        "{}",
        walltime.why
    );
}

/// A compiler that takes longer to start and less for each epoch.
#[test]
fn compiler_that_pays_off_late_is_chosen_for_long_trainings_only() {
    let runs = repeats(&[("none", 0.344), ("xla", 0.250)], |compiler, run| {
        run.situation.framework.compiler = Some(compiler.into());
        let outside = if compiler == "xla" { 4.1 } else { 2.8 };
        run.outside_seconds = Some(Length::Known(outside));
    });
    let facts = facts(model(runs));
    for (epochs, chosen, other) in [(5, "none", "xla"), (200, "xla", "no compiler")] {
        let job = JOB.replace("epochs = 10", &format!("epochs = {epochs}"));
        let plan = plan(&job, &facts);
        assert_eq!(compiler(&plan), chosen, "{epochs}");
        let chosen = decision(&plan, "compiler");
        assert!(
            chosen.why.contains(&format!("; next best {other}, "))
                && chosen.why.ends_with("; xla from 14 epochs"),
            "{}",
            chosen.why
        );
        assert!(
            chosen.rejected[0].why.contains(" s in all, 0."),
            "{chosen:?}"
        );
    }
}

#[test]
fn runs_that_moved_to_another_level_are_reported_by_the_plan() {
    let runs = repeats(
        &[("before", 2.0), ("before", 2.0), ("after", 3.0)],
        |_, _| {},
    );
    let plan = plan(&JOB.replace("\"auto\"", "\"none\""), &facts(model(runs)));
    let why = &decision(&plan, "forecast").why;
    assert!(
        why.ends_with("; the last 5 runs are 50 % slower than the 10 before, and count alone"),
        "{why}"
    );
}

#[test]
fn explore_of_0_1_has_no_effect_and_says_so() {
    let fitted = model(vec![run(1, "none", 4.0)]);
    let job = JOB.replace("\"auto\"", "\"auto\"\nexplore = 1");
    let plan = plan(&job, &facts(fitted));
    assert_eq!(compiler(&plan), "none");
    let warned = |warning: &String| warning.starts_with("`framework.explore` has no effect");
    assert!(plan.warnings.iter().any(warned), "{:?}", plan.warnings);
}

#[test]
fn hardware_that_is_meant_counts_in_place_of_the_jobs_own() {
    let runs = repeats(&[("EPYC", 4.0), ("Xeon", 8.0)], |cpu, run| {
        run.situation.hardware.cpu_model = Some(cpu.into());
        run.situation.hardware.threads = Some(8.0);
    });
    let mut facts = facts(model(runs));
    let job = format!(
        "{}[resources]\ncpus_per_task = 8\n",
        JOB.replace("\"auto\"", "\"none\"")
    );
    let mut on = |meant: &str| {
        facts.model.as_mut().expect("a model").meant = Some(meant.to_owned());
        let forecast = plan(&job, &facts).forecast.expect("a forecast");
        (forecast.time().expect("a time").median, forecast.basis)
    };
    let [(quick, basis), (slow, _), (_, unknown)] = ["EPYC", "Xeon", "another"].map(&mut on);
    assert!(
        (3.6..4.4).contains(&quick) && (7.2..8.8).contains(&slow),
        "{quick} {slow}"
    );
    assert_eq!((basis, unknown), (Basis::Alike, Basis::Workload));
}

// ----------------------------------------------------------------------------------------------------------- hardware

/// A queue with two kinds of nodes: three jobs of four got EPYCs, on which an epoch takes 4 s, the others Xeons, with 8 s.
fn two_kinds() -> SiteFacts {
    let kinds = [("EPYC", 4.0), ("EPYC", 4.0), ("EPYC", 4.0), ("Xeon", 8.0)];
    let mut facts = facts(model(repeats(&kinds, |cpu, run| {
        let cpus = if cpu == "EPYC" { 64.0 } else { 16.0 };
        run.situation.hardware = Hardware {
            cpu_model: Some(cpu.into()),
            cpus: Some(cpus),
            ..Hardware::default()
        };
    })));
    let nodes = |cpus, features: &[&str]| NodeType {
        count: 4,
        up: 4,
        cpus: Some(cpus),
        memory: Some(Bytes(64 * GIB)),
        features: features.iter().map(|name| (*name).to_owned()).collect(),
        ..NodeType::default()
    };
    facts.site.as_mut().expect("a site").nodes =
        vec![nodes(64, &["wide", "epyc"]), nodes(16, &["narrow", "ib"])];
    facts
}

fn on_two_kinds(resources: &str) -> Plan {
    let job = format!(
        "[resources]\n{resources}{}",
        JOB.replace("\"auto\"", "\"none\"")
    );
    plan(&job, &two_kinds())
}

#[test]
fn a_job_that_may_get_two_kinds_of_hardware_is_forecast_for_both() {
    let plan = on_two_kinds("walltime = \"auto\"\n");
    let forecast = plan.forecast.as_ref().expect("a forecast");
    let epoch = forecast.epoch_seconds.expect("a time");
    assert!((4.5..5.5).contains(&epoch.mean), "three of four: {epoch:?}");
    assert!(
        (3.5..4.5).contains(&epoch.median) && epoch.low < 4.0 && epoch.high > 7.9,
        "{epoch:?}"
    );
    let total = forecast.total_seconds.expect("epochs are known");
    assert!(
        total.high > 10.0 * 7.9 + 6.0,
        "all epochs are on one kind: {total:?}"
    );
    assert_eq!((forecast.basis, forecast.runs), (Basis::Alike, 20));
    let why = "the forecast is for EPYC (75 %), Xeon (25 %), by the runs of its queue";
    assert!(
        plan.notes.iter().any(|note| note == why),
        "{:?}",
        plan.notes
    );
}

#[test]
fn what_the_job_asks_for_tells_its_hardware() {
    for (resources, median) in [
        ("constraint = \"epyc\"\n", 4.0),
        ("cpus_per_task = 32\n", 4.0),
    ] {
        let plan = on_two_kinds(resources);
        let epoch = plan
            .forecast
            .as_ref()
            .and_then(|forecast| forecast.epoch_seconds)
            .expect("a forecast");
        assert!(
            (epoch.median / median).ln().abs() < 0.1,
            "{resources}: {epoch:?}"
        );
        let named = if median < 5.0 { "EPYC" } else { "Xeon" };
        let why = format!("the forecast is for {named} (100 %), by the runs of its queue");
        assert!(plan.notes.contains(&why), "{resources}: {:?}", plan.notes);
    }
    let open = on_two_kinds("constraint = \"wide|narrow\"\n");
    assert!(
        open.notes
            .iter()
            .any(|note| note.contains("EPYC (75 %), Xeon (25 %)")),
        "{:?}",
        open.notes
    );
}

#[test]
fn where_jobs_are_not_confined_they_have_the_whole_node() {
    let forecast = |confined: bool, resources: &str| {
        let job = format!(
            "[resources]\n{resources}\n{}",
            JOB.replace("\"auto\"", "\"none\"")
        );
        let runs = repeats(&[("64", 4.0), ("64", 4.0), ("16", 9.0)], |threads, run| {
            let threads = threads.parse().ok();
            let cpus = if confined { Some(64.0) } else { threads };
            run.situation.hardware.cpus = cpus;
            (
                run.situation.hardware.allowed,
                run.situation.hardware.threads,
            ) = (threads, threads);
        });
        plan(&job, &facts(model(runs)))
            .forecast
            .expect("a forecast")
    };
    let four = "cpus_per_task = 4";
    let (free, confined) = (forecast(false, four), forecast(true, four));
    let median = |forecast: &crate::record::Forecast| forecast.time().expect("a time").median;
    assert!(
        (3.5..4.5).contains(&median(&free)) && free.beyond.is_empty(),
        "{free:?}"
    );
    assert!(median(&confined) > 9.0, "{confined:?}");
    assert!(
        confined.beyond[0].contains("the number of threads, 4,"),
        "{:?}",
        confined.beyond
    );
    let one = forecast(true, "tasks_per_node = 1");
    assert!(
        one.beyond[0].contains("the number of threads, 1,"),
        "a task has a CPU: {:?}",
        one.beyond
    );
    let alone = forecast(true, "cpus_per_task = 4\nexclusive = true");
    assert!((3.5..4.5).contains(&median(&alone)), "{alone:?}");
}

// ------------------------------------------------------------------------------------------------------------- images

fn images(facts: &mut SiteFacts) {
    let entry = |name: &str, provenance| {
        let place = Place::Path(format!("/i/{name}.sif").into());
        let mut entry = Entry::new(
            name,
            place,
            "tensorflow",
            "2.4.1",
            Owner::Site,
            Origin::Default,
        );
        entry.provenance = Some(provenance);
        entry.compilers = vec!["xla".into()];
        entry
    };
    let mut foreign = entry("foreign", Provenance::Source);
    foreign.arch = "aarch64".into();
    facts.images.entries = vec![
        entry("built", Provenance::Source),
        entry("wheel", Provenance::Pip),
        foreign,
    ];
    facts.images.here.arch = "x86_64".into();
}

fn of_image(image: &str, run: &mut Observation) {
    let provenance = if image == "wheel" {
        Provenance::Pip
    } else {
        Provenance::Source
    };
    run.situation.image = Some(format!("/i/{image}.sif"));
    run.situation.framework.version = Some("2.4.1".into());
    run.situation.framework.provenance = Some(provenance);
}

#[test]
fn images_and_compilers_are_chosen_together_and_hard_constraints_hold() {
    let mut facts = facts(None);
    images(&mut facts);
    let by_rules = plan(JOB, &facts);
    let name = |plan: &Plan| {
        plan.image
            .as_ref()
            .and_then(|image| image.name.clone())
            .expect("an image")
    };
    assert_eq!(
        (name(&by_rules), compiler(&by_rules)),
        ("built".to_owned(), "none")
    );
    assert!(
        decision(&by_rules, "environment")
            .why
            .contains("by rules, for there is no performance model")
    );
    assert_eq!(by_rules.ways.len(), 4);

    // The one for other nodes is the quickest by far.
    facts.model = model(repeats(
        &[("built", 4.0), ("wheel", 3.0), ("foreign", 0.1)],
        of_image,
    ));
    let by_model = plan(
        &JOB.replace("compiler = \"auto\"", "compiler = \"none\""),
        &facts_without_xla(&facts),
    );
    assert_eq!(name(&by_model), "wheel");
    let framework = &by_model.framework;
    assert_eq!(
        (framework.version.as_deref(), framework.provenance),
        (Some("2.4.1"), Some(Provenance::Pip))
    );
    let told = decision(&by_model, "environment");
    for part in [
        "by the performance model: ",
        "from 5 runs like this; next best built with no compiler, ",
    ] {
        assert!(told.why.contains(part), "{part:?} in {}", told.why);
    }
    let built = told
        .rejected
        .iter()
        .find(|rejected| rejected.value == "image built")
        .expect("it is told");
    assert_eq!(
        built.why,
        "it fits, but `wheel` goes before it: the performance model puts it first"
    );
    assert!(by_model.candidates[0].chosen && by_model.candidates[0].name == "wheel");
    let is_foreign = |way: &Candidate| way.image.as_deref() == Some("foreign");
    assert!(!by_model.ways.iter().any(is_foreign));
}

/// The images are what is chosen among, not the compiler.
fn facts_without_xla(facts: &SiteFacts) -> SiteFacts {
    let mut facts = facts.clone();
    facts
        .images
        .entries
        .iter_mut()
        .for_each(|entry| entry.compilers.clear());
    facts
}

// -------------------------------------------------------------------------------------------------------------- sizes

const SIZES: &str = "launcher = \"each\"\n[resources]\nnodes = { min = 1, max = 4 }\n";

fn sized(facts: &SiteFacts, sizes: &str) -> Plan {
    plan(
        &format!("{sizes}{}", JOB.replace("\"auto\"", "\"none\"")),
        facts,
    )
}

#[test]
fn the_quickest_size_that_uses_its_nodes_is_taken() {
    let scaling = |seconds: [(&str, f64); 3]| {
        model(repeats(&seconds, |nodes, run| {
            run.situation.nodes = nodes.parse().expect("a number")
        }))
    };
    let without = sized(&facts(None), SIZES);
    assert_eq!(without.resources.nodes, 1);
    assert!(
        decision(&without, "nodes")
            .why
            .contains("the fewest, for there is no performance model")
    );

    let saturated = facts(scaling([("1", 8.0), ("2", 4.3), ("4", 6.5)]));
    let with = sized(&saturated, SIZES);
    assert_eq!(with.resources.nodes, 2, "{:#?}", with.ways);
    let nodes = decision(&with, "nodes");
    assert!(
        nodes.why.contains("the job file says so: 1 to 4; ")
            && nodes.why.contains("at least 50 % is asked")
    );
    let four = nodes
        .rejected
        .iter()
        .find(|rejected| rejected.value == "4")
        .expect("it is told");
    assert!(
        four.why
            .contains("an epoch, but its parallel efficiency is "),
        "{}",
        four.why
    );

    let scales = facts(scaling([("1", 8.0), ("2", 4.2), ("4", 2.3)]));
    assert_eq!(sized(&scales, SIZES).resources.nodes, 4);
    let frugal = SIZES.replace("max = 4", "max = 4, efficiency = 0.98");
    assert_eq!(sized(&scales, &frugal).resources.nodes, 1);
    let mut narrow = scales.clone();
    narrow.site.as_mut().expect("a site").queues[0].max_nodes = Some(2);
    let cut = sized(&narrow, SIZES);
    assert_eq!(cut.resources.nodes, 2);
    assert!(
        decision(&cut, "nodes")
            .why
            .ends_with("queue `batch` takes jobs of up to 2 nodes")
    );
}

#[test]
fn an_elastic_run_gets_no_more_nodes_than_are_worth_it() {
    let elastic = |facts: &SiteFacts, target: &str| {
        let sizes = SIZES.replace("each", "ddp");
        let rest = format!("[resume]\ncheckpoints = [\"c/*\"]\n[elastic]\n{target}\n");
        let plan = sized(facts, &format!("{sizes}{rest}"));
        let why = decision(&plan, "elastic").why.clone();
        (plan.elastic.expect("elastic").nodes, why)
    };
    let runs = repeats(&[("1", 8.0), ("2", 4.3), ("4", 6.5)], |nodes, run| {
        run.situation.nodes = nodes.parse().expect("a number");
    });
    let saturated = facts(model(runs));
    assert_eq!(elastic(&saturated, "").0, (1, 4));
    let (nodes, why) = elastic(&saturated, "target = \"auto\"");
    assert_eq!(nodes, (1, 2));
    assert!(why.contains("more are not worth it"), "{why}");
    let (nodes, why) = elastic(&facts(None), "target = \"auto\"");
    assert_eq!(nodes, (1, 4));
    assert!(why.contains("no run tells how it scales"), "{why}");
}

#[test]
fn nobody_pays_for_nodes_that_no_run_speaks_for() {
    let runs = repeats(&[("1", 8.0), ("4", 1.0)], |nodes, run| {
        run.situation.nodes = nodes.parse().expect("a number");
        run.situation.workload.model = Some("unlike".into());
    });
    let plan = sized(&facts(model(runs)), SIZES);
    assert_eq!(plan.resources.nodes, 1);
    assert!(
        plan.ways[1]
            .rejected
            .as_deref()
            .is_some_and(|why| why.contains("no run of this workload"))
    );
}

#[test]
fn a_job_whose_number_is_none_of_those_that_ran_says_so() {
    let steps = |steps: u32| {
        let mut run = run(u8::try_from(steps / 100).expect("few"), "none", 1.0);
        run.situation.workload.epochs = None;
        run.situation.numbers = BTreeMap::from([("steps".to_owned(), f64::from(steps))]);
        (run.epoch_seconds, run.epochs, run.outside_seconds) = (None, 0, None);
        run.wall_seconds = Some(Length::Known(f64::from(steps) * 0.1));
        run
    };
    let facts = facts(model([100, 200, 400, 800, 1600].map(steps).into()));
    let asked = |steps: &str| {
        let job = JOB.replace("epochs = 10\n", "");
        let job = format!("[run]\ncommand = [\"train\", \"--steps\", \"{steps}\"]\n{job}");
        let settings = Settings::merge(Some(PathBuf::from("/home/u/.local")), &[]);
        let spec = crate::job::parse(&job).expect("a valid job file");
        resolve(&spec, &settings.expect("settings"), &facts).expect("a plan")
    };
    assert!(asked("300").forecast.is_some());
    let none = asked("0").no_forecast.expect("a reason");
    let text =
        "the time grows with the argument `steps`, and this job gives no value above 0 for it";
    assert!(
        none.starts_with(super::UNLIKE) && none.ends_with(text),
        "{none}"
    );
}
