//! Reading back what no socket delivered: after each connection and every few minutes, the channel
//! since its cursor and the open threads since their newest mark. What is found takes the same way
//! as what is pushed, and changes nothing if it was known.

use std::sync::Arc;
use std::time::Duration;

use codebutler_crds::thread::{OfferKind, RoleOffer, SlackThread, ThreadState};
use codebutler_crds::{Repo, SlackTs, Thread};
use codebutler_gateway_core::thread_key::ThreadKey;
use codebutler_runtime::shards::GatewayShard;
use kube::ResourceExt as _;
use tokio::sync::watch;
use tokio::time::Instant;
use tokio_util::sync::CancellationToken;

use crate::Inner;
use crate::api::account::{AccessError, SlackAccount};
use crate::api::attribution;
use crate::api::channel::RepoChannel;
use crate::api::clock::make_timestamp;
use crate::api::clock::slack_now;
use crate::api::conversation_pages;
use crate::api::cursor::advance_cursor;
use crate::api::explain;
use crate::api::stored_message::StoredMessage;
use crate::api::web::{CallError, SlackWeb};
use crate::inbound::effects::RouteEffect;
use crate::inbound::emoji::{EmojiReaction, EmojiSign};
use crate::inbound::repo_choice::MessageOwner;
use crate::inbound::route;
use crate::inbound::route::RouteAction;
use crate::questions::plan;
use crate::text::feedback;

/// Between two sweeps, and after one in which a channel failed.
const EVERY: Duration = Duration::from_mins(3);
const AGAIN: Duration = Duration::from_secs(10);
/// Messages can appear in the history a little after newer ones.
const OVERLAP: u64 = 60;
/// For so many seconds after somebody said that an answer did not help, why is looked for.
const EXPLAINED: u64 = 24 * 60 * 60;
/// Open threads of a channel that one sweep looks at: the most recently active ones, and of the others so many in turn.
const THREADS: usize = 200;
const OTHERS: usize = 50;

/// While it lives, this replica leads for a shard: it keeps readings of that one's conversations. The first shard's
/// leader looks for what nobody was told of, too.
pub(crate) struct LeaderDuty<'a>(&'a Inner);

impl<'a> LeaderDuty<'a> {
    /// From now on.
    pub(crate) fn begin(inner: &'a Inner, shard: GatewayShard) -> Self {
        inner.leading.begin(shard);
        Self(inner)
    }
}

impl Drop for LeaderDuty<'_> {
    fn drop(&mut self) {
        self.0.leading.end();
    }
}

/// Sweeps until told to stop, whenever it is this replica's duty.
pub(crate) async fn run_catchup(
    inner: &Arc<Inner>,
    mut channels: watch::Receiver<Vec<RepoChannel>>,
    mut connects: watch::Receiver<u64>,
    stop: &CancellationToken,
) {
    let (mut asked, mut relieved) = (inner.leading.watch_sweeps(), inner.leading.watch_sweeps());
    loop {
        let asked = stop.run_until_cancelled(asked.wait_for(|asked| *asked)).await;
        if !matches!(asked, Some(Ok(_))) {
            return;
        }
        drop(asked);
        tokio::select! {
            () = sweep_until(inner, &mut channels, &mut connects, stop) => return,
            _ = relieved.wait_for(|asked| !*asked) => {}
        }
    }
}

async fn sweep_until(
    inner: &Arc<Inner>,
    channels: &mut watch::Receiver<Vec<RepoChannel>>,
    connects: &mut watch::Receiver<u64>,
    stop: &CancellationToken,
) {
    let mut refusals = inner.reach.watch_refusals();
    // Not before the first connection: from then on nothing falls between push and sweep.
    let mut next: Option<Instant> = None;
    let mut last: Option<Instant> = None;
    let mut turn = 0_usize;
    loop {
        let due = async {
            match next {
                Some(at) => tokio::time::sleep_until(at).await,
                None => std::future::pending().await,
            }
        };
        tokio::select! {
            () = stop.cancelled() => return,
            changed = connects.changed() => {
                if changed.is_err() { return }
                next = Some(next_sweep(last));
                continue;
            }
            changed = refusals.changed() => {
                if changed.is_err() { return }
                next = next.map(|at| at.min(next_sweep(last)));
                continue;
            }
            changed = channels.changed() => {
                if changed.is_err() { return }
                next = next.map(|at| at.min(next_sweep(last)));
                continue;
            }
            () = due => {}
        }
        let known = channels.borrow_and_update().clone();
        let sweep = sweep_channels(inner, &known, turn);
        let fine = tokio::select! {
            () = stop.cancelled() => return,
            fine = sweep => fine,
        };
        let now = Instant::now();
        turn = turn.wrapping_add(1);
        (last, next) = (Some(now), Some(now + if fine { EVERY } else { AGAIN }));
    }
}

/// At once, unless the last sweep was only just now: a flapping connection is no reason to read
/// everything again and again.
fn next_sweep(last: Option<Instant>) -> Instant {
    let now = Instant::now();
    last.map_or(now, |last| now.max(last + AGAIN))
}

