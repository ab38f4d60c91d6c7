//! The rules of the configuration: what the house forbids and requires, which rules hold for a job, and what they attach
//! to it.

use super::Step;
use super::decisions::{Resolver, values};
use super::secrets::shown_argv;
use crate::config::{Condition, HouseRule, Rule, Subject, VersionRange, Wanted};
use crate::foundation::diagnostic::Problem;
use crate::job::Located;
use crate::scheduler::adapter_for;

impl Resolver<'_> {
    /// The queue that the job goes to: the one that it names, else the default by the configuration or the scheduler.
    pub(super) fn final_queue(&self) -> Option<String> {
        let default = || {
            let mut queues = self.site()?.queues.into_iter();
            queues
                .find(|queue| queue.is_default)
                .map(|queue| queue.name)
        };
        self.plan.resources.queue.clone().or_else(default)
    }

    /// Attaches what the rules say that hold. The job file wins over rules, a later rule over an earlier one.
    pub(super) fn rules(&mut self) {
        let rules = &self.settings.tables().rules;
        let verdicts: Vec<(&Rule, Result<String, String>)> = rules
            .iter()
            .map(|rule| (rule, self.verdict(rule)))
            .collect();
        self.house_prologue();
        if !rules.is_empty() {
            let names: Vec<&str> = verdicts
                .iter()
                .filter(|(_, verdict)| verdict.is_ok())
                .map(|(rule, _)| &rule.name[..])
                .collect();
            let shown = if names.is_empty() {
                "none".to_owned()
            } else {
                names.join(", ")
            };
            self.decide(
                "rules",
                shown,
                format!("{} of {} hold", names.len(), rules.len()),
            );
            for (rule, verdict) in &verdicts {
                if let Err(why) = verdict {
                    self.reject(&rule.name, format!("{why} ({})", rule.origin));
                }
            }
        }
        for (rule, verdict) in verdicts {
            if let Ok(why) = verdict {
                self.decide(
                    &format!("rule {}", rule.name),
                    effects(rule),
                    format!("{}: {why}", rule.origin),
                );
                self.attach(rule);
            }
        }
        self.add_the_jobs_own();
    }

    /// What the site forbids and requires. A local job is none of its business.
    pub(super) fn house_rules(&mut self) {
        if self.is_local() {
            return;
        }
        let settings = self.settings;
        let house = &settings.tables().house;
        let reason = |rule: &HouseRule| {
            rule.reason
                .as_ref()
                .map(|why| format!(": {why}"))
                .unwrap_or_default()
        };
        for rule in &house.forbid {
            let Some(span) = self.spec.resources.spans.get(rule.key) else {
                continue;
            };
            let message = format!(
                "`resources.{}` is forbidden at this site{}",
                rule.key,
                reason(rule)
            );
            let hint = format!("take it out of the job file; {} forbids it", rule.origin);
            self.problems
                .push(Problem::at(span.clone(), message).hinted(hint));
        }
        let (resources, spec) = (&self.plan.resources, &self.spec.resources);
        // Whether the job ends up with a value, be it from the job file or from elsewhere.
        let is_set = |key| resources.has(key).unwrap_or(spec.spans.contains_key(key));
        for rule in house.require.iter().filter(|rule| !is_set(rule.key)) {
            let message = format!(
                "`resources.{}` is required at this site{}",
                rule.key,
                reason(rule)
            );
            let hint = format!("write it under [resources]; {} requires it", rule.origin);
            self.problems.push(Problem::of_file(message).hinted(hint));
        }
    }

    fn house_prologue(&mut self) {
        if self.is_local() {
            return;
        }
        for (command, origin) in &self.settings.tables().house.prologue {
            self.decide("house prologue", shown_argv(command), origin.to_string());
            self.plan.prologue.push(Step {
                command: command.clone(),
                rule: "house".to_owned(),
            });
        }
    }

    fn attach(&mut self, rule: &Rule) {
        for variable in &rule.env {
            if self
                .spec
                .run
                .env
                .iter()
                .any(|own| own.name == variable.name)
            {
                self.reject(&variable.name, "the job file sets it");
                continue;
            }
            match self
                .plan
                .env
                .iter_mut()
                .find(|known| known.name == variable.name)
            {
                Some(known) if known.value == variable.value => {}
                Some(known) => {
                    let earlier = std::mem::replace(&mut known.value, variable.value.clone());
                    self.reject(
                        &format!("{}={earlier:?}", variable.name),
                        "an earlier rule sets it so, and a later one wins",
                    );
                }
                None => self.plan.env.push(variable.clone()),
            }
        }
        for module in &rule.modules {
            push_new(&mut self.plan.modules, module);
        }
        let step = |command: &Vec<String>| Step {
            command: command.clone(),
            rule: rule.name.clone(),
        };
        self.plan.prologue.extend(rule.prologue.iter().map(step));
        self.plan.epilogue.extend(rule.epilogue.iter().map(step));
        for option in &rule.directives {
            if self.takes_option(rule, option) {
                push_new(&mut self.plan.directives, option);
            }
        }
        for option in &rule.arguments {
            if self.takes_option(rule, option) {
                push_new(&mut self.plan.arguments, option);
            }
        }
    }

    /// Whether a rule's option of the scheduler is used. What the job file hands through itself beats a rule's.
    fn takes_option(&mut self, rule: &Rule, option: &str) -> bool {
        let own = &self.spec.scheduler;
        let same = |own: &Located<String>| option_name(&own.value) == option_name(option);
        if self.is_local() {
            self.reject(option, "without effect on a local job");
            return false;
        }
        if own.directives.iter().chain(&own.arguments).any(same) {
            self.reject(option, "the job file hands that option through itself");
            return false;
        }
        let located = Located {
            value: option.to_owned(),
            span: 0..0,
        };
        let problem = adapter_for(self.plan.scheduler).option_problem(&located, None);
        let Some(Problem { message, hint, .. }) = problem else {
            return true;
        };
        let message = format!("the rule {} ({}): {message}", rule.name, rule.origin);
        let problem = Problem::of_file(message).hinted(hint.unwrap_or_default());
        self.problems.push(problem);
        false
    }

    fn add_the_jobs_own(&mut self) {
        let (run, own) = (&self.spec.run, &self.spec.scheduler);
        self.plan.env.extend(run.env.iter().cloned());
        for module in &run.modules {
            push_new(&mut self.plan.modules, module);
        }
        self.plan.directives.extend(values(&own.directives));
        self.plan.arguments.extend(values(&own.arguments));
    }
}

