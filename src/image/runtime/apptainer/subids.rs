//! Ids beyond a user's own, which newuidmap hands out.

use std::path::Path;
use std::time::Duration;

use nix::unistd::{Uid, User};

use crate::foundation::command::{Tool, find_in};
use crate::image::runtime::host_view::HostView;

const PATIENCE: Duration = Duration::from_secs(5);

/// The lengths of this user's longest ranges of user ids and of group ids.
pub(crate) fn longest_ranges(around: &HostView<'_>, uid: u32) -> (u64, u64) {
    let name = User::from_uid(Uid::from_raw(uid))
        .ok()
        .flatten()
        .map(|user| user.name);
    let file = |path: &str| longest(&around.text(path).unwrap_or_default(), name.as_deref(), uid);
    let (uids, gids) = (file("etc/subuid"), file("etc/subgid"));
    if !comes_from_a_directory(&around.text("etc/nsswitch.conf").unwrap_or_default()) {
        return (uids, gids);
    }
    let getsubids = find_in("getsubids", &around.helper_dirs(None));
    let ask =
        |options: &[&str]| getsubids_longest(getsubids.as_deref()?, options, name.as_deref()?);
    (
        uids.max(ask(&[]).unwrap_or(0)),
        gids.max(ask(&["-g"]).unwrap_or(0)),
    )
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

/// Whether `subid:` of `/etc/nsswitch.conf` names something other than the files (shadow 4.9 and later).
fn comes_from_a_directory(nsswitch: &str) -> bool {
    let lines = nsswitch
        .lines()
        .map(|line| line.split('#').next().unwrap_or_default());
    let mut sources = lines.filter_map(|line| line.trim().strip_prefix("subid:"));
    sources.any(|sources| {
        sources
            .split_whitespace()
            .any(|source| source != "files" && !source.starts_with('['))
    })
}

/// What `getsubids` prints: `0: alice 100000 65536`. `None`: it gave no answer; it fails where there is no range.
fn getsubids_longest(tool: &Path, options: &[&str], name: &str) -> Option<u64> {
    let output = Tool::new(tool)
        .args(options)
        .arg(name)
        .timeout(PATIENCE)
        .output_limit(1 << 20)
        .run()
        .ok()?;
    output.status.code()?;
    let counts = output
        .stdout
        .lines()
        .filter_map(|line| line.split_whitespace().nth(3)?.parse().ok());
    Some(counts.max().unwrap_or(0))
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

    #[test]
    fn the_directory_is_asked_where_the_site_says_so() {
        for (text, asked) in [
            ("", false),
            ("passwd: files sss\n", false),
            ("subid: files\n", false),
            ("# subid: sss\n", false),
            ("subid:\tsss # ours\n", true),
            ("subid: files sss", true),
        ] {
            assert_eq!(comes_from_a_directory(text), asked, "{text}");
        }
    }
}
