//! The REST API: who may call it, and where each call goes.

mod activity;
mod app;
mod commits;
mod graphql;
mod issues;
pub(super) mod merge;
mod organised;
mod pulls;
mod refs;
mod releases;
mod remarks;
pub(super) mod talk;

use std::collections::BTreeMap;
use std::sync::{Arc, PoisonError};

use axum::body::Body;
use axum::extract::{FromRequestParts, Path, Query, Request, State};
use axum::http::request::Parts;
use axum::http::{HeaderValue, Method, StatusCode, header};
use axum::middleware::{Next, from_fn};
use axum::response::{IntoResponse, Response};
use axum::routing::{any, delete, get, patch, post, put};
use axum::{Json, Router};
use jiff::{Timestamp, ToSpan as _};
use serde::Deserialize;
use serde_json::{Value, json};
use sha2::{Digest as _, Sha256};
use tokio::sync::MutexGuard;
use tower::ServiceExt as _;

use super::error::ApiError;
use super::json;
use super::state::{HostedPull, HostedRepository};
use super::urls::GitHubUrls;
use super::{Shared, token_of};

type Answer = Result<Response, ApiError>;
type Host = State<Arc<Shared>>;

pub(super) fn build_router() -> Router<Arc<Shared>> {
    // Whole paths instead of nested routers, so that handlers see the path that the client used.
    let api = |path: &str| format!("/api/v3{path}");
    let repo = |path: &str| format!("/api/v3/repos/{{owner}}/{{repo}}{path}");
    Router::new()
        .route(&api("/"), get(async |_: Caller| Json(json!({}))))
        .route(&api("/user"), get(read_user))
        .route(&api("/users/{login}"), get(read_account))
        .route(&api("/rate_limit"), get(rate_limit))
        .route(&api("/app/installations/{id}"), get(app::by_id))
        .route(&api("/app/installations/{id}/access_tokens"), post(app::create_token))
        .route(&repo("/installation"), get(app::of_repository))
        .route(&repo(""), get(read_repository))
        .route(&repo("/activity"), get(activity::list_activity))
        .route(&repo("/branches"), get(refs::list_branches))
        .route(&repo("/branches/{*branch}"), get(refs::read_branch))
        .route(&repo("/collaborators/{login}/permission"), get(read_permission))
        .route(&repo("/actions/runs"), get(commits::list_runs))
        .route(&repo("/actions/runs/{run}/jobs"), get(commits::list_jobs))
        .route(&repo("/git/ref/{*name}"), get(refs::read_ref))
        .route(&repo("/git/matching-refs/{*prefix}"), get(refs::matching_refs))
        .route(&repo("/git/refs"), post(refs::create_ref))
        .route(
            &repo("/git/refs/{*name}"),
            patch(refs::update_ref).delete(refs::delete_ref).get(refs::read_ref),
        )
        .route(&repo("/commits"), get(commits::list_commits))
        .route(&repo("/commits/{*rest}"), get(commits::read_commit))
        .route(&repo("/git/commits/{*sha}"), get(commits::read_object))
        .route(&repo("/rules/branches/{*branch}"), get(refs::read_rules))
        .route(&repo("/compare/{*range}"), get(commits::compare_commits))
        .route(&repo("/contents"), get(commits::read_top))
        .route(&repo("/contents/{*path}"), get(commits::read_contents).put(commits::write_contents))
        .route(&repo("/pulls"), get(pulls::list_pulls).post(pulls::create_pull))
        .route(&repo("/pulls/{number}"), get(pulls::read_pull).patch(pulls::update_pull))
        .route(&repo("/pulls/{number}/merge"), put(merge::merge_pull).get(merge::is_merged))
        .route(&repo("/pulls/{number}/files"), get(pulls::list_files))
        .route(&repo("/pulls/{number}/commits"), get(pulls::list_commits))
        .route(&repo("/pulls/{number}/reviews"), get(talk::list_reviews).post(talk::create_review))
        .route(&repo("/pulls/{number}/comments"), get(talk::line_comments).post(talk::line_comment))
        .route(&repo("/issues"), get(issues::list_issues).post(issues::create_issue))
        .route(&repo("/issues/comments"), get(remarks::list_comments))
        .route(&repo("/issues/comments/{number}/reactions"), post(remarks::add_reaction))
        .route(&repo("/pulls/comments"), get(remarks::line_comments))
        .route(&repo("/pulls/comments/{number}/reactions"), post(remarks::react_to_line))
        .route(&repo("/issues/{number}"), get(issues::read_issue).patch(organised::update_issue))
        .route(
            &repo("/issues/{number}/assignees"),
            post(organised::add_assignees).delete(organised::remove_assignees),
        )
        .route(
            &repo("/issues/{number}/sub_issues"),
            get(organised::list_sub_issues).post(organised::add_sub_issue),
        )
        .route(&repo("/issues/{number}/parent"), get(organised::read_parent))
        .route(&repo("/assignees/{login}"), get(organised::may_be_assigned))
        .route(&repo("/issues/{number}/labels"), post(issues::add_labels))
        .route(&repo("/issues/{number}/labels/{label}"), delete(issues::remove_label))
        .route(&repo("/releases"), get(releases::list_releases).post(releases::create_release))
        .route(&repo("/releases/tags/{tag}"), get(releases::by_tag))
        .route(
            &repo("/issues/{number}/comments"),
            get(talk::list_comments).post(talk::create_comment),
        )
        .route(&api("/repositories/{id}"), any(by_id))
        .route(&api("/repositories/{id}/{*rest}"), any(by_id))
        .route("/api/graphql", post(graphql::answer_graphql))
        .route(&api("/{*unknown}"), any(async || ApiError::not_found()))
        .method_not_allowed_fallback(async || ApiError::not_found())
        .layer(from_fn(standard_headers))
}

