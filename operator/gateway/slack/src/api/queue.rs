//! Queue and rate limits of calls to Slack. Messages go one after the other and at most about one a second and
//! channel, fairly between its conversations and in order within each. All other calls go at once while their
//! method's budget lasts, and from then on one by one, as fast as its tier allows; the same after Slack said
//! "later". Calls that people wait for have the whole budget, upkeep only the half that nobody needs.

mod budget;

use std::collections::{HashMap, VecDeque};
use std::hash::{DefaultHasher, Hash as _, Hasher as _};
use std::sync::Arc;
use std::time::Duration;

use parking_lot::{Mutex, MutexGuard};
use tokio::sync::oneshot;
use tokio::time::{Instant, sleep_until};

use self::budget::{CallBudget, CallGrant};
use crate::metrics::SlackMetrics;

/// Messages that may follow each other at once; Slack takes a few more.
const BURST: u32 = 4;
/// Interval between two messages once the burst is over.
const EVERY: Duration = Duration::from_secs(1);
/// Time for which a method is called one by one after Slack said "later".
const CAREFUL: Duration = Duration::from_mins(2);
/// Most of a method's calls that can be saved up, in tenths of a second of its tier.
const SAVED: u32 = 450;
/// Time for which upkeep lets others go first, in calls of the method's pace. Then it is one of them: what
/// nobody delivered is read back however much people do.
const YIELDS: u32 = 6;
const POST: &str = "chat.postMessage";
/// Lanes that are remembered while nobody uses them.
const REMEMBERED: usize = 1024;

/// Calls that wait for each other: a method, of one app (a hash of its token), and a channel for
/// messages.
type CallLane = (u64, &'static str, String);

/// All lanes of calls. Clones share them.
#[derive(Clone, Debug)]
pub(crate) struct CallQueue {
    lanes: Arc<Mutex<HashMap<CallLane, QueueState>>>,
    metrics: SlackMetrics,
    /// Interval between two messages of a channel.
    every: Duration,
}

#[derive(Debug, Default)]
struct QueueState {
    busy: bool,
    waiting: VecDeque<WaitingCall>,
    /// Number of the turn in which each conversation was last served; grows with every turn.
    served: HashMap<String, u64>,
    turns: u64,
    /// Budget of calls that may go at once; messages have none.
    budget: Option<CallBudget>,
    /// Time at which the next call would go if none had ever gone early.
    next: Option<Instant>,
    /// Time until which calls go one by one, as Slack said "later".
    careful_until: Option<Instant>,
}

#[derive(Debug)]
struct WaitingCall {
    thread: String,
    urgency: CallUrgency,
    /// Time until which others go before it, if it is upkeep.
    yields: Instant,
    wake: oneshot::Sender<CallTurn>,
}

/// Priority of a call, by whether somebody waits for it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum CallUrgency {
    Awaited,
    /// Reads back what nothing delivered, to be sure.
    Upkeep,
}

/// A call that asks for its turn, and its caller.
#[derive(Clone, Copy, Debug)]
pub(crate) struct QueuedCall<'a> {
    pub app: &'a str,
    pub method: &'static str,
    pub channel: &'a str,
    pub thread: &'a str,
    pub urgency: CallUrgency,
}

/// Permission to make one call; the next one's turn comes when it is dropped.
#[derive(Debug)]
pub(crate) struct CallTurn {
    queue: CallQueue,
    lane: CallLane,
    /// False where calls need not wait for each other.
    held: bool,
}

/// Interval between two calls of a method's tier, in tenths of the time between two messages.
const fn tier_tenths(method: &str) -> u32 {
    match method.as_bytes() {
        b"chat.postMessage" => 10,
        b"reactions.remove" | b"conversations.list" | b"conversations.create" => 30,
        b"chat.postEphemeral"
        | b"files.info"
        | b"files.completeUploadExternal"
        | b"files.getUploadURLExternal"
        | b"users.info" => 6,
        _ => 12,
    }
}

impl CallQueue {
    pub(crate) fn new(metrics: SlackMetrics) -> Self {
        Self { lanes: Arc::default(), metrics, every: EVERY }
    }

