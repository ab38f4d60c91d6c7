//! `dlrun model predict`: how long a job would take.

use std::borrow::Cow;

use serde::Serialize;

use crate::app::error::{Error, Kind};
use crate::app::job::load::{Against, Job};
use crate::app::models::meant;
use crate::app::session::Session;
use crate::cli::args::ModelPredict;
use crate::cli::forecast;
use crate::cli::table::{headed, or_dash};
use crate::job::{Framework, Provenance, SchedulerKind, Workload};
use crate::plan::{Candidate, Plan, UNLIKE};
use crate::record::Forecast;

/// What a model says of a job.
#[derive(Serialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
pub(crate) struct Predicted<'a> {
    forecast: &'a Forecast,
    path: Cow<'a, str>,
    framework: &'a Framework,
    image: Option<&'a str>,
    workload: &'a Workload,
    scheduler: SchedulerKind,
    nodes: u32,
    candidates: &'a [Candidate],
}

/// Runs the verb.
pub(crate) fn run(session: &Session, args: &ModelPredict) -> Result<u8, Error> {
    // First the model: without one the job file need not be looked at.
    let (model, origin) = meant(session)?;
    let job = Job::load(session, &args.job.request(), Against::Site)?;
    let plan = &job.plan;
    plan.warnings.iter().for_each(|text| session.warning(text));
    let name = &model.head().name;
    let Some(forecast) = &plan.forecast else {
        let why = plan.no_forecast.as_deref();
        let why = why.unwrap_or("it knows nothing of the software of this job");
        let message = format!("model {name} cannot predict this job: {why}");
        let is_described = plan.workload.model.is_some() && plan.framework.name.is_some();
        let describe =
            "; or say under `[workload]` and `[framework]` what is trained, and with what";
        let or = if is_described { "" } else { describe };
        let hint = match why.starts_with(UNLIKE) {
            true => "give it values nearer to those that ran, or run it as it is, then `dlrun model fit`".to_owned(),
            false => format!("run it twice, then `dlrun model fit`{or}"),
        };
        return Err(Error::new(Kind::Data, message).hinted(hint));
    };
    let answer = Predicted {
        forecast,
        path: origin.path.to_string_lossy(),
        framework: &plan.framework,
        image: plan.image.as_ref().map(|image| image.source.as_str()),
        workload: &plan.workload,
        scheduler: plan.scheduler,
        nodes: plan.resources.nodes,
        candidates: &plan.ways,
    };
    let by = format!("  by {origin}: {name}\n");
    let text = described(plan, forecast) + &by + &ways(plan);
    session.output.sentences(&answer, &text)
}

fn described(plan: &Plan, forecast: &Forecast) -> String {
    let (each, time) = (forecast.time_of(), time(forecast));
    let mut lines = vec![format!("{}: {each} takes {time}", plan.name)];
    let mut add = |what: &str, text: Option<String>| {
        lines.extend(text.map(|text| format!("  {what} {text}")));
    };
    let between = forecast.between_seconds.as_ref();
    let what = "evaluation, checkpoints and pauses of each epoch";
    add(what, between.map(forecast::seconds));
    let outside = forecast.outside_seconds.as_ref();
    let what = "start-up, the first epoch's extra time and the end";
    add(what, outside.map(forecast::seconds));
    let epochs = plan
        .workload
        .epochs
        .filter(|_| forecast.total_seconds.is_some());
    let epochs = epochs.map_or_else(String::new, |epochs| forecast::count(epochs, "epoch") + " ");
    let total = forecast.total_seconds.as_ref().map(forecast::seconds);
    let no_total = || "not known without `workload.epochs`".to_owned();
    let total = total.unwrap_or_else(no_total);
    // Without epochs the first line has it.
    let total = forecast.epoch_seconds.as_ref().map(|_| total);
    add(&format!("{epochs}in all"), total);
    let memory = forecast.memory_bytes.as_ref().map(forecast::memory);
    add(
        "memory of a node",
        Some(memory.unwrap_or_else(|| "not known".to_owned())),
    );
    add("rests on", Some(forecast::basis(forecast)));
    add("of late", forecast.shift.as_ref().map(forecast::shift));
    for assumed in &forecast.assumed {
        add("left out in the job file:", Some(assumed.clone()));
    }
    for beyond in &forecast.beyond {
        add("beyond what was measured:", Some(beyond.clone()));
    }
    lines.join("\n") + "\n"
}

fn time(forecast: &Forecast) -> String {
    let time = forecast.time().map(forecast::seconds);
    time.unwrap_or_else(|| "an unknown time".to_owned())
}

/// The ways that the job leaves open, best first as the plan has them; nothing where there is one.
fn ways(plan: &Plan) -> String {
    if plan.ways.len() < 2 {
        return String::new();
    }
    let heads = [
        "",
        "image",
        "version",
        "compiler",
        "provenance",
        "nodes",
        "in all",
        "epoch",
        "rests on",
    ];
    let row = |way: &Candidate| {
        let forecast = way.forecast.as_ref();
        [
            if way.chosen { "chosen" } else { "" }.to_owned(),
            or_dash(way.image.as_deref()),
            or_dash(way.version.as_deref()),
            or_dash(way.compiler.as_deref()),
            or_dash(way.provenance.map(Provenance::as_str)),
            way.nodes.to_string(),
            or_dash(
                forecast
                    .and_then(|of| of.total_seconds.as_ref())
                    .map(forecast::seconds),
            ),
            or_dash(
                forecast
                    .and_then(|of| of.epoch_seconds.as_ref())
                    .map(forecast::seconds),
            ),
            or_dash(forecast.map(forecast::basis_in_short)),
        ]
    };
    format!("\n{}", headed(heads, plan.ways.iter().map(row)))
}
