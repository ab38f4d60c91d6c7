//! What the probe said in an image.

use std::collections::BTreeMap;

use serde::Deserialize;
use serde_json::Value;

use crate::image::catalogue::Accelerator;

/// No more findings are read: an image could continue for ever.
const MAX_FINDINGS: usize = 500;

/// All findings of one run.
#[derive(Debug, Default, PartialEq, Eq)]
pub(crate) struct Answer {
    /// The image's shell ran.
    pub(crate) shell: bool,
    /// What each Python of the image said, in the order in which they were asked.
    pub(crate) tries: Vec<Try>,
    pub(crate) count: usize,
}

/// What one Python said.
#[derive(Debug, Default, PartialEq, Eq)]
pub(crate) struct Try {
    pub(crate) interpreter: String,
    pub(crate) python: Option<Python>,
    /// The wanted framework, or all that are known and there.
    pub(crate) installed: Vec<String>,
    pub(crate) versions: BTreeMap<String, String>,
    /// What the framework was built for; `None`: it does not say.
    pub(crate) built: Option<Vec<Accelerator>>,
    pub(crate) compiled: Vec<String>,
    /// Steps that went wrong, and how.
    pub(crate) faults: Vec<(String, String)>,
    pub(crate) gpus: Option<u32>,
    /// The MPI library's name, which tells its binary interface.
    pub(crate) mpi_abi: Option<String>,
    pub(crate) notes: Vec<String>,
    /// The last step that was begun.
    pub(crate) begun: Option<String>,
    /// It came to its end.
    pub(crate) complete: bool,
    /// The exit code as the shell has it; `None`: the shell did not come to see it.
    pub(crate) code: Option<i32>,
}

#[derive(Debug, PartialEq, Eq, Deserialize)]
pub(crate) struct Python {
    pub(crate) version: String,
    pub(crate) arch: String,
    pub(crate) path: String,
}

impl Answer {
    /// Takes a line of the output. What does not begin with the marker is the image's own.
    pub(crate) fn take(&mut self, marker: &str, line: &str) {
        let Some(text) = line
            .strip_prefix(marker)
            .and_then(|rest| rest.strip_prefix(' '))
        else {
            return;
        };
        // No file of the catalogue can hold a NUL.
        let finding = serde_json::from_str(text).ok();
        let finding: Option<Value> = finding.filter(|_| !text.contains("\\u0000"));
        if self.count < MAX_FINDINGS && finding.and_then(|finding| self.note(&finding)).is_some() {
            self.count += 1;
        }
    }

    /// `None`: the finding lacks something, or is none that is known.
    fn note(&mut self, finding: &Value) -> Option<()> {
        let text = |key: &str| finding[key].as_str().map(str::to_owned);
        match finding["step"].as_str()? {
            "shell" => self.shell = true,
            "interpreter" => self.tries.push(Try {
                interpreter: text("name")?,
                ..Try::default()
            }),
            step => {
                let last = self.tries.last_mut()?;
                match step {
                    "python" => last.python = Some(Python::deserialize(finding).ok()?),
                    "installed" => last.installed = Vec::deserialize(&finding["names"]).ok()?,
                    "begin" => last.begun = Some(text("what")?),
                    "fault" => last.faults.push((text("what")?, text("why")?)),
                    "version" => drop(last.versions.insert(text("name")?, text("version")?)),
                    "built" => last.built = Some(Vec::deserialize(&finding["kinds"]).ok()?),
                    "compiled" => last.compiled.push(text("name")?),
                    "gpus" => last.gpus = Some(u32::deserialize(&finding["count"]).ok()?),
                    "mpi" => last.mpi_abi = Some(text("abi")?),
                    "note" => last.notes.push(text("text")?),
                    "complete" => last.complete = true,
                    "ended" => last.code = Some(i32::deserialize(&finding["code"]).ok()?),
                    _ => return None,
                }
            }
        }
        Some(())
    }

    /// The Python that has the framework, else the first.
    pub(crate) fn best(&self) -> Option<&Try> {
        self.tries
            .iter()
            .find(|one| !one.installed.is_empty())
            .or(self.tries.first())
    }
}

impl Try {
    /// What went wrong in a step.
    pub(crate) fn fault(&self, step: &str) -> Option<&str> {
        self.faults
            .iter()
            .find(|(what, _)| what == step)
            .map(|(_, why)| why.as_str())
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn answer(text: &str) -> Answer {
        let mut answer = Answer::default();
        text.lines().for_each(|line| answer.take("MK", line));
        answer
    }

    #[test]
    fn findings_stand_among_whatever_the_image_prints() {
        let answer = answer(
            "welcome to the image\nMK {\"step\":\"shell\"}\nMK {\"step\":\"interpreter\",\"name\":\"python3\"}\n\
             MK {\"step\":\"python\",\"version\":\"3.11.2\",\"arch\":\"x86_64\",\"path\":\"/p\"}\nMK {\"step\":\"installed\",\
             \"names\":[]}\nMK {\"step\":\"ended\",\"code\":3}\nMK {\"step\":\"interpreter\",\"name\":\"python\"}\n\
             MKX {\"step\":\"complete\"}\nMK {\"step\":\"built\",\"kinds\":[\"nvidia\"]}\nMK not json\nMK {\"step\":\"dance\"}\n\
             MK {\"step\":\"installed\",\"names\":[\"jax\"]}\nMK {\"step\":\"fault\",\"what\":\"mpi\",\"why\":\"w\"}\n\
             MK {\"step\":\"gpus\",\"count\":-1}",
        );
        assert!(answer.shell);
        assert_eq!(
            answer.tries.iter().map(|one| one.code).collect::<Vec<_>>(),
            [Some(3), None]
        );
        let best = answer.best().expect("one");
        assert_eq!(
            (best.interpreter.as_str(), best.fault("mpi")),
            ("python", Some("w"))
        );
        assert_eq!(
            (best.built.as_deref(), best.gpus),
            (Some(&[Accelerator::Nvidia][..]), None)
        );
        assert!(!best.complete, "the marker is a whole word");
    }

    #[test]
    fn an_image_that_never_stops_is_read_to_a_limit() {
        let line = "MK {\"step\":\"interpreter\",\"name\":\"x\"}\n";
        assert_eq!(
            answer(&line.repeat(2 * MAX_FINDINGS)).tries.len(),
            MAX_FINDINGS
        );
    }

    proptest! {
        #[test]
        fn no_line_panics(line in "(MK )?(\\{\"step\":\"[a-z]*\"|[\\[\\]{},:\"a-z0-9 ]){0,40}") {
            let _ = answer(&line);
        }
    }
}
