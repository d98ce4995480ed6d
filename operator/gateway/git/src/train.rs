//! Pull requests put together on the gateway's copy, as a merge train has them tested: one commit each, on
//! top of the base branch as it is now. The same every time, so that what was pushed is known again.

use std::collections::BTreeSet;
use std::sync::Arc;

use codebutler_crds::Repo;
use codebutler_crds::wire::TextMerge;

use super::command::{CommandError, GitRepository};
use super::graft::{commit_merge, git_line, open_quarantine};
use super::host::{GitHost, HostError, RefUpdate, RemoteRefs};
use super::merges;
use super::mirror::{MirrorError, RepoMirror};
use super::quarantine::push_request;
use super::remote_base::RemoteBase;
use crate::services::GitServices;

/// The remote at one moment.
pub struct TrainBench {
    host: GitHost,
    mirror: Arc<RepoMirror>,
    refs: Arc<RemoteRefs>,
    /// The base branch's commit.
    pub base: String,
}

/// A pull request that is to be put on top.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TrainHead {
    pub number: u64,
    pub commit: String,
}

/// Result of merging pull requests on top of each other.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct TrainCommit {
    /// Id of the base branch's tree.
    pub base_tree: String,
    /// The commit that has all of them: the base branch's own, if there are none.
    pub commit: String,
    /// Pull requests that merge on top of the earlier ones, each with the resulting tree.
    pub steps: Vec<(u64, String)>,
    /// Pull requests that do not merge, with the files in conflict.
    pub apart: Vec<(u64, BTreeSet<String>)>,
}

/// Outcome of pushing a branch.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum PushedBranch {
    /// The host has accepted the push.
    Done,
    /// The pull requests lead to another commit by now.
    Stale,
    /// The host refused the push, with its reason.
    Refused(String),
}

impl TrainBench {
    /// Asks the remote; nothing where it has no such base branch.
    ///
    /// # Errors
    /// When the remote can't be asked.
    pub async fn take(gateway: &GitServices, repo: &Repo) -> Result<Option<Self>, MirrorError> {
        let found = RemoteBase::ask(gateway, repo).await?;
        Ok(found.map(|RemoteBase { host, mirror, refs, base }| Self { host, mirror, refs, base }))
    }

    /// Puts them on top of a commit, in order; `both`: as merges that have both sides as parents.
    ///
    /// # Errors
    /// When Git can't tell.
    pub async fn put_together(
        &self,
        base: &str,
        heads: &[TrainHead],
        both: bool,
    ) -> Result<TrainCommit, CommandError> {
        let (git, _folder) = open_quarantine(self.mirror.git())?;
        put_together(&git, base, heads, both).await
    }

    /// Returns the tip of a branch.
    pub fn tip(&self, branch: &str) -> Option<&str> {
        self.refs.get(&format!("refs/heads/{branch}")).map(String::as_str)
    }

    /// Branches whose names begin so.
    pub fn branches(&self, prefix: &str) -> Vec<String> {
        let names = self.refs.keys().filter_map(|name| name.strip_prefix("refs/heads/"));
        names.filter(|name| name.starts_with(prefix)).map(str::to_owned).collect()
    }

    /// A commit's tree.
    ///
    /// # Errors
    /// When Git can't tell.
    pub async fn tree(&self, commit: &str) -> Result<String, CommandError> {
        git_line(self.mirror.git(), &["rev-parse", "--verify", &format!("{commit}^{{tree}}")]).await
    }

    /// Pushes exactly this commit of these under a new name; one that is there already is fine.
    ///
    /// # Errors
    /// When it is not known whether it is there.
    pub async fn push(
        &self,
        branch: &str,
        wanted: &str,
        (base, heads, both): (&str, &[TrainHead], bool),
    ) -> Result<PushedBranch, MirrorError> {
        let name = format!("refs/heads/{branch}");
        if self.refs.get(&name).is_some_and(|known| known == wanted) {
            return Ok(PushedBranch::Done);
        }
        let (git, _folder) = open_quarantine(self.mirror.git())?;
        let made = put_together(&git, base, heads, both).await?;
        if made.commit != wanted {
            return Ok(PushedBranch::Stale);
        }
        let old = self.refs.get(&name).cloned();
        let update = RefUpdate { name, old, new: wanted.to_owned() };
        let mut sent = self.host.push(&update, push_request(&git, &update, &self.refs)?).await;
        if matches!(sent, Err(HostError::Renewed(_))) {
            sent = self.host.push(&update, push_request(&git, &update, &self.refs)?).await;
        }
        Ok(match sent?.refused {
            None => PushedBranch::Done,
            Some(why) => PushedBranch::Refused(format!("{}: {why}", self.host.host())),
        })
    }
}

