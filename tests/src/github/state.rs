//! The host's state besides Git: pull requests, comments, reviews.

use std::borrow::Cow;
use std::collections::{BTreeMap, BTreeSet};

use jiff::Timestamp;
use serde::{Deserialize, Serialize};

use super::git::{BareRepository, GitError};
use super::permissions::PersonStanding;
use super::settings::RepositoryRules;

/// A repository on the host.
#[derive(Debug)]
pub(super) struct HostedRepository {
    pub id: u64,
    pub owner: String,
    pub name: String,
    pub default_branch: String,
    /// Names that branches have now, by the ones that they had.
    pub renamed: BTreeMap<String, String>,
    pub created_at: Timestamp,
    pub git: BareRepository,
    pub pulls: BTreeMap<u64, HostedPull>,
    /// Issues by number; a pull request has none of these.
    pub issues: BTreeMap<u64, HostedIssue>,
    /// Releases in the order of their publication.
    pub releases: Vec<HostedRelease>,
    /// Checks of all commits, in the order of their creation.
    pub checks: Vec<HostedCheck>,
    pub rules: RepositoryRules,
    /// Standing of people by login.
    pub people: BTreeMap<String, PersonStanding>,
    /// Branches as last seen, and when that changed.
    pub tips: BTreeMap<String, String>,
    pub pushed_at: Timestamp,
    /// Moves of branches, oldest first.
    pub activity: Vec<BranchActivity>,
    /// Pull requests in the merge queue, and those that GitHub puts there or merges when it may.
    pub queue: Vec<u64>,
    pub auto_merge: Vec<u64>,
}

/// A recorded move of a branch.
#[derive(Clone, Debug)]
pub(super) struct BranchActivity {
    pub id: u64,
    pub branch: String,
    pub before: Option<String>,
    pub after: Option<String>,
    pub at: Timestamp,
    pub kind: &'static str,
    /// Login of the person; `None` for a move that came to the repository past the host.
    pub actor: Option<String>,
}

/// A release of the repository.
#[derive(Clone, Debug)]
pub(super) struct HostedRelease {
    pub id: u64,
    pub tag: String,
    pub name: String,
    pub body: String,
    pub prerelease: bool,
    pub target: String,
    pub created_at: Timestamp,
}

/// An issue of the repository.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub(super) struct HostedIssue {
    pub id: u64,
    pub number: u64,
    pub title: String,
    pub body: Option<String>,
    pub user: String,
    pub labels: Vec<String>,
    pub open: bool,
    pub created_at: Timestamp,
    pub comments: Vec<PullComment>,
    /// `completed`, `not_planned`, … of a closed one.
    #[serde(default)]
    pub reason: Option<String>,
    #[serde(default)]
    pub closed_at: Option<Timestamp>,
    /// Logins of the assigned people.
    #[serde(default)]
    pub assignees: Vec<String>,
    /// The number of the issue that it is below.
    #[serde(default)]
    pub parent: Option<u64>,
}

impl HostedIssue {
    /// A new one: its id and number, who opened it, title and text.
    pub(super) fn opened(
        (id, number): (u64, u64),
        user: &str,
        title: String,
        body: Option<String>,
    ) -> Self {
        Self {
            id,
            number,
            title,
            body,
            user: user.to_owned(),
            labels: Vec::new(),
            open: true,
            created_at: Timestamp::now(),
            comments: Vec::new(),
            reason: None,
            closed_at: None,
            assignees: Vec::new(),
            parent: None,
        }
    }
}

/// A service's report on a commit: a check run, or a commit status.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub(super) struct HostedCheck {
    pub id: u64,
    pub commit: String,
    pub name: String,
    /// A check run's conclusion (none while it runs), or a status' state.
    pub state: Option<String>,
    pub summary: String,
    /// A commit status, the older form.
    pub status: bool,
    pub at: Timestamp,
}

/// A pull request as the host stores it.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub(super) struct HostedPull {
    pub id: u64,
    pub number: u64,
    pub title: String,
    pub body: Option<String>,
    pub user: String,
    pub draft: bool,
    /// Names of head and base branch.
    pub head: String,
    pub base: String,
    /// Object ids of head and base, as last seen.
    pub head_sha: String,
    pub base_sha: String,
    pub open: bool,
    pub merged: Option<MergedPull>,
    pub created_at: Timestamp,
    pub updated_at: Timestamp,
    pub closed_at: Option<Timestamp>,
    pub comments: Vec<PullComment>,
    pub reviews: Vec<PullReview>,
    /// Review comments on lines.
    #[serde(default)]
    pub lines: Vec<LineComment>,
    /// The fork that its branch is in.
    #[serde(default)]
    pub fork: Option<PullFork>,
    /// Accounts that were asked for a review.
    #[serde(default)]
    pub reviewers: Vec<String>,
}

/// A fork of the repository.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub(super) struct PullFork {
    /// Owner of the fork, which has the repository's name.
    pub owner: String,
    /// True once the owner has deleted the fork.
    pub deleted: bool,
}

/// A comment on a line of a pull request.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub(super) struct LineComment {
    #[serde(flatten)]
    pub comment: PullComment,
    /// The review that it is part of: the real host makes one for every such comment.
    pub review: u64,
    pub path: String,
    pub line: u64,
    /// First of several lines.
    #[serde(default)]
    pub first: Option<u64>,
    /// A line of the version before the change.
    #[serde(default)]
    pub removed: bool,
    pub commit: String,
}

/// The merge of a pull request: commit, time and person.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub(super) struct MergedPull {
    pub sha: String,
    pub at: Timestamp,
    pub by: String,
}

