//! A pull request, as GitHub describes it.

use codebutler_crds::names;
use codebutler_crds::thread::{PullRequest, PullState};
use codebutler_crds::wire::{ChangeSize, PullRequestState};
use jiff::Timestamp;
use serde::Deserialize;
use serde_json::Value;

use super::text;
use crate::remote::Remote;

/// Characters of a title that are recorded.
const TITLE: usize = 250;

/// A GitHub account, as the author of something.
#[derive(Clone, Debug, Deserialize)]
pub(super) struct GitHubAccount {
    pub login: String,
    #[serde(default, rename = "type")]
    pub kind: Option<String>,
}

/// A pull request as GitHub describes it.
#[derive(Clone, Debug, Deserialize)]
pub struct GitHubPull {
    pub number: u64,
    /// Node id in GraphQL.
    #[serde(default)]
    pub node_id: String,
    pub html_url: String,
    #[serde(default)]
    pub title: String,
    #[serde(default)]
    pub body: Option<String>,
    /// The commit on the base branch, once merged.
    #[serde(default)]
    pub merge_commit_sha: Option<String>,
    state: String,
    #[serde(default)]
    merged_at: Option<String>,
    #[serde(default)]
    mergeable_state: Option<String>,
    #[serde(default)]
    merged_by: Option<GitHubAccount>,
    /// Size of the change: present for a single pull request, absent in lists.
    #[serde(default)]
    changed_files: Option<u64>,
    #[serde(default)]
    additions: Option<u64>,
    #[serde(default)]
    deletions: Option<u64>,
    #[serde(default)]
    closed_at: Option<String>,
    #[serde(default)]
    updated_at: Option<String>,
    #[serde(default)]
    mergeable: Option<bool>,
    #[serde(default)]
    draft: Option<bool>,
    /// Absent: the account is gone.
    #[serde(default)]
    user: Option<GitHubAccount>,
    /// Requested reviewers, kept in any form: nothing else depends on them.
    #[serde(default)]
    requested_reviewers: Value,
    #[serde(default)]
    requested_teams: Value,
    head: PullHead,
    #[serde(default)]
    base: Option<PullBase>,
}

#[derive(Clone, Debug, Deserialize)]
struct PullBase {
    #[serde(rename = "ref")]
    branch: String,
}

#[derive(Clone, Debug, Deserialize)]
struct PullHead {
    sha: String,
    #[serde(default, rename = "ref")]
    branch: Option<String>,
    /// Author of the head branch; absent once the account is gone.
    #[serde(default)]
    user: Option<GitHubAccount>,
    /// Gone where somebody deleted the fork.
    #[serde(default)]
    repo: Option<HeadRepository>,
}

#[derive(Clone, Debug, Deserialize)]
struct HeadRepository {
    #[serde(default)]
    full_name: Option<String>,
}

impl GitHubPull {
    /// Converts the pull request for a Thread's record. The title is one line without what a
    /// terminal would act on.
    #[must_use]
    pub fn record(&self) -> PullRequest {
        let words = self.title.split_whitespace().collect::<Vec<_>>().join(" ");
        let title = words.chars().filter(|c| !c.is_control()).take(TITLE).collect();
        PullRequest { title, ..PullRequest::of(self.number, &self.html_url) }
    }

    /// Neither closed nor merged. A state that is not known yet ends nothing.
    pub fn is_open(&self) -> bool {
        self.state != "closed" && !self.is_merged()
    }

    pub fn is_merged(&self) -> bool {
        self.merged_at.is_some()
    }

    /// Returns the newest commit.
    pub fn head(&self) -> &str {
        &self.head.sha
    }

    /// Returns the author's login.
    pub fn author(&self) -> String {
        self.user
            .as_ref()
            .map_or_else(|| "ghost".to_owned(), |user| text::one_line(&user.login, 60))
    }

