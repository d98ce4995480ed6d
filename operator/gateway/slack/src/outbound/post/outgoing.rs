//! A text on its way into a thread, and the body that Slack gets of it.

use codebutler_crds::thread::SlackThread;
use codebutler_crds::{AgentRole, Repo, Thread};
use kube::ResourceExt as _;
use serde_json::{Value, json};

use super::handing::FileHanding;
use super::identity::MessageIdentity;
use crate::EVENT_TYPE;
use crate::inbound::feedback;
use crate::inbound::page_author::ReplyAuthor;
use crate::outbound::blocks;
use crate::outbound::dates::show_dates;
use crate::outbound::mrkdwn;
use crate::questions::QuestionButton;
use crate::questions::shown::OfferShown;

/// A text on its way into a thread.
pub(crate) struct OutgoingText<'a> {
    pub repo: &'a Repo,
    pub thread: &'a Thread,
    pub slack: &'a SlackThread,
    pub key: &'a str,
    /// None: CodeButler itself.
    pub role: Option<&'a AgentRole>,
    /// The person who wrote it on a page.
    pub by: Option<ReplyAuthor<'a>>,
    pub kind: &'static str,
    pub asks: TextAsks<'a>,
    /// Of all that people say yes to, where they can: a key stands for these words alone.
    pub digest: Option<String>,
    pub parts: Vec<String>,
    /// A line of CodeButler's own under the last part, which no text can pass for.
    pub note: Option<String>,
    pub handing: FileHanding,
}

/// What a text asks of people.
#[derive(Clone, Copy)]
pub(crate) enum TextAsks<'a> {
    /// Nothing.
    Nothing,
    /// What these buttons answer. The message's kind is their block.
    Buttons(&'a [QuestionButton]),
    /// What a role offers: answers, or learnings.
    Offer(&'a OfferShown),
    /// What these blocks say. The text is one part.
    Blocks(&'a Value),
    /// Whether it helped.
    Feedback,
}

impl OutgoingText<'_> {
    /// Empty: CodeButler itself.
    pub(crate) fn role_name(&self) -> &str {
        self.role.map_or("", |role| role.spec.role.as_str())
    }

    /// What one part is found again by.
    pub(super) fn identity(&self, index: usize) -> MessageIdentity {
        let id = MessageIdentity::of(self.role_name(), self.kind, &self.part_key(index));
        id.with_digest(self.digest.clone())
    }

    /// The key of one part; the first one has the message's own.
    pub(super) fn part_key(&self, index: usize) -> String {
        match index {
            0 => self.key.to_owned(),
            _ => format!("{}.{}", self.key, index + 1),
        }
    }

    /// `customize`: whether the message may carry the role's own name and icon.
    pub(super) fn body(&self, index: usize, customize: bool) -> Value {
        let (part, key) = (&self.parts[index], self.part_key(index));
        let text = &match self.role.filter(|_| !customize) {
            // On a line of its own: a mention stays at the start of a line.
            Some(role) => format!("*{}*\n{part}", mrkdwn::escape_text(&role.spec.display.name)),
            None if self.role.is_none() && self.by.is_none() => show_dates(part),
            None => part.clone(),
        };
        let slack = self.slack;
        let kind = self.kind;
        let mut metadata =
            build_metadata(self.thread, self.role_name(), &key, kind, self.parts.len());
        if let Some(digest) = &self.digest {
            metadata["event_payload"]["digest"] = json!(digest);
        }
        self.handing.write(index, &mut metadata["event_payload"]);
        let mut body = json!({
            "channel": slack.channel,
            "thread_ts": slack.ts,
            "text": text,
            "unfurl_links": false,
            "unfurl_media": false,
            "metadata": metadata,
        });
        if let Some(role) = self.role.filter(|_| customize) {
            body["username"] = json!(role.spec.display.name);
            body["icon_emoji"] = json!(role.spec.display.icon);
        }
        if let Some(by) = self.by {
            by.sign(&mut body, customize);
        }
        // The buttons are under the last part.
        let is_last = index + 1 == self.parts.len();
        match self.asks {
            TextAsks::Buttons(buttons) if is_last => {
                body["blocks"] = blocks::question_blocks(text, self.kind, buttons, self.key);
            }
            TextAsks::Offer(offer) if is_last => {
                body["blocks"] = blocks::offer_blocks(text, offer, self.key);
                body["text"] = json!(format!("{text}\n{}", offer.listed()));
            }
            TextAsks::Blocks(blocks) => body["blocks"] = blocks.clone(),
            _ => {}
        }
        if let Some(note) = &self.note
            && index + 1 == self.parts.len()
        {
            body["blocks"] = blocks::add_note(body["blocks"].take(), text, note);
        }
        body
    }

    /// The same as text alone, for a workspace that refuses its blocks: what buttons answer, words answer too.
    pub(super) fn plain(&self, index: usize, body: &Value) -> Value {
        let mut body = body.clone();
        if let Some(fields) = body.as_object_mut() {
            fields.remove("blocks");
        }
        if let Some(note) = self.note.as_ref().filter(|_| index + 1 == self.parts.len()) {
            let text = body["text"].as_str().unwrap_or_default();
            body["text"] = json!(format!("{text}\n{note}"));
        }
        body
    }

    /// The same with the buttons that ask whether it helped; None where it does not ask, and of all but the last part.
    pub(super) fn rated(&self, index: usize, body: &Value) -> Option<Value> {
        let asks = matches!(self.asks, TextAsks::Feedback) && index + 1 == self.parts.len();
        asks.then(|| {
            let mut body = body.clone();
            let shown = match body["blocks"].take() {
                Value::Array(blocks) => blocks,
                _ => blocks::text_sections(body["text"].as_str().unwrap_or_default()),
            };
            let block = feedback::feedback_block(self.role_name());
            body["blocks"] = shown.into_iter().chain([block]).collect();
            body
        })
    }
}

/// What our own messages are known by. The UID tells a Thread from an earlier one of its name.
pub(crate) fn build_metadata(
    thread: &Thread,
    role: &str,
    key: &str,
    kind: &str,
    of: usize,
) -> Value {
    json!({"event_type": EVENT_TYPE, "event_payload": {
        "role": role,
        "key": key,
        "kind": kind,
        "thread": thread.name_any(),
        "uid": thread.uid(),
        "of": of.to_string(),
    }})
}
