//! A role's message: what people see of it, and what it means for the Thread.

use std::sync::Arc;

use codebutler_crds::Thread;
use codebutler_crds::thread::ThreadState;
use codebutler_crds::wire::{AskedDecision, ErrorCode, PostMessage, PostedMessage, SharedPicture};
use codebutler_gateway_core::api_error::{ApiError, require_conversation};
use codebutler_gateway_core::caller::ProvenCaller;

use crate::Inner;
use crate::api::account::AccessError;
use crate::api::web::CallError;
use crate::outbound::asking;
use crate::outbound::meaning;
use crate::outbound::meaning::RoleContext;
use crate::outbound::message_parts::{calling_words, split_message};
use crate::outbound::pictures;
use crate::outbound::post::{
    EMPTY, FileHanding, LIMIT, OutgoingText, TextAsks, attach_files, not_recorded, once_in_parts,
};
use crate::outbound::uploads::{self, FileAttachment};
use crate::outbound::usage;
use crate::people::mentions;
use crate::questions::blocks;
use crate::questions::offer_view::OfferShown;
use crate::questions::{merge, plan};
use crate::text::feedback;
use crate::text::markdown::{self, LongSnippet, RenderedMessage, RenderedTable};

/// Posts a role's message and records what it means: a decision asked, roles addressed.
pub(crate) async fn of_role(
    inner: &Inner,
    caller: &ProvenCaller,
    message: &PostMessage,
    beside: RoleContext,
) -> Result<PostedMessage, ApiError> {
    asking::check_message(message)?;
    // Masked first: the words that people see and approve are those that are recorded and hashed.
    let redactor = inner.context.redactors.of(&caller.repo);
    let mask = |text: &String| redactor.mask(text).into_owned();
    let message = &PostMessage {
        text: mask(&message.text),
        choices: message.choices.iter().map(mask).collect(),
        learnings: message.learnings.iter().map(mask).collect(),
        improvements: message.improvements.iter().map(mask).collect(),
        ..message.clone()
    };
    let key = caller.key();
    let thread = inner.thread(&key).unwrap_or_else(|| Arc::clone(&caller.thread));
    if thread.spec.state == ThreadState::Closed || thread.is_going() {
        return Err(ApiError::new(ErrorCode::ThreadClosed, "the thread is closed"));
    }
    // Held until the meaning of the message is recorded: a quick click on it waits for that.
    let _turn = inner.posting.lock(&key).await;
    let digest = meaning::words_digest(message, beside.closing_head.as_deref());
    let (mut text, tables) = in_slack(inner, caller, &thread, message, digest.as_deref()).await?;
    if let Some(asker) = message.to.as_deref().and_then(mentions::mention_user) {
        text = format!("{asker} {text}");
    }
    if message.decision == Some(AskedDecision::Merge) {
        let status = thread.status.clone().unwrap_or_default();
        let begun = &require_conversation(&thread)?.ts;
        let cost = markdown::render_inline(&usage::usage_total(&status, Some(begun)));
        text = format!("{}\n{}", text.trim_end(), cost.trim_end());
    }
    let mut note = beside.note.as_deref().map(markdown::render_inline);
    // Of several items that nobody attends to people hear together, once nothing goes on without them; a plan that
    // does not count as approved is told with what is blocked.
    let is_told_later = message.decision.is_some() && inner.context.is_unattended(&thread);
    if (message.asks || message.decision.is_some()) && !is_told_later {
        let people = mentions::mention_all(&thread);
        match &mut note {
            Some(note) if !people.is_empty() => *note = format!("{people} {note}"),
            Some(_) => {}
            None => text = format!("{text}\n{people}"),
        }
    }
    let offered = OfferShown::of(message);
    let spoken = split_message(text.trim_end(), &tables, LIMIT);
    let is_long = |last: &str, offer: &OfferShown| blocks::is_long_offer(last, offer, &message.key);
    // Offered items and cells of tables call nobody: roles are looked for in what is left.
    let calling: Vec<String> =
        spoken.iter().map(|part| calling_words(&part.text, &tables)).collect();
    let parts = match &offered {
        Some(offer) if spoken.last().is_some_and(|last| is_long(&last.text, offer)) => {
            let text = format!("{}\n\n{}", text.trim_end(), offer.listed());
            split_message(&text, &tables, LIMIT)
        }
        _ => spoken,
    };
    let (team, status) = (inner.team(&caller.repo), thread.status.clone().unwrap_or_default());
    let handing = FileHanding::of(&calling, &team, &status, caller.role_name(), message.last);
    let outgoing = OutgoingText {
        repo: &caller.repo,
        thread: &thread,
        slack: require_conversation(&thread)?,
        key: &message.key,
        role: Some(&caller.role),
        by: None,
        kind: message.decision.map_or("message", AskedDecision::kind),
        asks: match (message.decision, &offered) {
            (Some(AskedDecision::Plan), _) => TextAsks::Buttons(&plan::BUTTONS),
            (Some(AskedDecision::Merge), _) => TextAsks::Buttons(&merge::BUTTONS),
            (None, Some(offer)) => TextAsks::Offer(offer),
            (None, None) if feedback::is_rated(message, !handing.names().is_empty()) => {
                TextAsks::Feedback
            }
            (None, None) => TextAsks::Nothing,
        },
        digest,
        tables: parts.iter().map(|part| part.table.clone()).collect(),
        parts: parts.into_iter().map(|part| part.text).collect(),
        note,
        handing,
    };
    let sent = match once_in_parts(inner, &outgoing).await {
        Ok(sent) => sent,
        Err(error) => return Err(inner.failed(error, &caller.repo).await),
    };
    if let (Some(AskedDecision::Plan), Some(ts)) = (message.decision, sent.last()) {
        inner.keep_plan(&key, &ts.ts, &message.text);
    }
    let meaning = meaning::read_meaning(&team, &outgoing, &sent, message, &beside);
    inner
        .threads
        .update(&key, |status| meaning.apply(status))
        .await
        .map_err(|error| not_recorded(&error))?;
    let first = sent.into_iter().next();
    first
        .map(|part| PostedMessage { ts: part.ts, overlaps: Vec::new() })
        .ok_or_else(|| ApiError::new(ErrorCode::InvalidRequest, EMPTY))
}

