//! Gathers what a report shows: runs, their records, curves and what follows from them.

use std::collections::{BTreeMap, BTreeSet};
use std::path::PathBuf;

use crate::app::error::{Error, Kind, failure};
use crate::app::insight;
use crate::app::job::source::read;
use crate::app::runs::{attempts, element_of};
use crate::app::series::Series;
use crate::app::session::Session;
use crate::app::study::BenchDir;
use crate::app::track::{Tracked, Tracker};
use crate::foundation::clock::now_ms;
use crate::job::RunId;
use crate::learn::bench::Slot;
use crate::record::NodeRecord;
use crate::record::rundir::{Attempt, RunDir};
use crate::report::{
    NODES_DRAWN, Node, Report, Run, ScalingSample, ScalingStudy, ScalingTarget, points_of_each,
    read_published,
};

/// Runs of a report, elements of arrays counted one by one: more of them are no report but a database.
const MOST_RUNS: usize = 100;
/// Curves of a node without GPUs, and of a GPU, about.
const CURVES_OF_NODE: usize = 8;
const CURVES_OF_GPU: usize = 4;

/// The report of runs as they are named; `history`: the scheduler's accounting is asked too.
pub(crate) fn report_of(
    session: &Session,
    runs: &[String],
    history: bool,
) -> Result<Report, Error> {
    let mut tracker = Tracker::open(session)?;
    let mut run_ids: Vec<RunId> = Vec::new();
    for text in runs {
        let run_id = tracker.find(text)?;
        if !run_ids.contains(&run_id) {
            run_ids.push(run_id);
        }
    }
    if run_ids.len() > MOST_RUNS {
        return Err(failure!(
            Usage,
            "{} runs are named; a report holds {MOST_RUNS} at most",
            run_ids.len()
        )
        .hinted("`dlrun export` gives any number of runs as a table"));
    }
    let tracked = tracker.refresh(&run_ids, history)?;
    let prefixes = tracker.store.shortest_prefixes(&run_ids)?;
    let (mut seen, mut remarks) = (Vec::new(), Vec::new());
    for (tracked, prefix) in tracked.into_iter().zip(prefixes) {
        let dir = tracker.state.run(&tracked.record.run_id)?;
        let room = MOST_RUNS - seen.len();
        for (element, tracked) in apart(&dir, tracked, room, &mut remarks)? {
            seen.push((prefix.clone(), element, tracked));
        }
    }
    let nodes = seen
        .iter()
        .flat_map(|(.., tracked)| tracked.reading.outcome.nodes.iter().take(NODES_DRAWN));
    let curves = nodes
        .map(|node| CURVES_OF_NODE + CURVES_OF_GPU * node.gpus.len())
        .sum();
    let points = points_of_each(curves);
    let each = |(prefix, element, tracked): (String, _, Tracked)| {
        let dir = tracker.state.run(&tracked.record.run_id)?;
        Ok(one(session, &dir, prefix, element, tracked, Some(points)))
    };
    let runs = seen.into_iter().map(each).collect::<Result<_, Error>>()?;
    Ok(Report {
        runs,
        written_at_ms: now_ms(),
        remarks,
    })
}

/// What a report on scaling is made of.
pub(crate) struct ScalingOrder<'a> {
    pub(crate) runs: &'a [String],
    /// Names of matrices.
    pub(crate) matrices: &'a [String],
    /// Files of published series.
    pub(crate) published: &'a [PathBuf],
    pub(crate) target: Option<&'a ScalingTarget>,
    pub(crate) history: bool,
}

/// How trainings scale: of runs, of the runs of matrices, and of what others have published; of nothing named the latest matrix.
pub(crate) fn scaling_of(
    session: &Session,
    order: &ScalingOrder<'_>,
) -> Result<ScalingStudy, Error> {
    let mut samples = Vec::new();
    for file in order.published {
        let text = read(file)?;
        let found = read_published(&text);
        let shown = file.to_string_lossy();
        samples
            .extend(found.map_err(|problems| Error::in_file(Kind::Data, &shown, &text, problems))?);
    }
    let (mut run_ids, mut remarks) = (Vec::new(), Vec::new());
    let is_latest = order.runs.is_empty() && order.published.is_empty();
    let matrices: Vec<Option<&str>> = match &order.matrices {
        [] if is_latest => vec![None],
        names => names.iter().map(|name| Some(name.as_str())).collect(),
    };
    for name in matrices {
        let (bench, _) = BenchDir::find(session, name)?;
        let slots: BTreeSet<Slot> = bench.journal.starts().map(|(slot, _)| slot).collect();
        let results = slots.iter().filter_map(|slot| bench.journal.result(*slot));
        run_ids.extend(results.map(|(start, _)| start.run_id.clone()));
        remarks.push(format!("Matrix: {}.", bench.header.name));
    }
    if !order.runs.is_empty() || !run_ids.is_empty() {
        samples.extend(measured(session, order, run_ids, &mut remarks)?);
    }
    let target = order.target.map(ToString::to_string);
    let mut study = ScalingStudy::new(&samples, target, now_ms());
    study.remarks = remarks;
    Ok(study)
}

