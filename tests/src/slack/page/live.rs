//! Live data of the chat page: a snapshot first, then changes.

use std::convert::Infallible;

use axum::Json;
use axum::extract::State;
use axum::response::sse::{Event, KeepAlive, Sse};
use futures::{Stream, StreamExt as _, stream};
use serde::Serialize;
use tokio::sync::broadcast::error::RecvError;

use super::SharedPage;
use crate::slack::core::{SharedSlack, SlackCore};
use crate::slack::options::ChatSuggestion;
use crate::slack::view::{MessageView, SlackChange};
use crate::slack::world::{SlackApp, SlackUser, ThreadStatus};

/// Snapshot of the workspace, as the page first loads it.
#[derive(Serialize)]
pub(super) struct PageSnapshot {
    team: String,
    app: SlackApp,
    users: Vec<SlackUser>,
    channels: Vec<LivePlace>,
    /// Messages of all channels in no order, including replies and messages for one user.
    messages: Vec<MessageView>,
    statuses: Vec<ThreadStatus>,
    suggestions: Vec<ChatSuggestion>,
}

#[derive(Serialize)]
struct LivePlace {
    id: String,
    name: String,
    is_private: bool,
    is_archived: bool,
    members: Vec<String>,
}

/// A change, whole, so that one that arrives twice does no harm.
#[derive(Serialize)]
#[serde(tag = "kind", rename_all = "snake_case")]
enum PageUpdate {
    /// A message that is new or has changed.
    Message { message: Box<MessageView> },
    /// A message that was deleted.
    Deleted { channel: String, ts: String },
    /// The app's status in a thread.
    Status { channel: String, thread_ts: String, status: String },
    /// A click of a user on a button.
    Click { channel: String, ts: String, user: String, action_id: String, action_ts: String },
    /// The app took the click, or did not in time.
    ClickEnded { action_ts: String, acked: bool },
    /// Too much has changed: the page has to ask for everything again.
    Reload,
}

impl PageSnapshot {
    fn of(core: &SlackCore) -> Self {
        let world = &core.world;
        let messages = world.channels.values().flat_map(|channel| {
            let all = channel.messages.values().chain(channel.ephemerals.values());
            all.map(|message| core.view(channel, message))
        });
        let places = world.channels.values().map(|channel| LivePlace {
            id: channel.id.clone(),
            name: channel.name.clone(),
            is_private: channel.is_private,
            is_archived: channel.is_archived,
            members: channel.members.iter().cloned().collect(),
        });
        let current = |s: &&ThreadStatus| world.status(&s.channel, &s.thread_ts).is_some();
        Self {
            team: world.team.name.clone(),
            app: world.app.clone(),
            users: world.users.values().cloned().collect(),
            channels: places.collect(),
            messages: messages.collect(),
            statuses: world.statuses.iter().filter(current).cloned().collect(),
            suggestions: core.options.suggestions.clone(),
        }
    }
}

impl PageUpdate {
    fn of(inner: &SharedSlack, change: SlackChange) -> Option<Self> {
        let now = |channel: &str, ts: &str| {
            inner.read(|core| {
                let channel = core.world.channels.get(channel)?;
                let message = channel.any_message(ts)?;
                Some(Self::Message { message: Box::new(core.view(channel, message)) })
            })
        };
        match change {
            SlackChange::Posted { message }
            | SlackChange::Edited { message }
            | SlackChange::Ephemeral { message } => {
                Some(Self::Message { message: Box::new(message) })
            }
            SlackChange::Reaction { channel, ts, .. } => now(&channel, &ts),
            // A root with replies leaves a tombstone.
            SlackChange::Deleted { channel, ts } => {
                Some(now(&channel, &ts).unwrap_or(Self::Deleted { channel, ts }))
            }
            SlackChange::Status { channel, thread_ts, status } => {
                Some(Self::Status { channel, thread_ts, status })
            }
            SlackChange::Clicked { channel, ts, user, action_id, action_ts } => {
                Some(Self::Click { channel, ts, user, action_id, action_ts })
            }
            SlackChange::ClickAcked { action_ts, .. } => {
                Some(Self::ClickEnded { action_ts, acked: true })
            }
            SlackChange::ClickFailed { action_ts } => {
                Some(Self::ClickEnded { action_ts, acked: false })
            }
            SlackChange::Connections { .. } => None,
        }
    }

    fn event(&self) -> Event {
        Event::default().data(serde_json::to_string(self).unwrap_or_default())
    }
}

pub(super) async fn serve_state(State(inner): SharedPage) -> Json<PageSnapshot> {
    Json(inner.read(PageSnapshot::of))
}

pub(super) async fn serve_events(
    State(inner): SharedPage,
) -> Sse<impl Stream<Item = Result<Event, Infallible>>> {
    let changes = inner.read(|core| core.changes.subscribe());
    let stop = inner.stop.clone();
    let updates = stream::unfold((inner, changes), |(inner, mut changes)| async move {
        loop {
            let update = match changes.recv().await {
                Ok(change) => PageUpdate::of(&inner, change),
                Err(RecvError::Lagged(_)) => Some(PageUpdate::Reload),
                Err(RecvError::Closed) => return None,
            };
            if let Some(update) = update {
                return Some((Ok(update.event()), (inner, changes)));
            }
        }
    });
    Sse::new(updates.take_until(stop.cancelled_owned())).keep_alive(KeepAlive::default())
}
