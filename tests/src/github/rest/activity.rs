//! The host's record of branch activity: who moved which branch, and when.

use axum::Json;
use axum::extract::{Path, Query, State};
use axum::http::StatusCode;
use axum::response::IntoResponse as _;
use serde::Deserialize;
use serde_json::Value;

use super::{Answer, Caller, Host, Name, find_repository};
use crate::github::error::ApiError;
use crate::github::json;

/// Entries of a page, unless asked for otherwise, and at most.
const PAGE: usize = 30;
const MOST: usize = 100;
/// Values that GitHub takes; another one is refused.
const PERIODS: [&str; 5] = ["day", "week", "month", "quarter", "year"];
const KINDS: [&str; 6] =
    ["push", "force_push", "branch_creation", "branch_deletion", "pr_merge", "merge_queue_merge"];

#[derive(Deserialize)]
pub(super) struct ActivityQuery {
    per_page: Option<usize>,
    /// Name of the branch, with or without `refs/heads/`.
    #[serde(rename = "ref")]
    name: Option<String>,
    actor: Option<String>,
    time_period: Option<String>,
    activity_type: Option<String>,
    direction: Option<String>,
}

/// Newest first, unless asked for otherwise. Pages have cursors: what does not fit on the first is left out here.
pub(super) async fn list_activity(
    State(shared): Host,
    caller: Caller,
    Path(name): Path<Name>,
    Query(query): Query<ActivityQuery>,
) -> Answer {
    let is_wrong = |value: &Option<String>, known: &[&str]| {
        value.as_deref().is_some_and(|value| !known.contains(&value))
    };
    if is_wrong(&query.time_period, &PERIODS)
        || is_wrong(&query.activity_type, &KINDS)
        || is_wrong(&query.direction, &["asc", "desc"])
    {
        return Err(ApiError::new(StatusCode::UNPROCESSABLE_ENTITY, "Validation Failed"));
    }
    let mut all = shared.repositories.lock().await;
    let repo = find_repository(&mut all, &name.owner, &name.repo)?;
    repo.refresh().await?;
    let branch = query.name.as_deref().map(|name| name.strip_prefix("refs/heads/").unwrap_or(name));
    let is_wanted = |wanted: Option<&str>, value| wanted.is_none_or(|wanted| Some(wanted) == value);
    let found = repo.activity.iter().filter(|entry| {
        is_wanted(branch, Some(&*entry.branch))
            && is_wanted(query.actor.as_deref(), entry.actor.as_deref())
            && is_wanted(query.activity_type.as_deref(), Some(entry.kind))
    });
    let mut items: Vec<Value> =
        found.map(|entry| json::activity_json(&caller.urls, entry)).collect();
    if query.direction.as_deref() != Some("asc") {
        items.reverse();
    }
    items.truncate(query.per_page.unwrap_or(PAGE).clamp(1, MOST));
    Ok(Json(items).into_response())
}
