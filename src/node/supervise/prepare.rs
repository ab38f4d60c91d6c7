//! What is decided before the command starts: how it enters its container on this node.

use std::collections::BTreeMap;
use std::ffi::OsString;
use std::path::PathBuf;
use std::time::Duration;

use super::check;
use super::container::{Entry, NoEntry, enter};
use super::context::{Context, INTERNAL};
use super::events;
use super::writer::{Job, Writer};
use crate::foundation::clock::now_ms;
use crate::image::flags::Container;
use crate::job::{EnvVar, NodeCheck, RunId};
use crate::observe::monitor;
use crate::record::{ContainerRecord, ExitStatus, NodeRecord, NodeState};

/// How long the record of a command that is not started may take to reach the disk.
const LAST_WRITE: Duration = Duration::from_secs(6);

/// What the command does not see: one that may be started again sees which start it is.
pub(super) fn internal(context: &Context) -> Vec<OsString> {
    let resumes = context
        .plan
        .as_ref()
        .is_some_and(|plan| plan.resume.is_some());
    let own = INTERNAL
        .into_iter()
        .filter(|name| !(resumes && *name == "DLRUN_ATTEMPT"));
    own.map(OsString::from).collect()
}

/// A command, ready to be started.
#[derive(Debug)]
pub struct Prepared {
    pub(super) context: Context,
    pub(super) argv: Vec<OsString>,
    pub(super) sets: Vec<(OsString, OsString)>,
    pub(super) removals: Vec<OsString>,
    pub(super) container: Option<ContainerRecord>,
    /// Whether `argv` begins with the container's runtime.
    pub(super) is_runtime: bool,
    /// The file in which the command reports events.
    pub(super) events: Option<PathBuf>,
    /// What speaks against this node, and whether the start ends for it.
    pub(super) unfit: Vec<String>,
    pub(super) is_refused: bool,
}

impl Prepared {
    /// Looks at the node, where the plan asks for that. On a node that is not fit the command is replaced by one that says so and
    /// fails; ranks hear it from the meeting of the nodes.
    #[must_use]
    pub fn checked(mut self) -> Self {
        let plan = self.context.plan.as_ref();
        let mode = plan.map(|plan| plan.node_check).unwrap_or_default();
        let is_distributed = plan.is_some_and(|plan| plan.launcher.is_distributed());
        self.unfit = check::check(&self.context);
        self.is_refused = mode == NodeCheck::Fail && !self.unfit.is_empty();
        let why = check::said(&self.context.node, &self.unfit);
        if self.is_refused && is_distributed {
            self.sets.push((check::VARIABLE.into(), why.into()));
        } else if self.is_refused {
            let own = std::env::current_exe().unwrap_or_else(|_| "dlrun".into());
            let words = ["exec", "--refused", &why].map(OsString::from);
            self.argv = std::iter::once(own.into_os_string()).chain(words).collect();
            self.is_runtime = false;
        }
        self
    }

    /// What the user must know before the command starts. The ranks of an MPI program say it themselves.
    #[must_use]
    pub fn warnings(&self) -> Vec<String> {
        let own = self.container.as_ref().filter(|_| self.is_runtime);
        let own = own.map(|container| container.warnings.clone());
        let is_warned = !self.unfit.is_empty() && !self.is_refused;
        let unfit = is_warned.then(|| check::said(&self.context.node, &self.unfit));
        own.unwrap_or_default().into_iter().chain(unfit).collect()
    }
}

/// A command that is not started.
#[derive(Debug)]
pub struct NotPrepared {
    /// Why.
    pub why: NoEntry,
    context: Context,
}

