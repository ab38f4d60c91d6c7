//! Boxes of names and values, one a line, as trainers of reinforcement learning and Ray print them.
//!
//! ```text
//! ---------------------------------        Stable-Baselines3, OpenAI's baselines and Spinning Up
//! | rollout/           |          |
//! |    ep_rew_mean     | 22.3     |
//! | time/              |          |
//! |    fps             | 1043     |
//! |    total_timesteps | 4096     |
//! ---------------------------------
//! ╭────────────────────────────────╮        Ray Train, Tune and RLlib
//! │ Training result                │
//! ├────────────────────────────────┤
//! │ time_this_iter_s          4.21 │
//! │ training_iteration           3 │
//! ╰────────────────────────────────╯
//! ```
//!
//! Steps are those of the environment, or Ray's iterations.

use super::dict::Value;
use super::event::{Event, Facts, Line, Rate, Recogniser};
use super::scan;

/// Names of the counter of a box, in the order in which they are believed.
const STEPS: &str = "total_timesteps|training_iteration|TotalEnvInteracts|TotalEnvSteps|\
    total timesteps|serial_timesteps";

/// Parts of names of what is no metric.
const NOT_METRICS: &str = "time|fps|iteration|steps|updates|episodes|Epoch|pid|num_|trial|\
    checkpoint|date|node_ip|EnvInteracts";

/// Lines of a box at most.
const MAX_ROWS: usize = 200;

/// The box that is read: its rows, and whether it has begun.
#[derive(Debug, Default)]
pub(super) struct Boxed {
    rows: Vec<(String, f64)>,
    begun: bool,
    group: String,
}

impl Recogniser for Boxed {
    fn name(&self) -> &'static str {
        "boxed"
    }

    fn triggers(&self) -> &'static str {
        "--------------------¦────────────────────"
    }

    fn wants_every_line(&self) -> bool {
        self.begun
    }

    fn read<'a>(&mut self, line: &Line<'a>, say: &mut dyn FnMut(Event<'a>)) {
        let text = line.text.trim();
        let rule = |c: char| matches!(c, '-' | '─' | '╭' | '╮' | '╰' | '╯' | '├' | '┤');
        if text.len() >= 20 && text.chars().all(rule) {
            if let Some(event) = self.event() {
                say(event);
            }
            // A rule between the title of a box and its rows ends nothing.
            self.rows.clear();
            self.group.clear();
            self.begun = true;
        } else if self.begun {
            self.begun = self.row(text) && self.rows.len() < MAX_ROWS;
        }
    }
}

impl Boxed {
    /// Takes a row; false where the line is none.
    fn row(&mut self, text: &str) -> bool {
        let inside = |mark: char| text.strip_prefix(mark)?.strip_suffix(mark);
        let Some((name, value)) = inside('|').map_or_else(
            || inside('│').map(|row| row.trim().rsplit_once("  ").unwrap_or((row, ""))),
            |row| row.split_once('|'),
        ) else {
            return false;
        };
        let (name, value) = (name.trim(), value.trim());
        if name.ends_with('/') {
            name.clone_into(&mut self.group);
        } else if let Some((value, "")) = scan::number(value) {
            // The figures of an evaluation have the names of those of the training.
            let group = if self.group == "eval/" { "eval/" } else { "" };
            self.rows.push((format!("{group}{name}"), value));
        }
        true
    }

    /// What the box says.
    fn event<'a>(&self) -> Option<Event<'a>> {
        let value = |name: &str| {
            self.rows
                .iter()
                .find(|(known, _)| known == name)
                .map(|(_, value)| *value)
        };
        let count = |name| value(name).and_then(|count| Value::Number(count).count());
        let mut facts = Facts {
            throughput: value("fps").and_then(|fps| Rate::of_run(fps, "steps/s")),
            step_seconds: value("time_this_iter_s"),
            ..Facts::default()
        };
        let measured = |(name, _): &&(String, f64)| !scan::holds_any(name, NOT_METRICS);
        facts.metrics = self
            .rows
            .iter()
            .filter(measured)
            .map(|(name, value)| (name.clone().into(), *value))
            .collect();
        if let Some(epoch) = count("Epoch") {
            return Some(Event::epoch_end((epoch, None), facts));
        }
        let step = STEPS.split('|').find_map(count)?;
        Some(Event::run_step((step, None), facts))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::observe::timing::event::Says;

    fn events(output: &str) -> Vec<String> {
        let (mut boxed, mut events) = (Boxed::default(), Vec::new());
        for text in output.lines() {
            boxed.read(
                &Line {
                    text,
                    redrawn: false,
                },
                &mut |event| {
                    events.push(match event {
                        Event {
                            says: Says::RunStep,
                            step: Some(step),
                            facts,
                            ..
                        } => {
                            let rate = facts.throughput.map(|rate| rate.value);
                            format!(
                                "{step} {rate:?} {:?} {:?}",
                                facts.step_seconds, facts.metrics
                            )
                        }
                        Event {
                            says: Says::EpochEnd,
                            epoch: Some(epoch),
                            facts,
                            ..
                        } => {
                            format!("end {epoch} {:?}", facts.metrics)
                        }
                        other => panic!("{other:?}"),
                    });
                },
            );
        }
        events
    }

    #[test]
    fn a_box_is_a_step() {
        let rule = "-".repeat(30);
        let sb3 = format!(
            "{rule}\n| rollout/     |   |\n| ep_rew_mean | 22.3 |\n| time/ | |\n| fps | 1043 |\n| total_timesteps | 4096 |\n{rule}\n"
        );
        assert_eq!(
            events(&sb3),
            ["4096 Some(1043.0) None [(\"ep_rew_mean\", 22.3)]"]
        );
        let line = "─".repeat(30);
        let ray = format!(
            "╭{line}╮\n│ Training result   │\n├{line}┤\n│ checkpoint_dir_name   c_0 │\n│ time_this_iter_s    4.5 │\n│ training_iteration   3 │\n│ loss   0.5 │\n╰{line}╯\n"
        );
        assert_eq!(events(&ray), ["3 None Some(4.5) [(\"loss\", 0.5)]"]);
        assert_eq!(
            events(&format!(
                "{rule}\n| Epoch | 3 |\n| AverageEpRet | 22.5 |\n{rule}\n"
            )),
            ["end 3 [(\"AverageEpRet\", 22.5)]"]
        );
    }

    #[test]
    fn other_boxes_say_nothing() {
        let rule = "-".repeat(30);
        for output in [
            format!("{rule}\n| name | 3 |\n{rule}\n"),
            format!("{rule}\ntext\n| total_timesteps | 3 |\n{rule}"),
        ] {
            assert_eq!(events(&output), [""; 0], "{output}");
        }
    }
}
