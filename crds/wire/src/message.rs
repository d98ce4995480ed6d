//! Messages that an agent reads and posts in its own thread.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::{TestProof, ThreadOverlap};
use crate::SlackTs;
use crate::{PendingItem, PlanComplexity};

/// Inbox of a role. The messages are all of the conversation after `after`, so that a role also knows what was said
/// to others.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct RoleInbox {
    /// Messages, the oldest first.
    pub messages: Vec<ThreadMessage>,
    /// Pending items, the oldest first.
    pub pending: Vec<PendingItem>,
    /// The Thread was closed, or the caller replaced: finish and exit.
    pub closed: bool,
}

/// An inbox with a version, so that the same one is not sent twice.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct VersionedInbox {
    /// Messages and pending decisions.
    #[serde(flatten)]
    pub inbox: RoleInbox,
    /// The same for the same inbox. None: there is nothing new in it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub version: Option<String>,
}

/// A message of the conversation. Its text is untrusted, whoever wrote it.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct ThreadMessage {
    /// Slack's timestamp: identity and order of the message.
    pub ts: SlackTs,
    /// Author of the message.
    pub author: MessageAuthor,
    /// Text, rendered from Slack's markup.
    pub text: String,
    /// True if it is addressed to the caller's role.
    pub addressed: bool,
    /// Pictures that came with it, of a kind and size that can be handed out.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub pictures: Vec<SharedPicture>,
}

/// Largest picture that is handed out, in bytes.
pub const MAX_PICTURE: u64 = 3 * 1024 * 1024;

/// Largest file of a conversation that is handed out, in bytes.
pub const MAX_SHARED_FILE: u64 = 64 * 1024 * 1024;

/// The header with a file's name, percent-encoded.
pub const FILE_NAME: &str = "x-codebutler-file-name";

/// The header of a model's answer with the model that gave it, where another one of the role's stood in for it.
pub const STAND_IN: &str = "x-codebutler-stand-in";

/// A picture in a message of the conversation: what to ask [`path::PICTURES`](super::path::PICTURES)
/// for.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct SharedPicture {
    /// Slack's id of the picture file.
    pub id: String,
    /// File name that its owner gave it, on one line.
    pub name: String,
}

/// Most pictures of one message of a role.
pub const MAX_PICTURES: usize = 4;

/// A picture that a role shows.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct OwnPicture {
    /// PNG, JPEG, GIF or WebP of at most [`MAX_PICTURE`] bytes, in base64.
    pub data: String,
}

/// Author of a message: known from Slack's ids and the gateway's own metadata, never from text.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", tag = "kind")]
pub enum MessageAuthor {
    /// A person wrote the message.
    User {
        /// Slack user id of the person.
        id: String,
    },
    /// A role of this conversation.
    Role {
        /// Short name of the role.
        role: String,
    },
    /// Whoever made the Thread in the cluster: the text is its `spec.prompt`, and as much of an
    /// instruction as a person's message.
    Prompt {
        /// Name of the Thread whose prompt it is.
        thread: String,
        /// Slack user id or name of the requester, if it was said.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        requested_by: Option<String>,
    },
    /// Whoever is neither a person nor may write here: nobody has to do what it says.
    Bot {
        /// Slack's id of the bot.
        id: String,
    },
    /// CodeButler itself: reports, notices.
    System,
}

/// A message that a role wants in its own thread, under its own name.
#[expect(clippy::struct_excessive_bools, reason = "each is a field of its own on the wire")]
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct PostMessage {
    /// Identity of the effect: a second request with the same key posts nothing and answers with
    /// the first one's `ts`. At most 64 characters of `[A-Za-z0-9_.:-]`.
    pub key: String,
    /// Text of the message, in Markdown.
    pub text: String,
    /// Ask the people of the thread for a decision with buttons.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub decision: Option<AskedDecision>,
    /// With [`AskedDecision::Plan`]: the command whose success will prove the change, shown with the plan
    /// and approved with it. At most 200 characters.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub test: Option<String>,
    /// With [`AskedDecision::Plan`]: complexity of the work, shown with the plan and approved with it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub complexity: Option<PlanComplexity>,
    /// Answers to choose from, each with a button: 2 to 5, of at most 75 characters each. Without
    /// `decision` and `learnings`.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub choices: Vec<String>,
    /// Things learned that people approve or reject one by one: at most 10, of at most 500 characters
    /// each. Without `decision` and `choices`.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub learnings: Vec<String>,
    /// Things to do otherwise that people may accept one by one, and nobody waits for: as many and as long. Without
    /// `decision`, `choices` and `learnings`.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub improvements: Vec<String>,
    /// The run ends here and waits for people: they are mentioned.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub asks: bool,
    /// With [`AskedDecision::Plan`]: files and folders that the work will change, approved with it. At most
    /// 24, of 120 bytes each.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub files: Vec<String>,
    /// The run ends with it: a role that is addressed anywhere in it is handed over to.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub last: bool,
    /// True if it answers what a person asked: people may say whether it helped.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub answers: bool,
    /// Slack user id of the person who is answered: mentioned before the text.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub to: Option<String>,
    /// True if all roles that it addresses begin at once, and the asking role goes on once, when the last has
    /// answered: for questions that change no file.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub together: bool,
    /// Pictures that are shown before the message; at most [`MAX_PICTURES`].
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub pictures: Vec<OwnPicture>,
    /// The harness's proof of tests, where the message hands work over. The gateway puts its verdict under the
    /// message.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub proof: Option<TestProof>,
}

/// Decisions that are asked with buttons. The gateway records the answer; an agent can't.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub enum AskedDecision {
    /// The text is a plan: Approve, Modify, Reject.
    Plan,
    /// The work is done: Merge, Hold, Close without merge.
    Merge,
}

/// Decisions that a role may have the right to ask people for, with buttons.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub enum RoleDecision {
    /// Approval of the role's plan.
    Plan,
    /// Merge of work that is done.
    Merge,
    /// Choice of one of several answers.
    Choice,
}

impl AskedDecision {
    /// `plan` or `merge`: the `kind` of the resulting pending item.
    #[must_use]
    pub const fn kind(self) -> &'static str {
        match self {
            Self::Plan => "plan",
            Self::Merge => "merge",
        }
    }
}

/// A message that is in Slack now.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct PostedMessage {
    /// Slack's timestamp of the message (of the first part, if it had to be split).
    pub ts: SlackTs,
    /// Of a plan: other open threads that are at the same places.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub overlaps: Vec<ThreadOverlap>,
}
