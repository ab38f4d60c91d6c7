//! What a job is a run of, by its command.

use std::collections::BTreeMap;

use proptest::prelude::*;

use super::*;
use crate::plan::resolve::tests::facts;

/// Files of the working directory, as they are found.
fn named() -> BTreeMap<String, Named> {
    let file = |name: &str, executable: bool| {
        let path = format!("/home/u/{name}").into();
        (
            name.to_owned(),
            Named::File {
                path,
                bytes: 100,
                digest: Some(fingerprint(name.as_bytes())),
                executable,
            },
        )
    };
    let mut named: BTreeMap<String, Named> = [
        file("train.py", false),
        file("other.py", false),
        file("cfg.yaml", false),
        file("data.csv", false),
        file("run.sh", false),
        file("./sim", true),
    ]
    .into();
    named.insert("data".into(), Named::Directory("/home/u/data".into(), 3));
    named
}

fn of(job: &str) -> Identity {
    let spec = crate::job::parse(job).expect("a valid job file");
    identity_of(
        &spec,
        &SiteFacts {
            named: named(),
            ..facts()
        },
    )
}

fn of_command(line: &str) -> Identity {
    let words: Vec<String> = line.split(' ').map(|word| format!("{word:?}")).collect();
    of(&format!("[run]\ncommand = [{}]\n", words.join(", ")))
}

fn script(line: &str) -> (String, Option<String>) {
    let identity = of_command(line);
    (identity.program, identity.script)
}

#[test]
fn the_script_is_found_behind_interpreters_and_launchers() {
    let train = ("python".to_owned(), Some("/home/u/train.py".to_owned()));
    for line in [
        "python train.py",
        "python3.11 -u train.py --epochs 5",
        "/usr/bin/python3 -W ignore train.py",
        "srun -n 4 python train.py",
        "torchrun --nproc_per_node 4 train.py --epochs 3",
        "torchrun --standalone train.py",
        "accelerate launch --config_file cfg.yaml train.py",
        "python -m torch.distributed.run --nproc_per_node=2 train.py",
        "env OMP_NUM_THREADS=2 nice -n 5 python train.py",
        "uv run train.py",
    ] {
        assert_eq!(script(line), train, "{line}");
    }
    let module = |line: &str| script(line).1;
    assert_eq!(
        module("python -m pkg.train --epochs 3").as_deref(),
        Some("-m pkg.train")
    );
    assert_eq!(
        module("accelerate launch -m pkg.train").as_deref(),
        Some("-m pkg.train")
    );
    assert_eq!(
        script("./sim --steps 5"),
        ("sim".into(), Some("/home/u/./sim".into()))
    );
    assert_eq!(
        script("bash run.sh"),
        ("bash".into(), Some("/home/u/run.sh".into()))
    );
    assert_eq!(
        script("lmp -in data.csv"),
        ("lmp".into(), None),
        "data are no script"
    );
    assert_eq!(script("python -c pass"), ("python".into(), None));
    let of_script = of("[run]\nscript = \"run.sh\"\n");
    assert_eq!(
        (of_script.program.as_str(), of_script.script.as_deref()),
        ("run.sh", Some("run.sh"))
    );
    assert_eq!(of_script.script_digest, Some(fingerprint(b"run.sh")));
}

#[test]
fn numbers_stand_apart_from_words() {
    let identity = of_command("python train.py --epochs 5 --lr=3e-4 opt.decay=0.1 -b 32 7 --fast");
    let numbers: Vec<(&str, f64)> = identity
        .numbers
        .iter()
        .map(|(name, number)| (name.as_str(), *number))
        .collect();
    assert_eq!(
        numbers,
        [
            ("#5", 7.0),
            ("b", 32.0),
            ("epochs", 5.0),
            ("lr", 3e-4),
            ("opt.decay", 0.1)
        ]
    );
    assert_eq!(
        identity.words,
        ["epochs=#", "lr=#", "opt.decay=#", "b=#", "#", "-fast"]
    );
    let other = of_command("python train.py --epochs 50 --lr=1 opt.decay=2 -b 1 9 --fast");
    assert_eq!(identity.key, other.key);
    assert!(identity.key.starts_with("train.py-"), "{}", identity.key);
}

#[test]
fn variables_of_the_job_file_are_arguments() {
    let with = |env: &str| {
        of(&format!(
            "[run]\ncommand = [\"python\", \"train.py\"]\nenv = {{ {env} }}\n"
        ))
    };
    let identity = with("EPOCHS = \"5\", MODE = \"fast\", SEED = \"3\", HF_TOKEN = \"hunter2\"");
    assert_eq!(identity.numbers.get("$EPOCHS"), Some(&5.0));
    assert_eq!(
        identity.key,
        with("EPOCHS = \"9\", MODE = \"fast\", SEED = \"4\", HF_TOKEN = \"x\"").key
    );
    assert_ne!(identity.key, with("EPOCHS = \"5\", MODE = \"slow\"").key);
}

