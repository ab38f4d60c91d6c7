//! Each rule with each family of runtimes, as snapshots.

use std::fmt::Write as _;

use dlrun::image::flags::{Container, NodeFacts, preview};
use dlrun::job::{Bind, GpuMode};

use super::{RUNTIMES, bind, chosen, container, node, runtime};

/// A container that needs nothing of the node.
fn bare() -> Container {
    Container {
        workdir: String::new(),
        ..container()
    }
}

type Variables<'a> = &'a [(&'a str, &'a str)];

/// A case: its name, the container, the node by runtime, and the variables.
struct Case<'a> {
    name: &'a str,
    container: Container,
    node: &'a dyn Fn(NodeFacts) -> NodeFacts,
    variables: Variables<'a>,
    is_sandbox: bool,
    /// Words and reasons that are the same in all cases of a table are left out.
    leave_out: &'a [&'a str],
}

impl<'a> Case<'a> {
    fn new(name: &'a str, container: Container) -> Self {
        Self {
            name,
            container,
            node: &|node| node,
            variables: &[],
            is_sandbox: false,
            leave_out: &["--no-eval", "no --nv, no --rocm"],
        }
    }

    fn on(self, node: &'a dyn Fn(NodeFacts) -> NodeFacts) -> Self {
        Self { node, ..self }
    }

    fn with(self, variables: Variables<'a>) -> Self {
        Self { variables, ..self }
    }

    fn in_sandbox(self) -> Self {
        Self {
            is_sandbox: true,
            ..self
        }
    }

    fn showing_all(self) -> Self {
        Self {
            leave_out: &[],
            ..self
        }
    }

    /// What comes out, as text: words, variables, reasons, warnings.
    fn told(&self, said: &str) -> String {
        let node = (self.node)(node(runtime(said)));
        let invocation = match chosen(&self.container, &node, self.variables, self.is_sandbox) {
            Ok(invocation) => invocation,
            Err(refusal) => return format!("refused: {refusal}\n  {}\n", refusal.remedy),
        };
        let is_shown = |word: &str| !self.leave_out.contains(&word);
        let words: Vec<&str> = invocation
            .argv
            .iter()
            .map(String::as_str)
            .filter(|word| is_shown(word))
            .collect();
        let mut text = format!("{}\n", words[1..].join(" "));
        for (name, value) in &invocation.sets {
            let _ = writeln!(text, "  {name}={value:?}");
        }
        for removal in &invocation.removals {
            let _ = writeln!(text, "  without {removal}");
        }
        for reason in invocation
            .reasons
            .iter()
            .filter(|reason| is_shown(&reason.flag))
        {
            let _ = writeln!(text, "  {}: {}", reason.flag, reason.why);
        }
        for warning in &invocation.warnings {
            let _ = writeln!(text, "  warning: {warning}");
        }
        if let Some(missing) = &invocation.gpu_missing {
            let _ = writeln!(text, "  gpu_missing: {missing}");
        }
        text
    }
}

