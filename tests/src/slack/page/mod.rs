//! The chat page: what a browser needs to take part in the workspace as any of its people.
//!
//! Whoever can open the page can speak for everybody, so a random token in its address keeps other
//! web pages and other users of the machine out, and the `Host` check keeps out names that were
//! made to resolve to this address.

mod live;

use std::sync::Arc;

use axum::extract::{Path, Query, Request, State};
use axum::http::{HeaderMap, HeaderName, HeaderValue, StatusCode, header};
use axum::middleware::{Next, from_fn, from_fn_with_state};
use axum::response::{IntoResponse, Response};
use axum::routing::{get, post};
use axum::{Json, Router};
use serde::Deserialize;
use serde_json::json;

use super::core::{SharedSlack, SlackCore};
use super::driver::SlackError;

type SharedPage = State<Arc<SharedSlack>>;

/// Content-Security-Policy of the page: nothing from elsewhere, nothing inline.
const POLICY: &str = "default-src 'none'; script-src 'self'; style-src 'self'; connect-src 'self'; \
                      base-uri 'none'; form-action 'none'; frame-ancestors 'none'";

const HTML: &str = include_str!("page.html");
/// Path, media type and content of what the HTML refers to.
const PARTS: [(&str, &str, &str); 4] = [
    ("/page/page.css", "text/css; charset=utf-8", include_str!("page.css")),
    ("/page/page.js", "text/javascript; charset=utf-8", include_str!("page.js")),
    ("/page/mrkdwn.js", "text/javascript; charset=utf-8", include_str!("mrkdwn.js")),
    ("/page/emoji.js", "text/javascript; charset=utf-8", include_str!("emoji.js")),
];

/// Routes of the chat page: `/` and `/page/…`.
pub(super) fn build_router(inner: Arc<SharedSlack>) -> Router {
    let guarded = Router::new()
        .route("/", get(|| async { axum::response::Html(HTML) }))
        .route("/page/state", get(live::serve_state))
        .route("/page/events", get(live::serve_events))
        .route("/page/post", post(write_message))
        .route("/page/click", post(click_button))
        .route("/page/react", post(toggle_reaction))
        .route("/page/file/{id}/{name}", get(serve_file))
        .route_layer(from_fn_with_state(Arc::clone(&inner), with_token));
    PARTS
        .into_iter()
        .fold(guarded, |router, (path, media, text)| {
            router.route(path, get(move || async move { ([(header::CONTENT_TYPE, media)], text) }))
        })
        .route_layer(from_fn_with_state(Arc::clone(&inner), from_here))
        .route_layer(from_fn(with_headers))
        // Browsers ask for it unasked.
        .route("/favicon.ico", get(|| async { StatusCode::NO_CONTENT }))
        .with_state(inner)
}

#[derive(Deserialize)]
struct PageGiven {
    #[serde(default)]
    token: String,
}

async fn with_token(
    State(inner): SharedPage,
    Query(given): Query<PageGiven>,
    request: Request,
    next: Next,
) -> Response {
    if given.token == inner.page_token {
        return next.run(request).await;
    }
    let told = "Open the address that the demo printed, with its token.\n";
    (StatusCode::FORBIDDEN, told).into_response()
}

/// Refuses requests under foreign host names, and from foreign pages.
async fn from_here(State(inner): SharedPage, request: Request, next: Next) -> Response {
    match find_stranger(&inner.origin, request.headers()) {
        Some(why) => (StatusCode::FORBIDDEN, why).into_response(),
        None => next.run(request).await,
    }
}

fn find_stranger(own: &str, headers: &HeaderMap) -> Option<&'static str> {
    let text = |name| headers.get(name).and_then(|value| value.to_str().ok());
    let local = own.replacen("127.0.0.1", "localhost", 1);
    let asked = text(header::HOST).map(|host| format!("http://{host}"));
    let Some(asked) = asked.filter(|asked| asked == own || *asked == local) else {
        return Some("not a name of this server\n");
    };
    let foreign = text(header::ORIGIN).is_some_and(|origin| origin != asked);
    foreign.then_some("asked by another page\n")
}

