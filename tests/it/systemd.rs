//! What is installed for systemd: the unit, as systemd itself judges it, and where `systemd/install` puts things.

use std::fs;
use std::io::Write as _;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::process::{Command, Output};

const UNIT: &str = "dlrund.service";
const EXPORT: &str = "dlrun-export.service";
const MODEL: &str = "dlrun-model.service";
const UNITS: [&str; 5] = [
    UNIT,
    EXPORT,
    "dlrun-export.timer",
    MODEL,
    "dlrun-model.timer",
];
/// The worst that `systemd-analyze security` may say, of 10.
const EXPOSURE: f64 = 2.5;
/// The same of the export and of the model, which need next to nothing.
const EXPORT_EXPOSURE: f64 = 0.5;

fn source() -> &'static Path {
    Path::new(env!("CARGO_MANIFEST_DIR"))
}

fn unit_text(name: &str) -> String {
    fs::read_to_string(source().join("systemd").join(name)).expect("the unit")
}

/// All values of a key of the unit, one a line, in their order.
fn values<'a>(unit: &'a str, key: &str) -> Vec<&'a str> {
    let start = format!("{key}=");
    unit.lines()
        .filter_map(|line| line.strip_prefix(&start))
        .collect()
}

fn value<'a>(unit: &'a str, key: &str) -> &'a str {
    let found = values(unit, key);
    assert_eq!(found.len(), 1, "{key}");
    found[0]
}

fn told(output: &Output) -> String {
    String::from_utf8_lossy(&output.stdout).into_owned() + &String::from_utf8_lossy(&output.stderr)
}

fn skipped(why: &str) {
    let _ = writeln!(std::io::stderr(), "skipped: {why}");
}

/// A systemd tool's answer; `None`, and said so, where this machine has no such tool.
fn systemd(program: &str, arguments: &[&str]) -> Option<Output> {
    let mut command = Command::new(program);
    match command
        .args(arguments)
        .env("SYSTEMD_PAGER", "cat")
        .env("LC_ALL", "C.UTF-8")
        .output()
    {
        Ok(output) => Some(output),
        Err(error) if error.kind() == std::io::ErrorKind::NotFound => {
            skipped(&format!("this machine has no {program}"));
            None
        }
        Err(error) => panic!("{program}: {error}"),
    }
}

/// A tree as `systemd/install` makes it from stand-ins for the programs.
struct Installed {
    _dir: tempfile::TempDir,
    dest: PathBuf,
    build: PathBuf,
}

impl Installed {
    fn new(prefix: &str) -> Self {
        let dir = tempfile::tempdir().expect("a directory");
        let (dest, build) = (dir.path().join("dest"), dir.path().join("build"));
        fs::create_dir(&build).expect("ours");
        for program in ["dlrun", "dlrund"] {
            let path = build.join(program);
            fs::write(&path, "#!/bin/sh\n").expect("ours");
            fs::set_permissions(&path, fs::Permissions::from_mode(0o755)).expect("ours");
        }
        let installed = Self {
            _dir: dir,
            dest,
            build,
        };
        let output = installed.again(prefix);
        assert!(output.status.success(), "{}", told(&output));
        let commands = told(&output);
        assert!(
            commands.contains("systemd-sysusers")
                && commands.contains("systemctl enable --now dlrund")
        );
        installed
    }

    fn again(&self, prefix: &str) -> Output {
        self.with_cron(prefix, "")
    }

    fn with_cron(&self, prefix: &str, cron: &str) -> Output {
        let script = source().join("systemd/install");
        let mut command = Command::new(script);
        command
            .env("DESTDIR", &self.dest)
            .env("PREFIX", prefix)
            .env("BUILD", &self.build);
        command.env("CRON", cron).output().expect("a shell")
    }

    fn path(&self, absolute: &str) -> PathBuf {
        self.dest.join(absolute.trim_start_matches('/'))
    }

