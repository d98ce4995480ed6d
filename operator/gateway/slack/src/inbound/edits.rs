//! Edits and deletions of what people wrote. A role reads a message when it takes it, so an edit before
//! that counts by itself; here the marks follow: a role that is named now is woken, and one that has
//! nothing left to read is not.

use codebutler_crds::thread::ThreadState;
use codebutler_crds::{SlackTs, ThreadStatus};
use codebutler_gateway_core::thread_key::ThreadKey;
use codebutler_gateway_core::threads::{self, WriteError};
use jiff::Timestamp;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::Time;

use crate::Inner;
use crate::api::account::AccessError;
use crate::api::channel::RepoChannel;
use crate::api::reading::WantedReading;
use crate::inbound::effects::RouteEffect;
use crate::inbound::inbox::InboxReader;
use crate::inbound::take_error::TakeError;
use crate::people::access;
use crate::text::person_message::PersonMessage;

impl Inner {
    /// Takes an edit or a deletion in.
    pub(crate) async fn changed(
        &self,
        channel: &RepoChannel,
        root: &SlackTs,
        (ts, at): (&SlackTs, &SlackTs),
        said: Option<&PersonMessage>,
    ) -> Result<Vec<RouteEffect>, TakeError> {
        let Some(thread) = self.find(channel, root, false).await? else { return Ok(Vec::new()) };
        let repo = self.context.repo(&channel.namespace, &channel.repo);
        if thread.spec.state == ThreadState::Closed || thread.is_going() {
            return Ok(Vec::new());
        }
        let key = ThreadKey::from(&*thread);
        let steers = |said: &&PersonMessage| {
            let users = repo.as_ref().map(|repo| &repo.spec.access.users);
            users.is_some_and(|users| said.is_bot || access::permits_user(users, &said.user))
        };
        let said = said.filter(steers);
        let now = Time(Timestamp::now());
        let take = |status: &mut ThreadStatus| {
            threads::note_edited(status, at);
            let Some(said) = said else { return };
            let mut roles =
                crate::inbound::message_outcome::find_recipients(status, said, &channel.team);
            // A role that took the message has read it as it was, and is not woken for the edit.
            roles.retain(|role| {
                let entry = status.roles.get(role);
                entry.is_none_or(|own| own.done.as_ref().is_none_or(|done| done < ts))
            });
            threads::raise_inbox(status, &roles, ts, &now);
        };
        match self.threads.update(&key, take).await {
            Err(WriteError::Missing(_)) => return Ok(Vec::new()),
            other => drop(other?),
        }
        Ok(vec![RouteEffect::Recheck { thread: key, ts: ts.clone() }])
    }

    /// Puts roles back to sleep that were woken by a message and find nothing for them any more.
    pub(crate) async fn recheck(&self, key: &ThreadKey, ts: &SlackTs) -> Result<(), AccessError> {
        let Some((thread, repo)) = self.known(key) else { return Ok(()) };
        let Some(place) = thread.conversation() else { return Ok(()) };
        let status = thread.status.clone().unwrap_or_default();
        let waiting: Vec<&String> = status
            .roles
            .iter()
            .filter(|(name, role)| {
                role.has_mail() && role.inbox.as_ref() == Some(ts) && !status.is_running(name)
            })
            .map(|(name, _)| name)
            .collect();
        if waiting.is_empty() {
            return Ok(());
        }
        let account = self.account(&repo).await?;
        let wanted = WantedReading::of(&status, None, None);
        let reading = match self.read_conversation(&account, (key, place), &wanted).await {
            Ok(reading) => Some(reading),
            // The deleted message was the first and only one.
            Err(error) if error.code() == Some("thread_not_found") => None,
            Err(error) => return Err(error.into()),
        };
        let stored = reading.as_ref().map_or(&[][..], |reading| reading.after(None));
        let mut asleep = Vec::new();
        for role in waiting {
            let reader = InboxReader {
                status: &status,
                role,
                thread: &thread,
                channel: self.channel(&repo, &account),
                account: &account,
                users: &repo.spec.access.users,
            };
            let done = status.roles.get(role).and_then(|own| own.done.as_ref());
            let said = stored.iter().filter(|message| message.is_said());
            let mut new = said.filter(|message| done.is_none_or(|done| message.ts > *done));
            if !new.any(|message| reader.message(message).is_some_and(|read| read.addressed)) {
                asleep.push(role.clone());
            }
        }
        let settle = |status: &mut ThreadStatus| {
            for role in &asleep {
                if let Some(own) = status.roles.get_mut(role)
                    && own.inbox.as_ref() == Some(ts)
                {
                    own.done = own.done.take().max(Some(ts.clone()));
                }
            }
        };
        if let Err(error) = self.threads.update(key, settle).await {
            tracing::warn!(%error, thread = key.name, part = "deleted_message", "thread_status_write_failed");
        }
        Ok(())
    }
}
