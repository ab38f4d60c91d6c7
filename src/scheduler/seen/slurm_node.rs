//! A Slurm node's state in one word (`sinfo(1)`, "NODE STATE CODES", 20.11 to 26.05).

/// States in dlrun's words, and what `sinfo` calls each.
const WORDS: &[(&str, &str)] = &[
    ("allocated", "alloc allocated"),
    ("booting", "boot"),
    ("blocked", "block blocked"),
    ("cloud", "cloud"),
    ("completing", "comp completing"),
    ("down", "down err error fail failg failing"),
    ("drained", "drain drained"),
    ("draining", "draining drng"),
    ("future", "future futr"),
    ("idle", "idle"),
    ("invalid", "inval invalid_reg"),
    ("maintenance", "maint maintenance"),
    ("mixed", "mix mixed"),
    ("not_responding", "no_respond not_responding"),
    ("perfctrs", "npc perfctrs"),
    ("planned", "planned plnd"),
    ("powering_down", "pow_dn power_down powering_down"),
    ("powering_up", "pow_up power_up powering_up"),
    ("powered_down", "powered_down"),
    ("rebooting", "reboot reboot_issued"),
    ("reboot_requested", "reboot_requested"),
    ("reserved", "reserved resv"),
    ("resume", "resume"),
    ("unknown", "unk unknown"),
];

/// What is behind a state: no answer, powered down, reserved and their like.
const MARKS: [char; 9] = ['*', '~', '#', '!', '%', '$', '@', '^', '-'];

/// The state that a word means.
fn of_word(word: &str) -> Option<&'static str> {
    let (state, _) = WORDS
        .iter()
        .find(|(_, words)| words.split(' ').any(|known| known == word))?;
    Some(state)
}

/// Says whether a word is one of Slurm's for a node.
pub(super) fn is_word(word: &str) -> bool {
    let word = word.trim_end_matches(MARKS);
    of_word(word).is_some()
}

/// A node's state in one word: what hinders it counts before what it does. Flags are joined by `+`.
pub(super) fn node_state(raw: &str) -> String {
    let small = raw.to_ascii_lowercase();
    let mut flags: Vec<&str> = small
        .split(['+', ','])
        .map(|flag| flag.trim_end_matches(MARKS))
        .collect();
    // What a mark says is also a flag: no answer, a reservation for maintenance, planned for a job.
    let marks = [('*', "not_responding"), ('$', "maint"), ('-', "planned")];
    flags.extend(
        marks
            .iter()
            .filter(|(mark, _)| small.contains(*mark))
            .map(|(_, flag)| *flag),
    );
    let word = |flag: &&str| of_word(flag).unwrap_or_default();
    let words: Vec<&str> = flags.iter().map(word).collect();
    let has = |names: &[&str]| words.iter().any(|word| names.contains(word));
    let works = has(&["allocated", "mixed", "completing"]);
    let first = match words[0] {
        "" if flags[0].is_empty() => return "unknown".to_owned(),
        "" => return flags[0].to_owned(),
        first => first,
    };
    let found = match () {
        () if has(&["draining"]) || (has(&["drained"]) && works) => "draining",
        () if has(&["drained"]) => "drained",
        () if has(&["down", "not_responding"]) && !works => "down",
        () if first == "idle" => {
            let kept = ["maintenance", "reserved", "planned"];
            kept.into_iter()
                .find(|kept| words.contains(kept))
                .unwrap_or("idle")
        }
        () => first,
    };
    found.to_owned()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_hinders_a_node_counts_first() {
        for (raw, expected) in [
            ("MIXED+PLANNED", "mixed"),
            ("MAINTENANCE+DRAIN", "drained"),
            ("ALLOCATED+DRAIN", "draining"),
            ("DOWN*+DRAIN", "drained"),
            ("down*", "down"),
            ("idle~", "idle"),
            ("idle*", "down"),
            ("mix-", "mixed"),
            ("alloc", "allocated"),
            ("plnd", "planned"),
            ("resv", "reserved"),
            ("IDLE+RESERVED", "reserved"),
            ("MIXED+RESERVED", "mixed"),
            ("IDLE$", "maintenance"),
            ("IDLE+CLOUD+POWERED_DOWN", "idle"),
            ("", "unknown"),
            ("n/a", "n/a"),
        ] {
            assert_eq!(node_state(raw), expected, "{raw}");
        }
    }
}
