//! The smaller tables of the job file: `[python]`, `[framework]`, `[storage]`, `[build]`, `[workload]`,
//! `[timing]`.

use std::path::PathBuf;

use toml::de::DeTable;

use super::fields::Fields;
use super::file::path;
use super::spec::{
    Build, Conda, Framework, LeftToModel, Located, OwnPython, Provenance, StorageClass,
    TimingPattern, Workload,
};
use crate::foundation::diagnostic::Problem;

/// Names that stand in conditions of rules, in records and in the catalogue.
pub(crate) fn word(text: &str) -> Result<String, String> {
    let allowed = |c: char| c.is_ascii_alphanumeric() || "._+-".contains(c);
    if text.is_empty() || text.len() > 100 || !text.chars().all(allowed) {
        return Err(format!(
            "{text:?} is no name (letters, digits and `. _ + -`)"
        ));
    }
    Ok(text.to_ascii_lowercase())
}

pub(super) fn read_framework(
    table: &DeTable<'_>,
    problems: &mut Vec<Problem>,
) -> (Framework, LeftToModel) {
    let mut fields = Fields::new("framework.", table, &[], problems);
    let name = fields.parsed("name", word).map(|name| name.value);
    let version = fields.parsed("version", |text| {
        let allowed = |c: char| c.is_ascii_alphanumeric() || ".<>=!~^*,+- ".contains(c);
        let fits = !text.trim().is_empty() && text.len() <= 100 && text.chars().all(allowed);
        if fits {
            Ok(text.trim().to_owned())
        } else {
            Err(format!(
                "{text:?} is no version such as \"2.1\" or \">=2.1, <3\""
            ))
        }
    });
    let compiler = fields
        .parsed("compiler", word)
        .map(|compiler| compiler.value);
    let words = Provenance::WORDS.map(|(word, provenance)| (word, Some(provenance)));
    let words = [&words[..], &[("any", None)]].concat();
    let provenance = fields
        .word("provenance", &words, &[])
        .and_then(|provenance| provenance.value);
    let explore = fields
        .decimal("explore", 0.0..=1.0)
        .map_or(0.0, |share| share.value);
    fields.finish();
    let version = version.map(|version| version.value);
    let left = LeftToModel {
        compiler: compiler.as_deref() == Some("auto"),
        explore,
    };
    let compiler = compiler.filter(|_| !left.compiler);
    (
        Framework {
            name,
            version,
            compiler,
            provenance,
        },
        left,
    )
}

pub(super) fn read_storage(
    table: &DeTable<'_>,
    problems: &mut Vec<Problem>,
) -> Option<StorageClass> {
    let mut fields = Fields::new("storage.", table, &[], problems);
    let prefer = fields.word("prefer", &StorageClass::WORDS, &[]);
    fields.finish();
    prefer.map(|prefer| prefer.value)
}

pub(super) fn read_build(table: &DeTable<'_>, problems: &mut Vec<Problem>) -> Option<Build> {
    let mut fields = Fields::new("build.", table, &[], problems);
    let source = fields.parsed("source", |text| match text {
        "" => Err("must not be empty".to_owned()),
        text if text.starts_with('-') || text.chars().any(|c| c.is_control() || c == ' ') => {
            Err(format!("{text:?} is neither a URL nor a path"))
        }
        text => Ok(text.to_owned()),
    });
    let command = fields.text("command").map(|command| command.value);
    let parallelism = fields
        .count("parallelism", 4096)
        .map_or(1, |count| count.value);
    let checksum = fields.parsed("checksum", |text| {
        let digits = text.strip_prefix("sha256:").unwrap_or(text);
        let fits = [40, 64].contains(&digits.len()) && digits.bytes().all(|b| b.is_ascii_hexdigit());
        if fits {
            Ok(digits.to_ascii_lowercase())
        } else {
            Err(format!("{text:?} is neither a SHA-256 of a file nor the commit of a repository, in hexadecimal digits"))
        }
    });
    if source.is_none() && !fields.holds("source") {
        fields.problem(
            Problem::of_file("`[build]` needs `source`")
                .hinted("write source = \"https://example.org/app.git\", or a path"),
        );
    }
    fields.finish();
    Some(Build {
        source: source?,
        command,
        parallelism,
        checksum: checksum.map(|checksum| checksum.value),
    })
}

