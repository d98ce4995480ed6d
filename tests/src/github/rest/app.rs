//! The App's own calls: where it is installed, and tokens.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::PoisonError;

use axum::Json;
use axum::extract::rejection::JsonRejection;
use axum::extract::{FromRequestParts, Path, State};
use axum::http::StatusCode;
use axum::http::request::Parts;
use axum::response::IntoResponse as _;
use serde::Deserialize;
use serde_json::{Value, json};

use super::{Answer, Host, Name};
use crate::github::Shared;
use crate::github::app::{self, AppInstallation, check_signature};
use crate::github::error::ApiError;

/// A call that is signed with the App's key.
pub(super) struct SignedCall {
    web: String,
}

impl<S: Send + Sync> FromRequestParts<S> for SignedCall {
    type Rejection = ApiError;

    async fn from_request_parts(parts: &mut Parts, _: &S) -> Result<Self, Self::Rejection> {
        check_signature(&parts.headers)?;
        let host = parts.headers.get("host").and_then(|host| host.to_str().ok());
        Ok(Self { web: format!("http://{}", host.unwrap_or("localhost")) })
    }
}

impl SignedCall {
    fn installation(&self, owner: &str, found: &AppInstallation) -> Value {
        let api = format!("{}/api/v3", self.web);
        let page = format!("{}/settings/installations/{}", self.web, found.id);
        json!({
            "id": found.id, "app_id": app::ID.parse::<u64>().unwrap_or_default(), "app_slug": "codebutler",
            "account": {"login": owner, "id": 1, "type": "Organization"},
            "target_id": 1, "target_type": "Organization", "repository_selection": "selected",
            "access_tokens_url": format!("{api}/app/installations/{}/access_tokens", found.id),
            "repositories_url": format!("{api}/installation/repositories"), "html_url": page,
            "permissions": found.permissions, "events": [], "single_file_name": null,
            "created_at": "2026-01-01T00:00:00Z", "updated_at": "2026-01-01T00:00:00Z",
            "suspended_at": null, "suspended_by": null,
        })
    }
}

pub(super) async fn of_repository(
    State(shared): Host,
    signed: SignedCall,
    Path(name): Path<Name>,
) -> Answer {
    let app = shared.app.lock().unwrap_or_else(PoisonError::into_inner);
    let found = app.installations.get(&name.owner);
    let found = found.filter(|found| found.repositories.contains(&name.repo));
    let found = found.ok_or_else(ApiError::not_found)?;
    Ok(Json(signed.installation(&name.owner, found)).into_response())
}

pub(super) async fn by_id(State(shared): Host, signed: SignedCall, Path(id): Path<u64>) -> Answer {
    let app = shared.app.lock().unwrap_or_else(PoisonError::into_inner);
    let found = app.installations.iter().find(|(_, found)| found.id == id);
    let (owner, found) = found.ok_or_else(ApiError::not_found)?;
    Ok(Json(signed.installation(owner, found)).into_response())
}

#[derive(Default, Deserialize)]
pub(super) struct TokenBody {
    repositories: Option<BTreeSet<String>>,
    repository_ids: Option<BTreeSet<u64>>,
    permissions: Option<BTreeMap<String, String>>,
}

pub(super) async fn create_token(
    State(shared): Host,
    _: SignedCall,
    Path(id): Path<u64>,
    body: Result<Option<Json<TokenBody>>, JsonRejection>,
) -> Answer {
    let TokenBody { repositories, repository_ids, permissions } =
        body?.map(|Json(b)| b).unwrap_or_default();
    let repositories = match repository_ids {
        Some(ids) => Some(names_of(&shared, &ids).await),
        None => repositories,
    };
    let selected = repositories.is_some();
    let (token, ends, permissions) = shared.issue(id, repositories, permissions)?;
    let value = json!({
        "token": token, "expires_at": ends, "permissions": permissions,
        "repository_selection": if selected { "selected" } else { "all" },
    });
    Ok((StatusCode::CREATED, Json(value)).into_response())
}

/// Names of repositories by their ids; for an unknown id a name that no repository has.
async fn names_of(shared: &Shared, ids: &BTreeSet<u64>) -> BTreeSet<String> {
    let all = shared.repositories.lock().await;
    let name = |id: &u64| all.values().find(|repo| repo.id == *id).map(|repo| repo.name.clone());
    ids.iter().map(|id| name(id).unwrap_or_default()).collect()
}
