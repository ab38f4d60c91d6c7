//! Builds of images as jobs: a job file that runs `dlrun image build`, handed over like any other.

use std::fmt::Write as _;
use std::fs::{self, DirBuilder};
use std::os::unix::fs::DirBuilderExt;
use std::path::{Path, PathBuf};

use super::making::{MAX_DEFINITION_BYTES, Order, Origins};
use crate::app::error::{Error, Kind, failure};
use crate::app::job::load::{Against, Job, JobRequest};
use crate::app::job::submit;
use crate::app::session::Session;
use crate::config::{Origin, Owner};
use crate::foundation::units::{Bytes, Walltime};
use crate::image::catalogue::keep_description;
use crate::image::catalogue::{Place, read, write_entry};
use crate::job::SchedulerKind;
use crate::record::RunRecord;
use crate::record::rundir::RunDir;

/// What a build may take where nobody says it: source builds of frameworks take hours.
const WALLTIME: Walltime = Walltime(4 * 3600);

/// What the job asks its scheduler for.
#[derive(Debug, Clone, Default)]
pub(crate) struct Resources {
    pub(crate) queue: Option<String>,
    pub(crate) account: Option<String>,
    /// `None`: 4 h.
    pub(crate) walltime: Option<Walltime>,
    pub(crate) cpus: Option<u32>,
    pub(crate) memory: Option<Bytes>,
}

/// Hands a build over to `scheduler`; `None`: to the one of jobs that do not say.
pub(crate) fn submit(
    session: &Session,
    order: &Order,
    resources: &Resources,
    scheduler: Option<SchedulerKind>,
) -> Result<(RunRecord, RunDir), Error> {
    let dir = session.state()?.path().join("image-builds");
    DirBuilder::new().recursive(true).mode(0o700).create(&dir)?;
    let file = write_order(&dir, order)?;
    let text = job_file(session, order, resources, scheduler, &dir, &file)?;
    let path = keep_description(
        &dir,
        &format!("{}.job.toml", order.entry.name),
        &text,
        false,
    )?;
    let request = JobRequest::of_file(path);
    let job = Job::load(session, &request, Against::Site)?;
    let handed = submit::submit(session, &job)?;
    // By this a later submission sees that it is being built. Without it the second build waits for the first.
    let noted = keep_description(
        &dir,
        &format!("{}.run", order.entry.name),
        handed.0.run_id.as_str(),
        false,
    );
    if let Err(error) = noted {
        session.warning(&format!("the build was not noted: {error}"));
    }
    Ok(handed)
}

/// Writes what is to be built: on the node it is the same, whatever the recipes say by then.
fn write_order(dir: &Path, order: &Order) -> Result<PathBuf, Error> {
    let Origins::Definition { text, .. } = &order.origins else {
        return Err(failure!(Internal, "only builds are jobs"));
    };
    let name = &order.entry.name;
    keep_description(dir, &format!("{name}.def"), text, false)?;
    Ok(keep_description(
        dir,
        &format!("{name}.toml"),
        &write_entry(&order.entry),
        false,
    )?)
}

/// Reads it again, in the job.
pub(crate) fn read_order(
    file: &Path,
    owner: Owner,
    dir: Option<&Path>,
    force: bool,
) -> Result<Order, Error> {
    let small = |path: &Path| {
        let text = fs::metadata(path).and_then(|found| match found.len() {
            0..=MAX_DEFINITION_BYTES => fs::read_to_string(path),
            _ => Err(std::io::Error::other("it is larger than 1 MiB")),
        });
        text.map_err(|error| failure!(Missing, "cannot read {}: {error}", path.display()))
    };
    let described = small(file)?;
    let shelf = read(file, &described, owner);
    let text = small(&file.with_extension("def"))?;
    match shelf.entries.into_iter().next() {
        Some(mut entry) if shelf.problems.is_empty() && matches!(entry.place, Place::Path(_)) => {
            entry.origin = Origin::Default;
            let origins = Origins::Definition {
                text,
                dir: dir.map(Path::to_owned),
                room: 0,
            };
            Ok(Order {
                entry,
                origins,
                force,
            })
        }
        _ => Err(Error::in_file(
            Kind::JobFile,
            &file.to_string_lossy(),
            &described,
            shelf.problems,
        )),
    }
}

