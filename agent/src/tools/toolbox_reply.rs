//! Asks the toolbox, and reads its reply as the result of a tool.

use super::{ToolContext, ToolFailure, ToolOutcome};
use crate::toolbox::protocol::{ImageRequest, ToolboxReply, ToolboxRequest, WorktreePicture};

pub(super) async fn ask_text(
    cx: &ToolContext,
    request: ToolboxRequest,
) -> Result<String, ToolFailure> {
    read_reply(cx.toolbox.ask(request).await?)
}

pub(super) fn read_reply(reply: ToolboxReply) -> Result<String, ToolFailure> {
    match reply {
        ToolboxReply::Text(text) | ToolboxReply::Started { text, .. } => Ok(text),
        ToolboxReply::Refused(why) => Err(ToolFailure::Respond(why)),
        ToolboxReply::Failed(why) => Err(ToolFailure::Stop(why)),
        other => Err(ToolFailure::Stop(format!("the toolbox gave a strange answer: {other:?}"))),
    }
}

/// What a command came to, with the toolbox's own remarks.
pub(super) fn read_noted(reply: ToolboxReply) -> Result<ToolOutcome, ToolFailure> {
    let (reply, notes) = reply.with_notes();
    Ok(ToolOutcome::plain(read_reply(reply)?).noting(notes))
}

/// A picture that people are shown; in base64.
pub(super) async fn load_picture(cx: &ToolContext, path: &str) -> Result<String, ToolFailure> {
    load_source(cx, path).await.map(|picture| picture.data)
}

/// A picture that a model may change.
pub(super) async fn load_source(
    cx: &ToolContext,
    path: &str,
) -> Result<WorktreePicture, ToolFailure> {
    let wanted = ImageRequest::Load { path: path.to_owned() };
    match cx.toolbox.ask(ToolboxRequest::Image(wanted)).await? {
        ToolboxReply::Picture(picture) => Ok(picture),
        ToolboxReply::Refused(why) => Err(ToolFailure::Respond(why)),
        ToolboxReply::Failed(why) => Err(ToolFailure::Stop(why)),
        other => Err(ToolFailure::Stop(format!("the toolbox gave a strange answer: {other:?}"))),
    }
}

pub(super) async fn ask_done(
    cx: &ToolContext,
    request: ToolboxRequest,
) -> Result<ToolOutcome, ToolFailure> {
    ask_text(cx, request).await.map(ToolOutcome::plain)
}
