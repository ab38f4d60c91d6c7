//! One name for a metric, however a program writes it.

use std::borrow::Cow;

/// The name of a metric as records have it: `Loss` is `loss`, `Acc@1` is `acc1`, `lm loss` is `lm_loss`. Names in which
/// capitals mean something (`mAP50`, `CELoss`) keep them.
pub(super) fn canonical(name: &str) -> Cow<'_, str> {
    let name = name.trim();
    if !name.contains(|c: char| c.is_ascii_uppercase() || c.is_whitespace() || c == '@') {
        return Cow::Borrowed(name);
    }
    let mut words = String::with_capacity(name.len());
    for word in name.split_whitespace() {
        if !words.is_empty() {
            words.push('_');
        }
        let capitalised = word.starts_with(|c: char| c.is_ascii_uppercase())
            && !word[1..].contains(|c: char| c.is_ascii_uppercase())
            && word[1..].contains(|c: char| c.is_ascii_lowercase());
        for character in word.chars().filter(|c| *c != '@') {
            words.push(if capitalised { character.to_ascii_lowercase() } else { character });
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
        ] {
            assert_eq!(canonical(written), name, "{written}");
        }
    }
}
