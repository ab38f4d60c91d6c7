//! An image from a definition or from a URI: built or pulled, looked at, and taken into the catalogue.

use std::fs;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use serde::Serialize;

use super::check::{Bench, digest_of};
use super::shelves::{keep, keep_check, shelf_for};
use crate::app::error::{Error, Kind, failure};
use crate::app::interrupt;
use crate::app::progress::Display;
use crate::app::session::Session;
use crate::config::{Origin, Owner};
use crate::foundation::lock::Patience;
use crate::foundation::units::{Bytes, display_seconds};
use crate::image::Progress;
use crate::image::build::{Build, MakeError, Making, Workplace};
use crate::image::catalogue::keep_description;
use crate::image::catalogue::{Check, Entry, Place, write_entry};
use crate::image::flags::NodeFacts;
use crate::image::flags::fakeroot::{Purpose, outcome};
use crate::image::runtime::HostView;
use crate::image::{build, runtime};

/// What an image was made from is not longer, in bytes.
const MAX_DEFINITION_BYTES: u64 = 1 << 20;

/// How long an image may take to be run once.
const CHECK_PATIENCE: Duration = Duration::from_secs(600);

/// What an image is made from.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Origins {
    /// A definition file.
    Definition {
        /// Its text.
        text: String,
        /// About so many bytes are needed for unpacking.
        room: u64,
    },
    /// A URI.
    Pull {
        /// What is fetched.
        uri: String,
        /// What the file must hash to, `sha256:..`.
        digest: Option<String>,
    },
}

/// An image that is wanted.
#[derive(Debug, Clone)]
pub(crate) struct Order {
    /// As it shall be described; its place is the file.
    pub(crate) entry: Entry,
    /// Where it comes from.
    pub(crate) origins: Origins,
    /// Make it although it is there.
    pub(crate) force: bool,
}

/// An image that exists.
#[derive(Debug, Serialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
pub(crate) struct Made {
    pub(crate) name: String,
    image: String,
    framework: String,
    version: String,
    pub(crate) digest: Option<String>,
    check: Option<Check>,
    recipe: Option<String>,
    size_bytes: Option<u64>,
    seconds: Option<f64>,
    /// Whether this command made it.
    pub(crate) made_now: bool,
    described_in: PathBuf,
    log: PathBuf,
}

impl Made {
    /// An image that this command made in so many seconds, or that existed. Of one that is not as it should be the file is
    /// kept, since hours may have gone into it, and its description, by whose check no plan takes it.
    fn new(entry: Entry, described_in: PathBuf, seconds: Option<f64>) -> Result<Self, Error> {
        let image = file_of(&entry)?;
        let log = build::log_of(&image);
        let problems = entry.check.as_ref();
        let problems = problems.map(|check| check.problems.join("; "));
        if let Some(problems) = problems.filter(|problems| !problems.is_empty()) {
            let error = failure!(
                JobFile,
                "{} exists and is not as described: {problems}",
                entry.place
            );
            return Err(error
                .hinted(format!("no plan takes it; its log is {}", log.display()))
                .hinted("`--force` builds it again; `dlrun image check` checks it again"));
        }
        let file = fs::metadata(&image).ok().filter(fs::Metadata::is_file);
        Ok(Self {
            image: entry.place.to_string(),
            name: entry.name,
            framework: entry.framework,
            version: entry.version,
            digest: entry.digest,
            check: entry.check,
            recipe: entry.recipe,
            size_bytes: file.map(|file| file.len()),
            seconds,
            made_now: seconds.is_some(),
            described_in,
            log,
        })
    }

    pub(crate) fn to_text(&self, verb: &str) -> String {
        let how = match self.seconds {
            Some(seconds) => format!("{verb} in {}", display_seconds(seconds)),
            None => "existed already".to_owned(),
        };
        let size = self.size_bytes.map(|size| format!("{}, ", Bytes(size)));
        format!(
            "{} {how}: {} {}, {}{}\nit is described in {}; its log is {}\n",
            self.name,
            self.framework,
            self.version,
            size.unwrap_or_default(),
            self.image,
            self.described_in.display(),
            self.log.display()
        )
    }
}

