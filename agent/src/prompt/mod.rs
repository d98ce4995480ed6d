//! What the model is told beside the conversation. [`system_text`] is what stays for a whole thread, always
//! in the same order, so that the provider's cache keeps hitting: the house rules first, which nothing
//! below them can lift, then the role as CodeButler brings it, then what the repository adds.
//! [`changing_facts`] is what differs from run to run: it belongs behind all that is cached.

mod facts;
mod family;
mod guides;
mod window;

use std::fmt::Write as _;

use codebutler_guides::voice::{guard_voice, speak};
use codebutler_wire::RoleSession;
use serde_json::Value;

use crate::tool_args::{TodoItem, TodoState};

pub use crate::tokens::count_tokens;
pub use facts::{approved_plan, changing_facts};
pub use guides::{GuideFile, PromptGuides, section_titles};
pub use window::{
    WindowLook, WindowRequest, build_request, conversation_room, edit_form, find_overlong,
    has_giant, is_marked, model_limits, squeeze_conversation, summary_request, told_length,
};

const HOUSE: &str = include_str!("house.md");
/// More of it, for roles that have tools of servers.
const SERVERS: &str = include_str!("servers.md");

/// The system prompt, in two parts: what all conversations of a role have, so that they share what the
/// provider keeps of it, and what only this one has.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct SystemText {
    pub text: String,
    /// Bytes of the first part.
    pub shared: usize,
}

impl SystemText {
    /// With more about this conversation.
    #[must_use]
    pub fn with(mut self, own: &str) -> Self {
        self.text.push_str(own);
        self
    }
}

/// The system prompt: the same in all runs of a thread, planned or not, while the base branch stays as it is.
pub fn system_text(guides: &PromptGuides, session: &RoleSession) -> SystemText {
    let text = shared_text(guides, session);
    let shared = text.len();
    SystemText { text: text + &facts::thread_facts(guides, session), shared }
}

fn shared_text(guides: &PromptGuides, session: &RoleSession) -> String {
    let servers = guides.servers.then_some(SERVERS);
    let house =
        [Some(HOUSE), servers, family::family_addendum(&guides.model)].into_iter().flatten();
    let shipped = guides.shipped.iter().map(String::as_str);
    let added = [session.prompt.as_deref(), guides.skills.as_deref()].into_iter().flatten();
    let mut out = String::new();
    for part in house.chain(shipped).chain(added).filter(|part| !part.trim().is_empty()) {
        let _ = writeln!(out, "{}\n", part.trim());
    }
    out += &guides.repository(&session.base_branch);
    out += &facts::team_facts(guides, session);
    guard_voice(&out).into_owned()
}

pub fn text_of(message: &Value) -> &str {
    let parts = || message["content"].as_array()?.iter().find_map(|part| part["text"].as_str());
    message["content"].as_str().or_else(parts).unwrap_or_default()
}

/// The role's own list, if anything on it is left to do.
pub fn todo_list(items: &[TodoItem]) -> Option<String> {
    if items.iter().all(|item| item.state == TodoState::Done) {
        return None;
    }
    let line = |item: &TodoItem| {
        let sign = match item.state {
            TodoState::Open => " ",
            TodoState::Doing => "~",
            TodoState::Done => "x",
        };
        format!("- [{sign}] {}", item.text)
    };
    let lines: Vec<_> = items.iter().map(line).collect();
    Some(speak(&format!("Your list:\n{}", lines.join("\n"))))
}

#[cfg(test)]
mod fit_tests;
#[cfg(test)]
mod tests;
#[cfg(test)]
mod words_tests;
