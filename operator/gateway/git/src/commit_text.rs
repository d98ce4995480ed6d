//! Commits in the words that people and roles read of them. What commits say of themselves is data.

use codebutler_crds::thread::RemovedCommit;
use codebutler_guides::text::{clip_text, plain_text};

/// Characters of a commit's first line, and of who wrote it.
const WORDS: usize = 80;
/// Commits and branches that are named.
pub(crate) const MOST_NAMED: usize = 6;
/// Length of an abbreviated commit id.
const SHORT: usize = 10;

/// A commit as people read it.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct NamedCommit {
    pub id: String,
    pub subject: String,
    pub author: String,
}

impl NamedCommit {
    /// Id, subject and author, as data.
    pub(crate) fn describe(&self) -> String {
        let mut text = short_id(&self.id).to_owned();
        if !self.subject.is_empty() {
            text = format!("{text} {}", self.subject);
        }
        if !self.author.is_empty() {
            text = format!("{text} ({})", self.author);
        }
        format!("`{text}`")
    }
}

impl From<&RemovedCommit> for NamedCommit {
    fn from(removed: &RemovedCommit) -> Self {
        let (subject, author) = (harmless(&removed.subject), harmless(&removed.author));
        Self { id: removed.commit.clone(), subject, author }
    }
}

/// A commit of a push that would put back what people removed.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct BroughtBack {
    /// The commit in the push: the removed one itself, or one that makes the same change.
    pub id: String,
    pub removed: NamedCommit,
    /// Time at which its removal was noticed.
    pub noticed: String,
}

/// Lists the first commits and the number of the rest, out of `count`.
pub(crate) fn name_commits(commits: impl Iterator<Item = NamedCommit>, count: usize) -> String {
    let named: Vec<String> = commits.take(MOST_NAMED).map(|commit| commit.describe()).collect();
    let more = count.saturating_sub(named.len());
    let named = named.join(", ");
    if more > 0 && !named.is_empty() { format!("{named} and {more} more") } else { named }
}

pub(crate) fn short_id(commit: &str) -> &str {
    commit.get(..SHORT).unwrap_or(commit)
}

/// Makes text safe to show in code marks: one line, without backquotes, and cut.
pub(crate) fn harmless(text: &str) -> String {
    clip_text(&plain_text(text).replace(['`', '\n'], "'"), WORDS)
}
