//! The tools. Each is one object: what the model is told of it, its risk, and what it does. The loop
//! knows no tool by name.

mod attachment;
mod canonical;
mod conversation;
mod family;
mod full_text;
pub mod hand_up;
mod history;
mod image;
mod kept;
pub mod learning;
mod maps;
pub mod mcp;
mod plan;
pub mod proof;
mod push;
mod quoted;
mod remote;
mod remote_change;
mod remote_pull;
mod research;
pub mod review;
mod roadmap;
mod role;
mod schema;
mod screenshot;
mod section;
mod split;
mod thread;
mod toolbox_reply;
mod web;
mod workflow;
mod workspace;

use std::collections::BTreeSet;
use std::path::PathBuf;

use async_trait::async_trait;
use codebutler_wire::{ErrorCode, NanoUsd, RiskTier, SlackTs, TokenUsage};
use schemars::JsonSchema;
use serde::de::DeserializeOwned;
use serde_json::{Value, json};

use crate::builds::PodBuilds;
use crate::gateway::{GatewayClient, GatewayError};
use crate::journal::JournalFacts;
use crate::memory::KnownLearning;
use crate::relay::GitRelay;
use crate::review::ReviewGate;
use crate::toolbox::client::{ToolboxClient, ToolboxError};
use crate::transcript::{ResultKind, TranscriptRecord};
use codebutler_guides::policy::{CommandPolicy, RiskVerdict};

pub use canonical::approved_form;
pub use family::call_in_form;
pub use push::{PushResult, RelayedRequest};
pub use role::RoleTools;

/// Context of a tool call: clients, and facts about the thread.
#[derive(Clone)]
pub struct ToolContext {
    /// Client of the gateway: Slack, GitHub, and the thread's state.
    pub gateway: GatewayClient,
    /// Client of the toolbox, which has the worktree.
    pub toolbox: ToolboxClient,
    /// Relay for Git, which knows the gateway's words to it.
    pub relay: GitRelay,
    /// The pod's build slot.
    pub builds: PodBuilds,
    /// Test runs that prove something of a commit.
    pub tests: proof::ThreadTests,
    /// Files and folders that the approved plan names.
    pub planned: Vec<String>,
    /// The conversation, as of the start of the run.
    pub thread: ThreadFacts,
    /// Learnings that the role was shown.
    pub known: Vec<KnownLearning>,
}

/// Facts about the conversation, for tools.
#[derive(Clone, Debug, Default)]
pub struct ThreadFacts {
    /// Name of the Thread.
    pub name: String,
    /// The role that calls.
    pub role: String,
    /// Link to the first message in Slack.
    pub link: Option<String>,
    /// Folder with the transcripts of all roles.
    pub state_dir: PathBuf,
    /// Transcript of the calling role, of its present conversation.
    pub transcript: PathBuf,
    /// Usage by role.
    pub usage: Vec<(String, TokenUsage)>,
    /// Facts for the conversation's journal, where one is kept.
    pub journal: Option<JournalFacts>,
    /// Rules for a review.
    pub review: ReviewGate,
    /// True if a retrospective has to come before the question about the merge, and is not done.
    pub looks_back: bool,
    pub look_back: LookBackFacts,
    /// True if the retrospective is held later, of this conversation together with others.
    pub learns_later: bool,
    /// The newest commit of another conversation's branch, where its own began on that.
    pub stacked_on: Option<String>,
    /// True while nothing is approved to be built: roles can be asked to explore.
    pub explores: bool,
    /// The roles of the team.
    pub roles: Vec<String>,
}

/// What tools have to know of looking back.
#[derive(Clone, Debug, Default)]
pub struct LookBackFacts {
    /// The most that it may cost.
    pub limit: Option<NanoUsd>,
    pub cost: NanoUsd,
    pub is_over: bool,
    /// Other roles that have worked in this conversation.
    pub took_part: BTreeSet<String>,
    /// Those of them that were asked.
    pub asked: BTreeSet<String>,
    /// Messages of the conversation that can be linked to.
    pub messages: BTreeSet<SlackTs>,
}

/// What a call can do.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum CallRisk {
    /// Nothing: calls run side by side and may be repeated.
    Reads,
    /// Something in the worktree.
    Changes,
    /// Something that other people see.
    Speaks,
}

