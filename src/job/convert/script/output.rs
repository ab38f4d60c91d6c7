//! Where the output goes: `--output` of `sbatch` and `-o` of `qsub` as `run.output`.

use crate::job::convert::draft::{Draft, Origin};
use crate::job::convert::write::Value;

pub(super) const ONE_FILE: &str =
    "dlrun writes output and errors to one file with the job's id in its name";

/// Sets `run.output`, or notes that dlrun names the file: without the job's id in its name it could be other jobs' too.
pub(super) fn set(pattern: &str, origin: &Origin, draft: &mut Draft) {
    let (is_array, has_index) = (draft.holds("resources.array"), pattern.contains("%a"));
    // The id of an element's job is its own; under one name for all elements it is the array's with the index.
    let pattern = if is_array && !has_index {
        pattern.replace("%j", "%A_%a")
    } else {
        pattern.to_owned()
    };
    let is_own = ["%j", "%A"].iter().any(|id| pattern.contains(id));
    let value = Value::Text(pattern.clone());
    if is_own && pattern.contains("%a") == is_array && Draft::takes("run.output", &value) {
        draft.set("run.output", value, origin);
        if is_array && !has_index {
            draft.note(
                origin,
                "each element's file is named by the array's id and the element's index",
            );
        }
    } else {
        draft.note(origin, ONE_FILE);
    }
}

/// A path of PBS as a pattern: its id and name, and in a directory the name that PBS gives the file. The host before it is the
/// one that the job was submitted on.
pub(super) fn of_pbs(path: &str, is_array: bool) -> String {
    let path = match path.split_once(':') {
        Some((host, path)) if !host.contains('/') => path,
        _ => path,
    };
    // An element's id holds its index.
    let id = if is_array { "%A_%a" } else { "%j" };
    let mut pattern = path.replace('%', "%%").replace("^array_index^", "%a");
    for (name, value) in [("PBS_JOBID", id), ("PBS_JOBNAME", "%x")] {
        pattern = pattern.replace(&format!("${{{name}}}"), value);
        pattern = pattern.replace(&format!("${name}"), value);
    }
    if pattern.ends_with('/') {
        pattern = format!("{pattern}%x.o{id}");
    }
    pattern
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn paths_of_pbs_become_patterns() {
        for (path, is_array, pattern) in [
            ("$PBS_JOBNAME.$PBS_JOBID.out", false, "%x.%j.out"),
            (
                "logs/${PBS_JOBNAME}_${PBS_JOBID}.out",
                false,
                "logs/%x_%j.out",
            ),
            ("login1:/h/a_${PBS_JOBID}.log", false, "/h/a_%j.log"),
            ("pbs_log/", false, "pbs_log/%x.o%j"),
            ("log/^array_index^.out", true, "log/%a.out"),
            ("moab-%j.out", false, "moab-%%j.out"),
        ] {
            assert_eq!(of_pbs(path, is_array), pattern, "{path}");
        }
    }
}
