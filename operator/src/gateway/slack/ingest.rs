//! Taking in: what a message or click changes in its Thread, stored before anything else happens.

use std::sync::Arc;
use std::time::Duration;

use codebutler_crds::thread::{SlackThread, ThreadState};
use codebutler_crds::wire::Decision;
use codebutler_crds::{SlackTs, Thread, ThreadSpec, ThreadStatus, names};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::Time;
use kube::{Resource as _, ResourceExt as _};

use super::account::AccessError;
use super::decision::{self, ClickOutcome, Clicked, Said};
use super::effects::Effect;
use super::event::{Frame, Payload};
use super::metrics::EnvelopeLabels;
use super::route::{self, Action, Channel, Ignored};
use super::{Inner, open};
use crate::gateway::context::ThreadKey;
use crate::gateway::threads::{Refusal, WriteError};

/// How long a decision waits for a post that is under way: Slack wants its answer within three
/// seconds.
const PATIENCE: Duration = Duration::from_secs(2);

/// Why something was not taken in. It comes again.
#[derive(Debug, thiserror::Error)]
pub enum TakeError {
    /// The Thread.
    #[error(transparent)]
    Write(#[from] WriteError),
    /// Slack, when it had to be asked which Thread is meant.
    #[error(transparent)]
    Access(#[from] AccessError),
    /// Deleted, and the conversation is not told yet: what is said now begins it anew afterwards.
    #[error("the Thread `{0}` is being deleted")]
    Going(String),
    /// Somebody gave another Thread the name that belongs to this conversation.
    #[error("the Thread `{0}` is about another conversation")]
    NameTaken(String),
}

impl Inner {
    /// Takes in an envelope. None: it could not be stored and has to come again.
    pub async fn take_in(&self, frame: &Frame, channels: &[Channel]) -> Option<Vec<Effect>> {
        let (outcome, action) = match frame.payload() {
            Payload::Message(incoming) => ("message", route::message(&incoming, channels)),
            Payload::Click(click) => ("click", route::click(&click, channels)),
            Payload::Ignored => ("ignored", Action::Ignore(Ignored::NotOurs)),
            Payload::Unknown => ("unknown", Action::Ignore(Ignored::NotOurs)),
        };
        let ignored = matches!(action, Action::Ignore(_));
        let (outcome, effects) = match self.carry_out(action).await {
            Ok(_) if ignored && outcome != "unknown" => ("ignored", Some(Vec::new())),
            Ok(effects) => (outcome, Some(effects)),
            Err(error) => {
                tracing::warn!(%error, "not stored: it will come again");
                ("failed", None)
            }
        };
        self.metrics.envelopes.get_or_create(&EnvelopeLabels { outcome }).inc();
        effects
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
            Action::Click { channel, root, clicked } => self.click(&channel, &root, &clicked).await,
            Action::Ignore(Ignored::Channel(channel)) => {
                if self.strangers.first_time(channel.clone()) {
                    tracing::info!(channel, "messages of a channel that no Repo names: ignored");
                }
                Ok(Vec::new())
            }
            Action::Ignore(_) => Ok(Vec::new()),
        }
    }

    async fn message(
        &self,
        channel: &Channel,
        root: &SlackTs,
        requested_by: &str,
        said: &Said,
    ) -> Result<Vec<Effect>, TakeError> {
        let ours = Some(requested_by) == channel.bot_user.as_deref();
        let starter = if ours { &*said.user } else { requested_by };
        let thread = match self.find(channel, root, ours).await? {
            Some(thread) => thread,
            None if self.has_ended(channel, root, &said.ts) => return Ok(Vec::new()),
            None => self.start(channel, root, starter).await?,
        };
        let mut key = ThreadKey::from(&*thread);
        if thread.is_going() {
            return Err(TakeError::Going(key.name));
        }
        if thread.spec.state == ThreadState::Closed {
            return Ok(vec![Effect::TellClosed { thread: key }]);
        }
        // Words may answer what was posted before the gateway has recorded that it asks.
        let _turn = match said.intent {
            Some(_) => tokio::time::timeout(PATIENCE, self.posting.lock(&key)).await.ok(),
            None => None,
        };
        let stored = match self.store(&key, channel, said).await {
            Err(WriteError::Missing(_)) => {
                // Deleted since it was cached: the conversation begins anew.
                if self.has_ended(channel, root, &said.ts) {
                    return Ok(Vec::new());
                }
                key = channel.thread(root);
                self.start(channel, root, starter).await?;
                self.store(&key, channel, said).await?
            }
            other => other?,
        };
        let mut effects = Vec::new();
        if stored.thread.spec.state == ThreadState::Closed {
            return Ok(vec![Effect::TellClosed { thread: key }]);
        }
        let id = (channel.id.clone(), said.ts.clone());
        if self.seen.first_time(id) {
            effects.push(Effect::Eyes { thread: key.clone(), ts: said.ts.clone() });
        }
        if stored.full {
            let text = Refusal::Full.to_string();
            effects.push(Effect::Whisper { thread: key.clone(), user: said.user.clone(), text });
        }
        if stored.decided {
            effects.push(Effect::Settled { thread: key });
        }
        Ok(effects)
    }

    /// The Thread of a conversation. `ours`: CodeButler began it.
    async fn find(
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
            None if ours => Ok(open::find(self, channel, root).await?),
            None => Ok(None),
        }
    }

