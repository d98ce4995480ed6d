//! Recordings that are being written down: each by a task of its own, once, however long it takes and whoever waits
//! for its words. That it has begun is on record in the Thread, so that nobody pays for it again after the end of a
//! gateway.

use std::collections::{HashMap, HashSet};
use std::convert::Infallible;
use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use codebutler_crds::thread::SlackThread;
use codebutler_crds::{SlackTs, Thread, ThreadStatus};
use codebutler_gateway_core::caller::ProvenCaller;
use codebutler_gateway_core::sound::{SoundKind, detect_sound};
use codebutler_gateway_core::speech::{SoundRecording, SpeechDesk};
use codebutler_gateway_core::thread_key::ThreadKey;
use codebutler_runtime::recent::RecentMap;
use jiff::Timestamp;
use parking_lot::Mutex;
use tokio::time::Instant;
use tracing::Instrument as _;

use crate::Inner;
use crate::api::stored_message::SharedMessage;
use crate::inbound::files;
use crate::inbound::hearing_record::{RecordStanding, begin_record, mark_heard, mark_renewed};
use crate::outbound::asking::recording::show_transcript;
use crate::outbound::post::{self, MessageIdentity};
use crate::questions::recording;
use crate::text::quoting::describe_file;

/// Largest recording that is written down, in bytes, which is what providers take at most; larger ones are only
/// named.
const LARGEST: u64 = 24 * 1024 * 1024;
/// Transcripts whose messages are remembered.
const REMEMBERED: usize = 256;
/// Pause between two times at which a gateway renews its record of a recording: it is served to its end, even beside
/// the next gateway.
const RENEWAL: Duration = Duration::from_secs(8);
/// Pause before what Slack or the API server did not answer is tried again.
const LATER: Duration = Duration::from_secs(2);
/// Pauses between attempts to show what is paid for.
const PAUSES: [u64; 4] = [1, 3, 8, 20];
/// For a role that finds a recording whose words another process had, and could not show.
const GONE: &str = "its words were known before, but could not be shown in the thread and are not kept. If you have \
    not read them, ask for them in writing";

/// Recordings that are written down now, and the messages that show the latest ones.
pub(crate) struct HearingBook {
    busy: Mutex<HashMap<ThreadKey, HashSet<String>>>,
    shown: Mutex<RecentMap<(ThreadKey, String), (SlackTs, Instant)>>,
}

impl Default for HearingBook {
    fn default() -> Self {
        Self { busy: Mutex::default(), shown: Mutex::new(RecentMap::new(REMEMBERED)) }
    }
}

impl HearingBook {
    /// The message that shows a transcript, and when this process has posted it.
    pub(crate) fn shown(&self, thread: &ThreadKey, file: &str) -> Option<(SlackTs, Instant)> {
        self.shown.lock().get(&(thread.clone(), file.to_owned())).cloned()
    }

    fn claim(&self, thread: &ThreadKey, file: &str) -> bool {
        self.busy.lock().entry(thread.clone()).or_default().insert(file.to_owned())
    }

    fn release(&self, thread: &ThreadKey, file: &str) {
        let mut busy = self.busy.lock();
        if let Some(files) = busy.get_mut(thread) {
            files.remove(file);
            if files.is_empty() {
                busy.remove(thread);
            }
        }
    }
}

/// Ends the claim with its task, however that ends.
struct HearingClaim {
    inner: Arc<Inner>,
    thread: ThreadKey,
    file: String,
}

impl Drop for HearingClaim {
    fn drop(&mut self) {
        self.inner.hearings.release(&self.thread, &self.file);
    }
}

/// Outcome of writing a recording down.
enum HearingEnd {
    Words {
        text: Arc<str>,
        shown: Option<SlackTs>,
    },
    /// Another process wrote it down: its words are in the thread.
    Elsewhere,
    Unheard(Unheard),
    /// Roles had its words from a process that has ended, and the thread does not have them.
    Gone,
    /// Nothing is known yet: to be tried again.
    Later,
}

/// A recording could not be written down.
struct Unheard {
    /// Reason, a sentence without the file's name.
    why: String,
    /// True if it may have been paid for: it is never tried again.
    is_final: bool,
    /// True if the thread has been notified before.
    is_known: bool,
}

