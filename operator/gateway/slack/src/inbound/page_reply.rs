//! Replies and presses from a thread's page: CodeButler posts people's words in the conversation under their
//! name, and from then on they are that person's message, with that person's rights.

use std::sync::Arc;

use codebutler_crds::thread::{SlackThread, ThreadState};
use codebutler_crds::wire::ErrorCode;
use codebutler_crds::{Repo, SlackTs, Thread};
use codebutler_gateway_core::api_error::{ApiError, require_conversation};
use codebutler_gateway_core::thread_key::ThreadKey;
use codebutler_gateway_core::threads::{self, explain_unwritten};
use codebutler_slack_text::shown_text;
use serde_json::Value;

use crate::api::account::{AccessError, SlackAccount};
use crate::api::attribution::PAGE_KIND;
use crate::api::conversation_pages;
use crate::api::stored_message::StoredMessage;
use crate::inbound::effects::RouteEffect;
use crate::inbound::route::{self, RouteAction};
use crate::inbound::take_error::TakeError;
use crate::outbound::post::{self, FileHanding, OutgoingText, TextAsks};
use crate::people::access;
use crate::questions::{self, ButtonPress, ButtonStyle};
use crate::text::mrkdwn;
use crate::text::page_author::{AuthorPlace, ReplyAuthor};
use crate::{Inner, SlackGateway};

/// Most open questions that are shown with their buttons.
const QUESTIONS: usize = 8;
const NOT_STORED: &str = "This could not be recorded yet: send it once more. A reply that Slack has already is not posted twice.";

/// A question that waits for an answer, as Slack shows it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ShownQuestion {
    pub message: SlackTs,
    /// A text and the buttons under it, in order.
    pub parts: Vec<(String, Vec<ShownButton>)>,
}

/// A button that answers a question.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ShownButton {
    pub action_id: String,
    pub label: String,
    pub style: ButtonStyle,
}

impl SlackGateway {
    /// Posts a person's words in a thread. The same `key` posts once. Answers what the person has to know, if
    /// anything.
    ///
    /// # Errors
    /// A sentence for the person.
    pub async fn post_reply(
        &self,
        key: &ThreadKey,
        user: &str,
        (reply, words): (&str, &str),
    ) -> Result<Option<String>, ApiError> {
        let inner = &self.inner;
        let (thread, repo) = inner.conversation(key)?;
        let slack = require_conversation(&thread)?;
        require_open(&thread)?;
        if !access::permits_user(&repo.spec.access.users, user) {
            return Err(ApiError::new(ErrorCode::Forbidden, access::NOT_PERMITTED));
        }
        let account = match inner.account(&repo).await {
            Ok(account) => account,
            Err(error) => return Err(inner.failed(error, &repo).await),
        };
        let posted = inner.post_for((&repo, &thread), (slack, &account), user, (reply, words));
        let (ts, text) = match posted.await {
            Ok(posted) => posted,
            Err(error) => return Err(inner.failed(error, &repo).await),
        };
        let channel = inner.channel(&repo, &account);
        let message = StoredMessage::of_person(ts, slack.ts.clone(), user, text);
        let action = RouteAction::Message {
            root: slack.ts.clone(),
            requested_by: thread.spec.requested_by.clone().unwrap_or_else(|| user.to_owned()),
            said: route::read_said(&message, user, &channel),
            channel,
        };
        inner.carry_out_for(action, user).await
    }

