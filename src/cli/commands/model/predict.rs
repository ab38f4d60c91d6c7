//! `dlrun model predict`: how long a job would take.

use serde_json::json;

use crate::app::error::{Error, Kind};
use crate::app::job::load::{Against, Job};
use crate::app::models::meant;
use crate::app::session::Session;
use crate::cli::args::ModelPredict;
use crate::cli::forecast;
use crate::cli::table::{fitted, table};
use crate::foundation::diagnostic::printable;
use crate::job::Provenance;
use crate::plan::Plan;
use crate::record::Forecast;

/// Runs the verb.
pub(crate) fn run(session: &Session, args: &ModelPredict) -> Result<u8, Error> {
    // First the model: without one the job file need not be looked at.
    let (model, origin) = meant(session)?;
    let job = Job::load(session, &args.job.request(), Against::Site)?;
    let plan = &job.plan;
    plan.warnings
        .iter()
        .for_each(|warning| session.warning(warning));
    let Some(forecast) = &plan.forecast else {
        let why = plan
            .no_forecast
            .as_deref()
            .unwrap_or("it knows nothing of the software of this job");
        let message = format!(
            "model {} says nothing of this job: {why}",
            model.head().name
        );
        let hint = "run it twice, then `dlrun model fit`; or say under `[workload]` and `[framework]` what is trained, and with what";
        return Err(Error::new(Kind::Data, message)
            .hinted(too_large(plan).unwrap_or_else(|| hint.to_owned())));
    };
    let value = json!({
        "forecast": forecast,
        "path": origin.path.to_string_lossy(),
        "framework": plan.framework,
        "image": plan.image.as_ref().map(|image| &image.source),
        "workload": plan.workload,
        "scheduler": plan.scheduler,
        "nodes": plan.resources.nodes,
        "candidates": plan.ways,
    });
    let text = described(plan, forecast)
        + &format!("  by {origin}: {}\n", model.head().name)
        + &ways(plan);
    session.output.sentences(&value, &printable(&text))
}

/// A job that asks for more CPUs than this machine has would not run as it is forecast.
fn too_large(plan: &Plan) -> Option<String> {
    let here = std::thread::available_parallelism().ok()?.get();
    let asked = u64::from(plan.resources.cpus_per_task?) * u64::from(plan.resources.tasks_per_node);
    let is_too_large = plan.scheduler.is_local() && asked > here as u64;
    is_too_large.then(|| {
        format!(
            "the job asks for {asked} CPUs, and this machine has {here}: no run here tells how long it takes"
        )
    })
}

fn described(plan: &Plan, forecast: &Forecast) -> String {
    let mut lines = vec![format!(
        "{}: {} takes {}",
        plan.name,
        forecast.time_of(),
        time(forecast)
    )];
    if let Some(extra) = &forecast.first_extra_seconds {
        lines.push(format!(
            "  the first takes longer by {}",
            forecast::seconds(extra)
        ));
    }
    if let Some(outside) = &forecast.outside_seconds {
        lines.push(format!(
            "  start-up, evaluation, checkpoints and the end {}",
            forecast::seconds(outside)
        ));
    }
    match (&forecast.total_seconds, plan.workload.epochs) {
        (Some(total), Some(epochs)) => lines.push(format!(
            "  {} in all {}",
            forecast::count(epochs, "epoch"),
            forecast::seconds(total)
        )),
        (Some(total), None) => lines.push(format!("  in all {}", forecast::seconds(total))),
        (None, _) => lines.push("  in all: not known without `workload.epochs`".to_owned()),
    }
    match &forecast.memory_bytes {
        Some(bytes) => lines.push(format!("  memory of a node {}", forecast::memory(bytes))),
        None => lines.push("  memory of a node: not known".to_owned()),
    }
    lines.push(format!("  rests on {}", forecast::basis(forecast)));
    lines.extend(
        forecast
            .assumed
            .iter()
            .map(|assumed| format!("  left out in the job file: {assumed}")),
    );
    lines.extend(
        forecast
            .beyond
            .iter()
            .map(|beyond| format!("  beyond what was measured: {beyond}")),
    );
    lines.iter().map(|line| format!("{line}\n")).collect()
}

fn time(forecast: &Forecast) -> String {
    forecast
        .time()
        .map_or_else(|| "an unknown time".to_owned(), forecast::seconds)
}

/// The ways that the job leaves open, best first as the plan has them; nothing where there is one.
fn ways(plan: &Plan) -> String {
    if plan.ways.len() < 2 {
        return String::new();
    }
    let mut rows = table();
    rows.set_header([
        "",
        "image",
        "version",
        "compiler",
        "provenance",
        "nodes",
        "epoch",
        "rests on",
    ]);
    for way in &plan.ways {
        let word = |word: Option<&str>| word.unwrap_or("-").to_owned();
        let told = way
            .forecast
            .as_ref()
            .map(|told| (time(told), forecast::basis_in_short(told)));
        let (epoch, rests_on) = told.unwrap_or_else(|| ("-".to_owned(), "-".to_owned()));
        rows.add_row([
            if way.chosen { "chosen" } else { "" }.to_owned(),
            word(way.image.as_deref()),
            word(way.version.as_deref()),
            word(way.compiler.as_deref()),
            word(way.provenance.map(Provenance::as_str)),
            way.nodes.to_string(),
            epoch,
            rests_on,
        ]);
    }
    format!("\n{}", fitted(rows))
}