/// All families in turn; those that neighbour and agree stand together.
fn table(cases: &[Case<'_>]) -> String {
    let mut text = String::new();
    for case in cases {
        let _ = writeln!(text, "== {}", case.name);
        let mut groups: Vec<(Vec<&str>, String)> = Vec::new();
        for said in RUNTIMES.into_iter().chain(["something else 1.0"]) {
            let told = case.told(said);
            // The refusals name the version, which is no difference.
            let version = runtime(said).map(|it| it.to_string()).unwrap_or_default();
            let told = if version.is_empty() {
                told
            } else {
                told.replace(&version, "RUNTIME VERSION")
            };
            match groups.last_mut() {
                Some((members, same)) if *same == told => members.push(said),
                _ => groups.push((vec![said], told)),
            }
        }
        for (members, told) in groups {
            let members: Vec<String> = members
                .iter()
                .map(|said| said.replace(" version", ""))
                .collect();
            let _ = writeln!(
                text,
                "{}:\n  {}",
                members.join(", "),
                told.trim_end().replace("\n", "\n  ")
            );
        }
    }
    text
}

fn nvidia(mut node: NodeFacts) -> NodeFacts {
    node.gpus.nvidia_device = true;
    node.gpus.nvidia_driver = Some("550.54.15".into());
    node.gpus.cuda_library = Some(true);
    node
}

fn amd(mut node: NodeFacts) -> NodeFacts {
    node.gpus.amd_device = true;
    node
}

fn both(node: NodeFacts) -> NodeFacts {
    amd(nvidia(node))
}

fn granted(mut node: NodeFacts, by: Variables<'_>) -> NodeFacts {
    node.gpus.granted_by = by
        .iter()
        .map(|(name, value)| ((*name).into(), (*value).into()))
        .collect();
    node
}

fn asking() -> Container {
    Container {
        gpus_asked: true,
        ..bare()
    }
}

#[test]
fn gpus_are_passed_where_they_are_given() {
    let mode = |gpu| Container { gpu, ..asking() };
    let no_library = |node: NodeFacts| {
        let mut node = nvidia(node);
        node.gpus.cuda_library = Some(false);
        node
    };
    let own_mask = Container {
        variables: vec!["CUDA_VISIBLE_DEVICES".into()],
        ..asking()
    };
    let slurm = |node: NodeFacts| granted(nvidia(node), &[("SLURM_JOB_GPUS", "0,1")]);
    let slurm_cpu_node = |node: NodeFacts| granted(node, &[("SLURM_JOB_GPUS", "0,1")]);
    let counted = |node: NodeFacts| granted(nvidia(node), &[("SLURM_GPUS_ON_NODE", "0")]);
    let empty: Variables<'_> = &[("SLURM_JOB_ID", "7"), ("CUDA_VISIBLE_DEVICES", "")];
    let void: Variables<'_> = &[
        ("CUDA_VISIBLE_DEVICES", "0"),
        ("NVIDIA_VISIBLE_DEVICES", "void"),
    ];
    let no_device_files: Variables<'_> = &[("CUDA_VISIBLE_DEVICES", "NoDevFiles")];
    let in_slurm: Variables<'_> = &[("SLURM_JOB_ID", "7")];
    let told = table(&[
        Case::new("nothing asked, no GPU there", bare()),
        Case::new("asked and there", asking()).on(&nvidia),
        Case::new("given by Slurm", bare())
            .on(&slurm)
            .with(in_slurm),
        Case::new("there, but Slurm gave none", bare())
            .on(&nvidia)
            .with(in_slurm),
        Case::new("there, and Slurm counts none", bare())
            .on(&counted)
            .with(in_slurm),
        Case::new("there, and no scheduler", bare()).on(&nvidia),
        Case::new("there, no scheduler, and an empty mask", bare())
            .on(&nvidia)
            .with(&empty[1..]),
        Case::new("given, and an empty mask", bare())
            .on(&slurm)
            .with(empty),
        Case::new("asked, and an empty mask", asking())
            .on(&slurm)
            .with(empty),
        Case::new("asked, and no device files", asking()).with(no_device_files),
        Case::new("asked, and the job's own empty mask", own_mask)
            .on(&slurm)
            .with(empty),
        Case::new("a mask of another runtime hides nothing", bare())
            .on(&slurm)
            .with(void),
        Case::new("given, and no driver", bare()).on(&slurm_cpu_node),
        Case::new("asked, and no driver", asking()),
        Case::new(
            "asked, and no driver, and required",
            Container {
                require_gpu: true,
                ..asking()
            },
        ),
        Case::new("the library is unknown", asking()).on(&no_library),
        Case::new(
            "the library is unknown, and required",
            Container {
                require_gpu: true,
                ..asking()
            },
        )
        .on(&no_library),
        Case::new("AMD", asking()).on(&amd),
        Case::new("both", asking()).on(&both),
        Case::new("both, NVIDIA wanted", mode(GpuMode::Nvidia)).on(&both),
        Case::new("both, AMD wanted", mode(GpuMode::Amd)).on(&both),
        Case::new("NVIDIA wanted, AMD there", mode(GpuMode::Nvidia)).on(&amd),
        Case::new("none wanted", mode(GpuMode::None)).on(&both),
        Case::new(
            "wanted, not asked, in Slurm",
            Container {
                gpu: GpuMode::Nvidia,
                ..bare()
            },
        )
        .on(&nvidia)
        .with(in_slurm),
    ]);
    insta::assert_snapshot!(told);
}

