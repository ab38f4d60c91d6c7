//! The choice among the images of a large catalogue.

use std::error::Error;
use std::fmt::Write as _;
use std::path::Path;
use std::time::Instant;

use dlrun::config::{Owner, VersionRange};
use dlrun::image::catalogue::read;
use dlrun::image::choice::choose;
use dlrun::image::choice::{Device, Processor, Wanted};

use crate::Effort;
use crate::report::Row;

const IMAGES: u32 = 10_000;

/// Choosing, and reading what is chosen from, in this process.
pub(crate) fn rows(effort: Effort) -> Result<Vec<Row>, Box<dyn Error>> {
    let text = text()?;
    let path = Path::new("/etc/dlrun/images.d/all.toml");
    let rounds = effort.of(11, 51);
    let mut reading = Vec::new();
    let mut shelf = read(path, &text, Owner::Site);
    for _ in 0..rounds.min(11) {
        let begin = Instant::now();
        shelf = read(path, &text, Owner::Site);
        reading.push(begin.elapsed().as_secs_f64() * 1e3);
    }
    if let Some(problem) = shelf.problems.first() {
        return Err(problem.message.clone().into());
    }
    let mut choosing = Vec::new();
    let mut fitting = 0;
    for round in 0..rounds {
        let wanted = Wanted {
            framework: "tensorflow".into(),
            version: Some(VersionRange::parse(if round % 2 == 0 {
                ">=2.1, <3"
            } else {
                "*"
            })?),
            packages: Vec::new(),
            compiler: None,
            provenance: None,
            arch: Some(("x86_64".into(), "the benchmark".into())),
            processor: Processor::Named("zen3".into(), "the benchmark".into()),
            device: Device::Cpu,
        };
        let begin = Instant::now();
        let choice = choose(&shelf.entries, &wanted);
        choosing.push(begin.elapsed().as_secs_f64() * 1e3);
        fitting = choice
            .candidates
            .iter()
            .filter(|candidate| candidate.rejected.is_empty())
            .count();
    }
    let size = format!(
        "{:.1} MB in one file",
        f64::from(u32::try_from(text.len())?) / 1e6
    );
    Ok(vec![
        Row::budget(
            "catalogue",
            &format!("choosing among {IMAGES} images"),
            median(&mut choosing),
            "ms",
            20.0,
        )
        .detailed(format!("{fitting} of them fit the last job")),
        Row::figure(
            "catalogue",
            &format!("reading {IMAGES} images"),
            median(&mut reading),
            "ms",
        )
        .detailed(size),
    ])
}

fn median(taken: &mut [f64]) -> f64 {
    taken.sort_by(f64::total_cmp);
    taken[taken.len() / 2]
}

/// All of one framework, which is the worst case: every image is judged to the end.
fn text() -> Result<String, std::fmt::Error> {
    let mut text = String::new();
    for number in 0..IMAGES {
        let provenance = ["hub", "pip", "source"][number as usize % 3];
        let microarch =
            ["x86-64-v2", "x86-64-v3", "x86-64-v4", "zen3", "haswell"][number as usize % 5];
        let accelerator = ["none", "nvidia", "none", "amd"][number as usize % 4];
        writeln!(
            text,
            "[[image]]\nname = \"image-{number}\"\npath = \"/shared/images/image-{number}.sif\"\nframework = \"tensorflow\"\n\
             version = \"{}.{}.{}\"\nprovenance = \"{provenance}\"\nmicroarch = \"{microarch}\"\naccelerator = \"{accelerator}\"\n\
             compilers = [\"xla\"]\npython = \"3.11\"\n",
            1 + number % 3,
            number % 17,
            number % 5
        )?;
    }
    Ok(text)
}
