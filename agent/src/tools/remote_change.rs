//! Tools that change something at GitHub beside the thread's own pull request. The gateway has people say yes to
//! exactly that before it does it.

use async_trait::async_trait;
use codebutler_wire as wire;
use codebutler_wire::RemoteChange;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::{CallRisk, Handler, RoleTool, StartedCall, ToolContext, ToolFailure, ToolOutcome};

/// In the order in which the model sees them.
pub fn all() -> Vec<Box<dyn RoleTool>> {
    vec![Box::new(GhLabel), Box::new(GhOpenIssue), Box::new(GhAnswer), Box::new(GhRelease)]
}

/// The gateway finds what is done already, by what it is.
async fn change_remote(cx: &ToolContext, change: RemoteChange) -> Result<ToolOutcome, ToolFailure> {
    let wire::RemoteChanged { url } =
        cx.gateway.change_remote(&wire::ChangeRemote { change }).await?;
    Ok(ToolOutcome::plain(format!("Done: {url}")))
}

/// `GHLabel`
#[derive(Clone, Debug, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct LabelArgs {
    /// Of the issue or pull request.
    pub number: u64,
    /// Labels to put on it.
    #[serde(default)]
    pub add: Vec<String>,
    /// Labels to take off.
    #[serde(default)]
    pub remove: Vec<String>,
}

struct GhLabel;

#[async_trait]
impl Handler for GhLabel {
    type Args = LabelArgs;
    const NAME: &'static str = "GHLabel";
    const DESCRIPTION: &'static str = "Adds or removes labels of an issue or pull request of this repository. People are asked first: end your run while they are, and repeat exactly this call once they said yes.";
    const RISK: CallRisk = CallRisk::Speaks;

    async fn call(
        &self,
        cx: &ToolContext,
        args: LabelArgs,
        _: StartedCall<'_>,
    ) -> Result<ToolOutcome, ToolFailure> {
        let LabelArgs { number, add, remove } = args;
        change_remote(cx, RemoteChange::Labels { number, add, remove }).await
    }
}

/// `GHOpenIssue`
#[derive(Clone, Debug, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct OpenIssueArgs {
    /// One line.
    pub title: String,
    /// Markdown.
    pub body: String,
    #[serde(default)]
    pub labels: Vec<String>,
}

struct GhOpenIssue;

#[async_trait]
impl Handler for GhOpenIssue {
    type Args = OpenIssueArgs;
    const NAME: &'static str = "GHOpenIssue";
    const DESCRIPTION: &'static str =
        "Opens an issue in this repository. People are asked first, as for GHLabel.";
    const RISK: CallRisk = CallRisk::Speaks;

    async fn call(
        &self,
        cx: &ToolContext,
        args: OpenIssueArgs,
        _: StartedCall<'_>,
    ) -> Result<ToolOutcome, ToolFailure> {
        let OpenIssueArgs { title, body, labels } = args;
        change_remote(cx, RemoteChange::Issue { title, body, labels }).await
    }
}

/// `GHAnswer`
#[derive(Clone, Debug, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct AnswerArgs {
    /// Of the issue, or of a pull request that is not this conversation's.
    pub number: u64,
    /// Markdown.
    pub body: String,
}

struct GhAnswer;

#[async_trait]
impl Handler for GhAnswer {
    type Args = AnswerArgs;
    const NAME: &'static str = "GHAnswer";
    const DESCRIPTION: &'static str =
        "Comments on an issue or another pull request. People are asked first, as for GHLabel.";
    const RISK: CallRisk = CallRisk::Speaks;

    async fn call(
        &self,
        cx: &ToolContext,
        args: AnswerArgs,
        _: StartedCall<'_>,
    ) -> Result<ToolOutcome, ToolFailure> {
        let AnswerArgs { number, body } = args;
        change_remote(cx, RemoteChange::Comment { number, body }).await
    }
}

/// `GHRelease`
#[derive(Clone, Debug, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct ReleaseArgs {
    /// Such as `v1.2.0`: made at the newest commit of the base branch.
    pub tag: String,
    /// One line.
    pub title: String,
    /// Markdown: what changed for its users.
    pub notes: String,
    /// Not for everybody yet.
    #[serde(default)]
    pub prerelease: Option<bool>,
}

struct GhRelease;

#[async_trait]
impl Handler for GhRelease {
    type Args = ReleaseArgs;
    const NAME: &'static str = "GHRelease";
    const DESCRIPTION: &'static str = "Publishes a release of the base branch with a new tag. People are asked first, as for \
        GHLabel.";
    const RISK: CallRisk = CallRisk::Speaks;

    async fn call(
        &self,
        cx: &ToolContext,
        args: ReleaseArgs,
        _: StartedCall<'_>,
    ) -> Result<ToolOutcome, ToolFailure> {
        let ReleaseArgs { tag, title, notes, prerelease } = args;
        let prerelease = prerelease.unwrap_or_default();
        change_remote(cx, RemoteChange::Release { tag, title, notes, prerelease }).await
    }
}
