//! Replies and answers to open questions that people send from a thread's page. Both are handled like messages
//! and clicks in Slack, with the same rights.

use std::time::Duration;

use axum::Form;
use axum::extract::State;
use axum::response::{Html, IntoResponse as _, Redirect, Response};
use codebutler_crds::SlackTs;
use codebutler_gateway_core::thread_key::ThreadKey;
use codebutler_history::ThreadPlace;
use codebutler_pages::{
    AskedButton, AskedPart, AskedQuestion, LONGEST_REPLY, PageReplies, render_notice,
    render_reply_again,
};
use codebutler_slack::page_reply::ShownQuestion;
use codebutler_slack::questions::ButtonStyle;
use http::StatusCode;
use serde::Deserialize;
use sha2::{Digest as _, Sha256};
use tokio::time::timeout;

use super::address::AddressPath;
use super::door::{PageViewer, ThreadPermit};
use super::signing::{self, SignedChange};
use super::{PageProblem, PageServices, base_path, parse_place};

/// A page does not wait longer than this for its questions.
const PATIENCE: Duration = Duration::from_secs(3);
const UNREAD: &str =
    "There is an open question, and Slack does not say which right now: load this page again.";

/// A reply, as its form sends it.
#[derive(Deserialize)]
pub(super) struct ReplyForm {
    #[serde(flatten)]
    change: SignedChange,
    #[serde(default)]
    key: String,
    #[serde(default)]
    text: String,
}

/// A pressed button, as its form sends it.
#[derive(Deserialize)]
pub(super) struct AnswerForm {
    #[serde(flatten)]
    change: SignedChange,
    message: SlackTs,
    action: String,
}

/// Posts a reply that somebody wrote on a thread's page.
pub(super) async fn post_reply(
    State(pages): State<PageServices>,
    viewer: PageViewer,
    AddressPath((namespace, name)): AddressPath<(String, String)>,
    Form(form): Form<ReplyForm>,
) -> Result<Response, PageProblem> {
    let place = parse_place(&namespace, &name)?;
    let base = base_path(&place);
    let user = require_steering(&pages, &viewer, &place, &form.change).await?;
    let text = form.text.replace("\r\n", "\n");
    let text = text.trim();
    let again = |status: StatusCode, why: &str| {
        let sent = (&*form.change.token, &*form.key);
        Ok((status, Html(render_reply_again(&base, sent, text, why))).into_response())
    };
    if text.is_empty() {
        return again(StatusCode::BAD_REQUEST, "It is empty: write something.");
    }
    if text.chars().count() > LONGEST_REPLY {
        let why = format!("It is longer than {LONGEST_REPLY} characters: send it in two parts.");
        return again(StatusCode::BAD_REQUEST, &why);
    }
    if !is_key(&form.key) {
        return Err(PageProblem::NotAsked);
    }
    // Other words in the same form are another reply.
    let key = format!("{}:{}", form.key, hex::encode(&Sha256::digest(text.as_bytes())[..8]));
    let _turn = pages.limits.heavy(viewer.person()).await?;
    match pages.sight.slack.post_reply(&ThreadKey { namespace, name }, &user, (&key, text)).await {
        Ok(None) => Ok(Redirect::to(&format!("{base}#newest")).into_response()),
        Ok(Some(remark)) => Ok(show_remark("Your reply was posted", &remark, &base)),
        Err(error) => again(StatusCode::SERVICE_UNAVAILABLE, &error.message),
    }
}

/// Presses a button of an open question.
pub(super) async fn press_button(
    State(pages): State<PageServices>,
    viewer: PageViewer,
    AddressPath((namespace, name)): AddressPath<(String, String)>,
    Form(form): Form<AnswerForm>,
) -> Result<Response, PageProblem> {
    let place = parse_place(&namespace, &name)?;
    let base = base_path(&place);
    let user = require_steering(&pages, &viewer, &place, &form.change).await?;
    let pressed = (&*user, &form.message, &*form.action);
    let key = ThreadKey { namespace, name };
    let taken = pages.sight.slack.press_button(&key, pressed).await;
    pages.asked.forget(&key);
    match taken {
        Ok(None) => Ok(Redirect::to(&base).into_response()),
        Ok(Some(why)) => Ok(show_remark("Nothing was decided", &why, &base)),
        Err(error) => Err(PageProblem::Unknown(error.message)),
    }
}

fn show_remark(title: &str, text: &str, base: &str) -> Response {
    let page = render_notice(title, text, Some((base, "Back to the thread")));
    (StatusCode::CONFLICT, Html(page)).into_response()
}

/// The Slack user id of a person who asks for a change in a thread.
///
/// # Errors
/// When another site may have asked for it, or they may not.
pub(super) async fn require_steering(
    pages: &PageServices,
    viewer: &PageViewer,
    place: &ThreadPlace,
    change: &SignedChange,
) -> Result<String, PageProblem> {
    signing::require_person(viewer, change)?;
    let (_, permit) = pages.permit(viewer, place).await?;
    permit.user.filter(|_| permit.steers).ok_or(PageProblem::NotSteering)
}

/// Forms of a thread's page for a person.
pub(super) async fn offer_replies(
    pages: &PageServices,
    viewer: &PageViewer,
    (place, permit): (&ThreadPlace, &ThreadPermit),
) -> Option<PageReplies> {
    let token = viewer.token().filter(|_| permit.steers && permit.user.is_some())?;
    pages.conversation(place)?;
    let (namespace, name) = (place.namespace().to_owned(), place.name().to_owned());
    let key = ThreadKey { namespace, name };
    let asked = timeout(PATIENCE, pages.asked.read(&pages.sight.slack, &key)).await;
    let (questions, unread) = match asked {
        Ok(Ok(questions)) => (questions.iter().map(show_question).collect(), None),
        Ok(Err(error)) => (Vec::new(), Some(error.message)),
        Err(_) => (Vec::new(), Some(UNREAD.to_owned())),
    };
    let key = format!("{:032x}", rand::random::<u128>());
    Some(PageReplies { token, key, questions, unread })
}

fn is_key(key: &str) -> bool {
    key.len() == 32 && key.bytes().all(|b| b.is_ascii_hexdigit())
}

fn show_question(question: &ShownQuestion) -> AskedQuestion {
    let parts = question.parts.iter().map(|(text, buttons)| {
        let buttons = buttons.iter().map(|button| AskedButton {
            action: button.action_id.clone(),
            label: button.label.clone(),
            class: match button.style {
                ButtonStyle::Plain => "",
                ButtonStyle::Primary => "primary",
                ButtonStyle::Danger => "danger",
            },
        });
        AskedPart { text: text.clone(), buttons: buttons.collect() }
    });
    AskedQuestion { message: question.message.to_string(), parts: parts.collect() }
}
