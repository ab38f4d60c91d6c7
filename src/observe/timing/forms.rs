//! Programs whose lines are known by their form alone: a table with an entry for each form, and a line of it.
//!
//! The groups of a pattern say what stands there: `epoch`, `epochs` (or `last`, the number of the last), `step`, `of` (or
//! `whole`, where the step is the last), `s` (a time), `step_s` (or `span_s`, the time of `span` steps), a rate in the unit that the group is named after
//! (`samples`, `device_samples`, `tokens`, `words`, `its`), `m_NAME` (a metric), `name` and `value` (another one), and
//! `figures` (text with any number of them; of `val_figures` the names get `val_`). The first form that matches counts.

use regex_lite::{Captures, Regex};

use super::bar;
use super::event::{Event, Facts, Line, Rate, Recogniser};
use super::names::Trained;
use super::scan;

/// What a line of a form says.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Says {
    Nothing,
    /// How many epochs there will be, or, as `of`, how many steps of the run.
    Announce,
    EpochStart,
    Step,
    /// A step; the last one ends its epoch.
    StepOrEnd,
    Iteration,
    RunStep,
    EpochEnd,
    /// As `EpochEnd` in words that count steps elsewhere: only numbers from 1 on without a gap.
    EpochNext,
    EpochOver,
    /// Figures of an evaluation; those that training has as well get `test_`.
    Evaluation,
    Figures,
    RunEnd,
    /// As `RunEnd` and as `Evaluation`, in words that other programs use as well: once another line was read.
    Closing,
    Scored,
}

/// A form of lines: what they say, the pattern, and a line as the program prints it.
type Form = (Says, &'static str, &'static str);

/// A program.
#[derive(Debug)]
pub(super) struct Program {
    name: &'static str,
    triggers: &'static [&'static str],
    counts_from_zero: Option<bool>,
    /// Parts of names, in small letters, of figures that are no metrics; behind `=` a whole name.
    others: &'static [&'static str],
    forms: &'static [Form],
}