impl Session {
    /// The file of an image of this name. All users see the site's images, so they are in a directory that the site names; where a
    /// user may not write there, the user's own are beside the runs.
    pub(crate) fn image_file(&self, name: &str, owner: Owner) -> Result<PathBuf, Error> {
        if owner == Owner::Site && matches!(self.settings.origin("images.dir"), Origin::Default) {
            let message = "the setting `images.dir` does not say where images for all users are";
            return Err(Error::new(Kind::Config, message)
                .hinted("set `dir` in the table [images] of /etc/dlrun/dlrun.toml"));
        }
        let dir = self.settings.image_dir();
        let is_closed = owner == Owner::User
            && dir.is_dir()
            && nix::unistd::access(&dir, nix::unistd::AccessFlags::W_OK).is_err();
        let dir = if is_closed {
            self.settings.own_image_dir()
        } else {
            dir
        };
        Ok(dir.join(format!("{name}.sif")))
    }

    /// Where builds unpack.
    pub(crate) fn unpack_dir(&self) -> PathBuf {
        let of_environment = || {
            std::env::var_os("TMPDIR")
                .map(PathBuf::from)
                .filter(|dir| dir.is_absolute())
        };
        let named = self
            .settings
            .build_dir()
            .map(Path::to_owned)
            .or_else(of_environment);
        named.unwrap_or_else(|| PathBuf::from("/tmp"))
    }
}

/// Makes the image, unless it is there.
pub(crate) fn make(session: &Session, order: &Order) -> Result<Made, Error> {
    let shelf = shelf_for(
        &session.catalogue()?,
        &order.entry.name,
        order.entry.owner,
        true,
    )?;
    let image = file_of(&order.entry)?;
    let is_same = is_made_from(&image, &order.origins);
    // An image that is not as it should be, or another in its place, is the error before anybody waits for it.
    if !order.force && image.exists() && (!is_same || shelf.exists()) {
        return found(session, order, shelf);
    }
    let asked = session.settings.container_runtime();
    let node = runtime::examine(&HostView::of_this_machine(), asked, false)?.facts;
    let options = options(session, order, &node)?;
    let mut display = Display::new(session.output);
    let place = Workplace {
        image: &image,
        unpack: &session.unpack_dir(),
        shared: order.entry.owner == Owner::Site,
    };
    let begun = build::begin(&place, Patience::USUAL, &mut |news| {
        display.image(&order.entry.name, &news);
    })?;
    let Some(mut making) = begun else {
        return found(session, order, shelf);
    };
    interrupt::take_all();
    let start = Instant::now();
    // Of a making that was killed between the two the image is whole, and only its description is missing.
    let is_new = order.force || !is_same;
    let mut work = Work {
        session,
        order,
        node: &node,
        display: &mut display,
    };
    let (entry, check) = if is_new {
        work.fetch(&mut making, &options)?
    } else {
        work.describe(&image)?
    };
    if is_new {
        forget_origins(&image)?;
        making.publish()?;
        keep_origins(&image, &order.origins)?;
    }
    // The check first: an image that is described and not yet checked could be chosen.
    if let Some(check) = &check {
        keep_check(entry.owner, check)?;
    }
    keep(
        entry.owner,
        &format!("{}.toml", entry.name),
        &write_entry(&entry),
    )?;
    drop(making);
    let seconds = is_new.then(|| start.elapsed().as_secs_f64());
    Made::new(Entry { check, ..entry }, shelf, seconds)
}

/// One making, with whom it talks to.
struct Work<'a> {
    session: &'a Session,
    order: &'a Order,
    node: &'a NodeFacts,
    display: &'a mut Display,
}

