//! Lists of variables that reach the job: `A,B=1` of `sbatch --export` and `qsub -v`.

use super::draft::{Draft, Origin};
use super::write::Value;

/// More variables than anybody lists by hand.
const MOST: usize = 500;

/// Sets `run.env` for what has a value and `run.inherit` for the rest. `ALL` and `NONE` are Slurm's words.
pub(super) fn set(draft: &mut Draft, list: &str, origin: &Origin) {
    let parts: Vec<&str> = list
        .split(',')
        .map(str::trim)
        .filter(|part| !part.is_empty())
        .collect();
    if parts.len() > MOST {
        draft.refuse(
            origin,
            format!("lists {} variables; {MOST} is the limit", parts.len()),
        );
        return;
    }
    let mut names = Vec::new();
    let mut word = None;
    for part in parts {
        match part.split_once('=') {
            Some((name, value)) => {
                let value = value.trim_matches(['"', '\'']).to_owned();
                draft.insert("run.env", name.trim(), value, origin);
            }
            None if part == "ALL" => word = Some("all"),
            None if part == "NONE" || part == "NIL" => word = Some("none"),
            None => names.push(part.to_owned()),
        }
    }
    // All of them hold these too; a list that only sets values hands over nothing else.
    let everything = matches!(draft.get("run.inherit"), Some(Value::Text(word)) if word == "all");
    match word {
        _ if everything => {}
        Some(word) => draft.set("run.inherit", word, origin),
        None => {
            for name in names {
                draft.push("run.inherit", name, origin);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn made(lists: &[&str]) -> (Option<Value>, Option<Value>) {
        let mut draft = Draft::default();
        for list in lists {
            set(&mut draft, list, &Origin::new("-v", 0..1));
        }
        (
            draft.get("run.inherit").cloned(),
            draft.get("run.env").cloned(),
        )
    }

    #[test]
    fn names_are_inherited_and_values_set() {
        let text = |text: &str| Value::Text(text.to_owned());
        let texts =
            |texts: &[&str]| Value::Texts(texts.iter().map(|text| (*text).to_owned()).collect());
        let one = Value::Table(vec![("B".to_owned(), text("1"))]);
        assert_eq!(
            made(&["A,B=1,C"]),
            (Some(texts(&["A", "C"])), Some(one.clone()))
        );
        assert_eq!(made(&["ALL,B=1"]), (Some(text("all")), Some(one.clone())));
        assert_eq!(made(&["NONE"]), (Some(text("none")), None));
        assert_eq!(made(&["ALL", "A"]), (Some(text("all")), None));
        assert_eq!(made(&["B=1"]), (None, Some(one)));
    }
}