    /// `open`, `draft`, `merged` or `closed`.
    pub fn state_word(&self) -> &'static str {
        match self.standing() {
            PullState::Merged => "merged",
            PullState::Open if self.draft == Some(true) => "draft",
            PullState::Open => "open",
            PullState::Closed => "closed",
        }
    }

    /// The repository of its commits where it is another one than `remote`: `owner/name`, or that it is gone.
    pub fn fork(&self, remote: &Remote) -> Option<String> {
        let Some(repo) = &self.head.repo else { return Some("deleted".to_owned()) };
        let here = format!("{}/{}", remote.owner, remote.name);
        let name = repo.full_name.as_deref()?;
        (!name.eq_ignore_ascii_case(&here)).then(|| text::one_line(name, 150))
    }

    /// Returns the name of its branch, with the owner before it where `remote` does not have it.
    pub fn head_name(&self, remote: &Remote) -> String {
        match (&self.head.user, self.fork(remote)) {
            (Some(user), Some(_)) => format!("{}:{}", user.login, self.branch()),
            _ => self.branch().to_owned(),
        }
    }

    fn branch(&self) -> &str {
        self.head.branch.as_deref().unwrap_or_default()
    }

    /// True if its branch is one that CodeButler makes in `remote`.
    pub fn is_own_branch(&self, remote: &Remote) -> bool {
        self.fork(remote).is_none() && self.branch().starts_with(&names::branch_name(""))
    }

    /// True if its branch is this one of `remote`.
    pub fn is_of_branch(&self, branch: &str, remote: &Remote) -> bool {
        self.branch() == branch && self.fork(remote).is_none()
    }

    /// People and teams that were asked for a review and have given none.
    pub fn reviewers(&self) -> Vec<String> {
        let names = |field: &str, all: &Value| -> Vec<String> {
            let all = all.as_array().into_iter().flatten();
            let names = all.filter_map(|one| one[field].as_str());
            names.map(|name| text::one_line(name, 60)).collect()
        };
        let people = names("login", &self.requested_reviewers).into_iter();
        people.chain(names("slug", &self.requested_teams)).take(20).collect()
    }

    pub const fn mergeable(&self) -> Option<bool> {
        self.mergeable
    }

    /// The obstacle to a merge, in GitHub's word.
    pub fn merge_state(&self) -> Option<String> {
        self.mergeable_state.as_ref().map(|word| text::one_line(word, 40))
    }

    /// The number of changed files, where one pull request was asked for.
    pub fn file_count(&self) -> Option<usize> {
        self.changed_files.and_then(|count| usize::try_from(count).ok())
    }

    /// The branch that it would be merged into.
    pub fn base(&self) -> &str {
        self.base.as_ref().map_or("", |base| &base.branch)
    }

    /// Returns true if GitHub sees nothing that keeps it from being merged.
    pub fn is_ready(&self) -> bool {
        matches!(self.mergeable_state.as_deref(), Some("clean" | "has_hooks" | "unstable"))
    }

    /// The account that merged it.
    pub fn merged_by(&self) -> String {
        let by = self.merged_by.as_ref();
        by.map_or_else(|| "Somebody".to_owned(), |by| text::one_line(&by.login, 60))
    }

    /// Returns the time at which it was closed or merged, in RFC 3339.
    pub fn closed_at(&self) -> Option<&str> {
        self.closed_at.as_deref()
    }

    /// Returns the time of its last change, in RFC 3339.
    pub fn updated_at(&self) -> Option<&str> {
        self.updated_at.as_deref()
    }

    /// Returns the time of its last change.
    pub fn updated(&self) -> Option<Timestamp> {
        self.updated_at.as_ref()?.parse().ok()
    }

    pub fn standing(&self) -> PullState {
        match () {
            () if self.is_merged() => PullState::Merged,
            () if self.is_open() => PullState::Open,
            () => PullState::Closed,
        }
    }

    /// Returns the size of the change; absent for a pull request of a list.
    pub fn size(&self) -> Option<ChangeSize> {
        let lines = self.additions?.saturating_add(self.deletions?);
        Some(ChangeSize { files: self.changed_files?, lines })
    }

    /// Converts the pull request for the agent.
    pub fn into_state(self, created: bool) -> PullRequestState {
        let state = match self.standing() {
            PullState::Merged => "merged",
            PullState::Open => "open",
            PullState::Closed => "closed",
        };
        PullRequestState {
            state: state.to_owned(),
            number: self.number,
            url: self.html_url,
            title: self.title,
            head: self.head.sha,
            mergeable: self.mergeable,
            created,
            merge_state: self.mergeable_state,
            checks: Vec::new(),
            reviews: Vec::new(),
            remarks: Vec::new(),
            kept: Vec::new(),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn a_pull_requests_state_is_one_word() {
        let pull = |state: &str, merged_at: Option<&str>| -> GitHubPull {
            serde_json::from_value(json!({
                "number": 7, "html_url": "https://h/7", "title": "t", "state": state,
                "merged_at": merged_at, "head": {"sha": "abc", "ref": "b"}, "unknown": 1,
            }))
            .unwrap()
        };
        assert_eq!(pull("open", None).into_state(true).state, "open");
        assert_eq!(pull("queued", None).into_state(true).state, "open");
        assert_eq!(pull("closed", None).into_state(false).state, "closed");
        assert_eq!(pull("closed", Some("2026-01-01")).into_state(false).state, "merged");
    }

    #[test]
    fn a_title_is_recorded_as_one_line_that_a_terminal_may_show() {
        let pull: GitHubPull = serde_json::from_value(json!({
            "number": 7, "html_url": "https://h/7", "state": "open",
            "title": format!("Fix\n the\u{1b}[31m price{}", "x".repeat(300)),
            "head": {"sha": "abc", "ref": "b"},
        }))
        .unwrap();
        let record = pull.record();
        assert!(record.title.starts_with("Fix the[31m pricex"), "{}", record.title);
        assert_eq!((record.title.chars().count(), record.number), (250, 7));
    }

    #[test]
    fn a_fork_and_one_that_is_gone_are_told_apart() {
        let remote = Remote::parse("https://github.com/acme/shop").unwrap();
        let pull = |branch: &str, repo: Value| -> GitHubPull {
            serde_json::from_value(json!({
                "number": 7, "html_url": "https://h/7", "state": "open", "draft": true,
                "user": null, "requested_reviewers": [{"login": "bo"}], "requested_teams": [{"slug": "core"}],
                "head": {"sha": "abc", "ref": branch, "user": {"login": "eve"}, "repo": repo},
            }))
            .unwrap()
        };
        let own = pull("codebutler/shop-1", json!({"full_name": "Acme/shop"}));
        assert_eq!((own.fork(&remote), own.is_own_branch(&remote)), (None, true));
        assert_eq!(own.head_name(&remote), "codebutler/shop-1");
        let fork = pull("codebutler/shop-1", json!({"full_name": "eve/shop"}));
        assert_eq!(fork.fork(&remote).as_deref(), Some("eve/shop"));
        assert_eq!(fork.head_name(&remote), "eve:codebutler/shop-1");
        assert!(!fork.is_own_branch(&remote), "anybody may name a branch so");
        let gone = pull("fix", json!(null));
        assert_eq!(gone.fork(&remote).as_deref(), Some("deleted"));
        assert_eq!((gone.state_word(), &*gone.author()), ("draft", "ghost"));
        assert_eq!(gone.reviewers(), ["bo", "core"]);
    }

    #[test]
    fn its_size_is_known_where_the_host_says_all_of_it() {
        let pull = |more: Value| -> GitHubPull {
            let mut all = json!({
                "number": 7, "html_url": "https://h/7", "state": "open", "head": {"sha": "abc"},
            });
            all.as_object_mut().unwrap().extend(more.as_object().unwrap().clone());
            serde_json::from_value(all).unwrap()
        };
        let whole = pull(json!({"changed_files": 2, "additions": 3, "deletions": 1}));
        assert_eq!(whole.size(), Some(ChangeSize { files: 2, lines: 4 }));
        assert_eq!(pull(json!({"changed_files": 2, "additions": 3})).size(), None);
        assert_eq!(pull(json!({})).size(), None);
    }
}