impl CallRisk {
    const fn tier(self) -> RiskTier {
        match self {
            Self::Reads => RiskTier::Read,
            Self::Changes => RiskTier::WriteLocal,
            Self::Speaks => RiskTier::WriteVisible,
        }
    }
}

/// One call that is about to be carried out.
#[derive(Clone, Debug)]
pub struct StartedCall<'a> {
    /// What [`RoleTool::key`] said when the call was recorded.
    pub key: &'a str,
    /// It may have been carried out before a crash.
    pub again: bool,
}

/// Result of a call.
#[derive(Clone, Debug, PartialEq)]
pub struct ToolOutcome {
    /// For the model: words of others in it are guarded when it is shown.
    pub text: String,
    /// What CodeButler itself has to say of it, a sentence or two each: shown behind the text, in its own voice.
    pub notes: Vec<String>,
    /// For the run.
    pub kind: ResultKind,
    /// For the transcript, before the result.
    pub records: Vec<TranscriptRecord>,
}

impl ToolOutcome {
    fn plain(text: impl Into<String>) -> Self {
        Self::of(text, ResultKind::Plain)
    }

    fn of(text: impl Into<String>, kind: ResultKind) -> Self {
        Self { text: text.into(), notes: Vec::new(), kind, records: Vec::new() }
    }

    /// Adds remarks.
    #[must_use]
    pub fn noting(mut self, more: impl IntoIterator<Item = String>) -> Self {
        self.notes.extend(more);
        self
    }

    /// Adds records for the transcript.
    fn recording(mut self, more: impl IntoIterator<Item = TranscriptRecord>) -> Self {
        self.records.extend(more);
        self
    }
}

/// A call that failed. Each kind has one reader.
#[derive(Debug, thiserror::Error)]
pub enum ToolFailure {
    /// For the model: what to do instead.
    #[error("{0}")]
    Respond(String),
    /// For the model: the call itself is wrong. Three such turns in a row end the run.
    #[error("{0}")]
    Fault(String),
    /// For the thread: the run can't go on.
    #[error("{0}")]
    Stop(String),
    /// The thread is closed.
    #[error("the thread is closed")]
    Closed,
    /// For the log: this process can't go on; its successor may.
    #[error("the gateway failed")]
    Gateway(#[source] GatewayError),
    /// For the log: this process can't go on; its successor may.
    #[error("the toolbox failed")]
    Toolbox(#[source] ToolboxError),
}

impl From<GatewayError> for ToolFailure {
    fn from(error: GatewayError) -> Self {
        match error {
            GatewayError::Refused { code: ErrorCode::ThreadClosed, .. } => Self::Closed,
            // Away, or not the agent of this role any more.
            GatewayError::Refused {
                code: ErrorCode::Unavailable | ErrorCode::NotRegistered | ErrorCode::Unauthenticated,
                ..
            } => Self::Gateway(error),
            GatewayError::Refused { message, .. } => Self::Respond(message),
            GatewayError::Unexpected { .. } => Self::Respond(error.to_string()),
            other => Self::Gateway(other),
        }
    }
}

impl From<ToolboxError> for ToolFailure {
    fn from(error: ToolboxError) -> Self {
        match error {
            ToolboxError::TooLarge => {
                Self::Respond("that is too much at once: do it in parts".to_owned())
            }
            other => Self::Toolbox(other),
        }
    }
}

/// A tool, as the loop of a run uses it.
#[async_trait]
pub trait RoleTool: Send + Sync {
    /// Its name.
    fn name(&self) -> &str;
    /// Its schema is a stranger's: arguments are passed on as the model wrote them.
    fn is_foreign(&self) -> bool {
        false
    }
    /// Specification that the model is given, in OpenAI's form.
    fn spec(&self) -> Value;
    /// JSON Schema of its arguments.
    fn schema(&self) -> Value;
    /// What a call can do.
    fn risk(&self) -> CallRisk;
    /// It costs money by itself: it is recorded before it is made, though it may only read.
    fn is_paid(&self) -> bool {
        false
    }
    /// The fields of each object among its arguments, as the structs declare them, with the pointer to the
    /// object in [`RoleTool::schema`].
    #[cfg(test)]
    fn declared(&self) -> Vec<(String, &'static [&'static str])> {
        Vec::new()
    }
    /// Judges by the policy how much harm this call can do.
    fn verdict(&self, policy: &CommandPolicy, arguments: &str) -> RiskVerdict;
    /// Key by which the effect of a call is found again. Recorded before [`RoleTool::call`]; `proposed` is
    /// unique to the call.
    async fn key(
        &self,
        cx: &ToolContext,
        arguments: &str,
        proposed: &str,
    ) -> Result<String, ToolFailure>;
    /// Carries a call out.
    async fn call(
        &self,
        cx: &ToolContext,
        arguments: &str,
        call: StartedCall<'_>,
    ) -> Result<ToolOutcome, ToolFailure>;
}

/// A tool as its file implements it, with typed arguments.
#[async_trait]
trait Handler: Send + Sync + 'static {
    type Args: DeserializeOwned + JsonSchema + Send + Sync + 'static;
    const NAME: &'static str;
    const DESCRIPTION: &'static str;
    const RISK: CallRisk;
    const PAID: bool = false;