    async fn store(
        &self,
        key: &ThreadKey,
        channel: &Channel,
        said: &Said,
    ) -> Result<Stored, WriteError> {
        let now = Time(jiff::Timestamp::now());
        let take =
            |status: &mut ThreadStatus| decision::take_message(status, said, channel.first(), &now);
        match self.threads.try_update(key, take).await {
            Ok((thread, decided)) => Ok(Stored { thread, decided: decided.is_some(), full: false }),
            Err(WriteError::Refused(Refusal::Full)) => {
                // The decision has no place, but the message itself is not to be lost.
                let plain = Said { intent: None, ..said.clone() };
                let take = |status: &mut ThreadStatus| {
                    decision::take_message(status, &plain, channel.first(), &now)
                };
                let (thread, _) = self.threads.try_update(key, take).await?;
                Ok(Stored { thread, decided: false, full: true })
            }
            Err(error) => Err(error),
        }
    }

    async fn click(
        &self,
        channel: &Channel,
        root: &SlackTs,
        clicked: &Clicked,
    ) -> Result<Vec<Effect>, TakeError> {
        let Some(found) = self.find(channel, root, false).await? else { return Ok(Vec::new()) };
        let key = ThreadKey::from(&*found);
        let (thread, user) = (key.clone(), clicked.user.clone());
        let stale = |text: &str| {
            let (thread, user) = (thread.clone(), user.clone());
            Ok(vec![Effect::Whisper { thread, user, text: text.to_owned() }])
        };
        if found.is_going() {
            return stale("This thread is being deleted in the cluster.");
        }
        if found.spec.state == ThreadState::Closed {
            return stale("This thread is closed.");
        }
        let seen = (key.clone(), clicked.clone());
        if self.clicks.contains(&seen) {
            return Ok(Vec::new());
        }
        // A person may click before the gateway has recorded what the message asks.
        let turn = self.posting.lock(&key);
        let _turn = tokio::time::timeout(PATIENCE, turn).await.ok();
        let take = |status: &mut ThreadStatus| decision::take_click(status, clicked);
        match self.threads.try_update(&key, take).await {
            Ok((_, ClickOutcome::Counts)) => {
                self.clicks.first_time(seen);
                Ok(vec![Effect::Settled { thread: key }])
            }
            Ok((thread, ClickOutcome::Stale)) if unrecorded(&thread, clicked) => {
                stale("This was posted a moment ago and is not recorded yet: please click again.")
            }
            Ok((_, ClickOutcome::Stale)) => {
                stale("This is no longer open: it was answered, or a newer message asks.")
            }
            Err(WriteError::Refused(refusal)) => stale(&refusal.to_string()),
            Err(WriteError::Missing(_)) => Ok(Vec::new()),
            Err(error) => Err(error.into()),
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

/// Whether a click is on a message that is newer than any recorded question of its kind.
fn unrecorded(thread: &Thread, clicked: &Clicked) -> bool {
    let status = thread.status.as_ref();
    let recorded = match clicked.choice.decision() {
        Decision::Plan => status.and_then(|s| s.plan.as_ref()).map(|plan| &plan.ts),
        Decision::Merge => status.and_then(|s| s.closing.as_ref()).map(|closing| &closing.ts),
    };
    recorded.is_none_or(|recorded| *recorded < clicked.message)
}

/// What storing a message led to.
struct Stored {
    thread: Arc<Thread>,
    decided: bool,
    full: bool,
}
