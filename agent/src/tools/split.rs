//! Splitting of requests that are too large for one pull request: people are asked if it is built in parts.

use async_trait::async_trait;
use codebutler_wire as wire;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::{CallRisk, Handler, RoleTool, StartedCall, ToolContext, ToolFailure, ToolOutcome};
use crate::transcript::ResultKind;

/// Tools for splitting, in the order in which the model sees them.
pub(super) fn all() -> Vec<Box<dyn RoleTool>> {
    vec![Box::new(SplitRequest)]
}

/// `SplitRequest`
#[derive(Clone, Debug, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(super) struct SplitRequestArgs {
    /// 2 to 10, in the order in which they are built.
    pub parts: Vec<SplitPart>,
}

/// A part of a request.
#[derive(Clone, Debug, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(super) struct SplitPart {
    /// One line, at most 80 characters.
    pub title: String,
    /// What is wanted and how to tell that it is done, for somebody who has not read this conversation; at most
    /// 2,000 characters.
    pub request: String,
    /// The name of another Repo of this team, if it is to be built there.
    #[serde(default)]
    pub repo: Option<String>,
    /// Numbers of earlier parts, from 1, on which it builds.
    #[serde(default)]
    pub after: Vec<u32>,
}

struct SplitRequest;

#[async_trait]
impl Handler for SplitRequest {
    type Args = SplitRequestArgs;
    const NAME: &'static str = "SplitRequest";
    const DESCRIPTION: &'static str = "Asks the people whether to build a large request in parts, each with its own thread, plan and pull request. A part starts once those that it builds on are merged; in another repository it starts at once and is merged after them. Your run ends here.";
    const RISK: CallRisk = CallRisk::Speaks;

    async fn call(
        &self,
        cx: &ToolContext,
        args: SplitRequestArgs,
        call: StartedCall<'_>,
    ) -> Result<ToolOutcome, ToolFailure> {
        let part = |part: SplitPart| {
            let SplitPart { title, request, repo, after } = part;
            wire::ProposedPart { title, request, repo, after }
        };
        let parts = args.parts.into_iter().map(part).collect();
        let wish = wire::ProposeSplit { key: call.key.to_owned(), parts };
        let wire::SplitAsked { ts } = cx.gateway.split(&wish).await?;
        let text = format!(
            "The people are asked in message {ts}. If they want the parts, CodeButler begins them, and nothing is left \
             to do here."
        );
        Ok(ToolOutcome::of(text, ResultKind::Waits))
    }
}
