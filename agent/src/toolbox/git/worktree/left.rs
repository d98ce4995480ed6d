//! Files that differ and are left alone all the same, and the words for it.

use std::fmt;

/// Files that are named for one reason.
const MAX_NAMED: usize = 5;

/// A file that was left as it is.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct LeftAlone {
    pub path: String,
    pub why: LeftWhy,
}

/// Reason that a file that differs is not staged.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum LeftWhy {
    /// Git was told to take it for unchanged.
    AssumeUnchanged,
    /// Git was told to pass it over.
    SkipWorktree,
    /// The file does not belong in the sparse checkout.
    OutsideSparse,
    /// The file is not in the encoding that `.gitattributes` names.
    Encoding(String),
    /// A program of this name would have to convert it.
    Filter(String),
    /// A repository of its own that has no commit, or that can't be read.
    NoCommit,
    /// A submodule without the commit that is recorded for it.
    Behind,
    /// The file can't be read.
    Unreadable,
    /// No name for a file in Git.
    Unnameable,
    /// New, and larger than so many MB.
    TooLarge(u64),
    /// An ignored file that is larger than so many MB, or a link.
    Ignored(u64),
    /// New or ignored files already take so many MB in all.
    TooMany(u64),
    /// A folder that a tool made.
    Made,
    /// A nested repository of its own.
    OwnRepository,
}

impl fmt::Display for LeftWhy {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::AssumeUnchanged => f.write_str(
                "Git was told to take it for unchanged: `git update-index --no-assume-unchanged` in Bash undoes that",
            ),
            Self::SkipWorktree => f.write_str(
                "Git was told to skip it: `git update-index --no-skip-worktree` in Bash undoes that",
            ),
            Self::OutsideSparse => {
                f.write_str("outside of the sparse checkout: name it in `paths` to commit it")
            }
            Self::Encoding(name) => write!(
                f,
                ".gitattributes says working-tree-encoding={name}, and it can't be converted from that: save it in \
                 that encoding, or commit it with `git` in Bash"
            ),
            Self::Filter(name) => write!(
                f,
                ".gitattributes says filter={name}, which is not run here: commit it with `git` in Bash, where \
                 that filter is set up"
            ),
            Self::NoCommit => f.write_str("a repository of its own without a commit"),
            Self::Behind => f.write_str(
                "a submodule that does not have the commit that is recorded for it: `git submodule update` in Bash \
                 brings it, and naming it in `paths` records the one that it is at",
            ),
            Self::Unreadable => f.write_str("it can't be read"),
            Self::Unnameable => f.write_str("Git takes no such name"),
            Self::TooLarge(most) => write!(f, "new, and larger than {most} MB"),
            Self::Ignored(most) => write!(f, "ignored, and larger than {most} MB or a link"),
            Self::TooMany(most) => write!(f, "together with others of its kind more than {most} MB"),
            Self::Made => f.write_str("a tool made this folder, by what is in it"),
            Self::OwnRepository => f.write_str("a repository of its own"),
        }
    }
}

/// Formats all of them, a clause for each reason; empty if there are none.
pub(crate) fn name_left(left: &[LeftAlone]) -> String {
    left_reasons(left).join("; ")
}

/// Formats a clause for each reason: the first files by name, and how many more there are.
pub(crate) fn left_reasons(left: &[LeftAlone]) -> Vec<String> {
    let mut left: Vec<&LeftAlone> = left.iter().collect();
    left.sort_by(|a, b| (&a.why, &a.path).cmp(&(&b.why, &b.path)));
    left.dedup();
    let same = left.chunk_by(|a, b| a.why == b.why).map(|group| {
        let names: Vec<_> = group.iter().take(MAX_NAMED).map(|one| one.path.as_str()).collect();
        let more = group.len().saturating_sub(MAX_NAMED);
        let more = if more > 0 { format!(" and {more} more") } else { String::new() };
        format!("`{}`{more} ({})", names.join("`, `"), group[0].why)
    });
    same.collect()
}
