//! Definitions of images: each built-in recipe's, as it is written, and what never gets into one.

use std::fmt::Write as _;
use std::path::PathBuf;

use dlrun::config::{RecipeTable, VersionRange};
use dlrun::image::catalogue::Accelerator;
use dlrun::image::recipe::{Recipe, Target, built_in, definition};
use dlrun::job::Provenance;
use proptest::prelude::*;

/// A target that takes the recipe and no other.
fn target(recipe: &Recipe, accelerator: Accelerator) -> Target {
    Target {
        recipe: Some(recipe.name.clone()),
        accelerator,
        ..Target::new(&recipe.framework, "x86_64")
    }
}

/// A site without the outside world.
fn site() -> RecipeTable {
    RecipeTable {
        base: [(
            "python-3.11".to_owned(),
            "/images/python-3.11.sif".to_owned(),
        )]
        .into(),
        pip_index: Some("https://mirror.example/simple".into()),
        pip_extra_index: Some("https://mirror.example/torch-cpu".into()),
        pip_trusted: Some(vec!["mirror.example".into()]),
        certificates: Some("/etc/ssl/site.pem".into()),
        apt_mirror: [(
            "debian".to_owned(),
            "https://mirror.example/debian".to_owned(),
        )]
        .into(),
        git_mirror: Some("https://git.example/mirrors".into()),
        environment: [(
            "https_proxy".to_owned(),
            "http://proxy.example:3128".to_owned(),
        )]
        .into(),
    }
}

/// What is between the set-up, which all have in common, and the rest is what differs.
fn without_setup(text: &str) -> String {
    match (
        text.find("    set -eu\n"),
        text.find("/opt/dlrun-build /root/.cache\n    }\n"),
    ) {
        (Some(start), Some(end)) => {
            let end = end + "/opt/dlrun-build /root/.cache\n    }\n".len();
            format!("{}    [set-up]\n{}", &text[..start], &text[end..])
        }
        _ => text.to_owned(),
    }
}

#[test]
fn every_recipe_as_it_is_written() {
    for recipe in built_in() {
        let mut shown = String::new();
        for accelerator in recipe.accelerators.clone() {
            for compiler in recipe.compilers.clone() {
                let microarch =
                    (recipe.provenance == Provenance::Source).then(|| "x86-64-v3".to_owned());
                let target = Target {
                    compiler: Some(compiler),
                    microarch,
                    ..target(&recipe, accelerator)
                };
                let made = definition(&target, &RecipeTable::default(), &[])
                    .unwrap_or_else(|why| panic!("{}: {why:?}", recipe.name));
                let _ = writeln!(
                    shown,
                    "=== {}\n{}",
                    made.entry.name,
                    without_setup(&made.text)
                );
                for note in made.notes {
                    let _ = writeln!(shown, "note: {note}");
                }
            }
        }
        insta::assert_snapshot!(recipe.name.clone(), shown);
    }
}

#[test]
fn a_site_without_the_outside_world_is_asked_nothing_else() {
    let recipe = built_in()
        .into_iter()
        .find(|recipe| recipe.name == "tensorflow-pip")
        .expect("it is built in");
    let made = definition(&target(&recipe, Accelerator::None), &site(), &[]).expect("it serves");
    insta::assert_snapshot!("site", made.text);
    assert_eq!(
        made.files,
        ["/images/python-3.11.sif", "/etc/ssl/site.pem"].map(PathBuf::from)
    );
}

#[test]
fn every_version_of_every_recipe_can_be_asked_for() {
    for recipe in built_in() {
        for pin in &recipe.pins {
            let accelerator = pin.accelerator.unwrap_or(recipe.accelerators[0]);
            let target = Target {
                version: Some(VersionRange::parse(&pin.version).expect("a version")),
                cuda: pin
                    .values
                    .get("cuda")
                    .map(|cuda| VersionRange::parse(cuda).expect("a version")),
                ..target(&recipe, accelerator)
            };
            let made = definition(&target, &site(), &[])
                .unwrap_or_else(|why| panic!("{} {why:?}", recipe.name));
            assert_eq!(made.entry.version, pin.version, "{}", recipe.name);
            assert!(
                !made.text.contains("{{") && !made.text.contains("}}"),
                "{}",
                made.text
            );
        }
    }
}

#[test]
fn the_answer_names_versions_compilers_and_the_next_step() {
    let why = |change: fn(&mut Target)| {
        let mut target = Target::new("tensorflow", "x86_64");
        change(&mut target);
        let problems =
            definition(&target, &RecipeTable::default(), &[]).expect_err("it is refused");
        let shown = problems
            .iter()
            .map(|of| format!("{} [{}]\n", of.message, of.hint.clone().unwrap_or_default()));
        shown.collect::<String>()
    };
    let shown = why(|target| target.framework = "tensorflw".into());
    assert!(shown.contains("did you mean `tensorflow`?"), "{shown}");
    let shown = why(|target| target.framework = "cntk".into());
    assert!(shown.contains("recipes.d"), "{shown}");
    let shown = why(|target| target.version = VersionRange::parse("2.10").ok());
    assert!(
        shown.contains("tensorflow-pip (built in): knows the versions 2.21.0"),
        "{shown}"
    );
    let shown = why(|target| target.compiler = Some("inductor".into()));
    assert!(
        shown.contains("has only the compilers none, xla"),
        "{shown}"
    );
    let shown = why(|target| target.arch = "ppc64le".into());
    assert!(shown.contains("is for x86_64, aarch64"), "{shown}");
    let shown = why(|target| target.recipe = Some("pytorch-pipp".into()));
    assert!(shown.contains("did you mean `pytorch-pip`?"), "{shown}");
    let shown = why(|target| {
        (target.provenance, target.microarch) = (Some(Provenance::Source), Some("hasswell".into()));
    });
    assert!(shown.contains("there is no kind \"hasswell\""), "{shown}");
}

