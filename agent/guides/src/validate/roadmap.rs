//! `roadmap.md`, by the rules of [`Roadmap::read`].

use codebutler_roadmap::{Fault, Roadmap};

use super::{JudgedLines, Severity};

/// What is wrong, by line. What is not mentioned here is worked on all the same.
pub fn judge_roadmap(text: &str) -> JudgedLines {
    let faults = Roadmap::read(text).faults.into_iter();
    faults.map(|Fault { line, message }| (line, Severity::Error, message)).collect()
}
