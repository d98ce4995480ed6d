//! The few questions that only GraphQL answers: merge queues, and merging when all is green.

use axum::Json;
use axum::extract::State;
use axum::http::{HeaderMap, Method};
use axum::response::IntoResponse as _;
use serde::Deserialize;
use serde_json::{Value, json};

use super::{Answer, Host};
use crate::github::error::ApiError;
use crate::github::state::HostedRepository;
use crate::github::token_of;

#[derive(Deserialize)]
pub(super) struct GraphqlBody {
    query: String,
    #[serde(default)]
    variables: Value,
}

/// Input fields that the schema knows, by mutation.
const ENQUEUE: &[&str] = &["clientMutationId", "expectedHeadOid", "jump", "pullRequestId"];
const AUTO_MERGE: &[&str] = &[
    "authorEmail",
    "clientMutationId",
    "commitBody",
    "commitHeadline",
    "expectedHeadOid",
    "mergeMethod",
    "pullRequestId",
];

pub(super) async fn answer_graphql(
    State(shared): Host,
    headers: HeaderMap,
    Json(GraphqlBody { query, variables }): Json<GraphqlBody>,
) -> Answer {
    let token = token_of(&headers).unwrap_or_default();
    let (kind, known) = match () {
        () if query.contains("enqueuePullRequest(") => ("enqueuePullRequest", ENQUEUE),
        () if query.contains("enablePullRequestAutoMerge(") => {
            ("enablePullRequestAutoMerge", AUTO_MERGE)
        }
        () if query.contains("node(") => ("node", &[][..]),
        () => return refuse_query("Something went wrong while executing your query."),
    };
    let input = &variables["input"];
    let id = variables["id"].as_str().or_else(|| input["pullRequestId"].as_str());
    let id = id.unwrap_or_default();
    let unknown =
        input.as_object().into_iter().flatten().find(|(key, _)| !known.contains(&&***key));
    if let Some((key, _)) = unknown {
        return refuse_query(&format!("Variable $input was provided invalid value for {key}"));
    }
    let mut all = shared.repositories.lock().await;
    let repo = all.values_mut().find(|repo| find_pull(repo, id).is_some());
    let Some(repo) = repo else {
        return refuse_query(&format!("Could not resolve to a node with the global id of '{id}'."));
    };
    let path = format!("/api/v3/repos/{}/pulls", repo.full_name());
    let method = if kind == "node" { Method::GET } else { Method::POST };
    shared.who(&token, &method, &path)?;
    repo.refresh().await?;
    let number = find_pull(repo, id).ok_or_else(ApiError::not_found)?;
    if let Some(why) = find_refusal(repo, number, kind, input) {
        return refuse_query(&why);
    }
    let data = match kind {
        "node" => json!({"node": {
            "mergeQueueEntry": queue_entry(repo, number),
            "autoMergeRequest": repo.auto_merge.contains(&number).then(|| json!({"enabledAt": now_text()})),
        }}),
        "enqueuePullRequest" => {
            repo.queue.push(number);
            json!({kind: {"mergeQueueEntry": queue_entry(repo, number)}})
        }
        _ => {
            repo.auto_merge.push(number);
            let request = json!({"enabledAt": now_text()});
            json!({kind: {"pullRequest": {"autoMergeRequest": request}, "actor": null}})
        }
    };
    Ok(Json(json!({"data": data})).into_response())
}

fn now_text() -> String {
    jiff::Timestamp::now().to_string()
}

/// Errors come with status 200.
#[expect(clippy::unnecessary_wraps, reason = "an answer like all others")]
fn refuse_query(message: &str) -> Answer {
    let error = json!({"type": "UNPROCESSABLE", "message": message, "path": []});
    Ok(Json(json!({"data": null, "errors": [error]})).into_response())
}

fn find_pull(repo: &HostedRepository, id: &str) -> Option<u64> {
    let mut pulls = repo.pulls.values();
    pulls.find(|pull| format!("PR_{}", pull.id) == id).map(|pull| pull.number)
}

fn queue_entry(repo: &HostedRepository, number: u64) -> Value {
    let at = repo.queue.iter().position(|queued| *queued == number);
    at.map_or(Value::Null, |at| json!({"state": "AWAITING_CHECKS", "position": at + 1}))
}

/// Reason for which the host refuses the mutation, in its words.
fn find_refusal(repo: &HostedRepository, number: u64, kind: &str, input: &Value) -> Option<String> {
    let pull = &repo.pulls[&number];
    if kind == "node" {
        return None;
    }
    if !pull.open {
        return Some("Pull request is closed".to_owned());
    }
    let expected = input["expectedHeadOid"].as_str();
    if expected.is_some_and(|expected| expected != pull.head_sha) {
        return Some("Expected head oid did not match the current head oid".to_owned());
    }
    let unmet = repo.unmet(pull);
    match kind {
        "enqueuePullRequest" if !repo.rules.merge_queue => {
            Some("Pull request is not on a branch with a merge queue".to_owned())
        }
        "enqueuePullRequest" if repo.queue.contains(&number) => {
            Some("Pull request is already in the queue".to_owned())
        }
        "enqueuePullRequest" => unmet,
        _ if !repo.rules.auto_merge => {
            Some("Auto merge is not allowed for this repository".to_owned())
        }
        _ if unmet.is_none() => Some("Pull request Pull request is in clean status".to_owned()),
        _ => None,
    }
}
