//! Images on their way: found for a submission, built or pulled, tried, and taken into the catalogue.

pub(crate) mod auto_build;
pub(crate) mod build_job;
pub(crate) mod check;
pub(crate) mod facts;
pub(crate) mod making;
pub(crate) mod recipes;
mod shelves;