/// Renders the message in Slack's markup. Long code goes into files first, so that the text, and buttons under
/// it, come last; where Slack takes no files, it stays in the text.
async fn in_slack(
    inner: &Inner,
    caller: &ProvenCaller,
    thread: &Thread,
    message: &PostMessage,
    digest: Option<&str>,
) -> Result<(String, Vec<RenderedTable>), ApiError> {
    let role = caller.role_name();
    // Files belong to the words that people say yes to, too.
    let key = &[&*message.key, digest.unwrap_or_default()].concat();
    let name =
        |index, snippet: &LongSnippet| uploads::snippet_name(thread, role, key, index, snippet);
    let RenderedMessage { mut text, snippets, tables } =
        markdown::render_markdown(&message.text, name);
    let pictures = pictures::shown_pictures(thread, role, key, &message.pictures)?;
    for picture in &pictures {
        text = format!("{text}\n📎 `{}`", picture.name);
    }
    let names: Vec<String> = pictures.iter().map(|picture| picture.name.clone()).collect();
    let code = snippets.into_iter().enumerate();
    let code = code.map(|(index, snippet)| {
        FileAttachment::new(name(index, &snippet), snippet.code.into_bytes())
    });
    match attach_files(inner, &caller.repo, thread, code.chain(pictures).collect()).await {
        Ok(mut ids) => {
            // Pictures come last.
            let own = ids.split_off(ids.len().saturating_sub(names.len())).into_iter().zip(names);
            inner.showed(caller, thread, own.map(|(id, name)| SharedPicture { id, name })).await;
            Ok((text, tables))
        }
        Err(AccessError::Call(CallError::Refused { code, .. })) => {
            tracing::warn!(code, content = "code", "slack_upload_refused");
            let RenderedMessage { text, tables, .. } = markdown::render_whole(&message.text);
            if names.is_empty() {
                return Ok((text, tables));
            }
            let lost = names.len();
            let text = format!(
                "{text}\n_Slack takes no files of this app: {lost} of its pictures are missing._"
            );
            Ok((text, tables))
        }
        Err(error) => Err(inner.failed(error, &caller.repo).await),
    }
}
