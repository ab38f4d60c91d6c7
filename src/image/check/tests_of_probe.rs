//! The probe, run by this machine's shell and Python on frameworks that are made up.

use std::fs;
use std::path::Path;

use super::answer::{Answer, Try};
use super::{PROBE, SHELL};
use crate::foundation::command::Tool;

/// A directory with modules, and what the probe says of them.
struct Image(tempfile::TempDir);

impl Image {
    fn with(files: &[(&str, &str)]) -> Self {
        let dir = tempfile::tempdir().expect("a directory");
        for (name, text) in files {
            let path = dir.path().join(name);
            fs::create_dir_all(path.parent().expect("a parent")).expect("ours");
            fs::write(path, text).expect("ours");
        }
        Self(dir)
    }

    fn asked(&self, framework: &str, gpus: &str, path: &Path) -> Answer {
        let output = Tool::new("/bin/sh")
            .args(["-c", SHELL, "sh", "MK", framework, gpus, PROBE])
            .env("PYTHONPATH", self.0.path())
            .env("PATH", path)
            .run()
            .expect("a shell");
        let mut answer = Answer::default();
        output
            .stdout
            .lines()
            .for_each(|line| answer.take("MK", line));
        assert!(answer.shell, "{}", output.stderr);
        answer
    }

    /// What Python says, with nothing beside it on its PATH but what the image has in `bin`.
    fn says(&self, framework: &str, gpus: &str) -> Try {
        let bin = self.0.path().join("bin");
        fs::create_dir_all(&bin).expect("ours");
        // The interpreter itself, not a script that chooses one.
        let asked = Tool::new("python3")
            .args(["-c", "import sys; print(sys.executable)"])
            .run();
        let asked = asked.expect("python3").stdout;
        std::os::unix::fs::symlink(asked.trim(), bin.join("python3")).expect("ours");
        let mut answer = self.asked(framework, gpus, &bin);
        assert_eq!(answer.tries.len(), 1);
        answer.tries.remove(0)
    }
}

/// Does what the probe wants of PyTorch.
const TORCH: &str = r#"
__version__ = "2.4.1+cu121"
class Namespace: pass
version, cuda, backends = Namespace(), Namespace(), Namespace()
version.cuda, version.hip = "12.1", None
cuda.device_count = lambda: 2
class Number(float):
    def item(self): return float(self)
class Tensor:
    def cos(self): return self
    def sum(self): return Number(VALUE)
VALUE = 4
def zeros(shape): return Tensor()
def mm(a, b): return a
def compile(function, backend):
    assert backend == "inductor"
    return function
def ones(count, device):
    global VALUE
    VALUE = count
    return Tensor()
"#;
const COMPILER: (&str, &str) = ("bin/g++", "");

fn with_compiler(image: &Image) {
    use std::os::unix::fs::PermissionsExt;
    let compiler = image.0.path().join(COMPILER.0);
    fs::set_permissions(compiler, fs::Permissions::from_mode(0o755)).expect("ours");
}

#[test]
fn a_framework_tells_its_versions_and_compiles() {
    let image = Image::with(&[("torch/__init__.py", TORCH), COMPILER]);
    with_compiler(&image);
    let said = image.says("pytorch", "none");
    assert_eq!(said.faults, [], "{said:#?}");
    assert_eq!(
        said.versions.get("pytorch").map(String::as_str),
        Some("2.4.1+cu121")
    );
    assert_eq!(said.versions.get("cuda").map(String::as_str), Some("12.1"));
    assert_eq!(
        (said.compiled.as_slice(), said.gpus),
        (&["inductor".to_owned()][..], None)
    );
    assert!(said.complete && said.code == Some(0));
    assert!(
        said.python
            .is_some_and(|python| python.version.starts_with("3.") && !python.arch.is_empty())
    );
}

#[test]
fn inductor_without_a_compiler_says_what_it_lacks() {
    let said = Image::with(&[("torch/__init__.py", TORCH)]).says("pytorch", "gpus");
    let fault = said.fault("compile inductor").expect("it cannot compile");
    assert!(fault.contains("`g++` is not in the image"), "{fault}");
    assert_eq!((said.gpus, said.compiled.len()), (Some(2), 0));
}

#[test]
fn a_compiler_that_computes_wrongly_is_found() {
    let image = Image::with(&[
        (
            "torch/__init__.py",
            &TORCH.replace("VALUE = 4", "VALUE = 5"),
        ),
        COMPILER,
    ]);
    with_compiler(&image);
    let said = image.says("pytorch", "none");
    assert!(
        said.fault("compile inductor")
            .is_some_and(|why| why.contains("5.0 instead of 4")),
        "{said:#?}"
    );
}

#[test]
fn a_framework_without_a_table_is_known_by_its_module() {
    let said = Image::with(&[("my_net.py", "__version__ = '1.5'")]).says("my-net", "gpus");
    assert_eq!(said.installed, ["my-net"]);
    assert_eq!(said.versions.get("my-net").map(String::as_str), Some("1.5"));
    assert_eq!((said.faults.len(), said.gpus), (0, None));
}

#[test]
fn what_cannot_be_imported_says_why() {
    let text = "print('loading', flush=True)\nimport no_such_module_of_theirs";
    let said = Image::with(&[("jax/__init__.py", text)]).says("jax", "none");
    let fault = said.fault("import").expect("it fails");
    assert!(fault.contains("no_such_module_of_theirs"), "{fault}");
    assert!(said.complete && said.code == Some(0));
}

#[test]
fn a_crash_is_known_by_its_step() {
    let text = "import os, signal\nos.kill(os.getpid(), signal.SIGILL)";
    let said = Image::with(&[("tensorflow/__init__.py", text)]).says("tensorflow", "none");
    assert_eq!(
        (said.begun.as_deref(), said.code, said.complete),
        (Some("import"), Some(132), false)
    );
}

#[test]
fn findings_survive_a_framework_that_closes_the_streams() {
    let text = "import sys\nprint('no end of line', end='')\nsys.stdout.flush()\nsys.stdout.close()\n\
                sys.stdout = sys.stderr\n__version__ = '3'";
    let said = Image::with(&[("mxnet/__init__.py", text)]).says("mxnet", "none");
    assert_eq!(said.versions.get("mxnet").map(String::as_str), Some("3"));
    assert!(said.complete, "{said:#?}");
}

#[test]
fn without_a_framework_the_next_python_is_asked_and_without_python_nobody() {
    let image = Image::with(&[]);
    let said = image.says("jax", "none");
    assert_eq!((said.installed.len(), said.code), (0, Some(3)));
    let bin = image.0.path().join("bin");
    std::os::unix::fs::symlink(bin.join("python3"), bin.join("python")).expect("ours");
    assert_eq!(image.asked("jax", "none", &bin).tries.len(), 2);
    let empty = tempfile::tempdir().expect("a directory");
    assert_eq!(image.asked("jax", "none", empty.path()).tries, []);
}
