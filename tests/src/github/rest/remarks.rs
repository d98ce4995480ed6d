//! All comments of a repository, and reactions to them.

use axum::Json;
use axum::extract::rejection::JsonRejection;
use axum::extract::{Path, Query, State};
use axum::http::StatusCode;
use axum::response::IntoResponse as _;
use jiff::Timestamp;
use serde::Deserialize;
use serde_json::Value;

use super::{Answer, Caller, Host, Name, Numbered, Paged, find_repository};
use crate::github::error::ApiError;
use crate::github::json;
use crate::github::state::{HostedRepository, PullComment};

/// Contents of reactions that the real host accepts.
const CONTENTS: [&str; 8] = ["+1", "-1", "laugh", "confused", "heart", "hooray", "rocket", "eyes"];

#[derive(Deserialize)]
pub(super) struct RemarkQuery {
    since: Option<Timestamp>,
    sort: Option<String>,
    direction: Option<String>,
}

impl RemarkQuery {
    /// Filters and sorts the remarks: by time and id, unless the query asks otherwise.
    fn of(&self, mut all: Vec<(Timestamp, Value)>) -> Vec<Value> {
        all.retain(|(at, _)| self.since.is_none_or(|since| *at >= since));
        all.sort_by_key(|(at, value)| (*at, value["id"].as_u64()));
        // Without a field to sort by, the direction says nothing.
        if self.sort.is_some() && self.direction.as_deref() != Some("asc") {
            all.reverse();
        }
        all.into_iter().map(|(_, value)| value).collect()
    }
}

pub(super) async fn list_comments(
    State(shared): Host,
    caller: Caller,
    Path(at): Path<Name>,
    Query(listing): Query<RemarkQuery>,
    page: Paged,
) -> Answer {
    let mut all = shared.repositories.lock().await;
    let repo = find_repository(&mut all, &at.owner, &at.repo)?;
    let issues = repo.issues.values().map(|issue| (issue.number, &issue.comments));
    let pulls = repo.pulls.values().map(|pull| (pull.number, &pull.comments));
    let said = issues
        .chain(pulls)
        .flat_map(|(number, comments)| comments.iter().map(move |comment| (number, comment)));
    let shown = said.map(|(number, comment)| {
        (comment.created_at, json::comment_json(&caller.urls, repo, number, comment))
    });
    Ok(page.answer(&caller.urls, listing.of(shown.collect())))
}

pub(super) async fn line_comments(
    State(shared): Host,
    caller: Caller,
    Path(at): Path<Name>,
    Query(listing): Query<RemarkQuery>,
    page: Paged,
) -> Answer {
    let mut all = shared.repositories.lock().await;
    let repo = find_repository(&mut all, &at.owner, &at.repo)?;
    let lines = repo.pulls.values().flat_map(|pull| {
        pull.lines.iter().map(|line| {
            let value = json::line_comment(&caller.urls, repo, pull.number, line);
            (line.comment.created_at, value)
        })
    });
    Ok(page.answer(&caller.urls, listing.of(lines.collect())))
}

#[derive(Deserialize)]
pub(super) struct ReactionBody {
    content: String,
}

type GivenReaction = Result<Json<ReactionBody>, JsonRejection>;

pub(super) async fn add_reaction(
    State(shared): Host,
    caller: Caller,
    Path(at): Path<Numbered>,
    body: GivenReaction,
) -> Answer {
    let mut all = shared.repositories.lock().await;
    let repo = find_repository(&mut all, &at.owner, &at.repo)?;
    let HostedRepository { issues, pulls, .. } = repo;
    let issues = issues.values_mut().flat_map(|issue| &mut issue.comments);
    let mut said = issues.chain(pulls.values_mut().flat_map(|pull| &mut pull.comments));
    put_reaction(&caller, said.find(|comment| comment.id == at.number), body)
}

pub(super) async fn react_to_line(
    State(shared): Host,
    caller: Caller,
    Path(at): Path<Numbered>,
    body: GivenReaction,
) -> Answer {
    let mut all = shared.repositories.lock().await;
    let repo = find_repository(&mut all, &at.owner, &at.repo)?;
    let mut lines = repo.pulls.values_mut().flat_map(|pull| &mut pull.lines);
    let found = lines.find(|line| line.comment.id == at.number).map(|line| &mut line.comment);
    put_reaction(&caller, found, body)
}

fn put_reaction(caller: &Caller, comment: Option<&mut PullComment>, body: GivenReaction) -> Answer {
    let comment = comment.ok_or_else(ApiError::not_found)?;
    let Json(ReactionBody { content }) = body?;
    if !CONTENTS.contains(&content.as_str()) {
        return Err(ApiError::field("Reaction", "content", "invalid"));
    }
    let own = (caller.login.clone(), content.clone());
    let there = comment.reactions.contains(&own);
    if !there {
        comment.reactions.push(own);
    }
    let value = serde_json::json!({
        "id": comment.id * 10 + comment.reactions.len() as u64, "node_id": format!("REA_{}", comment.id),
        "user": json::user_json(&caller.urls, &caller.login), "content": content,
        "created_at": format!("{:.0}", Timestamp::now()),
    });
    let status = if there { StatusCode::OK } else { StatusCode::CREATED };
    Ok((status, Json(value)).into_response())
}
