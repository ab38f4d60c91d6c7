//! The values of a recipe's placeholders, from target, pin and site. What could be read as syntax is refused here.

use std::fmt::Write as _;

use crate::config::RecipeTable;
use crate::foundation::diagnostic::Problem;
use crate::image::catalogue::Accelerator;

use crate::image::choice::compiler_flag;
use crate::image::flags::is_name;
use crate::image::recipe::Target;
use crate::image::recipe::choice::Choice;
use crate::image::recipe::fill::Values;
use crate::image::recipe::header::Pin;

/// Graph compilers that conditions may name.
const COMPILERS: [&str; 4] = ["xla", "inductor", "ngraph", "glow"];

/// Where the sources of all frameworks are.
const GIT_HOST: &str = "https://github.com";

/// Where the file of certificates lies while an image is built.
const CERTIFICATES: &str = "/opt/dlrun-build/certificates.pem";

/// Text that neither a shell nor the definition's syntax reads as anything but itself.
///
/// # Errors
/// With what is wrong about `what`.
pub(crate) fn plain(what: &str, text: &str) -> Result<(), Problem> {
    let allowed = |c: char| c.is_ascii_alphanumeric() || "._+-:/@=,~".contains(c);
    let fits = !text.is_empty()
        && text.len() <= 1000
        && !text.starts_with('-')
        && text.chars().all(allowed);
    if fits {
        return Ok(());
    }
    let message =
        format!("{what} cannot be {text:?}: letters, digits and `. _ + - : / @ = , ~` only");
    Err(Problem::of_file(message))
}

/// A word or requirement between single quotes, for the shell of the build.
fn quoted(text: &str) -> String {
    format!("'{}'", text.replace('\'', "'\\''"))
}

/// All values but those that depend on others: base, labels, set-up.
pub(crate) fn basic(
    target: &Target,
    choice: &Choice,
    site: &RecipeTable,
) -> Result<Values, Vec<Problem>> {
    let mut problems = Vec::new();
    let mut values = Values::new();
    let mut set = |name: &str, value: &str| {
        values.insert(name.to_owned(), value.to_owned());
    };
    let (recipe, pin) = (&choice.recipe, &choice.pin);
    // Pins of other versions say which placeholders there are.
    for name in recipe
        .pins
        .iter()
        .flat_map(|pin| pin.values.keys())
        .map(String::as_str)
        .chain(PIN_NAMES)
    {
        let value = pin.values.get(name).map_or("", String::as_str);
        if !value.is_empty() {
            problems.extend(plain(&format!("`{name}` of version {}", pin.version), value).err());
        }
        set(name, value);
    }
    set("recipe", &recipe.name);
    set("framework", &recipe.framework);
    set("provenance", recipe.provenance.as_str());
    set("version", &pin.version);
    set("compiler", &choice.compiler);
    set("accelerator", target.accelerator.as_str());
    set("arch", &target.arch);
    let on = |on: bool| if on { "1" } else { "" };
    set("cpu", on(target.accelerator == Accelerator::None));
    set("nvidia", on(target.accelerator == Accelerator::Nvidia));
    set("amd", on(target.accelerator == Accelerator::Amd));
    for name in COMPILERS {
        set(name, on(choice.compiler == name));
    }
    for name in ["x86_64", "aarch64", "ppc64le"] {
        set(name, on(target.arch == name));
    }
    set("pip_extra_index", on(site.pip_extra_index.is_some()));
    match requirements(target, pin) {
        Ok(text) => set("with", &text),
        Err(problem) => problems.push(problem),
    }
    let microarch = target.microarch.as_deref();
    match microarch.map_or(Ok(""), |microarch| compiler_flag(&target.arch, microarch)) {
        Ok(flag) => {
            set("march", flag);
            set("microarch", microarch.unwrap_or_default());
        }
        Err(why) => problems.push(Problem::of_file(why)),
    }
    if problems.is_empty() {
        Ok(values)
    } else {
        Err(problems)
    }
}

/// What pins may leave out although recipes ask for it.
const PIN_NAMES: [&str; 9] = [
    "python",
    "python_min",
    "python_max",
    "cuda",
    "rocm",
    "commit",
    "mpi",
    "openmpi",
    "mpich",
];

/// Those of the version, and those that are asked for.
fn requirements(target: &Target, pin: &Pin) -> Result<String, Problem> {
    let allowed = |c: char| c.is_ascii_alphanumeric() || "._+-<>=!~,[]*".contains(c);
    let is_odd = |text: &&String| {
        let begins = text.starts_with(|c: char| c.is_ascii_alphanumeric());
        !begins || text.len() > 200 || !text.chars().all(allowed)
    };
    let all = || pin.with.iter().chain(&target.with);
    if let Some(odd) = all().find(is_odd) {
        let message =
            format!("`with`: {odd:?} is not a requirement of pip such as `scikit-learn>=1.5`");
        return Err(Problem::of_file(message));
    }
    Ok(all().map(|text| quoted(text)).collect::<Vec<_>>().join(" "))
}

