//! Opening the conversation of a Thread that did not begin in Slack: a message with its prompt, at top
//! level in the Repo's channel, and then its default role's mark.
//!
//! Slack has no key for a post at top level, so a claim is stored before it: whoever has the claim posts,
//! and who finds an older claim looks in the channel first for what became of it.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use codebutler_crds::condition::{self, OPENED, READY};
use codebutler_crds::thread::{ReplicaClaim, SlackThread};
use codebutler_crds::{Repo, SlackTs, Thread, ThreadStatus};
use codebutler_gateway_core::masks;
use codebutler_gateway_core::thread_key::ThreadKey;
use codebutler_gateway_core::threads::{self};
use jiff::SignedDuration;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::Time;
use kube::{Api, ResourceExt as _};
use serde::Deserialize;

use crate::api::account::{AccessError, SlackAccount};
use crate::api::channel::RepoChannel;
use crate::api::clock;
use crate::api::conversation_pages;
use crate::api::deferral::LaterError;
use crate::api::explain;
use crate::api::web::CallError;
use crate::outbound::post::{self, FileHanding, OutgoingText, TextAsks};
use crate::text::address;
use crate::text::markdown;
use crate::text::split_text::split_text;
use crate::{Inner, own_metadata};

/// `kind` of the messages that show a prompt.
pub(crate) const KIND: &str = "opening";
const KEY: &str = "open";
/// Time that a claim may take to be fulfilled, and time after which it is nobody's: in between nothing that the
/// claim's owner began can still have an effect.
pub(crate) const FULFIL: Duration = Duration::from_secs(20);
const CLAIM: SignedDuration = SignedDuration::from_secs(30);
/// Most seconds by which Slack's clock and the cluster's may differ.
const SKEW: i64 = 60;
/// Most conversations that are remembered.
const REMEMBERED: usize = 65_536;

/// Threads by the conversation that was opened for them. Entries only hint: who uses one looks at the
/// Thread.
#[derive(Default)]
pub(crate) struct OpenedThread {
    known: Mutex<HashMap<(String, SlackTs), ThreadKey>>,
}

impl OpenedThread {
    /// Remembers the conversations that the Threads name.
    pub(crate) fn learn(&self, threads: &[Arc<Thread>]) {
        for thread in threads {
            if let Some(slack) = thread.status.as_ref().and_then(|status| status.slack.as_ref()) {
                self.add(slack, ThreadKey::from(&**thread));
            }
        }
    }

    /// The Thread of a conversation, if it was opened for one.
    pub(crate) fn find(&self, channel: &str, root: &SlackTs) -> Option<ThreadKey> {
        let known = self.known.lock().unwrap_or_else(PoisonError::into_inner);
        known.get(&(channel.to_owned(), root.clone())).cloned()
    }

