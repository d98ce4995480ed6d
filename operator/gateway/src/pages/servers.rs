//! Signing in to a server of `spec.mcpServers`. The link in Slack opens here, and here people come back to with a code.
//!
//! The link's ticket stays in a cookie while the person is away: an answer that another browser brings, whatever its
//! `state`, leads nowhere. Where people sign in to pages, it has to be the person who was sent the link.

use axum::Json;
use axum::extract::{Path, RawQuery, Request, State};
use axum::response::{Html, IntoResponse as _, Redirect, Response};
use codebutler_crds::ThreadStatus;
use codebutler_gateway_core::thread_key::ThreadKey;
use codebutler_mcp_servers::ask::{end_question, find_waiting};
use codebutler_mcp_servers::sign_in::{
    SignInVisit, VisitError, describe_client, finish_sign_in, note_opened, open_visit,
};
use http::HeaderValue;
use http::header::SET_COOKIE;
use kube::ResourceExt as _;
use serde_json::Value;

use super::door::{PageViewer, read_cookies};
use super::{PageProblem, PageServices};

/// Seconds that a person may be away.
const AWAY: u64 = 900;
/// Bytes of the longest ticket that is accepted.
const TICKET: usize = 100;

/// Describes this installation to authorization servers that register no clients. Anybody may read it.
pub(super) async fn serve_client(
    State(pages): State<PageServices>,
) -> Result<Json<Value>, PageProblem> {
    describe_client(&pages.sight.context)
        .map(Json)
        .map_err(|error| PageProblem::Unknown(format!("{error}.")))
}

/// Sends a person with a link to the page on which they sign in.
pub(super) async fn begin_server_signin(
    State(pages): State<PageServices>,
    viewer: PageViewer,
    Path((namespace, repo, server, ticket)): Path<(String, String, String, String)>,
) -> Result<Response, PageProblem> {
    let value = format!("{namespace}/{repo}/{server}/{ticket}");
    let visit = find_visit(&pages, &viewer, &value).await?;
    if let Err(error) = note_opened(&pages.sight.context, &visit).await {
        tracing::warn!(server = visit.server(), %error, "server_sign_in_write_failed");
    }
    let mut answer = Redirect::to(visit.address()).into_response();
    set_ticket(&mut answer, &pages, &value, AWAY);
    Ok(answer)
}

/// Completes the sign-in of a person who comes back with a code.
pub(super) async fn finish_server_signin(
    State(pages): State<PageServices>,
    viewer: PageViewer,
    RawQuery(query): RawQuery,
    request: Request,
) -> Result<Response, PageProblem> {
    let (parts, _) = request.into_parts();
    let name = cookie_name(&pages);
    let value = read_cookies(&parts).find(|(own, _)| *own == name).map(|(_, value)| value);
    let value = value.ok_or(PageProblem::ServerLinkGone)?;
    let visit = find_visit(&pages, &viewer, value).await?;
    let context = &pages.sight.context;
    finish_sign_in(context, &visit, &query.unwrap_or_default()).await.map_err(|error| {
        tracing::warn!(server = visit.server(), %error, "server_sign_in_failed");
        explain_visit(&visit, error)
    })?;
    tell_threads(&pages, &visit).await;
    let title = format!("You are signed in to {}", visit.server());
    let text = "The roles of this Repo can use it now. You can close this page.";
    let mut answer = Html(codebutler_pages::render_notice(&title, text, None)).into_response();
    set_ticket(&mut answer, &pages, "", 0);
    Ok(answer)
}

/// The sign-in of a ticket, if it is this person's.
async fn find_visit(
    pages: &PageServices,
    viewer: &PageViewer,
    value: &str,
) -> Result<SignInVisit, PageProblem> {
    let parts: Vec<&str> = value.split('/').collect();
    let &[namespace, repo, server, ticket] = &parts[..] else {
        return Err(PageProblem::ServerLinkGone);
    };
    if ticket.len() > TICKET {
        return Err(PageProblem::ServerLinkGone);
    }
    pages.door.require_session(viewer)?;
    let context = &pages.sight.context;
    let visit = open_visit(context, (namespace, repo, server), ticket).await.map_err(|error| {
        if let VisitError::Failed(error) = &error {
            tracing::warn!(server, %error, "server_sign_in_start_failed");
        }
        match error {
            VisitError::Gone => PageProblem::ServerLinkGone,
            VisitError::Failed(error) => PageProblem::Unknown(format!("{error}.")),
        }
    })?;
    let place = visit.place();
    let channel = place.repo.channel().unwrap_or_default();
    match pages.sight.find_member(viewer, &place.repo, channel).await? {
        None => Ok(visit),
        Some(user) if user == visit.user() => Ok(visit),
        Some(_) => {
            tracing::warn!(server, repo = place.repo.name_any(), "server_link_misused");
            Err(PageProblem::ServerLinkForeign)
        }
    }
}

