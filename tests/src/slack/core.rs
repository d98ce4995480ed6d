//! The server's state behind one lock, and the events that its changes make.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use serde_json::{Map, Value, json};
use tokio::sync::{broadcast, watch};
use tokio_util::sync::CancellationToken;

use super::delivery::{DeliveryTimer, EnvelopeKind, EventDispatcher};
use super::failure::{MethodFailure, fail_with};
use super::limits::MethodLimits;
use super::modal_desk::ModalDesk;
use super::openid_grants::OpenId;
use super::options::SlackOptions;
use super::render::{self, MetadataView};
use super::response_hook::ResponseHook;
use super::view::{AgentSession, MessageView, SlackChange};
use super::world::{SlackChannel, SlackMessage, SlackWorld, unix_now};

/// What the HTTP handlers, the socket tasks and the driver share.
pub(super) struct SharedSlack {
    core: Mutex<SlackCore>,
    pub version: watch::Sender<u64>,
    pub stop: CancellationToken,
    pub origin: String,
    /// Lets the chat page in, and no other web page.
    pub page_token: String,
    runtime: tokio::runtime::Handle,
}

/// The state.
pub(super) struct SlackCore {
    pub world: SlackWorld,
    pub dispatcher: EventDispatcher,
    pub limits: MethodLimits,
    pub options: SlackOptions,
    pub changes: broadcast::Sender<SlackChange>,
    pub hooks: BTreeMap<String, ResponseHook>,
    pub modals: ModalDesk,
    /// Members of user groups.
    pub groups: BTreeMap<String, Vec<String>>,
    /// Kinds of blocks that the workspace does not know yet.
    pub unknown_blocks: BTreeSet<String>,
    /// Agent sessions, by channel and thread.
    pub sessions: BTreeMap<(String, String), AgentSession>,
    /// Messages of suggested prompts, by conversation with the app.
    pub prompts: BTreeMap<String, Vec<String>>,
    pub bot_token: String,
    pub app_token: String,
    /// Why the workspace does not know the app's tokens any more.
    pub revoked: Option<String>,
    /// Who signs in by Slack, and with what.
    pub openid: OpenId,
    /// Set when the app's Socket Mode was switched off.
    pub link_disabled: bool,
    /// Messages that the history does not have yet, by channel and ts.
    pub unindexed: BTreeSet<(String, String)>,
}

impl SharedSlack {
    pub(super) fn new(core: SlackCore, origin: String) -> Self {
        let page_token = core.options.page_token.clone().unwrap_or_else(random_secret);
        Self {
            core: Mutex::new(core),
            version: watch::Sender::new(0),
            stop: CancellationToken::new(),
            origin,
            page_token,
            runtime: tokio::runtime::Handle::current(),
        }
    }

    fn lock(&self) -> MutexGuard<'_, SlackCore> {
        self.core.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Looks at the state.
    pub(super) fn read<T>(&self, look: impl FnOnce(&SlackCore) -> T) -> T {
        look(&self.lock())
    }

    /// Changes the state, starts the timers that the change asks for, and wakes who waits.
    pub(super) fn update<T>(self: &Arc<Self>, change: impl FnOnce(&mut SlackCore) -> T) -> T {
        let (result, timers) = {
            let mut core = self.lock();
            let result = change(&mut core);
            (result, core.dispatcher.take_timers())
        };
        self.start(timers);
        self.version.send_modify(|version| *version += 1);
        result
    }

    /// Not generic, so that a timer's own change can start timers.
    fn start(self: &Arc<Self>, timers: Vec<(Duration, DeliveryTimer)>) {
        for (after, timer) in timers {
            let inner = Arc::downgrade(self);
            let stop = self.stop.clone();
            self.runtime.spawn(async move {
                tokio::select! {
                    () = tokio::time::sleep(after) => {}
                    () = stop.cancelled() => return,
                }
                if let Some(inner) = inner.upgrade() {
                    inner.fire(timer);
                }
            });
        }
    }

    fn fire(self: &Arc<Self>, timer: DeliveryTimer) {
        self.update(|core| core.fire(timer));
    }
}

fn random_secret() -> String {
    uuid::Uuid::new_v4().simple().to_string()
}

impl SlackCore {
    pub(super) fn new(mut options: SlackOptions) -> Self {
        let world = options.world.take();
        let world = world.unwrap_or_else(|| SlackWorld::new(&options.team_name, &options.bot_name));
        Self {
            dispatcher: EventDispatcher::new(options.timing.clone()),
            limits: MethodLimits::default(),
            changes: broadcast::Sender::new(4096),
            hooks: BTreeMap::new(),
            modals: ModalDesk::default(),
            groups: BTreeMap::new(),
            unknown_blocks: BTreeSet::new(),
            sessions: BTreeMap::new(),
            prompts: BTreeMap::new(),
            openid: OpenId::new(format!("{}.{}", unix_now(), world.app.id), random_secret()),
            bot_token: format!("xoxb-{}", random_secret()),
            app_token: format!("xapp-1-{}-{}", world.app.id, random_secret()),
            revoked: None,
            link_disabled: false,
            unindexed: BTreeSet::new(),
            world,
            options,
        }
    }

