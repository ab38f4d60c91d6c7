//! Which Python and which frameworks a run uses: by the files that its processes have mapped, so nothing is started or guessed.

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::path::Path;

use crate::foundation::command::is_python;
use crate::job::RunId;
use crate::record::Software;

/// Packages, by the name of their `.dist-info`, and the directory whose files are mapped once they are imported. Packages of plain
/// Python map nothing: that one is installed does not say that it is used.
const PACKAGES: [(&str, &str); 12] = [
    ("torch", "torch"),
    ("tensorflow", "tensorflow"),
    ("tensorflow_cpu", "tensorflow"),
    ("jaxlib", "jaxlib"),
    ("mxnet", "mxnet"),
    ("paddlepaddle", "paddle"),
    ("paddlepaddle_gpu", "paddle"),
    ("horovod", "horovod"),
    ("scikit_learn", "sklearn"),
    ("xgboost", "xgboost"),
    ("lightgbm", "lightgbm"),
    ("numpy", "numpy"),
];
/// A process of a large framework maps a few thousand files.
const MAPS_LIMIT: usize = 8 << 20;

/// Reads it from the run's processes of this user on this node. Reads directories that may lie on a network: call it where a wait
/// does no harm.
#[must_use]
pub fn software_of(run_id: &RunId) -> Vec<Software> {
    software_in(Path::new("/proc"), run_id)
}

/// The frameworks that are installed beside an interpreter, `ENV/bin/python` or that of the system: by the names of directories, so
/// nothing is started. Of two versions it is not known which one is meant.
#[must_use]
pub fn packages_of(python: &Path) -> Vec<Software> {
    let prefix = python.parent().and_then(Path::parent).unwrap_or(python);
    let libraries = fs::read_dir(prefix.join("lib"))
        .into_iter()
        .flatten()
        .flatten();
    let libraries =
        libraries.filter(|entry| entry.file_name().to_string_lossy().starts_with("python3"));
    let dirs = libraries.flat_map(|entry| {
        ["site-packages", "dist-packages"].map(|packages| entry.path().join(packages))
    });
    let mut found: Found = BTreeMap::new();
    for entry in dirs.flat_map(fs::read_dir).flatten().flatten() {
        let name = entry.file_name();
        if let Some((name, version)) = name.to_str().and_then(distribution)
            && PACKAGES
                .iter()
                .any(|(known, _)| name.eq_ignore_ascii_case(known))
        {
            add(&mut found, &name.to_ascii_lowercase(), version);
        }
    }
    certain(found)
}

fn software_in(proc: &Path, run_id: &RunId) -> Vec<Software> {
    let mut found: Found = BTreeMap::new();
    let mut seen = BTreeSet::new();
    for process in fs::read_dir(proc).into_iter().flatten().flatten() {
        let path = process.path();
        let Some(python) = python(&path).filter(|_| is_of_run(&path, run_id)) else {
            continue;
        };
        if let Some(version) = python_version(&python) {
            add(&mut found, "python", version);
        }
        let Ok(maps) = fs::read(path.join("maps")) else {
            continue;
        };
        let maps = String::from_utf8_lossy(&maps[..maps.len().min(MAPS_LIMIT)]).into_owned();
        for (base, dirs) in packages_mapped(&maps) {
            // Ranks of one training map the same files.
            if seen.insert((base.to_owned(), dirs.len())) {
                look_at(&path.join("root"), base, &dirs, &mut found);
            }
        }
    }
    certain(found)
}

/// Of two versions it is not known which one is meant: a helper beside the training, or what an update left.
fn certain(found: Found) -> Vec<Software> {
    let known = |(name, versions): (String, BTreeSet<String>)| {
        let mut versions = versions.into_iter();
        let version = versions.next()?;
        versions
            .next()
            .is_none()
            .then_some(Software { name, version })
    };
    found.into_iter().filter_map(known).collect()
}

/// The versions that were seen of each.
type Found = BTreeMap<String, BTreeSet<String>>;

fn add(found: &mut Found, name: &str, version: &str) {
    found
        .entry(name.to_owned())
        .or_default()
        .insert(version.to_owned());
}

/// The interpreter that a process runs, `/usr/bin/python3.11`; its name says so, however the process calls itself.
fn python(process: &Path) -> Option<String> {
    let program = fs::read_link(process.join("exe")).ok()?;
    is_python(&program).then(|| program.to_string_lossy().into_owned())
}

/// Whether a process has the run's id in its environment. That of other users' processes cannot be read.
fn is_of_run(process: &Path, run_id: &RunId) -> bool {
    let id = run_id.as_str().as_bytes();
    fs::read(process.join("environ"))
        .is_ok_and(|bytes| bytes.windows(id.len()).any(|window| window == id))
}

