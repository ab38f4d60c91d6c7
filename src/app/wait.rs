//! Waits until runs are over, showing epochs as they end.

use std::collections::BTreeMap;
use std::path::PathBuf;
use std::time::{Duration, Instant};

use crate::app::error::{Error, failure};
use crate::app::interrupt;
use crate::app::progress::{Display, Epochs};
use crate::app::session::Session;
use crate::app::track::{Tracked, Tracker, output_path, plan_of};
use crate::job::{JobState, Launcher, RunId, TimingPattern};
use crate::plan::Plan;
use crate::record::{Progress as Training, RunRecord, Status, resolve};
use crate::scheduler::adapter_for;

/// Pauses between two questions to a scheduler: many waiting users must not wear a controller out.
const FIRST_PAUSE: Duration = Duration::from_secs(1);
const LONGEST_PAUSE: Duration = Duration::from_secs(15);
/// Asking the local runner costs two files.
const LOCAL_PAUSE: Duration = Duration::from_millis(200);
/// How long a run may stay unclear before what is known is the answer: a new job is not in the queue at once, one that
/// left the queue may still be writing its end mark, and one that has ended stays in the queue while a node clears up.
pub(crate) const UNCLEAR_PATIENCE: Duration = Duration::from_secs(45);

/// How long a scheduler must say that a job can never start: a limit may be changed, a node come up.
const HOPELESS_PATIENCE: Duration = Duration::from_secs(10);

/// A run that is waited for, with the output to look for epochs in.
pub(crate) struct Watched {
    pub(crate) run_id: RunId,
    /// Whether it runs on this machine.
    pub(crate) local: bool,
    timing: Option<TimingPattern>,
    epochs: Option<Epochs>,
    unclear_since: Option<Instant>,
    hopeless_since: Option<Instant>,
    /// The run, once it is over.
    pub(crate) over: Option<Tracked>,
}

impl Watched {
    /// A run with its plan.
    pub(crate) fn new(record: &RunRecord, plan: &Plan) -> Self {
        // The output of an array's element is known when one runs.
        let output = record
            .output
            .as_ref()
            .filter(|_| record.array.is_none())
            .map(|output| {
                // With one output for each node the first node's is followed.
                let has_several = plan.launcher == Launcher::Each && !record.scheduler.is_local();
                let output = if has_several {
                    format!("{}.0.out", output.strip_suffix(".out").unwrap_or(output))
                } else {
                    output.clone()
                };
                PathBuf::from(output)
            });
        Self {
            run_id: record.run_id.clone(),
            local: record.scheduler.is_local(),
            timing: plan.timing.clone(),
            epochs: output.map(|output| Epochs::new(output, plan.timing.as_ref())),
            unclear_since: None,
            hopeless_since: None,
            over: None,
        }
    }

    /// A run that was handed over before.
    pub(crate) fn of_run(tracker: &Tracker<'_>, run_id: &RunId) -> Result<Self, Error> {
        let run = tracker.state.run(run_id)?;
        let plan = plan_of(&run).unwrap_or_default();
        Ok(Self::new(&run.read_run()?, &plan))
    }

    /// A job that waits for what cannot come is not waited for, once its scheduler has said so for a while.
    fn can_never_start(&mut self, tracked: &Tracked) -> bool {
        let Status {
            state,
            reason,
            stuck,
            ..
        } = &tracked.status;
        let is_hopeless = *state == JobState::Pending
            && *stuck
            && reason.as_deref().is_some_and(|reason| {
                adapter_for(tracked.record.scheduler).can_never_start(reason)
            });
        let since = is_hopeless.then(|| *self.hopeless_since.get_or_insert_with(Instant::now));
        if since.is_none() {
            self.hopeless_since = None;
        }
        since.is_some_and(|since| since.elapsed() >= HOPELESS_PATIENCE)
    }

    /// How far the training is, by its output or by its records, whichever is further.
    pub(crate) fn progress(&mut self, tracked: &Tracked) -> Training {
        let nodes = &tracked.reading.outcome.nodes;
        let recorded = nodes
            .iter()
            .map(|node| &node.progress)
            .max_by_key(|progress| progress.epochs_completed);
        let printed = self.epochs.as_mut().and_then(Epochs::read);
        match (recorded, printed) {
            (Some(recorded), Some((printed, _)))
                if recorded.epochs_completed < printed.epochs_completed =>
            {
                printed
            }
            (None, Some((printed, _))) => printed,
            (recorded, _) => recorded.cloned().unwrap_or_default(),
        }
    }

    /// Decides whether the run is over.
    pub(crate) fn look(&mut self, tracked: Tracked) {
        let status = &tracked.status;
        if self.epochs.is_none() {
            self.epochs =
                first_running(&tracked).map(|output| Epochs::new(output, self.timing.as_ref()));
        }
        let ended = status.state == JobState::Running && status.exit.is_some();
        if status.state.is_final() || self.can_never_start(&tracked) {
            self.over = Some(tracked);
        } else if tracked.has_no_answer() {
            // Nothing new is known; while its scheduler is silent a run is not given up.
            self.unclear_since = None;
        } else if status.state == JobState::Unknown || ended {
            let since = *self.unclear_since.get_or_insert_with(Instant::now);
            let patience = if self.local {
                Duration::from_secs(5)
            } else {
                UNCLEAR_PATIENCE
            };
            if since.elapsed() > patience {
                let by_marks = ended.then(|| resolve(&tracked.reading.outcome, None));
                self.over = Some(Tracked {
                    status: by_marks.unwrap_or(tracked.status),
                    ..tracked
                });
            }
        } else {
            self.unclear_since = None;
        }
    }
}

