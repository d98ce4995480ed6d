//! Files that people put into the conversation: fetched once, kept beside the worktree, read from there, and saved
//! into it.

use async_trait::async_trait;
use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;

use super::toolbox_reply::{ask_done, ask_text};
use super::{CallRisk, Handler, RoleTool, StartedCall, ToolContext, ToolFailure, ToolOutcome};
use crate::gateway::{GatewayError, SharedFile};
use crate::tool_args as args;
use crate::toolbox::protocol::{AttachmentPart, ToolboxReply, ToolboxRequest};

/// Prefix of a file's id in a path.
pub(super) const SCHEME: &str = "slack:";
/// Bytes handed to the toolbox at a time: in base64 they fit a frame.
const PIECE: usize = 2 * 1024 * 1024;

/// Tools for files of the conversation, in the order in which the model sees them.
pub(super) fn all() -> Vec<Box<dyn RoleTool>> {
    vec![Box::new(SaveAttachment)]
}

struct SaveAttachment;

#[async_trait]
impl Handler for SaveAttachment {
    type Args = args::SaveArgs;
    const NAME: &'static str = "SaveAttachment";
    const DESCRIPTION: &'static str = "Saves a file of the conversation.";
    const RISK: CallRisk = CallRisk::Changes;

    /// Saves the file. Idempotent: saving the same content again changes nothing.
    async fn call(
        &self,
        cx: &ToolContext,
        args: args::SaveArgs,
        _: StartedCall<'_>,
    ) -> Result<ToolOutcome, ToolFailure> {
        let (id, inside) = split_path(&args.file).unwrap_or((args.file.trim(), None));
        if inside.is_some() {
            return Err(ToolFailure::Respond(
                "only whole files are saved: save the archive, and unpack it with Bash".to_owned(),
            ));
        }
        keep_attachment(cx, id).await?;
        let request = ToolboxRequest::SaveAttachment {
            id: id.to_owned(),
            path: args.path,
            replace: args.replace.unwrap_or(false),
        };
        ask_done(cx, request).await
    }
}

/// Splits a path into the id of a file of the conversation and the path inside it.
pub(super) fn split_path(path: &str) -> Option<(&str, Option<&str>)> {
    let rest = path.trim().strip_prefix(SCHEME)?.trim_start_matches('/');
    Some(match rest.split_once('/') {
        Some((id, inside)) => (id, Some(inside).filter(|inside| !inside.is_empty())),
        None => (rest, None),
    })
}

/// Returns the toolbox's path of a file of the conversation; fetches the file if it is not there yet.
pub(super) async fn keep_attachment(cx: &ToolContext, id: &str) -> Result<String, ToolFailure> {
    let plain = !id.is_empty() && id.len() <= 40 && id.bytes().all(|b| b.is_ascii_alphanumeric());
    if !plain {
        return Err(ToolFailure::Respond(format!(
            "a file of the conversation is named by its id, such as `{SCHEME}F0123ABC`, as the message says it"
        )));
    }
    if let Some(path) = find_attachment(cx, id).await? {
        return Ok(path);
    }
    let file = cx.gateway.open_file(id).await?;
    keep_file(cx, id, file).await
}

/// Hands a file to the toolbox, piece by piece, and returns its path there.
pub(super) async fn keep_file(
    cx: &ToolContext,
    id: &str,
    mut file: SharedFile,
) -> Result<String, ToolFailure> {
    let (mut pending, mut offset) = (Vec::new(), 0);
    loop {
        let piece = file.next().await.map_err(|error| explain_cut(&error))?;
        let last = piece.is_none();
        pending.extend_from_slice(&piece.unwrap_or_default());
        while pending.len() >= PIECE || last {
            let rest = pending.split_off(pending.len().min(PIECE));
            let ends = last && rest.is_empty();
            let part = AttachmentPart {
                id: id.to_owned(),
                name: file.name.clone(),
                offset,
                data: STANDARD.encode(&pending),
                last: ends,
            };
            offset += pending.len() as u64;
            pending = rest;
            let path = ask_text(cx, ToolboxRequest::KeepAttachment(part)).await?;
            if ends {
                return Ok(path);
            }
        }
    }
}

/// Returns the path of a file that the toolbox has already.
pub(super) async fn find_attachment(
    cx: &ToolContext,
    id: &str,
) -> Result<Option<String>, ToolFailure> {
    match cx.toolbox.ask(ToolboxRequest::FindAttachment { id: id.to_owned() }).await? {
        ToolboxReply::Names(names) => Ok(names.into_iter().next()),
        ToolboxReply::Refused(why) => Err(ToolFailure::Respond(why)),
        ToolboxReply::Failed(why) => Err(ToolFailure::Stop(why)),
        other => Err(ToolFailure::Stop(format!("the toolbox gave a strange answer: {other:?}"))),
    }
}

fn explain_cut(error: &GatewayError) -> ToolFailure {
    tracing::warn!(%error, "attachment_truncated");
    ToolFailure::Respond("the file was cut off on its way: try again".to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_path_names_a_file_and_what_is_in_it() {
        assert_eq!(split_path("slack:F01"), Some(("F01", None)));
        assert_eq!(split_path(" slack:F01/ "), Some(("F01", None)));
        assert_eq!(split_path("slack:F01/a/b.txt"), Some(("F01", Some("a/b.txt"))));
        assert_eq!(split_path("slack://F01/picture-1"), Some(("F01", Some("picture-1"))));
        assert_eq!(split_path("docs/slack:F01"), None);
    }
}