    fn read(&self, absolute: &str) -> String {
        fs::read_to_string(self.path(absolute))
            .unwrap_or_else(|error| panic!("{absolute}: {error}"))
    }

    fn mode(&self, absolute: &str) -> u32 {
        let metadata =
            fs::metadata(self.path(absolute)).unwrap_or_else(|error| panic!("{absolute}: {error}"));
        metadata.permissions().mode() & 0o7777
    }
}

#[test]
fn systemd_finds_no_fault_with_the_unit() {
    let installed = Installed::new("/usr");
    let text = installed.read("/usr/lib/systemd/system/dlrund.service");
    // The program is looked for, and systemd's own units are this machine's.
    let there = |text: &str| {
        let dest = installed.dest.display();
        text.replace("=/usr/bin/", &format!("={dest}/usr/bin/"))
            .replace("=/usr/lib/", &format!("={dest}/usr/lib/"))
    };
    let verify = |name: &str, text: &str| {
        let unit = installed.dest.join(name);
        fs::write(&unit, text).expect("ours");
        systemd(
            "systemd-analyze",
            &["verify", "--man=no", unit.to_str().expect("text")],
        )
    };
    for name in UNITS {
        let Some(output) = verify(name, &there(&unit_text(name))) else {
            return;
        };
        let said = told(&output);
        let complaints: Vec<&str> = said.lines().filter(|line| line.contains("dlrun")).collect();
        assert!(complaints.is_empty(), "{name}: {complaints:#?}");
    }
    let verify = |text: &str| verify(UNIT, text);
    // It would have complained: of a key that this systemd does not know, and of a program that is not there.
    let misspelt = told(
        &verify(&there(&text).replace("NoNewPrivileges=", "NoNewPrivilege=")).expect("as before"),
    );
    assert!(misspelt.contains("NoNewPrivilege"), "{misspelt}");
    assert!(
        told(&verify(&text.replace("/dlrund", "/nothing")).expect("as before"))
            .contains("not executable")
    );
}

#[test]
fn the_unit_is_closed_enough() {
    for (unit, most) in [
        (UNIT, EXPOSURE),
        (EXPORT, EXPORT_EXPOSURE),
        (MODEL, EXPORT_EXPOSURE),
    ] {
        let path = source().join("systemd").join(unit);
        let arguments = [
            "security",
            "--offline=true",
            "--no-pager",
            path.to_str().expect("text"),
        ];
        let Some(output) = systemd("systemd-analyze", &arguments) else {
            return;
        };
        let text = told(&output);
        if text.contains("unrecognized option") || text.contains("Unknown argument") {
            skipped("this systemd-analyze judges no files (that came with 250)");
            return;
        }
        let (_, level) = text
            .rsplit_once("exposure level for")
            .unwrap_or_else(|| panic!("no judgement: {text}"));
        let number = level
            .split_whitespace()
            .find_map(|word| word.parse::<f64>().ok())
            .expect("a number");
        assert!(number <= most, "{unit}: {number} > {most}:\n{text}");
    }
}

