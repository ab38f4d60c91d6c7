//! The text of `qstat -f -w`, read as what its JSON would hold of jobs.
//!
//! A job begins with `Job Id: 14.srv`; each of its attributes is a line `    job_state = R`. A line that is none goes on with
//! the value before, which held a line break. Of a key that stands twice the first counts: a variable with line breaks could
//! hold lines that look like attributes.

use super::json::Value;

/// Reads the jobs that there are.
pub(super) fn read(text: &str) -> Value {
    let mut jobs: Vec<(String, Vec<(String, String)>)> = Vec::new();
    for line in text.lines() {
        if let Some(id) = line.strip_prefix("Job Id: ") {
            jobs.push((id.trim().to_owned(), Vec::new()));
        } else if let Some((_, attributes)) = jobs.last_mut() {
            match attribute(line) {
                Some((key, value)) if attributes.iter().all(|(known, _)| known != key) => {
                    attributes.push((key.to_owned(), value.to_owned()));
                }
                Some(_) => {}
                None => {
                    if let Some((_, value)) = attributes.last_mut() {
                        value.push_str(line.trim_start_matches('\t'));
                    }
                }
            }
        }
    }
    let object = |attributes: Vec<(String, String)>| {
        Value::Object(attributes.into_iter().map(|(key, value)| (key, Value::Text(value))).collect())
    };
    let jobs = jobs.into_iter().map(|(id, attributes)| (id, object(attributes))).collect();
    Value::Object(vec![("Jobs".to_owned(), Value::Object(jobs))])
}

fn attribute(line: &str) -> Option<(&str, &str)> {
    let (key, value) = line.strip_prefix("    ")?.split_once(" = ")?;
    let is_key = !key.is_empty() && key.chars().all(|c| c.is_ascii_alphanumeric() || "_.".contains(c));
    is_key.then_some((key, value))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn jobs_are_read_with_their_attributes() {
        let text = "Job Id: 7.s\n    Job_Name = a = b\n    job_state = R\n    Variable_List = A=1\n    job_state = F\nmore\n    comment = Job run\n\nJob Id: 8[].s\n    job_state = Q\n";
        let answer = read(text);
        let job = |id: &str| answer.get("Jobs").and_then(|jobs| jobs.get(id)).cloned().expect("it is there");
        assert_eq!((job("7.s").text("Job_Name"), job("7.s").text("job_state")), (Some("a = b"), Some("R")));
        assert_eq!(job("7.s").text("comment"), Some("Job run"));
        assert_eq!(job("8[].s").text("job_state"), Some("Q"));
        assert_eq!(read("    job_state = R\n"), read(""));
    }

    proptest::proptest! {
        #[test]
        fn nothing_makes_it_panic(text in "(Job Id: |    |a = b|\n|\t|.){0,40}") {
            read(&text);
        }
    }
}
