//! `dlrun plan`: what will happen and why.

use std::path::Path;

use serde_json::json;

use crate::app::error::Error;
use crate::app::job::load::{Against, Job};
use crate::app::session::Session;
use crate::cli::args::JobFile;
use crate::job::{RunId, SchedulerKind};
use crate::plan::{HIDDEN, Plan, describe, is_secret};
use crate::scheduler::Submission;
use crate::scheduler::script::quoted;

/// Runs the verb.
pub(crate) fn run(session: &Session, args: &JobFile) -> Result<u8, Error> {
    let job = Job::load(session, &args.request(), Against::Site)?;
    // The id and the script's place are made at submission; here they stand for themselves.
    let run_id = RunId::from_random([0; 10]);
    let script = Path::new(&job.plan.state_dir).join("runs/RUN/job.sh");
    let submission = Submission {
        run_id: &run_id,
        plan: &job.plan,
        script: &script,
        run_dir: Path::new(&job.plan.state_dir),
        max_array_index: job.max_array_index(),
        on_part: &|_| {},
    };
    let argv = session
        .scheduler(job.plan.scheduler)?
        .command_line(&submission);
    let argv: Vec<String> = argv
        .iter()
        .map(|word| word.replace(run_id.as_str(), "RUN"))
        .collect();
    let mut shown: Vec<String> = argv.iter().map(|word| shell_word(word)).collect();
    if job.plan.scheduler == SchedulerKind::Slurm {
        shown.push(format!("< {}", shell_word(&script.to_string_lossy())));
    }
    let site = job
        .site
        .as_ref()
        .map(|site| format!("  site: {}\n", site.shown()))
        .unwrap_or_default();
    let text = format!(
        "{}{site}  submit by: {}\n",
        describe(&job.plan, session.output.columns()),
        shown.join(" ")
    );
    let value = json!({
        "plan": without_secrets(&job.plan),
        "warnings": job.plan.warnings,
        "notes": job.plan.notes,
        "images": job.plan.candidates,
        "candidates": job.plan.ways,
        "site": job.site_json(),
        "python_environment_ready": job.python.as_ref().map(|python| python.ready),
        "submit_command": argv,
    });
    session.output.result("plan", &value, &text)?;
    Ok(0)
}

/// The plan with what looks like a secret hidden.
fn without_secrets(plan: &Plan) -> Plan {
    let mut plan = plan.clone();
    for variable in plan.env.iter_mut().filter(|variable| is_secret(variable)) {
        HIDDEN.clone_into(&mut variable.value);
    }
    plan
}

fn shell_word(word: &str) -> String {
    let plain = word
        .chars()
        .all(|c| c.is_alphanumeric() || "-_./=:,+@%".contains(c));
    if plain && !word.is_empty() {
        word.to_owned()
    } else {
        quoted(word)
    }
}
