//! What the label of a bar says that the bar is of.

use super::bar;
use super::epoch_number;
use super::scan;

/// Parts of labels of work that is no training.
const OTHER_WORK: &str = "dataset|load|map|token|filter|generating|extract|process|casting|resolv|\
    fetch|sav|cach|creat|convert|sampling|predict|infer|decod|build|read|pars|scan|.json|\
    .safetensors|.bin|.txt|.pt|files|collect|comput|encod|flatten|group|pushing|quantiz|render|\
    denois|captur|calibr|precomp|embed|search|index|request|download|likelihood|bench";
/// Parts of labels of bars of an evaluation.
const EVALUATIONS: &str = "val|eval|test|dev";

/// What a label says of its bar.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(super) enum Subject {
    /// A step of the epoch.
    Epoch(u64, Option<u64>),
    /// The bar counts epochs.
    Epochs,
    /// Training, or nothing at all.
    Training,
    Evaluation,
    Other,
}

/// What a label says.
pub(super) fn subject(label: &str) -> Subject {
    let label = label
        .trim()
        .trim_end_matches(|c: char| c.is_whitespace() || c == ':');
    if label.is_empty() {
        return Subject::Training;
    }
    let first = scan::starts_with_any(label, EVALUATIONS);
    if first || scan::holds_any(label, EVALUATIONS) && !scan::holds_any(label, "train|loss") {
        return Subject::Evaluation;
    }
    // torchtune: `1|94|Loss: 0.9960`.
    if let Some((epoch, rest)) = scan::unsigned(label)
        && let Some((_, rest)) = rest.strip_prefix('|').and_then(scan::unsigned)
        && rest.starts_with("|Loss: ")
    {
        return Subject::Epoch(epoch, None);
    }
    if let Some((epoch, epochs)) = epoch_number::epoch_in_label(label) {
        return Subject::Epoch(epoch, epochs);
    }
    if scan::holds(label, "epoch") {
        return Subject::Epochs;
    }
    let trains = "train|iter|step|batch|fit|learn|loss|optim|tuning";
    if scan::holds_any(label, trains) && !scan::holds_any(label, OTHER_WORK) {
        Subject::Training
    } else {
        Subject::Other
    }
}

/// True of lines that may stand between the line of an epoch and its bar: behind others the bar may be of anything.
pub(super) fn keeps_header(text: &str) -> bool {
    !text.contains(char::is_alphabetic) || scan::holds(text, "train") || bar::read(text).is_some()
}
