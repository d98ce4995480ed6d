//! Status of one role in a Thread: its marks, its pod, and the message that shows its run.

use codebutler_wire::{NanoUsd, RoleState, TokenUsage};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::Time;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::silence::AgentSilence;
use crate::SlackTs;
use crate::unset::is_zero;

/// A run whose message in the thread shows what it does.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct RunMessage {
    /// The run: the message is found by it.
    #[schemars(length(min = 1, max = 32))]
    pub run: String,
    /// Time at which the run began.
    pub since: Time,
    /// USD that the role had spent before it.
    #[serde(default)]
    pub cost: NanoUsd,
    /// The message, where it began as a stream: Slack keeps no key of one before its end.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub stream: Option<SlackTs>,
}

/// Status of one role in a Thread.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct RoleStatus {
    /// Newest message addressed to the role: a wake-up hint. Only grows. (Gateway.)
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub inbox: Option<SlackTs>,
    /// Newest message that an ended run had taken. Only grows. (Gateway.)
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub done: Option<SlackTs>,
    /// UID of the one pod that speaks for the role. Written by the controller alone: it is the
    /// role's identity at the gateway.
    #[serde(default, skip_serializing_if = "Option::is_none", rename = "podUID")]
    pub pod_uid: Option<String>,
    /// True while it holds one of the Repo's slots, from before it starts until it has done what it started for:
    /// without one the gateway hands it neither session nor mail. (Controller.)
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub admitted: bool,
    /// State that the role's pod reported last. (Gateway.)
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub state: Option<RoleState>,
    /// Newest message that it said, or that said that it stopped. Only grows. (Gateway.)
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub said: Option<SlackTs>,
    /// The role that it addressed with that: what it waits for, if it waits, is no person. (Gateway.)
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(length(max = 16))]
    pub addressed: Option<String>,
    /// True after the end of a run, until the gateway has decided if another role takes over. (Gateway.)
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub ended: bool,
    /// Model calls of the current or last run. (Gateway.)
    #[serde(default)]
    pub turns: u32,
    /// Sandbox that confines its commands: `landlock-<version>`, `runtime`, or the reason why it can run none.
    /// (Gateway.)
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(length(max = 300))]
    pub sandbox: Option<String>,
    /// Silence of its agent, which is not heard of any more. (Gateway.)
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub silent: Option<AgentSilence>,
    /// Pods that died in a row without ending a run. (Controller.)
    #[serde(default, skip_serializing_if = "is_zero")]
    pub failures: u32,
    /// Stored before a message shows the run, and gone once that message is. (Gateway.)
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub shown: Option<RunMessage>,
    /// Token usage so far. (Gateway.)
    #[serde(default)]
    pub usage: TokenUsage,
}

impl RoleStatus {
    /// True if there is a message that no ended run has taken.
    #[must_use]
    pub fn has_mail(&self) -> bool {
        match (&self.inbox, &self.done) {
            (Some(inbox), Some(done)) => inbox > done,
            (Some(_), None) => true,
            (None, _) => false,
        }
    }
}
