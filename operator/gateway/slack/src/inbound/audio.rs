//! Recordings in a conversation: written down by the role's audio model, with the Repo's key and within
//! its budget, and shown in the thread, so that everybody sees what was understood and its speaker can correct it
//! before a role acts.

use std::fmt::Write as _;
use std::sync::{Arc, PoisonError};

use bytes::Bytes;
use codebutler_crds::thread::SlackThread;
use codebutler_crds::{SlackTs, Thread};
use codebutler_gateway_core::caller::ProvenCaller;
use codebutler_gateway_core::sound::{SoundKind, detect_sound};
use codebutler_gateway_core::speech::SoundRecording;
use codebutler_gateway_core::thread_key::ThreadKey;

use crate::Inner;
use crate::api::account::SlackAccount;
use crate::inbound::event::SharedMessage;
use crate::inbound::quoting::{describe_file, find_fence};
use crate::outbound::post;
use crate::outbound::post::MessageIdentity;
use crate::questions::asking::recording::show_transcript;
use crate::questions::recording;

/// Larger ones are named, not heard: what providers take at most.
const LARGEST: u64 = 24 * 1024 * 1024;

/// The transcripts of a message.
#[derive(Debug, Default)]
pub(crate) struct HeardMessage {
    /// For behind the message's text.
    pub text: String,
    /// The message that shows the last of them, where this reading showed it.
    pub shown: Option<SlackTs>,
}

/// A recording that was understood.
struct Transcript {
    /// None: it was written down by another process, in the thread.
    words: Option<Arc<str>>,
    shown: Option<SlackTs>,
}

/// Why a recording is not written down.
struct Unheard {
    /// A sentence, without the file's name.
    why: String,
    /// It may have been paid for: it is never tried again.
    is_final: bool,
    /// The thread has been notified before.
    is_known: bool,
}

impl Unheard {
    fn of(why: impl Into<String>) -> Self {
        Self { why: why.into(), is_final: false, is_known: false }
    }
}

/// Reads the recordings of a message of this person.
pub(crate) async fn read_recordings(
    inner: &Inner,
    caller: &ProvenCaller,
    account: &SlackAccount,
    (thread, user): (&Thread, &str),
    files: &[SharedMessage],
) -> HeardMessage {
    let mut heard = HeardMessage::default();
    for file in files.iter().filter(|file| file.is_sound()) {
        let about = describe_file(file);
        let said = &mut heard.text;
        match transcribe_file(inner, caller, account, (thread, user), file).await {
            Ok(Transcript { words: Some(text), shown }) => {
                let fence = find_fence(&text);
                let _ =
                    write!(said, "\n\n[recording {about}, written down]\n{fence}\n{text}\n{fence}");
                heard.shown = shown.or(heard.shown);
            }
            Ok(Transcript { words: None, .. }) => {
                let _ = write!(said, "\n\n[recording {about}: its transcript is in the thread]");
            }
            Err(unheard) => {
                let why = &unheard.why;
                let _ = write!(said, "\n\n[recording {about}: not written down: {why}]");
                if !unheard.is_known {
                    tracing::warn!(why, "a recording is not written down");
                    report_unheard(inner, caller, thread, file, &unheard).await;
                }
            }
        }
    }
    heard
}

/// Says in the thread, once for each recording, what keeps it from being understood.
async fn report_unheard(
    inner: &Inner,
    caller: &ProvenCaller,
    thread: &Thread,
    file: &SharedMessage,
    unheard: &Unheard,
) {
    let why: Arc<str> = unheard.why.as_str().into();
    inner.contents.add(&caller.repo, &failed_key(file), &why);
    let key = if unheard.is_final { lost_key(file) } else { failed_key(file) };
    let about: String = describe_file(file).replace('`', "'");
    let text = format!(":mute: I could not listen to `{about}`: {why}.");
    if let Err(error) = post::post_line(inner, &ThreadKey::from(thread), &key, &text).await {
        tracing::warn!(%error, "that a recording was not understood is not said");
    }
}

fn failed_key(file: &SharedMessage) -> String {
    format!("unheard:{}", file.id)
}

fn lost_key(file: &SharedMessage) -> String {
    format!("unheard-paid:{}", file.id)
}

