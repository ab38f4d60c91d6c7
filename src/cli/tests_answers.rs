//! `docs/json-answers.schema.json`: the JSON Schema of what `--json` prints, from the types of the answers.
//!
//! What is declared elsewhere has no keys here: records (docs/records.md, docs/export.md), plans, forecasts and models
//! (docs/model.md), the site of `doctor`, the figures of nodes, descriptions of images (docs/catalogue.md; `image list`,
//! `image show` and `image add` print them), and what `explain` prints (docs/records.md).

use std::borrow::Cow;
use std::fs;
use std::path::Path;

use schemars::generate::SchemaSettings;
use schemars::{JsonSchema, Schema, SchemaGenerator, json_schema};
use serde_json::{Value, json};

use super::commands::{
    bench, cancel, check, completions, config, convert, image, list, logs, man, model, plan,
    render, report, scale, shell_words, show, submit, sweep, timings,
};
use super::summary::{RunAnswer, Runs};
use crate::app::output::Envelope;
use crate::app::{doctor, export, images, import, models, prune};
use crate::cli::top::BoardAnswer;
use crate::report::{ReportAnswer, ScalingStudy};

/// Types that are described elsewhere, with what their JSON is.
macro_rules! described_elsewhere {
    ($($kind:literal: $($name:ty),+;)+) => {
        $($(
            impl JsonSchema for $name {
                fn inline_schema() -> bool {
                    true
                }
                fn schema_name() -> Cow<'static, str> {
                    stringify!($name).into()
                }
                fn json_schema(_: &mut SchemaGenerator) -> Schema {
                    json_schema!({ "type": $kind })
                }
            }
        )+)+
    };
}

described_elsewhere! {
    "string": crate::job::ArraySpec, crate::job::JobId, crate::job::JobState, crate::job::RunId, crate::job::SchedulerKind;
    "object": crate::config::Origin, crate::config::site::SiteModel, crate::job::Framework, crate::job::Workload,
        crate::learn::model::CheckedForecast, crate::learn::model::Counted, crate::learn::model::Evaluation,
        crate::learn::model::Explanation, crate::learn::model::Head, crate::observe::timing::Evidence,
        crate::observe::timing::Stated, crate::observe::timing::StatedEpoch, crate::plan::Candidate,
        crate::plan::ImageCandidate, crate::plan::Plan, crate::record::AttemptRecord, crate::record::Cause, crate::record::Element,
        crate::record::ElementCounts, crate::record::EpochSummary, crate::record::ExitStatus, crate::record::Forecast,
        crate::record::GpuFacts, crate::record::HostFacts, crate::record::Missing, crate::record::NodeBench,
        crate::record::NodeFigures, crate::record::NodeRecord, crate::record::RunRecord, crate::record::Status,
        crate::record::StepTimes, crate::record::Usage, crate::report::insight::Insight, crate::image::catalogue::Check, crate::record::Event, crate::record::StepMark,
        crate::report::insight::Request;
}

/// The schema: of the envelope, and for each verb of its `result`.
fn schema() -> Value {
    let settings = SchemaSettings::draft2020_12().for_serialize();
    let mut generator = settings.into_generator();
    let mut verbs = Vec::new();
    macro_rules! verb {
        ($operation:literal, $($answer:ty),+) => {
            verbs.push(($operation, vec![$(generator.subschema_for::<$answer>()),+]));
        };
    }
    verb!("submit", submit::Submitted, RunAnswer);
    verb!("check", check::Checked);
    verb!("plan", plan::Planned);
    verb!("render", render::JobScript);
    verb!("convert", convert::ConvertedJob);
    verb!("list", Runs<list::ListedRun>);
    verb!("show", show::ShownRun);
    verb!("report", report::WrittenReport, ReportAnswer, ScalingStudy);
    verb!("logs", logs::Outputs);
    verb!("wait", Runs<RunAnswer>);
    verb!("cancel", Runs<cancel::CancelledRun>);
    verb!("scale", scale::ScaledRun);
    verb!("prune", prune::Pruned);
    verb!("doctor", doctor::Examination);
    verb!("timings", timings::Reading);
    verb!("export", export::Exported);
    verb!("import", import::Imported);
    verb!("config", config::ShownSettings, config::EventsModule);
    verb!("image check", image::check::CheckedImages);
    verb!("image pull", images::making::Made);
    verb!(
        "image build",
        images::making::Made,
        image::build::PrintedDefinition
    );
    verb!("image remove", image::remove::Removed);
    verb!("model fit", models::fit::Fitted);
    verb!("model show", model::show::ShownModel);
    verb!("model evaluate", model::evaluate::Evaluated);
    verb!("model predict", model::predict::Predicted);
    verb!("bench node", bench::node::Found);
    verb!(
        "bench run",
        bench::figures::ShownFigures,
        bench::run::PlannedMatrix,
        submit::Submitted
    );
    verb!("bench show", bench::figures::ShownFigures);
    verb!(
        "sweep run",
        sweep::show::ShownSweep,
        sweep::planned::PlannedSweep,
        submit::Submitted
    );
    verb!("sweep show", sweep::show::ShownSweep);
    verb!(
        "tune",
        sweep::show::ShownSweep,
        sweep::planned::PlannedSweep,
        submit::Submitted
    );
    verb!("completions", completions::CompletionScript);
    verb!("words", shell_words::Completable);
    verb!("man", man::Page, man::Pages);
    let answers: Vec<Value> = verbs
        .into_iter()
        .map(|(operation, answers)| {
            let result = match &answers[..] {
                [only] => json!(only),
                several => json!({ "anyOf": several }),
            };
            json!({
                "if": { "properties": { "operation": { "const": operation }, "ok": { "const": true } } },
                "then": { "properties": { "result": result } },
            })
        })
        .collect();
    let envelope = generator.subschema_for::<Envelope>();
    let top = generator.subschema_for::<BoardAnswer>();
    json!({
        "$schema": "https://json-schema.org/draft/2020-12/schema",
        "title": "Answers of dlrun",
        "description": "What `dlrun --json` prints. Objects whose keys are not listed are records (docs/records.md).",
        "anyOf": [
            top,
            { "allOf": std::iter::once(json!(envelope)).chain(answers).collect::<Vec<_>>() },
        ],
        "$defs": generator.take_definitions(true),
    })
}

#[test]
fn the_schema_of_answers_is_the_one_in_docs() {
    let page = Path::new(env!("CARGO_MANIFEST_DIR")).join("docs/json-answers.schema.json");
    let generated = format!("{:#}\n", schema());
    if std::env::var_os("UPDATE_DOCS").is_some() {
        fs::write(&page, &generated).expect("written");
    }
    let kept = fs::read_to_string(page).unwrap_or_default();
    assert!(
        kept == generated,
        "docs/json-answers.schema.json is out of date: run the tests once with UPDATE_DOCS=1"
    );
}
