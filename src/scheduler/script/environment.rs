//! What the command finds: working directory, modules, Python environment, variables.

use std::fmt::Write as _;

use super::quoted;
use crate::job::Conda;
use crate::launch::{Plan, PlannedStorage};
use crate::scheduler::adapter_for;

/// Working directory, modules, variables, Python environment.
pub(super) fn environment(script: &mut String, plan: &Plan) {
    let workdir = quoted(&plan.workdir);
    // `cd` sets OLDPWD, which the job would not have without us.
    let _ = write!(
        script,
        "\ndlrun_oldpwd=${{OLDPWD-}}\ncd -- {workdir} || refuse 66 'the working directory does not exist: '{workdir}\n\
         OLDPWD=$dlrun_oldpwd\n[ -n \"$OLDPWD\" ] || unset OLDPWD\n"
    );
    if !plan.modules.is_empty() {
        script.push_str(MODULES);
        for module in &plan.modules {
            let words = module_words(module);
            let (verb, words) = match words.split_first() {
                Some((&"load", names)) => ("load ", names),
                _ => ("", &words[..]),
            };
            let words: Vec<String> = words.iter().map(|word| quoted(word)).collect();
            let (words, module) = (words.join(" "), quoted(module));
            let _ = writeln!(
                script,
                "module {verb}{words} || refuse 66 'module {verb}failed: '{module}"
            );
        }
    }
    if let Some(dir) = &plan.python_env {
        let bin = quoted(&format!("{dir}/bin"));
        let python = quoted(&format!("{dir}/bin/python"));
        let _ = write!(
            script,
            "\n[ -x {python} ] || refuse 66 'the Python environment is missing on this node: '{python}\n\
             export VIRTUAL_ENV={}\nexport PATH={bin}:\"$PATH\"\nunset PYTHONHOME\n",
            quoted(dir)
        );
    }
    if let Some(conda) = &plan.conda {
        script.push_str(&activated(conda));
    }
    script.push_str(
        "\n# Output line by line, so that epochs are seen when they end.\nexport PYTHONUNBUFFERED=${PYTHONUNBUFFERED-1}\n",
    );
    if let Some(storage) = &plan.storage {
        script.push_str(&storage_variables(storage));
    }
    if let Some(build) = &plan.build {
        let _ = writeln!(script, "export DLRUN_BUILD_DIR={}", quoted(&build.dir));
        script.push_str(if plan.image.is_some() { BOUND } else { "" });
    }
    for variable in &plan.env {
        let _ = writeln!(
            script,
            "export {}={}",
            variable.name,
            quoted(&variable.value)
        );
    }
    // Where each node has its own environment, each reads it, and no file between them holds the values.
    let on_each_node =
        plan.launcher.runs_on_each_node() && adapter_for(plan.scheduler).keeps_environments_apart();
    if let Some(file) = plan.env_file.as_ref().filter(|_| !on_each_node) {
        script.push_str(&read_env_file(file, plan));
    }
}

/// The arguments of `module` for an entry of `run.modules`: a name is loaded, the rest are verbs already.
fn module_words(entry: &str) -> Vec<&str> {
    let words: Vec<&str> = entry.split(' ').collect();
    if words.len() > 1 || ["purge", "reset"].contains(&entry) {
        words
    } else {
        vec!["load", entry]
    }
}

/// As `conda init` and `conda activate` have it.
fn activated(conda: &Conda) -> String {
    let profile = conda.profile.as_deref().map(quoted);
    let brought = match &profile {
        Some(profile) => {
            format!("[ -r {profile} ] || refuse 66 'the profile of conda cannot be read: '{profile}\n. {profile}")
        }
        None => "command -v conda > /dev/null || refuse 66 'conda is not in PATH'\neval \"$(conda shell.bash hook)\"".to_owned(),
    };
    let name = quoted(&conda.name);
    format!("\n{brought}\nconda activate {name} || refuse 66 'conda activate failed: '{name}\n")
}

/// The storage's place with the variables of this node in it: each is named by itself, nothing is evaluated.
fn storage_variables(storage: &PlannedStorage) -> String {
    let mut parts = storage.path.split('$');
    let mut word = parts
        .next()
        .filter(|text| !text.is_empty())
        .map(quoted)
        .unwrap_or_default();
    let mut checks = String::new();
    for part in parts {
        let is_name = |c: char| c.is_ascii_alphanumeric() || c == '_';
        let (name, rest) = part.split_at(part.find(|c| !is_name(c)).unwrap_or(part.len()));
        let _ = writeln!(
            checks,
            "[ -n \"${{{name}:-}}\" ] || refuse 66 {}",
            quoted(&format!(
                "the storage {} is at {}, and ${name} is not set here",
                storage.name, storage.path
            ))
        );
        let _ = write!(word, "\"${name}\"");
        if !rest.is_empty() {
            word.push_str(&quoted(rest));
        }
    }
    let class = quoted(storage.class.as_str());
    format!("\n{checks}export DLRUN_STORAGE={word}\nexport DLRUN_STORAGE_CLASS={class}\n")
}

