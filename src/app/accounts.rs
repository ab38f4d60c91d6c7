//! Users and groups as messages name them.

use nix::unistd::{Gid, Group, Uid, User};

/// The name of a user; `None` where this machine knows none.
pub(crate) fn user_name(uid: u32) -> Option<String> {
    User::from_uid(Uid::from_raw(uid))
        .ok()
        .flatten()
        .map(|user| user.name)
}

/// "user `ada`", or "user id 1000".
pub(crate) fn user(uid: u32) -> String {
    user_name(uid).map_or_else(|| format!("user id {uid}"), |name| format!("user `{name}`"))
}

/// "group `staff`", or "group id 50".
pub(crate) fn group(gid: u32) -> String {
    let group = Group::from_gid(Gid::from_raw(gid)).ok().flatten();
    group.map_or_else(
        || format!("group id {gid}"),
        |group| format!("group `{}`", group.name),
    )
}
