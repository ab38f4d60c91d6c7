//! What is fetched and built before the run.

use std::path::Path;

use super::decisions::{Resolver, text};
use super::{PlannedBuild, Source};
use crate::foundation::diagnostic::Problem;
use crate::image::fingerprint;

impl Resolver<'_> {
    /// Where the source comes from and where it is built: a directory of the state directory that all runs share which
    /// build the same.
    pub(super) fn build(&mut self) {
        let Some(build) = &self.spec.build else {
            return;
        };
        let span = build.source.span.clone();
        let kind = match Source::from_text(&build.source.value) {
            Ok(kind) => kind,
            Err(why) => {
                let problem = Problem::at(span, format!("`build.source`: {why}"));
                return self.problems.push(problem);
            }
        };
        let fault = checksum_fault(kind, &build.source.value, build.checksum.as_deref());
        if let Some((message, hint)) = fault {
            self.problems.push(Problem::at(span, message).hinted(hint));
        }
        let source = self.absolute(&build.source.value);
        let number = build.parallelism.to_string();
        let command = build
            .command
            .as_ref()
            .map(|command| command.replace("{{parallelism}}", &number));
        let image = self.plan.image.iter().map(|image| &image.source);
        let environment: Vec<&String> = image.chain(&self.plan.modules).collect();
        let key = key(&(&source, &build.checksum, &build.command, environment));
        let dir = format!("{}/builds/{key}", self.plan.state_dir);
        let why = match (kind, &build.checksum) {
            (Source::Git, Some(_)) => "a git repository, at the commit of `build.checksum`",
            (Source::Git, None) => "a git repository, as it is when it is first built",
            (Source::Url, Some(_)) => "a download, checked by `build.checksum`",
            (Source::Url, None) => "a download, unchecked",
            (Source::Path, Some(_)) => "a copy, checked by `build.checksum`",
            (Source::Path, None) => "a copy, as it is when it is first built",
        };
        self.decide(
            "build",
            source.clone(),
            format!("{why}; in {dir}, once for all runs that build the same"),
        );
        self.plan.build = Some(PlannedBuild {
            source,
            command,
            checksum: build.checksum.clone(),
            dir,
        });
    }

    /// A path beside the job file as an absolute one; URLs and `user@host:path.git` as they are.
    fn absolute(&self, source: &str) -> String {
        let host = source
            .split('/')
            .next()
            .is_some_and(|first| first.contains(':'));
        if host || source.starts_with('/') {
            return source.to_owned();
        }
        text(
            &self
                .facts
                .job_file
                .parent()
                .unwrap_or(Path::new("/"))
                .join(source),
        )
    }
}

fn checksum_fault(
    kind: Source,
    source: &str,
    checksum: Option<&str>,
) -> Option<(String, &'static str)> {
    match (kind, checksum) {
        (Source::Url | Source::Path, Some(checksum)) if checksum.len() != 64 => Some((
            "`build.checksum` is a commit, but `build.source` is not a git repository".to_owned(),
            "give the SHA-256 of the file (`sha256sum FILE`), or a source that ends in `.git`",
        )),
        (Source::Url | Source::Git, None)
            if source.starts_with("http://") || source.starts_with("git://") =>
        {
            Some((
                format!("`build.source`: what comes from {source} can be changed on its way"),
                "use https or ssh, or add `checksum`",
            ))
        }
        _ => None,
    }
}

/// A name for what is built: 64 hexadecimal digits.
fn key(parts: &impl serde::Serialize) -> String {
    fingerprint(serde_json::to_vec(parts).expect("texts have a JSON form"))
}
