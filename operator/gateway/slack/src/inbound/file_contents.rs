//! Files of a conversation, as roles ask for them: piece by piece, so that none is ever held here as a whole. What
//! a file is, is looked at by who asked for it, in its own sandbox.

use std::io;
use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use codebutler_crds::wire::{ErrorCode, MAX_SHARED_FILE};
use codebutler_gateway_core::api_error::{ApiError, require_conversation};
use codebutler_gateway_core::caller::ProvenCaller;
use codebutler_gateway_core::masks;
use codebutler_gateway_core::redact::SecretRedactor;
use futures::stream::{BoxStream, StreamExt as _, try_unfold};
use reqwest::Response;
use tokio::time::Instant;

use crate::Inner;
use crate::api::account::SlackAccount;
use crate::api::reading::WantedReading;
use crate::api::stored_message::{SharedMessage, StoredMessage};
use crate::inbound::files;
use crate::inbound::inbox;

/// Timeout for reading one file.
const LIMIT: Duration = Duration::from_mins(2);
/// Bytes of a text that are masked together, cut at the end of a line.
const BLOCK: usize = 1024 * 1024;
/// Size of the beginning by which a text is known, in bytes.
const HEAD: usize = 8 * 1024;

/// A file that is being handed out.
pub struct OpenedFile {
    /// Name that its owner gave it.
    pub name: String,
    /// Content of the file; an error cuts it off.
    pub content: BoxStream<'static, io::Result<Bytes>>,
}

/// A file in a message of the caller's conversation that its role can read.
///
/// # Errors
/// A sentence for the role.
pub(crate) async fn open_file(
    inner: &Inner,
    caller: &ProvenCaller,
    id: &str,
) -> Result<OpenedFile, ApiError> {
    let refused = |why: String| ApiError::new(ErrorCode::InvalidRequest, why);
    let repo = &caller.repo;
    let account = match inner.account(repo).await {
        Ok(account) => account,
        Err(error) => return Err(inner.failed(error, repo).await),
    };
    let file = find_file(inner, caller, &account, id).await?;
    let file = file.ok_or_else(|| {
        refused("no message of this conversation has such a file (any more)".into())
    })?;
    if let Some(why) = file.withheld() {
        return Err(refused(format!("the file can't be had: {why}")));
    }
    if file.size > MAX_SHARED_FILE {
        return Err(refused(format!(
            "the file has {} bytes, and at most {} MiB are read: ask for a part of it",
            file.size,
            MAX_SHARED_FILE >> 20
        )));
    }
    let url =
        file.url_private.ok_or_else(|| refused("Slack gives no address for the file".into()))?;
    let answer = match inner.web.open_download(&account.bot, (url, &file.mimetype), LIMIT).await {
        Ok(answer) => answer,
        Err(error) => return Err(inner.failed(error, repo).await),
    };
    let redactor = masks::as_known(&inner.context, repo).await;
    let content =
        FilePieces { answer, redactor, pending: Vec::new(), text: None, taken: 0, ended: false };
    let content = try_unfold(content, |mut pieces| async move {
        Ok(pieces.next().await?.map(|piece| (piece, pieces)))
    });
    Ok(OpenedFile { name: file.name, content: content.boxed() })
}

async fn find_file(
    inner: &Inner,
    caller: &ProvenCaller,
    account: &SlackAccount,
    id: &str,
) -> Result<Option<SharedMessage>, ApiError> {
    if id.is_empty() {
        return Ok(None);
    }
    let status = inner.thread(&caller.key()).and_then(|thread| thread.status.clone());
    let wanted = WantedReading::of(&status.unwrap_or_default(), None, None);
    if let Some(found) = find_in_reading(inner, caller, account, (id, &wanted)).await? {
        return Ok(Some(found));
    }
    // A file that was posted for a role a moment ago is in no message that was heard of.
    let fresh = WantedReading { since: Some(Instant::now()), ..WantedReading::default() };
    find_in_reading(inner, caller, account, (id, &fresh)).await
}

async fn find_in_reading(
    inner: &Inner,
    caller: &ProvenCaller,
    account: &SlackAccount,
    (id, wanted): (&str, &WantedReading),
) -> Result<Option<SharedMessage>, ApiError> {
    let place = (&caller.key(), require_conversation(&caller.thread)?);
    let reading = match inner.read_conversation(account, place, wanted).await {
        Ok(reading) => reading,
        Err(error) => return Err(inner.failed(error, &caller.repo).await),
    };
    let has = |file: &SharedMessage| file.id == id;
    // Files that the app itself posted in the role's conversation are the team's, though the message with them
    // is none for a role.
    let is_own = |stored: &StoredMessage| account.wrote(stored) && stored.files.iter().any(has);
    let is_read = |stored: &StoredMessage| {
        stored.all_files().iter().any(has) && inbox::can_read(inner, caller, account, stored)
    };
    for stored in reading.after(None).iter().rev().filter(|stored| stored.is_said()) {
        if is_own(stored) || is_read(stored) {
            let described = files::describe_files(inner, (&caller.repo, account), stored).await;
            return Ok(described.into_iter().find(has));
        }
    }
    Ok(None)
}

