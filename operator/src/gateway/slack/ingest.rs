//! Taking in: what a message or click changes in its Thread, stored before anything else happens.

use std::sync::{Arc, PoisonError};
use std::time::Instant;

use codebutler_crds::thread::{SlackThread, ThreadState};
use codebutler_crds::{Repo, SlackTs, Thread, ThreadSpec, ThreadStatus, names};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::Time;
use kube::{Resource as _, ResourceExt as _};
use tracing::field::display;

use super::channel::Channel;
use super::effects::Effect;
use super::event::{Frame, Payload};
use super::route;
use super::route::{Action, Ignored};
use super::said::Said;
use super::take_error::PATIENCE;
use super::take_error::TakeError;
use super::taking;
use super::taking::Taken;
use super::which::Whose;
use super::{Inner, access, open};
use crate::gateway::thread_key::ThreadKey;
use crate::gateway::threads::{Refusal, WriteError};

/// Told to who says yes or no where that can mean several things.
const REVOKED: &str = "Nothing is approved for this thread any more: people are asked each time.";
const UNCLEAR: &str = "That decided nothing: several questions are open here, or something else was asked since. Please \
     press the button of the one that you mean.";

impl Inner {
    /// Takes in an envelope. None: it could not be stored and has to come again.
    pub async fn take_in(&self, frame: &Frame, channels: &[Channel]) -> Option<Vec<Effect>> {
        if let Some(channel) = frame.shared_channel() {
            self.is_shared(channel, channels).await;
        }
        let (outcome, effects) = match self.take(&frame.payload(), channels).await {
            Ok((outcome, effects)) => (outcome, Some(effects)),
            Err(error) => {
                tracing::warn!(%error, "not stored: it will come again");
                ("failed", None)
            }
        };
        self.metrics.envelope(outcome);
        effects
    }

    /// Takes in what is in an envelope; answers what it was, too.
    async fn take(
        &self,
        payload: &Payload,
        channels: &[Channel],
    ) -> Result<(&'static str, Vec<Effect>), TakeError> {
        let one;
        let (channels, done) = match self.whose(payload, channels).await? {
            Whose::Plain => (channels, None),
            Whose::One(channel) => {
                one = [*channel];
                (&one[..], None)
            }
            Whose::Done(effects) => (channels, Some(effects)),
        };
        let (outcome, action) = match payload {
            Payload::Message(incoming) => ("message", route::route_message(incoming, channels)),
            Payload::Click(click) => ("click", route::route_click(click, channels)),
            Payload::Reaction(reaction) => ("reaction", route::route_reaction(reaction, channels)),
            Payload::Stopped(stopped) => ("click", route::route_stop(stopped, channels)),
            Payload::Changed(changed) => ("message", route::route_change(changed, channels)),
            Payload::Ignored => ("ignored", Action::Ignore(Ignored::NotOurs)),
            Payload::Unknown => ("unknown", Action::Ignore(Ignored::NotOurs)),
        };
        if let Some(effects) = done {
            return Ok((outcome, effects));
        }
        let ignored = matches!(action, Action::Ignore(_)) && outcome != "unknown";
        let effects = self.carry_out(action).await?;
        Ok((if ignored { "ignored" } else { outcome }, effects))
    }

    /// Stores what is to be done; answers what follows, which may fail without harm.
    ///
    /// # Errors
    /// When it could not be stored.
    pub async fn carry_out(&self, action: Action) -> Result<Vec<Effect>, TakeError> {
        match action {
            Action::Message { channel, root, requested_by, said } => {
                self.message(&channel, &root, &requested_by, &said).await
            }
            Action::Press { channel, root, press } => {
                self.take_press(&channel, &root, &press).await
            }
            Action::Stop { channel, root, at, user } => {
                self.stop(&channel, &root, &at, &user).await
            }
            Action::Changed { channel, root, ts, said } => {
                self.changed(&channel, &root, &ts, said.as_ref()).await
            }
            Action::Reaction { channel, reacted } => self.reacted(&channel, &reacted).await,
            Action::Direct { im, ts, channels } => {
                let news = self.directly.first_time((im.clone(), ts));
                Ok(if news { vec![Effect::Direct { im, channels }] } else { Vec::new() })
            }
            Action::Ignore(Ignored::Channel(channel)) => {
                if self.strangers.first_time(channel.clone()) {
                    tracing::info!(channel, "messages of a channel that no Repo names: ignored");
                }
                Ok(Vec::new())
            }
            Action::Ignore(Ignored::Shared { channel, bot }) => {
                self.another_installation(&channel, &bot).await;
                Ok(Vec::new())
            }
            Action::Ignore(_) => Ok(Vec::new()),
        }
    }

