//! What the rules choose, obeyed by a real runtime: values, paths and exit codes arrive as they are.

use std::fs;
use std::os::unix::fs::chown;
use std::path::Path;

use dlrun::image::flags::fakeroot::{Means, Purpose, outcome};
use dlrun::image::flags::{
    Container, GpuFacts, Invocation, Namespaces, NodeFacts, SubIds, Surroundings, choose,
};
use dlrun::image::runtime::Runtime;
use dlrun::job::Bind;

use super::place::{base_sandbox, base_sif, listed, runtime, unlisted};
use crate::slurm_real::cluster::{Ran, User};

/// What holds for a user of this machine, who has ids and namespaces or not.
fn node(user: &User, ids: u64) -> NodeFacts {
    let said = user.run(&runtime().to_string_lossy(), &["--version"]).ok();
    NodeFacts {
        command: runtime().to_string_lossy().into_owned(),
        runtime: Some(Runtime::parse(&said).expect(&said)),
        uid: user.uid(),
        gpus: GpuFacts::default(),
        namespaces: Namespaces::default(),
        sub_ids: SubIds {
            subuid_count: ids,
            subgid_count: ids,
            newuidmap: true,
            fakeroot_command: true,
        },
        squashfuse: true,
        fuse_device: true,
    }
}

fn container(user: &User, image: &Path) -> Container {
    Container {
        source: image.to_string_lossy().into_owned(),
        workdir: user.home().to_string_lossy().into_owned(),
        ..Container::default()
    }
}

type Variables<'a> = &'a [(&'a str, &'a str)];

/// Decides in this environment.
fn chosen(container: &Container, node: &NodeFacts, variables: Variables<'_>) -> Invocation {
    let names: Vec<String> = variables
        .iter()
        .map(|(name, _)| (*name).to_owned())
        .collect();
    let value = |wanted: &str| {
        variables
            .iter()
            .find(|(name, _)| *name == wanted)
            .map(|(_, value)| (*value).to_owned())
    };
    let around = Surroundings {
        variables: &value,
        names: &names,
        exists: &|path| Path::new(path).exists(),
        is_sandbox: Path::new(&container.source).is_dir(),
    };
    choose(container, node, &around).expect("it can be")
}

/// Runs a command in the container as the words say, in that environment.
fn run(user: &User, invocation: &Invocation, variables: Variables<'_>, command: &[&str]) -> Ran {
    let mut process = user.command(&invocation.argv[0]);
    process.args(&invocation.argv[1..]).args(command);
    process.envs(variables.iter().copied());
    for removal in &invocation.removals {
        process.env_remove(removal);
    }
    process.envs(invocation.sets.iter().map(|(name, value)| (name, value)));
    Ran::of(process.output().expect("it starts"))
}

/// Prints variables as Python writes texts, one a line.
const PRINT: &str = "import os, sys\nfor name in sys.argv[1:]: print(ascii(os.environ.get(name)))";

fn printed(ran: Ran) -> Vec<String> {
    ran.ok().lines().map(str::to_owned).collect()
}

#[test]
#[ignore = "needs Apptainer: run tests/run"]
fn values_arrive_byte_for_byte() {
    let user = listed();
    let odd = "$HOME `id` $(id) \"two\" 'one' \\ \\n \\u000A {a,b} * ~ !! % \u{e9}\u{2028}";
    let lines = "one\ntwo\rthree\tfour\n\n";
    let variables: Variables<'_> = &[
        ("ODD", odd),
        ("LINES_OF_TEXT", lines),
        ("EMPTY", ""),
        ("CRLF", "a\r\nb"),
        ("FROM_FILE", "s$HOME"),
        ("DLRUN_ENV_NAMES", "FROM_FILE"),
        ("SLURM_JOB_NAME", odd),
        ("CUDA_VISIBLE_DEVICES", ""),
        ("EDITOR", "vi"),
        ("BASH_FUNC_module%%", "() {  echo; }"),
    ];
    let asked = [
        "ODD",
        "LINES_OF_TEXT",
        "EMPTY",
        "FROM_FILE",
        "SLURM_JOB_NAME",
        "CUDA_VISIBLE_DEVICES",
        "EDITOR",
    ];
    for (cleanenv, version) in [
        (false, None),
        (true, None),
        (false, Some("1.0.3")),
        (true, Some("1.0.3")),
    ] {
        let mut node = node(&user, 9);
        // An older version is told apart by its words alone: this one obeys them too, and evaluates as that one does.
        if let Some(version) = version {
            node.runtime = Runtime::parse(&format!("apptainer version {version}"));
        }
        let mut container = Container {
            cleanenv,
            ..container(&user, &base_sandbox())
        };
        container.variables = ["ODD", "LINES_OF_TEXT", "EMPTY"]
            .map(str::to_owned)
            .to_vec();
        if !cleanenv {
            container.variables.push("CRLF".to_owned());
        }
        let invocation = chosen(&container, &node, variables);
        assert_eq!(
            invocation.argv.contains(&"--no-eval".to_owned()),
            version.is_none()
        );
        let mut command = vec!["python3", "-c", PRINT];
        command.extend(asked);
        if !cleanenv {
            command.push("CRLF");
        }
        let found = printed(run(&user, &invocation, variables, &command));
        let python = |text: &str| {
            let mut command = user.command("python3");
            let code = "import sys; print(ascii(sys.argv[1]))";
            Ran::of(
                command
                    .args(["-c", code, text])
                    .output()
                    .expect("python3 is here"),
            )
            .ok()
            .trim_end()
            .to_owned()
        };
        let mut expected = vec![python(odd), python(lines), python(""), python("s$HOME")];
        // Without --cleanenv those that the job does not set go along by themselves, and lose their `\u000A` on the way.
        let beside = if cleanenv {
            odd.to_owned()
        } else {
            odd.replace("\\u000A", "\n")
        };
        expected.extend([python(&beside), python("")]);
        expected.push(if cleanenv {
            "None".to_owned()
        } else {
            python("vi")
        });
        if !cleanenv {
            expected.push(python("a\r\nb"));
        }
        assert_eq!(found, expected, "cleanenv {cleanenv}, {version:?}");
    }
}

