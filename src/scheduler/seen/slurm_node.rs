//! A Slurm node's state in one word (`sinfo(1)`, "NODE STATE CODES", 20.11 to 26.05).

/// Words of `sinfo`, short and long, and what they are to dlrun.
const WORDS: &[(&str, &str)] = &[
    ("alloc", "allocated"),
    ("allocated", "allocated"),
    ("boot", "booting"),
    ("block", "blocked"),
    ("blocked", "blocked"),
    ("cloud", "cloud"),
    ("comp", "completing"),
    ("completing", "completing"),
    ("down", "down"),
    ("drain", "drained"),
    ("drained", "drained"),
    ("draining", "draining"),
    ("drng", "draining"),
    ("err", "down"),
    ("error", "down"),
    ("fail", "down"),
    ("failg", "down"),
    ("failing", "down"),
    ("future", "future"),
    ("futr", "future"),
    ("idle", "idle"),
    ("inval", "invalid"),
    ("invalid_reg", "invalid"),
    ("maint", "maintenance"),
    ("maintenance", "maintenance"),
    ("mix", "mixed"),
    ("mixed", "mixed"),
    ("no_respond", "not_responding"),
    ("not_responding", "not_responding"),
    ("npc", "perfctrs"),
    ("perfctrs", "perfctrs"),
    ("planned", "planned"),
    ("plnd", "planned"),
    ("pow_dn", "powering_down"),
    ("pow_up", "powering_up"),
    ("power_down", "powering_down"),
    ("power_up", "powering_up"),
    ("powered_down", "powered_down"),
    ("powering_down", "powering_down"),
    ("powering_up", "powering_up"),
    ("reboot", "rebooting"),
    ("reboot_issued", "rebooting"),
    ("reboot_requested", "reboot_requested"),
    ("reserved", "reserved"),
    ("resume", "resume"),
    ("resv", "reserved"),
    ("unk", "unknown"),
    ("unknown", "unknown"),
];

/// What is behind a state: no answer, powered down, reserved and their like.
const MARKS: [char; 9] = ['*', '~', '#', '!', '%', '$', '@', '^', '-'];

/// Says whether a word is one of Slurm's for a node.
pub(super) fn is_word(word: &str) -> bool {
    let word = word.trim_end_matches(MARKS);
    WORDS.iter().any(|(known, _)| *known == word)
}

/// A node's state in one word: what hinders it counts before what it does. Flags are joined by `+`.
pub(super) fn node_state(raw: &str) -> String {
    let small = raw.to_ascii_lowercase();
    let mut flags: Vec<&str> = small.split(['+', ',']).map(|flag| flag.trim_end_matches(MARKS)).collect();
    // What a mark says is also a flag: no answer, a reservation for maintenance, planned for a job.
    let marks = [('*', "not_responding"), ('$', "maint"), ('-', "planned")];
    flags.extend(marks.iter().filter(|(mark, _)| small.contains(*mark)).map(|(_, flag)| *flag));
    let word = |flag: &&str| WORDS.iter().find(|(known, _)| known == flag).map_or("", |(_, word)| word);
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
            kept.into_iter().find(|kept| words.contains(kept)).unwrap_or("idle")
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