    fn add(&self, slack: &SlackThread, thread: ThreadKey) {
        let mut known = self.known.lock().unwrap_or_else(PoisonError::into_inner);
        if known.len() >= REMEMBERED {
            known.clear();
        }
        known.insert((slack.channel.clone(), slack.ts.clone()), thread);
    }
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum ClaimedConversation {
    /// First claim: nothing was posted.
    First,
    /// A claim after an earlier one: something may have been posted.
    Again,
    Not,
}

/// Takes the claim if nobody has it. Pure.
pub(crate) fn take_claim(status: &mut ThreadStatus, by: &str, now: &Time) -> ClaimedConversation {
    let outcome = match &status.claim {
        None => ClaimedConversation::First,
        Some(other) if other.by != by && now.0.duration_since(other.since.0) < CLAIM => {
            return ClaimedConversation::Not;
        }
        Some(_) => ClaimedConversation::Again,
    };
    status.claim = Some(ReplicaClaim { by: by.to_owned(), since: now.clone() });
    outcome
}

/// Finds the roles that a prompt is for. Roles that it only quotes are not addressed.
pub(crate) fn prompt_recipients(prompt: &str, channel: &RepoChannel) -> Vec<String> {
    let mentioned = address::by_person(prompt, &channel.team.roles, channel.bot_user.as_deref());
    let first = || channel.first().map(str::to_owned).into_iter().collect();
    if mentioned.is_empty() { first() } else { mentioned }
}

/// Opens the conversation, or says in the Thread what it waits for.
pub(crate) async fn open_conversation(
    inner: &Arc<Inner>,
    thread: &Thread,
) -> Result<(), LaterError> {
    let key = ThreadKey::from(thread);
    // Not from the cache, which may be behind: a Repo that was just suspended opens nothing.
    let repos: Api<Repo> = Api::namespaced(inner.context.client.clone(), &key.namespace);
    let repo = repos.get_opt(&thread.spec.repo).await?.map(Arc::new);
    let roles = repo.as_ref().map(|repo| inner.role_names(repo)).unwrap_or_default();
    if let Some((reason, message)) = find_hindrance(thread, repo.as_deref(), &roles) {
        return tell_waiting(inner, thread, reason, message).await;
    }
    let Some(repo) = repo else { return Err(LaterError::Waits("RepoNotFound")) };
    let account = match inner.account(&repo).await {
        Ok(account) => account,
        Err(error) => {
            let (_, message) = explain::explain_condition(&error, &repo);
            return tell_waiting(inner, thread, "SlackNotReachable", message).await;
        }
    };
    inner.threads.hold(&key, true).await?;
    let by = inner.name.as_str();
    let now = Time(jiff::Timestamp::now());
    let take =
        |status: &mut ThreadStatus| Ok((status.slack.is_some(), take_claim(status, by, &now)));
    let (claimed, (opened, how)) = inner.threads.try_update(&key, take).await?;
    if opened {
        return Ok(());
    }
    if how == ClaimedConversation::Not {
        return Err(LaterError::Claimed);
    }
    let opening = ClaimedOpening { inner, repo: &repo, account: &account, thread: &claimed };
    match tokio::time::timeout(FULFIL, opening.fulfil(how)).await {
        Ok(Ok(())) => Ok(()),
        Ok(Err(LaterError::Access(error))) if is_final(&error) => {
            let error = error.clone();
            let (_, message) = explain::explain_condition(&error, &repo);
            inner.failed(error, &repo).await;
            tell_waiting(inner, thread, "SlackRefused", message).await
        }
        Ok(other) => other,
        Err(_) => Err(LaterError::Slow),
    }
}

fn is_final(error: &AccessError) -> bool {
    matches!(error, AccessError::Call(call) if call.code().is_some())
}

/// Finds what keeps a conversation from being opened: a reason and a sentence. Pure.
fn find_hindrance(
    thread: &Thread,
    repo: Option<&Repo>,
    roles: &[String],
) -> Option<(&'static str, String)> {
    let name = &thread.spec.repo;
    let Some(repo) = repo else {
        let message = format!("spec.repo: Repo `{name}` does not exist in this namespace");
        return Some(("RepoNotFound", message));
    };
    if repo.spec.suspend {
        let message = format!("Repo `{name}` is suspended: unset its spec.suspend to go on");
        return Some(("RepoSuspended", message));
    }
    if repo.channel().is_none() {
        let channel = &repo.spec.slack.channel;
        return Some(("ChannelNotFound", format!("Repo `{name}` names {channel}: not found yet")));
    }
    let conditions = repo.status.iter().flat_map(|status| &status.conditions);
    let unready = conditions.into_iter().find(|c| c.type_ == READY && c.status == "False");
    if let Some(ready) = unready {
        return Some(("RepoNotReady", format!("Repo `{name}` is not ready: {}", ready.message)));
    }
    let message = || format!("spec.roles of Repo `{name}` names no AgentRole that exists");
    roles.is_empty().then(|| ("RoleNotFound", message()))
}

/// Says in the Thread what its conversation waits for.
async fn tell_waiting(
    inner: &Inner,
    thread: &Thread,
    reason: &'static str,
    message: String,
) -> Result<(), LaterError> {
    let known = thread.status.iter().flat_map(|status| &status.conditions);
    let said = known.into_iter().any(|c| {
        c.type_ == OPENED && c.status == "False" && c.reason == reason && c.message == message
    });
    if !said {
        let (generation, now) = (thread.metadata.generation, Time(jiff::Timestamp::now()));
        let say = |status: &mut ThreadStatus| {
            let message = message.clone();
            let conditions = &mut status.conditions;
            condition::set_condition(conditions, OPENED, false, reason, message, generation, &now);
        };
        inner.threads.update(&ThreadKey::from(thread), say).await?;
    }
    Err(LaterError::Waits(reason))
}

/// A claimed Thread on its way into Slack.
struct ClaimedOpening<'a> {
    inner: &'a Arc<Inner>,
    repo: &'a Repo,
    account: &'a SlackAccount,
    thread: &'a Thread,
}

#[derive(Deserialize)]
struct PostedAt {
    ts: SlackTs,
}

