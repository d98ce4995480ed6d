//! Files that are read, kept and saved: from the worktree, and from the conversation.

use std::path::PathBuf;
use std::sync::Arc;

use super::super::ToolError;
use super::super::attachments::KeptAttachments;
use super::super::files::{self, FileRead, SeenFiles};
use super::super::protocol::{ToolboxReply, ToolboxRequest};
use super::{NO_CHANGE, Toolbox, run_blocking};
use crate::tool_args as args;

impl Toolbox {
    /// A file as text or picture. What is a document is read by a process of its own.
    pub(super) async fn read(
        &self,
        seen: Arc<SeenFiles>,
        args: args::ReadArgs,
    ) -> Result<ToolboxReply, ToolError> {
        let tree = self.readable(&args.path)?;
        let (found, args) = run_blocking(move || {
            let found = files::read_file(&tree, &seen, &args)?;
            Ok((found, args))
        })
        .await?;
        match found {
            FileRead::Shown(reply) => Ok(*reply),
            FileRead::Document(found) => self.documents.read(&self.shell, found, &args).await,
        }
    }

    /// Keeps files of the conversation, and puts them into the worktree.
    pub(super) async fn attachment(
        &self,
        request: ToolboxRequest,
        scratch: PathBuf,
    ) -> Result<ToolboxReply, ToolError> {
        let kept = KeptAttachments::of(self.shell.environment().build());
        match request {
            ToolboxRequest::SaveAttachment { .. } if self.copy.is_some() => {
                Err(ToolError::refused(NO_CHANGE))
            }
            ToolboxRequest::SaveAttachment { id, path, replace } => {
                let tree = self.tree()?;
                let save =
                    move || files::save_file(&tree, &scratch, (&path, replace), &kept.load(&id)?);
                run_blocking(save).await.map(ToolboxReply::Text)
            }
            ToolboxRequest::KeepAttachment(part) => {
                run_blocking(move || kept.keep(&part)).await.map(ToolboxReply::Text)
            }
            ToolboxRequest::FindAttachment { id } => {
                let found = run_blocking(move || kept.find(&id)).await?;
                Ok(ToolboxReply::Names(found.into_iter().collect()))
            }
            _ => Err(ToolError::Failed("this is asked of somebody else".to_owned())),
        }
    }
}
