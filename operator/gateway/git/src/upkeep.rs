//! Merges into a branch that began on another one (a stacked branch). It has commits of that one, and a host that
//! squashes or rebases puts the same changes on the base branch under other names: Git alone would see both sides
//! change the same lines. Here the commits that the branch has count as part of what comes in. The merge commit
//! itself has the usual two parents, so the host and everybody's Git go on from there.

use std::collections::BTreeSet;
use std::sync::Arc;

use codebutler_crds::Repo;
use codebutler_crds::wire::TextMerge;

use super::command::{CommandError, GitRepository};
use super::graft::{commit_merge, contains, git_line, is_known, open_quarantine, stand_in};
use super::host::{GitHost, HostError, RefUpdate, RemoteRefs};
use super::merges;
use super::mirror::{MirrorError, RepoMirror};
use super::quarantine::push_request;
use super::remote_base::RemoteBase;
use super::train::PushedBranch;
use crate::services::GitServices;

/// The remote at one moment.
pub struct UpkeepBench {
    host: GitHost,
    mirror: Arc<RepoMirror>,
    refs: Arc<RemoteRefs>,
    /// The base branch's commit.
    pub base: String,
}

/// Outcome of a merge.
pub enum UpkeepMerge {
    /// The merge was made, as a commit in a temporary folder.
    Made(MadeMerge),
    /// The two sides conflict in these files.
    Conflict(BTreeSet<String>),
    /// Git could not try the merge.
    Unknown,
}

/// A merge commit that is not on the remote yet.
pub struct MadeMerge {
    git: GitRepository,
    _folder: tempfile::TempDir,
    from: String,
    /// Id of the merge commit.
    pub commit: String,
    /// Git merges the two to the same files without being told what counts as merged.
    pub is_plain: bool,
}

impl UpkeepBench {
    /// Asks the remote; nothing where it has no such base branch.
    ///
    /// # Errors
    /// When the remote can't be asked.
    pub async fn take(gateway: &GitServices, repo: &Repo) -> Result<Option<Self>, MirrorError> {
        let found = RemoteBase::ask(gateway, repo).await?;
        Ok(found.map(|RemoteBase { host, mirror, refs, base }| Self { host, mirror, refs, base }))
    }

    /// Returns the tip of a branch.
    pub fn tip(&self, branch: &str) -> Option<&str> {
        self.refs.get(&format!("refs/heads/{branch}")).map(String::as_str)
    }

    /// Returns true if `commit` is or descends from `earlier`.
    ///
    /// # Errors
    /// When Git can't tell.
    pub async fn contains(&self, commit: &str, earlier: &str) -> Result<bool, MirrorError> {
        Ok(contains(self.mirror.git(), commit, earlier).await?)
    }

    /// The newest commit that two have in common; nothing if there is none, or one of them is not known here.
    ///
    /// # Errors
    /// When Git can't tell.
    pub async fn common(&self, one: &str, other: &str) -> Result<Option<String>, MirrorError> {
        let git = self.mirror.git();
        if !is_known(git, one).await? || !is_known(git, other).await? {
            return Ok(None);
        }
        match git_line(git, &["merge-base", one, other]).await {
            Ok(found) => Ok(Some(found).filter(|found| !found.is_empty())),
            Err(CommandError::Failed { code: 1, .. }) => Ok(None),
            Err(error) => Err(error.into()),
        }
    }

    /// Merges `other` into `own`, where all that `merged` lead to is part of `other`.
    ///
    /// # Errors
    /// When Git can't be run.
    pub async fn merge(
        &self,
        (own, other): (&str, &str),
        merged: &[String],
        message: &str,
    ) -> Result<UpkeepMerge, MirrorError> {
        let (git, folder) = open_quarantine(self.mirror.git())?;
        Ok(make_merge(git, folder, (own, other), merged, message).await?)
    }

    /// Pushes a merge, if the branch is still where it was.
    ///
    /// # Errors
    /// When it is not known whether it is there.
    pub async fn push(&self, branch: &str, made: &MadeMerge) -> Result<PushedBranch, MirrorError> {
        let (name, old) = (format!("refs/heads/{branch}"), Some(made.from.clone()));
        let update = RefUpdate { name, old, new: made.commit.clone() };
        let mut sent = self.host.push(&update, push_request(&made.git, &update, &self.refs)?).await;
        if matches!(sent, Err(HostError::Renewed(_))) {
            sent = self.host.push(&update, push_request(&made.git, &update, &self.refs)?).await;
        }
        Ok(match sent?.refused {
            None => PushedBranch::Done,
            Some(why) => PushedBranch::Refused(format!("{}: {why}", self.host.host())),
        })
    }
}