/// The table.
pub(super) const PROGRAMS: [Program; 10] = [
    // log_processor.py of MMEngine, where `time` is that of a step; TextLoggerHook of MMCV 1.x; counted from 1
    Program {
        name: "mmengine",
        triggers: &[
            "Epoch(",
            "Epoch [",
            "Iter(",
            "Iter [",
            "Saving checkpoint at ",
            "workflow: [",
            "max_epochs=",
        ],
        counts_from_zero: Some(false),
        others: &[
            "time",
            "eta",
            "memory",
            "=lr",
            "=base_lr",
            "=mode",
            "=weight_decay",
            "=momentum",
        ],
        forms: &[
            (
                Says::EpochEnd,
                r"Saving checkpoint at (?<epoch>\d+) +epochs",
                "Saving checkpoint at 1 epochs",
            ),
            (
                Says::Announce,
                r"^(?:.* )?workflow: \[.*max: (?<epochs>\d+) epochs",
                "mmdet - INFO - workflow: [('train', 1)], max: 12 epochs",
            ),
            (
                Says::Announce,
                r"train_cfg = dict\(.*max_epochs=(?<epochs>\d+)",
                "train_cfg = dict(by_epoch=True, max_epochs=300, val_interval=10)",
            ),
            (
                Says::Evaluation,
                r"(?:Epoch|Iter)\((?:val|test)\) +\[[^\]]*\](?: *\[[^\]]*\])?(?<figures>.*)",
                "2021-05-01 12:00:00,123 - mmdet - INFO - Epoch(val) [1][625]    bbox_mAP: 0.3640, bbox_mAP_50: 0.5810",
            ),
            (
                Says::StepOrEnd,
                r"Epoch(?:\(train\))? +\[ *(?<epoch>\d+)\]\[ *(?<step>\d+)/ *(?<of>\d+)\](?<figures>\s+\w+: .*?(?:\btime: (?<step_s>[\d.]+).*)?)$",
                "2022/08/22 15:51:56 - mmengine - INFO - Epoch(train)  [1][ 10/1563]  lr: 1.0e-03  eta: 0:18:23  time: 0.1414  loss: 5.34",
            ),
            (
                Says::RunStep,
                r"Iter(?:\(train\))? +\[ *(?<step>\d+)/ *(?<of>\d+)\](?<figures>.*?(?:\btime: (?<step_s>[\d.]+).*)?)$",
                "2021-05-01 12:00:00,123 - mmseg - INFO - Iter [50/160000]  lr: 9.9e-03, eta: 1 day, 2:03:04, time: 0.6, loss: 3.1",
            ),
        ],
    },
    // What estimators of scikit-learn print with `verbose`: MLPClassifier, of which an iteration is an epoch and whose figures
    // have eight digits, KMeans, SGDClassifier, sag and saga, HistGradientBoosting
    Program {
        name: "scikit-learn",
        triggers: &[
            "Iteration ",
            "-- Epoch ",
            ", NNZs: ",
            "Total training time: ",
            ", change: ",
            " leaves, max depth",
            "Validation score: ",
        ],
        counts_from_zero: None,
        others: &[],
        forms: &[
            (
                Says::EpochNext,
                r"^\s*Iteration (?<epoch>[1-9]\d*), loss = (?<m_loss>\d+\.\d{8})\s*$",
                "Iteration 3, loss = 0.65851937",
            ),
            (
                Says::RunStep,
                r"^\s*Iteration (?<step>\d+), inertia (?<m_inertia>\d+(?:\.\d+)?(?:e[+-]?\d+)?)\.?\s*$",
                "Iteration 0, inertia 4233.7.",
            ),
            (
                Says::EpochStart,
                r"^\s*-- Epoch (?<epoch>\d+)\s*$",
                "-- Epoch 1",
            ),
            (
                Says::EpochOver,
                r"^\s*Norm: .*Avg\. loss: (?<m_loss>\S+)",
                "Norm: 34.91, NNZs: 20, Bias: -1.0, T: 1000, Avg. loss: 1.25",
            ),
            (
                Says::EpochEnd,
                r"^\s*Epoch (?<epoch>\d+), change: (?<m_change>\S+)\s*$",
                "Epoch 3, change: 0.12345678",
            ),
            (
                Says::RunStep,
                r"^\s*\[(?<step>\d+)/(?<of>\d+)\] .* leaves, .*, in (?<step_s>[\d.]+ ?\w+)",
                "[10/100] 1 tree, 31 leaves, max depth = 9, in 0.012s",
            ),
            (
                Says::Scored,
                r"^\s*Validation score: (?<m_validation_score>\S+)",
                "Validation score: 0.905000",
            ),
            (
                Says::Closing,
                r"^\s*Total training time: (?<s>[\d.]+ \w+)",
                "Total training time: 0.01 seconds.",
            ),
        ],
    },
    // solver.cpp and sgd_solver.cpp of Caffe, before and after rc5 (2017), and of NVCaffe
    Program {
        name: "caffe",
        triggers: &["Iteration ", "net output #", "max_iter: ", "Test score #"],
        counts_from_zero: None,
        others: &[],
        forms: &[
            (Says::Announce, r"^max_iter: (?<of>\d+)", "max_iter: 450000"),
            (
                Says::Figures,
                r"(?:^|\] +)Train net output #\d+: (?<name>\S+) = (?<value>\S+)",
                "I1109 10:34:34.281066  9709 solver.cpp:238]     Train net output #0: loss_x16 = 0.0019 (* 1 = 0.0019 loss)",
            ),
            (
                Says::Evaluation,
                r"(?:^|\] +)Test net output #\d+: (?<name>\S+) = (?<value>\S+)",
                "I0828 22:18:14.313817 11510 solver.cpp:302]     Test net output #0: accuracy = 0.0308",
            ),
            (
                Says::Figures,
                r"(?:^|\] )Iteration \d+, lr = (?<m_lr>\S+)",
                "I0828 22:18:14.476823 11510 solver.cpp:571] Iteration 0, lr = 0.001",
            ),
            (
                Says::Evaluation,
                r"(?:^|\] )Test score #0: (?<m_test_score_0>\S+)",
                "I0828 22:18:14.313817 11510 solver.cpp:302] Test score #0: 0.7533",
            ),
            (
                Says::RunStep,
                r"(?:^|\] )Iteration (?<step>\d+), Testing net",
                "I0828 22:17:48.339010 11510 solver.cpp:251] Iteration 1000, Testing net (#0)",
            ),
            (
                Says::RunStep,
                r"(?:^|\] )Iteration (?<step>\d+)(?: \((?<its>[\d.]+) iter/s, (?<span_s>[\d.]+)s/(?<span>\d+) iters?\))?(?:, [^,]*ep)?, loss = (?<m_loss>\S+)\s*$",
                "I1109 10:34:34.280992  9709 solver.cpp:219] Iteration 360 (0.170469 iter/s, 58.6617s/10 iters), loss = 0.0140731",
            ),
        ],
    },
    // pytorch_synthetic_benchmark.py, tensorflow_synthetic_benchmark.py, tensorflow2_mnist.py of horovod 0.15 to 0.28
    Program {
        name: "horovod",
        triggers: &["Iter #", "mg/sec per ", "img/sec on ", "Step #"],
        counts_from_zero: None,
        others: &[],
        forms: &[
            (
                Says::RunStep,
                r"Iter #(?<step>\d+): (?<device_samples>[\d.]+) im\w+/sec per ",
                "Iter #5: 348.5 img/sec per GPU",
            ),
            (
                Says::RunStep,
                r"Iter #(?<step>\d+): (?<samples>[\d.]+) im\w+/sec",
                "Iter #5: 348.5 img/sec",
            ),
            (
                Says::RunStep,
                r"Step #(?<step>\d+)\s+Loss: (?<m_loss>\S+)",
                "Step #10  Loss: 2.301",
            ),
            (
                Says::Figures,
                r"Img/sec per .*: (?<device_samples>[\d.]+) *\+-",
                "Img/sec per /gpu:0: 352.5 +-3.0",
            ),
            (
                Says::RunEnd,
                r"Total img/sec on .*: (?<samples>[\d.]+) *\+-",
                "Total img/sec on 16 GPU(s): 5640.2 +-47.2",
            ),
        ],
    },
    // SGD.cpp of CNTK 1.0 to 2.7, progress_print.py of 2.x; what follows `*` counts samples
    Program {
        name: "cntk",
        triggers: &["Minibatch[", "Finished Epoch", "Starting Epoch "],
        counts_from_zero: None,
        others: &["time", "samples", "learningrate"],
        forms: &[
            (
                Says::Nothing,
                r"LearnRateSearch:|Evaluation \[",
                "LearnRateSearch: Finished Epoch[1 of 2]: ce = 1",
            ),
            (
                Says::EpochStart,
                r"Starting Epoch (?<epoch>\d+): learning rate",
                "Starting Epoch 2: learning rate per sample = 0.01",
            ),
            (
                Says::EpochEnd,
                r"Finished Epoch ?\[ *(?<epoch>\d+)(?: of *(?<epochs>\d+))?\]: +\[[^T\]][^\]]*\] (?<val_figures>.*)",
                "Finished Epoch[ 1 of 5]: [Validate] ce = 0.32 * 1000",
            ),
            (
                Says::EpochEnd,
                r"Finished Epoch ?\[ *(?<epoch>\d+)(?: of *(?<epochs>\d+))?\]: +(?:\[[^\]]*\])?(?<figures>.*) (?<s>[\d.]+)s \( *(?<samples>[\d.]+) samples",
                "Finished Epoch[1 of 300]: [Training] loss = 1.663636 * 10, metric = 52.40% * 10 0.890s ( 11.2 samples/s);",
            ),
            (
                Says::EpochEnd,
                r"Finished Epoch ?\[ *(?<epoch>\d+)(?: of *(?<epochs>\d+))?\]: +(?:\[[^\]]*\])?(?<figures>.*?(?:[eE]pochTime=(?<s>[\d.]+).*)?)$",
                "Finished Epoch[ 1 of 5]: [Training] ce = 2.32 * 1000; totalSamplesSeen = 1000; epochTime=0.17275s",
            ),
            (
                Says::Step,
                r"Epoch\[ *(?<epoch>\d+)(?: of *(?<epochs>\d+))?\]-Minibatch\[ *\d+- *(?<step>\d+)(?<whole>, 100\.00%)?[^\]]*\]:(?<figures>.*?)(?:(?<name>EvalErr\[\d+\]PerSample) = (?<value>[\d.]+).*?)?(?:[sS]amplesPerSecond = (?<samples>[\d.]+).*)?$",
                " Epoch[ 1 of 5]-Minibatch[   1-  10, 100.00%]: ce = 2.32 * 1000; time = 0.1718s; samplesPerSecond = 5820.2",
            ),
            (
                Says::Iteration,
                r"^\s*Minibatch\[ *\d+- *(?<step>\d+)(?<whole>, 100\.00%)?[^\]]*\]:(?<figures>.*?(?:s \( *(?<samples>[\d.]+) samples.*)?)$",
                " Minibatch[   1- 100]: loss = 1.663636 * 6400, metric = 52.40% * 6400;",
            ),
        ],
    },
    // onmt/utils/statistics.py of OpenNMT-py 0.1 to 3.5 (of its two rates that of the source), scheduler.h of Marian 1.0 to
    // 1.12
    Program {
        name: "nmt",
        triggers: &[
            " tok/s; ",
            " : Up. ",
            "Validation perplexity: ",
            "Validation accuracy: ",
        ],
        counts_from_zero: Some(false),
        others: &["sents", "bsz"],
        forms: &[
            (
                Says::Figures,
                r"\[valid\].*Ep\. \d+ : Up\. \d+ : (?<name>[^:]+) : (?<value>\S+)",
                "[valid] Ep. 1 : Up. 80000 : perplexity : 15.1079 : new best",
            ),
            (
                Says::Step,
                r"Ep\. (?<epoch>\d+) : Up\. (?<step>\d+) :(?:.* Cost (?<m_cost>\S+))?(?:.* (?<words>[\d.,]+) words/s)?",
                "Ep. 1 : Up. 82000 : Sen. 5,529,093 : Cost 2.79048038 : Time 817.42s : 2193.04 words/s",
            ),
            (
                Says::Step,
                r"Epoch +(?<epoch>\d+), *(?<step>\d+)/ *(?<of>\d+);(?<figures>[^/]*;)(?:[^;]*updates: +\d+)?[^;\d]*(?<tokens>[\d.]+)[^;]* tok/s",
                "Epoch  1, 12850/37527; acc:   3.99; ppl: 12792.57; 3438 src tok/s; 3517 tgt tok/s;   9823 s elapsed",
            ),
            (
                Says::Iteration,
                r"Step +(?<step>\d+)/ *(?<of>\d+);(?<figures>[^/]*;) *(?<tokens>[\d.]+)[^;]* tok/s",
                "Step 2250/200000; acc:  31.18; ppl: 57.53; xent: 4.05; lr: 0.00028; 5092/261 tok/s;   6641 sec",
            ),
            (
                Says::Scored,
                r"(?<name>Validation \w+): (?<value>\S+)",
                "Validation perplexity: 12.3",
            ),
        ],
    },
    // espnet2/train/trainer.py and reporter.py of ESPnet 0.9 to 202402; `train_time` is the mean time of an iteration
    Program {
        name: "espnet",
        triggers: &["epoch:train:", "epoch results: ", "epoch started."],
        counts_from_zero: None,
        others: &["time", "count"],
        forms: &[
            (
                Says::EpochStart,
                r"\b(?<epoch>\d+)/(?<epochs>\d+)epoch started\.",
                "2/20epoch started. Estimated time to finish: 33 minutes and 42.59 seconds",
            ),
            (
                Says::Step,
                r"\b(?<epoch>\d+)epoch:train:\d+-(?<step>\d+)batch: (?<figures>.*?(?:\btrain_time=(?<step_s>[\d.]+).*)?)$",
                "1epoch:train:6376-6750batch: iter_time=0.001, loss=2.386, lr_0=0.100, train_time=0.013",
            ),
            (
                Says::EpochEnd,
                r"\b(?<epoch>\d+)epoch results: \[train\] (?<figures>[^\[]*?(?:\btrain_time=(?<step_s>[\d.]+), )?(?:\btime=(?<s>[^\[]*?), total_count)[^\[]*)(?:\[valid\] (?<valid_figures>[^\[]*))?",
                "1epoch results: [train] loss=2.853, train_time=0.013, time=1 minute and 42.6 seconds, total_count=7507, [valid] loss=2.387",
            ),
        ],
    },
    // allennlp/training/trainer.py and gradient_descent_trainer.py of AllenNLP 0.4 to 2.10
    Program {
        name: "allennlp",
        triggers: &["allennlp.training"],
        counts_from_zero: None,
        others: &[],
        forms: &[
            (
                Says::EpochOver,
                r"trainer - Epoch duration: (?<s>\S+)",
                "allennlp.training.trainer - Epoch duration: 0:01:23.456",
            ),
            (
                Says::EpochStart,
                r"trainer - Epoch (?<epoch>\d+)/(?<last>\d+)",
                "2017-10-14 16:48:27,962 - INFO - allennlp.training.trainer - Epoch 0/139",
            ),
            (
                Says::Iteration,
                r"trainer - Batch (?<step>\d+)/(?<of>\d+):(?<figures>.*)",
                "allennlp.training.trainer - Batch 567/17168: accuracy: 0.42, loss: 1.32 ||",
            ),
        ],
    },
    // litgpt/finetune/lora.py and litgpt/pretrain.py of litgpt 0.1 to 0.5
    Program {
        name: "litgpt",
        triggers: &["loss train: ", "Training time: "],
        counts_from_zero: Some(false),
        others: &[],
        forms: &[
            (
                Says::Step,
                r"^\s*Epoch (?<epoch>\d+) \| iter (?<step>\d+) .*\| loss train: (?<m_loss_train>[^\s,]+)(?:, val: (?<m_val>\d\S*))?(?:.* iter time: (?<step_s>[\d.]+ m?s))?",
                "Epoch 4 | iter 961 step 961 | loss train: 1.062, val: 1.057 | iter time: 529.46 ms (step)",
            ),
            (
                Says::Closing,
                r"^\s*Training time: (?<s>[\d.]+s)",
                "Training time: 583.36s",
            ),
        ],
    },
    // composer/loggers/console_logger.py of Composer 0.11 to 0.28; rates but that of samples are the same in other words
    Program {
        name: "composer",
        triggers: &[
            "[batch=",
            "Train loss/",
            "Train throughput/",
            "Train metrics/",
            "Eval metrics/",
        ],
        counts_from_zero: None,
        others: &[],
        forms: &[
            (
                Says::Iteration,
                r"\[batch=(?<step>\d+)(?:/(?<of>\d+))?\]",
                "[batch=366/48000]:",
            ),
            (
                Says::Figures,
                r"^\s*Train throughput/samples_per_sec: (?<samples>\S+)",
                "\t Train throughput/samples_per_sec: 38.2",
            ),
            (
                Says::Nothing,
                r"^\s*Train throughput/",
                "\t Train throughput/device/samples_per_sec: 4.8",
            ),
            (
                Says::Figures,
                r"^\s*\w+ (?<name>[^:]+): (?<value>\S+)",
                "\t Train loss/train/total: 10.3750",
            ),
        ],
    },
];

