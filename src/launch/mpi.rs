//! Which MPI a program needs, by the libraries that its loader names, and what its ranks find each other by.

/// An MPI library.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct MpiLibrary {
    /// Its name for the loader: `libmpi.so.40`.
    pub name: String,
    /// Whose it is.
    pub kind: MpiKind,
}

/// Whose an MPI library is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum MpiKind {
    /// Open MPI: its ranks find each other by PMIx.
    OpenMpi,
    /// MPICH and what has its interface: PMI-1 and PMI-2.
    Mpich {
        /// Whether it comes with its own PMI library, which may know other ways; `None`: not known.
        own_pmi: Option<bool>,
    },
}

impl MpiLibrary {
    /// The MPI in what `ldd` prints of a program, or in the name of a library; `None` where there is none, or two.
    #[must_use]
    pub fn of(ldd: &str) -> Option<Self> {
        let lines = ldd.lines().map(str::trim);
        let names: Vec<&str> = lines
            .clone()
            .filter_map(|line| line.split(' ').next())
            .collect();
        let has = |beginning: &str| names.iter().any(|name| name.starts_with(beginning));
        let one = |beginnings: &[&str]| {
            let is_it = |name: &&&str| beginnings.iter().any(|start| name.starts_with(start));
            names.iter().find(is_it).map(|name| (*name).to_owned())
        };
        let open = one(&["libmpi.so.40"]);
        // Open MPI before 2.0 used MPICH's name.
        let mpich = one(&["libmpich.so.", "libmpi.so.12"]).filter(|_| !has("libopen-pal"));
        match (open, mpich) {
            (Some(name), None) => Some(Self {
                name,
                kind: MpiKind::OpenMpi,
            }),
            (None, Some(name)) => {
                let is_complete = ldd.contains("=> /") && !ldd.contains("not found");
                let own_pmi = has("libpmi").then_some(true);
                let own_pmi = own_pmi.or(is_complete.then_some(false));
                Some(Self {
                    name,
                    kind: MpiKind::Mpich { own_pmi },
                })
            }
            _ => None,
        }
    }

    /// The type of `srun --mpi` by which its ranks find each other, where another than `default` must be named.
    #[must_use]
    pub fn wants(&self, default: &str) -> Option<&'static str> {
        match (self.kind, default) {
            (MpiKind::OpenMpi, "none") => Some("pmix"),
            (MpiKind::Mpich { own_pmi }, "none") if own_pmi != Some(true) => Some("pmi2"),
            // It sees a world of one there (MPICH 4.0).
            (
                MpiKind::Mpich {
                    own_pmi: Some(false),
                },
                default,
            ) if default.starts_with("pmix") => Some("pmi2"),
            _ => None,
        }
    }
}

impl std::fmt::Display for MpiLibrary {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let whose = match self.kind {
            MpiKind::OpenMpi => "Open MPI",
            MpiKind::Mpich { .. } => "MPICH's interface",
        };
        write!(f, "{} ({whose})", self.name)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn library_is_known_by_what_ldd_prints() {
        for (ldd, name, none, pmix) in [
            (
                "\tlibmpi.so.40 => /lib/x86_64-linux-gnu/libmpi.so.40 (0x00007fd0)\n\tlibc.so.6 => /lib/libc.so.6 (0x0)\n\
              \tlibopen-pal.so.40 => /lib/libopen-pal.so.40 (0x0)\n",
                "libmpi.so.40",
                Some("pmix"),
                None,
            ),
            (
                "\tlibmpi.so.40 => not found\n",
                "libmpi.so.40",
                Some("pmix"),
                None,
            ),
            ("libmpi.so.40", "libmpi.so.40", Some("pmix"), None),
            (
                "\tlibmpich.so.12 => /lib/libmpich.so.12 (0x0)\n\tlibc.so.6 => /lib/libc.so.6 (0x0)\n",
                "libmpich.so.12",
                Some("pmi2"),
                Some("pmi2"),
            ),
            (
                "\tlibmpi.so.12 => not found\n\tlibc.so.6 => /lib/libc.so.6 (0x0)\n",
                "libmpi.so.12",
                Some("pmi2"),
                None,
            ),
            (
                "\tlibmpi.so.12 => /opt/lib/libmpi.so.12 (0x0)\n\tlibpmix.so.2 => /lib/libpmix.so.2 (0x0)\n",
                "libmpi.so.12",
                None,
                None,
            ),
        ] {
            let library = MpiLibrary::of(ldd).expect("a library");
            assert_eq!(library.name, name, "{ldd}");
            assert_eq!(
                (library.wants("none"), library.wants("pmix_v4")),
                (none, pmix),
                "{ldd}"
            );
            assert_eq!(library.wants("cray_shasta"), None, "{ldd}");
        }
    }

    #[test]
    fn program_without_mpi_or_with_two_has_no_known_one() {
        for ldd in [
            "\tnot a dynamic executable\n",
            "\tlibc.so.6 => /lib/libc.so.6 (0x0)\n",
            "\tlibmpi.so.40 => /a (0x0)\n\tlibmpich.so.12 => /b (0x0)\n",
            "\tlibmpi.so.12 => /a (0x0)\n\tlibopen-pal.so.13 => /b (0x0)\n",
            "",
        ] {
            assert_eq!(MpiLibrary::of(ldd), None, "{ldd}");
        }
    }
}
