//! Edits the messages of settled questions: they lose the buttons and say what became of them. The Thread keeps
//! which ones still have to, so that a restart in between leaves no dead button behind.

use codebutler_crds::SlackTs;
use codebutler_crds::thread::{SettledQuestion, SlackThread};
use codebutler_gateway_core::thread_key::ThreadKey;
use codebutler_gateway_core::threads::{CLOSED, done_settling};
use serde_json::{Value, json};

use crate::Inner;
use crate::api::account::{AccessError, SlackAccount};
use crate::api::conversation_pages;
use crate::outbound::refused_blocks::refuses_blocks;
use crate::questions::blocks;
use crate::questions::{self, QuestionButton, action, find_button, recording};
use crate::text::mrkdwn;

/// `kind` of a question about an action, once it is answered.
const ANSWERED: &str = "answered";

/// Edits all messages on the list, and takes them off it.
pub(crate) async fn settle_all(inner: &Inner, key: &ThreadKey) -> Result<(), AccessError> {
    let Some((thread, repo)) = inner.known(key) else { return Ok(()) };
    let settled = thread.status.as_ref().map(|status| status.settled.clone()).unwrap_or_default();
    let Some(slack) = thread.conversation().filter(|_| !settled.is_empty()) else { return Ok(()) };
    let account = inner.account(&repo).await?;
    for one in &settled {
        match settle_message(inner, &account, slack, &one.ts, &settled_line(one)).await {
            // The message is gone, or too old to be edited.
            Err(error) if error.code().is_some() => {
                tracing::info!(%error, "button_removal_failed");
            }
            other => other?,
        }
        inner.sent.settle(key, &one.ts);
    }
    let written = inner.threads.update(key, |status| done_settling(status, &settled)).await;
    if let Err(error) = written {
        tracing::warn!(%error, thread = key.name, part = "settled_questions", "thread_status_write_failed");
    }
    Ok(())
}

/// Line that stands in the place of buttons.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct SettledLine {
    /// Says who settled the question, or what did.
    text: String,
    /// The button that was pressed: it may settle one block alone.
    button: Option<QuestionButton>,
}

impl SettledLine {
    /// Stands in the place of all buttons.
    pub(crate) fn of(text: impl Into<String>) -> Self {
        Self { text: text.into(), button: None }
    }

    fn line(&self, blocks: &Value) -> String {
        let Some(button) = &self.button else { return self.text.clone() };
        let label = blocks::button_label(blocks, &button.action_id).unwrap_or_default();
        // A label is plain text: nothing in it is markup here.
        let label: String = label.chars().filter(|c| !"*_~`".contains(*c)).collect();
        format!("{} {}", button.settled.replace("{}", &mrkdwn::escape_text(&label)), self.text)
    }
}

fn settled_line(settled: &SettledQuestion) -> SettledLine {
    let choice = settled.choice.as_deref();
    if choice == Some(action::EXPIRED) {
        return SettledLine::of(":hourglass: Nobody answered in time: it was not done");
    }
    if choice == Some(recording::TAKEN) {
        return SettledLine::of(":hourglass: Not corrected in time: taken as it was understood");
    }
    if choice == Some(CLOSED) {
        return SettledLine::of(":no_entry_sign: The thread is closed");
    }
    if choice == Some(questions::WITHDRAWN) {
        return SettledLine::of(":heavy_minus_sign: No longer asked");
    }
    match (choice.and_then(find_button), &settled.user) {
        (Some(button), Some(user)) => {
            SettledLine { text: format!("<@{user}>"), button: Some(button) }
        }
        // Covers choices that only a later version knows.
        _ => SettledLine::of(":arrow_down: Replaced by a newer one below"),
    }
}

/// Puts a line in the place of a message's buttons, if it has any.
pub(crate) async fn settle_message(
    inner: &Inner,
    account: &SlackAccount,
    slack: &SlackThread,
    ts: &SlackTs,
    settled: &SettledLine,
) -> Result<(), crate::api::web::CallError> {
    let SlackThread { channel, ts: root } = slack;
    let found =
        conversation_pages::read_message(&inner.web, &account.bot, channel, root, ts).await?;
    let Some(message) = found.filter(|message| account.wrote(message)) else { return Ok(()) };
    let blocks = message.blocks.as_ref().and_then(|blocks| {
        let line = settled.line(blocks);
        match settled.button.as_ref().and_then(|button| button.block.as_ref()) {
            Some(block) => blocks::settled_part(blocks, block, &line),
            None => blocks::settle_blocks(blocks, &line),
        }
    });
    let Some(blocks) = blocks else { return Ok(()) };
    let text = blocks::fallback_text(message.text.as_deref().unwrap_or_default());
    let mut body = json!({"channel": channel, "ts": ts, "text": text, "blocks": blocks});
    // The metadata is sent again, so that the message keeps its key.
    if let Some(metadata) = &message.metadata {
        let mut payload = metadata.event_payload.clone();
        if payload["kind"] == action::KIND {
            // Except for a question about an action: the same may be asked again, when nobody remembers the
            // answer.
            payload["kind"] = json!(ANSWERED);
        }
        body["metadata"] = json!({"event_type": metadata.event_type, "event_payload": payload});
    }
    let edit = inner.web.post::<Value>(&account.bot, "chat.update", &body).await.map(drop);
    match (edit, blocks::without_tables(&body["blocks"])) {
        // No dead button stays because of a table that Slack does not take back.
        (Err(error), Some(plain)) if refuses_blocks(&error) => {
            body["blocks"] = plain;
            inner.web.post::<Value>(&account.bot, "chat.update", &body).await.map(drop)
        }
        (edit, _) => edit,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_settled_question_says_how() {
        let settled = |choice: Option<&str>| SettledQuestion {
            ts: "1.000000".parse().unwrap(),
            choice: choice.map(str::to_owned),
            user: choice.map(|_| "U1".to_owned()),
        };
        let line = |choice| settled_line(&settled(choice)).line(&json!([]));
        assert_eq!(line(Some("plan:reject")), ":x: Rejected by <@U1>");
        assert!(line(None).contains("below"));
        // A choice of a later version.
        assert!(line(Some("plan:postpone")).contains("below"));
        let blocks = json!([{"type": "actions", "elements": [{"action_id": "choice:1",
            "text": {"type": "plain_text", "text": "The *long* way"}}]}]);
        let line = settled_line(&settled(Some("choice:1"))).line(&blocks);
        assert_eq!(line, ":white_check_mark: *The long way*, chosen by <@U1>");
    }
}
