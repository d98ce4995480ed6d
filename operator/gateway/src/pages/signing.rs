//! Signing in and out. What a browser was sent away with comes back in a signed cookie: an answer that was
//! asked for by nobody here, or by another browser, signs nobody in.

use std::sync::Arc;

use axum::Form;
use axum::extract::{Query, Request, State};
use axum::response::{IntoResponse as _, Redirect, Response};
use http::HeaderValue;
use http::header::SET_COOKIE;
use serde::{Deserialize, Serialize};

use super::door::{
    DoorKeys, NO_SECRET, PageDoor, PageViewer, SESSION, SignIn, SignedInPerson, read_cookies,
    seconds_now,
};
use super::flows::FlowRefusal;
use super::issuer::{IssuerError, SignInQuestion};
use super::visitor::VisitorAddress;
use super::{PageProblem, PageServices};

/// Seconds within which a sign-in has to be completed.
const FLOW_LIFE: u64 = 600;
/// Seconds after which a session expires.
const SESSION_LIFE: u64 = 8 * 3600;
const FLOW: &str = "flow";

#[derive(Serialize, Deserialize)]
struct SignInFlow {
    state: String,
    nonce: String,
    #[serde(default)]
    verifier: Option<String>,
    to: String,
}

#[derive(Deserialize)]
pub(super) struct SignInQuery {
    #[serde(default)]
    to: String,
}

#[derive(Deserialize)]
pub(super) struct ReturnQuery {
    #[serde(default)]
    code: String,
    #[serde(default)]
    state: String,
    #[serde(default)]
    error: String,
}

/// A change, with what shows where it comes from.
#[derive(Deserialize)]
pub(super) struct SignedChange {
    #[serde(default)]
    pub token: String,
}

fn require_signin(pages: &PageServices) -> Result<&Arc<SignIn>, PageProblem> {
    match &pages.door {
        PageDoor::Signed(sign_in) => Ok(sign_in),
        PageDoor::Open => Err(PageProblem::NoPage),
    }
}

async fn read_keys(sign_in: &SignIn) -> Result<Arc<DoorKeys>, PageProblem> {
    sign_in.keys().await.map_err(|error| {
        tracing::warn!(%error, "page_sign_in_unavailable");
        PageProblem::NoSignIn(NO_SECRET)
    })
}

/// Sends somebody to the issuer.
pub(super) async fn begin_signin(
    State(pages): State<PageServices>,
    Query(wanted): Query<SignInQuery>,
) -> Result<Response, PageProblem> {
    let sign_in = require_signin(&pages)?;
    let keys = read_keys(sign_in).await?;
    let question = sign_in.issuer.question(&keys.registration).await.map_err(|error| {
        tracing::warn!(%error, "page_sign_in_unavailable");
        PageProblem::NoSignIn(error.advice())
    })?;
    let SignInQuestion { address, state, nonce, verifier } = question;
    let flow = SignInFlow { state, nonce, verifier, to: own_path(&wanted.to) };
    let value = keys
        .seal
        .close(FLOW, flow, seconds_now() + FLOW_LIFE)
        .ok_or(PageProblem::NoSignIn(NO_SECRET))?;
    let mut answer = Redirect::to(address.as_str()).into_response();
    set_cookie(&mut answer, sign_in, FLOW, &value, FLOW_LIFE);
    Ok(answer)
}

