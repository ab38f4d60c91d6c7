//! Follows an output: cuts it into lines, shows them to the recognisers, and makes one progress of what those say.

use aho_corasick::{AhoCorasick, MatchKind};
use serde::Serialize;

use super::decimal_comma;
use super::dull::{self, Dull};
use super::event::{Event, Line, Recogniser, Says, Weight};
use super::families;
use super::fold::Fold;
use super::lines::{Lines, Piece, plain};
use super::names;
use super::pattern::{self, PatternError};
use super::prefix;
use super::screen::Screen;
use super::stamp;
use super::stated::StatedEpoch;
use crate::job::TimingPattern;
use crate::record::{EpochNumbering, MetricPoint, PointKind, Progress};

/// Events of another rank before the first one of rank 0, at most, for that to be followed. Ours: a second or two of their lines.
const LATEST_FIRST: u64 = 20;

/// Bytes of a line that [`Place::text`] holds at most.
const EVIDENCE_BYTES: usize = 240;

/// Lines of one kind from which a recogniser read something.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Evidence {
    /// Who recognised it.
    pub recogniser: &'static str,
    /// What it says: `epoch begins`, `step`, `epoch ends`, `validation`, ...
    pub says: &'static str,
    /// How many lines say it.
    pub lines: u64,
    /// The first of them.
    pub first: Place,
    /// The last of them.
    pub last: Place,
}

/// A line of the output.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Place {
    /// Its number, from 1.
    pub line: u64,
    /// Its text, of at most 240 bytes.
    pub text: String,
}

/// Follows the output of a training.
///
/// Several recognisers may speak of one output, each for itself. Those that know the program's framework outweigh plain
/// lines, which outweigh bare progress bars; what the first to speak leaves open is filled from the others of its weight.
/// Where launchers mark lines with the rank that wrote them, rank 0 is followed; if it says nothing, or begins late, that of the first line
/// about a step or an epoch.
#[derive(Debug)]
pub struct Follower {
    lines: Lines,
    speakers: Vec<Speaker>,
    triggers: Triggers,
    /// The mark of the rank that is followed.
    rank: Option<Box<str>>,
    /// The number of the line that is read.
    line: u64,
    /// Events so far.
    spoken: u64,
    /// Events so far that only a rank that reports its training says: several may print heads.
    of_training: u64,
    evidence: Option<Vec<Evidence>>,
    dull: Dull,
    screen: Screen,
    /// The recognisers that want every line.
    wanting: u64,
}

/// A recogniser and what became of its words.
#[derive(Debug)]
struct Speaker {
    recogniser: Box<dyn Recogniser>,
    fold: Fold,
    /// When, counted in events, it first said something, and something that only its programs say.
    spoke: Option<u64>,
    certain: Option<u64>,
}

/// Which recognisers a line may interest.
#[derive(Debug)]
struct Triggers {
    texts: AhoCorasick,
    /// For each text the set of recognisers, as bits.
    sets: Vec<u64>,
    /// Recognisers that see every line.
    always: u64,
}

impl Triggers {
    fn new(speakers: &[Speaker]) -> Self {
        let (mut texts, mut sets): (Vec<&str>, Vec<u64>) = (Vec::new(), Vec::new());
        let mut always = 0;
        for (index, speaker) in speakers.iter().enumerate() {
            let bit = 1 << index;
            if speaker.recogniser.triggers().is_empty() {
                always |= bit;
            }
            let triggers = speaker.recogniser.triggers().split('¦');
            for text in triggers.filter(|text| !text.is_empty()) {
                match texts.iter().position(|known| *known == text) {
                    Some(at) => sets[at] |= bit,
                    None => {
                        texts.push(text);
                        sets.push(bit);
                    }
                }
            }
        }
        let texts = AhoCorasick::builder()
            .match_kind(MatchKind::Standard)
            .build(texts);
        Self {
            texts: texts.expect("few short texts"),
            sets,
            always,
        }
    }

