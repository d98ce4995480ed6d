//! The question which Repo a conversation is about: asked once, by the one replica that looks after
//! conversations, answered by a button or by words, carried out, and over after a day. Every step is found
//! done by the next look: the question by its key in Slack, the answer on the Repo, what was said in Slack.

use std::borrow::Cow;
use std::collections::HashMap;
use std::sync::Arc;
use std::time::Duration;

use codebutler_crds::repo::EndedThread;
use codebutler_crds::thread::SlackThread;
use codebutler_crds::unclear::UnclearConversation;
use codebutler_crds::{Repo, SlackTs, Thread};
use futures::future::join_all;
use jiff::{SignedDuration, Timestamp};
use kube::{Api, ResourceExt as _};
use serde::Deserialize;
use serde_json::json;
use tokio::time::Instant;
use tokio_util::sync::CancellationToken;

use super::{BUTTON, channel_label, decide_repo, record};
use crate::api::account::{AccessError, SlackAccount};
use crate::api::channel::RepoChannel;
use crate::api::clock;
use crate::api::conversation_pages;
use crate::api::stored_message::StoredMessage;
use crate::inbound::route;
use crate::inbound::take_error::TakeError;
use crate::outbound::settled_messages::{self, SettledLine};
use crate::questions::blocks;
use crate::questions::{ButtonStyle, QuestionButton};
use crate::{EVENT_TYPE, Inner, own_metadata};

/// `kind` of the message that asks.
const KIND: &str = "which";
/// Interval between two looks, and timeout of one.
const EVERY: Duration = Duration::from_millis(500);
const LOOK: Duration = Duration::from_secs(30);
/// Backoff after the first failure, and its limit.
const AGAIN: Duration = Duration::from_secs(1);
const LONGEST: Duration = Duration::from_mins(1);
/// Time that people have to answer.
const ANSWER: SignedDuration = SignedDuration::from_hours(24);
/// Most buttons that Slack takes in a row.
const BUTTONS: usize = 25;

const LATE: &str =
    ":hourglass: Nobody said which one, so nothing was begun. Write again, with its name.";
const STILL: &str = "It is still open which repository is meant: press one of the buttons, or write one of the names.";

/// State that this process keeps of an unclear conversation between two looks.
struct CheckState {
    /// Newest message that was known at the last look that led nowhere else.
    heard: Option<SlackTs>,
    failures: u32,
    next: Instant,
}

type CheckStates = HashMap<(String, SlackTs), CheckState>;

/// Looks after what is unclear until told to stop. One replica does.
pub(crate) async fn run_asking(inner: Arc<Inner>, stop: CancellationToken) {
    let mut looks = CheckStates::new();
    loop {
        let mut due = Vec::new();
        for repo in inner.context.repos.state() {
            let unclear = repo.status.as_ref().map(|status| status.slack.unclear.clone());
            for one in unclear.unwrap_or_default() {
                let key = (repo.uid().unwrap_or_default(), one.root.clone());
                if is_due(&one, looks.get(&key), Timestamp::now()) {
                    due.push((key, Arc::clone(&repo), one));
                }
            }
        }
        let all = join_all(due.iter().map(|(_, repo, one)| look_at(&inner, repo, one)));
        let Some(outcomes) = stop.run_until_cancelled(all).await else { return };
        for ((key, _, one), outcome) in due.into_iter().zip(outcomes) {
            let before = looks.remove(&key);
            looks.insert(key, look_after(before, &one, outcome));
        }
        let now = Instant::now();
        looks.retain(|_, look| now < look.next + Duration::from_hours(48));
        if stop.run_until_cancelled(tokio::time::sleep(EVERY)).await.is_none() {
            return;
        }
    }
}

/// True if there is something to do. Pure.
fn is_due(one: &UnclearConversation, look: Option<&CheckState>, now: Timestamp) -> bool {
    let Some(look) = look else { return true };
    if look.next > Instant::now() {
        return false;
    }
    one.chosen.is_some()
        || one.asked.is_none()
        || look.heard.as_ref() != Some(&one.heard)
        || is_late(one, now)
}

fn is_late(one: &UnclearConversation, now: Timestamp) -> bool {
    now.duration_since(one.since.0) > ANSWER
}