impl Unheard {
    fn of(why: impl Into<String>) -> Self {
        Self { why: why.into(), is_final: false, is_known: false }
    }
}

impl From<Unheard> for HearingEnd {
    fn from(unheard: Unheard) -> Self {
        Self::Unheard(unheard)
    }
}

/// Cache key of a recording's words.
pub(crate) fn heard_key(file: &SharedMessage) -> String {
    format!("heard:{}", file.id)
}

/// Cache key of the note that a recording's words are in the thread.
pub(crate) fn elsewhere_key(file: &SharedMessage) -> String {
    format!("heard-elsewhere:{}", file.id)
}

/// Cache key of the reason for which a recording has no words.
pub(crate) fn failed_key(file: &SharedMessage) -> String {
    format!("unheard:{}", file.id)
}

fn lost_key(file: &SharedMessage) -> String {
    format!("unheard-paid:{}", file.id)
}

/// Starts to write a recording of this person down, unless that is under way.
pub(crate) fn begin_hearing(
    inner: &Arc<Inner>,
    desk: &SpeechDesk,
    caller: &ProvenCaller,
    (thread, user): (&Thread, &str),
    file: &SharedMessage,
) {
    let key = ThreadKey::from(thread);
    if !inner.hearings.claim(&key, &file.id) {
        return;
    }
    let claim = HearingClaim { inner: Arc::clone(inner), thread: key, file: file.id.clone() };
    let work = RecordingWork {
        desk: desk.clone(),
        caller: caller.clone(),
        thread: thread.clone(),
        user: user.to_owned(),
        file: file.clone(),
    };
    let task = async move {
        let mut is_recorded = false;
        let end = Box::pin(work.write_down(&claim.inner, &mut is_recorded)).await;
        work.keep(&claim, end, is_recorded).await;
        drop(claim);
    };
    drop(desk.tasks.spawn(task.in_current_span()));
}

struct RecordingWork {
    desk: SpeechDesk,
    caller: ProvenCaller,
    thread: Thread,
    user: String,
    file: SharedMessage,
}

impl RecordingWork {
    /// Caches the outcome for whoever waits.
    async fn keep(&self, claim: &HearingClaim, end: HearingEnd, is_recorded: bool) {
        let (inner, repo, file) = (&claim.inner, &self.caller.repo, &self.file);
        let is_over = match end {
            HearingEnd::Words { text, shown } => {
                let is_shown = shown.is_some();
                if let Some(ts) = shown {
                    let place = (claim.thread.clone(), claim.file.clone());
                    inner.hearings.shown.lock().insert(place, (ts, Instant::now()));
                }
                inner.contents.add(repo, &heard_key(file), &text);
                if !is_shown {
                    // Roles have its words until this process ends: the next one must not take it for unheard.
                    let mark = |status: &mut ThreadStatus| mark_heard(status, &file.id);
                    self.record(inner, mark).await;
                }
                is_shown
            }
            HearingEnd::Elsewhere => {
                inner.contents.add(repo, &elsewhere_key(file), &"".into());
                true
            }
            HearingEnd::Unheard(unheard) => {
                let mut is_told = true;
                if !unheard.is_known {
                    tracing::warn!(why = unheard.why, "transcription_failed");
                    is_told = self.report(inner, &unheard).await;
                }
                inner.contents.add(repo, &failed_key(file), &unheard.why.as_str().into());
                // A recording that may have been paid for is known by its record until the thread says it.
                is_told || !unheard.is_final
            }
            HearingEnd::Gone => {
                inner.contents.add(repo, &failed_key(file), &GONE.into());
                // The record alone knows that it was paid for.
                false
            }
            HearingEnd::Later => {
                tokio::time::sleep(LATER).await;
                // Nothing was sent: its own record would say that it may have been paid for.
                is_recorded
            }
        };
        // The watch cache may lack what was just recorded.
        let is_known = |status: &ThreadStatus| status.hearing.iter().any(|b| b.file == file.id);
        let thread = inner.thread(&claim.thread);
        let is_known = thread.and_then(|thread| thread.status.as_ref().map(is_known));
        if is_over && (is_recorded || is_known == Some(true)) {
            let forget = |status: &mut ThreadStatus| status.hearing.retain(|b| b.file != file.id);
            self.record(inner, forget).await;
        }
    }