    /// The recognisers that a line interests by its text.
    fn find(&self, line: &[u8]) -> u64 {
        let hits = self.texts.find_overlapping_iter(line);
        hits.fold(self.always, |set, hit| {
            set | self.sets[hit.pattern().as_usize()]
        })
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
            Some(pattern) => vec![Box::new(pattern::compile(pattern)?) as Box<dyn Recogniser>],
            None => families::all(),
        };
        let silent = |recogniser| Speaker {
            recogniser,
            fold: Fold::default(),
            spoke: None,
            certain: None,
        };
        let speakers: Vec<_> = recognisers.into_iter().map(silent).collect();
        Ok(Self {
            lines: Lines::default(),
            triggers: Triggers::new(&speakers),
            speakers,
            rank: None,
            line: 0,
            spoken: 0,
            of_training: 0,
            evidence: None,
            dull: Dull::default(),
            screen: Screen::default(),
            wanting: 0,
        })
    }

    /// Follows a saved output: keeps the lines from which something is recognised, for [`Follower::evidence`], and takes
    /// the time of a line from its beginning, where a logger wrote one.
    #[must_use]
    pub fn of_saved(mut self) -> Self {
        self.evidence = Some(Vec::new());
        self
    }

    /// Takes the next bytes of the output. `at_ms` is when they were seen, in Unix milliseconds UTC; `None` for a saved
    /// output, whose epochs then have no times by the clock.
    pub fn feed(&mut self, bytes: &[u8], at_ms: Option<u64>) {
        let mut lines = std::mem::take(&mut self.lines);
        lines.feed(bytes, at_ms, |piece| self.take(piece));
        self.lines = lines;
    }

    /// The program ended well, after [`Self::finish`]: what it announced and gave figures of is over.
    pub fn ended_well(&mut self) {
        for speaker in &mut self.speakers {
            speaker.fold.ended_well();
        }
    }

    /// The last announced epoch, where its figures are the last that came: over only if the program ended well. With the
    /// seconds up to the last line, where lines have times.
    #[must_use]
    pub fn unfinished(&self) -> Option<StatedEpoch> {
        let speaking = self
            .speakers
            .iter()
            .filter(|speaker| speaker.spoke.is_some());
        let leader = speaking.min_by_key(|speaker| speaker.order())?;
        let (epoch, duration_s) = leader.fold.unfinished()?;
        Some(StatedEpoch { epoch, duration_s })
    }

    /// Takes a last line without line end as finished: the output is over.
    pub fn finish(&mut self, at_ms: Option<u64>) {
        let mut lines = std::mem::take(&mut self.lines);
        lines.finish(at_ms, |piece| self.take(piece));
        for index in 0..self.speakers.len() {
            let times = (at_ms, at_ms);
            self.listen(index, "", times, |recogniser, say| recogniser.finish(say));
        }
    }

    /// The lines from which something was recognised, in the order in which they first came; nothing unless
    /// [`Follower::of_saved`].
    #[must_use]
    pub fn evidence(&self) -> &[Evidence] {
        self.evidence.as_deref().unwrap_or_default()
    }
}

impl Speaker {
    /// What it says; its name is in it.
    fn progress(&self) -> Progress {
        let mut progress = self.fold.progress(self.recogniser.counts_from_zero());
        progress.recogniser = Some(self.recogniser.name().to_owned());
        progress
    }

    /// Its place among those that speak: who is certain, then who weighs more, then who was first.
    fn order(&self) -> Option<impl Ord + use<>> {
        let spoke = self.spoke?;
        let weight = self.recogniser.weight();
        Some((
            self.certain.is_none(),
            std::cmp::Reverse(weight),
            self.certain.unwrap_or(spoke),
        ))
    }
}

