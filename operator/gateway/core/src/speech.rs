//! Recordings and who writes them down: an interface between the conversation and the models.

use std::sync::Arc;

use bytes::Bytes;
use codebutler_runtime::tasks::TaskGroup;
use futures::future::BoxFuture;

use crate::caller::ProvenCaller;

/// A recording to transcribe.
pub struct SoundRecording {
    pub name: String,
    /// Media type, as Slack guesses it.
    pub kind: String,
    pub bytes: Bytes,
}

/// Failure to transcribe a recording.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{sentence}")]
pub struct SpeechError {
    /// Sentence for people and models.
    pub sentence: String,
    /// True if the attempt may have cost something: then it is not repeated.
    pub is_billed: bool,
}

/// Transcriber of conversations' recordings, and the tasks that run it: a call that has begun is
/// paid for, so they are served to their end.
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