/// Reads the lines of one program of the table.
#[derive(Debug)]
pub(super) struct Known {
    program: &'static Program,
    /// Its patterns, once a line was of interest.
    patterns: Vec<(Says, Regex)>,
    spoke: bool,
    /// The number of the last [`Says::EpochNext`].
    last: Option<u64>,
    /// Steps of the run, where announced.
    steps: Option<u64>,
    trained: Trained,
}

impl Known {
    pub(super) fn new(program: &'static Program) -> Self {
        Self {
            program,
            patterns: Vec::new(),
            spoke: false,
            last: None,
            steps: None,
            trained: Trained::default(),
        }
    }
}

impl Recogniser for Known {
    fn name(&self) -> &'static str {
        self.program.name
    }

    fn triggers(&self) -> &'static [&'static str] {
        self.program.triggers
    }

    fn counts_from_zero(&self) -> Option<bool> {
        self.program.counts_from_zero
    }

    fn read<'a>(&mut self, line: &Line<'a>, say: &mut dyn FnMut(Event<'a>)) {
        if self.patterns.is_empty() {
            let compiled = |(says, pattern, _): &Form| Some((*says, Regex::new(pattern).ok()?));
            self.patterns = self.program.forms.iter().filter_map(compiled).collect();
        }
        let found = self
            .patterns
            .iter()
            .find_map(|(says, regex)| Some((*says, regex, regex.captures(line.text)?)));
        let Some((says, regex, groups)) = found else {
            return;
        };
        if matches!(says, Says::Closing | Says::Scored) && !self.spoke {
            return;
        }
        if says == Says::EpochNext {
            let epoch = groups
                .name("epoch")
                .and_then(|epoch| epoch.as_str().parse::<u64>().ok());
            let follows = epoch
                .filter(|epoch| *epoch == 1 || self.last.is_some_and(|last| last + 1 == *epoch));
            self.last = follows;
            if follows.is_none() {
                return;
            }
        }
        let mut facts = facts(regex, &groups, self.program.others);
        if matches!(says, Says::Evaluation | Says::Scored) {
            facts.metrics = self.trained.tell_apart("test_", facts.metrics);
        } else {
            self.trained.note(&facts.metrics);
        }
        if let Some(mut event) = event(says, &groups, facts) {
            match &mut event {
                Event::Announce {
                    epochs: None,
                    steps,
                } => {
                    self.steps = *steps;
                    return;
                }
                Event::RunStep { of, .. } => *of = of.or(self.steps),
                _ => {}
            }
            self.spoke = true;
            say(event);
        }
    }
}

