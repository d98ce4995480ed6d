//! The calls that a session works on: whose they are, and what their server has asked for meanwhile.

use std::pin::pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use codebutler_crds::NanoUsd;
use codebutler_gateway_core::caller::ProvenCaller;
use parking_lot::Mutex;
use tokio::sync::Notify;

use super::super::masking::WordGuard;

/// Calls that one session works on.
#[derive(Default)]
pub(crate) struct SessionCallers {
    next: AtomicU64,
    running: Mutex<Vec<RunningCall>>,
    /// Wakes waiters when a call has ended.
    ended: Notify,
}

/// A call that a session works on.
struct RunningCall {
    id: u64,
    caller: ProvenCaller,
    guard: WordGuard,
    /// Number of samplings that the server has asked for, and its use of models so far.
    samplings: u32,
    model: ModelUse,
    /// Questions that the server has asked.
    questions: u32,
    /// The thread was told of a question that was declined.
    has_declined: bool,
}

/// Use of models by a server during a call: answers and their cost.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct ModelUse {
    /// Number of answers.
    pub answers: u32,
    /// Cost in billionths of a USD.
    pub cost: NanoUsd,
}

/// A call under way: its caller is known to the session until this is dropped.
pub struct CallerMark {
    callers: Arc<SessionCallers>,
    id: u64,
}

impl SessionCallers {
    /// Registers a call that the session works on.
    pub(crate) fn begin(self: &Arc<Self>, caller: &ProvenCaller, guard: &WordGuard) -> CallerMark {
        let id = self.next.fetch_add(1, Ordering::Relaxed);
        let (caller, guard) = (caller.clone(), guard.clone());
        self.running.lock().push(RunningCall {
            id,
            caller,
            guard,
            samplings: 0,
            model: ModelUse::default(),
            questions: 0,
            has_declined: false,
        });
        CallerMark { callers: Arc::clone(self), id }
    }

    /// The caller of all calls under way, if they have one: a server does not say which call a question is about.
    pub(crate) fn only_one(&self) -> Option<(ProvenCaller, WordGuard)> {
        only_caller(&self.running.lock())
    }

    /// Returns when no call of this caller is under way any more.
    pub(super) async fn await_end(&self, caller: &ProvenCaller) {
        loop {
            let mut ended = pin!(self.ended.notified());
            ended.as_mut().enable();
            let is_theirs = |call: &RunningCall| is_same_role(&call.caller, caller);
            if !self.running.lock().iter().any(is_theirs) {
                return;
            }
            ended.await;
        }
    }

    /// [`Self::only_one`], for an answer of a model, and how many of them its calls have asked for with it.
    pub(crate) fn count_sampling(&self) -> Option<(ProvenCaller, WordGuard, u32)> {
        let mut running = self.running.lock();
        let (caller, guard) = only_caller(&running)?;
        let first = running.first_mut()?;
        first.samplings += 1;
        let count = running.iter().map(|call| call.samplings).sum();
        Some((caller, guard, count))
    }

    /// An answer of a model was paid for. Where several calls of a role are under way it counts for the oldest, since
    /// a server does not say which one it works on.
    pub(crate) fn count_answer(&self, caller: &ProvenCaller, cost: NanoUsd) {
        let mut running = self.running.lock();
        let mut own = running.iter_mut().filter(|call| is_same_role(&call.caller, caller));
        if let Some(first) = own.next() {
            first.model.answers = first.model.answers.saturating_add(1);
            first.model.cost += cost;
        }
    }

    /// [`Self::only_one`], for a question to a person, and how many of them there were in its calls, with it.
    pub(super) fn count_question(&self) -> Option<(ProvenCaller, WordGuard, u32)> {
        let mut running = self.running.lock();
        let (caller, guard) = only_caller(&running)?;
        let first = running.first_mut()?;
        first.questions = first.questions.saturating_add(1);
        let count = running.iter().map(|call| call.questions).fold(0, u32::saturating_add);
        Some((caller, guard, count))
    }

    /// True for the first question of a call that is declined. Several calls at once count as one.
    pub(super) fn begin_decline(&self, caller: &ProvenCaller) -> bool {
        let mut running = self.running.lock();
        let own = || |call: &&mut RunningCall| is_same_role(&call.caller, caller);
        if running.iter_mut().filter(own()).any(|call| call.has_declined) {
            return false;
        }
        running.iter_mut().filter(own()).for_each(|call| call.has_declined = true);
        true
    }
}

fn only_caller(running: &[RunningCall]) -> Option<(ProvenCaller, WordGuard)> {
    let RunningCall { caller, guard, .. } = running.first()?;
    let all = running.iter().all(|other| is_same_role(&other.caller, caller));
    all.then(|| (caller.clone(), guard.clone()))
}

fn is_same_role(one: &ProvenCaller, other: &ProvenCaller) -> bool {
    one.key() == other.key() && one.role_name() == other.role_name()
}

impl CallerMark {
    /// Ends the call; answers of a model that its server got for it.
    pub fn end(self) -> ModelUse {
        let running = self.callers.running.lock();
        let own = running.iter().find(|call| call.id == self.id);
        own.map(|call| call.model).unwrap_or_default()
    }
}

impl Drop for CallerMark {
    fn drop(&mut self) {
        self.callers.running.lock().retain(|call| call.id != self.id);
        self.callers.ended.notify_waiters();
    }
}
