//! The nodes of a job as schedulers write them: `n[1-3,7],gpu01` with tasks `2(x3),1` (Slurm), or names alone.

/// More nodes than any machine has: a longer list is a mistake.
const MAX_HOSTS: usize = 100_000;

/// The names of a host list, in its order (`scontrol show hostnames`). `None`: it cannot be read.
///
/// ```
/// let hosts = dlrun::launch::hosts("n[08-10],gpu-a,r[1-2]c[1,3]");
/// assert_eq!(hosts.unwrap().join(" "), "n08 n09 n10 gpu-a r1c1 r1c3 r2c1 r2c3");
/// ```
#[must_use]
pub fn hosts(list: &str) -> Option<Vec<String>> {
    let mut hosts = Vec::new();
    let mut rest = list.trim();
    while !rest.is_empty() {
        let mut depth = 0_u32;
        let end = rest.find(|c| {
            match c {
                '[' => depth += 1,
                ']' => depth = depth.saturating_sub(1),
                _ => {}
            }
            c == ',' && depth == 0
        });
        let (name, after) = rest.split_at(end.unwrap_or(rest.len()));
        hosts.extend(expanded(name)?);
        if hosts.len() > MAX_HOSTS {
            return None;
        }
        rest = after.strip_prefix(',').unwrap_or(after);
    }
    Some(hosts).filter(|hosts| !hosts.is_empty())
}

/// One entry of a host list: `r[1-2]c[1,3]` are four.
fn expanded(name: &str) -> Option<Vec<String>> {
    let Some((head, rest)) = name.split_once('[') else {
        return (!name.is_empty() && !name.contains(']')).then(|| vec![name.to_owned()]);
    };
    let (ranges, tail) = rest.split_once(']')?;
    let tails = if tail.is_empty() {
        vec![String::new()]
    } else {
        expanded(tail)?
    };
    let mut names = Vec::new();
    for range in ranges.split(',') {
        let (first, last) = range.split_once('-').unwrap_or((range, range));
        let (from, to): (usize, usize) = (first.parse().ok()?, last.parse().ok()?);
        if to < from || (to - from).saturating_mul(tails.len()) > MAX_HOSTS {
            return None;
        }
        let width = first.len();
        for number in from..=to {
            names.extend(
                tails
                    .iter()
                    .map(|tail| format!("{head}{number:0width$}{tail}")),
            );
        }
    }
    Some(names)
}

/// How many tasks each node has, as Slurm writes it in `SLURM_TASKS_PER_NODE`: `2(x3),1` is 2, 2, 2 and 1.
#[must_use]
pub fn tasks_of_nodes(text: &str) -> Option<Vec<u32>> {
    let mut tasks = Vec::new();
    for entry in text.split(',') {
        let (count, times) = match entry.split_once("(x") {
            Some((count, times)) => (count, times.strip_suffix(')')?.parse().ok()?),
            None => (entry, 1),
        };
        if tasks.len() + times > MAX_HOSTS {
            return None;
        }
        tasks.extend(std::iter::repeat_n(
            count.trim().parse::<u32>().ok()?,
            times,
        ));
    }
    Some(tasks)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn host_list_that_is_damaged_is_refused() {
        for list in ["", "n[1-", "n]", "n[2-1]", "n[a-b]", "n[1-99999999]", ",,"] {
            assert_eq!(hosts(list), None, "{list}");
        }
        assert_eq!(
            hosts("a.example.org,b"),
            Some(vec!["a.example.org".into(), "b".into()])
        );
    }

    #[test]
    fn tasks_of_uneven_nodes_are_expanded() {
        assert_eq!(tasks_of_nodes("2(x3),1"), Some(vec![2, 2, 2, 1]));
        assert_eq!(tasks_of_nodes("1"), Some(vec![1]));
        assert_eq!(tasks_of_nodes("2(x"), None);
        assert_eq!(tasks_of_nodes("2(x99999999)"), None);
    }
}