fn event<'a>(says: Says, groups: &Captures<'a>, facts: Facts<'a>) -> Option<Event<'a>> {
    let text = |name| groups.name(name).map(|group| group.as_str());
    let count = |name| {
        text(name)
            .and_then(scan::unsigned)
            .map(|(number, _)| number)
    };
    let epochs = count("epochs").or_else(|| count("last").and_then(|last| last.checked_add(1)));
    let step = count("step");
    let of = count("of").or(step.filter(|_| text("whole").is_some()));
    let seconds = text("s").and_then(seconds);
    Some(match says {
        Says::Nothing => return None,
        Says::Announce => Event::Announce { epochs, steps: of },
        Says::EpochStart => Event::EpochStart {
            epoch: count("epoch")?,
            epochs,
        },
        Says::StepOrEnd if step >= of => {
            let step = step.zip(of);
            Event::EpochEnd {
                epoch: count("epoch")?,
                epochs,
                seconds,
                step,
                facts,
            }
        }
        Says::Step | Says::StepOrEnd => Event::Step {
            epoch: count("epoch")?,
            epochs,
            step: step?,
            of,
            facts,
        },
        Says::Iteration => Event::Iteration { step, of, facts },
        Says::RunStep => Event::RunStep {
            epoch: None,
            epochs,
            step: step?,
            of,
            facts,
        },
        Says::EpochEnd | Says::EpochNext => Event::EpochEnd {
            epoch: count("epoch")?,
            epochs,
            seconds,
            step: None,
            facts,
        },
        Says::EpochOver => Event::EpochOver {
            seconds,
            step: None,
            facts,
        },
        Says::Evaluation | Says::Scored => Event::Validation { facts },
        Says::Figures if facts.is_empty() => return None,
        Says::Figures => Event::Figures { facts },
        Says::RunEnd | Says::Closing => Event::RunEnd { seconds, facts },
    })
}

