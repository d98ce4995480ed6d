//! Files that people put into a conversation, as roles read them.

use std::fmt::Write as _;
use std::sync::Arc;
use std::time::{Duration, Instant};

use codebutler_crds::Repo;
use codebutler_crds::wire::MAX_SHARED_FILE;
use codebutler_gateway_core::repo_key::RepoKey;
use codebutler_runtime::recent::RecentMap;
use parking_lot::Mutex;
use serde_json::Value;
use url::Url;

use crate::Inner;
use crate::api::account::SlackAccount;
use crate::api::download_error::EXTERNAL;
use crate::api::lenient::UnreadFields;
use crate::api::stored_message::{SharedMessage, StoredMessage};
use crate::api::web::CallError;
use crate::outbound::pictures::{self, PictureForm};
use crate::text::quoting::{describe_file, file_path, find_fence};

/// Largest file that is shown in full, in bytes; of larger ones the beginning is shown.
const LARGEST: u64 = 64 * 1024;
/// Size of that beginning, in bytes.
const HEAD: usize = 8 * 1024;
/// Limit for all files of one reading, in bytes.
const TOGETHER: usize = 256 * 1024;
/// Entries of the cache, and their lifetime: what was deleted in Slack is soon gone here, too.
const REMEMBERED: usize = 512;
const FRESH: Duration = Duration::from_mins(10);

/// Pauses before a download is tried again that Slack did not answer.
const PAUSES: [Duration; 4] = [
    Duration::from_secs(1),
    Duration::from_secs(3),
    Duration::from_secs(8),
    Duration::from_secs(20),
];

/// File id or address, together with the Repo that may read it.
type KeyInRepo = (RepoKey, String);

/// Cache of what was read of files, recordings and links. Another Repo may not be allowed to read the same, and
/// masks other words: each has its own entries.
pub(crate) struct FileContents(Mutex<RecentMap<KeyInRepo, (Instant, Arc<str>)>>);

impl Default for FileContents {
    fn default() -> Self {
        Self(Mutex::new(RecentMap::new(REMEMBERED)))
    }
}

impl FileContents {
    /// Content that was read for this Repo not long ago.
    pub(crate) fn get(&self, repo: &Repo, id: &str) -> Option<Arc<str>> {
        self.get_within(repo, id, FRESH)
    }

    fn get_within(&self, repo: &Repo, id: &str, age: Duration) -> Option<Arc<str>> {
        let mut known = self.0.lock();
        let (at, content) = known.get(&(repo.into(), id.to_owned()))?;
        (at.elapsed() < age).then(|| Arc::clone(content))
    }

    pub(crate) fn add(&self, repo: &Repo, id: &str, content: &Arc<str>) {
        let mut known = self.0.lock();
        known.insert((repo.into(), id.to_owned()), (Instant::now(), Arc::clone(content)));
    }
}

/// Most files whose description is remembered.
const DESCRIBED: usize = 512;

/// Cache of answers of `files.info`, by Repo and file.
pub(crate) struct DescribedFiles(Mutex<RecentMap<KeyInRepo, (Instant, SharedMessage)>>);

impl Default for DescribedFiles {
    fn default() -> Self {
        Self(Mutex::new(RecentMap::new(DESCRIBED)))
    }
}

/// Describes the files of a message and of those that are forwarded in it; what Slack only names is looked up.
pub(crate) async fn describe_files(
    inner: &Inner,
    (repo, account): (&Repo, &SlackAccount),
    message: &StoredMessage,
) -> Vec<SharedMessage> {
    let mut files = message.all_files();
    for file in files.iter_mut().filter(|file| file.is_only_named()) {
        *file = look_up(inner, (repo, account), file).await;
    }
    files
}