fn job_file(
    session: &Session,
    order: &Order,
    resources: &Resources,
    scheduler: Option<SchedulerKind>,
    dir: &Path,
    file: &Path,
) -> Result<String, Error> {
    let entry = &order.entry;
    let dlrun = session.settings.node_dlrun().map(Path::to_owned);
    let dlrun = dlrun.map_or_else(std::env::current_exe, Ok)?;
    let mut command = environment(session)?;
    command.extend([text_of(&dlrun)?, "--state-dir".to_owned()]);
    command.push(text_of(session.settings.state_dir())?);
    command.extend(["image", "build", "--order"].map(str::to_owned));
    command.push(text_of(file)?);
    if let Origins::Definition {
        dir: Some(from), ..
    } = &order.origins
    {
        command.extend(["--from-dir".to_owned(), text_of(from)?]);
    }
    command.extend((entry.owner == Owner::Site).then(|| "--site".to_owned()));
    command.extend(order.force.then(|| "--force".to_owned()));
    let words: Vec<String> = command.iter().map(|word| quoted(word)).collect();
    let mut text = format!(
        "# dlrun builds the image {name}.\nname = {job}\n\n[run]\ncommand = [{words}]\nworkdir = {dir}\n\n[resources]\n\
         walltime = {walltime}\n",
        name = entry.name,
        job = quoted(&format!("build-{}", entry.name)),
        words = words.join(", "),
        dir = quoted(&text_of(dir)?),
        walltime = quoted(&resources.walltime.unwrap_or(WALLTIME).to_string()),
    );
    let texts = [("queue", &resources.queue), ("account", &resources.account)];
    for (key, value) in texts {
        if let Some(value) = value {
            let _ = writeln!(text, "{key} = {}", quoted(value));
        }
    }
    if let Some(memory) = resources.memory {
        let _ = writeln!(text, "memory = {}", quoted(&memory.to_string()));
    }
    if let Some(cpus) = resources.cpus {
        let _ = writeln!(text, "cpus_per_task = {cpus}");
    }
    if let Some(kind) = scheduler {
        let _ = writeln!(text, "\n[scheduler]\nkind = {}", quoted(kind.as_str()));
    }
    let _ = write!(
        text,
        "\n[image]\nnone = true\n\n[framework]\nname = {}\n",
        quoted(&entry.framework)
    );
    let _ = writeln!(text, "version = {}", quoted(&entry.version));
    if let Some(compiler) = entry.compilers.first() {
        let _ = writeln!(text, "compiler = {}", quoted(compiler));
    }
    if let Some(provenance) = entry.provenance {
        let _ = writeln!(text, "provenance = {}", quoted(provenance.as_str()));
    }
    Ok(text)
}

/// Settings of this command that the job must share, where they are not in a file that the node reads too: words
/// before the job's command, since `run.env` does not take names of dlrun's.
fn environment(session: &Session) -> Result<Vec<String>, Error> {
    let settings = &session.settings;
    let catalogue = std::env::var_os("XDG_CONFIG_HOME")
        .map(PathBuf::from)
        .filter(|dir| dir.is_absolute());
    let shared = [
        ("DLRUN_IMAGES__BUILD_DIR", settings.build_dir()),
        ("DLRUN_IMAGES__RUNTIME", settings.container_runtime()),
        ("XDG_CONFIG_HOME", catalogue.as_deref()),
    ];
    let mut words = Vec::new();
    for (name, path) in shared {
        if let Some(path) = path {
            words.push(format!("{name}={}", text_of(path)?));
        }
    }
    if !words.is_empty() {
        words.insert(0, "/usr/bin/env".to_owned());
    }
    Ok(words)
}

/// A job file is text.
pub(crate) fn text_of(path: &Path) -> Result<String, Error> {
    let text = path
        .to_str()
        .filter(|text| !text.chars().any(char::is_control));
    text.map(str::to_owned).ok_or_else(|| {
        failure!(
            Usage,
            "the path {path:?} is no text that a job file can hold"
        )
    })
}

/// A basic string of TOML, of text without control characters.
pub(crate) fn quoted(text: &str) -> String {
    format!("\"{}\"", text.replace('\\', "\\\\").replace('"', "\\\""))
}