fn look_after(
    before: Option<CheckState>,
    one: &UnclearConversation,
    outcome: Result<(), TakeError>,
) -> CheckState {
    match outcome {
        Ok(()) => {
            // Whoever went on before the question stood there is reminded of it.
            let heard = one.asked.is_some().then(|| one.heard.clone());
            CheckState { heard, failures: 0, next: Instant::now() + AGAIN }
        }
        Err(error) => {
            tracing::warn!(%error, "repo_choice_delayed");
            let failures = before.as_ref().map_or(0, |before| before.failures);
            let wait = AGAIN.saturating_mul(1 << failures.min(6)).min(LONGEST);
            let heard = before.and_then(|before| before.heard);
            CheckState { heard, failures: failures.saturating_add(1), next: Instant::now() + wait }
        }
    }
}

async fn look_at(
    inner: &Arc<Inner>,
    repo: &Repo,
    one: &UnclearConversation,
) -> Result<(), TakeError> {
    let Some(id) = repo.channel() else { return Ok(()) };
    let sharing = inner.sharing(id);
    if sharing.is_empty() {
        return Ok(());
    }
    let account = inner.account(repo).await?;
    let place = SlackThread { channel: id.to_owned(), ts: one.root.clone() };
    let case =
        UnclearCase { inner, repo, account: &account, place: &place, sharing: &sharing, one };
    match tokio::time::timeout(LOOK, case.settle()).await {
        Ok(Err(TakeError::Access(AccessError::Call(error)))) => {
            inner.failed(error.clone(), repo).await;
            Err(AccessError::Call(error).into())
        }
        Ok(outcome) => outcome,
        Err(_) => Err(TakeError::Slow),
    }
}

struct UnclearCase<'a> {
    inner: &'a Arc<Inner>,
    repo: &'a Repo,
    account: &'a SlackAccount,
    place: &'a SlackThread,
    sharing: &'a [RepoChannel],
    one: &'a UnclearConversation,
}

#[derive(Deserialize)]
struct PostedAt {
    ts: SlackTs,
}

