//! Taking in: what a message or click changes in its Thread, stored before anything else happens.

use std::sync::Arc;

use codebutler_crds::thread::{SlackThread, ThreadState};
use codebutler_crds::{Repo, SlackTs, Thread, ThreadSpec, ThreadStatus, names};
use codebutler_gateway_core::thread_key::ThreadKey;
use codebutler_gateway_core::threads::{self, ChangeRefusal, WriteError};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::Time;
use kube::{Resource as _, ResourceExt as _};
use tracing::field::display;

use crate::api::attribution;
use crate::api::channel::RepoChannel;
use crate::api::clock::slack_now;
use crate::api::frame::SocketFrame;
use crate::api::lenient::UnreadFields;
use crate::inbound::effects::RouteEffect;
use crate::inbound::event::{EnvelopePayload, MessageEvent};
use crate::inbound::help;
use crate::inbound::message_outcome;
use crate::inbound::message_outcome::TakenMessage;
use crate::inbound::repo_choice::MessageOwner;
use crate::inbound::route;
use crate::inbound::route::{IgnoredReason, RouteAction};
use crate::inbound::take_error::PATIENCE;
use crate::inbound::take_error::TakeError;
use crate::inbound::unnamed_bot::UnnamedBot;
use crate::outbound::opening;
use crate::people::access;
use crate::text::feedback;
use crate::text::person_message::PersonMessage;
use crate::{Inner, own_metadata};

/// Told to who says yes or no where that can mean several things.
const REVOKED: &str = "Nothing is approved for this thread any more: people are asked each time.";
const UNCLEAR: &str = "That decided nothing: several questions are open here, or something else was asked since. Please \
     press the button of the one that you mean.";

/// Told to people whose yes or no stands beside something that says more.
const BESIDE: &str = "That decided nothing, since a file, a table or a forwarded message stands beside it: it is read as a \
     message. To decide, press the button or write it alone.";

impl Inner {
    /// Takes in an envelope. None: it could not be stored and has to come again.
    pub(crate) async fn take_in(
        &self,
        frame: &SocketFrame,
        channels: &[RepoChannel],
    ) -> Option<Vec<RouteEffect>> {
        if let Some(channel) = frame.shared_channel() {
            self.is_shared(channel, channels).await;
        }
        let mut unread = UnreadFields::default();
        let mut payload = frame.payload(&mut unread);
        self.metrics.unread(unread.iter());
        if let EnvelopePayload::Message(incoming) = &mut payload {
            self.attribute_event(incoming, channels).await;
        }
        let (outcome, effects) = match self.take(&payload, channels).await {
            Ok((outcome, effects)) => (outcome, Some(effects)),
            Err(error) => {
                tracing::warn!(%error, "message_write_failed");
                ("failed", None)
            }
        };
        self.metrics.envelope(outcome);
        effects
    }

    /// A reply from a page, or from a modal, comes back as a message of our own. If its process died before it was stored,
    /// this is how it is heard of at once.
    async fn attribute_event(&self, incoming: &mut MessageEvent, channels: &[RepoChannel]) {
        let payload = own_metadata(incoming.message.metadata.as_ref());
        let kind = payload.and_then(|payload| payload["kind"].as_str());
        if !matches!(kind, Some(attribution::PAGE_KIND | attribution::FEEDBACK_KIND)) {
            return;
        }
        let own = channels.iter().filter(|known| known.id == incoming.channel && known.is_own);
        for channel in own {
            let Some(repo) = self.context.repo(&channel.namespace, &channel.repo) else { continue };
            if let Ok(account) = self.account(&repo).await {
                attribution::attribute_reply(&mut incoming.message, &account);
            }
        }
    }

    /// Takes in what is in an envelope; answers what it was, too.
    async fn take(
        &self,
        payload: &EnvelopePayload,
        channels: &[RepoChannel],
    ) -> Result<(&'static str, Vec<RouteEffect>), TakeError> {
        let one;
        let (channels, done) = match self.whose(payload, channels).await? {
            MessageOwner::Plain => (channels, None),
            MessageOwner::One(channel) => {
                one = [*channel];
                (&one[..], None)
            }
            MessageOwner::Done(effects) => (channels, Some(effects)),
        };
        let (outcome, action) = match payload {
            EnvelopePayload::Message(incoming) => {
                ("message", route::route_message(incoming, channels))
            }
            EnvelopePayload::Click(click) => ("click", route::route_click(click, channels)),
            EnvelopePayload::Why(given) => ("click", route::route_why(given, channels)),
            EnvelopePayload::Reaction(reaction) => {
                ("reaction", route::route_reaction(reaction, channels))
            }
            EnvelopePayload::Stopped(stopped) => ("click", route::route_stop(stopped, channels)),
            EnvelopePayload::Linked(linked) => ("links", route::route_links(linked, channels)),
            EnvelopePayload::Assisted(opened) => {
                ("assistant", route::route_assistant(opened, channels))
            }
            EnvelopePayload::Changed(changed) => {
                ("message", route::route_change(changed, channels))
            }
            EnvelopePayload::Ignored => ("ignored", RouteAction::Ignore(IgnoredReason::NotOurs)),
            EnvelopePayload::Unreadable => {
                ("unreadable", RouteAction::Ignore(IgnoredReason::NotOurs))
            }
            EnvelopePayload::Unknown => ("unknown", RouteAction::Ignore(IgnoredReason::NotOurs)),
        };
        if let Some(effects) = done {
            return Ok((outcome, effects));
        }
        let known = !matches!(outcome, "unknown" | "unreadable");
        let ignored = matches!(action, RouteAction::Ignore(_)) && known;
        let effects = self.carry_out(action).await?;
        Ok((if ignored { "ignored" } else { outcome }, effects))
    }

