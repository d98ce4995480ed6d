"""Drives the testbed's GitHub with PyGithub. Exits 0 if every check held."""

import os
import time

from github import Auth, Github, GithubException, UnknownObjectException

API = os.environ["GITHUB_API_URL"]
TOKEN = os.environ["GITHUB_TOKEN"]


def client(token):
    # Without the pauses that spare the real host.
    pauses = {"seconds_between_requests": 0, "seconds_between_writes": 0}
    return Github(base_url=API, auth=Auth.Token(token), retry=None, **pauses)


def refused(call, status, text):
    try:
        call()
    except GithubException as error:
        assert error.status == status, error
        assert text in str(error.data), error
    else:
        raise AssertionError(f"not refused with {status}")


def main():
    github = client(TOKEN)
    assert github.get_user().login == "codebutler-bot"
    assert github.get_rate_limit().rate.limit == 5000
    repo = github.get_repo("acme/shop")
    assert (repo.full_name, repo.default_branch) == ("acme/shop", "main")
    assert repo.get_contents("README.md").decoded_content == b"# Shop\n"

    start = repo.get_branch("main").commit.sha
    repo.create_git_ref("refs/heads/codebutler/y", start)
    refused(lambda: repo.create_git_ref("refs/heads/codebutler/y", start), 422, "already exists")
    open_pull = lambda head: repo.create_pull(base="main", head=head, title="T", body="B")
    refused(lambda: open_pull("codebutler/y"), 422, "No commits between main and codebutler/y")
    refused(lambda: open_pull("nowhere"), 422, "invalid")

    pull = open_pull("codebutler/x")
    refused(lambda: open_pull("codebutler/x"), 422, "A pull request already exists")
    assert pull.mergeable and pull.changed_files == 1 and pull.commits == 1, pull.raw_data
    assert [f.filename for f in pull.get_files()] == ["new.txt"]
    assert [c.sha for c in pull.get_commits()] == [pull.head.sha]
    assert [p.number for p in repo.get_pulls(head="acme:codebutler/x")] == [pull.number]
    assert repo.compare("main", "codebutler/x").ahead_by == 1
    assert repo.get_commit(pull.head.sha).get_combined_status().total_count == 0
    assert repo.get_commit(pull.head.sha).get_check_runs().totalCount == 0

    pull.edit(title="Title", body="Body")
    assert repo.get_pull(pull.number).title == "Title"
    pull.create_issue_comment("One")
    pull.create_review(body="Two", event="COMMENT")
    refused(lambda: pull.create_review(body="x", event="APPROVE"), 422, "your own pull request")
    assert [c.body for c in pull.get_issue_comments()] == ["One"]
    assert [r.state for r in pull.get_reviews()] == ["COMMENTED"]
    head = repo.get_commit(pull.head.sha)
    line = pull.create_review_comment("Three", head, "new.txt", line=1, side="RIGHT")
    assert (line.path, line.line, line.body) == ("new.txt", 1, "Three")
    comment = lambda path, at: pull.create_review_comment("x", head, path, line=at, side="RIGHT")
    refused(lambda: comment("new.txt", 9), 422, "must be part of the diff")
    refused(lambda: comment("README.md", 1), 422, "must be part of the diff")
    remark = {"path": "new.txt", "line": 1, "side": "RIGHT", "body": "Four"}
    pull.create_review(body="Five", event="COMMENT", comments=[remark])
    bad = [{**remark, "line": 7}]
    refused(lambda: pull.create_review(body="x", event="COMMENT", comments=bad), 422, "could not be resolved")
    assert [c.body for c in pull.get_review_comments()] == ["Three", "Four"]

    issue = repo.create_issue("Wrong total", body="0.1 + 0.2", labels=["bug"])
    issue.create_comment("Same here")
    assert [c.body for c in repo.get_issue(issue.number).get_comments()] == ["Same here"]
    assert [i.number for i in repo.get_issues(labels=["bug"])] == [issue.number]
    both = {i.number: i.pull_request is not None for i in repo.get_issues()}
    assert both == {issue.number: False, pull.number: True}, both
    refused(lambda: repo.get_issue(99), 404, "Not Found")

    refused(lambda: pull.merge(merge_method="squash", sha=start), 409, "Head branch was modified")
    refused(lambda: pull.merge(merge_method="rebase"), 405, "not allowed")
    merged = pull.merge(merge_method="squash", commit_title="Title (#1)", sha=pull.head.sha)
    assert merged.merged and repo.get_branch("main").commit.sha == merged.sha
    assert repo.get_pull(pull.number).merged and pull.is_merged()
    assert len(repo.get_commit(merged.sha).parents) == 1
    repo.get_git_ref("heads/codebutler/x").delete()
    assert [b.name for b in repo.get_branches()] == ["codebutler/y", "main"]

    try:
        repo.get_git_ref("heads/codebutler/x")
        raise AssertionError("the branch is still there")
    except UnknownObjectException:
        pass
    stranger = client("wrong")
    refused(lambda: stranger.get_repo("acme/shop"), 401, "Bad credentials")
    ruled(github.get_repo("acme/ruled"))
    queued(github, github.get_repo("acme/queued"))


