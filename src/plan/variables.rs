//! Variables of the user's environment that the submit command obeys: which of them the job overrides, and which hold.

use super::resolver::Resolver;
use crate::scheduler::adapter_for;

impl Resolver<'_> {
    /// What holds is a warning: it is no part of the job file. What is overridden is worth a note.
    pub(super) fn variables(&mut self) {
        let adapter = adapter_for(self.plan.scheduler);
        let found = self
            .facts
            .schedulers
            .iter()
            .filter(|found| found.kind == adapter.kind());
        for (name, value) in found.flat_map(|found| &found.environment) {
            let key = adapter.key_of_variable(name);
            if let Some(key) = key.filter(|key| self.plan.resources.has(key) == Some(true)) {
                self.plan.notes.push(format!(
                    "{name}={value} of your environment would beat a line of the script; `{key}` of the job holds, on the command line"
                ));
            } else {
                let effect = adapter.effect_of_variable();
                self.plan
                    .warnings
                    .push(format!("{name}={value} of your environment {effect}"));
            }
        }
    }
}
