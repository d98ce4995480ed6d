//! Event delivery over Socket Mode: connections, acknowledgements, retries. No input or output
//! here: frames go into channels, and timers are asked for rather than started.

use std::collections::BTreeMap;
use std::time::Duration;

use serde::Serialize;
use serde_json::{Value, json};
use tokio::sync::mpsc::{UnboundedReceiver, UnboundedSender, unbounded_channel};
use tokio::time::Instant;

use super::options::SlackTiming;
use super::world::SlackMessage;

/// An order to the task that owns a connection.
#[derive(Debug)]
pub(super) enum DeliveryOrder {
    /// Send this envelope to the client.
    Send(String),
    /// Say goodbye with this reason, then close after the grace time.
    Disconnect(&'static str),
    /// Break the connection without a word.
    Abort,
}

/// Timer that a caller has to start for the dispatcher.
#[derive(Debug)]
pub(super) enum DeliveryTimer {
    /// The time to acknowledge this envelope is over.
    Expire { envelope_id: String },
    /// Deliver an event once more.
    Retry { event: usize, attempt: usize },
    /// Give up an event: no retry is left.
    GiveUp { event: usize },
    /// Show uploaded files where they belong.
    Share { channels: Vec<String>, message: Box<SlackMessage> },
}

/// Payload type of an envelope.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum EnvelopeKind {
    /// Something happened in a channel. Redelivered when not acknowledged.
    EventsApi,
    /// A click. Slack does not redeliver it: the user sees a warning and may click again.
    Interactive,
}

/// Counters of deliveries so far.
#[derive(Debug, Clone, Default, Serialize)]
pub struct DeliveryStats {
    /// Events and clicks that came up.
    pub emitted: usize,
    /// Envelopes sent, repetitions included.
    pub delivered: usize,
    /// Events and clicks acknowledged, each once.
    pub acked: usize,
    /// Envelopes sent beyond the first of their event.
    pub redelivered: usize,
    /// Events given up, clicks failed.
    pub lost: usize,
    /// Acknowledgements that name no known envelope.
    pub unknown_acks: usize,
}

/// One event's way to the app.
#[derive(Debug, Clone)]
pub struct EventDelivery {
    /// Type of the envelope that carries it.
    pub kind: EnvelopeKind,
    /// `message`, `app_mention`, `reaction_added`, `block_actions`, ….
    pub event_type: String,
    /// `event_ts`; a new message's own ts, a click's `action_ts`.
    pub key: String,
    /// Event id, `Ev…`; absent on clicks.
    pub event_id: Option<String>,
    /// Number of envelopes sent for it.
    pub attempts: usize,
    /// Time at which the event occurred.
    pub emitted_at: Instant,
    /// Time of the app's first acknowledgement.
    pub acked_at: Option<Instant>,
    /// True if Slack gave up after the last retry.
    pub lost: bool,
}

/// Connections, and all events of this run.
#[derive(Debug)]
pub(super) struct EventDispatcher {
    timing: SlackTiming,
    connections: Vec<SocketConnection>,
    next: usize,
    connection_ids: u64,
    tickets: BTreeMap<String, bool>,
    events: Vec<DeliveredEvent>,
    envelopes: BTreeMap<String, (usize, SentAttempt)>,
    held: Option<Vec<usize>>,
    timers: Vec<(Duration, DeliveryTimer)>,
    pub stats: DeliveryStats,
    pub last_ack_at: Option<Instant>,
}

#[derive(Debug)]
struct SocketConnection {
    id: u64,
    orders: UnboundedSender<DeliveryOrder>,
    draining: bool,
}

#[derive(Debug)]
struct DeliveredEvent {
    delivery: EventDelivery,
    payload: Value,
}

#[derive(Debug, Clone, Copy)]
enum SentAttempt {
    /// The nth attempt of the ordinary schedule.
    Attempt(usize),
    /// An extra delivery that a test ordered; no retry follows.
    Extra,
}