    /// Presses a button of a question for a person. Answers what the person has to know, if anything.
    ///
    /// # Errors
    /// A sentence for the person.
    pub async fn press_button(
        &self,
        key: &ThreadKey,
        (user, message, action_id): (&str, &SlackTs, &str),
    ) -> Result<Option<String>, ApiError> {
        let inner = &self.inner;
        let (thread, repo) = inner.conversation(key)?;
        let root = require_conversation(&thread)?.ts.clone();
        // In Slack, a button stands under its question: nothing else can be pressed.
        let asks = |thread: &Thread| {
            let status = thread.status.as_ref();
            status.is_some_and(|status| threads::pressable_questions(status).contains(message))
        };
        if questions::find_button(action_id).is_none() {
            return Ok(Some(questions::ANSWERED_OR_NEWER.to_owned()));
        }
        if !asks(&thread) {
            // Another replica may have asked a moment ago.
            let newest =
                inner.threads.read(key).await.map_err(|error| explain_unwritten(&error))?;
            if !asks(&newest) {
                return Ok(Some(questions::ANSWERED_OR_NEWER.to_owned()));
            }
        }
        let account = match inner.account(&repo).await {
            Ok(account) => account,
            Err(error) => return Err(inner.failed(error, &repo).await),
        };
        let press = ButtonPress {
            message: message.clone(),
            action_id: action_id.to_owned(),
            user: user.to_owned(),
        };
        let channel = inner.channel(&repo, &account);
        inner.carry_out_for(RouteAction::Press { channel, root, press }, user).await
    }

    /// Finds the messages of a thread that wait for an answer.
    pub fn asked_messages(&self, key: &ThreadKey) -> Vec<SlackTs> {
        let thread = self.inner.thread(key).filter(|thread| require_open(thread).is_ok());
        let status = thread.as_ref().and_then(|thread| thread.status.as_ref());
        let mut asked = status.map(threads::pressable_questions).unwrap_or_default();
        asked.truncate(QUESTIONS);
        asked
    }

    /// Reads the messages that ask something, as they stand in Slack.
    ///
    /// # Errors
    /// When Slack can't be read.
    pub async fn open_questions(
        &self,
        key: &ThreadKey,
        asked: &[SlackTs],
    ) -> Result<Vec<ShownQuestion>, ApiError> {
        let inner = &self.inner;
        let (thread, repo) = inner.conversation(key)?;
        let slack = require_conversation(&thread)?;
        let read = async {
            let account = inner.account(&repo).await?;
            let mut shown = Vec::new();
            for ts in asked {
                let (channel, root) = (&slack.channel, &slack.ts);
                let message =
                    conversation_pages::read_message(&inner.web, &account.bot, channel, root, ts)
                        .await?;
                shown.extend(message.filter(|m| account.wrote(m)).map(|m| read_question(&m)));
            }
            Ok::<_, AccessError>(shown)
        };
        match read.await {
            Ok(mut shown) => {
                shown.retain(|one| one.parts.iter().any(|(_, buttons)| !buttons.is_empty()));
                Ok(shown)
            }
            Err(error) => Err(inner.failed(error, &repo).await),
        }
    }
}

impl Inner {
    /// Posts the words for a person; returns where they stand, and how Slack has them.
    async fn post_for(
        &self,
        (repo, thread): (&Repo, &Thread),
        (slack, account): (&SlackThread, &SlackAccount),
        user: &str,
        (key, words): (&str, &str),
    ) -> Result<(SlackTs, String), AccessError> {
        let person = self.person((repo, account), user).await.ok();
        let name = person.and_then(|person| person.name).unwrap_or_else(|| user.to_owned());
        let text = mrkdwn::escape_text(words);
        let outgoing = OutgoingText {
            repo,
            thread,
            slack,
            key,
            role: None,
            by: Some(ReplyAuthor { user, name: &name, place: AuthorPlace::Page }),
            kind: PAGE_KIND,
            asks: TextAsks::Nothing,
            digest: None,
            parts: vec![text.clone()],
            note: None,
            tables: Vec::new(),
            handing: FileHanding::default(),
        };
        let _turn = self.posting.lock(&ThreadKey::from(thread)).await;
        let sent = post::post_once(self, &outgoing).await?;
        let ts = sent.into_iter().next().ok_or_else(|| {
            AccessError::Call(crate::api::web::CallError::Limited { method: "chat.postMessage" })
        })?;
        Ok((ts, text))
    }

    /// Carries out what a person did on a page. Lines that Slack would show to them alone are answered instead.
    async fn carry_out_for(
        self: &Arc<Self>,
        action: RouteAction,
        user: &str,
    ) -> Result<Option<String>, ApiError> {
        let effects = self.carry_out(action).await.map_err(|error: TakeError| {
            tracing::warn!(%error, "page_reply_write_failed");
            ApiError::new(ErrorCode::Unavailable, NOT_STORED)
        })?;
        let (mut told, mut others) = (None, Vec::new());
        for effect in effects {
            match effect {
                RouteEffect::Whisper { user: to, text, .. } if to == user => told = Some(text),
                RouteEffect::TellClosed { .. } => told = Some(CLOSED.to_owned()),
                other => others.push(other),
            }
        }
        self.follow_up(others);
        Ok(told)
    }
}

