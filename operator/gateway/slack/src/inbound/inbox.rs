//! Inbox of a role: its marks tell if mail waits, Slack has the messages.

use std::sync::Arc;
use std::time::Duration;

use codebutler_crds::thread::{PendingItem, ThreadState};
use codebutler_crds::wire::{MessageAuthor, RoleInbox, ThreadMessage, VersionedInbox};
use codebutler_crds::{SlackTs, Thread, ThreadStatus};
use codebutler_gateway_core::api_error::{ApiError, require_conversation};
use codebutler_gateway_core::caller::ProvenCaller;
use codebutler_gateway_core::masks;
use codebutler_gateway_core::thread_key::ThreadKey;
use jiff::Timestamp;
use kube::ResourceExt as _;
use sha2::{Digest as _, Sha256};
use tokio::time::Instant;

use crate::api::account::SlackAccount;
use crate::api::attribution;
use crate::api::channel::RepoChannel;
use crate::api::reading::WantedReading;
use crate::api::stored_message::StoredMessage;
use crate::inbound::audio::{self, HeardMessage};
use crate::inbound::files;
use crate::inbound::links;
use crate::inbound::route;
use crate::outbound::opening;
use crate::outbound::pictures;
use crate::outbound::post;
use crate::outbound::previews;
use crate::people::access;
use crate::questions::recording;
use crate::text::address;
use crate::text::content;
use crate::text::mrkdwn;
use crate::{Inner, own_metadata};

/// Interval at which the watch cache is polled while nothing waits.
const LOOK: Duration = Duration::from_millis(150);
/// Time after which an unchanged Thread is checked for news again.
const RECHECK: Duration = Duration::from_millis(500);
/// Longest time that a caller may be kept.
const LONGEST: Duration = Duration::from_mins(1);
/// Lag that the watch cache may have.
const LAG: Duration = Duration::from_secs(2);

/// A role's request for its inbox.
#[derive(Clone, Debug, Default)]
pub struct WantedInbox {
    /// Only messages after this one.
    pub after: Option<SlackTs>,
    /// Version of the answer that the role has already: the same one is no news.
    pub seen: Option<String>,
}

/// Returns the inbox as soon as the role may run and has mail or something pending that is news to it, or an
/// empty one after `wait`.
pub(crate) async fn await_inbox(
    inner: &Arc<Inner>,
    caller: &ProvenCaller,
    wanted: &WantedInbox,
    wait: Duration,
) -> Result<VersionedInbox, ApiError> {
    let (key, role) = (caller.key(), caller.role_name());
    let after = wanted.after.as_ref();
    let deadline = Instant::now() + wait.min(LONGEST);
    let own_pod = role_pod(&caller.thread, role);
    let mut known: Option<(Option<String>, Instant)> = None;
    let mut shown: Option<ShownTranscript> = None;
    loop {
        let thread = inner.thread(&key);
        let thread = match thread {
            Some(thread) if is_served(&thread, role, own_pod.as_deref()) => thread,
            _ => return Ok(closed_inbox()),
        };
        let status = thread.status.clone().unwrap_or_default();
        let suspended = is_suspended(inner, caller);
        let revision = thread.resource_version();
        let same =
            known.as_ref().is_some_and(|(seen, at)| *seen == revision && at.elapsed() < RECHECK);
        // A stop is delivered at once, even while mail is held.
        let held = is_held(inner, &key, &status, &mut shown).await && !is_stopped(&status, role);
        if status.may_run(role, suspended) && has_mail(&status, role, after) && !same && !held {
            let reading = read_inbox(inner, caller, &thread, &status, after).await?;
            match reading {
                InboxReading::Whole(inbox) => {
                    if wanted.seen.is_none() || wanted.seen != inbox.version {
                        return Ok(inbox);
                    }
                    known = Some((revision, Instant::now()));
                }
                InboxReading::Unheard => known = Some((revision, Instant::now())),
                // Its speaker may correct it before the role acts.
                InboxReading::Shown(one) => shown = Some(one),
            }
        }
        let now = Instant::now();
        if now >= deadline {
            return Ok(VersionedInbox::default());
        }
        tokio::time::sleep(LOOK.min(deadline - now)).await;
    }
}

/// A transcript that was just shown, and the time until which the watch cache may lack it.
struct ShownTranscript {
    ts: SlackTs,
    until: Instant,
}

