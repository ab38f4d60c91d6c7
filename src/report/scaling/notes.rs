//! What is to be read above a series: its name, its kind of scaling, its baselines, its law, and what is not claimed.

use super::pair::Kind;
use super::study::{Gain, Point, Series};
use crate::report::number::counted;

impl Series {
    /// What it is called: program, framework, device, what started it.
    #[must_use]
    pub fn title(&self) -> String {
        let parts = [
            Some(&self.group.program),
            self.group.framework.as_ref(),
            Some(&self.group.device),
        ];
        let launcher = self
            .group
            .launcher
            .as_ref()
            .map(|name| format!("by {name}"));
        let image = self.group.image.as_ref().map(|image| format!("in {image}"));
        let parts = parts.into_iter().flatten().cloned();
        parts
            .chain(launcher)
            .chain(image)
            .collect::<Vec<_>>()
            .join(" · ")
    }

    /// Its title with the kind of scaling.
    #[must_use]
    pub fn heading(&self) -> String {
        match self.kind {
            Kind::Unknown => self.title(),
            kind => format!("{}: {} scaling", self.title(), kind.as_str()),
        }
    }

    /// `GPU` or `rank`.
    #[must_use]
    pub fn worker(&self) -> &'static str {
        self.counted.trim_end_matches('s')
    }

    /// What kind of scaling it is, its baselines, its law; and first whether it is a scaling measurement at all.
    #[must_use]
    pub fn notes(&self) -> Vec<String> {
        let mut notes = Vec::new();
        if !self.not_a_scaling_measurement.is_empty() {
            let sound = |point: &&Point| point.not_a_scaling_measurement.is_empty();
            let count = self.points.iter().filter(sound).count();
            let whose = match count {
                0 => "Not a scaling measurement".to_owned(),
                _ => format!(
                    "Not a scaling measurement at {} of {} sizes",
                    self.points.len() - count,
                    self.points.len()
                ),
            };
            notes.push(format!(
                "{whose}: {}.",
                self.not_a_scaling_measurement.join("; ")
            ));
        }
        let (workers, worker) = (self.counted, self.worker());
        notes.push(match (self.kind, self.batch) {
            (Kind::Strong, Some(batch)) => {
                format!("Strong scaling: a step has {batch} samples over all {workers}.")
            }
            (Kind::Strong, None) => format!("Strong scaling: the same work for all {workers}."),
            (Kind::Weak, batch) => format!(
                "Weak scaling: a step has {} samples on each {worker}; the growing global batch may change the accuracy.",
                batch.unwrap_or(1)
            ),
            (Kind::Unknown, _) => {
                "Strong or weak is unknown: no two sizes have the same known batch, of all or of each."
                    .to_owned()
            }
        });
        let from = |of: fn(&Point) -> Option<&Gain>| self.points.iter().find_map(of);
        let one = from(|point| point.from_one.as_ref()).map(|_| format!("1 {}", self.worker()));
        let node = from(|point| point.from_node.as_ref()).map(|gain| {
            format!(
                "1 node of {}",
                counted(gain.baseline_workers, self.worker())
            )
        });
        let baselines: Vec<String> = one.into_iter().chain(node).collect();
        notes.push(match baselines.is_empty() {
            true => format!(
                "No speed-up and no efficiency: neither 1 {worker} nor 1 node of as many {workers} as those of larger sizes has a figure that counts."
            ),
            false => format!("Baselines: {}. What was not measured is left out.", baselines.join(" and ")),
        });
        let refused: Vec<String> = self
            .points
            .iter()
            .flat_map(|point| {
                let own = counted(point.workers, worker);
                point
                    .not_compared
                    .iter()
                    .map(move |with| format!("{own} with {with}"))
            })
            .collect();
        if !refused.is_empty() {
            notes.push(format!("Not compared: {}.", refused.join("; ")));
        }
        notes.push(match &self.law {
            Some(law) => format!(
                "Law: the performance model, fitted to these {} at {} sizes alone; 90 % interval of a single run; no size beyond them.",
                counted(law.observations as u64, "measurement"),
                law.sizes
            ),
            None => format!("No law: {}.", self.no_law.as_deref().unwrap_or("unknown")),
        });
        notes
    }
}
