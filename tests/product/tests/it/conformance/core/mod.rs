//! The built-in kinds that CodeButler makes or reads.

pub(super) mod claims;
pub(super) mod limits;
pub(super) mod maps;
pub(super) mod others;
pub(super) mod pods;
