//! The host's JSON shapes, as complete as typed clients insist on.

mod pulls;

use jiff::Timestamp;
use serde_json::{Value, json};

pub(super) use self::pulls::{PullDetail, change_json, changes_json, pull_in_full, pull_json};
use super::git::CommitObject;
use super::state::{
    BranchActivity, HostedCheck, HostedIssue, HostedPull, HostedRepository, LineComment,
    PullComment, PullReview,
};
use super::urls::GitHubUrls;

/// A stable number for a name.
fn id_of(name: &str) -> u64 {
    name.bytes().fold(5381_u64, |hash, byte| (hash * 33 + u64::from(byte)) % 1_000_003)
}

/// GitHub's times are whole seconds.
fn whole_second(time: Timestamp) -> String {
    format!("{time:.0}")
}

fn node_id(kind: &str, id: impl std::fmt::Display) -> String {
    format!("{kind}_{id}")
}

/// A move of a branch, as the activity endpoint shows it.
pub(super) fn activity_json(urls: &GitHubUrls, entry: &BranchActivity) -> Value {
    let commit = |id: &Option<String>| id.clone().unwrap_or_else(|| "0".repeat(40));
    json!({
        "id": entry.id, "node_id": node_id("PSH", entry.id),
        "before": commit(&entry.before), "after": commit(&entry.after),
        "ref": format!("refs/heads/{}", entry.branch), "timestamp": whole_second(entry.at),
        "activity_type": entry.kind, "actor": entry.actor.as_ref().map(|login| user_json(urls, login)),
    })
}

pub(super) fn user_json(urls: &GitHubUrls, login: &str) -> Value {
    let api = urls.api(&format!("/users/{login}"));
    let mut user = json!({
        "login": login, "id": id_of(login), "node_id": node_id("U", id_of(login)),
        "avatar_url": format!("{}/avatars/{login}", urls.web), "gravatar_id": "",
        "url": api, "html_url": format!("{}/{login}", urls.web),
        "type": if login.ends_with("[bot]") { "Bot" } else { "User" }, "user_view_type": "public", "site_admin": false,
    });
    for (key, path) in [
        ("followers_url", "followers"),
        ("following_url", "following"),
        ("gists_url", "gists"),
        ("starred_url", "starred"),
        ("subscriptions_url", "subscriptions"),
        ("organizations_url", "orgs"),
        ("repos_url", "repos"),
        ("events_url", "events"),
        ("received_events_url", "received_events"),
    ] {
        user[key] = format!("{api}/{path}").into();
    }
    user
}

pub(super) fn repository_json(urls: &GitHubUrls, repo: &HostedRepository) -> Value {
    let open = repo.pulls.values().filter(|p| p.open).count();
    let mut value = json!({
        "id": repo.id, "node_id": node_id("R", repo.id),
        "name": repo.name, "full_name": repo.full_name(),
        "owner": user_json(urls, &repo.owner), "private": true, "visibility": "private",
        "html_url": urls.page(repo, ""), "url": urls.repo(repo, ""),
        "clone_url": urls.page(repo, ".git"), "svn_url": urls.page(repo, ""),
        "git_url": format!("git://{}.git", repo.full_name()),
        "ssh_url": format!("git@localhost:{}.git", repo.full_name()),
        "default_branch": repo.default_branch, "open_issues_count": open, "open_issues": open,
        "archived": repo.rules.archived, "topics": [],
        "created_at": repo.created_at, "updated_at": repo.created_at,
        "pushed_at": whole_second(repo.pushed_at),
        "permissions": {"admin": false, "maintain": false, "push": true, "triage": true, "pull": true},
        "allow_squash_merge": repo.rules.squash, "allow_merge_commit": repo.rules.merge,
        "allow_rebase_merge": repo.rules.rebase, "allow_auto_merge": repo.rules.auto_merge,
    });
    for key in ["mirror_url", "homepage", "license", "description", "language"] {
        value[key] = Value::Null;
    }
    for key in ["forks", "forks_count", "stargazers_count", "watchers", "watchers_count", "size"] {
        value[key] = 0.into();
    }
    let has = ["projects", "wiki", "pages", "downloads", "discussions"];
    for key in has.map(|what| format!("has_{what}")) {
        value[key] = false.into();
    }
    for key in ["fork", "disabled", "is_template", "delete_branch_on_merge"] {
        value[key] = false.into();
    }
    value["has_issues"] = true.into();
    for (key, path) in PARTS {
        value[key] = urls.repo(repo, path).into();
    }
    value
}

