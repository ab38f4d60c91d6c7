//! `dlrun model show`: what a model has learned, from what, and what it cannot say.

use std::collections::BTreeMap;

use serde_json::json;

use super::quality;
use crate::app::error::Error;
use crate::app::models::{meant, unusable};
use crate::app::session::Session;
use crate::app::times::local_time;
use crate::cli::args::ModelShow;
use crate::cli::forecast::count;
use crate::cli::table::{fitted, table};
use crate::foundation::diagnostic::printable;
use crate::learn::model::{Explanation, Head, LearnedEffect};

/// Effects of a kind that are told without `--all`.
const FEW: usize = 10;

/// Runs the verb.
pub(crate) fn run(session: &Session, args: &ModelShow) -> Result<u8, Error> {
    let (model, origin) = meant(session)?;
    let explanation = model
        .explanation()
        .map_err(|why| unusable(&why, &origin.path))?;
    let value = json!({
        "path": origin.path.to_string_lossy(),
        "model": model.head(),
        "learned": explanation,
    });
    let mut text = quality::trained_on(model.head());
    text.push_str(&about(model.head(), &origin.path.display().to_string()));
    text.push_str(&learned(
        &explanation,
        if args.all { usize::MAX } else { FEW },
    ));
    text.push_str(&spreads(&explanation));
    text.push_str(&limits(model.head()));
    session.output.sentences(&value, &printable(&text))
}

fn about(head: &Head, path: &str) -> String {
    let made = head.made_at_ms.map_or_else(String::new, |at_ms| {
        format!("fitted {} ", local_time(at_ms))
    });
    let mut text = format!(
        "  {made}by dlrun {}; data {}; {path}\n",
        head.made_by, head.data_hash
    );
    text.push_str(&noise(head));
    if head.evaluation.is_some() {
        text.push_str("\nhow good it is, by runs that were held back:\n");
        text.push_str(&quality::evaluation(head));
    }
    text
}

/// How much times scatter: measured, or what is believed before there are repeats.
fn noise(head: &Head) -> String {
    let Some(sd) = head.noise_sd else {
        return String::new();
    };
    let by = quality::off(sd);
    let mut text = match head.counts.repeats {
        Some(0) => format!(
            "\nnoise: repeats of one configuration are believed to differ by {by} (standard deviation), since none was measured twice"
        ),
        Some(repeats) => format!(
            "\nnoise: repeats of one configuration differ by {by} (standard deviation), measured on {}",
            count(repeats, "repeat")
        ),
        None => {
            format!("\nnoise: repeats of one configuration differ by {by} (standard deviation)")
        }
    };
    if let Some(sd) = head.interaction_sd {
        let verb = if head.counts.configurations < 2 {
            "is believed to differ"
        } else {
            "differs"
        };
        text.push_str(&format!(
            "; one that was never measured {verb} by {} more",
            quality::off(sd)
        ));
    }
    text + "\n"
}

/// Effects as ratios of times, kind by kind; what was published stands beside what was measured.
fn learned(explanation: &Explanation, most: usize) -> String {
    if explanation.effects.is_empty() {
        return "\nno effects: nothing was measured with two kinds of anything\n".to_owned();
    }
    let mut kinds: BTreeMap<&str, Vec<&LearnedEffect>> = BTreeMap::new();
    for effect in &explanation.effects {
        kinds.entry(&effect.kind).or_default().push(effect);
    }
    let mut text =
        "\neffects: how many times as long an epoch takes, with 90 % intervals; above 1 is slower\n"
            .to_owned();
    let mut rows = table();
    rows.set_header([
        "of",
        "this",
        "than",
        "where",
        "time ratio",
        "runs",
        "published alone",
    ]);
    let mut left = 0;
    for (kind, mut effects) in kinds {
        // Best known first: those with most runs on the side that has fewer.
        effects.sort_by_key(|effect| std::cmp::Reverse(effect.runs_this.min(effect.runs_than)));
        left += effects.len().saturating_sub(most);
        for effect in effects.into_iter().take(most) {
            let workload = effect.workload.as_deref().unwrap_or("a new workload");
            let place = if effect.within.is_empty() {
                String::new()
            } else {
                format!(", {}", effect.within)
            };
            rows.add_row([
                kind.to_owned(),
                effect.this.clone(),
                effect.than.clone(),
                format!("{workload}{place}"),
                quality::ratio(&effect.time_ratio),
                format!("{} and {}", effect.runs_this, effect.runs_than),
                effect
                    .priors_alone
                    .as_ref()
                    .map_or_else(|| "-".to_owned(), quality::ratio),
            ]);
        }
    }
    text.push_str(&fitted(rows));
    if left > 0 {
        text.push_str(&format!("and {left} more: `--all`\n"));
    }
    text
}

fn spreads(explanation: &Explanation) -> String {
    let shown = explanation
        .spreads
        .iter()
        .filter(|spread| spread.members > 0)
        .take(FEW);
    let lines: Vec<String> = shown
        .map(|spread| {
            let (sd, members) = (quality::off(spread.sd), spread.members);
            format!("  {}: by {sd}, over {members}\n", spread.group)
        })
        .collect();
    if lines.is_empty() {
        return String::new();
    }
    format!(
        "\nwhat decides an epoch's time, by runs and published effects: members of a group differ (standard deviation)\n{}",
        lines.concat()
    )
}

/// What it cannot say, of the data that it has.
fn limits(head: &Head) -> String {
    let counts = &head.counts;
    let mut lines = vec![
        "what lies far from all that was measured: a forecast says how far".to_owned(),
        "why one thing is quicker than another, and whether a result is as good: only times and memory are learned".to_owned(),
    ];
    if counts.workloads < 2 {
        lines.push("how a new workload behaves: it has seen only one".to_owned());
    }
    if counts.configurations < 2 {
        lines.push(
            "what another image, compiler or size would change: it has seen one configuration"
                .to_owned(),
        );
    }
    if head.noise_sd.is_none() {
        lines.push("how long an epoch takes: none was timed".to_owned());
    }
    if counts.runs < 20 {
        lines.push(format!(
            "much: it has seen {} only, so its intervals are wide",
            count(counts.runs, "run")
        ));
    }
    if counts.doubtful > 0 && counts.doubtful == counts.runs {
        lines.push(
            "how long a run takes that nothing disturbs: all that it has seen are in doubt"
                .to_owned(),
        );
    }
    if counts.pooled > 0 {
        lines.push(format!(
            "{} rare versions, images and the like one by one: they share one figure",
            counts.pooled
        ));
    }
    if counts.published > 0 {
        lines.push(format!(
            "which of {} hold here, before runs of this site tell",
            count(counts.published, "published effect")
        ));
    }
    format!(
        "\nit cannot say\n{}",
        lines
            .iter()
            .map(|line| format!("  {line}\n"))
            .collect::<String>()
    )
}
