//! `executable` and `arguments`: shell text in MODAK, words here.

use crate::job::convert::draft::{Draft, Origin};
use crate::job::convert::shell_words::{Words, simple_command};

/// What runs before and after the program, once.
#[derive(Debug, Default)]
pub(super) struct Around {
    pub(super) before: Option<(String, Origin)>,
    pub(super) after: Option<(String, Origin)>,
}

/// Sets `run.command`: words where no shell is needed, else the text for bash.
pub(super) fn set(text: &str, around: Around, is_mpi: bool, origin: &Origin, draft: &mut Draft) {
    let text = text.trim();
    let around = if is_mpi {
        refuse_around(around, draft)
    } else {
        around
    };
    let is_alone = around.before.is_none() && around.after.is_none();
    let words = match simple_command(text) {
        Words::Plain(words) if is_alone && !words.is_empty() => words,
        _ => {
            let shell = if is_alone {
                text.to_owned()
            } else {
                wrapped(text, &around)
            };
            vec!["bash".to_owned(), "-c".to_owned(), shell]
        }
    };
    let needs_shell = words.first().is_some_and(|word| word == "bash") && !text.starts_with("bash");
    if draft.try_set("run.command", words, origin) && needs_shell {
        draft.comment(
            "run.command",
            "Shell text, as MODAK has it: variables and operators need a shell.",
        );
    }
}

/// The ranks of an MPI program would each run it.
fn refuse_around(around: Around, draft: &mut Draft) -> Around {
    for (_, origin) in around.before.iter().chain(&around.after) {
        draft.refuse(
            origin,
            "would run once for every rank; put it into a script around the job",
        );
    }
    Around::default()
}

/// The program's own exit code is the job's; without what comes before, it does not start.
fn wrapped(text: &str, around: &Around) -> String {
    let before = around
        .before
        .as_ref()
        .map(|(before, _)| format!("{before} || exit\n"));
    let after = around
        .after
        .as_ref()
        .map(|(after, _)| format!("\ncode=$?\n{after}\nexit $code"));
    format!(
        "{}{text}{}",
        before.unwrap_or_default(),
        after.unwrap_or_default()
    )
}