/// Reads the file of secret variables, each time on the node that needs them. A container gets their names, so that it
/// passes them on, and who starts ranks, so that none is replaced.
pub(in crate::scheduler) fn read_env_file(file: &str, plan: &Plan) -> String {
    let names = if plan.image.is_some() || plan.launcher.is_distributed() {
        "export DLRUN_ENV_NAMES=$dlrun_names\n"
    } else {
        ""
    };
    format!("\ndlrun_env_file={}\n{ENV_FILE}{names}", quoted(file))
}

/// The build's directory is seen in the container too. Both names of the runtime's variable (`apptainer(1)`, "--bind").
const BOUND: &str = r#"export APPTAINER_BINDPATH=${APPTAINER_BINDPATH:+$APPTAINER_BINDPATH,}$DLRUN_BUILD_DIR
export SINGULARITY_BINDPATH=$APPTAINER_BINDPATH
"#;

const MODULES: &str = r#"
if ! command -v module > /dev/null; then
    for dlrun_init in /etc/profile.d/lmod.sh /etc/profile.d/modules.sh /usr/share/lmod/lmod/init/bash \
        /usr/share/modules/init/bash; do
        [ -r "$dlrun_init" ] && . "$dlrun_init" && break
    done
fi
"#;

/// Reads `NAME=value` lines literally: no shell interprets the values.
const ENV_FILE: &str = r#"dlrun_names=
[ -r "$dlrun_env_file" ] || refuse 66 "the env_file cannot be read on this node"
case $(PATH=$dlrun_path stat -L -c %a "$dlrun_env_file") in
*00) ;;
*) refuse 77 "the env_file can be read by others; chmod 600 it" ;;
esac
while IFS= read -r dlrun_line || [ -n "$dlrun_line" ]; do
    case $dlrun_line in '' | '#'*) continue ;; esac
    case $dlrun_line in *=*) ;; *) refuse 78 "the env_file has a line that is not NAME=value" ;; esac
    case ${dlrun_line%%=*} in
    '' | [0-9]* | *[!A-Za-z0-9_]*) refuse 78 "the env_file has a line that is not NAME=value" ;;
    DLRUN_* | dlrun_* | BASH* | ENV | IFS | PATH | UID | EUID | PPID) refuse 78 "the env_file sets ${dlrun_line%%=*}, which is reserved" ;;
    esac
    export "${dlrun_line%%=*}=${dlrun_line#*=}"
    dlrun_names+="${dlrun_line%%=*} "
done < "$dlrun_env_file"
"#;

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;
    use crate::foundation::command::Tool;
    use crate::job::StorageClass;

    fn expanded(path: &str, variable: &str) -> String {
        let storage = PlannedStorage {
            name: "s".into(),
            path: path.to_owned(),
            class: StorageClass::Ssd,
        };
        let refuse = "refuse() { printf 'refused: %s' \"$2\"; exit 0; }\n";
        let script = format!(
            "{refuse}X={}\n{}printf '%s|%s' \"$DLRUN_STORAGE\" \"$DLRUN_STORAGE_CLASS\"",
            quoted(variable),
            storage_variables(&storage)
        );
        Tool::new("bash")
            .args(["-c", &script])
            .run()
            .expect("bash runs")
            .stdout
    }

    #[test]
    fn a_variable_that_is_not_set_is_refused_by_its_name() {
        assert_eq!(expanded("$X/$X", "a b"), "a b/a b|ssd");
        let refused = expanded("/it's/$X-$NOT_SET", "a");
        assert_eq!(
            refused,
            "refused: the storage s is at /it's/$X-$NOT_SET, and $NOT_SET is not set here"
        );
        assert!(expanded("/$X", "").starts_with("refused: "));
    }

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(48))]

        #[test]
        fn nothing_but_the_variables_is_interpreted(
            before in "[^\\x00$]{0,20}",
            after in "[^\\x00$A-Za-z0-9_][^\\x00$]{0,20}",
            value in "[^\\x00]{1,20}",
        ) {
            let found = expanded(&format!("/{before}$X{after}"), &value);
            prop_assert_eq!(found, format!("/{before}{value}{after}|ssd"));
        }
    }
}
