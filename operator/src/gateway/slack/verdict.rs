//! What is answered to who decided something with a click or a thumb.

use std::sync::Arc;

use codebutler_crds::Thread;

use super::effects::Effect;
use super::ingest::TakeError;
use crate::gateway::context::ThreadKey;
use crate::gateway::threads::WriteError;

/// The message may be known to Slack before the Thread knows what it asks.
pub const UNRECORDED_YET: &str =
    "This was posted a moment ago and is not recorded yet: please click again.";
/// Somebody, or something newer, was first.
pub const ANSWERED_OR_NEWER: &str =
    "This is no longer open: it was answered, or a newer message asks.";

/// What a decision came to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Verdict {
    /// It counts: the message shows who decided, and loses its buttons.
    Counts,
    /// It changes nothing, and nobody needs to know.
    Silent,
    /// It changes nothing; who decided is told why.
    Vain(&'static str),
}

/// What follows from a decision that was, or could not be, put on record.
///
/// # Errors
/// When it is not known whether it was.
pub fn answer<T>(
    thread: ThreadKey,
    user: &str,
    taken: Result<(Arc<Thread>, T), WriteError>,
    read: impl FnOnce(&Thread, T) -> Verdict,
) -> Result<Vec<Effect>, TakeError> {
    let text = match taken {
        Ok((found, outcome)) => match read(&found, outcome) {
            Verdict::Counts => return Ok(vec![Effect::Settled { thread }]),
            Verdict::Silent => return Ok(Vec::new()),
            Verdict::Vain(why) => why.to_owned(),
        },
        Err(WriteError::Missing(_)) => return Ok(Vec::new()),
        Err(WriteError::Refused(refusal)) => refusal.to_string(),
        Err(error) => return Err(error.into()),
    };
    Ok(vec![Effect::Whisper { thread, user: user.to_owned(), text }])
}
