//! One name for a metric, however a program writes it.

use std::borrow::Cow;
use std::collections::BTreeSet;

use super::event::Metric;
use super::word_list;

/// Names that training lines used, so that an evaluation's figures of the same name do not take their place.
#[derive(Debug, Default)]
pub(super) struct Trained {
    names: BTreeSet<String>,
}

impl Trained {
    /// More names than this are not kept. Ours: trainings print a few.
    const MAX: usize = 64;

    /// Notes the metrics of a training line.
    pub(super) fn note(&mut self, metrics: &[Metric<'_>]) {
        for name in metrics.iter().map(|(name, _)| canonical(name)) {
            if self.names.len() < Self::MAX && !self.names.contains(name.as_ref()) {
                self.names.insert(name.into_owned());
            }
        }
    }

    /// True for names of training lines.
    pub(super) fn has(&self, name: &str) -> bool {
        self.names.contains(&*canonical(name))
    }

    /// The metrics of an evaluation: those that training has too, and any plain `loss`, with `prefix` before their names, unless
    /// the evaluation has one of that name already.
    pub(super) fn tell_apart<'a>(
        &self,
        prefix: &str,
        mut metrics: Vec<Metric<'a>>,
    ) -> Vec<Metric<'a>> {
        let own: Vec<String> = metrics.iter().map(|(name, _)| name.to_string()).collect();
        let is_taken = |name: &str| {
            own.iter()
                .any(|other| other.strip_prefix(prefix) == Some(name))
        };
        metrics.retain(|(name, _)| !is_taken(name));
        for (name, _) in &mut metrics {
            if self.has(name) || name.eq_ignore_ascii_case("loss") {
                *name = format!("{prefix}{name}").into();
            }
        }
        metrics
    }
}

/// Of what a figure is, `train` or an evaluation, where its name says so: `train_loss`, `Val Acc`.
pub(super) fn subject(name: &str) -> Option<&'static str> {
    let mut words = name.split(|c: char| !c.is_ascii_alphabetic());
    words.find_map(|word| match word.to_ascii_lowercase() {
        word if word == "tr" || word.starts_with("train") => Some("train"),
        word if word.starts_with("val") && !word.starts_with("valu") => Some("val"),
        word if word.starts_with("test") => Some("test"),
        word if word.starts_with("eval") => Some("eval"),
        word if word == "dev" => Some("dev"),
        _ => None,
    })
}

/// Whether a metric is of an evaluation, by its name.
pub(super) fn is_of_evaluation(name: &str) -> bool {
    subject(name).is_some_and(|subject| subject != "train")
}

/// Ends of words that say what trainings are measured by: `loss` as in `CELoss`.
const MEASURES: &str = "gan|loss|losses|acc|accuracy|accuracies|error|cost|perplexity|ppl|\
    precision|recall|dice|iou|auc|auroc|bleu|rouge|reward|rewards|psnr|ssim|mse|mae|score|entropy|\
    ndcg|likelihood|elbo|xent|nll";

/// Whole words that say it.
const MEASURE_WORDS: &str = "fake|real|f|map|ap|wer|cer|ter|eer|ber|fid|kl|kld|ce|bce|mrr|hr|prec|\
    top|sensitivity|specificity|kappa|pearson|spearman|jaccard|meteor|cider|bpb|bpc|bpd|rmsd|mape|\
    err|return|accu|metric";

/// True for names that tell what a training is measured by; `l_pix` is how BasicSR writes a loss.
pub(super) fn is_measure(name: &str) -> bool {
    let words = name
        .split(|c: char| !c.is_ascii_alphabetic())
        .filter(|word| !word.is_empty());
    name.starts_with("l_")
        || words.map(str::to_ascii_lowercase).any(|word| {
            MEASURES.split('|').any(|end| word.ends_with(end))
                || word_list::is_any(&word, MEASURE_WORDS)
        })
}

/// True for names of metrics: of measures, of the learning rate and of the norm of the gradients.
pub(super) fn is_metric(name: &str) -> bool {
    let mut words = name.split(|c: char| !c.is_ascii_alphabetic());
    is_measure(name) || words.any(|word| word_list::is_any(word, "lr|learning|norm"))
}

/// The name of a metric as records have it: `Loss` is `loss`, `Acc@1` is `acc1`, `lm loss` is `lm_loss`. Names in which
/// capitals mean something (`mAP50`, `CELoss`) keep them.
pub(super) fn canonical(name: &str) -> Cow<'_, str> {
    let name = name.trim();
    if !name.contains(|c: char| c.is_ascii_uppercase() || c.is_whitespace() || c == '@')
        && !name.ends_with('.')
    {
        return Cow::Borrowed(name);
    }
    let mut words = String::with_capacity(name.len());
    for word in name.split_whitespace() {
        // `Val. Loss`
        let word = word.trim_end_matches('.');
        if !words.is_empty() {
            words.push('_');
        }
        let capitalised = word.starts_with(|c: char| c.is_ascii_uppercase())
            && !word[1..].contains(|c: char| c.is_ascii_uppercase())
            && word[1..].contains(|c: char| c.is_ascii_lowercase());
        for character in word.chars().filter(|c| *c != '@') {
            words.push(if capitalised {
                character.to_ascii_lowercase()
            } else {
                character
            });
        }
    }
    Cow::Owned(words)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_are_one_however_they_are_written() {
        for (written, name) in [
            ("loss", "loss"),
            ("Loss", "loss"),
            ("Acc@1", "acc1"),
            ("lm loss", "lm_loss"),
            ("Train Loss", "train_loss"),
            ("mAP50-95", "mAP50-95"),
            ("CELoss", "CELoss"),
            ("MSE", "MSE"),
            ("main/loss", "main/loss"),
            ("validation_0-logloss", "validation_0-logloss"),
            (" d  loss ", "d_loss"),
            ("Val. Loss", "val_loss"),
        ] {
            assert_eq!(canonical(written), name, "{written}");
        }
    }

    #[test]
    fn names_tell_evaluations() {
        for name in [
            "val_loss",
            "valid_ppl",
            "eval/acc",
            "test_acc",
            "Val. loss",
            "dev_wer",
        ] {
            assert!(is_of_evaluation(name), "{name}");
        }
        for name in ["loss", "value_loss", "devices", "lr", ""] {
            assert!(!is_of_evaluation(name), "{name}");
        }
    }
}
