//! One of several conversations that a role has in parallel: about one request, with a transcript of its own, and
//! with its own mail.

use std::sync::Arc;
use std::time::Duration;

use codebutler_wire::{MessageAuthor, PendingItem, RoleInbox, SlackTs, VersionedInbox};
use parking_lot::Mutex;
use tokio::sync::watch;

use super::mail::{self, RoleMail};
use super::progress::RunBoard;
use super::{Agent, RunError};
use crate::transcript::desk::{AnsweredRequest, GivenRequest};
use crate::transcript::{RunOutcome, TranscriptRecord};

/// A conversation's handle on the desk that it belongs to.
#[derive(Clone)]
pub(super) struct ConversationSeat {
    pub id: SlackTs,
    pub asker: Option<MessageAuthor>,
    /// Tray with the messages that it is given; grows while it works.
    pub tray: Arc<Mutex<GivenRequest>>,
    /// Signal that a user wants everything to stop.
    pub stop: watch::Receiver<Option<PendingItem>>,
    /// Shared board of what all conversations do.
    pub board: Arc<RunBoard>,
}

impl ConversationSeat {
    /// Note for the end of the instructions, where it does not break the cached prefix.
    pub(super) fn note(&self) -> String {
        let from = match &self.asker {
            Some(MessageAuthor::User { id }) => format!("user {id}"),
            Some(MessageAuthor::Role { role }) => format!("@codebutler.{role}"),
            Some(MessageAuthor::Bot { id }) => format!("bot {id}"),
            _ => "CodeButler".to_owned(),
        };
        format!(
            "- You answer several requests at the same time, each in a conversation of its own. This one is \
             about message {} from {from} alone; leave all others to the conversations that are about them.\n",
            self.id
        )
    }

    /// Addresses an answer to the requester; also returns the user to mention.
    pub(super) fn addressed(&self, text: &str) -> (String, Option<String>) {
        match &self.asker {
            Some(MessageAuthor::User { id }) => (text.to_owned(), Some(id.clone())),
            Some(MessageAuthor::Role { role }) => {
                let mention = format!("@codebutler.{role}");
                let named = text.lines().any(|line| {
                    let rest = line.trim_start().strip_prefix(&mention);
                    rest.is_some_and(|rest| !rest.starts_with(char::is_alphanumeric))
                });
                let text = if named { text.to_owned() } else { format!("{mention} {text}") };
                (text, None)
            }
            _ => (text.to_owned(), None),
        }
    }

    /// Waits until a user stops everything.
    pub(super) async fn stopped(&self) -> PendingItem {
        let mut stop = self.stop.clone();
        let told = stop.wait_for(Option::is_some).await.ok().and_then(|told| told.clone());
        match told {
            Some(pending) => pending,
            // The desk is gone, and this conversation ends with it.
            None => std::future::pending().await,
        }
    }
}

impl Agent {
    /// Works on the given messages to the end of the run. That end is not reported yet.
    pub(super) async fn converse(
        mut self,
        seat: &ConversationSeat,
    ) -> Result<(Self, AnsweredRequest), RunError> {
        if self.transcript.state().run().is_none() {
            let mail = self.seated_mail(seat, None).await?;
            if mail.wakes {
                self.begin(mail, false).await?;
            }
        }
        if self.transcript.state().run().is_some() {
            let (outcome, reason) = self.turns(false).await?;
            tracing::info!(?outcome, reason, "run_ended");
            self.transcript.append(&TranscriptRecord::RunEnded { outcome, reason })?;
        }
        let answered = match self.transcript.state().last() {
            Some(last) => AnsweredRequest {
                outcome: last.outcome,
                reason: last.reason.clone(),
                handled: last.run.handled.clone(),
                turns: last.run.turns,
            },
            None => AnsweredRequest {
                outcome: RunOutcome::Idle,
                reason: None,
                handled: vec![],
                turns: 0,
            },
        };
        Ok((self, answered))
    }

    /// Reads the messages that it was given and has not taken yet, and what others said. Requests of others are left
    /// out.
    pub(super) async fn seated_mail(
        &self,
        seat: &ConversationSeat,
        seen: Option<&str>,
    ) -> Result<RoleMail, RunError> {
        let state = self.transcript.state();
        let newest = state.newest().filter(|_| !state.is_new());
        let after = newest.unwrap_or(&self.session.root).minus_secs(60);
        let VersionedInbox { inbox, version } =
            self.tools.gateway.inbox(&after, seen, Duration::ZERO).await?;
        if inbox.closed {
            return Err(RunError::Closed);
        }
        let inbox = RoleInbox { pending: vec![], ..inbox };
        let mut mail = mail::sort_inbox(inbox, state, &self.session.role, None);
        mail.version = version;
        let given = seat.tray.lock().clone();
        mail.messages.retain(|message| !message.addressed || message.ts < seat.id);
        for message in &mut mail.messages {
            message.addressed = false;
        }
        mail.messages.extend(given.messages.into_iter().filter(|m| !state.has_seen(&m.ts)));
        mail.messages.sort_by(|a, b| a.ts.cmp(&b.ts));
        mail.pending = given.pending;
        mail.pending.retain(|item| !state.has_decided(&item.id));
        mail.wakes = !mail.pending.is_empty() || mail.messages.iter().any(|m| m.addressed);
        mail.stop = seat.stop.borrow().clone().filter(|item| !state.has_decided(&item.id));
        Ok(mail)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::transcript::desk::GivenRequest;

    #[test]
    fn an_answer_names_who_asked() {
        let seat = |asker: MessageAuthor| ConversationSeat {
            id: "1.000000".parse().unwrap(),
            asker: Some(asker),
            tray: Arc::new(Mutex::new(GivenRequest::default())),
            stop: watch::channel(None).1,
            board: Arc::new(RunBoard::silent()),
        };
        let pm = seat(MessageAuthor::Role { role: "pm".into() });
        for (text, expected) in [
            ("It is 3.", "@codebutler.pm It is 3."),
            ("Found it.\n @codebutler.pm: 3.", "Found it.\n @codebutler.pm: 3."),
            ("@codebutler.pmo knows", "@codebutler.pm @codebutler.pmo knows"),
        ] {
            assert_eq!(pm.addressed(text), (expected.to_owned(), None));
        }
        let ana = seat(MessageAuthor::User { id: "U1".into() });
        assert_eq!(ana.addressed("3"), ("3".to_owned(), Some("U1".to_owned())));
    }
}
