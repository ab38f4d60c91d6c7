//! The time limit: what the run took, or would have taken, with headroom.

use super::{Advice, AdviceKind, Case, real};
use crate::foundation::units::{Walltime, display_seconds};
use crate::job::JobState;
use crate::report::insight::threshold::{HEADROOM, LEAST_EPOCHS, LEAST_SECONDS, TIME_LOW};

/// One that ended no epoch for so many times its longest was not training when it was cut off.
const HUNG: f64 = 3.0;
/// No limit shorter than this is advised, in seconds.
const LEAST_LIMIT: u64 = 300;

pub(super) fn rule(case: &Case<'_>) -> Option<Advice> {
    let request = case.own_request()?;
    let asked = request.walltime_seconds?;
    match case.state() {
        JobState::Timeout => longer(case, asked, request.queue_walltime_seconds),
        JobState::Completed => shorter(case, asked),
        _ => None,
    }
}

fn shorter(case: &Case<'_>, asked: u64) -> Option<Advice> {
    let ran = case.ran_seconds?;
    let share = ran / real(asked) * 100.0;
    let advised = rounded_up(ran * HEADROOM);
    if share >= TIME_LOW || ran < LEAST_SECONDS || advised >= asked {
        return None;
    }
    let text = format!(
        "it took {} of {} ({share:.0}%)",
        display_seconds(ran),
        Walltime(asked)
    );
    let rests_on = [
        ("ran_seconds", ran),
        ("walltime_asked_seconds", real(asked)),
    ];
    let advice = Advice::new(AdviceKind::Walltime, text, &rests_on);
    Some(advice.pasting("resources", line(advised)))
}

/// What a run that was cut off would have needed, by its epochs.
fn longer(case: &Case<'_>, asked: u64, most: Option<u64>) -> Option<Advice> {
    let timing = case.timing?;
    let planned = timing.epochs_planned?;
    let left = planned.checked_sub(timing.epochs_completed)?;
    let epochs = timing.epochs.as_ref()?;
    if left == 0 || epochs.is_warmup || real(epochs.count as u64) < LEAST_EPOCHS {
        return None;
    }
    // More time does not help one that hung, or waited for something.
    let last = case.view.timed()?.progress.epochs.last()?.ended_at_ms;
    let pause = last.zip(case.view.status.ended_at_ms);
    let pause = pause.map(|(last, ended)| real(ended.saturating_sub(last)) / 1e3);
    if pause.is_some_and(|pause| pause > HUNG * epochs.longest_seconds) {
        return None;
    }
    let ran = case.ran_seconds.unwrap_or_else(|| real(asked));
    // The epoch that was cut off is repeated.
    let needed = ran + real(left) * epochs.mean_seconds;
    let advised = rounded_up(needed * HEADROOM);
    let text = format!(
        "{left} of {planned} epochs of {} were left",
        display_seconds(epochs.mean_seconds)
    );
    let rests_on = [
        ("ran_seconds", ran),
        ("epochs_left", real(left)),
        ("epoch_mean_seconds", epochs.mean_seconds),
        ("epochs_timed", real(epochs.count as u64)),
    ];
    if let Some(most) = most.filter(|most| advised > *most && needed > real(*most)) {
        let most = Walltime(most);
        let text = format!(
            "{text}: more than the {most} of its queue; resume from a checkpoint in a second run"
        );
        return Some(Advice::new(AdviceKind::Walltime, text, &rests_on));
    }
    let advised = most.map_or(advised, |most| advised.min(most));
    let advice = Advice::new(AdviceKind::Walltime, text, &rests_on);
    Some(advice.pasting("resources", line(advised)))
}

/// The line of the job file for a time limit in seconds.
fn line(seconds: u64) -> String {
    format!("walltime = \"{}\"", Walltime(seconds))
}

/// Up to 5 min, from an hour on to 15 min, from 12 h on to an hour; within the ten years that a job file may ask for.
fn rounded_up(seconds: f64) -> u64 {
    let step = match seconds {
        ..=3600.0 => 300,
        ..=43_200.0 => 900,
        _ => 3600,
    };
    #[expect(
        clippy::cast_possible_truncation,
        clippy::cast_sign_loss,
        reason = "seconds, not negative"
    )]
    let whole = seconds.ceil().clamp(0.0, 3e8) as u64;
    whole.div_ceil(step).saturating_mul(step).max(LEAST_LIMIT)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn limits_are_rounded_up_more_the_longer_they_are() {
        let text = |seconds| Walltime(rounded_up(seconds)).to_string();
        assert_eq!(
            [1.0, 301.0, 3600.0, 3601.0, 43_201.0, 400_000.0].map(text),
            ["5m", "10m", "1h", "1h15m", "13h", "112h"]
        );
    }
}