    /// Stores what is to be done; answers what follows, which may fail without harm.
    ///
    /// # Errors
    /// When it could not be stored.
    pub(crate) async fn carry_out(
        &self,
        action: RouteAction,
    ) -> Result<Vec<RouteEffect>, TakeError> {
        match action {
            RouteAction::Message { channel, root, requested_by, said } => {
                self.message(&channel, &root, &requested_by, &said).await
            }
            RouteAction::Help { channel, root, requested_by, said, wish } => {
                self.take_help(&channel, &root, &requested_by, (&said, wish)).await
            }
            RouteAction::Press { channel, root, press } => {
                self.take_press(&channel, &root, &press).await
            }
            RouteAction::Feedback { channel, root, verdict, trigger } => {
                self.take_feedback(&channel, &root, &verdict, trigger.as_deref()).await
            }
            RouteAction::Why { channel, given } => self.take_why(&channel, &given).await,
            RouteAction::WhyPosted { channel, posted } => {
                self.take_posted_why(&channel, &posted).await
            }
            RouteAction::Stop { channel, root, at, user } => {
                self.stop(&channel, &root, &at, &user).await
            }
            RouteAction::Changed { channel, root, ts, at, said } => {
                let at = at.unwrap_or_else(slack_now);
                self.changed(&channel, &root, (&ts, &at), said.as_ref()).await
            }
            RouteAction::Reaction { channel, reacted } => self.reacted(&channel, &reacted).await,
            RouteAction::Direct { im, ts, root, channels } => {
                let news = self.handled.directly.first_time((im.clone(), ts.clone()));
                let direct = RouteEffect::Direct { im, asked: ts, root, channels };
                Ok(if news { vec![direct] } else { Vec::new() })
            }
            RouteAction::Suggest { im, thread, channels } => {
                Ok(vec![RouteEffect::Suggest { im, thread, channels }])
            }
            RouteAction::Linked { channels, ts, links } => {
                Ok(vec![RouteEffect::Preview { channels, ts, links }])
            }
            RouteAction::Ignore(IgnoredReason::Channel(channel)) => {
                if self.channels.is_new_stranger(&channel) {
                    tracing::info!(channel, "channel_ignored");
                }
                Ok(Vec::new())
            }
            RouteAction::Ignore(IgnoredReason::Shared { channel, bot }) => {
                self.another_installation(&channel, &bot).await;
                Ok(Vec::new())
            }
            RouteAction::Ignore(IgnoredReason::Unnamed(called)) => Ok(self.take_unnamed(called)),
            RouteAction::Ignore(_) => Ok(Vec::new()),
        }
    }

    /// A bot that is not heard is told so once, and not for a message that comes back from the history.
    fn take_unnamed(&self, called: Box<UnnamedBot>) -> Vec<RouteEffect> {
        let key = (called.channel.clone(), called.bot.clone());
        let is_new = help::is_fresh(&called.asked, jiff::Timestamp::now())
            && self.handled.unnamed.first_time(key);
        is_new.then_some(RouteEffect::TellBot(called)).into_iter().collect()
    }

    /// A channel has people of another organisation in it: told on its Repo, which may not know.
    async fn is_shared(&self, id: &str, channels: &[RepoChannel]) {
        if !self.channels.note_outside(id) {
            return;
        }
        for channel in channels.iter().filter(|channel| channel.id == id) {
            let Some(repo) = self.context.repo(&channel.namespace, &channel.repo) else { continue };
            if let Ok(account) = self.account(&repo).await {
                self.reach.tell(&repo, self.standing(&account, &repo)).await;
            }
        }
    }