/// One sweep over an app's channels, the `turn`th; answers whether all could be read.
async fn sweep_channels(inner: &Arc<Inner>, channels: &[RepoChannel], turn: usize) -> bool {
    let mut fine = true;
    for channel in channels.iter().filter(|channel| channel.is_own) {
        let Some(repo) = inner.context.repo(&channel.namespace, &channel.repo) else { continue };
        let mut is_silent = false;
        let result = match inner.account(&repo).await {
            // Whatever else fails, fails for that.
            Ok(account) if account.lacks_scopes() => Ok(inner.standing(&account, &repo)),
            Ok(account) => {
                let sweep = ChannelSweep { inner, repo: &repo, channel, account: &account, turn };
                // No sweep is repeated for that: the attempts to open a socket show when one opens again.
                is_silent = inner.channels.socket_trouble(&account.app).is_some();
                sweep.all().await.map(|()| inner.standing(&account, &repo))
            }
            Err(error) => Err(error),
        };
        match result {
            Ok(standing) => {
                fine &= standing.is_ok() || is_silent;
                fine &= inner.reach.tell(&repo, standing).await;
            }
            Err(error) => {
                fine = false;
                let error = Box::pin(inner.find_archived(error, &repo)).await;
                inner.reach.tell(&repo, Err(explain::explain_condition(&error, &repo))).await;
            }
        }
    }
    fine
}

struct ChannelSweep<'a> {
    inner: &'a Arc<Inner>,
    repo: &'a Repo,
    channel: &'a RepoChannel,
    account: &'a SlackAccount,
    turn: usize,
}

impl ChannelSweep<'_> {
    async fn all(&self) -> Result<(), AccessError> {
        let cursor = self.repo.status.as_ref().and_then(|status| status.slack.cursor.clone());
        let (web, token, id) = (&self.inner.web.upkeep(), &self.account.bot, &self.channel.id);
        let Some(cursor) = cursor else {
            // The first start: what was said before is not CodeButler's business.
            conversation_pages::probe_channel(web, token, id).await?;
            self.advance(&slack_now()).await;
            return Ok(());
        };
        self.writable(web).await?;
        let after = cursor.minus_secs(OVERLAP).max(self.floor());
        let messages = conversation_pages::read_channel(web, token, id, &after).await?;
        let mut stored = true;
        for message in &messages {
            stored &= self.take(message).await;
        }
        if let Some(newest) = messages.iter().map(|message| &message.ts).max()
            && *newest > cursor
            && stored
        {
            self.advance(newest).await;
        }
        for thread in self.open_threads() {
            let Some(SlackThread { ts: root, .. }) = thread.conversation() else { continue };
            let asked = reactable_questions(&thread);
            let mark = newest_mark(&thread).minus_secs(OVERLAP);
            let recent = slack_now().minus_secs(EXPLAINED);
            let pressed = thread.status.as_ref().and_then(feedback::unexplained_since);
            let pressed = pressed.filter(|at| **at > recent);
            let after = asked.iter().chain(pressed).map(|ts| ts.minus_secs(1));
            let after = after.fold(mark, SlackTs::min);
            match conversation_pages::read_replies(web, token, id, root, Some(&after)).await {
                Ok(mut messages) => {
                    for message in &mut messages {
                        attribution::attribute_reply(message, self.account);
                        self.take(message).await;
                        if asked.contains(&message.ts) {
                            self.thumbs(message).await;
                        }
                    }
                }
                // The first message was deleted: nothing can be said there any more.
                Err(error) if error.code() == Some("thread_not_found") => {}
                Err(error) => return Err(error.into()),
            }
        }
        Ok(())
    }

    /// An archived channel can be read and not written to.
    async fn writable(&self, web: &SlackWeb) -> Result<(), CallError> {
        match conversation_pages::is_archived(web, &self.account.bot, &self.channel.id).await {
            Ok(true) => Err(CallError::Refused {
                method: "conversations.info",
                code: "is_archived".to_owned(),
                needed: None,
                said: None,
            }),
            // Then Slack does not say, and whoever posts is told.
            Err(error) if error.code() == Some("missing_scope") => Ok(()),
            other => other.map(drop),
        }
    }

    /// Takes in one message; answers whether it is stored.
    async fn take(&self, message: &StoredMessage) -> bool {
        let sharing = self.inner.sharing(&self.channel.id);
        let taken = match self.inner.whose_message(message, &sharing).await {
            Ok(MessageOwner::Done(effects)) => Ok(effects),
            // The other's own sweep reads it.
            Ok(MessageOwner::One(other)) if other.uid != self.channel.uid => return true,
            Ok(MessageOwner::One(_) | MessageOwner::Plain) => {
                self.inner.carry_out(route::route_stored(message, self.channel)).await
            }
            Err(error) => Err(error),
        };
        match taken {
            Ok(effects) => {
                self.inner.follow_up(effects);
                true
            }
            Err(error) => {
                tracing::warn!(%error, "message_write_failed");
                false
            }
        }
    }

    /// Takes in the answers that somebody gave to a question with an emoji. They change nothing where
    /// they were heard.
    async fn thumbs(&self, message: &StoredMessage) {
        let own = self.channel.bot_user.as_deref();
        for emoji in &message.reactions {
            let Some(sign @ EmojiSign::Thumb(_)) = EmojiSign::by_name(&emoji.name) else {
                continue;
            };
            for user in emoji.users.iter().filter(|user| own != Some(user.as_str())) {
                let reacted = EmojiReaction {
                    message: message.ts.clone(),
                    sign,
                    user: user.clone(),
                    on_ours: true,
                    at: message.ts.clone(),
                };
                let channel = self.channel.clone();
                match self.inner.carry_out(RouteAction::Reaction { channel, reacted }).await {
                    // Otherwise people without the right would be told so with every sweep.
                    Ok(mut effects) => {
                        effects.retain(|effect| !matches!(effect, RouteEffect::Whisper { .. }));
                        self.inner.follow_up(effects);
                    }
                    Err(error) => tracing::warn!(%error, "reaction_write_failed"),
                }
            }
        }
    }

    /// Nothing from before the Repo existed is taken in.
    fn floor(&self) -> SlackTs {
        let created = self.repo.creation_timestamp();
        created.map_or_else(SlackTs::zero, |time| make_timestamp(time.0.as_second(), 0))
    }

    fn open_threads(&self) -> Vec<Arc<Thread>> {
        let mut open: Vec<Arc<Thread>> = self
            .inner
            .context
            .threads
            .state()
            .into_iter()
            .filter(|thread| thread.spec.state == ThreadState::Active && !thread.is_going())
            .filter(|thread| thread.conversation().is_some_and(|s| s.channel == self.channel.id))
            .filter(|thread| thread.spec.repo == self.channel.repo)
            .filter(|thread| thread.namespace().as_ref() == Some(&self.channel.namespace))
            .map(|thread| self.inner.thread(&ThreadKey::from(&*thread)).unwrap_or(thread))
            .collect();
        open.sort_by_key(|thread| std::cmp::Reverse(last_activity(thread)));
        take_turn(open, self.turn)
    }

    /// Moves the cursor forward, never back.
    async fn advance(&self, to: &SlackTs) {
        let (namespace, name) = (self.repo.namespace().unwrap_or_default(), self.repo.name_any());
        let client = &self.inner.context.client;
        if let Err(error) = advance_cursor(client, (&namespace, &name), to).await {
            tracing::warn!(%error, repo = name, "cursor_write_failed");
        }
    }
}

