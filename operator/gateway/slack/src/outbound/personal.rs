//! Slack as a place for lines and questions for one person, for services that know only [`PersonalNotices`].

use std::time::Duration;

use async_trait::async_trait;
use codebutler_crds::thread::SettledQuestion;
use codebutler_crds::wire::PostMessage;
use codebutler_crds::{SlackTs, ThreadStatus};
use codebutler_gateway_core::api_error::{ApiError, require_conversation};
use codebutler_gateway_core::caller::ProvenCaller;
use codebutler_gateway_core::personal::{
    PersonAnswer, PersonQuestion, PersonalNotices, StrangersWords,
};
use codebutler_gateway_core::thread_key::ThreadKey;
use codebutler_gateway_core::threads;
use tokio::time::Instant;
use tokio_util::sync::CancellationToken;

use crate::api::account::AccessError;
use crate::api::reading::WantedReading;
use crate::api::stored_message::StoredMessage;
use crate::outbound::drawn_images;
use crate::text::content;
use crate::text::mrkdwn;
use crate::{RoleContext, SlackGateway, show_literally};

/// Most people of `spec.access.users` that are considered.
const CONSIDERED: usize = 10;
/// Interval between two looks for an answer.
const LOOK: Duration = Duration::from_millis(150);
/// Interval between two looks after the thread could not be read.
const RETRY: Duration = Duration::from_secs(3);

#[async_trait]
impl PersonalNotices for SlackGateway {
    async fn find_decider(&self, thread: &ThreadKey) -> Option<String> {
        let (thread, repo) = self.inner.conversation(thread).ok()?;
        let speaker = thread.status.as_ref().and_then(|status| status.speaker.clone());
        let named = repo.spec.access.users.iter().take(CONSIDERED).cloned();
        let people = speaker.into_iter().chain(thread.spec.requested_by.clone()).chain(named);
        // A schedule has a name in place of a user id.
        for user in people.filter(|user| user.starts_with(['U', 'W'])) {
            match self.may_decide(&repo, &user).await {
                Ok(true) => return Some(user),
                Ok(false) => {}
                Err(error) => {
                    tracing::warn!(%error, "membership_check_failed");
                }
            }
        }
        None
    }

    async fn whisper(&self, thread: &ThreadKey, user: &str, text: &str) -> Result<(), ApiError> {
        let (thread, repo) = self.inner.conversation(thread)?;
        let place = require_conversation(&thread)?;
        let account = match self.inner.account(&repo).await {
            Ok(account) => account,
            Err(error) => return Err(self.inner.failed(error, &repo).await),
        };
        match self.inner.ephemeral(&account, place, user, text).await {
            Ok(()) => Ok(()),
            Err(error) => Err(self.inner.failed(error, &repo).await),
        }
    }

    async fn show_words(
        &self,
        caller: &ProvenCaller,
        shown: &StrangersWords,
    ) -> Result<(), ApiError> {
        let StrangersWords { key, text, quote, pictures } = shown;
        let text = match quote.trim() {
            "" => text.clone(),
            quote => format!("{text}\n{}", quote_words(quote)),
        };
        self.notice(&caller.key(), key, &text).await?;
        drawn_images::attach_pictures(&self.inner, caller, key, pictures).await
    }

    async fn choose(
        &self,
        caller: &ProvenCaller,
        question: &PersonQuestion,
        patience: Duration,
        over: &CancellationToken,
    ) -> Result<Option<PersonAnswer>, ApiError> {
        let message = PostMessage {
            key: question.key.clone(),
            text: format!("{}\n{}", question.text, quote_words(&question.quote)),
            choices: question.choices.clone(),
            to: Some(question.to.clone()),
            ..PostMessage::default()
        };
        let beside = RoleContext { only: Some(question.to.clone()), ..RoleContext::default() };
        let posted = self.post_noted(caller, &message, beside).await?;
        let (thread, deadline) = (caller.key(), Instant::now() + patience);
        let mut words =
            AwaitedWords { to: &question.to, after: &posted.ts, seen: None, next: None };
        loop {
            if let Some(item) = self.find_choice(&thread, &posted.ts) {
                self.take_offer(&thread, &posted.ts).await;
                return Ok(Some(PersonAnswer::Choice(item)));
            }
            if question.takes_words
                && !over.is_cancelled()
                && let Some(said) = self.find_words(caller, &mut words).await
            {
                // A button that was pressed before counts.
                let chosen = self.take_offer(&thread, &posted.ts).await;
                return Ok(Some(chosen.map_or(PersonAnswer::Words(said), PersonAnswer::Choice)));
            }
            if Instant::now() >= deadline || over.is_cancelled() {
                // An answer that comes in between counts.
                let chosen = self.take_offer(&thread, &posted.ts).await;
                return Ok(chosen.map(PersonAnswer::Choice));
            }
            tokio::time::sleep(LOOK).await;
        }
    }