/// The authenticated account of a call.
struct Caller {
    login: String,
    /// False for an App without the permission for workflows.
    changes_workflows: bool,
    urls: GitHubUrls,
}

impl FromRequestParts<Arc<Shared>> for Caller {
    type Rejection = ApiError;

    async fn from_request_parts(
        parts: &mut Parts,
        shared: &Arc<Shared>,
    ) -> Result<Self, Self::Rejection> {
        let host = parts.headers.get(header::HOST).and_then(|h| h.to_str().ok());
        let web = format!("http://{}", host.unwrap_or("localhost"));
        match token_of(&parts.headers) {
            Some(token) => {
                let login = shared.who(&token, &parts.method, parts.uri.path())?;
                let changes_workflows = shared.may_change_workflows(&token);
                Ok(Self { login, changes_workflows, urls: GitHubUrls { web } })
            }
            // A private repository does not exist for strangers.
            None if parts.uri.path().contains("repos/") => Err(ApiError::not_found()),
            None => Err(ApiError::new(StatusCode::UNAUTHORIZED, "Requires authentication")),
        }
    }
}

/// `{owner}/{repo}` of a path; other captures are read by the handler's own `Path`.
#[derive(Deserialize)]
struct Name {
    owner: String,
    repo: String,
}

/// `{owner}/{repo}/…/{number}`.
#[derive(Deserialize)]
struct Numbered {
    owner: String,
    repo: String,
    number: u64,
}

type LockedRepositories<'a> = MutexGuard<'a, BTreeMap<(String, String), HostedRepository>>;

fn find_repository<'a>(
    all: &'a mut LockedRepositories<'_>,
    owner: &str,
    name: &str,
) -> Result<&'a mut HostedRepository, ApiError> {
    all.get_mut(&(owner.to_owned(), name.to_owned())).ok_or_else(ApiError::not_found)
}

/// Refuses a title or text that is longer than the host takes.
fn check_length(resource: &str, field: &str, text: Option<&String>) -> Result<(), ApiError> {
    let most = if field == "title" { 256 } else { 65_536 };
    if text.is_some_and(|text| text.chars().count() > most) {
        let message = format!("{field} is too long (maximum is {most} characters)");
        return Err(ApiError::custom_field(resource, field, &message));
    }
    Ok(())
}

fn find_pull(repo: &mut HostedRepository, number: u64) -> Result<&mut HostedPull, ApiError> {
    repo.pulls.get_mut(&number).ok_or_else(ApiError::not_found)
}

async fn read_repository(
    State(shared): Host,
    caller: Caller,
    Path(name): Path<Name>,
) -> Result<Json<Value>, ApiError> {
    let mut all = shared.repositories.lock().await;
    let repo = find_repository(&mut all, &name.owner, &name.repo)?;
    Ok(Json(json::repository_in_full(&caller.urls, repo)))
}

#[derive(Deserialize)]
struct PersonPath {
    owner: String,
    repo: String,
    login: String,
}

async fn read_permission(
    State(shared): Host,
    caller: Caller,
    Path(person): Path<PersonPath>,
) -> Result<Json<Value>, ApiError> {
    let mut all = shared.repositories.lock().await;
    let repo = find_repository(&mut all, &person.owner, &person.repo)?;
    let may = repo.people.get(&person.login).map_or("none", |standing| standing.permission());
    let mut user = json::user_json(&caller.urls, &person.login);
    user["role_name"] = may.into();
    Ok(Json(json!({"permission": may, "role_name": may, "user": user})))
}

