//! Node features that a job asks for: `h100`, `h100&ib`, `h100|a100`.
//!
//! Only joints that mean the same everywhere are judged. Of anything else, such as Slurm's `[rack1*2&rack2*2]`, the words
//! are looked up and no more.

use super::NodeType;

/// The features that a constraint names.
#[must_use]
pub fn words(constraint: &str) -> Vec<&str> {
    let joints = |c: char| "&|:,()[]".contains(c);
    // A count follows `*`.
    let words = constraint
        .split(joints)
        .filter_map(|word| word.split('*').next());
    words.filter(|word| !word.is_empty()).collect()
}

/// Says whether nodes have a feature. Where features are `name=value`, the name alone means any value, and a name
/// that no node has is one that the scheduler knows and its nodes do not report.
pub(super) fn has(node: &NodeType, word: &str) -> bool {
    node.features.iter().any(|feature| {
        feature == word
            || feature
                .split_once('=')
                .is_some_and(|(name, _)| name == word)
    })
}

/// Says whether nodes fulfil a constraint; `true` where this cannot be judged.
#[must_use]
pub fn fulfils(node: &NodeType, constraint: &str) -> bool {
    if constraint.contains(['(', '[', '*', '!', '=']) {
        return true;
    }
    let words = words(constraint);
    match (constraint.contains('|'), constraint.contains('&')) {
        // Schedulers differ in which of the two binds first.
        (true, true) => true,
        (true, false) => words.iter().any(|word| has(node, word)),
        (false, _) => words.iter().all(|word| has(node, word)),
    }
}

/// The words that no node of the site has. Negations and resources with values are not looked up.
pub(super) fn unknown<'a>(nodes: &[NodeType], constraint: &'a str) -> Vec<&'a str> {
    if constraint.contains(['!', '=']) {
        return Vec::new();
    }
    words(constraint)
        .into_iter()
        .filter(|word| !nodes.iter().any(|node| has(node, word)))
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn node(features: &[&str]) -> NodeType {
        NodeType {
            features: features.iter().map(|name| (*name).to_owned()).collect(),
            ..NodeType::default()
        }
    }

    #[test]
    fn all_or_any_are_judged_and_the_rest_is_not() {
        let node = node(&["h100", "ib", "arch=skylake"]);
        for (constraint, fits) in [
            ("h100", true),
            ("a100", false),
            ("h100&ib", true),
            ("h100&eth", false),
            ("a100|ib", true),
            ("a100|eth", false),
            ("h100:ib", true),
            ("h100:eth", false),
            ("arch", true),
            ("a100&eth|ib", true),
            ("[a100|eth]", true),
            ("!h100", true),
            ("arch=zen", true),
        ] {
            assert_eq!(fulfils(&node, constraint), fits, "{constraint}");
        }
    }

    #[test]
    fn words_are_found_in_any_joints() {
        assert_eq!(words("[rack1*2&rack2*2]"), ["rack1", "rack2"]);
        assert_eq!(words("(a|b)&c:d"), ["a", "b", "c", "d"]);
        assert!(words("").is_empty() && words("&|*3").is_empty());
        let nodes = [node(&["a"]), node(&["b"])];
        assert_eq!(unknown(&nodes, "[a*2&x*1]|b"), ["x"]);
        assert!(unknown(&nodes, "!x").is_empty());
    }
}
