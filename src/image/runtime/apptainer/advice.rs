//! What to do about a build or a pull that failed, by what the runtime said.

/// The user's next step, where the words are known.
#[must_use]
pub fn advice(words: &str) -> Option<&'static str> {
    let words = words.to_lowercase();
    let found = known().find(|(known, _)| known.split(" | ").any(|part| words.contains(part)));
    found.map(|(_, advice)| advice)
}

/// The lines of `advice.txt`: words of the runtime, and what to do.
fn known() -> impl Iterator<Item = (&'static str, &'static str)> {
    let lines = include_str!("advice.txt").lines();
    lines.filter_map(|line| line.split_once(" => "))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_apptainer_said_is_known() {
        // Apptainer 1.4.5.
        for (said, part) in [
            (
                "FATAL:   newuidmap was not found in PATH (/bin), required with fakeroot and unprivileged installation when user is \
                 in /etc/subuid",
                "uidmap",
            ),
            (
                "FATAL:   While performing build: packer failed to pack: while unpacking local image: copy Failed: failed to Lchown \
                 \"/tmp/build-temp-1/rootfs/bin\" for UID 65534, GID 65534",
                "files of other users",
            ),
            (
                "FATAL:   could not use fakeroot: no mapping entry found in /etc/subuid for alice",
                "listed users",
            ),
            (
                "pinging container registry r: http: server gave HTTP response to HTTPS client",
                "NOHTTPS",
            ),
            (
                "reading manifest 1 in 127.0.0.1:5055/a/y: manifest unknown",
                "no such image",
            ),
        ] {
            assert!(
                advice(said).is_some_and(|advice| advice.contains(part)),
                "{said}: {:?}",
                advice(said)
            );
        }
        assert_eq!(
            advice("error: command 'gcc' failed with exit status 1"),
            None
        );
        assert!(known().count() > 10 && known().all(|(words, _)| *words == *words.to_lowercase()));
    }
}