#[test]
fn the_root_user_of_a_container_is_tried_beforehand() {
    let wanting = || Container {
        fakeroot: true,
        ..bare()
    };
    let no_range = |mut node: NodeFacts| {
        node.sub_ids.subuid_count = 0;
        node.sub_ids.subgid_count = 0;
        node
    };
    let no_newuidmap = |mut node: NodeFacts| {
        node.sub_ids.newuidmap = false;
        node
    };
    let root = |mut node: NodeFacts| {
        node.uid = 0;
        node
    };
    let told = table(&[
        Case::new("not wanted", bare()),
        Case::new("with a range", wanting()),
        Case::new("without a range", wanting()).on(&no_range),
        Case::new("a range, and no newuidmap", wanting()).on(&no_newuidmap),
        Case::new("root", wanting()).on(&root),
    ]);
    insta::assert_snapshot!(told);
}

#[test]
fn an_image_file_is_unpacked_where_it_cannot_be_mounted() {
    let no_fuse = |mut node: NodeFacts| {
        node.fuse_device = false;
        node
    };
    let no_squashfuse = |mut node: NodeFacts| {
        node.squashfuse = false;
        node
    };
    let setuid = |node: NodeFacts| {
        let mut node = no_fuse(node);
        node.namespaces.setuid_starter = true;
        node
    };
    let no_namespaces = |mut node: NodeFacts| {
        node.namespaces.missing = Some("user.max_user_namespaces is 0".into());
        node
    };
    let told = table(&[
        Case::new("no squashfuse", bare()).on(&no_squashfuse),
        Case::new("no /dev/fuse", bare()).on(&no_fuse),
        Case::new("no /dev/fuse, a directory", bare())
            .on(&no_fuse)
            .in_sandbox(),
        Case::new("no /dev/fuse, a setuid starter", bare()).on(&setuid),
        Case::new("no namespaces", bare()).on(&no_namespaces),
    ]);
    insta::assert_snapshot!(told);
}

#[test]
fn variables_reach_the_process() {
    let of_job = || Container {
        variables: [
            "PATH",
            "LD_LIBRARY_PATH",
            "TOKEN",
            "HOME",
            "LINES",
            "NOT_SET",
        ]
        .map(str::to_owned)
        .to_vec(),
        ..bare()
    };
    let clean = || Container {
        cleanenv: true,
        ..of_job()
    };
    let contained = || Container {
        options: vec!["--containall".into()],
        ..bare()
    };
    let variables: Variables<'_> = &[
        ("PATH", "/opt/own/bin:/usr/bin"),
        ("LD_LIBRARY_PATH", "/opt/\"own\"/lib"),
        ("TOKEN", "a$HOME`id`\"b\"\\c'd'"),
        ("HOME", "/elsewhere"),
        ("LINES", "one\ntwo"),
        ("DLRUN_ENV_NAMES", "SECRET bad-name"),
        ("SECRET", "plain"),
        ("CUDA_VISIBLE_DEVICES", "0,1"),
        ("SLURM_JOB_ID", "7"),
        ("SLURM_JOB_NAME", "a $(id)"),
        ("PMIX_RANK", "3"),
        ("EMPTY_AND_NOT_OURS", ""),
        ("EDITOR", "vi"),
        ("BASH_FUNC_module%%", "() { :; }"),
        ("SLURM_BAD%%", "() { :; }"),
        ("PBS_EMPTY", ""),
    ];
    let plain: Variables<'_> = &[
        ("TOKEN", "plain"),
        ("SINGULARITYENV_TOKEN", "another"),
        ("APPTAINER_NV", "1"),
    ];
    let login: Variables<'_> = &[
        ("SINGULARITY_CLEANENV", "1"),
        ("APPTAINER_BIND", "/a"),
        ("PBS_JOBID", "9.host"),
    ];
    let told = table(&[
        Case::new("of the job", of_job()).with(variables),
        Case::new("the same with cleanenv", clean()).with(variables),
        Case::new("the same with an option that implies it", contained()).with(variables),
        Case::new("under the other name too", of_job()).with(plain),
        Case::new("settings of the login shell", bare()).with(login),
        Case::new(
            "CR LF",
            Container {
                variables: vec!["TOKEN".into()],
                ..bare()
            },
        )
        .with(&[("TOKEN", "a\r\nb")]),
        Case::new("CR LF with cleanenv", clean()).with(&[("TOKEN", "a\r\nb")]),
    ]);
    insta::assert_snapshot!(told);
}

