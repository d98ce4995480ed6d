//! Sorts an inbox: finds the new mail, and decides if it wakes the role. Pure.

use codebutler_wire::{
    MessageAuthor, PendingDecision, PendingItem, RoleInbox, SlackTs, ThreadMessage,
};

use crate::transcript::state::TranscriptState;

#[derive(Debug, Default, PartialEq, Eq)]
pub(super) struct RoleMail {
    /// Not taken yet, oldest first. Includes what was said to others: context.
    pub messages: Vec<ThreadMessage>,
    /// Decisions and other items that are not taken yet.
    pub pending: Vec<PendingItem>,
    /// Ids of decisions that were taken before and are still in the inbox.
    pub handled: Vec<String>,
    /// True if any of it is new and addressed to this role.
    pub wakes: bool,
    pub requests: Vec<SlackTs>,
    /// Newest message in the inbox, taken or not.
    pub newest: Option<SlackTs>,
    /// Newest message that is addressed to the role, taken or not.
    pub addressed: Option<SlackTs>,
    /// Stop request of a user, for the work under way.
    pub stop: Option<PendingItem>,
    /// Version of the inbox that it was read from.
    pub version: Option<String>,
}

/// Sorts an inbox. With an empty transcript (the first run, or a lost volume), everything is
/// context, own words included, and only what came after `done` wakes.
pub(super) fn sort_inbox(
    inbox: RoleInbox,
    state: &TranscriptState,
    role: &str,
    done: Option<&SlackTs>,
) -> RoleMail {
    let new = state.is_new();
    let mut mail = RoleMail::default();
    for message in inbox.messages {
        let ts = &message.ts;
        mail.newest = mail.newest.take().max(Some(ts.clone()));
        if message.addressed {
            mail.addressed = mail.addressed.take().max(Some(ts.clone()));
        }
        let own = matches!(&message.author, MessageAuthor::Role { role: author } if author == role);
        let repeated = mail.messages.iter().any(|m| m.ts == *ts);
        if state.has_seen(ts) || repeated || (own && !new) {
            continue;
        }
        let old = new && done.is_some_and(|done| ts <= done);
        if message.addressed && !own && !old {
            mail.wakes = true;
            mail.requests.push(ts.clone());
        }
        mail.messages.push(message);
    }
    mail.messages.sort_by(|a, b| a.ts.cmp(&b.ts));
    for pending in inbox.pending.into_iter().filter(|p| p.role == role) {
        if pending.decision() == Some(PendingDecision::Stop) && !state.has_decided(&pending.id) {
            // Without a run there is nothing to stop.
            mail.handled.push(pending.id.clone());
            mail.stop = Some(pending);
        } else if state.has_decided(&pending.id) {
            mail.handled.push(pending.id);
        } else if !mail.pending.iter().any(|p| p.id == pending.id) {
            mail.wakes = true;
            mail.pending.push(pending);
        }
    }
    mail
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::transcript::TranscriptRecord;

    fn ts(n: u32) -> SlackTs {
        format!("{n}.000000").parse().unwrap()
    }

    fn message(n: u32, author: &str, addressed: bool) -> ThreadMessage {
        let author = match author {
            "user" => MessageAuthor::User { id: "U1".into() },
            role => MessageAuthor::Role { role: role.into() },
        };
        ThreadMessage { ts: ts(n), author, text: n.to_string(), addressed, pictures: vec![] }
    }

    fn pending(id: &str, role: &str) -> PendingItem {
        PendingItem {
            id: id.into(),
            role: role.into(),
            kind: "plan".into(),
            choice: "approve".into(),
            user: "U1".into(),
            message: ts(1),
        }
    }

    fn taken(messages: &[ThreadMessage], pending: &[PendingItem]) -> TranscriptState {
        let mut state = TranscriptState::default();
        state.apply(&TranscriptRecord::RunStarted { run: "r".into(), at: 0, brief: false });
        state.apply(&TranscriptRecord::Taken {
            messages: messages.to_vec(),
            pending: pending.to_vec(),
            pictures: vec![],
        });
        state
    }

    fn inbox(messages: &[ThreadMessage], pending: &[PendingItem]) -> RoleInbox {
        RoleInbox { messages: messages.to_vec(), pending: pending.to_vec(), ..RoleInbox::default() }
    }

    fn numbers(mail: &RoleMail) -> String {
        let texts: Vec<_> = mail.messages.iter().map(|m| m.text.as_str()).collect();
        texts.join(" ")
    }

    #[test]
    fn the_first_time_everything_is_context() {
        let all = [message(2, "pm", false), message(1, "user", true), message(3, "coder", true)];
        let mail = sort_inbox(inbox(&all, &[]), &TranscriptState::default(), "pm", None);
        assert_eq!((numbers(&mail).as_str(), mail.wakes), ("1 2 3", true));
        // After the loss of a volume, work that was done before does not wake the role again.
        let mail = sort_inbox(inbox(&all, &[]), &TranscriptState::default(), "pm", Some(&ts(3)));
        assert_eq!((numbers(&mail).as_str(), mail.wakes), ("1 2 3", false));
        assert_eq!((mail.newest, mail.addressed), (Some(ts(3)), Some(ts(3))));
    }

    #[test]
    fn what_was_taken_is_never_taken_again() {
        let first = message(1, "user", true);
        let state = taken(std::slice::from_ref(&first), &[pending("a", "pm")]);
        let again =
            inbox(&[first.clone(), first.clone()], &[pending("a", "pm"), pending("x", "coder")]);
        let mail = sort_inbox(again, &state, "pm", None);
        assert_eq!((numbers(&mail).as_str(), mail.wakes), ("", false));
        assert_eq!((mail.handled, mail.addressed), (vec!["a".to_owned()], Some(ts(1))));
    }

    #[test]
    fn late_and_doubled_messages_are_taken_once_whatever_is_done() {
        let state = taken(&[message(5, "user", true)], &[]);
        let late = message(3, "user", true);
        let mail = sort_inbox(
            inbox(&[late.clone(), late, message(5, "user", true)], &[]),
            &state,
            "pm",
            Some(&ts(5)),
        );
        assert_eq!((numbers(&mail).as_str(), mail.wakes), ("3", true));
    }

    #[test]
    fn own_words_and_words_to_others_do_not_wake() {
        let state = taken(&[message(1, "user", true)], &[]);
        let mail = sort_inbox(
            inbox(&[message(2, "pm", true), message(3, "user", false)], &[]),
            &state,
            "pm",
            None,
        );
        assert_eq!((numbers(&mail).as_str(), mail.wakes), ("3", false));
        let mail =
            sort_inbox(inbox(&[], &[pending("b", "pm"), pending("b", "pm")]), &state, "pm", None);
        assert_eq!((mail.pending.len(), mail.wakes), (1, true));
    }
}
