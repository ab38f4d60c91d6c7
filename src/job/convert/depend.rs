//! What a job waits for: `afterok:1:2,afterany:3` of Slurm and PBS as entries of the job file.

use crate::job::Dependency;

/// Conditions of the job file, all of which must hold. `None` where the text says something that they cannot.
pub(super) fn conditions(text: &str) -> Option<Vec<String>> {
    let text = text.trim();
    let text = text.strip_prefix("depend=").unwrap_or(text);
    let mut conditions = Vec::new();
    for part in text.split(',') {
        let mut words = part.trim().split(':');
        let kind = words.next()?;
        if is_job_id(kind) {
            // A bare id, as people write it: after that job, if it went well.
            conditions.push(format!("afterok:{part}"));
            continue;
        }
        let kind = kind.to_ascii_lowercase();
        let before = conditions.len();
        for job in words {
            // `after:ID+MINUTES` delays, which nothing here can say.
            let condition = format!("{kind}:{job}");
            let is_plain = is_job_id(job) && !job.contains('+');
            conditions.push(
                Dependency::parse(&condition)
                    .ok()
                    .filter(|_| is_plain)?
                    .to_string(),
            );
        }
        if conditions.len() == before {
            return None;
        }
    }
    Some(conditions)
}

fn is_job_id(text: &str) -> bool {
    text.starts_with(|c: char| c.is_ascii_digit())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn conditions_are_taken_apart() {
        for (text, expected) in [
            ("afterok:1234", vec!["afterok:1234"]),
            ("1234", vec!["afterok:1234"]),
            (
                "afterok:1:2,afterany:3.server",
                vec!["afterok:1", "afterok:2", "afterany:3.server"],
            ),
            ("depend=afternotok:7[]", vec!["afternotok:7[]"]),
        ] {
            assert_eq!(
                conditions(text),
                Some(expected.into_iter().map(str::to_owned).collect()),
                "{text}"
            );
        }
        for text in [
            "singleton",
            "afterok:1?afterok:2",
            "after:1+5",
            "on:3",
            "afterok",
            "afterok:",
            "",
            ":",
        ] {
            assert_eq!(conditions(text), None, "{text}");
        }
    }
}