/// A repository as answers about something else show it.
pub(super) fn repository_in_short(urls: &GitHubUrls, repo: &HostedRepository) -> Value {
    let mut value = repository_json(urls, repo);
    if let Some(fields) = value.as_object_mut() {
        fields.retain(|name, _| !name.starts_with("allow_"));
    }
    value
}

/// A repository as its own endpoint shows it.
pub(super) fn repository_in_full(urls: &GitHubUrls, repo: &HostedRepository) -> Value {
    let mut value = repository_json(urls, repo);
    (value["subscribers_count"], value["network_count"]) = (0.into(), 0.into());
    value
}

/// URL templates of a repository's parts.
const PARTS: [(&str, &str); 36] = [
    ("archive_url", "/{archive_format}{/ref}"),
    ("assignees_url", "/assignees{/user}"),
    ("blobs_url", "/git/blobs{/sha}"),
    ("branches_url", "/branches{/branch}"),
    ("collaborators_url", "/collaborators{/collaborator}"),
    ("comments_url", "/comments{/number}"),
    ("commits_url", "/commits{/sha}"),
    ("compare_url", "/compare/{base}...{head}"),
    ("contents_url", "/contents/{+path}"),
    ("contributors_url", "/contributors"),
    ("deployments_url", "/deployments"),
    ("downloads_url", "/downloads"),
    ("events_url", "/events"),
    ("forks_url", "/forks"),
    ("git_commits_url", "/git/commits{/sha}"),
    ("git_refs_url", "/git/refs{/sha}"),
    ("git_tags_url", "/git/tags{/sha}"),
    ("hooks_url", "/hooks"),
    ("issue_comment_url", "/issues/comments{/number}"),
    ("issue_events_url", "/issues/events{/number}"),
    ("issues_url", "/issues{/number}"),
    ("keys_url", "/keys{/key_id}"),
    ("labels_url", "/labels{/name}"),
    ("languages_url", "/languages"),
    ("merges_url", "/merges"),
    ("milestones_url", "/milestones{/number}"),
    ("notifications_url", "/notifications{?since,all,participating}"),
    ("pulls_url", "/pulls{/number}"),
    ("releases_url", "/releases{/id}"),
    ("stargazers_url", "/stargazers"),
    ("statuses_url", "/statuses/{sha}"),
    ("subscribers_url", "/subscribers"),
    ("subscription_url", "/subscription"),
    ("tags_url", "/tags"),
    ("teams_url", "/teams"),
    ("trees_url", "/git/trees{/sha}"),
];

pub(super) fn reference_json(
    urls: &GitHubUrls,
    repo: &HostedRepository,
    name: &str,
    sha: &str,
) -> Value {
    json!({
        "ref": name, "node_id": node_id("REF", name),
        "url": urls.repo(repo, &format!("/git/{name}")),
        "object": {"type": "commit", "sha": sha, "url": urls.repo(repo, &format!("/git/commits/{sha}"))},
    })
}

