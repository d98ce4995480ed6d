//! Answers who asks what can be asked: an answer that everybody sees is found again in Slack by what it answers. One
//! that only who asked sees is not, so its request is on record before and after, with the claim of the gateway that
//! answers it. The claim is renewed while Slack's queue is waited for. A gateway that dies leaves the request to the
//! upkeep of any other one; who asked sees the answer twice then at worst.

use std::sync::Arc;
use std::time::Duration;

use codebutler_crds::thread::{HelpRequest, SlackThread, is_user};
use codebutler_crds::{Repo, SlackTs, Thread, ThreadStatus};
use codebutler_gateway_core::masks;
use codebutler_gateway_core::thread_key::ThreadKey;
use codebutler_gateway_core::threads::{ChangeRefusal, WriteError};
use codebutler_runtime::step;
use jiff::Timestamp;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::Time;
use kube::ResourceExt as _;
use serde_json::{Value, json};
use tokio::time::Instant;

use crate::Inner;
use crate::api::account::{AccessError, SlackAccount};
use crate::api::channel::RepoChannel;
use crate::api::conversation_pages;
use crate::api::web::{CallError, EPHEMERAL};
use crate::inbound::effects::RouteEffect;
use crate::inbound::help::{self, HelpAnswer, HelpFacts, HelpWish};
use crate::inbound::offered_work::{NAMED, OfferedWork};
use crate::inbound::repo_choice;
use crate::inbound::take_error::TakeError;
use crate::people::access;
use crate::text::person_message::PersonMessage;

/// Longest wait for names, without which the answer does.
const PATIENCE: Duration = Duration::from_secs(3);
/// Times that a post with unknown outcome is looked for and repeated.
const ATTEMPTS: u32 = 3;
/// Interval between two renewals of a claim. One that could not be renewed for [`GIVEN_UP`] is given up, a while before
/// others take it.
const RENEW: Duration = Duration::from_secs(2);
const GIVEN_UP: Duration = Duration::from_secs(5);

impl Inner {
    /// Answers in a conversation that has nothing else yet, and alone to who asks in one that has.
    pub(crate) async fn take_help(
        &self,
        channel: &RepoChannel,
        root: &SlackTs,
        requested_by: &str,
        (said, wish): (&PersonMessage, HelpWish),
    ) -> Result<Vec<RouteEffect>, TakeError> {
        let Some(repo) = self.context.repo(&channel.namespace, &channel.repo) else {
            return Ok(Vec::new());
        };
        let ours = Some(requested_by) == channel.bot_user.as_deref();
        let thread = self.find(channel, root, ours).await?;
        // Where somebody works, a mention alone is a nudge, and a question is one for the roles.
        if !access::permits_user(&repo.spec.access.users, &said.user)
            || (thread.is_some() && wish != HelpWish::InWords)
        {
            return self.message(channel, root, requested_by, said).await;
        }
        if !help::is_fresh(&said.ts, Timestamp::now()) {
            return Ok(Vec::new());
        }
        let is_new = match &thread {
            Some(thread) => self.record_help(&ThreadKey::from(&**thread), said).await?,
            None => self.handled.directly.first_time((channel.id.clone(), said.ts.clone())),
        };
        if !is_new {
            return Ok(Vec::new());
        }
        let alone = thread.map(|thread| (ThreadKey::from(&*thread), said.user.clone()));
        let answer = build_help(&repo, root, &said.ts, alone);
        Ok(vec![RouteEffect::Help(Box::new(answer))])
    }

    /// The answer in words, as Slack shows it. `git`: host, owner and name of the repository.
    pub(crate) async fn help_words(&self, repo: &Arc<Repo>, git: &str) -> String {
        let (names, work) = tokio::join!(self.steering_names(repo), self.offered_work(repo));
        let (place, pages) = (help::place_name(git), self.context.pages.as_deref());
        let has_own = work.is_whole;
        let text = help::help_text(repo, &HelpFacts { place, pages, work, names });
        if !has_own {
            return text;
        }
        // Words of the repository are in it.
        masks::as_known(&self.context, repo).await.mask(&text).into_owned()
    }

    /// The answer without words of the repository's files and names of people. `git`: as for [`Self::help_words`].
    pub(crate) fn general_help(&self, repo: &Repo, git: &str) -> String {
        let (place, pages) = (help::place_name(git), self.context.pages.as_deref());
        help::help_text(repo, &HelpFacts { place, pages, ..HelpFacts::default() })
    }

    async fn offered_work(&self, repo: &Arc<Repo>) -> OfferedWork {
        match self.services.offered() {
            Some(lookup) => lookup(Arc::clone(repo)).await,
            None => OfferedWork::default(),
        }
    }