    /// A channel has people of another organisation in it: told on its Repo, which may not know.
    async fn is_shared(&self, id: &str, channels: &[Channel]) {
        if !self.outside.first_time(id.to_owned()) {
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
        tracing::warn!(channel, "another installation of CodeButler uses the same Slack app");
        self.shared
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
            .insert(bot.to_owned(), Instant::now());
        for repo in self.context.repos.state() {
            if let Ok(account) = self.account(&repo).await
                && account.user.as_deref() == Some(bot)
            {
                self.reach.tell(&repo, self.standing(&account, &repo)).await;
            }
        }
    }

    async fn message(
        &self,
        channel: &Channel,
        root: &SlackTs,
        requested_by: &str,
        said: &Said,
    ) -> Result<Vec<Effect>, TakeError> {
        let repo = self.context.repo(&channel.namespace, &channel.repo);
        let may =
            |repo: &Repo| said.is_bot || access::permits_user(&repo.spec.access.users, &said.user);
        if repo.as_ref().is_some_and(|repo| !may(repo)) {
            return Ok(self.declined(channel, root, said));
        }
        let ours = Some(requested_by) == channel.bot_user.as_deref();
        let starter = if ours { &*said.user } else { requested_by };
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
            return Ok(vec![Effect::TellClosed { thread: key }]);
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
            return Ok(vec![Effect::TellClosed { thread: key }]);
        }
        if let (Some(repo), Some(words)) = (&repo, &said.words) {
            self.decided(&key, repo, said, words).await;
        }
        let id = (channel.id.clone(), said.ts.clone());
        if self.seen.first_time(id) {
            effects.push(Effect::Eyes { thread: key.clone(), ts: said.ts.clone() });
        }
        if stored.full {
            let text = Refusal::Full.to_string();
            effects.push(Effect::Whisper { thread: key.clone(), user: said.user.clone(), text });
        }
        match stored.taken {
            Taken::Message => {}
            Taken::Decided(_) | Taken::Answered => effects.push(Effect::Settled { thread: key }),
            Taken::Revoked => {
                let (user, text) = (said.user.clone(), REVOKED.to_owned());
                effects.push(Effect::Whisper { thread: key, user, text });
            }
            Taken::Unclear => {
                let (user, text) = (said.user.clone(), UNCLEAR.to_owned());
                effects.push(Effect::Whisper { thread: key, user, text });
            }
            Taken::Refused(why) => {
                let (user, text) = (said.user.clone(), why.to_owned());
                effects.push(Effect::Whisper { thread: key, user, text });
            }
        }
        Ok(effects)
    }

    /// What somebody is told who may not steer: once in each conversation.
    fn declined(&self, channel: &Channel, root: &SlackTs, said: &Said) -> Vec<Effect> {
        if !self.declined.first_time((channel.id.clone(), root.clone(), said.user.clone())) {
            return Vec::new();
        }
        let repo = (channel.namespace.clone(), channel.repo.clone());
        vec![Effect::Decline { repo, root: root.clone(), user: said.user.clone() }]
    }

    /// The Thread of a conversation. `ours`: CodeButler began it.
    pub(super) async fn find(
        &self,
        channel: &Channel,
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
            None if ours => Ok(open::find_thread(self, channel, root).await?),
            None => Ok(None),
        }
    }

    async fn store(
        &self,
        key: &ThreadKey,
        channel: &Channel,
        said: &Said,
        refused: Option<&'static str>,
    ) -> Result<Stored, WriteError> {
        let now = Time(jiff::Timestamp::now());
        let take = |status: &mut ThreadStatus| {
            status.speaker = Some(said.user.clone());
            match refused {
                Some(why) => taking::take_refused(status, said, why, &channel.team, &now),
                None => taking::take_message(status, said, &channel.team, &now),
            }
        };
        match self.threads.try_update(key, take).await {
            Ok((thread, taken)) => Ok(Stored { thread, taken, full: false }),
            Err(WriteError::Refused(Refusal::Full)) => {
                // The decision has no place, but the message itself is not to be lost.
                let plain = Said { intent: None, verdict: None, ..said.clone() };
                let take = |status: &mut ThreadStatus| {
                    taking::take_message(status, &plain, &channel.team, &now)
                };
                let (thread, _) = self.threads.try_update(key, take).await?;
                Ok(Stored { thread, taken: Taken::Message, full: true })
            }
            Err(error) => Err(error),
        }
    }

    /// Creates the Thread of a conversation.
    async fn start(
        &self,
        channel: &Channel,
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

/// What storing a message led to.
struct Stored {
    thread: Arc<Thread>,
    taken: Taken,
    full: bool,
}
