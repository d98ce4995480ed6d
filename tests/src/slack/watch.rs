//! A test's view of the workspace: reads, waits and injected faults.

use std::time::Duration;

use tokio::sync::broadcast;
use tokio::time::Instant;

use super::SlackServer;
use super::delivery::{DeliveryStats, EventDelivery};
use super::driver::SlackError;
use super::limits::CallFault;
use super::view::{MessageView, SlackChange};
use super::world::SlackMessage;

/// Order in which held events are released.
#[derive(Debug, Clone)]
pub enum EventRelease {
    /// Held events in the order in which they occurred.
    InOrder,
    /// Held events, the newest first.
    Reversed,
    /// Events by position, oldest is 0; positions not named are dropped for good.
    Only(Vec<usize>),
}

/// Reads of the workspace's current state.
impl SlackServer {
    /// A thread, root first; or without a thread, what the channel shows, oldest first. Messages
    /// for one user's eyes are among them. Empty if there is no such channel or thread.
    pub fn messages(&self, channel: &str, thread: Option<&str>) -> Vec<MessageView> {
        self.inner.read(|core| {
            let Some(channel) = core.world.channels.get(channel) else { return Vec::new() };
            let belongs = |message: &&SlackMessage| match thread {
                Some(root) => message.ts == root || message.thread_ts.as_deref() == Some(root),
                None => message.thread_ts.is_none() || message.broadcast,
            };
            let all = channel.messages.values().chain(channel.ephemerals.values());
            let mut found: Vec<&SlackMessage> = all.filter(belongs).collect();
            found.sort_by(|a, b| a.ts.cmp(&b.ts));
            found.into_iter().map(|message| core.view(channel, message)).collect()
        })
    }

    /// Returns a message by channel and ts, if it exists.
    pub fn message(&self, channel: &str, ts: &str) -> Option<MessageView> {
        self.inner.read(|core| {
            let channel = core.world.channels.get(channel)?;
            channel.any_message(ts).map(|message| core.view(channel, message))
        })
    }

    /// Returns the app's status in a thread.
    pub fn status(&self, channel: &str, thread: &str) -> Option<String> {
        self.inner.read(|core| core.world.status(channel, thread).map(str::to_owned))
    }

    /// The bytes of an uploaded file.
    pub fn file(&self, id: &str) -> Option<Vec<u8>> {
        self.inner.read(|core| core.world.files.get(id)?.content.clone())
    }

    /// All changes from now on. A receiver that falls 4,096 behind loses the oldest.
    pub fn subscribe(&self) -> broadcast::Receiver<SlackChange> {
        self.inner.read(|core| core.changes.subscribe())
    }

    /// Live Socket Mode connections.
    pub fn connections(&self) -> usize {
        self.inner.read(|core| core.dispatcher.connections())
    }

    /// Returns the counters of deliveries of this run.
    pub fn stats(&self) -> DeliveryStats {
        self.inner.read(|core| core.dispatcher.stats.clone())
    }

    /// Time of the app's last acknowledgement.
    pub fn last_ack_at(&self) -> Option<Instant> {
        self.inner.read(|core| core.dispatcher.last_ack_at)
    }

    /// Every event and click of this run, in order.
    pub fn deliveries(&self) -> Vec<EventDelivery> {
        self.inner.read(|core| core.dispatcher.deliveries().cloned().collect())
    }

    /// Number of calls of a method that the rate limit refused.
    pub fn early_calls(&self, method: &str) -> u64 {
        self.inner.read(|core| core.limits.early.get(method).copied().unwrap_or_default())
    }

    /// Number of calls of a Web API method, injected faults included.
    pub fn calls(&self, method: &str) -> u64 {
        self.inner.read(|core| core.limits.calls.get(method).copied().unwrap_or_default())
    }

