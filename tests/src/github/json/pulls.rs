//! Pull requests and the files that they change.

use serde_json::{Value, json};

use super::super::git::FileChange;
use super::super::state::{HostedPull, HostedRepository, PullFork};
use super::super::urls::GitHubUrls;
use super::{id_of, node_id, repository_json, user_json, whole_second};

pub(in crate::github) fn change_json(
    urls: &GitHubUrls,
    repo: &HostedRepository,
    at: &str,
    change: &FileChange,
) -> Value {
    let path = &change.path;
    let mut value = json!({
        "sha": change.blob, "filename": path,
        "status": match change.status {
            'A' => "added",
            'D' => "removed",
            'R' => "renamed",
            _ => "modified",
        },
        "additions": change.additions, "deletions": change.deletions,
        "changes": change.additions + change.deletions,
        "blob_url": urls.page(repo, &format!("/blob/{at}/{path}")),
        "raw_url": urls.page(repo, &format!("/raw/{at}/{path}")),
        "contents_url": urls.repo(repo, &format!("/contents/{path}?ref={at}")),
    });
    if !change.patch.is_empty() {
        value["patch"] = change.patch.clone().into();
    }
    if let Some(previous) = &change.previous {
        value["previous_filename"] = previous.clone().into();
    }
    value
}

/// Lines of patches in one answer, behind which the real host shows none, and counts nothing.
const PATCH_LINES: usize = 20_000;

/// The changed files of a pull request, as one page of answers shows them.
pub(in crate::github) fn changes_json(
    urls: &GitHubUrls,
    repo: &HostedRepository,
    at: &str,
    changes: &[FileChange],
) -> Vec<Value> {
    let mut lines = 0;
    let one = |change: &FileChange| {
        let mut value = change_json(urls, repo, at, change);
        lines += change.patch.lines().count();
        if lines > PATCH_LINES
            && let Some(fields) = value.as_object_mut()
        {
            fields.remove("patch");
            for count in ["additions", "deletions", "changes"] {
                fields.insert(count.to_owned(), 0.into());
            }
        }
        value
    };
    changes.iter().map(one).collect()
}

/// A pull request as lists show it.
pub(in crate::github) fn pull_json(
    urls: &GitHubUrls,
    repo: &HostedRepository,
    pull: &HostedPull,
) -> Value {
    let api = urls.repo(repo, &format!("/pulls/{}", pull.number));
    let issue = urls.repo(repo, &format!("/issues/{}", pull.number));
    let page = urls.page(repo, &format!("/pull/{}", pull.number));
    let statuses = urls.repo(repo, &format!("/statuses/{}", pull.head_sha));
    let side = |branch: &str, sha: &str| {
        json!({
            "label": format!("{}:{branch}", repo.owner), "ref": branch, "sha": sha,
            "user": user_json(urls, &repo.owner), "repo": repository_json(urls, repo),
        })
    };
    let head = match &pull.fork {
        None => side(&pull.head, &pull.head_sha),
        Some(fork) => fork_side(urls, repo, pull, fork),
    };
    let links = json!({
        "self": {"href": api}, "html": {"href": page}, "issue": {"href": issue},
        "comments": {"href": format!("{issue}/comments")},
        "review_comments": {"href": format!("{api}/comments")},
        "review_comment": {"href": urls.repo(repo, "/pulls/comments{/number}")},
        "commits": {"href": format!("{api}/commits")}, "statuses": {"href": statuses},
    });
    json!({
        "id": pull.id, "node_id": node_id("PR", pull.id), "number": pull.number,
        "url": api, "html_url": page, "issue_url": issue,
        "diff_url": format!("{page}.diff"), "patch_url": format!("{page}.patch"),
        "commits_url": format!("{api}/commits"),
        "review_comments_url": format!("{api}/comments"),
        "review_comment_url": urls.repo(repo, "/pulls/comments{/number}"),
        "comments_url": format!("{issue}/comments"), "statuses_url": statuses,
        "state": if pull.open { "open" } else { "closed" }, "locked": false,
        "title": pull.title, "body": pull.body, "user": user_json(urls, &pull.user),
        "draft": pull.draft, "labels": [], "milestone": null, "active_lock_reason": null,
        "assignee": null, "assignees": [], "requested_teams": [],
        "requested_reviewers": pull.reviewers.iter().map(|one| user_json(urls, one)).collect::<Vec<_>>(),
        "auto_merge": null, "author_association": "COLLABORATOR",
        "created_at": whole_second(pull.created_at), "updated_at": whole_second(pull.updated_at),
        "closed_at": pull.closed_at.map(whole_second),
        "merged_at": pull.merged.as_ref().map(|m| whole_second(m.at)),
        "merge_commit_sha": pull.merged.as_ref().map(|m| m.sha.clone()),
        "head": head, "base": side(&pull.base, &pull.base_sha),
        "_links": links,
    })
}

/// The head of a pull request from a fork: without a repository where that was deleted.
fn fork_side(
    urls: &GitHubUrls,
    repo: &HostedRepository,
    pull: &HostedPull,
    fork: &PullFork,
) -> Value {
    let of = if fork.deleted {
        Value::Null
    } else {
        let mut of = repository_json(urls, repo);
        of["owner"] = user_json(urls, &fork.owner);
        of["full_name"] = format!("{}/{}", fork.owner, repo.name).into();
        of["id"] = id_of(&fork.owner).into();
        of["fork"] = true.into();
        of
    };
    json!({
        "label": format!("{}:{}", fork.owner, pull.head), "ref": pull.head, "sha": pull.head_sha,
        "user": user_json(urls, &fork.owner), "repo": of,
    })
}

/// Fields that only the answer about a single pull request has.
pub(in crate::github) struct PullDetail {
    pub mergeable: Option<bool>,
    pub commits: usize,
    pub changes: Vec<FileChange>,
}

pub(in crate::github) fn pull_in_full(
    urls: &GitHubUrls,
    repo: &HostedRepository,
    pull: &HostedPull,
    detail: &PullDetail,
) -> Value {
    let mut value = pull_json(urls, repo, pull);
    value["merged"] = pull.merged.is_some().into();
    value["merged_by"] =
        pull.merged.as_ref().map_or(Value::Null, |merged| user_json(urls, &merged.by));
    value["mergeable"] = detail.mergeable.into();
    value["rebaseable"] = detail.mergeable.into();
    value["mergeable_state"] = match detail.mergeable {
        _ if pull.draft && pull.open => "draft",
        Some(true) if repo.unmet(pull).is_some() || repo.rules.merge_queue => "blocked",
        Some(true) => "clean",
        Some(false) => "dirty",
        None => "unknown",
    }
    .into();
    value["comments"] = pull.comments.len().into();
    value["review_comments"] = pull.lines.len().into();
    value["maintainer_can_modify"] = false.into();
    value["commits"] = detail.commits.into();
    value["additions"] = detail.changes.iter().map(|c| c.additions).sum::<u64>().into();
    value["deletions"] = detail.changes.iter().map(|c| c.deletions).sum::<u64>().into();
    value["changed_files"] = detail.changes.len().into();
    value
}
