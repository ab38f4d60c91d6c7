//! `dlrun sweep run` and `dlrun tune`: the trials of a sweep as jobs.

use std::collections::BTreeSet;

use super::planned::planned;
use super::show::print;
use crate::app::error::Error;
use crate::app::exit_of_run::code_of_state;
use crate::app::job::source::read;
use crate::app::session::Session;
use crate::app::study::{
    Conductor, Detached, Optuna, Seats, Source, StudyDir, SweepWork, begin_sweep, check_packable,
    load_trial, may_detach, packed_resources,
};
use crate::cli::args::{StudyRun, SweepRun, Tune};
use crate::cli::commands::submit::show_submitted;
use crate::foundation::diagnostic::Problem;
use crate::foundation::units::{Walltime, counted};
use crate::job::{JobState, SchedulerKind};
use crate::launch::Plan;
use crate::learn::bench::PACKED_LEAD;
use crate::learn::sweep::{
    SamplerKind, StopRule, Study, Sweep, Values, not_searched, parse, parse_tune,
};

/// Runs the verb; returns the exit code.
pub(crate) fn run(session: &Session, args: &SweepRun) -> Result<u8, Error> {
    let (mut sweep, source) = opened(&args.how, parse)?;
    if let Some(trials) = args.trials {
        sweep.set_trials(trials);
    }
    let Some(count) = args.pack else {
        return search(session, &args.how, &sweep, &source, None);
    };
    sweep.max_jobs = count;
    let within = session.with_scheduler(SchedulerKind::Local.as_str())?;
    let pack = Pack {
        site: session,
        count,
    };
    search(&within, &args.how, &sweep, &source, Some(&pack))
}

/// Trials that run side by side within one job.
struct Pack<'a> {
    /// Where that job is submitted.
    site: &'a Session,
    count: u32,
}

impl Pack<'_> {
    /// Checks trials as jobs of the site, and that they can be packed, where a job is to be submitted for that in its time; returns who
    /// takes that job.
    fn check(
        &self,
        sweep: &Sweep,
        source: &Source,
        walltime: Option<&str>,
    ) -> Result<SchedulerKind, Error> {
        let plan = check(self.site, sweep, source, walltime.is_some())?;
        check_packable(sweep, &plan).map_err(|problem| source.error(vec![problem]))?;
        let whole = walltime.and_then(|walltime| Walltime::parse(walltime).ok());
        let is_too_long =
            |(trial, whole): &(Walltime, Walltime)| trial.0.saturating_add(PACKED_LEAD) > whole.0;
        let limits = plan.resources.walltime.zip(whole);
        if let Some((trial, whole)) = limits.filter(is_too_long) {
            let message = format!(
                "a trial may take {trial}, and the job in which it is packed takes {whole}, of which it needs {PACKED_LEAD} s to end"
            );
            let problem = Problem::of_file(message);
            let hint =
                "give the job more, such as --detach=2d, or the trial less in resources.walltime";
            return Err(source.error(vec![problem.hinted(hint)]));
        }
        Ok(plan.scheduler)
    }
}

/// Runs `dlrun tune`; returns the exit code.
pub(crate) fn tune(session: &Session, args: &Tune) -> Result<u8, Error> {
    let (sweep, source) = opened(&args.how, parse_tune)?;
    for hint in not_searched(&sweep) {
        session.note(&hint);
    }
    search(session, &args.how, &sweep, &source, None)
}

fn opened(
    how: &StudyRun,
    parse: fn(&str, &str) -> Result<Sweep, Vec<Problem>>,
) -> Result<(Sweep, Source), Error> {
    let source = Source {
        file: how.file.clone(),
        text: read(&how.file)?,
        no_check: how.no_check,
    };
    let stem = how.file.file_stem().unwrap_or_default().to_string_lossy();
    let mut sweep = parse(&source.text, &stem).map_err(|problems| source.error(problems))?;
    sweep.max_jobs = how.max_jobs.unwrap_or(sweep.max_jobs);
    Ok((sweep, source))
}