/// Makes a command ready. The first `bare` words of `argv` start the plan's container as the submission had it; they are what
/// is left where this node cannot be asked.
///
/// # Errors
/// When the container cannot be started here as the job file wants it.
pub fn prepare(
    argv: Vec<OsString>,
    bare: usize,
    context: Context,
) -> Result<Prepared, Box<NotPrepared>> {
    // What is submitted from inside this run is no part of it.
    let inside = |run_id: &RunId| ("DLRUN_INSIDE".into(), run_id.as_str().into());
    let mut sets: Vec<(OsString, OsString)> = context.run_id.iter().map(inside).collect();
    let mut removals = internal(&context);
    let events = context.run_id.as_ref().and_then(|_| events::make());
    match &events {
        Some(file) => sets.push((events::VARIABLE.into(), file.into())),
        // One of an outer run is not ours.
        None => removals.push(events::VARIABLE.into()),
    }
    if let Some(way) = context.way() {
        let set = |variable: &EnvVar| (variable.name.clone().into(), variable.value.clone().into());
        sets.extend(way.env.iter().map(set));
        removals.extend(way.unset.iter().map(OsString::from));
    }
    let mut prepared = Prepared {
        context,
        argv,
        sets,
        removals,
        container: None,
        is_runtime: bare > 0,
        events,
        unfit: Vec::new(),
        is_refused: false,
    };
    let plan = prepared.context.plan.as_ref();
    if plan.is_some_and(|plan| plan.launcher.is_distributed()) {
        // It starts the ranks, and knows them by our own variables.
        let own = std::env::current_exe().unwrap_or_else(|_| "dlrun".into());
        let words = [own.into_os_string(), "ranks".into(), "--".into()];
        prepared.argv.splice(0..0, words);
        prepared
            .removals
            .retain(|name| !INTERNAL.iter().any(|own| name == own));
    }
    let plan = prepared.context.plan.as_ref();
    let Some(container) = plan.and_then(|plan| plan.image.clone()) else {
        return Ok(prepared);
    };
    let variables = variables(&prepared.sets, &prepared.removals);
    if bare == 0 {
        // Each rank enters its container by itself; what this node decides for its own is recorded.
        let is_mpi = plan.is_some_and(|plan| plan.launcher.has_ranks());
        let entry = is_mpi.then(|| enter(&container, &[], &[], variables));
        prepared.container = entry.and_then(Result::ok).map(|entry| entry.record);
        return Ok(prepared);
    }
    let (words, command) = prepared.argv.split_at(bare.min(prepared.argv.len()));
    match enter(&container, words, command, variables) {
        Ok(entry) => {
            prepared.argv = entry.argv;
            prepared.sets.extend(entry.sets);
            prepared.removals.extend(entry.removals);
            prepared.container = Some(entry.record);
            Ok(prepared)
        }
        Err(why) => {
            prepared.events.iter().for_each(|file| events::remove(file));
            let context = prepared.context;
            Err(Box::new(NotPrepared { why, context }))
        }
    }
}

/// The words of one rank of an MPI program, or of a build, in its container, here in the current directory; `bare` as for
/// [`prepare`].
///
/// # Errors
/// As [`prepare`].
pub fn prepare_rank(
    container: &Container,
    argv: &[OsString],
    bare: usize,
) -> Result<Entry, NoEntry> {
    let (words, command) = argv.split_at(bare.min(argv.len()));
    // The supervisor has left that of a run that may continue.
    let own = INTERNAL.into_iter().filter(|name| *name != "DLRUN_ATTEMPT");
    let removals: Vec<OsString> = own.map(OsString::from).collect();
    enter(container, words, command, variables(&[], &removals))
}

/// The variables that the command will see, as far as they are text.
fn variables(sets: &[(OsString, OsString)], removals: &[OsString]) -> BTreeMap<String, String> {
    let text = |(name, value): (OsString, OsString)| {
        Some((name.into_string().ok()?, value.into_string().ok()?))
    };
    let mut variables: BTreeMap<String, String> = std::env::vars_os().filter_map(text).collect();
    variables.retain(|name, _| !removals.iter().any(|removed| removed == name.as_str()));
    variables.extend(sets.iter().cloned().filter_map(text));
    variables
}

impl NotPrepared {
    /// Leaves a record of the command that is not started, which ends with this code. That it cannot be written is no
    /// news to anybody: why the command is not started is in the output.
    pub fn record(self, exit_code: i32) -> NoEntry {
        let Self { why, context } = self;
        let Some(run_id) = context.run_id.clone() else {
            return why;
        };
        let now = now_ms();
        let key = context.key_of(run_id);
        let host = monitor::host_facts(context.omp_num_threads.clone());
        let record = NodeRecord {
            state: NodeState::Ended,
            ended_at_ms: Some(now),
            exit: Some(ExitStatus::Code(exit_code)),
            container: Some((*why.record).clone()),
            ..NodeRecord::begun(key, context.job_id.clone(), now, host)
        };
        let (mut writer, _) = Writer::start(context, None, LAST_WRITE);
        writer.send(Job::Record(Box::new(record)));
        if writer.flush(LAST_WRITE).is_err() {
            tracing::warn!("the record did not reach the disk in time");
        }
        why
    }
}
