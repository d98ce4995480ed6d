//! Pictures of a conversation, as roles ask for them: only what is in a message of its own conversation
//! that the role can read.

use codebutler_crds::SlackTs;
use codebutler_crds::thread::SlackThread;
use codebutler_crds::wire::{ErrorCode, MAX_PICTURE};

use super::pictures::{OFFERED, can_be_shown, media_type};
use super::{Inner, history, inbox};
use crate::gateway::api_error::{ApiError, conversation};
use crate::gateway::caller::Caller;

/// A picture that was offered: its type and bytes.
///
/// # Errors
/// A sentence for the role.
pub async fn get(
    inner: &Inner,
    caller: &Caller,
    message: &SlackTs,
    id: &str,
) -> Result<(&'static str, Vec<u8>), ApiError> {
    let refused = |why: &str| ApiError::new(ErrorCode::InvalidRequest, why);
    let repo = &caller.repo;
    let account = match inner.account(repo).await {
        Ok(account) => account,
        Err(error) => return Err(inner.failed(error, repo).await),
    };
    let SlackThread { channel, ts: root } = conversation(&caller.thread)?;
    let after = message.minus_secs(1);
    let read = history::replies(&inner.web, &account.bot, channel, root, Some(&after)).await;
    let stored = match read {
        Ok(stored) => stored,
        Err(error) => return Err(inner.failed(error, repo).await),
    };
    let found = stored.iter().find(|stored| stored.ts == *message && stored.is_said());
    let found = found.filter(|stored| inbox::can_read(inner, caller, &account, stored));
    let file = found.and_then(|stored| {
        let mut offered = stored.files.iter().filter(|file| can_be_shown(file)).take(OFFERED);
        offered.find(|file| file.id == id)
    });
    let url = file.and_then(|file| file.url_private.clone());
    let url = url.ok_or_else(|| refused("this message has no such picture (any more)"))?;
    let most = usize::try_from(MAX_PICTURE).unwrap_or(usize::MAX);
    let bytes = match inner.web.download(&account.bot, url, most).await {
        Ok(bytes) => bytes,
        Err(error) => return Err(inner.failed(error, repo).await),
    };
    match media_type(&bytes) {
        Some(media_type) => Ok((media_type, bytes)),
        None => Err(refused("the file is no picture of a kind that models take")),
    }
}
