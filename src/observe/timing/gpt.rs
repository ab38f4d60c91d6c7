//! The scripts that train a GPT and what descends from them: nanoGPT, build-nanogpt, nanochat, llama2.c, llm.c,
//! modded-nanogpt, torchtitan. They count steps, not epochs.
//!
//! ```text
//! step 0: train loss 10.9210, val loss 10.9209                                         nanoGPT: an evaluation
//! iter 40: loss 6.2081, time 48.67ms, mfu 10.07%
//! iter_dt 9.42ms; iter 10: train loss 2.11316                                          minGPT
//! 490 | loss 5.7543 | lr 4.900000e-05 | 8060.78ms | mfu 0.21%                          llama2.c
//! step     0 | loss: 10.955029 | lr 4.28e-07 | norm: 15.3 | dt: 9507.77ms | tok/sec: 55142.50       build-nanogpt
//! step 00004/21400 (0.02%) | loss: 8.893647 | dt: 989.44ms | tok/sec: 529,882 | mfu: 74.13          nanochat
//! step 3: train loss 4.600470 (took 1290.761000 ms)                                    llm.c, train_gpt2.c
//! step   61/74 | loss 3.208939 (+nanz)| norm 1.48 (+nanz)| lr 3.00e-04 | 44.57 ms | 45.2% bf16 MFU | 91886 tok/s
//! val loss 5.252026
//! step:125/1480 val_loss:4.3719 train_time:29736ms step_avg:258.57ms                    modded-nanogpt
//! step:  4  loss:  7.62585  memory: 66.91GiB(37.51%)  tps: 10,050  mfu: 13.99%         torchtitan: rate of one GPU
//! ```
//!
//! The forms are those of `train.py` of karpathy/nanoGPT, `train_gpt2.c`, `train_gpt2.cu` and `train_gpt2.py` of
//! karpathy/llm.c, `train_gpt.py` of KellerJordan/modded-nanogpt and `torchtitan/components/metrics.py`.

use super::event::{Event, Facts, Line, Recogniser, Weight};
use super::figures::{self, Read};
use super::scan;

/// What was read of the training so far.
#[derive(Debug, Default)]
pub(super) struct Gpt {
    /// True once lines of steps came: lines of evaluations are then no steps of their own.
    stepped: bool,
}

impl Recogniser for Gpt {
    fn name(&self) -> &'static str {
        "gpt"
    }

    fn weight(&self) -> Weight {
        Weight::Plain
    }

    fn triggers(&self) -> &'static str {
        "step ¦step:¦Step ¦Step:¦iter ¦iter:¦Iter ¦Iter:¦teration ¦ | loss ¦val loss¦\
         alidation loss"
    }

    fn read<'a>(&mut self, line: &Line<'a>, say: &mut dyn FnMut(Event<'a>)) {
        if let Some(event) = self.read_line(line.text, say) {
            say(event);
        }
    }
}

impl Gpt {
    fn read_line<'a>(
        &mut self,
        text: &'a str,
        say: &mut dyn FnMut(Event<'a>),
    ) -> Option<Event<'a>> {
        // minGPT: `iter_dt 9.42ms; iter 10: train loss 2.11316`.
        let (step_seconds, text) = match text
            .trim_start()
            .strip_prefix("iter_dt ")
            .and_then(scan::duration)
        {
            Some((seconds, rest)) => (Some(seconds), rest.trim_start_matches([';', ' '])),
            None => (None, behind_logger(text).trim()),
        };
        if let Some(event) = standalone(text) {
            return Some(event);
        }
        let (step, of, rest) = numbered(text)?;
        // Bars are drawn by others.
        if rest.trim_start().starts_with("[=") {
            return None;
        }
        let Read { mut facts, so_far } = figures::read(rest);
        facts.step_seconds = step_seconds.or(facts.step_seconds);
        if so_far.is_none() && !facts.metrics.iter().any(|(name, _)| is_loss(name)) {
            return None;
        }
        let timed = so_far.is_some() || facts.step_seconds.is_some() || facts.throughput.is_some();
        let evaluated = facts.metrics.iter().any(|(name, _)| is_validation(name));
        if evaluated && !timed && self.stepped {
            // Which step it is of; a step that was told before is not told again.
            say(Event::iteration(Some(step), of, Facts::default()));
            return Some(Event::validation(facts));
        }
        self.stepped |= timed || !evaluated;
        if let Some(seconds) = so_far.filter(|_| of == Some(step)) {
            say(Event::run_end(Some(seconds), Facts::default()));
        }
        Some(Event::iteration(Some(step), of, facts))
    }
}