async fn transcribe_file(
    inner: &Inner,
    caller: &ProvenCaller,
    account: &SlackAccount,
    (thread, user): (&Thread, &str),
    file: &SharedMessage,
) -> Result<Transcript, Unheard> {
    let scribe = inner.scribe.lock().unwrap_or_else(PoisonError::into_inner).clone();
    let Some(scribe) = scribe else { return Err(Unheard::of("this gateway asks no models")) };
    let elsewhere = Transcript { words: None, shown: None };
    let Some(slack) = thread.conversation() else { return Ok(elsewhere) };
    let key = format!("heard:{}", file.id);
    // One at a time, so that roles that wake together pay once.
    let _turn = inner.hearing.lock(&ThreadKey::from(thread)).await;
    if let Some(known) = inner.contents.get(&caller.repo, &key) {
        return Ok(Transcript { words: Some(known), shown: None });
    }
    let place = (thread, slack);
    let by_key = |kind, key: &str| MessageIdentity::of("", kind, key);
    if is_told(inner, caller, place, &by_key(recording::KIND, &key)).await? {
        return Ok(elsewhere);
    }
    if let Some(why) = inner.contents.get(&caller.repo, &failed_key(file)) {
        return Err(Unheard { is_known: true, ..Unheard::of(&*why) });
    }
    if is_told(inner, caller, place, &post::notice_id(&lost_key(file))).await? {
        let why = "its transcription broke off once and may have been paid for. Send it again, or write it";
        return Err(Unheard { is_known: true, ..Unheard::of(why) });
    }
    let sound = fetch_sound(inner, caller, account, file).await?;
    let text = scribe(caller.clone(), sound).await.map_err(|error| Unheard {
        is_final: error.is_billed,
        ..Unheard::of(error.sentence.trim_end_matches('.'))
    })?;
    let text: Arc<str> = text.trim().into();
    inner.contents.add(&caller.repo, &key, &text);
    let quoted: Vec<String> = text.lines().map(|line| format!("> {line}")).collect();
    let quoted = if quoted.is_empty() { "_nothing_".to_owned() } else { quoted.join("\n") };
    let seconds = recording::HOLD.as_secs();
    let shown = format!(
        ":studio_microphone: What I understood:\n{quoted}\nIs it wrong? Write what it should be: your next message \
         corrects it. In {seconds} seconds a role goes on with it."
    );
    let shown = show_transcript(inner, &ThreadKey::from(thread), (&key, user), &shown).await;
    let shown = shown.map_err(|error| tracing::warn!(%error, "a transcript is not shown")).ok();
    Ok(Transcript { words: Some(text), shown })
}

/// The recording's bytes, where a model may be asked about them.
async fn fetch_sound(
    inner: &Inner,
    caller: &ProvenCaller,
    account: &SlackAccount,
    file: &SharedMessage,
) -> Result<SoundRecording, Unheard> {
    if caller.role.spec.model.audio.is_none() {
        let role = caller.role_name();
        return Err(Unheard::of(format!(
            "no model is named for recordings. Set spec.model.audio of the AgentRole {role} to a model that transcribes, \
             such as `openai/whisper-1`, or write what you said"
        )));
    }
    let too_large = || {
        Unheard::of(
            "it is larger than 24 MiB, which is the most that is listened to. Send a shorter one, or write it",
        )
    };
    if file.size > LARGEST {
        return Err(too_large());
    }
    let Some(url) = file.url_private.clone() else {
        return Err(Unheard::of("Slack did not hand it out. Send it again, or write it"));
    };
    let most = usize::try_from(LARGEST).unwrap_or(usize::MAX);
    let bytes = inner.web.download(&account.bot, url, most).await;
    let bytes: Bytes = bytes.map_err(|error| Unheard::of(error.to_string()))?.into();
    let mut name = file.name.clone();
    match detect_sound(&bytes) {
        SoundKind::Other(what) => {
            let why = format!(
                "it is no recording: by its content it is {what}. Send the recording itself, or write it"
            );
            return Err(Unheard::of(why));
        }
        // Some providers go by the name alone.
        SoundKind::Sound(format) => {
            let stem = name.rsplit_once('.').map_or(name.as_str(), |(stem, _)| stem);
            name = format!("{stem}.{}", format.name());
        }
        SoundKind::Unknown => {}
    }
    Ok(SoundRecording { name, kind: file.mimetype.clone(), bytes })
}

async fn is_told(
    inner: &Inner,
    caller: &ProvenCaller,
    (thread, slack): (&Thread, &SlackThread),
    id: &MessageIdentity,
) -> Result<bool, Unheard> {
    let found = post::lookup_sent(inner, &caller.repo, thread, slack, id).await;
    let found = found.map(|found| found.is_some());
    // No notice: the next reading tries again.
    found.map_err(|error| Unheard { is_known: true, ..Unheard::of(error.to_string()) })
}