/// A comment in a pull request's conversation.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub(super) struct PullComment {
    pub id: u64,
    pub user: String,
    pub body: String,
    pub created_at: Timestamp,
    /// The author's association with the repository, in GitHub's words.
    #[serde(default = "member")]
    pub association: Cow<'static, str>,
    /// Reactions as account and content.
    #[serde(default)]
    pub reactions: Vec<(String, String)>,
}

/// Association of an account with a token.
pub(super) const fn member() -> Cow<'static, str> {
    Cow::Borrowed("COLLABORATOR")
}

/// A review of a pull request.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub(super) struct PullReview {
    pub id: u64,
    pub user: String,
    pub body: String,
    /// `APPROVED`, `CHANGES_REQUESTED` or `COMMENTED`.
    pub state: Cow<'static, str>,
    pub commit: String,
    pub submitted_at: Timestamp,
    /// The author's association with the repository, in GitHub's words.
    #[serde(default = "member")]
    pub association: Cow<'static, str>,
}

impl HostedRepository {
    pub(super) fn full_name(&self) -> String {
        format!("{}/{}", self.owner, self.name)
    }

    /// Issues and pull requests are counted together.
    pub(super) fn next_number(&self) -> u64 {
        (self.pulls.len() + self.issues.len()) as u64 + 1
    }

    async fn note_activity(&mut self, now: &BTreeMap<String, String>, actor: Option<&str>) {
        let names: BTreeSet<String> = self.tips.keys().chain(now.keys()).cloned().collect();
        for branch in names {
            let (before, after) = (self.tips.get(&branch).cloned(), now.get(&branch).cloned());
            let kind = match (&before, &after) {
                _ if before == after => continue,
                (None, _) => "branch_creation",
                (_, None) => "branch_deletion",
                (Some(before), Some(after)) => {
                    let forward = ["merge-base", "--is-ancestor", before, after];
                    if self.git.succeeds(&forward).await { "push" } else { "force_push" }
                }
            };
            let (id, at) = (self.activity.len() as u64 + 1, Timestamp::now());
            let actor = actor.map(str::to_owned);
            self.activity.push(BranchActivity { id, branch, before, after, at, kind, actor });
        }
    }

    /// Brings open pull requests up to date with what was pushed meanwhile.
    pub(super) async fn refresh(&mut self) -> Result<(), GitError> {
        self.refresh_by(None).await
    }

    /// Brings pull requests up to date as [`HostedRepository::refresh`] does; moves of branches are
    /// recorded as the actor's.
    pub(super) async fn refresh_by(&mut self, actor: Option<&str>) -> Result<(), GitError> {
        let branches = self.git.branches().await?;
        if self.tips != branches {
            self.note_activity(&branches, actor).await;
            self.tips.clone_from(&branches);
            self.pushed_at = Timestamp::now();
        }
        let merged: BTreeMap<String, String> = self
            .pulls
            .values()
            .filter(|pull| pull.merged.is_some() && pull.fork.is_none())
            .map(|pull| (pull.head.clone(), pull.base.clone()))
            .collect();
        for pull in self.pulls.values_mut().filter(|p| p.open) {
            if !branches.contains_key(&pull.base) {
                // Like the real host: what was for a branch that was merged is for where that went.
                let next = merged.get(&pull.base).filter(|next| branches.contains_key(*next));
                let Some(next) = next else {
                    pull.close(Timestamp::now());
                    continue;
                };
                pull.base.clone_from(next);
            }
            // A fork's branch moves elsewhere, and is not missed.
            let of_fork = pull.fork.as_ref().map(|_| pull.head_sha.clone());
            let head = of_fork.as_ref().or_else(|| branches.get(&pull.head));
            let now = Timestamp::now();
            if let Some(base) = branches.get(&pull.base) {
                let moved = *base != pull.base_sha;
                pull.base_sha.clone_from(base);
                let contained = ["merge-base", "--is-ancestor", &pull.head_sha, base];
                let same_head = head.is_none_or(|h| *h == pull.head_sha);
                if moved && same_head && self.git.succeeds(&contained).await {
                    // Someone pushed its commits to the base branch.
                    let by = pull.user.clone();
                    pull.merged = Some(MergedPull { sha: pull.head_sha.clone(), at: now, by });
                    pull.close(now);
                    continue;
                }
            }
            match head {
                Some(head) if *head != pull.head_sha => {
                    pull.head_sha.clone_from(head);
                    pull.updated_at = now;
                    let name = format!("refs/pull/{}/head", pull.number);
                    self.git.run(&["update-ref", &name, head]).await?;
                }
                Some(_) => {}
                // Like the real host: without its branch a pull request is closed.
                None => pull.close(now),
            }
        }
        Ok(())
    }
}

impl HostedPull {
    /// A new one: head, its commit, base, its commit.
    pub(super) fn opened(
        id: u64,
        number: u64,
        (head, head_sha, base, base_sha): (String, String, String, String),
        user: &str,
    ) -> Self {
        let now = Timestamp::now();
        Self {
            id,
            number,
            title: String::new(),
            body: None,
            user: user.to_owned(),
            draft: false,
            head,
            base,
            head_sha,
            base_sha,
            open: true,
            merged: None,
            created_at: now,
            updated_at: now,
            closed_at: None,
            comments: Vec::new(),
            reviews: Vec::new(),
            lines: Vec::new(),
            fork: None,
            reviewers: Vec::new(),
        }
    }

    pub(super) fn close(&mut self, now: Timestamp) {
        self.open = false;
        self.closed_at = Some(now);
        self.updated_at = now;
    }
}
