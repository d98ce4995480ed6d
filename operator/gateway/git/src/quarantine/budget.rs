//! The budget of one push: every amount is counted over all of its commits, so that a push can't be made
//! of many parts that are each small enough. Pure.

use crate::command::CommandError;

/// Most files that a push may change, counted for each commit and each of its parents.
pub(super) const MAX_FILES: usize = 200_000;
/// Bytes of the paths of changed files.
const MAX_PATHS: usize = 64 << 20;
/// Entries of folders that are read to find them.
const MAX_ENTRIES: usize = 20_000_000;
/// Bytes of the new commits themselves: messages and heads.
const MAX_TEXT: usize = 32 << 20;
/// Parents of the new commits.
const MAX_PARENTS: usize = 10_000;

/// A limit on pushes that was exceeded.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub(super) enum OverBudget {
    /// Files, with how many were counted.
    #[error(
        "it changes more files than can be looked at: at least {0}, and a push may change {MAX_FILES} over all \
         its commits"
    )]
    Files(usize),
    /// Too many bytes of paths.
    #[error(
        "it changes more files than can be looked at: their paths have more than the {} MiB that a push may \
         have over all its commits",
        MAX_PATHS >> 20
    )]
    Paths,
    /// Too many folder entries.
    #[error(
        "it changes more files than can be looked at: more than {MAX_ENTRIES} entries of folders have to be \
         compared for it"
    )]
    Entries,
    /// Too many bytes of commits, with how many were counted.
    #[error(
        "the commits of a push may have {} MiB without their files, and these have at least {} MiB",
        MAX_TEXT >> 20,
        .0.div_ceil(1 << 20)
    )]
    Text(usize),
    /// Too many parents of commits, with how many were counted.
    #[error(
        "the commits of a push may have {MAX_PARENTS} parents together, and these have at least {0}"
    )]
    Parents(usize),
}

/// A comparison failed or ran out of budget.
#[derive(Debug, thiserror::Error)]
pub(super) enum CompareError {
    #[error(transparent)]
    Command(#[from] CommandError),
    #[error(transparent)]
    Budget(#[from] OverBudget),
}

/// Budget that a push has used so far.
#[derive(Clone, Debug, Default)]
pub(super) struct PushBudget {
    files: usize,
    paths: usize,
    entries: usize,
    text: usize,
    parents: usize,
}

impl PushBudget {
    /// Counts files that change, with the bytes of their paths.
    ///
    /// # Errors
    /// When the push has no room for them.
    pub(super) fn add_files(&mut self, files: usize, paths: usize) -> Result<(), OverBudget> {
        self.files = self.files.saturating_add(files);
        self.paths = self.paths.saturating_add(paths);
        if self.files > MAX_FILES {
            return Err(OverBudget::Files(self.files));
        }
        if self.paths > MAX_PATHS { Err(OverBudget::Paths) } else { Ok(()) }
    }

    /// Counts the entries of a folder that is read.
    ///
    /// # Errors
    /// When the push has no room for them.
    pub(super) fn add_entries(&mut self, entries: usize) -> Result<(), OverBudget> {
        self.entries = self.entries.saturating_add(entries);
        if self.entries > MAX_ENTRIES { Err(OverBudget::Entries) } else { Ok(()) }
    }

    /// Counts a commit's own text, and its parents.
    ///
    /// # Errors
    /// When the push has no room for them.
    pub(super) fn add_commit(&mut self, text: usize, parents: usize) -> Result<(), OverBudget> {
        self.text = self.text.saturating_add(text);
        self.parents = self.parents.saturating_add(parents);
        if self.text > MAX_TEXT {
            return Err(OverBudget::Text(self.text));
        }
        if self.parents > MAX_PARENTS { Err(OverBudget::Parents(self.parents)) } else { Ok(()) }
    }
}

/// The refusal, with what can be done about it: `number` of `all` commits were counted.
pub(super) fn explain_budget(over: OverBudget, number: usize, all: usize) -> String {
    let split = if number > 1 {
        format!(
            "that was reached at commit {number} of {all}: push the first {} by themselves, then the rest in \
             several pushes, or squash commits that change the same files",
            number - 1
        )
    } else {
        "its first commit alone reaches that: split it into commits of fewer files, and push them one by one"
            .to_owned()
    };
    format!("{over}; {split}")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn amounts_are_added_up_and_the_refusal_says_what_to_split() {
        let mut budget = PushBudget::default();
        budget.add_files(MAX_FILES, 0).unwrap();
        let over = budget.add_files(1, 0).unwrap_err();
        assert_eq!(over, OverBudget::Files(MAX_FILES + 1));
        let said = explain_budget(over, 3, 40);
        for part in ["may change 200000", "200001", "commit 3 of 40", "the first 2 by themselves"] {
            assert!(said.contains(part), "{said}");
        }
        assert!(explain_budget(over, 1, 1).contains("split it into commits of fewer files"));
        let mut budget = PushBudget::default();
        assert_eq!(budget.add_files(1, MAX_PATHS + 1), Err(OverBudget::Paths));
        assert_eq!(budget.add_entries(MAX_ENTRIES + 1), Err(OverBudget::Entries));
        for _ in 0..4 {
            budget.add_commit(MAX_TEXT / 4, 1).unwrap();
        }
        let said = budget.add_commit(1, 1).unwrap_err().to_string();
        assert!(said.contains("may have 32 MiB") && said.contains("at least 33 MiB"), "{said}");
    }
}
