//! A user's surroundings in a temporary directory: job files, commands of a scheduler that only pretends, a state
//! directory. All of it goes away at the end.

use std::error::Error;
use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::process::Command;

use dlrun::image::python;
use serde_json::{Value, json};
use tempfile::TempDir;

use crate::DLRUN;
use crate::measure::quiet;

/// What follows the directory of the pretended commands in `PATH`.
const SYSTEM_PATH: &str = "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin";

const TWO_NODES: &str = r#"
name = "two-nodes"
[run]
command = ["python3", "train.py", "--epochs", "3"]
env = { OMP_NUM_THREADS = "8" }
launcher = "each"
[resources]
nodes = 2
cpus_per_task = 8
memory = "64GiB"
walltime = "12h"
"#;

/// What the pretended controller says of its site: three queues, four nodes, no licences.
const SCONTROL: &str = r#"case "$*" in
"show config") echo "MaxArraySize = 1001
SLURM_VERSION = 22.05.8
AccountingStorageType = accounting_storage/none" ;;
*partition) for queue in batch gpu long; do
  echo "PartitionName=$queue AllowAccounts=ALL AllowQos=ALL Default=NO MaxNodes=8 MaxTime=7-00:00:00 State=UP"
done ;;
esac"#;

const SINFO: &str = r#"for queue in batch gpu long; do
  echo "$queue|4|16|1|128000|gpu:v100:4|idle|ib,rack2|n[1-4]"
done"#;

/// Directories of ours begin so; the process id follows.
const PREFIX: &str = "budgets-";

/// The surroundings.
#[derive(Debug)]
pub(crate) struct Site {
    dir: TempDir,
}

impl Site {
    /// Makes them on the disk of the build directory: a temporary file system would hide what writing costs.
    pub(crate) fn new() -> Result<Self, Box<dyn Error>> {
        let root = Path::new(env!("CARGO_TARGET_TMPDIR"));
        remove_remains(root)?;
        let prefix = format!("{PREFIX}{}-", std::process::id());
        let dir = tempfile::Builder::new().prefix(&prefix).tempdir_in(root)?;
        let site = Self { dir };
        fs::create_dir(site.path("bin"))?;
        fs::write(site.path("train.py"), "")?;
        fs::write(site.path("train.toml"), TWO_NODES)?;
        site.command_script("sbatch", "echo 4711")?;
        // Else those of this machine would be asked, whatever they are.
        site.command_script("scontrol", SCONTROL)?;
        site.command_script("sinfo", SINFO)?;
        Ok(site)
    }

    /// A path below.
    pub(crate) fn path(&self, name: &str) -> PathBuf {
        self.dir.path().join(name)
    }

    /// Makes a command that dlrun finds first.
    pub(crate) fn command_script(&self, name: &str, body: &str) -> Result<(), Box<dyn Error>> {
        let file = self.path("bin").join(name);
        fs::write(&file, format!("#!/bin/sh\n{body}\n"))?;
        fs::set_permissions(&file, fs::Permissions::from_mode(0o755))?;
        Ok(())
    }

    /// dlrun with these arguments, in these surroundings.
    pub(crate) fn dlrun(&self, arguments: &[&str]) -> Command {
        self.in_place(quiet(DLRUN), arguments)
    }

    /// One of the pretended commands.
    pub(crate) fn pretended(&self, name: &str, arguments: &[&str]) -> Command {
        self.in_place(
            quiet(&self.path("bin").join(name).to_string_lossy()),
            arguments,
        )
    }

    /// A program that finds these surroundings in its environment and nothing else.
    pub(crate) fn in_place(&self, mut command: Command, arguments: &[&str]) -> Command {
        command
            .args(arguments)
            .current_dir(self.dir.path())
            .env_clear();
        command.env(
            "PATH",
            format!("{}:{SYSTEM_PATH}", self.path("bin").display()),
        );
        command
            .env("HOME", self.dir.path())
            .env("XDG_STATE_HOME", self.path("state"));
        command
    }

    /// The state directory.
    pub(crate) fn state_dir(&self) -> PathBuf {
        self.path("state/dlrun")
    }

    /// Submits and returns what `--json` says.
    pub(crate) fn submitted(&self) -> Result<Value, Box<dyn Error>> {
        let output = self
            .dlrun(&["submit", "--json", "train.toml"])
            .stdout(std::process::Stdio::piped())
            .output()?;
        let said: Value = serde_json::from_slice(&output.stdout)?;
        Ok(said["result"].clone())
    }

    /// Makes a job file with Python requirements whose environment is there already, as far as dlrun looks.
    pub(crate) fn python_job(&self) -> Result<&'static str, Box<dyn Error>> {
        let python = ["/usr/bin/python3", "/usr/local/bin/python3"].map(Path::new);
        let python = python
            .into_iter()
            .find(|python| python.exists())
            .ok_or("there is no python3")?;
        fs::write(self.path("requirements.txt"), "torch==2.6.0\nnumpy\n")?;
        let job = format!("{TWO_NODES}[python]\nrequirements = \"requirements.txt\"\n");
        fs::write(self.path("python.toml"), job)?;
        self.command_link("python3", python)?;
        let facts = python::inspect(
            &self.path("requirements.txt"),
            Some(python),
            &self.state_dir().join("python"),
        )?;
        let marker = json!({
            "format": 1, "hash": facts.hash, "interpreter": facts.interpreter, "version": facts.version,
            "requirements": facts.requirements, "made_at_ms": 0,
        });
        fs::create_dir_all(facts.dir.join("bin"))?;
        fs::write(facts.dir.join("bin/python3"), "")?;
        fs::write(facts.dir.join("dlrun-env.json"), marker.to_string())?;
        Ok("python.toml")
    }

    fn command_link(&self, name: &str, target: &Path) -> Result<(), Box<dyn Error>> {
        Ok(std::os::unix::fs::symlink(
            target,
            self.path("bin").join(name),
        )?)
    }
}

/// Removes what a run that was interrupted left behind.
fn remove_remains(root: &Path) -> Result<(), Box<dyn Error>> {
    for entry in fs::read_dir(root)?.flatten() {
        let name = entry.file_name().to_string_lossy().into_owned();
        let pid = name
            .strip_prefix(PREFIX)
            .and_then(|rest| rest.split('-').next());
        if pid.is_some_and(|pid| !Path::new("/proc").join(pid).exists()) {
            fs::remove_dir_all(entry.path())?;
        }
    }
    Ok(())
}
