//! Kinds of processors, and what GCC calls them.

/// archspec's names and the levels of the x86-64 psABI: processor, name, GCC's option.
///
/// Sources: archspec's `microarchitectures.json`, GCC's manual ("x86 Options", "AArch64 Options", "RS/6000 and PowerPC
/// Options"). The options of Zen 4 need GCC 12.3, those of Zen 5 GCC 14, of the levels GCC 11; the others GCC 9.
const NAMES: [(&str, &str, &str); 39] = [
    ("x86_64", "x86_64", "-march=x86-64"),
    ("x86_64", "x86-64", "-march=x86-64"),
    ("x86_64", "x86-64-v2", "-march=x86-64-v2"),
    ("x86_64", "x86-64-v3", "-march=x86-64-v3"),
    ("x86_64", "x86-64-v4", "-march=x86-64-v4"),
    ("x86_64", "x86_64_v2", "-march=x86-64-v2"),
    ("x86_64", "x86_64_v3", "-march=x86-64-v3"),
    ("x86_64", "x86_64_v4", "-march=x86-64-v4"),
    ("x86_64", "nehalem", "-march=nehalem"),
    ("x86_64", "westmere", "-march=westmere"),
    ("x86_64", "sandybridge", "-march=sandybridge"),
    ("x86_64", "ivybridge", "-march=ivybridge"),
    ("x86_64", "haswell", "-march=haswell"),
    ("x86_64", "broadwell", "-march=broadwell"),
    ("x86_64", "skylake", "-march=skylake"),
    ("x86_64", "skylake_avx512", "-march=skylake-avx512"),
    ("x86_64", "cascadelake", "-march=cascadelake"),
    ("x86_64", "cooperlake", "-march=cooperlake"),
    ("x86_64", "icelake", "-march=icelake-server"),
    ("x86_64", "sapphirerapids", "-march=sapphirerapids"),
    ("x86_64", "zen", "-march=znver1"),
    ("x86_64", "zen2", "-march=znver2"),
    ("x86_64", "zen3", "-march=znver3"),
    ("x86_64", "zen4", "-march=znver4"),
    ("x86_64", "zen5", "-march=znver5"),
    ("aarch64", "aarch64", "-march=armv8-a"),
    ("aarch64", "armv8.1a", "-march=armv8.1-a"),
    ("aarch64", "armv8.2a", "-march=armv8.2-a"),
    ("aarch64", "thunderx2", "-mcpu=thunderx2t99"),
    ("aarch64", "a64fx", "-mcpu=a64fx"),
    ("aarch64", "graviton2", "-mcpu=neoverse-n1"),
    ("aarch64", "neoverse_n1", "-mcpu=neoverse-n1"),
    ("aarch64", "graviton3", "-mcpu=neoverse-v1"),
    ("aarch64", "neoverse_v1", "-mcpu=neoverse-v1"),
    ("aarch64", "neoverse_v2", "-mcpu=neoverse-v2"),
    ("ppc64le", "ppc64le", "-mcpu=power8"),
    ("ppc64le", "power8le", "-mcpu=power8"),
    ("ppc64le", "power9le", "-mcpu=power9"),
    ("ppc64le", "power10le", "-mcpu=power10"),
];

/// GCC's option for code that runs on `microarch` of the processors `arch` and later ones.
///
/// # Errors
/// With the names that there are.
pub fn compiler_flag(arch: &str, microarch: &str) -> Result<&'static str, String> {
    let found = NAMES
        .iter()
        .find(|(of, name, _)| *of == arch && *name == microarch);
    found.map(|(_, _, flag)| *flag).ok_or_else(|| {
        let known: Vec<_> = NAMES
            .iter()
            .filter(|(of, ..)| *of == arch)
            .map(|(_, name, _)| *name)
            .collect();
        format!(
            "there is no kind {microarch:?} of {arch}; known are {}",
            known.join(", ")
        )
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_processor_has_the_option_of_its_own_architecture() {
        assert_eq!(
            compiler_flag("x86_64", "skylake_avx512"),
            Ok("-march=skylake-avx512")
        );
        assert_eq!(compiler_flag("aarch64", "a64fx"), Ok("-mcpu=a64fx"));
        let why = compiler_flag("aarch64", "haswell").expect_err("it is another architecture");
        assert!(why.contains("a64fx") && !why.contains("skylake"), "{why}");
        assert!(compiler_flag("x86_64", "native; rm -rf /").is_err());
    }
}