/// Completes a sign-in when the issuer redirects the browser back.
pub(super) async fn finish_signin(
    State(pages): State<PageServices>,
    Query(returned): Query<ReturnQuery>,
    request: Request,
) -> Result<Response, PageProblem> {
    let sign_in = require_signin(&pages)?;
    let keys = read_keys(sign_in).await?;
    let (parts, _) = request.into_parts();
    let name = sign_in.cookie(FLOW);
    let value = read_cookies(&parts).find(|(own, _)| *own == name).map(|(_, value)| value);
    let flow: Option<SignInFlow> =
        value.and_then(|value| keys.seal.open(FLOW, value, seconds_now()));
    let flow = flow.filter(|flow| !flow.state.is_empty() && flow.state == returned.state);
    let Some(flow) = flow else { return Err(PageProblem::SignedInLate) };
    if !returned.error.is_empty() || returned.code.is_empty() {
        tracing::info!(error = code_of(&returned.error), "page_sign_in_cancelled");
        return Err(PageProblem::NotSignedIn {
            to: flow.to,
            why: explain_refusal(&returned.error),
        });
    }
    // A cookie can be sent again and again: the issuer is asked once.
    let from = VisitorAddress::of(&parts, &sign_in.plan.proxies);
    sign_in.flows.try_once(&flow.state, from).map_err(|refusal| match refusal {
        FlowRefusal::Again => PageProblem::SignedInLate,
        FlowRefusal::Many => PageProblem::Busy("Very many people sign in right now."),
        FlowRefusal::ManyFromThere => {
            PageProblem::Busy("Very many people sign in from your address right now.")
        }
    })?;
    let (issuer, own) = (&sign_in.issuer, &keys.registration);
    let answered = issuer.answer(own, returned.code, &flow.nonce, flow.verifier).await;
    let identity = answered.map_err(|error| {
        tracing::warn!(%error, "page_sign_in_failed");
        match error {
            IssuerError::Away(_) => PageProblem::NoSignIn(error.advice()),
            error => {
                PageProblem::NotSignedIn { to: flow.to.clone(), why: error.advice().to_owned() }
            }
        }
    })?;
    let value = keys.seal.close(SESSION, identity, seconds_now() + SESSION_LIFE);
    let value = value.ok_or(PageProblem::NoSignIn(NO_SECRET))?;
    // The code is not in the address any more.
    let mut answer = Redirect::to(&flow.to).into_response();
    set_cookie(&mut answer, sign_in, SESSION, &value, SESSION_LIFE);
    set_cookie(&mut answer, sign_in, FLOW, "", 0);
    Ok(answer)
}

/// Forgets who somebody is: a copy of the cookie is worth nothing then, either.
pub(super) async fn sign_out(
    State(pages): State<PageServices>,
    viewer: PageViewer,
    Form(change): Form<SignedChange>,
) -> Result<Response, PageProblem> {
    let sign_in = require_signin(&pages)?;
    sign_in.flows.end(require_person(&viewer, &change)?.session());
    let mut answer = Redirect::to("/").into_response();
    set_cookie(&mut answer, sign_in, SESSION, "", 0);
    Ok(answer)
}

/// Returns the requester of a change whose CSRF token is valid.
///
/// # Errors
/// When another site may have asked for it.
pub(super) fn require_person<'a>(
    viewer: &'a PageViewer,
    change: &SignedChange,
) -> Result<&'a SignedInPerson, PageProblem> {
    match viewer {
        PageViewer::Person(person) if person.sent(&change.token) => Ok(person),
        _ => Err(PageProblem::NotAsked),
    }
}

fn set_cookie(answer: &mut Response, sign_in: &SignIn, name: &str, value: &str, life: u64) {
    let secure = if sign_in.is_secure() { "; Secure" } else { "" };
    let name = sign_in.cookie(name);
    // Lax, not Strict: people come from Slack, and back from the issuer.
    let text = format!("{name}={value}; Path=/; HttpOnly; SameSite=Lax; Max-Age={life}{secure}");
    if let Ok(value) = HeaderValue::from_str(&text) {
        answer.headers_mut().append(SET_COOKIE, value);
    }
}

/// An error as OAuth has it: a word.
fn code_of(error: &str) -> &str {
    let plain = |b: u8| b.is_ascii_lowercase() || b == b'_';
    if error.len() <= 40 && error.bytes().all(plain) { error } else { "an unknown error" }
}

/// Explains the error code with which an issuer redirected somebody back.
fn explain_refusal(error: &str) -> String {
    match code_of(error) {
        "" => "The issuer sent no code.".to_owned(),
        "access_denied" => {
            "The sign-in was cancelled, or the issuer does not let you in here (access_denied): whoever looks after it can \
             allow your account the client of these pages."
                .to_owned()
        }
        "temporarily_unavailable" | "server_error" => {
            "The issuer is in trouble: try again in a minute.".to_owned()
        }
        other => format!(
            "The issuer refused how these pages asked ({other}): its client there and the values of `pages` have to agree."
        ),
    }
}

/// A path of this site: whatever else is wanted leads to the list.
fn own_path(to: &str) -> String {
    let plain = |b: u8| b.is_ascii_graphic() && !matches!(b, b'\\' | b'"' | b'<' | b'>');
    let is_own = to.starts_with('/') && !to.starts_with("//") && to.len() < 1000;
    if is_own && to.bytes().all(plain) { to.to_owned() } else { "/".to_owned() }
}

#[cfg(test)]
mod tests {
    use super::own_path;

    #[test]
    fn nobody_is_sent_to_another_site() {
        for own in ["/", "/team/shop-1", "/?state=done&q=a%20b", "/team/shop-1?from=3"] {
            assert_eq!(own_path(own), own);
        }
        for other in ["", "//evil.example", "https://evil.example", "/\\evil.example", "/a b", "/é"]
        {
            assert_eq!(own_path(other), "/", "{other}");
        }
    }
}
