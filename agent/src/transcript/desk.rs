//! Requests that are answered in conversations of their own: which there are, to whom each message
//! belongs, and up to where everything is done with. Pure.

use std::collections::{BTreeMap, BTreeSet};

use codebutler_wire::{MessageAuthor, PendingItem, SlackTs, ThreadMessage};
use serde::{Deserialize, Serialize};

use super::RunOutcome;

/// All requests, by their first message.
#[derive(Debug, Default)]
pub struct RequestDesk {
    requests: BTreeMap<SlackTs, DeskRequest>,
    /// Every message that belongs to one.
    given: BTreeSet<SlackTs>,
}

#[derive(Debug, Default)]
struct DeskRequest {
    asker: Option<MessageAuthor>,
    work: GivenRequest,
    /// Its last answer; absent while the request is open.
    answered: Option<AnsweredRequest>,
    reported: bool,
}

/// Messages and decisions that a conversation was given since it was last answered.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct GivenRequest {
    /// Messages, oldest first.
    pub messages: Vec<ThreadMessage>,
    /// Decisions that it waited for.
    pub pending: Vec<PendingItem>,
}

#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct AnsweredRequest {
    pub outcome: RunOutcome,
    /// Reason of [`RunOutcome::Failed`], for the thread.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub reason: Option<String>,
    /// Pending decisions that it took.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub handled: Vec<String>,
    #[serde(default)]
    pub turns: u32,
}

impl RequestDesk {
    /// Returns true if there never was a request.
    pub fn is_empty(&self) -> bool {
        self.requests.is_empty()
    }

    /// Returns true if all requests are answered, and the gateway knows.
    pub fn is_settled(&self) -> bool {
        self.requests.values().all(|request| request.answered.is_some() && request.reported)
    }

    /// Requests that are not answered, oldest first.
    pub fn open(&self) -> impl Iterator<Item = &SlackTs> {
        self.requests.iter().filter(|(_, request)| request.answered.is_none()).map(|(id, _)| id)
    }

    /// Requests that wait for people or roles, newest first.
    pub fn waiting(&self) -> impl Iterator<Item = &SlackTs> {
        let waits = |request: &DeskRequest| {
            request
                .answered
                .as_ref()
                .is_some_and(|answered| answered.outcome == RunOutcome::Waiting)
        };
        self.requests.iter().rev().filter(move |(_, request)| waits(request)).map(|(id, _)| id)
    }

    pub fn asker(&self, id: &SlackTs) -> Option<&MessageAuthor> {
        self.requests.get(id)?.asker.as_ref()
    }

    /// Messages and decisions that a conversation has to work on.
    pub fn given(&self, id: &SlackTs) -> GivenRequest {
        self.requests.get(id).map(|request| request.work.clone()).unwrap_or_default()
    }

    /// Answers that the gateway does not know of.
    pub fn unreported(&self) -> impl Iterator<Item = (&SlackTs, &AnsweredRequest)> {
        let unreported = self.requests.iter().filter(|(_, request)| !request.reported);
        unreported.filter_map(|(id, request)| Some((id, request.answered.as_ref()?)))
    }

    /// The request that a new message belongs to: what a person adds to what is worked on for that
    /// person, and an answer to whoever waits for it. Everything else is a request of its own.
    pub fn place(&self, message: &ThreadMessage) -> SlackTs {
        let of_asker = |id: &&SlackTs| {
            **id < message.ts && self.asker(id).is_some_and(|asker| *asker == message.author)
        };
        let person = matches!(message.author, MessageAuthor::User { .. });
        let open = self.open().filter(of_asker).last().filter(|_| person);
        let found = open.or_else(|| self.waiting().find(of_asker));
        found.unwrap_or(&message.ts).clone()
    }