impl Work<'_> {
    /// Builds or pulls into the hidden file, and looks at what came of it.
    fn fetch(
        &mut self,
        making: &mut Making,
        options: &[String],
    ) -> Result<(Entry, Option<Check>), Error> {
        let name = self.order.entry.name.clone();
        let product = self.node.runtime.map(|runtime| runtime.product);
        let display = &mut *self.display;
        let mut progress = |news: Progress<'_>| display.image(&name, &news);
        match &self.order.origins {
            Origins::Definition { text, room } => {
                making.require_room(*room)?;
                let build = Build {
                    name: &name,
                    definition: text,
                    runtime: &self.node.command,
                    product,
                    options,
                };
                build::build(making, &build, &interrupt::has_come, &mut progress)?;
            }
            Origins::Pull { uri, .. } => {
                making.require_room(0)?;
                build::pull(
                    making,
                    uri,
                    &self.node.command,
                    product,
                    &interrupt::has_come,
                    &mut progress,
                )?;
            }
        }
        self.describe(making.part())
    }

    /// What the file is, as the catalogue shall say it: it is read, run once, and compared with what it shall be.
    fn describe(&mut self, file: &Path) -> Result<(Entry, Option<Check>), Error> {
        let about = runtime::inspect(file)?;
        let mut entry = Entry {
            place: Place::Path(file.to_owned()),
            digest: None,
            ..self.order.entry.clone()
        };
        if entry.arch.is_empty() {
            entry.arch = about.arch.unwrap_or_else(|| runtime::arch().to_owned());
        }
        let bench = Bench::open(self.session)?;
        let is_pull = matches!(self.order.origins, Origins::Pull { .. });
        if is_pull {
            bench.read_labels(&mut entry);
        }
        let check = match bench.run(&entry, true, CHECK_PATIENCE, self.display) {
            Ok(found) => {
                if is_pull {
                    found.complete(&mut entry);
                }
                entry.digest.clone_from(&found.check.digest);
                Some(found.check)
            }
            Err(error) if error.kind == Kind::Unreachable => {
                let hint = "`dlrun image check` tries it where it runs";
                let why = format!(
                    "{} was not checked: {}; {hint}",
                    entry.name,
                    error.message()
                );
                self.session.warning(&why);
                entry.digest = Some(digest_of(&entry.name, file, self.display)?);
                None
            }
            Err(error) => return Err(error),
        };
        check_named(&entry)?;
        if let (
            Origins::Pull {
                digest: Some(wanted),
                ..
            },
            Some(digest),
        ) = (&self.order.origins, &entry.digest)
            && wanted != digest
        {
            return Err(
                failure!(JobFile, "what was pulled is {digest}, and not {wanted}")
                    .hinted("it is not kept"),
            );
        }
        if interrupt::has_come() {
            return Err(MakeError::Interrupted(format!("the making of {}", entry.name)).into());
        }
        entry.place = self.order.entry.place.clone();
        entry.built_by = std::env::var("DLRUN_RUN_ID").ok();
        let python = check
            .as_ref()
            .and_then(|check| check.versions.get("python"));
        entry.python = entry.python.or(python.cloned());
        Ok((entry, check))
    }
}

/// An image that was there, or that another dlrun made meanwhile.
fn found(session: &Session, order: &Order, shelf: PathBuf) -> Result<Made, Error> {
    let image = file_of(&order.entry)?;
    if !is_made_from(&image, &order.origins) {
        return Err(from_something_else(&image));
    }
    let known = session.catalogue()?.get(&order.entry.name).cloned();
    let entry = known.unwrap_or_else(|| order.entry.clone());
    Made::new(entry, shelf, None)
}

/// Says whether it is known which framework an image has.
pub(crate) fn check_named(entry: &Entry) -> Result<(), Error> {
    match entry.framework.is_empty() || entry.version.is_empty() {
        true => Err(
            failure!(Usage, "{} does not say which framework it has", entry.place)
                .hinted("say it with `--framework` and `--version`"),
        ),
        false => Ok(()),
    }
}

fn from_something_else(image: &Path) -> Error {
    failure!(
        CannotWrite,
        "{} exists and was built from something else",
        image.display()
    )
    .hinted("`--force` takes its place; `--name` gives this one another name")
}

