//! By what the ranks that `srun` starts find each other.

use super::decisions::Resolver;
use crate::config::site::MpiTypes;
use crate::job::Launcher;
use crate::launch::MpiLibrary;

/// The variable by which a user chooses (`srun(1)`).
const OWN: &str = "SLURM_MPI_TYPE";

impl Resolver<'_> {
    /// Names another type than the site's default only where the program is known to see no world under that.
    pub(super) fn mpi(&mut self) {
        if !self.plan.scheduler.has_steps() || self.plan.launcher != Launcher::Mpi {
            return;
        }
        let mut env = self.plan.env.iter();
        if let Some(own) = env.find(|variable| variable.name == OWN) {
            let (value, why) = (own.value.clone(), format!("`run.env` sets {OWN}"));
            return self.decide("mpi", value, why);
        }
        let library = self.mpi_library();
        let needs = library.as_ref().map_or_else(
            || "which MPI the program needs is not known".to_owned(),
            |library| format!("the program needs {library}"),
        );
        let Some(types) = self.site().and_then(|site| site.mpi) else {
            let why = format!("{needs}, and what the site has is not known");
            return self.decide("mpi", "the site's default", why);
        };
        let default = &*types.default;
        let wanted = library.as_ref().and_then(|library| library.wants(default));
        let Some(chosen) = wanted.filter(|wanted| types.offered.iter().any(|one| one == wanted))
        else {
            self.decide("mpi", default, format!("the site's default; {needs}"));
            let is_lost = wanted.is_some() || (library.is_none() && default == "none");
            let warning = is_lost.then(|| lost(&needs, wanted, &types));
            return self.plan.warnings.extend(warning);
        };
        self.decide(
            "mpi",
            chosen,
            format!("{needs}; the site's default is {default}"),
        );
        self.plan.mpi = Some(chosen.to_owned());
    }

    /// The MPI that the program needs: that of its image by the last check, else by its own libraries.
    fn mpi_library(&self) -> Option<MpiLibrary> {
        let Some(image) = &self.plan.image else {
            return self.facts.mpi.clone();
        };
        let mut entries = self.facts.images.entries.iter();
        let entry = entries.find(|entry| Some(&entry.name) == image.name.as_ref())?;
        MpiLibrary::of(entry.check.as_ref()?.mpi_abi.as_deref()?)
    }
}

/// What the user must know and may do where ranks may not find each other.
fn lost(needs: &str, wanted: Option<&str>, types: &MpiTypes) -> String {
    let default = &types.default;
    let offered = types.offered.join(", ");
    match wanted {
        Some(wanted) => format!(
            "{needs}, and under `srun --mpi={default}`, the site's default, its ranks see no world; of {wanted}, which would help, \
             Slurm has no plugin here ({offered})"
        ),
        None => format!(
            "under `srun --mpi={default}`, the site's default, ranks of an MPI program see worlds of one, and {needs}: set {OWN} in \
             `run.env`, `pmix` for Open MPI, `pmi2` for MPICH (`srun --mpi=list`: {offered})"
        ),
    }
}

#[cfg(test)]
mod tests {
    use crate::config::Settings;
    use crate::launch::MpiLibrary;
    use crate::plan::resolve::tests::with_site;
    use crate::plan::{Plan, resolve};

    /// The plan of a program that needs a library, at a site with this default and pmi2 and pmix, or without plugins.
    fn plan(ldd: &str, default: &str, offered: &[&str], env: &str) -> Plan {
        let job = format!(
            "[run]\ncommand = [\"./a\"]\nlauncher = \"mpi\"\n{env}\n[resources]\nnodes = 2\n"
        );
        let mut facts = with_site(&[]);
        facts.mpi = MpiLibrary::of(ldd);
        let site = facts.site.as_mut().expect("a site");
        site.mpi = (!default.is_empty()).then(|| super::MpiTypes {
            default: default.to_owned(),
            offered: offered.iter().map(|&one| one.to_owned()).collect(),
        });
        let defaults = Some("/s".into());
        let settings = Settings::merge(defaults, &[]).expect("settings");
        let spec = crate::job::parse(&job).expect("a job file");
        resolve(&spec, &settings, &facts).expect("a plan")
    }

    const BOTH: [&str; 3] = ["none", "pmi2", "pmix"];
    const OPEN: &str = "libmpi.so.40 => /l/libmpi.so.40";
    const MPICH: &str = "libmpich.so.12 => /l/libmpich.so.12";

    #[test]
    fn type_is_chosen_where_the_sites_default_is_known_to_serve_no_world() {
        for (ldd, default, offered, chosen, warns) in [
            (OPEN, "none", &BOTH[..], Some("pmix"), false),
            (MPICH, "none", &BOTH, Some("pmi2"), false),
            (MPICH, "pmix", &BOTH, Some("pmi2"), false),
            (OPEN, "pmix", &BOTH, None, false),
            // It may be built for it.
            (OPEN, "pmi2", &BOTH, None, false),
            (OPEN, "none", &["none"], None, true),
            (MPICH, "none", &["none", "pmix"], None, true),
            ("", "none", &BOTH, None, true),
            ("", "pmix", &BOTH, None, false),
            (OPEN, "", &[], None, false),
        ] {
            let plan = plan(ldd, default, offered, "");
            assert_eq!(plan.mpi.as_deref(), chosen, "{ldd} {default}");
            assert_eq!(
                !plan.warnings.is_empty(),
                warns,
                "{ldd} {default} {:?}",
                plan.warnings
            );
            let decision = plan
                .decisions
                .iter()
                .find(|decision| decision.what == "mpi");
            let shown = &decision.expect("a decision").value;
            let fallback = if default.is_empty() {
                "the site's default"
            } else {
                default
            };
            assert_eq!(shown, chosen.unwrap_or(fallback));
            let script = crate::scheduler::script::render(&plan);
            let option = chosen.map(|chosen| format!("\"--mpi=${{SLURM_MPI_TYPE:-{chosen}}}\""));
            assert_eq!(script.contains("--mpi=$"), option.is_some());
            assert!(option.is_none_or(|option| script.contains(&option)));
        }
    }

    #[test]
    fn type_that_the_job_file_sets_stays() {
        let plan = plan(MPICH, "none", &BOTH, "env = { SLURM_MPI_TYPE = \"pmix\" }");
        assert_eq!((plan.mpi, plan.warnings.len()), (None, 0));
    }
}
