//! The job file of the job that conducts a matrix or a sweep.

use std::path::Path;

use toml::{Table, Value};

use crate::job::SchedulerKind;

/// A trial may take longer than the job that waits for it.
const WITHOUT_PROGRESS: i64 = 50;

/// A job of this name that runs `words` in the directory `here`. Each line of `journal` is progress, so that it continues after `walltime`.
/// It goes to the same scheduler as the jobs of the file whose text this is, on the same account.
#[must_use]
pub fn conductor_job(
    name: &str,
    words: Vec<String>,
    here: &str,
    (journal, walltime): (&Path, &str),
    (kind, text): (SchedulerKind, &str),
) -> String {
    let run = [
        ("command", Value::from(words)),
        ("workdir", Value::from(here)),
    ];
    let mut resources = vec![
        ("cpus_per_task", Value::from(1)),
        ("memory", Value::from("500MiB")),
        ("walltime", Value::from(walltime)),
    ];
    let file: Table = toml::from_str(text).unwrap_or_default();
    let account = file.get("resources").and_then(|table| table.get("account"));
    resources.extend(account.map(|account| ("account", account.clone())));
    let journal = journal.to_string_lossy().into_owned();
    let resume = [
        ("checkpoints", Value::from(vec![journal])),
        ("without_progress", Value::from(WITHOUT_PROGRESS)),
    ];
    let table = |keys: &[(&str, Value)]| {
        let keys = keys
            .iter()
            .map(|(key, value)| ((*key).to_owned(), value.clone()));
        Value::from(keys.collect::<Table>())
    };
    let file = Table::from_iter([
        ("name".to_owned(), Value::from(name)),
        ("run".to_owned(), table(&run)),
        ("resources".to_owned(), table(&resources)),
        ("resume".to_owned(), table(&resume)),
        (
            "scheduler".to_owned(),
            table(&[("kind", Value::from(kind.as_str()))]),
        ),
    ]);
    file.to_string()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn it_is_valid_whatever_its_words_are() {
        let words = vec!["a \"b\" $(c).toml".to_owned()];
        let sweep = "[resources]
account = \"proj\"
";
        let text = conductor_job(
            "s-conductor",
            words.clone(),
            "/here",
            (Path::new("/j.jsonl"), "8h"),
            (SchedulerKind::Slurm, sweep),
        );
        assert!(
            text.contains("account = \"proj\"") && text.contains("kind = \"slurm\""),
            "{text}"
        );
        let job = crate::job::parse(&text).expect("a job file");
        let crate::job::Command::Argv(found) = &job.run.command.value else {
            panic!("words")
        };
        assert_eq!(found, &words);
        assert_eq!(
            job.resume.expect("it has the table").value.without_progress,
            50
        );
    }
}