fn push_new(list: &mut Vec<String>, text: &str) {
    if !list.iter().any(|known| known == text) {
        list.push(text.to_owned());
    }
}

/// What an option sets: `--comment`, and of PBS's options that set several things `-l naccesspolicy`.
fn option_name(option: &str) -> &str {
    match option {
        _ if option.starts_with("-l ") || option.starts_with("-W ") => {
            option.split('=').next().unwrap_or_default()
        }
        _ => option.split(['=', ' ']).next().unwrap_or_default(),
    }
}

/// What a rule does, in short.
fn effects(rule: &Rule) -> String {
    let mut parts = Vec::new();
    let names: Vec<&str> = rule.env.iter().map(|variable| &variable.name[..]).collect();
    let lists = [
        ("env", names.join(" ")),
        ("modules", rule.modules.join(" ")),
        ("directives", rule.directives.join(" ")),
        ("arguments", rule.arguments.join(" ")),
    ];
    parts.extend(
        lists
            .into_iter()
            .filter(|(_, list)| !list.is_empty())
            .map(|(what, list)| format!("{what} {list}")),
    );
    for (what, steps) in [("prologue", &rule.prologue), ("epilogue", &rule.epilogue)] {
        parts.extend(
            steps
                .iter()
                .map(|step| format!("{what} {}", shown_argv(step))),
        );
    }
    if parts.is_empty() {
        "nothing".to_owned()
    } else {
        parts.join("; ")
    }
}

