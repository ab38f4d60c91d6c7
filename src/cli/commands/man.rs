//! `dlrun man`: man pages, made from the same definitions as `--help`.

use std::fs;
use std::path::{Path, PathBuf};

use clap::Command;
use serde::Serialize;

use crate::app::error::{Error, Kind};
use crate::app::output::Output;
use crate::cli::args::{Man, pages};

/// A page.
#[derive(Serialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
pub(crate) struct Page {
    page: String,
    roff: String,
}

/// The files of all pages.
#[derive(Serialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
pub(crate) struct Pages {
    pages: Vec<PathBuf>,
}

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
    let answer = Page {
        page: format!("{wanted}.1"),
        roff: rendered(page)?,
    };
    output.document(&answer, &answer.roff)
}

fn rendered(page: &Command) -> Result<String, Error> {
    let mut roff = Vec::new();
    let source = concat!("dlrun ", env!("CARGO_PKG_VERSION"));
    clap_mangen::Man::new(page.clone())
        .source(source)
        .render(&mut roff)?;
    Ok(String::from_utf8_lossy(&roff).into_owned() + &examples(page.get_name()) + SECTIONS)
}

/// The examples of a page; each line of the table has its name, a command and what that does.
fn examples(name: &str) -> String {
    let mut section = String::new();
    for line in include_str!("man-examples.tsv").lines() {
        let line = line.replace('-', "\\-");
        let mut cells = line.split('\t');
        if cells.next() != Some(&name.replace('-', "\\-")) {
            continue;
        }
        let heading = if section.is_empty() {
            ".SH EXAMPLES\n"
        } else {
            ""
        };
        let (command, what) = (
            cells.next().unwrap_or_default(),
            cells.next().unwrap_or_default(),
        );
        section += &format!("{heading}.TP\n\\fB{command}\\fR\n{what}\n");
    }
    section
}

/// What follows the options of each page: exit codes, files, the manual.
const SECTIONS: &str = include_str!("man.roff");

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
    output.result(&Pages { pages: written }, &text)
}