    fn pace(&self, method: &str) -> Duration {
        self.every * tier_tenths(method) / 10
    }

    /// Waits for the turn to make a call.
    pub(crate) async fn turn(&self, asked: QueuedCall<'_>) -> CallTurn {
        let posts = asked.method == POST;
        let mut hasher = DefaultHasher::new();
        asked.app.hash(&mut hasher);
        let channel = if posts { asked.channel } else { "" };
        let lane = (hasher.finish(), asked.method, channel.to_owned());
        let _waiting = self.metrics.send_waits();
        let yields = Instant::now() + self.pace(asked.method) * YIELDS;
        let turn = loop {
            let over = asked.urgency == CallUrgency::Upkeep && Instant::now() >= yields;
            let urgency = if over { CallUrgency::Awaited } else { asked.urgency };
            match self.enter(&lane, &QueuedCall { urgency, ..asked }, yields) {
                QueueEntry::In(turn) => break *turn,
                QueueEntry::Again(wait) => tokio::time::sleep(wait).await,
                QueueEntry::Waits(woken) => match woken.await {
                    Ok(turn) => break turn,
                    // Can't be: a waiter is dropped with its queue only.
                    Err(_) => return CallTurn { queue: self.clone(), lane, held: false },
                },
            }
        };
        if let Some(at) = self.due(&turn) {
            sleep_until(at).await;
        }
        turn
    }

    fn enter(&self, lane: &CallLane, asked: &QueuedCall<'_>, yields: Instant) -> QueueEntry {
        let mut lanes = self.lock();
        if lanes.len() >= REMEMBERED && !lanes.contains_key(lane) {
            let now = Instant::now();
            let idle =
                |state: &QueueState| !state.busy && state.next.is_none_or(|next| next <= now);
            lanes.retain(|_, state| !idle(state));
        }
        let state = lanes.entry(lane.clone()).or_default();
        let now = Instant::now();
        let careful = state.careful_until.is_some_and(|until| until > now);
        let turn = |held| CallTurn { queue: self.clone(), lane: lane.clone(), held };
        if lane.1 != POST && !careful && !state.busy {
            let budget = state
                .budget
                .get_or_insert_with(|| CallBudget::full(SAVED / tier_tenths(lane.1), now));
            match budget.take(asked.urgency, self.pace(lane.1), now) {
                CallGrant::Go => return QueueEntry::In(Box::new(turn(false))),
                CallGrant::Wait(wait) if asked.urgency == CallUrgency::Upkeep => {
                    return QueueEntry::Again(wait);
                }
                CallGrant::Wait(wait) => state.next = state.next.max(Some(now + wait)),
            }
        }
        if state.busy {
            let (wake, woken) = oneshot::channel();
            let (thread, urgency) = (asked.thread.to_owned(), asked.urgency);
            state.waiting.push_back(WaitingCall { thread, urgency, yields, wake });
            return QueueEntry::Waits(woken);
        }
        state.busy = true;
        state.serve(asked.thread);
        QueueEntry::In(Box::new(turn(true)))
    }

    /// Reserves the slot of a call that has its turn; returns its time, or `None` if the call may go at once.
    fn due(&self, turn: &CallTurn) -> Option<Instant> {
        if !turn.held {
            return None;
        }
        let mut lanes = self.lock();
        let state = lanes.get_mut(&turn.lane)?;
        let now = Instant::now();
        let every = self.pace(turn.lane.1);
        let careful = state.careful_until.is_some_and(|until| until > now);
        let posts = turn.lane.1 == POST;
        if let Some(budget) = &mut state.budget {
            budget.spend(now);
        }
        let early = if careful || !posts { Duration::ZERO } else { self.every * (BURST - 1) };
        let at = state.next.map_or(now, |next| next.max(now));
        state.next = Some(at + every);
        at.checked_sub(early).filter(|at| *at > now)
    }

    /// Ends a turn: the conversation that has waited longest is next.
    fn pass_on(&self, lane: &CallLane) {
        loop {
            let waiter = {
                let mut lanes = self.lock();
                let Some(state) = lanes.get_mut(lane) else { return };
                let Some(waiter) = state.pick() else {
                    state.busy = false;
                    return;
                };
                waiter
            };
            let turn = CallTurn { queue: self.clone(), lane: lane.clone(), held: true };
            match waiter.wake.send(turn) {
                Ok(()) => return,
                // The waiter has gone: the next one is asked.
                Err(mut turn) => turn.held = false,
            }
        }
    }