impl UnclearCase<'_> {
    async fn settle(&self) -> Result<(), TakeError> {
        let Self { inner, one, .. } = *self;
        let (web, root) = (inner.web.upkeep(), &one.root);
        let read = conversation_pages::read_replies(
            &web,
            &self.account.bot,
            &self.place.channel,
            root,
            None,
        )
        .await;
        let messages = match read {
            Ok(messages) => messages,
            // The first message was deleted: nothing can be said in the conversation any more.
            Err(error) if error.code() == Some("thread_not_found") => return self.forget().await,
            Err(error) => return Err(AccessError::from(error).into()),
        };
        if let Some((channel, by)) = self.found(&messages).await? {
            for message in messages.iter().filter(|message| message.ts >= one.message) {
                let effects = inner.carry_out(route::route_stored(message, &channel)).await?;
                inner.follow_up(effects);
            }
            let named = channel_label(&channel, self.sharing);
            let told = match by {
                Some(by) => format!(":white_check_mark: *{named}*, chosen by <@{by}>"),
                None => format!(":white_check_mark: *{named}*"),
            };
            self.answered(&messages, told).await?;
            return self.forget().await;
        }
        if is_late(one, Timestamp::now()) {
            self.answered(&messages, LATE.to_owned()).await?;
            let ended =
                EndedThread { root: root.clone(), at: clock::slack_now().max(one.heard.clone()) };
            inner.end(self.repo, &self.place.channel, &ended).await?;
            return self.forget().await;
        }
        match &one.asked {
            Some(asked) => self.remind(asked, &messages).await,
            None => self.ask(&messages).await,
        }
    }

    /// Finds the Repo that is meant, and who chose it, if somebody did.
    async fn found(
        &self,
        messages: &[StoredMessage],
    ) -> Result<Option<(RepoChannel, Option<String>)>, TakeError> {
        let Self { inner, sharing, one, .. } = *self;
        if let Some(channel) = self.has_thread(messages).await? {
            return Ok(Some((channel, None)));
        }
        if let Some(chosen) = &one.chosen
            && let Some(channel) = sharing.iter().find(|channel| channel.uid == chosen.uid)
        {
            return Ok(Some((channel.clone(), Some(chosen.by.clone()))));
        }
        let speaks = |message: &&StoredMessage| {
            sharing.iter().any(|channel| route::find_speaker(message, channel).is_some())
        };
        let said = messages.iter().filter(speaks);
        let words: Vec<&str> = said.filter_map(|message| message.text.as_deref()).collect();
        let first = messages.iter().find(|message| message.ts == one.message);
        let may =
            |channel: &RepoChannel| first.is_some_and(|message| inner.may_steer(message, channel));
        let found = decide_repo(&words, may, sharing).filter(|channel| !channel.deaf);
        Ok(found.map(|channel| (channel.clone(), None)))
    }

    /// Finds the Repo whose Thread the conversation has, or had: not by the cache, which may lag behind.
    async fn has_thread(
        &self,
        messages: &[StoredMessage],
    ) -> Result<Option<RepoChannel>, TakeError> {
        let Self { inner, sharing, place, .. } = *self;
        if let Some(channel) = inner.about(&place.ts, sharing) {
            return Ok(Some(channel));
        }
        let ours = messages.iter().filter(|message| message.bot_id.is_some());
        let ours = ours.filter_map(|message| own_metadata(message.metadata.as_ref()));
        let told: Vec<&str> = ours.filter_map(|payload| payload["thread"].as_str()).collect();
        for channel in sharing {
            let derived = channel.thread(&place.ts).name;
            if told.contains(&derived.as_str()) {
                return Ok(Some(channel.clone()));
            }
            let api: Api<Thread> =
                Api::namespaced(inner.context.client.clone(), &channel.namespace);
            for name in told.iter().copied().chain([derived.as_str()]) {
                let thread = api.get_opt(name).await?;
                let is = |thread: &Thread| {
                    thread.spec.repo == channel.repo && thread.conversation() == Some(place)
                };
                if thread.is_some_and(|thread| is(&thread)) {
                    return Ok(Some(channel.clone()));
                }
            }
        }
        Ok(None)
    }

    async fn ask(&self, messages: &[StoredMessage]) -> Result<(), TakeError> {
        let asked = match self.question(messages) {
            Some(asked) => asked,
            None => self.post().await?,
        };
        let keep = |list: &mut Vec<UnclearConversation>| {
            for known in list.iter_mut().filter(|known| known.root == self.one.root) {
                known.asked = Some(asked.clone());
            }
        };
        self.keep(keep).await
    }

    /// Finds the message that asks, if it is there.
    fn question(&self, messages: &[StoredMessage]) -> Option<SlackTs> {
        let asks = |message: &&StoredMessage| {
            let payload = own_metadata(message.metadata.as_ref());
            self.account.wrote(message)
                && payload.is_some_and(|p| p["kind"] == KIND && p["key"] == self.key())
        };
        messages.iter().find(asks).map(|message| message.ts.clone())
    }

    fn key(&self) -> String {
        format!("which:{}", self.one.since.0.as_second())
    }

    async fn post(&self) -> Result<SlackTs, TakeError> {
        let text = which_question(&self.one.user, self.sharing);
        let body = json!({
            "channel": self.place.channel,
            "thread_ts": self.place.ts,
            "text": text,
            "unfurl_links": false,
            "blocks": blocks::question_blocks(&text, KIND, &repo_buttons(self.sharing), &self.key()),
            "metadata": {"event_type": EVENT_TYPE, "event_payload": {
                "role": "", "kind": KIND, "key": self.key(),
            }},
        });
        let posting = self.inner.web.post::<PostedAt>(&self.account.bot, "chat.postMessage", &body);
        Ok(posting.await.map_err(AccessError::from)?.ts)
    }

    /// Tells whoever said something else, once, that the question is open.
    async fn remind(&self, asked: &SlackTs, messages: &[StoredMessage]) -> Result<(), TakeError> {
        let newest = messages.last().filter(|message| message.ts > *asked);
        let speaker = newest.and_then(StoredMessage::person);
        let Some(user) = speaker else { return Ok(()) };
        let key = (self.place.channel.clone(), asked.clone(), user.to_owned());
        if self.inner.handled.declined.first_time(key) {
            self.inner.ephemeral(self.account, self.place, user, STILL).await?;
        }
        Ok(())
    }

    /// Puts a line in the place of the question's buttons.
    async fn answered(&self, messages: &[StoredMessage], line: String) -> Result<(), TakeError> {
        let Some(asked) = self.one.asked.clone().or_else(|| self.question(messages)) else {
            return Ok(());
        };
        let line = SettledLine::of(line);
        match settled_messages::settle_message(self.inner, self.account, self.place, &asked, &line)
            .await
        {
            // The question is gone, or too old to be edited.
            Err(error) if error.code().is_some() => {
                tracing::info!(%error, "button_removal_failed");
                Ok(())
            }
            other => Ok(other.map_err(AccessError::from)?),
        }
    }

    async fn forget(&self) -> Result<(), TakeError> {
        self.keep(|list| record::forget_conversation(list, self.one)).await
    }

    async fn keep(&self, change: impl Fn(&mut Vec<UnclearConversation>)) -> Result<(), TakeError> {
        let namespace = self.repo.namespace().unwrap_or_default();
        self.inner.keep((&namespace, &self.repo.name_any()), change).await?;
        Ok(())
    }
}

