//! `dlrun check --schema`: the JSON Schema of the job file.

use crate::app::error::Error;
use crate::app::output::Output;
use crate::job::schema::schema;

/// Runs the verb.
pub(crate) fn run(output: Output) -> Result<u8, Error> {
    let schema = schema();
    output.document(&schema, &format!("{schema:#}\n"))
}
