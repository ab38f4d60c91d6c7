//! What the tests of the command line share: a private place with a cleared environment, fake schedulers, patience.

pub(crate) mod dlrund;
pub(crate) mod env;
pub(crate) mod fakes;
pub(crate) mod index_rows;
pub(crate) mod noisy;
pub(crate) mod nvml;
pub(crate) mod planted;
pub(crate) mod recorded;
pub(crate) mod rows;
pub(crate) mod same;
pub(crate) mod scripted;
pub(crate) mod stand_in;
pub(crate) mod trained;
pub(crate) mod wait;

pub(crate) use dlrund::{Dlrund, RawClient};
pub(crate) use env::{DLRUN, Done, TestEnv, python};
pub(crate) use fakes::Fake;
pub(crate) use nvml::FakeNvml;
pub(crate) use scripted::Scripted;
pub(crate) use trained::Trained;
pub(crate) use wait::{wait_for, wait_for_some};

/// Tells whoever reads the tests' output.
pub(crate) fn tell(text: &str) {
    use std::io::Write;
    let _ = writeln!(std::io::stderr(), "{text}");
}

/// Text whose sentences were broken into lines, in one line.
pub(crate) fn unwrapped(text: &str) -> String {
    text.lines()
        .map(str::trim_start)
        .collect::<Vec<_>>()
        .join(" ")
}

/// Says on standard error that a test did nothing, and why.
pub(crate) fn skip(why: &str) {
    tell(&format!("SKIPPED: {why}"));
}