def ruled(repo):
    """A repository with rules: of branches, of checks, and merging by itself."""
    start = repo.get_branch("main").commit.sha
    locked = lambda: repo.create_git_ref("refs/heads/locked/x", start)
    refused(locked, 422, "Repository rule violations found")
    assert repo.get_collaborator_permission("nobody") == "none"
    pull = repo.create_pull(base="main", head="codebutler/x", title="T", body="B")
    assert pull.mergeable_state == "blocked", pull.raw_data
    refused(lambda: pull.merge(merge_method="squash"), 405, 'Required status check "build" is expected')
    runs = list(repo.get_workflow_runs(head_sha=pull.head.sha))
    assert [(run.name, run.status, run.conclusion) for run in runs] == [("lint", "completed", "success")]
    assert [job.name for job in runs[0].jobs()] == ["build"]
    assert repo.get_commit(pull.head.sha).get_check_runs().totalCount == 1
    pull.enable_automerge(merge_method="SQUASH")
    assert not repo.get_pull(pull.number).merged


def queued(github, repo):
    """A repository whose default branch is changed by its merge queue alone."""
    pull = repo.create_pull(base="main", head="codebutler/x", title="T", body="B")
    assert pull.mergeable_state == "blocked", pull.raw_data
    refused(lambda: pull.merge(merge_method="squash"), 405, "Changes must be made through the merge queue")
    schema = "mergeQueueEntry { state position }"
    enqueue = lambda **more: github.requester.graphql_named_mutation(
        "enqueuePullRequest", {"pullRequestId": pull.node_id, **more}, schema
    )
    refused(lambda: enqueue(expectedHeadOid="0" * 40), 400, "Expected head oid did not match")
    refused(lambda: enqueue(mergeMethod="SQUASH"), 400, "mergeMethod")
    refused(lambda: pull.enable_automerge(), 400, "Auto merge is not allowed")
    _, entry = enqueue(expectedHeadOid=pull.head.sha)
    assert entry["mergeQueueEntry"] == {"state": "AWAITING_CHECKS", "position": 1}, entry
    refused(enqueue, 400, "already in the queue")
    query = "query($id: ID!) { node(id: $id) { ... on PullRequest { mergeQueueEntry { state position } } } }"
    queue = lambda: github.requester.graphql_query(query, {"id": pull.node_id})[1]["data"]["node"]["mergeQueueEntry"]
    assert queue()["position"] == 1
    pull.edit(title="waits")
    deadline = time.monotonic() + 60
    while not repo.get_pull(pull.number).merged:
        assert time.monotonic() < deadline, "the queue does not merge it"
        time.sleep(0.05)
    assert queue() is None
    assert repo.get_branch("main").commit.sha == repo.get_pull(pull.number).merge_commit_sha


main()
