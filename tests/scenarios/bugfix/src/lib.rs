//! Reads a plain-text work log and adds up the time by project.

pub mod clock;
pub mod entry;
pub mod report;