    async fn record(&self, inner: &Inner, change: impl Fn(&mut ThreadStatus) + Send + Sync) {
        let thread = ThreadKey::from(&self.thread);
        if let Err(error) = inner.threads.update(&thread, change).await {
            tracing::warn!(%error, thread = thread.name, part = "recording", "thread_status_write_failed");
        }
    }

    /// Says in the thread, once for each recording, what keeps it from being understood; returns true if it is
    /// said.
    async fn report(&self, inner: &Inner, unheard: &Unheard) -> bool {
        let (file, why) = (&self.file, &unheard.why);
        let key = if unheard.is_final { lost_key(file) } else { failed_key(file) };
        let about: String = describe_file(file).replace('`', "'");
        let text = format!(":mute: I could not listen to `{about}`: {why}.");
        let posted = post::post_line(inner, &ThreadKey::from(&self.thread), &key, &text, &[]).await;
        if let Err(error) = &posted {
            tracing::warn!(%error, notice = "recording_unheard", "notice_post_failed");
        }
        posted.is_ok()
    }

    /// Writes the recording down. `is_recorded` is set if its beginning was put on record now.
    async fn write_down(&self, inner: &Inner, is_recorded: &mut bool) -> HearingEnd {
        Box::pin(self.try_writing(inner, is_recorded)).await.unwrap_or_else(|end| end)
    }

    async fn try_writing(
        &self,
        inner: &Inner,
        is_recorded: &mut bool,
    ) -> Result<HearingEnd, HearingEnd> {
        let (file, thread) = (&self.file, &self.thread);
        let Some(slack) = thread.conversation() else { return Ok(HearingEnd::Elsewhere) };
        let id = MessageIdentity::of("", recording::KIND, &heard_key(file));
        if self.is_told(inner, slack, &id).await? {
            return Ok(HearingEnd::Elsewhere);
        }
        let lost = |is_known| {
            let why = "its transcription broke off once and may have been paid for. Send it again, or write it";
            Unheard { is_final: true, is_known, ..Unheard::of(why) }
        };
        if self.is_told(inner, slack, &post::notice_id(&lost_key(file))).await? {
            return Err(lost(true).into());
        }
        let sound = self.fetch_sound(inner).await?;
        match self.put_on_record(inner).await? {
            RecordStanding::New => *is_recorded = true,
            RecordStanding::Heard => return Err(HearingEnd::Gone),
            RecordStanding::Begun => return Err(HearingEnd::Later),
            RecordStanding::Abandoned => return Err(lost(false).into()),
        }
        tokio::select! {
            end = self.hear(inner, (slack, &id), sound) => end,
            never = self.renew_record(inner) => match never {},
        }
    }

    /// Has the recording transcribed, and shows its words.
    async fn hear(
        &self,
        inner: &Inner,
        (slack, id): (&SlackThread, &MessageIdentity),
        sound: SoundRecording,
    ) -> Result<HearingEnd, HearingEnd> {
        // Another gateway may have shown it since, and have taken its own record away.
        inner.sent.forget(&ThreadKey::from(&self.thread));
        if self.is_told(inner, slack, id).await? {
            return Ok(HearingEnd::Elsewhere);
        }
        let text = (self.desk.scribe)(self.caller.clone(), sound).await.map_err(|error| Unheard {
            is_final: error.is_billed,
            ..Unheard::of(error.sentence.trim_end_matches('.'))
        });
        let text: Arc<str> = text?.trim().into();
        let shown = self.show_patiently(inner, &text).await;
        Ok(HearingEnd::Words { text, shown })
    }

    /// Keeps saying that this process is at it, for as long as it is.
    async fn renew_record(&self, inner: &Inner) -> Infallible {
        loop {
            tokio::time::sleep(RENEWAL).await;
            let now = Timestamp::now();
            self.record(inner, move |status| mark_renewed(status, &self.file.id, now)).await;
        }
    }

    /// Records in the Thread that it has begun; returns what an earlier record says, if there is one.
    async fn put_on_record(&self, inner: &Inner) -> Result<RecordStanding, HearingEnd> {
        let now = Timestamp::now();
        let record = |status: &mut ThreadStatus| Ok(begin_record(status, &self.file.id, now));
        let recorded = inner.threads.try_update(&ThreadKey::from(&self.thread), record).await;
        recorded.map(|(_, standing)| standing).map_err(|error| {
            tracing::warn!(%error, part = "recording", "thread_status_write_failed");
            HearingEnd::Later
        })
    }

