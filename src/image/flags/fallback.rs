//! The words of a container where nobody can look at the node: what the batch script runs where dlrun is missing.

use crate::image::flags::Container;

/// The words behind the runtime's command, up to and with the image, as every version knows them. What needs knowledge of
/// the node is left out: variables in bind sources, sources that only `--mount` can name, versions.
#[must_use]
pub fn bare(container: &Container) -> Vec<String> {
    let mut words = vec!["exec".to_owned()];
    let flags = [
        (container.nv, "--nv"),
        (container.rocm, "--rocm"),
        (container.fakeroot, "--fakeroot"),
        (container.cleanenv, "--cleanenv"),
    ];
    words.extend(
        flags
            .iter()
            .filter(|(given, _)| *given)
            .map(|(_, flag)| (*flag).to_owned()),
    );
    words.extend(container.options.iter().cloned());
    for bind in container.binds.iter().filter(|bind| !bind.has_variable()) {
        if [&bind.source, &bind.target]
            .iter()
            .all(|path| !path.contains([':', ',', '\\']))
        {
            let mode = if bind.read_only { ":ro" } else { "" };
            words.extend([
                "--bind".to_owned(),
                format!("{}:{}{mode}", bind.source, bind.target),
            ]);
        }
    }
    words.push(container.source.clone());
    words
}
