//! The agents' API: who may call what, and how requests and refusals look on the wire. What a call
//! does is in the module of its name.

mod approval;
mod below;
mod builds;
mod comparisons;
mod conversation;
mod history;
mod images;
mod item_issues;
mod mcp;
mod pull_request;
mod pulls;
mod remote;
mod remote_change;
mod searches;
mod seat;
mod session;
mod split;
mod threads;

use axum::Router;
use axum::extract::{Request, State};
use axum::middleware::{self, Next};
use axum::response::{IntoResponse as _, Response};
use axum::routing::{MethodRouter, get, post};
use codebutler_crds::wire::{ErrorCode, path};
use codebutler_gateway_core::api_error::ApiError;
use codebutler_mcp_servers::bridges;
use http::Method;
use tracing::Instrument as _;
use tracing::field::Empty;

use crate::close;
use crate::egress_endpoints;
use crate::state::SharedGateway;
use crate::web;

/// All paths of [`path`], with the methods that each has.
pub fn build_router(gateway: SharedGateway) -> Router {
    list_endpoints()
        .into_iter()
        .fold(Router::new(), |router, (path, _, handler)| router.route(&path, handler))
        .fallback(|| async { ApiError::new(ErrorCode::InvalidRequest, "there is no such path") })
        .method_not_allowed_fallback(|| async {
            ApiError::new(ErrorCode::InvalidRequest, "this path has no such method")
        })
        .layer(middleware::from_fn_with_state(gateway.clone(), count_body))
        .layer(middleware::from_fn_with_state(gateway.clone(), admit_request))
        .layer(middleware::from_fn(in_span))
        .with_state(gateway)
}

/// Opens a span for each call. Its caller is recorded once that is known.
async fn in_span(request: Request, next: Next) -> Response {
    let path = request.uri().path().to_owned();
    let span = tracing::info_span!("call", path, thread = Empty, role = Empty);
    next.run(request).instrument(span).await
}

/// Counts a body in the budget of all until its request is answered.
async fn count_body(
    State(gateway): State<SharedGateway>,
    mut request: Request,
    next: Next,
) -> Response {
    let claim = gateway.gate.bodies.claim();
    request.extensions_mut().insert(claim.clone());
    let response = next.run(request).await;
    drop(claim);
    response
}

/// Lets model calls be served to their end, and all else only as long as this gateway may act.
async fn admit_request(
    State(gateway): State<SharedGateway>,
    request: Request,
    next: Next,
) -> Response {
    let calls = [path::CHAT, path::TRANSCRIPTIONS, path::DRAW, path::WEB_SEARCH];
    let lasts = calls.contains(&request.uri().path());
    let response = if lasts && !gateway.models.requests.are_cut() {
        Some(next.run(request).await)
    } else {
        gateway.models.requests.run(next.run(request)).await
    };
    response.unwrap_or_else(|| {
        let message = "another gateway takes over: try again";
        ApiError::new(ErrorCode::Unavailable, message).into_response()
    })
}

/// Method and path of everything that an agent can call.
pub fn agent_calls() -> Vec<(Method, String)> {
    let calls = list_endpoints().into_iter();
    calls
        .flat_map(|(path, methods, _)| methods.iter().map(move |m| (m.clone(), path.clone())))
        .collect()
}

/// One line for each path, so that none is served that [`agent_calls`] does not name.
fn list_endpoints() -> Vec<(String, &'static [Method], MethodRouter<SharedGateway>)> {
    const GET: &[Method] = &[Method::GET];
    const POST: &[Method] = &[Method::POST];
    const BOTH: &[Method] = &[Method::GET, Method::POST];
    let git = |rest: &str| format!("{}/{rest}", path::GIT);
    vec![
        (path::SESSION.into(), GET, get(session::read_session)),
        (path::SEAT.into(), GET, get(seat::read_seat)),
        (path::INBOX.into(), GET, get(conversation::read_inbox)),
        (path::MESSAGES.into(), POST, post(conversation::post_message)),
        (path::PICTURES.into(), GET, get(conversation::read_picture)),
        (path::COMPARISONS.into(), POST, post(comparisons::show_comparison)),
        (path::FILES.into(), GET, get(conversation::read_file)),
        (path::THREADS.into(), GET, get(threads::list_threads)),
        (path::MERGED_BELOW.into(), GET, get(below::read_merged)),
        (path::APPROVALS.into(), POST, post(approval::ask_approval)),
        (path::RUNS.into(), POST, post(conversation::report_run)),
        (path::HISTORY.into(), BOTH, get(history::read_kept).post(history::tell_history)),
        (path::HISTORY_LINES.into(), GET, get(history::read_lines)),
        (path::HISTORY_REQUESTS.into(), GET, get(history::read_requests)),
        (path::LAST_WORDS.into(), POST, post(conversation::last_words)),
        (path::PROGRESS.into(), POST, post(conversation::report_progress)),
        (
            path::PULL_REQUEST.into(),
            BOTH,
            get(pull_request::read_state).post(pull_request::open_pull),
        ),
        (path::COMMENTS.into(), POST, post(remote::post_comment)),
        (path::REVIEWS.into(), POST, post(remote::post_review)),
        (path::ISSUES.into(), GET, get(remote::read_issues)),
        (path::PULLS.into(), GET, get(pulls::read_pull)),
        (path::REMOTE_CHANGES.into(), POST, post(remote_change::change_remote)),
        (path::ITEM_ISSUES.into(), POST, post(item_issues::open_issues)),
        (path::SPLITS.into(), POST, post(split::propose_split)),
        (path::BUILDS.into(), POST, post(builds::claim_build)),
        (path::CLOSE.into(), POST, post(close::close_thread)),
        (path::CHAT.into(), POST, post(codebutler_models::complete_chat)),
        (path::DRAW.into(), POST, post(images::draw_images)),
        (path::PLACE_IMAGE.into(), POST, post(images::place_image)),
        (path::TRANSCRIPTIONS.into(), POST, post(codebutler_models::transcribe_sound)),
        (path::CONNECT.into(), GET, get(egress_endpoints::open_tunnel)),
        (path::MCP_BRIDGE.into(), GET, get(bridges::endpoint::open_bridge)),
        (path::EGRESS_CHECK.into(), POST, post(egress_endpoints::check::report_egress)),
        (path::MCP_TOOLS.into(), GET, get(mcp::read_tools)),
        (path::MCP_CALLS.into(), POST, post(mcp::call_tool)),
        (path::MCP_RESOURCES.into(), GET, get(mcp::list_resources)),
        (path::MCP_READS.into(), POST, post(mcp::read_resource)),
        (path::MCP_PROMPTS.into(), POST, post(mcp::read_prompt)),
        (path::WEB_FETCH.into(), POST, post(web::fetch_page)),
        (path::WEB_FILES.into(), GET, get(web::fetch_file)),
        (path::WEB_SEARCH.into(), POST, post(searches::search_web)),
        (git("info/refs"), GET, get(codebutler_git::info_refs)),
        (git("git-upload-pack"), POST, post(codebutler_git::upload_pack)),
        (git("git-receive-pack"), POST, post(codebutler_git::receive_pack)),
    ]
}
