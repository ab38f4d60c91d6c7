//! What to do about a build or a pull that failed, by what the runtime said.

/// Words of the runtime and what to do. The first that fits counts.
const ADVICE: [(&[&str], &str); 11] = [
    (
        &["newuidmap was not found", "newgidmap was not found"],
        "install uidmap (Debian) or shadow-utils (Fedora): with a range in /etc/subuid the runtime needs newuidmap and newgidmap",
    ),
    (
        &[
            "no mapping entry found in /etc/subuid",
            "no mapping entry found in /etc/subgid",
        ],
        "this runtime builds for listed users only: root runs `usermod --add-subuids 200000-265535 --add-subgids 200000-265535 USER`",
    ),
    (
        // Apptainer 1.4.5 without a range: only uid 0 exists in there.
        &[
            "failed to change uid and gids",
            "failed to lchown",
            "set_attributes",
        ],
        "the base image has files of other users than root (of a sandbox: than you), which needs a range of ids in /etc/subuid and /etc/subgid: root runs \
         `usermod --add-subuids 200000-265535 --add-subgids 200000-265535 USER`; or take a base whose files are all root's",
    ),
    (
        &[
            "failed to create user namespace",
            "without sandbox image or user namespaces",
            "must be the root user",
        ],
        "this machine gives users no namespaces of their own; `dlrun doctor` says why; `--submit` builds on a node",
    ),
    (
        &["proot command are required"],
        "this runtime builds for users with `--fakeroot`, which needs a range of ids in /etc/subuid and /etc/subgid",
    ),
    (
        &[
            "faked",
            "libfakeroot",
            "fakeroot: not found",
            "fakeroot-sysv",
        ],
        "the machine's `fakeroot` does not run in this base image (another libc, or no shell); with a range of ids in /etc/subuid \
         and /etc/subgid it is not needed",
    ),
    (
        &["http response to https client"],
        "the registry speaks plain HTTP: set APPTAINER_NOHTTPS=1 (SINGULARITY_NOHTTPS=1) if that is meant",
    ),
    (
        &["unauthorized", "authentication required", "denied: "],
        "the registry wants to know who asks: `apptainer registry login` (1.3 and later), or `apptainer remote login`",
    ),
    (
        &["manifest unknown", "not found: manifest"],
        "the registry has no such image or tag",
    ),
    (
        &[
            "no such host",
            "connection refused",
            "i/o timeout",
            "network is unreachable",
            "temporary failure in name resolution",
        ],
        "the network does not reach there from this machine; the tables [mirrors] and [recipes] of the configuration name what \
         can be reached, and `--submit` builds on a node",
    ),
    (
        &["toomanyrequests"],
        "the registry allows no more pulls for now; a mirror in [mirrors] has no such limit",
    ),
];

/// The user's next step, where the words are known.
#[must_use]
pub fn advice(words: &str) -> Option<&'static str> {
    let words = words.to_lowercase();
    let fits = |known: &&(&[&str], &'static str)| known.0.iter().any(|part| words.contains(part));
    ADVICE.iter().find(fits).map(|(_, advice)| *advice)
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
        assert!(
            ADVICE
                .iter()
                .flat_map(|(words, _)| *words)
                .all(|word| *word == word.to_lowercase())
        );
    }
}
