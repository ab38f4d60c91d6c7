//! Follows an output: cuts it into lines, finds the recogniser that knows them, folds what it says.

use crate::job::TimingPattern;
use crate::record::Progress;

use super::epoch_line;
use super::event::{Event, Line};
use super::fold::Fold;
use super::keras::Keras;
use super::lines::{Lines, plain};
use super::pattern::{Pattern, PatternError};
use super::pytorch::PyTorch;

/// Follows the output of a training.
///
/// The recogniser that is the first to see a step or an epoch's end is the only one from then on. Where launchers mark
/// lines with the rank that wrote them, the rank of the first such line is followed.
#[derive(Debug)]
pub struct Follower {
    lines: Lines,
    reader: Reader,
}

/// What reads whole lines.
#[derive(Debug)]
struct Reader {
    recognisers: Vec<Recogniser>,
    /// Index of the recogniser that speaks, and whether that is certain.
    speaker: Option<usize>,
    certain: bool,
    /// The mark of the rank that is followed.
    rank: Option<Box<str>>,
    fold: Fold,
}

/// All recognisers; those tried first stand first in [`Recogniser::all`].
#[derive(Debug)]
enum Recogniser {
    Keras(Keras),
    PyTorch(PyTorch),
    EpochLine,
    Pattern(Pattern),
}

impl Recogniser {
    fn all() -> Vec<Self> {
        vec![Self::Keras(Keras::default()), Self::PyTorch(PyTorch::default()), Self::EpochLine]
    }

    /// Its name in [`Progress::recogniser`].
    fn name(&self) -> &'static str {
        match self {
            Self::Keras(_) => "keras",
            Self::PyTorch(_) => "pytorch",
            Self::EpochLine => "epoch-line",
            Self::Pattern(_) => "pattern",
        }
    }

    fn read<'a>(&mut self, line: &Line<'a>) -> Option<Event<'a>> {
        match self {
            Self::Keras(keras) => keras.read(line),
            Self::PyTorch(pytorch) => pytorch.read(line),
            Self::EpochLine => epoch_line::read(line),
            Self::Pattern(pattern) => pattern.read(line),
        }
    }
}

impl Follower {
    /// Begins to follow an output; with the user's `pattern`, only that is looked for.
    ///
    /// # Errors
    ///
    /// [`PatternError`] where the pattern cannot be used.
    pub fn new(pattern: Option<&TimingPattern>) -> Result<Self, PatternError> {
        let recognisers = match pattern {
            Some(pattern) => vec![Recogniser::Pattern(Pattern::compile(&pattern.epoch)?)],
            None => Recogniser::all(),
        };
        let reader = Reader { recognisers, speaker: None, certain: false, rank: None, fold: Fold::default() };
        Ok(Self { lines: Lines::default(), reader })
    }

    /// Takes the next bytes of the output. `at_ms` is when they were seen, in Unix milliseconds UTC; `None` for a saved
    /// output, whose epochs then have no times by the clock.
    pub fn feed(&mut self, bytes: &[u8], at_ms: Option<u64>) {
        let Self { lines, reader } = self;
        lines.feed(bytes, at_ms, |line, redrawn, at_ms| reader.read(line, redrawn, at_ms));
    }

    /// Takes a last line without line end as finished: the output is over.
    pub fn finish(&mut self, at_ms: Option<u64>) {
        let Self { lines, reader } = self;
        lines.finish(at_ms, |line, redrawn, at_ms| reader.read(line, redrawn, at_ms));
    }

    /// Returns what was recognised so far.
    #[must_use]
    pub fn progress(&self) -> &Progress {
        self.reader.fold.progress()
    }
}

impl Reader {
    fn read(&mut self, line: &[u8], redrawn: bool, at_ms: Option<u64>) {
        let text = plain(line);
        // The user wrote the pattern for whole lines.
        let whole = matches!(self.recognisers[..], [Recogniser::Pattern(_)]);
        let (rank, text) = if whole { (None, &*text) } else { split_rank(&text) };
        if self.rank.as_deref().is_some_and(|followed| rank.is_some_and(|rank| rank != followed)) {
            return;
        }
        let line = Line { text, redrawn };
        for (index, recogniser) in self.recognisers.iter_mut().enumerate() {
            if self.certain && self.speaker != Some(index) {
                continue;
            }
            let Some(event) = recogniser.read(&line) else { continue };
            let before = (self.speaker, self.certain);
            (self.speaker, self.certain) = match self.speaker {
                _ if event.is_distinctive() && !self.certain => (Some(index), true),
                None if !matches!(event, Event::Validation { .. }) => (Some(index), false),
                speaker => (speaker, self.certain),
            };
            if self.speaker != Some(index) {
                continue;
            }
            if before.0 != Some(index) {
                self.fold.name_recogniser(recogniser.name());
            }
            if self.rank.is_none() {
                self.rank = rank.map(Box::from);
            }
            self.fold.apply(event, at_ms);
            return;
        }
    }
}

