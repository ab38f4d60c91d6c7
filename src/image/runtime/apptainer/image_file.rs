//! What an image file is: looked at, never run.

use std::fs::{self, Metadata, OpenOptions};
use std::io::Read;
use std::os::unix::fs::OpenOptionsExt;
use std::path::Path;

use nix::fcntl::OFlag;
use nix::sys::utsname::uname;

use crate::foundation::filesystem::modified_ms;
use crate::image::runtime::apptainer::sif::{self, SifFault};
use crate::image::runtime::failure::ContainerError;

/// An image that a runtime reads.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ImageFile {
    /// What it is: `sif`, `sandbox` (a directory), or a bare `squashfs` file.
    pub form: &'static str,
    /// The UUID of a SIF file.
    pub uuid: Option<String>,
    /// As `uname -m` has it; `None`: it cannot be told without running it.
    pub arch: Option<String>,
    /// Length in bytes; `None` for a directory.
    pub size_bytes: Option<u64>,
    /// When its content was last changed, in Unix milliseconds; of a directory, when an entry of it was.
    pub modified_ms: u64,
}

/// What is read of a file to recognise its form.
const HEAD: usize = 512;

/// Looks at the file or directory at `path`, links followed. Reads at most 2.5 MB.
///
/// # Errors
/// [`ContainerError::Read`] where it cannot be looked at, [`ContainerError::NotAnImage`] with what it is instead.
pub fn inspect(path: &Path) -> Result<ImageFile, ContainerError> {
    let failed = |source| ContainerError::Read(path.to_owned(), source);
    let not = |why: String| ContainerError::NotAnImage(path.to_owned(), why);
    let found = fs::metadata(path).map_err(failed)?;
    if found.is_dir() {
        return sandbox(path, &found).map_err(|why| not(why.to_owned()));
    }
    if !found.is_file() {
        return Err(not("it is neither a file nor a directory".to_owned()));
    }
    // `O_NONBLOCK` so that a pipe put in its place meanwhile does not hang us.
    let flags = (OFlag::O_NONBLOCK | OFlag::O_CLOEXEC).bits();
    let mut file = OpenOptions::new()
        .read(true)
        .custom_flags(flags)
        .open(path)
        .map_err(failed)?;
    // What was opened counts, not what was there before.
    let found = file.metadata().map_err(failed)?;
    let mut head = Vec::with_capacity(HEAD);
    file.by_ref()
        .take(HEAD as u64)
        .read_to_end(&mut head)
        .map_err(failed)?;
    let (form, uuid, arch) = if sif::has_magic(&head) {
        let sif = sif::read(&mut file, found.len()).map_err(|fault| match fault {
            SifFault::Read(source) => failed(source),
            fault => not(fault.to_string()),
        })?;
        ("sif", Some(sif.uuid), sif.arch.map(str::to_owned))
    } else {
        if head.len() < HEAD || !head.starts_with(b"hsqs") {
            let why = match head.get(257..262) {
                Some(b"ustar") => {
                    "it is a tar archive; `apptainer build IMAGE.sif docker-archive:FILE` converts what `docker save` wrote"
                }
                _ if head.is_empty() => "it is empty",
                _ => "it is neither a SIF nor a squashfs file",
            };
            return Err(not(why.to_owned()));
        }
        ("squashfs", None, None)
    };
    Ok(ImageFile {
        form,
        uuid,
        arch,
        size_bytes: Some(found.len()),
        modified_ms: modified_ms(&found),
    })
}

/// To the runtimes every directory is an image; what has no shell and was not made by them runs nothing.
fn sandbox(path: &Path, found: &Metadata) -> Result<ImageFile, &'static str> {
    let has = |name: &str| path.join(name).symlink_metadata().is_ok();

    if !has(".singularity.d") && !has("bin/sh") {
        return Err("the directory has neither `.singularity.d` nor `bin/sh`");
    }
    Ok(ImageFile {
        form: "sandbox",
        uuid: None,
        arch: None,
        size_bytes: None,
        modified_ms: modified_ms(found),
    })
}

impl ImageFile {
    /// Why it does not run on this machine; `None`: it does, or that cannot be told.
    #[must_use]
    pub fn arch_fault(&self) -> Option<String> {
        let machine = uname().ok()?.machine().to_string_lossy().into_owned();
        let arch = self.arch.as_deref()?;
        (!runs_on(arch, &machine))
            .then(|| format!("it is made for {arch}, and this machine is {machine}"))
    }
}

