//! Images: read for a model, kept, and committed.

use std::ffi::OsString;
use std::path::PathBuf;

use super::super::ToolError;
use super::super::attachments::KeptAttachments;
use super::super::paths::WorktreeRoot;
use super::super::protocol::{ImageRequest, ToolboxReply};
use super::super::screenshots::ShotNames;
use super::super::{files, git, images, screenshots, show};
use super::{Toolbox, run_blocking};
use crate::args::ScreenshotArgs;

impl Toolbox {
    /// Answers what is asked about images.
    pub(super) async fn image(
        &self,
        request: ImageRequest,
        scratch: PathBuf,
    ) -> Result<ToolboxReply, ToolError> {
        match request {
            ImageRequest::Load { path } => {
                let tree = self.readable(&path)?;
                run_blocking(move || images::load_image(&tree, &path))
                    .await
                    .map(ToolboxReply::Picture)
            }
            ImageRequest::Keep { id, name } => {
                let (tree, kept) =
                    (self.tree()?, KeptAttachments::of(self.shell.environment().build()));
                let keep = move || images::keep_image((&tree, &scratch), &kept, (&id, &name));
                run_blocking(keep).await.map(ToolboxReply::Text)
            }
            ImageRequest::Fit { data } => {
                run_blocking(move || show::fit_picture(&data)).await.map(ToolboxReply::Picture)
            }
            ImageRequest::Screenshot { url, name, moment, frames } => {
                let names = ShotNames::read(&url, &name, moment)?;
                let ground = self.ground(false, false).await?;
                let environment = self.environment(&ground)?;
                let wanted =
                    ScreenshotArgs { folder: PathBuf::new(), url, frames, path: OsString::new() };
                let report = self.shell.take_screenshots(&environment, &wanted).await?;
                let beside = WorktreeRoot::open(self.shell.environment().build())?;
                let keep = move || screenshots::keep_pictures((&beside, &scratch), &names, report);
                run_blocking(keep).await.map(ToolboxReply::Screenshot)
            }
            ImageRequest::Check { image, path } => {
                let from = self.readable(&image)?;
                let check = move || {
                    let bytes = files::load_file(&from.locate(&image)?)?;
                    let (_, told) = git::make_file(&bytes, &path)?;
                    Ok(told.unwrap_or_default().to_owned())
                };
                run_blocking(check).await.map(ToolboxReply::Text)
            }
            ImageRequest::Commit { image, path, message } => {
                let (from, tree, place) = (self.readable(&image)?, self.tree()?, self.place()?);
                let commit = move || {
                    let bytes = files::load_file(&from.locate(&image)?)?;
                    git::commit_image(&place, (&image, &bytes), (&tree, &path), &message)
                };
                run_blocking(commit).await.map(ToolboxReply::Text)
            }
        }
    }
}