    /// Names of the first people who may steer, as far as Slack tells soon.
    async fn steering_names(&self, repo: &Repo) -> Vec<String> {
        let users = repo.spec.access.users.iter().filter(|user| is_user(user)).take(NAMED);
        let users: Vec<String> = users.cloned().collect();
        if users.is_empty() {
            return Vec::new();
        }
        let read = async {
            let account = self.account(repo).await.ok()?;
            let names = users
                .into_iter()
                .map(async |user| self.person((repo, &account), &user).await.ok()?.name);
            Some(futures::future::join_all(names).await)
        };
        let read = tokio::time::timeout(PATIENCE, read).await;
        read.ok().flatten().into_iter().flatten().flatten().collect()
    }

    /// False if it was on record before.
    async fn record_help(&self, key: &ThreadKey, said: &PersonMessage) -> Result<bool, WriteError> {
        let (by, now) = (self.name.as_str(), Time(Timestamp::now()));
        let record = |status: &mut ThreadStatus| {
            let is_new = help::record_help(status, &said.ts, &said.user);
            if is_new {
                help::claim_help(status, &said.ts, by, &now);
            }
            Ok::<_, ChangeRefusal>(is_new)
        };
        match self.threads.try_update(key, record).await {
            Ok((_, true)) => {
                step::point("it is on record who asked what can be asked");
                Ok(true)
            }
            Ok((_, false)) | Err(WriteError::Missing(_)) => Ok(false),
            Err(error) => Err(error),
        }
    }

    /// Answers in a channel. An answer that stands there is enough, also for who asked before somebody worked there.
    pub(crate) async fn answer_help(&self, answer: &HelpAnswer) -> Result<(), AccessError> {
        let Some(repo) = self.context.repo(&answer.repo.0, &answer.repo.1) else { return Ok(()) };
        let account = self.account(&repo).await?;
        let Some(channel) = repo.channel() else { return Ok(()) };
        let git = repo_choice::fold_address(&repo.spec.git.url);
        let text = Box::pin(self.help_words(&repo, &git)).await;
        let body = json!({"channel": channel, "thread_ts": answer.root, "text": text});
        let place = (channel, Some(&answer.root));
        let Some((key, user)) = &answer.alone else {
            return self.post_help(&account, place, &answer.asked, body).await;
        };
        let id = (channel.to_owned(), answer.asked.clone());
        // Upkeep sees the request, too, and may have begun.
        let Some(_turn) = self.handled.answering.begin(&id) else { return Ok(()) };
        // A write that failed is no reason to show it again.
        if !self.handled.directly.contains(&id) {
            if !self.claims_help(key, &answer.asked).await {
                return Ok(());
            }
            let person = (&answer.asked, user.as_str());
            let showing = Box::pin(self.show_help(&account, place, person, body));
            tokio::select! {
                shown = showing => shown?,
                () = Box::pin(self.keep_claim(key, &answer.asked)) => {
                    tracing::debug!(thread = key.name, "help_claim_lost");
                    return Ok(());
                }
            }
            self.handled.directly.first_time(id);
        }
        self.end_help(key, &answer.asked).await;
        Ok(())
    }

    /// Claims to answer a request; false if another gateway does, or nobody can say. Upkeep finds out later.
    async fn claims_help(&self, key: &ThreadKey, asked: &SlackTs) -> bool {
        match self.claim_help(key, asked).await {
            Ok(is_ours) => is_ours,
            Err(error) => {
                tracing::warn!(%error, thread = key.name, part = "help", "thread_status_write_failed");
                false
            }
        }
    }

    async fn claim_help(&self, key: &ThreadKey, asked: &SlackTs) -> Result<bool, WriteError> {
        let (by, now) = (self.name.as_str(), Time(Timestamp::now()));
        let claim = |status: &mut ThreadStatus| {
            Ok::<_, ChangeRefusal>(help::claim_help(status, asked, by, &now))
        };
        let (thread, is_ours) = self.threads.try_update(key, claim).await?;
        // Its conversation is told that it goes, by who claims that.
        Ok(is_ours && !thread.is_going())
    }

    /// Renews a claim until that is not possible any more.
    async fn keep_claim(&self, key: &ThreadKey, asked: &SlackTs) {
        let mut renewed = Instant::now();
        loop {
            tokio::time::sleep(RENEW).await;
            let began = Instant::now();
            let left = GIVEN_UP.saturating_sub(renewed.elapsed());
            match tokio::time::timeout(left, self.claim_help(key, asked)).await {
                Ok(Ok(true)) => renewed = began,
                // Tried again for as long as there is time.
                Ok(Err(_)) => {}
                Ok(Ok(false)) | Err(_) => return,
            }
        }
    }

