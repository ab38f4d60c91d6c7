//! Images on their way: found for a submission, built or pulled, tried, and taken into the catalogue.

pub(crate) mod check;
pub(crate) mod facts;
pub(crate) mod making;
pub(crate) mod recipes;
pub(crate) mod shelves;