async fn look_up(
    inner: &Inner,
    (repo, account): (&Repo, &SlackAccount),
    file: &SharedMessage,
) -> SharedMessage {
    let id = file.id.clone();
    let key = (RepoKey::from(repo), id.clone());
    let known = inner.described.0.lock().get(&key).cloned();
    if let Some((at, found)) = known
        && at.elapsed() < FRESH
    {
        return found;
    }
    let asked = inner.web.get::<Value>(&account.bot, "files.info", &[("file", &id)]).await;
    let found = match asked {
        Ok(answer) => {
            let mut unread = UnreadFields::default();
            let found = SharedMessage::read(&answer["file"], "file", &mut unread);
            inner.metrics.unread(unread.iter());
            // Slack was asked about it, so the answer stands: it is not to be looked up again.
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
                // Slack did not answer: it is asked again with the next reading.
                None => {
                    tracing::warn!(%error, "slack_file_lookup_failed");
                    return file.clone();
                }
            }
        }
    };
    inner.described.0.lock().insert(key, (Instant::now(), found.clone()));
    found
}

/// A text file, as far as a message shows it.
enum ShownText {
    Whole(Arc<str>),
    /// The first lines of a long one.
    Head(Arc<str>),
}

/// Renders the files of a message, to stand behind its text: contents of texts, the beginning of long ones,
/// names of everything else, each with the path that Read takes.
/// `left` is what may still be read, in bytes.
pub(crate) async fn read_files(
    inner: &Inner,
    (repo, account): (&Repo, &SlackAccount),
    files: &[SharedMessage],
    left: &mut usize,
) -> String {
    let mut said = String::new();
    let mut offered = 0;
    for file in files.iter().filter(|file| !file.is_sound()) {
        offered += usize::from(pictures::can_be_shown(file));
        let about = describe_file(file);
        if let Some(why) = file.withheld() {
            let _ = write!(said, "\n\n[file {about}: {why}]");
            continue;
        }
        match read_text(inner, (repo, account), file, *left).await {
            Ok(Some(shown)) => {
                let (content, note) = describe_text(file, &shown);
                *left = left.saturating_sub(content.len());
                let fence = find_fence(content);
                let end = if content.ends_with('\n') { "" } else { "\n" };
                let _ = write!(said, "\n\n[file {about}{note}]\n{fence}\n{content}{end}{fence}");
            }
            Ok(None) => {
                let _ = write!(
                    said,
                    "\n\n[file {about}: {}]",
                    describe_unshown(file, offered <= pictures::OFFERED)
                );
            }
            Err(error) => {
                tracing::warn!(%error, "slack_file_read_failed");
                let why = match error.code() {
                    Some(EXTERNAL) => {
                        "it is kept outside of Slack, so it is not read here; ask for an upload"
                    }
                    _ => "Slack did not hand it out",
                };
                let _ = write!(said, "\n\n[file {about}: {why}]");
            }
        }
    }
    said
}

/// Bytes of files that may be read in one go.
pub(crate) const fn reading_budget() -> usize {
    TOGETHER
}

/// The shown part of a text, and what is said of it.
fn describe_text<'a>(file: &SharedMessage, shown: &'a ShownText) -> (&'a str, String) {
    let path = file_path(file);
    match shown {
        ShownText::Whole(content) => {
            (content, path.map(|path| format!(": `{path}`")).unwrap_or_default())
        }
        ShownText::Head(content) => {
            let lines = content.lines().count();
            let rest = path.map(|path| format!("; Read `{path}` from offset {}", lines + 1));
            (content, format!(": its first {lines} lines{}", rest.unwrap_or_default()))
        }
    }
}

/// The remark on a file whose text does not stand here, with the way to it. `is_offered`: a picture is among those
/// that follow the message.
fn describe_unshown(file: &SharedMessage, is_offered: bool) -> String {
    let form = pictures::picture_form(file);
    let is_video = form.is_none() && file.mimetype.starts_with("video/");
    let what = match form {
        None if is_video => {
            "a video, of which nothing is seen or heard. Ask for words or pictures, or for a clip recorded in Slack, \
             whose sound is heard"
                .to_owned()
        }
        None => "not shown here".to_owned(),
        Some(PictureForm::Unseen(why)) => format!("a picture, not shown: {why}"),
        Some(_) if !is_offered => {
            format!("a picture, not shown: the first {} of a message are", pictures::OFFERED)
        }
        Some(PictureForm::Original(_)) => "a picture".to_owned(),
        Some(PictureForm::Thumb(thumb)) if file.is_turned => {
            format!("a picture, shown upright at {} px", thumb.side)
        }
        Some(PictureForm::Thumb(thumb)) => {
            let is_gif = file.mimetype == "image/gif";
            let still = if is_gif { ", and of an animation one frame" } else { "" };
            format!(
                "a picture, shown at {} px{still}: models take PNG, JPEG, GIF and WebP of at most 3 MiB and 8,000 px",
                thumb.side
            )
        }
    };
    let is_whole = matches!(form, Some(PictureForm::Original(_)));
    match file_path(file) {
        Some(_) if file.size > MAX_SHARED_FILE => {
            format!("{what}, and with more than {} MiB too large to be read", MAX_SHARED_FILE >> 20)
        }
        Some(path) if is_video || (is_whole && is_offered) => format!("{what}: `{path}`"),
        Some(path) if form.is_some() => format!("{what}; the original is `{path}`"),
        Some(path) => format!("{what}: Read `{path}`"),
        None => what,
    }
}

