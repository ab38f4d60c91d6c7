//! The labels of an image, as the runtime reads them.

use std::collections::BTreeMap;
use std::path::Path;
use std::time::Duration;

use serde_json::Value;

use crate::foundation::command::Tool;
use crate::image::runtime::failure::ContainerError;

/// 47 ms on a quiet machine; an image on a busy file server may take long.
const PATIENCE: Duration = Duration::from_secs(60);
/// A definition file may be a label's value.
const LIMIT: usize = 4 << 20;

/// The labels of the image at `path`: `RUNTIME inspect --json PATH`, which starts no container.
///
/// # Errors
/// [`ContainerError::Runtime`] with what the runtime says of it, [`ContainerError::Answer`] where that is not what it should
/// be.
pub fn labels(runtime: &Path, path: &Path) -> Result<BTreeMap<String, String>, ContainerError> {
    let failed = |source| ContainerError::Runtime(runtime.to_owned(), source);
    // An absolute path is never taken for an option or a URI.
    let path = std::path::absolute(path)
        .map_err(|source| ContainerError::Read(path.to_owned(), source))?;
    let tool = Tool::new(runtime)
        .args(["inspect", "--json"])
        .arg(&path)
        .timeout(PATIENCE)
        .output_limit(LIMIT);
    let output = tool
        .run()
        .and_then(|output| output.require_success(&tool.program()))
        .map_err(failed)?;
    read(&output.stdout).ok_or_else(|| ContainerError::Answer(runtime.to_owned(), "inspect --json"))
}

/// `{"data": {"attributes": {"labels": {..}}}, "type": "container"}`; an image without labels has none of it.
fn read(said: &str) -> Option<BTreeMap<String, String>> {
    let answer: Value = serde_json::from_str(said.trim()).ok()?;
    let attributes = answer.get("data")?.get("attributes")?;
    let labels = attributes
        .get("labels")
        .and_then(Value::as_object)
        .into_iter()
        .flatten();
    Some(
        labels
            .filter_map(|(name, value)| Some((name.clone(), value.as_str()?.to_owned())))
            .collect(),
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn labels_are_read_and_what_is_none_is_left_out() {
        let said = r#"{"data":{"attributes":{"labels":{"Author":"lab","org.label-schema.build-arch":"amd64","n":1}}},
            "type":"container"}"#;
        let found = read(said).expect("it is an answer");
        assert_eq!(found.get("Author").map(String::as_str), Some("lab"));
        assert_eq!(found.len(), 2);
        assert_eq!(
            read(r#"{"data":{"attributes":{}},"type":"container"}"#),
            Some(BTreeMap::new())
        );
        for other in ["", "FATAL", "{}", "[]", r#"{"data":{}}"#] {
            assert_eq!(read(other), None, "{other}");
        }
    }
}