impl Resolver<'_> {
    /// `Ok` with what held, or the first condition that does not.
    fn verdict(&self, rule: &Rule) -> Result<String, String> {
        let held: Result<Vec<String>, String> = rule
            .when
            .iter()
            .map(|condition| self.holds(condition))
            .collect();
        let held = held?;
        Ok(if held.is_empty() {
            "it has no conditions".to_owned()
        } else {
            held.join(", ")
        })
    }

    fn holds(&self, condition: &Condition) -> Result<String, String> {
        let key = condition.subject.as_str();
        let values = self.values_of(condition.subject)?;
        let found = values
            .iter()
            .find(|value| condition.any_of.iter().any(|wanted| fits(wanted, value)));
        if let Some(value) = found {
            return Ok(format!("{key} is {value}"));
        }
        let wanted: Vec<String> = condition
            .any_of
            .iter()
            .map(|wanted| match wanted {
                Wanted::Word(word) => word.clone(),
                Wanted::Version(range) => range.to_string(),
            })
            .collect();
        Err(format!(
            "{key} is {}, not {}",
            values.join(" and "),
            wanted.join(" or ")
        ))
    }

    /// What is known of a subject; an error says why nothing is.
    fn values_of(&self, subject: Subject) -> Result<Vec<String>, String> {
        let framework = &self.spec.framework;
        let site = self.settings.tables().site.as_ref();
        let storage = self.plan.storage.as_ref();
        let value = match subject {
            Subject::Site => site.map(|(name, _)| name.clone()),
            Subject::Queue => self.queue.clone(),
            Subject::Framework => framework.name.clone(),
            Subject::Version => framework.version.clone(),
            Subject::Compiler => framework.compiler.clone(),
            Subject::Storage => storage.map(|storage| storage.class.as_str().to_owned()),
            Subject::Scheduler => Some(self.plan.scheduler.as_str().to_owned()),
            Subject::Accelerator => {
                return Ok(accelerators(self.spec.resources.gpus_on_node().as_deref()));
            }
        };
        value
            .map(|value| vec![value])
            .ok_or_else(|| format!("{} is not known", subject.as_str()))
    }
}

fn fits(wanted: &Wanted, value: &str) -> bool {
    match wanted {
        Wanted::Word(word) => word == value,
        Wanted::Version(range) => VersionRange::parse(value).is_ok_and(|value| range.holds(&value)),
    }
}

/// `none`; or `nvidia`, and the type where the job file names it.
fn accelerators(gpus: Option<&str>) -> Vec<String> {
    let Some(gpus) = gpus else {
        return vec!["none".to_owned()];
    };
    let kind = gpus
        .rsplit_once(':')
        .map(|(kind, _)| kind.to_ascii_lowercase());
    std::iter::once("nvidia".to_owned()).chain(kind).collect()
}

#[cfg(test)]
mod tests {
    use std::path::Path;

    use proptest::prelude::*;

    use crate::config::site::{Queue, SiteModel};
    use crate::config::{Fragment, Settings};
    use crate::job::SchedulerKind;
    use crate::plan::{Plan, SchedulerFacts, SiteFacts, resolve};

    use super::*;

    fn facts() -> SiteFacts {
        let queue = Queue {
            name: "batch".into(),
            is_default: true,
            is_up: true,
            ..Queue::default()
        };
        let site = SiteModel {
            format: SiteModel::FORMAT,
            scheduler: SchedulerKind::Slurm,
            version: None,
            asked_at_ms: 0,
            accounting: None,
            accounts_memory: None,
            max_array_index: None,
            max_array_elements: None,
            queues: vec![queue],
            nodes: Vec::new(),
            licenses: Vec::new(),
            mpi: None,
        };
        let slurm = SchedulerFacts {
            kind: SchedulerKind::Slurm,
            command: "/usr/bin/sbatch".into(),
            environment: Vec::new(),
        };
        let facts = SiteFacts::unknown("/home/u/job.toml".into());
        SiteFacts {
            schedulers: vec![slurm],
            site: Some(site),
            user: "ann".into(),
            ..facts
        }
    }