    fn fire(&mut self, timer: DeliveryTimer) {
        if let DeliveryTimer::Share { channels, message } = timer {
            for channel in &channels {
                self.post(channel, (*message).clone());
            }
            return;
        }
        let lost = self.dispatcher.fire(timer);
        if let Some(click) = lost.filter(|lost| lost.kind == EnvelopeKind::Interactive) {
            let action_ts = click.key.clone();
            self.announce(SlackChange::ClickFailed { action_ts });
        }
    }

    /// Tells subscribers; nobody listening is fine.
    pub(super) fn announce(&self, change: SlackChange) {
        let _ = self.changes.send(change);
    }

    pub(super) fn require(&self, scope: &str) -> Result<(), MethodFailure> {
        if self.options.scopes.iter().any(|granted| granted == scope) {
            return Ok(());
        }
        Err(MethodFailure::missing_scope(scope, &self.options.scopes))
    }

    /// A channel that the app may know of: private ones only from within.
    pub(super) fn visible(&self, id: &str) -> Result<&SlackChannel, MethodFailure> {
        match self.world.channels.get(id) {
            Some(channel) if !channel.is_private || self.world.bot_in(channel) => Ok(channel),
            _ => fail_with("channel_not_found"),
        }
    }

    /// A channel that the app is in.
    pub(super) fn joined(&self, id: &str) -> Result<&SlackChannel, MethodFailure> {
        let channel = self.visible(id)?;
        if self.world.bot_in(channel) { Ok(channel) } else { fail_with("not_in_channel") }
    }

    /// A channel that the app is in and that is not archived.
    pub(super) fn writable(&self, id: &str) -> Result<&SlackChannel, MethodFailure> {
        let channel = self.joined(id)?;
        if channel.is_archived { fail_with("is_archived") } else { Ok(channel) }
    }

    pub(super) fn view(&self, channel: &SlackChannel, message: &SlackMessage) -> MessageView {
        MessageView::of(&self.world, channel, message)
    }

    /// A message as events show it.
    pub(super) fn for_event(
        &self,
        channel: &SlackChannel,
        message: &SlackMessage,
    ) -> Map<String, Value> {
        let declared = MetadataView::Declared(&self.options.metadata_subscriptions);
        render::render_message(&self.world, channel, message, declared)
    }

    /// Sends an event about a channel if the app is in it and subscribes to the type.
    /// `channel` and `channel_type` are added to message events.
    pub(super) fn emit(&mut self, channel_id: &str, key: &str, mut event: Map<String, Value>) {
        let Some(channel) = self.world.channels.get(channel_id) else { return };
        // Links are told of wherever they are posted, other things where the app is.
        let everywhere = event.get("type").is_some_and(|kind| kind == "link_shared");
        if !self.world.bot_in(channel) && !everywhere {
            return;
        }
        let kind = match channel {
            SlackChannel { is_im: true, .. } => "im",
            SlackChannel { is_private: true, .. } => "group",
            SlackChannel { .. } => "channel",
        };
        let is_shared = !self.world.strange_teams(channel).is_empty();
        let event_type = event.get("type").and_then(Value::as_str).unwrap_or_default().to_owned();
        let subscription = match event_type.as_str() {
            "message" if kind == "im" => "message.im".to_owned(),
            "message" => format!("message.{kind}s"),
            other => other.to_owned(),
        };
        if !self.options.subscriptions.contains(&subscription) {
            return;
        }
        if event_type == "message" || event_type == "app_mention" {
            event.insert("channel".to_owned(), json!(channel_id));
        }
        if event_type == "message" {
            event.insert("channel_type".to_owned(), json!(kind));
        }
        event.insert("event_ts".to_owned(), json!(key));
        let event_id = self.world.id('E').replacen('E', "Ev", 1);
        let payload = json!({
            "token": "verification-token",
            "team_id": self.world.team.id,
            "context_team_id": self.world.team.id,
            "context_enterprise_id": null,
            "api_app_id": self.world.app.id,
            "event": event,
            "type": "event_callback",
            "event_id": event_id,
            "event_time": unix_now(),
            "authorizations": [{
                "enterprise_id": null,
                "team_id": self.world.team.id,
                "user_id": self.world.app.user_id,
                "is_bot": true,
                "is_enterprise_install": false,
            }],
            "is_ext_shared_channel": is_shared,
            "event_context": format!("4-{event_id}"),
        });
        let kind = EnvelopeKind::EventsApi;
        self.dispatcher.emit(kind, &event_type, key, Some(event_id), payload);
    }
}
