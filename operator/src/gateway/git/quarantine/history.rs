//! New commits, their trees, and what they change.

use std::collections::{BTreeMap, BTreeSet};

use super::diff::{self, ChangedEntry, TreeDiffs};
use super::objects::{ObjectReader, commits_head};
use super::{ReceiveError, too_much};
use crate::gateway::git::command::{CommandError, GitRepository};
use crate::gateway::git::guard::PathGuard;
use crate::gateway::git::rules::{FileChange, NewCommit};

/// Trees of commits, and how they differ.
#[derive(Default)]
pub struct CommitTrees {
    /// New commits: tree, parents, whole text.
    new: BTreeMap<String, (String, Vec<String>, String)>,
    trees: BTreeMap<String, String>,
    diffs: TreeDiffs,
}

impl CommitTrees {
    /// Reads the new commits.
    ///
    /// # Errors
    /// `Refused` when one is none.
    pub async fn read(git: &GitRepository, ids: &[String]) -> Result<Self, ReceiveError> {
        let mut history = Self::default();
        let mut objects = ObjectReader::open(git)?;
        for id in ids {
            let text = String::from_utf8_lossy(&objects.read_small(id).await.map_err(too_much)?)
                .into_owned();
            let Some((tree, parents)) = commits_head(&text) else {
                return Err(ReceiveError::Refused(format!("{id} is no commit")));
            };
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

    /// The new commits with what they change.
    pub async fn commits(
        &mut self,
        git: &GitRepository,
        ids: &[String],
    ) -> Result<Vec<NewCommit>, ReceiveError> {
        let mut pairs = Vec::new();
        for id in ids {
            let Some((tree, parents, _)) = self.new.get(id).cloned() else { continue };
            let mut olds = Vec::new();
            for parent in &parents {
                olds.push(self.tree(git, parent).await?);
            }
            if olds.is_empty() {
                olds.push(diff::EMPTY.to_owned());
            }
            pairs.push((id.clone(), olds, tree));
        }
        let mut all = Vec::new();
        for (_, olds, tree) in &pairs {
            all.extend(olds.iter().map(|old| (old.clone(), tree.clone())));
        }
        self.diffs.load(&mut ObjectReader::open(git)?, all).await.map_err(too_much)?;
        let commit = |(id, olds, tree): (String, Vec<String>, String)| {
            let text = self.new.get(&id).map(|(_, _, text)| text.clone()).unwrap_or_default();
            let diffs = olds.iter().flat_map(|old| self.diffs.get(old, &tree));
            NewCommit { changes: merge_changes(diffs), id, text, ..NewCommit::default() }
        };
        Ok(pairs.into_iter().map(commit).collect())
    }

    /// The merges among the new commits, with those parents that are not new.
    pub fn merges(&self) -> Vec<(&str, Vec<&str>)> {
        let merges = self.new.iter().filter(|(_, (_, parents, _))| parents.len() > 1);
        merges
            .map(|(id, (_, parents, _))| {
                let known = parents.iter().filter(|id| !self.new.contains_key(*id));
                (id.as_str(), known.map(String::as_str).collect())
            })
            .collect()
    }

    /// What of the guarded files is different after a rewrite: as if it were one commit.
    pub async fn rewritten(
        &mut self,
        git: &GitRepository,
        old: &str,
        new: &str,
        guard: &PathGuard,
    ) -> Result<NewCommit, ReceiveError> {
        let (before, after) = (self.tree(git, old).await?, self.tree(git, new).await?);
        self.diffs
            .load(&mut ObjectReader::open(git)?, vec![(before.clone(), after.clone())])
            .await
            .map_err(too_much)?;
        let mut changes = merge_changes(self.diffs.get(&before, &after));
        changes.retain(|change| guard.why(&change.path).is_some());
        Ok(NewCommit { id: new.to_owned(), changes, ..NewCommit::default() })
    }

    /// Paths at which two commits differ.
    pub async fn differs(
        &mut self,
        git: &GitRepository,
        one: &str,
        other: &str,
    ) -> Result<BTreeSet<String>, ReceiveError> {
        let (one, other) = (self.tree(git, one).await?, self.tree(git, other).await?);
        self.diffs
            .load(&mut ObjectReader::open(git)?, vec![(one.clone(), other.clone())])
            .await
            .map_err(too_much)?;
        Ok(self.diffs.get(&one, &other).iter().map(|changed| changed.path.clone()).collect())
    }
}

/// One change for each path, whichever parents it differs from.
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
