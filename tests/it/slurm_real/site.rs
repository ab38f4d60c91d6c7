//! What a real controller tells of its site.

use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::time::{Duration, Instant};

use dlrun::foundation::units::Walltime;
use dlrun::scheduler::Scheduler;
use dlrun::scheduler::slurm::Slurm;

use super::cluster::conf;

/// Slurm's commands with the test cluster's configuration, which is no part of this process's environment.
pub(super) fn slurm() -> (tempfile::TempDir, Slurm) {
    let dir = tempfile::tempdir().expect("the directory is ours");
    for program in ["scontrol", "sinfo", "squeue"] {
        let path = dir.path().join(program);
        let conf = conf().display().to_string();
        fs::write(
            &path,
            format!(
                "#!/bin/sh\nSLURM_CONF='{conf}' PATH=/usr/local/bin:/usr/bin:/bin exec {program} \"$@\"\n"
            ),
        )
        .expect("the directory is ours");
        fs::set_permissions(&path, fs::Permissions::from_mode(0o755))
            .expect("the directory is ours");
    }
    let slurm = Slurm::new(Some(dir.path().to_owned()), Duration::from_secs(20));
    (dir, slurm)
}

#[test]
#[ignore = "needs slurmctld: run tests/run"]
fn the_site_is_what_its_configuration_says() {
    let (_dir, slurm) = slurm();
    let began = Instant::now();
    let site = slurm.site().unwrap();
    let took = began.elapsed();
    assert!(took < Duration::from_secs(5), "{took:?}");
    assert!(
        site.version
            .as_deref()
            .is_some_and(|version| version.contains('.')),
        "{site:?}"
    );
    assert_eq!(
        (site.accounting, site.max_array_index),
        (Some(false), Some(100))
    );
    let queues: Vec<(&str, bool, bool, Option<Walltime>)> = site
        .queues
        .iter()
        .map(|queue| {
            (
                queue.name.as_str(),
                queue.is_default,
                queue.is_up,
                queue.max_walltime,
            )
        })
        .collect();
    assert_eq!(
        queues,
        [
            ("batch", true, true, Some(Walltime(7 * 86_400))),
            ("debug", false, true, Some(Walltime(1800))),
            ("scavenge", false, true, Some(Walltime(86_400))),
        ]
    );
    assert_eq!(site.nodes.len(), 2, "two racks: {:?}", site.nodes);
    for kind in &site.nodes {
        assert_eq!((kind.count, kind.cpus, kind.queues.len()), (2, Some(16), 3));
        assert_eq!(kind.gpus, [("v100".to_owned(), 4)]);
        assert_eq!(kind.memory.map(|memory| memory.0), Some(64_000 << 20));
        assert!(kind.features.contains(&"ib".to_owned()));
    }
    assert_eq!(
        site.licenses,
        [("matlab".to_owned(), 4), ("stata".to_owned(), 2)]
    );
}