/// An address that may stand in a definition, which anyone who has the image can read.
fn address(what: &str, text: &str) -> Result<(), Problem> {
    let web =
        text.starts_with("https://") || text.starts_with("http://") || text.starts_with("file:///");
    if !web {
        return Err(Problem::of_file(format!(
            "{what} must begin with https://, http:// or file:///, not {text:?}"
        )));
    }
    without_password(what, text)?;
    plain(what, text)
}

fn without_password(what: &str, text: &str) -> Result<(), Problem> {
    let host = text
        .split_once("://")
        .and_then(|(_, rest)| rest.split('/').next());
    if host.is_none_or(|host| !host.contains('@')) {
        return Ok(());
    }
    let message = format!("{what} holds a user name or a password, which would stay in the image");
    Err(Problem::of_file(message).hinted("name a mirror that asks for none"))
}

/// The `%files` section, or nothing.
pub(crate) fn files(site: &RecipeTable) -> Result<String, Vec<Problem>> {
    let Some(path) = &site.certificates else {
        return Ok(String::new());
    };
    let text = path.to_string_lossy();
    plain("`recipes.certificates`", &text).map_err(|problem| vec![problem])?;
    if !path.is_absolute() {
        return Err(vec![Problem::of_file(format!(
            "`recipes.certificates` must be absolute, not {text:?}"
        ))]);
    }
    Ok(format!("%files\n    {text} {CERTIFICATES}"))
}

/// What `%post` begins with: settings of the build, and the functions that recipes use.
pub(crate) fn setup(site: &RecipeTable) -> Result<String, Vec<Problem>> {
    let mut problems = Vec::new();
    let mut out = String::from(SETUP);
    let mut export = |name: &str, value: &str| {
        let _ = writeln!(out, "export {name}={}", quoted(value));
    };
    for (name, index) in [
        ("PIP_INDEX_URL", &site.pip_index),
        ("PIP_EXTRA_INDEX_URL", &site.pip_extra_index),
    ] {
        if let Some(index) = index {
            problems.extend(address("an index of [recipes]", index).err());
            export(name, index);
        }
    }
    if let Some(hosts) = site.pip_trusted.as_ref().filter(|hosts| !hosts.is_empty()) {
        let faults = hosts
            .iter()
            .filter_map(|host| plain("`recipes.pip_trusted`", host).err());
        problems.extend(faults);
        export("PIP_TRUSTED_HOST", &hosts.join(" "));
    }
    if site.certificates.is_some() {
        for name in [
            "PIP_CERT",
            "REQUESTS_CA_BUNDLE",
            "SSL_CERT_FILE",
            "CURL_CA_BUNDLE",
            "GIT_SSL_CAINFO",
        ] {
            export(name, CERTIFICATES);
        }
    }
    for (name, value) in &site.environment {
        problems.extend(variable(name, value).err());
        export(name, value);
    }
    for (of, mirror) in &site.apt_mirror {
        problems.extend(address(&format!("`recipes.apt_mirror.{of}`"), mirror).err());
        export(&format!("apt_mirror_{}", of.replace('-', "_")), mirror);
        if !["debian", "debian-security", "ubuntu"].contains(&of.as_str()) {
            let message =
                format!("`recipes.apt_mirror`: {of:?} is none of debian, debian-security, ubuntu");
            problems.push(Problem::of_file(message));
        }
    }
    export(
        "git_host",
        site.git_mirror
            .as_deref()
            .map_or(GIT_HOST, |mirror| mirror.trim_end_matches('/')),
    );
    if let Some(mirror) = &site.git_mirror {
        problems.extend(address("`recipes.git_mirror`", mirror).err());
        let key = format!("url.{}/.insteadOf", mirror.trim_end_matches('/'));
        for (name, value) in [
            ("COUNT", "1"),
            ("KEY_0", &key),
            ("VALUE_0", &format!("{GIT_HOST}/")),
        ] {
            export(&format!("GIT_CONFIG_{name}"), value);
        }
    }
    out.push_str(FUNCTIONS);
    if problems.is_empty() {
        Ok(out)
    } else {
        Err(problems)
    }
}

/// A variable of the build, whose value stands between single quotes.
fn variable(name: &str, value: &str) -> Result<(), Problem> {
    if !is_name(name) || value.chars().any(char::is_control) || value.len() > 4000 {
        return Err(Problem::of_file(format!(
            "`recipes.environment`: {name:?} and its value cannot be a variable"
        )));
    }
    without_password(&format!("`recipes.environment.{name}`"), value)
}

const SETUP: &str = "\
set -eu
umask 022
export LC_ALL=C.UTF-8 DEBIAN_FRONTEND=noninteractive
export PIP_NO_CACHE_DIR=1 PIP_DISABLE_PIP_VERSION_CHECK=1 PIP_ROOT_USER_ACTION=ignore PIP_NO_INPUT=1
";

/// Functions for `%post`, after an empty line.
///
/// As the user `_apt`, which apt becomes for downloads, nothing can be written where only one user is mapped into the
/// namespace. Python 3.12 and later put no `setuptools` into an environment; 81 took `pkg_resources` out, which old packages
/// import.
const FUNCTIONS: &str = concat!("\n", include_str!("post.sh"));
