//! Files that people put into a conversation, as roles read them.

use std::fmt::Write as _;
use std::sync::Arc;
use std::time::{Duration, Instant};

use codebutler_crds::wire::MAX_PICTURE;
use parking_lot::Mutex;
use serde_json::Value;

use super::account::SlackAccount;
use super::event::{SharedMessage, StoredMessage};
use super::lenient::UnreadFields;
use super::quoting::{describe_file, find_fence};
use super::web::CallError;
use super::{Inner, pictures};
use crate::recent::RecentMap;

/// Larger ones are named, not read.
const LARGEST: u64 = 64 * 1024;
/// Of all files of one reading, in bytes.
const TOGETHER: usize = 256 * 1024;
/// Contents that are remembered, by file.
const REMEMBERED: usize = 512;

/// Contents of files that were read.
pub struct FileContents(Mutex<RecentMap<String, Arc<str>>>);

impl Default for FileContents {
    fn default() -> Self {
        Self(Mutex::new(RecentMap::new(REMEMBERED)))
    }
}

impl FileContents {
    /// One that was read not long ago.
    pub fn get(&self, id: &str) -> Option<Arc<str>> {
        self.0.lock().get(&id.to_owned()).cloned()
    }

    pub fn add(&self, id: &str, content: &Arc<str>) {
        let mut known = self.0.lock();
        known.insert(id.to_owned(), Arc::clone(content));
    }
}

/// Files that Slack was asked about, and how long it counts that one is not there.
const DESCRIBED: usize = 512;
const GONE: Duration = Duration::from_mins(10);

/// Answers of `files.info`.
pub struct DescribedFiles(Mutex<RecentMap<String, (Instant, SharedMessage)>>);

impl Default for DescribedFiles {
    fn default() -> Self {
        Self(Mutex::new(RecentMap::new(DESCRIBED)))
    }
}

/// The files of a message and of those that are forwarded in it; what Slack only names is looked up.
pub async fn describe_files(
    inner: &Inner,
    account: &SlackAccount,
    message: &StoredMessage,
) -> Vec<SharedMessage> {
    let mut files = message.all_files();
    for file in files.iter_mut().filter(|file| file.is_only_named()) {
        *file = look_up(inner, account, file).await;
    }
    files
}

async fn look_up(inner: &Inner, account: &SlackAccount, file: &SharedMessage) -> SharedMessage {
    let id = file.id.clone();
    let known = inner.described.0.lock().get(&id).cloned();
    if let Some((at, found)) = known
        && (found.withheld().is_none() || at.elapsed() < GONE)
    {
        return found;
    }
    let asked = inner.web.get::<Value>(&account.bot, "files.info", &[("file", &id)]).await;
    let found = match asked {
        Ok(answer) => {
            let mut unread = UnreadFields::default();
            let found = SharedMessage::read(&answer["file"], "file", &mut unread);
            inner.metrics.unread(&unread);
            // Asked about, it is what it is.
            SharedMessage { id: id.clone(), file_access: String::new(), ..found }
        }
        Err(error) => {
            let refused = |why: &str| {
                let file_access = why.to_owned();
                SharedMessage { file_access, ..file.clone() }
            };
            match error.code() {
                Some("file_not_found" | "file_deleted") => refused("file_deleted"),
                Some(_) => refused("access_denied"),
                // Slack does not answer: asked again with the next reading.
                None => {
                    tracing::warn!(%error, "a file of a conversation can't be looked up");
                    return file.clone();
                }
            }
        }
    };
    inner.described.0.lock().insert(id, (Instant::now(), found.clone()));
    found
}

/// What the files of a message say, behind its text: contents of texts, names of everything else.
/// `left` is what may still be read, in bytes.
pub async fn read_files(
    inner: &Inner,
    account: &SlackAccount,
    files: &[SharedMessage],
    left: &mut usize,
) -> String {
    let mut said = String::new();
    for file in files.iter().filter(|file| !file.is_sound()) {
        let about = describe_file(file);
        if let Some(why) = file.withheld() {
            let _ = write!(said, "\n\n[file {about}: {why}]");
            continue;
        }
        match read_text(inner, account, file, *left).await {
            Ok(Some(content)) => {
                *left = left.saturating_sub(content.len());
                let fence = find_fence(&content);
                let end = if content.ends_with('\n') { "" } else { "\n" };
                let _ = write!(said, "\n\n[file {about}]\n{fence}\n{content}{end}{fence}");
            }
            Ok(None) => {
                let why = match (pictures::is_picture(file), file.size <= MAX_PICTURE) {
                    (true, true) => "a picture",
                    (true, false) => "a picture of more than 3 MiB, not shown here",
                    (false, _) => "not shown here",
                };
                let _ = write!(said, "\n\n[file {about}: {why}]");
            }
            Err(error) => {
                tracing::warn!(%error, "a file of a conversation can't be read");
                let _ = write!(said, "\n\n[file {about}: Slack did not hand it out]");
            }
        }
    }
    said
}

/// What may be read in one go.
pub const fn reading_budget() -> usize {
    TOGETHER
}

async fn read_text(
    inner: &Inner,
    account: &SlackAccount,
    file: &SharedMessage,
    left: usize,
) -> Result<Option<Arc<str>>, CallError> {
    let Some(url) = file.url_private.clone().filter(|_| is_text(file) && fits_in(file, left))
    else {
        return Ok(None);
    };
    if let Some(known) = inner.contents.get(&file.id) {
        return Ok(Some(known));
    }
    let most = usize::try_from(LARGEST).unwrap_or(usize::MAX);
    let bytes = inner.web.download(&account.bot, url, most).await?;
    let Ok(content) = String::from_utf8(bytes) else { return Ok(None) };
    let content: Arc<str> = content.into();
    inner.contents.add(&file.id, &content);
    Ok(Some(content))
}

fn fits_in(file: &SharedMessage, left: usize) -> bool {
    file.size <= LARGEST && usize::try_from(file.size).is_ok_and(|size| size <= left)
}

fn is_text(file: &SharedMessage) -> bool {
    let kind = file.mimetype.as_str();
    let known = ["application/json", "application/xml", "application/yaml", "application/toml"];
    kind.starts_with("text/") || known.contains(&kind) || kind.ends_with("+xml")
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn file(value: Value) -> SharedMessage {
        serde_json::from_value(value).unwrap()
    }

    #[test]
    fn only_small_texts_are_read() {
        let of = |kind: &str, size: u64| {
            file(json!({"id": "F1", "name": "a", "mimetype": kind, "size": size}))
        };
        assert!(is_text(&of("text/plain", 1)) && is_text(&of("application/json", 1)));
        assert!(!is_text(&of("image/png", 1)));
        assert!(fits_in(&of("text/plain", 10), 10));
        assert!(!fits_in(&of("text/plain", 10), 9));
        assert!(!fits_in(&of("text/plain", LARGEST + 1), TOGETHER));
    }
}