const CLOSED: &str = "This thread is closed.";

fn require_open(thread: &Thread) -> Result<(), ApiError> {
    if thread.is_going() || thread.spec.state == ThreadState::Closed {
        return Err(ApiError::new(ErrorCode::ThreadClosed, CLOSED));
    }
    Ok(())
}

/// Texts and buttons of a message that asks something.
fn read_question(message: &StoredMessage) -> ShownQuestion {
    let mut shown = ShownQuestion { message: message.ts.clone(), parts: Vec::new() };
    let mut texts: Vec<String> = Vec::new();
    let blocks = message.blocks.as_ref().and_then(Value::as_array);
    for block in blocks.into_iter().flatten() {
        let elements = block["elements"].as_array();
        if block["type"] == "actions" {
            let buttons = elements.into_iter().flatten().filter_map(read_button).collect();
            shown.parts.push((texts.join("\n"), buttons));
            texts.clear();
            continue;
        }
        if block["type"] == "table" {
            let rows = shown_text(&Value::Array(vec![block.clone()]));
            texts.push(mrkdwn::to_text(&rows));
            continue;
        }
        let own = block["text"]["text"].as_str();
        let inner = elements.into_iter().flatten().filter_map(|one| one["text"].as_str());
        texts.extend(own.into_iter().chain(inner).map(mrkdwn::to_text));
    }
    if !texts.is_empty() {
        shown.parts.push((texts.join("\n"), Vec::new()));
    }
    shown
}

fn read_button(element: &Value) -> Option<ShownButton> {
    let action_id = element["action_id"].as_str()?;
    questions::find_button(action_id)?;
    let style = match element["style"].as_str() {
        Some("primary") => ButtonStyle::Primary,
        Some("danger") => ButtonStyle::Danger,
        _ => ButtonStyle::Plain,
    };
    let label = element["text"]["text"].as_str()?.to_owned();
    Some(ShownButton { action_id: action_id.to_owned(), label, style })
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn message(value: Value) -> StoredMessage {
        serde_json::from_value(value).unwrap()
    }

    #[test]
    fn a_question_is_shown_with_the_buttons_that_slack_shows() {
        let blocks = json!([
            {"type": "section", "text": {"type": "mrkdwn", "text": "*Plan*"}},
            {"type": "section", "text": {"type": "mrkdwn", "text": "1. Fix"}},
            {"type": "table", "rows": [[{"type": "raw_text", "text": "a<b>.rs"},
                {"type": "rich_text", "elements": [{"type": "rich_text_section", "elements": [
                    {"type": "text", "text": "3", "style": {"bold": true}}]}]}]]},
            {"type": "actions", "elements": [
                {"type": "button", "action_id": "plan:approve", "style": "primary",
                    "text": {"type": "plain_text", "text": "Approve"}},
                {"type": "button", "action_id": "somebody:else",
                    "text": {"type": "plain_text", "text": "Else"}},
            ]},
            {"type": "context", "elements": [{"type": "mrkdwn", "text": "until noon"}]},
        ]);
        let read = message(json!({"ts": "2.000000", "bot_id": "B0BOT", "blocks": blocks}));
        let shown = read_question(&read);
        let button = ShownButton {
            action_id: "plan:approve".to_owned(),
            label: "Approve".to_owned(),
            style: ButtonStyle::Primary,
        };
        let [first, last] = &shown.parts[..] else { panic!("{shown:?}") };
        assert!(first.0.contains("Plan") && first.0.contains("1. Fix"), "{shown:?}");
        assert!(first.0.ends_with("\na<b>.rs | 3"), "{shown:?}");
        assert_eq!(first.1, [button]);
        assert_eq!((last.0.as_str(), last.1.len()), ("until noon", 0));
    }
}