    /// Shows an answer, unless one stands there from the time before somebody worked there.
    async fn show_help(
        &self,
        account: &SlackAccount,
        place: (&str, Option<&SlackTs>),
        (asked, user): (&SlackTs, &str),
        body: Value,
    ) -> Result<(), AccessError> {
        if self.has_help(account, place, asked).await? {
            return Ok(());
        }
        match self.whisper_help(account, place, (asked, user), body).await {
            // It may have been shown, or can't be.
            Err(error) if !error.may_repeat() => {
                tracing::warn!(%error, channel = place.0, "help_answer_failed");
                Ok(())
            }
            result => result,
        }
    }

    /// Shows an answer to one person alone; to all where Slack can't do that.
    async fn whisper_help(
        &self,
        account: &SlackAccount,
        place: (&str, Option<&SlackTs>),
        (asked, user): (&SlackTs, &str),
        body: Value,
    ) -> Result<(), AccessError> {
        let mut whispered = body.clone();
        whispered["user"] = json!(user);
        match self.web.post::<Value>(&account.bot, EPHEMERAL, &whispered).await {
            Ok(_) => {
                step::point("somebody alone is told what can be asked");
                Ok(())
            }
            Err(error @ CallError::Refused { .. }) => {
                tracing::info!(%error, "help_posted_to_all");
                self.post_help(account, place, asked, body).await
            }
            Err(error) => Err(error.into()),
        }
    }

    async fn end_help(&self, key: &ThreadKey, asked: &SlackTs) {
        let end = |status: &mut ThreadStatus| help::end_help(status, asked, &self.name);
        match self.threads.update(key, end).await {
            Ok(_) | Err(WriteError::Missing(_)) => {}
            Err(error) => {
                tracing::warn!(%error, thread = key.name, part = "help", "thread_status_write_failed");
            }
        }
    }

    /// Answers the requests that wait in a Thread: a gateway has died, or Slack has asked for patience.
    pub(crate) async fn answer_waiting(&self, thread: &Thread) -> Result<(), AccessError> {
        let key = ThreadKey::from(thread);
        let Some((thread, repo)) = self.known(&key) else { return Ok(()) };
        let Some(SlackThread { ts: root, .. }) = thread.conversation() else { return Ok(()) };
        let status = thread.status.clone().unwrap_or_default();
        if help::is_claimed_elsewhere(&status, &self.name, Timestamp::now()) {
            return Ok(());
        }
        for HelpRequest { ts: asked, user } in status.helping {
            if help::is_fresh(&asked, Timestamp::now()) {
                let answer = build_help(&repo, root, &asked, Some((key.clone(), user)));
                self.answer_help(&answer).await?;
            } else {
                tracing::warn!(thread = key.name, error = "it is too late", "help_answer_failed");
                self.end_help(&key, &asked).await;
            }
        }
        Ok(())
    }

    /// Posts an answer unless it is there. When the outcome is not known, Slack is asked before it is posted again.
    pub(crate) async fn post_help(
        &self,
        account: &SlackAccount,
        place: (&str, Option<&SlackTs>),
        asked: &SlackTs,
        mut body: Value,
    ) -> Result<(), AccessError> {
        body["metadata"] = help::build_metadata(asked);
        (body["unfurl_links"], body["unfurl_media"]) = (json!(false), json!(false));
        for attempt in 1.. {
            if self.has_help(account, place, asked).await? {
                break;
            }
            match self.web.post::<Value>(&account.bot, "chat.postMessage", &body).await {
                Ok(_) => {
                    step::point("somebody is told what can be asked");
                    break;
                }
                Err(CallError::Failed { .. }) if attempt < ATTEMPTS => {
                    tokio::time::sleep(Duration::from_millis(250 << attempt)).await;
                }
                Err(error) => return Err(error.into()),
            }
        }
        Ok(())
    }

    /// True if an answer stands in a conversation, or in the app's own one, which has no root.
    async fn has_help(
        &self,
        account: &SlackAccount,
        (channel, root): (&str, Option<&SlackTs>),
        asked: &SlackTs,
    ) -> Result<bool, CallError> {
        let (web, token, after) = (&self.web, &account.bot, Some(asked));
        let read = match root {
            Some(root) => conversation_pages::read_replies(web, token, channel, root, after).await,
            None => conversation_pages::read_channel(web, token, channel, asked).await,
        };
        Ok(read?.iter().any(|message| help::is_answer(message, account, asked)))
    }
}

fn build_help(
    repo: &Repo,
    root: &SlackTs,
    asked: &SlackTs,
    alone: Option<(ThreadKey, String)>,
) -> HelpAnswer {
    let (root, asked) = (root.clone(), asked.clone());
    HelpAnswer { repo: (repo.namespace().unwrap_or_default(), repo.name_any()), root, asked, alone }
}