/// The directories of packages of which files are mapped, with those packages.
fn packages_mapped(maps: &str) -> BTreeMap<&str, BTreeSet<&str>> {
    let mut bases: BTreeMap<&str, BTreeSet<&str>> = BTreeMap::new();
    for line in maps.lines() {
        let Some(path) = line.find('/').map(|at| &line[at..]) else {
            continue;
        };
        for marker in ["/site-packages/", "/dist-packages/"] {
            if let Some(at) = path.rfind(marker) {
                let (base, rest) = path.split_at(at + marker.len());
                let package = rest.split('/').next().unwrap_or(rest);
                bases.entry(base).or_default().insert(package);
            }
        }
    }
    bases
}

/// Adds Python's version and those of the packages in a directory, as a process sees it from its `root`.
fn look_at(root: &Path, base: &str, dirs: &BTreeSet<&str>, found: &mut Found) {
    if let Some(version) = python_version(base) {
        add(found, "python", version);
    }
    let entries = fs::read_dir(root.join(base.trim_start_matches('/')));
    for entry in entries.into_iter().flatten().flatten() {
        let name = entry.file_name();
        let Some((name, version)) = name.to_str().and_then(distribution) else {
            continue;
        };
        let package = PACKAGES
            .iter()
            .find(|(known, _)| name.eq_ignore_ascii_case(known));
        if package.is_some_and(|(_, dir)| dirs.contains(dir)) {
            add(found, &name.to_ascii_lowercase(), version);
        }
    }
}

/// `3.11` of `/usr/bin/python3.11` and of `/opt/env/lib/python3.11/site-packages/`.
fn python_version(path: &str) -> Option<&str> {
    let version = path
        .split("/python")
        .skip(1)
        .find_map(|rest| rest.split('/').next())?;
    let is_version =
        version.contains('.') && version.chars().all(|c| c.is_ascii_digit() || c == '.');
    is_version.then_some(version)
}

/// Name and version of `torch-2.5.1+cu121.dist-info`.
fn distribution(file: &str) -> Option<(&str, &str)> {
    let stem = file
        .strip_suffix(".dist-info")
        .or_else(|| file.strip_suffix(".egg-info"))?;
    let (name, version) = stem.split_once('-')?;
    let version = version.split("-py").next().unwrap_or(version);
    let is_version = version.starts_with(|c: char| c.is_ascii_digit()) && version.len() <= 64;
    is_version.then_some((name, version))
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::symlink;

    use super::*;

    #[test]
    fn what_is_mapped_is_named_with_its_version() {
        let dir = tempfile::tempdir().expect("a directory");
        let (proc, id) = (dir.path(), RunId::from_random([7; 10]));
        let base = "/env/lib/python3.11/site-packages/";
        let process = |pid: &str, exe: &str, environ: &str, maps: &str| {
            let path = proc.join(pid);
            let packages = path.join("root").join(base.trim_start_matches('/'));
            for package in [
                "torch-2.5.1+cu121.dist-info",
                "tensorflow-2.15.0.dist-info",
                "keras-3.6.0.dist-info",
            ] {
                fs::create_dir_all(packages.join(package)).expect("a package");
            }
            symlink(exe, path.join("exe")).expect("a link");
            for (file, text) in [("environ", environ), ("maps", maps)] {
                fs::write(path.join(file), text).expect("a file");
            }
        };
        let maps =
            format!("7f00-7f01 r-xp 00000000 08:01 9 {base}torch/lib/libtorch.so\n7f02 [heap]\n");
        process(
            "10",
            "/usr/bin/python3.11",
            &format!("A=b\0DLRUN_RUN_ID={id}\0"),
            &maps,
        );
        process(
            "11",
            "/usr/bin/python3.11",
            "A=b\0",
            &maps.replace("torch", "tensorflow"),
        );
        process(
            "12",
            "/bin/bash",
            &format!("DLRUN_RUN_ID={id}\0"),
            &maps.replace("torch", "tensorflow"),
        );
        let texts: Vec<String> = software_in(proc, &id)
            .iter()
            .map(|found| format!("{} {}", found.name, found.version))
            .collect();
        assert_eq!(texts, ["python 3.11", "torch 2.5.1+cu121"]);
        assert_eq!(software_in(proc, &RunId::from_random([8; 10])), []);
    }

    #[test]
    fn names_of_distributions_are_read() {
        assert_eq!(
            distribution("torch-1.13.1-py3.10.egg-info"),
            Some(("torch", "1.13.1"))
        );
        assert_eq!(distribution("torch"), None);
        assert_eq!(distribution("torch-nightly.dist-info"), None);
        assert_eq!(python_version("/usr/lib/python3/dist-packages/"), None);
    }
}
