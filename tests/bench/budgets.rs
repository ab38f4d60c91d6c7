//! Budgets.

fn main() {}