    /// The newest message such that it and all before it are done with.
    pub fn done(&self) -> Option<SlackTs> {
        let open = self.requests.values().filter(|request| request.answered.is_none());
        let first = open.flat_map(|request| &request.work.messages).map(|m| &m.ts).min();
        let done = self.given.iter().rev().find(|ts| first.is_none_or(|first| *ts < first));
        done.cloned()
    }

    pub(super) fn give(
        &mut self,
        id: &SlackTs,
        messages: &[ThreadMessage],
        pending: &[PendingItem],
    ) {
        self.given.extend(messages.iter().map(|message| message.ts.clone()));
        let request = self.requests.entry(id.clone()).or_default();
        if request.asker.is_none() {
            request.asker = messages.first().map(|message| message.author.clone());
        }
        request.work.messages.extend_from_slice(messages);
        request.work.pending.extend_from_slice(pending);
        (request.answered, request.reported) = (None, false);
    }

    pub(super) fn answer(&mut self, id: &SlackTs, answered: &AnsweredRequest) {
        let Some(request) = self.requests.get_mut(id) else { return };
        request.work = GivenRequest::default();
        request.answered = Some(answered.clone());
    }

    pub(super) fn report(&mut self) {
        for request in self.requests.values_mut().filter(|request| request.answered.is_some()) {
            request.reported = true;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn ts(n: u32) -> SlackTs {
        format!("{n}.000000").parse().unwrap()
    }

    fn message(n: u32, author: &str) -> ThreadMessage {
        let author = match author.strip_prefix('U') {
            Some(_) => MessageAuthor::User { id: author.into() },
            None => MessageAuthor::Role { role: author.into() },
        };
        let (text, pictures) = (n.to_string(), vec![]);
        ThreadMessage { ts: ts(n), author, text, addressed: true, pictures }
    }

    fn give(desk: &mut RequestDesk, message: &ThreadMessage) -> SlackTs {
        let id = desk.place(message);
        desk.give(&id, std::slice::from_ref(message), &[]);
        id
    }

    fn answered(outcome: RunOutcome) -> AnsweredRequest {
        AnsweredRequest { outcome, reason: None, handled: vec![], turns: 1 }
    }

    #[test]
    fn each_asker_has_a_conversation_and_each_message_of_a_role() {
        let mut desk = RequestDesk::default();
        assert_eq!(give(&mut desk, &message(1, "pm")), ts(1));
        assert_eq!(give(&mut desk, &message(2, "pm")), ts(2));
        assert_eq!(give(&mut desk, &message(3, "U1")), ts(3));
        assert_eq!(give(&mut desk, &message(4, "U1")), ts(3), "a person's burst");
        assert_eq!(give(&mut desk, &message(5, "U2")), ts(5));
        assert_eq!(desk.open().count(), 4);
        desk.answer(&ts(1), &answered(RunOutcome::Waiting));
        assert_eq!(give(&mut desk, &message(6, "pm")), ts(1), "what it waited for");
        desk.answer(&ts(3), &answered(RunOutcome::Idle));
        assert_eq!(give(&mut desk, &message(7, "U1")), ts(7));
    }

    #[test]
    fn the_mark_stops_before_what_is_open() {
        let mut desk = RequestDesk::default();
        for n in 1..=4 {
            give(&mut desk, &message(n, "pm"));
        }
        assert_eq!(desk.done(), None);
        desk.answer(&ts(3), &answered(RunOutcome::Idle));
        assert_eq!(desk.done(), None);
        desk.answer(&ts(1), &answered(RunOutcome::Idle));
        assert_eq!(desk.done(), Some(ts(1)));
        desk.answer(&ts(2), &answered(RunOutcome::Failed));
        assert_eq!((desk.done(), desk.is_settled()), (Some(ts(3)), false));
        desk.answer(&ts(4), &answered(RunOutcome::Idle));
        assert_eq!((desk.done(), desk.unreported().count()), (Some(ts(4)), 4));
        desk.report();
        assert!(desk.is_settled());
    }
}