/// A branch as the API shows it; `commit` in the long or the short shape, as the answer needs it.
pub(super) fn branch_json(
    urls: &GitHubUrls,
    repo: &HostedRepository,
    name: &str,
    commit: &Value,
) -> Value {
    json!({
        "name": name, "commit": commit, "protected": false,
        "protection": {"enabled": false, "required_status_checks": {
            "enforcement_level": "off", "contexts": [], "checks": [],
        }},
        "protection_url": urls.repo(repo, &format!("/branches/{name}/protection")),
        "_links": {
            "self": urls.repo(repo, &format!("/branches/{name}")),
            "html": urls.page(repo, &format!("/tree/{name}")),
        },
    })
}

fn git_commit(urls: &GitHubUrls, repo: &HostedRepository, commit: &CommitObject) -> Value {
    let who = |(name, email, date): &(String, String, String)| json!({"name": name, "email": email, "date": date});
    json!({
        "url": urls.repo(repo, &format!("/git/commits/{}", commit.sha)),
        "author": who(&commit.author), "committer": who(&commit.committer),
        "message": commit.message, "comment_count": 0,
        "tree": {"sha": commit.tree, "url": urls.repo(repo, &format!("/git/trees/{}", commit.tree))},
        "verification": {"verified": false, "reason": "unsigned", "signature": null, "payload": null, "verified_at": null},
    })
}

pub(super) fn commit_json(
    urls: &GitHubUrls,
    repo: &HostedRepository,
    commit: &CommitObject,
) -> Value {
    let api = |sha: &str| urls.repo(repo, &format!("/commits/{sha}"));
    let page = |sha: &str| urls.page(repo, &format!("/commit/{sha}"));
    let parents = commit.parents.iter();
    let parents = parents.map(|p| json!({"sha": p, "url": api(p), "html_url": page(p)}));
    json!({
        "url": api(&commit.sha), "sha": commit.sha, "node_id": node_id("C", &commit.sha),
        "html_url": page(&commit.sha), "comments_url": format!("{}/comments", api(&commit.sha)),
        "commit": git_commit(urls, repo, commit),
        // Addresses are no accounts here.
        "author": null, "committer": null,
        "parents": parents.collect::<Vec<_>>(),
    })
}

pub(super) fn comment_json(
    urls: &GitHubUrls,
    repo: &HostedRepository,
    pull: u64,
    comment: &PullComment,
) -> Value {
    let kind = if repo.issues.contains_key(&pull) { "issues" } else { "pull" };
    let page = urls.page(repo, &format!("/{kind}/{pull}#issuecomment-{}", comment.id));
    json!({
        "id": comment.id, "node_id": node_id("IC", comment.id),
        "url": urls.repo(repo, &format!("/issues/comments/{}", comment.id)), "html_url": page,
        "issue_url": urls.repo(repo, &format!("/issues/{pull}")),
        "user": user_json(urls, &comment.user), "body": comment.body,
        "author_association": comment.association,
        "created_at": whole_second(comment.created_at), "updated_at": whole_second(comment.created_at),
    })
}

pub(super) fn review_json(
    urls: &GitHubUrls,
    repo: &HostedRepository,
    pull: u64,
    review: &PullReview,
) -> Value {
    let page = urls.page(repo, &format!("/pull/{pull}#pullrequestreview-{}", review.id));
    let api = urls.repo(repo, &format!("/pulls/{pull}"));
    json!({
        "id": review.id, "node_id": node_id("PRR", review.id), "html_url": page,
        "user": user_json(urls, &review.user), "body": review.body, "state": review.state,
        "commit_id": review.commit, "pull_request_url": api,
        "submitted_at": whole_second(review.submitted_at), "author_association": review.association,
        "_links": {"html": {"href": page}, "pull_request": {"href": api}},
    })
}