/// A download on its way, with known credentials of a text masked.
struct FilePieces {
    answer: Response,
    redactor: Arc<SecretRedactor>,
    pending: Vec<u8>,
    /// True for a text; `None` until enough bytes are there to tell.
    text: Option<bool>,
    taken: u64,
    ended: bool,
}

impl FilePieces {
    async fn next(&mut self) -> io::Result<Option<Bytes>> {
        loop {
            if self.ended {
                let rest = std::mem::take(&mut self.pending);
                return Ok((!rest.is_empty()).then(|| self.mask(rest)));
            }
            match self.answer.chunk().await.map_err(io::Error::other)? {
                Some(chunk) => {
                    self.taken += chunk.len() as u64;
                    if self.taken > MAX_SHARED_FILE {
                        return Err(io::Error::other("the file is longer than Slack says"));
                    }
                    self.pending.extend_from_slice(&chunk);
                }
                None => self.ended = true,
            }
            if self.text.is_none() && (self.ended || self.pending.len() >= HEAD) {
                self.text = Some(looks_like_text(&self.pending));
            }
            if let Some(piece) = self.take_piece() {
                return Ok(Some(piece));
            }
        }
    }

    /// Takes the bytes that may go now: of a text whole lines only, as a credential must not be cut in two.
    fn take_piece(&mut self) -> Option<Bytes> {
        match self.text? {
            false => Some(std::mem::take(&mut self.pending))
                .filter(|piece| !piece.is_empty())
                .map(Bytes::from),
            true if self.pending.len() < BLOCK => None,
            true => {
                let end = self.pending.iter().rposition(|byte| *byte == b'\n');
                let rest = self.pending.split_off(end.map_or(self.pending.len(), |at| at + 1));
                let block = std::mem::replace(&mut self.pending, rest);
                Some(self.mask(block))
            }
        }
    }

    fn mask(&self, block: Vec<u8>) -> Bytes {
        if self.text == Some(true) { mask_text(&self.redactor, &block) } else { Bytes::from(block) }
    }
}

/// Masks what is UTF-8 in a text: one odd byte in a log must not show the credentials beside it.
fn mask_text(redactor: &SecretRedactor, block: &[u8]) -> Bytes {
    let mut masked = Vec::with_capacity(block.len());
    for chunk in block.utf8_chunks() {
        masked.extend_from_slice(redactor.mask(chunk.valid()).as_bytes());
        masked.extend_from_slice(chunk.invalid());
    }
    Bytes::from(masked)
}

/// True for text without zeros, as far as the head shows: UTF-8, which may end inside of a character, or
/// nearly, as logs and older encodings are. A PDF can look so.
fn looks_like_text(head: &[u8]) -> bool {
    let mut odd = 0;
    let mut chunks = head.utf8_chunks().peekable();
    while let Some(chunk) = chunks.next() {
        let is_cut = chunks.peek().is_none() && is_incomplete(chunk.invalid());
        odd += if is_cut { 0 } else { chunk.invalid().len() };
    }
    odd * 20 <= head.len() && !head.contains(&0) && !head.starts_with(b"%PDF-")
}

/// True for an incomplete character, of which only the beginning is there.
fn is_incomplete(bytes: &[u8]) -> bool {
    std::str::from_utf8(bytes).is_err_and(|error| error.error_len().is_none())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_text_is_told_from_everything_else() {
        assert!(looks_like_text("log 12:00 \u{e9}".as_bytes()));
        assert!(looks_like_text(&"\u{e9}".as_bytes()[..1]), "a character that is cut is no proof");
        for other in [&b"%PDF-1.7\n\xe2\xe3\xcf\xd3"[..], b"PK\x03\x04\0", b"a\0b", b"caf\xe9 "] {
            assert!(!looks_like_text(other));
        }
        let latin = [&b"12:00 the caf\xe9 is open "[..], &[b'x'; 100]].concat();
        assert!(looks_like_text(&latin), "one odd byte in a log");
    }

    #[test]
    fn a_credential_beside_an_odd_byte_is_masked() {
        let redactor = SecretRedactor::new(&[]).0;
        let key = ["ghp", &"a1B2".repeat(9)].join("_");
        let log = [&b"caf\xe9 said: \xff\n"[..], key.as_bytes(), b" end \xfe\n"].concat();
        let masked = mask_text(&redactor, &log);
        let find = |needle: &[u8]| masked.windows(needle.len()).any(|part| part == needle);
        assert!(!find(key.as_bytes()) && find(b"[redacted:"), "{masked:?}");
        assert!(masked.starts_with(b"caf\xe9 said: \xff\n") && masked.ends_with(b" end \xfe\n"));
        let plain = "nothing secret: \u{e9}\n".as_bytes();
        assert_eq!(mask_text(&redactor, plain), plain);
    }
}