impl ClaimedOpening<'_> {
    async fn fulfil(&self, how: ClaimedConversation) -> Result<(), LaterError> {
        let Self { inner, repo, account, thread } = *self;
        let key = ThreadKey::from(thread);
        let opening = opening_message(thread);
        let redactor = masks::as_known(&inner.context, repo).await;
        let parts = split_text(&redactor.mask(&opening), post::LIMIT);
        let found = match how {
            ClaimedConversation::Again => find_posted(inner, repo, account, thread).await?,
            ClaimedConversation::First | ClaimedConversation::Not => None,
        };
        let root = match found {
            Some(root) => root,
            None => self.post(&parts).await?,
        };
        let channel = repo.channel().unwrap_or_default().to_owned();
        let slack = SlackThread { channel, ts: root };
        inner.opened.add(&slack, key.clone());
        let outgoing = OutgoingText {
            repo,
            thread,
            slack: &slack,
            key: KEY,
            role: None,
            by: None,
            kind: KIND,
            asks: TextAsks::Nothing,
            digest: None,
            parts,
            note: None,
            tables: Vec::new(),
            handing: FileHanding::default(),
        };
        {
            let _turn = inner.posting.lock(&key).await;
            post::post_once(inner, &outgoing).await?;
        }
        self.record(&slack).await?;
        tracing::info!(thread = key.name, "conversation_opened");
        inner.mark_seen_soon(key, slack.ts, "eyes");
        Ok(())
    }

    async fn post(&self, parts: &[String]) -> Result<SlackTs, CallError> {
        let channel = self.repo.channel();
        let body = serde_json::json!({
            "channel": channel,
            "text": parts.first(),
            "unfurl_links": false,
            "unfurl_media": false,
            "metadata": post::build_metadata(self.thread, "", KEY, KIND, parts.len()),
        });
        let posting = self.inner.web.post::<PostedAt>(&self.account.bot, "chat.postMessage", &body);
        posting.await.map(|posted| posted.ts)
    }

    /// Records the conversation: from here on it is one like any other.
    async fn record(&self, slack: &SlackThread) -> Result<(), LaterError> {
        let Self { inner, repo, account, thread } = *self;
        let channel = inner.channel(repo, account);
        let prompt = thread.spec.prompt.as_deref().unwrap_or_default();
        let (roles, now) = (prompt_recipients(prompt, &channel), Time(jiff::Timestamp::now()));
        let generation = thread.metadata.generation;
        let opened = |status: &mut ThreadStatus| {
            status.slack = Some(slack.clone());
            status.claim = None;
            threads::raise_inbox(status, &roles, &slack.ts, &now);
            let (conditions, message) = (&mut status.conditions, "the conversation is in Slack");
            condition::set_condition(conditions, OPENED, true, "Opened", message, generation, &now);
        };
        inner.threads.update(&ThreadKey::from(thread), opened).await?;
        Ok(())
    }
}

/// Finds the message that somebody with an earlier claim posted, if it is there.
pub(crate) async fn find_posted(
    inner: &Inner,
    repo: &Repo,
    account: &SlackAccount,
    thread: &Thread,
) -> Result<Option<SlackTs>, CallError> {
    let created = thread.creation_timestamp().map_or(0, |time| time.0.as_second());
    let after = clock::make_timestamp(created - SKEW, 0);
    let Some(channel) = repo.channel() else { return Ok(None) };
    let messages =
        conversation_pages::read_channel(&inner.web, &account.bot, channel, &after).await?;
    let is_it = |message: &&crate::api::stored_message::StoredMessage| {
        account.wrote(message)
            && own_metadata(message.metadata.as_ref())
                .is_some_and(|p| p["kind"] == KIND && post::speaks_of(p, thread))
    };
    Ok(messages.iter().find(is_it).map(|message| message.ts.clone()))
}

/// Asks Slack for the Thread for which a conversation was opened.
pub(crate) async fn find_thread(
    inner: &Inner,
    channel: &RepoChannel,
    root: &SlackTs,
) -> Result<Option<Arc<Thread>>, AccessError> {
    let Some(repo) = inner.context.repo(&channel.namespace, &channel.repo) else {
        return Ok(None);
    };
    let account = inner.account(&repo).await?;
    let found =
        conversation_pages::read_message(&inner.web, &account.bot, &channel.id, root, root).await?;
    let Some(message) = found.filter(|message| account.wrote(message)) else { return Ok(None) };
    let Some(payload) = own_metadata(message.metadata.as_ref()) else { return Ok(None) };
    let Some(name) = payload["thread"].as_str().filter(|_| payload["kind"] == KIND) else {
        return Ok(None);
    };
    // Read from the API server, as the cache may lag behind.
    let api: Api<Thread> = Api::namespaced(inner.context.client.clone(), &channel.namespace);
    let thread = api.get_opt(name).await.ok().flatten();
    let thread = thread.filter(|thread| post::speaks_of(payload, thread)).map(Arc::new);
    if let Some(thread) = &thread {
        let slack = SlackThread { channel: channel.id.clone(), ts: root.clone() };
        inner.opened.add(&slack, ThreadKey::from(&**thread));
    }
    Ok(thread)
}