pub(super) fn line_comment(
    urls: &GitHubUrls,
    repo: &HostedRepository,
    pull: u64,
    at: &LineComment,
) -> Value {
    let comment = &at.comment;
    let page = urls.page(repo, &format!("/pull/{pull}#discussion_r{}", comment.id));
    let api = urls.repo(repo, &format!("/pulls/comments/{}", comment.id));
    let of = urls.repo(repo, &format!("/pulls/{pull}"));
    let side = if at.removed { "LEFT" } else { "RIGHT" };
    json!({
        "id": comment.id, "node_id": node_id("PRRC", comment.id), "url": api, "html_url": page,
        "pull_request_review_id": at.review, "pull_request_url": of,
        "user": user_json(urls, &comment.user), "body": comment.body,
        "path": at.path, "line": at.line, "original_line": at.line, "side": side,
        "start_line": at.first, "original_start_line": at.first, "start_side": at.first.map(|_| side),
        "position": at.line, "original_position": at.line, "subject_type": "line",
        "diff_hunk": "@@", "commit_id": at.commit, "original_commit_id": at.commit,
        "author_association": comment.association,
        "created_at": whole_second(comment.created_at), "updated_at": whole_second(comment.created_at),
        "_links": {"self": {"href": api}, "html": {"href": page}, "pull_request": {"href": of}},
    })
}

pub(super) fn issue_json(urls: &GitHubUrls, repo: &HostedRepository, issue: &HostedIssue) -> Value {
    let api = urls.repo(repo, &format!("/issues/{}", issue.number));
    let label = |name: &String| {
        json!({
            "id": id_of(name), "node_id": node_id("LA", id_of(name)), "name": name,
            "url": urls.repo(repo, &format!("/labels/{name}")), "color": "ededed",
            "default": false, "description": null,
        })
    };
    json!({
        "id": issue.id, "node_id": node_id("I", issue.id), "number": issue.number, "url": api,
        "repository_url": urls.repo(repo, ""), "labels_url": format!("{api}/labels{{/name}}"),
        "comments_url": format!("{api}/comments"), "events_url": format!("{api}/events"),
        "html_url": urls.page(repo, &format!("/issues/{}", issue.number)),
        "title": issue.title, "body": issue.body, "user": user_json(urls, &issue.user),
        "labels": issue.labels.iter().map(label).collect::<Vec<_>>(),
        "state": if issue.open { "open" } else { "closed" }, "state_reason": issue.reason,
        "locked": false, "active_lock_reason": null,
        "assignee": issue.assignees.first().map(|login| user_json(urls, login)),
        "assignees": issue.assignees.iter().map(|login| user_json(urls, login)).collect::<Vec<_>>(),
        "milestone": null, "comments": issue.comments.len(), "author_association": "NONE",
        "created_at": issue.created_at, "updated_at": issue.created_at,
        "closed_at": issue.closed_at.map(whole_second),
    })
}

/// A pull request among the issues.
pub(super) fn pull_as_issue(
    urls: &GitHubUrls,
    repo: &HostedRepository,
    pull: &HostedPull,
) -> Value {
    let (ids, title) = ((pull.id, pull.number), pull.title.clone());
    let as_issue = HostedIssue {
        open: pull.open,
        created_at: pull.created_at,
        comments: pull.comments.clone(),
        ..HostedIssue::opened(ids, &pull.user, title, pull.body.clone())
    };
    let mut value = issue_json(urls, repo, &as_issue);
    let page = urls.page(repo, &format!("/pull/{}", pull.number));
    value["html_url"] = page.clone().into();
    value["pull_request"] = json!({
        "url": urls.repo(repo, &format!("/pulls/{}", pull.number)), "html_url": page,
        "diff_url": format!("{page}.diff"), "patch_url": format!("{page}.patch"), "merged_at": null,
    });
    value
}

