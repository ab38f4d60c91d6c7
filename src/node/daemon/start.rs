//! From a command line to a running daemon. It is so short that no crate reads it.

use std::ffi::OsString;
use std::fs;
use std::io::{self, Write};
use std::path::{Path, PathBuf};

use super::serve::{self, DaemonError};
use crate::config::{DaemonSettings, Fragment};
use crate::foundation::diagnostic::{chain_text, render_problems};
use crate::foundation::logging;
use crate::record::store::StoreFault;

const CONFIG: &str = "/etc/dlrun/dlrund.toml";
const HELP: &str = "\
dlrund watches all dlrun runs of this node: CPU, memory, I/O and GPUs.

Usage: dlrund [--config FILE]                run until SIGTERM; systemd starts it so
       dlrund check-config [--config FILE]   show what the configuration means, and what is wrong with it
       dlrund --help | --version

  --config FILE   instead of /etc/dlrun/dlrund.toml; FILE's directory may hold further files in dlrund.conf.d

More: docs/operations.md, which `systemd/install` puts into share/doc/dlrun.
";

/// Exit codes, as those of `dlrun`.
const USAGE: u8 = 64;
const INTERNAL: u8 = 70;
const CANNOT_WRITE: u8 = 73;
const TRY_AGAIN: u8 = 75;
const CONFIGURATION: u8 = 78;

/// Runs one command line, without the program's name; returns the exit code.
#[must_use]
pub fn start(arguments: impl Iterator<Item = OsString>) -> u8 {
    let arguments: Vec<OsString> = arguments.collect();
    let words: Vec<&str> = (arguments.iter())
        .map(|argument| argument.to_str().unwrap_or_default())
        .collect();
    let asks = |any: [&str; 2]| words.iter().any(|word| any.contains(word));
    let (is_check, config) = match words[..] {
        _ if asks(["--help", "-h"]) => return say(HELP),
        _ if asks(["--version", "-V"]) => {
            return say(&format!("dlrund {}\n", env!("CARGO_PKG_VERSION")));
        }
        [] => (false, None),
        ["check-config"] => (true, None),
        ["--config", _] => (false, arguments.get(1)),
        ["check-config", "--config", _] => (true, arguments.get(2)),
        _ => {
            complain(&format!("error: wrong arguments {arguments:?}\n\n{HELP}"));
            return USAGE;
        }
    };
    match configuration(config.map(Path::new)) {
        Err(code) => code,
        Ok((settings, _)) if !is_check => run(&settings),
        Ok((settings, files)) => {
            let (text, is_sound) = super::check::check(&settings, &files);
            match say(&text) {
                0 if !is_sound => CONFIGURATION,
                code => code,
            }
        }
    }
}

fn run(settings: &DaemonSettings) -> u8 {
    logging::start_at(settings.log_level());
    let Err(error) = serve::run(settings) else {
        return 0;
    };
    tracing::error!("{}", chain_text(&error));
    match error {
        DaemonError::Store(error) if error.kind == StoreFault::Held => TRY_AGAIN,
        DaemonError::Store(error) if error.kind == StoreFault::Network => CONFIGURATION,
        DaemonError::Store { .. } | DaemonError::Socket { .. } => CANNOT_WRITE,
        DaemonError::Metrics { .. } => CONFIGURATION,
        DaemonError::System { .. } => INTERNAL,
    }
}

/// Reads the configuration; a fault is shown, and becomes the exit code.
fn configuration(path: Option<&Path>) -> Result<(DaemonSettings, Vec<PathBuf>), u8> {
    let main = path.unwrap_or(Path::new(CONFIG));
    let mut files = vec![main.to_owned()];
    let parts = main
        .parent()
        .unwrap_or(Path::new("/"))
        .join("dlrund.conf.d");
    let further = fs::read_dir(parts).into_iter().flatten().flatten();
    let mut further: Vec<PathBuf> = further.map(|entry| entry.path()).collect();
    further.retain(|path| path.extension() == Some("toml".as_ref()));
    further.sort();
    files.extend(further);
    let (mut fragments, mut read, mut is_sound) = (Vec::new(), Vec::new(), true);
    for file in files {
        let text = match fs::read_to_string(&file) {
            Ok(text) => text,
            // Without a file the defaults hold; one that is named must be there.
            Err(error)
                if error.kind() == io::ErrorKind::NotFound && path.is_none() && file == main =>
            {
                continue;
            }
            Err(error) => {
                complain(&format!(
                    "error: cannot read `{}`\n  caused by: {error}\n",
                    file.display()
                ));
                is_sound = false;
                continue;
            }
        };
        let fragment = Fragment::from_daemon_toml(&file, &text);
        let problems = [&fragment.errors[..], &fragment.unknown[..]].concat();
        if !problems.is_empty() {
            complain(&render_problems(
                &file.display().to_string(),
                &text,
                &problems,
                false,
            ));
            is_sound = false;
        }
        fragments.push(fragment);
        read.push(file);
    }
    if is_sound {
        Ok((DaemonSettings::merge(&fragments), read))
    } else {
        Err(CONFIGURATION)
    }
}

/// Writes to standard output; the exit code says whether it took it.
fn say(text: &str) -> u8 {
    let mut out = io::stdout().lock();
    let written = out.write_all(text.as_bytes()).and_then(|()| out.flush());
    if written.is_ok() { 0 } else { CANNOT_WRITE }
}

fn complain(text: &str) {
    let _ = io::stderr().lock().write_all(text.as_bytes());
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn wrong_command_lines_are_refused() {
        for wrong in [
            &["--config"][..],
            &["start"],
            &["check-config", "check-config"],
            &[""],
        ] {
            assert_eq!(start(wrong.iter().map(OsString::from)), USAGE, "{wrong:?}");
        }
    }
}