/// Text of the question. Pure.
fn which_question(user: &str, sharing: &[RepoChannel]) -> String {
    let list: Vec<String> = sharing
        .iter()
        .map(|channel| {
            let git = channel.git.split_once('/').map_or(&*channel.git, |(_, path)| path);
            format!("`{}` ({git})", channel_label(channel, sharing))
        })
        .collect();
    format!(
        "<@{user}> Which repository is this about? Press a button, or write its name here: {}.",
        list.join(", ")
    )
}

fn repo_buttons(sharing: &[RepoChannel]) -> Vec<QuestionButton> {
    let button = |channel: &RepoChannel| QuestionButton {
        action_id: Cow::Owned(format!("{BUTTON}{}", channel.uid)),
        label: Cow::Owned(channel_label(channel, sharing)),
        style: ButtonStyle::Plain,
        settled: "",
        block: None,
    };
    sharing.iter().take(BUTTONS).map(button).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use k8s_openapi::apimachinery::pkg::apis::meta::v1::Time;

    fn one() -> UnclearConversation {
        let ts: SlackTs = "10.000000".parse().unwrap();
        UnclearConversation {
            root: ts.clone(),
            message: ts.clone(),
            user: "U1".to_owned(),
            since: Time(Timestamp::UNIX_EPOCH),
            heard: ts,
            asked: None,
            chosen: None,
        }
    }

    #[test]
    fn a_look_is_due_until_it_asked_and_when_something_new_is_known() {
        let soon = Timestamp::from_second(60).unwrap();
        let mut asked = one();
        asked.asked = Some("11.000000".parse().unwrap());
        let mut look = look_after(None, &asked, Ok(()));
        look.next = Instant::now();
        assert!(is_due(&one(), None, soon) && is_due(&one(), Some(&look), soon));
        assert!(!is_due(&asked, Some(&look), soon));
        let late = Timestamp::from_second(24 * 3600 + 1).unwrap();
        assert!(is_due(&asked, Some(&look), late));
        let mut replied = asked.clone();
        replied.heard = "12.000000".parse().unwrap();
        assert!(is_due(&replied, Some(&look), soon));
        let failed = look_after(Some(look), &replied, Err(TakeError::Slow));
        assert!(!is_due(&replied, Some(&failed), late) && failed.failures == 1);
    }

    #[test]
    fn the_question_names_all_repos() {
        let api = RepoChannel {
            repo: "api".to_owned(),
            uid: "u2".to_owned(),
            git: "github.com/acme/backend".to_owned(),
            ..RepoChannel::test()
        };
        let sharing = [RepoChannel::test(), api];
        assert_eq!(
            which_question("U1", &sharing),
            "<@U1> Which repository is this about? Press a button, or write its name here: `shop` \
             (acme/shop), `api` (acme/backend)."
        );
        let ids: Vec<_> = repo_buttons(&sharing).into_iter().map(|b| b.action_id).collect();
        assert_eq!(ids, ["repository:u", "repository:u2"]);
    }
}
