//! How the graph compiler reaches the program.

use crate::job::{EnvVar, Framework};

/// The compiler's name, for the program to obey.
const COMPILER: &str = "DLRUN_COMPILER";

/// What TensorFlow compiles by itself; XLA there is the only compiler that a variable switches on from outside of the program.
const TF_XLA_FLAGS: &str = "TF_XLA_FLAGS";

/// Adds the variables that name the compiler to the program, where it is known. A variable that is set already stays.
///
/// `--tf_xla_auto_jit=2` clusters all that XLA can compile on GPUs, `--tf_xla_cpu_global_jit` lets it do so on CPUs too
/// (TensorFlow's guide to XLA, "Auto-clustering").
pub(super) fn add_variables(env: &mut Vec<EnvVar>, framework: &Framework, on_gpus: bool) {
    let Some(compiler) = &framework.compiler else {
        return;
    };
    let mut add = |name: &str, value: &str| {
        if !env.iter().any(|variable| variable.name == name) {
            env.push(EnvVar {
                name: name.to_owned(),
                value: value.to_owned(),
            });
        }
    };
    add(COMPILER, compiler);
    if framework.name.as_deref() == Some("tensorflow") && compiler == "xla" {
        let on_cpus = if on_gpus {
            ""
        } else {
            " --tf_xla_cpu_global_jit"
        };
        add(TF_XLA_FLAGS, &format!("--tf_xla_auto_jit=2{on_cpus}"));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn added(
        name: &str,
        compiler: Option<&str>,
        on_gpus: bool,
        before: &[(&str, &str)],
    ) -> Vec<String> {
        let variable = |(name, value): &(&str, &str)| EnvVar {
            name: (*name).into(),
            value: (*value).into(),
        };
        let mut env: Vec<EnvVar> = before.iter().map(variable).collect();
        let compiler = compiler.map(str::to_owned);
        let framework = Framework {
            name: Some(name.into()),
            compiler,
            ..Framework::default()
        };
        add_variables(&mut env, &framework, on_gpus);
        env.iter()
            .map(|variable| format!("{}={}", variable.name, variable.value))
            .collect()
    }

    #[test]
    fn the_program_is_told_its_compiler() {
        assert_eq!(added("pytorch", None, false, &[]), Vec::<String>::new());
        assert_eq!(
            added("pytorch", Some("inductor"), false, &[]),
            ["DLRUN_COMPILER=inductor"]
        );
        assert_eq!(
            added("tensorflow", Some("none"), true, &[]),
            ["DLRUN_COMPILER=none"]
        );
        let flags = "TF_XLA_FLAGS=--tf_xla_auto_jit=2";
        assert_eq!(
            added("tensorflow", Some("xla"), true, &[]),
            ["DLRUN_COMPILER=xla", flags]
        );
        assert_eq!(
            added("tensorflow", Some("xla"), false, &[]),
            [
                "DLRUN_COMPILER=xla",
                &format!("{flags} --tf_xla_cpu_global_jit")
            ]
        );
        assert_eq!(
            added("tensorflow", Some("xla"), true, &[("TF_XLA_FLAGS", "mine")]),
            ["TF_XLA_FLAGS=mine", "DLRUN_COMPILER=xla"]
        );
    }
}