#[test]
#[ignore = "needs Apptainer: run tests/run"]
fn the_path_of_the_job_reaches_the_process_and_the_nodes_does_not() {
    let user = listed();
    let variables: Variables<'_> = &[
        ("PATH", "/opt/$own/bin:/usr/bin:/bin"),
        ("LD_LIBRARY_PATH", "/opt/\"own\"/lib"),
    ];
    let names = ["python3", "-c", PRINT, "PATH", "LD_LIBRARY_PATH"];
    for cleanenv in [false, true] {
        let of_node = Container {
            cleanenv,
            ..container(&user, &base_sandbox())
        };
        let of_job = Container {
            variables: vec!["PATH".into(), "LD_LIBRARY_PATH".into()],
            ..of_node.clone()
        };
        let node = node(&user, 9);
        let found = |container| {
            printed(run(
                &user,
                &chosen(container, &node, variables),
                variables,
                &names,
            ))
        };
        assert!(
            !found(&of_node).join(" ").contains("own"),
            "cleanenv {cleanenv}"
        );
        assert_eq!(
            found(&of_job),
            [
                "'/opt/$own/bin:/usr/bin:/bin'",
                "'/opt/\"own\"/lib:/.singularity.d/libs'"
            ],
            "cleanenv {cleanenv}"
        );
    }
}

#[test]
#[ignore = "needs Apptainer: run tests/run"]
fn paths_that_break_other_programs_are_bound() {
    let user = listed();
    let names = [
        "a b",
        "a:b",
        "a,b",
        "a\\b",
        "a\"b",
        "a'b",
        "a^b",
        " a ",
        "a=b",
        "a$b",
        "a\\:b,\"c",
        "\u{e9}",
    ];
    for image in [base_sandbox(), base_sif()] {
        let mut container = container(&user, &image);
        for (at, name) in names.iter().enumerate() {
            let source = user.path(name);
            fs::create_dir_all(&source).expect("the home can be written");
            fs::write(source.join("number"), at.to_string()).expect("it can be written");
            // A dollar sign that begins no name stands for itself; this one would begin one.
            let source = source.to_string_lossy().replace("a$b", "${ODD}");
            let target = format!("/mnt/{at}/{}", name.trim());
            container.binds.push(Bind {
                source,
                target,
                read_only: at % 2 == 0,
            });
        }
        let variables: Variables<'_> = &[("ODD", "a$b")];
        let invocation = chosen(&container, &node(&user, 9), variables);
        let code = "import glob\nfor at in range(len(glob.glob('/mnt/*'))):\n [dir] = glob.glob(f'/mnt/{at}/*')\n \
                    print(open(dir + '/number').read(), dir.split('/', 3)[3])";
        let found = printed(run(&user, &invocation, variables, &["python3", "-c", code]));
        let expected: Vec<String> = names
            .iter()
            .enumerate()
            .map(|(at, name)| format!("{at} {}", name.trim()))
            .collect();
        assert_eq!(
            found,
            expected,
            "{}: {:?}",
            image.display(),
            invocation.argv
        );
    }
}

