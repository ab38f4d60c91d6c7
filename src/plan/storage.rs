//! Which of the site's storage a job is led to.
//!
//! As MODAK orders it: common < high < ssd < `ultra_high`. The preferred class, else the nearest slower one, else the slowest
//! there is.

use super::PlannedStorage;
use super::decisions::Resolver;
use crate::config::{Rule, StorageTable, Subject};
use crate::job::StorageClass;

impl Resolver<'_> {
    /// The storage, where the job prefers a class or a rule goes by it.
    pub(super) fn storage(&mut self) {
        let settings = self.settings;
        let tables = settings.tables();
        let goes_by_it = |rule: &&Rule| rule.when.iter().any(|one| one.subject == Subject::Storage);
        let preferred = self.spec.storage;
        let why = match (preferred, tables.rules.iter().find(goes_by_it)) {
            (Some(class), _) => format!("the job file prefers {}", class.as_str()),
            (None, Some(rule)) => format!(
                "the job file prefers none, and the rule {} goes by it",
                rule.name
            ),
            (None, None) => return,
        };
        if tables.storage.is_empty() {
            return self.no_storage_configured();
        }
        let queue = self.queue.clone();
        let serves = |table: &&StorageTable| {
            let is_named = |queue| table.queues.contains(queue);
            table.queues.is_empty() || queue.as_ref().is_some_and(is_named)
        };
        let usable: Vec<&StorageTable> = tables.storage.iter().filter(serves).collect();
        let chosen = choose(&usable, preferred);
        if let Some(table) = chosen {
            let value = format!("{} ({}, {})", table.name, table.class.as_str(), table.path);
            let fit = fit(table.class, preferred);
            self.decide("storage", value, format!("{why}; {}: {fit}", table.origin));
        } else {
            self.decide(
                "storage",
                "none",
                format!("{why}, and none serves the job's queue"),
            );
            self.plan.warnings.push(
                "no storage is chosen: none of the configuration serves the job's queue".into(),
            );
        }
        for other in tables.storage.iter().filter(|other| chosen != Some(*other)) {
            let why = match serves(&other) {
                true if chosen.is_some_and(|chosen| chosen.class == other.class) => {
                    "of its class, another comes first".into()
                }
                true => format!("its class is {}", other.class.as_str()),
                false => format!("only for the queues {}", other.queues.join(", ")),
            };
            self.reject(&other.name, why);
        }
        self.plan.storage = chosen.map(|chosen| PlannedStorage {
            name: chosen.name.clone(),
            path: chosen.path.clone(),
            class: chosen.class,
        });
    }

    /// A preference is no need, so the job may run, with a warning.
    fn no_storage_configured(&mut self) {
        let Some(class) = self.spec.storage else {
            return;
        };
        self.decide("storage", "none", "the site's configuration names none");
        self.plan.warnings.push(format!(
            "`storage.prefer = \"{}\"` has no effect: the configuration has no [storage.NAME] with `path` and `class`",
            class.as_str()
        ));
    }
}

/// Of those of one class the first.
fn choose<'a>(
    usable: &[&'a StorageTable],
    preferred: Option<StorageClass>,
) -> Option<&'a StorageTable> {
    let classes = || usable.iter().map(|table| table.class);
    let at_most = |limit| classes().filter(|class| *class <= limit).max();
    let class = preferred.and_then(at_most).or_else(|| classes().min())?;
    usable.iter().find(|table| table.class == class).copied()
}

fn fit(class: StorageClass, preferred: Option<StorageClass>) -> &'static str {
    match preferred {
        Some(preferred) if class == preferred => "it is of that class",
        Some(preferred) if class < preferred => "it is the nearest slower one",
        _ => "it is the slowest",
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;
    use crate::config::Origin;

    const CLASSES: [StorageClass; 4] = [
        StorageClass::Common,
        StorageClass::High,
        StorageClass::Ssd,
        StorageClass::UltraHigh,
    ];

    fn table(class: StorageClass) -> StorageTable {
        let (name, path) = (class.as_str().to_owned(), "/x".to_owned());
        StorageTable {
            name,
            origin: Origin::Default,
            path,
            class,
            queues: Vec::new(),
        }
    }

    fn class() -> impl Strategy<Value = StorageClass> {
        (0..CLASSES.len()).prop_map(|at| CLASSES[at])
    }

    proptest! {
        #[test]
        fn the_nearest_slower_class_stands_in_and_else_the_slowest(
            there in proptest::collection::vec(class(), 0..6),
            preferred in proptest::option::of(class()),
        ) {
            let tables: Vec<StorageTable> = there.iter().map(|class| table(*class)).collect();
            let chosen = choose(&tables.iter().collect::<Vec<_>>(), preferred).map(|table| table.class);
            let mut sorted = there;
            sorted.sort();
            let slower = preferred.and_then(|wanted| sorted.iter().rev().find(|class| **class <= wanted));
            prop_assert_eq!(chosen, slower.or(sorted.first()).copied());
        }
    }

    #[test]
    fn of_one_class_the_first_is_taken() {
        let (first, second) = (
            table(StorageClass::Ssd),
            StorageTable {
                name: "b".into(),
                ..table(StorageClass::Ssd)
            },
        );
        let chosen = choose(&[&first, &second], Some(StorageClass::UltraHigh)).expect("one");
        assert_eq!(chosen.name, "ssd");
        assert_eq!(choose(&[], Some(StorageClass::Ssd)), None);
    }
}
