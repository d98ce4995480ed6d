//! Taking in: what a message or click changes in its Thread, stored before anything else happens.

use std::sync::Arc;
use std::time::Duration;

use codebutler_crds::thread::{SlackThread, ThreadState};
use codebutler_crds::wire::Decision;
use codebutler_crds::{SlackTs, Thread, ThreadSpec, ThreadStatus, names};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::Time;
use kube::{Resource as _, ResourceExt as _};

use super::Inner;
use super::decision::{self, ClickOutcome, Clicked, Decided, Said};
use super::effects::Effect;
use super::event::{Frame, Payload};
use super::metrics::EnvelopeLabels;
use super::route::{self, Action, Channel, Ignored};
use crate::gateway::context::ThreadKey;
use crate::gateway::threads::{Refusal, WriteError};

/// How long a decision waits for a post that is under way: Slack wants its answer within three
/// seconds.
pub(super) const PATIENCE: Duration = Duration::from_secs(2);

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
    pub async fn carry_out(&self, action: Action) -> Result<Vec<Effect>, WriteError> {
        match action {
            Action::Message { channel, root, requested_by, said } => {
                self.message(&channel, &root, &requested_by, &said).await
            }
            Action::Click { channel, root, clicked } => self.click(&channel, &root, &clicked).await,
            Action::Money { channel, root, clicked } => self.money(&channel, &root, &clicked).await,
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
    ) -> Result<Vec<Effect>, WriteError> {
        let key = channel.thread(root);
        let thread = match self.thread(&key) {
            Some(thread) => thread,
            None => self.start(channel, root, requested_by).await?,
        };
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
                self.start(channel, root, requested_by).await?;
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
        if let Some(Decided { asked, choice }) = stored.decided {
            let (told, user) = (choice.told(), said.user.clone());
            effects.push(Effect::Answered { thread: key, asked, told, user });
        }
        Ok(effects)
    }

    async fn store(
        &self,
        key: &ThreadKey,
        channel: &Channel,
        said: &Said,
    ) -> Result<Stored, WriteError> {
        let now = Time(jiff::Timestamp::now());
        let take = |status: &mut ThreadStatus| {
            status.speaker = Some(said.user.clone());
            decision::take_message(status, said, channel.first(), &now)
        };
        match self.threads.try_update(key, take).await {
            Ok((thread, decided)) => Ok(Stored { thread, decided, full: false }),
            Err(WriteError::Refused(Refusal::Full)) => {
                // The decision has no place, but the message itself is not to be lost.
                let plain = Said { intent: None, ..said.clone() };
                let take = |status: &mut ThreadStatus| {
                    decision::take_message(status, &plain, channel.first(), &now)
                };
                let (thread, _) = self.threads.try_update(key, take).await?;
                Ok(Stored { thread, decided: None, full: true })
            }
            Err(error) => Err(error),
        }
    }

    async fn click(
        &self,
        channel: &Channel,
        root: &SlackTs,
        clicked: &Clicked,
    ) -> Result<Vec<Effect>, WriteError> {
        let key = channel.thread(root);
        let (thread, user) = (key.clone(), clicked.user.clone());
        let stale = |text: &str| {
            let (thread, user) = (thread.clone(), user.clone());
            Ok(vec![Effect::Whisper { thread, user, text: text.to_owned() }])
        };
        match self.thread(&key) {
            Some(thread) if thread.spec.state == ThreadState::Active => {}
            Some(_) => return stale("This thread is closed."),
            None => return Ok(Vec::new()),
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
                let (asked, told) = (clicked.message.clone(), clicked.choice.told());
                Ok(vec![Effect::Answered { thread: key, asked, told, user: user.clone() }])
            }
            Ok((thread, ClickOutcome::Stale)) if unrecorded(&thread, clicked) => {
                stale("This was posted a moment ago and is not recorded yet: please click again.")
            }
            Ok((_, ClickOutcome::Stale)) => {
                stale("This is no longer open: it was answered, or a newer message asks.")
            }
            Err(WriteError::Refused(refusal)) => stale(&refusal.to_string()),
            Err(WriteError::Missing(_)) => Ok(Vec::new()),
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
            slack: SlackThread { channel: channel.id.clone(), ts: root.clone() },
            requested_by: Some(requested_by.to_owned()),
            state: ThreadState::Active,
        };
        let mut thread = Thread::new(&key.name, spec);
        thread.metadata.namespace = Some(key.namespace.clone());
        thread.labels_mut().insert(names::LABEL_REPO.to_owned(), channel.repo.clone());
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
    decided: Option<Decided>,
    full: bool,
}