#[test]
#[ignore = "needs Apptainer: run tests/run"]
fn a_working_directory_with_an_odd_name_is_the_process_own() {
    let user = listed();
    let workdir = user.path("my: \"work\", x");
    fs::create_dir_all(&workdir).expect("the home can be written");
    chown(&workdir, Some(user.uid()), None).expect("we are root");
    let container = Container {
        workdir: workdir.to_string_lossy().into_owned(),
        options: vec!["--containall".to_owned()],
        ..container(&user, &base_sandbox())
    };
    let invocation = chosen(&container, &node(&user, 9), &[]);
    let found = run(
        &user,
        &invocation,
        &[],
        &["sh", "-c", "pwd; echo done > made"],
    )
    .ok();
    assert_eq!(found.trim_end(), workdir.to_string_lossy());
    assert_eq!(
        fs::read_to_string(workdir.join("made")).expect("it was made outside too"),
        "done\n"
    );
}

#[test]
#[ignore = "needs Apptainer: run tests/run"]
fn the_node_file_of_pbs_can_be_read_and_not_be_written() {
    let user = listed();
    let spool = tempfile::Builder::new()
        .prefix("dlrun-spool")
        .tempdir_in("/var/spool")
        .expect("we are root");
    fs::set_permissions(
        spool.path(),
        std::os::unix::fs::PermissionsExt::from_mode(0o755),
    )
    .expect("ours");
    let file = spool.path().join("7.host");
    fs::write(&file, "node1\nnode2\n").expect("it can be written");
    let path = file.to_string_lossy();
    let variables: Variables<'_> = &[("PBS_NODEFILE", &path)];
    for cleanenv in [false, true] {
        let container = Container {
            cleanenv,
            ..container(&user, &base_sif())
        };
        let invocation = chosen(&container, &node(&user, 9), variables);
        let script = "cat \"$PBS_NODEFILE\"; test ! -w \"$PBS_NODEFILE\"";
        assert_eq!(
            run(&user, &invocation, variables, &["sh", "-c", script]).ok(),
            "node1\nnode2\n"
        );
    }
}

#[test]
#[ignore = "needs Apptainer: run tests/run"]
fn the_exit_code_of_the_program_comes_back() {
    let user = listed();
    for image in [base_sandbox(), base_sif()] {
        let invocation = chosen(&container(&user, &image), &node(&user, 9), &[]);
        for code in [0, 7, 255] {
            let ran = run(
                &user,
                &invocation,
                &[],
                &["sh", "-c", &format!("exit {code}")],
            );
            assert_eq!(ran.code, code, "{}: {}", image.display(), ran.stderr);
        }
    }
}

#[test]
#[ignore = "needs Apptainer: run tests/run"]
fn an_image_file_is_unpacked_where_it_is_told() {
    let user = listed();
    let node = NodeFacts {
        squashfuse: false,
        ..node(&user, 9)
    };
    let invocation = chosen(&container(&user, &base_sif()), &node, &[]);
    assert!(
        invocation.argv.contains(&"--unsquash".to_owned()),
        "{:?}",
        invocation.argv
    );
    let root = run(
        &user,
        &invocation,
        &[],
        &["sh", "-c", "grep ' / ' /proc/self/mountinfo"],
    )
    .ok();
    assert!(!root.contains("squashfuse"), "{root}");
}

#[test]
#[ignore = "needs Apptainer: run tests/run"]
fn the_root_user_of_a_container_is_made_in_the_way_that_is_told() {
    // Ids inside, and whether a file can be given away there.
    let script = "id -u; cat /proc/self/uid_map | wc -l; touch /tmp/x.$$; chown 1:1 /tmp/x.$$ && echo given; rm /tmp/x.$$";
    let (with, without) = (listed(), unlisted());
    let no_newuidmap = |mut node: NodeFacts| {
        node.sub_ids.newuidmap = false;
        node
    };
    for (user, node, means, lines) in [
        (&with, node(&with, 65536), Means::Range, "0\n2\ngiven\n"),
        (
            &without,
            node(&without, 0),
            Means::Namespace {
                command: true,
                range_ignored: false,
            },
            "0\n1\ngiven\n",
        ),
        (
            &with,
            no_newuidmap(node(&with, 65536)),
            Means::Namespace {
                command: true,
                range_ignored: true,
            },
            "0\n1\ngiven\n",
        ),
    ] {
        assert_eq!(outcome(&node, Purpose::Run), Ok(means));
        let container = Container {
            fakeroot: true,
            ..container(user, &base_sandbox())
        };
        let invocation = chosen(&container, &node, &[]);
        let ran = run(user, &invocation, &[], &["sh", "-c", script]);
        assert_eq!(ran.stdout, lines, "{means:?}: {}", ran.stderr);
    }
}