/// Whether a processor runs programs of an architecture, both as `uname -m` has them. (Apptainer 1.4,
/// `internal/pkg/util/machine`.)
#[must_use]
pub fn runs_on(arch: &str, machine: &str) -> bool {
    arch == machine || (arch, machine) == ("i686", "x86_64")
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::image::runtime::apptainer::sif::tests::sif;

    fn told(bytes: &[u8]) -> Result<ImageFile, String> {
        let file = tempfile::NamedTempFile::new().expect("temp");
        fs::write(file.path(), bytes).expect("ours");
        inspect(file.path()).map_err(|error| error.to_string())
    }

    /// A file of 4096 zeros with something at a place.
    fn with(at: usize, bytes: &[u8]) -> Vec<u8> {
        let mut file = vec![0; 4096];
        file[at..at + bytes.len()].copy_from_slice(bytes);
        file
    }

    #[test]
    fn files_are_told_by_their_content() {
        let found = told(&sif()).expect("a SIF");
        assert_eq!(
            (found.form, found.arch.as_deref(), found.size_bytes),
            ("sif", Some("x86_64"), Some(8192))
        );
        assert!(found.modified_ms > 1_600_000_000_000);
        let bare = told(&with(0, b"hsqs")).expect("an image");
        assert_eq!(bare.form, "squashfs");
        let half = told(&sif()[..5000]).expect_err("half");
        assert!(
            half.contains("is not an image: it is truncated: 5000 of 8192 bytes"),
            "{half}"
        );
    }

    #[test]
    fn what_is_no_image_is_told_what_it_is() {
        for (bytes, part) in [
            (b"".to_vec(), "empty"),
            (vec![0; 4096], "neither"),
            (with(257, b"ustar"), "tar archive"),
            (b"hello".to_vec(), "neither"),
            (b"hsqs".to_vec(), "neither"),
            (with(7, b"\xff\xfe"), "neither"),
        ] {
            let why = told(&bytes).expect_err(part);
            assert!(why.contains(part), "{part}: {why}");
        }
        let missing = inspect(Path::new("/nonexistent/a.sif")).expect_err("none");
        assert!(matches!(missing, ContainerError::Read { .. }), "{missing}");
        let device = inspect(Path::new("/dev/null"))
            .expect_err("none")
            .to_string();
        assert!(
            device.contains("neither a file nor a directory"),
            "{device}"
        );
    }

    #[test]
    fn a_pipe_keeps_nobody_waiting() {
        let dir = tempfile::tempdir().expect("temp");
        let pipe = dir.path().join("a.sif");
        nix::unistd::mkfifo(&pipe, nix::sys::stat::Mode::S_IRWXU).expect("ours");
        assert!(matches!(
            inspect(&pipe),
            Err(ContainerError::NotAnImage { .. })
        ));
    }

    #[test]
    fn directory_with_a_shell_is_a_sandbox() {
        let dir = tempfile::tempdir().expect("temp");
        let why = inspect(dir.path()).expect_err("empty").to_string();
        assert!(
            why.contains("neither `.singularity.d` nor `bin/sh`"),
            "{why}"
        );
        let put = |name: &str, bytes: &[u8]| {
            let path = dir.path().join(name);
            fs::create_dir_all(path.parent().expect("it has one")).expect("ours");
            fs::write(path, bytes).expect("ours");
        };
        put("bin/sh", b"#!/bin/false");
        let found = inspect(dir.path()).expect("a sandbox");
        assert_eq!(
            (found.form, found.arch.as_deref(), found.size_bytes),
            ("sandbox", None, None)
        );
    }

    #[test]
    fn architectures_are_held_against_the_machine() {
        for (arch, machine, runs) in [
            ("x86_64", "x86_64", true),
            ("i686", "x86_64", true),
            ("x86_64", "i686", false),
            ("aarch64", "x86_64", false),
            ("ppc64", "ppc64le", false),
        ] {
            assert_eq!(runs_on(arch, machine), runs, "{arch} on {machine}");
        }
        let image = |arch: Option<&str>| ImageFile {
            form: "squashfs",
            uuid: None,
            arch: arch.map(str::to_owned),
            size_bytes: Some(1),
            modified_ms: 0,
        };
        let machine = uname()
            .expect("a kernel")
            .machine()
            .to_string_lossy()
            .into_owned();
        assert_eq!(
            (image(None).arch_fault(), image(Some(&machine)).arch_fault()),
            (None, None)
        );
        let fault = image(Some("mips"))
            .arch_fault()
            .expect("no machine of today");
        assert!(
            fault.contains("mips") && fault.contains(&machine),
            "{fault}"
        );
    }
}
