//! Recordings and who writes them down: an interface between the conversation and the models.

use std::sync::Arc;

use bytes::Bytes;
use codebutler_runtime::tasks::TaskGroup;
use futures::future::BoxFuture;

use crate::caller::ProvenCaller;

/// A recording to transcribe.
pub struct SoundRecording {
    /// Its file name.
    pub name: String,
    /// Its media type, as Slack guesses it.
    pub kind: String,
    pub bytes: Bytes,
}

/// Why a recording was not transcribed.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{sentence}")]
pub struct SpeechError {
    /// For people and models.
    pub sentence: String,
    /// It may have cost something: then it is not tried again.
    pub is_billed: bool,
}

/// Who writes recordings of conversations down, and the tasks that do: a call that has begun is paid for, so they are served
/// to their end.
#[derive(Clone)]
pub struct SpeechDesk {
    pub scribe: SpeechScribe,
    pub tasks: TaskGroup,
}

/// Transcribes a recording for a role, or says why it can't.
pub type SpeechScribe = Arc<
    dyn Fn(ProvenCaller, SoundRecording) -> BoxFuture<'static, Result<String, SpeechError>>
        + Send
        + Sync,
>;
