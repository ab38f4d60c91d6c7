//! Jobs of the node that no dlrun registered.

use std::collections::HashSet;

use super::Node;
use crate::node::daemon::discover::Found;
use crate::node::daemon::recorder::Handle;
use crate::node::daemon::watched::{Memory, Stage, Watched};
use crate::record::EventKind;

impl Node {
    /// Takes jobs up that no dlrun registered, and lets go of those that one did register meanwhile.
    pub(crate) fn discover(&mut self) {
        let Some(mut discovery) = self.discovery.take() else {
            return;
        };
        let is_live = |watched: &&Watched| watched.stage != Stage::Ended;
        let cgroups = |foreign: bool| -> HashSet<String> {
            let live = self
                .runs
                .values()
                .filter(is_live)
                .filter(|watched| watched.memory.foreign == foreign);
            live.filter_map(|watched| watched.cgroup().map(str::to_owned))
                .collect()
        };
        let (registered, foreign) = (cgroups(false), cgroups(true));
        let doubled = |watched: &Watched| {
            watched.memory.foreign
                && watched
                    .cgroup()
                    .is_some_and(|cgroup| registered.contains(cgroup))
        };
        let gone: Vec<Handle> = self
            .runs
            .iter()
            .filter(|(_, watched)| doubled(watched))
            .map(|(handle, _)| *handle)
            .collect();
        for handle in gone {
            if let Some(mut watched) = self.runs.remove(&handle) {
                let now = watched.now_ms();
                watched.note(
                    now,
                    EventKind::Note,
                    "a dlrun in the job registered its run".to_owned(),
                );
                self.close(watched);
            }
        }
        for found in discovery.look(&registered.union(&foreign).cloned().collect()) {
            self.take_up_foreign(found);
        }
        self.discovery = Some(discovery);
    }

    fn take_up_foreign(&mut self, found: Found) {
        let handle = self.next;
        self.next += 1;
        let memory = Memory {
            name: found.run.name.clone(),
            foreign: true,
            cgroup: Some(found.cgroup),
            ..Memory::default()
        };
        let watched = Watched::new(
            found.uid,
            found.first,
            found.record,
            memory,
            self.options.process_interval,
        );
        tracing::info!(
            job = found.run.name,
            uid = found.uid,
            "a job that no dlrun registered is recorded"
        );
        if self.enrol(handle, &watched, found.run, false, None) {
            self.runs.insert(handle, watched);
        }
    }
}
