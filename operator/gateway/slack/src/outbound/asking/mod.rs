//! Messages that ask people something: CodeButler's own questions, and whether a role's can be asked.

pub(crate) mod action;
mod branch;
mod parts;
pub(crate) mod recording;
pub(crate) mod roadmap;
mod train;
mod whole;

use codebutler_crds::thread::MOST_OFFERED;
use codebutler_crds::wire::{ErrorCode, PostMessage};
use codebutler_crds::{SlackTs, ThreadStatus};
use codebutler_gateway_core::api_error::{ApiError, require_conversation};
use codebutler_gateway_core::masks;
use codebutler_gateway_core::thread_key::ThreadKey;

use crate::Inner;
use crate::outbound::post::{
    EMPTY, FileHanding, LIMIT, OutgoingText, TextAsks, not_recorded, post_once,
};
use crate::people::mentions;
use crate::questions::budget::{self, BudgetAsked};
use crate::questions::{QuestionButton, inactivity, update};
use crate::text::markdown;
use crate::text::split_text::split_text;

/// Asks about money, and calls those of `people` whom the text mentions; a quick press waits until the question is
/// recorded.
pub(crate) async fn ask_money(
    inner: &Inner,
    key: &ThreadKey,
    id: &str,
    (text, people): (&str, &[String]),
    question: &BudgetAsked,
) -> Result<(), ApiError> {
    let _turn = inner.posting.lock(key).await;
    let buttons = budget::offered_buttons(question.limit);
    let sent = post_own(inner, key, id, (text, people), ("budget", &buttons), None).await?;
    let asked = sent.last().ok_or_else(|| ApiError::new(ErrorCode::InvalidRequest, EMPTY))?;
    let recorded = inner.threads.update(key, |status| question.record(status, asked)).await;
    recorded.map(drop).map_err(|error| not_recorded(&error))
}

/// Warns that the thread will be closed; a quick press waits until the question is recorded.
pub(crate) async fn ask_inactivity(
    inner: &Inner,
    key: &ThreadKey,
    id: &str,
    text: &str,
) -> Result<(), ApiError> {
    let _turn = inner.posting.lock(key).await;
    let sent =
        post_own(inner, key, id, (text, &[]), ("collect", &inactivity::BUTTONS), None).await?;
    let answered =
        |status: &ThreadStatus| status.settled.iter().any(|settled| sent.contains(&settled.ts));
    let record = |status: &mut ThreadStatus| {
        if !answered(status) {
            status.warned = sent.last().cloned();
        }
    };
    inner.threads.update(key, record).await.map(drop).map_err(|error| not_recorded(&error))
}

/// Offers to bring the branch up to date; a quick press waits until the question is recorded.
pub(crate) async fn ask_update(
    inner: &Inner,
    key: &ThreadKey,
    id: &str,
    text: &str,
) -> Result<(), ApiError> {
    let _turn = inner.posting.lock(key).await;
    let sent = post_own(inner, key, id, (text, &[]), ("update", &update::BUTTONS), None).await?;
    let answered =
        |status: &ThreadStatus| status.settled.iter().any(|settled| sent.contains(&settled.ts));
    let record = |status: &mut ThreadStatus| {
        if !answered(status) {
            update::end_offer(status, None, None);
            status.update_offer = sent.last().cloned();
        }
    };
    inner.threads.update(key, record).await.map(drop).map_err(|error| not_recorded(&error))
}

/// People of `spec.access.users` who are called where everybody who took part has left.
const CALLED: usize = 3;
/// Sentence that is added to a reminder there.
const ALL_LEFT: &str =
    "Everybody who took part has left this workspace: whoever may decide here can answer.";

/// Reminds all who have to do with a thread of what it waits for. Where they have left, the first people who may decide
/// hear of it.
pub(crate) async fn remind_people(
    inner: &Inner,
    key: &ThreadKey,
    id: &str,
    text: &str,
) -> Result<(), ApiError> {
    let (thread, repo) = inner.conversation(key)?;
    let mut people = inner.without_former(&repo, mentions::reminded_people(&thread)).await;
    let concerned: Vec<String> = mentions::concerned_people(&thread).into_iter().collect();
    let has_people = !concerned.is_empty();
    if people.is_empty() {
        // Who alone could answer may have left, and the others stay: they can say that it is no more wanted.
        people = inner.without_former(&repo, concerned).await;
    }
    let mut text = text.to_owned();
    if has_people && people.is_empty() {
        text = format!("{text} {ALL_LEFT}");
        let named = repo.spec.access.users.iter().take(CALLED).cloned().collect();
        people = inner.without_former(&repo, named).await;
    }
    let called = mentions::mention_each(&people);
    let _turn = inner.posting.lock(key).await;
    post_asking(inner, key, id, (&text, &[], &called), ("remind", TextAsks::Nothing), None)
        .await
        .map(drop)
}