/// The file that an order makes.
pub(crate) fn file_of(entry: &Entry) -> Result<PathBuf, Error> {
    match &entry.place {
        Place::Path(path) => Ok(path.clone()),
        Place::Uri(uri) => Err(failure!(Internal, "{uri} is not a file")),
    }
}

/// The runtime's options for a build, with what they mean; nothing for a pull.
fn options(session: &Session, order: &Order, node: &NodeFacts) -> Result<Vec<String>, Error> {
    if matches!(order.origins, Origins::Pull { .. }) {
        return Ok(Vec::new());
    }
    match outcome(node, Purpose::Build) {
        Ok(means) => {
            let (name, how) = (&order.entry.name, means.describe());
            session.note(&format!("{name}: built by {} ({how})", node.command));
            let flags = means.flags().iter();
            Ok(flags.map(|flag| (*flag).to_owned()).collect())
        }
        Err(unusable) => Err(failure!(
            NotPermitted,
            "`--fakeroot`, by which users build images, does not work here: {}",
            unusable.why
        )
        .hinted(unusable.remedy)
        .hinted("a job whose command is `dlrun image build` builds on a node, where it may work")),
    }
}

/// Endings of the files beside an image that hold what it was made from: a definition, or a URI.
const ENDINGS: [&str; 2] = ["def", "uri"];

/// The files beside an image that may hold what it was made from.
pub(crate) fn origins_of(image: &Path) -> [PathBuf; 2] {
    ENDINGS.map(|ending| image.with_extension(ending))
}

impl Origins {
    /// How the file beside an image ends that says what it was made from, and its text.
    fn record(&self) -> (&'static str, String) {
        let [definition, uri] = ENDINGS;
        match self {
            Self::Definition { text, .. } => (definition, text.clone()),
            Self::Pull { uri: source, .. } => (uri, format!("{source}\n")),
        }
    }
}

/// Says whether an image is there that was made from just this.
fn is_made_from(image: &Path, origins: &Origins) -> bool {
    let (ending, text) = origins.record();
    let path = image.with_extension(ending);
    let is_small = fs::symlink_metadata(&path)
        .is_ok_and(|found| found.is_file() && found.len() <= MAX_DEFINITION_BYTES);
    // In a directory that all may write to anybody can put both there.
    let is_trusted = image.exists() && build::is_vouched_for(image);
    is_trusted && is_small && fs::read_to_string(&path).is_ok_and(|known| known == text)
}

/// Taken away before another image takes the place: killed between the two, it must not be taken for one that was made from
/// what the former was made from.
fn forget_origins(image: &Path) -> Result<(), Error> {
    for path in origins_of(image) {
        match fs::remove_file(path) {
            Err(error) if error.kind() != std::io::ErrorKind::NotFound => return Err(error.into()),
            _ => {}
        }
    }
    Ok(())
}

/// Written after the image: while it is another's, the image is not taken for one that was made from it.
fn keep_origins(image: &Path, origins: &Origins) -> Result<(), Error> {
    let (ending, text) = origins.record();
    let path = image.with_extension(ending);
    let dir = path.parent().unwrap_or(Path::new("/"));
    let name = path.file_name().unwrap_or_default().to_string_lossy();
    keep_description(dir, &name, &text, false)?;
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_image_whose_origins_are_forgotten_is_made_from_nothing_that_is_known() {
        let dir = tempfile::tempdir().expect("temp");
        let image = dir.path().join("x.sif");
        fs::write(&image, "an image").expect("ours");
        let of = |text: &str| Origins::Definition {
            text: text.to_owned(),
            room: 0,
        };
        for origins in [
            of("Bootstrap: scratch"),
            Origins::Pull {
                uri: "docker://x:1".to_owned(),
                digest: None,
            },
        ] {
            keep_origins(&image, &origins).expect("ours");
            assert!(is_made_from(&image, &origins) && !is_made_from(&image, &of("another")));
            forget_origins(&image).expect("ours");
            assert!(!is_made_from(&image, &origins), "{origins:?}");
        }
        forget_origins(&image).expect("there are none");
    }
}