    fn show_progress(&self, caller: &ProvenCaller, line: &str) {
        self.inner.progress.note(&caller.key(), caller.role_name(), line);
    }
}

/// A message that a question waits for.
struct AwaitedWords<'a> {
    to: &'a str,
    after: &'a SlackTs,
    /// The newest message of the thread when its conversation was read last.
    seen: Option<SlackTs>,
    /// Time at which it may be read again after a failure.
    next: Option<Instant>,
}

impl SlackGateway {
    /// Finds the first message of a person since a question. The thread is read where its status says that
    /// somebody wrote.
    async fn find_words(
        &self,
        caller: &ProvenCaller,
        awaited: &mut AwaitedWords<'_>,
    ) -> Option<String> {
        let thread = self.inner.thread(&caller.key())?;
        let status = thread.status.clone().unwrap_or_default();
        let newest = status.roles.values().filter_map(|role| role.inbox.clone()).max();
        let newest = newest.filter(|newest| newest > awaited.after)?;
        if awaited.seen.as_ref().is_some_and(|seen| *seen >= newest) {
            return None;
        }
        if awaited.next.is_some_and(|next| Instant::now() < next) {
            return None;
        }
        let place = thread.conversation()?;
        let wanted = WantedReading::of(&status, Some(awaited.after), None);
        let read = async {
            let account = self.inner.account(&caller.repo).await?;
            let reading =
                self.inner.read_conversation(&account, (&caller.key(), place), &wanted).await;
            Ok::<_, AccessError>(reading?)
        };
        match read.await {
            Ok(reading) => {
                awaited.seen = Some(newest);
                let mut messages = reading.after(Some(awaited.after)).iter();
                messages.find_map(|message| answer_of(message, awaited.to))
            }
            Err(error) => {
                tracing::warn!(%error, "reply_read_failed");
                awaited.next = Some(Instant::now() + RETRY);
                None
            }
        }
    }

    /// Index of the answer that was chosen, from 0.
    fn find_choice(&self, thread: &ThreadKey, message: &SlackTs) -> Option<usize> {
        let thread = self.inner.thread(thread)?;
        chosen_item(thread.status.as_ref()?, message)
    }

    /// Ends a question. Its answer is for the one who waits, and no news for the role.
    async fn take_offer(&self, thread: &ThreadKey, message: &SlackTs) -> Option<usize> {
        let take = |status: &mut ThreadStatus| {
            let chosen = chosen_item(status, message);
            status.offers.retain(|offer| offer.ts != *message);
            let own = format!("offer:{message}:");
            status.pending.retain(|item| !item.id.starts_with(&own));
            if chosen.is_none() {
                let (choice, user) = (None, None);
                threads::settle_question(
                    status,
                    SettledQuestion { ts: message.clone(), choice, user },
                );
            }
            Ok(chosen)
        };
        match self.inner.threads.try_update(thread, take).await {
            Ok((_, chosen)) => {
                self.inner.settle_soon(thread.clone());
                chosen
            }
            Err(error) => {
                tracing::warn!(%error, "button_removal_failed");
                None
            }
        }
    }
}

/// Text of a message of that person, if it is for no role.
fn answer_of(message: &StoredMessage, user: &str) -> Option<String> {
    let is_theirs = message.is_said() && message.person() == Some(user);
    let text = mrkdwn::to_text(&content::message_words(message));
    (is_theirs && !text.contains("@codebutler")).then_some(text)
}

/// Quotes the words of a stranger: they address no role, and are no markup.
fn quote_words(words: &str) -> String {
    show_literally(&words.replace('@', "\u{ff20}"))
}

fn chosen_item(status: &ThreadStatus, message: &SlackTs) -> Option<usize> {
    let offer = status.offers.iter().find(|offer| offer.ts == *message)?;
    let item = offer.answers.first()?.item;
    usize::try_from(item).ok()?.checked_sub(1)
}
