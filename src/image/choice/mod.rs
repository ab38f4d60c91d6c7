//! The choice among images: what a job wants, which images fit, and which of these is best. Pure.

mod choose;
mod compilers;
mod cuda;
mod framework;
mod judge;
mod processor;
mod rank;
mod wanted;

pub use choose::{Candidate, Choice, choose};
pub use compilers::{compiler_by_rule, compilers_of};
pub use cuda::{capability_of, cuda_for, least_driver, serves};
pub use framework::{meant, same};
pub use processor::{Processor, Runs, compiler_flag, family, generation, runs};
pub use wanted::{Device, Wanted, release};
