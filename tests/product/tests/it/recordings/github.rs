//! GitHub's.

use std::collections::BTreeMap;

use codebutler_testbed::github::{FirstCommit, GitHubOptions, GitHubServer};
use reqwest::Method;
use serde_json::{Value, json};

use super::shapes::Shapes;

/// Asks the fake, and compares.
struct Asking {
    server: GitHubServer,
    shapes: Shapes,
    http: reqwest::Client,
    wrong: Vec<String>,
    /// All that was answered, for the published description.
    exchanges: Vec<Value>,
    /// True while answers are collected for the published description alone.
    unrecorded: bool,
}

impl Asking {
    /// `path` as recorded, with what stands in its braces.
    async fn ask(
        &mut self,
        (method, path): (Method, &str),
        given: &[&str],
        body: Option<Value>,
    ) -> Value {
        let mut given = given.iter();
        let mut place = String::new();
        for part in path.replacen("{owner}/{repo}", "acme/shop", 1).split_inclusive(['{', '}']) {
            match part.strip_suffix('}') {
                Some(_) => place.push_str(given.next().expect("a value for each brace")),
                None => place.push_str(part.trim_end_matches('{')),
            }
        }
        let url = format!("{}{place}", self.server.api_url());
        let mut request = self.http.request(method.clone(), url).bearer_auth(self.server.token());
        if let Some(body) = body {
            request = request.json(&body);
        }
        let answer = request.send().await.unwrap();
        let status = answer.status().as_u16();
        let value: Value = answer.json().await.unwrap();
        if !self.unrecorded {
            let wrong = self.shapes.differences(&format!("{method} {path} {status}"), &value);
            self.wrong.extend(wrong);
        }
        let path = path.to_owned();
        let exchange =
            json!({"method": method.as_str(), "path": path, "status": status, "body": value});
        self.exchanges.push(exchange);
        value
    }

    async fn get(&mut self, path: &str, given: &[&str]) -> Value {
        self.ask((Method::GET, path), given, None).await
    }

    async fn post(&mut self, path: &str, given: &[&str], body: Value) -> Value {
        self.ask((Method::POST, path), given, Some(body)).await
    }
}

const REPO: &str = "/repos/{owner}/{repo}";

#[tokio::test]
async fn the_fake_github_says_what_its_description_says() {
    let dir = tempfile::tempdir().unwrap();
    let options = GitHubOptions::default();
    let server = GitHubServer::start(&dir.path().join("host"), options).await.unwrap();
    let files = BTreeMap::from([("README.md".to_owned(), "# Shop\n".to_owned())]);
    let remote =
        server.create_repo("acme", "shop", FirstCommit::Files(files), "main").await.unwrap();
    let change = [("README.md", Some("# The shop\n")), ("new.txt", Some("n\n"))];
    let head = remote.commit("codebutler/x", "ana", "Add", &change).await.unwrap();
    remote.report_check(&head, "build", Some("success"), "All fine").await.unwrap();
    remote.report_check(&head, "slow", None, "").await.unwrap();
    let shapes = Shapes::read(include_str!("../../../../recordings/github.txt"));
    let _ = rustls::crypto::ring::default_provider().install_default();
    let mut it = Asking {
        server,
        shapes,
        http: reqwest::Client::new(),
        wrong: Vec::new(),
        exchanges: Vec::new(),
        unrecorded: false,
    };
    let at = |path: &str| format!("{REPO}{path}");

    it.get("/user", &[]).await;
    it.get("/rate_limit", &[]).await;
    it.get(REPO, &[]).await;
    it.get(&at("/branches"), &[]).await;
    it.unrecorded = true;
    it.get(&at("/activity"), &[]).await;
    it.unrecorded = false;
    it.get(&at("/branches/{branch}"), &["codebutler/x"]).await;
    it.get(&at("/git/ref/{ref}"), &["heads/main"]).await;
    it.get(&at("/git/ref/{ref}"), &["heads/none"]).await;
    it.get(&at("/git/matching-refs/{ref}"), &["heads/codebutler/"]).await;
    it.get(&at("/commits"), &[]).await;
    it.get(&at("/commits/{ref}"), &[&head]).await;
    it.get(&at("/commits/{ref}/status"), &[&head]).await;
    it.get(&at("/commits/{ref}/check-runs"), &[&head]).await;
    it.get(&at("/compare/{basehead}"), &["main...codebutler/x"]).await;
    it.get(&at("/contents/{path}"), &["README.md"]).await;
    let new = json!({"ref": "refs/heads/codebutler/y", "sha": head});
    it.post(&at("/git/refs"), &[], new).await;
    let moved = (Method::PATCH, at("/git/refs/{ref}"));
    let body = json!({"sha": head, "force": true});
    it.ask((moved.0, &moved.1), &["heads/codebutler/y"], Some(body)).await;

    let pull = json!({"title": "Add", "body": "It adds.", "head": "codebutler/x", "base": "main"});
    it.post(&at("/pulls"), &[], pull.clone()).await;
    it.post(&at("/pulls"), &[], pull).await;
    it.get(&at("/pulls"), &[]).await;
    it.get(&at("/pulls/{pull_number}"), &["1"]).await;
    let patch = at("/pulls/{pull_number}");
    it.ask((Method::PATCH, &patch), &["1"], Some(json!({"title": "Add it"}))).await;
    it.get(&at("/pulls/{pull_number}/files"), &["1"]).await;
    it.get(&at("/pulls/{pull_number}/commits"), &["1"]).await;
    let line = json!({
        "body": "Why?", "commit_id": head, "path": "new.txt", "line": 1, "side": "RIGHT",
    });
    it.post(&at("/pulls/{pull_number}/comments"), &["1"], line).await;
    it.get(&at("/pulls/{pull_number}/comments"), &["1"]).await;
    let review = json!({"body": "Well.", "event": "COMMENT"});
    it.post(&at("/pulls/{pull_number}/reviews"), &["1"], review).await;
    it.get(&at("/pulls/{pull_number}/reviews"), &["1"]).await;
    it.post(&at("/issues/{issue_number}/comments"), &["1"], json!({"body": "Hm."})).await;
    it.get(&at("/issues/{issue_number}/comments"), &["1"]).await;
    it.post(&at("/issues"), &[], json!({"title": "Wrong", "labels": ["bug"]})).await;
    it.get(&at("/issues"), &[]).await;
    it.get(&at("/issues/{issue_number}"), &["2"]).await;
    it.get(&at("/collaborators/{username}/permission"), &["ana"]).await;
    let renamed = [("new.txt", None), ("moved.txt", Some("n\n"))];
    let fork = remote.open_fork_pull("eve", ("main", "Move"), &renamed).await.unwrap().to_string();
    it.unrecorded = true;
    it.get(&at("/pulls/{pull_number}"), &[&fork]).await;
    it.get(&at("/pulls/{pull_number}/files"), &[&fork]).await;
    ask_others(&mut it, &head).await;
    it.unrecorded = false;
    let merge = at("/pulls/{pull_number}/merge");
    for body in [json!({"merge_method": "rebase"}), json!({"sha": "0".repeat(40)}), json!({})] {
        it.ask((Method::PUT, &merge), &["1"], Some(body)).await;
    }
    it.server.set_fine_grained();
    let runs = it.get(&at("/actions/runs"), &[]).await;
    let run = runs["workflow_runs"][0]["id"].to_string();
    it.get(&at("/actions/runs/{run_id}/jobs"), &[&run]).await;
    let mut wrong = std::mem::take(&mut it.wrong);
    wrong.sort();
    wrong.dedup();
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
    check_published(dir.path(), &it.exchanges).await;
}