/// The runs of matrices that are still recorded, and those that are named; what counts for nothing becomes a remark.
fn measured(
    session: &Session,
    order: &ScalingOrder<'_>,
    of_matrices: Vec<RunId>,
    remarks: &mut Vec<String>,
) -> Result<Vec<ScalingSample>, Error> {
    let mut tracker = Tracker::open(session)?;
    let mut run_ids = Vec::new();
    for run_id in of_matrices {
        match tracker.find(run_id.as_str()) {
            Ok(run_id) => run_ids.push(run_id),
            Err(_) => remarks.push(format!(
                "Run {run_id} of the matrix has no record any more."
            )),
        }
    }
    for text in order.runs {
        run_ids.push(tracker.find(text)?);
    }
    let mut seen = BTreeSet::new();
    run_ids.retain(|run_id| seen.insert(run_id.clone()));
    let (mut samples, mut left_out) = (Vec::new(), BTreeMap::<&str, Vec<String>>::new());
    for tracked in tracker.refresh(&run_ids, order.history)? {
        let dir = tracker.state.run(&tracked.record.run_id)?;
        let prefix = tracked.record.run_id.as_str()[..6].to_owned();
        for (element, tracked) in apart(&dir, tracked, usize::MAX, remarks)? {
            let run = one(session, &dir, prefix.clone(), element, tracked, None);
            match ScalingSample::of(&run, order.target) {
                Ok(sample) => samples.push(sample),
                Err(why) => left_out.entry(why).or_default().push(prefix.clone()),
            }
        }
    }
    for (why, runs) in left_out {
        let count = runs.len();
        remarks.push(format!(
            "Left out are {count} runs that {why}: {}.",
            runs.join(", ")
        ));
    }
    Ok(samples)
}

/// A run, or the elements of its array that have started, one by one.
fn apart(
    dir: &RunDir,
    tracked: Tracked,
    room: usize,
    remarks: &mut Vec<String>,
) -> Result<Vec<(Option<u32>, Tracked)>, Error> {
    if tracked.elements.is_empty() {
        return Ok(vec![(None, tracked)]);
    }
    let started: Vec<u32> = tracked
        .elements
        .iter()
        .filter(|element| element.status.started_at_ms.is_some())
        .map(|element| element.element)
        .collect();
    if started.is_empty() {
        return Ok(vec![(None, tracked)]);
    }
    if started.len() < tracked.elements.len() || started.len() > room {
        let (all, shown) = (tracked.elements.len(), started.len().min(room));
        remarks.push(format!(
            "{} is an array of {all} elements: {} have started, the first {shown} of them are shown.",
            tracked.record.name,
            started.len()
        ));
    }
    let of = |element: u32| Ok((Some(element), element_of(dir, tracked.clone(), element)?));
    started.into_iter().take(room).map(of).collect()
}

/// Puts the epochs of earlier starts before those of the last, where a run continued.
fn join_starts(dir: &RunDir, tracked: &mut Tracked) {
    let Some(last) = tracked.reading.attempt.filter(|last| last.attempt > 0) else {
        return;
    };
    let nodes = tracked.reading.outcome.nodes.iter_mut();
    let Some(node) = nodes.max_by_key(|node| node.progress.epochs_completed) else {
        return;
    };
    for attempt in (0..last.attempt).rev() {
        let earlier = dir.outcome(Attempt { attempt, ..last }).outcome;
        let earlier = earlier.nodes.iter();
        if let Some(earlier) = earlier.max_by_key(|node| node.progress.epochs_completed) {
            node.progress.put_before(&earlier.progress);
        }
    }
}

/// `points` of each curve; without it samples are not read.
fn one(
    session: &Session,
    dir: &RunDir,
    prefix: String,
    element: Option<u32>,
    mut tracked: Tracked,
    points: Option<usize>,
) -> Run {
    if points.is_some() {
        join_starts(dir, &mut tracked);
    }
    let (mut timelines, mut sampled, mut notes) = (Vec::new(), Vec::new(), Vec::new());
    let drawn = points.map_or(0, |_| NODES_DRAWN);
    for node in tracked.reading.outcome.nodes.iter_mut().take(drawn) {
        let series = Series::read(dir, node, points);
        series.put_activity(node);
        let phases = series.analysis.map(|analysis| analysis.spans);
        timelines.push((series.timeline, phases.unwrap_or_default()));
        sampled.push(series.sampled);
        notes.extend(series.notes);
    }
    tracked.reading.notes.extend(notes);
    let request = insight::request(session, dir, &tracked);
    let insight = insight::insight(&tracked, request.as_ref(), sampled);
    let attempts = points.map(|_| attempts(dir, &tracked, element));
    let Tracked {
        record,
        status,
        reading,
        all_starts,
        ..
    } = tracked;
    let undrawn = std::iter::repeat_with(|| (None, Vec::new()));
    let drawn = timelines.into_iter().chain(undrawn);
    let node = |(record, (timeline, phases)): (NodeRecord, _)| Node {
        record,
        timeline,
        phases,
    };
    let nodes = reading
        .outcome
        .nodes
        .into_iter()
        .zip(drawn)
        .map(node)
        .collect();
    Run {
        prefix,
        element,
        record,
        status,
        request,
        insight,
        nodes,
        attempts: attempts.unwrap_or_default(),
        all_starts,
        notes: reading.notes,
    }
}
