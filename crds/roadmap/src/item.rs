//! One item of a roadmap, and what can be wrong with one.

use std::fmt;

use serde::{Deserialize, Serialize};
use sha2::{Digest as _, Sha256};

/// Longest id.
const MAX_ID: usize = 12;
/// Digits of a hash that are kept: it is compared, and never looked up by.
const HASH: usize = 24;

/// How far an item is, as the file says.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum ItemStatus {
    /// Nobody works on it.
    #[default]
    Pending,
    /// Somebody does.
    InProgress,
    /// It is merged.
    Done,
    /// It waits for something that the roadmap does not know.
    Blocked,
}

impl ItemStatus {
    /// All of them.
    pub const ALL: [Self; 4] = [Self::Pending, Self::InProgress, Self::Done, Self::Blocked];

    /// As the file spells it.
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
    /// How far it is.
    Status,
    /// Where it is built.
    Branch,
    /// The pull request that has it.
    PullRequest,
    /// The GitHub issue that was made of it.
    Issue,
    /// The items that have to be done before it.
    DependsOn,
    /// Why it is blocked.
    Reason,
    /// When it is done.
    Criteria,
}

impl ItemField {
    /// All of them.
    pub const ALL: [Self; 7] = [
        Self::Status,
        Self::Branch,
        Self::PullRequest,
        Self::Issue,
        Self::DependsOn,
        Self::Reason,
        Self::Criteria,
    ];

    /// As the file spells it.
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

    /// Whether it may go on in indented lines.
    pub(crate) const fn is_long(self) -> bool {
        matches!(self, Self::Criteria | Self::Reason)
    }
}

/// One thing to build.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct RoadmapItem {
    /// A number, or letters and digits that were drawn.
    pub id: String,
    /// What it is, in a few words.
    pub title: String,
    /// As the file says; what is merged is known elsewhere.
    pub status: ItemStatus,
    /// Items that have to be done before it.
    pub depends_on: Vec<String>,
    /// When it is done, a line each.
    pub criteria: String,
    /// What else stands under it.
    pub notes: String,
    /// Where it is or was built.
    pub branch: Option<String>,
    /// The number of the pull request that has it.
    pub pull_request: Option<u64>,
    /// The number of the issue that was made of it.
    pub issue: Option<u64>,
    /// Why it is blocked.
    pub reason: Option<String>,
    /// The line of its heading, from 1.
    pub line: usize,
    /// Nothing is wrong with it: only then it is worked on.
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

/// Something in the file that is not as it has to be.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct RoadmapFault {
    /// Where, from 1.
    pub line: usize,
    /// What is wrong and what to do.
    pub message: String,
}

impl fmt::Display for RoadmapFault {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "line {}: {}", self.line, self.message)
    }
}

/// Whether a word can be an item's id.
#[must_use]
pub fn is_item_id(word: &str) -> bool {
    let plain = word.bytes().all(|b| b.is_ascii_lowercase() || b.is_ascii_digit());
    plain && (1..=MAX_ID).contains(&word.len())
}
