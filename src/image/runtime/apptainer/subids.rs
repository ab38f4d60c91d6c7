//! Ids beyond a user's own, which newuidmap hands out.

use nix::unistd::{Uid, User};

use crate::image::runtime::host_view::HostView;

/// The lengths of this user's longest ranges of user ids and of group ids.
pub(crate) fn longest_ranges(around: &HostView<'_>, uid: u32) -> (u64, u64) {
    let name = User::from_uid(Uid::from_raw(uid))
        .ok()
        .flatten()
        .map(|user| user.name);
    let file = |path: &str| longest(&around.text(path).unwrap_or_default(), name.as_deref(), uid);
    (file("etc/subuid"), file("etc/subgid"))
}

/// The longest of a user's ranges in the text of `/etc/subuid` or `/etc/subgid`: `alice:100000:65536` or
/// `1000:100000:65536`, see `subuid(5)`.
///
/// The runtimes map one range and never add several up; they skip lines that make no sense, and those that begin with
/// `!`, which their `config fakeroot --disable` writes (Apptainer 1.4, `internal/pkg/fakeroot`).
fn longest(text: &str, name: Option<&str>, uid: u32) -> u64 {
    let number = uid.to_string();
    let counts = text.lines().filter_map(|line| {
        let [owner, start, count] = line.trim().split(':').collect::<Vec<_>>()[..] else {
            return None;
        };
        let (_, count): (u32, u32) = (start.parse().ok()?, count.parse().ok()?);
        (Some(owner) == name || owner == number).then_some(u64::from(count))
    });
    counts.max().unwrap_or(0)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ranges_are_by_name_or_number_and_the_longest_counts() {
        let text = "alice:100000:65536\nbob:1:7\n1000:300000:70000\nalice:1:2:3\nalice:x:90000\nalice:1:-9\n\
                    :1:99999\n!alice:1:90000\nalice:5:99999999999\n alice:7:65537\n";
        assert_eq!(longest(text, Some("alice"), 7), 65537);
        assert_eq!(longest(text, Some("alice"), 1000), 70000);
        assert_eq!(longest(text, None, 1000), 70000);
        assert_eq!(longest(text, Some("bob"), 1), 7);
        for nobody in [Some("carol"), Some("ali"), None] {
            assert_eq!(longest(text, nobody, 8), 0, "{nobody:?}");
        }
    }
}