impl EventDispatcher {
    pub(super) fn new(timing: SlackTiming) -> Self {
        Self {
            timing,
            connections: Vec::new(),
            next: 0,
            connection_ids: 0,
            tickets: BTreeMap::new(),
            events: Vec::new(),
            envelopes: BTreeMap::new(),
            held: None,
            timers: Vec::new(),
            stats: DeliveryStats::default(),
            last_ack_at: None,
        }
    }

    /// A ticket for one connection.
    pub(super) fn issue_ticket(&mut self) -> String {
        let ticket = uuid::Uuid::new_v4().to_string();
        self.tickets.insert(ticket.clone(), true);
        ticket
    }

    pub(super) fn redeem_ticket(&mut self, ticket: &str) -> bool {
        self.tickets.remove(ticket).is_some()
    }

    /// A new connection, unless there are `most` already.
    pub(super) fn connect(
        &mut self,
        most: usize,
    ) -> Option<(u64, UnboundedReceiver<DeliveryOrder>)> {
        if self.connections.len() >= most {
            return None;
        }
        self.connection_ids += 1;
        let (orders, inbox) = unbounded_channel();
        self.connections.push(SocketConnection {
            id: self.connection_ids,
            orders,
            draining: false,
        });
        Some((self.connection_ids, inbox))
    }

    pub(super) fn disconnected(&mut self, id: u64) {
        self.connections.retain(|connection| connection.id != id);
    }

    /// No new envelope goes to this connection.
    pub(super) fn drain(&mut self, id: u64) {
        for connection in self.connections.iter_mut().filter(|connection| connection.id == id) {
            connection.draining = true;
        }
    }

    /// Asks every connection to make way for a new one.
    pub(super) fn disconnect_all(&mut self, reason: &'static str) {
        for connection in &mut self.connections {
            connection.draining = true;
            let _ = connection.orders.send(DeliveryOrder::Disconnect(reason));
        }
    }

    /// Breaks every connection. They don't count any more from this moment.
    pub(super) fn abort_all(&mut self) {
        for connection in self.connections.drain(..) {
            let _ = connection.orders.send(DeliveryOrder::Abort);
        }
    }

    pub(super) fn connections(&self) -> usize {
        self.connections.len()
    }

    /// A new event: sent at once, or kept while events are held.
    pub(super) fn emit(
        &mut self,
        kind: EnvelopeKind,
        event_type: &str,
        key: &str,
        event_id: Option<String>,
        payload: Value,
    ) {
        self.stats.emitted += 1;
        let delivery = EventDelivery {
            kind,
            event_type: event_type.to_owned(),
            key: key.to_owned(),
            event_id,
            attempts: 0,
            emitted_at: Instant::now(),
            acked_at: None,
            lost: false,
        };
        self.events.push(DeliveredEvent { delivery, payload });
        let event = self.events.len() - 1;
        match &mut self.held {
            Some(held) => held.push(event),
            None => self.attempt(event, 0),
        }
    }

    pub(super) fn hold(&mut self) {
        self.held.get_or_insert_default();
    }

    /// Ends the hold and returns what piled up, oldest first.
    pub(super) fn unhold(&mut self) -> Vec<usize> {
        self.held.take().unwrap_or_default()
    }

    /// Sends an event for the first time or again, by the ordinary schedule.
    pub(super) fn attempt(&mut self, event: usize, attempt: usize) {
        if self.events.get(event).is_none_or(|event| event.delivery.acked_at.is_some()) {
            return;
        }
        match self.send(event, attempt) {
            Some(envelope_id) => {
                self.envelopes.insert(envelope_id.clone(), (event, SentAttempt::Attempt(attempt)));
                self.timers.push((self.timing.ack_timeout, DeliveryTimer::Expire { envelope_id }));
            }
            None => self.failed(event, attempt),
        }
    }

