//! Images that a role had made, in its thread: files under names that say which call they are of, and a line with the
//! description and the price. Each is there once, however often it is posted.

use std::sync::Arc;

use bytes::Bytes;
use codebutler_crds::wire::{DrawnImage, ErrorCode, MOST_IMAGES, SharedPicture};
use codebutler_gateway_core::api_error::{ApiError, require_conversation};
use codebutler_gateway_core::caller::ProvenCaller;
use codebutler_gateway_core::image_kind::{IMAGE_TYPES, media_type};

use crate::api::account::AccessError;
use crate::api::web::CallError;
use crate::outbound::post::{self, FileHanding, OutgoingText, TextAsks, attach_files, find_file};
use crate::outbound::uploads::{self, FileAttachment};
use crate::text::markdown;
use crate::text::split_text;
use crate::{Inner, SlackGateway};

/// Prefix of the names of files.
const WHAT: &str = "image";

/// Told to a role where images can't be shown: the right that is missing.
const NO_FILES: &str = "images can't be shown: Slack lets this app post no files. A person has to give it the scope `files:write`; nothing was made";

impl SlackGateway {
    /// Finds images of a role's call that are in its thread already.
    ///
    /// # Errors
    /// When Slack can't be read.
    pub async fn find_drawn(
        &self,
        caller: &ProvenCaller,
        key: &str,
    ) -> Result<Vec<DrawnImage>, ApiError> {
        find_drawn(&self.inner, caller, key).await
    }

    /// Refuses images that could not be shown, before they are paid for.
    ///
    /// # Errors
    /// A sentence for the role.
    pub async fn require_files(&self, caller: &ProvenCaller) -> Result<(), ApiError> {
        let account = match self.inner.account(&caller.repo).await {
            Ok(account) => account,
            Err(error) => return Err(self.inner.failed(error, &caller.repo).await),
        };
        if account.posts_files() {
            Ok(())
        } else {
            Err(ApiError::new(ErrorCode::Forbidden, NO_FILES))
        }
    }

    /// Posts images of a role and a line about them, under the key of its call.
    ///
    /// # Errors
    /// A sentence for the role.
    pub async fn post_drawn(
        &self,
        caller: &ProvenCaller,
        about: (&str, &str),
        images: &[Bytes],
    ) -> Result<Vec<DrawnImage>, ApiError> {
        post_drawn(&self.inner, caller, about, images).await
    }
}

async fn find_drawn(
    inner: &Inner,
    caller: &ProvenCaller,
    key: &str,
) -> Result<Vec<DrawnImage>, ApiError> {
    let mut found = Vec::new();
    for index in 0..usize::from(MOST_IMAGES) {
        for kind in IMAGE_TYPES {
            let name = image_name(caller, key, index, kind);
            match find_file(inner, &caller.repo, &caller.thread, &name).await {
                Ok(Some(id)) => found.push(DrawnImage { id, name }),
                Ok(None) => {}
                Err(error) => return Err(inner.failed(error, &caller.repo).await),
            }
        }
    }
    Ok(found)
}

async fn post_drawn(
    inner: &Inner,
    caller: &ProvenCaller,
    (key, caption): (&str, &str),
    images: &[Bytes],
) -> Result<Vec<DrawnImage>, ApiError> {
    let thread = inner.thread(&caller.key()).unwrap_or_else(|| Arc::clone(&caller.thread));
    let slack = require_conversation(&thread)?;
    let files = images.iter().enumerate().filter_map(|(index, image)| {
        let name = image_name(caller, key, index, media_type(image)?);
        Some(FileAttachment::new(name, image.to_vec()))
    });
    let files: Vec<FileAttachment> = files.collect();
    let names: Vec<String> = files.iter().map(|file| file.name.clone()).collect();
    let _turn = inner.posting.lock(&caller.key()).await;
    let ids = match attach_files(inner, &caller.repo, &thread, files).await {
        Ok(ids) => ids,
        Err(AccessError::Call(CallError::Refused { code, .. })) => {
            tracing::warn!(code, content = "images", "slack_upload_refused");
            let message = format!("the images were made and Slack did not take them ({code})");
            return Err(ApiError::new(ErrorCode::Upstream, message));
        }
        Err(error) => return Err(inner.failed(error, &caller.repo).await),
    };
    let drawn: Vec<DrawnImage> =
        ids.into_iter().zip(names).map(|(id, name)| DrawnImage { id, name }).collect();
    let shared = drawn.iter().cloned().map(|DrawnImage { id, name }| SharedPicture { id, name });
    inner.showed(caller, &thread, shared).await;
    let redactor = inner.context.redactors.of(&caller.repo);
    let outgoing = OutgoingText {
        repo: &caller.repo,
        thread: &thread,
        slack,
        key,
        role: Some(&caller.role),
        by: None,
        kind: "message",
        asks: TextAsks::Nothing,
        digest: None,
        parts: split_text::split_text(
            &markdown::render_inline(&redactor.mask(caption)),
            post::LIMIT,
        ),
        note: None,
        tables: Vec::new(),
        handing: FileHanding::default(),
    };
    match post::post_once(inner, &outgoing).await {
        Ok(_) => Ok(drawn),
        Err(error) => Err(inner.failed(error, &caller.repo).await),
    }
}

/// Shows pictures of a stranger in a role's thread; each is there once.
pub(super) async fn attach_pictures(
    inner: &Inner,
    caller: &ProvenCaller,
    key: &str,
    pictures: &[Bytes],
) -> Result<(), ApiError> {
    if pictures.is_empty() {
        return Ok(());
    }
    let thread = inner.thread(&caller.key()).unwrap_or_else(|| Arc::clone(&caller.thread));
    let files = pictures.iter().enumerate().filter_map(|(index, picture)| {
        let name = image_name(caller, key, index, media_type(picture)?);
        Some(FileAttachment::new(name, picture.to_vec()))
    });
    let files: Vec<FileAttachment> = files.collect();
    let _turn = inner.posting.lock(&caller.key()).await;
    match attach_files(inner, &caller.repo, &thread, files).await {
        Ok(_) => Ok(()),
        Err(error) => Err(inner.failed(error, &caller.repo).await),
    }
}

fn image_name(caller: &ProvenCaller, key: &str, index: usize, kind: &str) -> String {
    let extension = kind.rsplit('/').next().unwrap_or_default();
    uploads::file_name(WHAT, &caller.thread, caller.role_name(), key, (index, extension))
}