pub(super) fn check_run(urls: &GitHubUrls, repo: &HostedRepository, check: &HostedCheck) -> Value {
    let done = check.state.is_some();
    json!({
        "id": check.id, "node_id": node_id("CR", check.id), "name": check.name,
        "head_sha": check.commit, "external_id": "",
        "url": urls.repo(repo, &format!("/check-runs/{}", check.id)),
        "html_url": urls.page(repo, &format!("/runs/{}", check.id)), "details_url": null,
        "status": if done { "completed" } else { "in_progress" }, "conclusion": check.state,
        "started_at": check.at, "completed_at": done.then_some(check.at),
        "output": {
            "title": check.name, "summary": check.summary, "text": null,
            "annotations_count": 0, "annotations_url": "",
        },
        "check_suite": {"id": 1}, "app": null, "pull_requests": [],
    })
}

/// A check as a run of one of the host's own workflows.
pub(super) fn workflow_run(
    urls: &GitHubUrls,
    repo: &HostedRepository,
    check: &HostedCheck,
) -> Value {
    let done = check.state.is_some();
    json!({
        "id": check.id, "node_id": node_id("WFR", check.id), "name": check.name,
        "head_sha": check.commit, "head_branch": null, "event": "push", "run_number": 1,
        "workflow_id": 1, "display_title": check.name, "path": ".github/workflows/ci.yml",
        "url": urls.repo(repo, &format!("/actions/runs/{}", check.id)),
        "html_url": urls.page(repo, &format!("/actions/runs/{}", check.id)),
        "status": if done { "completed" } else { "in_progress" }, "conclusion": check.state,
        "created_at": whole_second(check.at), "updated_at": whole_second(check.at),
        "jobs_url": urls.repo(repo, &format!("/actions/runs/{}/jobs", check.id)),
        "logs_url": urls.repo(repo, &format!("/actions/runs/{}/logs", check.id)),
        "artifacts_url": urls.repo(repo, &format!("/actions/runs/{}/artifacts", check.id)),
        "cancel_url": urls.repo(repo, &format!("/actions/runs/{}/cancel", check.id)),
        "rerun_url": urls.repo(repo, &format!("/actions/runs/{}/rerun", check.id)),
        "check_suite_url": urls.repo(repo, "/check-suites/1"),
        "workflow_url": urls.repo(repo, "/actions/workflows/1"),
        "head_commit": null, "pull_requests": [],
        "repository": repository_in_short(urls, repo),
        "head_repository": repository_in_short(urls, repo),
    })
}

pub(super) fn job_json(urls: &GitHubUrls, repo: &HostedRepository, check: &HostedCheck) -> Value {
    let status = if check.state.is_some() { "completed" } else { "in_progress" };
    json!({
        "id": check.id, "node_id": node_id("JOB", check.id), "run_id": check.id,
        "run_url": urls.repo(repo, &format!("/actions/runs/{}", check.id)),
        "check_run_url": urls.repo(repo, &format!("/check-runs/{}", check.id)),
        "runner_id": null, "runner_name": null, "runner_group_id": null, "runner_group_name": null,
        "workflow_name": check.name, "head_branch": null, "labels": [],
        "head_sha": check.commit, "name": "build", "status": status, "conclusion": check.state,
        "url": urls.repo(repo, &format!("/actions/jobs/{}", check.id)),
        "html_url": urls.page(repo, &format!("/actions/runs/{0}/job/{0}", check.id)),
        "created_at": whole_second(check.at), "started_at": whole_second(check.at),
        "completed_at": check.state.is_some().then(|| whole_second(check.at)),
        "steps": [
            {"name": "Set up job", "status": "completed", "conclusion": "success", "number": 1},
            {"name": "Run tests", "status": status, "conclusion": check.state, "number": 2},
        ],
    })
}

pub(super) fn status_json(
    urls: &GitHubUrls,
    repo: &HostedRepository,
    check: &HostedCheck,
) -> Value {
    json!({
        "id": check.id, "node_id": node_id("SC", check.id), "context": check.name,
        "url": urls.repo(repo, &format!("/statuses/{}", check.commit)), "avatar_url": null,
        "state": check.state.as_deref().unwrap_or("pending"), "description": check.summary,
        "target_url": null, "created_at": check.at, "updated_at": check.at,
    })
}