fn facts<'a>(regex: &Regex, groups: &Captures<'a>, others: &[&str]) -> Facts<'a> {
    let mut facts = Facts::default();
    let (mut named, mut span) = (None, None);
    for group in regex.capture_names().flatten() {
        let Some(text) = groups.name(group).map(|found| found.as_str()) else {
            continue;
        };
        let number = || scan::grouped(text).map(|(value, _)| value);
        let rate = |unit| number().and_then(|value| Rate::of_run(value, unit));
        match group {
            "step_s" => facts.step_seconds = seconds(text),
            "span_s" => span = number(),
            "span" => facts.step_seconds = span.zip(number()).map(|(span, steps)| span / steps),
            "samples" => facts.throughput = rate("samples/s"),
            "tokens" => facts.throughput = rate("tokens/s"),
            "its" => facts.throughput = rate("it/s"),
            "words" => facts.throughput = rate("words/s"),
            "device_samples" => {
                facts.throughput = number().and_then(|value| Rate::of_device(value, "samples/s"));
            }
            "name" => named = scan::figure_name(text.trim()),
            "value" => facts.metrics.extend(named.take().zip(number())),
            _ => {
                if let Some(name) = group.strip_prefix("m_") {
                    facts
                        .metrics
                        .extend(number().map(|value| (name.to_owned().into(), value)));
                } else if let Some(prefix) = group.strip_suffix("figures") {
                    let mut metrics = scan::metrics(text, &[]);
                    metrics.retain(|(name, _)| {
                        let is = |other: &&str| {
                            other
                                .strip_prefix('=')
                                .map_or_else(|| scan::holds(name, other), |whole| name == whole)
                        };
                        !others.iter().any(is)
                    });
                    if !prefix.is_empty() {
                        metrics
                            .iter_mut()
                            .for_each(|(name, _)| *name = format!("{prefix}{name}").into());
                    }
                    facts.metrics.extend(metrics);
                }
            }
        }
    }
    facts
}

