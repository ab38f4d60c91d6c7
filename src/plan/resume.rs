//! `[resume]` in the plan: what the site allows, and what the job's limits and its scheduler make impossible.

use super::decisions::Resolver;
use crate::foundation::diagnostic::Problem;
use crate::foundation::units::Walltime;
use crate::job::{Resume, ResumeOn, SaveSignal};

impl Resolver<'_> {
    /// Takes `[resume]` over, within what the site allows.
    pub(super) fn resume(&mut self) {
        let Some(resume) = &self.spec.resume else {
            return;
        };
        if !self.settings.allows_resume() {
            let origin = self.settings.origin("resume.use");
            let problem = Problem::of_file(format!(
                "`[resume]` is not allowed here: {origin} says so (`resume.use`)"
            ));
            self.problems.push(problem.hinted("take the table out; a job that is submitted again can look for its checkpoint itself"));
            return;
        }
        let mut resume = resume.clone();
        let most = u32::try_from(self.settings.most_attempts()).unwrap_or(u32::MAX);
        if resume.attempts > most {
            let warning = format!(
                "`resume.attempts` is {most} here, not {}: the setting `resume.attempts` says so",
                resume.attempts
            );
            self.plan.warnings.push(warning);
            resume.attempts = most;
        }
        if let Some(cap) = self.settings.most_node_hours() {
            #[expect(clippy::cast_precision_loss, reason = "far below 2^53")]
            let cap = cap as f64;
            resume.node_hours = Some(resume.node_hours.map_or(cap, |own| own.min(cap)));
        }
        let walltime = self.plan.resources.walltime;
        self.problems
            .extend(self.resume_problems(&resume, walltime));
        let text = described(&resume, walltime);
        self.decide("resume", text, super::decisions::JOB_FILE);
        self.plan.resume = Some(resume);
    }

    fn resume_problems(&self, resume: &Resume, walltime: Option<Walltime>) -> Vec<Problem> {
        let mut problems = Vec::new();
        let mut refuse = |message: String, hint: &str| {
            problems.push(Problem::of_file(message).hinted(hint));
        };
        if let (Some(lead), Some(walltime)) = (resume.lead, walltime)
            && lead.0 * 2 > walltime.0
        {
            let message =
                format!("`resume.lead` is {lead}, more than half of the time limit, {walltime}");
            refuse(
                message,
                "the program would save its work most of the time; choose a shorter lead or a longer `resources.walltime`",
            );
        }
        let kind = self.plan.scheduler;
        if kind.is_pbs() && walltime.is_none() && resume.on.contains(&ResumeOn::Timeout) {
            let message = "`[resume]` needs `resources.walltime` here: a job of PBS does not know when its time is up";
            refuse(
                message.to_owned(),
                "write walltime = \"12h\" under [resources]",
            );
        }
        if kind.is_pbs() && self.plan.resources.array.is_some() {
            let message = "`[resume]` of an array is not possible here: users of PBS cannot requeue an element";
            refuse(message.to_owned(), "submit the jobs one by one");
        }
        if walltime.is_some_and(|walltime| walltime.0 < 60) && resume.lead.is_none() {
            let message = "`[resume]` with a time limit below one minute needs `resume.lead`";
            refuse(message.to_owned(), "write lead = \"10s\" under [resume]");
        }
        problems
    }
}

fn described(resume: &Resume, walltime: Option<Walltime>) -> String {
    let lead = resume
        .lead
        .map_or("some time".to_owned(), |lead| lead.to_string());
    let asked = match (resume.signal, walltime) {
        (_, None) => "without a time limit of its own".to_owned(),
        (SaveSignal::None, _) => format!("ends {lead} before each time limit"),
        (signal, _) => format!("gets SIG{signal} {lead} before each time limit"),
    };
    let on: Vec<&str> = resume.on.iter().map(|on| on.as_str()).collect();
    let hours = resume
        .node_hours
        .map_or_else(String::new, |hours| format!(", at most {hours} node hours"));
    format!(
        "continues after {}; {asked}; at most {} starts{hours}",
        on.join(", "),
        resume.attempts
    )
}
