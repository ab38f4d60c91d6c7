//! What kind of argument a name says it is.

use crate::job::number;

/// What an argument is about, by its name.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum About {
    /// What differs between repeats of the same run: a seed, a port, an id or name of the run.
    Repeat,
    /// Where the program writes.
    Output,
    /// What nobody else may read.
    Secret,
    /// All else.
    Work,
}

/// What an argument is about. `value` decides where a name has two uses.
pub(super) fn about(name: &str, value: Option<&str>) -> About {
    let is_variable = name.starts_with('$');
    let name = name
        .trim_start_matches('$')
        .to_ascii_lowercase()
        .replace('-', "_");
    let Some(value) = value else {
        return About::Work;
    };
    let is_number = number(value).is_some();
    let last = name.rsplit(['.', '/']).next().unwrap_or(&name);
    let parts: Vec<&str> = last.split('_').collect();
    let has = |part: &str| parts.contains(&part);
    let ends_in = |endings: &[&str]| endings.iter().any(|ending| parts.last() == Some(ending));
    let is_secret = ["password", "passwd", "passphrase", "secret", "credential", "credentials"]
        .iter()
        .any(|word| last.contains(word))
        || ["api_key", "apikey", "access_key", "private_key", "auth_key", "account_key"]
            .iter()
            .any(|word| last.contains(word))
        // How many tokens there are is no secret.
        || (ends_in(&["token", "cookie"]) && !is_number)
        || (is_variable && ends_in(&["key"]) && !is_number);
    if is_secret {
        return About::Secret;
    }
    let is_seed = (has("seed") || ["seed_everything", "rng"].contains(&last)) && is_number;
    let is_port = has("port") && is_number;
    let is_address = is_one_of(
        "rdzv_endpoint rdzv_id init_method dist_url master_addr",
        last,
    );
    let of_run = ["run", "runid", "exp", "experiment", "job", "trial", "wandb"]
        .iter()
        .any(|word| has(word));
    let is_run_name = of_run && ends_in(&["id", "name", "tag", "uuid", "runid", "group"]);
    let is_run_name = is_run_name || ["jobid", "runid", "runname", "expname"].contains(&last);
    if is_seed || is_port || is_address || is_run_name {
        return About::Repeat;
    }
    let is_output = is_one_of(
        "out output outdir outfile output_dir logdir logfile savedir",
        last,
    ) || ends_in(&["out", "output", "outputs"])
        || (writes(last) && ends_in(&["dir", "directory", "path", "file", "folder", "root"]))
        || name.ends_with("hydra.run.dir")
        || name.ends_with("hydra.sweep.dir");
    if is_output && !is_number {
        About::Output
    } else {
        About::Work
    }
}

/// Whether an argument names where something is written, if it is a path; it may as well be a flag.
pub(super) fn writes(name: &str) -> bool {
    const WRITES: &str =
        "out output outputs log logs logging save result results dump tensorboard tb";
    // A checkpoint may be what the run begins with.
    has_part(name, WRITES) && !is_checkpoint(name)
}

/// Whether an argument names a checkpoint, which is written, and read if it exists.
pub(super) fn is_checkpoint(name: &str) -> bool {
    has_part(name, "ckpt checkpoint checkpoints")
}

fn has_part(name: &str, words: &str) -> bool {
    name.to_ascii_lowercase()
        .split(['.', '_', '-', '$'])
        .any(|part| is_one_of(words, part))
}

/// Whether a word is among some with blanks between.
pub(super) fn is_one_of(words: &str, word: &str) -> bool {
    words.split(' ').any(|known| known == word)
}

/// Says whether a text can only be a path: it holds a slash, or ends as files of data do.
pub(super) fn is_path(text: &str) -> bool {
    const ENDINGS: &str = "pt pth ckpt h5 hdf5 keras npz npy csv tsv json jsonl txt log pkl safetensors onnx parquet tfrecord yaml yml \
        toml out zip gz tar";
    text.contains('/')
        || text
            .rsplit_once('.')
            .is_some_and(|(_, ending)| is_one_of(ENDINGS, ending))
}

/// Says whether a text names one moment or one run, so that it differs with each: a UUID, a date with a time, Unix seconds.
pub(super) fn is_of_one_run(text: &str) -> bool {
    let shape: String = text
        .chars()
        .map(|c| {
            if c.is_ascii_digit() {
                '9'
            } else if c.is_ascii_hexdigit() {
                'f'
            } else {
                c
            }
        })
        .collect();
    let is_uuid = |part: &str| {
        let lengths: Vec<usize> = part.split('-').map(str::len).collect();
        lengths == [8, 4, 4, 4, 12] && part.chars().all(|c| c == '9' || c == 'f' || c == '-')
    };
    let moments = [
        "9999-99-99_99-99",
        "9999-99-99T99:99",
        "99999999_999999",
        "99999999-999999",
        "99999999T999999",
        "9999-99-99-99-99",
    ];
    is_uuid(&shape) || moments.iter().any(|moment| shape.contains(moment))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_tell_what_an_argument_is_about() {
        let all = |names: &[&str], value: &str, about: About| {
            for name in names {
                assert_eq!(super::about(name, Some(value)), about, "{name} {value}");
            }
        };
        all(
            &[
                "seed",
                "random-seed",
                "train.seed",
                "$SEED",
                "master_port",
                "run-id",
                "wandb_run_id",
            ],
            "7",
            About::Repeat,
        );
        all(
            &["exp_name", "experiment-name", "rdzv_endpoint", "$RUN_NAME"],
            "a1",
            About::Repeat,
        );
        all(
            &[
                "output_dir",
                "out",
                "log-dir",
                "save_path",
                "hydra.run.dir",
                "$RESULTS_DIR",
            ],
            "x",
            About::Output,
        );
        all(
            &[
                "hf_token",
                "$WANDB_API_KEY",
                "password",
                "client-secret",
                "aws_secret_access_key",
            ],
            "x",
            About::Secret,
        );
        all(
            &[
                "token",
                "max_tokens",
                "epochs",
                "report",
                "name",
                "experiment",
                "save",
                "model",
            ],
            "4",
            About::Work,
        );
        all(
            &["seed", "port", "tokenizer", "data_dir", "dataset", "logits"],
            "word",
            About::Work,
        );
        assert_eq!(super::about("seed", None), About::Work);
    }

    #[test]
    fn texts_of_one_run_are_known_by_their_shape() {
        for text in [
            "run_20261122_101112",
            "2026-11-22T10:11:12",
            "x-2026-11-22_10-11-12",
            "123e4567-e89b-12d3-a456-426614174000",
        ] {
            assert!(is_of_one_run(text), "{text}");
        }
        for text in [
            "resnet50.a1_in1k",
            "2026",
            "v1.0-2024",
            "deadbeef",
            "cifar-100",
        ] {
            assert!(!is_of_one_run(text), "{text}");
        }
    }
}