/// Outcome of reading a role's inbox.
enum InboxReading {
    Whole(VersionedInbox),
    /// A recording is being written down, and nothing before it is for the role.
    Unheard,
    Shown(ShownTranscript),
}

fn is_stopped(status: &ThreadStatus, role: &str) -> bool {
    status.pending.iter().any(|pending| pending.role == role && pending.kind == "stop")
}

/// True while mail waits for the correction of a recording's words. Ends waits that are over.
async fn is_held(
    inner: &Inner,
    key: &ThreadKey,
    status: &ThreadStatus,
    shown: &mut Option<ShownTranscript>,
) -> bool {
    let now = Timestamp::now();
    if recording::held_until(status, now).is_some() {
        shown.take_if(|shown| status.heard.iter().any(|one| one.ts == shown.ts));
        return true;
    }
    if shown.as_ref().is_some_and(|shown| Instant::now() < shown.until) {
        return true;
    }
    if !status.heard.is_empty() {
        let ended = inner.threads.update(key, |status| recording::end_expired(status, now)).await;
        if let Err(error) = ended {
            tracing::warn!(%error, thread = key.name, part = "recording", "thread_status_write_failed");
        }
    }
    false
}

/// True if the Repo is suspended, or gone, as of now: a caller can be kept for long.
fn is_suspended(inner: &Inner, caller: &ProvenCaller) -> bool {
    let (namespace, name) = (caller.key().namespace, &caller.thread.spec.repo);
    inner.context.repo(&namespace, name).is_none_or(|repo| repo.spec.suspend)
}

fn role_pod(thread: &Thread, role: &str) -> Option<String> {
    thread.status.as_ref()?.roles.get(role)?.pod_uid.clone()
}

/// True if the Thread is open and the caller still speaks for the role.
fn is_served(thread: &Thread, role: &str, own_pod: Option<&str>) -> bool {
    let replaced = role_pod(thread, role).is_some_and(|pod| own_pod.is_some_and(|own| own != pod));
    thread.spec.state == ThreadState::Active && !thread.is_going() && !replaced
}

/// True if the role has mail that is neither done nor before `after`, or something pending.
fn has_mail(status: &ThreadStatus, role: &str, after: Option<&SlackTs>) -> bool {
    let mail = status.roles.get(role).is_some_and(|entry| {
        let newer = entry.inbox.as_ref().is_some_and(|inbox| after.is_none_or(|a| inbox > a));
        entry.has_mail() && newer
    });
    mail || status.pending.iter().any(|pending| pending.role == role)
}

/// True if any of the messages is for the role and not done. Others would not wake it: it would take its mail for lost.
fn has_request(status: &ThreadStatus, role: &str, messages: &[ThreadMessage]) -> bool {
    let done = status.roles.get(role).and_then(|entry| entry.done.as_ref());
    messages.iter().any(|message| message.addressed && done.is_none_or(|done| message.ts > *done))
}

async fn read_inbox(
    inner: &Arc<Inner>,
    caller: &ProvenCaller,
    thread: &Thread,
    status: &ThreadStatus,
    after: Option<&SlackTs>,
) -> Result<InboxReading, ApiError> {
    let (repo, role) = (&caller.repo, caller.role_name());
    let account: Arc<SlackAccount> = match inner.account(repo).await {
        Ok(account) => account,
        Err(error) => return Err(inner.failed(error, repo).await),
    };
    let place = (&caller.key(), require_conversation(thread)?);
    let wanted = WantedReading::of(status, after, Some(role));
    let reading = match inner.read_conversation(&account, place, &wanted).await {
        Ok(reading) => Some(reading),
        // The first message was deleted, and with it the whole conversation.
        Err(error) if error.code() == Some("thread_not_found") => None,
        Err(error) => return Err(inner.failed(error, repo).await),
    };
    let stored = reading.as_ref().map_or(&[][..], |reading| reading.after(after));
    let reader = InboxReader {
        status,
        role,
        thread,
        channel: inner.channel(repo, &account),
        account: &account,
        users: &repo.spec.access.users,
    };
    let said = stored.iter().filter(|m| m.is_said());
    let (mut messages, mut shown, mut is_cut) = (Vec::new(), None, false);
    let mut left = files::reading_budget();
    let is_stopped = is_stopped(status, role);
    for stored in said {
        let Some(mut message) = reader.message(stored) else { continue };
        let heard = reader.enrich(inner, caller, (stored, &mut message), &mut left).await;
        // Later messages must not overtake the words of a recording.
        is_cut |= heard.is_unfinished && !is_stopped;
        if !is_cut {
            shown = heard.shown.or(shown);
            messages.push(message);
        }
    }
    let pending: Vec<_> = status.pending.iter().filter(|p| p.role == role).cloned().collect();
    if !is_stopped {
        if is_cut && pending.is_empty() && !has_request(status, role, &messages) {
            return Ok(InboxReading::Unheard);
        }
        let shown = shown.map(|(ts, at)| ShownTranscript { ts, until: at + LAG });
        if let Some(shown) = shown.filter(|shown| Instant::now() < shown.until) {
            return Ok(InboxReading::Shown(shown));
        }
    }
    inner.heard(caller, &messages, &pending).await;
    let version = Some(inbox_version(&messages, &pending));
    let inbox = RoleInbox { messages, pending, closed: false };
    Ok(InboxReading::Whole(VersionedInbox { inbox, version }))
}

