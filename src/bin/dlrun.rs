//! The `dlrun` command.

fn main() {}
