//! An array that goes beyond the site's largest index, as several jobs whose indexes start again.
//!
//! The script adds `DLRUN_ARRAY_OFFSET` to the index that Slurm gives (`script/identity.rs`).

use crate::job::{ArraySpec, DependencyKind, JobId};
use crate::launch::{Plan, PlannedDependency};

/// More jobs than this are no array that somebody means to wait for; it also keeps a typing error off the controller.
const MOST_PARTS: usize = 100;

/// One job of a split array.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Part {
    /// What is added to its indexes.
    pub(super) offset: u32,
    /// Its indexes, as Slurm gets them.
    pub(super) array: ArraySpec,
}

/// Splits the indexes into blocks of the largest index and one; a block without an index is no job.
///
/// # Errors
/// A sentence fragment with the site's number, where the array would be too many jobs.
pub(super) fn split(array: &ArraySpec, max_index: u32) -> Result<Vec<Part>, String> {
    if array.last() <= max_index {
        return Ok(vec![Part {
            offset: 0,
            array: array.clone(),
        }]);
    }
    let Some(block) = max_index.checked_add(1) else {
        return Err("its indexes are too large".to_owned());
    };
    let mut blocks: Vec<(u32, Vec<u32>)> = Vec::new();
    for index in array.indexes() {
        let offset = index - index % block;
        let full = blocks.len() == MOST_PARTS;
        match blocks.last_mut() {
            Some((last, indexes)) if *last == offset => indexes.push(index - offset),
            _ if full => return Err(too_many(array, max_index)),
            _ => blocks.push((offset, vec![index - offset])),
        }
    }
    let part = |(offset, indexes): (u32, Vec<u32>)| Part {
        offset,
        array: ArraySpec::of(&indexes, array.limit),
    };
    Ok(blocks.into_iter().map(part).collect())
}

fn too_many(array: &ArraySpec, max_index: u32) -> String {
    format!(
        "`resources.array` goes up to index {}, but the largest that the site takes is {max_index} (`MaxArraySize`), \
         and it would be split into more than {MOST_PARTS} jobs; hand it over in several runs",
        array.last()
    )
}

/// The plan of one part of several. Where the number of elements that run at a time is limited, a part waits for the one
/// before it, so that the limit holds for all of them together.
pub(super) fn plan_of(plan: &Plan, parts: &[Part], at: usize, former: Option<&JobId>) -> Plan {
    let mut own = plan.clone();
    own.resources.array = Some(parts[at].array.clone());
    for depend in &mut own.resources.depends {
        // An element waits for that of the same index: in a job that was split alike, in the part of the same number.
        if depend.kind == DependencyKind::AfterCorr && depend.job_ids.len() == parts.len() {
            depend.job_ids = vec![depend.job_ids[at].clone()];
        }
    }
    if let Some(former) = former.filter(|_| parts[at].array.limit.is_some()) {
        let job_ids = vec![former.clone()];
        own.resources.depends.push(PlannedDependency {
            kind: DependencyKind::AfterAny,
            job_ids,
        });
    }
    own
}

/// Says why elements of a split array would write into one file; `None` where none would.
pub(super) fn shared_output(plan: &Plan, parts: &[Part]) -> Option<String> {
    (parts.len() > 1 && !plan.has_own_output()).then(|| {
        let count = parts.len();
        format!(
            "`run.output` needs `%j`: the array is split into {count} jobs, in each of which `%a` starts again"
        )
    })
}

/// Says why a dependency cannot be kept by a split array; `None` where all can.
pub(super) fn lost_dependency(plan: &Plan, parts: &[Part]) -> Option<String> {
    let lost = plan.resources.depends.iter().any(|depend| {
        depend.kind == DependencyKind::AfterCorr
            && parts.len() > 1
            && depend.job_ids.len() != parts.len()
    });
    lost.then(|| {
        let count = parts.len();
        format!("`aftercorr` waits for elements of the same index, and its array is split into {count} jobs")
    })
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn parts(text: &str, max_index: u32) -> Vec<(u32, String)> {
        let array = ArraySpec::parse(text).expect("valid");
        let parts = split(&array, max_index).expect("few enough");
        parts
            .into_iter()
            .map(|part| (part.offset, part.array.to_string()))
            .collect()
    }

    #[test]
    fn arrays_are_split_at_the_sites_largest_index() {
        assert_eq!(parts("0-99%8", 1000), [(0, "0-99%8".to_owned())]);
        assert_eq!(
            parts("0-9", 4),
            [(0, "0-4".to_owned()), (5, "0-4".to_owned())]
        );
        assert_eq!(
            parts("1,3,7-11%2", 4),
            [
                (0, "1,3%2".into()),
                (5, "2-4%2".into()),
                (10, "0-1%2".into())
            ]
        );
        assert_eq!(parts("5000-5001", 1000), [(4004, "996-997".to_owned())]);
    }

    #[test]
    fn too_many_parts_are_refused_with_the_sites_number() {
        let array = ArraySpec::parse("0-999999").expect("valid");
        let why = split(&array, 1000).expect_err("a thousand jobs");
        assert!(
            why.contains("999999") && why.contains("1000") && why.contains("100 jobs"),
            "{why}"
        );
        assert!(split(&array, 9999).is_ok_and(|parts| parts.len() == 100));
    }

    proptest! {
        #[test]
        fn every_element_is_in_one_part_and_none_is_beyond_the_largest_index(
            first in 0_u32..5000, length in 0_u32..3000, step in 1_u32..7, max_index in 50_u32..2000,
        ) {
            let text = format!("{first}-{}:{step}", first + length);
            let array = ArraySpec::parse(&text).expect("valid");
            if let Ok(parts) = split(&array, max_index) {
                let all = parts.iter().flat_map(|part| part.array.indexes().map(|index| index + part.offset));
                prop_assert_eq!(all.collect::<Vec<_>>(), array.indexes().collect::<Vec<_>>());
                prop_assert!(parts.iter().all(|part| part.array.last() <= max_index));
            }
        }
    }
}
