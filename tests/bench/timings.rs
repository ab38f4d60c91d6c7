//! Reading the output of a training: what a core spends on it.

use std::error::Error;
use std::fmt::Write as _;
use std::time::Instant;

use dlrun::observe::timing::Follower;

use crate::Effort;
use crate::report::Row;

/// Bytes of each output.
const SIZE: usize = 32 << 20;

/// Bytes that the watcher reads at one go at that rate.
const PORTION: usize = 256 << 10;

/// The budget: the share of a core, in percent, that reading 10 MB a second may take.
const BUDGET_PERCENT: f64 = 1.0;

/// Reading outputs of several kinds in this process, as the share of a core at 10 MB a second.
pub(crate) fn rows(effort: Effort) -> Result<Vec<Row>, Box<dyn Error>> {
    let mut rows = Vec::new();
    for (name, text) in [
        ("a program's chatter", chatter()),
        ("chatter with a line of training in a hundred", mixed()),
        ("a bar of Keras, redrawn", keras()),
        ("lines of training only", imagenet()),
        ("a bar of tqdm, redrawn", tqdm()),
    ] {
        let mut seconds = Vec::new();
        for _ in 0..effort.of(5, 21) {
            let begin = Instant::now();
            let mut follower = Follower::new(None)?;
            for (at, portion) in text.as_bytes().chunks(PORTION).enumerate() {
                follower.feed(portion, Some(at as u64 * 25));
            }
            std::hint::black_box(follower.progress());
            seconds.push(begin.elapsed().as_secs_f64());
        }
        seconds.sort_by(f64::total_cmp);
        #[expect(clippy::cast_precision_loss, reason = "sizes stay far below 2^53")]
        let rate = text.len() as f64 / seconds[seconds.len() / 2] / 1e6;
        rows.push(
            Row::budget(
                "timings",
                name,
                10.0 / rate * 100.0,
                "% of a core at 10 MB/s",
                BUDGET_PERCENT,
            )
            .detailed(format!("{rate:.0} MB/s")),
        );
    }
    Ok(rows)
}

fn filled(mut line: impl FnMut(&mut String, usize)) -> String {
    let mut text = String::with_capacity(SIZE + 4096);
    for number in 0.. {
        if text.len() >= SIZE {
            break;
        }
        line(&mut text, number);
    }
    text
}

fn chat(text: &mut String, number: usize) {
    let channel = number % 24;
    let _ = writeln!(
        text,
        "node{:03}:12{channel:03}:13001 [{}] NCCL INFO Channel {channel:02}/0 : {}[{}] -> {}[{}] via P2P/CUMEM/read",
        number % 128,
        number % 8,
        number % 64,
        number % 8,
        (number + 1) % 64,
        (number + 1) % 8,
    );
}

fn chatter() -> String {
    filled(chat)
}

fn mixed() -> String {
    filled(|text, number| {
        if number % 100 == 99 {
            imagenet_line(text, number / 100)
        } else {
            chat(text, number)
        }
    })
}

fn imagenet_line(text: &mut String, number: usize) {
    let (epoch, step) = (number / 5005, number % 5005);
    let _ = writeln!(
        text,
        "Epoch: [{epoch}][{step:4}/5005]\tTime  0.794 ( 1.044)\tData  0.097 ( 0.104)\tLoss 6.0205e+00 (6.3747e+00)\t\
         Acc@1   3.12 (  1.34)\tAcc@5   7.81 (  4.54)"
    );
}

fn imagenet() -> String {
    filled(imagenet_line)
}

fn keras() -> String {
    filled(|text, number| {
        let (epoch, step) = (number / 1875 + 1, number % 1875 + 1);
        if step == 1 {
            let _ = writeln!(text, "Epoch {epoch}/90");
        }
        let end = if step == 1875 { '\n' } else { '\r' };
        let _ = write!(
            text,
            "\u{1b}[1m{step:4}/1875\u{1b}[0m \u{1b}[32m━━━━━━━━━━\u{1b}[0m\u{1b}[37m━━━━━━━━━━\u{1b}[0m \u{1b}[1m4s\u{1b}[0m \
             3ms/step - accuracy: 0.9012 - loss: 0.3391{end}"
        );
    })
}

fn tqdm() -> String {
    filled(|text, number| {
        let step = number % 1875;
        let end = if step == 1874 { '\n' } else { '\r' };
        let _ = write!(
            text,
            "Epoch {}: {:3}%|████▍     | {step}/1875 [00:12<00:15, 71.42it/s, loss=0.339, v_num=3]{end}",
            number / 1875,
            step * 100 / 1875
        );
    })
}