#[test]
fn paths_are_bound_or_refused() {
    let binding = |binds: Vec<Bind>| Container { binds, ..bare() };
    let read_only = Bind {
        read_only: true,
        ..bind("/data", "/data")
    };
    let odd = ["/a:b", "/a,b", "/a\\b", "/a\"b", "/a^b", "/a "];
    let odd = |at: usize| {
        binding(vec![Bind {
            read_only: true,
            ..bind(odd[at], "/target")
        }])
    };
    let with_variable = || binding(vec![bind("$TMPDIR/x${NAME}$", "/scratch")]);
    let node_files: Variables<'_> = &[
        ("PBS_NODEFILE", "/var/spool/torque/aux/7.host"),
        ("PBS_GPUFILE", "/var/spool/missing"),
    ];
    let told = table(&[
        Case::new("all that any job gets", container()).showing_all(),
        Case::new(
            "plain, and read only",
            binding(vec![bind("/a b=c'd", "/b"), read_only]),
        ),
        Case::new("a colon", odd(0)),
        Case::new("a comma", odd(1)),
        Case::new("a backslash", odd(2)),
        Case::new("a double quote", odd(3)),
        Case::new("a circumflex", odd(4)),
        Case::new("a space at the end", odd(5)),
        Case::new("variables", with_variable()).with(&[("TMPDIR", "/scratch/7"), ("NAME", "y")]),
        Case::new("variables, one not set", with_variable())
            .with(&[("TMPDIR", "/scratch/7"), ("NAME", "")]),
        Case::new(
            "a variable that is not absolute",
            binding(vec![bind("$TMPDIR", "/t")]),
        )
        .with(&[("TMPDIR", "tmp")]),
        Case::new("missing", binding(vec![bind("/missing", "/m")])),
        Case::new(
            "over the working directory",
            Container {
                binds: vec![bind("/x", "/home/alice/train")],
                ..container()
            },
        ),
        Case::new(
            "above, and below the working directory",
            Container {
                binds: vec![bind("/x", "/home/alice/train/data"), bind("/y", "/home")],
                ..container()
            },
        ),
        Case::new(
            "a directory of the system",
            Container {
                workdir: "/usr".into(),
                ..container()
            },
        ),
        Case::new("no working directory", bare()),
        Case::new("node files of PBS", bare()).with(node_files),
        Case::new(
            "further options",
            Container {
                options: vec!["--contain".into()],
                ..bare()
            },
        ),
    ]);
    insta::assert_snapshot!(told);
}

#[test]
fn what_is_expected_is_told_before_the_node_is_known() {
    let container = Container {
        fakeroot: true,
        cleanenv: true,
        binds: vec![
            bind("/data", "/data"),
            bind("$TMPDIR", "/scratch"),
            bind("/a:b", "/c"),
        ],
        variables: vec!["TOKEN".into()],
        ..asking()
    };
    let mut text = String::new();
    for said in [RUNTIMES[8], RUNTIMES[1], "unknown"] {
        let _ = writeln!(text, "== {said}");
        match preview(&container, runtime(said), "apptainer") {
            Ok(invocation) => {
                assert!(invocation.sets.is_empty());
                let _ = writeln!(text, "{}", invocation.argv.join(" "));
                for reason in &invocation.reasons {
                    let _ = writeln!(text, "  {}: {}", reason.flag, reason.why);
                }
            }
            Err(refusal) => {
                let _ = writeln!(text, "refused: {refusal}\n  {}", refusal.remedy);
            }
        }
    }
    insta::assert_snapshot!(text);
}

#[test]
fn a_refusal_says_what_to_do() {
    let refused = |container: Container, variables: Variables<'_>| {
        chosen(&container, &node(runtime(RUNTIMES[0])), variables, false).expect_err("it cannot be")
    };
    let binding = |source: &str| Container {
        binds: vec![bind(source, "/x")],
        ..container()
    };
    let no_source = refused(binding("/missing"), &[]);
    assert!(
        no_source.why.contains("/missing does not exist"),
        "{no_source}"
    );
    for refusal in [
        no_source,
        refused(binding("$NONE"), &[]),
        refused(binding("/a:b"), &[]),
        refused(
            Container {
                require_gpu: true,
                ..asking()
            },
            &[],
        ),
    ] {
        assert!(refusal.remedy.len() > 20, "{refusal}");
    }
}