impl Follower {
    /// Reads the next line, unless lines of its form have said nothing before.
    fn take(&mut self, piece: Piece<'_>) {
        if self.screen.repeats(&piece) {
            return;
        }
        let narrow;
        let bytes = if memchr::memchr(0, piece.bytes).is_some() {
            narrow = without_nuls(piece.bytes);
            &narrow
        } else {
            piece.bytes
        };
        let form = dull::form(bytes);
        // The user's expression may look at digits, and who asks for the evidence wants to know of every line.
        let may_pass = !self.is_pattern() && self.evidence.is_none();
        if may_pass && self.dull.passes_over(form) {
            return;
        }
        let wanted = self.triggers.find(bytes) | self.wanting;
        let speaks = wanted != 0 && self.read(Piece { bytes, ..piece }, wanted);
        self.dull.note(form, speaks);
    }

    /// Shows a line to the recognisers; false where none said anything.
    fn read(&mut self, piece: Piece<'_>, wanted: u64) -> bool {
        let Piece { redrawn, line, .. } = piece;
        self.line = line;
        let whole = plain(piece.bytes);
        // The user wrote the pattern for whole lines.
        let whole = match self.is_pattern() {
            true => whole,
            false => decimal_comma::with_points(whole),
        };
        let (rank, text) = match self.is_pattern() {
            true => (None, &*whole),
            false => prefix::split(&whole),
        };
        let other = self.rank.as_deref().zip(rank);
        if let Some((followed, rank)) = other.filter(|(followed, rank)| rank != followed) {
            let is_before = prefix::is_first(rank) && !prefix::is_first(followed);
            if !is_before || self.of_training > LATEST_FIRST || self.has_ended_two() {
                return true;
            }
            // What the other said of its first epoch is replaced by what this one says of it.
            self.rank = Some(Box::from(rank));
        }
        let stamp = || stamp::read(&whole).filter(|_| self.evidence.is_some());
        let at_ms = piece.at_ms.or_else(stamp);
        let (before, spoken) = (self.of_training, self.spoken);
        let mut is_passing = true;
        for index in (0..self.speakers.len()).filter(|index| wanted & 1 << index != 0) {
            self.listen(index, text, (at_ms, piece.since_ms), |recogniser, say| {
                recogniser.read(&Line { text, redrawn }, &mut |event| {
                    is_passing &= event.says.is_passing();
                    say(event);
                });
            });
        }
        if self.rank.is_none() && self.of_training > before {
            self.rank = rank.map(Box::from);
        }
        self.ask_who_wants();
        if !is_passing {
            self.dull.clear();
        }
        self.spoken > spoken
    }

    /// Whether what was read says that two epochs are over.
    fn has_ended_two(&self) -> bool {
        let mut speakers = self.speakers.iter();
        speakers.any(|speaker| speaker.fold.epochs_completed() > 1)
    }

    /// True where the user's own expression is the only recogniser.
    fn is_pattern(&self) -> bool {
        self.speakers[0].recogniser.weight() == Weight::Asked
    }

    /// Asks the recognisers whether they want every line from now on.
    fn ask_who_wants(&mut self) {
        let speakers = self.speakers.iter().enumerate();
        let wanting = speakers.fold(0, |set, (index, speaker)| {
            set | u64::from(speaker.recogniser.wants_every_line()) << index
        });
        if wanting != self.wanting {
            self.wanting = wanting;
            // A head of a table may have come: its rows looked dull before.
            self.dull.clear();
        }
    }