    /// CodeButler speaks with this app where none of our Repos is: told on those that use it.
    async fn another_installation(&self, channel: &str, bot: &str) {
        // A Repo that is gone leaves Threads whose farewell is heard here too.
        let threads = self.context.threads.state();
        if threads.iter().filter_map(|thread| thread.conversation()).any(|s| s.channel == channel) {
            return;
        }
        tracing::warn!(channel, "slack_app_shared");
        self.channels.note_shared_app(bot);
        for repo in self.context.repos.state() {
            if let Ok(account) = self.account(&repo).await
                && account.user.as_deref() == Some(bot)
            {
                self.reach.tell(&repo, self.standing(&account, &repo)).await;
            }
        }
    }

    pub(crate) async fn message(
        &self,
        channel: &RepoChannel,
        root: &SlackTs,
        requested_by: &str,
        said: &PersonMessage,
    ) -> Result<Vec<RouteEffect>, TakeError> {
        let repo = self.context.repo(&channel.namespace, &channel.repo);
        let may =
            |repo: &Repo| said.is_bot || access::permits_user(&repo.spec.access.users, &said.user);
        if repo.as_ref().is_some_and(|repo| !may(repo)) {
            return Ok(self.declined(channel, root, said));
        }
        let ours = Some(requested_by) == channel.bot_user.as_deref();
        // A reply that begins a conversation is its first request: the message above it may be an alert, or of somebody
        // who may not steer.
        let starter = &*said.user;
        let thread = match self.find(channel, root, ours).await? {
            Some(thread) => thread,
            None if self.has_ended(channel, root, &said.ts) => return Ok(Vec::new()),
            None => self.start(channel, root, starter).await?,
        };
        let mut key = ThreadKey::from(&*thread);
        tracing::Span::current().record("thread", display(&key));
        if thread.is_going() {
            return Err(TakeError::Going(key.name));
        }
        if thread.spec.state == ThreadState::Closed {
            return Ok(vec![RouteEffect::TellClosed { thread: key }]);
        }
        // Words may answer what was posted before the gateway has recorded that it asks.
        let _turn = if said.intent.is_some() || said.verdict.is_some() {
            tokio::time::timeout(PATIENCE, self.posting.lock(&key)).await.ok()
        } else {
            None
        };
        let refused = match &repo {
            Some(repo) if said.decides() => self.refusal(repo, &said.user).await?,
            _ => None,
        };
        let stored = match self.store(&key, channel, said, refused).await {
            Err(WriteError::Missing(_)) => {
                // Deleted since it was cached: the conversation begins anew.
                if self.has_ended(channel, root, &said.ts) {
                    return Ok(Vec::new());
                }
                key = channel.thread(root);
                self.start(channel, root, starter).await?;
                self.store(&key, channel, said, refused).await?
            }
            other => other?,
        };
        let mut effects = Vec::new();
        if stored.thread.spec.state == ThreadState::Closed {
            return Ok(vec![RouteEffect::TellClosed { thread: key }]);
        }
        if let (Some(repo), Some(words)) = (&repo, &said.words) {
            self.decided(&key, repo, said, words).await;
        }
        self.kept.hear(&key, &said.ts);
        let id = (channel.id.clone(), said.ts.clone());
        if self.handled.seen.first_time(id) {
            let sign = if stored.taken == TakenMessage::Thanked { "blush" } else { "eyes" };
            effects.push(RouteEffect::Seen { thread: key.clone(), ts: said.ts.clone(), sign });
            effects.extend(explain_overlooked(said, &key, &stored.thread));
        }
        if stored.full {
            let text = ChangeRefusal::Full.to_string();
            effects.push(RouteEffect::Whisper {
                thread: key.clone(),
                user: said.user.clone(),
                text,
            });
        }
        match stored.taken {
            TakenMessage::Message | TakenMessage::Thanked => {}
            TakenMessage::Decided(_) | TakenMessage::Answered => {
                effects.push(RouteEffect::Settled { thread: key });
            }
            TakenMessage::Revoked => {
                let (user, text) = (said.user.clone(), REVOKED.to_owned());
                effects.push(RouteEffect::Whisper { thread: key, user, text });
            }
            TakenMessage::Unclear => {
                let (user, text) = (said.user.clone(), UNCLEAR.to_owned());
                effects.push(RouteEffect::Whisper { thread: key, user, text });
            }
            TakenMessage::Refused(why) => {
                let (user, text) = (said.user.clone(), why.to_owned());
                effects.push(RouteEffect::Whisper { thread: key, user, text });
            }
        }
        Ok(effects)
    }

    /// Tells somebody that they may not steer, once in each conversation.
    fn declined(
        &self,
        channel: &RepoChannel,
        root: &SlackTs,
        said: &PersonMessage,
    ) -> Vec<RouteEffect> {
        if !self.handled.declined.first_time((channel.id.clone(), root.clone(), said.user.clone()))
        {
            return Vec::new();
        }
        let repo = (channel.namespace.clone(), channel.repo.clone());
        vec![RouteEffect::Decline { repo, root: root.clone(), user: said.user.clone() }]
    }