#[test]
fn a_driver_chooses_among_the_versions() {
    let target = Target {
        accelerator: Accelerator::Nvidia,
        cuda: VersionRange::parse("<=12.4").ok(),
        ..Target::new("pytorch", "x86_64")
    };
    let made = definition(&target, &RecipeTable::default(), &[]).expect("it serves");
    assert_eq!(
        (made.entry.version.as_str(), made.entry.cuda.as_deref()),
        ("2.6.0", Some("12.4"))
    );
}

#[test]
fn a_recipe_of_the_site_wins_and_stands_in_the_hash() {
    let own = built_in()
        .into_iter()
        .find(|recipe| recipe.name == "jax-pip")
        .expect("it is built in");
    let site = RecipeTable::default();
    let before = definition(&Target::new("jax", "x86_64"), &site, &[]).expect("it serves");
    let body = own.body.replace("optax", "flax");
    let recipes = [Recipe {
        body,
        path: Some("/etc/dlrun/recipes.d/jax-pip.def".into()),
        ..own
    }];
    let after = definition(&Target::new("jax", "x86_64"), &site, &recipes).expect("it serves");
    assert!(
        after.text.contains("flax") && after.entry.recipe != before.entry.recipe,
        "{}",
        after.text
    );
}

/// Texts that would be commands or sections if they got into a definition.
const HOSTILE: [&str; 8] = [
    "x\n%post\n    touch /tmp/owned",
    "$(touch /tmp/owned)",
    "`touch /tmp/owned`",
    "a'; touch /tmp/owned; '",
    "../../x",
    "{{setup}}",
    "a b",
    "-o/etc/passwd",
];

#[test]
fn nothing_that_was_written_is_read_as_syntax() {
    let plain = Target::new("tensorflow", "x86_64");
    for text in HOSTILE {
        let own = |text: &str| text.to_owned();
        let targets = [
            Target {
                framework: own(text),
                ..plain.clone()
            },
            Target {
                compiler: Some(own(text)),
                ..plain.clone()
            },
            Target {
                arch: own(text),
                ..plain.clone()
            },
            Target {
                microarch: Some(own(text)),
                ..plain.clone()
            },
            Target {
                recipe: Some(own(text)),
                ..plain.clone()
            },
        ];
        for target in targets {
            let refused = definition(&target, &RecipeTable::default(), &[]);
            assert!(refused.is_err(), "{target:?}");
        }
        let web = format!("https://mirror.example/{text}");
        let named = |name: &str, value: &str| [(name.to_owned(), value.to_owned())].into();
        let sites = [
            RecipeTable {
                pip_index: Some(web.clone()),
                ..RecipeTable::default()
            },
            RecipeTable {
                pip_extra_index: Some(web.clone()),
                ..RecipeTable::default()
            },
            RecipeTable {
                git_mirror: Some(web.clone()),
                ..RecipeTable::default()
            },
            RecipeTable {
                apt_mirror: named("debian", &web),
                ..RecipeTable::default()
            },
            RecipeTable {
                apt_mirror: named(text, "https://mirror.example"),
                ..RecipeTable::default()
            },
            RecipeTable {
                certificates: Some(format!("/etc/{text}").into()),
                ..RecipeTable::default()
            },
            RecipeTable {
                pip_trusted: Some(vec![text.into()]),
                ..RecipeTable::default()
            },
            RecipeTable {
                base: named("python-3.11", &web.replace("https", "docker")),
                ..RecipeTable::default()
            },
            RecipeTable {
                environment: named(text, "1"),
                ..RecipeTable::default()
            },
        ];
        for site in sites {
            let refused = definition(&plain, &site, &[]);
            assert!(
                refused.is_err() || ["../../x", "-o/etc/passwd"].contains(&text),
                "{site:?}"
            );
        }
    }
}

#[test]
fn passwords_are_refused_since_they_would_stay_in_the_image() {
    let plain = Target::new("tensorflow", "x86_64");
    let secret = Some("https://user:secret@mirror.example/simple".to_owned());
    for site in [
        RecipeTable {
            pip_index: secret.clone(),
            ..RecipeTable::default()
        },
        RecipeTable {
            git_mirror: secret.clone(),
            ..RecipeTable::default()
        },
        RecipeTable {
            environment: [("https_proxy".to_owned(), secret.clone().expect("text"))].into(),
            ..RecipeTable::default()
        },
    ] {
        let problems = definition(&plain, &site, &[]).expect_err("it is refused");
        let shown = format!("{problems:?}");
        assert!(
            shown.contains("would stay in the image") && !shown.contains("secret"),
            "{shown}"
        );
    }
}

proptest! {
    #[test]
    fn a_variable_of_the_build_is_one_line_between_quotes(value in "[ -~]{0,60}") {
        let environment = [("X".to_owned(), value.clone())].into();
        let site = RecipeTable { environment, ..RecipeTable::default() };
        if let Ok(made) = definition(&Target::new("jax", "x86_64"), &site, &[]) {
            let line = format!("    export X='{}'", value.replace('\'', "'\\''"));
            prop_assert!(made.text.lines().any(|known| known == line.trim_end()), "{}", made.text);
        }
    }

    #[test]
    fn no_recipe_panics(text in "(# dlrun: [a-z]+ = [ -~]{0,30}\n){0,6}[ -~\n]{0,80}") {
        let _ = Recipe::parse("own", None, &text);
    }
}