    /// Lets a recogniser speak about `text`.
    fn listen<'a>(
        &mut self,
        index: usize,
        text: &'a str,
        (at_ms, since_ms): (Option<u64>, Option<u64>),
        ask: impl FnOnce(&mut dyn Recogniser, &mut dyn FnMut(Event<'a>)),
    ) {
        let speaker = &mut self.speakers[index];
        let name = speaker.recogniser.name();
        ask(&mut *speaker.recogniser, &mut |event| {
            self.spoken += 1;
            // An evaluation may belong to no training at all, and so may a bar.
            if !matches!(event.says, Says::Validation | Says::RunBegin) {
                speaker.spoke.get_or_insert(self.spoken);
            }
            let is_distinctive = event.says.is_distinctive();
            self.of_training += u64::from(is_distinctive || event.says == Says::Mention);
            if is_distinctive {
                speaker.certain.get_or_insert(self.spoken);
            }
            let evidence = self.evidence.as_mut();
            if let Some(evidence) = evidence.filter(|_| event.says != Says::RunBegin) {
                note(evidence, name, event.says.name(), self.line, text);
            }
            // The first bar is drawn over when the first steps are done.
            let begins = event.says == Says::RunBegin;
            let at_ms = since_ms.filter(|_| begins).or(at_ms);
            speaker.fold.apply(event, at_ms);
        });
    }

    /// Returns what was recognised so far.
    #[must_use]
    pub fn progress(&self) -> Progress {
        let mut speaking: Vec<&Speaker> = self
            .speakers
            .iter()
            .filter(|speaker| speaker.spoke.is_some())
            .collect();
        speaking.sort_by_key(|speaker| speaker.order());
        // The figures of a final evaluation come after all training, whichever recogniser reads that.
        let scores = self
            .speakers
            .iter()
            .filter(|speaker| speaker.recogniser.name() == "score");
        let mut scores: Vec<Progress> = scores.map(|speaker| speaker.fold.progress(None)).collect();
        let Some((first, others)) = speaking.split_first() else {
            let mut progress = Progress::default();
            scores
                .into_iter()
                .for_each(|score| fill_scores(&mut progress, score));
            return progress;
        };
        let mut progress = first.progress();
        // Beside a training's own figures a plain `Accuracy: 0.9` is of nobody knows what.
        for score in &mut scores {
            let named = |name: &str| names::subject(name).is_some();
            score.last_metrics.retain(|name, _| named(name));
            score
                .points
                .iter_mut()
                .for_each(|point| point.metrics.retain(|name, _| named(name)));
        }
        let equal = |other: &&&Speaker| {
            // Bars are drawn between plain lines, not between those of a framework that draws its own.
            let (ours, others) = (first.recogniser.weight(), other.recogniser.weight());
            let mixed = matches!(
                (ours, others),
                (Weight::Plain, Weight::Bare) | (Weight::Bare, Weight::Plain)
            );
            mixed || others == ours && other.certain.is_some() == first.certain.is_some()
        };
        for other in others.iter().filter(equal) {
            let other = other.progress();
            if !is_of_something_else(&other, &progress) {
                fill(&mut progress, other);
            }
        }
        let weight = first.recogniser.weight();
        scores
            .into_iter()
            .for_each(|score| fill_scores(&mut progress, score));
        // Frameworks leave it to the script to say how long all took.
        if weight == Weight::Family && progress.run_seconds.is_none() {
            let plain = |other: &&&Speaker| other.recogniser.weight() == Weight::Plain;
            progress.run_seconds = others
                .iter()
                .filter(plain)
                .find_map(|other| other.progress().run_seconds);
        }
        progress
    }
}

/// True of bars of more or fewer steps than the epochs have, or of as many as there were epochs: around them.
fn is_of_something_else(bars: &Progress, progress: &Progress) -> bool {
    let Some(steps) = bars
        .steps_per_epoch
        .filter(|_| progress.epochs_completed > 1)
    else {
        return false;
    };
    bars.epoch_numbering == Some(EpochNumbering::Unnumbered)
        && progress
            .steps_per_epoch
            .map_or(steps == progress.epochs_completed, |ours| ours != steps)
}

/// Fills the times of epochs from `other`: by their numbers, or in order where it counts as many without numbers.
fn fill_times(progress: &mut Progress, other: &Progress) {
    let numbered = other
        .epoch_numbering
        .is_some_and(|numbering| numbering != EpochNumbering::Unnumbered);
    let as_many = progress.epochs.len() == other.epochs.len();
    for (at, epoch) in progress.epochs.iter_mut().enumerate() {
        let same = if numbered {
            other.epochs.iter().find(|known| known.epoch == epoch.epoch)
        } else {
            other.epochs.get(at).filter(|_| as_many)
        };
        epoch.printed_seconds = epoch
            .printed_seconds
            .or(same.and_then(|known| known.printed_seconds));
    }
}

/// Fills what `progress` leaves open from `other`, group by group: figures that belong together come from one.
fn fill(progress: &mut Progress, mut other: Progress) {
    if progress.epochs_completed == 0 && other.epochs_completed > 0 {
        progress.epoch_numbering = other.epoch_numbering;
        progress.epochs_completed = other.epochs_completed;
        progress.epochs = std::mem::take(&mut other.epochs);
        progress.restarts = other.restarts;
    } else {
        fill_times(progress, &other);
    }
    progress.epochs_announced = progress.epochs_announced.or(other.epochs_announced);
    if progress.last_step.is_none() {
        progress.last_step = other.last_step;
        progress.counts_samples = other.counts_samples;
        progress.steps_per_epoch = progress.steps_per_epoch.or(other.steps_per_epoch);
    }
    if progress.step_seconds.is_none() {
        progress.step_seconds = other.step_seconds;
        progress.step_times = progress.step_times.or(other.step_times);
    }
    fill_figures(progress, other);
}

/// Adds the figures of final evaluations, but for those that were read already.
fn fill_scores(progress: &mut Progress, mut score: Progress) {
    let evaluated = |points: &[MetricPoint]| {
        let places = points
            .iter()
            .filter(|point| point.kind == PointKind::Evaluation)
            .map(|point| point.place + 1);
        places.max().unwrap_or(0)
    };
    for mut point in std::mem::take(&mut score.points) {
        point
            .metrics
            .retain(|name, value| progress.last_metrics.get(name) != Some(value));
        point.place = evaluated(&progress.points);
        if !point.metrics.is_empty() {
            progress.points.push(point);
        }
    }
    fill_figures(progress, score);
}

/// Fills the figures that stand for themselves.
fn fill_figures(progress: &mut Progress, other: Progress) {
    progress.throughput = progress.throughput.take().or(other.throughput);
    progress.run_seconds = progress.run_seconds.or(other.run_seconds);
    for (name, value) in other.last_metrics {
        progress.last_metrics.entry(name).or_insert(value);
    }
}

/// Adds a line to the evidence.
fn note(
    evidence: &mut Vec<Evidence>,
    recogniser: &'static str,
    says: &'static str,
    line: u64,
    text: &str,
) {
    let text = text.trim();
    let text = text[..text.floor_char_boundary(EVIDENCE_BYTES)].to_owned();
    let seen = Place { line, text };
    let same = |known: &&mut Evidence| (known.recogniser, known.says) == (recogniser, says);
    match evidence.iter_mut().find(same) {
        Some(known) => {
            known.lines += 1;
            known.last = seen;
        }
        None => evidence.push(Evidence {
            recogniser,
            says,
            lines: 1,
            first: seen.clone(),
            last: seen,
        }),
    }
}

/// The line without NULs: of UTF-16, as PowerShell redirects it, plain letters remain.
fn without_nuls(line: &[u8]) -> Vec<u8> {
    let line = line.strip_prefix(b"\xff\xfe").unwrap_or(line);
    line.iter().copied().filter(|byte| *byte != 0).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn followed(output: &str) -> Progress {
        let mut follower = Follower::new(None).unwrap();
        follower.feed(output.as_bytes(), None);
        follower.finish(None);
        follower.progress()
    }

    fn speaker(output: &str) -> (Option<String>, u64) {
        let progress = followed(output);
        (progress.recogniser, progress.epochs_completed)
    }

    #[test]
    fn training_of_hugging_face_begins_when_its_bar_appears() {
        let first = |begin: &str| {
            let mut follower = Follower::new(None).unwrap();
            let step = " 50%|#####     | 5/20 [00:08<00:04, 1.6s/it]\n";
            let line =
                |epoch: &str| format!("{{'loss': 0.5, 'learning_rate': 1e-5, 'epoch': {epoch}}}\n");
            for (at_ms, text) in [
                (1000, begin.to_owned()),
                (9000, format!("\r{step}{}", line("0.5"))),
                (13_000, line("1.0")),
            ] {
                follower.feed(text.as_bytes(), Some(at_ms));
            }
            let epochs = follower.progress().epochs;
            (epochs.len(), epochs[0].clock_seconds)
        };
        // It is drawn over, and so a line, when the first steps are done.
        assert_eq!(
            first("\r  0%|          | 0/20 [00:00<?, ?it/s]"),
            (1, Some(12.0))
        );
        assert_eq!(first(""), (1, None));
    }

    #[test]
    fn rank_0_is_followed_though_another_is_before_it() {
        let line = |rank: u32, epoch: u32| {
            let seconds = rank + 1;
            format!("[rank {rank}] Epoch {epoch}/9 time: {seconds}.5s\n")
        };
        let both = |ranks: [u32; 2], epoch| ranks.map(|rank| line(rank, epoch)).concat();
        let times = |output: String| {
            let seen = followed(&output).epochs;
            let times: Vec<_> = seen
                .iter()
                .filter_map(|epoch| epoch.printed_seconds)
                .collect();
            times
        };
        let output = (1..4).map(|epoch| both([1, 0], epoch)).collect();
        assert_eq!(times(output), [1.5; 3]);
        let late = (1..26).map(|epoch| line(1, epoch)).chain([line(0, 1)]);
        assert_eq!(times(late.collect()), [2.5; 25]);
        // A launcher that holds back what each rank prints.
        let blocks = [1, 0].map(|rank| (1..4).map(|epoch| line(rank, epoch)).collect::<String>());
        assert_eq!(times(blocks.concat()), [2.5; 3]);
    }

    #[test]
    fn the_first_certain_recogniser_speaks() {
        let keras = Some("keras".to_owned());
        assert_eq!(
            speaker("Epoch 1/2\n9/9 [===] - 2s - loss: 1\nepoch 7 took 3 s\n"),
            (keras, 1)
        );
        let plain = Some("epoch-line".to_owned());
        // Its heads alone are what many print.
        assert_eq!(
            speaker("Epoch 1/2\nEpoch 1: loss=0.5\nEpoch 2/2\n"),
            (plain.clone(), 1)
        );
        assert_eq!(
            speaker("Epoch 1/2\nepoch 1 took 3 s\nEpoch 2/2\nepoch 2 took 3 s\n"),
            (plain, 2)
        );
        let pytorch = Some("pytorch".to_owned());
        assert_eq!(
            speaker("epoch 1 lr: 3\nTrain Epoch: 1 [5/5 (100%)]\tLoss: 1\nepoch 2 1 s\n"),
            (pytorch, 1)
        );
        assert_eq!(
            speaker("Test set: Average loss: 1\n * Acc@1 3\n"),
            (None, 0)
        );
    }

    #[test]
    fn counts_of_samples_are_marked() {
        let progress = followed("Train Epoch: 1 [640/60000 (1%)]\tLoss: 1.4\n");
        assert_eq!(
            progress.last_step_text().as_deref(),
            Some("640/60000 samples")
        );
        let progress = followed("Epoch: [0][ 10/782]\tTime 0.7 (1.0)\tLoss 6.0 (6.4)\n");
        assert_eq!(progress.last_step_text().as_deref(), Some("step 10/782"));
    }

    #[test]
    fn bars_of_another_length_give_epochs_no_times() {
        let mut output = String::new();
        for epoch in 1..=2 {
            output += &format!(
                "Epoch {epoch}[4816/5011]: loss:0.5\nEpoch {epoch} training ends, total 99.33s\n"
            );
            output += "100%|####| 310/310 [00:31<00:00,  9.72it/s]\n";
        }
        let progress = followed(&output);
        assert_eq!(
            (progress.epochs_completed, progress.steps_per_epoch),
            (2, Some(5011))
        );
        assert_eq!(progress.epochs[0].printed_seconds, None);
        assert!(progress.throughput.is_none());
    }

    #[test]
    fn time_below_the_epoch_is_read_with_the_words_of_a_tutorial() {
        let progress = followed("======== Epoch 1 / 4 ========\n  Training epcoh took: 0:12:12\n");
        assert_eq!(progress.epochs[0].printed_seconds, Some(732.0));
    }

    #[test]
    fn bar_with_counts_in_its_label_is_not_of_mmengine() {
        let bar = "Epoch [0][203/1200] Time/b 0.37 (0.29) Loss 256.8 (258.1) :  17%|# | 203/1200 [00:59<03:08,  5.30it/s]\n";
        assert_ne!(followed(bar).recogniser.as_deref(), Some("mmengine"));
    }

    #[test]
    fn several_trainings_of_the_trainer_count_each() {
        let one = |runtime: &str| {
            format!("{{'train_runtime': {runtime}, 'train_loss': 1.5, 'epoch': 1.0}}\n")
        };
        let progress = followed(&(one("9.8") + &one("9.3")));
        assert_eq!((progress.epochs_completed, progress.restarts), (2, 1));
        // One that broke off, then a shorter one.
        let log =
            |epoch: &str| format!("{{'loss': 0.5, 'learning_rate': 1e-05, 'epoch': {epoch}}}\n");
        let bar = |step: &str| format!(" 34%|###   | {step} [10:00<20:00, 6.06s/it]\n");
        let first = bar("213/620") + &log("0.5") + &log("1.2");
        let second = log("0.5") + &log("1.0") + &one("9.3") + &bar("40/40");
        let progress = followed(&(first + &second));
        assert_eq!((progress.epochs_completed, progress.restarts), (2, 1));
    }

    #[test]
    fn the_users_pattern_is_the_only_one() {
        let pattern = TimingPattern::of_epoch(r"^\d: pass (?<epoch>\d+)/(?<epochs>\d+)");
        let mut follower = Follower::new(Some(&pattern)).unwrap();
        follower.feed(b"0: pass 1/3\nepoch 9 2.0 s\n", Some(1_000));
        follower.feed(b"1: pass 2/3", Some(4_000));
        follower.finish(Some(5_500));
        let progress = follower.progress();
        assert_eq!(progress.recogniser.as_deref(), Some("pattern"));
        assert_eq!(
            (progress.epochs_completed, progress.epochs_announced),
            (2, Some(3))
        );
        assert_eq!(progress.epochs[1].clock_seconds, Some(4.5));
        assert_eq!(progress.epochs[1].ended_at_ms, Some(5_500));
        assert!(Follower::new(Some(&TimingPattern::of_epoch("x"))).is_err());
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
        assert_eq!(
            progress
                .epochs
                .iter()
                .map(|epoch| epoch.epoch)
                .collect::<Vec<_>>(),
            [1, 2, 3]
        );
    }

    #[test]
    fn keras_times_by_the_clock_run_from_the_epochs_line() {
        let mut follower = Follower::new(None).unwrap();
        follower.feed(b"Epoch 1/2\n", Some(1_000));
        follower.feed(b"9/9 [===] - 2s - loss: 1", Some(3_500));
        assert_eq!(follower.progress().epochs_completed, 0);
        follower.feed(b"\nsaving\nEpoch 2/2\n", Some(3_750));
        let epoch = &follower.progress().epochs[0];
        assert_eq!(
            (epoch.clock_seconds, epoch.printed_seconds),
            (Some(2.75), Some(2.0))
        );
        assert_eq!(epoch.seconds(), Some(2.75));
    }
}