    /// The Thread of a conversation. `ours`: CodeButler began it.
    pub(crate) async fn find(
        &self,
        channel: &RepoChannel,
        root: &SlackTs,
        ours: bool,
    ) -> Result<Option<Arc<Thread>>, TakeError> {
        let is_it = |thread: &Arc<Thread>| {
            thread.conversation().is_some_and(|s| s.channel == channel.id && s.ts == *root)
        };
        let opened = self.opened.find(&channel.id, root).and_then(|key| self.thread(&key));
        if let Some(thread) = opened.filter(is_it) {
            return Ok(Some(thread));
        }
        match self.thread(&channel.thread(root)) {
            Some(thread) if is_it(&thread) => Ok(Some(thread)),
            Some(thread) => Err(TakeError::NameTaken(thread.name_any())),
            // Opened a moment ago, perhaps by another replica.
            None if ours => Ok(opening::find_thread(self, channel, root).await?),
            None => Ok(None),
        }
    }

    async fn store(
        &self,
        key: &ThreadKey,
        channel: &RepoChannel,
        said: &PersonMessage,
        refused: Option<&'static str>,
    ) -> Result<StoredInput, WriteError> {
        let now = Time(jiff::Timestamp::now());
        // The replica that serves the Repo's agents learns of it from the Thread, unless it is this one.
        let is_new = !self.handled.seen.contains(&(channel.id.clone(), said.ts.clone()));
        let elsewhere = is_new && !self.leading.has(&key.namespace, &channel.repo);
        let take = |status: &mut ThreadStatus| {
            status.heard_from(&said.user);
            feedback::take_reply(status, &said.user, &said.ts);
            let taken = match refused {
                Some(why) => message_outcome::take_refused(status, said, why, &channel.team, &now)?,
                None => message_outcome::take_message(status, said, &channel.team, &now)?,
            };
            if elsewhere {
                threads::note_unmarked(status, &said.ts);
            }
            Ok(taken)
        };
        match self.threads.try_update(key, take).await {
            Ok((thread, taken)) => Ok(StoredInput { thread, taken, full: false }),
            Err(WriteError::Refused(ChangeRefusal::Full)) => {
                // The decision has no place, but the message itself is not to be lost.
                let plain = PersonMessage { intent: None, verdict: None, ..said.clone() };
                let take = |status: &mut ThreadStatus| {
                    message_outcome::take_message(status, &plain, &channel.team, &now)
                };
                let (thread, _) = self.threads.try_update(key, take).await?;
                Ok(StoredInput { thread, taken: TakenMessage::Message, full: true })
            }
            Err(error) => Err(error),
        }
    }

    /// Creates the Thread of a conversation.
    async fn start(
        &self,
        channel: &RepoChannel,
        root: &SlackTs,
        requested_by: &str,
    ) -> Result<Arc<Thread>, WriteError> {
        let key = channel.thread(root);
        let spec = ThreadSpec {
            repo: channel.repo.clone(),
            slack: Some(SlackThread { channel: channel.id.clone(), ts: root.clone() }),
            requested_by: Some(requested_by.to_owned()),
            ..ThreadSpec::default()
        };
        let mut thread = Thread::new(&key.name, spec);
        thread.metadata.namespace = Some(key.namespace.clone());
        thread.labels_mut().insert(names::LABEL_REPO.to_owned(), channel.repo.clone());
        // The conversation is told when it goes.
        thread.metadata.finalizers = Some(vec![names::FINALIZER.to_owned()]);
        // Goes with its Repo.
        let repo = self.context.repo(&channel.namespace, &channel.repo);
        thread.metadata.owner_references =
            repo.and_then(|repo| repo.owner_ref(&())).map(|r| vec![r]);
        self.threads.ensure(thread).await.map(Arc::new)
    }
}

/// A line for somebody whose yes or no stands beside something else, if a question waits for an answer.
fn explain_overlooked(
    said: &PersonMessage,
    key: &ThreadKey,
    thread: &Thread,
) -> Option<RouteEffect> {
    let status = thread.status.as_ref().filter(|_| said.is_overlooked)?;
    let is_asked = threads::open_questions(status).iter().any(|asked| *asked < said.ts);
    let (thread, user, text) = (key.clone(), said.user.clone(), BESIDE.to_owned());
    is_asked.then_some(RouteEffect::Whisper { thread, user, text })
}

/// Outcome of storing a message.
struct StoredInput {
    thread: Arc<Thread>,
    taken: TakenMessage,
    full: bool,
}
