//! `roadmap.md`, by the rules of [`Roadmap::read`].

use codebutler_roadmap::{RoadmapFault, RoadmapFile};

use super::{FindingSeverity, JudgedLines};

/// Finds mistakes by line. An item that is not mentioned here is worked on all the same.
pub(super) fn judge_roadmap(text: &str) -> JudgedLines {
    let faults = RoadmapFile::read(text).faults.into_iter();
    faults.map(|RoadmapFault { line, message }| (line, FindingSeverity::Error, message)).collect()
}
