//! Pictures of a conversation, as roles ask for them: only what is in a message of its own conversation
//! that the role can read. And as pages show them: only what is in the channel still.

use std::time::{Duration, Instant};

use bytes::Bytes;
use codebutler_crds::wire::{ErrorCode, MAX_PICTURE};
use codebutler_crds::{Repo, SlackTs};
use codebutler_gateway_core::api_error::{ApiError, require_conversation};
use codebutler_gateway_core::caller::ProvenCaller;
use codebutler_gateway_core::image_kind::{foreign_picture, media_type};
use codebutler_runtime::recent::RecentMap;
use kube::ResourceExt as _;
use parking_lot::Mutex;
use serde_json::Value;
use url::Url;

use crate::Inner;
use crate::api::account::SlackAccount;
use crate::api::lenient::UnreadFields;
use crate::api::reading::WantedReading;
use crate::api::stored_message::SharedMessage;
use crate::inbound::files;
use crate::inbound::inbox;
use crate::outbound::pictures::{OFFERED, can_be_shown, shown_url};

/// Entries of the cache, and their lifetime.
const REMEMBERED: usize = 8;
const FRESH: Duration = Duration::from_mins(1);

/// Reads a picture that was offered: its type and bytes.
///
/// # Errors
/// A sentence for the role.
pub(crate) async fn read_offered(
    inner: &Inner,
    caller: &ProvenCaller,
    message: &SlackTs,
    id: &str,
) -> Result<(&'static str, Vec<u8>), ApiError> {
    let refused = |why: &str| ApiError::new(ErrorCode::InvalidRequest, why);
    let repo = &caller.repo;
    let account = match inner.account(repo).await {
        Ok(account) => account,
        Err(error) => return Err(inner.failed(error, repo).await),
    };
    let place = (&caller.key(), require_conversation(&caller.thread)?);
    let after = message.minus_secs(1);
    let status = inner.thread(&caller.key()).and_then(|thread| thread.status.clone());
    let mut wanted = WantedReading::of(&status.unwrap_or_default(), Some(&after), None);
    wanted.marks.insert(message.clone());
    let reading = match inner.read_conversation(&account, place, &wanted).await {
        Ok(reading) => reading,
        Err(error) => return Err(inner.failed(error, repo).await),
    };
    let stored = reading.after(Some(&after));
    let found = stored.iter().find(|stored| stored.ts == *message && stored.is_said());
    let found = found.filter(|stored| inbox::can_read(inner, caller, &account, stored));
    let files = match found {
        Some(stored) => files::describe_files(inner, (repo, &account), stored).await,
        None => Vec::new(),
    };
    let mut offered = files.iter().filter(|file| can_be_shown(file)).take(OFFERED);
    let file = offered.find(|file| file.id == id);
    let url = file.and_then(shown_url).cloned();
    let url = url.ok_or_else(|| refused("this message has no such picture (any more)"))?;
    download_picture(inner, repo, &account, url).await
}

/// Cache of pictures that pages showed a moment ago, by Repo with channel, and file: however often they are
/// asked for, Slack is asked now and then.
pub(crate) struct ShownPictures(Mutex<RecentMap<(String, String), (Instant, FoundPicture)>>);

/// Media type and bytes of a picture.
type FoundPicture = (&'static str, Bytes);

impl Default for ShownPictures {
    fn default() -> Self {
        Self(Mutex::new(RecentMap::new(REMEMBERED)))
    }
}

/// Reads a picture that is in a channel, or was a moment ago.
///
/// # Errors
/// A sentence for who looks at a page.
pub(crate) async fn read_shown(
    inner: &Inner,
    repo: &Repo,
    channel: &str,
    id: &str,
) -> Result<FoundPicture, ApiError> {
    let of = format!("{}/{}/{channel}", repo.namespace().unwrap_or_default(), repo.name_any());
    let key = (of, id.to_owned());
    let known = inner.shown_pictures.0.lock().get(&key).cloned();
    if let Some((at, found)) = known
        && at.elapsed() < FRESH
    {
        return Ok(found);
    }
    let (media_type, bytes) = find_shown(inner, repo, channel, id).await?;
    let found = (media_type, Bytes::from(bytes));
    inner.shown_pictures.0.lock().insert(key, (Instant::now(), found.clone()));
    Ok(found)
}

async fn find_shown(
    inner: &Inner,
    repo: &Repo,
    channel: &str,
    id: &str,
) -> Result<(&'static str, Vec<u8>), ApiError> {
    let gone = || ApiError::new(ErrorCode::InvalidRequest, "Slack has this picture no more.");
    if id.is_empty() {
        return Err(gone());
    }
    let account = match inner.account(repo).await {
        Ok(account) => account,
        Err(error) => return Err(inner.failed(error, repo).await),
    };
    let answer = match inner.web.get::<Value>(&account.bot, "files.info", &[("file", id)]).await {
        Ok(answer) => answer,
        Err(error) if matches!(error.code(), Some("file_not_found" | "file_deleted")) => {
            return Err(gone());
        }
        Err(error) => return Err(inner.failed(error, repo).await),
    };
    let mut unread = UnreadFields::default();
    let file = SharedMessage::read(&answer["file"], "file", &mut unread);
    inner.metrics.unread(unread.iter());
    // Shares are grouped by kind of channel, then by channel.
    let shares = answer["file"]["shares"].as_object().into_iter().flatten();
    let is_here = shares.into_iter().any(|(_, channels)| channels[channel].is_array());
    let url = shown_url(&file).filter(|_| is_here).cloned();
    download_picture(inner, repo, &account, url.ok_or_else(gone)?).await
}

/// Reason why a file is none that models are shown, by its bytes.
fn explain_unfit(bytes: &[u8]) -> String {
    match foreign_picture(bytes) {
        Some(kind) => format!(
            "by its bytes it is {kind}, whatever its name says, and models take PNG, JPEG, GIF and WebP: ask for it as PNG or \
             JPEG, such as a screenshot of it"
        ),
        None => "by its bytes it is no picture, whatever its name says".to_owned(),
    }
}

/// Downloads a picture. Its type is told by its first bytes, whatever Slack says that it is.
async fn download_picture(
    inner: &Inner,
    repo: &Repo,
    account: &SlackAccount,
    url: Url,
) -> Result<(&'static str, Vec<u8>), ApiError> {
    let most = usize::try_from(MAX_PICTURE).unwrap_or(usize::MAX);
    let bytes = match inner.web.download(&account.bot, (url, "image/*"), most).await {
        Ok(bytes) => bytes,
        Err(error) => return Err(inner.failed(error, repo).await),
    };
    match media_type(&bytes) {
        Some(media_type) => Ok((media_type, bytes)),
        None => Err(ApiError::new(ErrorCode::InvalidRequest, explain_unfit(&bytes))),
    }
}
