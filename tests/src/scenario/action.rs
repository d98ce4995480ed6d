//! The steps of a scenario: what people do, and conditions that are waited for.

use std::fmt;

use schemars::JsonSchema;
use serde::Deserialize;
use serde_json::Value;

use super::evidence::ObservedWorld;
use super::expect::{PullRequestExpect, ThreadExpect};
use super::message_match::MessageMatch;

/// A step of the scenario's conversation.
#[derive(Clone, Debug)]
pub enum ScenarioAction {
    /// A user starts a conversation.
    Says {
        /// Name of the user who writes.
        user: String,
        /// Text of the first message.
        text: String,
        /// A name by which later steps mean this conversation.
        label: Option<String>,
    },
    /// A user writes into a conversation.
    Replies {
        /// Name of the user who writes.
        user: String,
        /// Text of the message.
        text: String,
        /// Label of the conversation; the one begun last if absent.
        conversation: Option<String>,
    },
    /// A user clicks a button, as soon as there is one.
    Clicks {
        /// Name of the user who clicks.
        user: String,
        /// Text on the button, which identifies it.
        button: String,
        /// The message it is on: the newest one that fits.
        on: MessageMatch,
        /// Timeout in seconds for the button to appear.
        within: Option<u64>,
    },
    /// A user reacts to a message, as soon as there is one.
    Reacts {
        /// Name of the user who reacts.
        user: String,
        /// Name of the emoji, without colons.
        emoji: String,
        /// The message: the newest one that fits.
        on: MessageMatch,
        /// Timeout in seconds for the message to appear.
        within: Option<u64>,
    },
    /// Somebody applies an object, as with `kubectl apply`.
    Applies {
        /// The Kubernetes object to apply.
        object: Value,
        /// A name for the conversation of a Thread that begins with a prompt.
        label: Option<String>,
        /// Seconds to wait for that conversation.
        within: Option<u64>,
    },
    /// Everybody waits until a condition holds.
    Wait {
        /// Condition that ends the step.
        condition: WaitCondition,
        /// Timeout of the condition, in seconds.
        within: Option<u64>,
    },
}

impl ScenarioAction {
    /// Name of the user who acts, if the step has one.
    #[must_use]
    pub fn user(&self) -> Option<&str> {
        match self {
            Self::Says { user, .. }
            | Self::Replies { user, .. }
            | Self::Clicks { user, .. }
            | Self::Reacts { user, .. } => Some(user),
            Self::Wait { .. } | Self::Applies { .. } => None,
        }
    }
}

impl fmt::Display for ScenarioAction {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Says { user, .. } => write!(f, "{user} starts a conversation"),
            Self::Replies { user, .. } => write!(f, "{user} replies"),
            Self::Clicks { user, button, on, .. } => write!(f, "{user} clicks {button} on {on}"),
            Self::Reacts { user, emoji, on, .. } => write!(f, "{user} reacts :{emoji}: to {on}"),
            Self::Applies { object, .. } => {
                let text = |pointer| object.pointer(pointer).and_then(Value::as_str);
                let (kind, name) = (text("/kind"), text("/metadata/name"));
                write!(f, "kubectl apply: {} {}", kind.unwrap_or("?"), name.unwrap_or("?"))
            }
            Self::Wait { condition, .. } => write!(f, "wait for {condition}"),
        }
    }
}

/// A condition that a step waits for.
#[derive(Clone, Debug)]
pub enum WaitCondition {
    /// A message that fits has been posted.
    Message(MessageMatch),
    /// Exactly this number of agent pods exists.
    Pods(usize),
    /// Exactly this number of volume claims exists.
    Volumes(usize),
    /// At least one Thread is as described.
    Thread(ThreadExpect),
    /// The pull request being so.
    PullRequest(PullRequestExpect),
}

impl WaitCondition {
    /// True if the condition holds in the world as observed.
    #[must_use]
    pub fn holds(&self, now: &ObservedWorld) -> bool {
        match self {
            Self::Message(wanted) => now.messages.iter().any(|m| wanted.fits(m)),
            Self::Pods(count) => now.pods.len() == *count,
            Self::Volumes(count) => now.volumes.len() == *count,
            Self::Thread(wanted) => now.threads.iter().any(|t| wanted.differences(t).is_empty()),
            Self::PullRequest(wanted) => wanted.difference(&now.pull_requests).is_none(),
        }
    }
}

impl fmt::Display for WaitCondition {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Message(wanted) => wanted.fmt(f),
            Self::Pods(count) => write!(f, "{count} pods"),
            Self::Volumes(count) => write!(f, "{count} volumes"),
            Self::Thread(_) => f.write_str("the Thread"),
            Self::PullRequest(_) => f.write_str("the pull request"),
        }
    }
}

