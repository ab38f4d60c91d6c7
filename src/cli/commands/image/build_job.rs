//! `dlrun image build --submit`: the build as a job of the scheduler.

use serde_json::json;

use crate::app::error::Error;
use crate::app::images::auto_build::running;
use crate::app::images::build_job::{Resources, submit};
use crate::app::images::making::{Order, log_of};
use crate::app::session::Session;
use crate::cli::args::ImageBuild;
use crate::cli::commands::submit::{run_json, run_text};

/// Hands the build over; the job runs `dlrun image build` on a node.
pub(super) fn run(session: &Session, args: &ImageBuild, order: &Order) -> Result<u8, Error> {
    let resources = Resources {
        queue: args.queue.clone(),
        account: args.account.clone(),
        walltime: args.walltime,
        cpus: args.cpus,
        memory: args.memory,
    };
    let (name, place) = (&order.entry.name, &order.entry.place);
    if !order.force
        && let Some((run_id, job_id)) = running(session, order, None)?
    {
        let id = &run_id.as_str()[..6];
        let value =
            json!({ "name": name, "image": place.to_string(), "run_id": run_id, "job_id": job_id });
        let text = format!(
            "{name} is being built by run {id} (job {job_id})\nfollow it with: dlrun logs -f {id}\n"
        );
        return session.answer(&value, &text);
    }
    let (record, run) = submit(session, order, &resources, None)?;
    let mut value = run_json(&record, run.path());
    value["name"] = json!(name);
    value["image"] = json!(place.to_string());
    value["log"] = json!(log_of(order)?);
    let (run, id) = (run_text(&record), &record.run_id.as_str()[..6]);
    let text =
        format!("{name} is built by {run}, as {place}\nfollow it with: dlrun logs -f {id}\n");
    session.answer(&value, &text)
}