async fn put_together(
    git: &GitRepository,
    base: &str,
    heads: &[TrainHead],
    both: bool,
) -> Result<TrainCommit, CommandError> {
    let format = "--format=%T %ct";
    let said = git_line(git, &["show", "-s", format, "--end-of-options", base]).await?;
    let (tree, at) = said.split_once(' ').unwrap_or((&said, "0"));
    let mut made = TrainCommit {
        base_tree: tree.to_owned(),
        commit: base.to_owned(),
        ..TrainCommit::default()
    };
    for head in heads {
        let pair = [(made.commit.clone(), head.commit.clone())];
        // A pull request without a common commit with the base branch can't be merged.
        let tried = merges::try_in(git, &pair).await.ok().and_then(|mut all| all.pop());
        let Some(merged) = tried else {
            made.apart.push((head.number, BTreeSet::new()));
            continue;
        };
        match (merged.text, merged.tree) {
            (TextMerge::Clean, Some(tree)) => {
                let side = both.then_some(head.commit.as_str());
                made.commit =
                    make_commit(git, &tree, (&made.commit, side), head.number, at).await?;
                made.steps.push((head.number, tree));
            }
            _ => made.apart.push((head.number, merged.files)),
        }
    }
    Ok(made)
}

/// A commit that is the same whenever it is made.
async fn make_commit(
    git: &GitRepository,
    tree: &str,
    (below, side): (&str, Option<&str>),
    number: u64,
    at: &str,
) -> Result<String, CommandError> {
    let parents: Vec<&str> = std::iter::once(below).chain(side).collect();
    commit_merge(git, tree, &parents, (&format!("Merge train: #{number}"), at)).await
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::TestRepository;

    fn head(number: u64, commit: &str) -> TrainHead {
        TrainHead { number, commit: commit.to_owned() }
    }

    #[tokio::test]
    async fn what_merges_is_put_together_the_same_way_every_time() {
        let shop = TestRepository::new();
        let start = shop.commit(&[], &[("a.txt", "1\n"), ("b.txt", "1\n")]);
        let base = shop.commit(&[&start], &[("c.txt", "1\n")]);
        let one = shop.commit(&[&start], &[("a.txt", "2\n")]);
        let clash = shop.commit(&[&start], &[("a.txt", "3\n")]);
        let two = shop.commit(&[&start], &[("b.txt", "2\n")]);
        let alien = shop.commit(&[], &[("z.txt", "1\n")]);
        let heads = [head(1, &one), head(2, &clash), head(3, &two), head(4, &alien)];
        let before = shop.beside();
        for both in [false, true] {
            let again = async || {
                let (git, _folder) = open_quarantine(&shop.git()).unwrap();
                let made = put_together(&git, &base, &heads, both).await.unwrap();
                let read = ["rev-parse", &format!("{}^{{tree}}", made.commit)];
                let tree = git_line(&git, &read).await.unwrap();
                (made, tree)
            };
            let (made, tree) = again().await;
            let numbers: Vec<u64> = made.steps.iter().map(|(number, _)| *number).collect();
            assert_eq!(numbers, [1, 3]);
            assert_eq!(made.steps[1].1, tree, "the last tree is the commit's");
            let files = BTreeSet::from(["a.txt".to_owned()]);
            assert_eq!(made.apart, [(2, files), (4, BTreeSet::new())]);
            assert_eq!(again().await.0, made, "again");
            let expected = shop.commit(&[&base], &[("a.txt", "2\n"), ("b.txt", "2\n")]);
            assert_eq!(shop.run(&["rev-parse", &format!("{expected}^{{tree}}")], ""), tree);
        }
        assert_eq!(shop.beside(), before, "nothing of it stays");
        let (git, _folder) = open_quarantine(&shop.git()).unwrap();
        let none = put_together(&git, &base, &[], false).await.unwrap();
        assert_eq!(none.commit, base);
    }
}