async fn with_headers(request: Request, next: Next) -> Response {
    let mut response = next.run(request).await;
    let fixed = [
        (header::CONTENT_SECURITY_POLICY, POLICY),
        (header::REFERRER_POLICY, "no-referrer"),
        (header::X_CONTENT_TYPE_OPTIONS, "nosniff"),
        (header::CACHE_CONTROL, "no-store"),
        (HeaderName::from_static("cross-origin-resource-policy"), "same-origin"),
    ];
    for (name, value) in fixed {
        response.headers_mut().insert(name, HeaderValue::from_static(value));
    }
    response
}

/// User and channel of an action on the page, with its arguments.
#[derive(Deserialize)]
struct PageAt<T> {
    /// User id of whoever does it.
    user: String,
    /// Id of the channel in which it is done.
    channel: String,
    #[serde(flatten)]
    what: T,
}

#[derive(Deserialize)]
struct PageText {
    #[serde(default)]
    thread: Option<String>,
    text: String,
}

#[derive(Deserialize)]
struct PageButton {
    ts: String,
    action_id: String,
}

#[derive(Deserialize)]
struct PageEmoji {
    ts: String,
    name: String,
}

/// Slack's refusal, for the page to show.
struct PageRefusal(SlackError);

impl IntoResponse for PageRefusal {
    fn into_response(self) -> Response {
        let body = Json(json!({ "error": self.0.to_string() }));
        (StatusCode::UNPROCESSABLE_ENTITY, body).into_response()
    }
}

type PageAnswer = Result<Response, PageRefusal>;

async fn write_message(State(inner): SharedPage, Json(at): Json<PageAt<PageText>>) -> PageAnswer {
    let PageText { thread, text } = &at.what;
    if text.trim().is_empty() {
        return Err(PageRefusal(SlackError::Refused("no_text".to_owned())));
    }
    let post = |core: &mut SlackCore| core.post_as(&at.user, &at.channel, thread.as_deref(), text);
    let ts = inner.update(post).map_err(PageRefusal)?;
    Ok(Json(json!({ "ts": ts })).into_response())
}

async fn click_button(State(inner): SharedPage, Json(at): Json<PageAt<PageButton>>) -> PageAnswer {
    let PageButton { ts, action_id } = &at.what;
    let click = |core: &mut SlackCore| core.click_as(&at.user, &at.channel, ts, action_id);
    let action_ts = inner.update(click).map_err(PageRefusal)?;
    Ok(Json(json!({ "action_ts": action_ts })).into_response())
}

/// Adds the user's reaction, or takes it back if it is there.
async fn toggle_reaction(
    State(inner): SharedPage,
    Json(at): Json<PageAt<PageEmoji>>,
) -> PageAnswer {
    let PageEmoji { ts, name } = &at.what;
    let toggle = |core: &mut SlackCore| {
        let channel = core.world.channels.get(&at.channel);
        let message = channel.and_then(|channel| channel.messages.get(ts));
        let reactions = message.map(|message| message.reactions.as_slice()).unwrap_or_default();
        let has = reactions.iter().any(|r| r.name == *name && r.users.contains(&at.user));
        core.react_as(&at.user, &at.channel, ts, (name.as_str(), !has)).map(|()| !has)
    };
    let added = inner.update(toggle).map_err(PageRefusal)?;
    Ok(Json(json!({ "added": added })).into_response())
}

async fn serve_file(
    State(inner): SharedPage,
    Path((id, _name)): Path<(String, String)>,
) -> Response {
    let content = inner.read(|core| core.world.files.get(&id)?.content.clone());
    let Some(content) = content else { return StatusCode::NOT_FOUND.into_response() };
    // Content that a role uploads is shown as text or saved, never run as a page.
    let mut headers = HeaderMap::new();
    let (media, how) = if std::str::from_utf8(&content).is_ok() {
        ("text/plain; charset=utf-8", "inline")
    } else {
        ("application/octet-stream", "attachment")
    };
    headers.insert(header::CONTENT_TYPE, HeaderValue::from_static(media));
    headers.insert(header::CONTENT_DISPOSITION, HeaderValue::from_static(how));
    (headers, content).into_response()
}
