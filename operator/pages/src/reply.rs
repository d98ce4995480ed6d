//! Forms on a thread's page: answers to open questions, and a reply.

use askama::Template;
use codebutler_markdown::TextDialect;

use crate::UserNames;
use crate::text::{render_prose, render_template};

/// The longest reply, in characters.
pub const LONGEST_REPLY: usize = 3_000;

/// A person's forms on a page.
#[derive(Clone, Debug, Default)]
pub struct PageReplies {
    /// Shows that a change was asked for on this page.
    pub token: String,
    /// Idempotency key of this form: sent twice, a reply is posted once.
    pub key: String,
    pub questions: Vec<AskedQuestion>,
    /// The questions can't be read right now: a sentence.
    pub unread: Option<String>,
}

/// An open question with its buttons.
#[derive(Clone, Debug, Default)]
pub struct AskedQuestion {
    /// Slack's `ts` of its message.
    pub message: String,
    pub parts: Vec<AskedPart>,
}

/// A text in Slack's markup, and the buttons under it.
#[derive(Clone, Debug, Default)]
pub struct AskedPart {
    pub text: String,
    pub buttons: Vec<AskedButton>,
}

/// A button of an open question.
#[derive(Clone, Debug, Default)]
pub struct AskedButton {
    pub action: String,
    pub label: String,
    /// `primary`, `danger` or nothing.
    pub class: &'static str,
}

#[derive(Template)]
#[template(path = "asks.html")]
struct AsksTemplate<'a> {
    base: &'a str,
    replies: &'a PageReplies,
    names: &'a UserNames,
}

#[derive(Template)]
#[template(path = "reply.html")]
struct ReplyTemplate<'a> {
    base: &'a str,
    token: &'a str,
    key: &'a str,
    text: &'a str,
    longest: usize,
}

#[derive(Template)]
#[template(path = "again.html")]
struct ReplyAgain<'a> {
    why: &'a str,
    base: &'a str,
    form: String,
}

/// Open questions with their buttons.
pub(crate) fn render_asks(base: &str, replies: &PageReplies, names: &UserNames) -> String {
    render_template(&AsksTemplate { base, replies, names })
}

/// Renders the form for a reply, with `text` in it.
pub(crate) fn render_reply(base: &str, (token, key): (&str, &str), text: &str) -> String {
    render_template(&ReplyTemplate { base, token, key, text, longest: LONGEST_REPLY })
}

/// A page that says why a reply is not recorded, with its text to send again.
pub fn render_reply_again(base: &str, form: (&str, &str), text: &str, why: &str) -> String {
    render_template(&ReplyAgain { why, base, form: render_reply(base, form, text) })
}

impl AsksTemplate<'_> {
    fn prose(&self, text: &str) -> String {
        render_prose(text, TextDialect::Slack, self.names)
    }
}