/// What a later edit must not take away; `docs/operations.md` says why each is there.
#[test]
fn the_unit_keeps_its_promises() {
    let unit = unit_text(UNIT);
    assert_eq!(
        (value(&unit, "User"), value(&unit, "Group")),
        ("dlrun", "dlrun")
    );
    assert_eq!(value(&unit, "Type"), "notify");
    assert_eq!(
        value(&unit, "CapabilityBoundingSet"),
        "CAP_SYS_PTRACE CAP_DAC_READ_SEARCH"
    );
    assert_eq!(
        value(&unit, "AmbientCapabilities"),
        value(&unit, "CapabilityBoundingSet")
    );
    assert!(
        values(&unit, "PrivateDevices").is_empty(),
        "it would hide the GPUs"
    );
    assert!(
        value(&unit, "WatchdogSec")
            .parse::<u32>()
            .is_ok_and(|seconds| seconds > 0)
    );
    // The settings' defaults lie where the unit lets the daemon write, and users' dlrun looks where it listens.
    let defaults = dlrun::config::DaemonSettings::merge(&[]);
    let run = format!("/run/{}", value(&unit, "RuntimeDirectory"));
    assert_eq!(defaults.socket().parent(), Some(Path::new(&run)));
    assert_eq!(
        value(&unit, "RuntimeDirectoryMode"),
        "0755",
        "all users reach the socket"
    );
    let state = format!("/var/lib/{}", value(&unit, "StateDirectory"));
    assert_eq!(defaults.state_dir(), Path::new(&state));
    assert_eq!(value(&unit, "StateDirectoryMode"), "0750");
    assert_eq!(defaults.read_group(), Some(value(&unit, "Group")));
    let key = dlrun::config::Key::named("monitor.daemon_socket").expect("a setting");
    assert_eq!(key.default.map(Path::new), Some(defaults.socket()));
}

/// The unit, the cron file and the settings' defaults speak of the same places and of the same command.
#[test]
fn cron_and_the_timer_run_the_same_export() {
    let unit = unit_text(EXPORT);
    let cron = fs::read_to_string(source().join("etc/cron.d/dlrun-export")).expect("the cron file");
    let command = value(&unit, "ExecStart");
    let lines: Vec<&str> = cron
        .lines()
        .filter(|line| line.starts_with(|c: char| c.is_ascii_digit()))
        .collect();
    let [line] = lines[..] else {
        panic!("one line is expected: {lines:?}")
    };
    assert!(line.contains(&format!(" {command} ")), "{line}");
    assert_eq!(line.split_whitespace().nth(5), Some(value(&unit, "User")));
    // cron takes a `%` for the end of the line.
    assert!(!line.contains('%'), "{line}");
    let state = value(&unit, "Environment");
    assert!(cron.lines().any(|line| line == state), "{state}");
    assert_eq!(
        state,
        format!(
            "DLRUN_STATE_DIR=/var/lib/{}",
            value(&unit, "StateDirectory")
        )
    );
    // dlrun refuses a state directory that others could write to.
    assert_eq!(value(&unit, "StateDirectoryMode"), "0700");
    let daemon = dlrun::config::DaemonSettings::merge(&[]);
    let database = daemon.state_dir().join("dlrun.db");
    assert!(
        command.contains(&format!(" --store {} ", database.display())),
        "{command}"
    );
    assert_eq!(
        daemon.read_group(),
        Some(value(&unit, "Group")),
        "who may read the database"
    );
    let key = dlrun::config::Key::named("export.dir").expect("a setting");
    assert_eq!(
        key.default,
        value(&unit, "ReadWritePaths").strip_prefix('-')
    );
    assert_eq!(
        (
            value(&unit, "CapabilityBoundingSet"),
            value(&unit, "AmbientCapabilities")
        ),
        ("", "")
    );
    let users =
        fs::read_to_string(source().join("systemd/sysusers.d/dlrun.conf")).expect("the users");
    assert!(
        users.lines().any(|line| line == "m dlrun-export dlrun"),
        "{users}"
    );
}