    fn resolved(configuration: &str, job: &str) -> Result<Plan, Vec<Problem>> {
        let fragment = Fragment::from_toml(Path::new("/etc/dlrun/dlrun.toml"), configuration);
        assert!(
            fragment.errors.is_empty() && fragment.unknown.is_empty(),
            "{fragment:#?}"
        );
        let defaults = Some("/s".into());
        let settings = Settings::merge(defaults, &[fragment]).expect("settings");
        let spec =
            crate::job::parse(&format!("[run]\ncommand = [\"true\"]\n{job}")).expect("a job file");
        resolve(&spec, &settings, &facts())
    }

    fn plan(configuration: &str, job: &str) -> Plan {
        resolved(configuration, job).expect("a plan")
    }

    #[test]
    fn the_options_of_a_rule_are_those_of_the_jobs_scheduler() {
        let rule = |option: &str| {
            format!("[[rules]]\nname = \"r\"\nset = {{ directives = [\"{option}\"] }}\n")
        };
        let pbs = "[scheduler]\nkind = \"torque\"\n";
        let refused = resolved(&rule("-l walltime=1:00"), pbs).expect_err("it is dlrun's own");
        assert!(
            refused[0]
                .message
                .contains("`-l walltime=1:00` is dlrun's own to write"),
            "{refused:?}"
        );
        // With Slurm it would be `--wait`.
        assert!(resolved(&rule("-W umask=022"), pbs).is_ok());
    }

    const JOB: &str = "[framework]\nname = \"PyTorch\"\nversion = \"2.1\"\ncompiler = \"inductor\"\n[resources]\ngpus_per_node = \"v100:2\"\n[storage]\nprefer = \"ssd\"\n";
    const SITE: &str = "[site]\nname = \"iris\"\n[storage.s]\npath = \"/s\"\nclass = \"ssd\"\n";

    /// Whether a rule with these conditions holds for [`JOB`], and why not.
    fn holds(when: &str) -> Result<(), String> {
        let plan = plan(
            &format!("{SITE}[[rules]]\nname = \"r\"\nwhen = {{ {when} }}\n"),
            JOB,
        );
        let rules = plan
            .decisions
            .iter()
            .find(|decision| decision.what == "rules")
            .expect("they are told");
        match &rules.rejected[..] {
            [] => Ok(()),
            [rejected] => Err(rejected.why.clone()),
            _ => panic!("{rules:?}"),
        }
    }

    /// Each condition that holds for [`JOB`], and one that does not with its reason.
    const CONDITIONS: [(&str, &str, &str); 8] = [
        (
            "site = \"iris\"",
            "site = \"lumi\"",
            "site is iris, not lumi",
        ),
        (
            "queue = [\"x\", \"batch\"]",
            "queue = \"batc\"",
            "queue is batch, not batc",
        ),
        (
            "framework = \"pytorch\"",
            "framework = [\"keras\", \"torch\"]",
            "framework is pytorch, not keras or torch",
        ),
        (
            "version = \">=2, <2.2\"",
            "version = \"2.10\"",
            "version is 2.1, not 2.10",
        ),
        (
            "compiler = \"Inductor\"",
            "compiler = \"xla\"",
            "compiler is inductor, not xla",
        ),
        (
            "accelerator = \"V100\"",
            "accelerator = \"none\"",
            "accelerator is nvidia and v100, not none",
        ),
        (
            "storage = \"ssd\"",
            "storage = \"high\"",
            "storage is ssd, not high",
        ),
        (
            "scheduler = \"slurm\"",
            "scheduler = \"torque\"",
            "scheduler is slurm, not torque",
        ),
    ];

