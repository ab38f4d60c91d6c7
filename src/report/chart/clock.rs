//! The clock that all curves of a run share: where a moment is, and what lies behind every curve.

use super::ticks::{Ticks, times};
use super::{WHOLE_HEIGHT, line, line_attributes, place};
use crate::record::{Epoch, Event, EventKind, Gap, NodeRecord};
use crate::report::html::Html;
use crate::report::number::{duration, seconds_between};

/// Epochs that each have a band; more of them are too narrow to see.
const MOST_BANDS: usize = 120;
/// Gaps and events that are marked.
const MOST_MARKS: usize = 200;

/// From the start of a run to its end, or to the last that is known of it.
#[derive(Debug, Clone)]
pub(in crate::report) struct Clock {
    pub(in crate::report) begin_ms: u64,
    pub(in crate::report) ticks: Ticks,
}

/// A span of time, in milliseconds.
pub(in crate::report) type Span = (u64, u64);

impl Clock {
    /// Over all that these spans cover; `None` where none has a length.
    pub(in crate::report) fn over(spans: impl Iterator<Item = Span>) -> Option<Self> {
        let spans: Vec<Span> = spans.filter(|(begin, end)| end > begin).collect();
        let begin_ms = spans.iter().map(|span| span.0).min()?;
        let end_ms = spans.iter().map(|span| span.1).max()?;
        Some(Self {
            begin_ms,
            ticks: times(seconds_between(begin_ms, end_ms)),
        })
    }

    /// How far from the left a moment is, 0 to 1.
    pub(in crate::report) fn place(&self, at_ms: u64) -> f64 {
        self.ticks.place(seconds_between(self.begin_ms, at_ms))
    }

    /// The same in percent, for attributes.
    pub(in crate::report) fn percent(&self, at_ms: u64) -> String {
        place(self.place(at_ms))
    }

    /// The time since the start, in words.
    pub(in crate::report) fn since(&self, at_ms: u64) -> String {
        duration(seconds_between(self.begin_ms, at_ms))
    }
}

/// When an epoch began and ended, as far as both are known.
pub(in crate::report) fn span_of(epoch: &Epoch) -> Option<Span> {
    let end_ms = epoch.ended_at_ms?;
    let seconds = epoch.clock_seconds.or_else(|| epoch.seconds())?;
    if !seconds.is_finite() || seconds < 0.0 {
        return None;
    }
    #[expect(
        clippy::cast_possible_truncation,
        clippy::cast_sign_loss,
        reason = "finite, not below 0; saturates"
    )]
    let length_ms = (seconds * 1e3).round() as u64;
    Some((end_ms.saturating_sub(length_ms), end_ms))
}

/// What lies behind every curve of a node, drawn once under an id and used by each: epochs as bands, gaps, events, and the
/// marks of the time axis.
pub(in crate::report) fn backdrop(
    html: &mut Html,
    id: &str,
    clock: &Clock,
    epochs: &[Epoch],
    node: &NodeRecord,
) {
    let hidden = [
        ("class", "hidden"),
        ("width", "0"),
        ("height", "0"),
        ("aria-hidden", "true"),
    ];
    let write = |html: &mut Html| {
        bands(html, clock, epochs);
        for (at, _) in &clock.ticks.marks {
            let x = place(clock.ticks.place(*at));
            line(html, "grid", [&x, &x], WHOLE_HEIGHT);
        }
        for gap in node.gaps.iter().take(MOST_MARKS) {
            self::gap(html, clock, gap);
        }
        for event in node.events.iter().take(MOST_MARKS) {
            self::event(html, clock, event);
        }
    };
    html.element("svg", &hidden, |html| {
        html.element("defs", &[], |html| html.element("g", &[("id", id)], write));
    });
}

fn bands(html: &mut Html, clock: &Clock, epochs: &[Epoch]) {
    if epochs.len() > MOST_BANDS {
        return;
    }
    for (place, epoch) in epochs.iter().enumerate() {
        let class = if epoch.warmup { "warm" } else { "band" };
        if let Some(span) = span_of(epoch).filter(|_| place % 2 == 0 || epoch.warmup) {
            area(html, clock, class, span, None);
        }
    }
}

fn area(html: &mut Html, clock: &Clock, class: &str, (from, to): Span, title: Option<&str>) {
    let (x, width) = (
        clock.percent(from),
        place(clock.place(to) - clock.place(from)),
    );
    let attributes = [
        ("class", class),
        ("x", x.as_str()),
        ("width", &width),
        ("y", "0"),
        ("height", "100%"),
    ];
    match title {
        Some(title) => {
            html.element("rect", &attributes, |html| html.leaf("title", &[], title));
        }
        None => html.shape("rect", &attributes),
    }
}

fn gap(html: &mut Html, clock: &Clock, gap: &Gap) {
    let length = duration(seconds_between(gap.from_ms, gap.to_ms));
    let title = format!(
        "gap of {length} after {}: {}",
        clock.since(gap.from_ms),
        gap.why
    );
    area(html, clock, "gap", (gap.from_ms, gap.to_ms), Some(&title));
}

fn event(html: &mut Html, clock: &Clock, event: &Event) {
    let x = clock.percent(event.at_ms);
    let class = if is_grave(event.kind) {
        "event grave"
    } else {
        "event"
    };
    let line = line_attributes(class, [&x, &x], WHOLE_HEIGHT);
    let title = format!(
        "{} after {}: {}",
        event.kind.as_str(),
        clock.since(event.at_ms),
        event.detail
    );
    html.element("line", &line, |html| html.leaf("title", &[], &title));
}

/// What spoils a run or its figures.
pub(in crate::report) fn is_grave(kind: EventKind) -> bool {
    use EventKind as Kind;
    matches!(
        kind,
        Kind::OomKill
            | Kind::Xid
            | Kind::GpuLost
            | Kind::GpuMissing
            | Kind::ClockJump
            | Kind::SharedCgroup
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn moments_stand_where_they_belong_and_never_outside() {
        let clock = Clock::over([(5000, 5000), (10_000, 20_000), (12_000, 30_000)].into_iter())
            .expect("a span");
        assert_eq!((clock.begin_ms, clock.ticks.end), (10_000, 20.0));
        assert_eq!(
            [0, 10_000, 15_000, 30_000, u64::MAX].map(|at| clock.percent(at)),
            ["0%", "0%", "25%", "100%", "100%"]
        );
        assert_eq!(clock.since(15_000), "5 s");
        assert!(Clock::over(std::iter::once((7, 7))).is_none());
    }

    #[test]
    fn an_epoch_has_a_span_where_its_end_and_length_are_known() {
        let epoch = |end, seconds| Epoch {
            ended_at_ms: end,
            clock_seconds: seconds,
            ..Epoch::default()
        };
        assert_eq!(span_of(&epoch(Some(9000), Some(2.5))), Some((6500, 9000)));
        assert_eq!(span_of(&epoch(Some(9000), Some(f64::INFINITY))), None);
        assert_eq!(span_of(&epoch(Some(1000), Some(1e300))), Some((0, 1000)));
        assert_eq!(
            (
                span_of(&epoch(None, Some(1.0))),
                span_of(&epoch(Some(1), None))
            ),
            (None, None)
        );
    }
}