    /// Sends events with this key once more, whatever became of them; returns how many went out.
    pub(super) fn repeat(&mut self, key: &str) -> usize {
        let found: Vec<usize> = (0..self.events.len())
            .filter(|event| self.events[*event].delivery.key == key)
            .filter(|event| self.events[*event].delivery.attempts > 0)
            .collect();
        let mut sent = 0;
        for event in found {
            let attempt = self.events[event].delivery.attempts.min(3);
            if let Some(envelope_id) = self.send(event, attempt) {
                self.envelopes.insert(envelope_id, (event, SentAttempt::Extra));
                sent += 1;
            }
        }
        sent
    }

    fn send(&mut self, event: usize, attempt: usize) -> Option<String> {
        let ready: Vec<usize> =
            (0..self.connections.len()).filter(|at| !self.connections[*at].draining).collect();
        let chosen = *ready.get(self.next % ready.len().max(1))?;
        self.next = self.next.wrapping_add(1);
        let envelope_id = uuid::Uuid::new_v4().to_string();
        let event = &mut self.events[event];
        let mut envelope = json!({
            "envelope_id": envelope_id,
            "payload": event.payload,
            "accepts_response_payload": false,
        });
        match event.delivery.kind {
            EnvelopeKind::EventsApi => {
                envelope["type"] = json!("events_api");
                envelope["retry_attempt"] = json!(attempt);
                envelope["retry_reason"] = json!(if attempt == 0 { "" } else { "timeout" });
            }
            EnvelopeKind::Interactive => envelope["type"] = json!("interactive"),
        }
        self.connections[chosen].orders.send(DeliveryOrder::Send(envelope.to_string())).ok()?;
        self.stats.delivered += 1;
        if event.delivery.attempts > 0 {
            self.stats.redelivered += 1;
        }
        event.delivery.attempts += 1;
        Some(envelope_id)
    }

    /// An acknowledgement; returns the event if it is its first.
    pub(super) fn ack(&mut self, envelope_id: &str) -> Option<&EventDelivery> {
        let Some((event, _)) = self.envelopes.get(envelope_id) else {
            self.stats.unknown_acks += 1;
            return None;
        };
        let now = Instant::now();
        self.last_ack_at = Some(now);
        let delivery = &mut self.events[*event].delivery;
        if delivery.acked_at.is_some() {
            return None;
        }
        delivery.acked_at = Some(now);
        self.stats.acked += 1;
        Some(delivery)
    }

    /// A timer went off; returns the event if it is lost now.
    pub(super) fn fire(&mut self, timer: DeliveryTimer) -> Option<&EventDelivery> {
        match timer {
            DeliveryTimer::Retry { event, attempt } => self.attempt(event, attempt),
            DeliveryTimer::Expire { envelope_id } => {
                let (event, sent) = *self.envelopes.get(&envelope_id)?;
                if let SentAttempt::Attempt(attempt) = sent
                    && self.events[event].delivery.acked_at.is_none()
                {
                    self.failed(event, attempt);
                }
            }
            DeliveryTimer::GiveUp { event } => {
                let delivery = &mut self.events.get_mut(event)?.delivery;
                if delivery.acked_at.is_none() && !delivery.lost {
                    delivery.lost = true;
                    self.stats.lost += 1;
                    return Some(delivery);
                }
            }
            DeliveryTimer::Share { .. } => {}
        }
        None
    }

    fn failed(&mut self, event: usize, attempt: usize) {
        let delay = match self.events[event].delivery.kind {
            EnvelopeKind::EventsApi => self.timing.retry_delays.get(attempt),
            EnvelopeKind::Interactive => None,
        };
        self.timers.push(match delay {
            Some(delay) => (*delay, DeliveryTimer::Retry { event, attempt: attempt + 1 }),
            None => (Duration::ZERO, DeliveryTimer::GiveUp { event }),
        });
    }

