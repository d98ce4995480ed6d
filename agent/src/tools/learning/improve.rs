//! Improvements that a retrospective proposes: people accept each with a button, and no run waits for the answer.

use codebutler_wire as wire;

use super::ProposeArgs;
use super::form::list_improvements;
use crate::tools::{StartedCall, ToolContext, ToolFailure};
use crate::transcript::improvements::SuggestedImprovements;

const HEAD: &str = "**What could go better next time** Accept what the team shall put into exact words now: you then approve \
                    those. What nobody accepts stays as it is.";

/// Posts the improvements with their buttons, before the question that the run waits for.
pub(super) async fn post_improvements(
    cx: &ToolContext,
    call: &StartedCall<'_>,
    args: &ProposeArgs,
) -> Result<Option<SuggestedImprovements>, ToolFailure> {
    let items = list_improvements(args);
    if items.is_empty() {
        return Ok(None);
    }
    let message = wire::PostMessage {
        key: format!("{}:better", call.key),
        text: HEAD.to_owned(),
        improvements: items.iter().map(|item| item.text.clone()).collect(),
        ..wire::PostMessage::default()
    };
    let wire::PostedMessage { ts, .. } = cx.gateway.post(&message).await?;
    Ok(Some(SuggestedImprovements { message: ts, items }))
}
