//! Tools that change something at GitHub beside the thread's own pull request. The gateway has people say yes to
//! exactly that before it does it.

use async_trait::async_trait;
use codebutler_wire as wire;
use codebutler_wire::RemoteChange;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::{CallRisk, Handler, RoleTool, StartedCall, ToolContext, ToolFailure, ToolOutcome};

/// Tools that change GitHub, in the order in which the model sees them.
pub(super) fn all() -> Vec<Box<dyn RoleTool>> {
    vec![
        Box::new(GhLabel),
        Box::new(GhChangeIssue),
        Box::new(GhOpenIssue),
        Box::new(GhAnswer),
        Box::new(GhRelease),
    ]
}

/// Has the gateway make a change. Idempotent: the gateway recognizes a change that is made already.
pub(super) async fn change_remote(
    cx: &ToolContext,
    change: RemoteChange,
) -> Result<ToolOutcome, ToolFailure> {
    let wire::RemoteChanged { url } =
        cx.gateway.change_remote(&wire::ChangeRemote { change }).await?;
    Ok(ToolOutcome::plain(format!("Done: {url}")))
}

/// `GHLabel`
#[derive(Clone, Debug, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(super) struct LabelArgs {
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
    const DESCRIPTION: &'static str = "Adds or removes labels of an issue or pull request of this repository. People are asked first.";
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

/// `GHChangeIssue`
#[derive(Clone, Debug, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, rename_all = "camelCase")]
pub(super) struct ChangeIssueArgs {
    /// Of the issue.
    pub number: u64,
    #[serde(default)]
    pub close: Option<CloseWord>,
    /// Logins.
    #[serde(default)]
    pub assign: Vec<String>,
    /// Logins.
    #[serde(default)]
    pub unassign: Vec<String>,
    /// Number of an issue that becomes its sub-issue.
    #[serde(default)]
    pub sub_issue: Option<u64>,
}

/// Why an issue is closed.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub(super) enum CloseWord {
    Completed,
    NotPlanned,
}

impl ChangeIssueArgs {
    /// Converts to the one change that is wanted: people are asked about each change separately.
    fn into_change(self) -> Result<RemoteChange, ToolFailure> {
        let Self { number, close, assign: add, unassign: remove, sub_issue } = self;
        let assigns = !add.is_empty() || !remove.is_empty();
        match (close, sub_issue) {
            (Some(reason), None) if !assigns => {
                let reason = match reason {
                    CloseWord::Completed => wire::CloseReason::Completed,
                    CloseWord::NotPlanned => wire::CloseReason::NotPlanned,
                };
                Ok(RemoteChange::Close { number, reason })
            }
            (None, Some(child)) if !assigns => Ok(RemoteChange::SubIssue { number, child }),
            (None, None) if assigns => Ok(RemoteChange::Assign { number, add, remove }),
            _ => Err(ToolFailure::Fault(
                "give one of `close`, `assign` with `unassign`, and `subIssue`: people are asked about each by itself"
                    .to_owned(),
            )),
        }
    }
}

struct GhChangeIssue;

#[async_trait]
impl Handler for GhChangeIssue {
    type Args = ChangeIssueArgs;
    const NAME: &'static str = "GHChangeIssue";
    const DESCRIPTION: &'static str = "Closes or assigns an issue, or makes another one its sub-issue: one of these a call. People are asked first.";
    const RISK: CallRisk = CallRisk::Speaks;

    async fn call(
        &self,
        cx: &ToolContext,
        args: ChangeIssueArgs,
        _: StartedCall<'_>,
    ) -> Result<ToolOutcome, ToolFailure> {
        change_remote(cx, args.into_change()?).await
    }
}

/// `GHOpenIssue`
#[derive(Clone, Debug, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(super) struct OpenIssueArgs {
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
    const DESCRIPTION: &'static str = "Opens an issue in this repository. People are asked first.";
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
pub(super) struct AnswerArgs {
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
        "Comments on an issue or another pull request. People are asked first.";
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
pub(super) struct ReleaseArgs {
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
    const DESCRIPTION: &'static str =
        "Publishes a release of the base branch with a new tag. People are asked first.";
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

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn an_issue_is_changed_in_one_way_at_a_time() {
        let change = |args: serde_json::Value| {
            serde_json::from_value::<ChangeIssueArgs>(args).unwrap().into_change()
        };
        assert_eq!(
            change(json!({"number": 7, "close": "not_planned"})).unwrap(),
            RemoteChange::Close { number: 7, reason: wire::CloseReason::NotPlanned }
        );
        assert_eq!(
            change(json!({"number": 7, "subIssue": 9})).unwrap(),
            RemoteChange::SubIssue { number: 7, child: 9 }
        );
        assert!(change(json!({"number": 7, "assign": ["ana"], "unassign": ["bo"]})).is_ok());
        for bad in [
            json!({"number": 7}),
            json!({"number": 7, "close": "completed", "subIssue": 9}),
            json!({"number": 7, "close": "completed", "assign": ["ana"]}),
        ] {
            assert!(change(bad.clone()).is_err(), "{bad}");
        }
    }
}