/// The output of the first element that runs: of an array only its epochs are shown.
fn first_running(tracked: &Tracked) -> Option<PathBuf> {
    let first = tracked
        .elements
        .iter()
        .find(|element| element.status.state == JobState::Running)?;
    output_path(&tracked.record, Some(first.element))
}

/// The next step with a run that can never start.
pub(crate) fn show_hopeless(session: &Session, tracked: &Tracked) {
    if tracked.status.state == JobState::Pending {
        let run = &tracked.record.run_id.as_str()[..6];
        session.note(&format!(
            "run {run} can never start as it is; `dlrun cancel {run}` takes it out of the queue, then submit it with other resources"
        ));
    }
}

/// Waits until all runs are over, printing epochs as they end.
pub(crate) fn until_over(
    session: &Session,
    tracker: &mut Tracker<'_>,
    mut watched: Vec<Watched>,
    limit: Option<Duration>,
) -> Result<Vec<Tracked>, Error> {
    let begun = Instant::now();
    interrupt::take();
    let mut display = Display::new(session.output);
    let only_local = watched.iter().all(|watched| watched.local);
    let mut pause = if only_local { LOCAL_PAUSE } else { FIRST_PAUSE };
    let mut ask_at = begun;
    // Of runs that are over already no epochs are shown at all.
    let mut is_first = true;
    loop {
        if !is_first {
            show_epochs(&mut watched, &display);
        }
        if Instant::now() >= ask_at {
            ask(tracker, &mut watched, &mut display, !is_first)?;
            if !only_local {
                pause = pause.mul_f64(1.3).min(LONGEST_PAUSE);
            }
            ask_at = Instant::now() + pause;
        }
        if watched.iter().all(|watched| watched.over.is_some()) {
            return Ok(watched
                .into_iter()
                .filter_map(|watched| watched.over)
                .collect());
        }
        if interrupt::came() {
            return Err(failure!(TryAgain, "interrupted; submitted jobs continue")
                .hinted("`dlrun wait` waits again, `dlrun cancel` ends a run"));
        }
        if limit.is_some_and(|limit| begun.elapsed() >= limit) {
            return Err(
                failure!(TryAgain, "the runs are not over within the time given")
                    .hinted("they are still running; wait again, or look with `dlrun list`"),
            );
        }
        is_first = false;
        std::thread::sleep(LOCAL_PAUSE.min(Duration::from_millis(100)));
    }
}

fn show_epochs(watched: &mut [Watched], display: &Display) {
    let is_one = watched.len() == 1;
    for Watched {
        run_id,
        epochs,
        over,
        ..
    } in watched
    {
        let whose = if is_one {
            String::new()
        } else {
            format!("[{}] ", &run_id.as_str()[..6])
        };
        if let Some(epochs) = epochs {
            // Of an array the exit code is not that of the element that is followed.
            let is_well = |over: &Tracked| {
                over.elements.is_empty() && over.status.exit.is_some_and(|exit| exit.is_success())
            };
            if over.as_ref().is_some_and(is_well) {
                epochs.ended_well();
            }
            epochs.print(display, &whose);
        }
    }
}

/// Asks for the states; `shows_epochs`: the last epochs of a run that is over come before its state.
fn ask(
    tracker: &mut Tracker<'_>,
    watched: &mut [Watched],
    display: &mut Display,
    shows_epochs: bool,
) -> Result<(), Error> {
    let due: Vec<RunId> = watched
        .iter()
        .filter(|watched| watched.over.is_none())
        .map(|watched| watched.run_id.clone())
        .collect();
    let tracked = tracker.refresh(&due, false)?;
    let mut states: BTreeMap<JobState, usize> = BTreeMap::new();
    let mut detail = String::new();
    for tracked in tracked {
        *states.entry(tracked.status.state).or_default() += 1;
        if let Some(reason) = &tracked.status.reason {
            detail = format!(": {reason}");
        }
        if let Some(counts) = &tracked.status.elements {
            detail = format!(", {}/{} elements over", counts.over(), counts.total);
        }
        if let Some(watched) = watched
            .iter_mut()
            .find(|watched| watched.run_id == tracked.record.run_id)
        {
            watched.look(tracked);
        }
    }
    if shows_epochs && watched.iter().any(|watched| watched.over.is_some()) {
        show_epochs(watched, display);
    }
    let counted: Vec<String> = match states.len() {
        1 if due.len() == 1 => states
            .keys()
            .map(|state| format!("{state}{detail}"))
            .collect(),
        _ => states
            .iter()
            .map(|(state, count)| format!("{count} {state}"))
            .collect(),
    };
    display.now(&counted.join(", "), true);
    Ok(())
}