/// Text of the opening message. Pure.
fn opening_message(thread: &Thread) -> String {
    let spec = &thread.spec;
    // Whoever made the Thread says so: it need not be them.
    let by = match spec.requested_by.as_deref() {
        Some(id) if is_user(id) => format!("the cluster, in the name of <@{id}>"),
        Some(name) => format!("the cluster, in the name of {}", markdown::render_inline(name)),
        None => "kubectl".to_owned(),
    };
    let part = match (&spec.parent, &spec.item) {
        (Some(parent), Some(item)) => format!(", item `{item}` of Thread `{parent}`"),
        (Some(parent), None) => format!(", part of Thread `{parent}`"),
        (None, Some(item)) => format!(", item `{item}`"),
        (None, None) => String::new(),
    };
    let part = markdown::render_inline(&part);
    let name = thread.name_any();
    let prompt = markdown::render_inline(spec.prompt.as_deref().unwrap_or_default());
    format!("From {by} (Thread `{name}`{part}):\n\n{prompt}")
}

/// True for the form of a Slack user id, which can be mentioned.
fn is_user(id: &str) -> bool {
    id.len() > 2
        && id.starts_with(['U', 'W'])
        && id.bytes().all(|b| b.is_ascii_uppercase() || b.is_ascii_digit())
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::{Value, json};

    fn thread(spec: &Value) -> Thread {
        serde_json::from_value(json!({
            "apiVersion": "codebutler.dev/v1alpha1", "kind": "Thread",
            "metadata": {"name": "fix-it"}, "spec": spec,
        }))
        .unwrap()
    }

    fn at(second: i64) -> Time {
        Time(jiff::Timestamp::from_second(second).unwrap())
    }

    #[test]
    fn one_claims_at_a_time_and_an_old_claim_is_nobodys() {
        let mut status = ThreadStatus::default();
        assert_eq!(take_claim(&mut status, "a", &at(100)), ClaimedConversation::First);
        assert_eq!(take_claim(&mut status, "b", &at(129)), ClaimedConversation::Not);
        assert_eq!(take_claim(&mut status, "a", &at(129)), ClaimedConversation::Again);
        assert_eq!(take_claim(&mut status, "b", &at(150)), ClaimedConversation::Not);
        assert_eq!(take_claim(&mut status, "b", &at(159)), ClaimedConversation::Again);
    }

    #[test]
    fn the_opening_says_who_asked_and_pings_nobody_else() {
        for (spec, expected) in [
            (
                json!({"repo": "r", "prompt": "Fix **it**, <!channel>"}),
                "From kubectl (Thread `fix-it`):\n\nFix *it*, &lt;!channel&gt;",
            ),
            (
                json!({"repo": "r", "prompt": "p", "requestedBy": "U0ANA", "parent": "big"}),
                "From the cluster, in the name of <@U0ANA> (Thread `fix-it`, part of Thread `big`):\n\np",
            ),
            (
                json!({"repo": "r", "prompt": "p", "requestedBy": "<!here>", "parent": "big",
                    "item": "3"}),
                "From the cluster, in the name of &lt;!here&gt; (Thread `fix-it`, item `3` of Thread `big`):\n\np",
            ),
        ] {
            assert_eq!(opening_message(&thread(&spec)), expected);
        }
    }

    #[test]
    fn a_prompt_waits_for_its_repo_and_says_so() {
        let prompt = thread(&json!({"repo": "shop", "prompt": "p"}));
        let repo = |suspend: bool, ready: &str| -> Repo {
            serde_json::from_value(json!({
                "apiVersion": "codebutler.dev/v1alpha1", "kind": "Repo",
                "metadata": {"name": "shop"},
                "spec": {
                    "git": {"url": "https://git.example.org/a/b", "credentials": {"name": "g"}},
                    "slack": {"channel": "C0123", "credentials": {"name": "s"}},
                    "model": {"credentials": {"name": "m"}}, "roles": ["pm"], "suspend": suspend,
                },
                "status": {"conditions": [{"type": "Ready", "status": ready, "reason": "R",
                    "message": "no Secret", "lastTransitionTime": "2026-01-01T00:00:00Z"}]},
            }))
            .unwrap()
        };
        let roles = ["pm".to_owned()];
        let why = |repo: Option<&Repo>, roles: &[String]| {
            find_hindrance(&prompt, repo, roles).map(|(reason, _)| reason)
        };
        assert_eq!(why(None, &roles), Some("RepoNotFound"));
        assert_eq!(why(Some(&repo(true, "True")), &roles), Some("RepoSuspended"));
        assert_eq!(why(Some(&repo(false, "False")), &roles), Some("RepoNotReady"));
        assert_eq!(why(Some(&repo(false, "True")), &[]), Some("RoleNotFound"));
        assert_eq!(why(Some(&repo(false, "True")), &roles), None);
    }
}
