//! The transcript of a recording, shown to its speaker.

use codebutler_crds::SlackTs;
use codebutler_crds::wire::ErrorCode;
use codebutler_gateway_core::api_error::{ApiError, require_conversation};
use codebutler_gateway_core::masks;
use codebutler_gateway_core::thread_key::ThreadKey;

use crate::Inner;
use crate::outbound::post::{
    EMPTY, FileHanding, LIMIT, OutgoingText, TextAsks, not_recorded, post_once,
};
use crate::questions::recording;
use crate::text::markdown;
use crate::text::split_text::split_text;

/// Shows the transcript, and lets roles wait for a correction; once per key. A quick press waits until it is
/// recorded.
pub(crate) async fn show_transcript(
    inner: &Inner,
    key: &ThreadKey,
    (id, user): (&str, &str),
    text: &str,
) -> Result<SlackTs, ApiError> {
    let _turn = inner.posting.lock(key).await;
    let (thread, repo) = inner.conversation(key)?;
    let redactor = masks::as_known(&inner.context, &repo).await;
    let text = redactor.mask(text);
    let outgoing = OutgoingText {
        repo: &repo,
        thread: &thread,
        slack: require_conversation(&thread)?,
        key: id,
        role: None,
        by: None,
        kind: recording::KIND,
        asks: TextAsks::Buttons(&recording::BUTTONS),
        digest: None,
        parts: split_text(&markdown::render_inline(&text), LIMIT),
        note: None,
        tables: Vec::new(),
        handing: FileHanding::default(),
    };
    let sent = match post_once(inner, &outgoing).await {
        Ok(sent) => sent,
        Err(error) => return Err(inner.failed(error, &repo).await),
    };
    let shown = sent.last().ok_or_else(|| ApiError::new(ErrorCode::InvalidRequest, EMPTY))?;
    for part in &sent {
        // No mark speaks of the message, and all roles are to read it.
        inner.kept.hear(key, part);
    }
    let record = |status: &mut _| recording::begin_hold(status, shown, user);
    match inner.threads.update(key, record).await {
        Ok(_) => Ok(shown.clone()),
        Err(error) => Err(not_recorded(&error)),
    }
}
