//! A pull request, as GitHub describes it.

use codebutler_crds::thread::PullState;
use codebutler_crds::wire::{ChangeSize, PullRequestState};
use jiff::Timestamp;
use serde::Deserialize;

use super::text;

/// Who did something, as GitHub names it.
#[derive(Clone, Debug, Deserialize)]
pub struct GitHubAccount {
    pub login: String,
    #[serde(default, rename = "type")]
    pub kind: Option<String>,
}

/// A pull request as GitHub describes it.
#[derive(Clone, Debug, Deserialize)]
pub struct GitHubPull {
    pub number: u64,
    /// Its name in GraphQL.
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
    /// What it changes: said of one pull request, not in lists.
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
    head: Head,
    #[serde(default)]
    base: Option<PullBase>,
}

#[derive(Clone, Debug, Deserialize)]
struct PullBase {
    #[serde(rename = "ref")]
    branch: String,
}

#[derive(Clone, Debug, Deserialize)]
struct Head {
    sha: String,
}

impl GitHubPull {
    /// Neither closed nor merged. A state that is not known yet ends nothing.
    pub fn is_open(&self) -> bool {
        self.state != "closed" && !self.is_merged()
    }

    pub fn is_merged(&self) -> bool {
        self.merged_at.is_some()
    }

    /// Its newest commit.
    pub fn head(&self) -> &str {
        &self.head.sha
    }

    /// The branch that it would be merged into.
    pub fn base(&self) -> &str {
        self.base.as_ref().map_or("", |base| &base.branch)
    }

    /// Whether GitHub sees nothing that keeps it from being merged.
    pub fn is_ready(&self) -> bool {
        matches!(self.mergeable_state.as_deref(), Some("clean" | "has_hooks" | "unstable"))
    }

    /// The account that merged it.
    pub fn merged_by(&self) -> String {
        let by = self.merged_by.as_ref();
        by.map_or_else(|| "Somebody".to_owned(), |by| text::one_line(&by.login, 60))
    }

    /// When it was closed or merged, in RFC 3339.
    pub fn closed_at(&self) -> Option<&str> {
        self.closed_at.as_deref()
    }

    /// When anything last happened to it, in RFC 3339.
    pub fn updated_at(&self) -> Option<&str> {
        self.updated_at.as_deref()
    }

    /// The same as a time.
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

    /// What it changes, where one pull request was asked for.
    pub fn size(&self) -> Option<ChangeSize> {
        let lines = self.additions?.saturating_add(self.deletions?);
        Some(ChangeSize { files: self.changed_files?, lines })
    }

    /// For the agent.
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
    fn its_size_is_known_where_the_host_says_all_of_it() {
        let pull = |more: serde_json::Value| -> GitHubPull {
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
