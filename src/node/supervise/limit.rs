//! The time limit of a run that may be given more: its scheduler is asked where the run's own epochs say that it will not suffice.
//!
//! Another dlrun asks, which knows schedulers and settings. On a thread, and never more than one: a controller may be slow.

use std::path::PathBuf;
use std::sync::mpsc::{Receiver, TryRecvError, channel};
use std::time::{Duration, Instant};

use serde::{Deserialize, Serialize};

use super::context::Context;
use super::events::note_limit;
use crate::foundation::clock::now_ms;
use crate::foundation::command::Tool;
use crate::record::{EventKind, NodeRecord, Progress};

/// Epochs of this start before whose end nothing is asked.
const LEAST_EPOCHS: u64 = 5;
/// Between two looks at the forecast, and at the answer.
const PAUSE: Duration = Duration::from_secs(30);
const ANSWER_PAUSE: Duration = Duration::from_secs(1);
/// How long an answer may take, which is that of several commands.
const PATIENCE: Duration = Duration::from_secs(120);
/// Where there is none, the next question comes after this time; after so many in turn there is no other.
const RETRY: Duration = Duration::from_secs(300);
const FAILURES: u32 = 3;
/// What the end of a run may take beyond its last epoch: a tenth of what is left, and at least so many seconds.
const LEAST_MARGIN: u64 = 300;

/// So many seconds before the program is asked to save, each node looks whether the limit was raised, in whatever way.
const LOOK: u64 = 75;

/// What a scheduler said of a job's time.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Answer {
    /// What is left of it, in seconds; `None`: the job has no limit.
    pub left_seconds: Option<u64>,
    /// That the limit was raised, for people.
    pub raised: Option<String>,
    /// Why the limit, which will not suffice, was not raised, for people.
    pub kept: Option<String>,
}

/// Asks for the job's time, and for more where fewer seconds are left than the first of `need`: what the run needs at least, most likely
/// and at most.
pub(super) fn ask(need: [u64; 3]) -> Option<Receiver<Answer>> {
    let (sender, receiver) = channel();
    let asks = move || {
        let need = need.map(|seconds| seconds.to_string());
        let tool = Tool::new("/proc/self/exe")
            .args(["exec", "--more-time"])
            .args(need);
        let ran = tool.timeout(PATIENCE).run();
        let answer = ran.and_then(|output| output.require_success("dlrun"));
        let answer = answer.ok().map(|output| output.stdout);
        if let Some(answer) = answer.and_then(|text| serde_json::from_str(&text).ok()) {
            let _ = sender.send(answer);
        }
    };
    let thread = std::thread::Builder::new().spawn(asks);
    thread.ok().map(|_| receiver)
}

/// The time limit as the watcher sees it.
pub(super) struct Limit {
    /// `None`: nobody is asked, or not any more.
    due: Option<Instant>,
    /// Whether more may be asked for: by the batch script's node, until that is refused.
    asks: bool,
    /// How long before the limit the program has to be done, in seconds.
    lead: u64,
    /// Of a run that continues: when its time is up as its supervisor knows it, in Unix seconds, and whether that was looked up.
    known: Option<u64>,
    is_looked_up: bool,
    /// The file beside which the supervisor looks for another end.
    events: Option<PathBuf>,
    asked: Option<Receiver<Answer>>,
    failures: u32,
    ends_at_ms: Option<u64>,
}

impl Limit {
    pub(super) fn new(context: &Context, events: Option<PathBuf>) -> Self {
        let plan = context.plan.as_ref();
        let may_grow = plan.is_some_and(|plan| plan.extend_up_to.is_some());
        let asks = may_grow && context.is_batch_node();
        let (known, lead) = context.time_limit.unzip();
        Self {
            due: may_grow.then(|| Instant::now() + PAUSE),
            asks,
            lead: lead.unwrap_or(0),
            known,
            is_looked_up: false,
            events,
            asked: None,
            failures: 0,
            ends_at_ms: None,
        }
    }

    /// Continues that of a watcher that was killed.
    pub(super) fn take_over(&mut self, former: Option<&NodeRecord>) {
        let Some(former) = former else { return };
        self.ends_at_ms = former.progress.time_limit_ms;
        let mut events = former.events.iter();
        if events.any(|event| event.kind == EventKind::LimitKept) {
            self.asks = false;
        }
    }

    /// When there is something to do; `None`: never.
    pub(super) fn due(&self) -> Option<Instant> {
        self.due.filter(|_| self.asks || self.known.is_some())
    }

    /// When the job's time is up, in Unix milliseconds UTC, as far as its scheduler said.
    pub(super) fn ends_at_ms(&self) -> Option<u64> {
        self.ends_at_ms
    }

    /// Asks where that is due, and returns what is to be noted of the answer.
    pub(super) fn tend(
        &mut self,
        progress: &Progress,
        now: Instant,
    ) -> Option<(EventKind, String)> {
        let Some(asked) = &self.asked else {
            self.asked = self.question(progress, now_ms()).and_then(ask);
            let is_asked = self.asked.is_some();
            self.due = Some(now + if is_asked { ANSWER_PAUSE } else { PAUSE });
            return None;
        };
        let heard = match asked.try_recv() {
            Err(TryRecvError::Empty) => {
                self.due = Some(now + ANSWER_PAUSE);
                return None;
            }
            heard => heard.ok(),
        };
        self.asked = None;
        self.hear(heard, now)
    }

