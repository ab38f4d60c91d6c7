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
use crate::cli::table::{headed, or_dash};
use crate::learn::model::{Explanation, Head, LearnedEffect};

/// Effects of a kind that are shown without `--all`.
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
    let most = if args.all { usize::MAX } else { FEW };
    let text = quality::trained_on(model.head())
        + &about(model.head(), &origin.path.display().to_string())
        + &learned(&explanation, most)
        + &limits(model.head());
    session.output.sentences(&value, &text)
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

/// How much times scatter: measured, or what is assumed before there are repeats.
fn noise(head: &Head) -> String {
    let Some(sd) = head.noise_sd else {
        return String::new();
    };
    let how = match head.counts.repeats {
        Some(0) => ", assumed, since none was measured twice".to_owned(),
        Some(repeats) => format!(", measured on {}", count(repeats, "repeat")),
        None => String::new(),
    };
    let by = quality::off(sd);
    let new = head.interaction_sd.map(|sd| {
        let by = quality::off(sd);
        format!("; one that was never measured differs by {by} more")
    });
    format!(
        "\nnoise: repeats of one configuration differ by {by} (standard deviation){how}{}\n",
        new.unwrap_or_default()
    )
}

/// Effects as ratios of times, kind by kind; what was published beside what was measured.
fn learned(explanation: &Explanation, most: usize) -> String {
    if explanation.effects.is_empty() {
        return "\nno effects: nothing was measured with two kinds of anything\n".to_owned();
    }
    let mut kinds: BTreeMap<&str, Vec<&LearnedEffect>> = BTreeMap::new();
    for effect in &explanation.effects {
        kinds.entry(&effect.kind).or_default().push(effect);
    }
    let mut left = 0;
    for effects in kinds.values_mut() {
        // Best known first: those with most runs on the side that has fewer.
        effects.sort_by_key(|effect| std::cmp::Reverse(effect.runs_this.min(effect.runs_than)));
        left += effects.len().saturating_sub(most);
        effects.truncate(most);
    }
    let heads = [
        "of",
        "this",
        "than",
        "where",
        "time ratio",
        "runs",
        "published alone",
    ];
    let row = |effect: &LearnedEffect| {
        let mut place = effect
            .workload
            .as_deref()
            .unwrap_or("a new workload")
            .to_owned();
        if !effect.within.is_empty() {
            place.push_str(&format!(", {}", effect.within));
        }
        [
            effect.kind.clone(),
            effect.this.clone(),
            effect.than.clone(),
            place,
            quality::ratio(&effect.time_ratio),
            format!("{} and {}", effect.runs_this, effect.runs_than),
            or_dash(effect.priors_alone.as_ref().map(quality::ratio)),
        ]
    };
    let mut text =
        "\neffects: how many times as long an epoch takes, with 90 % intervals; above 1 is slower\n"
            .to_owned();
    text.push_str(&headed(heads, kinds.into_values().flatten().map(row)));
    if left > 0 {
        text.push_str(&format!("and {left} more: `--all`\n"));
    }
    text
}

/// What it cannot say, of the data that it has.
fn limits(head: &Head) -> String {
    let counts = &head.counts;
    let lines = [
        (
            counts.workloads < 2,
            "how a new workload behaves: it has seen only one".to_owned(),
        ),
        (
            counts.configurations < 2,
            "what another image, compiler or size would change: it has seen one configuration"
                .to_owned(),
        ),
        (
            head.noise_sd.is_none(),
            "how long an epoch takes: none was timed".to_owned(),
        ),
        (
            counts.runs < 20,
            format!(
                "much: it has seen {} only, so its intervals are wide",
                count(counts.runs, "run")
            ),
        ),
        (
            counts.doubtful > 0 && counts.doubtful == counts.runs,
            "how long a run takes that nothing disturbs: all that it has seen are in doubt"
                .to_owned(),
        ),
        (
            counts.published > 0,
            format!(
                "which of {} hold here, before there are runs of this site",
                count(counts.published, "published effect")
            ),
        ),
    ];
    let known = lines.into_iter().filter(|(is_so, _)| *is_so);
    let lines: String = known.map(|(_, line)| format!("  {line}\n")).collect();
    format!(
        "\nit cannot say\n  what is far from all that was measured: a forecast says how far\n{lines}"
    )
}