/// Splits off the mark with which a launcher says which rank wrote a line: `[1,0]<stdout>:` (`mpirun --tag-output`,
/// `horovodrun`), `[0]<stderr>:`, `[default0]:` (`torchrun`), `[rank0]: `, `3: ` (`srun --label`).
fn split_rank(text: &str) -> (Option<&str>, &str) {
    let split = match text.trim_start().as_bytes().first() {
        Some(b'[') => bracketed_rank(text.trim_start()),
        Some(b'0'..=b'9') => text
            .trim_start()
            .split_once(": ")
            .filter(|(rank, _)| rank.len() <= 6 && rank.bytes().all(|byte| byte.is_ascii_digit())),
        _ => None,
    };
    split.map_or((None, text), |(rank, rest)| (Some(rank), rest))
}

fn bracketed_rank(text: &str) -> Option<(&str, &str)> {
    let (mark, rest) = text.strip_prefix('[')?.split_once(']')?;
    if mark.len() > 20 {
        return None;
    }
    let tagged = ["<stdout>:", "<stderr>:"].into_iter().find_map(|tag| rest.strip_prefix(tag));
    let named = mark.starts_with("default") || mark.starts_with("rank");
    tagged.or_else(|| rest.strip_prefix(':').filter(|_| named)).map(|rest| (mark, rest))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn followed(output: &str) -> Progress {
        let mut follower = Follower::new(None).unwrap();
        follower.feed(output.as_bytes(), None);
        follower.finish(None);
        follower.progress().clone()
    }

    fn speaker(output: &str) -> (Option<String>, u64) {
        let progress = followed(output);
        (progress.recogniser, progress.epochs_completed)
    }

    #[test]
    fn the_first_certain_recogniser_speaks() {
        let keras = Some("keras".to_owned());
        assert_eq!(speaker("Epoch 1/2\n9/9 [===] - 2s - loss: 1\nepoch 7 took 3 s\n"), (keras.clone(), 1));
        assert_eq!(speaker("Epoch 1/2\nEpoch 1: loss=0.5\nEpoch 2/2\n"), (keras, 1));
        let plain = Some("epoch-line".to_owned());
        assert_eq!(speaker("Epoch 1/2\nepoch 1 took 3 s\nEpoch 2/2\nepoch 2 took 3 s\n"), (plain, 2));
        let pytorch = Some("pytorch".to_owned());
        assert_eq!(
            speaker("epoch 1 lr: 3\nTrain Epoch: 1 [5/5 (100%)]\tLoss: 1\nepoch 2 1 s\n"),
            (pytorch, 1)
        );
        assert_eq!(speaker("Test set: Average loss: 1\n * Acc@1 3\n"), (None, 0));
    }

    #[test]
    fn the_users_pattern_is_the_only_one() {
        let pattern = TimingPattern { epoch: r"^\d: pass (?<epoch>\d+)/(?<epochs>\d+)".to_owned() };
        let mut follower = Follower::new(Some(&pattern)).unwrap();
        follower.feed(b"0: pass 1/3\nepoch 9 2.0 s\n", Some(1_000));
        follower.feed(b"1: pass 2/3", Some(4_000));
        follower.finish(Some(5_500));
        let progress = follower.progress();
        assert_eq!(progress.recogniser.as_deref(), Some("pattern"));
        assert_eq!((progress.epochs_completed, progress.epochs_announced), (2, Some(3)));
        assert_eq!(progress.epochs[1].clock_seconds, Some(4.5));
        assert_eq!(progress.epochs[1].ended_at_ms, Some(5_500));
        assert!(Follower::new(Some(&TimingPattern { epoch: "x".to_owned() })).is_err());
    }

    #[test]
    fn one_rank_is_followed() {
        let mut output = String::new();
        for epoch in 1..=3 {
            for rank in ["[1,1]<stdout>:", "[1,0]<stdout>:"] {
                output += &format!("{rank}Epoch {epoch}/3\n");
            }
            for rank in ["[1,0]<stdout>:", "[1,1]<stdout>:"] {
                output += &format!("{rank}9/9 - {epoch}s - loss: 1\n");
            }
        }
        let progress = followed(&output);
        assert_eq!(progress.epochs.iter().map(|epoch| epoch.epoch).collect::<Vec<_>>(), [1, 2, 3]);
        assert_eq!(split_rank("[default3]:Train"), (Some("default3"), "Train"));
        assert_eq!(split_rank("[rank0]: Train"), (Some("rank0"), " Train"));
        assert_eq!(split_rank(" 2: Train"), (Some("2"), "Train"));
        assert_eq!(split_rank("[2024]: Train"), (None, "[2024]: Train"));
        assert_eq!(split_rank("12:30: Train"), (None, "12:30: Train"));
    }

    #[test]
    fn keras_times_by_the_clock_run_from_the_epochs_line() {
        let mut follower = Follower::new(None).unwrap();
        follower.feed(b"Epoch 1/2\n", Some(1_000));
        follower.feed(b"9/9 [===] - 2s - loss: 1", Some(3_500));
        assert_eq!(follower.progress().epochs_completed, 0);
        follower.feed(b"\nsaving\nEpoch 2/2\n", Some(3_750));
        let epoch = &follower.progress().epochs[0];
        assert_eq!((epoch.clock_seconds, epoch.printed_seconds), (Some(2.75), Some(2.0)));
        assert_eq!(epoch.seconds(), Some(2.75));
    }
}