/// `/users/{login}`
async fn read_account(State(shared): Host, caller: Caller, Path(login): Path<String>) -> Answer {
    if shared.gone.lock().unwrap_or_else(PoisonError::into_inner).contains(&login) {
        return Err(ApiError::not_found());
    }
    Ok(Json(json::user_json(&caller.urls, &login)).into_response())
}

/// `/repositories/{id}/…`: where the host leads to from a repository's old name.
async fn by_id(State(shared): Host, mut request: Request) -> Response {
    let path = request.uri().path().trim_start_matches("/api/v3/repositories/").to_owned();
    let (id, rest) =
        path.split_once('/').map_or((&*path, String::new()), |(id, rest)| (id, format!("/{rest}")));
    let all = shared.repositories.lock().await;
    let name = all.values().find(|repo| repo.id.to_string() == id).map(HostedRepository::full_name);
    drop(all);
    let Some(name) = name else { return ApiError::not_found().into_response() };
    let query = request.uri().query().map(|query| format!("?{query}")).unwrap_or_default();
    let Ok(uri) = format!("/api/v3/repos/{name}{rest}{query}").parse() else {
        return ApiError::not_found().into_response();
    };
    *request.uri_mut() = uri;
    match build_router().with_state(shared).oneshot(request).await {
        Ok(response) => response,
        Err(never) => match never {},
    }
}

/// Leads from a repository's old name to its number: reading for good, writing with the same method.
fn redirect_moved(shared: &Shared, request: &Request) -> Option<Response> {
    let path = request.uri().path().strip_prefix("/api/v3/repos/")?;
    let mut parts = path.splitn(3, '/');
    let (id, ..) = shared.renamed(parts.next()?, parts.next()?)?;
    let rest = parts.next().map(|rest| format!("/{rest}")).unwrap_or_default();
    let query = request.uri().query().map(|query| format!("?{query}")).unwrap_or_default();
    let host = request.headers().get(header::HOST)?.to_str().ok()?;
    let place = format!("http://{host}/api/v3/repositories/{id}{rest}{query}");
    let reads = request.method() == Method::GET;
    let status = if reads { StatusCode::MOVED_PERMANENTLY } else { StatusCode::TEMPORARY_REDIRECT };
    let body = json!({"message": "Moved Permanently", "url": place});
    Some((status, [(header::LOCATION, place)], Json(body)).into_response())
}

/// The repository that a request would change.
fn changed_repository(request: &Request) -> Option<(String, String)> {
    let path = request.uri().path().strip_prefix("/api/v3/repos/")?;
    let mut parts = path.splitn(3, '/');
    let key = (parts.next()?.to_owned(), parts.next()?.to_owned());
    (request.method() != Method::GET).then_some(key)
}

/// Answers calls that need no handler: the repository has moved, or it is read-only.
pub(super) async fn answer_first(State(shared): Host, request: Request, next: Next) -> Response {
    if let Some(response) = redirect_moved(&shared, &request) {
        return response;
    }
    if let Some(key) = changed_repository(&request) {
        let all = shared.repositories.lock().await;
        if all.get(&key).is_some_and(|repository| repository.rules.archived) {
            let message = "Repository was archived so is read-only.";
            return ApiError::new(StatusCode::FORBIDDEN, message).into_response();
        }
    }
    next.run(request).await
}

async fn read_user(caller: Caller) -> Json<Value> {
    let mut user = json::user_json(&caller.urls, &caller.login);
    let now = Timestamp::UNIX_EPOCH;
    for (key, value) in [
        ("name", Value::Null),
        ("company", Value::Null),
        ("blog", "".into()),
        ("location", Value::Null),
        ("email", Value::Null),
        ("hireable", Value::Null),
        ("bio", Value::Null),
        ("twitter_username", Value::Null),
        ("public_repos", 0.into()),
        ("public_gists", 0.into()),
        ("followers", 0.into()),
        ("following", 0.into()),
        ("created_at", now.to_string().into()),
        ("updated_at", now.to_string().into()),
    ] {
        user[key] = value;
    }
    Json(user)
}

async fn rate_limit(_: Caller) -> Json<Value> {
    let reset = in_an_hour();
    let limit = json!({"limit": 5000, "used": 1, "remaining": 4999, "reset": reset});
    Json(json!({"resources": {"core": limit, "search": limit, "graphql": limit}, "rate": limit}))
}

fn in_an_hour() -> i64 {
    (Timestamp::now() + 1.hour()).as_second()
}

