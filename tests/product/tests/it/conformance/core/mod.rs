//! The built-in kinds that CodeButler makes or reads.

pub mod claims;
pub mod maps;
pub mod others;
pub mod pods;
