//! Graph compilers: which a framework has, and which one a job gets by rule.

use crate::image::choice::wanted::Device;

/// The compilers that come with a framework, wherever it is installed from: XLA with TensorFlow
/// (`tf.function(jit_compile=True)`) and JAX (`jax.jit`), Inductor with PyTorch 2 (`torch.compile`). What an image says of
/// itself goes beyond that: nGraph and Glow are in images that were built with them.
#[must_use]
pub fn compilers_of(framework: &str) -> &'static [&'static str] {
    match framework {
        "tensorflow" | "jax" => &["xla"],
        "pytorch" => &["inductor"],
        _ => &[],
    }
}

/// The compiler that a job gets where no measurement decides, and why; `none` is one of them. `there` are those that it may
/// have.
///
/// XLA made TensorFlow 2.1 quicker on a GPU (9 %) and slower on CPUs (30 %), nGraph made it quicker on CPUs (arXiv 2008.11675,
/// figure 5). JAX without `jit` sends each operation to the device by itself.
#[must_use]
pub fn compiler_by_rule<'a>(
    framework: &str,
    device: &Device,
    there: &[&'a str],
) -> (&'a str, &'static str) {
    let has = |name: &str| there.iter().copied().find(|compiler| *compiler == name);
    if let Some(xla) = has("xla").filter(|_| framework == "jax") {
        return (xla, "JAX is made to be compiled");
    }
    match (*device == Device::Cpu, has("ngraph"), has("xla")) {
        (true, Some(ngraph), _) => (ngraph, "it made TensorFlow quicker on CPUs"),
        (true, None, Some(_)) => ("none", "XLA made TensorFlow slower on CPUs"),
        (false, _, Some(xla)) => (xla, "it made TensorFlow quicker on GPUs"),
        _ if there.is_empty() => ("none", "no graph compiler is known to be there"),
        _ => ("none", "of the others nothing was published"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::image::catalogue::Accelerator;

    #[test]
    fn rules_follow_what_was_published() {
        let gpu = Device::Gpu {
            maker: Accelerator::Nvidia,
            driver: None,
            capabilities: Vec::new(),
        };
        let compiler = |framework, device: &Device, there: &[&'static str]| {
            compiler_by_rule(framework, device, there).0
        };
        assert_eq!(compiler("tensorflow", &Device::Cpu, &["xla"]), "none");
        assert_eq!(
            compiler("tensorflow", &Device::Cpu, &["xla", "ngraph"]),
            "ngraph"
        );
        assert_eq!(compiler("tensorflow", &gpu, &["xla", "ngraph"]), "xla");
        assert_eq!(compiler("tensorflow", &gpu, &[]), "none");
        assert_eq!(compiler("jax", &Device::Cpu, &["xla"]), "xla");
        assert_eq!(compiler("pytorch", &gpu, compilers_of("pytorch")), "none");
    }
}
