//! The tables out of the text of a file.
//!
//! An unknown key in them is an error, unlike an unknown setting: a rule whose condition is passed over would change jobs
//! that it was not meant for.

use super::images::{aliases, mirrors};
use super::kinds::{arch, name, steps, wanted};
use super::{
    Condition, GpuTable, House, HouseRule, QueueTable, RecipeTable, Rule, StorageTable, Subject,
    Tables,
};
use crate::config::origin::{Origin, SourceFile};
use crate::foundation::diagnostic::{Problem, nearest};
use crate::foundation::toml_keys::keys;
use crate::foundation::toml_keys::{Table, parsed};
use crate::foundation::toml_reader::{Fields, Located};
use crate::job::{name_word, resource_keys};

/// Their names.
pub(in crate::config) const TABLES: [&str; 9] = [
    "site", "rules", "storage", "gpus", "house", "queues", "aliases", "mirrors", "recipes",
];

keys! {
    #[derive(Default)]
    struct SiteTable {
        /// What rules call it.
        name: Option<Located<String>> = located(parsed("", name)),
        /// The nodes' architecture.
        arch: Option<Located<String>> = located(arch()),
        /// What every node's processor is at least.
        microarch: Option<Located<String>> = located(name_word()),
    }
}

/// Reads the tables of a file.
pub(in crate::config) fn read(fields: &mut Fields<'_>, source: &SourceFile<'_>) -> Tables {
    let with_origin =
        |text: Option<Located<String>>| text.map(|text| (text.value, source.origin(&text.span)));
    let site = fields.table("site", SiteTable::read).unwrap_or_default();
    Tables {
        site: with_origin(site.name),
        arch: with_origin(site.arch),
        microarch: with_origin(site.microarch),
        rules: rules(fields, source),
        storage: fields.named_tables("storage", name, |name, fields| StorageTable {
            name: name.to_owned(),
            origin: source.origin(&fields.own_span()),
            ..storage(name, fields)
        }),
        gpus: fields.named_tables("gpus", name, |kind, fields| GpuTable {
            kind: kind.to_owned(),
            origin: source.origin(&fields.own_span()),
            ..GpuTable::read(fields)
        }),
        queues: fields.named_tables("queues", name, |name, fields| QueueTable {
            name: name.to_owned(),
            origin: source.origin(&fields.own_span()),
            ..QueueTable::read(fields)
        }),
        house: fields
            .table("house", |fields| house(fields, source))
            .unwrap_or_default(),
        aliases: aliases(fields, source),
        mirrors: mirrors(fields, source),
        recipes: fields
            .table("recipes", RecipeTable::read)
            .unwrap_or_default(),
    }
}

fn rules(fields: &mut Fields<'_>, source: &SourceFile<'_>) -> Vec<Rule> {
    let mut names: Vec<String> = Vec::new();
    fields.tables("rules", true, |fields| {
        fields.require(&["name"], "a rule");
        let name = fields.parsed("name", |text| match name(text) {
            _ if names.iter().any(|known| known == text) => {
                Err(format!("there is another rule {text:?} in this file"))
            }
            checked => checked,
        });
        let (when, set) = (
            fields.table("when", conditions),
            fields.table("set", Rule::read),
        );
        let name = name?;
        names.push(name.clone());
        Some(Rule {
            name,
            origin: source.origin(&fields.own_span()),
            when: when.unwrap_or_default(),
            ..set.unwrap_or_default()
        })
    })
}

fn conditions(fields: &mut Fields<'_>) -> Vec<Condition> {
    let mut conditions = Vec::new();
    for (key, subject) in Subject::WORDS {
        let wanted = |word: &str| wanted(subject, word);
        let any_of = match fields.type_of(key) {
            "array" => fields
                .list(key, wanted)
                .map(|list| list.into_iter().map(|word| word.value).collect()),
            _ => fields.parsed(key, wanted).map(|word| vec![word]),
        };
        let is_empty =
            |value: &toml::de::DeValue<'_>| value.as_array().is_some_and(|l| l.is_empty());
        if fields
            .raw(key)
            .is_some_and(|value| is_empty(value.get_ref()))
        {
            let message = format!("`{}{key}` is empty, and never holds", fields.prefix());
            fields.fault(key, message);
        }
        conditions.extend(any_of.map(|any_of| Condition { subject, any_of }));
    }
    conditions
}

fn storage(name: &str, fields: &mut Fields<'_>) -> StorageTable {
    fields.require(&["path", "class"], &format!("`storage.{name}`"));
    StorageTable::read(fields)
}

fn house(fields: &mut Fields<'_>, source: &SourceFile<'_>) -> House {
    use crate::foundation::toml_keys::count;
    let origin = |fields: &Fields<'_>, key| source.origin(&fields.span(key));
    let cores = fields.optional("cores_per_gpu", &count(super::MAX_CORES));
    let prologue = fields.or_default("prologue", &steps());
    let of_prologue = origin(fields, "prologue");
    House {
        cores_per_gpu: cores.map(|cores| (cores, origin(fields, "cores_per_gpu"))),
        forbid: house_rules(fields, "forbid", source),
        require: house_rules(fields, "require", source),
        prologue: prologue
            .into_iter()
            .map(|step| (step, of_prologue.clone()))
            .collect(),
    }
}

/// A list of keys, or a table of keys and reasons.
fn house_rules(
    fields: &mut Fields<'_>,
    key: &'static str,
    source: &SourceFile<'_>,
) -> Vec<HouseRule> {
    let named: Vec<(Located<String>, Option<String>)> = if fields.type_of(key) == "array" {
        let keys = fields.list(key, |key| Ok::<_, String>(key.to_owned()));
        let keys = keys.unwrap_or_default().into_iter();
        keys.map(|key| (key, None)).collect()
    } else {
        let reasons = fields.text_table(key).into_iter();
        reasons.map(|(key, reason)| (key, Some(reason))).collect()
    };
    let origin: Origin = source.origin(&fields.span(key));
    let mut rules = Vec::new();
    for (Located { value: name, span }, reason) in named {
        if let Some(key) = resource_keys().find(|known| *known == name) {
            let origin = origin.clone();
            rules.push(HouseRule {
                key,
                reason,
                origin,
            });
            continue;
        }
        let message = format!("`house.{key}`: `resources` has no key {name:?}");
        let guess = nearest(&name, resource_keys());
        fields.problem(Problem::at(span, message).did_you_mean(guess));
    }
    rules
}
