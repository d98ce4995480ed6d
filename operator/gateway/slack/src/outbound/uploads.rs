//! Files that go into a conversation: long code, and pictures.
//!
//! Slack has no key for an upload, so a file's name carries it: what is in the thread under that
//! name is not uploaded again.

use std::collections::HashMap;
use std::time::Duration;

use codebutler_crds::thread::SlackThread;
use codebutler_crds::{SlackTs, Thread};
use kube::ResourceExt as _;
use serde::Deserialize;
use serde_json::{Value, json};
use sha2::{Digest as _, Sha256};
use url::Url;

use crate::Inner;
use crate::api::account::SlackAccount;
use crate::api::web::CallError;
use crate::text::markdown::LongSnippet;

/// Pauses before each look whether a file is in its thread.
const LOOKS: [Duration; 7] = [
    Duration::from_millis(100),
    Duration::from_millis(300),
    Duration::from_millis(600),
    Duration::from_secs(1),
    Duration::from_secs(2),
    Duration::from_secs(3),
    Duration::from_secs(3),
];

/// Code or a picture that goes into a thread as a file.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct FileAttachment {
    /// Name, which says which message of which role the file belongs to.
    pub name: String,
    pub content: Vec<u8>,
    /// Title, and description for people who do not see it; the name if absent.
    pub words: Option<String>,
}

impl FileAttachment {
    pub(crate) const fn new(name: String, content: Vec<u8>) -> Self {
        Self { name, content, words: None }
    }
}

/// Name of a message's n-th file, from 0.
pub(crate) fn snippet_name(
    thread: &Thread,
    role: &str,
    key: &str,
    index: usize,
    snippet: &LongSnippet,
) -> String {
    file_name("code", thread, role, key, (index, snippet.extension()))
}

/// Name of a file of a message: what it was called before says nothing, and nothing leaves by it.
pub(crate) fn file_name(
    what: &str,
    thread: &Thread,
    role: &str,
    key: &str,
    (index, extension): (usize, &str),
) -> String {
    let uid = thread.uid().unwrap_or_default();
    let digest = Sha256::digest(format!("{uid}/{role}/{key}").as_bytes());
    format!("{what}-{}-{}.{extension}", hex::encode(&digest[..5]), index + 1)
}

#[derive(Deserialize)]
struct UploadTicket {
    upload_url: Url,
    file_id: String,
}

/// Uploads a file into a thread, in Slack's three steps; returns Slack's id of it.
pub(crate) async fn upload_file(
    inner: &Inner,
    account: &SlackAccount,
    slack: &SlackThread,
    file: &FileAttachment,
) -> Result<String, CallError> {
    let ids = upload_together(inner, account, slack, (std::slice::from_ref(file), None)).await?;
    Ok(ids.into_iter().next().unwrap_or_default())
}

/// Uploads files into a thread as one message, which says something; returns Slack's ids, in their order.
pub(crate) async fn upload_together(
    inner: &Inner,
    account: &SlackAccount,
    slack: &SlackThread,
    (files, words): (&[FileAttachment], Option<&str>),
) -> Result<Vec<String>, CallError> {
    const FIRST: &str = "files.getUploadURLExternal";
    const LAST: &str = "files.completeUploadExternal";
    let mut ids = Vec::new();
    for file in files {
        let length = file.content.len().to_string();
        let mut params = vec![("filename", file.name.as_str()), ("length", &length)];
        params.extend(file.words.as_deref().map(|words| ("alt_txt", words)));
        let ticket: UploadTicket = inner.web.get(&account.bot, FIRST, &params).await?;
        inner.web.upload(FIRST, ticket.upload_url, file.content.clone()).await?;
        ids.push(ticket.file_id);
    }
    let titled = ids.iter().zip(files);
    let titled = titled
        .map(|(id, file)| json!({"id": id, "title": file.words.as_deref().unwrap_or(&file.name)}));
    let mut body = json!({
        "files": titled.collect::<Vec<_>>(),
        "channel_id": slack.channel,
        "thread_ts": slack.ts,
    });
    if let Some(words) = words {
        body["initial_comment"] = words.into();
    }
    let taken = inner.web.post::<Value>(&account.bot, LAST, &body).await.map(drop);
    let taken = match taken {
        Err(error) if error.code().is_some() => return Err(error),
        other => other,
    };
    // An answer that got lost says nothing. Files of one message are shared together.
    if let Some(last) = ids.last()
        && is_shared(inner, account, slack, last).await?
    {
        return Ok(ids);
    }
    taken?;
    let (code, said) = ("not_shared".to_owned(), None);
    Err(CallError::Refused { method: LAST, code, needed: None, said })
}

#[derive(Deserialize)]
struct FileInfo {
    file: FileSharing,
}

#[derive(Deserialize)]
struct FileSharing {
    /// Shares of the file, by kind of channel, and by channel.
    #[serde(default)]
    shares: HashMap<String, HashMap<String, Vec<FileShare>>>,
}

#[derive(Deserialize)]
struct FileShare {
    #[serde(default)]
    thread_ts: Option<SlackTs>,
}

/// Waits until a file is in its thread: Slack says that it takes a file, and shares it some time later.
/// What belongs under the file is not to come before.
async fn is_shared(
    inner: &Inner,
    account: &SlackAccount,
    slack: &SlackThread,
    id: &str,
) -> Result<bool, CallError> {
    for pause in LOOKS {
        tokio::time::sleep(pause).await;
        let info =
            match inner.web.get::<FileInfo>(&account.bot, "files.info", &[("file", id)]).await {
                // Without the scope, it can't be known.
                Err(error) if error.code() == Some("missing_scope") => return Ok(true),
                Err(error) if error.code() == Some("file_not_found") => continue,
                other => other?,
            };
        let here = info.file.shares.values().filter_map(|channels| channels.get(&slack.channel));
        if here.flatten().any(|share| share.thread_ts.as_ref() == Some(&slack.ts)) {
            return Ok(true);
        }
    }
    Ok(false)
}