/// Reads a text file that a message links to, or its first lines. `None` for anything else than text.
pub(super) async fn linked_text(
    inner: &Inner,
    place: (&Repo, &SlackAccount),
    file: &SharedMessage,
) -> Result<Option<Arc<str>>, CallError> {
    let shown = read_text(inner, place, file, TOGETHER).await?;
    Ok(shown.map(|(ShownText::Whole(text) | ShownText::Head(text))| text))
}

async fn read_text(
    inner: &Inner,
    (repo, account): (&Repo, &SlackAccount),
    file: &SharedMessage,
    left: usize,
) -> Result<Option<ShownText>, CallError> {
    let Some(url) = file.url_private.clone().filter(|_| is_text(file)) else { return Ok(None) };
    if !fits_in(file, left) {
        if left < HEAD {
            return Ok(None);
        }
        let head = read_head(inner, (repo, account), file, url).await?;
        return Ok(head.map(ShownText::Head));
    }
    if let Some(known) = inner.contents.get(repo, &file.id) {
        return Ok(Some(ShownText::Whole(known)));
    }
    let most = usize::try_from(LARGEST).unwrap_or(usize::MAX);
    let bytes = inner.web.download(&account.bot, (url, &file.mimetype), most).await?;
    let Some(content) = plain_text(&bytes) else { return Ok(None) };
    let content: Arc<str> = content.into();
    inner.contents.add(repo, &file.id, &content);
    Ok(Some(ShownText::Whole(content)))
}

/// A text in UTF-8. One with zeros is in another encoding or no text, and providers refuse it: Read knows those.
fn plain_text(bytes: &[u8]) -> Option<&str> {
    std::str::from_utf8(bytes).ok().filter(|text| !text.contains('\0'))
}

/// Reads the first lines of a long text. `None` if it is in another encoding than UTF-8: Read knows those.
async fn read_head(
    inner: &Inner,
    (repo, account): (&Repo, &SlackAccount),
    file: &SharedMessage,
    url: Url,
) -> Result<Option<Arc<str>>, CallError> {
    let key = format!("head:{}", file.id);
    if let Some(known) = inner.contents.get(repo, &key) {
        return Ok(Some(known));
    }
    let bytes = inner.web.download_head(&account.bot, (url, &file.mimetype), HEAD).await?;
    // Cuts at the last line's end, since an offset names lines. A line longer than the whole beginning shows
    // nothing.
    let end = bytes.iter().rposition(|byte| *byte == b'\n').map_or(0, |at| at + 1);
    let Some(content) = plain_text(&bytes[..end]) else { return Ok(None) };
    if content.is_empty() {
        return Ok(None);
    }
    let content: Arc<str> = content.into();
    inner.contents.add(repo, &key, &content);
    Ok(Some(content))
}

/// Downloads a file, by its address and type, for which nobody asks again: where Slack does not answer, the download is
/// tried several times.
pub(super) async fn download_patiently(
    inner: &Inner,
    account: &SlackAccount,
    (url, kind): (&Url, &str),
    most: usize,
) -> Result<Vec<u8>, CallError> {
    for pause in PAUSES {
        match inner.web.download(&account.bot, (url.clone(), kind), most).await {
            Err(error) if error.code().is_none() => {
                tracing::warn!(%error, "slack_file_read_failed");
                tokio::time::sleep(pause).await;
            }
            other => return other,
        }
    }
    inner.web.download(&account.bot, (url.clone(), kind), most).await
}