/// The text from the word that counts, where a logger's prefix stands before it.
fn behind_logger(text: &str) -> &str {
    let head = &text[..text.floor_char_boundary(120)];
    let ends = [" - ", "] ", "]: ", "INFO: ", "INFO:", " | INFO | ", "INFO "];
    let at = ["step", "Step", "iter", "Iter", "val"]
        .iter()
        .filter_map(|word| head.find(word))
        .min();
    match at {
        // A line that names an epoch is of no such script.
        Some(at) if scan::holds(&text[..at], "epoch") || text[..at].contains("ep:") => text,
        Some(at) if ends.iter().any(|end| text[..at].ends_with(end)) => &text[at..],
        _ => text,
    }
}

/// `step 3`, `step:  4`, `iter 40`, `iteration 1`, `step 61/74`, or `490 | loss`, with the rest behind the number.
fn numbered(text: &str) -> Option<(u64, Option<u64>, &str)> {
    let end = text
        .find(|c: char| !c.is_ascii_alphabetic())
        .unwrap_or(text.len());
    let word = &text[..end];
    if !scan::is_any(word, "|step|iter|iteration") {
        return None;
    }
    let (step, of, rest) = scan::counted(text[end..].trim_start_matches([' ', ':', '=', '#']))?;
    if word.is_empty() {
        return (end == 0 && of.is_none() && rest.starts_with(" | loss "))
            .then_some((step, of, rest));
    }
    // A bar is read by those who know whose it is.
    if rest.trim_start().starts_with("[=") {
        return None;
    }
    let ended = rest.is_empty() || rest.starts_with([' ', '\t', ':', ',', '|', ']', ')', ';']);
    ended.then_some((step, of, rest))
}

/// Lines without a step's number: `val loss 5.25`, `validation loss: 3.2`, `total average iteration time: 30.1 ms`.
fn standalone(text: &str) -> Option<Event<'_>> {
    if let Some(time) = text.strip_prefix("total average iteration time:") {
        let facts = Facts::with_step_time(Some(scan::duration(time.trim_start())?.0));
        return Some(Event::figures(facts));
    }
    let value = ["val loss", "validation loss"]
        .into_iter()
        .find_map(|name| text.strip_prefix(name))?;
    let (loss, rest) = scan::number(value.trim_start_matches([' ', ':']))?;
    let facts = Facts::with_metrics(vec![("val_loss".into(), loss)]);
    rest.trim().is_empty().then_some(Event::validation(facts))
}

fn is_loss(name: &str) -> bool {
    scan::holds_any(name, "loss|Loss|bpb|ppl|perplexity|xent")
}