    fn lock(&self) -> MutexGuard<'_, HashMap<CallLane, QueueState>> {
        self.lanes.lock()
    }
}

enum QueueEntry {
    In(Box<CallTurn>),
    /// No turn yet, so as not to be in the way of others: to be asked again after this time.
    Again(Duration),
    Waits(oneshot::Receiver<CallTurn>),
}

impl QueueState {
    fn serve(&mut self, thread: &str) {
        self.turns += 1;
        if self.served.len() > 256 {
            self.served.clear();
        }
        self.served.insert(thread.to_owned(), self.turns);
    }

    fn pick(&mut self) -> Option<WaitingCall> {
        let last = |waiter: &WaitingCall| self.served.get(&waiter.thread).copied().unwrap_or(0);
        let now = Instant::now();
        let urgency =
            |one: &WaitingCall| if one.yields <= now { CallUrgency::Awaited } else { one.urgency };
        // Of equals the first: order within a conversation is kept.
        let order = |(place, one): &(usize, &WaitingCall)| (urgency(one), last(one), *place);
        let (place, _) = self.waiting.iter().enumerate().min_by_key(order)?;
        let waiter = self.waiting.remove(place)?;
        self.serve(&waiter.thread);
        Some(waiter)
    }
}

impl CallTurn {
    /// Notes that Slack said "later": until then nobody calls this method, and afterwards one by one.
    pub(crate) fn later(&self, wait: Duration) {
        let now = Instant::now();
        let mut lanes = self.queue.lock();
        let state = lanes.entry(self.lane.clone()).or_default();
        state.careful_until = Some(now + wait + CAREFUL);
        state.next = state.next.max(Some(now + wait + self.queue.pace(self.lane.1)));
    }
}

impl Drop for CallTurn {
    fn drop(&mut self) {
        if self.held {
            self.queue.pass_on(&self.lane);
        }
    }
}

#[cfg(test)]
mod tests {
    use prometheus_client::registry::Registry;

    use super::*;

    const EVERY: Duration = Duration::from_millis(80);

    fn queue() -> CallQueue {
        CallQueue { every: EVERY, ..CallQueue::new(SlackMetrics::new(&mut Registry::default())) }
    }

