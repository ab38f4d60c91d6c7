//! MMEngine and MMCV: the toolboxes of OpenMMLab.
//!
//! ```text
//! 2022/08/22 15:51:56 - mmengine - INFO - Epoch(train)  [1][ 10/1563]  lr: 1.0e-03  eta: 0:18:23  time: 0.1414  loss: 5.34
//! 2022/08/22 15:51:56 - mmengine - INFO - Iter(train) [   50/80000]  lr: 1.0e-02  eta: 7:10:11  time: 0.3  loss: 1.2
//! 2021-05-01 12:00:00,123 - mmdet - INFO - Epoch [1][50/7330]     lr: 1.978e-03, eta: 8:41:52, time: 0.357, loss: 1.5
//! 2021-05-01 12:00:00,123 - mmseg - INFO - Iter [50/160000]       lr: 9.999e-03, eta: 1 day, 2:03:04, time: 0.6, loss: 3.1
//! 2021-05-01 12:00:00,123 - mmdet - INFO - Epoch(val) [1][625]    bbox_mAP: 0.3640, bbox_mAP_50: 0.5810
//! Saving checkpoint at 1 epochs
//! ```
//!
//! The forms are those of `LogProcessor` in `mmengine/runner/log_processor.py` (0.x) and of `TextLoggerHook` in
//! `mmcv/runner/hooks/logger/text.py` (1.x). Epochs and iterations count from 1.

use super::event::{Event, Facts, Line, Recogniser};
use super::keyed;
use super::scan;

/// Keys that are no losses or metrics.
const NOT_METRICS: [&str; 10] =
    ["eta", "time", "data_time", "memory", "lr", "base_lr", "mode", "weight_decay", "momentum", "INFO"];

/// The recogniser.
#[derive(Debug, Default)]
pub(super) struct OpenMm;

impl Recogniser for OpenMm {
    fn name(&self) -> &'static str {
        "mmengine"
    }

    fn triggers(&self) -> &'static [&'static str] {
        &["Epoch(", "Epoch [", "Iter(", "Iter [", "Saving checkpoint at ", "workflow: [", "max_epochs="]
    }

    fn counts_from_zero(&self) -> Option<bool> {
        Some(false)
    }

    fn read<'a>(&mut self, line: &Line<'a>, say: &mut dyn FnMut(Event<'a>)) {
        if let Some(event) = read_line(line.text) {
            say(event);
        }
    }
}

fn read_line(text: &str) -> Option<Event<'_>> {
    if let Some((_, rest)) = text.split_once("Saving checkpoint at ") {
        let (epoch, rest) = scan::unsigned(rest)?;
        let facts = Facts::default();
        return rest.trim_start().starts_with("epochs").then_some(Event::EpochEnd {
            epoch,
            epochs: None,
            seconds: None,
            step: None,
            facts,
        });
    }
    if let Some((before, rest)) = text.split_once("workflow: [") {
        let (_, rest) = rest.split_once("max: ").filter(|_| before.is_empty() || before.ends_with(' '))?;
        let (epochs, rest) = scan::unsigned(rest)?;
        return rest.starts_with(" epochs").then_some(Event::Announce { epochs: Some(epochs), steps: None });
    }
    if let Some((_, rest)) = text.split_once("train_cfg = dict(") {
        let (epochs, _) = scan::unsigned(rest.split_once("max_epochs=")?.1)?;
        return Some(Event::Announce { epochs: Some(epochs), steps: None });
    }
    let at = ["Epoch(", "Epoch [", "Iter(", "Iter ["].iter().find_map(|word| text.find(word))?;
    // A line that begins with the word is another's, unless it is of this one's form: `Epoch [1/5], ...` is not.
    read_counted(&text[at..])
}