pub(super) fn read_python(
    table: &DeTable<'_>,
    problems: &mut Vec<Problem>,
) -> (Option<Located<PathBuf>>, Option<Located<OwnPython>>) {
    let mut fields = Fields::new("python.", table, &[], problems);
    let requirements = path(&mut fields, "requirements");
    let venv = path(&mut fields, "venv");
    let name = fields.parsed("conda", |text| {
        let fits =
            !text.is_empty() && !text.starts_with('-') && !text.chars().any(char::is_control);
        if fits {
            Ok(text.to_owned())
        } else {
            Err(format!("{text:?} is no name of an environment"))
        }
    });
    let profile = fields.parsed("conda_profile", |text| {
        let fits = text.starts_with('/') && !text.chars().any(char::is_control);
        if fits {
            Ok(text.to_owned())
        } else {
            Err(format!("{text:?} is no absolute path"))
        }
    });
    let ways = [requirements.is_some(), venv.is_some(), name.is_some()];
    if ways.into_iter().filter(|given| *given).count() > 1 {
        let message = "`python.requirements`, `python.venv` and `python.conda` exclude each other";
        fields.problem(Problem::of_file(message));
    }
    if let Some(profile) = profile.as_ref().filter(|_| name.is_none()) {
        let message = "`python.conda_profile` needs `python.conda`, the name of the environment";
        fields.problem(Problem::at(profile.span.clone(), message));
    }
    fields.finish();
    let venv = venv.map(|venv| Located {
        value: OwnPython::Venv(venv.value),
        span: venv.span,
    });
    let conda = name.map(|Located { value: name, span }| {
        let conda = Conda {
            name,
            profile: profile.map(|profile| profile.value),
        };
        Located {
            value: OwnPython::Conda(conda),
            span,
        }
    });
    (requirements, venv.or(conda))
}

/// Counts beyond this are typing errors, and they still fit every consumer's 64-bit integers.
const MAX_COUNT: u64 = 1 << 60;

pub(super) fn read_workload(table: &DeTable<'_>, problems: &mut Vec<Problem>) -> Workload {
    let mut fields = Fields::new("workload.", table, &[], problems);
    let mut count = |key| fields.number(key, 1..MAX_COUNT).map(|number| number.value);
    let (parameters, samples, batch_size, epochs) = (
        count("parameters"),
        count("samples"),
        count("batch_size"),
        count("epochs"),
    );
    let mut label = |key| fields.parsed(key, label_text).map(|text| text.value);
    let (model, dataset, precision) = (label("model"), label("dataset"), label("precision"));
    fields.finish();
    Workload {
        model,
        parameters,
        dataset,
        samples,
        batch_size,
        epochs,
        precision,
    }
}

fn label_text(text: &str) -> Result<String, &'static str> {
    match text {
        "" => Err("must not be empty"),
        text if text.len() > 200 => Err("is longer than 200 bytes"),
        text if text.chars().any(char::is_control) => Err("must not contain control characters"),
        text => Ok(text.to_owned()),
    }
}

pub(super) fn read_timing(
    table: &DeTable<'_>,
    problems: &mut Vec<Problem>,
) -> Option<Located<TimingPattern>> {
    let mut fields = Fields::new("timing.", table, &[], problems);
    let (epoch, step) = (fields.text("epoch"), fields.text("step"));
    fields.finish();
    let span = epoch.as_ref().or(step.as_ref())?.span.clone();
    let value = TimingPattern {
        epoch: epoch.map(|text| text.value),
        step: step.map(|text| text.value),
    };
    Some(Located { value, span })
}