    fn asked<'a>(method: &'static str, channel: &'a str, thread: &'a str) -> QueuedCall<'a> {
        QueuedCall { app: "app", method, channel, thread, urgency: CallUrgency::Awaited }
    }

    /// Sends these calls, each in a task of its own, in this order of arrival. Returns the order in which they
    /// went, and when.
    async fn sent(
        queue: &CallQueue,
        calls: &[(&'static str, &str, &str)],
    ) -> Vec<(String, Duration)> {
        let start = Instant::now();
        let went = Arc::new(Mutex::new(Vec::new()));
        let mut tasks = Vec::new();
        for (n, (method, channel, thread)) in calls.iter().enumerate() {
            let (queue, went, method) = (queue.clone(), Arc::clone(&went), *method);
            let (channel, thread) = ((*channel).to_owned(), (*thread).to_owned());
            tasks.push(tokio::spawn(async move {
                let _turn = queue.turn(asked(method, &channel, &thread)).await;
                went.lock().push((format!("{thread}{n}"), start.elapsed()));
                // A call takes a while; others arrive meanwhile.
                tokio::task::yield_now().await;
            }));
        }
        for task in tasks {
            task.await.unwrap();
        }
        let went = went.lock();
        went.clone()
    }

    fn order(went: &[(String, Duration)]) -> Vec<&str> {
        went.iter().map(|(name, _)| name.as_str()).collect()
    }

    #[tokio::test]
    async fn a_burst_goes_in_order_and_then_one_at_a_time() {
        let went = sent(&queue(), &[(POST, "C1", "a"); 8]).await;
        assert_eq!(order(&went), ["a0", "a1", "a2", "a3", "a4", "a5", "a6", "a7"]);
        for (n, (_, at)) in went.iter().enumerate().skip(BURST as usize) {
            let least = EVERY * (u32::try_from(n).unwrap() + 1 - BURST);
            assert!(*at >= least, "{n} went after {at:?}, not {least:?}");
        }
    }

    #[tokio::test]
    async fn a_talkative_conversation_does_not_keep_the_others_waiting() {
        let mut calls = vec![(POST, "C1", "a"); 6];
        calls.extend([(POST, "C1", "b"), (POST, "C2", "c")]);
        let went = sent(&queue(), &calls).await;
        let here: Vec<_> = order(&went).into_iter().filter(|name| *name != "c7").collect();
        assert_eq!(here, ["a0", "b6", "a1", "a2", "a3", "a4", "a5"]);
    }

    #[tokio::test]
    async fn who_stops_waiting_leaves_no_gap() {
        let queue = queue();
        let first = queue.turn(asked(POST, "C1", "a")).await;
        let gone = tokio::spawn({
            let queue = queue.clone();
            async move { drop(queue.turn(asked(POST, "C1", "b")).await) }
        });
        tokio::task::yield_now().await;
        gone.abort();
        let _ = gone.await;
        drop(first);
        let next = queue.turn(asked(POST, "C1", "c"));
        assert!(tokio::time::timeout(Duration::from_secs(20), next).await.is_ok());
    }

    #[tokio::test]
    async fn upkeep_leaves_half_of_a_method_to_what_people_wait_for() {
        let queue = queue();
        let read = "conversations.replies";
        let mut sweeps = 0;
        let upkeep = QueuedCall { urgency: CallUrgency::Upkeep, ..asked(read, "C1", "") };
        while tokio::time::timeout(EVERY / 4, queue.turn(upkeep)).await.is_ok() {
            sweeps += 1;
            assert!(sweeps < 100, "upkeep takes everything");
        }
        let start = Instant::now();
        for _ in 0..15 {
            queue.turn(asked(read, "C1", "a")).await;
        }
        assert!(sweeps >= 15 && start.elapsed() < EVERY, "{sweeps}, {:?}", start.elapsed());
    }

    #[tokio::test]
    async fn what_is_over_the_budget_goes_at_the_pace_of_its_tier_and_upkeep_last() {
        let queue = queue();
        let read = "conversations.replies";
        for _ in 0..37 {
            queue.turn(asked(read, "C1", "a")).await;
        }
        let start = Instant::now();
        sent(&queue, &[(read, "C1", "a"); 6]).await;
        assert!(start.elapsed() >= queue.pace(read) * 2, "{:?}", start.elapsed());
    }

    #[tokio::test]
    async fn upkeep_waits_for_people_for_a_bounded_time_only() {
        let queue = queue();
        let read = "conversations.replies";
        let people = tokio::spawn({
            let queue = queue.clone();
            async move {
                loop {
                    queue.turn(asked(read, "C1", "a")).await;
                }
            }
        });
        // Until all that was saved up is used.
        tokio::time::sleep(EVERY).await;
        let upkeep = QueuedCall { urgency: CallUrgency::Upkeep, ..asked(read, "C1", "") };
        let patience = queue.pace(read) * (YIELDS + 4);
        for _ in 0..2 {
            assert!(tokio::time::timeout(patience, queue.turn(upkeep)).await.is_ok());
        }
        people.abort();
    }

    #[tokio::test]
    async fn later_is_for_all_calls_of_the_method_which_then_go_one_by_one() {
        let queue = queue();
        let add = "reactions.add";
        let turn = queue.turn(asked(add, "C1", "a")).await;
        turn.later(EVERY * 3);
        drop(turn);
        let calls = [(add, "C1", "a"), (add, "C2", "b"), ("chat.update", "C1", "c")];
        let went = sent(&queue, &calls).await;
        let at = |name: &str| went.iter().find(|(went, _)| went == name).unwrap().1;
        assert!(at("a0") >= EVERY * 3 && at("b1") >= EVERY * 4, "{went:?}");
        assert_eq!(order(&went)[0], "c2");
    }
}
