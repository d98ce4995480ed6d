//! Recordings in a conversation: written down by the role's audio model, with the Repo's key and within
//! its budget, and shown in the thread, so that everybody sees what was understood.

use std::fmt::Write as _;
use std::sync::{Arc, PoisonError};

use bytes::Bytes;
use codebutler_crds::Thread;
use codebutler_crds::thread::SlackThread;

use super::account::SlackAccount;
use super::event::SharedMessage;
use super::quoting::{describe_file, find_fence};
use super::{Inner, post};
use crate::gateway::caller::ProvenCaller;
use crate::gateway::speech::SoundRecording;
use crate::gateway::thread_key::ThreadKey;

/// Larger ones are named, not heard: what providers take at most.
const LARGEST: u64 = 24 * 1024 * 1024;

/// What the recordings of a message say, behind its text.
pub(super) async fn read_recordings(
    inner: &Inner,
    caller: &ProvenCaller,
    account: &SlackAccount,
    thread: &Thread,
    files: &[SharedMessage],
) -> String {
    let mut said = String::new();
    for file in files.iter().filter(|file| file.is_sound()) {
        let about = describe_file(file);
        match transcribe_file(inner, caller, account, thread, file).await {
            Ok(Some(text)) => {
                let fence = find_fence(&text);
                let _ =
                    write!(said, "\n\n[recording {about}, written down]\n{fence}\n{text}\n{fence}");
            }
            Ok(None) => {
                let _ = write!(said, "\n\n[recording {about}: its transcript is in the thread]");
            }
            Err(why) => {
                tracing::warn!(why, "a recording is not written down");
                let _ = write!(said, "\n\n[recording {about}: not written down: {why}]");
            }
        }
    }
    said
}

/// None: it was written down by another process, in the thread.
async fn transcribe_file(
    inner: &Inner,
    caller: &ProvenCaller,
    account: &SlackAccount,
    thread: &Thread,
    file: &SharedMessage,
) -> Result<Option<Arc<str>>, String> {
    if caller.role.spec.model.audio.is_none() {
        let role = caller.role_name();
        return Err(format!("the AgentRole of {role} names no spec.model.audio"));
    }
    let scribe = inner.scribe.lock().unwrap_or_else(PoisonError::into_inner).clone();
    let Some(scribe) = scribe else { return Err("nobody can here".to_owned()) };
    let Some(slack) = thread.conversation() else { return Ok(None) };
    let key = format!("heard:{}", file.id);
    // One at a time, so that roles that wake together pay once.
    let _turn = inner.hearing.lock(&ThreadKey::from(thread)).await;
    if let Some(known) = inner.contents.get(&caller.repo, &key) {
        return Ok(Some(known));
    }
    if is_told(inner, caller, thread, slack, &key).await? {
        return Ok(None);
    }
    if file.size > LARGEST {
        return Err("it is larger than 24 MiB".to_owned());
    }
    let Some(url) = file.url_private.clone() else {
        return Err("Slack did not hand it out".to_owned());
    };
    let most = usize::try_from(LARGEST).unwrap_or(usize::MAX);
    let bytes = inner.web.download(&account.bot, url, most).await;
    let bytes: Bytes = bytes.map_err(|error| error.to_string())?.into();
    let sound = SoundRecording { name: file.name.clone(), kind: file.mimetype.clone(), bytes };
    let text = scribe(caller.clone(), sound).await?;
    let text: Arc<str> = text.trim().into();
    inner.contents.add(&caller.repo, &key, &text);
    let quoted: Vec<String> = text.lines().map(|line| format!("> {line}")).collect();
    let shown = format!(":studio_microphone: What I understood:\n{}", quoted.join("\n"));
    if let Err(error) = post::post_line(inner, &ThreadKey::from(thread), &key, &shown).await {
        tracing::warn!(%error, "a transcript is not shown");
    }
    Ok(Some(text))
}

async fn is_told(
    inner: &Inner,
    caller: &ProvenCaller,
    thread: &Thread,
    slack: &SlackThread,
    key: &str,
) -> Result<bool, String> {
    let found = post::lookup_sent(inner, &caller.repo, thread, slack, &post::notice_id(key)).await;
    found.map(|found| found.is_some()).map_err(|error| error.to_string())
}