/// The headers that every answer of the real host has and clients read. What was read is marked, and
/// not sent again to who has it.
async fn standard_headers(request: Request, next: Next) -> Response {
    let known = request.headers().get(header::IF_NONE_MATCH).cloned();
    let reads = request.method() == Method::GET;
    let mut response = next.run(request).await;
    if reads && response.status() == StatusCode::OK {
        let (mut parts, body) = response.into_parts();
        let body = axum::body::to_bytes(body, usize::MAX).await.unwrap_or_default();
        let tag = format!("W/\"{}\"", hex::encode(Sha256::digest(&body)));
        if let Ok(tag) = HeaderValue::from_str(&tag) {
            let same = known.is_some_and(|known| known == tag);
            parts.headers.insert(header::ETAG, tag);
            response = Response::from_parts(parts, body.into());
            if same {
                *response.status_mut() = StatusCode::NOT_MODIFIED;
                *response.body_mut() = Body::empty();
                response.headers_mut().remove(header::CONTENT_LENGTH);
            }
        } else {
            response = Response::from_parts(parts, body.into());
        }
    }
    let headers = response.headers_mut();
    headers.insert("x-ratelimit-limit", HeaderValue::from_static("5000"));
    headers.insert("x-ratelimit-remaining", HeaderValue::from_static("4999"));
    headers.insert("x-ratelimit-reset", in_an_hour().into());
    headers.insert("x-github-request-id", HeaderValue::from_static("0000:TESTBED"));
    response
}

/// `?per_page=&page=` of a list.
#[derive(Deserialize)]
struct PageQuery {
    per_page: Option<usize>,
    page: Option<usize>,
}

/// A page of a list, with the `Link` header to the others.
struct Paged {
    query: PageQuery,
    path: String,
    rest: Vec<(String, String)>,
}

impl<S: Send + Sync> FromRequestParts<S> for Paged {
    type Rejection = ApiError;

    async fn from_request_parts(parts: &mut Parts, state: &S) -> Result<Self, Self::Rejection> {
        let bad = |_| ApiError::new(StatusCode::BAD_REQUEST, "Problems parsing query");
        let Query(query) = Query::from_request_parts(parts, state).await.map_err(bad)?;
        let Query(mut rest): Query<Vec<(String, String)>> =
            Query::from_request_parts(parts, state).await.map_err(bad)?;
        rest.retain(|(key, _)| key != "page");
        Ok(Self { query, path: parts.uri.path().to_owned(), rest })
    }
}

impl Paged {
    fn answer(&self, urls: &GitHubUrls, items: Vec<Value>) -> Response {
        self.answer_as(urls, items, |shown, _| shown.into())
    }

    /// A page of a list that an object holds under a name, beside how many items there are in all.
    fn answer_in(&self, urls: &GitHubUrls, name: &str, items: Vec<Value>) -> Response {
        self.answer_as(urls, items, |shown, total| json!({"total_count": total, name: shown}))
    }

    fn answer_as(
        &self,
        urls: &GitHubUrls,
        items: Vec<Value>,
        write: impl FnOnce(Vec<Value>, usize) -> Value,
    ) -> Response {
        let total = items.len();
        let (size, page) = self.place();
        let shown = items.into_iter().skip((page - 1) * size).take(size).collect();
        self.respond(urls, shown, total, write)
    }

    fn place(&self) -> (usize, usize) {
        let size = self.query.per_page.unwrap_or(30).clamp(1, 100);
        (size, self.query.page.unwrap_or(1).max(1))
    }

    /// Items that belong to the requested page.
    fn part<'a, T>(&self, items: &'a [T]) -> &'a [T] {
        let (size, page) = self.place();
        let from = ((page - 1) * size).min(items.len());
        &items[from..(from + size).min(items.len())]
    }

    /// A page whose items were found already, of so many in all.
    fn answer_part(&self, urls: &GitHubUrls, shown: Vec<Value>, total: usize) -> Response {
        self.respond(urls, shown, total, |shown, _| shown.into())
    }

    fn respond(
        &self,
        urls: &GitHubUrls,
        shown: Vec<Value>,
        total: usize,
        write: impl FnOnce(Vec<Value>, usize) -> Value,
    ) -> Response {
        let (size, page) = self.place();
        let last = total.div_ceil(size).max(1);
        let mut response = Json(write(shown, total)).into_response();
        let link = |to: usize, rel: &str| {
            let mut query = url::form_urlencoded::Serializer::new(String::new());
            query.extend_pairs(&self.rest).append_pair("page", &to.to_string());
            format!("<{}{}?{}>; rel=\"{rel}\"", urls.web, self.path, query.finish())
        };
        let mut links = Vec::new();
        if page < last {
            links.extend([link(page + 1, "next"), link(last, "last")]);
        }
        if page > 1 {
            links.extend([link(1, "first"), link(page - 1, "prev")]);
        }
        if let (false, Ok(value)) = (links.is_empty(), HeaderValue::from_str(&links.join(", "))) {
            response.headers_mut().insert(header::LINK, value);
        }
        response
    }
}