/// Seconds of `1 hour, 31 minutes and 58.52 seconds`, `0:01:23.456`, `529.46 ms` or `0.013`.
fn seconds(text: &str) -> Option<f64> {
    let Some((mut total, mut rest)) = scan::duration(text) else {
        return bar::clock(text)
            .or_else(|| scan::number(text))
            .map(|(seconds, _)| seconds);
    };
    while let Some(next) = rest
        .strip_prefix(", ")
        .or_else(|| rest.strip_prefix(" and "))
        && let Some((more, after)) = scan::duration(next)
    {
        (total, rest) = (total + more, after);
    }
    Some(total)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn iterations_that_are_no_epochs_are_none() {
        let program = PROGRAMS
            .iter()
            .find(|program| program.name == "scikit-learn")
            .expect("it is known");
        let ends = |numbers: &[u64]| {
            let (mut known, mut ends) = (Known::new(program), 0);
            for number in numbers {
                let text = format!("Iteration {number}, loss = 0.00851937");
                known.read(
                    &Line {
                        text: &text,
                        redrawn: false,
                    },
                    &mut |event| {
                        ends += u32::from(matches!(event, Event::EpochEnd { .. }));
                    },
                );
            }
            ends
        };
        assert_eq!(
            (ends(&[1, 2, 3]), ends(&[20, 40, 60]), ends(&[100, 101])),
            (3, 0, 0)
        );
    }

    #[test]
    fn sample_of_each_form_is_read_by_it_and_by_none_before() {
        for program in &PROGRAMS {
            for (at, (says, pattern, sample)) in program.forms.iter().enumerate() {
                let first = program.forms.iter().position(|(_, pattern, _)| {
                    Regex::new(pattern)
                        .unwrap_or_else(|why| panic!("{pattern}: {why}"))
                        .is_match(sample)
                });
                assert_eq!(first, Some(at), "{sample}");
                let regex = Regex::new(pattern).unwrap();
                let groups = regex.captures(sample).unwrap();
                let facts = facts(&regex, &groups, program.others);
                let wants_facts = regex
                    .capture_names()
                    .flatten()
                    .any(|group| group.contains("figures"));
                assert!(!wants_facts || !facts.metrics.is_empty(), "{sample}");
                assert_eq!(
                    event(*says, &groups, facts).is_none(),
                    *says == Says::Nothing,
                    "{sample}"
                );
                let wanted = |trigger: &&str| sample.contains(*trigger);
                assert!(
                    *says == Says::Nothing || program.triggers.iter().any(wanted),
                    "{sample}"
                );
            }
        }
    }

    #[test]
    fn time_in_words_is_added_up() {
        for (text, time) in [
            ("1 hour, 31 minutes and 58.5 seconds", 5518.5),
            ("0:01:23.5", 83.5),
            ("500 ms (step)", 0.5),
            ("0.013", 0.013),
        ] {
            assert!(
                seconds(text).is_some_and(|seconds| (seconds - time).abs() < 1e-9),
                "{text}"
            );
        }
        assert_eq!(seconds("soon"), None);
    }
}