    pub(super) fn later(&mut self, after: Duration, timer: DeliveryTimer) {
        self.timers.push((after, timer));
    }

    pub(super) fn take_timers(&mut self) -> Vec<(Duration, DeliveryTimer)> {
        std::mem::take(&mut self.timers)
    }

    pub(super) fn deliveries(&self) -> impl Iterator<Item = &EventDelivery> {
        self.events.iter().map(|event| &event.delivery)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn dispatcher() -> EventDispatcher {
        EventDispatcher::new(SlackTiming::brisk())
    }

    fn emit(dispatcher: &mut EventDispatcher, key: &str) {
        let kind = EnvelopeKind::EventsApi;
        dispatcher.emit(kind, "message", key, Some(format!("Ev{key}")), json!({ "key": key }));
    }

    fn received(inbox: &mut UnboundedReceiver<DeliveryOrder>) -> Value {
        match inbox.try_recv() {
            Ok(DeliveryOrder::Send(text)) => serde_json::from_str(&text).unwrap(),
            other => panic!("no envelope but {other:?}"),
        }
    }

    #[tokio::test]
    async fn each_event_goes_to_one_connection_in_turn() {
        let mut dispatcher = dispatcher();
        let (_, mut first) = dispatcher.connect(2).unwrap();
        let (_, mut second) = dispatcher.connect(2).unwrap();
        assert!(dispatcher.connect(2).is_none());
        emit(&mut dispatcher, "1");
        emit(&mut dispatcher, "2");
        assert_eq!(received(&mut first)["payload"]["key"], "1");
        assert_eq!(received(&mut second)["payload"]["key"], "2");
        assert!(first.try_recv().is_err());
    }

    #[tokio::test]
    async fn unacknowledged_events_come_three_times_more() {
        let mut dispatcher = dispatcher();
        let (_, mut inbox) = dispatcher.connect(1).unwrap();
        emit(&mut dispatcher, "1");
        let mut seen = Vec::new();
        while let Some((_, timer)) = dispatcher.take_timers().pop() {
            if let DeliveryTimer::Expire { .. } = &timer {
                let envelope = received(&mut inbox);
                assert_eq!(envelope["payload"]["key"], "1");
                seen.push(envelope["retry_attempt"].as_u64().unwrap());
            }
            dispatcher.fire(timer);
        }
        assert_eq!(seen, [0, 1, 2, 3]);
        assert_eq!(dispatcher.stats.lost, 1);
    }

    #[tokio::test]
    async fn acknowledged_events_stay_quiet_unless_repeated() {
        let mut dispatcher = dispatcher();
        let (_, mut inbox) = dispatcher.connect(1).unwrap();
        emit(&mut dispatcher, "1");
        let envelope = received(&mut inbox);
        assert!(dispatcher.ack(envelope["envelope_id"].as_str().unwrap()).is_some());
        for (_, timer) in dispatcher.take_timers() {
            assert!(dispatcher.fire(timer).is_none());
        }
        assert!(inbox.try_recv().is_err());
        assert_eq!(dispatcher.repeat("1"), 1);
        let again = received(&mut inbox);
        assert_ne!(again["envelope_id"], envelope["envelope_id"]);
        assert_eq!(again["retry_attempt"], 1);
        assert!(dispatcher.ack(again["envelope_id"].as_str().unwrap()).is_none());
        assert_eq!(dispatcher.stats.acked, 1);
    }

    #[tokio::test]
    async fn clicks_are_not_redelivered() {
        let mut dispatcher = dispatcher();
        dispatcher.emit(EnvelopeKind::Interactive, "block_actions", "1", None, json!({}));
        let (_, timer) = dispatcher.take_timers().pop().unwrap();
        assert!(dispatcher.fire(timer).is_some());
        assert!(dispatcher.take_timers().is_empty());
        assert_eq!(dispatcher.stats.lost, 1);
    }
}
