//! Observations that a scenario is judged by: plain values, so that expectations can be evaluated
//! without a world.

use std::collections::BTreeMap;

use serde::Serialize;
use serde_json::Value;

use crate::github::PullRequest;
use crate::github::git::CommitObject;
use crate::models::{ModelBill, ServedAnswer};

/// Everything that expectations look at.
#[derive(Clone, Debug, Default)]
pub struct ScenarioEvidence {
    /// State that people and operators see.
    pub observed: ObservedWorld,
    /// The remote's base branch and branches.
    pub remote: RemoteState,
    /// Model calls and what was billed for them.
    pub account: ProviderAccount,
    /// The commands' results, in their order in the scenario.
    pub ran: Vec<CommandRun>,
}

/// State that people see in Slack and at the host, and operators with kubectl.
#[derive(Clone, Debug, Default)]
pub struct ObservedWorld {
    /// Every message of every conversation, oldest first.
    pub messages: Vec<SeenMessage>,
    /// The Thread resources as JSON, oldest first.
    pub threads: Vec<Value>,
    /// Names of the agent pods that are there.
    pub pods: Vec<String>,
    /// Names of the volume claims that are there.
    pub volumes: Vec<String>,
    /// Pull requests, oldest first.
    pub pull_requests: Vec<PullRequest>,
    /// Calls so far for which the models' script had no answer.
    pub script_failures: Vec<String>,
}

/// A message in Slack, as people see it.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
pub struct SeenMessage {
    /// `ts` of the first message of its conversation.
    pub conversation: String,
    /// The message's own `ts`, its id in the channel.
    pub ts: String,
    /// A role's short name, a user's name, or `codebutler` for the system itself.
    pub from: String,
    /// Text as people see it.
    pub text: String,
    /// Texts of the buttons that are on it now.
    pub buttons: Vec<String>,
    /// Reactions that the message has.
    pub reactions: Vec<SeenReaction>,
}

/// A reaction to a message.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct SeenReaction {
    /// Name of the emoji, without colons.
    pub emoji: String,
    /// A user's name, or `codebutler`.
    pub by: String,
}

/// The remote as Git knows it.
#[derive(Clone, Debug, Default)]
pub struct RemoteState {
    /// Commits on the base branch since the start, newest first.
    pub commits: Vec<CommitObject>,
    /// Text of every file on the base branch.
    pub files: BTreeMap<String, String>,
    /// Paths that differ from the start.
    pub changed: Vec<String>,
    /// Names of all branches.
    pub branches: Vec<String>,
}

/// The model provider's side of the story.
#[derive(Clone, Debug, Default)]
pub struct ProviderAccount {
    /// Bill of all calls so far.
    pub bill: ModelBill,
    /// Every answer that was billed.
    pub served: Vec<ServedAnswer>,
}

/// Exit code and output of a command.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct CommandRun {
    /// Its exit code; `None` if it was killed.
    pub exit: Option<i32>,
    /// Standard output and error.
    pub output: String,
}