/// The answer to a caller that does not speak for the role any more.
pub fn closed_inbox() -> VersionedInbox {
    let inbox = RoleInbox { closed: true, ..RoleInbox::default() };
    VersionedInbox { inbox, version: None }
}

/// Version of an answer: the same for the same answer, whichever replica gives it.
fn inbox_version(messages: &[ThreadMessage], pending: &[PendingItem]) -> String {
    let mut hash = Sha256::new();
    for part in [serde_json::to_vec(messages), serde_json::to_vec(pending)] {
        let part = part.unwrap_or_default();
        hash.update(part.len().to_be_bytes());
        hash.update(part);
    }
    hex::encode(&hash.finalize()[..16])
}

/// True if a role is shown a message of its conversation.
pub(crate) fn can_read(
    inner: &Inner,
    caller: &ProvenCaller,
    account: &SlackAccount,
    stored: &StoredMessage,
) -> bool {
    let status = caller.thread.status.clone().unwrap_or_default();
    let reader = InboxReader {
        status: &status,
        role: caller.role_name(),
        thread: &caller.thread,
        channel: inner.channel(&caller.repo, account),
        account,
        users: &caller.repo.spec.access.users,
    };
    reader.message(stored).is_some()
}

/// View of one role on a conversation.
pub(crate) struct InboxReader<'a> {
    pub status: &'a ThreadStatus,
    pub role: &'a str,
    pub thread: &'a Thread,
    pub channel: RepoChannel,
    pub account: &'a SlackAccount,
    /// Users who may steer; empty: everybody.
    pub users: &'a [String],
}