fn explain_visit(visit: &SignInVisit, error: VisitError) -> PageProblem {
    match error {
        VisitError::Gone => PageProblem::ServerLinkGone,
        VisitError::Failed(error) => {
            let (server, words) =
                (visit.server(), codebutler_mcp_file::clean_text(&error.to_string()));
            PageProblem::ServerNotSignedIn(format!(
                "The sign-in to {server} did not succeed: {words}. Write in the thread again to get another link."
            ))
        }
    }
}

/// The threads in which somebody was asked hear of it, and the roles that wait for it go on: the sign-in serves the
/// whole Repo. The person waits for their own thread alone.
async fn tell_threads(pages: &PageServices, visit: &SignInVisit) {
    let (own, news) = (visit.thread(), SignInNews::of(visit));
    let threads = pages.sight.context.threads.state();
    let (own_waiting, others): (Vec<_>, Vec<_>) = threads
        .iter()
        .filter_map(|thread| {
            let roles = find_waiting(thread, visit.place())?;
            Some((ThreadKey::from(&**thread), roles))
        })
        .partition(|(key, _)| *key == own);
    let mut roles = vec![visit.role().to_owned()];
    let beside = own_waiting.into_iter().flat_map(|(_, roles)| roles);
    roles.extend(beside.filter(|role| *role != visit.role()));
    news.tell(pages, &own, &roles).await;
    let pages = pages.clone();
    tokio::spawn(async move {
        for (key, roles) in others {
            news.tell(&pages, &key, &roles).await;
        }
    });
}

/// A sign-in that succeeded, as threads are told of it.
struct SignInNews {
    server: String,
    /// By which the line is posted once.
    key: String,
    text: String,
    people: [String; 1],
}

impl SignInNews {
    fn of(visit: &SignInVisit) -> Self {
        let (server, user) = (visit.server().to_owned(), visit.user().to_owned());
        let text =
            format!("<@{user}> has signed in to the server `{server}`: its tools can be used.");
        Self { server, key: format!("mcp-in-{}", visit.name()), text, people: [user] }
    }

    /// Nobody is asked in this thread any more, and these roles hear why.
    async fn tell(&self, pages: &PageServices, thread: &ThreadKey, roles: &[String]) {
        let Self { server, key, text, people } = self;
        let end = |status: &mut ThreadStatus| end_question(status, server);
        if let Err(error) = pages.threads.update(thread, end).await {
            tracing::warn!(%error, thread = thread.name, part = "sign_in", "thread_status_write_failed");
        }
        for role in roles {
            let told = pages.sight.slack.remark_to(thread, key, (text, people), role).await;
            if let Err(error) = told {
                tracing::warn!(server, %error, notice = "sign_in", "notice_post_failed");
            }
        }
    }
}

fn is_secure(pages: &PageServices) -> bool {
    pages.sight.context.pages.as_ref().is_some_and(|base| base.starts_with("https://"))
}

/// Name of the cookie. Over TLS it begins with `__Host-`, so that no other host can have set it.
fn cookie_name(pages: &PageServices) -> String {
    let prefix = if is_secure(pages) { "__Host-" } else { "" };
    format!("{prefix}codebutler-server")
}

fn set_ticket(answer: &mut Response, pages: &PageServices, value: &str, life: u64) {
    let secure = if is_secure(pages) { "; Secure" } else { "" };
    let name = cookie_name(pages);
    // Lax: people come back from another site.
    let text = format!("{name}={value}; Path=/; HttpOnly; SameSite=Lax; Max-Age={life}{secure}");
    if let Ok(value) = HeaderValue::from_str(&text) {
        answer.headers_mut().append(SET_COOKIE, value);
    }
}
