//! The job file of the job that conducts a matrix or a sweep.

use std::path::Path;

use toml::{Table, Value};

/// A trial may take longer than the job that waits for it.
const WITHOUT_PROGRESS: i64 = 50;

/// A job of this name that runs `words` in the directory `here`. Each line of `journal` is progress, so that it continues after `walltime`.
#[must_use]
pub fn conductor_job(
    name: &str,
    words: Vec<String>,
    here: &str,
    (journal, walltime): (&Path, &str),
) -> String {
    let run = [
        ("command", Value::from(words)),
        ("workdir", Value::from(here)),
    ];
    let resources = [
        ("cpus_per_task", Value::from(1)),
        ("memory", Value::from("500MiB")),
        ("walltime", Value::from(walltime)),
    ];
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
    ]);
    file.to_string()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn it_is_valid_whatever_its_words_are() {
        let words = vec!["a \"b\" $(c).toml".to_owned()];
        let text = conductor_job(
            "s-conductor",
            words.clone(),
            "/here",
            (Path::new("/j.jsonl"), "8h"),
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