impl InboxReader<'_> {
    /// Adds what came with a message: files, recordings, what it forwards and what it links to. Returns what is
    /// known of its recordings.
    async fn enrich(
        &self,
        inner: &Arc<Inner>,
        caller: &ProvenCaller,
        (stored, message): (&StoredMessage, &mut ThreadMessage),
        left: &mut usize,
    ) -> HeardMessage {
        let (repo, account) = (&caller.repo, self.account);
        if account.wrote(stored) {
            message.text += &files::read_files(inner, (repo, account), &stored.files, left).await;
            message.pictures = pictures::offered_pictures(&stored.files);
            return HeardMessage::default();
        }
        let known = files::describe_files(inner, (repo, account), stored).await;
        message.text += &files::read_files(inner, (repo, account), &known, left).await;
        let mut heard = HeardMessage::default();
        if let MessageAuthor::User { id } = &message.author {
            let by = (self.thread, id.as_str());
            heard = audio::read_recordings(inner, caller, by, &known);
            message.text += &heard.text;
        }
        if content::is_in_parts(stored) {
            // Masked, as apps print what they hold into their messages.
            let redactor = masks::as_known(&inner.context, repo).await;
            message.text = redactor.mask(&message.text).into_owned();
        }
        let followed = links::FollowedLinks::of(repo, account, stored);
        let pages = inner.context.pages.as_deref();
        // A link to a page of ours: only people are shown more of it.
        let is_page =
            |url: &str| pages.is_some_and(|base| previews::page_thread(base, url).is_some());
        let is_known = |url: &str| followed.has(url) || is_page(url);
        message.text += &content::quote_attached(inner, repo, stored, is_known, left).await;
        if let MessageAuthor::User { id } = &message.author
            && inner.is_member((repo, account), id).await
        {
            message.text += &links::read_links(inner, repo, account, followed, left).await;
        }
        message.pictures = pictures::offered_pictures(&known);
        heard
    }

    /// The message as the role sees it. `None` if it only repeats what another one says, or is of somebody who
    /// may not steer.
    pub(crate) fn message(&self, stored: &StoredMessage) -> Option<ThreadMessage> {
        if self.account.wrote(stored) && post::shows_run(stored) {
            return None;
        }
        let mrkdwn = stored.text.as_deref().unwrap_or_default();
        if self.account.wrote(stored) && self.opens(stored) {
            return self.prompt(stored);
        }
        let (author, addressed) = if self.account.wrote(stored) {
            self.own(stored, mrkdwn)
        } else if let Some(user) = route::find_speaker(stored, &self.channel) {
            let said = route::read_said(stored, user, &self.channel);
            if !said.is_bot && !access::permits_user(self.users, user) {
                return None;
            }
            let recipients = crate::inbound::message_outcome::find_recipients(
                self.status,
                &said,
                &self.channel.team,
            );
            let is_for_it = recipients.iter().any(|r| r == self.role);
            let is_asked = is_for_it && !attribution::is_feedback(stored);
            (MessageAuthor::User { id: user.to_owned() }, is_asked)
        } else {
            (bot_author(stored), false)
        };
        let text = if self.account.wrote(stored) {
            mrkdwn::to_text(mrkdwn)
        } else {
            mrkdwn::to_text(&content::message_words(stored))
        };
        Some(ThreadMessage { ts: stored.ts.clone(), author, text, addressed, pictures: Vec::new() })
    }

    /// True if it is one of the messages by which this conversation was opened.
    fn opens(&self, stored: &StoredMessage) -> bool {
        own_metadata(stored.metadata.as_ref()).is_some_and(|payload| {
            payload["kind"] == opening::KIND && payload["thread"] == self.thread.name_any()
        })
    }

    /// The prompt of the Thread, once, as it was written and not as it is shown.
    fn prompt(&self, stored: &StoredMessage) -> Option<ThreadMessage> {
        let begins = self.thread.conversation().is_some_and(|slack| slack.ts == stored.ts);
        let text = self.thread.spec.prompt.clone().filter(|_| begins)?;
        let recipients = opening::prompt_recipients(&text, &self.channel);
        let author = MessageAuthor::Prompt {
            thread: self.thread.name_any(),
            requested_by: self.thread.spec.requested_by.clone(),
        };
        let addressed = recipients.iter().any(|r| r == self.role);
        Some(ThreadMessage { ts: stored.ts.clone(), author, text, addressed, pictures: Vec::new() })
    }

    /// True if CodeButler itself tells this role of what a person said elsewhere.
    fn is_mail(&self, payload: &serde_json::Value) -> bool {
        let prefix = post::key_for(self.role, "");
        payload["thread"] == self.thread.name_any()
            && payload["key"].as_str().is_some_and(|key| key.starts_with(&prefix))
    }

    /// Author of one of the app's own messages: a role or CodeButler if its metadata says so. Files that a role
    /// shares carry none, and roles of other Threads have no say here.
    fn own(&self, stored: &StoredMessage, mrkdwn: &str) -> (MessageAuthor, bool) {
        let Some(payload) = own_metadata(stored.metadata.as_ref()) else {
            return (bot_author(stored), false);
        };
        let here = payload["thread"] == self.thread.name_any();
        match payload["role"].as_str().filter(|role| !role.is_empty()) {
            None => (MessageAuthor::System, self.is_mail(payload)),
            Some(_) if !here => (bot_author(stored), false),
            Some(role) => {
                let recipients = post::read_addressed(payload).unwrap_or_else(|| {
                    address::by_role(mrkdwn, &self.channel.team.roles, role, false)
                });
                let addressed = recipients.iter().any(|r| r == self.role);
                (MessageAuthor::Role { role: role.to_owned() }, addressed)
            }
        }
    }
}

/// Author of a message whose words count for nobody.
fn bot_author(stored: &StoredMessage) -> MessageAuthor {
    let id = stored.bot_id.as_deref().or(stored.user.as_deref()).unwrap_or_default();
    MessageAuthor::Bot { id: id.to_owned() }
}

#[cfg(test)]
mod tests;
