//! Full text of a question that has room for a part of it only.

use codebutler_wire as wire;

use super::{StartedCall, ToolContext, ToolFailure};

/// Posts the full text of something that a question shows in part only.
pub(super) async fn post_whole(
    cx: &ToolContext,
    call: &StartedCall<'_>,
    number: usize,
    (title, text): (&str, &str),
) -> Result<(), ToolFailure> {
    let text = text.replace("```", "'''");
    let message = wire::PostMessage {
        key: format!("{}:{number}", call.key),
        text: format!("**{title}, all of it**\n```\n{text}\n```"),
        ..wire::PostMessage::default()
    };
    cx.gateway.post(&message).await?;
    Ok(())
}