    /// Waits until `look` finds something; it is asked after every change.
    ///
    /// # Errors
    /// `SlackError::Timeout`, naming `what`.
    pub async fn wait_for<T>(
        &self,
        what: &str,
        deadline: Duration,
        mut look: impl FnMut(&Self) -> Option<T>,
    ) -> Result<T, SlackError> {
        let mut version = self.inner.version.subscribe();
        let found = async {
            loop {
                version.mark_unchanged();
                if let Some(found) = look(self) {
                    return found;
                }
                // The sender lives in `self`, so this can't fail.
                let _ = version.changed().await;
            }
        };
        let timeout = SlackError::Timeout { what: what.to_owned(), after: deadline };
        tokio::time::timeout(deadline, found).await.map_err(|_| timeout)
    }

    /// Waits for a message in a thread (or, without one, in the channel) that fits.
    pub async fn wait_message(
        &self,
        channel: &str,
        thread: Option<&str>,
        deadline: Duration,
        fits: impl Fn(&MessageView) -> bool,
    ) -> Result<MessageView, SlackError> {
        let look = |server: &Self| server.messages(channel, thread).into_iter().find(&fits);
        self.wait_for("such message", deadline, look).await
    }

    /// Waits until the app holds this many connections or more.
    pub async fn wait_connected(&self, least: usize, deadline: Duration) -> Result<(), SlackError> {
        let look = |server: &Self| (server.connections() >= least).then_some(());
        self.wait_for("Socket Mode connection", deadline, look).await
    }

    /// Waits until every event with this key (a message's ts, a click's `action_ts`) was
    /// acknowledged, and there is at least one.
    pub async fn wait_acked(&self, key: &str, deadline: Duration) -> Result<(), SlackError> {
        let look = |server: &Self| {
            server.inner.read(|core| {
                let all = core.dispatcher.deliveries();
                let mut mine = all.filter(|delivery| delivery.key == key).peekable();
                (mine.peek().is_some() && mine.all(|d| d.acked_at.is_some())).then_some(())
            })
        };
        self.wait_for("acknowledgement", deadline, look).await
    }
}

/// Faults that a test injects.
impl SlackServer {
    /// The next `times` calls of a Web API method (`*` for any) meet this fault.
    pub fn fail_next(&self, method: &str, times: usize, fault: &CallFault) {
        self.inner.update(|core| core.limits.order(method, times, fault));
    }

    /// Sends the events with this key (a message's ts, a click's `action_ts`) `times` more,
    /// acknowledged or not. Returns the envelopes sent: none without a connection.
    pub fn redeliver(&self, key: &str, times: usize) -> usize {
        self.inner.update(|core| (0..times).map(|_| core.dispatcher.repeat(key)).sum())
    }

    /// Keeps events back from now on.
    pub fn hold_events(&self) {
        self.inner.update(|core| core.dispatcher.hold());
    }

    /// Lets held events go, in this order. Returns how many.
    pub fn release_events(&self, order: &EventRelease) -> usize {
        self.inner.update(|core| {
            let held = core.dispatcher.unhold();
            let chosen: Vec<usize> = match order {
                EventRelease::InOrder => held,
                EventRelease::Reversed => held.into_iter().rev().collect(),
                EventRelease::Only(places) => {
                    places.iter().filter_map(|at| held.get(*at)).copied().collect()
                }
            };
            for event in &chosen {
                core.dispatcher.attempt(*event, 0);
            }
            chosen.len()
        })
    }

    /// Breaks every connection without a goodbye.
    pub fn drop_connections(&self) {
        self.inner.update(|core| core.dispatcher.abort_all());
    }

    /// Asks every connection to be replaced, as Slack does every few hours.
    pub fn request_refresh(&self) {
        self.inner.update(|core| core.dispatcher.disconnect_all("refresh_requested"));
    }

    /// Switches the app's Socket Mode off (`link_disabled`) or on again.
    pub fn enable_socket_mode(&self, on: bool) {
        self.inner.update(|core| {
            core.link_disabled = !on;
            if !on {
                core.dispatcher.disconnect_all("link_disabled");
            }
        });
    }
}