async fn make_merge(
    git: GitRepository,
    folder: tempfile::TempDir,
    (own, other): (&str, &str),
    merged: &[String],
    message: &str,
) -> Result<UpkeepMerge, CommandError> {
    let with = stand_in(&git, other, merged).await?;
    let mut pairs = vec![(own.to_owned(), with.clone())];
    if with != other {
        pairs.push((own.to_owned(), other.to_owned()));
    }
    let mut tried = Vec::new();
    for pair in pairs {
        // Merging commits without a common ancestor fails, and counts as not tried.
        tried.push(merges::try_in(&git, &[pair]).await.ok().and_then(|mut all| all.pop()));
    }
    let mut tried = tried.into_iter();
    let Some(first) = tried.next().flatten() else { return Ok(UpkeepMerge::Unknown) };
    match (first.text, first.tree) {
        (TextMerge::Clean, Some(tree)) => {
            let is_plain = tried.next().is_none_or(|plain| {
                plain.is_some_and(|plain| plain.tree.as_deref() == Some(&*tree))
            });
            let when = ["show", "-s", "--format=%ct", "--end-of-options", other];
            let at = git_line(&git, &when).await?;
            let commit = commit_merge(&git, &tree, &[own, other], (message, &at)).await?;
            let from = own.to_owned();
            Ok(UpkeepMerge::Made(MadeMerge { git, _folder: folder, from, commit, is_plain }))
        }
        (TextMerge::Conflict, _) => Ok(UpkeepMerge::Conflict(first.files)),
        _ => Ok(UpkeepMerge::Unknown),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::TestRepository;

    async fn merge(
        shop: &TestRepository,
        (own, other): (&str, &str),
        merged: &[&String],
    ) -> UpkeepMerge {
        let (git, folder) = open_quarantine(&shop.git()).unwrap();
        let merged: Vec<String> = merged.iter().map(|one| (*one).clone()).collect();
        make_merge(git, folder, (own, other), &merged, "Merge").await.unwrap()
    }

    async fn files(made: &UpkeepMerge) -> (String, String, bool) {
        let UpkeepMerge::Made(made) = made else { panic!("it is not clean") };
        let text = git_line(&made.git, &["show", &format!("{}:a.txt", made.commit)]).await.unwrap();
        let parents = git_line(&made.git, &["show", "-s", "--format=%P", &made.commit]).await;
        (text, parents.unwrap(), made.is_plain)
    }

    #[tokio::test]
    async fn what_a_squashed_branch_brought_is_no_conflict_for_what_is_built_on_it() {
        let shop = TestRepository::new();
        let start = shop.commit(&[], &[("a.txt", "1\n"), ("b.txt", "1\n")]);
        let below = shop.commit(&[&start], &[("a.txt", "2\n")]);
        let own = shop.commit(&[&below], &[("a.txt", "3\n")]);
        let squashed = shop.commit(&[&start], &[("a.txt", "2\n"), ("c.txt", "1\n")]);
        let base = shop.commit(&[&squashed], &[("b.txt", "2\n")]);
        let plain = merge(&shop, (&own, &base), &[]).await;
        assert!(matches!(plain, UpkeepMerge::Conflict(files) if files.contains("a.txt")));
        let before = shop.beside();
        let made = merge(&shop, (&own, &base), &[&below]).await;
        assert_eq!(files(&made).await, ("3".to_owned(), format!("{own} {base}"), false));
        drop(made);
        assert_eq!(shop.beside(), before, "nothing of it stays");
        // The change was taken back on the branch: Git alone would bring it in again without a word.
        let undone = shop.commit(&[&below], &[("a.txt", "1\n")]);
        let made = merge(&shop, (&undone, &base), &[&below]).await;
        assert_eq!(files(&made).await, ("1".to_owned(), format!("{undone} {base}"), false));
        // Changed on the base branch since: a real conflict.
        let later = shop.commit(&[&base], &[("a.txt", "4\n")]);
        let made = merge(&shop, (&own, &later), &[&below]).await;
        assert!(matches!(made, UpkeepMerge::Conflict(files) if files.contains("a.txt")));
        // Merged as it was, or known by nobody any more: nothing is special.
        let merged = shop.commit(&[&start, &below], &[("a.txt", "2\n")]);
        let made = merge(&shop, (&own, &merged), &[&below, &"1".repeat(40)]).await;
        assert_eq!(files(&made).await, ("3".to_owned(), format!("{own} {merged}"), true));
    }

    #[tokio::test]
    async fn a_branch_that_had_the_base_branch_before_and_a_rewritten_one_below_come_together() {
        let shop = TestRepository::new();
        let start = shop.commit(&[], &[("a.txt", "1\n"), ("b.txt", "1\n")]);
        let below = shop.commit(&[&start], &[("a.txt", "2\n")]);
        let moved = shop.commit(&[&start], &[("b.txt", "2\n")]);
        let both = shop.commit(&[&below, &moved], &[("b.txt", "2\n")]);
        let own = shop.commit(&[&both], &[("a.txt", "3\n"), ("b.txt", "3\n")]);
        let base = shop.commit(&[&moved], &[("a.txt", "2\n")]);
        let made = merge(&shop, (&own, &base), &[&below]).await;
        assert_eq!(files(&made).await, ("3".to_owned(), format!("{own} {base}"), false));
        // Somebody changed the branch below by force.
        let rewritten = shop.commit(&[&start], &[("a.txt", "2\n"), ("c.txt", "1\n")]);
        let top = shop.commit(&[&below], &[("a.txt", "3\n")]);
        let made = merge(&shop, (&top, &rewritten), &[&below]).await;
        assert_eq!(files(&made).await, ("3".to_owned(), format!("{top} {rewritten}"), false));
    }
}
