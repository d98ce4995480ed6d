//! Signing in to a server of `spec.mcpServers`. The link in Slack opens here, and here people come back to with a code.
//!
//! The link's ticket stays in a cookie while the person is away: an answer that another browser brings, whatever its
//! `state`, leads nowhere. Where people sign in to pages, it has to be the person who was sent the link.

use axum::extract::{Path, RawQuery, Request, State};
use axum::response::{Html, IntoResponse as _, Redirect, Response};
use codebutler_mcp_servers::sign_in::{SignInVisit, VisitError, finish_sign_in, open_visit};
use http::HeaderValue;
use http::header::SET_COOKIE;
use kube::ResourceExt as _;

use super::door::{PageViewer, read_cookies};
use super::{PageProblem, Pages};

/// Seconds that a person may be away.
const AWAY: u64 = 900;
/// Bytes of the longest ticket that is accepted.
const TICKET: usize = 100;

/// Sends a person with a link to the page on which they sign in.
pub(super) async fn begin_server_signin(
    State(pages): State<Pages>,
    viewer: PageViewer,
    Path((namespace, repo, server, ticket)): Path<(String, String, String, String)>,
) -> Result<Response, PageProblem> {
    let value = format!("{namespace}/{repo}/{server}/{ticket}");
    let visit = find_visit(&pages, &viewer, &value).await?;
    let mut answer = Redirect::to(visit.address()).into_response();
    set_ticket(&mut answer, &pages, &value, AWAY);
    Ok(answer)
}

/// Completes the sign-in of a person who comes back with a code.
pub(super) async fn finish_server_signin(
    State(pages): State<Pages>,
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
    tell_thread(&pages, &visit).await;
    let title = format!("You are signed in to {}", visit.server());
    let text = "The roles of this Repo can use it now. You can close this page.";
    let mut answer = Html(codebutler_pages::render_notice(&title, text, None)).into_response();
    set_ticket(&mut answer, &pages, "", 0);
    Ok(answer)
}

/// The sign-in of a ticket, if it is this person's.
async fn find_visit(
    pages: &Pages,
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

/// The thread hears of it, and the role that needs the server goes on.
async fn tell_thread(pages: &Pages, visit: &SignInVisit) {
    let text = format!(
        "<@{}> has signed in to the server `{}`: its tools can be used.",
        visit.user(),
        visit.server()
    );
    let key = format!("mcp-in-{}", visit.name());
    let people = [visit.user().to_owned()];
    let told =
        pages.sight.slack.remark_to(&visit.thread(), &key, (&text, &people), visit.role()).await;
    if let Err(error) = told {
        tracing::warn!(server = visit.server(), %error, notice = "sign_in", "notice_post_failed");
    }
}

fn is_secure(pages: &Pages) -> bool {
    pages.sight.context.pages.as_ref().is_some_and(|base| base.starts_with("https://"))
}

/// Name of the cookie. Over TLS it begins with `__Host-`, so that no other host can have set it.
fn cookie_name(pages: &Pages) -> String {
    let prefix = if is_secure(pages) { "__Host-" } else { "" };
    format!("{prefix}codebutler-server")
}

fn set_ticket(answer: &mut Response, pages: &Pages, value: &str, life: u64) {
    let secure = if is_secure(pages) { "; Secure" } else { "" };
    let name = cookie_name(pages);
    // Lax: people come back from another site.
    let text = format!("{name}={value}; Path=/; HttpOnly; SameSite=Lax; Max-Age={life}{secure}");
    if let Ok(value) = HeaderValue::from_str(&text) {
        answer.headers_mut().append(SET_COOKIE, value);
    }
}