/// A step of the conversation: what somebody does, or what is waited for.
#[derive(Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
#[schemars(extend("oneOf" = [
    {"required": ["user", "says"]}, {"required": ["user", "replies"]},
    {"required": ["user", "clicks"]}, {"required": ["user", "reacts"]},
    {"required": ["kubectl_apply"]}, {"required": ["wait"]}
]))]
pub(super) struct RawAction {
    /// Who acts.
    user: Option<String>,
    /// Starts a conversation with this.
    says: Option<String>,
    /// Writes this into a conversation.
    replies: Option<String>,
    /// Clicks a button, as soon as there is one.
    clicks: Option<RawClick>,
    /// Reacts to a message, as soon as there is one.
    reacts: Option<RawReact>,
    /// Applies this Kubernetes object in the team's namespace. A Thread with `spec.prompt` begins a
    /// conversation.
    kubectl_apply: Option<serde_json::Map<String, Value>>,
    /// Waits until something is true.
    wait: Option<RawCondition>,
    /// A name by which later steps mean this conversation.
    #[serde(rename = "as")]
    label: Option<String>,
    /// Which conversation; the one begun last if absent.
    #[serde(rename = "in")]
    conversation: Option<String>,
    /// Seconds to wait.
    within: Option<u64>,
}

/// A click on a message's button.
#[derive(Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
struct RawClick {
    /// The button's text.
    button: String,
    /// On the newest message that fits.
    #[serde(default)]
    on: MessageMatch,
}

/// A reaction to a message.
#[derive(Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
struct RawReact {
    /// Emoji without colons.
    emoji: String,
    /// To the newest message that fits.
    #[serde(default)]
    on: MessageMatch,
}

/// Something to wait for: one of these.
#[derive(Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
#[schemars(extend("minProperties" = 1, "maxProperties" = 1))]
struct RawCondition {
    /// A message.
    message: Option<MessageMatch>,
    /// So many pods.
    pods: Option<usize>,
    /// So many volumes.
    volumes: Option<usize>,
    /// Any Thread being so.
    thread: Option<ThreadExpect>,
    /// The newest pull request being so.
    pull_request: Option<PullRequestExpect>,
}

/// A step of a scenario is not as it has to be.
#[derive(Debug, thiserror::Error)]
pub(super) enum ActionFormError {
    #[error("`as` names a conversation: it goes with `says` or `kubectl_apply`")]
    Label,
    #[error("`in` goes with `replies`")]
    Conversation,
    #[error("`within` goes with `wait`, `clicks`, `reacts` or `kubectl_apply`")]
    Within,
    #[error("`kubectl_apply` is a step of its own")]
    Apply,
    #[error(
        "a step is either `wait`, `kubectl_apply`, or `user` with one of `says`, `replies`, `clicks`, `reacts`"
    )]
    Kind,
    #[error("`wait` is for one of `message`, `pods`, `volumes`, `thread`, `pull_request`")]
    Wait,
}

impl TryFrom<RawAction> for ScenarioAction {
    type Error = ActionFormError;

    fn try_from(raw: RawAction) -> Result<Self, ActionFormError> {
        let RawAction { user, says, replies, clicks, reacts, wait, within, .. } = raw;
        let (applies, label, conversation) = (raw.kubectl_apply, raw.label, raw.conversation);
        if says.is_none() && applies.is_none() && label.is_some() {
            return Err(ActionFormError::Label);
        }
        if replies.is_none() && conversation.is_some() {
            return Err(ActionFormError::Conversation);
        }
        if within.is_some() && (says.is_some() || replies.is_some()) {
            return Err(ActionFormError::Within);
        }
        if let Some(object) = applies {
            let others = [user.is_some(), says.is_some(), replies.is_some()];
            let more = [clicks.is_some(), reacts.is_some(), wait.is_some()];
            if others.into_iter().chain(more).any(|other| other) {
                return Err(ActionFormError::Apply);
            }
            return Ok(Self::Applies { object: object.into(), label, within });
        }
        match (user, says, replies, clicks, reacts, wait) {
            (Some(user), Some(text), None, None, None, None) => {
                Ok(Self::Says { user, text, label })
            }
            (Some(user), None, Some(text), None, None, None) => {
                Ok(Self::Replies { user, text, conversation })
            }
            (Some(user), None, None, Some(click), None, None) => {
                Ok(Self::Clicks { user, button: click.button, on: click.on, within })
            }
            (Some(user), None, None, None, Some(react), None) => {
                Ok(Self::Reacts { user, emoji: react.emoji, on: react.on, within })
            }
            (None, None, None, None, None, Some(wait)) => {
                Ok(Self::Wait { condition: wait.try_into()?, within })
            }
            _ => Err(ActionFormError::Kind),
        }
    }
}

impl TryFrom<RawCondition> for WaitCondition {
    type Error = ActionFormError;

    fn try_from(raw: RawCondition) -> Result<Self, ActionFormError> {
        let RawCondition { message, pods, volumes, thread, pull_request } = raw;
        let kinds = [
            message.map(Self::Message),
            pods.map(Self::Pods),
            volumes.map(Self::Volumes),
            thread.map(Self::Thread),
            pull_request.map(Self::PullRequest),
        ];
        let mut kinds = kinds.into_iter().flatten();
        match (kinds.next(), kinds.next()) {
            (Some(condition), None) => Ok(condition),
            _ => Err(ActionFormError::Wait),
        }
    }
}
