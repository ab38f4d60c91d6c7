//! `docs/advice.md` names every rule and every number.

use std::fs;
use std::path::Path;

use dlrun::report::insight::{AdviceKind, LimitKind, THRESHOLDS};

/// The table of the numbers, as the page has it.
fn numbers() -> String {
    let mut text = "| number | value | decides | source |\n|---|---|---|---|\n".to_owned();
    for threshold in THRESHOLDS {
        let unit = match threshold.unit {
            "" => String::new(),
            "%" => "%".to_owned(),
            unit => format!(" {unit}"),
        };
        let (name, value) = (threshold.name, threshold.value);
        text.push_str(&format!(
            "| `{name}` | {value}{unit} | {} | {} |\n",
            threshold.meaning, threshold.source
        ));
    }
    text
}

#[test]
fn the_page_has_every_number_as_the_code_has_it() {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("docs/advice.md");
    let page = fs::read_to_string(&path).expect("the page");
    let begin = page.find("| number |").expect("the table");
    let length = page[begin..]
        .find("\n\n")
        .map_or(page.len() - begin, |end| end + 1);
    if std::env::var_os("UPDATE_DOCS").is_some() {
        let page = format!("{}{}{}", &page[..begin], numbers(), &page[begin + length..]);
        fs::write(&path, page).expect("ours");
        return;
    }
    assert_eq!(
        &page[begin..begin + length],
        numbers(),
        "UPDATE_DOCS=1 updates it"
    );
}

#[test]
fn the_page_has_every_rule_and_every_limit() {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("docs/advice.md");
    let page = fs::read_to_string(path).expect("the page");
    for kind in AdviceKind::ALL.map(AdviceKind::as_str) {
        assert!(page.contains(&format!("\n| `{kind}` | ")), "{kind}");
    }
    for kind in LimitKind::ALL.map(LimitKind::as_str) {
        assert!(page.contains(&format!("\n| `{kind}` | ")), "{kind}");
    }
    for threshold in THRESHOLDS {
        let rules = page.find("| number |").expect("the table");
        assert!(
            page[..rules].contains(&format!("`{}`", threshold.name)),
            "{} is in no rule",
            threshold.name
        );
    }
}
