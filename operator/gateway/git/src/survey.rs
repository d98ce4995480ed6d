//! The branches of a Repo as the remote has them at one moment, and what can be asked of their commits.

use std::collections::HashMap;
use std::sync::Arc;

use codebutler_gateway_core::redact::SecretRedactor;

use super::change::BranchChange;
use super::command::{CommandError, GitRepository};
use super::definitions::HEADERS;
use super::fork::{self, RemovedFromBase};
use super::graft;
use super::host::RemoteRefs;
use super::merges::{self, TriedMerge};
use super::mirror::{RefSnapshot, RepoMirror};

/// Branches could not be surveyed; the text is for the log and for people.
#[derive(Debug, thiserror::Error)]
pub enum SurveyError {
    #[error("{0}")]
    Git(String),
    /// The host did not answer, so the last known refs may be old.
    #[error("the Git host is away: {0}")]
    Away(String),
    #[error("the base branch `{0}` is not on the remote")]
    NoBase(String),
}

/// Commits that separate a commit from the base branch's tip.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct BranchDistance {
    /// Commits that it has more.
    pub ahead: u64,
    /// Commits of the base branch that it lacks.
    pub behind: u64,
}

/// The remote as a look found it.
pub(crate) struct RemoteView<'v> {
    pub git: &'v GitRepository,
    pub refs: &'v RemoteRefs,
}

/// The remote's branches at one moment.
#[derive(Clone)]
pub struct BranchSurvey {
    pub(super) mirror: Arc<RepoMirror>,
    refs: Arc<RemoteRefs>,
    /// The tip of the base branch.
    pub base: String,
}

impl BranchSurvey {
    /// Builds the survey from a copy that was just brought up to date.
    ///
    /// # Errors
    /// When the remote could not be asked: nothing is said of what may be old.
    pub(super) fn of(
        mirror: Arc<RepoMirror>,
        snapshot: RefSnapshot,
        branch: &str,
    ) -> Result<Self, SurveyError> {
        if let Some(why) = snapshot.stale {
            return Err(SurveyError::Away(why));
        }
        let base = snapshot.refs.get(&format!("refs/heads/{branch}")).cloned();
        let base = base.ok_or_else(|| SurveyError::NoBase(branch.to_owned()))?;
        Ok(Self { mirror, refs: snapshot.refs, base })
    }

    /// Returns the tip of a branch, unless it is the base branch's own.
    pub fn tip(&self, branch: &str) -> Option<&str> {
        let tip = self.refs.get(&format!("refs/heads/{branch}")).map(String::as_str);
        tip.filter(|tip| *tip != self.base)
    }

    pub(super) fn view(&self) -> RemoteView<'_> {
        RemoteView { git: self.mirror.git(), refs: &self.refs }
    }

    /// Returns the difference between a commit and its merge base with the base branch.
    ///
    /// # Errors
    /// When Git can't tell.
    pub async fn change(&self, tip: &str) -> Result<BranchChange, CommandError> {
        read_change(self.mirror.git(), &self.base, tip).await
    }

    /// Tries whether pairs of commits merge as text.
    pub async fn merges(&self, pairs: &[(String, String)]) -> Vec<TriedMerge> {
        merges::try_merges(self.mirror.git(), pairs).await
    }

    /// Tries whether a tip merges with the base branch, given that the base branch contains all commits that `merged`
    /// lead to.
    pub(crate) async fn merge_above(&self, tip: &str, merged: &[String]) -> TriedMerge {
        match graft::try_merge(self.mirror.git(), (&self.base, tip), merged).await {
            Ok(tried) => tried,
            Err(error) => {
                tracing::warn!(tip, %error, "merge_check_failed");
                TriedMerge::unknown()
            }
        }
    }

    /// Returns how far each branch is ahead of and behind the base branch.
    ///
    /// # Errors
    /// When Git can't tell.
    pub async fn apart(&self) -> Result<HashMap<String, BranchDistance>, CommandError> {
        let format = format!("--format=%(objectname) %(ahead-behind:{})", self.base);
        let said = self.mirror.git().run(&["for-each-ref", &format, "refs/heads/"], b"").await?;
        let read = |line: &str| {
            let mut words = line.split(' ');
            let (id, ahead, behind) = (words.next()?, words.next()?, words.next()?);
            Some((
                id.to_owned(),
                BranchDistance { ahead: ahead.parse().ok()?, behind: behind.parse().ok()? },
            ))
        };
        Ok(String::from_utf8_lossy(&said).lines().filter_map(read).collect())
    }
}

impl BranchSurvey {
    /// The newest commit that a tip and the base branch have both.
    ///
    /// # Errors
    /// When Git can't tell, or there is none.
    pub async fn left(&self, tip: &str) -> Result<String, CommandError> {
        let said = self.mirror.git().run(&["merge-base", &self.base, tip], b"").await?;
        Ok(String::from_utf8_lossy(&said).trim().to_owned())
    }
}

impl BranchSurvey {
    /// Finds commits that the base branch had up to a commit and has no more, and that a tip has.
    pub(crate) async fn removed(
        &self,
        fork: (&str, &str),
        (base, redactor): (&str, &SecretRedactor),
    ) -> Result<Option<RemovedFromBase>, CommandError> {
        fork::find_removed(self.mirror.git(), (base, &self.base), fork, redactor).await
    }
}

/// Reads the output of `git diff`; for a change that is too large to be read whole, only files and lines.
async fn read_change(
    git: &GitRepository,
    base: &str,
    tip: &str,
) -> Result<BranchChange, CommandError> {
    let headers = format!("diff.default.xfuncname={HEADERS}");
    let range = format!("{base}...{tip}");
    let common =
        ["--numstat", "-z", "--no-renames", "--no-ext-diff", "--no-textconv", "--no-color"];
    let shown = ["--src-prefix=a/", "--dst-prefix=b/"];
    let whole = [&["-c", &headers, "diff", "-U0", "--patch"], &common[..], &shown, &[&range, "--"]];
    match git.run(&whole.concat(), b"").await {
        Err(CommandError::TooMuch(_)) => {
            let counts = [&["diff"], &common[..], &[&range, "--"]].concat();
            git.run(&counts, b"").await.map(|said| BranchChange::read(&said))
        }
        said => said.map(|said| BranchChange::read(&said)),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::TestRepository;

    #[tokio::test]
    async fn a_branchs_change_is_what_it_did_since_it_left_the_base() {
        let shop = TestRepository::new();
        let cart = "impl Cart {\n    pub fn total(&self) -> u32 {\n        let a = 1;\n        a\n    }\n}\n";
        let first = shop.commit(&[], &[("src/cart.rs", cart), ("b.py", "def f():\n    x = 1\n")]);
        let base = shop.commit(&[&first], &[("other.rs", "fn other() {}\n")]);
        let tip = shop.commit(
            &[&first],
            &[("src/cart.rs", &cart.replace("a = 1", "a = 2")), ("b.py", "def f():\n    x = 2\n")],
        );
        let change = read_change(&shop.git(), &base, &tip).await.unwrap();
        assert_eq!((change.size.files, change.size.lines), (2, 4));
        let symbols: Vec<_> = change.symbols.iter().map(|(p, n)| format!("{p}: {n}")).collect();
        assert_eq!(symbols, ["b.py: f", "src/cart.rs: total"]);
    }
}
