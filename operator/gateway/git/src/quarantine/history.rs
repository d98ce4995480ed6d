//! New commits, their trees, and what they change.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use super::budget::{CompareError, PushBudget, explain_budget};
use super::diff::{self, ChangedEntry, TreeDiffs};
use super::objects::{ObjectReader, commits_head};
use super::{ReceiveError, too_much};
use crate::command::{CommandError, GitRepository};
use crate::guard::PathGuard;
use crate::rules::{FileChange, NewCommit};

/// Trees of commits, and how they differ.
#[derive(Default)]
pub(super) struct CommitTrees {
    /// New commits: tree, parents, whole text.
    new: BTreeMap<String, (String, Vec<String>, String)>,
    trees: BTreeMap<String, String>,
    diffs: TreeDiffs,
    budget: PushBudget,
}

impl CommitTrees {
    /// Reads the new commits.
    ///
    /// # Errors
    /// `Refused` when one is none.
    pub(super) async fn read(git: &GitRepository, ids: &[String]) -> Result<Self, ReceiveError> {
        let mut history = Self::default();
        let mut objects = ObjectReader::open(git)?;
        for (number, id) in ids.iter().enumerate() {
            let text = String::from_utf8_lossy(&objects.read_small(id).await.map_err(too_much)?)
                .into_owned();
            let Some((tree, parents)) = commits_head(&text) else {
                return Err(ReceiveError::Refused(format!("{id} is no commit")));
            };
            let counted = history.budget.add_commit(text.len(), parents.len());
            counted.map_err(|over| refuse_budget(over.into(), number + 1, ids.len()))?;
            history.trees.insert(id.clone(), tree.clone());
            history.new.insert(id.clone(), (tree, parents, text));
        }
        Ok(history)
    }

    async fn tree(&mut self, git: &GitRepository, commit: &str) -> Result<String, CommandError> {
        if let Some(tree) = self.trees.get(commit) {
            return Ok(tree.clone());
        }
        let name = format!("{commit}^{{tree}}");
        let tree =
            git.run(&["rev-parse", "--verify", "--quiet", "--end-of-options", &name], b"").await?;
        let tree = String::from_utf8_lossy(&tree).trim().to_owned();
        self.trees.insert(commit.to_owned(), tree.clone());
        Ok(tree)
    }

    /// The new commits with what they change: commits that change the same share it.
    ///
    /// # Errors
    /// `Refused` when they change more, all together, than can be looked at.
    pub(super) async fn commits(
        &mut self,
        git: &GitRepository,
        ids: &[String],
    ) -> Result<Vec<NewCommit>, ReceiveError> {
        let mut objects = ObjectReader::open(git)?;
        let mut shared: BTreeMap<(Vec<String>, String), Arc<[FileChange]>> = BTreeMap::new();
        let mut commits = Vec::new();
        for (number, id) in ids.iter().enumerate() {
            let Some((tree, parents, text)) = self.new.get(id).cloned() else { continue };
            let mut olds = Vec::new();
            for parent in &parents {
                olds.push(self.tree(git, parent).await?);
            }
            if olds.is_empty() {
                olds.push(diff::EMPTY.to_owned());
            }
            let refused = |error| refuse_budget(error, number + 1, ids.len());
            let mut diffs = Vec::new();
            for old in &olds {
                let pair = (&**old, &*tree);
                let between = self.diffs.between(&mut objects, &mut self.budget, pair).await;
                diffs.push(between.map_err(refused)?);
            }
            let changes = shared
                .entry((olds, tree))
                .or_insert_with(|| merge_changes(diffs.iter().flat_map(|diff| diff.iter())).into());
            let changes = Arc::clone(changes);
            commits.push(NewCommit { id: id.clone(), text, changes, ..NewCommit::default() });
        }
        self.diffs.forget();
        Ok(commits)
    }

    /// The merges among the new commits, with those parents that are not new.
    pub(super) fn merges(&self) -> Vec<(&str, Vec<&str>)> {
        let merges = self.new.iter().filter(|(_, (_, parents, _))| parents.len() > 1);
        merges
            .map(|(id, (_, parents, _))| {
                let known = parents.iter().filter(|id| !self.new.contains_key(*id));
                (id.as_str(), known.map(String::as_str).collect())
            })
            .collect()
    }

    /// Returns the guarded files that differ after a rewrite, as if it were one commit.
    pub(super) async fn rewritten(
        &mut self,
        git: &GitRepository,
        old: &str,
        new: &str,
        guard: &PathGuard,
    ) -> Result<NewCommit, ReceiveError> {
        let (before, after) = (self.tree(git, old).await?, self.tree(git, new).await?);
        let mut objects = ObjectReader::open(git)?;
        // Commits that the branch had before are no part of the push, so they have a budget of their own.
        let (mut budget, pair) = (PushBudget::default(), (&*before, &*after));
        let changed = self.diffs.between(&mut objects, &mut budget, pair).await;
        let changed = changed.map_err(|error| refuse_budget(error, 1, 1))?;
        self.diffs.forget();
        let mut guarded = merge_changes(changed.iter());
        guarded.retain(|change| guard.why(&change.path).is_some());
        Ok(NewCommit { id: new.to_owned(), changes: guarded.into(), ..NewCommit::default() })
    }

    /// Returns those of the files that are the same in two commits.
    pub(super) async fn same_files(
        &mut self,
        git: &GitRepository,
        (one, other): (&str, &str),
        paths: &BTreeSet<String>,
    ) -> Result<BTreeSet<String>, ReceiveError> {
        let (one, other) = (self.tree(git, one).await?, self.tree(git, other).await?);
        let mut objects = ObjectReader::open(git)?;
        let mut same = BTreeSet::new();
        for path in paths {
            let pair = (&*one, &*other);
            let is_same = self.diffs.is_same(&mut objects, &mut self.budget, pair, path).await;
            if is_same.map_err(|error| refuse_budget(error, 1, 1))? {
                same.insert(path.clone());
            }
        }
        Ok(same)
    }
}

/// A comparison that was too much, as the one who pushes reads it.
fn refuse_budget(error: CompareError, number: usize, all: usize) -> ReceiveError {
    match error {
        CompareError::Command(error) => too_much(error),
        CompareError::Budget(over) => ReceiveError::Refused(explain_budget(over, number, all)),
    }
}

/// Joins changes of the same path against several parents into one.
fn merge_changes<'d>(changed: impl IntoIterator<Item = &'d ChangedEntry>) -> Vec<FileChange> {
    let mut by_path: BTreeMap<&str, FileChange> = BTreeMap::new();
    for one in changed {
        let change = by_path.entry(&one.path).or_insert_with(|| FileChange {
            path: one.path.clone(),
            blob: one.new.clone(),
            before: Vec::new(),
        });
        change.before.extend(one.old.clone());
    }
    by_path.into_values().collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_path_that_differs_from_several_parents_is_one_change() {
        let changed = |old: &str, new: Option<&str>| ChangedEntry {
            path: "a".to_owned(),
            old: Some(old.to_owned()),
            new: new.map(str::to_owned),
        };
        let both = [changed("1", Some("3")), changed("2", Some("3"))];
        let expected = FileChange {
            path: "a".into(),
            blob: Some("3".into()),
            before: vec!["1".into(), "2".into()],
        };
        assert_eq!(merge_changes(&both), [expected]);
    }
}
