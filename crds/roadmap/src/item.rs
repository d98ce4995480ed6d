//! One item of a roadmap, and the faults that it can have.

use std::fmt;

use serde::{Deserialize, Serialize};
use sha2::{Digest as _, Sha256};

/// Longest id, in characters.
const MAX_ID: usize = 12;
/// Digits of a hash that are kept: it is compared, and never looked up by.
const HASH: usize = 24;

/// Progress of an item, as the file says.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum ItemStatus {
    /// Nobody works on the item.
    #[default]
    Pending,
    /// Somebody works on the item.
    InProgress,
    /// The item's work is merged.
    Done,
    /// The item waits for something that the roadmap does not know.
    Blocked,
}

impl ItemStatus {
    /// Every status, in the order of declaration.
    pub const ALL: [Self; 4] = [Self::Pending, Self::InProgress, Self::Done, Self::Blocked];

    /// The status in the file's spelling.
    #[must_use]
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Pending => "pending",
            Self::InProgress => "in_progress",
            Self::Done => "done",
            Self::Blocked => "blocked",
        }
    }

    /// The status that the file spells so.
    #[must_use]
    pub fn find(word: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|status| status.as_str() == word)
    }
}

impl fmt::Display for ItemStatus {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.as_str())
    }
}

/// A field of an item: a list entry below its heading.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum ItemField {
    /// Progress of the item.
    Status,
    /// Branch that it is built on.
    Branch,
    /// The pull request that has it.
    PullRequest,
    /// The GitHub issue that was made of it.
    Issue,
    /// The items that have to be done before it.
    DependsOn,
    /// Reason why it is blocked.
    Reason,
    /// Acceptance criteria of the item.
    Criteria,
}

impl ItemField {
    /// Every field, in the order of declaration.
    pub const ALL: [Self; 7] = [
        Self::Status,
        Self::Branch,
        Self::PullRequest,
        Self::Issue,
        Self::DependsOn,
        Self::Reason,
        Self::Criteria,
    ];

    /// The field's name in the file's spelling.
    #[must_use]
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Status => "Status",
            Self::Branch => "Branch",
            Self::PullRequest => "PR",
            Self::Issue => "Issue",
            Self::DependsOn => "Depends on",
            Self::Reason => "Reason",
            Self::Criteria => "Acceptance criteria",
        }
    }

    /// The field that a word names.
    #[must_use]
    pub fn find(word: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|field| field.as_str().eq_ignore_ascii_case(word))
    }

    /// True if its value may go on in indented lines.
    pub(crate) const fn is_long(self) -> bool {
        matches!(self, Self::Criteria | Self::Reason)
    }
}

/// An item of a roadmap: one thing to build.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct RoadmapItem {
    /// A number, or letters and digits that were drawn.
    pub id: String,
    /// Title in a few words.
    pub title: String,
    /// Progress as the file says; what is merged is known elsewhere.
    pub status: ItemStatus,
    /// Items that have to be done before it.
    pub depends_on: Vec<String>,
    /// Acceptance criteria, a line each.
    pub criteria: String,
    /// Further text under the item's heading.
    pub notes: String,
    /// Branch on which it is or was built.
    pub branch: Option<String>,
    /// The number of the pull request that has it.
    pub pull_request: Option<u64>,
    /// The number of the issue that was made of it.
    pub issue: Option<u64>,
    /// Reason why it is blocked.
    pub reason: Option<String>,
    /// The line of its heading, from 1.
    pub line: usize,
    /// True if it has no fault: only then it is worked on.
    pub is_sound: bool,
}

impl RoadmapItem {
    /// Stands for everything that says what is to be built: another hash is another wish. How far it is,
    /// where, and when its turn comes do not count.
    #[must_use]
    pub fn hash(&self) -> String {
        let mut hash = Sha256::new();
        for part in [&self.id, &self.title, &self.criteria, &self.notes] {
            // Wrapped otherwise it says the same.
            for word in part.split_whitespace() {
                hash.update(word.as_bytes());
                hash.update(b" ");
            }
            hash.update([0]);
        }
        let mut hash = hex::encode(hash.finalize());
        hash.truncate(HASH);
        hash
    }
}

/// A mistake in the file.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct RoadmapFault {
    /// Line of the fault in the file, from 1.
    pub line: usize,
    /// The fault, and what to do about it.
    pub message: String,
}

impl fmt::Display for RoadmapFault {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "line {}: {}", self.line, self.message)
    }
}

/// True if a word can be an item's id.
#[must_use]
pub fn is_item_id(word: &str) -> bool {
    let plain = word.bytes().all(|b| b.is_ascii_lowercase() || b.is_ascii_digit());
    plain && (1..=MAX_ID).contains(&word.len())
}
