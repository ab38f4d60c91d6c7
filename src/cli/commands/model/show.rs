//! `dlrun model show`: what a model has learned, and from what.

use std::borrow::Cow;

use serde::Serialize;

use super::quality;
use crate::app::error::Error;
use crate::app::models::meant;
use crate::app::session::Session;
use crate::app::times::local_time;
use crate::cli::forecast::count;
use crate::cli::table::headed;
use crate::learn::model::{Explanation, Head, LearnedEffect};

/// A model.
#[derive(Serialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
pub(crate) struct ShownModel<'a> {
    path: Cow<'a, str>,
    model: &'a Head,
    learned: &'a Explanation,
}

/// Runs the verb.
pub(crate) fn run(session: &Session) -> Result<u8, Error> {
    let (model, origin) = meant(session)?;
    let (head, explanation) = (model.head(), model.explanation());
    let answer = ShownModel {
        path: origin.path.to_string_lossy(),
        model: head,
        learned: &explanation,
    };
    let text = quality::trained_on(head)
        + &about(head, &origin.path.display().to_string())
        + &learned(head, &explanation);
    session.output.sentences(&answer, &text)
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
        text.push_str("\nhow good it is, by runs that were held back: ");
        text.push_str(&quality::of_head(head));
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

/// Effects as ratios of times.
fn learned(head: &Head, explanation: &Explanation) -> String {
    if explanation.effects.is_empty() {
        return "\nno effects: the runs do not differ in software, hardware or size\n".to_owned();
    }
    let row = |effect: &LearnedEffect| {
        [
            effect.kind.clone(),
            effect.this.clone(),
            effect.than.clone(),
            [
                effect.workload.as_deref().unwrap_or("a new workload"),
                &effect.within,
            ]
            .join(", ")
            .trim_end_matches(", ")
            .to_owned(),
            quality::ratio(&effect.time_ratio),
            format!("{} and {}", effect.runs_this, effect.runs_than),
        ]
    };
    let heads = ["of", "this", "than", "where", "time ratio", "runs"];
    let what = match head.counts.with_epochs {
        0 => "a run",
        _ => "an epoch",
    };
    let about = format!(
        "effects: how many times as long {what} takes, with 90 % intervals; above 1 is slower"
    );
    format!(
        "\n{about}\n{}",
        headed(heads, explanation.effects.iter().map(row))
    )
}
