//! `dlrun prune`: deletes the records of runs that are over.

use std::collections::BTreeSet;

use crate::app::error::{Error, Kind};
use crate::app::prune::{Chosen, Pruned, prune};
use crate::app::session::Session;
use crate::app::times::{ago, parse_time};
use crate::cli::args::Prune;
use crate::cli::table::headed;
use crate::foundation::clock::now_ms;
use crate::foundation::units::{Bytes, counted};

/// Runs the verb. Without `--yes` it only shows what would go.
pub(crate) fn run(session: &Session, args: &Prune) -> Result<u8, Error> {
    if args.runs.is_empty() && args.older_than.is_none() && args.keep.is_none() {
        let message = "say which runs: RUN, --older-than AGE or --keep N";
        let hint = "such as `dlrun prune --older-than 30d`; nothing is deleted without `--yes`";
        return Err(Error::new(Kind::Usage, message).hinted(hint));
    }
    let age = args.older_than.as_deref();
    let before = age.map(|age| parse_time(age, now_ms())).transpose();
    let before = before.map_err(|why| Error::new(Kind::Usage, why))?;
    let pruned = prune(session, &args.runs, before, args.keep, args.yes)?;
    session.answer(&pruned, &to_text(&pruned, args.yes))?;
    let is_done = !args.yes || pruned.runs.iter().all(|one| one.deleted);
    Ok(if is_done { 0 } else { Kind::CannotWrite.code() })
}

fn to_text(Pruned { runs, left }: &Pruned, is_done: bool) -> String {
    if runs.is_empty() {
        let reasons: BTreeSet<&str> = left.iter().map(|one| one.why.as_str()).collect();
        let reasons = reasons.into_iter().collect::<Vec<_>>().join("; ");
        let stay = (!left.is_empty()).then(|| format!(" ({} stay: {reasons})", left.len()));
        return format!("no runs to delete{}\n", stay.unwrap_or_default());
    }
    let chosen: Vec<&Chosen> = runs.iter().filter(|one| one.deleted == is_done).collect();
    let row = |one: &&Chosen| {
        [
            one.run_id.to_string(),
            one.name.clone(),
            one.state.to_string(),
            ago(one.ended_at_ms.unwrap_or(one.submitted_at_ms)),
            Bytes(one.bytes).to_string(),
        ]
    };
    let heads = ["RUN", "NAME", "STATE", "ENDED", "RECORDS"];
    let rows = headed(heads, chosen.iter().map(row));
    let bytes = Bytes(chosen.iter().map(|one| one.bytes).sum());
    let size = format!("{}, {bytes}", counted(chosen.len() as u64, "run"));
    match is_done {
        true => format!("{rows}deleted {size}\n"),
        false => format!("{rows}would delete {size}; `--yes` deletes\n"),
    }
}
