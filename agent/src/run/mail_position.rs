//! Position of a role in the messages of its conversation. Pure.

use codebutler_wire::{RoleInbox, SlackTs};

#[derive(Default)]
pub(super) struct MailPosition {
    /// Newest message that was reported to the gateway as done.
    done: Option<SlackTs>,
    /// Inbox that was read at the start of the process, together with the session.
    early: Option<RoleInbox>,
    /// Version of the inbox whose messages are all in the transcript.
    seen: Option<String>,
}

impl MailPosition {
    /// Position at the start of a process, by the session and an inbox that was read early.
    pub(super) fn new(done: Option<SlackTs>, early: Option<RoleInbox>) -> Self {
        Self { done, early, seen: None }
    }

    pub(super) fn done(&self) -> Option<&SlackTs> {
        self.done.as_ref()
    }

    pub(super) fn is_done(&self, message: &SlackTs) -> bool {
        self.done.as_ref().is_some_and(|done| message <= done)
    }

    /// Notes a report of what is done. An older message than before changes nothing.
    pub(super) fn advance(&mut self, done: Option<SlackTs>) {
        self.done = self.done.take().max(done);
    }

    pub(super) fn take_early(&mut self) -> Option<RoleInbox> {
        self.early.take()
    }

    pub(super) fn seen(&self) -> Option<&str> {
        self.seen.as_deref()
    }

    /// Notes that all messages of this version of the inbox are in the transcript.
    pub(super) fn note_taken(&mut self, version: Option<String>) {
        if version.is_some() {
            self.seen = version;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_done_only_grows() {
        let ts = |second: u32| -> SlackTs { format!("{second}.000000").parse().unwrap() };
        let mut position = MailPosition::default();
        assert!(!position.is_done(&ts(1)));
        for (reported, done) in [(Some(5), 5), (Some(3), 5), (None, 5), (Some(7), 7)] {
            position.advance(reported.map(ts));
            assert_eq!(position.done(), Some(&ts(done)));
            assert!(position.is_done(&ts(done)) && !position.is_done(&ts(done + 1)));
        }
    }

    #[test]
    fn an_inbox_without_a_version_leaves_the_last_one() {
        let mut position = MailPosition::default();
        for (version, seen) in [(None, None), (Some("a"), Some("a")), (None, Some("a"))] {
            position.note_taken(version.map(ToOwned::to_owned));
            assert_eq!(position.seen(), seen);
        }
    }
}