/// Reads from the word on.
fn read_counted(text: &str) -> Option<Event<'_>> {
    let by_epoch = text.starts_with('E');
    let rest = text.trim_start_matches(|c: char| c.is_ascii_alphabetic());
    let (mode, rest) = match rest.strip_prefix('(') {
        Some(rest) => rest.split_once(')')?,
        None => ("train", rest),
    };
    let (first, of, rest) = scan::counted(rest.trim_start().strip_prefix('[')?)?;
    let rest = rest.trim_start().strip_prefix(']')?;
    if mode != "train" {
        // Some iterations of an evaluation, or its figures.
        // MMCV: `Epoch(val) [8][1730]`.
        let rest =
            rest.strip_prefix('[').and_then(|rest| rest.split_once(']')).map_or(rest, |(_, rest)| rest);
        let facts = if rest.contains(", ") { listed(rest) } else { figures(rest) };
        let facts = Facts { step_seconds: None, ..facts };
        return matches!(mode, "val" | "test").then_some(Event::Validation { facts });
    }
    if !by_epoch {
        let of = of?;
        let facts = keyed_figures(rest)?;
        return Some(Event::RunStep { epoch: None, epochs: None, step: first, of: Some(of), facts });
    }
    let (step, of, rest) = scan::counted(rest.strip_prefix('[').filter(|_| of.is_none())?)?;
    let of = of?;
    let facts = keyed_figures(rest.trim_start().strip_prefix(']')?)?;
    Some(if step >= of {
        Event::EpochEnd { epoch: first, epochs: None, seconds: None, step: Some((step, of)), facts }
    } else {
        Event::Step { epoch: first, epochs: None, step, of: Some(of), facts }
    })
}

/// The figures of a line of training; `None` where there are none.
fn keyed_figures(text: &str) -> Option<Facts<'_>> {
    Some(figures(text)).filter(|facts| !facts.is_empty())
}

/// `top1 acc: 0.0661, top5 acc: 0.1539` of MMCV's loggers: names may be of several words.
fn listed(text: &str) -> Facts<'_> {
    let mut facts = Facts::default();
    for (name, value) in text.split(", ").filter_map(|pair| pair.trim().split_once(": ")) {
        if let Some(value) = keyed::number(value.trim())
            && !NOT_METRICS.contains(&name)
            && name != "time"
            && let Some(name) = scan::metric_name(name)
        {
            facts.metrics.push((name, value));
        }
    }
    facts
}

fn figures(text: &str) -> Facts<'_> {
    let mut facts = Facts::default();
    for (key, value, _) in keyed::pairs(text) {
        let Some(value) = keyed::number(value) else { continue };
        if key == "time" {
            facts.step_seconds = Some(value);
        } else if !NOT_METRICS.contains(&key)
            && let Some(name) = scan::metric_name(key)
        {
            facts.metrics.push((name, value));
        }
    }
    facts
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn epochs_and_iterations_are_read() {
        let text = "2022/08/22 15:51:56 - mmengine - INFO - Epoch(train)  [1][ 10/1563]  lr: 1.0000e-03  eta: 0:18:23  time: 0.1414  data_time: 0.0077  memory: 392  loss: 5.3465";
        let Some(Event::Step { epoch: 1, step: 10, of: Some(1563), facts, .. }) = read_line(text) else {
            panic!()
        };
        assert_eq!((facts.step_seconds, &facts.metrics[..]), (Some(0.1414), &[("loss".into(), 5.3465)][..]));
        let text = "2021-05-01 12:00:00,123 - mmdet - INFO - Epoch [2][7330/7330]\tlr: 1.978e-03, eta: 8:41:52, time: 0.357, memory: 3893, loss: nan";
        assert!(matches!(read_line(text), Some(Event::EpochEnd { epoch: 2, step: Some((7330, 7330)), .. })));
        let text = "x - mmseg - INFO - Iter [50/160000]\tlr: 9.999e-03, eta: 1 day, 2:03:04, time: 0.6, decode.loss_ce: 2.1, loss: 3.1";
        let Some(Event::RunStep { step: 50, of: Some(160_000), facts, .. }) = read_line(text) else {
            panic!()
        };
        assert_eq!(facts.metrics, [("decode.loss_ce".into(), 2.1), ("loss".into(), 3.1)]);
        let text =
            "Epoch(val) [1][625]\taccuracy_top-1: 76.55, bbox_mAP: 0.3640, bbox_mAP_copypaste: 0.364 0.581";
        let Some(Event::Validation { facts }) = read_line(text) else { panic!() };
        assert_eq!(facts.metrics[0], ("accuracy_top-1".into(), 76.55));
        assert_eq!(facts.metrics[1], ("bbox_mAP".into(), 0.364));
        let text = "mmdet - INFO - workflow: [('train', 1)], max: 12 epochs";
        assert_eq!(read_line(text), Some(Event::Announce { epochs: Some(12), steps: None }));
    }

    #[test]
    fn other_lines_are_left_alone() {
        for text in [
            "Epoch [1/5], Step [100/600], Loss: 0.3",
            "Epoch [1][10/20] done",
            "Saving checkpoint at 4000 iterations",
            "workflow: [('train', 1)], max: 80000 iters",
            "Iter [3] loss: 2",
            "Epoch(x) [1][2/3] loss: 1",
        ] {
            assert_eq!(read_line(text), None, "{text}");
        }
    }
}