#[test]
fn secrets_are_not_kept() {
    let identities = [
        of_command(
            "python train.py --token hunter2 --api-key=hunter2 https://u:hunter2@host/x https://host/y?sig=hunter2",
        ),
        of(
            "[run]\ncommand = [\"sh\", \"-c\", \"export PASSWORD=hunter2; train /x\"]\nenv = { DB_PASSWORD = \"hunter2\", WANDB_KEY = \"hunter2\" }\n",
        ),
    ];
    for identity in identities {
        let json = serde_json::to_string(&identity).expect("JSON");
        assert!(!json.contains("hunter2"), "{json}");
    }
}

#[test]
fn paths_are_inputs_unless_they_are_written() {
    let identity = of_command(
        "python train.py --data data --config cfg.yaml --out-dir runs/7 --save model.pt x/y",
    );
    let inputs: Vec<&str> = identity
        .inputs
        .iter()
        .map(|input| input.path.as_str())
        .collect();
    assert_eq!(inputs, ["/home/u/data", "/home/u/cfg.yaml", "x/y"]);
    assert!(
        identity.inputs[1].digest.is_some()
            && identity.inputs[0].digest.as_deref() == Some("3 entries")
    );
    assert_eq!(identity.words, ["data=@", "config=@", "save=@", "@"]);
    let hub = |name: &str| of_command(&format!("python train.py --model {name}"));
    assert_ne!(
        hub("org/llama-7b").inputs,
        hub("org/llama-70b").inputs,
        "what is not here may be elsewhere"
    );
}

#[test]
fn declared_names_win() {
    let with = |command: &str, rest: &str| {
        of(&format!(
            "[run]\ncommand = [{command}]\n[framework]\nname = \"pytorch\"\n[workload]\n{rest}"
        ))
    };
    let names = "model = \"ResNet50\"\ndataset = \"cifar\"\nepochs = 5\n";
    let one = with("\"python\", \"train.py\", \"a\"", names);
    let other = with(
        "\"python\", \"other.py\", \"b\"",
        &names.replace("epochs = 5", "epochs = 9"),
    );
    assert_eq!(one.key, other.key);
    assert_eq!(one.numbers.get("workload.epochs"), Some(&5.0));
    assert!(
        one.key.starts_with("resnet50-") && one.declared.is_some(),
        "{}",
        one.key
    );
    assert_ne!(
        one.key,
        with(
            "\"python\", \"train.py\"",
            "model = \"resnet50\"\ndataset = \"imagenet\"\n"
        )
        .key
    );
    let unnamed = with("\"python\", \"train.py\", \"a\"", "dataset = \"cifar\"\n");
    assert_ne!(
        unnamed.key,
        with(
            "\"python\", \"train.py\", \"a\"",
            "dataset = \"imagenet\"\n"
        )
        .key
    );
}

proptest! {
    #[test]
    fn what_differs_between_repeats_does_not_change_the_key(
        seed in 0_u32..9999, port in 1024_u16..9999, run in "[a-z]{1,8}[0-9]{1,4}", path in "[a-z]{1,6}/[a-z]{1,6}", epochs in 1_u32..500,
    ) {
        let line = |seed: u32, port: u16, run: &str, path: &str, epochs: u32| of_command(&format!(
            "torchrun --master_port {port} train.py --seed {seed} --run-name {run} --resume-from {path} --output-dir {path} --epochs {epochs} fixed"
        ));
        prop_assert_eq!(line(seed, port, &run, &path, epochs).key, line(1, 2000, "a1", "b/c", 7).key);
    }

    #[test]
    fn any_other_word_changes_the_key(word in "[a-zA-Z][a-zA-Z0-9]{0,11}", at in 0_usize..3) {
        prop_assume!(word != "fixed");
        let mut words = ["--mode", "fixed", "--fast", "fixed"];
        let before = of_command(&format!("python train.py {}", words.join(" ")));
        words[if at == 2 { 3 } else { 1 }] = &word;
        let after = of_command(&format!("python train.py {}", words.join(" ")));
        prop_assert_ne!(&before.key, &after.key);
        let added = of_command(&format!("python train.py {} {word}", words.join(" ")));
        prop_assert_ne!(added.key, after.key);
    }

    #[test]
    fn no_command_panics(words in prop::collection::vec("\\PC{0,12}", 1..8)) {
        let argv = serde_json::to_string(&words).expect("JSON");
        if let Ok(spec) = crate::job::parse(&format!("[run]\ncommand = {argv}\n")) {
            let _ = texts_of(&spec);
            let made = identity_of(&spec, &facts());
            prop_assert!(made.key.len() <= 60);
        }
    }
}
