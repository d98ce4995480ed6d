//! A text on its way into a thread, and the body that Slack gets of it.

use codebutler_crds::thread::SlackThread;
use codebutler_crds::{AgentRole, Repo, Thread};
use kube::ResourceExt as _;
use serde_json::{Value, json};

use super::handing::FileHanding;
use super::identity::MessageIdentity;
use crate::EVENT_TYPE;
use crate::outbound::dates::show_dates;
use crate::outbound::message_parts::part_blocks;
use crate::questions::QuestionButton;
use crate::questions::blocks;
use crate::questions::offer_view::OfferShown;
use crate::text::feedback;
use crate::text::markdown::RenderedTable;
use crate::text::mrkdwn;
use crate::text::page_author::ReplyAuthor;

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
    /// The table of each part that shows one as a block; empty where none does.
    pub tables: Vec<Option<RenderedTable>>,
    /// A line of CodeButler's own under the last part, which no text can pass for.
    pub note: Option<String>,
    pub handing: FileHanding,
}

/// A text's question to people, and its form in Slack.
#[derive(Clone, Copy)]
pub(crate) enum TextAsks<'a> {
    /// Nothing.
    Nothing,
    /// A question, answered by these buttons. The kind of the message names their block.
    Buttons(&'a [QuestionButton]),
    /// An offer of a role: answers to choose from, or learnings to judge.
    Offer(&'a OfferShown),
    /// A question in these blocks. The text is one part.
    Blocks(&'a Value),
    /// Feedback on the answer, by two buttons.
    Feedback,
}

impl OutgoingText<'_> {
    /// Name of the role; empty for CodeButler itself.
    pub(crate) fn role_name(&self) -> &str {
        self.role.map_or("", |role| role.spec.role.as_str())
    }

    /// Identity by which one part is found again.
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

    /// The forms of one part, in which it is tried one after the other until Slack takes it: what Slack refuses is
    /// left out, and text alone comes last. `customize`: whether the message may carry the role's own name and icon;
    /// `rates`: whether Slack takes feedback buttons here.
    pub(super) fn forms(&self, index: usize, customize: bool, rates: bool) -> Vec<MessageForm> {
        let has_table = self.table(index).is_some();
        let is_rated = rates && self.is_rated(index);
        let mut forms: Vec<MessageForm> =
            [(true, true), (false, true), (true, false), (false, false)]
                .into_iter()
                .filter(|(table, rated)| (!table || has_table) && (!rated || is_rated))
                .map(|(has_table, is_rated)| {
                    let body = self.body(index, customize, has_table);
                    let body = if is_rated { self.rated(body) } else { body };
                    MessageForm { body, has_table, is_rated, is_plain: false }
                })
                .collect();
        if let Some(last) = forms.last().filter(|last| last.body["blocks"].is_array()) {
            let body = self.plain(index, &last.body);
            let plain = MessageForm { body, is_plain: true, ..*last };
            forms.push(plain);
        }
        forms
    }

    /// The table that a part shows. Under an offer its items are the blocks.
    fn table(&self, index: usize) -> Option<&RenderedTable> {
        let is_offer = matches!(self.asks, TextAsks::Offer(_) | TextAsks::Blocks(_));
        let shows = !is_offer || !self.is_last(index);
        self.tables.get(index)?.as_ref().filter(|table| shows && table.block.is_some())
    }

    fn is_last(&self, index: usize) -> bool {
        index + 1 == self.parts.len()
    }

    fn is_rated(&self, index: usize) -> bool {
        matches!(self.asks, TextAsks::Feedback) && self.is_last(index)
    }

    fn body(&self, index: usize, customize: bool, has_table: bool) -> Value {
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
        let is_last = self.is_last(index);
        let table = self.table(index).filter(|_| has_table);
        let shown =
            || table.map_or_else(|| blocks::text_sections(text), |table| part_blocks(text, table));
        match self.asks {
            TextAsks::Buttons(buttons) if is_last => {
                body["blocks"] = blocks::add_buttons(shown(), self.kind, buttons, self.key);
            }
            TextAsks::Offer(offer) if is_last => {
                body["blocks"] = blocks::offer_blocks(text, offer, self.key);
                body["text"] = json!(format!("{text}\n{}", offer.listed()));
            }
            TextAsks::Blocks(blocks) => body["blocks"] = blocks.clone(),
            _ if table.is_some() => body["blocks"] = Value::Array(shown()),
            _ => {}
        }
        if let Some(note) = &self.note
            && is_last
        {
            body["blocks"] = blocks::add_note(body["blocks"].take(), text, note);
        }
        body
    }

    /// The same as text alone, for a workspace that refuses its blocks: what buttons answer, words answer too.
    fn plain(&self, index: usize, body: &Value) -> Value {
        let mut body = body.clone();
        if let Some(fields) = body.as_object_mut() {
            fields.remove("blocks");
        }
        if let Some(note) = self.note.as_ref().filter(|_| self.is_last(index)) {
            let text = body["text"].as_str().unwrap_or_default();
            body["text"] = json!(format!("{text}\n{note}"));
        }
        body
    }

    /// The same with the buttons that ask whether it helped.
    fn rated(&self, mut body: Value) -> Value {
        let shown = match body["blocks"].take() {
            Value::Array(blocks) => blocks,
            _ => blocks::text_sections(body["text"].as_str().unwrap_or_default()),
        };
        let block = feedback::feedback_block(self.role_name());
        body["blocks"] = shown.into_iter().chain([block]).collect();
        body
    }
}

/// One form of a message, as Slack is asked to take it.
pub(super) struct MessageForm {
    pub body: Value,
    pub has_table: bool,
    pub is_rated: bool,
    /// True for text alone, where the blocks were refused.
    pub is_plain: bool,
}

/// Builds the metadata by which our own messages are known. The UID tells a Thread from an earlier one of its name.
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