    #[test]
    fn each_condition_is_held_against_its_subject() {
        for (good, bad, why) in CONDITIONS {
            assert_eq!(holds(good), Ok(()), "{good}");
            assert_eq!(
                holds(bad),
                Err(format!("{why} (/etc/dlrun/dlrun.toml:6)")),
                "{bad}"
            );
        }
        assert_eq!(holds("accelerator = \"nvidia\""), Ok(()));
        assert_eq!(holds(""), Ok(()));
    }

    #[test]
    fn what_is_not_known_meets_no_condition() {
        for (when, job, why) in [
            ("framework = \"x\"", "", "framework is not known"),
            ("version = \"*\"", "", "version is not known"),
            (
                "version = \"*\"",
                "[framework]\nversion = \"latest\"\n",
                "version is latest, not *",
            ),
            (
                "compiler = \"none\"",
                "[framework]\ncompiler = \"auto\"\n",
                "compiler is not known",
            ),
            ("storage = \"ssd\"", "", "storage is not known"),
            ("site = \"iris\"", "", "site is not known"),
        ] {
            let plan = plan(
                &format!("[[rules]]\nname = \"r\"\nwhen = {{ {when} }}\n"),
                job,
            );
            let rules = plan
                .decisions
                .iter()
                .find(|decision| decision.what == "rules")
                .expect("they are told");
            assert!(rules.rejected[0].why.contains(why), "{when}: {rules:?}");
        }
    }

    #[test]
    fn storage_is_chosen_without_a_preference_where_a_rule_goes_by_it() {
        let two = format!("{SITE}[storage.t]\npath = \"/t\"\nclass = \"common\"\n");
        assert_eq!(plan(&two, "").storage, None);
        let ruled = plan(
            &format!(
                "{two}[[rules]]\nname = \"r\"\nwhen = {{ storage = \"common\" }}\nset = {{ env = {{ A = \"1\" }} }}\n"
            ),
            "",
        );
        assert_eq!(
            ruled.storage.map(|storage| storage.name).as_deref(),
            Some("t")
        );
        assert_eq!(ruled.env.len(), 1);
    }

    #[test]
    fn options_are_told_apart_by_what_they_set() {
        let names = [
            "--comment=a b",
            "-l naccesspolicy=singlejob",
            "-l mem=1gb,file=2gb",
            "-W group_list=g",
            "-H",
        ];
        let shown = [
            "--comment",
            "-l naccesspolicy",
            "-l mem",
            "-W group_list",
            "-H",
        ];
        assert_eq!(names.map(option_name), shown);
    }

    #[test]
    fn a_type_of_gpu_that_pbs_does_not_know_leads_to_its_queue() {
        let gpus = "[gpus]\nv100 = { queue = \"gpu\", typed = false }\n";
        let job = "[scheduler]\nkind = \"torque\"\n[resources]\ngpus_per_node = \"V100:2\"\n";
        let resources = plan(gpus, job).resources;
        assert_eq!(
            (
                resources.gpus_per_node.as_deref(),
                resources.queue.as_deref()
            ),
            (Some("2"), Some("gpu"))
        );
    }

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(64))]

        #[test]
        fn a_rule_holds_where_all_of_its_conditions_do(chosen in proptest::collection::vec(proptest::option::of(any::<bool>()), 8)) {
            let when: Vec<&str> = CONDITIONS
                .iter()
                .zip(&chosen)
                .filter_map(|((good, bad, _), good_one)| good_one.map(|good_one| if good_one { *good } else { *bad }))
                .collect();
            let all = chosen.iter().flatten().all(|good_one| *good_one);
            prop_assert_eq!(holds(&when.join(", ")).is_ok(), all);
        }
    }
}
