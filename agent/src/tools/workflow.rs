//! Proposals of workflows: the team's way of working is its own, so a new or changed workflow is proposed to the
//! people and lands as learnings do.

use async_trait::async_trait;
use codebutler_wire as wire;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::learning::{branch_page, check_growth};
use super::section::{NamedSection, draft_workflow, show_section};
use super::{CallRisk, Handler, RoleTool, StartedCall, ToolContext, ToolFailure, ToolOutcome};
use crate::memory::WORKFLOWS;
use crate::transcript::{ResultKind, TranscriptRecord};
use codebutler_guides::text::clip_text;

/// Question to people, below the proposal.
const ASK: &str = "Approve or reject it with its buttons, or answer `yes` or `no`. What is accepted is committed, and \
                   counts once it is merged.";

pub(super) fn all() -> Vec<Box<dyn RoleTool>> {
    vec![Box::new(ProposeWorkflow)]
}

/// `ProposeWorkflow`
#[derive(Clone, Debug, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(super) struct ProposeWorkflowArgs {
    /// Such as `bugfix`: an existing one, or a new one.
    pub name: String,
    /// All of it, at most 40 lines of Markdown: a sentence that says when it applies, then numbered steps, each
    /// beginning with who does it, such as `1. pm: …`.
    pub text: String,
    /// Why, in one sentence: what went wrong without it, or who wants it.
    pub reason: String,
}

struct ProposeWorkflow;

#[async_trait]
impl Handler for ProposeWorkflow {
    type Args = ProposeWorkflowArgs;
    const NAME: &'static str = "ProposeWorkflow";
    const DESCRIPTION: &'static str = "Asks the people whether to adopt one workflow for `workflows.md`, new or rewritten. What they accept is committed for you.";
    const RISK: CallRisk = CallRisk::Speaks;

    async fn call(
        &self,
        cx: &ToolContext,
        args: ProposeWorkflowArgs,
        call: StartedCall<'_>,
    ) -> Result<ToolOutcome, ToolFailure> {
        let reason = args.reason.split_whitespace().collect::<Vec<_>>().join(" ");
        if reason.is_empty() {
            return Err(ToolFailure::Respond("`reason` says why".to_owned()));
        }
        let section = NamedSection { name: args.name, text: args.text };
        let Some(change) = draft_workflow(cx, &section, &reason).await? else {
            return Err(ToolFailure::Respond(format!(
                "`{WORKFLOWS}` says exactly that of `{}` already",
                section.name.trim()
            )));
        };
        check_growth(cx, std::slice::from_ref(&change)).await?;
        let old = branch_page(cx, WORKFLOWS).await?;
        let shown = show_section(cx, &call, 1, &change, old.as_deref()).await?;
        let message = wire::PostMessage {
            key: call.key.to_owned(),
            text: format!("**How the team works** {}\n\n{ASK}", clip_text(&reason, 300)),
            learnings: vec![shown],
            asks: true,
            ..wire::PostMessage::default()
        };
        let wire::PostedMessage { ts, .. } = cx.gateway.post(&message).await?;
        let text =
            format!("Posted as message {ts}. Your run ends here and goes on with the answer.");
        let record = Some(TranscriptRecord::Proposed {
            message: ts,
            changes: vec![change],
            improvements: None,
        });
        Ok(ToolOutcome::of(text, ResultKind::Waits).recording(record))
    }
}
