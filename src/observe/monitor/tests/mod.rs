//! What the tests of this room share.

pub(super) mod fake_cgroup;
pub(super) mod fake_proc;
