//! `dlrun show`: all that is known of a run.

use serde_json::{Value, json};

use crate::app::error::{Error, Kind};
use crate::app::live;
use crate::app::series::{self, Series};
use crate::app::session::Session;
use crate::app::track::{Tracked, Tracker, found, output_path};
use crate::cli::args::Show;
use crate::cli::elements;
use crate::cli::imported::{self, open_store};
use crate::cli::insights;
use crate::cli::series::figures;
use crate::cli::summary;
use crate::plan::Plan;
use crate::record::rundir::RunDir;
use crate::report::insight::Sampled;

/// Points that the means of gauges are taken over.
const POINTS: usize = 100;

/// Runs the verb.
pub(crate) fn run(session: &Session, args: &Show) -> Result<u8, Error> {
    if let Some(path) = &args.store {
        let store = open_store(path)?;
        let run_id = found(store.find(&args.run)?, &args.run)?;
        return imported::show(session, &store, &run_id, args.element);
    }
    let mut tracker = Tracker::open(session)?;
    let run_id = tracker.find(&args.run)?;
    if tracker.store.is_imported(&run_id)? {
        if args.series {
            let error = Error::new(
                Kind::Missing,
                format!("run {run_id} was imported: its series is not in files here"),
            );
            return Err(error.hinted("`dlrun export --what samples` gives what is in the index"));
        }
        return imported::show(session, &tracker.store, &run_id, args.element);
    }
    let tracked = tracker.refresh(std::slice::from_ref(&run_id), args.history)?;
    let Some(mut tracked) = tracked.into_iter().next() else {
        return Err(Error::new(Kind::Internal, "the run vanished"));
    };
    let run = tracker.state.run(&run_id)?;
    if let Some(element) = args.element {
        tracked = element_of(&run, tracked, element)?;
    }
    let is_live = live::refresh(&mut tracked);
    let attempts = elements::attempts(&run, &tracked, args.element);
    if session.output.json {
        let (series, insight) = if args.series {
            let (values, sampled) = numbers(&run, &mut tracked, args.points);
            let request = insights::request(session, &run, &tracked);
            (
                Some(values),
                insights::insight(&tracked, request.as_ref(), sampled),
            )
        } else {
            (None, insights::read(session, &run, &mut tracked))
        };
        let mut value = summary::to_json(&tracked, &tracker.state);
        value["progress_is_live"] = json!(is_live);
        value["attempts"] = elements::attempts_to_json(&attempts);
        value["insight"] = json!(insight);
        value["overrides"] = json!(overrides(&run));
        for (place, series) in series.into_iter().flatten().enumerate() {
            value["nodes"][place]["series"] = series;
        }
        session.output.result("show", &value, "")?;
    } else {
        let (series, insight) = if args.series {
            let (text, sampled) = series_text(&run, &mut tracked);
            let request = insights::request(session, &run, &tracked);
            (text, insights::insight(&tracked, request.as_ref(), sampled))
        } else {
            (String::new(), insights::read(session, &run, &mut tracked))
        };
        let given = overrides(&run)
            .iter()
            .map(|given| format!("given: {given}\n"))
            .collect::<String>();
        let tables = given
            + &elements::bad_ones(&tracked, &run)
            + &elements::attempts_to_text(&attempts, &tracked)
            + &series;
        let text = summary::with_tables(&tracked, &tracker.state, &insight, &tables, is_live);
        session.output.result("show", &json!(null), &text)?;
    }
    Ok(0)
}

/// What the command line said in place of the job file, by the plan that is kept with the run.
fn overrides(run: &RunDir) -> Vec<String> {
    let plan: Option<Plan> = run
        .read_plan()
        .ok()
        .and_then(|text| serde_json::from_str(&text).ok());
    plan.map(|plan| plan.overrides).unwrap_or_default()
}

/// One element of an array in the place of the whole.
pub(super) fn element_of(run: &RunDir, tracked: Tracked, element: u32) -> Result<Tracked, Error> {
    let Tracked {
        mut record,
        elements,
        ..
    } = tracked;
    let Some(seen) = elements.into_iter().find(|seen| seen.element == element) else {
        let error = Error::new(
            Kind::Missing,
            format!("run {} has no element {element}", record.run_id),
        );
        return Err(match &record.array {
            Some(array) => error.hinted(format!("its elements are {array}")),
            None => error.hinted("it is no array"),
        });
    };
    record.output =
        output_path(&record, Some(element)).map(|path| path.to_string_lossy().into_owned());
    let reading = run.newest_outcome(element)?;
    Ok(Tracked {
        record,
        status: seen.status,
        reading,
        elements: Vec::new(),
    })
}

/// The series of each node, and what it comes to. What cannot be read joins what else could not.
fn numbers(run: &RunDir, tracked: &mut Tracked, points: u32) -> (Vec<Value>, Vec<Option<Sampled>>) {
    let points = usize::try_from(points).unwrap_or(usize::MAX);
    let (mut values, mut sampled, mut notes) = (Vec::new(), Vec::new(), Vec::new());
    for node in &tracked.reading.outcome.nodes {
        let series = Series::curves(run, node, points);
        values.push(series::to_json(&series, node));
        sampled.push(series.sampled);
        notes.extend(series.notes);
    }
    tracked.reading.notes.extend(notes);
    (values, sampled)
}

/// The figures of each node as text, and what its samples come to.
fn series_text(run: &RunDir, tracked: &mut Tracked) -> (String, Vec<Option<Sampled>>) {
    let nodes = &tracked.reading.outcome.nodes;
    let (mut text, mut sampled, mut notes) = (String::new(), Vec::new(), Vec::new());
    for node in nodes {
        let name = format!("{}.{}", node.key.node, node.key.step);
        let series = Series::curves(run, node, POINTS);
        let name = (nodes.len() > 1).then_some(name.as_str());
        text.push_str(&figures(series.timeline.as_ref(), node, name));
        sampled.push(series.sampled);
        notes.extend(series.notes);
    }
    text.push_str("`dlrun report` draws them over time\n");
    tracked.reading.notes.extend(notes);
    (text, sampled)
}