/// Posts a question of CodeButler itself. The caller holds the thread's turn to post. `digest`: of all that a
/// yes is recorded for, so that no message with other words under the same key passes for this one.
async fn post_own(
    inner: &Inner,
    key: &ThreadKey,
    id: &str,
    (text, people): (&str, &[String]),
    (kind, buttons): (&'static str, &[QuestionButton]),
    digest: Option<String>,
) -> Result<Vec<SlackTs>, ApiError> {
    let (thread, _) = inner.conversation(key)?;
    let mentions = mentions::mention_all(&thread);
    let asks = (kind, TextAsks::Buttons(buttons));
    post_asking(inner, key, id, (text, people, &mentions), asks, digest).await
}

async fn post_asking(
    inner: &Inner,
    key: &ThreadKey,
    id: &str,
    (text, people, mentions): (&str, &[String], &str),
    (kind, asks): (&'static str, TextAsks<'_>),
    digest: Option<String>,
) -> Result<Vec<SlackTs>, ApiError> {
    let (thread, repo) = inner.conversation(key)?;
    let redactor = masks::as_known(&inner.context, &repo).await;
    let text = redactor.mask(text);
    let rendered = mentions::restore_mentions(&markdown::render_inline(&text), people);
    let asked = format!("{rendered}\n{mentions}");
    let outgoing = OutgoingText {
        repo: &repo,
        thread: &thread,
        slack: require_conversation(&thread)?,
        key: id,
        role: None,
        by: None,
        kind,
        asks,
        digest,
        parts: split_text(asked.trim_end(), LIMIT),
        note: None,
        tables: Vec::new(),
        handing: FileHanding::default(),
    };
    match post_once(inner, &outgoing).await {
        Ok(sent) => Ok(sent),
        Err(error) => Err(inner.failed(error, &repo).await),
    }
}

/// Refuses a role's message that can't be posted.
pub(crate) fn check_message(message: &PostMessage) -> Result<(), ApiError> {
    let allowed = |c: char| c.is_ascii_alphanumeric() || matches!(c, '_' | '.' | ':' | '-');
    let invalid = |sentence: &str| Err(ApiError::new(ErrorCode::InvalidRequest, sentence));
    if message.text.trim().is_empty() {
        return invalid(EMPTY);
    }
    let PostMessage { choices, learnings, improvements, .. } = message;
    let asked = [choices, learnings, improvements].map(|items| !items.is_empty());
    let kinds = asked.into_iter().chain([message.decision.is_some()]);
    if kinds.filter(|asked| *asked).count() > 1 {
        return invalid(
            "a message asks for a decision, or has `choices`, `learnings` or `improvements`",
        );
    }
    let short =
        |most: usize| move |text: &String| !text.trim().is_empty() && text.chars().count() <= most;
    let fits = choices.is_empty() || (2..=5).contains(&choices.len());
    if !fits || !choices.iter().all(short(75)) {
        return invalid("`choices` has to be 2 to 5 answers of at most 75 characters");
    }
    if learnings.len() > MOST_OFFERED || !learnings.iter().all(short(2000)) {
        return invalid(&format!(
            "`learnings` has to be at most {MOST_OFFERED} of at most 2000 characters"
        ));
    }
    if improvements.len() > MOST_OFFERED || !improvements.iter().all(short(1000)) {
        return invalid(&format!(
            "`improvements` has to be at most {MOST_OFFERED} of at most 1000 characters"
        ));
    }
    if message.key.is_empty() || message.key.len() > 64 || !message.key.chars().all(allowed) {
        return invalid("the key has to be 1 to 64 characters of A-Z, a-z, 0-9 and _ . : -");
    }
    Ok(())
}