    fn hear(&mut self, heard: Option<Answer>, now: Instant) -> Option<(EventKind, String)> {
        self.due = Some(now + PAUSE);
        let Some(answer) = heard else {
            self.failures += 1;
            self.due = Some(now + RETRY);
            let is_over = self.asks && self.failures == FAILURES;
            self.asks &= !is_over;
            let text = "the scheduler gave no answer when dlrun asked for its time limit";
            return is_over.then(|| (EventKind::LimitKept, text.to_owned()));
        };
        self.failures = 0;
        let left_ms = answer.left_seconds.map(|left| left.saturating_mul(1000));
        self.ends_at_ms = left_ms.map(|left| now_ms().saturating_add(left));
        // A job without a limit needs no more, and a refusal is the last word.
        self.asks &= answer.left_seconds.is_some() && answer.kept.is_none();
        self.pass_on();
        let raised = answer.raised.map(|text| (EventKind::LimitRaised, text));
        raised.or_else(|| Some((EventKind::LimitKept, answer.kept?)))
    }

    /// Lets the supervisor know of an end that is later than it knew.
    fn pass_on(&mut self) {
        let end = self.ends_at_ms.map(|ends_ms| ends_ms / 1000);
        let Some((known, end)) = self.known.zip(end) else {
            return;
        };
        // The two were rounded.
        if end > known + PAUSE.as_secs() {
            let noted = self.events.as_deref().map(|file| note_limit(file, end));
            (self.known, self.is_looked_up) = (Some(end), false);
            if !matches!(noted, Some(Ok(()))) {
                tracing::warn!("the supervisor does not hear that the time limit was raised");
            }
        }
    }

    /// What to ask for; without any need the answer is what is left.
    fn question(&mut self, progress: &Progress, now_ms: u64) -> Option<[u64; 3]> {
        let save_at = self.known.map(|end| end.saturating_sub(self.lead));
        let is_near = save_at.is_some_and(|at| now_ms / 1000 + LOOK >= at);
        if is_near && !std::mem::replace(&mut self.is_looked_up, is_near) {
            return Some([0; 3]);
        }
        self.need(progress, now_ms)
            .filter(|_| self.asks && !is_near)
    }

    /// What the run needs from now on, in seconds at least, most likely and at most; `None`: its time suffices as far as is known.
    fn need(&self, progress: &Progress, now_ms: u64) -> Option<[u64; 3]> {
        let end = progress.expected_end?;
        if progress.epochs_completed < LEAST_EPOCHS {
            return None;
        }
        let seconds = |at_ms: u64| at_ms.saturating_sub(now_ms) / 1000 + self.lead;
        let [least, likely, latest] = [end.earliest_ms, end.at_ms, end.latest_ms].map(seconds);
        // The first question is where the limit is.
        let left = self
            .ends_at_ms
            .map(|ends_ms| ends_ms.saturating_sub(now_ms) / 1000);
        let suffices = left.is_some_and(|left| least <= left);
        (!suffices).then(|| [least, likely, latest + LEAST_MARGIN.max(latest / 10)])
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::record::ExpectedEnd;

    fn progress(epochs: u64, ends: [u64; 3]) -> Progress {
        let [earliest_ms, at_ms, latest_ms] = ends.map(|seconds| seconds * 1000);
        Progress {
            epochs_completed: epochs,
            expected_end: Some(ExpectedEnd {
                at_ms,
                earliest_ms,
                latest_ms,
            }),
            ..Progress::default()
        }
    }

    fn limit(ends_at_ms: Option<u64>) -> Limit {
        Limit {
            due: None,
            asks: true,
            lead: 120,
            known: None,
            is_looked_up: false,
            events: None,
            asked: None,
            failures: 0,
            ends_at_ms,
        }
    }

    #[test]
    fn asked_is_where_even_the_earliest_end_comes_after_the_limit() {
        let need = |limit: &Limit, epochs, ends| limit.need(&progress(epochs, ends), 1_000_000);
        let ends = [9000, 10_000, 11_000];
        let full = [8120, 9120, 10_120 + 1012];
        let unknown = limit(None);
        assert_eq!(need(&unknown, 4, ends), None);
        assert_eq!(need(&unknown, 5, ends), Some(full));
        assert_eq!(need(&unknown, 5, [1100; 3]), Some([220, 220, 520]));
        assert_eq!(need(&limit(Some(9_120_000)), 9, ends), None);
        assert_eq!(need(&limit(Some(9_119_000)), 9, ends), Some(full));
        assert_eq!(unknown.need(&Progress::default(), 0), None);
    }

    #[test]
    fn a_refusal_is_the_last_word_and_silence_is_heard_three_times() {
        let now = Instant::now();
        let answer = |left_seconds| Answer {
            left_seconds,
            ..Answer::default()
        };
        let mut one = limit(None);
        assert_eq!(one.hear(Some(answer(Some(60))), now), None);
        assert!(one.due().is_some() && one.ends_at_ms().is_some());
        assert_eq!(one.hear(Some(answer(None)), now), None);
        assert!(one.due().is_none() && one.ends_at_ms().is_none());
        let refused = Answer {
            kept: Some("no".to_owned()),
            ..answer(Some(60))
        };
        let noted = one.hear(Some(refused), now);
        assert_eq!(noted, Some((EventKind::LimitKept, "no".to_owned())));
        assert_eq!(one.due(), None);
        let mut silent = limit(None);
        let noted = [(); 3].map(|()| silent.hear(None, now).is_some());
        assert_eq!((noted, silent.due()), ([false, false, true], None));
    }
}