fn is_validation(name: &str) -> bool {
    name.starts_with("val") || name.starts_with("Val")
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::observe::timing::event::Says;

    fn read(text: &str) -> Vec<Event<'_>> {
        let mut said = Vec::new();
        Gpt { stepped: true }.read(
            &Line {
                text,
                redrawn: false,
            },
            &mut |event| said.push(event),
        );
        said
    }

    #[test]
    fn steps_of_all_descendants_are_read() {
        for (text, number, all, seconds) in [
            (
                "iter 40: loss 6.2081, time 48.67ms, mfu 10.07%",
                40,
                None,
                Some(0.04867),
            ),
            (
                "490 | loss 5.7543 | lr 4.9e-05 | 8060.78ms | mfu 0.21%",
                490,
                None,
                Some(8.06078),
            ),
            (
                "step     0 | loss: 10.955 | lr 4.28e-07 | norm: 15.3 | dt: 9507.77ms | tok/sec: 55142.50",
                0,
                None,
                Some(9.50777),
            ),
            (
                "step 00004/21400 (0.02%) | loss: 8.89 | dt: 989.44ms | tok/sec: 529,882 | total time: 0.00m",
                4,
                Some(21_400),
                Some(0.98944),
            ),
            (
                "step 3: train loss 4.600470 (took 1290.761000 ms)",
                3,
                None,
                Some(1.290_761),
            ),
            (
                "step   19/74: train loss 3.43 (acc 3.43) (33.6 ms, 121.5 tok/s)",
                19,
                Some(74),
                Some(0.0336),
            ),
            (
                "step:125/1480 val_loss:4.3719 train_time:29736ms step_avg:258.57ms",
                125,
                Some(1480),
                Some(0.25857),
            ),
            (
                "[titan] 2026-02-24 19:46:17,508 - root - INFO - step:  4  loss:  7.62585  tps: 10,050",
                4,
                None,
                None,
            ),
            (
                "iter_dt 9.42ms; iter 10: train loss 2.11316",
                10,
                None,
                Some(0.00942),
            ),
            (
                "03:22:14 [INFO] [TRAIN] [Rank 0] step: 8, loss: 9.9, tokens_per_second: 76957.79",
                8,
                None,
                None,
            ),
        ] {
            let said = read(text);
            let [
                Event {
                    says: Says::Iteration,
                    step,
                    of,
                    facts,
                    ..
                },
            ] = said.as_slice()
            else {
                panic!("{text}: {said:?}")
            };
            assert_eq!((*step, *of), (Some(number), all), "{text}");
            let near = |(read, expected): (f64, f64)| (read - expected).abs() < 1e-9;
            assert_eq!(facts.step_seconds.is_some(), seconds.is_some(), "{text}");
            assert!(
                facts.step_seconds.zip(seconds).is_none_or(near),
                "{text}: {facts:?}"
            );
        }
    }

    #[test]
    fn the_last_step_tells_how_long_training_took() {
        let said = read("step:1480/1480 val_loss:3.2785 train_time:390000ms step_avg:263.51ms");
        assert!(
            matches!(
                said[0],
                Event {
                    says: Says::RunEnd,
                    seconds: Some(390.0),
                    ..
                }
            ),
            "{said:?}"
        );
    }

    #[test]
    fn evaluations_are_no_steps_where_steps_have_lines() {
        let text = "step 250: train loss 1.9, val loss 2.0";
        let step = read(text);
        assert!(
            matches!(
                step[..],
                [
                    Event {
                        says: Says::Iteration,
                        step: Some(250),
                        ..
                    },
                    Event {
                        says: Says::Validation,
                        ..
                    }
                ]
            ),
            "{step:?}"
        );
        let mut said = Vec::new();
        Gpt::default().read(
            &Line {
                text,
                redrawn: false,
            },
            &mut |event| said.push(event),
        );
        assert!(matches!(
            said[..],
            [Event {
                says: Says::Iteration,
                step: Some(250),
                ..
            }]
        ));
        assert!(matches!(
            read("val loss 5.252026")[..],
            [Event {
                says: Says::Validation,
                ..
            }]
        ));
    }

    #[test]
    fn other_steps_are_left_alone() {
        for text in [
            "Step 4/12 : RUN pip install numpy==1.21.0",
            "step 1: download the data",
            "iter_num: 3 loss 2",
            "stepping 3 loss 2",
            "step 3 of the installation took 2 s",
            "10 | lost 3",
            "val losses 3",
            "Iter #0: 354.2 img/sec per GPU",
        ] {
            assert_eq!(read(text), [], "{text}");
        }
    }
}