    /// How much harm it can do, by the tool alone unless its arguments say more.
    fn verdict(&self, policy: &CommandPolicy, _args: &Self::Args) -> RiskVerdict {
        policy.tool(Self::NAME, Self::RISK.tier())
    }

    async fn key(
        &self,
        _cx: &ToolContext,
        _args: &Self::Args,
        proposed: &str,
    ) -> Result<String, ToolFailure> {
        Ok(proposed.to_owned())
    }

    async fn call(
        &self,
        cx: &ToolContext,
        args: Self::Args,
        call: StartedCall<'_>,
    ) -> Result<ToolOutcome, ToolFailure>;
}

#[async_trait]
impl<H: Handler> RoleTool for H {
    fn name(&self) -> &str {
        H::NAME
    }

    fn spec(&self) -> Value {
        json!({
            "type": "function",
            "function": {
                "name": H::NAME,
                "description": H::DESCRIPTION,
                "parameters": schema::told_schema::<H::Args>(),
            },
        })
    }

    fn schema(&self) -> Value {
        schema::whole_schema::<H::Args>()
    }

    fn risk(&self) -> CallRisk {
        H::RISK
    }

    fn is_paid(&self) -> bool {
        H::PAID
    }

    #[cfg(test)]
    fn declared(&self) -> Vec<(String, &'static [&'static str])> {
        tests::declared_fields::<H::Args>(&RoleTool::schema(self))
    }

    fn verdict(&self, policy: &CommandPolicy, arguments: &str) -> RiskVerdict {
        match parse_arguments::<H>(arguments) {
            Ok(args) => Handler::verdict(self, policy, &args),
            // It will be refused as it is.
            Err(_) => policy.tool(H::NAME, RiskTier::Read),
        }
    }

    async fn key(
        &self,
        cx: &ToolContext,
        arguments: &str,
        proposed: &str,
    ) -> Result<String, ToolFailure> {
        Handler::key(self, cx, &parse_arguments::<H>(arguments)?, proposed).await
    }

    async fn call(
        &self,
        cx: &ToolContext,
        arguments: &str,
        call: StartedCall<'_>,
    ) -> Result<ToolOutcome, ToolFailure> {
        Handler::call(self, cx, parse_arguments::<H>(arguments)?, call).await
    }
}

/// What everything that is decided about a call is decided from.
fn parse_arguments<H: Handler>(arguments: &str) -> Result<H::Args, ToolFailure> {
    let one =
        canonical::canonical_arguments(H::NAME, &schema::whole_schema::<H::Args>(), arguments)?;
    serde_json::from_str(&one).map_err(|error| {
        ToolFailure::Fault(format!("the arguments of {} do not fit its schema: {error}", H::NAME))
    })
}

/// Every tool, in the order in which a model sees them.
fn all() -> impl Iterator<Item = Box<dyn RoleTool>> {
    let remote = remote::all()
        .into_iter()
        .chain(remote_change::all())
        .chain(review::all())
        .chain(learning::all())
        .chain(maps::all())
        .chain(research::all())
        .chain(roadmap::all())
        .chain(workflow::all())
        .chain(split::all())
        .chain(thread::all());
    workspace::all()
        .into_iter()
        .chain(attachment::all())
        .chain(web::all())
        .chain(screenshot::all())
        .chain(image::all())
        .chain(remote)
}

#[cfg(test)]
mod tests;
