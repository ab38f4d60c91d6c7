//! `dlrun man`: man pages, made from the same definitions as `--help`.

use std::fs;
use std::path::Path;

use clap::Command;
use serde_json::json;

use crate::app::error::{Error, Kind};
use crate::app::output::Output;
use crate::cli::args::{Man, pages};

/// Runs the verb.
pub(crate) fn run(output: Output, args: &Man) -> Result<u8, Error> {
    let pages = pages();
    if let Some(dir) = &args.dir {
        return write_all(output, dir, &pages);
    }
    let wanted = std::iter::once("dlrun").chain(args.verbs.iter().map(String::as_str));
    let wanted = wanted.collect::<Vec<_>>().join("-");
    let Some(page) = pages.iter().find(|page| page.get_name() == wanted) else {
        let error = Error::new(Kind::Missing, format!("there is no page `{wanted}`"));
        return Err(error.hinted("`dlrun --help` lists the verbs"));
    };
    let text = rendered(page)?;
    output.document(
        &json!({ "page": format!("{wanted}.1"), "roff": text }),
        &text,
    )
}

fn rendered(page: &Command) -> Result<String, Error> {
    let mut roff = Vec::new();
    let source = concat!("dlrun ", env!("CARGO_PKG_VERSION"));
    clap_mangen::Man::new(page.clone())
        .source(source)
        .render(&mut roff)?;
    Ok(String::from_utf8_lossy(&roff).into_owned() + &sections(page))
}

/// What follows the options: examples, exit codes, files, other pages.
fn sections(page: &Command) -> String {
    let name = page.get_name();
    let mut text = String::new();
    let examples: Vec<_> = EXAMPLES.iter().filter(|(of, ..)| *of == name).collect();
    if !examples.is_empty() {
        text.push_str(".SH EXAMPLES\n");
    }
    for (_, command, about) in examples {
        text.push_str(&format!(
            ".TP\n\\fB{}\\fR\n{}\n",
            escaped(command),
            escaped(about)
        ));
    }
    let waits = ["dlrun-submit", "dlrun-wait"].contains(&name);
    let codes = EXIT_CODES
        .iter()
        .chain(STATE_CODES.iter().filter(|_| waits));
    let entry = |(what, about): &(&str, &str)| {
        format!(".TP\n\\fB{}\\fR\n{}\n", escaped(what), escaped(about))
    };
    text.push_str(&format!(
        ".SH EXIT STATUS\n{}",
        codes.map(entry).collect::<String>()
    ));
    text.push_str(&format!(
        ".SH FILES\n{}",
        FILES.iter().map(entry).collect::<String>()
    ));
    let parent = name.rsplit_once('-').map(|(parent, _)| parent);
    let siblings = SEE_ALSO
        .iter()
        .filter(|(of, _)| *of == name)
        .flat_map(|(_, others)| others.iter().copied());
    let pages: Vec<String> = parent
        .into_iter()
        .chain(siblings)
        .map(|page| format!("\\fB{}\\fR(1)", escaped(page)))
        .collect();
    let docs = escaped("The manual: docs/ of the source, such as docs/job-file.md.");
    let pages = if pages.is_empty() {
        String::new()
    } else {
        format!("{}\n.PP\n", pages.join(", "))
    };
    text + &format!(".SH SEE ALSO\n{pages}{docs}\n")
}

/// Text that troff takes as it is (`groff_char(7)`).
fn escaped(text: &str) -> String {
    text.replace('\\', "\\e").replace('-', "\\-")
}

