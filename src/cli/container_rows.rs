//! The container of a run, as rows of `dlrun show`.

use crate::record::{ContainerRecord, NodeRecord, RunImage};

/// Image, runtime and flags; each node's own where they differ. `planned` is what the submission knew.
pub(crate) fn rows(
    planned: Option<&RunImage>,
    nodes: &[NodeRecord],
    row: &mut impl FnMut(&str, String),
) {
    let records: Vec<(&str, &ContainerRecord)> = nodes
        .iter()
        .filter_map(|node| Some((&*node.key.node, node.container.as_ref()?)))
        .collect();
    let Some(((_, first), others)) = records.split_first() else {
        if let Some(image) = planned {
            row("container", image_text(image));
        }
        return;
    };
    row("container", image_text(&first.image));
    row("runtime", entry_text(first));
    for (node, other) in others
        .iter()
        .filter(|(_, other)| entry_text(other) != entry_text(first))
    {
        row(&format!("runtime on {node}"), entry_text(other));
    }
    for (node, record) in &records {
        if let Some(why) = &record.gpu_missing {
            row("GPU MISSING", format!("{node}: {why}"));
        }
    }
}

fn image_text(image: &RunImage) -> String {
    let digest = image.digest.as_ref().map(|digest| {
        let shown = digest.find(':').map_or(12, |at| at + 13);
        format!(", {}", digest.get(..shown).unwrap_or(digest))
    });
    let digest = digest.unwrap_or_default();
    match &image.name {
        Some(name) => format!("{name} ({}{digest})", image.source),
        None => format!("{}{digest}", image.source),
    }
}

/// `apptainer 1.4.5: --nv, --pwd`
fn entry_text(record: &ContainerRecord) -> String {
    let runtime = record
        .runtime_text()
        .unwrap_or_else(|| "none was started".to_owned());
    let flags = record.flags.iter().map(|reason| &*reason.flag);
    let flags: Vec<&str> = flags.filter(|flag| flag.starts_with('-')).collect();
    match &record.unasked {
        Some(why) => format!("{runtime}, with the flags of the submission: {why}"),
        None if flags.is_empty() => runtime,
        None => format!("{runtime}: {}", flags.join(", ")),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_image_is_told_with_the_beginning_of_its_digest() {
        let mut image = RunImage {
            source: "/i/tf.sif".into(),
            name: Some("tf".into()),
            digest: Some(format!("sha256:{}", "ab".repeat(32))),
        };
        assert_eq!(image_text(&image), "tf (/i/tf.sif, sha256:abababababab)");
        image.digest = Some("é".into());
        image.name = None;
        assert_eq!(image_text(&image), "/i/tf.sif, é");
    }
}
