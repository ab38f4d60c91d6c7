//! What is linked into the programs.

use std::fs;

/// The names of all symbols of a program, with zeros between: the string table of its symbol table (ELF, 64 bits, little-endian).
/// Both are gone in a release build.
fn symbols(program: &str) -> Vec<u8> {
    let file = fs::read(program).expect("it was built");
    let number = |at: usize, length: usize| {
        let bytes = file[at..at + length].iter().rev();
        bytes.fold(0, |number, byte| number << 8 | usize::from(*byte))
    };
    assert_eq!(&file[..6], b"\x7fELF\x02\x01", "{program}");
    let (sections, size, count) = (number(0x28, 8), number(0x3a, 2), number(0x3c, 2));
    let section = |index: usize| sections + index * size;
    let table = (0..count)
        .map(section)
        .find(|at| number(at + 4, 4) == 2)
        .expect("a symbol table");
    let names = section(number(table + 0x28, 4));
    let (from, length) = (number(names + 0x18, 8), number(names + 0x20, 8));
    file[from..from + length].to_vec()
}

/// The crates among these that have code in a program. In a symbol a name stands behind its length.
fn linked<'a>(program: &str, crates: &[&'a str]) -> Vec<&'a str> {
    let symbols = symbols(program);
    let has = |name: &&&str| {
        let mangled = format!("{}{name}", name.len()).into_bytes();
        symbols
            .windows(mangled.len())
            .any(|window| window == mangled)
    };
    crates.iter().filter(has).copied().collect()
}

#[test]
fn the_daemon_links_no_command_line_and_dlrun_no_event_loop() {
    let command_line = [
        "clap_builder",
        "clap_complete",
        "clap_mangen",
        "comfy_table",
        "indicatif",
        "crossterm",
    ];
    let (dlrun, dlrund) = (env!("CARGO_BIN_EXE_dlrun"), env!("CARGO_BIN_EXE_dlrund"));
    assert_eq!(linked(dlrund, &command_line), [""; 0]);
    assert_eq!(
        linked(
            dlrund,
            &[
                "parquet", "arrow", "faer", "nalgebra", "ndarray", "rustfft", "realfft"
            ]
        ),
        [""; 0]
    );
    assert_eq!(linked(dlrun, &["tokio"]), [""; 0]);
    // What is there is seen. Mistakes in its configuration are shown as those in a job file are.
    assert_eq!(linked(dlrun, &command_line[..1]), ["clap_builder"]);
    assert_eq!(linked(dlrun, &["rustfft"]), ["rustfft"]);
    assert_eq!(
        linked(dlrund, &["annotate_snippets", "rusqlite", "tokio"]),
        ["annotate_snippets", "rusqlite", "tokio"]
    );
}