/// The model's unit, its cron file and the setting speak of the same places.
#[test]
fn cron_and_the_timer_fit_the_same_model() {
    let unit = unit_text(MODEL);
    let cron = fs::read_to_string(source().join("etc/cron.d/dlrun-model")).expect("the cron file");
    let lines: Vec<&str> = cron
        .lines()
        .filter(|line| line.starts_with(|c: char| c.is_ascii_digit()))
        .collect();
    let [line] = lines[..] else {
        panic!("one line is expected: {lines:?}")
    };
    assert!(
        line.contains(&format!(" {} ", value(&unit, "ExecStart"))) && !line.contains('%'),
        "{line}"
    );
    assert_eq!(line.split_whitespace().nth(5), Some(value(&unit, "User")));
    let state = value(&unit, "Environment");
    assert!(cron.lines().any(|line| line == state), "{state}");
    let dir = format!("/var/lib/{}", value(&unit, "StateDirectory"));
    assert_eq!(state, format!("DLRUN_STATE_DIR={dir}/state"));
    // All users pass through it to the model.
    assert_eq!(value(&unit, "StateDirectoryMode"), "0755");
    let key = dlrun::config::Key::named("model.path").expect("a setting");
    assert_eq!(key.default, Some(format!("{dir}/model").as_str()));
    let daemon = dlrun::config::DaemonSettings::merge(&[]);
    assert_eq!(
        daemon.read_group(),
        Some(value(&unit, "Group")),
        "who may read the nodes' files"
    );
    let users =
        fs::read_to_string(source().join("systemd/sysusers.d/dlrun.conf")).expect("the users");
    assert!(
        users.lines().any(|line| line == "m dlrun-model dlrun"),
        "{users}"
    );
}

#[test]
fn the_cron_file_is_installed_where_it_is_asked_for() {
    let installed = Installed::new("/usr/local");
    let path = "/etc/cron.d/dlrun-export";
    assert!(!installed.path(path).exists(), "the timer would export too");
    let output = installed.with_cron("/usr/local", "yes");
    assert!(output.status.success(), "{}", told(&output));
    assert!(
        installed
            .read(path)
            .contains(" /usr/local/bin/dlrun export "),
        "{}",
        installed.read(path)
    );
    // cron passes over files that others may write to.
    assert_eq!(installed.mode(path), 0o644);
    fs::write(installed.path(path), "# no\n").expect("ours");
    assert!(told(&installed.with_cron("/usr/local", "yes")).contains("kept"));
    assert_eq!(installed.read(path), "# no\n");
    let model = "/etc/cron.d/dlrun-model";
    assert!(!installed.path(model).exists(), "one host of the site fits");
    assert!(installed.with_cron("/usr/local", "model").status.success());
    assert!(
        installed
            .read(model)
            .contains(" /usr/local/lib/dlrun/refit "),
        "{}",
        installed.read(model)
    );
    assert_eq!(
        (
            installed.mode(model),
            installed.mode("/usr/local/lib/dlrun/refit")
        ),
        (0o644, 0o755)
    );
    assert!(!installed.with_cron("/usr/local", "maybe").status.success());
}

#[test]
fn what_is_installed_is_what_the_unit_names() {
    for prefix in ["/usr", "/usr/local"] {
        let installed = Installed::new(prefix);
        let unit = installed.read(&format!("{prefix}/lib/systemd/system/dlrund.service"));
        let program = value(&unit, "ExecStart");
        assert_eq!(program, format!("{prefix}/bin/dlrund"));
        assert_eq!(
            (
                installed.mode(program),
                installed.mode(&format!("{prefix}/bin/dlrun"))
            ),
            (0o755, 0o755)
        );
        let page = value(&unit, "Documentation")
            .strip_prefix("file:")
            .expect("a file");
        assert_eq!(
            installed.read(page),
            fs::read_to_string(source().join("docs/operations.md")).expect("ours")
        );
        // The page links to this one.
        assert_eq!(
            installed.read(&format!("{prefix}/share/doc/dlrun/config.md")),
            fs::read_to_string(source().join("docs/config.md")).expect("ours")
        );
        let export = installed.read(&format!("{prefix}/lib/systemd/system/{EXPORT}"));
        assert!(
            value(&export, "ExecStart").starts_with(&format!("{prefix}/bin/dlrun export ")),
            "{export}"
        );
        assert!(
            installed
                .path(&format!("{prefix}/lib/systemd/system/dlrun-export.timer"))
                .exists()
        );
        let users = installed.read(&format!("{prefix}/lib/sysusers.d/dlrun.conf"));
        assert!(
            users
                .lines()
                .any(|line| line.starts_with(&format!("u {} ", value(&unit, "User")))),
            "{users}"
        );
        let directories = installed.read(&format!("{prefix}/lib/tmpfiles.d/dlrun.conf"));
        let made: Vec<&str> = directories
            .lines()
            .filter_map(|line| line.split_whitespace().nth(1))
            .collect();
        for directory in [
            "/etc/dlrun",
            "/var/lib/dlrun",
            "/var/lib/dlrun-export",
            "/var/lib/dlrun-model",
            "/var/spool/dlrun",
        ] {
            assert!(made.contains(&directory), "{made:?}");
        }
        for directory in [
            "/etc/dlrun",
            "/etc/dlrun/conf.d",
            "/etc/dlrun/dlrund.conf.d",
        ] {
            assert_eq!(installed.mode(directory), 0o755, "{directory}");
        }
        for sample in ["/etc/dlrun/dlrun.toml", "/etc/dlrun/dlrund.toml"] {
            assert_eq!(installed.mode(sample), 0o644, "{sample}");
        }
    }
}