    /// Posts the transcript, retrying for a while: it is paid for.
    async fn show_patiently(&self, inner: &Inner, text: &str) -> Option<SlackTs> {
        let words = show_understood(&self.file, text);
        let (thread, key) = (ThreadKey::from(&self.thread), heard_key(&self.file));
        for pause in PAUSES.iter().map(Some).chain([None]) {
            match show_transcript(inner, &thread, (&key, &self.user), &words).await {
                Ok(ts) => return Some(ts),
                Err(error) => tracing::warn!(%error, "transcript_post_failed"),
            }
            tokio::time::sleep(Duration::from_secs(*pause?)).await;
        }
        None
    }

    /// Downloads the recording, where a model may be asked about it.
    async fn fetch_sound(&self, inner: &Inner) -> Result<SoundRecording, HearingEnd> {
        let (caller, file) = (&self.caller, &self.file);
        if caller.role.spec.model.audio.is_none() {
            let role = caller.role_name();
            let why = format!(
                "no model is named for recordings. Set spec.model.audio of the AgentRole {role} to a model that transcribes, \
                 such as `openai/whisper-1`, or write what you said"
            );
            return Err(Unheard::of(why).into());
        }
        let too_large = || {
            Unheard::of(
                "it is larger than 24 MiB, which is the most that is listened to. Send a shorter one, or write it",
            )
        };
        if file.size > LARGEST {
            return Err(too_large().into());
        }
        let Some(url) = &file.url_private else {
            return Err(Unheard::of("Slack did not hand it out. Send it again, or write it").into());
        };
        let most = usize::try_from(LARGEST).unwrap_or(usize::MAX);
        let Ok(account) = inner.account(&caller.repo).await else { return Err(HearingEnd::Later) };
        let bytes = files::download_patiently(inner, &account, (url, &file.mimetype), most).await;
        let bytes = bytes.map_err(|error| Unheard::of(files::explain_withheld(&error)))?;
        let bytes = Bytes::from(bytes);
        let mut name = file.name.clone();
        match detect_sound(&bytes) {
            SoundKind::Other(what) => {
                let why = format!(
                    "it is no recording: by its content it is {what}. Send the recording itself, or write it"
                );
                return Err(Unheard::of(why).into());
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
        &self,
        inner: &Inner,
        slack: &SlackThread,
        id: &MessageIdentity,
    ) -> Result<bool, HearingEnd> {
        let found = post::lookup_sent(inner, &self.caller.repo, &self.thread, slack, id).await;
        found.map(|found| found.is_some()).map_err(|error| {
            tracing::warn!(%error, "transcript_lookup_failed");
            HearingEnd::Later
        })
    }
}

/// The message in which people see what was understood.
fn show_understood(file: &SharedMessage, text: &str) -> String {
    let quoted: Vec<String> = text.lines().map(|line| format!("> {line}")).collect();
    let quoted = if quoted.is_empty() { "_nothing_".to_owned() } else { quoted.join("\n") };
    let unseen = if file.is_half_heard() {
        "I only hear it, and don't see what it shows: send a screenshot of what matters.\n"
    } else {
        ""
    };
    let seconds = recording::HOLD.as_secs();
    format!(
        ":studio_microphone: What I understood:\n{quoted}\n{unseen}Is it wrong? Write what it should be: your next message \
         corrects it. In {seconds} seconds a role goes on with it."
    )
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn people_learn_that_the_pictures_of_a_clip_are_not_seen() {
        let show = |kind: &str, subtype: &str, text: &str| {
            let file = json!({"id": "F1", "name": "clip", "mimetype": kind, "subtype": subtype});
            show_understood(&serde_json::from_value(file).unwrap(), text)
        };
        let clip = show("video/mp4", "slack_video", "See\nhere.");
        assert!(clip.contains("\n> See\n> here.\nI only hear it, and don't see"), "{clip}");
        assert!(show("video/mp4", "slack_video", "").contains("_nothing_\nI only hear it"));
        let voice = show("video/mp4", "slack_audio", "Hi.");
        assert!(voice.contains("\n> Hi.\nIs it wrong?"), "{voice}");
    }
}