/// Page, command, what it does.
const EXAMPLES: [(&str, &str, &str); 20] = [
    (
        "dlrun",
        "dlrun submit train.toml",
        "Submit the job that train.toml describes.",
    ),
    (
        "dlrun",
        "dlrun logs -f @1",
        "Follow the output of the latest run.",
    ),
    (
        "dlrun-submit",
        "dlrun submit train --wait",
        "Submit train.toml and wait for its end.",
    ),
    (
        "dlrun-submit",
        "dlrun submit train --set resources.walltime=2h --name long -- --lr 0.5",
        "With another time limit, another name and further arguments of the program.",
    ),
    (
        "dlrun-check",
        "dlrun check train",
        "Say what is wrong with train.toml before anything is queued.",
    ),
    (
        "dlrun-plan",
        "dlrun plan train --set resources.nodes=2",
        "What would happen on two nodes, and why.",
    ),
    (
        "dlrun-render",
        "dlrun render train | sbatch",
        "Submit the script by hand.",
    ),
    (
        "dlrun-convert",
        "dlrun convert job.sh -o job.toml",
        "Create a job file from a batch script.",
    ),
    (
        "dlrun-list",
        "dlrun list --state running",
        "Runs that are running.",
    ),
    (
        "dlrun-show",
        "dlrun show @1 --series",
        "The latest run with the least, mean and greatest of each measurement.",
    ),
    (
        "dlrun-logs",
        "dlrun logs -n 20 train",
        "The last 20 lines of the latest run of that name.",
    ),
    (
        "dlrun-wait",
        "dlrun wait a1b2c3 && ./evaluate.sh",
        "Go on when the run has completed.",
    ),
    (
        "dlrun-cancel",
        "dlrun cancel @1",
        "Cancel the latest run that is not over.",
    ),
    (
        "dlrun-prune",
        "dlrun prune --older-than 30d",
        "Show which records would go.",
    ),
    (
        "dlrun-prune",
        "dlrun prune --keep 100 --outputs --yes",
        "Keep the newest 100 runs; delete the rest and its output.",
    ),
    (
        "dlrun-report",
        "dlrun report @1 @2 --output compare.html",
        "Compare two runs.",
    ),
    (
        "dlrun-export",
        "dlrun export --what runs,timings --format parquet --output-dir out",
        "Two tables for other programs.",
    ),
    (
        "dlrun-explain",
        "squeue | dlrun explain",
        "What a scheduler printed, in plain words.",
    ),
    (
        "dlrun-completions",
        "dlrun completions bash > ~/.local/share/bash-completion/completions/dlrun",
        "Complete verbs, options, runs, queues and images.",
    ),
    (
        "dlrun-man",
        "dlrun man --dir ~/.local/share/man/man1",
        "Install the man pages.",
    ),
];

/// `sysexits.h`; docs/records.md has them all.
const EXIT_CODES: [(&str, &str); 11] = [
    ("0", "It was done."),
    ("64", "The command line is wrong."),
    (
        "65",
        "The job file, or another file that was named, is wrong.",
    ),
    ("66", "Something that was named does not exist."),
    ("69", "A scheduler or the node daemon gives no answer."),
    ("70", "dlrun itself failed."),
    ("73", "Something cannot be written."),
    ("75", "Try again later; a time limit of waiting is over."),
    ("76", "The scheduler refused."),
    ("77", "You may not do that."),
    ("78", "The configuration is wrong; doctor found a failure."),
];

/// Of what was waited for.
const STATE_CODES: [(&str, &str); 2] = [
    (
        "10 to 16",
        "The job failed, timed out, ran out of memory, was preempted, lost its node, was cancelled; or its end is not known.",
    ),
    (
        "125",
        "With passthrough: the exit code of the job is not known.",
    ),
];

const FILES: [(&str, &str); 3] = [
    (
        "/etc/dlrun/dlrun.toml, /etc/dlrun/conf.d/*.toml",
        "Settings of the site.",
    ),
    (
        "~/.config/dlrun/dlrun.toml",
        "Your settings, below $XDG_CONFIG_HOME.",
    ),
    (
        "~/.local/state/dlrun",
        "Records and their index, below $XDG_STATE_HOME; --state-dir names another place.",
    ),
];

/// Pages that go with a page.
const SEE_ALSO: [(&str, &[&str]); 12] = [
    ("dlrun", &["dlrun-submit", "dlrun-show", "sbatch", "qsub"]),
    (
        "dlrun-submit",
        &["dlrun-check", "dlrun-plan", "dlrun-wait", "dlrun-logs"],
    ),
    ("dlrun-check", &["dlrun-plan", "dlrun-submit"]),
    (
        "dlrun-plan",
        &["dlrun-check", "dlrun-render", "dlrun-submit"],
    ),
    ("dlrun-render", &["dlrun-plan", "sbatch", "qsub"]),
    ("dlrun-list", &["dlrun-show", "dlrun-prune"]),
    ("dlrun-show", &["dlrun-list", "dlrun-logs", "dlrun-report"]),
    ("dlrun-logs", &["dlrun-show", "dlrun-wait"]),
    ("dlrun-wait", &["dlrun-submit", "dlrun-cancel"]),
    ("dlrun-cancel", &["dlrun-wait", "dlrun-list"]),
    ("dlrun-prune", &["dlrun-list", "dlrun-export"]),
    ("dlrun-export", &["dlrun-import", "dlrun-report"]),
];

fn write_all(output: Output, dir: &Path, pages: &[Command]) -> Result<u8, Error> {
    let unwritten = |path: &Path| {
        let path = path.display().to_string();
        move |error| Error::new(Kind::CannotWrite, format!("cannot write `{path}`: {error}"))
    };
    fs::create_dir_all(dir).map_err(unwritten(dir))?;
    let mut written = Vec::new();
    for page in pages {
        let path = dir.join(format!("{}.1", page.get_name()));
        fs::write(&path, rendered(page)?).map_err(unwritten(&path))?;
        written.push(path);
    }
    let text = format!("wrote {} pages to {}\n", written.len(), dir.display());
    output.result(&json!({ "pages": written }), &text)
}