#[test]
fn systemd_makes_the_user_and_the_directories() {
    let installed = Installed::new("/usr");
    let root = format!("--root={}", installed.dest.display());
    let Some(output) = systemd("systemd-sysusers", &[&root, "--dry-run", "dlrun.conf"]) else {
        return;
    };
    let text = told(&output);
    assert!(
        output.status.success() && text.contains("'dlrun'"),
        "{text}"
    );
    if !nix::unistd::getuid().is_root() {
        skipped("making users and directories takes root");
        return;
    }
    let made = systemd("systemd-sysusers", &[&root, "dlrun.conf"]).expect("as before");
    assert!(
        made.status.success() && installed.read("/etc/passwd").contains("dlrun:x:"),
        "{}",
        told(&made)
    );
    let Some(output) = systemd("systemd-tmpfiles", &[&root, "--create", "dlrun.conf"]) else {
        return;
    };
    assert!(output.status.success(), "{}", told(&output));
    assert_eq!(installed.mode("/var/lib/dlrun"), 0o750);
    assert_eq!(installed.mode("/var/lib/dlrun-export"), 0o700);
    assert_eq!(
        installed.mode("/var/spool/dlrun"),
        0o2750,
        "the files are for the group"
    );
    assert_eq!(
        installed.mode("/var/lib/dlrun-model"),
        0o755,
        "the model is for all"
    );
    assert_eq!(installed.mode("/var/lib/dlrun-model/state"), 0o700);
    let group = installed.read("/etc/group");
    assert!(
        group
            .lines()
            .any(|line| line.starts_with("dlrun:") && line.ends_with(":dlrun-export,dlrun-model")),
        "{group}"
    );
}

#[test]
fn installing_again_keeps_the_configuration_and_renews_the_rest() {
    let installed = Installed::new("/usr");
    let own = "[store]\nkeep_days = 7\n";
    fs::write(installed.path("/etc/dlrun/dlrund.toml"), own).expect("ours");
    fs::write(installed.path("/usr/bin/dlrund"), "old").expect("ours");
    let output = installed.again("/usr");
    assert!(output.status.success(), "{}", told(&output));
    assert!(told(&output).contains("kept"), "{}", told(&output));
    assert_eq!(installed.read("/etc/dlrun/dlrund.toml"), own);
    assert_eq!(installed.read("/usr/bin/dlrund"), "#!/bin/sh\n");
    let elsewhere = installed.again("/opt/dlrun");
    assert!(
        !elsewhere.status.success() && told(&elsewhere).contains("/opt/dlrun"),
        "systemd looks not there"
    );
    fs::remove_file(installed.build.join("dlrund")).expect("ours");
    let unbuilt = installed.again("/usr");
    assert!(
        !unbuilt.status.success() && told(&unbuilt).contains("cargo build"),
        "{}",
        told(&unbuilt)
    );
}
