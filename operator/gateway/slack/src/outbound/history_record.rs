//! Records what is heard and said in a conversation, for its history.

use codebutler_crds::wire::history::{HistoryEvent, ViewShown};
use codebutler_crds::wire::{MessageAuthor, PendingItem, SharedPicture, ThreadMessage};
use codebutler_crds::{Repo, SlackTs, Thread};
use codebutler_gateway_core::caller::ProvenCaller;
use codebutler_gateway_core::history::{ToldEvent, decision_fact};
use codebutler_gateway_core::masks;
use codebutler_gateway_core::thread_key::ThreadKey;

use crate::Inner;
use crate::outbound::compared::is_comparison;
use crate::outbound::post::OutgoingText;
use crate::outbound::progress;
use crate::text::mrkdwn;
use crate::text::person_message::PersonMessage;

impl Inner {
    /// Records what a role is about to read.
    pub(crate) async fn heard(
        &self,
        caller: &ProvenCaller,
        messages: &[ThreadMessage],
        pending: &[PendingItem],
    ) {
        let (key, context) = (caller.key(), &self.context);
        let redactor = masks::as_known(context, &caller.repo).await;
        let messages = messages.iter().filter(|message| !is_comparison(message));
        context.history.messages(&key, &redactor, messages);
        for (name, role, event) in pending.iter().filter_map(decision_fact) {
            let told = ToldEvent { key: name, at: None, role, run: None, event };
            context.history.tell(&key, &redactor, told);
        }
    }

    /// Records a decision in words, which perhaps no role reads.
    pub(crate) async fn decided(
        &self,
        thread: &ThreadKey,
        repo: &Repo,
        said: &PersonMessage,
        words: &str,
    ) {
        let redactor = masks::as_known(&self.context, repo).await;
        let author = MessageAuthor::User { id: said.user.clone() };
        let text = mrkdwn::to_text(words);
        self.context.history.message(thread, &redactor, &said.ts, author, &text);
    }

    /// Records pictures that a role put into its conversation.
    pub(crate) async fn showed(
        &self,
        caller: &ProvenCaller,
        thread: &Thread,
        pictures: impl Iterator<Item = SharedPicture>,
    ) {
        let redactor = masks::as_known(&self.context, &caller.repo).await;
        let author = || MessageAuthor::Role { role: caller.role_name().to_owned() };
        for picture in pictures.filter(|picture| !picture.id.is_empty()) {
            let key = ThreadKey::from(thread);
            self.context.history.picture(&key, &redactor, None, author(), &picture);
        }
    }

    /// Records a page before and after a change, as a role showed it.
    pub(crate) async fn compared(
        &self,
        caller: &ProvenCaller,
        thread: &Thread,
        (key, page): (&str, &str),
        (author, views): (MessageAuthor, Vec<ViewShown>),
    ) {
        let redactor = masks::as_known(&self.context, &caller.repo).await;
        let event = HistoryEvent::Compared { page: page.to_owned(), views, author };
        let key = format!("compared:{}:{key}", caller.role_name());
        let told = ToldEvent {
            key,
            at: None,
            role: Some(caller.role_name().to_owned()),
            run: None,
            event,
        };
        self.context.history.tell(&ThreadKey::from(thread), &redactor, told);
    }

    /// Records a part of a text that was posted. A line that goes with its run is no part of the conversation.
    pub(crate) async fn told(&self, outgoing: &OutgoingText<'_>, part: usize, ts: &SlackTs) {
        if outgoing.kind == progress::KIND {
            return;
        }
        let author = match (outgoing.role, outgoing.by) {
            (Some(role), _) => MessageAuthor::Role { role: role.spec.role.clone() },
            (None, Some(by)) => MessageAuthor::User { id: by.user.to_owned() },
            (None, None) => MessageAuthor::System,
        };
        let note = outgoing.note.as_deref().filter(|_| part + 1 == outgoing.parts.len());
        let text = [&outgoing.parts[part], note.unwrap_or_default()].join("\n");
        let redactor = masks::as_known(&self.context, outgoing.repo).await;
        let (key, text) = (ThreadKey::from(outgoing.thread), mrkdwn::to_text(text.trim_end()));
        self.context.history.message(&key, &redactor, ts, author, &text);
    }
}