/// Makes the requests that only the published description has.
async fn ask_others(it: &mut Asking, head: &str) {
    let at = |path: &str| format!("{REPO}{path}");
    it.get(&at("/git/commits/{commit_sha}"), &[head]).await;
    it.get(&at("/commits/{ref}/check-suites"), &[head]).await;
    it.get(&at("/commits/{ref}/statuses"), &[head]).await;
    it.get(&at("/rules/branches/{branch}"), &["main"]).await;
    it.get(&at("/contents/{path}"), &["none"]).await;
    let label = json!({"labels": ["late"]});
    it.post(&at("/issues/{issue_number}/labels"), &["2"], label).await;
    let label = at("/issues/{issue_number}/labels/{name}");
    it.ask((Method::DELETE, &label), &["2", "late"], None).await;
    ask_about_issues(it).await;
    let release =
        json!({"tag_name": "v1", "target_commitish": head, "name": "One", "body": "It adds."});
    it.post(&at("/releases"), &[], release.clone()).await;
    it.post(&at("/releases"), &[], release).await;
    it.get(&at("/releases"), &[]).await;
    it.get(&at("/releases/tags/{tag}"), &["v1"]).await;
    let long = json!({"title": "Add", "body": "x".repeat(65_537)});
    let patch = at("/pulls/{pull_number}");
    it.ask((Method::PATCH, &patch), &["1"], Some(long)).await;
}

/// Issues that are assigned, put below one another and closed; number 2 is there.
async fn ask_about_issues(it: &mut Asking) {
    let at = |path: &str| format!("{REPO}{path}");
    let lower = it.post(&at("/issues"), &[], json!({"title": "Part"})).await;
    let number = lower["number"].to_string();
    let parent = at("/issues/{issue_number}/parent");
    it.get(&parent, &[&number]).await;
    let below = at("/issues/{issue_number}/sub_issues");
    it.post(&below, &["2"], json!({"sub_issue_id": lower["id"]})).await;
    it.post(&below, &["2"], json!({"sub_issue_id": lower["id"]})).await;
    it.post(&below, &[&number], json!({"sub_issue_id": 1})).await;
    it.get(&below, &["2"]).await;
    it.get(&parent, &[&number]).await;
    let assignees = at("/issues/{issue_number}/assignees");
    let both = json!({"assignees": ["codebutler-bot", "nobody"]});
    let made = it.post(&assignees, &[&number], both.clone()).await;
    assert_eq!(made["assignees"].as_array().unwrap().len(), 1, "strangers are passed over");
    it.ask((Method::DELETE, &assignees), &[&number], Some(both)).await;
    it.get(&at("/assignees/{assignee}"), &["nobody"]).await;
    let issue = at("/issues/{issue_number}");
    let closed = json!({"state": "closed", "state_reason": "not_planned"});
    it.ask((Method::PATCH, &issue), &[&number], Some(closed)).await;
    it.ask((Method::PATCH, &issue), &[&number], Some(json!({"state": "gone"}))).await;
}

const OPENAPI: &str = "@octokit/openapi@23.0.2";

/// Holds what was answered against the description that GitHub publishes, where npm brings it.
async fn check_published(dir: &std::path::Path, exchanges: &[Value]) {
    let Some(root) = crate::node::ensure_packages(&[OPENAPI]) else { return };
    let document = root.join("node_modules/@octokit/openapi/generated/api.github.com.json");
    let answers = dir.join("exchanges.json");
    std::fs::write(&answers, json!(exchanges).to_string()).unwrap();
    let env = [
        ("OPENAPI", document.to_string_lossy().into_owned()),
        ("EXCHANGES", answers.to_string_lossy().into_owned()),
    ];
    crate::python::run("openapi.py", &["jsonschema==4.26.0"], &env).await;
}
