//! Recordings in a conversation: written down by the role's audio model, with the Repo's key and within
//! its budget, and shown in the thread, so that everybody sees what was understood and its speaker can correct it
//! before a role acts. Here is what a role reads of them; [`hearing`](super::hearing) writes them down.

use std::fmt::Write as _;
use std::sync::Arc;

use codebutler_crds::{SlackTs, Thread};
use codebutler_gateway_core::caller::ProvenCaller;
use codebutler_gateway_core::thread_key::ThreadKey;
use tokio::time::Instant;

use crate::Inner;
use crate::api::stored_message::SharedMessage;
use crate::inbound::hearing::{begin_hearing, elsewhere_key, failed_key, heard_key};
use crate::text::quoting::{describe_file, find_fence};

/// The transcripts of a message.
#[derive(Debug, Default)]
pub(crate) struct HeardMessage {
    /// Text to stand behind the message's own.
    pub text: String,
    /// The message that shows the last of them, and when this process has posted it.
    pub shown: Option<(SlackTs, Instant)>,
    /// True while a recording is still being written down.
    pub is_unfinished: bool,
}

/// Reads the recordings of a message of this person, and begins to write down those that were not yet.
pub(crate) fn read_recordings(
    inner: &Arc<Inner>,
    caller: &ProvenCaller,
    (thread, user): (&Thread, &str),
    files: &[SharedMessage],
) -> HeardMessage {
    let mut heard = HeardMessage::default();
    let (repo, key) = (&caller.repo, ThreadKey::from(thread));
    for file in files.iter().filter(|file| file.is_sound()) {
        let about = describe_file(file);
        let said = &mut heard.text;
        if let Some(text) = inner.contents.get(repo, &heard_key(file)) {
            said.push_str(&show_heard(file, &text));
            heard.shown = inner.hearings.shown(&key, &file.id).or(heard.shown);
            continue;
        }
        if inner.contents.get(repo, &elsewhere_key(file)).is_some() {
            let _ = write!(said, "\n\n[recording {about}: its transcript is in the thread]");
            continue;
        }
        if let Some(why) = inner.contents.get(repo, &failed_key(file)) {
            let _ = write!(said, "\n\n[recording {about}: not written down: {why}]");
            continue;
        }
        let Some(desk) = inner.services.speech() else {
            let _ = write!(
                said,
                "\n\n[recording {about}: not written down: this gateway asks no models]"
            );
            continue;
        };
        begin_hearing(inner, &desk, caller, (thread, user), file);
        heard.is_unfinished = true;
        let _ = write!(
            said,
            "\n\n[recording {about}: it is still being written down; its words follow in the thread]"
        );
    }
    heard
}

/// The words of a recording, as a role reads them.
fn show_heard(file: &SharedMessage, text: &str) -> String {
    let (about, fence) = (describe_file(file), find_fence(text));
    let unseen = if file.is_half_heard() {
        ". Only its sound: what it shows is not seen. Where that matters, ask for a screenshot"
    } else {
        ""
    };
    format!("\n\n[recording {about}, written down{unseen}]\n{fence}\n{text}\n{fence}")
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn a_role_knows_that_it_does_not_see_what_a_clip_shows() {
        let show = |kind: &str, subtype: &str| {
            let file = json!({"id": "F1", "name": "clip", "mimetype": kind, "subtype": subtype});
            show_heard(&serde_json::from_value(file).unwrap(), "See here.")
        };
        let clip = show("video/mp4", "slack_video");
        assert!(
            clip.contains("written down. Only its sound: what it shows is not seen."),
            "{clip}"
        );
        assert!(clip.ends_with("ask for a screenshot]\n```\nSee here.\n```"), "{clip}");
        let voice = show("video/mp4", "slack_audio");
        assert!(voice.ends_with("written down]\n```\nSee here.\n```"), "{voice}");
    }
}