/// Explains to people why a file of theirs could not be had, and what they can do.
pub(super) fn explain_withheld(error: &CallError) -> String {
    match error.code() {
        Some(EXTERNAL) => "it is kept outside of Slack. Upload it here, or write it".to_owned(),
        Some("file_not_found") => "Slack has it no more. Send it again, or write it".to_owned(),
        Some(code) => format!("Slack does not hand it out ({code}). Send it again, or write it"),
        None => {
            "Slack did not hand it out in several attempts. Send it again, or write it".to_owned()
        }
    }
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
    fn what_was_read_for_one_repo_is_not_shown_to_another_one_nor_for_long() {
        let repo = |namespace: &str, name: &str| -> Repo {
            serde_json::from_value(json!({
                "apiVersion": "codebutler.dev/v1alpha1", "kind": "Repo",
                "metadata": {"namespace": namespace, "name": name},
                "spec": {
                    "roles": ["pm"],
                    "git": {"url": "https://git.invalid/a/b", "credentials": {"name": "git"}},
                    "slack": {"channel": "#shop", "credentials": {"name": "slack"}},
                    "model": {"baseURL": "https://model.invalid", "credentials": {"name": "model"}},
                },
            }))
            .unwrap()
        };
        let (known, shop) = (FileContents::default(), repo("team", "shop"));
        known.add(&shop, "link:https://acme.slack.com/archives/C1/p1", &"We sell it.".into());
        let of = |repo: &Repo| known.get(repo, "link:https://acme.slack.com/archives/C1/p1");
        assert_eq!(of(&shop).as_deref(), Some("We sell it."));
        for other in [repo("team", "docs"), repo("other", "shop")] {
            assert_eq!(of(&other), None);
        }
        known.add(&shop, "F1", &"old".into());
        assert_eq!(known.get_within(&shop, "F1", Duration::ZERO), None);
    }

    #[test]
    fn a_role_is_told_what_it_sees_of_a_picture_and_why_not_more() {
        let of = |kind: &str, size: u64, thumb: bool| {
            let mut file = json!({"id": "F1", "name": "a", "mimetype": kind, "size": size,
                "url_private": "https://files.slack.com/a"});
            if thumb {
                file["thumb_1024"] = "https://files.slack.com/t".into();
            }
            tests::file(file)
        };
        let png = of("image/png", 10, true);
        assert_eq!(describe_unshown(&png, true), "a picture: `slack:F1`");
        let fifth = describe_unshown(&png, false);
        assert_eq!(
            fifth,
            "a picture, not shown: the first 4 of a message are; the original is `slack:F1`"
        );
        let heic = describe_unshown(&of("image/heic", 10, true), true);
        assert!(heic.starts_with("a picture, shown at 1024 px: models take PNG"), "{heic}");
        assert!(heic.ends_with("; the original is `slack:F1`"), "{heic}");
        let moving = describe_unshown(&of("image/gif", 9 << 20, true), true);
        assert!(moving.contains("at 1024 px, and of an animation one frame: models"), "{moving}");
        let huge = describe_unshown(&of("image/jpeg", 9 << 20, false), true);
        assert!(huge.contains("more than 3 MiB") && huge.contains("you do not see it"), "{huge}");
        let video = describe_unshown(&of("video/mp4", 10, false), true);
        assert!(video.starts_with("a video, of which nothing is seen or heard"), "{video}");
        assert!(video.ends_with("whose sound is heard: `slack:F1`"), "{video}");
        let other = describe_unshown(&of("application/zip", 10, true), true);
        assert_eq!(other, "not shown here: Read `slack:F1`");
    }

    #[test]
    fn what_is_no_plain_text_stands_in_no_message() {
        assert_eq!(plain_text("caf\u{e9}\n".as_bytes()), Some("caf\u{e9}\n"));
        for other in [&b"\xff\xfeh\0i\0"[..], b"h\0i\0", b"12:00 up\n\0\0\0", b"caf\xe9"] {
            assert_eq!(plain_text(other), None);
        }
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