fn search(
    session: &Session,
    how: &StudyRun,
    sweep: &Sweep,
    source: &Source,
    pack: Option<&Pack<'_>>,
) -> Result<u8, Error> {
    let walltime = how.detach.as_deref();
    let kind = pack.map(|pack| pack.check(sweep, source, walltime));
    let kind = kind.transpose()?;
    let plan = check(session, sweep, source, pack.is_none())?;
    let kind = kind.unwrap_or(plan.scheduler);
    let optuna = match sweep.sampler.packages() {
        Some(_) if how.restart || needs_proposals(session, sweep) => Optuna::find(session, sweep)?,
        _ => None,
    };
    if how.dry_run {
        let created = optuna.iter().find_map(Optuna::to_create);
        created.iter().for_each(|packages| {
            let what = "`dlrun sweep run` creates a Python environment with";
            session.note(&format!("{what} {packages} first"));
        });
        let packed = pack.map_or(1, |pack| pack.count);
        return planned(session, sweep, source, (&size(sweep), packed));
    }
    let optuna = optuna.map(Optuna::ready).transpose()?;
    let detached = walltime.map(|walltime| Detached {
        walltime,
        scheduler: kind,
        packed: pack.map(|pack| packed_resources(pack.count, &plan)),
    });
    let site = pack.map_or(session, |pack| pack.site);
    if let Some(detached) = &detached {
        may_detach(kind)?;
        detached.check::<Study>(site, &sweep.name, source)?;
    }
    let in_this_job = pack.filter(|_| walltime.is_none());
    let seats = in_this_job.map(|pack| Seats::of_this_job(session, pack.count, (&plan, kind)));
    let seats = seats.transpose()?;
    let mut dir = begin_sweep(session, sweep, source, (plan.scheduler, how.restart))?;
    session.note(&format!(
        "{}, kept in {}",
        size(sweep),
        dir.path().display()
    ));
    let (over, all) = sweep.runs(&dir.journal);
    if over == all {
        let runs = counted(over as u64, "run");
        let more = match sweep.sampler {
            SamplerKind::Grid => "",
            _ => "raise `trials` for more, or ",
        };
        session.note(&format!(
            "nothing is left to run: {runs} finished earlier; {more}begin again with --restart"
        ));
    }
    if let Some(detached) = detached.filter(|_| over < all) {
        let (record, run) = detached.submit(site, dir, source)?;
        return show_submitted(session, &record, run.path());
    }
    let work = SweepWork::new(sweep, source, &mut dir, optuna, pack.map(|pack| pack.count));
    let went_on = Conductor::new(session, work, sweep.max_jobs, seats)?.run()?;
    conclude(session, sweep, &dir, went_on)
}

/// Shows what a search came to, and why it is over; returns the exit code.
fn conclude(
    session: &Session,
    sweep: &Sweep,
    dir: &StudyDir<Study>,
    went_on: bool,
) -> Result<u8, Error> {
    print(session, sweep, dir)?;
    if !went_on {
        let last = dir.journal.trials().filter_map(|trial| trial.run_id).last();
        let last = last.map_or("RUN", |run| &run.as_str()[..6]);
        session.warning(&format!(
            "the first trials all failed, so no more were started; `dlrun logs {last}` shows why one of them failed, and the same \
             command continues"
        ));
    }
    let study = &dir.journal;
    let has_result = study.best(&sweep.metric).is_some();
    let is_short = has_result && study.trials().count() < sweep.trials as usize;
    let (kept, is_short) = match sweep.tune {
        Some(_) => (" or kept for the pairs", is_short),
        None => ("", false),
    };
    let node_hours = sweep.node_hours;
    let (over, all) = sweep.runs(study);
    let is_used_up = |most: &f64| is_short || (over < all && study.node_hours() >= *most);
    if let Some(most) = node_hours.filter(is_used_up) {
        session.note(&format!(
            "no further trial starts: the {most} node hours of `{}.node_hours` are used up{kept}",
            sweep.table()
        ));
    }
    let has_ended = study.trials().any(|trial| {
        trial
            .outcome
            .is_some_and(|outcome| outcome.epochs > sweep.first_epoch.into())
    });
    let compares = matches!(sweep.stop, StopRule::Asha | StopRule::Median);
    if compares && study.reached.is_empty() && has_ended {
        let metric = &sweep.metric.name;
        session.warning(&format!(
            "no trial could be stopped early: no line of an epoch shows `{metric}`"
        ));
    }
    Ok(if has_result {
        0
    } else {
        code_of_state(JobState::Failed)
    })
}

/// Whether what is kept of the sweep lacks trials. A finished one is shown without its sampler.
fn needs_proposals(session: &Session, sweep: &Sweep) -> bool {
    let kept = StudyDir::<Study>::find(session, Some(&sweep.name));
    kept.map_or(true, |(dir, _)| sweep.needs_proposals(&dir.journal))
}

/// `lr: 50 trials by tpe, 4 at a time, stop asha`.
fn size(sweep: &Sweep) -> String {
    if let Some(tune) = &sweep.tune {
        let trials = counted(sweep.trials.into(), "trial");
        let pairs = counted(tune.pairs.into(), "pair");
        return format!("{}: {trials} and {pairs} of runs", sweep.name);
    }
    format!(
        "{}: {} by {}, {} at a time, early stopping {}",
        sweep.name,
        counted(sweep.trials.into(), "trial"),
        sweep.sampler.as_str(),
        sweep.max_jobs,
        sweep.stop.as_str()
    )
}

/// Checks a trial with each value that may occur, as `dlrun check` does; shows warnings, each once. Returns the plan of one.
fn check(
    session: &Session,
    sweep: &Sweep,
    source: &Source,
    with_warnings: bool,
) -> Result<Plan, Error> {
    let mut warnings = BTreeSet::new();
    let mut plan = None;
    let own = sweep.tune.iter().map(|tune| tune.baseline.clone());
    let continues = sweep.stop == StopRule::Promotion;
    for values in own.chain(Values::to_check(&sweep.space)) {
        let first = load_trial(session, sweep, source, (0, None), &values)?;
        // One that comes to the last epoch may be too long for its partition.
        let whole = continues.then(|| source.load(session, sweep.whole_trial(0, &values)));
        for job in [Some(first), whole.transpose()?].into_iter().flatten() {
            warnings.extend(job.plan.warnings.clone());
            plan.get_or_insert(job.plan);
        }
    }
    let shown = warnings.iter().filter(|_| with_warnings);
    shown.for_each(|warning| session.warning(warning));
    Ok(plan.unwrap_or_default())
}