/// Those of one sweep, of all by their latest activity. What nobody delivered is found in each, sooner or later.
fn take_turn<T>(mut open: Vec<T>, turn: usize) -> Vec<T> {
    if open.len() <= THREADS {
        return open;
    }
    let others = open.split_off(THREADS - OTHERS);
    let turns = others.len().div_ceil(OTHERS);
    open.extend(others.into_iter().skip(turn % turns * OTHERS).take(OTHERS));
    open
}

/// Questions that an emoji can answer.
fn reactable_questions(thread: &Thread) -> Vec<SlackTs> {
    let Some(status) = &thread.status else { return Vec::new() };
    let actions = status.approvals.iter().filter(|question| question.answer.is_none());
    let learnings = |offer: &&RoleOffer| offer.kind == OfferKind::Learnings && offer.has_buttons();
    let offers = status.offers.iter().filter(learnings).map(|offer| &offer.ts);
    let plan = status.plan.iter().filter(|plan| plan::is_open(plan)).map(|plan| &plan.ts);
    let merge = status.closing.iter().filter(|closing| closing.choice.is_none());
    let decisions = plan.chain(merge.map(|closing| &closing.ts));
    actions.map(|question| &question.ts).chain(offers).chain(decisions).cloned().collect()
}

/// Time of the latest activity in a thread.
fn last_activity(thread: &Thread) -> SlackTs {
    let active = thread.status.as_ref().and_then(|status| status.last_activity.as_ref());
    let at = active.map_or_else(SlackTs::zero, |time| make_timestamp(time.0.as_second(), 0));
    at.max(newest_mark(thread))
}

/// The newest message of a thread that is known to its roles.
fn newest_mark(thread: &Thread) -> SlackTs {
    let roles = thread.status.iter().flat_map(|status| status.roles.values());
    let marks = roles.filter_map(|role| role.inbox.clone());
    let root = || thread.conversation().map_or_else(SlackTs::zero, |slack| slack.ts.clone());
    marks.max().unwrap_or_else(root)
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use super::*;

    #[test]
    fn every_open_thread_has_its_turn_and_no_sweep_reads_too_many() {
        let few: Vec<usize> = (0..THREADS).collect();
        assert_eq!(take_turn(few.clone(), 7), few);
        let many: Vec<usize> = (0..1_010).collect();
        let mut seen = BTreeSet::new();
        for turn in 0..20 {
            let swept = take_turn(many.clone(), turn);
            assert!(swept.len() <= THREADS, "{}", swept.len());
            assert_eq!(swept[..THREADS - OTHERS], many[..THREADS - OTHERS], "the active ones");
            seen.extend(swept);
        }
        assert!(seen.into_iter().eq(many));
    }
}
