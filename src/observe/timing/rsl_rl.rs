//! rsl_rl, with which robots learn in Isaac Lab: a block of right-aligned figures for each iteration.
//!
//! ```text
//!                       Learning iteration 66/30000
//!
//!                          Total steps: 1608
//!                     Steps per second: 101
//!                          Mean reward: -7.91
//! ------------------------------------------------
//!                       Iteration time: 0.24s
//!                                  ETA: 00:00:09
//!
//!                          Computation: 46045 steps/s (collection: 0.975s, learning 0.092s)     before 5.0
//! ```
//!
//! Its steps are iterations; the rate is that of the simulated environments.

use super::event::{Event, Facts, Line, Rate, Recogniser};
use super::scan;

/// Lines of a block at most.
const MAX_LINES: u32 = 200;

/// Parts of names of what is no metric.
const NOT_METRICS: &str = "time|Total|Computation|ETA|per second";

/// The recogniser.
#[derive(Debug, Default)]
pub(super) struct RslRl {
    /// Lines that may be left of the block.
    left: u32,
}

impl Recogniser for RslRl {
    fn name(&self) -> &'static str {
        "rsl-rl"
    }

    fn triggers(&self) -> &'static str {
        "Learning iteration "
    }

    fn wants_every_line(&self) -> bool {
        self.left > 0
    }

    fn read<'a>(&mut self, line: &Line<'a>, say: &mut dyn FnMut(Event<'a>)) {
        let text = line.text.trim();
        if let Some(counts) = text.strip_prefix("Learning iteration ") {
            let Some((step, Some(of), rest)) = scan::counted(counts) else {
                return;
            };
            if rest.trim().is_empty() {
                self.left = MAX_LINES;
                say(Event::run_step((step, Some(of)), Facts::default()));
            }
            return;
        }
        self.left = self.left.saturating_sub(1);
        let Some((name, value)) = text.rsplit_once(": ").filter(|_| self.left > 0) else {
            return;
        };
        if name == "ETA" {
            self.left = 0;
        } else if let Some(facts) = figure(text, name, value) {
            say(Event::figures(facts));
        }
    }
}

/// The figure of a line of the block.
fn figure<'a>(text: &'a str, name: &'a str, value: &'a str) -> Option<Facts<'a>> {
    let mut facts = Facts::default();
    let rate = text
        .strip_prefix("Computation: ")
        .or_else(|| text.strip_prefix("Steps per second: "));
    if let Some(rate) = rate {
        facts.throughput = Rate::of_run(scan::number(rate)?.0, "steps/s");
    } else if name == "Iteration time" {
        facts.step_seconds = Some(scan::duration(value)?.0);
    } else if !NOT_METRICS.split('|').any(|other| name.contains(other)) {
        let (value, "") = scan::number(value)? else {
            return None;
        };
        facts.metrics.push((name.into(), value));
    }
    (!facts.is_empty()).then_some(facts)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::observe::timing::event::Says;

    #[test]
    fn a_block_is_an_iteration() {
        let (mut rsl, mut said) = (RslRl::default(), Vec::new());
        for text in [
            "Mean reward: 3.0",
            "                   Learning iteration 6/30   ",
            "     Computation: 46045 steps/s (collection: 0.975s, learning 0.092s)",
            "     Mean reward: -7.91",
            "     Iteration time: 0.24s",
            "     ETA: 00:00:09",
            "Mean reward: 4.0",
        ] {
            rsl.read(
                &Line {
                    text,
                    redrawn: false,
                },
                &mut |event| {
                    said.push(match event {
                        Event {
                            says: Says::RunStep,
                            step: Some(step),
                            of,
                            ..
                        } => format!("{step} {of:?}"),
                        Event {
                            says: Says::Figures,
                            facts,
                            ..
                        } => {
                            let rate = facts.throughput.map(|rate| rate.value);
                            format!("{rate:?} {:?} {:?}", facts.step_seconds, facts.metrics)
                        }
                        other => panic!("{other:?}"),
                    });
                },
            );
        }
        let expected = [
            "6 Some(30)",
            "Some(46045.0) None []",
            "None None [(\"Mean reward\", -7.91)]",
            "None Some(0.24) []",
        ];
        assert_eq!(said, expected);
    }
}
