//! `qstat -f -F json` and `pbsnodes -a -F json` of OpenPBS.

use super::Seen;
use super::pbs::{Attributes, job, node};
use crate::scheduler::openpbs::json::{self, Value};

pub(super) fn read(text: &str) -> Option<Seen> {
    let value = json::read(text);
    if let Some(Value::Object(jobs)) = value.get("Jobs") {
        let jobs = jobs.iter().filter_map(|(id, value)| job(id, &flat(value))).collect();
        return Some(Seen { form: "qstat -f -F json", scheduler: "openpbs", jobs, ..Seen::default() });
    }
    // Slurm has a list of that name.
    let Some(Value::Object(nodes)) = value.get("nodes") else { return None };
    let nodes = nodes.iter().filter_map(|(name, value)| node(name, &flat(value))).collect();
    Some(Seen { form: "pbsnodes -F json", scheduler: "openpbs", nodes, ..Seen::default() })
}

/// Nested tables as `Resource_List.ncpus`, as the text forms have them.
fn flat(value: &Value) -> Attributes {
    let mut attributes = Attributes::new();
    for (key, value) in value.members() {
        if let Value::Text(text) = value {
            attributes.insert(key.clone(), text.clone());
        }
        attributes.extend(value.members().iter().filter_map(|(name, value)| match value {
            Value::Text(text) => Some((format!("{key}.{name}"), text.clone())),
            _ => None,
        }));
    }
    attributes
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_answer_that_breaks_off_gives_its_whole_jobs() {
        let text = r#"{"Jobs":{"7.s":{"job_state":"R","Job_Name":"a","Resource_List":{"ngpus":2,"walltime":"01:00:00"}},"8.s":{"job_state""#;
        let seen = read(text).expect("jobs");
        let jobs: Vec<_> = seen
            .jobs
            .iter()
            .map(|job| (job.job_id.as_deref().unwrap_or_default(), job.gpus, job.time_limit_s))
            .collect();
        assert_eq!(jobs, [("7.s", Some(2), Some(3600))]);
        assert_eq!((read(r#"{"jobs":[{"job_id":7}]}"#), read(r#"{"nodes":[{"name":"n1"}]}"#)), (None, None));
    }
}
